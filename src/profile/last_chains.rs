//! The last chain of each thread. The next one mostly begins with the same callers, which then need no lookup.

use rustc_hash::FxHashMap;

use crate::record::sample::{CONTEXT_CUT, u64s};

use super::NodeId;
use super::chain::{Fingerprint, MapGenerations, SharedWords, Word};

/// The maximum number of threads; beyond it, all are dropped.
const MAX_THREADS: usize = 1 << 10;

#[derive(Debug, Default)]
pub(super) struct LastChains {
    threads: FxHashMap<i32, LastChain>,
}

impl LastChains {
    pub(super) fn of(&mut self, tid: i32) -> &mut LastChain {
        if self.threads.len() > MAX_THREADS {
            self.threads.clear();
        }
        self.threads.entry(tid).or_default()
    }

    pub(super) fn clear(&mut self) {
        self.threads.clear();
    }

    pub(super) fn memory(&self) -> usize {
        let of = |chain: &LastChain| chain.words.capacity() * 8 + chain.steps.capacity() * size_of::<Step>();
        self.threads.capacity() * size_of::<(i32, LastChain)>() + self.threads.values().map(of).sum::<usize>()
    }
}

/// The callers of a chain in its outermost context, root first.
#[derive(Debug, Default)]
pub(super) struct LastChain {
    maps: MapGenerations,
    context: u64,
    /// Return addresses, and [`CONTEXT_CUT`].
    words: Vec<u64>,
    /// The state after each word.
    steps: Vec<Step>,
    /// Words before these are behind the end of a broken stack, and have no node.
    dead: usize,
    /// Words that this chain had in common with the one before it.
    shared: usize,
    /// Words of the chain that are not shared.
    own: usize,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    print: Fingerprint,
    node: NodeId,
}

impl LastChain {
    /// Returns the words at the end of a raw chain that this one has, too, with the same mappings.
    pub(super) fn shared_with(&self, maps: MapGenerations, chain: &[u8]) -> SharedWords {
        if self.maps != maps {
            return SharedWords::default();
        }
        let count = self.words.iter().zip(u64s(chain).rev()).take_while(|(a, b)| **a == *b).count();
        SharedWords { count: if count > self.dead { count } else { 0 }, context: self.context }
    }

    /// Continues with other words after the shared ones. Returns the stack of the shared words. `words` are leaf first;
    /// `prints` become the fingerprints of the chain up to each of them, root first.
    pub(super) fn replace(
        &mut self,
        shared: usize,
        maps: MapGenerations,
        words: &[Word],
        prints: &mut Vec<Fingerprint>,
    ) -> NodeId {
        self.words.truncate(shared);
        self.steps.truncate(shared);
        (self.shared, self.own) = (shared, words.len());
        let last = self.steps.last().copied();
        let Step { mut print, node } = last.unwrap_or_else(|| {
            (self.maps, self.context, self.dead) = (maps, CONTEXT_CUT, 0);
            Step { print: Fingerprint::new(maps), node: NodeId::ROOT }
        });
        let mut are_callers = true;
        prints.clear();
        for word in words.iter().rev() {
            print = print.with(word);
            prints.push(print);
            let is_cut = word.context == CONTEXT_CUT;
            if self.context == CONTEXT_CUT {
                self.context = word.context;
            }
            are_callers &= is_cut || word.caller && word.context == self.context;
            if are_callers {
                self.words.push(if is_cut { CONTEXT_CUT } else { word.ip });
                self.steps.push(Step { print, node: NodeId::ROOT });
            }
        }
        node
    }

    /// Sets the stacks of the last words that are not shared, root first. If some are missing, the stack is broken.
    pub(super) fn set_nodes(&mut self, nodes: &[NodeId], is_broken: bool) {
        let skipped = self.shared + self.own.saturating_sub(nodes.len());
        if is_broken {
            self.dead = skipped;
        }
        self.steps.iter_mut().skip(skipped).zip(nodes).for_each(|(step, node)| step.node = *node);
    }
}
