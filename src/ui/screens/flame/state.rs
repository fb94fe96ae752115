//! The state of the flame graph: zoom, cursor and edits.

use std::sync::Arc;

use crate::panel::row_order::arrange_by_key;
use crate::query::flame::layout::{Flame, FlameBlock, FlameDirection, FlameSpec, SMALL};
use crate::query::flame::{Class, Edit};
use crate::query::search::shown;

/// The drawn stacks, and their edits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlameView {
    pub(crate) way: FlameDirection,
    /// Symbols from the root to the zoomed frame.
    pub zoom: Vec<Arc<str>>,
    /// Edits of the stacks, in order.
    pub edits: Vec<Edit>,
}

/// The flame graph screen.
#[derive(Clone, Debug)]
pub struct FlameState {
    /// The drawn stacks.
    pub place: FlameView,
    /// Whether the root is at the top.
    pub(crate) icicle: bool,
    /// Whether colours show instructions per cycle.
    pub(crate) by_ipc: bool,
    pub(crate) find: Option<String>,
    /// The block under the cursor, by id.
    pub(crate) cursor: Option<u64>,
    /// A search has started: the cursor goes to the first match.
    pub(crate) seeks: bool,
    /// Maximum number of frames with a single child that share a row: above one if the graph is deeper than the screen.
    pub(crate) frames_per_row: usize,
}

impl Default for FlameState {
    fn default() -> Self {
        Self {
            place: FlameView::default(),
            icicle: true,
            by_ipc: false,
            find: None,
            cursor: None,
            seeks: false,
            frames_per_row: 1,
        }
    }
}

/// Upper limit of frames that share a row.
const MOST_PER_ROW: usize = 64;
/// Rows of the path to the zoomed frame that stay visible.
const PATH: usize = 3;

impl FlameState {
    /// Returns this screen's part of the question.
    pub fn spec(&self, width: u16, height: u16, by_weight: bool) -> FlameSpec {
        FlameSpec {
            way: self.place.way.clone(),
            zoom: self.place.zoom.clone(),
            edits: self.place.edits.clone(),
            width,
            height,
            by_weight,
            find: self.find.clone(),
            frames_per_row: self.frames_per_row,
        }
    }

    /// Adapts the number of frames per row, but not with every sample: more while the graph is deeper than the screen,
    /// fewer only if twice the rows would fit, one if all frames take at most three quarters of the height.
    pub(crate) fn fit(&mut self, flame: &Flame, height: u16) {
        let (height, above) = (usize::from(height), flame.zoom.len().saturating_sub(PATH));
        let rows = flame.rows.saturating_sub(above);
        if 4 * flame.depth.saturating_sub(above) <= 3 * height {
            self.frames_per_row = 1;
        } else if rows > height && self.frames_per_row < MOST_PER_ROW {
            self.frames_per_row *= 2;
        } else if 2 * rows <= height && self.frames_per_row > 1 {
            self.frames_per_row /= 2;
        }
    }

    /// Changes the place; the cursor then returns to the zoomed frame.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut FlameView)) {
        let before = self.place.clone();
        change(&mut self.place);
        if self.place != before {
            self.cursor = None;
        }
    }

    /// Returns the block under the cursor. Returns the zoomed frame or the first one if it disappeared.
    pub(crate) fn index(&self, flame: &Flame) -> Option<usize> {
        let by_id = self.cursor.and_then(|id| flame.blocks.iter().position(|b| b.id == id));
        let start = flame.zoom.len().saturating_sub(1).min(flame.blocks.len().saturating_sub(1));
        by_id.or((!flame.blocks.is_empty()).then_some(start))
    }

    pub(crate) fn block<'a>(&self, flame: &'a Flame) -> Option<&'a FlameBlock> {
        flame.blocks.get(self.index(flame)?)
    }

    /// Moves to the next block in the row, to the right (1) or left (-1).
    pub(crate) fn sideways(&mut self, flame: &Flame, step: i32) {
        let Some(at) = self.block(flame) else { return };
        let row = flame.blocks.iter().filter(|b| b.row == at.row && b.id != at.id);
        let next = if step > 0 {
            row.filter(|b| b.x0 >= at.x1).min_by_key(|b| b.x0)
        } else {
            row.filter(|b| b.x1 <= at.x0).max_by_key(|b| b.x1)
        };
        self.cursor = next.or(Some(at)).map(|b| b.id);
    }

    /// Moves along the stack: away from the root (1) or towards it (-1). In a sandwich, down or up.
    pub(crate) fn along(&mut self, flame: &Flame, step: i32) {
        let Some(at) = self.block(flame) else { return };
        let row = flame.blocks.iter().filter(|b| b.row == at.row + step);
        let middle = (at.x0 + at.x1) / 2;
        let over = |b: &&FlameBlock| b.x0 <= middle && middle < b.x1;
        let touching: Vec<&FlameBlock> = row.filter(|b| b.x0 < at.x1 && at.x0 < b.x1).collect();
        // The widest child, or the parent.
        let wide = touching.iter().max_by_key(|b| (b.x1.min(at.x1) - b.x0.max(at.x0), std::cmp::Reverse(b.x0)));
        let next = if step > 0 { wide } else { touching.iter().find(|b| over(b)).or(wide) };
        self.cursor = next.map(|b| b.id).or(Some(at.id));
    }

    /// Moves along the stack by some rows, or to its end.
    pub(crate) fn far(&mut self, flame: &Flame, step: i32, rows: usize) {
        for _ in 0..rows {
            let before = self.block(flame).map(|b| b.id);
            self.along(flame, step);
            if self.cursor == before {
                return;
            }
        }
    }

    pub(crate) fn seek_found(&mut self, flame: &Flame) {
        if !self.block(flame).is_some_and(|block| block.found) {
            self.next_found(flame, 1);
        }
    }

    /// Goes to the next (1) or previous (-1) match, row by row.
    pub(crate) fn next_found(&mut self, flame: &Flame, step: i32) {
        let mut found: Vec<&FlameBlock> = flame.blocks.iter().filter(|b| b.found).collect();
        arrange_by_key(&mut found, |b| (b.row, b.x0));
        let Some(at) = self.block(flame) else { return };
        let here = (at.row, at.x0);
        let next = if step > 0 {
            found.iter().find(|b| (b.row, b.x0) > here).or(found.first())
        } else {
            found.iter().rev().find(|b| (b.row, b.x0) < here).or(found.last())
        };
        self.cursor = next.map(|b| b.id).or(self.cursor);
    }

    /// Returns the block at a cell of the graph.
    pub(crate) fn at(&self, flame: &Flame, column: u16, row: i32) -> Option<u64> {
        let x = u32::from(column) * 8 + 4;
        flame.blocks.iter().find(|b| b.row == row && b.x0 <= x && x < b.x1).map(|b| b.id)
    }

    /// Returns the symbols from the root of the view to a block.
    pub(crate) fn names(&self, flame: &Flame, index: usize) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        let mut at = Some(index);
        while let Some(block) = at.map(|i| &flame.blocks[i]) {
            if block.small > 0 {
                names.push(SMALL.into());
            } else if block.pooled == 0 {
                names.push(block.name.clone());
                names.extend(block.chain.iter().rev().cloned());
            }
            at = block.below;
        }
        names.reverse();
        names
    }

    /// Returns the tree row at the top of the screen, for a graph of some height.
    pub(crate) fn first_row(&self, flame: &Flame, height: u16) -> i32 {
        if matches!(self.place.way, FlameDirection::Around(_)) {
            let above = flame.blocks.iter().map(|b| -b.row).max().unwrap_or(0);
            return -above.min(i32::from(height) / 2);
        }
        let path = flame.zoom.len().saturating_sub(PATH) as i32;
        let row = self.block(flame).map_or(0, |b| b.row);
        path.min(row).max(row + 1 - i32::from(height))
    }

    /// Returns the screen row of a tree row; `None` if it is not visible.
    pub(crate) fn y_of(&self, flame: &Flame, row: i32, height: u16) -> Option<u16> {
        let y = row - self.first_row(flame, height);
        let y = u16::try_from(y).ok().filter(|y| *y < height)?;
        let sandwich = matches!(self.place.way, FlameDirection::Around(_));
        Some(if self.icicle || sandwich { y } else { height - 1 - y })
    }

    /// Returns the number of deeper rows that are not visible, and the sign of their direction.
    pub(crate) fn hidden_rows(&self, flame: &Flame, height: u16) -> Option<(u32, char)> {
        let deepest = flame.blocks.iter().map(|block| block.row).max()?;
        let rows = u32::try_from(deepest + 1 - i32::from(height) - self.first_row(flame, height)).ok()?;
        let is_down = self.icicle || matches!(self.place.way, FlameDirection::Around(_));
        (rows > 0).then_some((rows, if is_down { '↓' } else { '↑' }))
    }

    pub(crate) fn edits_as_commands(&self) -> Vec<String> {
        let mut words: Vec<String> = self.place.edits.iter().map(Edit::as_command).collect();
        match &self.place.way {
            FlameDirection::Roots => {}
            FlameDirection::Leaves => words.push("leaves".into()),
            FlameDirection::Around(text) => words.push(format!("around {}", shown(text))),
        }
        words
    }
}

/// The class letters with their meaning, for the legend.
pub(crate) const LEGEND: &[(Class, &str)] = &[
    (Class::Kernel, "kernel"),
    (Class::Softirq, "softirq"),
    (Class::Irq, "hard irq"),
    (Class::User, "user"),
    (Class::Library, "library"),
    (Class::Jit, "jit"),
    (Class::Interpreted, "language"),
    (Class::Inlined, "inlined"),
    (Class::Unknown, "unknown"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_shared_until_the_graph_is_clearly_less_deep() {
        let mut view = FlameState::default();
        let mut fit = |rows, depth| {
            view.fit(&Flame { rows, depth, ..Flame::default() }, 20);
            view.frames_per_row
        };
        let steps = [(20, 20), (21, 21), (21, 40), (11, 40), (10, 40), (12, 16), (15, 15), (20, 20)];
        assert_eq!(steps.map(|(rows, depth)| fit(rows, depth)), [1, 2, 4, 4, 2, 2, 1, 1]);
        // Hidden rows of the path to the zoomed frame need no room.
        let zoom = vec!["f".into(); 10];
        view.fit(&Flame { rows: 27, depth: 27, zoom, ..Flame::default() }, 20);
        assert_eq!(view.frames_per_row, 1);
        (0..99).for_each(|_| view.fit(&Flame { rows: 99, depth: 9999, ..Flame::default() }, 20));
        assert_eq!(view.frames_per_row, MOST_PER_ROW);
    }

    #[test]
    fn rows_beyond_the_screen_are_counted() {
        let none = crate::query::flame::WeightPair::default();
        let block = |row: i32| FlameBlock {
            id: row as u64,
            row,
            x0: 0,
            x1: 8,
            name: "f".into(),
            dso: "f".into(),
            class: Class::User,
            own: none,
            total: none,
            parent: none,
            verdict: None,
            below: None,
            chain: Vec::new(),
            pooled: 0,
            small: 0,
            processes: 0,
            found: false,
        };
        let flame = Flame { blocks: (0..9).map(block).collect(), ..Flame::default() };
        let mut view = FlameState::default();
        assert_eq!((view.hidden_rows(&flame, 5), view.hidden_rows(&flame, 9)), (Some((4, '↓')), None));
        view.icicle = false;
        assert_eq!(view.hidden_rows(&flame, 5), Some((4, '↑')));
        assert_eq!(view.hidden_rows(&Flame::default(), 5), None);
    }
}
