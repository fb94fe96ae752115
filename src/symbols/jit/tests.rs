//! Map files that are read as they grow.

use super::*;
use crate::session::{DsoKind, Dsos};
use crate::symbols::trust::door;
use std::io::Write;
use std::path::Path;

fn name(told: &JitFunctions, at: u64) -> Option<String> {
    told.find(at).map(|s| String::from_utf8_lossy(s.name).into_owned())
}

fn recorded() -> SymbolOptions {
    SymbolOptions { live: false, ..SymbolOptions::live() }
}

#[test]
fn lines_and_what_is_none() {
    let mut all = JitFunctions::new(1 << 20);
    take_lines(b"1000 10 a b\nnonsense\n2000 20 old\n2000 20 LazyCompile:*fib /app/x.js:1\n3000 x y\n", &mut all);
    assert_eq!(name(&all, 0x100f).as_deref(), Some("a b"));
    assert_eq!(name(&all, 0x2001).as_deref(), Some("LazyCompile:*fib /app/x.js:1"));
    assert_eq!(name(&all, 0x3000), None);
    assert_eq!(name(&all, 0x2020), None);
}

#[test]
fn a_map_is_read_on_as_it_grows() {
    let mut file = tempfile::tempfile().expect("file");
    let (mut all, mut upto) = (JitFunctions::new(1 << 20), 0);
    let mut read = |file: &File, all: &mut JitFunctions| read_map(file, &mut upto, all, &mut VisitBudget::default());
    file.write_all(b"1000 10 first\n2000 10 half").expect("write");
    assert_eq!(read(&file, &mut all).expect("read"), VisitEnd::All);
    assert_eq!((name(&all, 0x1000).as_deref(), name(&all, 0x2000)), (Some("first"), None));
    file.write_all(b" and whole\n").expect("write");
    assert_eq!(read(&file, &mut all).expect("read"), VisitEnd::All);
    assert_eq!(name(&all, 0x2000).as_deref(), Some("half and whole"));
    file.write_all(&[b'x'; PIECE]).expect("write");
    let why = read(&file, &mut all).expect_err("no line of a JIT").to_string();
    assert!(why.contains("longer than 64 KiB"), "{why}");
}

#[test]
fn a_visit_ends_with_its_slice_and_the_next_goes_on() {
    let mut file = tempfile::tempfile().expect("file");
    let text: String = (0..50_000).map(|i| format!("{:x} 10 function_{i}\n", 0x1000 + i * 16)).collect();
    file.write_all(text.as_bytes()).expect("write");
    let (mut all, mut upto, mut visits) = (JitFunctions::new(16 << 20), 0, 1);
    while read_map(&file, &mut upto, &mut all, &mut VisitBudget::default()).expect("read") == VisitEnd::Part {
        visits += 1;
        assert!(upto <= visits * 4 * PIECE as u64);
    }
    assert!(visits as usize > text.len() / (4 * PIECE), "{visits}");
    assert_eq!(name(&all, 0x1000 + 49_999 * 16).as_deref(), Some("function_49999"));
    let mut small = JitFunctions::new(1 << 20);
    let mut long = VisitBudget { bytes: usize::MAX, until: Instant::now() + Duration::from_secs(600) };
    assert_eq!(read_map(&file, &mut 0, &mut small, &mut long).expect("read"), VisitEnd::Full);
    assert!(small.memory() <= 1 << 20);
}

#[test]
fn sizes_are_hexadecimal_and_names_are_lines() {
    let mut all = JitFunctions::new(1 << 20);
    assert!(take_lines(
        b"0x1000 0x10 with a sign\n5000\t10\tafter tabs\n2000 10 ended \r\n3000 10  \n4000 10\nffffffff81000000 8 far",
        &mut all
    ));
    let at = [0x100f, 0x1010, 0x200f, 0x3000, 0x4000, 0x500f];
    let want = [Some("with a sign"), None, Some("ended"), None, None, Some("after tabs")];
    assert_eq!(at.map(|at| name(&all, at)), want.map(|name| name.map(str::to_owned)));
    assert_eq!(name(&all, 0xffff_ffff_8100_0007).as_deref(), Some("far"));
    assert!(!take_lines(b"1 2 no room", &mut JitFunctions::new(0)));
}

#[test]
fn a_slice_ends_with_its_bytes_and_with_its_time() {
    let before = Instant::now();
    let slice = VisitBudget::default();
    assert!(slice.bytes == 4 * PIECE && slice.until >= before + Duration::from_millis(5));
    let far = Instant::now() + Duration::from_secs(600);
    let mut slice = VisitBudget { bytes: 10, until: far };
    assert_eq!(([3, 6, 1].map(|n| slice.take(n)), slice.bytes), ([true, true, false], 0));
    assert!(!VisitBudget { bytes: 10, until: far }.take(11));
    assert!(!VisitBudget { bytes: 10, until: before }.take(1));
}

#[test]
fn lines_that_are_no_functions_are_counted_and_told_once() {
    let stage = Stage::new();
    stage.write(b"1000 10 good\nzz 10 f\n2000 ffffffffffffffff all\n\n3000 0 stub\n4000 10  \n5000 10 last");
    let mut jit = Jit::new(&stage.dso, &recorded(), 1 << 20);
    stage.visit(&mut jit, &mut long()).expect("read");
    let name = |at: u64| jit.find(at).map(|s| String::from_utf8_lossy(s.name).into_owned());
    assert_eq!([0x1000, 0x3000, 0x500f].map(name), ["good", "stub", "last"].map(|name| Some(name.to_owned())));
    assert_eq!([0x2000, 0x3001, 0x4000, 1 << 40].map(name), [const { None }; 4]);
    let said = jit.take_left_out().expect("told");
    assert!(said.starts_with("3 entries of its JIT left out") && said.ends_with("\"zz 10 f\""), "{said}");
    assert_eq!(jit.take_left_out(), None);
}

/// Live, an unterminated line is still being written.
#[test]
fn the_last_line_is_taken_when_no_more_comes_to_it() {
    let stage = Stage::new();
    stage.write(b"1000 10 first\n2000 10 half");
    let mut jit = Jit::new(&stage.dso, &SymbolOptions::live(), 1 << 20);
    let visit = |jit: &mut Jit| stage.visit(jit, &mut long()).expect("read");
    visit(&mut jit);
    assert!(jit.find(0x1000).is_some() && jit.find(0x2000).is_none());
    visit(&mut jit);
    assert_eq!(jit.find(0x2000).map(|s| s.name), Some(&b"half"[..]));
    stage.write(b"1000 10 first\n2000 10 half and whole\n3000 1");
    visit(&mut jit);
    assert_eq!(jit.find(0x2000).map(|s| s.name), Some(&b"half and whole"[..]));
    // An incomplete line is not a function; it is reported once it no longer grows.
    assert_eq!(jit.take_left_out(), None);
    visit(&mut jit);
    visit(&mut jit);
    assert!(jit.take_left_out().is_some_and(|said| said.starts_with("1 entry of")), "once");
}

/// A visit without limits.
fn long() -> VisitBudget {
    VisitBudget { bytes: usize::MAX, until: Instant::now() + Duration::from_secs(600) }
}

#[test]
fn a_map_that_is_begun_anew_is_read_anew() {
    let mut file = tempfile::tempfile().expect("file");
    let (mut all, mut upto, mut slice) = (JitFunctions::new(1 << 20), 0, long());
    file.write_all(b"1000 10 first\n2000 10 second\n").expect("write");
    assert_eq!(read_map(&file, &mut upto, &mut all, &mut slice).expect("read"), VisitEnd::All);
    assert_eq!((upto, usize::MAX - slice.bytes), (29, 29));
    assert_eq!(read_map(&file, &mut upto, &mut all, &mut slice).expect("read"), VisitEnd::All);
    assert_eq!((upto, usize::MAX - slice.bytes), (29, 29));
    file.set_len(0).expect("emptied");
    file.write_all_at(b"3000 10 next\n", 0).expect("write");
    assert_eq!(read_map(&file, &mut upto, &mut all, &mut slice).expect("read"), VisitEnd::All);
    assert_eq!((upto, name(&all, 0x3000).as_deref()), (13, Some("next")));
}

/// The map of a recorded process: a file of ours, in a temporary directory.
struct Stage {
    dir: tempfile::TempDir,
    dso: Dso,
    options: SymbolOptions,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let dso = Dsos::default().named(dir.path().join("a.map").to_str().expect("text"), DsoKind::Anon);
        Self { dir, dso, options: SymbolOptions { live: false, ..SymbolOptions::live() } }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, bytes: &[u8]) {
        std::fs::write(self.at("a.map"), bytes).expect("write");
    }

    fn visit(&self, jit: &mut Jit, slice: &mut VisitBudget) -> Result<(), String> {
        jit.read_on(&self.dso, &self.options, slice)
    }
}

#[test]
fn a_file_is_waited_for_and_read_on() {
    let stage = Stage::new();
    let mut jit = Jit::new(&stage.dso, &recorded(), 1 << 20);
    assert!(jit.is_due() && jit.is_behind() && jit.user() == 0);
    let before = Instant::now();
    stage.visit(&mut jit, &mut long()).expect("nothing there");
    assert!(matches!(jit.state, State::Until(at) if at >= before + PATIENCE));
    assert!(!jit.is_due() && !jit.is_behind());
    stage.write(b"1000 10 first\n");
    stage.visit(&mut jit, &mut long()).expect("read");
    assert_eq!(jit.find(0x100f).map(|s| s.name.to_vec()).as_deref(), Some(&b"first"[..]));
    assert!(jit.memory() > 0 && jit.memory() == jit.told.memory());
    // A JIT with more than one visit can read is behind until the last visit.
    let text: String = (0..6000).map(|i| format!("{:x} 10 function_{i}\n", 0x2000 + i * 16)).collect();
    stage.write(text.as_bytes());
    stage.visit(&mut jit, &mut VisitBudget { bytes: 1, ..long() }).expect("a piece");
    assert!(jit.is_due() && jit.is_behind() && jit.find(0x2000 + 5999 * 16).is_none());
    stage.visit(&mut jit, &mut long()).expect("the rest");
    assert!(!jit.is_behind() && jit.find(0x2000 + 5999 * 16).is_some());
}

#[test]
fn what_is_read_is_looked_at_again_where_it_is_live() {
    let stage = Stage::new();
    let [past, later] = [Instant::now(), Instant::now() + Duration::from_secs(600)];
    for (live, state, is_due) in [
        (true, State::Until(past), true),
        (true, State::Until(later), false),
        (false, State::Until(past), false),
        (false, State::Reading, true),
        (true, State::Done, false),
    ] {
        let jit = Jit { state, ..Jit::new(&stage.dso, &SymbolOptions { live, ..SymbolOptions::live() }, 1 << 20) };
        assert_eq!(jit.is_due(), is_due, "{live} {state:?}");
    }
}

#[test]
fn a_dump_that_turns_up_is_followed_once() {
    let mut stage = Stage::new();
    let mut jit = Jit::new(&stage.dso, &recorded(), 1 << 20);
    stage.write(b"1000 10 first\n");
    stage.visit(&mut jit, &mut long()).expect("read");
    assert!(jit.wanted.is_empty());
    jit.follow(&stage.dso);
    assert!(jit.wanted.is_empty() && !jit.is_behind());
    let path = stage.at("jit-7.dump");
    stage.dso.dump = Some(path.as_os_str().as_bytes().into());
    for _ in 0..2 {
        jit.follow(&stage.dso);
        assert_eq!((&jit.wanted, jit.state), (&vec![(path.clone(), true)], State::Reading));
    }
    let mut head = [0; 40];
    head[..4].copy_from_slice(&0x4a69_5444u32.to_le_bytes());
    head[8] = 40;
    std::fs::write(&path, head).expect("write");
    stage.visit(&mut jit, &mut long()).expect("read");
    assert_eq!((jit.files.iter().map(|file| file.dump).collect::<Vec<_>>(), jit.wanted.len()), (vec![false, true], 0));
    jit.follow(&stage.dso);
    assert!(jit.wanted.is_empty() && !jit.is_behind());
    // Both files are wanted from the start if both are known.
    let both = Jit::new(&stage.dso, &recorded(), 1 << 20);
    assert_eq!(both.wanted, [(stage.at("a.map"), false), (path.clone(), true)]);
    let mut done = Jit { state: State::Done, wanted: Vec::new(), ..both };
    done.follow(&stage.dso);
    assert!(done.wanted.is_empty() && done.state == State::Done);
}

#[test]
fn what_is_refused_is_said_once() {
    let stage = Stage::new();
    let target = stage.at("target");
    std::fs::write(&target, b"1000 10 first\n").expect("write");
    std::os::unix::fs::symlink(&target, stage.at("a.map")).expect("link");
    let mut jit = Jit::new(&stage.dso, &SymbolOptions::live(), 1 << 20);
    let why = stage.visit(&mut jit, &mut long()).expect_err("a link");
    assert!(why.contains("is a symbolic link"), "{why}");
    assert!(!jit.is_due() && !jit.is_behind() && jit.find(0x1000).is_none());
}

/// The DSO is called after the map.
#[test]
fn problems_of_a_jitdump_file_name_it() {
    let stage = Stage::new();
    let dump = stage.at("jit-1.dump");
    std::fs::write(&dump, [b'x'; 40]).expect("write");
    let dso = Dso { dump: Some(dump.as_os_str().as_bytes().into()), ..stage.dso.clone() };
    let why = Jit::new(&dso, &recorded(), 1 << 20).read_on(&dso, &recorded(), &mut long()).expect_err("no dump");
    assert_eq!(why, format!("its jitdump file {}: not a jitdump file", dump.display()));
}

/// One function repeated: 16-byte lines, eight times the limit, and one line more.
#[test]
fn what_is_written_again_and_again_is_read_to_an_end() {
    const MOST: usize = 1 << 18;
    let stage = Stage::new();
    let mut jit = Jit::new(&stage.dso, &recorded(), MOST);
    let line = b"1000 10 abcdefg\n";
    stage.write(&line.repeat(8 * MOST / line.len()));
    stage.visit(&mut jit, &mut long()).expect("within the limit");
    assert_eq!((jit.read, jit.is_behind()), (8 * MOST as u64, false));
    stage.write(&line.repeat(8 * MOST / line.len() + 1));
    let why = stage.visit(&mut jit, &mut long()).expect_err("too much");
    assert_eq!(why, "its JIT wrote more than 2 MB: the rest is ignored; increase --memory");
    assert!(!jit.is_due() && jit.find(0x1000).is_some());
    // A name that does not fit ends reading at once.
    let mut small = Jit::new(&stage.dso, &recorded(), 10);
    let why = stage.visit(&mut small, &mut long()).expect_err("no room");
    assert!(why.contains("more than 0 MB") && small.memory() == 0, "{why}");
}

#[test]
fn names_are_its_users() {
    let stage = Stage::new();
    stage.write(b"1000 10 first\n");
    let (mut user, mut options) = (rustix::process::geteuid().as_raw(), stage.options.clone());
    if user == 0 {
        use std::os::unix::fs::{PermissionsExt, chown};
        user = 4242;
        let open = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode));
        open(stage.dir.path(), 0o755).and_then(|()| open(&stage.at("a.map"), 0o644)).expect("readable by all");
        chown(stage.at("a.map"), Some(user), None).expect("owner");
        options.authors.add_writers(&door::own(&stage.at("a.map")).expect("file"));
    }
    let mut jit = Jit::new(&stage.dso, &recorded(), 1 << 20);
    jit.read_on(&stage.dso, &options, &mut long()).expect("its own");
    assert_eq!(jit.user(), user);
}
