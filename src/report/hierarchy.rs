//! Rows grouped by level, as plain text.

use std::collections::BTreeMap;

use crate::panel::row_order::arrange;
use crate::panel::text::clean;
use crate::panel::unit::percent;
use crate::profile::Acc;
use crate::query::{ColumnKey, Data, Top, TopRow};

/// Formats rows as a tree with a level per key, with shares of the total.
pub fn hierarchy(data: Data<'_>, top: &Top, keys: &[ColumnKey], limit: f64, whole: &Acc) -> String {
    let mut out = String::from("    Self  ");
    out.push_str(&keys.iter().map(|k| k.title()).collect::<Vec<_>>().join(" / "));
    out.push('\n');
    let rows: Vec<&TopRow> = top.rows.iter().filter(|r| !r.own.is_zero()).collect();
    Levels { data, top, limit, whole, out: &mut out }.level(keys, &rows, 0);
    out
}

struct Levels<'a> {
    data: Data<'a>,
    top: &'a Top,
    limit: f64,
    whole: &'a Acc,
    out: &'a mut String,
}

impl Levels<'_> {
    fn level(&mut self, keys: &[ColumnKey], rows: &[&TopRow], depth: usize) {
        let Some((key, rest)) = keys.split_first() else { return };
        let mut groups: BTreeMap<String, (Acc, Vec<&TopRow>)> = BTreeMap::new();
        for row in rows {
            let entry =
                groups.entry(crate::query::rows::top_table::key_text(self.data, self.top, row, *key)).or_default();
            entry.0 += row.own;
            entry.1.push(row);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        arrange(&mut groups, |a, b| b.1.0.period.cmp(&a.1.0.period).then_with(|| a.0.cmp(&b.0)));
        for (name, (acc, rows)) in groups {
            let share = acc.percent_of(self.whole);
            if share < self.limit {
                continue;
            }
            self.out.push_str(&format!("{:>8}  {}{}\n", percent(share), "  ".repeat(depth), clean(&name)));
            self.level(rest, &rows, depth + 1);
        }
    }
}
