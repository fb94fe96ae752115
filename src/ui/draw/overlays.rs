//! Overlays: a frame in the middle of the table with a list in it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Block, Clear, Widget};

use crate::panel::text::{clean, fit, fit_end, width, wrap};
use crate::panel::unit::{duration, percent, thousands};
use crate::session::TimeMark;
use crate::ui::app::App;
use crate::ui::command::{TABLE, layer};
use crate::ui::keys::shown;
use crate::ui::overlay::{Entry, Overlay, Palette, column_menu};
use crate::ui::theme::Theme;

use crate::ui::draw::put;

/// Draws the topmost overlay. Returns where the cursor belongs.
pub fn draw(app: &App, theme: &Theme, area: Rect, buffer: &mut Buffer) -> Option<(u16, u16)> {
    match app.overlays.last()? {
        Overlay::Help { scroll } => {
            list(theme, &format!("help: {}", app.tab.name()), &help(app, theme), *scroll, area, buffer)
        }
        Overlay::Losses { scroll } => list(theme, "losses and notes", &losses(app, theme), *scroll, area, buffer),
        Overlay::Info { scroll } => {
            list(theme, "info", &crate::ui::draw::info::lines(app, theme), *scroll, area, buffer)
        }
        Overlay::Columns { cursor } => columns(app, theme, *cursor, area, buffer),
        Overlay::Marks { cursor } => marks(app, theme, *cursor, area, buffer),
        Overlay::Annotate(screen) => crate::ui::view::annotate::draw::draw(screen, theme, area, buffer),
        Overlay::Palette(palette) => return Some(draw_palette(app, palette, theme, area, buffer)),
    }
    None
}

fn marks(app: &App, theme: &Theme, cursor: usize, area: Rect, buffer: &mut Buffer) {
    let marks = &app.answer.marks;
    if marks.is_empty() {
        let none = "None yet: ' and a letter sets one, :note TEXT notes something.".to_owned();
        return list(theme, "marks", &[vec![(none, theme.text)]], 0, area, buffer);
    }
    let cursor = cursor.min(marks.len() - 1);
    let one = |(i, mark): (usize, &TimeMark)| -> Styled {
        let style = if i == cursor { theme.selected } else { theme.text };
        let name = if mark.name.is_empty() { " " } else { &mark.name };
        vec![(format!("{name:2}{:>12.3} s  {}", mark.at as f64 / 1e9, mark.note), style)]
    };
    let lines: Vec<Styled> = marks.iter().enumerate().map(one).collect();
    let rows = usize::from(area.height.saturating_sub(2)).max(1);
    list(theme, "marks: ⏎ goes there, x forgets", &lines, cursor.saturating_sub(rows / 2), area, buffer);
}

pub(super) type Styled = Vec<(String, Style)>;

fn frame(theme: &Theme, title: &str, width: u16, height: u16, area: Rect, buffer: &mut Buffer) -> Rect {
    let (w, h) = (width.min(area.width), height.min(area.height));
    let rect = Rect { x: area.x + (area.width - w) / 2, y: area.y + (area.height - h) / 2, width: w, height: h };
    Clear.render(rect, buffer);
    buffer.set_style(rect, theme.ground);
    let block = Block::bordered().title(format!(" {title} ")).title_style(theme.title).border_style(theme.dim);
    let inner = block.inner(rect);
    block.render(rect, buffer);
    inner
}

fn list(theme: &Theme, title: &str, lines: &[Styled], scroll: usize, area: Rect, buffer: &mut Buffer) {
    let widest = lines.iter().map(|l| l.iter().map(|(t, _)| width(t)).sum::<usize>()).max().unwrap_or(0);
    let widest = widest.max(width(title));
    let inner = frame(theme, title, widest.min(250) as u16 + 4, lines.len().min(200) as u16 + 2, area, buffer);
    let rows = usize::from(inner.height);
    let from = scroll.min(lines.len().saturating_sub(rows));
    for (y, line) in (0..inner.height).zip(&lines[from..]) {
        let mut x = 1;
        for (text, style) in line {
            x += put(buffer, inner, x, y, text, *style);
        }
    }
    if lines.len() > rows {
        let more = format!(" {}-{} of {}, ↑↓ ", from + 1, (from + rows).min(lines.len()), lines.len());
        let y = inner.y + inner.height;
        let edge = Rect { x: inner.x, y, width: inner.width, height: 1 };
        put(buffer, edge, edge.width.saturating_sub(width(&more) as u16), 0, &more, theme.dim);
    }
}

/// What the screen is for, its own keys, then those that work everywhere.
fn help(app: &App, theme: &Theme) -> Vec<Styled> {
    let (about, own) = (app.tab.about(), app.tab.group());
    let mut lines: Vec<Styled> = wrap(about, usize::from(app.size.0).saturating_sub(8).min(96))
        .into_iter()
        .map(|text| vec![(text, theme.text)])
        .collect();
    // Keys of other screens do not work here.
    let here = TABLE.iter().filter(|row| own.is_some() && layer(row) == own);
    let everywhere = TABLE.iter().filter(|row| layer(row).is_none());
    let mut group = "";
    for row in here.chain(everywhere) {
        if row.group != group {
            group = row.group;
            lines.push(Vec::new());
            lines.push(vec![(group.to_owned(), theme.title)]);
        }
        let keys: Vec<String> = app.keymap.keys_of(row).into_iter().map(shown).collect();
        let argument =
            if row.argument.is_empty() { String::new() } else { format!(" {}", row.argument.to_uppercase()) };
        lines.push(vec![
            (format!("{:14}", keys.join(" ")), theme.key),
            (format!("{:22}", format!(":{}{argument}", row.name)), theme.dim),
            (row.doc.to_owned(), theme.text),
        ]);
    }
    let others = app.keymap.own().filter(|(_, _, run)| run.contains(' '));
    for (i, (where_, keys, run)) in others.enumerate() {
        if i == 0 {
            lines.push(Vec::new());
            lines.push(vec![("Yours".to_owned(), theme.title)]);
        }
        lines.push(vec![(format!("{:14}", shown(keys)), theme.key), (format!(":{run}  ({where_})"), theme.text)]);
    }
    lines.push(Vec::new());
    lines.push(vec![("Letters at the right edge".to_owned(), theme.title)]);
    let letters = "k kernel  b BPF  g guest  u user  l library  j JIT code  i inlined  ? unknown";
    lines.push(vec![(letters.to_owned(), theme.text)]);
    lines.push(vec![("Filters".to_owned(), theme.title)]);
    let fields: Vec<&str> = crate::filter::FIELDS.iter().map(|row| row.1).collect();
    lines.push(vec![(format!("fields: {}", fields.join(" ")), theme.text)]);
    lines.push(vec![("comm == nginx && cpu in 0-3,32 && stack ~ \"*tcp_*\" && time > 10s".to_owned(), theme.text)]);
    let room = usize::from(app.size.0).saturating_sub(6);
    for line in &mut lines {
        if let [.., (text, _)] = line.as_mut_slice() {
            *text = fit_end(text, room).into_owned();
        }
    }
    lines
}

fn losses(app: &App, theme: &Theme) -> Vec<Styled> {
    let answer = &app.answer;
    let ledger = &answer.ledger;
    let mut lines: Vec<Styled> = Vec::new();
    let mut row = |name: &str, value: String, bad: bool, meaning: &str| {
        let style = if bad { theme.error } else { theme.text };
        lines.push(vec![
            (format!("{name:20}"), theme.title),
            (format!("{value:>14}  "), style),
            (meaning.to_owned(), theme.dim),
        ]);
    };
    row("samples", thousands(ledger.received), false, "taken in since the start");
    if let Some(share) = ledger.timed_percent() {
        row(
            "if all were busy",
            thousands(ledger.expected),
            false,
            &format!("rate × CPUs × seconds; {} came, idle CPUs give few or none", percent(share)),
        );
    }
    row("lost", thousands(ledger.lost()), ledger.lost() > 0, "the rings were full: larger -m, lower -F");
    row("throttled", thousands(ledger.throttled), ledger.throttled > 0, "times the kernel slowed an event down");
    row("queue full", thousands(ledger.queue_full), ledger.queue_full > 0, "rounds that waited in the rings");
    if let Some(walked) = answer.walked.as_ref().filter(|walked| walked.ends.all() > 0) {
        let broken = walked.ends.broken_percent();
        row(
            "broken stacks",
            percent(broken),
            broken > 5.0,
            "of those that tables lead through since the start; I: why",
        );
    }
    row("malformed", thousands(ledger.malformed), ledger.malformed > 0, "records that could not be read");
    row("own samples", thousands(ledger.own), false, "left out (--include-self keeps them)");
    row("evicted", thousands(ledger.evicted), false, "oldest samples, older than --keep or beyond --memory");
    if answer.names_pending > 0 {
        row("names", thousands(answer.names_pending as u64), false, "addresses still being looked up");
    }
    row(
        "own CPU time",
        format!("{:.1} %", answer.cost.own_percent),
        answer.cost.own_percent > 10.0,
        "of one CPU, of late",
    );
    if let (Some(age), Some((n, became))) = (app.behind.age(), app.behind.became()) {
        let [median, most, worst] = became.map(duration);
        let meaning =
            format!("of {} views half became {median} old, 99 % up to {most}, the oldest {worst}", thousands(n));
        row("age of the view", duration(age), app.behind.late(app.refresh).is_some(), &meaning);
    }
    if answer.cost.sampling_percent > 0.0 {
        let cost = answer.cost.sampling_percent;
        row("cost of sampling", format!("{cost:.1} %"), cost > 10.0, "of each CPU when busy, measured at the start");
    }
    let memory = &answer.memory;
    if let Some(bound) = memory.bound {
        // As --memory counts.
        let mib = |bytes: usize| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let of = format!("private, of {} MiB (--memory); the oldest samples go first", bound >> 20);
        row("memory", mib(memory.private), memory.is_exceeded(), &of);
        for part in &memory.parts {
            row(&format!("  {}", part.name), mib(part.bytes), false, "");
        }
        row("  the rest", mib(memory.rest()), false, "answers, units, the screen, and what was just freed");
    }
    for event in &answer.events {
        let note = event.note.clone().unwrap_or_default();
        row(&format!("event {}", event.name), thousands(event.total.samples), false, &note);
    }
    for note in &answer.notes {
        lines.push(vec![("• ".to_owned(), theme.warning), (note.replace('\n', " "), theme.text)]);
    }
    if let Some(ended) = &answer.ended {
        lines.push(vec![("■ ".to_owned(), theme.warning), (ended.clone(), theme.text)]);
    }
    lines
}

fn columns(app: &App, theme: &Theme, cursor: usize, area: Rect, buffer: &mut Buffer) {
    let menu = column_menu(&app.columns);
    let inner = frame(theme, "columns", 46, menu.len() as u16 + 4, area, buffer);
    for (i, field) in menu.iter().enumerate() {
        let on = app.columns.contains(field);
        let text = format!("{} {:12}", if on { "[x]" } else { "[ ]" }, field.column().title);
        let style = if i == cursor.min(menu.len() - 1) { theme.selected } else { theme.text };
        put(buffer, inner, 1, i as u16, &text, style);
    }
    put(buffer, inner, 1, inner.height.saturating_sub(1), "Space show/hide  ← → move  Esc done", theme.dim);
}

fn draw_palette(app: &App, palette: &Palette, theme: &Theme, area: Rect, buffer: &mut Buffer) -> (u16, u16) {
    let matches = palette.matches();
    let inner = frame(theme, "commands", 76, area.height.min(22), area, buffer);
    let start = put(buffer, inner, 1, 0, ":", theme.title) + 1;
    put(buffer, inner, start, 0, palette.input.value(), theme.text);
    let rows = usize::from(inner.height.saturating_sub(1));
    let from = (palette.cursor + 1).saturating_sub(rows);
    for (y, (i, entry)) in (1..inner.height).zip(matches.iter().enumerate().skip(from)) {
        let style = if i == palette.cursor { theme.selected } else { theme.text };
        let (name, key) = match entry {
            Entry::Command(row) => {
                let argument =
                    if row.argument.is_empty() { String::new() } else { format!(" {}", row.argument.to_uppercase()) };
                let key = app.keymap.keys_of(row).first().map(|key| shown(key)).unwrap_or_default();
                (format!("{}{argument}", row.name), (key, theme.key))
            }
            Entry::Thing { kind, name, .. } => (name.clone(), ((*kind).to_owned(), theme.dim)),
            Entry::Event(_, name) => (name.clone(), ("event".to_owned(), theme.dim)),
        };
        let name = fit(&clean(&name), 24).into_owned();
        let x = 1 + put(buffer, inner, 1, y, &format!("{name}{:1$}", "", 24usize.saturating_sub(width(&name))), style);
        let x = x + 1 + put(buffer, inner, x + 1, y, &format!("{:9}", key.0), key.1);
        put(buffer, inner, x, y, entry.about(), theme.dim);
    }
    if matches.is_empty() {
        put(buffer, inner, 1, 1, "nothing is called so", theme.error);
    }
    (inner.x + start + palette.input.visual_cursor() as u16, inner.y)
}
