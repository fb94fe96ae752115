//! The small vocabulary that everything is shown with. Screens, text, CSV and JSON are made from
//! panels, so a figure looks the same wherever it is read.

pub mod annotate;
pub mod table;
pub mod text;
pub mod top;
pub mod tree;
pub mod unit;

pub use table::{Align, Cell, Column, Table};
