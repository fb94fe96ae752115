//! The figures of connections, by peer, listening port and process.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::hash::Hash;

use crate::session::{TcpCounters, TcpSocket};
use crate::units::kit::prelude::*;

use super::connections::{Connection, PeerKey, Place, Way};
use super::listeners::Port;

/// The limit of rows of each kind; further ones share a row.
const MAX_ROWS: usize = 1 << 14;

/// A change of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Happening {
    Opened,
    Accepted,
    /// The connection reached its peer after so many nanoseconds.
    Connected(u64),
    Failed,
    /// The connection ended after so many nanoseconds; 0 if its start is unknown.
    Closed(u64),
    /// So many segments were sent again.
    Retransmitted(u64),
    ResetSent,
    /// The peer reset the connection.
    ResetReceived,
    /// The peer reset the connection before it had reached its peer.
    Refused,
    /// The socket reported an error number.
    Error(u32),
    /// The same for a connection that has not reached its peer.
    ConnectError(u32),
    /// A packet was dropped because a queue of the socket or its receive window was full.
    Overflowed,
    /// The counters of the connection grew.
    Carried(TcpCounters),
    /// The connection ended with this smoothed round-trip time and its mean deviation, in nanoseconds.
    RoundTrips([u64; 2]),
}

impl Happening {
    /// Returns the error of a connection, which may have failed before it reached its peer.
    pub(super) fn error(number: u32, has_failed: bool) -> Self {
        if has_failed { Self::ConnectError(number) } else { Self::Error(number) }
    }
}

/// The sums of a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) opened: u64,
    pub(super) accepted: u64,
    pub(super) failed: u64,
    pub(super) closed: u64,
    pub(super) connects: Stats,
    pub(super) life: Stats,
    pub(super) retransmits: u64,
    pub(super) resets_sent: u64,
    pub(super) resets_received: u64,
    /// Those of them that refused a connection.
    pub(super) refused: u64,
    pub(super) errors: BTreeMap<u32, u64>,
    /// Those of them that attempts to connect failed with.
    pub(super) connect_errors: BTreeMap<u32, u64>,
    pub(super) overflows: u64,
    pub(super) carried: TcpCounters,
    /// The round-trip times of connections that ended, and their mean deviations, in nanoseconds.
    ended_rtt: [Stats; 2],
    pub(super) now: Now,
}

/// Figures of the connections that are open now.
#[derive(Clone, Debug, Default)]
pub(super) struct Now {
    pub(super) open: u64,
    /// The connects that have sent their SYN again, and have no answer.
    pub(super) unanswered: u64,
    /// The connections whose peer's receive window is zero.
    pub(super) zero_windows: u64,
    /// The smoothed round-trip times and their mean deviations, in nanoseconds, also of connections that ended.
    pub(super) rtt: [Stats; 2],
    pub(super) queue: Option<ListenQueue>,
}

/// The queue of a listening socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ListenQueue {
    /// The connections that wait to be accepted, and their limit.
    pub(super) waiting: u64,
    pub(super) limit: u64,
    /// The packets of new connections that were dropped: of one connection, each that is sent again.
    pub(super) dropped: u64,
}

impl ListenQueue {
    fn merge(&mut self, other: &Self) {
        self.waiting += other.waiting;
        self.limit += other.limit;
        self.dropped += other.dropped;
    }
}

impl Figures {
    fn add(&mut self, what: Happening) {
        match what {
            Happening::Opened => self.opened += 1,
            Happening::Accepted => self.accepted += 1,
            Happening::Connected(ns) => self.connects.add(ns),
            Happening::Failed => self.failed += 1,
            Happening::Closed(ns) => {
                self.closed += 1;
                if ns > 0 {
                    self.life.add(ns);
                }
            }
            Happening::Retransmitted(segments) => self.retransmits += segments,
            Happening::ResetSent => self.resets_sent += 1,
            Happening::ResetReceived => self.resets_received += 1,
            Happening::Refused => {
                self.resets_received += 1;
                self.refused += 1;
            }
            Happening::ConnectError(number) => {
                *self.errors.entry(number).or_default() += 1;
                *self.connect_errors.entry(number).or_default() += 1;
            }
            Happening::Error(number) => *self.errors.entry(number).or_default() += 1,
            Happening::Overflowed => self.overflows += 1,
            Happening::Carried(counters) => self.carried.add(&counters),
            Happening::RoundTrips(rtt) => add_each(&mut self.ended_rtt, rtt),
        }
    }

    /// The number by which rows are sorted: connections, and what went wrong with them.
    pub(super) fn weight(&self) -> u64 {
        let connections = self.opened + self.accepted + self.closed + self.now.open + self.now.unanswered;
        connections
            + self.overflows
            + self.dropped()
            + self.failed
            + self.retransmits
            + self.resets_sent
            + self.resets_received
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.opened += other.opened;
        self.accepted += other.accepted;
        self.failed += other.failed;
        self.closed += other.closed;
        self.connects.merge(&other.connects);
        self.life.merge(&other.life);
        self.retransmits += other.retransmits;
        self.resets_sent += other.resets_sent;
        self.resets_received += other.resets_received;
        self.refused += other.refused;
        for (own, other) in [(&mut self.errors, &other.errors), (&mut self.connect_errors, &other.connect_errors)] {
            other.iter().for_each(|(number, n)| *own.entry(*number).or_default() += n);
        }
        self.overflows += other.overflows;
        self.carried.add(&other.carried);
        self.ended_rtt.iter_mut().zip(&other.ended_rtt).for_each(|(own, other)| own.merge(other));
        self.now.open += other.now.open;
        self.now.unanswered += other.now.unanswered;
        self.now.zero_windows += other.now.zero_windows;
        self.now.rtt.iter_mut().zip(&other.now.rtt).for_each(|(own, other)| own.merge(other));
        if let Some(queue) = &other.now.queue {
            self.now.queue.get_or_insert_default().merge(queue);
        }
    }

    fn renew(&mut self) {
        self.now = Now { rtt: self.ended_rtt.clone(), ..Now::default() };
    }

    fn is_empty(&self) -> bool {
        let carried = TcpCounters { open_ns: 0, ..self.carried };
        let is_unused = carried == TcpCounters::default() && self.ended_rtt.iter().all(|stats| stats.n == 0);
        is_unused && self.weight() == 0 && self.now.queue.is_none()
    }

    pub(super) fn dropped(&self) -> u64 {
        self.now.queue.map_or(0, |queue| queue.dropped)
    }
}

fn add_each(stats: &mut [Stats; 2], values: [u64; 2]) {
    stats.iter_mut().zip(values).for_each(|(stats, value)| stats.add(value));
}

/// Returns the smoothed round-trip time of a connection and its mean deviation in nanoseconds, if it is known.
pub(super) fn round_trips(socket: &TcpSocket) -> Option<[u64; 2]> {
    Some(socket.rtt.map(|us| u64::from(us) * 1000)).filter(|[rtt, _]| *rtt > 0)
}

/// Rows by a key; `None` is the row of the keys beyond the limit.
#[derive(Clone, Debug)]
pub(super) struct RowsBy<K>(FxHashMap<Option<K>, Figures>);

impl<K> Default for RowsBy<K> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Copy + Eq + Hash + Ord> RowsBy<K> {
    pub(super) fn row(&mut self, key: K) -> &mut Figures {
        let key = Some(key).filter(|key| self.0.len() < MAX_ROWS || self.0.contains_key(&Some(*key)));
        self.0.entry(key).or_default()
    }

    pub(super) fn sorted(&self) -> Vec<(Option<K>, &Figures)> {
        by_weight(self.0.iter().map(|(key, row)| (*key, row)), |row| row.weight())
    }

    fn renew(&mut self) {
        self.0.values_mut().for_each(Figures::renew);
    }

    fn drop_empty(&mut self) {
        self.0.retain(|_, row| !row.is_empty());
    }
}

/// The figures of all rows.
#[derive(Clone, Debug, Default)]
pub(super) struct AllFigures {
    pub(super) peers: RowsBy<PeerKey>,
    pub(super) ports: RowsBy<Port>,
    pub(super) processes: RowsBy<ThreadKey>,
    pub(super) total: Figures,
}

impl AllFigures {
    /// Counts what happened to a connection in each of its rows.
    pub(super) fn add(&mut self, of: &Connection, what: Happening) {
        self.each(of, |row| row.add(what));
    }

    fn each(&mut self, of: &Connection, mut change: impl FnMut(&mut Figures)) {
        if !of.counts {
            return;
        }
        change(self.peers.row(of.peer()));
        change(self.processes.row(of.process));
        if let Some(port) = of.port {
            change(self.ports.row(port));
        }
        change(&mut self.total);
    }

    /// Counts the connections that are open now, with their round-trip times, the connects without an answer, and the
    /// queues of listening sockets.
    pub(super) fn count_open<'a>(
        &mut self,
        open: impl Iterator<Item = &'a Connection>,
        socket: impl Fn(&Place) -> Option<&'a TcpSocket>,
        queues: impl Iterator<Item = (Port, ListenQueue)>,
    ) {
        self.peers.renew();
        self.ports.renew();
        self.processes.renew();
        self.total.renew();
        for connection in open {
            if !connection.is_established() {
                let is_unanswered = connection.way == Way::Out && connection.resent.has_events();
                self.each(connection, |row| row.now.unanswered += u64::from(is_unanswered));
                continue;
            }
            let socket = socket(&connection.place());
            self.each(connection, |row| {
                row.now.open += 1;
                row.now.zero_windows += u64::from(socket.is_some_and(|socket| socket.is_peer_full));
                socket.and_then(round_trips).into_iter().for_each(|rtt| add_each(&mut row.now.rtt, rtt));
            });
        }
        for (port, queue) in queues {
            self.ports.row(port).now.queue.get_or_insert_default().merge(&queue);
        }
        self.peers.drop_empty();
        self.ports.drop_empty();
        self.processes.drop_empty();
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::fields::Ends;
    use super::*;

    /// After a reset, a connection may end whose close was counted before.
    #[test]
    fn rows_with_bytes_or_round_trips_alone_stay() {
        let [local, peer] = [40_000, 80].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        let ends = Ends { local, peer };
        let of = Connection::new(ends, Way::Out, [ThreadKey::of_row(1); 2], true);
        let carried = |sent| Happening::Carried(TcpCounters { sent, ..TcpCounters::default() });
        let rows = |what: Happening| {
            let mut figures = AllFigures::default();
            figures.add(&of, what);
            figures.count_open(std::iter::empty(), |_| None, std::iter::empty());
            [figures.peers.sorted().len(), figures.processes.sorted().len()]
        };
        assert_eq!([carried(1), Happening::RoundTrips([900, 90])].map(rows), [[1; 2]; 2]);
        assert_eq!(rows(carried(0)), [0; 2]);
    }
}
