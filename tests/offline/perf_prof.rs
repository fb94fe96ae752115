//! Command lines of perf-prof's manual, on recordings and synthetic records.

use crate::common::scenes::{MS, SWITCH, scene};
use crate::common::stage::{Stage, Value, cell, number, rows, settings};
use crate::common::transcript::Transcript;
use crate::common::{data, program, run};
use perfprof_tui::panel::Panel;
use perfprof_tui::units::kit::{Spec, UnitSample};

fn unit(name: &str) -> &'static Spec {
    perfprof_tui::units::find(name).expect("a unit")
}

fn of<'a>(panels: &'a [Panel], title: &str) -> &'a Panel {
    panels.iter().find(|panel| panel.title.starts_with(title)).unwrap_or_else(|| panic!("no panel {title}"))
}

fn said(args: &[&str]) -> (String, String, Option<i32>) {
    let output = program().args(args).output().expect("runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

const OWN: [&str; 4] = ["-e", "sched:sched_wakeup*,sched:sched_switch", "-e", "sched:sched_switch"];

/// Events that a unit uses by default may also be given explicitly.
#[test]
fn events_that_a_unit_has_by_itself() {
    let file = data("units/sched.data").display().to_string();
    let plain = said(&["rundelay", "--batch", &file]).0;
    let named = said(&[&["rundelay", "--batch"], &OWN[..], &[&file]].concat()).0;
    assert!(plain == named && plain.lines().count() > 10, "{named}");
    let other = said(&["rundelay", "--batch", "-e", "irq:irq_handler_entry", "-e", "sched:sched_switch", &file]);
    assert_eq!(other.2, Some(2), "{other:?}");

    let events = |words: &[&str]| {
        let spec = unit("syscalls");
        let made = perfprof_tui::units::make(spec, &settings(spec, words));
        made.map(|unit| unit.event_requests().into_iter().map(|want| want.filter).collect::<Vec<_>>())
    };
    let both = ["-e", "raw_syscalls:sys_enter/id==0/", "-e", "raw_syscalls:sys_exit/id==0/stack/"];
    assert_eq!(events(&both).expect("its own"), [Some("id==0".to_owned()), Some("id==0".to_owned())]);
    assert_eq!(events(&[]).expect("none"), [None, None]);
    assert!(events(&["-e", "sched:sched_switch"]).is_err(), "an event that is not its own");
}

/// `profile` samples tasks by scheduling attributes; the kernel filters where it can.
#[test]
fn tasks_are_sampled_by_priority_and_policy() {
    let capture = |words: &[&str]| {
        let spec = unit("profile");
        let made = perfprof_tui::units::make(spec, &settings(spec, words));
        made.map(|unit| unit.event_requests().into_iter().map(|want| want.capture).collect::<Vec<_>>())
    };
    let both = capture(&["--prio", "0-99,120", "--sched_policy", "1,2"]).expect("lists");
    assert_eq!(both, [Some("prio in 0-99,120 && policy in 1,2".to_owned())]);
    assert_eq!(capture(&[]).expect("none"), [None]);
    assert!(capture(&["--prio", "high"]).is_err(), "no number");
    let file = data("fp-spin.data").display().to_string();
    for option in ["--prio", "--sched_policy"] {
        assert_eq!(said(&["profile", option, "1", &file]).2, Some(2), "{option}");
    }
    // Switches contain the priorities.
    assert_eq!(
        said(&["oncpu", "--batch", "--prio", "100-139", &data("units/sched.data").display().to_string()]).2,
        Some(0)
    );
}

/// Events in addition to the default ones pair the same waits, and appear in between.
#[test]
fn waits_for_a_cpu_with_what_was_beside() {
    let file = data("units/sched.data").display().to_string();
    let beside = ["-e", OWN[1], "-e", "sched:sched_switch,task-state//untraced/"];
    let (text, error, code) = said(&[&["rundelay", "--batch", "--detail=samecpu"], &beside[..], &[&file]].concat());
    let titles: Vec<&str> =
        ["Pairs", "Events in between"].into_iter().filter(|title| text.lines().any(|line| line == *title)).collect();
    assert_eq!((code, titles.len()), (Some(0), 2), "{text}{error}");
    let calls = |text: &str, panel: &str, column: usize| -> Vec<u64> {
        let lines = text.lines().skip_while(|line| *line != panel).skip(2).take_while(|line| !line.is_empty());
        let figure = |line: &str| {
            line.split("  ").filter(|word| !word.is_empty()).nth(column)?.trim().replace(',', "").parse().ok()
        };
        lines.filter_map(figure).collect()
    };
    // The number of waits equals that of the unit's own table.
    let own = said(&["rundelay", "--batch", &file]).0;
    let all = *calls(&own, "Reasons", 1).last().expect("all of them");
    assert_eq!(calls(&text, "Pairs", 2).iter().sum::<u64>(), all, "{text}");
}

/// An event may start pairs by one field and end them by another.
#[test]
fn an_event_that_begins_and_ends_has_a_key_for_each() {
    let words = [
        "-e",
        "sched:sched_wakeup,sched:sched_switch/prev_state==256/key=prev_pid/",
        "-e",
        "sched:sched_switch//key=next_pid/",
    ];
    let mut stage = Stage::new(unit("multi-trace"), &[&words[..], &["--key", "pid"]].concat());
    stage.event(0, "sched:sched_wakeup", &["char comm[16]", "int pid"], "\"wakeup\"");
    stage.event(1, "sched:sched_switch", SWITCH, "\"switch\"").event(2, "sched:sched_switch", SWITCH, "\"switch\"");
    let mut switch = |ms: u64, prev: i64, next: i64, cpu: u32| {
        use Value::{N, T};
        for role in [1, 2] {
            let hit = UnitSample { cpu, event: 1, tid: prev as i32, ..stage.hit(role, ms * MS) };
            stage.give(hit, &[T("a"), N(prev), N(256), T("b"), N(next)]);
        }
    };
    switch(1, 20, 10, 0);
    switch(3, 30, 11, 1);
    switch(6, 10, 20, 0);
    let panels = stage.panels();
    let pairs = of(&panels, "Pairs");
    assert_eq!((number(pairs, 0, "calls"), number(pairs, 0, "max_ns")), (1.0, 5e6), "the pair of thread 20");
    // Both roles of the event appear between a pair.
    let between = of(&panels, "Events in between");
    let times: Vec<f64> = (0..rows(between).table.rows.len()).map(|row| number(between, row, "after_ns")).collect();
    assert_eq!(times.iter().filter(|ns| **ns == 5e6).count(), 1, "{times:?}");
}

/// `role=` may be an expression: a switch starts and ends a pair by its previous and next task.
#[test]
fn roles_by_fields() {
    let words = ["-e", "a:b//role=\"(x?1:0)|(y?2:0)\"/", "--cycle", "--key", "id"];
    let mut stage = Stage::new(unit("multi-trace"), &words);
    stage.event(0, "a:b", &["int id", "int x", "int y"], "\"\"");
    use Value::N;
    for (ms, x, y) in [(1, 0, 1), (2, 1, 0), (3, 1, 0), (7, 0, 1), (8, 0, 1)] {
        let hit = stage.hit(0, ms * MS);
        stage.give(hit, &[N(1), N(x), N(y)]);
    }
    let panels = stage.panels();
    let pairs = of(&panels, "Pairs");
    assert_eq!((number(pairs, 0, "calls"), number(pairs, 0, "max_ns")), (1.0, 4e6));
}

/// `--detail` selects by CPU, thread and process, and events before the first one, but not the following ones.
#[test]
fn what_of_a_slow_case_is_kept() {
    let kept = |detail: &str| {
        let words = ["-e", "a:b", "-e", "a:c,a:d//untraced/", "--key", "id", detail];
        let mut stage = Stage::new(unit("multi-trace"), &words);
        for (role, name) in ["a:b", "a:c", "a:d"].into_iter().enumerate() {
            stage.event(role, name, &["int id"], "\"\"");
        }
        let mut give = |role: usize, us: u64, cpu: u32, pid: i32, tid: i32| {
            let hit = UnitSample { cpu, pid, tid, ..stage.hit(role, us * 1000) };
            stage.give(hit, &[Value::N(1)]);
        };
        give(2, 900, 0, 7, 70);
        give(0, 1000, 0, 1, 10);
        give(2, 1100, 0, 7, 71);
        give(2, 1101, 2, 1, 12);
        give(2, 1300, 2, 7, 10);
        give(2, 1400, 1, 7, 73);
        give(1, 2000, 1, 1, 10);
        let panels = stage.panels();
        let between = of(&panels, "Events in between");
        let rows = rows(between).table.rows.len();
        (0..rows)
            .map(|row| number(between, row, "after_ns") / 1000.0)
            .filter(|us| *us != 0.0 && *us != 1000.0)
            .collect::<Vec<f64>>()
    };
    assert_eq!(kept("--detail"), [100.0, 300.0, 400.0]);
    assert_eq!(kept("--detail=samecpu"), [100.0, 400.0]);
    assert_eq!(kept("--detail=samecpu,1"), [100.0]);
    assert_eq!(kept("--detail=sametid"), [300.0]);
    assert_eq!(kept("--detail=samepid"), [101.0]);
    assert_eq!(kept("--detail=samecpu,-200us"), [-100.0, 100.0, 400.0]);
    assert_eq!(kept("--detail=samecpu,samepid,hide<10us"), [101.0, 400.0]);
    assert_eq!(kept("--detail=1k"), [100.0, 300.0, 400.0]);
    assert!(kept("--detail=0").is_empty());
}

#[test]
fn keys_names_and_commands_of_top() {
    let panels = |words: &[&str]| {
        let mut stage = Stage::new(unit("top"), words);
        stage.event(0, "a:b", &["int who", "char what[16]"], "\"\"");
        use Value::{N, T};
        for (tid, who, what) in [(5, 1, "read"), (5, 1, "read"), (6, 2, "write")] {
            let hit = UnitSample { tid, ..stage.hit(0, MS) };
            stage.give(hit, &[N(who), T(what)]);
        }
        stage.panels()
    };
    let text = |panel: &Panel, row: usize, column: &str| cell(panel, row, column).text();
    // The column that distinguishes rows has the name of the key.
    let by_who = panels(&["-e", "a:b//key=who/comm=what/"]);
    let table = of(&by_who, "By who");
    assert_eq!((number(table, 0, "who"), text(table, 0, "comm")), (1.0, "read".into()));
    let by_name = panels(&["-e", "a:b//key=who/comm=what/", "--only-comm"]);
    let table = of(&by_name, "By what");
    assert_eq!((text(table, 0, "what"), number(table, 1, "a:b")), ("read".into(), 1.0));
    assert!(rows(table).table.columns.iter().all(|column| column.name != "comm"));
}

#[test]
fn commands_and_priorities_on_cpus() {
    let file = data("units/sched.data").display().to_string();
    let json = |words: &[&str]| -> serde_json::Value {
        let output =
            run(program().args(["oncpu", "--batch", "--format", "json", "--duration", "100"]).args(words).arg(&file));
        serde_json::from_slice(&output.stdout).expect("json")
    };
    let sum = |json: &serde_json::Value, title: &str, column: &str| -> u64 {
        let panel =
            json["panels"].as_array().expect("panels").iter().find(|panel| panel["title"] == title).expect(title);
        panel["rows"].as_array().expect("rows").iter().map(|row| row[column].as_u64().unwrap_or(0)).sum()
    };
    let (tasks, commands) = (json(&[]), json(&["--only-comm"]));
    for column in ["ran_ns", "runs", "migrations"] {
        assert_eq!(sum(&tasks, "Tasks", column), sum(&commands, "Commands", column), "{column}");
    }
    let ran = |prio: &str| sum(&json(&["--prio", prio]), "Tasks", "ran_ns");
    let (real_time, others) = (ran("0-99"), ran("100-139"));
    let all = sum(&tasks, "Tasks", "ran_ns");
    assert!(
        real_time > 0 && real_time < others && real_time + others <= all && others > all / 2,
        "{real_time} {others} {all}"
    );
    assert_eq!(said(&["oncpu", "--batch", "--prio", "x", &file]).2, Some(2));
}

#[test]
fn allocations_named_as_two_steps() {
    let same = |words: &[&str]| {
        let spec = unit("kmemprof");
        let wants = perfprof_tui::units::make(spec, &settings(spec, words)).map(|unit| unit.event_requests());
        wants.map(|list| list.into_iter().map(|want| want.event).collect::<Vec<_>>())
    };
    let steps = ["-e", "kmem:mm_page_alloc//size=4096<<order/stack/", "-e", "kmem:mm_page_free", "-k", "pfn"];
    assert_eq!(same(&steps).expect("both"), ["kmem:mm_page_alloc", "kmem:mm_page_free"]);
    assert!(same(&steps[..2]).is_err(), "one step");
    assert!(same(&["-e", "a:b", "-e", "a:c", "--alloc", "a:b", "--free", "a:c"]).is_err(), "named twice");
    let mut stage = Stage::new(unit("kmemprof"), &steps);
    for (role, name) in ["kmem:mm_page_alloc", "kmem:mm_page_free"].into_iter().enumerate() {
        stage.event(role, name, &["u64 pfn", "int order"], "\"\"");
    }
    for (role, ms, pfn) in [(0, 1, 8), (0, 2, 16), (1, 3, 8)] {
        let hit = stage.hit(role, ms * MS);
        stage.give(hit, &[Value::N(pfn), Value::N(1)]);
    }
    let panels = stage.panels();
    let table = of(&panels, "Allocations");
    assert_eq!((number(table, 0, "bytes"), number(table, 0, "freed")), (16384.0, 1.0));
}

#[test]
fn addresses_that_are_watched() {
    let events = |words: &[&str]| {
        let spec = unit("breakpoint");
        let made = perfprof_tui::units::make(spec, &settings(spec, words));
        made.map(|unit| unit.event_requests().into_iter().map(|want| want.event).collect::<Vec<_>>())
    };
    assert_eq!(events(&["0x404040/4:w", "0x404048", "-g"]).expect("two"), ["mem:0x404040/4:w", "mem:0x404048/1:w"]);
    assert!(events(&[]).is_err(), "no address");
    assert!(events(&["0x404040", "--comm", "data==1"]).is_err(), "no names");
    // As arguments of a command, and as an event of another unit.
    assert_eq!(said(&["breakpoint", "0x404040/4:w", "-g", "--filter", "data==1"]).2, Some(2));
    let among = settings(unit("trace"), &["-e", "a:b,breakpoint/0x404040:rw -g/untraced/"]);
    let made = perfprof_tui::units::make(unit("trace"), &among).expect("an address");
    assert!(made.event_requests().iter().any(|want| want.event == "mem:0x404040/1:rw"));
}

/// Ends after a number of events, and prints to a file.
#[test]
fn ends_after_events_and_prints_into_a_file() {
    let file = data("units/sched.data").display().to_string();
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("out.txt").display().to_string();
    let words = ["trace", "-e", "sched:sched_switch", "-N", "5", "--panel", "Log"];
    let (text, ..) = said(&[&words[..], &[&file]].concat());
    let events = text.split_whitespace().filter(|word| *word == "sched:sched_switch");
    assert_eq!(events.count(), 5, "{text}");
    assert!(said(&[&words[..], &["-o", &out, &file]].concat()).0.is_empty());
    assert_eq!(std::fs::read_to_string(&out).expect("written"), text);
    let (json, ..) = said(&[&words[..], &["-o", &out, "--format", "json", &file]].concat());
    let line: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).expect("written")).expect("json");
    assert!(json.is_empty() && line["unit"] == "trace");
    assert_eq!(said(&["trace", "-e", "sched:sched_switch", "-N", "0", &file]).2, Some(2));
    // Calls of a unit among the events have their error by name.
    let calls = data("units/syscalls.data").display().to_string();
    let (log, ..) = said(&["trace", "-e", "syscalls/--than 1ns/", "--panel", "Log", &calls]);
    let failed = log.lines().filter(|line| line.contains(" = -"));
    assert!(failed.clone().count() > 0 && failed.clone().all(|line| line.contains(" = -E")), "{log}");
    // A unit among the events receives them.
    let mut stage = scene("page-faults");
    assert!(!stage.unit.is_done() && !stage.panels().is_empty());
    let of_faults = settings(unit("trace"), &["-e", "a:b,page-faults/-N 2/"]);
    let made = perfprof_tui::units::make(unit("trace"), &of_faults).expect("it may");
    assert!(!made.is_done());
}

/// Options of perf-prof that have no equal here.
const REFUSED: [&[&str]; 5] = [
    &["rundelay", "--tsc"],
    &["trace", "-e", "a:b", "--kvmclock", "8ab1"],
    &["rundelay", "--sched_policy", "2"],
    &["rundelay", "--no-user-callchain"],
    &["multi-trace", "-e", "a:b", "-e", "a:c", "--impl", "kmemprof"],
];

/// The messages about wrong command lines of units.
#[test]
fn messages_of_units() {
    let file = data("units/sched.data").display().to_string();
    let samples = data("fp-spin.data").display().to_string();
    let mut transcript = Transcript::new();
    let wrong: [(&[&str], &str); 12] = [
        (&["rundelay", "--batch", "-e", "irq:irq_handler_entry", "-e", "sched:sched_switch"], &file),
        (&["syscalls", "-e", "sched:sched_switch"], &file),
        (&["profile", "--prio", "high"], &samples),
        (&["profile", "--prio", "1"], &samples),
        (&["profile", "--sched_policy", "1"], &samples),
        (&["oncpu", "--batch", "--prio", "x"], &file),
        (&["kmemprof", "-e", "kmem:mm_page_alloc//size=4096<<order/stack/"], &file),
        (&["kmemprof", "-e", "a:b", "-e", "a:c", "--alloc", "a:b", "--free", "a:c"], &file),
        (&["breakpoint"], ""),
        (&["breakpoint", "0x404040/4:w", "-g", "--filter", "data==1"], ""),
        (&["trace", "-e", "sched:sched_switch", "-N", "0"], &file),
        (&["trace", "-e", "sched:sched_switch", "--pid", "x"], &file),
    ];
    let all = wrong.into_iter().chain(REFUSED.map(|words| (words, &*file)));
    for (words, file) in all {
        let mut command = program();
        let output = transcript.add(command.args(words).args(Some(file).filter(|file| !file.is_empty())));
        assert!([Some(1), Some(2)].contains(&output.status.code()), "{words:?}");
    }
    insta::assert_snapshot!("refused", transcript.text());
}

/// Options that request what happens anyway are accepted; others are unknown.
#[test]
fn options_without_effect_and_those_that_are_refused() {
    let file = data("units/sched.data").display().to_string();
    let own = said(&["rundelay", "--batch", &file]);
    let idle = [
        "-v",
        "-q",
        "--inherit",
        "--ptrace",
        "--watermark",
        "50",
        "--overwrite",
        "--monotonic",
        "--usage-self",
        "1000",
    ];
    let with = said(&[&["rundelay", "--batch"], &idle[..], &["--order", "-m", "64", &file]].concat());
    assert_eq!((own.0, own.2), (with.0, with.2));
    assert_eq!(own.1, with.1);
    for words in REFUSED {
        assert_eq!(said(&[words, &[&file]].concat()).2, Some(2), "{words:?}");
    }
    let pair =
        ["multi-trace", "--batch", "-e", "sched:sched_wakeup", "-e", "sched:sched_switch//key=next_pid/", "-k", "pid"];
    assert_eq!(said(&[&pair[..], &["--impl", "pair", &file]].concat()).0, said(&[&pair[..], &[&file]].concat()).0);
    let states = said(&["task-state", "--batch", "-D", "--no-interruptible", &file]);
    assert_eq!(states, said(&["task-state", "--batch", "-D", &file]));
}
