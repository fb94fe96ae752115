//! The functions of a JIT, by what it writes: `/tmp/perf-PID.map`, a line each of `START SIZE name` in
//! hexadecimal (tools/perf/Documentation/jit-interface.txt), and jitdump files (jitdump-specification.txt
//! there). Both are read on as they grow.
//!
//! Anybody can put a file into /tmp: links are not followed, and it must belong to the process's user, to
//! root, or to us.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use super::jitdump;
use super::places::{Owner, root_of};
use super::resolver::Options;
use super::table::Symbol;
use crate::session::Dso;

/// A file that grows beyond this is read no further.
const MAX_SIZE: u64 = 1 << 30;
/// Functions and bytes of names that are kept of one process.
const MAX_FUNCTIONS: usize = 2 << 20;
const MAX_NAMES: usize = 256 << 20;
/// How often a file is looked at again, at most.
const PATIENCE: Duration = Duration::from_millis(200);
/// How far back a covering function is searched.
const NESTING: usize = 16;
/// Bytes read at once.
const PIECE: usize = 1 << 16;

/// Functions by address; a later one takes an earlier one's place.
#[derive(Debug, Default)]
pub struct Functions {
    list: BTreeMap<u64, (u64, u32, u32)>,
    names: Vec<u8>,
}

impl Functions {
    /// Adds a function. `false` when there are too many.
    pub fn put(&mut self, start: u64, size: u64, name: &[u8]) -> bool {
        if self.list.len() >= MAX_FUNCTIONS || self.names.len() + name.len() > MAX_NAMES {
            return false;
        }
        let at = self.names.len() as u32;
        self.names.extend_from_slice(name);
        self.list.insert(start, (start.saturating_add(size), at, name.len() as u32));
        true
    }

    pub fn remove(&mut self, start: u64) -> Option<(u64, Vec<u8>)> {
        let (end, at, len) = self.list.remove(&start)?;
        Some((end - start, self.names[at as usize..(at + len) as usize].to_vec()))
    }

    pub fn find(&self, addr: u64) -> Option<Symbol<'_>> {
        let before = self.list.range(..=addr).rev().take(NESTING);
        let (start, (end, at, len)) = before.into_iter().find(|(_, (end, ..))| addr < *end)?;
        Some(Symbol { start: *start, end: *end, name: self.names.get(*at as usize..(*at + *len) as usize)? })
    }

    pub fn memory(&self) -> usize {
        self.names.capacity() + self.list.len() * 48
    }
}

/// One of a process's files, and how far it was read.
#[derive(Debug)]
struct Growing {
    file: File,
    /// Bytes that were taken in.
    upto: u64,
    dump: bool,
}

/// What a process's JIT has told.
#[derive(Debug)]
pub struct Jit {
    files: Vec<Growing>,
    functions: Functions,
    looked: Option<Instant>,
    /// Files that are not there yet are looked for again; one that was refused is not.
    wanted: Vec<(PathBuf, bool)>,
    live: bool,
    full: bool,
}

impl Jit {
    /// Of the process of an anonymous DSO.
    pub fn new(dso: &Dso, options: &Options) -> Self {
        let mut wanted = vec![(PathBuf::from(&*dso.path), false)];
        if let Some(dump) = &dso.dump {
            wanted.push((PathBuf::from(OsStr::from_bytes(dump)), true));
        }
        Self {
            files: Vec::new(),
            functions: Functions::default(),
            looked: None,
            wanted,
            live: options.live,
            full: false,
        }
    }

    /// Takes note of a jitdump file that turned up later.
    pub fn follow(&mut self, dso: &Dso) {
        if let Some(dump) = &dso.dump {
            let path = PathBuf::from(OsStr::from_bytes(dump));
            let known = self.files.iter().any(|f| f.dump) || self.wanted.iter().any(|(_, dump)| *dump);
            if !known {
                self.wanted.push((path, true));
                self.looked = None;
            }
        }
    }

    /// The function at an address; the files are read on when it is not known yet.
    ///
    /// # Errors
    /// In words, why a file is not believed or not read further; each is said once.
    pub fn find(&mut self, dso: &Dso, options: &Options, addr: u64) -> Result<Option<Symbol<'_>>, String> {
        if self.functions.find(addr).is_none() {
            self.read_on(dso, options)?;
        }
        Ok(self.functions.find(addr))
    }

    fn read_on(&mut self, dso: &Dso, options: &Options) -> Result<(), String> {
        if self.full || self.looked.is_some_and(|at| !self.live || at.elapsed() < PATIENCE) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        for (path, dump) in std::mem::take(&mut self.wanted) {
            match open(&path, dump, dso, options) {
                Ok(file) => self.files.push(Growing { file, upto: 0, dump }),
                Err(e) if e.kind() == io::ErrorKind::NotFound => self.wanted.push((path, dump)),
                Err(e) => return Err(e.to_string()),
            }
        }
        for growing in &mut self.files {
            let read = if growing.dump { jitdump::read_on } else { read_map };
            let whole = read(&growing.file, &mut growing.upto, &mut self.functions).map_err(|e| e.to_string())?;
            if !whole {
                self.full = true;
                return Err(format!("what its JIT writes is read no further than {} MB", growing.upto >> 20));
            }
        }
        Ok(())
    }

    pub fn memory(&self) -> usize {
        self.functions.memory()
    }
}

/// Opens a JIT's file: in the process's own root and by its own number while it lives.
fn open(path: &Path, dump: bool, dso: &Dso, options: &Options) -> io::Result<File> {
    let ours = rustix::process::geteuid().as_raw();
    let pid = dso.via.filter(|_| options.live && options.symfs.is_none()).map(|(pid, ..)| pid);
    if let Some(pid) = pid
        && let (Ok(root), Ok(owner)) = (root_of(pid), Owner::of(pid))
    {
        let inside = if dump { path.to_path_buf() } else { format!("/tmp/perf-{}.map", own_number(pid)).into() };
        match believed(Some(&root), &inside, &[owner.uid, 0]) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        return believed(None, path, &[owner.uid, 0, ours]);
    }
    let place = options.symfs.as_ref().map(|root| root.join(path.strip_prefix("/").unwrap_or(path)));
    believed(None, place.as_deref().unwrap_or(path), &[0, ours])
}

/// The number that a process knows itself by (`NSpid` in /proc/PID/status).
fn own_number(pid: i32) -> i32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("NSpid:"));
    line.and_then(|l| l.split_whitespace().last()?.parse().ok()).unwrap_or(pid)
}

/// Opens a plain file of one of these users, without following links.
fn believed(root: Option<&File>, path: &Path, owners: &[u32]) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match root {
        Some(root) => openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT),
        None => openat(CWD, path, flags, Mode::empty()),
    };
    let file = match opened {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::LOOP) => {
            return Err(io::Error::other(format!("{} is a link, which is not followed", path.display())));
        }
        Err(e) => return Err(e.into()),
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other(format!("{} is no plain file", path.display())));
    }
    if !owners.contains(&meta.uid()) {
        let words = format!("{} belongs to user {}, so it is not believed", path.display(), meta.uid());
        return Err(io::Error::other(words));
    }
    Ok(file)
}

/// Takes in the whole lines that are new of a map file. `false` when there is too much.
///
/// # Errors
/// Those of reading it.
pub fn read_map(file: &File, upto: &mut u64, functions: &mut Functions) -> io::Result<bool> {
    if file.metadata()?.len() < *upto {
        // It was begun anew.
        *upto = 0;
    }
    let mut piece = vec![0; PIECE];
    loop {
        let n = file.read_at(&mut piece, *upto)?;
        let Some(end) = memchr::memrchr(b'\n', &piece[..n]) else {
            // A line without an end, or nothing new.
            let endless = n == piece.len();
            if endless {
                *upto += n as u64;
                continue;
            }
            return Ok(true);
        };
        if !take_lines(&piece[..end], functions) || *upto > MAX_SIZE {
            return Ok(false);
        }
        *upto += end as u64 + 1;
    }
}

fn take_lines(text: &[u8], functions: &mut Functions) -> bool {
    text.split(|b| *b == b'\n').all(|line| {
        let mut parts = line.splitn(3, |b| *b == b' ');
        let mut hex =
            || u64::from_str_radix(std::str::from_utf8(parts.next()?).ok()?.trim_start_matches("0x"), 16).ok();
        let (Some(start), Some(size)) = (hex(), hex()) else { return true };
        let Some(name) = parts.next().map(<[u8]>::trim_ascii_end).filter(|n| !n.is_empty()) else { return true };
        functions.put(start, size, name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn name(functions: &Functions, at: u64) -> Option<String> {
        functions.find(at).map(|s| String::from_utf8_lossy(s.name).into_owned())
    }

    #[test]
    fn lines_and_what_is_none() {
        let mut all = Functions::default();
        take_lines(b"1000 10 a b\nnonsense\n2000 20 old\n2000 20 LazyCompile:*fib /app/x.js:1\n3000 x y\n", &mut all);
        assert_eq!(name(&all, 0x100f).as_deref(), Some("a b"));
        assert_eq!(name(&all, 0x2001).as_deref(), Some("LazyCompile:*fib /app/x.js:1"));
        assert_eq!(name(&all, 0x3000), None);
        assert_eq!(name(&all, 0x2020), None);
    }

    #[test]
    fn a_map_is_read_on_as_it_grows() {
        let mut file = tempfile::tempfile().expect("file");
        let (mut all, mut upto) = (Functions::default(), 0);
        file.write_all(b"1000 10 first\n2000 10 half").expect("write");
        assert!(read_map(&file, &mut upto, &mut all).expect("read"));
        assert_eq!((name(&all, 0x1000).as_deref(), name(&all, 0x2000)), (Some("first"), None));
        file.write_all(b" and whole\n").expect("write");
        assert!(read_map(&file, &mut upto, &mut all).expect("read"));
        assert_eq!(name(&all, 0x2000).as_deref(), Some("half and whole"));
        // A line of two pieces and more is stepped over.
        file.write_all(&vec![b'x'; 3 * PIECE]).expect("write");
        file.write_all(b"\n3000 10 after\n").expect("write");
        assert!(read_map(&file, &mut upto, &mut all).expect("read"));
        assert_eq!(name(&all, 0x3000).as_deref(), Some("after"));
    }

    #[test]
    fn what_others_planted_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("map"), b"1000 10 a\n").expect("write");
        std::os::unix::fs::symlink("/etc/passwd", at("link")).expect("link");
        rustix::fs::mkfifoat(CWD, at("fifo"), Mode::RUSR).expect("fifo");
        let ours = rustix::process::geteuid().as_raw();
        assert!(believed(None, &at("map"), &[ours]).is_ok());
        let no = |name: &str, owner| believed(None, &at(name), &[owner]).expect_err("refused").to_string();
        assert!(no("map", ours + 1).contains("not believed"));
        assert!(no("link", ours).contains("a link"));
        assert!(no("fifo", ours).contains("no plain file"));
    }
}
