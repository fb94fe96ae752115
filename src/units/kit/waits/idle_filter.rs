//! The filter for sleep that counts as waiting for work, however it ends.

use crate::filter::equals;

use super::sleep::IDLE_WORKERS;

/// Returns a filter for samples of sleep that [`super::classes::WaitClass`] calls waiting for work however the sleep ends:
/// that of kernel threads, unless they wait for a disk or a lock, and of idle workers. The samples do not have the ends,
/// which determine the class of all other sleep.
pub(crate) fn idle_sleep() -> String {
    let workers: Vec<String> = IDLE_WORKERS.iter().map(|name| equals("stack", name)).collect();
    format!("{UNTROUBLED_KERNEL_THREAD} || {}", workers.join(" || "))
}

/// Kernel threads without the functions in which they are in uninterruptible sleep.
const UNTROUBLED_KERNEL_THREAD: &str = "stack == kthread && !(stack =~ \"io_schedule|blk_|bio_|mutex_lock|rwsem_down|^__down|\
                                        wait_for_completion\")";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::filter::Filter;
    use crate::panel::stacks::FrameName;
    use crate::query::aggregate::Aggregate;
    use crate::query::staged::Staged;
    use crate::session::DsoKind;
    use crate::units::kit::waits::classes::{Sleep, WaitClass, WaitEnd, WaitPlace};
    use crate::units::kit::waits::sleep;

    /// Returns whether the filter matches a stack, root first; the functions of the kernel come after those of the program.
    fn matches(user: &[&str], kernel: &[&str]) -> bool {
        let mut staged = Staged::default();
        let kernel = kernel.iter().map(|name| format!("kernel:{name}"));
        let stack: Vec<String> = user.iter().map(|name| (*name).to_owned()).chain(kernel).collect();
        staged.sample(1, 7, &stack.iter().map(String::as_str).collect::<Vec<_>>(), 1);
        let filter = Filter::parse(&idle_sleep()).unwrap_or_else(|fault| panic!("{fault}"));
        Aggregate::new(0, Some(Arc::new(filter))).over(staged.data()).total().samples == 1
    }

    /// Returns whether every end of a sleep in this place makes it one for work.
    fn is_always_work(user: &[&str], kernel: &[&str]) -> bool {
        let name = |kind| move |text: &&str| FrameName { text: (*text).into(), kind, dso: "".into() };
        let frames = user.iter().map(name(DsoKind::File)).chain(kernel.iter().map(name(DsoKind::Kernel)));
        let is_idle_worker = sleep::is_idle_worker(&frames.collect::<Vec<_>>());
        let place = WaitPlace { is_idle_worker, has_own_wakers: true, ..WaitPlace::default() };
        let ends = [WaitEnd::Open, WaitEnd::Timer, WaitEnd::Message, WaitEnd::OwnProgram, WaitEnd::Other];
        let is_of_kernel = user.is_empty();
        ends.iter().all(|end| WaitClass::of(Sleep::Interruptible, is_of_kernel, *end, place) == WaitClass::Work)
    }

    #[test]
    fn sleep_is_hidden_only_if_each_end_makes_it_a_wait_for_work() {
        let futex = &["__x64_sys_futex", "futex_wait", "schedule", "__schedule"][..];
        let poll = &["__x64_sys_epoll_wait", "do_epoll_wait", "ep_poll", "schedule"][..];
        let nanosleep = &["__x64_sys_clock_nanosleep", "do_nanosleep", "schedule"][..];
        let accept = &["__x64_sys_accept4", "inet_csk_accept", "schedule"][..];
        for (user, kernel, is_hidden) in [
            (&[] as &[&str], &["ret_from_fork", "kthread", "rcu_gp_kthread", "schedule"] as &[&str], true),
            (&[], &["ret_from_fork", "kthread", "worker_thread", "schedule"], true),
            (&["runtime.schedule", "runtime.stopm"], futex, true),
            (&["runtime.schedule", "runtime.findRunnable", "runtime.netpoll"], poll, true),
            (&["main", "handle_order", "pthread_mutex_lock"], futex, false),
            // Monitors of Java, Python's global lock and row locks of MariaDB are made of condition variables.
            (&["main", "worker", "pthread_cond_wait"], futex, false),
            (&["main", "take_gil", "pthread_cond_timedwait"], futex, false),
            (&["JavaThread::run", "Unsafe_Park", "Parker::park"], futex, false),
            // A backend of PostgreSQL waits for a row lock in epoll_wait.
            (&["main", "XactLockTableWait", "WaitLatch"], poll, false),
            (&["main", "loop"], poll, false),
            (&["main", "retry"], nanosleep, false),
            (&["main", "serve"], accept, false),
            (&["main", "run_job"], &["__x64_sys_wait4", "do_wait", "schedule"], false),
        ] {
            assert_eq!(matches(user, kernel), is_hidden, "{user:?} {kernel:?}");
            assert!(!is_hidden || is_always_work(user, kernel), "{user:?} {kernel:?}");
        }
        assert!(!is_always_work(&["main", "loop"], poll));
    }

    /// Kernel threads that wait for a disk or a lock are in uninterruptible sleep.
    #[test]
    fn a_kernel_thread_that_is_held_up_is_not_hidden() {
        assert!(!matches(&[], &["ret_from_fork", "kthread", "kjournald2", "io_schedule", "schedule"]));
        assert!(!matches(&[], &["kthread", "worker_thread", "process_one_work", "__mutex_lock", "schedule"]));
        assert!(!matches(&[], &["kthread", "worker_thread", "rwsem_down_write_slowpath", "schedule"]));
    }
}
