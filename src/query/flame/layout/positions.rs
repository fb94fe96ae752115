//! Computes the positions of blocks from a tree, row by row, from cumulative sums.

use crate::query::diff::{Verdict, verdict_among};
use crate::query::flame::{Class, FlameTree, WeightPair};
use crate::query::search::{pattern, shown};

use super::group::{FrameGroup, GroupMembers, GroupStep};
use super::{Flame, FlameBlock, FlameDirection, FlameSpec, SMALL};

pub(super) const CELL: u64 = 8;

/// The position of a group: its block, depth, and eighths of a cell.
#[derive(Clone, Copy)]
pub(super) struct BlockPlace {
    pub(super) block: Option<usize>,
    pub(super) id: u64,
    /// Frames from the anchor, as if none shared a row.
    pub(super) depth: i32,
    pub(super) x0: u32,
    pub(super) x1: u32,
}

/// A drawn group, with the groups on top of it if they were expanded.
pub(super) struct PlacedGroup<'a> {
    pub(super) group: FrameGroup<'a>,
    pub(super) spot: BlockPlace,
    pub(super) above: Option<Vec<FrameGroup<'a>>>,
}

pub(super) struct FlameLayout<'a> {
    pub(super) tree: &'a FlameTree,
    pub(super) spec: &'a FlameSpec,
    pub(super) matches: Vec<bool>,
    /// Slot of each name while children are grouped; `u32::MAX` between uses.
    pub(super) slots: Vec<u32>,
    /// Weight in frames that share a row with the next one, and in frames narrower than a cell.
    pub(super) passed: WeightPair,
    pub(super) narrow: WeightPair,
    /// The frames furthest from the anchor: of callers, and of callees.
    pub(super) up: usize,
    pub(super) down: usize,
    pub(super) out: Flame,
}

/// Returns an ID for a path, independent of its weight.
pub(super) fn id(below: u64, what: impl std::hash::Hash, depth: i32) -> u64 {
    use std::hash::BuildHasher;
    rustc_hash::FxBuildHasher.hash_one((below, what, depth))
}

/// Lays out a tree.
pub fn layout(tree: &FlameTree, spec: &FlameSpec) -> Flame {
    let pattern = spec.find.as_ref().and_then(|text| pattern(text).ok());
    let matches: Vec<bool> =
        tree.names().iter().map(|n| pattern.as_ref().is_some_and(|p| p.is_match(&n.text))).collect();
    let mut l = FlameLayout {
        tree,
        spec,
        matches,
        slots: vec![u32::MAX; tree.names().len()],
        passed: WeightPair::default(),
        narrow: WeightPair::default(),
        up: 0,
        down: 0,
        out: Flame::default(),
    };
    (l.out.compared, l.out.partner) = (tree.comparison(), tree.partner());
    if tree.is_empty() {
        return l.out;
    }
    l.out.total = tree.total(0);
    l.out.frames = tree.frames();
    if pattern.is_some() {
        l.out.found = Some(tree.share(&l.matches));
    }
    match &spec.way {
        FlameDirection::Roots => {
            l.tower(GroupMembers::List(vec![(0, tree.total(0))]), tree.total(0), GroupStep::Callees)
        }
        FlameDirection::Leaves => {
            l.tower(GroupMembers::AllEnds, tree.leaves().total, GroupStep::Callers);
        }
        FlameDirection::Around(text) => l.sandwich(&text.clone()),
    }
    l.out
}

impl<'a> FlameLayout<'a> {
    /// Lays out the graph in one direction. The zoomed frame is as wide as the screen.
    pub(super) fn tower(&mut self, members: GroupMembers<'a>, total: WeightPair, step: GroupStep) {
        let mut base =
            FrameGroup { name: u32::MAX, small: 0, class: Class::Thread, own: WeightPair::default(), total, members };
        let (mut spot, spec) = (self.ground(), self.spec);
        for (row, name) in (0..).zip(&spec.zoom) {
            let groups = self.standing_on(&base, step, spot);
            let is_meant = |g: &FrameGroup<'_>| match g.small {
                0 => *self.tree.names()[g.name as usize].text == **name,
                _ => **name == *SMALL,
            };
            let Some(next) = groups.into_iter().find(is_meant) else { break };
            spot = self.put(&next, Vec::new(), base.total, BlockPlace { depth: row, ..spot }, row);
            base = next.entered();
            self.out.zoom.push(name.clone());
        }
        self.out.zoomed = base.total;
        let row = self.out.zoom.len() as i32;
        self.fill(base, spot, step, row..row + i32::from(self.spec.height));
        self.count_drawn();
    }

    pub(super) fn ground(&self) -> BlockPlace {
        BlockPlace { block: None, id: 0, depth: -1, x0: 0, x1: u32::from(self.spec.width) * CELL as u32 }
    }

    /// Draws a group as a block, with `chain` in its row, at the position `at`. Returns the position of the block.
    pub(super) fn put(
        &mut self,
        group: &FrameGroup<'a>,
        chain: Vec<u32>,
        parent: WeightPair,
        at: BlockPlace,
        row: i32,
    ) -> BlockPlace {
        let tree = self.tree;
        let name = &tree.names()[group.name as usize];
        let block = FlameBlock {
            id: match group.small {
                0 => id(at.id, (&name.text, &name.dso), at.depth),
                _ => id(at.id, SMALL, at.depth),
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
            found: self.matches[group.name as usize] || chain.iter().any(|name| self.matches[*name as usize]),
            chain: chain.into_iter().map(|name| tree.names()[name as usize].text.clone()).collect(),
            pooled: 0,
            small: group.small,
            processes: 0,
        };
        let spot = BlockPlace { block: Some(self.out.blocks.len()), id: block.id, ..at };
        self.out.blocks.push(block);
        self.reach(at.depth);
        spot
    }

    /// Updates the extent, counting rows as if no frames shared one.
    pub(super) fn reach(&mut self, depth: i32) {
        let of = if depth < 0 { &mut self.up } else { &mut self.down };
        *of = (*of).max(depth.unsigned_abs() as usize);
    }

    /// Lays out the groups on top of a group, level by level.
    pub(super) fn fill(
        &mut self,
        base: FrameGroup<'a>,
        spot: BlockPlace,
        step: GroupStep,
        rows: impl Iterator<Item = i32>,
    ) {
        let mut level = vec![PlacedGroup { group: base, spot, above: None }];
        for row in rows {
            let mut next = Vec::new();
            for placed in level {
                self.children(placed, step, row, &mut next);
            }
            if next.is_empty() {
                return;
            }
            level = next;
        }
    }

    /// Draws the groups on top of a group in one row: those that are wide enough, then modules, then the rest.
    pub(super) fn children(&mut self, on: PlacedGroup<'a>, step: GroupStep, row: i32, next: &mut Vec<PlacedGroup<'a>>) {
        let PlacedGroup { group, spot, above } = on;
        let above = above.unwrap_or_else(|| self.standing_on(&group, step, spot));
        let (width, whole) = (u128::from(spot.x1 - spot.x0), self.width(group.total).max(1));
        let at = |sum: u128| spot.x0 + ((width * sum + whole / 2) / whole) as u32;
        let (wide, narrow): (Vec<_>, Vec<_>) =
            above.into_iter().partition(|child| width * self.width(child.total) >= u128::from(CELL) * whole);
        let depth = spot.depth + if step == GroupStep::Callees { 1 } else { -1 };
        let mut sum = 0u128;
        for child in wide {
            let (from, total) = (sum, child.total);
            sum += self.width(total);
            let here = BlockPlace { x0: at(from), x1: at(sum), depth, ..spot };
            next.push(self.place(child, group.total, here, step, row));
        }
        for pool in self.pools(narrow, width, whole) {
            let from = sum;
            sum += self.width(pool.sum);
            let here = BlockPlace { x0: at(from), x1: at(sum), depth, ..spot };
            next.extend(self.pool(pool, group.total, here, row));
        }
    }

    /// Draws a group, and in its row the successors that get all but half a cell of it. Returns the last of them.
    pub(super) fn place(
        &mut self,
        child: FrameGroup<'a>,
        parent: WeightPair,
        at: BlockPlace,
        step: GroupStep,
        row: i32,
    ) -> PlacedGroup<'a> {
        let (mut child, mut at, mut chain, mut above) = (child, at, Vec::new(), None);
        while chain.len() + 1 < self.spec.frames_per_row && child.class != Class::Thread {
            let list = self.expand(&child, step);
            let cells = u128::from(at.x1 - at.x0);
            let whole = self.width(child.total).max(1);
            let goes_on = |g: &FrameGroup<'a>| {
                g.class == child.class && 2 * cells * (whole - self.width(g.total)) <= u128::from(CELL) * whole
            };
            let Some(i) = list.iter().position(goes_on) else {
                above = Some(list);
                break;
            };
            self.passed += child.own;
            list.iter().enumerate().filter(|(other, _)| *other != i).for_each(|(_, other)| self.narrow += other.total);
            let Some(next) = list.into_iter().nth(i) else { break };
            let name = &self.tree.names()[child.name as usize];
            at.id = id(at.id, (&name.text, &name.dso), at.depth);
            at.depth += if step == GroupStep::Callees { 1 } else { -1 };
            at.x1 = at.x0 + ((cells * self.width(next.total) + whole / 2) / whole) as u32;
            chain.push(child.name);
            child = next;
        }
        let spot = self.put(&child, chain, parent, at, row);
        PlacedGroup { group: child, spot, above }
    }

    /// Lays out callers above and callees below. Only the outermost occurrences count, so that each stack counts once.
    pub(super) fn sandwich(&mut self, text: &str) {
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
        // Of several names, the first one alphabetically.
        let names = members.iter().map(|(n, _)| tree.name(*n));
        let name = names.min_by(|a, b| tree.by_name(*a, *b)).unwrap_or_default();
        let classes = members.iter().filter(|(n, _)| tree.name(*n) == name).map(|(n, _)| tree.class(*n));
        let anchor = FrameGroup {
            name,
            small: 0,
            class: classes.min().unwrap_or(Class::Unknown),
            own,
            total,
            members: GroupMembers::List(members.clone()),
        };
        self.out.zoomed = total;
        let ground = self.ground();
        let spot = self.put(&anchor, Vec::new(), self.out.total, BlockPlace { depth: 0, ..ground }, 0);
        if members.iter().any(|(n, _)| tree.name(*n) != anchor.name) {
            self.out.blocks[0].name = shown(text).into();
        }
        let half = (i32::from(self.spec.height) / 2).max(2);
        let callers = FrameGroup { members: GroupMembers::List(members), ..anchor };
        self.fill(anchor, spot, GroupStep::Callees, 1..half);
        // The figures refer to the callees.
        let narrow = self.narrow;
        self.fill(callers, spot, GroupStep::Callers, (1..half).map(|row| -row));
        self.narrow = narrow;
        self.count_drawn();
    }

    pub(super) fn count_drawn(&mut self) {
        let width = |both: WeightPair| self.width(both) as f64;
        let zoomed = width(self.out.zoomed).max(1.0);
        let skip = self.out.zoom.len().saturating_sub(1);
        let own = |of: &dyn Fn(&FlameBlock) -> bool| -> f64 {
            self.out.blocks.iter().skip(skip).filter(|b| of(b)).map(|b| width(b.own)).sum()
        };
        let (named, modules) = match self.spec.way {
            // Callers do not have weight of their own: every stack counts whose last caller is drawn.
            FlameDirection::Leaves => {
                let last = self.out.blocks.iter().filter(|b| b.class == Class::Thread);
                (last.map(|b| width(b.total)).sum(), 0.0)
            }
            _ => (own(&|b| b.pooled == 0) + width(self.passed), own(&FlameBlock::is_module)),
        };
        let drawn = named + modules + width(self.narrow);
        self.out.named = (100.0 * named / zoomed).min(100.0);
        self.out.drawn = (100.0 * drawn / zoomed).min(100.0);
        self.out.depth = self.up + self.down + 1;
        let far = |side: i32| self.out.blocks.iter().map(|b| side * b.row).max().unwrap_or(0).max(0) as usize;
        self.out.rows = far(1) + far(-1) + 1;
    }

    pub(super) fn width(&self, both: WeightPair) -> u128 {
        self.tree.width(both)
    }

    pub(super) fn verdict(&self, total: WeightPair) -> Option<Verdict> {
        let stand_for = self.out.compared?.stand_for;
        let whole = self.out.total;
        Some(verdict_among((total.old, whole.old), (total.new, whole.new), stand_for))
    }
}
