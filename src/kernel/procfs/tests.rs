//! Tests of reading processes in /proc.

use std::io::Write;

use super::mappings::exec_maps_by_text;
use super::*;

#[test]
fn queries_find_what_the_text_has() {
    let pid = std::process::id() as i32;
    // Other tests may map code between the two.
    let are_same = || {
        let by_text = exec_maps_by_text(pid);
        let all = maps(pid).into_iter().filter(|map| map.prot & 4 != 0).collect::<Vec<_>>();
        by_text.len() > 2 && exec_maps(pid) == by_text && all == by_text
    };
    assert!((0..100).any(|_| are_same()));
    assert!(exec_maps(i32::MAX).is_empty());
}

#[test]
fn short_files_are_whole_whatever_their_size() {
    let path = std::env::temp_dir().join(format!("perfprof-short-{}", std::process::id()));
    for size in [0, 1, 1023, 1024, 1025, 5000] {
        let text: Vec<u8> = (0..size).map(|i| i as u8).collect();
        fs::write(&path, &text).expect("written");
        assert_eq!(read_short(path.to_str().expect("UTF-8")).expect("read"), text, "{size}");
    }
    fs::remove_file(&path).expect("removed");
    assert!(read_short("/proc/0/stat").is_err());
}

#[test]
fn a_process_with_several_threads_is_told_from_others() {
    let own = std::process::id() as i32;
    let (leave, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || wait.recv().is_err());
    assert!(has_other_threads(own));
    drop(leave);
    assert!(thread.join().expect("ended"));
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a process");
    let has_several = has_other_threads(child.id() as i32);
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert!(!has_several && !has_other_threads(i32::MAX));
}

#[test]
fn maps_lines() {
    let m = parse_maps_line(b"55fef7be6000-55fef7ca7000 r-xp 0002f000 fe:00 247003   /usr/bin/a b (deleted)")
        .expect("line");
    assert_eq!((m.start, m.end, m.offset, m.inode), (0x55fef7be6000, 0x55fef7ca7000, 0x2f000, 247003));
    assert_eq!((m.major, m.minor, m.prot, m.flags), (0xfe, 0, 5, 2));
    assert_eq!(m.name, b"/usr/bin/a b (deleted)");
    assert_eq!(parse_maps_line(b"7f0000000000-7f0000001000 rwxs 00000000 00:00 0").expect("line").name, b"//anon");
    for bad in [&b""[..], b"zz", b"1-2 r", b"1-2 r-xp q 0:0 1", b"\xff\xfe-1 r-xp 0 0:0 1"] {
        assert_eq!(parse_maps_line(bad), None);
    }
}

#[test]
fn stat_lines() {
    let tail = "S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 99 1";
    let stat = |name: &str| parse_stat(format!("42 ({name}) {tail}").as_bytes());
    let read = Some(ProcessStat { state: b'S', parent: 1, start: 12345 });
    assert_eq!([stat("x"), stat("a) Z 9 (b"), stat("tmux: server")], [read; 3]);
    assert_eq!(["", "42 (x)", "42 (x) S", "42 (x) S 1 7"].map(|text| parse_stat(text.as_bytes())), [None; 4]);
    let own = super::stat(std::process::id() as i32).expect("own");
    assert_eq!(Some(own.parent), parent(std::process::id() as i32));
}

#[test]
fn we_find_ourselves() {
    let pid = std::process::id() as i32;
    assert!(threads(pid).contains(&pid));
    assert!(processes().contains(&pid));
    assert!(exec_maps(pid).iter().any(|m| m.name == b"[vdso]"));
    assert_eq!(tgid(pid), Some(pid));
    assert!(uid(pid).is_some());
    let mut child = std::process::Command::new("true").spawn().expect("true");
    let zombie = child.id() as i32;
    while is_running(zombie) {
        std::thread::yield_now();
    }
    assert!(!threads(zombie).is_empty(), "its entry stays until it is waited for");
    child.wait().expect("wait");
    assert_eq!(user_id("root"), Some(0));
    assert_eq!(user_id("no such user"), None);
}

/// Thousands of sleeping processes must not delay the start.
#[test]
fn a_name_of_what_runs_is_read_once_and_nothing_else() {
    let all_there = std::sync::Arc::new(std::sync::Barrier::new(4));
    let threads = [(); 3].map(|()| {
        let there = all_there.clone();
        let wait = move || {
            there.wait();
            std::thread::park();
        };
        crate::kernel::thread("a named one", wait).expect("thread")
    });
    all_there.wait();
    let Some(before) = own_reads() else {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED a_name_of_what_runs_is_read_once_and_nothing_else: reads are not counted here"
        );
        return;
    };
    let mut told = Vec::new();
    comms(Duration::from_secs(60), |tid, name| told.push((tid, name.to_vec())));
    let reads = own_reads().expect("reads") - before;
    // The measurement of the read count reads a file itself.
    assert!((told.len()..told.len() + 10).contains(&reads), "{reads} reads for {} names", told.len());
    assert_eq!(told.iter().filter(|(_, name)| name == b"a named one").count(), 3);
    let own = std::process::id() as i32;
    let name = comm(own, own).expect("name");
    assert!(told.contains(&(own, name)) && told.iter().any(|(pid, _)| *pid == 1));
    let leaders = told.iter().take_while(|(tid, _)| tgid(*tid).is_none_or(|pid| pid == *tid)).count();
    assert!(leaders >= processes().len() - 10, "processes come first: {leaders}");
    threads.into_iter().for_each(|thread| {
        thread.thread().unpark();
        thread.join().expect("ended");
    });
    told.clear();
    comms(Duration::ZERO, |tid, name| told.push((tid, name.to_vec())));
    assert!(told.is_empty());
}
