//! The state of the unit screen: selected unit and panel, and the views of the panels.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::engine::UnitAnswer;
use crate::panel::row_order::arrange_by_key;
use crate::panel::{Body, Panel};
use crate::ui::screens::units::panel_view::{PanelView, cursor, visible};
use crate::units::kit::ViewState;

#[derive(Clone, Debug, Default)]
pub(crate) struct UnitView {
    pub(crate) panel: usize,
    pub(crate) panels: Vec<PanelView>,
    pub(crate) baseline: bool,
}

/// Sorting, filter and zoom of panels, by unit and panel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Arrangement(Vec<(u64, usize, Arranged)>);

type Arranged = (Option<(usize, bool)>, Option<String>, Vec<Arc<str>>);

/// The unit screen.
#[derive(Clone, Debug, Default)]
pub struct UnitsState {
    pub(crate) answers: Arc<Vec<UnitAnswer>>,
    pub(crate) current: Option<u64>,
    /// A unit was requested and has not answered yet.
    pub(crate) pending: bool,
    /// Units started during the session, as typed.
    pub(crate) added: Vec<String>,
    /// Ended units by id, which undo restores.
    pub(crate) ended: BTreeMap<u64, &'static str>,
    /// Number of resets that were not undone.
    pub(crate) resets: u64,
    views: HashMap<u64, UnitView>,
    /// The last view state sent to the engine.
    pub(crate) sent: Option<(u64, ViewState)>,
}

impl UnitsState {
    /// Applies new figures; `height` is the number of visible rows of a panel.
    pub(crate) fn set(&mut self, answers: Arc<Vec<UnitAnswer>>, height: usize) {
        let fresh = answers.iter().map(|answer| answer.id).filter(|id| !self.views.contains_key(id)).max();
        let has = |id: u64| answers.iter().any(|answer| answer.id == id);
        self.current = fresh.or(self.current.filter(|id| has(*id))).or(answers.first().map(|answer| answer.id));
        let keep: HashSet<u64> = answers.iter().map(|answer| answer.id).collect();
        self.views.retain(|id, _| keep.contains(id));
        for answer in answers.iter() {
            let view = self.views.entry(answer.id).or_default();
            if view.panels.len() < answer.panels.len() {
                view.panels.resize(answer.panels.len(), PanelView::default());
            }
            let before = self.answers.iter().find(|before| before.id == answer.id).map_or(&[][..], |b| &b.panels);
            for (i, (panel, view)) in answer.panels.iter().zip(&mut view.panels).enumerate() {
                view.follow(before.get(i).unwrap_or(panel), panel, height);
            }
        }
        self.answers = answers;
    }

    pub(crate) fn unit(&self) -> Option<&UnitAnswer> {
        self.answers.iter().find(|answer| Some(answer.id) == self.current)
    }

    pub(crate) fn view(&self) -> Option<&UnitView> {
        self.views.get(&self.current?)
    }

    pub(crate) fn view_mut(&mut self) -> Option<&mut UnitView> {
        self.views.get_mut(&self.current?)
    }

    pub(crate) fn panel(&self) -> Option<(&Panel, &PanelView)> {
        let view = self.view()?;
        let panel = self.unit()?.panels.get(view.panel)?;
        Some((panel, view.panels.get(view.panel)?))
    }

    pub(crate) fn panel_view_mut(&mut self) -> Option<&mut PanelView> {
        let view = self.view_mut()?;
        view.panels.get_mut(view.panel)
    }

    pub(crate) fn arrangement(&self) -> Arrangement {
        let one = |panel: &PanelView| -> Arranged {
            let filter = panel.filter.as_ref().map(|filter| filter.as_str().to_owned());
            (panel.order, filter, panel.flame.place.zoom.clone())
        };
        let panels = self.views.iter().flat_map(|(id, view)| (0..).zip(&view.panels).map(|(at, p)| (*id, at, one(p))));
        let mut list: Vec<_> = panels.filter(|(_, _, arranged)| *arranged != Arranged::default()).collect();
        arrange_by_key(&mut list, |(id, at, _)| (*id, *at));
        Arrangement(list)
    }

    pub(crate) fn arrange(&mut self, as_before: &Arrangement) {
        for (id, view) in &mut self.views {
            for (at, panel) in view.panels.iter_mut().enumerate() {
                let then = as_before.0.iter().find(|(unit, place, _)| (unit, place) == (id, &at));
                let (order, filter, zoom) = then.map(|(_, _, arranged)| arranged.clone()).unwrap_or_default();
                panel.order = order;
                panel.filter = filter.and_then(|text| crate::query::search::pattern(&text).ok());
                panel.flame.place.zoom = zoom;
            }
        }
    }

    pub(crate) fn step_panel(&mut self, by: isize) {
        let n = self.unit().map_or(0, |unit| unit.panels.len()) as isize;
        if let Some(view) = self.view_mut().filter(|_| n > 0) {
            view.panel = (view.panel as isize + by).rem_euclid(n) as usize;
        }
    }

    pub(crate) fn step_unit(&mut self, by: isize) {
        let n = self.answers.len() as isize;
        let at = self.answers.iter().position(|answer| Some(answer.id) == self.current).unwrap_or(0) as isize;
        if n > 0 {
            self.current = Some(self.answers[(at + by).rem_euclid(n) as usize].id);
        }
    }

    /// Moves the cursor by some rows. `isize::MIN` goes to the first one, `isize::MAX` to the last.
    pub(crate) fn step_row(&mut self, by: isize, height: usize) {
        let Some((panel, view)) = self.panel() else { return };
        let Some(rows) = panel.rows() else { return };
        let list = visible(&panel.body, rows, view);
        let log = matches!(panel.body, Body::Log(_));
        let last = list.len().saturating_sub(1);
        let at = cursor(&panel.body, rows, view, &list);
        let next = match (at, by) {
            // At its end a log is followed; at its top a table follows its first row.
            (_, isize::MIN) if !log => None,
            (_, isize::MAX) if log => None,
            (None, by) if log && by > 0 => None,
            (None, by) => Some((last + usize::from(log)).saturating_add_signed(by)),
            (Some(at), by) => Some(at.saturating_add_signed(by)),
        };
        let next = next.map(|at| at.min(last)).filter(|_| !list.is_empty());
        let (next, rows) = (next.map(|at| (at, rows.ids[list[at]])), list.len());
        self.choose(next, rows, height);
    }

    /// Fixes the cursor to its current row.
    pub(crate) fn hold_row(&mut self, height: usize) {
        let Some((panel, view)) = self.panel() else { return };
        let Some(rows) = panel.rows() else { return };
        let list = visible(&panel.body, rows, view);
        let at = cursor(&panel.body, rows, view, &list).or(list.len().checked_sub(1));
        let (at, rows) = (at.map(|at| (at, rows.ids[list[at]])), list.len());
        self.choose(at, rows, height);
    }

    /// Expands or collapses the rest of a table. Returns `false` if the cursor is on another row.
    pub(crate) fn turn_rest(&mut self) -> bool {
        let is_rest = |(panel, view): (&Panel, &PanelView)| {
            let rows = panel.rows()?;
            Some(view.list.id == Some(*rows.ids.get(rows.rest?.row)?))
        };
        let on_it = self.panel().and_then(is_rest) == Some(true);
        if let Some(view) = self.panel_view_mut().filter(|_| on_it) {
            view.has_rest_open = !view.has_rest_open;
        }
        on_it
    }

    fn choose(&mut self, row: Option<(usize, u64)>, rows: usize, height: usize) {
        if let Some(view) = self.panel_view_mut() {
            view.list.go(row.map(|(_, id)| id), row.map_or(0, |(at, _)| at), rows, height);
        }
    }
}

/// Splits a text into words like a shell, with quotes.
pub(crate) fn split_shell_words(text: &str) -> Result<Vec<String>, String> {
    shlex::split(text).ok_or_else(|| "a quote is not closed".to_owned())
}

/// Joins words to a text that [`split_shell_words`] or a shell splits again.
pub(crate) fn quoted<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    // No text that can be typed contains NUL, which would end it.
    shlex::Quoter::new().allow_nul(true).join(words).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_and_put_together_again() {
        let list = ["rundelay", "--than", "latency > 4ms", "--comm", "it's", ""].map(str::to_owned).to_vec();
        assert_eq!(split_shell_words(&quoted(list.iter().map(String::as_str))), Ok(list));
        assert!(split_shell_words("a 'b").is_err());
        assert_eq!(quoted(["a.data", "comm == \"it's\""]), "a.data \"comm == \\\"it's\\\"\"");
    }

    proptest::proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn any_words_are_put_together_and_split(list in proptest::collection::vec("[ a'\"\\\\-]{0,6}", 0..5)) {
            proptest::prop_assert_eq!(split_shell_words(&quoted(list.iter().map(String::as_str))), Ok(list));
        }
    }
}
