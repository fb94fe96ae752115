//! Popups on top of a screen: help, palette, the chooser of units, column menu, the ledger of losses.

use tui_input::Input;

use crate::panel::top::Field;
use crate::query::column;
use crate::query::row_order::arrange;
use crate::ui::command::{Command, Invocation};
use crate::ui::fuzzy::Fuzzy;
use crate::ui::view::annotate::state::Annotated;

/// A popup and its state.
#[derive(Clone, Debug)]
pub(crate) enum Popup {
    Help(Searched),
    Losses {
        scroll: usize,
    },
    Info {
        scroll: usize,
    },
    Palette(Palette),
    /// Which unit to start.
    Units(Chooser),
    Columns {
        cursor: usize,
    },
    Marks {
        cursor: usize,
    },
    Annotate(Box<Annotated>),
}

/// A text that is searched by typing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Searched {
    pub(crate) input: Input,
    pub(crate) scroll: usize,
}

/// A list that is filtered by typing, and the cursor in what is left of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chooser {
    pub(crate) input: Input,
    pub(crate) cursor: usize,
}

/// True if a text has all words that are typed, whatever their case.
pub(crate) fn has_words(text: &str, typed: &str) -> bool {
    let text = text.to_lowercase();
    typed.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// Something that the palette finds: a command, or a thing of the session and what is done with it.
#[derive(Clone, Debug)]
pub(crate) enum PaletteEntry {
    Command(&'static Command),
    Thing {
        /// function, task, event.
        kind: &'static str,
        name: String,
        about: String,
        command: Invocation,
    },
    /// An event, by its number.
    Event(usize, String),
}

impl PaletteEntry {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Command(row) => row.name,
            Self::Thing { name, .. } | Self::Event(_, name) => name,
        }
    }

    pub(crate) fn about(&self) -> &str {
        match self {
            Self::Command(row) => row.doc,
            Self::Thing { about, .. } => about,
            Self::Event(..) => "show this event",
        }
    }
}

/// The palette: fuzzy search over commands, and over functions, tasks and events of the session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Palette {
    pub(crate) input: Input,
    pub(crate) cursor: usize,
    /// Commands, then things of the session.
    entries: Vec<PaletteEntry>,
}

impl Palette {
    /// A palette that finds these, commands before things that match as well.
    pub(crate) fn over(entries: Vec<PaletteEntry>) -> Self {
        Self { entries, ..Self::default() }
    }

    /// The entries that match what is typed, best first; commands come before things that match as well.
    pub(crate) fn matches(&self) -> Vec<PaletteEntry> {
        let typed = self.input.value().trim();
        let is_command = |entry: &PaletteEntry| matches!(entry, PaletteEntry::Command(_));
        if typed.is_empty() {
            return self.entries.iter().filter(|entry| is_command(entry)).cloned().collect();
        }
        let word = typed.split_whitespace().next().unwrap_or_default();
        let takes_more = |entry: &&PaletteEntry| matches!(entry, PaletteEntry::Command(row) if row.name == word && row.argument.is_some() && typed != word);
        if let Some(exact) = self.entries.iter().find(takes_more) {
            return vec![exact.clone()];
        }
        let mut letters = Fuzzy::letters(typed);
        // Letters strewn over a sentence, or over one of thousands of functions, mean nothing: what a command does and
        // what was sampled is found by whole words.
        let mut words = Fuzzy::words(typed);
        let mut scored: Vec<(u32, usize, &PaletteEntry)> = self
            .entries
            .iter()
            .enumerate()
            .filter_map(|(i, entry)| {
                let is_command = is_command(entry);
                let exact = if entry.name() == word { 1000 } else { 0 };
                let name = if matches!(entry, PaletteEntry::Thing { .. }) { &mut words } else { &mut letters };
                let by_name = name.score(entry.name()).map(|s| s + exact + if is_command { 100 } else { 60 });
                let whole = format!("{} {}", entry.name(), entry.about());
                let found = by_name.or_else(|| is_command.then(|| words.score(&whole)).flatten());
                found.map(|s| (s, i, entry))
            })
            .collect();
        arrange(&mut scored, |a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().map(|(_, _, entry)| entry.clone()).collect()
    }
}

/// The columns that can be chosen, in their natural order.
pub(crate) fn columns() -> impl Iterator<Item = Field> {
    let figures = [Field::Children, Field::SelfTime, Field::Samples, Field::Period, Field::Ipc];
    figures.into_iter().chain(column::ALL.iter().map(|entry| Field::Key(entry.key)))
}

/// The menu's order: the shown columns as they stand, then the others.
pub(crate) fn column_menu(shown: &[Field]) -> Vec<Field> {
    let hidden = columns().filter(|f| !shown.contains(f));
    shown.iter().copied().chain(hidden).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::commands::{general, table};

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
        let all: Vec<_> = table::rows().map(PaletteEntry::Command).chain(things).collect();
        let find = |text: &str| {
            let palette = Palette { input: Input::new(text.into()), ..Palette::over(all.clone()) };
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
        assert_eq!(find("ettimr"), None, "letters of a function");
        assert_eq!(find("zzzz"), None);
    }
}
