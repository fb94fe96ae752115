//! Tests that need the machine or their process to themselves, and so run one at a time: CPU hotplug, privileges, and
//! files that exhaust memory.

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod faults;
mod hostile;
mod rights;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that each test of this program holds while it runs.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
