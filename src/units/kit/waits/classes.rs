//! Classes of waits: a blocked thread waits for work, or its work is held up. The end of a wait determines the class,
//! never a function of the program in its stack. Only the idle workers of Go and HotSpot are known by functions of the
//! runtime ([`super::sleep::is_idle_worker`]).

use crate::session::BlockedThread;

use crate::units::kit::waits::endings::Ending;
use crate::units::kit::waits::sched::state;
use crate::units::kit::waits::wakers::{Cause, Passes};

/// The state in which a thread leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Sleep {
    /// S.
    Interruptible,
    /// D.
    Uninterruptible,
    /// I: an idle kernel thread.
    Idle,
    /// Stopped, traced or parked.
    Stopped,
}

impl Sleep {
    /// From `prev_state` of a switch; `None` if the thread remains runnable or ends.
    pub(crate) fn of(bits: i64) -> Option<Self> {
        match bits {
            bits if bits == 0 || bits & (state::PREEMPTED | state::DEAD | state::ZOMBIE) != 0 => None,
            bits if bits & state::IDLE != 0 => Some(Self::Idle),
            bits if bits & state::UNINTERRUPTIBLE != 0 => Some(Self::Uninterruptible),
            bits if bits & (state::STOPPED | state::TRACED | state::PARKED) != 0 => Some(Self::Stopped),
            _ => Some(Self::Interruptible),
        }
    }

    /// From the state letter in /proc.
    pub(crate) fn of_thread(thread: &BlockedThread) -> Self {
        match thread.state {
            'D' => Self::Uninterruptible,
            'I' => Self::Idle,
            'T' | 't' | 'P' => Self::Stopped,
            _ => Self::Interruptible,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// Not ended before the end of its program, or the end was not recorded.
    Open,
    Timer,
    /// Data or a connection from outside of the program.
    Message,
    /// A signal from another program. Like a timer, it also ends waits that the thread resumes.
    Signal,
    /// A thread of the same program.
    OwnProgram,
    /// The end of another thread, or of another process.
    Ending(Ending),
    /// A disk, another program without a message, or an unknown cause.
    Other,
}

/// The relation of a waker to the thread that it wakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Kinship {
    /// Whether it is a thread of the same program.
    pub(crate) is_own: bool,
    /// Whether its process is a child of the other thread's process.
    pub(crate) is_child: bool,
    /// Whether it is the main thread of the other thread's process, or of the parent of that process.
    pub(crate) is_main: bool,
}

impl WaitEnd {
    /// From a wakeup. Only a parent waits for the end of a process's output.
    pub(crate) fn of(cause: Cause, kinship: Kinship) -> Self {
        let is_own = kinship.is_own;
        match cause {
            Cause::Task { passes: Passes::End(Ending::Output), .. } if !kinship.is_child => {
                if is_own {
                    Self::OwnProgram
                } else {
                    Self::Message
                }
            }
            Cause::Task { passes: Passes::End(ending), .. } => Self::Ending(ending),
            Cause::Task { .. } if is_own => Self::OwnProgram,
            Cause::Task { passes: Passes::Message, .. } | Cause::Network { sends: true } | Cause::IrqWork => {
                Self::Message
            }
            Cause::Task { passes: Passes::Signal, .. } => Self::Signal,
            Cause::Timer => Self::Timer,
            Cause::Unrecorded | Cause::Exit => Self::Open,
            Cause::Task { .. }
            | Cause::Network { .. }
            | Cause::Disk(_)
            | Cause::Context(_)
            | Cause::OtherCpu
            | Cause::Untold => Self::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum WaitClass {
    /// Work was held up.
    Held,
    /// Unknown: a lock, or a queue with work from another thread of the program.
    EachOther,
    /// The stack is broken, and no message from outside ended the wait.
    Broken,
    /// One of the two above, of a thread that serves no request, of a program that serves requests. `of` does not return
    /// this class and the next one: the other waits of the program determine them.
    Outside,
    /// Only messages of its program's main thread end the waits of the thread in that place.
    MainThread,
    /// The thread waited for the end of another thread, or of another process. That one's own waits in this time have
    /// their own classes.
    ThreadEnd,
    ProcessEnd,
    /// The thread had no work.
    Work,
}

/// The place of a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitPlace {
    /// Whether a thread of the same program ended another wait there that may be one for the same thing.
    pub(crate) has_own_wakers: bool,
    /// The end that ended another wait of the thread there, if there is one.
    pub(crate) ending: Option<Ending>,
    pub(crate) is_broken: bool,
    /// Whether the thread sleeps until its own timer expires ([`super::sleep::is_of_timer`]).
    pub(crate) is_of_timer: bool,
    /// Whether the thread waits for the end of a process ([`super::sleep::is_of_process`]).
    pub(crate) is_of_process: bool,
    /// Whether the thread is an idle worker ([`super::sleep::is_idle_worker`]).
    pub(crate) is_idle_worker: bool,
}

impl WaitClass {
    /// Classifies a wait. A timer or a signal may end a wait for a lock that the thread resumes at once, and an open
    /// wait may be one for a lock: if the program itself ended such a wait, or a broken stack hides the place, neither
    /// is idle. This excludes sleeps that only the thread's own timer ends: the kernel knows their place without
    /// callers. The signal about the end of a child also ends waits for a lock, unlike the other ends.
    pub(crate) fn of(sleep: Sleep, is_of_kernel: bool, end: WaitEnd, place: WaitPlace) -> Self {
        let each_other = if place.is_broken { Self::Broken } else { Self::EachOther };
        match (sleep, end) {
            (Sleep::Uninterruptible | Sleep::Stopped, _) => Self::Held,
            (Sleep::Idle, _) => Self::Work,
            // Kernel threads wait for locks and disks uninterruptibly.
            (Sleep::Interruptible, _) if is_of_kernel => Self::Work,
            (Sleep::Interruptible, _) if place.is_idle_worker => Self::Work,
            (Sleep::Interruptible, WaitEnd::Ending(ending)) => {
                let may_be_other = ending == Ending::Signaled && !place.is_of_process;
                let is_unknown = may_be_other && (place.is_broken || place.has_own_wakers);
                if is_unknown { each_other } else { Self::until(ending) }
            }
            (Sleep::Interruptible, WaitEnd::OwnProgram) => each_other,
            (Sleep::Interruptible, WaitEnd::Message) => Self::Work,
            (Sleep::Interruptible, WaitEnd::Other) => Self::Held,
            (Sleep::Interruptible, WaitEnd::Open | WaitEnd::Timer | WaitEnd::Signal) => {
                let may_concern = !place.is_of_timer && (place.is_broken || place.has_own_wakers);
                // A wait for an end may have a timeout, after which the thread resumes it.
                if may_concern { each_other } else { place.ending.map_or(Self::Work, Self::until) }
            }
        }
    }

    /// Returns the class of waits for an end.
    fn until(ending: Ending) -> Self {
        match ending {
            Ending::Thread => Self::ThreadEnd,
            Ending::Process | Ending::Signaled | Ending::Output => Self::ProcessEnd,
        }
    }

    /// Returns whether the wait is for the end of another thread or process.
    pub(crate) fn is_until_end(self) -> bool {
        matches!(self, Self::ThreadEnd | Self::ProcessEnd)
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Held => "held up",
            Self::EachOther => "not known: woken by each other",
            Self::Broken => "not known: stack is broken",
            Self::Outside => "not known: outside of requests",
            Self::MainThread => "not known: for its main thread",
            Self::ThreadEnd => "until another thread ends",
            Self::ProcessEnd => "until another process ends",
            Self::Work => "waiting for work",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sched::WakeContext;
    use super::*;
    use crate::units::kit::ThreadKey;

    const S: Sleep = Sleep::Interruptible;
    const ALONE: WaitPlace = WaitPlace {
        has_own_wakers: false,
        ending: None,
        is_broken: false,
        is_of_timer: false,
        is_of_process: false,
        is_idle_worker: false,
    };
    const SHARED: WaitPlace = WaitPlace { has_own_wakers: true, ..ALONE };

    fn class(sleep: Sleep, end: WaitEnd, place: WaitPlace) -> WaitClass {
        WaitClass::of(sleep, false, end, place)
    }

    #[test]
    fn what_comes_from_outside_is_work() {
        for end in [WaitEnd::Open, WaitEnd::Timer, WaitEnd::Message, WaitEnd::Signal] {
            assert_eq!(class(S, end, ALONE), WaitClass::Work, "{end:?}");
        }
        assert_eq!(class(S, WaitEnd::Message, SHARED), WaitClass::Work);
        assert_eq!(class(S, WaitEnd::Other, ALONE), WaitClass::Held);
    }

    #[test]
    fn a_wait_that_the_program_ends_is_never_work() {
        assert_eq!(class(S, WaitEnd::OwnProgram, ALONE), WaitClass::EachOther);
        // A thread with a lock's timeout resumes the wait: CPython's take_gil, PostgreSQL's deadlock check.
        assert_eq!(class(S, WaitEnd::Timer, SHARED), WaitClass::EachOther);
        assert_eq!(class(S, WaitEnd::Signal, SHARED), WaitClass::EachOther);
        assert_eq!(class(S, WaitEnd::Open, SHARED), WaitClass::EachOther);
    }

    #[test]
    fn a_broken_stack_has_no_verdict_unless_a_message_ends_the_wait() {
        for place in [ALONE, SHARED].map(|place| WaitPlace { is_broken: true, ..place }) {
            for end in [WaitEnd::Open, WaitEnd::Timer, WaitEnd::OwnProgram] {
                assert_eq!(class(S, end, place), WaitClass::Broken, "{end:?} {place:?}");
            }
            assert_eq!(class(S, WaitEnd::Message, place), WaitClass::Work);
            assert_eq!(class(S, WaitEnd::Other, place), WaitClass::Held);
            assert_eq!(WaitClass::of(S, true, WaitEnd::Open, place), WaitClass::Work, "a thread of the kernel");
        }
    }

    /// The place of a timer's sleep is known without the callers.
    #[test]
    fn a_timer_of_the_thread_itself_is_work_though_the_stack_is_broken() {
        for place in [ALONE, SHARED, WaitPlace { is_broken: true, ..SHARED }] {
            let place = WaitPlace { is_of_timer: true, ..place };
            for end in [WaitEnd::Open, WaitEnd::Timer, WaitEnd::Message] {
                assert_eq!(class(S, end, place), WaitClass::Work, "{end:?} {place:?}");
            }
            // A signal of the program, or of another one, ended it early.
            let own = if place.is_broken { WaitClass::Broken } else { WaitClass::EachOther };
            assert_eq!(class(S, WaitEnd::OwnProgram, place), own);
            assert_eq!(class(S, WaitEnd::Other, place), WaitClass::Held);
        }
    }

    /// The kernel wakes such a thread for this end only. A signal about it also interrupts a wait for a lock.
    #[test]
    fn a_wait_that_an_end_ends_is_for_that_end() {
        let broken = WaitPlace { is_broken: true, ..ALONE };
        for place in [ALONE, SHARED, broken] {
            assert_eq!(class(S, WaitEnd::Ending(Ending::Thread), place), WaitClass::ThreadEnd, "{place:?}");
            assert_eq!(class(S, WaitEnd::Ending(Ending::Process), place), WaitClass::ProcessEnd, "{place:?}");
            let in_wait = WaitPlace { is_of_process: true, ..place };
            assert_eq!(class(S, WaitEnd::Ending(Ending::Signaled), in_wait), WaitClass::ProcessEnd, "{place:?}");
        }
        let signaled = |place| class(S, WaitEnd::Ending(Ending::Signaled), place);
        assert_eq!(
            [ALONE, SHARED, broken].map(signaled),
            [WaitClass::ProcessEnd, WaitClass::EachOther, WaitClass::Broken]
        );
        // A join with a timeout that the thread repeats.
        for (ending, expected) in [(Ending::Thread, WaitClass::ThreadEnd), (Ending::Signaled, WaitClass::ProcessEnd)] {
            for end in [WaitEnd::Open, WaitEnd::Timer, WaitEnd::Signal] {
                assert_eq!(class(S, end, WaitPlace { ending: Some(ending), ..ALONE }), expected, "{end:?}");
                let shared = WaitPlace { ending: Some(ending), ..SHARED };
                assert_eq!(class(S, end, shared), WaitClass::EachOther, "{end:?}");
            }
        }
        assert_eq!(class(Sleep::Uninterruptible, WaitEnd::Ending(Ending::Thread), ALONE), WaitClass::Held, "vfork");
    }

    #[test]
    fn an_idle_worker_waits_for_work_whatever_wakes_it() {
        let place = WaitPlace { is_idle_worker: true, is_broken: true, ..SHARED };
        for end in [WaitEnd::Open, WaitEnd::Timer, WaitEnd::Message, WaitEnd::OwnProgram, WaitEnd::Other] {
            assert_eq!(class(S, end, place), WaitClass::Work, "{end:?}");
        }
        assert_eq!(class(Sleep::Uninterruptible, WaitEnd::Other, place), WaitClass::Held);
    }

    #[test]
    fn the_state_goes_before_what_ends_it() {
        let all = [WaitEnd::Open, WaitEnd::Timer, WaitEnd::Message, WaitEnd::OwnProgram, WaitEnd::Other];
        for end in all {
            assert_eq!(class(Sleep::Uninterruptible, end, ALONE), WaitClass::Held, "{end:?}");
            assert_eq!(class(Sleep::Stopped, end, ALONE), WaitClass::Held, "{end:?}");
            assert_eq!(class(Sleep::Idle, end, SHARED), WaitClass::Work, "{end:?}");
            assert_eq!(WaitClass::of(S, true, end, SHARED), WaitClass::Work, "a kernel thread: {end:?}");
        }
        let states = [0, 0x100, 0x10, 0x20, 1, 2, 4, 8, 0x40, 0x80, 0x82];
        let of = states.map(Sleep::of);
        assert_eq!(of[..4], [None; 4]);
        assert_eq!(of[4..6], [Some(S), Some(Sleep::Uninterruptible)]);
        assert_eq!(of[6..9], [Some(Sleep::Stopped); 3]);
        assert_eq!(of[9..], [Some(Sleep::Idle); 2]);
    }

    #[test]
    fn a_waker_is_who_caused_it() {
        let task = |passes| Cause::Task { thread: ThreadKey::of_row(7), passes };
        for (cause, is_own, end) in [
            (task(Passes::Message), true, WaitEnd::OwnProgram),
            (task(Passes::Nothing), true, WaitEnd::OwnProgram),
            (task(Passes::Signal), true, WaitEnd::OwnProgram),
            (task(Passes::Message), false, WaitEnd::Message),
            (task(Passes::Signal), false, WaitEnd::Signal),
            (task(Passes::Nothing), false, WaitEnd::Other),
            (task(Passes::End(Ending::Thread)), true, WaitEnd::Ending(Ending::Thread)),
            (task(Passes::End(Ending::Process)), false, WaitEnd::Ending(Ending::Process)),
            (Cause::Network { sends: true }, true, WaitEnd::Message),
            (Cause::Network { sends: false }, true, WaitEnd::Other),
            (Cause::Timer, true, WaitEnd::Timer),
            (Cause::IrqWork, false, WaitEnd::Message),
            (Cause::Disk(None), true, WaitEnd::Other),
            (Cause::Unrecorded, false, WaitEnd::Open),
            (Cause::Exit, true, WaitEnd::Open),
            (Cause::OtherCpu, false, WaitEnd::Other),
            (Cause::Context(WakeContext::Irq), false, WaitEnd::Other),
            (Cause::Untold, false, WaitEnd::Other),
        ] {
            let kinship = Kinship { is_own, ..Kinship::default() };
            assert_eq!(WaitEnd::of(cause, kinship), end, "{cause:?} {is_own}");
        }
        // A process closes its output: its parent waited for that, another reader for data.
        let output = task(Passes::End(Ending::Output));
        for (is_own, is_child, end) in [
            (false, false, WaitEnd::Message),
            (true, false, WaitEnd::OwnProgram),
            (false, true, WaitEnd::Ending(Ending::Output)),
            (true, true, WaitEnd::Ending(Ending::Output)),
        ] {
            assert_eq!(WaitEnd::of(output, Kinship { is_own, is_child, is_main: false }), end, "{is_own} {is_child}");
        }
    }
}
