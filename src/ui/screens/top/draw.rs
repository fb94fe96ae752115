//! The table: heading, rows with bars, call chains as an indented tree.

use ratatui::style::{Modifier, Style};

use crate::event::CPU_CLOCK;
use crate::filter::Filter;
use crate::lang::counted;
use crate::panel::function_name::fit_function;
use crate::panel::text::{clean, fit, fit_end, width};
use crate::panel::unit::thousands;
use crate::panel::{Align, Cell};
use crate::profile::frames::SymState;
use crate::query::answer::{FoldMark, MAX_ROWS, TopLine};
use crate::query::rows::top_table::TopField;
use crate::query::{ColumnKey, Order};
use crate::ui::input::commands::{general, program};
use crate::ui::input::shown;
use crate::ui::popups::complete;
use crate::ui::screens::top::columns::{self, TopColumnSpan};
use crate::ui::state::range::label;
use crate::ui::state::{Model, Zoom};
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;
use crate::ui::widgets::rows::{arrow, eighths, light_up, scroll_bar};

pub(crate) fn draw(model: &Model, on: &mut Canvas<'_>) {
    let lines = &model.context.answer.view.lines;
    let spans = columns::spans_of(on.area.width, &model.shown_fields(), lines);
    heading(model, &spans, on);
    if lines.is_empty() {
        return empty(model, on);
    }
    let shares = lines.iter().filter(|line| line.depth == 0).map(|line| ordered_share(model, line));
    let places = Places { spans: &spans, full: full_bar(shares.fold(0.0, f64::max)) };
    for (y, (i, line)) in (1..on.area.height).zip(lines.iter().enumerate().skip(model.top.list.top)) {
        let above = lines[..i].last().filter(|_| y > 1 && line.depth > 0);
        let row = Row { line, above, selected: i == model.top.selected };
        row.draw(model, &places, &mut on.line(y));
    }
    scroll_bar((model.top.list.top, lines.len()), &mut on.below(1));
    let next = lines.len().saturating_sub(model.top.list.top) + 1;
    if next >= usize::from(on.area.height) {
        return;
    }
    let shown = lines.iter().filter(|l| l.depth == 0).count();
    let rest = model.context.answer.view.rows.saturating_sub(shown);
    if rest > 0 {
        let text = format!(
            "… and {} (below the limit of {} %, or of {} rows)",
            counted(rest as u64, "smaller row"),
            model.selection.rows.limit,
            thousands(MAX_ROWS as u64)
        );
        on.put(1, next as u16, &text, on.theme.dim);
    }
}

fn heading(model: &Model, spans: &[TopColumnSpan], on: &mut Canvas<'_>) {
    let subject = columns::subject(spans.iter().map(|span| span.field));
    for span in spans {
        let column = span.field.column_of(model.meaning().count);
        let ordered = span.field == model.selection.rows.order_field();
        let arrow = arrow(ordered, model.selection.rows.reversed);
        let text = format!("{}{arrow}", column.title);
        let room = usize::from(span.width - span.bar);
        let pad = match column.align {
            Align::Right => room.saturating_sub(width(&text)),
            // Names start after their fold marks.
            Align::Left if Some(span.field) == subject => 2,
            Align::Left => 0,
        };
        let style = if ordered { on.theme.head.add_modifier(Modifier::BOLD) } else { on.theme.head };
        let x = span.x + pad as u16;
        let used = on.put(x, 0, &fit_end(&text, room.saturating_sub(pad).max(width(&text).min(room))), style);
        let is_symbol = span.field == TopField::Key(ColumnKey::Sym);
        let skips = is_symbol && model.selection.takes_origins(&model.context);
        let looked_up = is_symbol.then(|| looked_up(&model.context.answer.view.lines)).flatten();
        let notes = looked_up.map(|note| (note, on.theme.warning)).into_iter();
        let notes = notes.chain(skipped(skips).iter().map(|note| (*note, on.theme.dim)));
        let room = room.saturating_sub(pad + usize::from(used) + 2);
        if let Some((note, style)) = notes.into_iter().find(|(note, _)| width(note) <= room) {
            on.put(x + used + 2, 0, note, style);
        }
    }
}

/// Returns what the sign after an unfinished name means, if rows have such names.
fn looked_up(lines: &[TopLine]) -> Option<&'static str> {
    lines.iter().any(|line| line.state == SymState::Sought).then_some("(… looking up names)")
}

/// Returns notes on rows that begin at a caller, the longest first; flame graphs and reports have whole stacks.
fn skipped(skips: bool) -> &'static [&'static str] {
    if skips {
        &["(callers of the scheduler, of system call entry and of tracing)", "(without the scheduler)"]
    } else {
        &[]
    }
}

/// Draws the text for an empty table: the reason and the remedy.
pub(crate) fn empty(model: &Model, on: &mut Canvas<'_>) {
    let answer = &model.context.answer;
    let lines: Vec<String> =
        if answer.unfiltered.samples > 0 && answer.view.shown.samples == 0 && model.selection.range().is_none() {
            let times = model.age_shown().unwrap_or_default();
            vec![format!("No samples in the {times}."), "a shows all since the start".to_owned()]
        } else if answer.unfiltered.samples > 0 && answer.view.total.samples == 0 {
            nothing_passes(model)
        } else if answer.ended.is_some() {
            vec![
                "No samples.".to_owned(),
                "The event did not happen, the target was idle, or the file is damaged: see l.".to_owned(),
            ]
        } else {
            waiting(model)
        };
    for (i, text) in lines.iter().enumerate() {
        on.put(2, 2 + i as u16, text, if i == 0 { on.theme.text } else { on.theme.dim });
    }
}

/// Returns the message that no sample passes the filter, with the available values.
fn nothing_passes(model: &Model) -> Vec<String> {
    let (answer, selection) = (&model.context.answer, &model.selection);
    if !selection.is_narrowed() {
        let of = thousands(answer.unfiltered.samples);
        return vec![format!("All {of} samples are of idle CPUs."), "i shows idle CPUs".to_owned()];
    }
    let zooms = selection.zooms.iter().filter_map(Zoom::filter);
    let filter = Filter::all(zooms.chain(selection.filter.as_deref()));
    let text = filter.as_ref().map_or("", Filter::text);
    let range = selection.range().map_or_else(String::new, |range| format!(" in {}", label(range)));
    let field = filter.as_ref().and_then(|filter| filter.atoms().first()).map(|atom| atom.field);
    let names = complete::seen(field, &answer.view.others);
    let what = if text.is_empty() { "No samples".to_owned() } else { format!("No sample matches {}", clean(text)) };
    let mut lines = vec![format!("{what}{range}.")];
    if !names.is_empty() {
        const NAMED: usize = 8;
        let times = model.age_shown().map_or_else(String::new, |age| format!(" in the {age}"));
        let more = if names.len() > NAMED { ", …" } else { "" };
        lines.push(format!("Seen{times}: {}{more}", clean(&names[..names.len().min(NAMED)].join(", "))));
    }
    if let Some((field, word)) = filter.as_ref().and_then(|filter| filter.plain_globs().next()) {
        let name = field.row().map_or("", |row| row.name);
        lines.push(format!("~ matches whole names: {name} ~ \"*{word}*\" matches parts of them"));
    }
    lines.push("⌫ undoes the last step".to_owned());
    lines
}

/// Returns what a live session without samples waits for, or how to get samples.
fn waiting(model: &Model) -> Vec<String> {
    let events = model.context.keymap.key_of(&program::EVENTS).map(shown).unwrap_or_default();
    match (model.context.samples_nothing(), model.context.answer.target.is_empty()) {
        (true, _) => vec![
            "This session has no sampling event.".to_owned(),
            format!("⏎ starts {CPU_CLOCK}, which samples what the CPUs do; {events} lists other events"),
        ],
        (_, true) => vec!["Waiting for samples…".to_owned(), "An idle machine produces few samples.".to_owned()],
        (_, false) => {
            let unit = model.context.keymap.key_of(&general::UNIT).map(shown).unwrap_or_default();
            vec![
                "Waiting for samples…".to_owned(),
                "Sleeping tasks produce no samples.".to_owned(),
                format!("{unit} waits shows what they wait for, {unit} syscalls their system calls"),
            ]
        }
    }
}

struct Places<'a> {
    spans: &'a [TopColumnSpan],
    /// The share in percent that fills a bar.
    full: f64,
}

fn ordered_share(model: &Model, line: &TopLine) -> f64 {
    if model.selection.rows.order == Order::Children { line.children_percent } else { line.own_percent }
}

/// Returns the share that fills a bar for the largest share: a round number, so that bars are stable.
fn full_bar(most: f64) -> f64 {
    [5.0, 10.0, 25.0, 50.0].into_iter().find(|full| most <= *full).unwrap_or(100.0)
}

struct Row<'a> {
    line: &'a TopLine,
    /// The previous line of the same call chain, whose repeated values are not written again.
    above: Option<&'a TopLine>,
    selected: bool,
}

impl Row<'_> {
    fn draw(&self, model: &Model, places: &Places<'_>, on: &mut Canvas<'_>) {
        if self.selected {
            on.put(0, 0, "›", on.theme.title);
        }
        let line = self.line;
        // A name may use the DSO column after it if that is empty.
        let mut free = 0;
        let subject = columns::subject(places.spans.iter().map(|span| span.field));
        for (i, span) in places.spans.iter().enumerate().rev() {
            match span.field {
                other if other != TopField::Key(ColumnKey::Sym) && Some(other) == subject => {
                    symbol(model, (span, 0), line, on);
                }
                TopField::Key(ColumnKey::Sym) => {
                    let behind =
                        places.spans.get(i + 1).is_some_and(|next| next.field == TopField::Key(ColumnKey::Dso));
                    symbol(model, (span, if behind { free } else { 0 }), line, on);
                }
                TopField::Key(ColumnKey::Dso) => free = self.dso(span, on),
                TopField::Delta => {
                    let style = line.diff.map_or(on.theme.dim, |v| on.theme.verdict(v.verdict).1);
                    cell(span, &span.field.cell(line, model.meaning()), style, on);
                }
                TopField::Key(_)
                | TopField::Samples
                | TopField::Period
                | TopField::Ipc
                | TopField::Old
                | TopField::Mode(_)
                | TopField::Latency => {
                    let style = if line.depth > 0 { on.theme.dim } else { on.theme.text };
                    cell(span, &span.field.cell(line, model.meaning()), style, on);
                }
                TopField::Children | TopField::SelfTime => self.share(model, span, places.full, on),
            }
        }
        let has_class = line.depth > 0 || !line.sym.is_empty();
        if has_class
            && columns::edge(on.area.width) == columns::EDGE
            && self.says(|line| on.theme.class(line.kind, &line.dso_path).1)
        {
            let letter = on.theme.class(line.kind, &line.dso_path).1;
            on.put(on.area.width - 2, 0, &letter.to_string(), on.theme.dim);
        }
        if self.selected {
            let bars = places.spans.iter().filter(|span| span.bar > 1);
            let bars: Vec<_> = bars.map(|s| s.x + s.width - s.bar + 1..s.x + s.width).collect();
            light_up(&bars, on);
        }
    }

    /// Whether a value differs from that of the previous line in the chain.
    fn says<T: PartialEq>(&self, what: impl Fn(&TopLine) -> T) -> bool {
        self.line.is_fork() || self.above.is_none_or(|above| what(above) != what(self.line))
    }

    /// Draws the DSO. Returns the cells left for the name: its column, if the line above has the same DSO.
    fn dso(&self, span: &TopColumnSpan, on: &mut Canvas<'_>) -> u16 {
        if !self.says(|line| line.dso.clone()) {
            return span.width + 1;
        }
        let style = if self.line.depth > 0 { on.theme.dim } else { on.theme.text };
        on.put(span.x, 0, &fit(&clean(&self.line.dso), usize::from(span.width)), style);
        0
    }

    /// Draws a share, and after the last one the bar of the sort column.
    fn share(&self, model: &Model, span: &TopColumnSpan, full: f64, on: &mut Canvas<'_>) {
        let line = self.line;
        let value = span.field.cell(line, model.meaning());
        if let Cell::Percent(percent) = value
            && (line.depth == 0 || self.says(|line| span.field.cell(line, model.meaning()).text()))
        {
            cell(
                span,
                &value,
                if percent == 0.0 { on.theme.dim } else { on.theme.share(model.context.answer.view.heat(percent)) },
                on,
            );
        }
        if span.bar > 1 && line.depth == 0 {
            let bar = eighths(ordered_share(model, line) / full, usize::from(span.bar - 1));
            on.put(span.x + span.width - span.bar + 1, 0, &bar, on.theme.bar);
        }
    }
}

fn cell(span: &TopColumnSpan, cell: &Cell, style: Style, on: &mut Canvas<'_>) {
    let room = usize::from(span.width - span.bar);
    let text = cell.text_in(room);
    on.put_in((span.x, room as u16), span.field.column().align, &fit(&text, room), style);
}

/// Draws forks, fold mark and name, with additional cells from the next column.
fn symbol(model: &Model, (span, more): (&TopColumnSpan, u16), line: &TopLine, on: &mut Canvas<'_>) {
    let room = usize::from(span.width + more);
    let x = span.x;
    let forks: String = chain_signs(model, line);
    on.put(x, 0, &fit_end(&forks, room), on.theme.dim);
    let (name, style) = match span.field {
        TopField::Key(ColumnKey::Sym) => name(model, on.theme, line),
        _ if line.depth > 0 => name(model, on.theme, line),
        // Rows without a function are described by their other keys.
        field => (field.cell(line, model.meaning()).text().into(), on.theme.text),
    };
    let at = columns::name_at(line);
    on.put(x + at, 0, &fit_function(&name, room.saturating_sub(usize::from(at))), style);
}

/// Returns the signs before a name: forks and fold mark.
pub(crate) fn chain_signs(model: &Model, line: &TopLine) -> String {
    let forks = line.forks.chars().count();
    let forks: String = line.forks.chars().skip(forks.saturating_sub(usize::from(columns::MOST_FORKS))).collect();
    let mark = match line.mark {
        _ if !model.context.info.chains => ' ',
        // In an unbranched chain, only the row itself shows that it is open.
        FoldMark::Open if line.depth > 0 && !line.is_fork() => ' ',
        FoldMark::Leaf if line.depth > 0 => ' ',
        FoldMark::Leaf => '·',
        FoldMark::Closed => '▸',
        FoldMark::Open => '▾',
    };
    let indent = if line.depth > 0 { "  " } else { "" };
    format!("{indent}{forks}{mark}")
}

/// Returns a line's name with its style: search match or class of the code. Addresses are not dim.
pub(crate) fn name<'a>(model: &Model, theme: &Theme, line: &'a TopLine) -> (std::borrow::Cow<'a, str>, Style) {
    let style = if model.top.hit(line) { theme.found } else { theme.class(line.kind, &line.dso_path).0 };
    (clean(&line.sym), style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_skip_functions_say_so() {
        assert!(skipped(false).is_empty() && skipped(true).iter().all(|note| note.contains("scheduler")));
    }

    #[test]
    fn unfinished_names_are_explained() {
        let known = TopLine::staged(1);
        let sought = TopLine { state: SymState::Sought, ..TopLine::staged(2) };
        assert_eq!(looked_up(std::slice::from_ref(&known)), None);
        assert!(looked_up(&[known, sought]).is_some());
    }
}
