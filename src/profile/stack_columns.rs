//! A snapshot of the stacks, readable while the profile continues: its columns, shared until either side changes.

use super::frames::Frame;
use super::sites::Site;
use super::{FrameId, NodeId, Profile, SharedSegments, SiteId};

/// The columns.
#[derive(Clone, Debug)]
pub struct StackColumns {
    parent: SharedSegments<u32>,
    frame: SharedSegments<u32>,
    frames: SharedSegments<Frame>,
    sites: SharedSegments<Site>,
}

impl StackColumns {
    pub(crate) fn of(profile: &Profile) -> Self {
        let (parent, frame) = profile.trie.columns();
        Self {
            parent: parent.clone(),
            frame: frame.clone(),
            frames: profile.frames.all().clone(),
            sites: profile.sites.all().clone(),
        }
    }

    /// Returns the parent of each stack, which has a lower id. The parent of the empty stack, the first one, is itself.
    pub fn parents(&self) -> impl Iterator<Item = u32> + '_ {
        self.parent.iter().copied()
    }

    pub(crate) fn site(&self, id: SiteId) -> Site {
        self.sites[id.0 as usize]
    }

    pub(crate) fn frames(&self) -> &SharedSegments<Frame> {
        &self.frames
    }

    /// Returns a stack's frames from leaf to root.
    pub(crate) fn walk(&self, mut node: NodeId) -> impl Iterator<Item = Frame> + '_ {
        std::iter::from_fn(move || {
            (node != NodeId::ROOT).then(|| {
                let frame = FrameId(self.frame[node.0 as usize]);
                node = NodeId(self.parent[node.0 as usize]);
                self.frames[frame.0 as usize]
            })
        })
    }
}
