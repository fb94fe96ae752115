//! Rows that can be pointed at, and that may stand below each other.

use std::borrow::Cow;

use serde_json::json;

use super::table::{Cell, Column, Table};

/// A table whose rows have an identity, which stays while their order changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The columns, and the cells of each row.
    pub table: Table,
    /// One for each row.
    pub ids: Vec<u64>,
    /// How deep each row of a tree is; empty for a table.
    pub depth: Vec<u16>,
    /// How many rows were left out.
    pub more: usize,
    /// The row that stands for those after it, which are folded into it.
    pub rest: Option<Rest>,
}

/// A row that stands for all rows after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The place of the row.
    pub row: usize,
    /// How many of the rows before it are shown before it; the others matter less than it does.
    pub after: usize,
    /// Whether no row outweighs it, so that it is not drawn dim.
    pub is_largest: bool,
}

impl Rows {
    /// A table without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Self { table: Table { columns, rows: Vec::new() }, ..Self::default() }
    }

    /// Adds a row.
    pub fn push(&mut self, id: u64, cells: Vec<Cell>) {
        self.ids.push(id);
        self.table.rows.push(cells);
    }

    /// The rows that stand alone: all but those that are folded into one of them.
    pub fn unfolded(&self) -> usize {
        self.rest.map_or(self.ids.len(), |rest| rest.row + 1)
    }

    /// The places of all rows in the order in which they are shown, those that are folded in only where that is `open`.
    pub(crate) fn in_order(&self, open: bool) -> Vec<usize> {
        let Some(Rest { row, after, .. }) = self.rest else { return (0..self.ids.len()).collect() };
        let folded = if open { row + 1..self.ids.len() } else { 0..0 };
        (0..after).chain([row]).chain(folded).chain(after..row).collect()
    }

    /// Whether a row is drawn dim: one that is folded into another, and that one, unless it is the largest.
    pub(crate) fn is_dim(&self, row: usize) -> bool {
        self.rest.is_some_and(|rest| row >= rest.row && !rest.is_largest)
    }

    /// A table of them.
    pub fn unfolded_table(&self) -> Cow<'_, Table> {
        match self.rest {
            None => Cow::Borrowed(&self.table),
            Some(_) => {
                let rows = self.in_order(false).into_iter().map(|row| self.table.rows[row].clone()).collect();
                Cow::Owned(Table { columns: self.table.columns.clone(), rows })
            }
        }
    }

    /// Rows as JSON: those before the one that others are folded into, and that one with these.
    pub fn to_json(&self) -> serde_json::Value {
        let mut all = self.table.to_json();
        let rest = self.rest.map(|rest| all.split_off(rest.row)).unwrap_or_default();
        match rest.split_first() {
            None => json!({ "rows": all }),
            Some((sum, rows)) => json!({ "rows": all, "rest": { "sum": sum, "rows": rows } }),
        }
    }

    /// Plain text; rows of a tree are indented in their last column.
    pub fn to_text(&self) -> String {
        let text = if self.depth.is_empty() {
            self.unfolded_table().to_text()
        } else {
            let mut table = self.table.clone();
            for (row, depth) in table.rows.iter_mut().zip(&self.depth) {
                if let Some(Cell::Text(text)) = row.last_mut() {
                    *text = format!("{}{text}", "  ".repeat(usize::from(*depth))).into();
                }
            }
            table.to_text()
        };
        match self.more {
            0 => text,
            more => format!("{text}… {more} more\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panel::Align;

    fn rows(rest: Option<Rest>) -> Rows {
        let mut rows = Rows::new(vec![Column::new("n", "N", Align::Right, 4)]);
        (1..=4).for_each(|n| rows.push(n, vec![Cell::Count(n)]));
        Rows { rest, ..rows }
    }

    #[test]
    fn what_is_folded_is_one_row_of_text_and_apart_in_json() {
        assert_eq!(rows(None).to_text(), "N\n1\n2\n3\n4\n");
        let rest = Rest { row: 1, after: 1, is_largest: false };
        let folded = rows(Some(rest));
        assert_eq!((folded.to_text().as_str(), folded.unfolded_table().rows.len()), ("N\n1\n2\n", 2));
        let json = json!({ "rows": [{ "n": 1 }], "rest": { "sum": { "n": 2 }, "rows": [{ "n": 3 }, { "n": 4 }] } });
        assert_eq!(folded.to_json(), json);
        assert_eq!([false, true].map(|open| folded.in_order(open)), [vec![0, 1], vec![0, 1, 2, 3]]);
        assert_eq!([0, 1, 2, 3].map(|row| folded.is_dim(row)), [false, true, true, true]);
        // Where it outweighs all others it comes first, and is not dim.
        let first = rows(Some(Rest { after: 0, is_largest: true, ..rest }));
        assert_eq!([false, true].map(|open| first.in_order(open)), [vec![1, 0], vec![1, 2, 3, 0]]);
        assert_eq!((first.to_text().as_str(), first.is_dim(1)), ("N\n2\n1\n", false));
        assert_eq!(first.to_json(), json);
    }
}
