//! The call tree of one row: towards its callers or its callees.

use rustc_hash::FxHashMap;

use crate::profile::{Acc, FrameId, NodeId, SymId};

use crate::query::aggregate::Aggregate;
use crate::query::aggregate::changes::Changes;
use crate::query::data::Data;
use crate::query::question::Direction;
use crate::query::rows::live_rows::LiveRows;
use crate::query::rows::top::LabelMode;

/// A node of a call tree. Node 0 is the row itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallNode {
    pub(crate) sym: u32,
    pub(crate) acc: Acc,
    /// The weight that ends here; only in trees of reports.
    pub(crate) ended: Acc,
    /// A frame with its address, if entries are separated by location.
    pub(crate) frame: Option<FrameId>,
    /// Heaviest first.
    pub(crate) children: Vec<u32>,
}

/// A call tree of one row.
#[derive(Clone, Debug)]
pub struct CallTree {
    pub(crate) nodes: Vec<CallNode>,
}

impl Default for CallTree {
    fn default() -> Self {
        Self { nodes: vec![CallNode::default()] }
    }
}

/// A tree's direction, and whether the row includes its callees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TreeKind {
    pub(crate) direction: Direction,
    pub(crate) inclusive: bool,
}

impl TreeKind {
    /// Returns the kind for rows. A task contains its whole stacks, so its callers begin at their ends.
    pub(crate) fn of_rows(self, mode: LabelMode) -> Self {
        let at_end = mode == LabelMode::None && self.direction == Direction::Callers;
        Self { inclusive: self.inclusive && !at_end, ..self }
    }
}

/// The paths from a row to the ends of its stacks.
struct Paths<'a, S: Fn(NodeId) -> u32, I: Fn(NodeId) -> &'a [u32]> {
    data: Data<'a>,
    mode: LabelMode,
    label: u32,
    kind: TreeKind,
    sym: S,
    /// The functions inlined at a node, outermost first.
    inlined: I,
}

impl<'a, S: Fn(NodeId) -> u32, I: Fn(NodeId) -> &'a [u32]> Paths<'a, S, I> {
    /// Collects the symbols of a stack from the row on. Returns false if the row does not count the stack. If rows are
    /// not functions, the path begins with the row's first function: the one that a task or a file ran.
    fn follow(&self, leaf: NodeId, path: &mut Vec<u32>) -> bool {
        let profile = self.data.profile;
        let is_row = |n: NodeId| self.mode.label(self.data, SymId((self.sym)(n))) == self.label;
        let up = |n: NodeId| Some(profile.trie.parent(n)).filter(|n| *n != NodeId::ROOT);
        let all = || std::iter::successors(Some(leaf).filter(|n| *n != NodeId::ROOT), |n| up(*n));
        let is_function = self.mode == LabelMode::Sym;
        let anchor = if self.kind.of_rows(self.mode).inclusive {
            all().filter(|n| is_row(*n)).last()
        } else {
            all().next().filter(|n| is_row(*n))
        };
        let Some(anchor) = anchor else { return false };
        // The functions inlined in a frame, innermost first.
        let inlined = |n: NodeId| (self.inlined)(n).iter().rev().copied();
        path.clear();
        match self.kind.direction {
            Direction::Callers => {
                let first = if is_function { up(anchor) } else { Some(anchor) };
                for n in std::iter::successors(first, |n| up(*n)) {
                    path.extend(inlined(n));
                    path.push((self.sym)(n));
                }
            }
            Direction::Callees => {
                for n in all().take_while(|n| *n != anchor) {
                    path.extend(inlined(n));
                    path.push((self.sym)(n));
                }
                path.extend(inlined(anchor));
                if !is_function {
                    path.push((self.sym)(anchor));
                }
                path.reverse();
            }
        }
        true
    }
}

/// The child of a node for each symbol.
type Edges = FxHashMap<(u32, u32), u32>;

impl CallTree {
    fn count(&mut self, edges: &mut Edges, path: &[u32], change: impl Fn(&mut Acc)) {
        let mut at = 0u32;
        change(&mut self.nodes[0].acc);
        for sym in path {
            let next = self.nodes.len() as u32;
            let child = *edges.entry((at, *sym)).or_insert(next);
            if child == next {
                self.add(at, *sym, Acc::default());
            }
            change(&mut self.nodes[child as usize].acc);
            at = child;
        }
    }

    /// Returns the children of a node that `shows` accepts, heaviest first.
    pub(crate) fn children(&self, data: Data<'_>, node: u32, shows: impl Fn(&Acc) -> bool) -> Vec<u32> {
        let all = self.nodes[node as usize].children.iter().copied();
        let mut some: Vec<u32> = all.filter(|n| shows(&self.nodes[*n as usize].acc)).collect();
        let sym = |n: u32| self.nodes[n as usize].sym;
        some.sort_by(|a, b| {
            let period = |n: u32| self.nodes[n as usize].acc.period;
            let name = |n: u32| data.profile.frames.sym(SymId(sym(n)));
            period(*b).cmp(&period(*a)).then_with(|| name(*a).compare(name(*b))).then_with(|| sym(*a).cmp(&sym(*b)))
        });
        some
    }

    pub(crate) fn add(&mut self, at: u32, sym: u32, acc: Acc) -> u32 {
        let child = self.nodes.len() as u32;
        self.nodes.push(CallNode { sym, acc, ..CallNode::default() });
        self.nodes[at as usize].children.push(child);
        child
    }

    pub(crate) fn sort(&mut self, data: Data<'_>) {
        for node in 0..self.nodes.len() {
            self.nodes[node].children = self.children(data, node as u32, |_| true);
        }
    }
}

/// The trees of unfolded rows, updated incrementally.
#[derive(Debug, Default)]
pub(crate) struct CallTrees {
    list: FxHashMap<(u32, u32, TreeKind), LiveTree>,
    /// The version of inlined functions.
    inlines: u64,
}

#[derive(Debug, Default)]
struct LiveTree {
    tree: CallTree,
    edges: Edges,
    shown: bool,
}

impl CallTrees {
    /// Applies changes to the trees that the last answer showed.
    pub(crate) fn apply(&mut self, data: Data<'_>, rows: &mut LiveRows, changes: &Changes) {
        let inlines = data.profile.frames.inlines();
        if std::mem::replace(&mut self.inlines, inlines) != inlines {
            return self.list.clear();
        }
        self.list.retain(|_, one| std::mem::take(&mut one.shown));
        if self.list.is_empty() {
            return;
        }
        let mut path = Vec::new();
        for change in changes.changes() {
            let group = rows.group_of(data, change.lane, change.site);
            let stack = data.stack(data.profile.sites.all()[change.site as usize].stack);
            let profile = data.profile;
            let sym = |n: NodeId| changes.sym(&profile.frames, profile.trie.frame(n).0, &change);
            let inlined = |n: NodeId| changes.inlined(&profile.frames, profile.trie.frame(n).0, &change);
            for ((_, label, kind), one) in self.list.iter_mut().filter(|((of, ..), _)| *of == group) {
                let paths = Paths { data, mode: rows.labels.mode, label: *label, kind: *kind, sym, inlined };
                if paths.follow(stack, &mut path) {
                    one.tree.count(&mut one.edges, &path, |sum| change.apply_to(sum));
                }
            }
        }
    }

    /// Returns the tree of a row of a [`LiveRows`]; builds it if it was not kept.
    pub(crate) fn of(
        &mut self,
        data: Data<'_>,
        rows: &mut LiveRows,
        fold: &Aggregate,
        row: (u32, u32),
        kind: TreeKind,
    ) -> &CallTree {
        let (group, label) = row;
        let one = self.list.entry((group, label, kind)).or_insert_with(|| {
            let mut one = LiveTree::default();
            let (profile, mut path) = (data.profile, Vec::new());
            let sym = |n: NodeId| profile.frames.sym_of(profile.trie.frame(n)).0;
            let inlined = |n: NodeId| profile.frames.inlined(profile.trie.frame(n).0);
            let paths = Paths { data, mode: rows.labels.mode, label, kind, sym, inlined };
            for (lane, site, acc) in fold.sites() {
                let stack = data.stack(profile.sites.all()[site as usize].stack);
                if rows.group_of(data, lane, site) == group && paths.follow(stack, &mut path) {
                    one.tree.count(&mut one.edges, &path, |sum| *sum += acc);
                }
            }
            one
        });
        one.shown = true;
        &one.tree
    }
}

#[cfg(test)]
pub(crate) mod tests;
