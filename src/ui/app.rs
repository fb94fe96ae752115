//! The model of the interface and what commands do to it. No terminal and no engine here: what is
//! to happen outside comes back as effects.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{Event as Input, KeyEvent, MouseButton, MouseEvent, MouseEventKind};

use crate::filter::Filter;
use crate::panel::top::Field;
use crate::query::{Answer, ChainMode, Direction, Key, Line, Order, Question, TopSpec};
use crate::source::{Control, Info};

use super::command::{self, Command, Lookup};
use super::draw::layout;
use super::keys;
use super::overlay::{Overlay, Palette, column_menu};
use super::prompt::{Ask, Prompt};
use super::screen::Screen;

/// Something to be done outside the model.
#[derive(Clone, Debug)]
pub enum Effect {
    Ask(Arc<Question>),
    Control(Control),
    Freeze(bool),
    Clear,
    Refresh(Duration),
    /// Save under this name, or under one of the driver's choice.
    Save(Option<PathBuf>),
    Suspend,
    Redraw,
    Mouse(bool),
    Quit,
}

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
}

/// How the interface starts.
#[derive(Clone, Debug)]
pub struct Start {
    pub columns: Vec<Field>,
    pub children: bool,
    pub filter: Option<String>,
    pub limit: f64,
    pub refresh: Duration,
    /// Commands to run, one after each answer.
    pub exec: Vec<String>,
}

/// The model.
#[derive(Debug)]
pub struct App {
    pub info: Info,
    pub answer: Arc<Answer>,
    pub screen: Screen,
    pub columns: Vec<Field>,
    pub order: Order,
    pub reversed: bool,
    pub children: bool,
    pub direction: Direction,
    pub chain_mode: ChainMode,
    pub limit: f64,
    pub event: usize,
    pub filter: Option<String>,
    pub zooms: Vec<Zoom>,
    pub hide_idle: bool,
    pub frozen: bool,
    pub refresh: Duration,
    pub overlays: Vec<Overlay>,
    pub prompt: Option<Prompt>,
    /// Keys of an unfinished chord.
    pub chord: String,
    pub status: Option<(Level, String)>,
    pub size: (u16, u16),
    mouse: bool,
    toggled: hashbrown::HashSet<u64>,
    expand_all: bool,
    asked: Question,
    exec: std::collections::VecDeque<String>,
    pub effects: Vec<Effect>,
}

impl App {
    pub fn new(info: Info, start: Start) -> Self {
        let children = start.children && info.chains;
        let mut columns = start.columns;
        if !children {
            columns.retain(|f| *f != Field::Children);
        }
        let mut app = Self {
            info,
            answer: Arc::default(),
            screen: Screen::default(),
            columns,
            order: Order::SelfTime,
            reversed: false,
            children,
            direction: Direction::Callers,
            chain_mode: ChainMode::Graph,
            limit: start.limit,
            event: 0,
            filter: start.filter,
            zooms: Vec::new(),
            hide_idle: true,
            frozen: false,
            refresh: start.refresh,
            overlays: Vec::new(),
            prompt: None,
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
        app.ask(true);
        app
    }

    /// The size of the terminal.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.screen.height = layout::table_height(self.size);
        let answer = self.answer.clone();
        self.screen.follow(&answer);
        self.ask(false);
    }

    /// A new answer has come.
    pub fn set_answer(&mut self, answer: Arc<Answer>) {
        self.answer = answer.clone();
        self.screen.follow(&answer);
        if answer.question.generation == self.asked.generation
            && let Some(text) = self.exec.pop_front()
        {
            self.exec_command(&text);
        }
        self.ask(false);
    }

    /// Whether commands given at the start still wait to be run.
    pub fn has_exec(&self) -> bool {
        !self.exec.is_empty()
    }

    fn exec_command(&mut self, text: &str) {
        match command::parse(text) {
            Ok(command) => self.run(command),
            Err(error) => self.error(error),
        }
    }

    pub fn error(&mut self, text: impl Into<String>) {
        self.status = Some((Level::Error, text.into()));
    }

    pub fn say(&mut self, text: impl Into<String>) {
        self.status = Some((Level::Info, text.into()));
    }

    /// Takes in what the terminal sends.
    pub fn input(&mut self, input: &Input) {
        match input {
            Input::Key(key) => self.key(*key),
            Input::Mouse(mouse) => self.mouse(*mouse),
            Input::Resize(width, height) => self.resize(*width, *height),
            Input::Paste(text) => {
                let answer = self.answer.clone();
                if let Some(prompt) = &mut self.prompt {
                    prompt.paste(text, &answer);
                }
            }
            _ => {}
        }
        self.ask(false);
    }

    fn key(&mut self, key: KeyEvent) {
        let Some(name) = keys::name(&key) else { return };
        if name == "ctrl-c" {
            return self.run(Command::Quit);
        }
        if self.prompt.is_some() {
            return self.prompt_key(key, &name);
        }
        if !self.overlays.is_empty() {
            return self.overlay_key(key, &name);
        }
        self.status = None;
        let keys = if self.chord.is_empty() { name } else { format!("{} {name}", self.chord) };
        match command::lookup(&keys) {
            Lookup::Run(command) => {
                self.chord.clear();
                self.run(command);
            }
            Lookup::Prefix => self.chord = keys,
            Lookup::Nothing => {
                self.chord.clear();
                if keys != "esc" {
                    self.say(format!("{} means nothing here: ? for help", keys::shown(&keys)));
                }
            }
        }
    }

    fn prompt_key(&mut self, key: KeyEvent, name: &str) {
        let Some(mut prompt) = self.prompt.take() else { return };
        let answer = self.answer.clone();
        match name {
            "esc" => {
                if prompt.ask == Ask::Search {
                    self.screen.search = None;
                }
                return;
            }
            "enter" => return self.prompt_done(prompt),
            "tab" => prompt.complete(&answer),
            "down" => prompt.choose(1),
            "up" | "backtab" => prompt.choose(-1),
            _ => prompt.key(key, &answer),
        }
        if prompt.ask == Ask::Search {
            // An unfinished pattern is shown as a fault by the prompt itself.
            let _ = self.screen.search(prompt.text(), &answer);
        }
        self.prompt = Some(prompt);
    }

    fn prompt_done(&mut self, prompt: Prompt) {
        let text = prompt.text().trim().to_owned();
        if prompt.fault.is_some() {
            self.prompt = Some(prompt);
            return;
        }
        let given = Some(text.clone());
        match prompt.ask {
            Ask::Filter if text.is_empty() => self.filter = None,
            Ask::Search if text.is_empty() => self.screen.search = None,
            _ if text.is_empty() => {}
            Ask::Filter => self.run(Command::Filter(given)),
            Ask::Search => self.run(Command::Search(given)),
            Ask::Limit => self.run(Command::Limit(given)),
            Ask::Refresh => self.run(Command::Refresh(given)),
            Ask::Frequency => self.run(Command::Frequency(given)),
            Ask::Cpus => self.run(Command::Cpus(given)),
            Ask::ZoomCpu => self.run(Command::ZoomCpu(given)),
            Ask::Save => self.run(Command::Save(given)),
        }
    }

    fn overlay_key(&mut self, key: KeyEvent, name: &str) {
        let Some(mut overlay) = self.overlays.pop() else { return };
        let page = self.screen.height.max(1);
        match &mut overlay {
            Overlay::Help { scroll } | Overlay::Losses { scroll } => match name {
                "up" | "k" => *scroll = scroll.saturating_sub(1),
                "down" | "j" => *scroll += 1,
                "pgup" => *scroll = scroll.saturating_sub(page),
                "pgdn" | "space" => *scroll += page,
                "home" => *scroll = 0,
                _ => return,
            },
            Overlay::Palette(palette) => {
                if !self.palette_key(palette, key, name) {
                    return;
                }
            }
            Overlay::Columns { cursor } => match name {
                "esc" | "enter" | "q" | "s" => return,
                _ => self.columns_key(cursor, name),
            },
        }
        self.overlays.push(overlay);
    }

    /// Returns whether the palette stays.
    fn palette_key(&mut self, palette: &mut Palette, key: KeyEvent, name: &str) -> bool {
        let matches = palette.matches();
        match name {
            "esc" => return false,
            "up" => palette.cursor = palette.cursor.saturating_sub(1),
            "down" => palette.cursor = (palette.cursor + 1).min(matches.len().saturating_sub(1)),
            "tab" | "enter" => {
                let typed = palette.input.value().trim().to_owned();
                if name == "enter"
                    && let Ok(command) = command::parse(&typed)
                {
                    self.run(command);
                    return false;
                }
                let Some(row) = matches.get(palette.cursor) else {
                    self.error(command::parse(&typed).err().unwrap_or_default());
                    return true;
                };
                if name == "enter" && row.name != typed.split_whitespace().next().unwrap_or_default() {
                    self.run(row.command(None));
                    return false;
                }
                palette.input = tui_input::Input::new(format!("{} ", row.name));
            }
            _ => {
                use tui_input::backend::crossterm::EventHandler;
                palette.input.handle_event(&Input::Key(key));
                palette.cursor = 0;
            }
        }
        true
    }

    fn columns_key(&mut self, cursor: &mut usize, name: &str) {
        let menu = column_menu(&self.columns);
        let field = menu[(*cursor).min(menu.len() - 1)];
        let at = self.columns.iter().position(|f| *f == field);
        match (name, at) {
            ("up", _) | ("k", _) => *cursor = cursor.saturating_sub(1),
            ("down", _) | ("j", _) => *cursor = (*cursor + 1).min(menu.len() - 1),
            ("space", Some(at)) if self.columns.len() > 1 => {
                self.columns.remove(at);
            }
            ("space", None) => self.columns.push(field),
            ("K" | "left", Some(at)) if at > 0 => {
                self.columns.swap(at, at - 1);
                *cursor -= 1;
            }
            ("J" | "right", Some(at)) if at + 1 < self.columns.len() => {
                self.columns.swap(at, at + 1);
                *cursor += 1;
            }
            _ => {}
        }
    }

    fn mouse(&mut self, mouse: MouseEvent) {
        if !self.overlays.is_empty() || self.prompt.is_some() {
            return;
        }
        let answer = self.answer.clone();
        match mouse.kind {
            MouseEventKind::ScrollDown => self.screen.step(3, &answer),
            MouseEventKind::ScrollUp => self.screen.step(-3, &answer),
            MouseEventKind::Down(MouseButton::Left) => match layout::hit(self, mouse.column, mouse.row) {
                layout::Hit::Head(field) => self.order_by(field),
                layout::Hit::Line(line, on_mark) => {
                    let again = self.screen.selected == line;
                    self.screen.go(line, &answer);
                    if on_mark || again {
                        self.run(Command::Toggle);
                    }
                }
                layout::Hit::Nothing => {}
            },
            MouseEventKind::Down(MouseButton::Right) => self.run(Command::Back),
            _ => {}
        }
    }

    /// The line under the cursor.
    pub fn line(&self) -> Option<&Line> {
        self.answer.lines.get(self.screen.selected)
    }

    /// Runs a command.
    pub fn run(&mut self, command: Command) {
        let answer = self.answer.clone();
        let page = self.screen.height.max(1) as isize;
        match command {
            Command::Quit => self.effects.push(Effect::Quit),
            Command::Help => self.overlays.push(Overlay::Help { scroll: 0 }),
            Command::Losses => self.overlays.push(Overlay::Losses { scroll: 0 }),
            Command::Palette => self.overlays.push(Overlay::Palette(Palette::default())),
            Command::Columns => self.overlays.push(Overlay::Columns { cursor: 0 }),
            Command::Up => self.screen.step(-1, &answer),
            Command::Down => self.screen.step(1, &answer),
            Command::PageUp => self.screen.step(-page, &answer),
            Command::PageDown => self.screen.step(page, &answer),
            Command::Home => self.screen.home(),
            Command::End => self.screen.go(usize::MAX, &answer),
            Command::Toggle => self.toggle(),
            Command::ExpandRow => self.toggle_row(),
            Command::ExpandAll | Command::CollapseAll => {
                self.expand_all = command == Command::ExpandAll;
                self.toggled.clear();
            }
            Command::Search(text) => self.search(text),
            Command::NextMatch => self.screen.next(1, &answer),
            Command::PreviousMatch => self.screen.next(-1, &answer),
            Command::Filter(text) => self.set_filter(text),
            Command::Back => self.back(),
            Command::ZoomThread
            | Command::ZoomProcess
            | Command::ZoomComm
            | Command::ZoomDso
            | Command::ZoomSymbol
            | Command::ZoomKernel => self.zoom(&command),
            Command::ZoomCpu(text) => self.zoom_cpu(text),
            Command::ShowIdle => {
                self.hide_idle = !self.hide_idle;
                self.say(if self.hide_idle { "idle CPUs are hidden" } else { "idle CPUs are shown" });
            }
            Command::Sort(text) => self.sort(text),
            Command::OrderRight => self.move_order(1),
            Command::OrderLeft => self.move_order(-1),
            Command::Reverse => self.reversed = !self.reversed,
            Command::Children => self.toggle_children(),
            Command::Direction => {
                self.direction =
                    if self.direction == Direction::Callers { Direction::Callees } else { Direction::Callers };
                self.say(match self.direction {
                    Direction::Callers => "call chains lead to callers",
                    Direction::Callees => "call chains lead to callees",
                });
            }
            Command::Fractal => {
                self.chain_mode =
                    if self.chain_mode == ChainMode::Graph { ChainMode::Fractal } else { ChainMode::Graph };
                self.say(match self.chain_mode {
                    ChainMode::Graph => "percentages in call chains are of everything",
                    ChainMode::Fractal => "percentages in call chains are of the entry above",
                });
            }
            Command::NextEvent => self.move_event(1),
            Command::PreviousEvent => self.move_event(-1),
            other => self.run_session(other),
        }
        self.ask(false);
    }

    /// Commands that act on the session or the program rather than on the table.
    fn run_session(&mut self, command: Command) {
        match command {
            Command::Limit(None) => self.ask_for(Ask::Limit, format!("{}", self.limit)),
            Command::Limit(Some(text)) => match text.trim_end_matches('%').trim().parse::<f64>() {
                Ok(percent) if (0.0..100.0).contains(&percent) => self.limit = percent,
                _ => self.error(format!("{text} is no percentage below 100")),
            },
            Command::Freeze => {
                self.frozen = !self.frozen;
                self.effects.push(Effect::Freeze(self.frozen));
            }
            Command::Clear => {
                self.effects.push(Effect::Clear);
                self.say("all samples so far are forgotten");
            }
            Command::Faster => self.set_refresh(self.refresh.div_f64(2.0)),
            Command::Slower => self.set_refresh(self.refresh.mul_f64(2.0)),
            Command::Refresh(None) => self.ask_for(Ask::Refresh, String::new()),
            Command::Refresh(Some(text)) => match text.trim_end_matches('s').parse::<f64>() {
                Ok(s) if s.is_finite() && s > 0.0 => self.set_refresh(Duration::from_secs_f64(s.min(3600.0))),
                _ => self.error(format!("{text} is no number of seconds")),
            },
            Command::Frequency(None) => self.ask_for(Ask::Frequency, String::new()),
            Command::Frequency(Some(text)) => match text.trim_end_matches("Hz").trim().parse() {
                Ok(hz) => self.effects.push(Effect::Control(Control::Frequency(hz))),
                Err(_) => self.error(format!("{text} is no number of samples a second")),
            },
            Command::Cpus(None) => self.ask_for(Ask::Cpus, self.answer.cpus.clone()),
            Command::Cpus(Some(text)) => match cpu_list(&text) {
                Ok(list) => self.effects.push(Effect::Control(Control::Cpus(list))),
                Err(error) => self.error(error),
            },
            Command::Save(path) => self.effects.push(Effect::Save(path.map(PathBuf::from))),
            Command::Suspend => self.effects.push(Effect::Suspend),
            Command::Redraw => self.effects.push(Effect::Redraw),
            Command::Mouse => {
                self.mouse = !self.mouse;
                self.effects.push(Effect::Mouse(self.mouse));
                self.say(if self.mouse { "the mouse is ours" } else { "the mouse is the terminal's" });
            }
            _ => {}
        }
    }

    fn ask_for(&mut self, ask: Ask, text: String) {
        let answer = self.answer.clone();
        self.prompt = Some(Prompt::new(ask, text, &answer));
    }

    fn toggle(&mut self) {
        let Some(id) = self.line().map(|l| l.id) else { return };
        if !self.info.chains {
            return self.say("no call chains were recorded (--call-graph none)");
        }
        if !self.toggled.remove(&id) {
            self.toggled.insert(id);
        }
        self.screen.item = Some(id);
    }

    fn toggle_row(&mut self) {
        let answer = self.answer.clone();
        let row = (0..=self.screen.selected).rev().find(|i| answer.lines.get(*i).is_some_and(|l| l.depth == 0));
        if let Some(row) = row {
            self.screen.go(row, &answer);
            self.toggle();
        }
    }

    fn search(&mut self, text: Option<String>) {
        let answer = self.answer.clone();
        let Some(text) = text else { return self.ask_for(Ask::Search, String::new()) };
        match self.screen.search(&text, &answer) {
            Ok(()) if self.screen.search.as_ref().is_some_and(|s| s.matches == 0) => {
                self.say(format!("{text} matches nothing"))
            }
            Ok(()) => {}
            Err(error) => self.error(error),
        }
    }

    fn set_filter(&mut self, text: Option<String>) {
        let Some(text) = text else {
            let old = self.filter.clone().unwrap_or_default();
            return self.ask_for(Ask::Filter, old);
        };
        match Filter::parse(&text) {
            Ok(_) => self.filter = Some(text),
            Err(fault) => self.error(fault.line()),
        }
    }

    fn back(&mut self) {
        if self.zooms.pop().is_none() && self.filter.take().is_none() {
            self.say("there is nothing to go back to");
        }
    }

    fn push_zoom(&mut self, label: String, expression: String) {
        let zoom = Zoom { label, expression };
        if self.zooms.contains(&zoom) {
            return self.say("already zoomed in there: Backspace goes back");
        }
        self.zooms.push(zoom);
        self.screen.home();
    }

    fn zoom(&mut self, command: &Command) {
        if *command == Command::ZoomKernel {
            return self.push_zoom("kernel".into(), "kernel".into());
        }
        let Some(line) = self.line().cloned() else { return };
        let group = &line.group;
        let number = |field: &str, id: i32| (format!("{field} {id}"), format!("{field} == {id}"));
        let comm = || group.comm.as_ref().map(|c| (format!("comm {c}"), equals("comm", c)));
        let zoom = match command {
            Command::ZoomDso => Some((line.dso.to_string(), equals("dso", &line.dso))),
            Command::ZoomSymbol => Some((line.sym.to_string(), equals("stack", &line.sym))),
            Command::ZoomComm => comm(),
            Command::ZoomProcess => group.pid.map(|pid| number("pid", pid)),
            _ => group.tid.map(|tid| number("tid", tid)).or_else(comm).or(group.pid.map(|pid| number("pid", pid))),
        };
        match zoom {
            Some((label, expression)) => self.push_zoom(label, expression),
            None => self.say("the table does not tell these apart: add the column with s"),
        }
    }

    fn zoom_cpu(&mut self, text: Option<String>) {
        let own = self.line().and_then(|l| l.group.cpu).map(|cpu| cpu.to_string());
        let Some(text) = text.or(own) else { return self.ask_for(Ask::ZoomCpu, String::new()) };
        let expression = format!("cpu in {text}");
        match Filter::parse(&expression) {
            Ok(_) => self.push_zoom(format!("CPU {text}"), expression),
            Err(fault) => self.error(fault.line()),
        }
    }

    fn sort(&mut self, text: Option<String>) {
        let Some(text) = text else { return self.run(Command::Columns) };
        match Key::parse_list(&text) {
            Ok(keys) => {
                self.columns.retain(|f| !matches!(f, Field::Key(_)));
                self.columns.extend(keys.into_iter().map(Field::Key));
            }
            Err(word) => self.error(format!("{word} is no key: cpu, comm, pid, tid, dso, sym")),
        }
    }

    fn order_by(&mut self, field: Field) {
        let order = match field {
            Field::Children => Order::Children,
            Field::SelfTime | Field::Period => Order::SelfTime,
            Field::Samples => Order::Samples,
            Field::Key(key) => Order::By(key),
        };
        self.reversed = self.order == order && !self.reversed;
        self.set_order(order);
    }

    /// Orders rows; call chains then lead where the figure comes from: from a function's own time
    /// to its callers, from what it called to its callees.
    fn set_order(&mut self, order: Order) {
        if (self.order == Order::Children) != (order == Order::Children) {
            let inclusive = order == Order::Children;
            self.direction = if inclusive { Direction::Callees } else { Direction::Callers };
        }
        self.order = order;
    }

    /// The column that rows are ordered by.
    pub fn order_field(&self) -> Field {
        match self.order {
            Order::Children => Field::Children,
            Order::SelfTime => Field::SelfTime,
            Order::Samples => Field::Samples,
            Order::By(key) => Field::Key(key),
        }
    }

    fn move_order(&mut self, step: isize) {
        let n = self.columns.len() as isize;
        let at = self.columns.iter().position(|f| *f == self.order_field()).unwrap_or(0) as isize;
        let field = self.columns[(at + step).rem_euclid(n) as usize];
        self.order_by(field);
        self.reversed = false;
    }

    fn toggle_children(&mut self) {
        if !self.info.chains {
            return self.say("no call chains were recorded (--call-graph none)");
        }
        self.children = !self.children;
        self.toggled.clear();
        if self.children {
            self.columns.insert(0, Field::Children);
            self.set_order(Order::Children);
        } else {
            self.columns.retain(|f| *f != Field::Children);
            self.set_order(Order::SelfTime);
        }
        self.screen.home();
    }

    /// Goes to another event; dummies, which only carry side-band, are passed over.
    fn move_event(&mut self, step: isize) {
        let n = self.info.events.len() as isize;
        let around = (1..n).map(|i| (self.event as isize + i * step).rem_euclid(n) as usize);
        let next = around.into_iter().find(|i| !self.info.events[*i].name.starts_with("dummy"));
        match next {
            Some(event) => {
                self.event = event;
                self.screen.home();
            }
            None => self.say("there is one event only; -e takes several"),
        }
    }

    fn set_refresh(&mut self, refresh: Duration) {
        self.refresh = refresh.clamp(Duration::from_millis(100), Duration::from_secs(3600));
        self.effects.push(Effect::Refresh(self.refresh));
        self.say(format!("up to date every {} s", self.refresh.as_secs_f64()));
    }

    /// Everything that narrows the view, as one filter.
    pub fn whole_filter(&self) -> Option<String> {
        let mut parts: Vec<String> = self.zooms.iter().map(|z| z.expression.clone()).collect();
        parts.extend(self.filter.clone());
        if self.hide_idle {
            parts.push("!idle".to_owned());
        }
        match parts.len() {
            0 => None,
            1 => parts.pop(),
            _ => Some(parts.iter().map(|p| format!("({p})")).collect::<Vec<_>>().join(" && ")),
        }
    }

    /// Sends the question when it has changed.
    fn ask(&mut self, always: bool) {
        let text = self.whole_filter();
        let same = self.asked.filter.as_ref().map(|f| f.text()) == text.as_deref();
        let filter =
            if same { self.asked.filter.clone() } else { text.and_then(|t| Filter::parse(&t).ok()).map(Arc::new) };
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
            top: TopSpec { keys, children: self.children, order: self.order, reversed: self.reversed },
            direction: self.direction,
            chain_mode: self.chain_mode,
            limit_percent: self.limit,
            toggled: self.toggled.clone(),
            expand_all: self.expand_all,
            first_line: if unfolded { self.screen.top } else { 0 },
            height: self.screen.height.max(1),
        };
        if always || question != self.asked {
            self.asked = Question { generation: self.asked.generation + 1, ..question };
            self.effects.push(Effect::Ask(Arc::new(self.asked.clone())));
        }
    }
}

/// A clause that a field equals a text, whatever quotes the text has.
fn equals(field: &str, value: &str) -> String {
    if !value.contains('"') {
        format!("{field} == \"{value}\"")
    } else if !value.contains('\'') {
        format!("{field} == '{value}'")
    } else {
        format!("{field} ~ \"{}\"", value.replace('"', "?"))
    }
}

/// Parses a list of CPUs.
fn cpu_list(text: &str) -> Result<Vec<u32>, String> {
    use crate::filter::Test;
    let filter = Filter::parse(&format!("cpu in {text}")).map_err(|f| f.line())?;
    let Some(Test::Ranges(ranges)) = filter.atoms().first().map(|a| &a.test) else { return Err("no CPUs".into()) };
    let list: Vec<u32> = ranges.iter().flat_map(|(a, b)| (*a..=(*b).min(1 << 16)).map(|c| c as u32)).collect();
    if list.is_empty() { Err("no CPU was named".into()) } else { Ok(list) }
}
