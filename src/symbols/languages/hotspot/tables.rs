//! The tables in which a virtual machine describes its own types (vmStructs.hpp): they name fields, their offsets in
//! objects or the addresses of static ones, and the sizes of types.

use rustc_hash::FxHashMap;

use crate::symbols::languages::ProcessMemory;

/// Sizes of the entries, which all versions have.
const FIELD: usize = 48;
const TYPE: usize = 40;
/// Entries of a table, and bytes of a name, at most.
const ENTRIES: usize = 1 << 13;
const NAME: usize = 96;

/// Addresses of the variables that lead to the tables, and of those that have the sizes of their entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableAddresses {
    pub(crate) fields: u64,
    pub(crate) field_stride: u64,
    pub(crate) types: u64,
    pub(crate) type_stride: u64,
}

/// The names of a type and of its field.
type FieldName = (Box<[u8]>, Box<[u8]>);

/// Fields and sizes by their names.
#[derive(Debug, Default)]
pub(super) struct VmTables {
    fields: FxHashMap<FieldName, Field>,
    sizes: FxHashMap<Box<[u8]>, u64>,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    /// Also whether it is a signed number of 16 bits.
    Offset(u64, bool),
    Static(u64),
}

impl VmTables {
    /// Reads the tables of a process whose file is mapped with this difference from the linked addresses. `None` if they
    /// are not filled yet, or have another format.
    pub(super) fn read(addresses: &TableAddresses, bias: u64, memory: &impl ProcessMemory) -> Option<Self> {
        let variable = |address: u64| memory.word(bias.wrapping_add(address));
        let of_size = |stride: u64, size: usize| (variable(stride)? == size as u64).then_some(());
        of_size(addresses.field_stride, FIELD)?;
        of_size(addresses.type_stride, TYPE)?;
        let mut tables = Self::default();
        entries::<6>(variable(addresses.fields)?, memory, |[of, name, kind, is_static, offset, address]| {
            let field = match is_static as u32 {
                0 => Field::Offset(offset, text(kind, memory).is_some_and(|kind| &*kind == b"int16_t")),
                _ => Field::Static(address),
            };
            let name = text(name, memory);
            tables.fields.extend(text(of, memory).zip(name).map(|key| (key, field)));
        })?;
        entries::<5>(variable(addresses.types)?, memory, |[name, .., size]| {
            tables.sizes.extend(text(name, memory).map(|name| (name, size)));
        })?;
        Some(tables)
    }

    fn field(&self, of: &str, name: &str) -> Option<Field> {
        self.fields.get(&(of.as_bytes().into(), name.as_bytes().into())).copied()
    }

    /// Returns the offset of a field in objects of its type.
    pub(super) fn offset(&self, of: &str, name: &str) -> Option<u64> {
        /// Offsets of real types are small.
        const MOST: u64 = 1 << 12;
        match self.field(of, name)? {
            Field::Offset(offset, _) => Some(offset).filter(|offset| *offset < MOST),
            Field::Static(_) => None,
        }
    }

    /// Returns whether a field is a signed number of 16 bits.
    pub(super) fn is_short(&self, of: &str, name: &str) -> bool {
        matches!(self.field(of, name), Some(Field::Offset(_, true)))
    }

    /// Returns the address of a static field.
    pub(super) fn address(&self, of: &str, name: &str) -> Option<u64> {
        match self.field(of, name)? {
            Field::Offset(..) => None,
            Field::Static(address) => Some(address),
        }
    }

    pub(super) fn size(&self, of: &str) -> Option<u64> {
        self.sizes.get(of.as_bytes()).copied()
    }
}

/// Reads the entries of a table, of so many words each, up to the one without a first word.
fn entries<const N: usize>(table: u64, memory: &impl ProcessMemory, mut each: impl FnMut([u64; N])) -> Option<()> {
    for i in 0..ENTRIES {
        let mut bytes = [[0; 8]; N];
        memory.read(table.checked_add((i * N * 8) as u64)?, bytes.as_flattened_mut())?;
        let words = bytes.map(u64::from_le_bytes);
        if words[0] == 0 {
            return (i > 0).then_some(());
        }
        each(words);
    }
    None
}

fn text(at: u64, memory: &impl ProcessMemory) -> Option<Box<[u8]>> {
    Some(string::<NAME>(at, memory)?.as_slice().into())
}

/// Reads a string that ends with a zero, of at most so many bytes.
pub(super) fn string<const MOST: usize>(at: u64, memory: &impl ProcessMemory) -> Option<Vec<u8>> {
    const STEP: usize = 32;
    let mut text = Vec::new();
    while at != 0 && text.len() < MOST {
        let from = at.checked_add(text.len() as u64)?;
        // No read leaves a page: the next one may not be mapped.
        let step = STEP.min(4096 - (from % 4096) as usize);
        let mut bytes = [0; STEP];
        memory.read(from, &mut bytes[..step])?;
        match bytes[..step].iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend(&bytes[..end]);
                return Some(text);
            }
            None => text.extend(&bytes[..step]),
        }
    }
    None
}
