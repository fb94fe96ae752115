//! The options of units: one table for command line, palette and help.

use crate::filter::expr::Expr;
use crate::lang::nearest;
use crate::lang::quantity::{self, QuantityError};
use crate::session::machine::cpu_list;
use crate::source::live::Target;

use super::{Spec, field};

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
}

/// All options.
pub const OPTIONS: &[Opt] = &[
    opt(
        "event",
        Some('e'),
        "EVENTS",
        true,
        "Events, each perhaps followed by /FILTER/ATTRIBUTE/…: key=, num=, top-by=, top-add=, comm=, ptr=, size=, role=, alias=, stack, untraced",
    ),
    opt("stack", Some('g'), "", false, "Take call chains, and show them"),
    opt("addresses", None, "", false, "Stacks with the place in each function, those apart that differ in it"),
    opt("key", Some('k'), "EXPR", false, "What tells rows apart, or what events are paired by"),
    opt("sum", None, "EXPR", true, "Another column: the sum of this"),
    opt("by", None, "EXPR", true, "The same, and the order of the rows"),
    opt("num", None, "EXPR", false, "The number to distribute"),
    opt("than", None, "EXPR", false, "Count, and keep first, what took longer: 4ms, or 'latency > 4ms && cpu == 3'"),
    opt("only-than", None, "EXPR", false, "Count nothing else, as --than says or this does").or(AS_THAN),
    opt("lower", None, "TIME", false, "Count, and keep first, what took less"),
    opt("comm", None, "NAMES", false, "Only threads of these names, with * and ?"),
    opt("pids", None, "PIDS", false, "Only these processes (as -p)"),
    opt("tids", None, "TIDS", false, "Only these threads (as -t)"),
    opt("per-thread", None, "", false, "Rows by thread"),
    opt("per-cpu", None, "", false, "Rows by CPU"),
    opt("only-comm", None, "", false, "Rows by the names of commands"),
    opt("prio", None, "PRIOS", false, "Only tasks of these priorities: 0-99 real time, 100-139 others"),
    opt("sched_policy", None, "POLICIES", false, "Only tasks of these policies: 0 normal, 1 FIFO, 2 round robin, 3 batch, 5 idle, 6 deadline"),
    opt("cycle", None, "", false, "The last event pairs with the first again"),
    opt("keep", None, "N", false, "How many of the slowest are kept (20)"),
    opt(
        "detail",
        None,
        "EVENTS",
        false,
        "How many events around a slow case are kept (64; 0 for none); or which: samecpu, samepid, sametid, samekey, of \
         its first (1) or second (2) event, -TIME before it, hide<TIME without those that follow so soon",
    )
    .or("64"),
    opt("interruptible", Some('S'), "", false, "Only interruptible sleep"),
    opt("uninterruptible", Some('D'), "", false, "Only uninterruptible sleep"),
    opt("device", Some('d'), "DEV", false, "Only this disk: a name of /sys/class/block, or MAJOR:MINOR"),
    opt("alloc", None, "EVENTS", true, "What allocates (default: by the target, kernel or libc)"),
    opt("free", None, "EVENTS", true, "What frees"),
    opt("age", None, "TIME", false, "Only allocations that have lived longer, e.g. 10s"),
    opt("library", None, "FILE", false, "The file that allocates (default: the C library of the target)"),
    opt("period", None, "TIME", false, "The window of time, e.g. 1ms"),
    opt("frequency", Some('F'), "HZ", false, "Samples a second on each CPU"),
    opt("when", None, "EXPR", false, "Which windows count: over events' counts and period, e.g. 'sched_switch > 100'"),
    opt("syscalls", None, "", false, "Count system calls, too"),
    opt("spte", None, "", false, "Follow entries of shadow pages, too"),
    opt("percent", None, "PERCENT", false, "Only seconds in which a CPU was busier"),
    opt("usdt", None, "PROBES", true, "Static probes: FILE, or FILE:provider:name"),
    opt("latency", None, "CYCLES", false, "The least latency of a load that is sampled (30)"),
    opt("cpu", Some('C'), "CPUS", false, "Only these CPUs, e.g. 0-3,32"),
    opt("cgroups", None, "GROUPS", false, "Only what runs in these cgroups: paths below the tree's root, with * and ?"),
    opt(
        "container",
        None,
        "NAME",
        false,
        "Only what runs in a container: its name, the beginning of its id, or a glob",
    ),
    opt("pod", None, "POD", false, "Only what runs in a pod: [NAMESPACE/]NAME, or globs of them"),
    opt("exclude-user", None, "", false, "No samples of user code"),
    opt("exclude-kernel", None, "", false, "No samples of the kernel"),
    opt("exclude-guest", None, "", false, "No samples of virtual machines' guests"),
    opt("exclude-host", Some('G'), "", false, "Only samples of virtual machines' guests"),
    opt("exclude_pid", None, "PIDS", false, "Nothing of these processes"),
    opt("irqs_disabled", None, "0|1", false, "Only samples with interrupts off, or with 0 on").or("1"),
    opt("tif_need_resched", None, "0|1", false, "Only samples while another task is to run, or with 0 the others")
        .or("1"),
    opt("nr_running_min", None, "N", false, "Only samples with so many tasks or more that want the CPU"),
    opt("nr_running_max", None, "N", false, "Only samples with no more than so many"),
    opt("exit-N", Some('N'), "N", false, "End after so many of its events"),
    opt("perins", None, "", false, "Rows for each CPU or, of a target, each thread (as --per-cpu and --per-thread)"),
];

/// The options that every unit takes in addition to its own.
pub const SHARED: &[&str] = &[
    "cpu",
    "cgroups",
    "container",
    "pod",
    "exclude-user",
    "exclude-kernel",
    "exclude-guest",
    "exclude-host",
    "exclude_pid",
    "irqs_disabled",
    "tif_need_resched",
    "nr_running_min",
    "nr_running_max",
    "exit-N",
    "perins",
];

/// The options among them that only a running kernel can evaluate, at the time of a sample.
pub const DECIDED_LIVE: &[&str] = &["irqs_disabled", "tif_need_resched", "nr_running_min", "nr_running_max"];

/// Options by which a sampling unit selects tasks in the kernel, with the filter word. For other units they refer to
/// event fields.
pub(super) const OF_TASKS: &[(&str, &str)] = &[("prio", "prio"), ("sched_policy", "policy")];

/// Whether a text contains only numbers and ranges.
pub(crate) fn is_number_list(text: &str) -> bool {
    text.bytes().all(|c| c.is_ascii_digit() || b"-, ".contains(&c))
}

/// Returns a given option that a recording cannot evaluate.
pub fn decided_live(spec: &super::Spec, settings: &Settings) -> Option<&'static str> {
    let of_tasks = OF_TASKS.iter().map(|(name, _)| name).filter(|_| samples_tasks(spec));
    DECIDED_LIVE.iter().chain(of_tasks).find(|name| settings.has(name)).copied()
}

/// Whether a unit samples tasks in the kernel.
pub(super) fn samples_tasks(spec: &super::Spec) -> bool {
    spec.options.contains(&"sched_policy")
}

/// The value of `--only-than` that uses the threshold of `--than`.
const AS_THAN: &str = "than";

/// perf-prof's ring buffer and order options, ignored for a unit among another's events, and whether they take a
/// value.
const OF_RINGS: &[(&str, bool)] = &[("--watermark", true), ("-m", true), ("--mmap-pages", true), ("--order", false)];

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
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let known = OPTIONS.iter().find(|opt| opt.name == name).ok_or_else(|| {
            let near = nearest(name, OPTIONS.iter().map(|opt| opt.name));
            format!("unknown option --{name}; nearest: --{}", near.join(", --"))
        })?;
        self.values.push((known.name, value.to_owned()));
        Ok(())
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

    /// Returns a time in nanoseconds.
    ///
    /// Nanoseconds are also the default unit, as in expressions.
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

    /// Whether only some threads are selected.
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

    /// Returns the settings without some options.
    pub(crate) fn without(&self, names: &[&str]) -> Self {
        let mut out = self.clone();
        out.values.retain(|(own, _)| !names.contains(own));
        out
    }

    /// Returns the settings with the units that may be among events.
    pub(crate) fn among(self, units: &'static [&'static Spec]) -> Self {
        Self { units, ..self }
    }

    /// Parses options as typed after a unit's name: `--key pid -g`.
    pub fn parse(words: &[String], allowed: &[&str]) -> Result<Self, String> {
        let mut settings = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if let Some((_, has_value)) = OF_RINGS.iter().find(|(name, _)| name == word) {
                has_value.then(|| words.next());
                continue;
            }
            // If events are allowed, an address is a breakpoint event.
            if allowed.contains(&"event")
                && let Some(event) = address_event(word)
            {
                settings.set("event", &event)?;
                continue;
            }
            let (name, value) = match word.strip_prefix("--") {
                Some(long) => match long.split_once('=') {
                    Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                    None => (long.to_owned(), None),
                },
                None => {
                    let rest = word.strip_prefix('-').unwrap_or_default();
                    let short = rest.chars().next();
                    let own = OPTIONS.iter().find(|opt| short.is_some() && opt.short == short);
                    // A value may follow a short option directly.
                    let joined = short.map(|letter| &rest[letter.len_utf8()..]).filter(|value| !value.is_empty());
                    let own = own.filter(|opt| joined.is_none() || !opt.value.is_empty());
                    let own = own.ok_or_else(|| format!("{word}: expected an option such as --key"))?;
                    (own.name.to_owned(), joined.map(str::to_owned))
                }
            };
            // perf-prof requires -g where the units here always take stacks.
            if name == "stack" && value.is_none() && !allowed.contains(&"stack") {
                continue;
            }
            let may = |opt: &&Opt| opt.name == name && [allowed, SHARED].iter().any(|list| list.contains(&opt.name));
            let opt = OPTIONS.iter().find(may).ok_or_else(|| {
                let list: Vec<String> = allowed.iter().map(|name| format!("--{name}")).collect();
                format!("unknown option --{name} here; available: {}", list.join(" "))
            })?;
            let value = match (opt.value, value) {
                ("", None) => String::new(),
                ("", Some(_)) => return Err(format!("--{name} takes no value")),
                (_, Some(value)) => value,
                (_, None) if !opt.bare.is_empty() && bare(words.as_slice().first()) => opt.bare.to_owned(),
                (what, None) => words.next().cloned().ok_or_else(|| format!("--{name}: its {what} is missing"))?,
            };
            settings.set(opt.name, &value)?;
        }
        Ok(settings)
    }
}

/// Converts perf-prof's address `ADDR[/LEN][:rwx]` to an event.
///
/// The default is one byte, write access.
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

/// Whether a word cannot be the optional value of the previous option.
fn bare(next: Option<&String>) -> bool {
    next.is_none_or(|word| !word.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_as_typed() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let s = Settings::parse(&words("-g --key=pid --keep 5"), &["stack", "key", "keep"]).expect("parses");
        assert!(s.has("stack") && s.get("key") == Some("pid") && s.number("keep", 1) == Ok(5));
        for (text, why) in
            [("--kee 1", "unknown option"), ("-g=1", "expected"), ("--keep", "missing"), ("x", "expected")]
        {
            let error = Settings::parse(&words(text), &["stack", "keep"]).expect_err(text);
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(
            Settings::parse(&words("-F99 -g"), &["frequency", "stack"]).expect("parses").get("frequency"),
            Some("99")
        );
        let s = Settings::parse(&words("--detail -g --irqs_disabled=0 --cgroups a*"), &["stack", "detail"])
            .expect("parses");
        assert_eq!((s.get("detail"), s.get("irqs_disabled"), s.get("cgroups")), (Some("64"), Some("0"), Some("a*")));
        assert_eq!(Settings::parse(&words("--detail 5"), &["detail"]).expect("parses").get("detail"), Some("5"));
        // As in perf-prof's manual, between the slashes of an event.
        let s = Settings::parse(&words("-F 500 --watermark 50 -m 8 -g -N 10"), &["frequency"]).expect("parses");
        assert_eq!((s.get("frequency"), s.get("exit-N"), s.has("stack")), (Some("500"), Some("10"), false));
        let s = Settings::parse(&words("0x1f0:rw -g 4096/8 0xffff/4:x"), &["event"]).expect("parses");
        let events: Vec<&str> = s.all("event").collect();
        assert_eq!(events, ["mem:0x1f0/1:rw", "mem:4096/8:w", "mem:0xffff:x"]);
    }

    #[test]
    fn what_is_lower_or_only_greater() {
        let than = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            Settings::parse(&words, &["than", "only-than", "lower"]).expect("parses").than()
        };
        let than = |text: &str| than(text).map(|expr| expr.map(|expr| format!("{expr:?}").replace(' ', "")));
        assert_eq!(than("--only-than=4ms"), than("--than 4ms"));
        assert_eq!(than("--than 4ms --only-than"), than("--than 4ms"));
        assert_eq!(than("--lower 1ms"), than("--than latency<1000000"));
        assert!(than("--only-than") == Ok(None) && than("--lower 1ms --than 1s").is_err());
    }

    #[test]
    fn no_option_means_two_things() {
        for (i, opt) in OPTIONS.iter().enumerate() {
            let same = |other: &Opt| other.name == opt.name || opt.short.is_some() && other.short == opt.short;
            assert!(!OPTIONS[i + 1..].iter().any(same), "{}", opt.name);
        }
    }
}
