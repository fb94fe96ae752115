//! The layout of the screen, computed from its size alone, so that paging, mouse and drawing agree.

use ratatui::layout::Rect;

use crate::ui::popups::Popup;
use crate::ui::popups::tour;
use crate::ui::state::{Model, Tab};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScreenAreas {
    pub(crate) header: Rect,
    pub(crate) tabs: Rect,
    /// The message; empty without one.
    pub(crate) finding: Rect,
    /// The timeline; empty if hidden.
    pub(crate) timeline: Rect,
    pub(crate) table: Rect,
    /// The call chains of the row under the cursor, next to the table; empty if room is short.
    pub(crate) beside: Rect,
    pub(crate) tour: Rect,
    pub(crate) details: Rect,
    pub(crate) footer: Rect,
}

pub(crate) fn places(model: &Model, area: Rect) -> ScreenAreas {
    let row = |y: u16, height: u16| Rect { x: area.x, y: area.y + y, width: area.width, height };
    let h = area.height;
    let (found, timeline) = (finding_height(model, h), timeline_height(model, h));
    let above = 2 + found + timeline;
    let tour = tour::height(model, area.width, h.saturating_sub(2 + above));
    let (whole, beside) = (row(above, h - 2 - above - tour), beside_width(model, area.width));
    let table = Rect { width: whole.width - beside, ..whole };
    ScreenAreas {
        header: row(0, 1),
        tabs: row(1, 1),
        finding: row(2, found),
        timeline: row(2 + found, timeline),
        table,
        beside: Rect { x: whole.x + table.width, width: beside, ..whole },
        tour: row(h - 2 - tour, tour),
        details: row(h - 2, 1),
        footer: row(h - 1, 1),
    }
}

/// Returns the area of a popup. An annotated function also covers the panel next to the table, which shows another row.
pub(crate) fn popup(model: &Model, places: &ScreenAreas) -> Rect {
    match model.frame.popups.last() {
        Some(Popup::Annotate(_)) => places.table.union(places.beside),
        _ => places.table,
    }
}

/// Returns the parts of the terminal; `None` if it is too small.
pub(crate) fn places_of(model: &Model) -> Option<ScreenAreas> {
    (!model.is_too_small()).then(|| places(model, model.area()))
}

fn finding_height(model: &Model, height: u16) -> u16 {
    u16::from(height >= 10 && model.shown_banner().is_some())
}

/// Height of the timeline; zero if room is short or the screen is not filtered by it.
fn timeline_height(model: &Model, height: u16) -> u16 {
    u16::from(model.frame.timeline && matches!(model.frame.tab, Tab::Top | Tab::Flame) && height >= 20)
}

/// Width of the call chains next to the table; zero if the table needs the room.
pub(crate) fn beside_width(model: &Model, width: u16) -> u16 {
    const LEAST: u16 = 140;
    if model.frame.tab == Tab::Top && model.context.info.chains && width >= LEAST { (width * 2 / 5).min(90) } else { 0 }
}

pub(crate) fn table_height(model: &Model) -> usize {
    places_of(model).map_or(0, |places| usize::from(places.table.height.saturating_sub(1)))
}
