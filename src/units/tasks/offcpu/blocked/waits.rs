//! The waits of an interval with their classes: the list from which all panels are made.

mod requests;

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::panel::stacks::FrameName;
use crate::panel::text::BELOW;
use crate::session::{BlockedThread, DsoKind};
use crate::units::kit::TaskWaker;
use crate::units::kit::prelude::*;
use crate::units::kit::tables::stack_labels::ByStack;
use crate::units::kit::waits::classes::{Kinship, Sleep, WaitClass, WaitEnd, WaitPlace};
use crate::units::kit::waits::endings::Ending;
use crate::units::kit::waits::sleep;
use crate::units::kit::waits::wakers::{Cause, Passes};

use super::spot_facts::SpotFacts;
use super::{Away, BlockedTime};
use requests::add_receivers;
pub(crate) use requests::{Receivers, Requests};

/// A blocked task and its place by name; also used for wakers.
pub(crate) type SiteName = (Arc<str>, Arc<str>);

/// The place where a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Spot {
    Stack(RetainedStack),
    /// From /proc, as an index of such places: a wait that began before the first record. Its stack is known later.
    Told(usize),
}

impl Spot {
    /// A place that nothing shows.
    pub(crate) const UNKNOWN: Self = Self::Told(usize::MAX);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sleeper {
    pub(crate) spot: Spot,
    sleep: Sleep,
    program: Option<i32>,
    is_of_kernel: bool,
}

impl From<Away> for Sleeper {
    fn from(away: Away) -> Self {
        let Away { spot, sleep, pid: _, program, is_of_kernel, is_before: _ } = away;
        Self { spot, sleep, program, is_of_kernel }
    }
}

/// A sleeper and the waker that ended its sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WokenSleep {
    pub(crate) thread: ThreadKey,
    pub(crate) away: Sleeper,
    pub(crate) waker: TaskWaker,
    pub(crate) kinship: Kinship,
    pub(crate) by: RetainedStack,
}

/// A wait that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnderWay {
    pub(crate) ns: u64,
    pub(crate) is_before: bool,
}

/// The waits of a thread in one spot that one waker ended, or a current wait.
#[derive(Clone, Debug)]
pub(crate) struct Wait {
    pub(crate) thread: ThreadKey,
    pub(crate) comm: Arc<str>,
    pub(crate) spot: Spot,
    pub(crate) line: Arc<str>,
    pub(crate) sleep: Sleep,
    pub(crate) class: WaitClass,
    /// The cause of its end; `None` for a current wait.
    pub(crate) cause: Option<Cause>,
    /// The waker's name, and its stack as text if it is a thread.
    pub(crate) waker: SiteName,
    /// The stack of a waker that is a thread.
    pub(crate) by: Option<RetainedStack>,
    /// The part within the interval.
    pub(crate) stats: Stats,
    pub(crate) under_way: Option<UnderWay>,
}

/// The kernel function, the system call, and the function of user code if the call reveals it; each may be empty.
type ToldWords = [Arc<str>; 3];

/// The place of a thread from /proc.
#[derive(Clone, Debug)]
struct ToldPlace {
    words: ToldWords,
    /// Its stack, once it is unwound.
    stack: Option<RetainedStack>,
}

/// Spots from /proc, and a cache of facts about stacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    told: Vec<ToldPlace>,
    index: FxHashMap<(i32, ToldWords), usize>,
    /// The latest place of each thread from /proc.
    of_thread: FxHashMap<i32, usize>,
    facts: ByStack<SpotFacts>,
}

/// The function that waits for the end of a thread.
const JOIN: &str = "pthread_join";
/// Limit of spots from /proc, which is read once.
const MOST_TOLD: usize = 1 << 16;

impl Places {
    /// Returns the spot of a thread that slept before the first record; `joins` if it waits for the end of a thread.
    pub(crate) fn told(&mut self, thread: &BlockedThread, joins: bool) -> Spot {
        let call = crate::units::events::syscalls::name_of_blocked(thread).unwrap_or_default();
        let words = [thread.place.as_str(), call.as_str(), if joins { JOIN } else { "" }].map(Arc::<str>::from);
        let key = (thread.tid, words.clone());
        let at = match self.index.get(&key) {
            Some(at) => *at,
            None if self.told.len() >= MOST_TOLD => MOST_TOLD,
            None => {
                self.index.insert(key, self.told.len());
                self.told.push(ToldPlace { words, stack: None });
                self.told.len() - 1
            }
        };
        self.of_thread.insert(thread.tid, at);
        Spot::Told(at)
    }

    /// Sets the stack of a thread that slept before the first record.
    pub(super) fn set_stack(&mut self, tid: i32, stack: RetainedStack) {
        if let Some(place) = self.of_thread.get(&tid).and_then(|at| self.told.get_mut(*at)) {
            place.stack = Some(stack);
        }
    }

    /// Returns the stack of a spot, if it is known.
    pub(crate) fn stack(&self, spot: Spot) -> Option<RetainedStack> {
        match spot {
            Spot::Stack(stack) => Some(stack),
            Spot::Told(told) => self.told.get(told)?.stack,
        }
    }

    /// Returns the functions of a spot, root first.
    pub(crate) fn frames(&self, at: &Moment<'_>, spot: Spot) -> Vec<FrameName> {
        if let Some(stack) = self.stack(spot) {
            return at.frames(stack);
        }
        let kind = |text: &Arc<str>| if **text == *JOIN { DsoKind::File } else { DsoKind::Kernel };
        let frame = |text: &Arc<str>| FrameName { text: text.clone(), kind: kind(text), dso: "".into() };
        self.words(spot).rev().map(frame).collect()
    }

    /// Returns the functions of a spot from /proc, innermost first.
    fn words(&self, spot: Spot) -> impl DoubleEndedIterator<Item = &Arc<str>> {
        let told = match spot {
            Spot::Stack(_) => None,
            Spot::Told(told) => self.told.get(told),
        };
        told.into_iter().flat_map(|told| &told.words).filter(|word| !word.is_empty())
    }

    /// Returns the line of a spot without a stack.
    fn line(&self, spot: Spot) -> Arc<str> {
        let words: Vec<&str> = self.words(spot).map(|word| &**word).collect();
        if words.is_empty() { "–".into() } else { words.join(BELOW).into() }
    }

    fn facts(&mut self, at: &Moment<'_>, spot: Spot) -> SpotFacts {
        if let Some(stack) = self.stack(spot) {
            return self.facts.get(at, stack, || SpotFacts::of(&at.frames(stack)));
        }
        let mut words = self.words(spot);
        // The function in which the thread sleeps comes before its system call, as /proc names them.
        let (first, call) = (words.next(), words.find(|word| ***word != *JOIN));
        let call = call.or(first).cloned().unwrap_or_default();
        let frames = self.frames(at, spot);
        let (is_of_timer, is_of_process) = (sleep::is_of_timer(&frames), sleep::is_of_process(&frames));
        // Without any function, the place is as unknown as in a broken stack.
        let is_broken = call.is_empty();
        SpotFacts { call, is_broken, is_of_kernel: true, is_of_timer, is_of_process, ..SpotFacts::default() }
    }
}

/// A place of a program's waits: its first process and the functions.
type ProgramPlace = (i32, Arc<str>);
/// A place of a thread's waits: the functions, or the system call.
type ThreadPlace = (ThreadKey, Arc<str>);

#[derive(Debug, Default)]
struct OwnWakes {
    /// Whether each such wait ended by a message of the program's main thread.
    by_thread: FxHashMap<ThreadPlace, bool>,
    /// The ends of threads and processes that ended waits.
    endings: FxHashMap<ThreadPlace, Ending>,
    /// The number of such waits in each place of a program, and their wakers.
    by_program: FxHashMap<ProgramPlace, (u64, FxHashSet<ThreadKey>)>,
    waiters: FxHashMap<ProgramPlace, FxHashSet<ThreadKey>>,
    /// The system calls in which a thread waits as a worker without work.
    idle_workers: FxHashSet<ThreadPlace>,
}

/// Fewer waits that the own program ended cannot distinguish a queue from a lock.
const FEW_WAKES: u64 = 3;

impl OwnWakes {
    fn of(raw: &[Raw]) -> Self {
        let mut own = Self::default();
        for wait in raw {
            if wait.facts.is_idle_worker {
                own.idle_workers.insert((wait.thread, wait.facts.call.clone()));
            }
            let place = wait.place();
            if let Some(place) = place.clone() {
                own.waiters.entry(place).or_default().insert(wait.thread);
            }
            // /proc is read some time after the first record: the thread may have been elsewhere before.
            if matches!(wait.sleeper.spot, Spot::Told(_)) {
                continue;
            }
            if let WaitEnd::Ending(ending) = wait.end {
                let first = own.endings.entry(wait.judged.clone()).or_insert(ending);
                *first = ending.min(*first);
            }
            if wait.end != WaitEnd::OwnProgram {
                continue;
            }
            *own.by_thread.entry(wait.judged.clone()).or_insert(true) &= wait.is_of_main;
            if let Some(place) = place {
                let (times, wakers) = own.by_program.entry(place).or_default();
                *times += wait.stats.n;
                wakers.extend(wait.own_waker);
            }
        }
        own
    }

    /// Returns whether a thread waits as a worker without work; /proc does not show functions of user code, but other
    /// waits of the thread in that system call may.
    fn is_idle_worker(&self, wait: &Raw) -> bool {
        let is_told = matches!(wait.sleeper.spot, Spot::Told(_));
        wait.facts.is_idle_worker || is_told && self.idle_workers.contains(&(wait.thread, wait.facts.call.clone()))
    }

    /// Returns whether a wait that a timer ended, or nothing yet, may be one for a lock. The own program ended another
    /// wait of the thread there, or of another thread in a place that may be a lock: the waiters of a lock wake each
    /// other, but the writers of a queue do not wait among its readers.
    fn may_concern(&self, wait: &Raw) -> bool {
        self.by_thread.contains_key(&wait.judged)
            || wait.place().is_some_and(|place| {
                let Some((times, wakers)) = self.by_program.get(&place) else { return false };
                *times < FEW_WAKES || wakers.iter().any(|waker| self.is_waiter(&place, *waker))
            })
    }

    /// Returns whether only messages of its program's main thread end the waits of a thread in a place. The main thread
    /// is older than the others: it asks, and they wait for what it asks.
    fn are_for_main(&self, wait: &Raw) -> bool {
        // A wait from /proc does not count for others.
        let is_told = matches!(wait.sleeper.spot, Spot::Told(_));
        is_told && wait.is_of_main || self.by_thread.get(&wait.judged) == Some(&true)
    }

    /// Returns whether such threads of the program end all waits in a place, and do not wait there themselves.
    fn are_woken_by(&self, place: &ProgramPlace, is_such: impl Fn(&ThreadKey) -> bool) -> bool {
        let wakers = self.by_program.get(place).map(|(_, wakers)| wakers).filter(|wakers| !wakers.is_empty());
        wakers.is_some_and(|wakers| wakers.iter().all(|waker| is_such(waker) && !self.is_waiter(place, *waker)))
    }

    /// Returns whether a thread waits in a place.
    fn is_waiter(&self, place: &ProgramPlace, thread: ThreadKey) -> bool {
        self.waiters.get(place).is_some_and(|waiters| waiters.contains(&thread))
    }
}

struct Raw {
    thread: ThreadKey,
    sleeper: Sleeper,
    line: Arc<str>,
    judged: ThreadPlace,
    facts: SpotFacts,
    end: WaitEnd,
    /// Whether a new connection ended it.
    is_connection: bool,
    cause: Option<Cause>,
    waker: SiteName,
    /// The waker where it is a thread of the own program.
    own_waker: Option<ThreadKey>,
    /// Whether a message of the program's main thread ended it.
    is_of_main: bool,
    /// Whether its stack is known and whole.
    is_known: bool,
    by: Option<RetainedStack>,
    stats: Stats,
    under_way: Option<UnderWay>,
}

impl BlockedTime {
    /// Returns all waits of the interval; current ones count up to now.
    pub(crate) fn waits(&mut self, at: &Moment<'_>) -> Vec<Wait> {
        let mut raw: Vec<Raw> = Vec::with_capacity(self.blocked.len() + self.away.len());
        let blocked = std::mem::take(&mut self.blocked);
        raw.extend(blocked.iter().map(|(place, stats)| self.ended(at, place, stats)));
        self.blocked = blocked;
        let away: Vec<(i32, u64, Away)> = self.away.iter().map(|(tid, span)| (*tid, span.since, span.with)).collect();
        raw.extend(away.into_iter().map(|(tid, since, away)| self.open(at, at.names.key(tid), since, away)));
        let own = OwnWakes::of(&raw);
        add_receivers(&mut self.receivers, &raw);
        let classes: Vec<WaitClass> = raw.iter().map(|wait| wait.class(&own)).collect();
        let mut requests = Requests::of(&raw, &classes, &own, &self.receivers, &self.brief);
        let held = raw.iter().zip(&classes).filter(|(_, class)| **class == WaitClass::Held).map(|(wait, _)| wait);
        self.activity.add_servers(at, &mut requests, held.map(|wait| (wait.sleeper.program, wait.stats.sum)));
        let judge = |(wait, class): (Raw, WaitClass)| {
            let class = requests.class(&wait, class, &own);
            wait.judged(at, class)
        };
        raw.into_iter().zip(classes).map(judge).collect()
    }

    /// Creates a wait without its end.
    fn raw(&mut self, at: &Moment<'_>, thread: ThreadKey, sleeper: Sleeper) -> Raw {
        let facts = self.places.facts(at, sleeper.spot);
        let stack = self.places.stack(sleeper.spot);
        let line = match stack {
            Some(stack) => self.slept_in.line(at, stack),
            None => self.places.line(sleeper.spot),
        };
        let is_known = stack.is_some() && !facts.is_broken;
        let judged = (thread, if is_known { facts.place(&line) } else { facts.call.clone() });
        let (end, waker) = (WaitEnd::Open, ("none yet".into(), "".into()));
        let (is_connection, cause, own_waker, is_of_main) = (false, None, None, false);
        let (by, stats, under_way) = (None, Stats::default(), None);
        Raw {
            thread,
            sleeper,
            line,
            judged,
            facts,
            end,
            is_connection,
            cause,
            waker,
            own_waker,
            is_of_main,
            is_known,
            by,
            stats,
            under_way,
        }
    }

    fn ended(&mut self, at: &Moment<'_>, place: &WokenSleep, stats: &Stats) -> Raw {
        let cause = self.causes.cause(at, place.waker, place.by);
        let is_connection = self.causes.connects(at, place.by);
        let by = matches!(cause, Cause::Task { .. }).then_some(place.by);
        let stack = by.map(|by| self.labels.line(at, by)).unwrap_or_default();
        // For a thread of the same program, its own name is more useful than the program's.
        let task = |at: &Moment<'_>, thread: ThreadKey| match place.kinship.is_own {
            true => at.comm(thread),
            false => at.program(thread),
        };
        let waker = (self.wakers.words(at, cause, task), stack);
        let end = WaitEnd::of(cause, place.kinship);
        let is_message = |passes| matches!(passes, Passes::Message | Passes::End(Ending::Output));
        let is_message = matches!(cause, Cause::Task { passes, .. } if is_message(passes));
        let is_of_main = place.kinship.is_main && is_message && end == WaitEnd::OwnProgram;
        let own_waker = match cause {
            Cause::Task { thread, .. } if end == WaitEnd::OwnProgram => Some(thread),
            _ => None,
        };
        Raw {
            end,
            is_connection,
            cause: Some(cause),
            waker,
            own_waker,
            is_of_main,
            by,
            stats: stats.clone(),
            ..self.raw(at, place.thread, place.away)
        }
    }

    fn open(&mut self, at: &Moment<'_>, thread: ThreadKey, since: u64, away: Away) -> Raw {
        // A thread that slept at the first record may have been awake at the session's start, which is some time earlier.
        let under_way = UnderWay { ns: at.now.saturating_sub(since), is_before: away.is_before };
        let mut stats = Stats::default();
        stats.add(at.now.saturating_sub(since.max(at.since)));
        Raw { stats, under_way: Some(under_way), ..self.raw(at, thread, away.into()) }
    }
}

impl Raw {
    fn place(&self) -> Option<ProgramPlace> {
        Some((self.sleeper.program.filter(|_| self.is_known)?, self.facts.place(&self.line)))
    }

    /// Returns the class by the wait's own end.
    fn class(&self, own: &OwnWakes) -> WaitClass {
        // Nothing has ended a wait from /proc for as long as anybody looked: its stack decides nothing.
        let is_quiet = self.end == WaitEnd::Open && matches!(self.sleeper.spot, Spot::Told(_));
        let place = WaitPlace {
            has_own_wakers: own.may_concern(self),
            ending: own.endings.get(&self.judged).copied(),
            is_broken: self.facts.is_broken && !is_quiet,
            is_of_timer: self.facts.is_of_timer,
            is_of_process: self.facts.is_of_process,
            is_idle_worker: own.is_idle_worker(self),
        };
        let is_of_kernel = self.sleeper.is_of_kernel && self.facts.is_of_kernel;
        WaitClass::of(self.sleeper.sleep, is_of_kernel, self.end, place)
    }

    fn judged(self, at: &Moment<'_>, class: WaitClass) -> Wait {
        Wait {
            thread: self.thread,
            comm: at.program(self.thread),
            spot: self.sleeper.spot,
            line: self.line,
            sleep: self.sleeper.sleep,
            class,
            cause: self.cause,
            waker: self.waker,
            by: self.by,
            stats: self.stats,
            under_way: self.under_way,
        }
    }
}

#[cfg(test)]
mod tests;
