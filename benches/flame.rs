//! Flame graphs compared with other tools, as ratios in the same run: `cargo bench --bench flame`.
//!
//! 1,000,000 distinct stacks of ten comms (about 1.9 million nodes) as folded text: parsed, built and laid out here;
//! drawn by inferno; opened by `flamelens` in a terminal, if it is installed.

use std::io::{Cursor, Read, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use perfprof_tui::engine::{IntakeOptions, offline};
use perfprof_tui::query::Aggregate;
use perfprof_tui::query::diff::{DiffSide, NormalizeBy};
use perfprof_tui::query::flame::layout::{FlameDirection, FlameSpec, layout};
use perfprof_tui::query::flame::{FlameStacks, FlameTree};
use perfprof_tui::source::text::{TextFormat, TextSource};
use perfprof_tui::symbols::SymbolOptions;

const STACKS: usize = 1_000_000;
const NAMES: u64 = 20_000;
const COMMS: u64 = 10;

fn main() {
    let text = folded();
    let file = tempfile::NamedTempFile::new().expect("file");
    file.as_file().write_all(text.as_bytes()).expect("written");
    println!("{STACKS} stacks, {} MB of folded text", text.len() >> 20);
    let bare = time(|| {
        std::hint::black_box(memchr::memchr_iter(b';', text.as_bytes()).count());
    });
    println!("counting semicolons: {bare:.1?}");

    let start = Instant::now();
    let mut source =
        TextSource::new("b".into(), TextFormat::Folded, Box::new(Cursor::new(text.clone().into_bytes())), 0);
    let wants = IntakeOptions { fields: false, ..IntakeOptions::default() };
    let loaded = offline::load(&mut source, SymbolOptions::live(), wants).expect("loads");
    let (data, mut fold) = (loaded.data(), Aggregate::new(0, None));
    fold.update(data, 0..u64::MAX);
    let read = start.elapsed();
    let start = Instant::now();
    let tree = FlameTree::build(data, &fold, None, &[]);
    let built = start.elapsed();
    println!("read in {read:.1?}, tree of {} nodes in {built:.1?}", tree.len());
    let spec = |way| FlameSpec {
        way,
        zoom: Vec::new(),
        edits: Vec::new(),
        width: 200,
        height: 60,
        by_weight: true,
        find: None,
        frames_per_row: 1,
    };
    for way in [FlameDirection::Roots, FlameDirection::Leaves] {
        let took = time(|| drop(std::hint::black_box(layout(&tree, &spec(way.clone())))));
        println!("layout at 200x60, {way:?}: {took:.2?}");
    }
    let side = FlameStacks {
        data,
        aggregate: &fold,
        side: DiffSide { total: fold.total(), seconds: 1.0, ..DiffSide::default() },
    };
    let took = time(|| drop(std::hint::black_box(FlameTree::compare(side, side, NormalizeBy::Total, &[]))));
    println!("a tree of two such profiles: {took:.1?}, {:.1} of one", took.as_secs_f64() / built.as_secs_f64());

    let start = Instant::now();
    let mut svg = Vec::new();
    let mut options = inferno::flamegraph::Options::default();
    inferno::flamegraph::from_lines(&mut options, text.lines(), &mut svg).expect("inferno");
    let inferno = start.elapsed();
    let ours = read + built;
    println!("inferno {inferno:.1?}: {:.1} times ours", inferno.as_secs_f64() / ours.as_secs_f64());
    match terminal("flamelens", &[file.path().as_os_str()]) {
        Some((cpu, rss)) => println!("flamelens: {cpu:.2} CPU-seconds, {rss} MB"),
        None => println!("flamelens is not installed (cargo install flamelens)"),
    }
    let own = env!("CARGO_BIN_EXE_perfprof-tui");
    let arguments = ["open".as_ref(), file.path().as_os_str(), "--exec".as_ref(), "flame".as_ref()];
    if let Some((cpu, rss)) = terminal(own, &arguments) {
        println!("perfprof-tui open: {cpu:.2} CPU-seconds, {rss} MB");
    }
}

/// Generates sorted stacks; each is a walk down a call graph.
fn folded() -> String {
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let name = |f: u64| format!("fn_{f:05}_{:x}", f.wrapping_mul(0x9e37_79b9));
    let mut lines = std::collections::BTreeSet::new();
    while lines.len() < STACKS {
        let mut f = random(COMMS * 6);
        let mut line = format!("comm{}", f / 6);
        for _ in 0..4 + random(9) {
            line.push(';');
            line.push_str(&name(f));
            f = (f * 31 + 7 + random(8) * 977) % NAMES;
        }
        lines.insert(line);
    }
    let mut text = String::new();
    lines.iter().for_each(|line| text.push_str(&format!("{line} {}\n", 1 + random(99))));
    text
}

fn time(mut work: impl FnMut()) -> Duration {
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..5).map(once).min().unwrap_or_default()
}

/// Returns the CPU seconds and the maximum RSS in MB of a program in a terminal, once it has drawn and is idle.
fn terminal(program: &str, arguments: &[&std::ffi::OsStr]) -> Option<(f64, u64)> {
    Command::new(program).arg("--version").output().ok()?;
    let (mut pty, pts) = pty_process::blocking::open().ok()?;
    pty.resize(pty_process::Size::new(50, 100)).ok()?;
    let command = pty_process::blocking::Command::new(program).args(arguments).env("TERM", "xterm-256color");
    let mut child = command.spawn(pts).ok()?;
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 65536];
        while pty.read(&mut bytes).is_ok_and(|n| n > 0) {}
    });
    let proc = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap_or_default();
    let cpu = || {
        let stat = proc("stat");
        let fields: Vec<u64> = stat.rsplit(')').next()?.split_whitespace().filter_map(|f| f.parse().ok()).collect();
        // utime and stime, after six numeric fields and the state letter, which does not parse (proc(5)).
        Some((fields.get(10)? + fields.get(11)?) as f64 / 100.0)
    };
    let mut last = -1.0;
    for _ in 0..40 {
        std::thread::sleep(Duration::from_millis(500));
        let now = cpu()?;
        if now - last < 0.02 {
            break;
        }
        last = now;
    }
    let rss = proc("status").lines().find_map(|l| l.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    let (cpu, rss): (f64, u64) = (cpu()?, rss.unwrap_or(0));
    let _ = child.kill();
    let _ = child.wait();
    let _ = reader.join();
    Some((cpu, rss >> 10))
}
