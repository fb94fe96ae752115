//! Draws a flame graph: one row of cells per frame depth, with edges at eighths of a cell if colours allow it.

use ratatui::layout::Rect;

use crate::lang::counted;
use crate::panel::text::{clean, fit, width};
use crate::panel::unit::percent;
use crate::query::diff::Verdict;
use crate::query::flame::Class;
use crate::query::flame::layout::Flame;
use crate::query::search::shown;
use crate::ui::screens::flame::blocks::{self, cold};
use crate::ui::screens::flame::state::{FlameState, LEGEND};
use crate::ui::screens::top::draw as table;
use crate::ui::state::Model;
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
            blocks::block(model, view, &flame, block, next, selected == Some(*i), &mut on.part(place).line(y));
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

/// Describes the drawn share, as detailed as there is room.
fn drawn(model: &Model, flame: &Flame, room: usize) -> String {
    if flame.total.is_zero() {
        return String::new();
    }
    let short = format!("drawn {}", percent(flame.drawn));
    let named = format!("{short}, {} to the function", percent(flame.named));
    let whole = format!("{named}, of {}", model.described_weight(flame.zoomed.new));
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
