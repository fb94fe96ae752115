//! What all small languages share: tokens, precedence, quantities with their units, and faults with their place.

mod diagnostic;
pub mod lex;
pub mod parse;
pub mod quantity;

pub use diagnostic::{Diagnostic, nearest, nearest_hint};
