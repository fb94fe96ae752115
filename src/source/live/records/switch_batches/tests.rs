//! Tests of the decoder of batches.

use super::super::pipeline::RecordPipeline;
use super::*;
use crate::damage;
use crate::kernel::attr::{Attr, Flag};
use crate::kernel::switch_batches::{SwitchRecorder, stored};
use crate::perfdata::layout;
use crate::record::kinds::{WholeRecords, tests};

const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;\n\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";
const WAKEUP: &str = "name: sched_wakeup\nID: 374\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\tfield:int success;\toffset:32;\tsize:4;\tsigned:1;\n\tfield:int target_cpu;\toffset:36;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";

const CPU: u32 = 3;
const WRITER: u64 = 9;
const N: usize = EVENTS as usize;

fn format(text: &str) -> Format {
    Format::parse("sched", text, false).expect("parsed")
}

fn usual() -> Layout {
    let mut attr = Attr { sample_type: FIELDS, ..Attr::default() };
    attr.set(Flag::SampleIdAll, true);
    layout(&attr)
}

fn decoder() -> BatchedEvents {
    let mut out = BatchedEvents { writers: FxHashSet::from_iter([WRITER]), ..BatchedEvents::default() };
    for (kind, text) in [(SchedEventKind::Switch, SWITCH), (SchedEventKind::Wakeup, WAKEUP)] {
        let of = BatchedSample::of(kind, (kind as usize, 100 + kind as u64), FIELDS, &format(text));
        out.samples.insert(kind, of.expect("known fields"));
    }
    out.begin(CPU, 0, 0);
    out
}

/// Switches with their numbers as times.
fn events(numbers: std::ops::Range<u64>) -> Vec<u8> {
    numbers.flat_map(|n| stored(0, n, (6, 7), 8, 1)).collect()
}

/// A full batch.
fn record(first: u64) -> Vec<u8> {
    let data = [&first.to_ne_bytes()[..], &events(first..first + EVENTS), &[0; 4]].concat();
    let size = (data.len() as u32).to_le_bytes();
    tests::record(types::SAMPLE, 0, &[&WRITER.to_le_bytes()[..], &[0; 8], &size, &data].concat())
}

/// Returns the times of samples, and the numbers of lost events as negative numbers.
fn times(batch: &Batch) -> Vec<i64> {
    let of = |(header, record): (Header, &[u8])| match header.kind {
        types::SAMPLE => usual().sample(header, &record[HEADER..]).expect("whole").time as i64,
        _ => -(u64_at(record, HEADER + 8).expect("a number") as i64),
    };
    let found: Vec<i64> = WholeRecords { rest: &batch.bytes }.map(of).collect();
    assert_eq!(found.len(), batch.index.len());
    found
}

fn partial(first: u64, n: u64) -> PartialBatch {
    PartialBatch { first, events: events(first..first + n), lost: 0 }
}

fn count(from: u64, until: u64) -> Vec<i64> {
    (from as i64..until as i64).collect()
}

#[test]
fn an_event_becomes_the_sample_of_its_tracepoint() {
    let (mut decoder, mut batch) = (decoder(), Batch::default());
    let events = [stored(0, 99, (6, 7), 8, 1), stored(1, 100, (6, 7), 8, 2)].concat();
    decoder.add_partial(CPU, &PartialBatch { first: 0, events, lost: 0 }, &usual(), &mut batch);
    let all: Vec<(Header, &[u8])> = WholeRecords { rest: &batch.bytes }.collect();
    let [switch, wakeup] = [0, 1].map(|at| usual().sample(all[at].0, &all[at].1[HEADER..]).expect("whole"));
    assert_eq!((switch.id, switch.pid, switch.tid, switch.time), (100, 6, 7, 99));
    assert_eq!((switch.cpu, switch.period, switch.cgroup, switch.chain.len()), (CPU, 1, 55, 0));
    assert_eq!(all[0].0.misc, misc::KERNEL);
    let text = |text: &str, raw: &[u8], name: &str| format(text).field(name).expect("a field").text(raw);
    let fields = |of: &str, raw: &[u8], names: &[&str]| -> Vec<String> {
        names.iter().map(|name| text(of, raw, name)).collect()
    };
    let names = ["common_type", "common_pid", "prev_comm", "prev_pid", "prev_prio", "prev_state"];
    assert_eq!(fields(SWITCH, switch.raw, &names), ["372", "7", "leaves", "7", "120", "1"]);
    assert_eq!(fields(SWITCH, switch.raw, &["next_comm", "next_pid", "next_prio"]), ["comes", "8", "-1"]);
    let names = ["common_type", "common_pid", "comm", "pid", "prio", "success", "target_cpu"];
    assert_eq!(fields(WAKEUP, wakeup.raw, &names), ["374", "7", "comes", "8", "-1", "1", "2"]);
    assert_eq!((switch.raw.len(), wakeup.raw.len()), (68, 44), "as the kernel pads them");
    assert_eq!(decoder.take_counts(), ([(0, 1), (1, 1)].into(), 0));
}

#[test]
fn other_fields_are_refused() {
    let of =
        |sample_type: u64, text: &str| BatchedSample::of(SchedEventKind::Switch, (0, 1), sample_type, &format(text));
    assert!(of(FIELDS, SWITCH).is_some() && of(sample::TIME | sample::RAW, SWITCH).is_some());
    assert!(of(FIELDS | sample::ADDR, SWITCH).is_none() && of(FIELDS, WAKEUP).is_none());
    assert!(of(FIELDS, &SWITCH.replace("offset:60", "offset:600000000000")).is_none());
}

/// Partly filled buffers are read between batches.
#[test]
fn each_event_is_read_once() {
    let (mut decoder, mut batch) = (decoder(), Batch::default());
    let layout = usual();
    decoder.add_partial(CPU, &partial(0, 5), &layout, &mut batch);
    decoder.add_partial(CPU, &partial(0, 5), &layout, &mut batch);
    decoder.add_partial(CPU, &partial(0, 9), &layout, &mut batch);
    assert_eq!(times(&batch), count(0, 9));
    decoder.expand(CPU, &record(0), &layout, &mut batch);
    decoder.expand(CPU, &record(EVENTS), &layout, &mut batch);
    decoder.add_partial(CPU, &partial(2 * EVENTS, 1), &layout, &mut batch);
    decoder.add_partial(CPU, &partial(2 * EVENTS, 0), &layout, &mut batch);
    assert_eq!(times(&batch), count(0, 2 * EVENTS + 1));
    assert_eq!(decoder.next(CPU), 2 * EVENTS + 1);
    // Of another CPU, nothing is read.
    decoder.add_partial(CPU + 1, &partial(0, 5), &layout, &mut batch);
    decoder.expand(CPU + 1, &record(0), &layout, &mut batch);
    assert_eq!(times(&batch).len(), 2 * N + 1);
}

#[test]
fn lost_batches_are_lost_events() {
    let (mut decoder, mut batch) = (decoder(), Batch::default());
    let layout = usual();
    decoder.add_partial(CPU, &partial(0, 10), &layout, &mut batch);
    decoder.expand(CPU, &record(3 * EVENTS), &layout, &mut batch);
    let lost = 3 * EVENTS - 10;
    assert_eq!(times(&batch), [count(0, 10), vec![-(lost as i64)], count(3 * EVENTS, 4 * EVENTS)].concat());
    assert_eq!(decoder.take_counts(), ([(0, 10 + EVENTS)].into(), lost));
    batch.clear();
    decoder.expand(CPU, &record(0), &layout, &mut batch);
    assert!(batch.bytes.is_empty(), "an older one");
    // Interrupted programs count, too.
    decoder.add_partial(CPU, &PartialBatch { lost: 2, ..partial(4 * EVENTS, 1) }, &layout, &mut batch);
    decoder.add_partial(CPU, &PartialBatch { lost: 2, ..partial(4 * EVENTS, 1) }, &layout, &mut batch);
    assert_eq!(times(&batch), [4 * EVENTS as i64, -2]);
}

/// The record of a full buffer may come after the ring was read, but not after the next reading.
#[test]
fn a_record_that_comes_late_is_not_lost() {
    let (mut decoder, mut batch) = (decoder(), Batch::default());
    let layout = usual();
    decoder.add_partial(CPU, &partial(EVENTS, 3), &layout, &mut batch);
    assert!(batch.bytes.is_empty());
    decoder.expand(CPU, &record(0), &layout, &mut batch);
    decoder.add_partial(CPU, &partial(EVENTS, 3), &layout, &mut batch);
    assert_eq!(times(&batch), count(0, EVENTS + 3));
    batch.clear();
    decoder.add_partial(CPU, &partial(2 * EVENTS, 1), &layout, &mut batch);
    assert!(batch.bytes.is_empty());
    decoder.add_partial(CPU, &partial(2 * EVENTS, 1), &layout, &mut batch);
    assert_eq!(times(&batch), [-(EVENTS as i64 - 3), 2 * EVENTS as i64]);
}

#[test]
fn batches_are_replaced_by_their_samples_among_other_records() {
    let recorder = SwitchRecorder::staged();
    let mut decoder = decoder();
    decoder.begin(0, 0, 0);
    let other = tests::record(types::SAMPLE, 0, &tests::bytes(&[1, 0x10, 5, 7]));
    let bytes = [&other[..], &record(0), &other].concat();
    let switches = Some((&recorder, &mut decoder));
    let out = RecordPipeline { switches, layout: usual(), ..RecordPipeline::default() }.passed(0, &bytes);
    let kinds: Vec<u64> = WholeRecords { rest: &out }.filter_map(|(_, record)| u64_at(record, HEADER)).collect();
    assert_eq!(kinds, [vec![1], vec![100; N], vec![1]].concat());
}

#[test]
fn damage_is_no_panic() {
    let layout = usual();
    for odd in damage::each_byte(&record(0)[..EVENTS_AT + 2 * EVENT]).chain([vec![], vec![0; HEADER]]) {
        let (mut decoder, mut batch) = (decoder(), Batch::default());
        let mut whole = record(0);
        whole[..odd.len()].copy_from_slice(&odd);
        for record in [&odd, &whole] {
            decoder.expand(CPU, record, &layout, &mut batch);
            decoder.expand(CPU, record, &layout, &mut batch);
        }
        decoder.add_partial(CPU, &PartialBatch { first: u64::MAX, events: odd, lost: 0 }, &layout, &mut batch);
    }
}
