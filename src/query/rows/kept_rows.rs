//! The rows of an aggregate and their unfolded call chains, kept between answers.

use std::borrow::Cow;

use super::live_rows::LiveRows;
use super::partner::Partner;
use super::top::{RowLimit, Top, TopRow};
use crate::profile::Acc;
use crate::query::aggregate::Aggregate;
use crate::query::aggregate::changes::{AggregateRole, Changes};
use crate::query::data::Data;
use crate::query::question::TopSpec;
use crate::query::tree::chains::{CallTree, CallTrees, TreeKind};

/// Rows and call trees that are kept between answers.
#[derive(Debug, Default)]
pub struct KeptRows {
    rows: Option<LiveRows>,
    trees: CallTrees,
}

impl KeptRows {
    /// Applies changes of an aggregate. If there are too many, rows are rebuilt on the next request.
    pub(crate) fn apply(&mut self, data: Data<'_>, changes: &Changes, of: AggregateRole) {
        match &mut self.rows {
            Some(rows) if !changes.full_rebuild => {
                if of == AggregateRole::Shown {
                    self.trees.apply(data, rows, changes);
                }
                rows.apply(data, changes, of);
            }
            _ => *self = Self::default(),
        }
    }

    /// Returns the requested rows, with their weights in the partner event's aggregate.
    pub fn top(
        &mut self,
        data: Data<'_>,
        fold: &Aggregate,
        partner: Option<(Partner, &Aggregate)>,
        spec: &TopSpec,
        keep: RowLimit,
    ) -> Top {
        let kept = self.rows.take().filter(|rows| rows.serves(spec, partner.map(|(partner, _)| partner)));
        let rows = self.rows.insert(match kept {
            Some(rows) => rows,
            None => {
                self.trees = CallTrees::default();
                LiveRows::build(data, fold, partner, spec)
            }
        });
        let mut top = rows.top(data, fold, spec, keep);
        top.partner_total = partner.map_or_else(Acc::default, |(_, fold)| fold.total());
        top
    }

    /// Returns the call tree of a row of the last table.
    pub(crate) fn tree(
        &mut self,
        data: Data<'_>,
        aggregate: &Aggregate,
        (top, row): (&Top, &TopRow),
        kind: TreeKind,
    ) -> Cow<'_, CallTree> {
        let Self { rows: Some(rows), trees } = self else { return Cow::Owned(CallTree::default()) };
        let group = top.live_groups.get(row.group as usize).copied().unwrap_or(u32::MAX);
        Cow::Borrowed(trees.of(data, rows, aggregate, (group, row.label), kind))
    }
}

#[cfg(test)]
mod tests;
