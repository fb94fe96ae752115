//! Analysis units, one file each: a type that processes records and makes panels.
//!
//! [`kit`] is their framework. Units do not access the terminal; screens, text, CSV and JSON are made from their
//! panels.

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

/// Finds a unit by its name.
pub fn find(name: &str) -> Option<&'static Spec> {
    UNITS.iter().find(|spec| spec.name == name).copied()
}

/// Creates a unit with its settings, including those that all units share. Fails if the settings are invalid.
pub fn make(spec: &Spec, settings: &Settings) -> Result<Box<dyn Unit>, String> {
    let settings = scope::spelled_out(spec, settings).among(UNITS);
    scope::applied(spec, &settings, (spec.make)(&settings)?)
}
