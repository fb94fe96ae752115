//! The programs that sum system calls, at the rings.

use std::os::fd::OwnedFd;

use super::call_feed::{CallFeed, EXIT, SummedTarget};
use crate::kernel::attr::Attr;
use crate::source::live::attr;
use crate::source::live::error::OpenError;

use super::{Attachment, fresh};

impl Attachment {
    /// Lets the programs that sum calls write into a CPU's ring. `Ok(false)` if the CPU went offline.
    pub(super) fn open_calls(&mut self, cpu: u32, owner: &OwnedFd) -> Result<bool, OpenError> {
        let Some(exit) = self.calls.as_ref().map(|calls| calls.wanted.exit) else { return Ok(true) };
        // Their records have the fields of the tracepoint's.
        let traced = self.attr(exit);
        let attr = Attr { sample_type: traced.sample_type, ..attr::walked(&self.common, self.have) };
        let Self { calls, sys, borrowed, fresh_ids, rights, .. } = self;
        let Some(calls) = calls else { return Ok(true) };
        match calls.open(&**sys, cpu, owner, &attr) {
            Ok(id) => {
                borrowed.learn(exit, id, &traced);
                fresh_ids.push(fresh(id, exit as u16, &traced));
                Ok(true)
            }
            Err(errno) if OpenError::is_gone(errno, cpu as i32) => Ok(false),
            Err(errno) => Err(OpenError::open(EXIT, &attr, errno, rights)),
        }
    }

    pub(crate) fn open_all_calls(&mut self) -> Result<(), OpenError> {
        let rings = std::mem::take(&mut self.rings);
        let opened = rings.iter().try_for_each(|(cpu, ring)| self.open_calls(*cpu, &ring.owner).map(drop));
        self.rings = rings;
        opened
    }

    /// Excuses the records that programs could not write: calls are summed then, and the next batch of context switches
    /// shows how many of these are lost.
    pub(crate) fn excuse_programs(&mut self) {
        let writers = |cpu: u32| {
            let calls = self.calls.as_ref().and_then(|calls| calls.writer(cpu));
            calls.into_iter().chain(self.switches.as_ref().and_then(|feed| feed.writer(cpu)))
        };
        let lost = |cpu: &u32| (*cpu, writers(*cpu).map(|writer| self.lost_by(writer)).sum());
        let lost: Vec<(u32, u64)> = self.rings.keys().map(lost).collect();
        for (cpu, lost) in lost {
            self.rings.get_mut(&cpu).into_iter().for_each(|ring| ring.losses.excuse(lost));
        }
    }

    /// Returns whether programs provide the samples of a slot's event, so that the kernel does not open it.
    pub(super) fn is_fed(&self, slot: usize) -> bool {
        self.slots[slot].event.is_off_cpu_time()
            || self.calls.as_ref().is_some_and(|calls| calls.replaces(slot))
            || self.switches.as_ref().is_some_and(|feed| feed.replaces(slot))
    }

    /// Sets the note of the events that the programs replace; returns their slots.
    pub(crate) fn note_calls(&mut self, of: &SummedTarget, note: Option<&str>) -> [usize; 2] {
        let which = [of.enter, of.exit];
        which.iter().for_each(|at| self.slots[*at].note = note.map(str::to_owned));
        which
    }

    /// Begins to sum calls, unless the event is paused.
    pub(crate) fn begin_calls(&mut self) {
        let at_exec = self.common.enable_on_exec;
        let Self { calls, slots, .. } = self;
        if let Some(calls) = calls.as_mut().filter(|calls| slots[calls.wanted.exit].runs()) {
            calls.begin(at_exec);
        }
    }

    /// Stops summing calls, so that the next reading is the last.
    pub(crate) fn stop_calls(&mut self) {
        // It fails only if the program's map does not exist.
        let _ = self.calls.as_mut().map(CallFeed::stop);
    }
}
