//! The open events of a session. Each CPU has one ring, owned by a dummy event; all other events are redirected to it,
//! so that events can be opened and closed without changes to the ring or its reader.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};

use crate::event::{CallGraph, Event};
use crate::kernel::attr::{Attr, Flag, TYPE_HARDWARE};
use crate::kernel::limits::Rights;
use crate::kernel::ring::Ring;
use crate::kernel::sys::{Errno, Ioctl, Sys};
use crate::kernel::walk::Hook;
use crate::perfdata::layout;
use crate::source::{EventState, FreshId, Handover, RunState};

use super::attr::{self, CommonAttrs, KernelFeatures};
use super::error::OpenError;
use super::event_slot::Slot;
use super::records::misattributed::MisattributedSamples;
use super::records::outer_namespace::OuterNamespaceTasks;
use super::records::stack_walks::StackWalks;
use super::records::strings::{OpenedEvent, TracedStrings};

mod counts;
mod listener;

pub(crate) use counts::ByCpu;

/// Cycles per nanosecond for a timer that replaces the cycles event: those of a CPU of 3 GHz.
const CYCLES_A_NS: u64 = 3;
/// The shortest period of such a timer: more samples would take half of a CPU to record.
const SHORTEST_NS: u64 = 50_000;

#[derive(Debug)]
pub(crate) struct CpuRing {
    pub(crate) owner: OwnedFd,
    pub(crate) id: u64,
    pub(crate) ring: Ring,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventTarget {
    /// A task, or -1 for all.
    Task(i32),
    Cgroup(usize),
}

impl EventTarget {
    pub(crate) const ALL: Self = Self::Task(-1);
}

#[derive(Debug)]
pub(crate) struct OpenEvent {
    pub(crate) fd: OwnedFd,
    /// `None` for a dummy: a task's own, or the listener for the kernel's code.
    pub(crate) event: Option<u16>,
    pub(crate) cpu: u32,
    pub(crate) who: EventTarget,
    pub(crate) id: u64,
    /// The time since which children of the task inherit it.
    pub(crate) since: u64,
}

impl OpenEvent {
    pub(super) fn now(fd: OwnedFd, event: Option<u16>, cpu: u32, who: EventTarget, id: u64) -> Self {
        Self { fd, event, cpu, who, id, since: crate::kernel::monotonic_ns() }
    }
}

fn fresh(id: u64, event: u16, attr: &Attr) -> FreshId {
    let period = if attr.has(Flag::Freq) { 0 } else { attr.period_or_freq };
    FreshId { id, event, layout: layout(attr), period }
}

pub(crate) struct Attachment {
    pub(crate) sys: Box<dyn Sys>,
    pub(crate) rights: Rights,
    pub(crate) slots: Vec<Slot>,
    pub(crate) common: CommonAttrs,
    pub(crate) have: KernelFeatures,
    pub(crate) pages: usize,
    pub(crate) rings: BTreeMap<u32, CpuRing>,
    pub(crate) opened: Vec<OpenEvent>,
    pub(crate) cgroups: Vec<OwnedFd>,
    /// Whether side-band records come from events on the tasks instead of the CPUs.
    pub(crate) by_task: bool,
    /// Whether there is a target, on which events are opened unless they are of the whole machine.
    pub(crate) is_narrow: bool,
    /// Whether `--call-graph` is auto.
    pub(crate) is_auto: bool,
    pub(crate) fresh_ids: Vec<FreshId>,
    pub(crate) notes: Vec<String>,
    pub(crate) walks: Option<StackWalks>,
    pub(crate) strings: TracedStrings,
    /// Translates task numbers to our own PID namespace, if it is not the outermost one.
    pub(crate) outside: Option<OuterNamespaceTasks>,
    /// Restores our ids in samples of software events.
    pub(crate) borrowed: MisattributedSamples,
}

impl Attachment {
    pub(crate) fn new(
        sys: Box<dyn Sys>,
        rights: Rights,
        events: Vec<Event>,
        common: CommonAttrs,
        pages: usize,
        by_task: bool,
    ) -> Self {
        Self {
            sys,
            rights,
            slots: events.into_iter().map(Slot::new).collect(),
            common,
            have: KernelFeatures::default(),
            pages,
            rings: BTreeMap::new(),
            opened: Vec::new(),
            cgroups: Vec::new(),
            by_task,
            is_narrow: false,
            is_auto: false,
            fresh_ids: Vec::new(),
            notes: Vec::new(),
            walks: None,
            strings: TracedStrings::default(),
            outside: OuterNamespaceTasks::here(),
            borrowed: MisattributedSamples::default(),
        }
    }

    pub(crate) fn attr(&self, event: usize) -> Attr {
        attr::event(&self.slots[event].event, &self.common, self.have)
    }

    pub(crate) fn states(&self) -> Vec<EventState> {
        self.slots.iter().map(|slot| slot.state(&self.common)).collect()
    }

    pub(crate) fn owner_attr(&self) -> Attr {
        let mut attr = attr::owner(&self.common, self.have);
        if self.slots.iter().any(|slot| matches!(slot.event.chains, Some(CallGraph::Dwarf(_)))) {
            attr.set(Flag::MmapData, true);
        }
        attr
    }

    /// Reports the owner's id, which side-band records have, as an id of the first event, whose records have the same
    /// trailer: perf rejects records whose id belongs to none of several events.
    fn report_owner(&mut self, owner: &OwnedFd) -> u64 {
        let Ok(id) = self.sys.ioctl(owner.as_fd(), Ioctl::Id) else { return 0 };
        let attr = self.attr(0);
        self.fresh_ids.push(fresh(id, 0, &attr));
        id
    }

    /// Opens a CPU's ring and its events on `who`. `Ok(false)` if the thread has exited or the CPU went offline.
    pub(crate) fn open(&mut self, cpu: u32, who: EventTarget) -> Result<bool, OpenError> {
        if !self.rings.contains_key(&cpu) {
            let pid = match who {
                EventTarget::Task(pid) if self.by_task => pid,
                _ => -1,
            };
            if !self.open_ring(cpu, pid)? {
                return Ok(false);
            }
        } else if self.by_task {
            let EventTarget::Task(pid) = who else { return Ok(false) };
            let Some(fd) = self.open_owner(pid, cpu)? else { return Ok(false) };
            self.redirect(&fd, cpu)?;
            self.report_owner(&fd);
            self.enable(&fd);
            self.opened.push(OpenEvent::now(fd, None, cpu, who, 0));
            self.listen(cpu, pid)?;
        }
        self.open_slots(&self.all_slots(), cpu, who)
    }

    pub(super) fn all_slots(&self) -> Vec<usize> {
        (0..self.slots.len()).collect()
    }

    /// Opens a CPU's ring, with the side-band records of a task or of all (-1). `Ok(false)` if task or CPU are gone.
    pub(crate) fn open_ring(&mut self, cpu: u32, pid: i32) -> Result<bool, OpenError> {
        let Some(owner) = self.open_owner(pid, cpu)? else { return Ok(false) };
        let id = self.report_owner(&owner);
        let ring = self.map(&owner)?;
        self.enable(&owner);
        if !self.open_walks(cpu, &owner)? {
            return Ok(false);
        }
        self.rings.insert(cpu, CpuRing { owner, id, ring });
        self.listen(cpu, pid)?;
        Ok(true)
    }

    /// Lets the stack-walking program write into a CPU's ring. `Ok(false)` if the CPU went offline.
    fn open_walks(&mut self, cpu: u32, owner: &OwnedFd) -> Result<bool, OpenError> {
        let Some(walks) = &mut self.walks else { return Ok(true) };
        let attr = attr::walked(&self.common);
        match walks.open(&*self.sys, cpu, owner, &attr) {
            Ok(()) => Ok(true),
            // Events of tasks can be opened on a CPU that is offline, but not this one.
            Err(errno) if OpenError::is_gone(errno, cpu as i32) => Ok(false),
            Err(_) if !walks.is_by_tables() => {
                // Copied stacks work without it, except below probed functions.
                self.walks = None;
                Ok(true)
            }
            Err(errno) => Err(OpenError::open("bpf-output", &attr, errno, &self.rights)),
        }
    }

    pub(crate) fn open_all_walks(&mut self) -> Result<(), OpenError> {
        let rings = std::mem::take(&mut self.rings);
        let opened = rings.iter().try_for_each(|(cpu, ring)| self.open_walks(*cpu, &ring.owner).map(drop));
        self.rings = rings;
        opened
    }

    /// Attaches the walking program to these events' tracepoints. If that fails, their stacks are taken in another way.
    pub(crate) fn trace_walks(&mut self, which: &[usize]) {
        let Self { walks, slots, common, notes, sys, .. } = self;
        for i in which.iter().copied() {
            let Slot { event, run, .. } = &mut slots[i];
            let hook = attr::hook(event, common).filter(|_| matches!(run, RunState::Running | RunState::Paused));
            event.is_walked = match (hook, &mut *walks) {
                (Some(hook), Some(walks)) => match walks.trace(&**sys, &hook) {
                    Ok(()) => true,
                    Err(note) => {
                        notes.extend(note);
                        false
                    }
                },
                _ => false,
            };
        }
        let is_on_tasks = self.is_on_tasks();
        let used: Vec<Hook> = self.walked_events().filter_map(attr::traced_at).collect();
        let Some(walks) = &mut self.walks else { return };
        walks.keep_traced(&used);
        walks.walk_measured_tasks_only(is_on_tasks);
    }

    fn walked_events(&self) -> impl Iterator<Item = &Event> {
        let open = self.slots.iter().filter(|slot| slot.is_open());
        open.map(|slot| &slot.event).filter(|event| event.is_walked)
    }

    /// Returns whether all events that are walked at tracepoints are opened on tasks.
    pub(super) fn is_on_tasks(&self) -> bool {
        self.is_narrow && self.common.tasks && !self.walked_events().any(|event| event.machine_wide)
    }

    /// Returns whether an event is opened on a task or cgroup, or on all tasks; machine-wide ones only on all tasks.
    fn is_for(&self, slot: usize, who: EventTarget) -> bool {
        !self.is_narrow || self.slots[slot].event.machine_wide == (who == EventTarget::ALL)
    }

    /// Opens some of the events; the ring must be open.
    pub(crate) fn open_slots(&mut self, which: &[usize], cpu: u32, who: EventTarget) -> Result<bool, OpenError> {
        let mut leaders: BTreeMap<u32, usize> = BTreeMap::new();
        for i in which.iter().copied() {
            if !self.slots[i].wants(cpu) || !self.is_for(i, who) {
                continue;
            }
            let group = self.slots[i].event.group;
            let leader = group.and_then(|g| leaders.get(&g).copied());
            let Some(at) = self.open_event(i, cpu, who, leader)? else { return Ok(false) };
            if let Some(group) = group {
                leaders.entry(group).or_insert(at);
            }
        }
        Ok(true)
    }

    /// Opens the dummy of a task or of all (-1) on a CPU; `None` if the task or the CPU is gone.
    fn open_owner(&mut self, pid: i32, cpu: u32) -> Result<Option<OwnedFd>, OpenError> {
        loop {
            let attr = self.owner_attr();
            match (self.sys.open(&attr, pid, cpu as i32, None, None), self.have.less()) {
                (Ok(fd), _) => return Ok(Some(fd)),
                // The first ring determines the kernel's features; afterwards EINVAL has another meaning.
                (Err(Errno::INVAL), Some(less)) if self.rings.is_empty() => self.have = less,
                (Err(Errno::ACCESS | Errno::PERM), _)
                    if (0..self.slots.len()).all(|i| self.may_leave_kernel_out(i)) =>
                {
                    self.user_only()
                }
                (Err(errno), _) if OpenError::is_gone(errno, cpu as i32) => return Ok(None),
                (Err(errno), _) => {
                    let wanted: Vec<String> = self.slots.iter().map(|slot| slot.event.name.clone()).collect();
                    return Err(OpenError::open(&wanted.join(","), &attr, errno, &self.rights));
                }
            }
        }
    }

    fn map(&mut self, owner: &OwnedFd) -> Result<Ring, OpenError> {
        let wanted = self.pages;
        loop {
            match self.sys.map(owner.as_fd(), self.pages) {
                Ok(ring) => {
                    if self.pages < wanted {
                        self.common.watermark = (self.pages * rustix::param::page_size() / 2) as u32;
                        let kb = self.pages * rustix::param::page_size() / 1024;
                        self.notes.push(format!("ring buffers have only {kb} KiB per CPU because of the limit on locked memory (perf_event_mlock_kb, ulimit -l)"));
                    }
                    return Ok(ring);
                }
                // The first ring must leave memory for the others: reduce it to a CPU's share first.
                Err(Errno::PERM) if self.pages > 8 => {
                    self.pages = (self.pages / 2).min(self.rights.ring_share()).max(8)
                }
                Err(errno) => return Err(OpenError::ring(self.pages, errno, &self.rights)),
            }
        }
    }

    /// Opens an event, with fallbacks; `None` if the task or the CPU is gone.
    fn open_event(
        &mut self,
        i: usize,
        cpu: u32,
        who: EventTarget,
        leader: Option<usize>,
    ) -> Result<Option<usize>, OpenError> {
        loop {
            let attr = self.attr(i);
            let (pid, cgroup) = match who {
                EventTarget::Task(pid) => (pid, None),
                EventTarget::Cgroup(g) => (-1, Some(self.cgroups[g].as_fd())),
            };
            let leader = leader.and_then(|at| self.opened.get(at)).map(|o| o.fd.as_fd());
            match self.sys.open(&attr::opened(attr.clone()), pid, cpu as i32, leader, cgroup) {
                Ok(fd) => {
                    self.redirect(&fd, cpu)?;
                    let walks = self.walks.as_mut().filter(|walks| walks.is_for(&self.slots[i].event, &self.common));
                    let program = walks.as_ref().map(|walks| walks.program.clone());
                    self.slots[i].set_programs(&*self.sys, &fd, program.as_deref())?;
                    let is_traced = self.slots[i].is_walked_at_tracepoint();
                    let id = self.sys.ioctl(fd.as_fd(), Ioctl::Id).unwrap_or(0);
                    if let Some(walks) = walks {
                        walks.learn(id, &attr, is_traced);
                    }
                    self.read_strings(i, cpu, id, &attr);
                    if let Some(outside) = &mut self.outside {
                        outside.learn(id, &self.slots[i].event, &attr);
                    }
                    self.borrowed.learn(i, id, &attr);
                    self.fresh_ids.push(fresh(id, i as u16, &attr));
                    self.opened.push(OpenEvent::now(fd, Some(i as u16), cpu, who, id));
                    return Ok(Some(self.opened.len() - 1));
                }
                Err(errno) if OpenError::is_gone(errno, cpu as i32) => return Ok(None),
                Err(errno) => self.fall_back(i, &attr, errno)?,
            }
        }
    }

    fn read_strings(&mut self, i: usize, cpu: u32, id: u64, attr: &Attr) {
        let (event, ring) = (&self.slots[i].event, self.rings.get(&cpu));
        let Some(ring) = ring.filter(|_| event.tracepoint.is_some() && !event.no_samples) else { return };
        let writer = attr::walked(&self.common);
        let place = OpenedEvent { cpu, id, attr, owner: &ring.owner, writer: &writer };
        self.notes.extend(self.strings.open(&*self.sys, event, &place));
    }

    /// Changes the request so that another try may succeed.
    fn fall_back(&mut self, i: usize, attr: &Attr, errno: Errno) -> Result<(), OpenError> {
        let without_kernel = self.may_leave_kernel_out(i);
        let Slot { event, note, .. } = &mut self.slots[i];
        let missing = matches!(errno, Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV);
        let denied = matches!(errno, Errno::ACCESS | Errno::PERM);
        if missing && attr.precise() > 0 && !event.exact_precision {
            event.attr.set_precise(attr.precise() - 1);
        } else if errno == Errno::OPNOTSUPP && attr.precise() > 0 {
            return Err(OpenError::precision(&event.name));
        } else if missing && attr.branch_sample_type != 0 {
            return Err(OpenError::branches(&event.name, errno));
        } else if missing && attr.kind == TYPE_HARDWARE && attr.config == 0 {
            let was = event.name.clone();
            event.become_clock();
            let mut said = format!("no hardware counters: {was} is replaced by cpu-clock, a timer");
            if !attr.has(Flag::Freq) && attr.period_or_freq > 0 {
                let ns = (attr.period_or_freq / CYCLES_A_NS).max(SHORTEST_NS);
                event.attr.period_or_freq = ns;
                said.push_str(&format!(", and {} cycles {} µs", attr.period_or_freq, ns as f64 / 1e3));
            }
            *note = Some(said);
        } else if denied && without_kernel {
            self.user_only();
        } else {
            return Err(OpenError::open(&event.name, attr, errno, &self.rights));
        }
        Ok(())
    }

    fn may_leave_kernel_out(&self, i: usize) -> bool {
        !self.common.exclude.kernel && !self.rights.kernel() && !self.attr(i).has(Flag::ExcludeUser)
    }

    fn user_only(&mut self) {
        self.common.exclude.kernel = true;
        self.notes.push(format!(
            "user code only: kernel.perf_event_paranoid is {} (run as root{} to see the kernel)",
            self.rights.paranoid,
            if self.rights.is_namespaced { " of the machine" } else { "" }
        ));
    }

    pub(super) fn redirect(&self, fd: &OwnedFd, cpu: u32) -> Result<(), OpenError> {
        let Some(owner) = self.rings.get(&cpu) else { return Ok(()) };
        let set = self.sys.ioctl(fd.as_fd(), Ioctl::SetOutput(owner.owner.as_fd()));
        set.map(|_| ())
            .map_err(|e| OpenError::new(format!("the ring of CPU {cpu}"), "shared", format!("the kernel says {e}"), ""))
    }

    fn enable(&self, fd: &OwnedFd) {
        let _ = self.sys.ioctl(fd.as_fd(), Ioctl::Enable);
    }

    pub(crate) fn enable_all(&self) {
        self.start(&self.opened);
    }

    /// Starts those events that are not paused, the members of a group before its leader: the kernel does not count a
    /// member on a CPU that is enabled while its leader runs, until the leader is restarted.
    fn start(&self, list: &[OpenEvent]) {
        for open in list.iter().rev().filter(|open| self.runs(open)) {
            self.enable(&open.fd);
        }
    }

    fn runs(&self, open: &OpenEvent) -> bool {
        open.event.is_none_or(|i| self.slots[usize::from(i)].run == RunState::Running)
    }

    fn restart_leaders(&self, group: u32) {
        let is_of =
            |open: &&OpenEvent| open.event.is_some_and(|i| self.slots[usize::from(i)].event.group == Some(group));
        let mut seen = HashSet::new();
        let leaders = self.opened.iter().filter(is_of).filter(|open| seen.insert((open.cpu, open.who)));
        for leader in leaders.filter(|open| self.runs(open)) {
            let _ = self.sys.ioctl(leader.fd.as_fd(), Ioctl::Disable);
            self.enable(&leader.fd);
        }
    }

    pub(crate) fn pause(&mut self, slot: usize, on: bool) {
        let run = &mut self.slots[slot].run;
        match (&run, on) {
            (RunState::Running, true) => *run = RunState::Paused,
            (RunState::Paused, false) => *run = RunState::Running,
            _ => return,
        }
        for open in self.opened.iter().filter(|o| o.event == Some(slot as u16)) {
            let request = if on { Ioctl::Disable } else { Ioctl::Enable };
            // Neither request fails on an open descriptor.
            let _ = self.sys.ioctl(open.fd.as_fd(), request);
        }
        if let Some(group) = self.slots[slot].event.group.filter(|_| !on) {
            self.restart_leaders(group);
        }
    }

    pub(crate) fn close_cpu(&mut self, cpu: u32) -> Option<CpuRing> {
        self.close(|o| o.cpu == cpu);
        if let Some(walks) = &mut self.walks {
            walks.close(cpu);
        }
        self.strings.close_cpu(cpu);
        self.rings.remove(&cpu)
    }

    pub(crate) fn close(&mut self, which: impl Fn(&OpenEvent) -> bool) {
        self.retire(which);
        let Self { strings, opened, slots, .. } = self;
        let of = |o: &OpenEvent| o.event.map(|i| slots[usize::from(i)].event.attr.config);
        strings.keep(|number| opened.iter().any(|o| of(o) == Some(number)));
    }

    /// Removes events from the list, and adds their counts to the slots.
    fn retire(&mut self, which: impl Fn(&OpenEvent) -> bool) -> Vec<OpenEvent> {
        let gone: Vec<OpenEvent> = self.opened.extract_if(.., |open| which(open)).collect();
        for open in &gone {
            if let Some(i) = open.event {
                let counts = self.read(open);
                self.slots[usize::from(i)].before.add(&counts);
            }
        }
        gone
    }

    /// Replaces the open events of some slots according to the slots' current settings. Old and new events overlap; the
    /// handover defines which samples count. After a failure the old events continue.
    pub(crate) fn reopen(&mut self, which: &[usize], whos: &[EventTarget]) -> Result<Handover, OpenError> {
        let (old, reported) = (self.opened.len(), self.fresh_ids.len());
        self.trace_walks(which);
        let cpus: Vec<u32> = self.rings.keys().copied().collect();
        for (cpu, who) in cpus.iter().flat_map(|cpu| whos.iter().map(|who| (*cpu, *who))) {
            if let Err(error) = self.open_slots(which, cpu, who) {
                self.opened.truncate(old);
                self.fresh_ids.truncate(reported);
                return Err(error);
            }
        }
        let mut fresh = self.opened.split_off(old);
        self.start(&fresh);
        let at = crate::kernel::monotonic_ns();
        let gone = self.retire(|open| open.event.is_some_and(|i| which.contains(&usize::from(i))));
        for open in fresh.iter().filter(|_| !gone.is_empty()) {
            let beside = self.read(open).value;
            if let Some(i) = open.event {
                let before = &mut self.slots[usize::from(i)].before;
                before.value = before.value.wrapping_sub(beside);
            }
        }
        let ids = |list: &[OpenEvent]| list.iter().map(|open| open.id).collect();
        let handover = Handover { at, old: ids(&gone), new: if gone.is_empty() { Vec::new() } else { ids(&fresh) } };
        self.opened.append(&mut fresh);
        Ok(handover)
    }
}

#[cfg(test)]
pub(crate) mod tests;
