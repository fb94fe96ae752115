//! Directory trees, and which of their files belongs to a DSO.

use super::*;
use std::os::unix::fs::MetadataExt;

use crate::record::Record;
use crate::record::kinds::Mmap;
use crate::session::{Origin, Session};
use crate::symbols::bytes::Bytes;
use crate::symbols::trust::same_file::RecordedTimes;

/// A small program, linked at a fixed address.
pub(crate) const SPIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bin/spin-nopie");

pub(crate) fn map(path: impl AsRef<Path>) -> Bytes {
    Bytes::of(&std::fs::File::open(path).expect("open")).expect("map")
}

pub(crate) fn libc() -> Bytes {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let path = maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.contains("libc.so")));
    map(path.expect("a C library"))
}

/// Returns the DSO of this program's code, and the address's offset in it.
pub(crate) fn own_dso(address: u64) -> (Dso, u64) {
    let mut session = Session::new(Origin::Live);
    let pid = std::process::id() as i32;
    session.task(pid, pid);
    let map = session.user_map(pid, address);
    (session.dsos.of_map(map).clone(), session.dsos.map_of(map).to_dso(address))
}

/// Returns the DSO of a file that a recording reports as mapped.
pub(crate) fn dso(path: &Path, file: FileId) -> Dso {
    let mut session = Session::new(Origin::Recorded);
    let name = path.as_os_str().as_bytes();
    let map = Mmap { pid: 1, tid: 1, start: 0, len: 0x1000, pgoff: 0, file, prot: 5, flags: 2, name };
    session.apply(&Record::Mmap(map), 0);
    session.dsos.of_map(session.user_map(1, 0x10)).clone()
}

#[test]
fn another_file_under_the_name_is_told_by_device_and_inode() {
    let file = tempfile::NamedTempFile::new().expect("file");
    let meta = file.as_file().metadata().expect("meta");
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    let id = |major, inode| FileId::Inode { major, minor, inode, generation: 0 };
    let options = SymbolOptions { live: false, ..SymbolOptions::live() };
    let main = |id| FileSearch::new(&dso(file.path(), id), &options).expect("places").main().map(|_| ());
    main(id(major, meta.ino())).expect("the file itself");
    let said = main(id(major, meta.ino() + 1)).expect_err("another inode").to_string();
    assert_eq!(said, "the file that was mapped was replaced (another inode)");
    // If one of the devices does not have a number, only the inode is compared.
    main(id(0, meta.ino())).expect("the inode agrees");
    if major != 0 {
        main(id(major + 1, meta.ino())).expect_err("another device");
    }
}

#[test]
fn devices_agree_where_both_are_plain() {
    for (stat, mapped, same) in [
        ((8, 1), (8, 1), true),
        ((8, 1), (8, 2), false),
        ((8, 1), (9, 1), false),
        ((0, 1), (9, 2), true),
        ((8, 1), (0, 2), true),
    ] {
        assert_eq!(same_file::is_same_device(stat, mapped), same, "{stat:?} {mapped:?}");
    }
}

/// Another file with that name has another inode. It is ignored with a build ID, or when names are of another machine.
#[test]
fn what_tells_another_file() {
    let file = tempfile::NamedTempFile::new().expect("file");
    let other = FileId::Inode { major: 0, minor: 0, inode: u64::MAX, generation: 0 };
    for (live, symfs, id, opens) in [
        (false, false, None, false),
        (false, false, BuildId::new(&[7; 20]), true),
        (true, false, BuildId::new(&[7; 20]), false),
        (true, true, None, true),
    ] {
        let options = SymbolOptions { live, symfs: symfs.then(|| "/".into()), ..SymbolOptions::live() };
        let dso = Dso { build_id: id, via: None, ..dso(file.path(), other) };
        let main = FileSearch::new(&dso, &options).expect("places").main();
        assert_eq!(main.is_ok(), opens, "{live} {symfs} {id:?}");
    }
}

/// A tree of files whose content is their path, and a DSO below it.
struct Tree {
    dir: tempfile::TempDir,
    dso: Dso,
    options: SymbolOptions,
}

impl Tree {
    fn new(path: &str) -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let options = SymbolOptions { symfs: Some(dir.path().to_owned()), ..SymbolOptions::live() };
        Self { dir, dso: dso(Path::new(path), FileId::None), options }
    }

    fn write(&self, path: &str) -> PathBuf {
        let at = self.dir.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(at.parent().expect("parent")).expect("mkdir");
        std::fs::write(&at, path).expect("write");
        at
    }

    fn places(&self) -> FileSearch<'_> {
        FileSearch::new(&self.dso, &self.options).expect("places")
    }
}

fn read(file: File) -> String {
    io::read_to_string(file).expect("text")
}

#[test]
fn files_below_another_root() {
    let tree = Tree::new("/usr/bin/a (deleted)");
    assert!(tree.places().main().is_err());
    for path in ["/usr/bin/a", "/usr/bin/b.dwo", "/src/x.c"] {
        tree.write(path);
    }
    let mut places = tree.places();
    assert_eq!(read(places.main().expect("there").file), "/usr/bin/a");
    assert_eq!(places.code(Path::new("/usr/bin/b.dwo")).map(read).as_deref(), Some("/usr/bin/b.dwo"));
    assert_eq!(places.code(Path::new("/src/x.c")).map(read).as_deref(), Some("/src/x.c"));
    assert!(places.code(Path::new("/usr/bin/c.dwo")).is_none());
    assert_eq!(read(places.source(Path::new("/src/x.c"), &TrustedUids::default()).expect("there")), "/src/x.c");
    assert_eq!(read(places.jit(Path::new("/src/x.c"), true).expect("ours")), "/src/x.c");
    assert!(places.jit(Path::new("/src/y.c"), true).is_err());
    assert_eq!(places.door.namers, TrustedUids::default());
    // A file whose name really ends like this.
    tree.write("/usr/bin/a (deleted)");
    assert_eq!(read(tree.places().main().expect("there").file), "/usr/bin/a (deleted)");
}

#[test]
fn files_of_a_flat_root_have_no_folders() {
    let mut tree = Tree::new("/usr/bin/a (deleted)");
    tree.write("/usr/bin/a");
    tree.options.flat = true;
    assert!(tree.places().main().is_err());
    tree.write("/a");
    assert_eq!(read(tree.places().main().expect("there").file), "/a");
}

#[test]
fn those_who_name_files_are_remembered() {
    let tree = Tree::new("/a");
    tree.write("/x.c");
    let file = tempfile::NamedTempFile::new().expect("file");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(file.path(), Some(4242), None).expect("owner");
    }
    let mut known = TrustedUids::default();
    known.add_writers(file.as_file());
    assert_ne!(known, TrustedUids::default());
    let mut places = tree.places();
    places.hear(file.as_file());
    assert_eq!(places.door.namers, known);
    let mut places = tree.places();
    let _ = places.source(Path::new("/x.c"), &known);
    assert_eq!(places.door.namers, known);
}

#[test]
fn debug_files_by_link_in_their_order() {
    let tree = Tree::new("/usr/bin/a");
    let list = ["/usr/bin/a.debug", "/usr/bin/.debug/a.debug", "/usr/lib/debug/usr/bin/a.debug"];
    list.iter().for_each(|path| drop(tree.write(path)));
    tree.write("/etc/a.debug");
    let found = |name: &[u8]| tree.places().by_link(name).map(|(file, path)| (read(file), path)).collect::<Vec<_>>();
    let want = list.map(|path| (path.to_owned(), PathBuf::from(path)));
    assert_eq!(found(b"a.debug"), want);
    assert_eq!(found(b"/etc/a.debug"), want, "only the file name is used");
    assert_eq!((found(b"b.debug"), found(b"..")), (vec![], vec![]));
}

#[test]
fn debug_files_by_build_id_in_their_order() {
    let id = BuildId::new(&[0xab; 20]).expect("an id");
    let (head, tail) = ("ab", "ab".repeat(19));
    let mut tree = Tree::new("/usr/bin/a");
    let cache = tempfile::tempdir().expect("dir");
    tree.options.caches = vec![cache.path().join("none"), cache.path().to_owned()];
    tree.options.debuginfod = vec![cache.path().join("none"), cache.path().join("client")];
    let below = |path: &str| {
        let at = cache.path().join(path);
        std::fs::create_dir_all(at.parent().expect("parent")).expect("mkdir");
        std::fs::write(&at, path).expect("write");
        (path.to_owned(), at)
    };
    let inside = |dir: &str| {
        let path = format!("{dir}/{head}/{tail}.debug");
        (path.clone(), tree.write(&path), PathBuf::from(path))
    };
    let found = || tree.places().by_build_id(&id).map(|(file, path)| (read(file), path));
    assert_eq!(found(), None);
    let fetched = below(&format!("client/{head}{tail}/debuginfo"));
    assert_eq!(found(), Some(fetched));
    let (cached, _) = below(&format!(".build-id/{head}/{tail}/debug"));
    assert_eq!(found(), Some((cached, PathBuf::from("the build-id cache"))));
    let (flat, _, path) = inside("/.build-id");
    assert_eq!(found(), Some((flat, path)));
    let (installed, _, path) = inside("/usr/lib/debug/.build-id");
    assert_eq!(found(), Some((installed, path)));
    let other = BuildId::new(&[0xac; 20]).expect("an id");
    assert!(tree.places().by_build_id(&other).is_none());
}

#[test]
fn a_cache_of_files_by_build_id() {
    let id = BuildId::new(&[0xcd; 20]).expect("an id");
    let (dir, tail) = (tempfile::tempdir().expect("dir"), "cd".repeat(19));
    let caches = [dir.path().join("none"), dir.path().to_owned()];
    let head = dir.path().join(".build-id/cd");
    let found = |kind: &str| in_cache(&caches, &id, kind).map(|at| at.strip_prefix(&head).expect("below").to_owned());
    std::fs::create_dir_all(&head).expect("mkdir");
    assert_eq!((found("elf"), found("debug")), (None, None));
    std::fs::write(head.join(format!("{tail}.debug")), b"debug").expect("write");
    assert_eq!((found("elf"), found("debug")), (None, Some(format!("{tail}.debug").into())));
    std::fs::write(head.join(&tail), b"whole").expect("write");
    assert_eq!(found("elf"), Some(PathBuf::from(&tail)));
    std::fs::remove_file(head.join(&tail)).expect("removed");
    for kind in ["elf", "debug", "vdso"] {
        std::fs::create_dir_all(head.join(&tail)).expect("mkdir");
        std::fs::write(head.join(&tail).join(kind), kind).expect("write");
        assert_eq!(found(kind), Some(Path::new(&tail).join(kind)));
    }
    let tree = Tree { options: SymbolOptions { caches: caches.to_vec(), ..SymbolOptions::live() }, ..Tree::new("/a") };
    assert_eq!(tree.places().cached(&id, "vdso").map(read).as_deref(), Some("vdso"));
    assert!(tree.places().cached(&id, "none").is_none());
}

#[test]
fn a_process_that_lives_is_asked_for_its_files() {
    let pid = std::process::id() as i32;
    let own = std::env::current_exe().expect("a program");
    let map = procfs::exec_maps(pid).into_iter().find(|map| map.name == own.as_os_str().as_bytes()).expect("mapped");
    let dso = Dso { via: Some((pid, map.start, map.end)), ..dso(&own, FileId::None) };
    let options = SymbolOptions::live();
    assert_eq!(process_of(&dso, &options), Some(pid));
    assert_eq!(process_of(&dso, &SymbolOptions { live: false, ..SymbolOptions::live() }), None);
    assert_eq!(process_of(&dso, &SymbolOptions { symfs: Some("/".into()), ..SymbolOptions::live() }), None);
    let ino = |found: io::Result<FoundFile>| found.and_then(|found| found.file.metadata()).map(|meta| meta.ino()).ok();
    let want = std::fs::metadata(&own).ok().map(|meta| meta.ino());
    let places = FileSearch::new(&dso, &options).expect("places");
    assert_eq!((places.inside, ino(places.main())), (Inside::Live, want));
    if rustix::process::geteuid().is_root() {
        // Another path does not matter.
        let lost = Dso { raw_path: b"/nowhere"[..].into(), ..dso.clone() };
        assert_eq!(ino(FileSearch::new(&lost, &options).expect("places").main()), want);
        // Another file at that address does, such as one mapped in its place.
        let other = FileId::Inode { major: 8, minor: 1, inode: u64::MAX, generation: 0 };
        let other = Dso { file: other, ..lost };
        assert!(FileSearch::new(&other, &options).expect("places").main().is_err());
    }
    // Its map has the PID of the process's own namespace; other files are named in full.
    let at = format!("/tmp/perf-{pid}.map");
    std::fs::write(&at, b"1000 10 own\n").expect("write");
    let map = places.jit(Path::new("/tmp/perf-0.map"), false).map(read);
    let dump = places.jit(Path::new(&at), true).map(read);
    let none = places.jit(Path::new("/tmp/jit-none/jit-0.dump"), true).map(read);
    std::fs::remove_file(&at).expect("removed");
    assert_eq!((map.ok().as_deref(), dump.ok().as_deref()), (Some("1000 10 own\n"), Some("1000 10 own\n")));
    assert_eq!(none.map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
    // For an exited process, the files of this machine are used.
    let gone = Dso { via: Some((i32::MAX, 0, 1)), ..dso.clone() };
    let places = FileSearch::new(&gone, &options).expect("places");
    assert_eq!((places.inside, ino(places.main())), (Inside::No, want));
}

/// The map's process has ended; its start is known from the recording, exactly or as a lower bound.
#[test]
fn a_map_older_than_a_process_that_has_ended_is_refused() {
    const SECOND: i64 = 1_000_000_000;
    let map = tempfile::NamedTempFile::new().expect("file");
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(5000);
    map.as_file().set_modified(at).expect("a time");
    let refused = |times: RecordedTimes, since: u64| {
        let options = SymbolOptions { live: false, times, ..SymbolOptions::live() };
        let dso = Dso { via: Some((i32::MAX, 0x1000, 0x2000)), since, ..dso(map.path(), FileId::None) };
        let opened = FileSearch::new(&dso, &options).expect("places").jit(map.path(), false);
        opened.err().map(|error| door::is_older(&error))
    };
    let exact = |lead: i64| RecordedTimes { lead: Some(lead * SECOND), ..RecordedTimes::default() };
    let least = |lead: i64| RecordedTimes { least_lead: Some(lead * SECOND), ..RecordedTimes::default() };
    let since = 100 * SECOND as u64;
    for times in [exact as fn(i64) -> RecordedTimes, least] {
        assert_eq!((refused(times(4902), since), refused(times(4900), since)), (Some(true), None));
        // Mapped before the recording: unknown when.
        assert_eq!(refused(times(4902), 0), None);
    }
    assert_eq!(refused(RecordedTimes::default(), since), None);
}

/// A recording reports mappings from before its start without a time; the process that still runs has one.
#[test]
fn a_map_older_than_a_process_that_still_runs_is_refused() {
    let pid = std::process::id() as i32;
    let started = procfs::started(pid).expect("a start time");
    let map = tempfile::NamedTempFile::new().expect("file");
    let refused = |written: u64, until: u64| {
        let at = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(written);
        map.as_file().set_modified(at).expect("a time");
        let times = RecordedTimes { until: Some(until), ..RecordedTimes::default() };
        let options = SymbolOptions { live: false, times, ..SymbolOptions::live() };
        let dso = Dso { via: Some((pid, 0x1000, 0x2000)), since: 0, ..dso(map.path(), FileId::None) };
        let places = FileSearch::new(&dso, &options).expect("places");
        assert!(places.jit(map.path(), true).is_ok(), "a jitdump has its own times");
        places.jit(map.path(), false).err().map(|error| door::is_older(&error))
    };
    let second = 1_000_000_000;
    let old = started - 2 * 86_400 * second;
    assert_eq!(refused(old, started + second), Some(true));
    assert_eq!(refused(started + second, started + second), None);
    // The process that has the number now started after the recording.
    assert_eq!(refused(old, started - second), None);
}

#[test]
fn a_mapping_is_opened_only_if_it_has_its_inode() {
    let pid = std::process::id() as i32;
    // Overlay file systems report other numbers in maps.
    let maps = procfs::exec_maps(pid);
    let Some(map) = maps.iter().find(|map| map.inode != 0 && map.major != 0) else { return };
    let file = of_mapping(pid, map).expect("it is mapped");
    assert_eq!(std::os::unix::fs::MetadataExt::ino(&file.metadata().expect("open")), map.inode);
    let other = procfs::ProcMapping { inode: map.inode + 1, ..map.clone() };
    assert!(of_mapping(pid, &other).is_err());
}
