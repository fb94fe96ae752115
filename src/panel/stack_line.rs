//! Stacks on one line, the leaf first, shortened to what tells them from the other rows of their table.

use std::borrow::Cow;

use hashbrown::HashMap;

use super::function_name::fit_function;
use super::text::{BELOW, fit_end, width};

/// The separator in place of omitted frames; as wide as [`BELOW`].
const OMITTED: &str = " … ";
/// The widths to which long names are shortened before frames are omitted.
const NAME_WIDTHS: [usize; 3] = [usize::MAX, 40, 24];
/// The least width of a shortened leaf.
const LEAST_LEAF: usize = 4;

/// Uninformative frames: every task sleeps, enters the kernel or begins in them. A star marks prefixes.
const EVERYWHERE: &[&str] = &[
    "__schedule",
    "schedule",
    "schedule_timeout",
    "io_schedule",
    "preempt_schedule*",
    "entry_SYSCALL*",
    "do_syscall_64",
    "x64_sys_call",
    "el0*",
    "invoke_syscall",
    "ret_from_fork*",
    "kthread",
    "__libc_start*",
    "_start",
    "start_thread",
    "clone",
    "clone3",
    "__clone*",
    "main",
    "<module>*",
    "Thread._bootstrap*",
    "Thread.run (threading.py)",
];

fn is_everywhere(frame: &str) -> bool {
    EVERYWHERE.iter().any(|name| match name.strip_suffix('*') {
        Some(start) => frame.starts_with(start),
        None => frame == *name,
    })
}

/// Whether a frame has no function name: an address, or a mark such as `[broken]`.
fn is_unnamed(frame: &str) -> bool {
    frame.starts_with("0x") || frame.starts_with('[')
}

/// Whether a frame is one of an interpreted program: it has the name of its file behind it, as in `load (app.py)`.
fn is_interpreted(frame: &str) -> bool {
    let file = frame.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")).map(|(_, file)| file);
    file.is_some_and(|file| file.contains('.') && !file.contains(' '))
}

/// Returns how little a frame shows of the program: its interpreted functions come first, names that C and C++ reserve
/// for their libraries last.
fn distance(frame: &str) -> u8 {
    if is_interpreted(frame) { 0 } else { 1 + u8::from(frame.starts_with("__")) }
}

/// Returns a function's name without the version of a shared library's symbol, as in `pthread_cond_wait@@GLIBC_2.3.2`.
fn unversioned(frame: &str) -> &str {
    let name = frame.split_once('@').filter(|(_, version)| version.contains('_')).map(|(name, _)| name);
    name.filter(|name| !name.is_empty() && !name.contains(' ')).unwrap_or(frame)
}

/// The weight of the rows of a table in which each function occurs, so that small rows do not decide what is common.
#[derive(Debug, Default)]
pub(crate) struct FrameWeights<'a>(HashMap<&'a str, u64>);

impl<'a> FrameWeights<'a> {
    pub(crate) fn of(stacks: impl Iterator<Item = (&'a str, u64)>) -> Self {
        let mut weights = HashMap::<_, u64>::new();
        for (stack, weight) in stacks {
            let mut frames: Vec<&str> = stack.split(BELOW).map(unversioned).collect();
            frames.sort_unstable();
            frames.dedup();
            for frame in frames {
                let sum = weights.entry(frame).or_default();
                *sum = sum.saturating_add(weight);
            }
        }
        Self(weights)
    }

    /// The frames from the most to the least informative, without the leaf. First come functions of the program, and of
    /// these the ones that little of the other rows has; of equally frequent ones the outermost, which tells the part of
    /// the program, then those next to the leaf.
    fn by_information(&self, frames: &[&str]) -> Vec<usize> {
        let last = frames.len().saturating_sub(1);
        let mut order: Vec<usize> = (1..frames.len()).collect();
        order.sort_by_key(|at| {
            let frame = frames[*at];
            let weight = self.0.get(frame).copied().unwrap_or(1);
            (is_unnamed(frame), is_everywhere(frame), distance(frame), weight, *at != last, *at)
        });
        order
    }

    /// Shortens a stack to fit. Frames that all stacks have at their ends are dropped first. Then long names lose their
    /// middle and the least informative frames are omitted, until the leaf and one caller are left.
    pub(crate) fn fit<'t>(&self, text: &'t str, cells: usize) -> Cow<'t, str> {
        if width(text) <= cells {
            return Cow::Borrowed(text);
        }
        let frames: Vec<&str> = text.split(BELOW).map(unversioned).collect();
        let tells = |frame: &&str| !is_everywhere(frame);
        let Some(first) = frames.iter().position(tells) else { return fit_end(text, cells) };
        let last = frames.iter().rposition(tells).unwrap_or(first);
        let (begins, ends) = (first > 0, last + 1 < frames.len());
        let frames = &frames[first..=last];
        let order = self.by_information(frames);
        if order.is_empty() {
            return Cow::Owned(with_marks(fit_end(frames[0], cells).into_owned(), begins, ends, cells));
        }
        // The separators are equally wide, so that the width depends only on the names.
        let names = NAME_WIDTHS.map(|most| frames.iter().map(|frame| fit_function(frame, most)).collect::<Vec<_>>());
        let wide = |name: &Cow<'_, str>| width(name) + BELOW.len();
        let mut used = names.each_ref().map(|names| names.iter().map(wide).sum::<usize>() - BELOW.len());
        let mut kept: Vec<usize> = (0..frames.len()).collect();
        for omitted in std::iter::once(None).chain(order.iter().skip(1).rev().map(Some)) {
            if let Some(omitted) = omitted {
                kept.retain(|at| at != omitted);
                used.iter_mut().zip(&names).for_each(|(used, names)| *used -= wide(&names[*omitted]));
            }
            if let Some(fits) = used.iter().position(|used| *used <= cells) {
                return Cow::Owned(with_marks(joined(&kept, &names[fits]), begins, ends, cells));
            }
        }
        Cow::Owned(two(frames[0], frames[order[0]], order[0] == 1, cells))
    }
}

/// Joins kept frames: adjacent ones by [`BELOW`].
fn joined(kept: &[usize], names: &[Cow<'_, str>]) -> String {
    let mut line = names[0].to_string();
    for pair in kept.windows(2) {
        line += if pair[0] + 1 == pair[1] { BELOW } else { OMITTED };
        line += &names[pair[1]];
    }
    line
}

/// Marks the frames that were dropped at the ends, if there is room.
fn with_marks(mut line: String, begins: bool, ends: bool, cells: usize) -> String {
    if ends && width(&line) + 2 <= cells {
        line += " …";
    }
    if begins && width(&line) + 2 <= cells {
        line.insert_str(0, "… ");
    }
    line
}

/// Returns a leaf and a caller in a few cells: the leaf is shortened first, unless it is short.
fn two(leaf: &str, caller: &str, adjacent: bool, cells: usize) -> String {
    let Some(room) = cells.checked_sub(BELOW.len()).filter(|room| *room > 2 * LEAST_LEAF) else {
        return fit_end(leaf, cells).into_owned();
    };
    let least = match width(caller) <= room - LEAST_LEAF {
        true => LEAST_LEAF,
        false => width(leaf).min(2 * LEAST_LEAF).min(room / 2),
    };
    let caller = fit_function(caller, room - least);
    let leaf = fit_end(leaf, room - width(&caller));
    let separator = if adjacent { BELOW } else { OMITTED };
    format!("{leaf}{separator}{caller}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn alone(stack: &str, cells: usize) -> String {
        FrameWeights::of([(stack, 1)].into_iter()).fit(stack, cells).into_owned()
    }

    #[test]
    fn stacks_lose_what_every_stack_has() {
        let stack =
            "__schedule < schedule < do_epoll_wait < epoll_wait < event_loop < main < __libc_start_main < _start";
        assert_eq!(alone(stack, 200), stack);
        assert_eq!(alone(stack, 60), "… do_epoll_wait < epoll_wait < event_loop …");
        assert_eq!(alone(stack, 40), "do_epoll_wait < epoll_wait < event_loop");
        assert_eq!(alone(stack, 36), "… do_epoll_wait … event_loop …");
        assert_eq!(alone(stack, 20), "do_epo… … event_loop");
        assert_eq!(alone("schedule < kthread", 10), "schedule …");
        assert_eq!(alone("io_schedule < read_config < main", 24), "… read_config …");
    }

    #[test]
    fn stacks_lose_their_middle() {
        let stack = "folio_wait_bit < fdatasync < XLogFlush < CommitTransaction < PostgresMain < main";
        assert_eq!(alone(stack, 62), "folio_wait_bit < fdatasync < XLogFlush … PostgresMain …");
        assert_eq!(alone(stack, 34), "folio_wait_bit … PostgresMain …");
    }

    #[test]
    fn frames_of_libraries_are_omitted_before_those_of_the_program() {
        let stack = "wait_woken < recvfrom < __libc_recv < sock_recv < fetch_price (client.py) < handle (client.py) < \
                     <module> (client.py)";
        assert_eq!(
            alone(stack, 80),
            "wait_woken < recvfrom … sock_recv < fetch_price (client.py) < handle (client.py)"
        );
        assert_eq!(alone(stack, 60), "wait_woken … fetch_price (client.py) < handle (client.py) …");
        assert_eq!(
            alone("futex < __lll_lock_wait < pthread_mutex_lock < take < main", 44),
            "futex … pthread_mutex_lock < take …"
        );
    }

    #[test]
    fn a_row_keeps_what_tells_it_from_the_others() {
        let wait = "epoll_wait < WaitLatch < ProcSleep < 0x45d8a0 < LockAcquireExtended";
        let rest = "0x326ce0 < standard_ExecutorRun < PortalRun < PostgresMain < PostmasterMain < main";
        let stacks = [
            format!("{wait} < XactLockTableWait < heap_update < {rest}"),
            format!("{wait} < LockTuple < heap_update < {rest}"),
            format!("{wait} < XactLockTableWait < 0x19e8b0 < {rest}"),
            "epoll_wait < WaitLatch < WalWriterMain < PostmasterMain < main".to_owned(),
            format!("folio_wait_bit < fdatasync < XLogFlush < {rest}"),
        ];
        let counts = FrameWeights::of(stacks.iter().map(|stack| (&**stack, 1)));
        let fitted = |row: usize, cells| counts.fit(&stacks[row], cells).into_owned();
        assert_eq!(fitted(1, 24), "epoll_wait … LockTuple …");
        assert_eq!(fitted(2, 24), "epo… … XactLockTableWait");
        assert_eq!(fitted(2, 30), "epoll_wait … XactLockTableWait");
        assert_eq!(fitted(3, 26), "epoll_wait … WalWriterMain");
        assert_eq!(fitted(4, 30), "folio_wait_bit < fdatasync …");
        let wide = fitted(2, 110);
        assert!(!wide.contains("0x") && wide.contains("LockAcquireExtended < XactLockTableWait"), "{wide}");
    }

    #[test]
    fn small_rows_do_not_decide_what_is_common() {
        let lock = "ProcSleep < XactLockTableWait < heap_update < main";
        let large = format!("epoll_wait < WaitEventSetWait < {lock}");
        let idle = "epoll_wait < WaitEventSetWait < WalWriterMain < main";
        let small: Vec<String> = (0..9).map(|n| format!("futex < wait{n} < {lock}")).collect();
        let stacks = [(&*large, 900), (idle, 400)].into_iter().chain(small.iter().map(|stack| (&**stack, 1)));
        let weights = FrameWeights::of(stacks);
        assert_eq!(weights.fit(&large, 34), "epoll_wait … heap_update …");
    }

    #[test]
    fn versions_of_symbols_are_dropped_first() {
        let stack = "futex < pthread_cond_wait@@GLIBC_2.3.2 < os::PlatformMonitor::wait < memcpy@plt";
        assert_eq!(alone(stack, 70), "futex < pthread_cond_wait < os::PlatformMonitor::wait < memcpy@plt");
        assert_eq!(alone(stack, 33), "futex … memcpy@plt");
    }

    #[test]
    fn long_names_are_shortened_before_frames_are_omitted() {
        let stack = "futex < std::sync::mpsc::Receiver<alloc::vec::Vec<u8>>::recv_timeout < worker < serve";
        assert_eq!(alone(stack, 70), "futex < sync::mpsc::Receiver<…>::recv_timeout < worker < serve");
        assert_eq!(alone(stack, 50), "futex < recv_timeout < worker < serve");
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn nothing_is_too_wide(texts in proptest::collection::vec("([a-z漢0\\[]{0,12}( < )?){0,6}", 1..4), cells in 0usize..40) {
            let counts = FrameWeights::of(texts.iter().map(|text| (&**text, 1)));
            for text in &texts {
                prop_assert!(width(&counts.fit(text, cells)) <= cells);
            }
        }
    }
}
