//! One file, read by another tool and by this program: totals and the first rows are equal.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use inferno::collapse::Collapse as _;
use perfprof_tui::source::imported::messages::Profile;
use prost::Message;

use crate::common::{data, found, installed, program, run, symfs};

/// The rows that are compared.
const FIRST: usize = 20;

/// A table of functions: the sum of all periods, and by function the period of itself and with its callees.
#[derive(Debug, Default)]
struct Figures {
    total: u64,
    rows: BTreeMap<String, (u64, u64)>,
}

impl Figures {
    /// Returns the functions with the largest figures, without ties at the end.
    fn first(&self, figure: impl Fn(&(u64, u64)) -> u64) -> Vec<(&str, u64)> {
        let mut rows: Vec<(&str, u64)> = self.rows.iter().map(|(name, row)| (name.as_str(), figure(row))).collect();
        rows.retain(|row| row.1 > 0);
        rows.sort_by_key(|row| (std::cmp::Reverse(row.1), row.0.to_owned()));
        let least = rows.get(FIRST).map_or(0, |row| row.1);
        rows.into_iter().take(FIRST).filter(|row| row.1 > least).collect()
    }
}

/// Our table of an event.
fn ours(file: &Path, event: &str) -> Figures {
    let mut command = program();
    command.arg("report").arg(file).args(["--event", event, "-s", "sym", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&run(&mut command).stdout).expect("JSON");
    let event = &report["events"][0];
    let total = event["period"].as_u64().expect("a period");
    let mut found = Figures { total, rows: BTreeMap::new() };
    for row in event["rows"].as_array().expect("rows") {
        let children = row["children_pct"].as_f64().expect("a share") * total as f64 / 100.0;
        let sums = found.rows.entry(row["sym"].as_str().expect("a name").to_owned()).or_default();
        sums.0 += row["period"].as_u64().expect("a period");
        sums.1 += children.round() as u64;
    }
    found
}

/// Whether a figure that we round as a share is the same.
fn is_near(one: u64, other: u64, total: u64) -> bool {
    one.abs_diff(other) as f64 <= total as f64 * 2e-6 + 1.0
}

/// The profiles of a Go program, with all of their sample types.
const GO: [&str; 4] = ["go-cpu", "go-heap", "go-mutex", "go-block"];

#[test]
fn go_tool_pprof_has_the_same_rows_of_each_sample_type() {
    let Some(go) = found("go") else { return };
    let dir = tempfile::tempdir().expect("dir");
    let mut files = GO.map(|name| data("imported").join(name).with_extension("pprof")).to_vec();
    files.push(without_functions(&files[1], "main\\.(alloc|grow)", &dir.path().join("dropped.pprof")));
    let mut compared = 0;
    for file in files {
        let name = file.display().to_string();
        let pprof = |options: &[&str]| {
            let mut command = Command::new(&go);
            command.env("HOME", dir.path()).env("PPROF_TMPDIR", dir.path()).env("PPROF_BINARY_PATH", dir.path());
            let output = run(command.args(["tool", "pprof", "-symbolize=none"]).args(options).arg(&file));
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        // The types, and a line `VALUE VALUE: LOCATIONS` for each sample.
        let raw = pprof(&["-raw"]);
        let (_, samples) = raw.split_once("Samples:\n").expect("samples");
        let (types, samples) = samples.split_once('\n').expect("types");
        let mut sums = vec![0; types.split_whitespace().count()];
        for line in samples.lines().take_while(|line| *line != "Locations") {
            let values = line.split_once(':').map(|(values, _)| values.split_whitespace().map(str::parse::<u64>));
            let values: Vec<u64> = values.into_iter().flatten().filter_map(Result::ok).collect();
            // Other lines are labels.
            if values.len() == sums.len() && line.split_once(": ").is_some() {
                sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        for (kind, sum) in types.split_whitespace().zip(sums) {
            let (event, unit) = kind.split_once('/').expect("a unit");
            let event = event.split('[').next().unwrap_or_default();
            let unit = unit.split('[').next().unwrap_or_default();
            let ours = ours(&file, event);
            assert_eq!(ours.total, sum, "{name} {event}: {raw}");
            let index = format!("-sample_index={event}");
            let unit = format!("-unit={}", if unit == "nanoseconds" { "ns" } else { unit });
            let top = pprof(&["-top", &format!("-nodecount={FIRST}"), "-nodefraction=0", &index, &unit]);
            let number = |word: &str| {
                let digits = word.trim_end_matches(|c: char| !c.is_ascii_digit());
                digits.parse::<u64>().unwrap_or_else(|_| panic!("{word}: {top}"))
            };
            let rows = top.lines().skip_while(|line| !line.contains("flat%")).skip(1);
            let mut flat = Vec::new();
            for line in rows {
                let words: Vec<&str> = line.split_whitespace().collect();
                let (own, children) = (number(words[0]), number(words[3]));
                let name = words[5..].join(" ").replace(" (inline)", "");
                let row = ours.rows.get(&name).unwrap_or_else(|| panic!("no {name} in {ours:?}"));
                assert_eq!(row.0, own, "{event}: {line}");
                assert!(is_near(row.1, children, ours.total), "{event}: {line}, {} here", row.1);
                flat.push(own);
            }
            let first: Vec<u64> = ours.first(|row| row.0).into_iter().map(|row| row.1).collect();
            assert_eq!(flat[..first.len()], first, "{name} {event}");
            compared += 1;
        }
    }
    assert_eq!(compared, 2 + 4 + 2 + 2 + 4);
}

/// Copies a profile, and leaves out functions by a pattern (`drop_frames`).
fn without_functions(file: &Path, pattern: &str, to: &Path) -> PathBuf {
    let mut bytes = Vec::new();
    let packed = std::fs::read(file).expect("read");
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("unpacked");
    let strings = Profile::decode(bytes.as_slice()).expect("a profile").strings.len();
    let more = Profile { strings: vec![pattern.to_owned()], ..Profile::default() };
    bytes.extend(more.encode_to_vec());
    // Field 7 of the profile.
    prost::encoding::encode_key(7, prost::encoding::WireType::Varint, &mut bytes);
    prost::encoding::encode_varint(strings as u64, &mut bytes);
    std::fs::write(to, bytes).expect("written");
    to.to_owned()
}

/// The figures of folded stacks, whose first frame is the thread.
fn of_folded(text: &str) -> Figures {
    let mut found = Figures::default();
    for line in text.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a count");
        let count: u64 = count.parse().expect("a number");
        let frames: Vec<&str> = stack.split(';').skip(1).collect();
        found.total += count;
        if let Some(leaf) = frames.last() {
            found.rows.entry((*leaf).to_owned()).or_default().0 += count;
        }
        for name in frames.iter().collect::<BTreeSet<_>>() {
            found.rows.entry((*name).to_owned()).or_default().1 += count;
        }
    }
    // Each tool has its own frame for callers that are not known.
    found.rows.retain(|name, _| !["[broken]", "[unknown]", "[truncated]"].contains(&name.as_str()));
    found
}

/// perf's text of a recording, folded by `inferno-collapse-perf`, and our export of the same recording.
#[test]
fn inferno_folds_the_same_stacks() {
    needs!(installed("perf"));
    let root = symfs();
    for name in ["fp-spin.data", "corpus/fp-nofp.data", "corpus/nopie.data", "corpus/pipe.data", "corpus/stripped.data"]
    {
        let mut perf = Command::new("perf");
        perf.args(["script", "--no-inline", "-f", "-i"]).arg(data(name)).arg("--symfs").arg(root.path());
        let text = run(perf.arg("--kallsyms").arg(data("kallsyms"))).stdout;
        let mut folded = Vec::new();
        inferno::collapse::perf::Folder::default().collapse(text.as_slice(), &mut folded).expect("folded");
        let theirs = of_folded(std::str::from_utf8(&folded).expect("UTF-8"));
        let mut export = program();
        export.arg("export").arg(data(name)).args(["--to", "folded", "-o", "-", "--no-bounds", "--no-inline"]);
        export.arg("--symfs").arg(root.path()).arg("--kallsyms").arg(data("kallsyms"));
        let ours = of_folded(std::str::from_utf8(&run(&mut export).stdout).expect("UTF-8"));
        assert!(theirs.total > 0 && theirs.rows.len() > 2, "{name}: {theirs:?}");
        assert_eq!(ours.total, theirs.total, "{name}");
        assert_eq!(ours.first(|row| row.0), theirs.first(|row| row.0), "{name}: self");
    }
}

/// The functions of a flame graph by inferno: the sum of their boxes.
fn boxes(svg: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for part in svg.split("<title>").skip(1) {
        let title = part.split("</title>").next().unwrap_or_default();
        let Some((name, rest)) = title.rsplit_once(" (") else { continue };
        let Some((samples, _)) = rest.split_once(" samples") else { continue };
        let samples: u64 = samples.replace(',', "").parse().expect("a number");
        let name = name.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
        *found.entry(name.replace("&amp;", "&")).or_default() += samples;
    }
    found
}

/// A file of folded stacks, drawn by inferno and read by us.
#[test]
fn inferno_draws_the_same_rows() {
    for name in ["fp-spin", "fp-nofp", "inline", "nopie", "overwrite", "pipe", "all-user"] {
        let file = data(&format!("corpus/{name}.folded"));
        let text = std::fs::read_to_string(&file).expect("read");
        let mut options = inferno::flamegraph::Options::default();
        options.min_width = 0.0;
        let mut svg = Vec::new();
        inferno::flamegraph::from_lines(&mut options, text.lines(), &mut svg).expect("drawn");
        let theirs = boxes(std::str::from_utf8(&svg).expect("UTF-8"));
        let stacks = of_folded(&text);
        let mut command = program();
        let report = run(command.arg("report").arg(&file).args(["-s", "sym", "--format", "json"]));
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let event = report["events"][0]["name"].as_str().expect("an event").to_owned();
        let ours = ours(&file, &event);
        assert_eq!(theirs.get("all"), Some(&ours.total), "{name}");
        // The boxes of recursive functions count samples more than once; a thread may be called like a function.
        let threads: BTreeSet<&str> = text.lines().filter_map(|line| line.split(';').next()).collect();
        let is_once = |function: &str| {
            let twice = |line: &str| {
                line.rsplit_once(' ').map_or(line, |(stack, _)| stack).split(';').filter(|one| *one == function).count()
                    > 1
            };
            !threads.contains(function) && !text.lines().any(twice)
        };
        let mut compared = 0;
        for (function, children) in ours.first(|row| row.1).into_iter().filter(|row| is_once(row.0)) {
            let Some(samples) = theirs.get(function) else {
                assert!(!stacks.rows.contains_key(function), "{name}: no box of {function}: {theirs:?}");
                continue;
            };
            assert!(is_near(*samples, children, ours.total), "{name}: {function}: {samples}, {children} here");
            compared += 1;
        }
        assert!(compared > 2, "{name}: {theirs:?}");
    }
}

/// A recording of each format: its path and its first event with samples.
fn formats(dir: &Path) -> Vec<(&'static str, PathBuf, String)> {
    let export = |from: &str, event: &str, to: &str, name: &str| {
        let path = dir.join(name);
        let mut command = program();
        command.arg("export").arg(data(from)).args(["--event", event, "--to", to, "-o"]).arg(&path);
        run(&mut command);
        path
    };
    let main_event = |file: &Path| {
        let mut command = program();
        let report = run(command.arg("report").arg(file).args(["--format", "json"]));
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let events = report["events"].as_array().expect("events");
        let has_samples = events.iter().find(|event| event["samples"].as_u64() > Some(0)).expect("samples");
        has_samples["name"].as_str().expect("a name").to_owned()
    };
    let spin = main_event(&data("fp-spin.data"));
    let collapsed = dir.join("java.collapsed");
    std::fs::write(&collapsed, "java/lang/Thread.run;Work.run_[j];Work.math_[i] 7\nThreadPark_[k] 2\n")
        .expect("written");
    let list = [
        ("perf.data", data("fp-spin.data")),
        ("a stream of perf", data("corpus/pipe.data")),
        ("perf script", data("corpus/pipe.script.txt")),
        ("folded stacks", data("corpus/fp-spin.folded")),
        ("collapsed stacks", collapsed),
        ("pprof", data("imported/go-cpu.pprof")),
        ("pprof of a heap", data("imported/go-heap.pprof")),
        (".cpuprofile", data("imported/node.cpuprofile")),
        (".heapprofile", data("imported/node.heapprofile")),
        ("JFR", data("imported/load.jfr.gz")),
        ("Firefox", export("fp-spin.data", &spin, "firefox", "firefox.json")),
        ("speedscope", export("fp-spin.data", &spin, "speedscope", "speedscope.json")),
    ];
    list.into_iter().map(|(name, path)| (name, path.clone(), main_event(&path))).collect()
}

/// The samples of an event that pass a filter.
fn samples_of(file: &Path, event: &str, filter: &str) -> u64 {
    let mut command = program();
    command.arg("report").arg(file).args(["--event", event, "--format", "json", "--where", filter]);
    let report: serde_json::Value = serde_json::from_slice(&run(&mut command).stdout).expect("JSON");
    let rows = report["events"][0]["rows"].as_array().expect("rows").iter();
    rows.map(|row| row["samples"].as_u64().expect("samples")).sum()
}

/// The weight of folded stacks.
fn weight(text: &[u8]) -> u64 {
    let text = std::str::from_utf8(text).expect("UTF-8");
    text.lines().filter_map(|line| line.rsplit_once(' ')).map(|(_, count)| count.parse::<u64>().expect("a count")).sum()
}

/// Recordings of different formats are compared with the figures that each has alone: each format with itself and with
/// the next one, because readers do not know of each other. Filters apply to both sides, and a difference is exported as
/// stacks.
#[test]
fn any_two_formats_are_compared() {
    let dir = tempfile::tempdir().expect("dir");
    let formats = formats(dir.path());
    let alone: Vec<u64> = formats.iter().map(|(_, path, event)| samples_of(path, event, "!kernel")).collect();
    for (i, ((old_format, old, _), old_samples)) in formats.iter().zip(&alone).enumerate() {
        for ((new_format, new, _), new_samples) in formats.iter().zip(&alone).cycle().skip(i).take(2) {
            let pair = format!("{old_format} to {new_format}");
            let diff = |more: &[&str]| {
                let mut command = program();
                run(command.arg("diff").arg(old).arg(new).args(more)).stdout
            };
            let json = diff(&["-s", "sym", "--format", "json", "--where", "!kernel"]);
            let report: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
            let samples = ["old", "new"].map(|side| report[side]["samples"].as_u64());
            assert_eq!(samples, [Some(*old_samples), Some(*new_samples)], "{pair}");
            let differs = report["rows"].as_array().is_some_and(|rows| !rows.is_empty());
            assert_eq!(differs, old_format != new_format, "{pair}");
            // Stacks of both, which flame graphs of differences show.
            if old_format == new_format {
                let folded = diff(&["--format", "folded"]);
                let is_equal = |line: &str| line.rsplitn(3, ' ').take(2).collect::<BTreeSet<_>>().len() == 1;
                assert!(
                    std::str::from_utf8(&folded).is_ok_and(|text| !text.is_empty() && text.lines().all(is_equal)),
                    "{pair}"
                );
            }
        }
    }
}

/// Each format is exported to two of the formats that are read again, with a filter, and has the filtered figures there.
#[test]
fn any_format_becomes_any_other() {
    let dir = tempfile::tempdir().expect("dir");
    for (i, (format, path, event)) in formats(dir.path()).into_iter().enumerate() {
        let folded = |file: &Path, more: &[&str]| {
            let mut command = program();
            weight(&run(command.arg("export").arg(file).args(["--to", "folded", "-o", "-"]).args(more)).stdout)
        };
        // All but the function with the most samples.
        let top = ours(&path, &event).first(|row| row.0)[0].0.to_owned();
        let filter = format!("sym != \"{top}\"");
        let whole = folded(&path, &["--event", &event, "--where", &filter]);
        assert!(whole > 0 && whole < folded(&path, &["--event", &event]), "{format}: {filter}");
        let samples = samples_of(&path, &event, &filter);
        for to in ["folded", "pprof", "speedscope", "firefox"].into_iter().cycle().skip(i).take(2) {
            let out = dir.path().join(format!("out.{to}"));
            let mut command = program();
            command.arg("export").arg(&path).args(["--event", &event, "--to", to, "-o"]).arg(&out);
            command.args(["--where", &filter]);
            run(&mut command);
            // A profile may have samples and their weights as two events.
            let events = run(program().arg("report").arg(&out).args(["--format", "json"])).stdout;
            let events: serde_json::Value = serde_json::from_slice(&events).expect("JSON");
            let names: Vec<&str> = events["events"]
                .as_array()
                .expect("events")
                .iter()
                .filter_map(|event| event["name"].as_str())
                .collect();
            let weights: Vec<u64> = names.iter().map(|name| folded(&out, &["--event", name])).collect();
            // Firefox's format has the number of samples, or bytes.
            let is_number = to == "firefox" && weights == [samples];
            assert!(
                weights.contains(&whole) || is_number,
                "{format} to {to}: {whole} is not in {weights:?} of {names:?}"
            );
        }
    }
}
