//! Event names: the `-e` grammar, perf's names, PMUs in sysfs, tracepoints.

pub(crate) mod branches;
pub mod callgraph;
pub mod catalogue;
pub mod filter_error;
pub mod format;
pub(crate) mod names;
pub(crate) mod pmu;
pub mod probe;
pub(crate) mod registers;
pub mod spec;
pub(crate) mod state;
pub(crate) mod strings;
pub(crate) mod supported;
pub mod trace_filter;
pub mod tracepoint;

pub use callgraph::CallGraph;
pub use spec::{Event, Rate, parse};
pub use state::{EventState, RunState};

/// The event that samples CPUs on every machine.
pub(crate) const CPU_CLOCK: &str = "cpu-clock";

/// Returns an event's name without its modifiers.
pub(crate) fn plain(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((event, mods)) if mods.bytes().all(|b| spec::MODIFIERS.contains(&b)) => event,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn a_tracepoint_is_not_taken_for_modifiers() {
        assert_eq!(plain("cycles:ppp"), "cycles");
        assert_eq!(plain("cpu-clock"), "cpu-clock");
        assert_eq!(plain("sched:sched_switch"), "sched:sched_switch");
        assert_eq!(plain("sched:sched_switch:u"), "sched:sched_switch");
        assert_eq!(plain("cycles:"), "cycles");
    }
}
