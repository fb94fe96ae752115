//! Input at prompts: completions, errors and filters, and search by words.

use crate::common::harness::Harness;

fn incident() -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", 140, 30)
}

#[test]
fn a_word_alone_is_offered_as_a_name_and_taken_by_enter() {
    let typed = incident().keys("fburn");
    assert!(typed.text().contains(r#"⏎ takes comm == "burn" || program == "burn""#), "{}", typed.text());
    let taken = typed.keys("<ret>");
    assert!(taken.text().contains("burn"), "{}", taken.text());
    let named = incident().keys(r#"fcomm == "burn" || program == "burn"<ret>"#);
    let total = |h: &Harness| h.app.context.answer.view.total.samples;
    assert!(total(&taken) > 0 && total(&taken) == total(&named));
    // A number is a task id.
    let number = incident().keys("f4711");
    assert!(number.text().contains("⏎ takes pid == 4711 || tid == 4711"), "{}", number.text());
    // A field is not a name.
    assert!(!incident().keys("fkernel").text().contains("⏎ takes"));
}

/// An error that completions cannot fix is shown above them; Enter shows every error.
#[test]
fn faults_are_not_hidden_by_completions() {
    for (typed, fault) in [
        ("comm contains bu", r#"this is written comm ~ "*word*""#),
        ("not idle", "this is written !"),
        ("comm == burn and ker", "this is written &&"),
        ("(comm == bu<ret>", "is not closed"),
        ("comm == bu && (ke<ret>", "unknown field ke"),
        ("cpu ~ 3", "cpu supports the operators"),
    ] {
        let h = incident().keys(&format!("f{typed}"));
        assert!(h.text().contains(fault), "{typed}: {}", h.text());
    }
    // An unfinished filter is not an error yet.
    let h = incident().keys("fcomm == bu");
    assert!(h.text().contains("burn") && !h.text().contains("expected"), "{}", h.text());
}

#[test]
fn a_pattern_without_stars_says_what_it_would_have_with_them() {
    let h = incident().keys("fsym ~ timer");
    assert!(h.text().contains(r#"~ matches whole names; sym ~ "*timer*" has "#), "{}", h.text());
    let none = h.keys("<ret>");
    assert!(none.text().contains("No sample matches sym ~ timer."), "{}", none.text());
    assert!(none.text().contains(r#"sym ~ "*timer*" matches parts"#), "{}", none.text());
    assert!(!incident().keys("fsym ~ *timer*").text().contains("whole names"));
}

#[test]
fn a_filter_that_nothing_passes_says_what_there_is() {
    for (typed, seen) in
        [("nginx<ret>", "burn"), ("pid == 99999<ret>", "Seen"), ("comm == absent && kernel<ret>", "burn")]
    {
        let h = incident().keys(&format!("f{typed}"));
        let text = h.text();
        assert!(text.contains("No sample matches ") && text.contains(seen), "{typed}: {text}");
    }
}

/// Common words are found; for unknown words the closest names are shown.
#[test]
fn the_palette_and_the_units_answer_words() {
    for (typed, first) in [
        (":lock", "offcpu"),
        (":io", "blktrace"),
        (":why", "finding"),
        (":flamegraph", "flame"),
        ("Mlock", "offcpu"),
        ("Mgc", "usdt"),
        ("Mnetwrok", "nearest: network"),
        (":netwrok", "nearest: network"),
        ("Mxyzzyx", "nothing found for xyzzyx"),
    ] {
        let text = incident().keys(typed).text();
        assert!(text.contains(first), "{typed}: {text}");
    }
    let text = incident().keys("Mlock").text();
    assert!(text.find("offcpu") < text.find("syscalls"), "{text}");
}

#[test]
fn other_names_of_commands_are_taken() {
    let h = incident().keys(":pid 4711<ret>");
    assert!(format!("{:?}", h.app.selection.zooms).contains("pid in 4711"), "{:?}", h.app.selection.zooms);
    let h = incident().keys(":comm burn<ret>");
    assert!(format!("{:?}", h.app.selection.zooms).contains("burn"), "{:?}", h.app.selection.zooms);
    assert!(incident().keys(":help<ret>").text().contains("Move"));
    assert!(incident().keys(":w /tmp/x.txt<ret>").saved.iter().any(|effect| effect.starts_with("Write")));
}

/// A search prompt leaves room for the row's figures, and disappears if nothing matches.
#[test]
fn a_search_gives_the_line_back() {
    let h = incident().keys("/timer<ret>");
    assert!(h.text().contains("/timer 1/") && h.text().contains("self "), "{}", h.text());
    let h = h.keys("fcomm == absent<ret>");
    assert!(!h.text().contains("/timer"), "{}", h.text());
}
