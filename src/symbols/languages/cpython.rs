//! CPython 3.8 to 3.14: its files by their symbols, and where its threads keep their state.

use object::{Object, ObjectSection, ObjectSymbol};

use super::debug_offsets::{self, Tree};
use super::interpreter_code::{InterpreterCode, dynamic_symbols};
use super::{NotWalked, ProcessMemory, RepeatedMemory, ThreadSlot, content};
use crate::kernel::procfs::ProcMapping;
use crate::kernel::walk::LanguageRuntime;
use crate::kernel::walk::runtime::{InterpreterKind, RuntimeLayout};
use crate::symbols::elf::program::ElfProgram;

mod lines;

pub(super) use lines::CpythonLines;
use lines::TableFormat;

/// A file that contains the interpreter, with addresses as linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpythonFile {
    state: u64,
    code_type: u64,
    code: InterpreterCode,
    layout: RuntimeLayout,
    tree: Tree,
}

/// Layouts of 3.8 to 3.12, whose types do not change within a minor version (Include/cpython, Include/internal).
fn known(minor: u8) -> Option<(RuntimeLayout, Tree)> {
    let heap = RuntimeLayout {
        thread_id: 176,
        hops: (24, None),
        frame_size: 112,
        code: 32,
        next: 24,
        instruction: 104,
        kind: InterpreterKind::Cpython,
        entry: (0, 0, u8::MAX),
        is_shim: false,
        is_index: true,
        code_size: 120,
        first_line: 40,
        line_shift: 0,
        name_apart: false,
        arguments: 16,
        flags: 36,
        name: 112,
        file: 104,
        start: 0,
        line_table: 120,
        head: 24,
        kind_shift: 2,
        ascii: 48,
        wide: 72,
    };
    let stack = RuntimeLayout {
        thread_id: 152,
        hops: (56, Some(8)),
        frame_size: 72,
        code: 32,
        next: 48,
        instruction: 56,
        entry: (68, 1, u8::MAX),
        is_index: false,
        code_size: 136,
        first_line: 72,
        arguments: 56,
        flags: 48,
        name: 128,
        file: 112,
        start: 184,
        line_table: 136,
        ..heap
    };
    let tree = |interpreter, thread| Tree { interpreter, thread, next: 8 };
    Some(match minor {
        8 | 9 => (heap, tree(32, 8)),
        10 => (RuntimeLayout { frame_size: 104, instruction: 96, ..heap }, tree(32, 8)),
        11 => (stack, tree(40, 16)),
        12 => {
            let stack = RuntimeLayout {
                thread_id: 136,
                hops: (56, Some(0)),
                code: 0,
                next: 8,
                entry: (70, 3, u8::MAX),
                ..stack
            };
            let stack = RuntimeLayout { is_shim: true, first_line: 68, arguments: 52, start: 192, ..stack };
            (RuntimeLayout { ascii: 40, wide: 56, ..stack }, tree(40, 72))
        }
        _ => return None,
    })
}

const STATE: &[u8] = b"_PyRuntime";
const LOOP: &[u8] = b"_PyEval_EvalFrameDefault";

impl CpythonFile {
    /// Recognizes the interpreter by its symbols; `None` for other files. Returns its minor version; fails if the types
    /// of that are unknown.
    pub(super) fn of(program: &ElfProgram<'_>, bytes: &[u8]) -> Option<(u8, Result<Self, NotWalked>)> {
        let elf = program.elf.as_ref()?;
        let (mut state, mut code_type, mut version, mut loops) = (None, None, None, [(0, 0); 2]);
        let counts = dynamic_symbols(program, LOOP, &[b"Py", b"_Py"], |name, address, size| match name {
            STATE => state = Some(address),
            b"PyCode_Type" => code_type = Some(address),
            b"Py_Version" => version = Some(address),
            LOOP => loops[0] = (address, size),
            _ => {}
        })?;
        let code_type = code_type?;
        if loops[0].1 == 0 {
            return None;
        }
        // 3.6 has this loop, but not yet the state of all interpreters.
        let Some(state) = state else { return Some((6, Err(NotWalked::Version))) };
        let is_cold = |name: &[u8]| name.starts_with(b"_PyEval_EvalFrameDefault.cold");
        let cold = elf.symbols().find(|symbol| symbol.name_bytes().is_ok_and(is_cold));
        loops[1] = cold.map_or((0, 0), |symbol| (symbol.address(), symbol.size()));
        let minor = match version.and_then(|at| content(program, bytes, at, 4)) {
            Some(version) => minor_of(u32::from_le_bytes(version.try_into().ok()?))?,
            None => older(elf)?,
        };
        let described = || {
            let table = content(program, bytes, state, debug_offsets::BYTES).ok_or(NotWalked::Version)?;
            debug_offsets::parse(minor, table)
        };
        let (layout, tree) = match known(minor).map_or_else(described, Ok) {
            Ok(known) => known,
            Err(why) => return Some((minor, Err(why))),
        };
        let code = InterpreterCode::of(program, loops, counts.own * 4 >= counts.all * 3)?;
        Some((minor, Ok(Self { state, code_type, code, layout, tree })))
    }

    pub(super) fn bias(&self, map: &ProcMapping) -> Option<u64> {
        self.code.bias(map)
    }

    /// Finds the word near each thread pointer that has the thread's state: in every thread at the same distance. It is
    /// a thread-local variable below the thread pointer, or a pthread key's value above, which stays set while the
    /// thread runs without the interpreter's lock.
    pub(super) fn slot(&self, bias: u64, memory: &impl ProcessMemory) -> Result<ThreadSlot, NotWalked> {
        /// Threads that are looked at.
        const MOST: usize = 64;
        const ABOVE: usize = 1408;
        const BELOW: usize = 16 << 10;
        let word = |at: u64, offset: u64| memory.word(at.wrapping_add(offset)).ok_or(NotWalked::Unreadable);
        let interpreter = word(bias.wrapping_add(self.state), self.tree.interpreter)?;
        if interpreter == 0 {
            return Err(NotWalked::NotBegun);
        }
        let mut thread = word(interpreter, self.tree.thread)?;
        if thread == 0 {
            return Err(NotWalked::NotBegun);
        }
        let mut places: Option<Vec<i32>> = None;
        for _ in 0..MOST {
            if thread == 0 {
                break;
            }
            let pointer = word(thread, self.layout.thread_id.into())?;
            let mut found = Vec::new();
            for (from, len) in [(0, ABOVE), (-(BELOW as i64), BELOW)] {
                let mut bytes = vec![0; len];
                // The thread may have ended meanwhile.
                if memory.read(pointer.wrapping_add_signed(from), &mut bytes).is_some() {
                    let words = bytes.as_chunks::<8>().0.iter().enumerate();
                    let hits = words.filter(|(_, word)| u64::from_le_bytes(**word) == thread);
                    found.extend(hits.map(|(i, _)| from as i32 + 8 * i as i32));
                }
            }
            if !found.is_empty() {
                let common = |places: Vec<i32>| places.into_iter().filter(|place| found.contains(place)).collect();
                places = Some(places.map_or_else(|| found.clone(), common));
            }
            thread = word(thread, self.tree.next)?;
        }
        places.and_then(|places| places.first().copied()).map(ThreadSlot::of).ok_or(NotWalked::NotFound)
    }

    /// Returns how the lines of functions are found, given the minor version.
    pub(super) fn lines(&self, minor: u8) -> CpythonLines {
        let format = match minor {
            ..=9 => TableFormat::Steps,
            10 => TableFormat::Ranges,
            11.. => TableFormat::Locations,
        };
        CpythonLines { layout: self.layout, format }
    }

    pub(super) fn runtime(&self, bias: u64, slot: ThreadSlot, id: u32) -> LanguageRuntime {
        let code_type = self.code_type.wrapping_add(bias);
        LanguageRuntime { code_type, ..self.code.runtime(bias, slot, id, self.layout) }
    }
}

/// Reads the lines of code objects of each version in memory that has these bytes.
pub(super) fn read_untrusted(bytes: &[u8]) {
    for (minor, format) in [(9, TableFormat::Steps), (10, TableFormat::Ranges), (12, TableFormat::Locations)] {
        let Some((layout, _)) = known(minor) else { continue };
        CpythonLines { layout, format }.read_untrusted(&RepeatedMemory(bytes));
    }
}

/// Returns the minor version of `PY_VERSION_HEX`; `None` if it is not of Python 3.
fn minor_of(version: u32) -> Option<u8> {
    let [_, _, minor, major] = version.to_le_bytes();
    (major == 3).then_some(minor)
}

/// Returns the minor version of a file before 3.11, from the name of the folder of modules.
fn older(elf: &crate::symbols::elf::Elf<'_>) -> Option<u8> {
    let rodata = elf.section_by_name(".rodata")?.data().ok()?;
    let version = |at: usize| {
        let rest = rodata.get(at + b"python3.".len()..)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits.min(2)]).ok()?.parse::<u8>().ok()
    };
    let mut found = memchr::memmem::find_iter(rodata, b"python3.").filter_map(version);
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}

#[cfg(test)]
pub(super) mod tests;
