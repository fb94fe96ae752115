//! Draws the overview: a row for each finding, then what is normal.

use std::borrow::Cow;

use ratatui::style::{Modifier, Style};

use crate::machine::triage::{MachineFinding, Severity};
use crate::panel::text::{fit_counted_list, fit_end, fit_list, width, wrap};
use crate::panel::unit::clock;
use crate::ui::draw::layout::places;
use crate::ui::screens::overview::state::{Lack, OverviewState};
use crate::ui::state::Model;
use crate::ui::theme::Theme;
use crate::ui::widgets::Canvas;
use crate::ui::widgets::rows::light_up;

/// The width from which a finding is one line.
const WIDE: u16 = 140;
/// The cells of columns.
const AREA: u16 = 9;
const KEY: u16 = 15;
/// The minimum of cells for figures, and their maximum as a part of a line.
const FIGURE: usize = 34;
const PART: usize = 3;
/// Lines below the rows: a blank one, and what is normal.
const BELOW: u16 = 3;

/// Returns the lines of a finding.
fn lines_of(width: u16) -> u16 {
    if width >= WIDE { 1 } else { 2 }
}

/// Returns the number of findings that fit.
pub(crate) fn height(model: &Model) -> usize {
    if model.is_too_small() {
        return 0;
    }
    let area = places(model, model.area()).table;
    usize::from(area.height.saturating_sub(1 + BELOW) / lines_of(area.width)).max(1)
}

/// Returns the finding at a line of the screen.
pub(crate) fn hit(model: &Model, view: &OverviewState, y: u16) -> Option<usize> {
    let area = places(model, model.area()).table;
    let row = usize::from(y.checked_sub(area.y + 1)? / lines_of(area.width));
    let at = view.first(height(model)) + row;
    (row < height(model) && at < view.findings.len()).then_some(at)
}

pub(crate) fn draw(model: &Model, view: &OverviewState, on: &mut Canvas<'_>) {
    let heading = heading(model, view);
    on.put(1, 0, &heading, on.theme.head);
    let each = lines_of(on.area.width);
    let shown = view.findings.iter().enumerate().skip(view.first(height(model))).take(height(model));
    let figures = figure_cells(view, on.area.width);
    let mut y = 1;
    for (at, found) in shown {
        row(model, found, (at == view.selected(), figures), y, on);
        y += each;
    }
    if y > 1 {
        y += 1;
    }
    let cells = usize::from(on.area.width.saturating_sub(3));
    let below = below(model, view, on.theme, cells);
    let end_of_rows = y.saturating_sub(1);
    for (text, style) in &below {
        for line in wrap(text, cells) {
            if y < on.area.height {
                on.put(2, y, &line, *style);
            }
            y += 1;
        }
    }
    // A low screen has no room for the last lines.
    let end = if below.is_empty() { end_of_rows } else { y };
    if end > on.area.height {
        on.put(on.area.width.saturating_sub(1), on.area.height.saturating_sub(1), "…", on.theme.key);
    }
}

fn heading(model: &Model, view: &OverviewState) -> String {
    let bad = view.findings.iter().filter(|found| found.severity == Severity::Bad).count();
    let time = match model.selection.range() {
        _ if view.lacks == Some(Lack::Recorded) => String::new(),
        Some(range) => format!(", {}", crate::ui::state::range::label(range)),
        None => ", last 10 s".to_owned(),
    };
    match (bad, view.findings.len()) {
        (_, 0) => format!("Overview{time}"),
        (bad, all) => format!("Overview{time}: {bad} bad, {} worth a look", all - bad),
    }
}

/// Returns the cells of figures on a wide screen, with a blank one: all of the longest, unless that is too much.
fn figure_cells(view: &OverviewState, cells: u16) -> u16 {
    let room = usize::from(cells.saturating_sub(4 + AREA + KEY));
    let longest = view.findings.iter().map(|found| width(&found.figure) + 2).max().unwrap_or(0);
    longest.min(room / PART).max(FIGURE) as u16
}

/// Draws the lines of a finding at a line; `figures` is the number of cells of figures on a wide screen.
fn row(model: &Model, found: &MachineFinding, (is_selected, figures): (bool, u16), y: u16, on: &mut Canvas<'_>) {
    let theme = on.theme;
    let (mark, style) = match found.severity {
        Severity::Bad => ("●", theme.error),
        Severity::Look => ("○", theme.warning),
    };
    let key = found.look.key();
    let right = match on.area.width >= WIDE {
        true => on.area.width.saturating_sub(KEY),
        false => on.area.width.saturating_sub(width(&key) as u16 + 2),
    };
    on.put(1, y, if is_selected { "›" } else { " " }, theme.title);
    on.put(2, y, mark, style);
    on.put(4, y, found.cause.area().word(), style.add_modifier(Modifier::BOLD));
    let x = 4 + AREA;
    let text = evidence(model, found);
    let put_evidence = |x: u16, y: u16, until: u16, on: &mut Canvas<'_>| {
        on.put(x, y, &fit_evidence(&text, usize::from(until.saturating_sub(x))), theme.dim);
    };
    let put_culprits = |x: u16, y: u16, until: u16, on: &mut Canvas<'_>| {
        on.put(x, y, &fit_counted_list(&found.culprit, usize::from(until.saturating_sub(x))), theme.text)
    };
    if on.area.width >= WIDE {
        let (culprits, end) = (x + figures, right.saturating_sub(1));
        let evidence = culprits + right.saturating_sub(culprits) / 2;
        on.put(x, y, &fit_list(&found.figure, usize::from(figures - 1)), style);
        put_culprits(culprits, y, evidence.saturating_sub(1), on);
        put_evidence(evidence, y, end, on);
        on.put(right, y, &key, theme.key);
    } else {
        let first = x + on.put(x, y, &found.figure, style) + 2;
        let end = on.area.width.saturating_sub(1);
        // A name that the first line would cut goes before the evidence.
        let main = found.culprit.split(", ").next().unwrap_or_default();
        let has_room = usize::from(first) + width(main) <= usize::from(end);
        let at = if has_room {
            put_culprits(first, y, end, on);
            x
        } else {
            x + put_culprits(x, y + 1, right.saturating_sub(1), on) + 2
        };
        put_evidence(at, y + 1, right.saturating_sub(1), on);
        on.put(right, y + 1, &key, theme.key);
    }
    if is_selected {
        let end = (y + lines_of(on.area.width)).min(on.area.height);
        (y..end).for_each(|y| light_up(&[], &mut on.line(y)));
    }
}

/// Returns the time since when a finding holds, and its evidence.
fn evidence(model: &Model, found: &MachineFinding) -> String {
    let since = found.since.saturating_sub(model.context.answer.start);
    let since = if since > 0 { format!("since {}", clock(since)) } else { String::new() };
    let parts = [since.as_str(), found.evidence.as_str()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// Fits evidence into some cells: its first parts stay whole, unless that leaves most of the room empty.
fn fit_evidence(text: &str, cells: usize) -> Cow<'_, str> {
    let parts = fit_list(text, cells);
    if 2 * width(&parts) < cells { fit_end(text, cells) } else { parts }
}

/// Joins parts into lines of some cells, so that only parts that are longer than a line are divided.
fn lines_of_parts(parts: &[String], cells: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if width(line) + width(part) + 3 <= cells => line.push_str(&format!(" · {part}")),
            _ => lines.push(part.clone()),
        }
    }
    lines
}

/// Returns the texts below the rows; lists are divided into lines of some cells.
fn below(model: &Model, view: &OverviewState, theme: &Theme, cells: usize) -> Vec<(String, Style)> {
    let mut out = Vec::new();
    if view.findings.is_empty() && view.lacks.is_none() {
        let calm =
            if view.normal.calm.is_empty() { String::new() } else { format!(": {}", view.normal.calm.join(", ")) };
        out.push((format!("Nothing stands out{calm}."), theme.good));
    } else if !view.normal.calm.is_empty() {
        out.extend(lines_of_parts(&view.normal.calm, cells).into_iter().map(|line| (line, theme.dim)));
    }
    out.extend(view.normal.traffic.iter().map(|line| (line.clone(), theme.dim)));
    let lack = view.lacks.map(|lack| match lack {
        Lack::Recorded if model.context.is_timeless() => {
            "A profile has no figures of disks, memory and networks: 1 and 2 show its functions."
        }
        Lack::Recorded => {
            "A recording has no figures of disks, memory and networks: 1 and 2 show its functions, 3 when they ran."
        }
        Lack::Early => "Waiting for the first two readings of /proc…",
        Lack::Range => "There are no figures of /proc for this time: they cover the last 30 minutes.",
    });
    out.extend(lack.map(|text| (text.to_owned(), theme.text)));
    if view.lacks != Some(Lack::Recorded) && model.selects_processes() {
        out.push((
            "Only the selected processes count; figures of the whole machine are left out.".to_owned(),
            theme.dim,
        ));
    }
    out
}

/// Returns the screen as text.
pub(crate) fn text(model: &Model, view: &OverviewState) -> String {
    let mut out = format!("{}\n", heading(model, view));
    for found in &view.findings {
        out.push_str(&format!("{} {}; {}\n", found.severity.word(), found.text(), found.look.command()));
    }
    out.push_str(&view.normal.calm.join(", "));
    out.push('\n');
    view.normal.traffic.iter().for_each(|line| out.push_str(&format!("{line}\n")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_whole_in_their_lines() {
        let parts = ["0.10 CPUs used", "13.7 MB resident", "9 kB/s of disks"].map(str::to_owned);
        assert_eq!(lines_of_parts(&parts, 33), ["0.10 CPUs used · 13.7 MB resident", "9 kB/s of disks"]);
        assert_eq!(lines_of_parts(&parts, 32), ["0.10 CPUs used", "13.7 MB resident", "9 kB/s of disks"]);
        assert_eq!((lines_of_parts(&parts, 51).len(), lines_of_parts(&[], 9).len()), (1, 0));
    }

    #[test]
    fn long_evidence_is_cut_where_its_parts_leave_much_room() {
        let text = "since 00:03, rustc: 9 % in llvm::InlineFunctionImpl (libLLVM.so), more";
        assert_eq!(fit_evidence(text, 40), "since 00:03, rustc: 9 % in llvm::Inline…");
        assert_eq!(fit_evidence("since 00:03, against the 28 s before", 28), "since 00:03, …");
        assert_eq!(
            fit_evidence("since 00:03, 600 of 2.0 k a second, more", 38),
            "since 00:03, 600 of 2.0 k a second, …"
        );
        assert_eq!(fit_evidence("since 00:03", 38), "since 00:03");
    }
}
