//! The model of the interface. No terminal and no engine here: what is to happen outside comes back
//! as effects.

pub(in crate::ui) mod input;
pub(in crate::ui) mod notice;
pub(in crate::ui) mod popups;
pub(in crate::ui) mod range;
pub(in crate::ui) mod steps;
pub(in crate::ui) mod update;
pub(in crate::ui) mod versus;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{Clock, Request, UnitRequest};
use crate::ingest::tracepoints;
use crate::panel::top::Field;
use crate::query::{Age, Answer, Question, TopLine};
use crate::session::Origin;
use crate::source::{Control, Info};
use crate::symbols::Form;

use crate::ui::commands;
use crate::ui::context::{Context, SavedFilters};
use crate::ui::draw::layout;
use crate::ui::frame::{Level, Surroundings, Tab};
use crate::ui::keymap::Keymap;
use crate::ui::scene::Scene;
use crate::ui::selection::Selection;
use crate::ui::view::Views;
use crate::ui::view::time::state::usual;

/// Something to be done outside the model.
#[derive(Debug)]
pub enum Effect {
    /// Ask the engine.
    Engine(Request),
    /// What is wanted of analysis units: of a recording they are given what is read again.
    Unit(UnitRequest),
    Refresh(Duration),
    /// Save under this name, or under one of the driver's choice; only what came in a range of the session's
    /// clock, when there is one.
    Save(Option<PathBuf>, Option<(u64, u64)>),
    Suspend,
    Redraw,
    Mouse(bool),
    /// Measure the time in softirqs, or stop.
    Softirqs(bool),
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
    Quit,
}

/// How the interface starts.
#[derive(Clone, Debug)]
pub struct Start {
    pub columns: Vec<Field>,
    /// Whether those were asked for.
    pub sorted: bool,
    pub children: bool,
    pub filter: Option<String>,
    pub limit: f64,
    pub refresh: Duration,
    /// How many points a CPU must stand above the others to be a finding.
    pub points: f64,
    /// The command line without its filters and commands.
    pub invocation: Vec<String>,
    /// Commands to run, one after each answer.
    pub exec: Vec<String>,
    /// How names are made readable, and whether inlined functions are frames.
    pub form: Form,
    pub inlined: bool,
    pub saved: SavedFilters,
    /// The theme by name, and all that there are.
    pub theme: String,
    pub themes: Vec<String>,
    pub keymap: Keymap,
    /// Whether a tour is given.
    pub tour: bool,
    /// Whether the link to the terminal is slow.
    pub slow: bool,
}

impl Default for Start {
    fn default() -> Self {
        Self {
            columns: Field::FIRST.to_vec(),
            sorted: false,
            children: true,
            filter: None,
            limit: 0.0,
            refresh: Duration::from_secs(1),
            points: 10.0,
            invocation: vec!["perfprof-tui".to_owned()],
            exec: Vec::new(),
            form: Form::Plain,
            inlined: true,
            saved: SavedFilters::new(),
            theme: String::new(),
            themes: Vec::new(),
            keymap: Keymap::default(),
            tour: false,
            slow: false,
        }
    }
}

/// The model.
#[derive(Debug)]
pub struct App {
    pub context: Context,
    pub selection: Selection,
    pub views: Views,
    pub frame: Surroundings,
    pub(in crate::ui) steps: steps::Steps,
    /// The question that was sent last.
    pub(in crate::ui) asked: Question,
    /// Commands that were given at the start and still wait.
    pub(in crate::ui) exec: std::collections::VecDeque<String>,
    pub effects: Vec<Effect>,
}

impl App {
    pub fn new(info: Info, start: Start) -> Self {
        let mut app = Self {
            selection: Selection::new(&info, &start),
            frame: Surroundings::new(start.theme, start.tour),
            context: Context {
                fields: Arc::new(tracepoints::first_fields(&info)),
                keymap: Arc::new(start.keymap),
                themes: start.themes,
                slow: start.slow,
                saved: start.saved,
                invocation: start.invocation,
                ..Context::of(info)
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

    /// The size of the terminal.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.frame.size = (width, height);
        self.views.top.height = layout::table_height(self.scene());
        let answer = self.context.answer.clone();
        if answer.flame.is_none() && answer.heat.is_none() {
            self.views.top.follow(&answer);
        }
        self.ask(false);
    }

    /// A new answer has come.
    pub fn set_answer(&mut self, answer: Arc<Answer>) {
        let before = std::mem::replace(&mut self.context.answer, answer.clone());
        if answer.events.len() > before.events.len().max(self.context.info.events.len()) {
            let names: Vec<&str> = answer.events.iter().map(|e| e.name.as_str()).collect();
            self.context.fields = Arc::new(tracepoints::fields(&self.context.info, &names));
        }
        if answer.ended.is_some() && !std::mem::replace(&mut self.views.time.chosen, true) {
            self.views.time.length = usual(answer.elapsed_ns);
        }
        if answer.ended.is_some() && !self.selection.age_chosen {
            // What is over is looked at as a whole.
            self.selection.age = Age::All;
        }
        self.look_for_findings();
        self.views.top.height = layout::table_height(self.scene());
        self.follow_heat();
        self.follow_hits();
        if let Some(flame) = answer.flame.as_ref().filter(|flame| flame.found.is_some())
            && std::mem::take(&mut self.views.flame.seeks)
        {
            self.views.flame.to_found(flame);
        }
        if let Some(flame) = &answer.flame {
            let rows = self.flame_area().height;
            self.views.flame.fit(flame, rows);
        }
        self.return_cursor();
        if answer.flame.is_none() && answer.heat.is_none() {
            self.views.top.follow(&answer);
        }
        let loaded = self.context.info.origin == Origin::Live || self.context.info.flows || answer.ended.is_some();
        // A range may be a share of what there is in the end.
        let waits = !loaded && self.exec.front().is_some_and(|text| text.starts_with("range"));
        if answer.question.generation == self.asked.generation
            && !waits
            && let Some(text) = self.exec.pop_front()
        {
            self.exec_command(&text);
        }
        self.ask(false);
    }

    /// What the session's clock says as a frame is made.
    pub fn tick(&mut self, clock: Option<Clock>) {
        self.context.behind.tick(clock.filter(|_| !self.selection.frozen && self.context.answer.ended.is_none()));
    }

    /// Whether commands given at the start still wait to be run.
    pub fn has_exec(&self) -> bool {
        !self.exec.is_empty()
    }

    pub(in crate::ui) fn exec_command(&mut self, text: &str) {
        match commands::parse(text) {
            Ok(command) => self.step(|app| app.run(command)),
            Err(error) => self.error(error),
        }
    }

    /// What is shown of, beside the view's own state.
    pub fn scene(&self) -> Scene<'_> {
        Scene { context: &self.context, selection: &self.selection, frame: &self.frame }
    }

    /// Leaves the mouse to the terminal from the start.
    pub fn leave_mouse(&mut self) {
        self.frame.mouse = false;
        self.effects.push(Effect::Mouse(false));
    }

    pub(in crate::ui) fn request(&mut self, request: Request) {
        self.effects.push(Effect::Engine(request));
    }

    pub(in crate::ui) fn control(&mut self, control: Control) {
        self.request(Request::Control(control));
    }

    /// The engine cannot do what it was asked for; a unit that was waited for does not come.
    pub fn engine_refused(&mut self, why: String) {
        self.views.units.pending = false;
        self.error(why);
    }

    pub fn error(&mut self, text: impl Into<String>) {
        self.frame.status = Some((Level::Error, text.into()));
    }

    pub fn say(&mut self, text: impl Into<String>) {
        self.frame.status = Some((Level::Info, text.into()));
    }

    /// The line under the cursor.
    pub fn line(&self) -> Option<&TopLine> {
        self.views.top.line(&self.context.answer)
    }

    /// The row under the cursor, or that the entry of a call chain under it belongs to.
    pub fn row(&self) -> Option<&TopLine> {
        self.views.top.row(&self.context.answer)
    }

    /// Sends the question when it has changed.
    pub(in crate::ui) fn ask(&mut self, always: bool) {
        if self.frame.tab == Tab::Events {
            self.look_up_entry();
        }
        let unfolded = self.selection.rows.expand_all || !self.selection.rows.toggled.is_empty();
        let scene = self.scene();
        let question = Question {
            beside: self.row().map(|row| row.id).filter(|_| layout::beside_width(scene, self.frame.size.0) > 0),
            first_line: if unfolded { self.views.top.top } else { 0 },
            height: self.views.top.height.max(1),
            cpu: self.asked_cpu(),
            flame: (self.frame.tab == Tab::Flame).then(|| self.flame_spec()),
            heat: (self.frame.tab == Tab::Time).then(|| self.heat_spec()),
            annotate: self.annotated().map(|screen| screen.target.clone()),
            ..self.selection.question(&self.context, self.frame.tab, &self.asked)
        };
        if always || question != self.asked {
            self.asked = Question { generation: self.asked.generation + 1, ..question };
            self.request(Request::Ask(Arc::new(self.asked.clone())));
        }
    }
}
