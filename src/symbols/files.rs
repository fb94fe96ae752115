//! Finds the file that was really mapped: through the process while it lives (so containers and
//! deleted binaries resolve), else by its path when device and inode or build id agree.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::kernel::procfs;
use crate::record::kinds::{BuildId, FileId};
use crate::session::Dso;

/// Files beyond this are not read for symbols.
const MAX_SIZE: u64 = 8 << 30;

/// Opens a DSO's file; each place that was tried is in the error's text.
pub fn open(dso: &Dso, live: bool) -> io::Result<File> {
    let path = PathBuf::from(OsStr::from_bytes(&dso.raw_path));
    let mut places: Vec<(PathBuf, bool)> = Vec::new();
    if let Some((pid, start, end)) = dso.via.filter(|_| live) {
        // map_files leads to the very inode that is mapped, whatever its name means now.
        places.push((PathBuf::from(format!("/proc/{pid}/map_files/{start:x}-{end:x}")), true));
        places.push((PathBuf::from(format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap_or(&path)), false));
    }
    places.push((path, false));
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for (place, exact) in places {
        match regular(&place) {
            Ok(file) if exact || is_same(&file, &dso.file) => return Ok(file),
            Ok(_) => {
                last =
                    io::Error::other(format!("{} is not the file that was mapped (it was replaced)", place.display()))
            }
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// The separate debug file of a build id, where distributions install them (gdb's "build ID"
/// method, `DEBUGDIR/.build-id/xx/yyyy.debug`).
pub fn debug(id: &BuildId, symfs: Option<&Path>) -> Option<File> {
    let hex = id.to_string();
    let name = format!("usr/lib/debug/.build-id/{}/{}.debug", hex.get(..2)?, hex.get(2..)?);
    let root = symfs.unwrap_or(Path::new("/"));
    regular(&root.join(name)).ok()
}

/// A file of a build-id cache as perf lays it out: `DIR/.build-id/xx/yyyy…` is a link to a directory
/// that holds it under the name of its kind, or to the file itself (perf-buildid-cache(1)).
pub fn in_cache(caches: &[PathBuf], id: &BuildId, kind: &str) -> Option<PathBuf> {
    let hex = id.to_string();
    let (head, tail) = (hex.get(..2)?, hex.get(2..)?);
    caches.iter().find_map(|dir| {
        let entry = dir.join(".build-id").join(head).join(tail);
        let inside = entry.join(kind);
        if inside.is_file() { Some(inside) } else { (kind != "debug" && entry.is_file()).then_some(entry) }
    })
}

/// Opens a regular file without blocking on what is none (a FIFO named like a library).
fn regular(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && meta.len() <= MAX_SIZE { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Device and inode as the mapping had them. A build id is compared once the file is parsed.
fn is_same(file: &File, id: &FileId) -> bool {
    let FileId::Inode { major, minor, inode, .. } = *id else { return true };
    let Ok(meta) = file.metadata() else { return false };
    let dev = meta.dev();
    // Some file systems (btrfs, overlay) show another device in maps than in stat: the inode
    // must agree, the device only where both are plain.
    meta.ino() == inode
        && (libc::major(dev) == major && libc::minor(dev) == minor || libc::major(dev) == 0 || major == 0)
}

/// The bytes of our own vDSO, which every process of this boot shares.
pub fn vdso() -> io::Result<Vec<u8>> {
    let pid = std::process::id() as i32;
    let map = procfs::exec_maps(pid).into_iter().find(|m| m.name == b"[vdso]").ok_or(io::ErrorKind::NotFound)?;
    let mut bytes = vec![0; (map.end - map.start) as usize];
    File::open("/proc/self/mem")?.read_exact_at(&mut bytes, map.start)?;
    Ok(bytes)
}
