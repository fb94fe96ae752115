//! An annotated function: shares, addresses and instructions with their source lines.

use crate::lang::counted;
use crate::panel::function_name::fit_function;
use crate::panel::text::{clean, fit, fit_end, width};
use crate::panel::unit::percent;
use crate::query::annotate::ListingRow;
use crate::query::annotate::listing::{hex, instruction, source};
use crate::symbols::code::Listing;
use crate::ui::screens::annotate::state::Annotated;
use crate::ui::widgets::Canvas;

/// The title line.
const FRAME: u16 = 1;
/// Width of the instruction bytes: eight of them.
const BYTES: usize = 24;

pub(crate) fn room(height: u16) -> usize {
    usize::from(height.saturating_sub(FRAME))
}

pub(crate) fn draw(screen: &Annotated, on: &mut Canvas<'_>) {
    on.clear();
    title(screen, on);
    match &screen.listing {
        None => {
            on.put(2, 2, "annotating …", on.theme.dim);
        }
        Some(Err(why)) => {
            let lines = crate::panel::text::wrap(&clean(why), usize::from(on.area.width.saturating_sub(4)));
            for (y, line) in (2..).zip(lines) {
                on.put(2, y, &line, on.theme.error);
            }
        }
        Some(Ok(listing)) => body(screen, listing, on),
    }
}

fn title(screen: &Annotated, on: &mut Canvas<'_>) {
    let hits = &screen.hits;
    let share = percent(hits.own.percent_of(&hits.total));
    let (samples, noun) = hits.samples(hits.own);
    let right = format!("{}, {share} of what is shown", counted(samples, noun));
    let note = match &screen.listing {
        Some(Ok(listing)) => listing.notes.first().map(|note| format!("  {note}")).unwrap_or_default(),
        _ => String::new(),
    };
    let (name, dso) = (clean(&screen.target.function), clean(&screen.target.dso));
    // The function's name has priority over its file and other details.
    let room = usize::from(on.area.width).saturating_sub(width(&right) + 4);
    let left = room.saturating_sub(width(&name) + 2);
    let name = match left {
        left if left < 8 => fit_function(&name, room).into_owned(),
        left => format!("{name}  {}", fit(&dso, left)),
    };
    let right = if width(&name) + width(&note) <= room { right + &note } else { right };
    let mut x = 1;
    x += on.put(x, 0, &name, on.theme.title) + 2;
    on.put(x, 0, &right, on.theme.text);
}

fn body(screen: &Annotated, listing: &Listing, on: &mut Canvas<'_>) {
    let (theme, area) = (on.theme, on.area);
    let arrow = screen.arrow();
    let rows = (1..area.height).zip((screen.top..).zip(screen.rows.iter().skip(screen.top)));
    for (y, (at, row)) in rows {
        let here = at == screen.cursor;
        let style = |normal| if here { theme.selected } else { normal };
        if here {
            on.put(0, y, &" ".repeat(usize::from(area.width)), theme.selected);
        }
        let rest = |x: u16| usize::from(area.width.saturating_sub(x + 1));
        match row {
            ListingRow::Source { line, text, .. } => {
                let text = text.as_deref().map(source).unwrap_or_default();
                let shown = format!("{}  {text}", clean(&line.short()));
                on.put(23, y, &fit_end(&shown, rest(23)), style(theme.dim));
            }
            ListingRow::Code { index, own, percent } => {
                let one = &listing.instructions[*index];
                if own.samples > 0 {
                    let share = format!("{percent:>6.2}");
                    on.put(1, y, &share, style(theme.share(*percent)));
                }
                on.put(8, y, &format!("{:>10}", listing.place(*index)), style(theme.dim));
                on.put(19, y, arrow_part(arrow, at), style(theme.key));
                let mut x = 22;
                if screen.bytes {
                    let bytes = hex(&one.bytes);
                    on.put(x, y, &fit_end(&bytes, BYTES), style(theme.dim));
                    x += BYTES as u16 + 1;
                }
                on.put(x, y, &fit_end(&instruction(listing, *index), rest(x)), style(theme.text));
            }
        }
    }
}

fn arrow_part(arrow: Option<(usize, usize)>, row: usize) -> &'static str {
    let Some((from, to)) = arrow else { return "" };
    let (first, last) = (from.min(to), from.max(to));
    match row {
        _ if row == from && from == to => "↻",
        _ if row == to && to == first => "╭▸",
        _ if row == to => "╰▸",
        _ if row == from && from == first => "╭╴",
        _ if row == from => "╰╴",
        _ if first < row && row < last => "│",
        _ => "",
    }
}
