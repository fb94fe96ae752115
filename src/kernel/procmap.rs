//! Executable mappings of a process by one query each (`PROCMAP_QUERY` of linux/fs.h, since Linux 6.11). The kernel does
//! not list mappings of data then, which are most of them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

const PROCMAP_QUERY: u64 = 0xc068_6611;
/// In `flags` of a query: the first executable mapping that ends after the address.
const EXECUTABLE: u64 = 4;
const COVERING_OR_NEXT: u64 = 16;
const PATH_MAX: usize = 4096;
/// More mappings than a process can have by default (`vm.max_map_count`).
const MOST: usize = 1 << 17;

/// `struct procmap_query`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Query {
    size: u64,
    flags: u64,
    address: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    /// Readable 1, writable 2, executable 4, shared 8.
    pub(super) kind: u64,
    page_size: u64,
    pub(super) offset: u64,
    pub(super) inode: u64,
    pub(super) major: u32,
    pub(super) minor: u32,
    name_len: u32,
    build_id_len: u32,
    name: u64,
    build_id: u64,
}

/// Calls `each` with each executable mapping of an open /proc/PID/maps and its name, in address order. Fails if the
/// kernel does not support queries, or the process has gone.
pub(super) fn each_executable(maps: &File, mut each: impl FnMut(&Query, &[u8])) -> io::Result<()> {
    let (mut address, mut name) = (0, [0u8; PATH_MAX]);
    for _ in 0..MOST {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            flags: EXECUTABLE | COVERING_OR_NEXT,
            address,
            name_len: PATH_MAX as u32,
            name: name.as_mut_ptr() as u64,
            ..Query::default()
        };
        // SAFETY: the request reads and writes the structure that it has the size of, and writes up to `name_len`
        // bytes at `name`; both are ours and live until it returns.
        let done = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY as _, &raw mut query) };
        if done < 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ENOENT) { Ok(()) } else { Err(error) };
        }
        // The length includes a NUL.
        let len = (query.name_len as usize).saturating_sub(1);
        each(&query, &name[..len.min(PATH_MAX)]);
        if query.end <= address {
            return Ok(());
        }
        address = query.end;
    }
    Ok(())
}
