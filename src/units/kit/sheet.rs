//! A table as its columns: each says what it is called and what its cell is, of the thing that a row is of.

use crate::panel::{Align, Body, Cell, Column, Panel, Rest, Rows};

use super::columns::{MOST_ROWS, share, text};
use super::{Moment, Stats, latency};

/// Adds the cells that some columns have of a thing to its row.
type Cells<'a, T> = dyn Fn(T, &mut Vec<Cell>) + 'a;

/// Columns and the things that rows are of, in order; cells are made when all columns are known.
pub(crate) struct Sheet<'a, T> {
    things: Vec<T>,
    id: Box<dyn Fn(T) -> u64 + 'a>,
    columns: Vec<Column>,
    cells: Vec<Box<Cells<'a, T>>>,
}

impl<'a, T: Copy + 'a> Sheet<'a, T> {
    /// Of things, with a number that identifies each of them.
    pub(crate) fn of(things: impl IntoIterator<Item = T>, id: impl Fn(T) -> u64 + 'a) -> Self {
        Self { things: things.into_iter().collect(), id: Box::new(id), columns: Vec::new(), cells: Vec::new() }
    }

    pub(crate) fn left(
        self,
        name: &'static str,
        title: &'static str,
        width: u16,
        cell: impl Fn(T) -> Cell + 'a,
    ) -> Self {
        self.column(Column::new(name, title, Align::Left, width), cell)
    }

    pub(crate) fn right(
        self,
        name: &'static str,
        title: &'static str,
        width: u16,
        cell: impl Fn(T) -> Cell + 'a,
    ) -> Self {
        self.column(Column::new(name, title, Align::Right, width), cell)
    }

    pub(crate) fn column(mut self, column: Column, cell: impl Fn(T) -> Cell + 'a) -> Self {
        self.columns.push(column);
        self.cells.push(Box::new(move |thing, cells| cells.push(cell(thing))));
        self
    }

    /// The last column goes before others where there is no room for all ([`Column::rank`]).
    pub(crate) fn ranked(mut self, rank: u8) -> Self {
        self.columns.last_mut().into_iter().for_each(|column| column.rank = rank);
        self
    }

    /// Columns of which there are as many as it takes, and as many cells.
    pub(crate) fn columns<C: IntoIterator<Item = Cell>>(
        mut self,
        columns: impl IntoIterator<Item = Column>,
        cells: impl Fn(T) -> C + 'a,
    ) -> Self {
        self.columns.extend(columns);
        self.cells.push(Box::new(move |thing, row| row.extend(cells(thing))));
        self
    }

    /// A column for each of some keys.
    pub(crate) fn each<K: Copy + 'a>(
        self,
        keys: impl IntoIterator<Item = K>,
        column: impl Fn(K) -> Column,
        cell: impl Fn(T, K) -> Cell + 'a,
    ) -> Self {
        let keys: Vec<K> = keys.into_iter().collect();
        let columns: Vec<Column> = keys.iter().map(|key| column(*key)).collect();
        self.columns(columns, move |thing| keys.iter().map(|key| cell(thing, *key)).collect::<Vec<_>>())
    }

    /// Columns that are wanted in some cases only.
    pub(crate) fn when(self, wanted: bool, more: impl FnOnce(Self) -> Self) -> Self {
        if wanted { more(self) } else { self }
    }

    /// `comm`, `tid`.
    pub(crate) fn task(self, at: &'a Moment<'_>, tid: impl Fn(T) -> i32 + Copy + 'a) -> Self {
        self.left("comm", "Comm", 16, move |thing| text(at.comm(tid(thing))))
            .right("tid", "TID", 8, move |thing| Cell::Id(tid(thing).into()))
    }

    /// A share of a whole.
    pub(crate) fn share(self, part: impl Fn(T) -> u64 + 'a, whole: u64) -> Self {
        self.right("share_pct", "Share", 8, move |thing| share(part(thing), whole))
    }

    /// The columns of [`latency::columns`].
    pub(crate) fn latency<'s>(self, than: bool, stats: impl Fn(T) -> &'s Stats + 'a) -> Self {
        self.columns(latency::columns(than), move |thing| latency::cells(stats(thing), than))
    }

    /// All rows.
    pub(crate) fn rows(self) -> Rows {
        let mut rows = Rows::new(self.columns);
        for thing in self.things {
            let mut cells = Vec::with_capacity(rows.table.columns.len());
            self.cells.iter().for_each(|cell| cell(thing, &mut cells));
            rows.push((self.id)(thing), cells);
        }
        rows
    }

    /// The first rows of what may be very many.
    pub(crate) fn panel(mut self, title: impl Into<String>) -> Panel {
        let more = self.things.len().saturating_sub(MOST_ROWS);
        self.things.truncate(MOST_ROWS);
        Panel::new(title, Body::Table(Rows { more, ..self.rows() }))
    }

    /// The first rows of what may be very many, then one that stands for all after it.
    pub(crate) fn folded_panel(mut self, title: impl Into<String>, rest: Rest) -> Panel {
        let more = rest.row.saturating_sub(MOST_ROWS);
        self.things.drain(rest.row - more..rest.row);
        let row = rest.row - more;
        let rest = Some(Rest { row, after: rest.after.min(row), ..rest }).filter(|_| row < self.things.len());
        self.things.truncate(2 * MOST_ROWS);
        Panel::new(title, Body::Table(Rows { more, rest, ..self.rows() }))
    }

    /// All rows of what is few.
    pub(crate) fn whole(self, title: impl Into<String>) -> Panel {
        Panel::new(title, Body::Table(self.rows()))
    }
}
