//! Functions of an ELF file by their offsets in the file, which mappings report at any load address (elf(5)).

pub(crate) mod bounds;
mod dynamic;
pub(crate) mod go_table;
pub(crate) mod linked;
pub(crate) mod plt;
pub(crate) mod program;
pub(crate) mod section;

use std::ops::Range;

use object::elf::{
    FileHeader32, FileHeader64, SHN_LORESERVE, SHN_UNDEF, STB_LOCAL, STB_WEAK, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE,
    STT_OBJECT, Sym32, Sym64, SymbolBind, SymbolSection as SectionIndex, SymbolType,
};
use object::read::elf::FileHeader;
use object::{Endianness, Object, ObjectSection, pod};

use self::dynamic::DynamicSymbols;
use super::bytes::Bytes;
use super::names::table::{Binding, MAX_NAME, Names, Raw, SymbolTable};
use crate::perfdata::unpack::{UnpackBudget, UnpackError};
use crate::record::kinds::BuildId;

/// The reason why a part of a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    #[error("cannot be read as an ELF file: {0}")]
    Parse(#[from] object::Error),
    #[error("has no symbols (it is stripped)")]
    NoSymbols,
    #[error("has too many sections and segments ({0})")]
    Parts(u32),
    #[error("{0}")]
    LeftOut(String),
    #[error(transparent)]
    Refused(#[from] UnpackError),
}

pub(crate) type Elf<'d> = object::File<'d, &'d [u8]>;

/// The loaded segments of a file: address, size and offset in the file of each.
#[derive(Clone, Debug, Default)]
pub struct ElfSegments(Vec<(u64, u64, u64)>);

impl ElfSegments {
    /// Takes address, size in memory and offset of each segment.
    pub(super) fn new(parts: impl Iterator<Item = (u64, u64, u64)>) -> Self {
        Self(parts.take(MAX_SEGMENTS).collect())
    }

    /// Returns the linked address of the first segment.
    pub(crate) fn base(&self) -> u64 {
        self.0.first().map_or(0, |(start, ..)| *start)
    }

    /// Returns the offset in the file of a linked address.
    pub(crate) fn to_offset(&self, addr: u64) -> Option<u64> {
        let (start, _, offset) = self.0.iter().find(|(start, size, _)| addr.wrapping_sub(*start) < *size)?;
        Some(addr.wrapping_sub(*start).wrapping_add(*offset))
    }

    /// Returns the linked address of an offset in the file.
    pub fn to_address(&self, offset: u64) -> Option<u64> {
        let (start, _, from) = self.0.iter().find(|(_, size, from)| offset.wrapping_sub(*from) < *size)?;
        Some(offset.wrapping_sub(*from).wrapping_add(*start))
    }
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Elf<'_>, ElfError> {
    let parts = parts(bytes);
    if parts > MAX_PARTS {
        return Err(ElfError::Parts(parts));
    }
    Ok(object::File::parse(bytes)?)
}

/// Returns how many sections and segments a file claims to have. Counts that do not fit the header are in the first
/// section (elf(5)): a sparse file can claim billions, and each search would iterate over them.
fn parts(bytes: &[u8]) -> u32 {
    fn of<H: FileHeader>(bytes: &[u8]) -> object::Result<u32> {
        let header = H::parse(bytes)?;
        let endian = header.endian()?;
        Ok(header.shnum(endian, bytes)?.max(header.phnum(endian, bytes)?))
    }
    let wide = of::<FileHeader64<Endianness>>(bytes);
    // Files without such counts fail later, when they are parsed.
    wide.or_else(|_| of::<FileHeader32<Endianness>>(bytes)).unwrap_or(0)
}

pub(crate) fn build_id(file: &Elf<'_>) -> Option<BuildId> {
    file.build_id().ok().flatten().and_then(BuildId::new)
}

/// Returns the functions, and data objects on request, of one of a file's symbol tables; names stay in the file.
/// Empty if the table is missing. `segments` are those of the program if this is its debug file.
pub(crate) fn symbols(
    bytes: &Bytes,
    kind: SymbolSection,
    segments: &ElfSegments,
    with_data: bool,
    purse: &mut UnpackBudget,
) -> Result<SymbolTable, ElfError> {
    let is_wanted = if with_data { Symbols::is_function_or_object } else { Symbols::is_function };
    let file = parse(bytes)?;
    let symbols = Symbols::of(&file, bytes, kind);
    if symbols.len() > 0 && symbols.names.is_empty() {
        return Err(ElfError::LeftOut(format!("its {} has no names: {} is damaged", kind.section(), kind.names())));
    }
    let names = Names::In(bytes.clone(), symbols.names_at);
    Ok(symbols.table(&|addr| segments.to_offset(addr), names, purse, is_wanted)?)
}

/// Returns the linked addresses where functions begin, from symbols, without the cold parts that compilers move away.
/// Only names of functions at wanted addresses are read.
pub(super) fn starts_of_functions(file: &Elf<'_>, bytes: &[u8], is_wanted: &dyn Fn(u64) -> bool) -> Vec<u64> {
    let is_part = |raw: &Raw<'_>| memchr::memmem::find(raw.name(), b".cold").is_some();
    let mut starts = Vec::new();
    for kind in [SymbolSection::All, SymbolSection::Dynamic] {
        let symbols = Symbols::of(file, bytes, kind);
        // A label in assembly may be anywhere.
        let is_function =
            |all: &Symbols<'_>, sym: &ElfSym| matches!(sym.kind, STT_FUNC | STT_GNU_IFUNC) && all.is_function(sym);
        let wanted = |at: u64| Some(at).filter(|at| is_wanted(*at));
        starts.extend(symbols.wanted(&wanted, is_function).filter(|raw| !is_part(raw)).map(|raw| raw.start));
    }
    starts
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SymbolSection {
    /// `.symtab`: all functions, unless the file was stripped.
    All,
    /// `.dynsym`: exported functions.
    Dynamic,
}

impl SymbolSection {
    fn section(self) -> &'static str {
        if self == Self::All { ".symtab" } else { ".dynsym" }
    }

    fn names(self) -> &'static str {
        if self == Self::All { ".strtab" } else { ".dynstr" }
    }
}

/// A symbol table and its names, read as two whole sections.
/// A library that returns symbols one by one is much slower, and searches for the end of each name.
pub(super) struct Symbols<'d> {
    kind: SymbolSection,
    entries: &'d [u8],
    names: &'d [u8],
    names_at: usize,
    wide: bool,
    endian: Endianness,
    /// For each section, whether it holds code; empty if labels are ignored.
    text: Vec<bool>,
    /// Bit 0 of an ARM function's address marks Thumb code.
    thumb: u64,
}

impl<'d> Symbols<'d> {
    pub(super) fn of(file: &Elf<'d>, bytes: &'d [u8], kind: SymbolSection) -> Self {
        let place = |name: &str| {
            let (at, len) = file.section_by_name(name)?.file_range()?;
            let at = usize::try_from(at).ok()?;
            Some(at..at.checked_add(usize::try_from(len).ok()?)?)
        };
        let loaded = (kind == SymbolSection::Dynamic && file.sections().next().is_none())
            .then(|| DynamicSymbols::of(bytes))
            .flatten();
        let (entries, names) = match loaded {
            Some(loaded) => (Some(loaded.entries), Some(loaded.names)),
            None => (place(kind.section()), place(kind.names())),
        };
        let part = |range: Range<usize>| Some((range.start, bytes.get(range)?));
        let (names_at, names) = names.and_then(part).unwrap_or_default();
        let entries = entries.and_then(part).map(|(_, entries)| entries).unwrap_or_default();
        let endian = file.endianness();
        let is_text = |name: &[u8]| memchr::memmem::find(name, b"text").is_some();
        let sections = file.sections().map(|s| s.name_bytes().is_ok_and(is_text));
        let is_usual = file.is_64() && file.is_little_endian();
        let text = if is_usual { std::iter::once(false).chain(sections).collect() } else { Vec::new() };
        let thumb = u64::from(file.architecture() == object::Architecture::Arm);
        Self { kind, entries, names, names_at, wide: file.is_64(), endian, text, thumb }
    }

    pub(super) fn len(&self) -> u32 {
        let size = if self.wide { size_of::<Sym64<Endianness>>() } else { size_of::<Sym32<Endianness>>() };
        u32::try_from(self.entries.len() / size).unwrap_or(u32::MAX)
    }

    pub(super) fn get(&self, i: u32) -> Option<ElfSym> {
        let read = if self.wide { ElfSym::read::<Sym64<Endianness>> } else { ElfSym::read::<Sym32<Endianness>> };
        read(self.entries, i as usize, self.endian)
    }

    /// Returns whether a symbol is a function with a name. Does not read the name: names are megabytes of pages.
    fn is_function(&self, sym: &ElfSym) -> bool {
        let is_code = match sym.kind {
            STT_FUNC | STT_GNU_IFUNC => sym.section != SHN_UNDEF,
            // From this number on, they do not stand for sections.
            STT_NOTYPE if sym.section.0 < SHN_LORESERVE => {
                self.text.get(usize::from(sym.section.0)).copied().unwrap_or(false)
            }
            _ => false,
        };
        is_code && sym.name != 0 && (sym.name as usize) < self.names.len()
    }

    fn is_function_or_object(&self, sym: &ElfSym) -> bool {
        let is_data = sym.kind == STT_OBJECT && sym.section != SHN_UNDEF;
        self.is_function(sym) || is_data && sym.name != 0 && (sym.name as usize) < self.names.len()
    }

    /// Returns the wanted symbols, each at its offset.
    fn wanted<'s>(
        &'s self,
        to_offset: &'s dyn Fn(u64) -> Option<u64>,
        is_wanted: fn(&Self, &ElfSym) -> bool,
    ) -> impl Iterator<Item = Raw<'d>> + use<'s, 'd> {
        (0..self.len()).filter_map(move |i| {
            let raw = self.raw(self.get(i).filter(|sym| is_wanted(self, sym))?);
            Some(Raw { start: to_offset(raw.start)?, ..raw })
        })
    }

    /// Builds the table of the wanted symbols, each at its offset.
    fn table(
        &self,
        to_offset: &dyn Fn(u64) -> Option<u64>,
        names: Names,
        purse: &mut UnpackBudget,
        is_wanted: fn(&Self, &ElfSym) -> bool,
    ) -> Result<SymbolTable, UnpackError> {
        // Skipped symbols take only time, which is limited by the size of the table.
        let passed = self.entries.len() as u64 / SYMBOLS_FOR_ONE;
        purse.take(self.kind.section(), passed)?;
        purse.give_back(passed);
        // Counts first: growing a list needs both the old and the new copy.
        let all = || self.wanted(to_offset, is_wanted);
        SymbolTable::charged(all(), all().count() as u64, names, self.kind.section(), purse)
    }

    /// Returns a symbol at its linked address.
    fn raw(&self, sym: ElfSym) -> Raw<'d> {
        let name = self.names.get(sym.name as usize..).unwrap_or_default();
        let binding = match sym.binding {
            STB_WEAK => Binding::Weak,
            STB_LOCAL => Binding::Local,
            _ => Binding::Global,
        };
        Raw { start: sym.value & !self.thumb, size: sym.size, name: &name[..name.len().min(MAX_NAME)], binding }
    }

    pub(super) fn name(&self, i: u32) -> Option<&'d [u8]> {
        Some(self.raw(self.get(i)?).name()).filter(|name| !name.is_empty())
    }
}

pub(super) struct ElfSym {
    name: u32,
    pub(super) kind: SymbolType,
    binding: SymbolBind,
    section: SectionIndex,
    pub(super) value: u64,
    size: u64,
}

impl ElfSym {
    fn read<S: object::read::elf::Sym>(entries: &[u8], i: usize, endian: S::Endian) -> Option<Self> {
        let (raw, _) = pod::from_bytes::<S>(entries.get(i * size_of::<S>()..)?).ok()?;
        let (value, size) = (raw.st_value(endian).into(), raw.st_size(endian).into());
        let (kind, binding, section) = (raw.st_type(), raw.st_bind(), raw.st_shndx(endian));
        Some(Self { name: raw.st_name(endian), kind, binding, section, value, size })
    }
}

/// Returns the functions of a kernel image (vmlinux) by address. Also returns the address of its `_text`.
pub(crate) fn kernel(
    bytes: &Bytes,
    purse: &mut UnpackBudget,
) -> Result<(SymbolTable, Option<u64>, Option<BuildId>), ElfError> {
    let file = parse(bytes)?;
    let symbols = Symbols::of(&file, bytes, SymbolSection::All);
    let functions = || symbols.wanted(&Some, Symbols::is_function);
    let start = |name: &[u8]| functions().find(|raw| raw.name() == name).map(|raw| raw.start);
    let text =
        start(b"_text").or_else(|| start(b"_stext")).or_else(|| file.section_by_name(".text").map(|s| s.address()));
    SymbolTable::charge_names(functions(), SymbolSection::All.names(), purse)?;
    let table = symbols.table(&Some, Names::default(), purse, Symbols::is_function)?;
    if table.is_empty() {
        return Err(ElfError::NoSymbols);
    }
    Ok((table, text, build_id(&file)))
}

/// The limits of segments, and of sections and segments in total. Files whose functions have a section each have some
/// ten thousand.
pub(super) const MAX_SEGMENTS: usize = 256;
const MAX_PARTS: u32 = 1 << 18;
/// The limit of a symbol table's size, relative to its functions' memory budget.
const SYMBOLS_FOR_ONE: u64 = 8;

#[cfg(test)]
mod tests {
    use super::super::trust::find_file::tests::{SPIN, libc, map};
    use super::*;
    use crate::symbols::debug_image::Image;

    #[test]
    fn our_own_functions_are_found_at_their_offsets() {
        let image = Image::of(map("/proc/self/exe")).expect("elf");
        let table = symbols(&image.bytes, SymbolSection::All, &image.segments, false, &mut UnpackBudget::new(1 << 28))
            .expect("symbols");
        assert!(table.len() > 100);
        let names: Vec<String> =
            table.iter().map(|s| super::super::names::demangle::demangle(s.name, Default::default())).collect();
        assert!(names.iter().any(|n| n.contains("our_own_functions_are_found_at_their_offsets")));
        assert!(names.iter().any(|n| n == "main"));
        let main = table.iter().find(|s| s.name == b"main").expect("main").start;
        assert_eq!(image.segments.to_address(main).and_then(|at| image.segments.to_offset(at)), Some(main));
    }

    /// A kernel image is read by address; any program with symbols has the same layout.
    #[test]
    fn a_kernel_image_is_read_by_address() {
        let (table, text, id) = kernel(&map(SPIN), &mut UnpackBudget::new(1 << 28)).expect("symbols");
        let main = table.iter().find(|s| s.name == b"main").expect("main");
        // Linked at a fixed address, far from its offset in the file.
        assert!(main.start >= 0x40_0000 && table.find(main.start + 1).is_some_and(|s| s.name == b"main"));
        assert!(text.is_some() && id.is_some());
    }

    #[test]
    fn a_table_without_its_names_is_damaged() {
        let mut bytes = map(SPIN).to_vec();
        let section = parse(&bytes).expect("elf").section_by_name(".strtab").expect("names").index().0;
        let headers = u64::from_le_bytes(bytes[0x28..0x30].try_into().expect("8 bytes")) as usize;
        // Its offset in the file.
        let at = headers + 64 * section + 24;
        bytes[at..at + 8].copy_from_slice(&(1u64 << 40).to_le_bytes());
        let image = Image::of(bytes.into()).expect("elf");
        let why = match image.functions(&mut UnpackBudget::new(1 << 28)) {
            Ok(functions) => functions.from.text,
            Err(error) => error.to_string(),
        };
        assert!(why.contains("its .symtab has no names: .strtab is damaged"), "{why}");
    }

    #[test]
    fn exported_functions_are_found_without_section_headers() {
        let whole = libc();
        let segments = Image::of(whole.clone()).expect("elf").segments;
        let functions = |bytes: &Bytes| {
            let mut purse = UnpackBudget::new(1 << 28);
            let table = symbols(bytes, SymbolSection::Dynamic, &segments, false, &mut purse).expect("symbols");
            table.iter().map(|s| (s.start, s.name.to_vec())).collect::<Vec<_>>()
        };
        let mut bytes = whole.to_vec();
        // Offset, number and names of the section headers.
        bytes[0x28..0x30].fill(0);
        bytes[0x3a..0x40].fill(0);
        let all = functions(&whole);
        assert!(all.len() > 100 && functions(&bytes.clone().into()) == all, "{} functions", all.len());
        for at in (0x40..0x400).step_by(16) {
            let mut damaged = bytes.clone();
            damaged[at..at + 4].fill(0xff);
            let _ = DynamicSymbols::of(&damaged).map(|found| (found.entries.len(), found.names.len()));
        }
    }

    /// Their number does not fit the header.
    #[test]
    fn a_file_with_many_sections_is_read() {
        let with_sections = |count: u32| {
            let mut bytes = map(SPIN).to_vec();
            let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            let (known, names) = (usize::from(half(0x3c)), u32::from(half(0x3e)));
            let old = u64::from_le_bytes(bytes[0x28..0x30].try_into().expect("8 bytes")) as usize;
            let mut table = bytes[old..old + 64 * known].to_vec();
            // The first section has the count and the section of names.
            table[32..40].copy_from_slice(&u64::from(count).to_le_bytes());
            table[40..44].copy_from_slice(&names.to_le_bytes());
            table.resize(64 * 70_000, 0);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            let new = bytes.len() as u64;
            bytes[0x28..0x30].copy_from_slice(&new.to_le_bytes());
            bytes[0x3c..0x3e].fill(0);
            bytes.extend(table);
            Bytes::from(bytes)
        };
        let (file, own) = (with_sections(70_000), map(SPIN));
        let frames = |bytes: &Bytes| {
            let program = program::ElfProgram::of(bytes).expect("a program");
            program.section(".eh_frame").map(|section| section.address)
        };
        assert!(frames(&file).is_some() && frames(&file) == frames(&own));
        let functions = |bytes: &Bytes| {
            let image = Image::of(bytes.clone()).expect("elf");
            let mut purse = UnpackBudget::new(1 << 28);
            symbols(bytes, SymbolSection::All, &image.segments, false, &mut purse).expect("symbols").len()
        };
        assert!(functions(&own) > 1 && functions(&file) == functions(&own));
        let many = MAX_PARTS + 1;
        assert!(matches!(parse(&with_sections(many)), Err(ElfError::Parts(parts)) if parts == many));
    }

    #[test]
    fn what_is_no_elf_is_an_error() {
        assert!(Image::of(b"#!/bin/sh\n".to_vec().into()).is_err());
        let mut cut = std::fs::read("/bin/true").expect("true");
        for len in [0, 3, 64, 200, cut.len() / 2] {
            cut.truncate(cut.len().min(len.max(1)));
            let _ = Image::of(cut.clone().into()).map(|image| image.functions(&mut UnpackBudget::new(1 << 28)));
        }
    }
}
