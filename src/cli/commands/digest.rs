//! `digest`: prints one page about a recording, or about the running machine after some seconds.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use crate::engine::IntakeOptions;
use crate::engine::offline::{self, Offline};
use crate::filter::equals;
use crate::kernel::spawn::Output;
use crate::kernel::{EndRequests, monotonic_ns, own_cpu_ns};
use crate::machine::host::HostThread;
use crate::machine::sampler::HostView;
use crate::machine::triage;
use crate::report::digest::{Again, Digest, DigestSpec};
use crate::session::hosts::PerHost;
use crate::source::live::LiveSource;
use crate::source::{Batch, Control, Info, Progress, Source, SourceError};
use crate::symbols::SymbolOptions;
use crate::symbols::shipped::ShippedTables;

use crate::cli::args::digest::DigestArgs;
use crate::cli::args::{NameArgs, OutputFormat, RecordingArgs, SelectionArgs};
use crate::cli::input::selection::{chosen_events, main_event, note_main_event};
use crate::cli::output::{complain, print, print_json};
use crate::cli::sampling::source_config;
use crate::cli::{config, input, signals, usage};

/// The pause between two readings of /proc.
const HOST_INTERVAL: Duration = Duration::from_secs(1);
/// The minimum difference of a CPU to the others for a finding, in points.
const POINTS: f64 = 10.0;
/// The lines of a page next to a recording.
const LINES: usize = 60;

pub(crate) fn run(mut args: DigestArgs) -> anyhow::Result<u8> {
    if args.format == OutputFormat::Csv {
        return Err(usage("digest: use --format text or json"));
    }
    let mut files = std::mem::take(&mut args.files);
    files.extend(args.input.take());
    if files.is_empty() { of_machine(&args) } else { of_files(&args, files) }
}

fn of_files(args: &DigestArgs, files: Vec<std::path::PathBuf>) -> anyhow::Result<u8> {
    let container = args.container.as_ref().map(|name| equals("container", name));
    let clauses: Vec<String> = args.filter.iter().map(|text| format!("({text})")).chain(container).collect();
    let which = SelectionArgs {
        filter: (!clauses.is_empty()).then(|| clauses.join(" && ")),
        pid: args.pid.clone(),
        tid: args.tid.clone(),
        cpu: args.cpu.clone(),
        time: args.time.clone(),
        event: args.event.clone(),
        ..SelectionArgs::default()
    };
    which.check()?;
    let words: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let file = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "));
    let opened = input::open(&RecordingArgs::from_files(files, args.names.clone()), false)?;
    let info = opened.source.info().clone();
    let (symbols, mut source) = (opened.symbols.clone(), opened.into_source());
    let loaded = offline::load(&mut *source, symbols, IntakeOptions::default())?;
    let again = Again { file: Some(file), options: options(args) };
    show(args, &loaded, &which, &info, None, again)?;
    Ok(loaded.exit_code())
}

fn of_machine(args: &DigestArgs) -> anyhow::Result<u8> {
    if args.time.is_some() || args.event.is_some() {
        return Err(usage("--time and --event: need a recording; name its file"));
    }
    let mut sampling = config::live_args().sampling;
    (sampling.pids, sampling.tids, sampling.cpus) = (args.pid.clone(), args.tid.clone(), args.cpu.clone());
    sampling.container.clone_from(&args.container);
    let mut filter = args.filter.clone();
    let which = |filter| SelectionArgs { filter, ..SelectionArgs::default() };
    which(filter.clone()).check()?;
    let viewed = source_config::view_containers(&mut sampling, &mut filter)?;
    let ends = signals::end_requests(true)?;
    let started = source_config::start(&sampling, &[], Output::Inherit)?;
    viewed.iter().chain(&started.warning).for_each(|text| complain(text));
    let info = started.source.info().clone();
    let host = HostThread::spawn(HOST_INTERVAL, info.whom.process_ids(), || true)?;
    let watch = MachineWatch { view: host.shared(), begun: (monotonic_ns(), own_cpu_ns()) };
    let until = Instant::now() + args.duration;
    ends.begin_measuring();
    let mut source = TimedSource { source: started.source, until, ends: ends.clone(), watch, at_end: None };
    let own_pid = std::process::id() as i32;
    let symbols = SymbolOptions { ends: ends.clone(), ..SymbolOptions::of_user() };
    let loaded = offline::load_live(&mut source, symbols, own_pid)?;
    // A short time has no interval of figures yet.
    let at_end = source.at_end.take().filter(|machine| machine.view.history.end().is_some());
    let machine = at_end.unwrap_or_else(|| source.watch.now());
    host.stop();
    if let Some(code) = ends.given_up() {
        // With code 0, the reader of the output has gone.
        if code != 0 {
            complain("ended before the page was complete");
        }
        return Ok(code);
    }
    let again = Again { file: None, options: options(args) };
    show(args, &loaded, &which(filter), &info, Some(&machine), again)?;
    Ok(0)
}

fn show(
    args: &DigestArgs,
    loaded: &Offline,
    which: &SelectionArgs,
    info: &Info,
    machine: Option<&MachineAtEnd>,
    again: Again,
) -> anyhow::Result<()> {
    let events = chosen_events(loaded, which)?;
    let Some(event) = main_event(loaded, &events) else {
        anyhow::bail!("the recording has no events with samples; perfprof-tui report --stats counts its records");
    };
    note_main_event("the event of the page", loaded, event, &events);
    let host = machine.map(|machine| &*machine.view);
    let own = machine.map_or(0.0, |machine| machine.own);
    let digest = digest_of(loaded, event, which, (info, host, own, None), again)?;
    match args.format {
        OutputFormat::Json => print_json(&digest.json()),
        _ => print(&digest.text(args.lines)),
    }
}

/// Returns one page about a saved recording, with the figures of /proc of a range or of the present.
pub(crate) fn page(
    path: &Path,
    names: &NameArgs,
    host: Option<&HostView>,
    range: Option<(u64, u64)>,
) -> anyhow::Result<String> {
    let (mut opened, _) =
        input::open_silently(&RecordingArgs::from_files(vec![path.to_owned()], names.clone()), false)?;
    let info = opened.source.info().clone();
    let loaded = offline::load(&mut *opened.source, opened.symbols, IntakeOptions::default())?;
    let which = SelectionArgs::default();
    let event = main_event(&loaded, &chosen_events(&loaded, &which)?);
    let event = event.ok_or_else(|| anyhow::anyhow!("the recording has no events with samples"))?;
    let file = path.display().to_string();
    let file = shlex::try_quote(&file).map_or_else(|_| file.clone(), |quoted| quoted.into_owned());
    let again = Again { file: Some(file), options: String::new() };
    let range = range.or_else(|| host.map(|host| triage::present(&host.history)));
    Ok(digest_of(&loaded, event, &which, (&info, host, 0.0, range), again)?.text(LINES))
}

fn digest_of(
    loaded: &Offline,
    event: usize,
    which: &SelectionArgs,
    (info, host, own, range): (&Info, Option<&HostView>, f64, Option<(u64, u64)>),
    again: Again,
) -> anyhow::Result<Digest> {
    let is_narrowed = *which != SelectionArgs::default() || host.is_some() && !info.has_whole_cpus();
    let is_whole = *which == SelectionArgs::default() && info.has_whole_cpus();
    // Idle CPUs are omitted, as on the live screen.
    let clauses = which.filter.iter().map(|text| format!("({text})")).chain(["!idle".to_owned()]);
    let filter = Some(clauses.collect::<Vec<_>>().join(" && "));
    let filter = SelectionArgs { filter, ..which.clone() }.filter(loaded)?;
    let spec = DigestSpec { event, filter, is_whole, is_narrowed, info, host, own, range, points: POINTS, again };
    Ok(Digest::of(loaded, spec))
}

/// Returns the options of the selection, as the user would type them.
fn options(args: &DigestArgs) -> String {
    let named = [
        ("--pid", &args.pid),
        ("--tid", &args.tid),
        ("--cpu", &args.cpu),
        ("--container", &args.container),
        ("--where", &args.filter),
        ("--time", &args.time),
        ("--event", &args.event),
    ];
    let one = |(name, value): (&str, &Option<String>)| {
        let value = value.as_deref()?;
        let value = shlex::try_quote(value).map_or_else(|_| value.to_owned(), |quoted| quoted.into_owned());
        Some(format!(" {name}={value}"))
    };
    named.into_iter().filter_map(one).collect()
}

/// The machine at the end of sampling. Later figures are those of naming the samples, which takes a CPU for a while.
struct MachineAtEnd {
    view: Arc<HostView>,
    /// The CPU time of this program, whose samples are left out, in percent of one CPU.
    own: f64,
}

/// The figures of /proc during sampling.
struct MachineWatch {
    view: Arc<ArcSwap<HostView>>,
    /// The start, and the CPU time of this program until then, in nanoseconds.
    begun: (u64, u64),
}

impl MachineWatch {
    fn now(&self) -> MachineAtEnd {
        let passed = monotonic_ns().saturating_sub(self.begun.0).max(1);
        let own = 100.0 * own_cpu_ns().saturating_sub(self.begun.1) as f64 / passed as f64;
        MachineAtEnd { view: self.view.load_full(), own }
    }
}

/// The running machine until a moment, or until a signal.
struct TimedSource {
    source: LiveSource,
    until: Instant,
    ends: EndRequests,
    watch: MachineWatch,
    /// Present after the end.
    at_end: Option<MachineAtEnd>,
}

impl Source for TimedSource {
    fn info(&self) -> &Info {
        self.source.info()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
        let is_over = || Instant::now() >= self.until || self.ends.is_stopped();
        if self.at_end.is_none() && is_over() {
            self.at_end = Some(self.watch.now());
            let _ = self.source.control(&Control::Stop);
            // From now on, a signal ends the program.
            self.ends.end_measuring();
        }
        self.source.next(batch)
    }

    fn given(&self) -> PerHost<Arc<ShippedTables>> {
        self.source.given()
    }

    fn stop(&mut self) {
        self.source.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Naming the samples takes time, in which the machine may do something else.
    #[test]
    fn the_figures_are_those_of_the_end_of_sampling() {
        let view = Arc::new(ArcSwap::from_pointee(HostView { at: 7, ..HostView::default() }));
        let watch = MachineWatch { view: view.clone(), begun: (0, 0) };
        let at_end = watch.now();
        view.store(Arc::new(HostView { at: 9, ..HostView::default() }));
        assert_eq!((at_end.view.at, watch.now().view.at), (7, 9));
        assert!(at_end.own > 0.0, "the time of this program");
    }
}
