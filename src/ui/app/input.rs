//! What keys, mouse and paste do, depending on what is on top: a prompt, an overlay, the screen.

use crossterm::event::{Event as Input, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use crate::ui::app::App;
use crate::ui::command::Command;
use crate::ui::frame::Tab;
use crate::ui::keymap::Lookup;
use crate::ui::keys;
use crate::ui::prompt::{Ask, Prompt};
use crate::ui::view::top::hit;
use crate::ui::view::top::state::TopScreen;

/// Filters that are remembered.
const MAX_PAST: usize = 100;

impl App {
    /// Takes in what the terminal sends.
    pub fn input(&mut self, input: &Input) {
        match input {
            Input::Key(key) => self.step(|app| app.key(*key)),
            Input::Mouse(mouse) => self.step(|app| app.mouse(*mouse)),
            Input::Resize(width, height) => self.resize(*width, *height),
            Input::Paste(text) => {
                let answer = self.context.answer.clone();
                if let Some(prompt) = &mut self.frame.prompt {
                    prompt.paste(text, &answer);
                }
            }
            _ => {}
        }
        self.ask(false);
    }

    pub(in crate::ui) fn key(&mut self, key: KeyEvent) {
        let Some(name) = keys::name(&key) else { return };
        if name == "ctrl-c" {
            return self.run(Command::Quit);
        }
        if name == "esc" && !self.frame.chord.is_empty() {
            self.frame.chord.clear();
            return;
        }
        if self.frame.prompt.is_some() {
            return self.prompt_key(key, &name);
        }
        if !self.frame.overlays.is_empty() {
            return self.overlay_key(key, &name);
        }
        self.frame.status = None;
        if self.frame.chord == "'" {
            self.frame.chord.clear();
            return self.mark(Some(name));
        }
        let keys = if self.frame.chord.is_empty() { name } else { format!("{} {name}", self.frame.chord) };
        match self.context.keymap.lookup(&keys, self.frame.tab.group(), &self.scene().key_facts()) {
            Lookup::Run(command) => {
                self.frame.chord.clear();
                self.run(command);
            }
            Lookup::Prefix => self.frame.chord = keys,
            Lookup::Nothing => {
                self.frame.chord.clear();
                self.say(format!("{} means nothing here: ? for help", keys::shown(&keys)));
            }
        }
    }

    pub(in crate::ui) fn prompt_key(&mut self, key: KeyEvent, name: &str) {
        let Some(mut prompt) = self.frame.prompt.take() else { return };
        let answer = self.context.answer.clone();
        match name {
            "esc" if prompt.ask == Ask::EventSearch => return self.search_events(String::new()),
            "esc" => {
                if prompt.ask == Ask::EventSearch {
                    self.search_events(prompt.text().trim().to_owned());
                }
                self.frame.theme =
                    self.frame.theme_before.take().unwrap_or_else(|| std::mem::take(&mut self.frame.theme));
                if let Some(before) = self.frame.before_search.take() {
                    self.views.top = TopScreen { search: None, height: self.views.top.height, ..before };
                }
                return;
            }
            "enter" => return self.prompt_done(prompt),
            "ctrl-p" | "ctrl-n" if matches!(prompt.ask, Ask::Filter | Ask::Capture) => {
                prompt.recall(&self.frame.past_filters, name == "ctrl-p", &answer);
            }
            "tab" => prompt.complete(&answer),
            "down" => prompt.choose(1),
            "up" | "backtab" => prompt.choose(-1),
            _ => prompt.key(key, &answer),
        }
        if prompt.ask == Ask::EventSearch {
            self.search_events(prompt.text().trim().to_owned());
        }
        if let Some(name) = prompt.choice().filter(|_| prompt.ask == Ask::Theme) {
            self.frame.theme = name.to_owned();
        }
        if let Some(before) = self.frame.before_search.as_ref().filter(|_| self.frame.tab == Tab::Top) {
            self.views.top = TopScreen { height: self.views.top.height, ..before.clone() };
            // An unfinished pattern is shown as a fault by the prompt itself.
            let _ = self.views.top.search(prompt.text(), &answer);
        }
        self.frame.prompt = Some(prompt);
    }

    pub(in crate::ui) fn prompt_done(&mut self, prompt: Prompt) {
        let mut text = prompt.text().trim().to_owned();
        if prompt.ask == Ask::Theme {
            // What is shown is what was chosen.
            text = prompt.choice().map_or(text, str::to_owned);
            self.frame.theme = self.frame.theme_before.take().unwrap_or_else(|| std::mem::take(&mut self.frame.theme));
        }
        if prompt.fault.is_some() {
            self.frame.prompt = Some(prompt);
            return;
        }
        self.frame.before_search = None;
        if matches!(prompt.ask, Ask::Filter | Ask::Capture) && !text.is_empty() {
            self.frame.past_filters.retain(|past| *past != text);
            self.frame.past_filters.push(text.clone());
            let n = self.frame.past_filters.len();
            self.frame.past_filters.drain(..n.saturating_sub(MAX_PAST));
        }
        let given = Some(text.clone());
        match prompt.ask {
            Ask::Filter if text.is_empty() => self.selection.filter = None,
            Ask::Capture => self.run(Command::Capture(given)),
            Ask::EventSearch => self.search_events(text),
            Ask::EventModifiers => self.run(Command::EventModifiers(given)),
            Ask::EventCpus => self.run(Command::EventCpus(given)),
            Ask::Search if text.is_empty() && self.frame.tab == Tab::Units => self.filter_rows(""),
            Ask::Search if text.is_empty() && self.frame.tab == Tab::Flame => self.views.flame.find = None,
            Ask::Search if text.is_empty() && self.frame.tab == Tab::Time => self.views.time.lit = None,
            Ask::Search if text.is_empty() => self.views.top.search = None,
            _ if text.is_empty() => {}
            Ask::Filter => self.run(Command::Filter(given)),
            Ask::Search => self.run(Command::Search(given)),
            Ask::Limit => self.run(Command::Limit(given)),
            Ask::Refresh => self.run(Command::Refresh(given)),
            Ask::Frequency => self.run(Command::Frequency(given)),
            Ask::Cpus => self.run(Command::Cpus(given)),
            Ask::ZoomCpu => self.run(Command::ZoomCpu(given)),
            Ask::Around => self.run(Command::Around(given)),
            Ask::Save => self.run(Command::Save(given)),
            Ask::Write => self.run(Command::Write(given)),
            Ask::Event => self.run(Command::EventAdd(given)),
            Ask::SaveFilter => self.run(Command::SaveFilter(given)),
            Ask::SavedFilter => self.run(Command::SavedFilter(given)),
            Ask::Attach => self.run(Command::Attach(given)),
            Ask::Probe => self.run(Command::Probe(given)),
            Ask::EventRate => self.run(Command::EventRate(given)),
            Ask::Range => self.run(Command::Range(given)),
            Ask::Note => self.run(Command::Note(given)),
            Ask::Theme => self.run(Command::Theme(given)),
        }
    }

    pub(in crate::ui) fn mouse(&mut self, mouse: MouseEvent) {
        if self.pressed_around(mouse) || self.frame.prompt.is_some() {
            return;
        }
        if !self.frame.overlays.is_empty() {
            return self.overlay_mouse(mouse);
        }
        match self.frame.tab {
            Tab::Flame => return self.flame_mouse(mouse),
            Tab::Time => return self.time_mouse(mouse),
            Tab::Cpus => return self.cpus_mouse(mouse),
            Tab::Events => return self.events_mouse(mouse),
            Tab::Units => return self.units_mouse(mouse),
            Tab::Top => {}
        }
        let answer = self.context.answer.clone();
        if mouse.modifiers.contains(KeyModifiers::ALT)
            && let MouseEventKind::Down(button) = mouse.kind
        {
            return self.narrow_by_cell(mouse.column, mouse.row, button == MouseButton::Right);
        }
        match mouse.kind {
            MouseEventKind::ScrollDown => self.views.top.step(3, &answer),
            MouseEventKind::ScrollUp => self.views.top.step(-3, &answer),
            MouseEventKind::Down(MouseButton::Left) => {
                match hit::hit(self.scene(), &self.views.top, mouse.column, mouse.row) {
                    hit::Hit::Head(field) => self.order_by(field),
                    hit::Hit::Line(line, on_mark) => {
                        let again = self.views.top.selected == line;
                        self.views.top.go(line, &answer);
                        if on_mark || again {
                            self.run(Command::Toggle);
                        }
                    }
                    hit::Hit::Nothing => {}
                }
            }
            MouseEventKind::Down(MouseButton::Right) => self.run(Command::Undo),
            _ => {}
        }
    }
}
