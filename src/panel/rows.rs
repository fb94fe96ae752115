//! Selectable rows, possibly nested.

use std::borrow::Cow;

use serde_json::json;

use super::table::{Cell, Column, Table};

/// A table whose rows have an ID that stays the same when their order changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The columns, and the cells of each row.
    pub table: Table,
    /// The ID of each row.
    pub ids: Vec<u64>,
    /// The depth of each row of a tree; empty for a table.
    pub depth: Vec<u16>,
    /// The number of omitted rows.
    pub more: usize,
    /// The summary row into which later rows are folded.
    pub rest: Option<Rest>,
    /// The column by which the rows are sorted, the largest first, if the table states it. Rows of another kind may
    /// follow the sorted ones.
    pub ordered_by: Option<usize>,
    /// Whether the rows are sorted by a value that no column shows.
    pub has_hidden_order: bool,
    /// Whether the inner rows of a tree are folded at first.
    pub is_folded: bool,
}

/// A row that summarizes all rows after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The index of the row.
    pub row: usize,
    /// How many of the previous rows are displayed before it; the others weigh less.
    pub after: usize,
    /// Whether it is the heaviest row, which is not dimmed.
    pub is_largest: bool,
}

impl Rows {
    /// Creates a table without rows.
    pub fn new(columns: Vec<Column>) -> Self {
        Self { table: Table { columns, rows: Vec::new() }, ..Self::default() }
    }

    /// Adds a row.
    pub fn push(&mut self, id: u64, cells: Vec<Cell>) {
        self.ids.push(id);
        self.table.rows.push(cells);
    }

    /// Returns the number of rows without those that are folded into the summary row.
    pub fn unfolded(&self) -> usize {
        self.rest.map_or(self.ids.len(), |rest| rest.row + 1)
    }

    /// Returns the indexes of all rows in display order. Folded rows are included if `open`.
    pub(crate) fn in_order(&self, open: bool) -> Vec<usize> {
        let Some(Rest { row, after, .. }) = self.rest else { return (0..self.ids.len()).collect() };
        let folded = if open { row + 1..self.ids.len() } else { 0..0 };
        (0..after).chain([row]).chain(folded).chain(after..row).collect()
    }

    /// Returns whether a row is dimmed: the summary row and its folded rows, unless the summary row is the heaviest.
    pub(crate) fn is_dim(&self, row: usize) -> bool {
        self.rest.is_some_and(|rest| row >= rest.row && !rest.is_largest)
    }

    /// Returns a table without the folded rows.
    pub fn unfolded_table(&self) -> Cow<'_, Table> {
        let is_inner = |row: &usize| self.is_folded && self.depth.get(*row).is_some_and(|depth| *depth > 0);
        if self.rest.is_none() && !self.is_folded {
            return Cow::Borrowed(&self.table);
        }
        let shown = self.in_order(false).into_iter().filter(|row| !is_inner(row));
        let rows = shown.map(|row| self.table.rows[row].clone()).collect();
        Cow::Owned(Table { columns: self.table.columns.clone(), rows })
    }

    /// Returns rows as JSON; folded rows are nested in the summary row.
    pub fn to_json(&self) -> serde_json::Value {
        let mut all = self.table.to_json();
        let rest = self.rest.map(|rest| all.split_off(rest.row)).unwrap_or_default();
        match rest.split_first() {
            None => json!({ "rows": all }),
            Some((sum, rows)) => json!({ "rows": all, "rest": { "sum": sum, "rows": rows } }),
        }
    }

    /// Formats plain text; rows of a tree are indented in their last column.
    pub fn to_text(&self) -> String {
        let text = if self.depth.is_empty() || self.is_folded {
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
    fn a_folded_tree_is_printed_without_its_inner_rows() {
        let tree = Rows { depth: vec![0, 1, 1, 0], is_folded: true, ..rows(None) };
        assert_eq!(tree.to_text(), "N\n1\n4\n");
        assert_eq!(Rows { is_folded: false, ..tree }.unfolded_table().rows.len(), 4);
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
        // If it is the heaviest row, it comes first and is not dimmed.
        let first = rows(Some(Rest { after: 0, is_largest: true, ..rest }));
        assert_eq!([false, true].map(|open| first.in_order(open)), [vec![1, 0], vec![1, 2, 3, 0]]);
        assert_eq!((first.to_text().as_str(), first.is_dim(1)), ("N\n2\n1\n", false));
        assert_eq!(first.to_json(), json);
    }
}
