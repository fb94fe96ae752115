//! Changes of a fold since it was last looked at: what rows, call trees and flame graphs are kept up to date by.

use rustc_hash::FxHashMap;

use crate::profile::{Acc, FormerNames, Frames};

use super::field_rows::Lane;

/// Changes that are worth following one by one; with more of them all is counted anew.
const MAX: usize = 1 << 18;

/// The fold that a change is of: the one of the event that is shown, or of its partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoldOf {
    Shown,
    Partner,
}

/// Weight that a site got or lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// 0 unless the fold tells samples of one site apart.
    pub(crate) lane: Lane,
    pub(crate) site: u32,
    pub(crate) acc: Acc,
    /// Whether it was taken out.
    pub(crate) out: bool,
    /// Whether it was counted under the names that its frames had before.
    pub(crate) before: bool,
}

/// All changes since the last time.
#[derive(Debug)]
pub(crate) struct Changes {
    /// Whether everything may be another.
    pub(crate) anew: bool,
    list: Vec<Change>,
    /// What frames had before, of those that have other names now.
    before: FxHashMap<u32, FormerNames>,
    /// Whether an update is in it: nobody knows the names between two of them.
    updated: bool,
}

impl Default for Changes {
    /// Nothing was looked at yet.
    fn default() -> Self {
        Self { anew: true, list: Vec::new(), before: FxHashMap::default(), updated: false }
    }
}

impl Changes {
    pub(super) fn none() -> Self {
        Self { anew: false, ..Self::default() }
    }

    /// Begins an update, after which frames have other names than these.
    pub(super) fn begin(&mut self) {
        if std::mem::replace(&mut self.updated, true) {
            self.all();
        }
    }

    pub(super) fn rename(&mut self, before: FxHashMap<u32, FormerNames>) {
        self.before = before;
    }

    pub(super) fn note(&mut self, change: Change) {
        if self.anew {
            return;
        }
        if self.list.len() == MAX {
            return self.all();
        }
        self.list.push(change);
    }

    /// True if nothing changed.
    pub(crate) fn is_empty(&self) -> bool {
        !self.anew && self.list.is_empty()
    }

    /// Gives up following.
    pub(super) fn all(&mut self) {
        *self = Self { updated: self.updated, ..Self::default() };
    }

    /// The changes, those of the same kind and site as one; what came before what went, so that no sum falls below
    /// zero.
    pub(crate) fn changes(&self) -> Vec<Change> {
        let mut sums: FxHashMap<(Lane, u32, bool, bool), Acc> = FxHashMap::default();
        for change in &self.list {
            *sums.entry((change.lane, change.site, change.out, change.before)).or_default() += change.acc;
        }
        let one = |((lane, site, out, before), acc)| Change { lane, site, acc, out, before };
        let mut changes: Vec<Change> = sums.into_iter().map(one).collect();
        changes.sort_unstable_by_key(|change| change.out);
        changes
    }

    /// The symbol of a frame as a change was counted.
    pub(crate) fn sym(&self, frames: &Frames, frame: u32, change: &Change) -> u32 {
        self.had(frame, change).map_or_else(|| frames.syms()[frame as usize], |had| had.sym)
    }

    /// The functions that were inlined in a frame as a change was counted, outermost first.
    pub(crate) fn inlined<'a>(&'a self, frames: &'a Frames, frame: u32, change: &Change) -> &'a [u32] {
        let had = self.had(frame, change).and_then(|had| had.inlined.as_deref());
        had.map_or_else(|| frames.inlined(frame), |list| frames.shown_inlined(list))
    }

    fn had(&self, frame: u32, change: &Change) -> Option<&FormerNames> {
        if change.before && !self.before.is_empty() { self.before.get(&frame) } else { None }
    }
}
