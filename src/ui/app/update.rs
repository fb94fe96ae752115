//! What commands do to the model.

use std::path::PathBuf;
use std::time::Duration;

use crate::event::plain;
use crate::filter::Filter;
use crate::filter::capture::Subject;
use crate::ingest::tracepoints;
use crate::query::answer::Mark;
use crate::query::{ChainMode, Direction};
use crate::source::{Change, Control};
use crate::ui::app::App;
use crate::ui::app::Effect;
use crate::ui::command::Command;
use crate::ui::draw::layout;
use crate::ui::frame::Tab;
use crate::ui::overlay::{Overlay, Searched};
use crate::ui::prompt::{Ask, Prompt};

impl App {
    /// Runs a command.
    pub fn run(&mut self, command: Command) {
        let Some(mut tour) = self.frame.tour else { return self.carry_out_command(command) };
        if matches!(command, Command::Leave | Command::StopLoading) {
            self.frame.tour = None;
            self.views.top.height = layout::table_height(self.scene());
            return;
        }
        self.carry_out_command(command.clone());
        tour.ran(&command, self.frame.tab);
        self.frame.tour = Some(tour);
        self.views.top.height = layout::table_height(self.scene());
    }

    fn carry_out_command(&mut self, command: Command) {
        if self.frame.tab == Tab::Flame && self.run_flame(&command) {
            return self.ask(false);
        }
        if self.frame.tab == Tab::Time && self.run_time(&command) {
            return self.ask(false);
        }
        if self.frame.tab == Tab::Cpus && self.run_cpus(&command) {
            return self.ask(false);
        }
        if self.frame.tab == Tab::Events && self.run_events(&command) {
            return self.ask(false);
        }
        if self.frame.tab == Tab::Units && self.run_units(&command) {
            return self.ask(false);
        }
        if self.frame.tab != Tab::Top && is_about_rows(&command) {
            self.say("that is for the table: 1 leads there");
            return self.ask(false);
        }
        let answer = self.context.answer.clone();
        let page = self.views.top.height.max(1) as isize;
        match command {
            Command::Quit => self.effects.push(Effect::Quit),
            Command::Help => self.frame.overlays.push(Overlay::Help(Searched::default())),
            Command::Annotate(name) => self.annotate(name),
            Command::NameForm => self.next_form(),
            Command::Inlined => self.toggle_inlined(),
            Command::CallGraph(way) => self.call_graph(way),
            Command::Losses => self.frame.overlays.push(Overlay::Losses { scroll: 0 }),
            Command::TabTop => self.frame.tab = Tab::Top,
            Command::TabFlame if !self.context.info.chains => {
                self.say("no call chains were recorded: there is nothing to draw")
            }
            Command::TabFlame => self.frame.tab = Tab::Flame,
            Command::TabTime => self.show_time(),
            Command::Timeline => self.frame.timeline = !self.frame.timeline,
            Command::Range(text) => self.set_range(text),
            Command::RangeBack => self.walk_ranges(-1),
            Command::RangeOn => self.walk_ranges(1),
            Command::Mark(text) => self.mark(text),
            Command::Note(text) => self.note_moment(text),
            Command::Marks => self.frame.overlays.push(Overlay::Marks { cursor: 0 }),
            Command::TabCpus => self.show_cpus(),
            Command::TabEvents => self.show_events(),
            Command::TabUnits => self.frame.tab = Tab::Units,
            Command::Unit(text) => self.add_unit(text),
            Command::Finding => self.go_to_notice(),
            Command::Dismiss => self.dismiss(),
            Command::Info => self.frame.overlays.push(Overlay::Info { scroll: 0 }),
            Command::StopLoading if answer.progress.is_some() => {
                self.effects.push(Effect::Control(Control::Stop));
            }
            Command::StopLoading => {}
            Command::Leave => self.leave(),
            Command::Undo => self.undo(),
            Command::Redo => self.redo(),
            Command::Reset => self.count_from_now(),
            Command::Palette => self.frame.overlays.push(Overlay::Palette(self.palette())),
            Command::Columns => self.frame.overlays.push(Overlay::Columns { cursor: 0 }),
            Command::Up => self.views.top.step(-1, &answer),
            Command::Down => self.views.top.step(1, &answer),
            Command::PageUp => self.views.top.step(-page, &answer),
            Command::PageDown => self.views.top.step(page, &answer),
            Command::Home => self.views.top.home(),
            Command::End => self.views.top.go(usize::MAX, &answer),
            Command::Toggle => self.toggle(),
            Command::Fold => self.fold(),
            Command::ExpandRow => self.toggle_row(),
            Command::ExpandAll => {
                self.selection.expand_all = !self.selection.expand_all && self.selection.toggled.is_empty();
                self.selection.toggled.clear();
            }
            Command::Search(text) => self.search(text),
            Command::NextMatch => self.views.top.next(1, &answer),
            Command::PreviousMatch => self.views.top.next(-1, &answer),
            Command::Filter(text) => self.set_filter(text),
            Command::Zoom(key) => self.zoom(key, false),
            Command::LeaveOut(key) => self.zoom(key, true),
            Command::ZoomKernel => self.push_zoom("kernel".into(), "kernel".into()),
            Command::ExcludeKernel => self.push_zoom("not kernel".into(), "!(kernel)".into()),
            Command::ZoomCpu(text) => self.zoom_cpu(text),
            Command::ShowIdle => {
                self.selection.hide_idle = !self.selection.hide_idle;
                self.say(if self.selection.hide_idle { "idle CPUs are hidden" } else { "idle CPUs are shown" });
            }
            Command::Sort(text) => self.sort(text),
            Command::Split => self.split(1),
            Command::SplitBack => self.split(-1),
            Command::OrderRight => self.move_order(1),
            Command::OrderLeft => self.move_order(-1),
            Command::Reverse => {
                self.selection.reversed = !self.selection.reversed;
                self.views.top.home();
            }
            Command::Children => self.toggle_children(),
            Command::Direction => {
                self.selection.direction = if self.selection.direction == Direction::Callers {
                    Direction::Callees
                } else {
                    Direction::Callers
                };
                self.say(match self.selection.direction {
                    Direction::Callers => "call chains lead to callers",
                    Direction::Callees => "call chains lead to callees",
                });
            }
            Command::Fractal => {
                self.selection.chain_mode =
                    if self.selection.chain_mode == ChainMode::Graph { ChainMode::Fractal } else { ChainMode::Graph };
                self.say(match self.selection.chain_mode {
                    ChainMode::Graph => "percentages in call chains are of everything",
                    ChainMode::Fractal => "percentages in call chains are of the entry above",
                });
            }
            Command::NextEvent => self.move_event(1),
            Command::PreviousEvent => self.move_event(-1),
            other => self.run_session(other),
        }
        self.tell_units();
        self.ask(false);
    }

    /// Commands that act on the session or the program rather than on the table.
    pub(in crate::ui) fn run_session(&mut self, command: Command) {
        match command {
            Command::Limit(None) => self.ask_for(Ask::Limit, format!("{}", self.selection.limit)),
            Command::Limit(Some(text)) => match text.trim_end_matches('%').trim().parse::<f64>() {
                Ok(percent) if (0.0..100.0).contains(&percent) => self.selection.limit = percent,
                _ => self.error(format!("{text} is no percentage below 100")),
            },
            Command::Freeze => {
                self.selection.frozen = !self.selection.frozen;
                self.effects.push(Effect::Freeze(self.selection.frozen));
            }
            Command::Forget => {
                self.effects.push(Effect::Clear);
                self.say("all samples so far are forgotten");
            }
            Command::Faster => self.set_refresh(self.selection.refresh.div_f64(2.0)),
            Command::Slower => self.set_refresh(self.selection.refresh.mul_f64(2.0)),
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
            Command::Capture(text) => self.capture_of(self.selection.event, text),
            Command::EventAdd(names) => self.add_event(names),
            Command::Attach(None) => self.ask_for(Ask::Attach, String::new()),
            Command::Attach(Some(text)) => self.effects.push(Effect::Control(Control::Target(text))),
            Command::Probe(None) => self.ask_for(Ask::Probe, String::new()),
            Command::Probe(Some(text)) => self.effects.push(Effect::Control(Control::Probe(text))),
            Command::SaveFilter(name) => self.save_filter(name),
            Command::SavedFilter(name) => self.use_filter(name),
            Command::ForgetFilter(name) => self.forget_filter(name),
            Command::PauseAll => self.pause_all(),
            Command::Cpus(None) => self.ask_for(Ask::Cpus, self.context.answer.cpus.clone()),
            Command::Cpus(Some(text)) => match cpu_list(&text) {
                Ok(list) => self.effects.push(Effect::Control(Control::Cpus(list))),
                Err(error) => self.error(error),
            },
            Command::Baseline(text) => self.set_baseline(text),
            Command::BaselineOff => self.drop_baseline(),
            Command::Per(text) => self.set_per(text),
            Command::Window(text) => self.set_window(text),
            Command::SoftirqTime => self.toggle_tracing(),
            Command::Threshold(text) => self.set_threshold(text),
            Command::Copy => self.copy(),
            Command::Write(path) => self.write(path),
            Command::CopyCommand => self.copy_command(),
            Command::Save(path) => {
                let start = self.context.answer.start;
                let range = self
                    .selection
                    .range()
                    .map(|(from, until)| (start.saturating_add(from), start.saturating_add(until)));
                self.effects.push(Effect::Save(path.map(PathBuf::from), range));
            }
            Command::Suspend => self.effects.push(Effect::Suspend),
            Command::Redraw => self.effects.push(Effect::Redraw),
            Command::Theme(None) => {
                let answer = self.context.answer.clone();
                self.frame.theme_before = Some(self.frame.theme.clone());
                let prompt = Prompt::new(Ask::Theme, String::new(), self.context.fields.clone(), &answer);
                self.frame.prompt = Some(prompt.with_choices(self.context.themes.clone(), &answer));
            }
            Command::Theme(Some(name)) => match self.context.themes.contains(&name) {
                true => {
                    self.say(format!("theme = \"{name}\" in config.toml keeps it"));
                    self.frame.theme = name;
                }
                false => self.error(format!("no theme is called {name}: there are {}", self.context.themes.join(", "))),
            },
            Command::Slow => {
                self.context.slow = !self.context.slow;
                self.say(if self.context.slow { "two frames a second at most" } else { "frames as they come" });
            }
            Command::Bytes => {
                self.context.bytes_a_second = if self.context.bytes_a_second.is_some() { None } else { Some(0.0) };
            }
            Command::Mouse => {
                self.frame.mouse = !self.frame.mouse;
                self.effects.push(Effect::Mouse(self.frame.mouse));
                self.say(if self.frame.mouse { "the mouse is ours" } else { "the mouse is the terminal's" });
            }
            _ => {}
        }
    }

    /// Asks for, or sets, the kernel's filter of an event; an empty text takes it away.
    pub(in crate::ui) fn capture_of(&mut self, event: usize, text: Option<String>) {
        if let Some(text) = text {
            let text = Some(text).filter(|text| !text.is_empty());
            return self.effects.push(Effect::Control(Control::Event(event, Change::Filter(text))));
        }
        let Some(info) = self.context.answer.events.get(event).filter(|info| info.meter.is_some()) else {
            return self.say("this is a recording, or an event that is made of others; f filters the view");
        };
        let name = plain(&info.name);
        let subject = match tracepoints::format(&self.context.info, name) {
            Some(format) => Subject::Tracepoint(Box::new(format)),
            None => Subject::Sampling { clock: matches!(name, "cpu-clock" | "task-clock") },
        };
        let answer = self.context.answer.clone();
        self.frame.prompt = Some(Prompt::about(info.filter.clone().unwrap_or_default(), subject, &answer));
    }

    pub(in crate::ui) fn ask_for(&mut self, ask: Ask, text: String) {
        let answer = self.context.answer.clone();
        let prompt = Prompt::new(ask, text, self.context.fields.clone(), &answer);
        self.frame.prompt = Some(prompt.with_saved(self.context.saved.clone(), &answer));
    }

    pub(in crate::ui) fn toggle(&mut self) {
        let Some(id) = self.line().map(|l| l.id) else { return };
        if !self.context.info.chains {
            return self.say("no call chains were recorded (--call-graph none)");
        }
        if !self.selection.toggled.remove(&id) {
            self.selection.toggled.insert(id);
        }
        self.views.top.item = Some(id);
    }

    /// Folds what is unfolded under the cursor, else goes to the line that it belongs to; undoes where there is none.
    pub(in crate::ui) fn fold(&mut self) {
        let answer = self.context.answer.clone();
        let Some(line) = self.line() else { return self.undo() };
        if line.mark == Mark::Open {
            return self.toggle();
        }
        let depth = line.depth;
        let above = answer.lines[..self.views.top.selected].iter().rposition(|above| above.depth < depth);
        match above {
            Some(at) => self.views.top.go(at, &answer),
            None => self.undo(),
        }
    }

    pub(in crate::ui) fn toggle_row(&mut self) {
        let answer = self.context.answer.clone();
        let row = (0..=self.views.top.selected).rev().find(|i| answer.lines.get(*i).is_some_and(|l| l.depth == 0));
        if let Some(row) = row {
            self.views.top.go(row, &answer);
            self.toggle();
        }
    }

    pub(in crate::ui) fn search(&mut self, text: Option<String>) {
        let answer = self.context.answer.clone();
        let Some(text) = text else {
            self.frame.before_search = Some(self.views.top.clone());
            return self.ask_for(Ask::Search, String::new());
        };
        match self.views.top.search(&text, &answer) {
            Ok(()) if self.views.top.search.as_ref().is_some_and(|s| s.matches == 0) => {
                self.say(format!("{text} matches nothing"))
            }
            Ok(()) => {}
            Err(error) => self.error(error),
        }
    }
}

/// Whether a command is about the table's rows, which are not seen on other screens.
fn is_about_rows(command: &Command) -> bool {
    matches!(
        command,
        Command::Toggle
            | Command::Fold
            | Command::ExpandRow
            | Command::ExpandAll
            | Command::Direction
            | Command::Fractal
            | Command::Limit(_)
            | Command::Zoom(_)
            | Command::LeaveOut(_)
            | Command::Columns
            | Command::OrderRight
            | Command::OrderLeft
            | Command::Reverse
            | Command::Children
            | Command::Up
            | Command::Down
            | Command::PageUp
            | Command::PageDown
            | Command::NextMatch
            | Command::PreviousMatch
    )
}

/// Parses a list of CPUs.
pub(in crate::ui) fn cpu_list(text: &str) -> Result<Vec<u32>, String> {
    use crate::filter::Test;
    let filter = Filter::parse(&format!("cpu in {text}")).map_err(|f| f.line())?;
    let Some(Test::Ranges(ranges)) = filter.atoms().first().map(|a| &a.test) else { return Err("no CPUs".into()) };
    let list: Vec<u32> = ranges.iter().flat_map(|(a, b)| (*a..=(*b).min(1 << 16)).map(|c| c as u32)).collect();
    if list.is_empty() { Err("no CPU was named".into()) } else { Ok(list) }
}
