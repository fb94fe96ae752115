//! Tables of function names, and how names are written.

pub(crate) mod demangle;
pub mod kallsyms;
pub(crate) mod loaded;
pub mod objects;
pub mod shipped;
pub(crate) mod table;
