//! Files that their owners made to harm whoever looks: each test is the attack, bounded, beside somebody else's
//! names.

mod common;

use std::io::Write;
use std::os::unix::fs::{FileExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use common::skipped;
use perfprof_tui::record::Record;
use perfprof_tui::record::kinds::{FileId, Mmap};
use perfprof_tui::session::{Dso, Origin, Session};
use perfprof_tui::symbols::{Options, Resolver};

const ATTACKER: u32 = 64_001;
const VICTIM: u32 = 64_002;
/// Nothing here takes longer on a machine that does many other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process of another user, with the map that its JIT writes.
struct Jitted {
    process: Child,
    map: PathBuf,
}

impl Jitted {
    /// `None` for whoever may not start processes of others.
    fn start(test: &str, user: u32) -> Option<Self> {
        let started = Command::new("sleep").arg("600").uid(user).gid(user).spawn();
        let Ok(process) = started else {
            skipped(test, "needs root");
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

/// The code that each process has made.
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
    Resolver::new(Options { kallsyms: None, budget, ..Options::live() })
}

/// Asks as the program does until the name comes.
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

/// Lines of a map: one function each 64 bytes.
fn functions(from: u64, count: u64) -> String {
    (from..from + count).map(|i| format!("{:x} 40 a_function_of_some_length_{i:08}\n", 0x1000 + i * 64)).collect()
}

/// A line of a terabyte, which takes no room on the disk: it is given up by name, and nobody waits for it.
#[test]
fn a_map_of_one_endless_line_stops_nobodys_names() {
    const NAME: &str = "a_map_of_one_endless_line_stops_nobodys_names";
    let (Some(attacker), Some(victim)) = (Jitted::start(NAME, ATTACKER), Jitted::start(NAME, VICTIM)) else { return };
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
    assert!(problems.len() == 1 && problems[0].0 == bad.id && problems[0].1.contains("longer than"), "{problems:?}");
    // What came before it counts, and it is not read again.
    assert_eq!(named(&mut resolver, bad, 0x1008).as_deref(), Some("real"));
    assert_eq!((named(&mut resolver, bad, 0x20_0000), resolver.take_problems()), (None, Vec::new()));
}

/// A visit to a long map is short, and another user's whole map is read before it.
#[test]
fn a_long_map_keeps_nobody_waiting() {
    const NAME: &str = "a_long_map_keeps_nobody_waiting";
    let (Some(attacker), Some(victim)) = (Jitted::start(NAME, ATTACKER), Jitted::start(NAME, VICTIM)) else { return };
    // One function over and over again, which takes no room that would end it.
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
    // Its user pauses longer than he reads.
    let (from, mut asked) = (Instant::now(), 0);
    while resolver.are_behind() && from.elapsed() < PATIENCE && asked < 50 {
        resolver.resolve(bad, 0x1000);
        asked += 1;
    }
    assert!(resolver.are_behind(), "{asked} questions have read all of it");
}

/// Bytes of memory of a process's own (RssAnon).
fn own_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("number") << 10
}

/// Six maps that each want more than all names may take: they share what is one user's part, and the names of
/// another user's process stay.
#[test]
fn many_maps_share_one_users_part() {
    const NAME: &str = "many_maps_share_one_users_part";
    const BUDGET: usize = 24 << 20;
    let Some(victim) = Jitted::start(NAME, VICTIM) else { return };
    victim.file().write_all(functions(0, 10_000).as_bytes()).expect("write");
    let attackers: Vec<Jitted> = (0..6).filter_map(|_| Jitted::start(NAME, ATTACKER)).collect();
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
    assert!(problems.len() >= 4 && problems.iter().all(|(_, why)| why.contains("read no further")), "{problems:?}");
    // Not read again: the file is gone.
    std::fs::remove_file(&victim.map).expect("remove");
    let name = resolver.resolve(good, 0x1000 + 77 * 64).map(|found| found.name.to_string());
    assert_eq!(name.as_deref(), Some("a_function_of_some_length_00000077"));
}
