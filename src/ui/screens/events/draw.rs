//! The event screen: measured events with figures, the catalogue of the machine's events, the item under the cursor.

use std::sync::Arc;

use ratatui::style::Style;

use crate::event::CallGraph;
use crate::event::catalogue::EventKind;
use crate::ingest::derived::offcpu::NAME as OFF_CPU;
use crate::lang::counted;
use crate::panel::series::LEVELS;
use crate::panel::text::{fit, fit_end, wrap};
use crate::panel::unit::{cpus, duration, percent, short, thousands};
use crate::panel::{Align, Cell, Column, Table};
use crate::perfdata::OFF_CPU_TIME;
use crate::query::answer::{EventInfo, Meter};
use crate::session::Origin;
use crate::source::{Rate, RunState};
use crate::ui::draw::layout::places;
use crate::ui::screens::events::state::{EventRow, EventsState, NO_TRACEPOINTS};
use crate::ui::state::Model;
use crate::ui::theme::{Depth, Theme};
use crate::ui::widgets::Canvas;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventColumn {
    Name,
    State,
    Rate,
    Sampled,
    Count,
    Samples,
    Lost,
    Cost,
    History,
}

/// The columns, in the order of [`EventColumn`].
static FIGURES: [(EventColumn, Column); 9] = [
    (EventColumn::Name, Column::new("event", "Event", Align::Left, 0)),
    (EventColumn::State, Column::new("state", "State", Align::Left, 16)),
    (EventColumn::Rate, Column::new("rate", "Count/s", Align::Right, 8)),
    (EventColumn::Sampled, Column::new("sampled", "Samples/s", Align::Right, 9)),
    (EventColumn::Count, Column::new("count", "Count", Align::Right, 8)),
    (EventColumn::Samples, Column::new("samples", "Samples", Align::Right, 8)),
    (EventColumn::Lost, Column::new("lost", "Lost", Align::Right, 7)),
    (EventColumn::Cost, Column::new("cost", "Cost", Align::Right, 7)),
    (EventColumn::History, Column::new("history", "History", Align::Left, 24)),
];

impl EventColumn {
    fn column(self) -> &'static Column {
        &FIGURES[self as usize].1
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventsLayout {
    pub(crate) figures: Vec<(EventColumn, u16, u16)>,
    pub(crate) own: usize,
    pub(crate) listed: usize,
    pub(crate) words: u16,
}

pub(crate) fn plan(model: &Model) -> EventsLayout {
    if model.is_too_small() {
        return EventsLayout::default();
    }
    let table = places(model, model.area()).table;
    let words = match table.height {
        h if h >= 30 => 6,
        h if h >= 14 => 3,
        _ => 0,
    };
    // Two heading lines.
    let room = usize::from(table.height.saturating_sub(2 + words));
    let all = EventsState::own(&model.context.answer.events).count();
    let own = all.min((room / 2).max(1)).min(room);
    EventsLayout { figures: figures(table.width), own, listed: room - own, words }
}

/// Returns the columns that fit; the least important ones are dropped first.
fn figures(width: u16) -> Vec<(EventColumn, u16, u16)> {
    let mut shown: Vec<EventColumn> = FIGURES.iter().map(|(figure, _)| *figure).collect();
    let name = 24;
    let need = |shown: &[EventColumn]| shown.iter().map(|f| f.column().width + 1).sum::<u16>() + 2 + name;
    for drop in [
        EventColumn::History,
        EventColumn::Samples,
        EventColumn::Sampled,
        EventColumn::Count,
        EventColumn::Cost,
        EventColumn::Lost,
        EventColumn::Rate,
    ] {
        if need(&shown) > width {
            shown.retain(|f| *f != drop);
        }
    }
    let spare = (width + name).saturating_sub(need(&shown)).clamp(8, 48);
    let mut x = 2;
    let mut out = Vec::new();
    for figure in shown {
        let cells = if figure == EventColumn::Name { spare } else { figure.column().width };
        out.push((figure, x, cells.min(width.saturating_sub(x))));
        x += cells + 1;
    }
    out
}

pub(crate) fn hit(model: &Model, view: &EventsState, y: u16) -> Option<EventRow> {
    let plan = plan(model);
    let area = places(model, model.area()).table;
    let row = usize::from(y.checked_sub(area.y + 1)?);
    if row < plan.own {
        return visible_own(model, view, &plan).get(row).map(|i| EventRow::Own(*i));
    }
    let listed = row.checked_sub(plan.own + 1).filter(|row| *row < plan.listed)?;
    view.listed().get(view.list.top + listed).cloned()
}

/// Returns the visible measured events, including the one under the cursor.
fn visible_own(model: &Model, view: &EventsState, plan: &EventsLayout) -> Vec<usize> {
    let all: Vec<usize> = EventsState::own(&model.context.answer.events).collect();
    let at = match view.item(&model.context.answer.events) {
        Some(EventRow::Own(event)) => all.iter().position(|e| *e == event).unwrap_or(0),
        _ => 0,
    };
    let from = (at + 1).saturating_sub(plan.own).min(all.len().saturating_sub(plan.own));
    all[from..(from + plan.own).min(all.len())].to_vec()
}

pub(crate) fn draw(model: &Model, view: &EventsState, on: &mut Canvas<'_>) {
    let plan = plan(model);
    let cursor = view.item(&model.context.answer.events);
    for (figure, x, cells) in &plan.figures {
        let column = figure.column();
        on.put_in((*x, *cells), column.align, &fit_end(&column.title, usize::from(*cells)), on.theme.head);
    }
    for (y, event) in (1..).zip(visible_own(model, view, &plan)) {
        own(model, &plan, event, cursor == Some(EventRow::Own(event)), &mut on.line(y));
    }
    let middle = 1 + plan.own as u16;
    on.put(2, middle, &heading(model, view), on.theme.head);
    let listed = view.listed();
    for (y, item) in (middle + 1..).zip(listed.iter().skip(view.list.top).take(plan.listed)) {
        entry(model, view, item, cursor.as_ref() == Some(item), &mut on.line(y));
    }
    let below = middle + 1 + plan.listed as u16;
    if plan.words > 0 {
        let words = cursor_line(model, view, on.theme, cursor.as_ref(), usize::from(on.area.width).saturating_sub(3));
        for (y, (text, style)) in (below..on.area.height).zip(words) {
            on.put(2, y, &text, style);
        }
    }
}

fn heading(model: &Model, view: &EventsState) -> String {
    let Some(catalogue) = &model.context.catalogue else {
        return match model.context.info.origin {
            Origin::Live => "Loading the events of this machine…".to_owned(),
            Origin::Recorded => "This is a recording: what was measured cannot be changed".to_owned(),
        };
    };
    let all = thousands(catalogue.len() as u64);
    match view.search.as_str() {
        "" if !model.context.has_tracepoints() => format!("{all} events  / searches; {NO_TRACEPOINTS}"),
        "" => format!("{all} events that this machine knows  / searches"),
        text => {
            format!("/{text}  {} of {}", thousands(view.n_matches() as u64), counted(catalogue.len() as u64, "event"))
        }
    }
}

fn own(model: &Model, plan: &EventsLayout, event: usize, here: bool, on: &mut Canvas<'_>) {
    let Some(info) = model.context.answer.events.get(event) else { return };
    if here {
        on.put(0, 0, "›", on.theme.title);
    }
    if event == model.selection.event {
        on.put(1, 0, "*", on.theme.key);
    }
    for (figure, x, cells) in &plan.figures {
        let room = usize::from(*cells);
        let (text, style) = match (figure, &info.meter, model.context.info.origin) {
            (EventColumn::State, None, Origin::Live) => ("made of others".to_owned(), on.theme.dim),
            _ => figure_text(on.theme, info, *figure, room),
        };
        let style = if here && *figure == EventColumn::Name { on.theme.selected } else { style };
        on.put_in((*x, *cells), figure.column().align, &text, style);
    }
}

fn figure_text(theme: &Theme, info: &EventInfo, figure: EventColumn, room: usize) -> (String, Style) {
    let dim = |text: &str| (text.to_owned(), theme.dim);
    let number = |value: f64| if value == 0.0 { ("0".to_owned(), theme.dim) } else { (short(value), theme.text) };
    let meter = info.meter.as_ref();
    match (figure, meter) {
        (EventColumn::Name, _) => (fit(&info.name, room).into_owned(), theme.text),
        (EventColumn::Samples, _) => number(info.total.counted(info.meaning.count).0 as f64),
        (EventColumn::Lost, _) if info.lost > 0 => (short(info.lost as f64), theme.error),
        (EventColumn::Lost, _) => dim("0"),
        (EventColumn::State, None) => dim("recorded"),
        (_, None) => dim("-"),
        (EventColumn::State, Some(meter)) => {
            let (text, style) = state(theme, meter);
            (fit_end(&text, room).into_owned(), style)
        }
        (EventColumn::Rate, Some(m)) if info.meaning.unit.is_time() => (time_a_second(&info.name, m.rate), theme.text),
        (EventColumn::Count, Some(m)) if info.meaning.unit.is_time() => (duration(m.count), theme.text),
        (EventColumn::Rate, Some(m)) => number(m.rate),
        (EventColumn::Sampled, Some(m)) => number(m.sampled),
        (EventColumn::Count, Some(m)) => number(m.count as f64),
        (EventColumn::Cost, Some(m)) => match m.cost_percent {
            cost if cost >= 10.0 => (percent(cost), theme.error),
            0.0 => dim("-"),
            cost => (percent(cost), theme.text),
        },
        (EventColumn::History, Some(m)) => (history(m, room), theme.bar),
    }
}

pub(crate) fn describe_rate(rate: Rate) -> String {
    match rate {
        Rate::Frequency(hz) => format!("{hz} Hz"),
        Rate::Period(0) => "counted".to_owned(),
        Rate::Period(1) => "every hit".to_owned(),
        Rate::Period(n) => format!("1 in {}", short(n as f64)),
    }
}

fn state(theme: &Theme, meter: &Meter) -> (String, Style) {
    let rate = describe_rate(meter.state.rate);
    match &meter.state.run {
        RunState::Running if meter.running_percent < 99.5 && meter.running_percent > 0.0 => {
            (format!("◐ {rate} {:.0} %", meter.running_percent), theme.warning)
        }
        RunState::Running => (format!("● {rate}"), theme.good),
        RunState::Paused => ("‖ paused".to_owned(), theme.warning),
        RunState::Stopped => ("■ stopped".to_owned(), theme.dim),
        RunState::Refused(_) => ("✗ refused".to_owned(), theme.error),
    }
}

/// Draws the rates of the last seconds, relative to the highest.
fn history(meter: &Meter, cells: usize) -> String {
    let past = &meter.history;
    let highest = past.iter().copied().fold(1.0, f32::max);
    let glyph = |rate: &f32| match rate {
        0.0 => ' ',
        rate => LEVELS[((rate * 7.0 / highest).round() as usize).min(7)],
    };
    past.iter().skip(past.len().saturating_sub(cells)).map(glyph).collect()
}

fn entry(model: &Model, view: &EventsState, item: &EventRow, here: bool, on: &mut Canvas<'_>) {
    if here {
        on.put(0, 0, "›", on.theme.title);
    }
    let name_style = if here { on.theme.selected } else { on.theme.text };
    let room = usize::from(on.area.width / 2).clamp(20, 48);
    match item {
        EventRow::Group(g) => {
            let Some(group) = view.groups.get(*g) else { return };
            let mark = if view.is_open(*g) { "▾" } else { "▸" };
            on.put(2, 0, &fit(&format!("{mark} {}", group.title()), room), name_style);
            let n = group.entries.len();
            let what = if group.sort == EventKind::Tracepoint { "tracepoint" } else { "event" };
            let text = format!("{n} {what}{}", if n == 1 { "" } else { "s" });
            on.put(3 + room as u16, 0, &text, on.theme.dim);
        }
        EventRow::Entry(e) => {
            let Some(entry) = model.context.entry(*e) else { return };
            let measured = model.context.is_measured(&entry.name);
            let indent = if view.search.is_empty() { 2 } else { 0 };
            if measured {
                on.put(1 + indent, 0, "●", on.theme.good);
            }
            let missing = !entry.missing.is_empty();
            let style = if missing && !here { on.theme.dim } else { name_style };
            on.put(2 + 2 + indent, 0, &fit(&entry.name, room - 2 - usize::from(indent)), style);
            let about = match (entry.missing, entry.about.as_str()) {
                ("", "") => entry.sort.word().to_owned(),
                ("", about) => about.to_owned(),
                (missing, about) => format!("{missing}; {about}"),
            };
            on.put(3 + room as u16, 0, &about, on.theme.dim);
        }
        EventRow::Own(_) => {}
    }
}

fn cursor_line(
    model: &Model,
    view: &EventsState,
    theme: &Theme,
    item: Option<&EventRow>,
    room: usize,
) -> Vec<(String, Style)> {
    match item {
        Some(EventRow::Own(event)) => {
            model.context.answer.events.get(*event).map(|e| event_line(theme, e, room)).unwrap_or_default()
        }
        Some(EventRow::Entry(e)) => {
            model.context.entry(*e).map(|e| catalogue_line(view, theme, &e.name, &e.about, room)).unwrap_or_default()
        }
        Some(EventRow::Group(_)) | None => vec![
            (
                "⏎ unfolds a group and starts the event under the cursor; r e takes names as after -e.".to_owned(),
                theme.dim,
            ),
            ("Changes take effect at once; recorded samples stay.".to_owned(), theme.dim),
        ],
    }
}

fn event_line(theme: &Theme, event: &EventInfo, room: usize) -> Vec<(String, Style)> {
    let Some(meter) = &event.meter else {
        let (n, noun) = event.total.counted(event.meaning.count);
        let mut lines = vec![(format!("{} of {}", counted(n, noun), event.name), theme.text)];
        lines.extend(event.note.iter().flat_map(|note| wrap(note, room)).map(|text| (text, theme.warning)));
        return lines;
    };
    let state = &meter.state;
    let mut lines = Vec::new();
    if let RunState::Refused(why) = &state.run {
        lines.extend(wrap(why, room).into_iter().map(|text| (text, theme.error)));
    }
    let cpus = if state.cpus.is_empty() { String::new() } else { format!(", on CPU {}", state.cpus) };
    let chains = match state.chains {
        CallGraph::None => "without call chains".to_owned(),
        CallGraph::Fp | CallGraph::Tables => "with call chains".to_owned(),
        other => format!("with call chains by {}", other.spelling()),
    };
    let samples = counted(event.total.samples, "sample");
    let hits = match event.meaning.unit.is_time() {
        true => format!("{} counted", duration(meter.count)),
        false => counted(meter.count, "hit"),
    };
    lines.push((format!("{}: {hits}, {samples}, {chains}{cpus}", event.name), theme.text));
    if let Some(filter) = &state.filter {
        lines.push((format!("the kernel keeps only: {filter}"), theme.warning));
    }
    if meter.running_percent < 99.5 && state.run == RunState::Running && meter.running_percent > 0.0 {
        let text = format!("counted {:.1} % of the time: more events than counters", meter.running_percent);
        lines.push((text, theme.warning));
    }
    lines.extend(state.note.iter().map(|note| (note.clone(), theme.warning)));
    if state.for_units {
        lines.push(("measured for units alone: ⏎ keeps its samples from now on".to_owned(), theme.dim));
    }
    lines
}

fn catalogue_line(view: &EventsState, theme: &Theme, name: &str, about: &str, room: usize) -> Vec<(String, Style)> {
    let looked_up = view.looked_up.as_ref().filter(|(known, _)| known == name);
    let Some(format) = looked_up.and_then(|(_, format)| format.as_ref()) else {
        return wrap(about, room).into_iter().map(|text| (text, theme.text)).collect();
    };
    let own = format.fields.iter().filter(|f| !f.name.starts_with("common_"));
    let fields: Vec<String> = own.map(|f| format!("{} {}", f.kind, f.name)).collect();
    let mut lines: Vec<(String, Style)> =
        wrap(&fields.join(", "), room).into_iter().map(|text| (text, theme.text)).collect();
    lines.extend(wrap(&format.print, room).into_iter().map(|text| (text, theme.dim)));
    lines
}

/// Returns the measured events as text.
pub(crate) fn text(model: &Model) -> String {
    let figures: Vec<EventColumn> = FIGURES.iter().map(|(f, _)| *f).filter(|f| *f != EventColumn::History).collect();
    let theme = Theme::new(Depth::NoColor);
    let row = |event: usize| -> Option<Vec<Cell>> {
        let info = model.context.answer.events.get(event)?;
        Some(figures.iter().map(|f| Cell::Text(Arc::from(figure_text(&theme, info, *f, 200).0.as_str()))).collect())
    };
    let rows = EventsState::own(&model.context.answer.events).filter_map(row).collect();
    Table { columns: figures.iter().map(|f| f.column().clone()).collect(), rows }.to_text()
}

/// Formats the time that an event counts per second. Nanoseconds of a clock are CPUs, those of sleep are of threads.
fn time_a_second(event: &str, ns: f64) -> String {
    if [OFF_CPU, OFF_CPU_TIME].contains(&event) { duration(ns as u64) } else { cpus(ns / 1e9) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_no_time_of_cpus() {
        assert_eq!(time_a_second("cpu-clock", 2e9), "2.00 CPU");
        assert_eq!([OFF_CPU, OFF_CPU_TIME].map(|event| time_a_second(event, 28.69e9)), ["28.7 s"; 2]);
    }
}
