//! Open spans, which have started but not ended yet. This module pairs starts with their ends for all analyses.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// The maximum number of lanes, so that spans that never end do not fill the memory.
const MAX: usize = 1 << 20;

/// A change of the threads that spans belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadChange {
    /// A thread starts: spans of an earlier thread with its number are over.
    Born {
        /// Its process.
        pid: i32,
        /// Its number.
        tid: i32,
    },
    /// A thread exits, so its spans do not end.
    Ended {
        /// Its process.
        pid: i32,
        /// Its number.
        tid: i32,
    },
    /// A process executes another program.
    Exec {
        /// The process, which is also the number of its only remaining thread.
        pid: i32,
        /// The previous number of this thread, if it was not the first thread of its process.
        from: Option<i32>,
        /// The other threads: one may have called exec; the rest exited unnoticed.
        gone: Vec<i32>,
    },
}
/// The maximum nesting of open spans in a lane; real spans nest less.
pub(crate) const DEPTH: usize = 256;

#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSpan<W, B> {
    pub(crate) what: W,
    pub(crate) since: u64,
    pub(crate) with: B,
}

impl<W, B> OpenSpan<W, B> {
    /// Returns its duration up to a time, in nanoseconds.
    pub(crate) fn took(&self, until: u64) -> u64 {
        until.saturating_sub(self.since)
    }
}

/// The open spans of a lane: a CPU, a thread, an address.
#[derive(Clone, Debug)]
struct Lane<W, B> {
    newest: OpenSpan<W, B>,
    /// The spans that enclose it, the outermost first.
    around: Vec<OpenSpan<W, B>>,
}

#[derive(Clone, Debug)]
pub(crate) struct OpenSpans<L, W, B> {
    lanes: FxHashMap<L, Lane<W, B>>,
    nests: bool,
    most: usize,
}

impl<L: Eq + Hash, W: PartialEq, B> Default for OpenSpans<L, W, B> {
    fn default() -> Self {
        Self::one_by_one()
    }
}

impl<L: Eq + Hash, W: PartialEq, B> OpenSpans<L, W, B> {
    /// Returns lanes whose spans follow each other: the start of the next means that the end of the last was missed.
    pub(crate) fn one_by_one() -> Self {
        Self { lanes: FxHashMap::default(), nests: false, most: MAX }
    }

    /// Returns lanes whose spans nest: the end of a span also ends all spans inside it.
    pub(crate) fn nested() -> Self {
        Self { lanes: FxHashMap::default(), nests: true, most: MAX }
    }

    pub(crate) fn of_most(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Starts a span. Returns the number of earlier spans whose end will never be known.
    pub(crate) fn begin(&mut self, lane: L, what: W, since: u64, with: B) -> usize {
        if self.lanes.len() >= self.most && !self.lanes.contains_key(&lane) {
            self.lanes.clear();
        }
        let begin = OpenSpan { what, since, with };
        let Some(own) = self.lanes.get_mut(&lane) else {
            self.lanes.insert(lane, Lane { newest: begin, around: Vec::new() });
            return 0;
        };
        let outer = std::mem::replace(&mut own.newest, begin);
        own.around.push(outer);
        if self.nests && own.around.len() < DEPTH {
            return 0;
        }
        let missed = own.around.len();
        own.around.clear();
        missed
    }

    /// Ends a span. Returns it, and the number of spans inside it whose end was missed. In lanes without nesting, the
    /// end of another span means that the end of the open one was missed.
    pub(crate) fn end(&mut self, lane: &L, what: &W) -> Option<(OpenSpan<W, B>, usize)> {
        let mut missed = 0;
        if self.nests {
            let own = self.lanes.get(lane)?;
            let all = own.around.iter().chain([&own.newest]);
            missed = all.rev().position(|begin| begin.what == *what)?;
            (0..missed).for_each(|_| drop(self.take(lane)));
        }
        self.take(lane).filter(|begin| begin.what == *what).map(|begin| (begin, missed))
    }

    pub(crate) fn take(&mut self, lane: &L) -> Option<OpenSpan<W, B>> {
        let own = self.lanes.get_mut(lane)?;
        match own.around.pop() {
            Some(outer) => Some(std::mem::replace(&mut own.newest, outer)),
            None => self.lanes.remove(lane).map(|own| own.newest),
        }
    }

    /// Returns the span that encloses a span starting now in a lane.
    pub(crate) fn around(&self, lane: &L) -> Option<&OpenSpan<W, B>> {
        self.lanes.get(lane).filter(|own| own.around.len() + 1 < DEPTH).map(|own| &own.newest)
    }

    pub(crate) fn get(&self, lane: &L) -> Option<&OpenSpan<W, B>> {
        self.lanes.get(lane).map(|own| &own.newest)
    }

    pub(crate) fn newest(&mut self, lane: &L) -> Option<&mut OpenSpan<W, B>> {
        self.lanes.get_mut(lane).map(|own| &mut own.newest)
    }

    /// Starts a span in a lane without nesting. Returns the replaced span, whose end was missed or is this start.
    pub(crate) fn replace(&mut self, lane: L, what: W, since: u64, with: B) -> Option<OpenSpan<W, B>> {
        let before = self.take(&lane);
        self.begin(lane, what, since, with);
        before
    }

    pub(crate) fn close(&mut self, lane: &L) {
        self.lanes.remove(lane);
    }

    pub(crate) fn rename(&mut self, from: &W, to: W)
    where
        W: Clone,
    {
        let spans = self.lanes.values_mut().flat_map(|own| own.around.iter_mut().chain([&mut own.newest]));
        spans.filter(|span| span.what == *from).for_each(|span| span.what = to.clone());
    }

    /// Follows changes of the threads that lanes belong to: the spans of an exiting thread are dropped, and a thread
    /// whose number changes keeps its spans. `lane_of` returns a thread's lane.
    pub(crate) fn follow(&mut self, change: &ThreadChange, lane_of: impl Fn(i32) -> L) {
        match change {
            ThreadChange::Born { tid, .. } | ThreadChange::Ended { tid, .. } => self.close(&lane_of(*tid)),
            ThreadChange::Exec { pid, from, gone } => {
                gone.iter().for_each(|tid| self.close(&lane_of(*tid)));
                if let Some(own) = from.and_then(|from| self.lanes.remove(&lane_of(from))) {
                    // Records of the thread under its new number may have arrived already.
                    self.lanes.entry(lane_of(*pid)).or_insert(own);
                }
            }
        }
    }

    /// Follows changes of threads that are parts of keys. Events of other threads may still name an exited thread.
    pub(crate) fn follow_keys(&mut self, change: &ThreadChange, lane_of: impl Fn(i32) -> L) {
        if !matches!(change, ThreadChange::Ended { .. }) {
            self.follow(change, lane_of);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&L, &OpenSpan<W, B>)> {
        self.lanes.iter().flat_map(|(lane, own)| own.around.iter().chain([&own.newest]).map(move |begin| (lane, begin)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&L, &mut OpenSpan<W, B>)> {
        let all = self.lanes.iter_mut();
        all.flat_map(|(lane, own)| own.around.iter_mut().chain([&mut own.newest]).map(move |begin| (lane, begin)))
    }

    pub(crate) fn len(&self) -> usize {
        self.lanes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Drops all spans, because lost records may include their ends.
    pub(crate) fn forget(&mut self) {
        self.lanes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_follows_the_other() {
        let mut begun = OpenSpans::one_by_one();
        assert_eq!((begun.begin(1, 'a', 10, ()), begun.begin(2, 'b', 11, ()), begun.begin(1, 'c', 12, ())), (0, 0, 1));
        assert_eq!(begun.end(&2, &'b').map(|(begin, missed)| (begin.took(15), missed)), Some((4, 0)));
        // The end of a replaced span has no start, and shows that no span is open.
        assert!(begun.end(&1, &'a').is_none() && begun.end(&1, &'c').is_none() && begun.is_empty());
        for lane in 0..MAX as u64 + 5 {
            begun.begin(lane, 'a', 0, ());
        }
        assert!(begun.len() <= MAX);
        begun.forget();
        assert!(begun.is_empty());
    }

    /// Numbers of threads that exit, are reused and change.
    #[test]
    fn spans_follow_their_threads() {
        let mut open = OpenSpans::one_by_one();
        let change = |from, gone: &[i32]| ThreadChange::Exec { pid: 10, from, gone: gone.to_vec() };
        (10..14).for_each(|tid| assert!(open.replace(tid, 'a', tid as u64, ()).is_none()));
        open.follow(&ThreadChange::Ended { pid: 10, tid: 10 }, |tid| tid);
        open.follow(&ThreadChange::Born { pid: 13, tid: 13 }, |tid| tid);
        open.follow(&change(Some(12), &[11]), |tid| tid);
        assert_eq!(open.iter().map(|(lane, span)| (*lane, span.since)).collect::<Vec<_>>(), [(10, 12)]);
        // A record that arrived first under the new number is the newer one.
        open.begin(12, 'b', 20, ());
        open.follow(&change(Some(12), &[]), |tid| tid);
        assert_eq!((open.len(), open.take(&10).map(|span| span.since)), (1, Some(12)));
        open.follow(&change(Some(12), &[]), |tid| tid);
        assert!(open.is_empty());
        assert!(open.replace(1, 'a', 5, ()).is_none());
        assert_eq!(open.replace(1, 'b', 9, ()).map(|span| (span.what, span.took(9))), Some(('a', 4)));
    }

    #[test]
    fn one_is_within_the_other() {
        let mut begun = OpenSpans::nested();
        "abc".chars().zip(1..).for_each(|(what, time)| assert_eq!(begun.begin(0, what, time, ()), 0));
        assert_eq!(begun.around(&0).map(|begin| begin.what), Some('c'));
        assert!(begun.end(&0, &'x').is_none());
        assert_eq!(begun.end(&0, &'b').map(|(begin, missed)| (begin.took(9), missed)), Some((7, 1)));
        assert!(begun.end(&0, &'c').is_none());
        assert_eq!(begun.iter().map(|(_, begin)| begin.what).collect::<Vec<_>>(), ['a']);
        // At the maximum nesting, the lane restarts.
        let missed: Vec<usize> = (0..DEPTH as u64).map(|time| begun.begin(0, 'd', time, ())).collect();
        assert_eq!((missed.iter().sum::<usize>(), begun.iter().count()), (DEPTH, 1));
    }
}
