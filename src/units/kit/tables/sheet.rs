//! A table built from columns: each has a title and a function from a row's item to a cell.

use crate::panel::table::Cut;
use crate::panel::{Align, Body, Cell, Column, Panel, Rest, Rows};

use crate::units::kit::figures::latency;
use crate::units::kit::tables::columns::{MOST_ROWS, OTHERS, share, text};
use crate::units::kit::{Moment, Stats, ThreadKey, ThreadRef};

type Cells<'a, T> = dyn Fn(T, &mut Vec<Cell>) + 'a;

/// Columns and row items in order; the cells are made when all columns are known.
pub(crate) struct Sheet<'a, T> {
    things: Vec<T>,
    id: Box<dyn Fn(T) -> u64 + 'a>,
    columns: Vec<Column>,
    cells: Vec<Box<Cells<'a, T>>>,
    ordered_by: Option<usize>,
    has_hidden_order: bool,
}

impl<'a, T: Copy + 'a> Sheet<'a, T> {
    pub(crate) fn of(things: impl IntoIterator<Item = T>, id: impl Fn(T) -> u64 + 'a) -> Self {
        let things = things.into_iter().collect();
        Self {
            things,
            id: Box::new(id),
            columns: Vec::new(),
            cells: Vec::new(),
            ordered_by: None,
            has_hidden_order: false,
        }
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

    /// Gives the last column precedence if there is not enough room for all ([`Column::rank`]).
    pub(crate) fn ranked(mut self, rank: u8) -> Self {
        self.columns.last_mut().into_iter().for_each(|column| column.rank = rank);
        self
    }

    /// States that the rows are sorted by the last column, the largest first.
    pub(crate) fn ordered(mut self) -> Self {
        self.ordered_by = self.columns.len().checked_sub(1);
        self
    }

    /// States that the rows are sorted by a value that no column shows, so that none has a sort mark.
    pub(crate) fn in_hidden_order(mut self) -> Self {
        self.has_hidden_order = true;
        self
    }

    /// States that the texts of the last column lose their end where they do not fit.
    pub(crate) fn begins_with_what_matters(mut self) -> Self {
        self.columns.last_mut().into_iter().for_each(|column| column.cut = Cut::End);
        self
    }

    /// Marks the texts of the last column as lists ([`crate::panel::text::fit_list`]).
    pub(crate) fn listed(mut self) -> Self {
        self.columns.last_mut().into_iter().for_each(|column| column.cut = Cut::List);
        self
    }

    /// Adds a variable number of columns with as many cells.
    pub(crate) fn columns<C: IntoIterator<Item = Cell>>(
        mut self,
        columns: impl IntoIterator<Item = Column>,
        cells: impl Fn(T) -> C + 'a,
    ) -> Self {
        self.columns.extend(columns);
        self.cells.push(Box::new(move |thing, row| row.extend(cells(thing))));
        self
    }

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

    pub(crate) fn when(self, wanted: bool, more: impl FnOnce(Self) -> Self) -> Self {
        if wanted { more(self) } else { self }
    }

    /// Adds `comm` and `tid`.
    pub(crate) fn task<K: Into<ThreadRef>>(self, at: &'a Moment<'_>, thread: impl Fn(T) -> K + Copy + 'a) -> Self {
        self.left("comm", "Comm", 16, move |thing| text(at.comm(thread(thing))))
            .right("tid", "TID", 8, move |thing| Cell::Id(thread(thing).into().tid().into()))
    }

    /// Adds `comm` and `pid` of processes. The process without a number is not known; `None` is the row of all others.
    pub(crate) fn process(self, at: &'a Moment<'_>, process: impl Fn(T) -> Option<ThreadKey> + Copy + 'a) -> Self {
        let comm = move |thing| match process(thing) {
            None => text(OTHERS),
            Some(ThreadKey { tid: 0, .. }) => text("not known"),
            Some(process) => text(at.comm(process)),
        };
        let pid = move |thing| process(thing).filter(|of| of.tid > 0).map_or(Cell::Empty, |of| Cell::Id(of.tid.into()));
        self.left("comm", "Comm", 16, comm).right("pid", "PID", 8, pid)
    }

    pub(crate) fn share(self, part: impl Fn(T) -> u64 + 'a, whole: u64) -> Self {
        self.share_of(move |thing| (part(thing), whole))
    }

    /// Adds the share of a row in the whole that it belongs to; the function returns both.
    pub(crate) fn share_of(self, of: impl Fn(T) -> (u64, u64) + 'a) -> Self {
        self.right("share_pct", "Share", 8, move |thing| {
            let (part, whole) = of(thing);
            share(part, whole)
        })
    }

    pub(crate) fn latency<'s>(self, than: bool, stats: impl Fn(T) -> &'s Stats + 'a) -> Self {
        self.columns(latency::columns(than), move |thing| latency::cells(stats(thing), than))
    }

    pub(crate) fn rows(self) -> Rows {
        let (ordered_by, has_hidden_order) = (self.ordered_by, self.has_hidden_order);
        let mut rows = Rows { ordered_by, has_hidden_order, ..Rows::new(self.columns) };
        for thing in self.things {
            let mut cells = Vec::with_capacity(rows.table.columns.len());
            self.cells.iter().for_each(|cell| cell(thing, &mut cells));
            rows.push((self.id)(thing), cells);
        }
        rows
    }

    /// Makes a panel, limited to the first rows.
    pub(crate) fn panel(mut self, title: impl Into<String>) -> Panel {
        let more = self.things.len().saturating_sub(MOST_ROWS);
        self.things.truncate(MOST_ROWS);
        Panel::new(title, Body::Table(Rows { more, ..self.rows() }))
    }

    /// Makes a panel with limited rows, then a row for the rest.
    pub(crate) fn folded_panel(mut self, title: impl Into<String>, rest: Rest) -> Panel {
        let more = rest.row.saturating_sub(MOST_ROWS);
        self.things.drain(rest.row - more..rest.row);
        let row = rest.row - more;
        let rest = Some(Rest { row, after: rest.after.min(row), ..rest }).filter(|_| row < self.things.len());
        self.things.truncate(2 * MOST_ROWS);
        Panel::new(title, Body::Table(Rows { more, rest, ..self.rows() }))
    }

    /// Makes a panel with all rows, for small tables.
    pub(crate) fn whole(self, title: impl Into<String>) -> Panel {
        Panel::new(title, Body::Table(self.rows()))
    }
}
