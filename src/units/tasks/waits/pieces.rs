//! The time of threads in pieces: by thread, part and place. The pieces of a thread add up to its wall time.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::stacks::FrameName;
use crate::session::DsoKind;
use crate::units::kit::prelude::*;
use crate::units::kit::waits::classes::WaitClass;
use crate::units::kit::waits::wakers::Cause;
use crate::units::tasks::offcpu::blocked::waits::{Spot, Wait};

use super::Waits;
use super::parts::{SleepPlace, TimePart, is_interrupt};

/// The place of a thread in a piece of its time.
#[derive(Clone, Debug)]
pub(super) enum PiecePlace {
    Sampled(RetainedStack),
    Slept(Spot, Arc<str>),
    /// Behind another thread.
    Behind(ThreadKey),
    /// No place is known.
    Nowhere,
}

/// A piece of a thread's time.
#[derive(Clone, Debug)]
pub(super) struct TimePiece {
    pub(super) thread: ThreadKey,
    pub(super) part: TimePart,
    pub(super) place: PiecePlace,
    pub(super) ns: u64,
    pub(super) n: u64,
    pub(super) max: u64,
    /// Whether the thread ran, could have run, or was held up.
    pub(super) is_active: bool,
    /// The cause of its end.
    pub(super) by: Option<Arc<str>>,
}

impl TimePiece {
    fn new(thread: ThreadKey, part: TimePart, place: PiecePlace, ns: u64, n: u64) -> Self {
        Self { thread, part, place, ns, n, max: 0, is_active: part.is_active(), by: None }
    }

    /// Returns the functions of its place, root first.
    pub(super) fn frames(&self, at: &Moment<'_>, unit: &Waits) -> Vec<FrameName> {
        let word = |text: &str| FrameName { text: text.into(), kind: DsoKind::Unknown, dso: "".into() };
        match &self.place {
            PiecePlace::Sampled(stack) => at.frames(*stack),
            PiecePlace::Slept(spot, _) => unit.blocked.places.frames(at, *spot),
            PiecePlace::Behind(thread) => vec![word(&behind(at, *thread))],
            PiecePlace::Nowhere => Vec::new(),
        }
    }

    /// Returns its place as a line, the innermost function first.
    pub(super) fn line(&self, at: &Moment<'_>, labels: &mut StackLabels) -> Arc<str> {
        match &self.place {
            PiecePlace::Sampled(stack) => labels.line(at, *stack),
            PiecePlace::Slept(_, line) => line.clone(),
            PiecePlace::Behind(thread) => behind(at, *thread).into(),
            PiecePlace::Nowhere => "–".into(),
        }
    }
}

fn behind(at: &Moment<'_>, thread: ThreadKey) -> String {
    format!("behind {}", at.comm(thread))
}

/// Returns what ended most waits of each thread in each place. It stands for the end of a wait that still runs, so that
/// this rarely moves to another part when it ends.
fn usual_causes(waits: &[Wait]) -> FxHashMap<(ThreadKey, Arc<str>), (u64, Cause)> {
    let mut usual: FxHashMap<(ThreadKey, Arc<str>), (u64, Cause)> = FxHashMap::default();
    for wait in waits {
        let Some(cause) = wait.cause.filter(|cause| *cause != Cause::Unrecorded) else { continue };
        let ended = (wait.stats.n, cause);
        let most = usual.entry((wait.thread, wait.line.clone())).or_insert(ended);
        *most = ended.max(*most);
    }
    usual
}

/// Divides a time by weights, so that the shares add up to it.
fn divided(ns: u64, weights: impl Iterator<Item = u64>, total: u64) -> impl Iterator<Item = u64> {
    let (mut seen, mut given) = (0u128, 0u128);
    weights.map(move |weight| {
        seen = (seen + u128::from(weight)).min(u128::from(total));
        let upto = u128::from(ns) * seen / u128::from(total.max(1));
        (upto - std::mem::replace(&mut given, upto)) as u64
    })
}

impl Waits {
    /// Returns the pieces of all threads in the interval, and their wall times.
    pub(super) fn pieces(&mut self, at: &Moment<'_>) -> (Vec<TimePiece>, FxHashMap<ThreadKey, u64>) {
        let mut walls = FxHashMap::default();
        let mut pieces = self.sleeps(at);
        let mut known: FxHashMap<ThreadKey, u64> = FxHashMap::default();
        pieces.iter().for_each(|piece| *known.entry(piece.thread).or_default() += piece.ns);
        let mut samples = self.samples();
        let mut behind: FxHashMap<ThreadKey, Vec<(ThreadKey, u64)>> = FxHashMap::default();
        for (thread, runner, ns) in self.times.behind() {
            behind.entry(thread).or_default().push((runner, ns));
        }
        let mut threads: Vec<_> = self.times.all(at.now).collect();
        let all = threads.len();
        threads.retain(|(thread, time, _)| samples.contains_key(thread) || !self.times.is_foreign(time));
        self.foreign = (all - threads.len()) as u64;
        threads.sort_unstable_by_key(|(thread, ..)| *thread);
        for (thread, time, wall) in threads {
            self.running(at, thread, (time.ran, time.runs), samples.remove(&thread).unwrap_or_default(), &mut pieces);
            let mut left = time.waited;
            for (runner, ns) in behind.remove(&thread).unwrap_or_default() {
                let ns = ns.min(left);
                left -= ns;
                pieces.push(TimePiece::new(thread, TimePart::Runnable, PiecePlace::Behind(runner), ns, 0));
            }
            let known = known.get(&thread).copied().unwrap_or(0) + time.ran + time.waited + time.throttled;
            // On some CPUs alone, the rest of a thread's time is elsewhere.
            let wall = if self.is_of_cpus { known } else { wall };
            walls.insert(thread, wall);
            for (part, ns, n) in [
                (TimePart::Runnable, left, time.delays),
                (TimePart::Throttled, time.throttled, time.throttles),
                (TimePart::Unknown, wall.saturating_sub(known), 0),
            ] {
                pieces.push(TimePiece::new(thread, part, PiecePlace::Nowhere, ns, n));
            }
        }
        pieces.retain(|piece| piece.ns > 0);
        (pieces, walls)
    }

    fn sleeps(&mut self, at: &Moment<'_>) -> Vec<TimePiece> {
        let mut pieces = Vec::new();
        let waits = self.blocked.waits(at);
        let usual = usual_causes(&waits);
        for wait in waits {
            let place = match self.blocked.places.stack(wait.spot) {
                Some(stack) => self.places.get(at, stack, || SleepPlace::of(&at.frames(stack))),
                None => SleepPlace::of(&self.blocked.places.frames(at, wait.spot)),
            };
            let cause = wait.cause.or_else(|| usual.get(&(wait.thread, wait.line.clone())).map(|(_, cause)| *cause));
            let part = TimePart::of_sleep(wait.sleep, wait.class, cause, place);
            pieces.push(TimePiece {
                thread: wait.thread,
                part,
                is_active: part.is_active() && !(part.may_be_idle() && wait.class == WaitClass::Work),
                place: PiecePlace::Slept(wait.spot, wait.line),
                ns: wait.stats.sum,
                n: wait.stats.n,
                max: wait.stats.max,
                by: Some(wait.waker.0),
            });
        }
        pieces
    }

    /// Returns the samples of each thread: stack, whether user code ran, and weight.
    fn samples(&self) -> FxHashMap<ThreadKey, Vec<(RetainedStack, bool, u64)>> {
        let mut samples: FxHashMap<ThreadKey, Vec<(RetainedStack, bool, u64)>> = FxHashMap::default();
        for ((thread, stack, is_user), weight) in &self.sampled {
            samples.entry(*thread).or_default().push((*stack, *is_user, *weight));
        }
        samples
    }

    /// Divides the time on CPUs by samples.
    fn running(
        &mut self,
        at: &Moment<'_>,
        thread: ThreadKey,
        (ran, runs): (u64, u64),
        mut samples: Vec<(RetainedStack, bool, u64)>,
        pieces: &mut Vec<TimePiece>,
    ) {
        if samples.is_empty() {
            return pieces.push(TimePiece::new(thread, TimePart::Unsampled, PiecePlace::Nowhere, ran, runs));
        }
        samples.sort_unstable();
        let total = samples.iter().fold(0, |sum: u64, (.., weight)| sum.saturating_add(*weight));
        let shares: Vec<u64> = divided(ran, samples.iter().map(|(.., weight)| *weight), total).collect();
        for ((stack, is_user, _), ns) in samples.into_iter().zip(shares) {
            let part = match is_user {
                true => TimePart::User,
                false if self.interrupts.get(at, stack, || is_interrupt(&at.frames(stack))) => TimePart::Interrupt,
                false => TimePart::Kernel,
            };
            pieces.push(TimePiece::new(thread, part, PiecePlace::Sampled(stack), ns, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_whole() {
        for (ns, weights) in [(10, &[1, 1, 1][..]), (7, &[100, 3]), (0, &[4]), (u64::MAX, &[u64::MAX / 2, 5])] {
            let total = weights.iter().sum();
            let shares: Vec<u64> = divided(ns, weights.iter().copied(), total).collect();
            assert_eq!(shares.iter().sum::<u64>(), ns, "{shares:?}");
        }
        assert_eq!(divided(10, [3, 1].into_iter(), 4).collect::<Vec<_>>(), [7, 3]);
    }
}
