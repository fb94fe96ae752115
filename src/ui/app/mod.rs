//! The model of the interface. No terminal and no engine here: what is to happen outside comes back
//! as effects.

pub(in crate::ui) mod input;
pub mod notice;
pub(in crate::ui) mod overlays;
pub mod range;
pub(in crate::ui) mod steps;
pub(in crate::ui) mod update;
pub(in crate::ui) mod versus;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::analysis::cpus::HostView;
use crate::analysis::findings::Finding;
use crate::analysis::softirq::Times;
use crate::engine::{Clock, UnitRequest};
use crate::event::plain;
use crate::filter::{Fault, Filter, Known, TraceField};
use crate::ingest::tracepoints;
use crate::panel::top::Field;
use crate::query::annotate::Target;
use crate::query::diff::Per;
use crate::query::{Age, Answer, ChainMode, Direction, Key, Line, Order, Question, TopSpec};
use crate::session::{Origin, TimeMark};
use crate::source::{Control, Info};
use crate::symbols::Form;

use crate::ui::behind::Behind;
use crate::ui::command;
use crate::ui::draw::layout;
use crate::ui::keymap::{Facts, Keymap};
use crate::ui::overlay::Overlay;
use crate::ui::prompt::Prompt;
use crate::ui::tour::Tour;
use crate::ui::view::cpus::state::CpusScreen;
use crate::ui::view::events::state::EventsScreen;
use crate::ui::view::flame::state::FlameScreen;
use crate::ui::view::time::state::{TimeScreen, usual};
use crate::ui::view::top::state::Screen;
use crate::ui::view::units::state::UnitsScreen;

pub use versus::Mark;

/// Something to be done outside the model.
#[derive(Clone, Debug)]
pub enum Effect {
    Ask(Arc<Question>),
    Control(Control),
    Freeze(bool),
    Clear,
    Refresh(Duration),
    /// Save under this name, or under one of the driver's choice; only what came in a range of the session's
    /// clock, when there is one.
    Save(Option<PathBuf>, Option<(u64, u64)>),
    /// Mark a moment, or forget the mark at a place of the list.
    Mark(TimeMark),
    Unmark(usize),
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
    /// Annotate a function, by name or at an address of the last one's DSO.
    List(Target, Option<u64>),
    /// Make all names readable in another way.
    Names(Form),
    /// Show inlined functions as frames of their own, or not.
    Inlined(bool),
    /// What is wanted of analysis units.
    Unit(UnitRequest),
    Quit,
}

/// Filters by the names that they were saved under.
pub type SavedFilters = std::collections::BTreeMap<String, String>;

/// How a message is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Info,
    Error,
}

/// A step into the data that can be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zoom {
    /// For the breadcrumb.
    pub label: String,
    /// The filter that it adds.
    pub expression: String,
    /// The range of time that it narrows to, when it is one.
    pub range: Option<(u64, u64)>,
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
    /// How many points a CPU must stand above the others to be told of.
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

/// Which screen is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    Top,
    Flame,
    Time,
    Cpus,
    Events,
    Units,
}

impl Tab {
    pub fn name(self) -> &'static str {
        match self {
            Self::Top => "Top",
            Self::Flame => "Flame",
            Self::Time => "Time",
            Self::Cpus => "CPUs",
            Self::Events => "Events",
            Self::Units => "Units",
        }
    }

    /// What the screen is for.
    pub fn about(self) -> &'static str {
        match self {
            Self::Top => {
                "The functions that were sampled most. Self is the share in the function itself, Children with what it \
                 calls. Enter unfolds who called it; the one-key zooms and f narrow what counts, also of the past."
            }
            Self::Flame => {
                "Stacks side by side: as wide as their share of the samples, callees below their callers. Enter zooms, \
                 ⌫ undoes; what is too narrow to be drawn stands together as others."
            }
            Self::Time => {
                "When the samples came: a column for each second, its rows the time inside it. Stripes and blocks are \
                 bursts. v selects, Enter shows what was selected on every screen, b compares with it."
            }
            Self::Cpus => {
                "What each CPU does by the kernel's own counts, and its softirqs by samples. Anomalies \
                 come first; Enter shows the functions behind a cell."
            }
            Self::Events => {
                "What is measured and what it costs, and below it what this machine could measure. Changes hold from now \
                 on, on all CPUs or on none."
            }
            Self::Units => {
                "Analysis units answer one question each, from the kernel's events: who waits, who wakes whom, which \
                 calls take how long. Several run at once."
            }
        }
    }

    /// The group of commands that work on this screen only.
    pub fn group(self) -> Option<&'static str> {
        match self {
            Self::Top => None,
            Self::Flame => Some(command::FLAME),
            Self::Time => Some(command::TIME),
            Self::Cpus => Some(command::CPUS),
            Self::Events => Some(command::EVENTS),
            Self::Units => Some(command::UNITS),
        }
    }
}

/// The model.
#[derive(Debug)]
pub struct App {
    pub info: Info,
    pub answer: Arc<Answer>,
    pub screen: Screen,
    pub tab: Tab,
    pub flame: FlameScreen,
    pub time: TimeScreen,
    pub cpus: CpusScreen,
    pub events: EventsScreen,
    pub units: UnitsScreen,
    /// A unit was asked for and has not said anything yet.
    pub units_pending: bool,
    /// The machine's CPUs; none of a recording.
    pub host: Option<Arc<HostView>>,
    /// The time in softirqs, and whether it is being measured.
    pub times: Option<Arc<Times>>,
    pub tracing: bool,
    /// The tracepoints' own fields, which filters may name.
    pub fields: Arc<Vec<TraceField>>,
    /// CPUs with anomalies, the worst first.
    pub findings: Vec<Finding>,
    /// Messages that were dismissed.
    pub(in crate::ui) dismissed: hashbrown::HashSet<notice::Of>,
    /// By how many points they must.
    pub(in crate::ui) points: f64,
    pub columns: Vec<Field>,
    /// Whether somebody said by which keys rows are told apart.
    pub(in crate::ui) sorted: bool,
    pub order: Order,
    pub reversed: bool,
    pub children: bool,
    pub direction: Direction,
    pub chain_mode: ChainMode,
    pub limit: f64,
    pub event: usize,
    pub filter: Option<String>,
    pub zooms: Vec<Zoom>,
    pub(in crate::ui) steps: steps::Steps,
    pub(in crate::ui) ranges: range::Ranges,
    /// The timeline above table and flame graph.
    pub strip: bool,
    /// Whether there are colours enough for two rows of a map in one cell.
    pub fine: bool,
    /// The theme by name, those that there are, and the one before others were looked at.
    pub theme: String,
    pub themes: Vec<String>,
    pub(in crate::ui) theme_before: Option<String>,
    pub keymap: Arc<Keymap>,
    pub tour: Option<Tour>,
    /// Whether the link to the terminal is slow: then there are two frames a second at most.
    pub slow: bool,
    /// What is written to the terminal, while that is shown.
    pub bytes_a_second: Option<f64>,
    pub baseline: Option<Mark>,
    pub per: Per,
    pub age: Age,
    /// Whether somebody wants it so; else it is what is usual.
    pub(in crate::ui) age_chosen: bool,
    /// How names are made readable.
    pub form: Form,
    pub inlined: bool,
    /// Whether the flame graph shows time off the CPUs beside the time on them.
    pub off_cpu: bool,
    /// How rows were ordered before differences came.
    pub(in crate::ui) order_before: Option<(Order, bool)>,
    pub(in crate::ui) invocation: Vec<String>,
    pub hide_idle: bool,
    pub frozen: bool,
    /// How far what is seen is behind the machine.
    pub behind: Behind,
    pub refresh: Duration,
    pub overlays: Vec<Overlay>,
    pub prompt: Option<Prompt>,
    /// Filters that were set, of the view and of events, the newest last.
    pub past_filters: Vec<String>,
    pub saved: SavedFilters,
    /// The screen before a search began to be typed, so that each letter searches from there.
    pub(in crate::ui) before_search: Option<Screen>,
    /// Keys of an unfinished chord.
    pub chord: String,
    pub status: Option<(Level, String)>,
    pub size: (u16, u16),
    pub(in crate::ui) mouse: bool,
    pub(in crate::ui) toggled: hashbrown::HashSet<u64>,
    pub(in crate::ui) expand_all: bool,
    pub(in crate::ui) asked: Question,
    pub(in crate::ui) exec: std::collections::VecDeque<String>,
    pub effects: Vec<Effect>,
}

impl App {
    pub fn new(info: Info, start: Start) -> Self {
        let children = start.children && info.chains;
        let mut columns = start.columns;
        if !children {
            columns.retain(|f| *f != Field::Children);
        }
        let age = versus::usual_age(&info);
        let mut app = Self {
            info,
            answer: Arc::default(),
            screen: Screen::default(),
            tab: Tab::Top,
            flame: FlameScreen::default(),
            time: TimeScreen::default(),
            cpus: CpusScreen::default(),
            events: EventsScreen::default(),
            units: UnitsScreen::default(),
            units_pending: false,
            host: None,
            times: None,
            tracing: false,
            fields: Arc::default(),
            findings: Vec::new(),
            dismissed: hashbrown::HashSet::new(),
            points: start.points,
            columns,
            sorted: start.sorted,
            order: Order::SelfTime,
            reversed: false,
            children,
            direction: Direction::Callers,
            chain_mode: ChainMode::Graph,
            limit: start.limit,
            event: 0,
            filter: start.filter,
            zooms: Vec::new(),
            steps: steps::Steps::default(),
            ranges: range::Ranges::default(),
            strip: true,
            fine: true,
            theme: start.theme,
            themes: start.themes,
            theme_before: None,
            keymap: Arc::new(start.keymap),
            tour: start.tour.then(Tour::default),
            slow: start.slow,
            bytes_a_second: None,
            baseline: None,
            per: Per::Total,
            age,
            age_chosen: false,
            form: start.form,
            inlined: start.inlined,
            off_cpu: false,
            order_before: None,
            invocation: start.invocation,
            hide_idle: true,
            frozen: false,
            behind: Behind::default(),
            refresh: start.refresh,
            overlays: Vec::new(),
            prompt: None,
            past_filters: Vec::new(),
            saved: start.saved,
            before_search: None,
            chord: String::new(),
            status: None,
            size: (80, 24),
            mouse: true,
            toggled: hashbrown::HashSet::new(),
            expand_all: false,
            asked: Question { generation: 0, ..Question::default() },
            exec: start.exec.into(),
            effects: Vec::new(),
        };
        app.fields = Arc::new(tracepoints::first_fields(&app.info));
        app.ask(true);
        app
    }

    /// A filter as typed.
    pub(in crate::ui) fn parse(&self, text: &str) -> Result<Filter, Fault> {
        Filter::parse_with(text, Known::These(&self.fields))
    }

    /// The size of the terminal.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.screen.height = layout::table_height(self);
        let answer = self.answer.clone();
        if answer.flame.is_none() && answer.heat.is_none() {
            self.screen.follow(&answer);
        }
        self.ask(false);
    }

    /// A new answer has come.
    pub fn set_answer(&mut self, answer: Arc<Answer>) {
        let before = std::mem::replace(&mut self.answer, answer.clone());
        if answer.events.len() > before.events.len().max(self.info.events.len()) {
            let names: Vec<&str> = answer.events.iter().map(|e| e.name.as_str()).collect();
            self.fields = Arc::new(tracepoints::fields(&self.info, &names));
        }
        if answer.ended.is_some() && !std::mem::replace(&mut self.time.chosen, true) {
            self.time.length = usual(answer.elapsed_ns);
        }
        if answer.ended.is_some() && !self.age_chosen {
            // What is over is looked at as a whole.
            self.age = Age::All;
        }
        self.look_for_findings();
        self.screen.height = layout::table_height(self);
        self.follow_heat();
        self.follow_hits();
        if let Some(flame) = answer.flame.as_ref().filter(|flame| flame.found.is_some())
            && std::mem::take(&mut self.flame.seeks)
        {
            self.flame.to_found(flame);
        }
        self.return_cursor();
        if answer.flame.is_none() && answer.heat.is_none() {
            self.screen.follow(&answer);
        }
        let loaded = self.info.origin == Origin::Live || self.info.flows || answer.ended.is_some();
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
        self.behind.tick(clock.filter(|_| !self.frozen && self.answer.ended.is_none()));
    }

    /// The time since the session's start, which goes on by itself.
    pub fn elapsed_ns(&self) -> u64 {
        self.behind.elapsed(self.info.start).unwrap_or(self.answer.elapsed_ns)
    }

    /// Whether commands given at the start still wait to be run.
    pub fn has_exec(&self) -> bool {
        !self.exec.is_empty()
    }

    pub(in crate::ui) fn exec_command(&mut self, text: &str) {
        match command::parse(text) {
            Ok(command) => self.step(|app| app.run(command)),
            Err(error) => self.error(error),
        }
    }

    /// What conditions of key bindings ask about.
    pub fn key_facts(&self) -> Facts {
        Facts {
            live: self.info.origin == Origin::Live,
            frozen: self.frozen,
            filtered: self.filter.is_some() || !self.zooms.is_empty(),
            comparing: self.baseline.is_some(),
        }
    }

    /// Leaves the mouse to the terminal from the start.
    pub fn leave_mouse(&mut self) {
        self.mouse = false;
        self.effects.push(Effect::Mouse(false));
    }

    pub fn error(&mut self, text: impl Into<String>) {
        self.status = Some((Level::Error, text.into()));
    }

    pub fn say(&mut self, text: impl Into<String>) {
        self.status = Some((Level::Info, text.into()));
    }

    /// Whether samples of a recording do not say when they were taken.
    pub fn is_timeless(&self) -> bool {
        let untold = !self.info.has_times() || self.answer.start == 0 && self.answer.elapsed_ns == 0;
        self.info.origin == Origin::Recorded && self.answer.unfiltered.samples > 0 && untold
    }

    /// The line under the cursor.
    pub fn line(&self) -> Option<&Line> {
        self.answer.lines.get(self.screen.selected)
    }

    /// The row under the cursor, or that the entry of a call chain under it belongs to.
    pub fn row(&self) -> Option<&Line> {
        let upto = self.answer.lines.get(..=self.screen.selected)?;
        upto.iter().rev().find(|line| line.depth == 0)
    }

    /// Whether rows are by the first caller outside the code that every tracepoint goes through.
    fn takes_origins(&self) -> bool {
        let name = self.answer.events.get(self.event).map(|event| plain(&event.name));
        !self.sorted && self.info.chains && name.is_some_and(|name| name.contains(':'))
    }

    /// The filter of a text: the one before when it is the same.
    pub(in crate::ui) fn same_or_parsed(
        &self,
        text: Option<String>,
        before: Option<&Arc<Filter>>,
    ) -> Option<Arc<Filter>> {
        match before.filter(|filter| Some(filter.text()) == text.as_deref()) {
            Some(same) => Some(same.clone()),
            None => text.and_then(|text| self.parse(&text).ok()).map(Arc::new),
        }
    }

    /// Sends the question when it has changed.
    pub(in crate::ui) fn ask(&mut self, always: bool) {
        if self.tab == Tab::Events {
            self.look_up_entry();
        }
        let filter = self.same_or_parsed(self.asked_filter(), self.asked.filter.as_ref());
        let keys: Vec<Key> = self
            .columns
            .iter()
            .filter_map(|f| match f {
                Field::Key(key) => Some(*key),
                _ => None,
            })
            .collect();
        let unfolded = self.expand_all || !self.toggled.is_empty();
        let question = Question {
            generation: self.asked.generation,
            event: self.event,
            filter,
            range: self.range(),
            baseline: self.baseline_asked(),
            // A range of time says itself which samples count.
            age: if self.range().is_some() { Age::All } else { self.age },
            top: TopSpec {
                keys,
                children: self.children,
                order: self.order,
                reversed: self.reversed,
                origins: self.takes_origins(),
            },
            direction: self.direction,
            chain_mode: self.chain_mode,
            limit_percent: self.limit,
            toggled: self.toggled.clone(),
            expand_all: self.expand_all,
            beside: self.row().map(|row| row.id).filter(|_| layout::beside_width(self, self.size.0) > 0),
            first_line: if unfolded { self.screen.top } else { 0 },
            height: self.screen.height.max(1),
            cpu: self.asked_cpu(),
            flame: (self.tab == Tab::Flame).then(|| self.flame_spec()),
            heat: (self.tab == Tab::Time).then(|| self.heat_spec()),
            annotate: self.annotated().map(|screen| screen.target.clone()),
        };
        if always || question != self.asked {
            self.asked = Question { generation: self.asked.generation + 1, ..question };
            self.effects.push(Effect::Ask(Arc::new(self.asked.clone())));
        }
    }
}
