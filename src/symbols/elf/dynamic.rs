//! The dynamic symbols of a file by its program headers, as the loader finds them (elf(5), `PT_DYNAMIC`). For files whose
//! section headers are damaged or missing.

use std::ops::Range;

use object::Endianness;
use object::elf::{
    DT_GNU_HASH, DT_HASH, DT_NULL, DT_STRSZ, DT_STRTAB, DT_SYMTAB, DynamicTag, FileHeader32, FileHeader64, PT_LOAD,
};
use object::read::elf::{Dyn, FileHeader, GnuHashTable, HashTable, ProgramHeader};

/// The limit of entries that are read.
const ENTRIES: usize = 4096;

/// Where a file has its dynamic symbols, and their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DynamicSymbols {
    pub(super) entries: Range<usize>,
    pub(super) names: Range<usize>,
}

impl DynamicSymbols {
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        match FileHeader64::<Endianness>::parse(bytes) {
            Ok(header) => Self::read(header, bytes),
            Err(_) => Self::read(FileHeader32::<Endianness>::parse(bytes).ok()?, bytes),
        }
    }

    fn read<H: FileHeader<Endian = Endianness>>(header: &H, bytes: &[u8]) -> Option<Self> {
        let endian = header.endian().ok()?;
        let headers = header.program_headers(endian, bytes).ok()?;
        let all = entries(headers, endian, bytes);
        let value = |wanted: DynamicTag| all.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
        let place = |wanted: DynamicTag| to_offset(headers, endian, value(wanted)?);
        // The number of symbols is only in the tables by which they are looked up.
        let count = || {
            let hashes = GnuHashTable::<H>::parse(endian, bytes.get(place(DT_GNU_HASH)?..)?).ok()?;
            hashes.symbol_table_length(endian)
        };
        let older = || Some(HashTable::<H>::parse(endian, bytes.get(place(DT_HASH)?..)?).ok()?.symbol_table_length());
        let count = usize::try_from(count().or_else(older)?).ok()?;
        let range = |from: usize, len: usize| Some(from..from.checked_add(len)?.min(bytes.len()));
        Some(Self {
            entries: range(place(DT_SYMTAB)?, count.checked_mul(size_of::<H::Sym>())?)?,
            names: range(place(DT_STRTAB)?, usize::try_from(value(DT_STRSZ)?).ok()?)?,
        })
    }
}

/// Returns the entries of a file's dynamic section up to its end: tags and values.
pub(super) fn entries<P: ProgramHeader>(headers: &[P], endian: P::Endian, bytes: &[u8]) -> Vec<(DynamicTag, u64)> {
    let all = headers.iter().find_map(|one| one.dynamic(endian, bytes).ok().flatten()).unwrap_or_default();
    let all = all.iter().take(ENTRIES).map(|one| (one.tag(endian), one.val(endian)));
    all.take_while(|(tag, _)| *tag != DT_NULL).collect()
}

/// Returns the offset in a file of a linked address.
pub(super) fn to_offset<P: ProgramHeader>(headers: &[P], endian: P::Endian, at: u64) -> Option<usize> {
    headers.iter().filter(|one| one.p_type(endian) == PT_LOAD).find_map(|one| {
        let (address, offset): (u64, u64) = (one.p_vaddr(endian).into(), one.p_offset(endian).into());
        let into = at.checked_sub(address).filter(|into| *into < one.p_filesz(endian).into())?;
        usize::try_from(offset.checked_add(into)?).ok()
    })
}
