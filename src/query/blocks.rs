//! A flame graph as blocks on a grid of cells: what of a tree can be seen. Positions come from
//! cumulative sums in eighths of a cell, so that they are nowhere off by more than half of one;
//! what is too narrow to draw is pooled with its neighbours and said.

use std::sync::Arc;

use rustc_hash::FxHashMap;

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
    /// How many programs too small for a frame of their own share this one; 0 for all other frames.
    pub small: usize,
    /// How many processes a program's frame is of, where that is known.
    pub processes: usize,
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
/// Cells of a program's frame at least; smaller ones share one.
const PROGRAM: u128 = 3 * CELL as u128;
/// The name in a zoom of the frame that small programs share: what it shows changes from second to second.
pub const SMALL: &str = "small programs";

/// Tree nodes with the weight that comes through each.
#[derive(Clone)]
enum Members<'a> {
    List(Vec<(u32, Both)>),
    /// Nodes in which stacks end: their own weight counts.
    Ends(&'a [u32]),
    /// All nodes in which stacks end.
    AllEnds,
    /// Programs that share a frame, which is zoomed into: they stand on it themselves.
    Programs(Vec<(u32, Both)>),
}

/// Frames with one name under one parent.
struct Group<'a> {
    name: u32,
    /// How many programs share the frame that bears this one's name; 0 for a frame of its own.
    small: usize,
    class: Class,
    own: Both,
    total: Both,
    members: Members<'a>,
}

impl<'a> Group<'a> {
    /// The frame that several share.
    fn shared(tree: &FlameTree, small: Vec<Self>) -> Option<Self> {
        let (name, class) = small.first().map(|first| (first.name, first.class))?;
        let mut all = Self {
            name,
            small: small.len(),
            class,
            own: Both::default(),
            total: Both::default(),
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

    /// What a zoom into it shows: of programs that share a frame these.
    fn entered(self) -> Self {
        match self.members {
            Members::List(list) if self.small > 0 => Self { members: Members::Programs(list), ..self },
            _ => self,
        }
    }
}

/// Neighbours that are too narrow to draw.
struct Pool<'a> {
    /// The width of their siblings before them.
    from: u128,
    sum: Both,
    frames: Vec<Group<'a>>,
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
    let matches: Vec<bool> =
        tree.names().iter().map(|n| pattern.as_ref().is_some_and(|p| p.is_match(&n.text))).collect();
    let mut l = Layout { tree, spec, matches, slots: vec![u32::MAX; tree.names().len()], out: Flame::default() };
    (l.out.versus, l.out.scale, l.out.sides) = (tree.per(), tree.scale(), tree.seconds());
    if tree.is_empty() {
        return l.out;
    }
    l.out.total = tree.total(0);
    l.out.frames = tree.frames();
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
        let mut base = Group { name: u32::MAX, small: 0, class: Class::Thread, own: Both::default(), total, members };
        let (mut spot, spec) = (self.ground(), self.spec);
        for (row, name) in (0..).zip(&spec.zoom) {
            let groups = self.standing_on(&base, step, spot);
            let is_meant = |g: &Group<'_>| match g.small {
                0 => *self.tree.names()[g.name as usize].text == **name,
                _ => **name == *SMALL,
            };
            let Some(next) = groups.into_iter().find(is_meant) else { break };
            spot = self.put(&next, base.total, spot, row);
            base = next.entered();
            self.out.zoom.push(name.clone());
        }
        self.out.zoomed = base.total;
        let row = self.out.zoom.len() as i32;
        self.fill(base, spot, step, row..row + i32::from(self.spec.height));
        self.count_drawn();
    }

    /// All of the width, and nothing below.
    fn ground(&self) -> Spot {
        Spot { block: None, x0: 0, x1: u32::from(self.spec.width) * CELL as u32 }
    }

    /// Draws a group as a block; `at` is what it stands on and where. Returns its own spot.
    fn put(&mut self, group: &Group<'a>, parent: Both, at: Spot, row: i32) -> Spot {
        let tree = self.tree;
        let name = &tree.names()[group.name as usize];
        let block = Block {
            id: match group.small {
                0 => self.id(at.block, (&name.text, &name.dso), row),
                _ => self.id(at.block, SMALL, row),
            },
            row,
            x0: at.x0,
            x1: at.x1,
            name: match group.small {
                0 => name.text.clone(),
                small => format!("{} +{}", name.text, small - 1).into(),
            },
            dso: name.dso.clone(),
            class: group.class,
            own: group.own,
            total: group.total,
            parent,
            verdict: self.verdict(group.total),
            below: at.block,
            pooled: 0,
            small: group.small,
            processes: 0,
            found: self.matches[group.name as usize],
        };
        self.out.blocks.push(block);
        Spot { block: Some(self.out.blocks.len() - 1), ..at }
    }

    /// The same for the same path, whatever its weight.
    fn id(&self, below: Option<usize>, what: impl std::hash::Hash, row: i32) -> u64 {
        use std::hash::BuildHasher;
        let base = below.map_or(0, |i| self.out.blocks[i].id);
        rustc_hash::FxBuildHasher.hash_one((base, what, row))
    }

    /// Lays out what stands on a group, level by level.
    fn fill(&mut self, base: Group<'a>, spot: Spot, step: Step, rows: impl Iterator<Item = i32>) {
        let mut level = vec![(base, spot)];
        for row in rows {
            let mut next = Vec::new();
            for (group, spot) in level {
                self.children(&group, spot, step, row, &mut next);
            }
            if next.is_empty() {
                return;
            }
            level = next;
        }
    }

    /// Draws what stands on one group, in one row.
    fn children(&mut self, group: &Group<'a>, spot: Spot, step: Step, row: i32, next: &mut Vec<(Group<'a>, Spot)>) {
        let (width, whole) = (u128::from(spot.x1 - spot.x0), self.width(group.total).max(1));
        let at = |sum: u128| spot.x0 + ((width * sum + whole / 2) / whole) as u32;
        let mut sum = 0u128;
        let mut pool: Option<Pool<'a>> = None;
        for child in self.standing_on(group, step, spot) {
            let weight = self.width(child.total);
            if width * weight < u128::from(CELL) * whole {
                let pool = pool.get_or_insert(Pool { from: sum, sum: Both::default(), frames: Vec::new() });
                pool.sum += child.total;
                pool.frames.push(child);
            } else {
                if let Some(pool) = pool.take() {
                    let here = Spot { x0: at(pool.from), x1: at(sum), ..spot };
                    next.extend(self.pool(pool, group.total, here, row));
                }
                let here = Spot { x0: at(sum), x1: at(sum + weight), ..spot };
                let here = self.put(&child, group.total, here, row);
                next.push((child, here));
            }
            sum += weight;
        }
        if let Some(pool) = pool {
            let here = Spot { x0: at(pool.from), x1: at(sum), ..spot };
            next.extend(self.pool(pool, group.total, here, row));
        }
    }

    /// Draws neighbours as one block; where it has room for more, what they have in common stands on it.
    fn pool(&mut self, pool: Pool<'a>, parent: Both, at: Spot, row: i32) -> Option<(Group<'a>, Spot)> {
        if at.x1 <= at.x0 {
            return None;
        }
        let frames = pool.frames.len();
        self.out.blocks.push(Block {
            id: self.id(at.block, ("others", at.x0), row),
            row,
            x0: at.x0,
            x1: at.x1,
            name: format!("{frames} others").into(),
            dso: "".into(),
            class: Class::Unknown,
            own: Both::default(),
            total: pool.sum,
            parent,
            verdict: self.verdict(pool.sum),
            below: at.block,
            pooled: frames,
            small: 0,
            processes: 0,
            found: false,
        });
        let here = Spot { block: Some(self.out.blocks.len() - 1), ..at };
        let has_room = u64::from(at.x1 - at.x0) >= CELL;
        Some((Group::shared(self.tree, pool.frames)?, here)).filter(|_| has_room)
    }

    /// The groups that stand on a group. Programs do by weight, and those too small for a frame of their own share one.
    fn standing_on(&mut self, group: &Group<'a>, step: Step, spot: Spot) -> Vec<Group<'a>> {
        let mut groups = self.expand(group, step);
        let ground = matches!(&group.members, Members::List(list) if matches!(list[..], [(0, _)]));
        if step != Step::Callees || !ground && !matches!(group.members, Members::Programs(_)) {
            return groups;
        }
        let tree = self.tree;
        let width = |g: &Group<'_>| tree.width(g.total);
        groups.sort_by(|a, b| width(b).cmp(&width(a)).then_with(|| tree.by_name(a.name, b.name)));
        let (cells, whole) = (u128::from(spot.x1 - spot.x0), self.width(group.total).max(1));
        let large = groups.partition_point(|g| cells * width(g) >= PROGRAM * whole);
        if groups.len() - large > 1 {
            let small = groups.split_off(large);
            groups.extend(Group::shared(tree, small));
        }
        groups
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
                    small: 0,
                    class: tree.class(node),
                    own: Both::default(),
                    total: Both::default(),
                    members: Members::List(Vec::new()),
                });
                lists.push(Vec::new());
            }
            let group = &mut groups[*slot as usize];
            group.class = group.class.min(tree.class(node));
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
                tree.children(node).for_each(|c| put(slots, c, tree.total(c), tree.own(c)));
            }
        };
        match &group.members {
            Members::List(list) => list.iter().for_each(|(node, through)| go(*node, *through)),
            Members::Ends(nodes) => nodes.iter().for_each(|node| go(*node, tree.own(*node))),
            Members::Programs(list) => {
                list.iter().for_each(|(node, through)| put(slots, *node, *through, tree.own(*node)))
            }
            Members::AllEnds => {}
        }
        groups.iter_mut().zip(lists).for_each(|(group, list)| group.members = Members::List(list));
        groups.iter().for_each(|g| self.slots[g.name as usize] = u32::MAX);
        if self.spec.by_weight {
            let width = |g: &Group<'_>| tree.width(g.total);
            groups.sort_by(|a, b| width(b).cmp(&width(a)).then_with(|| tree.by_name(a.name, b.name)));
        } else {
            groups.sort_by(|a, b| tree.by_name(a.name, b.name));
        }
        groups
    }

    /// The ends of all stacks by name, in the order of the spec.
    fn ends(&self) -> Vec<Group<'a>> {
        let leaves = self.tree.leaves();
        let group = |i: usize| {
            let leaf = leaves.groups[i];
            let members = Members::Ends(leaves.nodes(i));
            Group { name: leaf.name, small: 0, class: leaf.class, own: leaf.total, total: leaf.total, members }
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
        let is: Vec<bool> = tree.names().iter().map(|n| pattern.is_match(&n.text)).collect();
        let mut inside = vec![false; tree.len()];
        let mut members = Vec::new();
        for n in 1..tree.len() as u32 {
            let (up, own) = (inside[tree.parent(n) as usize], is[tree.name(n) as usize] && tree.parent(n) != 0);
            if own && !up && !tree.total(n).is_zero() {
                members.push((n, tree.total(n)));
            }
            inside[n as usize] = up || own;
        }
        if members.is_empty() {
            return;
        }
        let total = members.iter().map(|(_, both)| *both).sum();
        let own = members.iter().map(|(n, _)| tree.own(*n)).sum();
        // Of several names the first by the alphabet.
        let names = members.iter().map(|(n, _)| tree.name(*n));
        let name = names.min_by(|a, b| tree.by_name(*a, *b)).unwrap_or_default();
        let classes = members.iter().filter(|(n, _)| tree.name(*n) == name).map(|(n, _)| tree.class(*n));
        let anchor = Group {
            name,
            small: 0,
            class: classes.min().unwrap_or(Class::Unknown),
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
        let callers = Group { members: Members::List(members), ..anchor };
        self.fill(anchor, spot, Step::Callees, 1..half);
        self.fill(callers, spot, Step::Callers, (1..half).map(|row| -row));
        self.count_drawn();
    }

    fn count_drawn(&mut self) {
        let width = |both: Both| self.width(both) as f64;
        let zoomed = width(self.out.zoomed).max(1.0);
        let ends: f64 = match self.spec.way {
            // Callers: every stack whose last caller is drawn.
            Way::Leaves => {
                let last = self.out.blocks.iter().filter(|b| b.class == Class::Thread);
                last.map(|b| width(b.total)).sum()
            }
            // Pools and callers have no weight of their own.
            _ => {
                let skip = self.out.zoom.len().saturating_sub(1);
                self.out.blocks.iter().skip(skip).map(|b| width(b.own)).sum()
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
    /// Says how many processes the programs on the ground have.
    pub fn count_processes(&mut self, counts: &FxHashMap<Arc<str>, usize>) {
        for block in self.blocks.iter_mut().filter(|block| block.class == Class::Thread && block.small == 0) {
            block.processes = counts.get(&block.name).copied().unwrap_or(0);
        }
    }

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
        if new == old { 0.0 } else { (new - old) / (new + old) }
    }
}

#[cfg(test)]
mod tests;
