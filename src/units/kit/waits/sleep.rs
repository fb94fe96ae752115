//! Simplified stacks of sleeping tasks, without the scheduler functions that all of them share.

use std::sync::Arc;

use crate::panel::stacks::FrameName;
use crate::query::tree::origins::is_tracing;
use crate::session::DsoKind;

/// Functions in which every task leaves its CPU, and through which it entered the kernel: they carry no information.
const LEAVES: &[&str] = &["schedule", "__schedule", "io_schedule", "preempt_schedule", "poll_schedule_timeout"];
const ENTERS: &[&str] = &["entry_", "do_syscall_", "x64_sys_call", "el0", "invoke_syscall", "asm_", "ret_from_"];
/// Prefixes of the functions that implement system calls.
const CALLS: &[&str] = &["__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_"];
/// Minimum length of the words of a system call's name that describe its purpose.
const TELLING: usize = 5;

/// Functions of the kernel in which a thread sleeps until its own timer expires, and for nothing else.
const TIMER_SLEEPS: &[&str] = &["do_nanosleep", "hrtimer_nanosleep", "alarmtimer_do_nsleep", "do_cpu_nanosleep"];

/// System calls that wait for any of several events.
pub(crate) const EVENT_CALLS: &[&str] =
    &["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"];

/// Returns whether a thread sleeps until its own timer expires, by the kernel functions of its stack alone. No other
/// thread, disk or message ends such a sleep, except by a signal.
pub(crate) fn is_of_timer(frames: &[FrameName]) -> bool {
    waits_in(frames, TIMER_SLEEPS)
}

/// Functions of the kernel in which a thread waits for the end of a process.
const PROCESS_WAITS: &[&str] = &["do_wait", "__do_wait"];

/// Returns whether a thread waits for the end of a process, by the kernel functions of its stack alone.
pub(crate) fn is_of_process(frames: &[FrameName]) -> bool {
    waits_in(frames, PROCESS_WAITS)
}

/// Returns whether the kernel part of a stack has one of these functions.
fn waits_in(frames: &[FrameName], functions: &[&str]) -> bool {
    let kernel = frames.iter().rev().take_while(|name| name.kind.is_kernel());
    kernel.map(|name| name.text.split('.').next().unwrap_or_default()).any(|name| functions.contains(&name))
}

/// Functions of Go's scheduler in which a thread without a goroutine to run waits for one. Goroutines that wait for each
/// other do not block threads.
pub(super) const IDLE_WORKERS: &[&str] =
    &["runtime.stopm", "runtime.findRunnable", "runtime.findrunnable", "runtime.sysmon"];

/// The library of HotSpot, its functions in which its own workers wait for a task, and those that wait. Threads of the
/// program do not run the former: they compile, collect garbage, and serve the virtual machine in other ways.
const HOTSPOT: &str = "libjvm.so";
const HOTSPOT_WORKERS: &[&str] = &[
    "CompileQueue::get",
    "VMThread::loop",
    "VMThread::wait_for_operation",
    "GangWorker::loop",
    "SemaphoreGangTaskDispatcher::worker_wait_for_task",
    "WorkerTaskDispatcher::worker_run_task",
    "WorkerThread::run",
    "G1ConcurrentMarkThread::run_service",
    "G1ConcurrentMarkThread::wait_for_next_cycle",
    "G1ConcurrentRefineThread::run_service",
    "G1ConcurrentRefineThread::wait_for_completed_buffers",
    "G1PrimaryConcurrentRefineThread::wait_for_completed_buffers",
    "G1SecondaryConcurrentRefineThread::wait_for_completed_buffers",
    "G1ServiceThread::sleep_before_next_cycle",
    "G1ServiceThread::wait_for_task",
    "MonitorDeflationThread::monitor_deflation_thread_entry",
    "NMethodSweeper::sweeper_loop",
    "ServiceThread::service_thread_entry",
    "WatcherThread::sleep",
    "JVM_WaitForReferencePendingList",
    "signal_thread_entry",
    // Collectors that were started before the virtual machine was ready.
    "wait_init_completed",
];
const HOTSPOT_WAITS: &[&str] = &[
    "Monitor::wait",
    "Monitor::wait_without_safepoint_check",
    "PosixSemaphore::wait",
    "Semaphore::wait",
    "os::signal_wait",
];
/// A part of the names of glibc's functions that wait for a mutex.
const MUTEX_WAIT: &str = "lll_lock";

/// Returns whether a thread is an idle worker of a runtime: one that schedules its work onto threads, or a virtual machine.
pub(crate) fn is_idle_worker(frames: &[FrameName]) -> bool {
    let is_of_go = frames.iter().filter(|name| !name.kind.is_kernel()).any(|name| IDLE_WORKERS.contains(&&*name.text));
    is_of_go || is_idle_in_hotspot(frames)
}

/// Returns whether a worker of HotSpot waits for a task: it does not run one, and it does not wait for the mutex of its
/// queue.
fn is_idle_in_hotspot(frames: &[FrameName]) -> bool {
    let waits = |pair: &[FrameName]| {
        let [outer, inner] = pair else { return false };
        &*outer.dso == HOTSPOT && HOTSPOT_WORKERS.contains(&&*outer.text) && HOTSPOT_WAITS.contains(&&*inner.text)
    };
    frames.windows(2).any(waits) && !frames.iter().any(|name| name.text.contains(MUTEX_WAIT))
}

/// Simplifies a sleeping stack, the outermost first. The kernel part is reduced to the system call, or what else
/// entered the kernel, and to the wait function if its name adds information.
pub(crate) fn seen_by_user(frames: &[FrameName]) -> Vec<FrameName> {
    let is_of_kernel = |name: &FrameName| matches!(name.kind, DsoKind::Kernel | DsoKind::Module);
    let from = frames.iter().rposition(|name| !is_of_kernel(name)).map_or(0, |at| at + 1);
    let (user, kernel) = frames.split_at(from);
    let leaves = |name: &&FrameName| {
        LEAVES.contains(&&*name.text) || name.text.starts_with("schedule_") || is_tracing(&name.text)
    };
    let waiting = kernel.len() - kernel.iter().rev().take_while(leaves).count();
    // Without any other function, only the switch is known.
    let kernel = if waiting == 0 { kernel } else { &kernel[..waiting] };
    let mut out = user.to_vec();
    if user.is_empty() {
        out.extend_from_slice(kernel);
        return out;
    }
    let (served, is_call) = served_by(kernel);
    let waits = kernel.last().filter(|name| {
        served.as_ref().is_none_or(|served| {
            let says = |word: &str| word.len() >= TELLING && name.text.contains(word);
            name.text != served.text && called(name).is_none() && !(is_call && served.text.split('_').any(says))
        })
    });
    // The C library's wrapper of the same name is enough.
    let repeats = |served: &FrameName| is_call && user.last().is_some_and(|inner| wraps(&inner.text, &served.text));
    out.extend(served.iter().filter(|served| !repeats(served)).chain(waits).cloned());
    out
}

/// Returns whether a function is the C library's wrapper of a system call, by any of its symbols, with their version.
fn wraps(function: &str, call: &str) -> bool {
    let unversioned = function.split('@').next().unwrap_or_default();
    let mut rest = unversioned.trim_start_matches('_');
    for start in ["GI_", "libc_"] {
        rest = rest.strip_prefix(start).unwrap_or(rest).trim_start_matches('_');
    }
    rest == call || call.strip_suffix("64") == Some(rest)
}

/// Returns the system call that a function implements.
fn called(name: &FrameName) -> Option<&str> {
    CALLS.iter().find_map(|start| name.text.strip_prefix(start))
}

/// Returns the system call of a stack's kernel part, or its first other function, and whether it is a call.
fn served_by(kernel: &[FrameName]) -> (Option<FrameName>, bool) {
    let enters = |name: &&FrameName| ENTERS.iter().any(|start| name.text.starts_with(start));
    let call = kernel.iter().find_map(|name| Some(FrameName { text: called(name)?.into(), ..name.clone() }));
    let is_call = call.is_some();
    (call.or_else(|| kernel.iter().find(|name| !enters(name)).cloned()), is_call)
}

/// Returns the system call in which a stack sleeps, or else its first kernel function.
pub(crate) fn served(frames: &[FrameName]) -> Arc<str> {
    let from = frames.iter().rposition(|name| !name.kind.is_kernel()).map_or(0, |at| at + 1);
    served_by(&frames[from..]).0.map(|name| name.text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses frames, innermost first; kernel functions end in `_[k]`.
    fn names(stack: &str) -> Vec<FrameName> {
        let name = |word: &str| {
            let (text, kind) = word.strip_suffix("_[k]").map_or((word, DsoKind::File), |text| (text, DsoKind::Kernel));
            FrameName { text: text.into(), kind, dso: "".into() }
        };
        stack.rsplit(" < ").map(name).collect()
    }

    #[test]
    fn only_functions_of_the_kernel_make_a_sleep_of_a_timer() {
        let is_of_timer = |stack: &str| super::is_of_timer(&names(stack));
        let sleep = "schedule_[k] < do_nanosleep_[k] < hrtimer_nanosleep_[k] < __x64_sys_clock_nanosleep_[k]";
        assert!(is_of_timer(&format!("{sleep} < [broken]")));
        assert!(is_of_timer("schedule_[k] < do_nanosleep.isra.0_[k]"));
        assert!(!is_of_timer("schedule_[k] < futex_do_wait_[k] < __x64_sys_futex_[k] < do_nanosleep < main"));
        assert!(!is_of_timer("schedule_[k] < ep_poll_[k] < __x64_sys_epoll_wait_[k] < clock_nanosleep"));
    }

    #[test]
    fn a_thread_of_go_without_a_goroutine_is_an_idle_worker() {
        let is_idle = |stack: &str| is_idle_worker(&names(stack));
        let parked = "futex_do_wait_[k] < runtime.futex < runtime.notesleep < runtime.stopm < runtime.schedule";
        assert!(is_idle(&format!("{parked} < runtime.mcall < [broken]")));
        assert!(is_idle("do_epoll_wait_[k] < runtime.epollwait < runtime.findRunnable < runtime.schedule"));
        assert!(!is_idle("futex_do_wait_[k] < runtime.futex < runtime.lock2 < runtime.mallocgc < main.work"));
        assert!(!is_idle("runtime.stopm_[k] < futex < main"));
    }

    /// HotSpot's threads wait for tasks in their queues; a thread of the program waits for a garbage collection.
    #[test]
    fn a_thread_of_hotspot_without_a_task_is_an_idle_worker() {
        let is_idle = |stack: &str| {
            let in_c = ["signal_thread_entry", "JVM_WaitForReferencePendingList"];
            let of_jvm = |name: FrameName| match name.text.contains("::") || in_c.contains(&&*name.text) {
                true => FrameName { dso: "libjvm.so".into(), ..name },
                false => name,
            };
            is_idle_worker(&names(stack).into_iter().map(of_jvm).collect::<Vec<_>>())
        };
        let futex = "futex_do_wait_[k] < __x64_sys_futex_[k]";
        let timed = format!("{futex} < pthread_cond_timedwait < os::PlatformMonitor::wait < Monitor::wait");
        assert!(is_idle(&format!("{timed} < CompileQueue::get < CompileBroker::compiler_thread_loop < start_thread")));
        assert!(is_idle(&format!("{futex} < sem_wait < PosixSemaphore::wait < GangWorker::loop < start_thread")));
        // The end of the program wakes these. The others wake up at times.
        let entry = "JavaThread::thread_main_inner < Thread::call_run < start_thread";
        let semaphore = format!("{futex} < sem_wait < PosixSemaphore::wait");
        assert!(is_idle(&format!("{semaphore} < os::signal_wait < signal_thread_entry < {entry}")));
        assert!(is_idle(&format!("{semaphore} < G1ConcurrentRefineThread::run_service < ConcurrentGCThread::run")));
        let unchecked = format!("{timed}_without_safepoint_check");
        assert!(is_idle(&format!("{unchecked} < ServiceThread::service_thread_entry < {entry}")));
        assert!(is_idle(&format!("{unchecked} < WatcherThread::sleep < WatcherThread::run < start_thread")));
        assert!(is_idle(&format!("{timed} < JVM_WaitForReferencePendingList < Reference.waitForReferencePendingList")));
        assert!(!is_idle(&format!("{futex} < lll_lock_wait < {timed} < CompileQueue::get < start_thread")));
        assert!(!is_idle(&format!("{timed} < SuspendibleThreadSet::yield < Task::work < GangWorker::loop")));
        assert!(!is_idle(&format!("{timed} < VMThread::wait_until_executed < VMThread::execute < Gc.main")));
        // A function of the program with such a name.
        assert!(!is_idle_worker(&names(&format!("{timed} < CompileQueue::get < main"))));
    }

    #[test]
    fn a_sleep_is_told_from_the_users_side() {
        let seen = |stack: &str| {
            let seen = seen_by_user(&names(stack));
            seen.iter().rev().map(|name| &*name.text).collect::<Vec<_>>().join(" < ")
        };
        let entry = "do_syscall_64_[k] < entry_SYSCALL_64_after_hwframe_[k]";
        for (inner, told) in [
            ("__schedule_[k] < schedule_[k] < futex_do_wait_[k] < __futex_wait_[k] < __x64_sys_futex_[k]", "futex"),
            (
                "schedule_[k] < do_nanosleep_[k] < hrtimer_nanosleep_[k] < __x64_sys_clock_nanosleep_[k]",
                "clock_nanosleep",
            ),
            ("schedule_[k] < pipe_read_[k] < vfs_read_[k] < ksys_read_[k] < __x64_sys_read_[k]", "pipe_read < read"),
            ("schedule_[k] < io_schedule_[k] < folio_wait_bit_[k] < __arm64_sys_read_[k]", "folio_wait_bit < read"),
            ("schedule_[k] < schedule_timeout_[k] < __x64_sys_pause_[k]", "pause"),
            // The tracepoint has a second probe, besides perf's.
            (
                "__traceiter_sched_switch_[k] < __schedule_[k] < schedule_[k] < futex_do_wait_[k] < \
                 __x64_sys_futex_[k]",
                "futex",
            ),
            (
                "perf_trace_sched_switch_[k] < __traceiter_sched_switch_[k] < __schedule_[k] < schedule_[k] < \
                 do_nanosleep_[k] < __x64_sys_clock_nanosleep_[k]",
                "clock_nanosleep",
            ),
        ] {
            assert_eq!(
                seen(&format!("{inner} < {entry} < take < worker < main")),
                format!("{told} < take < worker < main")
            );
        }
        for wrapper in ["fdatasync", "__fdatasync", "__GI_fdatasync", "__GI___libc_fdatasync"] {
            assert_eq!(
                seen(&format!(
                    "schedule_[k] < folio_wait_bit_[k] < __x64_sys_fdatasync_[k] < {entry} < {wrapper} < main"
                )),
                format!("folio_wait_bit < {wrapper} < main")
            );
        }
        // Code without unwind information ends a stack in the wrapper.
        for inner in ["schedule_[k] < __do_sys_clone3_[k]", "schedule_[k] < down_read_[k] < __do_sys_clone3_[k]"] {
            let told = seen(&format!("{inner} < {entry} < clone3 < [broken]"));
            assert_eq!(told.matches("clone3").count(), 1, "{told}");
        }
        let versioned = "schedule_[k] < do_nanosleep_[k] < __x64_sys_clock_nanosleep_[k]";
        assert_eq!(
            seen(&format!("{versioned} < {entry} < clock_nanosleep@GLIBC_2.2.5 < main")),
            "clock_nanosleep@GLIBC_2.2.5 < main"
        );
        let sized = "schedule_[k] < folio_wait_bit_[k] < __x64_sys_pread64_[k]";
        assert_eq!(seen(&format!("{sized} < {entry} < __libc_pread < main")), "folio_wait_bit < __libc_pread < main");
        let other = format!("schedule_[k] < do_wait_[k] < __x64_sys_wait4_[k] < {entry} < waitpid < main");
        assert_eq!(seen(&other), "do_wait < wait4 < waitpid < main");
        let fault = "io_schedule_[k] < filemap_fault_[k] < exc_page_fault_[k] < asm_exc_page_fault_[k] < main";
        assert_eq!(seen(fault), "filemap_fault < exc_page_fault < main");
        for whole in
            ["worker_thread_[k] < kthread_[k] < ret_from_fork_[k]", "io_schedule_[k] < main", "main", "io_schedule_[k]"]
        {
            assert_eq!(seen(whole), whole.replace("_[k]", ""));
        }
    }
}
