//! pprof's profile.proto, uncompressed. Samples are decoded one at a time, after the tables that they refer to.

use prost::Message;
use prost::encoding::decode_varint;
use rustc_hash::FxHashMap;

use crate::record::kinds::BuildId;
use crate::symbols::profile_names::CodeAddress;

use super::ImportError;
use super::labels::LabelValue;
use super::messages::{Function, Label, Location, Mapping, Sample, ValueType};
use super::profile::{ImportedProfile, ImportedSample, MOST_FRAMES, MOST_TEXT, NO_ID, ROOT, kind_of, unit_of};
use super::pruning::{FramePruning, LocationFrames, StackEnd, first_shown};

/// Field numbers of `message Profile`.
mod number {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const MAPPING: u64 = 3;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const STRING: u64 = 6;
    pub(super) const DROP_FRAMES: u64 = 7;
    pub(super) const KEEP_FRAMES: u64 = 8;
    pub(super) const DURATION: u64 = 10;
    pub(super) const PERIOD_TYPE: u64 = 11;
    pub(super) const PERIOD: u64 = 12;
    pub(super) const COMMENT: u64 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u64 = 14;
    /// The largest known one.
    pub(super) const LAST: u64 = 15;
}

/// The events of a profile; pprof's own have at most four.
const MOST_EVENTS: usize = 64;
/// Labels of the task, written by perfprof-tui and other profilers.
const COMM: &[&str] = &["comm", "thread_name", "thread_comm", "thread"];
const PID: &[&str] = &["pid", "process_id"];
const TID: &[&str] = &["tid", "thread_id"];

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A field of a type that profile.proto does not use at the top.
    Other,
    /// A field of a wire type that does not exist.
    Unknown,
}

/// The comments, and the labels of a sample, that are read.
const MOST_COMMENTS: usize = 16;
const MOST_LABELS: usize = 64;

/// Splits a message into its fields.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn varint(&mut self, what: &'static str) -> Result<u64, ImportError> {
        let mut rest = &self.bytes[self.at..];
        let n = decode_varint(&mut rest).map_err(|_| ImportError::Damaged { what, at: self.at })?;
        self.at = self.bytes.len() - rest.len();
        Ok(n)
    }

    fn skip(&mut self, n: u64) -> Result<&'a [u8], ImportError> {
        let end = usize::try_from(n).ok().and_then(|n| self.at.checked_add(n)).filter(|end| *end <= self.bytes.len());
        let damaged = ImportError::Damaged { what: "a field is longer than the file", at: self.at };
        let part = &self.bytes[self.at..end.ok_or(damaged)?];
        self.at += part.len();
        Ok(part)
    }

    /// Returns the next field with its number; `None` at the end.
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, ImportError> {
        let at = self.at;
        match self.next_of_any_type()? {
            Some((_, Field::Unknown)) => Err(ImportError::Damaged { what: "an unknown wire type", at }),
            field => Ok(field),
        }
    }

    fn next_of_any_type(&mut self) -> Result<Option<(u64, Field<'a>)>, ImportError> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let key = self.varint("an incomplete field")?;
        let field = match key & 7 {
            0 => Field::Number(self.varint("an incomplete number")?),
            1 => self.skip(8).map(|_| Field::Other)?,
            2 => {
                let n = self.varint("an incomplete length")?;
                Field::Bytes(self.skip(n)?)
            }
            5 => self.skip(4).map(|_| Field::Other)?,
            _ => Field::Unknown,
        };
        Ok(Some((key >> 3, field)))
    }
}

/// Returns whether the start of a file has the fields of a profile: nothing else marks the format.
pub(super) fn is_pprof(head: &[u8]) -> bool {
    let mut fields = Fields { bytes: head, at: 0 };
    let (mut has_type, mut known) = (false, 0);
    loop {
        match fields.next_of_any_type() {
            Ok(Some((number::SAMPLE_TYPE, Field::Bytes(value)))) => {
                has_type = true;
                if value.len() > 32 || ValueType::decode(value).is_err() {
                    return false;
                }
            }
            Ok(Some((1..=number::LAST, Field::Bytes(_) | Field::Number(_)))) => {}
            Ok(Some(_)) => return false,
            // The head may end within a field.
            Err(ImportError::Damaged { .. }) => return has_type && known > 0,
            Ok(None) | Err(_) => return has_type,
        }
        known += 1;
    }
}

/// The tables of a profile by their ids.
#[derive(Default)]
struct Tables<'a> {
    strings: Vec<&'a [u8]>,
    types: Vec<ValueType>,
    mappings: FxHashMap<u64, Mapping>,
    first_mapping: Option<i64>,
    locations: FxHashMap<u64, Location>,
    functions: FxHashMap<u64, i64>,
    default_type: i64,
    /// Patterns of functions that are left out, and of those that are not.
    dropped: i64,
    kept: i64,
    duration: u64,
    /// The type and the number of units of one sample.
    period_type: Option<ValueType>,
    period: u64,
    comments: Vec<i64>,
    n_samples: usize,
}

impl<'a> Tables<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, ImportError> {
        let mut tables = Self::default();
        let mut fields = Fields { bytes, at: 0 };
        loop {
            let at = fields.at;
            let damaged = |what| move |_| ImportError::Damaged { what, at };
            let Some((number, field)) = fields.next()? else { return Ok(tables) };
            match (number, field) {
                (number::SAMPLE_TYPE, Field::Bytes(value)) if tables.types.len() < MOST_EVENTS => {
                    tables.types.push(ValueType::decode(value).map_err(damaged("a damaged sample type"))?);
                }
                (number::SAMPLE, Field::Bytes(_)) => tables.n_samples += 1,
                (number::MAPPING, Field::Bytes(value)) => {
                    let mapping = Mapping::decode(value).map_err(damaged("a damaged mapping"))?;
                    tables.first_mapping.get_or_insert(mapping.filename);
                    tables.mappings.insert(mapping.id, mapping);
                }
                (number::LOCATION, Field::Bytes(value)) => {
                    let location = Location::decode(value).map_err(damaged("a damaged location"))?;
                    tables.locations.insert(location.id, location);
                }
                (number::FUNCTION, Field::Bytes(value)) => {
                    let function = Function::decode(value).map_err(damaged("a damaged function"))?;
                    let name = if function.name == 0 { function.system_name } else { function.name };
                    tables.functions.insert(function.id, name);
                }
                (number::STRING, Field::Bytes(value)) => tables.strings.push(value),
                (number::DEFAULT_SAMPLE_TYPE, Field::Number(index)) => tables.default_type = index as i64,
                (number::DROP_FRAMES, Field::Number(index)) => tables.dropped = index as i64,
                (number::KEEP_FRAMES, Field::Number(index)) => tables.kept = index as i64,
                (number::DURATION, Field::Number(ns)) => tables.duration = u64::try_from(ns as i64).unwrap_or(0),
                (number::PERIOD_TYPE, Field::Bytes(value)) => tables.period_type = ValueType::decode(value).ok(),
                (number::PERIOD, Field::Number(period)) => tables.period = period,
                (number::COMMENT, Field::Number(index)) => tables.comments.push(index as i64),
                (number::COMMENT, Field::Bytes(value)) => {
                    let mut packed = Fields { bytes: value, at: 0 };
                    while packed.at < value.len() && tables.comments.len() < MOST_COMMENTS {
                        tables.comments.push(packed.varint("a damaged comment")? as i64);
                    }
                }
                _ => {}
            }
        }
    }

    fn text(&self, index: i64) -> String {
        let bytes = usize::try_from(index).ok().and_then(|index| self.strings.get(index));
        let limited = |bytes: &&'a [u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_TEXT)]).into_owned();
        bytes.map(limited).unwrap_or_default()
    }

    /// Returns the period of a sample in units of a sample type; 0 if it is unknown.
    fn sample_period(&self, of: &ValueType) -> u64 {
        let [name, unit] = [of.kind, of.unit].map(|index| self.text(index));
        let is_its = |period: &ValueType| self.text(period.kind) == name && self.text(period.unit) == unit;
        match &self.period_type {
            Some(period) if is_its(period) => self.period,
            _ => u64::from(name == "samples" && unit == "count"),
        }
    }

    /// Returns the sample type that readers show first: the named one, else the last, as `go tool pprof` does.
    fn first_type(&self) -> usize {
        let is_default = |of: &ValueType| self.default_type != 0 && of.kind == self.default_type;
        self.types.iter().position(is_default).unwrap_or(self.types.len().saturating_sub(1))
    }
}

/// A profile of a series: its bytes, and the time of its samples in nanoseconds since 1970, if known.
#[derive(Debug)]
pub struct ProfilePart {
    /// pprof's protocol buffer, without its compression.
    pub bytes: Vec<u8>,
    /// The time of all its samples.
    pub time: Option<u64>,
}

/// Reads profiles of one kind into one. The first event is that of [`Tables::first_type`] of the first profile.
/// `has_period` is whether the period in the profiles is that of their samples.
pub(super) fn read<'a>(
    parts: impl Iterator<Item = (&'a [u8], Option<u64>)>,
    has_period: bool,
) -> Result<ImportedProfile, ImportError> {
    let mut out = ImportedProfile::new("pprof: each value of a sample belongs to the event of its type");
    let mut faults = Faults::default();
    let mut has_types = false;
    for (bytes, time) in parts {
        let mut tables = Tables::read(bytes)?;
        tables.period_type = tables.period_type.filter(|_| has_period);
        // A store has an empty message for a time without samples.
        has_types |= !tables.types.is_empty();
        let mut reader = Reader::new(&tables, &mut out, &mut faults, time);
        let mut fields = Fields { bytes, at: 0 };
        loop {
            let at = fields.at;
            let Some((number, field)) = fields.next()? else { break };
            if let (number::SAMPLE, Field::Bytes(value)) = (number, field) {
                let sample =
                    Sample::decode(value).map_err(|_| ImportError::Damaged { what: "a damaged sample", at })?;
                reader.sample(&sample);
                reader.out.check()?;
            }
        }
    }
    if !has_types {
        return Err(ImportError::Lacks("sample types"));
    }
    faults.note(&mut out);
    Ok(out)
}

/// The numbers of parts of the profiles that were left out.
#[derive(Default)]
struct Faults {
    negative: u64,
    dangling: u64,
}

impl Faults {
    fn note(&self, out: &mut ImportedProfile) {
        let notes = [
            (self.negative, "negative values were left out: open the two profiles of this difference instead"),
            (self.dangling, "locations are missing in the file: stacks with them are incomplete"),
        ];
        for (n, words) in notes.into_iter().filter(|(n, _)| *n > 0) {
            out.notes.push(format!("{n} {words}"));
        }
    }
}

/// Returns the offset of an address in a mapped file.
fn offset_in(mapping: &Mapping, address: u64) -> Option<u64> {
    let is_inside = (mapping.start..mapping.limit).contains(&address);
    is_inside.then(|| (address - mapping.start).wrapping_add(mapping.offset))
}

struct Reader<'a> {
    tables: &'a Tables<'a>,
    out: &'a mut ImportedProfile,
    faults: &'a mut Faults,
    time: Option<u64>,
    /// For each value of a sample its event and the factor of its unit.
    events: Vec<(u16, u64)>,
    /// The frames of each location.
    frames: FxHashMap<u64, LocationFrames>,
    pruning: Option<FramePruning>,
    program: String,
}

impl<'a> Reader<'a> {
    fn new(tables: &'a Tables<'a>, out: &'a mut ImportedProfile, faults: &'a mut Faults, time: Option<u64>) -> Self {
        let known = out.events.len();
        let first = tables.first_type();
        let mut order: Vec<usize> = (0..tables.types.len()).collect();
        order.sort_by_key(|at| *at != first);
        let mut events = vec![(0, 1); order.len()];
        for at in order {
            let of = &tables.types[at];
            let (unit, factor) = unit_of(&tables.text(of.unit));
            let name = tables.text(of.kind);
            let name = if name.is_empty() { "samples" } else { &name };
            // An event of an earlier profile of the series; two sample types of one profile are two events.
            let same = out.events[..known].iter().position(|event| event.name == name);
            let event = match same {
                Some(event) => event as u16,
                None => {
                    let event = out.event(name, unit, time.is_some());
                    out.are_sums(event, tables.sample_period(of).saturating_mul(factor));
                    event
                }
            };
            events[at] = (event, factor);
        }
        if known == 0 && tables.duration > 0 {
            out.fact("duration", format!("{:.3} s", tables.duration as f64 / 1e9));
        }
        if time.is_none() {
            out.duration = out.duration.saturating_add(tables.duration);
        }
        for comment in tables.comments.iter().take(MOST_COMMENTS).filter(|_| known == 0) {
            out.fact("comment", tables.text(*comment));
        }
        let path = tables.first_mapping.map(|index| tables.text(index)).unwrap_or_default();
        let program = path.rsplit('/').next().unwrap_or_default().to_owned();
        let patterns = [tables.dropped, tables.kept].map(|index| tables.text(index));
        let pruning = FramePruning::of(&patterns[0], &patterns[1]).unwrap_or_else(|_| {
            out.notes.push("the profile's pattern of frames to leave out cannot be read: they are shown".to_owned());
            None
        });
        Self { tables, out, faults, time, events, frames: FxHashMap::default(), pruning, program }
    }

    fn sample(&mut self, sample: &Sample) {
        // From the leaf on; one more frame than is kept shows that the stack is cut.
        let mut path: Vec<u32> = Vec::new();
        let first = self.first_location(&sample.location);
        for id in sample.location.iter().skip(first) {
            if path.len() > MOST_FRAMES {
                break;
            }
            let room = MOST_FRAMES + 1 - path.len();
            path.extend(self.known_location(*id).frames.iter().take(room));
        }
        let stack = path.iter().rev().fold(ROOT, |stack, frame| self.out.stack(stack, *frame));
        let (thread, labels) = self.labels(&sample.label);
        let time = self.time.unwrap_or(0);
        for (value, (event, factor)) in sample.value.iter().zip(&self.events) {
            match u64::try_from(*value) {
                Ok(0) => {}
                Ok(value) => {
                    let period = value.saturating_mul(*factor);
                    self.out.add(ImportedSample { time, period, stack, thread, event: *event, labels });
                }
                Err(_) => self.faults.negative += 1,
            }
        }
    }

    /// Returns the number of a sample's first location that is shown.
    fn first_location(&mut self, ids: &[u64]) -> usize {
        if self.pruning.is_none() {
            return 0;
        }
        let ends: Vec<StackEnd> = ids.iter().map(|id| self.known_location(*id).end).collect();
        first_shown(ends.into_iter())
    }

    fn known_location(&mut self, id: u64) -> &LocationFrames {
        if !self.frames.contains_key(&id) {
            let frames = self.location(id);
            self.frames.insert(id, frames);
        }
        self.frames.entry(id).or_default()
    }

    fn location(&mut self, id: u64) -> LocationFrames {
        let tables = self.tables;
        let Some(location) = tables.locations.get(&id) else {
            self.faults.dangling += 1;
            return LocationFrames::default();
        };
        let mapping = tables.mappings.get(&location.mapping);
        let dso = mapping.map(|mapping| tables.text(mapping.filename)).unwrap_or_default();
        let name_of =
            |id: &u64| tables.functions.get(id).map(|name| tables.text(*name)).filter(|name| !name.is_empty());
        let named: Vec<String> =
            location.line.iter().take(MOST_FRAMES + 1).filter_map(|line| name_of(&line.function)).collect();
        if named.is_empty() {
            let frame = self.out.address(location.address, &dso);
            let id = mapping.and_then(|mapping| BuildId::of_hex(&tables.text(mapping.build_id)));
            if let Some((id, offset)) = id.zip(mapping.and_then(|mapping| offset_in(mapping, location.address))) {
                self.out.unnamed.add(&dso, id, frame, CodeAddress::Offset(offset));
            }
            return LocationFrames { frames: vec![frame], end: StackEnd::No };
        }
        let (left_out, end) = self.pruning.as_mut().map_or((0, StackEnd::No), |pruning| pruning.of_location(&named));
        let frames = named[left_out..].iter().map(|name| self.out.frame(name, &dso, kind_of(&dso))).collect();
        LocationFrames { frames, end }
    }

    /// Returns the thread that the labels name, and the number of the other labels.
    fn labels(&mut self, labels: &[Label]) -> (u32, u32) {
        let (mut comm, mut pid, mut tid) = (None, NO_ID, NO_ID);
        let mut others = Vec::new();
        self.out.labels.left_out += labels.len().saturating_sub(MOST_LABELS) as u64;
        for label in labels.iter().take(MOST_LABELS) {
            let key = self.tables.text(label.key);
            let number = || i32::try_from(label.number).ok().filter(|_| label.text == 0);
            if COMM.contains(&&*key) && label.text != 0 && comm.is_none() {
                comm = Some(self.tables.text(label.text));
            } else if let Some(number) = number().filter(|_| PID.contains(&&*key)) {
                pid = number;
            } else if let Some(number) = number().filter(|_| TID.contains(&&*key)) {
                tid = number;
            } else {
                let value = match label.text {
                    0 => LabelValue::Number(label.number),
                    text => LabelValue::Text(self.tables.text(text).into()),
                };
                others.push((key, value));
            }
        }
        let comm = comm.unwrap_or_else(|| self.program.clone());
        (self.out.thread(&comm, pid, tid), self.out.labels.of(others.into_iter()))
    }
}
