//! Commands of every screen, and the table of all commands. Those of a single screen are in its folder.

pub mod general;
pub mod program;
pub mod table;
