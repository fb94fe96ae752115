//! Pages: their sections, their limits, and the range of chance.

use super::*;
use crate::machine::triage::Look;

fn digest() -> Digest {
    let process = |pid, comm: &str, share| DigestProcess {
        comm: comm.to_owned(),
        pid,
        threads: 2,
        share,
        cpus: Some(share / 50.0),
        kernel: 10.0,
        function: "deflate (libz.so)".to_owned(),
        function_share: 50.0,
    };
    let path = |functions: &[&str]| DigestPath {
        comm: "nginx".to_owned(),
        share: 31.0,
        functions: functions.iter().map(|name| (*name).to_owned()).collect(),
    };
    Digest {
        machine: "web-1, 6.1.0, x86_64, 2 CPUs".to_owned(),
        event: "cpu-clock".to_owned(),
        seconds: 10.0,
        samples: 10_000,
        counts_stacks: false,
        lost: 3,
        busy: Some(1.5),
        cpus: 2,
        findings: vec![MachineFinding::staged("CPU 1 softirq 43 %", Look::Cpus(Some(1)))],
        start: 0,
        processes: vec![process(7, "nginx", 50.0), process(8, "redis", 25.0)],
        paths: vec![path(&["main", "serve", "deflate"])],
        by_cpu: vec![DigestCpu { cpu: 1, busy: 99.0, soft: 43.0, vector: Some("NET_RX") }],
        unnamed: vec![DigestUnnamed {
            dso: "[JIT]".to_owned(),
            share: 5.0,
            remedy: "jcmd 7".to_owned(),
            remedy_has_dso: false,
        }],
        notes: vec!["3 records are damaged".to_owned()],
        again: Again { file: Some("x.data".to_owned()), options: " --pid=7".to_owned() },
    }
}

#[test]
fn a_page_has_every_section_and_the_command_that_shows_more() {
    insta::assert_snapshot!(digest().text(60), @r#"
    web-1, 6.1.0, x86_64, 2 CPUs: 10,000 samples of cpu-clock in 10.0 s, 3 lost
    ± is the range of chance of a share (95 %)

    Findings
      ! cpu: CPU 1 softirq 43 %: perfprof-tui -C 1

    Processes: 1.50 of 2 CPUs busy
       50.0 % ±1.0   1.00 CPU  nginx 7 (2 threads), kernel 10 %: deflate (libz.so) 50 %
       25.0 % ±0.8   0.50 CPU  redis 8 (2 threads), kernel 10 %: deflate (libz.so) 50 %
      more: perfprof-tui report x.data --pid=7 -s pid,comm,sym

    Heaviest paths, callers first
       31.0 % ±0.9   nginx: main > serve > deflate
      more: perfprof-tui report x.data --pid=7 -g caller

    CPUs with the most work
      CPU 1: busy 99 %, softirqs and interrupts 43 %, mostly NET_RX
      more: perfprof-tui report x.data --pid=7 -s cpu,sym

    Code without names
      5.0 % [JIT]: jcmd 7

    Notes
      3 records are damaged
    "#);
}

/// The name of a function of C++ or Rust may be longer than a line.
#[test]
fn a_long_finding_keeps_the_command_that_shows_more() {
    let name = "llvm::DenseMapBase<llvm::DenseMap<llvm::DILocation*, llvm::detail::DenseSetEmpty> >, ".repeat(6);
    let look = Look::Unit("rundelay".to_owned());
    let page = Digest { findings: vec![MachineFinding::staged(&name, look)], ..digest() }.text(60);
    let lines: Vec<&str> = page.lines().skip_while(|line| *line != "Findings").skip(1).take(3).collect();
    assert!(lines[0].starts_with("  ! cpu: llvm::"), "{page}");
    assert_eq!(lines[2], "      perfprof-tui rundelay", "{page}");
}

#[test]
fn pages_of_hostile_names_are_bounded_and_printable() {
    let mut wide = digest();
    let name = "\u{1b}[31m語\n\u{7}".repeat(4000);
    wide.machine.clone_from(&name);
    wide.event.clone_from(&name);
    let hostile = |one: &DigestProcess| DigestProcess { comm: name.clone(), function: name.clone(), ..one.clone() };
    wide.processes = wide.processes.iter().map(hostile).cycle().take(1000).collect();
    wide.paths = vec![DigestPath { comm: name.clone(), share: 1.0, functions: vec![name.clone(); 127] }; 1000];
    let unnamed = DigestUnnamed { dso: name.clone(), share: 1.0, remedy: name.clone(), remedy_has_dso: true };
    wide.unnamed = vec![unnamed; 1000];
    wide.findings = vec![MachineFinding::staged(&name, Look::Unit(name.clone())); 1000];
    wide.notes = vec![name; 1000];
    for lines in [1, 10, 60, 1000] {
        let text = wide.text(lines);
        assert!(text.len() <= MOST_BYTES && text.lines().count() <= lines, "{} bytes in {lines}", text.len());
        assert_eq!(text.chars().find(|c| c.is_control() && *c != '\n'), None);
    }
    assert!(wide.json().to_string().len() <= MOST_BYTES);
    assert!(wide.json()["processes"].as_array().is_some_and(|list| !list.is_empty()));
}

#[test]
fn long_paths_have_their_ends() {
    let names: Vec<String> = (0..100).map(|n| format!("function_{n}")).collect();
    let path = DigestPath { comm: "a".to_owned(), share: 10.0, functions: names };
    let line = path.line(Some(100));
    assert!(line.contains("a: function_0 > … > ") && line.ends_with(" > function_99"), "{line}");
    assert!(width(&line) <= WIDTH, "{line}");
}

/// 1.96·√(0.5·0.5/100) = 0.098
#[test]
fn the_range_of_chance_is_that_of_a_binomial_share() {
    assert!((margin(50.0, 100) - 9.8).abs() < 1e-9);
    assert_eq!((margin(0.0, 100), margin(100.0, 100)), (0.0, 0.0));
}

/// Sums of a heap profile or of folded stacks stand for an unknown number of samples.
#[test]
fn sums_have_no_range_of_chance() {
    let page = Digest { counts_stacks: true, seconds: 0.0, ..digest() };
    let text = page.text(60);
    assert!(text.contains("the number of samples is unknown") && !text.contains('±'), "{text}");
    assert!(text.contains(": 10,000 stacks of cpu-clock, 3 lost\n"), "{text}");
    assert!(page.json()["processes"][0]["pct_margin"].is_null());
}
