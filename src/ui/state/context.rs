//! The session as seen by the interface: its state, the latest answers, the machine, and properties of the terminal.

use std::path::PathBuf;
use std::sync::Arc;

use crate::event::catalogue::{CatalogueEvent, EventKind};
use crate::event::{Rate, RunState, base_name};
use crate::filter::{Diagnostic, Filter, KnownFields, TraceField};
use crate::ingest::derived::offcpu::NAME as OFF_CPU;
use crate::ingest::derived::softirq_times::HandlerTimes;
use crate::machine::findings::CpuFinding;
use crate::machine::sampler::HostView;
use crate::machine::table::CpuFacts;
use crate::panel::charset::Charset;
use crate::perfdata::OFF_CPU_TIME;
use crate::query::answer::{EventInfo, Meter, UnnamedRows};
use crate::query::cpus::CpuAnswer;
use crate::query::rows::partner::{PairKind, samples_time};
use crate::query::{Answer, Partner};
use crate::session::Origin;
use crate::source::Info;
use crate::ui::input::keymap::Keymap;
use crate::ui::state::lag::ViewLag;

pub(crate) type SavedFilters = std::collections::BTreeMap<String, String>;

/// The command line that started the program, which a copied command repeats.
#[derive(Clone, Debug)]
pub struct ProgramCall {
    /// Its words without the filters, ranges and commands of the view.
    pub words: Vec<String>,
    /// Whether it lifts the limit of cost.
    pub is_forced: bool,
    /// Whether it requests a real-time priority.
    pub is_realtime: bool,
    /// Whether it has filters of events.
    pub has_filters: bool,
    /// Whether it calls a unit, whose command has no options of the view.
    pub is_of_unit: bool,
    /// The recording that it compares with.
    pub baseline: Option<PathBuf>,
}

impl ProgramCall {
    /// Returns whether `-r` is a remedy for too little CPU time: it is not given, and units do not have it.
    pub(crate) fn may_become_realtime(&self) -> bool {
        !self.is_realtime && !self.is_of_unit
    }
}

impl Default for ProgramCall {
    fn default() -> Self {
        let words = vec!["perfprof-tui".to_owned()];
        Self { words, is_forced: false, is_realtime: false, has_filters: false, is_of_unit: false, baseline: None }
    }
}

/// The state shared by all screens.
#[derive(Debug, Default)]
pub struct SessionContext {
    pub info: Info,
    pub answer: Arc<Answer>,
    /// The answer's rows without names: several parts of each frame depend on them.
    pub(crate) unnamed: Option<UnnamedRows>,
    pub(crate) host: Option<Arc<HostView>>,
    /// The time in softirqs, and whether it is being measured.
    pub(crate) times: Option<Arc<HandlerTimes>>,
    pub tracing: bool,
    /// The tracepoints' own fields, which filters may use.
    pub(crate) fields: Arc<Vec<TraceField>>,
    /// The machine's events, once they are loaded.
    pub(crate) catalogue: Option<Arc<Vec<CatalogueEvent>>>,
    /// CPUs with anomalies, the worst first.
    pub findings: Vec<CpuFinding>,
    pub(crate) behind: ViewLag,
    pub(crate) keymap: Arc<Keymap>,
    pub(crate) themes: Vec<String>,
    pub saved: SavedFilters,
    pub(crate) invocation: ProgramCall,
    /// Whether there are enough colours for two rows of a map in one cell.
    pub fine: bool,
    /// The characters that the terminal supports.
    pub charset: Charset,
    /// Whether the link to the terminal is slow, which limits the frame rate to two per second.
    pub(crate) slow: bool,
    /// Bytes written to the terminal per second, if displayed.
    pub(crate) bytes_a_second: Option<f64>,
}

impl SessionContext {
    /// Returns whether an event gives a figure together with another one.
    pub(crate) fn has_pair(&self, kind: PairKind, event: usize) -> bool {
        Partner::of(kind, self.answer.events.iter().map(|event| event.name.as_str()), event).is_some()
    }

    pub(crate) fn parse(&self, text: &str) -> Result<Filter, Diagnostic> {
        Filter::parse_with(text, KnownFields::These(&self.fields))
    }

    /// Returns the time since the session's start, which advances without new answers.
    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.behind.elapsed(self.info.start).unwrap_or(self.answer.elapsed_ns)
    }

    /// Whether samples of a recording lack timestamps.
    pub(crate) fn is_timeless(&self) -> bool {
        let untold = !self.info.has_times() || self.answer.start == 0 && self.answer.elapsed_ns == 0;
        self.info.origin == Origin::Recorded && self.answer.unfiltered.samples > 0 && untold
    }

    pub(crate) fn facts(&self) -> CpuFacts<'_> {
        CpuFacts {
            host: self.host.as_deref(),
            samples: Some(&*self.answer.by_cpu).filter(|samples| self.says_cpus(samples)),
            times: self.times.as_deref(),
            nice_is_user: true,
        }
    }

    /// Whether samples contain their CPU. Parsed texts have no event attributes that would show it.
    fn says_cpus(&self, samples: &CpuAnswer) -> bool {
        !samples.rows.is_empty() && (self.info.has_cpus() || samples.rows.iter().any(|row| row.cpu > 0))
    }

    pub(crate) fn meter(&self, event: usize) -> Option<&Meter> {
        self.answer.events.get(event)?.meter.as_ref()
    }

    pub(crate) fn findings_of(&self, cpu: u32) -> impl Iterator<Item = &CpuFinding> {
        self.findings.iter().filter(move |f| f.cpu == Some(cpu))
    }

    /// Returns a live session's first event that samples for the screens. Others only count, or sample for units.
    pub(crate) fn sampled_event(&self) -> Option<usize> {
        let is_sampled = |Meter { state, .. }: &Meter| {
            let runs = matches!(state.run, RunState::Running | RunState::Paused);
            runs && !state.for_units && state.rate != Rate::Period(0)
        };
        self.answer.events.iter().position(|event| event.meter.as_ref().is_some_and(is_sampled))
    }

    /// Whether the time off the CPUs should be measured, but cannot be.
    pub(crate) fn lacks_off_cpu_time(&self) -> bool {
        let is_refused = |meter: &Meter| matches!(meter.state.run, RunState::Refused(_));
        let mut own = self.answer.events.iter().filter(|event| event.name == OFF_CPU_TIME);
        own.any(|event| event.meter.as_ref().is_some_and(is_refused))
    }

    /// Returns the event of the time off the CPUs, unless it cannot be measured and has no samples.
    pub(crate) fn off_cpu_event(&self) -> Option<usize> {
        let events = &self.answer.events;
        let find = |name: &str| events.iter().position(|event| event.name == name);
        let has_samples = |event: &usize| !self.lacks_off_cpu_time() || events[*event].total.samples > 0;
        find(OFF_CPU).or_else(|| find(OFF_CPU_TIME).filter(has_samples))
    }

    /// Returns the event that samples the time on the CPUs.
    pub(crate) fn on_cpu_event(&self) -> Option<usize> {
        let events = &self.answer.events;
        let is_time = |at: &usize| events[*at].meaning.unit.is_time() || self.sample_ns(*at).is_some();
        let clock = |event: &EventInfo| samples_time(&event.name) && !event.is_dummy;
        events.iter().position(clock).filter(is_time)
    }

    /// Returns the time between samples of an event whose periods are not time; `None` without a frequency.
    pub(crate) fn sample_ns(&self, event: usize) -> Option<u64> {
        let info = self.answer.events.get(event).filter(|info| !info.meaning.unit.is_time())?;
        let recorded = || self.info.events.get(event).map(|event| Rate::of(&event.attr));
        let rate = info.meter.as_ref().map(|meter| meter.state.rate).or_else(recorded)?;
        1_000_000_000u64.checked_div(rate.hz())
    }

    /// Whether a live session measures no samples for the screens.
    pub(crate) fn samples_nothing(&self) -> bool {
        self.info.origin == Origin::Live && !self.answer.events.is_empty() && self.sampled_event().is_none()
    }

    /// Returns the machine's events; none before they are loaded.
    pub(crate) fn catalogue(&self) -> &[CatalogueEvent] {
        self.catalogue.as_ref().map_or(&[], |list| list)
    }

    pub(crate) fn entry(&self, at: usize) -> Option<&CatalogueEvent> {
        self.catalogue().get(at)
    }

    /// Whether the machine has tracepoints, as far as known.
    pub(crate) fn has_tracepoints(&self) -> bool {
        self.catalogue.is_none() || self.catalogue().iter().any(|entry| entry.sort == EventKind::Tracepoint)
    }

    pub(crate) fn started_events(&self) -> impl Iterator<Item = &EventInfo> {
        self.answer.events.iter().filter(|event| event.meter.is_some()).skip(self.info.events.len())
    }

    pub(crate) fn is_measured(&self, name: &str) -> bool {
        self.answer.events.iter().any(|e| base_name(&e.name) == name)
    }
}
