//! The schedule of answers: a view is at most as old as requested, and answers take a limited share of the CPU.

/// Limits answers to 30 per second.
pub(super) const MIN_INTERVAL_NS: u64 = 33_000_000;
/// The interval of answers in the first second of a session, while names and first numbers settle.
const YOUNG_INTERVAL_NS: u64 = 100_000_000;
const YOUNG_NS: u64 = 1_000_000_000;
/// The inverse of the share of a CPU that answers may take. It is measured in CPU time, because wall-clock time on a
/// busy machine includes other programs' work.
const DUTY: u64 = 20;
/// The limit of the delay that this share may cause for a live view: the view stays less than a second old.
const OLDEST_NS: u64 = 900_000_000;
/// How much earlier than necessary a live view is replaced, because the time for an answer varies.
const SPARE_NS: u64 = 100_000_000;
/// Time that the source has to deliver pending records after a request.
const PATIENCE_NS: u64 = 100_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Wait,
    Ask,
    Answer,
}

/// A published answer: when it was started and finished, its CPU time, and the time up to which its data is complete.
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
    /// Whether the source is a live machine: then answers are scheduled by the clock and include the newest records.
    live: bool,
    started: u64,
    next: u64,
    /// Until when records have priority over questions: answering takes at most half of the time.
    breath_until: u64,
    /// The deadline for the source after a request, and the time of the request.
    asked: Option<(u64, u64)>,
    /// The recent delay from an answer's due time to its publication.
    lead: u64,
}

impl AnswerClock {
    pub(super) fn new(live: bool, now: u64) -> Self {
        Self { live, started: now, next: now, breath_until: 0, asked: None, lead: 0 }
    }

    pub(super) fn end(&mut self) {
        self.live = false;
        self.now();
    }

    pub(super) fn now(&mut self) {
        (self.next, self.asked) = (0, None);
    }

    pub(super) fn within(&mut self, now: u64, time: u64) {
        self.next = self.next.min(now + time);
    }

    /// Schedules the answer to a question: immediately, unless records wait because of the previous answer.
    pub(super) fn question(&mut self, now: u64) {
        self.next = self.next.min((now + 1_000_000).max(self.breath_until));
    }

    /// Returns whether names and first numbers are still settling.
    pub(super) fn is_young(&self, now: u64) -> bool {
        now.saturating_sub(self.started) < YOUNG_NS
    }

    /// Notes that the requested records have arrived.
    pub(super) fn came(&mut self) {
        self.asked = self.asked.map(|(_, since)| (0, since));
    }

    /// Returns the time of the next step if nothing happens before; `fresh` means that there is new data.
    pub(super) fn at(&self, fresh: bool) -> Option<u64> {
        (fresh || self.live).then(|| self.asked.map_or(self.next, |(until, _)| until))
    }

    /// Returns the next step. A question is answered from existing data.
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

    /// Schedules the next answer. The age of a view counts from its newest data to the publication of the next view.
    pub(super) fn answered(&mut self, given: GivenAnswer, refresh: u64) {
        let GivenAnswer { began, done, cpu, upto } = given;
        let refresh = if self.live && self.is_young(began) { YOUNG_INTERVAL_NS } else { refresh };
        let share = if self.live { (cpu * DUTY).min(OLDEST_NS) } else { cpu * DUTY };
        let refresh = if self.live { refresh - (refresh / 6).min(SPARE_NS) } else { refresh };
        let pace = refresh.max(share).max(MIN_INTERVAL_NS);
        if let Some((_, since)) = self.asked.take() {
            self.lead = done.saturating_sub(since).max(self.lead - self.lead / 8).min(pace / 2);
        }
        // If the source is far behind, every answer is old; more of them would only slow it down.
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

    fn old() -> (AnswerClock, u64) {
        (AnswerClock::new(true, 0), 10 * SECOND)
    }

    #[test]
    fn a_view_that_is_a_second_old_has_been_replaced() {
        let (mut due, mut now) = old();
        let mut shown = now;
        // Each time, the source needs 30 ms to deliver data that is up to 100 ms old, and the answer takes 50 ms.
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
        // Time in which the thread was not scheduled does not count.
        assert_eq!(next(MS, 900 * MS, 50 * MS), 901 * MS);
        assert_eq!(next(MS, 2 * MS, 60 * MS), 50 * MS);
        assert_eq!(next(10 * MS, 20 * MS, 50 * MS), 200 * MS);
        assert_eq!(next(300 * MS, 310 * MS, 50 * MS), OLDEST_NS);
        assert_eq!(next(700 * MS, 800 * MS, 50 * MS), 1500 * MS, "half of the time at most");
        assert_eq!(next(0, 0, 0), MIN_INTERVAL_NS);
        assert_eq!(next(300 * MS, 310 * MS, 5 * SECOND), 5 * SECOND - SPARE_NS, "the requested interval");
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
