//! Values of expressions as row keys.

use std::sync::Arc;

use crate::filter::expr::Value;
use crate::panel::Cell;
use crate::units::kit::ThreadKey;
use crate::units::kit::tables::columns::OTHERS;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RowKey {
    Int(i128),
    /// Any other number, in tenths.
    Tenths(i128),
    Text(Arc<str>),
    /// The expression has no value.
    Empty,
    /// The limit of keys was reached.
    Others,
    /// A thread, if the expression names one ([`crate::units::kit::Context::row_key`]).
    Thread(ThreadKey),
}

/// Larger numbers are shown as addresses.
const LARGEST_ID: i128 = 1 << 32;

impl RowKey {
    pub(crate) fn thread(&self, expression: &str) -> Option<i32> {
        let Self::Int(n) = self else { return None };
        i32::try_from(*n).ok().filter(|_| crate::units::kit::names_thread(expression))
    }

    pub(crate) fn of(value: &Value<'_>) -> Self {
        match value {
            Value::Int(n) => Self::Int(*n),
            Value::Float(n) => Self::Tenths((n * 10.0).round() as i128),
            Value::Text(text) => Self::Text(Arc::from(&**text)),
            Value::Empty => Self::Empty,
        }
    }

    /// Returns numbers as numeric cells, everything else as text.
    pub(crate) fn cell(&self) -> Cell {
        let words = |text: &str| Cell::Text(text.into());
        match self {
            Self::Int(n) => match (i64::try_from(*n), u64::try_from(*n)) {
                (_, Ok(address)) if *n > LARGEST_ID => Cell::Address(address),
                (Ok(id), _) => Cell::Id(id),
                _ => words(&n.to_string()),
            },
            Self::Tenths(n) => Cell::Number(*n as f64 / 10.0),
            Self::Text(text) => Cell::Text(text.clone()),
            Self::Empty => words("(no value)"),
            Self::Others => words(OTHERS),
            Self::Thread(thread) => Cell::Id(thread.tid.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_numbers() {
        let cell = |value: Value<'_>| RowKey::of(&value).cell();
        assert_eq!(cell(Value::Int(-7)), Cell::Id(-7));
        assert_eq!(cell(Value::Int(1 << 40)), Cell::Address(1 << 40));
        assert_eq!(cell(Value::Int(1 << 70)), Cell::Text("1180591620717411303424".into()));
        assert_eq!(cell(Value::Float(2.46)), Cell::Number(2.5));
        assert_eq!(cell(Value::Text("nginx".into())), Cell::Text("nginx".into()));
        assert_eq!(
            (cell(Value::Empty), RowKey::Others.cell().text()),
            (Cell::Text("(no value)".into()), "(others)".into())
        );
    }
}
