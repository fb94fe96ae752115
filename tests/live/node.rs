//! Functions of JavaScript programs, whose true call chains are known.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{allowed, installed, program, run, skipped};

/// Below `outer`, a function of the engine calls back. A program ends after some seconds of CPU time, so that the number of
/// samples does not depend on the load. The mode `made` compiles functions that are called a few times and dropped,
/// while the heap is collected.
const CHAIN: &str = r#"
'use strict';
const cpu = () => { const used = process.cpuUsage(); return used.user + used.system; };
let sink = 0;
function spin(rounds) { let x = sink; for (let i = 0; i < rounds; i++) x = (x * 31 + i) % 1000003; sink = x; }
function leaf(a, b) { spin(100000); return a - b; }
class Shop { middle() { [5, 2, 8, 1, 9].sort(leaf); } }
const shop = new Shop();
function outer() { shop.middle(); }
const closures = [() => {}, function () {
  spin(100000);
}];
function closure() { closures[1](); }
function made() {
  const i = Math.floor(Math.random() * 100);
  const text = `function inner_${i}() { spin(100000); return new Array(2000).fill(0); }
    return function outer_${i}() { return inner_${i}(); }`;
  const own = new Function('spin', text)(spin);
  for (let k = 0; k < 3; k++) own();
}
function twice() {
  spin(70000);
  spin(30000);
}
class Box { constructor() { spin(100000); } }
function built() { new Box(); }
const mode = { outer, closure, made, twice, built }[process.argv[2]];
function main() { while (cpu() < process.argv[3] * 1e6) mode(); }
main();
"#;

struct Stage {
    dir: tempfile::TempDir,
}

fn stage() -> Option<Stage> {
    if !cfg!(target_arch = "x86_64") || !allowed() || !installed("perf") {
        return None;
    }
    if !installed("node") {
        skipped("needs Node");
        return None;
    }
    let version = run(Command::new("node").args(["-p", "process.versions.v8"])).stdout;
    let version = String::from_utf8_lossy(&version);
    if !["9.4.", "10.2.", "11.", "12.", "13."].iter().any(|known| version.starts_with(known)) {
        skipped("this version of Node is not known");
        return None;
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("chain.js"), CHAIN).expect("written");
    Some(Stage { dir })
}

impl Stage {
    fn record(&self, mode: &str, seconds: &str, options: &[&str], node: &[&str]) -> PathBuf {
        let file = self.dir.path().join(format!("{mode}.data"));
        let mut record = program();
        record.args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-o"]).arg(&file).args(options).arg("--");
        run(self
            .at_home(&mut record)
            .arg("node")
            .args(node)
            .arg(self.dir.path().join("chain.js"))
            .args([mode, seconds]));
        file
    }

    /// Records, for longer if the program was read too late; returns the later half of the samples.
    fn recorded(&self, mode: &str, node: &[&str]) -> (PathBuf, Vec<Vec<String>>) {
        let record = |seconds| {
            let file = self.record(mode, seconds, &[], node);
            let later = self.later(program(), &file);
            (file, later)
        };
        for seconds in ["2.5", "10"] {
            let (file, later) = record(seconds);
            if later.len() > 100 {
                return (file, later);
            }
            eprintln!("{mode}: only {} stacks with names in {seconds} s; recorded again", later.len());
        }
        record("40")
    }

    /// Files for perf go to the home directory.
    fn at_home<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("HOME", self.dir.path())
    }

    /// The functions of JavaScript in the later half of the samples of `spin`, innermost first.
    fn later(&self, mut script: Command, file: &Path) -> Vec<Vec<String>> {
        let text = run(self.at_home(&mut script).args(["script", "--max-stack", "1024", "-i"]).arg(file)).stdout;
        let text = String::from_utf8_lossy(&text).into_owned();
        let name = |line: &str| {
            let symbol = line.strip_suffix(" ([js])")?.trim_start().split_once(' ')?.1;
            Some(symbol.rsplit_once("+0x").map_or(symbol, |(symbol, _)| symbol).to_owned())
        };
        let stacks = text.split("\n\n").map(|block| block.lines().filter_map(name).collect::<Vec<_>>());
        let mut all: Vec<_> =
            stacks.filter(|stack| stack.first().is_some_and(|leaf| leaf.starts_with("spin "))).collect();
        all.split_off(all.len() / 2)
    }
}

fn share<T>(all: &[T], is_it: impl Fn(&T) -> bool) -> f64 {
    all.iter().filter(|one| is_it(one)).count() as f64 / all.len() as f64
}

#[test]
fn functions_of_node_are_whole_and_perf_has_the_same_names() {
    let Some(stage) = stage() else { return };
    // Interpreted only, and by all compilers.
    for node in [&[][..], &["--no-opt", "--no-sparkplug"]] {
        let (file, later) = stage.recorded("outer", node);
        let chain = ["spin", "leaf", "middle", "outer", "main"].map(|name| format!("{name} (chain.js)"));
        let exact = share(&later, |stack| stack.starts_with(&chain));
        assert!(later.len() > 30 && exact > 0.9, "{node:?}: {exact} of {}", later.len());
        assert_eq!(stage.later(Command::new("perf"), &file), later);
    }
    let without = stage.record("outer", "2.5", &["--interp", "off"], &[]);
    assert_eq!(stage.later(program(), &without), Vec::<Vec<String>>::new());
}

#[test]
fn functions_without_names_have_their_line() {
    let Some(stage) = stage() else { return };
    let (_, later) = stage.recorded("closure", &[]);
    let chain = ["spin (chain.js)", "<anonymous> (chain.js:10)", "closure (chain.js)", "main (chain.js)"];
    let exact = share(&later, |stack| stack.iter().zip(chain).all(|(own, name)| own == name));
    assert!(later.len() > 30 && exact > 0.9, "{exact} of {}", later.len());
}

#[test]
fn constructors_of_classes_are_frames() {
    let Some(stage) = stage() else { return };
    let (_, later) = stage.recorded("built", &[]);
    let chain = ["spin", "Box", "built", "main"].map(|name| format!("{name} (chain.js)"));
    let exact = share(&later, |stack| stack.starts_with(&chain));
    assert!(later.len() > 30 && exact > 0.9, "{exact} of {}", later.len());
}

/// Two lines of a function burn 70 and 30 percent of its time.
#[test]
fn functions_that_are_optimized_have_lines() {
    const FIRST: u64 = 22;
    const SECOND: u64 = 23;
    let Some(stage) = stage() else { return };
    let file = stage.record("twice", "5", &[], &[]);
    let mut script = program();
    script.args(["script", "--max-stack", "1024", "-F", "comm,ip,sym,srcline", "-i"]).arg(&file);
    let text = String::from_utf8_lossy(&run(stage.at_home(&mut script)).stdout).into_owned();
    let line = |block: &str| {
        let mut lines = block.lines().skip_while(|frame| !frame.ends_with("twice (chain.js)")).skip(1);
        lines.next()?.trim().rsplit_once("chain.js:")?.1.parse::<u64>().ok()
    };
    let mut found: Vec<u64> = text.split("\n\n").filter_map(line).collect();
    // Its frames have lines once it is optimized.
    let found = found.split_off(found.len() / 2);
    let of = |wanted: u64| found.iter().filter(|line| **line == wanted).count();
    let (first, second) = (of(FIRST), of(SECOND));
    assert!(found.len() > 100 && (first + second) * 10 > found.len() * 9, "{first} {second} {}", found.len());
    assert!((60..=80).contains(&(100 * first / (first + second))), "{first} {second}");
    let mut annotate = program();
    annotate.args(["annotate"]).arg(&file).arg("spin (chain.js)");
    let text = String::from_utf8_lossy(&run(stage.at_home(&mut annotate)).stdout).into_owned();
    assert!(text.contains("function spin(rounds)"), "the text of the script: {text}");
}

#[test]
fn functions_that_are_dropped_have_no_wrong_names() {
    let Some(stage) = stage() else { return };
    let (_, later) = stage.recorded("made", &["--max-semi-space-size=1"]);
    let of = |stack: &[String], kind: &str| {
        stack.iter().find_map(|symbol| symbol.strip_prefix(kind)?.split(' ').next().map(str::to_owned))
    };
    let pairs: Vec<_> = later.iter().filter_map(|stack| of(stack, "inner_").zip(of(stack, "outer_"))).collect();
    assert!(pairs.len() > 30, "{} of {}", pairs.len(), later.len());
    assert_eq!(pairs.iter().find(|(inner, outer)| inner != outer), None);
}
