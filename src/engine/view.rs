//! Answers to successive questions: caches what can be reused between them, and holds the profile to compare with.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::event::plain;
use crate::profile::{Acc, Chunk};
use crate::query::aggregate::changes::{Changes, FoldOf};
use crate::query::aggregate::filter_eval::FilterEvaluator;
use crate::query::aggregate::shown_total::ShownTotal;
use crate::query::annotate;
use crate::query::answer::{self, ViewAnswer};
use crate::query::diff::compare;
use crate::query::diff::compare::{SideRow, TableSide};
use crate::query::diff::{RowDiff, Side};
use crate::query::flame::layout::{self, FlameSpec};
use crate::query::flame::{FlameStacks, FlameTree};
use crate::query::heat::{self, Heat, HeatBy, HeatSpec, Lane, SiteLanes};
use crate::query::rows::kept_rows::KeptRows;
use crate::query::rows::lines;
use crate::query::rows::lines::ScreenLines;
use crate::query::rows::task_choices;
use crate::query::tree::origins::Origins;
use crate::query::{Age, Aggregate, Baseline, Data, Partner, Question, RowLimit, Top, TopSpec};

use super::offline::Offline;

/// The aggregates, rows and trees that can be reused for the next answer.
#[derive(Debug, Default)]
pub struct View {
    fold: Option<Aggregate>,
    rows: KeptRows,
    /// The aggregate of the event that yields instructions per cycle together with the selected one.
    partner: Option<(Partner, Aggregate)>,
    /// The baseline's aggregate, and whether it is of the other profile.
    then: Option<(bool, Aggregate)>,
    then_rows: KeptRows,
    shown: Option<Shown>,
    flame: Option<FlameTree>,
    /// Changes when inlined functions are shown or hidden.
    inlines: u64,
    /// The aggregate of the heat map, if it differs from that of the rest.
    heat: Option<Aggregate>,
    lit: Option<FilterEvaluator>,
    /// The rows of the last heat map, with its event and kind.
    lanes: Option<((usize, HeatBy), Vec<Lane>)>,
    leaves: SiteLanes,
    seen: ShownTotal,
    origins: Origins,
    other: Option<Box<Offline>>,
}

#[derive(Debug)]
struct Shown {
    top: Top,
    versus: Option<(Top, Vec<(SideRow, RowDiff)>)>,
}

impl View {
    /// Drops rows and trees, which are of older samples or of another question.
    pub fn outdated(&mut self) {
        (self.shown, self.flame) = (None, None);
    }

    /// Drops all data derived from the profile itself, whose numbers change.
    pub(crate) fn release(&mut self) {
        let Self { other, then, then_rows, lanes, .. } = std::mem::take(self);
        *self = Self { other, lanes, ..Self::default() };
        if let Some((true, fold)) = then {
            (self.then, self.then_rows) = (Some((true, fold)), then_rows);
        }
    }

    /// Sets another profile to compare with, which is used when a question requests it.
    pub fn set_other(&mut self, other: Option<Box<Offline>>) {
        self.other = other;
        (self.then, self.then_rows) = (None, KeptRows::default());
        self.outdated();
    }

    pub(crate) fn by_site(&self) -> Cow<'_, [Acc]> {
        self.fold.as_ref().map_or(Cow::Borrowed(&[]), Aggregate::by_site)
    }

    pub(crate) fn forget(&mut self, data: Data<'_>, chunk: &Chunk) {
        self.seen.forget(data, chunk);
        if let Some(fold) = &mut self.fold {
            fold.forget(data, chunk);
        }
        if let Some((_, fold)) = &mut self.partner {
            fold.forget(data, chunk);
        }
        if let Some((false, fold)) = &mut self.then {
            fold.forget(data, chunk);
        }
        if let Some(fold) = &mut self.heat {
            fold.forget(data, chunk);
        }
    }

    /// Answers a question over the samples before the absolute position `until`.
    pub fn answer(&mut self, data: Data<'_>, question: &Question, until: u64) -> ViewAnswer {
        if !question.top.origins {
            return self.answer_of(data, question, until);
        }
        let mut origins = std::mem::take(&mut self.origins);
        if origins.update(data) {
            self.rows = KeptRows::default();
            self.shown = None;
        }
        let answer = self.answer_of(Data { origins: Some(origins.nodes()), ..data }, question, until);
        self.origins = origins;
        answer
    }

    fn answer_of(&mut self, data: Data<'_>, question: &Question, until: u64) -> ViewAnswer {
        let until = until.min(data.profile.end());
        let mut fold = self.bring_up(data, question, until);
        let shown = self.seen.of(data, question.event, times(data, question, until));
        let news = fold.take_news();
        if !news.is_empty() {
            self.shown = None;
        }
        self.partner = self.bring_up_partner(data, question, &fold, until);
        let partner_news = self.partner.as_mut().map(|(_, fold)| fold.take_news());
        if partner_news.as_ref().is_some_and(|news| !news.is_empty()) {
            self.shown = None;
        }
        self.follow(data, question, &news, partner_news.as_ref());
        let other = self.other.take();
        let old = question.baseline.as_ref().and_then(|baseline| {
            let data = match (&other, baseline.other) {
                (Some(other), true) => other.data(),
                (None, true) => return None,
                _ => data,
            };
            Some((data, baseline))
        });
        let then = old.map(|(of, baseline)| {
            let kept = self.then.take().filter(|(other, _)| *other == baseline.other);
            // The other profile is complete; this one may be viewed as of an earlier position.
            let until = if baseline.other { u64::MAX } else { until };
            let mut fold = bring_up_then(kept.map(|(_, fold)| fold), data, of, (question, baseline), until);
            let news = fold.take_news();
            if !news.is_empty() {
                self.shown = None;
            }
            self.then_rows.follow(of, &news, FoldOf::Shown);
            fold
        });
        let sides = then.as_ref().zip(old).map(|(then, (of, baseline))| {
            let new = Side { total: fold.total(), seconds: seconds(data, question, baseline, true) };
            let old = Side { total: then.total(), seconds: seconds(of, question, baseline, false) };
            (old, new)
        });
        let partner = self.partner.take();
        let beside = partner.as_ref().map(|(partner, fold)| (*partner, fold));
        let mut work = AnswerJob { data, question, fold: &fold, partner: beside, old: None };
        if let (Some((of, baseline)), Some(then), Some((side, new))) = (old, &then, sides) {
            work.old = Some(Old { stacks: FlameStacks { data: of, fold: then, side }, new, baseline });
        }
        let tasks = task_choices::heaviest(data, &fold);
        let others = match fold.total().is_zero() && question.filter.is_some() {
            true => {
                let mut all = Aggregate::new(question.event, None);
                all.update(data, times(data, question, until));
                task_choices::heaviest(data, &all)
            }
            false => Vec::new(),
        };
        let mut answer = ViewAnswer { total: fold.total(), shown, sides, tasks, others, ..ViewAnswer::default() };
        match (&question.heat, &question.flame) {
            (Some(spec), _) => answer.heat = Some(Arc::new(self.heat(data, question, &fold, spec, until))),
            (None, Some(spec)) => {
                let tree = self.flame.take().unwrap_or_else(|| work.flame(spec));
                let mut flame = layout::layout(&tree, spec);
                flame.count_processes(&task_choices::processes(data, &fold));
                answer.flame = Some(Arc::new(flame));
                self.flame = Some(tree);
            }
            (None, None) => {
                let shown = self.shown.take().unwrap_or_else(|| work.table(&mut self.rows, &mut self.then_rows));
                let listed = work.lines(&shown, &mut self.rows);
                (answer.lines, answer.beside) = (listed.lines, listed.beside);
                answer.rows = shown.versus.as_ref().map_or(shown.top.n_rows, |(_, rows)| rows.len());
                self.shown = Some(shown);
            }
        }
        let annotated = question.annotate.as_ref().filter(|_| question.heat.is_none());
        answer.hits = annotated.map(|target| Arc::new(annotate::hits(data, &fold, target)));
        self.then = then.zip(old).map(|(then, (_, baseline))| (baseline.other, then));
        (self.fold, self.partner, self.other) = (Some(fold), partner, other);
        answer
    }

    /// Updates the current view, and drops other data of older samples.
    fn follow(&mut self, data: Data<'_>, question: &Question, news: &Changes, partner: Option<&Changes>) {
        let inlines = data.profile.frames.inlines();
        let renamed = std::mem::replace(&mut self.inlines, inlines) != inlines;
        let edits = question.flame.as_ref().map(|spec| &spec.edits[..]);
        let with = self.partner.as_ref().map(|(partner, _)| *partner).filter(|_| question.baseline.is_none());
        let serves = |tree: &FlameTree| Some(tree.edits()) == edits && tree.partner() == with && !renamed;
        self.flame = self.flame.take().filter(serves);
        let folds = [(Some(news), FoldOf::Shown), (partner, FoldOf::Partner)];
        for (news, of) in folds.into_iter().filter_map(|(news, of)| Some((news?, of))) {
            match &mut self.flame {
                _ if news.is_empty() => {}
                Some(tree) if tree.can_follow() && !news.anew => tree.follow(data, news, of),
                _ => self.flame = None,
            }
        }
        if question.flame.is_none() && question.heat.is_none() {
            self.rows.follow(data, news, FoldOf::Shown);
            partner.into_iter().for_each(|news| self.rows.follow(data, news, FoldOf::Partner));
        } else if !news.is_empty() {
            self.rows = KeptRows::default();
        }
    }

    fn heat(&mut self, data: Data<'_>, question: &Question, fold: &Aggregate, spec: &HeatSpec, until: u64) -> Heat {
        let (event, filter) = (question.event, question.filter.as_ref());
        let own = question.range.is_some() || question.age != Age::All;
        let kept = self.heat.take().filter(|f| own && f.serves(event, filter, &[], None));
        self.heat = own.then(|| kept.unwrap_or_else(|| Aggregate::like(fold)));
        if let Some(fold) = &mut self.heat {
            fold.update(data, 0..until);
        }
        let kept = self.lit.take().filter(|judge| Some(judge.filter()) == spec.lit.as_ref());
        self.lit = spec.lit.clone().map(|filter| kept.unwrap_or_else(|| FilterEvaluator::new(filter)));
        if let Some(judge) = &mut self.lit {
            judge.follow(data);
        }
        let of = (event, spec.by);
        let before = self.lanes.take().filter(|(what, _)| *what == of).map(|(_, lanes)| lanes).unwrap_or_default();
        let fold = self.heat.as_ref().unwrap_or(fold);
        let work = heat::HeatInput { data, event, fold, lit: self.lit.as_ref(), end: until };
        let heat = heat::build(work, spec, &before, &mut self.leaves);
        self.lanes = Some((of, heat.lanes.clone()));
        heat
    }

    fn bring_up_partner(
        &mut self,
        data: Data<'_>,
        question: &Question,
        fold: &Aggregate,
        until: u64,
    ) -> Option<(Partner, Aggregate)> {
        let kept = self.partner.take();
        // Fields of a tracepoint exist for no other event, and origins for tracepoints alone.
        let asked = question.ipc && fold.traced().is_none() && !question.top.origins;
        let names = data.events.iter().map(String::as_str);
        let partner = asked.then(|| Partner::of(names, question.event)).flatten()?;
        let kept = kept.map(|(_, kept)| kept).filter(|kept| kept.is_of_event(partner.event, fold));
        let mut own = kept.unwrap_or_else(|| Aggregate::of_event(partner.event, fold));
        own.update(data, since(data, question.age, until)..until);
        Some((partner, own))
    }

    fn bring_up(&mut self, data: Data<'_>, question: &Question, until: u64) -> Aggregate {
        let half = match question.age {
            Age::Half(ns) => Some(ns),
            Age::All | Age::Last(_) => None,
        };
        let keys = &question.top.keys[..];
        let (event, filter, window) = (question.event, question.filter.as_ref(), window(data, question.range));
        let serves = |f: &Aggregate| f.serves(event, filter, keys, half) && f.window() == window.as_ref();
        let kept = self.fold.as_ref().is_some_and(serves);
        let fold = match self.fold.take() {
            Some(fold) if kept => fold,
            // With the same filter, its decisions are reused.
            Some(fold) if fold.has(event, filter) => Aggregate::like(&fold),
            _ => Aggregate::new(event, question.filter.clone()),
        };
        let mut fold = if kept { fold } else { fold.told_apart(keys).decaying(half).within(window) };
        fold.update(data, since(data, question.age, until)..until);
        fold
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

fn bring_up_then(
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
    let keys = &question.top.keys[..];
    let window = window(of, baseline.range);
    let mut fold = kept
        .filter(|f| f.serves(event, baseline.filter.as_ref(), keys, None) && f.window() == window.as_ref())
        .unwrap_or_else(|| Aggregate::new(event, baseline.filter.clone()).told_apart(keys).within(window));
    fold.update(of, 0..until);
    fold
}

/// Returns the matching event of another profile: of that name, even with other modifiers, else the first with samples.
fn same_event(data: Data<'_>, of: Data<'_>, event: usize) -> usize {
    let name = data.events.get(event).cloned().unwrap_or_default();
    let exact = of.events.iter().position(|other| *other == name);
    let near = || of.events.iter().position(|other| plain(other) == plain(&name));
    let sampled = || {
        let (chunk, range) = of.profile.between(of.profile.first(), u64::MAX).next()?;
        chunk.event.get(range.start).map(|event| usize::from(*event))
    };
    exact.or_else(near).or_else(sampled).unwrap_or(0)
}

fn seconds(data: Data<'_>, question: &Question, baseline: &Baseline, now: bool) -> f64 {
    let Some((first, last)) = data.profile.span() else { return 0.0 };
    if let Some((from, until)) = if now { question.range } else { baseline.range } {
        let (from, until) = (data.start.saturating_add(from).max(first), data.start.saturating_add(until).min(last));
        return until.saturating_sub(from) as f64 / 1e9;
    }
    let (from, until) = match baseline.split.map(|ns| data.start.saturating_add(ns)) {
        Some(at) if now => (at.max(first), last),
        Some(at) => (first, at.min(last)),
        None => (first, last),
    };
    let whole = until.saturating_sub(from);
    let ns = match question.age {
        Age::Last(ns) if now => whole.min(ns),
        _ => whole,
    };
    ns as f64 / 1e9
}

struct AnswerJob<'a> {
    data: Data<'a>,
    question: &'a Question,
    fold: &'a Aggregate,
    partner: Option<(Partner, &'a Aggregate)>,
    old: Option<Old<'a>>,
}

struct Old<'a> {
    stacks: FlameStacks<'a>,
    new: Side,
    baseline: &'a Baseline,
}

impl AnswerJob<'_> {
    fn flame(&self, spec: &FlameSpec) -> FlameTree {
        match &self.old {
            None => FlameTree::build(self.data, self.fold, self.partner, &spec.edits),
            Some(old) => {
                let new = FlameStacks { data: self.data, fold: self.fold, side: old.new };
                FlameTree::compare(new, old.stacks, old.baseline.per, &spec.edits)
            }
        }
    }

    fn table(&self, rows: &mut KeptRows, then_rows: &mut KeptRows) -> Shown {
        let Some(old) = &self.old else {
            let first = RowLimit::First(answer::MAX_ROWS);
            let top = rows.top(self.data, self.fold, self.partner, &self.question.top, first);
            return Shown { top, versus: None };
        };
        let mut spec: TopSpec = self.question.top.clone();
        if old.baseline.other {
            // Another run has other processes.
            spec.keys.retain(|key| !key.entry().of_this_run);
        }
        let all = RowLimit::All { sorted: answer::MAX_ROWS };
        let top = rows.top(self.data, self.fold, self.partner, &spec, all);
        // Rows are matched by their keys; rows that have disappeared keep their order.
        let then = then_rows.top(old.stacks.data, old.stacks.fold, None, &spec, all);
        let new = TableSide { data: self.data, top: &top, side: old.new };
        let was = TableSide { data: old.stacks.data, top: &then, side: old.stacks.side };
        let rows = compare::compare(new, was, &spec, old.baseline.per);
        Shown { top, versus: Some((then, rows)) }
    }

    fn lines(&self, shown: &Shown, rows: &mut KeptRows) -> ScreenLines {
        let mut trees = rows.trees(self.fold);
        match (&shown.versus, &self.old) {
            (Some((then, rows)), Some(old)) => {
                let was = TableSide { data: old.stacks.data, top: then, side: old.stacks.side };
                lines::compared(self.data, &shown.top, was, rows, self.question, &mut trees)
            }
            _ => lines::lines(self.data, &shown.top, self.question, &mut trees),
        }
    }
}
