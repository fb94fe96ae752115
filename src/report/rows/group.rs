//! The events of a group side by side: a column of shares for each, like perf.

use std::collections::BTreeMap;

use crate::panel::text::clean;
use crate::panel::unit::thousands;
use crate::panel::{Align, Cell, Column, Table};
use crate::profile::Acc;
use crate::query::rows::top_table::TopField;

use super::{EventRows, ReportShape};

/// The rows of several events with the same keys.
pub(crate) struct GroupRows<'a>(pub(crate) Vec<EventRows<'a>>);

/// A row: the cells of its keys, and its weights by event.
type Merged = (Vec<Cell>, Vec<Acc>);

impl GroupRows<'_> {
    /// Returns whether no sample passes the filters.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(EventRows::is_empty)
    }

    /// Formats the events, and their samples.
    pub(crate) fn heading(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|rows| clean(rows.name)).collect();
        let samples: Vec<String> = self.0.iter().map(|rows| thousands(rows.top.total.samples)).collect();
        format!("# events {{{}}}: {} samples, sorted by {}\n", names.join(","), samples.join(", "), names[0])
    }

    /// Returns the shares of each event, and the keys. Rows are sorted by the first event, then by the next ones.
    pub(crate) fn table(&self, shape: &ReportShape<'_>) -> Table {
        let Some(first) = self.0.first() else { return Table::default() };
        let keys: Vec<TopField> = first.columns.keys.iter().map(|key| TopField::Key(*key)).collect();
        let mut merged: BTreeMap<Vec<String>, Merged> = BTreeMap::new();
        for (at, event) in self.0.iter().enumerate() {
            let table = event.table_in_words();
            for row in event.top.rows.iter().filter(|row| !row.own.is_zero()) {
                let cells: Vec<Cell> = keys.iter().map(|key| table.cell(row, *key)).collect();
                let place = merged.entry(cells.iter().map(Cell::text).collect()).or_default();
                place.0 = cells;
                place.1.resize(self.0.len(), Acc::default());
                place.1[at] += row.own;
            }
        }
        let mut rows: Vec<Merged> = merged.into_values().collect();
        rows.sort_by(|(_, a), (_, b)| b.iter().map(|acc| acc.period).cmp(a.iter().map(|acc| acc.period)));
        let share = |acc: &Acc, event: &EventRows<'_>| acc.percent_of(&event.whole);
        let is_shown = |(_, weights): &Merged| share(&weights[0], first) >= shape.percent_limit;
        rows.retain(is_shown);
        let cells = |(keys, weights): Merged| {
            let shares = weights.iter().zip(&self.0).map(|(acc, event)| Cell::Percent(share(acc, event)));
            shares.chain(keys).collect()
        };
        let of_event = |event: &EventRows<'_>| {
            let (name, title) = (event.name.to_owned().into(), event.name.to_owned().into());
            Column { name, title, ..Column::new("", "", Align::Right, 8) }
        };
        let columns = self.0.iter().map(of_event).chain(keys.iter().map(|key| key.column())).collect();
        Table { columns, rows: rows.into_iter().take(shape.limit).map(cells).collect() }
    }
}
