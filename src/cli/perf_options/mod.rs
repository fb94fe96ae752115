//! perf's options that ours have no meaning of their own for: accepted where they cannot matter here, or refused by
//! name with what to use instead. What its help spells is what is typed here.

mod other;
mod reading;
mod recording;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::spelling;

/// An option of perf, spelled as its help spells it: `-m, --mmap-pages <pages>`, `--aio[=<n>]`.
pub(crate) struct PerfOption {
    spelled: &'static str,
    fate: Fate,
}

/// What comes of an option.
enum Fate {
    /// It is taken, and changes nothing, for this reason.
    Idle(&'static str),
    /// It is refused, for this reason, with what to use instead.
    Refused(&'static str),
}

const fn idle(spelled: &'static str, why: &'static str) -> PerfOption {
    PerfOption { spelled, fate: Fate::Idle(why) }
}

const fn refused(spelled: &'static str, why: &'static str) -> PerfOption {
    PerfOption { spelled, fate: Fate::Refused(why) }
}

/// The options of each command; `top` is the live screen.
pub(crate) const TABLES: &[(&str, &[PerfOption])] = &[
    ("top", recording::TOP),
    ("record", recording::RECORD),
    ("stat", recording::STAT),
    ("report", reading::REPORT),
    ("script", reading::SCRIPT),
    ("annotate", reading::ANNOTATE),
    ("evlist", reading::EVLIST),
    ("buildid-list", reading::BUILDID_LIST),
    ("inject", reading::INJECT),
    ("diff", reading::DIFF),
    ("probe", other::PROBE),
    ("list", other::LIST),
];

/// Names and value of an option, out of its spelling.
#[derive(Debug, PartialEq, Eq)]
struct Spelling<'a> {
    short: Option<char>,
    long: Option<&'a str>,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    None,
    Optional,
    Required,
}

impl<'a> Spelling<'a> {
    fn of(spelled: &'a str) -> Self {
        let value = match (spelled.contains("[="), spelled.contains('<')) {
            (true, _) => Value::Optional,
            (_, true) => Value::Required,
            _ => Value::None,
        };
        let names = spelled.split(['[', '<', ' ', ',', '=']).filter(|word| word.starts_with('-'));
        let (mut short, mut long) = (None, None);
        for name in names {
            match name.strip_prefix("--") {
                Some(name) => long = long.or(Some(name)),
                None => short = short.or(name.chars().nth(1)),
            }
        }
        Self { short, long, value }
    }

    fn id(&self) -> String {
        format!("perf {}{}", self.short.unwrap_or(' '), self.long.unwrap_or_default())
    }
}

/// Has all commands take perf's options. They are in no help: the manual's pages list them.
pub(crate) fn add(command: Command) -> Command {
    TABLES.iter().fold(command, |command, (name, options)| match *name {
        "top" => with(command, options),
        name => command.mut_subcommand(name, |own| with(own, options)),
    })
}

fn with(command: Command, options: &[PerfOption]) -> Command {
    spelling::with_opposites(options.iter().fold(command, |command, option| {
        let own = Spelling::of(option.spelled);
        let arg = Arg::new(own.id()).hide(true);
        let arg = match own.value {
            Value::None => arg.action(ArgAction::Count),
            Value::Optional => {
                arg.action(ArgAction::Append).num_args(0..=1).require_equals(true).default_missing_value("")
            }
            Value::Required => arg.action(ArgAction::Append),
        };
        let arg = own.short.into_iter().fold(arg, Arg::short);
        command.arg(own.long.into_iter().fold(arg, Arg::long))
    }))
}

/// Refuses what cannot be done; with -v comes what is to be said of those that have no effect.
pub(crate) fn check(matches: &ArgMatches) -> anyhow::Result<Vec<String>> {
    let (name, own) = matches.subcommand().unwrap_or(("top", matches));
    let options = TABLES.iter().find(|(of, _)| *of == name).map_or(&[][..], |(_, options)| options);
    let is_typed = |id: &str| {
        matches!(own.try_contains_id(id), Ok(true)) && own.value_source(id) == Some(ValueSource::CommandLine)
    };
    let verbose = is_typed(&Spelling::of(VERBOSE).id());
    let mut said = Vec::new();
    for option in options.iter().filter(|option| is_typed(&Spelling::of(option.spelled).id())) {
        let names = option.spelled.split(['[', '<']).next().unwrap_or_default().trim_end();
        match option.fate {
            Fate::Refused(why) => anyhow::bail!("{names}: {why}"),
            Fate::Idle(why) if verbose && option.spelled != VERBOSE => said.push(format!("{names}: {why}")),
            Fate::Idle(_) => {}
        }
    }
    Ok(said)
}

/// Says what has no effect.
const VERBOSE: &str = "-v, --verbose";
const SAYS: &str = "options without effect are said";

/// The options of a command with what comes of them, for its manual page.
pub(crate) fn listed(command: &str) -> impl Iterator<Item = (&'static str, &'static str, bool)> + use<'_> {
    let own = TABLES.iter().filter(move |(name, _)| *name == command).flat_map(|(_, options)| *options);
    own.map(|option| match option.fate {
        Fate::Idle(why) => (option.spelled, why, true),
        Fate::Refused(why) => (option.spelled, why, false),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_are_perfs() {
        let of = |text| {
            let own = Spelling::of(text);
            (own.short, own.long.map(str::to_owned), own.value)
        };
        assert_eq!(of("-m, --mmap-pages <pages[,pages]>"), (Some('m'), Some("mmap-pages".into()), Value::Required));
        assert_eq!(of("    --aio[=<n>]       Use <n>"), (None, Some("aio".into()), Value::Optional));
        assert_eq!(of("-g"), (Some('g'), None, Value::None));
    }
}
