//! Tasks that started while events were being opened: some inherit events from their parents, others started too late
//! to be listed and too early to inherit. A task is in /proc before the kernel reports its start, so the rings are read
//! once more between listing tasks and deciding about them. The kernel reports starts only to the parent's events; a
//! task whose start was not reported has inherited no events.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use crate::record::in_place::{i32_at, u64_at};
use crate::record::kinds::{HEADER, WholeRecords, types};
use crate::source::Batch;

use super::attach::{Attachment, EventTarget, OpenEvent};
use super::control::line;
use super::{LiveSource, OpenError, Target};

/// The maximum number of listings of tasks: programs that fork all the time never settle.
const MAX_ROUNDS: u32 = 8;
/// The maximum number of generations between a task and the one that events were opened on.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Birth {
    time: u64,
    parent: i32,
}

/// The opening times of events, by task, CPU and event.
type Opened = FxHashMap<(i32, u32, usize), u64>;

#[derive(Debug, Default)]
pub(super) struct Settling {
    births: FxHashMap<i32, Birth>,
    /// Listed tasks that are decided after the rings are read again.
    fresh: Vec<i32>,
    rounds: u32,
}

impl Settling {
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

    /// Returns whether a task inherits an event; `opened` returns the opening time of a task's event.
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
    pub(super) fn tasks(&mut self) -> Vec<i32> {
        let Self { target, family, inherit, .. } = self;
        target.tasks(inherit.then_some(family))
    }

    /// Returns the processes that are sampled; `None` if they are not selected by number.
    pub(crate) fn processes(&self) -> Option<Vec<i32>> {
        let is_chosen = matches!(self.target, Target::Processes(_) | Target::Threads(_));
        let mut pids: Vec<i32> = self.known_tasks.iter().filter_map(|tid| crate::kernel::procfs::tgid(*tid)).collect();
        pids.sort_unstable();
        pids.dedup();
        is_chosen.then_some(pids)
    }

    /// Requests the unwind tables of processes whose stacks are walked from now on. Returns these processes.
    pub(super) fn request_tables(&mut self) -> Vec<i32> {
        let Self { attachment, known_tasks, .. } = self;
        let is_on_tasks = attachment.is_on_tasks();
        let Some(walks) = &mut attachment.walks else { return Vec::new() };
        walks.request_tables(|| match is_on_tasks {
            true => {
                let of = |tid: &i32| crate::kernel::procfs::tgid(*tid);
                known_tasks.iter().filter_map(of).collect::<BTreeSet<i32>>().into_iter().collect()
            }
            false => crate::kernel::procfs::processes(),
        })
    }

    /// Starts looking for tasks that started while events were opened on others. Not needed before a command starts.
    pub(super) fn settle_later(&mut self) {
        let is_alone = self.held.is_some() && !self.is_beside;
        if self.inherit && !is_alone && matches!(self.target, Target::Processes(_)) {
            self.settling = Some(Settling::default());
        }
    }

    /// Opens events on tasks that started during the opening and have not inherited them.
    pub(super) fn settle(&mut self, batch: &mut Batch) {
        let Some(mut settling) = self.settling.take() else { return };
        let due = std::mem::take(&mut settling.fresh);
        let cpus: Vec<u32> = self.attachment.rings.keys().copied().collect();
        let before = self.attachment.opened.len();
        let opened = if due.is_empty() { Opened::default() } else { self.attachment.opened_on_tasks() };
        for (tid, cpu) in due.iter().flat_map(|tid| cpus.iter().map(move |cpu| (*tid, *cpu))) {
            let missing = self.attachment.missing(&settling, &opened, tid, cpu);
            if let Err(error) = self.attachment.open_missing(&missing, cpu, tid) {
                batch.note(line(&error));
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

    fn wanted_on(&self, cpu: u32) -> Vec<usize> {
        (0..self.slots.len())
            .filter(|slot| self.slots[*slot].wants(cpu) && !self.slots[*slot].event.machine_wide)
            .collect()
    }

    /// Returns the events that a task has neither as its own nor inherited on a CPU.
    fn missing(&self, settling: &Settling, opened: &Opened, tid: i32, cpu: u32) -> Vec<usize> {
        let has = |slot: usize| {
            let since = |task: i32| opened.get(&(task, cpu, slot)).copied();
            since(tid).is_some() || settling.inherits(tid, since)
        };
        self.wanted_on(cpu).into_iter().filter(|slot| !has(*slot)).collect()
    }

    /// Opens missing events; for a task without any, also the dummy that reports its children and mappings.
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
    use crate::record::kinds::{TaskRecord, encode_task};
    use crate::source::live::attach::tests::attachment;

    fn born(list: &[(i32, i32, u64)]) -> Settling {
        let mut bytes = Vec::new();
        for (tid, parent, time) in list {
            let task = TaskRecord { pid: *tid, ppid: *parent, tid: *tid, ptid: *parent, time: *time };
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
        assert_eq!(has, [true, true, false, false, false], "13 started too early, the start of 15 was not reported");
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
