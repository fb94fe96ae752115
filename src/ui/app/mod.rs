//! The model of the interface, without terminal and engine. External actions are returned as effects.

pub(crate) mod answer;
pub(crate) mod banner;
pub(crate) mod comparison;
pub(crate) mod input;
pub(crate) mod popups;
pub(crate) mod range;
pub(crate) mod steps;
pub(crate) mod update;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Clock, Request, UnitRequest};
use crate::ingest::tracepoints;
use crate::query::{Question, TopLine};
use crate::source::{Control, Info};
use crate::ui::screens::Views;
use crate::ui::state::{Environment, Level, SavedFilters, Scene, Selection, SessionContext, Start, StartupAction};
use crate::units::kit::{Settings, Spec};

/// An action outside of the model.
#[derive(Debug)]
pub enum Effect {
    /// Sends a request to the engine.
    Engine(Request),
    /// Changes analysis units; for a recording, its records are read again.
    Unit(UnitRequest),
    /// Sets the refresh interval.
    Refresh(Duration),
    /// Requests an action on files and processes.
    Outside(OutsideRequest),
    /// Redraws the whole screen.
    Redraw,
    /// Enables or disables mouse capture.
    Mouse(bool),
    /// Starts or stops the measurement of softirq time.
    Softirqs(bool),
    /// Starts or stops the PMU counters of the CPUs.
    CountWork(bool),
    /// Loads the catalogue of the machine's events.
    Catalogue,
    /// Copies a text to the clipboard.
    Copy(String),
    /// Leaves the program.
    Quit,
}

/// An action on files and processes, which the owner of the session carries out.
#[derive(Debug)]
pub enum OutsideRequest {
    /// Saves a snapshot under a name or a generated one: of all kept samples, or of a range of the session's clock.
    Save(Option<PathBuf>, Option<(u64, u64)>),
    /// Writes a text to a file.
    Write(PathBuf, String),
    /// Saves the named filters.
    SaveFilters(SavedFilters),
    /// Reads a recording and passes it to the engine for comparison.
    Baseline(PathBuf),
    /// Reads the recording for a unit and passes it to the engine.
    Unit(&'static Spec, Settings),
    /// Stops the process, like Ctrl-Z.
    Suspend,
}

/// The model.
#[derive(Debug)]
pub struct App {
    /// The session and its latest answers.
    pub context: SessionContext,
    /// The selection shared by all screens.
    pub selection: Selection,
    /// The state of each screen.
    pub views: Views,
    /// The surroundings of a screen.
    pub frame: Environment,
    pub(crate) steps: steps::Steps,
    pub(crate) asked: Question,
    pub(crate) startup: VecDeque<StartupAction>,
    /// Pending effects in order; the caller executes and removes them.
    pub effects: Vec<Effect>,
}

impl App {
    /// Creates the initial model; its first effect is its first question.
    pub fn new(info: Info, start: Start) -> Self {
        let fields = Arc::new(tracepoints::first_fields(&info));
        let mut app = Self {
            selection: Selection::new(&info, &start, &fields),
            frame: Environment::new(start.theme, start.tour),
            context: SessionContext {
                fields,
                info,
                keymap: Arc::new(start.keymap),
                themes: start.themes,
                saved: start.saved,
                invocation: start.invocation,
                fine: true,
                charset: start.charset,
                slow: start.slow,
                ..SessionContext::default()
            },
            views: Views::default(),
            steps: steps::Steps::default(),
            asked: Question { generation: 0, ..Question::default() },
            startup: start.actions.into(),
            effects: Vec::new(),
        };
        app.ask(true);
        app
    }

    /// Updates the session's clock when a frame is drawn.
    pub fn tick(&mut self, clock: Option<Clock>) {
        self.context.behind.tick(clock.filter(|_| !self.selection.frozen && self.context.answer.ended.is_none()));
    }

    pub(crate) fn scene(&self) -> Scene<'_> {
        Scene { context: &self.context, selection: &self.selection, frame: &self.frame }
    }

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

    /// Handles a request that the engine rejected; a pending unit is cancelled.
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

    /// Returns the line under the cursor.
    pub fn line(&self) -> Option<&TopLine> {
        self.views.top.line(&self.context.answer)
    }

    /// Returns the row under the cursor, or the row of the call chain entry under it.
    pub(crate) fn row(&self) -> Option<&TopLine> {
        self.views.top.row(&self.context.answer)
    }
}
