//! Lays out the visible part of a flame graph as blocks on a grid of cells. Positions are cumulative sums in eighths of
//! a cell, so the error is at most half an eighth. Frames too narrow to draw are pooled with others of their module. If
//! a graph is deeper than the screen, frames with a single successor share a row.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Class, Comparison, Edit, WeightPair};
use crate::query::diff::{NormalizeBy, Verdict};
use crate::query::rows::partner::Partner;

mod expand;
mod group;
mod pool;
mod positions;

pub use positions::layout;

/// The direction of stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FlameDirection {
    /// From the root to the leaves.
    #[default]
    Roots,
    /// From the leaves to their callers.
    Leaves,
    /// From every occurrence of functions that match a regular expression. Callers are above, callees below.
    Around(String),
}

/// The requested part of a flame graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameSpec {
    /// The direction of stacks.
    pub way: FlameDirection,
    /// Names from the root of the view to the zoomed frame.
    pub zoom: Vec<Arc<str>>,
    /// The changes to stacks before the layout.
    pub edits: Vec<Edit>,
    /// Cells.
    pub width: u16,
    /// Rows of cells.
    pub height: u16,
    /// Sorts siblings by weight, else by name. By name, they keep their places while weights change.
    pub by_weight: bool,
    /// The search pattern for names, a regular expression.
    pub find: Option<String>,
    /// How many frames with a single successor may share a row; 1 for none.
    pub frames_per_row: usize,
}

/// A drawn frame, or several that are too narrow to be drawn separately.
#[derive(Clone, Debug, PartialEq)]
pub struct FlameBlock {
    /// The same for the same frame in later answers.
    pub(crate) id: u64,
    /// Row from the anchor: callers in a sandwich have negative rows.
    pub(crate) row: i32,
    /// Eighths of a cell.
    pub(crate) x0: u32,
    pub(crate) x1: u32,
    pub(crate) name: Arc<str>,
    pub(crate) dso: Arc<str>,
    pub(crate) class: Class,
    pub(crate) own: WeightPair,
    pub(crate) total: WeightPair,
    /// The weight of the frame below.
    pub(crate) parent: WeightPair,
    /// Whether its share of the total has changed; `None` without a comparison.
    pub(crate) verdict: Option<Verdict>,
    /// Index of the block below; `None` for base frames.
    pub(crate) below: Option<usize>,
    /// The frames that share its row, from the root on.
    /// Each passes all but half a cell to the next one, and this frame is the last.
    pub(crate) chain: Vec<Arc<str>>,
    /// The number of pooled frames; 0 for a separate frame. If it has a DSO, all of them belong to it.
    pub(crate) pooled: usize,
    /// The number of small programs that share this frame; 0 for all other frames.
    pub(crate) small: usize,
    /// The number of processes of a program's frame, if known.
    pub(crate) processes: usize,
    pub(crate) found: bool,
}

impl FlameBlock {
    /// Returns whether it represents several frames of one module.
    pub(crate) fn is_module(&self) -> bool {
        self.pooled > 0 && !self.dso.is_empty()
    }
}

/// A flame graph, ready to draw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flame {
    pub(crate) blocks: Vec<FlameBlock>,
    /// The total weight, and that of the zoomed frame.
    pub(crate) total: WeightPair,
    pub(crate) zoomed: WeightPair,
    /// Share of the zoomed weight whose stacks are drawn as far as cells allow. In percent; a stack is drawn to its
    /// last frame, to that frame's module, or to where less than a cell is left. The rest is cut off or unnamed.
    pub(crate) drawn: f64,
    /// Share of the zoomed weight whose last frame is drawn by name, in percent.
    pub(crate) named: f64,
    /// The number of rows, and the number without shared rows.
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    /// The search result: its share of the total, and the number of frames. Each stack counts once.
    pub(crate) found: Option<(WeightPair, usize)>,
    /// The part of the zoom that still exists.
    pub(crate) zoom: Vec<Arc<str>>,
    pub(crate) frames: usize,
    /// The comparison with a baseline, if there is one.
    pub(crate) compared: Option<Comparison>,
    /// The event for instructions per cycle with the drawn one, if requested.
    pub(crate) partner: Option<Partner>,
}

/// The zoom name of the frame shared by small programs. Its members change every second.
pub(crate) const SMALL: &str = "small programs";

impl Flame {
    pub(crate) fn count_processes(&mut self, counts: &FxHashMap<Arc<str>, usize>) {
        for block in self.blocks.iter_mut().filter(|block| block.class == Class::Thread && block.small == 0) {
            block.processes = counts.get(&block.name).copied().unwrap_or(0);
        }
    }

    /// Returns the baseline's and the current weight, in the unit of the comparison.
    pub(crate) fn values(&self, both: WeightPair) -> (f64, f64) {
        match self.compared {
            Some(Comparison { per: NormalizeBy::Total, .. }) => {
                (both.old.percent_of(&self.total.old), both.new.percent_of(&self.total.new))
            }
            Some(Comparison { per: NormalizeBy::Second, seconds: (old, new), .. }) => {
                let each = |period: u64, seconds: f64| if seconds > 0.0 { period as f64 / seconds } else { 0.0 };
                (each(both.old.period, old), each(both.new.period, new))
            }
            _ => (both.old.period as f64, both.new.period as f64),
        }
    }

    pub(crate) fn ipc(&self, both: WeightPair) -> Option<f64> {
        self.partner?.ipc(both.new, both.partner)
    }

    /// Returns the share of a frame's width that differs, normalized: 0 if unchanged, 1 if new or gone.
    pub(crate) fn changed(&self, both: WeightPair) -> f64 {
        let scale = self.compared.map_or((1, 0), |compared| compared.scale);
        let (new, old) = (both.new.period as f64 * scale.0 as f64, both.old.period as f64 * scale.1 as f64);
        if new == old { 0.0 } else { (new - old) / (new + old) }
    }
}

#[cfg(test)]
mod tests;
