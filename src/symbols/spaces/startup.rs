//! Files that a program maps when it starts, so that their tables exist before its first instruction.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crossbeam_channel::Sender;
use rustc_hash::FxHashSet;

use super::built_table::Id;
use crate::symbols::bytes::Bytes;
use crate::symbols::elf::linked::Linked;
use crate::symbols::trust::door::{FileKind, TrustedFileOpener};
use crate::symbols::trust::find_file;

/// The limit of files: programs link a few hundred libraries at most.
const FILES: usize = 512;
/// The number of scripts that may interpret each other (execve(2)).
const SCRIPTS: usize = 4;

/// A program that is about to start.
#[derive(Debug)]
pub(super) struct Starting {
    /// The process that will execute it.
    pid: i32,
    program: PathBuf,
    /// The tables of its files. Some may still be built.
    pub(super) tables: Vec<Id>,
    /// Dropped when its tables exist.
    _done: Sender<()>,
}

impl Starting {
    pub(super) fn new(pid: i32, program: PathBuf, done: Sender<()>) -> Self {
        Self { pid, program, tables: Vec::new(), _done: done }
    }

    /// Returns the program, its interpreter and the libraries that they need, each with its path.
    /// A library that the dynamic linker finds by other means is missing.
    pub(super) fn files(&self) -> Vec<(String, File)> {
        find_file::of_process(self.pid).map(|door| files_of(&door, &self.program)).unwrap_or_default()
    }
}

/// A file that is needed: where it may be, and for which machine.
struct Needed {
    places: Vec<PathBuf>,
    machine: Option<(bool, u16)>,
}

impl Needed {
    fn at(path: PathBuf) -> Self {
        Self { places: vec![path], machine: None }
    }

    fn open(&self, door: &TrustedFileOpener) -> Option<(&Path, File, Bytes)> {
        self.places.iter().find_map(|path| {
            let file = door.open(path, FileKind::Code).ok()?;
            let bytes = Bytes::of(&file).ok()?;
            let is_it = self.machine.is_none() || Linked::of(&bytes).map(|linked| linked.machine) == self.machine;
            is_it.then_some((path.as_path(), file, bytes))
        })
    }
}

fn files_of(door: &TrustedFileOpener, program: &Path) -> Vec<(String, File)> {
    let (mut files, mut seen) = (Vec::new(), FxHashSet::default());
    let mut scripts = 0;
    let mut left = VecDeque::from([Needed::at(program.to_owned())]);
    while let Some(needed) = left.pop_front() {
        let Some((path, file, bytes)) = needed.open(door) else { continue };
        if let Some(interpreter) = script(&bytes) {
            scripts += 1;
            left.extend((scripts <= SCRIPTS).then(|| Needed::at(interpreter)));
            continue;
        }
        let (Some(linked), Ok(meta)) = (Linked::of(&bytes), file.metadata()) else { continue };
        if !seen.insert((meta.dev(), meta.ino())) || files.len() >= FILES {
            continue;
        }
        left.extend(linked.interpreter.clone().map(Needed::at));
        let library = |name: &PathBuf| Needed { places: linked.places(name, path), machine: Some(linked.machine) };
        left.extend(linked.needed.iter().map(library));
        files.push((path.display().to_string(), file));
    }
    files
}

/// Returns the program that interprets a script.
fn script(bytes: &[u8]) -> Option<PathBuf> {
    const LONGEST: usize = 256;
    let line = bytes.get(..bytes.len().min(LONGEST))?.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let path = std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?;
    Some(path.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::procfs;

    #[test]
    fn a_program_is_found_with_its_interpreter_and_libraries() {
        // The test itself is linked dynamically.
        let own = std::env::current_exe().expect("a path");
        let door = find_file::of_process(std::process::id() as i32).expect("a door");
        let found: FxHashSet<(u64, u64)> = files_of(&door, &own)
            .iter()
            .map(|(_, file)| file.metadata().expect("open"))
            .map(|meta| (meta.dev(), meta.ino()))
            .collect();
        let mapped = procfs::exec_maps(std::process::id() as i32);
        let mapped: Vec<_> = mapped.iter().filter(|map| map.inode != 0).collect();
        let inodes: FxHashSet<u64> = found.iter().map(|(_, inode)| *inode).collect();
        assert!(mapped.len() > 2);
        for map in mapped {
            assert!(inodes.contains(&map.inode), "{}", String::from_utf8_lossy(&map.name));
        }
    }

    #[test]
    fn a_script_is_run_by_its_interpreter() {
        assert_eq!(script(b"#! /bin/sh -e\necho"), Some("/bin/sh".into()));
        for other in [&b"#!"[..], b"#!\n/bin/sh", b"\x7fELF", b"", b"#!\xff"] {
            assert_eq!(script(other), None);
        }
        let dir = tempfile::tempdir().expect("folder");
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        std::fs::write(&one, format!("#!{}", other.display())).expect("written");
        std::fs::write(&other, format!("#!{}", one.display())).expect("written");
        let door = find_file::of_process(std::process::id() as i32).expect("a door");
        assert!(files_of(&door, &one).is_empty(), "scripts that interpret each other");
    }
}
