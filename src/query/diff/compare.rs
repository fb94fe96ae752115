//! Compares a table with its baseline. Every row has its former value; rows that disappeared are included.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};

use rustc_hash::FxHashMap;

use crate::profile::frames::SymState;
use crate::profile::{Acc, Sym};

use super::{DiffSide, NormalizeBy, RowDiff, go_exit, verdict_among};
use crate::query::answer::MAX_ROWS;
use crate::query::data::Data;
use crate::query::question::{Order, TopSpec};
use crate::query::rows::top::{Top, TopRow};

/// One side: its rows, and its total.
#[derive(Clone, Copy, Debug)]
pub struct TableSide<'a> {
    pub(crate) data: Data<'a>,
    pub(crate) top: &'a Top,
    pub(crate) side: DiffSide,
}

/// A row of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SideRow {
    /// Index into the new table's rows.
    New(u32),
    /// Index into the baseline's rows: the new table does not have it.
    Gone(u32),
}

/// Returns both tables' rows in the order of the new one.
/// If sorted by difference, the largest first. Only as many as are ever shown are sorted.
pub fn compare(new: TableSide<'_>, old: TableSide<'_>, spec: &TopSpec, per: NormalizeBy) -> Vec<(SideRow, RowDiff)> {
    let weight = |row: &TopRow| if spec.order == Order::Children { row.children } else { row.own };
    let skips_go_exit = go_exit::is_missing(new.data, old.data);
    let is_left_out =
        |table: &TableSide<'_>, row: &TopRow| skips_go_exit && go_exit::is_row(table.data, table.top, row);
    let mut left: FxHashMap<u64, VecDeque<u32>> = FxHashMap::default();
    for (i, row) in (0..).zip(&old.top.rows).filter(|(_, row)| !is_left_out(&old, row)) {
        left.entry(key(&old, row)).or_default().push_back(i);
    }
    let stand_for = (old.side.stands_for, new.side.stands_for);
    let diff = |then: Acc, now: Acc| RowDiff {
        old: old.side.value(then, per),
        new: new.side.value(now, per),
        verdict: verdict_among((then, old.side.total), (now, new.side.total), stand_for),
        per,
    };
    let mut out = Vec::with_capacity(new.top.rows.len());
    for (i, row) in (0..).zip(&new.top.rows).filter(|(_, row)| !is_left_out(&new, row)) {
        let then = left.get_mut(&key(&new, row)).and_then(VecDeque::pop_front);
        let then = then.map_or_else(Acc::default, |at| weight(&old.top.rows[at as usize]));
        out.push((SideRow::New(i), diff(then, weight(row))));
    }
    let mut gone: Vec<u32> = left.into_values().flatten().collect();
    gone.sort_unstable();
    out.extend(gone.into_iter().filter_map(|i| {
        let then = weight(&old.top.rows[i as usize]);
        (!then.is_zero()).then(|| (SideRow::Gone(i), diff(then, Acc::default())))
    }));
    if spec.order == Order::Delta {
        let order = |(at_a, a): &(SideRow, RowDiff), (at_b, b): &(SideRow, RowDiff)| {
            let by = b.delta().abs().total_cmp(&a.delta().abs());
            (if spec.reversed { by.reverse() } else { by }).then_with(|| at_a.cmp(at_b))
        };
        if MAX_ROWS < out.len() {
            out.select_nth_unstable_by(MAX_ROWS, order);
        }
        let shown = MAX_ROWS.min(out.len());
        out[..shown].sort_unstable_by(order);
    }
    out
}

/// Returns a key that identifies a row on both sides. It does not depend on IDs and addresses.
fn key(table: &TableSide<'_>, row: &TopRow) -> u64 {
    let mut hasher = rustc_hash::FxBuildHasher.build_hasher();
    table.top.groups[row.group as usize].hash(&mut hasher);
    let sym: Option<&Sym> = table.top.symbol(table.data, row.label);
    sym.map(|sym| (&sym.dso_name, sym.name())).hash(&mut hasher);
    // A function without a symbol has the same address only in the same build.
    let build = |sym: &Sym| table.data.session.dsos.get(sym.dso).build_id;
    sym.filter(|sym| sym.state == SymState::Bounded).and_then(build).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::ColumnKey;
    use crate::query::staged::Staged;

    fn spec(order: Order, reversed: bool) -> TopSpec {
        TopSpec { keys: vec![ColumnKey::Sym], children: order == Order::Children, order, reversed, origins: false }
    }

    /// Rows as sign, name, old value and new value.
    fn shown(then: &Staged, now: &Staged, spec: &TopSpec, per: NormalizeBy) -> Vec<String> {
        let (old, new) = (then.top(spec), now.top(spec));
        let side = |top: &Top, seconds| DiffSide { total: top.total, seconds, ..DiffSide::default() };
        let old_table = TableSide { data: then.data(), top: &old, side: side(&old, 2.0) };
        let table = TableSide { data: now.data(), top: &new, side: side(&new, 4.0) };
        let name = |place: &SideRow| match place {
            SideRow::New(i) => new.symbol(table.data, new.rows[*i as usize].label),
            SideRow::Gone(i) => old.symbol(old_table.data, old.rows[*i as usize].label),
        };
        let one = |(place, diff): &(SideRow, RowDiff)| {
            let name = name(place).map(|s| s.name().into_owned()).unwrap_or_default();
            format!("{} {name} {:.0} {:.0} {:+.0}", diff.verdict.sign(), diff.old, diff.new, diff.delta())
        };
        compare(table, old_table, spec, per).iter().map(one).collect()
    }

    fn recorded(functions: &str) -> Staged {
        let mut staged = Staged::default();
        functions.chars().for_each(|c| staged.sample(1, 1, &["m", &c.to_string()], 10));
        staged
    }

    #[test]
    fn rows_find_what_they_were() {
        let (then, now) = (recorded(&"aaabb".repeat(40)), recorded(&"bccccccccc".repeat(40)));
        let delta = ["+ c 0 90 +90", "- a 60 0 -60", "▼ b 40 10 -30"];
        assert_eq!(shown(&then, &now, &spec(Order::Delta, false), NormalizeBy::Total), delta);
        let reversed = ["▼ b 40 10 -30", "- a 60 0 -60", "+ c 0 90 +90"];
        assert_eq!(shown(&then, &now, &spec(Order::Delta, true), NormalizeBy::Total), reversed);
        let own = ["+ c 0 900 +900", "▼ b 400 100 -300", "- a 600 0 -600"];
        assert_eq!(shown(&then, &now, &spec(Order::SelfTime, false), NormalizeBy::Second), own);
        let children = ["~ m 100 100 +0", "+ c 0 90 +90", "▼ b 40 10 -30", "- a 60 0 -60"];
        assert_eq!(shown(&then, &now, &spec(Order::Children, false), NormalizeBy::Total), children);
    }

    /// Go's profiles lack `runtime.goexit`.
    #[test]
    fn recordings_and_profiles_of_go_have_the_same_rows() {
        let stacks = |functions: &[&str]| {
            let mut staged = Staged::default();
            staged.sample(1, 1, functions, 10);
            staged
        };
        let exited = stacks(&["runtime.goexit", "runtime.main", "main.main"]);
        let own = stacks(&["runtime.main", "main.main"]);
        let other = stacks(&["main", "work"]);
        let names = |then: &Staged, now: &Staged| {
            let spec = TopSpec { children: true, ..spec(Order::Children, false) };
            let rows = shown(then, now, &spec, NormalizeBy::Total);
            rows.iter().filter_map(|row| row.split(' ').nth(1)).map(str::to_owned).collect::<Vec<_>>()
        };
        for (then, now) in [(&own, &exited), (&exited, &own)] {
            assert_eq!(names(then, now), ["main.main", "runtime.main"]);
        }
        assert!(names(&exited, &exited).contains(&"runtime.goexit".to_owned()));
        assert!(names(&exited, &other).contains(&"runtime.goexit".to_owned()));
    }

    #[test]
    fn what_never_had_weight_is_not_gone() {
        let mut then = Staged::default();
        then.sample(1, 1, &["x", "a"], 10);
        let mut now = Staged::default();
        now.sample(1, 1, &["a"], 10);
        let spec = TopSpec { children: true, ..spec(Order::SelfTime, false) };
        assert_eq!(shown(&then, &now, &spec, NormalizeBy::Nothing), ["~ a 10 10 +0"]);
    }

    #[test]
    fn the_largest_of_very_many_differences_come_first() {
        for more in [0, 1, 40] {
            let n = (MAX_ROWS + more) as u64;
            let mut now = Staged::default();
            // Each weight once: 7 and n are coprime.
            (0..n).for_each(|i| now.sample(1, 1, &[&format!("f{i}")], 1 + i * 7 % n));
            let (then, spec) = (Staged::default(), spec(Order::Delta, false));
            let (old, mut new) = (then.top(&spec), now.top(&spec));
            new.rows.sort_by_key(|row| row.label);
            let old = TableSide { data: then.data(), top: &old, side: DiffSide::default() };
            let rows = compare(
                TableSide { data: now.data(), top: &new, side: DiffSide::default() },
                old,
                &spec,
                NormalizeBy::Nothing,
            );
            assert_eq!(rows.len(), n as usize);
            let first: Vec<f64> = rows[..MAX_ROWS].iter().map(|(_, diff)| diff.delta()).collect();
            assert!((0..MAX_ROWS).all(|i| first[i] == (n - i as u64) as f64), "{more}");
        }
    }
}
