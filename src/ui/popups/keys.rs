//! Keys on popups.

use crossterm::event::{Event as Input, KeyEvent};
use tui_input::backend::crossterm::EventHandler;

use crate::engine::Request;
use crate::query::ColumnKey;
use crate::session::TimeMark;
use crate::ui::draw::layout;
use crate::ui::input::commands::{general, table};
use crate::ui::input::{Invocation, keys};
use crate::ui::popups::{Chooser, Palette, PaletteEntry, Popup, Searched, column_menu, draw};
use crate::ui::screens::units::chooser::{chosen_unit, unit_choices};
use crate::ui::state::{Model, Tab};
use crate::units::UNITS;

/// The effect of a key on a popup.
pub(crate) enum PopupOutcome {
    Stays,
    Closes,
    Runs(Invocation),
    GoesTo(TimeMark),
    /// Starts a unit; if it is refused, the popup stays.
    Starts(String),
}

impl PopupOutcome {
    fn stays(stays: bool) -> Self {
        if stays { Self::Stays } else { Self::Closes }
    }
}

pub(crate) fn press(popup: &mut Popup, model: &mut Model, key: KeyEvent, name: &str) -> PopupOutcome {
    let page = model.top.height.max(1);
    let last = layout::places_of(model).map_or(0, |places| draw::last_scroll(model, popup, places.table));
    match popup {
        Popup::Help(help) => PopupOutcome::stays(help_key(help, key, name, (page, last))),
        Popup::Losses { scroll } | Popup::Info { scroll } => PopupOutcome::stays(scrolled(scroll, name, (page, last))),
        Popup::Palette(palette) => palette_key(palette, model, key, name),
        Popup::Units(chooser) => chooser_key(chooser, model, key, name),
        Popup::Marks { cursor } => marks_key(cursor, model, name),
        Popup::Annotate(screen) => {
            let wish = screen.key(name, model.annotate_room());
            PopupOutcome::stays(model.carry_out(wish, screen))
        }
        Popup::Columns { cursor } => columns_key(cursor, model, name),
    }
}

/// Moves the cursor of a list with the keys that all lists have, up to the last row; returns whether the key was one.
fn moved(cursor: &mut usize, rows: usize, name: &str) -> bool {
    match name {
        "up" => *cursor = cursor.saturating_sub(1),
        "down" => *cursor = (*cursor + 1).min(rows.saturating_sub(1)),
        _ => return false,
    }
    true
}

/// Returns the arrow that a letter stands for in lists without an input line.
fn as_arrow(name: &str) -> &str {
    match name {
        "k" => "up",
        "j" => "down",
        name => name,
    }
}

fn chooser_key(chooser: &mut Chooser, model: &mut Model, key: KeyEvent, name: &str) -> PopupOutcome {
    let choices = unit_choices(&model.context, chooser.input.value());
    match name {
        "esc" => return PopupOutcome::Closes,
        "enter" => return PopupOutcome::Starts(chosen_unit(&model.context, chooser)),
        "tab" => {
            if let Some(choice) = choices.get(chooser.cursor) {
                chooser.input = tui_input::Input::new(format!("{} ", choice.text));
                chooser.cursor = 0;
            }
        }
        "backtab" => chooser.cursor = chooser.cursor.saturating_sub(1),
        name if moved(&mut chooser.cursor, choices.len(), name) => {}
        _ => {
            model.frame.status = None;
            chooser.input.handle_event(&Input::Key(key));
            chooser.cursor = 0;
        }
    }
    PopupOutcome::Stays
}

fn palette_key(palette: &mut Palette, model: &mut Model, key: KeyEvent, name: &str) -> PopupOutcome {
    let matches = palette.matches();
    let runs = name == "enter";
    match name {
        "esc" => return PopupOutcome::Closes,
        name if moved(&mut palette.cursor, matches.len(), name) => {}
        "tab" | "enter" => {
            let typed = palette.input.value().trim().to_owned();
            let parsed = table::parse(&typed);
            if let Some(command) = parsed.as_ref().ok().filter(|_| runs) {
                return PopupOutcome::Runs(command.clone());
            }
            let Some(entry) = matches.get(palette.cursor) else {
                model.error(parsed.err().unwrap_or_default());
                return PopupOutcome::Stays;
            };
            let text = match entry {
                PaletteEntry::Command(row)
                    if runs && row.name != typed.split_whitespace().next().unwrap_or_default() =>
                {
                    return PopupOutcome::Runs((*row).into());
                }
                PaletteEntry::Command(row) => row.name.to_owned(),
                PaletteEntry::Unit(spec) if runs => return PopupOutcome::Runs(general::UNIT.with(spec.name)),
                PaletteEntry::Unit(spec) => format!("{} {}", general::UNIT.name, spec.name),
                PaletteEntry::Thing { command, .. } => {
                    model.frame.tab = Tab::Top;
                    return PopupOutcome::Runs(command.clone());
                }
                PaletteEntry::Event(event, _) => {
                    model.show_samples_of(*event);
                    return PopupOutcome::Closes;
                }
            };
            palette.input = tui_input::Input::new(format!("{text} "));
        }
        _ => {
            palette.input.handle_event(&Input::Key(key));
            palette.cursor = 0;
        }
    }
    PopupOutcome::Stays
}

fn columns_key(cursor: &mut usize, model: &mut Model, name: &str) -> PopupOutcome {
    let columns = &mut model.selection.rows.columns;
    let menu = column_menu(columns);
    let field = menu[(*cursor).min(menu.len() - 1)];
    let at = columns.iter().position(|f| *f == field);
    match (name, at) {
        ("esc" | "enter" | "q" | "C", _) => return PopupOutcome::Closes,
        ("space", Some(at)) if columns.len() > 1 => {
            columns.remove(at);
        }
        ("space", None) => columns.push(field),
        ("K" | "left", Some(at)) if at > 0 => {
            columns.swap(at, at - 1);
            *cursor -= 1;
        }
        ("J" | "right", Some(at)) if at + 1 < columns.len() => {
            columns.swap(at, at + 1);
            *cursor += 1;
        }
        _ => {
            moved(cursor, menu.len(), as_arrow(name));
        }
    }
    PopupOutcome::Stays
}

fn marks_key(cursor: &mut usize, model: &mut Model, name: &str) -> PopupOutcome {
    let marks = &model.context.answer.marks;
    *cursor = (*cursor).min(marks.len().saturating_sub(1));
    match name {
        "x" | "del" if *cursor < marks.len() => model.request(Request::Unmark(*cursor)),
        "enter" => return marks.get(*cursor).cloned().map_or(PopupOutcome::Closes, PopupOutcome::GoesTo),
        "esc" | "q" => return PopupOutcome::Closes,
        _ => {
            moved(cursor, marks.len(), as_arrow(name));
        }
    }
    PopupOutcome::Stays
}

/// Scrolls a text with list keys, by pages of some lines up to a last position; any other key closes it.
fn scrolled(scroll: &mut usize, name: &str, (page, last): (usize, usize)) -> bool {
    match name {
        "up" | "k" => *scroll = scroll.saturating_sub(1),
        "down" | "j" => *scroll = scroll.saturating_add(1),
        "pgup" | "ctrl-b" => *scroll = scroll.saturating_sub(page),
        "pgdn" | "ctrl-f" | "space" => *scroll = scroll.saturating_add(page),
        "home" | "g" => *scroll = 0,
        "end" | "G" => *scroll = last,
        _ => return false,
    }
    *scroll = (*scroll).min(last);
    true
}

/// Searches the help for typed text, ignoring a leading slash. Returns whether the help stays open.
fn help_key(help: &mut Searched, key: KeyEvent, name: &str, page: (usize, usize)) -> bool {
    let empty = help.input.value().is_empty();
    match name {
        "esc" if !empty => *help = Searched::default(),
        "esc" | "enter" => return false,
        "q" | "?" if empty => return false,
        "/" if empty => {}
        "up" | "down" | "pgup" | "pgdn" | "home" | "end" => {
            scrolled(&mut help.scroll, name, page);
        }
        _ if keys::name(&key).is_some() => {
            help.input.handle_event(&Input::Key(key));
            help.scroll = 0;
        }
        _ => {}
    }
    true
}

impl Model {
    /// Creates the palette: commands, units, visible functions and tasks, and events.
    pub(crate) fn palette(&self) -> Palette {
        let mut entries: Vec<PaletteEntry> = table::rows().map(PaletteEntry::Command).collect();
        entries.extend(UNITS.iter().map(|spec| PaletteEntry::Unit(spec)));
        let mut seen = hashbrown::HashSet::new();
        let mut add = |kind: &'static str, name: &str, about: String, command: Invocation| {
            let usable = !name.is_empty() && !name.contains('"') && !name.contains(char::is_control);
            if usable && seen.insert((kind, name.to_owned())) {
                entries.push(PaletteEntry::Thing { kind, name: name.to_owned(), about, command });
            }
        };
        let view = &self.context.answer.view;
        for line in &view.lines {
            let share = crate::panel::unit::percent(line.own_percent);
            let pattern = format!("^{}$", regex::escape(&line.sym));
            add("function", &line.sym, format!("{share} self; to its row"), general::SEARCH.with(pattern));
        }
        for comm in view.tasks.iter().filter_map(|task| task.group.text(ColumnKey::Comm)) {
            let filter = format!("comm == \"{comm}\"");
            add("task", comm, "only its samples".to_owned(), general::FILTER.with(filter));
        }
        let events = self.context.answer.events.iter().enumerate();
        entries.extend(events.map(|(i, event)| PaletteEntry::Event(i, event.name.clone())));
        Palette::over(entries, table::beginning)
    }
}
