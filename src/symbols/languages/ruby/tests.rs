//! Ruby of this machine, and processes with made memory.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::symbols::bytes::Bytes;
use crate::symbols::languages::cpython::tests::Pieces;

#[test]
fn versions_have_layouts() {
    let stride = |version| RubyLayout::of(version).map(|layout| layout.stride);
    let strides = [(2, 7), (3, 0), (3, 1), (3, 2), (3, 3), (3, 4)].map(stride);
    assert_eq!(strides, [56, 56, 64, 64, 56, 56].map(Some));
    assert_eq!([(1, 9), (2, 6), (3, 5), (4, 0)].map(stride), [None; 4]);
    assert_eq!([&b"3.1.2\0"[..], b"3.10", b"3", b"x.1"].map(major_minor), [Some((3, 1)), Some((3, 10)), None, None]);
}

/// The Ruby of this machine, if it has one.
#[test]
fn the_library_of_this_machine_is_recognized() {
    let folder = std::fs::read_dir("/usr/lib/x86_64-linux-gnu").into_iter().flatten().flatten();
    let is_ruby = |path: &std::path::PathBuf| path.to_string_lossy().contains("/libruby-");
    let Some(path) = folder.map(|entry| entry.path()).find(is_ruby) else { return };
    let Ok(bytes) = std::fs::read(&path).map(Bytes::from) else { return };
    let (version, found) = RubyFile::of(&ElfProgram::of(&bytes).expect("a library"), &bytes).expect("it is Ruby");
    assert_eq!(found.as_ref().err(), RubyLayout::of(version).is_none().then_some(&NotWalked::Version));
    assert!(found.is_err() || found.is_ok_and(|file| file.execute.is_some() || !file.long.is_empty()));
}

const BIAS: u64 = 0x40_0000;
const MACHINE: u64 = 0x51_0000;
const THREAD: u64 = 0x52_0000;
const CONTEXT: u64 = 0x53_0000;
const STACK: u64 = 0x54_0000;
const POINTER: u64 = 0x56_0000;
const OBJECTS: u64 = 0x57_0000;

/// Pages of memory, by words.
#[derive(Default)]
struct Made(BTreeMap<u64, Vec<u8>>);

impl Made {
    fn put(&mut self, at: u64, words: &[u64]) {
        for (i, word) in words.iter().enumerate() {
            let at = at + 8 * i as u64;
            let page = self.0.entry(at & !0xfff).or_insert_with(|| vec![0; 4096]);
            page[(at & 0xfff) as usize..][..8].copy_from_slice(&word.to_le_bytes());
        }
    }

    /// A short string of the layouts with its length in the flags, or of those with a word for it.
    fn string(&mut self, at: u64, text: &str, layout: &RubyLayout) {
        let len = text.len() as u64;
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(24, 0);
        let mut words = if layout.embedded == 16 { vec![5 | len << 14, 0] } else { vec![5, 0, len] };
        words.extend(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
        self.put(at, &words);
    }

    /// A process of a version whose main thread executes a function.
    fn process(version: (u8, u8)) -> (RubyFile, Self) {
        let layout = RubyLayout::of(version).expect("known");
        let file = RubyFile {
            layout,
            machine: None,
            variables: (0x2000, 64),
            shared: (version == (2, 7)).then_some(0x2000),
            data: (0x3000, 128),
            execute: None,
            long: vec![(0x5000, 0x100), (0x6000, 0x100)],
            code: (0x1000, 0x1000),
            text: (0x1000, 0x8000),
        };
        let mut made = Self::default();
        made.put(BIAS + 0x1000, &[0x90]);
        made.put(BIAS + 0x2000, &[7, POINTER, 0, MACHINE]);
        made.put(MACHINE, &[0; 64]);
        // An object of the language that stands for the virtual machine points back, too.
        made.put(MACHINE, &[OBJECTS + 0x400]);
        made.put(OBJECTS + 0x400 + u64::from(layout.machine), &[MACHINE]);
        made.put(MACHINE + 40, &[THREAD]);
        made.put(THREAD + u64::from(layout.machine), &[MACHINE]);
        made.put(THREAD + u64::from(layout.context), &[CONTEXT]);
        let number = match layout.native {
            Some(own) => {
                made.put(THREAD + 0x200 + u64::from(own), &[POINTER]);
                THREAD + 0x200
            }
            None => POINTER,
        };
        made.put(THREAD + u64::from(layout.number), &[number]);
        made.put(POINTER, &[POINTER]);
        made.put(POINTER - 24, &[CONTEXT, 0, 0]);
        // Frames are below the end of the stack, the outermost one is the highest.
        let (end, stride) = (STACK + 8 * 512, u64::from(layout.stride));
        made.put(CONTEXT, &[STACK, 512, end - 3 * stride, 0, 0, 0, THREAD, 0]);
        for (i, kind, code) in [(1, 0x7999_00a3, 0), (2, 0x5555_0083, 0), (3, 0x1111_0003, OBJECTS)] {
            made.put(STACK + 8 * i, &[kind]);
            made.put(end - i * stride, &[0, 0, code, 0, STACK + 8 * i]);
        }
        made.put(OBJECTS, &[0x701a, 0, OBJECTS + 0x40]);
        made.put(OBJECTS + 0x40, &[0, OBJECTS + 0x100]);
        made.put(OBJECTS + 0x40 + 80, &[OBJECTS + 0x140]);
        made.put(OBJECTS + 0x100, &[BIAS + 0x6010]);
        made.string(OBJECTS + 0x140, "<main>", &layout);
        // The table of symbols: one list is short.
        made.put(BIAS + 0x3000, &[0, 300, 8, 300, OBJECTS, OBJECTS + 0x200]);
        made.put(OBJECTS + 0x200, &[7 | 1 << 13 | 1 << 15, 0, OBJECTS + 0x240]);
        made.put(OBJECTS + 0x240, &[7, 0, 4, 4, OBJECTS + 0x280]);
        made.put(OBJECTS + 0x280, &[8, 8, OBJECTS + 0x300, 8]);
        made.string(OBJECTS + 0x300, "method_missing", &layout);
        (file, made)
    }

    fn slot(self, file: &RubyFile) -> Result<ThreadSlot, NotWalked> {
        file.slot(BIAS, &Pieces(self.0))
    }
}

#[test]
fn the_state_of_threads_and_the_symbols_are_found() {
    for version in [(2, 7), (3, 0), (3, 1), (3, 2), (3, 3)] {
        let (file, made) = Made::process(version);
        let own = if version == (2, 7) { 0 } else { -24 };
        let symbols = BIAS + 0x3028;
        let slot = made.slot(&file).expect("all is there");
        assert_eq!(slot, ThreadSlot { state: own, symbols, execute: Some((0x6000, 0x100)) }, "{version:?}");
        let runtime = file.runtime(BIAS, slot, 17);
        assert_eq!((runtime.loops[0], runtime.code_type), ((BIAS + 0x6000, 0x100), symbols));
        assert_eq!((runtime.slot, runtime.global), (own, if own == 0 { BIAS + 0x2000 } else { 0 }));
    }
}

#[test]
fn memory_that_is_not_as_the_version_has_it_is_refused() {
    let result = |change: &dyn Fn(&mut Made)| {
        let (file, mut made) = Made::process((3, 1));
        change(&mut made);
        made.slot(&file).map(drop)
    };
    assert_eq!(result(&|_| ()), Ok(()));
    assert_eq!(result(&|made| made.0.clear()), Err(NotWalked::Unreadable));
    // No thread, a frame of another kind, no code, no label.
    for (at, word) in [
        (MACHINE + 40, 0),
        (THREAD + 32, MACHINE + 8),
        (STACK + 8, 0x1111_0003),
        (OBJECTS, 0x601a),
        (OBJECTS + 0x140, 7),
        (CONTEXT + 8, u64::MAX),
    ] {
        assert_eq!(result(&|made| made.put(at, &[word])), Err(NotWalked::NotBegun), "{at:x}");
    }
    // No thread pointer, no variable with the state, no symbols, no function that executes bytecode.
    for (at, word) in [
        (POINTER, POINTER + 8),
        (POINTER - 24, 0),
        (CONTEXT + 48, 0),
        (OBJECTS + 0x200, 5),
        (OBJECTS + 0x310, 0),
        (OBJECTS + 0x250, u64::MAX),
        (BIAS + 0x3018, 7),
        (OBJECTS + 0x100, BIAS + 0x7000),
    ] {
        assert_eq!(result(&|made| made.put(at, &[word])), Err(NotWalked::NotFound), "{at:x}");
    }
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn any_memory_of_ruby_is_searched(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        read_untrusted(&bytes);
    }
}
