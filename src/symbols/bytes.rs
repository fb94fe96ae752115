//! A file's content, wherever it is held: mapped or copied, or in memory when it was made there.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use object::ObjectSection;

use crate::kernel::mapped::Mapped;
use crate::perfdata::unpack::{self, UnpackBudget, UnpackError};

/// Shared bytes; copies cost nothing.
#[derive(Clone, Debug)]
pub enum Bytes {
    /// A file in memory, which the kernel reads page by page and may drop again.
    Mapped(Arc<Mapped>),
    /// Bytes that were unpacked or copied.
    Own(Arc<[u8]>),
}

impl Bytes {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        Ok(Self::Mapped(Arc::new(Mapped::new(file)?)))
    }

    /// True if parts of it were left out and read as zeroes, as what others can change has no more room.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self, Self::Mapped(mapped) if mapped.is_cut())
    }

    /// Drops what was read of a file from memory; it is read again when it is needed.
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

/// Part of a file, held as long as it is needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    bytes: Bytes,
    range: Range<usize>,
}

impl Part {
    /// The bytes at a place in a file; empty where it has none.
    pub(crate) fn at(file: &Bytes, range: Range<usize>) -> Self {
        Self { bytes: file.clone(), range }
    }

    /// A section's content; `None` where the file has none of it. Only what is packed is charged.
    ///
    /// # Errors
    /// When it is damaged, or there is no room for what is packed.
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
