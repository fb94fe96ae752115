//! `export`: writes a recording in another tool's format.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;

use crate::engine::IntakeOptions;
use crate::engine::offline::Offline;
use crate::event::Rate;
use crate::export::copy::CopyError;
use crate::export::perfdata::WrittenSize;
use crate::export::{ExportInput, FormatWriter, copy, stream};
use crate::kernel::files::unwritten;
use crate::lang::counted;
use crate::panel::unit;
use crate::query::tree::symbol_stacks;
use crate::session::marks::{self, TimeMark};
use crate::source::recording;

use crate::cli::args::{ExportArgs, SelectionArgs};
use crate::cli::input::selection::{chosen_events, main_event, note_main_event};
use crate::cli::output::{self, complain};
use crate::cli::{input, usage};

pub(crate) fn run(args: ExportArgs) -> anyhow::Result<u8> {
    args.which.check()?;
    let opened = input::open(&args.recording, args.frames.no_demangle)?;
    let name = opened.name.clone();
    let FormatWriter::Profile(form, write) = args.to.writer else { return perfdata(&args, opened) };
    if form.is_none() && args.output.as_os_str() == "-" && std::io::stdout().is_terminal() {
        return Err(usage(format!("{} is not text for a terminal; name a file with -o", args.to.name)));
    }
    let loaded = opened.load(IntakeOptions { inline: args.frames.inline, ..IntakeOptions::default() })?;
    let events = chosen_events(&loaded, &args.which)?;
    let Some(event) = main_event(&loaded, &events) else { return Err(anyhow::anyhow!("{name} has no events")) };
    note_main_event("exported", &loaded, event, &events);
    let title = Path::new(&name).file_name().map_or_else(|| name.clone(), |n| n.to_string_lossy().into_owned());
    let input = input(&args, &loaded, event, &title)?;
    if args.output.as_os_str() != "-" {
        output::file(&args.output, form, |out| Ok(write(&input, out)?))?;
    } else if let Some(form) = form {
        let mut out = output::texts(form);
        write(&input, &mut out)?;
        out.finish()?;
    } else {
        let mut out = output::binary();
        write(&input, &mut out)?;
        out.flush()?;
    }
    let code = loaded.exit_code();
    // Freeing millions of small allocations would only delay the exit.
    std::mem::forget(loaded);
    Ok(code)
}

fn input<'a>(args: &ExportArgs, loaded: &'a Offline, event: usize, title: &'a str) -> anyhow::Result<ExportInput<'a>> {
    args.which.warn_of_unknown_names(loaded);
    let core = loaded.ingest.core();
    let attr = &core.events[event].attr;
    let (period, frequency) = match Rate::of(attr) {
        Rate::Period(period) => (period, 0),
        Rate::Frequency(frequency) => (0, frequency),
    };
    let host = core.summary.hosts.first();
    let is_known = !core.summary.hosts.are_many() && !host.name.is_empty();
    let resource = is_known.then(|| ("host.name".to_owned(), host.name.to_string())).into_iter().collect();
    Ok(ExportInput {
        data: loaded.data(),
        event,
        filter: args.which.filter(loaded)?,
        title,
        annotate: args.annotate,
        wall_ns: core.summary.wall_start(core.times.start),
        period,
        frequency,
        resource,
    })
}

/// Exports perf.data to perf.data: the first pass selects samples, the second copies them.
fn perfdata(args: &ExportArgs, opened: input::Opened) -> anyhow::Result<u8> {
    let paths = args.recording.paths();
    let all = args.which == SelectionArgs::default();
    let (mut kept, mut opened) = (None::<Vec<bool>>, opened);
    if !all {
        if paths.iter().any(|p| p.as_os_str() == "-") {
            return Err(usage("standard input can be read only once; save it to a file first"));
        }
        let loaded = opened.load(IntakeOptions::default())?;
        let events = chosen_events(&loaded, &args.which)?;
        args.which.warn_of_unknown_names(&loaded);
        let mut list = vec![false; loaded.ingest.core().profile.len()];
        symbol_stacks::samples(loaded.data(), args.which.filter(&loaded)?, |row| {
            list[row.at as usize] = events.contains(&usize::from(row.event));
        });
        // Derived samples are not records.
        let core = loaded.ingest.core();
        let is_record = core.profile.between(0, u64::MAX).flat_map(|(chunk, range)| &chunk.event[range]);
        let is_record = is_record.map(|event| !core.events[usize::from(*event)].is_derived());
        kept =
            Some(list.into_iter().zip(is_record).filter_map(|(kept, is_record)| is_record.then_some(kept)).collect());
        opened = input::open(&args.recording, args.frames.no_demangle)?;
    }
    let keep = |at: u64, _| kept.as_ref().is_none_or(|list| list.get(at as usize).copied().unwrap_or(false));
    let marks = marks::decode_from(&opened.source.info().hosts.first().machine);
    let written = written(&args.output, |path| copy::copy(&mut *opened.source, &keep, &marks, &[], None, path))?;
    let samples = counted(written.samples as u64, "sample");
    complain(&format!("wrote {samples}, {} to {}", unit::bytes(written.bytes), shown(&args.output)));
    Ok(0)
}

/// Returns the name of an output for a message.
pub(crate) fn shown(output: &Path) -> String {
    if output.as_os_str() == "-" { "standard output".to_owned() } else { output.display().to_string() }
}

/// Writes a recording to a file, or as a stream to standard output.
pub(crate) fn written(
    output: &Path,
    copy: impl FnOnce(&Path) -> Result<WrittenSize, CopyError>,
) -> anyhow::Result<WrittenSize> {
    if output.as_os_str() != "-" {
        return copy(output).map_err(|error| anyhow::anyhow!("{}", why(output, &error)));
    }
    if std::io::stdout().is_terminal() {
        return Err(usage("refusing to write a recording to a terminal; pipe it, or name a file with -o"));
    }
    // The features at the end of the file are at the start of a stream.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("perf.data");
    let copied = copy(&path).map_err(|error| anyhow::anyhow!("{}", why(&path, &error)))?;
    let bytes = stream::write(&path, Box::new(output::binary()))?;
    Ok(WrittenSize { bytes, ..copied })
}

/// Returns why a copy failed, with the remedy.
pub(crate) fn why(path: &Path, error: &CopyError) -> String {
    match error {
        CopyError::Io(error) => unwritten(path, error),
        error => format!("{} was not written: {error}", path.display()),
    }
}

/// Saves a recording, or a range of it, when the screen saves.
pub(crate) fn save_again(
    paths: &[std::path::PathBuf],
    path: &Path,
    range: Option<(u64, u64)>,
    marks: &[TimeMark],
) -> Result<String, String> {
    let mut source = recording::open(paths).map_err(|e| format!("{} was not saved: {e}", path.display()))?;
    let range = range.map_or(0..u64::MAX, |(from, until)| from..until);
    let keep = |_, time| range.contains(&time);
    let written = copy::copy(&mut *source, &keep, marks, &[], None, path).map_err(|e| why(path, &e))?;
    let samples = counted(written.samples as u64, "sample");
    Ok(format!("saved {samples}, {} to {}", unit::bytes(written.bytes), path.display()))
}
