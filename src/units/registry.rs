//! All analysis units: one line each.

use super::kit::Spec;
use super::*;

/// In the order of the help.
pub const UNITS: &[&Spec] = &[
    &trace::SPEC,
    &top::SPEC,
    &num_dist::SPEC,
    &event_stat::SPEC,
    &percpu_stat::SPEC,
    &hrcount::SPEC,
    &hrtimer::SPEC,
    &multi_trace::SPEC,
    &syscalls::SPEC,
    &nested_trace::SPEC,
    &rundelay::SPEC,
    &blktrace::SPEC,
    &task_state::SPEC,
    &oncpu::SPEC,
    &offcpu::SPEC,
    &wakeups::SPEC,
    &forks::SPEC,
    &kmemleak::SPEC,
    &kmemprof::SPEC,
    &page_faults::SPEC,
    &breakpoint::SPEC,
    &profile::SPEC,
    &kvm_exit::SPEC,
    &kvmmmu::SPEC,
    &ldlat_loads::SPEC,
    &ldlat_stores::SPEC,
    &llcstat::SPEC,
    &tlbstat::SPEC,
    &usdt::SPEC,
    &misc::SPEC,
];

/// A unit by its name.
pub fn find(name: &str) -> Option<&'static Spec> {
    UNITS.iter().find(|spec| spec.name == name).copied()
}
