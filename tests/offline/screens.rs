//! Screens of real recordings as text, at several sizes and in several states.

use std::sync::Arc;

use crate::common::cells::{cells, row};
use crate::common::harness::{Harness, messages};
use perfprof_tui::engine::Clock;
use perfprof_tui::panel::text::printable;
use perfprof_tui::profile::Acc;
use perfprof_tui::query::Answer;
use perfprof_tui::query::cpus::CpuAnswer;
use perfprof_tui::query::cpus::cpu_use::CpuUse;
use perfprof_tui::query::diff::DiffSide;
use perfprof_tui::ui::Level;

fn incident(width: u16, height: u16) -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", width, height)
}

#[test]
fn the_founding_incident_at_each_size() {
    for (width, height) in [(80, 24), (120, 40), (200, 60), (20, 6), (10, 3)] {
        insta::assert_snapshot!(format!("incident-{width}x{height}"), incident(width, height).text());
    }
}

/// Boxes, bars, maps, arrows, keys and popups: on an ASCII terminal no other bytes are written.
#[test]
fn a_terminal_without_utf8_gets_ascii() {
    for (width, height) in [(80, 24), (160, 40)] {
        for keys in ["", "<ret>", "2", "3", "4", "5", "6", "?", ":fil", "l", "C", "r", "fcomm == \u{e9}", "M"] {
            let screen = incident(width, height).in_ascii();
            let buffer = screen.keys(keys).buffer();
            let beyond: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).filter(|s| !s.is_ascii()).collect();
            assert_eq!(beyond, [""; 0], "{keys}");
            let unknown = buffer.content.iter().filter(|cell| cell.symbol() == "?").count();
            assert!(unknown <= 3, "{unknown} characters of ours have no stand-in at {keys}");
        }
    }
    insta::assert_snapshot!("ascii-top", incident(100, 24).in_ascii().text());
    insta::assert_snapshot!("ascii-flame", incident(100, 24).in_ascii().keys("2").text());
}

/// The keys that work everywhere are on every screen; where it is narrow, without their words.
#[test]
fn the_key_bar_keeps_what_works_everywhere() {
    for (width, kept) in [(80, "? help  : commands  S save  q quit"), (40, "? help  :  S  q")] {
        for keys in ["1", "2", "3", "4", "5", "6"] {
            let text = incident(width, 24).keys(keys).text();
            let bar = text.trim_end().lines().last().unwrap_or_default();
            assert!(bar.ends_with(kept), "{keys} at {width}: {bar}");
        }
    }
}

/// The overview and the unit screen offer only what a recording has.
#[test]
fn a_recording_offers_what_it_has() {
    let open = |keys: &str| Harness::open("switches.data", "switches.kallsyms", 110, 40).keys(keys).text();
    let overview = open("0");
    assert!(overview.contains("A recording has no figures"), "{overview}");
    for absent in ["last 10 s", "examine", "Only the selected processes"] {
        assert!(!overview.contains(absent), "{absent}: {overview}");
    }
    let units = open("6");
    let is_absent = |name: &str| {
        let line = units.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{name}: {units}")).contains("not here")
    };
    assert_eq!(["locks", "offcpu", "oncpu"].map(is_absent), [true, false, false], "{units}");
}

#[test]
fn who_called_the_hot_leaf() {
    insta::assert_snapshot!(incident(100, 24).keys("<ret>").text());
}

#[test]
fn ordered_by_children_with_a_chain_to_the_callees() {
    // X twice: Children off and on again, which sorts by it.
    insta::assert_snapshot!(incident(100, 24).keys("XX<home>").keys("/^estimation<ret>").keys("<ret>").text());
}

#[test]
fn a_view_filter_is_retroactive_and_taken_back() {
    let narrowed = incident(100, 16).keys("fcomm == burn && kernel<ret>");
    insta::assert_snapshot!(narrowed.text());
    let before = incident(100, 16).text();
    assert_eq!(narrowed.keys("<bs>").quiet().text(), before);
}

#[test]
fn a_wrong_filter_is_shown_where_it_is_wrong() {
    insta::assert_snapshot!(incident(100, 12).keys("fcomn == burn").text());
}

#[test]
fn completions_while_a_filter_is_typed() {
    insta::assert_snapshot!(incident(100, 12).keys("fcomm == ").text());
}

#[test]
fn popups() {
    insta::assert_snapshot!("help", incident(100, 60).keys("?").text());
    insta::assert_snapshot!("losses", incident(100, 24).keys("l").text());
    insta::assert_snapshot!("palette", incident(100, 24).keys(":fil").text());
    insta::assert_snapshot!("columns", incident(100, 24).keys("C").text());
    insta::assert_snapshot!("chord", incident(100, 12).keys("r").text());
}

/// On the smallest terminal, maps and text leave the last line of their area to the description of the cursor's
/// position.
#[test]
fn the_lowest_screen_keeps_to_its_areas() {
    for (keys, below) in [("3", "v selects"), ("?", " of "), ("l", " of ")] {
        let text = incident(100, 6).keys(keys).text();
        let details = text.lines().nth(4).unwrap_or_default();
        assert!(!details.contains(below), "{keys}: {text}");
        let roomy = incident(100, 12).keys(keys).text();
        assert!(roomy.contains(below), "{keys}: {roomy}");
    }
}

/// Sets the clock to a time after the start, with a view of some age.
fn at(late: Harness, now: f64, age: f64) -> Harness {
    let mut late = late;
    let now = late.app.model.context.info.start + (now * 1e9) as u64;
    late.app.tick(Some(Clock { now, seen: now - (age * 1e9) as u64 }));
    late
}

#[test]
fn the_clock_runs_by_itself_and_a_view_that_is_late_says_so() {
    let live = || Harness::open("switches.data", "switches.kallsyms", 110, 24).metered();
    let fine = at(live(), 63.2, 1.2).text();
    let late = at(live(), 63.2, 3.1);
    insta::assert_snapshot!("late", late.text());
    // A frozen view is not late.
    let frozen = at(live().keys(" "), 63.2, 9.0).text();
    let header = |text: &str| format!("{}\n", text.lines().next().unwrap_or_default());
    insta::assert_snapshot!("clock", [&fine, &late.text(), &frozen].map(|text| header(text)).concat());
    let ledger = at(at(late, 63.4, 0.1), 64.0, 0.7).keys("l").text();
    insta::assert_snapshot!("age-of-the-view", ledger);
}

/// A live session with a modified answer.
fn answered(width: u16, keys: &str, change: impl FnOnce(&mut Answer)) -> Harness {
    let mut harness = Harness::open("switches.data", "switches.kallsyms", width, 24).metered().keys(keys);
    let mut answer = (*harness.app.model.context.answer).clone();
    change(&mut answer);
    harness.app.set_answer(Arc::new(answer));
    harness
}

#[test]
fn the_header_says_how_far_back_samples_reach() {
    const SECOND: u64 = 1_000_000_000;
    let header = |width, age: &str, forgotten: u64, from: f64| {
        let harness = answered(width, &format!(":window {age}<ret>"), |answer| {
            answer.elapsed_ns = 600 * SECOND;
            answer.kept_from = (from * SECOND as f64) as u64;
            answer.ledger.evicted = forgotten;
        });
        harness.text().lines().next().unwrap_or_default().to_owned()
    };
    let mut headers = String::new();
    for (width, age, forgotten, from) in [
        (80, "last 30", 9, 594.3),
        (80, "last 30", 9, 300.0),
        (80, "all", 9, 300.0),
        // No samples so far, so none have been evicted.
        (80, "last 30", 0, 594.3),
        (140, "last 30", 9, 594.3),
        (60, "last 30", 9, 594.3),
    ] {
        headers +=
            &format!("{width}, {age}, {forgotten} evicted, from {from} s\n{}\n", header(width, age, forgotten, from));
    }
    insta::assert_snapshot!("headers", headers);
}

/// A long name is shortened in its middle, so that columns are straight.
#[test]
fn long_names_leave_the_dso_in_its_column() {
    let mut tables = 0;
    for width in [48, 52, 56, 64, 80, 100, 140] {
        let text = incident(width, 24).text();
        let heading = text.lines().nth(4).unwrap_or_default();
        let Some(at) = heading.find("DSO").map(|at| heading[..at].chars().count()) else { continue };
        tables += 1;
        for row in text.lines().skip(5).take(12) {
            let cells: Vec<char> = row.chars().collect();
            assert!(cells[at - 1] == ' ' && cells[at] != ' ', "{width}: {row}");
        }
    }
    assert!(tables >= 4, "{tables} tables with a DSO");
}

/// The width alone decides which parts are dropped, not the figures.
#[test]
fn larger_figures_leave_the_parts_of_the_header_in_place() {
    for width in [60, 80, 100, 120, 140] {
        let parts = |samples: u64| {
            let text = answered(width, "1", |answer| answer.view.shown.samples = samples).text();
            text.lines().next().unwrap_or_default().trim().split("  ").count()
        };
        assert_eq!(parts(2), parts(999_999), "{width}");
    }
}

/// The rows of another grouping have their own heading until the new rows are there.
#[test]
fn a_table_has_its_own_heading_until_new_rows_arrive() {
    let mut harness = incident(100, 24);
    let lines = |harness: &Harness| harness.text().lines().skip(4).take(16).map(str::to_owned).collect::<Vec<_>>();
    let before = lines(&harness);
    harness.app.input(&crossterm::event::Event::Key(crossterm::event::KeyCode::Tab.into()));
    assert_eq!(lines(&harness), before);
    assert!(harness.text().contains("grouping the rows…"));
    harness.settle();
    assert_ne!(lines(&harness), before);
    assert!(!harness.text().contains("grouping the rows…"));
}

/// The load is a share of all CPUs, of some CPUs, or of the target.
#[test]
fn the_load_says_whose_it_is() {
    let load = |width, target: &str, cpus: &str, busy| {
        let harness = answered(width, "1", |answer| {
            (answer.target, answer.cpus) = (target.to_owned(), cpus.to_owned());
            let by_cpu = CpuAnswer { busy: Some(busy), sampled: 2, ..(*answer.by_cpu).clone() };
            answer.by_cpu = Arc::new(by_cpu);
        });
        harness.text().lines().nth(1).unwrap_or_default().trim_end().to_owned()
    };
    for (target, cpus, words) in [
        ("", "", "  CPU busy 47 %"),
        ("pid 7", "", "  0.94 CPU"),
        ("2 cgroups", "0-1", "  0.94 CPU"),
        ("", "0-1", "  CPU 0-1 busy 47 %"),
        ("", "0,2,4,6,8,10,12,14,16,18,20,22,24", "  these CPUs busy 47 %"),
    ] {
        let line = load(80, target, cpus, 47.0);
        assert!(line.ends_with(words), "{target} {cpus}: {line}");
    }
}

/// The second line has the CPU time of what is shown, behind a filter, too; its number stays where there is little room.
#[test]
fn the_second_line_says_how_much_cpu_is_used() {
    let line = |width, keys: &str, target: &str, of_machine| {
        let harness = answered(width, keys, |answer| {
            answer.target = target.to_owned();
            let modes = [62.0, 33.0, 5.0, 0.0];
            answer.view.cpu_use = Some(CpuUse { cpus: 0.91, sampled: 2, modes, of_machine });
        });
        harness.text().lines().nth(1).unwrap_or_default().trim_end().to_owned()
    };
    let words = "0.91 CPU: user 62 % kernel 33 % softirq 5 %";
    assert!(line(120, "1", "pid 7", false).ends_with(&format!("  {words}")));
    let filtered = "fcomm == nginx<ret>";
    let wide = line(160, filtered, "", false);
    assert!(wide.contains("comm == nginx") && wide.ends_with(words), "{wide}");
    let narrow = line(80, filtered, "", false);
    assert!(narrow.ends_with("  0.91 CPU"), "{narrow}");
    let of_machine = line(160, filtered, "", true);
    assert!(of_machine.ends_with("0.91 CPU of 2: user 62 % kernel 33 % softirq 5 %"), "{of_machine}");
    // Shares add up to 100 % on both sides of a comparison, so the sums are shown.
    let compared = answered(160, "b", |answer| {
        answer.view.cpu_use = Some(CpuUse { cpus: 1.5, sampled: 2, modes: [100.0, 0.0, 0.0, 0.0], of_machine: false });
        let side = |period| DiffSide { total: Acc { samples: 9, period }, seconds: 2.0, ..DiffSide::default() };
        answer.view.sides = Some((side(1_000_000_000), side(3_000_000_000)));
    });
    let line = compared.text().lines().nth(1).unwrap_or_default().trim_end().to_owned();
    assert!(line.ends_with("  0.50 CPU → 1.50 CPU"), "{line}");
}

/// A large share of a machine that hardly works is not hot.
#[test]
fn heat_goes_by_cpu_time() {
    let styles = |cpus| {
        let harness = answered(100, "1", |answer| {
            answer.view.cpu_use = Some(CpuUse { cpus, sampled: 2, modes: [100.0, 0.0, 0.0, 0.0], of_machine: false });
        });
        let buffer = harness.buffer();
        let shares = harness.app.model.context.answer.view.lines.len().min(5) as u16;
        let row = |y: u16| (0..20).map(move |x| (x, y));
        let cells = (4..4 + shares).flat_map(row).map(|at| buffer[at].clone());
        cells.filter(|cell| cell.symbol() == "%").map(|cell| cell.style()).collect::<Vec<_>>()
    };
    let (busy, idle) = (styles(2.0), styles(0.001));
    assert!(!busy.is_empty() && busy.len() == idle.len());
    assert!(busy.iter().zip(&idle).any(|(a, b)| a != b), "{busy:?}");
}

/// A unit's session has no samples for other screens, and these screens name the remedy.
#[test]
fn screens_without_an_event_say_what_would_give_them_one() {
    let screen = |tab: &str, for_units, target: &str| {
        let harness = answered(80, &format!("{tab}fcomm == absent<ret>"), |answer| {
            (answer.unfiltered, answer.target) = (Default::default(), target.to_owned());
            answer.events.retain(|event| event.meter.is_some());
            for meter in answer.events.iter_mut().filter_map(|event| event.meter.as_mut()) {
                meter.state.for_units = for_units;
            }
        });
        harness.text()
    };
    let of_units = |tab: &str| {
        answered(80, tab, |answer| {
            let meters = answer.events.iter_mut().filter_map(|event| event.meter.as_mut());
            meters.for_each(|meter| meter.state.for_units = true);
        })
    };
    let mut harness = of_units("1");
    let mut answer = (*harness.app.model.context.answer).clone();
    let started = &mut answer.events[1];
    started.meter.as_mut().expect("measured").state.for_units = false;
    let name = started.name.clone();
    let header = |harness: &Harness| harness.text().lines().next().unwrap_or_default().to_owned();
    let before = header(&harness);
    assert!(!before.contains(&name), "{before}");
    insta::assert_snapshot!("header-without-an-event", before);
    for tab in ["1", "2", "3"] {
        let asked = of_units(tab).keys("<ret>").saved;
        assert!(asked.iter().any(|request| request.contains("cpu-clock")), "{tab}: {asked:?}");
    }
    harness.app.set_answer(Arc::new(answer));
    assert!(header(&harness).contains(&name), "what is started is shown: {}", header(&harness));
    let said = |tab: &str, for_units, target: &str| {
        let text = screen(tab, for_units, target);
        let lines = text.lines().skip(2).take(20).map(str::trim).filter(|line| line.trim_end_matches('.') != *line);
        lines.collect::<Vec<_>>().join("\n")
    };
    let cases = [(true, ""), (false, ""), (false, "pid 7")];
    let of_table = cases.map(|(for_units, target)| said("1", for_units, target));
    insta::assert_snapshot!("no-samples", of_table.join("\n\n"));
    for tab in ["2", "3"] {
        assert_eq!(cases.map(|(for_units, target)| said(tab, for_units, target)), of_table, "{tab}");
    }
}

#[test]
fn the_ledger_says_where_memory_is() {
    // On a narrow terminal, explanations wrap to the next line.
    insta::assert_snapshot!("memory-80x40", incident(80, 40).metered().keys("l").text());
    // A recording evicts no samples, which the snapshot of losses shows.
    assert_eq!(row(&incident(120, 40).metered().keys("l").text(), "the rest").len(), 4);
}

#[test]
fn nothing_left_says_why() {
    insta::assert_snapshot!(incident(80, 12).keys("fcomm == absent<ret>").text());
}

#[test]
fn a_hostile_name_stays_on_its_line() {
    let text = Harness::open("comm-hostile.data", "kallsyms", 100, 30).keys("<tab><tab>").text();
    assert_eq!(text.lines().count(), 30);
    assert!(text.chars().all(|c| c == '\n' || printable(c).is_none()), "{text:?}");
    // Control characters are shown as symbols, not removed, so that an attack is visible.
    let names: Vec<&str> = text.lines().flat_map(cells).filter(|cell| cell.contains(['␛', '␊'])).collect();
    insta::assert_snapshot!("hostile-names", names.join("\n"));
}

#[test]
fn the_cursor_stays_on_its_item_when_rows_come_above_it() {
    let harness = incident(120, 20).keys("<down><down><down>");
    let (item, at) = (harness.app.model.line().expect("line").id, harness.app.model.top.selected);
    // Idle samples form the largest row.
    let moved = harness.keys("i");
    assert_eq!(moved.app.model.line().expect("line").id, item);
    assert_ne!(moved.app.model.top.selected, at);
    let home = moved.keys("<home>");
    assert_eq!(home.app.model.top.selected, 0);
}

#[test]
fn a_search_starts_from_where_the_cursor_was_for_every_letter() {
    let harness = incident(120, 20).keys("/estx");
    assert_eq!(harness.app.model.top.selected, 0, "estx must not match");
    let harness = harness.keys("<esc>/estimation<ret>");
    assert!(harness.app.model.line().expect("line").sym.starts_with("estimation"));
    let harness = harness.keys("<bs>/zz<esc>");
    assert!(harness.app.model.line().expect("line").sym.starts_with("estimation"), "Esc goes back");
}

#[test]
fn commands_become_effects() {
    let harness =
        incident(80, 24).keys("S").keys(":freq 99<ret>").keys(":cpus 0-2,5<ret>").keys(" ").keys(":forget<ret>");
    assert_eq!(
        harness.saved,
        ["Save(None, None)", "Control(Frequency(99))", "Control(Cpus([0, 1, 2, 5]))", "Freeze(true)", "Clear"]
    );
    let harness = incident(80, 24).keys("m").keys(":window last 5<ret>").keys(":per second<ret>").keys("2K");
    let words = "--exec 'window last 5' --exec 'baseline time >= 0' --exec 'per second' --exec flame";
    assert!(harness.saved.iter().any(|effect| effect.contains(words)), "{:?}", harness.saved);
    let harness = incident(80, 24).keys(":cpus 9-1<ret>").keys("r+");
    assert_eq!(harness.saved, ["Refresh(500ms)"]);
}

#[test]
fn any_keys_at_any_size_draw_something_and_never_panic() {
    let keys: Vec<char> = "jkeEC%gxLsnNtpcdyuki<>R lz?:/f\u{1b}+r-".chars().collect();
    let mut seed = 7u32;
    let mut harness = Harness::open("fp-sysmix.data", "kallsyms", 80, 24);
    for i in 0..600 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = keys[(seed >> 8) as usize % keys.len()];
        let text = match key {
            '\u{1b}' => "<esc>".to_owned(),
            '<' => "<tab>".to_owned(),
            other => other.to_string(),
        };
        harness = harness.keys(&text);
        if i % 7 == 0 {
            harness.size = (1 + (seed >> 20) as u16 % 150, 1 + (seed >> 9) as u16 % 50);
            harness.app.resize(harness.size.0, harness.size.1);
            harness.settle();
        }
        harness.text();
    }
}

/// Popups are drawn at the smallest sizes, also if nothing is found.
#[test]
fn popups_without_room_are_drawn() {
    for keys in [":zzqq", "?zzqq", "/zzqq", "fzzqq", "Mzzqq", "l", "I"] {
        let mut harness = incident(80, 24).keys(keys);
        for (width, height) in (1..9).flat_map(|height| [1, 3, 10, 40].map(|width| (width, height))) {
            harness.size = (width, height);
            harness.app.resize(width, height);
            harness.settle();
            harness.text();
        }
    }
}

#[test]
fn the_flame_graph_at_each_size() {
    for (width, height) in [(80, 24), (120, 40), (200, 60), (40, 12)] {
        insta::assert_snapshot!(format!("flame-{width}x{height}"), incident(width, height).keys("2").text());
    }
}

/// The messages of keys that cannot act on a flame graph.
#[test]
fn messages_of_the_flame_graph() {
    insta::assert_snapshot!("flame-messages", messages(|| incident(100, 30), &["2eb", "2ew"]));
}

#[test]
fn the_flame_graph_turned_zoomed_searched_and_edited() {
    let flame = || incident(100, 30).keys("2");
    insta::assert_snapshot!("flame-leaves", flame().keys("R").text());
    insta::assert_snapshot!("flame-bottom-up", flame().keys("eu").text());
    insta::assert_snapshot!("flame-zoomed", flame().keys("<right><down><ret>").text());
    insta::assert_snapshot!("flame-around", flame().keys(":around ^estimation_timer<ret>").text());
    insta::assert_snapshot!("flame-found", flame().keys("/timer<ret>").text());
    insta::assert_snapshot!("flame-by-dso", flame().keys("eo").text());
    let before = flame().text();
    let on_a_frame = flame().keys("<right><down>").text();
    let back = flame().keys("<right><down><ret>u").quiet().text();
    assert_eq!(back, on_a_frame, "undo leads back");
    assert_eq!(flame().keys("RR").text(), before);
    // The cursor is on a comm: it has no callers to show, but can be excluded.
    assert_eq!(flame().keys("eb").level(), Some(Level::Info));
    let around = flame().keys("w^timer<ret>").text();
    assert!(around != before && around == flame().keys(":around ^timer<ret>").text(), "{around}");
    insta::assert_snapshot!("flame-without-a-comm", flame().keys("x").text());
}

/// Two recordings of the same program: rows and frames with their previous values.
#[test]
fn a_recording_against_another() {
    let open =
        |width, height| Harness::open("fp-sysmix.data", "kallsyms", width, height).against("multi3.data", "kallsyms");
    insta::assert_snapshot!("versus-80x24", open(80, 24).text());
    insta::assert_snapshot!("versus-120x24", open(120, 24).text());
    insta::assert_snapshot!("versus-flame-80x24", open(80, 24).keys("2").text());
    insta::assert_snapshot!("versus-flame-160x40", open(160, 40).keys("2<down>P").text());
    let plain = Harness::open("fp-sysmix.data", "kallsyms", 80, 24);
    assert_eq!(open(80, 24).keys("B").text(), plain.text(), "B leads back");
}

/// A view of the same recording as the baseline, and the text copied from the screen.
#[test]
fn a_view_against_another_and_its_command_line() {
    let mut harness = incident(100, 24).keys("m").keys("fcomm == burn<ret>");
    insta::assert_snapshot!("versus-a-view", harness.text());
    harness = harness.keys("B2<down>em").keys(":command-line<ret>");
    let said = "perfprof-tui --where 'comm == burn' --exec flame --exec 'merge [burn]'";
    assert!(harness.saved.iter().any(|effect| effect.contains(said)), "{:?}", harness.saved);
    harness = harness.keys("1:write /nowhere/x<ret>Y");
    // The copies begin with the headings of the table.
    let copied = |kind: &str| {
        let mut effects = harness.saved.iter().filter(|effect| effect.starts_with(kind));
        effects.any(|effect| effect.split_whitespace().any(|word| word == "Symbol"))
    };
    assert!(copied("Write(\"/nowhere/x\"") && copied("Copy("), "{:?}", harness.saved);
}

#[test]
fn old_samples_count_for_less_or_not_at_all() {
    let all = incident(100, 24).app.model.context.answer.view.total.samples;
    let some =
        |age: &str| incident(100, 24).keys(&format!(":window {age}<ret>")).app.model.context.answer.view.total.samples;
    let (last, half) = (some("last 2"), some("half 1"));
    assert!(last * 4 < all && last * 6 > all, "{last} of {all}: two of ten seconds");
    // The sum of a decay with a half-life is the samples of one half-life over ln 2.
    assert!(half * 8 > all && half * 5 < all, "{half} of {all}");
    assert_eq!(some("all"), all);
}

/// A function has the same colour everywhere, and without colours a letter shows its class.
#[test]
fn colours_have_a_meaning_and_are_not_needed() {
    use perfprof_tui::ui::theme::Depth;
    let harness = incident(120, 40).keys("2");
    let buffer = harness.buffer_in(Depth::TrueColor);
    let rows: Vec<String> = (0..40).map(|y| (0..120).map(|x| buffer[(x, y)].symbol().to_owned()).collect()).collect();
    let mut colours = std::collections::HashSet::new();
    for (y, row) in rows.iter().enumerate() {
        for (at, _) in row.match_indices("run_timer_softirq") {
            let x = row[..at].chars().count() as u16;
            colours.insert(format!("{:?}", buffer[(x, y as u16)].bg));
        }
    }
    assert_eq!(colours.len(), 1, "{colours:?}");
    let plain = harness.buffer_in(Depth::NoColor);
    assert!((0..40).flat_map(|y| (0..120).map(move |x| (x, y))).all(|at| plain[at].bg == ratatui::style::Color::Reset));
    let text: String = (0..120).map(|x| plain[(x, 12)].symbol().to_owned()).collect();
    let classes = text.split('│').filter_map(|frame| frame.split(' ').next());
    assert!(classes.into_iter().any(|class| ["s", "h", "k"].contains(&class)), "{text}");
}

/// Two threads that hand over to each other, and mostly wait.
#[test]
fn time_off_the_cpus_beside_the_time_on_them() {
    let open = |width, height| Harness::open("switches.data", "switches.kallsyms", width, height);
    insta::assert_snapshot!("off-cpu-120x30", open(120, 30).keys("2ew").text());
    insta::assert_snapshot!("off-cpu-event", open(100, 24).keys("}}").text());
    assert!(open(100, 24).keys(":wall<ret>").text().contains("wall time"));
    // Both parts of the flame graph, the map, time off the CPUs alone, CPU time, and the table of wall time again.
    assert!(open(120, 30).keys("2:wall<ret>").text().contains("hatched"));
    assert!(open(100, 24).keys("3:wall<ret>").text().contains("ms of threads"));
    assert!(open(100, 24).keys(":wall<ret>:wall<ret>").text().contains(" off-cpu "));
    assert!(open(100, 24).keys(":wall<ret>:wall<ret>:wall<ret>u").text().contains(" off-cpu "));
    assert!(open(100, 24).keys(":wall cpu<ret>").message().is_some_and(|(_, text)| text == "time on the CPUs"));
    assert_eq!(open(100, 24).keys(":wall often<ret>").level(), Some(Level::Error));
    assert_eq!(incident(80, 24).keys("2ew").level(), Some(Level::Info));
}

/// Two keys exclude the value under the cursor, and one key restores an earlier filter.
#[test]
fn values_are_left_out_and_filters_come_back() {
    let mut h = Harness::open("fp-sysmix.data", "kallsyms", 100, 24);
    let all = h.app.model.context.answer.view.total.samples;
    let dso = h.app.model.line().expect("a line").dso.to_string();
    h = h.keys("-d");
    let left = h.app.model.context.answer.view.total.samples;
    assert!(left < all && left > 0);
    assert!(h.app.model.context.answer.view.lines.iter().all(|line| *line.dso != *dso), "{dso}");
    h = h.keys("<bs>d");
    assert_eq!(h.app.model.context.answer.view.total.samples, all - left);
    // With the mouse: Alt and a click filters by the cell's value, with the right button it excludes the value.
    h = h.keys("<bs>");
    let click = |h: &mut Harness, button| {
        use crossterm::event::{Event, KeyModifiers, MouseEvent, MouseEventKind};
        let (y, x) = h.text().lines().enumerate().find_map(|(y, l)| Some((y, l.find("DSO")?))).expect("a heading");
        let (column, row) = (x as u16 + 1, y as u16 + 1);
        let kind = MouseEventKind::Down(button);
        h.app.input(&Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::ALT }));
        h.settle();
    };
    h.app.model.top.go(0, &h.app.model.context.answer.clone());
    click(&mut h, crossterm::event::MouseButton::Right);
    assert_eq!(h.app.model.context.answer.view.total.samples, left);
    h = h.keys("<bs>");
    click(&mut h, crossterm::event::MouseButton::Left);
    assert_eq!(h.app.model.context.answer.view.total.samples, all - left);
    h = h.keys("<bs>fuser<ret><bs>fkernel<ret>");
    let kernel = h.app.model.context.answer.view.total.samples;
    h = h.keys("<bs>f<ctrl-p><ctrl-p><ret>");
    assert_eq!(h.app.model.context.answer.view.total.samples + kernel, all);
    assert_eq!(h.app.model.frame.past_filters, ["kernel", "user"]);
}

/// The event screen at each size, with its figures, the list of all events and a search.
#[test]
fn events_and_what_could_be_measured() {
    for (width, height) in [(80, 24), (200, 60), (40, 12)] {
        let h = Harness::open("switches.data", "switches.kallsyms", width, height).metered();
        insta::assert_snapshot!(format!("events-{width}x{height}"), h.keys("5<down>").text());
    }
    let h = Harness::open("switches.data", "switches.kallsyms", 80, 24).metered();
    // The description of the event under the cursor depends on the test machine, so there is no snapshot.
    let text = h.keys("5/timer_st").text();
    assert_eq!(row(&text, "/timer_st")[1], "5 of 85 events");
    let cursor = text.lines().find(|line| line.starts_with('›')).unwrap_or_default();
    assert_eq!(cells(cursor)[0], "timer:timer_start");
    let h = Harness::open("switches.data", "switches.kallsyms", 80, 24).keys("5");
    insta::assert_snapshot!("events-of-a-recording", h.text());
}

/// A named filter restores the filter with its zooms.
#[test]
fn filters_are_kept_under_names() {
    let mut h = Harness::open("fp-sysmix.data", "kallsyms", 100, 24).keys("fuser<ret>:zoom-kernel<ret>");
    h = h.keys(":save-filter mine<ret>");
    let kept = h.app.model.context.saved.get("mine").cloned().expect("kept");
    assert_eq!(kept, "(kernel) && (user)");
    assert!(h.saved.iter().any(|effect| effect.starts_with("SaveFilters")));
    let both = h.app.model.context.answer.view.total.samples;
    h = h.keys("<bs><bs>");
    assert!(h.app.model.context.answer.view.total.samples > both);
    h = h.keys(":saved mi<ret>");
    assert_eq!(h.level(), Some(Level::Error));
    insta::assert_snapshot!("unknown-saved-filter", h.message().map_or("", |(_, text)| text));
    h = h.keys("<esc>:saved mine<ret>");
    assert_eq!(h.app.model.context.answer.view.total.samples, both);
    h = h.keys(":forget-filter mine<ret>");
    assert!(h.app.model.context.saved.is_empty());
}

/// The heat map of time at each size, a selection, and the selected range on every screen.
#[test]
fn the_map_of_time_and_a_range_of_it() {
    for (width, height) in [(80, 24), (200, 60), (40, 12)] {
        let h = Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", width, height);
        insta::assert_snapshot!(format!("time-{width}x{height}"), h.keys("3").text());
    }
    let mut h = Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", 80, 24);
    let all = h.app.model.context.answer.view.total.samples;
    h = h.keys("3<home><right><right>v<right><right><down>");
    let heat = h.app.model.context.answer.view.heat.clone().expect("a map");
    let cells = h.app.views.time.selected(&heat);
    let wanted = cells.samples;
    assert_eq!(cells.span.len(), 2 * heat.rows + 2);
    assert!(wanted > 0 && wanted < all);
    h = h.keys("<ret>");
    assert_eq!(h.app.model.context.answer.view.total.samples, wanted);
    let (from, until) = h.app.model.selection.range().expect("a range");
    assert_eq!((from / 1_000_000, until / 10_000_000), (2000, 408));
    insta::assert_snapshot!("path-of-a-range", h.text().lines().take(4).collect::<Vec<_>>().join("\n"));
    // The map shows the range with its surroundings; Backspace returns to the whole recording.
    h = h.keys("3");
    assert_eq!(h.app.model.context.answer.view.heat.clone().expect("a map").sum(0..usize::MAX), all);
    h = h.keys("1<bs>");
    assert_eq!(h.app.model.context.answer.view.total.samples, all);
    h = h.keys("[");
    assert_eq!(h.app.model.context.answer.view.total.samples, wanted, "not the previous range");
}

/// The hottest function by instruction, without its source.
#[test]
fn a_function_annotated() {
    let annotated = Harness::open("corpus/inline.data", "kallsyms", 80, 24).keys("A");
    insta::assert_snapshot!("annotate-80x24", annotated.text());
    let with_bytes = annotated.keys("nos");
    insta::assert_snapshot!("annotate-80x24-bytes", with_bytes.text());
    let open = || Harness::open("corpus/inline.data", "kallsyms", 80, 24);
    assert_eq!(open().keys("A<esc>").text(), open().text());
}

/// The terminal may have changed its size after the layout of the drawn frame.
#[test]
fn a_frame_of_another_size_is_survived() {
    for tab in ["1", "2", "3", "4", "5", "7", "1<ret>", "f", ":"] {
        for (laid_out, drawn) in [((160, 50), (80, 29)), ((200, 60), (20, 6)), ((30, 8), (120, 40)), ((80, 24), (1, 1))]
        {
            let harness = incident(laid_out.0, laid_out.1).keys(tab);
            let theme = perfprof_tui::ui::theme::Theme::new(perfprof_tui::ui::theme::Depth::TrueColor);
            let _ = perfprof_tui::ui::terminal::run::render(&harness.app, &theme, drawn.0, drawn.1);
        }
    }
}
