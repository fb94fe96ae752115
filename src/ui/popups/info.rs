//! The Info screen: the machine, the header of a recording, its records by type.

use crate::lang::counted;
use crate::panel::text::{clean, width};
use crate::panel::unit::{bytes, percent, thousands};
use crate::symbols::spaces::{TableOutcome, WalkFigures};
use crate::ui::state::Model;
use crate::ui::theme::Theme;
use crate::ui::widgets::popup_frame::Styled;

/// Width of the left column.
const LABEL: usize = 24;

/// Returns the lines of the screen; long values wrap.
pub(crate) fn lines(model: &Model, theme: &Theme) -> Vec<Styled> {
    let room = usize::from(model.frame.size.0).saturating_sub(LABEL + 8).max(20);
    let mut out: Vec<Styled> = Vec::new();
    let mut row = |label: &str, value: &str| {
        let value = clean(value);
        let mut label = format!("{label:LABEL$} ");
        for part in chunks(&value, room) {
            out.push(vec![(std::mem::take(&mut label), theme.title), (part, theme.text)]);
            label = " ".repeat(LABEL + 1);
        }
    };
    row("recording", &model.context.info.target);
    for host in model.context.info.hosts.several() {
        let clock = match host.shift {
            Some(0) => String::new(),
            Some(ns) => format!(", clock offset {:+.6} s from the first one", -(ns as f64) / 1e9),
            None => ", clock unknown: aligned with the start of the first recording".to_owned(),
        };
        row("host", &format!("{} {}{clock}", host.name, host.kernel));
    }
    if model.context.info.facts.is_empty() {
        let host = model.context.info.hosts.first();
        row("host", &host.name);
        row("kernel", &host.kernel);
        for event in &model.context.info.events {
            row("event", &format!("{}: sample_type {:#x}", event.name, event.attr.sample_type));
        }
    }
    for (what, value) in &model.context.info.facts {
        row(what, value);
    }
    for (kind, n) in &model.context.answer.kinds {
        row(&format!("records {}", kind.to_lowercase()), &thousands(*n));
    }
    row("records sample", &thousands(model.context.answer.ledger.received));
    if let Some(walked) = &model.context.answer.walked {
        walks(walked, &mut row);
    }
    for (dso, from) in model.context.answer.sources.iter() {
        row(&format!("names {}", dso.rsplit('/').next().unwrap_or(dso)), &format!("{} ({dso})", from.text));
    }
    out
}

/// Describes stack walks by tables, and the files of the tables.
fn walks(walked: &WalkFigures, row: &mut impl FnMut(&str, &str)) {
    let ends = &walked.ends;
    let mut label = format!("stacks {}", thousands(ends.all()));
    for (why, share) in ends.percents() {
        let broken = if why.is_broken() { "broken: " } else { "" };
        row(&std::mem::take(&mut label), &format!("{} {broken}{}", percent(share), why.cause()));
    }
    let tables = &walked.tables;
    let (held, limit) = (bytes(tables.held as u64), bytes(tables.limit as u64));
    row(
        "tables",
        &format!("{held} of the kernel's memory, of {limit}; {}", counted(tables.processes as u64, "process")),
    );
    let interpreted = &walked.interpreted;
    if interpreted.frames > 0 {
        let frames = format!(
            "{} of {}",
            counted(interpreted.frames, "frame"),
            counted(interpreted.functions as u64, "function")
        );
        row("languages", &format!("{frames}; {} without a name", thousands(interpreted.unnamed)));
    }
    for one in &tables.interpreters {
        let walked = one.walked.map_or_else(|why| format!("native frames only: {why}"), |()| "functions".to_owned());
        row(&one.version.to_string(), &format!("{}: {walked}", counted(one.processes as u64, "process")));
    }
    for file in &tables.files {
        let name = file.name.rsplit('/').next().unwrap_or_default();
        let made = match &file.made {
            TableOutcome::Of(section, rows) => {
                format!("{} of {section}, {}", counted(*rows as u64, "row"), bytes(8 * *rows as u64))
            }
            TableOutcome::Without(why) => format!("none: {why}; by frame pointers"),
            TableOutcome::Coming => "being made; until then by frame pointers, so stacks may break off".to_owned(),
            TableOutcome::Full(rows) => format!("no room for its {}; by frame pointers", counted(*rows as u64, "row")),
        };
        let processes = if file.processes == 1 { "process" } else { "processes" };
        row(&format!("table {name}"), &format!("{made}; {} {processes} ({})", file.processes, file.name));
    }
}

/// Splits text into pieces of limited width, after a space if possible.
fn chunks(text: &str, cells: usize) -> Vec<String> {
    let mut out = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let mut word = word;
        while let Some(last) = out.last_mut() {
            let left = cells.saturating_sub(width(last));
            if width(word) <= left {
                last.push_str(word);
                break;
            }
            if !last.is_empty() {
                out.push(String::new());
                continue;
            }
            let end = word.char_indices().nth(cells).map_or(word.len(), |(i, _)| i);
            last.push_str(&word[..end]);
            word = &word[end..];
            out.push(String::new());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_go_on_in_the_next_line() {
        assert_eq!(chunks("one two three", 8), ["one two ", "three"]);
        assert_eq!(chunks("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(chunks("", 4), [""]);
    }
}
