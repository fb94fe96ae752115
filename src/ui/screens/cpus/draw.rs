//! The CPU screen: a row per CPU with its shares, a stacked bar, its history and a matrix by softirq vector or
//! interrupt; below it the cell under the cursor and anomalies; then, if there is room, charts of the last minute.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use crate::machine::table::{CpuColumn, CpuFacts};
use crate::panel::series::LEVELS;
use crate::panel::text::{fit, fit_end, width};
use crate::query::flame::Class;
use crate::session::machine::Ticks;
use crate::ui::draw::layout::places;
use crate::ui::screens::cpus::charts::ChartGrid;
use crate::ui::screens::cpus::describe;
use crate::ui::screens::cpus::state::{ColumnPage, CpusState};
use crate::ui::state::Model;
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;
use crate::ui::widgets::rows::arrow;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuColumnSpan {
    pub(crate) column: CpuColumn,
    pub(crate) x: u16,
    pub(crate) width: u16,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CpusLayout {
    pub(crate) spans: Vec<CpuColumnSpan>,
    /// The stacked bar and the history, as (x, width).
    pub(crate) bar: Option<(u16, u16)>,
    pub(crate) history: Option<(u16, u16)>,
    /// Whether an overview of all CPUs is above the rows.
    pub(crate) overview: bool,
    pub(crate) rows: usize,
    /// Number of description lines below them.
    pub(crate) words: u16,
    pub(crate) charts: ChartGrid,
    /// Whether columns at the right are hidden.
    pub(crate) more: bool,
}

/// Lines of a map of durations on a tall screen.
const MAP: u16 = 12;

pub(crate) fn plan(model: &Model, view: &CpusState) -> CpusLayout {
    let area = model.area();
    if model.is_too_small() {
        return CpusLayout::default();
    }
    let table = places(model, area).table;
    let facts = model.context.facts();
    let words = match table.height {
        h if h >= 30 => 8,
        h if h >= 12 => 4,
        h if h >= 8 => 2,
        _ => 0,
    };
    let n = facts.cpus().len();
    let room = usize::from(table.height.saturating_sub(1 + words));
    let overview = n > room && room > 3;
    let (spans, bar, history, more) = spans(view, &facts, table.width);
    let rows = (room - usize::from(overview)).min(n.max(1));
    // A map of durations is below the words.
    let words = if view.page(&facts) == ColumnPage::Timed && words >= 8 { words + MAP } else { words };
    let left = table.height.saturating_sub(1 + u16::from(overview) + rows as u16 + words);
    let charts = if words >= 8 { ChartGrid::of(n, table.width, left) } else { ChartGrid::default() };
    CpusLayout { spans, bar, history, overview, rows, words, charts, more }
}

type Place = Option<(u16, u16)>;

fn spans(view: &CpusState, facts: &CpuFacts<'_>, screen: u16) -> (Vec<CpuColumnSpan>, Place, Place, bool) {
    let mut x = 2;
    let mut out = Vec::new();
    for column in view.common(facts, screen) {
        let width = column.column().width;
        if x + width < screen {
            out.push(CpuColumnSpan { column, x, width });
            x += width + 1;
        }
    }
    let mut take = |least: u16, cells: u16| {
        (screen >= least && x + cells + 1 < screen).then(|| {
            x += cells + 2;
            (x - cells - 1, cells)
        })
    };
    let bar = take(100, if screen >= 160 { 24 } else { 12 });
    let history = take(60, if screen >= 160 { 40 } else { 8 });
    let own = view.own(facts);
    let widths: Vec<u16> =
        own.iter().map(|c| c.column().width.max((width(&facts.title(*c)) as u16 + 1).min(13))).collect();
    let room = screen.saturating_sub(x + 1);
    let fits = |from: usize| {
        let mut used = 0;
        widths[from..].iter().take_while(|w| (used += **w, used <= room).1).count()
    };
    // Scroll to the right as far as the cursor requires.
    let at = own.iter().position(|c| *c == view.column).unwrap_or(0);
    let from = (0..own.len()).find(|from| from + fits(*from) > at).unwrap_or(0);
    let shown = if own.is_empty() { 0 } else { fits(from) };
    for i in from..from + shown {
        out.push(CpuColumnSpan { column: own[i], x: x + 1, width: widths[i] - 1 });
        x += widths[i];
    }
    (out, bar, history, from + shown < own.len())
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CpusHit {
    Head(CpuColumn),
    Cell(u32, CpuColumn),
}

pub(crate) fn hit(model: &Model, view: &CpusState, x: u16, y: u16) -> Option<CpusHit> {
    let plan = plan(model, view);
    let area = places(model, model.area()).table;
    let first = area.y + 1 + u16::from(plan.overview);
    let span = plan.spans.iter().find(|s| (s.x..=s.x + s.width).contains(&x)).or(plan.spans.first())?;
    if y == area.y {
        return Some(CpusHit::Head(span.column));
    }
    let row = y.checked_sub(first).map(usize::from).filter(|row| *row < plan.rows)?;
    let rows = view.rows(&model.context.facts());
    rows.get(view.list.top + row).map(|cpu| CpusHit::Cell(*cpu, span.column))
}

pub(crate) fn draw(model: &Model, view: &CpusState, on: &mut Canvas<'_>) {
    let facts = model.context.facts();
    let rows = view.rows(&facts);
    let plan = plan(model, view);
    if rows.is_empty() {
        let text = match model.context.answer.ended {
            Some(_) if model.context.info.clock().is_none() => {
                "No event of this recording samples time (cpu-clock, cycles), so the load of CPUs is unknown."
            }
            Some(_) if model.context.answer.unfiltered.samples > 0 && model.context.info.inputs.is_empty() => {
                "These samples lack their CPU."
            }
            Some(_) if model.context.answer.unfiltered.samples > 0 => {
                "These samples lack their CPU (perf record -a, or --sample-cpu)."
            }
            Some(_) => "No samples, so the CPUs are unknown.",
            None => "Waiting for the first second…",
        };
        on.put(2, 2, text, on.theme.text);
        return describe::notes(model, 3, on);
    }
    heading(view, &facts, &plan, on);
    if plan.overview {
        overview(model, view, &facts, &mut on.line(1));
    }
    let selected = rows.get(view.selected(&rows)).copied();
    let first = 1 + u16::from(plan.overview);
    for (y, cpu) in (first..).zip(rows.iter().skip(view.list.top).take(plan.rows)) {
        let line = &mut on.line(y);
        if model.context.findings_of(*cpu).next().is_some() {
            line.put(1, 0, "!", line.theme.error);
        }
        row(view, &facts, &plan, (*cpu, selected == Some(*cpu)), line);
    }
    let below = first + plan.rows as u16;
    if plan.words > 0 && on.area.height > below {
        let mut words = on.below(below);
        words.area.height -= plan.charts.height().min(words.area.height);
        describe::draw(model, view, &facts, selected, &mut words);
    }
    let charts = on.area.height.saturating_sub(plan.charts.height());
    plan.charts.draw(&facts, (&rows, selected), &mut on.below(charts));
}

fn heading(view: &CpusState, facts: &CpuFacts<'_>, plan: &CpusLayout, on: &mut Canvas<'_>) {
    for span in &plan.spans {
        let ordered = span.column == view.order && (view.order != CpuColumn::Cpu || view.reversed);
        let arrow = arrow(ordered, view.reversed);
        let title = facts.title(span.column);
        let room = usize::from(span.width);
        let text = format!("{}{arrow}", fit(&title, room.saturating_sub(width(arrow))));
        let style = if ordered { on.theme.head.add_modifier(Modifier::BOLD) } else { on.theme.head };
        on.put_in((span.x, span.width), span.column.column().align, &text, style);
    }
    for (place, long, brief) in [(plan.bar, "now", "now"), (plan.history, "softirq + irq + miss", "history")] {
        if let Some((x, cells)) = place {
            let text = if usize::from(cells) >= width(long) { long } else { brief };
            on.put(x, 0, &fit_end(text, usize::from(cells)), on.theme.head);
        }
    }
    if plan.more {
        on.put(on.area.width.saturating_sub(1), 0, "›", on.theme.key);
    }
}

/// Draws one cell per CPU, or the worst of several CPUs.
fn overview(model: &Model, view: &CpusState, facts: &CpuFacts<'_>, on: &mut Canvas<'_>) {
    let cpus = facts.cpus();
    let room = usize::from(on.area.width.saturating_sub(4)).max(1);
    let each = cpus.len().div_ceil(room);
    for (x, group) in (2..).zip(cpus.chunks(each)) {
        let hot = group.iter().map(|cpu| load(facts, *cpu)).fold(0.0, f64::max);
        let found = group.iter().any(|cpu| model.context.findings_of(*cpu).next().is_some());
        let glyph = if found { '!' } else { LEVELS[((hot * 7.0 / 100.0).round() as usize).min(7)] };
        let here = view.under_cursor(facts).is_some_and(|cpu| group.contains(&cpu));
        let style = if found { on.theme.error } else { heat(on.theme, hot) };
        let style = if here { style.patch(on.theme.selected) } else { style };
        on.put(x, 0, &glyph.to_string(), style);
    }
}

/// Returns the load of a CPU in percent; missing ticks count as busy.
fn load(facts: &CpuFacts<'_>, cpu: u32) -> f64 {
    let idle = facts.value(CpuColumn::Share(Ticks::IDLE), cpu).unwrap_or(100.0)
        + facts.value(CpuColumn::Share(Ticks::IOWAIT), cpu).unwrap_or(0.0);
    let missing = facts.value(CpuColumn::Missing, cpu).unwrap_or(0.0);
    100.0 - idle * (1.0 - missing / 100.0)
}

fn row(view: &CpusState, facts: &CpuFacts<'_>, plan: &CpusLayout, (cpu, selected): (u32, bool), on: &mut Canvas<'_>) {
    if selected {
        on.put(0, 0, "›", on.theme.title);
    }
    for span in &plan.spans {
        cell(view, facts, (cpu, selected), span, on);
    }
    if let Some((x, cells)) = plan.bar {
        bar(facts, cpu, &mut on.part(Rect { x: on.area.x + x, width: cells, ..on.area }));
    }
    if let Some((x, cells)) = plan.history {
        let text: String = history(facts, cpu, usize::from(cells)).into_iter().map(glyph).collect();
        on.put(x, 0, &text, on.theme.bar);
    }
}

fn cell(
    view: &CpusState,
    facts: &CpuFacts<'_>,
    (cpu, selected): (u32, bool),
    span: &CpuColumnSpan,
    on: &mut Canvas<'_>,
) {
    let value = facts.value(span.column, cpu);
    let text = match (value, span.column) {
        (_, CpuColumn::Siblings | CpuColumn::Marks | CpuColumn::Cpu) => facts.cell(span.column, cpu).text(),
        (Some(v), column) => column.short(v),
        (None, _) => "-".to_owned(),
    };
    let text = fit(&text, usize::from(span.width));
    let style = match (span.column, value) {
        (CpuColumn::Cpu, _) => on.theme.text,
        (_, None) => on.theme.dim,
        (CpuColumn::Share(Ticks::IDLE) | CpuColumn::Given, _) => on.theme.dim,
        (column, Some(v)) if column.is_share() => heat(on.theme, v),
        (CpuColumn::NetDropped | CpuColumn::NetSqueezed, Some(v)) if v > 0.0 => on.theme.warning,
        (_, Some(0.0)) => on.theme.dim,
        _ => on.theme.text,
    };
    let here = selected && span.column == view.column;
    if here {
        for x in span.x..span.x + span.width {
            on.put(x, 0, " ", on.theme.selected);
        }
    }
    on.put_in((span.x, span.width), span.column.column().align, &text, if here { on.theme.selected } else { style });
}

/// Returns the style of a share: low ones are dim, high ones stand out.
fn heat(theme: &Theme, value: f64) -> Style {
    match value {
        v if v >= 20.0 => theme.hot,
        v if v >= 5.0 => theme.warning,
        v if v >= 0.05 => theme.text,
        _ => theme.dim,
    }
}

/// Draws the parts of a CPU's time as blocks with letters, which work without colours.
fn bar(facts: &CpuFacts<'_>, cpu: u32, on: &mut Canvas<'_>) {
    let share = |i| facts.value(CpuColumn::Share(i), cpu).unwrap_or(0.0);
    let missing = facts.value(CpuColumn::Missing, cpu).unwrap_or(0.0);
    let parts = [
        (share(Ticks::USER), 'u', Class::User),
        (share(Ticks::NICE), 'n', Class::User),
        (share(Ticks::GUEST) + share(Ticks::GUEST_NICE), 'g', Class::Jit),
        (share(Ticks::SYSTEM), 'k', Class::Kernel),
        (share(Ticks::IRQ), 'h', Class::Irq),
        (share(Ticks::SOFTIRQ), 's', Class::Softirq),
        (share(Ticks::STEAL), 't', Class::Unknown),
        (share(Ticks::IOWAIT), 'w', Class::Library),
    ];
    let counted = 1.0 - missing / 100.0;
    let cells = f64::from(on.area.width) / 100.0;
    let (mut sum, mut x) = (0.0, 0);
    let parts = parts.map(|(share, letter, class)| (share * counted, letter, class));
    for (share, letter, class) in parts.into_iter().chain([(missing, '?', Class::Unknown)]) {
        sum += share;
        let end = ((sum * cells).round() as u16).min(on.area.width);
        while x < end {
            on.put(x, 0, &letter.to_string(), on.theme.block(class, 0));
            x += 1;
        }
    }
    while x < on.area.width {
        on.put(x, 0, "·", on.theme.dim);
        x += 1;
    }
}

fn glyph(share: f32) -> char {
    match share {
        s if s < 1.0 => ' ',
        s => LEVELS[((s * 8.0 / 100.0) as usize).min(7)],
    }
}

/// Returns softirqs, interrupts and missing ticks of each past second or part of a recording in percent, oldest first.
fn history(facts: &CpuFacts<'_>, cpu: u32, cells: usize) -> Vec<f32> {
    if let Some(row) = facts.host.and_then(|host| host.row(cpu)) {
        let past = &row.history[row.history.len().saturating_sub(cells)..];
        let mut out = vec![0.0; cells - past.len()];
        out.extend(past.iter().map(|p| (p.soft * (1.0 - p.missing / 100.0) + p.missing).min(100.0)));
        return out;
    }
    let Some(samples) = facts.samples.and_then(|samples| samples.row(cpu)) else { return Vec::new() };
    let all = &samples.history;
    let part = |i: usize| {
        let (from, until) = (i * all.len() / cells, ((i + 1) * all.len()).div_ceil(cells));
        all[from..until.max(from)].iter().copied().fold(0.0, f32::max)
    };
    (0..cells).map(part).collect()
}

/// Returns the screen as text: the table with all columns.
pub(crate) fn text(model: &Model, view: &CpusState) -> String {
    let facts = model.context.facts();
    let mut columns = view.common(&facts, u16::MAX);
    columns.extend(view.own(&facts).into_iter().filter(|c| !matches!(c, CpuColumn::Line(_))));
    facts.table(&columns, &view.rows(&facts)).to_text()
}
