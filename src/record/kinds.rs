//! The record types and their bodies (perf_event_open(2) "MMAP layout", `enum perf_event_type`; user-space types from
//! tools/perf/util/event.h as described in perf.data-file-format.txt).

mod written;

pub use super::types;
pub(crate) use written::encode_task;
pub use written::{encode, encode_cgroup, encode_comm};

/// Bits of the header's `misc`.
pub mod misc {
    pub(crate) const CPUMODE_MASK: u16 = 7;
    /// `PERF_RECORD_MISC_KERNEL`: the CPU ran kernel code, or the mapping is of kernel code.
    pub const KERNEL: u16 = 1;
    pub(crate) const USER: u16 = 2;
    pub(crate) const GUEST_KERNEL: u16 = 4;
    pub(crate) const GUEST_USER: u16 = 5;
    pub(crate) const COMM_EXEC: u16 = 1 << 13;
    pub(crate) const SWITCH_OUT: u16 = 1 << 13;
    pub(crate) const MMAP_DATA: u16 = 1 << 13;
    pub(crate) const MMAP_BUILD_ID: u16 = 1 << 14;
    /// `PERF_RECORD_MISC_LOST_SAMPLES_BPF`: a filter of perf dropped the samples.
    pub(crate) const FILTERED_SAMPLES: u16 = 1 << 15;
}

/// Length of a record's header.
pub const HEADER: usize = 8;

/// `struct perf_event_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// A type of `enum perf_event_type`, or from 64 on one of perf's own (see [`types`]).
    pub kind: u32,
    /// The CPU mode in the lower three bits, and bits whose meaning depends on the type (see [`misc`]).
    pub misc: u16,
    /// The size of the whole record, including the header.
    pub size: u16,
}

impl Header {
    /// Reads a header; `None` for fewer than [`HEADER`] bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let b: &[u8; HEADER] = bytes.first_chunk()?;
        Some(Self {
            kind: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            misc: u16::from_le_bytes([b[4], b[5]]),
            size: u16::from_le_bytes([b[6], b[7]]),
        })
    }
}

/// The flag of a symbol's record that has a source behind the name, where perf reads nothing.
pub(super) const HAS_SOURCE: u16 = 1 << 15;

/// The reason why bytes cannot be read as a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A record smaller than its header, so that the start of the next record is unknown.
    #[error("record of type {kind} has size {size}, less than its header")]
    TooSmall {
        /// The type in its header.
        kind: u32,
        /// The size in its header.
        size: u16,
    },
    /// A record whose end has not arrived, or was cut off.
    #[error("record of type {kind} ends {missing} bytes past the end of the data")]
    Truncated {
        /// The type in its header.
        kind: u32,
        /// The number of missing bytes.
        missing: usize,
    },
    /// A record that is shorter than its type or its event's layout requires.
    #[error("record of type {kind} is too short for its {field}")]
    Short {
        /// The type in its header.
        kind: u32,
        /// The first incomplete field.
        field: &'static str,
    },
}

pub(crate) type Split<'a> = (Header, &'a [u8], &'a [u8]);

/// Splits off the first record: returns its header and body (including the trailer), and the bytes after it.
pub fn split(bytes: &[u8]) -> Result<Option<Split<'_>>, RecordError> {
    let Some(header) = Header::read(bytes) else { return Ok(None) };
    let size = usize::from(header.size);
    if size < HEADER {
        return Err(RecordError::TooSmall { kind: header.kind, size: header.size });
    }
    if size > bytes.len() {
        return Err(RecordError::Truncated { kind: header.kind, missing: size - bytes.len() });
    }
    Ok(Some((header, &bytes[HEADER..size], &bytes[size..])))
}

/// An iterator over complete records, each from its header on.
pub(crate) struct WholeRecords<'a> {
    /// The bytes after the last returned record.
    pub(crate) rest: &'a [u8],
}

impl<'a> Iterator for WholeRecords<'a> {
    type Item = (Header, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let header = Header::read(self.rest)?;
        let (record, rest) = self.rest.split_at_checked(usize::from(header.size).max(HEADER))?;
        self.rest = rest;
        Some((header, record))
    }
}

/// A build id, at most 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BuildId {
    len: u8,
    bytes: [u8; 20],
}

impl BuildId {
    /// Returns `None` for no bytes, or too many for a build id.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { len: bytes.len() as u8, bytes: [0; 20] };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(id)
    }

    /// Parses an id in its displayed form, two digits per byte.
    pub(crate) fn of_hex(text: &str) -> Option<Self> {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let is_hex = text.len().is_multiple_of(2) && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        Self::new(&text.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>().filter(|_| is_hex)?)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl std::fmt::Display for BuildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl std::fmt::Debug for BuildId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// The identity of the file behind a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum FileId {
    /// No identity other than the path, as for anonymous memory and records of type MMAP.
    #[default]
    None,
    /// The inode of the mapped file.
    Inode {
        /// The major device number, as in `/proc/PID/maps`.
        major: u32,
        /// The minor device number.
        minor: u32,
        /// The number of the inode on that device.
        inode: u64,
        /// The generation, which distinguishes the inode from earlier ones with its number (`ino_generation`).
        generation: u64,
    },
    /// The build id, a note from the linker, which is independent of path and inode.
    BuildId(BuildId),
}

/// A new executable mapping; names are raw bytes of the profiled process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// The process; -1 for the kernel's own code.
    pub pid: i32,
    /// The thread that mapped it.
    pub tid: i32,
    /// The first address.
    pub start: u64,
    /// The length in bytes.
    pub len: u64,
    /// The file offset of `start`, in bytes; for the kernel itself the address of its text.
    pub pgoff: u64,
    /// The file's identity from the kernel or the recorder.
    pub file: FileId,
    /// `PROT_*` bits of mmap(2): 4 for code.
    pub prot: u32,
    /// `MAP_*` bits of mmap(2); 0 if the record does not have them.
    pub flags: u32,
    /// The path of the file, or a placeholder: `//anon`, `[vdso]`, `[kernel.kallsyms]_text`.
    pub name: &'a [u8],
}

/// The body of FORK and EXIT records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRecord {
    /// The process of the thread.
    pub pid: i32,
    /// The process of the parent thread.
    pub ppid: i32,
    /// The thread.
    pub tid: i32,
    /// The parent thread.
    pub ptid: i32,
    /// The time of the event, in nanoseconds of the session's clock.
    pub time: u64,
}

/// A decoded side-band record. Samples are decoded by [`super::Layout`], which knows their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// New memory of a process or of the kernel.
    Mmap(Mmap<'a>),
    /// A new name of a thread.
    Comm {
        /// The process of the thread.
        pid: i32,
        /// The thread with the new name.
        tid: i32,
        /// Whether the name is from an exec, so that the process has a new program; otherwise a thread has set it.
        exec: bool,
        /// The name, at most 15 bytes on current kernels.
        name: &'a [u8],
    },
    /// A new thread, which is a new process if its two process ids differ.
    Fork(TaskRecord),
    /// The exit of a thread.
    Exit(TaskRecord),
    /// Records that did not fit in a ring.
    Lost {
        /// The id of the event that wrote to the ring next, not necessarily the event that lost them.
        id: u64,
        /// The number of records, of any type.
        lost: u64,
    },
    /// Samples that did not fit in a hardware buffer, such as that of PEBS. perf also writes it for full rings.
    LostSamples {
        /// The number of samples.
        lost: u64,
    },
    /// The start of throttling an event that sampled faster than the kernel permits.
    Throttle {
        /// Nanoseconds of the event's clock.
        time: u64,
        /// The event's id.
        id: u64,
    },
    /// The end of throttling an event.
    Unthrottle {
        /// Nanoseconds of the event's clock.
        time: u64,
        /// The event's id.
        id: u64,
    },
    /// A kernel symbol that was added or removed: of a BPF program, a trampoline, a page of kprobes.
    Ksymbol {
        /// The address of its first byte.
        addr: u64,
        /// Bytes of its code.
        len: u32,
        /// Whether it was removed.
        unregister: bool,
        /// The name in /proc/kallsyms.
        name: &'a [u8],
        /// Of an interpreted function, the bytes that begin with its source; else empty.
        source: &'a [u8],
    },
    /// A cgroup that was created, or existed when recording began.
    Cgroup {
        /// Its id in samples (`PERF_SAMPLE_CGROUP`).
        id: u64,
        /// The path from the root of its hierarchy, starting with `/`.
        path: &'a [u8],
    },
    /// A BPF program that was loaded or unloaded.
    Bpf {
        /// Whether it was unloaded.
        unload: bool,
        /// The kernel's id of the program while it is loaded (bpf(2)).
        id: u32,
        /// The hash of its instructions, which bpftool shows and its symbol's name contains.
        tag: [u8; 8],
    },
    /// A change of the kernel's own code.
    TextPoke {
        /// The address of the first changed byte.
        addr: u64,
        /// The bytes before.
        old: &'a [u8],
        /// The bytes after.
        new: &'a [u8],
    },
    /// A type that is passed on without decoding it.
    Other,
}

/// A reader of little-endian fields from the front of a body.
pub(super) struct RecordCursor<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) kind: u32,
}

impl<'a> RecordCursor<'a> {
    pub(crate) fn take(&mut self, n: usize, field: &'static str) -> Result<&'a [u8], RecordError> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(RecordError::Short { kind: self.kind, field })?;
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], RecordError> {
        let (head, tail) = self.rest.split_first_chunk().ok_or(RecordError::Short { kind: self.kind, field })?;
        self.rest = tail;
        Ok(*head)
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, RecordError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// Reads a word that is present only if its event requests it; else returns 0.
    pub(crate) fn u64_if(&mut self, is_there: bool, field: &'static str) -> Result<u64, RecordError> {
        if is_there { self.u64(field) } else { Ok(0) }
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, RecordError> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, RecordError> {
        Ok(self.u32(field)? as i32)
    }

    fn name(&mut self) -> &'a [u8] {
        let end = memchr::memchr(0, self.rest).unwrap_or(self.rest.len());
        &self.rest[..end]
    }
}

impl<'a> Record<'a> {
    /// Decodes a side-band record's body. `build_ids` says whether an event of its source requested build ids: once any
    /// event on the machine has, kernels also set the flag in other events' records, which have an inode there.
    pub fn decode(header: Header, body: &'a [u8], build_ids: bool) -> Result<Self, RecordError> {
        let mut c = RecordCursor { rest: body, kind: header.kind };
        Ok(match header.kind {
            types::MMAP | types::MMAP2 => Self::Mmap(mmap(&mut c, header, build_ids)?),
            types::COMM => Self::Comm {
                pid: c.i32("pid")?,
                tid: c.i32("tid")?,
                exec: header.misc & misc::COMM_EXEC != 0,
                name: c.name(),
            },
            types::FORK => Self::Fork(task(&mut c)?),
            types::EXIT => Self::Exit(task(&mut c)?),
            types::LOST => Self::Lost { id: c.u64("id")?, lost: c.u64("count")? },
            types::CGROUP => Self::Cgroup { id: c.u64("id")?, path: c.name() },
            types::LOST_SAMPLES => Self::LostSamples { lost: c.u64("count")? },
            types::THROTTLE => Self::Throttle { time: c.u64("time")?, id: c.u64("id")? },
            types::UNTHROTTLE => Self::Unthrottle { time: c.u64("time")?, id: c.u64("id")? },
            types::KSYMBOL => {
                let (addr, len, flags) = (c.u64("address")?, c.u32("length")?, c.u32("flags")?);
                let (name, has_source) = (c.name(), flags >> 16 & u32::from(HAS_SOURCE) != 0);
                let source = c.rest.get(name.len() + 1..).filter(|_| has_source).unwrap_or_default();
                Self::Ksymbol { addr, len, unregister: flags >> 16 & 1 == 1, name, source }
            }
            types::BPF_EVENT => {
                let (kind, id) = (c.u32("type")? & 0xffff, c.u32("id")?);
                Self::Bpf { unload: kind == 2, id, tag: c.u64("tag")?.to_le_bytes() }
            }
            types::TEXT_POKE => {
                let (addr, lengths) = (c.u64("address")?, c.u32("lengths")?);
                let old = c.take((lengths & 0xffff) as usize, "old code")?;
                Self::TextPoke { addr, old, new: c.take((lengths >> 16) as usize, "new code")? }
            }
            _ => Self::Other,
        })
    }
}

fn task(c: &mut RecordCursor<'_>) -> Result<TaskRecord, RecordError> {
    Ok(TaskRecord {
        pid: c.i32("pid")?,
        ppid: c.i32("ppid")?,
        tid: c.i32("tid")?,
        ptid: c.i32("ptid")?,
        time: c.u64("time")?,
    })
}

fn mmap<'a>(c: &mut RecordCursor<'a>, header: Header, build_ids: bool) -> Result<Mmap<'a>, RecordError> {
    let (pid, tid) = (c.i32("pid")?, c.i32("tid")?);
    let (start, len, pgoff) = (c.u64("address")?, c.u64("length")?, c.u64("offset")?);
    let mut map = Mmap { pid, tid, start, len, pgoff, file: FileId::None, prot: 4, flags: 0, name: &[] };
    if header.kind == types::MMAP2 {
        let id = c.take(24, "file identity")?;
        map.file = if build_ids && header.misc & misc::MMAP_BUILD_ID != 0 {
            id.get(4..4 + usize::from(id[0])).and_then(BuildId::new).map_or(FileId::None, FileId::BuildId)
        } else {
            let mut f = RecordCursor { rest: id, kind: header.kind };
            FileId::Inode {
                major: f.u32("device")?,
                minor: f.u32("device")?,
                inode: f.u64("inode")?,
                generation: f.u64("inode")?,
            }
        };
        map.prot = c.u32("protection")?;
        map.flags = c.u32("flags")?;
    } else if header.misc & misc::MMAP_DATA != 0 {
        map.prot = 0;
    }
    map.name = c.name();
    Ok(map)
}

#[cfg(test)]
pub(crate) mod tests;
