//! What all small languages share: quantities with their units, and faults with their place.

mod fault;
pub mod quantity;

pub use fault::{Fault, nearest};
