//! The help of each command as one screen of a terminal: what most need, in as many words; `--help-all` has the rest.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use crate::units::UNITS;

/// The options of commands that have more than a screen of them, by their long names or letters. Where a command is
/// not here, its help has all that are no rare ones.
const MOST_USED: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "event",
            "freq",
            "call-graph",
            "all-cpus",
            "cpu",
            "pid",
            "uid",
            "cgroup",
            "container",
            "sort",
            "where",
            "baseline",
            "keep",
            "trigger",
        ],
    ),
    ("open", &["input", "symfs", "kallsyms", "together", "sort", "where", "baseline", "exec", "time", "theme"]),
    (
        "record",
        &[
            "event",
            "filter",
            "freq",
            "count",
            "g",
            "call-graph",
            "all-cpus",
            "cpu",
            "pid",
            "tid",
            "uid",
            "cgroup",
            "container",
            "keep",
            "trigger",
            "output",
            "push",
        ],
    ),
    (
        "report",
        &[
            "input",
            "format",
            "sort",
            "where",
            "comms",
            "dsos",
            "symbols",
            "cpu",
            "time",
            "event",
            "limit",
            "percent-limit",
            "stdio",
            "no-children",
            "call-graph",
            "branch-stack",
            "hierarchy",
            "inline",
        ],
    ),
    (
        "script",
        &[
            "input",
            "fields",
            "ns",
            "dump-raw-trace",
            "header-only",
            "where",
            "comms",
            "dsos",
            "symbols",
            "pid",
            "tid",
            "cpu",
            "time",
            "event",
            "inline",
        ],
    ),
    ("export", &["input", "to", "output", "annotate", "where", "comms", "cpu", "time", "event", "symfs", "inline"]),
    (
        "annotate",
        &[
            "input",
            "s",
            "symfs",
            "vmlinux",
            "where",
            "comms",
            "dsos",
            "cpu",
            "time",
            "event",
            "percent-limit",
            "no-source",
            "asm-raw",
            "format",
        ],
    ),
    (
        "diff",
        &[
            "format", "per", "compute", "sort", "children", "limit", "output", "where", "comms", "dsos", "symbols",
            "cpu", "time", "event", "symfs",
        ],
    ),
    ("demo", &["speed", "no-tour", "sort", "where", "exec", "theme", "color", "slow"]),
];

/// Those of every unit, before its own.
const OF_UNITS: &[&str] = &[
    "interval",
    "format",
    "count",
    "duration",
    "flame-graph",
    "all-cpus",
    "cpu",
    "pid",
    "tid",
    "call-graph",
    "describe",
];

/// The heading of a unit's own options.
pub(super) const OWN: &str = "Options of this unit";

/// Gives a command and those below it the options that print help.
pub(super) fn with_flags(command: Command) -> Command {
    let short = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print this");
    let all =
        Arg::new("help-all").long("help-all").action(ArgAction::HelpLong).help("Print all options, and more of each");
    command
        .disable_help_flag(true)
        .mut_subcommands(with_flags)
        .arg(short.display_order(1000))
        .arg(all.display_order(1001))
}

/// The commands as they are for words that ask for help, or for none: with all options only where all are asked for.
pub(super) fn of(words: &[OsString], command: Command) -> Command {
    let asks_all = words.iter().any(|word| word == "--help-all") || words.get(1).is_some_and(|word| word == "help");
    if asks_all { command } else { one_screen(command) }
}

/// The commands with the help that is one screen.
fn one_screen(command: Command) -> Command {
    let names = |is: &dyn Fn(&str) -> bool| {
        let list = command.get_subcommands().filter(|own| !own.is_hide_set()).map(Command::get_name);
        list.filter(|name| is(name)).collect::<Vec<_>>().join(" ")
    };
    let is_unit = |name: &str| UNITS.iter().any(|spec| spec.name == name && name != "stat");
    let lists = format!(
        "Commands: {}\n\nAnalysis units: {}\n\n`perfprof-tui COMMAND --help` is about one, `perfprof-tui --help-all` about \
         all. Without a command: the live screen. `perfprof-tui doctor` says what this machine can measure.",
        names(&|name| !is_unit(name)),
        names(&|name| is_unit(name))
    );
    let command = command.mut_subcommands(|own| match own.get_name() {
        "unit" => own.mut_subcommands(of_command),
        _ => of_command(own).hide(true),
    });
    of_command(command.name("")).name("perfprof-tui").after_help(lists)
}

/// One command with what most need.
fn of_command(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let listed = MOST_USED.iter().find(|(of, _)| *of == name).map(|(_, list)| *list);
    let is_unit = command.get_arguments().any(|arg| arg.get_id() == "describe");
    command.mut_args(|arg| {
        if arg.is_positional() {
            return first_clause(arg).help_heading(None);
        }
        let is_own = arg.get_help_heading() == Some(OWN);
        let has = |list: &[&str]| {
            let letter = arg.get_short().map(String::from);
            list.iter().any(|name| arg.get_long() == Some(*name) || letter.as_deref() == Some(*name))
        };
        let stays = match listed {
            Some(list) => has(list),
            None if is_unit => is_own || has(OF_UNITS),
            None => return arg,
        };
        let is_help = matches!(arg.get_action(), ArgAction::HelpShort | ArgAction::HelpLong);
        let hidden = arg.is_hide_set() || !(stays || is_help);
        let arg = if is_own { arg } else { arg.help_heading(None) };
        first_clause(arg).hide(hidden).hide_short_help(false)
    })
}

/// An argument with the first clause of its help.
fn first_clause(arg: Arg) -> Arg {
    let Some(help) = arg.get_help().map(ToString::to_string) else { return arg };
    let sentence = help.match_indices(". ").find(|(at, _)| help[at + 2..].starts_with(char::is_uppercase));
    let end = [help.find("; "), sentence.map(|(at, _)| at)].into_iter().flatten().min();
    match end {
        Some(end) => arg.help(help[..end].to_owned()),
        None => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::super::args::whole;
    use super::*;

    /// The lines of a command's help at 80 columns.
    fn lines(command: &mut Command) -> Vec<String> {
        command.clone().term_width(80).render_help().to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn help_is_one_screen_of_each_command() {
        let command = one_screen(whole());
        let mut too_long = Vec::new();
        let units = command.find_subcommand("unit").expect("units").clone();
        let all = command.get_subcommands().chain(units.get_subcommands()).cloned().chain([command.clone()]);
        for mut own in all {
            let lines = lines(&mut own);
            if lines.len() > 40 || lines.iter().any(|line| line.chars().count() > 80) {
                too_long.push(format!("{}: {} lines\n{}", own.get_name(), lines.len(), lines.join("\n")));
            }
        }
        assert!(too_long.is_empty(), "{}", too_long.join("\n"));
    }

    #[test]
    fn what_most_need_is_what_there_is() {
        let command = whole();
        for (name, list) in MOST_USED {
            let own = if name.is_empty() { &command } else { command.find_subcommand(name).expect("a command") };
            for option in *list {
                let is = |arg: &Arg| {
                    arg.get_long() == Some(option) || arg.get_short().map(String::from).as_deref() == Some(option)
                };
                assert!(own.get_arguments().any(is), "{name} has no {option}");
            }
        }
        let cut = |help: &'static str| first_clause(Arg::new("x").help(help)).get_help().map(ToString::to_string);
        assert_eq!(cut("One, e.g. a; others").as_deref(), Some("One, e.g. a"));
        assert_eq!(cut("One. Another one").as_deref(), Some("One"));
    }
}
