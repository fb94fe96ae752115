//! Rows that can be pointed at, and that may stand below each other.

use super::table::{Cell, Column, Table};

/// A table whose rows have an identity, which stays while their order changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub table: Table,
    /// One for each row.
    pub ids: Vec<u64>,
    /// How deep each row of a tree is; empty for a table.
    pub depth: Vec<u16>,
    /// How many rows were left out.
    pub more: usize,
}

impl Rows {
    pub fn new(columns: Vec<Column>) -> Self {
        Self { table: Table { columns, rows: Vec::new() }, ..Self::default() }
    }

    /// Adds a row.
    pub fn push(&mut self, id: u64, cells: Vec<Cell>) {
        self.ids.push(id);
        self.table.rows.push(cells);
    }

    /// Adds a row of a tree.
    pub fn push_below(&mut self, depth: u16, id: u64, cells: Vec<Cell>) {
        self.depth.push(depth);
        self.push(id, cells);
    }

    /// Keeps the first rows.
    pub fn limited(mut self, rows: usize) -> Self {
        self.more += self.table.rows.len().saturating_sub(rows);
        self.table.rows.truncate(rows);
        self.ids.truncate(rows);
        self.depth.truncate(rows);
        self
    }

    /// Plain text; rows of a tree are indented in their last column.
    pub fn to_text(&self) -> String {
        let text = if self.depth.is_empty() {
            self.table.to_text()
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
