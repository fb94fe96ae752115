//! The overview: findings about all resources of the machine.

pub(crate) mod commands;
pub(crate) mod draw;
pub(crate) mod state;
#[cfg(test)]
mod tests;
pub(crate) mod update;
