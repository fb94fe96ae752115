//! Tasks without a number in our own PID namespace, if it is not the outermost one: the kernel gives their samples the
//! number of the idle tasks, and tracepoints contain the kernel's own numbers.

use rustc_hash::FxHashMap;

use crate::event::format::Format;
use crate::event::{Event, tracepoint};
use crate::kernel::attr::{Attr, sample};
use crate::kernel::procfs;
use crate::record::Layout;
use crate::record::in_place::{i32_at, put};
use crate::record::kinds::{HEADER, Header, encode_comm, misc, types};
use crate::record::sample::{CONTEXT_USER, ChainPlace};
use crate::session::{OUTSIDE, OUTSIDE_NAME};

/// The consequences, and the remedy.
pub(crate) const WORDS: &str = "in a nested PID namespace: processes outside it are merged as [outside], without function \
    names; use hostPID: true (a pod) or --pid host (Docker, Podman)";

/// The maximum number of cached task numbers; beyond it, all are learned again.
const MAX: usize = 1 << 17;
const TASK_AT: usize = HEADER + 16;

#[derive(Debug, Default)]
pub(crate) struct OuterNamespaceTasks {
    samples: FxHashMap<u64, Place>,
    /// The number of each task here, by its kernel number.
    numbers: FxHashMap<i32, i32>,
}

/// The offsets of task numbers in samples of an id.
#[derive(Clone, Debug)]
struct Place {
    chain: ChainPlace,
    /// The offset of the running task's number in a tracepoint's data, and of any task's number.
    running: Option<usize>,
    tasks: Vec<usize>,
}

pub(crate) fn name(out: &mut Vec<u8>, trailer: &[u8]) {
    // A short name always fits.
    let _ = encode_comm(out, OUTSIDE, OUTSIDE, false, OUTSIDE_NAME.as_bytes(), trailer);
}

impl OuterNamespaceTasks {
    /// Returns the state for our own namespace; `None` if it is the outermost one.
    pub(crate) fn here() -> Option<Self> {
        (!procfs::sees_all_processes()).then(Self::default)
    }

    pub(crate) fn learn(&mut self, id: u64, event: &Event, attr: &Attr) {
        let format = event.tracepoint.as_ref().and_then(|(system, name)| {
            let text = tracepoint::format(&tracepoint::root().ok()?, system, name).ok()?;
            Format::parse(system, &text, cfg!(target_endian = "big"))
        });
        self.place(id, format.as_ref(), attr);
    }

    fn place(&mut self, id: u64, format: Option<&Format>, attr: &Attr) {
        let Some(chain) = ChainPlace::of(attr.sample_type) else { return };
        let has_raw = attr.sample_type & sample::RAW != 0;
        let fields = format.filter(|_| has_raw).map(|format| &*format.fields).unwrap_or_default();
        let running = |name: &str| name == "common_pid";
        let tasks = fields.iter().filter(|f| f.size == 4 && (f.kind == "pid_t" || running(&f.name)));
        let place = Place {
            chain,
            running: fields.iter().find(|field| running(&field.name)).map(|field| field.offset),
            tasks: tasks.map(|field| field.offset).collect(),
        };
        self.samples.insert(id, place);
    }

    /// Translates the tasks in a record to numbers here. Returns `false` for a record of a task without one.
    pub(super) fn translate(&mut self, header: Header, record: &mut [u8]) -> bool {
        if header.kind == types::SAMPLE {
            let place = Layout::identifier(header.kind, &record[HEADER..]).and_then(|id| self.samples.get(&id));
            if let Some(place) = place {
                place.translate(header, record, &mut self.numbers);
            }
        }
        let is_of_task = matches!(header.kind, types::COMM | types::MMAP | types::MMAP2 | types::FORK | types::EXIT);
        !is_of_task || i32_at(record, HEADER).is_none_or(|pid| pid > 0)
    }
}

impl Place {
    fn translate(&self, header: Header, record: &mut [u8], numbers: &mut FxHashMap<i32, i32>) {
        let Some([_, chain, data]) = self.chain.split(record) else { return };
        let data_at = record.len() - data.len();
        let in_user = header.misc & misc::CPUMODE_MASK == misc::USER || chain.as_chunks().0.contains(&CALLED_BY_USER);
        let running = self.running.and_then(|at| i32_at(data, 4 + at));
        let Some(tid) = i32_at(record, TASK_AT + 4) else { return };
        let is_outside = tid == 0 && (in_user || running.is_some_and(|number| number != 0));
        if let Some(number) = running.filter(|number| *number > 0) {
            if numbers.len() >= MAX {
                numbers.clear();
            }
            numbers.insert(number, if is_outside { OUTSIDE } else { tid });
        }
        if is_outside {
            put(record, TASK_AT, &OUTSIDE.to_le_bytes());
            put(record, TASK_AT + 4, &OUTSIDE.to_le_bytes());
        }
        for at in self.tasks.iter().map(|at| data_at + 4 + at) {
            if let Some(number) = i32_at(record, at).filter(|number| *number > 0) {
                put(record, at, &numbers.get(&number).copied().unwrap_or(OUTSIDE).to_le_bytes());
            }
        }
    }
}

/// The word before the user frames of a call chain.
const CALLED_BY_USER: [u8; 8] = CONTEXT_USER.to_le_bytes();

#[cfg(test)]
mod tests {
    use super::super::pipeline::RecordPipeline;
    use super::*;
    use crate::kernel::attr::sample::{CALLCHAIN, CPU, IDENTIFIER, IP, PERIOD, RAW, TID, TIME};
    use crate::record::kinds::tests;
    use crate::record::sample::CONTEXT_KERNEL;

    const KIND: u64 = IDENTIFIER | IP | TID | TIME | CPU | PERIOD | CALLCHAIN;
    const SWITCH: &str = "name: sched_switch\nID: 1\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\tfield:pid_t prev_pid;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:pid_t next_pid;\toffset:12;\tsize:4;\tsigned:1;\n\tfield:int prev_prio;\toffset:16;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";

    fn outside() -> OuterNamespaceTasks {
        let mut outside = OuterNamespaceTasks::default();
        outside.place(1, None, &Attr { sample_type: KIND, ..Attr::default() });
        let format = Format::parse("sched", SWITCH, false).expect("parses");
        outside.place(2, Some(&format), &Attr { sample_type: KIND | RAW, ..Attr::default() });
        outside
    }

    fn pair(low: i32, high: i32) -> u64 {
        u64::from(low as u32) | u64::from(high as u32) << 32
    }

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        tests::record(kind, misc, &tests::bytes(words))
    }

    fn sampled(mode: u16, tid: i32, chain: &[u64]) -> Vec<u8> {
        record(types::SAMPLE, mode, &[&[1, 0x10, pair(tid, tid), 5, 0, 1, chain.len() as u64], chain].concat())
    }

    fn switched(tid: i32, from: i32, to: i32) -> Vec<u8> {
        let data = [pair(28, 0), pair(from, from), pair(to, 77), 0];
        record(types::SAMPLE, misc::KERNEL, &[&[2, 0x10, pair(tid, tid), 5, 0, 1, 0], &data[..]].concat())
    }

    fn mended(outside: &mut OuterNamespaceTasks, record: &[u8]) -> Vec<u8> {
        RecordPipeline { outer: Some(outside), ..RecordPipeline::default() }.passed(0, record)
    }

    #[test]
    fn samples_of_others_are_not_those_of_idle_cpus() {
        let chain = [CONTEXT_KERNEL, 0xffff_0001, CONTEXT_USER, 0x20];
        for (mode, tid, chain, want) in [
            (misc::USER, 0, &[][..], OUTSIDE),
            (misc::KERNEL, 0, &chain[..], OUTSIDE),
            (misc::KERNEL, 0, &chain[..2], 0),
            (misc::USER, 7, &[][..], 7),
            (misc::KERNEL, 7, &chain[..], 7),
        ] {
            let got = mended(&mut outside(), &sampled(mode, tid, chain));
            assert_eq!(got, sampled(mode, want, chain), "{mode} {tid}");
        }
        let mut named = Vec::new();
        name(&mut named, &[]);
        assert!(memchr::memmem::find(&named, OUTSIDE_NAME.as_bytes()).is_some());
    }

    #[test]
    fn what_is_told_of_others_is_left_out() {
        let told = |kind, pid| record(kind, 0, &[pair(pid, pid), 0, 0, 0, 0]);
        let of = |pid| {
            let kinds = [types::COMM, types::MMAP, types::MMAP2, types::FORK, types::EXIT];
            kinds.map(|kind| told(kind, pid)).concat()
        };
        let lost = record(types::LOST, 0, &[0, 5]);
        let got = mended(&mut outside(), &[of(0), of(7), lost.clone(), of(-1)].concat());
        assert_eq!(got, [of(7), lost].concat());
    }

    #[test]
    fn tracepoints_have_the_numbers_of_here() {
        let mut outside = outside();
        let read = |record: Vec<u8>| [HEADER + 7 * 8 + 12, HEADER + 7 * 8 + 16].map(|at| i32_at(&record, at));
        let task = |record: &[u8]| i32_at(record, TASK_AT);
        // The next task is unknown until it has run.
        assert_eq!(read(mended(&mut outside, &switched(7, 1007, 1008))), [Some(7), Some(OUTSIDE)]);
        let other = mended(&mut outside, &switched(0, 1009, 1007));
        assert_eq!((read(other.clone()), task(&other)), ([Some(OUTSIDE), Some(7)], Some(OUTSIDE)));
        assert_eq!(read(mended(&mut outside, &switched(8, 1008, 0))), [Some(8), Some(0)]);
        let idle = mended(&mut outside, &switched(0, 0, 1008));
        assert_eq!((read(idle.clone()), task(&idle)), ([Some(0), Some(8)], Some(0)));
        assert_eq!(i32_at(&idle, HEADER + 7 * 8 + 20), Some(77), "other fields stay");
    }

    #[test]
    fn damaged_records_do_no_harm() {
        let whole = [switched(7, 1007, 0), sampled(misc::USER, 0, &[1, 2])].concat();
        for odd in crate::damage::each_byte(&whole) {
            let mended = mended(&mut outside(), &odd);
            assert!(mended.len() == odd.len() || odd.len() == whole.len());
        }
    }
}
