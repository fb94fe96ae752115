//! Remarks about connections that fail, are reset, lose packets or wait.

use crate::lang::counted;
use crate::panel::unit::{duration, percent, thousands};
use crate::units::events::syscalls::error_name;
use crate::units::kit::prelude::*;

use super::Tcp;
use super::connections::{PeerKey, Way};
use super::figures::Figures;

/// The smallest number of failures that is worth a remark, and their share of the attempts in percent.
const REMARKABLE: u64 = 3;
const REMARKABLE_PERCENT: u64 = 5;
/// The number of failing peers with a remark of their own.
const NAMED: usize = 3;
/// The median time of connects that is worth a remark, in nanoseconds, and the one if another peer is much faster.
const SLOW_ANSWER: u64 = 200_000_000;
const SLOW_BY_COMPARISON: u64 = 20_000_000;
/// The share of retransmissions in the bytes sent to a peer that is worth a remark, in percent.
const REMARKABLE_RESENT: u64 = 1;
/// The time for which data waited for a peer's receive window that is worth a remark, in nanoseconds, and its share of
/// the time for which the connections were open, in percent.
const REMARKABLE_WAIT: u64 = 100_000_000;
const REMARKABLE_WAIT_PERCENT: u64 = 5;

impl Tcp {
    /// Names the peers whose connections fail, are reset, lose packets or wait, and the port whose queue is full.
    pub(super) fn remark(&self) -> String {
        let peers = self.figures.peers.sorted();
        let peers: Vec<(PeerKey, &Figures)> = peers.into_iter().filter_map(|(key, row)| Some((key?, row))).collect();
        let mut remarks = failing(&peers);
        remarks
            .extend([silent(&peers), resetting(&peers), self.lossy(&peers), full_window(&peers)].into_iter().flatten());
        let ports = self.figures.ports.sorted();
        let full =
            ports.iter().filter_map(|(key, row)| Some(((*key)?, row.now.queue?))).max_by_key(|(_, of)| of.dropped);
        if let Some((port, queue)) = full.filter(|(_, queue)| queue.dropped > 0) {
            let (dropped, limit) = (thousands(queue.dropped), queue.limit);
            let port = port.local.port();
            remarks.push(format!("port {port} dropped {dropped} packets of new connections (listen queue: {limit})"));
        }
        remarks.extend(slow_to_answer(&peers));
        match self.awaited {
            // Those may also be of connections that are no longer known.
            0 if self.lacks_ends => {
                remarks.push("reports of ended connections are missing: bytes are too low".to_owned());
            }
            0 => {}
            n => {
                let connections = counted(n as u64, "ended connection");
                remarks.push(format!("{connections} without last counters: bytes are too low"));
            }
        }
        match (self.lacks_earlier, self.looks.failure()) {
            (Some(failure), _) => remarks.push(format!("connections from before are not known: {failure}")),
            (None, Some(failure)) => remarks.push(format!("bytes and round-trip times are incomplete: {failure}")),
            (None, None) => {}
        }
        remarks.join("; ")
    }

    /// Names the peer with the most retransmits, of those to which a share of the bytes was sent again.
    fn lossy(&self, peers: &[(PeerKey, &Figures)]) -> Option<String> {
        let all_sent = |row: &Figures| row.carried.sent.saturating_add(row.carried.resent);
        // Recordings do not have the bytes.
        let has_bytes = all_sent(&self.figures.total) > 0;
        let loses = |row: &Figures| {
            let (resent, limit) = (row.carried.resent, all_sent(row).saturating_mul(REMARKABLE_RESENT));
            row.retransmits >= REMARKABLE && (!has_bytes || resent > 0 && resent.saturating_mul(100) >= limit)
        };
        let (key, row) = most(peers, |_, row| if loses(row) { row.retransmits } else { 0 })?;
        let share = || percent(100.0 * row.carried.resent as f64 / all_sent(row) as f64);
        let of_bytes = if has_bytes { format!(" ({} of the bytes sent)", share()) } else { String::new() };
        Some(format!("{} retransmits to {}{of_bytes}", thousands(row.retransmits), key.label()))
    }
}

/// Returns the first of the rows with the largest value; `None` if all are 0.
fn most<'a>(
    peers: &[(PeerKey, &'a Figures)],
    value: impl Fn(PeerKey, &Figures) -> u64,
) -> Option<(PeerKey, &'a Figures)> {
    let valued = peers.iter().map(|(key, row)| (value(*key, row), *key, *row)).filter(|(value, ..)| *value > 0);
    valued.rev().max_by_key(|(value, ..)| *value).map(|(_, key, row)| (key, row))
}

/// Names the peers to which most attempts to connect failed, if they are a share of all.
fn failing(peers: &[(PeerKey, &Figures)]) -> Vec<String> {
    let attempts = |row: &Figures| row.opened.max(row.failed);
    let fails = |row: &Figures| row.failed >= REMARKABLE && row.failed * 100 >= attempts(row) * REMARKABLE_PERCENT;
    let failing = peers.iter().copied().filter(|(key, row)| key.way == Way::Out && fails(row));
    let failing = by_weight(failing, |row| row.failed);
    let remark = |(key, row): &(PeerKey, &Figures)| {
        let why = connect_errors(row);
        let (failed, attempts) = (thousands(row.failed), thousands(attempts(row)));
        format!("{failed} of {attempts} connects to {} failed{why}", key.label())
    };
    let mut remarks: Vec<String> = failing.iter().take(NAMED).map(remark).collect();
    if failing.len() > NAMED {
        remarks.push(format!("connects to {} failed", counted((failing.len() - NAMED) as u64, "more peer")));
    }
    remarks
}

/// Returns the errors that connects failed with, the most frequent first.
fn connect_errors(row: &Figures) -> String {
    let all = by_weight(row.connect_errors.iter().map(|(number, n)| (*number, *n)), |n| *n);
    let names: Vec<String> = all.iter().take(NAMED).map(|(number, _)| error_name(*number)).collect();
    if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) }
}

/// Names the peer that answers connects much more slowly than another one does, or than any machine nearby would.
fn slow_to_answer(peers: &[(PeerKey, &Figures)]) -> Option<String> {
    let connects = peers.iter().filter(|(key, row)| key.way == Way::Out && row.connects.n >= REMARKABLE);
    let medians: Vec<(u64, PeerKey)> = connects.map(|(key, row)| (row.connects.quantile(0.5), *key)).collect();
    let ((slowest, key), (fastest, _)) = (medians.iter().max()?, medians.iter().min()?);
    let is_slow = *slowest >= SLOW_ANSWER || *slowest >= SLOW_BY_COMPARISON && *slowest / 4 >= *fastest;
    is_slow.then(|| format!("connects to {} take {} (median)", key.label(), duration(*slowest)))
}

/// Names the peer with the most connects that have sent their SYN again, and have no answer.
fn silent(peers: &[(PeerKey, &Figures)]) -> Option<String> {
    let (key, row) = most(peers, |key, row| if key.way == Way::Out { row.now.unanswered } else { 0 })?;
    let connects = counted(row.now.unanswered, "connect");
    Some(format!("{connects} to {} without an answer, SYNs are sent again", key.label()))
}

/// Names the peer that reset most connections after they were established.
fn resetting(peers: &[(PeerKey, &Figures)]) -> Option<String> {
    let resets = |row: &Figures| row.resets_received.saturating_sub(row.refused);
    let (key, row) = most(peers, |_, row| resets(row)).filter(|(_, row)| resets(row) >= REMARKABLE)?;
    Some(format!("{} reset {} connections", key.label(), thousands(resets(row))))
}

/// Names the peer for whose receive window data waited longest.
fn full_window(peers: &[(PeerKey, &Figures)]) -> Option<String> {
    let waits = |row: &Figures| row.carried.window_wait_ns;
    let is_share = |row: &Figures| {
        let limit = u128::from(row.carried.open_ns) * u128::from(REMARKABLE_WAIT_PERCENT);
        waits(row) >= REMARKABLE_WAIT && u128::from(waits(row)) * 100 >= limit
    };
    let (key, row) = most(peers, |_, row| if is_share(row) { waits(row) } else { 0 })?;
    Some(format!("data waited {} for the receive window of {}", duration(waits(row)), key.label()))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use crate::session::TcpCounters;

    use super::super::connections::{Connection, Resent};
    use super::super::fields::Ends;
    use super::super::figures::Happening;
    use super::*;

    fn outgoing(ends: Ends) -> Connection {
        Connection::new(ends, Way::Out, [ThreadKey::of_row(1); 2], true)
    }

    /// A peer with more retransmits, but a small share of them, does not hide another one.
    #[test]
    fn the_peer_that_loses_a_share_is_named() {
        let mut tcp = Tcp::default();
        let mut add = |peer: u8, retransmits: u64, sent: u64, resent: u64| {
            let [local, peer] = [1, peer].map(|last| SocketAddr::from(([10, 0, 0, last], 80)));
            let ends = Ends { local, peer };
            let of = outgoing(ends);
            tcp.figures.add(&of, Happening::Retransmitted(retransmits));
            let carried = TcpCounters { sent, resent, ..TcpCounters::default() };
            tcp.figures.add(&of, Happening::Carried(carried));
        };
        add(2, 1000, 999_900, 100);
        add(3, 500, 700, 300);
        add(4, 600, 0, 0);
        let remark = tcp.remark();
        assert!(remark.starts_with("500 retransmits to 10.0.0.3:80 (30"), "{remark}");
        assert!(!remark.contains("10.0.0.2") && !remark.contains("10.0.0.4"), "{remark}");
    }

    /// A peer is slow next to a fast one, or alone.
    #[test]
    fn a_slow_peer_is_named() {
        let peer = |last: u8| PeerKey { way: Way::Out, peer: SocketAddr::from(([10, 0, 0, last], 80)) };
        let row = |ms: u64| {
            let mut row = Figures::default();
            row.connects.add_many(ms * 1_000_000, 3);
            row
        };
        let of = |all: &[u64]| {
            let rows: Vec<Figures> = all.iter().map(|ms| row(*ms)).collect();
            let peers: Vec<(PeerKey, &Figures)> = (2..).map(peer).zip(&rows).collect();
            slow_to_answer(&peers).is_some_and(|remark| remark.starts_with("connects to 10.0.0.3:80 take "))
        };
        assert_eq!([&[1, 80][..], &[79, 80], &[1, 3], &[90, 250]].map(of), [true, false, false, true]);
    }

    /// A peer that refuses many connections does not hide one that resets a few.
    #[test]
    fn a_peer_that_resets_connections_is_named() {
        let mut tcp = Tcp::default();
        let add = |tcp: &mut Tcp, peer: u8, what: Happening, n: usize| {
            let [local, peer] = [1, peer].map(|last| SocketAddr::from(([10, 0, 0, last], 80)));
            let ends = Ends { local, peer };
            let of = outgoing(ends);
            (0..n).for_each(|_| tcp.figures.add(&of, what));
        };
        for what in [Happening::Opened, Happening::Failed, Happening::ConnectError(111), Happening::Refused] {
            add(&mut tcp, 2, what, 100);
        }
        add(&mut tcp, 3, Happening::Opened, 50);
        add(&mut tcp, 3, Happening::ResetReceived, 4);
        let remark = tcp.remark();
        let expected = "100 of 100 connects to 10.0.0.2:80 failed: ECONNREFUSED; 10.0.0.3:80 reset 4 connections";
        assert_eq!(remark, expected);
        for (peer, failed) in [(4, 3), (5, 4), (6, 2), (7, 9)] {
            let mut add = |what: Happening| add(&mut tcp, peer, what, failed);
            [Happening::Opened, Happening::Failed, Happening::ConnectError(110)].into_iter().for_each(&mut add);
        }
        let expected = "9 of 9 connects to 10.0.0.7:80 failed: ETIMEDOUT; 4 of 4 connects to 10.0.0.5:80 failed: \
                        ETIMEDOUT; connects to 1 more peer failed";
        assert!(tcp.remark().contains(expected), "{}", tcp.remark());
    }

    /// Timeouts do not hide resets of the same peer, and errors of established connections do not explain failed ones.
    #[test]
    fn a_peer_with_timeouts_and_resets_has_both() {
        let mut tcp = Tcp::default();
        let ends = Ends { local: SocketAddr::from(([10, 0, 0, 1], 80)), peer: SocketAddr::from(([10, 0, 0, 2], 80)) };
        let mut add = |what: Happening, n: usize| (0..n).for_each(|_| tcp.figures.add(&outgoing(ends), what));
        add(Happening::Opened, 20);
        add(Happening::Failed, 6);
        add(Happening::ConnectError(110), 4);
        add(Happening::ConnectError(111), 2);
        add(Happening::Refused, 2);
        add(Happening::ResetReceived, 5);
        add(Happening::Error(104), 5);
        let expected =
            "6 of 20 connects to 10.0.0.2:80 failed: ETIMEDOUT, ECONNREFUSED; 10.0.0.2:80 reset 5 connections";
        assert_eq!(tcp.remark(), expected);
    }

    /// Of the connects under way, those count that have sent their SYN again.
    #[test]
    fn a_peer_without_an_answer_is_named() {
        let mut tcp = Tcp::default();
        let connect = |(port, last, resent): (u16, u8, u64)| {
            let [local, peer] = [(1, port), (last, 80)].map(|(last, port)| SocketAddr::from(([10, 0, 0, last], port)));
            Connection { since: 1, resent: Resent::after(resent), ..outgoing(Ends { local, peer }) }
        };
        let open = [(1, 2, 0), (2, 3, 1), (3, 3, 4), (4, 4, 9)].map(connect);
        tcp.figures.count_open(open.iter(), |_| None, std::iter::empty());
        assert_eq!(tcp.remark(), "2 connects to 10.0.0.3:80 without an answer, SYNs are sent again");
    }

    /// A wait is remarkable next to the time for which the connections were open.
    #[test]
    fn a_short_wait_for_a_window_is_no_finding() {
        let remark = |all: &[(u64, u64)]| {
            let mut tcp = Tcp::default();
            for (last, (window_wait_ns, open_ns)) in (2..).zip(all) {
                let [local, peer] = [1, last].map(|last| SocketAddr::from(([10, 0, 0, last], 80)));
                let (window_wait_ns, open_ns) = (window_wait_ns * 1_000_000, open_ns * 1_000_000);
                let carried = TcpCounters { sent: 1, window_wait_ns, open_ns, ..TcpCounters::default() };
                tcp.figures.add(&outgoing(Ends { local, peer }), Happening::Carried(carried));
            }
            tcp.remark()
        };
        assert_eq!(remark(&[(150, 100_000)]), "", "0.15 % of the time");
        assert_eq!(remark(&[(50, 60)]), "", "too short");
        let found = remark(&[(4000, 100_000), (150, 1000)]);
        assert_eq!(found, "data waited 150 ms for the receive window of 10.0.0.3:80");
    }
}
