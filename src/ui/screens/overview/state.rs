//! The state of the overview: findings and the cursor.

use crate::machine::resources::ResourceHistory;
use crate::machine::triage::normal::NormalFigures;
use crate::machine::triage::{self, Cause, MachineFinding, TriageInput};
use crate::session::Origin;
use crate::ui::state::{ListCursor, Model};

/// The overview.
#[derive(Clone, Debug, Default)]
pub struct OverviewState {
    /// The findings, the worst first.
    pub findings: Vec<MachineFinding>,
    pub(crate) normal: NormalFigures,
    /// The cursor; it rests on the first row.
    pub(crate) list: ListCursor<(Cause, Option<u32>)>,
    /// How often a finding was entered, so that undo returns here.
    pub(crate) entered: u64,
    /// The findings about the present for the same filter as at the last look, which do not flicker.
    pub(crate) before: (Option<String>, Vec<MachineFinding>),
    /// The selected processes whose figures are kept even if others have larger ones.
    pub(crate) followed: Vec<i32>,
    /// Whether the figures of the range are no longer kept, or there are none.
    pub(crate) lacks: Option<Lack>,
}

/// The reason why there are no figures of /proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// The source is not the running machine.
    Recorded,
    /// Two readings are needed.
    Early,
    /// The range is older than the history, or newer.
    Range,
}

impl OverviewState {
    /// Searches for findings in the present, or in the selected range.
    pub(crate) fn look(&mut self, model: &Model) {
        let none = ResourceHistory::default();
        let history = model.context.host.as_deref().map_or(&none, |host| &host.history);
        let answer = &model.context.answer;
        let range = model.clock_range();
        let filter = model.selection.repeatable_filter(&model.context);
        let target = model.context.info.whom.process_ids();
        let target_groups = model.context.info.whom.group_paths();
        let is_unknown = !answer.question.processes && answer.view.processes.is_empty() && target.is_empty();
        // The answer is that of another screen: the processes of the view are not known yet.
        if model.selects_processes()
            && is_unknown
            && range.is_none()
            && filter == self.before.0
            && !self.findings.is_empty()
        {
            return;
        }
        let (before_filter, before) = std::mem::take(&mut self.before);
        let events = answer.events.iter().filter_map(|event| Some((event.meaning.unit, &event.meter.as_ref()?.state)));
        let input = TriageInput {
            // Anomalies of CPUs are known for the present only.
            cpus: if range.is_none() { &model.context.findings } else { &[] },
            processes: &answer.view.processes,
            is_narrowed: model.selects_processes(),
            target,
            target_groups: &target_groups,
            baseline: model.selection.baseline_range().map(|range| model.on_clock(range)),
            own_timer_hz: triage::own_timer_hz(events),
            before: if range.is_none() && filter == before_filter { &before } else { &[] },
            ..TriageInput::new(history, range.unwrap_or_else(|| triage::present(history)))
        };
        self.findings = triage::findings(&input);
        self.normal = NormalFigures::of(&input);
        if range.is_none() {
            self.before = (filter, self.findings.clone());
        }
        self.lacks = match (model.context.info.origin, history.start()) {
            (Origin::Recorded, _) => Some(Lack::Recorded),
            (Origin::Live, None) => Some(Lack::Early),
            (Origin::Live, Some(_)) => history.between(input.range).is_empty().then_some(Lack::Range),
        };
    }

    /// Returns the index of the row under the cursor.
    pub(crate) fn selected(&self) -> usize {
        self.list.id.and_then(|id| self.findings.iter().position(|found| found.id() == id)).unwrap_or(0)
    }

    /// Returns the first visible row.
    pub(crate) fn first(&self, height: usize) -> usize {
        self.list.first(self.selected(), self.findings.len(), height)
    }

    pub(crate) fn under_cursor(&self) -> Option<&MachineFinding> {
        self.findings.get(self.selected())
    }

    pub(crate) fn step(&mut self, by: isize, height: usize) {
        let at = self.selected().saturating_add_signed(by).min(self.findings.len().saturating_sub(1));
        let id = self.findings.get(at).map(MachineFinding::id).filter(|_| at > 0);
        self.list.go(id, at, self.findings.len(), height);
    }
}
