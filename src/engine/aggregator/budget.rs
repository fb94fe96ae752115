//! The budget of the past: what is kept by time, by memory, and what dropping leaves behind.

use crate::engine::shares::MemoryLimit;
use crate::kernel::{mapped, monotonic_ns, own_memory};
use crate::profile::CHUNK;
use crate::query::answer::{Memory, MemoryShare};

use super::Aggregator;

/// The interval of looking at the program's memory.
const LOOK_NS: u64 = 100_000_000;
/// Of the samples, the part that goes at once: the past is forgotten step by step.
const STEP: usize = 8;

impl Aggregator {
    /// Gives up what is older than is to be kept, and the oldest samples when the program has more memory than it may
    /// have, with the stacks that only they had.
    pub(super) fn keep_budget(&mut self) {
        if self.ingest.core().session.log_is_ripe() {
            self.trim_log();
        }
        self.drop_old();
        let now = monotonic_ns();
        if now >= self.next_look && MemoryLimit(self.options.memory).is_bounded() {
            self.next_look = now + LOOK_NS;
            // Without /proc what is known has to do.
            let private = own_memory::private().unwrap_or_else(|| self.used());
            let before = std::mem::replace(&mut self.private, private);
            let passing = self.links.held.take_peak().saturating_sub(before.max(private));
            // It will come again, though not with every look.
            self.passing = passing.max(self.passing - self.passing / 64);
            self.keep_within(private + self.passing);
        }
    }

    /// Has samples and stacks leave room for whatever else is private; `private` is all of it.
    fn keep_within(&mut self, private: usize) {
        let whole = MemoryLimit(self.options.memory);
        if private <= whole.0 {
            return;
        }
        let others = private.saturating_sub(self.used());
        let room = whole.0.saturating_sub(others).max(whole.least_samples());
        if self.used() <= room {
            return;
        }
        // What is gone may have left stacks behind that nobody has any more: those go first. A sixteenth is freed
        // beyond what must be, so that this does not run at every look.
        if self.gone > 0 {
            self.compact();
        }
        while self.used() > room / 16 * 15 && self.drop_part() {
            self.compact();
        }
        self.trim_log();
        own_memory::give_back();
        self.note(format!(
            "the {} MiB that the program may have are reached: the oldest samples are dropped (--memory)",
            whole.0 >> 20
        ));
    }

    fn used(&self) -> usize {
        self.ingest.core().profile.memory() + self.ingest.core().session.log_memory()
    }

    /// The program's memory by shares.
    pub(super) fn memory(&self) -> Memory {
        let core = self.ingest.core();
        let (samples, stacks, names) = core.profile.parts();
        let own = [
            ("samples", samples),
            ("stacks", stacks),
            ("names", names),
            ("processes", core.session.log_memory()),
            ("copies of files", mapped::copied()),
        ];
        let own = own.into_iter().map(|(name, bytes)| MemoryShare { name, bytes });
        Memory {
            bound: Some(self.options.memory).filter(|memory| MemoryLimit(*memory).is_bounded()),
            private: own_memory::private().unwrap_or(0),
            parts: own.chain(self.links.held.parts()).collect(),
        }
    }

    /// Drops the oldest part of the samples; `false` when only the chunk is left that is being filled.
    fn drop_part(&mut self) -> bool {
        let part = (self.ingest.core().profile.len() / CHUNK).div_ceil(STEP).max(1);
        (0..part).take_while(|_| self.drop_oldest()).count() > 0
    }

    /// Drops chunks that are older, as a whole, than samples are kept.
    fn drop_old(&mut self) {
        let Some(keep) = self.options.keep else { return };
        let profile = &self.ingest.core().profile;
        let horizon = profile.span().map_or(0, |(_, newest)| newest.saturating_sub(keep));
        while self.ingest.core().profile.oldest_until().is_some_and(|newest| newest < horizon) {
            if !self.drop_oldest() {
                break;
            }
        }
        if self.gone > self.ingest.core().profile.len() {
            self.compact();
            self.trim_log();
        }
    }

    /// Drops the oldest chunk; `false` when only the one that is being filled is left.
    fn drop_oldest(&mut self) -> bool {
        self.count_events();
        let Some(chunk) = self.ingest.core_mut().profile.evict() else { return false };
        for (event, weight) in chunk.event.iter().zip(&chunk.weight) {
            self.events.take(*event, *weight);
        }
        let mut view = std::mem::take(&mut self.view);
        view.forget(self.data(), &chunk);
        self.view = view;
        self.gone += chunk.len();
        true
    }

    fn compact(&mut self) {
        // What is derived from the old numbers is void, and would stand beside the new.
        self.view.release();
        let core = self.ingest.core_mut();
        core.profile.compact(&mut core.session);
        self.gone = 0;
    }

    fn trim_log(&mut self) {
        let core = self.ingest.core_mut();
        core.session.trim_log(core.profile.sites.all().iter().map(|site| site.task));
    }
}

#[cfg(test)]
mod tests;
