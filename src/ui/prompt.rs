//! The line at the bottom where something is typed: what for, what is wrong with it so far, and
//! what may come next.

use std::sync::Arc;

use crossterm::event::{Event as Pressed, KeyEvent};
use tui_input::Input;
use tui_input::backend::crossterm::EventHandler;

use crate::event::Event;
use crate::filter::capture::{self, Subject};
use crate::filter::program::Offsets;
use crate::filter::{Filter, Known, TraceField};
use crate::query::Answer;

use crate::ui::complete;
use crate::ui::context::SavedFilters;
use crate::ui::view::events::state as events;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Filter,
    Search,
    Limit,
    Refresh,
    Frequency,
    Capture,
    Cpus,
    ZoomCpu,
    Save,
    Around,
    Write,
    Event,
    Probe,
    Attach,
    SaveFilter,
    SavedFilter,
    EventSearch,
    EventRate,
    EventModifiers,
    EventCpus,
    Range,
    Note,
    Theme,
}

impl Ask {
    pub fn label(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Search => "search",
            Self::Range => "from,until in seconds",
            Self::Note => "note",
            Self::Theme => "theme",
            Self::Limit => "hide below %",
            Self::Refresh => "seconds",
            Self::Frequency => "Hz",
            Self::Capture => "record only",
            Self::Cpus => "sample CPUs",
            Self::ZoomCpu => "CPUs",
            Self::Save => "save as",
            Self::Around => "around",
            Self::Write => "write to",
            Self::Event => "measure",
            Self::Probe => "probe",
            Self::Attach => "sample",
            Self::SaveFilter => "keep as",
            Self::SavedFilter => "filter kept as",
            Self::EventSearch => "search events",
            Self::EventRate => "Hz, or 1/N",
            Self::EventModifiers => "modifiers",
            Self::EventCpus => "on CPUs",
        }
    }
}

/// A prompt being typed.
#[derive(Clone, Debug)]
pub struct Prompt {
    pub ask: Ask,
    pub input: Input,
    /// Completions for what is typed: (text, what it is).
    pub options: Vec<(String, String)>,
    /// Byte offset at which a completion is put in.
    pub from: usize,
    pub chosen: usize,
    /// What is wrong: message, byte offset, length.
    pub fault: Option<(String, usize, usize)>,
    /// What a capture filter is about.
    subject: Option<Arc<Subject>>,
    /// Each clause of it and where it runs.
    pub clauses: Vec<(String, &'static str)>,
    /// What to know of it.
    pub note: Option<String>,
    /// Those that a filter of the view may name.
    traced: Arc<Vec<TraceField>>,
    /// Filters by the names that they are kept under.
    saved: SavedFilters,
    /// What can be chosen from, where that is a list.
    choices: Vec<String>,
}

impl Prompt {
    pub fn new(ask: Ask, text: String, traced: Arc<Vec<TraceField>>, answer: &Answer) -> Self {
        Self::make(ask, text, None, traced, answer)
    }

    /// A prompt for a filter that cuts at the source.
    pub fn about(text: String, subject: Subject, answer: &Answer) -> Self {
        let fields = Arc::new(subject.fields());
        Self::make(Ask::Capture, text, Some(Arc::new(subject)), fields, answer)
    }

    fn make(
        ask: Ask,
        text: String,
        subject: Option<Arc<Subject>>,
        traced: Arc<Vec<TraceField>>,
        answer: &Answer,
    ) -> Self {
        let (options, input) = (Vec::new(), Input::new(text));
        let (clauses, note) = (Vec::new(), None);
        let mut prompt = Self {
            ask,
            input,
            options,
            from: 0,
            chosen: 0,
            fault: None,
            subject,
            clauses,
            note,
            traced,
            saved: SavedFilters::new(),
            choices: Vec::new(),
        };
        prompt.refresh(answer);
        prompt
    }

    /// Offers what is kept under names.
    pub fn with_saved(mut self, saved: SavedFilters, answer: &Answer) -> Self {
        self.saved = saved;
        self.refresh(answer);
        self
    }

    /// Offers a list to choose from.
    pub fn with_choices(mut self, choices: Vec<String>, answer: &Answer) -> Self {
        self.choices = choices;
        self.refresh(answer);
        self
    }

    /// The completion that is chosen.
    pub fn choice(&self) -> Option<&str> {
        self.options.get(self.chosen).map(|(text, _)| text.as_str())
    }

    pub fn text(&self) -> &str {
        self.input.value()
    }

    /// Takes a key into the line.
    pub fn key(&mut self, key: KeyEvent, answer: &Answer) {
        self.input.handle_event(&Pressed::Key(key));
        self.refresh(answer);
    }

    /// Takes pasted text into the line; what is no ordinary character is left out.
    pub fn paste(&mut self, text: &str, answer: &Answer) {
        for c in text.chars().filter(|c| !c.is_control()).take(4096) {
            self.input.handle(tui_input::InputRequest::InsertChar(c));
        }
        self.refresh(answer);
    }

    /// Goes back or on in what was typed before.
    pub fn recall(&mut self, past: &[String], back: bool, answer: &Answer) {
        let now = past.iter().position(|text| text == self.text());
        let next = match (now, back) {
            (None, true) => past.len().checked_sub(1),
            (None, false) => return,
            (Some(at), true) => Some(at.saturating_sub(1)),
            (Some(at), false) => Some(at + 1),
        };
        let text = next.and_then(|at| past.get(at)).cloned().unwrap_or_default();
        self.input = Input::new(text);
        self.refresh(answer);
    }

    /// Puts the chosen completion in place of the piece being typed.
    pub fn complete(&mut self, answer: &Answer) {
        if let Some((text, _)) = self.options.get(self.chosen) {
            let kept = &self.input.value()[..self.from.min(self.input.value().len())];
            self.input = Input::new(format!("{kept}{text} "));
            self.refresh(answer);
        }
    }

    /// Chooses the next or previous completion.
    pub fn choose(&mut self, step: isize) {
        let n = self.options.len();
        if n > 0 {
            self.chosen = (self.chosen as isize + step).rem_euclid(n as isize) as usize;
        }
    }

    fn refresh(&mut self, answer: &Answer) {
        self.chosen = 0;
        (self.clauses, self.note) = (Vec::new(), None);
        let text = self.input.value();
        self.fault = match self.ask {
            Ask::Filter if !text.trim().is_empty() => {
                let known = Known::These(&self.traced);
                Filter::parse_with(text, known).err().map(|f| (f.line(), f.at, f.len.max(1)))
            }
            Ask::Capture if !text.trim().is_empty() => {
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
            Ask::EventModifiers => {
                Event::cpu_clock().set_modifiers(text.trim()).err().map(|f| (f.line(), f.at, f.len.max(1)))
            }
            Ask::EventRate if !text.trim().is_empty() => {
                events::rate(text.trim()).err().map(|why| (why, 0, text.len()))
            }
            Ask::Search | Ask::Around => crate::query::find::pattern(text).err().map(|e| (e, 0, text.len())),
            _ => None,
        };
        (self.options, self.from) = match (self.ask, &self.subject) {
            (Ask::SavedFilter, _) => {
                let typed = text.trim_start();
                let known = self.saved.iter().filter(|(name, _)| name.starts_with(typed));
                (known.map(|(name, filter)| (name.clone(), filter.clone())).collect(), 0)
            }
            (Ask::Attach, _) => (complete::targets(text, answer), 0),
            (Ask::Theme, _) => {
                let known = self.choices.iter().filter(|name| name.contains(text.trim()));
                (known.map(|name| (name.clone(), String::new())).collect(), 0)
            }
            (Ask::Filter, _) => complete::filter(text, answer, &self.traced),
            (Ask::Capture, Some(subject)) => complete::capture(text, subject, &self.traced),
            _ => (Vec::new(), 0),
        };
    }
}
