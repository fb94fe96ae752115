//! What a blocked thread waits for, by its stack: work of its own, as an idle pool does, or something that holds up the
//! work that it has.

use crate::profile::RetainedStack;
use crate::query::symbol_stacks::Name;
use crate::session::{BlockedThread, DsoKind};

use super::Moment;
use super::alike::ByStack;

/// Stacks, and whether those who stand in them wait for work.
#[derive(Debug, Default)]
pub(crate) struct Waits(ByStack<bool>);

impl Waits {
    /// Whether an interruptible sleep in a stack is one for work. Where the stack does not tell, it is not.
    pub(crate) fn are_for_work(&mut self, at: &Moment<'_>, stack: RetainedStack) -> bool {
        self.0.get(at, stack, || is_for_work(&at.frames(stack)))
    }
}

/// Functions of the kernel in which a thread sleeps until a time, or until any of the things that it serves is ready.
const OWN: &[&str] = &[
    "do_nanosleep",
    "hrtimer_nanosleep",
    "ep_poll",
    "do_epoll_wait",
    "do_epoll_pwait",
    "do_sys_poll",
    "do_poll",
    "poll_schedule_timeout",
    "do_select",
    "core_sys_select",
    "do_sigtimedwait",
    "sigsuspend",
    "sys_pause",
    "__x64_sys_pause",
    "io_cqring_wait",
    "inet_csk_accept",
    "unix_accept",
    "timerfd_read",
    "timerfd_read_iter",
    "eventfd_read",
    "signalfd_read",
    "signalfd_read_iter",
    "inotify_read",
    "fanotify_read",
];

/// Functions of the kernel that wait for a word of memory to change.
const FUTEX: &[&str] = &["futex_wait", "__futex_wait", "futex_wait_queue", "futex_wait_queue_me", "futex_do_wait"];
/// Those of the kernel's own threads, in which these begin.
const KERNEL_THREADS: &[&str] = &["kthread", "ret_from_fork", "ret_from_fork_asm"];
/// Callers of a wait for a word of memory that may say that it is a lock's.
const CALLERS: usize = 4;

/// By the functions of a stack, the outermost first.
fn is_for_work(frames: &[Name]) -> bool {
    let of_kernel = |name: &&Name| matches!(name.kind, DsoKind::Kernel | DsoKind::Module);
    let is = |name: &Name, list: &[&str]| list.contains(&name.text.split('.').next().unwrap_or_default());
    let mut kernel = frames.iter().rev().take_while(of_kernel).peekable();
    if kernel.peek().is_none() {
        return false;
    }
    let kernel: Vec<&Name> = kernel.collect();
    if kernel.iter().any(|name| is(name, OWN)) {
        return true;
    }
    let mut callers =
        frames[..frames.len() - kernel.len()].iter().rev().take(CALLERS).map(|name| &*name.text).peekable();
    match callers.peek() {
        None => kernel.iter().any(|name| is(name, KERNEL_THREADS)),
        // Who waits has no name: it may be a lock.
        Some(first) if first.starts_with(['[', '0']) => false,
        Some(_) => kernel.iter().any(|name| is(name, FUTEX)) && !callers.any(is_of_lock),
    }
}

/// Whether a function is one that takes a lock, by its name: neither a clock's nor one that blocks or unlocks.
fn is_of_lock(name: &str) -> bool {
    let name = name.to_lowercase();
    name.match_indices("lock").any(|(at, _)| !name[..at].ends_with(['b', 'c']) && !name[..at].ends_with("un"))
}

/// The operation of futex(2) with which condition variables, semaphores and joins wait; those of locks are others.
const WAIT_BITSET: u64 = 9;
const OPERATION: u64 = 0x7f;

/// Whether a thread that was blocked before anybody looked waits for work: by where it sleeps, and by what it called.
pub(crate) fn waits_for_work(thread: &BlockedThread) -> bool {
    let place = thread.place.split('.').next().unwrap_or_default();
    match (thread.state, thread.is_of_kernel) {
        ('I', _) | ('S', true) => true,
        ('S', false) if FUTEX.contains(&place) => thread.call.is_some_and(|(_, [_, op])| op & OPERATION == WAIT_BITSET),
        ('S', false) => OWN.contains(&place),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The innermost first, as it is read; those of the kernel end in `_[k]`.
    fn of(stack: &str) -> bool {
        let name = |word: &str| {
            let (text, kind) = word.strip_suffix("_[k]").map_or((word, DsoKind::File), |text| (text, DsoKind::Kernel));
            Name { text: text.into(), kind, dso: "".into() }
        };
        is_for_work(&stack.rsplit(" < ").map(name).collect::<Vec<_>>())
    }

    #[test]
    fn timers_polls_and_threads_of_the_kernel_wait_for_work() {
        for stack in [
            "schedule_[k] < worker_thread_[k] < kthread_[k] < ret_from_fork_[k]",
            "schedule_[k] < smpboot_thread_fn_[k] < kthread_[k] < ret_from_fork_[k] < ret_from_fork_asm_[k]",
            "schedule_[k] < do_nanosleep_[k] < do_syscall_64_[k] < clock_nanosleep < main",
            "schedule_[k] < ep_poll.constprop.0_[k] < do_syscall_64_[k] < epoll_wait < aeProcessEvents",
            "schedule_[k] < do_sys_poll_[k] < [libc.so.6]",
            "schedule_[k] < futex_wait_queue_[k] < futex_wait_[k] < pthread_cond_wait < bioProcessBackgroundJobs",
            "schedule_[k] < futex_wait_[k] < runtime.futex < runtime.notesleep < runtime.mPark",
            "schedule_[k] < futex_wait_[k] < syscall < park < tokio::block_on",
        ] {
            assert!(of(stack), "{stack}");
        }
    }

    #[test]
    fn locks_disks_and_pipes_hold_work_up() {
        for stack in [
            "schedule_[k] < io_schedule_[k] < folio_wait_bit_[k] < do_syscall_64_[k] < read < main",
            "schedule_[k] < pipe_read_[k] < do_syscall_64_[k] < read < main",
            "schedule_[k] < futex_wait_[k] < __lll_lock_wait < pthread_mutex_lock < main",
            "schedule_[k] < futex_wait_[k] < runtime.futex < runtime.futexsleep < runtime.lock2",
            "schedule_[k] < futex_wait_[k] < syscall < std::sys::sync::mutex::futex::Mutex::lock_contended",
            "schedule_[k] < futex_wait_[k] < 0x000000000008a1c0 < main",
            "schedule_[k] < futex_wait_[k] < [libc.so.6] < main",
            "do_poll < main",
            "",
        ] {
            assert!(!of(stack), "{stack}");
        }
    }

    #[test]
    fn what_blocked_before_is_told_apart_by_what_it_called() {
        let thread = |state, is_of_kernel, place: &str, op| BlockedThread {
            tid: 1,
            comm: Vec::new(),
            state,
            is_of_kernel,
            cpu: 0,
            place: place.to_owned(),
            call: Some((202, [0, op])),
            is_32_bit: false,
        };
        assert!(waits_for_work(&thread('I', true, "worker_thread", 0)));
        assert!(waits_for_work(&thread('S', true, "kcompactd", 0)));
        assert!(waits_for_work(&thread('S', false, "do_epoll_wait", 0)));
        assert!(waits_for_work(&thread('S', false, "futex_wait_queue", 0x189)));
        assert!(!waits_for_work(&thread('S', false, "futex_wait_queue", 0x80)), "a lock");
        assert!(!waits_for_work(&thread('D', true, "io_schedule", 0)));
        assert!(!waits_for_work(&thread('S', false, "pipe_read", 0)));
    }
}
