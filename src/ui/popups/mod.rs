//! Popups on top of a screen: help, palette, unit chooser, column menu, ledger of losses.

pub(crate) mod choose;
pub(crate) mod complete;
pub(crate) mod draw;
pub(crate) mod fuzzy;
pub(crate) mod help;
pub(crate) mod info;
pub(crate) mod keys;
pub(crate) mod prompt;
pub(crate) mod tour;

use tui_input::Input;

use crate::lang::find::{Findable, nearest_words};
use crate::panel::row_order::arrange;
use crate::query::column;
use crate::query::rows::top_table::TopField;
use crate::ui::input::{Command, Invocation};
use crate::ui::popups::fuzzy::Fuzzy;
use crate::ui::screens::annotate::state::Annotated;
use crate::units::kit::Spec;

#[derive(Clone, Debug)]
pub(crate) enum Popup {
    Help(Searched),
    Losses { scroll: usize },
    Info { scroll: usize },
    Palette(Palette),
    Units(Chooser),
    Columns { cursor: usize },
    Marks { cursor: usize },
    Annotate(Box<Annotated>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Searched {
    pub(crate) input: Input,
    pub(crate) scroll: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Chooser {
    pub(crate) input: Input,
    pub(crate) cursor: usize,
}

/// Whether a text contains all typed words, ignoring case.
pub(crate) fn has_words(text: &str, typed: &str) -> bool {
    let text = text.to_lowercase();
    typed.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// A search result of the palette: a command, or an item of the session with its action.
#[derive(Clone, Debug)]
pub(crate) enum PaletteEntry {
    Command(&'static Command),
    Unit(&'static Spec),
    Thing {
        /// function, task, event.
        kind: &'static str,
        name: String,
        about: String,
        command: Invocation,
    },
    Event(usize, String),
}

impl PaletteEntry {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Command(row) => row.name,
            Self::Unit(spec) => spec.name,
            Self::Thing { name, .. } | Self::Event(_, name) => name,
        }
    }

    pub(crate) fn about(&self) -> &str {
        match self {
            Self::Command(row) => row.doc,
            Self::Unit(spec) => spec.about,
            Self::Thing { about, .. } => about,
            Self::Event(..) => "show this event",
        }
    }

    fn findable(&self) -> Option<Findable<'static>> {
        match self {
            Self::Command(row) => Some(row.findable()),
            Self::Unit(spec) => Some(spec.findable()),
            Self::Thing { .. } | Self::Event(..) => None,
        }
    }
}

/// The palette: fuzzy search over commands, and over functions, tasks and events of the session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Palette {
    pub(crate) input: Input,
    pub(crate) cursor: usize,
    /// Commands, units, then items of the session.
    entries: Vec<PaletteEntry>,
    /// Finds the command that a word starts, under its name or an alias.
    begins: Option<FindCommand>,
}

/// Finds the command that a word starts, with an argument if the word is an alias that includes one.
pub(crate) type FindCommand = fn(&str) -> Option<(&'static Command, &'static str)>;

impl Palette {
    /// Creates a palette of entries; commands come before equal matches.
    pub(crate) fn over(entries: Vec<PaletteEntry>, begins: FindCommand) -> Self {
        Self { entries, begins: Some(begins), ..Self::default() }
    }

    /// Returns the entries that match, the best first, or the nearest ones.
    pub(crate) fn matches(&self) -> Vec<PaletteEntry> {
        let typed = self.input.value().trim();
        let exact = self.matching(typed);
        match (exact.is_empty(), self.nearest().first()) {
            (true, Some(word)) => self.matching(word),
            _ => exact,
        }
    }

    /// Returns the nearest words if nothing matches.
    pub(crate) fn nearest(&self) -> Vec<String> {
        let typed = self.input.value().trim();
        match self.matching(typed).is_empty() {
            true => nearest_words(typed, self.entries.iter().filter_map(PaletteEntry::findable)),
            false => Vec::new(),
        }
    }

    /// Returns the entries that match a text, the best first. Commands come before equal matches.
    fn matching(&self, typed: &str) -> Vec<PaletteEntry> {
        let is_command = |entry: &PaletteEntry| matches!(entry, PaletteEntry::Command(_));
        if typed.is_empty() {
            return self.entries.iter().filter(|entry| is_command(entry)).cloned().collect();
        }
        let word = typed.split_whitespace().next().unwrap_or_default();
        if let Some((row, _)) = self.begins.and_then(|begins| begins(word)).filter(|(row, first)| {
            row.argument.is_some() && typed != word || row.name != word && (row.argument.is_none() || !first.is_empty())
        }) {
            return vec![PaletteEntry::Command(row)];
        }
        let mut letters = Fuzzy::letters(typed);
        // Items of the session match whole words only: scattered letters would match too many functions.
        let mut words = Fuzzy::words(typed);
        let mut scored: Vec<(u32, usize, &PaletteEntry)> = self
            .entries
            .iter()
            .enumerate()
            .filter_map(|(i, entry)| {
                const FOUND: u32 = 10_000;
                let by_words = entry.findable().and_then(|thing| thing.rank(typed)).map(|rank| FOUND - rank.min(FOUND));
                let by_name = || match entry {
                    PaletteEntry::Command(_) => letters.score(entry.name()).map(|score| score + 100),
                    PaletteEntry::Thing { .. } => words.score(entry.name()).map(|score| score + 60),
                    PaletteEntry::Event(..) => letters.score(entry.name()).map(|score| score + 60),
                    PaletteEntry::Unit(_) => None,
                };
                by_words.or_else(by_name).map(|score| (score, i, entry))
            })
            .collect();
        arrange(&mut scored, |a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().map(|(_, _, entry)| entry.clone()).collect()
    }
}

/// Returns the available columns in their default order.
pub(crate) fn columns() -> impl Iterator<Item = TopField> {
    let figures =
        [TopField::Children, TopField::SelfTime, TopField::Samples, TopField::Period, TopField::Ipc, TopField::Latency];
    figures.into_iter().chain(column::ALL.iter().map(|entry| TopField::Key(entry.key)))
}

/// Returns the columns for the menu: the visible ones in their order, then the others.
pub(crate) fn column_menu(shown: &[TopField]) -> Vec<TopField> {
    let hidden = columns().filter(|f| !shown.contains(f));
    shown.iter().copied().chain(hidden).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::input::commands::{general, table};
    use crate::units::UNITS;

    #[test]
    fn the_palette_finds_by_name_and_by_meaning() {
        let things = [
            PaletteEntry::Thing {
                kind: "function",
                name: "estimation_timer".into(),
                about: String::new(),
                command: (&general::SEARCH).into(),
            },
            PaletteEntry::Event(3, "sched:sched_switch".into()),
        ];
        let units = UNITS.iter().map(|spec| PaletteEntry::Unit(spec));
        let all: Vec<_> = table::rows().map(PaletteEntry::Command).chain(units).chain(things).collect();
        let find = |text: &str| {
            let palette = Palette { input: Input::new(text.into()), ..Palette::over(all.clone(), table::beginning) };
            palette.matches().first().map(|entry| entry.name().to_owned())
        };
        assert_eq!(find("").as_deref(), Some("up"));
        assert_eq!(find("snap").as_deref(), Some("save"));
        assert_eq!(find("frz").as_deref(), Some("freeze"));
        assert_eq!(find("undo zoom").as_deref(), Some("undo"), "words of its name and of what it does");
        assert_eq!(find("freq 99").as_deref(), Some("freq"));
        assert_eq!(find("top").as_deref(), Some("top"));
        assert_eq!(find("estim").as_deref(), Some("estimation_timer"));
        assert_eq!(find("schsw").as_deref(), Some("sched:sched_switch"));
        assert_ne!(find("ettimr").as_deref(), Some("estimation_timer"), "letters of a function");
        assert_eq!(find("zzzz"), None);
        for (typed, first) in [
            ("lock", "locks"),
            ("futex", "offcpu"),
            ("memory", "kmemleak"),
            ("disk", "blktrace"),
            ("io", "blktrace"),
            ("network", "tcp"),
            ("slow", "waits"),
            ("flamegraph", "flame"),
            ("diff old.data", "baseline"),
            ("w out.txt", "write"),
            ("pid 1", "only"),
            ("help", "help"),
            ("netwrok", "tcp"),
        ] {
            assert_eq!(find(typed).as_deref(), Some(first), "{typed}");
        }
    }
}
