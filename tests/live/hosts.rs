//! Recordings of several machines opened together: samples are counted per machine, share one clock, and can be
//! separated again.

use std::path::{Path, PathBuf};

use crate::common::session::{Session, Work, instead_of_ssh};
use crate::common::{self, allowed, data, program};
use perfprof_tui::engine::{IntakeOptions, offline};
use perfprof_tui::export::perfdata;
use perfprof_tui::source::recording;
use perfprof_tui::symbols::SymbolOptions;

/// Five seconds.
const AHEAD: u64 = 5_000_000_000;

/// A copy of the recording of machine `vm` as one of `other`, whose wall clock is ahead.
fn elsewhere(file: &Path, other: &str, dir: &Path) -> PathBuf {
    let mut bytes = std::fs::read(file).expect("read");
    let name = [&64u32.to_le_bytes()[..], b"vm\0"].concat();
    let at = memchr::memmem::rfind(&bytes, &name).expect("a name");
    bytes[at + 4..at + 4 + other.len()].copy_from_slice(other.as_bytes());
    let copy = dir.join(format!("{other}.data"));
    std::fs::write(&copy, bytes).expect("written");
    copy
}

/// The same with the wall clock [`AHEAD`] at the same monotonic time.
fn ahead(file: &Path, dir: &Path) -> PathBuf {
    let copy = elsewhere(file, "xy", dir);
    let mut bytes = std::fs::read(&copy).expect("read");
    let clock = [&1u32.to_le_bytes()[..], &1u32.to_le_bytes()].concat();
    let at = memchr::memmem::rfind(&bytes, &clock).expect("a clock") + 8;
    let wall = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8")) + AHEAD;
    bytes[at..at + 8].copy_from_slice(&wall.to_le_bytes());
    std::fs::write(&copy, bytes).expect("written");
    copy
}

fn load(files: &[PathBuf]) -> offline::Offline {
    let mut source = recording::open(files).expect("opens");
    let symbols = SymbolOptions { live: false, kallsyms: None, ..SymbolOptions::live() };
    offline::load(&mut *source, symbols, IntakeOptions::default()).expect("loads")
}

/// Sort keys and samples of the report's rows, in order.
fn rows(files: &[&Path], options: &[&str], keys: &[&str]) -> Vec<(Vec<String>, u64)> {
    let output = program().arg("report").args(files).args(["--format", "json"]).args(options).output().expect("ran");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("json");
    assert_eq!(report["events"].as_array().expect("events").len(), 1, "equal events are one");
    let row = |row: &serde_json::Value| {
        (keys.iter().map(|key| row[*key].to_string()).collect(), row["samples"].as_u64().expect("samples"))
    };
    let mut list: Vec<_> = report["events"][0]["rows"].as_array().expect("rows").iter().map(row).collect();
    list.sort();
    list
}

#[test]
fn each_machine_counts_for_itself_and_all_together() {
    let dir = tempfile::tempdir().expect("dir");
    let one = data("forker-g.data");
    let other = elsewhere(&one, "xy", dir.path());
    let alone = rows(&[&one], &["--sort", "comm,pid,dso,sym"], &["comm", "pid", "dso", "sym"]);
    assert!(alone.len() > 30);
    // Both have the same processes; only the machine differs.
    let both = rows(&[&one, &other], &["--sort", "comm,pid,dso,sym"], &["comm", "pid", "dso", "sym"]);
    let doubled: Vec<_> = alone.iter().map(|(keys, n)| (keys.clone(), 2 * n)).collect();
    assert_eq!(both, doubled);
    let keys = ["host", "comm", "pid", "dso", "sym"];
    let apart = rows(&[&one, &other], &["--sort", "host,comm,pid,dso,sym"], &keys);
    for host in ["vm", "xy"] {
        let of: Vec<_> =
            alone.iter().map(|(keys, n)| ([&[format!("\"{host}\"")][..], &keys[..]].concat(), *n)).collect();
        let found: Vec<_> = apart.iter().filter(|row| row.0[0] == of[0].0[0]).cloned().collect();
        assert_eq!(found, of);
        let clause = format!("host == {host}");
        assert_eq!(rows(&[&one, &other], &["--sort", "host,comm,pid,dso,sym", "--where", &clause], &keys), of);
    }
}

#[test]
fn clocks_are_made_one() {
    let dir = tempfile::tempdir().expect("dir");
    let one = data("switches.data");
    let other = ahead(&one, dir.path());
    let span = |files: &[PathBuf]| load(files).ingest.core().profile.span().expect("samples");
    let (alone, both) = (span(std::slice::from_ref(&one)), span(&[one.clone(), other.clone()]));
    assert_eq!(both, (alone.0, alone.1 + AHEAD));
    // As seen by the other machine's clock.
    assert_eq!(span(&[other.clone(), one.clone()]), (alone.0 - AHEAD, alone.1));
    // Off-CPU time belongs to the threads of each machine.
    let off = |files: &[PathBuf]| {
        let loaded = load(files);
        let at = loaded.event_names.iter().position(|name| name == "off-cpu").expect("off-cpu");
        let data = loaded.data();
        let mut fold = perfprof_tui::query::Aggregate::new(at, None);
        fold.update(data, 0..u64::MAX);
        fold.total()
    };
    let (one_off, both_off) = (off(std::slice::from_ref(&one)), off(&[one, other]));
    assert!(one_off.samples > 100);
    assert_eq!((2 * one_off.samples, 2 * one_off.period), (both_off.samples, both_off.period));
}

#[test]
fn machines_without_comparable_clocks_begin_together() {
    let files = [data("fp-spin.data"), data("ipvs-cpu32.data")];
    let loaded = load(&files);
    insta::assert_snapshot!("notes-of-clocks", loaded.notes.first().expect("a note"));
    let span = |i: usize| load(&files[i..=i]).ingest.core().profile.span().expect("samples");
    let (a, b, both) = (span(0), span(1), loaded.ingest.core().profile.span().expect("samples"));
    let longest = (a.1 - a.0).max(b.1 - b.0);
    let together = both.1 - both.0;
    assert!(together >= longest && together < longest + 1_000_000_000, "{together} {longest}");
    assert_eq!(
        loaded.ingest.core().session.hosts().iter().map(|(_, host)| &*host.name).collect::<Vec<_>>(),
        ["vm", "ipvs-lab"]
    );
}

#[test]
fn a_snapshot_of_each_is_what_was_recorded_there() {
    let dir = tempfile::tempdir().expect("dir");
    let one = data("forker-g.data");
    let other = elsewhere(&one, "xy", dir.path());
    let moment = load(&[one.clone(), other.clone()]).ingest.core().moment();
    let text = |file: &Path| {
        let output = program().arg("script").arg(file).args(["-F", "comm,pid,tid,ip,sym,dso"]).output().expect("ran");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    // A snapshot keeps no addresses without code; it marks such stacks as broken.
    let whole = text(&one);
    let stacks = whole.split("\n\n").map(|stack| match stack.split_once(" [unknown] ([unknown])") {
        Some((before, _)) => {
            let (before, _) = before.rsplit_once('\n').unwrap_or_default();
            format!("{before}\n\t{:16x} [unknown] ([unknown])", 0)
        }
        None => stack.to_owned(),
    });
    let before = stacks.collect::<Vec<_>>().join("\n\n");
    assert_ne!(before, whole);
    for (i, (host, _)) in moment.hosts.iter().enumerate() {
        let saved = dir.path().join(format!("saved-{i}.data"));
        let written = perfdata::save(&moment, host, &saved, &[], None).expect("saved");
        assert_eq!(2 * written.samples, moment.len());
        assert_eq!(text(&saved), before);
    }
    // The recordings opened together again have the machines' names.
    let again = load(&[dir.path().join("saved-0.data"), dir.path().join("saved-1.data")]);
    assert_eq!(
        again.ingest.core().session.hosts().iter().map(|(_, host)| &*host.name).collect::<Vec<_>>(),
        ["vm", "xy"]
    );
}

#[test]
fn what_one_machine_lost_no_other_has() {
    let dir = tempfile::tempdir().expect("dir");
    let files = [data("corpus/synth-throttle.data"), data("ipvs-cpu32.data")];
    let moment = load(&files).ingest.core().moment();
    assert_eq!(moment.hosts.iter().len(), 2);
    let lost = |file: &Path| load(&[file.to_owned()]).ingest.core().profile.ledger.lost();
    let saved: Vec<u64> = moment
        .hosts
        .iter()
        .map(|(host, own)| {
            let saved = dir.path().join(format!("saved-{}.data", own.name));
            perfdata::save(&moment, host, &saved, &[], None).expect("saved");
            lost(&saved)
        })
        .collect();
    assert_eq!(saved, [lost(&files[0]), lost(&files[1])]);
    assert!(saved[0] > 0 && saved[1] == 0, "{saved:?}");
}

#[test]
fn what_cannot_be_done_with_several_is_said() {
    let files = [data("fp-spin.data"), data("ipvs-cpu32.data")];
    let said = |args: &[&str]| {
        let output = program().args(args).args(&files).output().expect("ran");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let copy = tempfile::tempdir().expect("dir");
    let path = copy.path().join("x.data").to_string_lossy().into_owned();
    let text = said(&["export", "--to", "perfdata", "-o", &path]);
    insta::assert_snapshot!("not-in-one-file", text.replace(&*copy.path().to_string_lossy(), "DIR"));
}

#[test]
fn two_machines_on_the_screen() {
    let dir = tempfile::tempdir().expect("dir");
    let one = data("forker-g.data");
    let other = elsewhere(&one, "xy", dir.path());
    let (one, other) = (one.to_string_lossy().into_owned(), other.to_string_lossy().into_owned());
    let mut session = Session::start(&["open", "--together", &one, &other], 30, 120);
    session
        .wait_for("■ file")
        .wait_for(" vm xy ")
        .wait_for("906 samples")
        .wait_for("Host  ")
        .wait_for("clocks cannot be compared")
        .wait_for("vm           ▸");
    session.keys("@").wait_for("› host vm");
    session.keys("\x7f:filter host == xy\r").wait_for("host == xy");
    session.keys("\x7f");
    let saved = dir.path().join("both.data");
    session.keys(&format!(":save {}\r", saved.display())).wait_for("saved 906 samples");
    assert!(dir.path().join("both-vm.data").exists() && dir.path().join("both-xy.data").exists());
    session.keys("6").wait_for("[6 Units]");
    session.keys(":unit rundelay\r").wait_for("units support only one machine");
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}

/// A replacement for ssh that runs the commands locally.
///
/// The link to one machine hangs after its first bytes, another machine is unreachable.
const SSH: &str = r#"#!/bin/sh
for line; do host=$before before=$line; done
case $host in
  node-9) echo 'ssh: connect to host node-9: No route to host' >&2; exit 255;;
  node-8) sh -c "$line" | { head -c 200000; sleep 20; };;
  *) exec sh -c "$line";;
esac
"#;

fn over_the_wire(dir: &Path, hosts: &[&str]) -> Session {
    let env = instead_of_ssh(dir, SSH);
    let args = [&["open"], hosts, &["--", "-F", "499", "-e", "cpu-clock", "--call-graph", "fp"]].concat();
    Session::start_in(&args, 30, 130, &env.each_ref().map(|(name, value)| (*name, value.as_str())))
}

#[test]
fn two_machines_over_the_wire() {
    needs!(allowed());
    let _work = Work::start();
    let dir = tempfile::tempdir().expect("dir");
    // Two tunnels lead to localhost, possibly to two machines.
    let hosts = ["ssh://root@node-7", "ssh://localhost:2201", "ssh://localhost:2202"];
    let mut session = over_the_wire(dir.path(), &hosts);
    session.wait_for(" node-7 localhost:2201 localhost:2202 ").wait_for("● live").wait_for("cpu-clock 499 Hz");
    session.keys(":sort host,dso,sym\r:filter comm == dd\r").wait_for("comm == dd");
    session.wait_for("node-7  ").wait_for("local…t:2202 ").wait_for(" [kernel.kallsyms] ");
    assert!(!session.text().contains("cannot be compared"), "{}", session.text());
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}

/// The other machines continue.
#[test]
fn a_machine_that_hangs_or_cannot_be_reached() {
    needs!(allowed());
    let dir = tempfile::tempdir().expect("dir");
    let mut session = over_the_wire(dir.path(), &["ssh://node-7", "ssh://node-8", "ssh://node-9"]);
    session.wait_for(" node-7 node-8 ").wait_for("no recording comes from node-9");
    session.keys("l").wait_for("node-9: ssh: connect to host node-9: No route to host");
    session.keys("\r:filter host == node-7\r").wait_for("host == node-7");
    // Two CPUs produce two thousand samples in these seconds; the first bytes contain no samples.
    let start = std::time::Instant::now();
    let samples = |session: &Session| -> u64 {
        let text = session.text();
        let header = text.lines().next().unwrap_or_default().to_owned();
        let words: Vec<&str> = header.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "samples").unwrap_or(1);
        words[at - 1].replace(',', "").parse().unwrap_or(0)
    };
    let first = samples(&session);
    while samples(&session) < first + 2_000 {
        assert!(start.elapsed() < common::session::PATIENCE, "it stands still:\n{}", session.text());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    session.keys("q");
    assert!(session.end().success() && session.is_restored());
}
