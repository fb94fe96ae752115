//! What lies on top of a screen: help, palette, column menu, the ledger of losses.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use tui_input::Input;

use crate::panel::top::Field;
use crate::query::Key;

use crate::ui::command::{Command, Row, TABLE};
use crate::ui::view::annotate::state::Annotated;

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

/// Something that the palette finds: a command, or a thing of the session and what is done with it.
#[derive(Clone, Debug)]
pub enum Entry {
    Command(&'static Row),
    Thing {
        /// function, task, event.
        kind: &'static str,
        name: String,
        about: String,
        command: Command,
    },
    /// An event, by its number.
    Event(usize, String),
}

impl Entry {
    pub fn name(&self) -> &str {
        match self {
            Self::Command(row) => row.name,
            Self::Thing { name, .. } | Self::Event(_, name) => name,
        }
    }

    pub fn about(&self) -> &str {
        match self {
            Self::Command(row) => row.doc,
            Self::Thing { about, .. } => about,
            Self::Event(..) => "show this event",
        }
    }
}

/// The palette: fuzzy search over commands, and over functions, tasks and events of the session.
#[derive(Clone, Debug, Default)]
pub struct Palette {
    pub input: Input,
    pub cursor: usize,
    things: Vec<Entry>,
}

impl Palette {
    /// A palette that finds these beside the commands.
    pub fn over(things: Vec<Entry>) -> Self {
        Self { things, ..Self::default() }
    }

    /// What matches what is typed, best first; commands come before things that match as well.
    pub fn matches(&self) -> Vec<Entry> {
        let typed = self.input.value().trim();
        let commands = TABLE.iter().map(Entry::Command);
        if typed.is_empty() {
            return commands.collect();
        }
        let word = typed.split_whitespace().next().unwrap_or_default();
        if let Some(exact) = crate::ui::command::find(word).filter(|row| !row.argument.is_empty() && typed != word) {
            return vec![Entry::Command(exact)];
        }
        let pattern = Pattern::parse(typed, CaseMatching::Ignore, Normalization::Smart);
        let mut matcher = Matcher::new(Config::DEFAULT);
        let mut buffer = Vec::new();
        let mut scored: Vec<(u32, usize, Entry)> = commands
            .chain(self.things.iter().cloned())
            .enumerate()
            .filter_map(|(i, entry)| {
                let mut score = |text: &str| pattern.score(Utf32Str::new(text, &mut buffer), &mut matcher);
                let is_command = matches!(entry, Entry::Command(_));
                let exact = if entry.name() == word { 1000 } else { 0 };
                let by_name = score(entry.name()).map(|s| s + exact + if is_command { 100 } else { 60 });
                let found = by_name.or_else(|| is_command.then(|| score(entry.about())).flatten());
                found.map(|s| (s, i, entry))
            })
            .collect();
        scored.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.into_iter().map(|(_, _, entry)| entry).collect()
    }
}

/// The columns that can be chosen, in their natural order.
pub const COLUMNS: &[Field] = &[
    Field::Children,
    Field::SelfTime,
    Field::Samples,
    Field::Period,
    Field::Key(Key::Host),
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
        let things = vec![
            Entry::Thing {
                kind: "function",
                name: "estimation_timer".into(),
                about: String::new(),
                command: Command::Search(None),
            },
            Entry::Event(3, "sched:sched_switch".into()),
        ];
        let find = |text: &str| {
            let palette = Palette { input: Input::new(text.into()), ..Palette::over(things.clone()) };
            palette.matches().first().map(|entry| entry.name().to_owned())
        };
        assert_eq!(find("").as_deref(), Some("up"));
        assert_eq!(find("snap").as_deref(), Some("save"));
        assert_eq!(find("frz").as_deref(), Some("freeze"));
        assert_eq!(find("freq 99").as_deref(), Some("freq"));
        assert_eq!(find("top").as_deref(), Some("top"));
        assert_eq!(find("estim").as_deref(), Some("estimation_timer"));
        assert_eq!(find("schsw").as_deref(), Some("sched:sched_switch"));
        assert_eq!(find("zzzz"), None);
    }
}
