//! Hostile files: each test is a bounded attack by the owner of a file, while another user's symbols must stay
//! available.

use std::io::{BufRead, Read, Write};
use std::os::unix::fs::{FileExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::alone;
use crate::common::{data, program, skipped};
use perfprof_tui::record::Record;
use perfprof_tui::record::kinds::{FileId, Mmap};
use perfprof_tui::session::{Dso, Origin, Session};
use perfprof_tui::symbols::lines::Lines;
use perfprof_tui::symbols::{Resolver, SymbolOptions};

const ATTACKER: u32 = 64_001;
const VICTIM: u32 = 64_002;
/// Generous, so that the tests pass on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of another user with the perf map of its JIT.
struct Jitted {
    process: Child,
    map: PathBuf,
}

impl Jitted {
    /// Returns `None` if this user may not start processes of other users.
    fn start(user: u32) -> Option<Self> {
        let started = Command::new("sleep").arg("600").uid(user).gid(user).spawn();
        let Ok(process) = started else {
            skipped("needs root");
            return None;
        };
        let map = PathBuf::from(format!("/tmp/perf-{}.map", process.id()));
        let file = std::fs::File::create_new(&map).expect("map");
        chown(&map, Some(user), Some(user)).expect("chown");
        drop(file);
        Some(Self { process, map })
    }

    fn file(&self) -> std::fs::File {
        std::fs::File::options().write(true).open(&self.map).expect("map")
    }
}

impl Drop for Jitted {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.map);
    }
}

/// The DSOs of the processes' JIT code.
fn dsos(processes: &[&Jitted]) -> Vec<Dso> {
    let mut session = Session::new(Origin::Recorded);
    let one = |jitted: &&Jitted| {
        let pid = jitted.process.id() as i32;
        let (prot, flags, file, name) = (5, 2, FileId::None, b"//anon".as_slice());
        let map = Mmap { pid, tid: pid, start: 0x1000, len: 1 << 40, pgoff: 0x1000, file, prot, flags, name };
        session.apply(&Record::Mmap(map), 0);
        let dso = session.dsos.of_map(session.user_map(pid, 0x2000)).clone();
        assert_eq!((&*dso.path, dso.via.map(|via| via.0)), (jitted.map.to_str().expect("utf8"), Some(pid)));
        dso
    };
    processes.iter().map(one).collect()
}

fn live(budget: usize) -> Resolver {
    Resolver::new(SymbolOptions { kallsyms: None, budget, ..SymbolOptions::live() })
}

/// Looks the address up repeatedly, like the program, until its symbol is found.
fn named(resolver: &mut Resolver, dso: &Dso, at: u64) -> Option<String> {
    let from = Instant::now();
    while from.elapsed() < PATIENCE {
        let found = resolver.resolve(dso, at);
        if found.is_some() || !resolver.are_behind() {
            return found.map(|found| found.name.to_string());
        }
        resolver.read_on();
    }
    None
}

/// Lines of a perf map: one function every 64 bytes.
fn functions(from: u64, count: u64) -> String {
    (from..from + count).map(|i| format!("{:x} 40 a_function_of_some_length_{i:08}\n", 0x1000 + i * 64)).collect()
}

/// A line of a terabyte in a sparse file: the map is rejected by name, without delay for others.
#[test]
fn a_map_of_one_endless_line_stops_nobodys_names() {
    let _alone = alone();
    let (Some(attacker), Some(victim)) = (Jitted::start(ATTACKER), Jitted::start(VICTIM)) else { return };
    attacker.file().write_all(b"1000 10 real\n2000 10 endless").expect("write");
    let size = [15 << 40, 1 << 40, 1 << 36].into_iter().find(|size| attacker.file().set_len(*size).is_ok());
    assert!(size.is_some(), "a sparse file");
    victim.file().write_all(functions(0, 100).as_bytes()).expect("write");
    let [bad, good] = &dsos(&[&attacker, &victim])[..] else { return };
    let mut resolver = live(32 << 20);
    let from = Instant::now();
    assert_eq!(named(&mut resolver, bad, 0x20_0000), None);
    assert_eq!(named(&mut resolver, good, 0x1000).as_deref(), Some("a_function_of_some_length_00000000"));
    assert!(from.elapsed() < PATIENCE / 2, "{:?}", from.elapsed());
    let problems = resolver.take_problems();
    assert!(
        problems.len() == 1 && problems[0].0 == bad.id && problems[0].1.why.contains("longer than"),
        "{problems:?}"
    );
    // Lines before it count, and the map is not read again.
    assert_eq!(named(&mut resolver, bad, 0x1008).as_deref(), Some("real"));
    assert_eq!((named(&mut resolver, bad, 0x20_0000), resolver.take_problems()), (None, Vec::new()));
}

/// A visit to a long map is short, and another user's map is read completely before it.
#[test]
fn a_long_map_keeps_nobody_waiting() {
    let _alone = alone();
    let (Some(attacker), Some(victim)) = (Jitted::start(ATTACKER), Jitted::start(VICTIM)) else { return };
    // One repeated function, so that no limit on memory ends the parser.
    let line = functions(1, 1).repeat(1 << 14);
    let file = attacker.file();
    (0..48).for_each(|i| file.write_all_at(line.as_bytes(), i * line.len() as u64).expect("write"));
    victim.file().write_all(functions(0, 1000).as_bytes()).expect("write");
    let [bad, good] = &dsos(&[&attacker, &victim])[..] else { return };
    let mut resolver = live(32 << 20);
    assert_eq!(resolver.resolve(bad, 0x1000), None);
    assert!(resolver.is_behind(bad));
    let name = resolver.resolve(good, 0x1000 + 999 * 64).map(|found| found.name.to_string());
    assert_eq!(name.as_deref(), Some("a_function_of_some_length_00000999"));
    assert!(resolver.is_behind(bad), "one visit has read {} MB", (48 * line.len()) >> 20);
    // The resolver pauses this map for longer than it reads it.
    let (from, mut asked) = (Instant::now(), 0);
    while resolver.are_behind() && from.elapsed() < PATIENCE && asked < 50 {
        resolver.resolve(bad, 0x1000);
        asked += 1;
    }
    assert!(resolver.are_behind(), "{asked} lookups have read all of it");
}

/// Anonymous memory of this process in bytes (RssAnon).
fn own_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("number") << 10
}

/// Six maps that each exceed the whole budget of names: they share one user's part of it, and the names of another
/// user's process stay.
#[test]
fn many_maps_share_one_users_part() {
    let _alone = alone();
    const BUDGET: usize = 24 << 20;
    let Some(victim) = Jitted::start(VICTIM) else { return };
    victim.file().write_all(functions(0, 10_000).as_bytes()).expect("write");
    let attackers: Vec<Jitted> = (0..6).filter_map(|_| Jitted::start(ATTACKER)).collect();
    for attacker in &attackers {
        let mut file = attacker.file();
        (0..20).for_each(|i| file.write_all(functions(i * 32_000, 32_000).as_bytes()).expect("write"));
    }
    let mut resolver = live(BUDGET);
    let all: Vec<&Jitted> = attackers.iter().chain([&victim]).collect();
    let all = dsos(&all);
    let Some((good, bad)) = all.split_last() else { return };
    assert!(named(&mut resolver, good, 0x1000 + 9_999 * 64).is_some());
    let before = own_memory();
    let mut most = 0;
    for dso in bad {
        named(&mut resolver, dso, 0x1000 - 1);
        most = most.max(own_memory().saturating_sub(before));
    }
    assert!(most < BUDGET + (16 << 20), "{} MB for a budget of {}", most >> 20, BUDGET >> 20);
    let problems = resolver.take_problems();
    assert!(
        problems.len() >= 4 && problems.iter().all(|(_, why)| why.why.contains("the rest is ignored")),
        "{problems:?}"
    );
    // The cached name stays: the resolver does not read the deleted file again.
    std::fs::remove_file(&victim.map).expect("remove");
    let name = resolver.resolve(good, 0x1000 + 77 * 64).map(|found| found.name.to_string());
    assert_eq!(name.as_deref(), Some("a_function_of_some_length_00000077"));
}

/// A section of a handmade file: name, type (elf(5)), flags, entry size, content.
type Section<'a> = (&'a str, u32, u64, u64, &'a [u8]);

const PROGBITS: u32 = 1;
const SYMTAB: u32 = 2;
const STRTAB: u32 = 3;
const COMPRESSED: u64 = 0x800;

/// An x86-64 program of these sections, mapped at 0.
fn elf(sections: &[Section<'_>]) -> Vec<u8> {
    let mut strings = b"\0.shstrtab\0".to_vec();
    let mut headers = vec![0; 64];
    let mut body = vec![0; 64 + 56];
    let mut add = |body: &mut Vec<u8>, name: u32, kind: u32, flags: u64, entry: u64, content: &[u8]| {
        // The section after a symbol table holds its strings.
        let link = if kind == SYMTAB { headers.len() as u64 / 64 + 1 } else { 0 };
        headers.extend([name, kind].iter().flat_map(|w| w.to_le_bytes()));
        let words = [flags, 0, body.len() as u64, content.len() as u64, link, 1, entry];
        headers.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        body.extend_from_slice(content);
        body.resize(body.len().next_multiple_of(8), 0);
    };
    for (name, kind, flags, entry, content) in sections {
        let at = strings.len() as u32;
        strings.extend_from_slice(name.as_bytes());
        strings.push(0);
        add(&mut body, at, *kind, *flags, *entry, content);
    }
    add(&mut body, 1, STRTAB, 0, 0, &strings);
    let at = body.len() as u64;
    let count = sections.len() as u16 + 2;
    body.extend_from_slice(&headers);
    body[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let mut put = |at: usize, bytes: &[u8]| body[at..at + bytes.len()].copy_from_slice(bytes);
    put(16, &[2, 0, 62, 0, 1, 0, 0, 0]);
    put(32, &64u64.to_le_bytes());
    put(40, &at.to_le_bytes());
    let halves = [64u16, 56, 1, 64, count, count - 1];
    put(52, &halves.map(u16::to_le_bytes).concat());
    put(64, &[1, 0, 0, 0, 5, 0, 0, 0]);
    put(96, &[u64::MAX >> 2; 2].map(u64::to_le_bytes).concat());
    body
}

/// Prepends the header of a compressed section: the compression type and the uncompressed size.
fn packed(kind: u32, size: u64, data: &[u8]) -> Vec<u8> {
    [&u64::from(kind).to_le_bytes(), &size.to_le_bytes(), &1u64.to_le_bytes(), data].concat()
}

fn recorded(budget: usize) -> SymbolOptions {
    SymbolOptions { live: false, kallsyms: None, budget, ..SymbolOptions::live() }
}

/// A DSO for a file, as in a recording without build IDs.
fn dso(path: &Path) -> Dso {
    let name = path.to_str().expect("utf8").as_bytes();
    let mut session = Session::new(Origin::Recorded);
    let map = Mmap { pid: 1, tid: 1, start: 0, len: u64::MAX, pgoff: 0, file: FileId::None, prot: 5, flags: 2, name };
    session.apply(&Record::Mmap(map), 0);
    session.dsos.of_map(session.user_map(1, 0x10)).clone()
}

/// Looks an address up in a file with a child process.
///
/// Returns what it prints, and its peak memory.
fn looked_up(file: &Path) -> (String, usize) {
    let mut command = program();
    command.args(["symbols", "--lines"]).arg(file);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(b"1000\n").expect("write");
    let mut answer = String::new();
    std::io::BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut answer).expect("an answer");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    let peak: usize = peak.trim().trim_end_matches(" kB").parse().expect("number");
    drop(stdin);
    let mut said = String::new();
    child.stderr.take().expect("stderr").read_to_string(&mut said).expect("stderr");
    assert!(child.wait().expect("ends").success(), "{said}");
    (said, peak << 10)
}

/// A gigabyte compressed to a few kilobytes, and a header that claims four: both are rejected by name.
#[test]
fn packed_sections_take_no_more_than_their_share() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("dir");
    let size = 1u64 << 30;
    let mut zeros = Vec::new();
    zstd::stream::copy_encode(std::io::repeat(0).take(size), &mut zeros, 1).expect("packed");
    assert!(zeros.len() < 1 << 20);
    for (name, content) in [("real", packed(2, size, &zeros)), ("said", packed(1, 4 << 30, b"little"))] {
        let path = dir.path().join(name);
        std::fs::write(&path, elf(&[(".debug_info", PROGBITS, COMPRESSED, 0, &content)])).expect("write");
        let (said, peak) = looked_up(&path);
        assert!(said.contains(".debug_info would take") && said.contains("more than its share"), "{said}");
        assert!(peak < 200 << 20, "{} MB", peak >> 20);
    }
}

/// A file with too many symbols, one with too many sections, and a debug file with six gigabytes of zeros: each is
/// rejected by name, quickly.
#[test]
fn what_takes_too_much_of_a_file_is_refused_by_name() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("many");
    // Functions of one byte; all their names start in one long string.
    let symbols: Vec<u8> = (0..200_000u64)
        .flat_map(|i| [1 | 0x12 << 32 | 1 << 48, 0x1000 + i, 1].map(u64::to_le_bytes))
        .flatten()
        .collect();
    let names = [&b"\0"[..], &[b'n'; 4 << 20]].concat();
    let sections: &[Section<'_>] = &[(".symtab", SYMTAB, 0, 24, &symbols), (".strtab", STRTAB, 0, 0, &names)];
    std::fs::write(&path, elf(sections)).expect("write");
    let (file, from) = (dso(&path), Instant::now());
    let problem =
        |resolver: &mut Resolver| resolver.take_problems().into_iter().map(|(_, why)| why.why).collect::<String>();
    let mut resolver = Resolver::new(recorded(4 << 20));
    assert_eq!(resolver.resolve(&file, 0x1000), None);
    let why = problem(&mut resolver);
    insta::assert_snapshot!("large-symtab", why);
    // With enough memory, a name without an end is truncated.
    let name = Resolver::new(recorded(256 << 20)).resolve(&file, 0x1000).expect("found").name;
    assert!(name.len() <= 16 << 10 && name.starts_with("nnn"), "{}", name.len());

    let mut bytes = elf(&[(".text", PROGBITS, 0, 0, &[0xc3; 16])]);
    let first = u64::from_le_bytes(bytes[40..48].try_into().expect("eight")) as usize;
    bytes[60..62].copy_from_slice(&[0, 0]);
    bytes[first + 32..first + 40].copy_from_slice(&(1u64 << 30).to_le_bytes());
    std::fs::write(&path, &bytes).expect("write");
    std::fs::File::options().write(true).open(&path).expect("open").set_len(1 << 30).expect("sparse");
    let mut resolver = Resolver::new(recorded(4 << 20));
    assert_eq!(resolver.resolve(&file, 0x1000), None);
    let why = problem(&mut resolver);
    insta::assert_snapshot!("many-sections", why);

    let link = [&b"many.debug\0\0"[..], &1u32.to_le_bytes()].concat();
    std::fs::write(&path, elf(&[(".gnu_debuglink", PROGBITS, 0, 0, &link)])).expect("write");
    let debug = std::fs::File::create(dir.path().join("many.debug")).expect("create");
    debug.set_len(6 << 30).expect("sparse");
    let before = own_memory();
    let mut resolver = Resolver::new(recorded(4 << 20));
    assert_eq!(resolver.resolve(&file, 0x1000), None);
    let why = problem(&mut resolver);
    insta::assert_snapshot!("large-debug-file", why.replace(&*dir.path().to_string_lossy(), "DIR"));
    assert!(own_memory() < before + (64 << 20));
    assert!(from.elapsed() < PATIENCE, "{:?}", from.elapsed());
}

/// Units of eleven bytes that expand to a kilobyte each, and overlapping abbreviation tables, so that each of them
/// would be parsed to the end of the last.
#[test]
fn debug_information_is_weighed_before_it_is_parsed() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("units");
    let unit = |abbreviations: u32| [&[8, 0, 0, 0, 4, 0][..], &abbreviations.to_le_bytes(), &[8, 0]].concat();
    let abbreviations: Vec<u8> = [1, 0x11, 0, 0, 0].repeat(100_000);
    let why = |units: Vec<u8>| {
        let sections: &[Section<'_>] =
            &[(".debug_info", PROGBITS, 0, 0, &units), (".debug_abbrev", PROGBITS, 0, 0, &abbreviations)];
        std::fs::write(&path, elf(sections)).expect("write");
        let mut lines = Lines::new(recorded(64 << 20));
        assert!(lines.places(&dso(&path), 0x1000).is_empty());
        lines.take_problems().into_iter().map(|(_, why)| why.why).collect::<String>()
    };
    let from = Instant::now();
    let many = why((0..100_000).flat_map(|_| unit(499_990)).collect());
    insta::assert_snapshot!("many-units", many);
    let overlapping = why((0..1000).flat_map(|i| unit(400_000 + i * 5)).collect());
    insta::assert_snapshot!("overlapping-abbreviations", overlapping);
    assert!(from.elapsed() < PATIENCE, "{:?}", from.elapsed());
}

/// A tarball of a few kilobytes that unpacks to 1.5 GB: little is written, and the program removes it.
#[test]
fn an_archive_that_grows_without_end_is_refused() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("dir");
    let (path, tmp) = (dir.path().join("debug.tar.zst"), dir.path().join("tmp"));
    std::fs::create_dir(&tmp).expect("mkdir");
    let packer = zstd::stream::write::Encoder::new(std::fs::File::create(&path).expect("create"), 1).expect("zstd");
    let mut tar = tar::Builder::new(packer.auto_finish());
    let mut header = tar::Header::new_gnu();
    header.set_size(1536 << 20);
    tar.append_data(&mut header, ".build-id/ab/cd", std::io::repeat(0).take(1536 << 20)).expect("tar");
    drop(tar.into_inner().expect("tar"));
    let mut command = program();
    command.args(["report", "--archive"]).arg(&path).arg("-i").arg(data("corpus/all-user.data")).env("TMPDIR", &tmp);
    let output = command.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("debug.tar.zst: "), "{said}");
    assert!(said.contains("unpacks to more than"), "{said}");
    assert_eq!(std::fs::read_dir(&tmp).expect("tmp").count(), 0);
}
