//! Open events are started, paused, closed, and replaced by others with new settings.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};

use crate::kernel::sys::Ioctl;
use crate::source::{Handover, RunState};

use super::{Attachment, CpuRing, EventTarget, OpenEvent};
use crate::source::live::error::OpenError;

impl Attachment {
    pub(super) fn enable(&self, fd: &OwnedFd) {
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
        if let Some(calls) = &mut self.calls {
            calls.pause(slot, on);
        }
        self.select_switches();
        if let Some(group) = self.slots[slot].event.group.filter(|_| !on) {
            self.restart_leaders(group);
        }
    }

    pub(crate) fn close_cpu(&mut self, cpu: u32) -> Option<CpuRing> {
        self.close(|o| o.cpu == cpu);
        let writers: u64 = self.writers(cpu).map(|fd| self.lost_by(fd)).sum();
        if let Some(ring) = self.rings.get_mut(&cpu) {
            ring.losses.close(writers);
        }
        if let Some(walks) = &mut self.walks {
            walks.close(cpu);
        }
        if let Some(calls) = &mut self.calls {
            calls.close(cpu);
        }
        if let Some(switches) = &mut self.switches {
            switches.close(cpu);
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
            let counts = self.read(open);
            if let Some(ring) = self.rings.get_mut(&open.cpu) {
                ring.losses.close(counts.lost);
            }
            if let Some(i) = open.event {
                self.slots[usize::from(i)].before.add(&counts);
                self.end_dns(usize::from(i), open.cpu, open.id);
            }
        }
        gone
    }

    /// Replaces the open events of some slots according to the slots' current settings. Old and new events overlap; the
    /// handover defines which samples count. After a failure the old events continue.
    pub(crate) fn reopen(&mut self, which: &[usize], whos: &[EventTarget]) -> Result<Handover, OpenError> {
        self.hits.sum_up(false);
        let handover = self.replace(which, whos);
        self.hits.sum_up(true);
        handover
    }

    fn replace(&mut self, which: &[usize], whos: &[EventTarget]) -> Result<Handover, OpenError> {
        let (old, reported) = (self.opened.len(), self.fresh_ids.len());
        self.trace_walks(which, whos);
        self.note_wide_probes(which);
        let cpus: Vec<u32> = self.rings.keys().copied().collect();
        for (cpu, who) in cpus.iter().flat_map(|cpu| whos.iter().map(|who| (*cpu, *who))) {
            if let Err(error) = self.open_slots(which, cpu, who) {
                self.opened.truncate(old);
                self.fresh_ids.truncate(reported);
                self.drop_unused_dns();
                return Err(error);
            }
        }
        let mut fresh = self.opened.split_off(old);
        self.start(&fresh);
        let at = crate::kernel::monotonic_ns();
        let gone = self.retire(|open| open.event.is_some_and(|i| which.contains(&usize::from(i))));
        let left = self.left_switches();
        let is_handover = !(gone.is_empty() && left.is_empty());
        for open in fresh.iter().filter(|_| is_handover) {
            let beside = self.read(open).value;
            if let Some(i) = open.event {
                let before = &mut self.slots[usize::from(i)].before;
                before.value = before.value.wrapping_sub(beside);
            }
        }
        let ids = |list: &[OpenEvent]| list.iter().map(|open| open.id).collect::<Vec<u64>>();
        let (mut old, mut new) = (ids(&gone), if is_handover { ids(&fresh) } else { Vec::new() });
        if let Some(feed) = &self.switches {
            let has_gone = |slot: usize| gone.iter().any(|open| open.event == u16::try_from(slot).ok());
            let came = feed.wanted.iter().filter(|(_, slot)| has_gone(**slot)).map(|(kind, _)| *kind);
            new.extend(feed.ids(&came.collect::<Vec<_>>()));
            old.extend(feed.ids(&left));
        }
        let handover = Handover { at, old, new };
        self.opened.append(&mut fresh);
        Ok(handover)
    }
}
