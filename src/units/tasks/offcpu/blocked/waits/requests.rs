//! Waits outside of requests. A thread that receives messages serves requests, so its other waits delay a request. The
//! threads of a pool get work from threads of the program: their waits for work look like waits for a lock.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{OwnWakes, ProgramPlace, Raw};
use crate::units::kit::ThreadKey;
use crate::units::kit::waits::classes::{WaitClass, WaitEnd};
use crate::units::kit::waits::sleep::EVENT_CALLS;

/// Waits within requests count only from this fraction of the unknown waits on: a batch program may have a thread that
/// serves its figures.
const FEW_OF: u64 = 20;

/// The threads that a message or a connection from outside of the program woke, since the first record; `true` if not
/// all were connections.
pub(crate) type Receivers = FxHashMap<ThreadKey, bool>;

/// System calls that wait for a message.
const MESSAGE_CALLS: &[&str] = &["recvfrom", "recvmsg", "recvmmsg"];

/// Limit of receivers.
const MOST_RECEIVERS: usize = 1 << 17;

/// Adds the receivers among threads with these waits.
pub(super) fn add_receivers(receivers: &mut Receivers, raw: &[Raw]) {
    if receivers.len() >= MOST_RECEIVERS {
        receivers.clear();
    }
    for wait in raw.iter().filter(|wait| wait.end == WaitEnd::Message) {
        *receivers.entry(wait.thread).or_default() |= !wait.is_connection;
    }
}

/// The threads of programs that serve requests.
#[derive(Debug)]
pub(crate) struct Requests<'a> {
    receivers: &'a Receivers,
    /// The places in which only receivers wake a thread that receives no messages itself, and the time of such waits
    /// and of all waits that the program ended.
    handed: FxHashMap<ThreadKey, (FxHashSet<Arc<str>>, [u64; 2])>,
    /// The places of unknown waits of receivers: threads wait there within requests.
    within: FxHashSet<ProgramPlace>,
    /// The threads that began and ended: each may have served a request without a sleep before it.
    brief: &'a FxHashSet<i32>,
    /// The threads that wait for a message now. What they did before may have been a request whose message came before
    /// the first record.
    waiting: FxHashSet<ThreadKey>,
    /// The time of each program's unknown waits: within requests, and all.
    times: FxHashMap<i32, [u64; 2]>,
    /// Programs that serve requests for another reason than these times.
    servers: FxHashSet<i32>,
    /// The number of messages from outside that each program received.
    messages: FxHashMap<i32, u64>,
}

impl<'a> Requests<'a> {
    pub(super) fn of(
        raw: &[Raw],
        classes: &[WaitClass],
        own: &OwnWakes,
        receivers: &'a Receivers,
        brief: &'a FxHashSet<i32>,
    ) -> Self {
        let (handed, within, times, servers, messages) = Default::default();
        let waits = raw.iter().filter(|wait| wait.under_way.is_some() && wait.is_for_message());
        let waiting = waits.map(|wait| wait.thread).collect();
        let mut requests = Self { receivers, handed, within, brief, waiting, times, servers, messages };
        for wait in raw.iter().filter(|wait| wait.end == WaitEnd::Message && !wait.is_connection) {
            *requests.messages.entry(wait.sleeper.program.unwrap_or_default()).or_default() += wait.stats.n;
        }
        for wait in raw.iter().filter(|wait| !receivers.contains_key(&wait.thread)) {
            let Some(place) = wait.place().filter(|_| wait.own_waker.is_some()) else { continue };
            let (places, [handed, all]) = requests.handed.entry(wait.thread).or_default();
            *all += wait.stats.sum;
            if own.are_woken_by(&place, |waker| receivers.contains_key(waker)) {
                *handed += wait.stats.sum;
                places.insert(place.1);
            }
        }
        // Receivers also end waits of other threads for their locks: a worker mostly waits for the next request.
        requests.handed.retain(|_, (_, [handed, all])| *handed > 0 && *handed >= *all / 2);
        for (wait, class) in raw.iter().zip(classes) {
            if is_unknown(*class) && receivers.contains_key(&wait.thread) {
                requests.within.extend(wait.place());
            }
        }
        for (wait, class) in raw.iter().zip(classes) {
            let Some(program) = wait.sleeper.program.filter(|_| is_unknown(*class)) else { continue };
            let is_within = !requests.is_outside(wait, own);
            let [within, all] = requests.times.entry(program).or_default();
            *all += wait.stats.sum;
            *within += if is_within { wait.stats.sum } else { 0 };
        }
        requests
    }

    /// Returns the programs with unknown waits in which those within requests are few.
    pub(crate) fn others(&self) -> Vec<i32> {
        self.times.keys().copied().filter(|program| !self.serves(*program)).collect()
    }

    /// Returns the number of messages from outside that a program received.
    pub(crate) fn messages(&self, program: i32) -> u64 {
        self.messages.get(&program).copied().unwrap_or_default()
    }

    /// Adds a program that serves requests.
    pub(crate) fn add_server(&mut self, program: i32) {
        self.servers.insert(program);
    }

    fn serves(&self, program: i32) -> bool {
        let are_many = self.times.get(&program).is_some_and(|[within, all]| within * FEW_OF > *all);
        are_many || self.servers.contains(&program)
    }

    /// Returns the class of a wait that has another one by its own end.
    pub(super) fn class(&self, wait: &Raw, class: WaitClass, own: &OwnWakes) -> WaitClass {
        let serves = wait.sleeper.program.is_some_and(|program| self.serves(program));
        match class {
            WaitClass::EachOther | WaitClass::Broken if serves && self.is_outside(wait, own) => WaitClass::Outside,
            WaitClass::EachOther if !self.receivers.contains_key(&wait.thread) && own.are_for_main(wait) => {
                WaitClass::MainThread
            }
            _ => class,
        }
    }

    fn is_outside(&self, wait: &Raw, own: &OwnWakes) -> bool {
        if self.receivers.contains_key(&wait.thread) {
            return self.waits_for_connections(wait, own);
        }
        let is_waiting = self.waiting.contains(&wait.thread) && !wait.is_for_message();
        if is_waiting || self.brief.contains(&wait.thread.tid) {
            return false;
        }
        if wait.place().is_some_and(|place| self.within.contains(&place)) {
            return self.waits_for_connections(wait, own);
        }
        // A thread that gets its requests from another one waits for them in that place, and serves them elsewhere.
        let Some((handed, _)) = self.handed.get(&wait.thread) else { return true };
        wait.place().is_none_or(|(_, place)| handed.contains(&place))
    }

    /// Returns whether only threads that accept connections end the waits in this place, and do not wait there.
    fn waits_for_connections(&self, wait: &Raw, own: &OwnWakes) -> bool {
        let accepts = |waker: &ThreadKey| self.receivers.get(waker) == Some(&false);
        let Some(place) = wait.place() else { return wait.own_waker.as_ref().is_some_and(accepts) };
        own.are_woken_by(&place, accepts)
    }
}

impl Raw {
    fn is_for_message(&self) -> bool {
        let call = &&*self.facts.call;
        MESSAGE_CALLS.contains(call) || EVENT_CALLS.contains(call)
    }
}

fn is_unknown(class: WaitClass) -> bool {
    matches!(class, WaitClass::EachOther | WaitClass::Broken)
}
