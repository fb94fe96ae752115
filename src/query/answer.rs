//! Answers, which the engine publishes: immutable, complete in itself, small.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::event::EventState;
use crate::perfdata::EventUnit;
use crate::profile::frames::SymState;
use crate::profile::{Acc, Ledger, Timeline};
use crate::session::{DsoKind, TimeMark};
use crate::symbols::spaces::WalkFigures;

use super::annotate::Hits;
use super::column::{ColumnKey, ColumnValue};
use super::cpus::CpuAnswer;
use super::diff::{RowDiff, Side};
use super::flame::layout::Flame;
use super::heat::Heat;
use super::question::Question;
use super::task_choices::TaskSamples;
use super::top::Group;

/// Rows beyond this are not sent to a screen; the table says how many there are.
pub const MAX_ROWS: usize = 3_000;

/// The fold mark of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Nothing to unfold.
    Leaf,
    /// Something to unfold that is folded.
    Closed,
    /// Unfolded: its entries follow.
    Open,
}

/// One line of the top table: a row, or an entry of a row's unfolded call chain.
#[derive(Clone, Debug)]
pub struct TopLine {
    /// The same for the same line in later answers.
    pub id: u64,
    /// 0 for rows, from 1 on inside call chains.
    pub depth: u16,
    /// The forks on the way from the row to this entry of its call chains, one sign each (`│├`); empty where there is
    /// only one way.
    pub(crate) forks: Arc<str>,
    pub(crate) mark: Mark,
    pub(crate) group: Arc<Group>,
    pub(crate) own: Acc,
    /// Samples in it and in what it calls; of an entry of a call chain those that came this way.
    pub children: Acc,
    /// Percentages as the question wants them shown.
    pub(crate) own_percent: f64,
    pub(crate) children_percent: f64,
    /// The function's name as shown; where rows are told apart by DSOs alone that of one of the DSO's functions; else
    /// empty, as for samples without a frame.
    pub sym: Arc<str>,
    /// The short name of the DSO of [`TopLine::sym`].
    pub dso: Arc<str>,
    pub(crate) dso_path: Arc<str>,
    pub(crate) kind: DsoKind,
    /// What is known of the name.
    pub(crate) state: SymState,
    /// Instructions a cycle, for rows of which enough is known: by what they are ordered by, of their own or with what
    /// they call.
    pub ipc: Option<f64>,
    /// What it was in the baseline, for rows.
    pub versus: Option<RowDiff>,
}

#[cfg(test)]
impl TopLine {
    /// A row without a name and without weight.
    pub(crate) fn staged(id: u64) -> Self {
        Self {
            id,
            depth: 0,
            forks: "".into(),
            mark: Mark::Closed,
            group: Arc::default(),
            own: Acc::default(),
            children: Acc::default(),
            own_percent: 0.0,
            children_percent: 0.0,
            sym: "".into(),
            dso: "".into(),
            dso_path: "".into(),
            kind: DsoKind::File,
            state: SymState::Known,
            ipc: None,
            versus: None,
        }
    }
}

impl TopLine {
    /// The value of a column.
    pub(crate) fn value(&self, key: ColumnKey) -> Option<ColumnValue> {
        match key {
            ColumnKey::Dso => Some(ColumnValue::Text(self.dso.clone())),
            ColumnKey::Sym => Some(ColumnValue::Text(self.sym.clone())),
            key => self.group.get(key).cloned(),
        }
    }

    /// True if this entry of a call chain is one of several ways.
    pub(crate) fn is_fork(&self) -> bool {
        self.forks.ends_with(['├', '└'])
    }
}

/// An event of the session.
#[derive(Clone, Debug, PartialEq)]
pub struct EventInfo {
    /// The name with modifiers; of two that are equal the second one has a number.
    pub name: String,
    /// The unit of its periods and counts.
    pub unit: EventUnit,
    /// Samples that came since the start or the last clearing.
    pub total: Acc,
    /// Samples that the kernel had no room for.
    pub lost: u64,
    /// Why it does not run, or what was done instead.
    pub note: Option<String>,
    /// What the kernel filters it by.
    pub filter: Option<String>,
    /// Its fields that hold words, where it is a tracepoint.
    pub texts: Vec<Arc<str>>,
    /// Whether its samples say how long something took.
    pub has_durations: bool,
    /// How it is measured right now; none of a recording.
    pub meter: Option<Meter>,
}

/// A running event's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Meter {
    /// How it is measured.
    pub state: EventState,
    /// What the kernel counted since the start, sampled or not.
    pub count: u64,
    /// Counts a second, and samples a second.
    pub rate: f64,
    /// Samples a second that came.
    pub sampled: f64,
    /// How much of the time it was counted: less than all when events outnumber the counters.
    pub running_percent: f64,
    /// What its samples cost, in percent of each CPU; estimated.
    pub cost_percent: f64,
    /// Rates of the last seconds, the newest last.
    pub history: VecDeque<f32>,
}

impl Meter {
    /// The figures of an event of which nothing was read yet.
    pub fn new(state: EventState) -> Self {
        let history = VecDeque::new();
        Self { state, count: 0, rate: 0.0, sampled: 0.0, running_percent: 100.0, cost_percent: 0.0, history }
    }
}

/// The cost of sampling, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Our own CPU time of late, in percent of one CPU.
    pub(crate) own_percent: f64,
    /// Estimated cost of taking samples, in percent of each sampled CPU.
    pub(crate) sampling_percent: f64,
}

/// Bytes of the program's own memory that are for one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShare {
    /// The thing, in a word or two.
    pub name: &'static str,
    /// Bytes of it, as their holder counts them.
    pub bytes: usize,
}

/// The program's own memory, by shares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The bound that it is kept to; none of a recording.
    pub bound: Option<usize>,
    /// All that is private.
    pub private: usize,
    /// What of it is told apart.
    pub parts: Vec<MemoryShare>,
}

const BETWEEN_LOOKS: usize = 24 << 20;

impl Memory {
    /// True if it is beyond the bound by more than what may come between two looks at it.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.bound.is_some_and(|bound| self.private > bound + bound / 10 + BETWEEN_LOOKS)
    }

    /// The bytes that nothing tells apart: answers, units, the screen, and what the allocator has in hand.
    pub(crate) fn rest(&self) -> usize {
        self.private.saturating_sub(self.parts.iter().map(|part| part.bytes).sum())
    }
}

/// A DSO whose user stacks are mostly broken: it has no frame pointers.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokenStacks {
    /// The DSO's short name.
    pub dso: Arc<str>,
    /// Of its stacks, how many are.
    pub percent: f64,
}

/// The progress of reading a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes.
    pub(crate) done: u64,
    /// Bytes in all; 0 when nobody knows.
    pub(crate) all: u64,
    /// Nanoseconds since reading began.
    pub(crate) taken_ns: u64,
}

impl Progress {
    /// Nanoseconds that the rest will take at the pace so far.
    pub(crate) fn left_ns(&self) -> Option<u64> {
        let rest = self.all.checked_sub(self.done)?;
        (self.done > 0).then(|| (u128::from(self.taken_ns) * u128::from(rest) / u128::from(self.done)) as u64)
    }
}

/// The part of an answer that depends on the view.
#[derive(Clone, Debug, Default)]
pub struct ViewAnswer {
    /// Samples that pass the filter.
    pub total: Acc,
    /// Samples of the event in the times that are shown, whatever the filter.
    pub shown: Acc,
    /// The table's lines, call chains unfolded where they are in sight; empty while another view is looked at.
    pub lines: Vec<TopLine>,
    /// The call chains of the row that was asked for beside them.
    pub beside: Vec<TopLine>,
    /// The tasks that were sampled most.
    pub tasks: Vec<TaskSamples>,
    /// The tasks of the same time, where no sample passes the filter.
    pub others: Vec<TaskSamples>,
    /// The flame graph, where the question asks for one.
    pub flame: Option<Arc<Flame>>,
    /// The map of time, where the question asks for one.
    pub heat: Option<Arc<Heat>>,
    /// The samples of the function that is annotated.
    pub hits: Option<Arc<Hits>>,
    /// The baseline's side and this one's, when there is one.
    pub sides: Option<(Side, Side)>,
    /// Rows in all, shown or not.
    pub rows: usize,
}

/// A complete answer to a question, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The question that this answers.
    pub question: Arc<Question>,
    /// Nanoseconds from the session's start to its newest sample.
    pub elapsed_ns: u64,
    /// All events of the session by their index, those that were stopped, too.
    pub events: Vec<EventInfo>,
    /// What is looked at.
    pub view: ViewAnswer,
    /// Samples of the event since the start or the last clearing, up to where the view is frozen, whatever filter and
    /// times.
    pub unfiltered: Acc,
    /// Samples of the event that came since the view was frozen.
    pub newer: u64,
    /// What was lost or left out.
    pub ledger: Ledger,
    /// The session's start, in nanoseconds of its clock.
    pub start: u64,
    /// Nanoseconds from the session's start to the oldest sample that is kept.
    pub kept_from: u64,
    /// Samples and losses over the whole session.
    pub timeline: Arc<Timeline>,
    /// Marked moments, their times counted from the session's start.
    pub marks: Arc<[TimeMark]>,
    /// Wall-clock time of the session's start in nanoseconds since 1970; 0 when that is not known.
    pub wall_start: u64,
    /// The cost of sampling and of this program.
    pub cost: Cost,
    /// The memory that this program holds, and for what.
    pub memory: Memory,
    /// The source has ended; why, in words.
    pub ended: Option<String>,
    /// What the user should know, each once.
    pub notes: Vec<String>,
    /// CPUs that are sampled, as a list; empty for "all".
    pub cpus: String,
    /// The command or target in words; empty for the whole machine.
    pub target: String,
    /// The progress of reading a recording, while it is read.
    pub progress: Option<Progress>,
    /// Records that are no samples, by type.
    pub kinds: Vec<(&'static str, u64)>,
    /// Samples by CPU and context, whatever the filter.
    pub by_cpu: Arc<CpuAnswer>,
    /// Frames whose names are still being looked up.
    pub names_pending: usize,
    /// Where the names of each DSO come from, by its path; or why there are none.
    pub sources: Arc<BTreeMap<Arc<str>, String>>,
    /// A DSO that needs DWARF for its call chains.
    pub broken: Option<BrokenStacks>,
    /// How stacks are walked by tables, where they are.
    pub walked: Option<WalkFigures>,
    /// Of the stacks that were copied, how many were longer than the copy, in percent.
    pub cut_percent: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_its_share() {
        let left = |done, all| Progress { done, all, taken_ns: 600 }.left_ns();
        assert_eq!([left(30, 100), left(100, 100), left(0, 100), left(3, 2)], [Some(1400), Some(0), None, None]);
        let long = Progress { done: u64::MAX / 2, all: u64::MAX, taken_ns: u64::MAX / 3 };
        assert_eq!(long.left_ns(), Some(u64::MAX / 3), "no product overflows");
    }
}
