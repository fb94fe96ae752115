//! What a command is: one row with its name, keys, argument, meaning and what it does. Keymap, palette, help, footers,
//! the prompt, the table of keys and `--exec` are all made from rows.

use crate::ui::app::App;

/// A command.
pub struct Command {
    /// As typed after `:`.
    pub name: &'static str,
    /// Keys; those of a chord are separated by a space.
    pub keys: &'static [&'static str],
    pub group: &'static str,
    pub doc: &'static str,
    pub argument: Option<Argument>,
    /// Whether it is about the table's rows, which are not seen on other screens.
    pub of_table: bool,
    pub act: Act,
}

/// What a command does.
#[derive(Clone, Copy)]
pub enum Act {
    Plain(fn(&mut App)),
    /// With its argument; without one it knows itself what is meant.
    Given(fn(&mut App, Option<String>)),
    /// With its argument, which is asked for where there is none: what then stands in the prompt.
    Asked(fn(&mut App, String), fn(&App) -> String),
}

/// An argument.
#[derive(Debug)]
pub struct Argument {
    /// What it is called.
    pub noun: &'static str,
    /// What stands before it in the prompt.
    pub label: &'static str,
    pub kind: ArgumentKind,
    /// Whether nothing is an argument, too: it takes away what is there.
    pub optional: bool,
}

/// What an argument may be: how it is checked while it is typed, and completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    Text,
    /// A filter of the view.
    Filter,
    /// A filter that cuts at the source.
    Capture,
    Pattern,
    /// Searches the catalogue while it is typed.
    Events,
    Modifiers,
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
    pub const fn named(noun: &'static str) -> Self {
        Self::of(noun, noun, ArgumentKind::Text)
    }

    pub const fn of(noun: &'static str, label: &'static str, kind: ArgumentKind) -> Self {
        Self { noun, label, kind, optional: false }
    }

    /// It may be nothing.
    pub const fn or_nothing(self) -> Self {
        Self { optional: true, ..self }
    }
}

impl Command {
    /// The command, with what was typed as its argument.
    pub fn command(&'static self, argument: Option<String>) -> Invocation {
        Invocation { row: self, argument }
    }

    pub fn with(&'static self, argument: impl Into<String>) -> Invocation {
        self.command(Some(argument.into()))
    }

    /// What its argument is called; empty for commands without one.
    pub fn noun(&self) -> &'static str {
        self.argument.as_ref().map_or("", |argument| argument.noun)
    }

    pub fn is(&self, other: &Command) -> bool {
        self.name == other.name
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A command that is to be run, and its argument where there is one.
#[derive(Clone, Debug)]
pub struct Invocation {
    pub row: &'static Command,
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

/// Commands under one heading of the help.
pub struct Group {
    pub title: &'static str,
    pub rows: &'static [&'static Command],
}

/// Lists the commands of a group: `NAME "name" ["keys"] "what it does" (argument) => act;`, with `of table` before the
/// arrow where it is about the table's rows.
macro_rules! commands {
    ($list:ident $group:literal {
        $($id:ident $name:literal [$($key:literal),*] $doc:literal $(($argument:expr))? $(of $table:ident)? => $act:expr;)*
    }) => {
        $(pub static $id: $crate::ui::command::Command = $crate::ui::command::Command {
            name: $name,
            keys: &[$($key),*],
            group: $group,
            doc: $doc,
            argument: commands!(@argument $($argument)?),
            of_table: commands!(@table $($table)?),
            act: $act,
        };)*
        pub static $list: $crate::ui::command::Group =
            $crate::ui::command::Group { title: $group, rows: &[$(&$id),*] };
    };
    (@argument) => { None };
    (@argument $argument:expr) => { Some($argument) };
    (@table) => { false };
    (@table table) => { true };
}

pub(in crate::ui) use commands;
