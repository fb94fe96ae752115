//! The latest runs of tasks on each CPU: what ran while another task waited for the CPU.

use std::collections::VecDeque;

use crate::units::kit::ThreadKey;

/// A run of a task; number 0 is the idle task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuRun {
    pub(crate) thread: ThreadKey,
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// Number of remembered runs per CPU.
const RUNS: usize = 256;
/// A larger number of CPUs indicates damaged data.
const MAX_CPUS: usize = 1 << 14;

/// The latest runs by CPU, in order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct CpuRuns(Vec<VecDeque<CpuRun>>);

impl CpuRuns {
    /// Adds a run, unless it ends before it begins, as in damaged recordings. Returns whether the CPU's number is plausible.
    pub(crate) fn add(&mut self, cpu: u32, run: Option<CpuRun>) -> bool {
        let at = cpu as usize;
        if self.0.len() <= at {
            self.0.resize_with((at + 1).min(MAX_CPUS), VecDeque::new);
        }
        let Some(runs) = self.0.get_mut(at) else { return false };
        if let Some(run) = run.filter(|run| run.from <= run.until) {
            if runs.len() == RUNS {
                runs.pop_front();
            }
            runs.push_back(run);
        }
        true
    }

    /// Returns the runs on a CPU that ended after a time, the newest first.
    pub(crate) fn since(&self, cpu: u32, time: u64) -> impl Iterator<Item = CpuRun> + '_ {
        let runs = self.0.get(cpu as usize).into_iter().flatten();
        runs.rev().copied().take_while(move |run| run.until > time)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_their_end() {
        let mut runs = CpuRuns::default();
        let run = |tid: u64| CpuRun { thread: ThreadKey::of_row(tid), from: 10 * tid, until: 10 * tid + 10 };
        assert!(
            runs.add(1, None) && runs.add(1, Some(run(1))) && runs.add(1, Some(run(2))) && runs.add(1, Some(run(3)))
        );
        assert_eq!(runs.since(1, 25).map(|run| run.thread.tid).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(runs.since(0, 0).count() + runs.since(7, 0).count(), 0);
        (0..2 * RUNS as u64).for_each(|tid| _ = runs.add(1, Some(run(tid))));
        assert_eq!(runs.since(1, 0).count(), RUNS);
        assert!(!runs.add(u32::MAX, Some(run(1))));
        runs.clear();
        assert_eq!(runs.since(1, 0).count(), 0);
    }
}
