//! A report in perf's own layout (`report --stdio`): heading and columns, with the call chains that are given to it.

use std::fmt::Write;

use crate::panel::table::{Align, Cell};
use crate::panel::text::{clean, width};
use crate::panel::top::{Field, TopTable};
use crate::query::{ColumnKey, TopRow};
use crate::session::DsoKind;

use super::json::ChainsByRow;

/// A column of which only one value is left: the head tells it, and the column goes where others are left.
pub(crate) struct OnlyValue<'a> {
    pub(crate) key: ColumnKey,
    /// What perf calls it.
    pub(crate) name: &'static str,
    pub(crate) value: &'a str,
}

impl<'a> OnlyValue<'a> {
    /// Those of a command line's lists of one value whose columns are shown.
    pub(crate) fn of(
        keys: &[ColumnKey],
        comms: Option<&'a str>,
        dsos: Option<&'a str>,
        symbols: Option<&'a str>,
    ) -> Vec<Self> {
        let lists =
            [(ColumnKey::Comm, "comm", comms), (ColumnKey::Dso, "dso", dsos), (ColumnKey::Sym, "symbol", symbols)];
        let one = |(key, name, list): (ColumnKey, &'static str, Option<&'a str>)| {
            let value = list.filter(|list| !list.contains(',') && keys.contains(&key))?;
            Some(Self { key, name, value })
        };
        lists.into_iter().filter_map(one).collect()
    }
}

/// What stands before the tables of all events.
pub(crate) fn head(lost: u64, only: &[OnlyValue<'_>]) -> String {
    let told: String = only.iter().map(|one| format!("# {}: {}\n", one.name, clean(one.value))).collect();
    format!(
        "# To display the perf.data header info, please use --header/--header-only options.\n#\n{}#\n\
         # Total Lost Samples: {lost}\n#\n",
        told
    )
}

/// The rows of an event.
pub(crate) struct StdioReport<'a> {
    pub(crate) table: TopTable<'a>,
    pub(crate) event: &'a str,
    /// Whether rows count what they call.
    pub(crate) children: bool,
    /// Columns that are left out, unless no other key is left.
    pub(crate) only: &'a [OnlyValue<'a>],
    /// Widths of columns; 0, or none, for those that their values need.
    pub(crate) widths: &'a [usize],
}

/// A column with all of its cells.
struct Printed {
    title: String,
    align: Align,
    width: usize,
    cells: Vec<String>,
}

impl StdioReport<'_> {
    /// The table, with the chains below the rows that have some.
    pub(crate) fn text(&self, limit: usize, chains: &ChainsByRow<String>) -> String {
        let total = &self.table.top.total;
        let mut out = format!(
            "# Samples: {} of event '{}'\n# Event count (approx.): {}\n#\n",
            rounded(total.samples),
            clean(self.event),
            total.period
        );
        let rows: Vec<&TopRow> = self.table.top.rows.iter().take(limit).collect();
        let is_one = |field: &Field| self.only.iter().any(|one| *field == Field::Key(one.key));
        let keys_left = self.table.fields.iter().any(|field| matches!(field, Field::Key(_)) && !is_one(field));
        let is_told = |field: &Field| keys_left && is_one(field);
        let shown = self.table.fields.iter().filter(|field| !is_told(field)).enumerate();
        let columns: Vec<Printed> = shown.map(|(at, field)| self.column(at, *field, &rows)).collect();
        let titles: Vec<String> = columns.iter().map(|column| column.aligned(&column.title, true)).collect();
        let dots: Vec<String> = columns.iter().map(|column| ".".repeat(column.width)).collect();
        // Writing into a string cannot fail.
        let _ = writeln!(out, "# {}\n# {}\n#", titles.join("  "), dots.join("  "));
        for (i, row) in rows.iter().enumerate() {
            let cells: Vec<String> = columns
                .iter()
                .enumerate()
                .map(|(at, column)| column.aligned(&column.cells[i], at + 1 < columns.len()))
                .collect();
            let _ = writeln!(out, "  {}", cells.join("  "));
            out.push_str(chains.get(&row.place()).map_or("", String::as_str));
        }
        out + "\n\n"
    }

    fn column(&self, at: usize, field: Field, rows: &[&TopRow]) -> Printed {
        let cells: Vec<String> = rows.iter().map(|row| self.cell(row, field)).collect();
        let title = self.title(field);
        let least = match field {
            Field::Samples | Field::Period => 12,
            Field::Key(_) => 0,
            _ => 8,
        };
        let own = cells.iter().map(|cell| width(cell)).max().unwrap_or(0).max(width(&title)).max(least);
        let fixed = self.widths.get(at).copied().filter(|cells| *cells > 0);
        Printed { title, align: field.column().align, width: fixed.unwrap_or(own), cells }
    }

    /// perf's title of a column; ours, of those that it does not have.
    fn title(&self, field: Field) -> String {
        let title = match field {
            Field::SelfTime if !self.children => "Overhead",
            Field::Key(ColumnKey::Comm) => "Command",
            Field::Key(ColumnKey::Dso) => "Shared Object",
            Field::Key(ColumnKey::Srcline) => "Source:Line",
            Field::Key(ColumnKey::Srcfile) => "Source File",
            field => return field.column().title.into_owned(),
        };
        title.to_owned()
    }

    fn cell(&self, row: &TopRow, field: Field) -> String {
        let cell = self.table.cell(row, field);
        if field == Field::Key(ColumnKey::Sym) {
            let sym = self.table.top.symbol(self.table.data, row.label);
            let level = sym.map_or('.', |sym| match sym.kind {
                DsoKind::Guest => 'g',
                kind if kind.is_kernel() => 'k',
                _ => '.',
            });
            return format!("[{level}] {}", clean(&cell.text()));
        }
        match cell {
            Cell::Percent(share) => format!("{share:.2}%"),
            Cell::Count(n) => n.to_string(),
            cell => clean(&cell.text()).into_owned(),
        }
    }
}

impl Printed {
    /// A text in the column; the last one of a line has no blanks behind it.
    fn aligned(&self, text: &str, padded: bool) -> String {
        let room = " ".repeat(self.width.saturating_sub(width(text)));
        match self.align {
            Align::Right => format!("{room}{text}"),
            Align::Left if padded => format!("{text}{room}"),
            Align::Left => text.to_owned(),
        }
    }
}

/// `131 `, `4K`, as perf rounds it.
fn rounded(samples: u64) -> String {
    let mut rest = samples;
    let mut unit = ' ';
    for larger in ['K', 'M', 'G'] {
        if rest <= 1000 {
            break;
        }
        (rest, unit) = (rest / 1000, larger);
    }
    format!("{rest}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_rounded_as_perf_rounds_them() {
        assert_eq!([131, 1000, 4636, 2_000_000].map(rounded), ["131 ", "1000 ", "4K", "2M"].map(str::to_owned));
    }
}
