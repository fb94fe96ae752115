//! A stream of records, stepped through from header to header. It handles everything that only recordings have: the
//! header of a pipe, compressed and byte-swapped records, payloads outside records, damage.

mod packed;
mod special;

use std::collections::VecDeque;
use std::sync::Arc;

use zstd::stream::raw::Decoder;

use crate::kernel::attr::Flag;
use crate::lang::counted;
use crate::perfdata::build_ids::IdentifiedFile;
use crate::perfdata::read::Recording;
use crate::perfdata::swap::Swapper;
use crate::record::kinds::{HEADER, Header, types};
use crate::session::containers::NamedContainer;
use crate::symbols::shipped::ShippedTables;

use super::reader::{ByteSource, FillOutcome, PIECE};
use crate::source::FilePosition;
use packed::{PackedRecord, is_compressed};
use special::is_special;

/// The size of the steps in which compressed data is decompressed, regardless of the total.
const STEP: usize = 1 << 20;
/// The number of consecutive plausible records after which reading resumes after damage.
const PROOF: usize = 4;

/// Notes, build ids and names of containers, which are delivered in addition to records.
#[derive(Debug, Default)]
pub(crate) struct SideData {
    pub(crate) notes: Vec<String>,
    pub(crate) build_ids: Vec<IdentifiedFile>,
    pub(crate) containers: Vec<NamedContainer>,
}

pub(crate) struct Input {
    pub(crate) rec: Recording,
    pub(crate) given: Arc<ShippedTables>,
    reader: ByteSource,
    /// Bytes that were read but not stepped over yet.
    carry: Vec<u8>,
    /// Bytes to skip before the next record.
    skip: u64,
    ended: bool,
    /// Build ids in the header of a stream.
    pub(crate) build_ids: Vec<IdentifiedFile>,
    swapper: Option<Swapper>,
    zstd: Option<Decoder<'static>>,
    packed: Option<PackedRecord>,
    /// The offset of the last compressed record.
    packed_at: u64,
    /// Decompressed bytes without a whole record yet.
    plain: Vec<u8>,
    /// Whether the compressed data is damaged, so that the rest of it is lost.
    broken: bool,
    /// The start of damage whose end has not been found yet.
    damage: Option<u64>,
    /// Whether the damage may be just a truncated file.
    cut: bool,
    /// Whether the bytes are not enough for progress, so that more must be read.
    stuck: bool,
    /// The timestamps of the first and the newest sample, precise enough to choose between inputs.
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
    time_offset: Option<usize>,
    /// Whether to deliver records that the profile does not need, too.
    pub(crate) tells_all: bool,
    met: VecDeque<(u64, Vec<u8>)>,
    pub(crate) place: FilePosition,
}

impl Input {
    pub(crate) fn new(rec: Recording, reader: ByteSource) -> Self {
        let mut input = Self {
            rec,
            given: Arc::default(),
            reader,
            carry: Vec::new(),
            skip: 0,
            ended: false,
            build_ids: Vec::new(),
            swapper: None,
            zstd: None,
            packed: None,
            packed_at: 0,
            plain: Vec::new(),
            broken: false,
            damage: None,
            cut: false,
            stuck: false,
            oldest: 0,
            newest: 0,
            time_offset: None,
            tells_all: false,
            met: VecDeque::new(),
            place: FilePosition::default(),
        };
        input.events_known();
        input
    }

    fn events_known(&mut self) {
        self.rec.name_events();
        let layouts = self.rec.events.iter().map(|e| (e.layout(), e.ids.clone()));
        let build_ids = self.rec.events.iter().any(|e| e.attr.has(Flag::BuildId));
        self.swapper = self.rec.big.then(|| Swapper::new(layouts, build_ids));
        self.time_offset = self.rec.events.first().and_then(|e| e.layout().time_offset()).filter(|_| !self.rec.big);
    }

    /// Returns the reader that the next read waits for; `None` if data is available already.
    pub(crate) fn waits_for(&self) -> Option<&ByteSource> {
        (self.plain.is_empty() && self.packed.is_none()).then_some(&self.reader)
    }

    pub(crate) fn flows(&self) -> bool {
        matches!(self.reader, ByteSource::Pipe { .. })
    }

    /// Returns the bytes that were processed, and the total (0 when unknown).
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.reader.at() - self.carry.len() as u64, self.reader.end())
    }

    /// Reads the header of a stream: everything before its first ordinary record.
    pub(crate) fn head(&mut self, beside: &mut SideData) -> std::io::Result<()> {
        loop {
            // Compressed data contains ordinary records, of events that are described before it.
            while !self.drop_skipped() && !self.is_compressed() && self.special(beside) {}
            let next = Header::read(&self.carry).map(|h| self.header(h));
            let whole = next.is_some_and(|h| self.carry.len() >= usize::from(h.size));
            // A special record that is still here waits for the rest of its payload.
            let ordinary =
                self.skip == 0 && whole && next.is_some_and(|h| !is_special(h.kind) || is_compressed(h.kind));
            let described = !self.rec.events.is_empty() || next.is_some_and(|h| h.kind == types::SAMPLE);
            if self.ended || ordinary && described {
                break;
            }
            if ordinary {
                // A record before the description of any event cannot be decoded; skip it.
                let size = next.map_or(HEADER, |h| usize::from(h.size)).max(HEADER);
                self.carry.drain(..size.min(self.carry.len()));
                continue;
            }
            self.ended = self.reader.fill(&mut self.carry)? == FillOutcome::End;
        }
        self.events_known();
        Ok(())
    }

    /// Delivers whole records in this machine's byte order, about [`PIECE`] bytes of them.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>, beside: &mut SideData) -> FillOutcome {
        loop {
            if self.tells_all && self.hand_over_met(out) {
                return FillOutcome::Some;
            }
            if !self.plain.is_empty() || self.packed.is_some() {
                let used = self.whole_records();
                if used > 0 {
                    self.place = FilePosition { at: self.packed_at, packed: true };
                    let from = out.len();
                    out.extend_from_slice(&self.plain[..used]);
                    self.plain.drain(..used);
                    self.finish(&mut out[from..]);
                    return FillOutcome::Some;
                }
                if self.packed.is_some() {
                    self.unpack(beside);
                    continue;
                }
            }
            if (self.carry.len() < PIECE || self.stuck) && !self.ended {
                self.stuck = false;
                match self.reader.fill(&mut self.carry) {
                    Ok(FillOutcome::End) => self.ended = true,
                    Ok(FillOutcome::NotYet) if self.carry.is_empty() => return FillOutcome::NotYet,
                    Ok(_) => {}
                    // Data before the error is still processed.
                    Err(error) => {
                        beside.notes.push(format!("reading ends at byte {}: {error}", self.reader.at()));
                        self.ended = true;
                    }
                }
            }
            if self.drop_skipped() {
                if self.ended && self.carry.is_empty() {
                    return self.end(beside);
                }
                continue;
            }
            if self.damage.is_some() && !self.resume(beside) {
                if self.ended {
                    return self.end(beside);
                }
                continue;
            }
            let used = self.step();
            if used > 0 {
                self.hand_over(used, out);
                return FillOutcome::Some;
            }
            if self.damage.is_some() || self.special(beside) {
                continue;
            }
            if self.ended {
                return self.end(beside);
            }
            self.stuck = true;
            if matches!(self.reader, ByteSource::Pipe { .. }) {
                return FillOutcome::NotYet;
            }
        }
    }

    /// Delivers the next record that the profile does not need; returns `false` if there is none.
    fn hand_over_met(&mut self, out: &mut Vec<u8>) -> bool {
        let Some((at, record)) = self.met.pop_front() else { return false };
        self.place = FilePosition { at, packed: false };
        let from = out.len();
        out.extend_from_slice(&record);
        self.finish(&mut out[from..]);
        true
    }

    fn hand_over(&mut self, used: usize, out: &mut Vec<u8>) {
        self.place = FilePosition { at: self.offset(0), packed: false };
        let from = out.len();
        if out.is_empty() {
            let rest = self.carry.split_off(used);
            std::mem::swap(out, &mut self.carry);
            self.carry.clear();
            self.carry.extend_from_slice(&rest);
        } else {
            out.extend_from_slice(&self.carry[..used]);
            self.carry.drain(..used);
        }
        self.finish(&mut out[from..]);
    }

    fn finish(&mut self, records: &mut [u8]) {
        let Some(swapper) = &self.swapper else { return };
        let mut rest = records;
        while rest.len() >= HEADER {
            rest[..4].reverse();
            rest[4..6].reverse();
            rest[6..8].reverse();
            let Some(header) = Header::read(rest) else { return };
            let size = usize::from(header.size).clamp(HEADER, rest.len());
            let (record, tail) = rest.split_at_mut(size);
            swapper.body(header.kind, header.misc, record);
            rest = tail;
        }
    }

    fn header(&self, header: Header) -> Header {
        if !self.rec.big {
            return header;
        }
        Header { kind: header.kind.swap_bytes(), misc: header.misc.swap_bytes(), size: header.size.swap_bytes() }
    }

    /// Returns the size of the complete ordinary records at the front.
    fn step(&mut self) -> usize {
        let mut used = 0;
        while let Some(header) = Header::read(&self.carry[used..]).map(|h| self.header(h)) {
            let size = usize::from(header.size);
            if size < HEADER {
                self.damaged(used);
                break;
            }
            if used + size > self.carry.len() {
                // A record may be cut by the end of the data, or its size may be damaged.
                if self.ended && self.carry.len() - used > 2 * HEADER {
                    self.cut = true;
                    self.damaged(used);
                }
                break;
            }
            if is_special(header.kind) {
                break;
            }
            if header.kind > 256 {
                self.damaged(used);
                break;
            }
            if header.kind == types::SAMPLE
                && let Some(time) = self.time_offset.and_then(|at| self.carry[used + HEADER..].get(at..at + 8))
            {
                self.newest = u64::from_le_bytes(time.try_into().unwrap_or_default());
                self.oldest = if self.oldest == 0 { self.newest } else { self.oldest };
            }
            used += size;
        }
        used
    }

    /// Returns the size of the complete records at the front of decompressed data.
    fn whole_records(&self) -> usize {
        let mut used = 0;
        while let Some(header) = Header::read(&self.plain[used..]).map(|h| self.header(h)) {
            let size = usize::from(header.size).max(HEADER);
            if used + size > self.plain.len() {
                break;
            }
            used += size;
        }
        used
    }

    fn offset(&self, used: usize) -> u64 {
        self.reader.at() - self.carry.len() as u64 + used as u64
    }

    /// Notes the start of damage; its end is searched after the records before it are delivered.
    fn damaged(&mut self, used: usize) {
        self.damage = Some(self.offset(used));
    }

    /// Searches the next run of plausible records. Returns `false` if there is none yet.
    fn resume(&mut self, beside: &mut SideData) -> bool {
        let Some(began) = self.damage else { return true };
        let from = if self.offset(0) == began { 8 } else { 0 };
        let found = (from..self.carry.len()).step_by(8).find(|at| self.plausible(&self.carry[*at..]));
        match found {
            Some(at) => {
                beside.notes.push(format!(
                    "damaged at byte {began}: skipped {} that are not readable",
                    counted(self.offset(at) - began, "byte")
                ));
                self.carry.drain(..at);
                (self.damage, self.cut) = (None, false);
                true
            }
            None => {
                // The last bytes may start a run that the next piece completes.
                let keep = if self.ended { 0 } else { self.carry.len() % 8 + (64 << 10) };
                let gone = self.carry.len().saturating_sub(keep) / 8 * 8;
                self.carry.drain(..if self.ended { self.carry.len() } else { gone });
                false
            }
        }
    }

    fn plausible(&self, mut bytes: &[u8]) -> bool {
        for _ in 0..PROOF {
            let Some(header) = Header::read(bytes).map(|h| self.header(h)) else {
                return self.ended && bytes.is_empty();
            };
            let size = usize::from(header.size);
            let known = types::name(header.kind).is_some() && header.misc & 7 <= 5;
            if !known || size < HEADER || (size % 8 != 0 && !is_special(header.kind)) || size > bytes.len() {
                return false;
            }
            bytes = &bytes[size..];
        }
        true
    }

    fn drop_skipped(&mut self) -> bool {
        let n = self.skip.min(self.carry.len() as u64);
        self.carry.drain(..n as usize);
        self.skip -= n;
        if self.skip > 0
            && let ByteSource::File { at, end, .. } = &mut self.reader
        {
            let jump = self.skip.min(*end - *at);
            *at += jump;
            self.skip -= jump;
            self.ended |= self.skip > 0;
        }
        n > 0 || self.skip > 0 && !self.ended
    }

    fn end(&mut self, beside: &mut SideData) -> FillOutcome {
        if let Some(began) = self.damage.take_if(|_| self.cut) {
            beside.notes.push(format!("cut short at byte {began}: the last record is incomplete"));
        } else if let Some(began) = self.damage.take() {
            beside.notes.push(format!("damaged at byte {began}: nothing after it is readable"));
        } else if !self.carry.is_empty() {
            beside.notes.push(format!("cut short at byte {}: the last record is incomplete", self.offset(0)));
        } else if !self.plain.is_empty() {
            beside.notes.push("cut short: the last compressed record is incomplete".to_owned());
        } else if self.skip > 0 {
            beside.notes.push(format!(
                "cut short at byte {}: {} missing",
                self.reader.at(),
                counted(self.skip, "byte")
            ));
        }
        self.carry.clear();
        self.plain.clear();
        self.skip = 0;
        FillOutcome::End
    }
}

#[cfg(test)]
mod tests;
