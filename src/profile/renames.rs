//! The journal of names: frames whose symbol or inlined functions changed, and the first moment at which each can be in
//! a stack. Views that depend on names update only what is newer than that.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use rustc_hash::FxHashMap;

use super::{NodeId, Profile, SiteId};

/// The maximum number of renames that are kept; views that are further behind rebuild everything.
const MAX_RENAMES: usize = 1 << 17;
const MAX_BIRTHS: usize = 1 << 12;

/// The names of a frame before a rename.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FormerNames {
    pub(crate) sym: u32,
    pub(crate) inlined: Option<Box<[u32]>>,
}

/// The number of frames that a view may have counted.
#[derive(Debug, Default)]
struct ViewedFrames(AtomicU32);

impl Clone for ViewedFrames {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.0.load(Ordering::Relaxed)))
    }
}

/// Renamed frames with their former names, and the number of older entries that were dropped. Frames that got their name
/// before any view read them are not in it: most frames have one within milliseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    list: Vec<(u32, FormerNames)>,
    forgotten: u64,
    viewed: ViewedFrames,
}

impl Journal {
    /// Returns the number of entries so far, for a view that reads the names of the first `frames` frames now.
    pub(super) fn view(&self, frames: u32) -> u64 {
        self.viewed.0.fetch_max(frames, Ordering::Relaxed);
        self.end()
    }

    pub(super) fn note(&mut self, frame: u32, sym: u32, inlined: Option<Box<[u32]>>) {
        if frame >= *self.viewed.0.get_mut() {
            return;
        }
        if self.list.len() == MAX_RENAMES {
            self.list.drain(..MAX_RENAMES / 2);
            self.forgotten += MAX_RENAMES as u64 / 2;
        }
        self.list.push((frame, FormerNames { sym, inlined }));
    }

    /// Continues after another journal, whose entries are dropped, with this number of viewed frames.
    pub(super) fn after(other: &Self, frames: u32) -> Self {
        let viewed = ViewedFrames(AtomicU32::new(frames));
        Self { list: Vec::new(), forgotten: other.end() + 1, viewed }
    }

    pub(super) fn end(&self) -> u64 {
        self.forgotten + self.list.len() as u64
    }

    fn since(&self, names: u64) -> Option<&[(u32, FormerNames)]> {
        self.list.get(usize::try_from(names.checked_sub(self.forgotten)?).ok()?..)
    }
}

/// The numbers of nodes, sites and samples when a frame was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstSeen {
    frame: u32,
    pub(crate) node: u32,
    pub(crate) site: u32,
    /// An absolute position.
    pub(crate) sample: u64,
}

/// First occurrences of frames, in order. The log is sparse, so an entry may be too early.
#[derive(Debug, Default)]
pub(crate) struct FirstSeenLog(Vec<FirstSeen>);

impl FirstSeenLog {
    fn note(&mut self, birth: FirstSeen) {
        if self.0.last().is_some_and(|last| last.frame == birth.frame) {
            return;
        }
        if self.0.len() == MAX_BIRTHS {
            self.0 = self.0.iter().copied().step_by(2).collect();
        }
        self.0.push(birth);
    }

    fn of(&self, frame: u32) -> FirstSeen {
        let after = self.0.partition_point(|birth| birth.frame <= frame);
        after.checked_sub(1).map(|at| self.0[at]).unwrap_or_default()
    }

    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// The frames renamed since a moment.
#[derive(Debug, Default)]
pub(crate) struct RenamedFrames {
    pub(crate) before: FxHashMap<u32, FormerNames>,
    /// No stack, site or sample before these contains one of them.
    pub(crate) born: FirstSeen,
    /// The entries of the journal that name them.
    names: Range<u64>,
}

/// The sites that were found for renamed frames last: several views of one answer follow the same names.
#[derive(Debug, Default)]
pub(super) struct RenamedSites {
    /// The profile's epoch, the entries of the journal, and the numbers of stacks and sites.
    of: (u64, Range<u64>, usize, usize),
    /// In ascending order.
    sites: Vec<u32>,
}

impl RenamedFrames {
    pub(crate) fn is_empty(&self) -> bool {
        self.before.is_empty()
    }

    /// Returns the sites below `known` whose stacks contain such a frame.
    pub(crate) fn sites(&self, profile: &Profile, known: usize) -> Vec<u32> {
        if self.is_empty() {
            return Vec::new();
        }
        let of = (profile.epoch, self.names.clone(), profile.trie.len(), profile.sites.len());
        let mut last = profile.renamed_sites.lock();
        if last.of != of {
            *last = RenamedSites { of, sites: self.all_sites(profile) };
        }
        let count = last.sites.partition_point(|site| (*site as usize) < known);
        last.sites[..count].to_vec()
    }

    fn all_sites(&self, profile: &Profile) -> Vec<u32> {
        // One bit per frame: looking up each stack's frame in the map takes several times as long.
        let mut frames = vec![0_u64; profile.frames.len().div_ceil(64)];
        self.before.keys().for_each(|frame| frames[*frame as usize / 64] |= 1 << (frame % 64));
        let is_renamed = |frame: u32| frames.get(frame as usize / 64).is_some_and(|word| word >> (frame % 64) & 1 != 0);
        let first = self.born.node.max(1);
        let mut nodes: Vec<bool> = Vec::with_capacity(profile.trie.len().saturating_sub(first as usize));
        for n in first..profile.trie.len() as u32 {
            let above = profile.trie.parent(NodeId(n)).0.checked_sub(first);
            let has = above.is_some_and(|parent| nodes[parent as usize]) || is_renamed(profile.trie.frame(NodeId(n)).0);
            nodes.push(has);
        }
        let has = |stack: u32| stack.checked_sub(first).is_some_and(|at| nodes[at as usize]);
        (self.born.site..profile.sites.len() as u32)
            .filter(|site| has(profile.sites.get(SiteId(*site)).stack.0))
            .collect()
    }
}

impl Profile {
    /// Records the current counts for frames that are added from now on.
    pub(super) fn note_birth(&mut self) {
        self.births.note(FirstSeen {
            frame: self.frames.len() as u32,
            node: self.trie.len() as u32,
            site: self.sites.len() as u32,
            sample: self.end(),
        });
    }

    /// Returns the frames renamed since the journal had `names` entries ([`Frames::names`](super::Frames::names)).
    /// `None` if the entries were dropped, or ids have changed.
    pub(crate) fn renamed_since(&self, names: u64) -> Option<RenamedFrames> {
        let list = self.frames.journal().since(names)?;
        let mut before: FxHashMap<u32, FormerNames> = FxHashMap::default();
        for (frame, had) in list {
            let first = before.entry(*frame).or_insert_with(|| FormerNames { sym: had.sym, inlined: None });
            first.inlined = first.inlined.take().or_else(|| had.inlined.clone());
        }
        before.retain(|frame, had| had.inlined.is_some() || self.frames.syms()[*frame as usize] != had.sym);
        let born = before.keys().min().map(|frame| self.births.of(*frame)).unwrap_or_default();
        let names = names..self.frames.journal().end();
        Some(RenamedFrames { before, born, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_too_far_behind_is_told_so() {
        let mut journal = Journal::default();
        journal.view(u32::MAX);
        (0..MAX_RENAMES as u32 + 1).for_each(|frame| journal.note(frame, 7, None));
        let had = FormerNames { sym: 7, inlined: None };
        assert_eq!((journal.end(), journal.since(0)), (MAX_RENAMES as u64 + 1, None));
        let half = MAX_RENAMES as u64 / 2;
        assert_eq!(
            journal.since(half).map(|list| (list.len(), list[0].clone())),
            Some((half as usize + 1, (half as u32, had)))
        );
        assert_eq!(journal.since(journal.end()), Some(&[][..]));
        let next = Journal::after(&journal, 7);
        assert_eq!((next.since(journal.end()), next.since(next.end())), (None, Some(&[][..])));
    }

    #[test]
    fn a_frame_that_no_view_has_read_is_not_in_the_journal() {
        let mut journal = Journal::default();
        journal.note(0, 7, None);
        assert_eq!(journal.view(2), 0);
        (0..3).for_each(|frame| journal.note(frame, 7, None));
        let frames = |list: &[(u32, FormerNames)]| list.iter().map(|(frame, _)| *frame).collect::<Vec<_>>();
        assert_eq!((journal.since(0).map(frames), journal.clone().view(1)), (Some(vec![0, 1]), 2));
        journal.note(2, 7, None);
        let mut next = Journal::after(&journal, 1);
        (0..3).for_each(|frame| next.note(frame, 7, None));
        assert_eq!((journal.end(), next.since(3).map(frames)), (2, Some(vec![0])));
    }

    #[test]
    fn a_birth_is_at_worst_too_early() {
        let mut births = FirstSeenLog::default();
        let birth = |frame| FirstSeen { frame, node: 10 * frame, site: 3 * frame, sample: u64::from(frame) };
        (1..=2 * MAX_BIRTHS as u32).for_each(|frame| births.note(birth(frame)));
        assert!(births.0.len() <= MAX_BIRTHS);
        for frame in [0, 1, 2, 77, 5000, 2 * MAX_BIRTHS as u32, u32::MAX] {
            let of = births.of(frame);
            assert!(of.frame <= frame && of.node == 10 * of.frame, "{frame}: {of:?}");
            assert!(frame.min(2 * MAX_BIRTHS as u32) - of.frame <= 4, "{frame}: {of:?}");
        }
    }
}
