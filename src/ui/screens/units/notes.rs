//! The notes at the bottom of the unit screen: missing and lost data, then the panel's note.

use ratatui::style::Style;

use crate::panel::Cell;
use crate::panel::text::{clean, fit_end, wrap};
use crate::query::search::shown;
use crate::ui::screens::units::state::UnitsState;
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Rows are filtered away.
    Filter,
    /// The unit lacks something.
    Lack,
    Remark,
}

impl Kind {
    fn style(self, theme: &Theme) -> Style {
        match self {
            Self::Filter => theme.found,
            Self::Lack => theme.warning,
            Self::Remark => theme.dim,
        }
    }
}

/// Breaks the notes into lines of a width, the most important first.
pub(crate) fn lines(units: &UnitsState, room: usize) -> (Vec<String>, Kind) {
    let Some(unit) = units.unit() else { return (Vec::new(), Kind::Remark) };
    let panel = units.panel();
    if let Some(filter) = panel.and_then(|(_, view)| view.filter.as_ref()) {
        return (vec![format!("only rows with /{}  ⌫ all of them", shown(filter.as_str()))], Kind::Filter);
    }
    let about = why_empty(units).unwrap_or_default();
    let own: Vec<&str> = [about.as_str()]
        .into_iter()
        .chain(unit.notes.iter().map(String::as_str))
        .chain(panel.map(|(panel, _)| panel.note.as_str()))
        .filter(|note| !note.is_empty())
        .collect();
    let kind = if unit.notes.is_empty() { Kind::Remark } else { Kind::Lack };
    (wrap(&clean(&own.join("; ")), room), kind)
}

/// Draws the notes; the last line is truncated if they need more.
pub(crate) fn draw(units: &UnitsState, on: &mut Canvas<'_>) {
    let room = usize::from(on.area.width.saturating_sub(2));
    let (lines, kind) = lines(units, room);
    let style = kind.style(on.theme);
    let last = usize::from(on.area.height).saturating_sub(1);
    for (y, line) in lines.iter().take(last).enumerate() {
        on.put(1, y as u16, line, style);
    }
    let rest = lines.get(last..).unwrap_or_default().join(" ");
    on.put(1, last as u16, &fit_end(&rest, room), style);
}

/// For an empty panel, returns the row of the first panel that restricts it.
fn why_empty(units: &UnitsState) -> Option<String> {
    units.panel().filter(|(panel, _)| panel.is_empty())?;
    let (unit, view) = (units.unit()?, units.view().filter(|view| view.panel > 0)?);
    let (first, chosen) = (unit.panels.first()?, view.panels.first()?.list.id?);
    let rows = first.rows()?;
    let at = rows.ids.iter().position(|id| *id == chosen)?;
    let name = rows.table.rows[at].iter().find_map(|cell| match cell {
        Cell::Text(text) => Some(clean(text)),
        _ => None,
    })?;
    Some(format!("{name} is selected in {}: g there shows all", clean(&first.title)))
}
