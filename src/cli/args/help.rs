//! Short help: one screen with the most used options of each command; `--help-all` prints all.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

use crate::units::UNITS;

use super::PERF;

/// Most used options of commands with more than one screen of them, by long name or letter; `unit` is of all units.
/// Other commands show all options that are not marked as rare.
const MOST_USED: &str = include_str!("most_used.txt");

fn most_used(command: &str) -> Option<&'static str> {
    MOST_USED.lines().find_map(|line| line.strip_prefix(command)?.strip_prefix(": "))
}

pub(crate) const OWN: &str = "Options of this unit";

pub(crate) fn with_flags(command: Command) -> Command {
    let short = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
    let all = Arg::new("help-all").long("help-all").action(ArgAction::HelpLong).help("Print all options in full");
    command
        .disable_help_flag(true)
        .mut_subcommands(with_flags)
        .mut_args(|arg| match arg.get_help_heading() {
            _ if arg.is_positional() => arg.help_heading(None),
            Some(PERF) => arg.hide_short_help(true),
            _ => arg,
        })
        .arg(short.display_order(1000).help_heading(None))
        .arg(all.display_order(1001).help_heading(None))
}

/// Returns the command tree with short help, unless the words request all options.
pub(crate) fn of(words: &[OsString], command: Command) -> Command {
    let asks_all = words.iter().any(|word| word == "--help-all") || words.get(1).is_some_and(|word| word == "help");
    if asks_all { command } else { one_screen(command) }
}

fn one_screen(command: Command) -> Command {
    let names = |is: &dyn Fn(&str) -> bool| {
        let list = command.get_subcommands().filter(|own| !own.is_hide_set()).map(Command::get_name);
        list.filter(|name| is(name)).collect::<Vec<_>>().join(" ")
    };
    let is_unit = |name: &str| UNITS.iter().any(|spec| spec.name == name && name != "stat");
    let units = format!("Analysis units: {}", names(&is_unit));
    let lists = format!(
        "Commands: {}\n\n{units}\n\n`perfprof-tui COMMAND --help` describes one command, `--help-all` all options. \
         Without a command: the live screen. `perfprof-tui doctor` lists what you can measure.",
        names(&|name| !is_unit(name)),
    );
    let command = command.mut_subcommands(|own| match own.get_name() {
        "unit" => own.mut_subcommands(of_command).help_template(WITHOUT_COMMANDS).after_help(units.clone()),
        _ => of_command(own),
    });
    of_command(command).help_template(WITHOUT_COMMANDS).after_help(lists)
}

/// Template of help that lists commands only by name, after the options.
const WITHOUT_COMMANDS: &str = "{about-with-newline}\n{usage-heading} {usage}\n\nOptions:\n{options}{after-help}";

fn of_command(command: Command) -> Command {
    let is_unit = command.get_arguments().any(|arg| arg.get_id() == "describe");
    let listed = most_used(if is_unit { "unit" } else { command.get_name() });
    command.mut_args(|arg| {
        if arg.is_positional() {
            return first_clause(arg).help_heading(None);
        }
        let is_own = arg.get_help_heading() == Some(OWN);
        let Some(listed) = listed else { return arg };
        let letter = arg.get_short().map(String::from);
        let mut names = listed.split_whitespace();
        let is_listed = names.any(|name| arg.get_long() == Some(name) || letter.as_deref() == Some(name));
        let is_help = matches!(arg.get_action(), ArgAction::HelpShort | ArgAction::HelpLong);
        let hidden = arg.is_hide_set() || !(is_listed || is_own || is_help);
        let arg = if is_own { arg } else { arg.help_heading(None) };
        first_clause(arg).hide(hidden).hide_short_help(false)
    })
}

fn first_clause(arg: Arg) -> Arg {
    match arg.get_help().map(ToString::to_string) {
        Some(help) => arg.help(cut(&help).to_owned()),
        None => arg,
    }
}

/// Longer texts are cut before examples or a list.
const LONG: usize = 130;

/// Returns the first clause of a text. Does not cut within brackets or quotes.
fn cut(text: &str) -> &str {
    let (mut depth, mut quoted) = (0usize, false);
    let mut ends = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '\'' if quoted || text[..at].ends_with([' ', '(']) => quoted = !quoted,
            _ => {}
        }
        if depth == 0 && !quoted {
            ends.push(at);
        }
    }
    let first = |of: &str, limit: usize| ends.iter().copied().find(|at| *at < limit && text[*at..].starts_with(of));
    let sentence = ends.iter().copied().find(|at| {
        let rest = text[*at..].strip_prefix(". ");
        rest.is_some_and(|rest| rest.starts_with(char::is_uppercase))
    });
    let mut end = [first("; ", text.len()), sentence].into_iter().flatten().min().unwrap_or(text.len());
    for shorter in [", e.g. ", ": "] {
        if end > LONG {
            end = first(shorter, end).unwrap_or(end);
        }
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::whole;

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
        for (name, list) in MOST_USED.lines().map(|line| line.split_once(": ").expect("a list")) {
            let own = match name {
                crate::cli::NAME => &command,
                "unit" => command.find_subcommand("oncpu").expect("a unit"),
                name => command.find_subcommand(name).expect("a command"),
            };
            for option in list.split_whitespace() {
                let is = |arg: &Arg| {
                    arg.get_long() == Some(option) || arg.get_short().map(String::from).as_deref() == Some(option)
                };
                assert!(own.get_arguments().any(is), "{name} has no {option}");
            }
        }
    }

    #[test]
    fn texts_are_cut_where_a_clause_ends() {
        for (text, short) in [
            ("One, e.g. a; others", "One, e.g. a"),
            ("One. Another one", "One"),
            ("Keys [default: a; of others b]; more", "Keys [default: a; of others b]"),
            ("Such as 'a; b', or the thread's own; more", "Such as 'a; b', or the thread's own"),
        ] {
            assert_eq!(cut(text), short);
        }
        let long = "x".repeat(LONG);
        assert_eq!(cut(&format!("How: {long}")), "How");
        assert_eq!(cut(&format!("How, e.g. a: {long}")), "How");
    }
}
