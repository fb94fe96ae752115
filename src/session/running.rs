//! Running processes, looked up in /proc: those that started before the session, and their mappings.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;
use rustc_hash::FxHashMap;

use crate::kernel::blocked::{self, stacks};
use crate::kernel::{monotonic_ns, peers, procfs, sockets};
use crate::record::kinds::{FileId, Mmap, TaskRecord};

use super::host::Thread;
use super::space::AddressSpace;
use super::{
    BlockedThread, MAX_TOLD, NamedCall, Origin, OtherEnds, ServiceNames, Session, SideBandEvent, SleepingStack,
    TcpMonitor, TcpSocket, is_unnamed, unnamed,
};

/// The maximum number of blocked threads to look up: each takes three reads.
const MAX_BLOCKED: usize = 1 << 14;

impl Session {
    /// Reads the names of running threads before the first record, processes first, within a short time limit.
    pub(crate) fn learn_running(&mut self) {
        const PATIENCE: Duration = Duration::from_millis(100);
        procfs::comms(PATIENCE, |tid, name| {
            let name = self.intern(name);
            self.told.insert(tid, name);
        });
    }

    /// Reads the mappings of the target's processes before the first record, within a short time limit, because /proc
    /// no longer shows those that end. Skips processes of our own program: a command runs it until its exec.
    pub(crate) fn learn_target(&mut self, tids: &[i32]) {
        const PATIENCE: Duration = Duration::from_millis(200);
        let (begun, own) = (Instant::now(), procfs::executable(std::process::id() as i32));
        for tid in tids {
            if begun.elapsed() > PATIENCE {
                return;
            }
            let pid = procfs::tgid(*tid).filter(|pid| !self.here().threads.contains_key(pid));
            if let Some(pid) = pid.filter(|pid| procfs::executable(*pid) != own) {
                self.adopt(pid, pid);
            }
        }
    }

    /// Starts reading the mappings of all running processes, which [`Session::learn_earlier`] continues.
    pub(crate) fn begin_earlier(&mut self) {
        self.earlier.begin(procfs::processes());
    }

    /// Reads the mappings of more processes that existed before their first record, for a limited time. Such a process
    /// may end before this record is applied, and /proc then no longer shows them.
    pub(crate) fn learn_earlier(&mut self, patience: Duration) {
        let (begun, mut earlier) = (Instant::now(), std::mem::take(&mut self.earlier));
        while begun.elapsed() < patience {
            let Some(pid) = earlier.next() else { break };
            if !self.here().spaces.contains_key(&pid) {
                earlier.put(pid, self.maps_of(pid));
            }
        }
        self.earlier = earlier;
    }

    fn maps_of(&self, pid: i32) -> Vec<procfs::ProcMapping> {
        if self.data_maps { procfs::maps(pid) } else { procfs::exec_maps(pid) }
    }

    /// Sets a thread's name from a record, unless the name is known from another source.
    pub(crate) fn told(&mut self, tid: i32, name: &[u8]) {
        let known = self.here().threads.get(&tid).map(|thread| is_unnamed(tid, &thread.comm));
        if known == Some(false) || self.told.contains_key(&tid) || self.told.len() >= MAX_TOLD {
            return;
        }
        let comm = self.intern(name);
        if known == Some(true) {
            let pid = self.here().threads.get(&tid).map_or(0, |thread| thread.pid);
            self.here_mut().threads.insert(tid, Thread::new(comm.clone(), pid));
        }
        self.told.insert(tid, comm);
    }

    pub(super) fn adopt(&mut self, tid: i32, pid: i32) {
        if tid == 0 {
            self.here_mut().threads.insert(0, Thread::new(Arc::from("swapper"), 0));
            return;
        }
        self.here_mut().members.join(pid, tid);
        let live = self.origin == Origin::Live;
        // The process is named after its first thread, which is registered before the others.
        if live && tid != pid && pid > 0 && !self.here().threads.contains_key(&pid) {
            self.adopt(pid, pid);
        }
        let name = if live { procfs::comm(pid, tid) } else { None };
        let known = || self.told.get(&tid).or_else(|| self.told.get(&pid)).cloned();
        let comm = match name {
            Some(name) => self.intern(&name),
            None => known().unwrap_or_else(|| unnamed(tid)),
        };
        if live && !self.here().spaces.contains_key(&pid) {
            self.adopt_space(pid, &comm);
        }
        if live && tid != pid {
            let task = TaskRecord { pid, ppid: pid, tid, ptid: pid, time: 0 };
            self.note(0, SideBandEvent::thread(task));
            self.here_mut().meet(pid, tid);
        }
        if live {
            self.note(0, SideBandEvent::Comm { pid, tid, exec: false, comm: comm.clone() });
        }
        self.here_mut().threads.insert(tid, Thread::new(comm, pid));
    }

    fn adopt_space(&mut self, pid: i32, comm: &Arc<str>) {
        self.generation += 1;
        let mut space = AddressSpace::empty(self.generation);
        self.note(0, SideBandEvent::Comm { pid, tid: pid, exec: false, comm: comm.clone() });
        self.dsos.now = 0;
        let (now, earlier) = (self.maps_of(pid), self.earlier.take(pid));
        for m in if now.is_empty() { earlier } else { now } {
            let file = match m.inode {
                0 => FileId::None,
                inode => FileId::Inode { major: m.major, minor: m.minor, inode, generation: 0 },
            };
            let map = Mmap {
                pid,
                tid: pid,
                start: m.start,
                len: m.end - m.start,
                pgoff: m.offset,
                file,
                prot: m.prot,
                flags: m.flags,
                name: &m.name,
            };
            let id = self.dsos.map(&map, Some(&space));
            let at = self.dsos.placed(id);
            self.note(0, SideBandEvent::Map { pid, tid: pid, at, prot: m.prot, flags: m.flags });
            space.insert(m.start, m.end, id, self.generation);
        }
        self.here_mut().spaces.insert(pid, space);
    }

    /// Returns the mappings of a running process, with and without code, as (start, end, name); empty for a recording.
    pub(crate) fn regions(&self, pid: i32) -> Vec<(u64, u64, Arc<str>)> {
        if self.origin != Origin::Live || pid <= 0 {
            return Vec::new();
        }
        let name = |name: &[u8]| if name.is_empty() { "[anon]".into() } else { String::from_utf8_lossy(name).into() };
        procfs::maps(pid).into_iter().map(|map| (map.start, map.end, name(&map.name))).collect()
    }

    pub(crate) fn parent_of(&self, pid: i32) -> Option<i32> {
        let ask = || (self.origin == Origin::Live).then(|| procfs::parent(pid)).flatten();
        self.here().parents.get(&pid).copied().or_else(ask).filter(|pid| *pid > 0)
    }

    /// Returns whether two processes run the same program: by their files if they can be looked up, else by name.
    pub(crate) fn run_one_program(&self, pid: i32, other: i32) -> bool {
        let file = |pid| (self.origin == Origin::Live).then(|| procfs::executable(pid)).flatten();
        match (file(pid), file(other)) {
            (Some(a), Some(b)) => a == b,
            _ => self.comm_of(pid).is_some_and(|comm| self.comm_of(other) == Some(comm)),
        }
    }

    /// Returns the blocked threads of a live machine, and the time at which all were read, by the clock of its records.
    pub(crate) fn blocked(&self) -> (Vec<BlockedThread>, u64) {
        let threads = if self.origin == Origin::Live { blocked::threads(MAX_BLOCKED) } else { Vec::new() };
        (threads, monotonic_ns())
    }

    /// Starts to copy the stacks of sleeping threads of a live machine. `None` for recordings, and on processors whose
    /// tables need more registers than these stacks have.
    pub(crate) fn sleeping_stacks(&self, threads: Vec<NamedCall>) -> Option<Receiver<SleepingStack>> {
        let can_unwind = self.origin == Origin::Live && cfg!(target_arch = "x86_64") && !threads.is_empty();
        can_unwind.then(|| stacks::copy(threads).ok()).flatten()
    }

    /// Returns the TCP sockets of a live machine in all its network namespaces; `None` for a recording.
    pub(crate) fn tcp_sockets(&self, monitor: &mut TcpMonitor) -> Option<Vec<TcpSocket>> {
        (self.origin == Origin::Live).then(|| monitor.sockets())
    }

    /// Returns the inode of a live process's network namespace.
    pub(crate) fn net_namespace(&self, pid: i32) -> Option<u64> {
        (self.origin == Origin::Live && pid > 0).then(|| sockets::namespace_of(pid)).flatten()
    }

    /// Returns the names of TCP ports on a live machine. Recordings look the same everywhere, without such names.
    pub(crate) fn service_names(&self) -> ServiceNames {
        if self.origin == Origin::Live { ServiceNames::read() } else { ServiceNames::default() }
    }

    /// Returns a process for each socket of a live machine, by the socket's inode.
    pub(crate) fn socket_owners(&self) -> FxHashMap<u32, i32> {
        if self.origin == Origin::Live { sockets::socket_owners() } else { FxHashMap::default() }
    }

    /// Returns the open files of all processes of a live machine: process, descriptor, and its link in /proc.
    pub(crate) fn open_files(&self) -> Vec<(i32, i32, String)> {
        const PATIENCE: Duration = Duration::from_millis(300);
        if self.origin == Origin::Live { procfs::open_files(PATIENCE) } else { Vec::new() }
    }

    /// Returns the link of a live process's open file: its path, or its kind and number.
    pub(crate) fn open_file(&self, pid: i32, fd: i32) -> Option<String> {
        (self.origin == Origin::Live).then(|| procfs::link(&format!("/proc/{pid}/fd/{fd}"))).flatten()
    }

    /// Returns the other ends of the sockets and pipes of a live machine.
    pub(crate) fn other_ends(&self) -> OtherEnds {
        const PATIENCE: Duration = Duration::from_millis(100);
        if self.origin == Origin::Live { peers::other_ends(PATIENCE) } else { OtherEnds::default() }
    }

    /// Returns whether a live process listens for connections.
    pub(crate) fn listens(&self, pid: i32) -> bool {
        self.origin == Origin::Live && peers::listens(pid)
    }

    /// Returns the inode of a link of [`Session::open_file`] to a `socket` or `pipe`.
    pub(crate) fn inode_of_link(link: &str, kind: &str) -> Option<u64> {
        peers::inode_of(link, kind)
    }

    /// Whether a descriptor of a live process is open for writing only.
    pub(crate) fn writes_only(&self, pid: i32, fd: i32) -> bool {
        self.origin == Origin::Live && peers::writes(pid, fd)
    }

    /// Returns the descriptors that an epoll of a live process waits for.
    pub(crate) fn polled(&self, pid: i32, fd: i32) -> Vec<i32> {
        if self.origin == Origin::Live { peers::polled(pid, fd) } else { Vec::new() }
    }

    /// Returns the working directory of a live process.
    pub(crate) fn working_directory(&self, pid: i32) -> Option<String> {
        (self.origin == Origin::Live).then(|| procfs::link(&format!("/proc/{pid}/cwd"))).flatten()
    }

    /// Returns a number in a running process's memory; `None` for a recording, or if it cannot be read.
    pub(crate) fn peek(&self, pid: i32, address: u64, len: usize) -> Option<u64> {
        (self.origin == Origin::Live).then(|| procfs::peek(pid, address, len)).flatten()
    }

    pub(crate) fn process_of(&self, tid: i32) -> Option<i32> {
        self.recorded_process_of(tid)
            .or_else(|| (self.origin == Origin::Live && tid > 0).then(|| procfs::tgid(tid)).flatten())
    }

    /// Returns the process of a thread that a record named, without a lookup.
    pub(crate) fn recorded_process_of(&self, tid: i32) -> Option<i32> {
        self.here().threads.get(&tid).map(|thread| thread.pid).filter(|pid| *pid > 0)
    }

    /// Returns whether a process is one of `from`, or descends from one.
    pub(crate) fn descends(&self, pid: i32, from: &[i32]) -> bool {
        /// The maximum number of generations: records may claim that a process descends from itself.
        const MAX_DEPTH: usize = 256;
        std::iter::successors(Some(pid), |pid| self.parent_of(*pid)).take(MAX_DEPTH).any(|pid| from.contains(&pid))
    }

    pub(crate) fn user_of(&self, pid: i32) -> Option<u32> {
        (self.origin == Origin::Live).then(|| procfs::uid(pid)).flatten()
    }

    /// Returns the C library of a running process, or of this one for 0.
    pub(crate) fn libc_of(pid: i32) -> Option<String> {
        let pid = if pid > 0 { pid } else { std::process::id() as i32 };
        let maps = procfs::exec_maps(pid);
        maps.iter().map(|map| String::from_utf8_lossy(&map.name).into_owned()).find(|name| is_libc(name))
    }

    pub(crate) fn libc_of_system(root: &std::path::Path) -> Option<String> {
        let arch = std::env::consts::ARCH;
        let places = [
            format!("lib/{arch}-linux-gnu/libc.so.6"),
            "lib64/libc.so.6".to_owned(),
            "usr/lib/libc.so.6".to_owned(),
            "lib/libc.so.6".to_owned(),
            format!("lib/ld-musl-{arch}.so.1"),
        ];
        let path = places.iter().map(|place| root.join(place)).find(|path| path.is_file())?;
        Some(path.to_string_lossy().into_owned())
    }

    /// Returns the C++ library of a running process: one that it has mapped, or one in the C library's directory.
    pub(crate) fn cxx_of(pid: i32, libc: &str) -> Option<String> {
        let is_it = |path: &str| path.rsplit('/').next().is_some_and(|file| file.starts_with("libstdc++.so"));
        let maps = if pid > 0 { procfs::exec_maps(pid) } else { Vec::new() };
        let mapped = maps.iter().map(|map| String::from_utf8_lossy(&map.name).into_owned()).find(|path| is_it(path));
        let beside = || {
            let path = std::path::Path::new(libc).with_file_name("libstdc++.so.6");
            path.is_file().then(|| path.to_string_lossy().into_owned())
        };
        mapped.or_else(beside)
    }
}

/// Returns whether a path has a name of a C library: `libc.so.6`, `libc-2.31.so`, `ld-musl-x86_64.so.1`.
pub(super) fn is_libc(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    ["libc.", "libc-", "ld-musl"].iter().any(|start| file.starts_with(start))
}
