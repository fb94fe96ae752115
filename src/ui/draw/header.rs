//! The two lines at the top: where and what is sampled, how sure, what is shown.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::event::CallGraph;
use crate::panel::text::{clean, fit_end, width};
use crate::panel::unit::{bytes, clock, percent, thousands};
use crate::query::Answer;
use crate::session::Origin;
use crate::source::Rate;
use crate::ui::app::{App, Tab};
use crate::ui::command::Command;
use crate::ui::theme::Theme;

use crate::ui::draw::put;
use crate::ui::view::events::draw::rate_words;

/// One piece of the header; pieces of low weight go first when there is no room.
struct Piece {
    text: String,
    style: Style,
    weight: u8,
}

/// Host, event, target, state, samples, losses, cost.
pub fn draw(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let mut pieces = pieces(app, theme);
    let total = |pieces: &[Piece]| pieces.iter().map(|p| width(&p.text) + 2).sum::<usize>() + 1;
    while total(&pieces) > usize::from(area.width) && pieces.len() > 1 {
        let least = pieces.iter().enumerate().min_by_key(|(_, p)| p.weight).map_or(0, |(i, _)| i);
        pieces.remove(least);
    }
    let mut x = 1;
    for piece in pieces {
        x += put(buffer, area, x, 0, &piece.text, piece.style) + 2;
    }
}

fn pieces(app: &App, theme: &Theme) -> Vec<Piece> {
    let answer = &app.answer;
    let mut out = Vec::new();
    let mut add = |text: String, style, weight| {
        if !text.is_empty() {
            out.push(Piece { text: clean(&text).into_owned(), style, weight });
        }
    };
    add("perfprof-tui".into(), theme.title, 1);
    // Of several machines their names say more than those of the files.
    let several = app.info.is_of_many();
    add(hosts(app), theme.text, if several { 8 } else { 5 });
    add(if several { String::new() } else { app.info.kernel.clone() }, theme.dim, 2);
    let event = answer.events.get(app.event).map_or_else(String::new, |e| e.name.clone());
    let running = answer.events.get(app.event).and_then(|e| e.meter.as_ref()).map(|meter| meter.state.chains);
    let recorded = || app.info.events.get(app.event).map_or(CallGraph::Fp, |event| CallGraph::of(&event.attr));
    let way = running.or_else(|| app.info.chains.then(recorded)).filter(|way| way.is_on());
    let chains = way.map_or_else(String::new, |way| format!("-g {}", way.words()));
    add(format!("{event} {}", rate(app)).trim_end().to_owned(), theme.text, 7);
    add(chains, theme.dim, 3);
    let cpus = if answer.cpus.is_empty() { String::new() } else { format!("CPU {}", answer.cpus) };
    add(cpus, theme.text, 8);
    add(if several { String::new() } else { target(app).to_owned() }, theme.text, 8);
    if let Some(filter) = answer.events.get(app.event).and_then(|e| e.filter.as_ref()) {
        add(format!("capture: {filter}"), theme.warning, 8);
    }
    let time = clock(app.elapsed_ns());
    match (&answer.ended, app.frozen, app.info.origin) {
        (Some(_), _, Origin::Recorded) => add(format!("■ file {time}"), theme.dim, 9),
        (Some(_), _, _) => add(format!("■ ended {time}"), theme.warning, 9),
        (None, true, _) => add(format!("‖ frozen {time} +{}", thousands(answer.newer)), theme.warning, 9),
        (None, false, Origin::Live) => add(format!("● live {time}"), theme.good, 9),
        (None, false, Origin::Recorded) if app.info.flows => add(format!("● live {time}"), theme.good, 9),
        (None, false, Origin::Recorded) => add(loading(app), theme.warning, 9),
    }
    if let Some(seconds) = app.behind.late(app.refresh) {
        add(format!("view {seconds} s old"), theme.error, 10);
    }
    add(samples(app), theme.text, 10);
    if app.info.origin == Origin::Live && answer.unfiltered.samples > 0 {
        add(format!("keeps {}", clock(answer.elapsed_ns.saturating_sub(answer.kept_from))), theme.dim, 6);
    }
    let lost = answer.ledger.lost();
    let lost_text = match lost {
        0 => "lost 0".to_owned(),
        n => format!("lost {} ({})", thousands(n), percent(answer.ledger.lost_percent())),
    };
    add(lost_text, if lost > 0 { theme.error } else { theme.dim }, 9);
    if app.slow {
        add("slow link".to_owned(), theme.warning, 8);
    }
    if let Some(rate) = app.bytes_a_second {
        add(format!("screen {}/s", bytes(rate as u64)), theme.dim, 10);
    }
    if app.info.origin == Origin::Live {
        let cost = answer.cost.own_percent;
        add(format!("self {cost:.1} %"), if cost > 10.0 { theme.warning } else { theme.dim }, 4);
    }
    out
}

/// The machine's name, or those of some, or how many they are.
fn hosts(app: &App) -> String {
    let names = app.info.host_names();
    if names.len() > 3 { format!("{} hosts", names.len()) } else { names.join(" ") }
}

/// How often the event that is shown is sampled, or was recorded; empty when nobody knows.
fn rate(app: &App) -> String {
    let running = app.answer.events.get(app.event).and_then(|e| e.meter.as_ref()).map(|meter| meter.state.rate);
    let recorded = || app.info.events.get(app.event).map(|e| Rate::of(&e.attr)).filter(|rate| *rate != Rate::Period(0));
    running.or_else(recorded).map(rate_words).unwrap_or_default()
}

/// What is sampled, in words; it may have changed since the start.
fn target(app: &App) -> &str {
    if app.info.origin == Origin::Live { &app.answer.target } else { &app.info.target }
}

/// How far a recording has been read, and how long the rest takes.
fn loading(app: &App) -> String {
    let Some(progress) = app.answer.progress else { return "… loading".into() };
    if progress.all == 0 {
        return format!("… reading, {} so far", bytes(progress.done));
    }
    let share = 100 * progress.done / progress.all;
    let left = progress.left_ns().map_or_else(String::new, |ns| format!(", {} s left", ns.div_ceil(1_000_000_000)));
    format!("… loading {share} % of {}{left}  Esc stops", bytes(progress.all))
}

/// How many samples, and how busy they show the CPUs to be.
fn samples(app: &App) -> String {
    let shown = thousands(app.answer.unfiltered.samples);
    match app.answer.by_cpu.busy {
        None => format!("{shown} samples"),
        Some(busy) => format!("{shown} samples ({busy:.0} % busy)"),
    }
}

const TABS: &[(Tab, &str)] = &[
    (Tab::Top, "1 Top"),
    (Tab::Flame, "2 Flame"),
    (Tab::Time, "3 Time"),
    (Tab::Cpus, "4 CPUs"),
    (Tab::Events, "5 Events"),
    (Tab::Units, "6 Units"),
];

/// The names of the screens as they stand; where they have no room, the digits still tell the keys.
fn tab_names(app: &App, room: u16) -> impl Iterator<Item = (Tab, String)> {
    let brief = TABS.iter().map(|(_, name)| width(name) + 2).sum::<usize>() > usize::from(room);
    let here = app.tab;
    TABS.iter().map(move |(tab, name)| {
        let name = if brief && *tab != here { &name[..1] } else { name };
        (*tab, if *tab == here { format!("[{name}]") } else { format!(" {name} ") })
    })
}

/// The command of the tab at a column.
pub fn tab_at(app: &App, room: u16, column: u16) -> Option<Command> {
    let mut x = 1;
    let mut found = tab_names(app, room).map(|(tab, name)| {
        x += width(&name) as u16;
        (tab, x)
    });
    let tab = found.find(|(_, end)| (1..*end).contains(&column))?.0;
    Some(match tab {
        Tab::Top => Command::TabTop,
        Tab::Flame => Command::TabFlame,
        Tab::Time => Command::TabTime,
        Tab::Cpus => Command::TabCpus,
        Tab::Events => Command::TabEvents,
        Tab::Units => Command::TabUnits,
    })
}

/// The tab line: screens, sample rate over time, what narrows the view.
pub fn tabs(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let mut x = 1;
    for (tab, text) in tab_names(app, area.width) {
        let style = if tab == app.tab { theme.title } else { theme.dim };
        x += put(buffer, area, x, 0, &text, style);
    }
    x += 2;
    let mut trail: Vec<String> = app.zooms.iter().map(|z| z.label.clone()).collect();
    if let Some(filter) = &app.filter {
        trail.push(format!("view: {filter}"));
    }
    if let Some(mark) = &app.baseline {
        trail.push(format!("against {}, {}", mark.label, app.per.words()));
    }
    trail.extend(app.age_shown());
    let room = usize::from(area.width.saturating_sub(x + 1));
    let right = narrowed(app, &trail, room);
    let right_width = width(&right).min(room);
    let spark_room = room.saturating_sub(right_width + 9);
    if spark_room >= 12 {
        let spark = sparkline(&app.answer, spark_room.min(60));
        for (bar, lossy) in &spark {
            let style = if *lossy { theme.error } else { theme.bar };
            x += put(buffer, area, x, 0, bar.encode_utf8(&mut [0; 4]), style);
        }
        if !spark.is_empty() {
            let lossy = spark.iter().any(|(_, lossy)| *lossy);
            x += 1 + put(buffer, area, x + 1, 0, if lossy { "rate, × lost" } else { "rate" }, theme.dim) + 2;
        }
    }
    let at = area.width.saturating_sub(right_width as u16 + 1).max(x);
    put(buffer, area, at, 0, &right, theme.warning);
}

/// What narrows the view, how much of all samples of the event is left, and what the rest is: as much of it as there is
/// room for.
fn narrowed(app: &App, trail: &[String], room: usize) -> String {
    let (seen, all) = (app.answer.total, app.answer.unfiltered);
    let by =
        if trail.is_empty() { String::new() } else { clean(&format!("all › {}", trail.join(" › "))).into_owned() };
    if all.samples == 0 || seen.samples >= all.samples {
        return fit_end(&by, room + 1).into_owned();
    }
    let gap = if by.is_empty() { "" } else { "  " };
    let share = format!("{by}{gap}{} of all", percent(seen.percent_of(&all)));
    let rest = app.left_out().collect::<Vec<_>>().join(" or ");
    let whole = if rest.is_empty() { share.clone() } else { format!("{share}, rest {rest}") };
    let fitting = [whole, share].into_iter().find(|text| width(text) <= room);
    // One that is cut needs no blank behind it.
    fitting.unwrap_or_else(|| fit_end(if by.is_empty() { "…" } else { &by }, room + 1).into_owned())
}

/// What stands out, on every screen, and the key that leads there.
pub fn finding(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let Some(first) = app.findings.first() else {
        if let Some((text, key)) = app.hint() {
            let room = usize::from(area.width).saturating_sub(2 + width(key));
            let x = 1 + put(buffer, area, 1, 0, &fit_end(&clean(&text), room), theme.warning);
            put(buffer, area, x, 0, key, theme.key);
        }
        return;
    };
    let cpus = app.findings.iter().map(|f| f.cpu).collect::<std::collections::BTreeSet<_>>().len();
    let more = if cpus > 1 { format!("  and {} more CPUs", cpus - 1) } else { String::new() };
    let hint = "  ! goes there";
    let room = usize::from(area.width).saturating_sub(2 + width(&more) + width(hint));
    let text = clean(&first.text);
    let mut x = 1 + put(buffer, area, 1, 0, &fit_end(&text, room), theme.error);
    x += put(buffer, area, x, 0, &more, theme.error);
    put(buffer, area, x, 0, hint, theme.key);
}

/// Seconds by which the line of rates moves on where it has no more room: a line that moved each second would be written
/// anew each second.
const STRIDE: usize = 10;

/// The newest seconds as eighths, those that lost samples as a cross; the last one, still filling, is left
/// out.
fn sparkline(answer: &Answer, cells: usize) -> Vec<(char, bool)> {
    let (rates, lossy) = (&answer.rates, &answer.lossy);
    let done = rates.len().saturating_sub(1);
    let past = done.saturating_sub(cells);
    let stride = if answer.ended.is_none() && past > 0 { STRIDE } else { 1 };
    let from = (answer.rates_from + past).next_multiple_of(stride) - answer.rates_from;
    let shown = from.min(done)..done;
    let top = rates[shown.clone()].iter().copied().max().unwrap_or(0);
    let one = |i: usize| match lossy.get(i) {
        Some(true) => ('×', true),
        _ => (crate::ui::widget::strip::bar(u64::from(rates[i]).max(1), u64::from(top)), false),
    };
    shown.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a full line only its end changes from second to second; once in ten it moves on, and never shows less than 50
    /// of 60 seconds.
    #[test]
    fn the_line_of_rates_moves_on_in_strides() {
        let line = |seconds: usize, ended: bool| {
            let from = seconds.saturating_sub(120);
            let rates: Vec<u32> = (from..seconds).map(|second| [3, 9, 6][second % 3] * 10).collect();
            let ended = ended.then(|| "the end".to_owned());
            let answer =
                Answer { lossy: vec![false; rates.len()], rates, rates_from: from, ended, ..Answer::default() };
            sparkline(&answer, 60)
        };
        let moved = |second: &usize| !line(second + 1, false).starts_with(&line(*second, false));
        assert_eq!((62..362).filter(moved).count(), 30);
        assert!((62..362).all(|second| (50..=60).contains(&line(second, false).len())));
        assert_eq!((line(30, false).len(), line(300, true).len()), (29, 60));
    }
}
