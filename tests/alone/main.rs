//! Tests that want the machine or the memory of their process to themselves, and so run one at a time: CPUs that go and
//! come, levels of rights, files that are made to take all memory.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod faults;
mod hostile;
mod rights;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by each test of this program while it runs.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
