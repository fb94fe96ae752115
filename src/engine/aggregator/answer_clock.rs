//! The time of the next answer: so that what is seen is no older than was asked for, and answering takes no more than
//! its share of the CPU.

/// Never more than 30 answers a second.
pub(super) const MIN_INTERVAL_NS: u64 = 33_000_000;
/// The interval of a young session's answers, until names and first numbers have settled.
const YOUNG_INTERVAL_NS: u64 = 100_000_000;
const YOUNG_NS: u64 = 1_000_000_000;
/// Answers may take this fraction of a CPU: of its time, as on a busy machine wall-clock time would tell of others.
const DUTY: u64 = 20;
/// But no live view gets older than a second for it.
const OLDEST_NS: u64 = 900_000_000;
/// By how much a live view is replaced before it is as old as it may be: no two answers take the same time.
const SPARE_NS: u64 = 100_000_000;
/// Time that the source may take to bring what it has, once it was asked.
const PATIENCE_NS: u64 = 100_000_000;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Wait,
    /// Ask the source for what it has.
    Ask,
    Answer,
}

/// An answer that was given: when it was begun and done, what CPU time it took, and up to when what it holds is whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenAnswer {
    pub(crate) began: u64,
    pub(crate) done: u64,
    pub(crate) cpu: u64,
    pub(crate) upto: u64,
}

/// The times of answers, in nanoseconds of the monotonic clock.
#[derive(Debug)]
pub(super) struct AnswerClock {
    /// The machine goes on while nobody looks: answers come by the clock, with the newest of the source.
    live: bool,
    started: u64,
    next: u64,
    /// Until when records come before questions: answering takes half of the time at most.
    breath_until: u64,
    /// Until when the source is waited for, where it was asked, and when that was.
    asked: Option<(u64, u64)>,
    /// How long it took of late from when an answer was due to when it was there.
    lead: u64,
}

impl AnswerClock {
    pub(super) fn new(live: bool, now: u64) -> Self {
        Self { live, started: now, next: now, breath_until: 0, asked: None, lead: 0 }
    }

    /// Nothing new comes from now on: what is there is told at once.
    pub(super) fn end(&mut self) {
        self.live = false;
        self.now();
    }

    /// Whatever else there is, the next answer comes at once.
    pub(super) fn now(&mut self) {
        (self.next, self.asked) = (0, None);
    }

    /// An answer is wanted within so much time.
    pub(super) fn within(&mut self, now: u64, time: u64) {
        self.next = self.next.min(now + time);
    }

    /// Somebody asked: at once, but for records that were kept waiting by the answer before.
    pub(super) fn question(&mut self, now: u64) {
        self.next = self.next.min((now + 1_000_000).max(self.breath_until));
    }

    /// True if names and first numbers are still settling.
    pub(super) fn is_young(&self, now: u64) -> bool {
        now.saturating_sub(self.started) < YOUNG_NS
    }

    /// Notes that what the source had when it was asked is in.
    pub(super) fn came(&mut self) {
        self.asked = self.asked.map(|(_, since)| (0, since));
    }

    /// The time of the next step, if nothing happens before; `fresh` when there is something to tell.
    pub(super) fn at(&self, fresh: bool) -> Option<u64> {
        (fresh || self.live).then(|| self.asked.map_or(self.next, |(until, _)| until))
    }

    /// The next step. A question is answered from what is there.
    pub(super) fn step(&mut self, now: u64, question: bool) -> Due {
        match self.asked {
            _ if now < self.next => Due::Wait,
            _ if question || !self.live || self.is_young(now) => Due::Answer,
            None => {
                self.asked = Some((now + PATIENCE_NS, now));
                Due::Ask
            }
            Some((until, _)) if now < until => Due::Wait,
            Some(_) => Due::Answer,
        }
    }

    /// Plans the next one. The age of a view counts from the newest that it holds, and ends when the next is there.
    pub(super) fn answered(&mut self, given: GivenAnswer, refresh: u64) {
        let GivenAnswer { began, done, cpu, upto } = given;
        let refresh = if self.live && self.is_young(began) { YOUNG_INTERVAL_NS } else { refresh };
        let share = if self.live { (cpu * DUTY).min(OLDEST_NS) } else { cpu * DUTY };
        let refresh = if self.live { refresh - (refresh / 6).min(SPARE_NS) } else { refresh };
        let pace = refresh.max(share).max(MIN_INTERVAL_NS);
        if let Some((_, since)) = self.asked.take() {
            self.lead = done.saturating_sub(since).max(self.lead - self.lead / 8).min(pace / 2);
        }
        // Of a source that is far behind each answer is old, and more of them would only hold it up.
        let held = upto.clamp(began.saturating_sub(pace / 2), began).saturating_sub(self.lead);
        let from = if self.live { held } else { began };
        self.next = (from + pace).max(began + MIN_INTERVAL_NS).max(done + cpu);
        self.breath_until = done + cpu;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1000 * MS;

    /// One that is no longer young.
    fn old() -> (AnswerClock, u64) {
        (AnswerClock::new(true, 0), 10 * SECOND)
    }

    #[test]
    fn a_view_that_is_a_second_old_has_been_replaced() {
        let (mut due, mut now) = old();
        let mut shown = now;
        // Each time the source needs 30 ms to bring what happened up to 100 ms before, and the answer takes 50 ms.
        for round in 0..10 {
            now = now.max(due.at(true).expect("due"));
            assert_eq!((due.step(now, false), due.step(now, false)), (Due::Ask, Due::Wait));
            now += 30 * MS;
            due.came();
            assert_eq!(due.step(now, false), Due::Answer);
            let (began, upto) = (now, now - 100 * MS);
            now += 50 * MS;
            assert!(round < 2 || (899 * MS..=900 * MS).contains(&(now - shown)), "{} ms", (now - shown) / MS);
            shown = upto;
            due.answered(GivenAnswer { began, done: now, cpu: MS, upto }, SECOND);
        }
    }

    #[test]
    fn a_share_of_the_cpu_is_of_its_time_and_no_reason_to_be_old() {
        let next = |cpu: u64, took: u64, refresh: u64| {
            let (mut due, began) = old();
            due.answered(GivenAnswer { began, done: began + took, cpu, upto: began }, refresh);
            due.at(false).expect("live") - began
        };
        // What the machine kept it waiting for is nobody's share.
        assert_eq!(next(MS, 900 * MS, 50 * MS), 901 * MS);
        assert_eq!(next(MS, 2 * MS, 60 * MS), 50 * MS);
        assert_eq!(next(10 * MS, 20 * MS, 50 * MS), 200 * MS);
        assert_eq!(next(300 * MS, 310 * MS, 50 * MS), OLDEST_NS);
        assert_eq!(next(700 * MS, 800 * MS, 50 * MS), 1500 * MS, "half of the time at most");
        assert_eq!(next(0, 0, 0), MIN_INTERVAL_NS);
        assert_eq!(next(300 * MS, 310 * MS, 5 * SECOND), 5 * SECOND - SPARE_NS, "as slow as was asked for");
    }

    #[test]
    fn a_recording_is_read_rather_than_shown() {
        let mut due = AnswerClock::new(false, 0);
        due.answered(GivenAnswer { began: 0, done: 200 * MS, cpu: 150 * MS, upto: 0 }, 100 * MS);
        assert_eq!((due.at(true), due.at(false)), (Some(3 * SECOND), None));
        assert_eq!((due.step(3 * SECOND - 1, true), due.step(3 * SECOND, false)), (Due::Wait, Due::Answer));
    }

    #[test]
    fn questions_are_answered_from_what_is_there_and_records_come_in_between() {
        let (mut due, now) = old();
        due.answered(GivenAnswer { began: now, done: now + 20 * MS, cpu: 15 * MS, upto: now }, SECOND);
        due.question(now + 20 * MS);
        assert_eq!((due.step(now + 34 * MS, true), due.step(now + 35 * MS, true)), (Due::Wait, Due::Answer));
    }

    #[test]
    fn a_source_that_brings_nothing_is_not_waited_for_and_one_that_is_behind_is_not_held_up() {
        let (mut due, now) = old();
        assert_eq!((due.step(now, false), due.at(false)), (Due::Ask, Some(now + PATIENCE_NS)));
        assert_eq!(
            (due.step(now + PATIENCE_NS - 1, false), due.step(now + PATIENCE_NS, false)),
            (Due::Wait, Due::Answer)
        );
        let (mut due, now) = old();
        due.answered(GivenAnswer { began: now, done: now + MS, cpu: MS, upto: now - 5 * SECOND }, SECOND);
        let pace = SECOND - (SECOND / 6).min(SPARE_NS);
        assert_eq!(due.at(true), Some(now - pace / 2 + pace));
    }

    #[test]
    fn a_young_session_does_not_ask_and_one_that_ended_tells_the_rest_at_once() {
        let mut due = AnswerClock::new(true, 0);
        assert_eq!(due.step(0, false), Due::Answer);
        due.answered(GivenAnswer { began: 0, done: MS, cpu: MS, upto: 0 }, SECOND);
        assert_eq!(due.at(false), Some(YOUNG_INTERVAL_NS - YOUNG_INTERVAL_NS / 6));
        due.end();
        assert_eq!((due.at(true), due.at(false), due.step(MS, false)), (Some(0), None, Due::Answer));
    }
}
