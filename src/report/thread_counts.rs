//! The counts of each thread and event (`record -s`), as text in perf's layout or as a table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::ingest::IngestState;
use crate::panel::text::clean;
use crate::panel::{Align, Cell, Column, Table};
use crate::record::kinds;
use crate::record::thread_count::ThreadCount;
use crate::record::types;

/// Count records in their order. Their threads are known once the whole recording was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountRecords(BTreeMap<u16, Vec<u8>>);

impl CountRecords {
    /// Keeps the count records of an input.
    pub(crate) fn keep(&mut self, input: u16, bytes: &[u8]) {
        let mut rest = bytes;
        while let Ok(Some((header, _, after))) = kinds::split(rest) {
            if header.kind == types::READ {
                self.0.entry(input).or_default().extend_from_slice(&rest[..rest.len() - after.len()]);
            }
            rest = after;
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadCounts {
    /// In the order of their first end.
    threads: Vec<(i32, i32)>,
    known: BTreeSet<(i32, i32)>,
    events: Vec<u16>,
    sums: BTreeMap<((i32, i32), u16), u64>,
}

impl ThreadCounts {
    pub(crate) fn of(core: &IngestState, records: &CountRecords) -> Self {
        let mut found = Vec::new();
        for (input, bytes) in &records.0 {
            let mut rest = &bytes[..];
            while let Ok(Some((header, body, after))) = kinds::split(rest) {
                let (layout, _) = core.form(usize::from(*input), header, body);
                let event = core.event_of(usize::from(*input), header, body);
                let time = layout.trailer(body).map_or(0, |id| id.time);
                if let Ok(Some(count)) = ThreadCount::decode(&layout, body) {
                    found.push((time, event, count));
                }
                rest = after;
            }
        }
        found.sort_by_key(|(time, ..)| *time);
        let mut out = Self::default();
        found.iter().for_each(|(_, event, count)| out.add(*event, count));
        out
    }

    fn add(&mut self, event: u16, count: &ThreadCount) {
        let thread = (count.pid, count.tid);
        let sum = self.sums.entry((thread, event)).or_insert_with(|| {
            if self.known.insert(thread) {
                self.threads.push(thread);
            }
            if !self.events.contains(&event) {
                self.events.push(event);
            }
            0
        });
        *sum = sum.saturating_add(count.value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    fn sum(&self, thread: (i32, i32), event: u16) -> u64 {
        self.sums.get(&(thread, event)).copied().unwrap_or(0)
    }

    pub(crate) fn text(&self, names: &[String]) -> String {
        let digits = |id: fn(&(i32, i32)) -> i32| self.threads.iter().map(move |thread| id(thread).to_string().len());
        let pid = digits(|thread| thread.0).max().unwrap_or(0).max(3);
        let tid = digits(|thread| thread.1).max().unwrap_or(0).max(3);
        let column = |event: &u16| {
            let name = names.get(usize::from(*event)).map_or_else(String::new, |name| clean(name).into_owned());
            let values = self.threads.iter().map(|thread| self.sum(*thread, *event).to_string().len());
            let width = values.max().unwrap_or(0).max(crate::panel::text::width(&name));
            (*event, name, width)
        };
        let columns: Vec<(u16, String, usize)> = self.events.iter().map(column).collect();
        let mut out = format!("# {:>pid$}  {:>tid$}", "PID", "TID");
        // Writing into a string cannot fail.
        columns.iter().for_each(|(_, name, width)| _ = write!(out, "  {name:>width$}"));
        for thread in &self.threads {
            let _ = write!(out, "\n  {:>pid$}  {:>tid$}", thread.0, thread.1);
            columns.iter().for_each(|(event, _, width)| _ = write!(out, "  {:>width$}", self.sum(*thread, *event)));
        }
        out + "\n"
    }

    pub(crate) fn table(&self, names: &[String]) -> Table {
        let columns = vec![
            Column::new("pid", "PID", Align::Right, 8),
            Column::new("tid", "TID", Align::Right, 8),
            Column::new("event", "Event", Align::Left, 0),
            Column::new("count", "Count", Align::Right, 16),
        ];
        let row = |thread: (i32, i32), event: u16| {
            let name = names.get(usize::from(event)).map_or("", String::as_str);
            let count = Cell::Count(self.sum(thread, event));
            vec![Cell::Id(thread.0.into()), Cell::Id(thread.1.into()), Cell::Text(name.into()), count]
        };
        let rows = self.threads.iter().flat_map(|thread| self.events.iter().map(move |event| row(*thread, *event)));
        Table { columns, rows: rows.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kinds::HEADER;

    #[test]
    fn counts_of_all_cpus_are_added_up_by_thread() {
        let mut counts = ThreadCounts::default();
        for (event, tid, value) in [(0, 8, 100), (1, 8, 2), (0, 1234, 7), (0, 8, 11_223_344)] {
            counts.add(event, &ThreadCount { pid: 7, tid, value, ..ThreadCount::default() });
        }
        let names = ["cpu-clock".to_owned(), "page-faults".to_owned()];
        let want = "\
# PID   TID  cpu-clock  page-faults
    7     8   11223444            2
    7  1234          7            0
";
        assert_eq!(counts.text(&names), want);
        assert_eq!(counts.table(&names).rows.len(), 4);
    }

    #[test]
    fn only_whole_records_of_counts_are_kept() {
        let mut bytes = Vec::new();
        for kind in [types::COMM, types::READ, types::SAMPLE, types::READ] {
            kinds::encode(&mut bytes, kind, 0, |out| out.extend_from_slice(&[0; 16]));
        }
        bytes.extend_from_slice(&[8, 0, 0, 0, 0, 0, 200, 0]);
        let mut records = CountRecords::default();
        records.keep(0, &bytes);
        assert_eq!(records.0[&0].len(), 2 * (HEADER + 16));
    }
}
