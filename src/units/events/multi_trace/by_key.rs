//! The latency of pairs by their key: of each softirq vector, interrupt or request type.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::units::kit::prelude::*;

/// Limit of rows; further keys share one.
const MAX_KEYS: usize = 1000;

#[derive(Clone, Debug, Default)]
pub(super) struct ByKey {
    rows: BTreeMap<((u16, u16), RowKey), Stats>,
}

impl ByKey {
    pub(super) fn add(&mut self, pair: (u16, u16), key: &RowKey, ns: u64, above: bool) {
        let own = (pair, key.clone());
        let is_full = self.rows.len() >= MAX_KEYS && !self.rows.contains_key(&own);
        let row = if is_full { (pair, RowKey::Others) } else { own };
        self.rows.entry(row).or_default().add_than(ns, above);
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &RowKey> {
        self.rows.keys().map(|(_, key)| key)
    }

    /// Returns the table; `None` if no pair has a key of its own.
    pub(super) fn panel(
        &self,
        has_threshold: bool,
        name: impl Fn(u16) -> Arc<str>,
        cell: impl Fn(&RowKey) -> Cell,
    ) -> Option<Panel> {
        let sheet = Sheet::of(by_weight(&self.rows, |stats| stats.sum), |(key, _)| id(key))
            .left("key", "Key", 24, |((_, key), _)| cell(key))
            .left("from", "From", 26, |(((from, _), _), _)| text(name(*from)))
            .left("to", "To", 26, |(((_, to), _), _)| text(name(*to)))
            .latency(has_threshold, |(_, stats)| stats);
        (!self.rows.is_empty()).then(|| sheet.panel("By key"))
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_of_a_pair_has_a_row() {
        let mut by_key = ByKey::default();
        assert!(by_key.panel(false, |_| "".into(), RowKey::cell).is_none());
        for (key, ns) in [(1, 10), (9, 20), (9, 30)] {
            by_key.add((0, 1), &RowKey::Int(key), ns, false);
        }
        let sums: Vec<(i128, u64)> = [1, 9].map(|key| (key, by_key.rows[&((0, 1), RowKey::Int(key))].sum)).into();
        assert_eq!(sums, [(1, 10), (9, 50)]);
        (0..2000).for_each(|key| by_key.add((0, 1), &RowKey::Int(key), 1, false));
        assert_eq!(by_key.rows.len(), MAX_KEYS + 1);
        assert!(by_key.panel(false, |_| "".into(), RowKey::cell).is_some());
        by_key.clear();
        assert_eq!(by_key.keys().count(), 0);
    }
}
