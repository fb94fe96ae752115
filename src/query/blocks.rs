//! A flame graph as blocks on a grid of cells: what of a tree can be seen. Positions come from
//! cumulative sums in eighths of a cell, so that they are nowhere off by more than half of one;
//! what is too narrow to draw is pooled with its neighbours and said.

use std::sync::Arc;

use regex::Regex;

use crate::profile::Acc;

use super::flame::{Class, Edit, FlameTree};

/// Which way stacks are followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the root to the leaves.
    Roots,
    /// From the leaves to their callers.
    Leaves,
    /// From every occurrence of these functions (by regular expression): callers above, callees below.
    Around(String),
}

/// What of a flame graph is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameSpec {
    pub way: Way,
    /// Names from the root of the view to the zoomed frame.
    pub zoom: Vec<Arc<str>>,
    pub edits: Vec<Edit>,
    /// Cells.
    pub width: u16,
    pub height: u16,
    /// Siblings by weight, or by name so that they keep their places while weights change.
    pub by_weight: bool,
    /// Names to be found, by regular expression.
    pub find: Option<String>,
}

/// A frame as drawn, or several that are too narrow for themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The same for the same frame in later answers.
    pub id: u64,
    /// Row from the anchor: callers of a sandwich are above, at negative rows.
    pub row: i32,
    /// Eighths of a cell.
    pub x0: u32,
    pub x1: u32,
    pub name: Arc<str>,
    pub dso: Arc<str>,
    pub class: Class,
    pub own: Acc,
    pub total: Acc,
    /// The weight of the frame that it stands on.
    pub parent: Acc,
    /// Names from the root of the view to here.
    pub depth: u16,
    /// Index of the block that it stands on; its own for the first.
    pub below: usize,
    /// How many frames are pooled; 0 for a frame of its own.
    pub pooled: usize,
    pub found: bool,
}

/// A flame graph, ready to be drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    pub blocks: Vec<Block>,
    /// The weight of everything, and of what is zoomed into.
    pub total: Acc,
    pub zoomed: Acc,
    /// Share of the zoomed weight whose last frame is drawn with its name, in percent.
    pub drawn: f64,
    /// What the search found: its share of everything (each stack once), and how many frames.
    pub found: Option<(Acc, usize)>,
    /// The zoom that still exists.
    pub zoom: Vec<Arc<str>>,
    /// Frames in all.
    pub frames: usize,
}

const CELL: u64 = 8;

/// Frames with one name under one parent.
struct Group {
    name: u32,
    class: Class,
    own: Acc,
    total: Acc,
    /// Tree nodes with the weight that comes through each.
    members: Vec<(u32, Acc)>,
}

/// Which neighbours a group expands to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Callees,
    Callers,
}

struct Layout<'a> {
    tree: &'a FlameTree,
    spec: &'a FlameSpec,
    matches: Vec<bool>,
    /// Slot of each name while children are grouped; `u32::MAX` between uses.
    slots: Vec<u32>,
    out: Flame,
}

/// Lays a tree out.
pub fn layout(tree: &FlameTree, spec: &FlameSpec) -> Flame {
    let pattern = spec.find.as_ref().and_then(|text| Regex::new(text).ok());
    let matches: Vec<bool> = tree.names.iter().map(|n| pattern.as_ref().is_some_and(|p| p.is_match(&n.text))).collect();
    let mut l = Layout { tree, spec, matches, slots: vec![u32::MAX; tree.names.len()], out: Flame::default() };
    if tree.is_empty() {
        return l.out;
    }
    l.out.total = tree.total[0];
    l.out.frames = tree.len() - 1;
    if pattern.is_some() {
        l.out.found = Some(tree.share(&l.matches));
    }
    match &spec.way {
        Way::Roots => l.tower(vec![(0, tree.total[0])], Step::Callees, 1),
        Way::Leaves => {
            let leaves = (1..tree.len() as u32).map(|n| (n, tree.own[n as usize])).filter(|(_, a)| !a.is_zero());
            l.tower(leaves.collect(), Step::Callers, 1);
        }
        Way::Around(text) => l.sandwich(&text.clone()),
    }
    l.out
}

impl Layout<'_> {
    /// The whole graph in one direction, its zoomed frame as wide as the screen.
    fn tower(&mut self, members: Vec<(u32, Acc)>, step: Step, up: i32) {
        let total = members.iter().fold(Acc::default(), |sum, (_, a)| add(sum, *a));
        let mut base = Group { name: u32::MAX, class: Class::Thread, own: Acc::default(), total, members };
        let first = step == Step::Callers;
        let zoom = self.spec.zoom.clone();
        for (depth, name) in zoom.iter().enumerate() {
            let groups = self.expand(&base, if first && depth == 0 { None } else { Some(step) });
            let Some(next) = groups.into_iter().find(|g| *self.tree.names[g.name as usize].text == **name) else {
                break;
            };
            let parent = base.total;
            base = next;
            self.out.zoom.push(name.clone());
            self.path_block(&base, parent, depth as i32, up);
        }
        self.out.zoomed = base.total;
        let depth = self.out.zoom.len();
        let anchor = depth.checked_sub(1).unwrap_or(usize::MAX);
        self.fill(base, anchor, step, first && depth == 0, depth as i32, up, i32::from(self.spec.height));
        self.count_drawn();
    }

    /// A frame of the path to the zoomed one: as wide as the screen.
    fn path_block(&mut self, group: &Group, parent: Acc, row: i32, up: i32) {
        let below = self.out.blocks.len().saturating_sub(1);
        let block = self.block(group, parent, below, row * up, 0, u32::from(self.spec.width) * CELL as u32);
        self.out.blocks.push(block);
    }

    fn block(&self, group: &Group, parent: Acc, below: usize, row: i32, x0: u32, x1: u32) -> Block {
        use std::hash::BuildHasher;
        let name = &self.tree.names[group.name as usize];
        let base = self.out.blocks.get(below).filter(|b| b.row.abs() < row.abs()).map_or(0, |b| b.id);
        Block {
            id: rustc_hash::FxBuildHasher.hash_one((base, &name.text, &name.dso, row < 0)),
            row,
            x0,
            x1,
            name: name.text.clone(),
            dso: name.dso.clone(),
            class: group.class,
            own: group.own,
            total: group.total,
            parent,
            depth: row.unsigned_abs() as u16 + 1,
            below,
            pooled: 0,
            found: self.matches[group.name as usize],
        }
    }

    /// Lays out what stands on a group, level by level.
    #[allow(clippy::too_many_arguments, reason = "where a tower stands and how far it goes")]
    fn fill(&mut self, base: Group, anchor: usize, step: Step, first: bool, row: i32, up: i32, end: i32) {
        let whole = (0, u32::from(self.spec.width) * CELL as u32);
        let mut level: Vec<(Group, usize, (u32, u32))> = vec![(base, anchor, whole)];
        for row in row..end {
            let mut next = Vec::new();
            for (group, index, span) in level {
                let how = if first && row == 0 { None } else { Some(step) };
                self.children(&group, how, index, row, up, span, &mut next);
            }
            if next.is_empty() {
                return;
            }
            level = next;
        }
    }

    #[allow(clippy::too_many_arguments, reason = "a group, its place, and where its children go")]
    fn children(
        &mut self,
        group: &Group,
        step: Option<Step>,
        index: usize,
        row: i32,
        up: i32,
        (x0, x1): (u32, u32),
        next: &mut Vec<(Group, usize, (u32, u32))>,
    ) {
        let width = u64::from(x1 - x0);
        let whole = group.total.period.max(1);
        let at =
            |sum: u64| x0 + ((u128::from(width) * u128::from(sum) + u128::from(whole) / 2) / u128::from(whole)) as u32;
        let below = if index == usize::MAX { self.out.blocks.len() } else { index };
        let mut sum = 0u64;
        let mut pool: Option<(u64, Acc, usize)> = None;
        for child in self.expand(group, step) {
            let weight = child.total.period;
            let (from, to) = (at(sum), at(sum.saturating_add(weight)));
            let narrow = u128::from(width) * u128::from(child.total.period) < u128::from(CELL) * u128::from(whole);
            if narrow {
                let entry = pool.get_or_insert((sum, Acc::default(), 0));
                entry.1 += child.total;
                entry.2 += child.members.len().max(1);
            } else {
                if let Some((start, acc, n)) = pool.take() {
                    self.pool(group, below, row * up, at(start), at(sum), acc, n);
                }
                let block = self.block(&child, group.total, below, row * up, from, to);
                next.push((child, self.out.blocks.len(), (from, to)));
                self.out.blocks.push(block);
            }
            sum = sum.saturating_add(weight);
        }
        if let Some((start, acc, n)) = pool {
            self.pool(group, below, row * up, at(start), at(sum), acc, n);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a block")]
    fn pool(&mut self, group: &Group, below: usize, row: i32, x0: u32, x1: u32, acc: Acc, n: usize) {
        if x1 <= x0 {
            return;
        }
        use std::hash::BuildHasher;
        let base = self.out.blocks.get(below).filter(|b| b.row.abs() < row.abs()).map_or(0, |b| b.id);
        self.out.blocks.push(Block {
            id: rustc_hash::FxBuildHasher.hash_one((base, "others", x0, row < 0)),
            row,
            x0,
            x1,
            name: format!("{n} others").into(),
            dso: "".into(),
            class: Class::Unknown,
            own: Acc::default(),
            total: acc,
            parent: group.total,
            depth: row.unsigned_abs() as u16 + 1,
            below,
            pooled: n,
            found: false,
        });
    }

    /// The groups next to a group: by name, in the order of the spec. Without a step, its members
    /// themselves by name.
    fn expand(&mut self, group: &Group, step: Option<Step>) -> Vec<Group> {
        let tree = self.tree;
        let mut groups: Vec<Group> = Vec::new();
        let mut put = |slots: &mut [u32], node: u32, through: Acc, own: Acc| {
            let name = tree.name(node);
            let slot = &mut slots[name as usize];
            if *slot == u32::MAX {
                *slot = groups.len() as u32;
                groups.push(Group {
                    name,
                    class: tree.class(node),
                    own: Acc::default(),
                    total: Acc::default(),
                    members: Vec::new(),
                });
            }
            let group = &mut groups[*slot as usize];
            group.total += through;
            group.own += own;
            group.members.push((node, through));
        };
        match step {
            None => group.members.iter().for_each(|(n, a)| put(&mut self.slots, *n, *a, *a)),
            Some(Step::Callers) => {
                for (node, through) in &group.members {
                    let parent = tree.parent(*node);
                    // The thread at the root is the last caller.
                    if parent != 0 {
                        put(&mut self.slots, parent, *through, Acc::default());
                    }
                }
            }
            Some(Step::Callees) => {
                for (node, _) in &group.members {
                    for child in tree.children(*node) {
                        put(&mut self.slots, *child, tree.total[*child as usize], tree.own[*child as usize]);
                    }
                }
            }
        }
        groups.iter().for_each(|g| self.slots[g.name as usize] = u32::MAX);
        if self.spec.by_weight {
            groups.sort_by_key(|g| (std::cmp::Reverse(g.total.period), tree.rank(g.name)));
        } else {
            groups.sort_by_key(|g| tree.rank(g.name));
        }
        groups
    }

    /// Callers above and callees below: the outermost occurrences below count each stack once.
    fn sandwich(&mut self, text: &str) {
        let Ok(pattern) = Regex::new(text) else { return };
        let tree = self.tree;
        let is: Vec<bool> = tree.names.iter().map(|n| pattern.is_match(&n.text)).collect();
        let mut inside = vec![false; tree.len()];
        let mut members = Vec::new();
        for n in 1..tree.len() as u32 {
            let (up, own) = (inside[tree.parent(n) as usize], is[tree.name(n) as usize] && tree.parent(n) != 0);
            if own && !up {
                members.push((n, tree.total[n as usize]));
            }
            inside[n as usize] = up || own;
        }
        if members.is_empty() {
            return;
        }
        let sum = |f: &dyn Fn(u32) -> Acc| members.iter().fold(Acc::default(), |s, (n, _)| add(s, f(*n)));
        let (total, own) = (sum(&|n| tree.total[n as usize]), sum(&|n| tree.own[n as usize]));
        let first = members[0].0;
        let anchor = Group { name: tree.name(first), class: tree.class(first), own, total, members: members.clone() };
        self.out.zoomed = total;
        let mut block = self.block(&anchor, self.out.total, 0, 0, 0, u32::from(self.spec.width) * CELL as u32);
        block.depth = 0;
        let one = members.iter().all(|(n, _)| tree.name(*n) == anchor.name);
        if !one {
            block.name = text.into();
        }
        self.out.blocks.push(block);
        let half = i32::from(self.spec.height) / 2;
        let again = Group { members, ..anchor };
        let copy = Group { members: again.members.clone(), name: again.name, class: again.class, own, total };
        self.fill(again, 0, Step::Callees, false, 1, 1, half.max(2));
        self.fill(copy, 0, Step::Callers, false, 1, -1, half.max(2));
        self.count_drawn();
    }

    fn count_drawn(&mut self) {
        let zoomed = self.out.zoomed.period.max(1);
        let ends = match self.spec.way {
            // Callers: every stack whose last caller is drawn.
            Way::Leaves => {
                let last = self.out.blocks.iter().filter(|b| b.class == Class::Thread && b.pooled == 0);
                last.fold(0u64, |s, b| s.saturating_add(b.total.period))
            }
            _ => {
                let named = self.out.blocks.iter().filter(|b| b.pooled == 0 && b.row >= 0);
                let skip = self.out.zoom.len().saturating_sub(1);
                named.skip(skip).fold(0u64, |s, b| s.saturating_add(b.own.period))
            }
        };
        self.out.drawn = (100.0 * ends as f64 / zoomed as f64).min(100.0);
    }
}

fn add(mut a: Acc, b: Acc) -> Acc {
    a += b;
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Frame, NodeId, Profile, Site};
    use crate::query::{Data, Fold};
    use crate::session::{MapId, Origin, Session};
    use proptest::prelude::*;

    /// The tree of stacks, root first, each letter a function and each stack a sample.
    fn tree(stacks: &[&str], edits: &[Edit]) -> FlameTree {
        let (mut session, mut profile) = (Session::new(Origin::Recorded), Profile::default());
        session.apply(&crate::record::Record::Comm { pid: 1, tid: 1, exec: false, name: b"t" }, 0);
        let dso = session.dsos.of_map(MapId::UNKNOWN).clone();
        for stack in stacks {
            let mut node = NodeId::ROOT;
            for c in stack.chars() {
                let frame = profile.frames.intern(Frame { map: MapId::UNKNOWN, caller: false, ip: c as u64 });
                profile.frames.set_named(frame, &dso, c.to_string().into());
                node = profile.trie.child(node, frame);
            }
            let task = session.task(1, 1);
            let site = profile.sites.intern(Site { task, stack: node, trace: Default::default() });
            profile.push(1, site, 10, 0, 0);
        }
        let data = Data { session: &session, profile: &profile, events: &["e".to_owned()], start: 0 };
        let mut fold = Fold::new(0, None, false);
        fold.update(data, u64::MAX);
        FlameTree::build(data, &fold, edits)
    }

    fn spec(way: Way) -> FlameSpec {
        FlameSpec { way, zoom: Vec::new(), edits: Vec::new(), width: 80, height: 40, by_weight: true, find: None }
    }

    /// Every frame as (row, name, samples).
    fn shape(flame: &Flame) -> Vec<(i32, String, u64)> {
        flame.blocks.iter().map(|b| (b.row, b.name.to_string(), b.total.samples)).collect()
    }

    fn named(list: &[(i32, &str, u64)]) -> Vec<(i32, String, u64)> {
        list.iter().map(|(row, name, n)| (*row, (*name).to_owned(), *n)).collect()
    }

    #[test]
    fn from_the_root_from_the_leaves_and_around() {
        let stacks = ["ab", "ab", "ac", "abc"];
        let tree = tree(&stacks, &[]);
        let roots = layout(&tree, &spec(Way::Roots));
        assert_eq!(shape(&roots), named(&[(0, "t", 4), (1, "a", 4), (2, "b", 3), (2, "c", 1), (3, "c", 1)]));
        assert_eq!(roots.drawn, 100.0);
        let leaves = layout(&tree, &spec(Way::Leaves));
        let rows: Vec<_> = shape(&leaves).into_iter().filter(|(row, ..)| *row < 2).collect();
        assert_eq!(rows, named(&[(0, "b", 2), (0, "c", 2), (1, "a", 2), (1, "a", 1), (1, "b", 1)]));
        let around = layout(&tree, &spec(Way::Around("^b$".into())));
        assert_eq!(shape(&around), named(&[(0, "b", 3), (1, "c", 1), (-1, "a", 3), (-2, "t", 3)]));
    }

    #[test]
    fn edits_change_stacks() {
        let of = |stacks: &[&str], edits: &[Edit]| {
            shape(&layout(&tree(stacks, edits), &spec(Way::Roots)))
                .into_iter()
                .map(|(r, n, s)| format!("{r}{n}{s}"))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(of(&["abc", "xbc"], &[Edit::Focus("b".into())]), "0t2 1b2 2c2");
        assert_eq!(of(&["abc", "ac"], &[Edit::MergeFunction("b".into())]), "0t2 1a2 2c2");
        assert_eq!(of(&["aaab"], &[Edit::CollapseRecursion]), "0t1 1a1 2b1");
        assert_eq!(of(&["ab", "cd"], &[Edit::ByDso]), "0t2 1[unknown]2");
        assert_eq!(of(&["ab"], &[Edit::MergeDso("[unknown]".into())]), "0t1");
    }

    #[test]
    fn a_search_counts_nested_matches_once() {
        let tree = tree(&["aba", "ab", "c"], &[]);
        let flame = layout(&tree, &FlameSpec { find: Some("a".into()), ..spec(Way::Roots) });
        let (acc, frames) = flame.found.expect("found");
        assert_eq!((acc.samples, frames), (2, 2));
    }

    #[test]
    fn what_is_too_narrow_is_pooled_and_still_covers_its_place() {
        let stacks: Vec<String> = (0..500u32).map(|i| char::from_u32(0x4e00 + i).expect("char").to_string()).collect();
        let tree = tree(&stacks.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        let flame = layout(&tree, &spec(Way::Roots));
        let last = flame.blocks.last().expect("pool");
        assert_eq!((last.pooled, last.x0, last.x1, flame.drawn), (500, 0, 640, 0.0));
        assert_eq!(flame.blocks.len(), 2);
    }

    #[test]
    fn a_hundred_thousand_children_and_a_very_deep_stack() {
        let deep: String = "ab".repeat(50_000);
        let tree = tree(&[&deep], &[]);
        assert_eq!(layout(&tree, &spec(Way::Roots)).frames, 100_001);
        assert!(!layout(&tree, &spec(Way::Leaves)).blocks.is_empty());
    }

    proptest! {
        /// Children lie on their parent, in order, apart, and nowhere off by more than half a cell.
        #[test]
        fn blocks_stand_where_their_weights_put_them(stacks in proptest::collection::vec("[a-e]{1,6}", 1..60), width in 10u16..120, by_weight: bool) {
            let list: Vec<&str> = stacks.iter().map(String::as_str).collect();
            let tree = tree(&list, &[]);
            let flame = layout(&tree, &FlameSpec { width, by_weight, ..spec(Way::Roots) });
            prop_assert_eq!(flame.total.samples as usize, stacks.len());
            for (i, b) in flame.blocks.iter().enumerate() {
                prop_assert!(b.x0 < b.x1 && b.x1 <= u32::from(width) * 8);
                if b.below == i { continue; }
                let parent = &flame.blocks[b.below];
                prop_assert!(b.x0 >= parent.x0 && b.x1 <= parent.x1 && b.row == parent.row + 1);
                let share = f64::from(parent.x1 - parent.x0) * b.total.period as f64 / parent.total.period as f64;
                prop_assert!((f64::from(b.x1 - b.x0) - share).abs() <= 1.0);
            }
            for (i, p) in flame.blocks.iter().enumerate().filter(|(_, p)| p.pooled == 0) {
                let children: u64 = flame.blocks.iter().enumerate().filter(|(j, c)| *j != i && c.below == i).map(|(_, c)| c.total.samples).sum();
                let drawn = flame.blocks.iter().enumerate().any(|(j, c)| j != i && c.below == i);
                if drawn { prop_assert_eq!(children + p.own.samples, p.total.samples); }
            }
        }

        /// Both directions weigh the same, and a leaf's weight is its own weight everywhere.
        #[test]
        fn inverting_keeps_the_whole(stacks in proptest::collection::vec("[a-e]{1,6}", 1..60)) {
            let list: Vec<&str> = stacks.iter().map(String::as_str).collect();
            let flame = layout(&tree(&list, &[]), &FlameSpec { width: 400, ..spec(Way::Leaves) });
            let first: u64 = flame.blocks.iter().filter(|b| b.row == 0).map(|b| b.total.samples).sum();
            prop_assert_eq!(first as usize, stacks.len());
            for c in "abcde".chars() {
                let ends = stacks.iter().filter(|s| s.ends_with(c)).count() as u64;
                let block = flame.blocks.iter().find(|b| b.row == 0 && *b.name == *c.to_string());
                if let Some(block) = block { prop_assert_eq!(block.total.samples, ends); }
            }
        }
    }
}
