//! `name@plt` for the stubs through which a program calls others' functions (System V ABI, AMD64 and
//! AArch64 supplements, "Procedure Linkage Table").

use std::collections::HashMap;

use object::{Object, ObjectSection, ObjectSymbol};

use super::elf::{Elf, Segments};
use super::table::{Binding, Raw, SymbolTable};

/// The stubs of a file at their offsets.
pub fn table(file: &Elf<'_>, segments: &Segments) -> SymbolTable {
    let stubs = match file.architecture() {
        object::Architecture::X86_64 => x86_64(file),
        object::Architecture::Aarch64 => aarch64(file),
        _ => Vec::new(),
    };
    let raw = stubs.iter().filter_map(|(address, size, name)| {
        Some(Raw { start: segments.to_offset(*address)?, size: *size, name, binding: Binding::Global })
    });
    SymbolTable::build(raw.collect())
}

type Stub = (u64, u64, Vec<u8>);

/// The name that each slot of the global offset table is for, by `.rela.plt` and `.rela.dyn`.
fn slots<'d>(file: &Elf<'d>) -> HashMap<u64, &'d [u8]> {
    let names: HashMap<u32, &[u8]> =
        file.dynamic_symbols().filter_map(|s| Some((s.index().0 as u32, s.name_bytes().ok()?))).collect();
    let mut slots = HashMap::new();
    for section in [".rela.dyn", ".rela.plt"] {
        let data = file.section_by_name(section).and_then(|s| s.data().ok()).unwrap_or_default();
        for rela in data.as_chunks::<24>().0 {
            let word = |at: usize| u64::from_le_bytes(rela[at..at + 8].try_into().unwrap_or_default());
            if let Some(name) = names.get(&((word(8) >> 32) as u32)).filter(|n| !n.is_empty()) {
                slots.insert(word(0), *name);
            }
        }
    }
    slots
}

/// A stub is told by the slot that it jumps through: `jmp *slot(%rip)`.
fn x86_64(file: &Elf<'_>) -> Vec<Stub> {
    let slots = slots(file);
    let mut out = Vec::new();
    for (name, size) in [(".plt", 16), (".plt.sec", 16), (".plt.got", 0)] {
        let Some(section) = file.section_by_name(name) else { continue };
        let Ok(code) = section.data() else { continue };
        // Stubs of .plt.got are of 8 bytes, or of 16 where they begin with endbr64.
        let size = if size == 0 { if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) { 16 } else { 8 } } else { size };
        for (i, stub) in code.chunks_exact(size).enumerate() {
            let at = section.address().wrapping_add((i * size) as u64);
            let Some(jump) = stub.windows(6).position(|w| w[..2] == [0xff, 0x25]) else { continue };
            let distance = i32::from_le_bytes(stub[jump + 2..jump + 6].try_into().unwrap_or_default());
            let slot = at.wrapping_add(jump as u64 + 6).wrapping_add_signed(i64::from(distance));
            if let Some(name) = slots.get(&slot) {
                out.push((at, size as u64, [name, &b"@plt"[..]].concat()));
            }
        }
    }
    out
}

/// A header of 32 bytes, then a stub of 16 for each relocation of `.rela.plt`, in their order.
fn aarch64(file: &Elf<'_>) -> Vec<Stub> {
    const STUB: u64 = 16;
    let (Some(plt), Some(relocations)) = (file.section_by_name(".plt"), file.section_by_name(".rela.plt")) else {
        return Vec::new();
    };
    let names: HashMap<u32, &[u8]> =
        file.dynamic_symbols().filter_map(|s| Some((s.index().0 as u32, s.name_bytes().ok()?))).collect();
    let entries = relocations.data().unwrap_or_default().as_chunks::<24>().0.iter().zip(0u64..);
    entries
        .take_while(|(_, i)| 32 + i * STUB < plt.size())
        .filter_map(|(rela, i)| {
            let symbol = u32::from_le_bytes([rela[12], rela[13], rela[14], rela[15]]);
            let name = names.get(&symbol).map(|n| [n, &b"@plt"[..]].concat())?;
            Some((plt.address().wrapping_add(32 + i * STUB), STUB, name))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_have_the_name_of_what_they_call() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/bin/spin-nopie");
        let bytes = std::fs::read(path).expect("program");
        let file = super::super::elf::parse(&bytes).expect("elf");
        let table = table(&file, &Segments::of(&file));
        let names: Vec<String> = table.iter().map(|s| String::from_utf8_lossy(s.name).into_owned()).collect();
        assert!(!names.is_empty() && names.iter().all(|n| n.ends_with("@plt")), "{names:?}");
    }
}
