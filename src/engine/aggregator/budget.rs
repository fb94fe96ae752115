//! The budget of old data: limits by time and by memory, and the cleanup after samples are dropped.

use std::sync::Weak;

use crate::engine::shares::MemoryLimit;
use crate::kernel::{mapped, monotonic_ns, own_memory};
use crate::profile::CHUNK;
use crate::query::answer::{Memory, MemoryShare};

use super::Aggregator;

/// The interval of checking the program's memory.
const LOOK_NS: u64 = 100_000_000;
/// The fraction of the samples' budget that is freed at once, and the one that suffices. Afterwards stacks have other
/// numbers and all views are rebuilt, which takes about as long as for all kept samples: so it must be seldom.
const SPARE: usize = 4;
const ENOUGH: usize = 8;
/// The fraction of the memory limit that saving may use in addition: it takes only seconds, so no samples are dropped.
const SAVING: usize = 8;

/// The state of the memory budget between checks.
#[derive(Default)]
pub(super) struct Budget {
    /// Samples dropped since the last compaction.
    gone: usize,
    /// The snapshot being saved, which shares the profile's data.
    pub(super) saved: Weak<()>,
    next_look: u64,
    /// The private memory at the last check.
    private: usize,
    /// The memory that a long answer needs for a moment in addition, and frees before the next check.
    transient: usize,
}

impl Budget {
    /// Returns the private memory to expect during the next long answer.
    fn expected_peak(&self) -> usize {
        self.private + self.transient
    }
}

impl Aggregator {
    /// Drops samples older than the limit. If the program exceeds its memory limit, frees the cheapest data first:
    /// freed memory of the allocator, then stacks and tasks without samples, then the oldest samples.
    pub(super) fn keep_budget(&mut self) {
        self.drop_old();
        self.ingest.core_mut().forget_ended();
        let now = monotonic_ns();
        if now >= self.budget.next_look && MemoryLimit(self.options.memory).is_bounded() {
            self.budget.next_look = now + LOOK_NS;
            // Without /proc, the known sizes must suffice.
            let private = own_memory::private().unwrap_or_else(|| self.used());
            let before = std::mem::replace(&mut self.budget.private, private);
            let transient = self.links.shared.held.take_peak().saturating_sub(before.max(private));
            // The peak will recur, but not between any two checks.
            self.budget.transient = transient.max(self.budget.transient - self.budget.transient / 64);
            if !self.limit().holds(self.budget.expected_peak()) {
                own_memory::give_back();
                self.budget.private = own_memory::private().unwrap_or(private);
                self.keep_within(self.budget.expected_peak());
            }
        }
    }

    /// Shrinks samples and stacks until the peak of all private memory, now `peak` bytes, is within the limit.
    fn keep_within(&mut self, peak: usize) {
        let whole = MemoryLimit(self.options.memory);
        if whole.holds(peak) {
            return;
        }
        let others = peak.saturating_sub(self.used());
        let room = whole.0.saturating_sub(others).max(whole.least_samples());
        if self.used() <= room {
            return;
        }
        // Dropped samples may have left unused stacks and tasks, which are freed first if there are many.
        if self.budget.gone > self.ingest.core().profile.len() / ENOUGH {
            self.compact();
        }
        let mut dropped = false;
        while self.used() > room - room / ENOUGH && self.drop_part(room - room / SPARE) {
            dropped = true;
            self.compact();
        }
        own_memory::give_back();
        if dropped {
            self.tell_dropped();
        }
    }

    /// Reports once that older samples than intended were dropped, and why.
    fn tell_dropped(&mut self) {
        let reached = self.options.memory >> 20;
        let early = if self.options.keep.is_some() { ", earlier than --keep" } else { "" };
        let told = format!("the limit of {reached} MiB (--memory) is reached: the oldest samples are dropped{early}");
        if self.live && !self.notes.contains(&told) {
            self.reply(Ok(told.clone()));
        }
        self.note(told);
    }

    fn used(&self) -> usize {
        self.ingest.core().profile.memory() + self.ingest.core().session.memory()
    }

    pub(super) fn memory(&self) -> Memory {
        let core = self.ingest.core();
        let (samples, stacks, names) = core.profile.parts();
        let own = [
            ("samples", samples),
            ("stacks", stacks),
            ("names", names),
            ("processes", core.session.memory()),
            ("copies of files", mapped::copied()),
        ];
        let own = own.into_iter().map(|(name, bytes)| MemoryShare { name, bytes });
        Memory {
            bound: Some(self.options.memory).filter(|memory| MemoryLimit(*memory).is_bounded()),
            private: own_memory::private().unwrap_or(0),
            parts: own.chain(self.links.shared.held.parts()).collect(),
        }
    }

    /// Drops as many of the oldest chunks as take the memory beyond `enough`, if all have the same size. Returns
    /// `false` if only the chunk being filled is left.
    fn drop_part(&mut self, enough: usize) -> bool {
        let (chunks, used) = (self.ingest.core().profile.len() / CHUNK, self.used());
        let part = (chunks * used.saturating_sub(enough)).div_ceil(used.max(1));
        (0..part.clamp(1, chunks.div_ceil(SPARE).max(1))).take_while(|_| self.drop_oldest()).count() > 0
    }

    fn drop_old(&mut self) {
        let Some(keep) = self.options.keep else { return };
        let profile = &self.ingest.core().profile;
        let horizon = profile.span().map_or(0, |(_, newest)| newest.saturating_sub(keep));
        while self.ingest.core().profile.oldest_until().is_some_and(|newest| newest < horizon) {
            if !self.drop_oldest() {
                break;
            }
        }
        // While a snapshot shares data with the profile, moving it would copy it.
        if self.budget.gone > self.ingest.core().profile.len() && !self.is_saving() {
            self.compact();
        }
    }

    fn limit(&self) -> MemoryLimit {
        let over = if self.is_saving() { self.options.memory / SAVING } else { 0 };
        MemoryLimit(self.options.memory.saturating_add(over))
    }

    fn is_saving(&self) -> bool {
        self.budget.saved.strong_count() > 0
    }

    /// Drops the oldest chunk; returns `false` if only the chunk being filled is left.
    fn drop_oldest(&mut self) -> bool {
        self.count_events();
        let Some(chunk) = self.ingest.core_mut().profile.evict() else { return false };
        for (event, weight) in chunk.event.iter().zip(&chunk.weight) {
            self.events.take(*event, *weight);
        }
        let mut cache = std::mem::take(&mut self.answers.cache);
        cache.forget(self.data(), &chunk);
        self.answers.cache = cache;
        self.budget.gone += chunk.len();
        true
    }

    fn compact(&mut self) {
        // Data derived from the old numbers is invalid, and would exist in addition to the new.
        self.answers.cache.release();
        let core = self.ingest.core_mut();
        core.forget_ended();
        core.profile.compact(&mut core.session);
        self.budget.gone = 0;
    }
}

#[cfg(test)]
mod tests;
