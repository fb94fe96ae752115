//! The ends of stacks by name, where an inverted graph begins. Created once per tree, on first use.

use super::{Class, FlameTree, WeightPair};

/// The nodes with weight of their own.
#[derive(Debug, Default)]
pub struct Leaves {
    /// Sorted by weight, heaviest first.
    pub(crate) groups: Vec<Leaf>,
    /// The same sorted by name, as indexes.
    pub(crate) by_name: Vec<u32>,
    pub(crate) total: WeightPair,
}

/// All nodes with one name.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) name: u32,
    /// Their class; the lowest one if they differ.
    pub(crate) class: Class,
    pub(crate) total: WeightPair,
    pub(crate) nodes: Vec<u32>,
}

impl Leaves {
    pub(super) fn new(tree: &FlameTree) -> Self {
        let mut slots = vec![u32::MAX; tree.names().len()];
        let mut out = Self::default();
        for node in 1..tree.len() as u32 {
            let (own, name, class) = (tree.own(node), tree.name(node), tree.class(node));
            if own.is_zero() {
                continue;
            }
            let slot = &mut slots[name as usize];
            if *slot == u32::MAX {
                *slot = out.groups.len() as u32;
                out.groups.push(Leaf { name, class, total: WeightPair::default(), nodes: Vec::new() });
            }
            let group = &mut out.groups[*slot as usize];
            group.class = group.class.min(class);
            group.total += own;
            group.nodes.push(node);
            out.total += own;
        }
        let width = |leaf: &Leaf| tree.width(leaf.total);
        out.groups.sort_by(|a, b| width(b).cmp(&width(a)).then_with(|| tree.by_name(a.name, b.name)));
        out.by_name = (0..out.groups.len() as u32).collect();
        let name = |at: u32| out.groups[at as usize].name;
        out.by_name.sort_by(|a, b| tree.by_name(name(*a), name(*b)));
        out
    }
}
