//! Acts: what commands do to the model, each beside its command.

use crate::ui::app::App;
use crate::ui::command::Command;

/// The action of a command.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    Plain(fn(&mut App)),
    /// With its argument; without one it knows itself what is meant.
    Given(fn(&mut App, Option<String>)),
    /// With its argument, which is asked for where there is none: what then stands in the prompt.
    Asked(fn(&mut App, String), fn(&App) -> String),
}

/// Commands with what each does: those under one heading of the help, or what a screen makes of others'.
pub(crate) type Acts = &'static [(&'static Command, Act)];

/// Lists the commands of a group, of one screen where it is named (`on Flame`): `NAME "name" ["keys"] "what it does"
/// (argument) => act;`, with `says "words"` before the argument, by which it is found, and with `of table` before the
/// arrow where it is about the table's rows.
macro_rules! commands {
    ($list:ident $group:literal on $tab:ident $rows:tt) => { commands!(@rows $list $group Some($crate::ui::tab::Tab::$tab), $rows); };
    ($list:ident $group:literal $rows:tt) => { commands!(@rows $list $group None, $rows); };
    (@rows $list:ident $group:literal $tab:expr, {
        $($id:ident $name:literal [$($key:literal),*] $doc:literal $(says $words:literal)? $(($argument:expr))? $(of $table:ident)? => $act:expr;)*
    }) => {
        $(#[doc = $doc]
        pub static $id: $crate::ui::command::Command = $crate::ui::command::Command {
            name: $name,
            keys: &[$($key),*],
            group: $group,
            tab: $tab,
            doc: $doc,
            words: concat!($($words)?),
            argument: commands!(@argument $($argument)?),
            of_table: commands!(@table $($table)?),
        };)*
        pub(crate) static $list: $crate::ui::act::Acts = &[$((&$id, $act)),*];
    };
    (@argument) => { None };
    (@argument $argument:expr) => { Some($argument) };
    (@table) => { false };
    (@table table) => { true };
}

pub(crate) use commands;
