//! System calls for analysis units that take sums: when the programs that sum calls are attached, and their readings.

use std::collections::BTreeSet;

use crate::kernel::bpf::calls::LoadError;
use crate::kernel::procfs;
use crate::source::{Batch, SourceEvent, Summing};

use super::attach::call_feed::{CallFeed, ENTER, EXIT, SummedTarget};
use super::capture::refused_program;
use super::event_slot::Slot;
use super::{LiveSource, Target};

/// The note of the events that the programs replace.
const NOTE: &str = "for units, calls are summed by a BPF program; only single calls are recorded";

/// The programs before a change, until the change has succeeded.
pub(super) struct ReplacedCalls(Option<CallFeed>);

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
            let Some(Summing::Calls(policy)) = &a.slots.get(at).filter(is_plain)?.event.summed else { return None };
            Some((at, policy.clone()))
        };
        let ((enter, policy), (exit, other)) = find(ENTER).zip(find(EXIT))?;
        let is_known = matches!(self.target, Target::System | Target::Processes(_) | Target::Threads(_));
        let is_whole = policy == other && self.chosen.is_none() && !a.common.exclude.kernel && a.outside.is_none();
        let inherit = a.common.inherit;
        let wanted = SummedTarget { enter, exit, policy, inherit, target: self.target.clone() };
        (is_known && is_whole && a.rights.system_wide() && !a.calls_refused).then_some(wanted)
    }

    /// Attaches or detaches the programs that sum calls. Returns `which` with the slots whose events must be opened
    /// again, and the earlier programs for [`Self::restore_calls`] if anything changed.
    pub(super) fn choose_calls(&mut self, which: &[usize]) -> (Vec<usize>, Option<ReplacedCalls>) {
        let mut which = which.to_vec();
        let wanted = self.wanted_calls();
        if self.attachment.calls.as_ref().map(|calls| &calls.wanted) == wanted.as_ref() {
            return (which, None);
        }
        self.attachment.stop_calls();
        let mut last = Batch::default();
        self.read_calls(true, &mut last);
        self.pending.events.append(&mut last.events);
        let before = self.attachment.calls.take();
        if let Some(before) = &before {
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
        (which, Some(ReplacedCalls(before)))
    }

    /// Undoes [`Self::choose_calls`] if the events that the programs replace, or replaced, could not be opened. The
    /// earlier programs begin again with the next batch.
    pub(super) fn restore_calls(&mut self, ReplacedCalls(before): ReplacedCalls) {
        if let Some(failed) = self.attachment.calls.take() {
            self.attachment.note_calls(&failed.wanted, None);
        }
        if let Some(before) = &before {
            self.attachment.note_calls(&before.wanted, Some(NOTE));
        }
        self.attachment.calls = before;
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

    /// Reads all sums since the last reading into a batch.
    pub(super) fn read_sums(&mut self, batch: &mut Batch) {
        self.read_calls(false, batch);
        batch.events.extend(self.attachment.read_hits());
    }

    /// Reads the sums of calls since the last reading into a batch.
    pub(super) fn read_calls(&mut self, is_last: bool, batch: &mut Batch) {
        let Some(calls) = &mut self.attachment.calls else { return };
        match calls.read(is_last) {
            Ok(reading) => batch.events.push(SourceEvent::CallSums(reading)),
            Err(error) => batch.note(format!("sums of system calls cannot be read: {}", refused_program(&error, "").0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Rate};
    use crate::kernel::fake::FakeSys;
    use crate::kernel::sys::Errno;
    use crate::source::live::poll_loop::tests::source_of;

    /// As when the limit of open files is reached.
    #[test]
    fn programs_stay_attached_if_the_events_in_their_place_cannot_be_opened() {
        let sys = FakeSys::new(|attr, _, _| if attr.period_or_freq == 7 { Err(Errno::MFILE) } else { Ok(()) });
        let mut source = source_of(vec![Event::cpu_clock(), Event::cpu_clock()], sys);
        // No unit wants sums, so that the next change detaches the programs.
        let wanted =
            SummedTarget { enter: 0, exit: 1, policy: Default::default(), inherit: false, target: Target::System };
        source.attachment.calls = Some(CallFeed::staged(wanted.clone()));
        source.attachment.note_calls(&wanted, Some(NOTE));
        let mut change = |rate: Rate| {
            source.attachment.slots[0].event.set_rate(rate);
            let is_done = source.reopen(&[]).is_ok();
            let is_attached = source.attachment.calls.as_ref().is_some_and(|calls| calls.wanted == wanted);
            (is_done, is_attached, source.attachment.slots[1].note.is_some())
        };
        assert_eq!(change(Rate::Period(7)), (false, true, true));
        assert_eq!(change(Rate::Period(8)), (true, false, false));
    }
}
