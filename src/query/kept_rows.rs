//! The rows of one fold and their unfolded call chains, kept from answer to answer.

use std::borrow::Cow;

use super::aggregate::Aggregate;
use super::chains::{Tree, TreeKind, Trees};
use super::changes::{Changes, FoldOf};
use super::data::Data;
use super::ipc::Partner;
use super::live_rows::LiveRows;
use super::question::TopSpec;
use super::top::{RowLimit, Top, TopRow};

/// Rows and call trees that stand from answer to answer.
#[derive(Debug, Default)]
pub struct KeptRows {
    tally: Option<LiveRows>,
    trees: Trees,
}

impl KeptRows {
    /// Follows what changed in a fold. Where that is not worth it, all is added up anew when it is asked for.
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

    /// The rows that are asked for, with their weights in the fold of the event's partner.
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

    /// The call chains of those rows.
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
