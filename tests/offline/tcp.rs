//! `tcp`: what happens to connections counts for their owner, peer and port.

use perfprof_tui::panel::Panel;
use perfprof_tui::source::live::Target;
use perfprof_tui::units::kit::UnitSample;

use crate::common::scenes::{CLIENT, HERE, MS, THERE, scene, socket, tcp};
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
    assert_eq!(found[1], ["reset sent, no socket for port 81", "NO_SOCKET", ""]);
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
