//! Rows of unwind tables for the BPF program that walks stacks. They are built once from a file's `.eh_frame` or
//! `.debug_frame` (LSB Core, "Exception Frames"; DWARF 5, section 6.4), and from the table of functions of Go programs.

mod bare;
mod frames;
mod go;
mod rules;
mod traced;
mod usual;

use std::ops::Range;

use gimli::{BaseAddresses, Register};
use thiserror::Error;

use crate::kernel::walk::rule::Rule;
use crate::symbols::bytes::Bytes;
use crate::symbols::elf::bounds::each_function;
use crate::symbols::elf::program::{ElfProgram, Machine, Segment};
use crate::symbols::elf::section::{Shape, Slice};
use crate::symbols::elf::{self, ElfError};

/// The limit of rows per file: the largest known files have a twelfth of it.
const MAX_ROWS: usize = 1 << 24;
/// Functions are aligned; a gap of up to this many bytes between them is padding.
const FILLING: u32 = 15;
/// The minimum page size; mappings begin at a multiple of it.
const PAGE: u64 = 1 << 12;

/// A file's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnwindRows {
    /// Sorted by address (see [`Rule`]); the last one is a gap.
    pub rows: Vec<u64>,
    /// The linked address that row addresses are relative to.
    pub(crate) base: u64,
    /// The section they were built from.
    pub(crate) section: &'static str,
}

impl UnwindRows {
    /// Returns the rule at a linked address.
    pub(crate) fn rule(&self, address: u64) -> Rule {
        address.checked_sub(self.base).map_or(Rule::Gap, |pc| rule_in(&self.rows, pc))
    }
}

/// Returns the rule at an address relative to the rows' base.
pub(crate) fn rule_in(rows: &[u64], pc: u64) -> Rule {
    let after = rows.partition_point(|row| u64::from(*row as u32) <= pc);
    after.checked_sub(1).map_or(Rule::Gap, |at| Rule::of((rows[at] >> 32) as u32))
}

/// Everything that rows and their positions depend on, for hashing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contents<'a> {
    /// The machine fields of the file's header.
    head: &'a [u8],
    segments: Vec<Segment>,
    /// Addresses of sections that pointers may be relative to.
    sections: Vec<Option<u64>>,
    tables: Vec<&'a [u8]>,
    /// Content that determines rows of code without tables.
    bare: Vec<&'a [u8]>,
}

/// Returns the content that a file's rows are built from. `None` if the file does not have a table.
pub fn contents(bytes: &Bytes) -> Option<Contents<'_>> {
    let program = ElfProgram::of(bytes).ok()?;
    let found = |name: &&str| program.section(name).map(|section| section.bytes(bytes));
    let of_go = go::table(&program, bytes).and_then(|go| bytes.get(go.functions_range()?));
    let tables: Vec<&[u8]> = SECTIONS.iter().filter_map(found).chain(of_go).collect();
    if tables.is_empty() {
        return None;
    }
    let names = [".eh_frame", ".debug_frame", ".eh_frame_hdr", ".text", ".got", ".plt", ".iplt"];
    let address = |name| program.section(name).map(|section| section.address);
    let sections = names.into_iter().map(address).collect();
    let bare = match program.machine {
        Machine::Aarch64 => bare::SECTIONS.iter().filter_map(found).collect(),
        Machine::X86_64 => match traced::examined(&code(&program), covered(&program, bytes)) {
            Some(code) => SYMBOLS.iter().filter_map(found).chain(code).collect(),
            None => Vec::new(),
        },
        _ => Vec::new(),
    };
    Some(Contents { head: bytes.get(..HEAD)?, segments: program.segments, sections, tables, bare })
}

/// The reason why a file has no rows.
#[derive(Debug, Error)]
pub enum NoRows {
    /// Not an ELF object, or a damaged one.
    #[error(transparent)]
    NotElf(#[from] ElfError),
    /// An unsupported architecture.
    #[error("unsupported architecture; supported: x86-64 and AArch64")]
    Machine,
    /// A file without unwind tables, such as code with frame pointers.
    #[error("it has no .eh_frame and no .debug_frame")]
    NoTable,
    /// More than `MAX_ROWS` rows.
    #[error("its tables have more than {MAX_ROWS} rows")]
    TooMany,
}

/// Of two functions at one address, the one in the first section wins.
const SECTIONS: [&str; 2] = [".eh_frame", ".debug_frame"];
const SYMBOLS: [&str; 2] = [".symtab", ".dynsym"];
/// Bytes of the file header with the machine and the entry point.
const HEAD: usize = 32;

/// The DWARF numbers of the registers in tables.
#[derive(Clone, Copy, Debug)]
struct Registers {
    sp: Register,
    fp: Register,
    ra: Register,
    /// Bytes of a word. Rules count each word as eight bytes.
    word: i64,
}

impl Registers {
    /// Returns the number of a register in rules.
    fn number(self, register: Register) -> Option<u8> {
        match self.word {
            8 => u8::try_from(register.0).ok(),
            _ => WIDE.get(usize::from(register.0)).copied(),
        }
    }
}

const X86_64: Registers = Registers { sp: Register(7), fp: Register(6), ra: Register(16), word: 8 };
const AARCH64: Registers = Registers { sp: Register(31), fp: Register(29), ra: Register(30), word: 8 };
const I386: Registers = Registers { sp: Register(4), fp: Register(5), ra: Register(8), word: 4 };
/// The numbers of its registers in 64-bit code.
const WIDE: [u8; 8] = [0, 2, 1, 3, 7, 6, 4, 5];

/// Builds a file's rows, or returns why there are none. An unreadable entry is skipped: its code becomes a gap.
pub fn of(bytes: &Bytes) -> Result<UnwindRows, NoRows> {
    let program = ElfProgram::of(bytes)?;
    let registers = match program.machine {
        Machine::X86_64 | Machine::X32 => X86_64,
        Machine::Aarch64 => AARCH64,
        Machine::I386 => I386,
        Machine::Other => return Err(NoRows::Machine),
    };
    let base = program.segments.iter().map(|segment| segment.address).min().unwrap_or(0) & !(PAGE - 1);
    let (bases, shape) = (program.bases(), program.shape);
    let mut found = Found::default();
    let mut from = None;
    for name in SECTIONS {
        let Some(section) = program.section(name) else { continue };
        let before = found.functions.len();
        let reader = frames::TableReader { bases: &bases, machine: registers, base };
        if name == SECTIONS[0] {
            reader.read_eh_frame(&section.eh_frames(bytes, shape), &mut found)?;
        } else {
            reader.read(&section.debug_frames(bytes, shape), &mut found)?;
        }
        from = from.or((found.functions.len() > before).then_some(name));
    }
    match program.machine {
        Machine::Aarch64 => program.elf.iter().for_each(|elf| bare::add(elf, base, &mut found)),
        Machine::X86_64 => {
            let elf = program.elf.as_ref();
            let symbols = |is_wanted: &dyn Fn(u64) -> bool| {
                elf.map_or_else(Vec::new, |elf| elf::starts_of_functions(elf, bytes, is_wanted))
            };
            traced::add(&code(&program), symbols, base, &mut found);
            if let Some(go) = go::table(&program, bytes) {
                go::add(&go, base, &mut found);
                from = from.or(Some("its table of Go functions"));
            }
        }
        _ => {}
    }
    if found.functions.is_empty() {
        return Err(NoRows::NoTable);
    }
    found.functions.sort_by_key(|function| function.start);
    Ok(UnwindRows { rows: merged(&found.functions, &found.rows), base, section: from.unwrap_or("its code") })
}

/// Returns the rows of a file that has more than `.eh_frame`.
/// They are for the user-space unwinder: of a second table, of Go, or of code without a table. `None` for other files.
pub(crate) fn beyond_frames(bytes: &Bytes) -> Option<UnwindRows> {
    let program = ElfProgram::of(bytes).ok()?;
    let has_both = SECTIONS.iter().all(|name| program.section(name).is_some());
    let has_bare = || traced::bare_bytes(&code(&program), covered(&program, bytes)) > 0;
    let is_more = || has_both || go::is_go(&program) || has_bare();
    (program.machine == Machine::X86_64 && is_more()).then(|| of(bytes).ok()).flatten()
}

/// Returns whether building a file's table takes long, so that tables of other files should not wait for it.
pub(crate) fn is_slow(bytes: &Bytes) -> bool {
    const LARGE: usize = 8 << 20;
    bytes.len() >= LARGE || has_much_bare_code(bytes)
}

/// Returns whether much of a file's code has no table, as in static programs of C libraries without tables. Then rows
/// are derived from that code, which takes a while.
fn has_much_bare_code(bytes: &Bytes) -> bool {
    /// Compilers write tables of about an eighth of the code. Code of more than this many times its tables may lack some.
    const RATIO: usize = 10;
    /// Code of more than this many times its tables is mostly without.
    const MOST: usize = 40;
    /// An amount of code that is always analyzed at once.
    const LITTLE: usize = 1 << 16;
    let Ok(program) = ElfProgram::of(bytes) else { return false };
    let len: usize = program.code().iter().map(|(_, code)| code.len()).sum();
    let tables = SECTIONS.iter().filter_map(|name| program.section(name)).map(|section| section.bytes(bytes).len());
    let tables: usize = tables.sum();
    let bare = || traced::bare_bytes(&code(&program), covered(&program, bytes));
    program.machine == Machine::X86_64
        && len > LITTLE
        && (len / MOST > tables || len / RATIO > tables && bare() > LITTLE as u64)
}

/// Returns the rows of JIT code, relative to its start, from its own `.eh_frame`, which follows the code.
pub(crate) fn of_code(frames: &[u8], size: u64, is_arm: bool, order: gimli::RunTimeEndian) -> Option<Vec<u64>> {
    /// The assumed address of the code; entries for other addresses are dropped.
    const AT: u64 = 1 << 20;
    let shape = Shape::new(order, true, is_arm);
    let mut section = gimli::EhFrame::from(Slice::new(frames, shape.endian));
    section.set_address_size(shape.size);
    section.set_vendor(shape.vendor);
    let behind = AT.checked_add(size.checked_next_multiple_of(8)?)?;
    let bases = BaseAddresses::default().set_eh_frame(behind).set_text(AT);
    let mut found = Found::default();
    let machine = if is_arm { AARCH64 } else { X86_64 };
    frames::TableReader { bases: &bases, machine, base: 0 }.read(&section, &mut found).ok()?;
    found.functions.sort_by_key(|function| function.start);
    let rows = merged(&found.functions, &found.rows);
    // Some tables are relative to their own address.
    let start = *rows.first()? as u32;
    let own = rows.iter().filter(|row| u64::from(**row as u32 - start) <= size);
    Some(own.map(|row| row >> 32 << 32 | u64::from(*row as u32 - start)).collect())
}

/// Returns a program's code, which may lack tables. Go code is excluded: it has frame pointers and its own table.
fn code<'a>(program: &ElfProgram<'a>) -> traced::UncoveredCode<'a> {
    if go::is_go(program) {
        return traced::UncoveredCode::default();
    }
    traced::UncoveredCode { parts: program.code(), entry: program.entry }
}

/// Returns start and end of the functions that tables cover.
fn covered(program: &ElfProgram<'_>, bytes: &[u8]) -> Vec<(u64, u64)> {
    let (bases, mut all) = (program.bases(), Vec::new());
    let machine = if program.machine == Machine::Aarch64 { AARCH64 } else { X86_64 };
    let mut add = |start: u64, len: u64| {
        all.extend(start.checked_add(len).map(|end| (start, end)));
        if all.len() > MAX_ROWS { Err(()) } else { Ok(()) }
    };
    for name in SECTIONS {
        let Some(section) = program.section(name) else { continue };
        // With too many functions no rows are built anyway.
        let _ = if name == SECTIONS[0] {
            frames::each_of_eh_frame(&section.eh_frames(bytes, program.shape), &bases, machine, &mut add)
        } else {
            let frames = section.debug_frames(bytes, program.shape);
            each_function(&frames, &bases, |entry| add(entry.initial_address(), entry.len()))
        };
    }
    all
}

/// A function, and its range among the rows read.
#[derive(Clone, Debug)]
struct Function {
    start: u32,
    end: u32,
    rows: Range<usize>,
}

#[derive(Debug, Default)]
struct Found {
    functions: Vec<Function>,
    rows: Vec<u64>,
}

impl Found {
    /// Adds a function with its rules and the address where each begins.
    fn push(&mut self, start: u64, end: u64, rules: &[(Rule, u64)]) {
        let first = self.rows.len();
        let near = |address: u64| u32::try_from(address).ok();
        let Some((start, end)) = near(start).zip(near(end)).filter(|(start, end)| start < end) else { return };
        let within =
            |(rule, at): &(Rule, u64)| near(*at).filter(|at| (start..end).contains(at)).map(|at| rule.from(at));
        self.rows.extend(rules.iter().filter_map(within));
        self.functions.push(Function { start, end, rows: first..self.rows.len() });
    }
}

/// Merges all functions into one table. Of two at one address the first wins; the space between functions becomes a
/// gap, unless it is padding; consecutive equal rows become one.
fn merged(functions: &[Function], rows: &[u64]) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::with_capacity(rows.len());
    let mut end = None;
    for function in functions {
        let free = end.unwrap_or(function.start);
        if function.start < free {
            continue;
        }
        if function.start - free > FILLING {
            all.push(Rule::Gap.from(free));
        }
        for row in &rows[function.rows.clone()] {
            if all.last().is_none_or(|last| last >> 32 != row >> 32) {
                all.push(*row);
            }
        }
        end = Some(function.end);
    }
    all.extend(end.map(|end| Rule::Gap.from(end)));
    if all.len() < all.capacity() / 2 {
        all.shrink_to_fit();
    }
    all
}

#[cfg(test)]
mod tests;
