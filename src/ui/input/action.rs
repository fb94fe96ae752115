//! Actions: the effects of commands on the model, listed with their commands.

use crate::ui::app::App;
use crate::ui::input::Command;
use crate::ui::state::Model;

#[derive(Clone, Copy)]
pub(crate) enum Action {
    Plain(fn(&mut App)),
    /// With its argument, if given; otherwise it uses the current row or state.
    Given(fn(&mut App, Option<String>)),
    /// With its argument. A missing one is requested in a prompt with this initial text.
    Asked(fn(&mut App, String), fn(&Model) -> String),
}

/// Commands with their actions: those under a heading of the help, or a screen's overrides of other commands.
pub(crate) type Actions = &'static [(&'static Command, Action)];

/// Lists the commands of a group, optionally of one screen (`on Flame`). A row is `NAME "name" ["keys"] "description"
/// (argument) => action;`. `says "words"` before the argument adds search words; `of table` before the arrow restricts
/// the command to the table's rows.
macro_rules! commands {
    ($list:ident $group:literal on $tab:ident $rows:tt) => { commands!(@rows $list $group Some($crate::ui::state::tab::Tab::$tab), $rows); };
    ($list:ident $group:literal $rows:tt) => { commands!(@rows $list $group None, $rows); };
    (@rows $list:ident $group:literal $tab:expr, {
        $($id:ident $name:literal [$($key:literal),*] $doc:literal $(says $words:literal)? $(($argument:expr))? $(of $table:ident)? => $act:expr;)*
    }) => {
        $(#[doc = $doc]
        pub static $id: $crate::ui::input::command::Command = $crate::ui::input::command::Command {
            name: $name,
            keys: &[$($key),*],
            group: $group,
            tab: $tab,
            doc: $doc,
            words: concat!($($words)?),
            argument: commands!(@argument $($argument)?),
            of_table: commands!(@table $($table)?),
        };)*
        pub(crate) static $list: $crate::ui::input::action::Actions = &[$((&$id, $act)),*];
    };
    (@argument) => { None };
    (@argument $argument:expr) => { Some($argument) };
    (@table) => { false };
    (@table table) => { true };
}

pub(crate) use commands;
