//! Sorting the records of many rings by time.
//!
//! Rings are read in rounds. A record of a round may be older than records of other rings in the same round, but never
//! older than the start of the previous round:
//!
//! ```text
//!   round      n-1          n           n+1
//!   started   |t0          |t1         |t2
//!   afterwards, all records before this time have arrived:
//!              -            t0          t1
//! ```
//!
//! So after each round, all records up to the previous round's start are released, sorted.

#[derive(Clone, Copy, Debug)]
struct QueuedRecord {
    time: u64,
    buffer: u32,
    at: u32,
}

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    left: usize,
    tag: u16,
}

/// Sorts records by time and releases them once no older ones can arrive. Equal timestamps keep arrival order.
#[derive(Debug, Default)]
pub(crate) struct Orderer {
    waiting: Vec<QueuedRecord>,
    buffers: std::collections::VecDeque<Buffer>,
    first_buffer: u32,
    ready: usize,
}

impl Orderer {
    /// Adds a buffer and the records in it, each as (time, offset). The tag is returned with each record.
    pub(crate) fn push(&mut self, tag: u16, buffer: Vec<u8>, records: impl Iterator<Item = (u64, usize)>) {
        let number = self.first_buffer.wrapping_add(self.buffers.len() as u32);
        let before = self.waiting.len();
        self.waiting.extend(records.map(|(time, at)| QueuedRecord { time, buffer: number, at: at as u32 }));
        self.buffers.push_back(Buffer { bytes: buffer, left: self.waiting.len() - before, tag });
    }

    /// Passes on every record up to `until`, in order of time, and passes used buffers to `recycle`.
    pub(crate) fn release(
        &mut self,
        until: u64,
        mut apply: impl FnMut(u16, u64, &[u8]),
        mut recycle: impl FnMut(Vec<u8>),
    ) {
        // Stable: runs of one ring are already sorted, so this mostly merges.
        self.waiting.sort_by_key(|w| w.time);
        self.ready = self.waiting.partition_point(|w| w.time <= until);
        for w in &self.waiting[..self.ready] {
            let slot = w.buffer.wrapping_sub(self.first_buffer) as usize;
            if let Some(buffer) = self.buffers.get_mut(slot) {
                buffer.left -= 1;
                apply(buffer.tag, w.time, &buffer.bytes[w.at as usize..]);
            }
        }
        self.waiting.drain(..self.ready);
        while self.buffers.front().is_some_and(|b| b.left == 0) {
            if let Some(buffer) = self.buffers.pop_front() {
                self.first_buffer = self.first_buffer.wrapping_add(1);
                recycle(buffer.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_younger_is_released_and_ties_keep_their_order() {
        let mut order = Orderer::default();
        order.push(0, vec![10, 11, 12], [(5, 0), (7, 1), (9, 2)].into_iter());
        order.push(1, vec![20, 21], [(5, 0), (8, 1)].into_iter());
        let mut out = Vec::new();
        let mut freed = 0;
        order.release(7, |_, t, b| out.push((t, b[0])), |_| freed += 1);
        assert_eq!(out, [(5, 10), (5, 20), (7, 11)]);
        assert_eq!((order.waiting.len(), freed), (2, 0));
        order.release(u64::MAX, |_, t, b| out.push((t, b[0])), |_| freed += 1);
        assert_eq!(out[3..], [(8, 21), (9, 12)]);
        assert_eq!(freed, 2);
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        /// Rounds like those of the live source: the output is sorted and complete.
        #[test]
        fn rounds_give_a_sorted_and_complete_stream(rings in proptest::collection::vec(proptest::collection::vec(0u64..1000, 0..40), 1..5), step in 20u64..300) {
            let mut order = Orderer::default();
            let mut out: Vec<u64> = Vec::new();
            let mut rings = rings;
            rings.iter_mut().for_each(|r| r.sort_unstable());
            let total: usize = rings.iter().map(Vec::len).sum();
            let (mut before, mut now) = (0, step);
            while now < 1000 + 2 * step {
                for ring in &mut rings {
                    let n = ring.partition_point(|t| *t <= now);
                    let part: Vec<u64> = ring.drain(..n).collect();
                    order.push(0, vec![0; part.len()], part.into_iter().enumerate().map(|(i, t)| (t, i)));
                }
                order.release(before, |_, t, _| out.push(t), |_| ());
                (before, now) = (now, now + step);
            }
            order.release(u64::MAX, |_, t, _| out.push(t), |_| ());
            prop_assert!(out.is_sorted());
            prop_assert_eq!(out.len(), total);
        }
    }
}
