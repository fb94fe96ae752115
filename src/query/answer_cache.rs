//! Answers to successive questions, and what can be reused between them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::event::base_name;
use crate::profile::{Acc, Chunk};

use super::aggregate::changes::{AggregateRole, Changes};
use super::aggregate::filter_eval::FilterEvaluator;
use super::aggregate::shown_total::ShownTotal;
use super::aggregate::{Aggregate, SampleSelection};
use super::annotate;
use super::answer::{MAX_ROWS, ViewAnswer};
use super::data::Data;
use super::diff::compare::{SideRow, TableSide, compare};
use super::diff::{DiffSide, RowDiff};
use super::flame::layout::layout;
use super::flame::{FlameStacks, FlameTree};
use super::heat::{self, Heat, HeatBy, HeatLane, HeatSpec, SiteLanes};
use super::question::{Age, Baseline, Question};
use super::rows::busiest;
use super::rows::kept_rows::KeptRows;
use super::rows::lines::{self, ScreenLines};
use super::rows::partner::Partner;
use super::rows::task_choices::{self, TaskSums};
use super::rows::top::{RowLimit, Top};
use super::tree::origins::Origins;
use super::wall_time::CountedSamples;

/// The limit of processes in an answer.
const MAX_PROCESSES: usize = 300;

/// The aggregates, rows and trees that can be reused for the next answer.
#[derive(Debug, Default)]
pub struct AnswerCache {
    aggregate: Option<Aggregate>,
    tasks: TaskSums,
    rows: KeptRows,
    /// The aggregate of the event that yields instructions per cycle together with the selected one.
    partner: Option<(Partner, Aggregate)>,
    /// The baseline's aggregate, and whether it is of the other profile.
    baseline: Option<(bool, Aggregate)>,
    baseline_rows: KeptRows,
    table: Option<CachedTable>,
    flame: Option<FlameTree>,
    /// Changes when inlined functions are shown or hidden.
    inlines: u64,
    /// The aggregate of the heat map, if it differs from that of the rest.
    heat: Option<Aggregate>,
    lit: Option<FilterEvaluator>,
    /// The rows of the last heat map, with its event and kind.
    lanes: Option<((usize, HeatBy), Vec<HeatLane>)>,
    leaves: SiteLanes,
    shown_total: ShownTotal,
    origins: Origins,
}

#[derive(Debug)]
struct CachedTable {
    top: Top,
    /// The number of rows that are sorted by name, too.
    seen: usize,
    diff: Option<(Top, Vec<(SideRow, RowDiff)>)>,
}

/// The profile to compare with, and the totals of both sides.
struct Compared<'a> {
    baseline: &'a Baseline,
    old: FlameStacks<'a>,
    new: DiffSide,
}

impl AnswerCache {
    /// Drops rows and trees, which are of older samples or of another question.
    pub fn outdated(&mut self) {
        (self.table, self.flame) = (None, None);
    }

    /// Drops all data derived from the profile itself, whose numbers change.
    pub(crate) fn release(&mut self) {
        let Self { baseline, baseline_rows, lanes, .. } = std::mem::take(self);
        self.lanes = lanes;
        if baseline.as_ref().is_some_and(|(other, _)| *other) {
            (self.baseline, self.baseline_rows) = (baseline, baseline_rows);
        }
    }

    /// Drops the data of the other profile, which was replaced.
    pub fn release_other(&mut self) {
        (self.baseline, self.baseline_rows) = (None, KeptRows::default());
        self.outdated();
    }

    pub(crate) fn by_site(&self) -> Cow<'_, [Acc]> {
        self.aggregate.as_ref().map_or(Cow::Borrowed(&[]), Aggregate::by_site)
    }

    /// Removes the samples of an evicted chunk.
    pub(crate) fn forget(&mut self, data: Data<'_>, chunk: &Chunk) {
        self.shown_total.forget(data, chunk);
        let partner = self.partner.iter_mut().map(|(_, aggregate)| aggregate);
        let baseline = self.baseline.iter_mut().filter(|(other, _)| !other).map(|(_, aggregate)| aggregate);
        let own = self.aggregate.iter_mut().chain(&mut self.heat);
        own.chain(partner).chain(baseline).for_each(|aggregate| aggregate.forget(data, chunk));
    }

    /// Answers a question over the samples before the absolute position `until`. `other` is another profile to compare
    /// with, which is used if the question requests it.
    pub fn answer(&mut self, data: Data<'_>, other: Option<Data<'_>>, question: &Question, until: u64) -> ViewAnswer {
        if !question.top.origins {
            return self.answer_of(data, other, question, until);
        }
        let mut origins = std::mem::take(&mut self.origins);
        if origins.update(data) {
            (self.rows, self.baseline_rows, self.table) = (KeptRows::default(), KeptRows::default(), None);
        }
        let answer = self.answer_of(Data { origins: Some(origins.nodes()), ..data }, other, question, until);
        self.origins = origins;
        answer
    }

    fn answer_of(&mut self, data: Data<'_>, other: Option<Data<'_>>, question: &Question, position: u64) -> ViewAnswer {
        let until = position.min(data.profile.end());
        let mut aggregate = self.updated(data, question, until);
        let shown = self.shown_total.of(data, question.counted(), times(data, question, until));
        let changes = aggregate.take_changes();
        self.tasks.update(data, &aggregate, &changes);
        let mut partner = self.updated_partner(data, question, &aggregate, until);
        let of_partner = partner.as_mut().map(|(_, aggregate)| aggregate.take_changes());
        let mut is_changed = !changes.is_empty() || of_partner.as_ref().is_some_and(|changes| !changes.is_empty());
        self.apply(data, question, &changes, partner.as_ref().map(|(partner, _)| *partner), of_partner.as_ref());
        let old = question.baseline.as_ref().and_then(|baseline| {
            let of = if baseline.other { other? } else { data };
            let kept = self.baseline.take().filter(|(other, _)| *other == baseline.other);
            // The other profile is complete; this one may be viewed as of an earlier position.
            let until = if baseline.other { u64::MAX } else { until };
            let mut before = updated_baseline(kept.map(|(_, kept)| kept), data, of, (question, baseline), until);
            let changes = before.take_changes();
            is_changed |= !changes.is_empty();
            self.baseline_rows.apply(of, &changes, AggregateRole::Shown);
            Some((of, baseline, before))
        });
        self.table = self.table.take().filter(|table| !is_changed && table.seen >= seen_rows(question));
        let compared = old.as_ref().map(|(of, baseline, before)| {
            let side = |data: Data<'_>, aggregate: &Aggregate, now: bool| {
                let is_other = baseline.other && !now;
                let covered = data.covered(if is_other { u64::MAX } else { position });
                let seconds = covered.map_or(0.0, |covered| seconds(data, covered, question, baseline, now));
                let meaning = data.meaning(aggregate.selection.of.event);
                DiffSide { total: aggregate.total(), seconds, stands_for: meaning.count, unit: meaning.unit }
            };
            let old = FlameStacks { data: *of, aggregate: before, side: side(*of, before, false) };
            Compared { baseline, old, new: side(data, &aggregate, true) }
        });
        let job = AnswerJob {
            data,
            question,
            aggregate: &aggregate,
            partner: partner.as_ref().map(|(partner, aggregate)| (*partner, aggregate)),
            compared,
        };
        let mut answer = ViewAnswer {
            total: aggregate.total(),
            shown,
            sides: job.compared.as_ref().map(|compared| (compared.old.side, compared.new)),
            tasks: self.tasks.heaviest(data, aggregate.total()),
            ..ViewAnswer::default()
        };
        if question.processes {
            answer.processes = busiest::busiest(data, &aggregate, MAX_PROCESSES);
        }
        if aggregate.total().is_zero() && question.filter.is_some() {
            let of = SampleSelection { of: question.counted(), ..SampleSelection::default() };
            let mut all = Aggregate::of(of, None);
            all.update(data, times(data, question, until));
            answer.others = TaskSums::of(data, &all).heaviest(data, all.total());
        }
        match (&question.heat, &question.flame) {
            (Some(spec), _) => answer.heat = Some(Arc::new(self.heat(data, question, &aggregate, spec, until))),
            (None, Some(spec)) => {
                let tree = self.flame.get_or_insert_with(|| job.flame(&spec.edits));
                let mut flame = layout(tree, spec);
                flame.count_processes(&task_choices::processes(data, &aggregate));
                answer.flame = Some(Arc::new(flame));
            }
            (None, None) => {
                let (rows, before) = (&mut self.rows, &mut self.baseline_rows);
                let table = self.table.get_or_insert_with(|| job.table(rows, before));
                let listed = job.lines(table, rows);
                (answer.lines, answer.callers) = (listed.lines, listed.callers);
                answer.rows = table.diff.as_ref().map_or(table.top.n_rows, |(_, rows)| rows.len());
            }
        }
        let annotated = question.annotate.as_ref().filter(|_| question.heat.is_none());
        answer.hits = annotated.map(|target| Arc::new(annotate::hits(data, &aggregate, target)));
        self.baseline = old.map(|(_, baseline, before)| (baseline.other, before));
        (self.aggregate, self.partner) = (Some(aggregate), partner);
        answer
    }

    /// Applies changes to the rows or the tree of the current view, and drops the other one, which is of older samples.
    fn apply(
        &mut self,
        data: Data<'_>,
        question: &Question,
        changes: &Changes,
        partner: Option<Partner>,
        of_partner: Option<&Changes>,
    ) {
        let inlines = data.profile.frames.inlines();
        let renamed = std::mem::replace(&mut self.inlines, inlines) != inlines;
        let edits = question.flame.as_ref().map(|spec| &spec.edits[..]);
        let with = partner.filter(|_| question.baseline.is_none());
        let serves = |tree: &FlameTree| Some(tree.edits()) == edits && tree.partner() == with && !renamed;
        self.flame = self.flame.take().filter(serves);
        let shows_table = question.flame.is_none() && question.heat.is_none();
        let both = [(Some(changes), AggregateRole::Shown), (of_partner, AggregateRole::Partner)];
        for (changes, of) in both.into_iter().filter_map(|(changes, of)| Some((changes?, of))) {
            match &mut self.flame {
                _ if changes.is_empty() => {}
                Some(tree) if tree.can_apply() && !changes.full_rebuild => tree.apply(data, changes, of),
                _ => self.flame = None,
            }
            if shows_table {
                self.rows.apply(data, changes, of);
            }
        }
        if !shows_table && !changes.is_empty() {
            self.rows = KeptRows::default();
        }
    }

    fn heat(&mut self, data: Data<'_>, question: &Question, shown: &Aggregate, spec: &HeatSpec, until: u64) -> Heat {
        let of = question.counted();
        let own = question.range.is_some() || question.age != Age::All;
        let wanted = SampleSelection { of, filter: question.filter.clone(), ..SampleSelection::default() };
        let kept = self.heat.take().filter(|kept| own && kept.selection == wanted);
        self.heat = own.then(|| kept.unwrap_or_else(|| Aggregate::of(wanted, Some(shown))));
        if let Some(aggregate) = &mut self.heat {
            aggregate.update(data, 0..until);
        }
        let kept = self.lit.take().filter(|evaluator| Some(evaluator.filter()) == spec.lit.as_ref());
        self.lit = spec.lit.clone().map(|filter| kept.unwrap_or_else(|| FilterEvaluator::new(filter)));
        if let Some(evaluator) = &mut self.lit {
            evaluator.follow(data);
        }
        let kind = (of.event, spec.by);
        let before = self.lanes.take().filter(|(what, _)| *what == kind).map(|(_, lanes)| lanes).unwrap_or_default();
        let aggregate = self.heat.as_ref().unwrap_or(shown);
        let input = heat::HeatInput { data, of, aggregate, lit: self.lit.as_ref(), end: until };
        let heat = heat::build(input, spec, &before, &mut self.leaves);
        self.lanes = Some((kind, heat.lanes.clone()));
        heat
    }

    fn updated_partner(
        &mut self,
        data: Data<'_>,
        question: &Question,
        shown: &Aggregate,
        until: u64,
    ) -> Option<(Partner, Aggregate)> {
        let kept = self.partner.take();
        // Fields of a tracepoint exist for no other event, and origins for tracepoints alone.
        let kind =
            question.pair.filter(|_| shown.traced.is_none() && !question.top.origins && question.wall.is_none())?;
        let partner = Partner::of(kind, data.events.iter().map(String::as_str), question.event)?;
        let kept = kept.map(|(_, kept)| kept).filter(|kept| kept.selection == shown.selection_of_event(partner.event));
        let mut own = kept.unwrap_or_else(|| Aggregate::of_event(partner.event, shown));
        own.update(data, since(data, question.age, until)..until);
        Some((partner, own))
    }

    /// Returns the aggregate of a question's samples: the last one with what is new, if it fits.
    fn updated(&mut self, data: Data<'_>, question: &Question, until: u64) -> Aggregate {
        let half_life = match question.age {
            Age::Half(ns) => Some(ns),
            Age::All | Age::Last(_) => None,
        };
        let filter = question.filter.clone();
        let window = window(data, question.range);
        let of = question.counted();
        let wanted = SampleSelection { of, filter, window, half_life, ..SampleSelection::default() };
        let mut aggregate = reused(self.aggregate.take(), wanted.group_by(&question.top.keys));
        aggregate.update(data, since(data, question.age, until)..until);
        aggregate
    }
}

/// Returns an aggregate of a selection: the kept one if it has it, else an empty one.
fn reused(kept: Option<Aggregate>, wanted: SampleSelection) -> Aggregate {
    match kept {
        Some(kept) if kept.selection == wanted => kept,
        kept => Aggregate::of(wanted, kept.as_ref()),
    }
}

/// Returns the absolute position from which on samples are within an age.
fn since(data: Data<'_>, age: Age, until: u64) -> u64 {
    match age {
        Age::Last(ns) => {
            let newest = data.profile.time_before(until);
            data.profile.position_at(newest.saturating_sub(ns).saturating_add(1))
        }
        Age::All | Age::Half(_) => 0,
    }
}

/// Returns the absolute positions of the samples in a question's time range, before its filter.
fn times(data: Data<'_>, question: &Question, until: u64) -> Range<u64> {
    let from = since(data, question.age, until);
    match window(data, question.range) {
        Some(window) => {
            let from = from.max(data.profile.position_at(window.start));
            from..data.profile.position_at(window.end).clamp(from, until.max(from))
        }
        None => from..until,
    }
}

/// Converts a range of the session's time to its clock.
fn window(data: Data<'_>, range: Option<(u64, u64)>) -> Option<Range<u64>> {
    range.map(|(from, until)| data.start.saturating_add(from)..data.start.saturating_add(until))
}

fn updated_baseline(
    kept: Option<Aggregate>,
    data: Data<'_>,
    of: Data<'_>,
    (question, baseline): (&Question, &Baseline),
    until: u64,
) -> Aggregate {
    let event = match baseline.event {
        Some(event) => event,
        None if baseline.other => same_event(data, of, question.event),
        None => question.event,
    };
    let (filter, window) = (baseline.filter.clone(), window(of, baseline.range));
    // The same session has wall time as well; another event is the other part of one graph, and as old.
    let wall = question.wall.filter(|_| baseline.event.is_none() && !baseline.other);
    let from = if baseline.event.is_some() { since(of, question.age, until) } else { 0 };
    let wanted = SampleSelection { of: CountedSamples { event, wall }, filter, window, ..SampleSelection::default() };
    let mut aggregate = reused(kept, wanted.group_by(&question.top.keys));
    aggregate.update(of, from..until);
    aggregate
}

/// Returns the matching event of another profile: of that name, even with other modifiers, else the first with samples.
fn same_event(data: Data<'_>, of: Data<'_>, event: usize) -> usize {
    let name = data.events.get(event).cloned().unwrap_or_default();
    let exact = of.events.iter().position(|other| *other == name);
    let near = || of.events.iter().position(|other| base_name(other) == base_name(&name));
    let sampled = || {
        let (chunk, range) = of.profile.between(of.profile.first(), u64::MAX).next()?;
        chunk.event.get(range.start).map(|event| usize::from(*event))
    };
    exact.or_else(near).or_else(sampled).unwrap_or(0)
}

/// Returns the duration of a side: of its time range, or of its part of the time that samples cover.
fn seconds(data: Data<'_>, (first, last): (u64, u64), question: &Question, baseline: &Baseline, now: bool) -> f64 {
    let split = baseline.split.map(|ns| data.start.saturating_add(ns));
    let (from, until) = match (window(data, if now { question.range } else { baseline.range }), split) {
        (Some(range), _) => (range.start.max(first), range.end.min(last)),
        (None, Some(at)) if now => (at.max(first), last),
        (None, Some(at)) => (first, at.min(last)),
        (None, None) => (first, last),
    };
    let whole = until.saturating_sub(from);
    let ns = match question.age {
        Age::Last(ns) if now && question.range.is_none() => whole.min(ns),
        _ => whole,
    };
    ns as f64 / 1e9
}

/// Returns how many of a question's rows can be seen before the next question, with room to scroll.
fn seen_rows(question: &Question) -> usize {
    /// More than a screen, and than the rows that keep their places.
    const MARGIN: usize = 600;
    question.first_line.saturating_add(2 * question.height).saturating_add(MARGIN).min(MAX_ROWS)
}

struct AnswerJob<'a> {
    data: Data<'a>,
    question: &'a Question,
    aggregate: &'a Aggregate,
    partner: Option<(Partner, &'a Aggregate)>,
    compared: Option<Compared<'a>>,
}

impl AnswerJob<'_> {
    fn flame(&self, edits: &[super::flame::Edit]) -> FlameTree {
        match &self.compared {
            None => FlameTree::build(self.data, self.aggregate, self.partner, edits),
            Some(Compared { baseline, old, new }) => {
                let new = FlameStacks { data: self.data, aggregate: self.aggregate, side: *new };
                FlameTree::compare(new, *old, baseline.per, edits)
            }
        }
    }

    fn table(&self, rows: &mut KeptRows, before: &mut KeptRows) -> CachedTable {
        let Some(Compared { baseline, old, new }) = &self.compared else {
            let seen = seen_rows(self.question);
            let first = RowLimit::Screen { rows: MAX_ROWS, seen };
            let top = rows.top(self.data, self.aggregate, self.partner, &self.question.top, first);
            return CachedTable { top, seen, diff: None };
        };
        let mut spec = self.question.top.clone();
        if baseline.other {
            // Another run has other processes.
            spec.keys.retain(|key| !key.entry().of_this_run);
        }
        let all = RowLimit::All { sorted: MAX_ROWS };
        let top = rows.top(self.data, self.aggregate, self.partner, &spec, all);
        // Rows are matched by their keys; rows that have disappeared keep their order.
        let then = before.top(old.data, old.aggregate, None, &spec, all);
        let new = TableSide { data: self.data, top: &top, side: *new };
        let rows = compare(new, TableSide { data: old.data, top: &then, side: old.side }, &spec, baseline.per);
        CachedTable { top, seen: MAX_ROWS, diff: Some((then, rows)) }
    }

    fn lines(&self, table: &CachedTable, rows: &mut KeptRows) -> ScreenLines {
        let kept = (rows, self.aggregate);
        match (&table.diff, &self.compared) {
            (Some((top, rows)), Some(Compared { old, .. })) => {
                let old = TableSide { data: old.data, top, side: old.side };
                lines::compared(self.data, &table.top, old, rows, self.question, kept)
            }
            _ => lines::lines(self.data, &table.top, self.question, kept),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::diff::NormalizeBy;
    use crate::query::staged::Staged;

    const SECOND: u64 = 1_000_000_000;

    /// Returns the durations of the past before 4 s and of the time since then, seen from a position.
    fn durations(staged: &Staged, measured: Option<(u64, u64)>, position: u64) -> (f64, f64) {
        let baseline = Baseline {
            event: None,
            filter: None,
            other: false,
            per: NormalizeBy::Second,
            split: Some(4 * SECOND),
            range: None,
        };
        let question = Question { baseline: Some(baseline), ..Question::default() };
        let data = Data { measured, ..staged.data() };
        let answer = AnswerCache::default().answer(data, None, &question, position);
        let (old, new) = answer.sides.expect("compared");
        (old.seconds, new.seconds)
    }

    /// A target that idles has no samples.
    #[test]
    fn a_side_lasts_as_long_as_it_was_measured() {
        let mut staged = Staged::default();
        for time in [2, 3, 5, 6] {
            staged.sample(time * SECOND, 7, &["main"], 1);
        }
        let measured = Some((SECOND, 10 * SECOND));
        assert_eq!(durations(&staged, None, u64::MAX), (2.0, 2.0));
        assert_eq!(durations(&staged, measured, u64::MAX), (3.0, 6.0));
        assert_eq!(durations(&staged, measured, 3), (3.0, 1.0), "frozen after the third sample");
        staged.profile.ledger.evicted = 1;
        assert_eq!(durations(&staged, measured, u64::MAX), (2.0, 6.0));
    }
}
