//! `name@plt` for the stubs that call functions of other files.
//! See System V ABI, AMD64 and AArch64 supplements, "Procedure Linkage Table".

use std::collections::HashMap;

use object::elf::{R_AARCH64_IRELATIVE, R_X86_64_IRELATIVE, Rela64, STT_GNU_IFUNC};
use object::{LittleEndian, Object, ObjectSection, pod};

use crate::perfdata::unpack::{UnpackBudget, UnpackError};
use crate::symbols::elf::{Elf, ElfSegments, SymbolSection, Symbols};
use crate::symbols::names::table::{Binding, Raw, SymbolTable};

/// Returns the stubs of a file at their offsets. Fails if the budget is too small.
pub(crate) fn table(
    file: &Elf<'_>,
    bytes: &[u8],
    segments: &ElfSegments,
    purse: &mut UnpackBudget,
) -> Result<SymbolTable, UnpackError> {
    let before = purse.taken() as u64;
    let stubs = match file.architecture() {
        object::Architecture::X86_64 => x86_64(file, bytes, purse)?,
        object::Architecture::Aarch64 => aarch64(file, bytes, purse)?,
        _ => Vec::new(),
    };
    let raw = stubs.iter().filter_map(|(address, size, name)| {
        Some(Raw { start: segments.to_offset(*address)?, size: *size, name, binding: Binding::Global })
    });
    let table = SymbolTable::build(raw);
    // The temporary data is freed.
    purse.give_back((purse.taken() as u64 - before).saturating_sub(table.memory() as u64));
    Ok(table)
}

type Stub = (u64, u64, Vec<u8>);

/// Bytes per stub without its name while the table is made, and per slot.
const STUB: u64 = 160;
const SLOT: u64 = 80;

/// The function of a slot in the global offset table.
#[derive(Clone, Copy)]
enum Target {
    /// A dynamic symbol, by number.
    Symbol(u32),
    /// The resolver that chooses a function at load time (`R_*_IRELATIVE`), by address.
    Chosen(u64),
}

/// Returns the relocations of a section of a 64-bit file.
pub(super) fn relocations<'d>(file: &Elf<'d>, section: &str) -> &'d [Rela64<LittleEndian>] {
    let data = file.section_by_name(section).and_then(|s| s.data().ok()).unwrap_or_default();
    let all = pod::slice_from_bytes(data, data.len() / size_of::<Rela64<LittleEndian>>());
    all.map_or(&[], |(entries, _)| entries)
}

fn target(rela: &Rela64<LittleEndian>) -> Option<(u64, Target)> {
    let target = match (rela.r_sym(LittleEndian, false), rela.r_type(LittleEndian, false)) {
        (0, R_X86_64_IRELATIVE | R_AARCH64_IRELATIVE) => Target::Chosen(rela.r_addend.get(LittleEndian) as u64),
        (0, _) => return None,
        (symbol, _) => Target::Symbol(symbol),
    };
    Some((rela.r_offset.get(LittleEndian), target))
}

struct Names<'d> {
    symbols: Symbols<'d>,
    /// Functions chosen at load time, by the address of their resolver.
    chosen: HashMap<u64, u32>,
}

impl<'d> Names<'d> {
    fn of(file: &Elf<'d>, bytes: &'d [u8], purse: &mut UnpackBudget) -> Result<Self, UnpackError> {
        let mut names = Self { symbols: Symbols::of(file, bytes, SymbolSection::Dynamic), chosen: HashMap::new() };
        for number in 0..names.symbols.len() {
            let Some(symbol) = names.symbols.get(number).filter(|symbol| symbol.kind == STT_GNU_IFUNC) else {
                continue;
            };
            purse.take(".dynsym", SLOT)?;
            let is_plain = |number: u32| names.symbols.name(number).is_some_and(|name| !name.starts_with(b"_"));
            // Of several names, the one that programs use.
            match names.chosen.get(&symbol.value) {
                Some(_) if !is_plain(number) => {}
                _ => _ = names.chosen.insert(symbol.value, number),
            }
        }
        Ok(names)
    }

    /// Returns the name of a stub; an unnamed function chosen at load time has its resolver's address, as in objdump.
    fn stub(&self, target: Target, purse: &mut UnpackBudget) -> Result<Option<Vec<u8>>, UnpackError> {
        let name = match target {
            Target::Symbol(number) => self.symbols.name(number),
            Target::Chosen(by) => match self.chosen.get(&by).and_then(|number| self.symbols.name(*number)) {
                None => return named(format!("*ABS*+{by:#x}").as_bytes(), purse).map(Some),
                name => name,
            },
        };
        name.map(|name| named(name, purse)).transpose()
    }
}

fn named(name: &[u8], purse: &mut UnpackBudget) -> Result<Vec<u8>, UnpackError> {
    purse.take(".plt", STUB + 2 * name.len() as u64)?;
    Ok([name, b"@plt"].concat())
}

/// Maps each slot of the global offset table to its function. The relocations are in `.rela.plt` and `.rela.dyn`.
fn slots(file: &Elf<'_>, purse: &mut UnpackBudget) -> Result<HashMap<u64, Target>, UnpackError> {
    let mut slots = HashMap::new();
    for section in [".rela.dyn", ".rela.plt"] {
        for (slot, target) in relocations(file, section).iter().filter_map(target) {
            purse.take(section, SLOT)?;
            slots.insert(slot, target);
        }
    }
    Ok(slots)
}

/// Finds x86-64 stubs. A stub belongs to the slot that it jumps through: `jmp *slot(%rip)`.
fn x86_64(file: &Elf<'_>, bytes: &[u8], purse: &mut UnpackBudget) -> Result<Vec<Stub>, UnpackError> {
    let (slots, names) = (slots(file, purse)?, Names::of(file, bytes, purse)?);
    let mut out = Vec::new();
    for (name, size) in [(".plt", 16), (".plt.sec", 16), (".plt.got", 0)] {
        let Some(section) = file.section_by_name(name) else { continue };
        let Ok(code) = section.data() else { continue };
        // Stubs of .plt.got have 8 bytes, or 16 if they begin with endbr64.
        let size = if size == 0 { if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 16 } else { 8 } } else { size };
        for (i, stub) in code.chunks_exact(size).enumerate() {
            let at = section.address().wrapping_add((i * size) as u64);
            let Some(jump) = stub.windows(6).position(|w| w[..2] == [0xff, 0x25]) else { continue };
            let distance = i32::from_le_bytes(stub[jump + 2..jump + 6].try_into().unwrap_or_default());
            let slot = at.wrapping_add(jump as u64 + 6).wrapping_add_signed(i64::from(distance));
            let Some(target) = slots.get(&slot) else { continue };
            out.extend(names.stub(*target, purse)?.map(|name| (at, size as u64, name)));
        }
    }
    Ok(out)
}

/// Finds AArch64 stubs. After a header of 32 bytes follows a stub of 16 bytes per relocation of `.rela.plt`, in order.
fn aarch64(file: &Elf<'_>, bytes: &[u8], purse: &mut UnpackBudget) -> Result<Vec<Stub>, UnpackError> {
    const SIZE: u64 = 16;
    let Some(plt) = file.section_by_name(".plt") else { return Ok(Vec::new()) };
    let names = Names::of(file, bytes, purse)?;
    let entries = relocations(file, ".rela.plt").iter().zip(0u64..);
    let mut out = Vec::new();
    for (rela, i) in entries.take_while(|(_, i)| 32 + i * SIZE < plt.size()) {
        let Some((_, target)) = target(rela) else { continue };
        let address = plt.address().wrapping_add(32 + i * SIZE);
        out.extend(names.stub(target, purse)?.map(|name| (address, SIZE, name)));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::program::ElfProgram;
    use super::*;
    use crate::symbols::bytes::Bytes;
    use crate::symbols::elf;
    use crate::symbols::trust::find_file::tests;

    fn names(bytes: &Bytes) -> Vec<String> {
        let file = elf::parse(bytes).expect("elf");
        let segments = ElfProgram::of(bytes).expect("elf").places();
        let table = table(&file, bytes, &segments, &mut UnpackBudget::new(1 << 20)).expect("room");
        table.iter().map(|s| String::from_utf8_lossy(s.name).into_owned()).collect()
    }

    #[test]
    fn stubs_have_the_name_of_what_they_call() {
        let names = names(&tests::map(tests::SPIN));
        assert!(!names.is_empty() && names.iter().all(|n| n.ends_with("@plt")), "{names:?}");
    }

    /// The C library calls its own CPU-specific functions through such stubs.
    #[test]
    fn stubs_of_what_is_chosen_at_the_start_have_its_name() {
        let bytes = tests::libc();
        let names = names(&bytes);
        for want in ["strnlen@plt", "strlen@plt", "memchr@plt"] {
            assert!(names.iter().any(|name| name == want), "{want}: {names:?}");
        }
        let file = elf::parse(&bytes).expect("elf");
        let before = file.section_by_name(".plt").expect("stubs").size() / 16 - 1;
        assert!(names.len() as u64 >= before, "{} of {before}", names.len());
    }
}
