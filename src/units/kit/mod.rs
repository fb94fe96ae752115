//! The kit of analysis units: a description, events that they need, records in, panels out.
//!
//! A unit is one type in one file of [`super`] that implements [`Unit`], with a [`Spec`]. Screens, text, JSON, CSV,
//! help and completion are made from the two; a unit knows no terminal, does not open events and does not look names
//! up.

pub(crate) mod alike;
pub(crate) mod alloc;
pub(crate) mod before;
pub(crate) mod columns;
pub(crate) mod containers;
pub(crate) mod counted;
pub(crate) mod counts;
pub(crate) mod detail;
pub(crate) mod disks;
pub(crate) mod field;
pub(crate) mod grid;
pub(crate) mod histogram;
pub(crate) mod joint;
pub(crate) mod latency;
pub(crate) mod memory;
pub mod moment;
pub mod names;
pub mod points;
pub(crate) mod programs;
pub(crate) mod rowkey;
pub(crate) mod sched;
pub mod scope;
pub(crate) mod select;
pub mod settings;
pub(crate) mod sheet;
pub(crate) mod sleep;
pub(crate) mod target;
pub(crate) mod top_n;
pub(crate) mod waits;
pub(crate) mod wakers;

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

pub(crate) use alike::Alike;
pub(crate) use before::Before;
pub(crate) use containers::ByContainer;
pub(crate) use detail::Detail;
pub(crate) use field::BoundExpr;
pub(crate) use grid::Grid;
pub use histogram::Stats;
pub use joint::Finding;
pub use moment::Moment;
pub use names::ThreadNames;
pub use points::Points;
pub(crate) use programs::Programs;
pub(crate) use rowkey::RowKey;
pub use settings::{Opt, Settings};
pub(crate) use sheet::Sheet;
pub(crate) use target::ThreadChoice;
pub(crate) use top_n::TopN;
pub(crate) use wakers::{Waker, WakerReader, WakerStacks};

/// The records that a unit needs where a target was chosen; [`scope`] gives it those and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Those of the target's threads. Without a target those of all threads but this program's.
    Target,
    /// The same, and without a target those of this program, too: its figures are of CPUs.
    Cpus,
    /// Those of the whole machine, as other threads' records tell of the target's. The unit asks its [`ThreadChoice`]
    /// which figures are the target's.
    Machine,
}

/// A unit's description, of which the command line, the palette and the manual's page are made.
pub struct Spec {
    /// The word that it is asked for by, on command lines and in JSON.
    pub name: &'static str,
    /// The question that it answers, in one line.
    pub about: &'static str,
    /// The words of that question, by which it is found: those that it answers best come first.
    pub words: &'static str,
    /// What to know: how figures are made, what they leave out.
    pub help: &'static str,
    /// A command line that is worth trying.
    pub example: &'static str,
    /// A run without a screen as a terminal shows it: the command line after `$ ` and the first lines of what it
    /// printed, cut at 70 columns; empty where the machine it was written on lacks what it measures.
    pub output: &'static str,
    /// Which of [`settings::OPTIONS`] it takes.
    pub options: &'static [&'static str],
    /// The records that it needs where a target was chosen.
    pub sees: Sees,
    /// What counts of the CPUs that `-C` chooses, where the unit puts records of several CPUs together: a task that
    /// wakes on one may run on another. All CPUs are measured then, as without `-C` and at the same cost: which of two
    /// halves is missing no record of the chosen ones tells, and to leave out what they do not see would leave out what
    /// moved. `None` where the records of a CPU stand for themselves: only the chosen ones are measured.
    pub across: Option<&'static str>,
    /// Seconds of an interval where figures are printed and none is given; `None` for one report at the end.
    pub interval: Option<f64>,
    pub(crate) make: fn(&Settings) -> Result<Box<dyn Unit>, String>,
}

impl Spec {
    /// The words by which it is found.
    pub fn findable(&self) -> Findable<'static> {
        Findable { name: self.name, words: self.words, about: self.about }
    }

    /// What to know of it, with what a choice of CPUs means to it.
    pub fn story(&self) -> String {
        let Some(what) = self.across else { return self.help.to_owned() };
        format!("{} With -C all CPUs are measured, and what counts is {what}.", self.help)
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
    /// As `-e` takes it; of a probe, how its event is called. Other names of a recording's event may follow after
    /// bars; after `~` stands a part of the name.
    pub event: String,
    /// A probe that makes the event, as `probe --add` takes it.
    pub probe: Option<String>,
    /// Whether samples need their call chains.
    pub stack: bool,
    /// What of it is wanted, in the filter language.
    pub filter: Option<String>,
    /// What of it is to be sampled at all, which only the kernel can decide.
    pub capture: Option<String>,
    /// Whether the unit has something to say without it.
    pub optional: bool,
    /// Whether it is only counted, and given to [`Unit::count`].
    pub counted: bool,
    /// How often it is sampled, where not at every hit.
    pub rate: Option<Rate>,
    /// Whether samples say which address was touched, what that cost and where the data came from.
    pub memory: bool,
    /// User registers that samples need, as bits of `sample_regs_user`.
    pub registers: u64,
    /// Whether changes of the kernel's own code are told, too.
    pub text_poke: bool,
    /// The field in which a probe of a function's entry tells the return address.
    pub caller: Option<String>,
}

impl EventRequest {
    /// Every hit of an event.
    pub fn new(event: impl Into<String>) -> Self {
        Self { event: event.into(), ..Self::default() }
    }

    /// The request with call chains.
    pub fn with_stack(self, stack: bool) -> Self {
        Self { stack, ..self }
    }

    /// The request as one that the unit does without if it must.
    pub fn optional(self) -> Self {
        Self { optional: true, ..self }
    }

    /// The request for what matches only.
    pub fn only(self, filter: Option<String>) -> Self {
        Self { filter, ..self }
    }

    /// The request, counted instead of sampled.
    pub fn counted(self) -> Self {
        Self { counted: true, ..self }
    }
}

/// An event that is there for a unit.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Which of [`Unit::event_requests`]; one with a pattern for its name may have several events.
    pub role: usize,
    /// The session's number of it.
    pub number: u16,
    /// Without modifiers.
    pub name: &'a str,
    /// What the fields of a tracepoint are.
    pub format: Option<&'a Arc<Format>>,
    /// The architecture of the machine, as uname says it; empty where that is this one.
    pub arch: &'a str,
}

/// A sample of one of the events that a unit wants.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Which of [`Unit::event_requests`].
    pub role: usize,
    /// As [`Event::number`].
    pub event: u16,
    /// Nanoseconds of the session's clock.
    pub time: u64,
    /// The CPU that took it.
    pub cpu: u32,
    /// The process; -1 where it is not told.
    pub pid: i32,
    /// The thread; for a tracepoint the one that ran, not one that its fields name.
    pub tid: i32,
    /// The address that was executed.
    pub ip: u64,
    /// The address of data that was accessed, where the event tells it; else 0.
    pub addr: u64,
    /// What it stands for: 1 where each hit is sampled.
    pub period: u64,
    /// What the hardware says that it cost, as [`record::Sample::weight`](crate::record::Sample::weight).
    pub weight: u64,
    /// Where the data came from, as [`record::Sample::data_src`](crate::record::Sample::data_src).
    pub data_src: u64,
    /// Whether user code was running, and whether in the guest of a virtual machine.
    pub user: bool,
    /// Whether it was in the guest of a virtual machine.
    pub guest: bool,
    /// The user's registers, where the unit requests some ([`EventRequest::registers`]).
    pub registers: UserState<'a>,
    /// A tracepoint's fields, laid out as [`Event::format`] has them; empty of other events.
    pub raw: &'a [u8],
    /// Its call chain, where the unit wants it.
    pub stack: RetainedStack,
}

impl Sample<'_> {
    /// A record of a thread that came to a CPU, told by no tracepoint.
    pub fn came(cpu: u32, tid: i32, time: u64) -> Self {
        let (role, event) = (usize::MAX, u16::MAX);
        let (ip, addr, period, weight, data_src) = (0, 0, 1, 0, 0);
        let (user, guest, raw, stack) = (false, false, &[][..], RetainedStack::NONE);
        let (pid, registers) = (-1, UserState::default());
        Self {
            role,
            event,
            time,
            cpu,
            pid,
            tid,
            ip,
            addr,
            period,
            weight,
            data_src,
            user,
            guest,
            registers,
            raw,
            stack,
        }
    }
}

/// The count of an event on a CPU between two readings of its counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountedEvents {
    /// Which of [`Unit::event_requests`].
    pub role: usize,
    /// The CPU whose counter was read.
    pub cpu: u32,
    /// The reading before, in nanoseconds of the session's clock.
    pub from: u64,
    /// This reading.
    pub until: u64,
    /// The hits between them, scaled up where the counter was shared.
    pub n: u64,
    /// For how much of the time it was on the hardware.
    pub running_percent: f64,
}

/// Records that were lost between two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// `None` where it is not known.
    pub cpu: Option<u32>,
    /// The last record of the CPU before them, in nanoseconds of the session's clock; 0 where there was none.
    pub from: u64,
    /// The time at which the kernel told of the loss.
    pub until: u64,
    /// How many, of whatever events.
    pub records: u64,
}

/// The state that a unit may look at while records come.
#[derive(Debug)]
pub struct Context<'a> {
    /// The threads, processes and mappings, as of the record.
    pub session: &'a Session,
    /// The names of threads, which the unit may ask for and add to.
    pub names: &'a mut ThreadNames,
    /// The threads of this program, or of the one that recorded, which are nobody's figures.
    pub own: &'a FxHashSet<i32>,
    /// The process and the thread that the record is of, where it says them.
    pub task: Option<(i32, i32)>,
    /// The CPUs that are chosen, where records of all come.
    pub cpus: Option<&'a [u32]>,
    /// Whether points of time and latency are wanted.
    pub points: Option<&'a mut Points>,
    /// What a unit finds by a record, where that is an event of another.
    pub found: Option<&'a mut Vec<Finding>>,
}

impl<'a> Context<'a> {
    /// What there is of any record: all CPUs count, and neither points nor findings are wanted.
    pub fn new(session: &'a Session, names: &'a mut ThreadNames, own: &'a FxHashSet<i32>) -> Self {
        Self { session, names, own, task: None, cpus: None, points: None, found: None }
    }

    /// Whether what is found on a CPU counts: a unit that puts records of several CPUs together asks for it where it
    /// adds to its figures.
    pub(crate) fn counts(&self, cpu: u32) -> bool {
        self.cpus.is_none_or(|cpus| cpus.binary_search(&cpu).is_ok())
    }

    /// Notes that what lies between two events ended at a time and took so long.
    pub(crate) fn point(&mut self, between: [&str; 2], time: u64, ns: u64) {
        if let Some(points) = &mut self.points {
            points.add(between, time, ns);
        }
    }

    /// Tells another unit, where this one serves one, what is found of a thread.
    pub(crate) fn find(&mut self, tid: i32, stack: RetainedStack, text: impl FnOnce() -> String) {
        if let Some(found) = &mut self.found {
            found.push(Finding { tid, stack, text: text() });
        }
    }

    /// The process of a thread, as far as it is known.
    pub(crate) fn process_of(&self, tid: i32) -> Option<i32> {
        let own = self.task.filter(|(pid, of)| *of == tid && *pid > 0);
        own.map(|(pid, _)| pid).or_else(|| self.session.process_of(tid))
    }

    /// Whether a key is of a thread of ours: where what it is computed from names a thread.
    pub(crate) fn is_own_key(&self, expression: &str, key: &RowKey) -> bool {
        key.thread(expression).is_some_and(|tid| self.own.contains(&tid))
    }

    /// The name of a thread now.
    pub fn comm(&mut self, tid: i32) -> Arc<str> {
        self.names.comm(self.session, tid)
    }
}

/// The part of the panels that is looked at on the screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewState {
    /// The row under the cursor of each panel, where one was chosen.
    pub selected: Vec<Option<u64>>,
    /// Rows of a log that are wanted.
    pub rows: usize,
    /// Whether the differences to a baseline are wanted, where a unit has them.
    pub baseline: bool,
}

/// What a unit holds nobody prints for debugging, which would be a tenth of its code.
impl Debug for dyn Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unit").finish_non_exhaustive()
    }
}

/// True if a key that is computed so names a thread.
pub(crate) fn names_thread(expression: &str) -> bool {
    expression.ends_with("tid") || expression.ends_with("pid")
}

/// Has a unit follow the threads that a record tells of: those that it chooses, and those whose spans are open.
pub(crate) fn follow_threads(unit: &mut (impl Unit + ?Sized), record: &Record<'_>, time: u64, cx: &mut Context<'_>) {
    if let Some(chosen) = unit.chosen() {
        chosen.side(record, cx);
    }
    let Some(change) = cx.session.thread_change(record) else { return };
    unit.thread_changed(&change, time, cx);
}

/// A copy of a unit with its figures, with which a reset can be undone.
pub trait CopyUnit {
    /// The copy.
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

/// An analysis unit: takes records in, in order of time, and gives panels out.
pub trait Unit: CopyUnit + Send + Sync {
    /// The events that it needs; a record's role is its place in this list.
    fn event_requests(&self) -> Vec<EventRequest>;

    /// An event is there. An error says why it is of no use.
    fn bind(&mut self, _event: &Event<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Takes a record in; counted events come to [`Unit::count`] instead.
    fn record(&mut self, _hit: &Sample<'_>, _cx: &mut Context<'_>) {}

    /// A counter was read.
    fn count(&mut self, _counted: &CountedEvents) {}

    /// Whether it tells what it finds ([`Context::find`]), rather than that its events stand for themselves, where it
    /// is a source of events for another unit.
    fn has_findings(&self) -> bool {
        false
    }

    /// Whether it must see the whole machine though its description does not say so, because of a unit that it has
    /// among its events.
    fn must_see_all(&self) -> bool {
        false
    }

    /// Whether it puts records of several CPUs together though its description does not say so, because of a unit that
    /// it has among its events.
    fn is_across(&self) -> bool {
        false
    }

    /// Whether it has had as many events as are wanted.
    fn is_done(&self) -> bool {
        false
    }

    /// The threads that it chooses by itself, which are followed when they fork or get another number.
    fn chosen(&mut self) -> Option<&mut ThreadChoice> {
        None
    }

    /// Takes a record of another kind in: names, forks, exits, mappings, loads of BPF programs. A unit that wants some of
    /// them calls [`follow_threads`], as this does.
    fn side(&mut self, record: &Record<'_>, time: u64, cx: &mut Context<'_>) {
        follow_threads(self, record, time, cx);
    }

    /// A thread begins, ends or gets another number: a unit that pairs what threads begin with what they end has its
    /// spans follow.
    fn thread_changed(&mut self, _change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {}

    /// A thread has come to a CPU, by a record of its own (`PERF_RECORD_SWITCH_CPU_WIDE`).
    fn came(&mut self, _cpu: u32, _tid: i32, _time: u64, _cx: &mut Context<'_>) {}

    /// Records were lost: for units that pair or follow what records tell.
    fn lost(&mut self, _lost: &Lost) {}

    /// The effect of losses on the figures, in words.
    fn loss_text(&self) -> &'static str {
        "counts are too low by them"
    }

    /// The reason why nothing was seen, where nothing of what was asked for can have been.
    fn silence(&self) -> Option<&'static str> {
        None
    }

    /// Panels are to be made: the last chance to ask for what no record told.
    fn settle(&mut self, _cx: &mut Context<'_>) {}

    /// The findings by now.
    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel>;

    /// Forgets all figures; what is under way (open periods, allocations) goes on where the interval's figures
    /// need it.
    fn reset(&mut self, now: u64);

    /// Makes the present the baseline that figures are compared with, or forgets it.
    fn baseline(&mut self, _set: bool) -> Result<(), String> {
        Err("this unit has no baseline".to_owned())
    }
}
