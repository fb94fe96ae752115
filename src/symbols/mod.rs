//! Names for addresses. The kernel's are from kallsyms, those of user code from the mapped file and its separate debug
//! files, a JIT's from the files it writes.
//!
//! [`Resolver`] is a chain: each kind of DSO has its sources in order. An unknown address stays an address.

pub mod bytes;
pub mod code;
pub mod debug_image;
pub(crate) mod debug_package;
pub mod dwarf;
pub(crate) mod elf;
pub mod jit;
pub mod languages;
mod moved_text;
pub mod names;
pub(crate) mod options;
pub mod problem;
pub(crate) mod profile_names;
pub mod resolver;
pub(crate) mod shares;
pub(crate) mod spaces;
pub mod trust;
pub mod unwind;

pub use dwarf::lines;
pub use names::demangle::NameForm;
pub use names::loaded::Symbolized;
pub use names::{kallsyms, objects, shipped};
pub use options::SymbolOptions;
pub use problem::{Problem, ProblemKind};
pub use resolver::Resolver;
pub(crate) use trust::isolated;
pub use trust::{door, find_file};
