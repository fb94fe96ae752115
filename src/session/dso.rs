//! Files and other sources of code (DSOs), and their distinct mappings.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::HashMap;

use crate::perfdata::build_ids::IdentifiedFile;
use crate::record::interpreted::{self, FUNCTION_LEN, FunctionSource, Language};
use crate::record::kinds::{BuildId, FileId, Mmap};

use super::hosts::HostId;
use super::maps::{DsoId, Map, MapId, Maps, Placed};
use super::space::AddressSpace;

/// The kind of code in a DSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DsoKind {
    /// Unknown code: addresses in no mapping, or in one such as `[stack]`.
    Unknown,
    /// The kernel's own text, without its modules.
    Kernel,
    /// A kernel module.
    Module,
    /// A JIT-compiled BPF program.
    Bpf,
    /// Code in virtual machines, whose addresses have no meaning on the host.
    Guest,
    /// The page of code that the kernel maps into each process (vdso(7)).
    Vdso,
    /// A program or a library.
    File,
    /// Executable memory without a file: JIT code.
    Anon,
    /// Functions of an interpreted language, which records of the stream name.
    Interpreted(Language),
    /// A marker, not code: the stack ends here because its copy was too short, or because it is broken.
    Cut,
}

impl DsoKind {
    pub(crate) fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Module | Self::Bpf)
    }

    /// Returns the language of its functions, as filters and columns name it.
    pub(crate) fn language(self) -> &'static str {
        match self {
            Self::Interpreted(language) => language.name(),
            _ if self.is_kernel() => "kernel",
            _ => "native",
        }
    }
}

/// A source of code.
#[derive(Clone, Debug)]
pub struct Dso {
    /// The index in [`Dsos::all`].
    pub id: DsoId,
    pub(crate) host: HostId,
    /// The full path as the mapping process spelled it.
    pub path: Arc<str>,
    /// The raw bytes of the path, for opening the file.
    pub(crate) raw_path: Arc<[u8]>,
    /// perf's short name: the last part of the path, or the bracketed name.
    pub(crate) short: Arc<str>,
    pub(crate) kind: DsoKind,
    pub(crate) file: FileId,
    /// The file's build id, from a recording or from the mapped file.
    pub(crate) build_id: Option<BuildId>,
    /// The start of the kernel's text during the recording, which differs between boots.
    pub(crate) text: Option<u64>,
    /// The symbol at that address, from which perf computes the kernel's relocation: `_text`, or `_stext` on AArch64.
    pub(crate) text_symbol: Option<Arc<str>>,
    /// The time of the first record that mapped it; 0 if it was mapped before the first record.
    pub(crate) since: u64,
    /// The highest file offset that was mapped by a segment after the first.
    pub(crate) extent: u64,
    /// A process with a mapping of it, and the range: gives access to the file through /proc while the process lives.
    pub via: Option<(i32, u64, u64)>,
    /// For anonymous code, the jitdump file that its process has mapped.
    pub(crate) dump: Option<Arc<[u8]>>,
    /// Names of interpreted functions.
    pub(crate) functions: FunctionNames,
}

/// The names of interpreted functions by their addresses; copies share them.
#[derive(Clone, Debug, Default)]
pub struct FunctionNames(Option<Arc<RwLock<NameMap>>>);

type NameMap = BTreeMap<u64, NamedFunction>;

/// An interpreted function's name, and where its source is, if its lines are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFunction {
    pub(crate) name: Arc<str>,
    pub(crate) source: Option<Arc<FunctionSource>>,
}

impl NamedFunction {
    /// Returns the function that a record names; `source` begins with its source, or is empty.
    pub(crate) fn of_record(name: &[u8], source: &[u8]) -> Self {
        let source = FunctionSource::decode(source).map(Arc::new);
        Self { name: String::from_utf8_lossy(name).into(), source }
    }
}

impl FunctionNames {
    /// Returns the function that has an address.
    pub(crate) fn find(&self, address: u64) -> Option<NamedFunction> {
        self.0.as_ref()?.read().unwrap_or_else(PoisonError::into_inner).get(&(address & !(FUNCTION_LEN - 1))).cloned()
    }

    /// Returns all functions, in order of their addresses.
    pub(crate) fn all(&self) -> Vec<(u64, NamedFunction)> {
        let read = |names: &Arc<RwLock<NameMap>>| {
            let names = names.read().unwrap_or_else(PoisonError::into_inner);
            names.iter().map(|(address, function)| (*address, function.clone())).collect()
        };
        self.0.as_ref().map(read).unwrap_or_default()
    }

    /// Adds a function. Its lines may be known later than its name.
    pub(crate) fn learn(&mut self, address: u64, mut function: NamedFunction) {
        let names = self.0.get_or_insert_default();
        let mut names = names.write().unwrap_or_else(PoisonError::into_inner);
        let start = address & !(FUNCTION_LEN - 1);
        if names.len() < MAX_FUNCTIONS {
            let known = || names.get(&start).and_then(|known| known.source.clone());
            function.source = function.source.or_else(known);
            names.insert(start, function);
        }
    }
}

/// The maximum number of named functions of a language.
const MAX_FUNCTIONS: usize = 1 << 18;

impl Dso {
    /// Returns whether its path is a kernel name for memory without a file.
    pub(crate) fn is_memory(&self) -> bool {
        const STARTS: [&[u8]; 5] = [b"/memfd:", b"/[aio]", b"/dmabuf:", b"/drm mm object", b"/i915"];
        STARTS.iter().any(|start| self.raw_path.starts_with(start))
    }
}

/// The table of DSOs and mappings of a session.
#[derive(Clone, Debug)]
pub struct Dsos {
    list: Vec<Dso>,
    ids: HashMap<(HostId, Arc<[u8]>, FileId), DsoId>,
    /// The current host: the same path is a different file on another host.
    pub(super) host: HostId,
    pub(super) maps: Maps,
    /// Whether processes that map the same part of a file share a representative mapping.
    pub share: bool,
    /// Build ids from a recording's header, by path and file; without a file, for all other files of that path.
    build_ids: HashMap<(HostId, Arc<[u8]>, FileId), BuildId>,
    /// jitdump files by the process that has one mapped.
    dumps: HashMap<(HostId, i32), Arc<[u8]>>,
    pub(super) now: u64,
}

/// The name of the only frame of a stack that was not walked.
pub(crate) const NOT_WALKED: &str = "[stack not walked]";

impl Default for Dsos {
    fn default() -> Self {
        let mut dsos = Self {
            list: Vec::new(),
            ids: HashMap::new(),
            host: HostId::default(),
            maps: Maps::default(),
            share: false,
            build_ids: HashMap::new(),
            dumps: HashMap::new(),
            now: 0,
        };
        let fixed =
            ["[unknown]", "[kernel.kallsyms]", "[guest.kernel.kallsyms]", "[truncated]", "[broken]", NOT_WALKED];
        for name in fixed {
            let dso = dsos.intern(-1, name.as_bytes(), FileId::None, None);
            dsos.maps.id(Map { start: 0, len: u64::MAX, pgoff: 0, dso }, |_, _| true);
        }
        dsos.list[0].kind = DsoKind::Unknown;
        dsos.list[2].kind = DsoKind::Guest;
        dsos.list[3..].iter_mut().for_each(|marker| marker.kind = DsoKind::Cut);
        dsos
    }
}

impl Dsos {
    /// Returns the DSO of an id, which must be from this session.
    pub fn get(&self, id: DsoId) -> &Dso {
        &self.list[id.0 as usize]
    }

    /// Returns all DSOs in order of their first occurrence, after the predefined ones.
    pub fn all(&self) -> &[Dso] {
        &self.list
    }

    pub(crate) fn map_of(&self, id: MapId) -> Map {
        self.maps.get(id)
    }

    /// Returns the DSO of a mapping.
    pub fn of_map(&self, id: MapId) -> &Dso {
        self.get(self.map_of(id).dso)
    }

    /// Returns the representative of a mapping, which maps the same part of the same file, and the mapping's own start.
    pub(super) fn placed(&self, id: MapId) -> Placed {
        Placed { map: self.maps.stand_in(id), start: self.map_of(id).start }
    }

    /// Converts an address in a mapping to the representative mapping that all processes share.
    pub(crate) fn shared(&self, id: MapId, ip: u64) -> (MapId, u64) {
        let shared = self.maps.stand_in(id);
        if shared == id {
            return (id, ip);
        }
        (shared, ip.wrapping_sub(self.map_of(id).start).wrapping_add(self.map_of(shared).start))
    }

    pub(crate) fn is_shared(&self, id: MapId) -> bool {
        self.maps.is_shared(id)
    }

    /// Returns the DSO of a host's kernel addresses outside modules.
    pub(super) fn kernel_of(&mut self, host: HostId) -> MapId {
        let told = std::mem::replace(&mut self.host, host);
        let dso = self.intern(-1, b"[kernel.kallsyms]", FileId::None, None);
        self.host = told;
        self.maps.id(Map { start: 0, len: u64::MAX, pgoff: 0, dso }, |_, _| true)
    }

    /// Returns the id of the mapping in a record; `space` is that of its process.
    pub(super) fn map(&mut self, map: &Mmap<'_>, space: Option<&AddressSpace>) -> MapId {
        let (dso, pgoff) = self.of_record(map);
        let share = self.share && map.pid > 0;
        self.maps.id(Map { start: map.start, len: map.len, pgoff, dso }, |maps, first| {
            !share || space.is_some_and(|space| space.maps().any(|own| maps.stand_in(own) == first))
        })
    }

    pub(crate) fn of_record(&mut self, map: &Mmap<'_>) -> (DsoId, u64) {
        let end = map.start.saturating_add(map.len);
        let via = (map.pid > 0).then_some((map.pid, map.start, end));
        let (name, pgoff) = match map.name {
            // perf records the kernel's mapping under the name of its reference symbol; its symbols are absolute.
            name if map.pid == -1 && name.starts_with(b"[kernel.kallsyms]") => (&b"[kernel.kallsyms]"[..], map.start),
            name if map.pid == -1 => (name, map.start),
            name => (name, map.pgoff),
        };
        let anon_name;
        // All code of a process's JIT is one DSO, regardless of the memory that it is written to.
        let (name, pgoff, file) = if map.pid > 0 && (is_anonymous(name) || is_written_code(map)) {
            anon_name = format!("/tmp/perf-{}.map", map.pid);
            (anon_name.as_bytes(), map.start, FileId::None)
        } else {
            (name, pgoff, file_of(map))
        };
        let dso = self.intern(map.pid, name, file, via);
        // For the first segment, a loader reserves the space of all segments, which may exceed the file's size.
        if self.list[dso.0 as usize].kind == DsoKind::File && pgoff != 0 {
            let extent = &mut self.list[dso.0 as usize].extent;
            *extent = (*extent).max(pgoff.saturating_add(map.len));
        }
        self.join_dump(map.pid, dso);
        if self.list[dso.0 as usize].kind == DsoKind::Kernel && map.pgoff != 0 {
            let symbol = map.name.strip_prefix(b"[kernel.kallsyms]").filter(|symbol| !symbol.is_empty());
            let kernel = &mut self.list[dso.0 as usize];
            kernel.text = Some(map.pgoff);
            kernel.text_symbol = symbol.map(|symbol| String::from_utf8_lossy(symbol).into());
        }
        (dso, pgoff)
    }

    /// Records the jitdump file of a process: its writer maps it, so that recordings have its name.
    fn join_dump(&mut self, pid: i32, dso: DsoId) {
        if is_jitdump(&self.list[dso.0 as usize].raw_path) {
            let path = self.list[dso.0 as usize].raw_path.clone();
            let anon = format!("/tmp/perf-{pid}.map");
            let host = self.host;
            let mut same = self.list.iter_mut().filter(|d| d.host == host && *d.path == *anon);
            same.by_ref().for_each(|d| d.dump = Some(path.clone()));
            self.dumps.insert((host, pid), path);
        } else if self.list[dso.0 as usize].kind == DsoKind::Anon && self.list[dso.0 as usize].dump.is_none() {
            self.list[dso.0 as usize].dump = self.dumps.get(&(self.host, pid)).cloned();
        }
    }

    pub(crate) fn dumps(&self) -> impl ExactSizeIterator<Item = (&(HostId, i32), &Arc<[u8]>)> {
        self.dumps.iter()
    }

    /// Returns the DSO of a process's code without a file.
    pub(crate) fn anonymous_of(&self, host: HostId, pid: i32) -> Option<&Dso> {
        let path = format!("/tmp/perf-{pid}.map");
        let id = self.ids.get(&(host, path.as_bytes().into(), FileId::None));
        id.map(|id| self.get(*id))
    }

    /// Applies a file's build id from a recording's header to known and future files.
    pub(crate) fn learn_build_id(&mut self, known: &IdentifiedFile) {
        let IdentifiedFile { kernel, path, file, id } = known;
        let path: Arc<[u8]> = if *kernel && path.starts_with("[kernel.kallsyms]") {
            b"[kernel.kallsyms]"[..].into()
        } else {
            path.as_bytes().into()
        };
        let host = self.host;
        let is_it = |dso: &Dso| match file {
            FileId::None => dso.build_id.is_none(),
            one => dso.file == *one,
        };
        let same = |dso: &&mut Dso| dso.host == host && dso.raw_path == path && is_it(dso);
        self.list.iter_mut().filter(same).for_each(|dso| dso.build_id = Some(*id));
        self.build_ids.insert((host, path, *file), *id);
    }

    /// Sets the build id of a DSO whose file was read, unless the recording has one.
    pub(crate) fn identify(&mut self, dso: DsoId, id: BuildId) {
        self.list[dso.0 as usize].build_id.get_or_insert(id);
    }

    /// Learns the name and the source of an interpreted function.
    pub(crate) fn learn_function(&mut self, language: Language, address: u64, function: NamedFunction) {
        let dso = self.intern(1, language.dso().as_bytes(), FileId::None, None);
        self.list[dso.0 as usize].functions.learn(interpreted::to_dso(address), function);
    }

    /// Returns a DSO that a text names.
    pub fn named(&mut self, path: &str, kind: DsoKind) -> Dso {
        let id = self.intern(if kind.is_kernel() { -1 } else { 1 }, path.as_bytes(), FileId::None, None);
        self.list[id.0 as usize].kind = kind;
        self.list[id.0 as usize].clone()
    }

    fn intern(&mut self, pid: i32, name: &[u8], file: FileId, via: Option<(i32, u64, u64)>) -> DsoId {
        let file = if name.starts_with(b"[") { FileId::None } else { file };
        let raw_path: Arc<[u8]> = name.into();
        let next = DsoId(self.list.len() as u32);
        let id = *self.ids.entry((self.host, raw_path.clone(), file)).or_insert(next);
        if id == next {
            let path: Arc<str> = String::from_utf8_lossy(name).into();
            let short = module_name(pid, &path).unwrap_or_else(|| short_name(&path));
            let build_id = match file {
                FileId::BuildId(id) => Some(id),
                _ => {
                    let known = |file| self.build_ids.get(&(self.host, raw_path.clone(), file)).copied();
                    known(file).or_else(|| known(FileId::None))
                }
            };
            self.list.push(Dso {
                id,
                host: self.host,
                short,
                kind: kind_of(pid, &path),
                path,
                raw_path,
                file,
                build_id,
                text: None,
                text_symbol: None,
                since: self.now,
                extent: 0,
                via,
                dump: None,
                functions: FunctionNames::default(),
            });
        } else if via.is_some() {
            // The newest process is the most likely one to be alive.
            self.list[id.0 as usize].via = via;
        }
        id
    }
}

/// Returns whether a kernel name denotes memory without a file of code. The last prefix is that of .NET's code.
pub(crate) fn is_anonymous(name: &[u8]) -> bool {
    const STARTS: [&[u8]; 8] =
        [b"//anon", b"/dev/zero", b"/anon_hugepage", b"[stack", b"/SYSV", b"[heap]", b"[anon:", b"/memfd:doublemapper"];
    name.is_empty() || STARTS.iter().any(|start| name.starts_with(start))
}

/// Returns whether a file holds code that its process writes at run time: it is mapped shared, and is memory, deleted, or
/// writable; or it is memory that the process may still write. Programs in such memory may not be written.
fn is_written_code(map: &Mmap<'_>) -> bool {
    const SHARED: u32 = libc::MAP_SHARED as u32;
    const EXEC: u32 = libc::PROT_EXEC as u32;
    const WRITE: u32 = libc::PROT_WRITE as u32;
    let is_memfd = map.name.starts_with(b"/memfd:");
    let is_memory = is_memfd || map.name.starts_with(b"/dev/shm/") || map.name.ends_with(b" (deleted)");
    let (is_shared, is_writable) = (map.flags & SHARED != 0, map.prot & WRITE != 0 && !is_injected(map));
    let is_written = is_shared && (is_memory || is_writable) || is_memfd && is_writable;
    is_written && map.prot & EXEC != 0 && map.name.starts_with(b"/") && !is_jitdump(map.name)
}

/// Returns whether `perf inject --jit` has written a mapping, that of a function's file: its protection is the mode of the
/// file.
fn is_injected(map: &Mmap<'_>) -> bool {
    const PROTECTIONS: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    map.prot > PROTECTIONS as u32
}

/// Returns the file of a mapping. `perf inject --jit` invents its generation.
fn file_of(map: &Mmap<'_>) -> FileId {
    match map.file {
        FileId::Inode { major, minor, inode, .. } if is_injected(map) => {
            FileId::Inode { major, minor, inode, generation: 0 }
        }
        file => file,
    }
}

/// Returns whether a path is a jitdump file, `jit-PID.dump`, as in its specification.
pub(crate) fn is_jitdump(path: &[u8]) -> bool {
    let base = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    base.strip_prefix(b"jit-")
        .and_then(|b| b.strip_suffix(b".dump"))
        .is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
}

fn kind_of(pid: i32, path: &str) -> DsoKind {
    if let Some(language) = Language::of_dso(path.as_bytes()) {
        return DsoKind::Interpreted(language);
    }
    match path {
        "[kernel.kallsyms]" => DsoKind::Kernel,
        "[vdso]" => DsoKind::Vdso,
        _ if pid == -1 && path.starts_with("bpf_") => DsoKind::Bpf,
        _ if pid == -1 => DsoKind::Module,
        _ if path.starts_with("/tmp/perf-") && path.ends_with(".map") => DsoKind::Anon,
        _ if path.starts_with('/') => DsoKind::File,
        _ => DsoKind::Unknown,
    }
}

/// Returns a module's bracketed name, from the path of its object file; the kernel replaces dashes by underscores.
fn module_name(pid: i32, path: &str) -> Option<Arc<str>> {
    let base = path.rsplit('/').next().filter(|_| pid == -1)?;
    let (name, _) = base.split_once(".ko")?;
    Some(format!("[{}]", name.replace('-', "_")).into())
}

/// Returns perf's short name: `[JIT] tid N` for anonymous code, the bracketed name, else the last part of the path.
fn short_name(path: &Arc<str>) -> Arc<str> {
    if path.starts_with('[') {
        return path.clone();
    }
    let base = path.rsplit('/').next().unwrap_or(path);
    let jit = base.strip_prefix("perf-").and_then(|b| b.strip_suffix(".map")).filter(|pid| pid.parse::<u32>().is_ok());
    match jit {
        Some(pid) => format!("[JIT] tid {pid}").into(),
        None => base.into(),
    }
}

#[cfg(test)]
mod tests;
