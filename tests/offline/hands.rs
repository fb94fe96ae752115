//! Input beyond the keys of screens: typing into help, palette and the list of units, and clicks.

use crate::common::harness::Harness;
use perfprof_tui::ui::tab::Tab;

fn incident(width: u16, height: u16) -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", width, height)
}

/// Finds the position of a text.
fn place(harness: &Harness, text: &str) -> (u16, u16) {
    let screen = harness.text();
    let found = screen.lines().zip(0..).find_map(|(line, y)| {
        let at = line.find(text)?;
        Some((line[..at].chars().count() as u16, y))
    });
    found.unwrap_or_else(|| panic!("no {text} on\n{screen}"))
}

fn click(harness: Harness, text: &str) -> Harness {
    let (x, y) = place(&harness, text);
    harness.click(x, y)
}

/// The key skips fields that no sample has: this recording has no cgroups.
#[test]
fn rows_are_not_split_by_what_nobody_knows() {
    let split = incident(100, 24).keys("<tab><tab><tab><tab>");
    assert!(split.text().contains("by CPU") && split.text().contains("Tab by function"), "{}", split.text());
    let whole = split.keys("<tab>");
    assert!(whole.text().contains("Tab by comm") && !whole.text().contains("Cgroup"), "{}", whole.text());
}

/// The bottom rows of a flame graph zoom into a program, a process or all samples.
#[test]
fn the_ground_of_a_flame_graph_is_a_filter() {
    let program = incident(120, 30).keys("2c");
    assert!(program.text().contains("all › program burn"), "{}", program.text());
    assert!(!program.text().contains("swapper"), "{}", program.text());
    let process = incident(120, 30).keys("2<tab>c");
    assert!(process.text().contains("all › pid ") && !process.text().contains("swapper"), "{}", process.text());
    let all = incident(120, 30).keys("2<tab><tab>c");
    assert!(all.text().contains("no frame with a comm under the cursor"), "{}", all.text());
}

/// For a tracepoint, the key that splits rows starts with the event's text: such rows have no functions, lead to
/// callers, and can be zoomed into.
#[test]
fn rows_are_by_the_texts_of_a_tracepoint() {
    let clock = Harness::open("switches.data", "switches.kallsyms", 100, 24).keys("<tab>");
    assert!(clock.text().contains("a row is a function by comm"), "{}", clock.text());
    let by_text = Harness::open("switches.data", "switches.kallsyms", 100, 24).keys("}<tab>");
    let text = by_text.text();
    assert!(text.contains("rows by prev_comm") && text.contains("Self▾  Children"), "{text}");
    assert!(!text.contains("Symbol") && !text.contains("DSO"), "{text}");
    let unfolded = by_text.keys("<ret>j");
    insta::assert_snapshot!("rows-by-a-text-100x24", unfolded.text());
    let zoomed = unfolded.keys("ko");
    assert!(zoomed.text().contains(" 1/1 by prev_comm"), "{}", zoomed.text());
    let back = zoomed.keys("u<tab><tab>");
    assert!(back.text().contains("a row is a function by comm") && back.text().contains("Symbol"), "{}", back.text());
}

#[test]
fn help_is_searched_by_typing() {
    let help = incident(80, 24).keys("?");
    assert!(help.text().contains("type to search") && help.text().contains("Esc close"));
    let found = help.keys("exclude comm");
    let text = found.text();
    assert!(text.contains(":not-comm") && !text.contains(":flip"), "{text}");
    // Help finds keys of other screens, and ignores a leading slash.
    assert!(incident(80, 24).keys("?/recursion").text().contains(":recursion"));
    let none = found.keys("<esc>zzzz").text();
    assert!(none.contains("zzzz"), "{none}");
    let cleared = incident(80, 24).keys("?zzzz");
    assert!(cleared.text().contains("no matches"));
    let cleared = cleared.keys("<esc>");
    assert!(cleared.text().contains("type to search"), "Esc clears first");
    assert!(!cleared.keys("<esc>").text().contains("help: Top"));
}

#[test]
fn texts_scroll_as_lists_do() {
    let info = incident(80, 12).keys("I");
    let top = info.text();
    let end = info.keys("G");
    assert_ne!(end.text(), top);
    let one_up = end.keys("k");
    assert_ne!(one_up.text(), top, "a line up from the end does not move");
    assert_eq!(one_up.keys("g").text(), top);
}

#[test]
fn each_popup_has_keys_of_its_own_at_the_bottom() {
    for (keys, has, lacks) in [
        ("?", "search", "callers"),
        (":", "run", "callers"),
        ("C", "show/hide", "callers"),
        ("l", "page", "callers"),
        ("''", "go there", "callers"),
        ("M", "start", "add unit"),
    ] {
        let text = incident(80, 24).keys(keys).text();
        let last = text.lines().last().unwrap_or_default();
        assert!(last.contains(has) && !last.contains(lacks), "{keys}: {last}");
    }
    let annotated = Harness::open("corpus/inline.data", "kallsyms", 80, 24).keys("A").text();
    assert!(annotated.lines().last().is_some_and(|last| last.contains("hot spots")), "{annotated}");
}

/// The six most useful keys and `help` fit on every screen at 80 columns.
#[test]
fn the_keys_at_the_bottom_are_six_and_help() {
    for screen in ["1", "2", "3", "4", "5", "6"] {
        let text = incident(80, 24).keys(screen).text();
        let last = text.lines().last().unwrap_or_default().to_owned();
        assert!(last.contains("? help"), "{screen}: {last}");
        assert!(last.split("  ").count() >= 6, "{screen}: {last}");
    }
}

#[test]
fn units_are_chosen_by_what_they_are_about() {
    let list = incident(100, 30).keys("M");
    insta::assert_snapshot!("units-to-choose-100x30", list.text());
    let waits = list.keys("wait");
    let text = waits.text();
    assert!(text.contains("rundelay") && !text.contains("blktrace "), "{text}");
    assert!(text.contains("not here: sched:sched_switch is not in this recording"), "{text}");
    // Enter takes the only match, or the one under the cursor.
    let started = |keys: &str| incident(100, 30).keys(keys).saved.join("\n");
    assert!(started("Mcalls cost<ret>").contains("syscalls"), "{}", started("Mcalls cost<ret>"));
    assert!(started("Mkmem<down><ret>").contains("kmemprof"));
    assert!(started("Mrundelay --than 4ms<ret>").contains("4ms"));
    // Tab completes a name and shows its options.
    let options = incident(100, 30).keys("Mrund<tab>");
    assert!(options.text().contains("> rundelay") && options.text().contains("--than"), "{}", options.text());
    // A unit with a missing argument says so, and the prompt stays open.
    let more = incident(100, 30).keys("Mnum-dist<ret>");
    assert!(more.text().contains("measure what?"), "{}", more.text());
}

#[test]
fn the_palette_takes_words() {
    let text = incident(100, 30).keys(":percentages above").text();
    assert!(text.contains("fractal") && text.contains('%'), "{text}");
}

#[test]
fn tabs_hints_and_popups_are_clicked() {
    let h = click(incident(80, 24), "4 CPUs");
    assert_eq!(h.app.frame.tab, Tab::Cpus);
    let h = click(h, "? help");
    assert!(h.text().contains("help: CPUs"));
    let h = click(h, "Esc close");
    assert!(!h.text().contains("help: CPUs"));
    // A click on an anomaly goes to it.
    let h = click(incident(120, 30).host("ipvs-busy"), "CPU 32 softirq");
    assert_eq!(h.app.frame.tab, Tab::Cpus);
    // A click on a row of the palette selects it, a second click runs it.
    let h = click(incident(100, 30).keys(":idle"), "show or hide idle");
    assert!(!h.app.selection.hide_idle);
    let h = click(incident(100, 30).keys("MKmem"), "kmemprof");
    assert!(h.saved.is_empty());
    assert!(click(h, "kmemprof").saved.join("").contains("kmemprof"));
    // A click outside of a popup closes it.
    assert!(!incident(100, 30).keys(":").click(2, 6).text().contains("commands ──"));
    // A click on a heading sorts.
    let h = click(incident(120, 30), "Children");
    assert!(h.text().contains("Children▾"), "{}", h.text());
    // A click on a completion accepts it.
    let h = click(incident(100, 30).keys("fcom"), "comm name of");
    assert!(h.text().contains("filter: comm\n") && h.text().contains("==  !="), "{}", h.text());
    // A click on a chord's hint types its first key.
    assert!(click(incident(100, 24).keys("2"), "e edit").text().contains("a function that calls itself"));
}

/// Text typed for a prompt that does not open is not taken as keys: the reason is shown in place of the prompt.
#[test]
fn text_for_a_prompt_that_does_not_open_goes_nowhere() {
    let typed = incident(80, 24).keys("Fqzq2");
    let text = typed.text();
    assert!(text.contains("record only: ") && text.contains("f filters the view"), "{text}");
    assert!(text.contains("[1 Top]"), "{text}");
    let done = typed.keys("<ret>");
    let text = done.text();
    assert!(!text.contains("record only: ") && text.contains("f filters the view"), "{text}");
    assert!(done.keys("2").text().contains("[2 Flame]"));
    let events = incident(80, 24).keys("5er9q2");
    let text = events.text();
    assert!(text.contains("[5 Events]") && text.contains("cannot be changed"), "{text}");
    assert!(events.keys("<esc>2").text().contains("[2 Flame]"));
}

/// The footer offers only keys that work for this recording or function.
#[test]
fn keys_at_the_bottom_do_what_they_say() {
    let last = |keys: &str| incident(80, 24).keys(keys).text().lines().last().unwrap_or_default().to_owned();
    for (keys, lacks) in [("4", "time softirqs"), ("5", "stop"), ("5", "add by name"), ("A", "hot spots")] {
        assert!(!last(keys).contains(lacks), "{keys}: {}", last(keys));
    }
}

/// The screen of an annotated function shows no details of other rows.
#[test]
fn an_annotated_function_stands_alone() {
    let text = Harness::open("corpus/inline.data", "kallsyms", 160, 40).keys("jA").text();
    assert!(!text.contains("callers of"), "{text}");
    let details = text.lines().rev().nth(1).unwrap_or_default();
    assert!(details.trim().is_empty(), "{text}");
}

/// Descriptions of keys are never truncated, at any width.
#[test]
fn no_word_of_help_is_cut() {
    use perfprof_tui::ui::commands::table::rows;

    for width in [60, 80, 120, 200] {
        let text = incident(width, 320).keys("?").text();
        for row in rows().filter(|row| row.tab.is_none()) {
            let name = format!(" :{} ", row.name);
            let at = text.lines().position(|line| line.contains(&name));
            let at = at.unwrap_or_else(|| panic!("no {name}: {text}"));
            let last = row.doc.split_whitespace().last().unwrap_or_default();
            let whole: String = text.lines().skip(at).take(8).collect();
            assert!(whole.contains(last), "{name}, {width} wide: {whole}");
        }
    }
}
