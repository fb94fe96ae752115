//! A unit that runs over a whole source without a screen, with figures per interval.

use std::mem::take;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::kernel::EndRequests;
use crate::source::{Batch, Progress, Source, SourceError};
use crate::symbols::Resolver;
use crate::symbols::SymbolOptions;
use crate::units::kit::{FilteredUnit, Points, Spec};

use super::offline::{name_all, once};
use super::read_ahead::{self, ReadAhead};
use crate::ingest::unit_feed::{BlockedBy, BlockedUnit, UnitAnswer};
use crate::ingest::{Ingest, IngestState, IntakeOptions};

/// The figures of an interval, or of everything.
#[derive(Debug)]
pub struct IntervalFigures {
    pub(crate) answer: UnitAnswer,
    /// Points of time and latency since the previous figures, if requested.
    pub(crate) points: Points,
    /// The start and the end of the interval by the wall clock, in nanoseconds since the epoch; 0 if a recording does
    /// not relate its clock to the wall clock.
    pub(crate) wall: (u64, u64),
    /// The same by the session's clock.
    pub(crate) clock: (u64, u64),
}

/// A unit and the settings of its run.
#[derive(Debug)]
pub struct UnitRun {
    pub(crate) unit: FilteredUnit,
    pub(crate) symbols: SymbolOptions,
    pub(crate) interval: Option<Duration>,
    pub(crate) duration: Option<Duration>,
    pub(crate) points: bool,
    pub(crate) own_pid: Option<i32>,
}

/// The reason why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The unit could not be started.
    #[error("{0}")]
    Unit(String),
    /// The end was requested while figures were prepared, with this exit code.
    #[error("ended before the report was complete")]
    GivenUp(u8),
    /// The receiver of the figures failed, for example because its output is closed.
    #[error(transparent)]
    Each(#[from] anyhow::Error),
}

/// Runs a unit until the source ends, the end is requested ([`SymbolOptions::ends`]) or `each` ends it. Returns notes
/// for the user.
pub fn run(
    source: &mut dyn Source,
    run: UnitRun,
    each: &mut dyn FnMut(IntervalFigures) -> anyhow::Result<ControlFlow<()>>,
) -> Result<Vec<String>, RunError> {
    let info = source.info().clone();
    let live = info.origin == crate::session::Origin::Live;
    let mut ingest = Ingest::new(&info, run.own_pid, IntakeOptions { units_only: true, ..IntakeOptions::default() });
    ingest.complete_chains(run.symbols.clone());
    let core = ingest.core_mut();
    let spec = run.unit.spec;
    core.start_unit(run.unit, info.start).map_err(RunError::Unit)?;
    if run.points {
        core.units.collect_points();
    }
    core.bind_all_units();
    let ends = run.symbols.ends.clone();
    let mut work = HeadlessState {
        ends: ends.clone(),
        resolver: Resolver::new(run.symbols),
        interval: run.interval.map(|interval| interval.as_nanos() as u64),
        duration: run.duration.map(|duration| duration.as_nanos() as u64),
        next: None,
        end: None,
        notes: info.notes,
        each,
        done: None,
    };
    // Reading continues while names are looked up, which takes seconds for a large file.
    read_ahead::beside(source, &ends, |coming| take_all(&coming, &mut ingest, &mut work, (live, spec)))
        .map_err(|why| RunError::Unit(format!("the reader thread cannot be started: {why}")))?
}

/// Processes batches until the source or the work ends. Returns notes for the user.
fn take_all(
    coming: &ReadAhead,
    ingest: &mut Ingest,
    work: &mut HeadlessState<'_>,
    (live, spec): (bool, &Spec),
) -> Result<Vec<String>, RunError> {
    let mut asked = false;
    loop {
        let read = coming.next().transpose()?;
        if let Some(code) = work.ends.given_up() {
            return Err(RunError::GivenUp(code));
        }
        let at_end = matches!(read, Some((_, Progress::End(_))));
        let is_over = at_end || read.is_none();
        if let Some((mut batch, _)) = read {
            work.notes.extend(batch.notes().map(str::to_owned));
            ingest.feed_to(&mut batch, |core, input, time, record| work.take(core, input, time, record));
            while let Some(buffer) = ingest.spare() {
                coming.recycle(buffer);
            }
            let core = ingest.core_mut();
            if !asked {
                // A probe's event is in the first batch.
                asked = true;
                if let Some(unit) = core.units.blocked().first() {
                    let reasons: String = once(take(&mut work.notes)).iter().map(|note| format!("\n{note}")).collect();
                    return Err(RunError::Unit(blocked_text(unit, live, spec) + &reasons));
                }
            }
            if live {
                // Names are looked up while processes still exist.
                name_all(core, &mut work.resolver, &mut work.notes);
                // A unit may run for days.
                core.forget_ended();
                if let Some(until) = batch.complete_until.filter(|until| *until < u64::MAX) {
                    work.cut_until(core, until);
                }
            }
        }
        if let Some(done) = work.done.take() {
            done?;
            return Ok(once(take(&mut work.notes)));
        }
        if is_over {
            // A signal during the preparation of the last figures ends the program.
            work.ends.end_measuring();
            let mut rest = Batch { complete_until: Some(u64::MAX), ..Batch::default() };
            ingest.feed_to(&mut rest, |core, input, time, record| work.take(core, input, time, record));
            let core = ingest.core_mut();
            if live && at_end {
                // All records of the source's end have arrived.
                work.cut_until(core, core.units.now());
            }
            let end = core.units.now();
            if work.done.is_none() {
                work.cut(core, end);
            }
            work.done.take().transpose()?;
            if let Some(code) = work.ends.given_up() {
                return Err(RunError::GivenUp(code));
            }
            work.notes.extend(core.summary.complaints(&core.profile.ledger));
            return Ok(once(take(&mut work.notes)));
        }
    }
}

fn blocked_text(unit: &BlockedUnit, live: bool, spec: &Spec) -> String {
    match (&unit.by, live) {
        (BlockedBy::Unusable(_), _) => unit.to_string(),
        (BlockedBy::Missing(_), true) => format!("{unit}: this cannot be measured here (see perfprof-tui doctor)"),
        (BlockedBy::Missing(_), false) => format!(
            "{unit}, which this recording lacks; record with -e the events that perfprof-tui {} --describe lists",
            spec.name
        ),
    }
}

struct HeadlessState<'a> {
    ends: EndRequests,
    resolver: Resolver,
    interval: Option<u64>,
    duration: Option<u64>,
    next: Option<u64>,
    end: Option<u64>,
    notes: Vec<String>,
    each: &'a mut dyn FnMut(IntervalFigures) -> anyhow::Result<ControlFlow<()>>,
    /// Set when `each` ended the run, or failed.
    done: Option<Result<(), RunError>>,
}

impl HeadlessState<'_> {
    fn take(&mut self, core: &mut IngestState, input: usize, time: u64, record: &[u8]) {
        if self.done.is_none() && self.ends.given_up().is_none() {
            self.cut_until(core, time);
            core.apply(input, time, record);
            if core.units.is_done() {
                self.ends.end_measuring();
                self.cut(core, time);
                self.done.get_or_insert(Ok(()));
            }
        }
    }

    fn cut_until(&mut self, core: &mut IngestState, time: u64) {
        let interval = self.interval.unwrap_or(u64::MAX);
        if time == 0 || core.times.start == 0 || interval == u64::MAX && self.duration.is_none() {
            return;
        }
        let (since, time) = core.units.span(time);
        let since = since.max(core.times.start);
        let end = *self.end.get_or_insert(since.saturating_add(self.duration.unwrap_or(u64::MAX)));
        let mut next = *self.next.get_or_insert(since.saturating_add(interval));
        while time >= next.min(end) && self.done.is_none() {
            // Counters have values only as of their last reading, which is now.
            let at = if core.units.is_read() { time } else { next.min(end) };
            if at >= end {
                self.ends.end_measuring();
            }
            self.cut(core, at);
            if at >= end && self.done.is_none() {
                self.done = Some(Ok(()));
            }
            if at >= next {
                next = next.saturating_add((at - next) / interval * interval + interval);
            }
            if time.saturating_sub(next) > interval.saturating_mul(3600) {
                // Several intervals without records are merged.
                next += (time - next) / interval * interval;
            }
        }
        self.next = Some(next);
    }

    fn cut(&mut self, core: &mut IngestState, end: u64) {
        core.units.end_at(end);
        let (_, end) = core.units.span(end);
        core.pin_data();
        name_all(core, &mut self.resolver, &mut self.notes);
        if let Some(code) = self.ends.given_up() {
            self.done = Some(Err(RunError::GivenUp(code)));
            return;
        }
        let wall_start = core.summary.wall_start(core.times.start);
        let (start, points) = (core.times.start, core.units.take_points());
        let answers = core.unit_answers(None);
        if let Some(mut answer) = answers.into_iter().next() {
            answer.until = end.saturating_sub(start);
            let wall = |at: u64| if wall_start == 0 { 0 } else { wall_start.saturating_add(at) };
            let cut = IntervalFigures {
                points,
                wall: (wall(answer.since), wall(answer.until)),
                clock: (start + answer.since, end),
                answer,
            };
            match (self.each)(cut) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => self.done = Some(Ok(())),
                Err(error) => self.done = Some(Err(error.into())),
            }
        }
        core.units.reset(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::intervals::tests::end_processes;
    use crate::session::{EndReason, Origin};
    use crate::source::Info;
    use crate::units::{self, kit::Settings};

    struct Ended(Info);

    impl Source for Ended {
        fn info(&self) -> &Info {
            &self.0
        }

        fn next(&mut self, _: &mut Batch) -> Result<Progress, SourceError> {
            Ok(Progress::End(EndReason::Complete("all".into())))
        }

        fn stop(&mut self) {}
    }

    #[test]
    fn processes_that_have_ended_are_forgotten() {
        let mut source = Ended(Info::new(Origin::Live));
        let options = IntakeOptions { units_only: true, ..IntakeOptions::default() };
        let mut ingest = Ingest::new(source.info(), None, options);
        let session = &mut ingest.core_mut().session;
        let before = session.memory();
        let after = end_processes(session);
        assert!(after - before > 300_000, "{before} {after}");
        let ends = EndRequests::default();
        let mut work = HeadlessState {
            ends: ends.clone(),
            resolver: Resolver::new(SymbolOptions::default()),
            interval: None,
            duration: None,
            next: None,
            end: None,
            notes: Vec::new(),
            each: &mut |_| Ok(ControlFlow::Continue(())),
            done: None,
        };
        let spec = units::find("files").expect("a unit");
        let taken =
            read_ahead::beside(&mut source, &ends, |coming| take_all(&coming, &mut ingest, &mut work, (true, spec)));
        assert!(taken.is_ok_and(|taken| taken.is_ok()));
        let end = ingest.core().session.memory();
        assert!(end < before + (after - before) / 4, "{before} {after} {end}");
    }

    #[test]
    fn a_request_to_end_at_once_leaves_the_report_out() {
        let spec = units::find("multi-trace").expect("a unit");
        let mut settings = Settings::default();
        settings.set("event", "sched:sched_wakeup");
        settings.set("event", "sched:sched_switch");
        for code in [None, Some(143)] {
            let symbols = SymbolOptions::default();
            code.into_iter().for_each(|code| symbols.ends.give_up(code));
            let unit = units::make(spec, &settings).expect("made");
            let run = UnitRun { unit, symbols, interval: None, duration: None, points: false, own_pid: None };
            let mut each = |_: IntervalFigures| -> anyhow::Result<ControlFlow<()>> { panic!("there are no figures") };
            match super::run(&mut Ended(Info::new(Origin::Recorded)), run, &mut each) {
                Err(RunError::GivenUp(given)) => assert_eq!(Some(given), code),
                // The recording has no events.
                other => assert!(code.is_none() && matches!(other, Err(RunError::Unit(_))), "{other:?}"),
            }
        }
    }
}
