//! Tests of findings that lists of sockets show.

use super::*;
use crate::machine::sockets::SocketFaults;
use crate::machine::sockets::stalled::StalledReader;
use crate::machine::sockets::unanswered::UnansweredPeer;

fn peer(last: u8, connects: u32, resends: u8, open: u32) -> UnansweredPeer {
    let process = Some((77, "curl".into()));
    UnansweredPeer { peer: ([10, 0, 3, last], 5432).into(), process, connects, resends, open, looks: 1 }
}

fn reader(process: Option<i32>, connections: u32) -> StalledReader {
    StalledReader {
        at: ([10, 0, 3, 7], 80).into(),
        process: process.map(|pid| (pid, "reader".into())),
        writer: Some((12, "nginx".into())),
        connections,
        unread: if process.is_some() { 64_000 } else { 0 },
        looks: 1,
    }
}

#[test]
fn a_peer_that_does_not_answer_is_named() {
    let found = only(Cause::Unanswered, |one| one.sockets.unanswered = vec![peer(7, 5, 1, 0), peer(8, 1, 6, 0)]);
    let text = "network: 5 connects without an answer; curl 77 to 10.0.3.7:5432; the SYN was sent again up to 1 time, no \
                connection to it is open";
    assert_eq!((found.severity, &*found.text()), (Severity::Bad, text));
    assert_eq!(found.look.command(), "perfprof-tui tcp -p 77");
    // Some connects succeed, or only one does not.
    for one in [peer(7, 5, 1, 20), peer(7, 1, 6, 0)] {
        let found = only(Cause::Unanswered, |second| second.sockets.unanswered = vec![one.clone()]);
        assert_eq!(found.severity, Severity::Look);
    }
}

/// A single SYN that is lost is answered the second time.
#[test]
fn a_lost_syn_is_no_finding() {
    let once = |resends| {
        let mut list = vec![calm_second(); 10];
        list[4].sockets.unanswered = vec![peer(7, 5, resends, 0)];
        found_in(&seconds(list), &[], false).len()
    };
    assert_eq!([once(1), once(2)], [0, 1]);
}

/// Connects to a full listen queue have no answer, either.
#[test]
fn a_full_listen_queue_is_above_the_connects_that_it_causes() {
    let list = reported(|one| {
        one.networks[0].counts.unaccepted = 9;
        one.sockets.unanswered = vec![peer(7, 50, 3, 0)];
    });
    assert_eq!(list.iter().map(|one| one.cause).collect::<Vec<_>>(), [Cause::Unaccepted, Cause::Unanswered]);
}

#[test]
fn a_reader_that_does_not_read_is_named() {
    let found = only(Cause::ZeroWindows, |one| one.sockets.stalled = vec![reader(None, 1), reader(Some(5), 3)]);
    let text = "network: 3 connections with a zero window; reader 5 does not read the data of nginx 12; the receive \
                window is zero, 64.0 kB wait in its sockets";
    assert_eq!((found.severity, &*found.text()), (Severity::Look, text));
    assert_eq!(found.look.command(), "perfprof-tui tcp -p 5");
    let found = only(Cause::ZeroWindows, |one| one.sockets.stalled = vec![reader(None, 1)]);
    assert_eq!(found.culprit, "10.0.3.7:80 does not read the data of nginx 12");
    let mut once = vec![calm_second(); 10];
    once[4].sockets = SocketFaults { stalled: vec![reader(None, 1)], ..SocketFaults::default() };
    assert_eq!(found_in(&seconds(once), &[], false), [], "it waited for two seconds at most");
}

/// Only what is about the selected processes counts: as reader, or as the one whose data waits.
#[test]
fn a_selection_has_its_own_sockets() {
    let mut second = calm_second();
    second.sockets.unanswered = vec![peer(7, 5, 1, 0)];
    second.sockets.stalled = vec![reader(Some(5), 3)];
    let history = seconds(vec![second; 10]);
    let causes = |pid| {
        let sampled = [ProcessSamples { pid, ..ProcessSamples::default() }];
        found_in(&history, &sampled, true).iter().map(|one| one.cause).collect::<Vec<_>>()
    };
    assert_eq!(causes(77), [Cause::Unanswered]);
    assert_eq!([causes(5), causes(12)], [[Cause::ZeroWindows], [Cause::ZeroWindows]]);
    assert_eq!(causes(6), []);
}
