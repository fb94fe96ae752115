//! Commands: those of every screen, and the table of all; those of one screen lie in its folder.

pub mod general;
pub mod program;
pub mod table;
