//! A table: titled columns and rows of typed cells.

use std::sync::Arc;

/// How a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name in CSV and JSON.
    pub name: &'static str,
    pub title: &'static str,
    pub align: Align,
    /// Cells wide, for columns whose width does not depend on their content; 0 for those that
    /// share what is left.
    pub width: u16,
}

/// A value; how it is written is decided by [`Cell::text`] alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Empty,
    Text(Arc<str>),
    Count(u64),
    /// A share in percent.
    Percent(f64),
    /// Any other number, with one decimal.
    Number(f64),
    Id(i64),
}

impl Cell {
    /// As shown to people: unit once, one decimal, thousands separated.
    pub fn text(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => super::text::clean(text).into_owned(),
            Self::Count(n) => super::unit::thousands(*n),
            Self::Percent(p) => super::unit::percent(*p),
            Self::Number(n) => format!("{n:.1}"),
            Self::Id(n) => n.to_string(),
        }
    }

    /// As given to programs: plain numbers.
    pub fn raw(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => text.to_string(),
            Self::Count(n) => n.to_string(),
            Self::Percent(n) | Self::Number(n) => format!("{n:.4}"),
            Self::Id(n) => n.to_string(),
        }
    }
}

/// A table of any size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Plain text, columns aligned, names cut nowhere.
    pub fn to_text(&self) -> String {
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(Cell::text).collect()).collect();
        let width = |i: usize| {
            let content = cells.iter().filter_map(|r| r.get(i)).map(|c| super::text::width(c)).max().unwrap_or(0);
            content.max(super::text::width(self.columns[i].title))
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        let mut line = |texts: &mut dyn Iterator<Item = &str>| {
            let mut before = 0;
            for (i, text) in texts.enumerate() {
                let pad = widths[i].saturating_sub(super::text::width(text));
                before += if i > 0 { 2 } else { 0 };
                let (left, right) = match self.columns[i].align {
                    Align::Right => (pad, 0),
                    Align::Left => (0, pad),
                };
                // Room after a text is written with the next one, so that lines have no end of blanks.
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
        line(&mut self.columns.iter().map(|c| c.title));
        for row in &cells {
            line(&mut row.iter().map(String::as_str));
        }
        out
    }

    /// Comma-separated values with a heading, quoted where needed (RFC 4180).
    pub fn to_csv(&self) -> String {
        let quote = |text: String| {
            if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
        };
        let mut out = String::new();
        let mut line = |texts: Vec<String>| {
            out.push_str(&texts.into_iter().map(quote).collect::<Vec<_>>().join(","));
            out.push_str("\r\n");
        };
        line(self.columns.iter().map(|c| c.name.to_owned()).collect());
        for row in &self.rows {
            line(row.iter().map(Cell::raw).collect());
        }
        out
    }
}

impl Table {
    /// Rows as objects by the names of the columns; what is not known is left out.
    pub fn to_json(&self) -> Vec<serde_json::Value> {
        let value = |cell: &Cell| match cell {
            Cell::Empty => None,
            Cell::Text(text) => Some(serde_json::json!(&**text)),
            Cell::Count(n) => Some(serde_json::json!(n)),
            Cell::Id(n) => Some(serde_json::json!(n)),
            Cell::Percent(n) | Cell::Number(n) => Some(serde_json::json!((n * 1e4).round() / 1e4)),
        };
        let object = |row: &Vec<Cell>| {
            let fields = self.columns.iter().zip(row).filter_map(|(c, cell)| Some((c.name.to_owned(), value(cell)?)));
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
        let column = |name, align| Column { name, title: name, align, width: 0 };
        let table = Table {
            columns: vec![column("n", Align::Right), column("name", Align::Left)],
            rows: vec![
                vec![Cell::Count(12_345), Cell::Text("a".into())],
                vec![Cell::Percent(1.25), Cell::Text("b,\"c\u{1b}".into())],
            ],
        };
        assert_eq!(table.to_text(), "     n  name\n12,345  a\n 1.2 %  b,\"c␛\n");
        assert_eq!(table.to_csv(), "n,name\r\n12345,a\r\n1.2500,\"b,\"\"c\u{1b}\"\r\n");
    }
}
