//! Function tables that come with a stream from another machine.
//! That machine's files are not available here. A record type of our own holds a table in pieces.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::table::{Binding, Names, Raw, SymbolTable};
use crate::perfdata::unpack::{self, UnpackBudget};
use crate::record::kinds::{encode, types};

/// Bytes of a piece's payload; a record's size has 16 bits.
const PIECE: usize = 48 << 10;
/// The limit of a table's decompressed size.
const MAX_TABLE: usize = 64 << 20;
/// The limit of all compressed tables of a stream. `ENTRY` is the overhead of each, in addition to its data and path.
const MAX_ALL: usize = 128 << 20;
const ENTRY: usize = 256;
/// The path that stands for the kernel.
pub const KERNEL: &str = "[kernel]";

/// A file's functions as bytes: entries of start, size, name length and name.
#[derive(Debug, Default)]
pub struct PackedFunctions {
    plain: Vec<u8>,
}

impl PackedFunctions {
    /// Adds a table's functions.
    pub fn add(&mut self, table: &SymbolTable) {
        for symbol in table.iter() {
            let name = &symbol.name[..symbol.name.len().min(usize::from(u16::MAX))];
            self.plain.extend_from_slice(&symbol.start.to_le_bytes());
            self.plain.extend_from_slice(&symbol.end.saturating_sub(symbol.start).to_le_bytes());
            self.plain.extend_from_slice(&(name.len() as u16).to_le_bytes());
            self.plain.extend_from_slice(name);
        }
    }

    /// Writes the functions as records. `text` is the address of the kernel's text, 0 for other files.
    pub fn encode(&self, path: &str, text: u64, out: &mut Vec<u8>) -> std::io::Result<()> {
        if self.plain.len() > MAX_TABLE {
            return Ok(());
        }
        let mut whole = Vec::with_capacity(self.plain.len() / 4 + path.len() + 16);
        whole.extend_from_slice(&text.to_le_bytes());
        whole.extend_from_slice(&(path.len() as u32).to_le_bytes());
        whole.extend_from_slice(path.as_bytes());
        whole.append(&mut zstd::bulk::compress(&self.plain, 3)?);
        let pieces = whole.chunks(PIECE).count();
        for (i, piece) in whole.chunks(PIECE).enumerate() {
            let _ = encode(out, types::TABLE, 0, |out| {
                out.extend_from_slice(&u32::from(i + 1 < pieces).to_le_bytes());
                out.extend_from_slice(&(piece.len() as u32).to_le_bytes());
                out.extend_from_slice(piece);
            });
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Came {
    text: u64,
    packed: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    /// Pieces of an incomplete table.
    pieces: Vec<u8>,
    tables: HashMap<String, Came>,
    bytes: usize,
}

/// The tables of a stream: filled while it is read, and used to name addresses.
#[derive(Debug, Default)]
pub struct ShippedTables {
    state: Mutex<State>,
}

impl ShippedTables {
    /// Adds the body of a record; invalid ones are ignored.
    pub fn record(&self, body: &[u8]) {
        let mut state = self.state.lock();
        let Some((more, len)) = body.first_chunk::<8>().map(|head| {
            let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            (word(0) != 0, word(4) as usize)
        }) else {
            return;
        };
        let Some(piece) = body.get(8..8 + len.min(PIECE)) else { return };
        if state.bytes + state.pieces.len() + piece.len() > MAX_ALL {
            state.pieces.clear();
            return;
        }
        state.pieces.extend_from_slice(piece);
        if more {
            return;
        }
        let whole = std::mem::take(&mut state.pieces);
        if let Some((path, came)) = Came::read(&whole) {
            let name = path.len();
            state.bytes += ENTRY + name + came.packed.len();
            let before = state.tables.insert(path, came);
            state.bytes -= before.map_or(0, |before| ENTRY + name + before.packed.len());
        }
    }

    /// Returns a file's functions by its path on the sending machine. Also returns where the kernel's text began there.
    pub fn table(&self, path: &str, purse: &mut UnpackBudget) -> Option<(SymbolTable, Option<u64>)> {
        let state = self.state.lock();
        let came = state.tables.get(path)?;
        // The table and its source are in memory at the same time.
        let plain = unpack::zstd("a table of the stream", &came.packed, purse).ok()?;
        purse.take("a table of the stream", plain.len() as u64).ok()?;
        let count = entries(&plain).count() as u64;
        let table =
            SymbolTable::charged(entries(&plain), count, Names::default(), "a table of the stream", purse).ok()?;
        Some((table, (came.text != 0).then_some(came.text)))
    }
}

/// Returns the functions of [`PackedFunctions`], up to the first damaged entry.
fn entries(mut rest: &[u8]) -> impl Iterator<Item = Raw<'_>> {
    std::iter::from_fn(move || {
        let (head, after) = rest.split_first_chunk::<18>()?;
        let word = |at: usize| head.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
        let (name, after) = after.split_at_checked(usize::from(u16::from_le_bytes([head[16], head[17]])))?;
        rest = after;
        Some(Raw { start: word(0), size: word(8), name, binding: Binding::Global })
    })
}

impl Came {
    fn read(whole: &[u8]) -> Option<(String, Self)> {
        let (head, rest) = whole.split_first_chunk::<12>()?;
        let text = u64::from_le_bytes(*head.first_chunk()?);
        let len = u32::from_le_bytes(*head.last_chunk()?) as usize;
        let (path, packed) = rest.split_at_checked(len)?;
        let path = std::str::from_utf8(path).ok()?.to_owned();
        Some((path, Self { text, packed: packed.to_vec() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;
    use crate::record::kinds::{HEADER, split};
    use proptest::strategy::Just;

    fn table(names: &[(u64, u64, &str)]) -> SymbolTable {
        SymbolTable::build(names.iter().map(|(start, size, name)| Raw {
            start: *start,
            size: *size,
            name: name.as_bytes(),
            binding: Binding::Global,
        }))
    }

    #[test]
    fn tables_come_through_whole() {
        // Incompressible names, so that there are several pieces.
        let names: Vec<(u64, u64, String)> =
            (0..9000u64).map(|i| (i * 64, 40, format!("f{:016x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))).collect();
        let names: Vec<(u64, u64, &str)> = names.iter().map(|(a, s, n)| (*a, *s, n.as_str())).collect();
        let mut packed = PackedFunctions::default();
        packed.add(&table(&names));
        let mut out = Vec::new();
        packed.encode("/usr/bin/x", 0, &mut out).expect("packed");
        let mut kernel = PackedFunctions::default();
        kernel.add(&table(&[(0xffff_ffff_8100_0000, 16, "start_kernel")]));
        kernel.encode(KERNEL, 0xffff_ffff_8100_0000, &mut out).expect("packed");
        let given = ShippedTables::default();
        let (mut rest, mut records) = (out.as_slice(), 0);
        while let Ok(Some((header, body, _))) = split(rest) {
            assert_eq!(header.kind, types::TABLE);
            given.record(body);
            rest = &rest[usize::from(header.size)..];
            records += 1;
        }
        assert!(rest.is_empty() && records > 2, "{records}");
        let (found, text) = given.table("/usr/bin/x", &mut UnpackBudget::new(1 << 20)).expect("there");
        assert_eq!((found.len(), text), (9000, None));
        let symbol = found.find(64 * 77 + 39).expect("inside");
        assert_eq!((symbol.start, symbol.end, symbol.name), (64 * 77, 64 * 77 + 40, names[77].2.as_bytes()));
        assert!(found.find(64 * 77 + 41).is_none());
        assert_eq!(given.table(KERNEL, &mut UnpackBudget::new(1 << 20)).expect("there").1, Some(0xffff_ffff_8100_0000));
        assert!(given.table("/usr/bin/y", &mut UnpackBudget::new(1 << 20)).is_none());
        // A table that does not fit the budget stays compressed.
        assert!(given.table("/usr/bin/x", &mut UnpackBudget::new(1 << 18)).is_none());
    }

    fn sent(given: &ShippedTables, path: &str, packed: &[u8]) {
        let head = [&0u64.to_le_bytes()[..], &(path.len() as u32).to_le_bytes(), path.as_bytes(), packed].concat();
        let pieces = head.chunks(PIECE).count();
        for (i, piece) in head.chunks(PIECE).enumerate() {
            let more = u32::from(i + 1 < pieces).to_le_bytes();
            given.record(&[&more[..], &(piece.len() as u32).to_le_bytes(), piece].concat());
        }
    }

    #[test]
    fn damaged_tables_harm_nobody() {
        let mut packed = PackedFunctions::default();
        packed.add(&table(&[(1, 2, "a"), (3, 4, "b")]));
        let mut whole = Vec::new();
        packed.encode("/x", 0, &mut whole).expect("packed");
        let body = Just(whole[HEADER..].to_vec());
        damage::reaching(512, 15, damage::bytes(4, body), |body| {
            let given = ShippedTables::default();
            given.record(&body);
            given.table("/x", &mut UnpackBudget::new(1 << 20)).is_some_and(|(table, _)| !table.is_empty())
        });
    }

    #[test]
    fn no_table_unpacks_to_more_than_is_said() {
        let given = ShippedTables::default();
        let packed = |bytes: usize| zstd::bulk::compress(&vec![0; bytes], 3).expect("packed");
        sent(&given, "/small", &packed(18 * 1000));
        sent(&given, "/bomb", &packed(1 << 24));
        assert!(given.table("/small", &mut UnpackBudget::new(1 << 20)).is_some());
        assert!(given.table("/bomb", &mut UnpackBudget::new(1 << 20)).is_none());
    }

    #[test]
    fn no_stream_brings_more_than_is_said() {
        const EACH: usize = ENTRY + "/a".len() + 100;
        let given = ShippedTables::default();
        given.state.lock().bytes = MAX_ALL - 2 * EACH;
        let held = || given.state.lock().bytes;
        // A repeated table replaces the earlier one.
        (0..9).for_each(|_| sent(&given, "/a", &[0; 100]));
        assert_eq!(held(), MAX_ALL - EACH);
        sent(&given, "/b", &[0; 100]);
        sent(&given, "/c", &[0; 100]);
        assert_eq!(held(), MAX_ALL);
        assert_eq!(given.state.lock().tables.len(), 2);
        // Endless pieces are dropped, too.
        given.record(&[&[1, 0, 0, 0, 100, 0, 0, 0][..], &[0; 100]].concat());
        assert!(given.state.lock().pieces.is_empty());
    }
}
