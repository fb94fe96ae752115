//! Places in the types of the running kernel that the BPF program reads.

use crate::kernel::bpf::btf::{Btf, BtfError};

/// The offset of the word that marks a call of the 32-bit ABI (call_sums.bpf.c has the same number).
const ABI_AT: u32 = if cfg!(target_arch = "x86_64") { 16 } else { 0 };

/// Returns the offsets of a task's thread and process number. Fails if the mark of the 32-bit ABI is in another place
/// than the program expects (before Linux 5.11 on x86).
pub(super) fn of_task(types: &Btf) -> Result<(u32, u32), BtfError> {
    let mark = if cfg!(target_arch = "x86_64") { "status" } else { "flags" };
    let at = types.offset("task_struct", &["thread_info", mark])?;
    if at != ABI_AT {
        return Err(BtfError::NoField(format!("task_struct.thread_info.{mark} at {ABI_AT}")));
    }
    Ok((types.offset("task_struct", &["pid"])?, types.offset("task_struct", &["tgid"])?))
}
