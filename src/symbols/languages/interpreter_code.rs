//! The code of interpreters in their files, by its symbols.

use object::{Object, ObjectSection, ObjectSymbol};

use super::{ThreadSlot, bias};
use crate::kernel::procfs::ProcMapping;
use crate::kernel::walk::LanguageRuntime;
use crate::kernel::walk::runtime::RuntimeLayout;
use crate::symbols::elf::program::ElfProgram;

/// The numbers of a file's dynamic symbols: all, and those with a prefix of the interpreter.
pub(super) struct SymbolCounts {
    pub(super) own: usize,
    pub(super) all: usize,
}

/// Passes the name, the address and the size of each dynamic symbol of a file to `each`. Returns `None` for files whose
/// names do not contain `marker`.
pub(super) fn dynamic_symbols(
    program: &ElfProgram<'_>,
    marker: &[u8],
    prefixes: &[&[u8]],
    mut each: impl FnMut(&[u8], u64, u64),
) -> Option<SymbolCounts> {
    let elf = program.elf.as_ref()?;
    let names = elf.section_by_name(".dynstr").and_then(|section| section.data().ok())?;
    memchr::memmem::find(names, marker)?;
    let mut counts = SymbolCounts { own: 0, all: 0 };
    for symbol in elf.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
        let name = symbol.name_bytes().unwrap_or_default();
        counts.all += 1;
        counts.own += usize::from(prefixes.iter().any(|prefix| name.starts_with(prefix)));
        each(name, symbol.address(), symbol.size());
    }
    Some(counts)
}

/// The code of an interpreter, with addresses as linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InterpreterCode {
    /// The functions that execute the language's code: start and length. The second one may be empty.
    pub(super) loops: [(u64, u64); 2],
    /// Where the first of them is in the file.
    pub(super) offset: u64,
    pub(super) text: (u64, u64),
}

impl InterpreterCode {
    /// Finds the code in its file. Without `is_whole`, it is that of the first function: all code of a program that
    /// embeds an interpreter is not the interpreter's.
    pub(super) fn of(program: &ElfProgram<'_>, loops: [(u64, u64); 2], is_whole: bool) -> Option<Self> {
        let start = loops[0].0;
        let part = program.segments.iter().find(|part| part.is_code && start.wrapping_sub(part.address) < part.size)?;
        let text = if is_whole { (part.address, part.size) } else { loops[0] };
        Some(Self { loops, offset: part.offset.checked_add(start - part.address)?, text })
    }

    /// Returns the difference of addresses in memory from the linked ones, if a mapping of the file has the interpreter.
    pub(super) fn bias(&self, map: &ProcMapping) -> Option<u64> {
        bias(self.offset, self.loops[0].0, map)
    }

    /// Returns how a process is walked whose file is mapped with this difference, without the addresses of data.
    pub(super) fn runtime(&self, bias: u64, slot: ThreadSlot, id: u32, layout: RuntimeLayout) -> LanguageRuntime {
        let range = |(start, len): (u64, u64)| if len == 0 { (0, 0) } else { (start.wrapping_add(bias), len) };
        LanguageRuntime {
            loops: self.loops.map(range),
            text: range(self.text),
            id,
            slot: slot.state,
            layout,
            ..LanguageRuntime::default()
        }
    }
}
