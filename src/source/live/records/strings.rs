//! String arguments of system calls: a BPF program in the kernel writes them as a separate record before each call's
//! record. This module joins the two into one, in the layout of [`crate::event::tracepoint::strings::Strings`].

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, OwnedFd};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::strings::Strings as Fields;
use crate::event::{Event, format::Format, tracepoint};
use crate::kernel::attr::{Attr, TYPE_TRACEPOINT, sample};
use crate::kernel::bpf::calls::LoadError;
use crate::kernel::strings::{LONGEST, ProgramOutputs, UserDataLayout};
use crate::kernel::sys::{Ioctl, Sys};
use crate::record::Layout;
use crate::record::kinds::{HEADER, Header, types};
use crate::record::sample::ChainPlace;

use crate::source::live::capture::refused_program;

/// Offsets in a program's record: header, id, task, then its bytes after their size.
const TASK_AT: usize = HEADER + 8;
const WRITTEN_AT: usize = HEADER + 20;

#[derive(Debug, Default)]
pub(crate) struct TracedStrings {
    /// The fields of each tracepoint's records, by its number; `None` for those without strings.
    fields: FxHashMap<u64, Option<Fields>>,
    outlets: Option<ProgramOutputs>,
    writers: BTreeMap<u32, OwnedFd>,
    /// For each tracepoint with strings, the event that has the program. The program runs for all calls on the machine,
    /// so one event suffices; it never counts.
    carriers: FxHashMap<u64, OwnedFd>,
    has_failed: bool,
    pub(crate) joints: StringJoiner,
}

impl TracedStrings {
    /// Reads the strings of an event's samples on a CPU. Returns a message the first time that this fails.
    pub(crate) fn open(&mut self, sys: &dyn Sys, event: &Event, at: &OpenedEvent<'_>) -> Option<String> {
        let number = event.attr.config;
        let fields = self.fields.entry(number).or_insert_with(|| fields_of(event)).clone()?;
        self.joints.learn(at.id, number, &fields, at.attr);
        if self.has_failed {
            return None;
        }
        let error = self.try_open(sys, number, &fields, at).err()?;
        self.has_failed = true;
        let (reason, remedy) = refused_program(&error, "without it they are shown as addresses.");
        Some(format!("string arguments of system calls are not read: {reason}. {remedy}").trim_end().to_owned())
    }

    fn try_open(&mut self, sys: &dyn Sys, number: u64, fields: &Fields, at: &OpenedEvent<'_>) -> Result<(), LoadError> {
        let outlets = match &mut self.outlets {
            Some(outlets) => outlets,
            none => none.insert(ProgramOutputs::new()?),
        };
        if !self.writers.contains_key(&at.cpu) {
            let writer = sys.open(at.writer, -1, at.cpu as i32, None, None)?;
            sys.ioctl(writer.as_fd(), Ioctl::SetOutput(at.owner.as_fd()))?;
            self.joints.writers.insert(sys.ioctl(writer.as_fd(), Ioctl::Id)?);
            outlets.write_by(at.cpu, writer.as_fd())?;
            sys.ioctl(writer.as_fd(), Ioctl::Enable)?;
            self.writers.insert(at.cpu, writer);
        }
        if let Entry::Vacant(place) = self.carriers.entry(number) {
            let program = outlets.load(number, &fields.addresses, fields.bytes)?;
            let attr = Attr { kind: TYPE_TRACEPOINT, config: number, ..Attr::default() };
            let carrier = sys.open(&attr, -1, at.cpu as i32, None, None)?;
            sys.ioctl(carrier.as_fd(), Ioctl::SetBpf(program.as_fd()))?;
            place.insert(carrier);
        }
        Ok(())
    }

    /// Returns the event by which the programs write to a CPU's ring.
    pub(crate) fn writer(&self, cpu: u32) -> Option<&OwnedFd> {
        self.writers.get(&cpu)
    }

    pub(crate) fn close_cpu(&mut self, cpu: u32) {
        self.writers.remove(&cpu);
        self.joints.waiting.remove(&cpu);
    }

    pub(crate) fn keep(&mut self, is_open: impl Fn(u64) -> bool) {
        self.carriers.retain(|number, _| is_open(*number));
    }
}

pub(crate) struct OpenedEvent<'a> {
    pub(crate) cpu: u32,
    pub(crate) id: u64,
    pub(crate) attr: &'a Attr,
    pub(crate) owner: &'a OwnedFd,
    pub(crate) writer: &'a Attr,
}

fn fields_of(event: &Event) -> Option<Fields> {
    let (system, name) = event.tracepoint.as_ref().filter(|(system, _)| system == "syscalls")?;
    let text = tracepoint::format(&tracepoint::root().ok()?, system, name).ok()?;
    Fields::of(&Format::parse(system, &text, cfg!(target_endian = "big"))?)
}

#[derive(Clone, Copy, Debug)]
struct Joint {
    tracepoint: u64,
    chain: ChainPlace,
    /// The offset of the words that locate strings in the raw data.
    at: usize,
    layout: UserDataLayout,
}

#[derive(Debug, Default)]
pub(crate) struct StringJoiner {
    writers: FxHashSet<u64>,
    samples: FxHashMap<u64, Joint>,
    /// For each ring, the record that was written last.
    waiting: BTreeMap<u32, Vec<u8>>,
}

impl StringJoiner {
    fn learn(&mut self, id: u64, tracepoint: u64, fields: &Fields, attr: &Attr) {
        let chain = ChainPlace::of(attr.sample_type).filter(|_| attr.sample_type & sample::RAW != 0);
        let layout = UserDataLayout { strings: fields.addresses.len(), bytes: fields.bytes.map(|(_, bytes)| bytes) };
        let at = fields.at;
        self.samples.extend(chain.map(|chain| (id, Joint { tracepoint, chain, at, layout })));
    }

    pub(crate) fn is_used(&self) -> bool {
        !self.samples.is_empty()
    }

    pub(super) fn of_ring(&mut self, cpu: u32) -> RingStrings<'_> {
        RingStrings { writers: &self.writers, samples: &self.samples, waiting: self.waiting.entry(cpu).or_default() }
    }
}

/// The strings of a CPU's ring.
pub(super) struct RingStrings<'a> {
    writers: &'a FxHashSet<u64>,
    samples: &'a FxHashMap<u64, Joint>,
    waiting: &'a mut Vec<u8>,
}

impl RingStrings<'_> {
    pub(super) fn is_writer(&self, id: u64) -> bool {
        self.writers.contains(&id)
    }

    /// Joins the record at the end of `out`, from `from` on. Returns `false` for a program's own record.
    pub(super) fn join(&mut self, header: Header, out: &mut Vec<u8>, from: usize) -> bool {
        let record = &out[from..];
        if header.kind == types::LOST {
            self.waiting.clear();
        }
        let id = (header.kind == types::SAMPLE).then(|| Layout::identifier(header.kind, &record[HEADER..]));
        let Some(id) = id.flatten() else { return true };
        if self.writers.contains(&id) {
            self.waiting.clear();
            self.waiting.extend_from_slice(record);
            return false;
        }
        if let Some(whole) = self.samples.get(&id).and_then(|joint| joint.complete(record, self.waiting)) {
            out.truncate(from);
            out.extend_from_slice(&whole);
        }
        true
    }
}

impl Joint {
    /// Returns the sample with its strings, or without them if the record belongs to another call.
    fn complete(&self, record: &[u8], waiting: &[u8]) -> Option<Vec<u8>> {
        let [_, _, data] = self.chain.split(record)?;
        let (size, behind) = data.split_first_chunk()?;
        let (raw, rest) = behind.split_at_checked(u32::from_le_bytes(*size) as usize)?;
        let mut whole = raw.get(..self.at)?.to_vec();
        let written = waiting.get(WRITTEN_AT..).unwrap_or_default();
        let is_its = UserDataLayout::of(written) == Some(self.tracepoint)
            && record.get(HEADER + 16..HEADER + 24) == waiting.get(TASK_AT..TASK_AT + 8);
        let written = Some(written).filter(|_| is_its).unwrap_or_default();
        self.add_read(written, &mut whole)?;
        // The size has four bytes, and the total consists of 64-bit words.
        whole.resize((whole.len() + 4).next_multiple_of(8) - 4, 0);
        let mut out = record[..record.len() - data.len()].to_vec();
        out.extend_from_slice(&(whole.len() as u32).to_le_bytes());
        out.append(&mut whole);
        out.extend_from_slice(rest);
        let size = u16::try_from(out.len()).ok()?;
        out[6..HEADER].copy_from_slice(&size.to_le_bytes());
        Some(out)
    }

    /// Adds the location of each string, the bytes, then the strings.
    fn add_read(&self, written: &[u8], whole: &mut Vec<u8>) -> Option<()> {
        let mut texts = Vec::new();
        let strings = self.layout.strings;
        let most = self.layout.bytes.map_or(0, |bytes| bytes.most);
        for i in 0..strings {
            let text = self.layout.string(written, i).unwrap_or_default();
            // Truncated strings are marked like the kernel does. A string that was not read has length 0, but an offset
            // to a NUL, because perf only looks for the NUL.
            let (text, end): (_, &[u8]) = match text.len() {
                0 => (text, b"\0"),
                len @ LONGEST.. => (&text[..len - 1], b"...\0"),
                _ => (text, b""),
            };
            let offset = self.at + 4 * strings + most + texts.len();
            let len = if text.is_empty() { 0 } else { text.len() + end.len() };
            whole.extend_from_slice(&u32::try_from(offset | len << 16).ok()?.to_le_bytes());
            texts.extend_from_slice(text);
            texts.extend_from_slice(end);
        }
        match (self.layout.user_bytes(written), self.layout.bytes) {
            (Some(read), _) => whole.extend_from_slice(read),
            (None, of) => whole.resize(whole.len() + most, of.map_or(0, |bytes| bytes.unread)),
        }
        whole.extend(texts);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pipeline::RecordPipeline;
    use super::*;
    use crate::kernel::attr::sample::{CALLCHAIN, CGROUP, CPU, IDENTIFIER, IP, PERIOD, RAW, TID, TIME};
    use crate::kernel::strings::UserBytes;
    use crate::record::kinds::{WholeRecords, tests};

    impl StringJoiner {
        pub(crate) fn writing_by(writer: u64) -> Self {
            Self { writers: FxHashSet::from_iter([writer]), ..Self::default() }
        }
    }

    const KIND: u64 = IDENTIFIER | IP | TID | TIME | CPU | PERIOD | CALLCHAIN | RAW | CGROUP;
    const CALL: u64 = 600;

    fn record(words: &[u64], bytes: &[u8], rest: &[u64]) -> Vec<u8> {
        let size = (bytes.len() as u32).to_le_bytes();
        let body = [&tests::bytes(words)[..], &size, bytes, &tests::bytes(rest)].concat();
        tests::record(types::SAMPLE, 0, &body)
    }

    fn call(task: u64) -> Vec<u8> {
        let mut raw = vec![7; 32];
        raw.extend([0; 4]);
        record(&[1, 0x10, task, 5, 0, 1, 2, 0xa, 0xb], &raw, &[77])
    }

    fn written(task: u64, tag: u64, strings: [&[u8]; 2]) -> Vec<u8> {
        let mut bytes = tag.to_le_bytes().to_vec();
        for string in strings {
            let length = if string.is_empty() { -14 } else { string.len() as i64 };
            bytes.extend(length.to_le_bytes());
        }
        for string in strings {
            bytes.extend(string);
        }
        bytes.resize((bytes.len() + 4).next_multiple_of(8) - 4, 0);
        record(&[9, task], &bytes, &[])
    }

    fn read(pieces: &[Vec<u8>]) -> Vec<[Option<String>; 2]> {
        let mut joints = StringJoiner::default();
        joints.writers.insert(9);
        let fields = Fields { addresses: vec![16, 24], at: 32, bytes: None };
        joints.learn(1, CALL, &fields, &Attr { sample_type: KIND, ..Attr::default() });
        let out =
            RecordPipeline { strings: Some(&mut joints), ..RecordPipeline::default() }.passed(0, &pieces.concat());
        let layout = Layout { sample_type: KIND, id_all: true, ..Layout::default() };
        let (mut found, mut all) = (Vec::new(), WholeRecords { rest: &out });
        for (header, record) in all.by_ref().filter(|(header, _)| header.kind == types::SAMPLE) {
            let sample = layout.sample(header, &record[HEADER..]).expect("whole");
            assert_eq!((sample.cgroup, sample.raw.len() % 8, &sample.raw[..32]), (77, 4, &[7; 32][..]));
            let text = |i: usize| {
                let word = u32::from_le_bytes(*sample.raw[32 + 4 * i..].first_chunk().expect("word"));
                let (offset, len) = ((word & 0xffff) as usize, (word >> 16) as usize);
                (len > 0).then(|| crate::event::format::text(&sample.raw[offset..offset + len]))
            };
            found.push([text(0), text(1)]);
        }
        assert!(all.rest.is_empty());
        found
    }

    #[test]
    fn a_call_gets_the_strings_that_were_written_for_it() {
        let some = |text: &str| Some(text.to_owned());
        let long = [b'x'; LONGEST];
        let cut = "x".repeat(LONGEST - 1) + "...";
        let lost = [&types::LOST.to_le_bytes()[..], &[0, 0, 24, 0], &[0; 16]].concat();
        let ours = || written(5, CALL, [b"/a\0", b"/bc\0"]);
        for (pieces, want) in [
            (vec![ours(), call(5), call(5)], vec![[some("/a"), some("/bc")], [some("/a"), some("/bc")]]),
            (vec![written(5, CALL, [b"", b"\0"]), call(5)], vec![[None, some("")]]),
            (vec![written(5, CALL, [&long, b"y\0"]), call(5)], vec![[Some(cut), some("y")]]),
            (vec![call(5)], vec![[None, None]]),
            (vec![ours(), call(6)], vec![[None, None]]),
            (vec![written(5, CALL + 1, [b"/a\0", b"/b\0"]), call(5)], vec![[None, None]]),
            (vec![ours(), lost, call(5)], vec![[None, None]]),
        ] {
            assert_eq!(read(&pieces), want);
        }
    }

    #[test]
    fn a_futex_gets_the_words_that_were_read_for_it() {
        let read = |task: u64, result: u64| {
            let mut bytes = [CALL.to_le_bytes(), result.to_le_bytes()].concat();
            bytes.extend([2u32, 1, 77].into_iter().flat_map(u32::to_le_bytes));
            record(&[9, task], &bytes, &[])
        };
        for (task, result, want) in [(5, 0, [2, 1, 77]), (5, u64::MAX - 13, [0; 3]), (6, 0, [0; 3])] {
            let mut joints = StringJoiner::writing_by(9);
            let fields = Fields { addresses: Vec::new(), at: 32, bytes: Some((16, UserBytes::FUTEX)) };
            joints.learn(1, CALL, &fields, &Attr { sample_type: KIND, ..Attr::default() });
            let mut pipeline = RecordPipeline { strings: Some(&mut joints), ..RecordPipeline::default() };
            let out = pipeline.passed(0, &[read(task, result), call(5)].concat());
            let layout = Layout { sample_type: KIND, id_all: true, ..Layout::default() };
            let samples = WholeRecords { rest: &out }.filter(|(header, _)| header.kind == types::SAMPLE);
            let words: Vec<[u32; 3]> = samples
                .map(|(header, record)| {
                    let raw = layout.sample(header, &record[HEADER..]).expect("whole").raw;
                    [32, 36, 40].map(|at| u32::from_le_bytes(*raw[at..].first_chunk().expect("word")))
                })
                .collect();
            assert_eq!(words, [want]);
        }
    }

    #[test]
    fn damaged_records_pass_as_they_are() {
        let mut short = call(5);
        short[HEADER + 6 * 8] = 200;
        let mut joints = StringJoiner::default();
        joints.learn(
            1,
            CALL,
            &Fields { addresses: vec![16], at: 32, bytes: None },
            &Attr { sample_type: KIND, ..Attr::default() },
        );
        let mut pipeline = RecordPipeline { strings: Some(&mut joints), ..RecordPipeline::default() };
        assert_eq!(pipeline.passed(0, &short), short);
    }
}
