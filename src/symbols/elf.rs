//! Functions of an ELF file, at their offsets in the file: that is what a mapping gives us, and
//! it holds for any load address (elf(5)).

use object::{Object, ObjectSection, ObjectSegment};

use super::bytes::Bytes;
use super::table::{Binding, MAX_NAME, Raw, SymbolTable};
use crate::perfdata::unpack::{Purse, Refused};
use crate::record::kinds::BuildId;

/// What could not be read of a file, in words.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    #[error("cannot be read as an ELF file: {0}")]
    Parse(#[from] object::Error),
    #[error("has no symbols (it is stripped)")]
    NoSymbols,
    #[error("has {0} sections and segments, as no program has")]
    Parts(u64),
    #[error("{0}")]
    LeftOut(String),
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// An ELF file, parsed.
pub type Elf<'d> = object::File<'d, &'d [u8]>;

/// How a file's parts lie in memory: address, size and offset in the file of each.
#[derive(Clone, Debug, Default)]
pub struct Segments(Vec<(u64, u64, u64)>);

impl Segments {
    pub fn of(file: &Elf<'_>) -> Self {
        Self(file.segments().take(MAX_SEGMENTS).map(|s| (s.address(), s.size(), s.file_range().0)).collect())
    }

    /// The offset in the file of an address as linked.
    pub fn to_offset(&self, addr: u64) -> Option<u64> {
        let (start, _, offset) = self.0.iter().find(|(start, size, _)| addr.wrapping_sub(*start) < *size)?;
        Some(addr.wrapping_sub(*start).wrapping_add(*offset))
    }

    /// The address as linked of an offset in the file.
    pub fn to_address(&self, offset: u64) -> Option<u64> {
        let (start, _, from) = self.0.iter().find(|(_, size, from)| offset.wrapping_sub(*from) < *size)?;
        Some(offset.wrapping_sub(*from).wrapping_add(*start))
    }
}

pub fn parse(bytes: &[u8]) -> Result<Elf<'_>, ElfError> {
    let parts = parts(bytes);
    if parts > MAX_PARTS {
        return Err(ElfError::Parts(parts));
    }
    Ok(object::File::parse(bytes)?)
}

/// How many sections and segments a file claims to have. What the header has no room for stands in the first section
/// (elf(5)): a sparse file has billions of them for nothing, and each look for one would pass them all.
fn parts(bytes: &[u8]) -> u64 {
    let order = Order { big: bytes.get(5) == Some(&2) };
    let wide = bytes.get(4) == Some(&2);
    let counts = if wide { [0x38, 0x3c] } else { [0x2c, 0x30] };
    let [segments, sections] = counts.map(|at| u64::from(order.u16(bytes, at)));
    let first = if wide { order.u64(bytes, 0x28) } else { order.u32(bytes, 0x20).into() };
    let first = usize::try_from(first).ok().and_then(|at| bytes.get(at..)).filter(|_| first != 0).unwrap_or_default();
    let (size, info) = if wide {
        (order.u64(first, 0x20), order.u32(first, 0x2c))
    } else {
        (order.u32(first, 0x14).into(), order.u32(first, 0x1c))
    };
    let sections = if sections == 0 { size } else { sections };
    let segments = if segments == 0xffff { info.into() } else { segments };
    sections.max(segments)
}

pub fn build_id(file: &Elf<'_>) -> Option<BuildId> {
    file.build_id().ok().flatten().and_then(BuildId::new)
}

/// Functions of one of a file's symbol tables, their names left in the file; empty when it has none.
/// `segments` are those of the program, when this is its debug file.
pub fn functions(bytes: &Bytes, kind: Kind, segments: &Segments, purse: &mut Purse) -> Result<SymbolTable, ElfError> {
    let file = parse(bytes)?;
    let names = file.section_by_name(kind.names()).and_then(|s| s.file_range()).map_or(0, |(at, _)| at as usize);
    let raw = raw_functions(&file, kind, &|addr| segments.to_offset(addr), purse)?;
    if raw.iter().all(|s| within(bytes, names, s.name)) {
        return Ok(SymbolTable::build_in(raw, bytes, names));
    }
    SymbolTable::charge_names(&raw, kind.names(), purse)?;
    Ok(SymbolTable::build(raw))
}

/// Whether a name lies where a table can point to it.
fn within(bytes: &[u8], base: usize, name: &[u8]) -> bool {
    let at = (name.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize).wrapping_sub(base);
    at < bytes.len() && u32::try_from(at).is_ok()
}

/// Which of a file's symbol tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `.symtab`: all functions, unless the file was stripped.
    All,
    /// `.dynsym`: those that other files may call.
    Dynamic,
}

impl Kind {
    fn section(self) -> &'static str {
        if self == Self::All { ".symtab" } else { ".dynsym" }
    }

    fn names(self) -> &'static str {
        if self == Self::All { ".strtab" } else { ".dynstr" }
    }
}

/// Table and names are read as two whole sections: going through a library one symbol at a time is
/// much slower, and looks for the end of a name wherever that is.
fn raw_functions<'d>(
    file: &Elf<'d>,
    kind: Kind,
    to_offset: &dyn Fn(u64) -> Option<u64>,
    purse: &mut Purse,
) -> Result<Vec<Raw<'d>>, Refused> {
    let data = |name: &str| file.section_by_name(name).and_then(|s| s.data().ok()).unwrap_or_default();
    let (symbols, names) = (data(kind.section()), data(kind.names()));
    // Symbols that are no functions take nothing but time.
    let passed = symbols.len() as u64 / SYMBOLS_FOR_ONE;
    purse.take(kind.section(), passed)?;
    purse.give_back(passed);
    let order = Order { big: !file.is_little_endian() };
    let usual = file.is_64() && !order.big;
    let text: Vec<bool> = std::iter::once(false)
        .chain(file.sections().map(|s| s.name_bytes().is_ok_and(|n| memchr::memmem::find(n, b"text").is_some())))
        .collect();
    // Bit 0 of an ARM function's address says that it is Thumb code.
    let thumb = u64::from(file.architecture() == object::Architecture::Arm);
    let one = |sym: Sym| {
        let code = match sym.info & 15 {
            STT_FUNC | STT_GNU_IFUNC => sym.section != SHN_UNDEF,
            STT_NOTYPE => usual && text.get(usize::from(sym.section)).copied().unwrap_or(false),
            _ => false,
        };
        let name = names.get(sym.name as usize..).filter(|_| code)?;
        let name = &name[..name.len().min(MAX_NAME)];
        let binding = match sym.info >> 4 {
            STB_WEAK => Binding::Weak,
            STB_LOCAL => Binding::Local,
            _ => Binding::Global,
        };
        name.first().filter(|first| **first != 0)?;
        Some(Raw { start: to_offset(sym.value & !thumb)?, size: sym.size, name, binding })
    };
    if file.is_64() {
        gather(kind, symbols.as_chunks().0.iter().filter_map(|sym| one(Sym::wide(sym, order))), purse)
    } else {
        gather(kind, symbols.as_chunks().0.iter().filter_map(|sym| one(Sym::narrow(sym, order))), purse)
    }
}

/// An entry of a symbol table.
struct Sym {
    name: u32,
    info: u8,
    section: u16,
    value: u64,
    size: u64,
}

impl Sym {
    fn wide(raw: &[u8; 24], order: Order) -> Self {
        let (name, section) = (order.u32(raw, 0), order.u16(raw, 6));
        Self { name, info: raw[4], section, value: order.u64(raw, 8), size: order.u64(raw, 16) }
    }

    fn narrow(raw: &[u8; 16], order: Order) -> Self {
        let (name, section) = (order.u32(raw, 0), order.u16(raw, 14));
        Self { name, info: raw[12], section, value: order.u32(raw, 4).into(), size: order.u32(raw, 8).into() }
    }
}

/// The order of a file's bytes. What lies outside of it reads as 0.
#[derive(Clone, Copy)]
struct Order {
    big: bool,
}

impl Order {
    fn bytes<const N: usize>(self, from: &[u8], at: usize) -> [u8; N] {
        let mut raw: [u8; N] = from.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N]);
        if self.big {
            raw.reverse();
        }
        raw
    }

    fn u16(self, from: &[u8], at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(from, at))
    }

    fn u32(self, from: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(from, at))
    }

    fn u64(self, from: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(from, at))
    }
}

/// Functions in a list, charged as they come with what their table takes and with what they take meanwhile.
fn gather<'d>(kind: Kind, from: impl Iterator<Item = Raw<'d>>, purse: &mut Purse) -> Result<Vec<Raw<'d>>, Refused> {
    let mut out = Vec::new();
    let mut meanwhile = 0;
    for raw in from {
        if out.len() == out.capacity() {
            let more = (out.len() / 2).max(1024);
            let (kept, passing) = (more * SymbolTable::ENTRY, more * size_of::<Raw<'_>>());
            purse.take(kind.section(), (kept + passing) as u64)?;
            meanwhile += passing as u64;
            out.reserve_exact(more);
        }
        out.push(raw);
    }
    purse.give_back(meanwhile);
    Ok(out)
}

/// The functions of a kernel image (vmlinux) by address, and the address of its `_text`.
pub fn kernel(bytes: &Bytes, purse: &mut Purse) -> Result<(SymbolTable, Option<u64>, Option<BuildId>), ElfError> {
    let file = parse(bytes)?;
    let raw = raw_functions(&file, Kind::All, &Some, purse)?;
    if raw.is_empty() {
        return Err(ElfError::NoSymbols);
    }
    let named =
        |s: &Raw<'_>, name: &[u8]| s.name.strip_prefix(name).is_some_and(|rest| rest.first().is_none_or(|b| *b == 0));
    let start = |name: &[u8]| raw.iter().find(|s| named(s, name)).map(|s| s.start);
    let text =
        start(b"_text").or_else(|| start(b"_stext")).or_else(|| file.section_by_name(".text").map(|s| s.address()));
    SymbolTable::charge_names(&raw, Kind::All.names(), purse)?;
    Ok((SymbolTable::build(raw), text, build_id(&file)))
}

/// Of more segments than this no program is made, and of so many sections and segments no file that is run.
const MAX_SEGMENTS: usize = 256;
const MAX_PARTS: u64 = 0xffff;
/// Bytes of a table of symbols for each byte that its functions may take.
const SYMBOLS_FOR_ONE: u64 = 8;

/// `st_info` and `st_shndx` values, elf(5).
const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const STB_LOCAL: u8 = 0;
const STB_WEAK: u8 = 2;
const SHN_UNDEF: u16 = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::image::Image;

    fn map(path: &str) -> Bytes {
        Bytes::of(&std::fs::File::open(path).expect("open")).expect("map")
    }

    #[test]
    fn our_own_functions_are_found_at_their_offsets() {
        let image = Image::of(map("/proc/self/exe")).expect("elf");
        let table = functions(&image.bytes, Kind::All, &image.segments, &mut Purse::new(1 << 28)).expect("symbols");
        assert!(table.len() > 100);
        let names: Vec<String> =
            table.iter().map(|s| super::super::demangle::demangle(s.name, Default::default())).collect();
        assert!(names.iter().any(|n| n.contains("our_own_functions_are_found_at_their_offsets")));
        assert!(names.iter().any(|n| n == "main"));
        let main = table.iter().find(|s| s.name == b"main").expect("main").start;
        assert_eq!(image.segments.to_address(main).and_then(|at| image.segments.to_offset(at)), Some(main));
    }

    /// A kernel image is read by address; any program with symbols has the same shape.
    #[test]
    fn a_kernel_image_is_read_by_address() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bin/spin-nopie");
        let (table, text, id) = kernel(&map(path), &mut Purse::new(1 << 28)).expect("symbols");
        let main = table.iter().find(|s| s.name == b"main").expect("main");
        // Linked at a fixed address, far from its offset in the file.
        assert!(main.start >= 0x40_0000 && table.find(main.start + 1).is_some_and(|s| s.name == b"main"));
        assert!(text.is_some() && id.is_some());
    }

    #[test]
    fn what_is_no_elf_is_an_error() {
        assert!(Image::of(b"#!/bin/sh\n".to_vec().into()).is_err());
        let mut cut = std::fs::read("/bin/true").expect("true");
        for len in [0, 3, 64, 200, cut.len() / 2] {
            cut.truncate(cut.len().min(len.max(1)));
            let _ = Image::of(cut.clone().into()).map(|image| image.functions(&mut Purse::new(1 << 28)));
        }
    }
}
