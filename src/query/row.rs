//! One row of a table, and the order of rows.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::profile::{Acc, Sym};

pub use super::column::Group;
use super::question::{ColumnKey, Order, TopSpec};

/// One row. Ids are good for the table that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopRow {
    /// The same for the same row in later answers.
    pub(crate) id: u64,
    pub(crate) group: u32,
    pub(crate) label: u32,
    pub(crate) own: Acc,
    /// Own and everything called from here; equals `own` when children are not counted.
    pub(crate) children: Acc,
}

/// The comparison of rows.
pub(super) struct RowOrder<'a, S> {
    pub(crate) spec: &'a TopSpec,
    /// The symbol of a label.
    pub(crate) symbol: S,
    pub(crate) groups: &'a [Arc<Group>],
}

impl<'a, S: Fn(u32) -> Option<&'a Sym>> RowOrder<'a, S> {
    pub(crate) fn compare(&self, a: &TopRow, b: &TopRow) -> Ordering {
        let group = |r: &TopRow| &*self.groups[r.group as usize];
        let symbol = |r: &TopRow| (self.symbol)(r.label);
        let heavy = || b.own.period.cmp(&a.own.period);
        let by = match self.spec.order {
            Order::Children => b.children.period.cmp(&a.children.period).then_with(heavy),
            // The difference is known where both sides are.
            Order::SelfTime | Order::Delta => heavy().then_with(|| b.children.period.cmp(&a.children.period)),
            Order::Samples => b.own.samples.cmp(&a.own.samples).then_with(heavy),
            Order::By(ColumnKey::Dso) => {
                symbol(a).map(|s| &s.dso_name).cmp(&symbol(b).map(|s| &s.dso_name)).then_with(heavy)
            }
            Order::By(ColumnKey::Sym) => symbol(a).map(Sym::name).cmp(&symbol(b).map(Sym::name)).then_with(heavy),
            Order::By(key) => group(a).get(key).cmp(&group(b).get(key)).then_with(heavy),
        };
        let by = if self.spec.reversed { by.reverse() } else { by };
        by.then_with(|| group(a).cmp(group(b))).then_with(|| match (symbol(a), symbol(b)) {
            (Some(a), Some(b)) => a.compare(b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        })
    }
}
