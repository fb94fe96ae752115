//! Commands of perf, profilers of perf-prof and tools of bcc and others without a counterpart of the same name, with
//! alternatives.

use std::ffi::OsString;

/// Lines `perf COMMAND: alternative`, `perf-prof PROFILER: alternative` and `bcc TOOL…: alternative`; the first of a name
/// applies.
const ALTERNATIVES: &str = include_str!("perf_commands.md");

pub(crate) fn instead(typed: &str) -> Option<String> {
    ALTERNATIVES.lines().find_map(|line| {
        let (of, names, alternative) = parts(line)?;
        names.split(' ').any(|name| name == typed).then(|| match of {
            "bcc" => format!("{typed} is not a command here: {alternative}"),
            of => format!("{of} {typed} is not a command here: {alternative}"),
        })
    })
}

/// Returns whose commands a line is about, their names, and the alternative.
fn parts(line: &str) -> Option<(&str, &str, &str)> {
    let (commands, alternative) = line.split_once(": ")?;
    let (of, names) = commands.split_once(' ')?;
    Some((of, names, alternative))
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
        let texts = ALTERNATIVES.lines().chain([TRACE]);
        for line in texts.flat_map(|text| text.split('`').skip(1).step_by(2)) {
            let words: Vec<&str> = line.split(' ').collect();
            let command = words[1];
            assert!(words[0] == "perfprof-tui" && whole.find_subcommand(command).is_some(), "{line}");
        }
        let all = ALTERNATIVES.lines().map(|line| parts(line).expect("names and an alternative"));
        for name in all.flat_map(|(_, names, _)| names.split(' ')) {
            assert!(whole.find_subcommand(name).is_none() && instead(name).is_some(), "{name}");
        }
        let tool = instead("biosnoop").expect("an alternative");
        assert!(tool.starts_with("biosnoop is not a command here: use `perfprof-tui blktrace`"), "{tool}");
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
