//! Commands of time ranges and marks.

use crate::engine::Request;
use crate::panel::unit::clock;
use crate::query::time_range::{RangeClock, RangeError, TimeRange, time_of_day};
use crate::session::{Origin, TimeMark, marks};
use crate::ui::app::App;
use crate::ui::popups::Popup;
use crate::ui::screens::time::state::MapPoint;
use crate::ui::state::range::label;
use crate::ui::state::{Tab, Zoom, ZoomTarget};

impl App {
    pub(crate) fn go_to_range(&mut self, range: (u64, u64)) {
        self.show_range(range);
        self.selection.ranges.remember(range);
    }

    /// Counts from now on; undo restores earlier samples.
    pub(crate) fn count_from_now(&mut self) {
        if self.context.info.origin != Origin::Live || self.context.answer.ended.is_some() {
            return self.say("the recording has ended: there are no new samples; v on 3 selects a time");
        }
        self.show_range((self.context.elapsed_ns().saturating_add(1), u64::MAX));
        self.say("counting from now on; ⌫ restores earlier samples");
    }

    fn show_range(&mut self, range: (u64, u64)) {
        self.selection.zooms.retain(|zoom| zoom.range().is_none());
        self.selection.zooms.push(Zoom { label: label(range), to: ZoomTarget::Range(range) });
        self.views.top.home();
    }

    /// Goes to the previous (-1) or next (1) range of the history.
    pub(crate) fn walk_ranges(&mut self, step: isize) {
        let here = self.selection.range().is_some();
        match self.selection.ranges.walk(here, step) {
            Some(range) => self.show_range(range),
            None if self.selection.ranges.is_empty() => self.say("no time range selected yet: 3 selects one"),
            None => self.say("there is no further range"),
        }
    }

    /// Parses the argument of `:range`: seconds from the start, times of day, or any form of [`TimeRange`]. The result
    /// is relative to the session's start, with an exclusive end.
    pub(crate) fn typed_range(&self, text: &str) -> Result<(u64, u64), String> {
        let list = TimeRange::parse(text).map_err(|wrong| format!("{text}: {wrong}"))?;
        match &list[..] {
            [one] => self.resolved_range(one, text, 0),
            _ => Err(format!("{text}: one range at a time")),
        }
    }

    /// Goes to a range of the samples' clock, as opposed to the time since the session's start.
    pub(crate) fn go_to_clock_range(&mut self, range: &TimeRange, typed: &str) {
        match self.resolved_range(range, typed, self.context.answer.start) {
            Ok(range) => self.go_to_range(range),
            Err(wrong) => self.error(wrong),
        }
    }

    /// Resolves a range on a clock on which the session begins at `start`. The result is as of
    /// [`typed_range`](Self::typed_range).
    fn resolved_range(&self, range: &TimeRange, text: &str, start: u64) -> Result<(u64, u64), String> {
        let answer = &self.context.answer;
        let kept = (start.saturating_add(answer.kept_from), start.saturating_add(answer.elapsed_ns));
        let on = RangeClock::new(kept, answer.wall_start, start);
        let (from, until) = range.resolve(&on).map_err(|wrong| format!("{text}: {wrong}"))?;
        // A range up to the end includes the last sample.
        let until = if until >= kept.1 { until.saturating_add(1) } else { until };
        let (from, until) = (from.saturating_sub(start), until.saturating_sub(start));
        if from > answer.elapsed_ns || until <= answer.kept_from {
            return Err(format!("{text}: no samples of that time, only of {}", self.span_kept()));
        }
        if until <= from {
            return Err(format!("{text}: {}", RangeError::Reversed));
        }
        Ok((from, until))
    }

    fn span_kept(&self) -> String {
        let answer = &self.context.answer;
        let kept = (answer.kept_from, answer.elapsed_ns);
        let wall = |ns| time_of_day(answer.wall_start.saturating_add(ns));
        match answer.wall_start {
            0 => label(kept),
            _ => format!("{} ({} to {})", label(kept), wall(kept.0), wall(kept.1)),
        }
    }

    /// Selects a typed time range; `off` removes it.
    pub(crate) fn set_range(&mut self, text: &str) {
        if text == "off" {
            return self.selection.zooms.retain(|zoom| zoom.range().is_none());
        }
        match self.typed_range(text) {
            Ok(range) => self.go_to_range(range),
            Err(wrong) => self.error(wrong),
        }
    }

    /// Returns the time for a mark: under the cursor on the time screen, otherwise now or the end.
    fn moment(&self) -> u64 {
        match (&self.context.answer.view.heat, self.frame.tab) {
            (Some(heat), Tab::Time) => self.views.time.spot(heat).at,
            _ => self.context.answer.elapsed_ns,
        }
    }

    /// `'x`: goes to the mark x, or sets it if it does not exist. `:mark x text` sets it with a note.
    pub(crate) fn mark(&mut self, text: Option<String>) {
        let Some(text) = text else {
            "'".clone_into(&mut self.frame.chord);
            return;
        };
        let (name, note) = text.split_once(' ').map_or((text.as_str(), None), |(name, note)| (name, Some(note.trim())));
        if name == "'" {
            return self.frame.popups.push(Popup::Marks { cursor: 0 });
        }
        let mut letters = name.chars();
        let (Some(letter), None) = (letters.next().filter(|c| marks::is_name(*c)), letters.next()) else {
            return self.error(format!("{name}: a mark is one letter or digit"));
        };
        let known = self.context.answer.marks.iter().find(|mark| mark.name == name).cloned();
        match (known, note) {
            (Some(known), None) => self.go_to_mark(&known),
            (_, note) => {
                let at = self.moment();
                let note = note.unwrap_or_default().to_owned();
                self.request(Request::Mark(TimeMark { at, name: letter.to_string(), note }));
                self.say(format!(
                    "mark {letter} is set at {:.3} s: '{letter} goes there, :marks lists all",
                    at as f64 / 1e9
                ));
            }
        }
    }

    pub(crate) fn note_moment(&mut self, note: String) {
        let at = self.moment();
        self.request(Request::Mark(TimeMark { at, name: String::new(), note }));
        self.say(format!("noted at {}: :marks lists, S saves", clock(at)));
    }

    pub(crate) fn go_to_mark(&mut self, mark: &TimeMark) {
        let columns = crate::ui::screens::time::layout::room(self.scene(), &self.views.time).0 as u64;
        let column = mark.at / self.views.time.length.max(1);
        self.views.time.page = Some(column / columns * columns);
        self.views.time.cursor = Some(MapPoint { at: mark.at, row: 0 });
        self.views.time.anchor = None;
        self.frame.tab = Tab::Time;
        let kept = mark.at >= self.context.answer.kept_from || self.context.info.origin == Origin::Recorded;
        self.say(match (kept, mark.note.is_empty()) {
            (false, _) => format!("{}: its samples are no longer kept (--keep, --memory)", mark.note),
            (true, true) => format!("mark {}", mark.name),
            (true, false) => mark.note.clone(),
        });
    }

    pub(crate) fn marks_key(&mut self, cursor: &mut usize, name: &str) -> bool {
        let marks = self.context.answer.marks.clone();
        let last = marks.len().saturating_sub(1);
        *cursor = (*cursor).min(last);
        match name {
            "up" | "k" => *cursor = cursor.saturating_sub(1),
            "down" | "j" => *cursor = (*cursor + 1).min(last),
            "x" | "del" if *cursor < marks.len() => self.request(Request::Unmark(*cursor)),
            "enter" => {
                if let Some(mark) = marks.get(*cursor) {
                    self.go_to_mark(mark);
                }
                return false;
            }
            "esc" | "q" => return false,
            _ => {}
        }
        true
    }
}
