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
    /// The row that stands for those after it, which are of less interest: they are folded into it.
    pub rest: Option<usize>,
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
        self.rest.map_or(self.ids.len(), |rest| rest + 1)
    }

    /// A table of them.
    pub fn unfolded_table(&self) -> Cow<'_, Table> {
        match self.rest {
            None => Cow::Borrowed(&self.table),
            Some(_) => {
                let rows = self.table.rows[..self.unfolded()].to_vec();
                Cow::Owned(Table { columns: self.table.columns.clone(), rows })
            }
        }
    }

    /// Rows as JSON: those before the one that others are folded into, and that one with these.
    pub fn to_json(&self) -> serde_json::Value {
        let mut all = self.table.to_json();
        let rest = self.rest.map(|rest| all.split_off(rest)).unwrap_or_default();
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

    fn rows(rest: Option<usize>) -> Rows {
        let mut rows = Rows::new(vec![Column::new("n", "N", Align::Right, 4)]);
        (1..=4).for_each(|n| rows.push(n, vec![Cell::Count(n)]));
        Rows { rest, ..rows }
    }

    #[test]
    fn what_is_folded_is_one_row_of_text_and_apart_in_json() {
        assert_eq!(rows(None).to_text(), "N\n1\n2\n3\n4\n");
        let folded = rows(Some(1));
        assert_eq!((folded.to_text().as_str(), folded.unfolded_table().rows.len()), ("N\n1\n2\n", 2));
        let json = json!({ "rows": [{ "n": 1 }], "rest": { "sum": { "n": 2 }, "rows": [{ "n": 3 }, { "n": 4 }] } });
        assert_eq!(folded.to_json(), json);
    }
}
