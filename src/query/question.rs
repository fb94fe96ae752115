//! Questions: what the user wants to see. They are the only messages from the interface to the engine.

use std::sync::Arc;

use hashbrown::HashSet;

use crate::filter::Filter;

use super::annotate::AnnotatedFunction;
pub use super::column::ColumnKey;
use super::diff::NormalizeBy;
use super::flame::layout::FlameSpec;
use super::heat::HeatSpec;
use super::rows::partner::PairKind;
use super::wall_time::{CountedSamples, WallTime};

/// The sort order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Samples in it and its callees.
    Children,
    /// Periods of its own samples.
    SelfTime,
    /// The number of its own samples, regardless of their periods.
    Samples,
    /// The difference to the baseline.
    Delta,
    /// Instructions per cycle.
    Ipc,
    /// Weights of its own samples in the latency profile.
    Latency,
    /// The values of a column.
    By(ColumnKey),
}

/// The shape of a top table.
#[derive(Clone, Debug, PartialEq)]
pub struct TopSpec {
    /// The columns that rows are grouped by.
    pub keys: Vec<ColumnKey>,
    pub(crate) children: bool,
    pub(crate) order: Order,
    pub(crate) reversed: bool,
    /// Whether stacks begin at the first caller outside of scheduling and tracing code.
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

/// The direction of an unfolded row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the function to its callers.
    #[default]
    Callers,
    /// From the function to its callees.
    Callees,
}

/// The base of percentages inside a call chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChainMode {
    /// The shown total.
    #[default]
    Graph,
    /// The parent entry.
    Fractal,
}

/// The baseline that a view is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// The other event of the same session to compare with.
    pub event: Option<usize>,
    /// The filter of its samples.
    pub filter: Option<Arc<Filter>>,
    /// Whether its samples are in the other profile that the engine was given.
    pub other: bool,
    /// The normalization of sides with different durations.
    pub per: NormalizeBy,
    /// The end of a baseline that is the past of the same session, in nanoseconds from the start.
    pub split: Option<u64>,
    /// Only samples of this time range, in nanoseconds from the session's start.
    pub range: Option<(u64, u64)>,
}

/// The weight of samples by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Age {
    /// All equal.
    #[default]
    All,
    /// Only those of the last nanoseconds.
    Last(u64),
    /// The half-life in nanoseconds.
    Half(u64),
}

/// A question; equal questions have equal answers over equal data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Question {
    /// Increases with every change, to distinguish answers.
    pub generation: u64,
    /// The index of the event whose samples are counted.
    pub event: usize,
    /// The time off the CPUs that counts, too.
    pub wall: Option<WallTime>,
    /// The view filter; all samples count without one.
    pub filter: Option<Arc<Filter>>,
    /// Only samples of this time range, in nanoseconds from the start. Heat maps also show the surrounding time.
    pub range: Option<(u64, u64)>,
    /// The baseline; `None` without a comparison.
    pub baseline: Option<Baseline>,
    /// The weight of samples by age.
    pub age: Age,
    /// The table's rows, their order and what they count.
    pub top: TopSpec,
    /// The requested figure of the event and a partner, if the session has both.
    pub pair: Option<PairKind>,
    /// The direction of unfolded call chains.
    pub direction: Direction,
    /// The base of percentages in call chains.
    pub chain_mode: ChainMode,
    /// Whether percentages are of the machine's CPU time rather than of what is shown.
    pub of_machine: bool,
    /// Call chain entries and rows below this percentage are omitted.
    pub limit_percent: f64,
    /// Lines whose fold state differs from its default, by ID.
    pub toggled: HashSet<u64>,
    /// Whether rows are unfolded unless they are in [`Question::toggled`].
    pub expand_all: bool,
    /// The row whose call chains are returned separately, by ID.
    pub callers_of: Option<u64>,
    /// The first visible line: call chains are unfolded around the visible ones.
    pub first_line: usize,
    /// The number of visible lines from [`Question::first_line`] on.
    pub height: usize,
    /// The CPU whose softirq functions are requested.
    pub cpu: Option<u16>,
    /// The flame graph, if it is shown; else the table is returned.
    pub flame: Option<FlameSpec>,
    /// The heat map, if it is shown.
    pub heat: Option<HeatSpec>,
    /// The function whose instructions are shown.
    pub annotate: Option<AnnotatedFunction>,
    /// Whether the processes with the most samples are requested.
    pub processes: bool,
}

impl Question {
    /// Returns the samples that count.
    pub(crate) fn counted(&self) -> CountedSamples {
        CountedSamples { event: self.event, wall: self.wall }
    }

    /// Returns whether the rows are the same. Then only folding and visibility differ.
    pub(crate) fn same_rows(&self, other: &Self) -> bool {
        self.counted() == other.counted()
            && self.filter == other.filter
            && self.range == other.range
            && self.baseline == other.baseline
            && self.age == other.age
            && self.top == other.top
            && self.pair == other.pair
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
            callers_of: Some(3),
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
            Question { wall: Some(WallTime { off_cpu: 1, sample_ns: None }), ..question.clone() },
            Question { filter, ..question.clone() },
            Question { range: Some((1, 2)), ..question.clone() },
            Question { baseline: Some(baseline), ..question.clone() },
            Question { age: Age::Last(5), ..question.clone() },
            Question { top, ..question.clone() },
            Question { pair: Some(PairKind::Ipc), ..question.clone() },
        ] {
            assert!(!question.same_rows(&other) && other.same_rows(&other), "{other:?}");
        }
    }
}
