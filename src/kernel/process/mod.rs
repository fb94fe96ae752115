//! The program's own process and those it starts: rights, limits, memory, commands.

pub mod end_requests;
pub mod limits;
pub mod own_memory;
pub mod privilege;
pub(crate) mod sched;
pub(crate) mod spawn;
pub mod thread_priority;
