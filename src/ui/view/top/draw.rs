//! The top table: heading, rows with bars, call chains as an indented tree.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::panel::text::{clean, fit, fit_end, width};
use crate::panel::top::Field;
use crate::panel::unit::thousands;
use crate::panel::{Align, Cell};
use crate::profile::frames::State;
use crate::query::Key;
use crate::query::answer::{Line, Mark};
use crate::query::lines::MAX_ROWS;
use crate::ui::app::App;
use crate::ui::theme::Theme;

use crate::ui::draw::layout::{Span, columns};
use crate::ui::draw::put;

/// Draws heading and lines.
pub fn draw(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let spans = columns(area.width, &app.fields());
    heading(app, theme, &spans, area, buffer);
    if app.answer.lines.is_empty() {
        return empty(app, theme, area, buffer);
    }
    let lines = app.answer.lines.iter().enumerate().skip(app.screen.top);
    for (y, (i, line)) in (1..area.height).zip(lines) {
        let row = Rect { x: area.x, y: area.y + y, width: area.width, height: 1 };
        let selected = i == app.screen.selected;
        draw_line(app, theme, &spans, line, selected, row, buffer);
    }
    let next = app.answer.lines.len().saturating_sub(app.screen.top) + 1;
    if next >= usize::from(area.height) {
        return;
    }
    let shown = app.answer.lines.iter().filter(|l| l.depth == 0).count();
    let rest = app.answer.rows.saturating_sub(shown);
    if rest > 0 {
        let text = format!(
            "… and {rest} smaller rows (below the limit of {} %, or of {} rows)",
            app.limit,
            thousands(MAX_ROWS as u64)
        );
        put(buffer, area, 1, next as u16, &text, theme.dim);
    }
}

fn heading(app: &App, theme: &Theme, spans: &[Span], area: Rect, buffer: &mut Buffer) {
    for span in spans {
        let column = span.field.column();
        let ordered = span.field == app.order_field();
        let arrow = match (ordered, app.reversed) {
            (true, false) => "▾",
            (true, true) => "▴",
            _ => "",
        };
        let text = format!("{}{arrow}", column.title);
        let room = usize::from(span.width - span.bar);
        let pad = if column.align == Align::Right { room.saturating_sub(width(&text)) } else { 0 };
        let style = if ordered { theme.head.add_modifier(Modifier::BOLD) } else { theme.head };
        put(buffer, area, span.x + pad as u16, 0, &fit_end(&text, room), style);
    }
}

/// What stands where no rows are: why, and what to do.
pub(in crate::ui) fn empty(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) {
    let answer = &app.answer;
    let lines: Vec<String> = if answer.unfiltered.samples > 0 && answer.total.samples == 0 {
        let hint = if app.filter.is_some() || !app.zooms.is_empty() {
            "⌫ takes the last filter back"
        } else {
            "i shows idle CPUs"
        };
        vec![
            format!(
                "None of {} samples passes: {}",
                thousands(answer.unfiltered.samples),
                app.whole_filter().unwrap_or_default()
            ),
            hint.to_owned(),
        ]
    } else if answer.ended.is_some() {
        vec!["No samples.".to_owned(), "The event may never have happened, or the target was idle.".to_owned()]
    } else {
        vec!["Waiting for samples…".to_owned(), "An idle machine gives few.".to_owned()]
    };
    for (i, text) in lines.iter().enumerate() {
        put(buffer, area, 2, 2 + i as u16, text, if i == 0 { theme.text } else { theme.dim });
    }
}

fn draw_line(app: &App, theme: &Theme, spans: &[Span], line: &Line, selected: bool, row: Rect, buffer: &mut Buffer) {
    if selected {
        put(buffer, row, 0, 0, "›", theme.title);
    }
    for span in spans {
        match span.field {
            Field::Key(Key::Sym) => symbol(app, theme, span, line, row, buffer),
            Field::Delta => {
                let style = line.versus.map_or(theme.dim, |v| theme.verdict(v.verdict).1);
                cell(span, &span.field.cell(line), style, row, buffer);
            }
            Field::Key(_) | Field::Samples | Field::Period | Field::Old => {
                let style = if line.depth > 0 { theme.dim } else { theme.text };
                cell(span, &span.field.cell(line), style, row, buffer);
            }
            Field::Children | Field::SelfTime => share(theme, span, line, row, buffer),
        }
    }
    if selected {
        for x in row.x..row.x + row.width {
            // One even bar: colours under the cursor would show as patches of it.
            let plain = buffer[(x, row.y)].style().fg(Color::Reset).bg(Color::Reset);
            let style = plain.patch(theme.selected);
            buffer[(x, row.y)].set_style(style);
        }
    }
}

fn cell(span: &Span, cell: &Cell, style: Style, row: Rect, buffer: &mut Buffer) {
    let room = usize::from(span.width - span.bar);
    let text = cell.text();
    let text = fit(&text, room);
    let pad = match span.field.column().align {
        Align::Right => room.saturating_sub(width(&text)),
        Align::Left => 0,
    };
    put(buffer, row, span.x + pad as u16, 0, &text, style);
}

/// A share with its bar in eighths of a cell.
fn share(theme: &Theme, span: &Span, line: &Line, row: Rect, buffer: &mut Buffer) {
    let value = span.field.cell(line);
    let Cell::Percent(percent) = value else { return };
    let zero = percent == 0.0;
    cell(span, &value, if zero { theme.dim } else { theme.share(percent) }, row, buffer);
    if span.bar > 1 && line.depth == 0 {
        let cells = usize::from(span.bar - 1);
        let bar = eighths(percent / 100.0, cells);
        put(buffer, row, span.x + span.width - span.bar + 1, 0, &bar, theme.bar);
    }
}

/// A bar of some cells, filled by a share.
fn eighths(share: f64, cells: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * cells as f64 * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

/// Fold mark, name, and the class letter at the right edge.
fn symbol(app: &App, theme: &Theme, span: &Span, line: &Line, row: Rect, buffer: &mut Buffer) {
    let (style, letter) = theme.class(line.kind, &line.dso_path);
    let indent = (2 * line.depth).min(span.width / 2);
    let mark = match line.mark {
        _ if !app.info.chains => ' ',
        Mark::Leaf => '·',
        Mark::Closed => '▸',
        Mark::Open => '▾',
    };
    let x = span.x + indent;
    put(buffer, row, x, 0, &mark.to_string(), theme.dim);
    let room = usize::from(span.width.saturating_sub(indent + 4));
    let name = clean(&line.sym);
    let name = fit(&name, room);
    let style = match (app.screen.hit(line), line.state) {
        (true, _) => theme.found,
        (_, State::Sought | State::Bounded) => theme.dim,
        _ => style,
    };
    put(buffer, row, x + 2, 0, &name, style);
    put(buffer, row, span.x + span.width - 1, 0, &letter.to_string(), theme.dim);
}
