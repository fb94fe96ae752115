//! What comes of perf-prof's options of its profilers, where units have none of their own name.

use super::{PerfOption, SAYS, VERBOSE, idle, only, refused};

const FOLLOWED: &str = "what a target starts is followed by itself";
const BY_OUR_CLOCK: &str = "times are those of the kernel's monotonic clock, counted from the start";
const HAS_STACKS: &str = "its stacks are always taken";

/// Those that every unit is asked for.
pub(super) const OF_ALL: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    idle("-q, --quiet", "nothing but figures goes to standard output"),
    idle("--inherit", FOLLOWED),
    idle("--ptrace", FOLLOWED),
    idle("--watermark <0-100>", "rings are read when they are half full, and ten times a second"),
    idle("--overwrite", "what is newest is kept"),
    idle("--monotonic", BY_OUR_CLOCK),
    idle("--usage-self <ms>", "the screen's head has what measuring costs"),
    idle("--sampling-limit <N>", "the cost of sampling is bounded by itself"),
    idle("--user-callchain", "stacks have both, the kernel's and the user's"),
    idle("--kernel-callchain", "stacks have both, the kernel's and the user's"),
    refused(
        "--no-user-callchain",
        "stacks have both, the kernel's and the user's; --exclude-user leaves samples of user code out",
    ),
    refused(
        "--no-kernel-callchain",
        "stacks have both, the kernel's and the user's; --exclude-kernel leaves samples of the kernel out",
    ),
    refused("--python-callchain", "functions of Python have names where it writes a map of them: python3 -X perf"),
    refused("--tsc", BY_OUR_CLOCK),
    refused("--kvmclock <uuid>", BY_OUR_CLOCK),
    refused("--clock-offset <n>", BY_OUR_CLOCK),
    refused("--perfeval-cpus <cpu>", "`perfprof-tui unit stat --per-cpu` has rates by CPU"),
    refused("--perfeval-pids <pid>", "`perfprof-tui unit stat --per-thread` has rates by thread"),
    refused("--threshold <ns>", "--than counts, and keeps first, what took longer"),
    refused(
        "--sched_policy <n>",
        "`profile` samples by it; of events a filter chooses, as in -e 'sched:sched_wakeup/prio<100/'",
    ),
    refused("--mmio", "`perfprof-tui trace -e kvmmmu:mark_mmio_spte` lists them"),
];

const IMPL: PerfOption = only(
    "--impl <impl>",
    &["delay", "pair", "call", "call-delay"],
    "times, counts and what found no partner are all shown",
    "kmemprof and syscalls are units of their own; delay, pair, call and call-delay are what this one does by itself",
);

/// Those that some are asked for.
pub(super) const OF_ONE: &[(&str, &[PerfOption])] = &[
    ("breakpoint", &[idle("-g, --stack", HAS_STACKS)]),
    ("page-faults", &[idle("-g, --stack", HAS_STACKS)]),
    ("kmemleak", &[idle("--comm", "a row has the name of who allocated")]),
    ("oncpu", &[idle("--detail", "the table has the runs of each task, and the longest")]),
    ("multi-trace", &[IMPL]),
    ("nested-trace", &[IMPL]),
    (
        "rundelay",
        &[only(
            "-k, --key <key>",
            &["pid"],
            "waits are those of a thread",
            "waits are those of a thread, its pid; multi-trace pairs by others",
        )],
    ),
];
