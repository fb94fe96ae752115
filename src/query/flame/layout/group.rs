//! Groups of frames: those with one name under one parent.

use crate::query::flame::{Class, FlameTree, WeightPair};

/// Tree nodes with the weight that comes through each.
#[derive(Clone)]
pub(super) enum Members<'a> {
    List(Vec<(u32, WeightPair)>),
    /// Nodes in which stacks end: their own weight counts.
    Ends(&'a [u32]),
    /// All nodes in which stacks end.
    AllEnds,
    /// Programs that share a frame, which is zoomed into: they stand on it themselves.
    Programs(Vec<(u32, WeightPair)>),
}

/// Frames with one name under one parent.
pub(super) struct Group<'a> {
    pub(super) name: u32,
    /// How many programs share the frame that bears this one's name; 0 for a frame of its own.
    pub(super) small: usize,
    pub(super) class: Class,
    pub(super) own: WeightPair,
    pub(super) total: WeightPair,
    pub(super) members: Members<'a>,
}

impl<'a> Group<'a> {
    /// The frame that several share.
    pub(super) fn shared(tree: &FlameTree, small: Vec<Self>) -> Option<Self> {
        let (name, class) = small.first().map(|first| (first.name, first.class))?;
        let mut all = Self {
            name,
            small: small.len(),
            class,
            own: WeightPair::default(),
            total: WeightPair::default(),
            members: Members::AllEnds,
        };
        let mut nodes = Vec::new();
        for one in small {
            all.own += one.own;
            all.total += one.total;
            match one.members {
                Members::List(list) | Members::Programs(list) => nodes.extend(list),
                Members::Ends(ends) => nodes.extend(ends.iter().map(|node| (*node, tree.own(*node)))),
                Members::AllEnds => {}
            }
        }
        all.members = Members::List(nodes);
        Some(all)
    }

    /// The group that a zoom into it shows: of programs that share a frame these.
    pub(super) fn entered(self) -> Self {
        match self.members {
            Members::List(list) if self.small > 0 => Self { members: Members::Programs(list), ..self },
            _ => self,
        }
    }
}

/// The neighbours that a group expands to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupStep {
    Callees,
    Callers,
}
