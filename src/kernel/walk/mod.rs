//! The walk of user stacks in the kernel.

pub mod rule;
