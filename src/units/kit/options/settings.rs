//! The options of units: one table for command line, palette and help.

use clap::error::{ContextKind, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::filter::expr::Expr;
use crate::lang::quantity::{self, QuantityError};
use crate::session::machine::cpu_list;
use crate::source::live::Target;

use crate::units::kit::{Spec, field};

/// An option of units.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    pub(crate) name: &'static str,
    pub(crate) short: Option<char>,
    /// Placeholder of the value; empty for a switch.
    pub value: &'static str,
    /// The default if the value is omitted; empty if the value is required.
    pub bare: &'static str,
    /// Whether it may be repeated.
    pub many: bool,
    pub(crate) help: &'static str,
}

const fn opt(name: &'static str, short: Option<char>, value: &'static str, many: bool, help: &'static str) -> Opt {
    Opt { name, short, value, bare: "", many, help }
}

impl Opt {
    const fn or(self, bare: &'static str) -> Self {
        Self { bare, ..self }
    }

    pub(crate) fn is_shared(&self) -> bool {
        SHARED.iter().any(|opt| opt.name == self.name)
    }

    /// Returns its argument of a command.
    pub(crate) fn arg(&'static self) -> Arg {
        let mut arg = Arg::new(self.name).long(self.name).help(self.help);
        if let Some(short) = self.short {
            arg = arg.short(short);
        }
        // perf-prof spells some options with _, some with -.
        let other = match self.name.contains('_') {
            true => self.name.replace('_', "-"),
            false => self.name.replace('-', "_"),
        };
        if other != self.name {
            arg = arg.alias(other);
        }
        match self.name {
            "comm" => arg = arg.alias("filter"),
            "cpu" => arg = arg.alias("cpus"),
            "percent" | "age" => arg = arg.alias("than"),
            "latency" => arg = arg.alias("ldlat"),
            "frequency" => arg = arg.alias("freq"),
            _ => {}
        }
        match (self.value, self.many, self.bare) {
            ("", ..) => arg.action(ArgAction::SetTrue),
            (name, true, _) => arg.value_name(name).action(ArgAction::Append),
            (name, false, "") => arg.value_name(name),
            (name, false, bare) => {
                arg.value_name(name).num_args(0..=1).default_missing_value(bare).require_equals(self.is_shared())
            }
        }
    }
}

/// The options of units; each unit takes some of them.
pub const OPTIONS: &[Opt] = &[
    opt(
        "event",
        Some('e'),
        "EVENTS",
        true,
        "Events, optionally followed by /FILTER/ATTRIBUTE/…: key=, num=, top-by=, top-add=, comm=, ptr=, size=, role=, \
         alias=, stack, untraced",
    ),
    opt("stack", Some('g'), "", false, "Record and show call chains"),
    opt("addresses", None, "", false, "Separate stacks by the address within each function"),
    opt("key", Some('k'), "EXPR", false, "Key of rows, or key by which events are paired"),
    opt("sum", None, "EXPR", true, "Add a column with the sum of EXPR"),
    opt("by", None, "EXPR", true, "Add a column with the sum of EXPR, and sort by it"),
    opt("num", None, "EXPR", false, "Number whose distribution is shown"),
    opt("than", None, "EXPR", false, "Count what took longer, and list it first: 4ms, or 'latency > 4ms && cpu == 3'"),
    opt("only-than", None, "EXPR", false, "Count only what exceeds EXPR, or the EXPR of --than").or(AS_THAN),
    opt("lower", None, "TIME", false, "Count what took less time, and list it first"),
    opt("comm", None, "NAMES", false, "Only threads of these names, or globs"),
    opt("pids", None, "PIDS", false, "Only these processes, like -p"),
    opt("tids", None, "TIDS", false, "Only these threads, like -t"),
    opt("per-thread", None, "", false, "Rows by thread"),
    opt("per-cpu", None, "", false, "Rows by CPU"),
    opt("only-comm", None, "", false, "Rows by comm"),
    opt("prio", None, "PRIOS", false, "Only tasks of these priorities: 0-99 real time, 100-139 others"),
    opt(
        "sched_policy",
        None,
        "POLICIES",
        false,
        "Only tasks of these policies: 0 normal, 1 FIFO, 2 round robin, 3 batch, 5 idle, 6 deadline",
    ),
    opt("cycle", None, "", false, "Pair the last event with the first"),
    opt(
        "keep",
        None,
        "N",
        false,
        "Number of slowest cases to keep [default: 20], or of newest events [default: 10k or more]",
    ),
    opt(
        "detail",
        None,
        "EVENTS",
        false,
        "Number of events to keep around a slow case [default: 64; 0 for none]; or their selection: samecpu, samepid, \
         sametid, samekey, of its first (1) or second (2) event, -TIME before it, hide<TIME without events that follow \
         within TIME",
    )
    .or("64"),
    opt("interruptible", Some('S'), "", false, "Only interruptible sleep"),
    opt("uninterruptible", Some('D'), "", false, "Only uninterruptible sleep"),
    opt("device", Some('d'), "DEV", false, "Only this disk: a name of /sys/class/block, or MAJOR:MINOR"),
    opt("alloc", None, "EVENTS", true, "Allocating events [default: kernel or C library, by the target]"),
    opt("free", None, "EVENTS", true, "Freeing events"),
    opt("age", None, "TIME", false, "Only allocations older than TIME, e.g. 10s"),
    opt("library", None, "FILE", false, "File with the allocator [default: the target's C library]"),
    opt("period", None, "TIME", false, "Length of a window, e.g. 1ms"),
    opt("frequency", Some('F'), "HZ", false, "Samples per second on each CPU"),
    opt(
        "when",
        None,
        "EXPR",
        false,
        "Condition on windows, over the counts of events and period, e.g. 'sched_switch > 100'",
    ),
    opt("paths", None, "", false, "Record the paths and socket addresses that system calls name"),
    opt("syscalls", None, "", false, "Also count system calls"),
    opt("spte", None, "", false, "Also follow shadow page entries"),
    opt("percent", None, "PERCENT", false, "Only seconds in which a CPU was busier than PERCENT"),
    opt("usdt", None, "PROBES", true, "Static probes: FILE, or FILE:provider:name"),
    opt("latency", None, "CYCLES", false, "Minimum latency of sampled loads [default: 30]"),
];

/// The options that every unit takes in addition to its own.
pub const SHARED: &[Opt] = &[
    opt("cpu", Some('C'), "CPUS", false, "Only these CPUs, e.g. 0-3,32"),
    opt("cgroups", None, "GROUPS", false, "Only these cgroups: paths below the root, with * and ?"),
    opt("container", None, "NAME", false, "Only this container: its name, beginning of its id, or a glob"),
    opt("pod", None, "POD", false, "Only this pod: [NAMESPACE/]NAME, or globs"),
    opt("exclude-user", None, "", false, "Exclude user code"),
    opt("exclude-kernel", None, "", false, "Exclude kernel code"),
    opt("exclude-guest", None, "", false, "Exclude guests of virtual machines"),
    opt("exclude-host", Some('G'), "", false, "Only guests of virtual machines"),
    opt("exclude_pid", None, "PIDS", false, "Exclude these processes"),
    opt("irqs_disabled", None, "0|1", false, "Only samples with interrupts off, or on with 0").or("1"),
    opt("tif_need_resched", None, "0|1", false, "Only samples with a pending reschedule, or without with 0").or("1"),
    opt("nr_running_min", None, "N", false, "Only samples with at least N runnable tasks on the CPU"),
    opt("nr_running_max", None, "N", false, "Only samples with at most N runnable tasks on the CPU"),
    opt("exit-N", Some('N'), "N", false, "End after N of its events"),
    opt("perins", None, "", false, "Rows by CPU, or by thread of a target, like --per-cpu and --per-thread"),
];

/// Whether a unit takes an option.
pub(crate) fn takes(spec: &Spec, option: &str) -> bool {
    options_of(spec).any(|opt| opt.name == option)
}

/// The options of a unit, then those of all units.
pub(crate) fn options_of(spec: &Spec) -> impl Iterator<Item = &'static Opt> + use<'_> {
    OPTIONS.iter().filter(|opt| spec.options.contains(&opt.name)).chain(SHARED)
}

/// The options among them that only a running kernel can evaluate, at the time of a sample.
pub const DECIDED_LIVE: &[&str] = &["irqs_disabled", "tif_need_resched", "nr_running_min", "nr_running_max"];

/// Options by which sampling units select tasks in the kernel, with the filter word; elsewhere, event fields.
pub(super) const OF_TASKS: &[(&str, &str)] = &[("prio", "prio"), ("sched_policy", "policy")];

pub(crate) fn is_number_list(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_digit() || b"-, ".contains(&c))
}

/// Returns a given option that a recording cannot evaluate.
pub fn decided_live(spec: &Spec, settings: &Settings) -> Option<&'static str> {
    let of_tasks = OF_TASKS.iter().map(|(name, _)| name).filter(|_| samples_tasks(spec));
    DECIDED_LIVE.iter().chain(of_tasks).find(|name| settings.has(name)).copied()
}

pub(super) fn samples_tasks(spec: &Spec) -> bool {
    spec.options.contains(&"sched_policy")
}

/// The value of `--only-than` that uses the threshold of `--than`.
const AS_THAN: &str = "than";

/// perf-prof's options of ring buffers and order, without effect for a unit among another's events.
fn ring_options() -> [Arg; 3] {
    let arg = |name: &'static str| Arg::new(name).long(name);
    [arg("watermark"), arg("mmap-pages").short('m'), arg("order").action(ArgAction::SetTrue)]
}

/// The options given to a unit.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    values: Vec<(&'static str, String)>,
    /// The target.
    pub target: Target,
    /// Whether descendants of the target's processes are excluded.
    pub alone: bool,
    /// The units that may be among events.
    pub units: &'static [&'static Spec],
}

impl Settings {
    /// Sets an option; the value of a switch is empty.
    pub fn set(&mut self, name: &'static str, value: &str) {
        self.values.push((name, value.to_owned()));
    }

    /// Adds the options that are given in a command's arguments.
    pub(crate) fn take(&mut self, options: impl Iterator<Item = &'static Opt>, matches: &ArgMatches) {
        for opt in options {
            match opt.value {
                "" => self.values.extend(matches.get_flag(opt.name).then(|| (opt.name, String::new()))),
                _ => {
                    let values = matches.get_many::<String>(opt.name).into_iter().flatten();
                    self.values.extend(values.map(|value| (opt.name, value.clone())));
                }
            }
        }
    }

    /// Whether an option is given.
    pub fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(own, _)| *own == name)
    }

    /// Returns the last value of an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.iter().rev().find(|(own, _)| *own == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of an option.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.values.iter().filter(move |(own, _)| *own == name).map(|(_, value)| value.as_str())
    }

    /// Returns a number.
    pub fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        self.quantity(name, quantity::count).map(|value| value.unwrap_or(default))
    }

    /// Returns a rate in Hz.
    pub fn hertz(&self, name: &str, default: u64) -> Result<u64, String> {
        self.quantity(name, quantity::hertz).map(|value| value.unwrap_or(default))
    }

    /// Returns a time in nanoseconds, which are also the default unit, as in expressions.
    pub fn time(&self, name: &str) -> Result<Option<u64>, String> {
        self.quantity(name, |text| quantity::time_by(text, 1))
    }

    fn quantity<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, QuantityError>) -> Result<Option<T>, String> {
        self.get(name).map(|text| read(text).map_err(|why| format!("--{name} {text}: {why}"))).transpose()
    }

    /// Returns the selected CPUs, sorted.
    pub fn cpus(&self) -> Result<Option<Vec<u32>>, String> {
        let list = |text: &str| match cpu_list(text) {
            Ok(list) if list.is_empty() => Err("-C: no CPU given".to_owned()),
            Ok(list) => Ok(list),
            Err(piece) => Err(format!("-C {text}: expected CPUs or ranges of CPUs, found {piece}")),
        };
        self.get("cpu").map(list).transpose()
    }

    /// Returns the latency threshold.
    pub fn than(&self) -> Result<Option<Expr>, String> {
        let above = self.get("than").or_else(|| self.get("only-than").filter(|text| *text != AS_THAN));
        match (above, self.time("lower")?) {
            (Some(_), Some(_)) => Err("--lower: --than 'latency > 1ms && latency < 2ms' says both".to_owned()),
            (None, Some(ns)) => field::than(&format!("latency < {ns}")).map(Some),
            (above, None) => above.map(field::than).transpose(),
        }
    }

    /// Returns the processes that were chosen by PID.
    pub(crate) fn processes(&self) -> &[i32] {
        if let Target::Processes(pids) = &self.target { pids } else { &[] }
    }

    pub(crate) fn has_choice(&self) -> bool {
        self.target != Target::System
            || ["comm", "cgroups", "container", "pod", "exclude_pid"].iter().any(|name| self.has(name))
    }

    /// Returns the settings for a session: without a target of their own, they use the session's.
    pub fn within(&self, session: &Target, alone: bool) -> Self {
        let own = self.target != Target::System || ["cgroups", "container", "pod"].iter().any(|name| self.has(name));
        if own { self.clone() } else { Self { target: session.clone(), alone, ..self.clone() } }
    }

    /// Returns the settings without a target and CPUs.
    pub(crate) fn of_all(&self) -> Self {
        Self { target: Target::System, ..self.without(&["cpu"]) }
    }

    pub(crate) fn without(&self, names: &[&str]) -> Self {
        let mut out = self.clone();
        out.values.retain(|(own, _)| !names.contains(own));
        out
    }

    pub(crate) fn among(self, units: &'static [&'static Spec]) -> Self {
        Self { units, ..self }
    }

    /// Parses options as typed after a unit's name: `--key pid -g`.
    pub fn parse(words: &[String], spec: &Spec) -> Result<Self, String> {
        let address = |word: &str| address_event(word).ok_or("expected an option such as --key");
        let addresses = Arg::new(ADDRESSES).num_args(0..).value_parser(address);
        // perf-prof requires -g where the units here always take stacks.
        let stack = Arg::new("stack").short('g').long("stack").action(ArgAction::SetTrue);
        // The letters that the command line takes for targets.
        let option = |opt: &'static Opt| match opt.name {
            "pids" => opt.arg().short('p'),
            "tids" => opt.arg().short('t'),
            _ => opt.arg(),
        };
        let command = Command::new(spec.name)
            .no_binary_name(true)
            .disable_help_flag(true)
            .args_override_self(true)
            .args(options_of(spec).map(option))
            .args(ring_options())
            .args((!takes(spec, "stack")).then_some(stack))
            // If events are allowed, an address is a breakpoint event.
            .args(takes(spec, "event").then_some(addresses));
        let mut matches = command.try_get_matches_from(words).map_err(|error| refused(spec, &error))?;
        let mut settings = Self::default();
        settings.take(options_of(spec), &matches);
        let events = matches.try_remove_many::<String>(ADDRESSES).ok().flatten();
        settings.values.extend(events.into_iter().flatten().map(|event| ("event", event)));
        Ok(settings)
    }
}

const ADDRESSES: &str = "ADDR[/LEN][:rwx]";

/// Describes wrong options in a line.
fn refused(spec: &Spec, error: &clap::Error) -> String {
    let typed = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    match error.kind() {
        // clap reads the value of a switch, as in `-g=1`, as further switches.
        ErrorKind::UnknownArgument if typed == "-=" => "a switch such as -g takes no value".to_owned(),
        ErrorKind::UnknownArgument if typed.starts_with('-') => {
            let list: Vec<String> = spec.options.iter().map(|name| format!("--{name}")).collect();
            format!("unknown option {typed} here; available: {}", list.join(" "))
        }
        ErrorKind::UnknownArgument => format!("{typed}: expected an option such as --key"),
        _ => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    }
}

/// Converts perf-prof's address `ADDR[/LEN][:rwx]` to an event. The default is one byte, write access.
pub fn address_event(word: &str) -> Option<String> {
    let (place, access) = word.split_once(':').unwrap_or((word, "w"));
    let (address, len) = place.split_once('/').unwrap_or((place, "1"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    let hex = address.strip_prefix("0x").is_some_and(|text| u64::from_str_radix(text, 16).is_ok());
    let is_access = !access.is_empty() && access.bytes().all(|c| b"rwx".contains(&c));
    let is_place = (hex || is_number(address)) && is_number(len) && is_access;
    is_place.then(|| match access {
        "x" => format!("mem:{address}:x"),
        _ => format!("mem:{address}/{len}:{access}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units;

    fn parse(unit: &str, text: &str) -> Result<Settings, String> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Settings::parse(&words, units::find(unit).expect("a unit"))
    }

    #[test]
    fn options_as_typed() {
        let s = parse("top", "-g --key=pid -e a:b").expect("parses");
        assert!(s.has("stack") && s.get("key") == Some("pid") && s.get("event") == Some("a:b"));
        assert_eq!(parse("usdt", "--keep 5").expect("parses").number("keep", 1), Ok(5));
        for (text, why) in
            [("--kee 1", "unknown option"), ("-g=1", "takes no value"), ("--keep", "required"), ("x", "expected")]
        {
            let error = parse("usdt", text).expect_err(text);
            assert!(error.contains(why) && !error.contains('\n'), "{error}");
        }
        // Findings of the overview name their process so.
        for unit in ["locks", "page-faults", "tcp", "rundelay"] {
            let s = parse(unit, "-p 42 -t 43").expect("parses");
            assert_eq!((s.get("pids"), s.get("tids")), (Some("42"), Some("43")), "{unit}");
        }
        assert_eq!(parse("trace", "-F99 -g").expect("parses").get("frequency"), Some("99"));
        let s = parse("multi-trace", "--detail -g --irqs_disabled=0 --cgroups a*").expect("parses");
        assert_eq!((s.get("detail"), s.get("irqs_disabled"), s.get("cgroups")), (Some("64"), Some("0"), Some("a*")));
        assert_eq!(parse("multi-trace", "--detail 5").expect("parses").get("detail"), Some("5"));
        // As in perf-prof's manual, between the slashes of an event.
        let s = parse("offcpu", "-F 500 --watermark 50 -m 8 -g -N 10").expect("parses");
        assert_eq!((s.get("frequency"), s.get("exit-N"), s.has("stack")), (Some("500"), Some("10"), false));
        let s = parse("breakpoint", "0x1f0:rw -g 4096/8 0xffff/4:x").expect("parses");
        let events: Vec<&str> = s.all("event").collect();
        assert_eq!(events, ["mem:0x1f0/1:rw", "mem:4096/8:w", "mem:0xffff:x"]);
    }

    #[test]
    fn what_is_lower_or_only_greater() {
        let than = |text: &str| parse("rundelay", text).expect("parses").than();
        let than = |text: &str| than(text).map(|expr| expr.map(|expr| format!("{expr:?}").replace(' ', "")));
        assert_eq!(than("--only-than=4ms"), than("--than 4ms"));
        assert_eq!(than("--than 4ms --only-than"), than("--than 4ms"));
        assert_eq!(than("--lower 1ms"), than("--than latency<1000000"));
        assert!(than("--only-than") == Ok(None) && than("--lower 1ms --than 1s").is_err());
    }

    #[test]
    fn no_option_means_two_things() {
        let all: Vec<&Opt> = OPTIONS.iter().chain(SHARED).collect();
        for (i, opt) in all.iter().enumerate() {
            let same = |other: &&Opt| other.name == opt.name || opt.short.is_some() && other.short == opt.short;
            assert!(!all[i + 1..].iter().any(same), "{}", opt.name);
        }
    }

    #[test]
    fn units_take_existing_options() {
        for spec in units::UNITS {
            let missing = |name: &&&str| !OPTIONS.iter().any(|opt| opt.name == **name);
            assert_eq!(spec.options.iter().find(missing), None, "{}", spec.name);
        }
    }
}
