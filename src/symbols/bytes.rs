//! A file's content: mapped, copied, or made in memory.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use object::ObjectSection;

use crate::kernel::files::mapped::Mapped;
use crate::perfdata::unpack::{self, UnpackBudget, UnpackError};

/// Shared bytes; clones are cheap.
#[derive(Clone, Debug)]
pub enum Bytes {
    /// A mapped file: the kernel reads its pages on demand and may drop them.
    Mapped(Arc<Mapped>),
    /// Decompressed or copied bytes.
    Own(Arc<[u8]>),
}

impl Bytes {
    /// Maps a file.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::Mapped(Arc::new(Mapped::new(file)?)))
    }

    /// Returns whether parts read as zeroes: files that others can change have a limited share of memory.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self, Self::Mapped(mapped) if mapped.is_cut())
    }

    /// Drops the file's pages from memory; the kernel reads them again on demand.
    pub(crate) fn rest(&self) {
        if let Self::Mapped(mapped) = self {
            mapped.rest();
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(mapped) => mapped,
            Self::Own(bytes) => bytes,
        }
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Self::Own(Arc::default())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Own(bytes.into())
    }
}

/// Part of a file. It keeps the file mapped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    bytes: Bytes,
    range: Range<usize>,
}

impl Part {
    /// Returns the bytes of a range of a file; empty if the range is outside of it.
    pub(crate) fn at(file: &Bytes, range: Range<usize>) -> Self {
        Self { bytes: file.clone(), range }
    }

    /// Returns a section's content; `None` if the file does not have the section. Only decompressed content is charged.
    /// Fails if the section is damaged, or the budget is too small to decompress it.
    pub(crate) fn of<'d>(
        file: &Bytes,
        section: &impl ObjectSection<'d>,
        purse: &mut UnpackBudget,
    ) -> Result<Option<Self>, UnpackError> {
        if let Cow::Owned(unpacked) = unpack::section(section, purse)? {
            let bytes = Bytes::from(unpacked);
            return Ok(Some(Self { range: 0..bytes.len(), bytes }));
        }
        let range = section
            .file_range()
            .and_then(|(from, len)| Some(usize::try_from(from).ok()?..usize::try_from(from.checked_add(len)?).ok()?));
        let within = range.filter(|range| !range.is_empty() && range.end <= file.len());
        Ok(within.map(|range| Self { bytes: file.clone(), range }))
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }
}
