//! The open events of a session. Each CPU has one ring, owned by a dummy event; all other events are redirected to it,
//! so that events can be opened and closed without changes to the ring or its reader.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};

use crate::event::{CallGraph, Event};
use crate::kernel::attr::{Attr, Flag, TYPE_HARDWARE};
use crate::kernel::dns_messages::DnsRecorder;
use crate::kernel::limits::Rights;
use crate::kernel::ring::Ring;
use crate::kernel::sys::{Errno, Ioctl, Sys};
use crate::perfdata::layout;
use crate::source::{EventState, FreshId};

use super::attr::{self, CommonAttrs, KernelFeatures};
use super::error::OpenError;
use super::event_slot::Slot;
use super::records::losses::RingLosses;
use super::records::misattributed::MisattributedSamples;
use super::records::outer_namespace::OuterNamespaceTasks;
use super::records::pipeline::DrainedRing;
use super::records::stack_walks::{ALL_TASKS, StackWalks};
use super::records::strings::{OpenedEvent, TracedStrings};
use call_feed::CallFeed;

pub(in crate::source::live) mod call_feed;
mod calls;
mod counts;
mod dns;
mod hits;
mod listener;
mod replace;
pub(in crate::source::live) mod switch_feed;
mod switches;
mod walks;
mod wide_probes;

pub(crate) use counts::{ByCpu, CounterReadings};

/// Cycles per nanosecond for a timer that replaces the cycles event: those of a CPU of 3 GHz.
const CYCLES_A_NS: u64 = 3;
/// The shortest period of such a timer: more samples would take half of a CPU to record.
const SHORTEST_NS: u64 = 50_000;

#[derive(Debug)]
pub(crate) struct CpuRing {
    pub(crate) owner: OwnedFd,
    pub(crate) id: u64,
    pub(crate) ring: Ring,
    pub(crate) losses: RingLosses,
}

impl CpuRing {
    pub(crate) fn drained(&mut self) -> DrainedRing<'_> {
        DrainedRing { owner: self.id, ring: &mut self.ring, losses: &mut self.losses }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventTarget {
    /// A task, or -1 for all.
    Task(i32),
    Cgroup(usize),
}

impl EventTarget {
    pub(crate) const ALL: Self = Self::Task(ALL_TASKS);
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
    /// The files with probes that slow down processes outside the target; each has had its note.
    wide_files: BTreeSet<String>,
    pub(crate) walks: Option<StackWalks>,
    pub(crate) strings: TracedStrings,
    /// Translates task numbers to our own PID namespace, if it is not the outermost one.
    pub(crate) outside: Option<OuterNamespaceTasks>,
    /// Restores our ids in samples of software events.
    pub(crate) borrowed: MisattributedSamples,
    /// The programs that sum system calls in place of the events at their start and end.
    pub(super) calls: Option<CallFeed>,
    /// Whether the kernel refused these programs.
    pub(super) calls_refused: bool,
    /// The programs that write DNS messages, while an event has them.
    pub(super) dns: Option<DnsRecorder>,
    /// The programs that sum hits at their events.
    pub(crate) hits: hits::HitCounters,
    /// The programs that record context switches and wake-ups in batches, in place of their events.
    pub(super) switches: Option<switch_feed::SwitchFeed>,
    /// Whether the kernel refused these programs.
    switches_refused: bool,
    /// Whether measuring has begun, so that they record.
    are_switches_on: bool,
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
            wide_files: BTreeSet::new(),
            walks: None,
            strings: TracedStrings::default(),
            outside: OuterNamespaceTasks::here(),
            borrowed: MisattributedSamples::default(),
            calls: None,
            calls_refused: false,
            dns: None,
            hits: hits::HitCounters::default(),
            switches: None,
            switches_refused: false,
            are_switches_on: false,
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
        if !self.open_walks(cpu, &owner)? || !self.open_calls(cpu, &owner)? || !self.open_switches(cpu, &owner)? {
            return Ok(false);
        }
        self.rings.insert(cpu, CpuRing { owner, id, ring, losses: RingLosses::default() });
        self.listen(cpu, pid)?;
        Ok(true)
    }

    /// Returns whether an event is opened on a task or cgroup, or on all tasks; machine-wide ones only on all tasks.
    fn is_for(&self, slot: usize, who: EventTarget) -> bool {
        !self.is_narrow || self.slots[slot].event.machine_wide == (who == EventTarget::ALL)
    }

    /// Opens some of the events; the ring must be open.
    pub(crate) fn open_slots(&mut self, which: &[usize], cpu: u32, who: EventTarget) -> Result<bool, OpenError> {
        let mut leaders: BTreeMap<u32, usize> = BTreeMap::new();
        for i in which.iter().copied() {
            if !self.slots[i].wants(cpu) || !self.is_for(i, who) || self.is_fed(i) {
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
                    let opened = (0..self.slots.len()).filter(|slot| !self.is_fed(*slot));
                    let wanted: Vec<String> = opened.map(|slot| self.slots[slot].event.name.clone()).collect();
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
                    let is_walked = |walks: &&StackWalks| walks.is_for(&self.slots[i].event, &self.common);
                    let program = self.walks.as_ref().filter(is_walked).map(|walks| walks.program.clone());
                    self.set_programs(i, &fd, program.as_deref())?;
                    let is_traced = self.slots[i].is_walked_at_tracepoint();
                    let id = self.sys.ioctl(fd.as_fd(), Ioctl::Id).unwrap_or(0);
                    if let Some(walks) = self.walks.as_mut().filter(|_| program.is_some()) {
                        walks.learn(id, &attr, is_traced);
                    }
                    self.read_strings(i, cpu, id, &attr);
                    self.record_dns(i, cpu, &fd, id)?;
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
        let writer = attr::walked(&self.common, self.have);
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
}

#[cfg(test)]
pub(crate) mod tests;
