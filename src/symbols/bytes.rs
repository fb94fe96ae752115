//! A file's content, wherever it is held: mapped or copied, or in memory when it was made there.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use crate::kernel::mapped::Mapped;

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
