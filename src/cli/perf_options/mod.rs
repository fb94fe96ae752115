//! perf's options that this program does not implement: ignored if they cannot matter here, or refused with an
//! alternative. They are spelled as in perf's help.

mod other;
mod reading;
mod recording;
mod units;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use super::spelling;
use crate::ui::commands::table;
use crate::ui::keys;

/// An option of perf, spelled as its help spells it: `-m, --mmap-pages <pages>`, `--aio[=<n>]`.
pub(crate) struct PerfOption {
    spelled: &'static str,
    fate: Fate,
}

enum Fate {
    /// Accepted without effect, for this reason.
    Idle(&'static str),
    /// Refused, with the reason and an alternative.
    Refused(&'static str),
    /// With one of these values, no effect for the first reason; with others, refused for the second.
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

pub(crate) fn of_command(name: &str) -> impl Iterator<Item = &'static PerfOption> {
    TABLES.iter().filter(move |(of, _)| *of == name).flat_map(|(_, options)| *options)
}

/// Returns the options that perf-prof's profiler of this name has and the unit lacks.
pub(crate) fn of_unit(name: &str) -> impl Iterator<Item = &'static PerfOption> + use<'_> {
    let own = units::OF_ONE.iter().filter(move |(unit, _)| *unit == name).flat_map(|(_, options)| *options);
    let spec = crate::units::find(name);
    let is_its_own = move |option: &&PerfOption| {
        let long = Spelling::of(option.spelled).long;
        spec.zip(long).is_some_and(|(spec, long)| spec.options.contains(&long))
    };
    units::OF_ALL.iter().chain(own).filter(move |option| !is_its_own(option))
}

/// Adds the options to a command. The help hides them; the manual pages list them.
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

/// Refuses unsupported options. With -v, returns messages about the options without effect.
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
            Fate::Refused(why) => anyhow::bail!("{names}: {}", with_keys(why)),
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
            said.push(format!("{names}: {}", with_keys(why)));
        }
    }
    Ok(said)
}

/// Replaces `{name}` of a command of the screens by its key and name: `r p (:pause)`.
fn with_keys(text: &str) -> String {
    let mut parts = text.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let command = part.split_once('}').and_then(|(name, rest)| table::find(name).zip(Some(rest)));
        match command {
            Some((row, rest)) => {
                let key = row.keys.first().map(|key| keys::shown(key));
                out += &key.map_or_else(|| format!(":{}", row.name), |key| format!("{key} (:{})", row.name));
                out += rest;
            }
            None => out += &format!("{{{part}"),
        }
    }
    out
}

/// Option that lists the options without effect.
const VERBOSE: &str = "-v, --verbose";
const SAYS: &str = "lists the options that have no effect";

impl PerfOption {
    /// Returns the spelling, the reason, and whether the option is accepted, for a manual page.
    pub(crate) fn entry(&self) -> (&'static str, String, bool) {
        match self.fate {
            Fate::Idle(why) | Fate::Only(_, why, _) => (self.spelled, with_keys(why), true),
            Fate::Refused(why) => (self.spelled, with_keys(why), false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_keys_of_the_command_table() {
        assert_eq!(with_keys("{pause}, {forget} and {a,b}"), "r p (:pause), :forget and {a,b}");
        let tables = TABLES.iter().map(|(_, options)| *options).chain([units::OF_ALL]);
        let all = tables.chain(units::OF_ONE.iter().map(|(_, options)| *options)).flatten();
        for (spelled, why, _) in all.map(PerfOption::entry) {
            let names = why.split('{').skip(1).filter_map(|rest| rest.split_once('}'));
            let unknown = names.map(|(name, _)| name).find(|name| !name.is_empty() && !name.contains([',', ' ']));
            assert_eq!(unknown, None, "{spelled}: {why}");
        }
    }

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
