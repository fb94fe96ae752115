//! The structures that calls name, like strace writes them: those of openat2 and clone3.

use std::fmt::Write;

use super::arguments::{add_flags, add_open_flags, add_signal};
use super::flag_names::{CLONE, Flags};

/// The flags of a resolution (linux/openat2.h).
const RESOLUTION: &Flags = &[
    (0x01, "NO_XDEV"),
    (0x02, "NO_MAGICLINKS"),
    (0x04, "NO_SYMLINKS"),
    (0x08, "BENEATH"),
    (0x10, "IN_ROOT"),
    (0x20, "CACHED"),
];
/// Flags of clone3 alone (linux/sched.h), and those in the upper half of its word.
const CLONE3: &Flags = &[(0x80, "NEWTIME")];
const CLONE3_UPPER: &Flags = &[(1, "CLEAR_SIGHAND"), (2, "INTO_CGROUP")];

/// A structure that a call's own event records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStructure {
    OpenHow,
    CloneArgs,
}

impl CallStructure {
    /// The fields of events with a structure.
    pub(super) const FIELDS: [(&str, Self); 2] = [("how_val", Self::OpenHow), ("uargs_val", Self::CloneArgs)];

    /// Writes a structure; `None` if it could not be read.
    pub(super) fn written(self, bytes: &[u8]) -> Option<String> {
        let is_read = bytes.iter().any(|byte| *byte != 0xff);
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| words.get(at).map_or(0, |word| u64::from_ne_bytes(*word));
        let mut out = String::from("{flags=");
        let result = match self {
            Self::OpenHow => add_open_how(&mut out, [word(0), word(1), word(2)]),
            Self::CloneArgs => add_clone_args(&mut out, word),
        };
        out.push('}');
        result.ok().filter(|()| is_read).map(|()| out)
    }
}

/// Adds the flags, the mode if it counts, and the resolution.
fn add_open_how(out: &mut String, [flags, mode, resolution]: [u64; 3]) -> std::fmt::Result {
    add_open_flags(out, flags as i32)?;
    if mode != 0 {
        write!(out, ", mode={mode:#o}")?;
    }
    if resolution != 0 {
        out.write_str(", resolve=")?;
        add_flags(out, resolution as i32, RESOLUTION, "")?;
    }
    Ok(())
}

/// Adds the flags, the signal at the end of the child, and its stack. Addresses for numbers of threads are left out.
fn add_clone_args(out: &mut String, word: impl Fn(usize) -> u64) -> std::fmt::Result {
    let (lower, upper) = (word(0) as u32, (word(0) >> 32) as u32);
    let (named, own) = (lower & !0x80, lower & 0x80);
    let mut separator = "";
    for (bits, names) in [(named, CLONE), (own, CLONE3), (upper, CLONE3_UPPER)] {
        if bits != 0 {
            out.write_str(separator)?;
            add_flags(out, bits.cast_signed(), names, "")?;
            separator = "|";
        }
    }
    if separator.is_empty() {
        out.push('0');
    }
    if word(4) != 0 {
        out.write_str(", exit_signal=")?;
        add_signal(out, word(4) as i32)?;
    }
    if word(5) != 0 {
        write!(out, ", stack={:#x}, stack_size={}", word(5), word(6))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(of: CallStructure, words: &[u64]) -> Option<String> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        of.written(&bytes)
    }

    #[test]
    fn structures_are_written() {
        let open = |words: [u64; 3]| line(CallStructure::OpenHow, &words).expect("read");
        assert_eq!(open([0, 0, 0]), "{flags=RDONLY}");
        let create = (libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC) as u64;
        assert_eq!(open([create, 0o640, 0x0c]), "{flags=RDWR|CREAT|CLOEXEC, mode=0o640, resolve=NO_SYMLINKS|BENEATH}");
        let clone = |flags: u64, signal: u64, stack: u64| {
            line(CallStructure::CloneArgs, &[flags, 0, 0, 0, signal, stack, 8192, 0, 0, 0, 0]).expect("read")
        };
        assert_eq!(clone(0, 17, 0), "{flags=0, exit_signal=CHLD}");
        let thread = (libc::CLONE_VM | libc::CLONE_FS) as u64;
        assert_eq!(clone(thread, 0, 0x7000), "{flags=VM|FS, stack=0x7000, stack_size=8192}");
        assert_eq!(clone(thread | 0x3_0000_0080, 0, 0), "{flags=VM|FS|NEWTIME|CLEAR_SIGHAND|INTO_CGROUP}");
    }

    #[test]
    fn any_structure_is_written_or_missing() {
        for of in CallStructure::FIELDS.map(|(_, of)| of) {
            for word in [0, 1, 1 << 63, 0x8000_0000, u64::MAX - 1] {
                assert!(line(of, &[word; 11]).is_some_and(|text| text.ends_with('}')));
            }
            assert_eq!(line(of, &[u64::MAX; 11]), None);
            assert!(line(of, &[]).is_none_or(|text| text.ends_with('}')));
        }
    }
}
