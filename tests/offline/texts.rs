//! Output of `perf script` with its options, parsed again: every layout has the samples of its recording.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::transcript::Transcript;
use crate::common::{data, installed, program, run, symfs};

/// Recordings of tracepoints without call chains, for which perf prints addresses only on request; then recordings
/// with chains, of several events, and without chains.
const TRACEPOINTS: [&str; 2] = ["softirqs.data", "corpus/tp-raw.data"];
const OTHERS: [&str; 4] = ["forker-g.data", "multi3.data", "flat-k.data", "corpus/fp-cxx.data"];

/// Options of `perf script` whose text has all compared fields: comm, function, DSO, period.
const WHOLE: [&str; 11] = [
    "",
    "--ns",
    "--header",
    "-F comm,pid,tid,cpu,time,period,event,ip,sym,dso",
    "-F +symoff",
    "-F +misc",
    "-F +srcline",
    "-F +insnlen",
    "-F comm,tid,period,event,ip,sym,dso",
    "-F -time,-cpu",
    "--show-task-events --show-mmap-events --show-switch-events --show-namespace-events",
];

/// Options whose text lacks some fields, but has every sample.
const PARTS: [&str; 26] = [
    "-G",
    "-F +srcline -G",
    "--hide-call-graph",
    "-F -dso",
    "-F -comm",
    "-F -event",
    "-F ip,sym",
    "-F ip,sym,dso",
    "-F ip",
    "-F comm,tid,period,ip,sym,dso",
    "-F comm,ip,sym",
    "-F comm,tid,ip,sym",
    "-F event,ip,sym",
    "-F time,ip,sym",
    "-F comm,tid,ip",
    "-F comm,tid,time",
    "-F comm,tid,cpu,event",
    "-F comm,event",
    "-F event,trace",
    "-F comm,trace",
    "-F comm,tid,time,event,trace",
    "-F pid,time,event,ip,sym",
    "-F time",
    "--reltime",
    "--max-stack 3",
    // With these options, perf 6.1 applies late mappings to earlier samples.
    "--show-round-events --show-lost-events",
];

fn perf_script(file: &Path, root: &Path, options: &str) -> String {
    let mut command = Command::new("perf");
    command.args(["script", "--no-inline", "-f", "-i"]).arg(file).arg("--symfs").arg(root);
    command.arg("--kallsyms").arg(data("kallsyms")).args(options.split_whitespace());
    String::from_utf8_lossy(&command.output().expect("perf").stdout).into_owned()
}

/// Our results for a recording, or for its text.
struct Told {
    /// The first event that has samples; a text begins with its first sample.
    event: String,
    samples: u64,
    period: u64,
    folded: BTreeSet<String>,
    said: String,
}

/// Reads the samples, with the stacks of an event if one is given.
fn told(file: &Path, root: &Path, event: Option<&str>) -> Told {
    let ask = |words: &[&str]| {
        let mut command = program();
        command.args(words).arg("--symfs").arg(root).arg("--kallsyms").arg(data("kallsyms")).arg(file);
        run(&mut command)
    };
    let report = ask(&["report", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).expect("json");
    let sum = |figure: &str| {
        let events = json["events"].as_array().expect("events").iter();
        events.map(|event| event[figure].as_u64().expect("a figure")).sum()
    };
    let events = json["events"].as_array().expect("events").iter();
    let first = events.filter(|event| event["samples"] != 0).find_map(|event| event["name"].as_str());
    let mut export = vec!["export", "--to", "folded", "-o", "-"];
    export.extend(event.iter().flat_map(|event| ["--event", event]));
    let folded = String::from_utf8(ask(&export).stdout).expect("UTF-8");
    Told {
        event: first.unwrap_or_default().to_owned(),
        samples: sum("samples"),
        period: sum("period"),
        folded: folded.lines().map(str::to_owned).collect(),
        said: String::from_utf8_lossy(&report.stderr).into_owned(),
    }
}

/// Converts a line of folded stacks: our recording's stack ends at an unknown caller, whereas a text keeps the frames
/// after it, like stackcollapse. A kernel entry function is not a caller.
fn broken(line: &str) -> String {
    const LOST: &str = "[unknown]";
    let Some((comm, stack)) = line.split_once(';') else { return line.to_owned() };
    let mut frames: Vec<&str> = stack.split(';').collect();
    let is_lost = |frames: &[&str], at: usize| frames[at] == LOST && !frames[at + 1].starts_with("entry_");
    let last = (0..frames.len() - 1).rev().find(|at| is_lost(&frames, *at));
    if let Some(last) = last {
        frames.splice(..=last, ["[broken]"]);
    }
    format!("{comm};{}", frames.join(";"))
}

/// This test fails if any mark of the layouts is ignored: the column of a comm, the two spaces before a source line,
/// the tab before a frame.
#[test]
fn every_layout_of_perf_script_has_the_samples() {
    needs!(installed("perf"));
    let root = symfs();
    let text = root.path().join("text");
    let mut read = 0;
    for recording in TRACEPOINTS.into_iter().chain(OTHERS) {
        let file = data(recording);
        let want = told(&file, root.path(), None);
        for (options, is_whole) in WHOLE.iter().map(|o| (*o, true)).chain(PARTS.iter().map(|o| (*o, false))) {
            let printed = perf_script(&file, root.path(), options);
            // perf rejects fields that an event lacks.
            if printed.lines().all(|line| line.starts_with('#') || line.is_empty()) {
                continue;
            }
            std::fs::write(&text, printed).expect("written");
            let got = told(&text, root.path(), is_whole.then_some(&*want.event));
            let what = format!("{recording}, perf script {options}");
            assert_eq!((got.samples, &*got.said), (want.samples, ""), "{what}");
            if is_whole {
                assert_eq!(got.period, want.period, "{what}");
            }
            if is_whole && (OTHERS.contains(&recording) || options.split(',').skip(1).any(|field| field == "ip")) {
                let folded: BTreeSet<String> = got.folded.iter().map(|line| broken(line)).collect();
                let differing: Vec<_> = folded.symmetric_difference(&want.folded).collect();
                assert_eq!(differing, [""; 0], "{what}");
            }
            read += 1;
        }
    }
    assert!(read > 150, "{read} layouts");
}

/// Texts of perf versions since 3.2, with their stacks from stackcollapse.
#[test]
fn texts_of_old_perfs_are_folded_as_collapsers_fold_them() {
    for name in ["no-tabs", "pid-tid", "no-time"] {
        let text = data(&format!("texts/{name}.txt"));
        let output = run(program().args(["export", "--to", "folded", "-o", "-"]).arg(text)).stdout;
        let folded = String::from_utf8(output).expect("UTF-8");
        let want = std::fs::read_to_string(data(&format!("texts/{name}.folded"))).expect("folded");
        let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<String>>();
        assert_eq!(sorted(&folded), sorted(&want), "{name}");
    }
}

#[test]
fn a_text_of_which_most_is_lost_is_no_success() {
    let dir = tempfile::tempdir().expect("dir");
    let text = dir.path().join("text");
    let good = "a 1 [000] 1.5: cycles: \n\t  401000 main (/bin/a)\n\n";
    let bad = "what is this line\n\n";
    let mut transcript = Transcript::new().with(dir.path(), "DIR");
    for (lines, code) in [([good, good, bad], 0), ([good, bad, bad], 1)] {
        std::fs::write(&text, lines.concat()).expect("written");
        for words in [&["report"][..], &["export", "--to", "folded", "-o", "-"], &["script"]] {
            let output = transcript.add(program().args(words).arg(&text));
            assert_eq!(output.status.code(), Some(code), "{words:?}: {lines:?}");
        }
    }
    insta::assert_snapshot!("lost-lines", transcript.text());
}

const SCRIPT: &str = "\
prog   100/101  [003]     1.000000:          1 sched:sched_switch: prev_comm=prog ==> next_comm=my app: x 5
\tffffffff81000100 __schedule+0x10 ([kernel.kallsyms])
\t          401000 _ZN3foo3barEi+0x1 (/b (deleted))

prog   100/101  [001]     3.000000:     250000 cpu-clock:u:      401000 f+0x1 (/b)
prog   100/101  [001]     4.500000:     250000 cpu-clock:u:      401010 f+0x11 (/b)
";

/// Addresses, offsets, times, CPUs and tracepoint fields come from the text; symbols are resolved as usual.
#[test]
fn script_of_a_text_prints_what_the_text_has() {
    let dir = tempfile::tempdir().expect("dir");
    let text = dir.path().join("text");
    std::fs::write(&text, SCRIPT).expect("written");
    let printed = |args: &[&str]| {
        let output = run(program().arg("script").args(args).arg(&text));
        assert!(output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let words =
        |text: &str| text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    assert_eq!(
        words(&printed(&[])),
        [
            "prog 101 [003] 1.000000: sched:sched_switch: prev_comm=prog ==> next_comm=my app: x 5",
            "ffffffff81000100 __schedule+0x10 ([kernel.kallsyms])",
            "401000 foo::bar+0x1 (/b (deleted))",
            "",
            "prog 101 [001] 3.000000: 250000 cpu-clock:u: 401000 f+0x1 (/b)",
            "prog 101 [001] 4.500000: 250000 cpu-clock:u: 401010 f+0x11 (/b)",
        ]
    );
    assert_eq!(words(&printed(&["-F", "comm,time"])), ["prog 1.000000:", "prog 3.000000:", "prog 4.500000:"]);
    assert_eq!(words(&printed(&["--no-demangle"]))[2], "401000 _ZN3foo3barEi+0x1 (/b (deleted))");
    // Addresses of one function share a row of a table, and events have the units of their types.
    let report = run(program().args(["report", "--format", "json", "-s", "sym"]).arg(&text)).stdout;
    let json: serde_json::Value = serde_json::from_slice(&report).expect("json");
    let events = json["events"].as_array().expect("events");
    let told = |event: &serde_json::Value| (event["name"].clone(), event["unit"].clone(), event["period"].clone());
    assert_eq!(told(&events[0]), ("sched:sched_switch".into(), "count".into(), 1.into()));
    assert_eq!(told(&events[1]), ("cpu-clock:u".into(), "nanoseconds".into(), 500_000.into()));
    assert_eq!((events[1]["rows"].as_array().map(Vec::len), &events[1]["rows"][0]["sym"]), (Some(1), &"f".into()));
}

/// Fractions are not rounded line by line; two counts are two events.
#[test]
fn folded_stacks_with_fractions_and_two_counts() {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("in.folded");
    let output = |text: &str, words: &[&str]| {
        std::fs::write(&file, text).expect("written");
        let output = run(program().args(words).arg(&file));
        (String::from_utf8(output.stdout).expect("UTF-8"), String::from_utf8(output.stderr).expect("UTF-8"))
    };
    let shares = |text: &str| {
        let json: serde_json::Value =
            serde_json::from_str(&output(text, &["report", "--format", "json", "-s", "sym"]).0).expect("json");
        let events = json["events"].as_array().expect("events").clone();
        let rows = |event: &serde_json::Value| -> Vec<(String, f64)> {
            let rows = event["rows"].as_array().expect("rows").iter();
            rows.map(|row| (row["sym"].as_str().expect("sym").to_owned(), row["self_pct"].as_f64().expect("share")))
                .collect()
        };
        events.iter().map(|event| (event["unit"].as_str().expect("unit").to_owned(), rows(event))).collect::<Vec<_>>()
    };
    let row = |sym: &str, share: f64| (sym.to_owned(), share);
    assert_eq!(shares(&"a;b 0.004\n".repeat(1000)), [("count/1000".to_owned(), vec![row("b", 100.0)])]);
    let quarters = "a;b 0.4\na;c 0.6\na;d 1.4\na;e 2.5\n";
    let want = vec![row("e", 51.0204), row("d", 28.5714), row("c", 12.2449), row("b", 8.1633)];
    assert_eq!(shares(quarters), [("count/10".to_owned(), want)]);
    assert_eq!(output(quarters, &["export", "--to", "folded", "-o", "-"]).0, quarters);
    let two = shares("a;b 10 12\na;c 30 4\n");
    assert_eq!(two[0].1, [row("c", 75.0), row("b", 25.0)]);
    assert_eq!(two[1].1, [row("b", 75.0), row("c", 25.0)]);
    // Sums beyond 64 bits get a larger unit, with a warning.
    let large = "a;b 18446744073709551615\na;c 18446744073709551615\n";
    assert_eq!(shares(large)[0].1, [row("b", 50.0), row("c", 50.0)]);
    let (text, said) = output(large, &["report", "-s", "sym"]);
    // One line with a fraction and a name that seems to be a count.
    let odd = shares("a;b 3\na;b 3 1.5\na;c 1\n");
    assert_eq!(odd, [("count".to_owned(), vec![row("b", 75.0), row("c", 25.0)])]);
    let head = text.lines().next().unwrap_or_default().to_owned();
    let (_, lost) = output("what is this\na;b 1\na;c 2\n", &["report"]);
    let folder = dir.path().to_string_lossy().into_owned();
    insta::assert_snapshot!("folded-warnings", format!("{head}\n{said}\n{lost}").replace(&folder, "DIR"));
}

/// The first line of folded stacks may be longer than the start of a file by which its format is detected. Lines of more
/// than a MiB are damaged.
#[test]
fn a_long_first_stack_does_not_hide_the_format() {
    let dir = tempfile::tempdir().expect("dir");
    let deep = |frames: usize| format!("a;{} 3\na;b 4\n", vec!["com/example/Service.handle"; frames].join(";"));
    for (frames, total) in [(3_000, Some(7)), (30_000, Some(7)), (60_000, None)] {
        for piped in [false, true] {
            let (file, text) = (dir.path().join("deep.folded"), deep(frames));
            std::fs::write(&file, &text).expect("written");
            let mut command = program();
            command.args(["report", "--format", "json", "-s", "comm"]).arg(if piped { Path::new("-") } else { &file });
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
            // It may have ended before.
            let _ = child.stdin.take().expect("piped").write_all(text.as_bytes());
            let output = child.wait_with_output().expect("ended");
            assert_eq!(output.status.success(), total.is_some(), "{frames} {piped}");
            let Some(total) = total else { continue };
            let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(report["events"][0]["period"].as_u64(), Some(total), "{frames} {piped}");
        }
    }
}
