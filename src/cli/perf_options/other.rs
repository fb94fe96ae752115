//! perf's options of `probe` and `list`.

use super::{PerfOption, SAYS, VERBOSE, idle, refused};

pub(super) const PROBE: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    refused("-k, --vmlinux <file>", "parameters of kernel functions come from the kernel's BTF"),
    refused("-m, --module <modname|path>", "functions of modules are found by name, without the module"),
    idle("-q, --quiet", "warnings go to standard error: use 2>/dev/null"),
    idle(
        "-s, --source <directory>",
        "source files are read from the paths in the debug information; -L shows their lines",
    ),
    refused("--bootconfig", "use -n, which prints the kernel's definitions"),
    idle("--cache", "no probe cache is kept"),
    idle("--demangle", "functions are also found by their demangled names"),
    idle("--demangle-kernel", "functions are also found by their demangled names"),
    idle("--max-probes <n>", "a glob creates at most 128 probes"),
    idle("--no-inlines", "probes at the start of a function skip inlined copies"),
    refused("--symfs <directory>", "name the file itself with -x"),
    refused("--target-ns <pid>", "name a file of another mount namespace with -x /proc/PID/root/PATH"),
    idle("-f, --force", "two probes at one place are two events"),
    idle("--externs", "-V lists the parameters of a function"),
    refused("--range", "-V lists the parameters of a function"),
];

pub(super) const LIST: &[PerfOption] = &[
    idle("-d, --desc", "descriptions are printed by default"),
    idle("-v, --long-desc", "descriptions are printed by default"),
    idle("--cputype <hybrid cpu type>", "events of all PMUs are listed"),
    idle("--debug", SAYS),
    idle("--deprecated", "deprecated events are listed"),
    idle("--details", "`perfprof-tui list --format json` prints all details"),
    idle("--unit <PMU name>", "a word after list selects by name"),
];
