//! Groups of samples in tables, by the values of columns.

use std::sync::Arc;

use super::{ColumnDef, ColumnInput, ColumnKey, ColumnValue};

/// The part of a row's identity that belongs to task and CPU. It consists of the values of the selected keys, in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RowGroup(Vec<(ColumnKey, ColumnValue)>);

impl RowGroup {
    /// Returns the values of keys in a sample.
    pub fn of(keys: &[ColumnKey], sampled: &ColumnInput<'_>) -> Self {
        Self::of_columns(keys.iter().map(|key| (*key, key.entry())), sampled)
    }

    /// Returns the values of columns, for callers that look up the columns of many groups once.
    pub(crate) fn of_columns(
        columns: impl ExactSizeIterator<Item = (ColumnKey, &'static ColumnDef)>,
        sampled: &ColumnInput<'_>,
    ) -> Self {
        let mut values = Vec::with_capacity(columns.len());
        values.extend(columns.filter_map(|(key, column)| Some((key, column.value?(sampled, key)))));
        values.sort_unstable_by_key(|(key, _)| *key);
        Self(values)
    }

    /// Creates a group of a single number.
    #[cfg(test)]
    pub fn staged(key: ColumnKey, id: i32) -> Self {
        Self(vec![(key, ColumnValue::Id(id))])
    }

    pub(crate) fn get(&self, key: ColumnKey) -> Option<&ColumnValue> {
        self.0.iter().find(|(of, _)| *of == key).map(|(_, value)| value)
    }

    pub(crate) fn id(&self, key: ColumnKey) -> Option<i32> {
        match self.get(key)? {
            ColumnValue::Id(id) => Some(*id),
            ColumnValue::Text(_) | ColumnValue::Number(_) => None,
        }
    }

    /// Returns the keys that are tracepoint fields.
    pub fn traced(&self) -> impl Iterator<Item = ColumnKey> {
        self.0.iter().map(|(key, _)| *key).filter(|key| key.traced().is_some())
    }

    /// Returns all text values.
    pub fn texts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().filter_map(|(key, _)| self.text(*key))
    }

    pub(crate) fn text(&self, key: ColumnKey) -> Option<&Arc<str>> {
        match self.get(key)? {
            ColumnValue::Text(text) => Some(text),
            ColumnValue::Id(_) | ColumnValue::Number(_) => None,
        }
    }
}
