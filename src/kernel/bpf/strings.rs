//! BPF programs that read the strings, futexes, socket addresses and structures that a system call names while the
//! calling task's memory is readable, and write them as a separate record before the call's record.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::calls::{
    self, ADD_K, BpfCode, CALL, EXIT, LD_MAP, LDX_DW, LoadError, MOV_K, MOV_X, MapKind, PERCPU_ARRAY, PERF_EVENT_ARRAY,
    ProgramType, op,
};
use crate::kernel::machine::cpus;
use crate::kernel::perf_event::sys::Errno;

/// The maximum length of a string, including its NUL: one more than that of a path (`PATH_MAX`), so that the longest
/// path does not look like a truncated one.
pub(crate) const LONGEST: usize = 4097;
/// The largest number of strings, and of other bytes.
const MOST_STRINGS: usize = 3;
const MOST_BYTES: usize = 112;
/// Bytes of the buffer in which a program makes its record: a stack has only 512. Programs on tracepoints do not
/// interrupt each other on a CPU.
const BUFFER: usize = 8 + 8 * MOST_STRINGS + 8 + MOST_BYTES + MOST_STRINGS * LONGEST;

// Instructions (Documentation/bpf/standardization/instruction-set.rst).
const STX_DW: u64 = 0x7b;
const ST_DW: u64 = 0x7a;
const MOV32_K: u64 = 0xb4;
const ADD_X: u64 = 0x0f;
const JNE_K: u64 = 0x55;
const JLE_K: u64 = 0xb5;

// Helpers (bpf-helpers(7)).
const MAP_LOOKUP_ELEM: i32 = 1;
const PERF_EVENT_OUTPUT: i32 = 25;
const PROBE_READ_USER: i32 = 112;
const PROBE_READ_USER_STR: i32 = 114;
/// `BPF_F_CURRENT_CPU`.
const CURRENT_CPU: i32 = -1;

/// The layout of a record: the tracepoint, each string's length or errno, the result of reading the bytes and the bytes
/// if there are any, then the strings one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserDataLayout {
    pub(crate) strings: usize,
    pub(crate) bytes: Option<UserBytes>,
}

impl UserDataLayout {
    fn bytes_at(self) -> usize {
        8 + 8 * self.strings
    }

    fn strings_at(self) -> usize {
        self.bytes_at() + self.bytes.map_or(0, |bytes| 8 + bytes.most.next_multiple_of(8))
    }

    /// Returns the tracepoint that a record belongs to.
    pub(crate) fn of(record: &[u8]) -> Option<u64> {
        record.first_chunk().map(|tag| u64::from_le_bytes(*tag))
    }

    fn length(record: &[u8], i: usize) -> Option<i64> {
        record.get(8 + 8 * i..)?.first_chunk().map(|length| i64::from_le_bytes(*length))
    }

    /// Returns a string with its NUL; `None` if it could not be read. A string of [`LONGEST`] bytes is truncated.
    pub(crate) fn string(self, record: &[u8], i: usize) -> Option<&[u8]> {
        let size =
            |i: usize| usize::try_from(Self::length(record, i)?).ok().filter(|length| (1..=LONGEST).contains(length));
        let before: usize = (0..i).filter_map(size).sum();
        record.get(self.strings_at() + before..)?.get(..size(i)?)
    }

    /// Returns the bytes in a record; `None` if they could not be read.
    pub(crate) fn user_bytes(self, record: &[u8]) -> Option<&[u8]> {
        let at = self.bytes_at();
        let is_read = record.get(at..at + 8)?.iter().all(|byte| *byte == 0);
        is_read.then(|| record.get(at + 8..at + 8 + self.bytes?.most))?
    }

    /// Generates the program for strings and bytes at these offsets of their addresses in a tracepoint's record.
    fn program(
        self,
        tracepoint: u64,
        addresses: &[usize],
        bytes_address: usize,
        buffer: BorrowedFd<'_>,
        events: BorrowedFd<'_>,
    ) -> Vec<u64> {
        // r6: the context. r8: the buffer of this CPU. r7: the size of the strings.
        let mut code = vec![
            op(MOV_X, 6, 1, 0, 0),
            op(ST_DW, 10, 0, -8, 0),
            op(LD_MAP, 1, 0, 0, buffer.as_raw_fd()),
            0,
            op(MOV_X, 2, 10, 0, 0),
            op(ADD_K, 2, 0, 0, -8),
            op(CALL, 0, 0, 0, MAP_LOOKUP_ELEM),
            op(JNE_K, 0, 0, 2, 0),
            op(MOV_K, 0, 0, 0, 1),
            op(EXIT, 0, 0, 0, 0),
            op(MOV_X, 8, 0, 0, 0),
            op(ST_DW, 8, 0, 0, tracepoint as i32),
        ];
        if let Some(UserBytes { most, len_at, .. }) = self.bytes {
            let (at, most) = (self.bytes_at() as i32, most as i32);
            code.extend((0..(most + 7) / 8).map(|i| op(ST_DW, 8, 0, at + 8 + 8 * i, 0)));
            if let Some(len_at) = len_at {
                code.extend([op(LDX_DW, 2, 6, len_at as i32, 0), op(JLE_K, 2, 0, 1, most)]);
            }
            code.extend([
                op(MOV_K, 2, 0, 0, most),
                op(LDX_DW, 3, 6, bytes_address as i32, 0),
                op(MOV_X, 1, 8, 0, 0),
                op(ADD_K, 1, 0, 0, at + 8),
                op(CALL, 0, 0, 0, PROBE_READ_USER),
                op(STX_DW, 8, 0, at, 0),
            ]);
        }
        code.push(op(MOV_K, 7, 0, 0, 0));
        for (i, address) in addresses.iter().enumerate() {
            code.extend([
                op(LDX_DW, 3, 6, *address as i32, 0),
                op(MOV_X, 1, 8, 0, 0),
                op(ADD_K, 1, 0, 0, self.strings_at() as i32),
                op(ADD_X, 1, 7, 0, 0),
                op(MOV_K, 2, 0, 0, LONGEST as i32),
                op(CALL, 0, 0, 0, PROBE_READ_USER_STR),
                op(STX_DW, 8, 0, 8 + 8 * i as i32, 0),
                // An errno is a large number.
                op(JLE_K, 0, 0, 1, LONGEST as i32),
                op(MOV_K, 0, 0, 0, 0),
                op(ADD_X, 7, 0, 0, 0),
            ]);
        }
        code.extend([
            op(MOV_X, 1, 6, 0, 0),
            op(LD_MAP, 2, 0, 0, events.as_raw_fd()),
            0,
            op(MOV32_K, 3, 0, 0, CURRENT_CPU),
            op(MOV_X, 4, 8, 0, 0),
            op(MOV_X, 5, 7, 0, 0),
            op(ADD_K, 5, 0, 0, self.strings_at() as i32),
            op(CALL, 0, 0, 0, PERF_EVENT_OUTPUT),
            // Return 1, so that other tracers of the call still receive it.
            op(MOV_K, 0, 0, 0, 1),
            op(EXIT, 0, 0, 0, 0),
        ]);
        code
    }
}

/// Bytes at an address that are read in addition to strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserBytes {
    /// Their maximum number; a record has as many, the rest are zero.
    pub(crate) most: usize,
    /// The offset of their number in the tracepoint's record; without it, all are read.
    pub(crate) len_at: Option<usize>,
    /// The byte that replaces them if they could not be read.
    pub(crate) unread: u8,
}

impl UserBytes {
    /// The word of a futex and the two behind it, which glibc's mutexes have.
    pub(crate) const FUTEX: Self = Self { most: 12, len_at: None, unread: 0 };

    /// A `sockaddr` whose length is at an offset of the tracepoint's record: those of unix sockets are the longest.
    pub(crate) const fn socket_address(len_at: usize) -> Self {
        Self { most: MOST_BYTES, len_at: Some(len_at), unread: 0 }
    }

    /// The flags, the mode and the resolution of a `struct open_how`.
    pub(crate) const fn open_how(len_at: usize) -> Self {
        Self { most: 24, len_at: Some(len_at), unread: 0xff }
    }

    /// A `struct clone_args`.
    pub(crate) const fn clone_args(len_at: usize) -> Self {
        Self { most: 88, len_at: Some(len_at), unread: 0xff }
    }
}

/// The map through which programs write records, and that of their buffers.
#[derive(Debug)]
pub(crate) struct ProgramOutputs {
    events: OwnedFd,
    buffers: OwnedFd,
}

impl ProgramOutputs {
    pub(crate) fn new() -> Result<Self, Errno> {
        let entries = cpus::possible() as u32;
        let kind = MapKind { kind: PERF_EVENT_ARRAY, key: 4, value: 4, entries, flags: 0 };
        let buffers = MapKind { kind: PERCPU_ARRAY, key: 4, value: BUFFER as u32, entries: 1, flags: 0 };
        Ok(Self { events: calls::map(&kind, None)?, buffers: calls::map(&buffers, None)? })
    }

    /// Lets an event of type `SW_BPF_OUTPUT` write the records of its CPU.
    pub(crate) fn write_by(&self, cpu: u32, event: BorrowedFd<'_>) -> Result<(), Errno> {
        calls::put(self.events.as_fd(), cpu, [event.as_raw_fd() as u32, 0, 0, 0])
    }

    /// Loads a program for a tracepoint's event (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN). It reads the strings at
    /// these addresses, and bytes at another one.
    pub(crate) fn load(
        &self,
        tracepoint: u64,
        addresses: &[usize],
        bytes: Option<(usize, UserBytes)>,
    ) -> Result<OwnedFd, LoadError> {
        let layout = UserDataLayout { strings: addresses.len(), bytes: bytes.map(|(_, bytes)| bytes) };
        let at = bytes.map_or(0, |(at, _)| at);
        let code = layout.program(tracepoint, addresses, at, self.buffers.as_fd(), self.events.as_fd());
        calls::load(&BpfCode {
            runs: ProgramType::Tracepoint,
            instructions: &code,
            licence: c"GPL",
            types: None,
            caller: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_strings_and_bytes() {
        let bytes = Some(UserBytes::FUTEX);
        let layout = UserDataLayout { strings: 3, bytes };
        let words = [600u64, 3, -14i64 as u64, 2, 0, 0x0807_0605_0403_0201, 0x0c0b_0a09];
        let mut record: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        record.extend(b"/a\0b\0");
        let strings = [0, 1, 2].map(|i| layout.string(&record, i));
        assert_eq!(strings, [Some(&b"/a\0"[..]), None, Some(&b"b\0"[..])]);
        assert_eq!(layout.user_bytes(&record), Some(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12][..]));
        assert_eq!(UserDataLayout::of(&record), Some(600));
        record[32] = 1;
        assert_eq!((layout.user_bytes(&record), layout.string(&record[..58], 0)), (None, None));
        let most = UserDataLayout { strings: MOST_STRINGS, bytes: Some(UserBytes::socket_address(0)) };
        assert!(most.strings_at() + MOST_STRINGS * LONGEST <= BUFFER);
    }
}
