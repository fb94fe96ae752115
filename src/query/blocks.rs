//! A flame graph as blocks on a grid of cells: what of a tree can be seen. Positions come from
//! cumulative sums in eighths of a cell, so that they are nowhere off by more than half of one;
//! what is too narrow to draw is pooled with its neighbours and said.

use std::ops::Range;
use std::sync::Arc;

use super::diff::{Per, Verdict, verdict};
use super::find::{pattern, shown};
use super::flame::{Both, Class, Edit, FlameTree};

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
    pub own: Both,
    pub total: Both,
    /// The weight of the frame that it stands on.
    pub parent: Both,
    /// Whether its share of everything has changed; `None` when nothing is compared.
    pub verdict: Option<Verdict>,
    /// Index of the block that it stands on; none for those that stand on the ground.
    pub below: Option<usize>,
    /// How many frames are pooled; 0 for a frame of its own.
    pub pooled: usize,
    pub found: bool,
}

/// A flame graph, ready to be drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    pub blocks: Vec<Block>,
    /// The weight of everything, and of what is zoomed into.
    pub total: Both,
    pub zoomed: Both,
    /// Share of the zoomed weight whose last frame is drawn with its name, in percent.
    pub drawn: f64,
    /// What the search found: its share of everything (each stack once), and how many frames.
    pub found: Option<(Both, usize)>,
    /// The zoom that still exists.
    pub zoom: Vec<Arc<str>>,
    /// Frames in all.
    pub frames: usize,
    /// What it is compared with, in words; `None` when with nothing.
    pub versus: Option<Per>,
    /// By what weights of now and then are multiplied to become widths.
    scale: (u64, u64),
    /// How many seconds it was then and is now.
    sides: (f64, f64),
}

const CELL: u64 = 8;

/// Tree nodes with the weight that comes through each.
#[derive(Clone)]
enum Members<'a> {
    List(Vec<(u32, Both)>),
    /// Nodes in which stacks end: their own weight counts.
    Ends(&'a [u32]),
    /// All nodes in which stacks end.
    AllEnds,
}

/// Frames with one name under one parent.
struct Group<'a> {
    name: u32,
    class: Class,
    own: Both,
    total: Both,
    members: Members<'a>,
}

/// Neighbours that are too narrow to draw.
struct Pool {
    /// The width of their siblings before them.
    from: u128,
    sum: Both,
    frames: usize,
}

/// Which neighbours a group expands to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Callees,
    Callers,
}

/// Where a group is drawn: the block that it is, and its eighths of a cell.
#[derive(Clone, Copy)]
struct Spot {
    block: Option<usize>,
    x0: u32,
    x1: u32,
}

/// How a tower goes on: which neighbours stand on a frame, and whether rows grow downwards.
#[derive(Clone, Copy)]
struct Course {
    step: Step,
    sign: i32,
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
    let pattern = spec.find.as_ref().and_then(|text| pattern(text).ok());
    let matches: Vec<bool> = tree.names.iter().map(|n| pattern.as_ref().is_some_and(|p| p.is_match(&n.text))).collect();
    let mut l = Layout { tree, spec, matches, slots: vec![u32::MAX; tree.names.len()], out: Flame::default() };
    (l.out.versus, l.out.scale, l.out.sides) = (tree.per(), tree.scale(), tree.seconds());
    if tree.is_empty() {
        return l.out;
    }
    l.out.total = tree.total(0);
    l.out.frames = tree.len() - 1;
    if pattern.is_some() {
        l.out.found = Some(tree.share(&l.matches));
    }
    match &spec.way {
        Way::Roots => l.tower(Members::List(vec![(0, tree.total(0))]), tree.total(0), Step::Callees),
        Way::Leaves => {
            l.tower(Members::AllEnds, tree.leaves().total, Step::Callers);
        }
        Way::Around(text) => l.sandwich(&text.clone()),
    }
    l.out
}

impl<'a> Layout<'a> {
    /// The whole graph in one direction, its zoomed frame as wide as the screen.
    fn tower(&mut self, members: Members<'a>, total: Both, step: Step) {
        let mut base = Group { name: u32::MAX, class: Class::Thread, own: Both::default(), total, members };
        let (mut spot, spec) = (self.ground(), self.spec);
        for (row, name) in (0..).zip(&spec.zoom) {
            let groups = self.expand(&base, step);
            let Some(next) = groups.into_iter().find(|g| *self.tree.names[g.name as usize].text == **name) else {
                break;
            };
            spot = self.put(&next, base.total, spot, row);
            base = next;
            self.out.zoom.push(name.clone());
        }
        self.out.zoomed = base.total;
        let row = self.out.zoom.len() as i32;
        self.fill(base, spot, Course { step, sign: 1 }, row..row + i32::from(self.spec.height));
        self.count_drawn();
    }

    /// All of the width, and nothing below.
    fn ground(&self) -> Spot {
        Spot { block: None, x0: 0, x1: u32::from(self.spec.width) * CELL as u32 }
    }

    /// Draws a group as a block; `at` is what it stands on and where. Returns its own spot.
    fn put(&mut self, group: &Group<'a>, parent: Both, at: Spot, row: i32) -> Spot {
        let tree = self.tree;
        let name = &tree.names[group.name as usize];
        let block = Block {
            id: self.id(at.block, (&name.text, &name.dso), row),
            row,
            x0: at.x0,
            x1: at.x1,
            name: name.text.clone(),
            dso: name.dso.clone(),
            class: group.class,
            own: group.own,
            total: group.total,
            parent,
            verdict: self.verdict(group.total),
            below: at.block,
            pooled: 0,
            found: self.matches[group.name as usize],
        };
        self.out.blocks.push(block);
        Spot { block: Some(self.out.blocks.len() - 1), ..at }
    }

    /// The same for the same path, whatever its weight.
    fn id(&self, below: Option<usize>, what: impl std::hash::Hash, row: i32) -> u64 {
        use std::hash::BuildHasher;
        let base = below.map_or(0, |i| self.out.blocks[i].id);
        rustc_hash::FxBuildHasher.hash_one((base, what, row < 0))
    }

    /// Lays out what stands on a group, level by level.
    fn fill(&mut self, base: Group<'a>, spot: Spot, course: Course, rows: Range<i32>) {
        let mut level = vec![(base, spot)];
        for row in rows {
            let mut next = Vec::new();
            for (group, spot) in level {
                self.children(&group, spot, course, row, &mut next);
            }
            if next.is_empty() {
                return;
            }
            level = next;
        }
    }

    /// Draws what stands on one group, in one row.
    fn children(&mut self, group: &Group<'a>, spot: Spot, course: Course, row: i32, next: &mut Vec<(Group<'a>, Spot)>) {
        let (width, whole) = (u128::from(spot.x1 - spot.x0), self.width(group.total).max(1));
        let at = |sum: u128| spot.x0 + ((width * sum + whole / 2) / whole) as u32;
        let mut sum = 0u128;
        let mut pool: Option<Pool> = None;
        for child in self.expand(group, course.step) {
            let weight = self.width(child.total);
            if width * weight < u128::from(CELL) * whole {
                let pool = pool.get_or_insert(Pool { from: sum, sum: Both::default(), frames: 0 });
                pool.sum += child.total;
                pool.frames += 1;
            } else {
                if let Some(pool) = pool.take() {
                    self.pool(&pool, group.total, Spot { x0: at(pool.from), x1: at(sum), ..spot }, row * course.sign);
                }
                let here = Spot { x0: at(sum), x1: at(sum + weight), ..spot };
                let here = self.put(&child, group.total, here, row * course.sign);
                next.push((child, here));
            }
            sum += weight;
        }
        if let Some(pool) = pool {
            self.pool(&pool, group.total, Spot { x0: at(pool.from), x1: at(sum), ..spot }, row * course.sign);
        }
    }

    fn pool(&mut self, pool: &Pool, parent: Both, at: Spot, row: i32) {
        if at.x1 <= at.x0 {
            return;
        }
        self.out.blocks.push(Block {
            id: self.id(at.block, ("others", at.x0), row),
            row,
            x0: at.x0,
            x1: at.x1,
            name: format!("{} others", pool.frames).into(),
            dso: "".into(),
            class: Class::Unknown,
            own: Both::default(),
            total: pool.sum,
            parent,
            verdict: self.verdict(pool.sum),
            below: at.block,
            pooled: pool.frames,
            found: false,
        });
    }

    /// The groups next to a group: by name, in the order of the spec. Next to all ends of stacks are
    /// those ends themselves.
    fn expand(&mut self, group: &Group<'a>, step: Step) -> Vec<Group<'a>> {
        let tree = self.tree;
        if matches!(group.members, Members::AllEnds) {
            return self.ends();
        }
        let mut groups: Vec<Group<'a>> = Vec::new();
        let mut lists: Vec<Vec<(u32, Both)>> = Vec::new();
        let mut put = |slots: &mut [u32], node: u32, through: Both, own: Both| {
            let name = tree.name(node);
            let slot = &mut slots[name as usize];
            if *slot == u32::MAX {
                *slot = groups.len() as u32;
                groups.push(Group {
                    name,
                    class: tree.class(node),
                    own: Both::default(),
                    total: Both::default(),
                    members: Members::List(Vec::new()),
                });
                lists.push(Vec::new());
            }
            let group = &mut groups[*slot as usize];
            group.total += through;
            group.own += own;
            lists[*slot as usize].push((node, through));
        };
        let slots = &mut self.slots;
        let mut go = |node: u32, through: Both| match step {
            Step::Callers => {
                let parent = tree.parent(node);
                // The thread at the root is the last caller.
                if parent != 0 {
                    put(slots, parent, through, Both::default());
                }
            }
            Step::Callees => {
                tree.children(node).iter().for_each(|c| put(slots, *c, tree.total(*c), tree.own(*c)));
            }
        };
        match &group.members {
            Members::List(list) => list.iter().for_each(|(node, through)| go(*node, *through)),
            Members::Ends(nodes) => nodes.iter().for_each(|node| go(*node, tree.own(*node))),
            Members::AllEnds => {}
        }
        groups.iter_mut().zip(lists).for_each(|(group, list)| group.members = Members::List(list));
        groups.iter().for_each(|g| self.slots[g.name as usize] = u32::MAX);
        if self.spec.by_weight {
            groups.sort_by_key(|g| (std::cmp::Reverse(tree.width(g.total)), tree.rank(g.name)));
        } else {
            groups.sort_by_key(|g| tree.rank(g.name));
        }
        groups
    }

    /// The ends of all stacks by name, in the order of the spec.
    fn ends(&self) -> Vec<Group<'a>> {
        let leaves = self.tree.leaves();
        let group = |i: usize| {
            let leaf = leaves.groups[i];
            let members = Members::Ends(leaves.nodes(i));
            Group { name: leaf.name, class: leaf.class, own: leaf.total, total: leaf.total, members }
        };
        match self.spec.by_weight {
            true => (0..leaves.groups.len()).map(group).collect(),
            false => leaves.by_name.iter().map(|i| group(*i as usize)).collect(),
        }
    }

    /// Callers above and callees below: the outermost occurrences below count each stack once.
    fn sandwich(&mut self, text: &str) {
        let Ok(pattern) = pattern(text) else { return };
        let tree = self.tree;
        let is: Vec<bool> = tree.names.iter().map(|n| pattern.is_match(&n.text)).collect();
        let mut inside = vec![false; tree.len()];
        let mut members = Vec::new();
        for n in 1..tree.len() as u32 {
            let (up, own) = (inside[tree.parent(n) as usize], is[tree.name(n) as usize] && tree.parent(n) != 0);
            if own && !up {
                members.push((n, tree.total(n)));
            }
            inside[n as usize] = up || own;
        }
        if members.is_empty() {
            return;
        }
        let total = members.iter().map(|(_, both)| *both).sum();
        let own = members.iter().map(|(n, _)| tree.own(*n)).sum();
        let first = members[0].0;
        let anchor = Group {
            name: tree.name(first),
            class: tree.class(first),
            own,
            total,
            members: Members::List(members.clone()),
        };
        self.out.zoomed = total;
        let spot = self.put(&anchor, self.out.total, self.ground(), 0);
        if members.iter().any(|(n, _)| tree.name(*n) != anchor.name) {
            self.out.blocks[0].name = shown(text).into();
        }
        let half = (i32::from(self.spec.height) / 2).max(2);
        for (step, sign) in [(Step::Callees, 1), (Step::Callers, -1)] {
            let group = Group { members: Members::List(members.clone()), ..anchor };
            self.fill(group, spot, Course { step, sign }, 1..half);
        }
        self.count_drawn();
    }

    fn count_drawn(&mut self) {
        let width = |both: Both| self.width(both) as f64;
        let zoomed = width(self.out.zoomed).max(1.0);
        let ends: f64 = match self.spec.way {
            // Callers: every stack whose last caller is drawn.
            Way::Leaves => {
                let last = self.out.blocks.iter().filter(|b| b.class == Class::Thread && b.pooled == 0);
                last.map(|b| width(b.total)).sum()
            }
            _ => {
                let named = self.out.blocks.iter().filter(|b| b.pooled == 0 && b.row >= 0);
                let skip = self.out.zoom.len().saturating_sub(1);
                named.skip(skip).map(|b| width(b.own)).sum()
            }
        };
        self.out.drawn = (100.0 * ends / zoomed).min(100.0);
    }

    fn width(&self, both: Both) -> u128 {
        self.tree.width(both)
    }

    fn verdict(&self, total: Both) -> Option<Verdict> {
        self.out.versus?;
        let whole = self.out.total;
        Some(verdict((total.old, whole.old), (total.new, whole.new)))
    }
}

impl Flame {
    /// A weight then and now, in the unit of the comparison.
    pub fn values(&self, both: Both) -> (f64, f64) {
        match (self.versus, self.sides) {
            (Some(Per::Total), _) => (both.old.percent_of(&self.total.old), both.new.percent_of(&self.total.new)),
            (Some(Per::Second), (old, new)) => {
                let each = |period: u64, seconds: f64| if seconds > 0.0 { period as f64 / seconds } else { 0.0 };
                (each(both.old.period, old), each(both.new.period, new))
            }
            _ => (both.old.period as f64, both.new.period as f64),
        }
    }

    /// How much of a frame's width is difference: none when nothing changed, all when it is new or
    /// gone. Both sides scaled as the comparison says.
    pub fn changed(&self, both: Both) -> f64 {
        let (new, old) = (both.new.period as f64 * self.scale.0 as f64, both.old.period as f64 * self.scale.1 as f64);
        if new + old == 0.0 { 0.0 } else { (new - old) / (new + old) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Frame, NodeId, Profile, Site};
    use crate::query::diff::Side;
    use crate::query::flame::Stacks;
    use crate::query::{Data, Fold};
    use crate::session::{MapId, Origin, Session};
    use proptest::prelude::*;

    /// A profile of stacks, root first, each letter a function and each stack a sample.
    fn recorded(stacks: &[&str]) -> (Session, Profile) {
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
        (session, profile)
    }

    fn folded(data: Data<'_>) -> Fold {
        let mut fold = Fold::new(0, None, false);
        fold.update(data, 0..u64::MAX);
        fold
    }

    /// The tree of one profile beside another's.
    fn compared(old: &[&str], new: &[&str], per: Per) -> FlameTree {
        let (old, new) = (recorded(old), recorded(new));
        let data =
            |of: &'static [String], p| Data { session: of_session(p), profile: of_profile(p), events: of, start: 0 };
        fn of_session(p: &(Session, Profile)) -> &Session {
            &p.0
        }
        fn of_profile(p: &(Session, Profile)) -> &Profile {
            &p.1
        }
        let (old, new) = (data(&[], &old), data(&[], &new));
        let (then, now) = (folded(old), folded(new));
        let side = |fold: &Fold| Side { total: fold.total(), seconds: 1.0 };
        let old = Stacks { data: old, fold: &then, side: side(&then) };
        FlameTree::compare(Stacks { data: new, fold: &now, side: side(&now) }, old, per, &[])
    }

    /// The tree of stacks.
    fn tree(stacks: &[&str], edits: &[Edit]) -> FlameTree {
        let (session, profile) = recorded(stacks);
        let data = Data { session: &session, profile: &profile, events: &["e".to_owned()], start: 0 };
        FlameTree::build(data, &folded(data), edits)
    }

    fn spec(way: Way) -> FlameSpec {
        FlameSpec { way, zoom: Vec::new(), edits: Vec::new(), width: 80, height: 40, by_weight: true, find: None }
    }

    /// Every frame as (row, name, samples).
    fn shape(flame: &Flame) -> Vec<(i32, String, u64)> {
        flame.blocks.iter().map(|b| (b.row, b.name.to_string(), b.total.new.samples)).collect()
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
    fn chains_of_single_children_are_one_frame() {
        let flame = layout(&tree(&["abcd", "abce", "ab"], &[Edit::CollapseChains]), &spec(Way::Roots));
        let want = [(0, "t", 3), (1, "a › b", 3), (2, "c", 2), (3, "d", 1), (3, "e", 1)];
        assert_eq!(shape(&flame), named(&want));
    }

    #[test]
    fn a_comparison_draws_both_sides_and_says_what_is_new_or_gone() {
        let old: Vec<&str> = ["ab"; 60].into_iter().chain(["ac"; 60]).collect();
        let new: Vec<&str> = ["ab"; 30].into_iter().chain(["ad"; 30]).collect();
        let flame = layout(&compared(&old, &new, Per::Total), &spec(Way::Roots));
        let of = |name: &str| flame.blocks.iter().find(|b| &*b.name == name).expect("block");
        assert_eq!(["b", "c", "d"].map(|n| of(n).verdict.map(Verdict::sign)), [Some("~"), Some("-"), Some("+")]);
        assert_eq!(["b", "c", "d"].map(|n| flame.changed(of(n).total)), [0.0, -1.0, 1.0]);
        // Shares: half of everything is the same, a quarter of the width is gone and a quarter new.
        let cells = ["b", "c", "d"].map(|n| of(n).x1 - of(n).x0);
        assert_eq!(cells, [of("a").x1 / 2, of("a").x1 / 4, of("a").x1 / 4]);
        let flame = layout(&compared(&old, &new, Per::Nothing), &spec(Way::Roots));
        assert!((flame.changed(flame.blocks[0].total) + 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_zoom_shows_what_stands_on_it_however_deep_it_is() {
        let deep: String = ('A'..='Z').chain('a'..='z').collect();
        let tree = tree(&[&deep], &[]);
        let zoom = std::iter::once("t".into()).chain(deep.chars().take(45).map(|c| c.to_string().into())).collect();
        let flame = layout(&tree, &FlameSpec { zoom, height: 20, ..spec(Way::Roots) });
        assert_eq!((flame.zoom.len(), flame.blocks.last().map(|b| b.name.to_string())), (46, Some("z".into())));
    }

    #[test]
    fn each_root_stands_on_the_ground() {
        let flame = layout(&tree(&["a", "b"], &[]), &spec(Way::Leaves));
        let on: Vec<_> = flame.blocks.iter().map(|b| (b.name.to_string(), b.below)).collect();
        assert_eq!(on[..2], [("a".into(), None), ("b".into(), None)]);
    }

    #[test]
    fn a_search_counts_nested_matches_once() {
        let tree = tree(&["aba", "ab", "c"], &[]);
        let flame = layout(&tree, &FlameSpec { find: Some("a".into()), ..spec(Way::Roots) });
        let (acc, frames) = flame.found.expect("found");
        assert_eq!((acc.new.samples, frames), (2, 2));
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
        #[test]
        fn a_profile_against_itself_shows_no_difference(stacks in proptest::collection::vec("[a-e]{1,8}", 1..30)) {
            let list: Vec<&str> = stacks.iter().map(String::as_str).collect();
            for per in [Per::Total, Per::Second, Per::Nothing] {
                let flame = layout(&compared(&list, &list, per), &spec(Way::Roots));
                prop_assert!(flame.blocks.iter().all(|b| flame.changed(b.total) == 0.0 && b.verdict == Some(Verdict::Noise)));
            }
        }

        /// Children lie on their parent, in order, apart, and nowhere off by more than half a cell.
        #[test]
        fn blocks_stand_where_their_weights_put_them(stacks in proptest::collection::vec("[a-e]{1,6}", 1..60), width in 10u16..120, by_weight: bool) {
            let list: Vec<&str> = stacks.iter().map(String::as_str).collect();
            let tree = tree(&list, &[]);
            let flame = layout(&tree, &FlameSpec { width, by_weight, ..spec(Way::Roots) });
            prop_assert_eq!(flame.total.new.samples as usize, stacks.len());
            for b in &flame.blocks {
                prop_assert!(b.x0 < b.x1 && b.x1 <= u32::from(width) * 8);
                let Some(below) = b.below else {
                    prop_assert_eq!(b.row, 0);
                    continue;
                };
                let parent = &flame.blocks[below];
                prop_assert!(b.x0 >= parent.x0 && b.x1 <= parent.x1 && b.row == parent.row + 1);
                let share = f64::from(parent.x1 - parent.x0) * b.total.new.period as f64 / parent.total.new.period as f64;
                prop_assert!((f64::from(b.x1 - b.x0) - share).abs() <= 1.0);
            }
            for (i, p) in flame.blocks.iter().enumerate().filter(|(_, p)| p.pooled == 0) {
                let children: u64 = flame.blocks.iter().enumerate().filter(|(_, c)| c.below == Some(i)).map(|(_, c)| c.total.new.samples).sum();
                let drawn = flame.blocks.iter().any(|c| c.below == Some(i));
                if drawn { prop_assert_eq!(children + p.own.new.samples, p.total.new.samples); }
            }
        }

        /// Both directions weigh the same, and a leaf's weight is its own weight everywhere.
        #[test]
        fn inverting_keeps_the_whole(stacks in proptest::collection::vec("[a-e]{1,6}", 1..60)) {
            let list: Vec<&str> = stacks.iter().map(String::as_str).collect();
            let flame = layout(&tree(&list, &[]), &FlameSpec { width: 400, ..spec(Way::Leaves) });
            let first: u64 = flame.blocks.iter().filter(|b| b.row == 0).map(|b| b.total.new.samples).sum();
            prop_assert_eq!(first as usize, stacks.len());
            for c in "abcde".chars() {
                let ends = stacks.iter().filter(|s| s.ends_with(c)).count() as u64;
                let block = flame.blocks.iter().find(|b| b.row == 0 && *b.name == *c.to_string());
                if let Some(block) = block { prop_assert_eq!(block.total.new.samples, ends); }
            }
        }
    }
}
