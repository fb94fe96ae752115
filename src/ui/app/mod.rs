//! The model of the interface. No terminal and no engine here: what is to happen outside comes back
//! as effects.

pub(crate) mod answer;
pub(crate) mod input;
pub(crate) mod notice;
pub(crate) mod popups;
pub(crate) mod range;
pub(crate) mod steps;
pub(crate) mod update;
pub(crate) mod versus;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Clock, Request, UnitRequest};
use crate::ingest::tracepoints;
use crate::query::{Question, TopLine};
use crate::source::{Control, Info};
use crate::ui::context::{Context, SavedFilters};
use crate::ui::frame::{Level, Surroundings};
use crate::ui::lag::ViewLag;
use crate::ui::scene::Scene;
use crate::ui::selection::Selection;
use crate::ui::start::Start;
use crate::ui::view::Views;

/// Something to be done outside the model.
#[derive(Debug)]
pub enum Effect {
    /// Ask the engine.
    Engine(Request),
    /// What is wanted of analysis units: of a recording they are given what is read again.
    Unit(UnitRequest),
    /// Bring the screen up to date so often.
    Refresh(Duration),
    /// Save under this name, or under one of the driver's choice; only what came in a range of the session's
    /// clock, when there is one.
    Save(Option<PathBuf>, Option<(u64, u64)>),
    /// Stop the process, as Ctrl-Z would.
    Suspend,
    /// Draw the screen again, all of it.
    Redraw,
    /// Take the mouse, or leave it to the terminal.
    Mouse(bool),
    /// Measure the time in softirqs, or stop.
    Softirqs(bool),
    /// Have the PMUs of CPUs count what those do, or stop.
    CountWork(bool),
    /// Find out what this machine can measure.
    Catalogue,
    /// Put a text on the clipboard.
    Copy(String),
    /// Write a text to a file.
    Write(PathBuf, String),
    /// Keep the filters that have names.
    SaveFilters(SavedFilters),
    /// Read a recording to compare with.
    Baseline(PathBuf),
    /// Leave the program.
    Quit,
}

/// The model.
#[derive(Debug)]
pub struct App {
    /// The session: what runs, the answers that have come.
    pub context: Context,
    /// What is asked for on every screen.
    pub selection: Selection,
    /// The state of each screen.
    pub views: Views,
    /// What lies around a screen.
    pub frame: Surroundings,
    pub(crate) steps: steps::Steps,
    /// The question that was sent last.
    pub(crate) asked: Question,
    /// Commands that were given at the start and still wait.
    pub(crate) exec: std::collections::VecDeque<String>,
    /// What is to be done outside, in this order; whoever does it takes it out.
    pub effects: Vec<Effect>,
}

impl App {
    /// A model at the start, whose first effect is its first question.
    pub fn new(info: Info, start: Start) -> Self {
        let mut app = Self {
            selection: Selection::new(&info, &start),
            frame: Surroundings::new(start.theme, start.tour),
            context: Context {
                fields: Arc::new(tracepoints::first_fields(&info)),
                info,
                answer: Arc::default(),
                host: None,
                times: None,
                tracing: false,
                findings: Vec::new(),
                behind: ViewLag::default(),
                keymap: Arc::new(start.keymap),
                themes: start.themes,
                saved: start.saved,
                invocation: start.invocation,
                fine: true,
                charset: start.charset,
                slow: start.slow,
                bytes_a_second: None,
            },
            views: Views::default(),
            steps: steps::Steps::default(),
            asked: Question { generation: 0, ..Question::default() },
            exec: start.exec.into(),
            effects: Vec::new(),
        };
        app.ask(true);
        app
    }

    /// Takes the session's clock in as a frame is made.
    pub fn tick(&mut self, clock: Option<Clock>) {
        self.context.behind.tick(clock.filter(|_| !self.selection.frozen && self.context.answer.ended.is_none()));
    }

    /// The scene that views draw, beside their own state.
    pub(crate) fn scene(&self) -> Scene<'_> {
        Scene { context: &self.context, selection: &self.selection, frame: &self.frame }
    }

    /// Leaves the mouse to the terminal from the start.
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

    /// The engine cannot do what it was asked for; a unit that was waited for does not come.
    pub fn engine_refused(&mut self, why: String) {
        self.views.units.pending = false;
        self.error(why);
    }

    pub(crate) fn error(&mut self, text: impl Into<String>) {
        self.frame.status = Some((Level::Error, text.into()));
    }

    pub(crate) fn say(&mut self, text: impl Into<String>) {
        self.frame.status = Some((Level::Info, text.into()));
    }

    /// The line under the cursor.
    pub fn line(&self) -> Option<&TopLine> {
        self.views.top.line(&self.context.answer)
    }

    /// The row under the cursor, or that the entry of a call chain under it belongs to.
    pub(crate) fn row(&self) -> Option<&TopLine> {
        self.views.top.row(&self.context.answer)
    }
}
