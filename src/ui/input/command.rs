//! Commands: name, keys, argument and description. Keymap, palette, help, footers, prompt, the table of keys and
//! `--exec` are generated from them. Each row also contains the command's action ([`crate::ui::input::action`]).

use crossterm::event::KeyCode;

use crate::lang::find::Findable;
use crate::ui::state::Tab;

/// A command.
#[derive(Debug)]
pub struct Command {
    /// The name typed after `:`.
    pub name: &'static str,
    /// Key bindings; the keys of a chord are separated by a space.
    pub keys: &'static [&'static str],
    /// The group in the help.
    pub group: &'static str,
    /// The screen on which its keys work; `None` for all screens.
    pub tab: Option<Tab>,
    /// A short description.
    pub doc: &'static str,
    /// Search words.
    pub words: &'static str,
    /// The argument, if it takes one.
    pub argument: Option<Argument>,
    /// Whether it needs the table's rows, which other screens do not show.
    pub of_table: bool,
}

/// An argument.
#[derive(Debug)]
pub struct Argument {
    /// The placeholder.
    pub noun: &'static str,
    /// The label of the prompt.
    pub label: &'static str,
    /// The kind of value.
    pub kind: ArgumentKind,
    /// Whether an empty argument is valid: it resets the setting.
    pub optional: bool,
}

/// The kind of an argument, which determines validation and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Any text.
    Text,
    /// A view filter.
    Filter,
    /// A capture filter.
    Capture,
    /// A regular expression for symbols.
    Pattern,
    /// A search in the event catalogue while typing.
    Events,
    /// Event modifiers.
    Modifiers,
    /// An event's rate.
    Rate,
    /// The name of a saved filter.
    Saved,
    /// A sampling target.
    Target,
    /// A theme, which is previewed while it is chosen.
    Theme,
}

impl Argument {
    /// An argument that is never prompted for.
    pub(crate) const fn named(noun: &'static str) -> Self {
        Self::of(noun, noun, ArgumentKind::Text)
    }

    pub(crate) const fn of(noun: &'static str, label: &'static str, kind: ArgumentKind) -> Self {
        Self { noun, label, kind, optional: false }
    }

    pub(crate) const fn or_nothing(self) -> Self {
        Self { optional: true, ..self }
    }
}

impl Command {
    pub(crate) fn command(&'static self, argument: Option<String>) -> Invocation {
        Invocation { row: self, argument }
    }

    /// Returns an invocation with an argument.
    pub fn with(&'static self, argument: impl Into<String>) -> Invocation {
        self.command(Some(argument.into()))
    }

    /// Returns the placeholder after the name; empty for commands without an argument.
    pub(crate) fn noun(&self) -> String {
        self.argument.as_ref().map_or_else(String::new, |argument| format!(" {}", argument.noun.to_uppercase()))
    }

    /// Returns the command for a search.
    pub fn findable(&self) -> Findable<'static> {
        Findable { name: self.name, words: self.words, about: self.doc }
    }

    pub(crate) fn is(&self, other: &Command) -> bool {
        self.name == other.name
    }
}

/// Hints of the footer: what a click does, and its description.
pub(crate) type Hints = &'static [(HintAction, &'static str)];

#[derive(Clone, Copy, Debug)]
pub(crate) enum HintAction {
    Command(&'static Command),
    /// Types the first key of a chord.
    Chord(&'static str),
    Key(KeyCode),
}

/// A command to run, with its argument.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The command.
    pub row: &'static Command,
    /// The argument, if given.
    pub argument: Option<String>,
}

impl PartialEq for Invocation {
    fn eq(&self, other: &Self) -> bool {
        self.row.is(other.row) && self.argument == other.argument
    }
}

impl Eq for Invocation {}

impl From<&'static Command> for Invocation {
    fn from(row: &'static Command) -> Self {
        row.command(None)
    }
}
