//! Files and other sources of code (DSOs), and the distinct ways in which they are mapped.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::perfdata::build_ids::IdentifiedFile;
use crate::record::kinds::{BuildId, FileId, Mmap};

use super::hosts::HostId;
use super::maps::{DsoId, Map, MapId, Maps, Placed};
use super::space::Space;

/// The kind of code that a DSO holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DsoKind {
    /// No code that is known: addresses in no mapping, or in one such as `[stack]`.
    Unknown,
    /// The kernel's own text, its modules left out.
    Kernel,
    /// A module of the kernel.
    Module,
    /// A BPF program that was compiled to machine code.
    Bpf,
    /// The code that ran in virtual machines, whose addresses mean nothing on the host.
    Guest,
    /// The page of code that the kernel maps into each process (vdso(7)).
    Vdso,
    /// A program or a library.
    File,
    /// Executable memory without a file: a JIT's.
    Anon,
    /// Nothing: here a stack ends that went on, as it was copied in part or is broken.
    Cut,
}

impl DsoKind {
    /// True if its code runs in the kernel.
    pub(crate) fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel | Self::Module | Self::Bpf)
    }
}

/// A source of code.
#[derive(Clone, Debug)]
pub struct Dso {
    /// The place in [`Dsos::all`].
    pub id: DsoId,
    pub(crate) host: HostId,
    /// The full name, as the mapping process spelled it.
    pub path: Arc<str>,
    /// The same, byte for byte, for opening the file.
    pub(crate) raw_path: Arc<[u8]>,
    /// perf's short name: the last part of the path, or the bracketed name.
    pub(crate) short: Arc<str>,
    pub(crate) kind: DsoKind,
    pub(crate) file: FileId,
    /// The file's build id, by what a recording says or by the file that was found to be mapped.
    pub(crate) build_id: Option<BuildId>,
    /// For the kernel, where its text began while it was recorded: it is moved at each boot.
    pub(crate) text: Option<u64>,
    /// The symbol that stands there, by which perf says how far it was moved: `_text`, or `_stext` on AArch64.
    pub(crate) text_symbol: Option<Arc<str>>,
    /// The time of the first record that mapped it; 0 where it was mapped before the first record.
    pub(crate) since: u64,
    /// The end of what was mapped of it behind its first segment, as an offset in the file.
    pub(crate) extent: u64,
    /// A process that had it mapped, and where: the way to its file through /proc while it lives.
    pub via: Option<(i32, u64, u64)>,
    /// Of anonymous code, the jitdump file that its process has mapped.
    pub(crate) dump: Option<Arc<[u8]>>,
}

impl Dso {
    /// True where its path is a name that the kernel made up for memory: no file was ever there.
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
    /// The host that is told of: the same path is another file on another one.
    pub(super) host: HostId,
    pub(super) maps: Maps,
    /// Whether processes that have the same part of a file share what stands for it.
    pub share: bool,
    /// Build ids from a recording's head, by path and file; those of no certain file are of all the others of that
    /// path.
    build_ids: HashMap<(HostId, Arc<[u8]>, FileId), BuildId>,
    /// jitdump files by the process that has one mapped.
    dumps: HashMap<(HostId, i32), Arc<[u8]>>,
    /// The time of the record that is followed.
    pub(super) now: u64,
}

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
        for name in ["[unknown]", "[kernel.kallsyms]", "[guest.kernel.kallsyms]", "[truncated]", "[broken]"] {
            let dso = dsos.intern(-1, name.as_bytes(), FileId::None, None);
            dsos.maps.id(Map { start: 0, len: u64::MAX, pgoff: 0, dso }, |_, _| true);
        }
        dsos.list[0].kind = DsoKind::Unknown;
        dsos.list[2].kind = DsoKind::Guest;
        (dsos.list[3].kind, dsos.list[4].kind) = (DsoKind::Cut, DsoKind::Cut);
        dsos
    }
}

impl Dsos {
    /// The DSO of an id, which must be one of this session's.
    pub fn get(&self, id: DsoId) -> &Dso {
        &self.list[id.0 as usize]
    }

    /// All of them in the order in which they were met, after those that each session has.
    pub fn all(&self) -> &[Dso] {
        &self.list
    }

    pub(crate) fn map_of(&self, id: MapId) -> Map {
        self.maps.get(id)
    }

    /// The DSO that a mapping is of.
    pub fn of_map(&self, id: MapId) -> &Dso {
        self.get(self.map_of(id).dso)
    }

    /// A mapping by the one that stands for it, as it has the same part of the same file.
    pub(super) fn placed(&self, id: MapId) -> Placed {
        Placed { map: self.maps.stand_in(id), start: self.map_of(id).start }
    }

    /// The place of a process's address, in terms that all processes share.
    pub(crate) fn shared(&self, id: MapId, ip: u64) -> (MapId, u64) {
        let shared = self.maps.stand_in(id);
        if shared == id {
            return (id, ip);
        }
        (shared, ip.wrapping_sub(self.map_of(id).start).wrapping_add(self.map_of(shared).start))
    }

    /// True if processes have what a mapping stands for elsewhere.
    pub(crate) fn is_shared(&self, id: MapId) -> bool {
        self.maps.is_shared(id)
    }

    /// The DSO of a host's kernel addresses outside modules.
    pub(super) fn kernel_of(&mut self, host: HostId) -> MapId {
        let told = std::mem::replace(&mut self.host, host);
        let dso = self.intern(-1, b"[kernel.kallsyms]", FileId::None, None);
        self.host = told;
        self.maps.id(Map { start: 0, len: u64::MAX, pgoff: 0, dso }, |_, _| true)
    }

    /// The id of what a mapping record describes, in the space of its process.
    pub(super) fn map(&mut self, map: &Mmap<'_>, space: Option<&Space>) -> MapId {
        let (dso, pgoff) = self.of_record(map);
        let share = self.share && map.pid > 0;
        self.maps.id(Map { start: map.start, len: map.len, pgoff, dso }, |maps, first| {
            !share || space.is_some_and(|space| space.maps().any(|own| maps.stand_in(own) == first))
        })
    }

    /// The DSO of a mapping record, and the part of it.
    pub(crate) fn of_record(&mut self, map: &Mmap<'_>) -> (DsoId, u64) {
        let end = map.start.saturating_add(map.len);
        let via = (map.pid > 0).then_some((map.pid, map.start, end));
        let (name, pgoff) = match map.name {
            // perf records the kernel's map under the name of its reference symbol; its symbols
            // are absolute.
            name if map.pid == -1 && name.starts_with(b"[kernel.kallsyms]") => (&b"[kernel.kallsyms]"[..], map.start),
            name if map.pid == -1 => (name, map.start),
            name => (name, map.pgoff),
        };
        let anon_name;
        // All that a process's JIT writes is one, whatever it is written to.
        let (name, pgoff, file) = if map.pid > 0 && (is_anonymous(name) || is_written_code(map)) {
            anon_name = format!("/tmp/perf-{}.map", map.pid);
            (anon_name.as_bytes(), map.start, FileId::None)
        } else {
            (name, pgoff, map.file)
        };
        let dso = self.intern(map.pid, name, file, via);
        // For its first segment a loader takes the room of all of them, which may be more than the file has.
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

    /// A process that writes a jitdump file maps it, so that its recording has the name.
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

    /// The jitdump files that processes have mapped, by host and process.
    pub(crate) fn dumps(&self) -> impl ExactSizeIterator<Item = (&(HostId, i32), &Arc<[u8]>)> {
        self.dumps.iter()
    }

    /// The DSO of a process's code without a file.
    pub(crate) fn anonymous_of(&self, host: HostId, pid: i32) -> Option<&Dso> {
        let path = format!("/tmp/perf-{pid}.map");
        let id = self.ids.get(&(host, path.as_bytes().into(), FileId::None));
        id.map(|id| self.get(*id))
    }

    /// Takes a file's build id from a recording's head, for files that are known and that will be.
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

    /// Takes the build id of a DSO whose file was read; what a recording says goes before it.
    pub(crate) fn identify(&mut self, dso: DsoId, id: BuildId) {
        self.list[dso.0 as usize].build_id.get_or_insert(id);
    }

    /// A DSO that a text names.
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
            });
        } else if via.is_some() {
            // The newest process is the likeliest to be still there.
            self.list[id.0 as usize].via = via;
        }
        id
    }
}

/// Memory that has no file of code behind it, by the names that the kernel gives it; the last is what
/// .NET puts its code into.
fn is_anonymous(name: &[u8]) -> bool {
    const STARTS: [&[u8]; 8] =
        [b"//anon", b"/dev/zero", b"/anon_hugepage", b"[stack", b"/SYSV", b"[heap]", b"[anon:", b"/memfd:doublemapper"];
    name.is_empty() || STARTS.iter().any(|start| name.starts_with(start))
}

/// True if a file holds code that its process writes while it runs: programs and libraries are mapped so that others do
/// not see what is written to them.
fn is_written_code(map: &Mmap<'_>) -> bool {
    const SHARED: u32 = libc::MAP_SHARED as u32;
    const EXEC: u32 = libc::PROT_EXEC as u32;
    map.flags & SHARED != 0 && map.prot & EXEC != 0 && map.name.starts_with(b"/") && !is_jitdump(map.name)
}

/// `jit-PID.dump`, as the jitdump specification has it.
pub(crate) fn is_jitdump(path: &[u8]) -> bool {
    let base = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    base.strip_prefix(b"jit-")
        .and_then(|b| b.strip_suffix(b".dump"))
        .is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
}

fn kind_of(pid: i32, path: &str) -> DsoKind {
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

/// A module's bracketed name, from the path of its object file; dashes are underscores in the kernel.
fn module_name(pid: i32, path: &str) -> Option<Arc<str>> {
    let base = path.rsplit('/').next().filter(|_| pid == -1)?;
    let (name, _) = base.split_once(".ko")?;
    Some(format!("[{}]", name.replace('-', "_")).into())
}

/// perf's short names: `[JIT] tid N` for a process's anonymous code, the bracketed name, else the
/// last part of the path.
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
