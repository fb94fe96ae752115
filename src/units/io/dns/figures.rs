//! The figures of queries by server, name and process.

use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::record::dns_message::DnsQuestion;
use crate::units::kit::prelude::*;

use super::open_queries::QueryKey;

/// The limit of rows of a table. Beyond it, the coldest rows are added up.
const MAX_ROWS: usize = 4096;
const CODES: usize = 16;

/// The figures of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct QueryFigures {
    pub(super) queries: u64,
    pub(super) retries: u64,
    pub(super) answers: u64,
    pub(super) truncated: u64,
    /// Queries without an answer within a second, and within five.
    pub(super) late: u64,
    pub(super) unanswered: u64,
    pub(super) codes: [u64; CODES],
    pub(super) latency: Stats,
}

impl QueryFigures {
    fn merge(&mut self, other: &Self) {
        self.queries += other.queries;
        self.retries += other.retries;
        self.answers += other.answers;
        self.truncated += other.truncated;
        self.late += other.late;
        self.unanswered += other.unanswered;
        self.codes.iter_mut().zip(other.codes).for_each(|(own, other)| *own += other);
        self.latency.merge(&other.latency);
    }

    /// Returns the answers with a code.
    pub(super) fn code(&self, code: u8) -> u64 {
        self.codes.get(usize::from(code)).copied().unwrap_or(0)
    }

    /// Returns the answers with errors other than SERVFAIL, NXDOMAIN and REFUSED.
    pub(super) fn other_errors(&self) -> u64 {
        let errors: u64 = self.codes[1..].iter().sum();
        errors - self.code(2) - self.code(3) - self.code(5)
    }

    fn weight(&self) -> u64 {
        self.queries.max(self.answers)
    }
}

/// Rows by a key; `None` is the row of the keys that were dropped.
#[derive(Clone, Debug)]
pub(super) struct DnsRows<K> {
    rows: FxHashMap<K, QueryFigures>,
    others: QueryFigures,
    /// The number of dropped rows.
    pub(super) dropped: u64,
}

impl<K> Default for DnsRows<K> {
    fn default() -> Self {
        Self { rows: FxHashMap::default(), others: QueryFigures::default(), dropped: 0 }
    }
}

impl<K: Clone + Eq + Hash + Ord> DnsRows<K> {
    fn row(&mut self, key: &K) -> &mut QueryFigures {
        if self.rows.len() >= MAX_ROWS && !self.rows.contains_key(key) {
            self.drop_coldest();
        }
        self.rows.entry(key.clone()).or_default()
    }

    /// Changes a row, or the sum of the dropped ones.
    fn known(&mut self, key: &K) -> &mut QueryFigures {
        self.rows.get_mut(key).unwrap_or(&mut self.others)
    }

    /// Drops the quarter of the rows with the fewest queries, so that this is seldom necessary.
    fn drop_coldest(&mut self) {
        let mut list: Vec<(u64, K)> = self.rows.iter().map(|(key, row)| (row.weight(), key.clone())).collect();
        list.sort_unstable();
        for (_, key) in list.into_iter().take(MAX_ROWS / 4) {
            self.others.merge(&self.rows.remove(&key).unwrap_or_default());
            self.dropped += 1;
        }
    }

    pub(super) fn sorted(&self) -> Vec<(Option<&K>, &QueryFigures)> {
        let rows = self.rows.iter().map(|(key, row)| (Some(key), row));
        let others = (self.dropped > 0).then_some((None, &self.others));
        by_weight(rows.chain(others), |row| row.weight())
    }
}

/// The figures of all rows.
#[derive(Clone, Debug, Default)]
pub(super) struct DnsFigures {
    pub(super) servers: DnsRows<SocketAddr>,
    pub(super) names: DnsRows<Arc<DnsQuestion>>,
    pub(super) processes: DnsRows<ThreadKey>,
    pub(super) total: QueryFigures,
    /// Answers without a known query.
    pub(super) unmatched: u64,
    /// Queries whose question is damaged.
    pub(super) malformed: u64,
}

impl DnsFigures {
    /// Changes the rows of a query, which are created if necessary.
    pub(super) fn each(&mut self, key: &QueryKey, change: impl Fn(&mut QueryFigures)) {
        change(self.servers.row(&key.server));
        change(self.names.row(&key.question));
        change(self.processes.row(&key.process));
        change(&mut self.total);
    }

    /// Counts an answer without a known query.
    pub(super) fn add_unmatched(
        &mut self,
        server: &SocketAddr,
        process: &ThreadKey,
        change: impl Fn(&mut QueryFigures),
    ) {
        self.unmatched += 1;
        change(self.servers.row(server));
        change(self.processes.row(process));
        change(&mut self.total);
    }

    /// Assigns a query that was sent to another process. The figures may have been reset since.
    pub(super) fn move_query(&mut self, from: &ThreadKey, to: &ThreadKey, (sent, repeated): (u64, u64)) {
        let old = self.processes.known(from);
        let (sent, repeated) = (sent.min(old.queries), repeated.min(old.retries));
        (old.queries, old.retries) = (old.queries - sent, old.retries - repeated);
        if *old == QueryFigures::default() {
            self.processes.rows.remove(from);
        }
        if sent > 0 {
            let new = self.processes.row(to);
            (new.queries, new.retries) = (new.queries + sent, new.retries + repeated);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coldest_rows_are_added_up() {
        let mut rows = DnsRows::<u32>::default();
        for key in 0..MAX_ROWS as u32 + 1 {
            rows.row(&key).queries += if key < 10 { 5 } else { 1 };
        }
        let sorted = rows.sorted();
        assert_eq!((rows.dropped, sorted.len()), (1024, MAX_ROWS - 1024 + 2));
        assert_eq!((sorted[0].0, sorted[0].1.queries), (None, 1024));
        assert_eq!(sorted[1..11].iter().filter_map(|(key, _)| key.copied()).max(), Some(9), "the warmest stay");
        let all: u64 = sorted.iter().map(|(_, row)| row.queries).sum();
        assert_eq!(all, MAX_ROWS as u64 + 1 + 40);
    }

    #[test]
    fn a_query_moves_to_the_process_that_reads_the_answer() {
        let mut figures = DnsFigures::default();
        let (wrong, right) = (ThreadKey::of_row(1), ThreadKey::of_row(2));
        figures.processes.row(&wrong).queries = 2;
        figures.processes.row(&wrong).retries = 1;
        figures.move_query(&wrong, &right, (2, 1));
        let rows: Vec<_> =
            figures.processes.sorted().into_iter().map(|(key, row)| (key.copied(), row.queries, row.retries)).collect();
        assert_eq!(rows, [(Some(right), 2, 1)]);
        figures.move_query(&wrong, &right, (2, 1));
        assert_eq!(figures.processes.known(&right).queries, 2, "the figures were reset");
    }
}
