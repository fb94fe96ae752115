//! perf's options that ours have no meaning of their own for: accepted where they cannot matter here, or refused by
//! name with what to use instead. What its help spells is what is typed here.

mod other;
mod reading;
mod recording;
mod units;

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
    /// With one of these values it changes nothing, for the first reason; with others it is refused for the second.
    Only(&'static [&'static str], &'static str, &'static str),
}

const fn idle(spelled: &'static str, why: &'static str) -> PerfOption {
    PerfOption { spelled, fate: Fate::Idle(why) }
}

const fn refused(spelled: &'static str, why: &'static str) -> PerfOption {
    PerfOption { spelled, fate: Fate::Refused(why) }
}

const fn only(
    spelled: &'static str,
    values: &'static [&'static str],
    why: &'static str,
    others: &'static str,
) -> PerfOption {
    PerfOption { spelled, fate: Fate::Only(values, why, others) }
}

/// The options of each command; `top` is the live screen.
const TABLES: &[(&str, &[PerfOption])] = &[
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

/// The options of perf's command that is called so.
pub(crate) fn of_command(name: &str) -> impl Iterator<Item = &'static PerfOption> {
    TABLES.iter().filter(move |(of, _)| *of == name).flat_map(|(_, options)| *options)
}

/// What perf-prof's profiler of a unit's name is asked for, and the unit has not.
pub(crate) fn of_unit(name: &str) -> impl Iterator<Item = &'static PerfOption> + use<'_> {
    let own = units::OF_ONE.iter().filter(move |(unit, _)| *unit == name).flat_map(|(_, options)| *options);
    let spec = crate::units::find(name);
    let is_its_own = move |option: &&PerfOption| {
        let long = Spelling::of(option.spelled).long;
        spec.zip(long).is_some_and(|(spec, long)| spec.options.contains(&long))
    };
    units::OF_ALL.iter().chain(own).filter(move |option| !is_its_own(option))
}

/// Has a command take some, where there are any. They are in no help: the manual's pages list them.
pub(crate) fn add(options: impl Iterator<Item = &'static PerfOption>, command: Command) -> Command {
    let mut options = options.peekable();
    if options.peek().is_none() {
        return command;
    }
    spelling::with_opposites(options.fold(command, |command, option| {
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
pub(crate) fn check(
    options: impl Iterator<Item = &'static PerfOption>,
    own: &ArgMatches,
) -> anyhow::Result<Vec<String>> {
    let is_typed = |id: &str| {
        matches!(own.try_contains_id(id), Ok(true)) && own.value_source(id) == Some(ValueSource::CommandLine)
    };
    let verbose = is_typed(&Spelling::of(VERBOSE).id());
    let mut said = Vec::new();
    for option in options {
        let id = Spelling::of(option.spelled).id();
        if !is_typed(&id) {
            continue;
        }
        let names = option.spelled.split(['[', '<']).next().unwrap_or_default().trim_end();
        let why = match option.fate {
            Fate::Refused(why) => anyhow::bail!("{names}: {why}"),
            Fate::Only(values, why, others) => {
                let typed = own.get_many::<String>(&id).into_iter().flatten();
                if let Some(other) = typed.into_iter().find(|typed| !values.contains(&typed.as_str())) {
                    anyhow::bail!("{names} {other}: {others}");
                }
                why
            }
            Fate::Idle(why) => why,
        };
        if verbose && option.spelled != VERBOSE {
            said.push(format!("{names}: {why}"));
        }
    }
    Ok(said)
}

/// Says what has no effect.
const VERBOSE: &str = "-v, --verbose";
const SAYS: &str = "options without effect are said";

impl PerfOption {
    /// Its spelling, what comes of it, and whether it is taken, for a manual page.
    pub(crate) fn entry(&self) -> (&'static str, &'static str, bool) {
        match self.fate {
            Fate::Idle(why) | Fate::Only(_, why, _) => (self.spelled, why, true),
            Fate::Refused(why) => (self.spelled, why, false),
        }
    }
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
