//! Tables: columns and rows, row keys, and rows by stack or container.

pub(crate) mod columns;
pub(crate) mod containers;
pub(crate) mod key_names;
pub(crate) mod rowkey;
pub(crate) mod sheet;
pub(crate) mod stack_labels;
