//! The two lines at the top: source, target, quality of the data, and the current view.

use ratatui::style::Style;

use crate::event::{CallGraph, Interpreters};
use crate::lang::counted;
use crate::machine::sampler::CpuRow;
use crate::panel::text::{clean, fit, fit_end, width};
use crate::panel::unit::{bytes, clock, cpus, percent, thousands};
use crate::query::diff::DiffSide;
use crate::session::Origin;
use crate::session::machine::Ticks;
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

/// Returns the command that shows a screen.
fn shown_by(tab: Tab) -> &'static Command {
    match tab {
        Tab::Overview => &program::OVERVIEW,
        Tab::Top => &program::TOP,
        Tab::Flame => &program::FLAME,
        Tab::Time => &program::TIME,
        Tab::Cpus => &program::CPUS,
        Tab::Events => &program::EVENTS,
        Tab::Units => &program::UNITS,
    }
}

/// Returns the importance of a screen's name: where room is short, the least important ones become digits first.
fn importance(tab: Tab) -> u8 {
    match tab {
        Tab::Overview => 0,
        Tab::Events => 1,
        Tab::Time => 2,
        Tab::Cpus => 3,
        Tab::Units => 4,
        Tab::Flame => 5,
        Tab::Top => 6,
    }
}

/// The width below which the overview is a digit unless it is shown.
const NARROW: u16 = 100;
/// The cells that tabs leave to filters or to the load.
const TRAIL: usize = 12;

/// Returns the screens that are digits because room is short.
fn unnamed_tabs(here: Tab, room: u16) -> Vec<Tab> {
    let mut used: usize = 1 + Tab::ALL.iter().map(|tab| width(tab.name()) + 4).sum::<usize>();
    let mut others: Vec<Tab> = Tab::ALL.iter().copied().filter(|tab| *tab != here).collect();
    others.sort_by_key(|tab| importance(*tab));
    let mut unnamed = Vec::new();
    for tab in others {
        // On a narrow screen, what is shown matters more than this name.
        let is_narrow = tab == Tab::Overview && room < NARROW;
        if is_narrow || used + TRAIL > usize::from(room) {
            used -= width(tab.name()) + 1;
            unnamed.push(tab);
        }
    }
    unnamed
}

/// Returns the screens with their names, or with digits alone if room is short.
fn tab_names(model: &Model, room: u16) -> impl Iterator<Item = (Tab, &'static Command, String)> {
    let here = model.frame.tab;
    let unnamed = unnamed_tabs(here, room);
    (0..).zip(Tab::ALL).map(move |(n, &tab)| {
        let name = if unnamed.contains(&tab) { n.to_string() } else { format!("{n} {}", tab.name()) };
        (tab, shown_by(tab), if tab == here { format!("[{name}]") } else { format!(" {name} ") })
    })
}

pub(crate) fn tab_at(model: &Model, room: u16, column: u16) -> Option<&'static Command> {
    let mut x = 1;
    let mut found = tab_names(model, room).map(|(_, row, name)| {
        x += width(&name) as u16;
        (row, x)
    });
    found.find(|(_, end)| (1..*end).contains(&column)).map(|(row, _)| row)
}

/// Draws the tab line: the screens, then the filters of the view or the load of the machine.
pub(crate) fn tabs(model: &Model, on: &mut Canvas<'_>) {
    let mut x = 1;
    for (tab, _, text) in tab_names(model, on.area.width) {
        let style = if tab == model.frame.tab { on.theme.title } else { on.theme.dim };
        x += on.put(x, 0, &text, style);
    }
    let trail = trail(model, true);
    let room = usize::from(on.area.width.saturating_sub(x + 3));
    let (right, style) = match trail.is_empty() {
        true => (machine(model, room + 1), on.theme.text),
        false => (narrowed(model, [trail, self::trail(model, false)], room), on.theme.warning),
    };
    let at = on.area.width.saturating_sub(width(&right) as u16 + 1).max(x);
    on.put(at, 0, &right, style);
}

/// Returns the steps that led to the view; `with_unit` adds the unit of a comparison.
fn trail(model: &Model, with_unit: bool) -> Vec<String> {
    let mut trail: Vec<String> = model.selection.zooms.iter().map(|z| z.label.clone()).collect();
    if let Some(filter) = &model.selection.filter {
        trail.push(format!("view: {}", filter.text()));
    }
    if let Some(mark) = &model.selection.baseline {
        let unit = if with_unit { format!(", {}", model.selection.per.unit_label()) } else { String::new() };
        trail.push(format!("against {}{unit}", mark.label));
    }
    trail
}

/// Whether a screen shows filtered samples; others show all.
fn is_narrowed(tab: Tab) -> bool {
    matches!(tab, Tab::Top | Tab::Flame | Tab::Time)
}

/// Describes the load that shares refer to, of the CPUs or the target, in the longest form that fits.
fn machine(model: &Model, room: usize) -> String {
    let (seen, all) = (model.context.answer.view.total, model.context.answer.view.shown);
    let whole = model.context.answer.target.is_empty() && model.context.answer.cpus.is_empty();
    let host = model
        .context
        .host
        .as_ref()
        .filter(|host| whole && !host.rows.is_empty() && model.context.answer.ended.is_none());
    let by_cpu = &model.context.answer.by_cpu;
    let used = model.context.answer.view.cpu_use;
    let of_target = model.context.info.origin == Origin::Live && !model.context.answer.target.is_empty();
    let words = match (host, by_cpu.busy) {
        (Some(host), _) => {
            let mean = |of: &dyn Fn(&CpuRow) -> f32| {
                let online = host.rows.iter().filter(|row| row.online);
                online.clone().map(of).sum::<f32>() / online.count().max(1) as f32
            };
            let share = |state: usize| mean(&|row| row.shares[state]);
            let busy = format!("CPU busy {:.0} %", mean(&CpuRow::busy));
            let user = share(Ticks::USER) + share(Ticks::NICE);
            let (system, soft) = (share(Ticks::SYSTEM), share(Ticks::IRQ) + share(Ticks::SOFTIRQ));
            let of = used.filter(|used| used.of_machine && used.sampled > 0);
            let of = of.map_or_else(String::new, |used| format!("shares of {}  ", counted(used.sampled as u64, "CPU")));
            vec![
                format!("{of}{busy}: user {user:.0}  system {system:.0}  softirq {soft:.0}"),
                format!("{of}{busy}"),
                busy,
            ]
        }
        (None, _) if used.is_some() && model.context.answer.cpus.is_empty() && is_narrowed(model.frame.tab) => {
            used.map(|used| used.words().to_vec()).unwrap_or_default()
        }
        (None, Some(busy)) if of_target => vec![cpus(busy / 100.0 * by_cpu.sampled as f64)],
        (None, Some(busy)) if !model.context.answer.cpus.is_empty() => {
            let of = |cpus: &str| format!("{cpus} busy {busy:.0} %");
            vec![of(&format!("CPU {}", model.context.answer.cpus)), of("these CPUs")]
        }
        (None, Some(busy)) => vec![format!("CPU busy {busy:.0} %")],
        (None, None) if model.selection.hide_idle && seen.period < all.period && is_narrowed(model.frame.tab) => {
            let hidden = format!("idle hidden: {}", percent(100.0 - seen.percent_of(&all)));
            vec![format!("{hidden} of samples"), hidden]
        }
        (None, None) => Vec::new(),
    };
    words.into_iter().find(|text| width(text) <= room).unwrap_or_default()
}

/// Describes the filters of the view, in a long or a brief form, and the share of samples that pass.
fn narrowed(model: &Model, trails: [Vec<String>; 2], room: usize) -> String {
    let (seen, all) = (model.context.answer.view.total, model.context.answer.view.shown);
    let by = trails.each_ref().map(|trail| clean(&format!("all › {}", trail.join(" › "))).into_owned());
    let is_part = all.samples > 0 && seen.samples < all.samples;
    let share = match is_part {
        true => format!("  shown: {} of samples", percent(seen.percent_of(&all))),
        false => String::new(),
    };
    let used = model.context.answer.view.cpu_use.filter(|_| is_narrowed(model.frame.tab));
    let words = used.map(|used| compared_use(model).map_or_else(|| used.words(), |words| [words.clone(), words]));
    let [long, brief] = words.map_or_else(Default::default, |words| words.map(|words| format!("  {words}")));
    // The CPU time goes before the share of samples, and its number before the steps that led here.
    let all = [format!("{share}{long}"), long, format!("{share}{brief}"), brief.clone()];
    let all = if used.is_some() { all.to_vec() } else { vec![share] };
    let mut ways = by.iter().flat_map(|by| all.iter().map(move |figures| format!("{by}{figures}")));
    let fitting = ways.find(|text| width(text) <= room);
    let [_, steps] = &trails;
    let is_compared = model.selection.baseline.is_some() && steps.len() > 1;
    fitting.unwrap_or_else(|| match is_compared {
        // A range that is compared goes before the CPU time of both sides.
        true => compared_steps(&by[1], steps, room),
        false => format!("{}{brief}", last_steps(&by[1], steps, room.saturating_sub(width(&brief)))),
    })
}

/// Returns the breadcrumb of a comparison, or its last steps. If room is short, the baseline is cut before the range.
fn compared_steps(whole: &str, steps: &[String], room: usize) -> String {
    let last = clean(&steps[steps.len().saturating_sub(2)..].join(" › ")).into_owned();
    let ways = [whole.to_owned(), format!("… › {last}")];
    ways.into_iter().find(|way| width(way) <= room).unwrap_or_else(|| fit_end(&last, room + 1).into_owned())
}

/// Describes the CPU time of both sides of a comparison, whose shares do not show whether the sum changed; `None` if
/// the samples tell no time.
fn compared_use(model: &Model) -> Option<String> {
    // Time off the CPUs is the other side of the flame graph, not a baseline.
    let is_off_cpu = model.selection.off_cpu && model.frame.tab == Tab::Flame;
    model.selection.baseline.as_ref().filter(|_| !is_off_cpu)?;
    let (old, new) = model.context.answer.view.sides?;
    let is_time = model.event().is_some_and(|event| event.meaning.unit.is_time());
    let used = |side: DiffSide| cpus(side.total.period as f64 / 1e9 / side.seconds);
    let is_known = is_time && old.seconds > 0.0 && new.seconds > 0.0;
    let now = model.context.answer.view.cpu_use?.cpus;
    is_known.then(|| format!("{} → {}", used(old), cpus(now)))
}

/// Returns the breadcrumb, or its last steps if room is short. A truncated one needs no trailing space.
fn last_steps(whole: &str, trail: &[String], room: usize) -> String {
    let from = |first: usize| clean(&format!("… › {}", trail[first..].join(" › "))).into_owned();
    let alone = trail.last().map(|step| clean(step).into_owned());
    let mut ways = std::iter::once(whole.to_owned()).chain((1..trail.len()).map(from)).chain(alone);
    let found = ways.find(|way| width(way) <= room + 1);
    let last = || if trail.len() > 1 { from(trail.len() - 1) } else { whole.to_owned() };
    found.unwrap_or_else(|| fit_end(&last(), room + 1).into_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_lose_their_names_one_by_one() {
        let named = |here: Tab, room: u16| {
            let unnamed = unnamed_tabs(here, room);
            Tab::ALL
                .iter()
                .map(|tab| tab.name())
                .filter(|name| !unnamed.iter().any(|tab| tab.name() == *name))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(named(Tab::Top, 100), "Overview Top Flame Time CPUs Events Units");
        assert_eq!(named(Tab::Top, 80), "Top Flame Time CPUs Events Units");
        assert_eq!(named(Tab::Overview, 80), "Overview Top Flame Time CPUs Events Units");
        assert_eq!(named(Tab::Top, 60), "Top Flame Time CPUs Units");
        assert_eq!(named(Tab::Events, 60), "Top Flame Events Units");
        assert_eq!(named(Tab::Flame, 50), "Top Flame Units");
        for room in [0, 20, 40] {
            assert_eq!(named(Tab::Flame, room), "Flame");
        }
    }

    #[test]
    fn the_range_of_a_comparison_is_cut_last() {
        let steps = ["comm nginx", "1.000–2.000 s", "against 0.000–1.000 s"].map(str::to_owned);
        let at = |room| compared_steps(&format!("all › {}", steps.join(" › ")), &steps, room);
        assert_eq!(at(60), "all › comm nginx › 1.000–2.000 s › against 0.000–1.000 s");
        assert_eq!(at(45), "… › 1.000–2.000 s › against 0.000–1.000 s");
        assert!(at(25).starts_with("1.000–2.000 s › against") && width(&at(25)) <= 26, "{}", at(25));
    }
}
