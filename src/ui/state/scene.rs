//! The state that views draw in addition to their own: session, selection and surroundings.

use ratatui::layout::Rect;

use crate::perfdata::EventDesc;
use crate::query::Age;
use crate::query::answer::EventInfo;
use crate::session::Origin;
use crate::ui::input::keymap::ScreenState;
use crate::ui::state::{Environment, Selection, SessionContext, describe_age};

pub(crate) const MIN: (u16, u16) = (20, 6);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) context: &'a SessionContext,
    pub(crate) selection: &'a Selection,
    pub(crate) frame: &'a Environment,
}

impl<'a> Scene<'a> {
    /// Returns the state that conditions of key bindings test.
    pub(crate) fn key_facts(self) -> ScreenState {
        ScreenState {
            live: self.context.info.origin == Origin::Live,
            frozen: self.selection.frozen,
            filtered: self.selection.is_narrowed(),
            comparing: self.selection.baseline.is_some(),
        }
    }

    pub(crate) fn event(self) -> Option<&'a EventInfo> {
        self.context.answer.events.get(self.selection.event)
    }

    /// Returns the displayed event as recorded.
    pub(crate) fn recorded_event(self) -> Option<&'a EventDesc> {
        self.context.info.events.get(self.selection.event)
    }

    pub(crate) fn area(self) -> Rect {
        let (width, height) = self.frame.size;
        Rect { x: 0, y: 0, width, height }
    }

    pub(crate) fn is_too_small(self) -> bool {
        self.frame.size.0 < MIN.0 || self.frame.size.1 < MIN.1
    }

    /// Returns how far back a live session's samples reach, if old ones were evicted.
    pub(crate) fn retention(self) -> Option<u64> {
        let answer = &self.context.answer;
        let forgot = answer.ledger.evicted > 0 && self.context.info.origin == Origin::Live;
        forgot.then(|| answer.elapsed_ns.saturating_sub(answer.kept_from))
    }

    /// Describes the ages of the samples that count, among those that are kept.
    pub(crate) fn age_shown(self) -> Option<String> {
        let (age, chosen) = (self.selection.age, self.selection.age_chosen);
        let shown = self.selection.range().is_none() && (chosen || age != Age::All);
        let words = match (age, self.retention()) {
            (Age::Last(ns), Some(kept)) if kept < ns => describe_age(Age::Last(kept - kept % 1_000_000_000)),
            (Age::All, Some(_)) => "all that is kept".to_owned(),
            _ => describe_age(age),
        };
        (shown && self.context.info.has_times()).then_some(words)
    }
}
