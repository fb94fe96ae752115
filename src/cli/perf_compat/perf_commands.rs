//! Commands of perf and profilers of perf-prof without a counterpart of the same name, with alternatives.

use std::ffi::OsString;

/// (perf's command, alternative).
const COMMANDS: &[(&str, &str)] = &[
    (
        "archive",
        "use `perfprof-tui record --names` for a recording with names; `perfprof-tui report` reads perf's archives",
    ),
    ("arm-spe", "AUX area traces are not supported; use perf record -e arm_spe_0//"),
    ("bench", "benchmarks of the kernel are not supported; use perf bench"),
    (
        "buildid-cache",
        "no cache is needed: files are found by build id at their paths, below /usr/lib/debug and from debuginfod; \
         `perfprof-tui buildid-list` lists the ids of a recording",
    ),
    ("c2c", "use `perfprof-tui ldlat-loads` for cache lines, on CPUs that sample the latency of loads"),
    (
        "daemon",
        "use `perfprof-tui record --keep 10m --trigger CONDITION`, which runs permanently and saves automatically",
    ),
    ("data", "use `perfprof-tui export` for other formats"),
    (
        "ftrace",
        "use `perfprof-tui nested-trace` for nested entries and exits of events, and `perfprof-tui probe` to probe \
         functions",
    ),
    ("intel-pt", "AUX area traces are not supported; use perf record -e intel_pt//"),
    ("iostat", "use `perfprof-tui blktrace` for the time of disk requests"),
    ("kallsyms", "use `perfprof-tui probe -F NAME` to find kernel functions"),
    (
        "kmem",
        "use `perfprof-tui kmemprof` for allocations and frees, `perfprof-tui kmemleak` for memory that is not freed",
    ),
    ("kvm", "use `perfprof-tui kvm-exit` for reasons and durations of exits; -a of all commands measures the host"),
    (
        "kwork",
        "use `perfprof-tui percpu-stat` to count interrupts, softirqs and work items, `perfprof-tui multi-trace -e \
         irq:softirq_entry -e irq:softirq_exit -k vec` for their durations",
    ),
    (
        "lock",
        "use `perfprof-tui multi-trace -e lock:contention_begin -e lock:contention_end -k lock_addr` for waits on \
         kernel locks, `perfprof-tui offcpu` for stacks that slept",
    ),
    (
        "mem",
        "use `perfprof-tui ldlat-loads` and `perfprof-tui ldlat-stores` for the sources of data, on CPUs that sample \
         them",
    ),
    (
        "sched",
        "use `perfprof-tui rundelay` for perf sched latency, `perfprof-tui oncpu` for map, `perfprof-tui task-state` \
         for timehist",
    ),
    ("test", "use `perfprof-tui doctor`, which lists what you can measure"),
    ("timechart", "use `perfprof-tui oncpu` for tasks by CPU over time, `perfprof-tui task-state` for their waits"),
    ("version", "use perfprof-tui --version"),
];

/// (perf-prof's profiler, alternative).
const PROFILERS: &[(&str, &str)] = &[
    ("cpu-util", "use `perfprof-tui cpus` for the shares of each CPU"),
    ("event-care", "lost records are always counted; `perfprof-tui doctor` lists what you can measure"),
    ("expr", "try an expression where it is used: `perfprof-tui top -e sched:sched_wakeup -k comm`"),
    ("hwstat", "use `perfprof-tui stat -a -A -e cycles,instructions` for cycles and instructions by CPU"),
    ("irq-off", "use `perfprof-tui hrtimer --period 5ms --when 'period > 10000000'` for stacks after a late timer"),
    ("kcore", "reading kernel memory is not supported"),
    (
        "python",
        "use `perfprof-tui trace -e sched:sched_wakeup --format json` to pass events to a program, `perfprof-tui \
         script` for samples",
    ),
    ("sched-migrate", "use `perfprof-tui oncpu` for migrations of tasks and the CPUs they ran on"),
    ("split-lock", "use `perfprof-tui stat -a -e sq_misc.split_lock` on CPUs with that event"),
    (
        "sql",
        "use `perfprof-tui top -e sched:sched_wakeup -k comm` to group and sum events, `perfprof-tui num-dist -e \
         sched:sched_stat_runtime --num runtime` for the distribution of a field",
    ),
    (
        "watchdog",
        "use `perfprof-tui record --keep 10m --trigger CONDITION`, which saves the samples before a condition",
    ),
];

pub(crate) fn instead(typed: &str) -> Option<String> {
    let of = |list: &[(&str, &'static str)]| list.iter().find(|(name, _)| *name == typed).map(|(_, text)| *text);
    let (whose, text) = of(COMMANDS).map(|text| ("perf", text)).or(of(PROFILERS).map(|text| ("perf-prof", text)))?;
    Some(format!("{whose} {typed} is not a command here: {text}"))
}

/// The same for a word that is also a program's name, if the arguments are those of the profiler.
pub(crate) fn instead_of_program(typed: &str, behind: &[OsString]) -> Option<String> {
    let is_both = matches!(typed, "expr" | "python");
    let of_events = behind.first().is_some_and(|word| word == "-e" || word == "--event");
    (is_both && of_events).then(|| instead(typed)).flatten()
}

/// Returns true if these arguments of `top` or `trace` are perf's. Units of these names need events, commands do not.
pub(crate) fn are_perfs(behind: &[OsString]) -> bool {
    const OF_UNIT: &str =
        "--event --help --describe --key --sum --by --detail --batch --duration --format --panel help";
    let own = behind.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str());
    let mut own = own.filter(|word| {
        let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        OF_UNIT.split(' ').any(|option| word.starts_with(option))
            || short.is_some_and(|rest| rest.contains(['e', 'k', 'h']))
    });
    own.next().is_none()
}

/// Message for `perf trace`.
pub(crate) const TRACE: &str = "trace: name events with -e, e.g. -e sched:sched_wakeup\nLike perf trace: \
                                `perfprof-tui syscalls` sums up system calls and lists those that block now; \
                                `perfprof-tui trace -e 'raw_syscalls:*'` lists them as they happen";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_instead_is_there() {
        let whole = crate::cli::args::whole();
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
            are_perfs(&words[1..])
        };
        assert!(["top -p 1 -g", "top", "trace -- ls -e"].into_iter().all(of));
        for line in
            ["top -e cs", "top -ge cs", "top --event=cs", "top --batch", "top help", "top -h", "trace --key pid"]
        {
            assert!(!of(line), "{line}");
        }
    }
}
