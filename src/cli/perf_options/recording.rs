//! What comes of perf's options of the commands that measure: `top`, `record`, `stat`.

use super::{PerfOption, SAYS, VERBOSE, idle, refused};

const NO_BRANCHES: &str = "branches are recorded by `perfprof-tui record`; here the CPU's memory of them serves call chains: --call-graph lbr";
const NO_AUX: &str = "traces of the AUX area (Intel PT, ARM CoreSight) are not recorded: perf record does";
const ALWAYS_TIMED: &str = "every sample has it";
const ONE_THREAD: &str = "one thread reads the rings, at less than a percent of a CPU";
const NO_SCRIPTLETS: &str = "no BPF program is compiled here; tracepoints are filtered in the kernel by --filter";
const NO_CONTROL: &str = "what is measured is switched on the live screen: p pauses, :attach and :events change it";
const NO_METRICS: &str =
    "metrics of a CPU's model are not computed; name their events with -e, `perfprof-tui list pmu` has them";
const BY_OURSELVES: &str = "code is disassembled and lines are found without programs of others";

pub(super) const TOP: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    refused("-b, --branch-any", NO_BRANCHES),
    refused("-j, --branch-filter <branch filter mask>", NO_BRANCHES),
    refused("--dump-symtab", "`perfprof-tui probe -x FILE -F` lists a program's functions"),
    idle("--children", "call chains are counted up by themselves; --no-children leaves them"),
    idle("-E, --entries <n>", "the screen shows as many rows as it has lines"),
    idle("-f, --count-filter <n>", "rows are hidden below a share: --percent-limit"),
    refused("-k, --vmlinux <file>", "names of the running kernel are its own, from /proc/kallsyms"),
    idle("--kallsyms <file>", "names of the running kernel are its own, from /proc/kallsyms"),
    idle("--ignore-vmlinux", "names of the running kernel are its own, from /proc/kallsyms"),
    idle("-M, --disassembler-style <disassembler style>", "code is shown as AT&T has it, as perf does by itself"),
    idle("-n, --show-nr-samples", "+ on the screen adds the column of samples"),
    idle("-w, --column-widths <width[,width...]>", "columns have the width that their figures need"),
    idle("--asm-raw", "a on a row shows its code"),
    idle("--demangle-kernel", "names of the kernel's functions are demangled where they are mangled"),
    refused("--fields <key[,keys...]>", "columns are chosen on the screen: + and -"),
    idle("--group", "{a,b} makes a group of events"),
    idle("--group-sort-idx <n>", "E chooses the event that the table is sorted by"),
    refused("--hierarchy", "Enter opens a row on the screen; `report --hierarchy` prints one of a recording"),
    refused("--ignore-callees <regex>", "functions are folded on the screen: :fold, or a filter with !in(…)"),
    idle("--max-stack <n>", "call chains have the kernel's depth, sysctl kernel.perf_event_max_stack"),
    idle("--namespaces", "containers are told by their cgroups and mount namespaces"),
    idle("--no-bpf-event", "BPF programs are told of by the kernel where it can"),
    idle("--num-thread-synthesize <n>", ONE_THREAD),
    idle("--objdump <path>", BY_OURSELVES),
    idle("--overwrite", "the newest samples are kept: --keep and --memory say how many"),
    idle("--percentage <relative|absolute>", "a filtered table shows shares of what passes, and the whole beside it"),
    idle("--prefix <prefix>", BY_OURSELVES),
    idle("--prefix-strip <N>", BY_OURSELVES),
    idle("--proc-map-timeout <n>", "a process whose mappings take long to read holds nobody up"),
    idle("--raw-trace", "fields of a tracepoint are columns: -s EVENT.FIELD"),
    idle("--show-on-off-events", "nothing is switched on and off by events"),
    idle("--show-total-period", "+ on the screen adds the column of periods"),
    idle("--source", "a on a row shows its code with its lines"),
    idle("--stdio", "without a terminal the same figures are printed: perfprof-tui record, then report"),
    idle("--tui", "it is one"),
    idle("--stitch-lbr", NO_BRANCHES),
    refused("--switch-off <event>", "moments are chosen on the map of time, or by --trigger"),
    refused("--switch-on <event>", "moments are chosen on the map of time, or by --trigger"),
    refused("--sym-annotate <symbol name>", "a on a row shows its code"),
];

pub(super) const RECORD: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    idle("-N, --no-buildid-cache", "no cache of build ids is written"),
    idle("-P, --period", ALWAYS_TIMED),
    idle("-R, --raw-samples", "the fields of tracepoints are always recorded"),
    refused("-S, --snapshot[=<opts>]", NO_AUX),
    idle("-T, --timestamp", ALWAYS_TIMED),
    refused("--affinity <node|cpu>", "one thread reads the rings; taskset binds it"),
    idle("--aio[=<n>]", ONE_THREAD),
    refused("--aux-sample[=<opts>]", NO_AUX),
    idle("--buildid-mmap", "build ids stand in the head of the file"),
    refused("--clang-opt <clang options>", NO_SCRIPTLETS),
    refused("--clang-path <clang path>", NO_SCRIPTLETS),
    refused("--control <fd:ctl-fd[,ack-fd] or fifo:ctl-fifo[,ack-fifo]>", NO_CONTROL),
    idle("--debuginfod[=<debuginfod urls>]", "files are fetched when a recording is read: DEBUGINFOD_URLS"),
    idle("--exclude-perf", "own samples are left out; --include-self keeps them"),
    refused("--kcore", "a recording's kernel code is looked up where it is read, on the same kernel"),
    idle("--mmap-flush <number>", ONE_THREAD),
    idle("--no-buffering", "records are read as they come"),
    idle("--num-thread-synthesize <n>", ONE_THREAD),
    idle("--per-thread", "events follow tasks where -p or -t names some"),
    idle("--proc-map-timeout <n>", "a process whose mappings take long to read holds nobody up"),
    refused("--running-time", "`perfprof-tui stat` says how long each event ran"),
    idle("--sample-cpu", ALWAYS_TIMED),
    idle("--sample-identifier", ALWAYS_TIMED),
    idle("--strict-freq", "a rate above the kernel's limit is always refused"),
    refused("--switch-output-event <switch output event>", "`--trigger` saves when an event is frequent"),
    idle(
        "--synth <no|all|task|mmap|cgroup>",
        "processes that run already are always told of, those that are measured alone",
    ),
    idle("--tail-synthesize", "what ran already is told of at the beginning"),
    idle("--threads[=<spec>]", ONE_THREAD),
    idle("--timestamp-boundary", "the times of the first and the last sample are always recorded"),
    refused("--vmlinux <file>", "`perfprof-tui report -k FILE` takes names of the kernel from it"),
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
    idle("--cputype <hybrid cpu type>", "events are counted on the CPUs that have them"),
    idle("--hybrid-merge", "events are counted on the CPUs that have them"),
    idle("--no-merge", "each event is a row"),
    refused(
        "--no-scale",
        "counts of counters that took turns are scaled; the column of the time that they ran tells which",
    ),
    idle("--scale", "counts are scaled where counters took turns, and say so"),
    idle("--percore-show-thread", "counts are told apart by --per-cpu"),
    idle("-B, --big-num", "numbers have thousands' separators"),
    idle("--interval-clear", "`perfprof-tui unit stat` is a screen that renews itself"),
    idle("--no-csv-summary", "--summary alone prints one"),
    idle("--table", "how much runs differ is the column ±"),
];
