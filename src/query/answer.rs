//! Answers that the engine publishes: immutable, self-contained, small.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::event::EventState;
use crate::perfdata::PeriodMeaning;
use crate::profile::frames::SymState;
use crate::profile::{Acc, Ledger, Timeline};
use crate::record::interpreted::NAME_NOT_READ;
use crate::session::{DsoKind, EndReason, TimeMark};
use crate::symbols::debug_image::NameSource;
use crate::symbols::spaces::WalkFigures;

use super::annotate::Hits;
use super::column::{ColumnKey, ColumnValue};
use super::cpus::CpuAnswer;
use super::cpus::cpu_use::CpuUse;
use super::diff::{DiffSide, RowDiff};
use super::flame::layout::Flame;
use super::heat::Heat;
use super::question::{ChainMode, Question};
use super::rows::busiest::ProcessSamples;
use super::rows::partner::PairFigure;
use super::rows::task_choices::TaskSamples;
use super::rows::top::RowGroup;

/// The limit of rows sent to a screen; the table reports the total.
pub const MAX_ROWS: usize = 3_000;

/// The fold mark of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldMark {
    /// Cannot be unfolded.
    Leaf,
    /// Folded.
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
    /// The forks from the row to this entry of its call chains: a character per level (`│├`); empty without forks.
    pub(crate) forks: Arc<str>,
    pub(crate) mark: FoldMark,
    pub(crate) group: Arc<RowGroup>,
    pub(crate) own: Acc,
    /// Samples in it and its callees; for a call chain entry those along this path.
    pub children: Acc,
    /// Percentages as configured by the question.
    pub(crate) own_percent: f64,
    pub(crate) children_percent: f64,
    /// The function's name as shown.
    /// If rows are grouped only by DSO, one of the DSO's functions; else empty, as for samples without a frame.
    pub sym: Arc<str>,
    /// The short name of the DSO of [`TopLine::sym`].
    pub dso: Arc<str>,
    pub(crate) dso_path: Arc<str>,
    pub(crate) kind: DsoKind,
    pub(crate) state: SymState,
    /// The figure of a row together with the partner event: of its own samples or including callees, by the sort order.
    pub pair: Option<PairFigure>,
    /// The comparison with the baseline, for rows.
    pub diff: Option<RowDiff>,
}

impl UnnamedRows {
    /// Returns the rows without names among these lines; `None` if there are none.
    pub(crate) fn of(lines: &[TopLine]) -> Option<Self> {
        let rows = || (0..).zip(lines).filter(|(_, line)| line.is_unnamed_row());
        let mut paths: HashMap<&str, (f64, usize)> = HashMap::new();
        for (at, line) in rows() {
            paths.entry(&line.dso_path).or_insert((0.0, at)).0 += line.own_percent;
        }
        let (_, (_, most)) = paths.into_iter().max_by(|a, b| a.1.0.total_cmp(&b.1.0).then_with(|| b.0.cmp(a.0)))?;
        Some(Self { percent: rows().map(|(_, line)| line.own_percent).sum(), most })
    }
}

#[cfg(test)]
impl TopLine {
    /// Creates a row without name and weight.
    pub(crate) fn staged(id: u64) -> Self {
        Self {
            id,
            depth: 0,
            forks: "".into(),
            mark: FoldMark::Closed,
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
            pair: None,
            diff: None,
        }
    }
}

impl TopLine {
    pub(crate) fn value(&self, key: ColumnKey) -> Option<ColumnValue> {
        match key {
            ColumnKey::Dso => Some(ColumnValue::Text(self.dso.clone())),
            ColumnKey::Sym => Some(ColumnValue::Text(self.sym.clone())),
            key => self.group.get(key).cloned(),
        }
    }

    /// Returns whether it is a row of a function whose name is unknown.
    pub(crate) fn is_unnamed_row(&self) -> bool {
        let is_not_read = || matches!(self.kind, DsoKind::Interpreted(_)) && &*self.sym == NAME_NOT_READ;
        let is_unknown = || matches!(self.state, SymState::Bounded | SymState::Unknown) && !self.sym.is_empty();
        self.depth == 0 && (is_unknown() || is_not_read())
    }

    pub(crate) fn is_fork(&self) -> bool {
        self.forks.ends_with(['├', '└'])
    }
}

/// An event of the session.
#[derive(Clone, Debug, PartialEq)]
pub struct EventInfo {
    /// The name with modifiers; duplicates are numbered.
    pub name: String,
    /// How its periods and counts are read.
    pub meaning: PeriodMeaning,
    /// Samples since the start or the last clearing.
    pub total: Acc,
    /// Samples that the kernel lost for lack of room.
    pub lost: u64,
    /// Why it does not run, or a fallback that was applied.
    pub note: Option<String>,
    /// The kernel's filter.
    pub filter: Option<String>,
    /// Whether it never samples and only carries other records.
    pub is_dummy: bool,
    /// Its text fields, if it is a tracepoint.
    pub texts: Vec<Arc<str>>,
    /// Its current measurement; `None` for a recording.
    pub meter: Option<Meter>,
}

/// A running event's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Meter {
    /// How it is measured.
    pub state: EventState,
    /// The kernel's count since the start, sampled or not.
    pub count: u64,
    /// Counts per second, and samples per second.
    pub rate: f64,
    /// Samples received per second.
    pub sampled: f64,
    /// The share of the time in which it was counted. It is below 100 % if events outnumber the counters.
    pub running_percent: f64,
    /// The estimated cost of its samples, in percent of each CPU.
    pub cost_percent: f64,
    /// Rates of the last seconds, the newest last.
    pub history: VecDeque<f32>,
}

impl Meter {
    /// Creates the figures of an event without any readings.
    pub fn new(state: EventState) -> Self {
        let history = VecDeque::new();
        Self { state, count: 0, rate: 0.0, sampled: 0.0, running_percent: 100.0, cost_percent: 0.0, history }
    }
}

/// The cost of sampling, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// This program's recent CPU time, in percent of one CPU.
    pub(crate) own_percent: f64,
    /// Estimated cost of taking samples, in percent of each sampled CPU.
    pub(crate) sampling_percent: f64,
}

/// The part of this program's memory used for one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryShare {
    /// The purpose, one or two words.
    pub name: &'static str,
    /// Bytes as counted by the holder.
    pub bytes: usize,
}

/// This program's memory, by purpose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The limit; `None` for a recording.
    pub bound: Option<usize>,
    /// All private memory.
    pub private: usize,
    /// The attributed parts.
    pub parts: Vec<MemoryShare>,
}

const BETWEEN_LOOKS: usize = 24 << 20;

impl Memory {
    /// Returns whether it exceeds the limit. The growth expected between two checks is tolerated.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.bound.is_some_and(|bound| self.private > bound + bound / 10 + BETWEEN_LOOKS)
    }

    /// Returns the unattributed bytes. These are answers, units, the screen, and free memory of the allocator.
    pub(crate) fn rest(&self) -> usize {
        self.private.saturating_sub(self.parts.iter().map(|part| part.bytes).sum())
    }
}

/// A DSO whose user stacks are mostly broken, for lack of frame pointers.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokenStacks {
    /// The DSO's short name.
    pub dso: Arc<str>,
    /// The share of its stacks that are broken.
    pub percent: f64,
}

/// The progress of reading a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadProgress {
    /// Bytes.
    pub(crate) done: u64,
    /// Total bytes; 0 if unknown.
    pub(crate) all: u64,
    /// Nanoseconds since reading began.
    pub(crate) taken_ns: u64,
}

impl ReadProgress {
    /// Returns the estimated remaining nanoseconds at the pace so far.
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
    /// Samples of the event in the shown times, regardless of the filter.
    pub shown: Acc,
    /// The table's lines, with call chains unfolded around the visible ones. Empty while another view is shown.
    pub lines: Vec<TopLine>,
    /// The call chains of the row that was requested separately.
    pub callers: Vec<TopLine>,
    /// The most sampled tasks.
    pub tasks: Vec<TaskSamples>,
    /// The tasks of the same time, if no sample passes the filter.
    pub others: Vec<TaskSamples>,
    /// The flame graph, if requested.
    pub flame: Option<Arc<Flame>>,
    /// The heat map, if requested.
    pub heat: Option<Arc<Heat>>,
    /// The samples of the annotated function.
    pub hits: Option<Arc<Hits>>,
    /// The baseline's side and the current one, if there is a baseline.
    pub sides: Option<(DiffSide, DiffSide)>,
    /// Number of all rows, shown or not.
    pub rows: usize,
    /// The processes with the most samples that pass the filter, if requested.
    pub processes: Vec<ProcessSamples>,
    /// The CPU time of the samples that pass the filter; `None` where they don't tell it.
    pub cpu_use: Option<CpuUse>,
}

/// The rows without names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnnamedRows {
    /// Their own share in percent.
    pub(crate) percent: f64,
    /// The first row of the DSO that most of them are in.
    pub(crate) most: usize,
}

impl ViewAnswer {
    /// Converts a share of what is shown, in percent, to the displayed one.
    pub fn displayed(&self, percent: f64) -> f64 {
        self.cpu_use.map_or(percent, |used| used.displayed(percent))
    }

    /// Returns the percentage that decides the heat colour of a displayed one.
    pub(crate) fn heat(&self, displayed: f64) -> f64 {
        self.cpu_use.map_or(displayed, |used| used.heat(displayed))
    }

    /// Sets the CPU time, and converts the shares of rows and call chains to those of the machine if asked for.
    pub(crate) fn set_cpu_use(&mut self, used: Option<CpuUse>, question: &Question) {
        self.cpu_use = used;
        let Some(used) = used.filter(|used| used.of_machine) else { return };
        for line in self.lines.iter_mut().chain(&mut self.callers) {
            line.own_percent = used.displayed(line.own_percent);
            // Shares of the entry above are not of the machine.
            if line.depth == 0 || question.chain_mode == ChainMode::Graph {
                line.children_percent = used.displayed(line.children_percent);
            }
        }
    }
}

/// A complete answer to a question, at one point in time.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The answered question.
    pub question: Arc<Question>,
    /// Nanoseconds from the session's start to its newest sample.
    pub elapsed_ns: u64,
    /// All events of the session by index, including stopped ones.
    pub events: Vec<EventInfo>,
    /// The view.
    pub view: ViewAnswer,
    /// Samples of the event since the start or the last clearing, up to a freeze; filter and times do not matter.
    pub unfiltered: Acc,
    /// Samples of the event since the view was frozen.
    pub newer: u64,
    /// Lost and omitted data.
    pub ledger: Ledger,
    /// The session's start, in nanoseconds of its clock.
    pub start: u64,
    /// Nanoseconds from the session's start to the oldest stored sample.
    pub kept_from: u64,
    /// Samples and losses over the whole session.
    pub timeline: Arc<Timeline>,
    /// Time marks, relative to the session's start.
    pub marks: Arc<[TimeMark]>,
    /// Wall-clock time of the session's start in nanoseconds since 1970; 0 if unknown.
    pub wall_start: u64,
    /// The cost of sampling and of this program.
    pub cost: Cost,
    /// This program's memory, by purpose.
    pub memory: Memory,
    /// Why the source has ended, if it has.
    pub ended: Option<EndReason>,
    /// Notes for the user, without duplicates.
    pub notes: Vec<String>,
    /// The sampled CPUs as a list; empty for all.
    pub cpus: String,
    /// The command or target as text; empty for the whole machine.
    pub target: String,
    /// The progress of reading a recording, meanwhile.
    pub progress: Option<ReadProgress>,
    /// Records other than samples, by type.
    pub kinds: Vec<(&'static str, u64)>,
    /// Samples by CPU and context, regardless of the filter.
    pub by_cpu: Arc<CpuAnswer>,
    /// Frames whose names are still being resolved.
    pub names_pending: usize,
    /// The source of each DSO's names by its path, or why there are none.
    pub sources: Arc<BTreeMap<Arc<str>, NameSource>>,
    /// A DSO that requires DWARF call chains.
    pub broken: Option<BrokenStacks>,
    /// Statistics of stacks walked with tables, if there are any.
    pub walked: Option<WalkFigures>,
    /// The share of copied stacks that were longer than the copy, in percent.
    pub cut_percent: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_its_share() {
        let left = |done, all| ReadProgress { done, all, taken_ns: 600 }.left_ns();
        assert_eq!([left(30, 100), left(100, 100), left(0, 100), left(3, 2)], [Some(1400), Some(0), None, None]);
        let long = ReadProgress { done: u64::MAX / 2, all: u64::MAX, taken_ns: u64::MAX / 3 };
        assert_eq!(long.left_ns(), Some(u64::MAX / 3), "no product overflows");
    }

    #[test]
    fn shares_of_the_machine_replace_those_of_the_view() {
        let line = |depth| TopLine { depth, own_percent: 40.0, children_percent: 80.0, ..TopLine::staged(1) };
        let used = CpuUse { cpus: 0.5, sampled: 2, modes: [100.0, 0.0, 0.0, 0.0], of_machine: true };
        let shares = |of_machine, chain_mode| {
            let mut view = ViewAnswer { lines: vec![line(0), line(1)], ..ViewAnswer::default() };
            let question = Question { chain_mode, ..Question::default() };
            view.set_cpu_use(Some(CpuUse { of_machine, ..used }), &question);
            view.lines.iter().map(|line| (line.own_percent, line.children_percent)).collect::<Vec<_>>()
        };
        assert_eq!(shares(false, ChainMode::Graph), [(40.0, 80.0), (40.0, 80.0)]);
        assert_eq!(shares(true, ChainMode::Graph), [(10.0, 20.0), (10.0, 20.0)]);
        assert_eq!(shares(true, ChainMode::Fractal), [(10.0, 20.0), (10.0, 80.0)]);
    }

    #[test]
    fn a_function_whose_name_was_not_read_has_no_name() {
        let line = |kind, sym: &str| TopLine { kind, sym: sym.into(), state: SymState::Known, ..TopLine::staged(1) };
        let js = DsoKind::Interpreted(crate::record::interpreted::Language::JavaScript);
        assert!(line(js, NAME_NOT_READ).is_unnamed_row());
        let named = [line(js, "hotCompute (svc.js)"), line(DsoKind::File, NAME_NOT_READ)];
        assert!(named.iter().all(|line| !line.is_unnamed_row()));
    }

    #[test]
    fn rows_without_names_are_summed_and_most_are_in_one_dso() {
        let row = |path: &str, own_percent, state| TopLine {
            sym: "0x1".into(),
            dso_path: path.into(),
            own_percent,
            state,
            ..TopLine::staged(1)
        };
        let lines = [
            row("/known", 50.0, SymState::Known),
            row("/b", 4.0, SymState::Bounded),
            row("/a", 3.0, SymState::Unknown),
            row("/a", 2.0, SymState::Bounded),
        ];
        assert_eq!(UnnamedRows::of(&lines), Some(UnnamedRows { percent: 9.0, most: 2 }));
        assert_eq!(UnnamedRows::of(&lines[..1]), None);
    }
}
