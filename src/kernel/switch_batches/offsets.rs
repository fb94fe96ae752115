//! Places in the types of the running kernel that the BPF programs read.

use crate::kernel::bpf::btf::{Btf, BtfError};

/// The parameters of the tracepoint of switches, which has the state of the leaving task since Linux 5.19.
const SWITCH: &str = "__traceiter_sched_switch";
const PARAMETERS: [&str; 5] = ["__data", "preempt", "prev", "next", "prev_state"];

/// Returns the offsets of a task's number, priority, name, CPU and state after its end. Fails if the tracepoint of
/// switches has other parameters than the program expects.
pub(super) fn of_task(types: &Btf) -> Result<[u32; 5], BtfError> {
    let parameters = types.parameters(SWITCH).unwrap_or_default();
    if parameters.iter().map(|(name, _)| name.as_str()).ne(PARAMETERS) {
        return Err(BtfError::NoField("state of the leaving task in sched_switch".to_owned()));
    }
    let at = |path: &[&str]| types.offset("task_struct", path);
    let cpu = at(&["thread_info", "cpu"]).or_else(|_| at(&["cpu"]))?;
    Ok([at(&["pid"])?, at(&["prio"])?, at(&["comm"])?, cpu, at(&["exit_state"])?])
}
