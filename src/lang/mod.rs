//! The common ground of all small languages: tokens, precedence, quantities with their units, and faults with their
//! place.

mod diagnostic;
pub mod find;
pub(crate) mod lex;
pub(crate) mod parse;
pub mod quantity;

pub use diagnostic::{Diagnostic, nearest, nearest_hint};
