//! Decompression of a stream's compressed records.

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::perfdata::bytes::ByteReader;
use crate::record::kinds::{Header, types};

use super::{Input, STEP, SideData};

pub(super) struct PackedRecord {
    at: u64,
    data: Vec<u8>,
    /// The number of decompressed input bytes.
    upto: usize,
}

impl Input {
    pub(super) fn is_compressed(&self) -> bool {
        Header::read(&self.carry).is_some_and(|h| is_compressed(self.header(h).kind))
    }

    /// Takes a compressed record; those before it have been decompressed.
    pub(super) fn compressed(&mut self, kind: u32, body: &[u8]) {
        let data = if kind == types::COMPRESSED2 {
            let mut b = ByteReader::new(body, self.rec.big);
            let n = b.u64().unwrap_or(0) as usize;
            &b.rest[..n.min(b.rest.len())]
        } else {
            body
        };
        self.packed_at = self.offset(0);
        self.packed = (!self.broken).then(|| PackedRecord { at: self.offset(0), data: data.to_vec(), upto: 0 });
    }

    pub(super) fn unpack(&mut self, beside: &mut SideData) {
        let Some(PackedRecord { at, data, upto }) = self.packed.take() else { return };
        match self.inflate(&data, upto) {
            Ok(Some(upto)) => self.packed = Some(PackedRecord { at, data, upto }),
            Ok(None) => {}
            Err(why) => {
                beside
                    .notes
                    .push(format!("damaged at byte {at}: the compressed data cannot be read on from there ({why})"));
                self.broken = true;
            }
        }
    }

    /// Decompresses more data. Returns the new input offset, or `None` when all input is used.
    fn inflate(&mut self, data: &[u8], from: usize) -> Result<Option<usize>, String> {
        let decoder = match &mut self.zstd {
            Some(decoder) => decoder,
            none => none.insert(Decoder::new().map_err(|e| e.to_string())?),
        };
        let mut input = InBuffer::around(&data[from..]);
        let mut chunk = vec![0; 128 << 10];
        let before = self.plain.len();
        loop {
            let mut output = OutBuffer::around(&mut chunk[..]);
            decoder.run(&mut input, &mut output).map_err(|e| e.to_string())?;
            let n = output.pos();
            self.plain.extend_from_slice(&chunk[..n]);
            if n < chunk.len() && from + input.pos() == data.len() {
                return Ok(None);
            }
            if self.plain.len() - before >= STEP {
                return Ok(Some(from + input.pos()));
            }
        }
    }
}

pub(super) fn is_compressed(kind: u32) -> bool {
    matches!(kind, types::COMPRESSED | types::COMPRESSED2)
}
