//! Call trees of rows, stacks by function name, and rules for stacks.

pub mod chains;
pub(crate) mod collapse;
pub(crate) mod heaviest_chain;
pub mod origins;
pub mod stack_marks;
pub(crate) mod symbol_stacks;
