//! The thread that owns the profile: it processes batches, answers questions and keeps the memory budget.

mod answer_clock;
mod answers;
mod budget;
mod links;
mod names;
mod remedies;
mod running_units;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::kernel::{monotonic_ns, own_cpu_ns};
use crate::query::Data;
use crate::query::answer::Cost;
use crate::query::stack_gaps;
use crate::session::{EndReason, TimeMark, marks};
use crate::source::{Batch, Control, Info, RunState, SamplingState, SourceEvent};
use crate::symbols::spaces::WalkFigures;

use crate::engine::events::Events;

use crate::engine::fetch;
use crate::engine::symbolizer::{FoundLines, LookedUp};
use crate::engine::{Notice, Options, Request, SourceMessage};
use crate::ingest::Ingest;
use crate::kernel::ThreadPriority;

use answer_clock::AnswerClock;
use answers::{AnswerState, CostMeter};
use budget::Budget;
pub(crate) use links::used_buffers;
pub use links::{AggregatorEnds, AggregatorLinks};

const MAX_NOTES: usize = 100;

/// The owner of the profile.
pub struct Aggregator {
    links: AggregatorLinks,
    options: Options,
    ingest: Ingest,
    events: Events,
    counted_upto: u64,
    budget: Budget,
    notes: Vec<String>,
    answers: AnswerState,
    frozen_at: Option<u64>,
    /// When samples were cleared on request, or 0.
    cleared_at: u64,
    /// The sampling settings except events, and the time of their last change.
    facts: SamplingState,
    changed_at: u64,
    expected: ExpectedSamples,
    ended: Option<EndReason>,
    walked: Option<WalkFigures>,
    live: bool,
    started: u64,
    due: AnswerClock,
    /// The time up to which all records have been processed.
    upto: u64,
    fresh: Fresh,
    names: names::NameRequests,
    units: running_units::Looked,
    cost: CostMeter,
    /// Bytes read of a recording, and its size.
    progress: Option<(u64, u64)>,
}

/// The changes since the last answer.
struct Fresh {
    data: bool,
    question: bool,
}

struct ExpectedSamples {
    /// CPU-nanoseconds times Hz so far.
    count: f64,
    /// The time up to which they are counted.
    at: u64,
}

enum Event {
    SourceMessage(SourceMessage),
    Request(Request),
    Names(LookedUp),
    Lines(FoundLines),
    Fetched(fetch::Fetched),
    Timeout,
    Gone,
}

impl Aggregator {
    /// Returns a profile without samples, for the source that `info` describes.
    pub fn new(info: &Info, options: Options, links: AggregatorLinks) -> Self {
        let now = monotonic_ns();
        let mut ingest = Ingest::new(info, options.own_pid, options.wants);
        ingest.complete_chains(options.symbols.clone());
        let mut events = Events::default();
        events.know(&ingest.core().events);
        events.set_states(&info.states, ingest.core().slots());
        Self {
            ingest,
            links,
            options,
            events,
            counted_upto: 0,
            budget: Budget::default(),
            notes: info.notes.clone(),
            answers: AnswerState::default(),
            frozen_at: None,
            cleared_at: 0,
            facts: SamplingState { events: Vec::new(), ..SamplingState::from(info) },
            changed_at: 0,
            expected: ExpectedSamples { count: 0.0, at: now },
            ended: None,
            walked: None,
            live: info.origin == crate::session::Origin::Live,
            started: now,
            due: AnswerClock::new(info.origin == crate::session::Origin::Live, now),
            upto: now,
            fresh: Fresh { data: true, question: true },
            names: names::NameRequests::default(),
            units: running_units::Looked::default(),
            cost: CostMeter { latest: Cost::default(), measured_at: (now, own_cpu_ns()) },
            progress: None,
        }
    }

    pub(crate) fn run(mut self) {
        let mut priority =
            if self.live { ThreadPriority::of_live(self.options.realtime) } else { ThreadPriority::usual() };
        while self.turn() {
            priority.keep();
        }
    }

    /// Waits for an event, processes it and pending requests, publishes what is due; `false` if the session ended.
    pub fn turn(&mut self) -> bool {
        match self.wait() {
            Event::SourceMessage(SourceMessage::Batch(batch)) => self.batch(*batch),
            Event::SourceMessage(SourceMessage::End(end)) => self.end(end),
            Event::Request(Request::Stop) | Event::Gone => return false,
            Event::Request(request) => self.request(request),
            Event::Names(named) => {
                self.names(named);
                self.end_wait();
            }
            Event::Lines(lined) => self.lines(lined),
            Event::Fetched(fetched) => self.fetched(fetched),
            Event::Timeout => {}
        }
        while let Ok(request) = self.links.requests.try_recv() {
            if matches!(request, Request::Stop) {
                return false;
            }
            self.request(request);
        }
        self.publish_if_due();
        true
    }

    fn wait(&self) -> Event {
        let due = self.due.at(self.fresh.data || self.fresh.question);
        let timeout = match due {
            Some(at) => Duration::from_nanos(at.saturating_sub(monotonic_ns())),
            None => Duration::from_secs(3600),
        };
        let never = crossbeam_channel::never();
        let nothing = crossbeam_channel::never();
        let fetched = self.links.fetcher.as_ref().map_or(&nothing, |(_, fetched)| fetched);
        let batches = if self.ended.is_some() { &never } else { &self.links.batches };
        crossbeam_channel::select! {
            recv(batches) -> message => {
                let failed = || EndReason::Failed("the source ended without a reason".into());
                Event::SourceMessage(message.unwrap_or_else(|_| SourceMessage::End(failed())))
            }
            recv(self.links.requests) -> request => request.map_or(Event::Gone, Event::Request),
            recv(self.links.symbolizer.names) -> named => named.map_or(Event::Gone, Event::Names),
            recv(fetched) -> fetched => fetched.map_or(Event::Timeout, Event::Fetched),
            recv(self.links.symbolizer.lines) -> lined => lined.map_or(Event::Gone, Event::Lines),
            default(timeout) => Event::Timeout,
        }
    }

    fn batch(&mut self, mut batch: Batch) {
        self.links.shared.held.waiting.fetch_sub(batch.bytes.len(), Ordering::Relaxed);
        self.count_expected();
        let had = self.ingest.core().profile.end();
        let timed = self.ingest.core().profile.ledger.timed;
        // The end of the input is marked by the highest value, which is not a time.
        self.upto = self.upto.max(batch.complete_until.filter(|until| *until < u64::MAX).unwrap_or(0));
        self.ingest.feed(&mut batch);
        if self.facts.frequency == 0 {
            // The number of expected samples is unknown while only some of a clock's samples are kept.
            self.ingest.core_mut().profile.ledger.timed = timed;
        }
        self.events.know(&self.ingest.core().events);
        batch.events.into_iter().for_each(|event| self.source_event(event));
        while let Some(buffer) = self.ingest.spare() {
            let _ = self.links.recycle.try_send(buffer);
        }
        if std::mem::take(&mut self.ingest.core_mut().running.renamed_containers) {
            // Answers that contain their ids are computed again.
            self.answers.cache.release();
            self.fresh.data = true;
        }
        self.seek_names();
        self.keep_budget();
        let core = self.ingest.core();
        self.fresh.data |= core.profile.end() != had || self.units.is_looked_at() && !core.units.is_empty();
        self.end_wait();
    }

    /// Ends the wait for the source's newest records once these and the names of their functions have arrived. Without
    /// the names, rows would appear in one answer and vanish in the next.
    fn end_wait(&mut self) {
        if !self.links.shared.wanted.load(Ordering::Relaxed) && self.links.batches.is_empty() && self.names.sought == 0
        {
            self.due.came();
        }
    }

    fn source_event(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Changed(changed) => self.changed(changed),
            SourceEvent::Counts(counts) => {
                self.count_events();
                self.events.count(&counts, self.ingest.core().slots());
                self.fresh.data = true;
            }
            SourceEvent::Walks(figures) => {
                stack_gaps::of_interpreters(&figures.tables).for_each(|note| self.note(note));
                self.walked = Some(figures);
            }
            SourceEvent::ViewFilter(filter) => _ = self.links.notices.send(Notice::View(filter)),
            SourceEvent::Note(note) => self.note(note),
            SourceEvent::Reply(reply) => self.reply(reply),
            SourceEvent::Progress(done, all) => self.progress = Some((done, all)),
            // The profile has taken the others.
            SourceEvent::Event(_)
            | SourceEvent::Fields(..)
            | SourceEvent::Id(_)
            | SourceEvent::Handover(_)
            | SourceEvent::BuildId(_)
            | SourceEvent::Containers(_)
            | SourceEvent::CpuCounts(_)
            | SourceEvent::CallSums(_)
            | SourceEvent::HitSums(_)
            | SourceEvent::MeasuredSince(_)
            | SourceEvent::MeasuredUntil(_)
            | SourceEvent::UnknownLosses
            | SourceEvent::Unread(_) => {}
        }
    }

    fn changed(&mut self, mut changed: SamplingState) {
        let states = std::mem::take(&mut changed.events);
        let rests = !states.is_empty() && states.iter().all(|state| state.run != RunState::Running);
        self.ingest.core_mut().profile.gaps.rest(monotonic_ns(), rests);
        self.events.set_states(&states, self.ingest.core().slots());
        if changed != self.facts {
            (self.facts, self.changed_at) = (changed, monotonic_ns());
        }
        self.fresh.data = true;
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES && !self.notes.contains(&note) {
            self.notes.push(note);
            self.fresh.data = true;
        }
    }

    fn count_expected(&mut self) {
        let now = monotonic_ns();
        let seconds = (now - std::mem::replace(&mut self.expected.at, now)) as f64 / 1e9;
        self.expected.count += seconds * self.facts.frequency as f64 * self.facts.n_cpus as f64;
    }

    fn end(&mut self, why: EndReason) {
        if let EndReason::Failed(error) = &why {
            self.note(error.clone());
        }
        self.ended = Some(why);
        self.fresh.data = true;
        self.due.end();
    }

    fn request(&mut self, request: Request) {
        match request {
            Request::Ask(question) => {
                if !question.same_rows(&self.answers.question) {
                    self.answers.cache.outdated();
                }
                self.answers.question = question;
                self.fresh.question = true;
                // Fast typing gets only the last question answered; records are processed in between.
                self.due.question(monotonic_ns());
            }
            Request::Control(control) => {
                if let (Control::CallGraph(_), Some(chains)) = (&control, &mut self.ingest.core_mut().chains) {
                    chains.forget();
                }
                if !self.control(self.for_source(control)) || self.ended.is_some() {
                    self.reply(Err("the session has ended".to_owned()));
                }
            }
            Request::Freeze(on) => {
                self.count_events();
                self.events.freeze(on);
                self.frozen_at = on.then_some(self.counted_upto);
                self.fresh.question = true;
                self.fresh.data = true;
            }
            Request::Clear => self.clear(),
            Request::Baseline(other) => {
                self.answers.other = other;
                self.answers.cache.release_other();
                self.answer_again();
            }
            Request::Refresh(interval) => self.options.refresh = interval,
            Request::Mark(mark) => {
                let core = self.ingest.core_mut();
                let at = core.times.start.saturating_add(mark.at);
                marks::set(&mut core.marks, TimeMark { at, ..mark });
                self.answer_again();
            }
            Request::Unmark(place) => {
                let marks = &mut self.ingest.core_mut().marks;
                if place < marks.len() {
                    marks.remove(place);
                }
                self.answer_again();
            }
            Request::Save(reply) => {
                let moment = self.ingest.core().moment();
                self.budget.saved = Arc::downgrade(&moment.held);
                let _ = reply.send(Box::new(moment));
            }
            Request::UnitFigures(reply) => {
                let _ = reply.send(self.all_unit_figures());
            }
            Request::List(target, at) => self.list(target, at),
            Request::Remedy(kind, path) => self.find_remedy(kind, path),
            Request::PerfMap(pid) => self.write_perf_map(pid),
            Request::Names(form) => self.rename(form),
            Request::Inlined(show) => {
                self.names.hide_inlined = !show;
                self.ingest.core_mut().profile.frames.show_inlined(show);
                self.answer_again();
            }
            Request::Unit(request) => self.unit_request(request),
            Request::UnitOf(loaded) => self.unit_of(loaded),
            Request::Stop => {}
        }
    }

    fn for_source(&self, control: Control) -> Control {
        match control {
            Control::Event(event, change) => {
                let slots = self.ingest.core().slots();
                let slot = slots.iter().position(|own| usize::from(*own) == event);
                Control::Event(slot.unwrap_or(usize::MAX), change)
            }
            other => other,
        }
    }

    fn clear(&mut self) {
        let core = self.ingest.core_mut();
        let now = core.units.now();
        core.units.reset(now);
        core.profile.clear(&mut core.session);
        self.counted_upto = core.profile.end();
        self.events.clear();
        self.expected.count = 0.0;
        (core.profile.ledger.received, core.profile.ledger.timed, core.profile.ledger.unit_records) = (0, 0, 0);
        self.frozen_at = self.frozen_at.map(|_| self.counted_upto);
        self.answers.cache.outdated();
        self.answers.cpus = None;
        self.cleared_at = monotonic_ns();
        self.ingest.core_mut().times.measure_again(self.cleared_at);
        self.answer_again();
    }

    /// Makes the next answer due at once.
    fn answer_again(&mut self) {
        self.fresh.question = true;
        self.due.now();
    }

    fn reply(&self, reply: Result<String, String>) {
        let _ = self.links.notices.send(Notice::Reply(reply));
    }

    /// Sends a change to the source's thread; fails if that has ended.
    fn control(&self, control: Control) -> bool {
        let sent = self.links.controls.send(control);
        self.links.waker.wake();
        sent.is_ok()
    }

    fn data(&self) -> Data<'_> {
        self.ingest.core().data(self.events.names())
    }

    fn count_events(&mut self) {
        let profile = &self.ingest.core().profile;
        for (chunk, range) in profile.between(self.counted_upto, profile.end()) {
            for (event, weight) in chunk.event[range.clone()].iter().zip(&chunk.weight[range]) {
                self.events.add(*event, *weight);
            }
        }
        self.counted_upto = profile.end();
    }
}
