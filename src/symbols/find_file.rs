//! The places of a DSO's files: the one that was really mapped (through the process while it lives, so containers and
//! deleted programs resolve), and those that hold what was split off from it.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::door::{self, Door, Namers, Purpose, Refusal};
use super::options::SymbolOptions;
use super::same_file::{self, Likeness, Replaced};
use crate::kernel::identity::Identity;
use crate::kernel::procfs;
use crate::record::kinds::{BuildId, FileId};
use crate::session::Dso;

/// The search for a DSO's files.
#[derive(Debug)]
pub struct FileSearch<'a> {
    dso: &'a Dso,
    options: &'a SymbolOptions,
    door: Door,
    inside: Inside,
}

/// Whether the door is that of a process which had it mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    No,
    /// It is profiled now.
    Live,
    /// It was recorded, and lives still, or another one has its number.
    Survivor,
}

/// A DSO's file.
#[derive(Debug)]
pub(crate) struct FoundFile {
    pub(crate) file: File,
    /// Whether it is proven to be the one that was mapped, or will be by its build id.
    pub(crate) proven: bool,
}

impl<'a> FileSearch<'a> {
    /// The files that a process sees while it lives, else those below the directory that stands for its machine,
    /// else those of this machine.
    ///
    /// # Errors
    /// When none of these roots can be looked into.
    pub fn new(dso: &'a Dso, options: &'a SymbolOptions) -> io::Result<Self> {
        if let Some(door) = process_of(dso, options).and_then(|pid| of_process(pid).ok()) {
            return Ok(Self { dso, options, door, inside: Inside::Live });
        }
        let door = match &options.symfs {
            Some(root) => Door::new(procfs::directory(root)?, options.authors.clone()),
            None => Door::here(options.authors.clone())?,
        };
        Ok(Self { dso, options, door, inside: Inside::No })
    }

    /// The files that the process of a recording sees, if it lives still: where a container's files are, and those
    /// that were deleted or replaced while it runs. A process that was started later has its number by accident, and
    /// is asked only for files of a build id.
    pub(crate) fn of_survivor(dso: &'a Dso, options: &'a SymbolOptions) -> Option<Self> {
        let may = !options.live && options.symfs.is_none() && options.is_own_kernel(dso);
        let (pid, ..) = dso.via.filter(|_| may)?;
        let is_younger = || {
            let mapped = options.times.wall(dso.since)?;
            Some(procfs::started(pid)? > mapped.saturating_add(STARTED_WITHIN_NS))
        };
        if dso.build_id.is_none() && is_younger().unwrap_or(true) {
            return None;
        }
        let mut door = of_process(pid).ok()?;
        door.namers.extend(&options.authors);
        Some(Self { dso, options, door, inside: Inside::Survivor })
    }

    /// Takes in who may have written a file: it has a say in all that is opened from now on.
    pub(crate) fn hear(&mut self, file: &File) {
        self.door.namers.add_writers(file);
    }

    /// The users who have had a say so far.
    pub(crate) fn namers(&self) -> &Namers {
        &self.door.namers
    }

    /// The file itself.
    ///
    /// # Errors
    /// When it is nowhere, or another file has its name now.
    pub(crate) fn main(&self) -> io::Result<FoundFile> {
        if let Some(file) = self.mapped() {
            return Ok(FoundFile { file, proven: true });
        }
        let whole = Path::new(OsStr::from_bytes(&self.dso.raw_path));
        // The kernel says ` (deleted)` of files that are, and a file's name may end so.
        self.at(whole).or_else(|error| if self.path() == whole { Err(error) } else { self.at(self.path()) })
    }

    /// The file that a process has mapped where the DSO was: by now it may be another one, as programs that load and
    /// unload plugins have them at one address in turn.
    fn mapped(&self) -> Option<File> {
        let (pid, start, end) = self.dso.via.filter(|_| self.inside != Inside::No)?;
        let file = door::mapped(pid, start, end).ok()?;
        // Where a file system shows other numbers in stat than in maps, maps is asked once more.
        let is_it = same_file::has_inode(&file, &self.dso.file) || is_listed(pid, start, end, &self.dso.file);
        is_it.then_some(file)
    }

    /// The file at a path, if it is the one that was mapped.
    fn at(&self, path: &Path) -> io::Result<FoundFile> {
        let file = self.door.open(path, Purpose::Code)?;
        // A build id says more than an inode, and is compared once the file is read.
        if self.options.symfs.is_some() || !self.options.live && self.dso.build_id.is_some() {
            return Ok(FoundFile { file, proven: true });
        }
        let likeness = match self.options.live {
            // What is profiled now was mapped from what lies there.
            true if same_file::has_inode(&file, &self.dso.file) => Likeness::Same,
            true => Likeness::Other("another inode"),
            false => same_file::compare(&file, self.dso, self.options.times.wall(self.dso.since)),
        };
        match likeness {
            Likeness::Other(why) => Err(io::Error::other(Replaced(why))),
            likeness => Ok(FoundFile { file, proven: likeness == Likeness::Same }),
        }
    }

    /// The file that a cache of files by build id has of it: `elf`, `debug` or `vdso`.
    pub(crate) fn cached(&self, id: &BuildId, kind: &str) -> Option<File> {
        door::own(&in_cache(&self.options.caches, id, kind)?).ok()
    }

    /// The separate debug file of a build id, where distributions install them (gdb's "build ID" method,
    /// `DEBUGDIR/.build-id/xx/yyyy.debug`), or in the caches of perf and of debuginfod.
    pub(crate) fn by_build_id(&self, id: &BuildId) -> Option<(File, PathBuf)> {
        let hex = id.to_string();
        let below = |dir: &str| Some(Path::new(dir).join(hex.get(..2)?).join(format!("{}.debug", hex.get(2..)?)));
        let installed = |dir| below(dir).and_then(|path| Some((self.door.open(&path, Purpose::Code).ok()?, path)));
        let flat = || installed("/.build-id").filter(|_| self.options.symfs.is_some());
        let cached = || self.cached(id, "debug").map(|file| (file, PathBuf::from("the build-id cache")));
        let fetched = || {
            let name = Path::new(&hex).join("debuginfo");
            self.options.debuginfod.iter().map(|dir| dir.join(&name)).find_map(|p| Some((door::own(&p).ok()?, p)))
        };
        installed("/usr/lib/debug/.build-id").or_else(flat).or_else(cached).or_else(fetched)
    }

    /// A file that `.gnu_debuglink` names: beside the program, in `.debug` there, or below
    /// /usr/lib/debug (gdb's "debug link" method). The caller compares what is in it.
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
        list.into_iter().filter_map(|path| Some((self.door.open(&path, Purpose::Code).ok()?, path)))
    }

    /// A file by its name, absolute or beside another one.
    pub(crate) fn beside(&self, base: &Path, name: &[u8]) -> Option<File> {
        let name = Path::new(OsStr::from_bytes(name));
        self.door.open(&base.parent()?.join(name), Purpose::Code).ok()
    }

    /// A file that debug information was split off into.
    pub(crate) fn split(&self, path: &Path) -> Option<File> {
        self.door.open(path, Purpose::Code).ok()
    }

    /// Takes in those who had a say in what was read before.
    pub(crate) fn hear_all(&mut self, namers: &Namers) {
        self.door.namers.extend(namers);
    }

    /// A source file that debug information names, which these had a say in.
    ///
    /// # Errors
    /// As [`Door::open`].
    pub fn source(&mut self, path: &Path, namers: &Namers) -> io::Result<File> {
        self.door.namers.extend(namers);
        self.door.open(path, Purpose::Source)
    }

    /// The file that its process's JIT writes at a path, or under the number that the process knows itself by.
    ///
    /// # Errors
    /// As [`Door::believed`].
    pub(crate) fn jit(&self, path: &Path, dump: bool) -> io::Result<File> {
        let file = self.jit_file(path, dump)?;
        match self.began().zip(same_file::written(&file)) {
            Some((began, written)) if !dump && written.saturating_add(OLDER_BY_NS) < began => {
                Err(Refusal::Older(path.display().to_string()).into())
            }
            _ => Ok(file),
        }
    }

    /// When the process that has the DSO began, or made room for code; it wrote nothing of that before.
    fn began(&self) -> Option<u64> {
        let (pid, ..) = self.dso.via?;
        match self.inside {
            Inside::Live => procfs::started(pid),
            _ if self.options.symfs.is_some() || !self.options.is_own_kernel(self.dso) => None,
            _ => self.options.times.exact(self.dso.since),
        }
    }

    fn jit_file(&self, path: &Path, dump: bool) -> io::Result<File> {
        let Some((pid, ..)) = self.dso.via.filter(|_| self.inside == Inside::Live) else {
            return self.door.believed(path);
        };
        let own = || PathBuf::from(format!("/tmp/perf-{}.map", procfs::own_number(pid)));
        let inside = if dump { path.to_path_buf() } else { own() };
        match self.door.believed(&inside) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Door::here(self.door.namers.clone())?.believed(path),
            opened => opened,
        }
    }

    /// Where the file was.
    pub(crate) fn path(&self) -> &Path {
        let raw = self.dso.raw_path.strip_suffix(b" (deleted)").unwrap_or(&self.dso.raw_path);
        Path::new(OsStr::from_bytes(raw))
    }
}

fn process_of(dso: &Dso, options: &SymbolOptions) -> Option<i32> {
    dso.via.filter(|_| options.live && options.symfs.is_none()).map(|(pid, ..)| pid)
}

/// The files that a process sees. Whoever runs it decides what lies at a path there.
fn of_process(pid: i32) -> io::Result<Door> {
    Ok(Door::new(procfs::root(pid)?, Identity::of_process(pid)?.into()))
}

/// A file of a build-id cache as perf lays it out: `DIR/.build-id/xx/yyyy…` is a link to a directory
/// that holds it under the name of its kind, or to the file itself (perf-buildid-cache(1)); or as debug
/// files are installed.
pub(crate) fn in_cache(caches: &[PathBuf], id: &BuildId, kind: &str) -> Option<PathBuf> {
    let hex = id.to_string();
    let (head, tail) = (hex.get(..2)?, hex.get(2..)?);
    caches.iter().find_map(|dir| {
        let entry = dir.join(".build-id").join(head).join(tail);
        let whole = if kind == "debug" { entry.with_file_name(format!("{tail}.debug")) } else { entry.clone() };
        [entry.join(kind), whole].into_iter().find(|path| path.is_file())
    })
}

/// True if a process has the file of these numbers mapped there now, where they are those of maps alone.
fn is_listed(pid: i32, start: u64, end: u64, id: &FileId) -> bool {
    let FileId::Inode { major: 0, minor, inode, .. } = *id else { return false };
    let is_it = |map: &procfs::ProcMapping| (map.start, map.end) == (start, end);
    let found = procfs::exec_maps(pid).into_iter().find(is_it);
    found.is_some_and(|map| (map.major, map.minor, map.inode) == (0, minor, inode))
}

/// A file system's clock may be so much behind.
const OLDER_BY_NS: u64 = 1_000_000_000;
/// A process may be told of so much before /proc says that it was started, which counts in hundredths of a second.
const STARTED_WITHIN_NS: u64 = 50_000_000;

#[cfg(test)]
pub(crate) mod tests;
