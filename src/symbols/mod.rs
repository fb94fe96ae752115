//! Names for addresses: the kernel's from kallsyms, user code from the file that was really mapped and
//! from what was split off from it, a JIT's from what it tells.
//!
//! [`Resolver`] is a chain: each kind of DSO has its sources in order, and what none of them
//! knows stays an address.

mod bounds;
pub mod bytes;
pub mod code;
mod cost;
pub mod demangle;
pub mod door;
pub mod elf;
pub mod given;
pub mod image;
pub mod jit;
pub mod jitdump;
pub mod jits;
pub mod kallsyms;
pub mod lines;
mod loaded;
pub mod places;
pub mod plt;
pub mod resolver;
pub mod rows;
pub mod shares;
pub mod spaces;
pub mod table;
pub mod told;
pub mod unwind;

pub use demangle::Form;
pub use resolver::{Found, Options, Resolver};
pub use table::SymbolTable;
