//! Samples and the sample-id trailer of other records, decoded by an event's `sample_type` (perf_event_open(2),
//! PERF_RECORD_SAMPLE and `sample_id_all`).

use super::in_place::u64_at;
use super::kinds::{HEADER, Header, RecordCursor, RecordError, types};
use crate::perf_abi::{branch, read_format, sample as bit};

/// The leading fields of samples, a word each: those before the time, those before the period, and all.
const BEFORE_TIME: u64 = bit::IDENTIFIER | bit::IP | bit::TID;
const BEFORE_PERIOD: u64 = BEFORE_TIME | bit::TIME | bit::ADDR | bit::ID | bit::STREAM_ID | bit::CPU;
const FIRST: u64 = BEFORE_PERIOD | bit::PERIOD;

/// Call-chain words from here up are context markers, not addresses (`PERF_CONTEXT_MAX`).
pub(crate) const CONTEXT_MAX: u64 = -4095i64 as u64;
pub(crate) const CONTEXT_KERNEL: u64 = -128i64 as u64;
pub(crate) const CONTEXT_USER: u64 = -512i64 as u64;
/// The next word is not an address but a cookie, which identifies the later record with the user's part.
pub(crate) const CONTEXT_USER_DEFERRED: u64 = -640i64 as u64;
pub(crate) const CONTEXT_GUEST: u64 = -2048i64 as u64;
pub(crate) const CONTEXT_GUEST_KERNEL: u64 = -2176i64 as u64;
pub(crate) const CONTEXT_GUEST_USER: u64 = -2560i64 as u64;

/// Our own marker after an unwound user chain: the stack continued past the end of the copy.
pub(crate) const CONTEXT_CUT: u64 = -4000i64 as u64;

/// The word after a broken stack, or one with more frames than a walk has: no code is at this address, so readers
/// recognize that callers are missing.
pub(crate) const NO_CODE: u64 = 0;

/// The sampled address of a sample whose stack was not walked; it has no chain.
pub(crate) const NOT_WALKED: u64 = -4001i64 as u64;

/// The fields of an event's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Layout {
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    /// Whether other records end with a sample id.
    pub(crate) id_all: bool,
    /// The mask of user registers in samples.
    pub(crate) regs_user: u64,
    /// The kind of branches (`branch_sample_type`).
    pub(crate) branches: u64,
}

/// A sample's fields; those that its event does not have are zero or empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample<'a> {
    /// The id of its event, from `PERF_SAMPLE_IDENTIFIER` or `PERF_SAMPLE_ID`.
    pub id: u64,
    /// The sampled address; if the event does not have it, the first one of the call chain.
    pub ip: u64,
    /// The process in the recorder's PID namespace; 0 for the idle task, -1 for an exited task.
    pub pid: i32,
    /// The thread, numbered likewise.
    pub tid: i32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// The address of the data that was accessed, or that faulted.
    pub addr: u64,
    /// The CPU that recorded it.
    pub cpu: u32,
    /// The period; 0 if it is fixed and the sample does not have it.
    pub period: u64,
    /// The raw call chain, eight bytes per word, leaf first, with context markers, but without the marker and the
    /// cookie of a deferred user part.
    pub chain: &'a [u8],
    /// The cookie that identifies the later record with the user's part of the chain.
    pub deferred: Option<u64>,
    /// Raw tracepoint data.
    pub raw: &'a [u8],
    /// The id of the task's cgroup; 0 if unknown.
    pub cgroup: u64,
    /// Branches, newest first, 24 bytes each: from, to, flags.
    pub branches: &'a [u8],
    /// User registers and a copy of the stack.
    pub user: UserState<'a>,
    /// The cost that the hardware reports: cycles for loads.
    pub weight: u64,
    /// Cycles until the instruction was finished, if the hardware reports them (`union perf_sample_weight`).
    pub latency: u16,
    /// The source of the data (`union perf_mem_data_src`).
    pub data_src: u64,
    /// The reason why a transaction ended (`PERF_TXN_*`).
    pub transaction: u64,
    /// The counts of its event's group so far (`struct read_format`), for [`Layout::readings`].
    pub read: &'a [u8],
    /// The bytes after its transaction, for [`Layout::rare`].
    pub tail: &'a [u8],
}

/// The count of an event of a group at a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) id: u64,
    pub(crate) value: u64,
    /// Samples that did not fit in the event's buffer; 0 if unknown.
    pub(crate) lost: u64,
    /// The byte offset of the value in the record's body.
    pub(crate) at: usize,
}

/// The state of a task in user space (`PERF_SAMPLE_REGS_USER`, `PERF_SAMPLE_STACK_USER`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserState<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`: 0 for none, 1 for 32 bits, 2 for 64.
    pub abi: u64,
    /// The mask of registers.
    pub mask: u64,
    /// Their values, eight bytes each.
    pub regs: &'a [u8],
    /// The copy of the stack, from the stack pointer on.
    pub stack: &'a [u8],
    /// The requested size of the copy in bytes.
    pub asked: u64,
}

impl UserState<'_> {
    /// Returns a register by its position in the mask.
    pub(crate) fn register(&self, place: u32) -> Option<u64> {
        let below = (self.mask >> place & 1 == 1).then(|| (self.mask & ((1 << place) - 1)).count_ones())?;
        u64_at(self.regs, 8 * below as usize)
    }

    /// Returns whether the stack may continue past the end of the copy.
    pub(crate) fn is_full(&self) -> bool {
        self.asked > 0 && self.stack.len() as u64 >= self.asked
    }
}

impl Sample<'_> {
    pub(crate) fn chain(&self) -> impl Iterator<Item = u64> + '_ {
        u64s(self.chain)
    }
}

/// Splits the marker and the cookie of a deferred user part off a call chain. After the user marker no word counts as a
/// marker, because an unwinder without frame pointers may find any number.
fn without_cookie(chain: &[u8]) -> (&[u8], Option<u64>) {
    let Some((head, end)) = chain.split_last_chunk::<16>() else { return (chain, None) };
    let [marker, cookie] = [&end[..8], &end[8..]].map(|word| u64_at(word, 0).unwrap_or_default());
    let is_deferred = marker == CONTEXT_USER_DEFERRED && !u64s(head).any(|word| word == CONTEXT_USER);
    if is_deferred { (head, Some(cookie)) } else { (chain, None) }
}

/// A record of a deferred call chain (`PERF_RECORD_CALLCHAIN_DEFERRED`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeferredChain<'a> {
    pub(crate) cookie: u64,
    /// The user's part, starting with its marker.
    pub(crate) words: &'a [u8],
}

impl<'a> DeferredChain<'a> {
    /// Reads its body; returns `None` if it is truncated.
    pub(crate) fn read(body: &'a [u8]) -> Option<Self> {
        let (cookie, count) = (u64_at(body, 0)?, usize::try_from(u64_at(body, 8)?).ok()?);
        let words = body.get(16..count.checked_mul(8)?.checked_add(16)?)?;
        Some(Self { cookie, words })
    }
}

pub(crate) fn u64s(bytes: &[u8]) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
    bytes.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w))
}

/// The fields of a live tracepoint's samples without call chains, which can be very frequent.
const TRACED: u64 = bit::IDENTIFIER | bit::IP | bit::TID | bit::TIME | bit::CPU | bit::PERIOD | bit::RAW;

/// Decodes a sample with exactly these fields, which have fixed offsets; `None` if it is truncated.
fn traced(body: &[u8]) -> Option<Sample<'_>> {
    let head: &[u8; 52] = body.first_chunk()?;
    let word = |at: usize| head.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
    let tids = word(16);
    let len = u32::from_le_bytes([head[48], head[49], head[50], head[51]]) as usize;
    Some(Sample {
        id: word(0),
        ip: word(8),
        pid: tids as u32 as i32,
        tid: (tids >> 32) as i32,
        time: word(24),
        cpu: word(32) as u32,
        period: word(40),
        raw: body.get(52..52usize.checked_add(len)?)?,
        ..Sample::default()
    })
}

/// The sample id, which every record can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// The process that ran when the record was written, numbered as in [`Sample::pid`].
    pub pid: i32,
    /// The thread that ran then.
    pub tid: i32,
    /// Nanoseconds of the event's clock.
    pub time: u64,
    /// The id of the record's event.
    pub id: u64,
    /// The CPU that wrote it.
    pub cpu: u32,
}

impl Layout {
    pub(super) fn has(&self, bit: u64) -> bool {
        self.sample_type & bit != 0
    }

    /// Returns the size in bytes of the given fields that the layout has, each of a word.
    fn bytes_of(&self, fields: u64) -> usize {
        8 * (self.sample_type & fields).count_ones() as usize
    }

    pub(crate) fn time_offset(&self) -> Option<usize> {
        self.has(bit::TIME).then(|| self.bytes_of(BEFORE_TIME))
    }

    pub(crate) fn period_offset(&self) -> Option<usize> {
        self.has(bit::PERIOD).then(|| self.bytes_of(BEFORE_PERIOD))
    }

    /// Decodes a sample.
    pub fn sample<'a>(&self, header: Header, body: &'a [u8]) -> Result<Sample<'a>, RecordError> {
        if self.sample_type == TRACED
            && let Some(sample) = traced(body)
        {
            return Ok(sample);
        }
        self.decode(header, body)
    }

    fn decode<'a>(&self, header: Header, body: &'a [u8]) -> Result<Sample<'a>, RecordError> {
        let mut c = RecordCursor { rest: body, kind: header.kind };
        let mut s = Sample {
            id: c.u64_if(self.has(bit::IDENTIFIER), "identifier")?,
            ip: c.u64_if(self.has(bit::IP), "ip")?,
            ..Sample::default()
        };
        if self.has(bit::TID) {
            (s.pid, s.tid) = (c.i32("pid")?, c.i32("tid")?);
        }
        s.time = c.u64_if(self.has(bit::TIME), "time")?;
        s.addr = c.u64_if(self.has(bit::ADDR), "address")?;
        if self.has(bit::ID) {
            s.id = c.u64("id")?;
        }
        c.u64_if(self.has(bit::STREAM_ID), "stream id")?;
        s.cpu = c.u64_if(self.has(bit::CPU), "cpu")? as u32;
        s.period = c.u64_if(self.has(bit::PERIOD), "period")?;
        if self.has(bit::READ) {
            s.read = self.read(&mut c)?;
        }
        if self.has(bit::CALLCHAIN) {
            let n = c.u64("call chain length")?;
            let bytes = usize::try_from(n).ok().and_then(|n| n.checked_mul(8)).unwrap_or(usize::MAX);
            (s.chain, s.deferred) = without_cookie(c.take(bytes, "call chain")?);
            if !self.has(bit::IP) {
                s.ip = u64s(s.chain).find(|word| *word < CONTEXT_MAX).unwrap_or_default();
            }
        }
        if self.has(bit::RAW) {
            let n = c.u32("raw size")?;
            s.raw = c.take(n as usize, "raw data")?;
        }
        if self.has(bit::BRANCH_STACK) {
            const HW_INDEX: u64 = 1 << 17;
            let n = c.u64("number of branches")?;
            c.u64_if(self.branches & HW_INDEX != 0, "branch index")?;
            let bytes = usize::try_from(n).ok().and_then(|n| n.checked_mul(24)).unwrap_or(usize::MAX);
            s.branches = c.take(bytes, "branches")?;
            if self.branches & branch::COUNTERS != 0 {
                c.take(s.branches.len() / 3, "branch counters")?;
            }
        }
        if self.has(bit::REGS_USER) {
            s.user.abi = c.u64("register ABI")?;
            if s.user.abi != 0 {
                s.user.mask = self.regs_user;
                s.user.regs = c.take(8 * self.regs_user.count_ones() as usize, "user registers")?;
            }
        }
        if self.has(bit::STACK_USER) {
            s.user.asked = c.u64("stack size")?;
            if s.user.asked > 0 {
                let copied = c.take(usize::try_from(s.user.asked).unwrap_or(usize::MAX), "user stack")?;
                let used = c.u64("used stack size")?;
                s.user.stack = copied.get(..usize::try_from(used).unwrap_or(usize::MAX)).unwrap_or(copied);
            }
        }
        if self.has(bit::WEIGHT | bit::WEIGHT_STRUCT) {
            s.weight = c.u64("weight")?;
            if self.has(bit::WEIGHT_STRUCT) {
                // The lower half is the value of WEIGHT (`union perf_sample_weight`).
                s.latency = (s.weight >> 32) as u16;
                s.weight &= 0xffff_ffff;
            }
        }
        s.data_src = c.u64_if(self.has(bit::DATA_SRC), "data source")?;
        s.transaction = c.u64_if(self.has(bit::TRANSACTION), "transaction")?;
        if self.has(bit::CGROUP) && !self.has(bit::AUX) {
            // It is located from the end: the last fields have known sizes.
            let last = self.bytes_of(bit::CGROUP | bit::DATA_PAGE_SIZE | bit::CODE_PAGE_SIZE);
            s.cgroup = c.rest.len().checked_sub(last).and_then(|at| u64_at(c.rest, at)).unwrap_or(0);
        }
        s.tail = c.rest;
        Ok(s)
    }

    /// Takes `struct read_format`, single or group, without a group's number of members.
    fn read<'a>(&self, c: &mut RecordCursor<'a>) -> Result<&'a [u8], RecordError> {
        let (times, member) = self.read_words();
        let members = if self.read_format & read_format::GROUP != 0 { c.u64("read group size")? } else { 1 };
        let words = members.checked_mul(member).and_then(|w| w.checked_add(times)).unwrap_or(u64::MAX);
        let bytes = usize::try_from(words).ok().and_then(|n| n.checked_mul(8)).unwrap_or(usize::MAX);
        c.take(bytes, "read values")
    }

    fn read_words(&self) -> (u64, u64) {
        let word = |bit| u64::from(self.read_format & bit != 0);
        let times = word(read_format::TOTAL_TIME_ENABLED) + word(read_format::TOTAL_TIME_RUNNING);
        (times, 1 + word(read_format::ID) + word(read_format::LOST))
    }

    /// Returns whether samples have the count of each event of their group.
    pub(crate) fn is_read(&self) -> bool {
        self.has(bit::READ) && self.read_format & read_format::ID != 0
    }

    /// Returns the counts of a sample's group, member by member; empty if the members have no ids.
    pub(crate) fn readings<'a>(&self, sample: &Sample<'a>) -> impl Iterator<Item = Reading> + use<'a> {
        let (times, member) = self.read_words();
        // In a group the times precede all members; in a single read they follow the value.
        let group = self.read_format & read_format::GROUP != 0;
        let (head, id) = if group { (times as usize, 1) } else { (0, 1 + times as usize) };
        let step = if group { member } else { times + member } as usize;
        let bytes = if self.is_read() { sample.read } else { &[] };
        let before = self.bytes_of(FIRST) + 8 * usize::from(group);
        let word = move |at: usize| u64_at(bytes, 8 * at);
        let lost = (self.read_format & read_format::LOST != 0).then_some(1);
        (head..bytes.len() / 8).step_by(step).filter_map(move |at| {
            let lost = lost.and_then(|behind| word(at + id + behind)).unwrap_or(0);
            Some(Reading { value: word(at)?, id: word(at + id)?, lost, at: before + 8 * at })
        })
    }

    pub(crate) fn trailer_len(&self) -> usize {
        let fields = bit::TID | bit::TIME | bit::ID | bit::STREAM_ID | bit::CPU | bit::IDENTIFIER;
        if self.id_all { self.bytes_of(fields) } else { 0 }
    }

    /// Decodes the trailer at the end of a record's body; `None` for a layout without one.
    pub fn trailer(&self, body: &[u8]) -> Option<SampleId> {
        let len = self.trailer_len();
        let start = body.len().checked_sub(len)?;
        if len == 0 {
            return None;
        }
        let mut c = RecordCursor { rest: &body[start..], kind: types::LOST };
        let mut id = SampleId::default();
        if self.has(bit::TID) {
            (id.pid, id.tid) = (c.i32("pid").ok()?, c.i32("tid").ok()?);
        }
        id.time = c.u64_if(self.has(bit::TIME), "time").ok()?;
        id.id = c.u64_if(self.has(bit::ID), "id").ok()?;
        c.u64_if(self.has(bit::STREAM_ID), "stream id").ok()?;
        id.cpu = c.u64_if(self.has(bit::CPU), "cpu").ok()? as u32;
        if self.has(bit::IDENTIFIER) {
            id.id = c.u64("identifier").ok()?;
        }
        Some(id)
    }

    /// Encodes the trailer of records that we write.
    pub fn encode_trailer(&self, id: &SampleId) -> Vec<u8> {
        let mut out = Vec::new();
        if !self.id_all {
            return out;
        }
        if self.has(bit::TID) {
            out.extend_from_slice(&id.pid.to_le_bytes());
            out.extend_from_slice(&id.tid.to_le_bytes());
        }
        for (bit, word) in [
            (bit::TIME, id.time),
            (bit::ID, id.id),
            (bit::STREAM_ID, id.id),
            (bit::CPU, u64::from(id.cpu)),
            (bit::IDENTIFIER, id.id),
        ] {
            if self.has(bit) {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        out
    }

    /// Returns the id of a sample or a trailer, which has a fixed offset if there is an identifier. It distinguishes
    /// events of different layouts.
    pub(crate) fn identifier(kind: u32, body: &[u8]) -> Option<u64> {
        let at = if kind == types::SAMPLE { 0 } else { body.len().checked_sub(8)? };
        u64_at(body, at)
    }
}

/// The position of the call chain in samples that begin with an id, an address and a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainPlace {
    /// The offset of its start in a whole record, or of the next field if there is no chain.
    at: usize,
    is_there: bool,
}

impl ChainPlace {
    /// Returns `None` for samples that begin differently, or have counts before their chain.
    pub(crate) fn of(sample_type: u64) -> Option<Self> {
        let layout = Layout { sample_type, ..Layout::default() };
        let is_known = sample_type & (BEFORE_TIME | bit::READ) == BEFORE_TIME;
        is_known.then(|| Self { at: HEADER + layout.bytes_of(FIRST), is_there: layout.has(bit::CALLCHAIN) })
    }

    /// Splits a whole record into the bytes up to its chain's length, its chain, and the rest.
    pub(crate) fn split<'a>(&self, record: &'a [u8]) -> Option<[&'a [u8]; 3]> {
        let (head, rest) = record.split_at_checked(self.at)?;
        if !self.is_there {
            return Some([head, &[], rest]);
        }
        let (length, rest) = rest.split_first_chunk()?;
        let bytes = usize::try_from(u64::from_le_bytes(*length)).ok()?.checked_mul(8)?;
        let (chain, rest) = rest.split_at_checked(bytes)?;
        Some([head, chain, rest])
    }
}

#[cfg(test)]
mod tests;
