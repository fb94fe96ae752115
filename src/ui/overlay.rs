//! What lies on top of a screen: help, palette, column menu, the ledger of losses.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use tui_input::Input;

use crate::panel::top::Field;
use crate::query::Key;

use super::annotate::Annotated;
use super::command::{Row, TABLE};

/// An overlay and its state.
#[derive(Clone, Debug)]
pub enum Overlay {
    Help { scroll: usize },
    Losses { scroll: usize },
    Info { scroll: usize },
    Palette(Palette),
    Columns { cursor: usize },
    Marks { cursor: usize },
    Annotate(Box<Annotated>),
}

/// The command palette.
#[derive(Clone, Debug, Default)]
pub struct Palette {
    pub input: Input,
    pub cursor: usize,
}

impl Palette {
    /// The commands that match what is typed, best first.
    pub fn matches(&self) -> Vec<&'static Row> {
        let typed = self.input.value().trim();
        if typed.is_empty() {
            return TABLE.iter().collect();
        }
        let word = typed.split_whitespace().next().unwrap_or_default();
        if let Some(exact) = super::command::find(word) {
            return vec![exact];
        }
        let pattern = Pattern::parse(typed, CaseMatching::Ignore, Normalization::Smart);
        let mut matcher = Matcher::new(Config::DEFAULT);
        let mut buffer = Vec::new();
        let mut scored: Vec<(u32, usize, &'static Row)> = TABLE
            .iter()
            .enumerate()
            .filter_map(|(i, row)| {
                let mut score = |text: &str| pattern.score(Utf32Str::new(text, &mut buffer), &mut matcher);
                let by_name = score(row.name).map(|s| s + 100);
                by_name.or_else(|| score(row.doc)).map(|s| (s, i, row))
            })
            .collect();
        scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().map(|(_, _, row)| row).collect()
    }
}

/// The columns that can be chosen, in their natural order.
pub const COLUMNS: &[Field] = &[
    Field::Children,
    Field::SelfTime,
    Field::Samples,
    Field::Period,
    Field::Key(Key::Cpu),
    Field::Key(Key::Comm),
    Field::Key(Key::Pid),
    Field::Key(Key::Tid),
    Field::Key(Key::Cgroup),
    Field::Key(Key::Trace),
    Field::Key(Key::Dso),
    Field::Key(Key::Sym),
];

/// The menu's order: the shown columns as they stand, then the others.
pub fn column_menu(shown: &[Field]) -> Vec<Field> {
    let hidden = COLUMNS.iter().filter(|f| !shown.contains(f));
    shown.iter().chain(hidden).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_palette_finds_by_name_and_by_meaning() {
        let find = |text: &str| Palette { input: Input::new(text.into()), cursor: 0 }.matches().first().map(|r| r.name);
        assert_eq!(find(""), Some("up"));
        assert_eq!(find("snap"), Some("save"));
        assert_eq!(find("frz"), Some("freeze"));
        assert_eq!(find("freq 99"), Some("freq"));
        assert_eq!(find("zzzz"), None);
    }
}
