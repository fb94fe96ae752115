//! The top table as a panel: its columns, and a line's cells.

use crate::event::format::Format;
use crate::panel::table::{Align, Cell, Column, Table};
use crate::panel::unit::{percent, short};
use crate::perfdata::{EventUnit, PeriodMeaning, SampleCount};
use crate::profile::{Acc, Sym};
use crate::query::answer::TopLine;
use crate::query::column::ColumnValue;
use crate::query::diff::{NormalizeBy, RowDiff};
use crate::query::rows::latency_weights::LatencyWeights;
use crate::query::rows::mode_weights::{CpuMode, ModeWeights};
use crate::query::rows::partner::PairFigure;
use crate::query::{ColumnKey, Data, Top, TopRow};

/// A selectable column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopField {
    /// Percent of samples in it and its callees.
    Children,
    /// Percent of its own samples.
    SelfTime,
    /// The number of its own samples.
    Samples,
    /// The sum of its own samples' periods.
    Period,
    /// Instructions per cycle.
    Ipc,
    /// The difference to the baseline.
    Delta,
    /// The value in the baseline.
    Old,
    /// Self in a CPU mode; only in reports.
    Mode(CpuMode),
    /// The share of the latency profile.
    Latency,
    /// A grouping column.
    Key(ColumnKey),
}

impl TopField {
    /// The default columns of a table.
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
            Self::Latency => of("latency_pct", "Latency", 8),
            Self::Mode(CpuMode::Kernel) => of("sys_pct", "sys", 8),
            Self::Mode(CpuMode::User) => of("us_pct", "usr", 8),
            Self::Mode(CpuMode::GuestKernel) => of("guest_sys_pct", "guest sys", 9),
            Self::Mode(CpuMode::GuestUser) => of("guest_us_pct", "guest usr", 9),
            Self::Key(key) => {
                let entry = key.entry();
                let align = if entry.is_number { Align::Right } else { Align::Left };
                Column::new(entry.names[0], entry.title, align, entry.width)
            }
        }
    }

    /// Returns the column for an event, titled after what it counts.
    pub(crate) fn column_of(self, count: SampleCount) -> Column {
        let counts_stacks = self == Self::Samples && count == SampleCount::Unknown;
        if counts_stacks { Column { title: "Stacks".into(), ..self.column() } } else { self.column() }
    }

    /// Returns the cell of a line. Task columns are empty inside call chains, where they would repeat.
    pub fn cell(self, line: &TopLine, meaning: PeriodMeaning) -> Cell {
        let row = line.depth == 0;
        match self {
            Self::Children => Cell::Percent(line.children_percent),
            Self::SelfTime if row => Cell::Percent(line.own_percent),
            Self::Samples if row => Cell::Count(line.own.counted(meaning.count).0),
            Self::Period if row => period(line.own, meaning.unit),
            Self::SelfTime | Self::Period | Self::Mode(_) => Cell::Empty,
            Self::Ipc | Self::Latency => match line.pair {
                Some(PairFigure::Ipc(ratio)) if self == Self::Ipc => Cell::Ratio(ratio),
                Some(PairFigure::Latency(percent)) if self == Self::Latency => Cell::Percent(percent),
                _ => Cell::Empty,
            },
            Self::Delta => line.diff.map_or(Cell::Empty, |v| Cell::Text(delta(&v).into())),
            Self::Old => line.diff.map_or(Cell::Empty, |v| value(v.old, v.per)),
            Self::Samples => Cell::Count(line.children.counted(meaning.count).0),
            Self::Key(ColumnKey::Dso) => Cell::Text(line.dso.clone()),
            Self::Key(ColumnKey::Sym) => Cell::Text(line.sym.clone()),
            Self::Key(key) => value_cell(line.group.get(key).filter(|_| row)),
        }
    }
}

/// Returns a row's value as a cell; negative IDs are unknown.
fn value_cell(value: Option<&ColumnValue>) -> Cell {
    value.filter(|value| !matches!(value, ColumnValue::Id(..0))).map_or(Cell::Empty, Cell::from)
}

impl From<&ColumnValue> for Cell {
    fn from(value: &ColumnValue) -> Self {
        match value {
            ColumnValue::Id(id) => Self::Id((*id).into()),
            ColumnValue::Text(text) => Self::Text(text.clone()),
            ColumnValue::Number(n) => Self::Id(*n),
        }
    }
}

/// Returns the sum of a weight's periods as the event's file has it.
pub(crate) fn period(weight: Acc, unit: EventUnit) -> Cell {
    match unit {
        EventUnit::Decimal(1..) => Cell::Text(unit.written(weight.period).into()),
        _ => Cell::Count(weight.period),
    }
}

/// Returns a value in the unit of a comparison.
pub fn value(value: f64, per: NormalizeBy) -> Cell {
    match per {
        NormalizeBy::Total => Cell::Percent(value),
        // Counts of texts may be fractions.
        _ if value < 100.0 && value.fract() != 0.0 => Cell::Text(few(value).into()),
        _ => Cell::Count(value.round() as u64),
    }
}

/// Formats a small value to three digits.
fn few(value: f64) -> String {
    let decimals = (2 - value.abs().log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats a difference with its verdict, e.g. `▲ +1.2 pp`.
pub fn delta(diff: &RowDiff) -> String {
    format!("{} {}", diff.verdict.sign(), signed(diff.delta(), diff.per, short))
}

/// Formats a signed difference: shares in percentage points, weights by `weight`.
pub(crate) fn signed(delta: f64, per: NormalizeBy, weight: impl Fn(f64) -> String) -> String {
    let sign = if delta < 0.0 { '-' } else { '+' };
    let size = match per {
        NormalizeBy::Total => percent(delta.abs()).replace('%', "pp"),
        NormalizeBy::Second | NormalizeBy::Nothing if delta.abs() < 100.0 && delta.fract() != 0.0 => few(delta.abs()),
        NormalizeBy::Second | NormalizeBy::Nothing => weight(delta.abs()),
    };
    format!("{sign}{size}")
}

/// Returns the lines of a screen as a table.
pub fn shown(lines: &[TopLine], fields: &[TopField], meaning: PeriodMeaning) -> Table {
    let row = |line: &TopLine| {
        let cell = |field: &TopField| match field {
            TopField::Key(ColumnKey::Sym) if line.depth > 0 => {
                Cell::Text(format!("  {}{}", line.forks, line.sym).into())
            }
            field => field.cell(line, meaning),
        };
        fields.iter().map(cell).collect()
    };
    let columns = fields.iter().map(|field| field.column_of(meaning.count)).collect();
    Table { columns, rows: lines.iter().map(row).collect() }
}

pub(crate) struct TopTable<'a> {
    pub(crate) data: Data<'a>,
    pub(crate) top: &'a Top,
    pub(crate) fields: &'a [TopField],
    /// The total that percentages are relative to.
    pub(crate) whole: Acc,
    pub(crate) modes: &'a ModeWeights,
    pub(crate) latency: &'a LatencyWeights,
    /// How the event's periods are read.
    pub(crate) meaning: PeriodMeaning,
    /// The tracepoint whose fields are shown as words instead of numbers.
    pub(crate) words: Option<&'a Format>,
}

impl TopTable<'_> {
    pub(crate) fn table(&self, limit: usize) -> Table {
        let row = |row: &TopRow| self.fields.iter().map(|field| self.cell(row, *field)).collect();
        let rows = self.top.rows.iter().take(limit).map(row).collect();
        Table { columns: self.fields.iter().map(|field| self.column(*field)).collect(), rows }
    }

    pub(crate) fn column(&self, field: TopField) -> Column {
        field.column_of(self.meaning.count)
    }

    /// Returns the number of a row's own samples, or of its stacks if that of the samples is unknown.
    pub(crate) fn samples(&self, row: &TopRow) -> u64 {
        row.own.counted(self.meaning.count).0
    }

    pub(crate) fn weight(&self, row: &TopRow, mode: CpuMode) -> Acc {
        self.modes.get(row, mode)
    }

    pub(crate) fn cell(&self, row: &TopRow, field: TopField) -> Cell {
        let share = |acc: Acc| Cell::Percent(acc.percent_of(&self.whole));
        match field {
            TopField::Children => share(row.children),
            TopField::SelfTime => share(row.own),
            TopField::Mode(mode) => share(self.weight(row, mode)),
            TopField::Latency => Cell::Percent(self.latency.of_row(row).percent_of(&self.latency.whole)),
            TopField::Samples => Cell::Count(self.samples(row)),
            TopField::Period => period(row.own, self.meaning.unit),
            TopField::Ipc => self.top.ipc(row, false).map_or(Cell::Empty, Cell::Ratio),
            TopField::Delta | TopField::Old => Cell::Empty,
            TopField::Key(key) => self.in_words(key, key_cell(self.data, self.top, row, key)),
        }
    }

    fn in_words(&self, key: ColumnKey, cell: Cell) -> Cell {
        let (Some(format), Some(name), Cell::Id(number)) = (self.words, key.traced(), &cell) else { return cell };
        let (of, field) = name.split_once('.').map_or((None, name), |(of, field)| (Some(of), field));
        let words = format.printed_words(field, *number).filter(|_| of.is_none_or(|of| of == format.name));
        words.map_or(cell, |words| Cell::Text(words.into()))
    }
}

fn key_cell(data: Data<'_>, top: &Top, row: &TopRow, key: ColumnKey) -> Cell {
    let sym = || top.symbol(data, row.label);
    match key {
        ColumnKey::Dso => sym().map_or(Cell::Empty, |s| Cell::Text(s.dso_name.clone())),
        ColumnKey::Sym => sym().map_or(Cell::Empty, |s| Cell::Text(s.shared_name())),
        ColumnKey::SymbolSize if top.is_by_function() => symbol_size(sym()),
        key => top.groups[row.group as usize].get(key).map_or(Cell::Empty, Cell::from),
    }
}

/// Returns the code size of a row's function in bytes.
fn symbol_size(sym: Option<&Sym>) -> Cell {
    let known = sym.and_then(|sym| i64::try_from(sym.size).ok()).filter(|size| *size > 0);
    known.map_or_else(|| Cell::Text("unknown".into()), Cell::Id)
}

/// Formats a key's value in a row.
pub fn key_text(data: Data<'_>, top: &Top, row: &TopRow, key: ColumnKey) -> String {
    key_cell(data, top, row, key).text()
}
