//! The number of threads of each process that run at a moment, from context switches: the basis of the latency profile.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::format::Format;
use crate::kernel::attr::{Flag, TYPE_TRACEPOINT, sample};
use crate::perfdata::EventDesc;
use crate::query::column::PARALLELISM;
use crate::record::open_spans::ThreadChange;
use crate::record::{Sample, SampleId};
use crate::session::Session;

use super::switches::Switches;

/// The limit of exited threads: they matter until their last switch.
const MAX_EXITED: usize = 1 << 16;

/// The running threads of a session's processes.
#[derive(Debug)]
pub(crate) struct Parallelism {
    /// The event whose samples are weighed, and that of the results.
    pub(crate) clock: u16,
    pub(crate) event: u16,
    /// The process of each running thread.
    running: FxHashMap<i32, i32>,
    /// The number of running threads of each process that has any.
    counts: FxHashMap<i32, u32>,
    /// The thread that runs on each CPU.
    cpus: FxHashMap<u32, i32>,
    switches: Option<Switches>,
    /// Threads that have exited and still run: their last switch has no number.
    exited: FxHashSet<i32>,
}

/// Returns whether the switches of the sampled threads are recorded (`record --latency` or `--switch-events`).
pub(crate) fn has_switches(events: &[EventDesc]) -> bool {
    let is_own = |event: &EventDesc| event.attr.has(Flag::ContextSwitch) && event.attr.kind != TYPE_TRACEPOINT;
    events.iter().any(is_own)
}

/// Returns the fields of samples with a parallelism.
pub(crate) fn format(event: &str) -> Option<Arc<Format>> {
    let text = format!("name: x\nID: 1\nformat:\n\tfield:u32 {PARALLELISM};\toffset:0;\tsize:4;\tsigned:0;\n");
    let format = Format::parse("", &text, cfg!(target_endian = "big"))?;
    Some(Arc::new(Format { name: event.to_owned(), ..format }))
}

impl Parallelism {
    pub(crate) fn new(clock: u16, event: u16, switches: Option<Switches>) -> Self {
        let (running, counts, cpus) = (FxHashMap::default(), FxHashMap::default(), FxHashMap::default());
        Self { clock, event, running, counts, cpus, switches, exited: FxHashSet::default() }
    }

    /// Applies a record of a context switch with these fields.
    pub(crate) fn switched(&mut self, id: &SampleId, fields: u64, is_out: bool) {
        let cpu = (fields & sample::CPU != 0).then_some(id.cpu);
        match (is_out, id.tid) {
            (true, 1..) => self.left(id.tid),
            // Exited threads and the idle task lack a number.
            (true, _) => self.switched_in(0, 0, cpu),
            (false, tid) => self.switched_in(id.pid, tid, cpu),
        }
    }

    /// Applies a sample of sched:sched_switch.
    pub(crate) fn traced(&mut self, event: u16, sample: &Sample<'_>, session: &Session) {
        let Some(switch) = self.switches.as_ref().and_then(|switches| switches.read(event, sample.raw)) else { return };
        self.left(switch.prev);
        self.switched_in(session.process_of(switch.next).unwrap_or(switch.next), switch.next, Some(sample.cpu));
    }

    pub(crate) fn follow(&mut self, change: &ThreadChange) {
        match change {
            ThreadChange::Born { tid, .. } => drop(self.exited.remove(tid)),
            ThreadChange::Ended { tid, .. } => self.exits(*tid),
            ThreadChange::Exec { pid, from, gone } => {
                self.exited.remove(pid);
                from.iter().chain(gone).for_each(|tid| self.left(*tid));
            }
        }
    }

    /// A thread starts running; `cpu` is `None` if the record lacks it.
    pub(crate) fn switched_in(&mut self, pid: i32, tid: i32, cpu: Option<u32>) {
        if tid <= 0 {
            // The idle task replaces the thread that ran there.
            if let Some(before) = cpu.and_then(|cpu| self.cpus.remove(&cpu)) {
                self.left(before);
            }
            return;
        }
        if let Some(cpu) = cpu
            && let Some(before) = self.cpus.insert(cpu, tid).filter(|before| *before != tid)
        {
            self.left(before);
        }
        if !self.exited.contains(&tid) && self.running.insert(tid, pid).is_none() {
            *self.counts.entry(pid).or_default() += 1;
        }
    }

    /// A thread stops running.
    pub(crate) fn left(&mut self, tid: i32) {
        let Some(pid) = self.running.remove(&tid) else { return };
        if let Some(count) = self.counts.get_mut(&pid) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&pid);
            }
        }
    }

    /// A thread exits. It still runs for a moment, which does not count.
    pub(crate) fn exits(&mut self, tid: i32) {
        self.left(tid);
        if self.exited.len() >= MAX_EXITED {
            self.exited.clear();
        }
        self.exited.insert(tid);
    }

    /// Returns the number of running threads of a sampled thread's process: at least 1, because it runs.
    pub(crate) fn sampled(&mut self, pid: i32, tid: i32, cpu: Option<u32>) -> u32 {
        if tid > 0 {
            self.switched_in(pid, tid, cpu);
        }
        self.counts.get(&pid).copied().unwrap_or(1).max(1)
    }

    /// Records were lost: running threads are learned again from their next records.
    pub(crate) fn forget(&mut self) {
        self.running.clear();
        self.counts.clear();
        self.cpus.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_while_they_run() {
        let mut of = Parallelism::new(0, 1, None);
        assert_eq!(of.sampled(10, 10, None), 1);
        of.switched_in(10, 11, None);
        of.switched_in(10, 11, None);
        of.switched_in(20, 21, None);
        assert_eq!([of.sampled(10, 10, None), of.sampled(20, 21, None)], [2, 1]);
        of.left(10);
        of.left(10);
        assert_eq!(of.sampled(10, 11, None), 1);
        // The last switch of an exited thread has no number.
        of.exits(11);
        assert_eq!((of.sampled(10, 11, None), of.sampled(10, 12, None), of.sampled(10, 13, None)), (1, 1, 2));
        of.follow(&ThreadChange::Born { pid: 10, tid: 11 });
        of.switched_in(10, 11, None);
        assert_eq!(of.sampled(10, 12, None), 3);
        // Thread 12 calls exec, so the others end, and it continues as thread 10.
        of.exits(10);
        of.follow(&ThreadChange::Exec { pid: 10, from: Some(12), gone: vec![11, 13] });
        assert_eq!((of.sampled(10, 10, None), of.sampled(10, 14, None)), (1, 2));
        of.forget();
        assert_eq!((of.sampled(10, 12, None), of.sampled(0, 0, None)), (1, 1));
    }

    #[test]
    fn a_cpu_runs_one_thread() {
        let mut of = Parallelism::new(0, 1, None);
        of.switched_in(10, 11, Some(0));
        of.switched_in(10, 12, Some(1));
        assert_eq!(of.sampled(10, 11, Some(0)), 2);
        // The switch away from thread 11 was lost.
        of.switched_in(20, 21, Some(0));
        assert_eq!(of.sampled(10, 12, Some(1)), 1);
        of.switched_in(0, 0, Some(1));
        assert_eq!(of.sampled(10, 13, Some(2)), 1);
    }
}
