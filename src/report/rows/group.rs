//! The events of a group side by side: a column of shares for each, like perf.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::panel::text::clean;
use crate::panel::unit::thousands;
use crate::panel::{Align, Cell, Column, Table};
use crate::profile::Acc;
use crate::query::TopRow;
use crate::query::rows::top_table::{TopField, TopTable};

use super::stdio::{GroupRow, StdioReport};
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
        let samples: Vec<(u64, &str)> = self.0.iter().map(|rows| rows.samples(&rows.top.total)).collect();
        let noun = if samples.iter().any(|(_, noun)| *noun != "sample") { "stacks" } else { "samples" };
        let samples: Vec<String> = samples.iter().map(|(n, _)| thousands(*n)).collect();
        format!("# events {{{}}}: {} {noun}, sorted by {}\n", names.join(","), samples.join(", "), names[0])
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

    /// Formats the table in perf's layout, with the chains of the first event.
    pub(crate) fn text_as_perf(&self, group: &str, shape: &ReportShape<'_>) -> String {
        let Some(first) = self.0.first() else { return String::new() };
        let report = StdioReport { tables: self.0.iter().map(EventRows::table_in_words).collect(), shape };
        let names: Vec<_> = self.0.iter().map(|rows| clean(rows.name)).collect();
        let group = if group.is_empty() { "anon group".into() } else { clean(group) };
        let chains = shape.chains.map(|spec| first.as_perf_has_them(&spec, shape)).unwrap_or_default();
        let events = format!("events '{group} {{ {} }}'", names.join(", "));
        report.text_of(&self.merged(&report.tables, shape), &events, &chains)
    }

    /// Returns the rows of equal keys together: in the order of the first event, then by weight in the others.
    fn merged<'a>(&'a self, tables: &[TopTable<'_>], shape: &ReportShape<'_>) -> Vec<GroupRow<'a>> {
        let mut places: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        let mut rows: Vec<GroupRow<'a>> = Vec::new();
        for (at, (event, table)) in self.0.iter().zip(tables).enumerate() {
            let keys = || event.columns.keys.iter().map(|key| TopField::Key(*key));
            for row in &event.top.rows {
                let texts = keys().map(|key| table.cell(row, key).text()).collect();
                let known = *places.entry(texts).or_insert(rows.len());
                // Two functions of one name are two rows.
                let is_free = rows.get(known).is_some_and(|row| row[at].is_none());
                let place = if is_free { known } else { rows.len() };
                if !is_free {
                    rows.push(vec![None; self.0.len()]);
                }
                rows[place][at] = Some(row);
            }
        }
        let weight = |row: &Option<&TopRow>| {
            let weight = |row: &TopRow| if shape.by_children { row.children } else { row.own };
            row.map_or(Acc::default(), weight)
        };
        let is_sorted = self.0.first().is_some_and(|first| !first.columns.order.is_empty());
        if !is_sorted {
            rows.sort_by_cached_key(|row| Reverse(row.iter().map(|row| weight(row).period).collect::<Vec<_>>()));
        }
        let share = |row: &GroupRow<'_>| row[0].map_or(0.0, |row| row.children.percent_of(&self.0[0].whole));
        rows.retain(|row| share(row) >= shape.percent_limit);
        rows.truncate(shape.limit);
        rows
    }
}
