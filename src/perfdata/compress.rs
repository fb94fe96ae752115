//! Compressed records (PERF_RECORD_COMPRESSED). Together they are one zstd stream; each record holds a part that can be
//! decompressed once those before it are.

use std::io;

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use crate::record::kinds::HEADER;
use crate::record::types;

use super::features::{FeatureSection, bit};

/// Bytes that are compressed into one record: perf's buffer for a record has this size (`comp_mmap_len`).
const AT_ONCE: usize = 32 << 10;
/// `PERF_COMP_ZSTD`.
const ZSTD: u32 = 1;

/// The highest level. The code of zstd's higher levels is left out of the program (.ci/package), because none of them
/// keeps up with a busy machine.
const MOST: i32 = 4;

/// A stream of compressed records.
pub(crate) struct Packer {
    encoder: Encoder<'static>,
    level: i32,
    plain: u64,
    packed: u64,
}

impl Packer {
    /// Returns a stream of a level, or of the highest one available.
    pub(crate) fn new(level: i32) -> io::Result<Self> {
        let level = level.min(MOST);
        Ok(Self { encoder: Encoder::new(level)?, level, plain: 0, packed: 0 })
    }

    pub(crate) fn pack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        for part in bytes.chunks(AT_ONCE) {
            let start = out.len();
            // Incompressible data grows by a header per block.
            let mut room = vec![0; part.len() + (part.len() >> 7) + 512];
            let mut to = OutBuffer::around(&mut room[..]);
            let mut from = InBuffer::around(part);
            while from.pos() < part.len() {
                self.encoder.run(&mut from, &mut to)?;
            }
            while self.encoder.flush(&mut to)? > 0 {}
            let packed = to.pos();
            out.extend_from_slice(&types::COMPRESSED.to_le_bytes());
            out.extend_from_slice(&0u16.to_le_bytes());
            out.extend_from_slice(&((HEADER + packed) as u16).to_le_bytes());
            out.extend_from_slice(&room[..packed]);
            self.plain += part.len() as u64;
            self.packed += (out.len() - start) as u64;
        }
        Ok(())
    }

    /// Returns the header's section: version, type, level, ratio, and the buffer size for a decompressed record.
    pub(crate) fn feature(&self) -> FeatureSection {
        let ratio = self.plain.div_ceil(self.packed.max(1)).max(1) as u32;
        let words = [1, ZSTD, self.level as u32, ratio, AT_ONCE as u32];
        (bit::COMPRESSED, words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }
}
