//! Tasks of a live session: the profiler, its target, and tasks that exit or get names.

use rustc_hash::FxHashMap;

use crate::ingest::switches::Switches;
use crate::record::Sample;
use crate::source::live::Target;

/// The profiler itself, the target, and tasks that exit or get names.
#[derive(Debug, Default)]
pub(crate) struct RunningTasks {
    pub(super) own_pid: Option<i32>,
    /// The target of a live session.
    pub(super) target: Option<Target>,
    /// Context switches that name the threads of a live session.
    pub(super) switches: Option<Switches>,
    /// The last task that exited on each CPU.
    pub(super) exited: FxHashMap<u32, (i32, i32)>,
    /// Whether containers of existing tasks were renamed.
    pub(crate) renamed_containers: bool,
}

impl RunningTasks {
    /// Names the task of a sample: it has no number between its exit and its last switch.
    pub(super) fn name_exited(&self, sample: &mut Sample<'_>) {
        if let Some(task) = self.exited.get(&sample.cpu) {
            (sample.pid, sample.tid) = *task;
        }
    }
}
