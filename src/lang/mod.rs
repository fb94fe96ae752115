//! The basis of all small languages. It has tokens, precedence, operators, quantities with units, and errors with positions.

mod count;
mod diagnostic;
pub(crate) mod expr;
pub mod find;
pub(crate) mod lex;
pub(crate) mod parse;
pub mod quantity;

pub use count::{counted, thousands};
pub use diagnostic::{Diagnostic, is_misspelled, nearest, nearest_hint};
