//! Call chains of one row, as a tree: towards its callers or its callees.

use rustc_hash::FxHashMap;

use crate::profile::{Acc, NodeId};

use super::Data;
use super::question::Direction;
use super::top::{Row, Top, outermost, path_bit};

/// A node of a call tree. Node 0 is the row itself.
#[derive(Clone, Debug, Default)]
pub struct TreeNode {
    pub sym: u32,
    pub acc: Acc,
    /// Heaviest first.
    pub children: Vec<u32>,
}

/// A call tree of one row.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub nodes: Vec<TreeNode>,
}

impl Tree {
    /// Builds the tree of a row. `inclusive` says whether the row counts its callees.
    pub fn build(data: Data<'_>, top: &Top, row: &Row, direction: Direction, inclusive: bool) -> Self {
        let mut tree = Self { nodes: vec![TreeNode::default()] };
        let mut edges: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut path: Vec<u32> = Vec::new();
        let bit = path_bit(row.label);
        let profile = data.profile;
        let sym_at = |n: NodeId| profile.frames.sym_of(profile.trie.frame(n)).0;
        // Of a frame, innermost first: what was inlined there.
        let inlined = |n: NodeId| profile.frames.inlined(profile.trie.frame(n).0).iter().rev().copied();
        for (stack, acc) in &top.sites[top.ranges[row.group as usize].clone()] {
            let leaf = NodeId(*stack);
            if leaf == NodeId::ROOT || top.path_bits.get(*stack as usize).is_some_and(|b| b & bit == 0) {
                continue;
            }
            let is_row = |n: NodeId| top.mode.label(data, crate::profile::SymId(sym_at(n))) == row.label;
            let anchor =
                if inclusive { outermost(data, top.mode, leaf, row.label) } else { is_row(leaf).then_some(leaf) };
            let Some(anchor) = anchor else { continue };
            path.clear();
            match direction {
                Direction::Callers => {
                    let mut n = profile.trie.parent(anchor);
                    while n != NodeId::ROOT {
                        path.extend(inlined(n));
                        path.push(sym_at(n));
                        n = profile.trie.parent(n);
                    }
                }
                Direction::Callees => {
                    let mut n = leaf;
                    while n != anchor {
                        path.extend(inlined(n));
                        path.push(sym_at(n));
                        n = profile.trie.parent(n);
                    }
                    path.extend(inlined(anchor));
                    path.reverse();
                }
            }
            tree.add(&mut edges, &path, *acc);
        }
        tree.sort(data);
        tree
    }

    fn add(&mut self, edges: &mut FxHashMap<(u32, u32), u32>, path: &[u32], acc: Acc) {
        let mut at = 0u32;
        self.nodes[0].acc += acc;
        for sym in path {
            let next = self.nodes.len() as u32;
            let child = *edges.entry((at, *sym)).or_insert(next);
            if child == next {
                self.nodes.push(TreeNode { sym: *sym, ..TreeNode::default() });
                self.nodes[at as usize].children.push(child);
            }
            self.nodes[child as usize].acc += acc;
            at = child;
        }
    }

    fn sort(&mut self, data: Data<'_>) {
        let keys: Vec<(u64, u32)> = self.nodes.iter().map(|n| (n.acc.period, n.sym)).collect();
        let sym = |sym: u32| data.profile.frames.sym(crate::profile::SymId(sym));
        for node in &mut self.nodes {
            node.children.sort_by(|a, b| {
                let (a, b) = (keys[*a as usize], keys[*b as usize]);
                b.0.cmp(&a.0).then_with(|| sym(a.1).compare(sym(b.1))).then(a.1.cmp(&b.1))
            });
        }
    }
}

#[cfg(test)]
mod tests;
