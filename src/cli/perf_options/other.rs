//! What comes of perf's options of the commands that ask the machine: `probe`, `list`.

use super::{PerfOption, SAYS, VERBOSE, idle, refused};

pub(super) const PROBE: &[PerfOption] = &[
    idle(VERBOSE, SAYS),
    refused("-k, --vmlinux <file>", "parameters of kernel functions are told by the kernel's BTF"),
    refused("-m, --module <modname|path>", "functions of modules are found by their names alone"),
    idle("-q, --quiet", "warnings go to standard error: 2>/dev/null"),
    idle(
        "-s, --source <directory>",
        "source files are where the debug information says; -L shows those that are there",
    ),
    refused("--bootconfig", "-n prints what the kernel is told"),
    idle("--cache", "there is no cache of probes"),
    idle("--demangle", "functions are found by their demangled names, too"),
    idle("--demangle-kernel", "functions are found by their demangled names, too"),
    idle("--max-probes <n>", "a glob makes no more than 128 probes"),
    idle("--no-inlines", "inlined functions are no places for probes of a function's begin"),
    refused("--symfs <directory>", "-x names the file itself"),
    refused("--target-ns <pid>", "-x /proc/PID/root/PATH names a file of another mount namespace"),
    idle("-f, --force", "two probes of one place are two events"),
    idle("--externs", "-V lists the parameters of a function"),
    refused("--range", "-V lists the parameters of a function"),
];

pub(super) const LIST: &[PerfOption] = &[
    idle("-d, --desc", "descriptions are printed where there are some"),
    idle("-v, --long-desc", "descriptions are printed where there are some"),
    idle("--cputype <hybrid cpu type>", "events of all PMUs are listed"),
    idle("--debug", SAYS),
    idle("--deprecated", "deprecated events are listed"),
    idle("--details", "`perfprof-tui list --format json` has all that is known"),
    idle("--unit <PMU name>", "a word after list chooses by name"),
];
