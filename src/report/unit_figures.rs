//! The figures of an analysis unit as text and JSON.

use crate::ingest::unit_feed::UnitAnswer;
use crate::panel::Panel;
use crate::profile::or_more;

/// Formats the panels as text below a line with their time. `wall` is 0 if only the session's clock is known.
pub(crate) fn text(answer: &UnitAnswer, wall: u64, clock: u64, panels: &[&Panel]) -> String {
    let seconds = (answer.until.saturating_sub(answer.since)) as f64 / 1e9;
    let when = if wall > 0 { stamp(wall, ' ') } else { format!("{:.6}", clock as f64 / 1e9) };
    let more = or_more(answer.may_be_more);
    let mut out = format!("{when}  {}  {seconds:.2} s  lost {}{more}\n", answer.name, answer.lost);
    for panel in panels {
        out.push('\n');
        out.push_str(&panel.to_text());
    }
    if panels.is_empty() {
        out.push_str("no data\n");
        for panel in answer.panels.iter().filter(|panel| !panel.note.is_empty()) {
            out.push_str(&format!("! {}\n", crate::panel::text::clean(&panel.note)));
        }
    }
    for note in &answer.notes {
        out.push_str(&format!("! {}\n", crate::panel::text::clean(note)));
    }
    out.push('\n');
    out
}

/// Formats the panels as JSON; `clock` is the interval in the session's clock.
pub(crate) fn json(answer: &UnitAnswer, wall: u64, clock: (u64, u64), panels: &[&Panel]) -> serde_json::Value {
    serde_json::json!({
        "unit": answer.name,
        "time": wall as f64 / 1e9,
        "since_ns": clock.0,
        "until_ns": clock.1,
        "lost": answer.lost,
        "notes": answer.notes,
        "panels": panels.iter().map(|panel| panel.to_json()).collect::<Vec<_>>(),
    })
}

/// Formats local time as `2026-03-04 05:06:07`, with `between` as the separator.
pub(crate) fn stamp(wall: u64, between: char) -> String {
    let seconds = (wall / 1_000_000_000) as i64;
    let Some(time) = crate::kernel::local_time(seconds) else { return format!("{seconds}{between}") };
    time.strftime(&format!("%Y-%m-%d{between}%H:%M:%S")).to_string()
}
