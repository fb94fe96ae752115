//! Names for addresses: the kernel's from kallsyms, user code from the symbol tables of the file
//! that was really mapped.
//!
//! [`Resolver`] is a chain: each kind of DSO has its sources in order, and what none of them
//! knows stays an address.

pub mod demangle;
pub mod elf;
pub mod files;
pub mod kallsyms;
pub mod perfmap;
pub mod resolver;
pub mod table;

pub use resolver::{Found, Resolver};
pub use table::SymbolTable;
