//! Execution samples of the JDK Flight Recorder, since JDK 11. A file consists of chunks, each complete in itself: its
//! metadata describe the fields of all types, its checkpoints have the values that events refer to by type and key.

mod types;

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use crate::perfdata::EventUnit;
use crate::session::DsoKind;

use super::ImportError;
use super::labels::NO_LABELS;
use super::profile::{ImportedProfile, ImportedSample, MOST_FRAMES, NO_ID, ROOT};
use types::{Item, JfrReader, JfrTypes};

const MAGIC: &[u8] = b"FLR\0";
const HEADER: usize = 68;
/// The supported major version of the format.
const VERSION: u16 = 2;
/// The values of a chunk that events may refer to.
const MOST_VALUES: usize = 1 << 21;
/// The fields and characters that are read of a method, class, symbol or thread.
const FEW_VALUES: u64 = 2048;

/// The events whose samples are read, in the order of our events.
const SAMPLED: [&str; 3] = ["jdk.ExecutionSample", "jdk.NativeMethodSample", "jdk.CPUTimeSample"];

/// Returns whether the start of a file is that of a chunk.
pub(super) fn is_jfr(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// The types whose values are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pool {
    Trace,
    Method,
    Class,
    Symbol,
    Thread,
    Text,
}

impl Pool {
    fn of(class: &str) -> Option<Self> {
        Some(match class {
            "jdk.types.StackTrace" => Self::Trace,
            "jdk.types.Method" => Self::Method,
            "java.lang.Class" => Self::Class,
            "jdk.types.Symbol" => Self::Symbol,
            "java.lang.Thread" => Self::Thread,
            "java.lang.String" => Self::Text,
            _ => return None,
        })
    }
}

/// A chunk with its types and the places of its values.
struct Chunk<'a> {
    /// The file up to its end.
    bytes: &'a [u8],
    start: usize,
    start_ns: u64,
    start_ticks: u64,
    ticks_per_second: u64,
    types: JfrTypes,
    values: FxHashMap<(Pool, u64), (u64, usize)>,
}

impl<'a> Chunk<'a> {
    fn read(file: &'a [u8], start: usize) -> Result<Self, ImportError> {
        let mut header = JfrReader::new(file, start);
        if header.take(4)? != MAGIC {
            return Err(ImportError::Damaged { what: "a chunk without its magic number", at: start });
        }
        let [major, _minor] = [header.fixed()?, header.fixed()?].map(u16::from_be_bytes);
        if major != VERSION {
            return Err(ImportError::Unsupported("only recordings of JDK 11 and newer are supported"));
        }
        let mut words = [0u64; 7];
        for word in &mut words {
            *word = u64::from_be_bytes(header.fixed()?);
        }
        let [size, _, _, start_ns, _, start_ticks, ticks_per_second] = words;
        let [.., features] = header.fixed::<4>()?;
        if features & 1 == 0 {
            return Err(ImportError::Unsupported("recordings without compressed integers are not supported"));
        }
        let end = usize::try_from(size).ok().filter(|size| *size >= HEADER).and_then(|size| start.checked_add(size));
        let bytes = end
            .and_then(|end| file.get(..end))
            .ok_or(ImportError::Damaged { what: "a chunk is longer than the file, or was not completed", at: start })?;
        if ticks_per_second == 0 {
            return Err(ImportError::Damaged { what: "a clock without a frequency", at: start });
        }
        let (types, values) = Default::default();
        let mut chunk = Self { bytes, start, start_ns, start_ticks, ticks_per_second, types, values };
        let mut metadata = None;
        chunk.each_event(|_, kind, body| {
            if kind == 0 {
                metadata = Some(body);
            }
            Ok(())
        })?;
        chunk.types = JfrTypes::read(metadata.ok_or(ImportError::Lacks("metadata"))?)?;
        let mut values = FxHashMap::default();
        chunk.each_event(|chunk, kind, body| if kind == 1 { chunk.checkpoint(body, &mut values) } else { Ok(()) })?;
        chunk.values = values;
        Ok(chunk)
    }

    /// Passes the type of each event, and the position of its fields.
    fn each_event(
        &self,
        mut see: impl FnMut(&Self, u64, JfrReader<'a>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let mut next = JfrReader::new(self.bytes, self.start + HEADER);
        while next.at < self.bytes.len() {
            let start = next.at;
            let size = JfrReader::new(self.bytes, start).int()?;
            if size == 0 {
                return Err(next.damaged("an event without a size"));
            }
            next.take(size)?;
            let mut event = JfrReader::new(&self.bytes[..next.at], start);
            event.int()?;
            let kind = event.int()?;
            see(self, kind, event)?;
        }
        Ok(())
    }

    /// Finds the values of a checkpoint.
    fn checkpoint(
        &self,
        mut from: JfrReader<'a>,
        values: &mut FxHashMap<(Pool, u64), (u64, usize)>,
    ) -> Result<(), ImportError> {
        // Its time, its duration, the distance to the one before, and its kind.
        for _ in 0..3 {
            from.int()?;
        }
        from.take(1)?;
        for _ in 0..from.int()? {
            let class = from.int()?;
            let pool = Pool::of(self.types.name(class));
            for _ in 0..from.int()? {
                let key = from.int()?;
                if let Some(pool) = pool {
                    values.insert((pool, key), (class, from.at));
                }
                if values.len() > MOST_VALUES {
                    return Err(ImportError::TooComplex);
                }
                self.types.value(&mut from, ("", class), 0, &mut |_, _| {})?;
            }
        }
        Ok(())
    }

    /// Passes the fields of a value that events refer to; `false` if it is missing. Several values may refer to one, so
    /// that only the start of a long one is read; stacks are read once.
    fn look_up(&self, pool: Pool, key: u64, mut see: impl FnMut(&str, Item<'a>)) -> bool {
        let Some((class, at)) = self.values.get(&(pool, key)) else { return false };
        let mut from = match pool {
            Pool::Trace => JfrReader::new(self.bytes, *at),
            _ => JfrReader::limited(self.bytes, *at, FEW_VALUES),
        };
        self.types.value(&mut from, ("", *class), 0, &mut see).is_ok()
    }

    fn number(&self, pool: Pool, key: u64, of: &str) -> Option<u64> {
        let mut found = None;
        self.look_up(pool, key, |name, item| match item {
            Item::Number(number) if name == of && found.is_none() => found = Some(number),
            _ => {}
        });
        found
    }

    fn text(&self, pool: Pool, key: u64, of: &str) -> Cow<'a, str> {
        let mut found = None;
        self.look_up(pool, key, |name, item| found = found.take().or((name == of).then_some(item)));
        match found {
            Some(Item::Text(text)) => text,
            // A text has no fields.
            Some(Item::TextKey(key)) if pool != Pool::Text => self.text(Pool::Text, key, ""),
            _ => Cow::Borrowed(""),
        }
    }

    /// Returns the time of a clock reading in nanoseconds since 1970.
    fn time(&self, ticks: u64) -> u64 {
        let after = i128::from(ticks.wrapping_sub(self.start_ticks) as i64) * 1_000_000_000;
        let time = i128::from(self.start_ns) + after / i128::from(self.ticks_per_second);
        u64::try_from(time.max(0)).unwrap_or(u64::MAX)
    }
}

/// Reads all chunks of a recording.
pub(super) fn read(file: &[u8]) -> Result<ImportedProfile, ImportError> {
    let mut out = ImportedProfile::new("JDK Flight Recorder: samples of running threads, taken at intervals");
    SAMPLED.iter().for_each(|name| _ = out.event(name, EventUnit::Count, true));
    let (mut at, mut cut, mut missing, mut events) = (0, 0u64, 0u64, 1);
    while at < file.len() {
        let chunk = Chunk::read(file, at)?;
        let mut names = Names {
            chunk: &chunk,
            stacks: Default::default(),
            frames: Default::default(),
            threads: Default::default(),
        };
        chunk.each_event(|chunk, kind, mut body| {
            let Some(event) = SAMPLED.iter().position(|name| *name == chunk.types.name(kind)) else { return Ok(()) };
            let (mut ticks, mut thread, mut trace) = (0, 0, 0);
            chunk.types.value(&mut body, ("", kind), 0, &mut |name, item| match (name, item) {
                ("startTime", Item::Number(number)) => ticks = number,
                ("sampledThread" | "eventThread", Item::Number(key)) => thread = key,
                ("stackTrace", Item::Number(key)) => trace = key,
                _ => {}
            })?;
            let thread = names.thread(thread, &mut out);
            let stack = names.stack(trace, &mut out);
            cut += u64::from(stack.is_some_and(|(_, is_cut)| is_cut));
            missing += u64::from(stack.is_none());
            let stack = stack.map_or(ROOT, |(stack, _)| stack);
            events = events.max(event + 1);
            let (time, event) = (chunk.time(ticks), event as u16);
            out.add(ImportedSample { time, period: 1, stack, thread, event, labels: NO_LABELS });
            out.check()
        })?;
        at = chunk.bytes.len();
    }
    // Few recordings have samples in native code, or by CPU time (JEP 509).
    out.events.truncate(events);
    if cut > 0 {
        out.notes.push(format!(
            "{cut} samples lack their outer callers: record with -XX:FlightRecorderOptions=stackdepth=512"
        ));
    }
    if missing > 0 {
        out.notes.push(format!("{missing} samples have no stack in the file"));
    }
    if out.len() == 0 { Err(ImportError::Lacks("execution samples")) } else { Ok(out) }
}

/// The stacks, frames and threads of a chunk that were looked up so far, by their keys.
struct Names<'c, 'a> {
    chunk: &'c Chunk<'a>,
    /// Whether outer callers are missing, too.
    stacks: FxHashMap<u64, Option<(u32, bool)>>,
    /// `None` for methods that the JVM hides, like `jfr print`: those of lambdas' classes.
    frames: FxHashMap<u64, Option<u32>>,
    threads: FxHashMap<u64, u32>,
}

impl Names<'_, '_> {
    fn stack(&mut self, key: u64, out: &mut ImportedProfile) -> Option<(u32, bool)> {
        if let Some(known) = self.stacks.get(&key) {
            return *known;
        }
        let (mut methods, mut is_cut) = (Vec::new(), false);
        let is_there = self.chunk.look_up(Pool::Trace, key, |name, item| match (name, item) {
            ("truncated", Item::Number(flag)) => is_cut = flag != 0,
            // One more than is kept shows that the stack is cut.
            ("method", Item::Number(method)) if methods.len() <= MOST_FRAMES => methods.push(method),
            _ => {}
        });
        let stack = methods.iter().rev().fold(ROOT, |stack, method| match self.frame(*method, out) {
            Some(frame) => out.stack(stack, frame),
            None => stack,
        });
        let found = is_there.then_some((stack, is_cut));
        self.stacks.insert(key, found);
        found
    }

    /// Returns the frame of a method, named like `java.lang.Thread.run`.
    fn frame(&mut self, key: u64, out: &mut ImportedProfile) -> Option<u32> {
        if let Some(frame) = self.frames.get(&key) {
            return *frame;
        }
        let chunk = self.chunk;
        let symbol = |pool, key, field| {
            chunk.number(pool, key, field).map(|key| chunk.text(Pool::Symbol, key, "string")).unwrap_or_default()
        };
        let class = chunk.number(Pool::Method, key, "type");
        let class = class.map(|class| symbol(Pool::Class, class, "name")).unwrap_or_default();
        let method = symbol(Pool::Method, key, "name");
        let name = match (class.is_empty(), method.is_empty()) {
            (_, true) => Cow::Borrowed("[unknown]"),
            (true, false) => method,
            (false, false) => format!("{}.{method}", class.replace('/', ".")).into(),
        };
        let is_hidden = chunk.number(Pool::Method, key, "hidden").is_some_and(|flag| flag != 0);
        let frame = (!is_hidden).then(|| out.frame(&name, "", DsoKind::Anon));
        self.frames.insert(key, frame);
        frame
    }

    fn thread(&mut self, key: u64, out: &mut ImportedProfile) -> u32 {
        let chunk = self.chunk;
        *self.threads.entry(key).or_insert_with(|| {
            let mut name = chunk.text(Pool::Thread, key, "javaName");
            if name.is_empty() {
                name = chunk.text(Pool::Thread, key, "osName");
            }
            let tid = chunk.number(Pool::Thread, key, "osThreadId").and_then(|tid| i32::try_from(tid).ok());
            out.thread(&name, NO_ID, tid.unwrap_or(NO_ID))
        })
    }
}

#[cfg(test)]
mod tests;
