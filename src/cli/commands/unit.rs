//! Commands of analysis units: on the running machine or a recording, as text, JSON, CSV or a screen.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use crate::engine::headless::{self, IntervalFigures};
use crate::event::spec::LookupPaths;
use crate::event::{parse, tracepoint};
use crate::ingest::unit_events::shown;
use crate::kernel::spawn::ExitOutcome;
use crate::panel::{Body, Panel};
use crate::report::unit_figures::{json, stamp, text};
use crate::source::Source;
use crate::symbols::SymbolOptions;
use crate::units::kit::Spec;
use crate::units::kit::options::scope;
use crate::units::kit::options::settings::decided_live;

use crate::cli::args::unit_args::UnitArgs;
use crate::cli::args::{OutputFormat, RecordingArgs};
use crate::cli::commands::live;
use crate::cli::commands::probe::usdt;
use crate::cli::output::{TableOutput, complain, has_terminal, print, timed_csv};
use crate::cli::sampling::unit_source::{interval, made, narrow, start};
use crate::cli::{input, signals, usage};

pub(crate) fn run(spec: &'static Spec, args: UnitArgs) -> anyhow::Result<u8> {
    if spec.name == "usdt"
        && args.files.first().is_some_and(|word| usdt::VERBS.iter().any(|verb| word == Path::new(verb)))
    {
        return usdt::run(&args.files, args.format);
    }
    if args.describe {
        return describe(spec, &args);
    }
    if let Some(word) = &args.taken_for_ms {
        complain(&format!("-i {word}: read as milliseconds; use -i {word}s for seconds"));
    }
    if let Some(name) = decided_live(spec, &args.settings).filter(|_| !args.files.is_empty()) {
        return Err(usage(format!("--{name}: needs the running machine; recordings do not contain this data")));
    }
    let day = Duration::from_secs(86_400);
    if args.interval.is_some_and(|interval| !(Duration::from_millis(10)..=day).contains(&interval)) {
        return Err(usage("-i: expected seconds, 0.01 or more"));
    }
    if args.duration.is_some_and(|duration| duration.is_zero() || duration > Duration::from_secs(1_000_000_000)) {
        return Err(usage("--duration: expected seconds"));
    }
    let to_files = args.folded.is_some() || args.points.is_some() || args.output.is_some();
    let headless = args.batch || to_files || args.format != OutputFormat::Text || args.settings.has("exit-N");
    if headless || !has_terminal() {
        return batch(spec, args);
    }
    // Errors in the options are reported before the screen starts.
    made(spec, &args)?;
    if args.files.is_empty() { live::unit(spec, args) } else { live::unit_of_recording(spec, args) }
}

fn batch(spec: &'static Spec, mut args: UnitArgs) -> anyhow::Result<u8> {
    let ends = signals::end_requests(args.output.is_none())?;
    let mut outputs = Outputs::open(&args)?;
    let live = args.files.is_empty();
    let mut fate = ExitOutcome::default();
    let (mut source, mut symbols, unit): (Box<dyn Source>, SymbolOptions, _) = if live {
        let (source, unit) = start(spec, &mut args, true)?;
        fate = source.fate();
        (Box::new(source), SymbolOptions::of_user(), unit)
    } else {
        narrow(&mut args)?;
        let unit = made(spec, &args)?;
        let recording = RecordingArgs::from_files(std::mem::take(&mut args.files), args.names.clone());
        let opened = input::open(&recording, false)?;
        let symbols = opened.symbols.clone();
        (opened.into_source(), symbols, unit)
    };
    symbols.ends = ends.clone();
    scope::idle(spec, &args.settings, &unit.event_requests()).iter().for_each(|note| complain(note));
    let run = headless::UnitRun {
        interval: interval(&unit, &args),
        unit,
        symbols,
        duration: args.duration,
        points: args.points.is_some(),
        own_pid: live.then(|| std::process::id() as i32),
    };
    let count = args.count.unwrap_or(u64::MAX);
    let mut printed = 0;
    let mut each = |cut: IntervalFigures| -> anyhow::Result<ControlFlow<()>> {
        outputs.write(&args, &cut, printed == 0)?;
        printed += 1;
        Ok(if printed >= count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    let notes = match headless::run(&mut *source, run, &mut each) {
        Ok(notes) => notes,
        // The reader of the output has gone.
        Err(headless::RunError::GivenUp(0)) => return Ok(0),
        Err(error @ headless::RunError::GivenUp(code)) => {
            complain(&error.to_string());
            return Ok(code);
        }
        Err(headless::RunError::Each(error)) => return Err(error),
        Err(error) => anyhow::bail!("{error}"),
    };
    drop(source);
    notes.iter().for_each(|note| complain(note));
    outputs.end(spec)?;
    Ok(fate.code(ends.is_stopped()))
}

fn describe(spec: &'static Spec, args: &UnitArgs) -> anyhow::Result<u8> {
    print(&crate::cli::args::unit_args::of(spec).render_help().to_string())?;
    let requests = match made(spec, args) {
        Ok(unit) => unit.event_requests(),
        Err(why) => {
            complain(&why.0);
            return Ok(0);
        }
    };
    let places = LookupPaths::system();
    for want in requests {
        let name = shown(&want.event);
        let events = parse(name, &places).unwrap_or_default();
        if events.is_empty() {
            print(&format!(
                "\n{name}: not available on this machine{}\n",
                if want.optional { ", optional" } else { "" }
            ))?;
        }
        for event in events {
            let format = event
                .tracepoint
                .as_ref()
                .and_then(|(system, name)| tracepoint::format(places.tracefs.as_ref().ok()?, system, name).ok());
            let fields = "samples of running code: pid tid cpu comm time period addr ip\n".to_owned();
            print(&format!("\n{}\n{}", event.name, format.unwrap_or(fields)))?;
        }
    }
    Ok(0)
}

/// Returns the name with the usual extension.
fn with_ending(name: &str, ending: &str) -> String {
    if name == "-" || name.ends_with(ending) { name.to_owned() } else { format!("{name}{ending}") }
}

struct Outputs {
    folded: Option<TableOutput>,
    /// Base name of the files of points, and the open ones.
    points: Option<String>,
    points_of: BTreeMap<String, TableOutput>,
    figures: TableOutput,
    /// True if standard output is used for something else.
    quiet: bool,
}

impl Outputs {
    fn open(args: &UnitArgs) -> anyhow::Result<Self> {
        let to_stdout = |name: &Option<String>| name.as_deref() == Some("-");
        Ok(Self {
            folded: args
                .folded
                .as_deref()
                .map(|name| TableOutput::new_file(&with_ending(name, ".folded")))
                .transpose()?,
            points: args.points.clone(),
            points_of: BTreeMap::new(),
            figures: args.output.as_deref().map_or(Ok(TableOutput::Out), |path| TableOutput::create(path, false))?,
            quiet: args.output.is_none() && (to_stdout(&args.folded) || to_stdout(&args.points)),
        })
    }

    fn write(&mut self, args: &UnitArgs, cut: &IntervalFigures, first: bool) -> anyhow::Result<()> {
        if let Some(name) = &self.points {
            for (between, points) in &cut.points.0 {
                let file = match self.points_of.entry(between.clone()) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => new.insert(TableOutput::new_file(&points_name(name, between))?),
                };
                for (time, ns) in points {
                    file.write(&format!("{time} {ns}\n"))?;
                }
            }
        }
        if let Some(folded) = &mut self.folded {
            let prefix = if args.interval.is_some() { format!("{};", stamp(cut.wall.0, ';')) } else { String::new() };
            let flame = cut.answer.panels.iter().find_map(|panel| match &panel.body {
                Body::Flame(stacks) => Some(stacks),
                _ => None,
            });
            match flame {
                Some(stacks) => folded.write(&stacks.folded(&prefix))?,
                None => return Err(usage(format!("{}: --flame-graph: this unit has no stacks", cut.answer.name))),
            }
        }
        if self.quiet {
            return Ok(());
        }
        let panels: Vec<&Panel> = cut.answer.panels.iter().filter(|panel| is_wanted(args, panel)).collect();
        if panels.is_empty() && !args.panels.is_empty() {
            let titles: Vec<&str> = cut.answer.panels.iter().map(|panel| panel.title.as_str()).collect();
            return Err(usage(format!("--panel: no such panel; available: {}", titles.join(", "))));
        }
        match args.format {
            OutputFormat::Text => self.figures.write(&text(&cut.answer, cut.wall.1, cut.clock.1, &panels)),
            OutputFormat::Json => self.figures.write_json_line(&json(&cut.answer, cut.wall.1, cut.clock, &panels)),
            OutputFormat::Csv => self.figures.write(&csv(cut, &panels, first)),
        }
    }

    fn end(&mut self, spec: &Spec) -> anyhow::Result<()> {
        if self.points.is_some() && self.points_of.is_empty() {
            complain(&format!("{}: --heatmap: nothing written: no time between two events was measured", spec.name));
        }
        for file in self.folded.iter_mut().chain(self.points_of.values_mut()) {
            file.end()?;
        }
        Ok(())
    }
}

fn points_name(name: &str, between: &str) -> String {
    let word: String = between.chars().map(|c| if c == '/' || c.is_control() { '_' } else { c }).collect();
    let stem = name.strip_suffix(".lat").unwrap_or(name);
    if name == "-" { name.to_owned() } else { format!("{stem}-{word}.lat") }
}

/// Flame graphs go to files, unless requested.
fn is_wanted(args: &UnitArgs, panel: &Panel) -> bool {
    if args.panels.is_empty() {
        return args.format == OutputFormat::Json || !matches!(panel.body, Body::Flame(_)) && !panel.is_empty();
    }
    let title = panel.title.to_lowercase();
    args.panels.iter().any(|wanted| title.starts_with(&wanted.to_lowercase()))
}

/// The first table, with the time before each row.
fn csv(cut: &IntervalFigures, panels: &[&Panel], first: bool) -> String {
    let Some(rows) = panels.iter().find_map(|panel| panel.rows()) else { return String::new() };
    let seconds = if cut.wall.1 > 0 { cut.wall.1 } else { cut.clock.1 } as f64 / 1e9;
    timed_csv(&rows.unfolded_table(), &format!("{seconds:.6}"), first)
}
