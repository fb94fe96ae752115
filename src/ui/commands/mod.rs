//! The table of all commands: those of every screen here, those of one screen in its folder.

pub mod general;
pub mod program;

use crate::lang::nearest;
use crate::ui::command::{Act, Command, Group, Invocation};
use crate::ui::frame::Tab;
use crate::ui::view::{cpus, events, flame, time, top, units};

/// All groups, in the order of the help.
const GROUPS: &[&Group] = &[
    &general::MOVE,
    &general::STEPS,
    &top::commands::CHAINS,
    &general::FIND,
    &top::commands::TABLE,
    &general::SESSION,
    &general::COMPARE,
    &flame::commands::GROUP,
    &time::commands::GROUP,
    &cpus::commands::GROUP,
    &events::commands::GROUP,
    &units::commands::GROUP,
    &program::PROGRAM,
];

/// What commands of every screen mean on one of them.
pub type Here = &'static [(&'static Command, Act)];

/// All commands, in the order of the help.
pub fn rows() -> impl Iterator<Item = &'static Command> + Clone {
    GROUPS.iter().flat_map(|group| group.rows).copied()
}

/// The row of a name.
pub fn find(name: &str) -> Option<&'static Command> {
    rows().find(|row| row.name == name)
}

/// What a row means on a screen.
pub enum Meaning {
    Act(Act),
    /// It is about the table's rows, which are not seen here.
    OfTable,
    /// It is another screen's.
    Nothing,
}

/// What a row means on a screen: what the screen makes of it, or what it means everywhere.
pub fn meaning(row: &Command, tab: Tab) -> Meaning {
    let here: Here = match tab {
        Tab::Top => &[],
        Tab::Flame => flame::commands::HERE,
        Tab::Time => time::commands::HERE,
        Tab::Cpus => cpus::commands::HERE,
        Tab::Events => events::commands::HERE,
        Tab::Units => units::commands::HERE,
    };
    if let Some((_, act)) = here.iter().find(|(general, _)| general.is(row)) {
        return Meaning::Act(*act);
    }
    let lives_here = layer(row).is_none_or(|layer| Some(layer) == tab.group());
    match row.of_table && tab != Tab::Top {
        true => Meaning::OfTable,
        // The time in softirqs can be measured from everywhere.
        false if lives_here || row.is(&cpus::commands::SOFTIRQ_TIME) => Meaning::Act(row.act),
        false => Meaning::Nothing,
    }
}

/// Reads a command as typed after `:`.
pub fn parse(text: &str) -> Result<Invocation, String> {
    let text = text.trim();
    let (name, argument) = text.split_once(char::is_whitespace).map_or((text, ""), |(n, a)| (n, a.trim()));
    let Some(row) = find(name) else {
        let near = nearest(name, rows().map(|r| r.name));
        let hint = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
        return Err(format!("no command is called {name}{hint}"));
    };
    if row.argument.is_none() && !argument.is_empty() {
        return Err(format!("{name} takes no argument"));
    }
    Ok(row.command((!argument.is_empty()).then(|| argument.to_owned())))
}

/// The group that a row's keys are bound to: none for those that work everywhere.
pub fn layer(row: &Command) -> Option<&'static str> {
    Tab::ALL.iter().filter_map(|tab| tab.group()).find(|group| *group == row.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_means_two_things() {
        let of = |own: Option<&'static str>| {
            let mine = |r: &&'static Command| layer(r) == own;
            let mut keys: Vec<&str> = rows().filter(mine).flat_map(|r| r.keys).copied().collect();
            keys.sort_unstable();
            assert!(keys.windows(2).all(|w| w[0] != w[1]), "{keys:?}");
            keys
        };
        let keys = of(None);
        for own in std::iter::once(None).chain(Tab::ALL.map(Tab::group)) {
            let mut here = of(own);
            here.extend(&keys);
            let mut begun = here.iter().filter(|k| k.contains(' ')).filter_map(|chord| chord.split(' ').next());
            // A screen's own key may stand before a chord that begins like it everywhere else.
            assert!(begun.all(|first| !here.contains(&first) || own == Tab::Time.group() && first == "-"), "{own:?}");
        }
    }

    /// Letters under which a hand would expect the same everywhere: each has one meaning, whichever screen it is
    /// pressed on, or none.
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
}
