//! What all small languages share: tokens, precedence, quantities with their units, and faults with their place.

mod fault;
pub mod lex;
pub mod parse;
pub mod quantity;

pub use fault::{Fault, nearest};
