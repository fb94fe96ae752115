//! A live session with arbitrary kernel data: records of every type with arbitrary sizes, IDs and times, in batches to
//! the thread that owns the profile, with questions, requests, names and snapshots in between.

#![no_main]

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::unbounded;
use libfuzzer_sys::fuzz_target;
use perfprof_tui::engine::aggregator::{Aggregator, AggregatorEnds, AggregatorLinks};
use perfprof_tui::engine::symbolizer::{FoundLines, LookedUp};
use perfprof_tui::engine::{IntakeOptions, Options, Request, Snapshot, SourceMessage, UnitRequest};
use perfprof_tui::export::perfdata;
use perfprof_tui::filter::{Filter, KnownFields};
use perfprof_tui::kernel::attr::Flag;
use perfprof_tui::perfdata::EventDesc;
use perfprof_tui::query::column;
use perfprof_tui::query::diff::NormalizeBy;
use perfprof_tui::query::flame::Edit;
use perfprof_tui::query::flame::layout::{FlameDirection, FlameSpec};
use perfprof_tui::query::heat::{HeatBy, HeatSpec};
use perfprof_tui::query::{Age, Baseline, Question};
use perfprof_tui::record::kinds::{HEADER, split, types};
use perfprof_tui::session::hosts::HostId;
use perfprof_tui::session::{Origin, TimeMark};
use perfprof_tui::source::{
    Batch, CountReading, Counts, CpuCount, FreshId, Handover, Info, SamplingState, SourceEvent, recording,
};
use perfprof_tui::symbols::lines::InlinedFrame;
use perfprof_tui::symbols::{SymbolOptions, Symbolized};
use perfprof_tui::units::UNITS;
use perfprof_tui::units::kit::Settings;

const START: u64 = 1_000_000_000_000;
/// The longest column of a heat map.
const YEAR: u64 = 366 * 86_400 * 1_000_000_000;
/// Names of mappings, threads and functions, eight bytes at a time.
const TEXTS: [&[u8; 8]; 8] = [
    b"/bin/a\0\0",
    b"[heap]\0\0",
    b"//anon\0\0",
    b"[vdso]\0\0",
    b"/memfd:\0",
    b"[kernel.",
    b"\x1b[2J\nx\0\0",
    b"\0\0\0\0\0\0\0\0",
];
/// Markers in call chains (`enum perf_callchain_context`).
const CONTEXTS: [i64; 8] = [-32, -128, -512, -640, -2048, -2176, -2560, -4095];
const FILTERS: [&str; 6] =
    ["comm == a && !kernel", "pid in 0-5 || cpu == 1", "stack ~ \"*x*\"", "time > 1.5", "context == softirq", "x > -3"];

/// The fuzzer's input.
struct Words<'a> {
    rest: &'a [u8],
    /// The kernel's clock.
    now: u64,
}

impl Words<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    /// Returns a typical word of a record: a small number, an address, a context, a text, a time, two numbers, or
    /// anything.
    fn word(&mut self) -> Option<u64> {
        let first = self.byte()?;
        Some(match first {
            0..=0x8f => u64::from(first),
            0x90..=0x9f => 0x40_0000 + (u64::from(first & 15) << 12) + u64::from(self.byte()?),
            0xa0..=0xaf => 0xffff_ffff_8100_0000 + u64::from(self.byte()?),
            0xb0..=0xb7 => CONTEXTS[usize::from(first & 7)] as u64,
            0xb8..=0xbf => u64::from_le_bytes(*TEXTS[usize::from(first & 7)]),
            0xc0..=0xcf => self.now.wrapping_add_signed(i64::from(self.byte()? as i8) << (2 * (first & 15))),
            0xd0..=0xdf => u64::from(first & 15) << 32 | u64::from(self.byte()?),
            0xe0..=0xef => u64::MAX >> (4 * (first & 15)),
            _ => {
                let (raw, rest) = self.rest.split_first_chunk::<8>()?;
                self.rest = rest;
                u64::from_le_bytes(*raw)
            }
        })
    }

    /// Writes a record; most have a correct size.
    fn record(&mut self, kind: u32, out: &mut Vec<u8>) -> Option<()> {
        let (misc, count) = (self.byte()?, self.byte()?);
        let misc = u16::from(misc & 7) | u16::from(misc >> 3) << 11;
        let begin = out.len();
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&misc.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        for _ in 0..count & 31 {
            let word = self.word()?;
            out.extend_from_slice(&word.to_le_bytes());
        }
        let size = match count >> 5 {
            7 => usize::from(self.byte()?),
            6 => out.len() - begin + usize::from(self.byte()?),
            _ => out.len() - begin,
        };
        out[begin + 6..begin + HEADER].copy_from_slice(&(size as u16).to_le_bytes());
        Some(())
    }
}

/// The worker and all its channels.
struct Live {
    worker: Aggregator,
    ends: AggregatorEnds,
    batch: Batch,
}

impl Live {
    fn start(info: &Info, memory: usize) -> Self {
        let (links, ends) = AggregatorLinks::without_threads();
        // Files of this machine would make runs depend on it.
        let symbols =
            SymbolOptions { live: false, symfs: Some("/nonexistent".into()), kallsyms: None, ..SymbolOptions::live() };
        let options = Options {
            symbols,
            memory,
            keep: Some(60_000_000_000),
            watched: None,
            own_pid: Some(9),
            wants: IntakeOptions { traces: true, ..IntakeOptions::default() },
            refresh: Duration::ZERO,
            per_sample: None,
            realtime: None,
            no_inline: false,
        };
        let worker = Aggregator::new(info, options, links);
        Self { worker, ends, batch: Batch::default() }
    }

    /// Sends the pending batch, which is complete up to a time.
    fn feed(&mut self, until: Option<u64>) {
        let batch = Batch { complete_until: until, ..std::mem::take(&mut self.batch) };
        self.ends.shared.held.waiting.fetch_add(batch.bytes.len(), std::sync::atomic::Ordering::Relaxed);
        self.ends.batches.send(SourceMessage::Batch(Box::new(batch))).expect("the worker is here");
        assert!(self.worker.turn());
    }

    fn request(&mut self, request: Request) {
        self.ends.requests.send(request).expect("the worker is here");
        assert!(self.worker.turn());
    }

    /// Asks a question and checks the published answer: it must not contain more than was sent.
    fn ask(&mut self, question: Question) {
        self.ends.requests.send(Request::Ask(Arc::new(question))).expect("the worker is here");
        // A mark that does not exist is answered at once.
        self.request(Request::Unmark(usize::MAX));
        let answer = self.ends.shared.answer.load();
        assert!(answer.view.lines.len() <= 10_000 && answer.ledger.received >= answer.ledger.timed);
        while self.ends.notices.try_recv().is_ok() {}
    }

    /// Sends late names of any kind for some frames.
    fn name(&mut self, kind: u8, text: u64) {
        let name: Arc<str> = String::from_utf8_lossy(&text.to_le_bytes()).into();
        if let Ok(job) = self.ends.jobs.try_recv() {
            let found = |at: u64| {
                (kind & 1 == 0).then(|| Symbolized {
                    start: at & !0xff,
                    end: at.saturating_add(9),
                    name: name.clone(),
                    is_symbol: true,
                })
            };
            let frames = job.frames.iter().map(|one| (one.frame, one.dso.id, one.at, found(one.at))).collect();
            // Names of a profile that was restarted meanwhile.
            let epoch = job.epoch.wrapping_sub(u64::from(kind & 2));
            let named = LookedUp::of(epoch, frames);
            self.ends.names.send(named).expect("the worker is here");
            assert!(self.worker.turn());
        }
        if let Ok(job) = self.ends.line_jobs.try_recv() {
            let places = vec![InlinedFrame { function: Some(name), line: None }; usize::from(kind >> 4)];
            let frames = job.frames.iter().map(|one| (one.frame, one.dso.id, places.clone())).collect();
            self.ends
                .lines
                .send(FoundLines { epoch: job.epoch, frames, problems: Vec::new() })
                .expect("the worker is here");
            assert!(self.worker.turn());
        }
    }

    fn moment(&mut self) -> Box<Snapshot> {
        let (reply, saved) = unbounded();
        self.request(Request::Save(reply));
        saved.recv().expect("an answer")
    }
}

fn question(words: &mut Words<'_>, events: usize) -> Option<Question> {
    let (kind, text) = (words.byte()?, words.byte()?);
    let filter =
        |at: u8| Filter::parse_with(FILTERS[usize::from(at) % FILTERS.len()], KnownFields::Any).ok().map(Arc::new);
    let mut question = Question {
        generation: u64::from(text),
        event: usize::from(kind) % (events + 1),
        expand_all: text & 1 == 0,
        filter: (text & 2 == 0).then(|| filter(text >> 2)).flatten(),
        cpu: (text & 4 == 0).then_some(u16::from(text >> 3)),
        ..Question::default()
    };
    match kind % 8 {
        0 => question.range = Some((words.word()?, words.word()?)),
        1 => question.age = Age::Last(words.word()?),
        2 => question.age = Age::Half(words.word()?.max(1)),
        3 => {
            question.top.keys =
                (0..).zip(column::ALL).filter(|(i, _)| text >> (i % 8) & 1 == 1).map(|(_, entry)| entry.key).collect()
        }
        4 | 5 => {
            let name: Arc<str> = String::from_utf8_lossy(&words.word()?.to_le_bytes()).into();
            let way = [FlameDirection::Roots, FlameDirection::Leaves, FlameDirection::Around("x|a".into())]
                [usize::from(text % 3)]
            .clone();
            let edits = match text % 7 {
                0 => vec![Edit::Focus(name)],
                1 => vec![Edit::MergeFunction(name), Edit::CollapseChains],
                2 => vec![Edit::MergeDso(name), Edit::ByDso],
                3 => vec![Edit::CollapseRecursion],
                _ => Vec::new(),
            };
            let (width, height) = (u16::from(kind).max(1), u16::from(text & 31).max(1));
            question.flame = Some(FlameSpec {
                way,
                zoom: Vec::new(),
                edits,
                width,
                height,
                by_weight: kind & 8 == 0,
                find: None,
                frames_per_row: 1 + usize::from(kind & 3),
            });
        }
        6 => {
            let by = HeatBy::ALL[usize::from(text) % HeatBy::ALL.len()].0;
            let (length, page) = (words.word()?.clamp(1_000_000, YEAR), (kind & 8 == 0).then(|| u64::from(text)));
            question.heat = Some(HeatSpec {
                by,
                length,
                page,
                columns: usize::from(kind >> 2).max(1),
                rows: usize::from(text >> 3).max(1),
                lit: filter(kind),
            });
        }
        _ => {
            let per = [NormalizeBy::Total, NormalizeBy::Second, NormalizeBy::Nothing][usize::from(text % 3)];
            let range = (kind & 8 == 0).then_some((words.word()?, words.word()?));
            question.baseline = Some(Baseline {
                event: None,
                filter: filter(kind),
                other: false,
                per,
                split: Some(words.word()?),
                range,
            });
        }
    }
    Some(question)
}

fn events(head: &[u8; 16]) -> Vec<EventDesc> {
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    let one = |at: u64, name: &str| {
        let mut event = EventDesc::derived(name);
        // Nearly all have the fields of every session: identifier, address, thread, time, CPU and period.
        event.attr.sample_type = if head[15] & 4 == 0 { 0x1_0187 | word(0) & 0x1ff_fe28 } else { word(0) & 0x1ff_ffff };
        event.attr.read_format = word(8) & 0x1f;
        event.attr.branch_sample_type = word(8) >> 8 & 0x7_ffff;
        event.attr.regs_user = word(8) >> 32 & 0xffff;
        event.attr.period_or_freq = at;
        event.attr.set(Flag::SampleIdAll, head[15] & 1 == 0);
        event.attr.set(Flag::Freq, at == 0);
        event.ids = vec![at, 7 + at];
        event
    };
    let mut list = vec![one(0, "cpu-clock")];
    list[0].attr.kind = 1;
    if head[15] & 8 == 0 {
        list.push(one(1, "sched:sched_switch"));
    }
    list
}

fn step(words: &mut Words<'_>, live: &mut Live, began: &mut bool) -> Option<()> {
    match words.byte()? & 31 {
        kind @ 0..=20 => words.record(u32::from(kind) + 1, &mut live.batch.bytes)?,
        21..=23 => words.record(types::SAMPLE, &mut live.batch.bytes)?,
        24 => live.feed(Some(words.now)),
        25 => {
            let until = words.word()?;
            live.feed((until != 0).then_some(until));
        }
        26 => words.now = words.word()?,
        27 => {
            let question = question(words, 2)?;
            live.ask(question);
        }
        28 => {
            let (kind, text) = (words.byte()?, words.word()?);
            live.name(kind, text);
        }
        29 => {
            let (id, event) = (words.word()?, u16::from(words.byte()? & 3));
            let mut desc = EventDesc::derived("fresh");
            desc.attr.set(Flag::SampleIdAll, true);
            desc.attr.sample_type = words.word()? & 0x1ff_ffff;
            (desc.attr.regs_user, desc.attr.branch_sample_type) = (words.word()?, words.word()?);
            let fresh = FreshId { id, event, layout: desc.layout(), period: words.word()? };
            live.batch.events.push(SourceEvent::Id(fresh));
            let handover = Handover { at: words.word()?, old: vec![words.word()?], new: vec![fresh.id] };
            live.batch.events.push(SourceEvent::Handover(handover));
        }
        30 => {
            let (event, cpu) = (u16::from(words.byte()?), u32::from(words.byte()?));
            let (time, value) = (words.word()?, words.word()?);
            let count = CpuCount { event, cpu, time, value, running_percent: 50.0 };
            live.batch.events.push(SourceEvent::CpuCounts(vec![count]));
            let counts = Counts { value, enabled_ns: time, running_ns: words.word()?, lost: words.word()? };
            let reading = CountReading { at: time, of: vec![counts; usize::from(event & 3)] };
            live.batch.events.push(SourceEvent::Counts(reading));
        }
        _ => match words.byte()? & 7 {
            0 => live.request(Request::Freeze(words.byte()? & 1 == 1)),
            1 => live.request(Request::Clear),
            2 => live.request(Request::Inlined(words.byte()? & 1 == 1)),
            3 => {
                let at = words.word()?;
                let note = String::from_utf8_lossy(&words.word()?.to_le_bytes()).into_owned();
                live.request(Request::Mark(TimeMark { at, name: String::new(), note }));
            }
            4 if !*began => {
                *began = true;
                let spec = UNITS[usize::from(words.byte()?) % UNITS.len()];
                live.request(Request::Unit(UnitRequest::Start(spec, Settings::default())));
            }
            5 => {
                let state = SamplingState { frequency: words.word()?, n_cpus: 3, ..SamplingState::default() };
                live.batch.events.push(SourceEvent::Changed(state));
            }
            6 => drop(live.moment()),
            _ => live.batch.events.push(SourceEvent::Event(EventDesc::derived("late"))),
        },
    }
    Some(())
}

/// Checks that a saved snapshot is consistent, and a recording with the same number of samples.
fn check(moment: &Snapshot) {
    assert!(moment.stacks.parents().zip(0..).skip(1).all(|(parent, node)| parent < node));
    let file = tempfile::NamedTempFile::new().expect("file");
    let Ok(written) = perfdata::save(moment, HostId::default(), file.path(), &[], None) else { return };
    let mut source = recording::open(&[file.path().to_owned()]).expect("a recording");
    let mut samples = 0;
    loop {
        let mut batch = Batch::default();
        let step = perfprof_tui::source::Source::next(&mut *source, &mut batch).expect("whole");
        let mut rest = batch.bytes.as_slice();
        while let Ok(Some((header, _, after))) = split(rest) {
            samples += u64::from(header.kind == types::SAMPLE);
            rest = after;
        }
        assert!(batch.notes().next().is_none(), "{:?}", batch.events);
        if matches!(step, perfprof_tui::source::Progress::End(_)) {
            break;
        }
    }
    assert_eq!(samples, written.samples as u64);
}

fuzz_target!(|bytes: &[u8]| {
    let Some((head, rest)) = bytes.split_first_chunk::<16>() else { return };
    let info =
        Info { events: events(head), start: if head[15] & 2 == 0 { START } else { 0 }, ..Info::new(Origin::Live) };
    // Too little memory, so that samples are dropped.
    let memory = if head[15] & 16 == 0 { 1 << 30 } else { 1 << 12 };
    let mut live = Live::start(&info, memory);
    let mut words = Words { rest, now: START };
    let mut began = false;
    while step(&mut words, &mut live, &mut began).is_some() {}
    live.feed(Some(u64::MAX));
    live.ask(Question::default());
    let moment = live.moment();
    if head[15] & 32 != 0 {
        check(&moment);
    }
});
