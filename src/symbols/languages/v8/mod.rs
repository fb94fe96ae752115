//! V8, the engine of Node: its files by the constants in which they describe its types (postmortem metadata), and the
//! functions of its frames.

mod code;
mod constants;
mod functions;
mod layout;
mod positions;
mod strings;
#[cfg(test)]
mod tests;
mod translations;

use object::{Object, ObjectSection, ObjectSymbol};

use super::code_names::CodeNames;
use super::{NotWalked, ProcessMemory, RepeatedMemory, content};
use crate::kernel::procfs::ProcMapping;
use crate::kernel::walk::runtime::{CodePlace, GeneratedFrame, GeneratedKind};
use crate::kernel::walk::script_engine::code_hash;
use crate::symbols::elf::program::ElfProgram;
use constants::Constants;
use functions::V8Function;
pub(crate) use functions::V8Process;
pub(crate) use layout::V8Layout;

/// The label of functions without a name.
pub(crate) const ANONYMOUS: &str = "<anonymous>";

/// A file that contains the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct V8File {
    layout: V8Layout,
    /// The first code: its offset in the file and its linked address.
    code: (u64, u64),
}

/// The functions of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum V8Names {
    Functions(CodeNames),
    /// The frame is one of the engine's own functions.
    Builtin,
}

impl V8File {
    /// Recognizes the engine by its symbols; `None` for other files. Returns its version; fails if that is not
    /// supported, or describes its types in another way.
    pub(super) fn of(program: &ElfProgram<'_>, bytes: &[u8]) -> Option<((u8, u8), Result<Self, NotWalked>)> {
        let elf = program.elf.as_ref()?;
        let names = elf.section_by_name(".dynstr").and_then(|section| section.data().ok())?;
        memchr::memmem::find(names, constants::PREFIX)?;
        let mut constants = Constants::default();
        for symbol in elf.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
            let Some(name) = symbol.name_bytes().ok().filter(|name| name.starts_with(constants::PREFIX)) else {
                continue;
            };
            let section = symbol.section_index().and_then(|index| elf.section_by_index(index).ok());
            let value = match section.map(|section| section.kind()) {
                Some(object::SectionKind::UninitializedData) => Some(0),
                _ => content(program, bytes, symbol.address(), 4)
                    .and_then(|value| value.try_into().ok().map(i32::from_le_bytes)),
            };
            constants.extend(value.map(|value| (name, value)));
        }
        let version = version(elf.section_by_name(".rodata")?.data().ok()?)?;
        let code = program.segments.iter().find(|segment| segment.is_code)?;
        let code = (code.offset, code.address);
        let layout = V8Layout::of(version, &constants).ok_or(NotWalked::Version);
        Some((version, layout.map(|layout| Self { layout, code })))
    }

    /// Returns the difference of addresses in memory from the linked ones, if a mapping of the file has its first code.
    pub(super) fn bias(&self, map: &ProcMapping) -> Option<u64> {
        super::bias(self.code.0, self.code.1, map)
    }

    /// Returns the layout of the types of a process that can be read.
    pub(super) fn layout(&self, bias: u64, memory: &impl ProcessMemory) -> Result<V8Layout, NotWalked> {
        memory.word(bias.wrapping_add(self.code.1)).ok_or(NotWalked::Unreadable)?;
        Ok(self.layout)
    }
}

/// Returns the version of the engine in Node, such as `11.3.244.8-node.33`.
fn version(rodata: &[u8]) -> Option<(u8, u8)> {
    const MOST: usize = 24;
    memchr::memmem::find_iter(rodata, b"-node.").find_map(|end| {
        let before = &rodata[end.saturating_sub(MOST)..end];
        let start = before.iter().rposition(|byte| !byte.is_ascii_digit() && *byte != b'.').map_or(0, |at| at + 1);
        let mut numbers = std::str::from_utf8(&before[start..]).ok()?.split('.').map(str::parse::<u16>);
        let version = (numbers.next()?.ok()?.try_into().ok()?, numbers.next()?.ok()?.try_into().ok()?);
        (numbers.next()?.is_ok() && numbers.next()?.is_ok() && numbers.next().is_none()).then_some(version)
    })
}

impl CodeNames {
    /// Reads the functions of a frame of JavaScript, with the lines that are executed as far as the code has them;
    /// `None` if they are gone or unknown. Learns the type of the objects that hold code, and the lines of scripts.
    pub(super) fn of_script(
        frame: GeneratedFrame,
        layout: &V8Layout,
        process: &V8Process,
        memory: &impl ProcessMemory,
    ) -> Option<V8Names> {
        let GeneratedKind::Script(place) = frame.kind else { return None };
        // The collector may have moved the function since the sample. Code may have been replaced: its function's name
        // stays right, but what was inlined is not known.
        let is_same = || (layout.cookie(frame.code, memory)? == frame.cookie).then_some(());
        let is_code = |place: &CodePlace| {
            let bytes = memory.word(place.address).zip(memory.word(place.address.wrapping_add(8)));
            bytes.is_some_and(|(first, second)| code_hash(place.address, [first, second]) == place.hash)
        };
        is_same()?;
        let code = place.filter(is_code);
        let chain = code.and_then(|place| code::functions(place, frame.code, layout, &process.stream, memory));
        let chain = chain.filter(|_| code.as_ref().is_some_and(is_code)).unwrap_or_else(|| vec![(frame.code, None)]);
        let labels: Option<Vec<_>> = chain
            .iter()
            .map(|(function, character)| match layout.function(*function, process, memory)? {
                V8Function::Script(label, script) => {
                    let line = character.and_then(|character| layout.line(script, character, process, memory));
                    Some(Some((label, line.unwrap_or(0))))
                }
                V8Function::Builtin => Some(None),
            })
            .collect();
        is_same()?;
        // The engine's functions are inlined, too.
        let labels: Vec<_> = labels?.into_iter().flatten().collect();
        Some(if labels.is_empty() { V8Names::Builtin } else { V8Names::Functions(Self::everywhere(labels)) })
    }
}

/// Reads bytes as the memory of an engine: functions, their scripts, and code.
pub(super) fn read_untrusted(bytes: &[u8]) {
    let memory = RepeatedMemory(bytes);
    let Some(words) = bytes.first_chunk::<16>() else { return };
    let address = u64::from_le_bytes([words[0], words[1], 0, 0, 0, 0, 0, 0]);
    let code = u64::from_le_bytes([words[2], words[3], 0, 0, 0, 0, 0, 0]);
    for layout in [V8Layout::of_10(), V8Layout::of_11(), V8Layout::of_13()] {
        let hash = memory.word(address).zip(memory.word(address + 8)).map_or(0, |(a, b)| code_hash(address, [a, b]));
        let place = CodePlace { address, is_sampled: words[4] % 2 == 0, hash };
        let cookie = layout.cookie(code, &memory).unwrap_or(0);
        for place in [None, Some(place)] {
            let frame = GeneratedFrame { code, cookie, at: 0, kind: GeneratedKind::Script(place) };
            let _ = CodeNames::of_script(frame, &layout, &V8Process::default(), &memory);
        }
        let _ = code::inlined(code | 1, place, code, &layout, &memory);
        positions::at(bytes, words[5].into());
        translations::functions(bytes, words[6].into());
        translations::exit(bytes, words[7].into(), words[4] % 2 == 0);
    }
}
