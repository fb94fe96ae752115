//! A table: titled columns, and rows of typed cells.

use std::borrow::Cow;
use std::sync::Arc;

/// The alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// For text.
    Left,
    /// For numbers.
    Right,
}

/// The name of a first column with CPUs that do the work of rows: the screen of CPUs shows more about them.
pub(crate) const WORKING_CPU: &str = "softirq_cpu";

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name in CSV and JSON.
    pub name: Cow<'static, str>,
    pub(crate) title: Cow<'static, str>,
    pub(crate) align: Align,
    /// The width in cells; 0 for columns that share the remaining width.
    pub width: u16,
    /// If there is not enough room, columns of the highest rank are dropped first. Within a rank, the rightmost.
    pub rank: u8,
    /// The part that its texts lose where they do not fit, unless its name determines that.
    pub(crate) cut: Cut,
}

/// The part that a text loses where it does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The middle of a name ([`super::text::fit`]).
    Name,
    /// The frames of a stack that other rows have, too ([`super::stack_line::FrameWeights::fit`]).
    Stack,
    /// The end of a text.
    End,
    /// The last items of a list ([`super::text::fit_list`]).
    List,
}

/// A value. Only [`Cell::text`] determines its formatting.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Unknown or not applicable.
    Empty,
    /// A name or words, unmodified: they are cleaned when written.
    Text(Arc<str>),
    /// A count.
    Count(u64),
    /// A share in percent.
    Percent(f64),
    /// Any other number, with one decimal.
    Number(f64),
    /// A ratio, with two decimals.
    Ratio(f64),
    /// A number that identifies a CPU, process or thread.
    Id(i64),
    /// In place of an ID, in a row of totals.
    All,
    /// Nanoseconds.
    Time(u64),
    /// A point in time, in nanoseconds since the session's start.
    Moment(u64),
    /// Nanoseconds relative to a point in time; may be negative.
    TimeFrom(i64),
    /// An amount of memory or data, in bytes.
    Bytes(u64),
    /// A change in bytes.
    ByteChange(i64),
    /// An address.
    Address(u64),
    /// Values over time, the newest last.
    Course(Arc<[f32]>),
}

impl Column {
    /// Creates a column with fixed name and title.
    pub const fn new(name: &'static str, title: &'static str, align: Align, width: u16) -> Self {
        Self { name: Cow::Borrowed(name), title: Cow::Borrowed(title), align, width, rank: 0, cut: Cut::Name }
    }

    /// The way its texts are cut. The text of an event begins with what matters.
    pub(crate) fn cut(&self) -> Cut {
        match &*self.name {
            _ if self.cut != Cut::Name => self.cut,
            "text" => Cut::End,
            name if name.ends_with("stack") => Cut::Stack,
            _ => Cut::Name,
        }
    }

    /// Whether it names the thread or the program that a row is about.
    pub(crate) fn is_who(&self) -> bool {
        matches!(&*self.name, "comm" | "task")
    }

    pub(crate) const fn texts(name: &'static str, title: &'static str) -> Self {
        Self::new(name, title, Align::Left, 0)
    }

    pub(crate) const fn figures(name: &'static str, title: &'static str) -> Self {
        Self::new(name, title, Align::Right, 0)
    }

    /// Replaces the unit suffix `_ns` of the column's name.
    pub fn of_unit(mut self, suffix: &str) -> Self {
        if let Some(name) = self.name.strip_suffix("_ns") {
            self.name = format!("{name}{suffix}").into();
        }
        self
    }

    /// Sets the rank.
    pub fn ranked(self, rank: u8) -> Self {
        Self { rank, ..self }
    }
}

impl Cell {
    /// Formats for display: with unit, one decimal, thousands separated.
    pub fn text(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => super::text::clean(text).into_owned(),
            Self::Count(n) => super::unit::thousands(*n),
            Self::Percent(p) => super::unit::percent(*p),
            Self::Number(n) => format!("{n:.1}"),
            Self::Ratio(n) => format!("{n:.2}"),
            Self::Id(n) => n.to_string(),
            Self::All => "all".to_owned(),
            Self::Time(ns) => super::unit::duration(*ns),
            Self::TimeFrom(ns) => {
                format!("{}{}", if *ns < 0 { "-" } else { "" }, super::unit::duration(ns.unsigned_abs()))
            }
            Self::Moment(ns) => super::unit::seconds(*ns),
            Self::Bytes(n) => super::unit::bytes(*n),
            Self::ByteChange(n) => {
                let sign = match n.signum() {
                    -1 => "-",
                    0 => "",
                    _ => "+",
                };
                format!("{sign}{}", super::unit::bytes(n.unsigned_abs()))
            }
            Self::Address(n) => format!("{n:#x}"),
            Self::Course(values) => super::series::spark(values),
        }
    }

    /// Formats for a limited width: a count that does not fit is rounded, never cut.
    pub fn text_in(&self, room: usize) -> String {
        let text = self.text();
        match self {
            Self::Count(n) if text.len() > room => super::unit::short(*n as f64),
            _ => text,
        }
    }

    /// Compares for sorting: numbers by value, text alphabetically. Empty cells come last.
    pub fn compare(&self, other: &Self) -> std::cmp::Ordering {
        let number = |cell: &Self| match cell {
            Self::Count(n) | Self::Time(n) | Self::Moment(n) | Self::Bytes(n) | Self::Address(n) => Some(*n as f64),
            Self::Percent(n) | Self::Number(n) | Self::Ratio(n) => Some(*n),
            Self::Id(n) | Self::TimeFrom(n) | Self::ByteChange(n) => Some(*n as f64),
            Self::Course(values) => values.last().map(|n| f64::from(*n)),
            Self::Empty | Self::All | Self::Text(_) => None,
        };
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => b.cmp(a),
            _ => number(self).unwrap_or(f64::NEG_INFINITY).total_cmp(&number(other).unwrap_or(f64::NEG_INFINITY)),
        }
    }

    /// Formats for programs that read lines. Numbers are plain, and text does not have line breaks.
    pub fn raw(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::All => "all".to_owned(),
            Self::Text(text) => super::text::clean(text).into_owned(),
            Self::Count(n) => n.to_string(),
            Self::Percent(n) | Self::Number(n) | Self::Ratio(n) => format!("{n:.4}"),
            Self::Id(n) | Self::TimeFrom(n) | Self::ByteChange(n) => n.to_string(),
            Self::Time(n) | Self::Moment(n) | Self::Bytes(n) => n.to_string(),
            Self::Address(n) => format!("{n:#x}"),
            Self::Course(values) => values.iter().map(|v| format!("{v:.1}")).collect::<Vec<_>>().join(" "),
        }
    }
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns from left to right.
    pub columns: Vec<Column>,
    /// The cells of each row, one for each column.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn of_texts<const N: usize>(
        columns: [(&'static str, &'static str); N],
        rows: impl IntoIterator<Item = [impl Into<Arc<str>>; N]>,
    ) -> Self {
        let columns = columns.map(|(name, title)| Column::texts(name, title)).to_vec();
        Self { columns, rows: rows.into_iter().map(|row| row.map(|text| Cell::Text(text.into())).to_vec()).collect() }
    }

    /// Formats plain text with aligned columns; names are not cut.
    pub fn to_text(&self) -> String {
        self.to_text_within(&[])
    }

    /// Formats plain text with aligned columns.
    /// `cells` sets the widths of the first columns; 0 is automatic. Wider names are cut, numbers are not.
    pub(crate) fn to_text_within(&self, cells: &[usize]) -> String {
        let fixed = |column: usize| cells.get(column).copied().filter(|cells| *cells > 0);
        let is_name = |column: usize| self.columns.get(column).is_some_and(|c| c.align == Align::Left);
        let cut = |column: usize, text: String| match fixed(column) {
            Some(cells) if is_name(column) && super::text::width(&text) > cells => {
                super::text::fit_end(&text, cells).into_owned()
            }
            _ => text,
        };
        let title = |(i, c): (usize, &Column)| cut(i, super::text::clean(&c.title).into_owned());
        let titles: Vec<String> = self.columns.iter().enumerate().map(title).collect();
        let mut widths: Vec<usize> = titles.iter().map(|title| super::text::width(title)).collect();
        // All cells share one string: a recording may have a hundred thousand rows.
        let (mut texts, mut ends) = (String::new(), Vec::new());
        for cells in &self.rows {
            for (i, (cell, widest)) in cells.iter().zip(&mut widths).enumerate() {
                let text = cut(i, cell.text());
                *widest = (*widest).max(super::text::width(&text));
                texts.push_str(&text);
                ends.push(texts.len());
            }
        }
        for (i, width) in widths.iter_mut().enumerate() {
            *width = fixed(i).map_or(*width, |cells| if is_name(i) { cells } else { cells.max(*width) });
        }
        let mut out = String::with_capacity(texts.len() + texts.len() / 2);
        let mut line = |texts: &mut dyn Iterator<Item = &str>| {
            let mut before = 0;
            for (i, text) in texts.enumerate() {
                let pad = widths[i].saturating_sub(super::text::width(text));
                before += if i > 0 { 2 } else { 0 };
                let (left, right) = match self.columns[i].align {
                    Align::Right => (pad, 0),
                    Align::Left => (0, pad),
                };
                // Padding is written with the next cell, so that lines do not end with blanks.
                if !text.is_empty() {
                    out.extend(std::iter::repeat_n(' ', before + left));
                    out.push_str(text);
                    before = right;
                } else {
                    before += pad;
                }
            }
            out.push('\n');
        };
        line(&mut titles.iter().map(String::as_str));
        let (mut ends, mut from) = (ends.into_iter(), 0);
        for cells in &self.rows {
            let ends = ends.by_ref().take(cells.len().min(self.columns.len()));
            line(&mut ends.map(|end| &texts[std::mem::replace(&mut from, end)..end]));
        }
        out
    }

    /// Formats numbers like perf, without thousands separators.
    pub(crate) fn with_plain_figures(mut self) -> Self {
        for cell in self.rows.iter_mut().flatten() {
            match cell {
                Cell::Percent(share) => *cell = Cell::Text(format!("{share:.2}%").into()),
                Cell::Count(n) => *cell = Cell::Text(n.to_string().into()),
                _ => {}
            }
        }
        self
    }

    /// Formats lines for programs, after a comment line with the titles.
    /// Numbers do not have units, but shares have `%`. A separator inside a value becomes a dot.
    pub(crate) fn to_separated(&self, separator: &str) -> String {
        let apart = |text: String| text.replace(separator, ".");
        let value = |cell: &Cell| match cell {
            Cell::Percent(share) => format!("{share:.2}%"),
            cell => apart(cell.raw()),
        };
        let titles = self.columns.iter().map(|c| apart(super::text::clean(&c.title).into_owned()));
        let mut out = format!("# {}\n", titles.collect::<Vec<_>>().join(separator));
        for row in &self.rows {
            out.push_str(&row.iter().map(value).collect::<Vec<_>>().join(separator));
            out.push('\n');
        }
        out
    }

    /// Joins the tables of several events: rows follow their event, with empty cells for columns that it lacks.
    pub(crate) fn of_events(tables: Vec<(&str, Self)>) -> Self {
        let mut all = Self { columns: vec![Column::texts("event", "Event")], rows: Vec::new() };
        for (event, table) in tables {
            let mut place = |column: Column| match all.columns.iter().position(|known| known.name == column.name) {
                Some(at) => at,
                None => {
                    all.columns.push(column);
                    all.columns.len() - 1
                }
            };
            let places: Vec<usize> = table.columns.into_iter().map(&mut place).collect();
            for cells in table.rows {
                let mut row = vec![Cell::Empty; all.columns.len()];
                row[0] = Cell::Text(event.into());
                places.iter().zip(cells).for_each(|(at, cell)| row[*at] = cell);
                all.rows.push(row);
            }
        }
        all.rows.iter_mut().for_each(|row| row.resize(all.columns.len(), Cell::Empty));
        all
    }

    /// Formats comma-separated values with a header, quoted if needed (RFC 4180).
    pub fn to_csv(&self) -> String {
        let quote = |text: String| {
            if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
        };
        let mut out = String::new();
        let mut line = |texts: Vec<String>| {
            out.push_str(&texts.into_iter().map(quote).collect::<Vec<_>>().join(","));
            out.push_str("\r\n");
        };
        line(self.columns.iter().map(|c| super::text::clean(&c.name).into_owned()).collect());
        for row in &self.rows {
            line(row.iter().map(Cell::raw).collect());
        }
        out
    }
}

impl Table {
    /// Returns rows as objects keyed by column name. Unknown values and the IDs of total rows are omitted.
    pub fn to_json(&self) -> Vec<serde_json::Value> {
        let value = |cell: &Cell| match cell {
            Cell::Empty | Cell::All => None,
            Cell::Text(text) => Some(serde_json::json!(&**text)),
            Cell::Count(n) => Some(serde_json::json!(n)),
            Cell::Id(n) | Cell::TimeFrom(n) | Cell::ByteChange(n) => Some(serde_json::json!(n)),
            Cell::Percent(n) | Cell::Number(n) | Cell::Ratio(n) => Some(serde_json::json!((n * 1e4).round() / 1e4)),
            Cell::Time(n) | Cell::Moment(n) | Cell::Bytes(n) => Some(serde_json::json!(n)),
            Cell::Address(n) => Some(serde_json::json!(format!("{n:#x}"))),
            Cell::Course(values) => {
                Some(values.iter().map(|v| (f64::from(*v) * 10.0).round() / 10.0).collect::<Vec<_>>().into())
            }
        };
        let object = |row: &Vec<Cell>| {
            let fields =
                self.columns.iter().zip(row).filter_map(|(c, cell)| Some((c.name.clone().into_owned(), value(cell)?)));
            serde_json::Value::Object(fields.collect())
        };
        self.rows.iter().map(object).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_aligned_and_csv_is_quoted() {
        let column = |name, align| Column::new(name, name, align, 0);
        let table = Table {
            columns: vec![column("n", Align::Right), column("name", Align::Left)],
            rows: vec![
                vec![Cell::Count(12_345), Cell::Text("a".into())],
                vec![Cell::Percent(1.25), Cell::Text("b,\"c\u{1b}\r\n".into())],
            ],
        };
        let shown = |n: u64| [5, 9, 11].map(|room| Cell::Count(n).text_in(room));
        assert_eq!(shown(177_123_356), ["177.1 M", "177.1 M", "177,123,356"], "rounded, not cut");
        assert_eq!(table.to_text(), "     n  name\n12,345  a\n 1.2 %  b,\"c␛␍␊\n");
        let cut = "     n  n…\n12,345  a\n 1.2 %  b…\n";
        assert_eq!((table.to_text_within(&[3, 2]), table.to_text_within(&[0, 2])), (cut.to_owned(), cut.to_owned()));
        assert_eq!(table.to_text_within(&[8]).lines().nth(1), Some("  12,345  a"));
        assert_eq!(table.to_separated(","), "# n,name\n12345,a\n1.25%,b.\"c␛␍␊\n");
        assert_eq!(table.to_csv(), "n,name\r\n12345,a\r\n1.2500,\"b,\"\"c␛␍␊\"\r\n");
    }

    #[test]
    fn tables_of_events_become_one() {
        let table = |names: &[&'static str], n| Table {
            columns: names.iter().map(|name| Column::figures(name, name)).collect(),
            rows: vec![(n..).take(names.len()).map(Cell::Count).collect()],
        };
        let all = Table::of_events(vec![("a:b", table(&["n", "ipc"], 1)), ("c", table(&["n", "x"], 7))]);
        assert_eq!(all.to_csv(), "event,n,ipc,x\r\na:b,1,2,\r\nc,7,,8\r\n");
    }

    #[test]
    fn points_of_time_and_changes_are_words_for_people_and_numbers_for_programs() {
        let words = |cell: Cell| (cell.text(), cell.raw());
        assert_eq!(words(Cell::Moment(600_711_000)), ("0.600711".into(), "600711000".into()));
        assert_eq!(words(Cell::ByteChange(-2000)), ("-2.0 kB".into(), "-2000".into()));
        assert_eq!(words(Cell::ByteChange(2000)), ("+2.0 kB".into(), "2000".into()));
        assert_eq!(words(Cell::ByteChange(0)), ("0 B".into(), "0".into()));
        assert_eq!(words(Cell::TimeFrom(-1500)), ("-1.50 µs".into(), "-1500".into()));
        assert_eq!(words(Cell::TimeFrom(1500)), ("1.50 µs".into(), "1500".into()));
        assert!(Cell::ByteChange(-2000).compare(&Cell::ByteChange(1)).is_lt());
        let column = |name| Column::new(name, name, Align::Right, 0);
        let rows = vec![vec![Cell::Moment(7), Cell::ByteChange(-1)]];
        let table = Table { columns: vec![column("time_ns"), column("net_bytes")], rows };
        assert_eq!(serde_json::json!(table.to_json()), serde_json::json!([{ "time_ns": 7, "net_bytes": -1 }]));
    }
}
