//! perf's other spellings of options: unambiguous prefixes of long names, and `--no-NAME` to revoke an earlier option.

use clap::{Arg, ArgAction, Command};
use hashbrown::HashMap;

/// Returns the options that a long name without its dashes and value can mean, each with one of its names.
pub(crate) fn named<'a>(typed: &str, command: &'a Command) -> Vec<(&'a Arg, &'a str)> {
    let all = || command.get_arguments().flat_map(|arg| names(arg).into_iter().map(move |name| (arg, name)));
    if let Some(exact) = all().find(|(_, name)| *name == typed) {
        return vec![exact];
    }
    let mut found: Vec<(&Arg, &str)> = Vec::new();
    for (arg, name) in all().filter(|(_, name)| !typed.is_empty() && name.starts_with(typed)) {
        // Aliases of one option count as one.
        if !found.iter().any(|(known, _)| known.get_id() == arg.get_id()) {
            found.push((arg, name));
        }
    }
    found
}

pub(crate) fn names(arg: &Arg) -> Vec<&str> {
    arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default()).collect()
}

/// Adds the missing opposite of each option; of two opposites, the last one wins.
pub(crate) fn with_opposites(command: Command) -> Command {
    let known: Vec<String> = command.get_arguments().flat_map(names).map(str::to_owned).collect();
    let own: Vec<(String, Vec<String>)> = command
        .get_arguments()
        .filter(|arg| arg.get_long().is_some() && !matches!(arg.get_action(), ArgAction::Help | ArgAction::Version))
        .map(|arg| (arg.get_id().to_string(), names(arg).into_iter().map(str::to_owned).collect()))
        .collect();
    let (mut others, mut fresh) = (HashMap::new(), Vec::new());
    for (id, names) in &own {
        let wanted: Vec<String> = names.iter().map(|name| opposite(name)).collect();
        if let Some((other, _)) = own.iter().find(|(_, theirs)| theirs.contains(&wanted[0])) {
            others.insert(id.as_str(), other);
            continue;
        }
        let mut wanted = wanted.into_iter().filter(|name| !known.contains(name));
        let Some(first) = wanted.next() else { continue };
        let arg = Arg::new(format!("opposite of {id}")).long(first).aliases(wanted.collect::<Vec<_>>());
        fresh.push(arg.action(ArgAction::Count).hide(true).overrides_with(id.clone()));
    }
    // Adds them in one call, because each change moves all later arguments.
    let command = command.mut_args(|arg| match others.get(arg.get_id().as_str()) {
        Some(other) => arg.overrides_with((*other).clone()),
        None => arg,
    });
    command.args(fresh)
}

fn opposite(name: &str) -> String {
    name.strip_prefix("no-").map_or_else(|| format!("no-{name}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let of = Command::new("p").arg(flag("children")).arg(flag("no-inherit")).arg(flag("demangle"));
        let of = of.arg(flag("no-demangle").short('n')).arg(Arg::new("dsos").long("dsos").alias("dso").short('d'));
        with_opposites(of.arg(Arg::new("call").long("call-graph").num_args(0..=1).default_missing_value("fp")))
    }

    #[test]
    fn prefixes_of_one_option_name_it() {
        let command = command();
        let meant = |typed| named(typed, &command).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        for (typed, name) in
            [("ch", "children"), ("ds", "dsos"), ("dso", "dso"), ("inh", "inherit"), ("no-ch", "no-children")]
        {
            assert_eq!(meant(typed), [name]);
        }
        assert!(meant("unknown").is_empty());
        assert_eq!(meant("c"), ["children", "call-graph"]);
        assert_eq!(meant("no-d"), ["no-demangle", "no-dsos"]);
    }

    #[test]
    fn the_last_of_two_opposites_holds() {
        let set = |line: &str, name: &str| {
            let matches = command().try_get_matches_from(line.split(' ')).expect("parses");
            matches.get_flag(name)
        };
        assert!(set("p --no-children --children", "children") && !set("p --children --no-children", "children"));
        assert!(!set("p --no-inherit --inherit", "no-inherit") && set("p --inherit --no-inherit", "no-inherit"));
        assert!(!set("p -n --demangle", "no-demangle") && set("p --demangle --no-demangle", "no-demangle"));
        let none =
            command().try_get_matches_from(["p", "--call-graph", "--no-call-graph", "--no-dso"]).expect("parses");
        assert!(none.get_one::<String>("call").is_none() && none.get_one::<String>("dsos").is_none());
    }
}
