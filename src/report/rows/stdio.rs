//! A report in perf's own layout (`report --stdio`): a header and columns, with call chains if requested.

use std::fmt::Write;

use crate::panel::table::{Align, Cell};
use crate::panel::text::{clean, width};
use crate::profile::Acc;
use crate::query::rows::top_table::{TopField, TopTable};
use crate::query::{ColumnKey, TopRow};
use crate::session::DsoKind;

use super::ReportShape;
use crate::report::json::ChainsByRow;

/// A column with a single value. It is shown in the header, and the column is omitted if other columns remain.
pub(crate) struct OnlyValue<'a> {
    pub(crate) key: ColumnKey,
    /// perf's name of it.
    pub(crate) name: &'static str,
    pub(crate) value: &'a str,
}

impl<'a> OnlyValue<'a> {
    /// Returns the shown columns for which the command line selects a single value.
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

pub(crate) fn head(lost: u64, only: &[OnlyValue<'_>]) -> String {
    let told: String = only.iter().map(|one| format!("# {}: {}\n", one.name, clean(one.value))).collect();
    format!(
        "# To display the perf.data header info, please use --header/--header-only options.\n#\n{}#\n\
         # Total Lost Samples: {lost}\n#\n",
        told
    )
}

/// A row: in each event of the group, that event's row of the same keys.
pub(super) type GroupRow<'a> = Vec<Option<&'a TopRow>>;

/// The rows of an event, or of the events of a group.
pub(super) struct StdioReport<'a> {
    pub(super) tables: Vec<TopTable<'a>>,
    pub(super) shape: &'a ReportShape<'a>,
}

struct Printed {
    title: String,
    align: Align,
    width: usize,
    cells: Vec<String>,
}

impl StdioReport<'_> {
    /// Formats the rows of one event, with the chains below them.
    pub(super) fn text(&self, event: &str, chains: &ChainsByRow<String>) -> String {
        let rows = self.tables.iter().flat_map(|table| &table.top.rows).take(self.shape.limit);
        let rows: Vec<GroupRow<'_>> = rows.map(|row| vec![Some(row)]).collect();
        self.text_of(&rows, &format!("event '{}'", clean(event)), chains)
    }

    /// Formats rows, with the chains that the first event has below them.
    pub(super) fn text_of(&self, rows: &[GroupRow<'_>], events: &str, chains: &ChainsByRow<String>) -> String {
        let mut out = String::new();
        let is_one = |field: &TopField| self.shape.only.iter().any(|one| *field == TopField::Key(one.key));
        let fields = self.tables.first().map_or(&[][..], |table| table.fields);
        let keys_left = fields.iter().any(|field| matches!(field, TopField::Key(_)) && !is_one(field));
        let is_told = |field: &TopField| keys_left && is_one(field);
        let shown = fields.iter().filter(|field| !is_told(field)).enumerate();
        let columns: Vec<Printed> = shown.map(|(at, field)| self.column(at, *field, rows)).collect();
        let titles: Vec<String> = columns.iter().map(|column| column.aligned(&column.title, true)).collect();
        let dots: Vec<String> = columns.iter().map(|column| ".".repeat(column.width)).collect();
        // Writing into a string cannot fail.
        if !self.shape.options.quiet {
            let slices = self.shape.time.map_or_else(String::new, |time| format!(" (time slices: {})", clean(time)));
            let (counted, sum) = self.totals();
            let _ = writeln!(out, "# {counted} of {events}{slices}");
            let _ = writeln!(out, "# {sum}\n#");
            let _ = writeln!(out, "# {}\n# {}\n#", titles.join("  "), dots.join("  "));
        }
        for (i, row) in rows.iter().enumerate() {
            let cells: Vec<String> = columns
                .iter()
                .enumerate()
                .map(|(at, column)| column.aligned(&column.cells[i], at + 1 < columns.len()))
                .collect();
            let _ = writeln!(out, "  {}", cells.join("  "));
            let of_first = row.first().copied().flatten().and_then(|row| chains.get(&row.place()));
            out.push_str(of_first.map_or("", String::as_str));
        }
        out + "\n\n"
    }

    /// Returns the lines about samples and periods in perf's words. Sums of other tools' files have units, and are not
    /// counts of an event.
    fn totals(&self) -> (String, String) {
        let meanings = self.tables.iter().map(|table| (table.meaning, table.whole));
        let total: Acc = self.tables.iter().map(|table| table.whole).sum();
        let (mut n, mut name) = (0u64, "Samples");
        for (meaning, whole) in meanings.clone() {
            let (samples, noun) = whole.counted(meaning.count);
            n = n.saturating_add(samples);
            name = if noun == "sample" { name } else { "Stacks" };
        }
        let sum = match self.tables.iter().any(|table| table.meaning.is_value) {
            true => {
                let totals = meanings.map(|(meaning, whole)| meaning.unit.total(whole.period, |n| n.to_string()));
                format!("Total: {}", totals.collect::<Vec<_>>().join(", "))
            }
            false => format!("Event count (approx.): {}", total.period),
        };
        (format!("{name}: {}", rounded(n)), sum)
    }

    fn column(&self, at: usize, field: TopField, rows: &[GroupRow<'_>]) -> Printed {
        let least = match field {
            TopField::Samples | TopField::Period => 12,
            TopField::Key(_) => 0,
            _ => 8,
        };
        let cells: Vec<String> = rows.iter().map(|row| self.group_cell(row, field, least)).collect();
        let title = self.title(field);
        let align = if is_task(field) { Align::Left } else { field.column().align };
        let own = cells.iter().map(|cell| width(cell)).max().unwrap_or(0).max(width(&title)).max(least);
        let fixed = self.shape.options.column_widths.get(at).copied().filter(|cells| *cells > 0);
        Printed { title, align, width: fixed.unwrap_or(own), cells }
    }

    /// Returns the values of all events in columns of a width, or the value of a key.
    fn group_cell(&self, row: &GroupRow<'_>, field: TopField, width: usize) -> String {
        let mut parts = self.tables.iter().zip(row);
        if self.tables.len() == 1 || matches!(field, TopField::Key(_)) {
            return parts.find_map(|(table, row)| Some(cell(table, (*row)?, field, self.shape))).unwrap_or_default();
        }
        let absent = if matches!(field, TopField::Samples | TopField::Period) { "0" } else { "0.00%" };
        let of_event = |(table, row): (&TopTable<'_>, &Option<&TopRow>)| {
            let text = row.map_or_else(|| absent.to_owned(), |row| cell(table, row, field, self.shape));
            format!("{text:>width$}")
        };
        parts.map(of_event).collect()
    }

    /// Returns perf's title of a column; ours if perf does not have the column.
    fn title(&self, field: TopField) -> String {
        let title = match field {
            TopField::SelfTime if !self.shape.children => "Overhead",
            TopField::Key(ColumnKey::Comm) => "Command",
            TopField::Key(ColumnKey::Tid) => "    Pid:Command",
            TopField::Key(ColumnKey::Pid) => "   Tgid:Command",
            TopField::Key(ColumnKey::Dso) => "Shared Object",
            TopField::Key(ColumnKey::Srcline) => "Source:Line",
            TopField::Key(ColumnKey::Srcfile) => "Source File",
            field => {
                let column = self.tables.first().map_or_else(|| field.column(), |table| table.column(field));
                return column.title.into_owned();
            }
        };
        title.to_owned()
    }
}

/// Formats a thread like perf: its number and its last comm.
fn thread(table: &TopTable<'_>, tid: i64) -> String {
    let session = table.data.session;
    let of_task = || session.tasks().iter().rev().find(|task| i64::from(task.tid) == tid);
    let comm = i32::try_from(tid).ok().and_then(|tid| session.comm_of(tid));
    let comm = comm.or_else(|| Some(of_task()?.comm.clone())).unwrap_or_default();
    format!("{tid:>7}:{}", clean(&comm))
}

fn cell(table: &TopTable<'_>, row: &TopRow, field: TopField, shape: &ReportShape<'_>) -> String {
    let cell = table.cell(row, field);
    if field == TopField::Key(ColumnKey::Sym) {
        let sym = table.top.symbol(table.data, row.label);
        let level = sym.map_or('.', |sym| match sym.kind {
            DsoKind::Guest => 'g',
            kind if kind.is_kernel() => 'k',
            _ => '.',
        });
        return format!("[{level}] {}", clean(&cell.text()));
    }
    match cell {
        Cell::Id(tid) if is_task(field) => thread(table, tid),
        Cell::Text(time) if matches!(field, TopField::Key(ColumnKey::Time(_))) && shape.options.ns => {
            with_nanoseconds(&time)
        }
        Cell::Percent(share) => format!("{share:.2}%"),
        Cell::Count(n) => n.to_string(),
        cell => clean(&cell.text()).into_owned(),
    }
}

/// Returns whether a column has threads, or processes by their main threads: they have their comm behind the number.
fn is_task(field: TopField) -> bool {
    matches!(field, TopField::Key(ColumnKey::Tid | ColumnKey::Pid))
}

/// Formats seconds with nine digits instead of six.
fn with_nanoseconds(time: &str) -> String {
    let digits = time.split_once('.').map_or(0, |(_, digits)| digits.len());
    format!("{time}{}", "0".repeat(9usize.saturating_sub(digits)))
}

impl Printed {
    /// Aligns a text in the column. The last one of a line does not have trailing blanks.
    fn aligned(&self, text: &str, padded: bool) -> String {
        let room = " ".repeat(self.width.saturating_sub(width(text)));
        match self.align {
            Align::Right => format!("{room}{text}"),
            Align::Left if padded => format!("{text}{room}"),
            Align::Left => text.to_owned(),
        }
    }
}

/// Formats `131 ` or `4K`, rounded as in perf.
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
    fn times_have_nine_digits_on_request() {
        assert_eq!(with_nanoseconds("43211.100000"), "43211.100000000");
        assert_eq!(with_nanoseconds("1.000000250"), "1.000000250");
    }

    #[test]
    fn samples_are_rounded_as_perf_rounds_them() {
        assert_eq!([131, 1000, 4636, 2_000_000].map(rounded), ["131 ", "1000 ", "4K", "2M"].map(str::to_owned));
    }
}
