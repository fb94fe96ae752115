//! Finds files: the one that was really mapped (through the process while it lives, so containers and
//! deleted programs resolve), and those that hold what was split off from it.
//!
//! Paths come from profiled processes and from recordings. They are followed inside the process's own
//! root, opened only when they are plain files, and read only where the process could have read them.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::resolver::Options;
use crate::kernel::procfs;
use crate::record::kinds::{BuildId, FileId};
use crate::session::Dso;

/// Files beyond this are not read for symbols.
const MAX_SIZE: u64 = 64 << 30;

/// Where a DSO's files are looked for.
#[derive(Debug)]
pub struct Places<'a> {
    dso: &'a Dso,
    options: &'a Options,
    /// The root directory of the process that had it mapped, and whose process that is.
    inside: Option<(File, Owner)>,
}

/// What a process may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    /// The owner of a process, by its directory in /proc.
    pub fn of(pid: i32) -> io::Result<Self> {
        let meta = std::fs::metadata(format!("/proc/{pid}"))?;
        Ok(Self { uid: meta.uid(), gid: meta.gid() })
    }

    fn may_read(self, meta: &Metadata) -> bool {
        let mode = meta.mode();
        self.uid == 0
            || mode & 0o004 != 0
            || mode & 0o400 != 0 && meta.uid() == self.uid
            || mode & 0o040 != 0 && meta.gid() == self.gid
    }
}

impl<'a> Places<'a> {
    pub fn new(dso: &'a Dso, options: &'a Options) -> Self {
        let pid = dso.via.filter(|_| options.live && options.symfs.is_none()).map(|(pid, ..)| pid);
        let inside = pid.and_then(|pid| Some((root_of(pid).ok()?, Owner::of(pid).ok()?)));
        Self { dso, options, inside }
    }

    /// The file itself.
    ///
    /// # Errors
    /// When it is nowhere, or another file has its name now.
    pub fn main(&self) -> io::Result<File> {
        if let Some((pid, start, end)) = self.dso.via.filter(|_| self.inside.is_some()) {
            // map_files leads to the very inode that is mapped, whatever its name means now.
            if let Ok(file) = plain(Path::new(&format!("/proc/{pid}/map_files/{start:x}-{end:x}"))) {
                return Ok(file);
            }
        }
        let path = self.path();
        let file = self.open(path)?;
        // A build id says more than an inode, and is compared once the file is read.
        let by_inode = self.options.symfs.is_none() && (self.options.live || self.dso.build_id.is_none());
        if by_inode && !is_same(&file, &self.dso.file) {
            let words = format!("{} is not the file that was mapped (it was replaced)", path.display());
            return Err(io::Error::other(words));
        }
        Ok(file)
    }

    /// What a cache of files by build id has of it: `elf`, `debug` or `vdso`.
    pub fn cached(&self, id: &BuildId, kind: &str) -> Option<File> {
        plain(&in_cache(&self.options.caches, id, kind)?).ok()
    }

    /// The separate debug file of a build id, where distributions install them (gdb's "build ID" method,
    /// `DEBUGDIR/.build-id/xx/yyyy.debug`), or in the caches of perf and of debuginfod.
    pub fn by_build_id(&self, id: &BuildId) -> Option<(File, PathBuf)> {
        let hex = id.to_string();
        let path: PathBuf = format!("/usr/lib/debug/.build-id/{}/{}.debug", hex.get(..2)?, hex.get(2..)?).into();
        let flat = self.options.symfs.as_ref().and_then(|root| {
            let path = root.join(format!(".build-id/{}/{}.debug", &hex[..2], &hex[2..]));
            Some((plain(&path).ok()?, path))
        });
        let cached = || self.cached(id, "debug").map(|file| (file, PathBuf::from("the build-id cache")));
        let fetched = || {
            let name = Path::new(&hex).join("debuginfo");
            self.options.debuginfod.iter().map(|dir| dir.join(&name)).find_map(|p| Some((plain(&p).ok()?, p)))
        };
        self.open(&path).ok().map(|file| (file, path.clone())).or(flat).or_else(cached).or_else(fetched)
    }

    /// A file that `.gnu_debuglink` names: beside the program, in `.debug` there, or below
    /// /usr/lib/debug (gdb's "debug link" method). The caller compares what is in it.
    pub fn by_link(&self, name: &[u8]) -> impl Iterator<Item = (File, PathBuf)> + '_ {
        let name = Path::new(OsStr::from_bytes(name)).file_name().map(PathBuf::from);
        let dir = self.path().parent().map(Path::to_path_buf);
        let below = |dir: &Path| Path::new("/usr/lib/debug").join(dir.strip_prefix("/").unwrap_or(dir));
        let list: Vec<PathBuf> = match (name, dir) {
            (Some(name), Some(dir)) => {
                vec![dir.join(&name), dir.join(".debug").join(&name), below(&dir).join(&name)]
            }
            _ => Vec::new(),
        };
        list.into_iter().filter_map(|path| Some((self.open(&path).ok()?, path)))
    }

    /// A file by its name, absolute or beside another one.
    pub fn beside(&self, base: &Path, name: &[u8]) -> Option<File> {
        let name = Path::new(OsStr::from_bytes(name));
        self.open(&base.parent()?.join(name)).ok()
    }

    fn path(&self) -> &Path {
        let raw = self.dso.raw_path.strip_suffix(b" (deleted)").unwrap_or(&self.dso.raw_path);
        Path::new(OsStr::from_bytes(raw))
    }

    /// Opens a path of the profiled machine: inside the process, below the directory that stands for that
    /// machine, or here.
    fn open(&self, path: &Path) -> io::Result<File> {
        if let Some(root) = &self.options.symfs {
            return plain(&root.join(path.strip_prefix("/").unwrap_or(path)));
        }
        if let Some((root, owner)) = &self.inside {
            let file = within(root, path)?;
            return if owner.may_read(&file.metadata()?) {
                Ok(file)
            } else {
                Err(io::Error::other(format!("{} may not be read by the process's user", path.display())))
            };
        }
        plain(path)
    }
}

/// The root directory of a process.
pub fn root_of(pid: i32) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    File::options().read(true).custom_flags(flags).open(format!("/proc/{pid}/root"))
}

/// Opens a plain file below a directory that is the root for links too (openat2(2), Linux 5.6).
pub fn within(root: &File, path: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let rules = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let place = openat2(root, path, flags, Mode::empty(), rules)?;
    reopen(&File::from(place))
}

/// Opens a plain file, and nothing else: to open a device can set something off, a FIFO blocks.
pub fn plain(path: &Path) -> io::Result<File> {
    reopen(&File::options().read(true).custom_flags(libc::O_PATH).open(path)?)
}

fn reopen(place: &File) -> io::Result<File> {
    let meta = place.metadata()?;
    if !meta.is_file() || meta.len() > MAX_SIZE {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no plain file"));
    }
    File::open(format!("/proc/self/fd/{}", place.as_raw_fd()))
}

/// A file of a build-id cache as perf lays it out: `DIR/.build-id/xx/yyyy…` is a link to a directory
/// that holds it under the name of its kind, or to the file itself (perf-buildid-cache(1)); or as debug
/// files are installed.
pub fn in_cache(caches: &[PathBuf], id: &BuildId, kind: &str) -> Option<PathBuf> {
    let hex = id.to_string();
    let (head, tail) = (hex.get(..2)?, hex.get(2..)?);
    caches.iter().find_map(|dir| {
        let entry = dir.join(".build-id").join(head).join(tail);
        let whole = if kind == "debug" { entry.with_file_name(format!("{tail}.debug")) } else { entry.clone() };
        [entry.join(kind), whole].into_iter().find(|path| path.is_file())
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_files_and_only_inside_the_root() {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::write(dir.path().join("inner"), b"inner").expect("write");
        std::os::unix::fs::symlink("/inner", dir.path().join("link")).expect("link");
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("out")).expect("link");
        let root = File::options().read(true).custom_flags(libc::O_PATH).open(dir.path()).expect("root");
        // A link is followed as the process would follow it: from its own root.
        let file = within(&root, Path::new("/link")).expect("inside");
        assert_eq!(file.metadata().expect("meta").len(), 5);
        assert!(within(&root, Path::new("/out")).is_err());
        assert!(within(&root, Path::new("/../../../../../../etc/passwd")).is_err());
        rustix::fs::mkfifoat(rustix::fs::CWD, dir.path().join("fifo"), Mode::RUSR).expect("fifo");
        assert!(plain(&dir.path().join("fifo")).is_err());
        assert!(plain(dir.path()).is_err());
        assert!(plain(Path::new("/dev/null")).is_err());
    }

    #[test]
    fn what_a_user_may_read() {
        use std::os::unix::fs::PermissionsExt;
        let file = tempfile::NamedTempFile::new().expect("file");
        let meta = |mode| {
            file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).expect("mode");
            file.as_file().metadata().expect("meta")
        };
        let own = meta(0o600).uid();
        let stranger = Owner { uid: own.wrapping_add(7), gid: u32::MAX };
        assert!(!stranger.may_read(&meta(0o600)) && stranger.may_read(&meta(0o604)));
        assert!(Owner { uid: own, ..stranger }.may_read(&meta(0o600)));
    }
}
