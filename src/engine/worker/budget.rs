//! How much of the past is kept: by time, by memory, and what dropping leaves behind.

use std::collections::HashSet;

use crate::profile::Site;

use super::Worker;

impl Worker {
    /// Gives up what is older than is to be kept, and the oldest samples when the budget is reached, with the
    /// stacks that only they had.
    pub(super) fn keep_budget(&mut self) {
        if self.ingest.core().session.log_is_ripe() {
            self.trim_log();
        }
        self.drop_old();
        let budget = self.options.memory;
        if self.used() <= budget {
            return;
        }
        // What is gone may have left stacks behind that nobody has any more: those go first.
        if self.gone > 0 {
            self.compact();
        }
        // A tenth is freed at once, so that this does not run for every chunk.
        let enough = budget / 10 * 9;
        while self.used() > enough && self.drop_oldest() {
            if self.gone >= self.ingest.core().profile.len() {
                self.compact();
            }
        }
        self.trim_log();
        self.note(format!(
            "the memory budget of {} MiB is reached: the oldest samples are dropped (--memory)",
            budget >> 20
        ));
    }

    fn used(&self) -> usize {
        self.ingest.core().profile.memory() + self.ingest.core().session.log_memory()
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
        let core = self.ingest.core_mut();
        core.profile.compact(&mut core.session);
        self.gone = 0;
    }

    fn trim_log(&mut self) {
        let core = self.ingest.core_mut();
        let tasks = core.session.tasks();
        let process = |site: &Site| (tasks[site.task.0 as usize].host, tasks[site.task.0 as usize].pid);
        let kept: HashSet<(u16, i32)> = core.profile.sites.all().iter().map(process).collect();
        core.session.trim_log(&|host, pid| kept.contains(&(host, pid)));
    }
}

#[cfg(test)]
mod tests;
