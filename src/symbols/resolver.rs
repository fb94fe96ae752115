//! Turns (DSO, address) into a function, loading each DSO's table once.

use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::demangle::demangle;
use super::kallsyms::Kallsyms;
use super::table::SymbolTable;
use super::{elf, files, perfmap};
use crate::record::kinds::{BuildId, FileId};
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
    /// The recorded kernel's image, which goes before its kallsyms.
    pub vmlinux: Option<PathBuf>,
    /// Directories of files by build id, laid out as perf's cache is (`~/.debug`).
    pub caches: Vec<PathBuf>,
}

impl Options {
    pub fn live() -> Self {
        Self {
            demangle: true,
            live: true,
            same_kernel: true,
            symfs: None,
            kallsyms: Some("/proc/kallsyms".into()),
            vmlinux: None,
            caches: Vec::new(),
        }
    }
}

/// One file's functions, with the names that were asked for already made readable.
#[derive(Debug)]
struct Loaded {
    table: SymbolTable,
    shown: FxHashMap<u64, Arc<str>>,
    /// What is to be added to the table's addresses to get the recorded ones.
    moved: u64,
}

impl Loaded {
    fn new(table: SymbolTable) -> Self {
        Self { table, shown: FxHashMap::default(), moved: 0 }
    }
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
        // Modules are not moved together with the kernel's own text.
        let moved = if dso.kind == DsoKind::Kernel { loaded.moved } else { 0 };
        let symbol = loaded.table.find(addr.wrapping_sub(moved))?;
        let name = loaded.shown.entry(symbol.start).or_insert_with(|| {
            if readable { demangle(symbol.name).into() } else { String::from_utf8_lossy(symbol.name).into() }
        });
        Some(Found { start: symbol.start.wrapping_add(moved), end: symbol.end.wrapping_add(moved), name: name.clone() })
    }

    /// Takes what went wrong since the last call: DSOs without names, and why.
    pub fn take_problems(&mut self) -> Vec<(DsoId, String)> {
        std::mem::take(&mut self.problems)
    }

    fn table_of(&mut self, dso: &Dso) -> Option<&mut Loaded> {
        match dso.kind {
            DsoKind::Kernel | DsoKind::Module | DsoKind::Bpf => {
                if self.kernel.is_none() {
                    self.kernel = Some(self.load_kernel(dso));
                }
                self.kernel.as_mut()
            }
            DsoKind::File | DsoKind::Vdso | DsoKind::Anon => {
                if !self.files.contains_key(&dso.id) {
                    let loaded = self.load_file(dso).map_err(|why| self.problems.push((dso.id, why))).ok();
                    self.files.insert(dso.id, loaded);
                }
                self.files.get_mut(&dso.id)?.as_mut()
            }
            DsoKind::Unknown | DsoKind::Guest => None,
        }
    }

    fn load_kernel(&mut self, dso: &Dso) -> Loaded {
        if let Some(path) = self.options.vmlinux.clone() {
            match std::fs::File::open(&path)
                .map_err(|e| e.to_string())
                .and_then(|f| elf::load_kernel(f).map_err(|e| e.to_string()))
            {
                Ok((_, _, Some(have))) if dso.build_id.is_some_and(|want| want != have) => self
                    .problems
                    .push((dso.id, format!("{} is another kernel's: its build id is {have}", path.display()))),
                Ok((table, text, _)) => return moved(table, text, dso),
                Err(e) => self.problems.push((dso.id, format!("{}: {e}", path.display()))),
            }
        }
        let cached = || files::in_cache(&self.options.caches, dso.build_id.as_ref()?, "kallsyms");
        let path = self.options.kallsyms.clone().or_else(cached);
        match path.map(|path| Kallsyms::read(&path)) {
            Some(Ok(kernel)) if kernel.restricted => {
                self.problems.push((
                    dso.id,
                    "kernel addresses are hidden: sysctl kernel.kptr_restrict=0, or run as root".into(),
                ));
                Loaded::new(SymbolTable::default())
            }
            Some(Ok(kernel)) => moved(kernel.table, kernel.text, dso),
            Some(Err(e)) => {
                self.problems.push((dso.id, format!("the kernel's symbols cannot be read: {e}")));
                Loaded::new(SymbolTable::default())
            }
            None => Loaded::new(SymbolTable::default()),
        }
    }

    fn load_file(&self, dso: &Dso) -> Result<Loaded, String> {
        if dso.kind == DsoKind::Anon {
            return self.load_jit(dso);
        }
        let debug = |id: &BuildId| {
            files::debug(id, self.options.symfs.as_deref())
                .or_else(|| std::fs::File::open(files::in_cache(&self.options.caches, id, "debug")?).ok())
        };
        let read = |file: std::fs::File| elf::load(file, &debug).map_err(|e| e.to_string());
        // What a cache holds under the build id is the file itself, whatever lies at its path now.
        if let Some(id) = &dso.build_id {
            let name = if dso.kind == DsoKind::Vdso { "vdso" } else { "elf" };
            let cached =
                files::in_cache(&self.options.caches, id, name).and_then(|path| std::fs::File::open(path).ok());
            if let Some(elf) =
                cached.and_then(|f| read(f).ok()).filter(|elf| elf.build_id.is_none_or(|have| have == *id))
            {
                return Ok(Loaded::new(elf.table));
            }
        }
        let elf = if dso.kind == DsoKind::Vdso {
            if !self.options.same_kernel {
                return Err("the vDSO of the recorded machine is not here".into());
            }
            let bytes = files::vdso().map_err(|e| e.to_string())?;
            elf::load(std::io::Cursor::new(bytes), &|_| None).map_err(|e| e.to_string())?
        } else {
            read(self.open(dso).map_err(|e| e.to_string())?)?
        };
        match (dso.build_id, elf.build_id) {
            (Some(want), Some(have)) if want != have => {
                Err(format!("the file has build id {have}, but {want} was mapped"))
            }
            _ => Ok(Loaded::new(elf.table)),
        }
    }

    /// What a JIT told of its functions, for recordings: a live one is still being written.
    fn load_jit(&self, dso: &Dso) -> Result<Loaded, String> {
        if self.options.live {
            return Ok(Loaded::new(SymbolTable::default()));
        }
        let root = self.options.symfs.as_deref().unwrap_or(std::path::Path::new("/"));
        let path = root.join(dso.path.trim_start_matches('/'));
        match perfmap::read(&path) {
            Ok(table) => Ok(Loaded::new(table)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Loaded::new(SymbolTable::default())),
            Err(e) => Err(e.to_string()),
        }
    }

    fn open(&self, dso: &Dso) -> std::io::Result<std::fs::File> {
        // A build id says more than an inode, and is compared once the file is read.
        let file = if dso.build_id.is_some() && !self.options.live { FileId::None } else { dso.file };
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
            None => files::open(&Dso { file, ..dso.clone() }, self.options.live),
        }
    }
}

/// A kernel's table with the distance between where its text was then and in the table.
fn moved(table: SymbolTable, text: Option<u64>, dso: &Dso) -> Loaded {
    let moved = match (dso.text, text) {
        (Some(then), Some(here)) => then.wrapping_sub(here),
        _ => 0,
    };
    Loaded { moved, ..Loaded::new(table) }
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
