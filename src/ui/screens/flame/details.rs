//! The frames of a flame graph in words: the one under the cursor, and all drawn ones as text.

use crate::lang::counted;
use crate::panel::function_name::fit_function;
use crate::panel::text::{clean, width};
use crate::panel::unit::{duration, percent, thousands};
use crate::query::diff::Verdict;
use crate::query::flame::WeightPair;
use crate::query::flame::layout::{Flame, FlameBlock};
use crate::query::rows::top_table as panel;
use crate::ui::screens::flame::blocks::{cold, row_diff};
use crate::ui::screens::flame::state::FlameState;
use crate::ui::state::Model;
use crate::ui::widgets::Canvas;

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
            model.described_weight(block.total.new)
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
            model.described_weight(block.total.new),
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
        model.described_weight(block.total.new)
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
