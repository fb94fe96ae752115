//! Latency tables and histograms with the same columns in all units.

use crate::panel::histogram::{Bar, Histogram};
use crate::panel::{Body, Cell, Column, Measure, Panel};

use crate::units::kit::Stats;
use crate::units::kit::tables::columns::right;

/// Calls, total and distribution; with the share above a threshold if there is one.
pub(crate) fn columns(than: bool) -> Vec<Column> {
    let mut columns = vec![
        right("calls", "Calls", 9),
        right("total_ns", "Total", 9),
        right("min_ns", "Min", 8).ranked(4),
        right("mean_ns", "Mean", 8).ranked(2),
        right("p50_ns", "p50", 8).ranked(1),
        right("p95_ns", "p95", 8),
        right("p99_ns", "p99", 8).ranked(3),
        right("max_ns", "Max", 8),
    ];
    if than {
        columns.push(right("than", "Than", 7));
        columns.push(right("than_pct", "Share", 7));
    }
    columns
}

pub(crate) fn cells(stats: &Stats, than: bool) -> Vec<Cell> {
    cells_of(stats, than, Cell::Time)
}

/// Returns the cells of values other than times.
pub(crate) fn cells_of(stats: &Stats, than: bool, cell: impl Fn(u64) -> Cell) -> Vec<Cell> {
    let value = |value: u64| if stats.n == 0 { Cell::Empty } else { cell(value) };
    let mut cells = vec![
        Cell::Count(stats.n),
        cell(stats.sum),
        value(stats.min),
        value(stats.mean() as u64),
        value(stats.quantile(0.5)),
        value(stats.quantile(0.95)),
        value(stats.quantile(0.99)),
        value(stats.max),
    ];
    if than {
        cells.push(Cell::Count(stats.than));
        cells.push(Cell::Percent(100.0 * stats.than as f64 / stats.n.max(1) as f64));
    }
    cells
}

/// A histogram by powers of two, and one with linear steps.
pub(crate) fn by_powers(title: &str, stats: &Stats, measure: Measure) -> Panel {
    let bars = |list: Vec<(u64, u64, u64)>| list.into_iter().map(|(from, to, count)| Bar { from, to, count }).collect();
    Panel::new(
        title,
        Body::Histogram(Histogram { measure, bars: bars(stats.powers()), steps: bars(stats.steps(STEPS)) }),
    )
}

const STEPS: u64 = 20;
