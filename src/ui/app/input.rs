//! Keys, mouse and paste, handled by the topmost of prompt, popup and screen.

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use crate::ui::app::App;
use crate::ui::draw::{footer, footer_keys, layout, tabs};
use crate::ui::input::commands::{general, program};
use crate::ui::input::key_lookup::Lookup;
use crate::ui::input::{ArgumentKind, HintAction, keys};
use crate::ui::popups::keys::PopupOutcome;
use crate::ui::popups::prompt::Prompt;
use crate::ui::popups::{self, Chooser, Palette, Popup};
use crate::ui::screens::top::state::TopState;
use crate::ui::state::range::remember;
use crate::ui::state::{Level, Tab};

impl App {
    /// Processes input of the terminal.
    pub fn input(&mut self, input: &Input) {
        match input {
            Input::Key(key) => self.step(|app| app.key(*key)),
            Input::Mouse(mouse) => self.step(|app| app.mouse(*mouse)),
            Input::Resize(width, height) => self.resize(*width, *height),
            Input::Paste(text) => {
                if let Some(prompt) = &mut self.model.frame.prompt {
                    prompt.paste(text, &self.model.context);
                }
            }
            _ => {}
        }
        self.ask(false);
    }

    fn key(&mut self, key: KeyEvent) {
        let Some(name) = keys::name(&key) else { return };
        if name == "ctrl-c" {
            return self.run(&program::QUIT);
        }
        if name == "esc" && !self.model.frame.chord.is_empty() {
            self.model.frame.chord.clear();
            return;
        }
        if self.model.frame.prompt.is_some() {
            return self.prompt_key(key, &name);
        }
        if !self.model.frame.popups.is_empty() {
            return self.popup_key(key, &name);
        }
        self.model.frame.status = None;
        if self.model.frame.chord == "'" {
            self.model.frame.chord.clear();
            return self.views.time.mark(&mut self.model, Some(name));
        }
        let keys = if self.model.frame.chord.is_empty() { name } else { format!("{} {name}", self.model.frame.chord) };
        match self.model.context.keymap.lookup(&keys, self.model.frame.tab, &self.model.key_facts()) {
            Lookup::Run(command) => {
                self.model.frame.chord.clear();
                self.run(command);
            }
            Lookup::Prefix => self.model.frame.chord = keys,
            Lookup::Nothing => {
                self.model.frame.chord.clear();
                self.model.say(format!("{} is not bound here; ? shows the keys", keys::shown(&keys)));
            }
        }
    }

    fn prompt_key(&mut self, key: KeyEvent, name: &str) {
        let Some(mut prompt) = self.model.frame.prompt.take() else { return };
        match name {
            "esc" if prompt.kind() == ArgumentKind::Events => {
                return self.views.events.search_for(&self.model, String::new());
            }
            "esc" => {
                self.model.frame.theme =
                    self.model.frame.theme_before.take().unwrap_or_else(|| std::mem::take(&mut self.model.frame.theme));
                if let Some(before) = self.model.frame.before_search.take() {
                    self.model.top = TopState { search: None, height: self.model.top.height, ..before };
                }
                return;
            }
            "enter" => return self.prompt_done(prompt),
            "ctrl-p" | "ctrl-n" if matches!(prompt.kind(), ArgumentKind::Filter | ArgumentKind::Capture) => {
                prompt.recall(&self.model.frame.past_filters, name == "ctrl-p", &self.model.context);
            }
            "tab" => prompt.complete(&self.model.context),
            "down" => prompt.choose(1),
            "up" | "backtab" => prompt.choose(-1),
            _ => prompt.key(key, &self.model.context),
        }
        if prompt.kind() == ArgumentKind::Events {
            self.views.events.search_for(&self.model, prompt.text().trim().to_owned());
        }
        if let Some(name) = prompt.choice().filter(|_| prompt.kind() == ArgumentKind::Theme) {
            self.model.frame.theme = name.to_owned();
        }
        if let Some(before) = self.model.frame.before_search.as_ref().filter(|_| self.model.frame.tab == Tab::Top) {
            self.model.top = TopState { height: self.model.top.height, ..before.clone() };
            // The prompt itself shows the error of an incomplete pattern.
            let _ = self.model.top.search(prompt.text(), &self.model.context.answer);
        }
        self.model.frame.prompt = Some(prompt);
    }

    fn prompt_done(&mut self, mut prompt: Prompt) {
        if let Some(why) = prompt.refused_for() {
            return self.model.error(why.to_owned());
        }
        let mut text = prompt.text().trim().to_owned();
        if prompt.kind() == ArgumentKind::Theme {
            text = prompt.choice().map_or(text, str::to_owned);
            self.model.frame.theme =
                self.model.frame.theme_before.take().unwrap_or_else(|| std::mem::take(&mut self.model.frame.theme));
        }
        match (prompt.fault.is_some(), prompt.offer.take()) {
            (true, Some(offer)) => text = offer,
            (true, None) => {
                prompt.insist();
                self.model.frame.prompt = Some(prompt);
                return;
            }
            (false, _) => {}
        }
        self.model.frame.before_search = None;
        if matches!(prompt.kind(), ArgumentKind::Filter | ArgumentKind::Capture) && !text.is_empty() {
            remember(&mut self.model.frame.past_filters, text.clone());
        }
        if !text.is_empty() || prompt.argument.optional {
            return self.run(prompt.row.with(text));
        }
        self.model.say("nothing typed, nothing done");
    }

    fn mouse(&mut self, mouse: MouseEvent) {
        if self.pressed_around(mouse) || self.model.frame.prompt.is_some() {
            return;
        }
        if !self.model.frame.popups.is_empty() {
            return self.popup_mouse(mouse);
        }
        let (model, x, y) = (&mut self.model, mouse.column, mouse.row);
        let screen = self.views.screen_mut(model.frame.tab);
        match mouse.kind {
            MouseEventKind::Down(button)
                if mouse.modifiers.contains(KeyModifiers::ALT)
                    && screen.click_cell(model, x, y, button == MouseButton::Right) => {}
            MouseEventKind::Down(MouseButton::Right) => self.run(&general::UNDO),
            MouseEventKind::Down(MouseButton::Left) => {
                if let Some(command) = screen.click(model, x, y) {
                    self.run(command);
                }
            }
            MouseEventKind::Drag(MouseButton::Left) => screen.drag(model, x, y),
            MouseEventKind::ScrollDown => screen.scroll(model, 1),
            MouseEventKind::ScrollUp => screen.scroll(model, -1),
            _ => {}
        }
    }

    fn popup_key(&mut self, key: KeyEvent, name: &str) {
        let Some(mut popup) = self.model.frame.popups.pop() else { return };
        let stays = match popups::keys::press(&mut popup, &mut self.model, key, name) {
            PopupOutcome::Stays => true,
            PopupOutcome::Closes => false,
            PopupOutcome::Runs(command) => {
                self.run(command);
                false
            }
            PopupOutcome::GoesTo(mark) => {
                self.views.time.go_to_mark(&mut self.model, &mark);
                false
            }
            PopupOutcome::Starts(unit) => {
                self.model.frame.status = None;
                self.views.units.add(&mut self.model, Some(unit));
                matches!(self.model.frame.status, Some((Level::Error, _)))
            }
        };
        if stays {
            self.model.frame.popups.push(popup);
        }
    }

    /// Handles a click on tabs, message, completions and footer keys. Returns whether it was one.
    fn pressed_around(&mut self, mouse: MouseEvent) -> bool {
        if mouse.kind != MouseEventKind::Down(MouseButton::Left) || !mouse.modifiers.is_empty() {
            return false;
        }
        let Some(places) = layout::places_of(&self.model) else { return false };
        if let Some(prompt) = self.model.frame.prompt.as_mut().filter(|_| mouse.row == places.details.y) {
            let mut placed = footer::completions(prompt, places.details.width).into_iter();
            if let Some((option, ..)) = placed.find(|(_, x, cells)| (*x..x + cells).contains(&mouse.column)) {
                prompt.chosen = option;
                self.key(KeyEvent::new(KeyCode::Tab, KeyModifiers::NONE));
            }
            return true;
        }
        if mouse.row == places.footer.y && self.model.frame.prompt.is_none() {
            let found = footer_keys::laid(&self.model, &self.views, places.footer.width)
                .into_iter()
                .find(|laid| laid.holds(mouse.column));
            if let Some(laid) = found {
                self.press(&laid.hint.press);
            }
            return true;
        }
        if !self.model.frame.popups.is_empty() || self.model.frame.prompt.is_some() {
            return false;
        }
        if mouse.row == places.tabs.y
            && let Some(row) = tabs::tab_at(&self.model, places.tabs.width, mouse.column)
        {
            self.run(row);
            return true;
        }
        let finding = places.finding.height > 0 && mouse.row == places.finding.y;
        if finding {
            self.run(&program::FINDING);
        }
        finding
    }

    fn press(&mut self, press: &HintAction) {
        match press {
            HintAction::Command(row) => self.run(*row),
            HintAction::Chord(begun) => (*begun).clone_into(&mut self.model.frame.chord),
            HintAction::Key(code) => self.key(KeyEvent::new(*code, KeyModifiers::NONE)),
        }
    }

    /// Handles the mouse: the wheel scrolls, a click selects, a second one confirms, and one outside closes.
    fn popup_mouse(&mut self, mouse: MouseEvent) {
        let press = |app: &mut Self, code| app.key(KeyEvent::new(code, KeyModifiers::NONE));
        match mouse.kind {
            MouseEventKind::ScrollDown => press(self, KeyCode::Down),
            MouseEventKind::ScrollUp => press(self, KeyCode::Up),
            MouseEventKind::Down(MouseButton::Left) => {
                let Some(places) = layout::places_of(&self.model) else { return };
                let Some(popup) = self.model.frame.popups.last() else { return };
                let Some((frame, row)) = popups::draw::hit(&self.model, popup, places.table, mouse.column, mouse.row)
                else {
                    return;
                };
                if !frame.contains((mouse.column, mouse.row).into()) {
                    return press(self, KeyCode::Esc);
                }
                let Some(row) = row else { return };
                let again = match self.model.frame.popups.last_mut() {
                    Some(Popup::Palette(Palette { cursor, .. }) | Popup::Units(Chooser { cursor, .. }))
                    | Some(Popup::Marks { cursor } | Popup::Columns { cursor }) => {
                        std::mem::replace(cursor, row) == row
                    }
                    _ => return,
                };
                if again {
                    let shows = matches!(self.model.frame.popups.last(), Some(Popup::Columns { .. }));
                    press(self, if shows { KeyCode::Char(' ') } else { KeyCode::Enter });
                }
            }
            MouseEventKind::Down(MouseButton::Right) => press(self, KeyCode::Esc),
            _ => {}
        }
    }
}
