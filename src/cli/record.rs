//! `record`: from the rings to a perf.data file, in one thread, with as little as possible between.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use crate::engine::Urgency;
use crate::event::tracepoint;
use crate::export::ids::Identities;
use crate::export::side::SideWriter;
use crate::export::tables::TableWriter;
use crate::kernel::attr::TYPE_TRACEPOINT;
use crate::kernel::files::{NewFile, unwritten};
use crate::kernel::procfs;
use crate::kernel::spawn::Output;
use crate::panel::unit;
use crate::perfdata::features;
use crate::perfdata::features::Section;
use crate::perfdata::stream::StreamWriter;
use crate::perfdata::write::Writer;
use crate::record::kinds::{HEADER, Header, types};
use crate::session::containers::NamedContainer;
use crate::session::{Origin, Session, containers};
use crate::source::live::LiveSource;
use crate::source::live::containers::Scanner;
use crate::source::{Batch, Control, Info, Progress, Source, SourceError};

use crate::symbols::SymbolOptions;

use super::args::Record;
use super::output::complain;
use super::{flight_recorder, push, signals, source_config, trigger};

/// `perfprof-tui record`.
pub(crate) fn run(mut args: Record) -> anyhow::Result<u8> {
    if args.push.is_some() {
        return push::run(&args);
    }
    let kept = flight_recorder::kept(&args.keeping)?;
    if kept.watched.is_some() {
        return trigger::run(&mut args, kept);
    }
    // Where containers run, samples tell whose they are.
    let named: Vec<NamedContainer> = Scanner::here().look().came.into_iter().map(|running| running.named).collect();
    args.sampling.all_cgroups |= !named.is_empty();
    let realtime = source_config::realtime(&args.sampling)?;
    let started = source_config::start(&args.sampling, &args.cmd, Output::Inherit)?;
    source_config::warn(started.warning.as_ref());
    let mut source = started.source;
    let info = source.info().clone();
    info.notes.iter().chain(info.states.iter().filter_map(|s| s.note.as_ref())).for_each(|note| complain(note));
    let out = RecordSink::open(&args, &info, &named)?;
    let mut recorder = Recorder::start(out, &info, &args, source.command_pid())
        .with_context(|| format!("{} cannot be written", args.output.display()))?;
    let stop = signals::stop_flag()?;
    let ended = recorder.record(&mut source, realtime, &stop).map_err(|error| recorder.salvage(&args.output, error))?;
    let summary = recorder.finish(&info).map_err(|error| recorder.salvage(&args.output, error))?;
    if !args.quiet {
        let samples = format!("{} samples", unit::thousands(summary.samples));
        complain(&format!(
            "{ended}; wrote {samples}, lost {}, {} to {}",
            unit::thousands(summary.lost),
            unit::bytes(summary.bytes),
            args.output.display()
        ));
    }
    Ok(0)
}

struct Summary {
    samples: u64,
    lost: u64,
    bytes: u64,
}

/// The sink of records: a file, or a stream to standard output.
enum RecordSink {
    File(Writer),
    Stream(StreamWriter),
}

impl RecordSink {
    fn open(args: &Record, info: &Info, named: &[NamedContainer]) -> anyhow::Result<Self> {
        if args.output.as_os_str() == "-" {
            if std::io::stdout().is_terminal() {
                anyhow::bail!("a recording is nothing for a terminal: pipe it, to `perfprof-tui open -` for example");
            }
            let mut sections = described(info)?;
            sections.extend(features::clock());
            sections.extend(names_of(named));
            let out = Box::new(super::output::binary());
            return Ok(Self::Stream(StreamWriter::start(out, &info.events, &sections)?));
        }
        let start = || Writer::start(NewFile::create(&args.output)?, &info.events);
        Ok(Self::File(start().map_err(|error| anyhow::anyhow!("{}", unwritten(&args.output, &error)))?))
    }

    fn records(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::File(writer) => writer.records(bytes),
            Self::Stream(writer) => writer.records(bytes),
        }
    }

    fn finish_round(&mut self) -> std::io::Result<()> {
        match self {
            Self::File(writer) => writer.finish_round(),
            Self::Stream(writer) => writer.finish_round(),
        }
    }
}

/// The names of containers, where there are any.
fn names_of(named: &[NamedContainer]) -> Option<Section> {
    (!named.is_empty()).then(|| (containers::FEATURE, containers::encode(named.iter())))
}

/// The sections that describe the machine and the events.
fn described(info: &Info) -> anyhow::Result<Vec<Section>> {
    let cmdline: Vec<String> = std::env::args().collect();
    let mut sections = features::machine(&cmdline);
    sections.push(features::event_desc(&info.events));
    let tracepoints: Vec<(String, String)> = info
        .events
        .iter()
        .filter(|e| e.attr.kind == TYPE_TRACEPOINT)
        .filter_map(|e| e.name.split_once(':').map(|(s, n)| (s.to_owned(), n.to_owned())))
        .collect();
    if !tracepoints.is_empty() {
        let data = tracepoint::root().and_then(|root| tracepoint::tracing_data(&root, &tracepoints))?;
        sections.push((features::bit::TRACING_DATA, data));
    }
    Ok(sections)
}

/// Writes batches as they come.
struct Recorder {
    writer: RecordSink,
    /// Tables of functions that go with a stream.
    tables: Option<TableWriter>,
    beside: Vec<u8>,
    /// Of a file's programs; a stream has no place for what is known at its end.
    identities: Option<Identities>,
    /// Containers that ran, by the path of their cgroups.
    named: BTreeMap<Arc<str>, NamedContainer>,
    own_pid: Option<i32>,
    samples: u64,
    lost: u64,
    span: (u64, u64),
}

impl Recorder {
    fn start(mut writer: RecordSink, info: &Info, args: &Record, command: Option<i32>) -> anyhow::Result<Self> {
        let sampling = &args.sampling;
        let layout = info.events[0].layout();
        let mut session = Session::new(Origin::Live);
        session.data_maps = info.events.iter().any(|event| event.attr.stack_user > 0);
        let chosen: Vec<i32> = [&sampling.pids, &sampling.tids]
            .into_iter()
            .flatten()
            .flat_map(|t| t.split(','))
            .filter_map(|t| t.trim().parse().ok())
            .filter_map(procfs::tgid)
            .collect();
        let pids = match (chosen.is_empty(), command, sampling.all || sampling.cpus.is_some()) {
            (false, _, _) => chosen,
            (true, Some(pid), false) => vec![pid],
            _ => procfs::processes(),
        };
        for pid in pids {
            for tid in procfs::threads(pid) {
                session.task(pid, tid);
            }
        }
        let mut out = Vec::new();
        SideWriter::new(&session.dsos, session.log(), layout).until(u64::MAX, &mut out);
        writer.records(&out)?;
        let own_pid = (!sampling.include_self).then(|| std::process::id() as i32);
        let names = args.names && matches!(writer, RecordSink::Stream(_));
        let identities = matches!(writer, RecordSink::File(_)).then(|| Identities::new(session.dsos.clone()));
        let tables = names.then(|| TableWriter::new(session, SymbolOptions::of_user(), layout));
        Ok(Self {
            writer,
            tables,
            beside: Vec::new(),
            identities,
            named: BTreeMap::new(),
            own_pid,
            samples: 0,
            lost: 0,
            span: (u64::MAX, 0),
        })
    }

    fn record(&mut self, source: &mut LiveSource, realtime: Option<i32>, stop: &AtomicBool) -> anyhow::Result<String> {
        let mut batch = Batch::default();
        let mut urgency = realtime.map_or_else(Urgency::usual, |priority| Urgency::of_live(Some(priority)));
        loop {
            urgency.keep();
            if stop.load(Ordering::Relaxed) {
                let _ = source.control(&Control::Stop);
            }
            let step = source.next(&mut batch)?;
            self.write(&batch.bytes)?;
            self.lost = batch.counts.take().map_or(self.lost, |list| list.iter().map(|c| c.lost).sum());
            batch.notes.iter().for_each(|note| complain(note));
            self.named.extend(batch.containers.drain(..).map(|named| (named.root.clone(), named)));
            batch.clear();
            if let Progress::End(why) = step {
                return Ok(why);
            }
        }
    }

    /// Writes records, leaving our own samples out: unbroken runs between them go as they are.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if let Some(tables) = &mut self.tables {
            // Before the samples that need them.
            self.beside.clear();
            tables.follow(bytes, &mut self.beside)?;
            self.writer.records(&self.beside)?;
        }
        let (mut at, mut run) = (0, 0);
        while let Some(header) = Header::read(&bytes[at..]) {
            let size = usize::from(header.size).max(HEADER);
            if header.kind == types::SAMPLE {
                // IDENTIFIER, IP, then pid and tid, then TIME: the layout of all our events.
                let field = |offset: usize| {
                    bytes
                        .get(at + HEADER + offset..at + HEADER + offset + 8)
                        .and_then(|b| b.try_into().ok())
                        .map_or(0, u64::from_le_bytes)
                };
                let own = self.own_pid == Some(field(16) as u32 as i32);
                if own {
                    self.writer.records(&bytes[run..at])?;
                    run = at + size;
                } else {
                    self.samples += 1;
                    let time = field(24);
                    self.span = (self.span.0.min(time), self.span.1.max(time));
                }
            } else if let Some(identities) = &mut self.identities {
                identities.follow(header, &bytes[at..]);
            }
            at += size;
        }
        self.writer.records(&bytes[run.min(bytes.len())..])?;
        self.writer.finish_round()
    }

    /// The error, with the file that has what was recorded so far.
    fn salvage(&mut self, path: &Path, error: anyhow::Error) -> anyhow::Error {
        if let Some(SourceError::Command(_)) = error.downcast_ref() {
            // Nothing ran that could be recorded.
            return error;
        }
        let why = match error.downcast_ref::<std::io::Error>() {
            Some(io) if io.raw_os_error().is_some() => unwritten(path, io),
            _ => format!("{} is incomplete: {error:#}", path.display()),
        };
        let kept = match &mut self.writer {
            RecordSink::File(writer) => writer.keep(),
            RecordSink::Stream(_) => None,
        };
        let kept = kept.map(|kept| format!("; what was recorded so far can be opened: {}", kept.display()));
        anyhow::anyhow!("{why}{}", kept.unwrap_or_default())
    }

    fn finish(&mut self, info: &Info) -> anyhow::Result<Summary> {
        let bytes = match &mut self.writer {
            RecordSink::Stream(writer) => writer.written(),
            RecordSink::File(writer) => {
                let mut sections = described(info)?;
                sections.push(features::sample_time(self.span.0.min(self.span.1), self.span.1));
                sections.extend(features::clock());
                let named: Vec<NamedContainer> = std::mem::take(&mut self.named).into_values().collect();
                sections.extend(names_of(&named));
                let identities = self.identities.take();
                sections.extend(identities.map(|identities| features::build_ids(identities.list())));
                writer.finish_beside_old(sections)?
            }
        };
        Ok(Summary { samples: self.samples, lost: self.lost, bytes })
    }
}
