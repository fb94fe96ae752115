//! The history of selected time ranges with their labels and filters, and the commands that select them.

use crate::panel::unit::clock;
use crate::query::time_range::{RangeClock, RangeError, TimeRange, time_of_day};
use crate::session::Origin;
use crate::ui::state::{Model, Zoom, ZoomTarget};

/// Limit of remembered ranges or filters.
const MAX: usize = 100;

/// Appends a value to a history, or moves it to its end.
pub(crate) fn remember<T: PartialEq>(list: &mut Vec<T>, last: T) {
    list.retain(|past| *past != last);
    list.push(last);
    list.drain(..list.len().saturating_sub(MAX));
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    past: Vec<(u64, u64)>,
    /// The index of the current or last range.
    at: usize,
}

pub(crate) fn label((from, until): (u64, u64)) -> String {
    if until == u64::MAX {
        return format!("since {}", clock(from));
    }
    format!("{:.3}–{:.3} s", from as f64 / 1e9, until as f64 / 1e9)
}

pub(crate) fn clause((from, until): (u64, u64)) -> String {
    if until == u64::MAX {
        return format!("time >= {from}ns");
    }
    format!("time >= {from}ns && time < {until}ns")
}

impl Ranges {
    pub(crate) fn remember(&mut self, range: (u64, u64)) {
        remember(&mut self.past, range);
        self.at = self.past.len() - 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.past.is_empty()
    }

    /// Returns the previous (-1) or next (1) range. Without a current range, -1 returns the last one.
    pub(crate) fn walk(&mut self, here: bool, step: isize) -> Option<(u64, u64)> {
        let at = match here {
            false if step < 0 => Some(self.at),
            false => None,
            true => self.at.checked_add_signed(step),
        };
        let at = at.filter(|at| *at < self.past.len())?;
        self.at = at;
        Some(self.past[at])
    }
}

impl Model {
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
        self.top.home();
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
            return Err(format!("{text}: no samples of that time, only of {}", self.span_kept(start)));
        }
        if until <= from {
            return Err(format!("{text}: {}", RangeError::Reversed));
        }
        Ok((from, until))
    }

    /// Describes the time of all samples, on a clock on which the session begins at `start`.
    fn span_kept(&self, start: u64) -> String {
        let answer = &self.context.answer;
        let (from, until) = (answer.kept_from, answer.elapsed_ns);
        let kept = label((start.saturating_add(from), start.saturating_add(until)));
        let wall = |ns| time_of_day(answer.wall_start.saturating_add(ns));
        match answer.wall_start {
            0 => kept,
            _ => format!("{kept} ({} to {})", wall(from), wall(until)),
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
}
