//! The rows of a comparison of two recordings as a table and as JSON.

use crate::panel::unit::thousands;
use crate::panel::{Cell, Column, Table};
use crate::perfdata::SampleCount;
use crate::query::ColumnKey;
use crate::query::diff::{DiffRow, DiffSide, NormalizeBy};
use crate::query::rows::top_table::{period, signed, value};

/// A row identified by the texts of its keys.
pub(crate) type Row = DiffRow<Vec<String>>;

/// How differences are computed and rows sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compute {
    /// Sorted by the absolute difference
    DeltaAbs,
    /// Sorted by growth
    Delta,
    /// Sorted by the ratio of new to old
    Ratio,
    /// Sorted by new period × second weight − old period × first weight
    Weighted(i32, i32),
}

/// Returns the ratio of new to old; infinite for new rows.
pub(crate) fn ratio(row: &Row) -> f64 {
    if row.old_value == 0.0 { f64::INFINITY } else { row.new_value / row.old_value }
}

/// Returns new period × its weight − old period × its weight.
pub(crate) fn weighted(row: &Row, before: i32, after: i32) -> i128 {
    i128::from(row.new.period) * i128::from(after) - i128::from(row.old.period) * i128::from(before)
}

/// The columns of a comparison and how their values are computed.
pub(crate) struct DiffTableShape {
    pub(crate) per: NormalizeBy,
    pub(crate) compute: Compute,
    pub(crate) formula: bool,
    /// True if the periods of both sides are shown.
    pub(crate) periods: bool,
    pub(crate) totals: [DiffSide; 2],
}

impl DiffTableShape {
    /// Returns the formula of a row's value, like perf diff.
    fn formula_of(&self, row: &Row) -> String {
        let (old, new) = (row.old.period, row.new.period);
        let [before, after] = self.totals.map(|side| side.total.period);
        match (self.compute, self.per) {
            (Compute::Ratio, _) => format!("{new} / {old}"),
            (Compute::Weighted(first, second), _) => format!("({new} * {second}) - ({old} * {first})"),
            (_, NormalizeBy::Total) => format!("({new} * 100 / {after}) - ({old} * 100 / {before})"),
            (_, NormalizeBy::Second) => {
                let [before, after] = self.totals.map(|side| side.seconds);
                format!("({new} / {after:.3}) - ({old} / {before:.3})")
            }
            (_, NormalizeBy::Nothing) => format!("{new} - {old}"),
        }
    }
}

/// Returns the rows as a table with a column per key.
pub(crate) fn table(rows: &[&Row], keys: &[ColumnKey], shape: &DiffTableShape) -> Table {
    let (per, compute) = (shape.per, shape.compute);
    let right = Column::figures;
    let counts_stacks = shape.totals.map(|side| side.stands_for == SampleCount::Unknown);
    let mut columns = vec![
        match compute {
            Compute::Ratio => right("ratio", "Ratio"),
            Compute::Weighted(..) => right("wdiff", "Weighted Δ"),
            Compute::Delta | Compute::DeltaAbs => right("delta", "Δ"),
        },
        right("verdict", ""),
        right("old", "Old"),
        right("new", "New"),
        right("old_samples", if counts_stacks[0] { "Old stacks" } else { "Old samples" }),
        right("new_samples", if counts_stacks[1] { "New stacks" } else { "New samples" }),
    ];
    if shape.periods {
        columns.extend([right("old_period", "Old period"), right("new_period", "New period")]);
    }
    columns.extend(shape.formula.then(|| right("formula", "Formula")));
    columns.extend(keys.iter().map(|k| Column::texts(k.name(), k.title())));
    let delta = |v: f64| Cell::Text(signed(v, per, |weight| thousands(weight.round() as u64)).into());
    let row = |r: &&Row| {
        let mut cells = vec![
            match compute {
                Compute::Delta | Compute::DeltaAbs => delta(r.delta()),
                _ if r.old.is_zero() => Cell::Text("new".into()),
                Compute::Ratio => Cell::Text(format!("{:.3}", ratio(r)).into()),
                Compute::Weighted(before, after) => Cell::Text(weighted(r, before, after).to_string().into()),
            },
            Cell::Text(r.verdict.sign().into()),
            value(r.old_value, per),
            value(r.new_value, per),
            Cell::Count(shape.totals[0].samples(r.old)),
            Cell::Count(shape.totals[1].samples(r.new)),
        ];
        if shape.periods {
            let [old, new] = shape.totals.map(|side| side.unit);
            cells.extend([period(r.old, old), period(r.new, new)]);
        }
        cells.extend(shape.formula.then(|| Cell::Text(shape.formula_of(r).into())));
        cells.extend(r.key.iter().map(|k| Cell::Text(k.as_str().into())));
        cells
    };
    Table { columns, rows: rows.iter().map(row).collect() }
}

/// Returns a row as an object of the JSON report.
pub(crate) fn object(r: &Row, keys: &[ColumnKey], [old, new]: [DiffSide; 2]) -> serde_json::Value {
    let mut out = serde_json::Map::new();
    for (key, text) in keys.iter().zip(&r.key) {
        out.insert(key.name().into(), text.as_str().into());
    }
    for (name, value) in [("old", r.old_value), ("new", r.new_value), ("delta", r.delta()), ("z", r.z)] {
        out.insert(name.into(), serde_json::json!((value * 1e4).round() / 1e4));
    }
    out.insert("old_samples".into(), old.samples(r.old).into());
    out.insert("new_samples".into(), new.samples(r.new).into());
    out.insert("verdict".into(), r.verdict.word().into());
    serde_json::Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Acc;
    use crate::query::diff::Verdict;

    #[test]
    fn periods_are_further_columns() {
        let acc = |samples, period| Acc { samples, period };
        let (old, new) = (acc(5, 50), acc(8, 80));
        let key = vec!["copy".to_owned()];
        let row = Row { key, old, new, old_value: 50.0, new_value: 40.0, z: 0.0, verdict: Verdict::Noise };
        let side = |total| DiffSide { total, seconds: 1.0, ..DiffSide::default() };
        let totals = [side(acc(10, 100)), side(acc(20, 200))];
        let (per, compute) = (NormalizeBy::Total, Compute::DeltaAbs);
        let [with, without] = [true, false].map(|periods| {
            let shape = DiffTableShape { per, compute, formula: false, periods, totals };
            table(&[&row], &[ColumnKey::Sym], &shape).to_csv()
        });
        assert_eq!(
            with.lines().next(),
            Some("delta,verdict,old,new,old_samples,new_samples,old_period,new_period,sym")
        );
        assert!(with.contains(",5,8,50,80,copy") && without.contains(",5,8,copy"), "{with}{without}");
    }
}
