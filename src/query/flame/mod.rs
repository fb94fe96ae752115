//! The profile as a tree of names for flame graphs, and edits of stacks.
//! A stack has the comm, then functions from the root on; nodes have weights.

use std::sync::OnceLock;

use crate::perfdata::SampleCount;
use crate::profile::{Acc, FrameId, NodeId, SiteId, Trie};

use super::aggregate::Aggregate;
use super::aggregate::changes::{AggregateRole, Changes, SiteChange};
use super::data::Data;
use super::diff::{DiffSide, NormalizeBy};
use super::rows::partner::Partner;
use crate::panel::stacks::{FrameName, Stack, Stacks};

mod build;
mod class;
mod edit;
pub mod layout;
pub mod leaves;
mod weights;

pub(crate) use build::process_of;
use build::{NOWHERE, Namer, totals};
pub use class::Class;
use class::ClassEffect;
pub use edit::Edit;
use leaves::Leaves;
pub use weights::WeightPair;
use weights::Weights;

/// How the sides of a tree with a baseline are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The normalization of both sides.
    pub per: NormalizeBy,
    /// The factors of the current and the baseline's weights, which yield widths.
    pub(crate) scale: (u64, u64),
    /// The durations of the baseline and of the current side, in seconds.
    pub(crate) seconds: (f64, f64),
    /// The samples for which one stored sample of the baseline and of the current side stands.
    pub(crate) stand_for: (SampleCount, SampleCount),
}

/// The tree. Node 0 is the root; a parent's ID is less than its children's. Nodes without weight remain.
#[derive(Debug, Default)]
pub struct FlameTree {
    namer: Namer,
    trie: Trie,
    total: Weights,
    /// The baseline's weight through the same nodes; while building, the weight that ends there.
    then: Option<(Comparison, Weights)>,
    /// The weights of the partner event, if frames have instructions per cycle.
    partner: Option<(Partner, Weights)>,
    class: Vec<Class>,
    effects: Vec<ClassEffect>,
    /// The last child of each node, and the previous sibling of each; 0 for none.
    child: Vec<u32>,
    sibling: Vec<u32>,
    /// Nodes with weight, without the root.
    frames: usize,
    leaves: OnceLock<Leaves>,
}

/// Returns integer factors that normalize two sides. They are small enough that products do not overflow.
fn scale(new: &DiffSide, old: &DiffSide, per: NormalizeBy) -> (u64, u64) {
    let (a, b) = match per {
        NormalizeBy::Total => (new.total.period, old.total.period),
        NormalizeBy::Second => ((new.seconds * 1e3) as u64, (old.seconds * 1e3) as u64),
        NormalizeBy::Nothing => (1, 1),
    };
    let (a, b) = (a.max(1), b.max(1));
    let shift = 32u32.saturating_sub(a.max(b).leading_zeros());
    ((b >> shift).max(1), (a >> shift).max(1))
}

/// One side of a tree: its samples and totals.
#[derive(Clone, Copy)]
pub struct FlameStacks<'a> {
    /// The profile.
    pub data: Data<'a>,
    /// The weights of its stacks.
    pub aggregate: &'a Aggregate,
    /// Their total and duration, for normalization.
    pub side: DiffSide,
}

impl FlameTree {
    /// Builds the tree of an aggregate's samples. It includes the weights of the partner event.
    pub fn build(
        data: Data<'_>,
        aggregate: &Aggregate,
        partner: Option<(Partner, &Aggregate)>,
        edits: &[Edit],
    ) -> Self {
        let (mut namer, mut trie) = (Namer::new(edits), Trie::default());
        let own = namer.add(data, aggregate, &mut trie);
        let partner = partner.map(|(partner, aggregate)| (partner, namer.add(data, aggregate, &mut trie)));
        Self::whole(namer, trie, own, None, partner)
    }

    /// Builds the tree of stacks of names.
    pub(crate) fn of_stacks(stacks: &Stacks) -> Self {
        let (mut namer, mut trie, mut own) = (Namer::default(), Trie::default(), Weights::default());
        for Stack { frames, weight, count } in &stacks.stacks {
            let node = frames.iter().fold(NodeId::ROOT, |node, frame| {
                let name = namer.name(frame.clone());
                trie.child(node, FrameId(name))
            });
            own.resize(trie.len());
            own.add(node.0, Acc { samples: *count, period: *weight });
        }
        Self::whole(namer, trie, own, None, None)
    }

    /// Builds one tree of two aggregates. Frames with the same name and caller share a node.
    pub fn compare(new: FlameStacks<'_>, old: FlameStacks<'_>, per: NormalizeBy, edits: &[Edit]) -> Self {
        let (mut namer, mut trie) = (Namer::new(edits), Trie::default());
        namer.align(new.data, old.data);
        let now = namer.add(new.data, new.aggregate, &mut trie);
        let then = namer.add(old.data, old.aggregate, &mut trie);
        let seconds = (old.side.seconds, new.side.seconds);
        let stand_for = (old.side.stands_for, new.side.stands_for);
        let comparison = Comparison { per, scale: scale(&new.side, &old.side, per), seconds, stand_for };
        Self::whole(namer, trie, now, Some((comparison, then)), None)
    }

    fn whole(
        mut namer: Namer,
        mut trie: Trie,
        mut own: Weights,
        mut then: Option<(Comparison, Weights)>,
        mut partner: Option<(Partner, Weights)>,
    ) -> Self {
        if namer.edits.contains(&Edit::CollapseChains) {
            let before = then.as_mut().map(|(_, own)| own);
            let other = partner.as_mut().map(|(_, own)| own);
            let mut sides: Vec<&mut Weights> = std::iter::once(&mut own).chain(before).chain(other).collect();
            namer.collapse(&mut trie, &mut sides);
        }
        let total = totals(&trie, own);
        let then = then.map(|(comparison, own)| (comparison, totals(&trie, own)));
        let partner = partner.map(|(partner, own)| (partner, totals(&trie, own)));
        let mut tree = Self { namer, trie, total, then, partner, ..Self::default() };
        tree.grow();
        tree.frames = (1..tree.len() as u32).filter(|node| !tree.total(*node).is_zero()).count();
        tree
    }

    /// Returns whether it can be updated incrementally; otherwise it must be rebuilt.
    pub(crate) fn can_apply(&self) -> bool {
        self.then.is_none() && !self.namer.edits.contains(&Edit::CollapseChains)
    }

    pub(crate) fn edits(&self) -> &[Edit] {
        &self.namer.edits
    }

    pub(crate) fn partner(&self) -> Option<Partner> {
        self.partner.as_ref().map(|(partner, _)| *partner)
    }

    /// Applies changes of an aggregate that it was built from.
    pub(crate) fn apply(&mut self, data: Data<'_>, changes: &Changes, of: AggregateRole) {
        let profile = data.profile;
        let mut path = Vec::new();
        for change in changes.changes() {
            let site = profile.sites.get(SiteId(change.site));
            let ground = self.namer.ground(data.session, &data.session.tasks()[site.task.0 as usize]);
            let start = self.namer.thread(&mut self.trie, ground);
            path.extend(profile.trie.walk(site.stack));
            let mut at = self.namer.begin(start);
            while let Some(frame) = path.pop() {
                let sym = changes.sym(&profile.frames, frame.0, &change);
                let inlined = changes.inlined(&profile.frames, frame.0, &change);
                at = self.namer.frame(data, &mut self.trie, (at, start), sym, inlined);
            }
            self.grow();
            if at != NOWHERE {
                self.change(at, &change, of);
            }
        }
        self.leaves = OnceLock::new();
    }

    fn change(&mut self, mut node: u32, change: &SiteChange, of: AggregateRole) {
        let total = match (of, &mut self.partner) {
            (AggregateRole::Shown, _) => &mut self.total,
            (AggregateRole::Partner, Some((_, total))) => total,
            (AggregateRole::Partner, None) => return,
        };
        loop {
            let had = !total.get(node).is_zero();
            match change.out {
                true => total.take(node, change.acc),
                false => total.add(node, change.acc),
            }
            if node == 0 {
                return;
            }
            if of == AggregateRole::Shown {
                self.frames = self.frames + usize::from(!total.get(node).is_zero()) - usize::from(had);
            }
            node = self.trie.parent(NodeId(node)).0;
        }
    }

    fn grow(&mut self) {
        let names = &self.namer.names;
        self.effects.extend(names[self.effects.len()..].iter().map(ClassEffect::of));
        self.total.resize(self.trie.len());
        if let Some((_, total)) = &mut self.partner {
            total.resize(self.trie.len());
        }
        self.child.resize(self.trie.len(), 0);
        for node in self.class.len() as u32..self.trie.len() as u32 {
            let up = if node == 0 { 0 } else { self.parent(node) };
            self.class.push(match up {
                0 => Class::Thread,
                _ => self.effects[self.name(node) as usize].within(self.class[up as usize]),
            });
            let last = match node {
                0 => 0,
                _ => std::mem::replace(&mut self.child[self.trie.parent(NodeId(node)).0 as usize], node),
            };
            self.sibling.push(last);
        }
    }

    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    pub(crate) fn names(&self) -> &[FrameName] {
        &self.namer.names
    }

    /// Returns the number of nodes, with and without weight, including the root.
    pub fn len(&self) -> usize {
        self.trie.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.total(0).is_zero()
    }

    /// Iterates over the children of a node that have weight, unordered.
    pub(crate) fn children(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        self.all_children(node).filter(|of| !self.total(*of).is_zero())
    }

    fn all_children(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |of: u32| Some(of).filter(|of| *of != 0);
        std::iter::successors(next(self.child[node as usize]), move |of| next(self.sibling[*of as usize]))
    }

    pub(crate) fn leaves(&self) -> &Leaves {
        self.leaves.get_or_init(|| Leaves::new(self))
    }

    pub(crate) fn parent(&self, node: u32) -> u32 {
        self.trie.parent(NodeId(node)).0
    }

    /// Returns the index into `names` of a node other than the root.
    pub(crate) fn name(&self, node: u32) -> u32 {
        self.trie.frame(NodeId(node)).0
    }

    pub(crate) fn class(&self, node: u32) -> Class {
        self.class[node as usize]
    }

    /// Returns the weight that ends in a node: its total without its children's.
    pub(crate) fn own(&self, node: u32) -> WeightPair {
        self.weigh(|total| {
            let mut left = total.get(node);
            self.all_children(node).for_each(|child| left -= total.get(child));
            left
        })
    }

    pub(crate) fn total(&self, node: u32) -> WeightPair {
        self.weigh(|total| total.get(node))
    }

    fn weigh(&self, of: impl Fn(&Weights) -> Acc) -> WeightPair {
        let old = self.then.as_ref().map_or_else(Acc::default, |(_, total)| of(total));
        let partner = self.partner.as_ref().map_or_else(Acc::default, |(_, total)| of(total));
        WeightPair { new: of(&self.total), old, partner }
    }

    /// Returns the width of a weight; in a comparison that of both sides together.
    pub(crate) fn width(&self, both: WeightPair) -> u128 {
        let (new, old) = self.comparison().map_or((1, 0), |comparison| comparison.scale);
        u128::from(both.new.period) * u128::from(new) + u128::from(both.old.period) * u128::from(old)
    }

    pub(crate) fn comparison(&self) -> Option<Comparison> {
        self.then.as_ref().map(|(comparison, _)| *comparison)
    }

    pub(crate) fn by_name(&self, a: u32, b: u32) -> std::cmp::Ordering {
        let of = |name: u32| (&self.namer.names[name as usize].text, &self.namer.names[name as usize].dso);
        of(a).cmp(&of(b)).then(a.cmp(&b))
    }

    /// Returns the weight of all stacks through matching functions, each once, and the number of matching frames.
    pub(crate) fn share(&self, matches: &[bool]) -> (WeightPair, usize) {
        let mut inside = vec![false; self.len()];
        let (mut sum, mut count) = (WeightPair::default(), 0);
        for i in 1..self.len() as u32 {
            let up = inside[self.parent(i) as usize];
            let (own, total) = (matches[self.name(i) as usize], self.total(i));
            count += usize::from(own && !total.is_zero());
            if own && !up {
                sum += total;
            }
            inside[i as usize] = up || own;
        }
        (sum, count)
    }
}

#[cfg(test)]
mod tests;
