//! Draws the blocks of a flame graph: their colours, labels, and the bars of a comparison.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::panel::function_name::fit_function;
use crate::panel::stacks::DIVIDER;
use crate::panel::text::{clean, fit, width};
use crate::panel::unit::{duration, percent, thousands};
use crate::profile::frames::INLINED;
use crate::query::ChainMode;
use crate::query::diff::{NormalizeBy, RowDiff, Verdict};
use crate::query::flame::layout::{Flame, FlameBlock};
use crate::query::flame::{Class, WeightPair};
use crate::query::rows::top_table as panel;
use crate::ui::screens::flame::state::FlameState;
use crate::ui::state::Model;
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;

const EIGHTHS: [&str; 8] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Returns whether the graph shows time on and off CPUs instead of a comparison.
pub(super) fn cold(model: &Model) -> bool {
    model.context.answer.question.baseline.as_ref().is_some_and(|b| b.event.is_some())
}

/// Draws a block; an edge inside a cell has the colour of the `next` block on the right.
pub(super) fn block(
    model: &Model,
    view: &FlameState,
    flame: &Flame,
    block: &FlameBlock,
    next: Option<&FlameBlock>,
    selected: bool,
    on: &mut Canvas<'_>,
) {
    let style = style_of(model, view, flame, block, selected, on.theme);
    let fine = on.theme.fine && !selected;
    // Whole cells; the block on the left draws an edge inside a cell.
    let (from, to) = if fine { (block.x0.div_ceil(8), block.x1 / 8) } else { (round(block.x0), round(block.x1)) };
    let (from, to) = (from as u16, (to as u16).min(on.area.width));
    for x in from..to {
        on.buffer[(on.area.x + x, on.area.y)].set_symbol(" ").set_style(style);
    }
    if fine && !block.x1.is_multiple_of(8) && block.x1 / 8 < u32::from(on.area.width) {
        let right = next.map(|n| style_of(model, view, flame, n, false, on.theme)).unwrap_or_default();
        let edge = Style { fg: style.bg, bg: right.bg, ..Style::default() };
        let cell = &mut on.buffer[(on.area.x + (block.x1 / 8) as u16, on.area.y)];
        cell.set_symbol(EIGHTHS[(block.x1 % 8) as usize]).set_style(edge);
    }
    let room = usize::from(to.saturating_sub(from));
    if room == 0 {
        return;
    }
    let area = Rect { x: on.area.x + from, width: room as u16, ..on.area };
    if let Some(verdict) = block.verdict.filter(|_| !cold(model)) {
        let bar = (flame.changed(block.total).abs() * room as f64).round() as u16;
        let bar_style = match verdict {
            Verdict::Noise => on.theme.same.add_modifier(Modifier::DIM),
            real => on.theme.verdict(real).0,
        };
        for x in (from..from + bar).filter(|_| !selected) {
            on.buffer[(on.area.x + x, on.area.y)].set_style(bar_style);
        }
        return changed(flame, block, verdict, &mut on.part(area));
    }
    if cold(model) {
        let part = block.total.old.period as f64 / (block.total.old.period + block.total.new.period).max(1) as f64;
        let off = (part * room as f64).round() as u16;
        for x in (to - off..to).filter(|_| !selected) {
            on.buffer[(on.area.x + x, on.area.y)].set_symbol("░").set_style(on.theme.cold);
        }
        return over(&on_and_off(block, room, on.theme), &mut on.part(area));
    }
    let ipc = view.by_ipc.then(|| flame.ipc(block.total)).flatten();
    let share = match model.selection.rows.chain_mode {
        ChainMode::Fractal => block.total.percent_of(&block.parent),
        ChainMode::Graph => model.context.answer.view.displayed(block.total.percent_of(&flame.total)),
    };
    label((block, share), ipc, style, &mut on.part(area));
}

/// Draws a block of a unit's flame graph: whole cells, name and share of the total. Frames without a file are words,
/// such as a thread or an activity.
pub(crate) fn plain(block: &FlameBlock, whole: &WeightPair, selected: bool, on: &mut Canvas<'_>) {
    let word = (block.class == Class::Unknown && block.dso.is_empty())
        .then(|| FlameBlock { class: Class::Thread, ..block.clone() });
    let block = word.as_ref().unwrap_or(block);
    let style = ground(block, on.theme);
    let style = if selected { style.patch(on.theme.selected).add_modifier(Modifier::BOLD) } else { style };
    let (from, to) = (round(block.x0) as u16, (round(block.x1) as u16).min(on.area.width));
    for x in from..to {
        on.buffer[(on.area.x + x, on.area.y)].set_symbol(" ").set_style(style);
    }
    let room = to.saturating_sub(from);
    if room > 0 {
        let at = Rect { x: on.area.x + from, width: room, ..on.area };
        match &*block.name {
            DIVIDER => drop(on.part(at).put(0, 0, &"─".repeat(usize::from(room)), style)),
            _ => label((block, block.total.percent_of(whole)), None, style, &mut on.part(at)),
        }
    }
}

fn round(x: u32) -> u32 {
    (x + 4) / 8
}

fn style_of(
    model: &Model,
    view: &FlameState,
    flame: &Flame,
    block: &FlameBlock,
    selected: bool,
    theme: &Theme,
) -> Style {
    let mut style = if block.verdict.is_some() && !cold(model) {
        theme.unchanged(shade(&block.name))
    } else if view.by_ipc && flame.partner.is_some() {
        flame.ipc(block.total).map_or(theme.others, |ipc| theme.ipc(ipc))
    } else {
        ground(block, theme)
    };
    if block.found {
        style = style.patch(theme.found);
    } else if view.find.is_some() && !selected {
        style = style.add_modifier(Modifier::DIM);
    }
    if selected { style.patch(theme.selected).add_modifier(Modifier::BOLD) } else { style }
}

/// Returns the colour of a block: the module's if all its functions belong to one, none for other pooled blocks.
fn ground(block: &FlameBlock, theme: &Theme) -> Style {
    match (block.is_module(), block.pooled) {
        (true, _) => theme.block(block.class, shade(&block.dso)),
        (false, 0) => theme.block(block.class, shade(&block.name)),
        (false, _) => theme.others,
    }
}

/// A function has the same shade everywhere.
fn shade(name: &str) -> usize {
    use std::hash::BuildHasher;
    (rustc_hash::FxBuildHasher.hash_one(name) >> 40) as usize
}

fn label((block, share): (&FlameBlock, f64), ipc: Option<f64>, style: Style, on: &mut Canvas<'_>) {
    let room = usize::from(on.area.width);
    let short = percent(share);
    let short = ipc.map_or_else(|| short.clone(), |ipc| format!("{ipc:.2} IPC  {short}"));
    let share = match block.processes {
        0 | 1 => short.clone(),
        n => format!("{short} ({} processes)", thousands(n as u64)),
    };
    // Without colours, an edge must be a character.
    let edge = if on.theme.fine { "" } else { "│" };
    let mark = if block.pooled > 0 && !block.is_module() { '░' } else { block.class.letter() };
    let text = match room {
        0..=2 => edge.to_owned(),
        3..=5 => ipc.map_or_else(|| format!("{edge}{mark}"), |ipc| fit(&format!("{edge}{ipc:.1}"), room).into_owned()),
        _ => {
            let head = format!("{edge}{mark} ");
            let left = room.saturating_sub(width(&head) + 1);
            // The letter already marks inlined functions.
            let name = clean(block.name.strip_suffix(INLINED).unwrap_or(&block.name)).into_owned();
            let names = ways(block, &name);
            let shared = names.iter().flat_map(|name| {
                let alone = ipc.map(|ipc| format!("{name}  {ipc:.2} IPC"));
                [Some(format!("{name}  {share}")), Some(format!("{name}  {short}")), alone].into_iter().flatten()
            });
            let fitting = shared.chain(names.iter().cloned()).find(|text| width(text) <= left);
            let name = fitting.unwrap_or_else(|| fit_function(&name, left).into_owned());
            format!("{head}{name}")
        }
    };
    on.put(0, 0, &text, style);
}

/// Returns a block's name after those that share its row, in forms of decreasing length.
fn ways(block: &FlameBlock, name: &str) -> Vec<String> {
    let Some(first) = block.chain.first() else { return vec![name.to_owned()] };
    let whole: Vec<_> = block.chain.iter().map(|name| clean(name)).collect();
    let (first, whole) = (clean(first), whole.join(" › "));
    let mut ways = vec![format!("{whole} › {name}")];
    if block.chain.len() > 1 {
        ways.push(format!("{first} › … › {name}"));
    }
    ways.extend([format!("… › {name}"), name.to_owned()]);
    ways
}

/// Draws sign, name and difference of a compared block over its colours.
fn changed(flame: &Flame, block: &FlameBlock, verdict: Verdict, on: &mut Canvas<'_>) {
    let edge = if on.theme.fine { "" } else { "│" };
    let room = usize::from(on.area.width);
    let delta = panel::delta(&row_diff(flame, block, verdict));
    let text = match room {
        0..=1 => edge.to_owned(),
        2..=5 => format!("{edge}{}", verdict.sign()),
        _ => {
            let name = clean(&block.name).into_owned();
            let left = room.saturating_sub(width(edge) + 1);
            let long = format!("{delta}  {name}");
            let short = || format!("{} {}", verdict.sign(), fit_function(&name, left.saturating_sub(2)));
            let text = if width(&long) <= left { long } else { short() };
            format!("{edge}{}", fit(&text, left))
        }
    };
    over(&text, on);
}

/// Writes over existing colours. Wide characters were removed from the text before.
fn over(text: &str, on: &mut Canvas<'_>) {
    for (cell, c) in (on.area.x..).zip(text.chars().take(usize::from(on.area.width))) {
        on.buffer[(cell, on.area.y)].set_char(c);
    }
}

/// Returns name and times of a block with time on and off CPUs.
fn on_and_off(block: &FlameBlock, room: usize, theme: &Theme) -> String {
    let edge = if theme.fine { "" } else { "│" };
    let mark = block.class.letter();
    match room {
        0..=1 => edge.to_owned(),
        2..=5 => format!("{edge}{mark}"),
        _ => {
            let name = clean(&block.name).into_owned();
            let left = room.saturating_sub(width(edge) + 3);
            let times =
                format!("{name}  on {}, off {} ", duration(block.total.new.period), duration(block.total.old.period));
            let text = if width(&times) <= left { times } else { fit_function(&name, left).into_owned() };
            format!("{edge}{mark} {text}")
        }
    }
}

/// Returns a block's current and previous totals in the unit of the comparison.
pub(super) fn row_diff(flame: &Flame, block: &FlameBlock, verdict: Verdict) -> RowDiff {
    let (old, new) = flame.values(block.total);
    RowDiff { old, new, verdict, per: flame.compared.map_or(NormalizeBy::Total, |compared| compared.per) }
}
