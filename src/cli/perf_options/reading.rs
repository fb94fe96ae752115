//! perf's options of the commands that read recordings, such as `report`, `script`, `annotate` and `diff`.

use super::{PerfOption, SAYS, VERBOSE, idle, refused};

const NO_CHECK: &str = "the owner of the file does not matter: its contents are untrusted in any case";
const BY_OURSELVES: &str = "disassembly and source lines need no external program";
const NO_AUX: &str = "AUX area traces (Intel PT, ARM CoreSight) are not decoded; use perf";
const NO_GUESTS: &str = "functions of guests have no names; use `perf kvm`";
const MODULES: &str = "names of modules come from /proc/kallsyms, or from files below --symfs";
const KERNEL: &str = "mangled kernel names are always demangled";
const DEMANGLED: &str = "names are demangled by default; --no-demangle turns it off";
const NO_SWITCHES: &str = "select a range with --time, or --where 'time > …'";
const NO_SCRIPTS: &str = "scripts in other languages are not supported; use export --to, or analysis units";
const IS_TEXT: &str = "this command prints text; `perfprof-tui open FILE` is the screen";

pub(super) const REPORT: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    idle("-f, --force", NO_CHECK),
    idle("-M, --disassembler-style <disassembler style>", BY_OURSELVES),
    idle("-m, --modules", MODULES),
    idle("-q, --quiet", "warnings go to standard error: 2>/dev/null"),
    idle("--asm-raw", "use `perfprof-tui annotate` for code"),
    idle("--source", "use `perfprof-tui annotate` for code"),
    idle("--demangle-kernel", KERNEL),
    idle("--disable-order", "records are always sorted by time"),
    idle("--full-source-path", "source files are identified by their full paths"),
    idle("--group", "each event has its own table"),
    idle("--group-sort-idx <n>", "each event has its own table"),
    idle("--ignore-vmlinux", "vmlinux is read only with -k"),
    refused("--itrace[=<opts>]", NO_AUX),
    idle("--objdump <path>", BY_OURSELVES),
    idle("--percent-type <local-period>", "use `perfprof-tui annotate` for code"),
    idle("--prefix <prefix>", BY_OURSELVES),
    idle("--prefix-strip <N>", BY_OURSELVES),
    idle("--pretty <key>", "use -T --format csv, which prints a line per thread and event"),
    idle("--raw-trace", "use -s EVENT.FIELD for the fields of a tracepoint"),
    idle("--samples <n>", "the screen shows samples: `perfprof-tui open FILE`"),
    idle("--show-on-off-events", NO_SWITCHES),
    idle("--show-ref-call-graph", "events without call chains are shown without them"),
    idle("--skip-empty", "tables of events without samples are omitted"),
    refused("--socket-filter <n>", "select CPUs with -C or --where 'cpu in …'"),
    idle("--stdio-color <mode>", IS_TEXT),
    idle("--stitch-lbr", "branch chains are shown as recorded"),
    refused("--switch-off <event>", NO_SWITCHES),
    refused("--switch-on <event>", NO_SWITCHES),
    refused("--total-cycles", "basic blocks of branches are not counted; use perf report"),
    idle("--tui", IS_TEXT),
    idle("--demangle", DEMANGLED),
    idle("--ns", "-s time has microseconds; for nanoseconds use script --ns"),
];

pub(super) const SCRIPT: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    idle("-a, --all-cpus", "all samples of the recording are printed by default"),
    idle("-d, --debug-mode", "lost and unordered records are always reported"),
    refused("-g, --gen-script <lang>", NO_SCRIPTS),
    refused("-s, --script <name>", NO_SCRIPTS),
    refused("-l, --list", NO_SCRIPTS),
    refused("--addr-range <n>", "select functions with --where 'sym == …'"),
    refused("--call-ret-trace[=...]", NO_AUX),
    refused("--call-trace[=...]", NO_AUX),
    refused("--insn-trace[=<raw|disasm>]", NO_AUX),
    refused("--itrace[=<opts>]", NO_AUX),
    refused("--xed[=...]", NO_AUX),
    refused("--graph-function <symbol[,symbol...]>", NO_AUX),
    refused("--dlarg <argument>", NO_SCRIPTS),
    refused("--dlfilter <file>", NO_SCRIPTS),
    refused("--list-dlfilters", NO_SCRIPTS),
    idle("--demangle-kernel", KERNEL),
    idle("-f, --force", NO_CHECK),
    idle("--full-source-path", "use -F +srcline for file and line"),
    idle("--guest-code", NO_GUESTS),
    refused("--guestkallsyms <file>", NO_GUESTS),
    refused("--guestmodules <file>", NO_GUESTS),
    refused("--guestmount <directory>", NO_GUESTS),
    refused("--guestvmlinux <file>", NO_GUESTS),
    idle("--max-blocks <n>", "code of branches is not printed"),
    refused("--per-event-dump", "use --event NAME for the samples of one event"),
    idle("--show-kernel-path", "the kernel has no path"),
    idle("--show-on-off-events", NO_SWITCHES),
    idle("--stitch-lbr", "branch chains are shown as recorded"),
    refused("--switch-off <event>", NO_SWITCHES),
    refused("--switch-on <event>", NO_SWITCHES),
    idle("--demangle", "names are demangled by default; --no-demangle turns it off"),
];

pub(super) const ANNOTATE: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    refused("-D, --dump-raw-trace", "use `perfprof-tui script -D`"),
    idle("-f, --force", NO_CHECK),
    idle("-l, --print-line", "source lines are shown between the code"),
    idle("-M, --disassembler-style <disassembler style>", "code is shown in AT&T syntax, perf's default"),
    idle("-m, --modules", MODULES),
    idle("-n, --show-nr-samples", "a column of samples is always shown"),
    idle("-P, --full-paths", "source files have full paths"),
    idle("-q, --quiet", "warnings go to standard error: 2>/dev/null"),
    idle("--demangle-kernel", KERNEL),
    idle("--group", "select one event with --event"),
    idle("--ignore-vmlinux", "vmlinux is read only with -k"),
    refused("--itrace[=<opts>]", NO_AUX),
    idle("--objdump <path>", BY_OURSELVES),
    idle("--percent-type <local-period>", "percentages are always relative to the function's samples"),
    idle("--prefix <prefix>", BY_OURSELVES),
    idle("--prefix-strip <N>", BY_OURSELVES),
    idle("--show-total-period", "a column of samples is always shown"),
    idle("--skip-missing", "functions without code are skipped and named on standard error"),
    idle("--source", "source lines are shown between the code"),
    idle("--stdio-color <mode>", IS_TEXT),
    idle("--stdio2", IS_TEXT),
    idle("--tui", IS_TEXT),
    idle("--demangle", DEMANGLED),
];

pub(super) const DIFF: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    refused("-D, --dump-raw-trace", "use `perfprof-tui script -D`"),
    idle("-f, --force", NO_CHECK),
    idle("-m, --modules", MODULES),
    idle("-q, --quiet", "warnings go to standard error: 2>/dev/null"),
    refused("--cycles-hist", "basic blocks of branches are not counted; use perf diff"),
    refused("--stream", "use --format folded for stacks, or --format svg for a graph of them"),
    idle("--percentage <relative|absolute>", "percentages are relative to the samples that pass the filters"),
];

pub(super) const EVLIST: &[PerfOption] = &[idle("-f, --force", NO_CHECK)];

pub(super) const BUILDID_LIST: &[PerfOption] = &[idle(VERBOSE, SAYS), idle("-f, --force", NO_CHECK)];

pub(super) const INJECT: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    idle("-f, --force", NO_CHECK),
    idle("--ignore-vmlinux", "inject looks up no names"),
    refused("-j, --jit", "`report` and other readers take names of JIT functions from its jitdump or map"),
    refused("--guest-data[=<opts>]", NO_GUESTS),
    refused("--guestmount <directory>", NO_GUESTS),
    refused("--itrace[=<opts>]", NO_AUX),
    refused("--strip", NO_AUX),
    refused("--vm-time-correlation[=<opts>]", NO_AUX),
    refused(
        "--known-build-ids <buildid path [,buildid path...]>",
        "use -b, which reads build ids from the files below --symfs",
    ),
];
