//! Symbols, inlined functions, source lines and unwound stacks from each source, compared with perf's output and with
//! the known programs.

#[path = "../../src/damage.rs"]
#[allow(dead_code, reason = "the library's own tests use the rest")]
mod damage;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use crate::common::made::{ALPHA, GAMMA, Taken, event, has, write};
use crate::common::transcript::Transcript;
use crate::common::{self, data, found, installed, program, run, symfs};
use perfprof_tui::engine::fetch;
use perfprof_tui::perfdata::unpack::UnpackBudget;
use perfprof_tui::record::Record;
use perfprof_tui::record::kinds::{BuildId, FileId, Mmap};
use perfprof_tui::record::sample::UserState;
use perfprof_tui::session::{Dso, DsoId, Origin, Session};
use perfprof_tui::symbols::code;
use perfprof_tui::symbols::debug_image::Image;
use perfprof_tui::symbols::lines::Lines;
use perfprof_tui::symbols::unwind::UnwindSpace;
use perfprof_tui::symbols::{Resolver, SymbolOptions};

/// A DSO for a file, as in a recording without build IDs.
fn dso(path: &Path) -> Dso {
    let name = path.to_str().expect("utf8").as_bytes();
    let mut session = Session::new(Origin::Recorded);
    let map = Mmap { pid: 1, tid: 1, start: 0, len: u64::MAX, pgoff: 0, file: FileId::None, prot: 5, flags: 2, name };
    session.apply(&Record::Mmap(map), 0);
    session.dsos.of_map(session.user_map(1, 0x10)).clone()
}

fn recorded() -> SymbolOptions {
    SymbolOptions { live: false, kallsyms: None, ..SymbolOptions::live() }
}

/// The functions of the program in order of address, and the source of the symbols.
fn functions(name: &str, options: &SymbolOptions) -> (Vec<String>, String) {
    let image = Image::open(&dso(&data("names").join(name)), options).expect("image");
    let functions = image.functions(&mut UnpackBudget::new(1 << 28)).expect("functions");
    let wanted = ["hash_block", "sort_keys", "copy_rows", "write_log"];
    let mut found: Vec<String> = functions
        .tables
        .iter()
        .flat_map(|table| table.iter())
        .map(|symbol| String::from_utf8_lossy(symbol.name).into_owned())
        .filter(|name| wanted.contains(&name.as_str()))
        .collect();
    found.sort();
    (found, functions.from.text)
}

#[test]
fn names_from_each_place_that_has_them() {
    let all = ["copy_rows", "hash_block", "sort_keys", "write_log"];
    let (found, from) = functions("flat4-mini", &recorded());
    assert_eq!((found.as_slice(), from.as_str()), (&all.map(str::to_owned)[..], "MiniDebugInfo"));
    let (found, from) = functions("flat4-debuglink", &recorded());
    assert_eq!(found, all);
    assert!(from.ends_with("names/.debug/flat4-debuglink.debug"), "{from}");
    let caches = vec![data("names")];
    let (found, from) = functions("flat4-buildid", &SymbolOptions { caches, ..recorded() });
    assert_eq!((found.as_slice(), from.as_str()), (&all.map(str::to_owned)[..], "debug file the build-id cache"));
    // Without the debug file only exported symbols are known.
    let (found, from) = functions("flat4-buildid", &recorded());
    assert!(found.is_empty(), "{found:?}");
    insta::assert_snapshot!("stripped", from);
}

/// A debug file of another program is rejected, despite its name.
#[test]
fn a_debug_file_with_another_checksum_is_not_believed() {
    let dir = tempfile::tempdir().expect("dir");
    let program = dir.path().join("flat4-debuglink");
    std::fs::copy(data("names/flat4-debuglink"), &program).expect("copy");
    std::fs::create_dir(dir.path().join(".debug")).expect("dir");
    let debug = dir.path().join(".debug/flat4-debuglink.debug");
    let from = |dso: &Dso| {
        Image::open(dso, &recorded())
            .expect("image")
            .functions(&mut UnpackBudget::new(1 << 28))
            .expect("functions")
            .from
    };
    std::fs::copy(data("names/.debug/flat4-debuglink.debug"), &debug).expect("copy");
    let debug_file = debug.to_string_lossy().into_owned();
    assert!(from(&dso(&program)).text.ends_with(&debug_file), "{}", from(&dso(&program)).text);
    // From another program: neither build ID nor checksum match.
    std::fs::copy(data("names/.build-id/b1/dfab1e00112233445566778899aabbccddeeff.debug"), &debug).expect("copy");
    assert!(!from(&dso(&program)).text.ends_with(&debug_file), "{}", from(&dso(&program)).text);
}

fn ours(name: &str, args: &[&str]) -> String {
    named(&format!("corpus/{name}.data"), args)
}

fn named(file: &str, args: &[&str]) -> String {
    let root = symfs();
    let mut command = program();
    command.args(args).arg(data(file));
    command.arg("--symfs").arg(root.path()).arg("--kallsyms").arg(data("kallsyms"));
    String::from_utf8(run(&mut command).stdout).expect("utf8")
}

/// perf 7.3 on the same recording: 85.23 % in mixbits, which is inlined into fold_round and that into hash_block; 254
/// samples on inliner.c:11 and 40 on line 12.
#[test]
fn inlined_functions_and_lines_are_perfs() {
    let folded = ours("inline", &["export", "--to", "folded", "--inline", "-o", "-"]);
    let weight = |stack: &str| -> u64 {
        let lines = folded.lines().filter_map(|line| line.rsplit_once(' '));
        let inside = lines.filter(|(path, _)| path.ends_with(stack));
        inside.map(|(_, weight)| weight.parse::<u64>().expect("weight")).sum::<u64>() / 1_001_001
    };
    assert_eq!(weight("process_all;hash_block;fold_round;mixbits"), 254);
    assert_eq!(weight("process_all;hash_block;fold_round"), 40);
    let marked = ours("inline", &["export", "--to", "folded", "--inline", "--annotate", "-o", "-"]);
    let stacks = |text: &str, leaf: &str| {
        text.lines().filter(|line| line.rsplit_once(' ').is_some_and(|(path, _)| path.ends_with(leaf))).count()
    };
    assert!(stacks(&marked, "process_all;hash_block_[i];fold_round_[i];mixbits_[i]") > 0, "{marked}");
    let lines = ours("inline", &["script", "-F", "+srcline"]);
    let leaf = |want: &str| {
        let is_inside = |block: &&str| block.split_whitespace().any(|word| word.starts_with("process_all"));
        let blocks = lines.split("\n\n").filter(is_inside);
        blocks.filter(|block| block.lines().nth(2).is_some_and(|line| line == format!("  {want}"))).count()
    };
    assert_eq!((leaf("inliner.c:11"), leaf("inliner.c:12")), (254, 40));
    let plain = ours("inline", &["export", "--to", "folded", "-o", "-"]);
    assert_eq!((stacks(&plain, ";mixbits"), stacks(&plain, ";process_all") > 0), (0, true));
}

/// The stacks of each sample from its leaf to main, by symbol.
fn to_main(text: &str) -> Vec<Vec<String>> {
    let block = |block: &str| -> Vec<String> {
        let frames = block.lines().skip(1).filter_map(|line| line.trim().split_once(' '));
        let names = frames.map(|(_, rest)| rest.rsplit_once(" (").map_or(rest, |(name, _)| name));
        let names = names.map(|name| name.rsplit_once("+0x").map_or(name, |(name, _)| name).to_owned());
        let mut out: Vec<String> = names.collect();
        out.truncate(out.iter().position(|name| name == "main").map_or(out.len(), |at| at + 1));
        out
    };
    text.split("\n\n").filter(|b| !b.trim().is_empty()).map(block).collect()
}

#[test]
fn unwound_stacks_are_perfs() {
    for (name, n, at_least) in [("dwarf-spin", 37, 37), ("dwarf-cxx", 12, 6)] {
        let theirs = std::fs::read_to_string(data("corpus").join(format!("{name}.script.txt"))).expect("oracle");
        let (ours, theirs) = (to_main(&ours(name, &["script"])), to_main(&theirs));
        assert_eq!((ours.len(), theirs.len()), (n, n));
        // Callees in libraries are found only if the libraries exist.
        let whole = |frames: &[String]| frames.last().is_some_and(|f| f == "main");
        let in_program = |frames: &[String]| !frames.iter().any(|f| f.starts_with("std::__cxx11"));
        let same = ours.iter().zip(&theirs).filter(|(_, theirs)| whole(theirs) && in_program(theirs));
        let compared = same.inspect(|(ours, theirs)| assert_eq!(ours, theirs, "{name}")).count();
        assert!(compared >= at_least, "{name}: {compared}");
    }
    // The frame of main exceeds the stack copy: the stack is marked as truncated.
    let folded = ours("dwarf-cxx", &["export", "--to", "folded", "-o", "-"]);
    let cut = folded
        .lines()
        .filter(|line| line.split(';').skip_while(|frame| *frame != "[truncated]").nth(1) == Some("main"));
    assert!(cut.count() > 3, "{folded}");
}

/// The root of a stack with the kernel's maximum depth is unknown.
#[test]
fn stacks_that_the_kernel_cut_say_so_in_every_form() {
    let dir = tempfile::tempdir().expect("dir");
    let file = dir.path().join("deep.data");
    let taken = |frames: usize| {
        let chain = [&[ALPHA][..], &vec![GAMMA + 1; frames - 1]].concat();
        Taken { ip: ALPHA, period: 100, chain, ..Taken::default() }
    };
    write(&file, &[event("cycles", 0, has::ALWAYS | has::CALLCHAIN)], &[taken(127), taken(126), taken(3)]);
    let ours = |args: &[&str]| {
        let mut command = program();
        command.arg(args[0]).arg(&file).args(["--symfs"]).arg(data("bin")).args(&args[1..]);
        String::from_utf8_lossy(&run(&mut command).stdout).into_owned()
    };
    let folded = ours(&["export", "--to", "folded", "-o", "-"]);
    let roots: Vec<&str> = folded.lines().filter_map(|line| line.split(';').nth(1)).collect();
    assert_eq!(roots.iter().filter(|root| **root == "[truncated]").count(), 1, "{folded}");
    assert_eq!(roots.len(), 3, "{folded}");
    let report = ours(&["report", "--stdio", "--children", "-g", "none"]);
    let flame = ours(&["export", "--to", "svg", "-o", "-"]);
    // Script text shows the stack unchanged.
    let named = |text: &str| text.matches("[truncated]").count() > 0;
    assert_eq!([&report, &flame, &ours(&["script"])].map(|text| named(text)), [true, true, false]);
}

#[test]
fn functions_are_annotated() {
    let all = ours("inline", &["annotate"]);
    let text = ours("inline", &["annotate", "-s", "process_all"]);
    assert!(all.starts_with(&text), "the hottest function is not first: {all}");
    assert!(text.starts_with("process_all  "), "{text}");
    // The listings of functions are separated by their heads; the JSON has one for each.
    let json = |args: &[&str]| -> Vec<serde_json::Value> {
        let text = ours("inline", &[&["annotate", "--format", "json"], args].concat());
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    assert_eq!(json(&["--percent-limit", "50"]).len(), 1);
    let one = json(&["-s", "process_all"]);
    assert_eq!(
        (one.len(), one[0]["samples"].as_u64(), one[0]["function"].as_str()),
        (1, Some(294), Some("process_all"))
    );
    let shares: f64 = text.lines().skip(3).filter_map(|line| line.get(..7)?.trim().parse::<f64>().ok()).sum();
    assert!((shares - 100.0).abs() < 0.5, "{shares}");
    assert!(text.split_whitespace().any(|word| word.ends_with("inliner.c:11")), "{text}");
    let root = symfs();
    let mut transcript = Transcript::new().with(root.path(), "ROOT");
    let mut command = program();
    command.arg("annotate").arg(data("corpus/inline.data")).arg("proces_all").arg("--symfs").arg(root.path());
    assert_eq!(transcript.add(&mut command).status.code(), Some(1));
    insta::assert_snapshot!("unknown-function", transcript.text());
}

/// Functions with samples and code are annotated in the order of the report; the others are listed.
#[test]
fn all_functions_with_samples_are_annotated_hottest_first() {
    let listed = named("multi3.data", &["annotate", "--format", "json", "--no-source"]);
    let listed: Vec<serde_json::Value> = listed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let events = ["cpu-clock", "page-faults", "context-switches"];
    let mut compared = 0;
    for event in events {
        let own: Vec<_> =
            listed.iter().filter(|one| one["event"].as_str().is_some_and(|e| e.starts_with(event))).collect();
        let args = ["report", "--no-children", "--format", "csv", "-s", "dso,sym", "--event", event];
        let rows = named("multi3.data", &args);
        let samples = |name: &str| {
            let of =
                |line: &str| line.ends_with(&format!(",{name}")).then(|| line.split(',').nth(1).map(str::to_owned));
            rows.lines().find_map(of).flatten()
        };
        let periods: Vec<u64> = own.iter().map(|one| one["period"].as_u64().expect("a period")).collect();
        assert!(periods.is_sorted_by(|a, b| a >= b), "{event}: {periods:?}");
        for one in own {
            let name = one["function"].as_str().expect("a name");
            assert_eq!(samples(name), Some(one["samples"].to_string()), "{event} {name}:\n{rows}");
            compared += 1;
        }
    }
    assert!(compared > 3 && compared == listed.len(), "{compared} of {}", listed.len());
}

#[test]
fn addresses_get_names_as_pprof_wants_them() {
    let binary = data("names/inlined");
    let ask = |args: &[&str], lines: &str| {
        let mut command = program();
        command.arg("symbols").arg(&binary).args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("spawns");
        child.stdin.take().expect("stdin").write_all(lines.as_bytes()).expect("write");
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success());
        String::from_utf8(output.stdout).expect("utf8")
    };
    let image = Image::open(&dso(&binary), &recorded()).expect("image");
    let tables = image.functions(&mut UnpackBudget::new(1 << 28)).expect("functions").tables;
    let starts: BTreeMap<String, u64> =
        tables.iter().flat_map(|t| t.iter()).map(|s| (String::from_utf8_lossy(s.name).into_owned(), s.start)).collect();
    let outer = image.segments.to_address(starts["outer_hot"]).expect("address");
    assert_eq!(ask(&[], &format!("{outer:#x}\n0x1\n{outer:x}\n")), "outer_hot\n??\nouter_hot\n");
    // Addresses of a process, after its maps.
    let path = binary.display();
    let maps = format!("555555554000-55555555a000 r-xp 00000000 fe:00 12 {path}\n");
    let at = 0x5555_5555_4000u64 + starts["outer_hot"];
    assert_eq!(ask(&[], &format!("{maps}{at:#018x}\n0x7\n")), "outer_hot\n??\n");
    let lines = ask(&["--lines"], &format!("{:#x}\n", outer + 0x26));
    let inlined = lines.lines().find(|line| line.starts_with("burn (inlined) ")).unwrap_or_default();
    assert!(inlined.rsplit_once(':').is_some_and(|(file, _)| file.ends_with("/work.h")), "{lines}");
    assert!(lines.lines().last().expect("last").starts_with("outer_hot "), "{lines}");
}

/// Names addresses in the program `go`, which distributions strip.
#[test]
fn stripped_go_programs_have_the_functions_and_lines_of_gos_own_tool() {
    let Some(go) = found("go") else { return };
    let image = Image::open(&dso(&go), &recorded()).expect("image");
    let tables = image.functions(&mut UnpackBudget::new(1 << 28)).expect("functions").tables;
    // Not only their first instructions.
    let all: Vec<u64> = tables.iter().flat_map(|table| table.iter()).map(|one| one.start + 60).collect();
    let addresses = all.iter().step_by(all.len() / 500 + 1).filter_map(|at| image.segments.to_address(*at));
    let asked: String = addresses.map(|at| format!("{at:#x}\n")).collect();
    let answers = |command: &mut std::process::Command| {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("spawns");
        child.stdin.take().expect("stdin").write_all(asked.as_bytes()).expect("write");
        String::from_utf8(child.wait_with_output().expect("ends").stdout).expect("utf8")
    };
    let dir = tempfile::tempdir().expect("dir");
    let theirs = answers(std::process::Command::new(&go).env("HOME", dir.path()).args(["tool", "addr2line"]).arg(&go));
    let ours = answers(program().args(["symbols", "--lines"]).arg(&go));
    let (mut lines, mut compared, mut inlined) = (ours.lines(), 0, 0);
    for (function, place) in theirs.lines().step_by(2).zip(theirs.lines().skip(1).step_by(2)) {
        let first = lines.next().expect("an answer");
        let mut last = first;
        while last.contains(" (inlined) ") {
            last = lines.next().expect("the function that was called");
        }
        // Functions in C have no lines in the table.
        if function.contains('.') && !place.contains(":-") && !place.starts_with('?') {
            // The tool names the function that was called, and the line of the one that is inlined.
            assert_eq!(last.split(' ').next(), function.split(' ').next(), "{first}\n{last}");
            assert!(first.ends_with(place), "{place}: {first}");
            compared += 1;
            inlined += usize::from(first != last);
        }
    }
    assert!(compared > 300 && inlined > 20, "{compared}, {inlined}");
}

/// A local server with a single file.
#[test]
fn a_debug_file_is_fetched_once_and_kept() {
    use std::io::Read;
    needs!(installed("curl"));
    let id = BuildId::new(&[0xab; 20]).expect("id");
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let url = format!("http://{}/", server.local_addr().expect("address"));
    let serve = std::thread::spawn(move || {
        let (mut one, _) = server.accept().expect("accept");
        let mut request = [0; 4096];
        let n = one.read(&mut request).expect("read");
        let request = String::from_utf8_lossy(&request[..n]).into_owned();
        one.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\ndebug").expect("write");
        request
    });
    let cache = tempfile::tempdir().expect("dir");
    let dead = "http://127.0.0.1:1".to_owned();
    let (wanted, fetched) = fetch::spawn(vec![dead, url], cache.path().to_owned()).expect("spawns");
    wanted.send((DsoId(7), id)).expect("sent");
    let done = fetched.recv().expect("fetched");
    assert_eq!((done.dso, done.result), (DsoId(7), Ok(())));
    let path = format!("/buildid/{id}/debuginfo");
    assert!(serve.join().expect("served").starts_with(&format!("GET {path} ")));
    assert_eq!(std::fs::read(cache.path().join(id.to_string()).join("debuginfo")).expect("kept"), b"debug");
    // The server has ended; the cached file does not need it.
    wanted.send((DsoId(8), id)).expect("sent");
    assert_eq!(fetched.recv().expect("fetched").result, Ok(()));
    let other = BuildId::new(&[1; 20]).expect("id");
    wanted.send((DsoId(9), other)).expect("sent");
    assert!(fetched.recv().expect("fetched").result.is_err());
}

/// A function without a symbol has one row by its start address, or one row per address like in perf.
#[test]
fn functions_without_symbols_are_those_that_the_program_had() {
    let (root, whole) = (symfs(), symfs());
    let stripped = whole.path().join("tmp/research/perf-tui/w/a/spin-stripped");
    std::fs::copy(data("bin/spin-nofp"), &stripped).expect("the same program before it was stripped");
    let rows = |root: &Path, more: &[&str]| {
        let mut command = program();
        command.args(["report", "--format", "json", "--no-children", "-s", "comm,dso,sym", "--symfs"]).arg(root);
        let mut rows = common::our_rows(&run(command.args(more).arg(data("corpus/stripped.data"))).stdout);
        rows.retain(|(_, dso, _), _| dso == "spin-stripped");
        rows
    };
    let (bounded, named) = (rows(root.path(), &[]), rows(whole.path(), &[]));
    let image = Image::of(std::fs::read(&stripped).expect("file").into()).expect("elf");
    let tables = image.functions(&mut UnpackBudget::new(1 << 24)).expect("symbols").tables;
    let start = |name: &str| -> String {
        let mut all = tables.iter().flat_map(|table| table.iter());
        let symbol = all.find(|symbol| symbol.name == name.as_bytes()).expect("a symbol");
        format!("{:#x}", image.segments.to_address(symbol.start).expect("an address"))
    };
    let renamed = named.iter().map(|((comm, dso, sym), n)| ((comm.clone(), dso.clone(), start(sym)), *n)).collect();
    assert!(named.len() > 2);
    assert_eq!(bounded, renamed);
    let single = rows(root.path(), &["--no-bounds"]);
    assert!(single.len() > 2 * bounded.len() && single.keys().all(|(.., sym)| sym.len() == 18), "{single:?}");
    assert_eq!(single.values().sum::<u64>(), bounded.values().sum::<u64>());
}

/// Symbols of a stripped program arrive while its recording is open.
#[test]
fn names_come_with_the_debug_file_that_is_fetched() {
    use std::io::Read;
    needs!(installed("curl"));
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let servers = vec![format!("http://{}", server.local_addr().expect("address"))];
    let asked = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = asked.clone();
    // The program before it was stripped; requests for other files fail.
    std::thread::spawn(move || {
        let file = std::fs::read(data("bin/spin-nofp")).expect("file");
        for one in server.incoming() {
            let mut one = one.expect("connection");
            let mut request = [0; 4096];
            let n = one.read(&mut request).expect("read");
            log.lock().expect("log").push(String::from_utf8_lossy(&request[..n]).into_owned());
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", file.len());
            one.write_all(head.as_bytes()).and_then(|()| one.write_all(&file)).expect("write");
        }
    });
    let (root, cache) = (symfs(), tempfile::tempdir().expect("dir"));
    let symbols = SymbolOptions {
        symfs: Some(root.path().to_owned()),
        debuginfod: vec![cache.path().to_owned()],
        servers,
        same_kernel: false,
        ..recorded()
    };
    let source = perfprof_tui::source::recording::open(&[data("corpus/stripped.data")]).expect("opens");
    let options = perfprof_tui::engine::Options {
        symbols,
        memory: 256 << 20,
        keep: None,
        watched: None,
        own_pid: None,
        wants: Default::default(),
        refresh: std::time::Duration::from_millis(50),
        per_sample: None,
        realtime: None,
        no_inline: false,
    };
    let engine = perfprof_tui::engine::Engine::spawn(source, options).expect("spawns");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !engine.answer().view.lines.iter().any(|line| line.sym.starts_with("burn_alpha")) {
        assert!(std::time::Instant::now() < until, "{:?} {:?}", engine.answer().notes, asked.lock());
        let _ = engine.notices().recv_timeout(std::time::Duration::from_millis(50));
    }
    engine.stop();
    let asked = asked.lock().expect("log");
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(asked[0].starts_with("GET /buildid/0a80c58083b0de864381c6230afa0731e7e07962/debuginfo "), "{asked:?}");
}

/// Reads symbols, lines, tables and code of any file without a panic; returns whether it found any.
fn exercise(bytes: &[u8]) -> bool {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("lib.so");
    std::fs::write(&path, bytes).expect("write");
    let (dso, options) = (dso(&path), recorded());
    let (mut resolver, mut lines) = (Resolver::new(options.clone()), Lines::new(options.clone()));
    let mut stacks = UnwindSpace::new(options.clone());
    let registers: Vec<u8> = (0..24u64).flat_map(|i| (0x1000 + 8 * i).to_le_bytes()).collect();
    let mut found = false;
    for at in (0..bytes.len() as u64).step_by(bytes.len() / 64 + 1) {
        found |= resolver.resolve(&dso, at).is_some() | !lines.places(&dso, at).is_empty();
        let user = UserState { abi: 2, mask: 0xff_0fff, regs: &registers, stack: bytes, asked: bytes.len() as u64 };
        let mut out = Vec::new();
        stacks.unwind(&user, &|ip| Some((&dso, ip.wrapping_add(at))), &mut out);
        assert!(out.len() <= 1024);
    }
    let _ = code::list(&dso, bytes.len() as u64 / 3, &mut resolver, &mut lines, &options);
    found
}

#[test]
fn damaged_files_end_in_an_answer() {
    let names = ["flat4-mini", "flat4-debuglink", "inlined", "flat4-buildid", ".debug/flat4-debuglink.debug"];
    let files = names.map(|name| std::fs::read(data("names").join(name)).expect("file"));
    let whole = proptest::sample::select(files.to_vec());
    damage::reaching(48, 10, damage::bytes(30, whole), |bytes| exercise(&bytes));
}

/// The functions at all addresses of `outer`, in a program with split debug information.
fn split(program: &Path) -> (std::collections::BTreeSet<String>, Vec<String>) {
    let of = dso(program);
    let image = Image::open(&of, &recorded()).expect("image");
    let tables = image.functions(&mut UnpackBudget::new(1 << 28)).expect("functions").tables;
    let outer =
        tables.iter().flat_map(|table| table.iter()).find(|symbol| symbol.name == b"outer").expect("there").start;
    let mut lines = Lines::new(recorded());
    let found = (outer..outer + 0x30).flat_map(|at| lines.places(&of, at));
    let names = found.filter_map(|frame| Some(format!("{} {}", frame.function?, frame.line.is_some()))).collect();
    (names, lines.take_problems().into_iter().map(|(_, why)| why.why).collect())
}

#[test]
fn functions_that_were_split_off_are_found() {
    let whole = ["inner true", "outer true"].map(str::to_owned).into();
    for name in ["names/split", "names/packed", "names/packed5"] {
        let (found, problems) = split(&data(name));
        assert_eq!((&found, problems.as_slice()), (&whole, &[][..]), "{name}");
    }
    let dir = tempfile::tempdir().expect("dir");
    let program = dir.path().join("split");
    std::fs::copy(data("names/split"), &program).expect("copied");
    let inner = "inner true";
    let is_told = |problems: &[String]| problems.len() == 1 && problems[0].starts_with("split.dwo is missing");
    let (found, problems) = split(&program);
    assert!(!found.contains(inner) && is_told(&problems), "{found:?} {problems:?}");
    // A unit of another build has another id.
    let mut unit = std::fs::read(data("names/split.dwo")).expect("there");
    let number = 0xc2fd_4cea_f632_669au64.to_le_bytes();
    let at = unit.windows(8).position(|bytes| bytes == number).expect("its number");
    unit[at] ^= 1;
    std::fs::write(dir.path().join("split.dwo"), unit).expect("written");
    let (found, problems) = split(&program);
    assert!(!found.contains(inner) && is_told(&problems), "{found:?} {problems:?}");
}
