//! Wake-ups by the end of a thread or process. The functions of the waker show that it ends, at the moment of the wake-up:
//! the kernel's work on its exit, or the function in which a runtime reports the end of a thread. A thread that releases a
//! lock and ends shortly afterwards has neither on its stack.

use crate::panel::stacks::FrameName;
use crate::session::DsoKind;

/// The end that a waker reports to those that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Ending {
    /// The end of the thread: `pthread_join` waits for it.
    Thread,
    /// The end of its process, to a wait for the end of a process: `wait4`, or `poll` of a pidfd.
    Process,
    /// The end of its process by the signal SIGCHLD, which ends any wait of the parent.
    Signaled,
    /// The end of its output: it closes a pipe or socket, whose reader gets the end of the data. Many programs do so shortly
    /// before their end. The parent that reads a child's output waits for that.
    Output,
}

/// The function of the kernel in which a thread ends.
const EXIT: &str = "do_exit";
/// Functions that clear the number of the ending thread and wake the one that joins it (CLONE_CHILD_CLEARTID).
const THREAD_ENDS: &[&str] = &["mm_release", "exit_mm_release"];
/// Functions that release the locks which the ending thread still holds, also within the former.
const RELEASES_LOCKS: &[&str] = &[
    "futex_exit_release",
    "futex_cleanup",
    "exit_robust_list",
    "compat_exit_robust_list",
    "handle_futex_death",
    "exit_pi_state_list",
];
const PROCESS_ENDS: &[&str] = &["do_notify_parent", "exit_notify", "do_notify_pidfd"];
/// Functions that send the signal SIGCHLD. Signals are their only wake-ups.
const SENDS_SIGNAL: &[&str] =
    &["complete_signal", "signal_wake_up_state", "send_signal_locked", "__send_signal_locked", "__send_signal"];

/// Functions that close a pipe or a socket, and the one in which a new program of the process closes those not for it.
const CLOSES: &[&str] = &["pipe_release", "unix_release_sock", "unix_release"];
const STARTS: &str = "begin_new_exec";

/// CPython: the function that reports the end of a thread to `Thread.join`, and the one that it calls for that. Since
/// 3.13 the latter is an event's.
const PYTHON_ENDS: &str = "release_sentinel";
const PYTHON_RELEASE: &str = "PyThread_release_lock";
const PYTHON_THREAD: &str = "thread_run";
const PYTHON_EVENT: &str = "_PyEvent_Notify";
/// The most functions around CPython's release of a lock at the end of a thread, and those of the C library among them,
/// which start it. The others are the interpreter's. A lock that a function of the program releases has more.
const FEW_FUNCTIONS: usize = 6;
const OF_C_LIBRARY: usize = 2;
/// HotSpot's functions in which a thread ends, and those that release its object's monitor for `Thread.join`, directly
/// within. The Java code that runs at the end of a thread may release other monitors.
const HOTSPOT: &str = "libjvm.so";
const JAVA_ENDS: &[&str] = &["JavaThread::exit", "ensure_join"];
const JAVA_RELEASES: &[&str] =
    &["ObjectMonitor::ExitEpilog", "ObjectMonitor::exit", "ObjectSynchronizer::exit", "ObjectLocker::~ObjectLocker"];
/// The function of Rust's `thread::scope` that a thread of the scope calls last. Without its name, the thread's function
/// drops the packet of its result, in which the former is inlined.
const SCOPE_ENDS: &str = "ScopeData::decrement_num_running_threads";
const SCOPE_PACKET: [&str; 3] = ["thread_start", "FnOnce::call_once", "Arc<T,A>::drop_slow"];
/// musl wakes the thread that joins in the function in which a thread ends. glibc's function of that name wakes nothing.
const MUSL_ENDS: &[&str] = &["__pthread_exit", "pthread_exit"];

impl Ending {
    /// Returns the end that a thread reports with a wake-up, by its stack, root first. `kernel` has the names of the
    /// kernel's functions without suffixes, innermost first.
    pub(super) fn of(frames: &[FrameName], kernel: &[&str]) -> Option<Self> {
        let has = |list: &[&str]| kernel.iter().any(|name| list.contains(name));
        if has(&[EXIT]) {
            return match () {
                () if has(PROCESS_ENDS) && has(SENDS_SIGNAL) => Some(Self::Signaled),
                () if has(PROCESS_ENDS) => Some(Self::Process),
                () if has(CLOSES) => Some(Self::Output),
                () if has(THREAD_ENDS) && !has(RELEASES_LOCKS) => Some(Self::Thread),
                () => None,
            };
        }
        if has(CLOSES) {
            return (!has(&[STARTS])).then_some(Self::Output);
        }
        let user = &frames[..frames.len() - kernel.len()];
        ends_in_runtime(user).then_some(Self::Thread)
    }
}

/// Returns whether a runtime reports the end of the thread in whose functions, root first, the wake-up happens.
fn ends_in_runtime(user: &[FrameName]) -> bool {
    let Some(innermost) = user.last() else { return false };
    let is_of_java = |pair: &[FrameName]| {
        let [outer, inner] = pair else { return false };
        &*outer.dso == HOTSPOT && JAVA_ENDS.contains(&&*outer.text) && JAVA_RELEASES.contains(&&*inner.text)
    };
    let is_of_scope = |three: &[FrameName]| three.iter().zip(SCOPE_PACKET).all(|(name, part)| name.text.contains(part));
    MUSL_ENDS.contains(&&*innermost.text)
        || ends_in_python(user)
        || user.windows(2).any(is_of_java)
        || user.windows(SCOPE_PACKET.len()).any(is_of_scope)
        || user.iter().any(|name| name.text.contains(SCOPE_ENDS))
}

fn ends_in_python(user: &[FrameName]) -> bool {
    let Some(at) = user.iter().position(|name| matches!(&*name.text, PYTHON_RELEASE | PYTHON_EVENT)) else {
        return false;
    };
    let (outer, release) = (&user[..at], &user[at]);
    let caller = outer.last().map_or("", |name| &*name.text);
    if &*release.text == PYTHON_EVENT {
        return caller.starts_with(PYTHON_THREAD);
    }
    // Distributions strip the interpreter, so that only the function that it exports has a name.
    let is_few = outer.len() > OF_C_LIBRARY && outer.len() <= FEW_FUNCTIONS;
    let runs_program = |name: &FrameName| matches!(name.kind, DsoKind::Interpreted(_) | DsoKind::Cut);
    let is_of_interpreter = |outer: &[FrameName]| outer.iter().all(|name| name.dso == release.dso);
    caller == PYTHON_ENDS || is_few && !outer.iter().any(runs_program) && is_of_interpreter(&outer[OF_C_LIBRARY..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the end that a waker with this stack reports, as it is printed.
    fn ending(stack: &str) -> Option<Ending> {
        let frames = FrameName::parse_all(stack);
        let kernel: Vec<&str> =
            frames.iter().rev().take_while(|name| name.kind.is_kernel()).map(|name| &*name.text).collect();
        Ending::of(&frames, &kernel)
    }

    /// As Linux 6.18 shows them.
    #[test]
    fn the_kernel_reports_the_end_of_a_thread_or_process() {
        let exit = "do_exit_[k] < __x64_sys_exit_[k] < do_syscall_64_[k] < start_thread < clone3";
        let futex = "try_to_wake_up_[k] < wake_up_q_[k] < futex_wake_[k]";
        for (stack, expected) in [
            (format!("{futex} < do_futex_[k] < mm_release_[k] < {exit}"), Some(Ending::Thread)),
            (
                format!("try_to_wake_up_[k] < __wake_up_sync_key_[k] < do_notify_parent_[k] < {exit}"),
                Some(Ending::Process),
            ),
            (format!("try_to_wake_up_[k] < __wake_up_[k] < do_notify_pidfd_[k] < {exit}"), Some(Ending::Process)),
            (
                format!("complete_signal_[k] < __send_signal_locked_[k] < do_notify_parent_[k] < {exit}"),
                Some(Ending::Signaled),
            ),
            // A lock that the thread still held.
            (format!("{futex} < handle_futex_death_[k] < futex_exit_release_[k] < exit_mm_release_[k] < {exit}"), None),
            (
                format!("try_to_wake_up_[k] < __wake_up_[k] < pipe_release_[k] < __fput_[k] < {exit}"),
                Some(Ending::Output),
            ),
            (
                "try_to_wake_up_[k] < __wake_up_[k] < pipe_release_[k] < __fput_[k] < close < main".to_owned(),
                Some(Ending::Output),
            ),
            ("__wake_up_[k] < pipe_release_[k] < __fput_[k] < begin_new_exec_[k] < execve < main".to_owned(), None),
            // The same functions outside of an exit: a program starts another one, or a parent reaps a child.
            (format!("{futex} < mm_release_[k] < exec_mm_release_[k] < begin_new_exec_[k] < execve < main"), None),
            ("__wake_up_sync_key_[k] < do_notify_parent_[k] < release_task_[k] < wait4 < main".to_owned(), None),
            // Functions of the program.
            (format!("{futex} < __x64_sys_futex_[k] < mm_release < do_exit < main"), None),
        ] {
            assert_eq!(ending(&stack), expected, "{stack}");
        }
    }

    #[test]
    fn a_runtime_reports_the_end_of_a_thread() {
        let futex = "try_to_wake_up_[k] < futex_wake_[k] < __x64_sys_futex_[k]";
        let post = format!("{futex} < sem_post@GLIBC_2.2.5 < PyThread_release_lock");
        let started = "thread_run < pythread_wrapper < start_thread < clone3";
        let stripped = "python3.11+0x1234 < python3.11+0x4321 < start_thread < clone3";
        for (stack, expected) in [
            (format!("{post} < release_sentinel < {started}"), true),
            (format!("{post} < {stripped}"), true),
            (format!("{futex} < _PySemaphore_Wakeup < _PyParkingLot_UnparkAll < _PyEvent_Notify < {started}"), true),
            (format!("{futex} < __pthread_exit < start"), true),
            (format!("{futex} < Thread::unpark < std::thread::scoped::ScopeData::decrement_num_running_threads"), true),
            (
                format!(
                    "{futex} < syscall < alloc::sync::Arc<T,A>::drop_slow < \
                     core::ops::function::FnOnce::call_once{{{{vtable.shim}}}} < \
                     <std::sys::thread::unix::Thread>::new::thread_start < start_thread < clone3"
                ),
                true,
            ),
            (format!("{futex} < syscall < alloc::sync::Arc<T,A>::drop_slow < work < start_thread < clone3"), false),
            // The thread releases Python's global lock last, and functions of the program release other ones.
            (format!("{futex} < pthread_cond_signal < drop_gil < _PyThreadState_DeleteCurrent < {started}"), false),
            (
                format!(
                    "{post} < lock_release < _PyEval_EvalFrameDefault < _PyEval_Vector < method_vectorcall < {started}"
                ),
                false,
            ),
            (format!("{futex} < sem_post < _PyParkingLot_UnparkAll < _PyEvent_Notify < set < {started}"), false),
            (post.clone(), false),
            (format!("{futex} < pthread_mutex_unlock < work < __pthread_exit < start"), false),
            (format!("{futex} < ensure_join < main"), false),
            (format!("{futex} < pthread_mutex_unlock < work < start_thread < clone3"), false),
        ] {
            assert_eq!(ending(&stack), expected.then_some(Ending::Thread), "{stack}");
        }
        let in_hotspot = |mut frames: Vec<FrameName>| {
            frames.iter_mut().for_each(|name| name.dso = "libjvm.so".into());
            ends_in_runtime(&frames)
        };
        assert!(in_hotspot(FrameName::parse_all("ObjectMonitor::exit < ensure_join < JavaThread::exit")));
        let inlined = "pthread_cond_signal < ObjectMonitor::ExitEpilog < JavaThread::exit < JavaThread::post_run";
        assert!(in_hotspot(FrameName::parse_all(inlined)));
        assert!(!ends_in_runtime(&FrameName::parse_all(inlined)), "functions of the program");
        assert!(!in_hotspot(FrameName::parse_all("pthread_cond_broadcast < Threads::remove < JavaThread::exit")));
        assert!(!in_hotspot(FrameName::parse_all("ObjectMonitor::exit < ThreadGroup.remove < JavaThread::exit")));
    }

    /// Functions of the program hide behind a broken stack, and their own frames replace those of the interpreter.
    #[test]
    fn a_lock_of_the_program_is_not_the_end_of_a_thread() {
        let mut frames = FrameName::parse_all("sem_post < PyThread_release_lock < run < work < start_thread < clone3");
        assert!(ends_in_python(&frames), "without a sign of the program");
        frames[2].dso = "extension.so".into();
        assert!(!ends_in_python(&frames), "a thread of a library in C");
        frames[2].dso = "".into();
        for kind in [DsoKind::Cut, DsoKind::Interpreted(crate::record::interpreted::Language::Python)] {
            frames[2].kind = kind;
            assert!(!ends_in_python(&frames), "{kind:?}");
        }
    }
}
