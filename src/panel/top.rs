//! The top table as a panel: which columns there are, and a line's cells.

use crate::query::Data;
use crate::query::answer::TopLine;
use crate::query::column::ColumnValue;
use crate::query::diff::NormalizeBy;
use crate::query::diff::RowDiff;
use crate::query::{ColumnKey, Top, TopRow};

use super::table::{Align, Cell, Column, Table};
use super::unit::{percent, short};

/// A column that the user may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Percent of the samples in it and in what it calls.
    Children,
    /// Percent of its own samples.
    SelfTime,
    /// The number of its own samples.
    Samples,
    /// The sum of its own samples' periods.
    Period,
    /// Instructions a cycle.
    Ipc,
    /// The difference to the baseline.
    Delta,
    /// What it was in the baseline.
    Old,
    /// A column that rows are told apart by.
    Key(ColumnKey),
}

impl Field {
    /// The columns that a table shows at first.
    pub const FIRST: &[Self] = &[Self::SelfTime, Self::Children, Self::Key(ColumnKey::Sym), Self::Key(ColumnKey::Dso)];

    pub(crate) fn column(self) -> Column {
        let of = |name, title, width| Column::new(name, title, Align::Right, width);
        match self {
            Self::Children => of("children_pct", "Children", 9),
            Self::SelfTime => of("self_pct", "Self", 8),
            Self::Samples => of("samples", "Samples", 9),
            Self::Period => of("period", "Period", 16),
            Self::Ipc => of("ipc", "IPC", 6),
            Self::Delta => of("delta", "Δ", 11),
            Self::Old => of("old", "Old", 9),
            Self::Key(key) => {
                let entry = key.entry();
                let align = if entry.is_number { Align::Right } else { Align::Left };
                Column::new(entry.names[0], entry.title, align, entry.width)
            }
        }
    }

    /// The cell of a line. Task columns are left empty inside call chains, where they repeat.
    pub fn cell(self, line: &TopLine) -> Cell {
        let row = line.depth == 0;
        match self {
            Self::Children => Cell::Percent(line.children_percent),
            Self::SelfTime if row => Cell::Percent(line.own_percent),
            Self::Samples if row => Cell::Count(line.own.samples),
            Self::Period if row => Cell::Count(line.own.period),
            Self::SelfTime | Self::Period => Cell::Empty,
            Self::Ipc => line.ipc.map_or(Cell::Empty, Cell::Ratio),
            Self::Delta => line.versus.map_or(Cell::Empty, |v| Cell::Text(delta(&v).into())),
            Self::Old => line.versus.map_or(Cell::Empty, |v| value(v.old, v.per)),
            Self::Samples => Cell::Count(line.children.samples),
            Self::Key(ColumnKey::Dso) => Cell::Text(line.dso.clone()),
            Self::Key(ColumnKey::Sym) => Cell::Text(line.sym.clone()),
            Self::Key(key) => value_cell(line.group.get(key).filter(|_| row)),
        }
    }
}

/// A row's value; numbers below zero are those of nobody.
fn value_cell(value: Option<&ColumnValue>) -> Cell {
    match value {
        Some(ColumnValue::Id(id)) if *id >= 0 => Cell::Id((*id).into()),
        Some(ColumnValue::Text(text)) => Cell::Text(text.clone()),
        Some(ColumnValue::Number(n)) => Cell::Id(*n),
        _ => Cell::Empty,
    }
}

/// A value in the unit of a comparison.
pub fn value(value: f64, per: NormalizeBy) -> Cell {
    match per {
        NormalizeBy::Total => Cell::Percent(value),
        _ => Cell::Count(value.round() as u64),
    }
}

/// A difference with its signs, e.g. `▲ +1.2 pp`: of shares in percentage points.
pub fn delta(versus: &RowDiff) -> String {
    let delta = versus.delta();
    let sign = if delta < 0.0 { '-' } else { '+' };
    let size = match versus.per {
        NormalizeBy::Total => percent(delta.abs()).replace('%', "pp"),
        _ => short(delta.abs()),
    };
    format!("{} {sign}{size}", versus.verdict.sign())
}

/// The lines of a screen as a table.
pub fn shown(lines: &[TopLine], fields: &[Field]) -> Table {
    let row = |line: &TopLine| {
        let cell = |field: &Field| match field {
            Field::Key(ColumnKey::Sym) if line.depth > 0 => Cell::Text(format!("  {}{}", line.forks, line.sym).into()),
            field => field.cell(line),
        };
        fields.iter().map(cell).collect()
    };
    Table { columns: fields.iter().map(|f| f.column()).collect(), rows: lines.iter().map(row).collect() }
}

/// A whole top as a table, for text and CSV: shares, counts, then the keys.
pub fn table(data: Data<'_>, top: &Top, keys: &[ColumnKey], children: bool, limit: usize) -> Table {
    let mut fields = vec![Field::SelfTime, Field::Samples, Field::Period];
    if children {
        fields.insert(0, Field::Children);
    }
    fields.extend(top.partner.map(|_| Field::Ipc));
    fields.extend(keys.iter().map(|k| Field::Key(*k)));
    let rows =
        top.rows.iter().take(limit).map(|row| fields.iter().map(|f| row_cell(data, top, row, *f)).collect()).collect();
    Table { columns: fields.iter().map(|f| f.column()).collect(), rows }
}

fn row_cell(data: Data<'_>, top: &Top, row: &TopRow, field: Field) -> Cell {
    let group = &top.groups[row.group as usize];
    let sym = top.symbol(data, row.label);
    match field {
        Field::Children => Cell::Percent(row.children.percent_of(&top.total)),
        Field::SelfTime => Cell::Percent(row.own.percent_of(&top.total)),
        Field::Samples => Cell::Count(row.own.samples),
        Field::Period => Cell::Count(row.own.period),
        Field::Ipc => top.ipc(row, false).map_or(Cell::Empty, Cell::Ratio),
        Field::Delta | Field::Old => Cell::Empty,
        Field::Key(ColumnKey::Dso) => sym.map_or(Cell::Empty, |s| Cell::Text(s.dso_name.clone())),
        Field::Key(ColumnKey::Sym) => sym.map_or(Cell::Empty, |s| Cell::Text(s.shared_name())),
        Field::Key(key) => group.get(key).map_or(Cell::Empty, |value| match value {
            ColumnValue::Id(id) => Cell::Id((*id).into()),
            ColumnValue::Text(text) => Cell::Text(text.clone()),
            ColumnValue::Number(n) => Cell::Id(*n),
        }),
    }
}

/// A key's value in a row, in words.
pub fn key_text(data: Data<'_>, top: &Top, row: &TopRow, key: ColumnKey) -> String {
    row_cell(data, top, row, Field::Key(key)).text()
}
