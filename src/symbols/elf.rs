//! Functions of an ELF file, at their offsets in the file: that is what a mapping gives us, and
//! it holds for any load address (elf(5)).

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};

use super::bytes::Bytes;
use super::table::{Binding, Raw, SymbolTable};
use crate::record::kinds::BuildId;

/// What could not be read of a file, in words.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    #[error("cannot be read as an ELF file: {0}")]
    Parse(#[from] object::Error),
    #[error("has no symbols (it is stripped)")]
    NoSymbols,
}

/// An ELF file, parsed.
pub type Elf<'d> = object::File<'d, &'d [u8]>;

/// How a file's parts lie in memory: address, size and offset in the file of each.
#[derive(Clone, Debug, Default)]
pub struct Segments(Vec<(u64, u64, u64)>);

impl Segments {
    pub fn of(file: &Elf<'_>) -> Self {
        Self(file.segments().map(|s| (s.address(), s.size(), s.file_range().0)).collect())
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
    Ok(object::File::parse(bytes)?)
}

pub fn build_id(file: &Elf<'_>) -> Option<BuildId> {
    file.build_id().ok().flatten().and_then(BuildId::new)
}

/// Functions of one of a file's symbol tables, their names left in the file; empty when it has none.
/// `segments` are those of the program, when this is its debug file.
pub fn functions(bytes: &Bytes, kind: Kind, segments: &Segments) -> Result<SymbolTable, ElfError> {
    let file = parse(bytes)?;
    let names = file.section_by_name(kind.names()).and_then(|s| s.file_range()).map_or(0, |(at, _)| at as usize);
    let raw = raw_functions(&file, kind, &|addr| segments.to_offset(addr));
    let in_file = raw.iter().all(|s| within(bytes, names, s.name));
    Ok(if in_file { SymbolTable::build_in(raw, bytes, names) } else { SymbolTable::build(raw) })
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
/// much slower.
fn raw_functions<'d>(file: &Elf<'d>, kind: Kind, to_offset: &dyn Fn(u64) -> Option<u64>) -> Vec<Raw<'d>> {
    let data = |name: &str| file.section_by_name(name).and_then(|s| s.data().ok()).unwrap_or_default();
    let (symbols, names) = (data(kind.section()), data(kind.names()));
    if !file.is_64() || !file.is_little_endian() {
        return other_functions(file, kind, to_offset);
    }
    let text: Vec<bool> = std::iter::once(false)
        .chain(file.sections().map(|s| s.name_bytes().is_ok_and(|n| memchr::memmem::find(n, b"text").is_some())))
        .collect();
    let one = |sym: &[u8; 24]| {
        let u64_at = |at: usize| u64::from_le_bytes(sym[at..at + 8].try_into().unwrap_or_default());
        let section = u16::from_le_bytes([sym[6], sym[7]]);
        let code = match sym[4] & 15 {
            STT_FUNC | STT_GNU_IFUNC => section != SHN_UNDEF,
            STT_NOTYPE => text.get(usize::from(section)).copied().unwrap_or(false),
            _ => false,
        };
        let name = names.get(u32::from_le_bytes([sym[0], sym[1], sym[2], sym[3]]) as usize..).filter(|_| code)?;
        let name = &name[..name.len().min(MAX_NAME)];
        let binding = match sym[4] >> 4 {
            STB_WEAK => Binding::Weak,
            STB_LOCAL => Binding::Local,
            _ => Binding::Global,
        };
        name.first().filter(|first| **first != 0)?;
        Some(Raw { start: to_offset(u64_at(8))?, size: u64_at(16), name, binding })
    };
    symbols.as_chunks::<24>().0.iter().filter_map(one).collect()
}

/// The same for 32-bit and big-endian files, which are rare here: by the library's own walk.
fn other_functions<'d>(file: &Elf<'d>, kind: Kind, to_offset: &dyn Fn(u64) -> Option<u64>) -> Vec<Raw<'d>> {
    let one = |sym: object::Symbol<'d, '_, &'d [u8]>| {
        let code = sym.kind() == object::SymbolKind::Text && !sym.is_undefined();
        let name = sym.name_bytes().ok().filter(|n| code && !n.is_empty() && n.len() < MAX_NAME)?;
        let binding = match (sym.is_weak(), sym.is_local()) {
            (true, _) => Binding::Weak,
            (_, true) => Binding::Local,
            _ => Binding::Global,
        };
        // Bit 0 of an ARM function's address says that it is Thumb code.
        let thumb = u64::from(file.architecture() == object::Architecture::Arm);
        Some(Raw { start: to_offset(sym.address() & !thumb)?, size: sym.size(), name, binding })
    };
    match kind {
        Kind::All => file.symbols().filter_map(one).collect(),
        Kind::Dynamic => file.dynamic_symbols().filter_map(one).collect(),
    }
}

/// The functions of a kernel image (vmlinux) by address, and the address of its `_text`.
pub fn kernel(bytes: &Bytes) -> Result<(SymbolTable, Option<u64>, Option<BuildId>), ElfError> {
    let file = parse(bytes)?;
    let raw = raw_functions(&file, Kind::All, &Some);
    if raw.is_empty() {
        return Err(ElfError::NoSymbols);
    }
    let named =
        |s: &Raw<'_>, name: &[u8]| s.name.strip_prefix(name).is_some_and(|rest| rest.first().is_none_or(|b| *b == 0));
    let start = |name: &[u8]| raw.iter().find(|s| named(s, name)).map(|s| s.start);
    let text =
        start(b"_text").or_else(|| start(b"_stext")).or_else(|| file.section_by_name(".text").map(|s| s.address()));
    Ok((SymbolTable::build(raw), text, build_id(&file)))
}

/// A longer name is nobody's: it is left out.
const MAX_NAME: usize = 1 << 20;

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
        let table = functions(&image.bytes, Kind::All, &image.segments).expect("symbols");
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
        let (table, text, id) = kernel(&map(path)).expect("symbols");
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
            let _ = Image::of(cut.clone().into()).map(|image| image.functions());
        }
    }
}
