//! The system calls that work on files.

use std::collections::BTreeMap;

use crate::units::events::syscalls::native_calls;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum FileCall {
    Open,
    Read,
    Write,
    Sync,
    SendFile,
    CopyRange,
    Close,
    CloseRange,
    Duplicate,
    Control,
    ChangeDirectory,
}

impl FileCall {
    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "openat" | "open" | "openat2" | "creat" => Self::Open,
            "read" | "pread64" | "readv" | "preadv" | "preadv2" => Self::Read,
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" => Self::Write,
            "fsync" | "fdatasync" | "sync_file_range" => Self::Sync,
            "sendfile" => Self::SendFile,
            "copy_file_range" => Self::CopyRange,
            "close" => Self::Close,
            "close_range" => Self::CloseRange,
            "dup" | "dup2" | "dup3" => Self::Duplicate,
            "fcntl" => Self::Control,
            "chdir" | "fchdir" => Self::ChangeDirectory,
            _ => return None,
        })
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::SendFile | Self::CopyRange => "copy",
            Self::Close | Self::CloseRange => "close",
            Self::Duplicate => "dup",
            Self::Control => "fcntl",
            Self::ChangeDirectory => "chdir",
        }
    }

    /// Returns the line of a chart of bytes.
    pub(super) fn bytes_line(self) -> Option<&'static str> {
        match self {
            Self::Read => Some("read"),
            Self::Write => Some("written"),
            _ => None,
        }
    }
}

/// A call with its first arguments. For a call that opens a file, the first says whether exec closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) call: FileCall,
    pub(super) args: [u64; 3],
}

impl Made {
    /// Reads the arguments of `raw_syscalls:sys_enter`.
    pub(super) fn of(call: FileCall, args: &[u8]) -> Self {
        let words: Vec<u64> = args.as_chunks::<8>().0.iter().take(3).map(|word| u64::from_ne_bytes(*word)).collect();
        Self { call, args: std::array::from_fn(|i| words.get(i).copied().unwrap_or(0)) }
    }
}

/// The numbers of the calls on an architecture.
#[derive(Clone, Debug, Default)]
pub(super) struct FileCalls {
    by_number: BTreeMap<i64, FileCall>,
}

impl FileCalls {
    pub(super) fn of(arch: &str) -> Self {
        let by_number = native_calls(arch);
        Self { by_number: by_number.filter_map(|(number, name)| Some((number, FileCall::of_name(name)?))).collect() }
    }

    pub(super) fn of_number(&self, number: i64) -> Option<FileCall> {
        self.by_number.get(&number).copied()
    }

    /// Returns a filter on `raw_syscalls`: all calls, or those whose start is not recorded with a path.
    pub(super) fn filter(&self, ends: bool) -> String {
        let numbers = self.by_number.iter().filter(|(_, call)| ends || **call != FileCall::Open);
        numbers.map(|(number, _)| format!("id == {number}")).collect::<Vec<_>>().join(" || ")
    }

    /// Fails for a recording of an architecture with other numbers: their filter would select other calls.
    pub(super) fn require(&self, arch: &str) -> Result<(), String> {
        if Self::of(arch).by_number == self.by_number {
            return Ok(());
        }
        Err(format!("system calls of {arch} have other numbers; open the recording on such a machine"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_belong_to_an_architecture() {
        let calls = FileCalls::of("x86_64");
        let found = [0, 1, 2, 3, 257, 39].map(|number| calls.of_number(number));
        use FileCall::{Close, Open, Read, Write};
        assert_eq!(found, [Some(Read), Some(Write), Some(Open), Some(Close), Some(Open), None]);
        assert!(calls.require("x86_64").is_ok() && calls.require("aarch64").is_err());
        assert!(calls.filter(true).split(" || ").any(|term| term == "id == 257"));
        assert!(calls.filter(false).split(" || ").all(|term| term != "id == 257"));
        let made = Made::of(Read, &[[3u64, 0x1000].map(u64::to_ne_bytes).concat(), vec![1; 7]].concat());
        assert_eq!(made.args, [3, 0x1000, 0]);
    }
}
