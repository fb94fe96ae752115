//! Encoding of records in the kernel's format: header, body, padding.

use super::{FileId, HEADER, Mmap, TaskRecord, misc, types};

/// Appends a record: header, body, zero padding to eight bytes. `None` when it exceeds the 16-bit size.
pub fn encode(out: &mut Vec<u8>, kind: u32, misc: u16, body: impl FnOnce(&mut Vec<u8>)) -> Option<()> {
    let at = out.len();
    out.extend_from_slice(&[0; HEADER]);
    body(out);
    while !(out.len() - at).is_multiple_of(8) {
        out.push(0);
    }
    let Ok(size) = u16::try_from(out.len() - at) else {
        out.truncate(at);
        return None;
    };
    out[at..at + 4].copy_from_slice(&kind.to_le_bytes());
    out[at + 4..at + 6].copy_from_slice(&misc.to_le_bytes());
    out[at + 6..at + 8].copy_from_slice(&size.to_le_bytes());
    Some(())
}

/// Appends a NUL-terminated name padded to eight bytes, like the kernel.
pub(super) fn put_name(out: &mut Vec<u8>, name: &[u8]) {
    out.extend_from_slice(name);
    out.push(0);
    let pad = name.len().wrapping_add(1).next_multiple_of(8) - name.len() - 1;
    out.extend(std::iter::repeat_n(0, pad));
}

impl Mmap<'_> {
    /// Appends an MMAP2 record (MMAP for the kernel's own maps, pid -1) with `trailer` as its sample id.
    pub fn encode(&self, out: &mut Vec<u8>, trailer: &[u8]) -> Option<()> {
        let (kind, mode) = if self.pid == -1 { (types::MMAP, misc::KERNEL) } else { (types::MMAP2, misc::USER) };
        let with_id = matches!(self.file, FileId::BuildId(_)) && kind == types::MMAP2;
        encode(out, kind, mode | if with_id { misc::MMAP_BUILD_ID } else { 0 }, |out| {
            out.extend_from_slice(&self.pid.to_le_bytes());
            out.extend_from_slice(&self.tid.to_le_bytes());
            for word in [self.start, self.len, self.pgoff] {
                out.extend_from_slice(&word.to_le_bytes());
            }
            if kind == types::MMAP2 {
                out.extend_from_slice(&self.file.encode());
                out.extend_from_slice(&self.prot.to_le_bytes());
                out.extend_from_slice(&self.flags.to_le_bytes());
            }
            put_name(out, self.name);
            out.extend_from_slice(trailer);
        })
    }
}

impl FileId {
    fn encode(&self) -> [u8; 24] {
        let mut out = [0; 24];
        match self {
            Self::None => {}
            Self::Inode { major, minor, inode, generation } => {
                out[..4].copy_from_slice(&major.to_le_bytes());
                out[4..8].copy_from_slice(&minor.to_le_bytes());
                out[8..16].copy_from_slice(&inode.to_le_bytes());
                out[16..].copy_from_slice(&generation.to_le_bytes());
            }
            Self::BuildId(id) => {
                out[0] = id.bytes().len() as u8;
                out[4..4 + id.bytes().len()].copy_from_slice(id.bytes());
            }
        }
        out
    }
}

/// Appends a COMM record.
pub fn encode_comm(out: &mut Vec<u8>, pid: i32, tid: i32, exec: bool, name: &[u8], trailer: &[u8]) -> Option<()> {
    encode(out, types::COMM, if exec { misc::COMM_EXEC } else { 0 }, |out| {
        out.extend_from_slice(&pid.to_le_bytes());
        out.extend_from_slice(&tid.to_le_bytes());
        put_name(out, name);
        out.extend_from_slice(trailer);
    })
}

/// Appends a CGROUP record.
pub fn encode_cgroup(out: &mut Vec<u8>, id: u64, path: &[u8], trailer: &[u8]) -> Option<()> {
    encode(out, types::CGROUP, 0, |out| {
        out.extend_from_slice(&id.to_le_bytes());
        put_name(out, path);
        out.extend_from_slice(trailer);
    })
}

pub(crate) fn encode_task(out: &mut Vec<u8>, exit: bool, task: &TaskRecord, trailer: &[u8]) -> Option<()> {
    encode(out, if exit { types::EXIT } else { types::FORK }, 0, |out| {
        for id in [task.pid, task.ppid, task.tid, task.ptid] {
            out.extend_from_slice(&id.to_le_bytes());
        }
        out.extend_from_slice(&task.time.to_le_bytes());
        out.extend_from_slice(trailer);
    })
}
