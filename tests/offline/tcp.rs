//! `tcp`: what happens to connections counts for their owner, peer and port.

use perfprof_tui::panel::Panel;
use perfprof_tui::source::live::Target;
use perfprof_tui::units::kit::UnitSample;

use crate::common::scenes::{CLIENT, HERE, MS, THERE, US, scene, socket, tcp};
use crate::common::stage::{Value, cell, number, rows, with_target};

fn panel<'a>(panels: &'a [Panel], title: &str) -> &'a Panel {
    panels.iter().find(|panel| panel.title == title).unwrap_or_else(|| panic!("no panel {title}"))
}

/// Returns the texts of columns, row by row.
fn texts<const N: usize>(panel: &Panel, columns: [&str; N]) -> Vec<[String; N]> {
    (0..rows(panel).table.rows.len()).map(|row| columns.map(|name| cell(panel, row, name).raw())).collect()
}

const COUNTS: [&str; 7] = ["opened", "accepted", "failed", "open", "retransmits", "resets_received", "closed"];

#[test]
fn a_peer_has_its_connections_and_failures() {
    let panels = scene("tcp").panels();
    let peers = panel(&panels, "Peers");
    assert_eq!(
        texts(peers, ["peer", "way", "errno"]),
        [["10.0.3.7:5432", "to", "ECONNREFUSED"], ["10.0.9.9", "from", "ECONNRESET"]]
    );
    assert_eq!(texts(peers, COUNTS), [["4", "", "3", "", "1", "3", "1"], ["", "2", "", "1", "", "1", "1"]]);
    let ms = |row: usize, name: &str| number(peers, row, name) / MS as f64;
    assert!((ms(0, "connect_p50_ns") - 2.0).abs() < 0.05 && (ms(0, "life_p50_ns") - 20.0).abs() < 0.4);
    assert!((ms(1, "life_p50_ns") - 5.0).abs() < 0.1);
    assert_eq!(peers.note, "3 of 4 connects to 10.0.3.7:5432 failed: ECONNREFUSED");
    let ports = panel(&panels, "Listening ports");
    assert_eq!(texts(ports, ["port", "listener"]), [[":5432", "db-8"]]);
    assert_eq!(texts(ports, COUNTS), [["", "2", "", "1", "", "1", "1"]]);
    let processes = panel(&panels, "Processes");
    assert_eq!(texts(processes, ["comm", "pid", "failed"]), [["web", "7", "3"], ["db", "8", ""]]);
    let drops = panel(&panels, "Drops and resets");
    let mut found = texts(drops, ["what", "reason", "place"]);
    found.sort();
    assert_eq!(found[0], ["packet dropped", "NO_SOCKET", "tcp_v4_rcv < ip_rcv"]);
    assert_eq!(found[1], ["reset, port 81", "NO_SOCKET", ""]);
    let slow = panel(&panels, "Slowest connects");
    assert_eq!(texts(slow, ["comm", "peer", "outcome"])[0], ["web", "10.0.3.7:5432", "established"]);
    assert_eq!(rows(slow).table.rows.len(), 4);
}

/// Softirqs interrupt any process: the current one is not the owner.
#[test]
fn only_the_owners_connections_count_for_a_target() {
    let of = |pid: i32| {
        let panels = with_target(Target::Processes(vec![pid]), || scene("tcp")).panels();
        texts(panel(&panels, "Peers"), ["peer", "opened", "accepted"])
    };
    assert_eq!(of(7), [["10.0.3.7:5432", "4", ""]]);
    assert_eq!(of(8), [["10.0.9.9", "", "2"]]);
    assert_eq!(of(9), Vec::<[String; 3]>::new());
}

#[test]
fn a_reused_socket_is_another_connection() {
    let mut s = tcp();
    for i in 0..2 {
        let at = (1 + 100 * i) * MS;
        socket(&mut s, 0, at, 7, &[0xa0, 7, 2], [0, 80], [HERE, THERE]);
        socket(&mut s, 0, at + 5 * MS, 0, &[0xa0, 2, 1], [40_000, 80], [HERE, THERE]);
    }
    // The second one replaces the first, whose end was not seen.
    let panels = s.panels();
    assert_eq!(texts(panel(&panels, "Peers"), ["opened", "open", "closed"]), [["2", "1", ""]]);
}

/// Connections that began before, lost records, and events without a socket never fail, and count once.
#[test]
fn ends_without_a_start() {
    let mut s = tcp();
    socket(&mut s, 0, MS, 0, &[0xa0, 1, 8], [40_000, 80], [HERE, THERE]);
    socket(&mut s, 0, 2 * MS, 0, &[0xa0, 8, 7], [40_000, 80], [HERE, THERE]);
    socket(&mut s, 4, 3 * MS, 0, &[0xe0], [90, 50_000], [HERE, CLIENT]);
    let panels = s.panels();
    let peers = texts(panel(&panels, "Peers"), ["peer", "failed", "closed", "life_p50_ns", "resets_received"]);
    assert_eq!(peers, [["10.0.9.9:50000", "", "", "", "1"], ["10.0.3.7:80", "", "1", "", ""]]);
    socket(&mut s, 0, 4 * MS, 7, &[0xa0, 7, 2], [0, 80], [HERE, THERE]);
    s.lose(None, 4 * MS, 5 * MS, 1);
    socket(&mut s, 0, 6 * MS, 0, &[0xa0, 2, 7], [40_000, 80], [HERE, THERE]);
    let panels = s.panels();
    let peers = texts(panel(&panels, "Peers"), ["peer", "way", "opened", "failed"]);
    assert_eq!(peers[0], ["10.0.3.7:80", "to", "1", "1"]);
}

/// Up to Linux 6.10, the kernel reports the error of a timeout before the end of the connection.
#[test]
fn an_error_may_precede_its_connections_end() {
    let mut s = tcp();
    for (socket_at, port) in [(0xa0, 40_000), (0xb0, 40_001)] {
        socket(&mut s, 0, MS, 7, &[socket_at, 7, 2], [0, 80], [HERE, THERE]);
        socket(&mut s, 1, 9 * MS, 0, &[110], [port, 80], [HERE, THERE]);
        socket(&mut s, 0, 9 * MS, 0, &[socket_at, 2, 7], [port, 80], [HERE, THERE]);
    }
    // An error is not that of another connection, which ends next.
    socket(&mut s, 1, 10 * MS, 0, &[113], [41_000, 80], [HERE, THERE]);
    socket(&mut s, 0, 11 * MS, 7, &[0xc0, 7, 2], [0, 80], [HERE, CLIENT]);
    socket(&mut s, 0, 12 * MS, 0, &[0xc0, 2, 7], [41_001, 80], [HERE, CLIENT]);
    let panels = s.panels();
    let errors = texts(panel(&panels, "Errors"), ["peer", "errno", "errors", "failed"]);
    assert_eq!(errors, [["10.0.3.7:80", "ETIMEDOUT", "2", "2"]]);
}

/// The kernel reports an error and the end of its connection at once. An error without such an end is of none.
#[test]
fn an_error_does_not_wait_for_another_end() {
    let mut s = tcp();
    for (socket_at, port, late) in [(0xa0, 40_000, 1), (0xb0, 40_001, 500)] {
        socket(&mut s, 0, MS, 7, &[socket_at, 7, 2], [0, 80], [HERE, THERE]);
        socket(&mut s, 1, 9 * MS, 0, &[110], [port, 80], [HERE, THERE]);
        socket(&mut s, 0, (9 + late) * MS, 0, &[socket_at, 2, 7], [port, 80], [HERE, THERE]);
    }
    // Nor does an end wait for an error.
    socket(&mut s, 1, 900 * MS, 0, &[113], [40_001, 80], [HERE, THERE]);
    let panels = s.panels();
    let errors = texts(panel(&panels, "Errors"), ["peer", "errno", "errors", "failed"]);
    assert_eq!(errors, [["10.0.3.7:80", "ETIMEDOUT", "1", "2"]]);
}

/// Timeouts do not hide that the same peer resets connections.
#[test]
fn a_peer_that_resets_and_times_out_has_both() {
    let mut s = tcp();
    for i in 0..3 {
        let (at, fails, works) = ((1 + 100 * i) * MS, 40_000 + i as i64, 41_000 + i as i64);
        socket(&mut s, 0, at, 7, &[0xa0, 7, 2], [0, 80], [HERE, THERE]);
        socket(&mut s, 0, at + 5 * MS, 0, &[0xa0, 2, 7], [fails, 80], [HERE, THERE]);
        socket(&mut s, 1, at + 5 * MS, 0, &[110], [fails, 80], [HERE, THERE]);
        socket(&mut s, 0, at + 10 * MS, 7, &[0xb0, 7, 2], [0, 80], [HERE, THERE]);
        socket(&mut s, 0, at + 11 * MS, 0, &[0xb0, 2, 1], [works, 80], [HERE, THERE]);
        socket(&mut s, 4, at + 12 * MS, 0, &[0xb0], [works, 80], [HERE, THERE]);
        socket(&mut s, 0, at + 12 * MS, 0, &[0xb0, 1, 7], [works, 80], [HERE, THERE]);
        socket(&mut s, 1, at + 12 * MS, 0, &[104], [works, 80], [HERE, THERE]);
    }
    let expected = "3 of 6 connects to 10.0.3.7:80 failed: ETIMEDOUT; 10.0.3.7:80 reset 3 connections";
    assert_eq!(panel(&s.panels(), "Peers").note, expected);
}

#[test]
fn a_lossy_peer_is_named() {
    let mut s = tcp();
    socket(&mut s, 0, 0, 8, &[0xd0, 7, 10], [5432, 0], [[0; 4], [0; 4]]);
    socket(&mut s, 0, MS, 7, &[0xa0, 7, 2], [0, 80], [HERE, THERE]);
    socket(&mut s, 0, 2 * MS, 0, &[0xa0, 2, 1], [40_000, 80], [HERE, THERE]);
    for i in 0..5 {
        socket(&mut s, 2, (3 + i) * MS, 0, &[0xa0], [40_000, 80], [HERE, THERE]);
    }
    // An answer to a connection that is not open yet is sent again by its listening socket.
    socket(&mut s, 6, 9 * MS, 0, &[0xd0, 0xe0], [5432, 50_000], [HERE, CLIENT]);
    let panels = s.panels();
    let peers = panel(&panels, "Peers");
    assert_eq!(texts(peers, ["peer", "retransmits"]), [["10.0.3.7:80", "5"], ["10.0.9.9", "1"]]);
    assert_eq!(peers.note, "5 retransmits to 10.0.3.7:80");
    assert_eq!(texts(panel(&panels, "Listening ports"), ["port", "retransmits"]), [[":5432", "1"]]);
}

#[test]
fn a_peer_that_resets_is_named() {
    let mut s = tcp();
    socket(&mut s, 0, 0, 8, &[0xd0, 7, 10], [5432, 0], [[0; 4], [0; 4]]);
    for i in 0..3 {
        let (at, port) = ((1 + i) * MS, 50_000 + i as i64);
        socket(&mut s, 0, at, 0, &[0xc0, 10, 3], [5432, port], [HERE, CLIENT]);
        socket(&mut s, 0, at, 0, &[0xc0, 3, 1], [5432, port], [HERE, CLIENT]);
        socket(&mut s, 4, at + US, 0, &[0xc0], [5432, port], [HERE, CLIENT]);
        socket(&mut s, 0, at + US, 0, &[0xc0, 1, 7], [5432, port], [HERE, CLIENT]);
    }
    assert_eq!(panel(&s.panels(), "Peers").note, "10.0.9.9 reset 3 connections");
}

/// On loopback, the peer's connection ends before the event of the reset, which follows the end of the sender's.
#[test]
fn a_reset_on_loopback_opens_no_connection() {
    let mut s = tcp();
    socket(&mut s, 0, 0, 8, &[0xd0, 7, 10], [5432, 0], [[0; 4], [0; 4]]);
    socket(&mut s, 0, MS, 7, &[0xa0, 7, 2], [0, 5432], [HERE, HERE]);
    socket(&mut s, 0, MS, 0, &[0xb0, 10, 3], [5432, 40_000], [HERE, HERE]);
    socket(&mut s, 0, MS, 0, &[0xb0, 3, 1], [5432, 40_000], [HERE, HERE]);
    socket(&mut s, 0, MS, 0, &[0xa0, 2, 1], [40_000, 5432], [HERE, HERE]);
    socket(&mut s, 0, 3 * MS, 8, &[0xb0, 1, 7], [5432, 40_000], [HERE, HERE]);
    socket(&mut s, 4, 3 * MS, 8, &[0xa0], [40_000, 5432], [HERE, HERE]);
    socket(&mut s, 0, 3 * MS, 8, &[0xa0, 1, 7], [40_000, 5432], [HERE, HERE]);
    socket(&mut s, 3, 3 * MS, 8, &[0xb0, 1], [5432, 40_000], [HERE, HERE]);
    let panels = s.panels();
    let found = texts(panel(&panels, "Peers"), ["way", "open", "closed", "resets_sent", "resets_received"]);
    assert_eq!(found, [["to", "", "1", "", "1"], ["from", "", "1", "1", ""]]);
}

/// The thread that closes a connection may move to another CPU before it sends the reset.
#[test]
fn a_reset_after_the_end_opens_no_connection() {
    let mut s = tcp();
    socket(&mut s, 0, MS, 7, &[0xa0, 7, 2], [0, 80], [HERE, THERE]);
    socket(&mut s, 0, 2 * MS, 0, &[0xa0, 2, 1], [40_000, 80], [HERE, THERE]);
    socket(&mut s, 0, 3 * MS, 7, &[0xa0, 1, 7], [40_000, 80], [HERE, THERE]);
    let [here, there] = [HERE, THERE].map(|ip| i64::from(u32::from_le_bytes(ip)));
    let reset = UnitSample { pid: 7, tid: 7, cpu: 1, ..s.hit(3, 3 * MS) };
    s.give(reset, &[0xa0, 1, 40_000, 80, 2, 6, here, there].map(Value::N));
    let panels = s.panels();
    let found = texts(panel(&panels, "Peers"), ["peer", "open", "closed", "resets_sent"]);
    assert_eq!(found, [["10.0.3.7:80", "", "1", "1"]]);
}

/// A reset of a process that is not the target is not listed.
#[test]
fn resets_of_others_are_not_listed() {
    let of = |pid: i32| {
        let mut measured = with_target(Target::Processes(vec![pid]), || {
            let mut s = tcp();
            socket(&mut s, 0, MS, 7, &[0xa0, 7, 2], [0, 80], [HERE, THERE]);
            socket(&mut s, 0, 2 * MS, 0, &[0xa0, 2, 1], [40_000, 80], [HERE, THERE]);
            socket(&mut s, 3, 3 * MS, 7, &[0xa0, 1], [40_000, 80], [HERE, THERE]);
            s
        });
        texts(panel(&measured.panels(), "Drops and resets"), ["times", "what"])
    };
    assert_eq!((of(7).len(), of(8).len()), (1, 0));
}

/// The CPUs whose softirqs handle packets have their events; those of threads do not count.
#[test]
fn softirqs_count_for_their_cpu() {
    let mut s = tcp();
    socket(&mut s, 0, MS, 7, &[0xa0, 7, 2], [0, 80], [HERE, THERE]);
    s.flags = 0x10; // TRACE_FLAG_SOFTIRQ
    socket(&mut s, 0, 2 * MS, 0, &[0xa0, 2, 1], [40_000, 80], [HERE, THERE]);
    socket(&mut s, 2, 3 * MS, 0, &[0xa0], [40_000, 80], [HERE, THERE]);
    let hit = s.hit(5, 3 * MS);
    s.give(hit, &[0x99, 0, 0x800, 3].map(Value::N));
    let panels = s.panels();
    let found = texts(panel(&panels, "Softirq CPUs"), ["softirq_cpu", "events", "established", "retransmits", "drops"]);
    assert_eq!(found, [["0", "2", "1", "1", "1"]]);
}

/// Packets that a full queue or window drops count for the connection; others do not.
#[test]
fn full_queues_count_for_their_connection() {
    let mut s = tcp();
    socket(&mut s, 0, MS, 7, &[0xa0, 7, 2], [0, 80], [HERE, THERE]);
    socket(&mut s, 0, 2 * MS, 0, &[0xa0, 2, 1], [40_000, 80], [HERE, THERE]);
    for (at, reason) in [(0xa0, 57), (0xa0, 57), (0xa0, 3), (0, 57)] {
        let hit = s.hit(5, 3 * MS);
        s.give(hit, &[Value::N(0x99), Value::N(at), Value::N(0x800), Value::N(reason)]);
    }
    let panels = s.panels();
    assert_eq!(texts(panel(&panels, "Peers"), ["peer", "overflows"]), [["10.0.3.7:80", "2"]]);
    let drops = texts(panel(&panels, "Drops and resets"), ["reason", "times"]);
    assert_eq!(drops, [["TCP_ZEROWINDOW", "3"], ["NO_SOCKET", "1"]]);
}

/// Other protocols have the same events.
#[test]
fn other_protocols_do_not_count() {
    let mut s = tcp();
    let hit = s.hit(0, MS);
    let sctp = [0xa0, 7, 2, 0, 80, 2, 132, 1, 1].map(Value::N);
    s.give(hit, &sctp);
    let drop = UnitSample { ..s.hit(5, MS) };
    s.give(drop, &[Value::N(1), Value::N(0), Value::N(0x806), Value::N(3)]);
    let panels = s.panels();
    assert!(["Peers", "Drops and resets"].iter().all(|title| rows(panel(&panels, title)).table.rows.is_empty()));
}

/// A scan of many peers has a limited number of rows, and no connection is left out.
#[test]
fn many_peers_share_a_row() {
    let mut s = tcp();
    for i in 0..20_000u32 {
        let [a, b, c, d] = i.to_le_bytes();
        socket(&mut s, 0, MS, 7, &[i64::from(i) + 1, 7, 2], [0, 80], [HERE, [11, a, b, c | d]]);
    }
    let panels = s.panels();
    let peers = texts(panel(&panels, "Peers"), ["peer", "opened"]);
    assert_eq!(peers[0], ["(others)", "3616"]);
    assert_eq!(texts(panel(&panels, "Processes"), ["opened"]), [["20000"]]);
}
