//! Synthetic recordings for events that no test machine measures.
//!
//! The fields of a sample are in the order of perf_event_open(2). One program is mapped: `spin` of tests/data/bin,
//! which is also the root of its files.

use std::path::Path;

use perfprof_tui::kernel::attr::{Attr, Flag};
use perfprof_tui::kernel::files::NewFile;
use perfprof_tui::perfdata::EventDesc;
use perfprof_tui::perfdata::features::{event_desc, string};
use perfprof_tui::perfdata::write::Writer;
use perfprof_tui::record::kinds::{encode, encode_comm};
use perfprof_tui::record::sample::SampleId;

/// `PERF_SAMPLE_*`.
pub mod has {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
    pub const ALWAYS: u64 = IDENTIFIER | IP | TID | TIME | CPU | PERIOD;
}

/// Load address of the program, and addresses in its functions.
pub const BASE: u64 = 0x5555_5555_0000;
pub const MAIN: u64 = BASE + 0x1080;
pub const ALPHA: u64 = BASE + 0x1210;
pub const GAMMA: u64 = BASE + 0x1250;
pub const MIDDLE: u64 = BASE + 0x12c8;
pub const BETA: u64 = BASE + 0x12f0;
/// A word of its data.
pub const DATA: u64 = BASE + 0x4010;

/// A sample.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    pub event: usize,
    pub ip: u64,
    pub period: u64,
    pub addr: u64,
    /// Leaf first, without context markers.
    pub chain: Vec<u64>,
    /// Newest first: from, to, flags.
    pub branches: Vec<[u64; 3]>,
    /// With `WEIGHT_STRUCT`, the weight is in the lower 32 bits, the latency above them.
    pub weight: u64,
    pub data_src: u64,
    pub transaction: u64,
    pub phys_addr: u64,
    pub data_page: u64,
    pub code_page: u64,
}

/// A hardware event by its number.
pub fn event(name: &str, config: u64, sample_type: u64) -> EventDesc {
    let mut attr = Attr { kind: 0, config, period_or_freq: 1000, sample_type, ..Attr::default() };
    for flag in [Flag::SampleIdAll, Flag::Mmap, Flag::Mmap2, Flag::Comm, Flag::Task, Flag::Inherit, Flag::ExcludeKernel]
    {
        attr.set(flag, true);
    }
    if sample_type & has::BRANCH_STACK != 0 {
        // Any branch, in user mode.
        attr.branch_sample_type = 1 | 1 << 3;
    }
    EventDesc { name: name.to_owned(), attr, ids: vec![100 + config] }
}

/// Writes a recording of the program's samples, one microsecond apart.
pub fn write(path: &Path, events: &[EventDesc], samples: &[Taken]) {
    let mut out = Vec::new();
    for (time, sample) in (1_000_000u64..).step_by(1000).zip(samples) {
        encode(&mut out, 9, 2, |body| body.extend(fields(&events[sample.event], sample, time))).expect("fits");
    }
    write_records(path, events, &out);
}

/// Writes a recording of the program with these records.
pub fn write_records(path: &Path, events: &[EventDesc], records: &[u8]) {
    let mut writer = Writer::start(NewFile::create(path).expect("created"), events).expect("begun");
    let trailer = |time| {
        let id = SampleId { pid: 77, tid: 77, time, id: events[0].ids[0], cpu: 0 };
        events[0].layout().encode_trailer(&id)
    };
    let mut out = Vec::new();
    encode_comm(&mut out, 77, 77, true, b"spin", &trailer(1)).expect("fits");
    // The code, and the data including pages that are not in the file.
    for (start, len, offset, prot) in [(0x1000, 0x1000, 0x1000, 5u32), (0x3000, 0x2000, 0x2000, 3)] {
        // User mode: PERF_RECORD_MISC_USER; data: PERF_RECORD_MISC_MMAP_DATA.
        let misc = if prot == 5 { 2 } else { 2 | 1 << 13 };
        encode(&mut out, 10, misc, |body| {
            body.extend([77u32, 77].iter().flat_map(|word| word.to_le_bytes()));
            body.extend([BASE + start, len, offset].iter().flat_map(|word: &u64| word.to_le_bytes()));
            body.extend([8u32, 1].iter().flat_map(|word| word.to_le_bytes()));
            body.extend([4711u64, 0].iter().flat_map(|word| word.to_le_bytes()));
            body.extend([prot, 2].iter().flat_map(|word| word.to_le_bytes()));
            body.extend(b"/spin\0\0\0");
            body.extend(trailer(2));
        })
        .expect("fits");
    }
    out.extend(records);
    writer.records(&out).expect("written");
    let machine = [(3, "here"), (4, "6.1.0"), (5, "6.1"), (6, "x86_64")];
    let mut sections: Vec<_> = machine.iter().map(|(bit, text)| (*bit, string(text))).collect();
    sections.push(event_desc(events));
    if events.iter().any(|event| event.attr.branch_sample_type != 0) {
        // HEADER_BRANCH_STACK has no content.
        sections.push((15, Vec::new()));
    }
    writer.finish(sections, events).expect("finished");
}

fn fields(event: &EventDesc, sample: &Taken, time: u64) -> Vec<u8> {
    let mut words: Vec<u64> = Vec::new();
    let kind = event.attr.sample_type;
    let mut put = |bit: u64, some: &[u64]| words.extend(some.iter().filter(|_| kind & bit != 0));
    put(has::IDENTIFIER, &event.ids[..1]);
    put(has::IP, &[sample.ip]);
    put(has::TID, &[77 << 32 | 77]);
    put(has::TIME, &[time]);
    put(has::ADDR, &[sample.addr]);
    put(has::CPU, &[0]);
    put(has::PERIOD, &[sample.period]);
    // PERF_CONTEXT_USER precedes the addresses.
    put(has::CALLCHAIN, &[sample.chain.len() as u64 + 1, -512i64 as u64]);
    put(has::CALLCHAIN, &sample.chain);
    put(has::BRANCH_STACK, &[sample.branches.len() as u64]);
    put(has::BRANCH_STACK, sample.branches.as_flattened());
    put(has::WEIGHT | has::WEIGHT_STRUCT, &[sample.weight]);
    put(has::DATA_SRC, &[sample.data_src]);
    put(has::TRANSACTION, &[sample.transaction]);
    put(has::PHYS_ADDR, &[sample.phys_addr]);
    put(has::DATA_PAGE_SIZE, &[sample.data_page]);
    put(has::CODE_PAGE_SIZE, &[sample.code_page]);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
