//! Turns (DSO, address) into a function, loading each DSO's table once.

use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::demangle::demangle;
use super::kallsyms::Kallsyms;
use super::table::SymbolTable;
use super::{elf, files};
use crate::record::kinds::FileId;
use crate::session::{Dso, DsoId, DsoKind};

/// A function that holds an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub start: u64,
    pub end: u64,
    /// As shown: demangled, unless that was switched off.
    pub name: Arc<str>,
}

/// Where names come from and how they are shown.
#[derive(Clone, Debug)]
pub struct Options {
    pub demangle: bool,
    /// Whether the profiled processes may still be there, so that /proc leads to their files.
    pub live: bool,
    /// Whether the kernel that runs here is the one that was profiled, so that its vDSO is ours.
    pub same_kernel: bool,
    /// A directory under which the profiled machine's files are laid out.
    pub symfs: Option<PathBuf>,
    /// The kernel's symbols; `None` for no kernel names.
    pub kallsyms: Option<PathBuf>,
}

impl Options {
    pub fn live() -> Self {
        Self { demangle: true, live: true, same_kernel: true, symfs: None, kallsyms: Some("/proc/kallsyms".into()) }
    }
}

/// One file's functions, with the names that were asked for already made readable.
#[derive(Debug)]
struct Loaded {
    table: SymbolTable,
    shown: FxHashMap<u64, Arc<str>>,
}

/// The chain of name sources. Not shared: one thread owns it.
#[derive(Debug)]
pub struct Resolver {
    options: Options,
    kernel: Option<Loaded>,
    files: FxHashMap<DsoId, Option<Loaded>>,
    problems: Vec<(DsoId, String)>,
}

impl Resolver {
    pub fn new(options: Options) -> Self {
        Self { options, kernel: None, files: FxHashMap::default(), problems: Vec::new() }
    }

    /// The function at an address of a DSO (as [`crate::session::dso::Map::to_dso`] gives it).
    pub fn resolve(&mut self, dso: &Dso, addr: u64) -> Option<Found> {
        let readable = self.options.demangle;
        let loaded = self.table_of(dso)?;
        let symbol = loaded.table.find(addr)?;
        let name = loaded.shown.entry(symbol.start).or_insert_with(|| {
            if readable { demangle(symbol.name).into() } else { String::from_utf8_lossy(symbol.name).into() }
        });
        Some(Found { start: symbol.start, end: symbol.end, name: name.clone() })
    }

    /// Takes what went wrong since the last call: DSOs without names, and why.
    pub fn take_problems(&mut self) -> Vec<(DsoId, String)> {
        std::mem::take(&mut self.problems)
    }

    fn table_of(&mut self, dso: &Dso) -> Option<&mut Loaded> {
        match dso.kind {
            DsoKind::Kernel | DsoKind::Module | DsoKind::Bpf => {
                if self.kernel.is_none() {
                    self.kernel = Some(self.load_kernel(dso.id));
                }
                self.kernel.as_mut()
            }
            DsoKind::File | DsoKind::Vdso => {
                if !self.files.contains_key(&dso.id) {
                    let loaded = self.load_file(dso).map_err(|why| self.problems.push((dso.id, why))).ok();
                    self.files.insert(dso.id, loaded);
                }
                self.files.get_mut(&dso.id)?.as_mut()
            }
            DsoKind::Unknown | DsoKind::Guest | DsoKind::Anon => None,
        }
    }

    fn load_kernel(&mut self, id: DsoId) -> Loaded {
        let read = self.options.kallsyms.as_ref().map(|path| Kallsyms::read(path));
        let table = match read {
            Some(Ok(kernel)) if kernel.restricted => {
                self.problems
                    .push((id, "kernel addresses are hidden: sysctl kernel.kptr_restrict=0, or run as root".into()));
                SymbolTable::default()
            }
            Some(Ok(kernel)) => kernel.table,
            Some(Err(e)) => {
                self.problems.push((id, format!("the kernel's symbols cannot be read: {e}")));
                SymbolTable::default()
            }
            None => SymbolTable::default(),
        };
        Loaded { table, shown: FxHashMap::default() }
    }

    fn load_file(&self, dso: &Dso) -> Result<Loaded, String> {
        let elf = if dso.kind == DsoKind::Vdso {
            if !self.options.same_kernel {
                return Err("the vDSO of the recorded machine is not here".into());
            }
            let bytes = files::vdso().map_err(|e| e.to_string())?;
            elf::load(std::io::Cursor::new(bytes), &|_| None).map_err(|e| e.to_string())?
        } else {
            let file = self.open(dso).map_err(|e| e.to_string())?;
            elf::load(file, &|id| files::debug(id, self.options.symfs.as_deref())).map_err(|e| e.to_string())?
        };
        match (dso.file, elf.build_id) {
            (FileId::BuildId(want), Some(have)) if want != have => {
                Err(format!("the file has build id {have}, but {want} was mapped"))
            }
            _ => Ok(Loaded { table: elf.table, shown: FxHashMap::default() }),
        }
    }

    fn open(&self, dso: &Dso) -> std::io::Result<std::fs::File> {
        match &self.options.symfs {
            Some(root) => {
                use std::os::unix::ffi::OsStrExt;
                let path = std::path::Path::new(std::ffi::OsStr::from_bytes(&dso.raw_path));
                let moved = Dso {
                    raw_path: root.join(path.strip_prefix("/").unwrap_or(path)).as_os_str().as_bytes().into(),
                    file: FileId::None,
                    ..dso.clone()
                };
                files::open(&moved, false)
            }
            None => files::open(dso, self.options.live),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Origin, Session};

    #[test]
    fn names_of_this_very_process() {
        let mut session = Session::new(Origin::Live);
        let pid = std::process::id() as i32;
        session.task(pid, pid);
        let mut resolver = Resolver::new(Options::live());
        let here = names_of_this_very_process as fn() as usize as u64;
        let map = session.user_map(pid, here);
        let found = resolver.resolve(session.dsos.of_map(map), session.dsos.map_of(map).to_dso(here)).expect("name");
        assert!(found.name.contains("names_of_this_very_process"), "{found:?}");
        let raw = Resolver::new(Options { demangle: false, ..Options::live() })
            .resolve(session.dsos.of_map(map), session.dsos.map_of(map).to_dso(here))
            .expect("name");
        assert!(raw.name.starts_with("_ZN") || raw.name.starts_with("_R"), "{raw:?}");
        let vdso = session.dsos.all().iter().find(|d| d.kind == DsoKind::Vdso).expect("vdso").clone();
        assert!((0..0x2000).any(|a| resolver.resolve(&vdso, a).is_some_and(|f| f.name.contains("clock_gettime"))));
    }

    #[test]
    fn a_replaced_file_is_not_believed() {
        let mut session = Session::new(Origin::Recorded);
        let wrong = crate::record::kinds::BuildId::new(&[1; 20]).expect("id");
        let map = crate::record::kinds::Mmap {
            pid: 1,
            tid: 1,
            start: 0,
            len: 0x1000,
            pgoff: 0,
            file: FileId::BuildId(wrong),
            prot: 5,
            flags: 2,
            name: b"/proc/self/exe",
        };
        session.apply(&crate::record::Record::Mmap(map), 0);
        let dso = session.dsos.of_map(session.user_map(1, 0x10)).clone();
        let mut resolver = Resolver::new(Options { live: false, kallsyms: None, ..Options::live() });
        assert_eq!(resolver.resolve(&dso, 0x10), None);
        let problems = resolver.take_problems();
        assert!(
            problems.len() == 1 && (problems[0].1.contains("build id") || problems[0].1.contains("was mapped")),
            "{problems:?}"
        );
    }
}
