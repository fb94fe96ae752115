//! A row of a table, and the order of rows.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::perfdata::SampleCount;
use crate::profile::{Acc, Sym};

use super::partner::Partner;
pub use crate::query::column::RowGroup;
use crate::query::question::{ColumnKey, Order, TopSpec};

/// A row. IDs are valid in the table that contains it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TopRow {
    /// The same for the same row in later answers.
    pub(crate) id: u64,
    pub(crate) group: u32,
    pub(crate) label: u32,
    pub(crate) own: Acc,
    /// Own weight and that of its callees; equals `own` if callees are not counted.
    pub(crate) children: Acc,
    /// The same two of the partner event.
    pub(crate) partner_own: Acc,
    pub(crate) partner_children: Acc,
}

impl TopRow {
    /// Returns its key in its table.
    pub(crate) fn place(&self) -> (u32, u32) {
        (self.group, self.label)
    }
}

pub(super) struct RowOrder<'a, S> {
    pub(crate) spec: &'a TopSpec,
    pub(crate) symbol: S,
    pub(crate) groups: &'a [Arc<RowGroup>],
    pub(crate) partner: Option<Partner>,
    /// The number of samples that each stored one stands for.
    pub(crate) count: SampleCount,
}

impl<'a, S: Fn(u32) -> Option<&'a Sym>> RowOrder<'a, S> {
    /// Returns two numbers by which rows are sorted before their names; `None` if the order is by something else.
    pub(crate) fn rank(&self, row: &TopRow) -> Option<[u64; 2]> {
        let weights = match self.spec.order {
            Order::Children => [row.children.period, row.own.period],
            // The difference is known only once both sides are.
            Order::SelfTime | Order::Delta => [row.own.period, row.children.period],
            Order::Samples => [row.own.counted(self.count).0, row.own.period],
            Order::Latency => [row.partner_own.period, row.own.period],
            Order::Ipc | Order::By(_) => return None,
        };
        Some(if self.spec.reversed { weights } else { weights.map(|weight| !weight) })
    }

    pub(crate) fn compare(&self, a: &TopRow, b: &TopRow) -> Ordering {
        if let (Some(first), Some(second)) = (self.rank(a), self.rank(b)) {
            return first.cmp(&second).then_with(|| self.by_name(a, b));
        }
        let group = |r: &TopRow| &*self.groups[r.group as usize];
        let symbol = |r: &TopRow| (self.symbol)(r.label);
        let heavy = || b.own.period.cmp(&a.own.period);
        let by = match self.spec.order {
            Order::Ipc => return self.by_ipc(a, b).then_with(heavy).then_with(|| self.by_name(a, b)),
            Order::Children | Order::SelfTime | Order::Delta | Order::Samples | Order::Latency => Ordering::Equal,
            Order::By(ColumnKey::Dso) => {
                symbol(a).map(|s| &s.dso_name).cmp(&symbol(b).map(|s| &s.dso_name)).then_with(heavy)
            }
            Order::By(ColumnKey::Sym) => symbol(a).map(Sym::name).cmp(&symbol(b).map(Sym::name)).then_with(heavy),
            Order::By(key) => group(a).get(key).cmp(&group(b).get(key)).then_with(heavy),
        };
        let by = if self.spec.reversed { by.reverse() } else { by };
        by.then_with(|| self.by_name(a, b))
    }

    /// Compares by instructions per cycle, fewest first. Rows with unknown values come last in either direction.
    fn by_ipc(&self, a: &TopRow, b: &TopRow) -> Ordering {
        let of = |row: &TopRow| self.partner.and_then(|partner| partner.ipc(row.own, row.partner_own));
        match (of(a), of(b)) {
            (Some(a), Some(b)) if self.spec.reversed => b.total_cmp(&a),
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }

    /// Compares rows of equal weight.
    pub(crate) fn by_name(&self, a: &TopRow, b: &TopRow) -> Ordering {
        let group = |r: &TopRow| &*self.groups[r.group as usize];
        let symbol = |r: &TopRow| (self.symbol)(r.label);
        let groups = if a.group == b.group { Ordering::Equal } else { group(a).cmp(group(b)) };
        groups.then_with(|| match (symbol(a), symbol(b)) {
            (Some(a), Some(b)) => a.compare(b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        })
    }
}
