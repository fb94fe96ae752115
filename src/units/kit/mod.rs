//! The framework of analysis units: description, required events, records in, panels out.
//!
//! A unit is a type in one file of [`super`] that implements [`Unit`], with a [`Spec`]. Screens, text, JSON, CSV, help
//! and completion are generated from the two. A unit does not access the terminal, open events or symbolize.

pub(crate) mod alloc;
pub(crate) mod descriptors;
pub(crate) mod field;
pub mod figures;
pub mod filtered;
pub(crate) mod kernel_functions;
pub(crate) mod memory;
pub mod moment;
pub mod names;
pub mod options;
pub(crate) mod prelude;
pub(crate) mod socket_address;
pub(crate) mod tables;
pub(crate) mod waits;

use std::fmt::Debug;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::event::Rate;
use crate::event::format::Format;
use crate::lang::find::Findable;
use crate::panel::Panel;
use crate::profile::RetainedStack;
use crate::record::Record;
use crate::record::open_spans::ThreadChange;
use crate::record::sample::UserState;
use crate::session::Session;
use crate::source::{CallSum, HitSum, OpenCall, Summing};

pub(crate) use field::BoundExpr;
pub use figures::histogram::Stats;
pub use figures::points::Points;
pub(crate) use figures::{grid::Grid, slowest::Slowest, summed::SummedCount, top_n::TopN};
pub use filtered::FilteredUnit;
pub(crate) use kernel_functions::KernelFunctionNames;
pub use moment::{Moment, Variable};
pub use names::ThreadNames;
pub(crate) use options::detail::CaseDetail;
pub use options::inputs::{Finding, UnitInputs};
pub use options::settings::{Opt, Settings};
pub use options::target::ThreadChoice;
pub(crate) use tables::{
    containers::ByContainer, key_names::KeyNames, rowkey::RowKey, sheet::Sheet, stack_labels::StackLabels,
};
pub(crate) use waits::wakers::{TaskWaker, WakerReader, WakerStacks};
pub(crate) use waits::{initially_blocked::InitiallyBlocked, programs::Programs};

/// The records that a unit needs if there is a target; [`FilteredUnit`] passes it only those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Records of the target's threads. Without a target, those of all threads except this program's.
    Target,
    /// Like `Target`, but without a target including this program's threads: the figures are those of CPUs.
    Cpus,
    /// Records of the whole machine, because other threads' records affect the target's figures. The unit asks
    /// [`Context::has`] which figures belong to the target.
    Machine,
}

/// A unit's description, the source of its command line, palette entry and manual page.
pub struct Spec {
    /// The unit's name on command lines and in JSON.
    pub name: &'static str,
    /// The question that it answers, in one line.
    pub about: &'static str,
    /// Search words for the question, the best ones first.
    pub words: &'static str,
    /// How the figures are computed, and what they omit.
    pub help: &'static str,
    /// An example command line.
    pub example: &'static str,
    /// An example run: the command line after `$ `, then the first lines of its output, truncated to 70 columns. Empty
    /// if the machine on which it was written lacks the events.
    pub output: &'static str,
    /// The [`options::settings::OPTIONS`] that it takes.
    pub options: &'static [&'static str],
    /// The records that it needs if there is a target.
    pub sees: Sees,
    /// The figures that `-C` selects, for a unit that relates records of several CPUs.
    ///
    /// A task may wake on one CPU and run on another. Such a unit measures all CPUs, at the same cost as without `-C`,
    /// because the selected CPUs do not see a task move. `None` if the records of each CPU are independent: then only
    /// the selected CPUs are measured.
    pub across: Option<&'static str>,
    /// Default interval of printed figures in seconds; `None` for one report at the end.
    pub interval: Option<f64>,
    /// Creates the unit; may replace the settings by equivalent ones.
    pub(crate) make: fn(&mut Settings) -> Result<Box<dyn Unit>, String>,
}

impl Spec {
    /// Name, search words and description for a search.
    pub fn findable(&self) -> Findable<'static> {
        Findable { name: self.name, words: self.words, about: self.about }
    }

    /// The help text, including the meaning of `-C` for the unit.
    pub fn story(&self) -> String {
        let Some(what) = self.across else { return self.help.to_owned() };
        format!("{} With -C, all CPUs are measured; the figures contain {what}.", self.help)
    }
}

impl Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// An event that a unit needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventRequest {
    /// The event as in `-e`; for a probe, the name of its event. Alternatives of a recording's event names follow after
    /// `|`; a part of the name follows `~`.
    pub event: String,
    /// A probe that creates the event, as in `probe --add`.
    pub probe: Option<String>,
    /// Whether samples include call chains.
    pub stack: bool,
    /// The hits that the unit needs, in the filter language.
    pub filter: Option<String>,
    /// A filter that only the kernel can apply, at the time of a sample.
    pub capture: Option<String>,
    /// Whether the unit works without the event.
    pub optional: bool,
    /// Whether a recording may lack the event: it then has fewer figures. Live measurements require it.
    pub only_live: bool,
    /// Whether the event is only counted and passed to [`Unit::count`].
    pub counted: bool,
    /// How hits may be summed, if the unit takes sums ([`Unit::add_sums`], [`Unit::add_hits`]).
    pub summed: Option<Summing>,
    /// The sampling rate; `None` samples every hit.
    pub rate: Option<Rate>,
    /// Whether samples include the data address, its latency and its data source.
    pub memory: bool,
    /// Required user registers, as bits of `sample_regs_user`.
    pub registers: u64,
    /// Whether changes of kernel code are recorded as well.
    pub text_poke: bool,
    /// The field with the return address in a probe of a function's entry.
    pub caller: Option<String>,
}

impl EventRequest {
    /// Requests every hit of an event.
    pub fn new(event: impl Into<String>) -> Self {
        Self { event: event.into(), ..Self::default() }
    }

    /// Adds call chains.
    pub fn with_stack(self, stack: bool) -> Self {
        Self { stack, ..self }
    }

    /// Marks the event as optional.
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// Marks the event as optional in recordings.
    pub fn only_live(self) -> Self {
        Self { only_live: true, ..self }
    }

    /// Restricts the request to hits that match a filter.
    pub fn only(self, filter: Option<String>) -> Self {
        Self { filter, ..self }
    }

    /// Lets hits be summed in the kernel while there are many ([`Unit::add_hits`]).
    pub fn summed(self) -> Self {
        Self { summed: Some(Summing::Hits), ..self }
    }

    /// Requests counts instead of samples.
    pub fn counted(self) -> Self {
        Self { counted: true, ..self }
    }
}

/// An open event of a unit.
#[derive(Clone, Copy, Debug)]
pub struct UnitEvent<'a> {
    /// Index into [`Unit::event_requests`]. A request with a pattern may have several events.
    pub role: usize,
    /// The session's event number.
    pub number: u16,
    /// The event name without modifiers.
    pub name: &'a str,
    /// The tracepoint's fields.
    pub format: Option<&'a Arc<Format>>,
    /// The machine's architecture as in uname; empty for the local one.
    pub arch: &'a str,
}

/// A sample of one of a unit's events.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnitSample<'a> {
    /// Index into [`Unit::event_requests`].
    pub role: usize,
    /// The session's event number, as in [`UnitEvent::number`].
    pub event: u16,
    /// Nanoseconds of the session's clock.
    pub time: u64,
    /// The CPU that took the sample.
    pub cpu: u32,
    /// The process; -1 if unknown.
    pub pid: i32,
    /// The running thread; a tracepoint's fields may name another one.
    pub tid: i32,
    /// The instruction pointer.
    pub ip: u64,
    /// The address of accessed data; 0 if unknown.
    pub addr: u64,
    /// The sample's period: 1 if each hit is sampled.
    pub period: u64,
    /// The cost reported by the hardware, as in [`record::UnitSample::weight`](crate::record::Sample::weight).
    pub weight: u64,
    /// The data source, as in [`record::UnitSample::data_src`](crate::record::Sample::data_src).
    pub data_src: u64,
    /// Whether user code was running.
    pub user: bool,
    /// Whether the guest of a virtual machine was running.
    pub guest: bool,
    /// The user registers, if requested with [`EventRequest::registers`].
    pub registers: UserState<'a>,
    /// A tracepoint's fields in the layout of [`UnitEvent::format`]; empty for other events.
    pub raw: &'a [u8],
    /// The call chain, if requested.
    pub stack: RetainedStack,
}

impl UnitSample<'_> {
    /// A context switch record without a tracepoint: a thread started to run on a CPU.
    pub fn switch_in(cpu: u32, tid: i32, time: u64) -> Self {
        Self { role: usize::MAX, event: u16::MAX, time, cpu, pid: -1, tid, period: 1, ..Self::default() }
    }
}

/// The count of an event on a CPU between two reads of its counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountedEvents {
    /// Index into [`Unit::event_requests`].
    pub role: usize,
    /// The counter's CPU.
    pub cpu: u32,
    /// Time of the previous read, in nanoseconds of the session's clock.
    pub from: u64,
    /// Time of this read.
    pub until: u64,
    /// The number of hits, scaled if the counter was multiplexed.
    pub n: u64,
    /// The share of the time for which the counter was scheduled.
    pub running_percent: f64,
}

/// System calls that were summed in the kernel between two readings. Single records exist only for other calls.
#[derive(Clone, Debug)]
pub struct SummedCalls<'a> {
    /// Time of the previous reading, in nanoseconds of the session's clock.
    pub from: u64,
    /// Time of this reading.
    pub until: u64,
    /// The sums, by thread and call.
    pub sums: Vec<&'a CallSum>,
    /// The calls under way at the time of the reading.
    pub open: Vec<&'a OpenCall>,
}

/// Hits of an event that were summed in the kernel between two readings, in addition to the recorded ones.
#[derive(Clone, Debug, Default)]
pub struct SummedHits {
    /// Index into [`Unit::event_requests`].
    pub role: usize,
    /// Time of the previous reading, in nanoseconds of the session's clock.
    pub from: u64,
    /// Time of this reading.
    pub until: u64,
    /// The sums, by thread.
    pub sums: Vec<HitSum>,
}

/// Records that were lost between two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostEvents {
    /// The CPU; `None` if unknown.
    pub cpu: Option<u32>,
    /// Time of the CPU's last record before the loss, in nanoseconds of the session's clock; 0 if there is none.
    pub from: u64,
    /// Time at which the kernel reported the loss.
    pub until: u64,
    /// Number of lost records of all events; 0 if nothing was measured in that time.
    pub records: u64,
}

/// The state that a unit can access while it processes records.
#[derive(Debug)]
pub struct Context<'a> {
    /// Threads, processes and mappings at the time of the record.
    pub session: &'a Session,
    /// Thread names, which the unit may read and extend.
    pub names: &'a mut ThreadNames,
    /// Threads of the recording program, which are excluded from the figures.
    pub own: &'a FxHashSet<i32>,
    /// Process and thread of the record, if known.
    pub task: Option<(i32, i32)>,
    /// The threads that the unit's settings select; `None` outside of a unit.
    pub choice: Option<&'a mut ThreadChoice>,
    /// The selected CPUs, if records of all CPUs arrive.
    pub cpus: Option<&'a [u32]>,
    /// Collects points of time and latency, if requested.
    pub points: Option<&'a mut Points>,
    /// Collects the unit's findings, if the record is an event of another unit.
    pub found: Option<&'a mut Vec<Finding>>,
}

impl<'a> Context<'a> {
    /// A context that selects all CPUs and collects neither points nor findings.
    pub fn new(session: &'a Session, names: &'a mut ThreadNames, own: &'a FxHashSet<i32>) -> Self {
        Self { session, names, own, task: None, choice: None, cpus: None, points: None, found: None }
    }

    /// Returns whether figures of a CPU count, for a unit that relates records of several CPUs.
    pub(crate) fn counts(&self, cpu: u32) -> bool {
        self.cpus.is_none_or(|cpus| cpus.binary_search(&cpu).is_ok())
    }

    fn of_choice(&mut self, ask: impl FnOnce(&mut ThreadChoice, &mut Self) -> bool) -> bool {
        let Some(choice) = self.choice.take() else { return false };
        let answer = ask(choice, self);
        self.choice = Some(choice);
        answer
    }

    /// Whether a thread belongs to the target.
    pub(crate) fn has(&mut self, tid: i32) -> bool {
        self.of_choice(|choice, cx| choice.has(tid, cx))
    }

    /// Whether a thread belongs to the target and has a unique id.
    pub(crate) fn follows(&mut self, tid: i32) -> bool {
        tid > 0 && self.has(tid)
    }

    /// Whether a thread is one of this program's that was not named.
    pub(crate) fn is_unasked(&mut self, tid: i32) -> bool {
        self.of_choice(|choice, cx| choice.is_unasked(tid, cx))
    }

    /// Whether the settings select threads.
    pub(crate) fn is_narrow(&self) -> bool {
        self.choice.as_ref().is_some_and(|choice| choice.is_narrow())
    }

    /// Collects a point: the time between two events took `ns` and ended at `time`.
    pub(crate) fn point(&mut self, between: [&str; 2], time: u64, ns: u64) {
        if let Some(points) = &mut self.points {
            points.add(between, time, ns);
        }
    }

    /// Reports a finding about a thread to the unit that this one serves, if any.
    pub(crate) fn find(&mut self, tid: i32, stack: RetainedStack, text: impl FnOnce() -> String) {
        if let Some(found) = &mut self.found {
            found.push(Finding { tid, stack, text: text() });
        }
    }

    pub(crate) fn process_of(&self, tid: i32) -> Option<i32> {
        let own = self.task.filter(|(pid, of)| *of == tid && *pid > 0);
        own.map(|(pid, _)| pid).or_else(|| self.session.process_of(tid))
    }

    /// Whether a key is one of our threads, if its expression names a thread.
    pub(crate) fn is_own_key(&self, expression: &str, key: &RowKey) -> bool {
        key.thread(expression).is_some_and(|tid| self.own.contains(&tid))
    }

    /// Returns the current name of a thread.
    pub fn comm(&mut self, tid: i32) -> Arc<str> {
        self.names.comm(self.session, tid)
    }
}

/// The part of the panels that the screen shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewState {
    /// The selected row of each panel.
    pub selected: Vec<Option<u64>>,
    /// Number of requested rows of a log.
    pub rows: usize,
    /// Whether differences to a baseline are requested.
    pub baseline: bool,
}

/// Omits the unit's state: deriving `Debug` for all of it would cost a tenth of the code.
impl Debug for dyn Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unit").finish_non_exhaustive()
    }
}

pub(crate) fn names_thread(expression: &str) -> bool {
    expression.ends_with("tid") || expression.ends_with("pid")
}

/// Copies a unit with its figures, so that a reset can be undone.
pub trait CopyUnit {
    /// Returns the copy.
    fn copy(&self) -> Box<dyn Unit>;
}

impl<T: Unit + Clone + 'static> CopyUnit for T {
    fn copy(&self) -> Box<dyn Unit> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Unit> {
    fn clone(&self) -> Self {
        (**self).copy()
    }
}

/// An analysis unit: records in order of time in, panels out.
pub trait Unit: CopyUnit + Send + Sync {
    /// Returns the required events; the index in this list is a record's role.
    fn event_requests(&self) -> Vec<EventRequest>;

    /// Binds an open event; the error says why it is unusable.
    fn bind(&mut self, _event: &UnitEvent<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Called when the unit is added, for state that is gone before its first record: a command has not started yet.
    fn look_around(&mut self, _session: &Session) {}

    /// Called when the measurement of the running machine starts, for state that is older than the first record.
    fn begin(&mut self, _cx: &mut Context<'_>) {}

    /// Processes a record; counted events go to [`Unit::count`].
    fn record(&mut self, _hit: &UnitSample<'_>, _cx: &mut Context<'_>) {}

    /// Processes a counter read.
    fn count(&mut self, _counted: &CountedEvents) {}

    /// Processes sums of system calls, if it requested them ([`EventRequest::summed`]).
    fn add_sums(&mut self, _calls: &SummedCalls<'_>, _cx: &mut Context<'_>) {}

    /// Processes sums of hits, if it requested them ([`EventRequest::summed`]). Recorded hits of the same time may come
    /// later.
    fn add_hits(&mut self, _hits: &SummedHits, _cx: &mut Context<'_>) {}

    /// Whether the unit reports findings ([`Context::find`]) when it is a source of events for another unit. Otherwise
    /// its events themselves are the findings.
    fn has_findings(&self) -> bool {
        false
    }

    /// Returns the attributes of events that it evaluates, such as `key`; others are refused.
    fn attributes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether the unit lists events, so that reports of several intervals add up to one log.
    fn is_log(&self) -> bool {
        false
    }

    /// Returns the units among its events. They receive side-band records and losses, and are reset, like the unit.
    fn inputs(&mut self) -> Option<&mut UnitInputs> {
        None
    }

    /// Processes side-band records: names, forks, exits, mappings, BPF programs.
    fn on_sideband(&mut self, _record: &Record<'_>, _time: u64, _cx: &mut Context<'_>) {}

    /// Handles a thread that starts, ends or changes its id: a unit with open spans per thread updates them.
    fn thread_changed(&mut self, _change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {}

    /// Handles a context switch record: a thread starts to run on a CPU (`PERF_RECORD_SWITCH_CPU_WIDE`).
    fn on_switch_in(&mut self, _cpu: u32, _tid: i32, _time: u64, _cx: &mut Context<'_>) {}

    /// Handles lost records, for units that pair or track records.
    fn lost(&mut self, _lost: &LostEvents) {}

    /// Called when the measurement ends, for state that the kernel keeps for the unit. If it continues later,
    /// [`Unit::lost`] reports the time between with 0 records.
    fn stop(&mut self) {}

    /// Describes the effect of losses on the figures.
    fn loss_text(&self) -> &'static str {
        "counts are too low"
    }

    /// Keeps addresses of data, whose variables the panels name ([`Moment::variable`]): `pin` takes a process and an
    /// address. Called after batches of records up to the time `now`, at most once per 100 ms except at the end.
    fn pin_data(&mut self, _now: u64, _pin: &mut dyn FnMut(i32, u64) -> RetainedStack) {}

    /// Called before panels are made: the last chance to query state that no record provided.
    fn settle(&mut self, _cx: &mut Context<'_>) {}

    /// Returns the current results.
    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel>;

    /// Resets all figures. Open spans and allocations stay if later figures need them.
    fn reset(&mut self, now: u64);

    /// Resets all figures and forgets what is open with its stack, because stacks are unwound in another way from now on.
    fn restart(&mut self, now: u64) {
        self.reset(now);
    }

    /// Sets the baseline to the current figures, or removes it.
    fn baseline(&mut self, _set: bool) -> Result<(), String> {
        Err("this unit has no baseline".to_owned())
    }
}
