//! Identity of files, processes and times: a wrong symbol is worse than none.
//!
//! The tests create their recordings record by record.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::made::{BASE, event, has};
use crate::common::{data, our_rows, program};
use perfprof_tui::kernel::attr::Flag;
use perfprof_tui::kernel::files::NewFile;
use perfprof_tui::perfdata::EventDesc;
use perfprof_tui::perfdata::features::{event_desc, string};
use perfprof_tui::perfdata::write::Writer;
use perfprof_tui::record::kinds::{FileId, Mmap, encode, encode_comm};
use perfprof_tui::record::sample::SampleId;

/// A PID that no process on the machine has.
const PID: i32 = 2_000_000_011;
/// Memory without a file.
const CODE: u64 = 0x7f00_0000_0000;
/// `main` and `alpha` of spin, which is mapped at [`BASE`].
const ALPHA: u64 = BASE + 0x1210;
/// `MAP_SHARED` and `MAP_PRIVATE`.
const SHARED: u32 = 1;
const PRIVATE: u32 = 2;

/// The records of one process, each at its own time.
struct Made {
    event: EventDesc,
    out: Vec<u8>,
    /// Wall clock and recording clock at the same moment.
    clock: Option<(u64, u64)>,
}

impl Made {
    fn new() -> Self {
        let mut event = event("cycles", 0, has::ALWAYS);
        event.attr.set(Flag::UseClockid, true);
        event.attr.clockid = 1;
        let mut made = Self { event, out: Vec::new(), clock: None };
        let trailer = made.trailer(PID, 1);
        encode_comm(&mut made.out, PID, PID, true, b"made", &trailer).expect("fits");
        made
    }

    fn trailer(&self, tid: i32, time: u64) -> Vec<u8> {
        let id = SampleId { pid: PID, tid, time, id: self.event.ids[0], cpu: 0 };
        self.event.layout().encode_trailer(&id)
    }

    fn map(&mut self, time: u64, code: Range<u64>, pgoff: u64, file: FileId, flags: u32, name: &str) {
        let (start, len) = (code.start, code.end - code.start);
        let map = Mmap { pid: PID, tid: PID, start, len, pgoff, file, prot: 5, flags, name: name.as_bytes() };
        let trailer = self.trailer(PID, time);
        map.encode(&mut self.out, &trailer).expect("fits");
    }

    fn anonymous(&mut self, time: u64, len: u64) {
        self.map(time, CODE..CODE + len, 0, FileId::None, PRIVATE, "//anon");
    }

    /// A thread starts (7, FORK) or ends (4, EXIT).
    fn task(&mut self, kind: u32, time: u64, tid: i32) {
        let trailer = self.trailer(tid, time);
        encode(&mut self.out, kind, 0, |body| {
            [PID, PID, tid, PID].iter().for_each(|word| body.extend(word.to_le_bytes()));
            body.extend(time.to_le_bytes());
            body.extend(trailer);
        })
        .expect("fits");
    }

    fn samples(&mut self, time: u64, tid: i32, ip: u64, count: u64) {
        let id = self.event.ids[0];
        for i in 0..count {
            encode(&mut self.out, 9, 2, |body| {
                let thread = u64::from(tid as u32) << 32 | PID as u64;
                [id, ip, thread, time + i, 0, 1000].iter().for_each(|word| body.extend(word.to_le_bytes()));
            })
            .expect("fits");
        }
    }

    fn write(&self, path: &Path) {
        let events = [self.event.clone()];
        let mut writer = Writer::start(NewFile::create(path).expect("created"), &events).expect("begun");
        writer.records(&self.out).expect("written");
        let own = |name: &str| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).expect("a name");
        let machine = [(3, own("hostname")), (4, own("osrelease")), (5, "6.1".to_owned()), (6, "x86_64".to_owned())];
        let mut sections: Vec<_> = machine.iter().map(|(bit, text)| (*bit, string(text.trim()))).collect();
        sections.push(event_desc(&events));
        if let Some((wall, at)) = self.clock {
            let data = [1u64 << 32 | 1, wall, at].iter().flat_map(|word| word.to_le_bytes()).collect();
            sections.push((29, data));
        }
        writer.finish(sections, &events).expect("finished");
    }

    /// Returns samples by function, and the warnings about missing symbols.
    fn report(&self, path: &Path) -> (Vec<(String, u64)>, String) {
        self.write(path);
        report(path)
    }
}

fn report(path: &Path) -> (Vec<(String, u64)>, String) {
    let output = program().args(["report", "--format", "json"]).arg(path).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let mut rows: Vec<(String, u64)> = Vec::new();
    for ((_, _, name), count) in our_rows(&output.stdout) {
        // One row for all addresses without symbols.
        let name = if name.starts_with("0x") { "-".to_owned() } else { name };
        match rows.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += count,
            None => rows.push((name, count)),
        }
    }
    (rows, said)
}

fn rows(list: &[(&str, u64)]) -> Vec<(String, u64)> {
    list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

/// A jitdump file: loads of code (time, address, name, 64 bytes each) and moves (time, from, to).
struct Dump(Vec<u8>);

impl Dump {
    fn new() -> Self {
        let mut out = Vec::new();
        [0x4a69_5444u32, 1, 40, 62, 0, PID as u32].iter().for_each(|word| out.extend(word.to_le_bytes()));
        [900u64, 0].iter().for_each(|word| out.extend(word.to_le_bytes()));
        Self(out)
    }

    fn record(&mut self, kind: u32, time: u64, words: &[u64], rest: &[u8]) {
        let size = 16 + 8 * words.len() + rest.len();
        self.0.extend([kind, size as u32].iter().flat_map(|word| word.to_le_bytes()));
        self.0.extend(std::iter::once(&time).chain(words).flat_map(|word| word.to_le_bytes()));
        self.0.extend(rest);
    }

    fn load(mut self, time: u64, at: u64, name: &str) -> Self {
        let rest = [name.as_bytes(), &[0], &[0x90; 64]].concat();
        self.record(0, time, &[0, at, at, 64, 1], &rest);
        self
    }

    fn moved(mut self, time: u64, from: u64, to: u64) -> Self {
        self.record(1, time, &[0, from, from, to, 64, 1], &[]);
        self
    }

    fn write(&self, dir: &Path) -> PathBuf {
        let path = dir.join(format!("jit-{PID}.dump"));
        std::fs::write(&path, &self.0).expect("written");
        path
    }
}

/// New code at an address of older code has its own symbol from its load time on.
#[test]
fn a_jits_address_has_the_name_of_its_time() {
    let dir = tempfile::tempdir().expect("dir");
    let (first, second, third) = (CODE + 0x100, CODE + 0x200, CODE + 0x300);
    let dump = Dump::new().load(1000, first, "func_a").load(2000, first, "func_b").load(1000, second, "moved");
    let dump = dump.moved(2500, second, third).load(1000, CODE + 0x400, "alone").write(dir.path());
    let mut made = Made::new();
    made.map(910, BASE..BASE + 0x1000, 0, FileId::None, PRIVATE, &dump.to_string_lossy());
    made.anonymous(920, 0x10000);
    made.samples(1500, PID, first + 4, 10);
    made.samples(1600, PID, second + 4, 3);
    made.samples(2400, PID, first + 4, 30);
    // A later mapping of the same memory keeps the symbols.
    made.anonymous(2600, 0x20000);
    made.samples(2700, PID, first + 8, 5);
    made.samples(2800, PID, second + 4, 2);
    made.samples(2900, PID, third + 4, 4);
    made.samples(2950, PID, CODE + 0x404, 1);
    let (found, _) = made.report(&dir.path().join("a.data"));
    assert_eq!(found, rows(&[("-", 2), ("alone", 1), ("func_a", 10), ("func_b", 35), ("moved", 7)]));
    // With another clock the load times are not comparable: only addresses that had a single symbol are named.
    made.event.attr.set(Flag::UseClockid, false);
    let (found, _) = made.report(&dir.path().join("b.data"));
    assert_eq!(found, rows(&[("-", 50), ("alone", 1), ("moved", 4)]));
}

/// Records count in the order of their times, not of the file. Code has no name before its first record, and
/// a function that moves or is loaded again is one row.
#[test]
fn a_jits_records_count_in_order_of_time() {
    let (first, second) = (CODE + 0x100, CODE + 0x300);
    let early = |dump: Dump| dump.load(1000, first, "func_a");
    let late = |dump: Dump| dump.load(2000, first, "func_b");
    let again = |dump: Dump| dump.load(3000, first, "func_a");
    let moved = |dump: Dump| dump.moved(2000, first, second);
    let away = |dump: Dump| dump.load(2500, first, "other");
    let dir = tempfile::tempdir().expect("dir");
    let check = |name: &str, dump: Dump, samples: &[(u64, u64, u64)], want: &[(&str, u64)]| {
        let folder = dir.path().join(name);
        std::fs::create_dir(&folder).expect("folder");
        let dump = dump.write(&folder);
        let mut made = Made::new();
        made.map(910, BASE..BASE + 0x1000, 0, FileId::None, PRIVATE, &dump.to_string_lossy());
        // Memory may be reported after the first code in it.
        made.anonymous(1100, 0x10000);
        samples.iter().for_each(|(time, ip, count)| made.samples(*time, PID, *ip + 4, *count));
        let path = folder.join("a.data");
        let (found, said) = made.report(&path);
        assert_eq!(found, rows(want), "{name}: {said}");
        let output = program().args(["report", "--format", "json"]).arg(&path).output().expect("runs");
        assert_eq!(our_rows(&output.stdout).len(), want.len(), "{name}");
    };
    let twice = [(1500, first, 10), (2500, first, 30)];
    let both = [("func_a", 10), ("func_b", 30)];
    check("in order", late(early(Dump::new())), &twice, &both);
    check("swapped", early(late(Dump::new())), &twice, &both);
    let thrice = [twice[0], twice[1], (3500, first, 7)];
    let all = [("func_a", 17), ("func_b", 30)];
    check("a b a", again(late(early(Dump::new()))), &thrice, &all);
    check("a again b", late(again(early(Dump::new()))), &thrice, &all);
    check("all swapped", early(late(again(Dump::new()))), &thrice, &all);
    let move_of = [(1500, first, 10), (2600, second, 30)];
    check("moved", moved(early(Dump::new())), &move_of, &[("func_a", 40)]);
    check("moved before", early(moved(Dump::new())), &move_of, &[("func_a", 40)]);
    let reused = [move_of[0], move_of[1], (2700, first, 5)];
    check("reused", away(early(moved(Dump::new()))), &reused, &[("func_a", 40), ("other", 5)]);
    check("before its load", late(Dump::new()), &twice, &[("-", 10), ("func_b", 30)]);
    let overlap = Dump::new().load(2000, first + 32, "func_b").load(1000, first, "func_a");
    let inside = [(1500, first + 36, 10), (2500, first + 36, 30), (2600, first, 5)];
    check("overlapping", overlap, &inside, &[("func_a", 15), ("func_b", 30)]);
}

/// A copy of spin with its file identity in the recording.
fn spin(dir: &Path) -> (PathBuf, FileId) {
    let path = dir.join("spin");
    std::fs::copy(data("bin/spin"), &path).expect("copied");
    (path.clone(), id_of(&path))
}

fn id_of(path: &Path) -> FileId {
    let meta = std::fs::metadata(path).expect("there");
    let (major, minor) = (libc::major(meta.dev()), libc::minor(meta.dev()));
    FileId::Inode { major, minor, inode: meta.ino(), generation: 0 }
}

/// A rebuilt program is not symbolized with the old one's symbols, even with the same inode.
#[test]
fn a_program_that_was_changed_since_is_not_believed() {
    let dir = tempfile::tempdir().expect("dir");
    let (path, id) = spin(dir.path());
    let mut made = Made::new();
    made.map(10, BASE + 0x1000..BASE + 0x2000, 0x1000, id, PRIVATE, &path.to_string_lossy());
    made.samples(20, PID, ALPHA + 4, 7);
    let recording = dir.path().join("a.data");
    let named = rows(&[("burn_alpha", 7)]);
    let (found, unchanged) = made.report(&recording);
    assert_eq!(found, named);
    // The changed mode did not change the contents, but that cannot be verified.
    std::thread::sleep(Duration::from_millis(20));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).expect("set");
    let (found, said) = report(&recording);
    assert!(found == named && said != unchanged, "{found:?} {said}");
    let mut messages = vec![unchanged.clone(), said];
    // Overwritten in place.
    let bytes = std::fs::read(data("bin/spin-nofp")).expect("another");
    std::fs::write(&path, bytes).expect("written");
    let (found, said) = report(&recording);
    assert_eq!(found, rows(&[("-", 7)]), "{said}");
    messages.push(said);
    // Replaced by a new file with the old modification time.
    std::fs::remove_file(&path).expect("removed");
    spin(dir.path());
    let file = File::options().write(true).open(&path).expect("open");
    file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("set");
    let (found, said) = report(&recording);
    assert!(found != named || said != unchanged, "{said}");
    let folder = dir.path().to_string_lossy().into_owned();
    insta::assert_snapshot!("changed-programs", messages.join("\n").replace(&folder, "DIR"));
}

/// `perf inject --jit` writes each function to a file, and maps it shared, as memory with written code is.
#[test]
fn a_program_that_is_mapped_shared_has_its_names() {
    let dir = tempfile::tempdir().expect("a folder");
    let (path, id) = spin(dir.path());
    let mut made = Made::new();
    let name = path.with_file_name(format!("jitted-{PID}-1.so"));
    std::fs::rename(&path, &name).expect("renamed");
    made.map(1_000, BASE + 0x1000..BASE + 0x2000, 0x1000, id, SHARED, name.to_str().expect("UTF-8"));
    made.samples(2_000, PID, ALPHA + 4, 4);
    assert_eq!(made.report(&dir.path().join("shared.data")).0, rows(&[("burn_alpha", 4)]));
}

/// Data about a process stays until its last thread has ended.
#[test]
fn a_process_goes_on_without_its_first_thread() {
    let dir = tempfile::tempdir().expect("dir");
    let (path, id) = spin(dir.path());
    let mut made = Made::new();
    made.map(10, BASE + 0x1000..BASE + 0x2000, 0x1000, id, PRIVATE, &path.to_string_lossy());
    made.task(7, 20, PID + 1);
    made.task(7, 21, PID + 2);
    made.task(4, 30, PID);
    made.task(4, 40, PID + 2);
    // Ended threads are removed when the next thread ends.
    made.task(4, 9_000_000_000, PID + 2);
    made.samples(9_000_000_100, PID + 1, ALPHA + 4, 3);
    let (found, said) = made.report(&dir.path().join("a.data"));
    assert_eq!(found, rows(&[("burn_alpha", 3)]), "{said}");
}

/// A file in /tmp that is removed with the test.
struct PerfMap(PathBuf);

impl PerfMap {
    fn write(pid: i32, text: &str) -> Self {
        let path = PathBuf::from(format!("/tmp/perf-{pid}.map"));
        std::fs::write(&path, text).expect("written");
        Self(path)
    }
}

impl Drop for PerfMap {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A map of an earlier process with the same PID is ignored; code in a writable shared file is JIT code.
#[test]
fn a_map_is_of_its_process_alone_and_of_all_its_code() {
    let dir = tempfile::tempdir().expect("dir");
    let map = PerfMap::write(PID, &format!("{CODE:x} 40 jitted\n{BASE:x} 40 written\n"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_nanos() as u64;
    let mut made = Made::new();
    made.anonymous(1_000, 0x1000);
    // Code in a shared file, deleted or not.
    made.map(1_001, BASE..BASE + 0x1000, 0, FileId::None, SHARED, "/memfd:jit-cache (deleted)");
    made.samples(2_000, PID, CODE + 4, 3);
    made.samples(2_100, PID, BASE + 4, 2);
    let named = rows(&[("jitted", 3), ("written", 2)]);
    assert_eq!(made.report(&dir.path().join("a.data")).0, named);
    made.clock = Some((now - 3_600_000_000_000, 0));
    assert_eq!(made.report(&dir.path().join("b.data")).0, named);
    // The process mapped its code memory a day after the map was written.
    let file = File::options().write(true).open(&map.0).expect("open");
    file.set_modified(SystemTime::now() - Duration::from_secs(86_400)).expect("set");
    let (found, said) = made.report(&dir.path().join("c.data"));
    assert_eq!(found, rows(&[("-", 5)]), "{said}");
    insta::assert_snapshot!("old-map", said);
}
