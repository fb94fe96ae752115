//! Files that others name: finds them, decides whether to trust them, and isolates their parsers.

pub mod door;
pub mod find_file;
pub(crate) mod isolated;
pub(crate) mod same_file;
