//! The time that threads sleep, as samples of an event: when the program that sums it is attached, and its readings.

mod cost_guard;
mod target_groups;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::bpf::calls::LoadError;
use crate::kernel::procfs;
use crate::kernel::sys::Errno;
use crate::kernel::walk::Program;
use crate::kernel::walk::waits::{OpenWait, WaitCounter, WaitSum, WaitTotals};
use crate::kernel::{self, cgroup, monotonic_ns};
use crate::perfdata::layout;
use crate::record::kinds::{encode, misc, types};
use crate::record::sample::NOT_WALKED;
use crate::source::{Batch, FreshId, RunState, SourceEvent};

use super::capture::refused_program;
use super::records::stack_walks::{StackWalks, WaitStack, WaitStacks};
use super::{LiveSource, Target};
use cost_guard::CostGuard;
use target_groups::TargetGroupIds;

/// The id of its samples; the kernel counts ids from 1.
const ID: u64 = u64::MAX - 1;
/// The interval of readings.
const INTERVAL_NS: u64 = 1_000_000_000;
/// Waits under way are counted in parts of this length. Those that have lasted for the longest part are counted in longer
/// ones if there are many of them.
const PART_NS: u64 = INTERVAL_NS;
const LONGEST_PART_NS: u64 = 10 * INTERVAL_NS;
/// The number of waits for each second of the longer parts: each part is a sample.
const WAITS_OF_A_SECOND: u64 = 256;

/// The maximum number of remembered threads. Their numbers may be reused later.
const MOST_MEMBERS: usize = 1 << 14;

/// The program that sums the time off the CPUs: while it is loaded, and attached.
#[derive(Debug, Default)]
pub(super) struct OffCpuTime {
    loading: Option<Loading>,
    feed: Option<WaitFeed>,
}

/// The verifier takes up to a second, so that another thread loads the program.
#[derive(Debug)]
struct Loading {
    program: Arc<Program>,
    thread: JoinHandle<Result<(WaitCounter, Range<u64>), LoadError>>,
}

impl Loading {
    fn start(program: Arc<Program>) -> io::Result<Self> {
        let of = program.clone();
        let load = move || Ok((WaitCounter::load(of, std::process::id())?, WaitStacks::switch_function()));
        Ok(Self { program, thread: kernel::thread("waits", load)? })
    }
}

/// The program while it is attached or costs too much for that, and the waits that it reported as under way.
#[derive(Debug)]
struct WaitFeed {
    counter: WaitCounter,
    next: u64,
    guard: CostGuard,
    /// Why the program is detached for now.
    excess: Option<String>,
    parts: OpenParts,
    /// A reading whose stacks are still in the rings, and whether it is the last.
    totals: Option<(WaitTotals, bool)>,
    /// Whether the maps had no room for some waits.
    lacks_room: bool,
    /// Whether threads belong to the target.
    members: FxHashMap<i32, bool>,
    groups: TargetGroupIds,
}

impl WaitFeed {
    fn new(counter: WaitCounter) -> Self {
        let guard = CostGuard::new(counter.cpus());
        let next = monotonic_ns() + INTERVAL_NS;
        let parts = OpenParts::default();
        Self {
            counter,
            next,
            guard,
            excess: None,
            parts,
            totals: None,
            lacks_room: false,
            members: FxHashMap::default(),
            groups: TargetGroupIds::default(),
        }
    }

    /// Reads the sums, or finds out whether the program may be attached again. Returns whether it was detached or
    /// attached.
    fn read(&mut self, now: u64, is_last: bool, only: Option<&[u32]>) -> Result<bool, LoadError> {
        if self.excess.is_some() {
            if is_last || !self.guard.may_go_on(procfs::context_switches().unwrap_or(u64::MAX), now) {
                return Ok(false);
            }
            self.excess = None;
            self.counter.begin(only)?;
            return Ok(true);
        }
        let totals = self.counter.read()?;
        self.excess = self.guard.excess(totals.cost, now).filter(|_| !is_last);
        let is_over = self.excess.is_some();
        if is_over {
            self.counter.end()?;
        }
        // The waits under way are counted up to the end.
        self.totals = Some((totals, is_last || is_over));
        Ok(is_over)
    }
}

/// A wait under way, and its time that was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenPart {
    start: u64,
    stack: u64,
    ns: u64,
    /// Readings since it ended whose sums did not have it.
    missed: u32,
}

/// The waits that are counted before they end, by thread: the sum that has them at their end is less by this.
#[derive(Debug, Default)]
struct OpenParts {
    open: FxHashMap<i32, OpenPart>,
    ended: Vec<(i32, OpenPart)>,
}

impl OpenParts {
    /// Returns the time of each thread and stack since the previous reading.
    fn since_last(&mut self, totals: &WaitTotals, is_last: bool) -> Vec<WaitSum> {
        let mut out = totals.sums.clone();
        let now: FxHashMap<i32, u64> = totals.open.iter().map(|open| (open.tid, open.start)).collect();
        self.ended.extend(self.open.extract_if(|tid, part| now.get(tid) != Some(&part.start)));
        self.ended.retain_mut(|(tid, part)| {
            let at = out.binary_search_by_key(&(*tid, part.stack), |sum| (sum.tid, sum.stack));
            // A wait that ended while the sums were read is in the next reading.
            if let Some(sum) = at.ok().map(|at| &mut out[at]).filter(|sum| sum.ns >= part.ns) {
                sum.ns -= part.ns;
                return false;
            }
            part.missed += 1;
            part.missed < 3
        });
        let long_part = (totals.open.len() as u64 / WAITS_OF_A_SECOND + 1).saturating_mul(PART_NS).min(LONGEST_PART_NS);
        for open in &totals.open {
            let whole = totals.until.saturating_sub(open.start);
            let fresh = OpenPart { start: open.start, stack: open.stack, ns: 0, missed: 0 };
            let done = self.open.get(&open.tid).map_or(0, |part| part.ns);
            let due = if whole < LONGEST_PART_NS { PART_NS } else { long_part };
            let ns = whole.saturating_sub(done);
            if ns < due && !is_last || ns == 0 {
                continue;
            }
            self.open.entry(open.tid).or_insert(fresh).ns = whole;
            let OpenWait { tid, pid, stack, cgroup, cpu, .. } = *open;
            out.push(WaitSum { tid, pid, stack, ns, cgroup, cpu });
        }
        out.retain(|sum| sum.ns > 0);
        out
    }
}

/// Appends the sample of a sum. Its stack may be missing.
fn write(out: &mut Vec<u8>, sum: &WaitSum, stack: Option<&WaitStack>, time: u64, has_cgroup: bool) {
    let mode = if stack.is_some_and(|stack| !stack.in_kernel) { misc::USER } else { misc::KERNEL };
    let chain = stack.map_or(&[][..], |stack| &stack.chain);
    encode(out, types::SAMPLE, mode, |out| {
        out.extend(ID.to_le_bytes());
        out.extend(stack.map_or(NOT_WALKED, |stack| stack.ip).to_le_bytes());
        out.extend(sum.pid.to_le_bytes());
        out.extend(sum.tid.to_le_bytes());
        out.extend(time.to_le_bytes());
        out.extend(u64::from(sum.cpu).to_le_bytes());
        out.extend(sum.ns.to_le_bytes());
        out.extend((chain.len() as u64 / 8).to_le_bytes());
        out.extend_from_slice(chain);
        if has_cgroup {
            out.extend(sum.cgroup.to_le_bytes());
        }
    });
}

impl LiveSource {
    fn wait_slot(&self) -> Option<usize> {
        self.attachment.slots.iter().position(|slot| slot.event.is_off_cpu_time())
    }

    /// Returns why the time off the CPUs cannot be kept.
    fn refuses_waits(&self) -> Option<String> {
        let a = &self.attachment;
        let is_walked = a.walks.as_ref().is_some_and(StackWalks::is_by_tables);
        let is_listed = matches!(self.target, Target::System | Target::Processes(_) | Target::Threads(_));
        let is_of_groups = self.target.group_dirs().is_some();
        let why = match () {
            () if !is_walked => "user stacks are not taken by tables",
            () if a.outside.is_some() => "this is another PID namespace than the machine's",
            () if is_of_groups && !cgroup::is_unified() => "cgroups of version 1 have no ids that programs see",
            () if !is_listed && !is_of_groups && !self.measures_own_tasks() => {
                "it is kept for the machine, processes, threads and cgroups only"
            }
            () if a.common.exclude.user || a.common.exclude.kernel => "a part of the stacks is excluded",
            () => return None,
        };
        Some(why.to_owned())
    }

    /// Reports the id of the event's samples.
    pub(super) fn report_waits(&mut self) {
        let Some(slot) = self.wait_slot() else { return };
        let attr = self.attachment.attr(slot);
        self.attachment.fresh_ids.push(FreshId { id: ID, event: slot as u16, layout: layout(&attr), period: 0 });
    }

    /// Begins to load the program, or detaches it, as the event's state, the target and the walking program require.
    pub(super) fn choose_waits(&mut self) {
        let Some(slot) = self.wait_slot() else { return };
        let run = &self.attachment.slots[slot].run;
        let is_wanted = matches!(run, RunState::Running | RunState::Refused(_));
        let refusal = self.refuses_waits();
        let program =
            self.attachment.walks.as_ref().map(|walks| &walks.program).filter(|_| is_wanted && refusal.is_none());
        let is_of = |other: &Arc<Program>| program.is_some_and(|program| Arc::ptr_eq(program, other));
        let Self { waits, chosen, .. } = self;
        waits.loading.take_if(|loading| !is_of(&loading.program));
        waits.feed.take_if(|feed| !is_of(feed.counter.program()));
        waits.feed.iter().for_each(|feed| feed.counter.count_on(chosen.as_deref()));
        let has_program = waits.loading.is_some() || waits.feed.is_some();
        let started = program.filter(|_| !has_program).map(|program| Loading::start(program.clone()));
        let refusal = match started.transpose() {
            Ok(started) => {
                waits.loading = waits.loading.take().or(started);
                refusal.or_else(|| waits.feed.as_ref()?.excess.clone())
            }
            Err(error) => Some(error.to_string()),
        };
        if is_wanted {
            self.attachment.slots[slot].run = refusal.map_or(RunState::Running, RunState::Refused);
        }
    }

    /// Reports that the event is measured from now on, or why it is not.
    fn report_state_of_waits(&mut self, refusal: Option<String>, batch: &mut Batch) {
        let Some(slot) = self.wait_slot() else { return };
        batch.note(match &refusal {
            Some(why) => format!("only CPU time is kept from now on, and not what threads wait for: {why}"),
            None => "the time that threads wait is kept again".to_owned(),
        });
        self.attachment.slots[slot].run = refusal.map_or(RunState::Running, RunState::Refused);
        batch.events.push(SourceEvent::Changed(self.changed()));
    }

    /// Attaches the program once it is loaded.
    fn begin_waits(&mut self, batch: &mut Batch) {
        let Some(loading) = self.waits.loading.take_if(|loading| loading.thread.is_finished()) else { return };
        let crashed = || Err(LoadError::from(Errno::IO));
        let begun = loading.thread.join().unwrap_or_else(|_| crashed()).and_then(|(mut counter, switch)| {
            self.attachment.walks.iter_mut().for_each(|walks| walks.pairs.waits.begin(switch.clone()));
            counter.begin(self.chosen.as_deref())?;
            Ok(WaitFeed::new(counter))
        });
        match begun {
            Ok(feed) => self.waits.feed = Some(feed),
            Err(error) => self.report_state_of_waits(Some(refused_program(&error, "").0), batch),
        }
    }

    /// Reads the sums if they are due. Their stacks are in the rings then.
    pub(super) fn read_waits(&mut self, now: u64, is_last: bool, batch: &mut Batch) {
        self.begin_waits(batch);
        let is_due = |feed: &&mut WaitFeed| is_last || now >= feed.next;
        let Some(feed) = self.waits.feed.as_mut().filter(is_due) else { return };
        feed.next = now + INTERVAL_NS;
        let read = feed.read(now, is_last, self.chosen.as_deref());
        // Waits before the start of the session do not count.
        feed.totals.take_if(|_| self.enable_at.is_some());
        match read {
            Ok(false) => {}
            Ok(true) => {
                let excess = feed.excess.clone();
                self.report_state_of_waits(excess, batch);
            }
            Err(error) => {
                self.waits.feed = None;
                self.report_state_of_waits(Some(refused_program(&error, "").0), batch);
            }
        }
    }

    /// Adds the samples of a reading, after the rings were read.
    pub(super) fn add_waits(&mut self, time: u64, batch: &mut Batch) {
        let Some(feed) = self.waits.feed.as_mut() else { return };
        let Some((totals, is_last)) = feed.totals.take() else { return };
        if totals.lost > 0 && !std::mem::replace(&mut feed.lacks_room, true) {
            batch.note("some waits are not measured: more than 16,384 threads sleep, or as many stacks in a second");
        }
        let mut sums = feed.parts.since_last(&totals, is_last);
        if feed.excess.is_some() {
            feed.parts = OpenParts::default();
        }
        self.retain_target(&mut sums);
        if let Some(slot) = self.wait_slot() {
            // The kernel has no event that counts it.
            let counts = &mut self.attachment.slots[slot].before;
            counts.value = sums.iter().fold(counts.value, |all, sum| all.saturating_add(sum.ns));
            (counts.enabled_ns, counts.running_ns) = (counts.enabled_ns + INTERVAL_NS, counts.running_ns + INTERVAL_NS);
        }
        let has_cgroup = self.attachment.common.cgroups && self.attachment.have.cgroup;
        let Some(walks) = &mut self.attachment.walks else { return };
        let stacks = &mut walks.pairs.waits;
        for open in &totals.open {
            // The stack of a long wait is kept.
            let _ = stacks.get(open.stack);
        }
        for sum in &sums {
            batch.index.push((time, batch.bytes.len()));
            write(&mut batch.bytes, sum, stacks.get(sum.stack), time, has_cgroup);
        }
        stacks.next_reading();
    }

    /// Removes the sums of other tasks. The program measures only tasks with perf events, which may be those of others.
    fn retain_target(&mut self, sums: &mut Vec<WaitSum>) {
        if self.target == Target::System {
            return;
        }
        let Some(feed) = self.waits.feed.as_mut() else { return };
        if let Some(dirs) = self.target.group_dirs() {
            return feed.groups.retain(dirs, sums);
        }
        let mut known = std::mem::take(&mut feed.members);
        if sums.iter().any(|sum| !known.contains_key(&sum.tid)) {
            let listed: FxHashSet<i32> = self.tasks().into_iter().collect();
            let stacks = self.attachment.walks.as_ref().filter(|_| self.measures_own_tasks());
            // A thread that has ended is not listed.
            let has_started = |tid| stacks.is_some_and(|walks| walks.pairs.waits.has_started(tid));
            for sum in sums.iter() {
                let is_listed = || listed.contains(&sum.tid) || listed.contains(&sum.pid);
                known.entry(sum.tid).or_insert_with(|| is_listed() || has_started(sum.tid));
            }
        }
        sums.retain(|sum| known.get(&sum.tid).copied().unwrap_or(false));
        if known.len() > MOST_MEMBERS {
            known.clear();
        }
        self.waits.feed.iter_mut().for_each(|feed| feed.members = std::mem::take(&mut known));
    }

    /// Whether the program measures only tasks with perf events.
    fn measures_own_tasks(&self) -> bool {
        let a = &self.attachment;
        a.is_on_tasks() && a.walks.as_ref().is_some_and(|walks| walks.program.knows_measured_tasks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::kernel::fake::FakeSys;
    use crate::record::Header;
    use crate::record::kinds::HEADER;
    use crate::source::live::poll_loop::tests::source_of;

    const SECOND: u64 = 1_000_000_000;

    fn ended(tid: i32, stack: u64, ns: u64) -> WaitSum {
        WaitSum { tid, pid: 1, stack, ns, ..WaitSum::default() }
    }

    fn under_way(tid: i32, stack: u64, start: u64) -> OpenWait {
        OpenWait { tid, pid: 1, stack, cgroup: 0, cpu: 0, start }
    }

    /// Returns the times of stacks in a reading.
    fn counted(parts: &mut OpenParts, until: u64, sums: &[WaitSum], open: &[OpenWait]) -> Vec<(u64, u64)> {
        let totals = WaitTotals { until, sums: sums.to_vec(), open: open.to_vec(), ..WaitTotals::default() };
        parts.since_last(&totals, false).iter().map(|sum| (sum.stack, sum.ns)).collect()
    }

    #[test]
    fn a_wait_under_way_is_counted_in_parts_and_its_rest_at_its_end() {
        let mut parts = OpenParts::default();
        let open = [under_way(5, 9, 0)];
        assert_eq!(counted(&mut parts, SECOND / 2, &[], &open), [], "too short");
        assert_eq!(counted(&mut parts, 3 * SECOND / 2, &[], &open), [(9, 3 * SECOND / 2)]);
        // Another wait of the thread with the same stack has begun.
        let rest = counted(&mut parts, 3 * SECOND, &[ended(5, 9, 2 * SECOND)], &[under_way(5, 9, 2 * SECOND)]);
        assert_eq!(rest, [(9, SECOND / 2), (9, SECOND)]);
        assert_eq!(counted(&mut parts, 4 * SECOND, &[ended(5, 9, SECOND)], &[]), [], "nothing is left");
        assert!(parts.open.is_empty() && parts.ended.is_empty());
    }

    /// The sums are read before the waits under way.
    #[test]
    fn a_wait_that_ends_between_two_maps_is_counted_once() {
        let mut parts = OpenParts::default();
        assert_eq!(counted(&mut parts, 2 * SECOND, &[], &[under_way(5, 9, 0)]), [(9, 2 * SECOND)]);
        assert_eq!(counted(&mut parts, 3 * SECOND, &[ended(5, 9, 7)], &[]), [(9, 7)], "an earlier, short one");
        assert_eq!(counted(&mut parts, 4 * SECOND, &[ended(5, 9, 5 * SECOND / 2)], &[]), [(9, SECOND / 2)]);
        assert!(parts.ended.is_empty());
    }

    /// A range of any length has the sleep of its seconds, unless very many threads sleep.
    #[test]
    fn long_waits_are_counted_each_second_unless_they_are_many() {
        let samples = |threads: i32| {
            let mut parts = OpenParts::default();
            let open: Vec<OpenWait> = (1..=threads).map(|tid| under_way(tid, tid as u64, 0)).collect();
            let of_first =
                |sums: Vec<WaitSum>| -> Vec<u64> { sums.iter().filter(|sum| sum.tid == 1).map(|sum| sum.ns).collect() };
            let mut samples: Vec<u64> = Vec::new();
            for second in 1..=60 {
                let totals = WaitTotals { until: second * SECOND, open: open.clone(), ..WaitTotals::default() };
                samples.extend(of_first(parts.since_last(&totals, false)));
            }
            let totals = WaitTotals { until: 61 * SECOND, open, ..WaitTotals::default() };
            samples.extend(of_first(parts.since_last(&totals, true)));
            assert_eq!(samples.iter().sum::<u64>(), 61 * SECOND);
            samples.len()
        };
        assert_eq!([1, 255, 256, 600].map(samples), [61, 61, 9 + 26, 9 + 18]);
        assert!(samples(3000) < 16);
    }

    #[test]
    fn a_sample_of_a_sum_has_the_layout_of_the_event() {
        let source = source_of(vec![Event::cpu_clock(), Event::off_cpu_time()], FakeSys::new(|_, _, _| Ok(())));
        let slot = source.wait_slot().expect("a slot");
        assert!(source.attachment.opened.iter().all(|open| open.event != Some(slot as u16)), "the kernel has no event");
        let mut layout = layout(&source.attachment.attr(slot));
        layout.sample_type |= crate::kernel::attr::sample::CALLCHAIN;
        let chain: Vec<u8> = [u64::MAX - 511, 0x10, 0x20].iter().flat_map(|word| word.to_le_bytes()).collect();
        let stack = WaitStack { chain: chain.into(), ip: 0x10, in_kernel: false };
        let sum = WaitSum { tid: 7, pid: 6, stack: 1, ns: 500, cgroup: 3, cpu: 2 };
        for stack in [Some(&stack), None] {
            let mut out = Vec::new();
            write(&mut out, &sum, stack, 99, false);
            let header = Header::read(&out).expect("a record");
            let sample = layout.sample(header, &out[HEADER..]).expect("whole");
            assert_eq!((sample.id, sample.pid, sample.tid, sample.time), (ID, 6, 7, 99));
            assert_eq!((sample.period, sample.cpu, sample.chain().count()), (500, 2, stack.map_or(0, |_| 3)));
            assert_eq!(sample.ip, stack.map_or(NOT_WALKED, |stack| stack.ip));
        }
    }

    #[test]
    fn what_keeps_the_program_out_is_the_events_state() {
        let mut source = source_of(vec![Event::cpu_clock(), Event::off_cpu_time()], FakeSys::new(|_, _, _| Ok(())));
        source.choose_waits();
        let slot = source.wait_slot().expect("a slot");
        assert!(matches!(source.attachment.slots[slot].run, RunState::Refused(_)) && source.waits.loading.is_none());
        source.attachment.slots[slot].run = RunState::Stopped;
        source.choose_waits();
        assert_eq!(source.attachment.slots[slot].run, RunState::Stopped, "the user's choice stays");
    }
}
