//! How an event's periods are read: their unit, and the samples that they are sums of.

use std::borrow::Cow;

/// The unit of an event's periods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EventUnit {
    /// Hits, cycles, instructions or other counts.
    #[default]
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Counts of a text with this many decimals: a period of 1 is 10^-n in the file.
    Decimal(u8),
}

/// The number of samples that a stored one stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SampleCount {
    /// Each sample is stored.
    #[default]
    One,
    /// Samples of one stack are stored as their sum: one for each multiple of this period.
    PerPeriod(u64),
    /// They are stored as their sum, and the period of one is unknown.
    Unknown,
}

/// How the periods of an event are read: their unit, and the samples that they are the sums of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodMeaning {
    pub(crate) unit: EventUnit,
    /// Whether each is a duration.
    pub(crate) durations: bool,
    pub(crate) count: SampleCount,
    /// Whether they are values of another tool's file, not periods of a counter.
    pub(crate) is_value: bool,
}

impl PeriodMeaning {
    /// Returns the samples that a stored one is drawn as on the timeline, at least one. A sum whose samples cannot be
    /// counted is as high as its milliseconds, kilobytes or counts.
    pub(crate) fn height(self, period: u64) -> u32 {
        let samples = match (self.count, self.unit) {
            (SampleCount::One, _) => 1,
            (SampleCount::PerPeriod(one), _) => period / one.max(1),
            (SampleCount::Unknown, EventUnit::Nanoseconds) => period / 1_000_000,
            (SampleCount::Unknown, EventUnit::Bytes) => period / 1000,
            (SampleCount::Unknown, unit) => (period as f64 / unit.scale()) as u64,
        };
        u32::try_from(samples.max(1)).unwrap_or(u32::MAX)
    }
}

impl EventUnit {
    /// The maximum number of decimals of counts; those of all writers are fewer.
    pub(crate) const MOST_DECIMALS: u8 = 12;

    pub(crate) fn is_time(self) -> bool {
        self == Self::Nanoseconds
    }

    /// Returns its name in pprof and JSON.
    pub(crate) fn name(self) -> Cow<'static, str> {
        match self {
            Self::Count | Self::Decimal(0) => "count".into(),
            Self::Nanoseconds => "nanoseconds".into(),
            Self::Bytes => "bytes".into(),
            Self::Decimal(decimals) => format!("count/{}", 10u64.saturating_pow(decimals.into())).into(),
        }
    }

    /// Formats a sum of values with its unit. `figure` formats whole numbers; fractions are those of the file.
    pub(crate) fn total(self, period: u64, figure: impl Fn(u64) -> String) -> String {
        match self {
            Self::Nanoseconds | Self::Bytes => format!("{} {}", figure(period), self.name()),
            Self::Count | Self::Decimal(_) => self.figure(period, figure),
        }
    }

    /// Returns the period that has the value 1 in the file.
    pub(crate) fn scale(self) -> f64 {
        if let Self::Decimal(decimals) = self { 10f64.powi(decimals.into()) } else { 1.0 }
    }

    /// Formats a sum of values in this unit, without its name.
    pub(crate) fn figure(self, period: u64, whole: impl Fn(u64) -> String) -> String {
        if let Self::Decimal(1..) = self { self.written(period) } else { whole(period) }
    }

    /// Returns a sum of values as exact digits.
    pub(crate) fn written(self, period: u64) -> String {
        let Self::Decimal(decimals) = self else { return period.to_string() };
        let scale = 10u64.saturating_pow(decimals.into());
        let fraction = format!("{:0width$}", period % scale, width = usize::from(decimals));
        let fraction = fraction.trim_end_matches('0');
        let dot = if fraction.is_empty() { "" } else { "." };
        format!("{}{dot}{fraction}", period / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_as_high_as_their_samples_or_values() {
        let of = |count, unit, period| PeriodMeaning { unit, count, ..PeriodMeaning::default() }.height(period);
        assert_eq!(of(SampleCount::One, EventUnit::Nanoseconds, 5_000_000), 1);
        assert_eq!(of(SampleCount::PerPeriod(10), EventUnit::Count, 35), 3);
        assert_eq!(of(SampleCount::Unknown, EventUnit::Nanoseconds, 5_000_000), 5);
        assert_eq!(of(SampleCount::Unknown, EventUnit::Decimal(3), 7000), 7);
        assert_eq!(
            [of(SampleCount::Unknown, EventUnit::Bytes, 1), of(SampleCount::Unknown, EventUnit::Count, u64::MAX)],
            [1, u32::MAX]
        );
    }
}
