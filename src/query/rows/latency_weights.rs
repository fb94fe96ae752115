//! Each row's own weight in the latency profile.

use rustc_hash::FxHashMap;

use crate::profile::Acc;
use crate::query::column::RowGroup;

use super::top::{Top, TopRow};

/// The weights of a table's rows in another event, by group and label.
#[derive(Debug, Default)]
pub(crate) struct LatencyWeights {
    rows: FxHashMap<(u32, u32), Acc>,
    /// The sum of the other event.
    pub(crate) whole: Acc,
}

impl LatencyWeights {
    /// Finds the rows of `top` in `other`, a table of another event with the same keys.
    pub(crate) fn of(top: &Top, other: &Top) -> Self {
        let groups: FxHashMap<&RowGroup, u32> = top.groups.iter().map(|group| &**group).zip(0..).collect();
        let mut rows: FxHashMap<(u32, u32), Acc> = FxHashMap::default();
        for row in &other.rows {
            if let Some(group) = groups.get(&*other.groups[row.group as usize]) {
                *rows.entry((*group, row.label)).or_default() += row.own;
            }
        }
        Self { rows, whole: other.total }
    }

    pub(crate) fn of_row(&self, row: &TopRow) -> Acc {
        self.rows.get(&(row.group, row.label)).copied().unwrap_or_default()
    }
}
