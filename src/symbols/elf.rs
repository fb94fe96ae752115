//! Functions of an ELF file, at their offsets in the file: that is what a mapping gives us, and
//! it holds for any load address (elf(5)).
//!
//! Files are read, not mapped: a file that is cut short under us must not end the program.

use std::fs::File;

use object::read::ReadCache;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};

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

/// The functions and build id of an ELF file.
#[derive(Debug)]
pub struct ElfFile {
    pub table: SymbolTable,
    pub build_id: Option<BuildId>,
}

/// Loads an ELF file from anything that can be read and sought. When it has been stripped of its
/// symbol table, `debug` is asked for its separate debug file by the build id.
pub fn load<R: object::read::ReadCacheOps>(
    reader: R,
    debug: &dyn Fn(&BuildId) -> Option<File>,
) -> Result<ElfFile, ElfError> {
    let cache = ReadCache::new(reader);
    let file = object::File::parse(&cache)?;
    let build_id = file.build_id().ok().flatten().and_then(BuildId::new);
    let segments: Vec<(u64, u64, u64)> = file.segments().map(|s| (s.address(), s.size(), s.file_range().0)).collect();
    let to_offset = |addr: u64| {
        segments
            .iter()
            .find(|(start, size, _)| addr.wrapping_sub(*start) < *size)
            .map(|(start, _, offset)| addr - start + offset)
    };
    let mut raw = functions(&file, ".symtab", &to_offset);
    let debug = if raw.is_empty() { build_id.as_ref().and_then(debug) } else { None };
    let debug_cache = debug.map(ReadCache::new);
    let debug_file = debug_cache.as_ref().and_then(|cache| object::File::parse(cache).ok());
    if let Some(debug_file) = &debug_file {
        raw = functions(debug_file, ".symtab", &to_offset);
    }
    if raw.is_empty() {
        raw = functions(&file, ".dynsym", &to_offset);
    }
    let plt_names = plt(&file, &to_offset);
    raw.extend(plt_names.iter().map(|(start, size, name)| Raw {
        start: *start,
        size: *size,
        name,
        binding: Binding::Global,
    }));
    if raw.is_empty() {
        return Err(ElfError::NoSymbols);
    }
    Ok(ElfFile { table: SymbolTable::build(raw), build_id })
}

/// The build id alone, without reading symbols.
pub fn build_id(file: File) -> Option<BuildId> {
    let cache = ReadCache::new(file);
    object::File::parse(&cache).ok()?.build_id().ok().flatten().and_then(BuildId::new)
}

/// The functions of one of a file's symbol tables (`SHT_SYMTAB` or `SHT_DYNSYM`). Table and names
/// are read as two whole sections; going through one name at a time costs a system call each.
fn functions<'d, R: object::read::ReadCacheOps>(
    file: &object::File<'d, &'d ReadCache<R>>,
    kind: &str,
    to_offset: &dyn Fn(u64) -> Option<u64>,
) -> Vec<Raw<'d>> {
    let names_section = if kind == ".symtab" { ".strtab" } else { ".dynstr" };
    let data = |name: &str| file.section_by_name(name).and_then(|s| s.data().ok()).unwrap_or_default();
    let (symbols, names) = (data(kind), data(names_section));
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
        let name = &name[..memchr::memchr(0, name)?];
        let binding = match sym[4] >> 4 {
            STB_WEAK => Binding::Weak,
            STB_LOCAL => Binding::Local,
            _ => Binding::Global,
        };
        (!name.is_empty()).then_some(())?;
        Some(Raw { start: to_offset(u64_at(8))?, size: u64_at(16), name, binding })
    };
    symbols.as_chunks::<24>().0.iter().filter_map(one).collect()
}

/// The same for 32-bit and big-endian files, which are rare here: by the library's own walk.
fn other_functions<'d, R: object::read::ReadCacheOps>(
    file: &object::File<'d, &'d ReadCache<R>>,
    kind: &str,
    to_offset: &dyn Fn(u64) -> Option<u64>,
) -> Vec<Raw<'d>> {
    let one = |sym: object::Symbol<'d, '_, &'d ReadCache<R>>| {
        let code = sym.kind() == object::SymbolKind::Text && !sym.is_undefined();
        let name = sym.name_bytes().ok().filter(|n| code && !n.is_empty())?;
        let binding = match (sym.is_weak(), sym.is_local()) {
            (true, _) => Binding::Weak,
            (_, true) => Binding::Local,
            _ => Binding::Global,
        };
        // Bit 0 of an ARM function's address says that it is Thumb code.
        let thumb = u64::from(file.architecture() == object::Architecture::Arm);
        Some(Raw { start: to_offset(sym.address() & !thumb)?, size: sym.size(), name, binding })
    };
    if kind == ".symtab" {
        file.symbols().filter_map(one).collect()
    } else {
        file.dynamic_symbols().filter_map(one).collect()
    }
}

/// The functions of a kernel image (vmlinux) by address, and the address of its `_text`.
pub fn load_kernel(file: File) -> Result<(SymbolTable, Option<u64>, Option<BuildId>), ElfError> {
    let cache = ReadCache::new(file);
    let file = object::File::parse(&cache)?;
    let build_id = file.build_id().ok().flatten().and_then(BuildId::new);
    let raw = functions(&file, ".symtab", &Some);
    if raw.is_empty() {
        return Err(ElfError::NoSymbols);
    }
    let start = |name: &[u8]| raw.iter().find(|s| s.name == name).map(|s| s.start);
    let text =
        start(b"_text").or_else(|| start(b"_stext")).or_else(|| file.section_by_name(".text").map(|s| s.address()));
    Ok((SymbolTable::build(raw), text, build_id))
}

/// `st_info` and `st_shndx` values, elf(5).
const STT_NOTYPE: u8 = 0;
const STT_FUNC: u8 = 2;
const STT_GNU_IFUNC: u8 = 10;
const STB_LOCAL: u8 = 0;
const STB_WEAK: u8 = 2;
const SHN_UNDEF: u16 = 0;

/// `name@plt` for each entry of `.plt`, in the order of its relocations (System V ABI, AMD64
/// supplement, "Procedure Linkage Table"): one header entry, then one of the same size each.
fn plt<'d>(
    file: &object::File<'d, &'d ReadCache<impl object::read::ReadCacheOps>>,
    to_offset: &dyn Fn(u64) -> Option<u64>,
) -> Vec<(u64, u64, Vec<u8>)> {
    const ENTRY: u64 = 16;
    let Some(plt) = file.section_by_name(".plt").filter(|_| file.architecture() == object::Architecture::X86_64) else {
        return Vec::new();
    };
    let (Some(start), Some(relocations)) = (to_offset(plt.address()), file.section_by_name(".rela.plt")) else {
        return Vec::new();
    };
    let Ok(bytes) = relocations.data() else { return Vec::new() };
    let names: std::collections::HashMap<usize, &[u8]> =
        file.dynamic_symbols().filter_map(|s| Some((s.index().0, s.name_bytes().ok()?))).collect();
    let entries = bytes.as_chunks::<24>().0.iter().zip(1u64..);
    let name_of = |rela: &[u8; 24]| {
        let symbol = u32::from_le_bytes([rela[12], rela[13], rela[14], rela[15]]) as usize;
        names.get(&symbol).map(|n| [n, &b"@plt"[..]].concat())
    };
    entries
        .take_while(|(_, i)| i * ENTRY < plt.size())
        .filter_map(|(rela, i)| Some((start + i * ENTRY, ENTRY, name_of(rela)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_functions_are_found_at_their_offsets() {
        let elf = load(File::open("/proc/self/exe").expect("exe"), &|_| None).expect("symbols");
        assert!(elf.table.len() > 100);
        let names: Vec<String> = elf.table.iter().map(|s| super::super::demangle::demangle(s.name)).collect();
        assert!(names.iter().any(|n| n.contains("our_own_functions_are_found_at_their_offsets")));
        assert!(names.iter().any(|n| n == "main"));
    }

    /// A kernel image is read by address; any program with symbols has the same shape.
    #[test]
    fn a_kernel_image_is_read_by_address() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bin/spin-nopie");
        let (table, text, id) = load_kernel(File::open(path).expect("open")).expect("symbols");
        let main = table.iter().find(|s| s.name == b"main").expect("main");
        // Linked at a fixed address, far from its offset in the file.
        assert!(main.start >= 0x40_0000 && table.find(main.start + 1).is_some_and(|s| s.name == b"main"));
        assert!(text.is_some() && id.is_some());
    }

    #[test]
    fn what_is_no_elf_is_an_error() {
        assert!(load(std::io::Cursor::new(b"#!/bin/sh\n".to_vec()), &|_| None).is_err());
        let mut cut = std::fs::read("/bin/true").expect("true");
        for len in [0, 3, 64, 200, cut.len() / 2] {
            cut.truncate(cut.len().min(len.max(1)));
            let _ = load(std::io::Cursor::new(cut.clone()), &|_| None);
        }
    }
}
