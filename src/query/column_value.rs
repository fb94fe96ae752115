//! A value that rows are told apart by.

use std::borrow::Cow;
use std::sync::Arc;

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnValue {
    /// A number that only names something: a CPU, a process, a thread.
    Id(i32),
    /// A name.
    Text(Arc<str>),
    /// A number that is more or less than another: a tracepoint's field.
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
