//! A flame graph as blocks on a grid of cells: what of a tree can be seen. Positions come from
//! cumulative sums in eighths of a cell, so that they are nowhere off by more than half of one;
//! what is too narrow to draw is pooled with others of its module and said. Where a graph is deeper than
//! the screen, frames with one way on share a row.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Class, Edit, WeightPair};
use crate::query::diff::{NormalizeBy, Verdict};
use crate::query::ipc::Partner;

mod expand;
mod group;
mod pool;
mod positions;

pub use positions::layout;

/// The direction in which stacks are followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FlameDirection {
    /// From the root to the leaves.
    #[default]
    Roots,
    /// From the leaves to their callers.
    Leaves,
    /// From every occurrence of these functions (by regular expression): callers above, callees below.
    Around(String),
}

/// The wanted part of a flame graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameSpec {
    /// The end of stacks at which the graph begins.
    pub way: FlameDirection,
    /// Names from the root of the view to the zoomed frame.
    pub zoom: Vec<Arc<str>>,
    /// The changes to stacks before they are drawn.
    pub edits: Vec<Edit>,
    /// Cells.
    pub width: u16,
    /// Rows of cells.
    pub height: u16,
    /// Siblings by weight, or by name so that they keep their places while weights change.
    pub by_weight: bool,
    /// Names to be found, by regular expression.
    pub find: Option<String>,
    /// How many frames with one way on may share a row; 1 where each has its own.
    pub a_row: usize,
}

/// A frame as drawn, or several that are too narrow for themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The same for the same frame in later answers.
    pub(crate) id: u64,
    /// Row from the anchor: callers of a sandwich are above, at negative rows.
    pub(crate) row: i32,
    /// Eighths of a cell.
    pub(crate) x0: u32,
    pub(crate) x1: u32,
    pub(crate) name: Arc<str>,
    pub(crate) dso: Arc<str>,
    pub(crate) class: Class,
    pub(crate) own: WeightPair,
    pub(crate) total: WeightPair,
    /// The weight of the frame that it stands on.
    pub(crate) parent: WeightPair,
    /// Whether its share of everything has changed; `None` when nothing is compared.
    pub(crate) verdict: Option<Verdict>,
    /// Index of the block that it stands on; none for those that stand on the ground.
    pub(crate) below: Option<usize>,
    /// The frames that share its row, from the root on: all but half a cell of each goes on to the next, and this one
    /// is the last.
    pub(crate) chain: Vec<Arc<str>>,
    /// How many frames are pooled; 0 for a frame of its own. With a DSO all of them are that module's.
    pub(crate) pooled: usize,
    /// How many programs too small for a frame of their own share this one; 0 for all other frames.
    pub(crate) small: usize,
    /// How many processes a program's frame is of, where that is known.
    pub(crate) processes: usize,
    pub(crate) found: bool,
}

impl Block {
    /// True if it is drawn for several frames of one module.
    pub(crate) fn is_module(&self) -> bool {
        self.pooled > 0 && !self.dso.is_empty()
    }
}

/// A flame graph, ready to be drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    pub(crate) blocks: Vec<Block>,
    /// The weight of everything, and of what is zoomed into.
    pub(crate) total: WeightPair,
    pub(crate) zoomed: WeightPair,
    /// Share of the zoomed weight whose stacks are drawn as far as cells allow, in percent: to the last frame, to the
    /// module of it, or to where less than a cell is left. The rest is cut off or has no name.
    pub(crate) drawn: f64,
    /// Share of the zoomed weight whose last frame is drawn with its own name, in percent.
    pub(crate) named: f64,
    /// How many rows it takes, and how many it would where no two frames share one.
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    /// What the search found: its share of everything (each stack once), and how many frames.
    pub(crate) found: Option<(WeightPair, usize)>,
    /// The zoom that still exists.
    pub(crate) zoom: Vec<Arc<str>>,
    /// Frames in all.
    pub(crate) frames: usize,
    /// What it is compared with, in words; `None` when with nothing.
    pub(crate) versus: Option<NormalizeBy>,
    /// By what weights of now and then are multiplied to become widths.
    pub(crate) scale: (u64, u64),
    /// How many seconds it was then and is now.
    pub(crate) sides: (f64, f64),
    /// The event that tells instructions a cycle together with the one that is drawn, where that is asked for.
    pub(crate) partner: Option<Partner>,
}

/// The name in a zoom of the frame that small programs share: what it shows changes from second to second.
pub(crate) const SMALL: &str = "small programs";

impl Flame {
    /// Says how many processes the programs on the ground have.
    pub(crate) fn count_processes(&mut self, counts: &FxHashMap<Arc<str>, usize>) {
        for block in self.blocks.iter_mut().filter(|block| block.class == Class::Thread && block.small == 0) {
            block.processes = counts.get(&block.name).copied().unwrap_or(0);
        }
    }

    /// A weight then and now, in the unit of the comparison.
    pub(crate) fn values(&self, both: WeightPair) -> (f64, f64) {
        match (self.versus, self.sides) {
            (Some(NormalizeBy::Total), _) => {
                (both.old.percent_of(&self.total.old), both.new.percent_of(&self.total.new))
            }
            (Some(NormalizeBy::Second), (old, new)) => {
                let each = |period: u64, seconds: f64| if seconds > 0.0 { period as f64 / seconds } else { 0.0 };
                (each(both.old.period, old), each(both.new.period, new))
            }
            _ => (both.old.period as f64, both.new.period as f64),
        }
    }

    /// Instructions a cycle of a weight; `None` where nothing tells.
    pub(crate) fn ipc(&self, both: WeightPair) -> Option<f64> {
        self.partner?.ipc(both.new, both.partner)
    }

    /// The share of a frame's width that is difference: none when nothing changed, all when it is new or
    /// gone. Both sides scaled as the comparison says.
    pub(crate) fn changed(&self, both: WeightPair) -> f64 {
        let (new, old) = (both.new.period as f64 * self.scale.0 as f64, both.old.period as f64 * self.scale.1 as f64);
        if new == old { 0.0 } else { (new - old) / (new + old) }
    }
}

#[cfg(test)]
mod tests;
