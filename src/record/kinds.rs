//! The record types and their bodies (perf_event_open(2) "MMAP layout", `enum perf_event_type`;
//! user-space types from tools/perf/util/event.h as described in perf.data-file-format.txt).

mod written;

pub use super::types;
pub(crate) use written::encode_task;
pub use written::{encode, encode_cgroup, encode_comm};

/// Bits of the header's `misc`.
pub mod misc {
    pub(crate) const CPUMODE_MASK: u16 = 7;
    /// `PERF_RECORD_MISC_KERNEL`: kernel code ran, or the mapping is of it.
    pub const KERNEL: u16 = 1;
    pub(crate) const USER: u16 = 2;
    pub(crate) const GUEST_KERNEL: u16 = 4;
    pub(crate) const GUEST_USER: u16 = 5;
    pub(crate) const COMM_EXEC: u16 = 1 << 13;
    pub(crate) const SWITCH_OUT: u16 = 1 << 13;
    pub(crate) const MMAP_DATA: u16 = 1 << 13;
    pub(crate) const MMAP_BUILD_ID: u16 = 1 << 14;
}

/// Length of a record's header.
pub const HEADER: usize = 8;

/// `struct perf_event_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// A type of `enum perf_event_type`, or from 64 on one of perf's own (see [`types`]).
    pub kind: u32,
    /// The mode of the CPU in the lower three bits, and bits that mean something else for each type (see [`misc`]).
    pub misc: u16,
    /// Of the whole record, header included.
    pub size: u16,
}

impl Header {
    /// Reads a header; `None` when fewer than [`HEADER`] bytes are there.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let b: &[u8; HEADER] = bytes.first_chunk()?;
        Some(Self {
            kind: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            misc: u16::from_le_bytes([b[4], b[5]]),
            size: u16::from_le_bytes([b[6], b[7]]),
        })
    }
}

/// The reason why bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A record that could not even hold its own header: nothing says where the next one begins.
    #[error("record of type {kind} has size {size}, less than its header")]
    TooSmall {
        /// The type that its header says.
        kind: u32,
        /// The bytes that its header says.
        size: u16,
    },
    /// A record whose end is not there yet, or was cut off.
    #[error("record of type {kind} ends {missing} bytes after what is there")]
    Truncated {
        /// The type that its header says.
        kind: u32,
        /// Bytes of it that are not there.
        missing: usize,
    },
    /// A record with less in it than its type or its event's layout asks for.
    #[error("record of type {kind} is too short for its {field}")]
    Short {
        /// The type that its header says.
        kind: u32,
        /// The first field that is not whole.
        field: &'static str,
    },
}

/// A record's header and body, and the bytes after it.
pub(crate) type Split<'a> = (Header, &'a [u8], &'a [u8]);

/// Splits the first record off: its header and body (trailer included), and the bytes after it.
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

/// Whole records, one after the other, each from its header on.
pub(crate) struct WholeRecords<'a> {
    /// What is behind the last one that was given.
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

/// A kernel build id, at most 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BuildId {
    len: u8,
    bytes: [u8; 20],
}

impl BuildId {
    /// `None` when the bytes are none or too many for a build id.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { len: bytes.len() as u8, bytes: [0; 20] };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (!bytes.is_empty()).then_some(id)
    }

    /// An id as it is shown, two digits a byte.
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
    /// Nothing that tells it from others of its path, as of memory without a file and of records of type MMAP.
    #[default]
    None,
    /// The file as the kernel had it open.
    Inode {
        /// The upper part of the device's number, as in `/proc/PID/maps`.
        major: u32,
        /// The lower part.
        minor: u32,
        /// The number of the inode on that device.
        inode: u64,
        /// The number that tells the inode from earlier ones of its number (`ino_generation`).
        generation: u64,
    },
    /// The note that the linker put into the file, whatever its path and inode are.
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
    /// Bytes of addresses.
    pub len: u64,
    /// Where in the file `start` is, in bytes; of the kernel itself the address of its text.
    pub pgoff: u64,
    /// The identity that the kernel or the recorder told.
    pub file: FileId,
    /// `PROT_*` bits of mmap(2): 4 for code.
    pub prot: u32,
    /// `MAP_*` bits of mmap(2); 0 where the record does not tell them.
    pub flags: u32,
    /// The path of the file, or what stands for it: `//anon`, `[vdso]`, `[kernel.kallsyms]_text`.
    pub name: &'a [u8],
}

/// FORK and EXIT share their shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its process.
    pub pid: i32,
    /// The process of the thread that made it.
    pub ppid: i32,
    /// Its number.
    pub tid: i32,
    /// The thread that made it.
    pub ptid: i32,
    /// When that was, in nanoseconds of the session's clock.
    pub time: u64,
}

/// A decoded side-band record. Samples are decoded by [`super::Layout`], which knows their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// New memory of a process or of the kernel.
    Mmap(Mmap<'a>),
    /// A new name of a thread.
    Comm {
        /// The process that it is a thread of.
        pid: i32,
        /// The thread that has the name.
        tid: i32,
        /// Whether an exec gave it, so that the process has a new program; else it was the thread itself or another
        /// one.
        exec: bool,
        /// The name, at most 15 bytes as kernels have it.
        name: &'a [u8],
    },
    /// A new thread, which is a new process where its two process ids differ.
    Fork(Task),
    /// The end of a thread.
    Exit(Task),
    /// Records that had no room in a ring.
    Lost {
        /// The id of the event that wrote to the ring next, whichever lost them.
        id: u64,
        /// The number of records, of whatever types.
        lost: u64,
    },
    /// Samples that hardware which writes them itself, such as PEBS, had no room for; perf writes such a record for
    /// those of full rings, too.
    LostSamples {
        /// The number of samples.
        lost: u64,
    },
    /// The stop of an event that sampled more often than the kernel lets it.
    Throttle {
        /// Nanoseconds of the event's clock.
        time: u64,
        /// The event's id.
        id: u64,
    },
    /// The end of such a stop.
    Unthrottle {
        /// Nanoseconds of the event's clock.
        time: u64,
        /// The event's id.
        id: u64,
    },
    /// A symbol of the kernel that came or went: of a BPF program, a trampoline, a page of kprobes.
    Ksymbol {
        /// The address of its first byte.
        addr: u64,
        /// Bytes of its code.
        len: u32,
        /// Whether it went.
        unregister: bool,
        /// The name as /proc/kallsyms has it.
        name: &'a [u8],
    },
    /// A cgroup that was made, or was there when recording began.
    Cgroup {
        /// The id that samples carry of it (`PERF_SAMPLE_CGROUP`).
        id: u64,
        /// The path from the root of its hierarchy on, `/` first.
        path: &'a [u8],
    },
    /// A BPF program came or went.
    Bpf {
        /// Whether it went.
        unload: bool,
        /// The number that the kernel knows the program by while it is loaded (bpf(2)).
        id: u32,
        /// The hash of its instructions, which bpftool shows and its symbol's name holds.
        tag: [u8; 8],
    },
    /// The kernel changed its own code.
    TextPoke {
        /// The address of the first byte that changed.
        addr: u64,
        /// The bytes before.
        old: &'a [u8],
        /// The bytes from then on.
        new: &'a [u8],
    },
    /// A type that we carry but do not read.
    Other,
}

/// Reads little-endian fields from the front of a body.
pub(super) struct Cursor<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) kind: u32,
}

impl<'a> Cursor<'a> {
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

    /// A word that is there only where its event asks for it; else 0.
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
    /// Decodes a side-band record's body. `build_ids` says whether an event of its source asked for build ids: kernels
    /// mark other events' records, too, once one on the machine has asked, and those have an inode there.
    pub fn decode(header: Header, body: &'a [u8], build_ids: bool) -> Result<Self, RecordError> {
        let mut c = Cursor { rest: body, kind: header.kind };
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
                Self::Ksymbol { addr, len, unregister: flags >> 16 & 1 == 1, name: c.name() }
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

fn task(c: &mut Cursor<'_>) -> Result<Task, RecordError> {
    Ok(Task {
        pid: c.i32("pid")?,
        ppid: c.i32("ppid")?,
        tid: c.i32("tid")?,
        ptid: c.i32("ptid")?,
        time: c.u64("time")?,
    })
}

fn mmap<'a>(c: &mut Cursor<'a>, header: Header, build_ids: bool) -> Result<Mmap<'a>, RecordError> {
    let (pid, tid) = (c.i32("pid")?, c.i32("tid")?);
    let (start, len, pgoff) = (c.u64("address")?, c.u64("length")?, c.u64("offset")?);
    let mut map = Mmap { pid, tid, start, len, pgoff, file: FileId::None, prot: 4, flags: 0, name: &[] };
    if header.kind == types::MMAP2 {
        let id = c.take(24, "file identity")?;
        map.file = if build_ids && header.misc & misc::MMAP_BUILD_ID != 0 {
            id.get(4..4 + usize::from(id[0])).and_then(BuildId::new).map_or(FileId::None, FileId::BuildId)
        } else {
            let mut f = Cursor { rest: id, kind: header.kind };
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
