//! The table of all commands, and their meaning on each screen.

use crate::lang::nearest_hint;
use crate::ui::input::commands::{general, program};
use crate::ui::input::{Action, Actions, Command, Invocation};
use crate::ui::screens::{cpus, events, flame, overview, time, top, units};
use crate::ui::state::Tab;

/// All groups, in the order of the help.
static GROUPS: &[&Actions] = &[
    &general::MOVE,
    &general::STEPS,
    &top::commands::CHAINS,
    &general::FIND,
    &top::commands::TABLE,
    &general::SESSION,
    &general::COMPARE,
    &overview::commands::GROUP,
    &flame::commands::GROUP,
    &time::commands::GROUP,
    &cpus::commands::GROUP,
    &events::commands::GROUP,
    &units::commands::GROUP,
    &program::PROGRAM,
];

fn all() -> impl Iterator<Item = &'static (&'static Command, Action)> + Clone {
    GROUPS.iter().flat_map(|group| group.iter())
}

/// Returns all commands, in the order of the help.
pub fn rows() -> impl Iterator<Item = &'static Command> + Clone {
    all().map(|(row, _)| *row)
}

/// Aliases, with the start of the command line that each stands for.
static OTHER_NAMES: &[(&str, &str)] = &[
    ("w", "write"),
    ("q", "quit"),
    ("q!", "quit"),
    ("exit", "quit"),
    ("h", "help"),
    ("man", "help"),
    ("diff", "baseline"),
    ("compare", "baseline"),
    ("where", "filter"),
    ("grep", "search"),
    ("snapshot", "save"),
    ("record", "save"),
    ("pid", "only pid"),
    ("tid", "only tid"),
    ("comm", "only comm"),
    ("program", "only program"),
    ("container", "only container"),
    ("cpu", "only cpu"),
];

/// Finds the command whose name or alias starts with a word.
pub(crate) fn beginning(word: &str) -> Option<(&'static Command, &'static str)> {
    if let Some(row) = find(word) {
        return Some((row, ""));
    }
    let (_, text) = OTHER_NAMES.iter().find(|(name, _)| *name == word)?;
    let (name, first) = text.split_once(' ').unwrap_or((text, ""));
    Some((find(name)?, first))
}

pub(crate) fn find(name: &str) -> Option<&'static Command> {
    rows().find(|row| row.name == name)
}

/// Returns the meanings of common commands on a screen.
fn overrides(tab: Tab) -> Actions {
    match tab {
        Tab::Overview | Tab::Top => &[],
        Tab::Flame => flame::commands::HERE,
        Tab::Time => time::commands::HERE,
        Tab::Cpus => cpus::commands::HERE,
        Tab::Events => events::commands::HERE,
        Tab::Units => units::commands::HERE,
    }
}

/// The action of commands that need the table's rows, where these are not visible.
static OF_TABLE: Action = Action::Plain(|app| app.model.say("this works on the table only: 1 shows it"));

/// Returns the action of a command on a screen, the screen's own or the default; `None` for those of another screen.
pub(crate) fn action(row: &Command, tab: Tab) -> Option<Action> {
    let is_row = |(other, _): &&(&'static Command, Action)| other.is(row);
    if let Some((_, action)) = overrides(tab).iter().find(is_row) {
        return Some(*action);
    }
    if row.of_table && tab != Tab::Top {
        return Some(OF_TABLE);
    }
    // The measurement of softirq time is available on every screen.
    let lives_here = row.tab.is_none_or(|own| own == tab) || row.is(&cpus::commands::SOFTIRQ_TIME);
    all().find(is_row).filter(|_| lives_here).map(|(_, action)| *action)
}

/// Parses a command as typed after `:`.
pub fn parse(text: &str) -> Result<Invocation, String> {
    let text = text.trim();
    let (name, argument) = text.split_once(char::is_whitespace).map_or((text, ""), |(n, a)| (n, a.trim()));
    let Some((row, first)) = beginning(name) else {
        let hint = nearest_hint(name, rows().map(|r| r.name));
        return Err(format!("unknown command {name}{hint}"));
    };
    let argument = match argument {
        "" => String::new(),
        _ => format!("{first} {argument}").trim_start().to_owned(),
    };
    if row.argument.is_none() && !argument.is_empty() {
        return Err(format!("{name} takes no argument"));
    }
    Ok(row.command((!argument.is_empty()).then_some(argument)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn no_key_means_two_things() {
        let of = |own: Option<Tab>| {
            let mine = |r: &&'static Command| r.tab == own;
            let mut of = BTreeMap::new();
            for row in rows().filter(mine) {
                for key in row.keys {
                    let other = of.insert(*key, row.name);
                    assert!(other.is_none(), "{key} of {} is {}'s already", row.name, other.unwrap_or_default());
                }
            }
            of.into_keys().collect::<Vec<&str>>()
        };
        let keys = of(None);
        for own in rows().map(|row| row.tab) {
            let mut here = of(own);
            here.extend(&keys);
            let mut begun = here.iter().filter(|k| k.contains(' ')).filter_map(|chord| chord.split(' ').next());
            // A screen's own key may precede a chord that starts with it on all other screens.
            assert!(begun.all(|first| !here.contains(&first) || own == Some(Tab::Time) && first == "-"), "{own:?}");
        }
    }

    /// Letters that users expect to be consistent: each has the same meaning on all screens where it is bound.
    #[test]
    fn letters_mean_one_thing_on_all_screens() {
        let meanings = [
            ("x", &["not-symbol", "drop", "event-stop", "unit-stop"][..], "away with what is under the cursor"),
            ("c", &["zoom-comm"], "only this comm"),
            ("b", &["baseline", "time-baseline", "unit-baseline"], "compare with this"),
            ("m", &["baseline", "time-baseline", "unit-baseline"], "compare with this"),
            ("y", &["copy"], "copy"),
            ("a", &["window"], "the window of time"),
            ("i", &["idle"], "idle CPUs"),
            ("s", &["order-right", "cpu-order"], "order"),
            ("v", &["time-select"], "select"),
            ("r", &[], "begins chords"),
            ("u", &["undo"], "undo"),
        ];
        for (key, names, meaning) in meanings {
            let of: Vec<&str> = rows().filter(|row| row.keys.contains(&key)).map(|row| row.name).collect();
            assert_eq!(of, names, "{key}: {meaning}");
        }
    }

    #[test]
    fn names_parse_and_faults_offer_the_nearest() {
        for row in rows() {
            assert_eq!(parse(row.name), Ok(row.command(None)), "{}", row.name);
        }
        assert_eq!(parse("freq 99"), Ok(general::FREQ.with("99")));
        assert_eq!(parse(" search  tcp send "), Ok(general::SEARCH.with("tcp send")));
        assert!(parse("fitler x").expect_err("unknown").contains("filter"));
        assert!(parse("quit now").is_err());
    }

    #[test]
    fn other_names_stand_for_commands() {
        assert_eq!(parse("w out.txt"), Ok(general::WRITE.with("out.txt")));
        assert_eq!(parse("pid 1"), Ok(general::ONLY.with("pid 1")));
        assert_eq!(parse("diff old.data"), Ok(general::BASELINE.with("old.data")));
        for (name, text) in OTHER_NAMES {
            assert!(find(name).is_none(), "{name} is a command");
            assert!(beginning(name).is_some(), "{name}: unknown command {text}");
        }
    }
}
