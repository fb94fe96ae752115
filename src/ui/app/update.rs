//! Commands and answers: the one place where they change the state, and the questions that follow.

use std::sync::Arc;

use crate::engine::{Request, UnitAnswer};
use crate::event::catalogue::CatalogueEvent;
use crate::ingest::derived::softirq_times::HandlerTimes;
use crate::ingest::tracepoints;
use crate::machine::sampler::HostView;
use crate::machine::triage::Look;
use crate::query::answer::UnnamedRows;
use crate::query::{Age, Answer, Question};
use crate::session::Origin;
use crate::ui::app::App;
use crate::ui::draw::layout;
use crate::ui::input::commands::{general, table};
use crate::ui::input::{Action, Invocation};
use crate::ui::popups::tour;
use crate::ui::screens::screen::CursorStep;
use crate::ui::screens::time::state::usual;
use crate::ui::screens::units::state::quoted;
use crate::ui::state::environment::drawn_part;
use crate::ui::state::selection::PAIRS;
use crate::ui::state::{BannerSubject, Effect, OutsideRequest, StartupAction, Tab};
use crate::ui::terminal::term_query;

/// The maximum number of selected processes that are followed.
const MOST_FOLLOWED: usize = 16;

impl App {
    /// Runs a command.
    pub fn run(&mut self, command: impl Into<Invocation>) {
        let command = command.into();
        let Some(at) = self.model.frame.tour else { return self.carry_out(command) };
        let row = command.row;
        self.model.frame.tour = if row.is(&general::LEAVE) || row.is(&general::STOP) {
            None
        } else {
            self.carry_out(command);
            Some(tour::after(at, row, self.model.frame.tab))
        };
        self.model.top.height = layout::table_height(&self.model);
    }

    fn carry_out(&mut self, Invocation { row, argument }: Invocation) {
        match table::action(row, self.model.frame.tab) {
            None => {}
            Some(Action::Plain(act)) => act(self),
            Some(Action::Given(act)) => act(self, argument),
            Some(Action::Asked(act, start)) => match argument {
                Some(argument) => act(self, argument),
                None => self.model.ask_for(row, start(&self.model)),
            },
        }
        self.views.units.tell(&mut self.model);
        self.ask(false);
    }

    pub(crate) fn move_cursor(&mut self, step: CursorStep) {
        self.views.screen_mut(self.model.frame.tab).move_cursor(&mut self.model, step);
    }

    pub(crate) fn go_to_banner(&mut self) {
        match self.model.banner().map(|banner| banner.of) {
            Some(BannerSubject::Deadlock(pid, _)) => self.examine(Look::unit("locks", Some(pid))),
            Some(BannerSubject::Unnamed(path)) => self.model.go_to_unnamed(&path),
            Some(BannerSubject::Cut) => self.model.say(":call-graph dwarf,SIZE copies more of each stack"),
            Some(BannerSubject::Late) => self.model.say(if self.model.context.invocation.may_become_realtime() {
                "started with -r 1, this program runs before all ordinary threads, for at most a fifth of each second"
            } else {
                "this program has too much to do: measure at a lower rate, or fewer events"
            }),
            _ => self.views.cpus.go_to_finding(&mut self.model),
        }
    }

    /// Opens the named function, or the one under the cursor.
    pub(crate) fn annotate(&mut self, name: Option<String>) {
        let here = self.views.screen(self.model.frame.tab).function(&self.model);
        self.model.annotate(name, here);
    }

    /// Shows the time screen, with the samples of the function under the cursor highlighted.
    pub(crate) fn show_time(&mut self) {
        let here = self.views.screen(self.model.frame.tab).function(&self.model);
        self.views.time.show(&mut self.model, here);
    }

    fn text(&self) -> Option<String> {
        self.views.screen(self.model.frame.tab).text(&self.model)
    }

    pub(crate) fn copy(&mut self) {
        let Some(text) = self.text() else { return };
        self.model.effects.push(Effect::Copy(text));
        self.model.say(copied(term_query::is_tmux()));
    }

    pub(crate) fn write(&mut self, path: String) {
        if let Some(text) = self.text() {
            self.model.effects.push(Effect::Outside(OutsideRequest::Write(path.into(), text)));
        }
    }

    /// Copies the command line that reproduces this view, and shows it.
    pub(crate) fn copy_command(&mut self) {
        let mut words = self.model.context.invocation.words.clone();
        if !self.model.context.invocation.is_of_unit {
            let mut commands = self.model.view_commands();
            self.views.screen(self.model.frame.tab).add_commands(&self.model, &mut commands);
            commands.extend(self.model.context.started_events().map(|event| format!("event {}", event.name)));
            commands.extend(self.views.units.added.iter().map(|unit| format!("unit {unit}")));
            // Idle CPUs are hidden by default, so they need no clause.
            let filter = self.model.selection.repeatable_filter(&self.model.context);
            words.extend(filter.into_iter().flat_map(|filter| ["--where".to_owned(), filter]));
            words.extend(commands.into_iter().flat_map(|command| ["--exec".to_owned(), command]));
        }
        let text = quoted(words.iter().map(String::as_str));
        self.model.effects.push(Effect::Copy(text.clone()));
        self.model.say(text);
    }

    /// Sets the size of the terminal.
    pub fn resize(&mut self, width: u16, height: u16) {
        let drawn = drawn_part(width, height);
        if drawn != (width, height) {
            let (columns, rows) = drawn;
            self.model.say(format!("the terminal reports {width}×{height}; only {columns}×{rows} are drawn"));
        }
        self.model.frame.size = drawn;
        self.model.top.height = layout::table_height(&self.model);
        self.model.follow_rows();
        self.ask(false);
    }

    /// Applies a new answer.
    pub fn set_answer(&mut self, answer: Arc<Answer>) {
        let Self { model, views, .. } = self;
        let had_nothing = model.context.samples_nothing();
        let before = std::mem::replace(&mut model.context.answer, answer.clone());
        model.context.unnamed = UnnamedRows::of(&answer.view.lines);
        if let Some(event) = model.context.sampled_event().filter(|_| had_nothing) {
            // Show the first event that is started in a session without samples.
            model.selection.event = event;
        }
        if answer.events.len() > before.events.len().max(model.context.info.events.len()) {
            let names: Vec<&str> = answer.events.iter().map(|e| e.name.as_str()).collect();
            model.context.fields = Arc::new(tracepoints::fields(&model.context.info, &names));
        }
        if answer.ended.is_some() && !std::mem::replace(&mut views.time.chosen, true) {
            views.time.length = usual(answer.elapsed_ns);
        }
        if answer.ended.is_some() && !model.selection.age_chosen {
            // Show all of an ended source.
            model.selection.age = Age::All;
        }
        let mut is_taken = false;
        for (kind, field, order) in PAIRS {
            // One pair is asked.
            let is_told = !is_taken && model.context.has_pair(kind, model.selection.event);
            model.selection.rows.offer(field, order, is_told);
            is_taken |= model.selection.rows.columns.contains(&field);
        }
        views.cpus.look_for_findings(model);
        views.overview.look(model);
        model.top.height = layout::table_height(model);
        views.time.follow(model);
        model.follow_hits();
        if let Some(flame) = &answer.view.flame {
            views.flame.follow(model, flame);
        }
        self.return_cursor();
        self.model.follow_rows();
        let info = &self.model.context.info;
        let loaded = info.origin == Origin::Live || info.flows || answer.ended.is_some();
        if answer.question.generation == self.asked.generation
            && let Some(action) = self.startup.pop_front_if(|action| loaded || !needs_all(action))
        {
            self.step(|app| app.start_with(action));
        }
        self.ask(false);
    }

    fn start_with(&mut self, action: StartupAction) {
        match action {
            StartupAction::Command(command) => self.run(command),
            StartupAction::Range { range, typed } => self.model.go_to_clock_range(&range, &typed),
        }
    }

    /// Applies new figures of units.
    pub fn set_units(&mut self, answers: Arc<Vec<UnitAnswer>>) {
        self.views.units.set_answers(&mut self.model, answers);
    }

    /// Applies new figures of the machine's CPUs.
    pub fn set_host(&mut self, host: Option<Arc<HostView>>) {
        if !self.model.selection.frozen || self.model.context.host.is_none() {
            self.model.context.host = host;
        }
        self.views.cpus.look_for_findings(&mut self.model);
        self.views.overview.look(&self.model);
        self.ask(false);
    }

    /// Applies new softirq times.
    pub fn set_times(&mut self, times: Option<Arc<HandlerTimes>>) {
        if !self.model.selection.frozen {
            self.model.context.times = times;
        }
    }

    /// Stores the catalogue of the machine's events.
    pub fn set_catalogue(&mut self, catalogue: Arc<Vec<CatalogueEvent>>) {
        self.views.events.set_catalogue(&catalogue);
        self.model.context.catalogue = Some(catalogue);
    }

    /// Enables the PMU counters of the CPUs while their screen is visible.
    fn count_work(&mut self) {
        let wanted = self.model.frame.tab == Tab::Cpus && self.model.context.info.origin == Origin::Live;
        if std::mem::replace(&mut self.views.cpus.counts_work, wanted) != wanted {
            self.model.effects.push(Effect::CountWork(wanted));
        }
    }

    /// Follows the selected processes while the overview is visible: they may sleep, and so have small figures.
    fn follow_processes(&mut self) {
        let Self { model, views, .. } = self;
        let is_wanted = model.frame.tab == Tab::Overview && model.context.info.origin == Origin::Live;
        let selected = model.context.answer.view.processes.iter().take(MOST_FOLLOWED).map(|one| one.pid);
        let mut wanted: Vec<i32> = selected.filter(|_| is_wanted && model.selects_processes()).collect();
        wanted.sort_unstable();
        if wanted != views.overview.followed {
            views.overview.followed.clone_from(&wanted);
            model.effects.push(Effect::Follow(wanted));
        }
    }

    pub(crate) fn ask(&mut self, always: bool) {
        let tab = self.model.frame.tab;
        self.views.screen_mut(tab).prepare(&self.model);
        self.count_work();
        self.follow_processes();
        let Self { model, views, asked, .. } = self;
        let rows = &model.selection.rows;
        let unfolded = rows.expand_all || !rows.toggled.is_empty();
        let question = Question {
            callers_of: model.row().map(|row| row.id).filter(|_| layout::beside_width(model, model.frame.size.0) > 0),
            first_line: if unfolded { model.top.list.top } else { 0 },
            height: model.top.height.max(1),
            cpu: model.context.findings.first().and_then(|found| u16::try_from(found.cpu?).ok()),
            annotate: model.annotated().map(|screen| screen.target.clone()),
            ..model.selection.question(&model.context, tab, asked)
        };
        let question = views.screen(tab).question(model, question);
        if always || question != *asked {
            *asked = Question { generation: asked.generation + 1, ..question };
            model.request(Request::Ask(Arc::new(asked.clone())));
        }
    }
}

/// Returns the message after a copy. Terminals do not report whether they took it, and tmux ignores it by default.
fn copied(in_tmux: bool) -> &'static str {
    match in_tmux {
        true => "sent to the terminal's clipboard; tmux passes it on after: set -g set-clipboard on",
        false => "the view was sent to the terminal's clipboard, as text",
    }
}

/// Returns whether a recording must be loaded first: a range may be a share of it.
fn needs_all(action: &StartupAction) -> bool {
    match action {
        StartupAction::Command(command) => command.row.is(&general::RANGE),
        StartupAction::Range { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfdata::{EventUnit, OFF_CPU_TIME, PeriodMeaning};
    use crate::profile::Acc;
    use crate::profile::frames::SymState;
    use crate::query::TopLine;
    use crate::query::answer::{EventInfo, ViewAnswer};
    use crate::query::time_range::TimeRange;
    use crate::session::DsoKind;
    use crate::source::Info;
    use crate::ui::draw::footer_keys;
    use crate::ui::input::commands::table::parse;
    use crate::ui::state::{Level, Start};

    #[test]
    fn the_key_of_wall_time_is_offered_while_sleep_is_kept() {
        let event = |name: &str| EventInfo {
            name: name.to_owned(),
            meaning: PeriodMeaning { unit: EventUnit::Nanoseconds, ..PeriodMeaning::default() },
            total: Acc::default(),
            lost: 0,
            note: None,
            filter: None,
            is_dummy: false,
            texts: Vec::new(),
            meter: None,
        };
        let offered = |names: &[&str]| {
            let mut app = App::new(Info { origin: Origin::Live, ..Info::default() }, Start::default());
            let events = names.iter().map(|name| event(name)).collect();
            app.set_answer(Arc::new(Answer { events, ..Answer::default() }));
            let words = footer_keys::hints(&app.model, &app.views).into_iter().map(|hint| hint.word);
            words.filter(|word| word.ends_with(" time")).collect::<Vec<_>>()
        };
        assert!(offered(&["cpu-clock"]).is_empty());
        assert_eq!(offered(&["cpu-clock", OFF_CPU_TIME]), ["wall time"]);
    }

    #[test]
    fn the_key_of_the_next_unit_needs_another_one() {
        let unit = |id: u64| UnitAnswer {
            id,
            name: "forks",
            panels: Vec::new(),
            notes: Vec::new(),
            lost: 0,
            may_be_more: false,
            since: 0,
            until: 0,
        };
        let offered = |units: Vec<UnitAnswer>| {
            let mut app = App::new(Info::default(), Start::default());
            app.model.frame.tab = Tab::Units;
            app.set_units(Arc::new(units));
            footer_keys::hints(&app.model, &app.views).iter().any(|hint| hint.word == "unit")
        };
        assert!(!offered(vec![unit(1)]) && offered(vec![unit(1), unit(2)]));
    }

    #[test]
    fn a_copy_in_tmux_names_its_option() {
        assert!(copied(true).contains("set -g set-clipboard on") && !copied(false).contains("tmux"));
    }

    #[test]
    fn a_range_without_samples_names_the_times_of_its_clock() {
        let second = 1_000_000_000;
        let mut app = App::new(Info::default(), Start::default());
        app.set_answer(Arc::new(Answer { start: 100 * second, elapsed_ns: 4 * second, ..Answer::default() }));
        app.model.go_to_clock_range(&TimeRange::parse("1,2").expect("a range")[0], "1,2");
        let said = app.model.frame.status.as_ref().map(|(_, text)| text.as_str());
        assert_eq!(said, Some("1,2: no samples of that time, only of 100.000–104.000 s"));
    }

    /// Code without names leads to its remedy, and to the command that names code of Java, which is asked first.
    #[test]
    fn code_without_names_leads_to_its_remedy() {
        let line = TopLine {
            sym: "0x1".into(),
            dso_path: "/tmp/perf-4344.map".into(),
            kind: DsoKind::Anon,
            state: SymState::Unknown,
            own_percent: 50.0,
            ..TopLine::staged(1)
        };
        let view = ViewAnswer { lines: vec![line], ..ViewAnswer::default() };
        let mut app = App::new(Info::default(), Start::default());
        app.model.frame.tab = Tab::Top;
        app.set_answer(Arc::new(Answer { view, ..Answer::default() }));
        app.go_to_banner();
        let is_request = |effect: &Effect| match effect {
            Effect::Engine(Request::Remedy(kind, path)) => (*kind, &**path) == (DsoKind::Anon, "/tmp/perf-4344.map"),
            _ => false,
        };
        assert!(app.model.effects.iter().any(is_request));
        let said = app.model.frame.status.as_ref().map(|(_, text)| text.clone()).unwrap_or_default();
        assert!(said.contains("jcmd 4344 Compiler.perfmap"), "{said}");
        assert_eq!(app.model.process_of_jit(), "4344");
        let runs = |app: &App, pid: i32| {
            app.model
                .effects
                .iter()
                .any(|effect| matches!(effect, Effect::Engine(Request::PerfMap(own)) if *own == pid))
        };
        for wrong in ["", "x", "0", "-7"] {
            app.model.write_perf_map(wrong);
            assert!(app.model.frame.status.as_ref().is_some_and(|(level, _)| *level == Level::Error), "{wrong}");
        }
        app.model.write_perf_map(" 4344 ");
        assert!(runs(&app, 4344) && !runs(&app, 0) && !runs(&app, -7));
    }

    #[test]
    fn only_ranges_wait_for_the_whole_recording() {
        let waits = |text: &str| needs_all(&parse(text).expect("a command").into());
        assert!(waits("range 10%-20%") && !waits("range-back") && !waits("zoom-cpu 1"));
        let typed = "10%-20%".to_owned();
        assert!(needs_all(&StartupAction::Range { range: TimeRange::parse(&typed).expect("a range")[0], typed }));
    }
}
