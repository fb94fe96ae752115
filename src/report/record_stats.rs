//! Counts the records of each type in a recording.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::panel::text::clean;
use crate::panel::{Align, Cell, Column, Table};
use crate::record::{kinds, types};

#[derive(Clone, Debug, Default)]
pub(crate) struct RecordStats {
    kinds: BTreeMap<u32, u64>,
}

impl RecordStats {
    /// Counts complete records; stops at invalid data.
    pub(crate) fn count(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Ok(Some((header, _, after))) = kinds::split(rest) {
            *self.kinds.entry(header.kind).or_default() += 1;
            rest = after;
        }
    }

    fn name(kind: u32) -> String {
        types::name(kind).map_or_else(|| kind.to_string(), |name| name.trim_start_matches("HEADER_").to_owned())
    }

    /// Formats the counts like perf, with the samples of each event.
    pub(crate) fn text(&self, events: &[(String, u64)]) -> String {
        let all: u64 = self.kinds.values().sum();
        let mut out = format!("Aggregated stats:\n{:>16} events: {all:>10}\n", "TOTAL");
        for (kind, n) in &self.kinds {
            let share = 100.0 * *n as f64 / all.max(1) as f64;
            let _ = writeln!(out, "{:>16} events: {n:>10}  ({share:4.1}%)", Self::name(*kind));
        }
        for (name, samples) in events {
            let _ = writeln!(out, "{} stats:\n{:>16} events: {samples:>10}", clean(name), "SAMPLE");
        }
        out
    }

    /// Formats the counts as a table: records by type, then samples by event.
    pub(crate) fn table(&self, events: &[(String, u64)]) -> Table {
        let columns = vec![
            Column::new("record", "Record", Align::Left, 20),
            Column::new("event", "Event", Align::Left, 0),
            Column::new("count", "Count", Align::Right, 12),
        ];
        let kinds =
            self.kinds.iter().map(|(kind, n)| vec![Cell::Text(Self::name(*kind).into()), Cell::Empty, Cell::Count(*n)]);
        let of_event = |(name, n): &(String, u64)| {
            vec![Cell::Text("SAMPLE".into()), Cell::Text(name.as_str().into()), Cell::Count(*n)]
        };
        Table { columns, rows: kinds.chain(events.iter().map(of_event)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_by_kind_up_to_what_is_none() {
        let mut bytes = Vec::new();
        for kind in [types::COMM, types::SAMPLE, types::SAMPLE, 4000] {
            kinds::encode(&mut bytes, kind, 0, |out| out.extend_from_slice(&[0; 16]));
        }
        bytes.extend_from_slice(&[9, 0, 0, 0, 0, 0, 200, 0]);
        let mut stats = RecordStats::default();
        stats.count(&bytes);
        let want = "\
Aggregated stats:
           TOTAL events:          4
            COMM events:          1  (25.0%)
          SAMPLE events:          2  (50.0%)
            4000 events:          1  (25.0%)
cycles stats:
          SAMPLE events:          2
";
        let events = [("cycles".to_owned(), 2)];
        assert_eq!(stats.text(&events), want);
        assert_eq!(stats.table(&events).rows.len(), 4);
    }
}
