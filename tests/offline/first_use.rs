//! Small points that users without the manual stumble over.

use crate::common::harness::{Harness, messages};
use perfprof_tui::ui::{ProgramCall, Start};

fn incident() -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", 160, 30)
}

/// The panel next to the table names its row, also where a row is a program or a file, and `x` excludes that row.
#[test]
fn rows_of_programs_have_functions_and_are_left_out_like_others() {
    let mut said = String::new();
    for (keys, field) in [("program", "program"), ("comm", "comm"), ("comm,pid", "pid"), ("dso", "dso")] {
        let rows = incident().keys(&format!(":sort {keys}<ret>"));
        let text = rows.text();
        let title = text.lines().find_map(|line| line.split_once("│ functions of ")).map(|(_, title)| title.trim());
        assert!(title.is_some_and(|title| !title.is_empty()), "{keys}: {text}");
        said += &format!("{keys}: {}\n", rows.footer().trim());
        let without = rows.keys("x");
        assert_eq!(without.app.model.selection.zooms.len(), 1, "{keys}");
        let copied = without.keys("K");
        let command = copied.saved.last().cloned().unwrap_or_default();
        assert!(command.contains(&format!("!({field} ")), "{keys}: {command}");
        assert!(copied.keys("u").app.model.selection.zooms.is_empty());
    }
    let functions = incident().text();
    let titles = functions.lines().filter(|line| line.split_once("│ callers of ").is_some());
    assert_eq!(titles.count(), 1, "{functions}");
    said += &format!("functions: {}\n", incident().footer().trim());
    insta::assert_snapshot!("footers-of-rows", said);
    let kinds = ["x", ":sort program<ret>x", ":sort comm,pid<ret>x", ":sort dso<ret>x"];
    insta::assert_snapshot!("rows-left-out", messages(incident, &kinds));
}

#[test]
fn a_prompt_without_a_limit_begins_empty() {
    insta::assert_snapshot!("limit", messages(incident, &["Labc<ret>"]));
    let prompt = |keys: &str| incident().keys(keys).footer().rsplit(' ').next().map(str::to_owned);
    assert_eq!((prompt("L5<ret>L").as_deref(), prompt("L7").as_deref()), (Some("5"), Some("7")));
}

#[test]
fn differences_are_named_whether_or_not_anything_is_compared() {
    insta::assert_snapshot!("differences", messages(incident, &["P", "bP"]));
}

/// A copied command names the recording of a comparison by its path, unless the command line has it already.
#[test]
fn the_command_has_the_path_of_the_baseline_once() {
    let command = |start: Start| {
        let mut harness = incident().restart(start);
        harness.app.baseline_read("old/x.data".into());
        harness.keys("K").saved.into_iter().rfind(|effect| effect.starts_with("Copy")).expect("a command")
    };
    let copied = command(Start::default());
    let baselines = |copied: &str| copied.matches("baseline").count();
    assert_eq!((copied.matches("'baseline old/x.data'").count(), baselines(&copied)), (1, 1), "{copied}");
    let words = ["perfprof-tui", "open", "old/x.data", "x.data"].map(str::to_owned).to_vec();
    let invocation = ProgramCall { words, baseline: Some("old/x.data".into()), ..ProgramCall::default() };
    let copied = command(Start { invocation, ..Start::default() });
    assert_eq!(baselines(&copied), 0, "{copied}");
}

/// A copied command of a unit lacks options of the view, which units do not take.
#[test]
fn the_command_of_a_unit_is_repeated_as_it_is() {
    let words = ["perfprof-tui", "rundelay", "x.data", "--than", "4ms"].map(str::to_owned).to_vec();
    let invocation = ProgramCall { words, is_of_unit: true, ..ProgramCall::default() };
    let harness = incident().restart(Start { invocation, ..Start::default() }).keys("fcomm == burn<ret>6K");
    let copied = harness.saved.iter().rfind(|effect| effect.starts_with("Copy"));
    assert_eq!(copied.map(String::as_str), Some("Copy(\"perfprof-tui rundelay x.data --than 4ms\")"));
}

/// The command of a live view is for another run: it has no times of this one.
#[test]
fn the_command_of_a_live_view_has_no_times_of_its_session() {
    let command = |harness: Harness| {
        let copies = harness.keys("K").saved;
        copies.into_iter().rfind(|effect| effect.starts_with("Copy")).expect("a command")
    };
    for keys in ["z", ":range 1,2<ret>", "fcomm == burn<ret>z", ":baseline range 1,2<ret>"] {
        let copied = command(incident().metered().keys(keys));
        let words = |text: &str| ["time >=", "range", "burn"].map(|word| text.contains(word));
        assert_eq!(words(&copied), [false, false, words(keys)[2]], "{keys}: {copied}");
    }
    let recorded = command(incident().keys(":range 1,2<ret>"));
    assert!(recorded.contains("time >="), "{recorded}");
}
