//! The prompt at the bottom: purpose, errors and completions.

use std::sync::Arc;

use crossterm::event::{Event as Pressed, KeyEvent};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use crate::event::Event;
use crate::filter::capture::{self, Subject};
use crate::filter::program::Offsets;
use crate::filter::{Filter, KnownFields, TraceField};
use crate::ui::input::{Argument, ArgumentKind, Command};
use crate::ui::popups::complete;
use crate::ui::screens::events::state as events;
use crate::ui::state::SessionContext;

#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) row: &'static Command,
    pub(crate) argument: &'static Argument,
    pub(crate) input: Input,
    /// Completions: (text, description).
    pub(crate) options: Vec<(String, String)>,
    /// Byte offset at which a completion is inserted.
    pub(crate) from: usize,
    pub(crate) chosen: usize,
    /// The error: message, byte offset, length.
    pub(crate) fault: Option<(String, usize, usize)>,
    /// The subject of a capture filter.
    subject: Option<Arc<Subject>>,
    /// Each of its clauses, and where it is evaluated.
    pub(crate) clauses: Vec<(String, &'static str)>,
    pub(crate) note: Option<String>,
    /// Fields that a capture filter may use.
    traced: Arc<Vec<TraceField>>,
    /// The filter that Enter uses instead of the typed word.
    pub(crate) offer: Option<String>,
    /// Whether Enter was pressed despite an error.
    insisted: bool,
    /// The reason why the prompt is unavailable; typed text is ignored.
    refused: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PromptMessage {
    Fault(String),
    Note(String),
}

impl Prompt {
    pub(crate) fn new(
        row: &'static Command,
        argument: &'static Argument,
        text: String,
        context: &SessionContext,
    ) -> Self {
        let mut prompt = Self {
            row,
            argument,
            input: Input::new(text),
            options: Vec::new(),
            from: 0,
            chosen: 0,
            fault: None,
            subject: None,
            clauses: Vec::new(),
            note: None,
            traced: Arc::default(),
            offer: None,
            insisted: false,
            refused: None,
        };
        prompt.refresh(context);
        prompt
    }

    pub(crate) fn about(
        row: &'static Command,
        text: String,
        subject: Subject,
        context: &SessionContext,
    ) -> Option<Self> {
        let mut prompt = Self::new(row, row.argument.as_ref()?, text, context);
        prompt.traced = Arc::new(subject.fields());
        prompt.subject = Some(Arc::new(subject));
        prompt.refresh(context);
        Some(prompt)
    }

    /// Creates a prompt that shows why it is unavailable. It still receives the keys that the user types before reading
    /// the reason, so that they do not act on the screen.
    pub(crate) fn refused(row: &'static Command, why: String, context: &SessionContext) -> Option<Self> {
        let mut prompt = Self::new(row, row.argument.as_ref()?, String::new(), context);
        prompt.refused = Some(why);
        prompt.refresh(context);
        Some(prompt)
    }

    pub(crate) fn refused_for(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    pub(crate) fn kind(&self) -> ArgumentKind {
        self.argument.kind
    }

    /// Shows the error despite available completions.
    pub(crate) fn insist(&mut self) {
        self.insisted = true;
    }

    /// Returns the message above the completions: an error, the filter that Enter uses instead, or a remark.
    pub(crate) fn message(&self) -> Option<PromptMessage> {
        match (&self.fault, &self.offer) {
            (Some(_), Some(offer)) => Some(PromptMessage::Note(format!("⏎ takes {offer}"))),
            (Some((why, at, _)), None) if self.insisted || self.options.is_empty() || *at < self.from => {
                Some(PromptMessage::Fault(why.clone()))
            }
            (Some(_), None) => None,
            (None, _) => self.note.clone().map(PromptMessage::Note),
        }
    }

    pub(crate) fn choice(&self) -> Option<&str> {
        self.options.get(self.chosen).map(|(text, _)| text.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        self.input.value()
    }

    pub(crate) fn key(&mut self, key: KeyEvent, context: &SessionContext) {
        self.input.handle_event(&Pressed::Key(key));
        self.refresh(context);
    }

    /// Inserts pasted text without control characters.
    pub(crate) fn paste(&mut self, text: &str, context: &SessionContext) {
        for c in text.chars().filter(|c| !c.is_control()).take(4096) {
            self.input.handle(tui_input::InputRequest::InsertChar(c));
        }
        self.refresh(context);
    }

    /// Replaces the text by the previous or next one of the history.
    pub(crate) fn recall(&mut self, past: &[String], back: bool, context: &SessionContext) {
        let now = past.iter().position(|text| text == self.text());
        let next = match (now, back) {
            (None, true) => past.len().checked_sub(1),
            (None, false) => return,
            (Some(at), true) => Some(at.saturating_sub(1)),
            (Some(at), false) => Some(at + 1),
        };
        let text = next.and_then(|at| past.get(at)).cloned().unwrap_or_default();
        self.input = Input::new(text);
        self.refresh(context);
    }

    pub(crate) fn complete(&mut self, context: &SessionContext) {
        if let Some((text, _)) = self.options.get(self.chosen) {
            let kept = &self.input.value()[..self.from.min(self.input.value().len())];
            self.input = Input::new(format!("{kept}{text} "));
            self.refresh(context);
        }
    }

    pub(crate) fn choose(&mut self, step: isize) {
        let n = self.options.len();
        if n > 0 {
            self.chosen = (self.chosen as isize + step).rem_euclid(n as isize) as usize;
        }
    }

    fn refresh(&mut self, context: &SessionContext) {
        self.chosen = 0;
        (self.clauses, self.note, self.offer, self.insisted) = (Vec::new(), None, None, false);
        if let Some(why) = &self.refused {
            self.fault = Some((why.clone(), 0, 0));
            return;
        }
        let text = self.input.value();
        self.fault = match self.kind() {
            ArgumentKind::Filter if !text.trim().is_empty() => {
                match Filter::parse_with(text, KnownFields::These(&context.fields)) {
                    Ok(filter) => {
                        self.note = complete::narrow_glob(&filter, &context.answer);
                        None
                    }
                    Err(f) => {
                        self.offer = complete::offer(text);
                        Some((f.line(), f.at, f.len.max(1)))
                    }
                }
            }
            ArgumentKind::Capture if !text.trim().is_empty() => {
                let place = |subject: &Arc<Subject>| capture::place(text, subject, Offsets::system());
                match self.subject.as_ref().map(place) {
                    Some(Ok(placed)) => {
                        (self.clauses, self.note) = (placed.clauses, placed.note);
                        None
                    }
                    Some(Err(f)) => Some((f.line(), f.at, f.len.max(1))),
                    None => None,
                }
            }
            ArgumentKind::Modifiers => {
                Event::cpu_clock().set_modifiers(text.trim()).err().map(|f| (f.line(), f.at, f.len.max(1)))
            }
            ArgumentKind::Rate if !text.trim().is_empty() => {
                events::rate(text.trim()).err().map(|why| (why, 0, text.len()))
            }
            ArgumentKind::Pattern => crate::query::search::pattern(text).err().map(|e| (e, 0, text.len())),
            _ => None,
        };
        (self.options, self.from) = match (self.kind(), &self.subject) {
            (ArgumentKind::Saved, _) => {
                let typed = text.trim_start();
                let known = context.saved.iter().filter(|(name, _)| name.starts_with(typed));
                (known.map(|(name, filter)| (name.clone(), filter.clone())).collect(), 0)
            }
            (ArgumentKind::Target, _) => (complete::targets(text, &context.answer), 0),
            (ArgumentKind::Theme, _) => {
                let known = context.themes.iter().filter(|name| name.contains(text.trim()));
                (known.map(|name| (name.clone(), String::new())).collect(), 0)
            }
            (ArgumentKind::Filter, _) => complete::filter(text, &context.answer, &context.fields),
            (ArgumentKind::Capture, Some(subject)) => complete::capture(text, subject, &self.traced),
            _ => (Vec::new(), 0),
        };
    }
}
