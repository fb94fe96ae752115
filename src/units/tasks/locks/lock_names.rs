//! Kinds and names of locks, from the functions in which threads wait for them.

use std::sync::Arc;

use crate::panel::stacks::FrameName;
use crate::record::interpreted::Language;
use crate::session::DsoKind;
use crate::units::kit::Variable;

use super::addresses::LockKey;

/// The name of a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockName {
    pub(crate) kind: Arc<str>,
    /// The function that takes the lock; empty if the stack does not reach it.
    pub(super) taken_in: Arc<str>,
    /// The static variable that contains the lock, with the lock's offset in it; empty if there is none.
    pub(super) variable: Arc<str>,
    /// The bytes from the start of the lock to its futex, if the lock is a whole variable.
    pub(super) within: u64,
    /// Whether threads wait there for work or for each other's end, as at a condition variable.
    pub(crate) is_queue: bool,
    /// Whether a function of glibc waits, whose locks may have several words.
    pub(super) is_of_glibc: bool,
}

/// The kind of a futex without functions that tell more.
pub(crate) const FUTEX: &str = "futex";
/// The kind of waits for the end of a thread.
pub(crate) const JOIN: &str = "join";
/// Kinds of locks with several words.
pub(super) const CONDITION: &str = "condition variable";
pub(super) const GLOBAL: &str = "Python's global lock";
/// Kinds of locks for which each waiting thread has a futex of its own.
const MONITOR: &str = "Java monitor";
const JAVA_LOCK: &str = "Java lock";
/// Kinds whose locks have futexes at several offsets in glibc, and the bytes of the largest, `pthread_rwlock_t`.
const SEVERAL_WORDS: &[&str] = &["rwlock", CONDITION, "semaphore", "barrier"];
const LARGEST: u64 = 56;
/// Parts of the names of glibc's functions that wait for such locks, and of the C++ library's functions above them.
/// Rust's locks have one futex each, so that several of them fit into a variable of that size.
const GLIBC_WAITS: &[&str] = &[
    "pthread_rwlock_",
    "pthread_cond_",
    "pthread_barrier_",
    "sem_wait",
    "sem_timedwait",
    "sem_clockwait",
    "new_sem_",
    "std::shared_mutex",
    "std::condition_variable",
];

/// Parts of function names that tell the kind, and whether it is a queue. The outermost function of a wait decides:
/// CPython's lock is a mutex with a condition variable.
const KINDS: &[(&str, &str, bool)] = &[
    ("pthread_mutex", "mutex", false),
    ("lll_lock", "mutex", false),
    ("lll_mutex", "mutex", false),
    ("pthread_rwlock_rd", "rwlock, reading", false),
    ("pthread_rwlock_wr", "rwlock, writing", false),
    ("pthread_rwlock", "rwlock", false),
    ("pthread_cond", CONDITION, true),
    ("pthread_barrier", "barrier", true),
    ("pthread_join", JOIN, true),
    ("clockjoin", JOIN, true),
    ("JoinHandle", JOIN, true),
    ("sem_wait", "semaphore", true),
    ("sem_timedwait", "semaphore", true),
    ("sem_clockwait", "semaphore", true),
    ("new_sem_", "semaphore", true),
    ("take_gil", GLOBAL, false),
    ("PyThread_acquire_lock", "Python lock", false),
    ("acquire_timed", "Python lock", false),
    ("PyMutex_Lock", "Python mutex", false),
    ("_wait_for_tstate_lock", JOIN, true),
    ("Condition.wait", "condition variable", true),
    ("Semaphore.acquire", "semaphore", true),
    ("sync::mutex", "mutex", false),
    ("sync::poison::mutex", "mutex", false),
    ("sync::rwlock", "rwlock", false),
    ("sync::poison::rwlock", "rwlock", false),
    ("parking_lot", "parking_lot lock", false),
    ("condvar", "condition variable", true),
    ("Condvar", "condition variable", true),
    ("thread_parking", "parked thread", true),
    ("thread::park", "parked thread", true),
    ("Thread>::park", "parked thread", true),
    ("park_timeout", "parked thread", true),
    (">::recv", "channel", true),
    ("std::mutex", "mutex", false),
    ("std::shared_mutex", "rwlock", false),
    ("std::condition_variable", "condition variable", true),
    ("ObjectMonitor::enter", MONITOR, false),
    ("ObjectMonitor::EnterI", MONITOR, false),
    ("ObjectMonitor::ReenterI", MONITOR, false),
    ("ObjectMonitor::wait", "Java wait", true),
    ("JVM_MonitorWait", "Java wait", true),
    ("java.lang.Object.wait", "Java wait", true),
    ("Parker::park", "Java park", true),
    ("Unsafe_Park", "Java park", true),
    ("Unsafe.park", "Java park", true),
    ("LockSupport.park", "Java park", true),
    ("ConditionObject.await", "Java wait", true),
    ("Synchronizer.acquire", JAVA_LOCK, false),
    ("ReentrantLock", JAVA_LOCK, false),
    ("ReentrantReadWriteLock", JAVA_LOCK, false),
    ("Monitor::", "JVM monitor", true),
    ("Mutex::lock", "mutex", false),
    ("runtime.lock", "Go runtime lock", false),
    ("runtime.notesleep", "idle Go worker", true),
    ("runtime.notetsleep", "idle Go worker", true),
    ("runtime.stopm", "idle Go worker", true),
    ("runtime.mPark", "idle Go worker", true),
];

/// Parts of the names of functions between the taker and the system call, and of libraries without names of functions.
const WRAPPERS: &[&str] = &[
    "[libc.so",
    "[libc-",
    "[libpthread",
    "[libstdc++",
    "[ld-",
    "futex",
    "syscall",
    "__gthread",
    "lock_guard",
    "unique_lock",
    "scoped_lock",
    "shared_lock",
    "lock_contended",
    "runtime.",
    "do_sem_wait",
    "PlatformEvent::park",
    "ObjectSynchronizer::",
    "monitorenter",
    "monitor_enter",
    "complete_monitor_locking",
    "StubRoutines",
    "AbstractOwnableSynchronizer",
    "AbstractQueuedSynchronizer",
];

/// Functions of the kernel that wait for its locks, and those whose names are not known yet.
const KERNEL_WAITS: &[&str] = &[
    "[kernel.kallsyms]",
    "slowpath",
    "mutex_lock",
    "__mutex",
    "rwsem",
    "down_",
    "_raw_",
    "queued_",
    "osq_lock",
    "native_",
    "pv_",
    "kvm_",
    "traceiter",
    "perf_",
    "trace_",
    "percpu_down",
    "rt_mutex",
    "rtlock",
    "rwbase",
    "rt_spin",
    "bpf_",
    "preempt_schedule",
    "schedule",
];

/// Functions in which threads and programs start. A stack that reaches them lacks the taker, as during the first
/// moments of a process.
const STARTS: &[&str] =
    &["start_thread", "clone", "__clone", "clone3", "__clone3", "thread_start", "__libc_start_call_main", "_start"];

/// Returns a symbol without its version: `clone@@GLIBC_2.2.5`.
fn unversioned(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

impl LockName {
    /// Names a futex from the stack of a wait, the outermost function first.
    pub(crate) fn of_futex(frames: &[FrameName]) -> Self {
        let mut name = Self { kind: FUTEX.into(), ..Self::default() };
        let mut is_native = true;
        for frame in frames.iter().rev().filter(|frame| !frame.kind.is_kernel()) {
            let is_of_glibc = GLIBC_WAITS.iter().any(|part| frame.text.contains(part));
            if let Some((_, kind, is_queue)) = KINDS.iter().find(|(part, ..)| frame.text.contains(part)) {
                (name.kind, name.is_queue) = ((*kind).into(), *is_queue);
                name.is_of_glibc |= is_of_glibc;
                is_native = !matches!(frame.kind, DsoKind::Interpreted(_));
            } else if frame.kind == DsoKind::Cut || STARTS.contains(&unversioned(&frame.text)) {
                break;
            } else if !WRAPPERS.iter().any(|part| frame.text.contains(part)) {
                name.taken_in = frame.text.clone();
                if is_native && frame.kind == DsoKind::Interpreted(Language::Python) {
                    name.of_python();
                }
                break;
            }
        }
        name
    }

    /// Names a lock of CPython: stacks of Python programs omit the interpreter's own functions.
    fn of_python(&mut self) {
        let is_global = &*self.kind == CONDITION;
        self.kind = if is_global { GLOBAL } else { "Python lock" }.into();
        self.is_queue = false;
    }

    /// Names a futex whose word is a thread's number, which the kernel clears at the end of the thread.
    pub(super) fn of_end(name: Self) -> Self {
        Self { kind: JOIN.into(), is_queue: true, ..name }
    }

    /// Names a kernel lock from the flags of its contention (LCB_F_* in include/trace/events/lock.h) and the stack.
    pub(super) fn of_kernel(frames: &[FrameName], flags: u32) -> Self {
        const SPIN: u32 = 1;
        const READ: u32 = 2;
        const WRITE: u32 = 4;
        const REAL_TIME: u32 = 8;
        const PERCPU: u32 = 16;
        const MUTEX: u32 = 32;
        let has = |bit: u32| flags & bit != 0;
        let mode = if has(READ) {
            ", reading"
        } else if has(WRITE) {
            ", writing"
        } else {
            ""
        };
        let kind = match () {
            () if has(MUTEX) => "kernel mutex",
            () if has(PERCPU) => "percpu rwsem",
            () if has(REAL_TIME) => "rt mutex",
            () if has(SPIN) && mode.is_empty() => "spinlock",
            () if has(SPIN) => "kernel rwlock",
            () => "rwsem",
        };
        let is_wait = |frame: &&FrameName| KERNEL_WAITS.iter().any(|part| frame.text.contains(part));
        let taker = frames.iter().rev().take_while(|frame| frame.kind.is_kernel()).find(|frame| !is_wait(frame));
        let taken_in = taker.map(|frame| frame.text.clone()).unwrap_or_default();
        Self { kind: format!("{kind}{mode}").into(), taken_in, ..Self::default() }
    }

    /// Returns whether only its address is known.
    pub(super) fn is_unnamed(&self) -> bool {
        self.variable.is_empty() && self.taken_in.is_empty()
    }

    /// Returns whether the lock is the same for all waits in its taker: its futexes belong to the waiting threads.
    pub(super) fn is_of_taker(&self) -> bool {
        [MONITOR, JAVA_LOCK].contains(&&*self.kind) && !self.taken_in.is_empty()
    }

    /// Adds the variable that contains the lock's futex. The interpreter's lock keeps its name.
    pub(super) fn in_variable(self, variable: &Variable) -> Self {
        let Variable { name, offset, size } = variable;
        let has_several = self.is_of_glibc && SEVERAL_WORDS.iter().any(|kind| self.kind.starts_with(kind));
        match *offset {
            _ if &*self.kind == GLOBAL => self,
            within if has_several && *size <= LARGEST => Self { variable: name.clone(), within, ..self },
            0 => Self { variable: name.clone(), ..self },
            offset => Self { variable: format!("{name}+{offset:#x}").into(), ..self },
        }
    }

    /// Returns the variable; if there is none, the taker and the address.
    pub(super) fn text(&self, key: LockKey) -> String {
        match (self.variable.is_empty(), self.taken_in.is_empty()) {
            (false, _) => self.variable.to_string(),
            (true, true) => format!("{:#x}", key.address),
            (true, false) if self.is_of_taker() => self.taken_in.to_string(),
            (true, false) => format!("{} {:#x}", self.taken_in, key.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::kit::ThreadKey;

    #[test]
    fn a_lock_has_the_name_of_its_taker() {
        for (stack, kind, taken_in, is_queue) in [
            ("__lll_lock_wait < pthread_mutex_lock@@GLIBC_2.2.5 < want_lock < waiter", "mutex", "want_lock", false),
            ("futex_wait < __lll_lock_wait_private < malloc < parse", "mutex", "malloc", false),
            ("__futex_abstimed_wait_common < ___pthread_rwlock_rdlock < lookup", "rwlock, reading", "lookup", false),
            (
                "__futex_abstimed_wait < pthread_cond_timedwait < take_gil < PyEval_RestoreThread",
                "Python's global lock",
                "PyEval_RestoreThread",
                false,
            ),
            ("__futex_abstimed_wait < pthread_cond_wait < pool_worker", "condition variable", "pool_worker", true),
            ("syscall < <std::thread::thread::Thread>::park_timeout < app::idle", "parked thread", "app::idle", true),
            ("syscall < <std::sync::mpmc::list::Channel<u8>>::recv < app::next", "channel", "app::next", true),
            ("syscall < std::sys::sync::mutex::futex::Mutex::lock_contended < app::take", "mutex", "app::take", false),
            (
                "runtime.futex < runtime.futexsleep < runtime.notesleep < runtime.mPark < runtime.stopm < runtime.schedule",
                "idle Go worker",
                "",
                true,
            ),
            (
                "__futex_abstimed_wait < pthread_cond_wait < os::PlatformEvent::park < ObjectMonitor::EnterI < \
                 ObjectMonitor::enter < ObjectSynchronizer::enter < InterpreterRuntime::monitorenter < Shop.order",
                "Java monitor",
                "Shop.order",
                false,
            ),
            (
                "pthread_cond_wait < os::PlatformEvent::park < ObjectMonitor::wait < JVM_MonitorWait < \
                 java.lang.Object.wait < Shop.await",
                "Java wait",
                "Shop.await",
                true,
            ),
            (
                "pthread_cond_wait < Parker::park < Unsafe_Park < jdk.internal.misc.Unsafe.park < \
                 java.util.concurrent.locks.LockSupport.park < \
                 java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire < \
                 java.util.concurrent.locks.ReentrantLock.lock < Shop.pay",
                "Java lock",
                "Shop.pay",
                false,
            ),
            (
                "pthread_cond_wait < os::PlatformEvent::park < JavaThread::sleep",
                "condition variable",
                "JavaThread::sleep",
                true,
            ),
            ("", "futex", "", false),
            // The names of libraries come later, or never.
            ("[libc.so.6] < [libc.so.6]", "futex", "", false),
            ("[libc-2.31.so] < [libpthread-2.31.so] < want_lock < waiter", "futex", "want_lock", false),
            ("__lll_lock_wait < pthread_mutex_lock < start_thread < clone3", "mutex", "", false),
        ] {
            let name = LockName::of_futex(&if stack.is_empty() { Vec::new() } else { FrameName::parse_all(stack) });
            assert_eq!((&*name.kind, &*name.taken_in, name.is_queue), (kind, taken_in, is_queue), "{stack}");
        }
    }

    #[test]
    fn a_lock_of_python_is_none_of_its_library() {
        let of = |native: &str, functions: &[&str]| {
            let mut all = FrameName::parse_all(native);
            let python = |text: &&str| FrameName {
                text: (*text).into(),
                kind: DsoKind::Interpreted(Language::Python),
                dso: "".into(),
            };
            all.splice(0..0, functions.iter().rev().map(python));
            let name = LockName::of_futex(&all);
            (name.kind.to_string(), name.taken_in.to_string(), name.is_queue)
        };
        let is = |kind: &str, taken_in: &str, is_queue| (kind.to_owned(), taken_in.to_owned(), is_queue);
        assert_eq!(of("do_futex_wait < __new_sem_wait_slow64", &["want", "main"]), is("Python lock", "want", false));
        assert_eq!(of("pthread_cond_timedwait", &["work", "main"]), is("Python's global lock", "work", false));
        let join = ["Thread._wait_for_tstate_lock", "Thread.join", "main"];
        assert_eq!(of("__new_sem_wait_slow64", &join), is(JOIN, "Thread.join", true));
        assert_eq!(of("sem_wait", &["Condition.wait", "Queue.get"]), is("condition variable", "Queue.get", true));
    }

    #[test]
    fn a_kernel_lock_has_kind_and_taker() {
        let stack =
            "rwsem_down_read_slowpath_[k] < down_read_[k] < do_user_addr_fault_[k] < exc_page_fault_[k] < touch";
        let of = |flags| LockName::of_kernel(&FrameName::parse_all(stack), flags);
        assert_eq!((&*of(2).kind, &*of(2).taken_in), ("rwsem, reading", "do_user_addr_fault"));
        for (flags, kind) in [
            (1, "spinlock"),
            (3, "kernel rwlock, reading"),
            (4, "rwsem, writing"),
            (33, "kernel mutex"),
            (18, "percpu rwsem, reading"),
            (8, "rt mutex"),
        ] {
            assert_eq!(&*of(flags).kind, kind);
        }
        let key = LockKey { space: ThreadKey::of_row(0), address: 0x1000 };
        assert_eq!(of(2).text(key), "do_user_addr_fault 0x1000");
        for nameless in ["main", "[kernel.kallsyms]_[k] < [kernel.kallsyms]_[k] < main"] {
            assert_eq!(LockName::of_kernel(&FrameName::parse_all(nameless), 1).text(key), "0x1000", "{nameless}");
        }
    }

    #[test]
    fn a_lock_in_a_variable_has_its_name() {
        let key = LockKey { space: ThreadKey::of_row(1), address: 0x1000 };
        let text = |stack: &str, offset, size| {
            let variable = Variable { name: "queue".into(), offset, size };
            let name = LockName::of_futex(&FrameName::parse_all(stack)).in_variable(&variable);
            (name.text(key), name.within)
        };
        let mutex = "__lll_lock_wait < pthread_mutex_lock < take";
        assert_eq!(text(mutex, 0, 40), ("queue".to_owned(), 0));
        assert_eq!(text(mutex, 0x28, 400), ("queue+0x28".to_owned(), 0));
        // Both words of a lock have its name.
        let rwlock = "__futex_abstimed_wait < pthread_rwlock_wrlock < put";
        assert_eq!([8, 12].map(|word| text(rwlock, word, 56)), [8, 12].map(|word| ("queue".to_owned(), word)));
        assert_eq!(text(rwlock, 0x48, 400), ("queue+0x48".to_owned(), 0));
        // An array of Rust's locks can be as small as one of glibc's.
        for rust in ["sync::rwlock::futex::RwLock::write_contended", "sync::condvar::futex::Condvar::wait"] {
            let stack = format!("syscall < std::sys::{rust} < put");
            assert_eq!(text(&stack, 0x10, 48), ("queue+0x10".to_owned(), 0), "{rust}");
        }
        assert_eq!(text("pthread_cond_timedwait < take_gil", 0x48, 40), ("0x1000".to_owned(), 0));
    }
}
