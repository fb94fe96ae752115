//! Groups of frames with the same name and parent.

use crate::query::flame::{Class, FlameTree, WeightPair};

/// Tree nodes with the weight through each.
#[derive(Clone)]
pub(super) enum GroupMembers<'a> {
    List(Vec<(u32, WeightPair)>),
    /// Nodes where stacks end: their own weight counts.
    Ends(&'a [u32]),
    AllEnds,
    /// Programs that share the zoomed frame: each has its own frame on top of it.
    Programs(Vec<(u32, WeightPair)>),
}

pub(super) struct FrameGroup<'a> {
    pub(super) name: u32,
    /// The number of programs that share this frame; 0 for a separate frame.
    pub(super) small: usize,
    pub(super) class: Class,
    pub(super) own: WeightPair,
    pub(super) total: WeightPair,
    pub(super) members: GroupMembers<'a>,
}

impl<'a> FrameGroup<'a> {
    /// Creates the frame that several programs share.
    pub(super) fn shared(tree: &FlameTree, small: Vec<Self>) -> Option<Self> {
        let (name, class) = small.first().map(|first| (first.name, first.class))?;
        let mut all = Self {
            name,
            small: small.len(),
            class,
            own: WeightPair::default(),
            total: WeightPair::default(),
            members: GroupMembers::AllEnds,
        };
        let mut nodes = Vec::new();
        for one in small {
            all.own += one.own;
            all.total += one.total;
            match one.members {
                GroupMembers::List(list) | GroupMembers::Programs(list) => nodes.extend(list),
                GroupMembers::Ends(ends) => nodes.extend(ends.iter().map(|node| (*node, tree.own(*node)))),
                GroupMembers::AllEnds => {}
            }
        }
        all.members = GroupMembers::List(nodes);
        Some(all)
    }

    /// Returns the group as shown by a zoom into it: for a shared frame its programs.
    pub(super) fn entered(self) -> Self {
        match self.members {
            GroupMembers::List(list) if self.small > 0 => Self { members: GroupMembers::Programs(list), ..self },
            _ => self,
        }
    }
}

/// The direction in which a group expands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupStep {
    Callees,
    Callers,
}
