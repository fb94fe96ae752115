//! Input at prompts: completions, errors and filters, and search by words.

use crate::common::harness::Harness;

fn incident() -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", 140, 30)
}

/// Types filters, and lists the lines of the prompt with its message and completions.
fn prompts(typed: &[&str]) -> String {
    // The prompt, and what is above it, cover lines of the table.
    let table = incident().text();
    let list = |typed: &&str| {
        let text = incident().keys(&format!("f{typed}")).text();
        let covered = text.lines().zip(table.lines()).filter(|(line, below)| line != below);
        let lines = covered.map(|(line, _)| format!("    {}\n", line.trim()));
        format!("{typed}\n{}", lines.collect::<String>())
    };
    typed.iter().map(list).collect()
}

#[test]
fn a_word_alone_is_offered_as_a_name_and_taken_by_enter() {
    // A number is a task id, and a field is not a name.
    insta::assert_snapshot!("offers", prompts(&["burn", "4711", "kernel"]));
    let taken = incident().keys("fburn<ret>");
    let named = incident().keys(r#"fcomm == "burn" || program == "burn"<ret>"#);
    let total = |h: &Harness| h.app.model.context.answer.view.total.samples;
    assert!(total(&taken) > 0 && total(&taken) == total(&named));
    assert_eq!(taken.filter(), named.filter());
}

/// An error that completions cannot fix is shown above them; Enter shows every error.
#[test]
fn faults_are_not_hidden_by_completions() {
    let faults = prompts(&[
        "comm contains bu",
        "not idle",
        "comm == burn and ker",
        "(comm == bu<ret>",
        "comm == bu && (ke<ret>",
        "cpu ~ 3",
        // An unfinished filter is not an error yet.
        "comm == bu",
    ]);
    insta::assert_snapshot!("faults", faults);
}

/// Enter answers also where nothing is typed, and a terminal that is too small has the size that the program needs.
#[test]
fn enter_and_tiny_terminals_have_an_answer() {
    let text = incident().keys("W<ret>").text();
    assert!(text.contains("nothing typed, nothing done"), "{text}");
    let tiny = Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", 20, 5).text();
    assert!(tiny.contains("20×5 is too small") && tiny.contains("needs 20×6"), "{tiny}");
}

#[test]
fn a_pattern_without_stars_says_what_it_would_have_with_them() {
    insta::assert_snapshot!("patterns", prompts(&["sym ~ timer", "sym ~ *timer*"]));
}

/// A filter without matches says which values there are.
#[test]
fn a_filter_that_nothing_passes_says_what_there_is() {
    let mut said = String::new();
    for typed in ["nginx<ret>", "pid == 99999<ret>", "comm == absent && kernel<ret>", "sym ~ timer<ret>"] {
        let h = incident().keys(&format!("f{typed}"));
        assert_eq!(h.app.model.context.answer.view.total.samples, 0, "{typed}");
        let text = h.text();
        let words =
            text.lines().skip(5).take(20).map(|line| line.trim_matches([' ', '│'])).filter(|line| !line.is_empty());
        said += &format!("{typed}\n{}\n", words.collect::<Vec<_>>().join("\n"));
    }
    insta::assert_snapshot!("nothing-passes", said);
}

/// Common words are found; for unknown words the closest names are shown.
#[test]
fn the_palette_and_the_units_answer_words() {
    let mut found = String::new();
    for typed in [":lock", ":io", ":why", ":flamegraph", "Mlock", "Mgc", "Mnetwrok", ":netwrok", "Mxyzzyx"] {
        let text = incident().keys(typed).text();
        let popup = text.lines().filter_map(|line| line.split('│').nth(1)).map(str::trim_end);
        found += &format!("{typed}\n{}\n", popup.take(5).collect::<Vec<_>>().join("\n"));
    }
    insta::assert_snapshot!("found", found);
}

#[test]
fn other_names_of_commands_are_taken() {
    let h = incident().keys(":pid 4711<ret>");
    assert_eq!((h.app.model.selection.zooms.len(), h.filter()), (1, Some("(pid in 4711) && (!idle)")));
    let h = incident().keys(":comm burn<ret>");
    let filter = h.filter().unwrap_or_default();
    assert!(h.app.model.selection.zooms.len() == 1 && filter.starts_with("(comm ") && filter != "(!idle)", "{filter}");
    assert_eq!(incident().keys(":help<ret>").text(), incident().keys("?").text());
    assert!(incident().keys(":w /tmp/x.txt<ret>").saved.iter().any(|effect| effect.starts_with("Write")));
}

/// A search prompt leaves room for the row's figures, and disappears if nothing matches.
#[test]
fn a_search_gives_the_line_back() {
    let h = incident().keys("/timer<ret>");
    let details = |h: &Harness| h.text().lines().rev().nth(1).unwrap_or_default().to_owned();
    let found = details(&h);
    insta::assert_snapshot!("found-row", found);
    let h = h.keys("fcomm == absent<ret>");
    assert_eq!(details(&h).trim(), "");
}
