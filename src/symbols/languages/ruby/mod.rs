//! CRuby 2.7 to 3.4: its files by their symbols, and where its threads keep their state.
//!
//! Ruby does not describe its types. All that is found in the memory of a process is verified by what it must contain.

mod objects;
mod state;
#[cfg(test)]
mod tests;

use gimli::{EhFrameHdr, EndianSlice, Pointer};
use object::{Object, ObjectSection};

use super::interpreter_code::{InterpreterCode, dynamic_symbols};
use super::pages::Pages;
use super::{NotWalked, ProcessMemory, RepeatedMemory, ThreadSlot, bias, content, major_minor};
use crate::kernel::procfs::ProcMapping;
use crate::kernel::walk::LanguageRuntime;
use crate::kernel::walk::runtime::{InterpreterKind, RuntimeLayout};
use crate::symbols::elf::program::ElfProgram;

/// A file that contains Ruby, with addresses as linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RubyFile {
    layout: RubyLayout,
    /// The pointer to the virtual machine, which has a symbol in some files; the variables that contain it.
    machine: Option<u64>,
    variables: (u64, u64),
    /// The pointer to the context of the thread that holds the lock, if threads do not have their own.
    shared: Option<u64>,
    /// The initialized variables: the table of symbols is one of them.
    data: (u64, u64),
    /// The function that executes bytecode; without a symbol, it is one of the long functions.
    execute: Option<(u64, u64)>,
    long: Vec<(u64, u64)>,
    /// The first code: its offset in the file and its address.
    code: (u64, u64),
    text: (u64, u64),
}

/// The differences between versions (vm_core.h, thread_pthread.h, include/ruby/internal/core/rstring.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RubyLayout {
    /// The size of a frame (`rb_control_frame_t`).
    stride: u8,
    /// In a thread (`rb_thread_t`): the virtual machine, its context, and its number or what has that.
    machine: u8,
    context: u8,
    number: u8,
    /// Where the number is in that.
    native: Option<u8>,
    /// The characters of a short string, relative to it.
    embedded: u8,
    /// Whether first lines are objects of Ruby, instead of numbers.
    is_line_object: bool,
}

impl RubyLayout {
    fn of(version: (u8, u8)) -> Option<Self> {
        let first =
            Self { stride: 56, machine: 24, context: 32, number: 72, native: None, embedded: 16, is_line_object: true };
        let ractors = Self { machine: 32, context: 40, number: 80, ..first };
        let native = Self { context: 48, number: 40, native: Some(16), embedded: 24, is_line_object: false, ..ractors };
        Some(match version {
            (2, 7) => first,
            (3, 0) => ractors,
            (3, 1) => Self { stride: 64, ..ractors },
            (3, 2) => Self { stride: 64, ..native },
            (3, 3 | 4) => native,
            _ => return None,
        })
    }

    /// Returns how frames are walked. The code of a frame (`rb_iseq_constant_body`) has its label and its path.
    fn walked(&self) -> RuntimeLayout {
        /// `thread_ptr` of an execution context in 2.7, the only version that is walked by way of the thread.
        const THREAD: u16 = 56;
        RuntimeLayout {
            thread_id: self.number.into(),
            hops: (THREAD, None),
            frame_size: 48,
            code: 16,
            next: self.stride,
            kind: InterpreterKind::Ruby,
            code_size: CODE_SIZE,
            first_line: 88,
            line_shift: self.is_line_object.into(),
            arguments: 8,
            flags: 4,
            name: LABEL,
            file: 64,
            ascii: self.embedded,
            wide: self.embedded,
            ..RuntimeLayout::default()
        }
    }
}

/// Bytes of code that are read, and where its label is.
const CODE_SIZE: u8 = 96;
const LABEL: u8 = 80;
/// The least length of the function that executes bytecode.
const LONG: u64 = 8 << 10;
/// Bytes of variables that are read at most.
const MOST: u64 = 256 << 10;

impl RubyFile {
    /// Recognizes Ruby by its symbols; `None` for other files. Returns its version; fails if the types of that are
    /// unknown.
    pub(super) fn of(program: &ElfProgram<'_>, bytes: &[u8]) -> Option<((u8, u8), Result<Self, NotWalked>)> {
        const VERSION: &[u8] = b"ruby_version";
        let elf = program.elf.as_ref()?;
        let (mut version, mut machine, mut shared, mut execute) = (None, None, None, None);
        let prefixes: &[&[u8]] = &[b"rb_", b"ruby_", b"st_", b"onig"];
        let counts = dynamic_symbols(program, VERSION, prefixes, |name, address, size| match name {
            VERSION => version = content(program, bytes, address, size.min(16) as usize),
            b"ruby_current_vm_ptr" => machine = Some(address),
            b"ruby_current_execution_context_ptr" => shared = Some(address),
            b"rb_vm_exec" if size > 0 => execute = Some((address, size)),
            _ => {}
        })?;
        let version = major_minor(version?)?;
        let Some(layout) = RubyLayout::of(version) else { return Some((version, Err(NotWalked::Version))) };
        let section = |name| {
            let found = elf.section_by_name(name).map(|section| (section.address(), section.size().min(MOST)));
            found.unwrap_or_default()
        };
        let code = program.segments.iter().find(|part| part.is_code)?;
        let long = if execute.is_none() { long_functions(program, bytes) } else { Vec::new() };
        // All code of a program that embeds Ruby is not Ruby's.
        let text = if counts.own * 2 >= counts.all { (code.address, code.size) } else { execute.unwrap_or_default() };
        let file = Self {
            layout,
            machine,
            variables: section(".bss"),
            shared,
            data: section(".data"),
            execute,
            long,
            code: (code.offset, code.address),
            text,
        };
        Some((version, Ok(file)))
    }

    pub(super) fn bias(&self, map: &ProcMapping) -> Option<u64> {
        bias(self.code.0, self.code.1, map)
    }

    /// Finds the variable of threads that has their state, by that of the main thread.
    pub(super) fn slot(&self, bias: u64, memory: &impl ProcessMemory) -> Result<ThreadSlot, NotWalked> {
        let at = |address: u64| address.wrapping_add(bias);
        let pages = Pages::new(memory);
        memory.word(at(self.code.1)).ok_or(NotWalked::Unreadable)?;
        let machine = match self.machine {
            Some(place) => pages.word(at(place)).ok_or(NotWalked::Unreadable)?,
            None => self.layout.find_machine(at(self.variables.0), self.variables.1, &pages).unwrap_or(0),
        };
        let (thread, first) = self.layout.main_thread(machine, &pages).ok_or(NotWalked::NotBegun)?;
        let symbols = self.layout.find_symbols(at(self.data.0), self.data.1, &pages).ok_or(NotWalked::NotFound)?;
        let state = match self.shared {
            Some(_) => self.layout.thread_pointer(thread, &pages).map(|_| 0),
            None => self.layout.state(thread, &pages),
        };
        let is_in = |(start, len): &&(u64, u64)| first.wrapping_sub(at(*start)) < *len;
        let execute = self.execute.or_else(|| self.long.iter().find(is_in).copied());
        let state = state.ok_or(NotWalked::NotFound)?;
        Ok(ThreadSlot { state, symbols, execute: Some(execute.ok_or(NotWalked::NotFound)?) })
    }

    pub(super) fn runtime(&self, bias: u64, slot: ThreadSlot, id: u32) -> LanguageRuntime {
        let execute = slot.execute.unwrap_or_default();
        let text = if self.text.1 > 0 { self.text } else { execute };
        let code = InterpreterCode { loops: [execute, (0, 0)], offset: 0, text };
        LanguageRuntime {
            code_type: slot.symbols,
            global: self.shared.map_or(0, |address| address.wrapping_add(bias)),
            ..code.runtime(bias, slot, id, self.layout.walked())
        }
    }
}

/// Returns the long functions of a file: their starts are in the search table of its unwind tables.
fn long_functions(program: &ElfProgram<'_>, bytes: &[u8]) -> Vec<(u64, u64)> {
    /// Functions that are kept at most.
    const FUNCTIONS: usize = 1024;
    let starts = || {
        let header = program.section(".eh_frame_hdr")?;
        let slice = EndianSlice::new(header.bytes(bytes), program.shape.endian);
        let bases = program.bases();
        let parsed = EhFrameHdr::from(slice).parse(&bases, program.shape.size).ok()?;
        let table = parsed.table()?;
        let mut entries = table.iter(&bases);
        let mut starts = Vec::new();
        while let Some((Pointer::Direct(start), _)) = entries.next().ok()? {
            starts.push(start);
        }
        Some(starts)
    };
    let starts: Vec<u64> = starts().unwrap_or_default();
    let gaps = starts.windows(2).map(|pair| (pair[0], pair[1].saturating_sub(pair[0])));
    gaps.filter(|(_, len)| *len >= LONG).take(FUNCTIONS).collect()
}

/// Reads bytes as the memory of Ruby.
pub(super) fn read_untrusted(bytes: &[u8]) {
    let memory = RepeatedMemory(bytes);
    let Some(words) = bytes.first_chunk::<8>() else { return };
    let [machine, data] = [0, 2].map(|at| u64::from(words[at]) | u64::from(words[at + 1]) << 8);
    for version in [(2, 7), (3, 1), (3, 3)] {
        let Some(layout) = RubyLayout::of(version) else { continue };
        let file = RubyFile {
            layout,
            machine: (words[4] % 2 == 0).then_some(machine),
            variables: (machine, 64),
            shared: (words[5] % 2 == 0).then_some(8),
            data: (data, 64),
            execute: None,
            long: vec![(0, u64::from(words[6]) << 8)],
            code: (0, 0),
            text: (0, 0),
        };
        let _ = file.slot(0, &memory).map(|slot| file.runtime(0, slot, 0));
        let pages = Pages::new(&memory);
        let _ = layout.first_code(machine, &pages);
        let _ = layout.state(machine, &pages);
        let _ = layout.find_symbols(data, 64, &pages);
    }
}
