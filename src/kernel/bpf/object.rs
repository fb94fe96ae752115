//! Loads a BPF object file made by clang: creates its maps, and resolves its calls and the types of its functions.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use rustc_hash::FxHashMap;

use crate::kernel::bpf::calls::LoadError;
use crate::kernel::bpf::calls::{
    self, ARRAY_OF_MAPS, BpfCode, MapKind, MappedValue, PERF_EVENT_ARRAY, ProgramType, Types,
};
use crate::kernel::machine::cpus;
use crate::kernel::perf_event::sys::Errno;

/// `BPF_PSEUDO_MAP_FD` and `BPF_PSEUDO_FUNC`, at the position of an instruction's source register.
const MAP_FD: u64 = 1 << 12;
const FUNCTION: u64 = 4 << 12;

/// An object file whose maps are in the kernel.
#[derive(Debug)]
pub(crate) struct LoadedObject {
    bytes: &'static [u8],
    maps: FxHashMap<String, OwnedFd>,
    btf: OwnedFd,
}

fn odd(what: &str) -> LoadError {
    LoadError { errno: Errno::NOEXEC, log: format!("the program's object has no {what}") }
}

fn parse(bytes: &'static [u8]) -> Result<ElfFile64<'static, Endianness>, LoadError> {
    ElfFile64::parse(bytes).map_err(|error| odd(&error.to_string()))
}

type Section<'a> = object::read::elf::ElfSection64<'static, 'a, Endianness>;

fn section<'a>(file: &'a ElfFile64<'static, Endianness>, name: &str) -> Result<Section<'a>, LoadError> {
    file.section_by_name(name).ok_or_else(|| odd(name))
}

fn data(file: &ElfFile64<'static, Endianness>, name: &str) -> Result<&'static [u8], LoadError> {
    section(file, name)?.data().map_err(|_| odd(name))
}

impl LoadedObject {
    /// Creates the maps of an object and loads its types.
    pub(crate) fn load(bytes: &'static [u8]) -> Result<Self, LoadError> {
        Self::load_beside(bytes, None)
    }

    /// Does the same for an object that has maps in common with another one, by their names.
    pub(crate) fn load_beside(bytes: &'static [u8], other: Option<&Self>) -> Result<Self, LoadError> {
        let file = parse(bytes)?;
        let maps = make_maps(&file, data(&file, "maps")?, other)?;
        let btf = calls::btf(data(&file, ".BTF")?)?;
        Ok(Self { bytes, maps, btf })
    }

    /// An object without maps.
    #[cfg(test)]
    pub(crate) fn staged(btf: OwnedFd) -> Self {
        Self { bytes: &[], maps: FxHashMap::default(), btf }
    }

    pub(crate) fn map(&self, name: &str) -> Result<BorrowedFd<'_>, LoadError> {
        self.maps.get(name).map(AsFd::as_fd).ok_or_else(|| odd(name))
    }

    /// Lets an event of type `SW_BPF_OUTPUT` write the records of its CPU, by the map `events`.
    pub(crate) fn write_by(&self, cpu: u32, event: BorrowedFd<'_>) -> Result<(), Errno> {
        let events = self.map("events").map_err(|error| error.errno)?;
        calls::put(events, cpu, [event.as_raw_fd() as u32, 0, 0, 0])
    }

    /// Loads the program of a section. All programs of the object share its maps.
    pub(crate) fn program(&self, name: &str, runs: ProgramType) -> Result<OwnedFd, LoadError> {
        let file = &parse(self.bytes)?;
        // Callback functions are placed after the program.
        let (program, text) = (section(file, name)?, section(file, ".text")?);
        let mut code = u64s(data(file, name)?);
        let text_at = code.len();
        code.extend(u64s(data(file, ".text")?));
        for (section, base) in [(&program, 0), (&text, text_at)] {
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(index) = relocation.target() else { return Err(odd("symbol")) };
                let symbol = file.symbol_by_index(index).map_err(|_| odd("symbol"))?;
                let at = base + offset as usize / 8;
                let word = code.get_mut(at).ok_or_else(|| odd("place"))?;
                let (low, addend) = (*word & 0xffff_0fff, *word >> 32);
                *word = if symbol.section_index() == Some(text.index()) {
                    let to = text_at as u64 + (symbol.address() + addend) / 8;
                    low | FUNCTION | (to.wrapping_sub(at as u64 + 1)) << 32
                } else {
                    let map = self.map(symbol.name().unwrap_or_default())?;
                    low | MAP_FD | (map.as_raw_fd() as u64) << 32
                };
            }
        }
        let licence = std::ffi::CStr::from_bytes_until_nul(data(file, "license")?).map_err(|_| odd("licence"))?;
        let places = [(name, 0), (".text", text_at as u32)];
        let functions = functions(data(file, ".BTF")?, data(file, ".BTF.ext")?, &places);
        let functions = functions.ok_or_else(|| odd("types of functions"))?;
        let types = Types { btf: self.btf.as_fd(), functions: &functions };
        calls::load(&BpfCode { runs, instructions: &code, licence, types: Some(types), caller: None })
    }
}

fn u64s(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_le_bytes)
}

/// Creates the maps that section `maps` describes (`struct map` in the programs' sources), except those of `other`.
fn make_maps(
    file: &ElfFile64<'_, Endianness>,
    section: &[u8],
    other: Option<&LoadedObject>,
) -> Result<FxHashMap<String, OwnedFd>, LoadError> {
    let index = file.section_by_name("maps").map(|s| s.index());
    let mut maps = FxHashMap::default();
    for symbol in file.symbols().filter(|s| s.section_index() == index && s.kind() == SymbolKind::Data) {
        let name = symbol.name().unwrap_or_default().to_owned();
        if let Some(shared) = other.and_then(|other| other.maps.get(&name)) {
            let copy = shared.try_clone();
            maps.insert(name, copy.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::MFILE))?);
            continue;
        }
        let field = |i: usize| word(section, symbol.address() as usize + 4 * i).ok_or_else(|| odd("maps"));
        let mut of =
            MapKind { kind: field(0)?, key: field(1)?, value: field(2)?, entries: field(3)?, flags: field(4)? };
        if of.kind == PERF_EVENT_ARRAY || of.entries == 0 {
            of.entries = cpus::possible() as u32;
        }
        // A temporary inner map defines the layout of all inner maps.
        let inner = if of.kind == ARRAY_OF_MAPS { Some(MappedValue::new(field(5)? as usize)?) } else { None };
        maps.insert(name, calls::map(&of, inner.as_ref().map(MappedValue::fd))?);
    }
    Ok(maps)
}

/// Returns the start of each function in these sections, in instructions, and its type (`struct btf_ext_header`, then for
/// each section its name and its functions).
fn functions(btf: &[u8], ext: &[u8], places: &[(&str, u32)]) -> Option<Vec<[u32; 2]>> {
    let header = word(ext, 4)? as usize;
    let strings = word(btf, 4)? as usize + word(btf, 16)? as usize;
    let name = |at: u32| btf.get(strings + at as usize..)?.split(|byte| *byte == 0).next();
    let mut at = header + word(ext, 8)? as usize;
    let end = at + word(ext, 12)? as usize;
    let size = word(ext, at)? as usize;
    at += 4;
    let mut list = Vec::new();
    while at < end && size >= 8 {
        let (section, n) = (name(word(ext, at)?)?, word(ext, at + 4)?);
        let base = places.iter().find(|(name, _)| name.as_bytes() == section).map(|(_, base)| base);
        at += 8;
        for _ in 0..n {
            let function = [word(ext, at)?, word(ext, at + 4)?];
            list.extend(base.map(|base| [base + function[0] / 8, function[1]]));
            at += size;
        }
    }
    list.sort_unstable();
    Some(list)
}
