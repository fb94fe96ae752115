//! The header: source, target and quality of the data; and the most urgent message.

use ratatui::style::Style;

use crate::event::{CallGraph, Interpreters};
use crate::panel::text::{clean, fit, fit_end, width};
use crate::panel::unit::{bytes, clock, percent, thousands};
use crate::session::Origin;
use crate::session::recorder;
use crate::source::Rate;
use crate::symbols::spaces::InterpretedFigures;
use crate::ui::input::commands::program;
use crate::ui::input::{Command, shown};
use crate::ui::screens::events::draw::describe_rate;
use crate::ui::state::{Model, Tab};
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;

/// A part of the header; parts of low weight are dropped first if room is short.
struct Piece {
    text: String,
    style: Style,
    weight: u8,
    /// The cells that it counts for, so that a growing figure does not remove other parts.
    reserved: usize,
}

impl Piece {
    fn cells(&self) -> usize {
        width(&self.text).max(self.reserved)
    }
}

pub(crate) fn draw(model: &Model, on: &mut Canvas<'_>) {
    let mut pieces = pieces(model, on.theme);
    let gap = |piece: &Piece| if piece.weight == RATE { 1 } else { 2 };
    let total = |pieces: &[Piece]| pieces.iter().map(|p| p.cells() + gap(p)).sum::<usize>() + 1;
    while total(&pieces) > usize::from(on.area.width) && pieces.len() > 1 {
        let least = pieces.iter().enumerate().min_by_key(|(_, p)| p.weight).map_or(0, |(i, _)| i);
        pieces.remove(least);
    }
    let mut x = 1;
    for (i, piece) in pieces.iter().enumerate() {
        x += if i > 0 { gap(piece) as u16 } else { 0 };
        x += on.put(x, 0, &piece.text, piece.style);
    }
}

/// The parts of the header, in order.
struct Pieces {
    list: Vec<Piece>,
    /// Whether figures still change, so that their parts need room for larger ones.
    changes: bool,
}

impl Pieces {
    fn add(&mut self, text: String, style: Style, weight: u8) {
        self.add_changing(text, style, weight, "");
    }

    /// Adds a part that changes every second, with the room of its longest usual text.
    fn add_changing(&mut self, text: String, style: Style, weight: u8, usual: &str) {
        if !text.is_empty() {
            let reserved = if self.changes { width(usual) } else { 0 };
            self.list.push(Piece { text: clean(&text).into_owned(), style, weight, reserved });
        }
    }
}

fn pieces(model: &Model, theme: &Theme) -> Vec<Piece> {
    let answer = &model.context.answer;
    let flows = model.context.info.origin == Origin::Live || model.context.info.flows;
    let changes = flows && answer.ended.is_none() && model.frame.size.0 >= ROOMY;
    let mut out = Pieces { list: Vec::new(), changes };
    let several = model.context.info.hosts.are_many();
    let room = if several && model.frame.size.0 >= 120 { 2 * NAMES } else { NAMES };
    out.add(fit_end(&hosts(model), room).into_owned(), theme.text, 8);
    out.add(if several { String::new() } else { model.context.info.hosts.first().kernel.clone() }, theme.dim, 1);
    let samples_nothing = model.context.samples_nothing();
    // The flame graph shows the time on the CPUs and, hatched, the time off them.
    let is_wall = model.selection.off_cpu && model.frame.tab != Tab::Flame;
    let event = match samples_nothing {
        true => "no sampling event".to_owned(),
        false if is_wall => "wall time".to_owned(),
        false => model.event().map_or_else(String::new, |event| event.name.clone()),
    };
    let running = model.context.meter(model.selection.event).map(|meter| meter.state.chains);
    let recorded = || {
        let told = recorder::way(&model.context.info.hosts.first().machine, model.selection.event);
        told.or_else(|| model.recorded_event().map(|event| CallGraph::of(&event.attr))).unwrap_or(CallGraph::Fp)
    };
    let is_known = model.context.info.chains && !model.context.info.is_named;
    let way = running.or_else(|| is_known.then(recorded)).filter(|way| way.is_on());
    let languages = answer.walked.as_ref().map_or_else(String::new, |walked| languages(&walked.interpreted));
    let chains = way.map_or_else(String::new, |way| format!("-g {}{languages}", way.spelling()));
    out.add(event, theme.text, 13);
    if !samples_nothing && !is_wall {
        out.add(rate(model), theme.text, RATE);
    }
    out.add(chains, theme.dim, 3);
    if model.context.lacks_off_cpu_time() {
        out.add("CPU time only".to_owned(), theme.dim, 4);
    }
    let cpus = if answer.cpus.is_empty() { String::new() } else { format!("CPU {}", answer.cpus) };
    out.add(fit_end(&cpus, NAMES).into_owned(), theme.text, 9);
    out.add(if several { String::new() } else { target(model) }, theme.text, 9);
    if let Some(filter) = model.event().and_then(|e| e.filter.as_ref()) {
        out.add(fit_end(&format!("capture: {filter}"), 2 * NAMES).into_owned(), theme.warning, 11);
    }
    let time = clock(model.context.elapsed_ns());
    let late = model.context.behind.late(model.selection.refresh);
    let (state, style) = match (&answer.ended, model.selection.frozen, model.context.info.origin) {
        (Some(_), _, Origin::Recorded) => (format!("■ file {time}"), theme.dim),
        (Some(_), _, _) => (format!("■ ended {time}"), theme.warning),
        (None, true, _) => (format!("‖ frozen {time} +{}", thousands(answer.newer)), theme.warning),
        (None, false, _) if flows => match late {
            Some(seconds) => (format!("● live, {seconds} s old"), theme.error),
            None => (format!("● live {time}"), theme.good),
        },
        (None, false, _) => (loading(model), theme.warning),
    };
    out.add_changing(state, style, 14, "● live, 9 s old");
    if let Some(name) = &model.frame.reading {
        out.add(format!("… reading {} to compare", fit(name, NAMES)), theme.warning, 14);
    }
    let retention = model.retention();
    if !samples_nothing {
        out.add(model.age_shown().unwrap_or_default(), theme.text, 10);
        // Without a known time span, the number of samples is less meaningful.
        let weight = if retention.is_some() { 7 } else { 12 };
        out.add_changing(model.counted_samples(answer.view.shown), theme.text, weight, "999,999 samples");
    }
    out.add(retention.map_or_else(String::new, |kept| format!("retention {}", clock(kept))), theme.dim, 12);
    let (lost, share) = answer.ledger.lost_samples();
    let lost_text = match lost {
        0 => format!("lost 0{}", answer.ledger.or_more()),
        n => format!("lost {}{} ({})", thousands(n), answer.ledger.or_more(), percent(share)),
    };
    out.add(lost_text, if lost > 0 { theme.error } else { theme.dim }, 11);
    let (lost, share) = answer.ledger.lost_unit_records();
    if lost > 0 {
        out.add(format!("units lost {} ({})", thousands(lost), percent(share)), theme.error, 4);
    }
    if model.context.slow {
        out.add("slow link".to_owned(), theme.warning, 8);
    }
    if let Some(rate) = model.context.bytes_a_second {
        out.add(format!("screen {}/s", bytes(rate as u64)), theme.dim, 10);
    }
    if model.context.info.origin == Origin::Live {
        let cost = answer.cost.own_percent;
        let style = if cost > 10.0 { theme.warning } else { theme.dim };
        out.add_changing(format!("own cost {cost:.1} %"), style, 2, "own cost 10.0 %");
    }
    out.list
}

/// Maximum width of a name in the header, to leave room for more important parts.
const NAMES: usize = 24;

/// The weight of the rate, which is adjacent to its event.
const RATE: u8 = 6;
/// The width from which parts have room for larger figures.
const ROOMY: u16 = 60;

/// Returns the languages whose functions are frames, and how they are shown if not by default.
fn languages(interpreted: &InterpretedFigures) -> String {
    let mut text: String = interpreted.languages().map(|language| format!("+{}", language.name())).collect();
    match interpreted.shown {
        Interpreters::Off => text.clear(),
        shown @ (Interpreters::Both | Interpreters::Only) if !text.is_empty() => {
            text.push_str(&format!(" ({})", shown.word()));
        }
        Interpreters::Auto | Interpreters::Both | Interpreters::Only => {}
    }
    text
}

/// Returns the machine's name, the names of a few, or their number.
fn hosts(model: &Model) -> String {
    let names: Vec<&str> = model.context.info.hosts.iter().map(|(_, host)| &*host.name).collect();
    if names.len() > 3 { format!("{} hosts", names.len()) } else { names.join(" ") }
}

fn rate(model: &Model) -> String {
    let running = model.context.meter(model.selection.event).map(|meter| meter.state.rate);
    let recorded = || model.recorded_event().map(|e| Rate::of(&e.attr)).filter(|rate| *rate != Rate::Period(0));
    running.or_else(recorded).map(describe_rate).unwrap_or_default()
}

/// Describes the target, which may have changed since the start. For a recording, returns its file name.
fn target(model: &Model) -> String {
    if model.context.info.origin == Origin::Live {
        return fit_end(&clean(&model.context.answer.target), NAMES).into_owned();
    }
    let text = clean(&model.context.info.target);
    // Show the name of a file, but an address as a whole.
    let name = text.rsplit('/').next().filter(|name| !name.is_empty() && !text.contains("://")).unwrap_or(&text);
    fit(name, NAMES).into_owned()
}

/// Describes the progress of reading a recording, with the remaining time.
fn loading(model: &Model) -> String {
    let Some(progress) = model.context.answer.progress else { return "… loading".into() };
    if progress.all == 0 {
        return format!("… reading, {} so far", bytes(progress.done));
    }
    let share = 100 * progress.done / progress.all;
    let left = progress.left_ns().map_or_else(String::new, |ns| format!(", {} s left", ns.div_ceil(1_000_000_000)));
    format!("… loading {share} % of {}{left}  Esc stops", bytes(progress.all))
}

/// Draws the most urgent message on every screen, with the keys that go to its subject and dismiss it.
pub(crate) fn banner(model: &Model, on: &mut Canvas<'_>) {
    let Some(banner) = model.shown_banner() else { return };
    let key = |row: &Command| model.context.keymap.key_of(row).map(shown);
    let keys = [(&program::FINDING, "goes there"), (&program::DISMISS, "dismisses")];
    let keys: Vec<String> = keys.iter().filter_map(|(row, words)| Some(format!("  {} {words}", key(row)?))).collect();
    let style = if banner.urgent { on.theme.error } else { on.theme.warning };
    let (text, more) = (clean(&banner.text), clean(&banner.more));
    let cells = usize::from(on.area.width);
    let room = |keys: &str| cells.saturating_sub(2 + width(&more) + width(keys));
    // The subject matters more than the key that dismisses it.
    let all = keys.concat();
    let keys = if width(&text) <= room(&all) { all } else { keys.into_iter().next().unwrap_or_default() };
    let mut x = 1 + on.put(1, 0, &fit_end(&text, room(&keys)), style);
    x += on.put(x, 0, &more, style);
    on.put(x, 0, &keys, on.theme.key);
}
