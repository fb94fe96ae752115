//! A histogram: the number of values per range.

use super::measure::Measure;
use super::unit::{binary, exact, has_three_digits, percent, thousands};

/// Values from `from` up to, but not including, `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Bar {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) count: u64,
}

/// Bars sorted by their bounds, without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// The unit of the bounds.
    pub measure: Measure,
    pub(crate) bars: Vec<Bar>,
    /// The same values in ranges of equal width, in addition to powers of two.
    pub(crate) steps: Vec<Bar>,
}

pub(crate) const STEPS: &str = "In equal steps";

/// Cells of the longest bar in text.
const WIDE: usize = 40;

impl Histogram {
    /// Returns the number of values in all bars.
    pub fn total(&self) -> u64 {
        self.bars.iter().map(|bar| bar.count).sum()
    }

    /// Formats a bar's bounds, so that it is clear on which side of them a value is. Times of powers of two, which no
    /// clock hits by intention, are rounded.
    pub fn bounds(&self, bar: &Bar) -> String {
        let is_power = bar.from.is_power_of_two() && bar.to / 2 == bar.from || bar.from == 1 << 63;
        let text = |value: u64| match self.measure {
            Measure::Count if value < 1_000_000 => thousands(value),
            Measure::Count if is_power => binary(value, &["", " Ki", " Mi", " Gi", " Ti", " Pi", " Ei"]),
            Measure::Count => exact(value, &["", " k", " M", " G", " T", " P"]),
            Measure::Bytes if is_power => binary(value, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"]),
            Measure::Bytes => exact(value, &[" B", " kB", " MB", " GB", " TB"]),
            Measure::Time if !is_power && !has_three_digits(value) => exact(value, &[" ns", " µs", " ms", " s"]),
            measure => measure.text(value as f64),
        };
        if bar.to == bar.from + 1 { text(bar.from) } else { format!("{} to {}", text(bar.from), text(bar.to)) }
    }

    /// Returns the equal ranges as a separate histogram.
    pub fn in_steps(&self) -> Self {
        Self { measure: self.measure, bars: self.steps.clone(), steps: Vec::new() }
    }

    /// Formats a line per bar: bounds, count, share and cumulative share. Then follow the equal ranges.
    pub fn to_text(&self) -> String {
        if !self.steps.is_empty() {
            let powers = Self { steps: Vec::new(), ..self.clone() };
            return format!("{}{STEPS}\n{}", powers.to_text(), self.in_steps().to_text());
        }
        let (total, most) = (self.total().max(1), self.bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1));
        let bounds: Vec<String> = self.bars.iter().map(|bar| self.bounds(bar)).collect();
        let wide = bounds.iter().map(|text| super::text::width(text)).max().unwrap_or(0);
        let mut out = String::new();
        let mut sum = 0;
        for (bar, bounds) in self.bars.iter().zip(&bounds) {
            sum += bar.count;
            let pad = " ".repeat(wide - super::text::width(bounds));
            let [share, upto] = [bar.count, sum].map(|n| percent(100.0 * n as f64 / total as f64));
            let length = (bar.count as u128 * WIDE as u128).div_ceil(u128::from(most)) as usize;
            let line =
                format!("{pad}{bounds}  {:>12}  {share:>7}  {upto:>7}  {}", thousands(bar.count), "█".repeat(length));
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_exact() {
        for (measure, from, to, want) in [
            (Measure::Count, 4096, 8192, "4,096 to 8,192"),
            (Measure::Count, 1 << 19, 1 << 20, "524,288 to 1 Mi"),
            (Measure::Count, 1 << 63, u64::MAX, "8 Ei to 16 Ei"),
            (Measure::Count, 1_250_000, 1_300_000, "1.25 M to 1.3 M"),
            (Measure::Bytes, 512, 1024, "512 B to 1 KiB"),
            (Measure::Bytes, 4096, 8192, "4 KiB to 8 KiB"),
            (Measure::Bytes, 1050, 1100, "1.05 kB to 1.1 kB"),
            (Measure::Time, 4096, 8192, "4.10 µs to 8.19 µs"),
            (Measure::Time, 10_050, 10_100, "10.05 µs to 10.1 µs"),
            (Measure::Time, 2_000_000, 2_000_001, "2.00 ms"),
        ] {
            let histogram = Histogram { measure, bars: Vec::new(), steps: Vec::new() };
            assert_eq!(histogram.bounds(&Bar { from, to, count: 1 }), want);
        }
    }
}
