//! Commands of the session and of the appearance that concern no single screen.

use std::path::PathBuf;
use std::time::Duration;

use crate::lang::quantity;
use crate::session::Origin;
use crate::source::Control;
use crate::ui::input::commands::program;
use crate::ui::state::{Effect, Model, OutsideRequest, Tab};

impl Model {
    pub(crate) fn show_flame(&mut self) {
        match self.context.info.chains {
            true => self.frame.tab = Tab::Flame,
            false => self.say("no call chains were recorded: there is nothing to draw"),
        }
    }

    pub(crate) fn show_events(&mut self) {
        self.frame.tab = Tab::Events;
        self.load_catalogue();
    }

    /// Requests the machine's events, which a live session can measure.
    pub(crate) fn load_catalogue(&mut self) {
        if self.context.catalogue.is_none() && self.context.info.origin == Origin::Live {
            self.effects.push(Effect::Catalogue);
        }
    }

    pub(crate) fn stop_loading(&mut self) {
        if self.context.answer.progress.is_some() {
            self.control(Control::Stop);
        }
    }

    pub(crate) fn set_limit(&mut self, text: &str) {
        match quantity::share(text) {
            Ok(percent) if (0.0..100.0).contains(&percent) => self.selection.rows.limit = percent,
            _ => self.error(format!("{text}: expected a percentage below 100")),
        }
    }

    pub(crate) fn parse_refresh(&mut self, text: &str) {
        match quantity::duration(text) {
            Ok(time) if !time.is_zero() => self.set_refresh(time.min(Duration::from_secs(3600))),
            _ => self.error(format!("{text}: expected a number of seconds")),
        }
    }

    pub(crate) fn save(&mut self, path: Option<String>, with_digest: bool) {
        let (path, range) = (path.map(PathBuf::from), self.saved_range());
        if range.is_some_and(|(from, until)| from >= until) {
            return self.error("the selected time is before the baseline: B ends the comparison, then S saves it");
        }
        let request = match with_digest {
            true => OutsideRequest::SaveWithDigest(path, range),
            false => OutsideRequest::Save(path, range),
        };
        self.effects.push(Effect::Outside(request));
    }

    /// Returns the range that a snapshot holds, on the session's clock: the selected one, without the earlier samples
    /// that a comparison has as its baseline.
    fn saved_range(&self) -> Option<(u64, u64)> {
        let range = self.clock_range();
        let Some(past) = self.selection.compared_past() else { return range };
        let start = self.context.answer.start;
        let (from, until) = range.unwrap_or((start, u64::MAX));
        Some((from.max(start.saturating_add(past)), until))
    }

    /// Reports a saved snapshot, and which side of a comparison it leaves out.
    pub(crate) fn saved(&mut self, text: String) {
        match self.selection.compared_past() {
            Some(_) => self.say(format!("without the baseline: {text}")),
            None => self.say(text),
        }
    }

    /// Returns the selected range on the session's clock.
    pub(crate) fn clock_range(&self) -> Option<(u64, u64)> {
        self.selection.range().map(|range| self.on_clock(range))
    }

    /// Returns a range since the start of the session on the session's clock.
    pub(crate) fn on_clock(&self, (from, until): (u64, u64)) -> (u64, u64) {
        let start = self.context.answer.start;
        (start.saturating_add(from), start.saturating_add(until))
    }

    /// Sets a theme by name, or opens the theme prompt.
    pub(crate) fn set_theme(&mut self, name: Option<String>) {
        let Some(name) = name else {
            self.frame.theme_before = Some(self.frame.theme.clone());
            return self.ask_for(&program::THEME, String::new());
        };
        if !self.context.themes.contains(&name) {
            return self.error(format!("unknown theme {name}; available: {}", self.context.themes.join(", ")));
        }
        self.say(format!("theme = \"{name}\" in config.toml keeps it"));
        self.frame.theme = name;
    }

    pub(crate) fn set_refresh(&mut self, refresh: Duration) {
        self.selection.refresh = refresh.clamp(Duration::from_millis(100), Duration::from_secs(3600));
        self.effects.push(Effect::Refresh(self.selection.refresh));
        self.say(format!("refreshed every {} s", self.selection.refresh.as_secs_f64()));
    }
}
