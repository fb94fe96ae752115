//! perf's options that request what happens anyway: accepted without effect. perf's other missing options are unknown.

use clap::builder::PossibleValuesParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

use crate::cli::perf_compat::option_abbreviations::{named, names, with_opposites};
use crate::lang::nearest;
use crate::units::kit::Spec;

/// Lines `COMMAND: OPTIONS` and `unit NAME: OPTIONS` as perf and perf-prof spell them. `top` is the live screen, `unit`
/// all units without an option of the name. A value follows `=`: a listed one, or any.
const OPTIONS: &str = include_str!("perf_options.txt");

fn list_of(name: &str) -> impl Iterator<Item = &'static str> + use<> {
    let own = OPTIONS.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    own.unwrap_or_default().split_whitespace()
}

fn option(spelled: &'static str) -> Arg {
    let (names, values) = spelled.split_once('=').map_or((spelled, None), |(names, values)| (names, Some(values)));
    let arg = Arg::new(format!("perf {names}")).value_name("VALUE").hide(true);
    let arg = match values {
        None => arg.action(ArgAction::Count),
        Some("") => arg.action(ArgAction::Append),
        Some(list) => arg.action(ArgAction::Append).value_parser(PossibleValuesParser::new(list.split('|'))),
    };
    names.split(',').fold(arg, |arg, name| match name.strip_prefix("--") {
        Some(long) => arg.long(long),
        None => arg.short(name.chars().nth(1)),
    })
}

pub(crate) fn add(name: &str, command: Command) -> Command {
    let mut options = list_of(name).peekable();
    if options.peek().is_none() {
        return command;
    }
    with_options(options, command)
}

pub(crate) fn add_to_unit(spec: &Spec, command: Command) -> Command {
    with_options(list_of("unit").chain(list_of(&format!("unit {}", spec.name))), command)
}

/// Adds the options that a command lacks. They have no opposites, which would request something else. An option that
/// the command has, such as the opposite of its own option, gets perf's letter.
fn with_options(options: impl Iterator<Item = &'static str>, command: Command) -> Command {
    let command = with_opposites(command);
    let known: Vec<String> = command.get_arguments().flat_map(names).map(str::to_owned).collect();
    let letters: Vec<char> = command.get_arguments().filter_map(Arg::get_short).collect();
    let is_known = |arg: &Arg| arg.get_long().is_some_and(|long| known.iter().any(|name| name == long));
    let (same, new): (Vec<Arg>, Vec<Arg>) = options.map(option).partition(is_known);
    let letter = |arg: &Arg| {
        let is_it = |same: &&Arg| same.get_long().is_some_and(|long| names(arg).contains(&long));
        let letter = same.iter().find(is_it)?.get_short()?;
        (arg.get_short().is_none() && !letters.contains(&letter)).then_some(letter)
    };
    let command = command.mut_args(|arg| match letter(&arg) {
        Some(letter) => arg.short(letter),
        None => arg,
    });
    command.args(new)
}

/// Returns the answer to an option that a command does not have; `None` for other errors.
pub(crate) fn unknown(error: &clap::Error, command: &Command) -> Option<String> {
    let typed = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(typed))) if typed.starts_with('-') => typed,
        _ => return None,
    };
    let of = command.get_name();
    let name = typed.split('=').next().unwrap_or(typed).trim_start_matches('-');
    let meant = named(name, command);
    if typed.starts_with("--") && meant.len() > 1 {
        let names: Vec<&str> = meant.iter().map(|(_, name)| *name).collect();
        return Some(format!("--{name} is ambiguous: --{}; type more letters", names.join(", --")));
    }
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
    let near: Vec<String> = nearest(name, shown).into_iter().map(|name| format!("--{name}")).collect();
    let hint = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
    Some(match of == crate::cli::NAME {
        true => format!("unknown option {typed}{hint}\nperfprof-tui --help-all lists all options"),
        false => format!("{of}: unknown option {typed}{hint}\nperfprof-tui help {of} lists all options"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::whole;

    #[test]
    fn options_are_spelled_as_perf_spells_them() {
        let of = |spelled| {
            let arg = option(spelled);
            (arg.get_short(), arg.get_long().map(str::to_owned), arg.get_action().takes_values())
        };
        assert_eq!(of("-q,--quiet"), (Some('q'), Some("quiet".into()), false));
        assert_eq!(of("-M,--disassembler-style="), (Some('M'), Some("disassembler-style".into()), true));
        assert_eq!(of("--ptrace"), (None, Some("ptrace".into()), false));
    }

    #[test]
    fn each_list_is_of_a_command() {
        let whole = whole();
        let has = |name: &str| name == "top" || whole.find_subcommand(name).is_some();
        for (name, _) in OPTIONS.lines().map(|line| line.split_once(": ").expect("a list")) {
            assert!(name.strip_prefix("unit ").map_or_else(|| has(name), |unit| crate::units::find(unit).is_some()));
        }
    }

    #[test]
    fn each_option_is_accepted_by_its_names() {
        let whole = whole();
        let lists = OPTIONS.lines().filter_map(|line| line.split_once(": "));
        for (name, list) in lists.filter(|(name, _)| !name.starts_with("unit")) {
            for names in list.split_whitespace().map(|spelled| spelled.split('=').collect::<Vec<_>>()) {
                for option in names[0].split(',') {
                    let mut words = vec!["perfprof-tui"];
                    words.extend((name != "top").then_some(name));
                    words.push(option);
                    words.extend(names.get(1).map(|_| "1"));
                    let parsed = whole.clone().try_get_matches_from(&words);
                    assert!(!parsed.is_err_and(|error| error.kind() == ErrorKind::UnknownArgument), "{words:?}");
                }
            }
        }
    }

    #[test]
    fn unknown_options_name_the_nearest_and_the_page() {
        let whole = whole();
        let said = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let error = whole.clone().try_get_matches_from(&words).expect_err(line);
            let own = words.get(1).and_then(|name| whole.find_subcommand(name)).unwrap_or(&whole);
            unknown(&error, own)
        };
        for (line, parts) in [
            ("perfprof-tui report --call-grph", ["report: unknown option --call-grph", "--call-graph", "help report"]),
            ("perfprof-tui report --group-sort-idx 1", ["option --group-sort-idx", "", "help report"]),
            ("perfprof-tui stat -M IPC", ["stat: unknown option -M", "", "help stat"]),
            ("perfprof-tui rundelay --tsc", ["rundelay: unknown option --tsc", "", "help rundelay"]),
            ("perfprof-tui rundelay --no-ptrace", ["unknown option --no-ptrace", "", "help rundelay"]),
            ("perfprof-tui report --c", ["--c is ambiguous: ", "--children", "--comms"]),
            ("perfprof-tui --sotr=comm", ["unknown option --sotr", "nearest: --sort", "--help-all"]),
        ] {
            let said = said(line).unwrap_or_default();
            assert!(parts.iter().all(|part| said.contains(part)), "{line}: {said}");
        }
        assert_eq!(said("perfprof-tui report --limit x"), None, "another error");
    }
}
