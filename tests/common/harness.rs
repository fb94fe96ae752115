//! Engine and interface in one thread, for screens without a terminal.

use std::sync::Arc;

use super::data;
use perfprof_tui::engine::IntakeOptions;
use perfprof_tui::engine::Request;
use perfprof_tui::engine::UnitRequest;
use perfprof_tui::engine::offline::{self, Offline};
use perfprof_tui::event::catalogue::{CatalogueEvent, EventKind};
use perfprof_tui::event::{EventState, Rate, RunState};
use perfprof_tui::machine::sampler::{CpuSampler, SlowReadings};
use perfprof_tui::panel::charset::Charset;
use perfprof_tui::perfdata::EventDesc;
use perfprof_tui::query::annotate::{self, AnnotatedFunction};
use perfprof_tui::query::answer::EventInfo;
use perfprof_tui::query::answer::{Memory, MemoryShare, Meter};
use perfprof_tui::query::cpus::{CpuAnswer, CpuCounts};
use perfprof_tui::query::{Aggregate, Answer, AnswerCache, Question};
use perfprof_tui::session::machine::{Stat, Topology};
use perfprof_tui::session::{EndReason, Origin, TimeMark, marks};
use perfprof_tui::source::{Info, recording};
use perfprof_tui::symbols::SymbolOptions;
use perfprof_tui::symbols::lines::Lines;
use perfprof_tui::symbols::{Resolver, code};
use perfprof_tui::ui::terminal::run::render;
use perfprof_tui::ui::theme::{Depth, Theme};
use perfprof_tui::ui::{App, Effect, Level, Start};

/// Engine and interface in one thread, with immediate answers.
pub struct Harness {
    loaded: Offline,
    view: AnswerCache,
    other: Option<Offline>,
    pub app: App,
    pub size: (u16, u16),
    /// Effects that are not requests to the engine.
    pub saved: Vec<String>,
    /// The names of the units that were started.
    pub started: Vec<&'static str>,
    /// Marked times.
    marks: Vec<TimeMark>,
    /// Whether the recording's events appear as those of a live session.
    metered: bool,
}

/// Loads a recording and the information of its source.
fn load(file: &str, kallsyms: &str) -> (Offline, Info) {
    let mut source = recording::open(&[data(file)]).expect("open");
    let info = source.info().clone();
    let root = super::symfs();
    let options = SymbolOptions { symfs: Some(root_of(file, &root)), kallsyms: Some(data(kallsyms)), ..recorded() };
    (offline::load(&mut *source, options, IntakeOptions::default()).expect("load"), info)
}

fn recorded() -> SymbolOptions {
    SymbolOptions { live: false, same_kernel: false, kallsyms: None, ..SymbolOptions::live() }
}

/// The folder with the binaries of a recording.
fn root_of(file: &str, root: &tempfile::TempDir) -> std::path::PathBuf {
    if file.starts_with("corpus/") { root.path().to_owned() } else { data("bin") }
}

impl Harness {
    /// Starts the screen again, with other settings.
    pub fn restart(mut self, start: Start) -> Self {
        self.app = App::new(self.app.model.context.info.clone(), start);
        self.app.resize(self.size.0, self.size.1);
        self.settle();
        self
    }

    pub fn open(file: &str, kallsyms: &str, width: u16, height: u16) -> Self {
        let (loaded, mut info) = load(file, kallsyms);
        // Keep the path of the checkout off the screen, so that snapshots are equal on every machine.
        info.target = file.to_owned();
        let mut harness = Self {
            loaded,
            view: AnswerCache::default(),
            other: None,
            app: App::new(info, Start::default()),
            size: (width, height),
            saved: Vec::new(),
            started: Vec::new(),
            marks: Vec::new(),
            metered: false,
        };
        harness.app.resize(width, height);
        harness.settle();
        harness
    }

    /// Shows the recording's events as if they were live, with the event list of some machine.
    pub fn metered(mut self) -> Self {
        let text = std::fs::read_to_string(data("events.csv")).expect("events.csv");
        let entry = |line: &str| {
            let mut parts = line.splitn(3, ',');
            let (name, word, about) = (parts.next()?, parts.next()?, parts.next()?);
            let sort = [EventKind::Hardware, EventKind::Software, EventKind::Tracepoint]
                .into_iter()
                .find(|s| s.word() == word)?;
            let group = if sort == EventKind::Tracepoint { name.split(':').next()? } else { "" };
            let about = if sort == EventKind::Tracepoint { String::new() } else { about.trim_matches('"').to_owned() };
            Some(CatalogueEvent { name: name.to_owned(), sort, group: group.to_owned(), about, missing: "" })
        };
        let mut list: Vec<CatalogueEvent> = text.lines().filter_map(entry).collect();
        list.sort_by(|a, b| (a.sort, &a.name).cmp(&(b.sort, &b.name)));
        self.metered = true;
        self.app.model.context.info.origin = Origin::Live;
        self.app.set_catalogue(Arc::new(list));
        self.app.resize(self.size.0, self.size.1);
        let answer = self.answer(self.app.model.context.answer.question.clone());
        self.app.set_answer(Arc::new(answer));
        self.settle();
        self
    }

    /// Answers requests until none are left.
    pub fn settle(&mut self) {
        while !self.app.model.effects.is_empty() {
            for effect in std::mem::take(&mut self.app.model.effects) {
                if let Effect::Unit(UnitRequest::Start(spec, _)) = &effect {
                    self.started.push(spec.name);
                }
                match effect {
                    Effect::Engine(Request::Ask(question)) => {
                        let answer = self.answer(question);
                        self.app.set_answer(Arc::new(answer));
                    }
                    Effect::Engine(Request::Mark(mark)) => {
                        marks::set(&mut self.marks, mark);
                        self.ask_again();
                    }
                    Effect::Engine(Request::Unmark(place)) => {
                        self.marks.remove(place);
                        self.ask_again();
                    }
                    Effect::Engine(Request::List(target, at)) => self.list(&target, at),
                    Effect::Engine(other) => self.saved.push(format!("{other:?}")),
                    Effect::Outside(other) => self.saved.push(format!("{other:?}")),
                    other => self.saved.push(format!("{other:?}")),
                }
            }
        }
    }

    /// Disassembles a function of a corpus recording.
    fn list(&mut self, target: &AnnotatedFunction, at: Option<u64>) {
        let data = self.loaded.data();
        let (dso, start) = annotate::locate(data, target, None).expect("a function with samples");
        let root = super::symfs();
        let options = SymbolOptions { symfs: Some(root.path().to_owned()), ..recorded() };
        let (mut resolver, mut lines) = (Resolver::new(options.clone()), Lines::new(options.clone()));
        let dso = data.session.dsos.get(dso);
        let listing = code::list(dso, at.unwrap_or(start), &mut resolver, &mut lines, &options);
        self.app.model.set_listing(target, listing.map(Arc::new));
    }

    fn ask_again(&mut self) {
        let answer = self.answer(self.app.model.context.answer.question.clone());
        self.app.set_answer(Arc::new(answer));
    }

    fn answer(&mut self, question: Arc<Question>) -> Answer {
        let data = self.loaded.data();
        let core = self.loaded.ingest.core();
        let view = self.view.answer(data, self.other.as_ref().map(Offline::data), &question, u64::MAX);
        self.view.outdated();
        let mut counts = CpuCounts::new(core.clock().unwrap_or(usize::MAX), false);
        counts.update(data, u64::MAX);
        let by_cpu = CpuAnswer {
            frequency: 999,
            whole: self.app.model.context.info.has_whole_cpus(),
            ..counts.answer(data, question.cpu)
        };
        let total = |event| {
            let mut all = Aggregate::new(event, None);
            all.update(data, 0..u64::MAX);
            all.total()
        };
        let events = (0..).zip(&self.loaded.event_names).map(|(i, name)| EventInfo {
            name: name.clone(),
            meaning: core.profile.meaning(i as u16),
            total: total(i),
            lost: 0,
            note: None,
            filter: (self.metered && name.contains(':')).then(|| KEPT.to_owned()),
            is_dummy: self.app.model.context.info.events.get(i).is_some_and(EventDesc::is_dummy),
            texts: core.profile.format(i as u16).map_or(Vec::new(), |format| format.texts().map(Arc::from).collect()),
            meter: (self.metered && name != "off-cpu").then(|| meter(name, total(i).samples, core.profile.span())),
        });
        let span = core.profile.span().unwrap_or_default();
        Answer {
            elapsed_ns: span.1 - span.0,
            events: events.collect(),
            view,
            unfiltered: total(question.event),
            ledger: core.profile.ledger.clone(),
            start: core.times.start,
            kept_from: span.0.saturating_sub(core.times.start),
            timeline: Arc::new(core.times.timeline.clone()),
            marks: self.marks.clone().into(),
            wall_start: core.summary.wall_start(core.times.start),
            ended: (!self.metered).then(|| EndReason::Complete("the file".into())),
            notes: self.loaded.notes.clone(),
            by_cpu: Arc::new(by_cpu),
            memory: if self.metered { memory() } else { Memory::default() },
            question,
            ..Answer::default()
        }
    }

    /// Shows the machine's CPUs from two readings of /proc/stat, ten seconds apart.
    pub fn host(mut self, name: &str) -> Self {
        const SECOND: u64 = 1_000_000_000;
        let mut cpus = CpuSampler::new(100, Topology::default());
        for (which, at) in [("before", SECOND), ("after", 11 * SECOND)] {
            let mut stat = Stat::default();
            stat.parse(&std::fs::read(data(&format!("{name}.proc_stat.{which}"))).expect("readable"));
            cpus.tick(at, &stat);
            let view = cpus.cut(at, &SlowReadings::default());
            self.app.set_host(Some(Arc::new(view)));
        }
        self.settle();
        self
    }

    /// Compares with another recording.
    pub fn against(mut self, file: &str, kallsyms: &str) -> Self {
        self.other = Some(load(file, kallsyms).0);
        self.view.release_other();
        self.app.baseline_read(file.into());
        self.settle();
        self
    }

    /// Types keys: single characters, or names in angle brackets.
    pub fn keys(mut self, keys: &str) -> Self {
        use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
        let mut rest = keys;
        while let Some(c) = rest.chars().next() {
            let mut modifiers = KeyModifiers::NONE;
            let (code, used) = match rest.strip_prefix('<').and_then(|r| r.split_once('>')) {
                Some((name, _)) => {
                    let code = match name {
                        "ret" => KeyCode::Enter,
                        "esc" => KeyCode::Esc,
                        "bs" => KeyCode::Backspace,
                        "tab" => KeyCode::Tab,
                        "down" => KeyCode::Down,
                        "home" => KeyCode::Home,
                        "up" => KeyCode::Up,
                        "left" => KeyCode::Left,
                        "right" => KeyCode::Right,
                        "ctrl-p" | "ctrl-r" => {
                            modifiers = KeyModifiers::CONTROL;
                            KeyCode::Char(name.chars().last().unwrap_or_default())
                        }
                        other => panic!("unknown key {other}"),
                    };
                    (code, name.len() + 2)
                }
                None => (KeyCode::Char(c), c.len_utf8()),
            };
            rest = &rest[used..];
            self.app.input(&Event::Key(KeyEvent::new(code, modifiers)));
            self.settle();
        }
        self
    }

    /// Presses the left mouse button on a cell.
    pub fn click(mut self, column: u16, row: u16) -> Self {
        use crossterm::event::{Event, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
        let kind = MouseEventKind::Down(MouseButton::Left);
        self.app.input(&Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
        self.settle();
        self
    }

    /// The cells of the screen.
    pub fn buffer(&self) -> ratatui::buffer::Buffer {
        self.buffer_in(Depth::Ansi16)
    }

    /// The screen in a built-in theme with true colour.
    pub fn buffer_of_theme(&self, name: &str) -> ratatui::buffer::Buffer {
        render(&self.app, &Theme::built_in(name, Depth::TrueColor), self.size.0, self.size.1)
    }

    /// The screen at a colour depth.
    pub fn buffer_in(&self, depth: Depth) -> ratatui::buffer::Buffer {
        let mut theme = Theme::new(depth);
        theme.charset = self.app.model.context.charset;
        render(&self.app, &theme, self.size.0, self.size.1)
    }

    /// Simulates a terminal that shows plain ASCII only.
    pub fn in_ascii(mut self) -> Self {
        (self.app.model.context.charset, self.app.model.context.fine) = (Charset::Ascii, false);
        self
    }

    /// The message in the footer.
    pub fn message(&self) -> Option<(Level, &str)> {
        self.app.model.frame.status.as_ref().map(|(level, text)| (*level, text.as_str()))
    }

    /// The level of the message in the footer.
    pub fn level(&self) -> Option<Level> {
        self.message().map(|(level, _)| level)
    }

    /// Removes the message, which hides the keys in the footer.
    pub fn quiet(mut self) -> Self {
        self.app.model.frame.status = None;
        self
    }

    /// The last line: keys, or the message.
    pub fn footer(&self) -> String {
        self.text().lines().last().unwrap_or_default().to_owned()
    }

    /// The filter of the question: that of the view, with its zooms.
    pub fn filter(&self) -> Option<&str> {
        self.app.model.context.answer.question.filter.as_ref().map(|filter| filter.text())
    }

    /// The screen as text.
    pub fn text(&self) -> String {
        let buffer = self.buffer();
        let mut out = String::new();
        for y in 0..self.size.1 {
            let row: String = (0..self.size.0).map(|x| buffer[(x, y)].symbol()).collect();
            out.push_str(row.trim_end());
            out.push('\n');
        }
        out
    }
}

/// A filter on sched_switch that the kernel supports.
const KEPT: &str = "prev_state & 2 && prev_prio < 130";

/// Memory of a live session.
fn memory() -> Memory {
    let parts = [("samples", 6 << 20), ("stacks", 21 << 20), ("names", 3 << 20), ("tables of functions", 9 << 20)];
    let parts = parts.into_iter().map(|(name, bytes)| MemoryShare { name, bytes }).collect();
    Memory { bound: Some(256 << 20), private: 48 << 20, parts }
}

/// The figures of an event, averaged over a whole recording.
fn meter(name: &str, samples: u64, span: Option<(u64, u64)>) -> Meter {
    let seconds = span.map_or(1.0, |(first, last)| (last - first) as f64 / 1e9);
    let clock = name == "cpu-clock";
    let state = EventState {
        name: name.to_owned(),
        replaces: None,
        run: RunState::Running,
        note: None,
        filter: (!clock).then(|| KEPT.to_owned()),
        rate: if clock { Rate::Frequency(999) } else { Rate::Period(1) },
        chains: perfprof_tui::event::CallGraph::Fp,
        cpus: String::new(),
        for_units: false,
    };
    let rate = samples as f64 / seconds;
    let history = (0..24).map(|i| (rate * (0.6 + 0.4 * f64::from(i % 5) / 4.0)) as f32).collect();
    // A clock counts nanoseconds, here on two CPUs.
    let (count, hits) = if clock { ((seconds * 2e9) as u64, 2e9) } else { (samples, rate) };
    Meter { count, rate: hits, sampled: rate, cost_percent: rate / 1e4, history, ..Meter::new(state) }
}

/// Types keys on new screens, and lists the messages, for a snapshot.
///
/// Tests of behaviour check the level of a message; its words are in these lists only.
pub fn messages(open: impl Fn() -> Harness, typed: &[&str]) -> String {
    let line = |keys: &&str| {
        let typed = open().keys(keys);
        let (level, text) = typed.message().unwrap_or_else(|| panic!("no message after {keys}:\n{}", typed.text()));
        format!("{keys}\n    {level:?}: {text}\n")
    };
    typed.iter().map(line).collect()
}
