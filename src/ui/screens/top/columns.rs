//! The layout of the table: the columns that fit, and their places.

use crate::panel::text::{clean, width as cells};
use crate::query::rows::top_table::TopField;
use crate::query::{ColumnKey, TopLine};
use crate::ui::widgets::rows::{BAR, BARRED};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopColumnSpan {
    pub(crate) field: TopField,
    pub(crate) x: u16,
    pub(crate) width: u16,
    /// Width of the bar at its end.
    pub(crate) bar: u16,
}

/// Width of the right edge: a class letter between spaces, and the scroll bar.
pub(crate) const EDGE: u16 = 3;
/// Minimum table width for the class letter.
const LETTER: u16 = 40;
/// Minimum width of a function's name, for which other columns are dropped.
const NAME: u16 = 27;

/// Returns the width of the right edge for a table width.
pub(crate) fn edge(width: u16) -> u16 {
    if width >= LETTER { EDGE } else { 1 }
}

/// Returns where a line's name starts in the symbol column: after the fold mark, and in call chains after the forks.
pub(crate) fn name_at(line: &TopLine) -> u16 {
    match line.depth {
        0 => 2,
        _ => 4 + line.forks.chars().count().min(usize::from(MOST_FORKS)) as u16,
    }
}

/// Maximum number of forks before a name; the last ones are drawn.
pub(crate) const MOST_FORKS: u16 = 16;

/// The columns that are dropped, in this order, while a name has less than [`NAME`] cells.
const FIRST: &[TopField] = &[TopField::Period, TopField::Samples, TopField::Children, TopField::Old];
/// The columns that are dropped next, while a name has less than 16 cells.
const THEN: &[TopField] = &[
    TopField::Key(ColumnKey::Tid),
    TopField::Key(ColumnKey::Pid),
    TopField::Key(ColumnKey::Comm),
    TopField::Key(ColumnKey::Dso),
    TopField::Ipc,
    TopField::Latency,
    TopField::SelfTime,
    TopField::Key(ColumnKey::Cpu),
];

/// Returns the column with the subject of a row, which also contains its call chains: the function if rows are grouped
/// by it, or else the last text column.
pub(crate) fn subject(mut shown: impl DoubleEndedIterator<Item = TopField> + Clone) -> Option<TopField> {
    let is_text = |field: &TopField| match field {
        TopField::Key(ColumnKey::Dso) => false,
        TopField::Key(key) => !key.entry().is_number,
        _ => false,
    };
    let names = TopField::Key(ColumnKey::Sym);
    if shown.clone().any(|field| field == names) { Some(names) } else { shown.rfind(is_text) }
}

/// Returns the columns that fit; the least important ones are dropped first.
pub(crate) fn spans(width: u16, chosen: &[TopField]) -> Vec<TopColumnSpan> {
    let mut shown: Vec<TopField> = chosen.to_vec();
    let has_names = chosen.contains(&TopField::Key(ColumnKey::Sym));
    let mut bar: u16 = if width >= BARRED { BAR } else { 0 };
    let fixed = |field: TopField| match field {
        TopField::Key(ColumnKey::Comm) => {
            if width >= 100 {
                15
            } else {
                12
            }
        }
        TopField::Key(ColumnKey::Dso) if width < 116 => 17,
        TopField::Key(ColumnKey::Dso) if width < 160 => 26,
        TopField::Key(ColumnKey::Dso) => 36,
        TopField::Key(ColumnKey::Sym) => 0,
        other => other.column().width,
    };
    let need =
        |shown: &[TopField], bar: u16| -> u16 { shown.iter().map(|f| fixed(*f) + 1).sum::<u16>() + bar + edge(width) };
    let least = if has_names { NAME } else { 0 };
    if need(&shown, bar) + least > width {
        bar = 0;
    }
    for (list, least) in [(FIRST, least), (THEN, least.min(16))] {
        for drop in list {
            if need(&shown, 0) + least > width && shown.len() > 1 && (has_names || shown.len() > 2) {
                shown.retain(|f| f != drop);
            }
        }
    }
    let spare = width.saturating_sub(need(&shown, bar));
    let subject = subject(shown.iter().copied());
    let barred = shown.iter().rposition(|f| matches!(f, TopField::Children | TopField::SelfTime));
    let mut x = 1;
    let mut spans = Vec::new();
    for (i, field) in shown.iter().enumerate() {
        let bar = if Some(i) == barred { bar } else { 0 };
        let width = fixed(*field) + bar + if Some(*field) == subject { spare } else { 0 };
        spans.push(TopColumnSpan { field: *field, x, width, bar });
        x += width + 1;
    }
    spans
}

/// Returns the columns for some lines. If the DSO column is wider than its names while functions are cut, functions
/// get the difference.
pub(crate) fn spans_of(width: u16, chosen: &[TopField], lines: &[TopLine]) -> Vec<TopColumnSpan> {
    let mut spans = spans(width, chosen);
    let at = |key| spans.iter().position(|span| span.field == TopField::Key(key));
    let (Some(sym), Some(dso)) = (at(ColumnKey::Sym), at(ColumnKey::Dso)) else { return spans };
    let room = usize::from(spans[sym].width);
    if !lines.iter().any(|line| usize::from(name_at(line)) + cells(&clean(&line.sym)) > room) {
        return spans;
    }
    let longest = lines.iter().map(|line| cells(&clean(&line.dso))).max().unwrap_or(0).max(LEAST_DSO);
    let spare = spans[dso].width.saturating_sub(longest as u16);
    spans[sym].width += spare;
    spans[dso].width -= spare;
    // The columns after the function up to the DSO, or the reverse.
    for (i, span) in spans.iter_mut().enumerate() {
        if sym < i && i <= dso {
            span.x += spare;
        } else if dso < i && i <= sym {
            span.x -= spare;
        }
    }
    spans
}

/// The width of the DSO column's title, with the mark of the order.
const LEAST_DSO: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(width: u16, chosen: &[TopField]) -> Vec<String> {
        spans(width, chosen).iter().map(|s| s.field.column().title.into_owned()).collect()
    }

    #[test]
    fn at_eighty_columns_names_have_room() {
        assert_eq!(names(80, TopField::FIRST), ["Self", "Children", "Symbol", "DSO"]);
        let name = spans(80, TopField::FIRST).into_iter().find(|s| s.field == TopField::Key(ColumnKey::Sym));
        assert!(name.is_some_and(|s| s.width >= 38), "{name:?}");
        let mut split = TopField::FIRST.to_vec();
        split.splice(2..2, [TopField::Key(ColumnKey::Comm), TopField::Key(ColumnKey::Pid)]);
        assert_eq!(names(80, &split), ["Self", "Comm", "PID", "Symbol", "DSO"]);
        // The previous value is next to the current one.
        let compared = [TopField::Delta, TopField::Old, TopField::SelfTime, TopField::Children, split[4], split[5]];
        assert_eq!(names(80, &compared), ["Δ", "Old", "Self", "Symbol", "DSO"]);
        assert_eq!(names(56, &split), ["Self", "Symbol", "DSO"]);
        assert_eq!(names(30, TopField::FIRST), ["Self", "Symbol"]);
        assert_eq!(names(120, &split).len(), 6);
        assert_eq!(names(20, &[TopField::Samples]), ["Samples"]);
    }

    #[test]
    fn a_dso_column_is_as_wide_as_its_names_while_functions_are_cut() {
        let line = |sym: &str| TopLine { sym: sym.into(), dso: "libc.so.6".into(), ..TopLine::staged(1) };
        let widths = |sym: &str| {
            let spans = spans_of(200, TopField::FIRST, &[line("main"), line(sym)]);
            let of = |key| spans.iter().find(|span| span.field == TopField::Key(key)).copied();
            let (sym, dso) = (of(ColumnKey::Sym).expect("functions"), of(ColumnKey::Dso).expect("files"));
            assert_eq!((sym.x + sym.width + 1, dso.x + dso.width), (dso.x, 200 - EDGE));
            dso.width
        };
        assert_eq!((widths("short"), widths(&"long".repeat(60))), (36, 9));
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn columns_stay_inside_and_apart(width in 20u16..400, mask in 1u32..1 << 20) {
            let chosen: Vec<TopField> = crate::ui::popups::columns().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, f)| f).collect();
            let spans = spans(width, &chosen);
            prop_assert!(!spans.is_empty());
            for pair in spans.windows(2) {
                prop_assert!(pair[0].x + pair[0].width < pair[1].x);
            }
        }
    }
}
