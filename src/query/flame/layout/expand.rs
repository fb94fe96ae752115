//! Expands groups to their neighbors: which groups are next to each other.

use super::group::{FrameGroup, GroupMembers, GroupStep};
use super::positions::{BlockPlace, CELL, FlameLayout};
use crate::query::flame::WeightPair;
use crate::query::flame::leaves::Leaf;

/// The minimum width of a program's frame; smaller ones share a frame.
const PROGRAM: u128 = 3 * CELL as u128;

impl<'a> FlameLayout<'a> {
    /// Returns the groups on top of a group. Programs are sorted by weight, and small ones share a frame.
    pub(super) fn standing_on(
        &mut self,
        group: &FrameGroup<'a>,
        step: GroupStep,
        spot: BlockPlace,
    ) -> Vec<FrameGroup<'a>> {
        let mut groups = self.expand(group, step);
        let ground = matches!(&group.members, GroupMembers::List(list) if matches!(list[..], [(0, _)]));
        if step != GroupStep::Callees || !ground && !matches!(group.members, GroupMembers::Programs(_)) {
            return groups;
        }
        let tree = self.tree;
        let width = |g: &FrameGroup<'_>| tree.width(g.total);
        groups.sort_by(|a, b| width(b).cmp(&width(a)).then_with(|| tree.by_name(a.name, b.name)));
        let (cells, whole) = (u128::from(spot.x1 - spot.x0), self.width(group.total).max(1));
        let large = groups.partition_point(|g| cells * width(g) >= PROGRAM * whole);
        if groups.len() - large > 1 {
            let small = groups.split_off(large);
            groups.extend(FrameGroup::shared(tree, small));
        }
        groups
    }

    /// Returns the groups next to a group by name, in the order of the spec.
    /// The group of all stack ends expands to these ends.
    pub(super) fn expand(&mut self, group: &FrameGroup<'a>, step: GroupStep) -> Vec<FrameGroup<'a>> {
        let tree = self.tree;
        if matches!(group.members, GroupMembers::AllEnds) {
            return self.ends();
        }
        let mut groups: Vec<FrameGroup<'a>> = Vec::new();
        let mut lists: Vec<Vec<(u32, WeightPair)>> = Vec::new();
        let mut put = |slots: &mut [u32], node: u32, through: WeightPair, own: WeightPair| {
            let name = tree.name(node);
            let slot = &mut slots[name as usize];
            if *slot == u32::MAX {
                *slot = groups.len() as u32;
                groups.push(FrameGroup {
                    name,
                    small: 0,
                    class: tree.class(node),
                    own: WeightPair::default(),
                    total: WeightPair::default(),
                    members: GroupMembers::List(Vec::new()),
                });
                lists.push(Vec::new());
            }
            let group = &mut groups[*slot as usize];
            group.class = group.class.min(tree.class(node));
            group.total += through;
            group.own += own;
            lists[*slot as usize].push((node, through));
        };
        let slots = &mut self.slots;
        let mut go = |node: u32, through: WeightPair| match step {
            GroupStep::Callers => {
                let parent = tree.parent(node);
                // The thread at the root is the last caller.
                if parent != 0 {
                    put(slots, parent, through, WeightPair::default());
                }
            }
            GroupStep::Callees => {
                tree.children(node).for_each(|c| put(slots, c, tree.total(c), tree.own(c)));
            }
        };
        match &group.members {
            GroupMembers::List(list) => list.iter().for_each(|(node, through)| go(*node, *through)),
            GroupMembers::Ends(nodes) => nodes.iter().for_each(|node| go(*node, tree.own(*node))),
            GroupMembers::Programs(list) => {
                list.iter().for_each(|(node, through)| put(slots, *node, *through, tree.own(*node)))
            }
            GroupMembers::AllEnds => {}
        }
        groups.iter_mut().zip(lists).for_each(|(group, list)| group.members = GroupMembers::List(list));
        groups.iter().for_each(|g| self.slots[g.name as usize] = u32::MAX);
        if self.spec.by_weight {
            let width = |g: &FrameGroup<'_>| tree.width(g.total);
            groups.sort_by(|a, b| width(b).cmp(&width(a)).then_with(|| tree.by_name(a.name, b.name)));
        } else {
            groups.sort_by(|a, b| tree.by_name(a.name, b.name));
        }
        groups
    }

    pub(super) fn ends(&self) -> Vec<FrameGroup<'a>> {
        let leaves = self.tree.leaves();
        let group = |leaf: &'a Leaf| FrameGroup {
            name: leaf.name,
            small: 0,
            class: leaf.class,
            own: leaf.total,
            total: leaf.total,
            members: GroupMembers::Ends(&leaf.nodes),
        };
        match self.spec.by_weight {
            true => leaves.groups.iter().map(group).collect(),
            false => leaves.by_name.iter().map(|at| group(&leaves.groups[*at as usize])).collect(),
        }
    }
}
