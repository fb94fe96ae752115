//! The only decompressor of data inside files. It charges memory to a budget before it decompresses, and refuses data
//! that exceeds the budget, so that a small file cannot expand into gigabytes.

use std::borrow::Cow;
use std::io::Read;

use object::{CompressionFormat, ObjectSection};

use crate::kernel::own_memory::fallible;

/// The maximum working memory of a decompressor: the dictionaries of `xz -9` and `zstd -19`. The minimum is the
/// dictionary of `xz -6`, which distributions use.
const WINDOW: usize = 64 << 20;
const LEAST_WINDOW: usize = 9 << 20;
/// The minimum growth of a result of unknown size, in bytes.
const STEP: usize = 1 << 16;

/// The reason why data was not decompressed, or its replacement not accepted.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// A file whose decompressed data exceeds the remaining budget.
    #[error("{what} would take {} MB, more than its share of memory: its names are left out; raise --memory", bytes.div_ceil(1 << 20))]
    TooMuch {
        /// The name of the file or the section.
        what: String,
        /// Bytes of memory that it needs.
        bytes: u64,
    },
    /// Data that its format does not allow.
    #[error("{what} cannot be unpacked: {why}")]
    Damaged {
        /// The name of the file or the section.
        what: String,
        /// The decompressor's message.
        why: String,
    },
}

/// A memory budget of a file, in bytes.
#[derive(Debug)]
pub struct UnpackBudget {
    left: u64,
    taken: u64,
}

impl UnpackBudget {
    /// Returns a budget of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { left: bytes as u64, taken: 0 }
    }

    /// Takes bytes for `what` before they are used. Fails when fewer bytes are left.
    pub(crate) fn take(&mut self, what: &str, bytes: u64) -> Result<(), UnpackError> {
        let refused = || UnpackError::TooMuch { what: what.to_owned(), bytes };
        self.left = self.left.checked_sub(bytes).ok_or_else(refused)?;
        self.taken += bytes;
        Ok(())
    }

    pub(crate) fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.taken);
        self.left += bytes;
        self.taken -= bytes;
    }

    /// Runs `make`, and returns its bytes to the budget if it fails.
    pub(crate) fn attempt<T, E>(&mut self, make: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let before = self.taken;
        let made = make(self);
        if made.is_err() {
            self.give_back(self.taken - before);
        }
        made
    }

    pub(crate) fn left(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX)
    }

    pub(crate) fn taken(&self) -> usize {
        usize::try_from(self.taken).unwrap_or(usize::MAX)
    }
}

/// Returns a section's content. Only compressed content is charged; other content is in the mapped file. Fails if it is
/// damaged or exceeds the budget.
pub(crate) fn section<'d>(
    section: &impl ObjectSection<'d>,
    purse: &mut UnpackBudget,
) -> Result<Cow<'d, [u8]>, UnpackError> {
    let name = section.name().unwrap_or("a section");
    let damaged = |why: &dyn std::fmt::Display| damaged(name, why);
    let packed = section.compressed_data().map_err(|e| damaged(&e))?;
    if packed.format == CompressionFormat::None {
        return Ok(Cow::Borrowed(packed.data));
    }
    purse.take(name, packed.uncompressed_size)?;
    let size = usize::try_from(packed.uncompressed_size).map_err(|e| damaged(&e))?;
    let mut out = Vec::new();
    fallible(|| out.try_reserve_exact(size)).map_err(|e| damaged(&e))?;
    match packed.format {
        CompressionFormat::Zlib => {
            let mut inflate = flate2::Decompress::new(true);
            inflate.decompress_vec(packed.data, &mut out, flate2::FlushDecompress::Finish).map_err(|e| damaged(&e))?;
        }
        CompressionFormat::Zstandard => {
            // Decompress directly into the result, which needs no additional window.
            let all =
                zstd::bulk::Decompressor::new().and_then(|mut one| one.decompress_to_buffer(packed.data, &mut out));
            all.map_err(|e| damaged(&e))?;
        }
        other => return Err(damaged(&format!("unknown compression ({other:?})"))),
    }
    if out.len() != size {
        return Err(damaged(&format!("it has {} bytes instead of {size}", out.len())));
    }
    Ok(Cow::Owned(out))
}

/// Decompresses xz. Fails if it is damaged or exceeds the budget.
pub(crate) fn xz(what: &str, packed: &[u8], purse: &mut UnpackBudget) -> Result<Vec<u8>, UnpackError> {
    let window = purse.left().clamp(LEAST_WINDOW, WINDOW) >> 10;
    drain(what, lzma_rust2::XzReader::new_mem_limit(packed, true, window as u32), purse)
}

/// Decompresses zstd. Fails if it is damaged or exceeds the budget.
pub(crate) fn zstd(what: &str, packed: &[u8], purse: &mut UnpackBudget) -> Result<Vec<u8>, UnpackError> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(|e| damaged(what, &e))?;
    let window = purse.left().clamp(LEAST_WINDOW, WINDOW);
    decoder.window_log_max(window.ilog2()).map_err(|e| damaged(what, &e))?;
    drain(what, decoder, purse)
}

/// Reads to the end; memory is charged before it is allocated.
fn drain(what: &str, mut from: impl Read, purse: &mut UnpackBudget) -> Result<Vec<u8>, UnpackError> {
    let mut out = Vec::new();
    loop {
        if out.len() == out.capacity() {
            let more = out.len().max(STEP).min(purse.left().max(1));
            purse.take(what, more as u64)?;
            fallible(|| out.try_reserve_exact(more)).map_err(|e| damaged(what, &e))?;
        }
        let room = out.capacity() - out.len();
        let n = from.by_ref().take(room as u64).read_to_end(&mut out).map_err(|e| damaged(what, &e))?;
        if n < room {
            purse.give_back((room - n) as u64);
            out.shrink_to_fit();
            return Ok(out);
        }
    }
}

fn damaged(what: &str, why: &dyn std::fmt::Display) -> UnpackError {
    UnpackError::Damaged { what: what.to_owned(), why: why.to_string() }
}

#[cfg(test)]
mod tests;
