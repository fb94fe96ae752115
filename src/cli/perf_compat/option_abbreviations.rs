//! perf's other spellings of options: unambiguous prefixes of long names, and `--no-NAME` to revoke an earlier option.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};
use hashbrown::HashMap;

use crate::cli::Usage;

pub(crate) enum Named<'a> {
    /// One option, with its full name.
    Option(&'a Arg, &'a str),
    Several(Vec<&'a str>),
    Nothing,
}

/// Resolves a long name without its dashes and value.
pub(crate) fn named<'a>(typed: &str, command: &'a Command) -> Named<'a> {
    let all = || command.get_arguments().flat_map(|arg| names(arg).into_iter().map(move |name| (arg, name)));
    if let Some((arg, name)) = all().find(|(_, name)| *name == typed) {
        return Named::Option(arg, name);
    }
    let mut found: Vec<(&Arg, &str)> = Vec::new();
    for (arg, name) in all().filter(|(_, name)| !typed.is_empty() && name.starts_with(typed)) {
        // Aliases of one option count as one.
        if !found.iter().any(|(known, _)| known.get_id() == arg.get_id()) {
            found.push((arg, name));
        }
    }
    match found.as_slice() {
        [] => Named::Nothing,
        [(arg, name)] => Named::Option(arg, name),
        several => Named::Several(several.iter().map(|(_, name)| *name).collect()),
    }
}

pub(crate) fn names(arg: &Arg) -> Vec<&str> {
    arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default()).collect()
}

/// Expands the long names of a command's options, from an index up to `--`, except in values. `needs_value` returns
/// true if the word after an option is always its value. A prefix of several options is an error.
pub(crate) fn written_out(
    mut words: Vec<OsString>,
    from: usize,
    command: &Command,
    needs_value: impl Fn(&str) -> bool,
) -> Result<Vec<OsString>, Usage> {
    let mut at = from;
    while let Some(word) = words.get(at) {
        let here = at;
        at += 1;
        let Some(text) = word.to_str().filter(|text| text.starts_with('-')).map(str::to_owned) else { continue };
        if text == "--" {
            break;
        }
        if needs_value(&text) {
            at += 1;
        }
        let Some(long) = text.strip_prefix("--") else { continue };
        let (typed, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        match named(typed, command) {
            Named::Option(_, name) if name != typed => {
                let value = value.map(|value| format!("={value}")).unwrap_or_default();
                words[here] = format!("--{name}{value}").into();
            }
            Named::Several(names) => return Err(Usage(ambiguous(typed, &names))),
            _ => {}
        }
    }
    Ok(words)
}

fn ambiguous(typed: &str, names: &[&str]) -> String {
    let list: Vec<String> = names.iter().map(|name| format!("--{name}")).collect();
    format!("--{typed} is ambiguous: {}; type more letters", list.join(", "))
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

    fn out(line: &str) -> Result<String, String> {
        let words = line.split(' ').map(OsString::from).collect();
        let needs = |text: &str| ["-d", "--dsos", "--ds", "--dso"].contains(&text);
        let out = written_out(words, 1, &command(), needs).map_err(|usage| usage.0)?;
        Ok(out.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn beginnings_are_written_out() {
        for (typed, meant) in [
            ("p --ch --call=dwarf x", "p --children --call-graph=dwarf x"),
            ("p --ds --ch --no-ch", "p --dsos --ch --no-children"),
            ("p --dso x --inh", "p --dso x --inherit"),
            ("p --call -- prog --ch", "p --call-graph -- prog --ch"),
            ("p --unknown -n", "p --unknown -n"),
        ] {
            assert_eq!(out(typed).as_deref(), Ok(meant));
        }
        let refused = out("p --c").expect_err("several");
        assert!(refused.contains("--children, --call-graph"), "{refused}");
        assert!(out("p --no-d").expect_err("several").contains("--no-demangle, --no-dsos"));
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
