//! Values over time.

use super::measure::Measure;
use super::unit::clock;

/// Equidistant values of one item.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SeriesLine {
    /// The name in the legend.
    pub label: String,
    /// NaN for unknown values.
    pub values: Vec<f64>,
}

/// Several lines over the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeSeries {
    pub(crate) measure: Measure,
    /// Nanoseconds from the session's start to the first value, and between values.
    pub start: u64,
    pub(crate) step: u64,
    /// The lines, with a value per step.
    pub lines: Vec<SeriesLine>,
}

/// Eighths of a cell's height, the lowest first.
pub(crate) const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(crate) fn greatest<'a>(values: impl IntoIterator<Item = &'a f32>) -> f32 {
    values.into_iter().copied().filter(|v| v.is_finite()).fold(0.0, f32::max)
}

/// Formats values as a sparkline, scaled to their maximum. A blank for unknown values.
pub fn spark(values: &[f32]) -> String {
    let most = greatest(values);
    values.iter().map(|value| level(f64::from(*value), f64::from(most))).collect()
}

/// Returns a value as one of eight levels, relative to the greatest.
pub fn level(value: f64, most: f64) -> char {
    if !value.is_finite() {
        return ' ';
    }
    if most <= 0.0 || value <= 0.0 {
        return LEVELS[0];
    }
    LEVELS[((value / most * 7.0).round() as usize).min(7)]
}

impl TimeSeries {
    /// Formats a sparkline for each, with the newest, mean and greatest value.
    pub fn to_text(&self) -> String {
        let wide = self.lines.iter().map(|line| super::text::width(&line.label)).max().unwrap_or(0);
        let mut out = String::new();
        for line in &self.lines {
            let known: Vec<f64> = line.values.iter().copied().filter(|v| v.is_finite()).collect();
            let most = known.iter().copied().fold(0.0, f64::max);
            let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
            let newest = known.last().copied().unwrap_or(0.0);
            let course: String = line.values.iter().map(|v| level(*v, most)).collect();
            let pad = " ".repeat(wide - super::text::width(&line.label));
            let figures = [newest, mean, most].map(|v| self.measure.text(v));
            out.push_str(&format!(
                "{}{pad}  now {:>9}  mean {:>9}  max {:>9}  {course}\n",
                super::text::clean(&line.label),
                figures[0],
                figures[1],
                figures[2]
            ));
        }
        out.push_str(&format!("from {}, {} a column\n", clock(self.start), super::unit::duration(self.step)));
        out
    }
}
