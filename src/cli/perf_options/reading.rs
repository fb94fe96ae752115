//! What comes of perf's options of the commands that read recordings: `report`, `script`, `annotate`, `diff`.

use super::{PerfOption, SAYS, VERBOSE, idle, refused};

const NO_CHECK: &str = "whose file it is does not matter: nothing in it is believed";
const BY_OURSELVES: &str = "code is disassembled and lines are found without programs of others";
const NO_AUX: &str = "traces of the AUX area (Intel PT, ARM CoreSight) are not decoded: perf does";
const NO_GUESTS: &str = "functions of guests have no names: `perf kvm` looks them up";
const MODULES: &str = "modules have names from /proc/kallsyms, or the files below --symfs";
const KERNEL: &str = "names of the kernel are demangled where they are mangled";
const DEMANGLED: &str = "names are demangled; --no-demangle leaves them";
const NO_SWITCHES: &str = "moments are chosen by --time, or --where 'time > …'";
const NO_SCRIPTS: &str = "there are no scripts in other languages; export --to, and units, do what they do";
const IS_TEXT: &str = "it prints text; `perfprof-tui open FILE` is the screen";

pub(super) const REPORT: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    idle("-f, --force", NO_CHECK),
    idle("-M, --disassembler-style <disassembler style>", BY_OURSELVES),
    idle("-m, --modules", MODULES),
    idle("-q, --quiet", "warnings go to standard error: 2>/dev/null"),
    idle("--asm-raw", "`perfprof-tui annotate` shows code"),
    idle("--source", "`perfprof-tui annotate` shows code"),
    idle("--demangle-kernel", KERNEL),
    idle("--disable-order", "records are put in order of time"),
    idle("--full-source-path", "lines are told apart by their whole paths"),
    idle("--group", "each event has a table"),
    idle("--group-sort-idx <n>", "each event has a table"),
    idle("--ignore-vmlinux", "the kernel's names come from it only with -k"),
    refused("--itrace[=<opts>]", NO_AUX),
    idle("--objdump <path>", BY_OURSELVES),
    idle("--percent-type <local-period>", "`perfprof-tui annotate` shows code"),
    idle("--prefix <prefix>", BY_OURSELVES),
    idle("--prefix-strip <N>", BY_OURSELVES),
    idle("--pretty <key>", "-T --format csv has a line for each thread and event"),
    idle("--raw-trace", "fields of a tracepoint are columns: -s EVENT.FIELD"),
    idle("--samples <n>", "samples are looked at on the screen: perfprof-tui open FILE"),
    idle("--show-on-off-events", NO_SWITCHES),
    idle("--show-ref-call-graph", "an event without call chains has none"),
    idle("--skip-empty", "events without samples have no table"),
    refused("--socket-filter <n>", "-C and --where 'cpu in …' choose CPUs"),
    idle("--stdio-color <mode>", IS_TEXT),
    idle("--stitch-lbr", "chains of branches are shown as they were recorded"),
    refused("--switch-off <event>", NO_SWITCHES),
    refused("--switch-on <event>", NO_SWITCHES),
    refused("--total-cycles", "blocks of branches are not counted: perf report does"),
    idle("--tui", IS_TEXT),
    idle("--demangle", DEMANGLED),
    idle("--ns", "times of -s time have microseconds; script --ns has nanoseconds"),
];

pub(super) const SCRIPT: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    idle("-a, --all-cpus", "all samples of a recording are printed"),
    idle("-d, --debug-mode", "losses and what is out of order are always said"),
    refused("-g, --gen-script <lang>", NO_SCRIPTS),
    refused("-s, --script <name>", NO_SCRIPTS),
    refused("-l, --list", NO_SCRIPTS),
    refused("--addr-range <n>", "--where 'sym == …' chooses functions"),
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
    idle("--full-source-path", "-F +srcline prints file and line"),
    idle("--guest-code", NO_GUESTS),
    refused("--guestkallsyms <file>", NO_GUESTS),
    refused("--guestmodules <file>", NO_GUESTS),
    refused("--guestmount <directory>", NO_GUESTS),
    refused("--guestvmlinux <file>", NO_GUESTS),
    idle("--max-blocks <n>", "branches' code is not printed"),
    refused("--per-event-dump", "--event NAME prints one event's samples"),
    idle("--show-kernel-path", "the kernel has no path"),
    idle("--show-on-off-events", NO_SWITCHES),
    idle("--stitch-lbr", "chains of branches are shown as they were recorded"),
    refused("--switch-off <event>", NO_SWITCHES),
    refused("--switch-on <event>", NO_SWITCHES),
    idle("--demangle", "names are demangled; --no-demangle leaves them"),
];

pub(super) const ANNOTATE: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    refused("-D, --dump-raw-trace", "`perfprof-tui script -D` prints records"),
    idle("-f, --force", NO_CHECK),
    idle("-l, --print-line", "lines stand beside the code"),
    idle("-M, --disassembler-style <disassembler style>", "code is shown as AT&T has it, as perf does by itself"),
    idle("-m, --modules", MODULES),
    idle("-n, --show-nr-samples", "samples have a column"),
    idle("-P, --full-paths", "files have whole paths"),
    idle("-q, --quiet", "warnings go to standard error: 2>/dev/null"),
    idle("--demangle-kernel", KERNEL),
    idle("--group", "--event chooses one event"),
    idle("--ignore-vmlinux", "the kernel's names come from it only with -k"),
    refused("--itrace[=<opts>]", NO_AUX),
    idle("--objdump <path>", BY_OURSELVES),
    idle("--percent-type <local-period>", "shares are of the function's own samples"),
    idle("--prefix <prefix>", BY_OURSELVES),
    idle("--prefix-strip <N>", BY_OURSELVES),
    idle("--show-total-period", "samples have a column"),
    idle("--skip-missing", "functions without code are left out, and named on standard error"),
    idle("--source", "lines stand beside the code"),
    idle("--stdio-color <mode>", IS_TEXT),
    idle("--stdio2", IS_TEXT),
    idle("--tui", IS_TEXT),
    idle("--demangle", DEMANGLED),
];

pub(super) const DIFF: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    refused("-D, --dump-raw-trace", "`perfprof-tui script -D` prints records"),
    idle("-f, --force", NO_CHECK),
    idle("-m, --modules", MODULES),
    idle("-q, --quiet", "warnings go to standard error: 2>/dev/null"),
    refused("--cycles-hist", "blocks of branches are not counted: perf diff does"),
    refused("--stream", "--format folded has whole stacks, --format svg draws them"),
    idle("--percentage <relative|absolute>", "shares are of what the filters leave"),
];

pub(super) const EVLIST: &[PerfOption] = &[idle("-f, --force", NO_CHECK)];

pub(super) const BUILDID_LIST: &[PerfOption] = &[idle(VERBOSE, SAYS), idle("-f, --force", NO_CHECK)];

pub(super) const INJECT: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    idle("-f, --force", NO_CHECK),
    idle("--ignore-vmlinux", "names are not looked up"),
    refused("-j, --jit", "functions of a JIT are named from its jitdump or map by `report` and the others themselves"),
    refused("--guest-data[=<opts>]", NO_GUESTS),
    refused("--guestmount <directory>", NO_GUESTS),
    refused("--itrace[=<opts>]", NO_AUX),
    refused("--strip", NO_AUX),
    refused("--vm-time-correlation[=<opts>]", NO_AUX),
    refused("--known-build-ids <buildid path [,buildid path...]>", "-b takes them from the files, which --symfs names"),
];
