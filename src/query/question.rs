//! Questions: what the user wants to see, the only thing that goes from the interface to the engine.

use std::sync::Arc;

use hashbrown::HashSet;

use crate::filter::Filter;

use super::annotate::AnnotatedFunction;
pub use super::column::ColumnKey;
use super::diff::NormalizeBy;
use super::flame::layout::FlameSpec;
use super::heat::HeatSpec;

/// The order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Samples in it and in what it calls.
    Children,
    /// Periods of its own samples.
    SelfTime,
    /// The number of its own samples, whatever their periods.
    Samples,
    /// The difference to the baseline.
    Delta,
    /// Instructions a cycle.
    Ipc,
    /// The values of a column.
    By(ColumnKey),
}

/// The shape of a top table.
#[derive(Clone, Debug, PartialEq)]
pub struct TopSpec {
    /// The columns whose values tell rows apart.
    pub keys: Vec<ColumnKey>,
    /// Whether rows count what their functions called, too.
    pub(crate) children: bool,
    pub(crate) order: Order,
    pub(crate) reversed: bool,
    /// Whether stacks begin at the first caller outside the code that schedules and traces.
    pub(crate) origins: bool,
}

impl Default for TopSpec {
    fn default() -> Self {
        Self {
            keys: vec![ColumnKey::Comm, ColumnKey::Dso, ColumnKey::Sym],
            children: true,
            order: Order::SelfTime,
            reversed: false,
            origins: false,
        }
    }
}

/// The direction in which an unfolded row is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the function to those that called it.
    Callers,
    /// From the function to those that it called.
    Callees,
}

/// The whole that percentages inside a call chain are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainMode {
    /// Of everything that is shown.
    Graph,
    /// Of the entry above.
    Fractal,
}

/// The baseline that a view is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// Another event of the same session, when that is what is compared.
    pub event: Option<usize>,
    /// Which samples it is made of.
    pub filter: Option<Arc<Filter>>,
    /// Whether those are of the other profile, which the engine was handed, or of this one.
    pub other: bool,
    /// The divisor by which sides of different length are compared.
    pub per: NormalizeBy,
    /// Nanoseconds from the session's start at which the baseline ends and the present begins, when
    /// it is the past of the same session.
    pub split: Option<u64>,
    /// Only samples of this range of time, in nanoseconds from the session's start.
    pub range: Option<(u64, u64)>,
}

/// The weight of samples by their age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Age {
    /// All the same.
    #[default]
    All,
    /// Those of the last nanoseconds.
    Last(u64),
    /// Half as much after so many nanoseconds.
    Half(u64),
}

/// A question; equal questions have equal answers over equal data.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Rises with every change, so that an answer can be told from an older one.
    pub generation: u64,
    /// The index of the event whose samples are counted.
    pub event: usize,
    /// The view filter; all samples count without one.
    pub filter: Option<Arc<Filter>>,
    /// Only samples of this range of time, in nanoseconds from the session's start; maps of time show what
    /// surrounds it, too.
    pub range: Option<(u64, u64)>,
    /// What rows are compared with; `None` where nothing is compared.
    pub baseline: Option<Baseline>,
    /// The weight that samples have by their age.
    pub age: Age,
    /// The table's rows, their order and what they count.
    pub top: TopSpec,
    /// Whether instructions a cycle are told, where the session has both events.
    pub ipc: bool,
    /// The direction of unfolded call chains.
    pub direction: Direction,
    /// The whole that percentages of call chains are of.
    pub chain_mode: ChainMode,
    /// Entries below this percentage are left out of call chains, and rows below it of the table.
    pub limit_percent: f64,
    /// Lines whose fold state differs from its default, by id.
    pub toggled: HashSet<u64>,
    /// Whether rows are unfolded unless they are in [`Question::toggled`].
    pub expand_all: bool,
    /// The row whose call chains are answered apart from the lines, by id.
    pub beside: Option<u64>,
    /// Lines in sight: call chains are unfolded for these.
    pub first_line: usize,
    /// The number of lines in sight from [`Question::first_line`] on.
    pub height: usize,
    /// The CPU of which is told what is behind its softirqs.
    pub cpu: Option<u16>,
    /// The flame graph, when that is what is looked at; else the table is answered.
    pub flame: Option<FlameSpec>,
    /// The map of time, when that is what is looked at.
    pub heat: Option<HeatSpec>,
    /// The function whose instructions are looked at.
    pub annotate: Option<AnnotatedFunction>,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            generation: 0,
            event: 0,
            filter: None,
            range: None,
            baseline: None,
            age: Age::All,
            top: TopSpec::default(),
            ipc: false,
            direction: Direction::Callers,
            chain_mode: ChainMode::Graph,
            limit_percent: 0.0,
            toggled: HashSet::new(),
            expand_all: false,
            beside: None,
            first_line: 0,
            height: 100,
            cpu: None,
            flame: None,
            heat: None,
            annotate: None,
        }
    }
}

impl Question {
    /// True if the rows themselves are the same, so that only folding and sight differ.
    pub(crate) fn same_rows(&self, other: &Self) -> bool {
        self.event == other.event
            && self.filter == other.filter
            && self.range == other.range
            && self.baseline == other.baseline
            && self.age == other.age
            && self.top == other.top
            && self.ipc == other.ipc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_and_sight_leave_the_rows_as_they_are() {
        let question = Question::default();
        let sight = Question {
            generation: 7,
            direction: Direction::Callees,
            toggled: [3].into_iter().collect(),
            expand_all: true,
            beside: Some(3),
            first_line: 9,
            height: 4,
            ..question.clone()
        };
        assert!(question.same_rows(&sight));
        let filter = Filter::parse("pid == 1").map(Arc::new).ok();
        assert!(filter.is_some());
        let baseline =
            Baseline { event: None, filter: None, other: true, per: NormalizeBy::Total, split: None, range: None };
        let top = TopSpec { children: false, ..TopSpec::default() };
        for other in [
            Question { event: 1, ..question.clone() },
            Question { filter, ..question.clone() },
            Question { range: Some((1, 2)), ..question.clone() },
            Question { baseline: Some(baseline), ..question.clone() },
            Question { age: Age::Last(5), ..question.clone() },
            Question { top, ..question.clone() },
            Question { ipc: true, ..question.clone() },
        ] {
            assert!(!question.same_rows(&other) && other.same_rows(&other), "{other:?}");
        }
    }
}
