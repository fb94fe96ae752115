//! The line at the bottom where something is typed: what for, what is wrong with it so far, and
//! what may come next.

use std::sync::Arc;

use crossterm::event::{Event as Pressed, KeyEvent};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use crate::event::Event;
use crate::filter::capture::{self, Subject};
use crate::filter::program::Offsets;
use crate::filter::{Filter, KnownFields, TraceField};
use crate::ui::command::{Argument, ArgumentKind, Command};
use crate::ui::complete;
use crate::ui::context::Context;
use crate::ui::view::events::state as events;

/// A prompt being typed.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    /// The command that takes it, and what it may be.
    pub(crate) row: &'static Command,
    pub(crate) argument: &'static Argument,
    pub(crate) input: Input,
    /// Completions for what is typed: (text, what it is).
    pub(crate) options: Vec<(String, String)>,
    /// Byte offset at which a completion is put in.
    pub(crate) from: usize,
    pub(crate) chosen: usize,
    /// What is wrong: message, byte offset, length.
    pub(crate) fault: Option<(String, usize, usize)>,
    /// What a capture filter is about.
    subject: Option<Arc<Subject>>,
    /// Each clause of it and where it runs.
    pub(crate) clauses: Vec<(String, &'static str)>,
    /// What to know of it.
    pub(crate) note: Option<String>,
    /// Fields that a filter that cuts at the source may name.
    traced: Arc<Vec<TraceField>>,
    /// A filter that Enter takes in place of the word that was typed.
    pub(crate) offer: Option<String>,
    /// Enter was pressed though something is wrong with the text.
    insisted: bool,
    /// Why nothing can be asked for here: what is typed all the same goes nowhere.
    refused: Option<String>,
}

/// A message about what is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PromptMessage {
    /// What is wrong with it.
    Fault(String),
    /// What to know of it.
    Note(String),
}

impl Prompt {
    pub(crate) fn new(row: &'static Command, argument: &'static Argument, text: String, context: &Context) -> Self {
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

    /// A prompt for a filter that cuts at the source.
    pub(crate) fn about(row: &'static Command, text: String, subject: Subject, context: &Context) -> Option<Self> {
        let mut prompt = Self::new(row, row.argument.as_ref()?, text, context);
        prompt.traced = Arc::new(subject.fields());
        prompt.subject = Some(Arc::new(subject));
        prompt.refresh(context);
        Some(prompt)
    }

    /// Says why nothing can be asked for. The line is there all the same, so that what is typed before that is read are
    /// no keys of the screen.
    pub(crate) fn refused(row: &'static Command, why: String, context: &Context) -> Option<Self> {
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

    /// Shows what is wrong, whatever could be completed.
    pub(crate) fn insist(&mut self) {
        self.insisted = true;
    }

    /// The message for the line above the completions: what is wrong where they cannot mend it, what Enter takes
    /// instead, or what to know of the text.
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

    /// The completion that is chosen.
    pub(crate) fn choice(&self) -> Option<&str> {
        self.options.get(self.chosen).map(|(text, _)| text.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        self.input.value()
    }

    /// Takes a key into the line.
    pub(crate) fn key(&mut self, key: KeyEvent, context: &Context) {
        self.input.handle_event(&Pressed::Key(key));
        self.refresh(context);
    }

    /// Takes pasted text into the line; what is no ordinary character is left out.
    pub(crate) fn paste(&mut self, text: &str, context: &Context) {
        for c in text.chars().filter(|c| !c.is_control()).take(4096) {
            self.input.handle(tui_input::InputRequest::InsertChar(c));
        }
        self.refresh(context);
    }

    /// Goes back or on in what was typed before.
    pub(crate) fn recall(&mut self, past: &[String], back: bool, context: &Context) {
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

    /// Puts the chosen completion in place of the piece being typed.
    pub(crate) fn complete(&mut self, context: &Context) {
        if let Some((text, _)) = self.options.get(self.chosen) {
            let kept = &self.input.value()[..self.from.min(self.input.value().len())];
            self.input = Input::new(format!("{kept}{text} "));
            self.refresh(context);
        }
    }

    /// Chooses the next or previous completion.
    pub(crate) fn choose(&mut self, step: isize) {
        let n = self.options.len();
        if n > 0 {
            self.chosen = (self.chosen as isize + step).rem_euclid(n as isize) as usize;
        }
    }

    fn refresh(&mut self, context: &Context) {
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
