//! The help: purpose of a screen and all commands with their keys, with a search.

use crate::panel::text::{width, wrap};
use crate::ui::input::commands::table::rows;
use crate::ui::input::{Command, shown};
use crate::ui::popups::{Searched, has_words};
use crate::ui::state::Model;
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;
use crate::ui::widgets::popup_frame::{Styled, frame, scrolled, typed_line};

/// Draws the help. Returns the cursor position.
pub(crate) fn draw(model: &Model, searched: &Searched, on: &mut Canvas<'_>) -> (u16, u16) {
    let lines = lines(model, on.theme, searched.input.value());
    let inner = &mut frame(&format!("help: {}", model.frame.tab.name()), (104, on.area.height), on);
    let place = typed_line(("/", "type to search"), &searched.input, inner);
    let list = &mut inner.below(1);
    scrolled(&lines, searched.scroll, list);
    if lines.is_empty() {
        list.put(1, 0, "no matches", list.theme.error);
    }
    place
}

/// Returns all lines, or those of all screens that match the search.
pub(crate) fn lines(model: &Model, theme: &Theme, typed: &str) -> Vec<Styled> {
    let room = usize::from(model.frame.size.0).saturating_sub(6).min(100);
    let lines = match typed.trim() {
        "" => whole(model, theme),
        typed => found(model, theme, typed),
    };
    lines.into_iter().flat_map(|line| whole_words(line, room)).collect()
}

/// The column of the descriptions, and their minimum width next to long arguments.
const DOC: usize = 34;
const LEAST: usize = 24;

/// Wraps the last part of a line with hanging indentation, or moves it below the others if room is short.
fn whole_words(mut line: Styled, room: usize) -> Vec<Styled> {
    let Some((text, style)) = line.pop() else { return vec![line] };
    let before: usize = line.iter().map(|(text, _)| width(text)).sum();
    if before + width(&text) <= room {
        line.push((text, style));
        return vec![line];
    }
    let below = before > 0 && room.saturating_sub(before) < LEAST;
    let at = if below { DOC.min(room / 2) } else { before };
    let mut parts = wrap(&text, room.saturating_sub(at).max(1)).into_iter();
    if !below {
        line.extend(parts.next().map(|part| (part, style)));
    }
    let more = parts.map(|part| vec![(" ".repeat(at), style), (part, style)]);
    std::iter::once(line).chain(more).collect()
}

/// Returns the purpose of the screen, its own keys, then those of all screens.
fn whole(model: &Model, theme: &Theme) -> Vec<Styled> {
    let (about, tab) = (model.frame.tab.about(), model.frame.tab);
    let mut lines: Vec<Styled> = wrap(about, usize::from(model.frame.size.0).saturating_sub(8).min(96))
        .into_iter()
        .map(|text| vec![(text, theme.text)])
        .collect();
    // Keys of other screens do not work here.
    let here = rows().filter(|row| row.tab == Some(tab));
    let everywhere = rows().filter(|row| row.tab.is_none());
    lines.extend(grouped(model, theme, here.chain(everywhere)));
    lines.extend(own_keys(model, theme));
    lines.push(Vec::new());
    lines.extend(letters(theme));
    lines
}

fn found(model: &Model, theme: &Theme, typed: &str) -> Vec<Styled> {
    let is_here = |row: &&'static Command| row.tab.is_none_or(|tab| tab == model.frame.tab);
    let has = |row: &&'static Command| {
        let keys = model.context.keymap.keys_of(row).join(" ");
        model.context.keymap.keys_of(row).contains(&typed)
            || has_words(&format!("{} {} {keys} {}", row.group, row.name, row.doc), typed)
    };
    // Keys of this screen come first.
    let here = rows().filter(is_here).filter(has);
    let elsewhere = rows().filter(|row| !is_here(row)).filter(has);
    let mut lines = grouped(model, theme, here.chain(elsewhere));
    lines.drain(..usize::from(!lines.is_empty()));
    let text = |line: &Styled| line.iter().map(|(text, _)| text.as_str()).collect::<String>();
    lines.extend(own_keys(model, theme).into_iter().filter(|line| has_words(&text(line), typed)));
    lines.extend(letters(theme).into_iter().filter(|line| has_words(&text(line), typed)));
    lines
}

fn grouped(model: &Model, theme: &Theme, rows: impl Iterator<Item = &'static Command>) -> Vec<Styled> {
    let mut lines: Vec<Styled> = Vec::new();
    let mut group = "";
    for row in rows {
        if row.group != group {
            group = row.group;
            lines.push(Vec::new());
            lines.push(vec![(group.to_owned(), theme.title)]);
        }
        let keys: Vec<String> = model.context.keymap.keys_of(row).into_iter().map(shown).collect();
        lines.push(vec![
            (format!("{:12} ", keys.join(" ")), theme.key),
            (format!("{:20} ", format!(":{}{}", row.name, row.noun())), theme.dim),
            (row.doc.to_owned(), theme.text),
        ]);
    }
    lines
}

/// Returns keys that the user bound to commands with arguments.
fn own_keys(model: &Model, theme: &Theme) -> Vec<Styled> {
    let others: Vec<_> = model.context.keymap.own().filter(|(_, _, run)| run.contains(' ')).collect();
    if others.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![Vec::new(), vec![("Yours".to_owned(), theme.title)]];
    lines.extend(others.into_iter().map(|(place, keys, run)| {
        vec![(format!("{:14}", shown(keys)), theme.key), (format!(":{run}  ({place})"), theme.text)]
    }));
    lines
}

fn letters(theme: &Theme) -> Vec<Styled> {
    let fields: Vec<&str> = crate::filter::FIELDS.iter().map(|row| row.name).collect();
    let letters = "k kernel  b BPF  g guest  u user  l library  j JIT code  i inlined  ? unknown";
    let line = |text: String, style| vec![(text, style)];
    vec![
        line("Letters at the right edge".to_owned(), theme.title),
        line(letters.to_owned(), theme.text),
        line("p function of Python, PHP, Ruby, Perl, Java or JavaScript".to_owned(), theme.text),
        line("Filters".to_owned(), theme.title),
        line(format!("fields: {}", fields.join(" ")), theme.text),
        line("comm == nginx && cpu in 0-3,32 && stack ~ \"*tcp_*\" && time > 10s".to_owned(), theme.text),
    ]
}
