//! The session: threads, processes, names and address spaces over time. They come from side-band records and, on a live
//! system, from /proc for what existed before the first record.

mod apply;
pub mod containers;
pub(crate) mod dso;
mod earlier;
mod end;
mod groups;
mod host;
pub mod hosts;
pub(crate) mod layouts;
pub(crate) mod log;
pub mod machine;
mod mappings;
pub(crate) mod maps;
pub mod marks;
mod members;
pub(crate) mod recorder;
mod running;
pub(crate) mod space;
mod tasks;

use std::sync::Arc;

use hashbrown::HashMap;
use rustc_hash::FxHashMap;

pub use crate::kernel::blocked::BlockedThread;
pub(crate) use crate::kernel::blocked::stacks::NamedCall;
pub use crate::kernel::blocked::stacks::SleepingStack;
pub use crate::kernel::peers::OtherEnds;
pub(crate) use crate::kernel::peers::unix_name;
pub use crate::kernel::services::ServiceNames;
pub use crate::kernel::sockets::{SocketListError, TcpCounters, TcpMonitor, TcpSocket};
use crate::kernel::{cgroup, procfs};
pub(crate) use crate::kernel::{monotonic_ns, thread_cpu_ns};
use crate::record::Record;
use crate::record::open_spans::ThreadChange;

use containers::{Container, NamedContainer};
pub use dso::{Dso, DsoKind, Dsos};
use earlier::EarlierMaps;
pub use end::EndReason;
pub use host::Host;
use host::Thread;
use hosts::{HostId, PerHost};
pub use log::{SideBandEvent, SideLog};
pub use mappings::Mappings;
pub use maps::{DsoId, MapId, Placed};
pub use marks::TimeMark;
use space::AddressSpace;
use tasks::Tasks;
pub(crate) use tasks::{OUTSIDE, OUTSIDE_NAME, Task, TaskId};

/// The origin of a session, which determines whether processes can be looked up in /proc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// This machine, now: /proc shows processes from before the first record.
    Live,
    /// A recording or a text, which is the only source of information.
    #[default]
    Recorded,
}

/// The maximum number of names of threads that have not been seen yet.
const MAX_TOLD: usize = 1 << 17;

pub(crate) fn threads_of(pid: i32) -> Vec<i32> {
    procfs::threads(pid)
}

/// All threads, processes and mappings of a session, by machine.
#[derive(Debug)]
pub struct Session {
    origin: Origin,
    /// Whether mappings without code are recorded, too: perf finds unwind tables in them.
    pub(crate) data_maps: bool,
    /// The mappings without code of each process, if addresses of data are looked up.
    pub(crate) data: Option<FxHashMap<i32, AddressSpace>>,
    /// Whether the cgroups of processes are looked up if samples do not have them.
    pub(crate) finds_groups: bool,
    /// The files and other sources of code on all machines, with their mappings.
    pub dsos: Dsos,
    tasks: Tasks,
    hosts: PerHost<Host>,
    at: HostId,
    generation: u32,
    names: HashMap<Arc<str>, ()>,
    /// Names of threads at the session's start or from records, for threads that exit before their first sample.
    told: FxHashMap<i32, Arc<str>>,
    earlier: EarlierMaps,
    /// The socket of each CPU, from a recording of one machine that has them.
    pub(crate) sockets: Vec<u32>,
}

impl Session {
    /// Returns a session of one machine.
    pub fn new(origin: Origin) -> Self {
        Self {
            origin,
            data_maps: false,
            data: None,
            finds_groups: false,
            dsos: Dsos::default(),
            tasks: Tasks::default(),
            hosts: PerHost::one(Host::new("".into(), MapId::KERNEL, 0)),
            at: HostId::default(),
            generation: 0,
            names: HashMap::new(),
            told: FxHashMap::default(),
            earlier: EarlierMaps::default(),
            sockets: Vec::new(),
        }
    }

    pub(crate) fn log(&self) -> &SideLog {
        &self.here().log
    }

    fn note(&mut self, time: u64, side: SideBandEvent) {
        self.here_mut().log.push(time, side);
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns all tasks, each at the index of its id.
    pub fn tasks(&self) -> &[Task] {
        self.tasks.all()
    }

    /// Returns the change of threads that a record reports; must be called before the record is applied.
    pub(crate) fn thread_change(&self, record: &Record<'_>) -> Option<ThreadChange> {
        self.here().thread_change(record)
    }

    /// Registers the thread of a sample, which may be its first occurrence.
    pub(crate) fn met(&mut self, pid: i32, tid: i32) {
        self.here_mut().met(pid, tid);
    }

    /// Returns whether a process runs a 32-bit program: then the kernel maps its own code for it below 4 GiB. Returns
    /// false if its mappings are unknown.
    pub(crate) fn is_32_bit(&self, pid: i32) -> bool {
        let space = self.here().spaces.get(&pid);
        let is_kernels = |map: MapId| matches!(&*self.dsos.of_map(map).path, "[vdso]" | "[sigpage]" | "[vectors]");
        let mut low = space.into_iter().flat_map(|space| space.parts().0.iter().take_while(|own| own.end <= 1 << 32));
        low.any(|own| is_kernels(own.map))
    }

    /// Returns the mapping of a process that contains an address of data or code.
    pub(crate) fn data_map(&self, pid: i32, addr: u64) -> MapId {
        let data = self.data.as_ref().and_then(|data| data.get(&pid)?.find(addr));
        data.unwrap_or_else(|| self.user_map(pid, addr))
    }

    fn intern(&mut self, name: &[u8]) -> Arc<str> {
        let text = String::from_utf8_lossy(name);
        if let Some((known, ())) = self.names.get_key_value(text.as_ref()) {
            return known.clone();
        }
        let name: Arc<str> = text.into();
        self.names.insert(name.clone(), ());
        name
    }

    fn thread(&mut self, tid: i32, pid: i32) -> &mut Thread {
        if !self.here().threads.contains_key(&tid) {
            self.adopt(tid, pid);
        }
        self.here_mut().threads.entry(tid).or_insert_with(|| Thread::new(unnamed(tid), pid))
    }

    /// Returns the current task of a thread.
    pub fn task(&mut self, pid: i32, tid: i32) -> TaskId {
        self.task_in(pid, tid, 0)
    }

    pub(crate) fn task_in(&mut self, pid: i32, tid: i32, cgroup: u64) -> TaskId {
        let known = self.here().threads.get(&tid).and_then(|thread| thread.task);
        if let Some((_, id)) = known.filter(|(of, _)| *of == cgroup) {
            return id;
        }
        let comm = self.thread(tid, pid).comm.clone();
        if self.origin == Origin::Live && pid > 0 {
            self.thread(pid, pid);
        }
        let first = self.here().threads.get(&pid).map(|first| &first.comm).filter(|name| !is_unnamed(pid, name));
        let program = first.unwrap_or(&comm).clone();
        let cmdline = self.cmdline(pid);
        let group = self.group_of(pid, cgroup);
        let id = self.tasks.id(Task { host: self.at, pid, tid, comm, program, cmdline, cgroup: group });
        let here = self.here_mut();
        here.log.want(pid);
        if let Some(thread) = here.threads.get_mut(&tid) {
            thread.task = Some((cgroup, id));
        }
        id
    }

    /// Returns the command line of a process, which is looked up once per program that it runs.
    fn cmdline(&mut self, pid: i32) -> Arc<str> {
        if self.origin == Origin::Recorded || pid <= 0 {
            return Arc::default();
        }
        if let Some(known) = self.here().cmdlines.get(&pid) {
            return known.clone().unwrap_or_default();
        }
        let text = command_line(pid).map(|text| self.intern(text.as_bytes()));
        self.here_mut().cmdlines.insert(pid, text.clone());
        text.unwrap_or_default()
    }

    /// Returns the command line of a process when it was first seen, else the current one; empty if unknown.
    pub(crate) fn cmdline_of(&self, pid: i32) -> Arc<str> {
        match self.here().cmdlines.get(&pid) {
            Some(known) => known.clone().unwrap_or_default(),
            None if self.origin == Origin::Live && pid > 0 => command_line(pid).unwrap_or_default().into(),
            None => Arc::default(),
        }
    }

    /// Returns the cgroup of a process: the recorded one, unless it is the root and the process can be looked up.
    fn group_of(&mut self, pid: i32, told: u64) -> u64 {
        if !self.finds_groups || pid <= 0 || self.here().groups.says_something(told) {
            return told;
        }
        if let Some(found) = self.here().groups.found(pid) {
            return found.unwrap_or(told);
        }
        // Most samples of short processes arrive after their end.
        let has_gone = self.here().cmdlines.get(&pid).is_some_and(Option::is_none);
        let path = if has_gone { None } else { cgroup_of_process(pid) };
        let path = path.map(|path| self.intern(path.as_bytes()));
        let (id, fresh) = self.here_mut().groups.find(pid, path.as_ref());
        if let (Some(id), Some(path), true) = (id, path, fresh) {
            self.note(0, SideBandEvent::Cgroup { id, path });
        }
        id.unwrap_or(told)
    }

    /// Returns the path of a task's cgroup; empty if unknown.
    pub(crate) fn cgroup(&self, task: &Task) -> Arc<str> {
        self.hosts[task.host].groups.get(task.cgroup).map(|group| group.path.clone()).unwrap_or_default()
    }

    /// Returns the container, unit or group of a task; one without names if unknown.
    pub fn container(&self, task: &Task) -> Arc<Container> {
        self.hosts[task.host].groups.get(task.cgroup).map(|group| group.container.clone()).unwrap_or_default()
    }

    /// Returns the current cgroup of a thread: the one in its samples, else from a look-up on a live machine. A process
    /// that ended before its look-up was in the group of its parent, unless it had moved.
    pub fn cgroup_of(&self, tid: i32) -> Option<Arc<str>> {
        let parent = |pid: &i32| self.here().parents.get(pid).copied();
        let inherited = || {
            let line = std::iter::successors(self.process_of(tid).filter(|_| self.finds_groups), parent);
            line.skip(1).take(MOST_ANCESTORS).find_map(|pid| self.own_cgroup(pid))
        };
        self.own_cgroup(tid).or_else(inherited)
    }

    fn own_cgroup(&self, tid: i32) -> Option<Arc<str>> {
        let task = self.here().threads.get(&tid).and_then(|thread| thread.task);
        let told = task.and_then(|(_, id)| self.tasks.all().get(id.0 as usize)).map(|task| self.cgroup(task));
        let ask = || (self.finds_groups && tid > 0).then(|| cgroup_of_process(tid)).flatten().map(Arc::from);
        told.filter(|path| path.len() > 1).or_else(ask)
    }

    /// Returns the container, unit or group of a cgroup path on the current machine.
    pub fn container_in(&self, path: &str) -> Arc<Container> {
        self.here().groups.container_of(path)
    }

    /// Sets names of containers of the current machine; returns whether the name of a known cgroup changed.
    pub fn name_containers(&mut self, list: Vec<NamedContainer>) -> bool {
        self.here_mut().groups.name(list)
    }

    /// Returns the number of updates of container names on the current machine, for caches of derived data.
    pub fn container_names(&self) -> u64 {
        self.here().groups.told
    }

    /// Returns the task of a thread that a text names.
    pub(crate) fn named_task(&mut self, pid: i32, tid: i32, comm: &Arc<str>) -> TaskId {
        let (program, cmdline) = (comm.clone(), Arc::default());
        self.tasks.id(Task { host: self.at, pid, tid, comm: comm.clone(), program, cmdline, cgroup: 0 })
    }

    /// Returns the current name of a thread; on a live machine, unknown threads are looked up in /proc.
    pub(crate) fn comm_of(&self, tid: i32) -> Option<Arc<str>> {
        if let Some(thread) = self.here().threads.get(&tid) {
            return Some(thread.comm.clone()).filter(|comm| !is_unnamed(tid, comm));
        }
        let found = (self.origin == Origin::Live).then(|| procfs::comm(tid, tid)).flatten();
        found.map(|name| String::from_utf8_lossy(&name).into()).or_else(|| self.told.get(&tid).cloned())
    }

    /// Returns a number that changes whenever a process's user mappings change, and that processes with shared mappings
    /// have in common. It is part of the cache key of resolved call chains.
    pub(crate) fn space_generation(&self, pid: i32) -> u32 {
        self.here().spaces.get(&pid).map_or(0, AddressSpace::generation)
    }

    pub(crate) fn places(&self, pid: i32) -> Mappings<'_> {
        let here = self.here();
        Mappings::new(&self.dsos, here.spaces.get(&pid), &here.kernel, here.kernel_text)
    }

    /// Returns the mapping that contains a user address of a process.
    pub fn user_map(&self, pid: i32, ip: u64) -> MapId {
        self.here().spaces.get(&pid).and_then(|s| s.find(ip)).unwrap_or(MapId::UNKNOWN)
    }

    pub(crate) fn kernel_map(&self, ip: u64) -> MapId {
        self.here().kernel.find(ip).unwrap_or(self.here().kernel_text)
    }

    /// Returns the generation of the kernel's mappings, which change with modules and BPF programs.
    pub(crate) fn kernel_generation(&self) -> u32 {
        self.here().kernel.generation()
    }

    /// Starts a new table of tasks and returns the old one; [`Self::keep_task`] adds tasks that are still needed.
    pub(crate) fn renew_tasks(&mut self) -> Vec<Task> {
        let threads = self.hosts.values_mut().flat_map(|host| host.threads.values_mut());
        threads.for_each(|thread| thread.task = None);
        self.tasks.renew()
    }

    pub(crate) fn keep_task(&mut self, task: &Task) -> TaskId {
        self.tasks.id(task.clone())
    }

    /// Removes mappings and names that are neither in use nor in `used`.
    pub(crate) fn forget_unused(&mut self, used: impl Iterator<Item = MapId>) {
        let mut is_used = self.dsos.maps.none_used();
        let mut mark = |map: MapId| is_used[map.0 as usize] = true;
        used.for_each(&mut mark);
        self.hosts.iter().for_each(|(_, host)| host.log.each_map(&mut mark));
        self.forget_maps(is_used);
        self.names.retain(|name, ()| Arc::strong_count(name) > 1);
        self.names.shrink_to(2 * self.names.len());
    }

    pub(crate) fn forget_moved(&mut self) {
        self.forget_maps(self.dsos.maps.standing());
    }

    /// Removes mappings that neither a process nor `used` contains.
    fn forget_maps(&mut self, mut used: Vec<bool>) {
        let mut mark = |map: MapId| used[map.0 as usize] = true;
        self.hosts.iter().for_each(|(_, host)| host.each_map(&mut mark));
        let data = self.data.iter().flat_map(FxHashMap::values);
        data.flat_map(|space| space.maps().chain(space.before())).for_each(&mut mark);
        self.dsos.maps.forget_others(used);
    }
}

/// Returns the command line of a process; `None` if it has gone.
fn command_line(pid: i32) -> Option<String> {
    let bytes = procfs::cmdline(pid)?;
    let words: Vec<String> =
        bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).trim().to_owned()).collect();
    Some(words.join(" ").trim_end().to_owned())
}

/// The number of ancestors whose cgroup is looked up for an ended process.
const MOST_ANCESTORS: usize = 8;

/// Returns the path of a running process's cgroup; if there are several, that of a container.
fn cgroup_of_process(pid: i32) -> Option<String> {
    let mut paths = cgroup::of_process(pid);
    let container = paths.iter().position(|path| containers::is_container(path));
    (!paths.is_empty()).then(|| paths.swap_remove(container.unwrap_or(0)))
}

/// Returns perf's name for a thread with an unknown name: a colon and the tid.
fn unnamed(tid: i32) -> Arc<str> {
    format!(":{tid}").into()
}

/// Whether a thread's name is only its number.
pub(crate) fn is_unnamed(tid: i32, comm: &str) -> bool {
    comm.strip_prefix(':').is_some_and(|rest| rest.parse() == Ok(tid))
}

#[cfg(test)]
mod tests;
