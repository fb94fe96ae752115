//! Wall time: the time of threads on the CPUs and off them, from the samples of two events.

/// A filter for stacks of threads that wait for work or for the end of a child, by the functions of the kernel that wait
/// for any of several events, for connections, signals or people, and by those of programs that idle workers wait in.
/// Workers of the kernel wait for work unless they wait for a disk.
pub(crate) const IDLE_SLEEP: &str = "\
    stack =~ \"^(ep_poll|do_epoll_|do_sys_poll|do_poll|do_select|io_cqring_wait|inotify_read|fanotify_read|signalfd_\
    |timerfd_read|n_tty_|tty_|do_sigtimedwait|sigsuspend|devkmsg_read|do_syslog|inet_csk_accept|unix_accept\
    |__x64_sys_pause|__arm64_sys_pause|do_wait|__do_wait|kernel_wait|smpboot_thread_fn|worker_thread|rescuer_thread)\" \
    || (stack =~ \"pthread_cond_|sem_(timed|clock)?wait|new_sem_|pthread_barrier_|[cC]ondvar|std::condition_variable\
    |Parker::park|Unsafe_Park|JVM_MonitorWait|ObjectMonitor::wait|thread::park|thread_parking|park_timeout\
    |^runtime\\.(stopm|findRunnable|findrunnable|sysmon|notet?sleep|mPark)$\" \
    && !(stack =~ \"take_gil|PyThread_acquire_lock|acquire_timed|ObjectMonitor::(enter|EnterI|ReenterI)|ReentrantLock\
    |ReentrantReadWriteLock|Synchronizer.acquire\")) \
    || stack == kthread && !(stack =~ \"io_schedule|blk_|bio_\")";

/// The samples that count together with those of a question's own event, which samples time on the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallTime {
    /// The event whose samples are nanoseconds off the CPUs.
    pub off_cpu: usize,
    /// The nanoseconds that each sample of the own event stands for; `None` if that is its period.
    pub sample_ns: Option<u64>,
}

/// The samples that a question counts: those of one event, or of wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountedSamples {
    pub(crate) event: usize,
    pub(crate) wall: Option<WallTime>,
}

impl CountedSamples {
    /// Returns the weight of a sample by its event and period; `None` if it does not count.
    #[inline]
    pub(crate) fn weight(&self, event: u16, period: u64) -> Option<u64> {
        let event = usize::from(event);
        match &self.wall {
            None => (event == self.event).then_some(period),
            Some(wall) if event == self.event => Some(wall.sample_ns.unwrap_or(period)),
            Some(wall) => (event == wall.off_cpu).then_some(period),
        }
    }

    /// Whether the weights of an event's samples are time that passed before them.
    pub(crate) fn is_off_cpu(&self, event: u16) -> bool {
        self.wall.is_none_or(|wall| wall.off_cpu == usize::from(event))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::filter::Filter;
    use crate::query::aggregate::{Aggregate, SampleSelection};
    use crate::query::staged::Staged;

    #[test]
    fn the_samples_of_both_events_add_up() {
        let mut staged = Staged::default();
        let site = staged.site(7, &["main"]);
        for (time, event) in [(1, 0), (2, 1), (3, 2), (4, 1)] {
            staged.profile.push(time, site, 10 * time, 0, event);
        }
        let total = |wall| {
            let of = CountedSamples { event: 0, wall };
            let total = Aggregate::of(SampleSelection { of, ..SampleSelection::default() }, None).over(staged.data());
            (total.total().samples, total.total().period)
        };
        assert_eq!(total(None), (1, 10));
        assert_eq!(total(Some(WallTime { off_cpu: 1, sample_ns: None })), (3, 70));
        assert_eq!(total(Some(WallTime { off_cpu: 1, sample_ns: Some(5) })), (3, 65));
    }

    #[test]
    fn idle_threads_wait_for_work() {
        let is_idle = |kernel: &[&str], user: &[&str]| {
            let mut staged = Staged::default();
            let kernel = kernel.iter().map(|name| format!("kernel:{name}"));
            let stack: Vec<String> = user.iter().map(|name| (*name).to_owned()).chain(kernel).collect();
            staged.sample(1, 7, &stack.iter().map(String::as_str).collect::<Vec<_>>(), 1);
            let filter = Filter::parse(IDLE_SLEEP).unwrap_or_else(|fault| panic!("{fault}"));
            Aggregate::new(0, Some(Arc::new(filter))).over(staged.data()).total().samples == 1
        };
        let futex = &["__x64_sys_futex", "futex_wait", "schedule", "__schedule"][..];
        assert!(is_idle(&["__x64_sys_epoll_wait", "do_epoll_wait", "ep_poll", "schedule"], &["main", "loop"]));
        assert!(is_idle(futex, &["main", "worker", "pthread_cond_wait@@GLIBC_2.3.2"]));
        assert!(is_idle(futex, &["runtime.schedule", "runtime.stopm"]));
        assert!(is_idle(&["ret_from_fork", "kthread", "rcu_gp_kthread", "schedule"], &[]));
        assert!(is_idle(&["__x64_sys_wait4", "do_wait", "schedule"], &["main", "run_job"]));
        assert!(!is_idle(&["ret_from_fork", "kthread", "kjournald2", "io_schedule"], &[]));
        assert!(!is_idle(futex, &["main", "handle_order", "pthread_mutex_lock"]));
        // Python's global lock is made of a condition variable.
        assert!(!is_idle(futex, &["main", "take_gil", "pthread_cond_timedwait"]));
        assert!(!is_idle(&["__x64_sys_clock_nanosleep", "do_nanosleep", "schedule"], &["main", "retry"]));
        assert!(!is_idle(&["anon_pipe_read", "schedule"], &["main", "read"]));
    }

    #[test]
    fn wall_time_is_that_of_two_events() {
        let weights = |counted: CountedSamples| [0, 1, 2].map(|event| counted.weight(event, 7));
        let clock = CountedSamples { event: 1, wall: None };
        assert_eq!(weights(clock), [None, Some(7), None]);
        let wall = |sample_ns| CountedSamples { wall: Some(WallTime { off_cpu: 2, sample_ns }), ..clock };
        assert_eq!(weights(wall(None)), [None, Some(7), Some(7)]);
        // Cycles are not a time, but their samples come at a known rate.
        assert_eq!(weights(wall(Some(1_000_000))), [None, Some(1_000_000), Some(7)]);
        assert!(!wall(None).is_off_cpu(1) && wall(None).is_off_cpu(2) && clock.is_off_cpu(1));
    }
}
