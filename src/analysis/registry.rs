//! All analysis units: one line each.

use super::frame::Spec;
use super::{rundelay, task_state};

/// In the order of the help.
pub const UNITS: &[&Spec] = &[&rundelay::SPEC, &task_state::SPEC];

/// A unit by its name.
pub fn find(name: &str) -> Option<&'static Spec> {
    UNITS.iter().find(|spec| spec.name == name).copied()
}
