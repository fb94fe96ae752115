//! Keys and the mouse on popups.

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use tui_input::backend::crossterm::EventHandler;

use crate::query::ColumnKey;
use crate::ui::app::App;
use crate::ui::draw::{footer, footer_keys, header, layout};
use crate::ui::input::commands::{general, program, table};
use crate::ui::input::keys;
use crate::ui::input::{HintAction, Invocation};
use crate::ui::popups::draw as popups;
use crate::ui::popups::{Chooser, Palette, PaletteEntry, Popup, Searched, column_menu};
use crate::ui::screens::units::chooser::unit_choices;
use crate::ui::state::Tab;
use crate::units::UNITS;

impl App {
    pub(crate) fn popup_key(&mut self, key: KeyEvent, name: &str) {
        let Some(mut popup) = self.frame.popups.pop() else { return };
        let page = self.views.top.height.max(1);
        let stays = match &mut popup {
            Popup::Help(help) => help_key(help, key, name, page),
            Popup::Losses { scroll } | Popup::Info { scroll } => scrolled(scroll, name, page),
            Popup::Palette(palette) => self.palette_key(palette, key, name),
            Popup::Units(chooser) => self.chooser_key(chooser, key, name),
            Popup::Marks { cursor } => self.marks_key(cursor, name),
            Popup::Annotate(screen) => {
                let wish = screen.key(name, self.annotate_room());
                self.carry_out(wish, screen)
            }
            Popup::Columns { cursor } => match name {
                "esc" | "enter" | "q" | "C" => false,
                _ => {
                    self.columns_key(cursor, name);
                    true
                }
            },
        };
        if !stays {
            return;
        }
        if let Some(places) = layout::places_of(self.scene()) {
            let last = popups::last_scroll(self.scene(), &popup, places.table);
            if let Popup::Help(Searched { scroll, .. }) | Popup::Losses { scroll } | Popup::Info { scroll } = &mut popup
            {
                *scroll = (*scroll).min(last);
            }
        }
        self.frame.popups.push(popup);
    }

    fn chooser_key(&mut self, chooser: &mut Chooser, key: KeyEvent, name: &str) -> bool {
        let choices = unit_choices(&self.context, &self.views.events, chooser.input.value());
        match name {
            "esc" => return false,
            "up" | "backtab" => chooser.cursor = chooser.cursor.saturating_sub(1),
            "down" => chooser.cursor = (chooser.cursor + 1).min(choices.len().saturating_sub(1)),
            "tab" => {
                if let Some(choice) = choices.get(chooser.cursor) {
                    chooser.input = tui_input::Input::new(format!("{} ", choice.text));
                    chooser.cursor = 0;
                }
            }
            "enter" => return self.take_unit(chooser),
            _ => {
                self.frame.status = None;
                chooser.input.handle_event(&Input::Key(key));
                chooser.cursor = 0;
            }
        }
        true
    }

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
        for line in &self.context.answer.view.lines {
            let share = crate::panel::unit::percent(line.own_percent);
            let pattern = format!("^{}$", regex::escape(&line.sym));
            add("function", &line.sym, format!("{share} self; to its row"), general::SEARCH.with(pattern));
        }
        for comm in self
            .context
            .answer
            .view
            .tasks
            .iter()
            .filter_map(|whose| whose.group.text(ColumnKey::Comm).map(|comm| &**comm))
        {
            let filter = format!("comm == \"{comm}\"");
            add("task", comm, "only its samples".to_owned(), general::FILTER.with(filter));
        }
        entries.extend(
            self.context.answer.events.iter().enumerate().map(|(i, event)| PaletteEntry::Event(i, event.name.clone())),
        );
        Palette::over(entries, table::beginning)
    }

    pub(crate) fn palette_key(&mut self, palette: &mut Palette, key: KeyEvent, name: &str) -> bool {
        let matches = palette.matches();
        match name {
            "esc" => return false,
            "up" => palette.cursor = palette.cursor.saturating_sub(1),
            "down" => palette.cursor = (palette.cursor + 1).min(matches.len().saturating_sub(1)),
            "tab" | "enter" => {
                let typed = palette.input.value().trim().to_owned();
                if name == "enter"
                    && let Ok(command) = table::parse(&typed)
                {
                    self.run(command);
                    return false;
                }
                let Some(entry) = matches.get(palette.cursor) else {
                    self.error(table::parse(&typed).err().unwrap_or_default());
                    return true;
                };
                match entry {
                    PaletteEntry::Command(row) => {
                        if name == "enter" && row.name != typed.split_whitespace().next().unwrap_or_default() {
                            self.run(*row);
                            return false;
                        }
                        palette.input = tui_input::Input::new(format!("{} ", row.name));
                    }
                    PaletteEntry::Unit(spec) => {
                        if name == "enter" {
                            self.run(general::UNIT.with(spec.name));
                            return false;
                        }
                        palette.input = tui_input::Input::new(format!("{} {} ", general::UNIT.name, spec.name));
                    }
                    PaletteEntry::Thing { command, .. } => {
                        self.frame.tab = Tab::Top;
                        self.run(command.clone());
                        return false;
                    }
                    PaletteEntry::Event(event, _) => {
                        (self.frame.tab, self.selection.event) = (Tab::Top, *event);
                        self.views.top.home();
                        return false;
                    }
                }
            }
            _ => {
                palette.input.handle_event(&Input::Key(key));
                palette.cursor = 0;
            }
        }
        true
    }

    pub(crate) fn columns_key(&mut self, cursor: &mut usize, name: &str) {
        let columns = &mut self.selection.rows.columns;
        let menu = column_menu(columns);
        let field = menu[(*cursor).min(menu.len() - 1)];
        let at = columns.iter().position(|f| *f == field);
        match (name, at) {
            ("up", _) | ("k", _) => *cursor = cursor.saturating_sub(1),
            ("down", _) | ("j", _) => *cursor = (*cursor + 1).min(menu.len() - 1),
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
            _ => {}
        }
    }

    /// Handles a click on tabs, message, completions and footer keys. Returns whether it was one.
    pub(crate) fn pressed_around(&mut self, mouse: MouseEvent) -> bool {
        if mouse.kind != MouseEventKind::Down(MouseButton::Left) || !mouse.modifiers.is_empty() {
            return false;
        }
        let Some(places) = layout::places_of(self.scene()) else { return false };
        if let Some(prompt) = self.frame.prompt.as_mut().filter(|_| mouse.row == places.details.y) {
            let mut placed = footer::completions(prompt, places.details.width).into_iter();
            if let Some((option, ..)) = placed.find(|(_, x, cells)| (*x..x + cells).contains(&mouse.column)) {
                prompt.chosen = option;
                self.key(KeyEvent::new(KeyCode::Tab, KeyModifiers::NONE));
            }
            return true;
        }
        if mouse.row == places.footer.y && self.frame.prompt.is_none() {
            let found =
                footer_keys::laid(self.scene(), places.footer.width).into_iter().find(|laid| laid.holds(mouse.column));
            if let Some(laid) = found {
                self.press(&laid.hint.press);
            }
            return true;
        }
        if !self.frame.popups.is_empty() || self.frame.prompt.is_some() {
            return false;
        }
        if mouse.row == places.tabs.y
            && let Some(row) = header::tab_at(self.scene(), places.tabs.width, mouse.column)
        {
            self.run(row);
            return true;
        }
        let finding = places.finding.height > 0 && mouse.row == places.finding.y && self.scene().banner().is_some();
        if finding {
            self.run(&program::FINDING);
        }
        finding
    }

    fn press(&mut self, press: &HintAction) {
        match press {
            HintAction::Command(row) => self.run(*row),
            HintAction::Chord(begun) => (*begun).clone_into(&mut self.frame.chord),
            HintAction::Key(code) => self.key(KeyEvent::new(*code, KeyModifiers::NONE)),
        }
    }

    /// Handles the mouse: the wheel scrolls, a click selects, a second one confirms, and one outside closes.
    pub(crate) fn popup_mouse(&mut self, mouse: MouseEvent) {
        let press = |app: &mut Self, code| app.key(KeyEvent::new(code, KeyModifiers::NONE));
        match mouse.kind {
            MouseEventKind::ScrollDown => press(self, KeyCode::Down),
            MouseEventKind::ScrollUp => press(self, KeyCode::Up),
            MouseEventKind::Down(MouseButton::Left) => {
                let Some(places) = layout::places_of(self.scene()) else { return };
                let Some(popup) = self.frame.popups.last() else { return };
                let Some((frame, row)) =
                    popups::hit(self.scene(), &self.views, popup, places.table, mouse.column, mouse.row)
                else {
                    return;
                };
                if !frame.contains((mouse.column, mouse.row).into()) {
                    return press(self, KeyCode::Esc);
                }
                let Some(row) = row else { return };
                let again = match self.frame.popups.last_mut() {
                    Some(Popup::Palette(Palette { cursor, .. }) | Popup::Units(Chooser { cursor, .. }))
                    | Some(Popup::Marks { cursor } | Popup::Columns { cursor }) => {
                        std::mem::replace(cursor, row) == row
                    }
                    _ => return,
                };
                if again {
                    let shows = matches!(self.frame.popups.last(), Some(Popup::Columns { .. }));
                    press(self, if shows { KeyCode::Char(' ') } else { KeyCode::Enter });
                }
            }
            MouseEventKind::Down(MouseButton::Right) => press(self, KeyCode::Esc),
            _ => {}
        }
    }
}

/// Scrolls a text with list keys; any other key closes it.
fn scrolled(scroll: &mut usize, name: &str, page: usize) -> bool {
    match name {
        "up" | "k" => *scroll = scroll.saturating_sub(1),
        "down" | "j" => *scroll = scroll.saturating_add(1),
        "pgup" | "ctrl-b" => *scroll = scroll.saturating_sub(page),
        "pgdn" | "ctrl-f" | "space" => *scroll = scroll.saturating_add(page),
        "home" | "g" => *scroll = 0,
        "end" | "G" => *scroll = usize::MAX,
        _ => return false,
    }
    true
}

/// Searches the help for typed text, ignoring a leading slash. Returns whether the help stays open.
fn help_key(help: &mut Searched, key: KeyEvent, name: &str, page: usize) -> bool {
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
