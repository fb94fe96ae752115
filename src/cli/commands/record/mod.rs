//! `record`: writes the ring buffers to a perf.data file, on one thread, with minimal processing.

mod on_trigger;
mod push;
mod record_file;
mod record_ids;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::ThreadPriority;
use crate::export::functions::RecordedFunctions;
use crate::export::ids::Identities;
use crate::export::side::SideWriter;
use crate::export::tables::TableWriter;
use crate::kernel::cgroup;
use crate::kernel::files::unwritten;
use crate::kernel::procfs;
use crate::kernel::spawn::Output;
use crate::lang::counted;
use crate::panel::unit;
use crate::perfdata::build_ids;
use crate::perfdata::features;
use crate::profile::Ledger;
use crate::query::stack_gaps;
use crate::record::SampleId;
use crate::record::in_place::u64_at;
use crate::record::kinds::{HEADER, Header, encode, types};
use crate::session::containers::NamedContainer;
use crate::session::{Origin, Session};
use crate::source::live::LiveSource;
use crate::source::live::containers::Scanner;
use crate::source::{Batch, Control, Info, Progress, Source, SourceError, SourceEvent};

use crate::symbols::SymbolOptions;
use crate::symbols::spaces::WalkFigures;
use crate::units::events::syscalls;

use crate::cli::args::RecordArgs;
use crate::cli::output::complain;
use crate::cli::sampling::{flight_recorder, source_config};
use crate::cli::usage;
use record_file::{FileSeries, RecordSink, described, names_of, recorder_of};
use record_ids::RecordedIds;

pub(crate) fn run(mut args: RecordArgs) -> anyhow::Result<u8> {
    prepare(&mut args)?;
    if args.more.dry_run {
        return source_config::check(&args.sampling).map(|()| 0);
    }
    if args.push.is_some() {
        return push::run(&args);
    }
    let kept = flight_recorder::kept(&args.keeping)?;
    if kept.watched.is_some() {
        return on_trigger::until_triggers(&mut args, kept);
    }
    if args.more.overwrite {
        return on_trigger::newest(&args, kept);
    }
    // If the machine has cgroups, samples contain theirs.
    let named: Vec<NamedContainer> = Scanner::here().look().came.into_iter().map(|running| running.named).collect();
    args.sampling.all_cgroups |= !named.is_empty() || cgroup::has_groups();
    // Triggers and stores read samples while they arrive; a file may have their chains later.
    args.sampling.extras.deferred = true;
    args.sampling.extras.call_regs = syscalls::REGISTERS;
    let realtime = source_config::realtime(&args.sampling)?;
    let output = if args.is_streamed() { Output::ToErrors } else { Output::Inherit };
    let (started, stop) = source_config::begin(&args, output)?;
    let mut source = started.source;
    let fate = source.fate();
    let info = source.info();
    info.notes.iter().chain(info.states.iter().filter_map(|s| s.note.as_ref())).for_each(|note| complain(note));
    let mut recorder = Recorder::start(&source, &args, &named).map_err(|error| {
        let named = error.downcast_ref::<std::io::Error>().map(|io| unwritten(args.target(), io));
        named.map_or(error, anyhow::Error::msg)
    })?;
    let ended =
        recorder.record(&mut source, realtime, &stop).map_err(|error| recorder.salvage(args.target(), error))?;
    let path = recorder.complete().map_err(|error| recorder.salvage(args.target(), error))?;
    if !args.quiet {
        let samples = match recorder.samples {
            0 if !source.has_begun() => format!("no samples (the delay -D {:?} was not over)", args.sampling.delay),
            0 if recorder.ledger.lost() == 0 && !args.sampling.no_samples => {
                let why =
                    if args.cmd.is_empty() { "the target was idle" } else { "the command was too short, or idle" };
                format!("no samples ({why})")
            }
            n => counted(n, "sample"),
        };
        complain(&format!(
            "{ended}; wrote {samples}, lost {}{}, {} to {}",
            unit::thousands(recorder.ledger.lost()),
            recorder.ledger.or_more(),
            unit::bytes(recorder.bytes),
            if args.is_streamed() { "standard output".into() } else { path.display().to_string() }
        ));
        if let Some(walks) = &recorder.walks {
            stack_gaps::of_interpreters(&walks.tables)
                .chain(stack_gaps::of_walks(walks, |path| recorder.has_mapped(path)))
                .for_each(|note| complain(&note));
        }
    }
    drop(source);
    Ok(fate.code(stop.load(Ordering::Relaxed)))
}

fn prepare(args: &mut RecordArgs) -> anyhow::Result<()> {
    let (more, sampling) = (&args.more, &mut args.sampling);
    if let Some(clock) =
        more.clockid.as_deref().filter(|clock| !matches!(*clock, "mono" | "monotonic" | "CLOCK_MONOTONIC"))
    {
        return Err(usage(format!("-k {clock}: only CLOCK_MONOTONIC is supported")));
    }
    sampling.extras = more.extras();
    // perf 7's spelling; kernels before 6.19 record plain chains.
    if sampling.call_graph == "fp,defer" {
        "fp".clone_into(&mut sampling.call_graph);
        sampling.extras.defers_fp = true;
    }
    sampling.grouped = more.group;
    sampling.no_samples = more.no_samples;
    if more.off_cpu {
        if sampling.events.is_empty() {
            sampling.events.push("cycles".to_owned());
        }
        sampling.events.push("sched:sched_switch".to_owned());
    }
    Ok(())
}

struct Recorder<'a> {
    args: &'a RecordArgs,
    info: Info,
    ids: RecordedIds,
    writer: RecordSink,
    series: FileSeries,
    /// Symbol tables in the recording (`--names`).
    tables: Option<TableWriter>,
    beside: Vec<u8>,
    /// Build ids of a file's programs; a stream cannot contain data that is known only at its end.
    identities: Option<Identities>,
    functions: RecordedFunctions,
    named: BTreeMap<Arc<str>, NamedContainer>,
    own_pid: Option<i32>,
    samples: u64,
    ledger: Ledger,
    /// For each event, the losses that are in a file.
    written_losses: Vec<u64>,
    bytes: u64,
    span: (u64, u64),
    walks: Option<WalkFigures>,
}

impl<'a> Recorder<'a> {
    /// Returns whether a recorded process has mapped a file; `false` if the mappings are not followed.
    fn has_mapped(&self, path: &str) -> bool {
        self.identities.as_ref().is_some_and(|identities| identities.has_mapped(path))
    }

    fn start(source: &LiveSource, args: &'a RecordArgs, named: &[NamedContainer]) -> anyhow::Result<Self> {
        let mut info = source.info().clone();
        let series = FileSeries::of(args)?;
        let ids = RecordedIds::new(&mut info.events, args.is_streamed());
        let mut writer = RecordSink::open(args, &info, named)?;
        let session = running(source.processes(), &info);
        writer.records(&told(&session, &info))?;
        let is_file = matches!(writer, RecordSink::File(_));
        let identities = (is_file && !args.more.no_buildid).then(|| Identities::new(session.dsos.clone()));
        let layout = info.events[0].layout();
        let tables = args.names.then(|| TableWriter::new(session, SymbolOptions::of_user(), layout));
        Ok(Self {
            args,
            info,
            ids,
            writer,
            series,
            tables,
            beside: Vec::new(),
            identities,
            functions: RecordedFunctions::default(),
            named: named.iter().map(|named| (named.root.clone(), named.clone())).collect(),
            own_pid: (!args.sampling.include_self).then(|| std::process::id() as i32),
            samples: 0,
            ledger: Ledger::default(),
            written_losses: Vec::new(),
            bytes: 0,
            span: (u64::MAX, 0),
            walks: None,
        })
    }

    fn record(&mut self, source: &mut LiveSource, realtime: Option<i32>, stop: &AtomicBool) -> anyhow::Result<String> {
        source.only_tell_floods();
        let mut batch = Batch::default();
        let mut priority = ThreadPriority::of_live(realtime);
        let mut full = false;
        loop {
            priority.keep();
            if full || stop.load(Ordering::Relaxed) {
                let _ = source.control(&Control::Stop);
            }
            let step = source.next(&mut batch)?;
            self.note_events(&batch)?;
            self.ids.stand_in(&mut batch.bytes);
            self.write(&batch.bytes)?;
            batch.clear();
            if let Progress::End(why) = step {
                return Ok(if full { "the file is full".to_owned() } else { why.to_string() });
            }
            full |= self.args.more.max_size.is_some_and(|most| self.bytes + self.writer.written() >= most);
            if self.series.is_due(self.writer.written()) {
                self.switch(source)?;
            }
        }
    }

    fn note_events(&mut self, batch: &Batch) -> std::io::Result<()> {
        for event in &batch.events {
            match event {
                SourceEvent::Id(fresh) => self.ids.learn(&mut self.info.events, std::slice::from_ref(fresh)),
                SourceEvent::Counts(reading) => {
                    for (event, counts) in (0..).zip(&reading.of) {
                        self.ledger.losses_of(event).counted = counts.lost;
                    }
                }
                SourceEvent::UnknownLosses => self.ledger.has_unknown_losses = true,
                SourceEvent::Note(note) => complain(note),
                SourceEvent::Walks(walks) => self.walks = Some(walks.clone()),
                SourceEvent::Containers(list) => {
                    let is_new = |named: &&NamedContainer| self.named.get(&named.root) != Some(named);
                    let fresh: Vec<NamedContainer> = list.iter().filter(is_new).cloned().collect();
                    self.writer.name(&fresh)?;
                    self.named.extend(fresh.into_iter().map(|named| (named.root.clone(), named)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends the file and begins another one, with the processes that run now.
    fn switch(&mut self, source: &LiveSource) -> anyhow::Result<()> {
        let named: Vec<NamedContainer> = self.named.values().cloned().collect();
        let path = self.complete()?;
        if !self.args.quiet {
            complain(&format!("wrote {}", path.display()));
        }
        self.writer = RecordSink::open(self.args, &self.info, &named)?;
        let session = running(source.processes(), &self.info);
        self.writer.records(&source.preamble(&mut Vec::new()))?;
        let mut known = told(&session, &self.info);
        self.functions.repeat(self.info.events[0].layout(), &mut known);
        self.writer.records(&known)?;
        self.identities = self.identities.is_some().then(|| Identities::new(session.dsos.clone()));
        let layout = self.info.events[0].layout();
        self.tables = self.tables.is_some().then(|| TableWriter::new(session, SymbolOptions::of_user(), layout));
        self.span = (u64::MAX, 0);
        Ok(())
    }

    /// Writes records except the profiler's own samples; contiguous records are written in one piece.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if let Some(tables) = &mut self.tables {
            // Symbols precede the samples that need them.
            self.beside.clear();
            tables.follow(bytes, &mut self.beside)?;
            self.writer.records(&self.beside)?;
        }
        let (mut at, mut run) = (0, 0);
        while let Some(header) = Header::read(&bytes[at..]) {
            let size = usize::from(header.size).max(HEADER);
            if header.kind == types::SAMPLE {
                // IDENTIFIER, IP, then pid and tid, then TIME: the layout of all our events.
                let field = |offset: usize| u64_at(bytes, at + HEADER + offset).unwrap_or(0);
                let own = self.own_pid == Some(field(16) as u32 as i32);
                if own {
                    self.writer.records(&bytes[run..at])?;
                    run = at + size;
                } else {
                    self.samples += 1;
                    let time = field(24);
                    self.span = (self.span.0.min(time), self.span.1.max(time));
                }
            } else {
                if header.kind == types::LOST {
                    let recorded = &mut self.ledger.losses_of(0).recorded;
                    *recorded = recorded.saturating_add(u64_at(bytes, at + HEADER + 8).unwrap_or(0));
                }
                self.functions.follow(header, &bytes[at..]);
                if let Some(identities) = &mut self.identities {
                    identities.follow(header, &bytes[at..]);
                }
            }
            at += size;
        }
        self.writer.records(&bytes[run.min(bytes.len())..])?;
        self.writer.finish_round()
    }

    /// Returns the error with the file that contains the samples recorded so far.
    fn salvage(&mut self, path: &Path, error: anyhow::Error) -> anyhow::Error {
        if let Some(SourceError::Command(_)) = error.downcast_ref() {
            // No target was running.
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
        let kept = kept.map(|kept| format!("; the samples so far are in {}", kept.display()));
        anyhow::anyhow!("{why}{}", kept.unwrap_or_default())
    }

    /// Writes how many samples each event lost, as perf does. Records of losses count records of any type, and do not
    /// know their events.
    fn write_losses(&mut self) -> std::io::Result<()> {
        let mut out = Vec::new();
        self.written_losses.resize(self.info.events.len(), 0);
        for (event, written) in (0..).zip(&mut self.written_losses) {
            let counted = self.ledger.losses_of(event).counted;
            let lost = counted.saturating_sub(std::mem::replace(written, counted));
            let desc = &self.info.events[usize::from(event)];
            let Some(id) = desc.ids.first().filter(|_| lost > 0) else { continue };
            let trailer = desc.layout().encode_trailer(&SampleId { id: *id, ..SampleId::default() });
            let _ = encode(&mut out, types::LOST_SAMPLES, 0, |record| {
                record.extend_from_slice(&lost.to_le_bytes());
                record.extend_from_slice(&trailer);
            });
        }
        self.writer.records(&out)
    }

    fn complete(&mut self) -> anyhow::Result<PathBuf> {
        let path = self.series.name();
        self.write_losses()?;
        let RecordSink::File(writer) = &mut self.writer else {
            self.bytes += self.writer.written();
            return Ok(path);
        };
        let mut sections = described(&self.info)?;
        sections.push(recorder_of(self.args, &self.info));
        sections.push(features::sample_time(self.span.0.min(self.span.1), self.span.1));
        sections.extend(features::clock());
        let named: Vec<NamedContainer> = self.named.values().cloned().collect();
        sections.extend(names_of(&named));
        if let Some(identities) = &self.identities {
            let mut files = identities.list().to_vec();
            // Without it, perf does not name interpreted functions.
            files.extend(self.functions.put_in_cache().into_iter().flatten());
            sections.extend(build_ids::sections(&files));
        }
        writer.call(path.file_name().unwrap_or_default());
        self.bytes += writer.finish(sections, &self.info.events)?;
        self.series.ended(&path)?;
        Ok(path)
    }
}

fn running(chosen: Option<Vec<i32>>, info: &Info) -> Session {
    let mut session = Session::new(Origin::Live);
    session.data_maps = info.events.iter().any(|event| event.attr.stack_user > 0);
    for pid in chosen.unwrap_or_else(procfs::processes) {
        for tid in procfs::threads(pid) {
            session.task(pid, tid);
        }
    }
    session
}

fn told(session: &Session, info: &Info) -> Vec<u8> {
    let mut out = Vec::new();
    SideWriter::new(&session.dsos, session.log(), info.events[0].layout()).until(u64::MAX, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::kernel::attr::{Attr, TYPE_TRACEPOINT};
    use crate::kernel::fake::FakeSys;
    use crate::kernel::limits::Rights;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        record: RecordArgs,
    }

    /// Samples by period would have other fields and ids than the event in the file.
    #[test]
    fn a_flood_is_recorded_as_it_is() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("x.data").display().to_string();
        let words = ["x", "-a", "-e", "cpu-clock", "--call-graph", "no", "-o", &file];
        let args = Line::try_parse_from(words).map(|line| line.record).expect("parsed");
        let rights = Rights::read();
        let mut config = source_config::config(&args.sampling, &rights).expect("a config");
        let tracepoint = Some(("x".to_owned(), "floods".to_owned()));
        config.events =
            vec![Event { tracepoint, attr: Attr { kind: TYPE_TRACEPOINT, ..Attr::default() }, ..Event::cpu_clock() }];
        let sys = FakeSys::new(|_, _, _| Ok(())).flooded();
        let log = sys.log.clone();
        let count = |what: &str| log.lock().iter().filter(|line| line.starts_with(what)).count();
        let mut source = LiveSource::start(config, Box::new(sys), rights).expect("started");
        let mut recorder = Recorder::start(&source, &args, &[]).expect("a file");
        let (open, stop) = (count("open"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The rate of hits is known after the second reading.
                while count("counts") < 2 * open {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                stop.store(true, Ordering::Relaxed);
            });
            recorder.record(&mut source, None, &stop).expect("recorded");
        });
        assert_eq!(count("open"), open);
    }
}
