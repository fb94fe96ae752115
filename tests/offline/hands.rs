//! Input beyond the keys of screens: typing into help, palette and the list of units, and clicks.

use std::collections::BTreeSet;

use crate::common::cells::row;
use crate::common::harness::{Harness, messages};
use perfprof_tui::perfdata::PeriodMeaning;
use perfprof_tui::query::rows::top_table::TopField;
use perfprof_tui::query::{ColumnKey, TopLine};
use perfprof_tui::ui::Level;
use perfprof_tui::ui::state::tab::Tab;

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

/// The columns that rows are grouped by.
fn keys_of(harness: &Harness) -> &[ColumnKey] {
    &harness.app.model.context.answer.question.top.keys
}

/// The messages of keys without effect, and of keys that change the rows.
#[test]
fn messages_of_keys() {
    let on_switches = || Harness::open("switches.data", "switches.kallsyms", 100, 24);
    let of_incident = messages(|| incident(120, 30), &["<tab><tab><tab><tab><tab>", "2<tab><tab>c", "2eb"]);
    let of_switches = messages(on_switches, &["<tab>", "}<tab>"]);
    insta::assert_snapshot!("messages", of_incident + &of_switches);
}

fn click(harness: Harness, text: &str) -> Harness {
    let (x, y) = place(&harness, text);
    harness.click(x, y)
}

/// The key skips fields that no sample has: this recording has no cgroups.
#[test]
fn rows_are_not_split_by_what_nobody_knows() {
    let split = incident(100, 24).keys("<tab><tab><tab><tab><tab>");
    assert!(keys_of(&split).contains(&ColumnKey::Cpu), "{:?}", keys_of(&split));
    let whole = split.keys("<tab>");
    assert_eq!(keys_of(&whole), keys_of(&incident(100, 24)));
}

/// The first press of the key shows one row for each process, also if its threads have other names; Enter shows the
/// functions of a process, and a key excludes it. The key goes on to functions, split.
#[test]
fn rows_are_rolled_up_by_process_first() {
    let functions = incident(120, 30);
    let rolled = incident(120, 30).keys("<tab>");
    assert_eq!(keys_of(&rolled), [ColumnKey::Pid, ColumnKey::Program]);
    let view = |h: &Harness| h.app.model.context.answer.view.clone();
    assert_eq!(view(&rolled).total.samples, view(&functions).total.samples);
    let pid = |line: &TopLine| TopField::Key(ColumnKey::Pid).cell(line, PeriodMeaning::default()).text();
    let pids: BTreeSet<String> = view(&rolled).lines.iter().map(pid).collect();
    assert_eq!((pids.len(), view(&rolled).rows), (view(&rolled).lines.len(), pids.len()));
    assert!(pids.len() > 1 && view(&rolled).lines.iter().all(|line| line.sym.is_empty()));
    let first = pid(&view(&rolled).lines[0]);
    let inside = incident(120, 30).keys("<tab><ret>");
    assert!(view(&inside).lines.iter().any(|line| line.depth == 1 && !line.sym.is_empty()), "{}", inside.text());
    let without = incident(120, 30).keys("<tab>x");
    let left: BTreeSet<String> = view(&without).lines.iter().map(pid).collect();
    assert_eq!((left.len(), left.contains(&first)), (pids.len() - 1, false), "{:?}", without.filter());
    let next = incident(120, 30).keys("<tab><tab>");
    assert_eq!(keys_of(&next), [&[ColumnKey::Comm][..], keys_of(&functions)].concat());
    let again = next.keys("<tab><tab><tab><tab>");
    assert_eq!(keys_of(&again), keys_of(&functions));
}

/// The bottom rows of a flame graph zoom into a program, a process or all samples.
#[test]
fn the_ground_of_a_flame_graph_is_a_filter() {
    let usual = incident(120, 30);
    for (keys, field) in [("2c", "program"), ("2<tab>c", "pid")] {
        let zoomed = incident(120, 30).keys(keys);
        let (now, before) = (zoomed.filter().unwrap_or_default(), usual.filter().unwrap_or_default());
        let is_narrower = now.starts_with(&format!("({field} ")) && now.ends_with(&format!("({before})"));
        assert!(is_narrower && zoomed.app.model.selection.zooms.len() == 1, "{now}");
        let samples = |h: &Harness| h.app.model.context.answer.view.total.samples;
        assert!(samples(&zoomed) > 0 && samples(&zoomed) < samples(&usual), "{keys}");
    }
    let all = incident(120, 30).keys("2<tab><tab>c");
    assert_eq!((all.level().is_some(), all.filter()), (true, usual.filter()));
}

/// For a tracepoint, the key that splits rows starts with the event's text: such rows have no functions, lead to
/// callers, and can be zoomed into.
#[test]
fn rows_are_by_the_texts_of_a_tracepoint() {
    let open = || Harness::open("switches.data", "switches.kallsyms", 100, 24);
    let clock = open().keys("<tab><tab>");
    let usual = [ColumnKey::Comm, ColumnKey::Dso, ColumnKey::Sym];
    assert!(usual.iter().all(|key| keys_of(&clock).contains(key)), "{:?}", keys_of(&clock));
    let by_text = open().keys("}<tab>");
    let heads = by_text.text();
    assert_eq!(row(&heads, "Self▾"), ["Self▾", "Children", "prev_comm"]);
    let unfolded = by_text.keys("<ret>j");
    insta::assert_snapshot!("rows-by-a-text-100x24", unfolded.text());
    let zoomed = unfolded.keys("ko");
    assert_eq!((zoomed.app.model.selection.zooms.len(), zoomed.app.model.context.answer.view.rows), (1, 1));
    let back = zoomed.keys("u<tab><tab><tab>");
    assert!(usual.iter().all(|key| keys_of(&back).contains(key)), "{:?}", keys_of(&back));
}

#[test]
fn help_is_searched_by_typing() {
    let screen = incident(80, 24).text();
    let help = || incident(80, 24).keys("?");
    let whole = help().text();
    let found = help().keys("exclude comm");
    insta::assert_snapshot!("help-found", found.text());
    // Help finds keys of other screens, and ignores a leading slash.
    assert_eq!(has_command(&help().keys("/recursion"), "recursion"), (true, false));
    let none = found.keys("<esc>zzzz");
    insta::assert_snapshot!("help-without-match", none.text());
    let cleared = none.keys("<esc>");
    assert_eq!(cleared.text(), whole, "Esc clears first");
    assert_eq!(cleared.keys("<esc>").text(), screen);
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

/// The keys in the footer of each screen and each popup, of a recording.
#[test]
fn each_screen_and_popup_has_keys_of_its_own_at_the_bottom() {
    let screens = ["1", "2", "3", "4", "5", "6"].map(str::to_owned);
    let popups = ["?", ":", "C", "l", "''", "M"].map(str::to_owned);
    let line = |(keys, harness): (&str, Harness)| format!("{keys:<3}{}\n", harness.footer());
    let mut of_all: String =
        screens.iter().chain(&popups).map(|keys| line((keys, incident(80, 24).keys(keys)))).collect();
    of_all += &line(("A", Harness::open("corpus/inline.data", "kallsyms", 80, 24).keys("A")));
    // Without the program, the annotated function has no instructions to go to.
    of_all += &line(("A", incident(80, 24).keys("A")));
    insta::assert_snapshot!("footers", of_all);
    let (screen, of_popups) = (incident(80, 24).footer(), popups.map(|keys| incident(80, 24).keys(&keys).footer()));
    assert!(of_popups.iter().all(|footer| *footer != screen), "{of_popups:?}");
}

/// Returns whether help shows a command, and whether it shows one of every screen.
fn has_command(harness: &Harness, name: &str) -> (bool, bool) {
    let text = harness.text();
    let shows = |name: &str| text.lines().any(|line| line.split_whitespace().any(|word| word == format!(":{name}")));
    (shows(name), shows("flip"))
}

/// The six most useful keys and `help` fit on every screen at 80 columns.
#[test]
fn the_keys_at_the_bottom_are_six_and_help() {
    for screen in ["1", "2", "3", "4", "5", "6"] {
        let footer = incident(80, 24).keys(screen).footer();
        let keys: Vec<&str> = footer.split("  ").collect();
        assert!(keys.len() >= 6 && keys.iter().any(|key| key.starts_with("? ")), "{screen}: {footer}");
    }
}

#[test]
fn units_are_chosen_by_what_they_are_about() {
    let list = incident(100, 30).keys("M");
    insta::assert_snapshot!("units-to-choose-100x30", list.text());
    let waits = list.keys("wait");
    insta::assert_snapshot!("units-about-waits", waits.text());
    // Enter takes the only match, or the one under the cursor.
    for (keys, unit) in
        [("Mcalls errno<ret>", "syscalls"), ("Mkmem<down><ret>", "kmemprof"), ("Mrundelay --than 4ms<ret>", "rundelay")]
    {
        let chosen = incident(100, 30).keys(keys);
        assert_eq!(chosen.started, [unit], "{keys}");
        assert_eq!(chosen.saved.concat().matches("4ms").count(), keys.matches("4ms").count(), "{keys}");
    }
    // Tab completes a name and shows its options.
    insta::assert_snapshot!("unit-options", incident(100, 30).keys("Mrund<tab>").text());
    // A unit with a missing argument says so, and the prompt stays open.
    let more = incident(100, 30).keys("Mnum-dist<ret>");
    assert_eq!((more.level(), more.started.len()), (Some(Level::Error), 0));
    insta::assert_snapshot!("unit-without-argument", more.text());
}

#[test]
fn the_palette_takes_words() {
    insta::assert_snapshot!("palette-of-words", incident(100, 12).keys(":percentages above").text());
}

#[test]
fn tabs_hints_and_popups_are_clicked() {
    let h = click(incident(80, 24), "4 CPUs");
    assert_eq!(h.app.model.frame.tab, Tab::Cpus);
    let screen = h.text();
    let h = click(h, "? help");
    assert_eq!(h.text(), incident(80, 24).keys("4?").text());
    let h = click(h, "Esc close");
    assert_eq!(h.text(), screen);
    // A click on an anomaly goes to it.
    let h = click(incident(120, 30).host("ipvs-busy"), "CPU 32 softirq");
    assert_eq!(h.app.model.frame.tab, Tab::Cpus);
    // A click on a row of the palette selects it, a second click runs it.
    let h = click(incident(100, 30).keys(":idle"), "show or hide idle");
    assert!(!h.app.model.selection.hide_idle);
    let h = click(incident(100, 30).keys("MKmem"), "kmemprof");
    assert!(h.started.is_empty());
    assert_eq!(click(h, "kmemprof").started, ["kmemprof"]);
    // A click outside of a popup closes it.
    assert_eq!(incident(100, 30).keys(":").click(2, 6).text(), incident(100, 30).text());
    // A click on a heading sorts.
    let h = click(incident(120, 30), "Children").text();
    assert!(h.split_whitespace().any(|word| word == "Children▾"), "{h}");
    // A click on a completion accepts it.
    let h = click(incident(100, 30).keys("fcom"), "comm name of");
    assert_eq!(h.text(), incident(100, 30).keys("fcom<tab>").text());
    // A click on a chord's hint types its first key.
    assert_eq!(click(incident(100, 24).keys("2"), "e edit").text(), incident(100, 24).keys("2e").text());
}

/// Text typed for a prompt that does not open is not taken as keys: the reason is shown in place of the prompt.
#[test]
fn text_for_a_prompt_that_does_not_open_goes_nowhere() {
    let refused = incident(80, 24).keys("F").text();
    insta::assert_snapshot!("prompt-for-a-recording", refused);
    let typed = incident(80, 24).keys("Fqzq2");
    // The reason stays above the typed text.
    let above = |text: &str| text.lines().take(23).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((above(&typed.text()), typed.app.model.frame.tab), (above(&refused), Tab::Top));
    let done = typed.keys("<ret>");
    assert_eq!((done.level().is_some(), done.app.model.frame.tab), (true, Tab::Top));
    assert_eq!(done.keys("2").app.model.frame.tab, Tab::Flame);
    let events = incident(80, 24).keys("5er9q2");
    assert_eq!(events.app.model.frame.tab, Tab::Events);
    let below: Vec<String> = events.text().lines().skip(22).map(str::to_owned).collect();
    insta::assert_snapshot!("prompt-for-an-event", below.join("\n"));
    assert_eq!(events.keys("<esc>2").app.model.frame.tab, Tab::Flame);
}

/// The screen of an annotated function shows no details of other rows.
#[test]
fn an_annotated_function_stands_alone() {
    let text = Harness::open("corpus/inline.data", "kallsyms", 160, 40).keys("jA").text();
    let details = text.lines().rev().nth(1).unwrap_or_default();
    assert!(details.trim().is_empty(), "{text}");
    insta::assert_snapshot!("annotate-160x40", text);
}

/// Descriptions of keys are never truncated, at any width.
#[test]
fn no_word_of_help_is_cut() {
    use perfprof_tui::ui::input::commands::table::rows;

    for width in [60, 80, 120, 200] {
        let text = incident(width, 400).keys("?").text();
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
