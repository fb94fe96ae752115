//! The published answers: when they are due, and their content.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::events::tell_partial;
use crate::engine::{Notice, Offline};
use crate::kernel::{monotonic_ns, own_cpu_ns, thread_cpu_ns};
use crate::perfdata::EventUnit;
use crate::profile::Ledger;
use crate::query::answer::{Cost, ViewAnswer};
use crate::query::cpus::cpu_use::CpuUse;
use crate::query::cpus::{self, CpuAnswer, CpuCounts};
use crate::query::rows::stable_order::StableOrder;
use crate::query::{Age, Answer, AnswerCache, Question, ReadProgress};
use crate::session::TimeMark;

use super::Aggregator;
use super::answer_clock::{Due, GivenAnswer};

/// The question, and the state that successive answers share.
#[derive(Default)]
pub(super) struct AnswerState {
    pub(super) question: Arc<Question>,
    pub(super) cache: AnswerCache,
    /// The other profile that views may be compared with.
    pub(super) other: Option<Box<Offline>>,
    pub(super) cpus: Option<CpuCounts>,
    steady: StableOrder,
}

pub(super) struct CostMeter {
    pub(super) latest: Cost,
    /// The monotonic time and our CPU time at the last measurement.
    pub(super) measured_at: (u64, u64),
}

fn from_start(marks: &[TimeMark], start: u64) -> Arc<[TimeMark]> {
    marks.iter().map(|mark| TimeMark { at: mark.at.saturating_sub(start), ..mark.clone() }).collect()
}

impl Aggregator {
    pub(super) fn publish_if_due(&mut self) {
        let now = monotonic_ns();
        let fresh = self.fresh.data || self.fresh.question;
        if self.due.at(fresh).is_none() {
            return;
        }
        match self.due.step(now, self.fresh.question) {
            Due::Wait => return,
            Due::Ask => {
                self.links.shared.wanted.store(true, Ordering::Relaxed);
                return self.links.waker.wake();
            }
            Due::Answer => {}
        }
        let spent = thread_cpu_ns();
        if fresh {
            self.publish(now);
        }
        self.links.shared.seen.store(self.upto, Ordering::Relaxed);
        if fresh {
            let _ = self.links.notices.send(Notice::Answer);
        }
        let given = GivenAnswer { began: now, done: monotonic_ns(), cpu: thread_cpu_ns() - spent, upto: self.upto };
        self.due.answered(given, self.options.refresh.as_nanos() as u64);
    }

    fn publish(&mut self, now: u64) {
        let answer = self.answer(now);
        self.seek_lines(&answer);
        self.publish_units();
        if self.fresh.data
            && let Some(times) = self.ingest.core().softirq_times()
        {
            self.links.shared.times.store(Some(Arc::new(times)));
        }
        (self.fresh.data, self.fresh.question) = (false, false);
        self.links.shared.answer.store(Arc::new(answer));
    }

    fn answer(&mut self, now: u64) -> Answer {
        self.count_events();
        let question = self.answers.question.clone();
        let mut cache = std::mem::take(&mut self.answers.cache);
        let mut seen = cache.answer(
            self.data(),
            self.answers.other.as_deref().map(Offline::data),
            &question,
            self.frozen_at.unwrap_or(u64::MAX),
        );
        self.answers.cache = cache;
        let cpus = self.count_cpus(question.cpu, now);
        seen.set_cpu_use(self.cpu_use(&seen, now), &question);
        // The order agrees with the shares that are displayed.
        match self.live && self.ended.is_none() && self.frozen_at.is_none() {
            true => self.answers.steady.apply_hysteresis(&mut seen.lines, &question),
            false => self.answers.steady.forget(),
        }
        self.measure_cost(now);
        let ledger = self.ledger();
        let core = self.ingest.core();
        let per_sample = self.options.per_sample.map_or(0.0, |cost| cost.as_secs_f64());
        let mut events = self.events.infos(&core.events, &ledger, per_sample, self.facts.n_cpus);
        for (i, event) in (0..).zip(&mut events) {
            event.texts = core.profile.format(i).map_or(Vec::new(), |format| format.texts().map(Arc::from).collect());
        }
        tell_partial(&mut events, core.derived());
        self.cost.latest.sampling_percent =
            events.iter().filter_map(|e| e.meter.as_ref()).map(|m| m.cost_percent).sum();
        let span = core.profile.span();
        Answer {
            elapsed_ns: if self.live && self.ended.is_none() {
                now.saturating_sub(core.times.start)
            } else {
                // A session of units alone has no samples.
                let units = if self.live { core.units.now() } else { 0 };
                span.map_or(units, |(_, last)| last.max(units)).saturating_sub(core.times.start)
            },
            events,
            view: seen,
            unfiltered: self.events.seen(question.event),
            newer: self.events.newer(question.event).samples,
            ledger,
            start: core.times.start,
            kept_from: span.map_or(0, |(first, _)| first.saturating_sub(core.times.start)),
            timeline: Arc::new(core.times.timeline.clone()),
            marks: from_start(&core.marks, core.times.start),
            wall_start: core.summary.wall_start(core.times.start),
            cost: self.cost.latest,
            memory: self.memory(),
            ended: self.ended.clone(),
            notes: self.notes.clone(),
            cpus: self.facts.cpus.clone(),
            target: self.facts.target.clone(),
            names_pending: self.names.sought,
            sources: self.names.sources.clone(),
            broken: self.broken_stacks(),
            walked: self.walked.clone(),
            cut_percent: self.cut_percent(),
            progress: self.progress.filter(|_| self.ended.is_none()).map(|(done, all)| ReadProgress {
                done,
                all,
                taken_ns: now - self.started,
            }),
            kinds: core.summary.kinds_by_name(),
            by_cpu: Arc::new(cpus),
            question,
        }
    }

    /// Counts each CPU's samples by kind. After a change of the sampling, their expected number is unknown for a while.
    fn count_cpus(&mut self, cpu: Option<u16>, now: u64) -> CpuAnswer {
        let Some(clock) = self.ingest.core().clock() else { return CpuAnswer::default() };
        let kept = self.answers.cpus.take().filter(|c| c.event() == clock);
        let mut counts = kept.unwrap_or_else(|| CpuCounts::new(clock, self.live));
        counts.update(self.data(), self.frozen_at.unwrap_or(u64::MAX));
        let answer = counts.answer(self.data(), cpu);
        self.answers.cpus = Some(counts);
        let until = self.frozen_at.map_or(now, |at| self.data().profile.time_before(at));
        let steady = until.saturating_sub(cpus::WINDOW_NS) >= self.changed_at;
        let frequency = if steady { self.facts.frequency } else { 0 };
        // Not up to the newest sample: idle CPUs produce none.
        let window = until.saturating_sub(self.ingest.core().times.start.max(self.cleared_at)).min(cpus::WINDOW_NS);
        let most = frequency as f64 * self.facts.n_cpus as f64 * window as f64 / 1e9;
        let busy = (most >= 1.0).then(|| (100.0 * answer.at_work() as f64 / most).min(100.0));
        CpuAnswer { frequency, whole: steady && self.facts.whole_cpus, busy, sampled: self.facts.n_cpus, ..answer }
    }

    /// Returns the CPU time of the samples that are shown, if a clock took them.
    fn cpu_use(&self, seen: &ViewAnswer, now: u64) -> Option<CpuUse> {
        let (core, question) = (self.ingest.core(), &self.answers.question);
        let is_of_clock = |event: usize| event == question.event && question.wall.is_none();
        let counts = self.answers.cpus.as_ref().filter(|counts| is_of_clock(counts.event()))?;
        let by_mode = counts.by_mode(&self.answers.cache.by_site());
        let all: u64 = by_mode.iter().sum();
        let desc = core.events.get(question.event)?;
        // Periods of other events are not times, but their samples arrive at a known rate.
        let busy_ns = match desc.unit() {
            EventUnit::Nanoseconds => all as f64,
            _ if self.facts.frequency == 0 || seen.total.period == 0 => return None,
            _ => {
                let samples = seen.total.samples as f64 * (all as f64 / seen.total.period as f64);
                samples * 1e9 / self.facts.frequency as f64
            }
        };
        let used = CpuUse::new(by_mode, busy_ns, self.shown_ns(now)?, self.facts.n_cpus)?;
        Some(CpuUse { of_machine: question.of_machine && question.baseline.is_none(), ..used })
    }

    /// Returns the length of time that the question covers, in nanoseconds; `None` if old samples count for less.
    fn shown_ns(&self, now: u64) -> Option<u64> {
        let (core, question) = (self.ingest.core(), &self.answers.question);
        let (first, last) = core.profile.span()?;
        let is_running = self.live && self.ended.is_none();
        let until = match self.frozen_at {
            Some(at) => core.profile.time_before(at),
            None if is_running => now,
            None => last,
        };
        // A target that idled at the start of a live session has its first sample late.
        let has_all = self.live && core.profile.ledger.evicted == 0;
        let from = if has_all { core.times.start.max(self.cleared_at) } else { first };
        // The current side of a comparison with the past begins at its baseline.
        let split = question.baseline.as_ref().and_then(|baseline| baseline.split);
        let from = split.map_or(from, |ns| from.max(core.times.start.saturating_add(ns)));
        if let Some((begin, end)) = question.range {
            let (begin, end) =
                (core.times.start.saturating_add(begin).max(from), core.times.start.saturating_add(end).min(until));
            return Some(end.saturating_sub(begin));
        }
        let all = until.saturating_sub(from);
        match question.age {
            Age::All => Some(all),
            Age::Last(ns) => Some(all.min(ns)),
            Age::Half(_) => None,
        }
    }

    fn ledger(&self) -> Ledger {
        let mut ledger = self.ingest.core().profile.ledger.clone();
        let units = &self.ingest.core().units;
        let only_units = (0..ledger.losses.len()).filter(|event| units.is_quiet(*event as u16));
        ledger.lost_of_units = only_units.fold(0_u64, |sum, event| sum.saturating_add(ledger.lost_of(event)));
        ledger.queue_full = self.links.shared.queue_full.load(Ordering::Relaxed);
        ledger.expected = self.expected.count as u64;
        ledger
    }

    fn measure_cost(&mut self, now: u64) {
        let (then, cpu_then) = self.cost.measured_at;
        if now - then < 500_000_000 {
            return;
        }
        let cpu = own_cpu_ns();
        self.cost.latest.own_percent = 100.0 * (cpu - cpu_then) as f64 / (now - then) as f64;
        self.cost.measured_at = (now, cpu);
    }
}
