//! Analysis units, one file each: a type that processes records and makes panels.
//!
//! [`kit`] is their framework. Units do not access the terminal: all output is made from their panels.

pub mod kit;

use kit::options::scope;
use kit::{FilteredUnit, Settings, Spec};

/// Declares the units by topic, and lists them like `listed!`.
macro_rules! units {
    ($($(#[$about:meta])* $topic:ident: $($unit:ident),+;)+) => {
        $($(#[$about])* pub mod $topic {
            $(pub mod $unit;)+
        })+

        /// All units, in the order of the help.
        pub const UNITS: &[&Spec] = &[$($(&$topic::$unit::SPEC),+),+];
    };
}

units! {
    /// Run and wait times of tasks.
    tasks:
    waits,
    locks,
    offcpu,
    rundelay,
    task_state,
    oncpu,
    wakeups,
    blktrace,
    forks;

    /// Connections and files.
    io:
    tcp,
    dns,
    files;

    /// Allocations, page faults and watched addresses.
    memory:
    kmemleak,
    kmemprof,
    page_faults,
    breakpoint;

    /// Events of any kind: logs, counts, pairs.
    events:
    syscalls,
    trace,
    top,
    num_dist,
    event_stat,
    percpu_stat,
    hrcount,
    hrtimer,
    multi_trace,
    nested_trace;

    /// Execution on CPUs: functions, guests, accesses to memory.
    cpus:
    profile,
    kvm_exit,
    kvmmmu,
    ldlat_loads,
    ldlat_stores,
    llcstat,
    tlbstat;

    /// Static probes of programs, and changes in the kernel.
    system:
    usdt,
    misc;
}

/// Finds a unit by its name.
pub fn find(name: &str) -> Option<&'static Spec> {
    UNITS.iter().find(|spec| spec.name == name).copied()
}

/// Creates a unit with its settings, including those that all units share. Fails if the settings are invalid.
pub fn make(spec: &'static Spec, settings: &Settings) -> Result<FilteredUnit, String> {
    FilteredUnit::new(spec, scope::spelled_out(spec, settings).among(UNITS))
}
