//! The wall time of threads, divided into time on CPUs, waits for a CPU, and the rest.

use rustc_hash::FxHashMap;

use crate::units::kit::ThreadKey;
use crate::units::kit::waits::cpu_runs::{CpuRun, CpuRuns};
use crate::units::kit::waits::sched::{SchedSwitch, state};

use crate::units::tasks::offcpu::blocked::Came;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Doing {
    Running,
    /// Waits for a CPU.
    Runnable,
    Asleep,
    #[default]
    Unknown,
}

/// The time of a thread in the interval.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadTime {
    begin: u64,
    /// The thread has ended; it may still run until its last switch.
    end: Option<u64>,
    /// The time of earlier threads with its number that the names do not distinguish.
    lived: u64,
    doing: Doing,
    since: u64,
    /// Whether the CPU of its present state is chosen.
    counts: bool,
    /// Whether only /proc shows it, some time after the first record: it may be younger.
    is_assumed: bool,
    /// Whether it left a CPU in a record, or slept at the first one.
    has_own: bool,
    pub(super) ran: u64,
    pub(super) waited: u64,
    pub(super) throttled: u64,
    /// Number of runs and waits for a CPU.
    pub(super) runs: u64,
    pub(super) delays: u64,
    pub(super) throttles: u64,
}

impl ThreadTime {
    fn beginning(time: u64) -> Self {
        Self { begin: time, since: time, ..Self::default() }
    }

    /// Returns the time of its life within the interval.
    fn life(&self, start: u64, now: u64) -> u64 {
        self.end.unwrap_or(now).min(now).saturating_sub(self.begin.max(start))
    }

    /// Counts the time of what it does now.
    fn add_current(&mut self, ns: u64) {
        match self.doing {
            Doing::Running => (self.ran, self.runs) = (self.ran + ns, self.runs + 1),
            Doing::Runnable => (self.waited, self.delays) = (self.waited + ns, self.delays + 1),
            Doing::Asleep | Doing::Unknown => {}
        }
    }

    fn turn(&mut self, to: Doing, time: u64) {
        (self.doing, self.since, self.is_assumed) = (to, time, false);
        if let Some(end) = &mut self.end {
            *end = time.max(*end);
        }
    }
}

/// Limit of threads, and of pairs of a waiting and a running thread.
const MOST_THREADS: usize = 1 << 17;
const MOST_PAIRS: usize = 1 << 16;
/// A CPU that idles this long within a wait for it cannot have been busy: the thread was throttled.
const SURELY_IDLE_NS: u64 = 1_000_000;

/// The times of all threads, from the scheduler's records.
#[derive(Clone, Debug, Default)]
pub(super) struct ThreadTimes {
    threads: FxHashMap<ThreadKey, ThreadTime>,
    /// Birth times of threads without a record.
    births: FxHashMap<ThreadKey, u64>,
    /// The thread that each CPU switched to last, and when.
    current: FxHashMap<u32, (ThreadKey, u64)>,
    runs: CpuRuns,
    /// Time by waiting and running thread.
    behind: FxHashMap<(ThreadKey, ThreadKey), u64>,
    /// The first record, and the start of the interval.
    began: Option<u64>,
    start: u64,
    /// Since when all records are known.
    whole_since: u64,
    has_lost: bool,
    /// Whether switches are missing without a loss: the recording has those of some threads only.
    is_partial: bool,
    /// Threads that were dropped.
    pub(super) dropped: u64,
}

impl ThreadTimes {
    /// Notes the time of the first record.
    pub(super) fn begin(&mut self, time: u64) {
        if self.began.is_none() {
            (self.began, self.whole_since) = (Some(time), time);
        }
    }

    /// Returns a thread; one without any record has existed since its birth, or since the first record.
    fn thread(&mut self, key: ThreadKey) -> &mut ThreadTime {
        if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&key) {
            let before = self.threads.len();
            self.threads.retain(|_, thread| thread.end.is_none());
            if self.threads.len() == before {
                self.threads.clear();
            }
            self.dropped += (before - self.threads.len()) as u64;
        }
        let began = self.began.unwrap_or_default();
        let births = &mut self.births;
        let begin = || ThreadTime::beginning(births.remove(&key).unwrap_or(began));
        self.threads.entry(key).or_insert_with(begin)
    }

    /// A thread without a record sleeps since before the first record, or since the last loss.
    pub(super) fn sleeps_since_before(&mut self, key: ThreadKey) {
        let (since, is_new) = (self.whole_since, !self.threads.contains_key(&key));
        let thread = self.thread(key);
        if thread.doing == Doing::Unknown {
            thread.turn(Doing::Asleep, since.max(thread.since));
            (thread.is_assumed, thread.has_own) = (is_new, true);
        }
    }

    /// A thread leaves its CPU in a state. Its time counts if its CPU is chosen.
    fn leave(&mut self, cpu: u32, (key, prev_state): (ThreadKey, i64), time: u64, counts: bool) {
        let before = self.current.get(&cpu).copied();
        let (start, whole_since) = (self.start, self.whole_since);
        let thread = self.thread(key);
        let from = match (thread.doing, before) {
            (Doing::Running, _) => Some(thread.since),
            // The first switch of a CPU: the thread ran there all the time.
            (Doing::Unknown, None) => Some(whole_since.max(thread.since)),
            // The kernel did not record that it came to the idle CPU.
            (Doing::Runnable, Some((ThreadKey { tid: 0, .. }, idle))) => {
                let came = idle.max(thread.since);
                thread.waited += if counts { came.saturating_sub(thread.since.max(start)) } else { 0 };
                Some(came)
            }
            _ => None,
        };
        if let Some(from) = from.filter(|_| counts) {
            thread.ran += time.saturating_sub(from.max(start));
            thread.runs += 1;
        }
        (thread.counts, thread.has_own) = (counts, true);
        match prev_state {
            bits if bits & (state::DEAD | state::ZOMBIE) != 0 => {
                thread.end = Some(thread.end.unwrap_or_default().max(time));
                thread.turn(Doing::Unknown, time);
            }
            bits if bits == 0 || bits & state::PREEMPTED != 0 => thread.turn(Doing::Runnable, time),
            state::UNTOLD => thread.turn(Doing::Unknown, time),
            _ => thread.turn(Doing::Asleep, time),
        }
    }

    /// A thread comes to a CPU. `came` is what it did until now; `is_told` if the switch was recorded.
    fn come(&mut self, cpu: u32, key: ThreadKey, time: u64, (came, is_told): (Came, bool), counts: bool) {
        let (start, whole_since, is_new) = (self.start, self.whole_since, !self.threads.contains_key(&key));
        let has_lost = self.has_lost;
        let is_born = self.births.contains_key(&key);
        let thread = self.thread(key);
        let is_runnable = thread.doing == Doing::Runnable;
        let since = match (thread.doing, came) {
            (Doing::Runnable, _) | (Doing::Asleep, Came::Early) => Some(thread.since),
            // Without a wakeup since the first record, it has waited for a CPU.
            (Doing::Unknown, _) if is_new && is_told && !has_lost && !is_born => Some(whole_since),
            _ => None,
        };
        thread.turn(Doing::Running, time);
        thread.counts = counts;
        let Some(since) = since.filter(|_| counts) else { return };
        let ns = time.saturating_sub(since.max(start));
        let is_idle = |run: &CpuRun| is_runnable && run.thread.tid == 0 && run.from >= since;
        let idle: u64 = self.runs.since(cpu, since).filter(is_idle).map(|run| run.until - run.from).sum();
        let Some(thread) = self.threads.get_mut(&key) else { return };
        if idle >= SURELY_IDLE_NS {
            (thread.throttled, thread.throttles) = (thread.throttled + ns, thread.throttles + 1);
            return;
        }
        (thread.waited, thread.delays) = (thread.waited + ns, thread.delays + 1);
        for run in self.runs.since(cpu, since.max(start)).filter(|run| run.thread.tid != 0 && run.thread != key) {
            let ns = run.until - run.from.max(since).max(start).min(run.until);
            if self.behind.len() < MOST_PAIRS || self.behind.contains_key(&(key, run.thread)) {
                *self.behind.entry((key, run.thread)).or_default() += ns;
            }
        }
    }

    /// A CPU switches between two threads. `leaves` and `comes` say whether they are followed, `counts` whether the CPU
    /// is chosen.
    pub(super) fn switch(
        &mut self,
        (cpu, time, counts): (u32, u64, bool),
        switch: SchedSwitch,
        [prev, next]: [ThreadKey; 2],
        leaves: bool,
        comes: Option<Came>,
    ) {
        self.begin(time);
        if leaves && switch.prev > 0 {
            self.leave(cpu, (prev, switch.prev_state), time, counts);
        }
        let before = self.current.insert(cpu, (next, time));
        // The kernel may not record that a thread leaves the idle task.
        if let Some((gone, since)) = before.filter(|(gone, _)| gone.tid != 0 && gone.tid != switch.prev) {
            self.left_unrecorded(gone, since);
        }
        let run = before.filter(|(thread, _)| *thread == prev);
        self.runs.add(cpu, run.map(|(thread, from)| CpuRun { thread, from, until: time }));
        if let Some(came) = comes.filter(|_| switch.next > 0) {
            let is_told = switch.prev_state != state::UNTOLD;
            self.come(cpu, next, time, (came, is_told), counts);
        }
    }

    /// A thread has left its CPU since it came there, without a record.
    fn left_unrecorded(&mut self, key: ThreadKey, since: u64) {
        // A thread that is not followed has no times.
        let Some(thread) = self.threads.get_mut(&key) else { return };
        if (thread.doing, thread.since) == (Doing::Running, since) {
            thread.turn(Doing::Unknown, since);
            self.is_partial = true;
        }
    }

    /// Returns whether a recording of some threads has only records of others about this one.
    pub(super) fn is_foreign(&self, thread: &ThreadTime) -> bool {
        self.is_partial && !thread.has_own
    }

    /// Returns the thread that a CPU switched to last.
    pub(super) fn on(&self, cpu: u32) -> Option<i32> {
        self.current.get(&cpu).map(|(thread, _)| thread.tid)
    }

    /// A followed thread is woken, or created.
    pub(super) fn wake(&mut self, key: ThreadKey, time: u64, is_new: bool, counts: bool) {
        self.begin(time);
        if is_new && !self.threads.contains_key(&key) {
            self.thread(key).begin = time;
        }
        let thread = self.thread(key);
        if matches!(thread.doing, Doing::Asleep | Doing::Unknown) {
            thread.turn(Doing::Runnable, time);
            thread.counts = counts;
        }
    }

    /// A thread begins, perhaps with the number of an earlier one. It has a row from its first record on. Recordings
    /// begin with records of this kind for existing threads.
    pub(super) fn born(&mut self, key: ThreadKey, earlier: Option<ThreadKey>, time: u64) {
        if self.began.is_none_or(|began| time <= began) {
            return;
        }
        for key in [Some(key), earlier].into_iter().flatten() {
            if self.threads.get(&key).is_some_and(|thread| thread.is_assumed) {
                self.threads.remove(&key);
            }
        }
        if let Some(earlier) = earlier {
            self.ended(earlier, time);
        }
        if let Some(thread) = self.threads.get_mut(&key) {
            thread.lived += thread.life(self.start, time);
            (thread.begin, thread.end) = (time, None);
            return thread.turn(Doing::Unknown, time);
        }
        if self.births.len() >= MOST_THREADS {
            self.births.clear();
        }
        self.births.insert(key, time);
    }

    /// A thread is no longer followed, as it has another name: its time ends here.
    pub(super) fn unfollow(&mut self, key: ThreadKey, time: u64) {
        let start = self.start;
        let Some(thread) = self.threads.get_mut(&key).filter(|thread| thread.end.is_none()) else { return };
        let ns = if thread.counts { time.saturating_sub(thread.since.max(start)) } else { 0 };
        thread.add_current(ns);
        thread.end = Some(time);
        thread.turn(Doing::Unknown, time);
    }

    pub(super) fn ended(&mut self, key: ThreadKey, time: u64) {
        self.births.remove(&key);
        if let Some(thread) = self.threads.get_mut(&key) {
            thread.end = thread.end.or(Some(time));
        }
    }

    /// A thread continues under another number.
    pub(super) fn renumber(&mut self, from: ThreadKey, to: ThreadKey) {
        if let Some(thread) = self.threads.remove(&from) {
            self.threads.insert(to, thread);
        }
        self.current.values_mut().filter(|(key, _)| *key == from).for_each(|(key, _)| *key = to);
    }

    /// Records were lost: what threads did meanwhile is unknown.
    pub(super) fn lost(&mut self, from: u64, until: u64) {
        let start = self.start;
        for thread in self.threads.values_mut() {
            let known = thread.end.map_or(from, |end| end.min(from));
            let ns = known.saturating_sub(thread.since.max(start));
            match thread.doing {
                _ if !thread.counts => {}
                Doing::Running => thread.ran += ns,
                Doing::Runnable => thread.waited += ns,
                Doing::Asleep | Doing::Unknown => {}
            }
            (thread.doing, thread.since) = (Doing::Unknown, from.max(thread.since));
        }
        self.current.clear();
        self.runs.clear();
        (self.whole_since, self.has_lost) = (until, true);
    }

    pub(super) fn reset(&mut self, now: u64) {
        (self.start, self.dropped) = (now, 0);
        self.behind.clear();
        self.threads.retain(|_, thread| thread.end.is_none());
        for thread in self.threads.values_mut() {
            let ThreadTime { begin, doing, since, counts, has_own, .. } = *thread;
            *thread = ThreadTime { begin, doing, since, counts, has_own, ..ThreadTime::default() };
        }
    }

    /// Returns each thread with its times up to now, and its wall time.
    pub(super) fn all(&self, now: u64) -> impl Iterator<Item = (ThreadKey, ThreadTime, u64)> + '_ {
        self.threads.iter().map(move |(key, thread)| {
            let mut thread = *thread;
            let wall = thread.lived + thread.life(self.start, now);
            let ns = thread.end.unwrap_or(now).min(now).saturating_sub(thread.since.max(self.start));
            if thread.counts {
                thread.add_current(ns);
            }
            (*key, thread, wall)
        })
    }

    /// Returns the times that threads waited for a CPU while another thread ran there.
    pub(super) fn behind(&self) -> impl Iterator<Item = (ThreadKey, ThreadKey, u64)> + '_ {
        self.behind.iter().map(|((thread, runner), ns)| (*thread, *runner, *ns))
    }
}

#[cfg(test)]
mod tests;
