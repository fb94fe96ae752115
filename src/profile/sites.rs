//! Sites: who (task) was where (stack). A sample carries one id for both, so what does not depend
//! on the single sample is decided once for each site.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::session::TaskId;

use super::NodeId;

/// Index into [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SiteId(pub u32);

/// A task at a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    pub task: TaskId,
    pub stack: NodeId,
}

/// All sites that were ever sampled.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    list: Vec<Site>,
    index: HashTable<u32>,
}

impl Sites {
    pub fn intern(&mut self, site: Site) -> SiteId {
        let list = &self.list;
        let next = list.len() as u32;
        let id = *self
            .index
            .entry(
                FxBuildHasher.hash_one(site),
                |i| list[*i as usize] == site,
                |i| FxBuildHasher.hash_one(list[*i as usize]),
            )
            .or_insert(next)
            .get();
        if id == next {
            self.list.push(site);
        }
        SiteId(id)
    }

    pub fn get(&self, id: SiteId) -> Site {
        self.list[id.0 as usize]
    }

    pub fn all(&self) -> &[Site] {
        &self.list
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn memory(&self) -> usize {
        self.list.capacity() * 8 + self.index.capacity() * 5
    }
}
