//! The framework of analysis units: description, required events, records in, panels out.
//!
//! A unit is a type in one file of [`super`] that implements [`Unit`], with a [`Spec`]. Screens, text, JSON, CSV, help
//! and completion are generated from the two. A unit does not access the terminal, open events or symbolize.

pub(crate) mod alloc;
mod context;
pub(crate) mod descriptors;
mod event_request;
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
mod unit_records;
pub(crate) mod waits;

use std::fmt::Debug;

use crate::lang::find::Findable;
use crate::panel::Panel;
use crate::profile::RetainedStack;
use crate::record::Record;
use crate::record::open_spans::ThreadChange;
use crate::session::{Session, SleepingStack};

pub use context::Context;
pub use event_request::EventRequest;
pub(crate) use field::BoundExpr;
pub use figures::histogram::Stats;
pub use figures::points::Points;
pub(crate) use figures::{grid::Grid, slowest::Slowest, summed::SummedCount, top_n::TopN};
pub use filtered::FilteredUnit;
pub(crate) use kernel_functions::KernelFunctionNames;
pub use moment::{Moment, Variable};
pub use names::{ThreadKey, ThreadNames, ThreadRef};
pub(crate) use options::detail::CaseDetail;
pub use options::inputs::{Finding, UnitInputs};
pub use options::settings::{Opt, Settings};
pub use options::target::ThreadChoice;
pub(crate) use tables::{
    containers::ByContainer, key_names::KeyNames, rowkey::RowKey, sheet::Sheet, stack_labels::StackLabels,
};
pub use unit_records::{CountedEvents, LostEvents, SummedCalls, SummedHits, UnitEvent, UnitSample};
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

    /// Keeps stacks of sleeping threads that the unit has copied; `pin` returns `None` while it cannot unwind a stack
    /// yet. Called like [`Unit::pin_data`].
    fn pin_sleepers(&mut self, _pin: &mut dyn FnMut(&SleepingStack) -> Option<RetainedStack>) {}

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
