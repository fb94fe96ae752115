//! A section of a file, and the format of its numbers.

use std::ops::Range;

use gimli::{EndianSlice, RunTimeEndian, Vendor};
use object::{Architecture, Object, ObjectSection};

use crate::symbols::elf;

pub(crate) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// A section's range in the file, and its linked address.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) range: Range<usize>,
    pub(crate) address: u64,
}

impl Section {
    /// A range of a file; `None` if empty.
    pub(crate) fn at(offset: u64, size: u64, address: u64) -> Option<Self> {
        let range = usize::try_from(offset).ok()?..usize::try_from(offset.checked_add(size)?).ok()?;
        Some(Self { range, address }).filter(|section| !section.range.is_empty())
    }

    pub(crate) fn of(file: &elf::Elf<'_>, name: &str) -> Option<Self> {
        let section = file.section_by_name(name)?;
        // Compressed sections are not part of the running program.
        let (from, size) = section
            .compressed_file_range()
            .ok()
            .filter(|r| r.uncompressed_size == r.compressed_size)
            .map(|r| (r.offset, r.compressed_size))?;
        Self::at(from, size, section.address())
    }

    pub(crate) fn bytes<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        file.get(self.range.clone()).unwrap_or_default()
    }

    fn slice<'a>(&self, file: &'a [u8], shape: Shape) -> Slice<'a> {
        EndianSlice::new(self.bytes(file), shape.endian)
    }

    pub(crate) fn eh_frames<'a>(&self, file: &'a [u8], shape: Shape) -> gimli::EhFrame<Slice<'a>> {
        let mut frames = gimli::EhFrame::from(self.slice(file, shape));
        frames.set_address_size(shape.size);
        frames.set_vendor(shape.vendor);
        frames
    }

    pub(crate) fn debug_frames<'a>(&self, file: &'a [u8], shape: Shape) -> gimli::DebugFrame<Slice<'a>> {
        let mut frames = gimli::DebugFrame::from(self.slice(file, shape));
        frames.set_address_size(shape.size);
        frames.set_vendor(shape.vendor);
        frames
    }
}

/// The format of a file's numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) endian: RunTimeEndian,
    /// Bytes of an address.
    pub(crate) size: u8,
    /// The vendor whose CFI instructions the tables may have.
    pub(crate) vendor: Vendor,
}

impl Shape {
    pub(crate) fn of(file: &elf::Elf<'_>) -> Self {
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        Self::new(endian, file.is_64(), file.architecture() == Architecture::Aarch64)
    }

    pub(crate) fn new(endian: RunTimeEndian, is_wide: bool, is_arm: bool) -> Self {
        let vendor = if is_arm { Vendor::AArch64 } else { Vendor::Default };
        Self { endian, size: if is_wide { 8 } else { 4 }, vendor }
    }
}
