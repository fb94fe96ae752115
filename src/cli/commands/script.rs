//! `script`: prints each sample as text, in perf script's layout, and on request every other record.

use std::io::{self, Write};
use std::path::PathBuf;

use tempfile::NamedTempFile;

use crate::engine::IntakeOptions;
use crate::engine::offline::Offline;
use crate::ingest::{IngestState, PlacedRecord, RecordOrder, replay_all};
use crate::kernel::cpus;
use crate::panel::printable::EscapeForm;
use crate::query::tree::symbol_stacks::{StackSample, samples};
use crate::record::Record;
use crate::record::in_place::i32_at;
use crate::record::kinds::types;
use crate::report::dump::Dump;
use crate::report::head;
use crate::report::records::{self, RecordRow};
use crate::report::script::{Addresses, Fields, LineOwner, RecordSample, SamplePrinter, has_records};
use crate::report::text::comm_of;
use crate::symbols::Resolver;

use crate::cli::args::{RareScript, RecordingArgs, ScriptArgs};
use crate::cli::commands::report::chosen_events;
use crate::cli::output::{complain, print, texts};
use crate::cli::{Usage, input, usage};

pub(crate) fn run(args: ScriptArgs) -> anyhow::Result<u8> {
    args.which.check()?;
    refuse_fields_as_file(&args.recording)?;
    let fields = Fields::parse(&args.fields).map_err(Usage)?;
    if args.header_only {
        return print_head(&args.recording, args.rare.info);
    }
    let (recording, _kept) = readable_twice(&args, &fields)?;
    if args.header {
        print_head(&recording, args.rare.info)?;
    }
    let opened = input::open(&recording, args.frames.no_demangle)?;
    let (info, symbols) = (opened.source.info().clone(), opened.symbols.clone());
    let name = opened.name.clone();
    let loaded = opened.load(IntakeOptions {
        traces: true,
        addresses: true,
        inline: args.frames.inline,
        lines: fields.wants_lines(),
        ..IntakeOptions::default()
    })?;
    let events = chosen_events(&loaded, &args.which)?;
    let core = loaded.ingest.core();
    let mut options = args.rare.lines.clone();
    options.nanoseconds = args.ns;
    let printer = SamplePrinter::new(loaded.data(), core, &fields, options, &info.arch).map_err(Usage)?;
    let printer = if fields.wants_code() { printer.with_code(symbols.clone()) } else { printer };
    let rows = Rows::new(&loaded, &args, &events)?;
    if !rows.list.is_empty() && !rows.printed.contains(&true) {
        complain("no samples match the filters");
    }
    let mut out = texts(EscapeForm::Text);
    let is_recorded = !info.inputs.is_empty();
    if is_recorded && (needs_records(&args, &fields) || core.events.iter().any(has_records)) {
        let dump = (args.dump || args.rare.dump_unsorted).then(|| Dump::new(&name, &core.events, &info.arch));
        let source = input::open_silently(&recording, args.frames.no_demangle)?.0.into_source();
        let addresses = Addresses(Resolver::new(symbols));
        let told_cpus = args.which.cpu.as_deref().and_then(|list| cpus::parse_list(list).ok());
        let order = if args.rare.dump_unsorted { RecordOrder::File } else { RecordOrder::Time };
        let shown = shown_types(&args.rare).collect();
        let mut pass = RecordPass { printer, rows, dump, addresses, shown, order, told_cpus, text: String::new() };
        pass.print(source, &mut out)?;
    } else {
        print_samples(printer, &rows, &mut out)?;
    }
    out.finish()?;
    drop(out);
    let code = loaded.exit_code();
    std::mem::forget(loaded);
    Ok(code)
}

/// Prints the header of a recording like perf; `full` adds the machine's topology.
fn print_head(recording: &RecordingArgs, full: bool) -> anyhow::Result<u8> {
    let opened = input::open_silently(recording, true)?.0;
    let Some(rec) = &opened.source.info().head else {
        return Err(usage(format!("{} is text and has no header", opened.name)));
    };
    print(&head::text(rec, recording.written().unwrap_or(0), full)).map(|()| 0)
}

fn refuse_fields_as_file(recording: &RecordingArgs) -> anyhow::Result<()> {
    match recording.files.first().filter(|file| !file.exists()).and_then(|file| file.to_str()) {
        Some(list) if Fields::parse(&[list.to_owned()]).is_ok() => {
            Err(usage(format!("no such file: {list}; to choose fields use -F {list} (-f means --force, like in perf)")))
        }
        _ => Ok(()),
    }
}

/// Returns true if options request data that only records have.
fn needs_records(args: &ScriptArgs, fields: &Fields) -> bool {
    args.dump || args.rare.dump_unsorted || fields.wants_records() || shown_types(&args.rare).next().is_some()
}

/// Returns a recording that can be read several times; standard input is copied to a file first.
fn readable_twice(args: &ScriptArgs, fields: &Fields) -> anyhow::Result<(RecordingArgs, Option<NamedTempFile>)> {
    let mut recording = args.recording.clone();
    let is_stdin = recording.paths().iter().any(|path| path.as_os_str() == "-");
    if !is_stdin || !(args.header || needs_records(args, fields)) {
        return Ok((recording, None));
    }
    let mut kept = NamedTempFile::new()?;
    io::copy(&mut io::stdin().lock(), &mut kept)?;
    let own = |path: PathBuf| if path.as_os_str() == "-" { kept.path().to_owned() } else { path };
    (recording.files, recording.input) = (recording.paths().into_iter().map(own).collect(), None);
    Ok((recording, Some(kept)))
}

/// All samples that are not derived, in order, and which of them are printed.
struct Rows {
    list: Vec<StackSample>,
    printed: Vec<bool>,
    derived: Vec<bool>,
}

impl Rows {
    fn new(loaded: &Offline, args: &ScriptArgs, events: &[usize]) -> anyhow::Result<Self> {
        let core = loaded.ingest.core();
        let derived: Vec<bool> = core.events.iter().map(|event| event.is_derived()).collect();
        let mut list = Vec::new();
        samples(loaded.data(), None, |row| list.push(row));
        let first = list.first().map_or(0, |row| row.at);
        let mut printed = vec![false; list.len()];
        args.which.warn_of_unknown_names(loaded);
        samples(loaded.data(), args.which.filter(loaded)?, |row| {
            printed[(row.at - first) as usize] = events.contains(&usize::from(row.event));
        });
        Ok(Self { list, printed, derived })
    }
}

fn print_samples(mut printer: SamplePrinter<'_>, rows: &Rows, out: &mut dyn Write) -> io::Result<()> {
    let mut line = String::new();
    for (row, printed) in rows.list.iter().zip(&rows.printed) {
        if !printed || printer.is_silent(row.event) {
            continue;
        }
        line.clear();
        printer.sample(row, None, &mut line);
        out.write_all(line.as_bytes())?;
    }
    out.flush()
}

/// Second pass over a recording, in which samples have their records and other records are printed.
struct RecordPass<'a> {
    printer: SamplePrinter<'a>,
    rows: Rows,
    dump: Option<Dump>,
    addresses: Addresses,
    /// The types of printed records.
    shown: Vec<u32>,
    order: RecordOrder,
    /// CPUs whose other records are printed; empty for all.
    told_cpus: Option<Vec<u32>>,
    text: String,
}

impl RecordPass<'_> {
    fn print(&mut self, mut source: Box<dyn crate::source::Source>, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut at = 0;
        replay_all(&mut *source, self.order, |core, record| {
            self.text.clear();
            self.record(core, &record, &mut at);
            anyhow::Ok(out.write_all(self.text.as_bytes())?)
        })?;
        // Derived samples come with the last sample they need.
        self.text.clear();
        self.derived_until(&mut at);
        out.write_all(self.text.as_bytes())?;
        Ok(out.flush()?)
    }

    fn record(&mut self, core: &mut IngestState, record: &PlacedRecord<'_>, at: &mut usize) {
        if let Some(dump) = &self.dump {
            dump.record(core, record, &mut self.text);
        }
        if record.header.kind == types::SAMPLE {
            if self.order == RecordOrder::Time {
                self.sample(core, record, at);
            }
            return;
        }
        // An exiting thread still exists when its exit is printed.
        let before = record.header.kind == types::EXIT;
        if before {
            self.side(core, record);
        }
        if record.header.kind < types::USER_START {
            core.apply(record.input, record.time, record.bytes);
        }
        if !before {
            self.side(core, record);
        }
    }

    fn sample(&mut self, core: &mut IngestState, record: &PlacedRecord<'_>, at: &mut usize) {
        let Some((event, sample)) = core.decode(record.input, record.header, record.body()) else { return };
        let is_user = record.header.misc & 7 == crate::record::kinds::misc::USER;
        core.session.seen(sample.pid, record.time, is_user, sample.chain);
        let shares = core.shares(record.input, record.header, record.body());
        let count = shares.map_or(1, |list| list.iter().filter(|share| share.is_sample()).count());
        let (layout, _) = core.form(record.input, record.header, record.body());
        let regs_intr = self.printer.regs_intr(event);
        let rare = layout.rare(sample.tail, regs_intr).unwrap_or_default();
        for _ in 0..count {
            self.derived_until(at);
            let Some(row) = self.rows.list.get(*at).copied() else { return };
            let printed = self.rows.printed[*at] && !self.printer.is_silent(row.event);
            *at += 1;
            if let Some(dump) = &self.dump {
                dump.owner(core, record, &mut self.text);
            }
            if printed {
                let misc = record.header.misc;
                let mut extra =
                    RecordSample { sample, rare, misc, session: &core.session, addresses: &mut self.addresses };
                self.printer.sample(&row, Some(&mut extra), &mut self.text);
            }
        }
    }

    /// Prints the samples of derived events at this position; they have no records.
    fn derived_until(&mut self, at: &mut usize) {
        while let Some(row) = self.rows.list.get(*at).copied().filter(|row| self.rows.derived[usize::from(row.event)]) {
            if self.rows.printed[*at] && !self.printer.is_silent(row.event) {
                self.printer.sample(&row, None, &mut self.text);
            }
            *at += 1;
        }
    }

    fn side(&mut self, core: &IngestState, record: &PlacedRecord<'_>) {
        let (header, body) = (record.header, record.body());
        if !self.shown.contains(&header.kind) {
            return;
        }
        if header.kind == types::FINISHED_ROUND {
            return self.text.push_str("PERF_RECORD_FINISHED_ROUND\n");
        }
        let (layout, build_ids) = core.form(record.input, header, body);
        let id = layout.trailer(body).unwrap_or_default();
        if self.told_cpus.as_ref().is_some_and(|cpus| !cpus.contains(&id.cpu)) {
            return;
        }
        let decoded = Record::decode(header, body, build_ids);
        let thread = match &decoded {
            Ok(Record::Comm { pid, tid, .. }) => (*pid, *tid),
            Ok(Record::Fork(task) | Record::Exit(task)) => (task.pid, task.tid),
            Ok(Record::Mmap(map)) => (map.pid, map.tid),
            _ if header.kind == types::NAMESPACES => namespace_owner(body),
            _ => (id.pid, id.tid),
        };
        let (pid, tid) = if layout.trailer_len() > 0 { (id.pid, id.tid) } else { thread };
        let comm = comm_of(core, thread.1);
        let owner =
            LineOwner { comm: &comm, pid, tid, cpu: id.cpu, time: id.time, record: Some((header.kind, header.misc)) };
        self.printer.side(core.event_of(record.input, header, body), &owner, &mut self.text);
        self.text.push_str(&records::words(&RecordRow { header, body, layout, event: "", build_ids, in_dump: false }));
    }
}

fn namespace_owner(body: &[u8]) -> (i32, i32) {
    let word = |at: usize| i32_at(body, at).unwrap_or(0);
    (word(0), word(4))
}

/// Returns the types of records that are printed in addition to samples.
fn shown_types(shows: &RareScript) -> impl Iterator<Item = u32> + use<> {
    let lists: [(bool, &[u32]); 9] = [
        (shows.tasks, &[types::COMM, types::FORK, types::EXIT]),
        (shows.mmaps, &[types::MMAP, types::MMAP2]),
        (shows.switches, &[types::SWITCH, types::SWITCH_CPU_WIDE]),
        (shows.namespaces, &[types::NAMESPACES]),
        (shows.losses, &[types::LOST]),
        (shows.cgroups, &[types::CGROUP]),
        (shows.bpf, &[types::KSYMBOL, types::BPF_EVENT]),
        (shows.text_pokes, &[types::KSYMBOL, types::TEXT_POKE]),
        (shows.rounds, &[types::FINISHED_ROUND]),
    ];
    lists.into_iter().filter(|(is_shown, _)| *is_shown).flat_map(|(_, types)| types.iter().copied())
}
