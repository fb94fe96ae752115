//! Interpreters of this machine, and processes with made memory.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// ProcessMemory in pieces.
pub(crate) struct Pieces(pub(crate) BTreeMap<u64, Vec<u8>>);

impl ProcessMemory for Pieces {
    fn read(&self, at: u64, to: &mut [u8]) -> Option<()> {
        let (start, piece) = self.0.range(..=at).next_back()?;
        let from = usize::try_from(at - start).ok()?;
        to.copy_from_slice(piece.get(from..from.checked_add(to.len())?)?);
        Some(())
    }
}

pub(crate) fn file() -> CpythonFile {
    let (layout, tree) = known(11).expect("known");
    CpythonFile {
        state: 0x1000,
        code_type: 0x9000,
        code: InterpreterCode { loops: [(0x100, 0x80), (0, 0)], offset: 0x100, text: (0x100, 0x80) },
        layout,
        tree,
    }
}

const BIAS: u64 = 0x40_0000;
const THREADS: [(u64, u64); 2] = [(0x51_0000, 0x71_0000), (0x52_0000, 0x72_0000)];

/// A process with two threads, whose states are at a key's place, above, and in a thread-local variable, below.
fn process(above: u64, below: u64) -> BTreeMap<u64, Vec<u8>> {
    let mut pieces = BTreeMap::new();
    let mut put = |at: u64, len: usize, words: &[(u64, u64)]| {
        let mut bytes = vec![0; len];
        for (offset, word) in words {
            bytes[*offset as usize..][..8].copy_from_slice(&word.to_le_bytes());
        }
        pieces.insert(at, bytes);
    };
    put(BIAS + 0x1000, 64, &[(40, 0x50_0000)]);
    put(0x50_0000, 64, &[(16, THREADS[0].0)]);
    for (i, (state, pointer)) in THREADS.into_iter().enumerate() {
        let next = THREADS.get(i + 1).map_or(0, |next| next.0);
        put(state, 256, &[(8, next), (152, pointer)]);
        let (key, variable) = (0x8000 + above, 0x8000 - below);
        // A word on the stack of one thread that also points to its state.
        put(pointer - 0x8000, 0x9000, &[(key, state), (variable, state), (0x8000 - 0x2000 * (i as u64 + 1), state)]);
    }
    pieces
}

#[test]
fn a_mapping_with_the_interpreter_tells_where_it_is() {
    let map = |line: &str| crate::kernel::procfs::parse_maps_line(line.as_bytes()).expect("a line");
    let bias = |line: &str| file().bias(&map(line));
    assert_eq!(bias("400000-401000 r-xp 00000000 08:01 7 /python"), Some(0x40_0000));
    assert_eq!(bias("400000-401000 r-xp 00000100 08:01 7 /python"), Some(0x3f_ff00));
    assert_eq!(bias("400000-401000 r-xp 00000101 08:01 7 /python"), None);
    assert_eq!(bias("400000-400100 r-xp 00000000 08:01 7 /python"), None);
}

/// The Python of this machine, without the symbol that 3.6 lacks.
#[test]
fn a_file_without_the_state_of_all_interpreters_is_3_6() {
    let Ok(mut bytes) = std::fs::read("/usr/bin/python3") else { return };
    let Some(at) = memchr::memmem::find(&bytes, b"\0_PyRuntime\0") else { return };
    bytes[at + 2] = b'X';
    let found = CpythonFile::of(&ElfProgram::of(&bytes).expect("a program"), &bytes);
    assert_eq!(found, Some((6, Err(NotWalked::Version))));
}

#[test]
fn the_state_of_threads_is_found_at_the_same_place_in_each() {
    let found = |above, below| file().slot(BIAS, &Pieces(process(above, below)));
    assert_eq!(found(0x318, 0x40), Ok(ThreadSlot::of(0x318)));
    assert_eq!(found(0x318, 0x2000), Ok(ThreadSlot::of(0x318)));
    // The key's value is beyond what is read.
    assert_eq!(found(0xf00, 0x40), Ok(ThreadSlot::of(-0x40)));
    let mut pieces = process(0x318, 0x40);
    // Nothing points to the state.
    for (_, pointer) in THREADS {
        pieces.insert(pointer - 0x8000, vec![0; 0x9000]);
    }
    assert_eq!(file().slot(BIAS, &Pieces(pieces.clone())), Err(NotWalked::NotFound));
    // No thread runs the interpreter yet.
    pieces.insert(0x50_0000, vec![0; 64]);
    assert_eq!(file().slot(BIAS, &Pieces(pieces)), Err(NotWalked::NotBegun));
    assert_eq!(file().slot(0, &Pieces(process(0x318, 0x40))), Err(NotWalked::Unreadable));
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    /// A chain of threads that never ends, or leads anywhere, ends the search.
    #[test]
    fn any_memory_is_searched(words in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>(), 0usize..8), 0..8)) {
        let mut pieces = process(0x318, 0x40);
        let places: Vec<u64> = pieces.keys().copied().collect();
        for (at, word, step) in words {
            let place = *at.get(&places);
            let bytes = pieces.get_mut(&place).expect("there");
            let offset = (word as usize % 24) * 8;
            let value = [THREADS[0].0, THREADS[1].0, 0, word, place, 8, u64::MAX, 0x50_0000][step];
            if let Some(to) = bytes.get_mut(offset..offset + 8) {
                to.copy_from_slice(&value.to_le_bytes());
            }
        }
        let _ = file().slot(BIAS, &Pieces(pieces));
    }

    #[test]
    fn any_table_of_offsets_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..400), version in any::<bool>()) {
        let mut bytes = bytes;
        for minor in [13u8, 14] {
            if version && bytes.len() >= 16 {
                bytes[..8].copy_from_slice(b"xdebugpy");
                bytes[8..16].copy_from_slice(&(0x0300_00f0 | u64::from(minor) << 16).to_le_bytes());
            }
            let _ = debug_offsets::parse(minor, &bytes);
        }
    }
}

fn parse(words: &[u64], minor: u8) -> Result<(RuntimeLayout, Tree), NotWalked> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    debug_offsets::parse(minor, &bytes)
}

/// The table of 3.14.0, whose groups of threads, frames and code begin later.
#[test]
fn the_table_of_3_14_is_read() {
    let mut words = vec![0u64; debug_offsets::BYTES / 8];
    words[0] = u64::from_le_bytes(*b"xdebugpy");
    words[1] = 0x030e_00f0;
    words[3..20].copy_from_slice(&[
        316_536, 784, 808, 225_808, 7280, 7272, 7344, 7360, 7408, 7664, 7648, 7656, 16, 7760, 0, 7776, 7768,
    ]);
    words[20..31].copy_from_slice(&[7968, 0, 824, 0, 8, 16, 72, 152, 160, 232, 32]);
    words[31..39].copy_from_slice(&[88, 8, 0, 56, 80, 74, 64, 0]);
    words[39..50].copy_from_slice(&[216, 112, 120, 128, 136, 68, 52, 96, 104, 208, 0]);
    let (layout, tree) = parse(&words, 14).expect("true");
    assert_eq!(tree, Tree { interpreter: 808, thread: 7344, next: 8 });
    assert_eq!((layout.hops, layout.thread_id, layout.entry, layout.frame_size), ((72, None), 152, (74, 3, 255), 80));
    assert_eq!((layout.code, layout.next, layout.instruction), (0, 8, 56));
    assert_eq!((layout.name, layout.file, layout.code_size, layout.start), (128, 112, 136, 208));
    assert_eq!((layout.first_line, layout.arguments, layout.line_table), (68, 52, 136));
    for minor in [13, 15] {
        assert_eq!(parse(&words, minor), Err(NotWalked::Version));
    }
    words[2] = 1;
    assert_eq!(parse(&words, 14), Err(NotWalked::FreeThreaded));
}

/// The table of 3.13.0.
#[test]
fn the_table_of_offsets_is_believed_if_it_can_be_true() {
    let mut words = vec![0u64; debug_offsets::BYTES / 8];
    words[0] = u64::from_le_bytes(*b"xdebugpy");
    words[1] = 0x030d_00f0;
    words[5] = 632;
    (words[6], words[9]) = (100_000, 7344);
    (words[19], words[21], words[23], words[24]) = (320, 8, 72, 152);
    (words[28], words[29], words[30], words[31], words[33]) = (88, 8, 0, 56, 70);
    (words[34], words[35], words[37], words[38], words[39], words[40], words[43]) = (208, 112, 128, 136, 68, 52, 200);
    let (layout, tree) = parse(&words, 13).expect("true");
    assert_eq!(tree, Tree { interpreter: 632, thread: 7344, next: 8 });
    assert_eq!((layout.hops, layout.thread_id, layout.entry, layout.frame_size), ((72, None), 152, (70, 3, 255), 72));
    assert_eq!((layout.name, layout.file, layout.code_size, layout.start), (128, 112, 136, 200));
    assert_eq!(layout.line_table, 136);
    assert_eq!(parse(&words, 14), Err(NotWalked::Version));
    // Python 3.13t has other objects in the same places of the table.
    let mut other = words.clone();
    other[2] = 1;
    assert_eq!(parse(&other, 13), Err(NotWalked::FreeThreaded));
    for (at, word) in
        [(0, 7), (2, 7), (1, 0x030c_00f0), (23, 65_536), (23, 400), (31, 200), (35, 300), (39, 69), (33, 250)]
    {
        let mut wrong = words.clone();
        wrong[at] = word;
        assert_eq!(parse(&wrong, 13), Err(NotWalked::Version), "word {at}");
    }
}
