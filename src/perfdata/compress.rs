//! Records packed as PERF_RECORD_COMPRESSED: one zstd stream, of which each such record has a part that can be unpacked
//! by itself after those before it.

use std::io;

use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

use crate::record::kinds::HEADER;
use crate::record::types;

use super::features::{Section, bit};

/// What is packed into one record: perf unpacks into room of that size (`comp_mmap_len`).
const AT_ONCE: usize = 32 << 10;
/// `PERF_COMP_ZSTD`.
const ZSTD: u32 = 1;

/// What perf's levels above it would pack smaller by, is no part of the program (.ci/package): none of them keeps up
/// with a machine that is busy.
const MOST: i32 = 4;

/// A stream of packed records.
pub(crate) struct Packer {
    encoder: Encoder<'static>,
    level: i32,
    plain: u64,
    packed: u64,
}

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Packer").field("level", &self.level).finish_non_exhaustive()
    }
}

impl Packer {
    /// Packs at a level, or at the highest that there is.
    pub(crate) fn new(level: i32) -> io::Result<Self> {
        let level = level.min(MOST);
        Ok(Self { encoder: Encoder::new(level)?, level, plain: 0, packed: 0 })
    }

    /// Appends whole records, packed, to `out`.
    pub(crate) fn pack(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        for part in bytes.chunks(AT_ONCE) {
            let start = out.len();
            // What cannot be packed grows by a header a block.
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

    /// What the head of a file says of it: version, type, level, ratio, and the room for what one record unpacks to.
    pub(crate) fn feature(&self) -> Section {
        let ratio = self.plain.div_ceil(self.packed.max(1)).max(1) as u32;
        let words = [1, ZSTD, self.level as u32, ratio, AT_ONCE as u32];
        (bit::COMPRESSED, words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }
}
