//! Commands: name, keys, argument, meaning. Keymap, palette, help, footers, the prompt, the table of keys and `--exec`
//! are all made from them; what each does to the model stands beside it in its row ([`crate::ui::act`]).

use crossterm::event::KeyCode;

use crate::lang::find::Findable;
use crate::ui::tab::Tab;

/// A command.
pub struct Command {
    /// As typed after `:`.
    pub name: &'static str,
    /// Keys; those of a chord are separated by a space.
    pub keys: &'static [&'static str],
    /// The heading of the help that it stands under.
    pub group: &'static str,
    /// The screen that its keys work on; `None` where they work on all.
    pub tab: Option<Tab>,
    /// What it does, in a few words.
    pub doc: &'static str,
    /// The words of the questions that it answers, by which it is found.
    pub words: &'static str,
    /// Its argument, where it takes one.
    pub argument: Option<Argument>,
    /// Whether it is about the table's rows, which are not seen on other screens.
    pub of_table: bool,
}

/// An argument.
#[derive(Debug)]
pub struct Argument {
    /// What it is called.
    pub noun: &'static str,
    /// What stands before it in the prompt.
    pub label: &'static str,
    /// What it may be.
    pub kind: ArgumentKind,
    /// Whether nothing is an argument, too: it takes away what is there.
    pub optional: bool,
}

/// The kind of an argument: how it is checked while it is typed, and completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// Any text.
    Text,
    /// A filter of the view.
    Filter,
    /// A filter that cuts at the source.
    Capture,
    /// A regular expression for names.
    Pattern,
    /// Searches the catalogue while it is typed.
    Events,
    /// Modifiers of an event.
    Modifiers,
    /// An event's rate.
    Rate,
    /// The name of a filter that is kept.
    Saved,
    /// What may be sampled.
    Target,
    /// A theme, which is shown while it is chosen.
    Theme,
}

impl Argument {
    /// One that is never asked for.
    pub(crate) const fn named(noun: &'static str) -> Self {
        Self::of(noun, noun, ArgumentKind::Text)
    }

    pub(crate) const fn of(noun: &'static str, label: &'static str, kind: ArgumentKind) -> Self {
        Self { noun, label, kind, optional: false }
    }

    /// It may be nothing.
    pub(crate) const fn or_nothing(self) -> Self {
        Self { optional: true, ..self }
    }
}

impl Command {
    /// The command, with what was typed as its argument.
    pub(crate) fn command(&'static self, argument: Option<String>) -> Invocation {
        Invocation { row: self, argument }
    }

    /// The command with this argument.
    pub fn with(&'static self, argument: impl Into<String>) -> Invocation {
        self.command(Some(argument.into()))
    }

    /// Its argument as it stands behind its name; empty for commands without one.
    pub(crate) fn noun(&self) -> String {
        self.argument.as_ref().map_or_else(String::new, |argument| format!(" {}", argument.noun.to_uppercase()))
    }

    /// The words by which it is found.
    pub fn findable(&self) -> Findable<'static> {
        Findable { name: self.name, words: self.words, about: self.doc }
    }

    pub(crate) fn is(&self, other: &Command) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The action of a click on a hint.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HintAction {
    Command(&'static Command),
    /// Begins a chord, by its first key.
    Chord(&'static str),
    /// A key of a popup.
    Key(KeyCode),
}

/// A command that is to be run, and its argument where there is one.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The command.
    pub row: &'static Command,
    /// What was typed as its argument.
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
