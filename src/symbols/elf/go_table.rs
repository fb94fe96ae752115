//! Functions, inlined functions, lines and frames from the table of functions of Go programs. Every Go program carries it
//! for its own stack traces, even when stripped. The layouts are those of Go 1.2, 1.16, 1.18 and 1.20 (debug/gosym and
//! runtime/symtab.go).

use std::ops::Range;

use gimli::{Reader, RunTimeEndian};
use object::{Object, ObjectSection, ObjectSegment};

use self::module::GoModule;
use crate::perfdata::unpack::UnpackBudget;
use crate::symbols::bytes::Bytes;
use crate::symbols::elf::section::{Shape, Slice};
use crate::symbols::elf::{Elf, ElfError, ElfSegments};
use crate::symbols::names::table::{Binding, MAX_NAME, Names, Raw, SymbolTable};

/// The sections of the table. In position-independent programs that a C linker has written, it is a part of others.
const TABLES: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Sections that only Go programs have.
pub(crate) const SECTIONS: [&str; 4] = [TABLES[0], TABLES[1], ".go.buildinfo", ".note.go.buildid"];
const MAX_FUNCTIONS: u64 = 1 << 24;
const ALIGN: usize = 8;
/// The limit of places in a file that look like the table.
const MAX_ALIKE: usize = 16;
/// The limit of steps in a table of values, as no function is that long, and in those of all functions.
const MAX_STEPS: usize = 1 << 20;
const MAX_ALL_STEPS: usize = 1 << 26;
/// The limit of calls that are inlined into each other.
const MAX_DEPTH: usize = 64;
/// The numbers of the table of values with inlined calls, and of the data with their tree (internal/abi/symtab.go).
const INLINED: u32 = 2;
const TREE: u8 = 3;
/// Flags of functions: the first one of a stack, and one that changes the stack pointer in a way that its table lacks.
const FIRST: u8 = 1;
const OTHER_STACK: u8 = 2;
/// The functions that the kernel enters for a signal. They have a caller, but its table does not lead to it.
const SIGNAL: &[u8] = b"runtime.sig";
/// The names of the functions that call C, and Go, on the thread's stack, and the one that leaves a goroutine for the
/// scheduler.
const STACK_CALLS: [&[u8]; 4] =
    [b"runtime.asmcgocall", b"runtime.asmcgocall.abi0", b"runtime.systemstack", b"runtime.systemstack.abi0"];
const SCHEDULER_CALL: &[u8] = b"runtime.mcall";
/// The function that signal handlers return to, at its first instruction.
const SIGNAL_RETURN: &[u8] = b"runtime.sigreturn";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Go12,
    Go116,
    /// Functions are relative to the start of the text.
    Go118,
    /// Functions have the line that they begin in; an inlined call does not have its line.
    Go120,
}

impl Layout {
    fn of(magic: u32) -> Option<Self> {
        Some(match magic {
            0xffff_fffb => Self::Go12,
            0xffff_fffa => Self::Go116,
            0xffff_fff0 => Self::Go118,
            0xffff_fff1 => Self::Go120,
            _ => return None,
        })
    }

    fn is_relative(self) -> bool {
        matches!(self, Self::Go118 | Self::Go120)
    }
}

/// The start of a table.
struct GoTableHeader {
    layout: Layout,
    endian: RunTimeEndian,
    quantum: u8,
    /// Bytes of an address.
    size: u8,
}

impl GoTableHeader {
    fn at(file: &Elf<'_>, bytes: &[u8], at: usize) -> Option<Self> {
        let head: [u8; 8] = bytes.get(at..)?.first_chunk().copied()?;
        let endian = Shape::of(file).endian;
        let layout = Layout::of(Slice::new(&head, endian).read_u32().ok()?)?;
        let [_, _, _, _, 0, 0, quantum @ (1 | 2 | 4), size @ (4 | 8)] = head else { return None };
        Some(Self { layout, endian, quantum, size })
    }
}

/// The table of a file. It is not copied; positions are offsets in the file.
#[derive(Clone, Debug)]
pub(crate) struct GoTable {
    bytes: Bytes,
    layout: Layout,
    wide: bool,
    endian: RunTimeEndian,
    /// The minimum size of an instruction in bytes.
    quantum: u64,
    functions: u64,
    segments: ElfSegments,
    /// The linked address of the text.
    text: u64,
    /// The linked address that the trees of inlined calls are relative to.
    trees: Option<u64>,
    /// Offset of the table.
    at: usize,
    names: usize,
    units: usize,
    files: usize,
    values: usize,
    /// Offset of the function list, and the base of the positions in it.
    list: usize,
    base: usize,
}

/// How the caller of some code is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GoFrame {
    /// By the frame pointer.
    Pointed,
    /// By the return address on top of the stack. The frame pointer is the caller's.
    OnTop,
    /// By the kernel's frame of a signal handler, which holds all registers.
    Signal,
    /// It has no caller.
    First,
    /// On another stack: this many bytes above the stack pointer is the goroutine, and in the word before it how far
    /// below the end of the goroutine's stack the return address is. 0: by the frame pointer.
    OtherStack(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoPlace<'a> {
    pub(crate) function: &'a [u8],
    pub(crate) line: Option<(&'a [u8], u32)>,
}

impl GoTable {
    /// Finds the table of a Go program. It is searched for in a file without sections, and without one of its own.
    pub(crate) fn of(file: &Elf<'_>, bytes: &Bytes) -> Option<Self> {
        let text = file.section_by_name(".text").map(|section| section.address());
        let named = TABLES.iter().find_map(|name| file.section_by_name(name)?.file_range());
        if let Some((at, _)) = named {
            return Self::at(file, bytes, usize::try_from(at).ok()?, text);
        }
        let is_go = SECTIONS.iter().any(|name| file.section_by_name(name).is_some());
        if !is_go && file.sections().next().is_some() {
            return None;
        }
        let code = file.segments().find(|s| s.permissions().executable()).map(|s| s.address());
        file.segments().take(16).find_map(|segment| {
            let (from, len) = segment.file_range();
            let (from, len) = (usize::try_from(from).ok()?, usize::try_from(len).ok()?);
            let content = bytes.get(from..from.checked_add(len)?)?;
            let ends: &[u8] = if file.is_little_endian() { &[0xff, 0xff, 0xff, 0, 0] } else { &[0xff, 0xff, 0xff] };
            let found = memchr::memmem::find_iter(content, ends);
            let starts = found.filter_map(|at| from.checked_add(at)?.checked_sub(usize::from(file.is_little_endian())));
            let alike = starts.filter(|at| at % ALIGN == 0 && GoTableHeader::at(file, bytes, *at).is_some());
            alike.take(MAX_ALIKE).find_map(|at| Self::at(file, bytes, at, text.or(code)))
        })
    }

    fn at(file: &Elf<'_>, bytes: &Bytes, at: usize, text: Option<u64>) -> Option<Self> {
        let GoTableHeader { layout, endian, quantum, size } = GoTableHeader::at(file, bytes, at)?;
        let mut table = Self {
            bytes: bytes.clone(),
            layout,
            wide: size == 8,
            endian,
            quantum: quantum.into(),
            functions: 0,
            segments: ElfSegments::new(file.segments().map(|s| (s.address(), s.size(), s.file_range().0))),
            text: 0,
            trees: None,
            at,
            names: at,
            units: at,
            files: at,
            values: at,
            list: at,
            base: at,
        };
        let number = |i: usize| table.pointer(at.checked_add(8)?.checked_add(i * usize::from(size))?);
        let place = |i: usize| at.checked_add(usize::try_from(number(i)?).ok()?).filter(|at| *at < bytes.len());
        let functions = number(0).filter(|n| (1..=MAX_FUNCTIONS).contains(n))?;
        let places = match layout {
            Layout::Go12 => [at, at, at, at, at.checked_add(8)?.checked_add(usize::from(size))?],
            Layout::Go116 => [place(2)?, place(3)?, place(4)?, place(5)?, place(6)?],
            Layout::Go118 | Layout::Go120 => [place(3)?, place(4)?, place(5)?, place(6)?, place(7)?],
        };
        let stored = number(2).filter(|text| *text != 0);
        table.functions = functions;
        [table.names, table.units, table.files, table.values, table.list] = places;
        table.base = if layout == Layout::Go12 { at } else { table.list };
        if layout.is_relative() {
            let module = GoModule::of(file, &table);
            table.trees = module.as_ref().and_then(|module| module.trees);
            // The table does not have it from Go 1.26 on, and if the loader would have written it.
            let known = stored.or(module.map(|module| module.text));
            table.text = known.or_else(|| text.filter(|text| table.has_entry(*text, file.entry())))?;
        }
        // Data that only resembles a table does not have sorted functions.
        let (first, second) = (table.entry(0)?.0, table.entry(1)?.0);
        (first <= second && table.end()? > first).then_some(table)
    }

    /// Returns whether a program begins with Go's own code, if the text has this address. In a program that a C linker has
    /// written, other code comes first.
    fn has_entry(&self, text: u64, entry: u64) -> bool {
        let moved = Self { text, ..self.clone() };
        moved.place(entry).is_some_and(|place| place.function.starts_with(b"_rt0_"))
    }

    fn from(&self, at: usize) -> Option<Slice<'_>> {
        Some(Slice::new(self.bytes.get(at..)?, self.endian))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.from(at)?.read_u32().ok()
    }

    fn pointer(&self, at: usize) -> Option<u64> {
        self.from(at)?.read_address(if self.wide { 8 } else { 4 }).ok()
    }

    /// Returns the size of a number in the function list, in bytes.
    fn step(&self) -> usize {
        if self.layout.is_relative() || !self.wide { 4 } else { 8 }
    }

    fn listed(&self, i: u64) -> Option<u64> {
        let at = self.list.checked_add(usize::try_from(i).ok()?.checked_mul(self.step())?)?;
        if self.step() == 4 { self.u32(at).map(u64::from) } else { self.pointer(at) }
    }

    /// Returns a function's linked address and the position of its description; after the last one, an end address.
    fn entry(&self, i: u64) -> Option<(u64, usize)> {
        let described = usize::try_from(self.listed(2 * i + 1)?).ok()?;
        Some((self.text.wrapping_add(self.listed(2 * i)?), self.base.checked_add(described)?))
    }

    fn end(&self) -> Option<u64> {
        Some(self.text.wrapping_add(self.listed(2 * self.functions)?))
    }

    /// Returns a number of a function's description. After the address follow the name and others, four bytes each.
    fn described(&self, function: usize, i: usize) -> Option<u32> {
        self.u32(function.checked_add(self.step() + 4 * i)?)
    }

    fn text_at(&self, base: usize, offset: u32) -> &[u8] {
        let text = base.checked_add(offset as usize).and_then(|at| self.bytes.get(at..)).unwrap_or_default();
        let text = &text[..text.len().min(MAX_NAME)];
        &text[..memchr::memchr(0, text).unwrap_or(text.len())]
    }

    /// Returns the functions at their offsets in the file; names stay in the file. Fails if the budget is too small.
    pub(crate) fn symbols(&self, segments: &ElfSegments, purse: &mut UnpackBudget) -> Result<SymbolTable, ElfError> {
        let one = |i: u64| {
            let raw = self.raw(i)?;
            Some(Raw { start: segments.to_offset(raw.start)?, ..raw })
        };
        let names = Names::In(self.bytes.clone(), self.names);
        Ok(SymbolTable::charged((0..self.functions).filter_map(one), self.functions, names, TABLES[0], purse)?)
    }

    /// Returns where a function begins and its description. The function that signal handlers return to begins one byte
    /// early, in the padding before it, because callers are looked up one byte before their return address.
    fn reach(&self, i: u64) -> Option<(u64, usize)> {
        let (start, function) = self.entry(i)?;
        let name = self.text_at(self.names, self.described(function, 0)?);
        Some((start.saturating_sub(name.starts_with(SIGNAL_RETURN).into()), function))
    }

    /// Returns where a function ends.
    fn end_of(&self, i: u64) -> Option<u64> {
        if i + 1 < self.functions { Some(self.reach(i + 1)?.0) } else { self.end() }
    }

    fn raw(&self, i: u64) -> Option<Raw<'_>> {
        let (start, function) = self.reach(i)?;
        let next = self.end_of(i)?;
        let name = self.described(function, 0)? as usize;
        let name = self.bytes.get(self.names.checked_add(name)?..)?;
        let name = &name[..name.len().min(MAX_NAME)];
        Some(Raw { start, size: next.saturating_sub(start), name, binding: Binding::Global })
    }

    /// Returns function, file and line of a linked address, without inlined functions.
    fn place(&self, address: u64) -> Option<GoPlace<'_>> {
        let (function, into) = self.function(address)?;
        Some(self.own_place(function, into))
    }

    /// Returns the functions at a linked address, innermost first.
    pub(crate) fn places(&self, address: u64) -> Vec<GoPlace<'_>> {
        let Some((function, mut into)) = self.function(address) else { return Vec::new() };
        let mut out = Vec::new();
        while out.len() < MAX_DEPTH
            && let Some((name, call)) = self.inlined(function, into)
        {
            out.push(GoPlace { function: name, line: self.line(function, into) });
            into = call;
        }
        out.push(self.own_place(function, into));
        out
    }

    fn own_place(&self, function: usize, into: u64) -> GoPlace<'_> {
        let name = self.described(function, 0).map(|name| self.text_at(self.names, name));
        GoPlace { function: name.unwrap_or_default(), line: self.line(function, into) }
    }

    /// Returns the function that is inlined at an offset into another one, and the offset of its call.
    fn inlined(&self, function: usize, into: u64) -> Option<(&[u8], u64)> {
        let tables = self.described(function, 6).filter(|tables| *tables > INLINED)?;
        let kinds = self.kinds(function)?;
        let first = kinds.checked_add(4)?;
        let table = self.u32(first.checked_add(4 * INLINED as usize)?).filter(|table| *table != 0)?;
        let number = usize::try_from(self.value(table, into)?).ok()?;
        if *self.bytes.get(kinds.checked_add(3)?)? <= TREE {
            return None;
        }
        let data = first.checked_add((tables as usize).checked_mul(4)?)?;
        let tree = match self.layout {
            Layout::Go12 => return None,
            Layout::Go116 => {
                let size = self.step();
                self.pointer(data.checked_next_multiple_of(size)?.checked_add(usize::from(TREE) * size)?)?
            }
            _ => {
                let into = self.u32(data.checked_add(4 * usize::from(TREE))?).filter(|into| *into != u32::MAX)?;
                self.trees?.checked_add(into.into())?
            }
        };
        let tree = usize::try_from(self.segments.to_offset(tree)?).ok()?;
        let (size, name, call) = if self.layout == Layout::Go120 { (16, 4, 8) } else { (20, 12, 16) };
        let one = tree.checked_add(number.checked_mul(size)?)?;
        let call = self.u32(one.checked_add(call)?).filter(|call| *call <= i32::MAX as u32)?;
        Some((self.text_at(self.names, self.u32(one.checked_add(name)?)?), call.into()))
    }

    /// Returns where a function's description has its kind, its flags and the number of its data. They are after the unit,
    /// and after the first line.
    fn kinds(&self, function: usize) -> Option<usize> {
        let last = if self.layout == Layout::Go120 { 9 } else { 8 };
        function.checked_add(self.step() + 4 * last)
    }

    /// Passes each function's start and end, and the addresses in it from which on its caller is found in another way.
    /// Linked addresses in order; nothing for versions before Go 1.18, whose functions have no flags.
    pub(crate) fn each_function(&self, mut add: impl FnMut(u64, u64, &[(u64, GoFrame)])) {
        let (mut parts, mut left) = (Vec::new(), MAX_ALL_STEPS);
        for i in (0..self.functions).take_while(|_| self.layout.is_relative()) {
            let Some(((start, function), end)) = self.reach(i).zip(self.end_of(i)) else { return };
            let (first, depths) = self.frames(function).unwrap_or((GoFrame::Pointed, None));
            parts.clear();
            parts.push((start, first));
            if self.flags(function).is_some_and(|flags| flags & OTHER_STACK != 0)
                && self.described(function, 0).is_some_and(|name| STACK_CALLS.contains(&self.text_at(self.names, name)))
                && let Some(own) = self.code(start, end).and_then(|code| calls::parts(code, start))
            {
                add(start, end, &own);
                continue;
            }
            let mut from = start;
            for (depth, upto) in depths.into_iter().flatten() {
                let own = if depth == 0 { GoFrame::OnTop } else { GoFrame::Pointed };
                match parts.last_mut() {
                    Some((_, frame)) if *frame == own => {}
                    Some((at, frame)) if *at == from => *frame = own,
                    _ => parts.push((from, own)),
                }
                from = start.saturating_add(upto);
                left -= 1;
                if left == 0 {
                    return;
                }
            }
            if from > start {
                // Behind the last instruction.
                parts.push((from, GoFrame::Pointed));
            }
            add(start, end, &parts);
        }
    }

    /// Returns how a function's caller is found, or the bytes on the stack below its return address, each with the offset
    /// where it ends.
    fn frames(&self, function: usize) -> Option<(GoFrame, Option<impl Iterator<Item = (i64, u64)>>)> {
        let flags = self.flags(function)?;
        let (table, name) = (self.described(function, 3)?, self.text_at(self.names, self.described(function, 0)?));
        let is_entered = name.starts_with(SIGNAL);
        let frame = match flags & FIRST != 0 {
            _ if name.starts_with(SIGNAL_RETURN) => GoFrame::Signal,
            true if !is_entered => GoFrame::First,
            // Another thread may execute the goroutine meanwhile. Since Go 1.21, its frame pointer is cleared.
            _ if flags & OTHER_STACK != 0 && name == SCHEDULER_CALL => GoFrame::First,
            _ => GoFrame::Pointed,
        };
        let has_table = table != 0 && flags & (FIRST | OTHER_STACK) == 0 && !is_entered;
        Some((frame, has_table.then(|| self.changes(table))))
    }

    fn flags(&self, function: usize) -> Option<u8> {
        self.bytes.get(self.kinds(function)?.checked_add(1)?).copied()
    }

    /// Returns the code between two linked addresses.
    fn code(&self, start: u64, end: u64) -> Option<&[u8]> {
        let at = usize::try_from(self.segments.to_offset(start)?).ok()?;
        self.bytes.get(at..at.checked_add(usize::try_from(end.checked_sub(start)?).ok()?)?)
    }

    /// Returns the part of the file that [`Self::each_function`] depends on.
    pub(crate) fn functions_range(&self) -> Option<Range<usize>> {
        let last = self.kinds(self.entry(self.functions.checked_sub(1)?)?.1)?;
        Some(self.names.min(self.values)..last.checked_add(4)?)
    }

    /// Returns the description of the function at a linked address, and the offset into it.
    fn function(&self, address: u64) -> Option<(usize, u64)> {
        let (mut low, mut high) = (0, self.functions);
        if address >= self.end()? {
            return None;
        }
        // Finds the last function that does not begin later.
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle)?.0 <= address { low = middle + 1 } else { high = middle }
        }
        let next = self.reach(low).filter(|(start, _)| low < self.functions && *start == address);
        if let Some((_, function)) = next {
            return Some((function, 0));
        }
        let (start, function) = self.entry(low.checked_sub(1)?)?;
        Some((function, address.wrapping_sub(start)))
    }

    fn line(&self, function: usize, into: u64) -> Option<(&[u8], u32)> {
        if self.layout == Layout::Go12 {
            return None;
        }
        // After the name: arguments, deferreturn, pcsp, pcfile, pcln, number of tables, unit.
        let value = |i: usize| self.value(self.described(function, i)?, into);
        let (file, line) = (value(4)?, value(5)?);
        let at = self.described(function, 7)?.checked_add(u32::try_from(file).ok()?)?;
        let name = self.u32(self.units.checked_add((at as usize).checked_mul(4)?)?)?;
        let file = self.text_at(self.files, name);
        (name != u32::MAX && !file.is_empty()).then_some((file, u32::try_from(line).ok()?))
    }

    /// Returns the value at an offset into a function, from a table of value changes.
    fn value(&self, table: u32, into: u64) -> Option<i64> {
        self.changes(table).find(|(_, upto)| into < *upto).map(|(value, _)| value)
    }

    /// Returns the values of a table, each with the offset into the function where it ends.
    fn changes(&self, table: u32) -> impl Iterator<Item = (i64, u64)> {
        let mut rest = self.values.checked_add(table as usize).and_then(|at| self.from(at));
        let (mut value, mut upto, mut is_first) = (-1i64, 0u64, true);
        let next = move || {
            let rest = rest.as_mut()?;
            let change = rest.read_uleb128().ok().filter(|change| *change != 0 || is_first)?;
            is_first = false;
            value = value.wrapping_add((change >> 1) as i64 ^ -((change & 1) as i64));
            upto = upto.checked_add(rest.read_uleb128().ok()?.checked_mul(self.quantum)?)?;
            Some((value, upto))
        };
        std::iter::from_fn(next).take(MAX_STEPS)
    }
}

mod calls;
mod module;

#[cfg(test)]
mod tests;
