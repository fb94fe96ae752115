//! Source lines and inlined functions, from DWARF.

pub(crate) mod cost;
pub mod lines;
pub(crate) mod split;
