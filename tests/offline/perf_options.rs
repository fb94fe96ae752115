//! Every option of the installed perf has an answer: a new perf shows what is missing.

use perfprof_tui::cli::args::whole;

use crate::common::{data, program, skipped};

/// The perf commands whose options are all known; `top` is the live screen.
const COMMANDS: &[&str] = &[
    "top",
    "record",
    "stat",
    "report",
    "script",
    "annotate",
    "evlist",
    "buildid-list",
    "inject",
    "diff",
    "probe",
    "list",
];

/// The short and the long name of an option in a line of perf's help.
fn names(line: &str) -> (Option<char>, Option<&str>) {
    // Two spaces precede the description.
    let spelled = line.trim_start().split("  ").next().unwrap_or_default();
    let words = || spelled.split(['[', '<', ' ', ',', '=']).filter(|word| word.starts_with('-'));
    let long = words().find_map(|word| word.strip_prefix("--"));
    (words().find(|word| !word.starts_with("--")).and_then(|word| word.chars().nth(1)), long)
}

#[test]
fn every_option_of_perf_is_answered() {
    let command = whole();
    let (mut missing, mut asked) = (Vec::new(), 0);
    for name in COMMANDS {
        let Ok(out) = std::process::Command::new("perf").args([name, "-h"]).output() else {
            return skipped("perf is not installed");
        };
        let own = if *name == "top" { &command } else { command.find_subcommand(name).expect("a command") };
        let text = [out.stdout, out.stderr].concat();
        for line in String::from_utf8_lossy(&text).lines().filter(|line| line.trim_start().starts_with('-')) {
            let (short, long) = names(line);
            asked += 1;
            let has_short = |c| {
                own.get_arguments().any(|arg| arg.get_short_and_visible_aliases().is_some_and(|list| list.contains(&c)))
            };
            let has_long = |name: &str| {
                own.get_arguments().any(|arg| {
                    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|list| list.contains(&name))
                })
            };
            // Every option without a value can be negated.
            let is_flag = |name: &str| !line.contains(&format!("--{name} <")) && !line.contains(&format!("--{name}="));
            let back = long
                .filter(|name| is_flag(name))
                .map(|name| name.strip_prefix("no-").map_or_else(|| format!("no-{name}"), str::to_owned));
            if !short.is_none_or(has_short) || !long.is_none_or(has_long) || !back.is_none_or(|name| has_long(&name)) {
                missing.push(format!("{name}: {}", line.trim()));
            }
        }
    }
    assert!(missing.is_empty(), "of {asked}:\n{}", missing.join("\n"));
    assert!(asked > 300, "perf has only {asked} options");
}

/// perf's abbreviated and negated option names mean the same as the full names.
#[test]
fn names_may_be_cut_and_taken_back_as_in_perf() {
    let file = data("fp-spin.data");
    let of = |args: &[&str]| program().args(args).arg(&file).output().expect("runs");
    let text = |args: &[&str]| String::from_utf8(of(args).stdout).expect("text");
    let (whole, own) = (text(&["report", "--children"]), text(&["report", "--no-children"]));
    assert_ne!(whole, own);
    assert_eq!(own, text(&["report", "--child", "--no-child"]));
    assert_eq!(whole, text(&["report", "--no-children", "--children"]));
    assert_eq!(text(&["report", "-g", "caller"]), text(&["report", "--call", "caller"]));
    assert_eq!(whole, text(&["report", "--children", "--call-graph", "--no-call-graph"]));
    assert_eq!(text(&["report", "--stdio", "-gnone"]), text(&["report", "--stdio", "--no-call-graph"]));
    assert_eq!(text(&["report", "--stdio"]), text(&["report", "--stdio", "--no-call-graph", "--call-graph"]));
    assert_eq!(text(&["script", "-F", "comm,ip"]), text(&["script", "--fie=comm,ip"]));
    let refused = of(&["report", "--sym", "main"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(["--symbols", "--symbol-filter", "--symfs"].iter().all(|name| said.contains(name)), "{said}");
}

#[test]
fn lists_of_events_without_descriptions() {
    let of = |args: &[&str]| {
        let output = program().arg("list").args(args).output().expect("runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let (whole, short) = (of(&["sw"]), of(&["--no-desc", "sw"]));
    // The names are the same, and lines are shorter.
    let names =
        |text: &str| text.lines().map(|line| line.split_whitespace().next().map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(names(&whole), names(&short));
    assert!(short.len() < whole.len() && names(&short).contains(&Some("cpu-clock".to_owned())), "{short}");
}
