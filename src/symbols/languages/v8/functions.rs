//! Names, files and lines of functions, by their shared parts.

use super::ANONYMOUS;
use super::layout::V8Layout;
use super::strings::number;
use crate::kernel::walk::script_engine::function_cookie;
use crate::symbols::languages::ProcessMemory;
use crate::symbols::languages::code_names::FunctionLabel;

/// Variables of a scope that have their names in it; with more of them, these are in a table.
const NAMED_VARIABLES: u32 = 75;
const MOST_VARIABLES: u32 = 1 << 16;
/// Bits of a scope's flags: its own class is a variable; the function's name is one, or its inferred name is there.
const SCOPE_KIND: u32 = 15;
const HAS_CLASS: u32 = 1 << 10;
const HAS_NAME: u32 = 3 << 12;
const HAS_INFERRED: u32 = 1 << 14;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum V8Function {
    Script(FunctionLabel),
    Builtin,
}

/// The name of a function, and where it begins in its script.
struct Scope {
    name: Option<String>,
    start: Option<u32>,
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
    pub(super) fn function(&self, shared: u64, memory: &impl ProcessMemory) -> Option<V8Function> {
        (self.kind(shared, memory)? == self.types.shared).then_some(())?;
        let field = |offset: u8| self.field(shared, offset.into(), memory);
        let script = field(self.engine.script)?;
        if self.kind(script, memory)? != self.types.script {
            return Some(V8Function::Builtin);
        }
        let info = field(self.engine.name)?;
        let scope = match number(info) {
            Some(_) => Scope { name: None, start: None },
            None if self.kind(info, memory)? == self.types.scope => self.scope(info, memory)?,
            None => Scope { name: Some(self.string(info, memory)?), start: None },
        };
        let name = scope.name.filter(|name| !name.is_empty()).unwrap_or_else(|| ANONYMOUS.to_owned());
        let line = scope.start.and_then(|start| self.line(script, start, memory));
        let file = self.field(script, self.script_name.into(), memory)?;
        let file = self.string(file, memory).unwrap_or_default();
        let file = file.strip_prefix("file://").unwrap_or(&file);
        let line = line.unwrap_or(0);
        Some(V8Function::Script(FunctionLabel { name: name.into(), file: file.into(), line, source: "".into() }))
    }

    /// Returns what the scope of a function says of it.
    fn scope(&self, scope: u64, memory: &impl ProcessMemory) -> Option<Scope> {
        let head = u64::from(self.scope_head);
        let word = |index: u64| self.field(scope, 8 + 8 * index, memory);
        let flags = word(0)?;
        let flags = if flags as u32 != 0 { flags as u32 } else { (flags >> 32) as u32 };
        let variables = number(word(2)?).filter(|n| *n <= MOST_VARIABLES)?;
        // The kinds of scopes begin elsewhere since positions are in front.
        let is_module = flags & SCOPE_KIND == if head == 3 { 3 } else { 5 };
        let names = if variables < NAMED_VARIABLES { variables } else { 1 };
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
        let start = start.zip(end).filter(|(start, end)| start <= end).map(|(start, _)| start);
        Some(Scope { name, start })
    }

    /// Returns the line of a position in a script.
    fn line(&self, script: u64, start: u32, memory: &impl ProcessMemory) -> Option<u32> {
        /// Lines of a script that are read at most.
        const MOST: u32 = 1 << 18;
        let ends = self.field(script, self.script_lines.into(), memory)?;
        let is_array = number(ends).is_none() && self.kind(ends, memory)? == self.types.array;
        if is_array {
            let n = number(self.field(ends, 8, memory)?).filter(|n| *n > 0 && *n <= MOST);
            if let Some(n) = n {
                let mut bytes = vec![0; 8 * n as usize];
                memory.read(ends.checked_add(15)?, &mut bytes)?;
                let end = |word: &[u8; 8]| (u64::from_le_bytes(*word) >> 32) as u32;
                return Some(bytes.as_chunks::<8>().0.partition_point(|word| end(word) < start) as u32 + 1);
            }
        }
        let text = self.field(script, self.script_source.into(), memory)?;
        Some(self.lines_before(text, start, memory)?.saturating_add(1))
    }
}
