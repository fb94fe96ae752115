//! Analysis units on records with known results: synthetic scenarios, and recordings with perf's own results.

use std::collections::BTreeMap;

use crate::common::scenes::{MS, SWITCH, US, counted, scene, sched, switch, wake};
use crate::common::stage::{START, Stage, cell, number, rows, with_options, with_target};
use crate::common::{self, data, program, run};
use perfprof_tui::panel::{Body, Cell, Panel};
use perfprof_tui::source::live::Target;
use perfprof_tui::source::live::target::TargetSelection;
use perfprof_tui::units::UNITS;
use perfprof_tui::units::kit::{Sees, UnitSample};

fn of<'a>(panels: &'a [Panel], title: &str) -> &'a Panel {
    let found = panels.iter().find(|panel| panel.title.starts_with(title));
    found.unwrap_or_else(|| panic!("no panel {title}: {:?}", panels.iter().map(|p| &p.title).collect::<Vec<_>>()))
}

fn text(panel: &Panel, row: usize, column: &str) -> String {
    cell(panel, row, column).text()
}

#[test]
fn every_unit_is_described_and_has_a_story() {
    let mut names: Vec<&str> = UNITS.iter().map(|spec| spec.name).collect();
    for spec in UNITS {
        assert!(spec.about.len() > 20 && spec.help.len() > 40, "{}", spec.name);
        assert!(spec.example.starts_with("perfprof-tui ") && spec.example.contains(spec.name), "{}", spec.name);
        let panels = scene(spec.name).panels();
        assert!(panels.iter().any(|panel| !panel.is_empty()), "{} says nothing", spec.name);
        for panel in &panels {
            let ids = panel.rows().map(|rows| rows.ids.clone()).unwrap_or_default();
            let mut sorted = ids.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), ids.len(), "{} {}: rows have equal ids", spec.name, panel.title);
        }
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), UNITS.len());
}

/// With `-C`, a unit has its usual figures if all CPUs are selected, and none on other CPUs. A unit that ignores the
/// selection would have the same figures in both cases.
#[test]
fn what_units_count_is_of_the_chosen_cpus() {
    for spec in UNITS {
        let on = |words| with_options(words, || scene(spec.name).text());
        assert_eq!(on(&["-C", "0-4095"]), scene(spec.name).text(), "{}", spec.name);
        // misc counts records without a CPU.
        if spec.name == "misc" {
            continue;
        }
        assert_eq!(
            figures(&with_options(&["-C", "4095"], || scene(spec.name).panels())),
            [] as [String; 0],
            "{}",
            spec.name
        );
    }
}

/// Returns the non-zero figures of panels, with the panel's title.
///
/// Stacks of flame graphs, lines and maps are figures.
fn figures(panels: &[Panel]) -> Vec<String> {
    let mut out = Vec::new();
    for panel in panels {
        let cells = panel.rows().into_iter().flat_map(|rows| rows.table.rows.iter().flatten());
        let is_figure = |cell: &&Cell| {
            let is_none = cell.raw().parse().is_ok_and(|n: f64| n == 0.0);
            let is_label = matches!(cell, Cell::Text(_) | Cell::Id(_) | Cell::Course(_) | Cell::All | Cell::Empty);
            !is_label && !is_none
        };
        out.extend(cells.filter(is_figure).map(|cell| format!("{}: {cell:?}", panel.title)));
        let has_more = match &panel.body {
            Body::Table(_) | Body::Tree(_) => false,
            Body::Series(series) => series.lines.iter().flat_map(|line| &line.values).any(|value| *value > 0.0),
            Body::Heatmap(map) => map.most() > 0.0,
            Body::Log(_) | Body::Histogram(_) | Body::Flame(_) => !panel.is_empty(),
        };
        out.extend(has_more.then(|| format!("{}: {}", panel.title, panel.to_text())));
    }
    out
}

/// Every unit applies every kind of target in every panel: a target without tasks gives no figures, a target with all
/// tasks gives those without a target. This covers new units by their scenarios.
#[test]
fn what_units_show_is_of_the_target_of_every_kind() {
    let everyone: Vec<i32> = (0..10_000).collect();
    let group = |name: &str| Target::Cgroups(vec![(name.to_owned(), name.into())]);
    let container = TargetSelection::container("nothing-of-the-scene").expect("a name");
    let of_nobody = [
        Target::Threads(vec![99_999]),
        Target::Processes(vec![99_999]),
        Target::User { name: "nobody".into(), uid: 65_534 },
        group("no/such/group"),
        Target::Containers(Box::new(container), Vec::new()),
    ];
    let mut faults = Vec::new();
    // misc counts records without a thread.
    for spec in UNITS.iter().filter(|spec| spec.name != "misc") {
        let name = spec.name;
        let all = figures(&scene(name).panels());
        // The kernel counts for the target on which the events are opened.
        if scene(name).unit.event_requests().iter().any(|want| want.counted) {
            assert_ne!(spec.sees, Sees::Machine, "{name}: only the kernel can assign counts to targets");
            continue;
        }
        let mut check = |target: String, shown: Vec<String>, is: &[String]| {
            if shown != is {
                faults.push(format!("{name}: {target}: {shown:?}"));
            }
        };
        for target in &of_nobody {
            let shown = figures(&with_target(target.clone(), || scene(name).panels()));
            check(format!("{target:?}"), shown, &[]);
        }
        let words: [&'static [&'static str]; 4] =
            [&["--cgroups", "no/such"], &["--container", "nothing"], &["--pod", "no/thing"], &["--comm", "absent"]];
        for words in words.into_iter().filter(|words| words[0] != "--comm" || spec.options.contains(&"comm")) {
            check(words.join(" "), figures(&with_options(words, || scene(name).panels())), &[]);
        }
        for target in [Target::Threads(everyone.clone()), Target::Processes(everyone.clone())] {
            check("everyone".to_owned(), figures(&with_target(target, || scene(name).panels())), &all);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// One of two tasks that wait and wake each other is the target: the table of tasks has no row of the other one.
#[test]
fn units_that_see_all_show_one_task_of_two() {
    let mut tried = 0;
    for spec in UNITS.iter().filter(|spec| spec.sees == Sees::Machine) {
        let names = |panel: &Panel| -> Vec<String> {
            let rows = panel.rows().into_iter().flat_map(|rows| &rows.table.rows);
            rows.filter_map(|row| row.first()).map(Cell::text).collect()
        };
        let has = |panel: &Panel, task: &str| names(panel).iter().any(|name| name.starts_with(task));
        let all = scene(spec.name).panels();
        let Some(table) = all.iter().position(|panel| has(panel, "victim") && has(panel, "hog")) else { continue };
        for target in [Target::Threads(vec![20]), Target::Processes(vec![20])] {
            let panels = with_target(target, || scene(spec.name).panels());
            let of_target = of(&panels, &all[table].title);
            assert!(has(of_target, "victim") && !has(of_target, "hog"), "{}: {}", spec.name, of_target.to_text());
            tried += 1;
        }
    }
    assert!(tried >= 4, "{tried}");
}

/// A task that is woken on one CPU and runs on another: each unit documents the CPU that its times belong to, and no
/// CPU has a time that lasts until the task returns to it.
#[test]
fn tasks_that_move_are_followed_over_cpus() {
    let told = |unit: &'static str, words: &'static [&'static str]| {
        with_options(words, || {
            let mut stage = sched(unit, &[]);
            switch(&mut stage, 0, 0, (0, 0), 10);
            switch(&mut stage, 0, 1, (20, 1), 10);
            // CPU 0 wakes the victim for CPU 1; CPU 0 takes it 3 ms later, and it falls asleep there.
            wake(&mut stage, 10 * MS, 10, 20, 1);
            switch(&mut stage, 13 * MS, 0, (10, 1), 20);
            switch(&mut stage, 14 * MS, 0, (20, 1), 0);
            // It is woken again after 86 ms, and runs on CPU 1 after 1 ms.
            wake(&mut stage, 100 * MS, 10, 20, 1);
            switch(&mut stage, 101 * MS, 1, (10, 0x100), 20);
            stage.until(101 * MS).panels()
        })
    };
    let sum = |panels: &[Panel], title: &str, column: &str| -> f64 {
        let panel = of(panels, title);
        (0..rows(panel).table.rows.len())
            .filter(|row| {
                !["comm", "woken"].iter().any(|name| has(panel, name) && text(panel, *row, name).starts_with("hog"))
            })
            .map(|row| number(panel, row, column) / MS as f64)
            .sum()
    };
    let on = |unit, title, column| {
        let all: [&'static [&'static str]; 3] = [&["-C", "0"], &["-C", "1"], &[]];
        all.map(|words| sum(&told(unit, words), title, column))
    };
    assert_eq!(on("rundelay", "Threads", "total_ns"), [3.0, 1.0, 4.0]);
    assert_eq!(on("task-state", "Tasks", "rd_ns"), [3.0, 1.0, 4.0]);
    assert_eq!(on("task-state", "Tasks", "s_ns"), [86.0, 10.0, 96.0]);
    assert_eq!(on("task-state", "Tasks", "r_ns"), [1.0, 0.0, 1.0]);
    assert_eq!(on("offcpu", "Blocked", "blocked_ns"), [86.0, 10.0, 96.0]);
    assert_eq!(on("wakeups", "Wakers, wakees", "max_ns"), [3.0, 0.0, 3.0]);
}

fn has(panel: &Panel, column: &str) -> bool {
    rows(panel).table.columns.iter().any(|own| own.name == column)
}

/// Every second hit has a stack of the same functions at other addresses.
#[test]
fn stacks_that_read_alike_are_one_row_of_every_unit() {
    let mut listed = 0;
    for spec in UNITS {
        for panel in scene(spec.name).panels() {
            let Body::Table(rows) = &panel.body else { continue };
            let columns = &rows.table.columns;
            let single = columns.iter().any(|column| matches!(&*column.name, "time_ns" | "after_ns"));
            if single || !columns.iter().any(|column| column.name == "stack") {
                continue;
            }
            listed += 1;
            let is_key = |cell: &&Cell| matches!(cell, Cell::Text(_) | Cell::Id(_));
            let mut keys: Vec<Vec<String>> =
                rows.table.rows.iter().map(|row| row.iter().filter(is_key).map(Cell::text).collect()).collect();
            keys.sort();
            let n = keys.len();
            keys.dedup();
            assert_eq!(keys.len(), n, "{}: {}", spec.name, panel.to_text());
            assert!(spec.options.contains(&"addresses"), "{} lists stacks", spec.name);
        }
    }
    assert!(listed > 8, "{listed}");
}

#[test]
fn addresses_tell_stacks_apart_where_they_are_asked_for() {
    let mut stage = scene("breakpoint");
    let panels = stage.panels();
    let hits = of(&panels, "Hits by stack");
    assert_eq!((text(hits, 0, "stack"), number(hits, 0, "hits")), ("set_flag < main".into(), 2.0));
    let spec = perfprof_tui::units::find("breakpoint").expect("a unit");
    let mut stage = Stage::new(spec, &["-e", "mem:0x404040/4:w", "--addresses"]);
    let stack = stage.stack(&["main", "set_flag"]);
    for _ in 0..2 {
        let hit = UnitSample { stack, ..stage.hit(0, MS) };
        stage.give(hit, &[]);
    }
    let panels = stage.panels();
    let hits = of(&panels, "Hits by stack");
    let places = [0, 1].map(|row| text(hits, row, "stack"));
    assert!(places[0] != places[1] && places.iter().all(|place| place.starts_with("set_flag+0x")), "{places:?}");
}

/// The name of a column contains the unit of its figures, and figures are numbers.
#[test]
fn figures_of_every_unit_are_numbers_in_the_unit_that_their_names_say() {
    for spec in UNITS {
        for panel in scene(spec.name).panels() {
            let Some(rows) = panel.rows() else { continue };
            let mut names: Vec<&str> = rows.table.columns.iter().map(|column| &*column.name).collect();
            for row in &rows.table.rows {
                for (column, cell) in rows.table.columns.iter().zip(row) {
                    let name = &*column.name;
                    let place = || format!("{} {}: {name} {cell:?}", spec.name, panel.title);
                    let is_bytes = name == "bytes" || name.ends_with("_bytes") || name.ends_with("bytes_s");
                    match cell {
                        Cell::Time(_) | Cell::TimeFrom(_) | Cell::Moment(_) => {
                            assert!(name == "ns" || name.ends_with("_ns"), "{}", place())
                        }
                        Cell::Bytes(_) | Cell::ByteChange(_) => assert!(is_bytes, "{}", place()),
                        Cell::Percent(_) => assert!(name.ends_with("_pct"), "{}", place()),
                        Cell::Text(text) => {
                            let says_unit = is_bytes || name.ends_with("_ns") || name.ends_with("_pct");
                            let is_figure = |word: &str| word.replace(',', "").parse::<f64>().is_ok();
                            let mut words = text.split(' ');
                            let first = words.next().is_some_and(is_figure);
                            let units = ["B", "kB", "MB", "GB", "ns", "µs", "ms", "s", "%"];
                            let whole = words.next().is_none_or(|unit| units.contains(&unit));
                            assert!(!(says_unit || first && whole), "{}", place());
                        }
                        _ => {}
                    }
                }
            }
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{} {}: {names:?}", spec.name, panel.title);
        }
    }
}

#[test]
fn the_same_records_give_the_same_text() {
    for spec in UNITS {
        assert_eq!(scene(spec.name).text(), scene(spec.name).text(), "{}", spec.name);
    }
}

#[test]
fn a_unit_begins_anew_after_an_interval() {
    for name in ["rundelay", "syscalls", "blktrace", "multi-trace", "page-faults", "offcpu", "wakeups", "num-dist"] {
        let mut stage = scene(name);
        stage.reset();
        let panels = stage.panels();
        let first = rows(&panels[0]);
        let calls = first.table.columns.iter().position(|c| matches!(&*c.name, "calls" | "faults" | "times"));
        for row in &first.table.rows {
            let n: f64 = calls.map_or(0.0, |at| row[at].raw().parse().unwrap_or(0.0));
            assert_eq!(n, 0.0, "{name}: {row:?}");
        }
    }
}

/// A task runs on an idle CPU for 4 ms of each 100 ms.
///
/// The tracepoint misses each switch from idle; a context switch record reports it, or only the wakeup does.
#[test]
fn work_of_an_idle_cpu_is_seen_without_the_tracepoint() {
    for is_told in [true, false] {
        let units = ["oncpu", "task-state", "rundelay"];
        let [mut oncpu, mut states, mut delay] = units.map(|unit| {
            let mut stage = sched(unit, &[]);
            switch(&mut stage, 0, 0, (20, 1), 0);
            for period in 1..=10 {
                let at = period * 100 * MS;
                wake(&mut stage, at, 0, 20, 0);
                if is_told {
                    stage.come(at + 500 * US, 0, 20);
                }
                switch(&mut stage, at + 4500 * US, 0, (20, 1), 0);
                stage.come(at + 4501 * US, 0, 0);
            }
            stage.until(1100 * MS);
            stage
        });
        let tasks = oncpu.panels();
        let (cpus, tasks) = (of(&tasks, "CPUs"), of(&tasks, "Tasks"));
        if is_told {
            // The first run began before the start.
            assert_eq!((number(tasks, 0, "ran_ns"), number(tasks, 0, "runs")), (40e6, 11.0));
            assert_eq!(cpus.note, "");
        } else {
            // The unit uses no wakeups, and reports the gap.
            assert_eq!(cpus.note, "10 switches not recorded: that time counts for no task");
        }
        let (ran, waited) = if is_told { (40e6, 5e6) } else { (45e6, 0.0) };
        let tasks = states.panels();
        let tasks = of(&tasks, "Tasks");
        assert_eq!((number(tasks, 0, "r_ns"), number(tasks, 0, "rd_ns")), (ran, waited));
        assert_eq!(tasks.note.is_empty(), is_told, "{}", tasks.note);
        let threads = delay.panels();
        let threads = of(&threads, "Threads");
        assert_eq!((number(threads, 0, "calls"), number(threads, 0, "total_ns")), (10.0, waited));
        assert_eq!(threads.note.is_empty(), is_told, "{}", threads.note);
    }
}

/// A task that came to an idle CPU without a switch event is listed as the one that ran.
#[test]
fn who_came_unseen_is_named_as_who_ran() {
    for is_told in [true, false] {
        let mut stage = sched("rundelay", &[]);
        switch(&mut stage, 0, 0, (20, 1), 0);
        wake(&mut stage, 10 * MS, 0, 10, 0);
        if is_told {
            stage.come(10 * MS, 0, 10);
        }
        wake(&mut stage, 11 * MS, 10, 20, 0);
        switch(&mut stage, 40 * MS, 0, (10, 1), 20);
        let panels = stage.panels();
        let longest = of(&panels, "Longest");
        assert_eq!((number(longest, 0, "delay_ns"), number(longest, 0, "runner_ns")), (29e6, 29e6));
        assert_eq!((text(longest, 0, "comm"), text(longest, 0, "runner")), ("victim".into(), "hog-10".into()));
    }
}

#[test]
fn run_queue_delay() {
    let mut stage = scene("rundelay");
    let panels = stage.panels();
    let threads = of(&panels, "Threads");
    // The victim waited 5 ms and 3 ms, the hog 1 ms twice; only 5 ms exceeds 4 ms.
    assert_eq!((text(threads, 0, "comm"), number(threads, 0, "total_ns")), ("victim".into(), 8e6));
    assert_eq!(
        (number(threads, 0, "calls"), number(threads, 0, "max_ns"), number(threads, 0, "than")),
        (2.0, 5e6, 1.0)
    );
    assert_eq!((text(threads, 1, "comm"), number(threads, 1, "preempted_ns")), ("hog".into(), 2e6));
    let ran = of(&panels, "Ran while");
    assert_eq!((text(ran, 0, "comm"), number(ran, 0, "total_ns")), ("hog".into(), 8e6));
    let longest = of(&panels, "Longest");
    assert_eq!((number(longest, 0, "delay_ns"), text(longest, 0, "runner")), (5e6, "hog-10".into()));
    assert_eq!(
        stage.points.0["sched_wakeup-sched_switch"],
        [
            (1_006_000_000, 5_000_000),
            (1_007_000_000, 1_000_000),
            (1_017_000_000, 3_000_000),
            (1_018_000_000, 1_000_000)
        ]
    );
}

#[test]
fn a_wait_that_has_not_ended_is_shown_and_losses_end_waits() {
    let mut stage = sched("rundelay", &[]);
    switch(&mut stage, 0, 0, (0, 0), 10);
    switch(&mut stage, MS, 0, (10, 1), 20);
    wake(&mut stage, 2 * MS, 20, 10, 0);
    switch(&mut stage, 3 * MS, 0, (20, 0), 10);
    switch(&mut stage, 4 * MS, 0, (10, 0x100), 0);
    stage.until(9 * MS);
    let panels = stage.panels();
    let threads = of(&panels, "Threads");
    assert_eq!((text(threads, 0, "comm"), number(threads, 0, "now_ns")), ("hog".into(), 5e6));
    stage.lose(None, 4 * MS, 9 * MS, 100);
    switch(&mut stage, 10 * MS, 0, (0, 0), 10);
    let panels = stage.panels();
    // A wait that began before the gap has no known length.
    assert_eq!(number(of(&panels, "Threads"), 0, "calls"), 1.0);
}

#[test]
fn states_add_up_to_the_time_that_was_watched() {
    let mut stage = scene("task-state");
    let panels = stage.panels();
    let tasks = of(&panels, "Tasks");
    let by_comm: BTreeMap<String, usize> = (0..2).map(|row| (text(tasks, row, "comm"), row)).collect();
    let hog = by_comm["hog"];
    let all = ["r_ns", "rd_ns", "s_ns", "d_ns", "stopped_ns", "traced_ns", "i_ns", "p_ns", "unknown_ns"];
    for row in [hog, by_comm["victim"]] {
        let sum: f64 = all.iter().map(|state| number(tasks, row, state)).sum();
        assert_eq!(sum, 20e6, "{}", text(tasks, row, "comm"));
    }
    let victim = by_comm["victim"];
    let states = ["r_ns", "rd_ns", "s_ns", "d_ns", "unknown_ns"].map(|state| number(tasks, victim, state));
    // Its state is unknown until it woke; then it has been in D for 2 ms.
    assert_eq!(states, [2e6, 8e6, 7e6, 2e6, 1e6]);
    assert_eq!((text(tasks, victim, "state"), number(tasks, victim, "so_far_ns")), ("D".into(), 2e6));
    assert_eq!(["r_ns", "rd_ns"].map(|state| number(tasks, hog, state)), [18e6, 2e6]);
}

/// A guest kernel that does not record a switch from idle: the next task that leaves the CPU has run since it could.
#[test]
fn a_switch_from_idle_that_is_missing() {
    let mut stage = sched("task-state", &[]);
    switch(&mut stage, 0, 0, (10, 1), 0);
    wake(&mut stage, 4 * MS, 0, 10, 0);
    switch(&mut stage, 6 * MS, 0, (10, 1), 0);
    stage.until(10 * MS);
    let panels = stage.panels();
    let tasks = of(&panels, "Tasks");
    assert_eq!(["r_ns", "rd_ns", "s_ns"].map(|column| number(tasks, 0, column)), [2e6, 0.0, 8e6]);
    assert!(tasks.note.starts_with("1 switch from idle"));
}

#[test]
fn a_gap_belongs_to_no_state() {
    let mut stage = sched("task-state", &[]);
    switch(&mut stage, 0, 0, (0, 0), 10);
    stage.lose(Some(0), 5 * MS, 15 * MS, 9);
    switch(&mut stage, 20 * MS, 0, (10, 1), 0);
    stage.until(30 * MS);
    let panels = stage.panels();
    let tasks = of(&panels, "Tasks");
    assert_eq!(["r_ns", "s_ns", "total_ns"].map(|column| number(tasks, 0, column)), [10e6, 10e6, 20e6]);
}

#[test]
fn who_ran_and_who_moved() {
    let mut stage = scene("oncpu");
    let panels = stage.panels();
    let tasks = of(&panels, "Tasks");
    assert_eq!(
        (text(tasks, 0, "comm"), number(tasks, 0, "ran_ns"), number(tasks, 0, "runs")),
        ("hog".into(), 18e6, 2.0)
    );
    let cpus = of(&panels, "CPUs");
    assert_eq!(
        (number(cpus, 0, "busy_pct"), number(cpus, 0, "switches"), text(cpus, 0, "now")),
        (100.0, 5.0, "hog-10".into())
    );
    switch(&mut stage, 21 * MS, 1, (0, 0), 20);
    let panels = stage.panels();
    assert_eq!(number(of(&panels, "Tasks"), 1, "migrations"), 1.0);
}

#[test]
fn blocked_by_stack_and_waker() {
    let mut stage = scene("offcpu");
    let panels = stage.panels();
    let blocked = of(&panels, "Blocked");
    assert_eq!((number(blocked, 0, "blocked_ns"), number(blocked, 0, "d_ns")), (8e6, 8e6));
    assert_eq!(text(blocked, 0, "stack"), "io_schedule < read_config < main");
    assert_eq!(text(blocked, 0, "wakers"), "hog");
    let wakers = of(&panels, "Wakers");
    assert_eq!((text(wakers, 0, "waker"), text(wakers, 0, "waker_stack")), ("hog".into(), "complete < worker".into()));
    let Body::Flame(both) = &of(&panels, "Hot and cold").body else { panic!("no graph") };
    assert_eq!(
        both.folded(""),
        "victim;off CPU;main;read_config;io_schedule 8000000\nhog;on CPU;worker;complete 2000000\n"
    );
}

/// Threads of this program are in no figure, unless requested.
#[test]
fn our_own_threads_are_nobodys_figures() {
    use crate::common::stage::Value::{N, T};
    let own = |stage: &mut Stage| {
        stage.own.insert(77);
        stage.call(77, "profile");
    };
    // We wake a task, are woken by one, and one wakes another.
    let mut wakeups = sched("wakeups", &[]);
    own(&mut wakeups);
    for (by, tid) in [(77, 20), (10, 77), (10, 20)] {
        wake(&mut wakeups, MS, by, tid, 0);
    }
    let panels = wakeups.panels();
    let pairs = of(&panels, "Wakers, wakees");
    assert_eq!((rows(pairs).ids.len(), number(pairs, 0, "times")), (1, 1.0));
    // Our thread runs now.
    let mut oncpu = sched("oncpu", &[]);
    own(&mut oncpu);
    switch(&mut oncpu, 0, 0, (0, 0), 10);
    switch(&mut oncpu, 4 * MS, 0, (10, 1), 77);
    oncpu.until(10 * MS);
    let panels = oncpu.panels();
    assert_eq!(rows(of(&panels, "Tasks")).ids, [10]);
    assert_eq!((text(of(&panels, "CPUs"), 0, "now"), number(of(&panels, "CPUs"), 0, "busy_ns")), ("–".into(), 4e6));
    // Keys that are threads.
    let spec = perfprof_tui::units::find("top").expect("a unit");
    let mut top = Stage::new(spec, &["-e", "sched:sched_switch", "--key", "next_pid"]);
    own(&mut top);
    top.event(0, "sched:sched_switch", SWITCH, "\"\"");
    for next in [77, 10, 77] {
        let hit = top.hit(0, MS);
        top.give(hit, &[T("x"), N(1), N(0), T("y"), N(next)]);
    }
    let panels = top.panels();
    assert_eq!((rows(&panels[0]).ids.len(), cell(&panels[0], 0, "next_pid")), (1, &Cell::Id(10)));
    let spec = perfprof_tui::units::find("hrtimer").expect("a unit");
    let mut hrtimer = Stage::new(spec, &["--than", "1ms"]);
    own(&mut hrtimer);
    hrtimer.plain(0, "cpu-clock");
    for (after, tid) in [(1, 77), (3, 77), (6, 10)] {
        let hit = UnitSample { tid, ..hrtimer.hit(0, after * MS) };
        hrtimer.give(hit, &[]);
    }
    let panels = hrtimer.panels();
    assert_eq!((rows(&panels[0]).ids.len(), number(&panels[0], 0, "longest_ns")), (1, 3e6));
}

/// A wait that a hundred tasks end is one row with its most frequent waker; the panel next to it has all wakers.
#[test]
fn a_call_site_is_one_row_whoever_wakes_it() {
    use crate::common::stage::Value::{N, T};
    let mut stage = sched("offcpu", &[]);
    let blocks = stage.stack(&["main", "poll", "schedule"]);
    for waker in 0..100i32 {
        let wakes = stage.stack(&["worker", &format!("complete_{waker}")]);
        let at = 2 * waker as u64 * MS;
        let hit = UnitSample { tid: 20, stack: blocks, ..stage.hit(0, at) };
        stage.give(hit, &[T("victim"), N(20), N(1), T("swapper"), N(0)]);
        let by = if waker < 50 { 10 } else { 300 + waker };
        stage.call(by, if waker < 50 { "hog" } else { "other" });
        let hit = UnitSample { tid: by, stack: wakes, ..stage.hit(1, at + MS) };
        stage.give(hit, &[T("victim"), N(20), N(0)]);
    }
    let panels = stage.panels();
    let blocked = of(&panels, "Blocked");
    assert_eq!((rows(blocked).table.rows.len(), number(blocked, 0, "times")), (1, 100.0));
    assert_eq!(number(blocked, 0, "blocked_ns"), 100.0 * MS as f64);
    assert_eq!(text(blocked, 0, "wakers"), "hog 50.0 %, other 50.0 %");
    assert_eq!(rows(of(&panels, "Wakers")).table.rows.len(), 100);
}

#[test]
fn who_wakes_whom() {
    let mut stage = scene("wakeups");
    let panels = stage.panels();
    let pairs = of(&panels, "Wakers, w");
    assert_eq!((text(pairs, 0, "waker"), text(pairs, 0, "woken")), ("hog-10".into(), "victim-20".into()));
    assert_eq!((number(pairs, 0, "times"), number(pairs, 0, "max_ns")), (2.0, 5e6));
}

#[test]
fn calls_with_their_errors_and_those_under_way() {
    let mut stage = scene("syscalls");
    let panels = stage.panels();
    let calls = of(&panels, "Calls");
    assert_eq!((text(calls, 0, "call"), number(calls, 0, "total_ns")), ("read".into(), 12e6));
    assert_eq!((number(calls, 0, "errors"), text(calls, 0, "errno")), (2.0, "EAGAIN".into()));
    assert_eq!(
        (text(calls, 1, "call"), number(calls, 1, "now"), number(calls, 1, "oldest_ns")),
        ("futex".into(), 1.0, 100e6)
    );
    let under_way = of(&panels, "Under way");
    assert_eq!((text(under_way, 0, "comm"), number(under_way, 0, "so_far_ns")), ("waiter".into(), 100e6));
}

#[test]
fn what_is_inside_of_what() {
    let mut stage = scene("nested-trace");
    let panels = stage.panels();
    let tree = of(&panels, "Tree");
    let line = |row: usize| (text(tree, row, "name"), number(tree, row, "total_ns"), number(tree, row, "own_ns"));
    assert_eq!(line(0), ("softirq 1".into(), 10_000.0, 3_000.0));
    assert_eq!(line(1), ("timer_expire".into(), 7_000.0, 7_000.0));
    assert_eq!(line(2), ("softirq 3".into(), 2_000.0, 2_000.0));
    assert_eq!(rows(tree).depth, [0, 1, 0]);
    // An exit without its entry, and an entry without its exit, are harmless.
    let hit = stage.hit(3, 50 * US);
    stage.give(hit, &[common::stage::Value::N(1)]);
    let hit = stage.hit(0, 51 * US);
    stage.give(hit, &[common::stage::Value::N(1)]);
    assert_eq!(number(of(&stage.panels(), "Tree"), 0, "calls"), 1.0);
}

/// The notes of all panels in the scenarios, with their figures.
#[test]
fn notes_of_panels() {
    let of_unit = |name: &str| {
        let notes = scene(name).panels();
        let notes = notes.iter().filter(|panel| !panel.note.is_empty());
        notes.map(|panel| format!("{name}, {}: {}\n", panel.title, panel.note)).collect::<String>()
    };
    let notes: String = perfprof_tui::units::UNITS.iter().map(|spec| of_unit(spec.name)).collect();
    insta::assert_snapshot!("notes", notes);
}

#[test]
fn pairs_by_key_with_what_was_between() {
    let mut stage = scene("multi-trace");
    let panels = stage.panels();
    let pairs = of(&panels, "Pairs");
    assert_eq!((number(pairs, 0, "calls"), number(pairs, 0, "max_ns"), number(pairs, 0, "than")), (2.0, 6e6, 1.0));
    let slowest = of(&panels, "Slowest");
    assert_eq!((text(slowest, 0, "key"), number(slowest, 0, "ns")), ("8".into(), 6e6));
    let between = of(&panels, "Events in between");
    let list: Vec<(f64, String)> = (0..rows(between).table.rows.len())
        .map(|row| (number(between, row, "after_ns"), text(between, row, "text")))
        .collect();
    assert_eq!(list, [(0.0, "id=8".into()), (1e6, "id=7".into()), (6e6, "id=8".into())]);
    // Without a key, the table names the key of its pairs.
    let stage = Stage::new(perfprof_tui::units::find("multi-trace").expect("unit"), &["-e", "a:b", "-e", "a:c"]);
    let mut stage = stage;
    insta::assert_snapshot!("note-of-pairs-by-default", of(&stage.panels(), "Pairs").note);
}

/// A loss may include the end of an open pair and the start of another: both are left out, and the tables have their
/// number.
#[test]
fn pairs_across_a_loss_are_counted() {
    use common::stage::Value::N;
    let mut stage = Stage::new(perfprof_tui::units::find("multi-trace").expect("unit"), &["-e", "a:b", "-e", "a:c"]);
    stage.event(0, "a:b", &["int x"], "\"\"").event(1, "a:c", &["int x"], "\"\"");
    let mut hits = |role: usize, ms: u64, tid: i32| {
        let hit = UnitSample { pid: tid, tid, ..stage.hit(role, ms * MS) };
        stage.give(hit, &[N(0)]);
        if ms == 2 {
            stage.lose(Some(0), MS, 2 * MS, 5);
        }
    };
    [(0, 0, 10), (0, 1, 20), (1, 2, 20), (1, 900, 10), (0, 901, 10), (1, 902, 10)]
        .into_iter()
        .for_each(|(role, ms, tid)| hits(role, ms, tid));
    let panels = stage.panels();
    assert_eq!(number(of(&panels, "Pairs"), 0, "calls"), 2.0);
    for title in ["Pairs", "Slowest"] {
        let note = &of(&panels, title).note;
        assert!(note.contains("1 pair left out"), "{title}: {note}");
    }
    stage.reset();
    assert!(!of(&stage.panels(), "Pairs").note.contains("left out"));
}

/// The finding of a unit precedes its event in the log and between two events.
#[test]
fn units_among_events() {
    let switched = |stage: &mut Stage, role: usize| {
        for role in [0, role] {
            let hit = UnitSample { tid: 10, ..stage.hit(role, 6 * MS) };
            use common::stage::Value::{N, T};
            stage.give(hit, &[T("hog"), N(10), N(0x100), T("victim"), N(20)]);
        }
    };
    let mut stage = sched("trace", &["-e", "sched:sched_switch,task-state/--than 2ms/"]);
    stage.event(3, "sched:sched_switch", SWITCH, "\"switch\"");
    switch(&mut stage, 0, 0, (0, 0), 10);
    wake(&mut stage, MS, 10, 20, 0);
    switched(&mut stage, 3);
    stage.until(7 * MS);
    let panels = stage.panels();
    let log = of(&panels, "Log");
    let line = |row: usize| (number(log, row, "tid"), text(log, row, "event"), text(log, row, "text"));
    let own = |row| (10.0, "sched:sched_switch".to_owned(), line(row).2);
    let found = |tid: f64, words: &str| (tid, "task-state".to_owned(), words.to_owned());
    assert_eq!(line(0), found(10.0, "ran (R) for 6.00 ms"));
    assert_eq!(line(1), found(20.0, "waited for a CPU (RD) for 5.00 ms"));
    assert_eq!((line(2), rows(log).table.rows.len()), (own(2), 3));
    let rates = of(&panels, "Rates");
    assert_eq!((text(rates, 0, "event"), number(rates, 0, "hits")), ("task-state".into(), 2.0));

    let words = ["-e", "app:begin", "-e", "sched:sched_switch,task-state//untraced/", "--key", "cpu"];
    let mut stage = sched("multi-trace", &words);
    stage.event(3, "app:begin", &["int id"], "\"\"").event(4, "sched:sched_switch", SWITCH, "\"switch\"");
    switch(&mut stage, 0, 0, (0, 0), 10);
    wake(&mut stage, MS, 10, 20, 0);
    let hit = UnitSample { tid: 10, ..stage.hit(3, 2 * MS) };
    stage.give(hit, &[common::stage::Value::N(1)]);
    switched(&mut stage, 4);
    stage.until(7 * MS);
    let panels = stage.panels();
    assert_eq!(number(of(&panels, "Pairs"), 0, "max_ns"), 4e6);
    let between = of(&panels, "Events in between");
    let events: Vec<String> = (0..rows(between).table.rows.len()).map(|row| text(between, row, "event")).collect();
    assert_eq!(events, ["app:begin", "task-state", "task-state", "sched:sched_switch"]);
    assert_eq!(text(between, 2, "text"), "waited for a CPU (RD) for 5.00 ms");
    for (words, why) in [
        ("a:b,llcstat", "llcstat: it counts"),
        ("a:b,profile/--nope/", "unknown option --nope"),
        ("a:b,breakpoint", "breakpoint: name an address"),
        ("a:b,profile/-F x/", "--frequency x"),
    ] {
        let settings = common::stage::settings(perfprof_tui::units::find("trace").expect("unit"), &["-e", words]);
        let made = perfprof_tui::units::make(perfprof_tui::units::find("trace").expect("unit"), &settings);
        let fault = made.expect_err(words);
        assert!(fault.contains(why), "{fault}");
    }
}

#[test]
fn requests_by_stage_process_and_way() {
    let mut stage = scene("blktrace");
    let panels = stage.panels();
    let stages = of(&panels, "Stages");
    let line = |row: usize| (text(stages, row, "from"), text(stages, row, "to"), number(stages, row, "mean_ns"));
    assert_eq!(line(0), ("get".into(), "insert".into(), 1e6));
    assert_eq!(line(1), ("insert".into(), "issue".into(), 2e6));
    assert_eq!((number(stages, 2, "calls"), number(stages, 2, "total_ns")), (3.0, 16e6));
    assert_eq!((number(stages, 3, "calls"), number(stages, 3, "total_ns")), (3.0, 22e6));
    let who = of(&panels, "Requesters");
    assert_eq!(number(who, 0, "bytes"), 4096.0);
    let ways = |panel: &Panel| (0..rows(panel).table.rows.len()).map(|row| text(panel, row, "way")).collect::<Vec<_>>();
    // A flush has no size.
    assert_eq!(ways(who), ["read", "write", "flush"]);
    assert_eq!(ways(of(&panels, "Sizes")), ["read", "write"]);
    let Body::Series(depth) = &of(&panels, "Queue depth").body else { panic!("no course") };
    assert_eq!(depth.lines[0].values.iter().copied().fold(0.0, f64::max), 2.0);
}

#[test]
fn survivors_and_churn() {
    let mut stage = scene("kmemleak");
    let panels = stage.panels();
    let survivors = of(&panels, "Survivors");
    assert_eq!(rows(survivors).table.rows.len(), 1);
    assert_eq!((number(survivors, 0, "bytes"), number(survivors, 0, "objects")), (10_240.0, 10.0));
    assert_eq!((text(survivors, 0, "stack"), number(survivors, 0, "oldest_ns")), ("open_session < probe".into(), 1e9));
    stage.unit.baseline(true).expect("it has one");
    let hit = stage.hit(0, 1100 * MS);
    stage.give(hit, &[common::stage::Value::N(0x7000), common::stage::Value::N(64)]);
    let panels = stage.panels();
    assert_eq!(text(of(&panels, "Survivors"), 0, "since_baseline_bytes"), "+64 B");
    stage.lose(None, 1100 * MS, 1200 * MS, 5);
    insta::assert_snapshot!("note-of-losses", of(&stage.panels(), "Survivors").note);

    let panels = scene("kmemprof").panels();
    let allocations = of(&panels, "Allocations");
    assert_eq!(
        (number(allocations, 0, "bytes"), number(allocations, 1, "freed"), text(allocations, 1, "net_bytes")),
        (10_240.0, 10.0, "0 B".into())
    );
    assert_eq!(number(of(&panels, "Releases"), 0, "bytes"), 5_000.0);
}

/// A growing cache precedes a larger and older one that was filled at the start.
#[test]
fn what_grows_stands_before_what_is_large() {
    let mut stage = scene("kmemleak");
    let (cache, bursts) = (stage.stack(&["probe", "fill_cache"]), stage.stack(&["probe", "take_job"]));
    let wrapped = stage.stack(&["main", "load", "operator new(unsigned long)", "malloc"]);
    let mut give = |stack, at: i64, ms: u64, bytes: i64| {
        let hit = UnitSample { stack, ..stage.hit(0, ms * MS) };
        stage.give(hit, &[common::stage::Value::N(at), common::stage::Value::N(bytes)]);
    };
    // In the first quarter of four seconds.
    for i in 0..16 {
        give(cache, 0x10_0000 + i, 1001 + 50 * i as u64, 1 << 20);
    }
    for i in 0..10 {
        give(bursts, 0x20_0000 + i, 2000 + 200 * i as u64, 3000);
    }
    give(wrapped, 0x30_0000, 4000, 1 << 20);
    stage.until(4000 * MS);
    let panels = stage.panels();
    let survivors = of(&panels, "Survivors");
    let stacks: Vec<String> = (0..4).map(|row| text(survivors, row, "stack")).collect();
    assert_eq!(stacks, ["take_job < probe", "fill_cache < probe", "load < main", "open_session < probe"]);
    assert!(number(survivors, 0, "growth_bytes_s") > 1000.0);
}

#[test]
fn faults_by_stack_mapping_and_address() {
    let panels = scene("page-faults").panels();
    let stacks = of(&panels, "By stack");
    assert_eq!(
        (number(stacks, 0, "minor"), number(stacks, 0, "major"), text(stacks, 0, "stack")),
        (5.0, 1.0, "load_index < main".into())
    );
    let mappings = of(&panels, "By mapping");
    assert_eq!((text(mappings, 0, "mapping"), number(mappings, 0, "faults")), ("/data/index.bin".into(), 6.0));
    assert_eq!(rows(of(&panels, "By address")).table.rows.len(), 3);
}

#[test]
fn exits_of_guests_by_reason() {
    let panels = scene("kvm-exit").panels();
    let exits = of(&panels, "Exits");
    assert_eq!(
        (text(exits, 0, "reason"), number(exits, 0, "calls"), number(exits, 0, "total_ns")),
        ("HLT".into(), 2.0, 12e6)
    );
    assert_eq!((number(exits, 0, "gsys_pct"), number(exits, 0, "than")), (100.0, 2.0));
    assert_eq!((text(exits, 1, "reason"), number(exits, 1, "gsys_pct")), ("EPT_VIOLATION".into(), 50.0));
}

#[test]
fn shadow_pages_by_level() {
    let panels = scene("kvmmmu").panels();
    let pages = of(&panels, "Shadow pages");
    let line =
        |row: usize| ["level", "alive", "made", "reused", "zapped", "entries"].map(|column| number(pages, row, column));
    assert_eq!(line(0), [1.0, 0.0, 1.0, 0.0, 2.0, 0.0]);
    assert_eq!(line(1), [2.0, 1.0, 1.0, 1.0, 0.0, 1.0]);
    assert_eq!(line(2), [4.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
}

#[test]
fn loads_by_where_their_data_came_from() {
    let panels = scene("ldlat-loads").panels();
    let sources = of(&panels, "Where data");
    assert_eq!((text(sources, 0, "level"), number(sources, 0, "total_cycles")), ("hit RAM".into(), 600.0));
    assert_eq!((text(sources, 1, "level"), number(sources, 1, "calls")), ("hit L3".into(), 6.0));
}

#[test]
fn who_forks() {
    let panels = scene("forks").panels();
    assert_eq!((text(&panels[0], 0, "comm"), number(&panels[0], 0, "forks")), ("make".into(), 3.0));
    // The task with the most forks is first; threads of one name are separate.
    assert_eq!([0, 1].map(|row| number(&panels[0], row, "tid")), [7.0, 1.0]);
    assert_eq!([0, 1].map(|row| number(&panels[0], row, "last")), [44.0, 43.0]);
}

#[test]
fn ratios_of_counters() {
    let panels = scene("llcstat").panels();
    let by_cpu = of(&panels, "By CPU");
    assert_eq!(
        (number(by_cpu, 0, "hit_pct"), number(by_cpu, 1, "hit_pct"), number(by_cpu, 2, "hit_pct")),
        (90.0, 80.0, 85.0)
    );
    // A missing counter and a division by zero give no ratio.
    assert_eq!(text(by_cpu, 0, "l3_hit_pct"), "");
}

#[test]
fn sums_by_key_where_a_division_by_zero_adds_nothing() {
    let panels = scene("top").panels();
    let table = of(&panels, "By comm");
    assert_eq!((text(table, 0, "comm"), number(table, 0, "bytes")), ("cp".into(), 100_000.0));
    assert_eq!((number(table, 1, "bytes"), number(table, 1, "bytes / n")), (8_704.0, 1_024.0));
}

#[test]
fn distributions() {
    let panels = scene("num-dist").panels();
    let table = of(&panels, "Distributions");
    assert_eq!(
        ["calls", "min", "max", "total", "than"].map(|column| number(table, 0, column)),
        [100.0, 20.0, 2000.0, 101_000.0, 50.0]
    );
    assert!((number(table, 0, "p50") - 1000.0).abs() <= 1000.0 / 64.0);
    assert!(table.note.starts_with("1 record without such a number"));
    let Body::Histogram(powers) = &of(&panels, "Powers").body else { panic!("no histogram") };
    assert_eq!(powers.total(), 100);
}

#[test]
fn bursts_inside_of_milliseconds() {
    let panels = scene("hrcount").panels();
    let table = of(&panels, "Events in windows");
    assert_eq!(["events", "max", "bursts"].map(|column| number(table, 0, column)), [119.0, 20.0, 1.0]);
    assert_eq!(number(table, 0, "busiest_ns"), 50e6);
}

#[test]
fn windows_where_a_condition_holds() {
    let panels = scene("hrtimer").panels();
    let table = of(&panels, "By stack");
    assert_eq!((number(table, 0, "windows"), number(table, 0, "sched_switch")), (6.0, 9.0));
}

#[test]
fn busy_seconds_only() {
    let panels = scene("profile").panels();
    let table = of(&panels, "Functions");
    assert_eq!((text(table, 0, "function"), number(table, 0, "samples")), ("hash".into(), 80.0));
    assert!(table.note.starts_with("without 3 samples of seconds below 50 %"), "{}", table.note);
}

#[test]
fn counters_as_rates() {
    let panels = scene("percpu-stat").panels();
    let grid = &panels[0];
    assert_eq!((number(grid, 0, "switches"), number(grid, 0, "idle"), number(grid, 2, "minflt")), (500.0, 100.0, 50.0));
    let mut stage = scene("percpu-stat");
    stage.unit.reset(START);
    for (second, ms, n) in [(3, 1000, 1000), (4, 1000, 2000), (5, 500, 300)] {
        let until = START + second * 1000 * MS - (1000 - ms) * MS;
        [0, 18].iter().for_each(|role| stage.unit.count(&counted(*role, 1, until, ms * MS, n, 100.0)));
    }
    stage.until(4500 * MS);
    let panels = stage.panels();
    let Body::Series(history) = &panels[1].body else { panic!("{:?}", panels[1]) };
    let line = |label: &str| &history.lines.iter().find(|line| line.label == label).expect("a line").values[2..];
    assert_eq!((line("switches"), line("idle")), (&[1000.0, 2000.0, 600.0][..], &[500.0, 1000.0, 300.0][..]));
    let panels = scene("stat").panels();
    assert_eq!(number(of(&panels, "Events"), 0, "count"), 900.0);
}

/// The totals of perf's own analysis of the same recording.
#[test]
fn run_queue_delay_is_what_perf_sched_timehist_says() {
    let output = run(program().args(["rundelay", "--batch", "--format", "json"]).arg(data("units/sched.data")));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let ours: BTreeMap<i64, (f64, f64)> = answer["panels"][0]["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            let ns = |name: &str| row[name].as_f64().unwrap_or(0.0);
            (row["tid"].as_i64().expect("tid"), (ns("wakeup_ns"), ns("preempted_ns")))
        })
        .collect();
    let perf = std::fs::read_to_string(data("units/sched.timehist")).expect("perf's answer");
    let mut theirs: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for line in perf.lines().skip(3) {
        let (Some(open), Some(close)) = (line.rfind('['), line.rfind(']')) else { continue };
        let tid = line[open + 1..close].split('/').next().and_then(|tid| tid.parse().ok());
        let figures: Vec<f64> = line[close + 1..].split_whitespace().filter_map(|word| word.parse().ok()).collect();
        if let (Some(tid), [wait, delay, _]) = (tid, figures.as_slice()) {
            let entry = theirs.entry(tid).or_insert((0.0, 0.0));
            *entry = (entry.0 + delay * 1e6, entry.1 + wait * 1e6);
        }
    }
    let (mut delay, mut perf_delay) = (0.0, 0.0);
    for (tid, (wakeup, preempted)) in &ours {
        let Some((their_delay, their_wait)) = theirs.get(tid) else { continue };
        (delay, perf_delay) = (delay + wakeup, perf_delay + their_delay);
        // A task that never sleeps waits in the run queue only.
        if *wakeup < 1e6 && *preempted > 100e6 {
            assert!((preempted - their_wait).abs() < 0.01 * their_wait, "{tid}: {preempted} and {their_wait}");
        }
    }
    assert!(perf_delay > 10e6, "perf saw {perf_delay}");
    assert!((delay - perf_delay).abs() < 0.01 * perf_delay, "{delay} ns, perf {perf_delay} ns");
}

/// The states of a thread add up to the recorded time.
#[test]
fn states_of_a_recording_sum_to_its_time() {
    let output = run(program().args(["task-state", "--batch", "--format", "json"]).arg(data("units/sched.data")));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let span = answer["until_ns"].as_f64().expect("until") - answer["since_ns"].as_f64().expect("since");
    let rows = answer["panels"][0]["rows"].as_array().expect("rows");
    let mut whole = 0;
    for row in rows {
        let sum: f64 = ["r_ns", "rd_ns", "s_ns", "d_ns", "stopped_ns", "traced_ns", "i_ns", "p_ns", "unknown_ns"]
            .iter()
            .map(|state| row[*state].as_f64().unwrap_or(0.0))
            .sum();
        assert_eq!(sum, row["total_ns"].as_f64().expect("total"), "{row}");
        whole += usize::from((sum - span).abs() < 0.001 * span);
    }
    // Threads that began or ended meanwhile cover a part of it.
    assert!(whole >= 8, "{whole} of {} threads were there all the time of {span} ns", rows.len());
}

/// System call counts by call equal those of perf trace -s.
#[test]
fn system_calls_are_counted_as_perf_trace_does() {
    let output = run(program()
        .args(["syscalls", "--per-thread", "--batch", "--format", "json"])
        .arg(data("units/syscalls.data")));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    let mut ours: BTreeMap<(i64, String), (u64, u64)> = BTreeMap::new();
    for row in answer["panels"][0]["rows"].as_array().expect("rows") {
        let calls = row["calls"].as_u64().unwrap_or(0);
        if calls > 0 {
            let key = (row["tid"].as_i64().expect("tid"), row["call"].as_str().expect("call").to_owned());
            ours.insert(key, (calls, row["errors"].as_u64().unwrap_or(0)));
        }
    }
    let perf = std::fs::read_to_string(data("units/syscalls.summary")).expect("perf's answer");
    let (mut theirs, mut tid) = (BTreeMap::new(), 0);
    for line in perf.lines() {
        if let Some(at) = line.find(" events, ") {
            tid = line[..at].rsplit_once('(').and_then(|(_, rest)| rest.split(')').next()?.parse().ok()).unwrap_or(0);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name, calls, errors, _, ..] = words.as_slice()
            && let (Ok(calls), Ok(errors)) = (calls.parse::<u64>(), errors.parse::<u64>())
        {
            theirs.insert((tid, (*name).to_owned()), (calls, errors));
        }
    }
    assert!(theirs.len() > 10, "{theirs:?}");
    // perf omits these: their exits have no number.
    ours.retain(|(_, call), _| call != "rt_sigreturn");
    // perf counts clone once more in each child, where it returns as well. strace counts calls.
    let made = theirs.iter().filter(|((_, call), _)| call == "clone").map(|((tid, _), (calls, _))| (*tid, *calls));
    let (parents, children): (Vec<(i64, u64)>, Vec<_>) = made.partition(|(_, calls)| *calls > 1);
    assert!(parents.len() == 1 && parents[0].1 == children.len() as u64, "{parents:?} {children:?}");
    theirs.retain(|(tid, call), _| call != "clone" || *tid == parents[0].0);
    assert_eq!(ours, theirs);
}

#[test]
fn headless_forms() {
    let file = data("units/sched.data");
    let csv = run(program().args(["rundelay", "--batch", "--format", "csv", "-i", "0.1"]).arg(&file));
    let csv = String::from_utf8(csv.stdout).expect("text");
    assert!(csv.starts_with("time,comm,tid,calls,total_ns,min_ns,") && csv.lines().count() > 20, "{csv}");
    assert_eq!(csv.matches("time,").count(), 1);
    let json = run(program().args(["oncpu", "--batch", "--format", "json", "-i", "0.2"]).arg(&file));
    let lines: Vec<serde_json::Value> =
        String::from_utf8(json.stdout).expect("text").lines().map(|l| serde_json::from_str(l).expect("json")).collect();
    assert!(lines.len() >= 4, "{}", lines.len());
    // Intervals follow each other without gaps.
    assert!(lines.windows(2).all(|w| w[0]["until_ns"] == w[1]["since_ns"]));
    let dir = tempfile::tempdir().expect("dir");
    let (folded, points) = (dir.path().join("sleep"), dir.path().join("delay"));
    run(program().args(["task-state", "-g", "-i", "0.2", "--flame-graph"]).arg(&folded).arg(&file));
    let text = std::fs::read_to_string(dir.path().join("sleep.folded")).expect("folded");
    let line = text.lines().next().expect("a line");
    let mut parts = line.split(';');
    let (date, time) = (parts.next().expect("date"), parts.next().expect("time"));
    assert!(
        date.len() == 10 && date.matches('-').count() == 2 && time.len() == 8 && time.matches(':').count() == 2,
        "{line}"
    );
    run(program().args(["rundelay", "--heatmap"]).arg(&points).arg(&file));
    let text = std::fs::read_to_string(dir.path().join("delay-sched_wakeup-sched_switch.lat")).expect("points");
    assert!(text.lines().count() > 100);
    assert!(text.lines().all(|line| line.split(' ').filter_map(|n| n.parse::<u64>().ok()).count() == 2), "{text}");
}

#[test]
fn options_of_all_units() {
    let file = data("units/sched.data");
    let said = |args: &[&str]| {
        let output = run(program().args(args).arg("--batch").arg(&file));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    // perf-prof's interval is in milliseconds.
    let (by_ms, note) = said(&["rundelay", "-i", "200", "-n", "2"]);
    assert_eq!(by_ms.matches("rundelay  0.20 s").count(), 2, "{by_ms}");
    insta::assert_snapshot!("note-of-milliseconds", note);
    assert_eq!(by_ms, said(&["rundelay", "-i", "200ms", "-n", "2"]).0);
    // One report after a second, if no interval is given.
    assert_eq!(said(&["rundelay", "-n", "1"]).0.matches("  rundelay  ").count(), 1);
    let (all, _) = said(&["rundelay"]);
    let row = |text: &str, id: &str| text.lines().any(|line| line.split_whitespace().nth(1) == Some(id));
    let busiest = all.lines().nth(4).and_then(|line| line.split_whitespace().nth(1)).expect("a thread").to_owned();
    assert!(row(&all, &busiest));
    let (rest, _) = said(&["rundelay", "--panel", "Threads", "--exclude_pid", &busiest]);
    assert!(!row(&rest, &busiest) && rest.lines().count() > 10, "{rest}");
    let (by_cpu, _) = said(&["rundelay", "--perins"]);
    assert_eq!(by_cpu, said(&["rundelay", "--per-cpu"]).0);
    let (described, _) = said(&["rundelay", "--describe"]);
    assert!(["--exclude_pid", "--per-cpu"].iter().all(|name| described.split_whitespace().any(|word| word == *name)));
}

/// Without guests, the missing guest samples explain the empty result, not broken stacks.
#[test]
fn without_guests_their_samples_are_said_to_be_missing() {
    let text = |unit: &str, options: &[&str]| {
        let out = run(program().arg(unit).args(options).arg(data("fp-spin.data")).stdin(std::process::Stdio::null()));
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
    };
    let warnings = |text: &str| {
        text.lines().filter(|line| line.starts_with("! ")).map(|line| format!("{line}\n")).collect::<String>()
    };
    let guests = warnings(&text("profile", &["-g", "-G"]));
    insta::assert_snapshot!("no-guests", guests);
    assert!(!warnings(&text("profile", &["-g"])).lines().any(|line| guests.lines().any(|guest| guest == line)));
}

#[test]
fn faults_say_what_is_wrong() {
    let file = data("units/sched.data");
    let fails = |args: &[&str], words: &str| {
        let output = program().args(args).arg(&file).output().expect("runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(words), "{args:?}: {error}");
    };
    fails(&["syscalls", "--batch"], "raw_syscalls:sys_enter");
    fails(&["multi-trace", "--batch", "-e", "sched:sched_switch"], "two steps");
    fails(&["top", "--batch"], "name events with -e");
    fails(&["num-dist", "--batch", "-e", "sched:sched_switch"], "--num");
    fails(&["rundelay", "--batch", "--than", "4mss"], "units:");
    fails(&["rundelay", "--batch", "--panel", "Nothing"], "--panel: no such panel; available: Threads");
    fails(&["top", "--batch", "-e", "sched:sched_switch", "--key", "prev_comn"], "nearest: prev_comm");
    fails(&["offcpu", "--key", "pid"], "offcpu: --key cannot apply to it; it is an option of kmemprof, top, num-dist,");
    fails(&["rundelay", "--key", "cpu"], "possible values: pid");
    fails(&["rundelay", "--irqs_disabled"], "--irqs_disabled: ");
    fails(&["rundelay", "--exclude-user", "--exclude-kernel"], "nothing would be left");
    fails(&["rundelay", "--exclude_pid", "x"], "invalid process id x");
    fails(&["rundelay", "--flame-graph", "-"], "rundelay: --flame-graph: ");
}
