//! Virtual machines for Java (HotSpot): their files by the tables that describe their types, where a process has code,
//! and the functions of its frames.

mod frames;
mod layout;
mod lines;
mod methods;
mod scopes;
mod tables;
#[cfg(test)]
mod tests;

use super::code_names::CodeNames;
use super::interpreter_code::dynamic_symbols;
use super::pages::Pages;
use super::{NotWalked, ProcessMemory, RepeatedMemory};
use crate::kernel::procfs::ProcMapping;
use crate::kernel::walk::code_cache::CodeCache;
use crate::kernel::walk::runtime::{GeneratedFrame, GeneratedKind};
use crate::symbols::elf::program::ElfProgram;
pub(crate) use layout::JavaLayout;
use tables::{TableAddresses, VmTables};

/// A file that contains a virtual machine, with addresses as linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HotspotFile {
    addresses: TableAddresses,
    /// The first code: its offset in the file and its address.
    code: (u64, u64),
}

/// A virtual machine that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JavaMachine {
    pub(crate) layout: JavaLayout,
    pub(crate) cache: CodeCache,
}

impl HotspotFile {
    /// Recognizes a virtual machine by its symbols.
    pub(crate) fn of(program: &ElfProgram<'_>) -> Option<Self> {
        const FIELDS: &[u8] = b"gHotSpotVMStructs";
        let mut addresses = TableAddresses::default();
        dynamic_symbols(program, FIELDS, &[], |name, address, _| match name {
            FIELDS => addresses.fields = address,
            b"gHotSpotVMStructEntryArrayStride" => addresses.field_stride = address,
            b"gHotSpotVMTypes" => addresses.types = address,
            b"gHotSpotVMTypeEntryArrayStride" => addresses.type_stride = address,
            _ => {}
        })?;
        let TableAddresses { fields, field_stride, types, type_stride } = addresses;
        [fields, field_stride, types, type_stride].iter().all(|at| *at != 0).then_some(())?;
        let code = program.segments.iter().find(|segment| segment.is_code)?;
        Some(Self { addresses, code: (code.offset, code.address) })
    }

    /// Returns the difference of addresses in memory from the linked ones, if a mapping of the file has its code.
    pub(crate) fn bias(&self, map: &ProcMapping) -> Option<u64> {
        let (offset, address) = self.code;
        super::bias(offset, address, map)
    }

    /// Finds the code of a process whose file is mapped with this difference from the linked addresses.
    pub(crate) fn machine(&self, bias: u64, memory: &impl ProcessMemory) -> Result<JavaMachine, NotWalked> {
        let pages = Pages::new(memory);
        memory.word(bias.wrapping_add(self.addresses.fields)).ok_or(NotWalked::Unreadable)?;
        let tables = VmTables::read(&self.addresses, bias, &pages).ok_or(NotWalked::NotBegun)?;
        let layout = JavaLayout::of(&tables, &pages).ok_or(NotWalked::Version)?;
        let cache = layout.code_cache(&tables, &pages).ok_or(NotWalked::NotBegun)?;
        Ok(JavaMachine { layout, cache })
    }
}

/// Reads bytes as the memory of a virtual machine: its tables, its heaps, and the functions of frames.
pub(super) fn read_untrusted(bytes: &[u8]) {
    let memory = RepeatedMemory(bytes);
    let Some(words) = bytes.first_chunk::<48>() else { return };
    let [fields, field_stride, types, type_stride, code] =
        [0, 8, 16, 24, 32].map(|at| u64::from(words[at]) | u64::from(words[at + 1]) << 8);
    let file = HotspotFile { addresses: TableAddresses { fields, field_stride, types, type_stride }, code: (0, 0) };
    let found = file.machine(0, &memory).map(|machine| machine.layout);
    for (layout, kind) in [(JavaLayout::of_17(), GeneratedKind::Blob), (JavaLayout::of_25(), GeneratedKind::Method)] {
        let cookie = u32::from_le_bytes([words[32], words[33], words[34], words[35]]);
        let frame = GeneratedFrame { code, cookie, at: layout.major.into(), kind };
        let _ = CodeNames::of_java(frame, &found.unwrap_or(layout), &memory).map(|names| names.at(frame.at).len());
    }
}
