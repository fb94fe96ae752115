//! Commands of perf, and profilers of perf-prof, that have no counterpart of their name here, with what answers their
//! question instead.

use std::ffi::OsString;

/// (perf's command, what to use).
const COMMANDS: &[(&str, &str)] = &[
    (
        "archive",
        "`perfprof-tui record --names` puts names into the recording itself, and `perfprof-tui report` reads perf's archives",
    ),
    ("arm-spe", "traces of the AUX area are perf's: perf record -e arm_spe_0//"),
    ("bench", "it measures the kernel by itself; perf bench does"),
    (
        "buildid-cache",
        "files are found by their build ids where they are, below /usr/lib/debug and from debuginfod; `perfprof-tui buildid-list` lists the ids of a recording",
    ),
    ("c2c", "`perfprof-tui ldlat-loads` has cache lines, where the CPU samples the latency of loads"),
    ("daemon", "`perfprof-tui record --keep 10m --trigger CONDITION` runs on and saves by itself"),
    ("data", "`perfprof-tui export` writes a recording in other formats"),
    (
        "ftrace",
        "`perfprof-tui nested-trace` nests entries and exits of what -e names; functions are probed by `perfprof-tui probe`",
    ),
    ("intel-pt", "traces of the AUX area are perf's: perf record -e intel_pt//"),
    ("iostat", "`perfprof-tui blktrace` has where requests of disks spend their time"),
    ("kallsyms", "`perfprof-tui probe -F NAME` finds functions of the kernel"),
    ("kmem", "`perfprof-tui kmemprof` has what allocates and frees, `perfprof-tui kmemleak` what is never freed"),
    ("kvm", "`perfprof-tui kvm-exit` has why guests leave and for how long; -a of all commands measures the host"),
    (
        "kwork",
        "`perfprof-tui percpu-stat` counts interrupts, softirqs and works; `perfprof-tui multi-trace -e irq:softirq_entry -e irq:softirq_exit -k vec` has how long they take",
    ),
    (
        "lock",
        "`perfprof-tui multi-trace -e lock:contention_begin -e lock:contention_end -k lock_addr` has how long locks were waited for, `perfprof-tui offcpu` the stacks that slept",
    ),
    (
        "mem",
        "`perfprof-tui ldlat-loads` and `perfprof-tui ldlat-stores` have where data comes from, where the CPU samples that",
    ),
    (
        "sched",
        "`perfprof-tui rundelay` has what perf sched latency has, `perfprof-tui oncpu` the map, `perfprof-tui task-state` the times of timehist",
    ),
    ("test", "`perfprof-tui doctor` says what this machine can measure"),
    ("timechart", "`perfprof-tui oncpu` has who ran where over time, `perfprof-tui task-state` what tasks waited for"),
    ("version", "perfprof-tui --version prints it"),
];

/// (perf-prof's profiler, what to use).
const PROFILERS: &[(&str, &str)] = &[
    ("cpu-util", "`perfprof-tui cpus` has what each CPU does"),
    ("event-care", "what was lost is counted everywhere; `perfprof-tui doctor` says what this machine can measure"),
    (
        "expr",
        "expressions are tried where they are used: `perfprof-tui top -e sched:sched_wakeup -k comm` shows what one makes of events",
    ),
    ("hwstat", "`perfprof-tui stat -a -A -e cycles,instructions` has cycles and instructions by CPU"),
    (
        "irq-off",
        "`perfprof-tui hrtimer --period 5ms --when 'period > 10000000'` has the stacks after a timer that came late",
    ),
    ("kcore", "the kernel's memory is not read"),
    (
        "python",
        "`perfprof-tui trace -e sched:sched_wakeup --format json` gives events, and `perfprof-tui script` samples, to a program",
    ),
    ("sched-migrate", "`perfprof-tui oncpu` counts how often tasks moved, and shows where they ran"),
    ("split-lock", "`perfprof-tui stat -a -e sq_misc.split_lock` counts them, where the CPU has that event"),
    (
        "sql",
        "`perfprof-tui top -e sched:sched_wakeup -k comm` groups events and adds them up, `perfprof-tui num-dist -e sched:sched_stat_runtime --num runtime` distributes a field",
    ),
    ("watchdog", "`perfprof-tui record --keep 10m --trigger CONDITION` runs on and saves what was before a moment"),
];

/// What to use for a command of perf or a profiler of perf-prof, if it is one.
pub(super) fn instead(typed: &str) -> Option<String> {
    let of = |list: &[(&str, &'static str)]| list.iter().find(|(name, _)| *name == typed).map(|(_, text)| *text);
    let (whose, text) = of(COMMANDS).map(|text| ("perf", text)).or(of(PROFILERS).map(|text| ("perf-prof", text)))?;
    Some(format!("{whose} {typed} has no counterpart of its name here: {text}"))
}

/// The same for a word that names a program as well, where what follows is for the profiler.
pub(super) fn instead_of_program(typed: &str, behind: &[OsString]) -> Option<String> {
    let is_both = matches!(typed, "expr" | "python");
    let of_events = behind.first().is_some_and(|word| word == "-e" || word == "--event");
    (is_both && of_events).then(|| instead(typed)).flatten()
}

/// Units that are called as commands of perf are, and need events, which those do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// `perf top`: the live screen.
    Live,
    /// `perf trace`: system calls.
    Trace,
}

/// The command of perf that was meant by a unit's name with these words behind it.
pub(super) fn meant(name: &str, behind: &[OsString]) -> Option<Meant> {
    let meant = match name {
        "top" => Meant::Live,
        "trace" => Meant::Trace,
        _ => return None,
    };
    const OF_UNIT: &str =
        "--event --help --describe --key --sum --by --detail --batch --duration --format --panel help";
    let own = behind.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
    let mut own = own.filter(|word| {
        let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        OF_UNIT.split(' ').any(|option| word.starts_with(option))
            || short.is_some_and(|rest| rest.contains(['e', 'k', 'h']))
    });
    own.next().is_none().then_some(meant)
}

/// What to say to who typed `perf trace`.
pub(super) const TRACE: &str = "trace: name events with -e, e.g. -e sched:sched_wakeup\nAs perf trace: \
    `perfprof-tui syscalls` sums system calls up, and has those that block now; `perfprof-tui trace -e 'raw_syscalls:*'` \
    lists them as they come";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_instead_is_there() {
        let whole = super::super::args::whole();
        let texts = COMMANDS.iter().chain(PROFILERS).map(|(_, text)| *text).chain([TRACE]);
        for line in texts.flat_map(|text| text.split('`').skip(1).step_by(2)) {
            let words: Vec<&str> = line.split(' ').collect();
            let command = words[1];
            assert!(words[0] == "perfprof-tui" && whole.find_subcommand(command).is_some(), "{line}");
        }
        assert!(COMMANDS.iter().chain(PROFILERS).all(|(name, _)| whole.find_subcommand(name).is_none()));
        assert!(COMMANDS.is_sorted() && PROFILERS.is_sorted(), "as they are looked for");
    }

    #[test]
    fn units_named_as_commands_of_perf_are_told_by_their_options() {
        let of = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            meant(words[0].to_str().expect("text"), &words[1..])
        };
        assert_eq!(of("top -p 1 -g"), Some(Meant::Live));
        assert_eq!(of("top"), Some(Meant::Live));
        assert_eq!(of("trace -- ls -e"), Some(Meant::Trace));
        for line in [
            "top -e cs",
            "top -ge cs",
            "top --event=cs",
            "top --batch",
            "top help",
            "top -h",
            "trace --key pid",
            "report",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
