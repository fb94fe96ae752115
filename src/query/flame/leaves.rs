//! The ends of stacks by name, where an inverted graph begins. Created once per tree, on first use.

use super::{Class, FlameTree, WeightPair};

/// The nodes with weight of their own.
#[derive(Debug)]
pub struct Leaves {
    /// Sorted by weight, heaviest first.
    pub(crate) groups: Vec<Leaf>,
    /// The same sorted by name, as indexes.
    pub(crate) by_name: Vec<u32>,
    pub(crate) total: WeightPair,
    starts: Vec<u32>,
    nodes: Vec<u32>,
}

/// All nodes with one name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaf {
    pub(crate) name: u32,
    /// Their class; that of the first one if they differ.
    pub(crate) class: Class,
    pub(crate) total: WeightPair,
}

impl Leaves {
    pub(super) fn new(tree: &FlameTree) -> Self {
        let ends: Vec<(u32, WeightPair)> =
            (1..tree.len() as u32).map(|n| (n, tree.own(n))).filter(|(_, own)| !own.is_zero()).collect();
        let mut slots = vec![u32::MAX; tree.names().len()];
        let (mut groups, mut counts): (Vec<Leaf>, Vec<u32>) = Default::default();
        for (node, own) in &ends {
            let name = tree.name(*node);
            let slot = &mut slots[name as usize];
            if *slot == u32::MAX {
                *slot = groups.len() as u32;
                groups.push(Leaf { name, class: tree.class(*node), total: WeightPair::default() });
                counts.push(0);
            }
            let group = &mut groups[*slot as usize];
            group.class = group.class.min(tree.class(*node));
            group.total += *own;
            counts[*slot as usize] += 1;
        }
        let mut order: Vec<u32> = (0..groups.len() as u32).collect();
        let by_name = |a: &u32, b: &u32| tree.by_name(groups[*a as usize].name, groups[*b as usize].name);
        let width = |i: &u32| tree.width(groups[*i as usize].total);
        order.sort_by(|a, b| width(b).cmp(&width(a)).then_with(|| by_name(a, b)));
        let (mut starts, mut at) = (vec![0], 0);
        for (place, slot) in order.iter().enumerate() {
            at += counts[*slot as usize];
            starts.push(at);
            slots[groups[*slot as usize].name as usize] = place as u32;
        }
        let mut next = starts.clone();
        let mut nodes = vec![0; ends.len()];
        for (node, _) in &ends {
            let place = &mut next[slots[tree.name(*node) as usize] as usize];
            nodes[*place as usize] = *node;
            *place += 1;
        }
        let groups: Vec<Leaf> = order.iter().map(|slot| groups[*slot as usize]).collect();
        let mut by_name: Vec<u32> = (0..groups.len() as u32).collect();
        by_name.sort_by(|a, b| tree.by_name(groups[*a as usize].name, groups[*b as usize].name));
        let total = ends.iter().map(|(_, own)| *own).sum();
        Self { groups, by_name, total, starts, nodes }
    }

    pub(crate) fn nodes(&self, group: usize) -> &[u32] {
        &self.nodes[self.starts[group] as usize..self.starts[group + 1] as usize]
    }
}
