//! Tasks that began while events were being opened: those that inherit events from their parents, and those that were
//! born too late to be listed and too early to inherit.
//!
//! A task is in /proc before the kernel tells of its birth, so the rings are read once more between listing tasks and
//! deciding about them. The kernel tells the time of a birth only to events that the parent has; a task whose birth
//! nobody told of has inherited nothing.

use rustc_hash::FxHashMap;

use crate::record::in_place::{i32_at, u64_at};
use crate::record::kinds::{HEADER, WholeRecords, types};
use crate::source::Batch;

use super::attach::{Attachment, EventTarget, OpenEvent};
use super::control::line;
use super::{LiveSource, OpenError, Target};

/// Listings of tasks after which no more are awaited: programs that fork all the time are never at rest.
const MAX_ROUNDS: u32 = 8;
/// Generations between a task and the one that events were opened on.
const MAX_DEPTH: usize = 64;

/// A birth as the kernel tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Birth {
    time: u64,
    parent: i32,
}

/// Since when events are open, by task, CPU and event.
type Opened = FxHashMap<(i32, u32, usize), u64>;

/// What is known of tasks that began lately.
#[derive(Debug, Default)]
pub(super) struct Settling {
    births: FxHashMap<i32, Birth>,
    /// Listed, and not decided about until the rings are read again.
    fresh: Vec<i32>,
    rounds: u32,
}

impl Settling {
    /// Learns of births from what the rings brought.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        for (header, record) in (WholeRecords { rest: bytes }) {
            let field = |at: usize| i32_at(record, HEADER + at);
            if header.kind == types::FORK
                && let (Some(tid), Some(parent), Some(time)) = (field(8), field(12), u64_at(record, HEADER + 16))
            {
                self.births.insert(tid, Birth { time, parent });
            }
        }
    }

    /// Whether a task has an event that `opened` says since when its parents have.
    fn inherits(&self, tid: i32, opened: impl Fn(i32) -> Option<u64>) -> bool {
        let mut tid = tid;
        for _ in 0..MAX_DEPTH {
            let Some(birth) = self.births.get(&tid) else { return false };
            if opened(birth.parent).is_some_and(|since| since < birth.time) {
                return true;
            }
            tid = birth.parent;
        }
        false
    }
}

impl LiveSource {
    /// The threads of the target now.
    pub(super) fn tasks(&mut self) -> Vec<i32> {
        let Self { target, family, inherit, .. } = self;
        target.tasks(inherit.then_some(family))
    }

    /// The processes that are sampled; `None` where they are not chosen by their numbers.
    pub(crate) fn processes(&self) -> Option<Vec<i32>> {
        let is_chosen = matches!(self.target, Target::Processes(_) | Target::Threads(_));
        let mut pids: Vec<i32> = self.known_tasks.iter().filter_map(|tid| crate::kernel::procfs::tgid(*tid)).collect();
        pids.sort_unstable();
        pids.dedup();
        is_chosen.then_some(pids)
    }

    /// Events were opened on the tasks that were there before: has those looked for that began meanwhile. A command
    /// that has not begun has none.
    pub(super) fn settle_later(&mut self) {
        let is_alone = self.held.is_some() && !self.is_beside;
        if self.inherit && !is_alone && matches!(self.target, Target::Processes(_)) {
            self.settling = Some(Settling::default());
        }
    }

    /// Opens events on tasks that began while others' were opened, and have not inherited them.
    pub(super) fn settle(&mut self, batch: &mut Batch) {
        let Some(mut settling) = self.settling.take() else { return };
        let due = std::mem::take(&mut settling.fresh);
        let cpus: Vec<u32> = self.attachment.rings.keys().copied().collect();
        let before = self.attachment.opened.len();
        let opened = if due.is_empty() { Opened::default() } else { self.attachment.opened_on_tasks() };
        for (tid, cpu) in due.iter().flat_map(|tid| cpus.iter().map(move |cpu| (*tid, *cpu))) {
            let missing = self.attachment.missing(&settling, &opened, tid, cpu);
            if let Err(error) = self.attachment.open_missing(&missing, cpu, tid) {
                batch.notes.push(line(&error));
                return;
            }
        }
        if self.attachment.opened.len() > before && self.enable_at.is_none() {
            self.attachment.enable_all();
        }
        self.known_tasks.extend(due);
        self.known_tasks.sort_unstable();
        let now = self.tasks();
        settling.fresh = now.into_iter().filter(|tid| self.known_tasks.binary_search(tid).is_err()).collect();
        settling.rounds += 1;
        if !settling.fresh.is_empty() && settling.rounds <= MAX_ROUNDS {
            self.settling = Some(settling);
        }
    }
}

impl Attachment {
    fn opened_on_tasks(&self) -> Opened {
        let of = |open: &OpenEvent| match (open.who, open.event) {
            (EventTarget::Task(tid), Some(event)) => Some(((tid, open.cpu, usize::from(event)), open.since)),
            _ => None,
        };
        self.opened.iter().filter_map(of).collect()
    }

    /// The events that are measured on a CPU.
    fn wanted_on(&self, cpu: u32) -> Vec<usize> {
        (0..self.slots.len())
            .filter(|slot| self.slots[*slot].wants(cpu) && !self.slots[*slot].event.machine_wide)
            .collect()
    }

    /// The events that a task has neither of its own nor inherited on a CPU.
    fn missing(&self, settling: &Settling, opened: &Opened, tid: i32, cpu: u32) -> Vec<usize> {
        let has = |slot: usize| {
            let since = |task: i32| opened.get(&(task, cpu, slot)).copied();
            since(tid).is_some() || settling.inherits(tid, since)
        };
        self.wanted_on(cpu).into_iter().filter(|slot| !has(*slot)).collect()
    }

    /// Opens them; where the task has none, with what tells of its births and mappings.
    fn open_missing(&mut self, missing: &[usize], cpu: u32, tid: i32) -> Result<bool, OpenError> {
        let who = EventTarget::Task(tid);
        match missing {
            [] => Ok(false),
            all if all == self.wanted_on(cpu) => self.open(cpu, who),
            some => self.open_slots(some, cpu, who),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::kernel::fake::FakeSys;
    use crate::record::kinds::{Task, encode_task};
    use crate::source::live::attach::tests::attachment;

    fn born(list: &[(i32, i32, u64)]) -> Settling {
        let mut bytes = Vec::new();
        for (tid, parent, time) in list {
            let task = Task { pid: *tid, ppid: *parent, tid: *tid, ptid: *parent, time: *time };
            encode_task(&mut bytes, false, &task, &[]).expect("fits");
        }
        let mut settling = Settling::default();
        settling.read(&bytes);
        settling
    }

    #[test]
    fn who_was_born_after_its_parents_events_has_them() {
        let settling = born(&[(11, 10, 100), (12, 11, 120), (13, 10, 40), (14, 13, 130)]);
        let opened = |tid: i32| (tid == 10).then_some(50);
        let has = [11, 12, 13, 14, 15].map(|tid| settling.inherits(tid, opened));
        assert_eq!(has, [true, true, false, false, false], "13 was born too early, of 15 nobody told");
    }

    #[test]
    fn events_are_opened_where_a_birth_came_between_two_cpus() {
        let mut a = attachment(FakeSys::new(|_, _, _| Ok(())), vec![Event::cpu_clock()], 0);
        for (cpu, since) in [(0, 50), (1, 150)] {
            a.open(cpu, EventTarget::Task(10)).expect("opened");
            a.opened.iter_mut().filter(|open| open.cpu == cpu).for_each(|open| open.since = since);
        }
        let settling = born(&[(11, 10, 100), (12, 10, 200)]);
        let opened = a.opened_on_tasks();
        let missing = |tid: i32| [0, 1].map(|cpu| a.missing(&settling, &opened, tid, cpu).len());
        assert_eq!([11, 12, 13, 10].map(missing), [[0, 1], [0, 0], [1, 1], [0, 0]]);
    }
}
