//! The driver of the screen: starts source, engine and interface; handles files, signals and the profiled command.

mod appearance;
mod driver;
mod welcome;

use std::cell::RefCell;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use crossbeam_channel::unbounded;

use crate::engine::{Engine, IntakeOptions, Options};
use crate::filter::KnownFields;
use crate::ingest::tracepoints;
use crate::kernel::spawn::{ExitOutcome, Output};
use crate::query::ColumnKey;
use crate::query::rows::top_table::TopField;
use crate::query::time_range::TimeRange;
use crate::session::{EndReason, Origin};
use crate::source::Source;
use crate::symbols::NameForm;
use crate::symbols::SymbolOptions;
use crate::ui::input::commands::{general, table};
use crate::ui::screens::cpus;
use crate::ui::state::start::StartupAction;
use crate::ui::terminal::{run as interface, term};
use crate::ui::{App, ProgramCall, Start};
use crate::units::kit::{Settings, Spec};

use crate::cli::args::unit_args::UnitArgs;
use crate::cli::args::{LiveArgs, NameArgs, OpenArgs, RecordingArgs, ViewArgs};
use crate::cli::commands::report::keys_of;
use crate::cli::input::{self, Opened, filter_of};
use crate::cli::output::{complain, need_cursor, need_terminal};
use crate::cli::sampling::source_config::engine_options;
use crate::cli::sampling::{flight_recorder, source_config, unit_source};
use crate::cli::{Usage, config, signals, usage};
use driver::SessionDriver;

pub(crate) fn run(mut args: LiveArgs) -> anyhow::Result<u8> {
    let refresh = args.refresh;
    if refresh < Duration::from_millis(50) {
        return Err(usage(format!("-d {refresh:?}: expected seconds, 0.05 or more")));
    }
    let mut start = start(&args.view, refresh)?;
    start.actions.splice(0..0, first_actions(&args));
    start.invocation.is_forced = args.sampling.force;
    start.invocation.has_filters = !args.sampling.filters.is_empty();
    let clauses = args.first.clauses();
    if !clauses.is_empty() {
        let all = clauses.into_iter().chain(start.filter.take().map(|filter| format!("({filter})")));
        start.filter = Some(all.collect::<Vec<_>>().join(" && "));
        filter_of(start.filter.as_deref(), KnownFields::Any)?;
    }
    let kept = flight_recorder::kept(&args.keeping)?;
    need_terminal("record")?;
    let realtime = source_config::realtime(&args.sampling)?;
    start.invocation.is_realtime = realtime.is_some();
    args.sampling.all_cgroups = true;
    args.sampling.off_cpu_time = !args.no_off_cpu;
    let viewed = source_config::view_containers(&mut args.sampling, &mut start.filter)?;
    args.sampling.counted = kept.counted();
    args.sampling.memory = Some(kept.memory);
    let started = source_config::start(&args.sampling, &args.cmd, Output::Discard)?;
    let fate = started.source.fate();
    let own_pid = (!args.sampling.include_self).then(|| std::process::id() as i32);
    let symbols = SymbolOptions {
        form: if args.view.no_demangle { NameForm::Raw } else { NameForm::Plain },
        ..SymbolOptions::of_user()
    };
    let options = Options {
        no_inline: args.view.no_inline,
        keep: kept.keep,
        watched: kept.watched,
        own_pid,
        refresh,
        per_sample: started.per_sample,
        realtime,
        ..engine_options(symbols, kept.memory)
    };
    let files = Files { baseline: args.view.baseline.clone(), ..Files::default() };
    let code = session(Box::new(started.source), options, &args.view, start, viewed.or(started.warning), files, &fate)?;
    Ok(fate.code(false).max(code))
}

fn first_actions(args: &LiveArgs) -> Vec<StartupAction> {
    let window = args.first.zero.then(|| general::WINDOW.with("last 30").into());
    let softirqs = args.softirq_time.then(|| (&cpus::commands::SOFTIRQ_TIME).into());
    window.into_iter().chain(softirqs).collect()
}

pub(crate) fn open(args: OpenArgs) -> anyhow::Result<u8> {
    open_with(args, None)
}

/// Opens a recording, optionally with a unit.
fn open_with(mut args: OpenArgs, unit: Option<(&'static Spec, Settings)>) -> anyhow::Result<u8> {
    args.recording.store.move_into(&mut args.recording.files);
    if let Some(old) = args.old() {
        args.view.baseline = Some(old);
    }
    let mut start = start(&args.view, Duration::from_millis(100))?;
    start.invocation.is_of_unit = unit.is_some();
    if let Some(cpus) = &args.cpus {
        source_config::cpu_list(cpus)?;
        start.actions.insert(0, general::ZOOM_CPU.with(cpus).into());
    }
    let from_stdin = args.recording.paths().iter().any(|p| p.as_os_str() == "-");
    if !std::io::stdout().is_terminal() || !from_stdin && !std::io::stdin().is_terminal() {
        need_terminal("report")?;
    }
    args.recording.there = std::mem::take(&mut args.there);
    let opened = input::open(&args.recording, args.view.no_demangle)?;
    // Several machines have one snapshot each, made from the samples in memory.
    let info = opened.source.info();
    let recording = (!info.flows && !from_stdin && !info.hosts.are_many()).then(|| args.recording.paths());
    let (baseline, names) = (args.view.baseline.clone(), args.recording.names.clone());
    let files = Files { recording, baseline, names, unit };
    show(opened, &args.view, start, files)
}

/// Runs the screen on a stream, optionally with the tour. `kept` must stay alive meanwhile.
pub(crate) fn flow<T>(opened: Opened, view: &ViewArgs, tour: bool, kept: T) -> anyhow::Result<u8> {
    let start = Start { tour, ..start(view, Duration::from_secs(1))? };
    let files = Files { baseline: view.baseline.clone(), ..Files::default() };
    let code = show(opened, view, start, files);
    drop(kept);
    code
}

const CLOCKS: &str = "their clocks cannot be compared, so the recordings are aligned by their starts (key l)";

fn show(opened: Opened, view: &ViewArgs, mut start: Start, files: Files) -> anyhow::Result<u8> {
    // An endless stream has the retention of a live session.
    let flows = opened.source.info().flows;
    if flows {
        start.refresh = Duration::from_secs(1);
    }
    let memory = if flows { flight_recorder::kept(&config::live_args().keeping)?.memory } else { usize::MAX };
    let options = Options {
        no_inline: view.no_inline,
        wants: IntakeOptions {
            traces: start.columns.contains(&TopField::Key(ColumnKey::Trace)),
            ..IntakeOptions::default()
        },
        refresh: start.refresh,
        ..engine_options(opened.symbols.clone(), memory)
    };
    let apart = opened.source.info().hosts.several().any(|host| host.shift.is_none());
    let absent = || opened.source.info().notes.first().filter(|_| flows).cloned();
    let warning = apart.then(|| CLOCKS.to_owned()).or_else(absent);
    session(opened.source, options, view, start, warning, files, &ExitOutcome::default())
}

pub(crate) fn unit(spec: &'static Spec, mut args: UnitArgs) -> anyhow::Result<u8> {
    let live = config::live_args();
    let mut start = start(&live.view, Duration::from_secs(1))?;
    start.invocation.is_of_unit = true;
    // The unit's target is known only when the source is open.
    let (source, _) = unit_source::start(spec, &mut args, false)?;
    let fate = source.fate();
    let options = Options {
        own_pid: Some(std::process::id() as i32),
        wants: IntakeOptions { units_only: true, ..IntakeOptions::default() },
        ..engine_options(SymbolOptions::of_user(), flight_recorder::kept(&live.keeping)?.memory)
    };
    let files = Files { names: args.names, unit: Some((spec, args.settings)), ..Files::default() };
    let code = session(Box::new(source), options, &live.view, start, None, files, &fate)?;
    Ok(fate.code(false).max(code))
}

pub(crate) fn unit_of_recording(spec: &'static Spec, mut args: UnitArgs) -> anyhow::Result<u8> {
    unit_source::narrow(&mut args)?;
    let open = OpenArgs {
        recording: RecordingArgs::from_files(args.files, args.names),
        cpus: None,
        together: false,
        view: config::live_args().view,
        there: Vec::new(),
    };
    open_with(open, Some((spec, args.settings)))
}

fn start(view: &ViewArgs, refresh: Duration) -> anyhow::Result<Start> {
    need_cursor()?;
    filter_of(view.filter.as_deref(), KnownFields::Any)?;
    let mut actions = Vec::new();
    if let Some(time) = &view.time {
        let list = TimeRange::parse(time).map_err(|wrong| Usage(format!("--time {time}: {wrong}")))?;
        let [range] = list[..] else { return Err(usage(format!("--time {time}: only one range is supported"))) };
        actions.push(StartupAction::Range { range, typed: time.clone() });
    }
    for command in &view.exec {
        let parsed = table::parse(command).map_err(|error| Usage(format!("--exec {command}: {error}")))?;
        actions.push(parsed.into());
    }
    let columns = match (&view.sort, &config::get().columns) {
        (Some(sort), _) => {
            let keys = keys_of(sort)?.into_iter().map(TopField::Key);
            [TopField::SelfTime, TopField::Children].into_iter().chain(keys).collect()
        }
        (None, Some(columns)) => columns.clone(),
        (None, None) => TopField::FIRST.to_vec(),
    };
    Ok(Start {
        columns,
        sorted: view.sort.is_some() || config::get().columns.is_some(),
        children: !view.no_children,
        filter: view.filter.clone(),
        limit: view.percent_limit,
        refresh,
        points: source_config::points(view.threshold)?,
        invocation: ProgramCall { words: invocation(), baseline: view.baseline.clone(), ..ProgramCall::default() },
        actions,
        form: if view.no_demangle { NameForm::Raw } else { NameForm::Plain },
        inlined: !view.no_inline,
        saved: crate::cli::config::saved_filters::read(),
        keymap: config::get().keymap.clone(),
        slow: view.slow,
        ..Start::default()
    })
}

/// Returns the command line without the options of the view.
fn invocation() -> Vec<String> {
    let mut words = Vec::new();
    let mut args = std::env::args();
    while let Some(word) = args.next() {
        match word.split('=').next() {
            Some("--where" | "--exec" | "--time") => {
                if !word.contains('=') {
                    args.next();
                }
            }
            _ => words.push(word),
        }
    }
    words
}

#[derive(Default)]
struct Files {
    /// Files of the recording itself.
    recording: Option<Vec<PathBuf>>,
    baseline: Option<PathBuf>,
    names: NameArgs,
    /// The unit that is shown at the start.
    unit: Option<(&'static Spec, Settings)>,
}

fn session(
    source: Box<dyn Source>,
    options: Options,
    view: &ViewArgs,
    mut start: Start,
    warning: Option<String>,
    files: Files,
    fate: &ExitOutcome,
) -> anyhow::Result<u8> {
    let (themes, theme) = appearance::choose(view)?;
    start.charset = themes.charset;
    if source.info().origin == Origin::Live || !source.info().events.is_empty() {
        filter_of(view.filter.as_deref(), KnownFields::These(&tracepoints::first_fields(source.info())))?;
    }
    let (outside_tx, outside) = unbounded();
    let watch = signals::ScreenWatch::start(outside_tx.clone())?;
    if source.info().hosts.are_many() && view.sort.is_none() {
        let at = start.columns.iter().position(|field| matches!(field, TopField::Key(_))).unwrap_or(0);
        start.columns.insert(at, TopField::Key(ColumnKey::Host));
    }
    let engine = Engine::spawn(source, options)?;
    let mut app = App::new(engine.info().clone(), start);
    app.model.context.fine = themes.are_fine();
    app.model.context.themes = themes.names().map(str::to_owned).collect();
    app.model.frame.theme = theme;
    if config::get().mouse == Some(false) {
        app.model.leave_mouse();
    }
    let note = || engine.info().states.iter().find_map(|s| s.note.clone());
    let hint = || welcome::hint().filter(|_| app.model.frame.tour.is_none()).map(str::to_owned);
    if let Some(text) = warning.or_else(note).or_else(hint) {
        app.model.say(text);
    }
    term::restore_on_panic();
    term::enter()?;
    let driver = SessionDriver {
        outside: outside_tx,
        name: view.output.clone(),
        recording: files.recording,
        names: files.names,
        no_demangle: view.no_demangle,
        saves: RefCell::default(),
    };
    if let Some(path) = files.baseline {
        app.model.read_baseline(path);
    }
    if let Some((spec, settings)) = files.unit {
        app.views.units.start(&mut app.model, spec, settings);
    }
    let result =
        interface::run(&mut app, &themes, &engine, &outside, &mut |engine, request| driver.serve(engine, request));
    term::leave();
    watch.left();
    let saved = driver.finish(&outside);
    let ended = engine.answer().ended.clone();
    signals::farewell(fate, || engine.stop());
    drop(watch);
    if let Some(end @ EndReason::Command(_)) = ended {
        complain(&end.to_string());
    }
    result?;
    Ok(u8::from(!saved))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::Args;

    #[test]
    fn options_of_the_first_view() {
        let of = |line: &str| first_actions(&Args::try_parse_from(line.split(' ')).expect(line).live);
        // Without an argument, the command would switch to the next window.
        let (window, softirqs) = (table::parse("window last 30"), table::parse("softirq-time"));
        let actions = [window, softirqs].map(|command| StartupAction::from(command.expect("a command")));
        assert_eq!(of("perfprof-tui -z --softirq-time"), actions);
        assert_eq!(of("perfprof-tui -a"), []);
    }
}
