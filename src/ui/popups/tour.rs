//! A short tour through an incident: descriptions, the keys that continue, and the box that shows them.

use ratatui::widgets::{Block, Widget};

use crate::panel::text::{width, wrap};
use crate::ui::input::commands::{general, program};
use crate::ui::input::{Command, shown};
use crate::ui::screens::{cpus, time, top};
use crate::ui::state::{Model, Tab};
use crate::ui::widgets::Canvas;

/// A step: its text, and the command that it waits for.
#[derive(Debug)]
pub(crate) struct TourStep {
    pub(crate) row: &'static Command,
    pub(crate) text: &'static str,
    /// Commands that complete it as well.
    also: &'static [&'static Command],
    screen: Option<Tab>,
}

const fn until(row: &'static Command, text: &'static str) -> TourStep {
    TourStep { row, text, also: &[], screen: None }
}

impl TourStep {
    const fn or(self, also: &'static [&'static Command]) -> Self {
        Self { also, ..self }
    }

    fn is_done(&self, row: &Command, tab: Tab) -> bool {
        let is_its = self.row.is(row) || self.also.iter().any(|other| other.is(row));
        is_its && self.screen.is_none_or(|screen| screen == tab)
    }
}

/// The tour of the demo's incident.
pub(crate) static STEPS: &[TourStep] = &[
    TourStep {
        // Before the first findings, the command has no target.
        screen: Some(Tab::Cpus),
        ..until(
            &program::FINDING,
            "A recording of CPU 32, one of 34 CPUs, during an incident: users report that this CPU is slow. After \
             a few seconds the third line names the anomaly. This key goes there:",
        )
    },
    until(
        &cpus::commands::ENTER,
        "The CPUs, anomalies first, with a column for each softirq vector. CPU 32 spends much of its time in \
         TIMER. The functions behind that cell:",
    ),
    until(
        &top::commands::TOGGLE,
        "Every screen now shows only the TIMER softirqs of CPU 32; ⌫ undoes that. The table is sorted by \
         Children, and the cursor is on the timer's function. Unfold its callees:",
    )
    .or(&[&top::commands::EXPAND, &top::commands::EXPAND_ALL]),
    until(
        &program::FLAME,
        "estimation_timer spends its time in _find_next_bit: IPVS updates all its statistics in a single timer on \
         one CPU. The same samples as a flame graph:",
    ),
    until(
        &program::TIME,
        "The width of a frame is its share of the samples, callees are below their callers, and the letter marks \
         kernel, softirq or user code. Enter would zoom. When did it happen?",
    ),
    until(
        &time::commands::COLUMNS,
        "Each column is one second, each row an offset within it; blocks are bursts. To compare two seconds, go \
         to a burst with ← and →, and select its column:",
    ),
    until(&time::commands::BASELINE, "→ would add columns. Make this second the baseline:"),
    until(&time::commands::COLUMNS, "Go to another burst with ← and →, and select its column, too:"),
    until(&time::commands::ENTER, "Show only that second on every screen, compared with the baseline:"),
    until(
        &general::UNDO,
        "The largest changes come first: Δ is the difference in percentage points, Old the share in the baseline; \
         ~ marks differences within chance. Each step can be undone, on every screen:",
    )
    .or(&[&program::TOP]),
    until(
        &general::STOP,
        "That is all. ? explains each screen, : finds every command, f filters, also past samples, S saves a \
         perf.data file. On your own machine: sudo perfprof-tui. This key ends the tour:",
    ),
];

pub(crate) fn step(at: usize) -> Option<&'static TourStep> {
    STEPS.get(at)
}

/// Returns the step after a command was run that led to this screen.
pub(crate) fn after(at: usize, row: &Command, tab: Tab) -> usize {
    at + usize::from(step(at).is_some_and(|step| step.is_done(row, tab)))
}

/// Returns the height of the tour's box; zero without a tour, or if room is short.
pub(crate) fn height(model: &Model, width: u16, room: u16) -> u16 {
    let lines = model.frame.tour.and_then(step).map_or(0, |step| plan(model, step, width).2);
    if lines + LEAST <= room && width >= 30 { lines } else { 0 }
}

/// Minimum height of the table above it.
const LEAST: u16 = 6;

fn plan(model: &Model, step: &TourStep, width: u16) -> (Vec<String>, String, u16) {
    let key = shown(model.context.keymap.key_of(step.row).unwrap_or("esc"));
    let room = usize::from(width.saturating_sub(4));
    let lines = wrap(step.text, room);
    // The key follows the text if there is room.
    let below = usize::from(!has_room(&lines, &key, room));
    let height = (lines.len() + below + 2) as u16;
    (lines, key, height)
}

fn has_room(lines: &[String], key: &str, room: usize) -> bool {
    lines.last().map_or(0, |line| width(line)) + width(key) + 3 <= room
}

pub(crate) fn draw(model: &Model, on: &mut Canvas<'_>) {
    let Some((at, step)) = model.frame.tour.and_then(|at| Some((at, step(at)?))) else { return };
    if on.area.height == 0 {
        return;
    }
    let (lines, key, _) = plan(model, step, on.area.width);
    let title = format!(" tour {} of {}, Esc ends it ", at + 1, STEPS.len());
    let block = Block::bordered().title(title).title_style(on.theme.title).border_style(on.theme.bar);
    let inner = block.inner(on.area);
    block.render(on.area, on.buffer);
    let behind = has_room(&lines, &key, usize::from(on.area.width.saturating_sub(4)));
    let inner = &mut on.part(inner);
    for (y, line) in (0..).zip(&lines) {
        inner.put(1, y, line, inner.theme.text);
    }
    let last = lines.last().map_or(0, |line| width(line)) as u16;
    let (x, y) = if behind { (last + 2, lines.len() as u16 - 1) } else { (1, lines.len() as u16) };
    inner.put(x, y, &format!(" {key} "), inner.theme.selected);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_done_when_it_led_somewhere() {
        assert_eq!(after(0, &program::FINDING, Tab::Top), 0, "nothing was found yet");
        assert_eq!(after(0, &program::FINDING, Tab::Cpus), 1);
        assert_eq!(after(1, &top::commands::TOGGLE, Tab::Cpus), 1);
    }
}
