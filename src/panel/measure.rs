//! The unit of a panel's numbers.

use super::unit::{bytes, duration, percent, short};

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A count, abbreviated: `12.3 M`.
    Count,
    /// Nanoseconds.
    Time,
    /// Bytes, written in powers of 1000: `12.3 MB`.
    Bytes,
    /// Percent; the panel states the base.
    Percent,
}

impl Measure {
    /// Formats a value with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "–".to_owned(),
            Self::Count => short(value),
            Self::Time => duration(value.max(0.0) as u64),
            Self::Bytes => bytes(value.max(0.0) as u64),
            Self::Percent => percent(value),
        }
    }

    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Time => "ns",
            Self::Bytes => "bytes",
            Self::Percent => "percent",
        }
    }
}
