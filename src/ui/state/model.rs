//! The state that all screens share.

use ratatui::layout::Rect;

use crate::engine::Request;
use crate::lang::{counted, thousands};
use crate::panel::unit::{bytes, duration};
use crate::perfdata::{EventDesc, EventUnit, PeriodMeaning, SampleCount};
use crate::profile::Acc;
use crate::query::answer::EventInfo;
use crate::query::rows::top_table::TopField;
use crate::query::{Age, TopLine};
use crate::session::Origin;
use crate::source::Control;
use crate::ui::input::Command;
use crate::ui::input::keymap::ScreenState;
use crate::ui::popups::prompt::Prompt;
use crate::ui::screens::top::state::TopState;
use crate::ui::state::{Effect, Environment, Level, Selection, SessionContext, Tab, describe_age};

pub(crate) const MIN: (u16, u16) = (20, 6);

/// The shared part of the interface's state: screens draw it, and change it together with their own state.
#[derive(Debug)]
pub struct Model {
    /// The session and its latest answers.
    pub context: SessionContext,
    /// The selection shared by all screens.
    pub selection: Selection,
    /// The surroundings of a screen.
    pub frame: Environment,
    /// The cursor of the table of functions.
    pub top: TopState,
    /// Pending effects in order; the caller executes and removes them.
    pub effects: Vec<Effect>,
}

impl Model {
    pub(crate) fn leave_mouse(&mut self) {
        self.frame.mouse = false;
        self.effects.push(Effect::Mouse(false));
    }

    pub(crate) fn request(&mut self, request: Request) {
        self.effects.push(Effect::Engine(request));
    }

    pub(crate) fn control(&mut self, control: Control) {
        self.request(Request::Control(control));
    }

    pub(crate) fn error(&mut self, text: impl Into<String>) {
        self.frame.status = Some((Level::Error, text.into()));
    }

    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.frame.status = Some((Level::Info, text.into()));
    }

    pub(crate) fn ask_for(&mut self, row: &'static Command, text: String) {
        if let Some(argument) = &row.argument {
            self.frame.prompt = Some(Prompt::new(row, argument, text, &self.context));
        }
    }

    /// Opens the prompt of a command that is not available, with the reason.
    pub(crate) fn refuse(&mut self, row: &'static Command, why: &str) {
        self.frame.prompt = Prompt::refused(row, why.to_owned(), &self.context);
    }

    /// Returns the line under the cursor.
    pub fn line(&self) -> Option<&TopLine> {
        self.top.line(&self.context.answer)
    }

    /// Returns the row under the cursor, or the row of the call chain entry under it.
    pub(crate) fn row(&self) -> Option<&TopLine> {
        self.top.row(&self.context.answer)
    }

    pub(crate) fn show_samples_of(&mut self, event: usize) {
        (self.frame.tab, self.selection.event, self.selection.off_cpu) = (Tab::Top, event, false);
        self.top.home();
    }

    /// Keeps the table's cursor on its row. Other screens' answers have no rows.
    pub(crate) fn follow_rows(&mut self) {
        let answer = &self.context.answer;
        if answer.view.flame.is_none() && answer.view.heat.is_none() {
            self.top.follow(answer);
        }
    }

    /// Returns the state that conditions of key bindings test.
    pub(crate) fn key_facts(&self) -> ScreenState {
        ScreenState {
            live: self.context.info.origin == Origin::Live,
            frozen: self.selection.frozen,
            filtered: self.selection.is_narrowed(),
            comparing: self.selection.baseline.is_some(),
        }
    }

    /// Whether a target, a filter or a zoom selects some processes.
    pub(crate) fn selects_processes(&self) -> bool {
        let zoomed = self.selection.zooms.iter().any(|zoom| zoom.filter().is_some());
        zoomed || self.selection.filter.is_some() || !self.context.answer.target.is_empty()
    }

    pub(crate) fn event(&self) -> Option<&EventInfo> {
        self.context.answer.events.get(self.selection.event)
    }

    /// Whether the rows are still those of another grouping, because the answer to the current question is missing.
    pub(crate) fn awaits_rows(&self) -> bool {
        let (answer, chosen) = (&self.context.answer, self.selection.rows.keys());
        !answer.view.lines.is_empty() && !chosen.eq(answer.question.top.keys.iter().copied())
    }

    /// Returns the columns of the rows that are shown: the selected ones, or those of the previous grouping until the
    /// new rows arrive.
    pub(crate) fn shown_fields(&self) -> Vec<TopField> {
        let fields = self.selection.fields();
        if !self.awaits_rows() {
            return fields;
        }
        let is_key = |field: &TopField| matches!(field, TopField::Key(_));
        let at = fields.iter().position(is_key).unwrap_or(fields.len());
        let mut shown: Vec<TopField> = fields.into_iter().filter(|field| !is_key(field)).collect();
        shown.splice(at..at, self.context.answer.question.top.keys.iter().copied().map(TopField::Key));
        shown
    }

    /// Returns the displayed event as recorded.
    pub(crate) fn recorded_event(&self) -> Option<&EventDesc> {
        self.context.info.events.get(self.selection.event)
    }

    /// Returns the number of samples of a weight and their noun. Other tools store samples of one stack as their sum; if
    /// the period of one is unknown, the stored stacks are counted.
    pub(crate) fn samples_of(&self, weight: Acc) -> (u64, &'static str) {
        weight.counted(self.meaning().count)
    }

    /// Returns how the periods of the displayed event are read.
    pub(crate) fn meaning(&self) -> PeriodMeaning {
        self.event().map(|event| event.meaning).unwrap_or_default()
    }

    /// Returns it as text.
    pub(crate) fn counted_samples(&self, weight: Acc) -> String {
        let (n, noun) = self.samples_of(weight);
        counted(n, noun)
    }

    /// Returns the value of another tool's file with its unit, if its samples cannot be counted.
    fn amount(&self, weight: Acc) -> Option<String> {
        let PeriodMeaning { unit, count, is_value, .. } = self.meaning();
        let text = || match unit {
            EventUnit::Nanoseconds => duration(weight.period),
            EventUnit::Bytes => bytes(weight.period),
            EventUnit::Count | EventUnit::Decimal(_) => unit.figure(weight.period, thousands),
        };
        (is_value && count == SampleCount::Unknown).then(text)
    }

    /// Returns a weight without a noun: its samples, or its amount if these cannot be counted.
    pub(crate) fn weighed(&self, weight: Acc) -> String {
        self.amount(weight).unwrap_or_else(|| thousands(self.samples_of(weight).0))
    }

    /// Returns a weight in words: `7 samples`, or `1.5 MB in 2 stacks` if samples cannot be counted.
    pub(crate) fn described_weight(&self, weight: Acc) -> String {
        let samples = self.counted_samples(weight);
        self.amount(weight).map(|amount| format!("{amount} in {samples}")).unwrap_or(samples)
    }

    pub(crate) fn area(&self) -> Rect {
        let (width, height) = self.frame.size;
        Rect { x: 0, y: 0, width, height }
    }

    pub(crate) fn is_too_small(&self) -> bool {
        self.frame.size.0 < MIN.0 || self.frame.size.1 < MIN.1
    }

    /// Returns how far back a live session's samples reach, if old ones were evicted.
    pub(crate) fn retention(&self) -> Option<u64> {
        let answer = &self.context.answer;
        let forgot = answer.ledger.evicted > 0 && self.context.info.origin == Origin::Live;
        forgot.then(|| answer.elapsed_ns.saturating_sub(answer.kept_from))
    }

    /// Describes the ages of the samples that count, among those that are kept.
    pub(crate) fn age_shown(&self) -> Option<String> {
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
