//! The parts of a thread's time, and the part to which a sleep belongs.

use crate::panel::stacks::FrameName;
use crate::query::cpus::context::{AFTER_IRQ, IRQ, SOFTIRQ, is_system_vector};
use crate::units::kit::waits::classes::{Sleep, WaitClass};
use crate::units::kit::waits::endings::Ending;
use crate::units::kit::waits::sleep;
use crate::units::kit::waits::wakers::{Cause, Passes};

use crate::units::tasks::locks::lock_names::{self, LockName};

/// A part of a thread's wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TimePart {
    User,
    Kernel,
    Interrupt,
    Unsampled,
    Runnable,
    Throttled,
    Lock,
    Disk,
    Network,
    Local,
    Memory,
    Other,
    EachOther,
    Timer,
    Child,
    Work,
    Stopped,
    Unknown,
}

/// The number of parts.
pub(super) const PARTS: usize = 18;

impl TimePart {
    /// All parts in order of their numbers: the column's name and title, and the label.
    pub(super) const ALL: [(Self, &str, &str, &str); PARTS] = [
        (Self::User, "user_ns", "User", "user code"),
        (Self::Kernel, "kernel_ns", "Kernel", "kernel"),
        (Self::Interrupt, "irq_ns", "Irq", "interrupts"),
        (Self::Unsampled, "unsampled_ns", "Ran", "running"),
        (Self::Runnable, "runnable_ns", "Runnable", "runnable"),
        (Self::Throttled, "throttled_ns", "Throttle", "throttled"),
        (Self::Lock, "lock_ns", "Lock", "lock"),
        (Self::Disk, "disk_ns", "Disk", "disk"),
        (Self::Network, "network_ns", "Network", "network"),
        (Self::Local, "local_ns", "Pipe", "pipe or socket of this machine"),
        (Self::Memory, "memory_ns", "Memory", "memory"),
        (Self::Other, "other_ns", "Other", "other sleep"),
        (Self::EachOther, "each_other_ns", "Peers", "woken by each other"),
        (Self::Timer, "timer_ns", "Timer", "timer"),
        (Self::Child, "child_ns", "Child", "child"),
        (Self::Work, "work_ns", "Work", "waiting for work"),
        (Self::Stopped, "stopped_ns", "Stopped", "stopped"),
        (Self::Unknown, "unknown_ns", "Unknown", "unknown"),
    ];

    pub(super) fn label(self) -> &'static str {
        Self::ALL[self as usize].3
    }

    /// Whether the thread ran, could have run, or was held up.
    pub(super) fn is_active(self) -> bool {
        self < Self::Timer
    }

    /// Whether a sleep of this part may be a wait for work.
    pub(super) fn may_be_idle(self) -> bool {
        matches!(self, Self::Network | Self::Local | Self::Other)
    }

    pub(super) fn of_id(id: u64) -> Option<Self> {
        Self::ALL.iter().map(|(part, ..)| *part).find(|part| *part as u64 == id)
    }
}

/// Returns whether an interrupt ran on top of a thread, by the functions of a sample in the kernel.
pub(super) fn is_interrupt(frames: &[FrameName]) -> bool {
    let kernel = frames.iter().rev().take_while(|name| name.kind.is_kernel()).map(plain);
    kernel
        .take_while(|name| !AFTER_IRQ.contains(name))
        .any(|name| SOFTIRQ.contains(&name) || IRQ.contains(&name) || is_system_vector(name))
}

/// The kind of place in which a thread sleeps, from the functions of its stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SleepPlace {
    Lock,
    /// A condition variable or another queue of a program.
    Queue,
    /// The end of a thread or of a process.
    Child,
    /// A futex without functions of user code.
    Futex,
    Memory,
    Disk,
    Timer,
    /// A pipe, or a socket of a kind that never leaves the machine.
    Local,
    /// A socket of a network: who ends the wait shows whether its peer is on this machine.
    Socket,
    /// A remote file system.
    Remote,
    /// A call that waits for events of many kinds.
    Work,
    #[default]
    Unknown,
}

/// Beginnings of functions of the kernel that wait for its locks.
const LOCKS: &[&str] = &[
    "rwsem_down_",
    "__mutex_lock",
    "mutex_lock",
    "__down",
    "down_",
    "percpu_rwsem_wait",
    "percpu_down_",
    "__percpu_down_",
    "rt_mutex_",
    "__rt_mutex_",
    "rtlock_",
    "__lock_sock",
    "lock_sock_",
    "do_semtimedop",
    "fcntl_setlk",
    "flock_lock_",
    "locks_lock_",
    "posix_lock_",
];
const MEMORY: &[&str] = &[
    "exc_page_fault",
    "do_user_addr_fault",
    "handle_mm_fault",
    "do_page_fault",
    "do_mem_abort",
    "try_to_free_pages",
    "do_try_to_free_pages",
    "try_to_free_mem_cgroup_pages",
    "mem_cgroup_handle_over_high",
    "__mem_cgroup_handle_over_high",
    "mem_cgroup_out_of_memory",
    "throttle_direct_reclaim",
    "reclaim_throttle",
    "shrink_node",
    "do_swap_page",
    "psi_memstall_enter",
];
const CHILDREN: &[&str] = &["do_wait", "__do_wait", "kernel_wait", "wait_for_vfork_done", "pidfd_poll"];
const REMOTE: &[&str] = &["rpc_", "nfs", "cifs_", "smb2_", "ceph_", "request_wait_answer", "p9_"];
const DISKS: &[&str] = &[
    "io_schedule",
    "blk_",
    "blkdev_",
    "bio_",
    "submit_bio",
    "wait_on_buffer",
    "__wait_on_buffer",
    "folio_wait_",
    "wait_on_page_",
    "jbd2_",
    "wait_transaction_locked",
    "start_this_handle",
    "add_transaction_credits",
    "xlog_",
    "xfs_",
    "ext4_",
    "btrfs_",
    "f2fs_",
    "balance_dirty_pages",
    "rq_qos_wait",
    "wbt_wait",
    "wb_wait_for_completion",
    "iomap_dio",
    "read_events",
    "io_wq_",
];
const SYNCS: &[&str] = &["fsync", "fdatasync", "sync", "syncfs", "sync_file_range", "msync"];
const ACCEPTS: &[&str] = &["accept", "accept4", "inet_csk_accept", "unix_accept"];
const SOCKETS: &[&str] = &["tcp_", "inet_", "inet6_", "udp_", "udpv6_", "sk_wait_", "sk_stream_", "sctp_", "vsock_"];
const LOCAL: &[&str] = &["pipe_", "anon_pipe_", "fifo_", "wait_for_partner", "unix_", "eventfd_", "wq_sleep", "do_msg"];
/// Functions that wait for any of several events, for a signal, or for somebody at a terminal.
const WORK: &[&str] = &[
    "ep_poll",
    "do_epoll_wait",
    "do_sys_poll",
    "do_poll",
    "do_select",
    "io_cqring_wait",
    "inotify_read",
    "fanotify_read",
    "signalfd_",
    "timerfd_read",
    "n_tty_",
    "tty_",
    "do_sigtimedwait",
    "sigsuspend",
    "devkmsg_read",
    "do_syslog",
];
const WORK_CALLS: &[&str] = &["pause", "rt_sigsuspend", "rt_sigtimedwait", "io_uring_enter"];

/// Returns a function's name without compiler suffixes.
fn plain(name: &FrameName) -> &str {
    name.text.split('.').next().unwrap_or_default()
}

impl SleepPlace {
    /// From the functions of a stack, the outermost first.
    pub(super) fn of(frames: &[FrameName]) -> Self {
        let kernel: Vec<&str> = frames.iter().rev().take_while(|name| name.kind.is_kernel()).map(plain).collect();
        let begins = |list: &[&str]| kernel.iter().any(|name| list.iter().any(|start| name.starts_with(start)));
        let call = sleep::served(frames);
        let is_call = |list: &[&str]| list.contains(&&*call);
        match () {
            () if begins(LOCKS) => Self::Lock,
            () if sleep::is_of_timer(frames) => Self::Timer,
            () if call.starts_with("futex") => Self::of_futex(frames),
            () if begins(MEMORY) => Self::Memory,
            () if begins(CHILDREN) => Self::Child,
            () if begins(REMOTE) => Self::Remote,
            () if is_call(ACCEPTS) || begins(ACCEPTS) => Self::Work,
            () if begins(DISKS) || is_call(SYNCS) => Self::Disk,
            () if begins(LOCAL) => Self::Local,
            () if begins(SOCKETS) => Self::Socket,
            () if begins(WORK) || is_call(WORK_CALLS) || is_call(sleep::EVENT_CALLS) => Self::Work,
            () => Self::Unknown,
        }
    }

    fn of_futex(frames: &[FrameName]) -> Self {
        let name = LockName::of_futex(frames);
        match &*name.kind {
            lock_names::FUTEX => Self::Futex,
            lock_names::JOIN => Self::Child,
            _ if name.is_queue => Self::Queue,
            _ => Self::Lock,
        }
    }
}

impl TimePart {
    /// Returns the part of a sleep.
    pub(super) fn of_sleep(sleep: Sleep, class: WaitClass, cause: Option<Cause>, place: SleepPlace) -> Self {
        let is_by_task = matches!(cause, Some(Cause::Task { .. }));
        match (sleep, place) {
            (Sleep::Stopped, _) => Self::Stopped,
            (Sleep::Idle, _) => Self::Work,
            _ if class.is_until_end() => Self::Child,
            // Python's queues wait in a lock as well. A timer ends that, and not another thread.
            (_, SleepPlace::Lock) if class == WaitClass::Work && cause == Some(Cause::Timer) => Self::Work,
            (_, SleepPlace::Lock) => Self::Lock,
            (_, SleepPlace::Memory) => Self::Memory,
            (_, SleepPlace::Disk) => Self::Disk,
            (_, SleepPlace::Child) => Self::Child,
            (_, SleepPlace::Timer) => Self::Timer,
            (_, SleepPlace::Local) => Self::Local,
            (_, SleepPlace::Remote) => Self::Network,
            (_, SleepPlace::Socket) => {
                if is_by_task {
                    Self::Local
                } else {
                    Self::Network
                }
            }
            // Programs also wait for locks there: PostgreSQL for a row in epoll_wait, InnoDB at a condition variable.
            (_, SleepPlace::Queue | SleepPlace::Work | SleepPlace::Futex) => match class {
                WaitClass::Work => Self::Work,
                WaitClass::Held if place == SleepPlace::Futex => Self::Lock,
                WaitClass::EachOther | WaitClass::Outside | WaitClass::MainThread => Self::EachOther,
                WaitClass::ThreadEnd | WaitClass::ProcessEnd => Self::Child,
                WaitClass::Held | WaitClass::Broken => Self::Other,
            },
            (_, SleepPlace::Unknown) => match (cause, class) {
                (Some(Cause::Disk(_)), _) => Self::Disk,
                (_, WaitClass::Work) => Self::Work,
                (Some(Cause::Network { .. }), _) => Self::Network,
                (Some(Cause::Task { passes: Passes::Message | Passes::End(Ending::Output), .. }), _) => Self::Local,
                _ => Self::Other,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::kit::ThreadKey;

    const TASK: Option<Cause> = Some(Cause::Task { thread: ThreadKey::of_row(7), passes: Passes::Message });

    #[test]
    fn a_part_follows_from_the_place_of_the_sleep() {
        let futex = "schedule_[k] < futex_do_wait_[k] < __x64_sys_futex_[k]";
        let of = |stack: &str, sleep, class, cause| {
            let place = SleepPlace::of(&FrameName::parse_all(&format!("schedule_[k] < {stack} < work < main")));
            TimePart::of_sleep(sleep, class, cause, place)
        };
        use Sleep::{Interruptible as S, Uninterruptible as D};
        use TimePart as P;
        use WaitClass::{Broken, EachOther, Held, ProcessEnd, ThreadEnd, Work};
        let nic = Some(Cause::Network { sends: true });
        for (stack, sleep, class, cause, part) in [
            (&format!("{futex} < __lll_lock_wait < pthread_mutex_lock")[..], S, EachOther, TASK, P::Lock),
            (&format!("{futex} < new_sem_wait < PyThread_acquire_lock_timed"), S, Work, Some(Cause::Timer), P::Work),
            (
                &format!("{futex} < new_sem_wait < PyThread_acquire_lock_timed"),
                S,
                EachOther,
                Some(Cause::Timer),
                P::Lock,
            ),
            // A lock that nothing releases.
            (&format!("{futex} < new_sem_wait < PyThread_acquire_lock_timed"), S, Work, None, P::Lock),
            (&format!("{futex} < pthread_cond_wait"), S, EachOther, TASK, P::EachOther),
            (&format!("{futex} < pthread_cond_wait"), S, Work, None, P::Work),
            (&format!("{futex} < pthread_cond_wait"), S, Held, TASK, P::Other),
            (&format!("{futex} < __pthread_clockjoin_ex"), S, EachOther, TASK, P::Child),
            (&format!("{futex} < [broken]"), S, Work, None, P::Work),
            // Python's join waits in a lock, and a program that started another one reads a pipe.
            (&format!("{futex} < new_sem_wait < PyThread_acquire_lock_timed"), S, ThreadEnd, TASK, P::Child),
            ("ep_poll_[k] < do_epoll_wait_[k] < __x64_sys_epoll_wait_[k]", S, ProcessEnd, TASK, P::Child),
            ("rwsem_down_read_slowpath_[k] < down_read_[k] < exc_page_fault_[k]", D, Held, TASK, P::Lock),
            ("io_schedule_[k] < folio_wait_bit_[k] < filemap_fault_[k] < exc_page_fault_[k]", D, Held, None, P::Memory),
            ("io_schedule_[k] < folio_wait_bit_[k] < __x64_sys_fsync_[k] < fsync", D, Held, None, P::Disk),
            ("jbd2_log_wait_commit_[k] < ext4_sync_file_[k] < __x64_sys_fsync_[k]", D, Held, TASK, P::Disk),
            ("tcp_recvmsg_[k] < __x64_sys_recvfrom_[k] < recv", S, Work, nic, P::Network),
            ("tcp_recvmsg_[k] < __x64_sys_recvfrom_[k] < recv", S, Work, TASK, P::Local),
            ("inet_csk_accept_[k] < __x64_sys_accept4_[k] < accept4", S, Work, nic, P::Work),
            ("anon_pipe_read_[k] < vfs_read_[k] < __x64_sys_read_[k] < read", S, EachOther, TASK, P::Local),
            ("do_nanosleep_[k] < hrtimer_nanosleep_[k] < __x64_sys_clock_nanosleep_[k]", S, Work, None, P::Timer),
            ("do_wait_[k] < kernel_wait4_[k] < __x64_sys_wait4_[k] < wait4", S, Held, TASK, P::Child),
            ("ep_poll_[k] < do_epoll_wait_[k] < __x64_sys_epoll_wait_[k]", S, EachOther, TASK, P::EachOther),
            ("ep_poll_[k] < do_epoll_wait_[k] < __x64_sys_epoll_wait_[k]", S, Work, nic, P::Work),
            ("ep_poll_[k] < do_epoll_wait_[k] < __x64_sys_epoll_wait_[k]", S, Broken, None, P::Other),
            ("do_signal_stop_[k] < get_signal_[k]", Sleep::Stopped, Held, TASK, P::Stopped),
            ("worker_thread_[k] < kthread_[k]", Sleep::Idle, Work, TASK, P::Work),
            ("some_driver_wait_[k] < __x64_sys_ioctl_[k]", D, Held, Some(Cause::OtherCpu), P::Other),
            ("some_driver_wait_[k] < __x64_sys_ioctl_[k]", D, Held, Some(Cause::Disk(None)), P::Disk),
            ("some_driver_wait_[k] < __x64_sys_ioctl_[k]", S, Broken, None, P::Other),
        ] {
            assert_eq!(of(stack, sleep, class, cause), part, "{stack}");
        }
        // Without functions of user code, a futex may be a lock or a queue.
        let bare = SleepPlace::of(&FrameName::parse_all("futex_[k]"));
        assert_eq!(bare, SleepPlace::Futex);
        let parts = [Work, Held, EachOther, Broken].map(|class| P::of_sleep(S, class, None, bare));
        assert_eq!(parts, [P::Work, P::Lock, P::EachOther, P::Other]);
    }

    #[test]
    fn an_interrupt_on_top_of_a_thread_is_a_part_of_its_own() {
        assert!(is_interrupt(&FrameName::parse_all(
            "tcp_v4_rcv_[k] < net_rx_action_[k] < handle_softirqs_[k] < spin < main"
        )));
        assert!(is_interrupt(&FrameName::parse_all("nvme_irq_[k] < asm_common_interrupt_[k] < main")));
        assert!(!is_interrupt(&FrameName::parse_all(
            "clear_page_[k] < exc_page_fault_[k] < asm_exc_page_fault_[k] < main"
        )));
        assert!(!is_interrupt(&FrameName::parse_all("handle_softirqs < main")));
    }

    #[test]
    fn parts_are_listed_in_order_of_their_numbers() {
        for (at, (part, ..)) in TimePart::ALL.iter().enumerate() {
            assert_eq!((*part as usize, TimePart::of_id(at as u64)), (at, Some(*part)));
        }
        assert_eq!(TimePart::of_id(PARTS as u64), None);
        assert!(TimePart::EachOther.is_active() && !TimePart::Timer.is_active() && !TimePart::Unknown.is_active());
    }
}
