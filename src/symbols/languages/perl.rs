//! Perl 5.32 to 5.42: its files by their symbols, and where it keeps its stacks of frames.

use super::interpreter_code::{InterpreterCode, dynamic_symbols};
use super::{NotWalked, ProcessMemory, RepeatedMemory, ThreadSlot, content};
use crate::kernel::procfs::ProcMapping;
use crate::kernel::walk::LanguageRuntime;
use crate::kernel::walk::runtime::{InterpreterKind, RuntimeLayout};
use crate::symbols::elf::program::ElfProgram;

/// A file that contains Perl, with addresses as linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PerlFile {
    start: PerlStart,
    /// Its functions execute operations.
    code: InterpreterCode,
    layout: RuntimeLayout,
}

/// The address of a pointer, as linked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PerlStart {
    /// To the interpreter of the main thread. Each thread has its own as the value of a key.
    Interpreter(u64),
    /// To the innermost stack, in Perl without threads.
    Stack(u64),
}

/// The type of the outermost stack of frames, the highest type, and that of others (`PERLSI_MAIN` and others in cop.h).
const MAIN: u64 = 1;
const LAST_TYPE: u64 = 16;
const UNKNOWN_TYPE: u64 = u32::MAX as u64;
/// Stacks of frames that are looked at.
const STACKS: usize = 64;
/// Bytes above the thread pointer in which keys have their values.
const ABOVE: usize = 1408;

/// Layouts of `PERL_SI`, `PERL_CONTEXT`, `CV` and `HV` (cop.h, cv.h, hv.h, intrpvar.h).
fn known(minor: u8) -> Option<RuntimeLayout> {
    let stack = match minor {
        32 => 240,
        34 | 36 | 38 | 40 | 42 => 224,
        _ => return None,
    };
    Some(RuntimeLayout {
        hops: (stack, None),
        next: 104,
        kind: InterpreterKind::Perl,
        code_size: 96,
        // The operation where it starts, in two halves.
        arguments: 40,
        flags: 44,
        // Zero: lines are those of operations.
        first_line: 120,
        name: 56,
        name_apart: minor < 36,
        file: 64,
        ..RuntimeLayout::default()
    })
}

impl PerlFile {
    /// Recognizes Perl by its symbols; `None` for other files. Returns its minor version; fails if the types of that are
    /// unknown, or it is built with several interpreters but without threads.
    pub(super) fn of(program: &ElfProgram<'_>, bytes: &[u8]) -> Option<(u8, Result<Self, NotWalked>)> {
        const LOOP: &[u8] = b"Perl_runops_standard";
        let (mut interpreter, mut has_threads, mut stack, mut version) = (None, false, None, None);
        let mut loops = [(0, 0); 2];
        let prefixes: &[&[u8]] = &[b"Perl", b"PL_", b"perl_"];
        let counts = dynamic_symbols(program, LOOP, prefixes, |name, address, size| match name {
            LOOP => loops[0] = (address, size),
            b"Perl_runops_debug" => loops[1] = (address, size),
            b"PL_curinterp" => interpreter = Some(address),
            b"PL_thr_key" => has_threads = true,
            b"PL_curstackinfo" => stack = Some(address),
            b"PL_version" => version = content(program, bytes, address, 1),
            _ => {}
        })?;
        let minor = *version?.first()?;
        if loops[0].1 == 0 {
            return None;
        }
        let interpreter = interpreter.filter(|_| has_threads).map(PerlStart::Interpreter);
        let start = stack.map(PerlStart::Stack).or(interpreter);
        let Some((start, layout)) = start.zip(known(minor)) else { return Some((minor, Err(NotWalked::Version))) };
        let code = InterpreterCode::of(program, loops, counts.own * 2 >= counts.all)?;
        Some((minor, Ok(Self { start, code, layout })))
    }

    pub(super) fn bias(&self, map: &ProcMapping) -> Option<u64> {
        self.code.bias(map)
    }

    /// Finds the key of threads that has their interpreter as its value, in the main thread.
    pub(super) fn slot(&self, bias: u64, memory: &impl ProcessMemory) -> Result<ThreadSlot, NotWalked> {
        let (PerlStart::Interpreter(place) | PerlStart::Stack(place)) = self.start;
        let first = memory.word(bias.wrapping_add(place)).ok_or(NotWalked::Unreadable)?;
        let innermost = || memory.word(first.checked_add(self.layout.hops.0.into())?);
        let (stack, interpreter) = match self.start {
            PerlStart::Interpreter(_) => (innermost(), Some(first)),
            PerlStart::Stack(_) => (Some(first), None),
        };
        if !stack.and_then(|stack| has_stacks(stack, memory)).unwrap_or(false) {
            return Err(NotWalked::NotBegun);
        }
        let Some(interpreter) = interpreter else { return Ok(ThreadSlot::of(0)) };
        let position = memory.variables().into_iter().find_map(|(start, len)| {
            let pointers = thread_pointers(start, len, memory);
            pointers.into_iter().find_map(|pointer| above(pointer, interpreter, memory))
        });
        position.map(ThreadSlot::of).ok_or(NotWalked::NotFound)
    }

    pub(super) fn runtime(&self, bias: u64, slot: ThreadSlot, id: u32) -> LanguageRuntime {
        let global = match self.start {
            PerlStart::Interpreter(_) => 0,
            PerlStart::Stack(place) => place.wrapping_add(bias),
        };
        LanguageRuntime { global, ..self.code.runtime(bias, slot, id, self.layout) }
    }
}

/// Returns whether a stack leads to the one of the program; `None` if they cannot be read.
fn has_stacks(mut stack: u64, memory: &impl ProcessMemory) -> Option<bool> {
    for _ in 0..STACKS {
        match memory.word(stack.checked_add(40)?)? >> 32 {
            MAIN => return Some(true),
            0..=LAST_TYPE | UNKNOWN_TYPE => stack = memory.word(stack.checked_add(16)?)?,
            _ => break,
        }
    }
    Some(false)
}

/// Returns the addresses in a part of memory that can be thread pointers: glibc has them at their own address, twice.
fn thread_pointers(start: u64, len: u64, memory: &impl ProcessMemory) -> Vec<u64> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    if memory.read(start, &mut bytes).is_none() {
        return Vec::new();
    }
    let words = bytes.as_chunks::<8>().0;
    let places = (0u64..).map(|i| start.wrapping_add(8 * i));
    let has = |word: &[u8; 8], place| u64::from_le_bytes(*word) == place;
    let found = places.zip(words.windows(3)).filter(|(place, words)| has(&words[0], *place) && has(&words[2], *place));
    found.map(|(place, _)| place).collect()
}

/// Returns the position of a word above a thread pointer.
fn above(pointer: u64, word: u64, memory: &impl ProcessMemory) -> Option<i32> {
    let mut bytes = vec![0; ABOVE];
    memory.read(pointer, &mut bytes)?;
    let at = bytes.as_chunks::<8>().0.iter().position(|found| u64::from_le_bytes(*found) == word)?;
    i32::try_from(8 * at).ok()
}

/// Reads bytes as the memory of Perl.
pub(super) fn read_untrusted(bytes: &[u8]) {
    let memory = RepeatedMemory(bytes);
    let (Some(words), Some(layout)) = (bytes.first_chunk::<4>(), known(36)) else { return };
    let [place, pointer] = [0, 2].map(|at| u64::from(words[at]) | u64::from(words[at + 1]) << 8);
    for start in [PerlStart::Interpreter(place), PerlStart::Stack(place)] {
        let code = InterpreterCode { loops: [(0, 1); 2], offset: 0, text: (0, 1) };
        let file = PerlFile { start, code, layout };
        let _ = file.slot(0, &memory).map(|slot| file.runtime(0, slot, 0));
    }
    let _ = has_stacks(place, &memory);
    for pointer in thread_pointers(pointer, 256, &memory) {
        let _ = above(pointer, place, &memory);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::symbols::bytes::Bytes;
    use crate::symbols::languages::cpython::tests::Pieces;

    /// The Perl of this machine, if it has one.
    #[test]
    fn the_program_of_this_machine_is_recognized() {
        let Ok(bytes) = std::fs::read("/usr/bin/perl").map(Bytes::from) else { return };
        let Some((minor, found)) = PerlFile::of(&ElfProgram::of(&bytes).expect("a program"), &bytes) else { return };
        assert!(found.is_ok() || known(minor).is_none());
        assert_eq!([30, 32, 36, 41, 42].map(|minor| known(minor).is_some()), [false, true, true, false, true]);
    }

    const BIAS: u64 = 0x40_0000;
    const INTERPRETER: u64 = 0x51_0000;
    const STACK: u64 = 0x52_0000;
    const VARIABLES: u64 = 0x53_0000;
    const POINTER: u64 = VARIABLES + 0x80;

    /// A process with two stacks of frames.
    struct Made(BTreeMap<u64, Vec<u8>>);

    impl ProcessMemory for Made {
        fn read(&self, at: u64, to: &mut [u8]) -> Option<()> {
            Pieces(self.0.clone()).read(at, to)
        }

        fn variables(&self) -> Vec<(u64, u64)> {
            vec![(0x1000, 64), (VARIABLES, 4096)]
        }
    }

    impl Made {
        fn put(&mut self, at: u64, word: u64) {
            let page = self.0.entry(at & !0xfff).or_insert_with(|| vec![0; 4096]);
            page[(at & 0xfff) as usize..][..8].copy_from_slice(&word.to_le_bytes());
        }

        fn process() -> Self {
            let mut made = Self(BTreeMap::new());
            let words = [
                (BIAS + 0x1000, INTERPRETER),
                (INTERPRETER + 224, STACK),
                (STACK + 40, 5 << 32),
                (STACK + 16, STACK + 0x100),
                (STACK + 0x100 + 40, MAIN << 32),
                // A list of one element also points to itself.
                (VARIABLES + 16, VARIABLES + 16),
                (POINTER, POINTER),
                (POINTER + 16, POINTER),
                (POINTER + 0x318, INTERPRETER),
            ];
            words.into_iter().for_each(|(at, word)| made.put(at, word));
            made
        }
    }

    #[test]
    fn memory_of_another_layout_is_refused() {
        let layout = known(36).expect("known");
        let start = PerlStart::Interpreter(0x1000);
        let code = InterpreterCode { loops: [(0x100, 0x80), (0, 0)], offset: 0, text: (0, 0) };
        let file = PerlFile { start, code, layout };
        let result = |at: u64, word: u64| {
            let mut made = Made::process();
            made.put(at, word);
            file.slot(BIAS, &made)
        };
        assert_eq!(result(0x9000, 0), Ok(ThreadSlot::of(0x318)));
        for (at, word) in [(BIAS + 0x1000, 0), (STACK + 40, 99 << 32), (STACK + 16, STACK), (INTERPRETER + 224, 7)] {
            assert_eq!(result(at, word), Err(NotWalked::NotBegun), "{at:x}");
        }
        for (at, word) in [(POINTER, 0), (POINTER + 16, 0), (POINTER + 0x318, 0)] {
            assert_eq!(result(at, word), Err(NotWalked::NotFound), "{at:x}");
        }
        assert_eq!(file.slot(0, &Made(BTreeMap::new())), Err(NotWalked::Unreadable));
        let runtime = file.runtime(BIAS, ThreadSlot::of(0x318), 17);
        assert_eq!((runtime.slot, runtime.global, runtime.loops), (0x318, 0, [(BIAS + 0x100, 0x80), (0, 0)]));
    }

    #[test]
    fn perl_without_threads_has_its_innermost_stack_in_a_variable() {
        let layout = known(40).expect("known");
        let code = InterpreterCode { loops: [(0, 0); 2], offset: 0, text: (0, 0) };
        let file = PerlFile { start: PerlStart::Stack(0x2000), code, layout };
        let mut made = Made::process();
        made.put(BIAS + 0x2000, STACK);
        assert_eq!(file.slot(BIAS, &made), Ok(ThreadSlot::of(0)));
        assert_eq!(file.runtime(BIAS, ThreadSlot::of(0), 17).global, BIAS + 0x2000);
        for stack in [0, INTERPRETER] {
            made.put(BIAS + 0x2000, stack);
            assert_eq!(file.slot(BIAS, &made), Err(NotWalked::NotBegun));
        }
        assert_eq!(file.slot(0, &made), Err(NotWalked::Unreadable));
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn any_memory_of_perl_is_searched(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            read_untrusted(&bytes);
        }
    }
}
