//! Profiles as text: `perf script` output and folded stacks. They carry names instead of addresses.

pub(crate) mod folded;
pub(crate) mod script;

use std::io::BufRead;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::kernel::attr::Attr;
use crate::perfdata::EventDesc;
use crate::session::Origin;

use super::{Batch, Info, NamedFrame, NamedSample, Progress, Source, SourceError};

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The text of `perf script`: a line for each sample, and lines of its call chain below.
    Script,
    /// Folded stacks: a line for each stack, its frames from the root on, and a count.
    Folded,
}

/// Samples in one batch.
const BATCH: usize = 2048;
/// Lines of a foreign file that are looked at.
const LINES: usize = 50;
/// A longer line is damage.
const MAX_LINE: usize = 1 << 20;

/// The format by the beginning of a file; `None` when it is no profile.
pub fn sniff(head: &[u8]) -> Option<Format> {
    if head.contains(&0) {
        return None;
    }
    let end = memchr::memrchr(b'\n', head).unwrap_or(head.len());
    let lines = || head[..end].split(|b| *b == b'\n').filter(|l| !l.is_empty() && l[0] != b'#').take(LINES);
    if is_script(lines()) {
        return Some(Format::Script);
    }
    let (good, all) = lines().fold((0, 0), |(g, n), l| (g + usize::from(folded::split(l).is_some()), n + 1));
    // One line that ends with a number proves little, so a stack or a second line must show too.
    let shape = lines().any(|l| l.contains(&b';')) || all > 1;
    (good > 0 && good * 10 >= all * 9 && shape).then_some(Format::Folded)
}

/// True if a line has a time and what stands around it, or frames stand behind tabs.
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
            // Frames below a sample may stand behind nothing.
            _ if good > 0 && script::is_frame_alone(line) => good += 1,
            _ => {}
        }
    }
    all > 1 && good * 10 >= all * 9
}

/// Text being read.
pub struct TextSource {
    name: String,
    format: Format,
    reader: Box<dyn BufRead + Send>,
    pub(super) info: Info,
    line: Vec<u8>,
    number: u64,
    done: u64,
    size: u64,
    bad: u64,
    first_bad: Option<u64>,
    /// Whether frames have proved that a line of so few fields is a sample here.
    is_bare: bool,
    names: TextNames,
    stopped: bool,
}

/// Names that were met, each told once.
#[derive(Default)]
pub(crate) struct TextNames {
    frames: HashMap<Vec<u8>, u32>,
    comms: HashMap<Vec<u8>, Arc<str>>,
    events: HashMap<Vec<u8>, u16>,
    last: folded::LastStack,
}

impl TextNames {
    /// The id of a frame; a new one is described by `describe` and put into the batch.
    pub(crate) fn frame(&mut self, key: &[u8], batch: &mut Batch, describe: impl FnOnce() -> NamedFrame) -> u32 {
        let id = self.frames.len() as u32;
        *self.frames.entry_ref(key).or_insert_with(|| {
            batch.names.push(describe());
            id
        })
    }

    pub(crate) fn comm(&mut self, name: &[u8]) -> Arc<str> {
        self.comms.entry_ref(name).or_insert_with(|| String::from_utf8_lossy(name).into()).clone()
    }

    /// The index of an event; a new one is put into the batch.
    pub(crate) fn event(&mut self, name: &[u8], batch: &mut Batch) -> u16 {
        let id = self.events.len() as u16;
        *self.events.entry_ref(name).or_insert_with(|| {
            batch.events.push(event(&String::from_utf8_lossy(name)));
            id
        })
    }
}

fn event(name: &str) -> EventDesc {
    let attr = Attr { sample_type: crate::kernel::attr::sample::CALLCHAIN, ..Attr::default() };
    EventDesc { name: name.to_owned(), attr, ids: Vec::new() }
}

impl TextSource {
    /// `size` is that of the whole text, 0 when unknown.
    pub fn new(name: String, format: Format, reader: Box<dyn BufRead + Send>, size: u64) -> Self {
        let what = match format {
            Format::Script => "text of perf script",
            Format::Folded => "folded stacks: the counts in the file are the periods here, and each line is one sample",
        };
        let mut source = Self {
            info: Info {
                target: name.clone(),
                facts: vec![("format".into(), what.into())],
                ..Info::new(Origin::Recorded)
            },
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
            stopped: false,
        };
        if format == Format::Folded {
            source.names.events.insert(b"samples"[..].into(), 0);
            source.info.events.push(event("samples"));
        }
        source
    }

    /// Reads the next line without its end into `self.line`; `false` at the end.
    fn read_line(&mut self) -> std::io::Result<bool> {
        self.line.clear();
        let n = std::io::Read::take(&mut self.reader, MAX_LINE as u64).read_until(b'\n', &mut self.line)?;
        self.done += n as u64;
        self.number += 1;
        while self.line.last().is_some_and(|b| matches!(b, b'\n' | b'\r')) {
            self.line.pop();
        }
        Ok(n > 0)
    }

    fn bad_line(&mut self, number: u64) {
        self.bad += 1;
        self.first_bad.get_or_insert(number);
    }

    fn folded(&mut self, batch: &mut Batch) -> std::io::Result<bool> {
        while batch.stacks.len() < BATCH {
            if !self.read_line()? {
                return Ok(false);
            }
            let line = std::mem::take(&mut self.line);
            if !line.is_empty() && line[0] != b'#' && !folded::line(&line, &mut self.names, batch) {
                self.bad_line(self.number);
            }
            self.line = line;
        }
        Ok(true)
    }

    fn script(&mut self, batch: &mut Batch) -> std::io::Result<bool> {
        let mut open: Option<Open> = None;
        let mut after = After::Nothing;
        // Samples are not cut by batches: a full batch ends with an empty line.
        loop {
            let more = self.read_line()?;
            let line = std::mem::take(&mut self.line);
            if line.is_empty() || !more {
                self.close(open.take(), batch);
                after = After::Nothing;
                if !more || batch.stacks.len() >= BATCH {
                    self.line = line;
                    return Ok(more);
                }
            } else if line[0] != b'#' {
                after = self.script_line(&line, &mut open, after, batch);
            }
            self.line = line;
        }
    }

    /// Takes in a line of `perf script`; what the next one comes after.
    fn script_line(&mut self, line: &[u8], open: &mut Option<Open>, after: After, batch: &mut Batch) -> After {
        let is_behind_tab = line[0] == b'\t';
        let takes_frames = open.as_ref().is_some_and(|open| !open.sample.closed);
        let line = script::without_instruction(line);
        if line.is_empty() {
            self.close(open.take(), batch);
            return After::Nothing;
        }
        // A source's line; below a chain nothing else begins so.
        if after == After::Chain && line.starts_with(b"  ") {
            return after;
        }
        let is_frame = takes_frames && script::is_frame_alone(line);
        if !is_behind_tab && !is_frame {
            match script::line(line) {
                // Tabs may have become blanks on the way.
                script::ScriptLine::Sample(header) if takes_frames && header.is_frame_alone() => {}
                // `  file.c:12` may end where a comm does.
                script::ScriptLine::Sample(header) if after == After::Frame && header.is_comm_alone() => return after,
                script::ScriptLine::Sample(header) => {
                    self.close(open.take(), batch);
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
            // A source's line.
            None if after == After::Frame && line.starts_with(b"  ") => {}
            None => self.bad_line(self.number),
        }
        after
    }

    /// A sample that has all its frames.
    fn close(&mut self, open: Option<Open>, batch: &mut Batch) {
        match open {
            Some(Open { sample, bare: Some(number), .. }) if sample.frames.is_empty() && !self.is_bare => {
                self.bad_line(number);
            }
            Some(open) => {
                self.is_bare |= open.bare.is_some();
                batch.stacks.push(open.sample);
            }
            None => {}
        }
    }
}

/// A sample that frames may still come to.
struct Open {
    sample: NamedSample,
    /// The number of its line, where only frames prove it a sample.
    bare: Option<u64>,
    /// Whether a user's frame has come, behind which there are its callers.
    in_user: bool,
}

impl Open {
    fn new(sample: NamedSample, bare: Option<u64>) -> Self {
        Self { sample, bare, in_user: false }
    }

    /// Takes the next frame. Callers where no code is are one frame, whatever their addresses.
    fn take(&mut self, frame: &script::ScriptFrame<'_>, names: &mut TextNames, batch: &mut Batch) {
        let is_lost = self.in_user && frame.is_nowhere();
        self.in_user = frame.is_user();
        let id = if is_lost { script::nowhere(names, batch) } else { frame.id(names, batch) };
        batch.stack_frames.push(id);
        self.sample.frames.end = batch.stack_frames.len() as u32;
    }
}

/// The line above a line of `perf script`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Nothing,
    /// A sample's only frame, on its own line.
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
            batch.complete_until = Some(u64::MAX);
            return Ok(Progress::End(format!("stopped at line {} of {}", self.number, self.name)));
        }
        let more = match self.format {
            Format::Folded => self.folded(batch),
            Format::Script => self.script(batch),
        };
        let more = more.unwrap_or_else(|error| {
            batch.notes.push(format!("reading ends at line {}: {error}", self.number));
            false
        });
        batch.progress = Some((self.done, self.size));
        if more {
            return Ok(Progress::More);
        }
        if let Some(line) = self.first_bad {
            batch.unread = self.bad;
            batch
                .notes
                .push(format!("{} lines are not understood and were left out, the first is line {line}", self.bad));
        }
        batch.complete_until = Some(u64::MAX);
        Ok(Progress::End(format!("end of {}", self.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All samples as (comm, event, period, time, frames root first).
    pub(crate) fn read(text: &str) -> Vec<(String, u16, u64, u64, Vec<String>)> {
        let format = sniff(text.as_bytes()).expect("a profile");
        let reader = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let mut source = TextSource::new("t".into(), format, reader, 0);
        let (mut names, mut out) = (Vec::new(), Vec::new());
        loop {
            let mut batch = Batch::default();
            let step = source.next(&mut batch).expect("reads");
            names.extend(batch.names.iter().map(|n| format!("{}@{}", n.name, n.dso)));
            for s in &batch.stacks {
                let ids = &batch.stack_frames[s.frames.start as usize..s.frames.end as usize];
                let frames = ids.iter().rev().map(|f| names[*f as usize].clone()).collect();
                out.push((s.comm.to_string(), s.event, s.period, s.time, frames));
            }
            if matches!(step, Progress::End(_)) {
                return out;
            }
        }
    }

    #[test]
    fn folded_stacks_with_marks_and_times() {
        let text = "# a comment\nnginx;main;tcp_send_[k] 12\n2026-11-21;03:04:05;a b;f;g_[j] 3\nx;inl_[i] 1\n";
        let got = read(text);
        assert_eq!(
            got[0],
            ("nginx".into(), 0, 12, 0, vec!["main@[unknown]".into(), "tcp_send@[kernel.kallsyms]".into()])
        );
        assert_eq!((&*got[1].0, got[1].4[1].as_str()), ("a b", "g@[jit]"));
        assert_eq!(got[1].3 % (86_400 * 1_000_000_000), (3 * 3600 + 4 * 60 + 5) * 1_000_000_000);
        assert_eq!(got[2].4, ["inl@[inlined]"]);
    }

    #[test]
    fn frames_of_old_perfs_stand_behind_nothing() {
        let text = "java 19983 cycles:\nffffffff8103d0ca native_write ([kernel.kallsyms])\n7f7243090b7d f (/lib/x.so)\n\n\
                    java 19983 cycles:\n400b3c g (/a (deleted))\n\n";
        let got = read(text);
        assert_eq!(got.len(), 2);
        assert_eq!((&*got[0].0, got[0].2), ("java", 1));
        assert_eq!(got[0].4, ["f@/lib/x.so", "native_write@[kernel.kallsyms]"]);
        assert_eq!(got[1].4, ["g@/a (deleted)"]);
    }

    #[test]
    fn perf_script_as_perf_prints_it() {
        let text = "\
spin x 17520/17521 [001]  2024.627136880:    1001001 cpu-clock:ppp: 
\t            1224 burn_alpha+0x24 (/tmp/w/spin)
\tffffffff8175328f elf_load(int, char const*)+0x1af ([kernel.kallsyms])
\t           2724a [unknown] (/usr/lib/libc.so.6)

:12 12  1.5: page-faults:  ffffffff8175336a elf_load+0x28a ([kernel.kallsyms])
a 7 [000] 3.000000: sched:sched_switch: prev_comm=a (x)

";
        let got = read(text);
        assert_eq!(got.len(), 3);
        assert_eq!((&*got[0].0, got[0].2, got[0].3), ("spin x", 1_001_001, 2_024_627_136_880));
        assert_eq!(got[0].4[0], "[unknown]@/usr/lib/libc.so.6");
        assert_eq!(got[0].4[1..], ["elf_load(int, char const*)@[kernel.kallsyms]", "burn_alpha@/tmp/w/spin"]);
        assert_eq!((&*got[1].0, got[1].1, got[1].3, got[1].4.len()), (":12", 1, 1_500_000_000, 1));
        assert_eq!((got[2].1, got[2].4.len()), (2, 0));
    }

    #[test]
    fn callers_where_no_code_is_stay_in_the_stack() {
        let text = "\
a 1  1.5: cycles:
\tffffffff8175328f f ([kernel.kallsyms])
\t            7fff [unknown] ([unknown])
\t            1224 g (/a)
\t            7ffe [unknown] ([unknown])
\t            1225 h (/a)
\t               0 [unknown] ([unknown])

a 1  1.6: cycles:
\t            1224 g (/a)
\t            1225 [unknown] (/a)
\t            7fff [unknown]
\t            7ffe [unknown] ([unknown])

";
        let got = read(text);
        let lost = "[unknown]@[unknown]";
        assert_eq!(got[0].4, [lost, "h@/a", lost, "g@/a", lost, "f@[kernel.kallsyms]"]);
        // What stands in no parentheses may be anywhere.
        assert_eq!(got[1].4, [lost, lost, "[unknown]@/a", "g@/a"]);
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        for text in ["hello world\n", "#!/bin/sh\nexit 1\n", "", "42\n", "{\"a\": 1}\n"] {
            assert_eq!(sniff(text.as_bytes()), None, "{text:?}");
        }
    }
}
