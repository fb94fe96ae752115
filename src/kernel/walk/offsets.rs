//! Offsets in the types of the running kernel that the BPF program reads.

use crate::kernel::bpf::btf::{Btf, BtfError};

/// Returns the offset of a task's thread pointer.
pub(super) fn thread_pointer(types: &Btf) -> Result<u32, BtfError> {
    let path: &[&str] =
        if cfg!(target_arch = "x86_64") { &["thread", "fsbase"] } else { &["thread", "uw", "tp_value"] };
    types.offset("task_struct", path)
}

/// Returns the offset of a task's thread number.
pub(super) fn thread_number(types: &Btf) -> Result<u32, BtfError> {
    types.offset("task_struct", &["pid"])
}

/// Returns the offset of a task's own perf events, which exist only if the task is a target. Before
/// Linux 6.2 they are in two lists; tracepoints are in the second one, that of software events.
pub(super) fn task_events(types: &Btf) -> Result<u32, BtfError> {
    let offset = types.offset("task_struct", &["perf_event_ctxp"])?;
    let is_one_list = types.offset("perf_event_pmu_context", &["pmu"]).is_ok();
    Ok(if is_one_list { offset } else { offset + 8 })
}

/// Returns the place of a task's functions with probed returns (`struct pending` in walk.bpf.c): two offsets a word.
pub(super) fn pending(types: &Btf) -> Result<[u32; 4], BtfError> {
    let pair = |low, high| pair(types, low, high);
    Ok([
        pair(("task_struct", &["utask"]), ("uprobe_task", &["return_instances"]))?,
        pair(("return_instance", &["stack"]), ("return_instance", &["orig_ret_vaddr"]))?,
        pair(("return_instance", &["next"]), ("task_struct", &["mm"]))?,
        pair(("mm_struct", &["uprobes_state", "xol_area"]), ("xol_area", &["vaddr"]))?,
    ])
}

/// Returns the offsets of what tells that a process was forked and has its parent's mappings (`struct family`).
pub(super) fn family(types: &Btf) -> Result<[u32; 4], BtfError> {
    let pair = |low, high| pair(types, low, high);
    let parent = pair(("task_struct", &["real_parent"]), ("task_struct", &["tgid"]))?;
    let memory = pair(("task_struct", &["mm"]), ("mm_struct", &["start_code"]))?;
    let stack: (&str, &[&str]) = ("mm_struct", &["start_stack"]);
    Ok([parent, memory, pair(stack, stack)?, 0])
}

/// Returns two offsets of fields, as a word of two halves.
fn pair(types: &Btf, low: (&str, &[&str]), high: (&str, &[&str])) -> Result<u32, BtfError> {
    let of = |(of, path): (&str, &[&str])| {
        let offset = types.offset(of, path)?;
        u16::try_from(offset).map_err(|_| BtfError::NoField(format!("{of}.{} near its start", path.join("."))))
    };
    Ok(u32::from(of(low)?) | u32::from(of(high)?) << 16)
}
