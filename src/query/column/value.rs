//! The value of a grouping column.

use std::borrow::Cow;
use std::sync::Arc;

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnValue {
    /// A number that only identifies: a CPU, process or thread.
    Id(i32),
    /// A name.
    Text(Arc<str>),
    /// An ordered number: a tracepoint field.
    Number(i64),
}

impl ColumnValue {
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Id(id) => Cow::Owned(id.to_string()),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Number(n) => Cow::Owned(n.to_string()),
        }
    }
}
