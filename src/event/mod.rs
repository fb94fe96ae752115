//! Event names: the `-e` grammar, perf's names, PMUs in sysfs, tracepoints.

pub mod names;
pub(crate) mod own_names;
pub mod probe;
pub mod tracepoint;

pub use names::callgraph::{CallGraph, Interpreters};
pub use names::spec::{Event, Rate, Summing, parse};
pub use names::state::{EventState, RunState};
pub(crate) use names::{branches, pmu, registers, supported};
pub use names::{callgraph, catalogue, spec};
pub(crate) use tracepoint::{calls, instance, strings};
pub use tracepoint::{filter_error, format, trace_filter};

/// The event that samples CPUs on every machine.
pub(crate) const CPU_CLOCK: &str = "cpu-clock";

/// Returns an event's name without its modifiers.
pub(crate) fn base_name(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((event, mods)) if mods.bytes().all(|b| spec::MODIFIERS.contains(&b)) => event,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::base_name;

    #[test]
    fn a_tracepoint_is_not_taken_for_modifiers() {
        assert_eq!(base_name("cycles:ppp"), "cycles");
        assert_eq!(base_name("cpu-clock"), "cpu-clock");
        assert_eq!(base_name("sched:sched_switch"), "sched:sched_switch");
        assert_eq!(base_name("sched:sched_switch:u"), "sched:sched_switch");
        assert_eq!(base_name("cycles:"), "cycles");
    }
}
