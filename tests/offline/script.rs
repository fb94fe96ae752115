//! `script` with its options compared with perf's output line by line, and its output without perf.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::transcript::Transcript;
use crate::common::{data, installed, program, run, symfs};

/// Options whose output equals perf's, each with a recording.
const LINES: &[(&str, &str)] = &[
    ("flat-99", "-D"),
    ("fields-cpu", "-D"),
    ("dwarf-spin", "-D"),
    ("group-read", "-D"),
    ("tp-raw", "-D"),
    ("flat-99", "--header-only"),
    ("clock-mono", "--header-only -I"),
    ("group3", "--header-only -I"),
    ("flat-99", "--header"),
    ("fields-cpu", "-F +addr"),
    ("fields-cpu", "-F +data_src,+misc"),
    ("dwarf-spin", "-F comm,uregs,period"),
    ("clock-mono", "-F +tod"),
    ("fields-cpu", "-F +flags"),
    ("fields-cpu", "-F ip,sym"),
    ("fields-cpu", "-F comm,dso"),
    ("flat-99", "-F comm,ip,sym,insn,insnlen"),
    ("inline", "-F comm,ip,sym,insnlen"),
    ("inline", "-G -F ip,sym,insn"),
    ("fields-cpu", "-F -comm,-tid,-time,-cpu"),
    ("fields-cpu", "-F sw:comm,tid,time,ip,sym"),
    ("fields-cpu", "-F hw:comm,tid"),
    ("fields-cpu", "-F sw:"),
    ("fields-cpu", "-F sw:+addr"),
    ("tp-raw", "-F trace"),
    ("tp-raw", "-F trace:comm,trace"),
    ("tp-raw", "-F comm,pid,tid,time,event,ip,sym"),
    ("tp-raw", "-F +ip"),
    ("tp-raw", "-L"),
    ("fields-cpu", "-L"),
    ("fields-cpu", "-C 0"),
    ("inline", "-G"),
    ("inline", "--max-stack 2"),
    ("inline", "--stop-bt main"),
    ("inline", "--reltime"),
    ("inline", "--deltatime --ns"),
    ("flat-99", "--show-task-events --show-mmap-events"),
    ("flat-99", "--show-task-events -F comm,tid,pid,time,misc,ip"),
    ("synth-throttle", "--show-lost-events"),
];

fn corpus(name: &str) -> PathBuf {
    data(&format!("corpus/{name}.data"))
}

fn ours(file: &Path, root: &Path, options: &str) -> String {
    let mut command = program();
    command.args(["script", "--no-bounds", "-i"]).arg(file).arg("--symfs").arg(root);
    command.arg("--kallsyms").arg(data("kallsyms")).args(options.split(' '));
    String::from_utf8(run(&mut command).stdout).expect("text")
}

#[test]
fn options_of_script_print_what_perf_prints() {
    needs!(installed("perf"));
    let root = symfs();
    for (name, options) in LINES {
        let file = corpus(name);
        let mut perf = Command::new("perf");
        perf.args(["script", "-f", "--no-inline", "-i"]).arg(&file).arg("--symfs").arg(root.path());
        perf.arg("--kallsyms").arg(data("kallsyms")).args(options.split(' '));
        let theirs = String::from_utf8_lossy(&perf.output().expect("perf").stdout).into_owned();
        let ours = ours(&file, root.path(), options);
        for (i, (a, b)) in ours.lines().zip(theirs.lines()).enumerate() {
            assert_eq!(a, b, "{name} {options}, line {}", i + 1);
        }
        assert_eq!(ours.lines().count(), theirs.lines().count(), "{name} {options}");
        assert!(*options == "-F sw:" || ours.lines().count() > 10, "{name} {options}: {ours}");
    }
}

/// A dump shows each record with its file offset and all of its bytes.
#[test]
fn a_dump_tells_every_record() {
    let root = symfs();
    let file = corpus("flat-99");
    let text = ours(&file, root.path(), "-D");
    let head: Vec<&str> = text.lines().skip(1).take(12).collect();
    let name = file.display();
    assert_eq!(head[0], format!("0x108@{name} [0x50]: event: 69"));
    assert_eq!(head[2], ". ... raw event: size 80 bytes");
    assert_eq!(head[9], "0 0x108 [0x50]: PERF_RECORD_ID_INDEX nr: 2");
    let rows = text.lines().filter(|line| line.starts_with(".  "));
    let bytes: usize = rows.map(|row| row[9..57].split_whitespace().count()).sum();
    assert_eq!(bytes, 5696, "the dump lacks bytes of records");
    // perf's words: a line of a record starts with its time.
    let sample = text.lines().find(|line| line.split_whitespace().any(|word| word.starts_with("PERF_RECORD_SAMPLE")));
    assert!(sample.is_some_and(|sample| sample.starts_with("2006734667")), "{sample:?}");
    // A dump by `report` does not include the text of samples.
    let mut command = program();
    let report = run(command.args(["report", "-D", "-i"]).arg(&file)).stdout;
    let report = String::from_utf8(report).expect("text");
    let is_word = |line: &&str| !line.split_whitespace().any(|word| word.starts_with("cpu-clock"));
    assert_eq!(report.lines().collect::<Vec<_>>(), text.lines().filter(is_word).collect::<Vec<_>>());
}

/// A dump includes all records of a compressed recording, and those of a stream's header.
#[test]
fn a_dump_looks_into_what_is_compressed_or_streamed() {
    let root = symfs();
    let zstd = ours(&corpus("zstd"), root.path(), "-D");
    let records = |text: &str, kind: &str| text.lines().filter(|line| line.ends_with(kind)).count();
    assert!(records(&zstd, "PERF_RECORD_COMPRESSED") > 0 && zstd.matches("PERF_RECORD_SAMPLE").count() > 100);
    let pipe = ours(&corpus("pipe"), root.path(), "-D");
    assert!(records(&pipe, "PERF_RECORD_ATTR") > 0 && records(&pipe, "PERF_RECORD_FEATURE") > 0);
    assert!(pipe.lines().any(|line| line.starts_with("0x10@")));
    let unsorted = ours(&corpus("zstd"), root.path(), "--dump-unsorted-raw-trace");
    assert_eq!(unsorted.matches("PERF_RECORD_SAMPLE").count(), zstd.matches("PERF_RECORD_SAMPLE").count());
}

/// Standard input is buffered if it must be read twice.
#[test]
fn records_of_standard_input_are_shown() {
    let file = corpus("flat-99");
    let mut command = program();
    command.args(["script", "-i", "-", "--show-task-events"]).stdin(std::fs::File::open(&file).expect("opens"));
    let piped = run(&mut command).stdout;
    let named = run(program().args(["script", "--show-task-events", "-i"]).arg(&file)).stdout;
    assert_eq!(piped, named);
    let named = String::from_utf8_lossy(&named);
    assert!(named.lines().any(|line| line.ends_with("PERF_RECORD_COMM exec: spin:17270/17270")), "{named}");
}

#[test]
fn wrong_fields_are_refused_with_what_is_right() {
    let mut transcript = Transcript::new();
    for fields in ["bogus", "comm,+ip", "comm,cpu", "+tod", "brstackinsn", "metric"] {
        let output = transcript.add(program().arg("script").arg("-i").arg(corpus("flat-99")).args(["-F", fields]));
        assert_eq!(output.status.code(), Some(2), "{fields}");
    }
    let output = transcript.add(program().args(["script", "-f", "comm,tid"]));
    assert_eq!(output.status.code(), Some(2));
    insta::assert_snapshot!("refused", transcript.text());
}

/// Off-CPU time is a separate event if requested.
#[test]
fn time_off_the_cpus_is_an_event_that_can_be_asked_for() {
    let file = data("switches.data");
    let ask = |args: &[&str]| {
        let output = run(program().arg(args[0]).arg("-i").arg(&file).args(&args[1..]));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let script = ask(&["script", "--event", "off-cpu"]);
    let of_event = |text: &str| text.lines().filter(|line| line.split(' ').any(|word| word == "off-cpu:")).count();
    let absences = of_event(&script);
    assert!(absences > 20 && of_event(&ask(&["script"])) == 0, "{script}");
    let report = ask(&["report", "--event", "off-cpu"]);
    assert!(report.contains(&format!("# event off-cpu: {absences} samples")), "{report}");
    let folded = ask(&["export", "--event", "off-cpu", "--to", "folded", "-o", "-"]);
    let nanoseconds: u64 = folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
    let all = report.split("period ").nth(1).and_then(|rest| rest.split(", lost").next()).expect("a period");
    assert_eq!(nanoseconds.to_string(), all.replace(|c: char| !c.is_ascii_digit(), ""), "{report}");
}
