//! perf-prof's options that units do not have.

use super::{PerfOption, SAYS, VERBOSE, idle, only, refused};

const FOLLOWED: &str = "children of the target are always followed";
const BY_OUR_CLOCK: &str = "times are from the kernel's monotonic clock, relative to the start";
const HAS_STACKS: &str = "stacks are always recorded";

pub(super) const OF_ALL: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    idle("-q, --quiet", "standard output contains only figures"),
    idle("--inherit", FOLLOWED),
    idle("--ptrace", FOLLOWED),
    idle("--watermark <0-100>", "ring buffers are read when they are half full, and ten times per second"),
    idle("--overwrite", "the newest records are always kept"),
    idle("--monotonic", BY_OUR_CLOCK),
    idle("--usage-self <ms>", "the header of the screen shows the cost of measuring"),
    idle("--sampling-limit <N>", "the cost of sampling is always limited"),
    idle("--user-callchain", "stacks always contain kernel and user frames"),
    idle("--kernel-callchain", "stacks always contain kernel and user frames"),
    refused(
        "--no-user-callchain",
        "stacks always contain kernel and user frames; --exclude-user excludes samples of user code",
    ),
    refused(
        "--no-kernel-callchain",
        "stacks always contain kernel and user frames; --exclude-kernel excludes samples of the kernel",
    ),
    refused("--python-callchain", "Python functions have names if Python writes a perf map: python3 -X perf"),
    refused("--tsc", BY_OUR_CLOCK),
    refused("--kvmclock <uuid>", BY_OUR_CLOCK),
    refused("--clock-offset <n>", BY_OUR_CLOCK),
    refused("--perfeval-cpus <cpu>", "use `perfprof-tui unit stat --per-cpu` for rates by CPU"),
    refused("--perfeval-pids <pid>", "use `perfprof-tui unit stat --per-thread` for rates by thread"),
    refused("--threshold <ns>", "use --than, which counts what took longer and lists it first"),
    refused(
        "--sched_policy <n>",
        "only `profile` has it; for events use a filter, as in -e 'sched:sched_wakeup/prio<100/'",
    ),
    refused("--mmio", "use `perfprof-tui trace -e kvmmmu:mark_mmio_spte`"),
];

const IMPL: PerfOption = only(
    "--impl <impl>",
    &["delay", "pair", "call", "call-delay"],
    "times, counts and unpaired events are always shown",
    "use the units kmemprof and syscalls; delay, pair, call and call-delay are always on",
);

pub(super) const OF_ONE: &[(&str, &[PerfOption])] = &[
    ("breakpoint", &[idle("-g, --stack", HAS_STACKS)]),
    ("page-faults", &[idle("-g, --stack", HAS_STACKS)]),
    ("kmemleak", &[idle("--comm", "each row always has the comm that allocated")]),
    ("oncpu", &[idle("--detail", "the table always has the runs of each task, and the longest")]),
    ("multi-trace", &[IMPL]),
    ("nested-trace", &[IMPL]),
    (
        "rundelay",
        &[only(
            "-k, --key <key>",
            &["pid"],
            "waits are always per thread",
            "waits are always per thread, by pid; multi-trace pairs by other keys",
        )],
    ),
];
