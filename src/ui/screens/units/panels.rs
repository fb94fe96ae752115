//! Draws a panel in an area of any size: tables, trees, logs, histograms, maps, time series, flame graphs.

use ratatui::layout::Rect;
use ratatui::style::{Color, Style};

use crate::lang::counted;
use crate::panel::heatmap::{Heatmap, SHADES};
use crate::panel::histogram::{Histogram, STEPS};
use crate::panel::series::{TimeSeries, level};
use crate::panel::text::{clean, fit, width};
use crate::panel::unit::{clock, duration, percent, thousands};
use crate::panel::{Body, Panel};
use crate::query::flame::layout::Flame;
use crate::ui::screens::flame::blocks;
use crate::ui::screens::units::panel_view::PanelView;
use crate::ui::screens::units::table;
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;
use crate::ui::widgets::rows::eighths;

/// Draws a panel; the selected one with its cursor.
pub(crate) fn draw(panel: &Panel, view: &PanelView, flame: Option<&Flame>, main: bool, on: &mut Canvas<'_>) {
    if on.area.height == 0 || on.area.width < 4 {
        return;
    }
    if panel.is_empty() {
        on.put(2, 1.min(on.area.height.saturating_sub(1)), "nothing yet", on.theme.dim);
        return;
    }
    match &panel.body {
        Body::Table(rows) | Body::Tree(rows) | Body::Log(rows) => {
            table::UnitTable { panel, rows, view, main }.draw(on);
        }
        Body::Histogram(histogram) => distribution(histogram, on),
        Body::Heatmap(map) => heatmap(map, on),
        Body::Series(series) => courses(series, on),
        Body::Flame(_) => {
            if let Some(flame) = flame {
                icicle(panel, flame, view, main, on);
            }
        }
    }
}

/// Minimum width for two histograms next to each other.
const BESIDE: u16 = 150;

/// Maximum lines of a time series.
pub(crate) const TALLEST: u16 = 6;

/// Returns the lines that all bars of a histogram take at a width.
pub(crate) fn lines_of_bars(histogram: &Histogram, width: u16) -> usize {
    let (powers, steps) = (histogram.bars.len(), histogram.steps.len());
    match steps {
        0 => powers,
        _ if width >= BESIDE => powers.max(steps + 1),
        _ => powers + 1 + steps,
    }
}

/// Draws a histogram by powers of two and, if there is room next to it or below, with linear steps.
fn distribution(histogram: &Histogram, on: &mut Canvas<'_>) {
    let (half, powers) = (on.area.width / 2, histogram.bars.len() as u16);
    let steps = match histogram.steps.len() as u16 {
        0 => None,
        _ if on.area.width >= BESIDE => Some((
            Rect { width: half, ..on.area },
            Rect { x: on.area.x + half, width: on.area.width - half, ..on.area },
        )),
        steps if powers + 1 + steps <= on.area.height => {
            Some((Rect { height: powers, ..on.area }, Rect { y: on.area.y + powers, height: steps + 1, ..on.area }))
        }
        _ => None,
    };
    let Some((upper, lower)) = steps else { return bars(histogram, on) };
    bars(histogram, &mut on.part(upper));
    let lower = &mut on.part(lower);
    lower.put(1, 0, STEPS, lower.theme.dim);
    bars(&histogram.in_steps(), &mut lower.below(1));
}

fn bars(histogram: &Histogram, on: &mut Canvas<'_>) {
    let bounds: Vec<String> = histogram.bars.iter().map(|bar| histogram.bounds(bar)).collect();
    let label = bounds.iter().map(|text| width(text)).max().unwrap_or(0).min(26) as u16;
    let total = histogram.total().max(1) as f64;
    let most = histogram.bars.iter().map(|bar| bar.count).max().unwrap_or(1).max(1) as f64;
    // If not all bars fit, keep those around the largest count, because the ends are thin.
    let height = usize::from(on.area.height);
    let middle = histogram.bars.iter().enumerate().max_by_key(|(_, bar)| bar.count).map_or(0, |(i, _)| i);
    let from = (middle + height / 2 + 1).saturating_sub(height).min(histogram.bars.len().saturating_sub(height));
    let mut sum: u64 = histogram.bars[..from].iter().map(|bar| bar.count).sum();
    let x = label + 34;
    let room = on.area.width.saturating_sub(x + 1);
    for ((bar, bounds), y) in histogram.bars.iter().zip(&bounds).skip(from).zip(0..on.area.height) {
        sum += bar.count;
        let pad = label.saturating_sub(width(bounds) as u16);
        on.put(1 + pad, y, bounds, on.theme.text);
        let [own, upto] = [bar.count, sum].map(|n| percent(100.0 * n as f64 / total));
        on.put(label + 2, y, &format!("{:>12} {own:>8} {upto:>8}", thousands(bar.count)), on.theme.dim);
        let text = eighths(bar.count as f64 / most, usize::from(room));
        let text = if bar.count > 0 && text.is_empty() { "▏" } else { &text };
        on.put(x, y, text, on.theme.bar);
    }
}

/// Returns a colour for the shade of a map's cell. Without colours the shade itself suffices.
fn shade_style(shade: usize, theme: &Theme) -> Style {
    let ramp = &theme.heat.cells;
    let color = ramp.get((shade * (ramp.len() - 1)).div_ceil(SHADES.len() - 1)).copied().unwrap_or(Color::Reset);
    if color == Color::Reset { theme.text } else { Style { fg: Some(color), ..Style::default() } }
}

fn heatmap(map: &Heatmap, on: &mut Canvas<'_>) {
    let label = map.rows.iter().map(|row| width(&row.label)).max().unwrap_or(0).min(24) as u16;
    let figures = 12;
    let room = on.area.width.saturating_sub(label + figures + 3);
    let map = map.narrowed(usize::from(room.max(1)));
    let most = map.most();
    let lines = on.area.height.saturating_sub(1);
    for (row, y) in map.rows.iter().zip(0..lines) {
        on.put(1, y, &fit(&clean(&row.label), usize::from(label)), on.theme.text);
        let mut own = 0f32;
        for (value, x) in row.cells.iter().zip(label + 2..on.area.width.saturating_sub(figures)) {
            own = if value.is_finite() { own.max(*value) } else { own };
            let Some(shade) = Heatmap::shade(*value, most) else { continue };
            let style = if shade == 0 { on.theme.dim } else { shade_style(shade, on.theme) };
            on.put(x, y, SHADES[shade].encode_utf8(&mut [0; 4]), style);
        }
        let text = map.measure.text(f64::from(own));
        on.put(on.area.width.saturating_sub(width(&text) as u16 + 1), y, &text, on.theme.dim);
    }
    let more = map.rows.len().saturating_sub(usize::from(lines));
    let more = if more > 0 { format!("  {}", counted(more as u64, "more row")) } else { String::new() };
    let text = format!(
        "from {}, {} a column, █ {}, at the right each row's greatest{more}",
        clock(map.start),
        duration(map.step),
        map.measure.text(f64::from(most))
    );
    on.put(1, on.area.height.saturating_sub(1), &text, on.theme.dim);
}

fn courses(series: &TimeSeries, on: &mut Canvas<'_>) {
    let label = series.lines.iter().map(|line| width(&line.label)).max().unwrap_or(0).min(28) as u16;
    let room = usize::from(on.area.width.saturating_sub(label + 26));
    let lines = on.area.height.saturating_sub(1);
    // If there is room, each time series uses several lines.
    let tall = (lines / (series.lines.len().max(1) as u16)).clamp(1, TALLEST);
    for (line, at) in series.lines.iter().zip(0..) {
        let y = at * tall;
        if y + tall > lines {
            break;
        }
        let known: Vec<f64> = line.values.iter().copied().filter(|v| v.is_finite()).collect();
        let most = known.iter().copied().fold(0.0, f64::max);
        let now = series.measure.text(known.last().copied().unwrap_or(f64::NAN));
        on.put(1, y, &fit(&clean(&line.label), usize::from(label)), on.theme.text);
        let figures = format!("{now:>10} {:>10}", series.measure.text(most));
        on.put(label + 2, y, &figures, on.theme.dim);
        let skip = line.values.len().saturating_sub(room);
        for (value, x) in line.values.iter().skip(skip).zip(label + 25..on.area.width) {
            for part in 0..tall {
                // From the bottom up, each line shows its part of the height.
                let height = if most > 0.0 { value / most * f64::from(tall) } else { 0.0 };
                let own = (height - f64::from(part)).clamp(0.0, 1.0);
                let symbol = if own > 0.0 || part == 0 {
                    level(if value.is_finite() { own } else { f64::NAN }, 1.0)
                } else {
                    ' '
                };
                on.put(x, y + tall - 1 - part, symbol.encode_utf8(&mut [0; 4]), on.theme.bar);
            }
        }
    }
    let text = format!("now, greatest; {} a column, the newest at the right", duration(series.step));
    on.put(1, on.area.height.saturating_sub(1), &text, on.theme.dim);
}

fn icicle(panel: &Panel, flame: &Flame, view: &PanelView, main: bool, on: &mut Canvas<'_>) {
    let Body::Flame(stacks) = &panel.body else { return };
    let index = view.flame.index(flame).filter(|_| main);
    let graph = Rect { height: on.area.height.saturating_sub(1), ..on.area };
    for (i, block) in flame.blocks.iter().enumerate() {
        if let Some(y) = view.flame.y_of(flame, block.row, graph.height) {
            blocks::plain(block, &flame.total, index == Some(i), &mut on.part(graph).line(y));
        }
    }
    if let Some(block) = index.and_then(|i| flame.blocks.get(i)) {
        let text = format!(
            "{}  {}, {} of all, {} of what it stands on",
            clean(&block.name),
            stacks.measure.text(block.total.new.period as f64),
            percent(block.total.percent_of(&flame.total)),
            percent(block.total.percent_of(&block.parent))
        );
        on.put(1, on.area.height.saturating_sub(1), &text, on.theme.text);
    }
}
