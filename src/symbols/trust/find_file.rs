//! Finds a DSO's mapped file, and its separate debug files.
//! While the process lives, files are opened through /proc, so that files of containers and deleted programs are found.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::door::{self, FileKind, RefusalKind, TrustedFileOpener, TrustedUids};
use super::same_file::{self, Likeness, Replaced};
use crate::kernel::machine::identity::Identity;
use crate::kernel::procfs;
use crate::record::kinds::{BuildId, FileId};
use crate::session::Dso;
use crate::symbols::options::SymbolOptions;

/// The search for a DSO's files.
#[derive(Debug)]
pub struct FileSearch<'a> {
    dso: &'a Dso,
    options: &'a SymbolOptions,
    pub(crate) door: TrustedFileOpener,
    inside: Inside,
}

/// Whether the tree is that of a process that mapped the DSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    No,
    Live,
    /// The recorded process, or another one that now has its PID.
    Survivor,
}

#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) file: File,
    /// Whether it is proven to be the mapped file. Also true if its build ID will be compared.
    pub(crate) proven: bool,
}

impl<'a> FileSearch<'a> {
    /// Searches the files that a live process sees, else those below the symfs directory, else this machine's.
    pub fn new(dso: &'a Dso, options: &'a SymbolOptions) -> io::Result<Self> {
        if let Some(door) = process_of(dso, options).and_then(|pid| of_process(pid).ok()) {
            return Ok(Self { dso, options, door, inside: Inside::Live });
        }
        let door = match &options.symfs {
            Some(root) => TrustedFileOpener::new(procfs::directory(root)?, options.authors.clone()),
            None => TrustedFileOpener::here(options.authors.clone())?,
        };
        Ok(Self { dso, options, door, inside: Inside::No })
    }

    /// Searches the files that a recorded process sees if it still runs.
    /// Finds files of containers, and files deleted or replaced since. A process that started later has the same PID by
    /// accident; only files with a build ID are looked up through it.
    pub(crate) fn of_survivor(dso: &'a Dso, options: &'a SymbolOptions) -> Option<Self> {
        let may = !options.live && options.symfs.is_none() && options.is_own_kernel(dso);
        let (pid, ..) = dso.via.filter(|_| may)?;
        if dso.build_id.is_none() && started_before_mapping(pid, dso, options).is_none() {
            return None;
        }
        let mut door = of_process(pid).ok()?;
        door.namers.extend(&options.authors);
        Some(Self { dso, options, door, inside: Inside::Survivor })
    }

    /// Adds the users who may have written a file. They influence every file opened from now on.
    pub(crate) fn hear(&mut self, file: &File) {
        self.door.namers.add_writers(file);
    }

    /// Opens the DSO's file itself. Fails if another file has its name now.
    pub(crate) fn main(&self) -> io::Result<FoundFile> {
        if let Some(file) = self.mapped() {
            return Ok(FoundFile { file, proven: true });
        }
        let flat = |path: &'a Path| path.file_name().map_or(path, Path::new);
        let is_flat = self.options.symfs.is_some() && self.options.flat;
        let layout = |path: &'a Path| if is_flat { flat(path) } else { path };
        let whole = layout(Path::new(OsStr::from_bytes(&self.dso.raw_path)));
        let other = layout(self.path());
        // The kernel appends ` (deleted)` to deleted files, but a name may also end like this.
        self.at(whole).or_else(|error| if other == whole { Err(error) } else { self.at(other) })
    }

    /// Opens the file that a process has mapped at the DSO's addresses.
    /// It may be another file by now: programs that load and unload plugins map them at the same address in turn.
    fn mapped(&self) -> Option<File> {
        let (pid, start, end) = self.dso.via.filter(|_| self.inside != Inside::No)?;
        let file = door::mapped(pid, start, end).ok()?;
        // Some file systems report other numbers in stat than in maps; then /proc/PID/maps is compared, too.
        let is_it = same_file::has_inode(&file, &self.dso.file) || is_listed(pid, start, end, &self.dso.file);
        is_it.then_some(file)
    }

    /// Opens the file at a path, if it is the one that was mapped.
    fn at(&self, path: &Path) -> io::Result<FoundFile> {
        let file = self.door.open(path, FileKind::Code)?;
        // A build ID is stronger than an inode, and is compared once the file is read.
        if self.options.symfs.is_some() || !self.options.live && self.dso.build_id.is_some() {
            return Ok(FoundFile { file, proven: true });
        }
        let likeness = match self.options.live {
            // Live, the file at this path is the one that was mapped.
            true if same_file::has_inode(&file, &self.dso.file) => Likeness::Same,
            true => Likeness::Other("another inode"),
            false => same_file::compare(&file, self.dso, self.options.times.wall(self.dso.since)),
        };
        match likeness {
            Likeness::Other(why) => Err(io::Error::other(Replaced(why))),
            likeness => Ok(FoundFile { file, proven: likeness == Likeness::Same }),
        }
    }

    /// Returns a cached file by build ID; `kind` is `elf`, `debug` or `vdso`.
    pub(crate) fn cached(&self, id: &BuildId, kind: &str) -> Option<File> {
        door::own(&in_cache(&self.options.caches, id, kind)?).ok()
    }

    /// Returns the separate debug file of a build ID. It is where distributions install it (gdb's "build ID" method,
    /// `DEBUGDIR/.build-id/xx/yyyy.debug`), or in the caches of perf and debuginfod.
    pub(crate) fn by_build_id(&self, id: &BuildId) -> Option<(File, PathBuf)> {
        let hex = id.to_string();
        let below = |dir: &str| Some(Path::new(dir).join(hex.get(..2)?).join(format!("{}.debug", hex.get(2..)?)));
        let installed = |dir| below(dir).and_then(|path| Some((self.code(&path)?, path)));
        let flat = || installed("/.build-id").filter(|_| self.options.symfs.is_some());
        let cached = || self.cached(id, "debug").map(|file| (file, PathBuf::from("the build-id cache")));
        let fetched = || {
            let name = Path::new(&hex).join("debuginfo");
            self.options.debuginfod.iter().map(|dir| dir.join(&name)).find_map(|p| Some((door::own(&p).ok()?, p)))
        };
        installed("/usr/lib/debug/.build-id").or_else(flat).or_else(cached).or_else(fetched)
    }

    /// Returns the candidates for the file in `.gnu_debuglink`. They are next to the program, in `.debug` there, or
    /// below /usr/lib/debug (gdb's "debug link" method). The caller compares checksums.
    pub(crate) fn by_link(&self, name: &[u8]) -> impl Iterator<Item = (File, PathBuf)> + '_ {
        let name = Path::new(OsStr::from_bytes(name)).file_name().map(PathBuf::from);
        let dir = self.path().parent().map(Path::to_path_buf);
        let below = |dir: &Path| Path::new("/usr/lib/debug").join(dir.strip_prefix("/").unwrap_or(dir));
        let list: Vec<PathBuf> = match (name, dir) {
            (Some(name), Some(dir)) => {
                vec![dir.join(&name), dir.join(".debug").join(&name), below(&dir).join(&name)]
            }
            _ => Vec::new(),
        };
        list.into_iter().filter_map(|path| Some((self.code(&path)?, path)))
    }

    /// Opens a file with code or debug information.
    pub(crate) fn code(&self, path: &Path) -> Option<File> {
        self.door.open(path, FileKind::Code).ok()
    }

    /// Opens a source file that debug information names; `namers` influenced that name. Fails like [`TrustedFileOpener::open`].
    pub fn source(&mut self, path: &Path, namers: &TrustedUids) -> io::Result<File> {
        self.door.namers.extend(namers);
        self.door.open(path, FileKind::Source)
    }

    /// Opens the file that a process's JIT writes at a path, which may have the PID in the process's own namespace.
    pub(crate) fn jit(&self, path: &Path, dump: bool) -> io::Result<File> {
        let file = self.jit_file(path, dump)?;
        match self.began().zip(same_file::written(&file)) {
            Some((began, written)) if !dump && written.saturating_add(OLDER_BY_NS) < began => {
                Err(RefusalKind::Older.of(path))
            }
            _ => Ok(file),
        }
    }

    /// Returns when the DSO's process started or made room for code. Its files cannot be older.
    fn began(&self) -> Option<u64> {
        let (pid, ..) = self.dso.via?;
        match self.inside {
            Inside::Live => procfs::started(pid),
            _ if self.options.symfs.is_some() || !self.options.is_own_kernel(self.dso) => None,
            _ => {
                let of_survivor = || started_before_mapping(pid, self.dso, self.options);
                self.options.times.earliest(self.dso.since).or_else(of_survivor)
            }
        }
    }

    fn jit_file(&self, path: &Path, dump: bool) -> io::Result<File> {
        let Some((pid, ..)) = self.dso.via.filter(|_| self.inside == Inside::Live) else {
            return self.door.believed(path);
        };
        let own = || PathBuf::from(format!("/tmp/perf-{}.map", procfs::own_number(pid)));
        let inside = if dump { path.to_path_buf() } else { own() };
        match self.door.believed(&inside) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                TrustedFileOpener::here(self.door.namers.clone())?.believed(path)
            }
            opened => opened,
        }
    }

    /// Returns the file's path when it was mapped.
    pub(crate) fn path(&self) -> &'a Path {
        let raw = self.dso.raw_path.strip_suffix(b" (deleted)").unwrap_or(&self.dso.raw_path);
        Path::new(OsStr::from_bytes(raw))
    }
}

fn process_of(dso: &Dso, options: &SymbolOptions) -> Option<i32> {
    dso.via.filter(|_| options.live && options.symfs.is_none()).map(|(pid, ..)| pid)
}

/// Returns when the running process with a PID started; `None` if it may have started after the DSO was mapped, so that
/// it may be another process than the recorded one.
fn started_before_mapping(pid: i32, dso: &Dso, options: &SymbolOptions) -> Option<u64> {
    let mapped = options.times.wall(dso.since)?;
    procfs::started(pid).filter(|started| *started <= mapped.saturating_add(STARTED_WITHIN_NS))
}

/// Opens the files that a process sees. The process's user decides which file is at a path there.
pub(crate) fn of_process(pid: i32) -> io::Result<TrustedFileOpener> {
    Ok(TrustedFileOpener::new(procfs::root(pid)?, Identity::of_process(pid)?.into()))
}

/// Opens a file that a live process has mapped. Users without CAP_CHECKPOINT_RESTORE may not open it by its mapping;
/// for them, opens the mapping's path if that still has the same device and inode.
pub(crate) fn of_mapping(pid: i32, map: &procfs::ProcMapping) -> io::Result<File> {
    // Another file may have been mapped here since the mappings were listed.
    let listed = FileId::Inode { major: map.major, minor: map.minor, inode: map.inode, generation: 0 };
    let file = match door::mapped(pid, map.start, map.end) {
        // btrfs and overlay report other numbers in maps than in stat.
        Ok(file) if map.major == 0 => return Ok(file),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            of_process(pid)?.open(Path::new(OsStr::from_bytes(&map.name)), FileKind::Code)?
        }
        found => found?,
    };
    if !same_file::has_inode(&file, &listed) {
        return Err(io::Error::other(Replaced("another inode")));
    }
    Ok(file)
}

/// Returns a file of a build ID cache in perf's layout.
/// `DIR/.build-id/xx/yyyy…` is a link to a directory that holds it under the name of its kind, or to the file itself
/// (perf-buildid-cache(1)); or the layout is that of installed debug files.
pub(crate) fn in_cache(caches: &[PathBuf], id: &BuildId, kind: &str) -> Option<PathBuf> {
    let hex = id.to_string();
    let (head, tail) = (hex.get(..2)?, hex.get(2..)?);
    caches.iter().find_map(|dir| {
        let entry = dir.join(".build-id").join(head).join(tail);
        let whole = if kind == "debug" { entry.with_file_name(format!("{tail}.debug")) } else { entry.clone() };
        [entry.join(kind), whole].into_iter().find(|path| path.is_file())
    })
}

/// Returns whether /proc/PID/maps lists the file ID there now. For IDs that only maps reports.
fn is_listed(pid: i32, start: u64, end: u64, id: &FileId) -> bool {
    let FileId::Inode { major: 0, minor, inode, .. } = *id else { return false };
    let is_it = |map: &procfs::ProcMapping| (map.start, map.end) == (start, end);
    let found = procfs::exec_maps(pid).into_iter().find(is_it);
    found.is_some_and(|map| (map.major, map.minor, map.inode) == (0, minor, inode))
}

/// A file system's clock may lag by this much.
const OLDER_BY_NS: u64 = 1_000_000_000;
/// How much later than its events a process may appear to start. /proc reports start times in hundredths of a second.
const STARTED_WITHIN_NS: u64 = 50_000_000;

#[cfg(test)]
pub(crate) mod tests;
