//! Names, files and lines of functions, by their shared parts.

use std::cell::{Cell, RefCell};

use rustc_hash::FxHashMap;

use super::ANONYMOUS;
use super::layout::V8Layout;
use super::strings::number;
use crate::kernel::walk::script_engine::function_cookie;
use crate::record::interpreted::FunctionSource;
use crate::symbols::languages::ProcessMemory;
use crate::symbols::languages::code_names::FunctionLabel;

const MOST_VARIABLES: u32 = 1 << 16;
/// Bits of a scope's flags: its own class is a variable; the function's name is one, or its inferred name is there.
const SCOPE_KIND: u32 = 15;
const HAS_CLASS: u32 = 1 << 10;
const HAS_NAME: u32 = 3 << 12;
const HAS_INFERRED: u32 = 1 << 14;

/// Lines of a script at most, scripts whose lines are known, and lines of all of them at most.
const MOST_LINES: u32 = 1 << 18;
const SCRIPTS: usize = 256;
const LINES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum V8Function {
    /// A function of a program, and its script.
    Script(FunctionLabel, u64),
    Builtin,
}

/// The name of a function, and where it begins and ends in its script.
struct Scope {
    name: Option<String>,
    range: Option<(u32, u32)>,
}

/// Facts about the engine of a process that several functions need.
#[derive(Debug, Default)]
pub(crate) struct V8Process {
    /// The process, and the user who runs it.
    pub(super) process: (i32, u32),
    /// The map of the objects that hold code; 0 until it is known.
    pub(super) stream: Cell<u64>,
    /// The last characters of the lines of scripts, by the addresses of a script and its text, and by its number.
    scripts: RefCell<FxHashMap<[u64; 3], Vec<u32>>>,
}

impl V8Process {
    pub(crate) fn new(pid: i32, uid: u32) -> Self {
        Self { process: (pid, uid), ..Self::default() }
    }
}

impl V8Layout {
    /// Returns the hash of what identifies the function whose shared part is there now.
    pub(super) fn cookie(&self, shared: u64, memory: &impl ProcessMemory) -> Option<u32> {
        let field = |offset: u8| self.field(shared, offset.into(), memory);
        let (name, script, literal) =
            (field(self.engine.name)?, field(self.engine.script)?, field(self.engine.literal)?);
        let id = self.script_word(script, memory)?;
        Some(function_cookie(name, script, id, literal as u32))
    }

    /// Returns the word at a script's number, also of an object that is not a script.
    fn script_word(&self, script: u64, memory: &impl ProcessMemory) -> Option<u64> {
        memory.word(script.wrapping_sub(1).wrapping_add(self.engine.script_id.into()))
    }

    /// Returns the label of a function, given its shared part; `None` if that is not one, or not understood.
    pub(super) fn function(&self, shared: u64, process: &V8Process, memory: &impl ProcessMemory) -> Option<V8Function> {
        (self.kind(shared, memory)? == self.types.shared).then_some(())?;
        let field = |offset: u8| self.field(shared, offset.into(), memory);
        let script = field(self.engine.script)?;
        if self.kind(script, memory)? != self.types.script {
            return Some(V8Function::Builtin);
        }
        let info = field(self.engine.name)?;
        let scope = match number(info) {
            Some(_) => Scope { name: None, range: None },
            None if self.kind(info, memory)? == self.types.scope => self.scope(info, memory)?,
            None => Scope { name: Some(self.string(info, memory)?), range: None },
        };
        let name = scope.name.filter(|name| !name.is_empty()).unwrap_or_else(|| ANONYMOUS.to_owned());
        let line = |position: u32| self.line(script, position, process, memory);
        let lines = scope.range.and_then(|(start, end)| Some((line(start)?, line(end)?)));
        let file = self.field(script, self.script_name.into(), memory)?;
        let file = self.string(file, memory).unwrap_or_default();
        let file = file.strip_prefix("file://").unwrap_or(&file);
        let (pid, uid) = process.process;
        let source = lines.map(|(first, last)| FunctionSource { file: file.into(), first, last, pid, uid });
        let line = lines.map_or(0, |(first, _)| first);
        Some(V8Function::Script(FunctionLabel { name: name.into(), file: file.into(), line, source }, script))
    }

    /// Returns what the scope of a function says of it.
    fn scope(&self, scope: u64, memory: &impl ProcessMemory) -> Option<Scope> {
        let head = u64::from(self.scope_head);
        let word = |index: u64| self.field(scope, 8 + 8 * index, memory);
        let flags = word(0)?;
        let flags = if flags as u32 != 0 { flags as u32 } else { (flags >> 32) as u32 };
        let variables = number(word(2)?).filter(|n| *n <= MOST_VARIABLES)?;
        let is_module = self.counted_scope == Some(flags & SCOPE_KIND);
        let names = if variables < self.named_variables { variables } else { 1 };
        let mut at = head + u64::from(is_module) + u64::from(names) + u64::from(variables);
        at += u64::from(flags & HAS_CLASS != 0);
        let mut name = None;
        if flags & HAS_NAME != 0 {
            // An empty name is 0 in some versions.
            let word = word(at)?;
            name = if number(word).is_some() { None } else { Some(self.string(word, memory)?) };
            at += 2;
        }
        if flags & HAS_INFERRED != 0 {
            if name.as_ref().is_none_or(String::is_empty) {
                // A property's path names the function, but a variable's name may be that of others.
                name = self.string(word(at)?, memory).filter(|inferred| inferred.contains('.')).or(name);
            }
            at += 1;
        }
        let position = |index: u64| word(index).and_then(number);
        let (start, end) = if head == 5 { (position(3), position(4)) } else { (position(at), position(at + 1)) };
        Some(Scope { name, range: start.zip(end).filter(|(start, end)| start <= end) })
    }

    /// Returns the line of a character of a script.
    pub(super) fn line(
        &self,
        script: u64,
        character: u32,
        process: &V8Process,
        memory: &impl ProcessMemory,
    ) -> Option<u32> {
        let text = self.field(script, self.script_source.into(), memory)?;
        let key = [script, text, self.script_word(script, memory)?];
        let mut scripts = process.scripts.borrow_mut();
        if !scripts.contains_key(&key) {
            let ends = self.line_ends(script, text, memory)?;
            if scripts.len() >= SCRIPTS || scripts.values().map(Vec::len).sum::<usize>() + ends.len() > LINES {
                scripts.clear();
            }
            scripts.insert(key, ends);
        }
        let ends = scripts.get(&key)?;
        let before = ends.partition_point(|end| *end < character);
        // The last line ends with the text.
        (before < ends.len()).then_some(before as u32 + 1)
    }

    /// Returns the last characters of the lines of a script. The engine has them after its first request for a line.
    fn line_ends(&self, script: u64, text: u64, memory: &impl ProcessMemory) -> Option<Vec<u32>> {
        let ends = self.field(script, self.script_lines.into(), memory)?;
        let is_array = number(ends).is_none() && self.kind(ends, memory)? == self.types.array;
        let n =
            if is_array { number(self.field(ends, 8, memory)?).filter(|n| (1..=MOST_LINES).contains(n)) } else { None };
        let Some(n) = n else { return self.line_ends_of(text, MOST_LINES, memory) };
        let mut bytes = vec![0; 8 * n as usize];
        memory.read(ends.checked_add(15)?, &mut bytes)?;
        Some(bytes.as_chunks::<8>().0.iter().map(|word| (u64::from_le_bytes(*word) >> 32) as u32).collect())
    }
}
