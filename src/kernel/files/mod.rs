//! Output files: each appears complete or not at all, and is never written through a link of another user.

pub(crate) mod mapped;
pub(crate) mod read_file;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, fstat, mkdirat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::stdio::{stdin, stdout};

use super::process::privilege;

/// Mode of files that only the user may read: recordings reveal what the profiled processes do.
pub(crate) const PRIVATE: u32 = 0o600;

/// Opens a file that the user named for writing in place, either truncated or at its end.
pub(crate) fn open_named(path: &Path, append: bool) -> io::Result<File> {
    let how = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    let how = how | if append { OFlags::APPEND } else { OFlags::TRUNC };
    Ok(openat(CWD, path, how, Mode::from_raw_mode(0o644))?.into())
}

/// A file that appears under its name when it is committed. Dropped before that, it leaves nothing behind.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// `None` where the name is a device or a pipe, which are written directly.
    place: Option<Place>,
}

/// The destination of a file: names in a directory that is held open, so that a changed path cannot redirect the write.
#[derive(Debug)]
struct Place {
    folder: OwnedFd,
    name: OsString,
    /// The name that the user gave; differs from `name` if it is a link.
    asked: OsString,
    temporary: OsString,
    shown: PathBuf,
}

impl NewFile {
    /// Creates a file that the user named, readable by this user only.
    pub fn create(target: &Path) -> io::Result<Self> {
        Self::with_mode(target, PRIVATE)
    }

    pub(crate) fn with_mode(target: &Path, mode: u32) -> io::Result<Self> {
        let name_of = |path: &Path| path.file_name().map(OsStr::to_owned).ok_or(Errno::INVAL);
        let asked = name_of(target)?;
        let mut target = target.to_owned();
        for _ in 0..MOST_LINKS {
            if target.is_dir() {
                return Err(Errno::ISDIR.into());
            }
            if is_written_directly(&target) {
                let file = File::options().write(true).truncate(true).open(&target)?;
                return Ok(Self { file, place: None });
            }
            let above = target.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if let Some(next) = followed(&target)? {
                target = above.join(next);
                continue;
            }
            let folder = openat(CWD, above, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let mut new = Self::begin(folder, above, &name_of(&target)?, mode)?;
            new.place.iter_mut().for_each(|place| place.asked.clone_from(&asked));
            return Ok(new);
        }
        Err(Errno::LOOP.into())
    }

    fn begin(folder: OwnedFd, above: &Path, name: &OsStr, mode: u32) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..16 {
            let mut temporary = name.to_owned();
            temporary.push(format!(".part-{:08x}", RandomState::new().hash_one(()) as u32));
            match openat(&folder, &temporary, flags, Mode::from_raw_mode(mode)) {
                Ok(fd) => {
                    let shown = above.join(&temporary);
                    let place = Place { folder, name: name.to_owned(), asked: name.to_owned(), temporary, shown };
                    return Ok(Self { file: fd.into(), place: Some(place) });
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Moves the file to its name, replacing what is there. If that fails, the error says where the data is.
    pub(crate) fn commit(&mut self) -> io::Result<()> {
        self.put(false)
    }

    /// Commits the file; the previous one is kept as NAME.old.
    pub(crate) fn commit_beside_old(&mut self) -> io::Result<()> {
        self.put(true)
    }

    fn put(&mut self, keep_old: bool) -> io::Result<()> {
        let Some(place) = self.place.take() else { return Ok(()) };
        let put = || -> io::Result<()> {
            self.file.sync_all()?;
            let there = statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW);
            if keep_old && there.is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()) {
                let mut old = place.name.clone();
                old.push(".old");
                // Where the file system can exchange two names, the name exists at every moment.
                let (folder, swap) = (&place.folder, RenameFlags::EXCHANGE);
                if renameat_with(folder, &place.temporary, folder, &place.name, swap).is_ok() {
                    return Ok(renameat(folder, &place.temporary, folder, &old)?);
                }
                renameat(folder, &place.name, folder, &old)?;
            }
            Ok(renameat(&place.folder, &place.temporary, &place.folder, &place.name)?)
        };
        put().map_err(|error| {
            io::Error::new(error.kind(), format!("{error}; the data is kept as {}", place.shown.display()))
        })
    }

    /// Renames the file within its folder. A name equal to the user's keeps pointing to its link's target.
    pub(crate) fn call(&mut self, name: &OsStr) {
        if let Some(place) = self.place.as_mut().filter(|place| place.asked != name) {
            place.name = name.to_owned();
        }
    }

    pub(crate) fn keep(&mut self) -> Option<PathBuf> {
        self.place.take().map(|place| place.shown)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            let _ = unlinkat(&place.folder, &place.temporary, AtFlags::empty());
        }
    }
}

/// The maximum number of links to follow, like the kernel's (MAXSYMLINKS).
const MOST_LINKS: usize = 40;

/// Returns the target of a link whose owner we trust; `None` for a name that is not a link. Replacing the link by a
/// file could put the data on another file system than the user chose. A link of another user is an error, because it
/// could point to any file that we may write.
fn followed(name: &Path) -> io::Result<Option<PathBuf>> {
    let meta = match std::fs::symlink_metadata(name) {
        Ok(meta) if meta.is_symlink() => meta,
        _ => return Ok(None),
    };
    if !trusted().contains(&meta.uid()) {
        let why = "it is a link of another user and not followed; remove it, or name its target";
        return Err(io::Error::other(why));
    }
    std::fs::read_link(name).map(Some)
}

/// Returns whether a name is a trusted owner's device, pipe or descriptor. Others' are replaced like any file.
fn is_written_directly(target: &Path) -> bool {
    let Ok(meta) = std::fs::symlink_metadata(target) else { return false };
    let above = target.parent().and_then(|above| above.canonicalize().ok());
    // /dev/stdout is a link to a descriptor of any kind; replacing it would break it for every process.
    if above.is_some_and(|above| above == Path::new("/dev") || above.starts_with("/proc")) {
        return true;
    }
    let kind = match meta.is_symlink() {
        true => std::fs::metadata(target).map(|meta| meta.file_type()),
        false => Ok(meta.file_type()),
    };
    let special = kind.is_ok_and(|kind| kind.is_char_device() || kind.is_fifo());
    special && trusted().contains(&meta.uid())
}

pub(crate) fn stdin_is_pipe() -> bool {
    is_pipe(stdin())
}

pub(crate) fn stdout_is_pipe() -> bool {
    is_pipe(stdout())
}

fn is_pipe(file: BorrowedFd<'_>) -> bool {
    let stat = rustix::fs::fstat(file);
    stat.is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Fifo)
}

fn trusted() -> Vec<u32> {
    let caller = privilege::variable("SUDO_UID").and_then(|uid| uid.to_str()?.parse().ok());
    [0, rustix::process::geteuid().as_raw()].into_iter().chain(caller).collect()
}

/// A directory of our own files, below a base directory from the environment, such as the user's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPlace {
    pub(crate) base: PathBuf,
    pub(crate) below: PathBuf,
}

impl OwnPlace {
    pub(crate) fn new(base: impl Into<PathBuf>, below: impl Into<PathBuf>) -> Self {
        Self { base: base.into(), below: below.into() }
    }

    /// Returns an XDG directory from its variable, or from its default location in the home; `None` without either.
    pub(crate) fn of_user(variable: &str, in_home: &str, below: &str) -> Option<Self> {
        let own = privilege::directory(variable).map(|base| Self::new(base, below));
        own.or_else(|| privilege::directory("HOME").map(|home| Self::new(home, Path::new(in_home).join(below))))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.base.join(&self.below)
    }

    /// Creates a file in the directory, and missing directories on the way. Does not write in a home of another user,
    /// which HOME may be under sudo, and does not follow links below the home.
    pub(crate) fn create(&self, name: &str) -> io::Result<NewFile> {
        NewFile::begin(self.open()?, &self.path(), OsStr::new(name), PRIVATE)
    }

    /// Creates a link in the directory.
    pub(crate) fn link(&self, name: &str, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::symlinkat(to, self.open()?, name)?)
    }

    fn open(&self) -> io::Result<OwnedFd> {
        let me = rustix::process::geteuid().as_raw();
        let refuse = |path: &Path| {
            let why = format!("{} belongs to another user; nothing is written there", path.display());
            Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
        };
        // The owner of any directory on the path could redirect us.
        let there = |path: &Path| Some((path.to_owned(), std::fs::symlink_metadata(path).ok()?));
        if let Some((path, _)) =
            self.base.ancestors().filter_map(there).find(|(_, meta)| ![0, me].contains(&meta.uid()))
        {
            return refuse(&path);
        }
        let mut missing: Vec<&OsStr> = Vec::new();
        let mut base = self.base.as_path();
        while !base.is_dir() {
            let Some((name, above)) = base.file_name().zip(base.parent()) else { break };
            missing.push(name);
            base = above;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = openat(CWD, base, flags, Mode::empty())?;
        if missing.is_empty() && fstat(&folder)?.st_uid != me {
            return refuse(base);
        }
        let mut path = base.to_owned();
        for name in missing.into_iter().rev().chain(self.below.iter()) {
            path.push(name);
            match mkdirat(&folder, name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(io::Error::new(errno.kind(), format!("{}: {errno}", path.display()))),
            }
            folder = openat(&folder, name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(|errno| {
                let why = format!("{} is not a directory (links are not followed there): {errno}", path.display());
                io::Error::new(errno.kind(), why)
            })?;
            if fstat(&folder)?.st_uid != me {
                return refuse(&path);
            }
        }
        Ok(folder)
    }
}

pub(crate) fn unwritten(path: &Path, error: &io::Error) -> String {
    let advice = match error.kind() {
        _ if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => "; raise the limit with ulimit -n",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space, or choose another path",
        io::ErrorKind::FileTooLarge => "; raise the limit with ulimit -f, or choose another path",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => "; choose a path that you may write to",
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "; create its directory first",
        io::ErrorKind::IsADirectory => "; name a file in it",
        _ => "",
    };
    format!("{} was not written: {error}{advice}", path.display())
}

#[cfg(test)]
mod tests;
