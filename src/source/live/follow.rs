//! Following the CPUs, tasks and containers that appear and disappear during a session.

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::kernel::{cgroup, cpus, procfs};
use crate::source::{Batch, SourceEvent};

use super::attach::EventTarget;
use super::event_slot::Slot;
use super::{LiveSource, OpenError, Target, containers};

fn online() -> Result<Vec<u32>, OpenError> {
    cpus::online().map_err(|error| OpenError::new("the list of CPUs", "read", error.to_string(), ""))
}

/// Checks that all of some CPUs are online; the error names the first one that is not.
pub(crate) fn can_be_sampled(chosen: &[u32]) -> Result<(), OpenError> {
    let online = online()?;
    let Some(cpu) = chosen.iter().find(|cpu| !online.contains(cpu)) else { return Ok(()) };
    let remedy = format!("Online: {}", cpus::format_list(&online));
    Err(OpenError::new(format!("CPU {cpu}"), "sampled", "it is not online", remedy))
}

#[derive(Debug)]
pub(super) enum CpuChange {
    Offline(u32),
    Online(u32),
    /// A CPU came online, but its events cannot be opened.
    Failed(OpenError),
}

impl CpuChange {
    pub(super) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    pub(super) fn note(&self) -> String {
        match self {
            Self::Offline(cpu) => format!("CPU {cpu} went offline"),
            Self::Online(cpu) => format!("CPU {cpu} came online"),
            Self::Failed(error) => error.to_string().replace('\n', " "),
        }
    }
}

impl LiveSource {
    pub(super) fn wanted_cpus(&self) -> Result<Vec<u32>, OpenError> {
        let Some(chosen) = &self.chosen else { return online() };
        can_be_sampled(chosen)?;
        Ok(chosen.clone())
    }

    pub(super) fn whos(&self) -> Vec<EventTarget> {
        let is_open = |slot: &Slot| slot.is_open() && slot.event.machine_wide;
        let sees_all = self.attachment.is_narrow && self.attachment.slots.iter().any(is_open);
        let chosen = self.chosen_whos();
        sees_all.then_some(EventTarget::ALL).into_iter().chain(chosen).collect()
    }

    fn chosen_whos(&self) -> Vec<EventTarget> {
        match &self.target {
            Target::System => vec![EventTarget::ALL],
            Target::Cgroups(groups) => (0..groups.len()).map(EventTarget::Cgroup).collect(),
            Target::Containers(_, groups) => {
                (0..groups.len()).filter(|at| groups[*at].is_some()).map(EventTarget::Cgroup).collect()
            }
            _ => self.known_tasks.iter().map(|tid| EventTarget::Task(*tid)).collect(),
        }
    }

    pub(super) fn open_cpu(&mut self, cpu: u32, whos: &[EventTarget]) -> Result<(), OpenError> {
        let had = self.attachment.rings.contains_key(&cpu);
        for who in whos {
            self.attachment.open(cpu, *who)?;
        }
        if !had && whos.is_empty() && matches!(self.target, Target::Containers(..)) {
            // Its events are opened later.
            self.attachment.open_ring(cpu, -1)?;
        }
        if !had {
            self.watch(cpu);
        }
        Ok(())
    }

    /// Returns whether all events' tasks have ended, with inheritors: as in perf, children of ended processes continue.
    pub(super) fn is_hung_up(&self) -> bool {
        let of_target = self.attachment.opened.iter().filter(|open| open.who != EventTarget::ALL);
        let fds = of_target.map(|open| PollFd::new(&open.fd, PollFlags::empty()));
        let mut fds: Vec<PollFd<'_>> = fds.collect();
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        ready.is_err() || fds.iter().all(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
    }

    /// Opens events on a user's new processes. Children of followed threads inherit their events, so only children of
    /// other parents (a login, a daemon that changed its user) are opened here.
    pub(super) fn follow_tasks(&mut self, batch: &mut Batch) {
        if !matches!(self.target, Target::User { .. }) {
            return;
        }
        let now = self.tasks();
        let fresh: Vec<i32> = now
            .iter()
            .copied()
            .filter(|tid| self.known_tasks.binary_search(tid).is_err() && !self.inherits(*tid))
            .collect();
        self.known_tasks = now;
        let cpus: Vec<u32> = self.attachment.rings.keys().copied().collect();
        for (tid, cpu) in fresh.iter().flat_map(|tid| cpus.iter().map(move |cpu| (*tid, *cpu))) {
            if let Err(error) = self.attachment.open(cpu, EventTarget::Task(tid)) {
                batch.note(error.to_string().replace('\n', " "));
                return;
            }
        }
        if !fresh.is_empty() && self.enable_at.is_none() {
            self.attachment.enable_all();
        }
    }

    /// Opens events on containers that started, if containers are the target, and closes those of stopped ones.
    pub(super) fn follow_containers(&mut self, news: &containers::ContainerChanges, batch: &mut Batch) {
        let (gone, fresh) = self.target.follow(news);
        if gone.is_empty() && fresh.is_empty() {
            return;
        }
        self.attachment.close(|open| matches!(open.who, EventTarget::Cgroup(at) if gone.contains(&at)));
        let cpus: Vec<u32> = self.attachment.rings.keys().copied().collect();
        for (at, dir) in fresh {
            // Fails if the container has stopped already.
            let Ok(fd) = cgroup::open(&dir) else { continue };
            let groups = &mut self.attachment.cgroups;
            match groups.get_mut(at) {
                Some(place) => *place = fd,
                None => groups.push(fd),
            }
            for cpu in &cpus {
                if let Err(error) = self.attachment.open(*cpu, EventTarget::Cgroup(at)) {
                    batch.note(error.to_string().replace('\n', " "));
                    return;
                }
            }
        }
        self.enable_opened(batch);
    }

    /// Enables events that were opened while others count, and reports the change.
    fn enable_opened(&mut self, batch: &mut Batch) {
        if self.enable_at.is_none() {
            self.attachment.enable_all();
        }
        batch.events.push(SourceEvent::Changed(self.changed()));
    }

    fn inherits(&self, tid: i32) -> bool {
        let pid = procfs::tgid(tid).unwrap_or(tid);
        let followed = |pid: i32| self.known_tasks.binary_search(&pid).is_ok();
        self.attachment.common.inherit && (followed(pid) || procfs::parent(pid).is_some_and(followed))
    }

    /// Closes events of CPUs that went offline and opens those of CPUs that came online; returns the changes.
    pub(super) fn follow_cpus(&mut self, batch: &mut Batch) -> Vec<CpuChange> {
        let mut changes = Vec::new();
        let Ok(online) = cpus::online() else { return changes };
        let wanted: Vec<u32> =
            online.into_iter().filter(|cpu| self.chosen.as_ref().is_none_or(|c| c.contains(cpu))).collect();
        let open: Vec<u32> = self.attachment.rings.keys().copied().collect();
        if wanted == open {
            return changes;
        }
        for cpu in open.iter().filter(|cpu| !wanted.contains(cpu)) {
            self.close_cpu(*cpu, batch);
            changes.push(CpuChange::Offline(*cpu));
        }
        if self.target.is_tasks() {
            self.known_tasks = self.tasks();
        }
        let whos = self.whos();
        for cpu in wanted.iter().filter(|cpu| !open.contains(cpu)) {
            let opened = self.open_cpu(*cpu, &whos);
            changes.push(opened.map_or_else(CpuChange::Failed, |()| CpuChange::Online(*cpu)));
        }
        self.enable_opened(batch);
        changes
    }

    pub(super) fn close_cpu(&mut self, cpu: u32, batch: &mut Batch) {
        let (rings, mut pipeline) = self.attachment.pipeline(self.round_start);
        if let Some(ring) = rings.get_mut(&cpu) {
            pipeline.drain(cpu, ring.drained(), &mut self.read, batch);
        }
        if let Some(mut closed) = self.attachment.close_cpu(cpu) {
            self.attachment.pipeline(self.round_start).1.drain(cpu, closed.drained(), &mut self.read, batch);
            self.attachment.report_closed(cpu, &mut closed, batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_cpus_are_told_from_their_changes_by_type() {
        let failed = OpenError::new("CPU 1", "sampled", "the pipeline went offline", "");
        let changes = [CpuChange::Offline(1), CpuChange::Online(2), CpuChange::Failed(failed)];
        assert_eq!(changes.each_ref().map(CpuChange::is_failure), [false, false, true]);
        let notes = changes.each_ref().map(CpuChange::note);
        assert_eq!(notes[..2], ["CPU 1 went offline", "CPU 2 came online"]);
        assert!(notes[2].contains("the pipeline went offline") && !notes[2].contains('\n'), "{}", notes[2]);
    }
}
