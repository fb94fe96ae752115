//! The programs that record context switches and wake-ups in batches, at the rings.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use crate::event::format::Format;
use crate::event::tracepoint;
use crate::kernel::attr::Attr;
use crate::kernel::monotonic_ns;
use crate::kernel::switch_batches::SchedEventKind;
use crate::source::Rate;
use crate::source::live::attr;
use crate::source::live::capture::refused_program;
use crate::source::live::error::OpenError;
use crate::source::live::records::switch_batches::BatchedSample;

use super::switch_feed::SwitchFeed;
use super::{Attachment, fresh};

/// The note of the events that the programs replace.
const NOTE: &str = "for units, a BPF program records it in batches";

impl Attachment {
    /// Returns the slots of the events that can be recorded in batches, if their units need no more than batches have.
    fn wanted_switches(&self) -> BTreeMap<SchedEventKind, usize> {
        let is_whole = |slot: usize| {
            let slot = &self.slots[slot];
            let event = &slot.event;
            let is_plain = event.filter.is_none() && event.cpus.is_none() && event.group.is_none();
            let is_of_all = !self.is_narrow || event.machine_wide;
            let is_each = Rate::of(&event.attr) == Rate::Period(1);
            slot.is_open() && event.for_units && event.is_batched && event.no_chains && is_plain && is_of_all && is_each
        };
        let exclude = self.common.exclude;
        if self.outside.is_some()
            || !self.rights.system_wide()
            || self.switches_refused
            || exclude.kernel
            || exclude.idle
        {
            return BTreeMap::new();
        }
        let find = |kind: SchedEventKind| {
            let name = format!("sched:{}", kind.tracepoint().to_str().unwrap_or_default());
            let slot = self.slots.iter().position(|slot| slot.event.is_called(&name))?;
            is_whole(slot).then_some((kind, slot))
        };
        SchedEventKind::ALL.into_iter().filter_map(find).collect()
    }

    /// Lets programs record the events that can be recorded in batches, and no others. Adds the slots to `which` whose
    /// events must be opened or closed, and returns what the programs recorded before, for
    /// [`Self::restore_switches`].
    pub(crate) fn choose_switches(&mut self, which: &mut Vec<usize>) -> BTreeMap<SchedEventKind, usize> {
        let wanted = self.wanted_switches();
        let before = self.switches.as_ref().map_or_else(BTreeMap::new, |feed| feed.wanted.clone());
        if wanted == before {
            return before;
        }
        if let Err(reason) = self.feed_switches(&wanted) {
            self.restore_switches(before.clone());
            self.switches_refused = true;
            self.notes.push(format!("context switches are recorded one by one, not in batches: {reason}"));
            return before;
        }
        let changed =
            |slots: &BTreeMap<SchedEventKind, usize>, others: &BTreeMap<SchedEventKind, usize>| -> Vec<usize> {
                slots.iter().filter(|(kind, slot)| others.get(kind) != Some(*slot)).map(|(_, slot)| *slot).collect()
            };
        which.extend([changed(&wanted, &before), changed(&before, &wanted)].concat());
        which.sort_unstable();
        which.dedup();
        before
    }

    /// Loads the programs if necessary. They record the new kinds from now on, and others until
    /// [`Self::end_left_switches`].
    fn feed_switches(&mut self, wanted: &BTreeMap<SchedEventKind, usize>) -> Result<(), String> {
        let refused = |error| refused_program(&error, "").0;
        if self.switches.is_none() {
            self.switches = Some(SwitchFeed::load().map_err(refused)?);
            let rings = std::mem::take(&mut self.rings);
            let opened = rings.iter().try_for_each(|(cpu, ring)| self.open_switches(*cpu, &ring.owner).map(drop));
            self.rings = rings;
            opened.map_err(|error| error.reason)?;
        }
        for (kind, slot) in wanted {
            let Some(feed) = &mut self.switches else { break };
            if feed.wanted.get(kind) == Some(slot) {
                continue;
            }
            let id = feed.fresh_id();
            let attr = self.attr(*slot);
            let sample = sample_of(*kind, (*slot, id), &attr)
                .ok_or_else(|| format!("{} has unknown fields", self.slots[*slot].event.name))?;
            self.fresh_ids.push(fresh(id, *slot as u16, &attr));
            self.switches.as_mut().map_or(Ok(()), |feed| feed.add(*kind, sample)).map_err(refused)?;
        }
        self.want_switches(wanted.clone());
        self.select_switches();
        Ok(())
    }

    fn want_switches(&mut self, wanted: BTreeMap<SchedEventKind, usize>) {
        let Some(feed) = &mut self.switches else { return };
        for slot in feed.wanted.values() {
            self.slots[*slot].note.take_if(|note| note == NOTE);
        }
        for slot in wanted.values() {
            self.slots[*slot].note.get_or_insert_with(|| NOTE.to_owned());
        }
        feed.wanted = wanted;
    }

    /// Undoes [`Self::choose_switches`] if the events in their place could not be opened.
    pub(crate) fn restore_switches(&mut self, before: BTreeMap<SchedEventKind, usize>) {
        self.want_switches(before);
        self.end_left_switches();
        self.forget_left_switches();
    }

    /// Returns the kinds that programs still record although events have replaced them.
    pub(crate) fn left_switches(&self) -> Vec<SchedEventKind> {
        self.switches.as_ref().map(SwitchFeed::left).unwrap_or_default()
    }

    /// Stops recording these kinds. Their last events can be read until [`Self::forget_left_switches`].
    pub(crate) fn end_left_switches(&mut self) {
        self.select_switches_except(&self.left_switches());
    }

    pub(crate) fn forget_left_switches(&mut self) {
        for kind in self.left_switches() {
            self.switches.iter_mut().for_each(|feed| feed.remove(kind));
        }
    }

    /// Begins to record, except paused events.
    pub(crate) fn begin_switches(&mut self) {
        if !std::mem::replace(&mut self.are_switches_on, true) {
            self.select_switches();
        }
    }

    /// Stops recording until [`Self::begin_switches`].
    pub(crate) fn stop_switches(&mut self) {
        self.are_switches_on = false;
        self.select_switches();
    }

    /// Selects the kinds that are recorded: those of events that run.
    pub(super) fn select_switches(&mut self) {
        self.select_switches_except(&[]);
    }

    fn select_switches_except(&mut self, left: &[SchedEventKind]) {
        let Self { switches, slots, are_switches_on, .. } = self;
        let Some(feed) = switches else { return };
        let runs = |slot: usize| *are_switches_on && slots[slot].runs();
        let of_kinds = feed.batches.samples.iter().filter(|(kind, of)| runs(of.slot) && !left.contains(kind));
        let kinds: Vec<SchedEventKind> = of_kinds.map(|(kind, _)| *kind).collect();
        feed.recorder.select(kinds.iter().copied());
        self.record_switches(kinds.contains(&SchedEventKind::Switch));
    }

    /// Opens or closes the kernel's own records of context switches. Even disabled, they take time of each switch.
    fn record_switches(&mut self, on: bool) {
        let Some(feed) = self.switches.as_mut().filter(|feed| feed.records.is_some() != on) else { return };
        let closed = std::mem::replace(&mut feed.records, on.then(BTreeMap::new)).unwrap_or_default();
        let mut rings = std::mem::take(&mut self.rings);
        for (cpu, ring) in &mut rings {
            closed.get(cpu).into_iter().for_each(|fd| ring.losses.close(self.lost_by(fd)));
            if on {
                self.open_switch_records(*cpu, &ring.owner);
            }
        }
        self.rings = rings;
    }

    /// Lets the programs write into a CPU's ring. `Ok(false)` if the CPU went offline.
    pub(super) fn open_switches(&mut self, cpu: u32, owner: &OwnedFd) -> Result<bool, OpenError> {
        if self.switches.is_none() {
            return Ok(true);
        }
        let attr = attr::walked(&self.common, self.have);
        let Self { switches, sys, rights, .. } = self;
        let Some(feed) = switches else { return Ok(true) };
        match feed.open(&**sys, cpu, owner, &attr) {
            Ok(()) => {
                self.open_switch_records(cpu, owner);
                Ok(true)
            }
            Err(errno) if OpenError::is_gone(errno, cpu as i32) => Ok(false),
            Err(errno) => Err(OpenError::open("bpf-output", &attr, errno, rights)),
        }
    }

    fn open_switch_records(&mut self, cpu: u32, owner: &OwnedFd) {
        let (attr, of_first) = (attr::switch_records(&self.common, self.have), self.attr(0));
        let Self { switches, sys, fresh_ids, .. } = self;
        let id = switches.as_mut().and_then(|feed| feed.open_records(&**sys, cpu, owner, &attr));
        // As with the owner of the ring.
        fresh_ids.extend(id.map(|id| fresh(id, 0, &of_first)));
    }

    /// Counts the events of batches that were read, and limits the kernel's own records of context switches.
    pub(crate) fn tend_switches(&mut self) {
        let Self { switches, slots, are_switches_on, .. } = self;
        let Some(feed) = switches else { return };
        let (counts, lost) = feed.batches.take_counts();
        for (at, n) in &counts {
            slots[*at].before.value = slots[*at].before.value.wrapping_add(*n);
        }
        if let Some(slot) = feed.wanted.values().next() {
            slots[*slot].before.lost += lost;
        }
        if *are_switches_on && feed.wanted.get(&SchedEventKind::Switch).is_some_and(|slot| slots[*slot].runs()) {
            let wanted = feed.wants_records(monotonic_ns());
            self.record_switches(wanted);
        }
    }
}

/// Returns the samples of a kind in the layout of its event; `None` if they have fields that batches lack.
fn sample_of(kind: SchedEventKind, place: (usize, u64), attr: &Attr) -> Option<BatchedSample> {
    let root = tracepoint::root().ok()?;
    let text = tracepoint::format(&root, "sched", kind.tracepoint().to_str().ok()?).ok()?;
    let format = Format::parse("sched", &text, cfg!(target_endian = "big"))?;
    BatchedSample::of(kind, place, attr.sample_type, &format)
}
