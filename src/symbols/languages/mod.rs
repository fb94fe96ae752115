//! Interpreters: how files and processes of a language's runtime are recognized, so that the kernel walks its frames.

use std::borrow::Cow;

use crate::kernel::procfs::ProcMapping;
use crate::kernel::walk::runtime::{WalkPart, WalkParts};
use crate::record::interpreted::Language;
use crate::symbols::elf::program::{ElfProgram, Segment};

pub(crate) mod code_names;
mod cpython;
mod debug_offsets;
pub(crate) mod hotspot;
mod interpreter_code;
pub(crate) mod line_table;
pub(crate) mod names;
mod pages;
mod perl;
mod php;
pub(crate) mod prober;
mod ruby;
pub(crate) mod runtime_file;
pub(crate) mod strings;
pub(crate) mod survey;
pub(crate) mod v8;

/// The reason why the functions of a process's interpreter are not walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub(crate) enum NotWalked {
    #[error("this version is not supported")]
    Version,
    #[error("a build without the global lock is not supported")]
    FreeThreaded,
    #[error("a build with thread safety (ZTS) is not supported")]
    ThreadSafe,
    #[error("this user may not read its memory")]
    Unreadable,
    #[error("none of its threads runs the interpreter")]
    NotBegun,
    #[error("the state of its threads was not found")]
    NotFound,
    #[error("its memory could not be read in time")]
    Delayed,
    #[error("too many interpreters are walked already")]
    NoRoom,
}

impl NotWalked {
    /// Returns what to do about it, as a sentence; for a process if there is one.
    pub(crate) fn remedy(self, language: Language, pid: Option<i32>) -> Cow<'static, str> {
        let fixed = match self {
            Self::Version if language == Language::Php => "Run the program with PHP 7.4 to 8.4.",
            Self::Version if language == Language::Ruby => "Run the program with Ruby 2.7 to 3.4.",
            Self::Version if language == Language::Perl => "Run the program with Perl 5.32 to 5.42.",
            Self::Version if language == Language::Java => {
                return format!("Write a perf map by {}.", perf_map_command(pid)).into();
            }
            Self::Version if language == Language::JavaScript => "Start the program with node --perf-basic-prof.",
            Self::Version => "Run the program with CPython 3.8 to 3.14, or 3.12 and later with python -X perf.",
            Self::FreeThreaded => "Run the program with a build that has the lock: python3.14, not python3.14t.",
            Self::ThreadSafe => "Run the program with a build of PHP without thread safety (NTS).",
            Self::Unreadable => "Run as root or as the user of the process; see kernel.yama.ptrace_scope.",
            Self::NotBegun | Self::Delayed | Self::NoRoom => "Try again when the program runs.",
            Self::NotFound if language == Language::JavaScript => "Start the program with node --perf-basic-prof.",
            Self::NotFound if language == Language::Perl => "Run the program with glibc.",
            Self::NotFound if language == Language::Ruby => "Run the program with Ruby as its distribution builds it.",
            Self::NotFound => "Start the program with python -X perf (3.12 and later).",
        };
        fixed.into()
    }
}

/// Returns the command that has a process of Java 17 or later write a map of its code's names.
pub(crate) fn perf_map_command(pid: Option<i32>) -> String {
    let pid = pid.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    format!("jcmd {pid} Compiler.perfmap")
}

/// Reads bytes as the inputs that processes write; the first byte selects a file, its table of offsets, or a walk.
pub fn read_untrusted(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 9 {
        0 => drop(runtime_file::RuntimeFile::of(bytes)),
        1 => [13, 14].into_iter().for_each(|minor| _ = debug_offsets::parse(minor, bytes)),
        2 => hotspot::read_untrusted(bytes),
        3 => v8::read_untrusted(bytes),
        5 => ruby::read_untrusted(bytes),
        6 => perl::read_untrusted(bytes),
        7 => cpython::read_untrusted(bytes),
        8 => php::read_untrusted(bytes),
        _ => WalkParts::of(bytes).for_each(|part| {
            if let WalkPart::Names(_, name, file) = part {
                strings::decode(name, 2, false);
                strings::decode(file, 2, true);
                strings::qualified(name);
                strings::bytes(file, true);
            }
        }),
    }
}

/// Where threads keep the state of an interpreter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadSlot {
    /// The position of a thread's state relative to its thread pointer.
    state: i32,
    /// The address of Ruby's list of symbols.
    symbols: u64,
    /// Ruby's function that executes bytecode, if only the memory of a process tells which it is: start and length.
    execute: Option<(u64, u64)>,
}

impl ThreadSlot {
    fn of(state: i32) -> Self {
        Self { state, ..Self::default() }
    }
}

/// Returns the difference of addresses in memory from the linked ones, if a mapping of a file has this function.
fn bias(offset: u64, address: u64, map: &ProcMapping) -> Option<u64> {
    let from = offset.checked_sub(map.offset).filter(|from| *from < map.end.saturating_sub(map.start))?;
    Some(map.start.wrapping_add(from).wrapping_sub(address))
}

/// Returns bytes of the file at a linked address.
fn content<'d>(program: &ElfProgram<'_>, bytes: &'d [u8], address: u64, len: usize) -> Option<&'d [u8]> {
    let is_in = |part: &&Segment| address.wrapping_sub(part.address) < part.size;
    let part = program.segments.iter().find(is_in)?;
    let at = usize::try_from(part.offset.checked_add(address - part.address)?).ok()?;
    bytes.get(at..at.checked_add(len)?)
}

/// Returns the first two numbers of a version such as `8.2.1`.
fn major_minor(version: &[u8]) -> Option<(u8, u8)> {
    let mut numbers = std::str::from_utf8(version).ok()?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// The memory of a process, which may contain anything.
pub(crate) trait ProcessMemory {
    /// Fills `to` from an address; `None` if a part of it cannot be read.
    fn read(&self, at: u64, to: &mut [u8]) -> Option<()>;

    /// Returns start and length of parts in which C libraries may have the variables of threads.
    fn variables(&self) -> Vec<(u64, u64)> {
        Vec::new()
    }

    fn word(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }
}

/// Memory that repeats itself, so that addresses lead somewhere.
struct RepeatedMemory<'a>(&'a [u8]);

impl ProcessMemory for RepeatedMemory<'_> {
    fn read(&self, at: u64, to: &mut [u8]) -> Option<()> {
        let len = u64::try_from(self.0.len()).ok().filter(|len| *len > 0)?;
        let from = |i: usize| (at.wrapping_add(i as u64) % len) as usize;
        to.iter_mut().enumerate().for_each(|(i, byte)| *byte = self.0[from(i)]);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn any_words_of_a_walk_are_read(words in proptest::collection::vec((0u64..8, any::<u64>()), 0..80)) {
            let tagged = |(tag, word): (u64, u64)| (tag << 56 | word & 0x00ff_ffff_ffff_ffff).to_le_bytes();
            let bytes: Vec<u8> = std::iter::once(4).chain(words.into_iter().flat_map(tagged)).collect();
            read_untrusted(&bytes);
        }
    }
}
