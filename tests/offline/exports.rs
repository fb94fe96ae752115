//! Exports for other tools, each format read by an independent reader.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::common::transcript::Transcript;
use crate::common::{data, program, run, symfs};

fn export(to: &str, args: &[&str]) -> Vec<u8> {
    let root = symfs();
    let mut command = program();
    command.arg("export").arg(data("fp-sysmix.data")).args(["--to", to, "-o", "-"]).args(args);
    run(command.arg("--symfs").arg(root.path()).arg("--kallsyms").arg(data("kallsyms"))).stdout
}

const SAMPLES: usize = 329;

/// A protobuf message by field number.
///
/// Supports wire types 0 and 2, and skips 1 (protobuf.dev, "Encoding").
#[derive(Default)]
struct Message {
    numbers: BTreeMap<u64, Vec<u64>>,
    bytes: BTreeMap<u64, Vec<Vec<u8>>>,
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            return value;
        }
    }
}

impl Message {
    fn read(mut bytes: &[u8]) -> Self {
        let mut message = Self::default();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            match key & 7 {
                0 => message.numbers.entry(key >> 3).or_default().push(varint(&mut bytes)),
                // Fixed 64-bit numbers.
                1 => bytes = &bytes[8..],
                2 => {
                    let n = varint(&mut bytes) as usize;
                    message.bytes.entry(key >> 3).or_default().push(bytes[..n].to_vec());
                    bytes = &bytes[n..];
                }
                wire => panic!("wire type {wire}"),
            }
        }
        message
    }

    fn number(&self, field: u64) -> u64 {
        self.numbers.get(&field).map_or(0, |v| v[0])
    }

    fn messages(&self, field: u64) -> Vec<Self> {
        self.bytes.get(&field).into_iter().flatten().map(|b| Self::read(b)).collect()
    }

    fn packed(&self, field: u64) -> Vec<u64> {
        let mut out = self.numbers.get(&field).cloned().unwrap_or_default();
        for bytes in self.bytes.get(&field).into_iter().flatten() {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                out.push(varint(&mut rest));
            }
        }
        out
    }
}

#[test]
fn pprof_by_a_plain_protobuf_reader() {
    let packed = export("pprof", &[]);
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("gzip");
    let profile = Message::read(&bytes);
    let strings: Vec<String> = profile.bytes[&6].iter().map(|b| String::from_utf8(b.clone()).expect("utf8")).collect();
    assert_eq!(strings[0], "");
    let types: Vec<&str> = profile.messages(1).iter().map(|t| strings[t.number(1) as usize].as_str()).collect();
    assert_eq!(types, ["samples", "cpu-clock"]);
    let functions: BTreeMap<u64, &str> =
        profile.messages(5).iter().map(|f| (f.number(1), strings[f.number(2) as usize].as_str())).collect();
    let mappings: HashSet<u64> = profile.messages(3).iter().map(|m| m.number(1)).collect();
    let locations: BTreeMap<u64, &str> = profile
        .messages(4)
        .iter()
        .map(|l| {
            assert!(mappings.contains(&l.number(2)));
            (l.number(1), functions[&l.messages(4)[0].number(1)])
        })
        .collect();
    let (mut samples, mut through_main) = (0, 0);
    for sample in profile.messages(2) {
        let values = sample.packed(2);
        assert_eq!(values.len(), 2);
        samples += values[0] as usize;
        if sample.packed(1).iter().any(|l| locations[l] == "main") {
            through_main += values[0];
        }
    }
    assert_eq!(samples, SAMPLES);
    assert!(through_main > 100, "{through_main}");
}

/// speedscope.app/file-format-schema.json, checked by hand: required fields and references.
#[test]
fn speedscope_by_its_schema() {
    let file: serde_json::Value = serde_json::from_slice(&export("speedscope", &[])).expect("json");
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().expect("frames");
    assert!(frames.iter().all(|f| f["name"].is_string()));
    let mut total = 0;
    for profile in file["profiles"].as_array().expect("profiles") {
        assert_eq!((profile["type"].as_str(), profile["unit"].as_str()), (Some("sampled"), Some("nanoseconds")));
        let (samples, weights) =
            (profile["samples"].as_array().expect("samples"), profile["weights"].as_array().expect("weights"));
        assert_eq!(samples.len(), weights.len());
        for frame in samples.iter().flat_map(|s| s.as_array().expect("stack")) {
            assert!((frame.as_u64().expect("index") as usize) < frames.len());
        }
        let sum: u64 = weights.iter().map(|w| w.as_u64().expect("weight")).sum();
        assert_eq!(profile["endValue"].as_u64(), Some(sum));
        total += sum;
    }
    assert_eq!(total, SAMPLES as u64 * 1_001_001);
}

/// The processed profile format (firefox-devtools/profiler, docs-developer/processed-profile-format): the columns of a
/// table have equal lengths, and their references are valid.
#[test]
fn firefox_by_its_tables() {
    let file: serde_json::Value = serde_json::from_slice(&export("firefox", &[])).expect("json");
    assert!(file["meta"]["preprocessedProfileVersion"].as_u64().is_some_and(|v| v >= 46));
    assert_eq!(file["meta"]["symbolicated"], true);
    let mut samples = 0;
    let mut names = HashSet::new();
    for thread in file["threads"].as_array().expect("threads") {
        let column = |table: &str, name: &str| thread[table][name].as_array().expect("column").clone();
        let length = |table: &str| thread[table]["length"].as_u64().expect("length") as usize;
        let stacks = column("samples", "stack");
        assert_eq!(stacks.len(), length("samples"));
        for stack in stacks.iter().filter_map(|s| s.as_u64()) {
            assert!((stack as usize) < length("stackTable"));
        }
        for (frame, prefix) in column("stackTable", "frame").iter().zip(column("stackTable", "prefix")) {
            assert!((frame.as_u64().expect("frame") as usize) < length("frameTable"));
            assert!(prefix.is_null() || (prefix.as_u64().expect("prefix") as usize) < length("stackTable"));
        }
        for func in column("frameTable", "func") {
            assert!((func.as_u64().expect("func") as usize) < length("funcTable"));
        }
        let strings = thread["stringArray"].as_array().expect("strings");
        for name in column("funcTable", "name") {
            names.insert(strings[name.as_u64().expect("name") as usize].as_str().expect("text").to_owned());
        }
        samples += stacks.len();
    }
    assert_eq!(samples, SAMPLES);
    assert!(["main", "do_syscall_64"].iter().all(|name| names.contains(*name)));
}

/// protos/perfetto/trace of github.com/google/perfetto: numbers are defined before their use.
#[test]
fn perfetto_by_a_plain_protobuf_reader() {
    let trace = Message::read(&export("perfetto", &[]));
    let (mut functions, mut frames, mut stacks) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut threads, mut periods) = (HashSet::new(), BTreeMap::new());
    let (mut samples, mut through_main) = (0, 0);
    for packet in trace.messages(1) {
        for thread in packet.messages(60).iter().flat_map(|track| track.messages(4)) {
            threads.insert((thread.number(1), thread.number(2)));
        }
        for new in packet.messages(12) {
            for name in new.messages(5) {
                functions.insert(name.number(1), String::from_utf8(name.bytes[&2][0].clone()).expect("UTF-8"));
            }
            for frame in new.messages(6) {
                assert!(functions.contains_key(&frame.number(2)));
                frames.insert(frame.number(1), frame.number(2));
            }
            for stack in new.messages(7) {
                stacks.insert(stack.number(1), stack.packed(2).iter().any(|at| functions[&frames[at]] == "main"));
            }
        }
        for sample in packet.messages(66) {
            assert!(threads.contains(&(sample.number(2), sample.number(3))));
            samples += 1;
            through_main += usize::from(stacks.get(&sample.number(4)) == Some(&true));
            periods.insert(sample.number(1), sample.number(6));
        }
    }
    assert_eq!(samples, SAMPLES);
    assert!(through_main > 100, "{through_main}");
    assert_eq!(periods.values().sum::<u64>(), SAMPLES as u64 * 1_001_001);
}

/// Switches are ftrace events, and the times off the CPU are slices.
#[test]
fn perfetto_has_switches_and_durations() {
    let file = data("switches.data");
    let samples = |event: &str| {
        let text = run(program().arg("report").arg(&file).args(["--event", event, "--format", "json"])).stdout;
        let report: serde_json::Value = serde_json::from_slice(&text).expect("json");
        report["events"][0]["samples"].as_u64().expect("samples")
    };
    let trace = run(program().arg("export").arg(&file).args(["--to", "perfetto", "-o", "-"])).stdout;
    let packets = Message::read(&trace).messages(1);
    let events = packets.iter().flat_map(|packet| packet.messages(1)).flat_map(|bundle| bundle.messages(2));
    assert_eq!(events.filter(|event| event.bytes.contains_key(&4)).count() as u64, samples("sched:sched_switch"));
    let kinds = || packets.iter().flat_map(|packet| packet.messages(11)).map(|event| event.number(9));
    assert_eq!(kinds().filter(|kind| *kind == 1).count() as u64, samples("off-cpu"));
    assert_eq!(kinds().filter(|kind| *kind == 2).count() as u64, samples("off-cpu"));
}

#[test]
fn an_svg_that_is_well_formed_and_chosen_samples_only() {
    let svg = String::from_utf8(export("svg", &[])).expect("utf8");
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    assert!(["do_syscall_64", "round_trip"].iter().all(|name| svg.contains(name)));
    let kernel = String::from_utf8(export("folded", &["--where", "kernel", "--annotate"])).expect("utf8");
    assert!(
        !kernel.is_empty() && kernel.lines().all(|l| l.rsplit_once(' ').expect("count").0.ends_with("_[k]")),
        "{kernel}"
    );
}

#[test]
fn perf_data_of_chosen_samples() {
    let dir = tempfile::tempdir().expect("dir");
    let out: PathBuf = dir.path().join("kernel.data");
    let wrote = |args: &[&str]| {
        let mut command = program();
        command.arg("export").arg(data("fp-sysmix.data")).args(["--to", "perfdata", "-o"]).arg(&out).args(args);
        run(command.arg("--kallsyms").arg(data("kallsyms")));
        let text =
            run(program().arg("report").arg(&out).args(["--format", "json", "--kallsyms"]).arg(data("kallsyms")));
        let report: serde_json::Value = serde_json::from_slice(&text.stdout).expect("json");
        report["events"][0]["samples"].as_u64().expect("samples")
    };
    let (kernel, user) = (wrote(&["--where", "kernel"]), wrote(&["--where", "user"]));
    assert!(kernel > 0 && user > 0);
    assert_eq!(kernel + user, SAMPLES as u64);
    let before = std::fs::read(&out).expect("there");
    run(program().arg("export").arg(data("fp-spin.data")).args(["--to", "perfdata", "-o"]).arg(&out));
    assert_ne!(std::fs::read(&out).expect("there"), before);
    assert_eq!(std::fs::read(format!("{}.old", out.display())).expect("perf keeps the old file"), before);
    let refused = program().args(["export", "-", "--to", "perfdata", "-o", "-"]).output().expect("runs");
    assert!(!refused.status.success());
}

#[test]
fn nothing_half_written_is_left() {
    let dir = tempfile::tempdir().expect("dir");
    let mut transcript = Transcript::new().with(dir.path(), "DIR");
    let mut command = program();
    command.arg("export").arg(data("fp-sysmix.data")).args(["--to", "svg", "--where", "comm == absent", "-o"]);
    let output = transcript.add(command.arg(dir.path().join("x.svg")));
    assert_eq!(output.status.code(), Some(1));
    insta::assert_snapshot!("nothing-to-draw", transcript.text());
    assert_eq!(std::fs::read_dir(dir.path()).expect("dir").count(), 0);
}

#[test]
fn what_changed_between_two_recordings() {
    let root = symfs();
    let diff = |args: &[&str]| {
        let mut command = program();
        command.arg("diff").args(args).arg("--symfs").arg(root.path()).arg("--kallsyms").arg(data("kallsyms"));
        String::from_utf8(run(&mut command).stdout).expect("utf8")
    };
    let (spin, mix) = (data("fp-spin.data"), data("fp-sysmix.data"));
    let (spin, mix) = (spin.to_str().expect("path"), mix.to_str().expect("path"));
    insta::assert_snapshot!("no-difference", diff(&[spin, spin]).replace(spin, "fp-spin.data"));
    let report: serde_json::Value = serde_json::from_str(&diff(&[spin, mix, "--format", "json"])).expect("json");
    let rows = report["rows"].as_array().expect("rows");
    let row = |sym: &str| rows.iter().find(|r| r["sym"] == sym).unwrap_or_else(|| panic!("{sym}"));
    assert_eq!(
        (row("burn_alpha")["verdict"].as_str(), row("burn_alpha")["old_samples"].as_u64()),
        (Some("gone"), Some(158))
    );
    let deltas: f64 = rows.iter().map(|r| r["delta"].as_f64().expect("number")).sum();
    assert!(deltas.abs() < 0.01, "the shares of both sides do not add up to 100: {deltas}");
    // Lines of difffolded.pl: stack, old, new. Unscaled, they equal the two exports.
    let folded = diff(&[spin, mix, "--format", "folded", "--per", "nothing"]);
    let sum = |column: usize| -> u64 {
        folded.lines().map(|l| l.rsplit(' ').nth(1 - column).expect("column").parse::<u64>().expect("number")).sum()
    };
    assert_eq!((sum(0), sum(1)), (256 * 1_001_001, SAMPLES as u64 * 1_001_001));
    assert!(diff(&[spin, mix, "--format", "svg"]).trim_end().ends_with("</svg>"));
    // With one recording, the second is perf.data.
    let elsewhere = tempfile::tempdir().expect("dir");
    let mut transcript = Transcript::new();
    let alone = transcript.add(program().current_dir(elsewhere.path()).arg("diff").arg(spin));
    assert_eq!(alone.status.code(), Some(1));
    insta::assert_snapshot!("diff-without-perf-data", transcript.text());
}

/// The unit of an event in pprof, OTLP and speedscope.
fn units(file: &std::path::Path, event: &str) -> [String; 3] {
    let export = |to: &str| run(program().args(["export", "-o", "-", "--to", to, "--event", event]).arg(file)).stdout;
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&export("pprof")[..]).read_to_end(&mut bytes).expect("gzip");
    let pprof = Message::read(&bytes);
    let strings = |message: &Message, field: u64| -> Vec<String> {
        message.bytes[&field].iter().map(|text| String::from_utf8(text.clone()).expect("UTF-8")).collect()
    };
    let unit = &strings(&pprof, 6)[pprof.messages(1)[1].number(2) as usize];
    // ProfilesData: resource_profiles, scope_profiles, profiles; each has one sample type.
    let otlp = Message::read(&export("otlp"));
    let profiles = otlp.messages(1)[0].messages(2)[0].messages(2);
    let dictionary = &otlp.messages(2)[0];
    let in_otlp = &strings(dictionary, 5)[profiles[1].messages(1)[0].number(2) as usize];
    let scope: serde_json::Value = serde_json::from_slice(&export("speedscope")).expect("json");
    [unit.clone(), in_otlp.clone(), scope["profiles"][0]["unit"].as_str().expect("unit").to_owned()]
}

/// The unit of an event does not depend on the word "clock" in its name.
#[test]
fn units_are_the_events_and_not_their_names() {
    let dir = tempfile::tempdir().expect("dir");
    assert_eq!(units(&data("switches.data"), "off-cpu"), ["nanoseconds"; 3]);
    assert_eq!(units(&data("fp-sysmix.data"), "cpu-clock"), ["nanoseconds"; 3]);
    let text = dir.path().join("text");
    for (event, period, unit) in [
        ("syscalls:sys_enter_clock_nanosleep", "", ["count", "count", "none"]),
        ("power:clock_enable", "", ["count", "count", "none"]),
        ("uncore_imc_0/clockticks/", "77 ", ["count", "count", "none"]),
        ("task-clock:u", "77 ", ["nanoseconds"; 3]),
        ("offcpu-time", "77 ", ["nanoseconds"; 3]),
    ] {
        let lines = format!("a 1 [000] 1.5: {period}{event}: \n\t401000 main (/bin/a)\n\n").repeat(2);
        std::fs::write(&text, lines).expect("written");
        assert_eq!(units(&text, event), unit, "{event}");
    }
}

/// Weights are milliseconds of their own sample, with its decimals.
#[test]
fn firefox_weighs_sleeps_by_milliseconds() {
    let dir = tempfile::tempdir().expect("dir");
    let text = dir.path().join("text");
    let sample = |time: u64| format!("a 1 [000] {time}.5: 70000{time} offcpu-time: \n\t401000 main (/bin/a)\n\n");
    std::fs::write(&text, (1..=3).map(sample).collect::<String>()).expect("written");
    let (kind, weights) = firefox_weights(&text);
    assert_eq!((kind.as_str(), weights.as_slice()), ("tracing-ms", &[0.700001, 0.700002, 0.700003][..]));
}

/// Folded stacks have fractions, and counts of more than 31 bits.
#[test]
fn firefox_keeps_large_counts_and_fractions() {
    let dir = tempfile::tempdir().expect("dir");
    let text = dir.path().join("text.folded");
    std::fs::write(&text, "a;b 0.004\na;c 2.5\na;d 6000000000\n").expect("written");
    let (kind, weights) = firefox_weights(&text);
    assert_eq!((kind.as_str(), weights.as_slice()), ("samples", &[0.004, 2.5, 6e9][..]));
}

/// The type and the weights of the samples in the first thread of an export.
fn firefox_weights(recording: &Path) -> (String, Vec<f64>) {
    let file = run(program().args(["export", "-o", "-", "--to", "firefox"]).arg(recording)).stdout;
    let file: serde_json::Value = serde_json::from_slice(&file).expect("json");
    let samples = &file["threads"][0]["samples"];
    let weights = samples["weight"].as_array().expect("weights").iter().map(|w| w.as_f64().expect("a weight"));
    (samples["weightType"].as_str().expect("a type").to_owned(), weights.collect())
}
