//! The program that walks user stacks, at open events and at tracepoints.

use std::os::fd::OwnedFd;

use crate::event::Event;
use crate::kernel::walk::Hook;
use crate::source::RunState;

use super::{Attachment, EventTarget};
use crate::source::live::attr;
use crate::source::live::error::OpenError;
use crate::source::live::event_slot::Slot;
use crate::source::live::records::stack_walks::{ALL_TASKS, StackWalks};

/// The number of tasks that are tried as holders: they may have ended.
const MOST_HOLDERS: usize = 16;

impl Attachment {
    /// Lets the stack-walking program write into a CPU's ring. `Ok(false)` if the CPU went offline.
    pub(super) fn open_walks(&mut self, cpu: u32, owner: &OwnedFd) -> Result<bool, OpenError> {
        let Some(walks) = &mut self.walks else { return Ok(true) };
        let attr = attr::walked(&self.common, self.have);
        match walks.open(&*self.sys, cpu, owner, &attr) {
            Ok(()) => Ok(true),
            // Events of tasks can be opened on a CPU that is offline, but not this one.
            Err(errno) if OpenError::is_gone(errno, cpu as i32) => Ok(false),
            Err(_) if !walks.is_by_tables() => {
                // Copied stacks work without it, except below probed functions.
                self.detach_walks();
                Ok(true)
            }
            Err(errno) => Err(OpenError::open("bpf-output", &attr, errno, &self.rights)),
        }
    }

    /// Removes the walking program. The rings keep the number of stacks that it could not write.
    pub(crate) fn detach_walks(&mut self) -> Option<StackWalks> {
        let walks = self.walks.take()?;
        let writers = self.rings.keys().filter_map(|cpu| Some((*cpu, walks.writer(*cpu)?)));
        let lost: Vec<(u32, u64)> = writers.map(|(cpu, writer)| (cpu, self.lost_by(writer))).collect();
        for (cpu, lost) in lost {
            self.rings.get_mut(&cpu).into_iter().for_each(|ring| ring.losses.close(lost));
        }
        Some(walks)
    }

    pub(crate) fn open_all_walks(&mut self) -> Result<(), OpenError> {
        let rings = std::mem::take(&mut self.rings);
        let opened = rings.iter().try_for_each(|(cpu, ring)| self.open_walks(*cpu, &ring.owner).map(drop));
        self.rings = rings;
        opened
    }

    /// Attaches the walking program to these events' tracepoints. If that fails, their stacks are taken in another way.
    pub(crate) fn trace_walks(&mut self, which: &[usize], whos: &[EventTarget]) {
        let Self { walks, slots, common, notes, sys, is_narrow, .. } = self;
        for i in which.iter().copied() {
            let Slot { event, run, .. } = &mut slots[i];
            let hook = attr::hook(event, common).filter(|_| matches!(run, RunState::Running | RunState::Paused));
            let is_of_all = !*is_narrow || event.machine_wide;
            let holders = if is_of_all { vec![ALL_TASKS] } else { holders(whos) };
            event.is_walked = match (hook, &mut *walks) {
                (Some(hook), Some(walks)) => match walks.trace(&**sys, &hook, &holders) {
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
    pub(crate) fn is_on_tasks(&self) -> bool {
        self.is_narrow && self.common.tasks && !self.walked_events().any(|event| event.machine_wide)
    }
}

/// Returns the tasks on which the program of a probe may be held, the first choice first. The kernel puts a probe into
/// the code of the task that holds it. Held on all tasks, it would slow down every process that maps the file. Cgroups
/// cannot hold a probe for themselves alone. Without a task, this thread (0) holds it.
fn holders(whos: &[EventTarget]) -> Vec<i32> {
    let is_of_cgroup = |who: &EventTarget| matches!(who, EventTarget::Cgroup(_));
    if whos.iter().any(is_of_cgroup) {
        return vec![ALL_TASKS];
    }
    let tasks = whos.iter().filter_map(|who| match who {
        EventTarget::Task(tid) if *tid != ALL_TASKS => Some(*tid),
        _ => None,
    });
    tasks.take(MOST_HOLDERS).chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_of_chosen_tasks_are_held_on_these_alone() {
        let of = |tid: i32| EventTarget::Task(tid);
        assert_eq!(holders(&[EventTarget::ALL, of(30), of(31)]), [30, 31, 0], "another event is of all tasks");
        assert_eq!(holders(&[]), [0]);
        assert_eq!(holders(&[EventTarget::Cgroup(0)]), [ALL_TASKS]);
        let many: Vec<EventTarget> = (1..100).map(of).collect();
        assert_eq!(holders(&many).len(), MOST_HOLDERS + 1);
    }
}
