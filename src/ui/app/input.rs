//! Keys, mouse and paste, handled by the topmost of prompt, popup and screen.

use crossterm::event::{Event as Input, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use crate::ui::app::App;
use crate::ui::input::ArgumentKind;
use crate::ui::input::commands::{general, program};
use crate::ui::input::key_lookup::Lookup;
use crate::ui::input::keys;
use crate::ui::popups::prompt::Prompt;
use crate::ui::screens::list::screen;
use crate::ui::screens::top::state::TopState;
use crate::ui::state::Tab;
use crate::ui::state::range::remember;

impl App {
    /// Processes input of the terminal.
    pub fn input(&mut self, input: &Input) {
        match input {
            Input::Key(key) => self.step(|app| app.key(*key)),
            Input::Mouse(mouse) => self.step(|app| app.mouse(*mouse)),
            Input::Resize(width, height) => self.resize(*width, *height),
            Input::Paste(text) => {
                if let Some(prompt) = &mut self.frame.prompt {
                    prompt.paste(text, &self.context);
                }
            }
            _ => {}
        }
        self.ask(false);
    }

    pub(crate) fn key(&mut self, key: KeyEvent) {
        let Some(name) = keys::name(&key) else { return };
        if name == "ctrl-c" {
            return self.run(&program::QUIT);
        }
        if name == "esc" && !self.frame.chord.is_empty() {
            self.frame.chord.clear();
            return;
        }
        if self.frame.prompt.is_some() {
            return self.prompt_key(key, &name);
        }
        if !self.frame.popups.is_empty() {
            return self.popup_key(key, &name);
        }
        self.frame.status = None;
        if self.frame.chord == "'" {
            self.frame.chord.clear();
            return self.mark(Some(name));
        }
        let keys = if self.frame.chord.is_empty() { name } else { format!("{} {name}", self.frame.chord) };
        match self.context.keymap.lookup(&keys, self.frame.tab, &self.scene().key_facts()) {
            Lookup::Run(command) => {
                self.frame.chord.clear();
                self.run(command);
            }
            Lookup::Prefix => self.frame.chord = keys,
            Lookup::Nothing => {
                self.frame.chord.clear();
                self.say(format!("{} is not bound here; ? shows the keys", keys::shown(&keys)));
            }
        }
    }

    pub(crate) fn prompt_key(&mut self, key: KeyEvent, name: &str) {
        let Some(mut prompt) = self.frame.prompt.take() else { return };
        match name {
            "esc" if prompt.kind() == ArgumentKind::Events => return self.search_events(String::new()),
            "esc" => {
                self.frame.theme =
                    self.frame.theme_before.take().unwrap_or_else(|| std::mem::take(&mut self.frame.theme));
                if let Some(before) = self.frame.before_search.take() {
                    self.views.top = TopState { search: None, height: self.views.top.height, ..before };
                }
                return;
            }
            "enter" => return self.prompt_done(prompt),
            "ctrl-p" | "ctrl-n" if matches!(prompt.kind(), ArgumentKind::Filter | ArgumentKind::Capture) => {
                prompt.recall(&self.frame.past_filters, name == "ctrl-p", &self.context);
            }
            "tab" => prompt.complete(&self.context),
            "down" => prompt.choose(1),
            "up" | "backtab" => prompt.choose(-1),
            _ => prompt.key(key, &self.context),
        }
        if prompt.kind() == ArgumentKind::Events {
            self.search_events(prompt.text().trim().to_owned());
        }
        if let Some(name) = prompt.choice().filter(|_| prompt.kind() == ArgumentKind::Theme) {
            self.frame.theme = name.to_owned();
        }
        if let Some(before) = self.frame.before_search.as_ref().filter(|_| self.frame.tab == Tab::Top) {
            self.views.top = TopState { height: self.views.top.height, ..before.clone() };
            // The prompt itself shows the error of an incomplete pattern.
            let _ = self.views.top.search(prompt.text(), &self.context.answer);
        }
        self.frame.prompt = Some(prompt);
    }

    pub(crate) fn prompt_done(&mut self, mut prompt: Prompt) {
        if let Some(why) = prompt.refused_for() {
            return self.error(why.to_owned());
        }
        let mut text = prompt.text().trim().to_owned();
        if prompt.kind() == ArgumentKind::Theme {
            text = prompt.choice().map_or(text, str::to_owned);
            self.frame.theme = self.frame.theme_before.take().unwrap_or_else(|| std::mem::take(&mut self.frame.theme));
        }
        match (prompt.fault.is_some(), prompt.offer.take()) {
            (true, Some(offer)) => text = offer,
            (true, None) => {
                prompt.insist();
                self.frame.prompt = Some(prompt);
                return;
            }
            (false, _) => {}
        }
        self.frame.before_search = None;
        if matches!(prompt.kind(), ArgumentKind::Filter | ArgumentKind::Capture) && !text.is_empty() {
            remember(&mut self.frame.past_filters, text.clone());
        }
        if !text.is_empty() || prompt.argument.optional {
            self.run(prompt.row.with(text));
        }
    }

    pub(crate) fn mouse(&mut self, mouse: MouseEvent) {
        if self.pressed_around(mouse) || self.frame.prompt.is_some() {
            return;
        }
        if !self.frame.popups.is_empty() {
            return self.popup_mouse(mouse);
        }
        let (screen, x, y) = (screen(self.frame.tab), mouse.column, mouse.row);
        match mouse.kind {
            MouseEventKind::Down(button)
                if mouse.modifiers.contains(KeyModifiers::ALT)
                    && screen.click_cell(self, x, y, button == MouseButton::Right) => {}
            MouseEventKind::Down(MouseButton::Right) => self.run(&general::UNDO),
            MouseEventKind::Down(MouseButton::Left) => screen.click(self, x, y),
            MouseEventKind::Drag(MouseButton::Left) => screen.drag(self, x, y),
            MouseEventKind::ScrollDown => screen.scroll(self, 1),
            MouseEventKind::ScrollUp => screen.scroll(self, -1),
            _ => {}
        }
    }
}
