//! Frames of interpreters in walks: turns the groups of words that the kernel writes into addresses of functions, and
//! names these by records of their own.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::event::Interpreters;
use crate::kernel::walk::runtime::{GeneratedFrame, GeneratedKind, StringBytes, WalkPart, WalkParts, WalkedFunction};
use crate::kernel::walk::{MIXED, Program, WalkEnd};
use crate::record::in_place::{i32_at, u64_at};
use crate::record::interpreted::{self, FUNCTION_LEN, FunctionSource, Language};
use crate::record::{Layout, SampleId};
use crate::symbols::languages::code_names::FunctionLabel;
use crate::symbols::languages::names::KnownRuntimes;
use crate::symbols::languages::runtime_file::language_of;
use crate::symbols::languages::strings;
use crate::symbols::languages::v8::ANONYMOUS;
use crate::symbols::spaces::InterpretedFigures;

use super::super::output::{RecordOutput, TIME_AT};
use super::generated::{GeneratedFrames, GeneratedFunctions};
use super::{FLAGS_AT, FRAMES_AT, ID_AT, TASK_AT, WHY_AT};

/// The maximum number of functions, and of their places in processes.
const FUNCTIONS: usize = 1 << 17;
const PLACES: usize = 1 << 18;
/// CPython's position of a string's kind in its state.
const KIND_SHIFT: u8 = 2;

/// The functions that have no name yet, and those beyond the limit.
const UNREAD: u32 = 0;
const OTHERS: u32 = 1;

/// The language of a function, its name, file and first line.
type FunctionKey = (Language, String, String, u32);

#[derive(Debug, Default)]
pub(super) struct InterpretedFrames {
    shown: Interpreters,
    /// Whether the kernel's program looks for interpreters.
    is_followed: bool,
    /// The program that writes names; it forgets what was lost.
    program: Option<Arc<Program>>,
    /// The number of each function by its name, file and first line.
    functions: FxHashMap<FunctionKey, u32>,
    /// The source of each function, as described in the stream.
    sources: Vec<ToldSource>,
    /// The languages whose unnamed functions were described.
    described: Vec<Language>,
    generated: GeneratedFrames,
    /// Functions by interpreter, address and content of their code.
    places: FxHashMap<(u32, u64, u32), u32>,
    /// Processes whose mapping was written, and those with frames whose next sample needs it.
    mapped: FxHashSet<(i32, Language)>,
    unmapped: FxHashSet<(i32, Language)>,
    /// The round of rings in which processes executed another program.
    executed: FxHashMap<i32, u64>,
    /// How to write records, with the earliest time of this round.
    round: Option<(Layout, SampleId)>,
    words: Vec<u64>,
    figures: InterpretedFigures,
}

impl InterpretedFrames {
    pub(super) fn new(shown: Interpreters, program: Arc<Program>, machines: KnownRuntimes) -> Self {
        Self {
            shown,
            is_followed: shown != Interpreters::Off,
            program: Some(program),
            generated: GeneratedFrames::new(machines),
            ..Self::default()
        }
    }

    /// Chooses the frames of later walks. Returns whether walks have frames of interpreters at all.
    pub(super) fn show(&mut self, shown: Interpreters) -> bool {
        if self.is_followed {
            self.shown = shown;
        }
        self.is_followed || shown == self.shown
    }

    /// Sets the layout and the values of the trailers of records until the next call.
    pub(super) fn begin(&mut self, layout: Layout, id: SampleId) {
        self.round = Some((layout, id));
        self.executed.retain(|_, round| *round == id.time);
    }

    /// A child has its mapping written, too: that of its parent may be later than the fork.
    pub(super) fn forked(&mut self, child: i32) {
        self.forget(child);
    }

    pub(super) fn executed(&mut self, pid: i32) {
        self.forget(pid);
        self.executed.extend(self.round.map(|(_, id)| (pid, id.time)));
    }

    pub(super) fn exited(&mut self, pid: i32) {
        self.forget(pid);
        self.unmapped.retain(|(mapped, _)| *mapped != pid);
        self.executed.remove(&pid);
    }

    fn forget(&mut self, pid: i32) {
        for language in Language::ALL {
            self.mapped.remove(&(pid, language));
        }
    }

    /// Names may be among lost records: they are written again.
    pub(super) fn lost(&mut self) {
        if let Some(program) = self.program.as_ref().filter(|_| !self.places.is_empty()) {
            program.forget_names();
        }
    }

    /// Replaces the groups in a walk by addresses of functions: the first word is the sampled address, the others are
    /// the frames. Appends the records that these need to `out`. Other walks stay as they are.
    pub(super) fn read<'a>(
        &mut self,
        walk: &'a [u8],
        out: &mut RecordOutput<'_, '_>,
        room: &'a mut Vec<u8>,
    ) -> &'a [u8] {
        let Some(words) = walk.get(FRAMES_AT..).filter(|_| walk[FLAGS_AT] & MIXED != 0) else { return walk };
        let pid = i32_at(walk, TASK_AT).unwrap_or(-1);
        let outermost = self.look(words, pid);
        let (mut runtime, mut leaf, mut hidden, mut language) = (0, None, None, None);
        let mut runs = Runs::default();
        let mut frames = std::mem::take(&mut self.words);
        frames.clear();
        for (i, part) in WalkParts::of(words).enumerate() {
            match part {
                WalkPart::Runtime(id) => (runtime, language) = (id, language_of(id)),
                WalkPart::Names(function, name, file) => {
                    language.into_iter().for_each(|language| self.name(language, (runtime, function), name, file, out));
                }
                // These have no address. That of other code comes before its frame.
                WalkPart::Frame(_) if self.shown == Interpreters::Off => {}
                WalkPart::Generated(frame) if self.shown == Interpreters::Off => {
                    if !frame.kind.has_address() {
                        let address = frame.code.wrapping_add(frame.at.into());
                        leaf.get_or_insert(address);
                        frames.push(address);
                    }
                }
                WalkPart::Frame(function) => {
                    let Some(language) = language else { continue };
                    let number = self.number(runtime, function);
                    self.figures.count(language, number != UNREAD);
                    runs.add(frames.len());
                    frames.push(self.at_line(language.address(number), (runtime, function), out));
                }
                WalkPart::Generated(frame) => {
                    let Some(language) = language else { continue };
                    let address = frame.code.wrapping_add(frame.at.into());
                    leaf.get_or_insert(address);
                    // The address before is of the same frame.
                    let is_replaced = matches!(frame.kind, GeneratedKind::Script(_)) && hidden.is_none();
                    let own = if is_replaced && self.shown == Interpreters::Auto { frames.pop() } else { None };
                    match self.generated((runtime, frame), language, &mut frames, out) {
                        GeneratedFunctions::Known | GeneratedFunctions::Unread => {}
                        GeneratedFunctions::Native => frames.extend(own),
                        // Its interpreter's address was hidden for it.
                        GeneratedFunctions::Unreadable if frame.kind.has_address() => {
                            frames.extend(own.or(hidden.take()));
                        }
                        GeneratedFunctions::Unreadable => frames.push(address),
                    }
                }
                WalkPart::Native(address, is_own) => {
                    runs.is_native = true;
                    leaf.get_or_insert(address);
                    let is_inner = outermost.is_some_and(|outermost| i < outermost);
                    let is_hidden = match self.shown {
                        Interpreters::Only => outermost.is_some(),
                        Interpreters::Auto => is_own && is_inner,
                        Interpreters::Both | Interpreters::Off => false,
                    };
                    hidden = is_hidden.then_some(address);
                    frames.extend((!is_hidden).then_some(address));
                    if is_own {
                        runs.own_end = Some(frames.len());
                    }
                }
            }
        }
        if let Some(language) = language.filter(|_| outermost.is_some())
            && pid > 0
            && !self.mapped.contains(&(pid, language))
        {
            self.unmapped.insert((pid, language));
        }
        let is_whole = [WalkEnd::Complete, WalkEnd::LastFrame].iter().any(|whole| walk[WHY_AT] == *whole as u8);
        if is_whole && matches!(language, Some(Language::Ruby | Language::Perl)) {
            runs.join(&mut frames);
        }
        room.clear();
        room.extend_from_slice(&walk[..FRAMES_AT]);
        leaf.iter().chain(&frames).for_each(|word| room.extend_from_slice(&word.to_le_bytes()));
        self.words = frames;
        room
    }

    pub(super) fn figures(&self) -> InterpretedFigures {
        InterpretedFigures { functions: self.functions.len(), shown: self.shown, ..self.figures }
    }

    fn number(&self, runtime: u32, function: WalkedFunction) -> u32 {
        self.places.get(&(runtime, function.code, function.cookie)).copied().unwrap_or(UNREAD)
    }

    #[cfg(test)]
    pub(super) fn learn_lines(
        &mut self,
        runtime: u32,
        function: WalkedFunction,
        lines: crate::symbols::languages::line_table::FunctionLines,
    ) {
        self.generated.learn_lines(runtime, code_of(function), lines);
    }

    /// Returns the address of a frame's line, given that of its function; of the function itself without a line.
    fn at_line(&mut self, function: u64, frame: (u32, WalkedFunction), out: &mut RecordOutput<'_, '_>) -> u64 {
        let Some(lines) = self.generated.lines(frame.0, code_of(frame.1)) else { return function };
        let Some(line) = lines.at(frame.1.at) else { return function };
        let source = lines.source.clone();
        if self.has_source(function, &source, out) {
            interpreted::at_line(function, source.first, line)
        } else {
            function
        }
    }

    /// Describes the source of a function at its address before its first line. Returns whether it is the function's source
    /// in the stream: processes name different scripts by the same relative path.
    fn has_source(&mut self, function: u64, source: &FunctionSource, out: &mut RecordOutput<'_, '_>) -> bool {
        let number = interpreted::number(function);
        let Some(told) = number.checked_sub(OTHERS + 1).and_then(|i| self.sources.get_mut(i as usize)) else {
            return false;
        };
        match told {
            ToldSource::File(file) => *file == source.file,
            ToldSource::Label(label) => {
                let label = std::mem::take(label);
                *told = ToldSource::File(source.file.clone());
                self.tell(function, &label, Some(source), out);
                true
            }
        }
    }

    /// Learns a function's name. Equal functions of several processes are the same.
    fn name(
        &mut self,
        language: Language,
        (runtime, function): (u32, WalkedFunction),
        name: StringBytes<'_>,
        file: StringBytes<'_>,
        out: &mut RecordOutput<'_, '_>,
    ) {
        let Some((name, file)) = texts(language, name, file) else { return };
        if self.places.len() >= PLACES {
            self.places.clear();
            self.lost();
        }
        let number = self.function((language, name, file, function.at), out);
        self.places.insert((runtime, function.code, function.cookie), number);
    }

    fn describe(&mut self, language: Language, out: &mut RecordOutput<'_, '_>) {
        if !self.described.contains(&language) {
            self.described.push(language);
            self.tell(language.address(UNREAD), interpreted::NAME_NOT_READ, None, out);
            self.tell(language.address(OTHERS), "(other functions)", None, out);
        }
    }

    /// Returns the number of a function, and describes it if it is new.
    fn function(&mut self, key: FunctionKey, out: &mut RecordOutput<'_, '_>) -> u32 {
        self.describe(key.0, out);
        let next = OTHERS + 1 + self.functions.len() as u32;
        match self.functions.get(&key) {
            Some(known) => *known,
            None if self.functions.len() >= FUNCTIONS => OTHERS,
            None => {
                let label = label(&key);
                self.tell(key.0.address(next), &label, None, out);
                self.sources.push(ToldSource::Label(if key.0.has_lines() { label.into() } else { Box::default() }));
                self.functions.insert(key, next);
                next
            }
        }
    }

    /// Returns the position of the outermost frame of a language, and asks for the lines of functions and for the names
    /// of code of a virtual machine.
    fn look(&mut self, words: &[u8], pid: i32) -> Option<usize> {
        let (mut runtime, mut outermost, mut unknown) = (0, None, Vec::new());
        let mut seek = |generated: &GeneratedFrames, runtime, code| {
            if !generated.knows(runtime, code) && !unknown.contains(&code) {
                unknown.push(code);
            }
        };
        for (i, part) in WalkParts::of(words).enumerate() {
            match part {
                WalkPart::Runtime(id) => runtime = id,
                WalkPart::Frame(function) => {
                    outermost = Some(i);
                    if language_of(runtime).is_some_and(Language::has_lines) {
                        seek(&self.generated, runtime, code_of(function));
                    }
                }
                WalkPart::Generated(frame) => {
                    outermost = Some(i);
                    seek(&self.generated, runtime, GeneratedFrame { at: 0, ..frame });
                }
                WalkPart::Native(..) | WalkPart::Names(..) => {}
            }
        }
        if !unknown.is_empty() {
            self.generated.ask((runtime, pid), unknown);
        }
        outermost
    }

    /// Adds the functions of a frame that the memory of its process describes.
    fn generated(
        &mut self,
        frame: (u32, GeneratedFrame),
        language: Language,
        frames: &mut Vec<u64>,
        out: &mut RecordOutput<'_, '_>,
    ) -> GeneratedFunctions {
        let (mut generated, before) = (std::mem::take(&mut self.generated), frames.len());
        let number = |label: &FunctionLabel| {
            let key = (language, label.name.to_string(), label.file.to_string(), label.line);
            let number = self.function(key, out);
            let source = label.source.as_ref();
            (number, source.is_some_and(|source| self.has_source(language.address(number), source, out)))
        };
        let found = generated.functions(frame, language, number, frames);
        self.generated = generated;
        if found == GeneratedFunctions::Unread {
            self.describe(language, out);
            frames.push(language.address(UNREAD));
        }
        let is_named = found == GeneratedFunctions::Known;
        (before..frames.len()).for_each(|_| self.figures.count(language, is_named));
        found
    }

    fn tell(&self, address: u64, label: &str, source: Option<&FunctionSource>, out: &mut RecordOutput<'_, '_>) {
        const _: () = assert!(FUNCTION_LEN == 1 << 16);
        let Some((layout, id)) = &self.round else { return };
        let trailer = layout.encode_trailer(id);
        // A name and a path are shorter than a record may be.
        out.write(|out| interpreted::encode_function(out, address, label, source, &trailer).is_some());
    }

    /// Writes the mapping of a sample's process if it has frames and no mapping. Records may be read before earlier ones
    /// of other rings: only the sample's own time is after the process began.
    pub(super) fn map(&mut self, sample: &[u8], out: &mut RecordOutput<'_, '_>) {
        if self.unmapped.is_empty() {
            return;
        }
        let Some((pid, time)) = i32_at(sample, ID_AT + 16).zip(u64_at(sample, TIME_AT)) else { return };
        let Some((layout, id)) = self.round.as_ref() else { return };
        let trailer = layout.encode_trailer(&SampleId { pid, tid: pid, time, ..*id });
        for language in Language::ALL {
            if !self.unmapped.remove(&(pid, language)) {
                continue;
            }
            out.write(|out| interpreted::encode_mapping(out, language, pid, &trailer).is_some());
            // The program that a process executes in this round has no mapping before it: the next round repeats it.
            if !self.executed.contains_key(&pid) {
                self.mapped.insert((pid, language));
            }
        }
    }
}

/// The description of a function in the stream: only its label, or its file, too.
#[derive(Debug)]
enum ToldSource {
    Label(Box<str>),
    File(Arc<str>),
}

/// Returns the identity by which the lines of a function are read.
fn code_of(function: WalkedFunction) -> GeneratedFrame {
    let WalkedFunction { code, cookie, .. } = function;
    GeneratedFrame { code, cookie, at: 0, kind: GeneratedKind::Interpreted }
}

/// Runs of frames of a language, each of one call from C.
#[derive(Debug, Default)]
struct Runs {
    /// Where the last run begins and ends, and where the one before it ended.
    start: usize,
    end: Option<usize>,
    end_before: Option<usize>,
    /// Where the last native frame of the interpreter ends.
    own_end: Option<usize>,
    /// Native frames follow the last run.
    is_native: bool,
}

impl Runs {
    fn add(&mut self, at: usize) {
        if self.is_native || self.end.is_none() {
            (self.start, self.end_before) = (at, self.end);
        }
        self.is_native = false;
        self.end = Some(at + 1);
    }

    /// Moves the frames behind all native frames of a whole stack to the run before: the interpreter was about to begin
    /// that run, so that it took the place of its caller's. A stack without another run is in a function of the
    /// interpreter that no loop called, for example in that of exceptions: they belong behind its native frames.
    fn join(&self, frames: &mut [u64]) {
        if let Some(to) = self.end_before.or(self.own_end).filter(|_| !self.is_native && self.end.is_some()) {
            frames[to..].rotate_left(self.start - to);
        }
    }
}

/// Returns the label of a function: its name and the last part of its file's. Functions without a name have their line.
pub(super) fn label((language, name, file, line): &FunctionKey) -> String {
    let base = base_name(file);
    match (language, &**name) {
        // Functions that are written in C have no file.
        _ if file.is_empty() => name.clone(),
        (Language::JavaScript, ANONYMOUS) if *line > 0 => format!("{name} ({base}:{line})"),
        _ => format!("{name} ({base})"),
    }
}

/// Returns the last part of a path, also of one that is enclosed: `(eval at /srv/app.rb:3)`, `<internal:/lib/set.rb>`.
fn base_name(file: &str) -> Cow<'_, str> {
    const PLACE: &str = "eval at ";
    let base = file.rsplit('/').next().unwrap_or(file);
    let open = |(start, end): (char, char)| Some((base.strip_suffix(end)?, start));
    let Some((inner, start)) = [('(', ')'), ('<', '>')].into_iter().find_map(open) else { return base.into() };
    if base.len() == file.len() {
        return inner.strip_prefix('(').unwrap_or(base).into();
    }
    // The start of a long one is not known.
    if inner.contains(start) || !file.starts_with([start, '…']) {
        return base.into();
    }
    let is_place = file.strip_prefix(start).is_some_and(|file| file.starts_with(PLACE));
    if is_place { format!("{PLACE}{inner}").into() } else { inner.into() }
}

/// Returns the texts of a function's name and its file.
fn texts(language: Language, name: StringBytes<'_>, file: StringBytes<'_>) -> Option<(String, String)> {
    match language {
        Language::Python => {
            let read = |string, is_end| strings::decode(string, KIND_SHIFT, is_end);
            read(name, false).zip(read(file, true))
        }
        // These names are not in walks.
        Language::Java | Language::JavaScript => None,
        Language::Perl => {
            let name = strings::qualified(name);
            (!name.is_empty()).then(|| (name, strings::without_number(strings::bytes(file, true))))
        }
        Language::Ruby => Some((strings::bytes(name, false), strings::bytes(file, true))),
        Language::Php => {
            let name = strings::qualified(name);
            // The code of a file outside functions.
            Some((if name.is_empty() { "{main}".to_owned() } else { name }, strings::bytes(file, true)))
        }
    }
}
