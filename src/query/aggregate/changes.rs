//! Changes of an aggregate since the last update. They are applied to rows, call trees and flame graphs.

use rustc_hash::FxHashMap;

use crate::profile::{Acc, FormerNames, Frames};

use crate::query::column::field_rows::Lane;

/// The limit of changes followed one by one. Beyond it everything is counted from scratch.
const MAX: usize = 1 << 18;

/// The aggregate that changed: that of the shown event, or of its partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateRole {
    Shown,
    Partner,
}

/// Weight that a site gained or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteChange {
    /// 0 unless the aggregate separates samples of one site.
    pub(crate) lane: Lane,
    pub(crate) site: u32,
    pub(crate) acc: Acc,
    /// Whether it was removed.
    pub(crate) out: bool,
    /// Whether it was counted under the former names of its frames.
    pub(crate) before: bool,
}

impl SiteChange {
    pub(crate) fn apply_to(&self, sum: &mut Acc) {
        match self.out {
            true => *sum -= self.acc,
            false => *sum += self.acc,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Changes {
    /// Whether everything may have changed.
    pub(crate) full_rebuild: bool,
    list: Vec<SiteChange>,
    before: FxHashMap<u32, FormerNames>,
    /// Whether it contains an update. Names between two updates are unknown.
    updated: bool,
}

impl Default for Changes {
    fn default() -> Self {
        Self { full_rebuild: true, list: Vec::new(), before: FxHashMap::default(), updated: false }
    }
}

impl Changes {
    pub(crate) fn none() -> Self {
        Self { full_rebuild: false, ..Self::default() }
    }

    /// Begins an update. After a second one the former names are ambiguous.
    pub(crate) fn begin(&mut self) {
        if std::mem::replace(&mut self.updated, true) {
            self.all();
        }
    }

    pub(crate) fn rename(&mut self, before: FxHashMap<u32, FormerNames>) {
        self.before = before;
    }

    pub(crate) fn note(&mut self, change: SiteChange) {
        if self.full_rebuild {
            return;
        }
        if self.list.len() == MAX {
            return self.all();
        }
        self.list.push(change);
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.full_rebuild && self.list.is_empty()
    }

    /// Stops following: everything may have changed.
    pub(crate) fn all(&mut self) {
        *self = Self { updated: self.updated, ..Self::default() };
    }

    /// Returns the changes in order of time.
    pub(crate) fn list(&self) -> &[SiteChange] {
        &self.list
    }

    /// Returns whether the frames of a change may have had other names.
    pub(crate) fn is_former(&self, change: &SiteChange) -> bool {
        change.before && !self.before.is_empty()
    }

    /// Returns the changes, merged by kind and site. Additions precede removals, so that sums do not become negative.
    pub(crate) fn changes(&self) -> Vec<SiteChange> {
        let mut sums: FxHashMap<(Lane, u32, bool, bool), Acc> = FxHashMap::default();
        for change in &self.list {
            *sums.entry((change.lane, change.site, change.out, change.before)).or_default() += change.acc;
        }
        let one = |((lane, site, out, before), acc)| SiteChange { lane, site, acc, out, before };
        let mut changes: Vec<SiteChange> = sums.into_iter().map(one).collect();
        changes.sort_unstable_by_key(|change| (change.out, change.site, change.lane, change.before));
        changes
    }

    /// Returns the symbol of a frame at the time of a change.
    pub(crate) fn sym(&self, frames: &Frames, frame: u32, change: &SiteChange) -> u32 {
        self.had(frame, change).map_or_else(|| frames.syms()[frame as usize], |had| had.sym)
    }

    /// Returns the functions inlined in a frame when a change was counted. The outermost is first.
    pub(crate) fn inlined<'a>(&'a self, frames: &'a Frames, frame: u32, change: &SiteChange) -> &'a [u32] {
        let had = self.had(frame, change).and_then(|had| had.inlined.as_deref());
        had.map_or_else(|| frames.inlined(frame), |list| frames.shown_inlined(list))
    }

    fn had(&self, frame: u32, change: &SiteChange) -> Option<&FormerNames> {
        if self.is_former(change) { self.before.get(&frame) } else { None }
    }
}
