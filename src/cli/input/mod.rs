//! Recordings for `open`, `report`, `script` and `export`: opens them, finds their names, selects their samples.

mod archive;
mod fetch;
mod remote;
pub(crate) mod selection;
pub(crate) mod store;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;

use crate::engine::IntakeOptions;
use crate::engine::offline::{self, Offline};
use crate::filter::{Filter, KnownFields};
use crate::kernel;
use crate::kernel::attr::{Flag, sample};
use crate::kernel::privilege;
use crate::lang::nearest_hint;
use crate::perfdata::EventDesc;
use crate::perfdata::features::bit;
use crate::profile::SymId;
use crate::query::column::PARALLELISM;
use crate::query::time_range::{RangeClock, RangeError, TimeRange};
use crate::record::in_place::u64_at;
use crate::session::hosts::PerHost;
use crate::source::hosts::SourceHost;
use crate::source::{Batch, Info, Progress, Source, SourceError, SourceEvent, recording};
use crate::symbols::shipped::ShippedTables;
use crate::symbols::trust::same_file::{self, RecordedTimes};
use crate::symbols::{NameForm, SymbolOptions, door};

use crate::cli::args::listed::usual_input;
use crate::cli::args::{NameArgs, RecordingArgs, SelectionArgs, clause_of_name, clauses_of_lists};
use crate::cli::commands::list::containers;
use crate::cli::output::complain;
use crate::cli::{Usage, usage};
use remote::Remote;

pub(crate) struct Opened {
    pub(crate) source: Box<dyn Source>,
    pub(crate) symbols: SymbolOptions,
    /// Name as the user typed it.
    pub(crate) name: String,
    /// Unpacked files that must exist until the end.
    _unpacked: Option<tempfile::TempDir>,
}

impl RecordingArgs {
    /// Returns the named files; without any, standard input if it is a pipe, else perf.data.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let mut named: Vec<PathBuf> = self.input.iter().chain(&self.files).cloned().collect();
        self.store.clone().move_into(&mut named);
        if named.is_empty() { vec![usual_input()] } else { named }
    }

    /// Returns when the first file was written, in seconds since 1970. A stream does not have this time.
    pub(crate) fn written(&self) -> Option<i64> {
        let file = self.paths().first().and_then(|path| std::fs::metadata(path).ok())?;
        Some(file.mtime()).filter(|_| file.is_file() || file.is_dir())
    }
}

/// Time to wait for the last messages of a failed recorder.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(100);

/// A source with its notes, and the objects that must live as long.
struct ObservedSource<F> {
    source: Box<dyn Source>,
    tell: F,
}

impl<F: FnMut(&mut Batch) + Send> Source for ObservedSource<F> {
    fn info(&self) -> &Info {
        self.source.info()
    }

    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
        let step = self.source.next(batch);
        (self.tell)(batch);
        step
    }

    fn given(&self) -> PerHost<Arc<ShippedTables>> {
        self.source.given()
    }

    fn name_addresses(&mut self, options: &SymbolOptions) {
        self.source.name_addresses(options);
    }

    fn stop(&mut self) {
        self.source.stop();
    }
}

pub(crate) fn open(args: &RecordingArgs, no_demangle: bool) -> anyhow::Result<Opened> {
    let (opened, complaint) = open_silently(args, no_demangle)?;
    missing_root(&args.names).into_iter().chain(complaint).for_each(|text| complain(&text));
    Ok(opened)
}

/// Opens a recording for the screen: returns the notes instead of printing them.
pub(crate) fn open_silently(args: &RecordingArgs, no_demangle: bool) -> anyhow::Result<(Opened, Option<String>)> {
    check_names(&args.names)?;
    let mut paths = args.paths();
    if let Some(why) = args.store.misplaced(&paths) {
        return Err(usage(why));
    }
    let stored = store::open(&paths)?;
    let fetched = fetch::fetch(&mut paths)?;
    let remotes = remote::start(&mut paths, &args.there)?;
    let names_are_needed = remotes.len() < paths.len();
    let source: Box<dyn Source> = match (stored, remotes.as_slice()) {
        (Some(stored), _) => Box::new(stored),
        (None, []) if fetched.is_empty() => recording::open(&paths)?,
        (None, []) => {
            let name = fetched.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(" ");
            let mut hosts = vec![None; paths.len()];
            fetched.iter().for_each(|one| hosts[one.at] = Some(one.host.clone()));
            recording::open_as(&paths, Some(name), &hosts)?
        }
        (None, _) => {
            let name = remotes.iter().map(|remote| remote.name.as_str()).collect::<Vec<_>>().join(" ");
            let mut hosts = vec![None; paths.len()];
            remotes.iter().for_each(|remote| hosts[remote.at] = Some(remote.host.clone()));
            let source = recording::open_as(&paths, Some(name.clone()), &hosts);
            let source = source.with_context(|| {
                // Its last messages arrive when it ends.
                std::thread::sleep(LAST_WORDS);
                let said: Vec<String> = remotes.iter().flat_map(Remote::complaints).collect();
                format!("{name} sent no recording: {}", said.join("; ")).trim_end_matches(": ").to_owned()
            })?;
            let tell =
                move |batch: &mut Batch| remotes.iter().flat_map(Remote::complaints).for_each(|note| batch.note(note));
            Box::new(ObservedSource { source, tell })
        }
    };
    let mut source: Box<dyn Source> = match &args.names.containers {
        Some(path) => {
            let mut told = Some(containers::read(path)?);
            let tell = move |batch: &mut Batch| {
                batch.events.extend(told.take().map(SourceEvent::Containers));
            };
            Box::new(ObservedSource { source, tell })
        }
        None => source,
    };
    let unpacked = args.names.archive.as_deref().map(archive::unpack).transpose()?;
    // With --symfs, perf's cache in the home directory is not used.
    let home = privilege::variable("HOME")
        .map(|home| PathBuf::from(home).join(".debug"))
        .filter(|_| args.names.symfs.is_none());
    let caches =
        unpacked.iter().map(|dir| dir.path().to_owned()).chain(args.names.buildid_dir.clone().or(home)).collect();
    let (mut symbols, complaint) = symbols(args, no_demangle, source.info(), caches);
    // A remote recording includes its names.
    let complaint = complaint.filter(|_| names_are_needed);
    symbols.given = source.given();
    symbols.times = recorded_times(source.info(), &paths);
    source.name_addresses(&symbols);
    let fetched_name = fetched.iter().find(|one| one.at == 0).map(|one| one.name.clone());
    let name = fetched_name.or_else(|| paths.first().map(|path| path.display().to_string())).unwrap_or_default();
    Ok((Opened { source, symbols, name, _unpacked: unpacked }, complaint))
}

impl Opened {
    /// Returns a recording for a stream that includes its names.
    pub(crate) fn of_stream(source: Box<dyn Source>) -> Self {
        let symbols = SymbolOptions {
            live: false,
            same_kernel: false,
            kallsyms: None,
            given: source.given(),
            authors: source.info().authors.clone(),
            ..SymbolOptions::live()
        };
        Self { source, symbols, name: String::new(), _unpacked: None }
    }

    pub(crate) fn watched(self, look: impl FnMut(&mut Batch) + Send + 'static) -> Self {
        Self { source: Box::new(ObservedSource { source: self.source, tell: look }), ..self }
    }

    /// Returns the source; unpacked files exist until it is dropped.
    pub(crate) fn into_source(self) -> Box<dyn Source> {
        match self._unpacked {
            None => self.source,
            Some(unpacked) => {
                Box::new(ObservedSource { source: self.source, tell: move |_: &mut Batch| _ = &unpacked })
            }
        }
    }

    pub(crate) fn load(mut self, wants: IntakeOptions) -> anyhow::Result<Offline> {
        let loaded = offline::load(&mut *self.source, self.symbols, wants)?;
        loaded.notes.iter().for_each(|note| complain(note));
        Ok(loaded)
    }
}

fn recorded_times(info: &Info, paths: &[PathBuf]) -> RecordedTimes {
    let clock = info.hosts.first().clock();
    let files = paths.iter().map(|path| door::own(path).ok().and_then(|file| same_file::written(&file)));
    let until = files.collect::<Option<Vec<u64>>>().and_then(|times| times.into_iter().max());
    let lead = clock.map(|(wall, at)| wall.wrapping_sub(at) as i64);
    let least_lead = until.filter(|_| paths.len() == 1).and_then(|written| least_lead(info, written));
    let is_monotonic =
        |event: &EventDesc| event.attr.has(Flag::UseClockid) && event.attr.clockid == libc::CLOCK_MONOTONIC;
    let monotonic = !info.events.is_empty() && info.events.iter().all(is_monotonic);
    RecordedTimes { lead, least_lead, begun: clock.map(|(wall, _)| wall), until, monotonic }
}

/// Returns a lower bound of the offset from the clock of this machine's recording to the wall clock. perf's recordings
/// have no clock data by default. Since a reboot, clocks start again, and a copied file is newer than its samples: so
/// the clock since boot and the time at which the file was written must agree about the last sample.
fn least_lead(info: &Info, written: u64) -> Option<i64> {
    let (head, host) = (info.head.as_ref()?, info.hosts.first());
    if head.big || info.hosts.are_many() || !host.has_own_kernel() {
        return None;
    }
    let last = u64_at(head.features.get(bit::SAMPLE_TIME)?, 8).filter(|last| *last > 0)?;
    least_of(kernel::wall_ns().checked_sub(kernel::monotonic_ns())?, written.checked_sub(last)?)
}

/// Returns a lower bound of two estimates of an offset; `None` if they disagree.
fn least_of(by_clock: u64, by_file: u64) -> Option<i64> {
    /// perf writes the file after the last sample, and the clocks drift.
    const MINUTE: u64 = 60_000_000_000;
    let agree = by_clock.abs_diff(by_file) <= MINUTE;
    agree.then(|| by_clock.min(by_file).saturating_sub(MINUTE)).and_then(|least| i64::try_from(least).ok())
}

/// Checks that the files of kernel names exist, as perf does.
fn check_names(names: &NameArgs) -> anyhow::Result<()> {
    let files = [("--kallsyms", &names.kallsyms), ("--vmlinux", &names.vmlinux)];
    for (option, path) in files.into_iter().filter_map(|(option, path)| Some((option, path.as_ref()?))) {
        let opened = door::own(path).map(drop);
        opened.with_context(|| format!("{option} {}: kernel symbols cannot be read", path.display()))?;
    }
    Ok(())
}

/// Returns a warning about a root directory that does not exist. perf ignores it as well.
fn missing_root(names: &NameArgs) -> Option<String> {
    let root = names.symfs.as_ref().map(|symfs| &symfs.dir).filter(|root| !root.is_dir())?;
    let root = root.display();
    Some(format!(
        "--symfs {root}: not a directory, so files have no symbols; name the root of the recorded machine's files"
    ))
}

/// Returns the sources of a recording's names. The running kernel's names are used only if it is the recorded kernel.
fn symbols(
    args: &RecordingArgs,
    no_demangle: bool,
    info: &Info,
    caches: Vec<PathBuf>,
) -> (SymbolOptions, Option<String>) {
    let strangers = || info.hosts.iter().filter(|(_, host)| !host.has_own_kernel());
    let has_own = strangers().count() < info.hosts.iter().len();
    let is_text = info.inputs.is_empty();
    let named = args.names.kallsyms.is_some() || args.names.vmlinux.is_some();
    let mut complaint = None;
    if strangers().next().is_some() && !named && !is_text {
        let name = |host: &SourceHost| match (&*host.name, host.kernel.as_str()) {
            ("", "") => "an unknown machine".to_owned(),
            ("", kernel) => format!("an unknown machine, {kernel}"),
            (name, kernel) => format!("{name} {kernel}").trim_end().to_owned(),
        };
        let all: Vec<String> = strangers().map(|(_, host)| name(host)).collect();
        complaint = Some(format!(
            "recorded on {}: to name kernel functions, use --kallsyms, --vmlinux or a build-id cache",
            all.join(", ")
        ));
    }
    // Files given by the user are used for all machines.
    let strangers = if named { Vec::new() } else { strangers().map(|(id, _)| id).collect() };
    let options = SymbolOptions {
        form: if no_demangle { NameForm::Raw } else { NameForm::Plain },
        live: false,
        same_kernel: has_own && args.names.symfs.is_none(),
        strangers,
        authors: info.authors.clone(),
        symfs: args.names.symfs.as_ref().map(|symfs| symfs.dir.clone()),
        flat: args.names.symfs.as_ref().is_some_and(|symfs| symfs.flat),
        bounds: !args.names.no_bounds,
        kallsyms: args.names.kallsyms.clone().or_else(|| has_own.then(|| "/proc/kallsyms".into())),
        vmlinux: args.names.vmlinux.clone(),
        caches,
        ..SymbolOptions::of_user()
    };
    (options, complaint)
}

pub(crate) fn filter_of(text: Option<&str>, known: KnownFields<'_>) -> anyhow::Result<Option<Arc<Filter>>> {
    let parse = |text| Filter::parse_with(text, known).map(Arc::new);
    text.map(|t| parse(t).map_err(|fault| Usage(format!("--where: {fault}")).into())).transpose()
}

impl SelectionArgs {
    /// Checks the filters before the recording is read, when its fields are not known yet.
    pub(crate) fn check(&self) -> anyhow::Result<Option<Arc<Filter>>> {
        let clause = self.time.as_deref().map(|time| TimeRange::parse(time).map(|_| "time >= 0".to_owned()));
        self.parse(KnownFields::Any, clause.transpose())
    }

    pub(crate) fn filter(&self, loaded: &Offline) -> anyhow::Result<Option<Arc<Filter>>> {
        let core = loaded.ingest.core();
        let has = |bit: u64| core.events.iter().any(|event| event.attr.sample_type & bit != 0);
        if self.cpu.is_some() && has(u64::MAX) && !has(sample::CPU) {
            return Err(usage("--cpu: the samples of this recording have no CPU"));
        }
        if self.parallelism.is_some() {
            selection::check_latency(loaded)?;
        }
        if self.time.is_some() && has(u64::MAX) && !has(sample::TIME) {
            return Err(usage("--time: the samples of this recording have no times"));
        }
        let span = core.profile.span().unwrap_or((core.times.start, core.times.start));
        let on = RangeClock::new(span, core.summary.wall_start(core.times.start), core.times.start);
        let clause = self.time.as_deref().map(|time| time_clause(time, core.times.start, &on));
        self.parse(KnownFields::These(&loaded.fields()), clause.transpose())
    }

    /// Returns the selection of times and CPUs alone.
    pub(crate) fn of_times_and_cpus(&self) -> Self {
        Self { cpu: self.cpu.clone(), time: self.time.clone(), ..Self::default() }
    }

    /// Warns of names of comms, DSOs and functions that the recording does not have; returns whether there are any.
    pub(crate) fn warn_of_unknown_names(&self, loaded: &Offline) -> bool {
        let data = loaded.data();
        let syms = || (0..data.profile.frames.n_syms() as u32).map(|sym| data.profile.frames.sym(SymId(sym)));
        let comms = || data.session.tasks().iter().map(|task| task.comm.to_string()).collect();
        let dsos = || syms().map(|sym| sym.dso_name.to_string()).collect();
        let functions = || syms().map(|sym| sym.name().into_owned()).collect();
        let of = |list: &Option<String>, names: &dyn Fn() -> Vec<String>| list.clone().map(|list| (list, names()));
        let lists = [
            ("comm", "thread", of(&self.comms, &comms)),
            ("dso", "DSO", of(&self.dsos, &dsos)),
            ("sym", "function", of(&self.symbols, &functions)),
        ];
        let mut is_any = false;
        for (field, what, list) in lists {
            let Some((list, mut names)) = list else { continue };
            names.sort_unstable();
            names.dedup();
            for why in list.split(',').filter_map(|word| unknown(field, what, word.trim(), &names)) {
                complain(&why);
                is_any = true;
            }
        }
        is_any
    }

    /// Joins all options; `time` is the condition of `--time`.
    fn parse(
        &self,
        known: KnownFields<'_>,
        time: Result<Option<String>, RangeError>,
    ) -> anyhow::Result<Option<Arc<Filter>>> {
        let mut clauses: Vec<String> = clauses_of_lists([&self.comms, &self.dsos, &self.symbols]).collect();
        let lists = [("pid", &self.pid), ("tid", &self.tid), ("cpu", &self.cpu), (PARALLELISM, &self.parallelism)];
        for (field, list) in lists {
            clauses.extend(list.as_ref().map(|list| format!("{field} in {list}")));
        }
        let typed = self.time.as_deref().unwrap_or_default();
        clauses.extend(time.map_err(|wrong| Usage(format!("--time {typed}: {wrong}")))?);
        if clauses.is_empty() {
            return filter_of(self.filter.as_deref(), known);
        }
        clauses.extend(self.filter.as_ref().map(|f| format!("({f})")));
        filter_of(self.filter.as_deref(), known)?;
        filter_of(Some(&clauses.join(" && ")), known)
    }

    /// Returns true if the filter may use fields of tracepoints.
    pub(crate) fn needs_fields(&self) -> bool {
        let parsed = self.filter.as_deref().map(|text| Filter::parse_with(text, KnownFields::Any));
        self.parallelism.is_some() || parsed.is_some_and(|filter| filter.is_ok_and(|filter| filter.needs_fields()))
    }
}

/// Returns a message with similar names if a word of a list matches none of the names.
fn unknown(field: &str, what: &str, word: &str, names: &[String]) -> Option<String> {
    // All clauses of a word are alternatives.
    let filter = Filter::parse(&clause_of_name(field, word)).ok()?;
    let is_known = names.iter().any(|name| filter.atoms().iter().any(|atom| atom.text(name)));
    (!is_known).then(|| format!("no {what} is named {word}{}", nearest_hint(word, names.iter().map(String::as_str))))
}

/// Returns time ranges in the filter language, in nanoseconds from the start of the session.
fn time_clause(text: &str, start: u64, on: &RangeClock) -> Result<String, RangeError> {
    let one = |range: &TimeRange| {
        // A range before the start contains no sample, not even one at the start itself.
        let (from, to) = match range.resolve(on)? {
            (from, to) if to >= start => (from.saturating_sub(start), to - start),
            _ => (1, 0),
        };
        Ok(format!("(time >= {from}ns && time <= {to}ns)"))
    };
    let list: Result<Vec<String>, RangeError> = TimeRange::parse(text)?.iter().map(one).collect();
    Ok(format!("({})", list?.join(" || ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_without_data_counts_where_two_estimates_agree() {
        let second = 1_000_000_000;
        let minute = 60 * second;
        assert_eq!(least_of(100 * minute, 100 * minute + 3 * second), Some(99 * minute as i64));
        assert_eq!(least_of(100 * minute + second, 100 * minute), Some(99 * minute as i64));
        // A copied file, and a recording from before a reboot.
        assert_eq!((least_of(100 * minute, 102 * minute), least_of(100 * minute, 7 * minute)), (None, None));
        assert_eq!(least_of(second, second), Some(0));
    }

    #[test]
    fn a_name_that_matches_nothing_has_near_ones() {
        let names = ["hot_compute (svc.py)", "serve (svc.py)", "operator[](int)"].map(str::to_owned);
        for known in ["hot_compute", "hot*", "hot_compute (svc.py)", "*(svc.py)", "operator[](int)"] {
            assert_eq!(unknown("sym", "function", known, &names), None, "{known}");
        }
        let why = unknown("sym", "function", "hot_comput", &names);
        assert_eq!(why.as_deref(), Some("no function is named hot_comput; nearest: hot_compute (svc.py)"));
        assert!(unknown("comm", "thread", "hot*", &names).is_some(), "names of threads are not globs");
    }

    #[test]
    fn time_ranges_in_perf_spelling() {
        let clause = |text| time_clause(text, 1_000, &RangeClock::new((2_000, 12_000), 0, 0));
        assert_eq!(clause("10%-20%").as_deref(), Ok("((time >= 2000ns && time <= 3000ns))"));
        assert_eq!(clause("10%/2").as_deref(), Ok("((time >= 2000ns && time <= 3000ns))"));
        assert_eq!(clause("0.000003,").as_deref(), Ok("((time >= 2000ns && time <= 11000ns))"));
        assert_eq!(clause("-8us,-3us").as_deref(), Ok("((time >= 3000ns && time <= 8000ns))"));
        for before in ["0.0000001,0.0000009", ",0.0000009"] {
            assert_eq!(clause(before).as_deref(), Ok("((time >= 1ns && time <= 0ns))"), "{before}");
        }
        assert_eq!(clause("0,0.000001").as_deref(), Ok("((time >= 0ns && time <= 0ns))"), "the start itself");
        for bad in ["x", "5%", "10%/0"] {
            assert_eq!(clause(bad), Err(RangeError::NoRange), "{bad}");
        }
        assert_eq!(clause("14:03"), Err(RangeError::NoTimeOfDay));
    }
}
