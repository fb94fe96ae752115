//! The unit screen: units, panel titles, the selected panel and, in the lines that it leaves empty, the following ones.

use ratatui::layout::Rect;

use crate::panel::table::Cut;
use crate::panel::text::{clean, fit, fit_end, width};
use crate::panel::unit::{clock, percent, thousands};
use crate::panel::{Body, Cell, Panel, Rows};
use crate::profile::or_more;
use crate::query::flame::layout::{Flame, layout};
use crate::session::Origin;
use crate::source::live::overhead;
use crate::ui::draw::layout::places;
use crate::ui::input::commands::general;
use crate::ui::input::keys;
use crate::ui::screens::units::chooser::is_absent;
use crate::ui::screens::units::layout::plan;
use crate::ui::screens::units::panel_view::{PanelView, cursor, visible};
use crate::ui::screens::units::state::UnitsState;
use crate::ui::screens::units::table::frame_weights;
use crate::ui::screens::units::{notes, panels, table};
use crate::ui::state::Model;
use crate::ui::widgets::Canvas;
use crate::ui::widgets::rows::place;
use crate::units::UNITS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitsHit {
    Unit(u64),
    Panel(usize),
    Head(usize),
    /// The index of a visible row, and whether its fold mark was hit.
    Row(usize, bool),
}

fn area_of(model: &Model) -> Rect {
    if model.is_too_small() {
        return Rect::default();
    }
    places(model, model.area()).table
}

/// Returns the number of rows of the selected panel, without its heading.
pub(crate) fn main_height(model: &Model, units: &UnitsState) -> usize {
    usize::from(plan(units, area_of(model)).main.height.saturating_sub(1))
}

/// Returns the flame graph of the selected panel in its layout.
pub(crate) fn flame(model: &Model, units: &UnitsState) -> Option<Flame> {
    let (panel, view) = units.panel()?;
    flame_of(panel, view, plan(units, area_of(model)).main)
}

fn flame_of(panel: &Panel, view: &PanelView, area: Rect) -> Option<Flame> {
    let Body::Flame(stacks) = &panel.body else { return None };
    Some(layout(view.tree(stacks), &view.flame.spec(area.width, area.height.saturating_sub(1), true)))
}

pub(crate) fn hit(model: &Model, units: &UnitsState, x: u16, y: u16) -> Option<UnitsHit> {
    let area = area_of(model);
    let plan = plan(units, area);
    if y == area.y {
        return plan
            .units
            .iter()
            .find(|(at, wide, _)| (*at..at + wide).contains(&x))
            .map(|(.., id)| UnitsHit::Unit(*id));
    }
    if y == area.y + 1 {
        let title = plan.titles.iter().find(|(at, wide, _)| (*at..at + wide).contains(&x));
        return title.map(|(.., panel)| UnitsHit::Panel(*panel));
    }
    let main = plan.main;
    let inside = |place: &Rect| place.contains(ratatui::layout::Position { x, y });
    if let Some((_, panel)) = plan.others.iter().find(|(place, _)| inside(place)) {
        return Some(UnitsHit::Panel(*panel));
    }
    let (panel, view) = units.panel()?;
    if y == main.y {
        return table::column_at(panel, view, main, x).map(UnitsHit::Head);
    }
    let below = y.checked_sub(main.y + 1).filter(|row| *row + 1 < main.height)?;
    let at = table::first_row(panel, view, main) + usize::from(below);
    let row = panel.rows().and_then(|rows| visible(&panel.body, rows, view).get(at).copied());
    Some(UnitsHit::Row(at, row.is_some_and(|row| table::is_mark(panel, view, main, row, x))))
}

/// Describes the cost of the running units, with whether it exceeds the limit of a rate.
fn running_cost(model: &Model) -> Option<(String, bool)> {
    if model.context.info.origin != Origin::Live || model.context.answer.ended.is_some() {
        return None;
    }
    let meters = model.context.answer.events.iter().filter_map(|event| event.meter.as_ref());
    let records: f64 = meters.filter(|meter| meter.state.for_units).map(|meter| meter.cost_percent).sum();
    let own = model.context.answer.cost.own_percent;
    let is_over = records.max(own) > overhead::REFUSE_PERCENT;
    (records > 0.0 || own > 0.0).then(|| {
        (format!("records cost {} of each CPU, perfprof-tui {} of one", percent(records), percent(own)), is_over)
    })
}

pub(crate) fn draw(model: &Model, units: &UnitsState, on: &mut Canvas<'_>) {
    let Some(unit) = units.unit() else { return none(model, units, on) };
    let plan = plan(units, on.area);
    for (x, _, id) in &plan.units {
        let name = units.answers.iter().find(|answer| answer.id == *id).map_or("", |answer| answer.name);
        let here = Some(*id) == units.current;
        let text = if here { format!("[{name}]") } else { format!(" {name} ") };
        on.put(*x, 0, &text, if here { on.theme.title } else { on.theme.dim });
    }
    let more = or_more(unit.may_be_more);
    let has_losses = unit.lost > 0 || unit.may_be_more;
    let lost = if has_losses { format!("lost {}{more}  ", thousands(unit.lost)) } else { String::new() };
    let span = format!("{lost}figures of {} to {}", clock(unit.since), clock(unit.until));
    let (cost, is_over) = running_cost(model).unwrap_or_default();
    let free = on.area.width.saturating_sub(plan.units.last().map_or(0, |(at, wide, _)| at + wide) + 1);
    let span_style = if has_losses { on.theme.error } else { on.theme.dim };
    let cost_style = if is_over { on.theme.warning } else { on.theme.dim };
    let mut right = on.area.width.saturating_sub(1);
    // A cost over the limit comes first.
    let mut pieces = [(span.as_str(), span_style), (cost.as_str(), cost_style)];
    if is_over {
        pieces.reverse();
    }
    for (text, style) in pieces {
        let x = right.saturating_sub(width(text) as u16);
        if !text.is_empty() && on.area.width.saturating_sub(x) <= free {
            on.put(x, 0, text, style);
            right = x.saturating_sub(2);
        }
    }
    let Some(view) = units.view() else { return };
    for (x, wide, i) in &plan.titles {
        let title = clean(&unit.panels[*i].title);
        let title = fit_end(&title, usize::from(wide.saturating_sub(3)));
        let here = *i == view.panel;
        let text = if here { format!("[{title}]") } else { format!(" {title} ") };
        on.put(*x, 1, &text, if here { on.theme.title } else { on.theme.dim });
    }
    let all = std::iter::once((plan.main, view.panel, true)).chain(plan.others.iter().map(|(at, i)| (*at, *i, false)));
    for (at, i, main) in all {
        let (Some(panel), Some(state)) = (unit.panels.get(i), view.panels.get(i)) else { continue };
        let mut at = on.part(at);
        if !main {
            at.put(1, 0, &format!("─ {} ", panel.title), at.theme.head);
            at.area = at.below(1).area;
        }
        let flame = flame_of(panel, state, at.area);
        panels::draw(panel, state, flame.as_ref(), main, &mut at);
    }
    notes::draw(units, &mut on.part(plan.notes));
}

/// Draws the number of the cursor's row, and its subject if the column truncates it.
pub(crate) fn details(model: &Model, units: &UnitsState, on: &mut Canvas<'_>) {
    let Some((panel, view)) = units.panel() else { return };
    let Some(rows) = panel.rows().filter(|rows| !rows.ids.is_empty()) else { return };
    let list = visible(&panel.body, rows, view);
    let at = cursor(&panel.body, rows, view, &list);
    let mut text = place(at.map_or(list.len(), |at| at + 1), list.len());
    if rows.more > 0 {
        text += &format!(" and {} more that are not shown", thousands(rows.more as u64));
    }
    let home = model.context.keymap.key_of(&general::HOME).map(keys::shown);
    let hotter = hotter(view, &list, rows, home).unwrap_or_default();
    let x = on.put(1, 0, &hotter, on.theme.warning);
    let x = if x > 0 { x + 3 } else { 1 };
    let room = usize::from(on.area.width.saturating_sub(x + 1));
    let Some(row) = at.map(|at| &rows.table.rows[list[at]]) else {
        on.put(x, 0, &fit(&text, room), on.theme.dim);
        return;
    };
    let (about, is_stack) = subject(rows, row);
    let left = room.saturating_sub(width(&text) + 2);
    let about = if is_stack { frame_weights(rows).fit(&about, left).into_owned() } else { about };
    on.put(x, 0, &fit(&format!("{text}  {about}"), room), on.theme.dim);
}

/// Returns the subject of a row: the last cell or, if that is a figure, the first text; and whether it is a stack.
fn subject(rows: &Rows, row: &[Cell]) -> (String, bool) {
    let cells = || row.iter().zip(&rows.table.columns);
    let mut texts = cells().next_back().into_iter().chain(cells()).filter_map(|(cell, column)| match cell {
        Cell::Text(text) if !text.is_empty() => Some((clean(text).into_owned(), column.cut() == Cut::Stack)),
        _ => None,
    });
    texts.next().unwrap_or_default()
}

/// Returns the text about rows that moved above the visible part while the cursor stayed on its row.
fn hotter(view: &PanelView, list: &[usize], rows: &Rows, home: Option<String>) -> Option<String> {
    let above =
        list.iter().take(view.list.top).filter(|row| rows.depth.get(**row).is_none_or(|depth| *depth == 0)).count();
    crate::ui::widgets::rows::hotter(above, home.filter(|_| view.list.drifted)?)
}

fn none(model: &Model, units: &UnitsState, on: &mut Canvas<'_>) {
    if units.pending {
        on.put(2, 1, "the unit starts…", on.theme.dim);
        return;
    }
    on.put(1, 0, "No unit runs. ⏎ or M starts one:", on.theme.text);
    let room = usize::from(on.area.width.saturating_sub(20));
    for (spec, y) in UNITS.iter().zip(1..on.area.height) {
        let is_absent = is_absent(&model.context, spec);
        on.put(2, y, spec.name, if is_absent { on.theme.dim } else { on.theme.key });
        let missing = if is_absent { "not here  " } else { "" };
        let x = 18 + on.put(18, y, missing, on.theme.warning);
        on.put(x, y, &fit_end(spec.about, room.saturating_sub(width(missing))), on.theme.dim);
    }
}
