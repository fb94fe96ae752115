//! The rows of an aggregate and their unfolded call chains, kept between answers.

use std::borrow::Cow;

use super::ipc::Partner;
use super::live_rows::LiveRows;
use super::top::{RowLimit, Top, TopRow};
use crate::query::aggregate::Aggregate;
use crate::query::aggregate::changes::{Changes, FoldOf};
use crate::query::data::Data;
use crate::query::question::TopSpec;
use crate::query::tree::chains::{Tree, TreeKind, Trees};

/// Rows and call trees that are kept between answers.
#[derive(Debug, Default)]
pub struct KeptRows {
    tally: Option<LiveRows>,
    trees: Trees,
}

impl KeptRows {
    /// Applies changes of an aggregate. If there are too many, rows are rebuilt on the next request.
    pub(crate) fn follow(&mut self, data: Data<'_>, news: &Changes, of: FoldOf) {
        match &mut self.tally {
            Some(tally) if !news.anew => {
                if of == FoldOf::Shown {
                    self.trees.follow(data, tally, news);
                }
                tally.follow(data, news, of);
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
        let kept = self.tally.take().filter(|tally| tally.serves(spec, partner.map(|(partner, _)| partner)));
        let tally = self.tally.insert(match kept {
            Some(tally) => tally,
            None => {
                self.trees = Trees::default();
                LiveRows::build(data, fold, partner, spec)
            }
        });
        tally.top(data, fold, spec, keep)
    }

    /// Returns the call chains of these rows.
    pub fn trees<'a>(&'a mut self, fold: &'a Aggregate) -> KeptTrees<'a> {
        KeptTrees { standing: self, fold }
    }
}

/// The call trees of the rows of one table.
#[derive(Debug)]
pub struct KeptTrees<'a> {
    standing: &'a mut KeptRows,
    fold: &'a Aggregate,
}

impl KeptTrees<'_> {
    pub(crate) fn tree(&mut self, data: Data<'_>, top: &Top, row: &TopRow, reach: TreeKind) -> Cow<'_, Tree> {
        let KeptRows { tally: Some(tally), trees } = &mut *self.standing else { return Cow::Owned(Tree::default()) };
        let group = top.tallied.get(row.group as usize).copied().unwrap_or(u32::MAX);
        Cow::Borrowed(trees.of(data, tally, self.fold, (group, row.label), reach))
    }
}

#[cfg(test)]
mod tests;
