//! What `perf script` prints with its options, read back: every layout has the samples of the recording that it was
//! printed of.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::common::{data, installed, program, run, symfs};

/// Recordings of tracepoints without call chains, of which perf prints no address unless told to; of others with
/// chains, of several events, and without chains.
const TRACEPOINTS: [&str; 2] = ["softirqs.data", "corpus/tp-raw.data"];
const OTHERS: [&str; 4] = ["forker-g.data", "multi3.data", "flat-k.data", "corpus/fp-cxx.data"];

/// Options of `perf script` whose text says all that is compared: comm, function, DSO, period.
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

/// Options whose text says less; it still has every sample.
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
    // With these perf 6.1 gives mappings that come late to samples before them.
    "--show-round-events --show-lost-events",
];

fn perf_script(file: &Path, root: &Path, options: &str) -> String {
    let mut command = Command::new("perf");
    command.args(["script", "--no-inline", "-f", "-i"]).arg(file).arg("--symfs").arg(root);
    command.arg("--kallsyms").arg(data("kallsyms")).args(options.split_whitespace());
    String::from_utf8_lossy(&command.output().expect("perf").stdout).into_owned()
}

/// What an answer of ours says of a recording or a text of one.
struct Told {
    /// The first event that has samples; a text begins with what came first.
    event: String,
    samples: u64,
    period: u64,
    folded: BTreeSet<String>,
    said: String,
}

/// The stacks are of the event of that name, where one is given.
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

/// A line of folded stacks as a recording has it: there a stack ends where a caller is nowhere, and a text keeps what
/// is behind, as collapsers of texts do. Who entered the kernel is no caller.
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

/// Mutations of the layouts' marks (the column of a comm, the two blanks before a source's line, the tab before a
/// frame) each fail here.
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
            // perf refuses fields that an event has not.
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
            if is_whole && (OTHERS.contains(&recording) || options.contains(",ip,")) {
                let folded: BTreeSet<String> = got.folded.iter().map(|line| broken(line)).collect();
                let differing: Vec<_> = folded.symmetric_difference(&want.folded).collect();
                assert_eq!(differing, [""; 0], "{what}");
            }
            read += 1;
        }
    }
    assert!(read > 150, "{read} layouts");
}

/// Texts of perfs since 3.2, and their stacks as collapsers of texts write them.
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
    for (lines, code) in [([good, good, bad], 0), ([good, bad, bad], 1)] {
        std::fs::write(&text, lines.concat()).expect("written");
        for words in [&["report"][..], &["export", "--to", "folded", "-o", "-"], &["script"]] {
            let output = program().args(words).arg(&text).output().expect("runs");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("not understood"), "{words:?}: {said}");
            assert_eq!(output.status.code(), Some(code), "{words:?}: {lines:?}");
        }
    }
}
