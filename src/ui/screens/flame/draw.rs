//! Draws a flame graph: one row of cells per frame depth, with edges at eighths of a cell if colours allow it.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::lang::counted;
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
use crate::query::search::shown;
use crate::ui::screens::flame::state::{FlameState, LEGEND};
use crate::ui::screens::top::draw as table;
use crate::ui::state::Model;
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;

/// Returns the graph's part of the screen: without the lines above and below.
pub(crate) fn graph(area: Rect) -> Rect {
    Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area }
}

pub(crate) fn draw(model: &Model, view: &FlameState, on: &mut Canvas<'_>) {
    let Some(flame) = model.context.answer.view.flame.clone() else {
        on.put(2, 1, "building the graph…", on.theme.dim);
        return;
    };
    head(model, view, &flame, on);
    legend(model, view, &flame, on);
    let place = graph(on.area);
    if flame.blocks.is_empty() {
        if flame.total.is_zero() {
            table::empty(model, &mut on.part(place));
        } else {
            let dim = on.theme.dim;
            on.part(place).put(1, 1, "no frames left: ⌫ undoes the last step", dim);
        }
        return;
    }
    let selected = view.index(&flame);
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); usize::from(place.height)];
    for (i, block) in flame.blocks.iter().enumerate() {
        if let Some(y) = view.y_of(&flame, block.row, place.height) {
            rows[usize::from(y)].push(i);
        }
    }
    for (y, mut row) in (0..place.height).zip(rows) {
        row.sort_by_key(|i| flame.blocks[*i].x0);
        for (at, i) in row.iter().enumerate() {
            let block = &flame.blocks[*i];
            let next = row.get(at + 1).map(|n| &flame.blocks[*n]).filter(|n| n.x0 == block.x1);
            one(model, view, &flame, block, next, selected == Some(*i), &mut on.part(place).line(y));
        }
    }
}

/// Draws the path to the zoomed frame, and the drawn share.
fn head(model: &Model, view: &FlameState, flame: &Flame, on: &mut Canvas<'_>) {
    let mut path: Vec<String> = vec!["all".into()];
    path.extend(flame.zoom.iter().map(|n| clean(n).into_owned()));
    let words = view.edits_as_commands();
    let edits = if words.is_empty() { String::new() } else { format!("  [{}]", words.join(", ")) };
    let hidden = view.hidden_rows(flame, graph(on.area).height);
    let hidden = hidden.map_or_else(String::new, |(rows, sign)| format!("{sign} {}  ", counted(rows.into(), "row")));
    let taken = width(&path.join(" › ")) + width(&edits) + width(&hidden) + 4;
    let right = format!("{hidden}{}{edits}", drawn(model, flame, usize::from(on.area.width).saturating_sub(taken)));
    let room = usize::from(on.area.width).saturating_sub(width(&right) + 4);
    // The end of a path is more informative than its start.
    let mut text = path.join(" › ");
    while width(&text) > room && path.len() > 2 {
        path.remove(1);
        text = format!("all › … › {}", path[1..].join(" › "));
    }
    on.put(1, 0, &fit(&text, room), on.theme.title);
    on.put(on.area.width.saturating_sub(width(&right) as u16 + 1), 0, &right, on.theme.dim);
}

fn legend(model: &Model, view: &FlameState, flame: &Flame, on: &mut Canvas<'_>) {
    let y = on.area.height.saturating_sub(1);
    // The search result has priority over the legend.
    let found = found(model, view, flame);
    let left = on.area.width.saturating_sub(found.as_ref().map_or(0, |text| width(text) as u16 + 2));
    let theme = on.theme;
    let colours = &mut on.part(Rect { width: left, ..on.area });
    let mut x = 1;
    if cold(model) {
        x += colours.put(x, y, " ░ ", theme.cold);
        x += colours.put(x, y, " off the CPUs ", theme.dim) + 1;
    } else if flame.compared.is_some() {
        x = signs(model, colours);
    }
    let by_ipc = view.by_ipc && flame.partner.is_some() && flame.compared.is_none();
    if by_ipc {
        x += colours.put(x, y, "instructions per cycle ", theme.dim);
        for (from, word) in IPC_LEGEND {
            x += colours.put(x, y, &format!(" {word} "), theme.ipc(*from)) + 1;
        }
        colours.put(x, y, " too few samples ", theme.others);
    }
    let has = |class| flame.blocks.iter().any(|block| block.class == class);
    // Not every graph has frames of these; a program has either code of a JIT or of a language.
    let shown_classes = LEGEND.iter().filter(|(class, _)| match class {
        Class::Inlined | Class::Interpreted => has(*class),
        Class::Jit => has(Class::Jit) || !has(Class::Interpreted),
        _ => true,
    });
    for (class, word) in shown_classes.filter(|_| !by_ipc && (flame.compared.is_none() || cold(model))) {
        // Omit truncated words.
        if x + 4 + width(word) as u16 > left {
            break;
        }
        x += colours.put(x, y, &format!(" {} ", class.letter()), theme.block(*class, 0));
        x += colours.put(x, y, &format!(" {word}"), theme.dim) + 1;
    }
    if let Some(text) = found {
        on.put(left + 1, y, &text, theme.found);
    }
}

/// The legend of IPC colours, with a representative value of each.
const IPC_LEGEND: &[(f64, &str)] = &[(0.0, "< 0.5"), (0.5, "< 1"), (1.0, "< 1.5"), (1.5, "< 2"), (2.0, "2 and more")];

/// Describes the matches of a search, with the keys to go through them.
fn found(model: &Model, view: &FlameState, flame: &Flame) -> Option<String> {
    let (text, (acc, frames)) = (shown(view.find.as_ref()?), flame.found.as_ref()?);
    let share = percent(model.context.answer.view.displayed(acc.percent_of(&flame.total)));
    Some(format!("/{text}  {share} of all, {}  n N", counted(*frames as u64, "frame")))
}

/// Whether the graph shows time on and off CPUs instead of a comparison.
fn cold(model: &Model) -> bool {
    model.context.answer.question.baseline.as_ref().is_some_and(|b| b.event.is_some())
}

/// Describes the drawn share, as detailed as there is room.
fn drawn(model: &Model, flame: &Flame, room: usize) -> String {
    if flame.total.is_zero() {
        return String::new();
    }
    let short = format!("drawn {}", percent(flame.drawn));
    let named = format!("{short}, {} to the function", percent(flame.named));
    let whole = format!("{named}, of {}", model.counted_samples(flame.zoomed.new));
    [whole, named].into_iter().find(|text| width(text) <= room).unwrap_or(short)
}

/// Draws the legend of a comparison's bars and signs.
fn signs(model: &Model, on: &mut Canvas<'_>) -> u16 {
    let y = on.area.height.saturating_sub(1);
    let mut x = 1;
    let list = [
        (Verdict::Grew, "grew"),
        (Verdict::Shrank, "shrank"),
        (Verdict::New, "new"),
        (Verdict::Gone, "gone"),
        (Verdict::Noise, "by chance (z, 95 %)"),
    ];
    for (verdict, word) in list {
        x += on.put(x, y, &format!(" {} ", verdict.sign()), on.theme.verdict(verdict).0);
        x += on.put(x, y, &format!(" {word} "), on.theme.dim) + 1;
    }
    let text = format!("width old + new, bar the difference, in {}", model.selection.per.unit_label());
    x + on.put(x, y, &text, on.theme.dim) + 2
}

const EIGHTHS: [&str; 8] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

fn one(
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
fn row_diff(flame: &Flame, block: &FlameBlock, verdict: Verdict) -> RowDiff {
    let (old, new) = flame.values(block.total);
    RowDiff { old, new, verdict, per: flame.compared.map_or(NormalizeBy::Total, |compared| compared.per) }
}

/// Draws the line under the graph: details of the frame under the cursor.
pub(crate) fn details(model: &Model, view: &FlameState, on: &mut Canvas<'_>) {
    if let Some(text) = model.context.answer.view.flame.as_ref().and_then(|flame| details_text(model, view, flame)) {
        on.put(1, 0, &text, on.theme.text);
    }
}

fn details_text(model: &Model, view: &FlameState, flame: &Flame) -> Option<String> {
    let block = view.block(flame)?;
    let room = usize::from(model.frame.size.0).saturating_sub(2);
    if block.pooled > 0 {
        let of = if block.is_module() { format!(" of {}", clean(&block.dso)) } else { String::new() };
        return Some(format!(
            "{}{of}, each too narrow to draw: {} of all, {}; ⏎ on their caller makes room",
            counted(block.pooled as u64, "function"),
            percent(model.context.answer.view.displayed(block.total.percent_of(&flame.total))),
            model.counted_samples(block.total.new)
        ));
    }
    if cold(model) {
        let whole = flame.total;
        let all = (whole.new.period + whole.old.period).max(1);
        let both = block.total.new.period + block.total.old.period;
        let figures = format!(
            "on {}  off {}  together {}  {}, {}",
            duration(block.total.new.period),
            duration(block.total.old.period),
            percent(100.0 * both as f64 / all as f64),
            model.counted_samples(block.total.new),
            counted(block.total.old.samples, "wait")
        );
        return Some(named(block, &figures, room));
    }
    if let Some(verdict) = block.verdict {
        return Some(compared(model, flame, (block, verdict), room));
    }
    // Show shares of other totals only if they differ from the overall total.
    let part = |of: &WeightPair, word: &str| match *of == flame.total {
        true => String::new(),
        false => format!("  of {word} {}", percent(block.total.percent_of(of))),
    };
    let all = |weight: &WeightPair| percent(model.context.answer.view.displayed(weight.percent_of(&flame.total)));
    let ipc = flame.ipc(block.total).map_or_else(String::new, |ipc| format!("  IPC {ipc:.2}"));
    let figures = format!(
        "total {}  self {}{}{}  {}{ipc}",
        all(&block.total),
        all(&block.own),
        part(&block.parent, "parent"),
        part(&flame.zoomed, "zoom"),
        model.counted_samples(block.total.new)
    );
    Some(named(block, &figures, room))
}

fn named(block: &FlameBlock, figures: &str, room: usize) -> String {
    let dso = if block.dso.is_empty() { String::new() } else { format!(" [{}]", block.dso.trim_matches(['[', ']'])) };
    let before = match block.chain.len() {
        0 => String::new(),
        1 => "1 frame › ".to_owned(),
        n => format!("{n} frames › "),
    };
    let room = room.saturating_sub(width(figures) + 2).max(room / 3);
    // The function's own name is dropped last.
    let ways = [format!("{before}{}{dso}", block.name), format!("{}{dso}", block.name), block.name.to_string()];
    let mut ways = ways.iter().map(|text| clean(text));
    let name = ways.find(|text| width(text) <= room).unwrap_or_else(|| clean(&block.name));
    let name = fit_function(&name, room);
    format!("{name}  {figures}")
}

fn compared(model: &Model, flame: &Flame, (block, verdict): (&FlameBlock, Verdict), room: usize) -> String {
    let diff = row_diff(flame, block, verdict);
    let (old, new) = model.context.answer.view.sides.unwrap_or_default();
    let figures = format!(
        "{}  {}  old {}  new {}  samples {} → {}",
        panel::delta(&diff),
        verdict.word(),
        panel::value(diff.old, diff.per).text(),
        panel::value(diff.new, diff.per).text(),
        thousands(old.samples(block.total.old)),
        thousands(new.samples(block.total.new))
    );
    named(block, &figures, room)
}

/// Returns the graph as text: an indented tree of the drawn frames, with shares of the total.
pub(crate) fn text(model: &Model, view: &FlameState, flame: &Flame) -> String {
    let mut out = String::new();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); flame.blocks.len()];
    let mut roots = Vec::new();
    for (i, block) in flame.blocks.iter().enumerate() {
        match block.below {
            Some(below) => children[below].push(i),
            None => roots.push(i),
        }
    }
    let mut stack: Vec<(usize, usize)> = roots.into_iter().rev().map(|i| (i, 0)).collect();
    while let Some((i, depth)) = stack.pop() {
        let block = &flame.blocks[i];
        let share = match block.verdict {
            Some(verdict) => panel::delta(&row_diff(flame, block, verdict)),
            None => percent(model.context.answer.view.displayed(block.total.percent_of(&flame.total))),
        };
        let chain = block.chain.iter().chain([&block.name]).map(|name| &**name).collect::<Vec<_>>().join(" › ");
        out.push_str(&format!("{share:>11}  {}{}\n", "  ".repeat(depth), clean(&chain)));
        stack.extend(children[i].iter().rev().map(|c| (*c, depth + 1)));
    }
    let words = view.edits_as_commands();
    if !words.is_empty() {
        out.push_str(&format!("# {}\n", words.join(", ")));
    }
    out
}
