//! A heat map: items as rows, time as columns, an amount in each cell.

use super::measure::Measure;
use super::series::greatest;
use super::unit::{clock, duration};

/// A heat map.
#[derive(Clone, Debug, PartialEq)]
pub struct Heatmap {
    pub(crate) measure: Measure,
    /// Nanoseconds from the session's start to the first column, and per column.
    pub start: u64,
    pub(crate) step: u64,
    pub(crate) rows: Vec<HeatRow>,
}

/// An item and its values; NaN for unknown.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct HeatRow {
    pub(crate) label: String,
    pub(crate) cells: Vec<f32>,
}

/// From low to high; zero is a dot.
pub const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

impl Heatmap {
    /// Returns the greatest value.
    pub fn most(&self) -> f32 {
        greatest(self.rows.iter().flat_map(|row| &row.cells))
    }

    /// Returns the shade of a value, as an index into [`SHADES`]. It follows the square root of the value's share of
    /// the greatest one, so that small values stay visible. `None` for unknown.
    pub fn shade(value: f32, most: f32) -> Option<usize> {
        match value {
            v if !v.is_finite() => None,
            v if v <= 0.0 || most <= 0.0 => Some(0),
            v => Some((1 + ((v / most).sqrt() * 3.0).round() as usize).min(4)),
        }
    }

    /// Joins columns to at most `columns`, by their greatest value.
    pub fn narrowed(&self, columns: usize) -> Self {
        let wide = self.rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
        let join = wide.div_ceil(columns.max(1)).max(1);
        let max = |part: &[f32]| part.iter().copied().filter(|v| v.is_finite()).reduce(f32::max).unwrap_or(f32::NAN);
        let row =
            |row: &HeatRow| HeatRow { label: row.label.clone(), cells: row.cells.chunks(join).map(max).collect() };
        Self { step: self.step * join as u64, rows: self.rows.iter().map(row).collect(), ..self.clone() }
    }

    /// Formats rows of shades with their greatest value.
    pub fn to_text(&self) -> String {
        let map = self.narrowed(120);
        let wide = map.rows.iter().map(|row| super::text::width(&row.label)).max().unwrap_or(0);
        let most = map.most();
        let mut out = String::new();
        for row in &map.rows {
            let cells: String = row.cells.iter().map(|v| Self::shade(*v, most).map_or(' ', |at| SHADES[at])).collect();
            let own = greatest(&row.cells);
            let pad = " ".repeat(wide - super::text::width(&row.label));
            let label = super::text::clean(&row.label);
            out.push_str(&format!("{label}{pad}  {cells}  max {}\n", map.measure.text(f64::from(own))));
        }
        out.push_str(&format!(
            "from {}, {} a column, █ is {}\n",
            clock(map.start),
            duration(map.step),
            map.measure.text(f64::from(most))
        ));
        out
    }
}
