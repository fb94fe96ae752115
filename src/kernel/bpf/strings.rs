//! BPF programs that read the strings, futexes and socket addresses that a system call names while the calling task's
//! memory is readable, and write them as a separate record before the call's record.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::calls::{
    self, ADD_K, BpfCode, CALL, EXIT, LD_MAP, LDX_DW, LoadError, MOV_K, MOV_X, MapKind, PERF_EVENT_ARRAY, ProgramType,
    op,
};
use crate::kernel::machine::cpus;
use crate::kernel::perf_event::sys::Errno;

/// Bytes of a program's stack, which holds all that it writes.
const STACK: usize = 512;
/// The maximum length of a string, including its NUL.
const LONGEST: usize = 248;

// Instructions (Documentation/bpf/standardization/instruction-set.rst).
const STX_DW: u64 = 0x7b;
const ST_DW: u64 = 0x7a;
const MOV32_K: u64 = 0xb4;
const JLE_K: u64 = 0xb5;

// Helpers (bpf-helpers(7)).
const PERF_EVENT_OUTPUT: i32 = 25;
const PROBE_READ_USER: i32 = 112;
const PROBE_READ_USER_STR: i32 = 114;
/// `BPF_F_CURRENT_CPU`.
const CURRENT_CPU: i32 = -1;

/// The layout of a record: the tracepoint, then each string's length or errno, then the strings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringLayout {
    strings: usize,
}

impl StringLayout {
    /// Returns the layout of `strings` strings, at least one.
    pub(crate) fn new(strings: usize) -> Self {
        Self { strings: strings.max(1) }
    }

    /// Returns the bytes that a string may have, including its NUL.
    pub(crate) fn room(self) -> usize {
        ((STACK - 16) / self.strings - 8).min(LONGEST) & !7
    }

    fn size(self) -> usize {
        8 + self.strings * (8 + self.room())
    }

    /// Returns the tracepoint that a record belongs to.
    pub(crate) fn of(record: &[u8]) -> Option<u64> {
        record.first_chunk().map(|tag| u64::from_le_bytes(*tag))
    }

    /// Returns a string with its NUL; `None` if it could not be read. A string that fills its room is truncated.
    pub(crate) fn string(self, record: &[u8], i: usize) -> Option<&[u8]> {
        let length = record.get(8 + 8 * i..)?.first_chunk().map(|length| i64::from_le_bytes(*length))?;
        let length = usize::try_from(length).ok().filter(|length| (1..=self.room()).contains(length))?;
        record.get(8 + 8 * self.strings + i * self.room()..)?.get(..length)
    }

    /// Generates the program for strings whose addresses are at these offsets in a tracepoint's record.
    fn program(self, tracepoint: u64, addresses: &[usize], events: BorrowedFd<'_>) -> Vec<u64> {
        // r6: the context. The stack from `base` on is the record.
        let base = -(self.size() as i32);
        let mut code = vec![op(MOV_X, 6, 1, 0, 0), op(ST_DW, 10, 0, base, tracepoint as i32)];
        for (i, address) in addresses.iter().enumerate() {
            let (length, string) = (8 + 8 * i, 8 + 8 * self.strings + i * self.room());
            code.extend([
                op(LDX_DW, 3, 6, *address as i32, 0),
                op(MOV_X, 1, 10, 0, 0),
                op(ADD_K, 1, 0, 0, base + string as i32),
                op(MOV_K, 2, 0, 0, self.room() as i32),
                op(CALL, 0, 0, 0, PROBE_READ_USER_STR),
                op(STX_DW, 10, 0, base + length as i32, 0),
            ]);
        }
        // The last string, which is the only one of most calls, is written without padding: r7 is its length.
        let before_it = self.size() - self.room();
        code.extend([
            op(MOV_X, 7, 0, 0, 0),
            op(JLE_K, 7, 0, 1, self.room() as i32),
            op(MOV_K, 7, 0, 0, self.room() as i32),
        ]);
        output(&mut code, base, &[op(MOV_X, 5, 7, 0, 0), op(ADD_K, 5, 0, 0, before_it as i32)], events);
        code
    }
}

/// Adds the end of a program: it writes the record, which is on the stack from `base` on. `size` puts its size into r5,
/// and r6 is the context.
fn output(code: &mut Vec<u64>, base: i32, size: &[u64], events: BorrowedFd<'_>) {
    code.extend([
        op(MOV_X, 1, 6, 0, 0),
        op(LD_MAP, 2, 0, 0, events.as_raw_fd()),
        0,
        op(MOV32_K, 3, 0, 0, CURRENT_CPU),
        op(MOV_X, 4, 10, 0, 0),
        op(ADD_K, 4, 0, 0, base),
    ]);
    code.extend(size);
    code.extend([
        op(CALL, 0, 0, 0, PERF_EVENT_OUTPUT),
        // Return 1, so that other tracers of the call still receive it.
        op(MOV_K, 0, 0, 0, 1),
        op(EXIT, 0, 0, 0, 0),
    ]);
}

/// Bytes at an address that are read instead of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserBytes {
    /// Their maximum number; a record has as many, the rest are zero.
    pub(crate) most: usize,
    /// The offset of their number in the tracepoint's record; without it, all are read.
    pub(crate) len_at: Option<usize>,
}

impl UserBytes {
    /// The word of a futex and the two behind it, which glibc's mutexes have.
    pub(crate) const FUTEX: Self = Self { most: 12, len_at: None };

    /// A `sockaddr` whose length is at an offset of the tracepoint's record: those of unix sockets are the longest.
    pub(crate) const fn socket_address(len_at: usize) -> Self {
        Self { most: 112, len_at: Some(len_at) }
    }

    /// Returns the bytes in a record: the tracepoint, the result, the bytes. `None` if they could not be read.
    pub(crate) fn of(self, record: &[u8]) -> Option<&[u8]> {
        record.get(8..16)?.iter().all(|byte| *byte == 0).then(|| record.get(16..16 + self.most))?
    }

    /// Generates the program for bytes whose address is at this offset in a tracepoint's record.
    fn program(self, tracepoint: u64, address: usize, events: BorrowedFd<'_>) -> Vec<u64> {
        let (most, words) = (self.most as i32, self.most.div_ceil(8));
        let base = -(16 + 8 * words as i32);
        let mut code = vec![op(MOV_X, 6, 1, 0, 0), op(ST_DW, 10, 0, base, tracepoint as i32)];
        code.extend((0..words as i32).map(|i| op(ST_DW, 10, 0, base + 16 + 8 * i, 0)));
        if let Some(len_at) = self.len_at {
            code.extend([op(LDX_DW, 2, 6, len_at as i32, 0), op(JLE_K, 2, 0, 1, most)]);
        }
        code.extend([
            op(MOV_K, 2, 0, 0, most),
            op(LDX_DW, 3, 6, address as i32, 0),
            op(MOV_X, 1, 10, 0, 0),
            op(ADD_K, 1, 0, 0, base + 16),
            op(CALL, 0, 0, 0, PROBE_READ_USER),
            op(STX_DW, 10, 0, base + 8, 0),
        ]);
        output(&mut code, base, &[op(MOV_K, 5, 0, 0, 16 + most)], events);
        code
    }
}

#[derive(Debug)]
pub(crate) struct ProgramOutputs(OwnedFd);

impl ProgramOutputs {
    pub(crate) fn new() -> Result<Self, Errno> {
        let entries = cpus::possible() as u32;
        let kind = MapKind { kind: PERF_EVENT_ARRAY, key: 4, value: 4, entries, flags: 0 };
        Ok(Self(calls::map(&kind, None)?))
    }

    /// Lets an event of type `SW_BPF_OUTPUT` write the records of its CPU.
    pub(crate) fn write_by(&self, cpu: u32, event: BorrowedFd<'_>) -> Result<(), Errno> {
        calls::put(self.0.as_fd(), cpu, [event.as_raw_fd() as u32, 0, 0, 0])
    }

    /// Loads a program for a tracepoint's event (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN). It reads the strings at
    /// these addresses, or bytes at the only one.
    pub(crate) fn load(
        &self,
        tracepoint: u64,
        addresses: &[usize],
        bytes: Option<UserBytes>,
    ) -> Result<OwnedFd, LoadError> {
        let code = match (addresses, bytes) {
            ([address], Some(bytes)) => bytes.program(tracepoint, *address, self.0.as_fd()),
            _ => StringLayout::new(addresses.len()).program(tracepoint, addresses, self.0.as_fd()),
        };
        calls::load(&BpfCode { runs: ProgramType::Tracepoint, instructions: &code, licence: c"GPL", types: None })
    }
}
