//! The commands of analysis units, made from their descriptions.

use std::ffi::OsString;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command, FromArgMatches, ValueHint, value_parser};

use crate::cli::{help, perf_options};
use crate::event::CallGraph;
use crate::lang::quantity;
use crate::units::kit::settings::{OPTIONS, Opt, SHARED, address_event};
use crate::units::kit::{Settings, Spec};
use crate::units::{self, UNITS};

use super::{Format, NameArgs};

/// Unit commands that another command of ours has the name of: they are reached by `unit NAME`.
const TAKEN: &[&str] = &["stat"];

/// Options that say in other words what one of them says already: the help of one screen does without.
const RARE: &[&str] = &["only-than", "lower"];

/// The unit that takes addresses as words of their own.
const BREAKPOINT: &str = "breakpoint";

/// Adds a command for each unit, and `unit` for all of them; with arguments where they are asked for by name.
pub(crate) fn add(mut command: Command, is_asked: &dyn Fn(&str) -> bool) -> Command {
    let mut all = Command::new("unit").about("Run an analysis unit by its name").subcommand_required(true);
    for spec in UNITS {
        let own = if is_asked(spec.name) { of(spec) } else { Command::new(spec.name).about(capital(spec.about)) };
        if !TAKEN.contains(&spec.name) {
            command = command.subcommand(own.clone());
        }
        all = all.subcommand(own);
    }
    command.subcommand(all)
}

/// The unit that a command line names.
pub(crate) fn find(matches: &ArgMatches) -> Option<(&'static Spec, &ArgMatches)> {
    let (name, own) = match matches.subcommand()? {
        ("unit", inner) => inner.subcommand()?,
        (name, own) if !TAKEN.contains(&name) => (name, own),
        _ => return None,
    };
    units::find(name).map(|spec| (spec, own))
}

fn switch(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
}

fn value(id: &'static str, name: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).value_name(name).help(help)
}

/// The command of a unit.
pub(crate) fn of(spec: &'static Spec) -> Command {
    let about = capital(spec.about);
    let output = if spec.output.is_empty() { String::new() } else { format!("\n\n{}", spec.output) };
    let long = format!("{about}.\n\n{}\n\nExample: {}{output}", spec.help, spec.example);
    let mut command = Command::new(spec.name).max_term_width(100).args([
        Arg::new("files")
            .value_name("FILE")
            .num_args(0..)
            .value_hint(ValueHint::FilePath)
            .help("A recording that holds its events, instead of the running machine"),
        Arg::new("interval").short('i').long("interval").value_name("S|FILE").action(ArgAction::Append).help(format!(
            "Seconds after which figures are printed and reset (milliseconds from 100 on, or 500ms) [default: {}]; a word \
             that is no time is a recording, as -i of other commands",
            match spec.interval {
                Some(seconds) => format!("{seconds}, with --duration one report at the end"),
                None => "one report at the end".to_owned(),
            }
        )),
        switch("batch", "Print figures, without a screen (so it is without a terminal)"),
        Arg::new("format")
            .long("format")
            .value_parser(value_parser!(Format))
            .default_value("text")
            .help("How figures are printed"),
        value("panel", "TITLE", "Print only panels whose title begins so (CSV: the first one)")
            .action(ArgAction::Append),
        Arg::new("count")
            .short('n')
            .long("count")
            .value_name("N")
            .value_parser(quantity::count::<u64>)
            .help("End after so many intervals"),
        Arg::new("output")
            .short('o')
            .long("output")
            .value_name("FILE")
            .value_hint(ValueHint::FilePath)
            .hide_short_help(true)
            .help("Print figures into this file"),
        value("duration", "S", "End after so many seconds").value_parser(quantity::duration),
        value("flame-graph", "NAME", "Write stacks to NAME.folded, with -i after DATE;TIME; - for standard output"),
        value(
            "heatmap",
            "NAME",
            "Write `TIME LATENCY` in nanoseconds, as trace2heatmap reads it, to NAME-EVENT-EVENT.lat; - for standard output",
        ),
        switch("all-cpus", "The whole machine (the default without a target)").short('a'),
        value("cpu", "CPUS", "Only these CPUs, e.g. 0-3,32").short('C').alias("cpus"),
        value("pid", "PIDS", "These processes and what they start").short('p').alias("pids"),
        value("tid", "TIDS", "Only these threads").short('t').alias("tids").conflicts_with("pid"),
        value(
            "call-graph",
            "MODE",
            "How user call chains are taken: fp (frame pointers), tables, dwarf or dwarf,SIZE, lbr, none or auto",
        )
        .default_value("fp"),
        value("mmap-pages", "PAGES", "Data pages of each CPU's ring buffer (or 512K, 4M)").short('m'),
        switch("order", "Nothing: records are always in the order of time").hide_short_help(true),
        value("order-mem", "SIZE", "Nothing: what waits for its order takes what --memory leaves").hide_short_help(true),
        Arg::new("describe")
            .long("describe")
            .action(ArgAction::SetTrue)
            .help("Print these options and the fields of its events; so does the word help in place of a command"),
        Arg::new("cmd").value_name("CMD").num_args(0..).last(true).help("A command to start and follow"),
    ]);
    let heading = |opt: &Opt| if RARE.contains(&opt.name) { "More options of this unit" } else { help::OWN };
    let own = own_options(spec).map(|opt| (opt, heading(opt)));
    for (opt, heading) in own.chain(shared_options().map(|opt| (opt, "Options of all units"))) {
        command = command.arg(arg(opt).help_heading(heading));
    }
    let command = NameArgs::augment_args(command.next_help_heading("Names of a recording"));
    // -k is the key of units. Arguments that are added in a group bring the group's description along, so that
    // the unit's own comes after them.
    let command = command.mut_arg("vmlinux", |arg| arg.short(None)).about(about).long_about(long);
    perf_options::add_to_unit(spec.name, command)
}

fn arg(opt: &'static Opt) -> Arg {
    let mut arg = Arg::new(opt.name).long(opt.name).help(opt.help);
    if let Some(short) = opt.short {
        arg = arg.short(short);
    }
    // perf-prof writes some with the one, some with the other.
    let other = match opt.name.contains('_') {
        true => opt.name.replace('_', "-"),
        false => opt.name.replace('-', "_"),
    };
    if other != opt.name {
        arg = arg.alias(other);
    }
    match opt.name {
        "comm" => arg = arg.alias("filter"),
        "percent" | "age" => arg = arg.alias("than"),
        "latency" => arg = arg.alias("ldlat"),
        "frequency" => arg = arg.alias("freq"),
        _ => {}
    }
    match (opt.value, opt.many, opt.bare) {
        ("", ..) => arg.action(ArgAction::SetTrue),
        (name, true, _) => arg.value_name(name).action(ArgAction::Append),
        (name, false, "") => arg.value_name(name),
        (name, false, bare) => {
            arg.value_name(name).num_args(0..=1).default_missing_value(bare).require_equals(SHARED.contains(&opt.name))
        }
    }
}

/// The options of all units that say what is measured.
pub(crate) fn shared_options() -> impl Iterator<Item = &'static Opt> {
    OPTIONS.iter().filter(|opt| SHARED.contains(&opt.name))
}

/// The options that a unit has besides those of all.
pub(crate) fn own_options(spec: &Spec) -> impl Iterator<Item = &'static Opt> + use<'_> {
    OPTIONS.iter().filter(|opt| spec.options.contains(&opt.name) && !matches!(opt.name, "pids" | "tids"))
}

/// What is wrong with an option that only other units have, by their names.
pub(crate) fn of_others(spec: &Spec, error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_typed = |opt: &&Opt| match typed.strip_prefix("--") {
        Some(long) => opt.name == long.split('=').next().unwrap_or(long),
        None => opt.short.is_some_and(|short| typed.strip_prefix('-').is_some_and(|rest| rest.starts_with(short))),
    };
    let opt = OPTIONS.iter().find(is_typed)?;
    let having: Vec<&str> =
        UNITS.iter().filter(|other| other.options.contains(&opt.name)).map(|other| other.name).collect();
    let name = spec.name;
    Some(format!("{name}: {typed} cannot apply to it; it is an option of {}", having.join(", ")))
}

/// The unit that words call.
pub(crate) fn called(words: &[OsString]) -> Option<&'static Spec> {
    let mut names = words.iter().skip(1).filter_map(|word| word.to_str()).skip_while(|word| *word == "unit");
    names.next().and_then(units::find)
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

/// The arguments after a unit's name.
#[derive(Debug)]
pub(crate) struct UnitArgs {
    pub(crate) settings: Settings,
    /// The unit's options as `:unit` takes them.
    pub(crate) words: Vec<String>,
    pub(crate) files: Vec<std::path::PathBuf>,
    pub(crate) interval: Option<Duration>,
    /// An interval that was taken for milliseconds.
    pub(crate) taken_for_ms: Option<String>,
    pub(crate) batch: bool,
    pub(crate) format: Format,
    pub(crate) panels: Vec<String>,
    pub(crate) count: Option<u64>,
    /// Where figures are printed, unless on standard output.
    pub(crate) output: Option<std::path::PathBuf>,
    pub(crate) duration: Option<Duration>,
    pub(crate) folded: Option<String>,
    pub(crate) points: Option<String>,
    pub(crate) cpus: Option<String>,
    pub(crate) pids: Option<String>,
    pub(crate) tids: Option<String>,
    pub(crate) pages: Option<String>,
    pub(crate) chains: CallGraph,
    pub(crate) cmd: Vec<std::ffi::OsString>,
    pub(crate) names: NameArgs,
    /// Whether only its options and events are wanted.
    pub(crate) describe: bool,
}

/// Seconds from which on a plain number after `-i` is milliseconds, as perf-prof has it.
const MILLISECONDS_FROM: f64 = 100.0;

impl UnitArgs {
    /// Reads the matches of a unit's command.
    pub(crate) fn of(spec: &Spec, matches: &ArgMatches) -> Result<Self, clap::Error> {
        let one = |id: &str| matches.get_one::<String>(id).cloned();
        let many =
            |id: &str| -> Vec<String> { matches.get_many::<String>(id).into_iter().flatten().cloned().collect() };
        let (mut settings, mut words) = (Settings::default(), Vec::new());
        for opt in own_options(spec).chain(shared_options()) {
            let values = match (opt.value, opt.many) {
                ("", _) if matches.get_flag(opt.name) => vec![String::new()],
                ("", _) => Vec::new(),
                (_, true) => many(opt.name),
                (_, false) => one(opt.name).into_iter().collect(),
            };
            for value in values {
                words.push(format!("--{}", opt.name));
                words.extend((!opt.value.is_empty()).then(|| value.clone()));
                settings
                    .set(opt.name, &value)
                    .map_err(|why| clap::Error::raw(clap::error::ErrorKind::InvalidValue, why))?;
            }
        }
        let mut files: Vec<std::path::PathBuf> = Vec::new();
        for word in many("files") {
            match address_event(&word).filter(|_| spec.name == BREAKPOINT) {
                Some(event) => {
                    words.extend(["--event".to_owned(), event.clone()]);
                    settings
                        .set("event", &event)
                        .map_err(|why| clap::Error::raw(clap::error::ErrorKind::InvalidValue, why))?;
                }
                None => files.push(word.into()),
            }
        }
        let (mut interval, mut taken_for_ms) = (None, None);
        for word in many("interval") {
            match quantity::duration(&word) {
                Ok(_) if word.parse().is_ok_and(|n: f64| n >= MILLISECONDS_FROM) => {
                    interval = quantity::milliseconds(&word).ok();
                    taken_for_ms = Some(word);
                }
                Ok(time) => interval = Some(time),
                Err(_) => files.push(word.into()),
            }
        }
        let folded = one("flame-graph");
        if folded.is_some() && spec.options.contains(&"stack") && !settings.has("stack") {
            settings.set("stack", "").map_err(|why| clap::Error::raw(clap::error::ErrorKind::InvalidValue, why))?;
        }
        Ok(Self {
            settings,
            words,
            files,
            interval,
            taken_for_ms,
            batch: matches.get_flag("batch"),
            format: matches.get_one("format").copied().unwrap_or(Format::Text),
            panels: many("panel"),
            count: matches.get_one("count").copied(),
            output: one("output").map(Into::into),
            duration: matches.get_one("duration").copied(),
            folded,
            points: one("heatmap"),
            cpus: one("cpu"),
            pids: one("pid"),
            tids: one("tid"),
            pages: one("mmap-pages"),
            chains: CallGraph::parse(&one("call-graph").unwrap_or_default())
                .map_err(|why| clap::Error::raw(clap::error::ErrorKind::InvalidValue, why))?,
            cmd: many("cmd").into_iter().map(Into::into).collect(),
            names: NameArgs::from_arg_matches(matches)?,
            describe: matches.get_flag("describe"),
        })
    }
}
