//! System calls for analysis units that take sums: when the programs that sum calls are attached, and their readings.

use std::collections::BTreeSet;

use crate::kernel::bpf::calls::LoadError;
use crate::kernel::procfs;
use crate::source::{Batch, SourceEvent};

use super::call_feed::{CallFeed, ENTER, EXIT, SummedTarget};
use super::capture::refused_program;
use super::event_slot::Slot;
use super::{LiveSource, Target};

/// The note of the events that the programs replace.
const NOTE: &str = "for units, calls are summed by a BPF program; only single calls are recorded";

impl LiveSource {
    /// Returns what the programs would replace, if units take sums and the target is one that the programs know.
    fn wanted_calls(&self) -> Option<SummedTarget> {
        let a = &self.attachment;
        let is_plain = |slot: &&Slot| {
            let event = &slot.event;
            let is_whole = event.filter.is_none() && event.cpus.is_none();
            // Records of returns have no registers.
            let is_bare = event.attr.regs_user == 0 || event.is_called(ENTER);
            slot.is_open() && event.for_units && event.no_chains && !event.machine_wide && is_whole && is_bare
        };
        let find = |name: &str| {
            let at = a.slots.iter().position(|slot| slot.event.is_called(name))?;
            let policy = a.slots.get(at).filter(is_plain)?.event.summed.clone()?;
            Some((at, policy))
        };
        let ((enter, policy), (exit, other)) = find(ENTER).zip(find(EXIT))?;
        let is_known = matches!(self.target, Target::System | Target::Processes(_) | Target::Threads(_));
        let is_whole = policy == other && self.chosen.is_none() && !a.common.exclude.kernel && a.outside.is_none();
        let inherit = a.common.inherit;
        let wanted = SummedTarget { enter, exit, policy, inherit, target: self.target.clone() };
        (is_known && is_whole && a.rights.system_wide() && !a.calls_refused).then_some(wanted)
    }

    /// Attaches or detaches the programs that sum calls. Returns the slots whose events must be opened again in addition
    /// to `which`.
    pub(super) fn choose_calls(&mut self, which: &[usize]) -> Vec<usize> {
        let mut which = which.to_vec();
        let wanted = self.wanted_calls();
        if self.attachment.calls.as_ref().map(|calls| &calls.wanted) == wanted.as_ref() {
            return which;
        }
        self.attachment.stop_calls();
        let mut last = Batch::default();
        self.read_calls(true, &mut last);
        self.pending.events.append(&mut last.events);
        if let Some(before) = self.attachment.calls.take() {
            which.extend(self.attachment.note_calls(&before.wanted, None));
        }
        if let Some(wanted) = wanted {
            which.extend(self.attachment.note_calls(&wanted, Some(NOTE)));
            if let Err(reason) = self.attach_calls(wanted.clone()) {
                self.attachment.calls = None;
                self.attachment.note_calls(&wanted, None);
                self.attachment.calls_refused = true;
                self.attachment.notes.push(format!("system calls are recorded one by one, not summed: {reason}"));
            }
        }
        which.sort_unstable();
        which.dedup();
        which
    }

    fn attach_calls(&mut self, wanted: SummedTarget) -> Result<(), String> {
        let tracepoint = self.attachment.slots[wanted.exit].event.attr.config;
        let feed = CallFeed::load(wanted, tracepoint).map_err(|error| refused_program(&error, "").0)?;
        self.attachment.calls = Some(feed);
        self.attachment.open_all_calls().map_err(|error| error.reason)?;
        self.add_call_threads().map_err(|error| refused_program(&error, "").0)
    }

    /// Adds the target's threads, until there are no new ones: the programs add the children of known threads.
    fn add_call_threads(&mut self) -> Result<(), LoadError> {
        const ROUNDS: usize = 10;
        let mut known = BTreeSet::new();
        for _ in 0..ROUNDS {
            let tasks = self.tasks();
            let Some(calls) = &self.attachment.calls else { return Ok(()) };
            let fresh: Vec<i32> = tasks.into_iter().filter(|tid| known.insert(*tid)).collect();
            for tid in &fresh {
                calls.add_thread(*tid, procfs::tgid(*tid).unwrap_or(*tid))?;
            }
            if fresh.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Reads the sums since the last reading into a batch.
    pub(super) fn read_calls(&mut self, is_last: bool, batch: &mut Batch) {
        let Some(calls) = &mut self.attachment.calls else { return };
        match calls.read(is_last) {
            Ok(reading) => batch.events.push(SourceEvent::CallSums(reading)),
            Err(error) => batch.note(format!("sums of system calls cannot be read: {}", refused_program(&error, "").0)),
        }
    }
}
