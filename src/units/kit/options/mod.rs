//! The options of units: their table, the events and tasks that they select, and what a unit receives.

pub(crate) mod detail;
pub(crate) mod inputs;
pub mod scope;
pub(crate) mod select;
pub mod settings;
pub(crate) mod target;
