//! The text below the rows of the CPU screen: the cell under the cursor, anomalies, the machine, softirq durations.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ratatui::style::Style;

use crate::ingest::derived::softirq_times::{Handler, SECONDS};
use crate::machine::table::{CpuColumn, CpuFacts};
use crate::panel::series::LEVELS;
use crate::panel::text::{width, wrap};
use crate::panel::unit::{duration, percent, short};
use crate::query::heat::least_of;
use crate::session::Origin;
use crate::session::machine::quota::ThrottledGroup;
use crate::ui::screens::cpus::state::{ColumnPage, CpusState};
use crate::ui::state::Model;
use crate::ui::widgets::Canvas;

/// Draws the text below the rows, the most important lines first.
pub(crate) fn draw(model: &Model, view: &CpusState, facts: &CpuFacts<'_>, cpu: Option<u32>, on: &mut Canvas<'_>) {
    let Some(cpu) = cpu else { return };
    let mut lines: Vec<(String, Style)> = vec![(facts.cell_text(view.column, cpu), on.theme.text)];
    if model.context.info.hosts.are_many() {
        lines.push((
            format!("CPU {cpu} of all machines combined: open a single recording to see one machine"),
            on.theme.dim,
        ));
    }
    // The first finding is already shown at the top of the screen.
    let first = model.context.findings.first();
    let live = model.context.info.origin == Origin::Live;
    lines.extend(model.context.findings_of(cpu).map(|f| match first {
        Some(first) if first == f => (format!("! {}", f.kind.keys(live)), on.theme.error),
        _ => (format!("! {}: {}", f.text, f.kind.keys(live)), on.theme.error),
    }));
    lines.extend(describe_quota(facts).map(|text| (text, on.theme.warning)));
    if facts.samples.is_some() {
        lines.push((facts.cpu_text(cpu), on.theme.dim));
    }
    lines.push((legend(model, view, facts), on.theme.dim));
    if view.column != CpuColumn::Cpu && facts.host.is_some() {
        lines.push((facts.place_text(cpu), on.theme.dim));
    }
    lines.extend(describe_machine(facts).map(|text| (text, on.theme.dim)));
    // Wrap lines only as long as none is lost.
    let room = usize::from(on.area.width.saturating_sub(2));
    let broken: Vec<(String, Style)> = lines
        .iter()
        .flat_map(|(text, style)| {
            let whole = width(text) <= room;
            let parts = if whole { vec![text.clone()] } else { wrap(text, room) };
            parts.into_iter().map(|part| (part, *style))
        })
        .collect();
    let lines = if broken.len() <= usize::from(on.area.height) { broken } else { lines };
    let mut y = 0;
    for (text, style) in lines {
        on.put(1, y, &text, style);
        y += 1;
    }
    y += durations(view, facts, cpu, &mut on.below(y));
    notes(model, y, on);
}

/// Describes the figures of the matrix and their cost.
fn legend(model: &Model, view: &CpusState, facts: &CpuFacts<'_>) -> String {
    let page = view.page(facts);
    let mut text = format!("matrix: {}", page.title());
    match (page, facts.times) {
        (ColumnPage::Timed, Some(times)) if model.context.tracing => {
            text.push_str(&format!(
                "; {} events per second, reading them costs {:.1} % of a CPU",
                short(times.rate),
                times.own_cost
            ));
            if times.lost > 0 {
                text.push_str(&format!("; {} lost", short(times.lost as f64)));
            }
        }
        (ColumnPage::Sampled, _) if facts.host.is_some() => {
            text.push_str(&format!(" of the last {} s", facts.sampled_seconds()))
        }
        _ => {}
    }
    if model.context.tracing && facts.times.is_none() {
        text.push_str("; softirq times appear in a second");
    }
    text
}

fn describe_machine(facts: &CpuFacts<'_>) -> Option<String> {
    let host = facts.host?;
    let mut words = vec![format!("tasks: {} running or ready, {} waiting for a disk", host.running, host.blocked)];
    for (name, pressure) in &host.pressure {
        words.push(format!("{name} pressure {}", percent(f64::from(pressure.some.max(pressure.full)))));
    }
    if host.drops.0 + host.drops.1 > 0.0 {
        words.push(format!("devices drop {:.0} packets per second in, {:.0} out", host.drops.0, host.drops.1));
    }
    words.push(format!("reading /proc costs {:.2} % of a CPU", host.cost));
    Some(words.join(", "))
}

const MOST_GROUPS: usize = 3;

fn describe_quota(facts: &CpuFacts<'_>) -> Option<String> {
    let list = &facts.host?.quotas;
    let one = |group: &ThrottledGroup| {
        format!("{} {} of periods, {:.0} ms per second", group.name, percent(group.percent), group.ms)
    };
    let mut words: Vec<String> = list.iter().take(MOST_GROUPS).map(one).collect();
    words.extend((list.len() > MOST_GROUPS).then(|| format!("{} more", list.len() - MOST_GROUPS)));
    (!words.is_empty()).then(|| format!("throttled by their quotas: {}", words.join("; ")))
}

/// Draws the notes about figures that could not be read.
pub(crate) fn notes(model: &Model, from: u16, on: &mut Canvas<'_>) {
    let notes = model.context.host.iter().flat_map(|host| &host.notes);
    for (y, note) in (from..on.area.height).zip(notes) {
        on.put(1, y, note, on.theme.warning);
    }
}

/// Minimum height of a latency map.
const LEAST_MAP: u16 = 4;

/// Draws the durations of the cell as a histogram and, if there is room, over time. Returns the lines used.
fn durations(view: &CpusState, facts: &CpuFacts<'_>, cpu: u32, on: &mut Canvas<'_>) -> u16 {
    let histogram = facts.histogram(view.column, cpu).unwrap_or_default();
    let (Some((first, _)), Some((last, _))) = (histogram.first(), histogram.last()) else { return 0 };
    if on.area.height == 0 {
        return 0;
    }
    let bars: String = histogram.iter().map(|(_, level)| LEVELS[usize::from(*level)]).collect();
    on.put(1, 0, &format!("durations {first} {bars} {last}"), on.theme.text);
    let CpuColumn::Timed(vector) = view.column else { return 1 };
    let time = facts.times.and_then(|t| t.get(cpu, Handler::Softirq(vector as u32)));
    let Some(time) = time.filter(|_| on.area.height > LEAST_MAP) else { return 1 };
    1 + map(&time.map, &mut on.below(1))
}

/// Draws half octaves of durations over seconds: the longest at the top, the newest second at the right. The glyph of
/// a cell shows its number of runs, by powers of four.
fn map(seconds: &VecDeque<Arc<BTreeMap<u8, u32>>>, on: &mut Canvas<'_>) -> u16 {
    const GLYPHS: [char; 5] = ['·', '░', '▒', '▓', '█'];
    let used = || seconds.iter().flat_map(|second| second.keys()).copied();
    let (Some(low), Some(high)) = (used().min(), used().max()) else { return 0 };
    let rows = u16::from(high - low + 1).min(on.area.height);
    for y in 0..rows {
        let bucket = high - y as u8;
        on.put(1, y, &format!("{:>8}", duration(least_of(u32::from(bucket)))), on.theme.dim);
        let cells = usize::from(on.area.width.saturating_sub(12)).min(SECONDS);
        for (x, second) in (10..).zip(seconds.iter().skip(seconds.len().saturating_sub(cells))) {
            let count = second.get(&bucket).copied().unwrap_or(0);
            let level = (count.max(1).ilog2() / 2).min(4) as usize;
            let (glyph, style) = if count == 0 { (' ', on.theme.dim) } else { (GLYPHS[level], on.theme.bar) };
            on.put(x, y, &glyph.to_string(), style);
        }
    }
    rows
}
