//! The way of a ring's records into a batch, in one pass: corrections in place, then the records that are joined,
//! completed or dropped, in this order, and the index of what is left.

use crate::kernel::monotonic_ns;
use crate::kernel::ring::Ring;
use crate::kernel::switch_batches::SwitchRecorder;
use crate::record::kinds::{HEADER, Header, types};
use crate::record::{Layout, SampleId};
use crate::source::Batch;

use super::listener;
use super::losses::RingLosses;
use super::misattributed::MisattributedSamples;
use super::outer_namespace::OuterNamespaceTasks;
use super::output::{RecordOutput, time_of};
use super::stack_walks::WalkJoiner;
use super::strings::StringJoiner;
use super::switch_batches::BatchedEvents;

/// A CPU's ring, the id of the event that owns it, and its losses.
pub(crate) struct DrainedRing<'a> {
    pub(crate) owner: u64,
    pub(crate) ring: &'a mut Ring,
    pub(crate) losses: &'a mut RingLosses,
}

/// The rewriters of records, in their order.
#[derive(Default)]
pub(crate) struct RecordPipeline<'a> {
    pub(crate) misattributed: Option<&'a mut MisattributedSamples>,
    pub(crate) walks: Option<&'a mut WalkJoiner>,
    pub(crate) strings: Option<&'a mut StringJoiner>,
    pub(crate) outer: Option<&'a mut OuterNamespaceTasks>,
    pub(crate) switches: Option<(&'a SwitchRecorder, &'a mut BatchedEvents)>,
    pub(crate) layout: Layout,
    /// The times between which a ring's records were written.
    pub(crate) since: u64,
    pub(crate) now: u64,
}

impl RecordPipeline<'_> {
    /// Reads a ring into a batch; `read` is a buffer.
    pub(crate) fn drain(&mut self, cpu: u32, from: DrainedRing<'_>, read: &mut Vec<u8>, batch: &mut Batch) {
        let DrainedRing { owner, ring, losses } = from;
        // Events that are in no batch yet are newer than all batches in the ring.
        let partial = self.switches.as_ref().map(|(recorder, _)| recorder.partial(cpu));
        read.clear();
        ring.drain(read);
        self.now = monotonic_ns();
        self.pass(cpu, (owner, &mut *losses), read, batch);
        if let (Some(partial), Some((_, batches))) = (partial, &mut self.switches) {
            batches.add_partial(cpu, &partial, &self.layout, batch);
        }
        losses.drained(read.len(), ring.room(), ring.capacity());
    }

    /// Passes records that were read from a CPU's ring. Records without a sample id get the id of the ring's owner.
    pub(super) fn pass(
        &mut self,
        cpu: u32,
        (owner, losses): (u64, &mut RingLosses),
        read: &mut [u8],
        batch: &mut Batch,
    ) {
        let Self { misattributed, walks, strings, outer, switches, layout, since, now } = self;
        // The task of such a record is unknown, and its time is only known to be after the previous round.
        let mut id = SampleId { pid: -1, tid: -1, time: *since, id: owner, cpu };
        let mut walked = walks.as_mut().map(|walks| walks.begin(cpu, *layout, id));
        let mut strings = strings.as_mut().map(|strings| strings.of_ring(cpu));
        // Without these, records stay together, and are copied at once.
        let is_plain = walked.is_none() && strings.is_none() && outer.is_none();
        let mut latest = misattributed.as_ref().map_or(0, |samples| samples.latest(cpu));
        let (mut at, mut copied) = (0, 0);
        while let Some(header) = Header::read(&read[at..]) {
            let end = at + usize::from(header.size).max(HEADER);
            let Some(record) = read.get_mut(at..end) else { break };
            let is_sample = header.kind == types::SAMPLE;
            if header.kind == types::LOST {
                losses.take(record);
            }
            if let Some((_, batches)) = switches.as_mut().filter(|(_, batches)| batches.is_batch(header, record)) {
                batch.bytes.extend_from_slice(&read[copied..at]);
                batches.expand(cpu, &read[at..end], layout, batch);
                (at, copied) = (end, end);
                continue;
            }
            if let Some(samples) = misattributed.as_mut().filter(|_| is_sample) {
                let is_written = |id| {
                    walks.as_ref().is_some_and(|walks| walks.is_writer(id))
                        || strings.as_ref().is_some_and(|strings| strings.is_writer(id))
                };
                samples.correct(&mut latest, *now, header, record, is_written);
            }
            let written = if is_sample { None } else { listener::written(header.kind, record) };
            let mut out = RecordOutput { batch, strings: strings.as_mut(), outer: outer.as_deref_mut(), layout };
            if written.is_none() && is_plain {
                let time = time_of(header, &read[at..end], layout);
                id.time = time.filter(|time| (id.time..=*now).contains(time)).unwrap_or(id.time);
                let place = out.batch.bytes.len() + at - copied;
                out.batch.index.push((time.unwrap_or(0), place));
                at = end;
                continue;
            }
            out.batch.bytes.extend_from_slice(&read[copied..at]);
            copied = end;
            let is_taken = match (walks.as_mut(), walked.as_mut()) {
                (Some(walks), Some(walked)) => walks.take(walked, read, at, header, &mut out),
                _ => false,
            };
            let record = &read[at..end];
            at = end;
            let whole = written.and_then(|own| listener::completed(record, own, layout, &id));
            match whole {
                Some(whole) => out.push(&whole),
                None => {
                    // A record that was not written for us may have any value there.
                    let time = time_of(header, record, layout);
                    id.time = time.filter(|time| (id.time..=*now).contains(time)).unwrap_or(id.time);
                    if !is_taken {
                        out.push(record);
                    }
                }
            }
        }
        let mut out = RecordOutput { batch, strings: strings.as_mut(), outer: outer.as_deref_mut(), layout };
        if let (Some(walks), Some(walked)) = (walks.as_mut(), walked) {
            walks.end(cpu, walked, read, &mut out);
        }
        out.batch.bytes.extend_from_slice(&read[copied..]);
        if let Some(samples) = misattributed {
            samples.set_latest(cpu, latest);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    impl RecordPipeline<'_> {
        /// Returns what a CPU's records become. The index must have exactly the records that are left.
        pub(crate) fn passed(&mut self, cpu: u32, bytes: &[u8]) -> Vec<u8> {
            let mut batch = Batch { bytes: b"before".to_vec(), ..Batch::default() };
            self.pass(cpu, (OWNER, &mut RingLosses::default()), &mut bytes.to_vec(), &mut batch);
            let mut at = 6;
            for (time, place) in batch.index {
                let header = Header::read(&batch.bytes[at..]).expect("a record");
                let end = at + usize::from(header.size).max(HEADER);
                assert_eq!((place, time_of(header, &batch.bytes[at..end], &self.layout).unwrap_or(0)), (at, time));
                at = end;
            }
            assert_eq!(&batch.bytes[..6], b"before");
            batch.bytes.split_off(6)
        }
    }

    pub(crate) const OWNER: u64 = 77;
}
