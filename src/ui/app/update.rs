//! Changes of the model by commands.

use std::path::PathBuf;
use std::time::Duration;

use crate::event::{CPU_CLOCK, base_name};
use crate::filter::Filter;
use crate::filter::capture::Subject;
use crate::ingest::tracepoints;
use crate::lang::quantity;
use crate::profile::frames::SymState;
use crate::query::answer::FoldMark;
use crate::source::{Change, Control};
use crate::ui::app::{App, Effect, OutsideRequest};
use crate::ui::draw::layout;
use crate::ui::input::commands::{general, program, table};
use crate::ui::input::{Action, Command, Invocation};
use crate::ui::popups::Popup;
use crate::ui::popups::prompt::Prompt;
use crate::ui::popups::tour;
use crate::ui::screens::list::screen;
use crate::ui::screens::screen::CursorStep;
use crate::ui::state::Tab;

impl App {
    /// Runs a command.
    pub fn run(&mut self, command: impl Into<Invocation>) {
        let command = command.into();
        let Some(at) = self.frame.tour else { return self.carry_out_command(command) };
        if command.row.is(&general::LEAVE) || command.row.is(&general::STOP) {
            self.frame.tour = None;
            self.views.top.height = layout::table_height(self.scene());
            return;
        }
        let row = command.row;
        self.carry_out_command(command);
        self.frame.tour = Some(tour::after(at, row, self.frame.tab));
        self.views.top.height = layout::table_height(self.scene());
    }

    fn carry_out_command(&mut self, Invocation { row, argument }: Invocation) {
        match table::action(row, self.frame.tab) {
            None => {}
            Some(Action::Plain(act)) => act(self),
            Some(Action::Given(act)) => act(self, argument),
            Some(Action::Asked(act, start)) => match argument {
                Some(argument) => act(self, argument),
                None => self.ask_for(row, start(self)),
            },
        }
        self.tell_units();
        self.ask(false);
    }

    pub(crate) fn move_cursor(&mut self, step: CursorStep) {
        screen(self.frame.tab).move_cursor(self, step);
    }

    pub(crate) fn open(&mut self, popup: Popup) {
        self.frame.popups.push(popup);
    }

    pub(crate) fn show_flame(&mut self) {
        match self.context.info.chains {
            true => self.frame.tab = Tab::Flame,
            false => self.say("no call chains were recorded: there is nothing to draw"),
        }
    }

    pub(crate) fn stop_loading(&mut self) {
        if self.context.answer.progress.is_some() {
            self.control(Control::Stop);
        }
    }

    pub(crate) fn set_limit(&mut self, text: &str) {
        match quantity::share(text) {
            Ok(percent) if (0.0..100.0).contains(&percent) => self.selection.rows.limit = percent,
            _ => self.error(format!("{text}: expected a percentage below 100")),
        }
    }

    pub(crate) fn parse_refresh(&mut self, text: &str) {
        match quantity::duration(text) {
            Ok(time) if !time.is_zero() => self.set_refresh(time.min(Duration::from_secs(3600))),
            _ => self.error(format!("{text}: expected a number of seconds")),
        }
    }

    pub(crate) fn set_frequency(&mut self, text: &str) {
        match quantity::hertz(text) {
            Ok(hz) => self.control(Control::Frequency(hz)),
            Err(_) => self.error(format!("{text}: expected samples per second")),
        }
    }

    pub(crate) fn sample_cpus(&mut self, text: &str) {
        match cpu_list(text) {
            Ok(list) => self.control(Control::Cpus(list)),
            Err(error) => self.error(error),
        }
    }

    pub(crate) fn save(&mut self, path: Option<String>) {
        let start = self.context.answer.start;
        let range = self.selection.range();
        let range = range.map(|(from, until)| (start.saturating_add(from), start.saturating_add(until)));
        self.effects.push(Effect::Outside(OutsideRequest::Save(path.map(PathBuf::from), range)));
    }

    /// Sets a theme by name, or opens the theme prompt.
    pub(crate) fn set_theme(&mut self, name: Option<String>) {
        let Some(name) = name else {
            self.frame.theme_before = Some(self.frame.theme.clone());
            return self.ask_for(&program::THEME, String::new());
        };
        if !self.context.themes.contains(&name) {
            return self.error(format!("unknown theme {name}; available: {}", self.context.themes.join(", ")));
        }
        self.say(format!("theme = \"{name}\" in config.toml keeps it"));
        self.frame.theme = name;
    }

    /// Sets the kernel filter of an event, or prompts for it; an empty text removes it.
    pub(crate) fn capture_of(&mut self, event: usize, text: Option<String>) {
        if let Some(text) = text {
            let text = Some(text).filter(|text| !text.is_empty());
            return self.control(Control::Event(event, Change::Filter(text)));
        }
        let Some(info) = self.context.answer.events.get(event).filter(|info| info.meter.is_some()) else {
            return self.refuse(&general::CAPTURE, "capture filters need a live session: Esc, then f filters the view");
        };
        let subject = match tracepoints::format(&self.context.info, base_name(&info.name)) {
            Some(format) => Subject::Tracepoint(Box::new(format)),
            None => Subject::Sampling { clock: info.unit.is_time() },
        };
        let text = info.filter.clone().unwrap_or_default();
        self.frame.prompt = Prompt::about(&general::CAPTURE, text, subject, &self.context);
    }

    pub(crate) fn refuse(&mut self, row: &'static Command, why: &str) {
        self.frame.prompt = Prompt::refused(row, why.to_owned(), &self.context);
    }

    pub(crate) fn ask_for(&mut self, row: &'static Command, text: String) {
        if let Some(argument) = &row.argument {
            self.frame.prompt = Some(Prompt::new(row, argument, text, &self.context));
        }
    }

    pub(crate) fn toggle(&mut self) {
        if self.start_sampling() {
            return;
        }
        let Some(id) = self.line().map(|l| l.id) else { return };
        if !self.context.info.chains {
            return self.say("no call chains were recorded (--call-graph none)");
        }
        if self.line().is_some_and(|line| line.depth == 0 && line.state == SymState::Sought) {
            return self.say("symbols are still being resolved; this row then disappears");
        }
        if !self.selection.rows.toggled.remove(&id) {
            self.selection.rows.toggled.insert(id);
        }
        self.views.top.list.id = Some(id);
    }

    /// Starts the event that samples CPUs in a session that measures only for units; returns whether it did.
    pub(crate) fn start_sampling(&mut self) -> bool {
        let starts = self.context.samples_nothing();
        if starts {
            self.add_event(Some(CPU_CLOCK.to_owned()));
        }
        starts
    }

    /// Collapses the row under the cursor, or goes to its parent. Undoes the last step if there is no row.
    pub(crate) fn fold(&mut self) {
        let Some(line) = self.line() else { return self.undo() };
        if line.mark == FoldMark::Open {
            return self.toggle();
        }
        let before = &self.context.answer.view.lines[..self.views.top.selected];
        match before.iter().rposition(|above| above.depth < line.depth) {
            Some(at) => self.views.top.go(at, &self.context.answer),
            None => self.undo(),
        }
    }

    pub(crate) fn toggle_row(&mut self) {
        let lines = &self.context.answer.view.lines;
        let row = (0..=self.views.top.selected).rev().find(|i| lines.get(*i).is_some_and(|l| l.depth == 0));
        if let Some(row) = row {
            self.views.top.go(row, &self.context.answer);
            self.toggle();
        }
    }

    pub(crate) fn search(&mut self, text: Option<String>) {
        let Some(text) = text else {
            self.frame.before_search = Some(self.views.top.clone());
            return self.ask_for(&general::SEARCH, String::new());
        };
        match self.views.top.search(&text, &self.context.answer) {
            Ok(()) if self.views.top.search.as_ref().is_some_and(|s| s.matches == 0) => {
                self.say(format!("{text} matches nothing"))
            }
            Ok(()) => {}
            Err(error) => self.error(error),
        }
    }
}

pub(crate) fn cpu_list(text: &str) -> Result<Vec<u32>, String> {
    use crate::filter::Test;
    let filter = Filter::parse(&format!("cpu in {text}")).map_err(|f| f.line())?;
    let Some(Test::Ranges(ranges)) = filter.atoms().first().map(|a| &a.test) else { return Err("no CPUs".into()) };
    let list: Vec<u32> = ranges.iter().flat_map(|(a, b)| (*a..=(*b).min(1 << 16)).map(|c| c as u32)).collect();
    if list.is_empty() { Err("no CPU given".into()) } else { Ok(list) }
}
