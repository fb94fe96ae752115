//! Rounds over the rings: how long records may wait in them, how a wait ends, and which records a round reads. Also the
//! interval of reading events that are only counted.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::epoll;

use crate::kernel::monotonic_ns;
use crate::perfdata::layout;
use crate::source::{Batch, SourceEvent};

use super::LiveSource;
use super::attach::{Attachment, CpuRing};
use super::event_slot::Slot;
use super::records::pipeline::RecordPipeline;
use super::records::stack_walks::StackWalks;

/// The maximum time of records in a ring: a tick of the screen.
const TICK_NS: u64 = 100_000_000;
/// The same if a round reads almost nothing: each round costs as much as a hundred samples.
const QUIET_TICK_NS: u64 = 250_000_000;
const QUIET_BYTES: usize = 2048;
/// The same if new processes' samples may request tables, and in the round after a request.
const TABLES_TICK_NS: u64 = 50_000_000;
const ASKED_TICK_NS: u64 = 15_000_000;
/// The first ticks are shorter, so that the first numbers appear quickly.
pub(super) const FIRST_TICKS_NS: [u64; 4] = [15_000_000, 25_000_000, 40_000_000, 60_000_000];

/// The longest and the shortest interval of reading events that are only counted.
pub(super) const COUNT_NS: u64 = 200_000_000;
const MIN_COUNT_NS: u64 = 10_000_000;

impl LiveSource {
    pub(super) fn watch(&self, cpu: u32) {
        let Some(ring) = self.attachment.rings.get(&cpu) else { return };
        let data = epoll::EventData::new_u64(u64::from(cpu));
        // A poll that fails costs only the early wake-up: each tick drains every ring.
        let _ = epoll::add(&self.epoll, ring.owner.as_fd(), data, epoll::EventFlags::IN);
    }

    pub(super) fn wait(&mut self) {
        let now = monotonic_ns();
        let counts = if self.is_counting() { self.next_counts } else { u64::MAX };
        let left = self.next_tick.min(counts).saturating_sub(now).min(QUIET_TICK_NS);
        if left > 0 {
            let timeout = rustix::time::Timespec { tv_sec: 0, tv_nsec: left as i64 };
            let mut events: Vec<epoll::Event> = Vec::with_capacity(8);
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout));
            self.leave_ended(&events);
            // Its value does not matter.
            let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        }
        self.ticks += 1;
        let usual = if self.drained < QUIET_BYTES { QUIET_TICK_NS } else { TICK_NS };
        let by_tables = self.attachment.walks.as_ref().is_some_and(StackWalks::is_by_tables);
        let usual = if by_tables { TABLES_TICK_NS } else { usual };
        let tick = FIRST_TICKS_NS.get(self.ticks).copied().unwrap_or(usual);
        self.next_tick = monotonic_ns() + tick;
    }

    /// Removes rings whose tasks have ended from the wait set, because they would end every wait at once.
    fn leave_ended(&self, events: &[epoll::Event]) {
        for epoll::Event { flags, data } in events.iter().copied() {
            let cpu = u32::try_from(data.u64()).ok().filter(|_| flags.contains(epoll::EventFlags::HUP));
            if let Some(ring) = cpu.and_then(|cpu| self.attachment.rings.get(&cpu)) {
                // Fails if it is not in the wait set.
                let _ = epoll::delete(&self.epoll, ring.owner.as_fd());
            }
        }
    }

    pub(super) fn drain(&mut self, batch: &mut Batch) {
        let before = std::mem::replace(&mut self.round_start, monotonic_ns());
        let had = batch.bytes.len();
        self.attachment.excuse_programs();
        let (rings, mut pipeline) = self.attachment.pipeline(before);
        for (cpu, ring) in rings {
            pipeline.drain(*cpu, ring.drained(), &mut self.read, batch);
        }
        self.attachment.walks.iter_mut().for_each(|walks| walks.pairs.wake());
        self.drained = batch.bytes.len() - had;
        self.attachment.tend_switches();
        self.add_waits(before, batch);
        // Only now: housekeeping opens events whose samples are in this round.
        batch.events.append(&mut self.pending.events);
        batch.events.extend(self.attachment.fresh_ids.drain(..).map(SourceEvent::Id));
        if let Some(settling) = &mut self.settling {
            settling.read(&batch.bytes[had..]);
        }
        if self.attachment.walks.as_mut().is_some_and(|walks| walks.pairs.has_asked()) {
            self.next_tick = self.next_tick.min(self.round_start + ASKED_TICK_NS);
        }
        batch.complete_until = Some(before);
    }

    /// Sets the interval of reading counts so that an output interval ends with a reading.
    pub(crate) fn count_for(&mut self, interval: Duration) {
        let interval = (interval.as_nanos() as u64).max(MIN_COUNT_NS);
        self.count_ns = (interval / interval.div_ceil(COUNT_NS)).max(MIN_COUNT_NS);
    }

    pub(super) fn is_counting(&self) -> bool {
        self.attachment.calls.is_some() || !self.attachment.hits.is_empty() || self.has_counts()
    }

    fn has_counts(&self) -> bool {
        self.attachment.slots.iter().any(Slot::is_counted)
    }

    /// Reads them, and schedules the next reading at a multiple of the interval.
    pub(super) fn read_counts(&mut self, batch: &mut Batch) {
        let late = monotonic_ns().saturating_sub(self.next_counts);
        self.next_counts += (late / self.count_ns + 1) * self.count_ns;
        if self.has_counts() {
            batch.events.push(SourceEvent::CpuCounts(self.attachment.cpu_counts()));
        }
        self.read_sums(batch);
    }
}

impl Attachment {
    /// Returns the rings, and the pipeline for records that were written after the previous round's start, `since`.
    pub(super) fn pipeline(&mut self, since: u64) -> (&mut BTreeMap<u32, CpuRing>, RecordPipeline<'_>) {
        let layout = layout(&self.attr(0));
        let Self { rings, walks, strings, outside, borrowed, switches, .. } = self;
        let pipeline = RecordPipeline {
            misattributed: Some(borrowed).filter(|samples| samples.is_used()),
            walks: walks.as_mut().map(|walks| &mut walks.pairs),
            strings: Some(&mut strings.joints).filter(|joints| joints.is_used()),
            outer: outside.as_mut(),
            switches: switches.as_mut().map(|feed| (&feed.recorder, &mut feed.batches)),
            layout,
            since,
            now: since,
        };
        (rings, pipeline)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::event::{CallGraph, Event, Rate};
    use crate::kernel::attr::{Attr, read_format};
    use crate::kernel::fake::FakeSys;
    use crate::kernel::limits::Rights;
    use crate::kernel::sys::Errno;
    use crate::record::in_place::u64_at;
    use crate::record::kinds::{HEADER, WholeRecords, types};
    use crate::source::live::LiveConfig;
    use crate::source::{Control, Progress, Source};

    fn source() -> LiveSource {
        source_on(FakeSys::new(|_, _, _| Ok(())))
    }

    fn source_on(sys: FakeSys) -> LiveSource {
        source_of(vec![Event::cpu_clock()], sys)
    }

    pub(in crate::source::live) fn source_of(events: Vec<Event>, sys: FakeSys) -> LiveSource {
        let config = LiveConfig {
            events,
            rate: Rate::Frequency(99),
            chains: CallGraph::None,
            force: true,
            ..LiveConfig::default()
        };
        LiveSource::start(config, Box::new(sys), Rights::read()).expect("started")
    }

    /// Ends the session. Returns the last batch.
    fn end(mut source: LiveSource) -> Batch {
        let mut batch = Batch::default();
        source.begin(&mut batch).expect("begun");
        source.drain(&mut batch);
        batch.clear();
        source.control(&Control::Stop).expect("stopped");
        assert!(matches!(source.next(&mut batch), Ok(Progress::End(_))));
        batch
    }

    /// No record follows the last loss, so that the kernel does not report it.
    #[test]
    fn losses_at_the_end_are_reported_by_the_counters() {
        let source = source_on(FakeSys::new(|_, _, _| Ok(())).losing(100));
        let cpus: Vec<u32> = source.attachment.rings.keys().copied().collect();
        let layout = layout(&source.attachment.attr(0));
        let batch = end(source);
        let lost = WholeRecords { rest: &batch.bytes }.filter(|(header, _)| header.kind == types::LOST);
        let lost: Vec<(u32, u64)> = lost
            .map(|(_, record)| {
                let id = layout.trailer(&record[HEADER..]).expect("a sample id");
                (id.cpu, u64_at(record, HEADER + 8).expect("a number"))
            })
            .collect();
        // The event, the owner of the ring, and the listener for the kernel's code.
        let expected: Vec<(u32, u64)> = cpus.iter().map(|cpu| (*cpu, 300)).collect();
        assert_eq!((lost, batch.index.len()), (expected, cpus.len()));
        let counts = batch.events.iter().find_map(|event| match event {
            SourceEvent::Counts(reading) => Some(reading.lost()),
            _ => None,
        });
        assert_eq!(counts, Some(100 * cpus.len() as u64), "of samples alone");
    }

    #[test]
    fn an_old_kernel_may_lose_more_than_it_reports() {
        let is_unknown = |knows: bool, fill: usize| {
            let old = move |attr: &Attr| !knows && attr.read_format & read_format::LOST != 0;
            let source = source_on(FakeSys::new(move |attr, _, _| if old(attr) { Err(Errno::INVAL) } else { Ok(()) }));
            let ring = &source.attachment.rings.values().next().expect("a ring").ring;
            ring.kernel_write(&vec![0; ring.capacity() - fill]);
            end(source).events.iter().any(|event| matches!(event, SourceEvent::UnknownLosses))
        };
        let found = [(true, 8), (false, 8), (false, 1 << 18)].map(|(knows, fill)| is_unknown(knows, fill));
        assert_eq!(found, [false, true, false]);
    }

    /// An event that is opened between the start of a round and its reading has samples in that round.
    #[test]
    fn a_round_has_the_ids_of_all_its_samples() {
        let mut source = source();
        let mut batch = Batch::default();
        source.begin(&mut batch).expect("begun");
        source.drain(&mut batch);
        batch.clear();
        source.begin(&mut batch).expect("begun");
        assert!(batch.events.is_empty(), "{:?}", batch.events);
        source.reopen(&[0]).expect("opened");
        source.drain(&mut batch);
        let ids = batch.events.iter().filter(|event| matches!(event, SourceEvent::Id(_))).count();
        let handed = batch.events.iter().filter(|event| matches!(event, SourceEvent::Handover(_))).count();
        assert_eq!((ids, handed), (source.attachment.rings.len(), 1), "{:?}", batch.events);
    }
}
