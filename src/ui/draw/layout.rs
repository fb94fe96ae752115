//! The layout of the screen, computed from the size alone, so that paging, the mouse and drawing agree.

use ratatui::layout::Rect;

use crate::ui::draw::tour;
use crate::ui::popup::Popup;
use crate::ui::scene::Scene;
use crate::ui::tab::Tab;

/// The parts of the screen, from top to bottom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScreenAreas {
    pub(crate) header: Rect,
    pub(crate) tabs: Rect,
    /// The message; no lines where there is none.
    pub(crate) finding: Rect,
    /// The timeline; no line where there is none.
    pub(crate) timeline: Rect,
    /// The table with its heading.
    pub(crate) table: Rect,
    /// The call chains of the row under the cursor, beside the table; no columns where there is no room.
    pub(crate) beside: Rect,
    /// The step of the tour, where one is given.
    pub(crate) tour: Rect,
    pub(crate) details: Rect,
    pub(crate) footer: Rect,
}

/// Divides the screen.
pub(crate) fn places(scene: Scene<'_>, area: Rect) -> ScreenAreas {
    let row = |y: u16, height: u16| Rect { x: area.x, y: area.y + y, width: area.width, height };
    let h = area.height;
    let (found, timeline) = (finding_height(scene, h), timeline_height(scene, h));
    let above = 2 + found + timeline;
    let tour = tour::height(scene, area.width, h.saturating_sub(2 + above));
    let (whole, beside) = (row(above, h - 2 - above - tour), beside_width(scene, area.width));
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

/// The area of a popup: an annotated function has what stands beside the table, too, as that is of another row.
pub(crate) fn popup(scene: Scene<'_>, places: &ScreenAreas) -> Rect {
    match scene.frame.popups.last() {
        Some(Popup::Annotate(_)) => places.table.union(places.beside),
        _ => places.table,
    }
}

/// The parts of the terminal's screen; none where it is too small for anything.
pub(crate) fn places_of(scene: Scene<'_>) -> Option<ScreenAreas> {
    (!scene.is_too_small()).then(|| places(scene, scene.area()))
}

/// Lines for the message: none on a screen with hardly any.
fn finding_height(scene: Scene<'_>, height: u16) -> u16 {
    u16::from(height >= 10 && scene.notice().is_some())
}

/// Lines for the timeline: only where there is room, above what it narrows.
fn timeline_height(scene: Scene<'_>, height: u16) -> u16 {
    u16::from(scene.frame.timeline && matches!(scene.frame.tab, Tab::Top | Tab::Flame) && height >= 20)
}

/// Columns for call chains beside the table: only where the table has enough of its own.
pub(crate) fn beside_width(scene: Scene<'_>, width: u16) -> u16 {
    const LEAST: u16 = 140;
    if scene.frame.tab == Tab::Top && scene.context.info.chains && width >= LEAST { (width * 2 / 5).min(90) } else { 0 }
}

/// Lines of the table that fit under its heading.
pub(crate) fn table_height(scene: Scene<'_>) -> usize {
    places_of(scene).map_or(0, |places| usize::from(places.table.height.saturating_sub(1)))
}
