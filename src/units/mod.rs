//! Analysis units: one file each, a type that takes records in and gives panels out; what they are made of is in
//! [`kit`]. A unit knows no terminal; screens, text, CSV and JSON come from its panels.

pub mod kit;

use kit::{Settings, Spec, Unit, scope};

listed! {
    /// All units, in the order of the help.
    pub const UNITS: Spec = SPEC of
    trace,
    top,
    num_dist,
    event_stat,
    percpu_stat,
    hrcount,
    hrtimer,
    multi_trace,
    syscalls,
    nested_trace,
    rundelay,
    blktrace,
    task_state,
    oncpu,
    offcpu,
    wakeups,
    forks,
    kmemleak,
    kmemprof,
    page_faults,
    breakpoint,
    profile,
    kvm_exit,
    kvmmmu,
    ldlat_loads,
    ldlat_stores,
    llcstat,
    tlbstat,
    usdt,
    misc;
}

/// A unit by its name.
pub fn find(name: &str) -> Option<&'static Spec> {
    UNITS.iter().find(|spec| spec.name == name).copied()
}

/// A unit with its settings, those that all units share included.
///
/// # Errors
/// What is wrong with the settings, in words.
pub fn make(spec: &Spec, settings: &Settings) -> Result<Box<dyn Unit>, String> {
    let settings = scope::spelled_out(spec, settings).among(UNITS);
    scope::applied(spec, &settings, (spec.make)(&settings)?)
}
