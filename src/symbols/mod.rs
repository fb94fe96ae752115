//! Names for addresses. The kernel's are from kallsyms, those of user code from the mapped file and its separate debug
//! files, a JIT's from the files it writes.
//!
//! [`Resolver`] is a chain: each kind of DSO has its sources in order. An address that none of them knows stays an
//! address.

mod bounds;
pub mod bytes;
pub mod code;
pub mod debug_image;
pub(crate) mod demangle;
pub mod door;
mod dwarf_cost;
pub(crate) mod elf;
pub mod find_file;
pub(crate) mod go_table;
pub(crate) mod guard;
pub mod jit;
pub mod jit_functions;
pub(crate) mod jit_reuse;
pub mod jit_slice;
pub(crate) mod jit_unwind;
pub mod jitdump;
pub(crate) mod jits;
pub mod kallsyms;
pub mod lines;
mod linked;
pub(crate) mod loaded;
mod moved_text;
pub mod objects;
pub(crate) mod options;
pub(crate) mod plt;
pub mod problem;
pub(crate) mod program;
pub mod resolver;
pub(crate) mod same_file;
mod section;
pub(crate) mod shares;
pub mod shipped;
pub(crate) mod spaces;
mod split_dwarf;
pub(crate) mod table;
pub mod unwind;
pub mod unwind_rows;

pub use demangle::NameForm;
pub use loaded::Symbolized;
pub use options::SymbolOptions;
pub use problem::{Problem, ProblemKind};
pub use resolver::Resolver;
