//! Mappings of files that take turns at one address of a process, such as plugins: a walk knows all of them and takes the
//! one whose mark is in memory, even before the mmap record is read.

use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use super::built_table::Id;
use crate::kernel::walk::{Mapping, Mark, TURNS};

/// How long unmapped mappings are kept, and the maximum number of them per process.
const KEPT: Duration = Duration::from_secs(10);
const MOST: usize = 64;

/// The current and former mappings of a process that have a mark.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// The current ones first.
    all: Vec<Turn>,
    current: usize,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    file: Id,
    mapping: Mapping,
    /// When it was last found mapped.
    seen: Instant,
}

impl Turns {
    /// Returns the turns after the current mappings of a process, each with its file, were read.
    pub(super) fn update(&self, live: &[(Id, Mapping)], now: Instant) -> Self {
        let marked = live.iter().filter(|(_, mapping)| mapping.mark.is_some());
        let mut all: Vec<Turn> = marked.map(|&(file, mapping)| Turn { file, mapping, seen: now }).collect();
        let current = all.len();
        if !self.all.is_empty() {
            let known: FxHashSet<Mapping> = all.iter().map(|turn| turn.mapping).collect();
            let is_gone = |turn: &&Turn| !known.contains(&turn.mapping) && now.duration_since(turn.seen) < KEPT;
            let mut gone: Vec<Turn> = self.all.iter().filter(is_gone).copied().collect();
            gone.sort_by_key(|turn| std::cmp::Reverse(turn.seen));
            all.extend(gone.into_iter().take(MOST));
        }
        Self { all, current }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = Id> {
        self.all.iter().map(|turn| turn.file)
    }

    /// Returns the mappings for the walk of a process with these current mappings, sorted, with equal bounds or disjoint.
    /// The result depends on the files that take turns, not on the file that is mapped now.
    pub(super) fn arrange(&self, live: Vec<Mapping>) -> Vec<Mapping> {
        let gone = &self.all[self.current..];
        if gone.is_empty() {
            return live;
        }
        let bounds = |mapping: &Mapping| [mapping.start, mapping.end];
        let mut cuts: Vec<u64> = live.iter().chain(gone.iter().map(|turn| &turn.mapping)).flat_map(bounds).collect();
        cuts.sort_unstable();
        cuts.dedup();
        // Sorted from new to old: `shared` drops the oldest if too many share a place.
        let mut pieces: Vec<Mapping> = Vec::new();
        for mapping in live.iter().chain(gone.iter().map(|turn| &turn.mapping)) {
            let first = cuts.partition_point(|cut| *cut <= mapping.start);
            let ends = cuts[first..].iter().copied().take_while(|end| *end <= mapping.end);
            pieces.extend(ends.scan(mapping.start, |start, end| {
                let piece = Mapping { start: *start, end, ..*mapping };
                *start = end;
                Some(piece)
            }));
        }
        pieces.sort_by_key(|piece| piece.start);
        pieces.chunk_by(|a, b| a.start == b.start).flat_map(shared).collect()
    }
}

/// Returns one place's mappings, the last tried first: one without a mark precedes those whose mark must be in memory.
fn shared(place: &[Mapping]) -> Vec<Mapping> {
    let mut place = place[..place.len().min(TURNS)].to_vec();
    place.sort_unstable_by_key(|mapping| (mapping.mark, *mapping));
    place.dedup();
    if place.len() > 1 {
        let strict = |mark: Mark| Mark { is_strict: true, ..mark };
        place.iter_mut().for_each(|mapping| mapping.mark = mapping.mark.map(strict));
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, file: u64) -> Mapping {
        let mark = Mark { address: start, word: file, is_strict: false };
        Mapping { start, end, bias: 0, span: None, mark: Some(mark) }
    }

    /// Returns start, end, the files in the order in which they are tried, and whether all marks are strict.
    fn told(mappings: &[Mapping]) -> Vec<(u64, u64, Vec<u64>, bool)> {
        let places = mappings.chunk_by(|a, b| a.start == b.start);
        let word = |mapping: &Mapping| mapping.mark.map_or(0, |mark| mark.word);
        let told = places.map(|place| {
            assert!(place.iter().all(|one| one.end == place[0].end));
            let strict = place.iter().all(|one| one.mark.is_none_or(|mark| mark.is_strict));
            (place[0].start, place[0].end, place.iter().rev().map(word).collect(), strict)
        });
        told.collect()
    }

    #[test]
    fn files_that_take_turns_are_all_known() {
        let start = Instant::now();
        let (libc, red, blue) = (mapping(1, 9, 1), mapping(20, 30, 2), mapping(20, 40, 3));
        let turns = Turns::default().update(&[(1, libc), (2, red)], start);
        assert_eq!(turns.arrange(vec![libc, red]), [libc, red], "a single mapping need not be strict");
        let turns = turns.update(&[(1, libc), (3, blue)], start);
        let both = [(1, 9, vec![1], false), (20, 30, vec![3, 2], true), (30, 40, vec![3], true)];
        let arranged = turns.arrange(vec![libc, blue]);
        assert_eq!(told(&arranged), [both[0].clone(), both[1].clone(), (30, 40, vec![3], false)]);
        assert_eq!(turns.files().collect::<Vec<Id>>(), [1, 3, 2]);
        // Neither is mapped; then code without a file is.
        let turns = turns.update(&[(1, libc)], start);
        assert_eq!(turns.arrange(vec![libc]).len(), 4);
        let code = Mapping { mark: None, ..mapping(25, 26, 0) };
        let arranged = told(&turns.arrange(vec![libc, code]));
        assert!(arranged.contains(&(25, 26, vec![3, 2, 0], true)), "{arranged:?}");
        // Mappings that do not return are dropped.
        let turns = turns.update(&[(1, libc)], start + KEPT);
        assert_eq!(turns.arrange(vec![libc]), [libc]);
    }

    #[test]
    fn the_newest_of_too_many_are_tried() {
        let mut turns = Turns::default();
        let start = Instant::now();
        for file in 1..=100 {
            turns = turns.update(&[(file, mapping(20, 30, file.into()))], start + Duration::from_millis(file.into()));
        }
        assert_eq!(turns.all.len(), MOST + 1);
        let arranged = told(&turns.arrange(vec![mapping(20, 30, 100)]));
        assert_eq!(arranged, [(20, 30, (93..=100).rev().collect(), true)]);
    }
}
