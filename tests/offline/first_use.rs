//! Small points that users without the manual stumble over.

use crate::common::harness::Harness;

fn incident() -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", 160, 30)
}

/// The panel next to the table names its row, also where a row is a program or a file, and `x` excludes that row.
#[test]
fn rows_of_programs_have_functions_and_are_left_out_like_others() {
    for (keys, field) in [("program", "program"), ("comm", "comm"), ("comm,pid", "pid"), ("dso", "dso")] {
        let rows = incident().keys(&format!(":sort {keys}<ret>"));
        let text = rows.text();
        let title = text.lines().find_map(|line| line.split_once("│ functions of ")).map(|(_, title)| title.trim());
        assert!(title.is_some_and(|title| !title.is_empty()), "{keys}: {text}");
        assert!(text.contains("⏎ functions") && !text.contains("callers"), "{keys}: {text}");
        let without = rows.keys("x");
        assert!(without.text().contains("are excluded; ⌫ brings them back"), "{}", without.text());
        let copied = without.keys("K");
        let command = copied.saved.last().cloned().unwrap_or_default();
        assert!(command.contains(&format!("!({field} ")), "{keys}: {command}");
        assert!(copied.keys("u").app.selection.zooms.is_empty());
    }
    let functions = incident();
    assert!(
        functions.text().contains("│ callers of ") && functions.text().contains("⏎ callers"),
        "{}",
        functions.text()
    );
    let without = functions.keys("x");
    assert!(without.text().contains("are excluded; ⌫ brings them back"), "{}", without.text());
}

#[test]
fn a_prompt_without_a_limit_begins_empty() {
    assert!(incident().keys("Labc<ret>").text().contains(" abc: expected a percentage"), "0abc");
    let again = incident().keys("L5<ret>L");
    assert!(again.text().contains("hide below %: 5"), "{}", again.text());
}

#[test]
fn differences_are_named_whether_or_not_anything_is_compared() {
    let none = incident().keys("P").text();
    assert!(none.contains("no comparison yet") && none.contains("shown as period per second"), "{none}");
    let compared = incident().keys("bP").text();
    assert!(compared.contains("differences are shown as period per second"), "{compared}");
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
        assert!(!copied.contains("time >=") && !copied.contains("range"), "{keys}: {copied}");
        assert_eq!(copied.contains("burn"), keys.contains("burn"), "{keys}: {copied}");
    }
    let recorded = command(incident().keys(":range 1,2<ret>"));
    assert!(recorded.contains("time >="), "{recorded}");
}
