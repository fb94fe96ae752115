//! Tests of the sums by file and peer.

use std::os::fd::AsRawFd;

use rustc_hash::FxHashSet;

use super::super::names::Abi;
use super::*;
use crate::session::{Origin, Session};
use crate::units::kit::ThreadNames;

const READ: i64 = 0;
const CLOSE: i64 = 3;
const CONNECT: i64 = 42;
const OPENAT: i64 = 257;
const CLOSE_RANGE: i64 = 436;

/// Passes calls of a process: their number, first argument, text and result. Returns names, calls and bytes read.
fn rows(calls: &[(i64, u64, &str, i64)]) -> Vec<(String, u64, u64)> {
    let session = Session::new(Origin::Recorded);
    let (mut thread_names, own) = (ThreadNames::default(), FxHashSet::default());
    let mut cx = Context::new(&session, &mut thread_names, &own);
    let (mut names, mut targets) = (DescriptorNames::default(), CallTargets::new(true));
    for (number, first, of, result) in calls {
        let arguments = [*first, 0x1000, 16, 0, 0, 0];
        let text = (!of.is_empty()).then(|| Arc::from(*of));
        let returned = ReturnedCall {
            call: Call { number: *number, abi: Abi::Native },
            pid: 1,
            time: 5,
            arguments: Some(&arguments),
            text: text.as_ref(),
            ns: Some(10),
            result: *result,
        };
        targets.count(&returned, CallTables::X86_64, &mut names, &mut cx);
        targets.follow(&returned, CallTables::X86_64);
    }
    let used = targets.rows.iter().filter(|(_, of)| of.calls > 0);
    used.map(|((_, name), of)| (name.to_string(), of.calls, of.read)).collect()
}

fn row(name: &str, calls: u64, read: u64) -> (String, u64, u64) {
    (name.to_owned(), calls, read)
}

#[test]
fn calls_count_for_what_their_descriptor_refers_to() {
    let here = -100i64 as u64;
    let reopened = [
        (OPENAT, here, "/a", 3),
        (READ, 3, "", 100),
        (READ, 3, "", -11),
        (CLOSE, 3, "", 0),
        (READ, 3, "", -9),
        (OPENAT, here, "/b", 3),
        (READ, 3, "", 7),
        (OPENAT, here, "/c", -2),
    ];
    let expected = [row("(not known)", 1, 0), row("/a", 4, 100), row("/b", 2, 7), row("/c", 1, 0)];
    assert_eq!(rows(&reopened), expected);
    // close_range(2) closes several; its last descriptor is 0x1000.
    let range = [(OPENAT, here, "/a", 5), (CLOSE_RANGE, 4, "", 0), (READ, 5, "", 1)];
    assert_eq!(rows(&range), [row("(not known)", 1, 1), row("/a", 1, 0)]);
    // Relative paths are looked up at their use.
    assert_eq!(rows(&[(OPENAT, here, "a", 5), (READ, 5, "", 1)]), [row("(not known)", 1, 1), row("a", 1, 0)]);
}

#[test]
fn a_socket_has_its_peer_from_connect() {
    let calls = [(CONNECT, 7, "10.0.3.7:5432", -115), (READ, 7, "", 20), (READ, -1i64 as u64, "", -9)];
    assert_eq!(rows(&calls), [row("10.0.3.7:5432", 2, 20)]);
}

#[test]
fn a_descriptor_that_was_reopened_before_its_lookup_is_not_known() {
    let file = std::fs::File::open("/proc/self/exe").expect("a file");
    let path = std::env::current_exe().expect("a path").display().to_string();
    let (pid, fd) = (std::process::id() as i32, file.as_raw_fd());
    // The lookup happens now, which is later than 2 ns after the start of the machine.
    for (closed_at, expected) in [(2, "(not known)"), (u64::MAX, &*path)] {
        let session = Session::new(Origin::Live);
        let (mut thread_names, own) = (ThreadNames::default(), FxHashSet::default());
        let mut cx = Context::new(&session, &mut thread_names, &own);
        let (mut names, mut targets) = (DescriptorNames::default(), CallTargets::new(true));
        let arguments = [fd as u64, 0x1000, 16, 0, 0, 0];
        let mut line = None;
        for (number, time, result) in [(READ, 1, 100), (CLOSE, closed_at, 0)] {
            let call = Call { number, abi: Abi::Native };
            let arguments = Some(&arguments);
            let returned = ReturnedCall { call, pid, time, arguments, text: None, ns: Some(10), result };
            targets.count(&returned, CallTables::X86_64, &mut names, &mut cx);
            targets.follow(&returned, CallTables::X86_64);
            line = line.or_else(|| targets.name((pid, fd), time, NamePurpose::Line, &mut names, &mut cx));
        }
        let rows = targets.with_lookups();
        let read: Vec<&str> = rows.iter().filter(|(_, of)| of.read > 0).map(|((_, name), _)| &**name).collect();
        assert_eq!(read, [expected]);
        assert_eq!(line.expect("looked up").get().unwrap_or("(not known)"), expected);
    }
}

#[test]
fn descriptors_are_forgotten_where_summed_calls_may_have_closed_them() {
    let mut targets = CallTargets::new(true);
    // Returns whether the descriptor is still known after a record.
    let mut knows = |last: u32, go_on: bool| {
        targets.keep(1, 3, 2, 0);
        targets.follow_sums(UnseenChanges { last, go_on });
        targets.known.get(1, 3).is_some()
    };
    assert!([(0, false), (0, false), (0, false)].map(|(last, go_on)| knows(last, go_on)) == [false, true, true]);
    // A change in a window, and until its end.
    assert!(
        [(4, true), (4, true), (4, false), (4, false)].map(|(last, go_on)| knows(last, go_on))
            == [false, false, false, true]
    );
    assert!(!knows(7, false) && knows(7, false));
}

#[test]
fn calls_that_were_only_summed_are_counted() {
    let mut targets = CallTargets::new(true);
    let call = |number: i64| Call { number, abi: Abi::Native };
    targets.figures(UNKNOWN + 1);
    let row = targets.row((DescriptorKind::File, "/a".into()));
    targets.figures(row).calls = 1;
    targets.lack(call(READ), 5, CallTables::X86_64);
    // getpid
    targets.lack(call(39), 7, CallTables::X86_64);
    let panels = targets.panels(None);
    assert!(panels.len() == 2 && panels.iter().all(|panel| panel.note.starts_with("5 calls only in the totals")));
    targets.clear();
    targets.figures(row).calls = 1;
    assert!(targets.panels(None).iter().all(|panel| panel.note.is_empty()));
}

#[test]
fn rows_have_a_limit() {
    let mut targets = CallTargets::new(true);
    for i in 0..2 * MAX_ROWS as i32 {
        let row = targets.row((DescriptorKind::File, i.to_string().into()));
        targets.keep(1, i, row, 0);
    }
    assert_eq!(targets.rows.len(), MAX_ROWS);
    targets.clear();
    assert!(targets.rows.is_empty() && targets.known.get(1, 0).is_none());
    assert_eq!(CallTargets::default().panels(None).len(), 0);
}
