//! Profiles as text: `perf script` output and folded stacks. They have names instead of addresses.

pub(crate) mod counts;
pub(crate) mod folded;
pub(crate) mod script;

use std::io::{self, BufRead, Read};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::lang::{counted, thousands};
use crate::perfdata::{EventDesc, MAX_EVENTS};
use crate::session::{EndReason, Origin};

use super::{Batch, Info, NamedFrame, NamedSample, Progress, Source, SourceError, SourceEvent};
use counts::CountForm;
use folded::FoldedLine;

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// The text of `perf script`: a line for each sample, followed by the lines of its call chain.
    Script,
    /// Folded stacks: a line for each stack with its frames from the root on, and a count.
    Folded,
}

const BATCH: usize = 2048;
/// The number of lines of an unknown file that are examined.
const LINES: usize = 50;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Bytes of folded stacks to read before processing the first: the form of counts depends on many lines.
const AHEAD: u64 = 8 << 20;
/// The event that collects the samples of all events above the limit.
const OTHER_EVENTS: &str = "other events";
/// The maximum length of a line; longer ones are damaged.
pub(crate) const MAX_LINE: usize = 1 << 20;

/// Detects the format from the start of a file; returns `None` if it is not a profile.
pub fn sniff(head: &[u8]) -> Option<TextFormat> {
    if head.contains(&0) {
        return None;
    }
    let end = memchr::memrchr(b'\n', head).unwrap_or(head.len());
    if is_script(lines_of(&head[..end]).take(LINES)) {
        return Some(TextFormat::Script);
    }
    is_folded(lines_of(&head[..end])).then_some(TextFormat::Folded)
}

fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    text.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty() && line[0] != b'#')
}

/// Returns whether at least half of the lines are stacks with counts. A number at the end of a line proves little:
/// there must be stacks of several frames, or nearly all lines must have a count.
fn is_folded<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut good, mut stacks, mut all) = (0, 0, 0);
    for line in lines {
        all += 1;
        let Some((stack, _)) = counts::split(line) else { continue };
        good += 1;
        stacks += usize::from(stack.contains(&b';'));
    }
    (stacks > 0 && 2 * stacks >= all) || (good > 0 && good * 10 >= all * 9 && (stacks > 0 || all > 1))
}

/// Returns whether lines have timestamps with the surrounding fields, or frames after tabs.
fn is_script<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut good, mut all) = (0, 0);
    for line in lines {
        all += 1;
        match script::line(line) {
            _ if line[0] == b'\t' && script::frame(line).is_some() => return true,
            _ if line[0] == b'\t' => {}
            script::ScriptLine::Record => return true,
            script::ScriptLine::Sample(header) if header.time > 0 && !header.event.is_empty() && header.tid >= 0 => {
                return true;
            }
            script::ScriptLine::Sample(header) if !header.is_bare => good += 1,
            // Frames below a sample may lack the tab.
            _ if good > 0 && script::is_frame_alone(line) => good += 1,
            _ => {}
        }
    }
    all > 1 && good * 10 >= all * 9
}

/// A text being read.
pub struct TextSource {
    name: String,
    format: TextFormat,
    reader: Box<dyn BufRead + Send>,
    pub(super) info: Info,
    line: Vec<u8>,
    number: u64,
    done: u64,
    size: u64,
    bad: u64,
    first_bad: Option<u64>,
    /// Whether lines with very few fields are samples, as proven by frames below them.
    is_bare: bool,
    names: TextNames,
    counts: CountForm,
    /// Stacks whose periods differ from their counts.
    inexact: u64,
    /// An error after the part that was read ahead.
    failed: Option<io::Error>,
    stopped: bool,
}

#[derive(Default)]
pub(crate) struct TextNames {
    frames: HashMap<Vec<u8>, u32>,
    comms: HashMap<Vec<u8>, Arc<str>>,
    events: HashMap<Vec<u8>, u16>,
    /// The number of samples whose events exceed the limit.
    of_other_events: u64,
    last: folded::LastStack,
}

impl TextNames {
    /// Returns the id of a frame; for a new one, adds its description by `describe` to the batch.
    pub(crate) fn frame(&mut self, key: &[u8], batch: &mut Batch, describe: impl FnOnce() -> NamedFrame) -> u32 {
        let id = self.frames.len() as u32;
        *self.frames.entry_ref(key).or_insert_with(|| {
            batch.named.names.push(describe());
            id
        })
    }

    pub(crate) fn comm(&mut self, name: &[u8]) -> Arc<str> {
        self.comms.entry_ref(name).or_insert_with(|| String::from_utf8_lossy(name).into()).clone()
    }

    /// Returns the index of an event; for a new one, adds its description by `describe` to the batch. All events above
    /// the limit are one.
    pub(crate) fn event(&mut self, name: &[u8], batch: &mut Batch, describe: impl FnOnce(&str) -> EventDesc) -> u16 {
        if let Some(id) = self.events.get(name) {
            return *id;
        }
        let id = self.events.len() as u16;
        if usize::from(id) < MAX_EVENTS - 1 {
            self.events.insert(name.to_vec(), id);
            batch.events.push(SourceEvent::Event(describe(&String::from_utf8_lossy(name))));
            return id;
        }
        if self.of_other_events == 0 {
            batch.events.push(SourceEvent::Event(describe(OTHER_EVENTS)));
        }
        self.of_other_events += 1;
        id
    }

    /// Returns a note about samples whose events exceed the limit.
    fn note_of_other_events(&self) -> Option<String> {
        (self.of_other_events > 0).then(|| {
            format!(
                "{} belong to the event '{OTHER_EVENTS}': only the first {} events of a text are separate",
                counted(self.of_other_events, "sample"),
                thousands(MAX_EVENTS as u64 - 1)
            )
        })
    }
}

impl TextSource {
    /// Returns a source; `size` is that of the whole text, 0 when unknown.
    pub fn new(name: String, format: TextFormat, reader: Box<dyn BufRead + Send>, size: u64) -> Self {
        let mut source = Self {
            info: Info { is_named: true, target: name.clone(), ..Info::new(Origin::Recorded) },
            name,
            format,
            reader,
            line: Vec::new(),
            number: 0,
            done: 0,
            size,
            bad: 0,
            first_bad: None,
            is_bare: false,
            names: TextNames::default(),
            counts: CountForm::default(),
            inexact: 0,
            failed: None,
            stopped: false,
        };
        let what = match format {
            TextFormat::Script => "text of perf script".to_owned(),
            TextFormat::Folded => source.look_ahead(),
        };
        source.info.facts.push(("format".into(), what));
        source
    }

    fn look_ahead(&mut self) -> String {
        let mut reader = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        let mut ahead = Vec::new();
        self.failed = Read::take(&mut reader, AHEAD).read_to_end(&mut ahead).err();
        let is_whole = (ahead.len() as u64) < AHEAD;
        let end = if is_whole { ahead.len() } else { memchr::memrchr(b'\n', &ahead).unwrap_or(ahead.len()) };
        let lines = || lines_of(&ahead[..end]);
        self.counts = CountForm::of(lines());
        let has_times = lines().take(LINES).any(|line| folded::has_time(line, self.counts));
        self.info.events = self.counts.events(has_times);
        self.reader = Box::new(io::Cursor::new(ahead).chain(reader));
        self.counts.words()
    }

    /// Reads the next line without its end into `self.line`; returns `false` at the end.
    fn read_line(&mut self) -> io::Result<bool> {
        self.line.clear();
        let n = Read::take(&mut self.reader, MAX_LINE as u64).read_until(b'\n', &mut self.line)?;
        self.done += n as u64;
        self.number += 1;
        while self.line.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
            self.line.pop();
        }
        if self.number == 1 && self.line.starts_with(BYTE_ORDER_MARK) {
            self.line.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(n > 0)
    }

    fn bad_line(&mut self, number: u64) {
        self.bad += 1;
        self.first_bad.get_or_insert(number);
    }

    fn folded(&mut self, batch: &mut Batch) -> io::Result<bool> {
        while batch.named.samples.len() < BATCH {
            if !self.read_line()? {
                return self.failed.take().map_or(Ok(false), Err);
            }
            let line = std::mem::take(&mut self.line);
            if !line.trim_ascii().is_empty() && line[0] != b'#' {
                match folded::line(&line, self.counts, &mut self.names, batch) {
                    FoldedLine::Stack { is_inexact } => self.inexact += u64::from(is_inexact),
                    FoldedLine::Other => self.bad_line(self.number),
                }
            }
            self.line = line;
        }
        Ok(true)
    }

    fn script(&mut self, batch: &mut Batch) -> io::Result<bool> {
        let mut open: Option<Open> = None;
        let mut after = After::Nothing;
        // Batches do not split samples: a full batch ends with an empty line.
        loop {
            let more = self.read_line()?;
            let line = std::mem::take(&mut self.line);
            if line.is_empty() || !more {
                self.close(open.take(), batch);
                after = After::Nothing;
                if !more || batch.named.samples.len() >= BATCH {
                    self.line = line;
                    return Ok(more);
                }
            } else if line[0] != b'#' {
                after = self.script_line(&line, &mut open, after, batch);
            }
            self.line = line;
        }
    }

    /// Reads a line of `perf script`; returns the context of the next line.
    fn script_line(&mut self, line: &[u8], open: &mut Option<Open>, after: After, batch: &mut Batch) -> After {
        let is_behind_tab = line[0] == b'\t';
        let takes_frames = open.as_ref().is_some_and(|open| !open.sample.closed);
        let line = script::without_extras(line);
        if line.is_empty() {
            self.close(open.take(), batch);
            return After::Nothing;
        }
        // A line of source code; below a chain no other line begins like this.
        if after == After::Chain && line.starts_with(b"  ") {
            return after;
        }
        let is_frame = takes_frames && script::is_frame_alone(line);
        if !is_behind_tab && !is_frame {
            match script::line(line) {
                // Tabs may have been converted to blanks.
                script::ScriptLine::Sample(header) if takes_frames && header.is_frame_alone() => {}
                // `  file.c:12` may end at the column of a comm's end.
                script::ScriptLine::Sample(header) if after == After::Frame && header.is_comm_alone() => return after,
                script::ScriptLine::Sample(mut header) => {
                    self.close(open.take(), batch);
                    // The numbers on the line of a sample with a chain are other fields, such as `-F +addr`.
                    if header.frame.is_some() && self.is_before_chain() {
                        header.frame = None;
                    }
                    let after = if header.frame.is_some() { After::Frame } else { After::Nothing };
                    let sample = script::sample(&header, &mut self.names, batch);
                    *open = Some(Open::new(sample, header.is_bare.then_some(self.number)));
                    return after;
                }
                script::ScriptLine::Record => {
                    self.close(open.take(), batch);
                    return After::Record;
                }
                script::ScriptLine::Other => {}
            }
        }
        if is_behind_tab && after == After::Record {
            return after;
        }
        match (is_behind_tab || takes_frames).then(|| script::frame(line)).flatten() {
            Some(frame) => {
                let names = &mut self.names;
                let open = open.get_or_insert_with(|| Open::new(script::anonymous(names, batch), None));
                open.take(&frame, names, batch);
                return if is_behind_tab { After::Chain } else { After::Frame };
            }
            // A line of source code.
            None if after == After::Frame && line.starts_with(b"  ") => {}
            None => self.bad_line(self.number),
        }
        after
    }

    /// Returns whether the next line begins with a tab.
    fn is_before_chain(&mut self) -> bool {
        matches!(self.reader.fill_buf(), Ok([b'\t', ..]))
    }

    fn close(&mut self, open: Option<Open>, batch: &mut Batch) {
        match open {
            Some(Open { sample, bare: Some(number), .. }) if sample.frames.is_empty() && !self.is_bare => {
                self.bad_line(number);
            }
            Some(open) => {
                self.is_bare |= open.bare.is_some();
                batch.named.samples.push(open.sample);
            }
            None => {}
        }
    }
}

/// A sample that may have further frames.
struct Open {
    sample: NamedSample,
    /// The number of its line, if only frames prove that it is a sample.
    bare: Option<u64>,
    /// Whether a user frame was read; further frames are its callers.
    in_user: bool,
}

impl Open {
    fn new(sample: NamedSample, bare: Option<u64>) -> Self {
        Self { sample, bare, in_user: false }
    }

    /// Adds the next frame. All callers outside of code become the same frame, regardless of their addresses.
    fn take(&mut self, frame: &script::ScriptFrame<'_>, names: &mut TextNames, batch: &mut Batch) {
        let is_lost = self.in_user && frame.is_nowhere();
        self.in_user = frame.is_user();
        let id = if is_lost { script::nowhere(names, batch) } else { frame.id(names, batch) };
        batch.named.frames.push(id);
        self.sample.frames.end = batch.named.frames.len() as u32;
    }
}

/// The context of a line of `perf script`: the line above it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    /// A sample's only frame, on the sample's line.
    Frame,
    /// A frame of a chain.
    Chain,
    Record,
}

impl Source for TextSource {
    fn info(&self) -> &Info {
        &self.info
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
        if self.stopped {
            return Ok(batch.end(EndReason::Stopped(format!("at line {} of {}", self.number, self.name))));
        }
        let more = match self.format {
            TextFormat::Folded => self.folded(batch),
            TextFormat::Script => self.script(batch),
        };
        let more = more.unwrap_or_else(|error| {
            batch.note(format!("reading ends at line {}: {error}", self.number));
            false
        });
        batch.events.push(SourceEvent::Progress(self.done, self.size));
        if more {
            return Ok(Progress::More);
        }
        if let Some(line) = self.first_bad {
            batch.events.push(SourceEvent::Unread(self.bad));
            let lines = counted(self.bad, "line");
            batch.note(format!("skipped {lines} that could not be parsed; the first is line {line}"));
        }
        if let Some(note) = self.names.note_of_other_events() {
            batch.note(note);
        }
        if self.inexact > 0 {
            batch.note(format!(
                "the counts of {} were rounded to {} decimals or cut to 64 bits: the beginning of the file did \
                 not need more",
                counted(self.inexact, "stack"),
                self.counts.decimals
            ));
        }
        Ok(batch.end(EndReason::Complete(self.name.clone())))
    }
}

#[cfg(test)]
mod tests;
