//! Waits for contended locks: a thread looks at the threads of processes about ten times a second, because a lock that
//! is held for a fifth of a second now and then is free at most readings of all processes.
//!
//! It also reads the memory of processes, which they can delay for ever (userfaultfd(2)), so no thread waits for it.

mod python_locks;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use crate::kernel::blocked::{self, LockWait};
use crate::kernel::{monotonic_ns, procfs, thread_cpu_ns};

use super::pace::varied_ns;
use super::scripts::script;

/// The time between two looks in nanoseconds, and the inverse of the share of a CPU for them.
const PAUSE_NS: u64 = 100_000_000;
const DUTY: u64 = 400;
/// The limits of threads of one process, of threads of one look, and of processes that are tried for it.
const MAX_THREADS_OF_ONE: usize = 64;
const MAX_THREADS: usize = 128;
const MAX_TRIED: usize = 64;
/// The limit of processes that each look includes, because a thread of them waited for a lock recently.
const MAX_SUSPECTS: usize = 8;
const RECENT_NS: u64 = 10_000_000_000;
/// The limit of locks that are remembered for each process, and the time after which a lock counts if threads wait for
/// it again. A program that starts waits for many locks for a moment, each once.
const MAX_LOCKS: usize = 64;
const AGAIN_NS: u64 = 500_000_000;
/// The limit of threads of a process that are counted as holders, and among which an owner in a PID namespace is searched.
const MAX_HOLDERS: usize = 64;
const MAX_NAMED: usize = 256;
/// The limit of holders that wait for each other.
const MAX_CHAIN: usize = 16;

/// The waits of a process's threads for contended locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockedProcess {
    pub(crate) pid: i32,
    /// The script that it runs, or its name.
    pub(crate) name: Arc<str>,
    pub(crate) threads: u32,
    /// The sum of the threads that waited, over all looks.
    pub(crate) waiting: u64,
    /// The threads that held the locks, with the sum of those that waited for them.
    pub(crate) holders: BTreeMap<(Arc<str>, i32), u64>,
    /// Whether the locks are those of a Python program.
    pub(crate) is_python: bool,
}

/// Some looks at the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockLooks {
    pub(crate) looks: u64,
    pub(crate) processes: BTreeMap<i32, LockedProcess>,
}

impl LockLooks {
    /// Adds later looks.
    pub(crate) fn add(&mut self, later: &Self) {
        self.looks += later.looks;
        later.processes.values().for_each(|one| self.add_process(one.clone()));
    }

    fn add_process(&mut self, later: LockedProcess) {
        let known = self.processes.entry(later.pid).or_default();
        let (waiting, mut holders) = (known.waiting + later.waiting, std::mem::take(&mut known.holders));
        for (holder, waits) in later.holders {
            if holders.len() < MAX_HOLDERS || holders.contains_key(&holder) {
                *holders.entry(holder).or_default() += waits;
            }
        }
        *known = LockedProcess { waiting, holders, ..later };
    }
}

/// The state that both threads share.
#[derive(Debug, Default)]
struct Shared {
    /// Processes with several threads that ran in the last interval.
    active: Arc<[i32]>,
    looks: LockLooks,
}

/// The looks since the last reading, from the thread that makes them.
#[derive(Debug, Default)]
pub(crate) struct LockWatch {
    /// The thread ends when this is dropped.
    shared: Option<Arc<Mutex<Shared>>>,
}

impl LockWatch {
    /// Returns the looks since the last call. `active` are the processes that are looked at before others.
    pub(crate) fn read(&mut self, active: Vec<i32>) -> LockLooks {
        if self.shared.is_none() {
            let shared = Arc::default();
            self.shared = start(&shared).then_some(shared);
        }
        let Some(shared) = &self.shared else { return LockLooks::default() };
        let mut shared = shared.lock();
        shared.active = active.into();
        std::mem::take(&mut shared.looks)
    }
}

/// Starts the thread; returns whether that succeeded.
fn start(shared: &Arc<Mutex<Shared>>) -> bool {
    let shared = Arc::downgrade(shared);
    let work = move || {
        let (mut search, mut cost) = (LockSearch::default(), 0);
        for nth in 0.. {
            std::thread::sleep(Duration::from_nanos(varied_ns(nth, PAUSE_NS).max(cost * DUTY)));
            let Some(shared) = shared.upgrade() else { return };
            let (before, active) = (thread_cpu_ns(), shared.lock().active.clone());
            let found = search.look(monotonic_ns(), &active);
            cost = thread_cpu_ns().saturating_sub(before);
            shared.lock().looks.add(&found);
        }
    };
    crate::kernel::thread("locks", work).is_ok()
}

/// A process with waits for locks.
#[derive(Debug, Default)]
struct Suspect {
    /// When a thread of it waited.
    seen_at: u64,
    /// The newest locks, and when each was seen first.
    locks: VecDeque<(u64, u64)>,
    /// The newest semaphores, and whether they are locks of Python.
    semaphores: VecDeque<(u64, bool)>,
}

/// The state of the search.
#[derive(Debug, Default)]
struct LockSearch {
    suspects: BTreeMap<i32, Suspect>,
    /// The active and the other processes that are looked at next, the next one last.
    active: Vec<i32>,
    others: Vec<i32>,
}

impl LockSearch {
    /// Looks at the processes with recent waits, and at the next ones of the others.
    fn look(&mut self, at: u64, active: &[i32]) -> LockLooks {
        self.suspects.retain(|_, suspect| at.saturating_sub(suspect.seen_at) < RECENT_NS);
        let suspects: Vec<i32> = self.suspects.keys().copied().collect();
        let mut out = LockLooks { looks: 1, ..LockLooks::default() };
        let mut threads = 0;
        for pid in &suspects {
            threads += self.examine(*pid, at, &mut out);
        }
        // A short list of active processes begins again within a look.
        let mut examined: FxHashSet<i32> = suspects.into_iter().collect();
        for nth in 0..MAX_TRIED {
            if threads >= MAX_THREADS {
                break;
            }
            // Each other one may be asleep.
            let Some(pid) = self.next(active, nth % 2 == 0) else { break };
            if examined.insert(pid) && procfs::has_other_threads(pid) {
                threads += self.examine(pid, at, &mut out);
            }
        }
        out
    }

    /// Returns the next process, of the active ones or of all.
    fn next(&mut self, active: &[i32], is_active: bool) -> Option<i32> {
        let own = std::process::id() as i32;
        if self.active.is_empty() {
            self.active = active.to_vec();
        }
        if self.others.is_empty() {
            self.others = procfs::processes_as_listed().filter(|pid| *pid != own).collect();
        }
        let active = if is_active { self.active.pop() } else { None };
        active.or_else(|| self.others.pop())
    }

    /// Adds the waits of a process's threads; returns the number of threads that were read.
    fn examine(&mut self, pid: i32, at: u64, out: &mut LockLooks) -> usize {
        let tids = procfs::threads(pid);
        let read = &tids[..tids.len().min(MAX_THREADS_OF_ONE)];
        let waits: Vec<LockWait> = read.iter().filter_map(|tid| blocked::lock_wait(pid, *tid)).collect();
        let has_room = self.suspects.len() < MAX_SUSPECTS || self.suspects.contains_key(&pid);
        if waits.is_empty() || !has_room {
            return read.len();
        }
        let mut suspect = self.suspects.remove(&pid).unwrap_or_default();
        let locks = suspect.contended(&waits, |address, stack| python_locks::is_lock_of(pid, address, stack));
        let counted = suspect.again(at, &locks);
        if !locks.is_empty() {
            suspect.seen_at = at;
        }
        if suspect.seen_at > 0 {
            self.suspects.insert(pid, suspect);
        }
        if let Some(one) = locked(pid, tids.len(), &waits, &counted) {
            out.add_process(one);
        }
        read.len()
    }
}

impl Suspect {
    /// Returns the locks of these waits, one for each thread. A wait that may be for a condition variable counts if
    /// another thread waits for the same: the idle threads of a pool often have one each. A semaphore counts if it is
    /// the lock of an interpreter as well.
    fn contended(&mut self, waits: &[LockWait], is_lock_of: impl Fn(u64, u64) -> bool) -> Vec<u64> {
        let is_shared = |address| waits.iter().filter(|other| other.address() == address).count() > 1;
        let mut counts = |wait: &&LockWait| match **wait {
            LockWait::Mutex(mutex) => !mutex.may_be_condition || is_shared(mutex.address),
            LockWait::Semaphore { address, .. } if !is_shared(address) => false,
            LockWait::Semaphore { address, stack } => {
                let known = self.semaphores.iter().find(|(known, _)| *known == address).map(|(_, is_lock)| *is_lock);
                known.unwrap_or_else(|| {
                    let is_lock = is_lock_of(address, stack);
                    remember(&mut self.semaphores, (address, is_lock));
                    is_lock
                })
            }
        };
        waits.iter().filter(|wait| counts(wait)).map(LockWait::address).collect()
    }

    /// Returns those of these locks that were waited for before, and remembers all.
    fn again(&mut self, at: u64, locks: &[u64]) -> Vec<u64> {
        let mut counted = Vec::new();
        for address in locks {
            match self.locks.iter().find(|(known, _)| known == address) {
                Some((_, since)) => counted.extend((at.saturating_sub(*since) >= AGAIN_NS).then_some(*address)),
                None => remember(&mut self.locks, (*address, at)),
            }
        }
        counted
    }
}

fn remember<T>(known: &mut VecDeque<T>, new: T) {
    if known.len() == MAX_LOCKS {
        known.pop_front();
    }
    known.push_back(new);
}

/// Follows holders that wait for locks themselves to the last one, which delays all of them. Returns the first one if they
/// wait for each other in a circle.
fn last_holder(first: i32, holder_for: impl Fn(i32) -> Option<i32>) -> i32 {
    let mut chain = vec![first];
    while let Some(next) = chain.last().and_then(|tid| holder_for(*tid)) {
        if chain.len() == MAX_CHAIN || chain.contains(&next) {
            return first;
        }
        chain.push(next);
    }
    chain.last().copied().unwrap_or(first)
}

/// Describes a process whose threads wait for these locks. The holder of the one with the most waits is found, if the
/// lock contains its owner; if that waits for a lock itself, the holder at the end of this chain. `None` if there are no
/// locks, or the holder waits for connections or events: its process may be idle, because some servers let one thread at
/// a time wait for them.
fn locked(pid: i32, threads: usize, waits: &[LockWait], counted: &[u64]) -> Option<LockedProcess> {
    let count = |address: u64| counted.iter().filter(|other| **other == address).count();
    let most = counted.iter().copied().max_by_key(|address| (count(*address), *address))?;
    let wait = waits.iter().find(|wait| wait.address() == most);
    let owner = |wait: &LockWait| match wait {
        LockWait::Mutex(mutex) => mutex.owner(pid).and_then(|tid| procfs::thread_by_own_number(pid, tid, MAX_NAMED)),
        LockWait::Semaphore { .. } => None,
    };
    let is_sure = |wait: &LockWait| matches!(wait, LockWait::Mutex(mutex) if !mutex.may_be_condition);
    let holder_for = |tid: i32| blocked::lock_wait(pid, tid).filter(is_sure).as_ref().and_then(owner);
    let holder = wait.and_then(owner).map(|first| last_holder(first, holder_for));
    if holder.is_some_and(|tid| blocked::waits_for_work(pid, tid)) {
        return None;
    }
    let text = |name: Vec<u8>| String::from_utf8_lossy(&name).into_owned();
    let comm = procfs::comm(pid, pid).map(text).unwrap_or_default();
    let holder = holder.and_then(|tid| Some(((text(procfs::comm(pid, tid)?).into(), tid), count(most) as u64)));
    Some(LockedProcess {
        pid,
        name: script(&comm, || procfs::cmdline(pid)).unwrap_or(comm).into(),
        threads: threads as u32,
        waiting: counted.len() as u64,
        holders: holder.into_iter().collect(),
        is_python: matches!(wait, Some(LockWait::Semaphore { .. })),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::kernel::blocked::MutexWait;

    const TENTH: u64 = 100_000_000;

    fn mutex(address: u64, may_be_condition: bool) -> LockWait {
        LockWait::Mutex(MutexWait::staged(address, may_be_condition))
    }

    /// Rust's condition variables may wait with the value of a contended mutex.
    #[test]
    fn idle_threads_of_a_pool_do_not_wait_for_a_mutex() {
        let contended = |waits: &[LockWait]| Suspect::default().contended(waits, |_, _| panic!("no semaphore"));
        let pool: Vec<LockWait> = (0..4).map(|at| mutex(0x1000 + 64 * at, true)).collect();
        assert_eq!(contended(&pool), [0u64; 0]);
        let lock = mutex(0x7f00, true);
        assert_eq!(contended(&[lock, pool[0], lock]), [0x7f00; 2]);
        assert_eq!(contended(&[mutex(0x7f00, false)]), [0x7f00]);
    }

    /// Threads that wait for a queue of Python, for a lock of it, and for their condition variables.
    #[test]
    fn a_semaphore_is_a_lock_if_the_interpreter_says_so() {
        let of = |address, stack| LockWait::Semaphore { address, stack };
        let (mut suspect, reads) = (Suspect::default(), std::cell::RefCell::new(Vec::new()));
        let mut locks = |waits: &[LockWait]| {
            suspect.contended(waits, |address, stack| {
                reads.borrow_mut().push((address, stack));
                address == 0x50
            })
        };
        let queue = [of(0x40, 1), of(0x40, 2)];
        let lock = [of(0x50, 3), of(0x50, 4), of(0x50, 5)];
        assert_eq!(locks(&queue), [0u64; 0]);
        assert_eq!(locks(&[queue, [lock[0], lock[1]]].concat()), [0x50; 2]);
        assert_eq!(locks(&lock), [0x50; 3]);
        assert_eq!(locks(&[of(0x60, 6), of(0x70, 7)]), [0u64; 0], "each thread has its own");
        assert_eq!(reads.take(), [(0x40, 1), (0x50, 3)], "the memory is read once");
    }

    /// A browser that starts: three threads wait, each for a mutex of its own.
    #[test]
    fn a_mutex_is_contended_if_threads_wait_for_it_again() {
        let count = |looks: &[(u64, &[u64])]| {
            let mut suspect = Suspect::default();
            looks.iter().map(|(at, waits)| suspect.again(at * TENTH, waits).len()).collect::<Vec<_>>()
        };
        assert_eq!(count(&[(1, &[1, 2]), (11, &[3])]), [0, 0]);
        assert_eq!(count(&[(1, &[7, 7, 7]), (2, &[7]), (6, &[7, 7, 9]), (9, &[7])]), [0, 0, 2, 1]);
        let many: Vec<u64> = (0..500).collect();
        assert_eq!(count(&[(1, &many), (9, &many[..10]), (19, &many[490..])]), [0, 0, 10], "few are remembered");
    }

    /// Thread 1 waits for 2, which waits for 3, which sleeps; 7 and 8 wait for each other.
    #[test]
    fn the_last_holder_of_a_chain_is_named() {
        let waits = [(2, 3), (1, 2), (6, 7), (7, 8), (8, 7), (9, 9)];
        let holder_for = |tid: i32| waits.iter().find(|(waiter, _)| *waiter == tid).map(|(_, holder)| *holder);
        assert_eq!([1, 2, 3, 6, 7, 9].map(|first| last_holder(first, holder_for)), [3, 3, 3, 6, 7, 9]);
        assert_eq!(last_holder(0, |tid| Some(tid + 1)), 0, "no end");
    }

    #[test]
    fn looks_add_up() {
        let one = |waiting, holder: &str, waits| LockedProcess {
            pid: 7,
            name: "offcpu".into(),
            threads: 7,
            waiting,
            holders: [((Arc::from(holder), 9), waits)].into(),
            is_python: false,
        };
        let mut sum = LockLooks { looks: 3, ..LockLooks::default() };
        sum.add_process(one(4, "log-flush", 4));
        let later = LockLooks { looks: 9, processes: [(7, one(3, "log-flush", 3)), (8, one(1, "x", 1))].into() };
        sum.add(&LockLooks { processes: later.processes.into_iter().filter(|(pid, _)| *pid == 7).collect(), ..later });
        assert_eq!((sum.looks, &sum.processes[&7]), (12, &one(7, "log-flush", 7)));
        (0..200).for_each(|at| sum.add_process(one(1, &format!("worker-{at}"), 1)));
        assert_eq!((sum.processes[&7].holders.len(), sum.processes[&7].waiting), (MAX_HOLDERS, 207));
    }

    #[test]
    fn active_processes_take_turns_with_the_others() {
        let own = std::process::id() as i32;
        let mut search = LockSearch::default();
        assert_eq!([search.next(&[7, 8], true), search.next(&[9], true)], [Some(8), Some(7)]);
        assert_eq!(search.next(&[9], true), Some(9));
        let all = (0..1 << 10).filter_map(|_| search.next(&[], false)).collect::<Vec<i32>>();
        assert!(all.len() == 1 << 10 && !all.contains(&own), "all processes but this one, again and again");
    }

    /// A machine on which one process with several threads runs.
    #[test]
    fn a_look_reads_a_process_once() {
        let own = std::process::id() as i32;
        let mut search = LockSearch { others: vec![-1; MAX_TRIED], ..LockSearch::default() };
        let Some(before) = procfs::own_reads() else {
            let _ = writeln!(std::io::stderr(), "SKIPPED a_look_reads_a_process_once: reads are not counted here");
            return;
        };
        search.look(monotonic_ns(), &[own]);
        let reads = procfs::own_reads().expect("reads") - before;
        let threads = procfs::threads(own).len();
        assert!(reads <= 4 * threads + 40, "{reads} reads for {threads} threads");
    }

    #[test]
    fn the_lock_with_the_most_waits_is_described() {
        let own = std::process::id() as i32;
        let waits = [mutex(1, false), mutex(1, false), mutex(2, false)];
        let found = locked(own, 4, &waits, &[1, 1, 2]).expect("locks");
        assert_eq!((found.waiting, found.threads, found.is_python), (3, 4, false));
        assert!(found.holders.is_empty(), "no memory is mapped there");
        let lock = LockWait::Semaphore { address: 8, stack: 0 };
        assert!(locked(own, 4, &[lock, lock], &[8, 8]).is_some_and(|found| found.is_python));
        assert_eq!(locked(own, 4, &waits, &[]), None);
    }
}
