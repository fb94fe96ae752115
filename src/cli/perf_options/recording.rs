//! perf's options of the commands that measure: `top`, `record`, `stat`.

use super::{PerfOption, SAYS, VERBOSE, idle, refused};

const NO_BRANCHES: &str =
    "use `perfprof-tui record` to record branches; here they serve call chains with --call-graph lbr";
const NO_AUX: &str = "AUX area traces (Intel PT, ARM CoreSight) are not recorded; use perf record";
const ALWAYS_TIMED: &str = "every sample contains it";
const ONE_THREAD: &str = "one thread reads all ring buffers, using less than one percent of a CPU";
const NO_SCRIPTLETS: &str = "BPF source is not compiled here; --filter filters tracepoints in the kernel";
const NO_CONTROL: &str =
    "use the live screen: {pause} pauses all events, {attach} changes the target, {event} adds events";
const NO_METRICS: &str =
    "metrics of CPU models are not computed; name their events with -e, see `perfprof-tui list pmu`";
const BY_OURSELVES: &str = "disassembly and source lines need no external program";

pub(super) const TOP: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    refused("-b, --branch-any", NO_BRANCHES),
    refused("-j, --branch-filter <branch filter mask>", NO_BRANCHES),
    refused("--dump-symtab", "use `perfprof-tui probe -x FILE -F` to list a program's functions"),
    idle("--children", "children are counted by default; --no-children turns it off"),
    idle("-E, --entries <n>", "the screen shows as many rows as fit"),
    idle("-f, --count-filter <n>", "use --percent-limit to hide rows below a share"),
    refused("-k, --vmlinux <file>", "names of the running kernel come from /proc/kallsyms"),
    idle("--kallsyms <file>", "names of the running kernel come from /proc/kallsyms"),
    idle("--ignore-vmlinux", "names of the running kernel come from /proc/kallsyms"),
    idle("-M, --disassembler-style <disassembler style>", "code is shown in AT&T syntax, perf's default"),
    idle("-n, --show-nr-samples", "{columns} on the screen adds the column of samples"),
    idle("-w, --column-widths <width[,width...]>", "columns are as wide as their values"),
    idle("--asm-raw", "{annotate} on a row shows its code"),
    idle("--demangle-kernel", "mangled kernel names are always demangled"),
    refused("--fields <key[,keys...]>", "choose columns on the screen by {columns}, or sort keys by -s"),
    idle("--group", "use {a,b} for a group of events"),
    idle("--group-sort-idx <n>", "{next-event} and {previous-event} on the screen choose the event"),
    refused(
        "--hierarchy",
        "{toggle} unfolds a row on the screen; `perfprof-tui report --hierarchy` prints the levels of a recording",
    ),
    refused(
        "--ignore-callees <regex>",
        "{merge} on the flame graph counts a function for its caller; `perfprof-tui report --ignore-callees` works \
         on a recording",
    ),
    idle("--max-stack <n>", "the kernel sets the depth of call chains: sysctl kernel.perf_event_max_stack"),
    idle("--namespaces", "containers are identified by their cgroups"),
    idle("--no-bpf-event", "the kernel reports BPF programs if it can"),
    idle("--num-thread-synthesize <n>", ONE_THREAD),
    idle("--objdump <path>", BY_OURSELVES),
    idle("--overwrite", "the newest samples are always kept; --keep and --memory set how many"),
    idle(
        "--percentage <relative|absolute>",
        "a filtered table shows shares of the samples that pass, and the total next to them",
    ),
    idle("--prefix <prefix>", BY_OURSELVES),
    idle("--prefix-strip <N>", BY_OURSELVES),
    idle("--proc-map-timeout <n>", "processes with many mappings do not delay the others"),
    idle("--raw-trace", "fields of a tracepoint are columns: -s EVENT.FIELD"),
    idle("--show-on-off-events", "events do not switch each other on and off"),
    idle("--show-total-period", "{columns} on the screen adds the column of periods"),
    idle("--source", "{annotate} on a row shows its code with source lines"),
    idle("--stdio", "for text, use `perfprof-tui record`, then `perfprof-tui report`"),
    idle("--tui", "the live screen is a terminal interface"),
    idle("--stitch-lbr", NO_BRANCHES),
    refused("--switch-off <event>", "select a range on the map of time, or use --trigger"),
    refused("--switch-on <event>", "select a range on the map of time, or use --trigger"),
    refused("--sym-annotate <symbol name>", "{annotate} on a row shows its code"),
];

pub(super) const RECORD: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    idle("-N, --no-buildid-cache", "no build id cache is written"),
    idle("-P, --period", ALWAYS_TIMED),
    idle("-R, --raw-samples", "the fields of tracepoints are always recorded"),
    refused("-S, --snapshot[=<opts>]", NO_AUX),
    idle("-T, --timestamp", ALWAYS_TIMED),
    refused("--affinity <node|cpu>", "one thread reads all ring buffers; bind it with taskset"),
    idle("--aio[=<n>]", ONE_THREAD),
    refused("--aux-sample[=<opts>]", NO_AUX),
    idle("--buildid-mmap", "build ids are stored in the header of the file"),
    refused("--clang-opt <clang options>", NO_SCRIPTLETS),
    refused("--clang-path <clang path>", NO_SCRIPTLETS),
    refused("--control <fd:ctl-fd[,ack-fd] or fifo:ctl-fifo[,ack-fifo]>", NO_CONTROL),
    idle("--debuginfod[=<debuginfod urls>]", "debug files are fetched when a recording is read: set DEBUGINFOD_URLS"),
    idle("--exclude-perf", "the profiler's own samples are excluded by default; --include-self keeps them"),
    refused("--kcore", "kernel code is read when the recording is opened, on the same kernel"),
    idle("--mmap-flush <number>", ONE_THREAD),
    idle("--no-buffering", "records are read as they arrive"),
    idle("--num-thread-synthesize <n>", ONE_THREAD),
    idle("--per-thread", "events follow the tasks that -p or -t names"),
    idle("--proc-map-timeout <n>", "processes with many mappings do not delay the others"),
    refused("--running-time", "use `perfprof-tui stat`, which prints how long each event ran"),
    idle("--sample-cpu", ALWAYS_TIMED),
    idle("--sample-identifier", ALWAYS_TIMED),
    idle("--strict-freq", "a rate above the kernel's limit is always refused"),
    refused("--switch-output-event <switch output event>", "use --trigger to save when an event is frequent"),
    idle("--synth <no|all|task|mmap|cgroup>", "running processes are always recorded, limited to those measured"),
    idle("--tail-synthesize", "running processes are recorded at the beginning"),
    idle("--threads[=<spec>]", ONE_THREAD),
    idle("--timestamp-boundary", "the times of the first and last sample are always recorded"),
    refused("--vmlinux <file>", "use `perfprof-tui report -k FILE` to read kernel names from it"),
];

pub(super) const STAT: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    refused("--control <fd:ctl-fd[,ack-fd] or fifo:ctl-fifo[,ack-fifo]>", NO_CONTROL),
    refused("-M, --metrics <metric/metric group list>", NO_METRICS),
    refused("-T, --transaction", NO_METRICS),
    refused("--smi-cost", NO_METRICS),
    refused("--topdown", NO_METRICS),
    refused("--td-level <n>", NO_METRICS),
    refused("--iostat[=<default>]", NO_METRICS),
    idle("--metric-no-group", NO_METRICS),
    idle("--metric-no-merge", NO_METRICS),
    refused("--metric-only", NO_METRICS),
    idle("--cputype <hybrid cpu type>", "events are counted on the CPUs that support them"),
    idle("--hybrid-merge", "events are counted on the CPUs that support them"),
    idle("--no-merge", "each event is a row"),
    refused(
        "--no-scale",
        "counts of multiplexed counters are always scaled; a column shows the time in which they ran",
    ),
    idle("--scale", "counts of multiplexed counters are scaled, and marked"),
    idle("--percore-show-thread", "use --per-cpu for counts per CPU"),
    idle("-B, --big-num", "numbers have thousands separators by default"),
    idle("--interval-clear", "use `perfprof-tui unit stat` for a live screen"),
    idle("--no-csv-summary", "a summary is printed only with --summary"),
    idle("--table", "the column ± shows the variation of runs"),
];
