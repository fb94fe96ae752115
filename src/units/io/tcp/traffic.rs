//! The growth of the counters that the kernel has for each connection.

use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::session::{TcpCounters, TcpSocket};

use super::connections::{Connection, Connections, Place};
use super::looks;

/// The limit of ended connections without a known owner, and how long they wait for one: events arrive late.
const MAX_WAITING: usize = 1 << 14;
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for those without bytes, which may be failed attempts to connect: nothing is missing without them.
const MAX_WAITING_EMPTY: usize = 1 << 12;
const PATIENCE_WITHOUT_BYTES: Duration = Duration::from_secs(1);
/// The number of looks that a socket is remembered for after its end, which the kernel reports later, or not at all.
const MAX_ABSENT: u8 = 3;
/// The limit of dead sockets whose end is not reported yet: reports can be lost.
const MAX_DEAD: usize = 1 << 14;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    values: TcpCounters,
    /// When they were read, in nanoseconds of the monotonic clock.
    read_at: u64,
    /// Whether the figures include the values; otherwise they are those when the measurement started.
    is_included: bool,
    /// The number of looks since the socket was seen.
    absent: u8,
}

/// The kernel's number of a socket, and its place: older kernels number the sockets of each network namespace from the
/// start, and a socket that connects again keeps its number.
type SocketKey = (u64, Place);

fn key(socket: &TcpSocket) -> SocketKey {
    (socket.cookie, looks::place(socket))
}

/// Returns the counters of a socket as those from before the measurement.
fn before(socket: &TcpSocket) -> Option<Counted> {
    Some(Counted { values: socket.counters?, read_at: socket.read_at, is_included: false, absent: 0 })
}

/// The counters of connections that the figures include.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    has_begun: bool,
    counted: FxHashMap<SocketKey, Counted>,
    waiting: Vec<(TcpSocket, Instant)>,
}

impl Traffic {
    /// Takes open sockets, and passes the growth of each connection's counters. Those of the first look are from before
    /// the measurement, and so are those of later ones whose connection no event shows to begin.
    pub(super) fn seen(
        &mut self,
        all: &[TcpSocket],
        connections: &Connections,
        mut grown: impl FnMut(&Connection, TcpCounters),
    ) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.counted = all.iter().filter_map(|socket| Some((key(socket), before(socket)?))).collect();
            return;
        }
        for socket in all {
            match self.growth(socket, connections) {
                Some((of, growth)) => grown(&of, growth),
                None => {
                    if let Some(before) = before(socket) {
                        self.counted.entry(key(socket)).or_insert(before);
                    }
                }
            }
        }
        let open: FxHashSet<SocketKey> = all.iter().map(key).collect();
        let mut dead = 0;
        self.counted.retain(|key, of| {
            of.absent = if open.contains(key) { 0 } else { of.absent.saturating_add(1) };
            let is_recent = of.absent <= MAX_ABSENT;
            // The kernel reports the end of a dead socket when its process closes it.
            let is_dead = !is_recent && dead < MAX_DEAD && connections.at(&key.1).is_some();
            dead += usize::from(is_dead);
            is_recent || is_dead
        });
    }

    /// Takes sockets that ended, and passes each with its connection and the growth of its counters. A socket whose
    /// connection no event has shown yet waits. Returns whether bytes are left out: too many wait, or no event comes.
    pub(super) fn ended(
        &mut self,
        sockets: Vec<TcpSocket>,
        now: Instant,
        connections: &Connections,
        mut grown: impl FnMut(&Connection, &TcpSocket, TcpCounters),
    ) -> bool {
        let (before, mut has_lost, mut empty) = (std::mem::take(&mut self.waiting), false, 0);
        let has_bytes = |socket: &TcpSocket| {
            let bytes = socket.counters.map(|of| TcpCounters { resent_segments: 0, ..of });
            bytes.is_some_and(|of| of != TcpCounters::default())
        };
        for (socket, since) in before.into_iter().chain(sockets.into_iter().map(|socket| (socket, now))) {
            match self.growth(&socket, connections) {
                Some((of, growth)) => {
                    self.counted.remove(&key(&socket));
                    grown(&of, &socket, growth);
                }
                // It has no bytes to count, but its connection awaits its last counters.
                None if !has_bytes(&socket) => {
                    if now.duration_since(since) < PATIENCE_WITHOUT_BYTES && empty < MAX_WAITING_EMPTY {
                        empty += 1;
                        self.waiting.push((socket, since));
                    } else {
                        self.counted.remove(&key(&socket));
                    }
                }
                None if now.duration_since(since) < PATIENCE && self.waiting.len() - empty < MAX_WAITING => {
                    self.waiting.push((socket, since));
                }
                None => {
                    // A socket that no look saw may have been dead before the measurement.
                    let was_seen = self.counted.remove(&key(&socket)).is_some();
                    has_lost |= was_seen || now.duration_since(since) < PATIENCE;
                }
            }
        }
        has_lost
    }

    fn growth(&mut self, socket: &TcpSocket, connections: &Connections) -> Option<(Connection, TcpCounters)> {
        let key = key(socket);
        let (now, of) = (socket.counters?, *connections.at(&key.1)?);
        let counted = self.counted.get(&key);
        // Sessions on the running machine have the same clock.
        let from = counted.map_or(0, |counted| counted.read_at).max(of.since).max(of.established);
        let open_ns = if from > 0 { socket.read_at.saturating_sub(from) } else { 0 };
        // The first look may be later than the first events.
        let before = counted.filter(|counted| counted.is_included || !of.began_here()).map(|counted| counted.values);
        let after = Counted { values: now, read_at: socket.read_at, is_included: true, absent: 0 };
        self.counted.insert(key, after);
        Some((of, TcpCounters { open_ns, ..now.since(&before.unwrap_or_default()) }))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::connections::Way;
    use super::super::fields::Ends;
    use super::*;
    use crate::units::kit::ThreadKey;

    fn addresses(port: u16) -> [SocketAddr; 2] {
        [SocketAddr::from(([10, 0, 0, 1], port)), SocketAddr::from(([10, 0, 3, 7], 80))]
    }

    fn socket(cookie: u64, port: u16, sent: u64) -> TcpSocket {
        let [local, peer] = addresses(port);
        let counters = Some(TcpCounters { sent, ..TcpCounters::default() });
        TcpSocket {
            local,
            peer,
            state: 1,
            inode: 9,
            namespace: 1,
            read_at: 1000,
            cookie,
            queue: [0; 2],
            drops: 0,
            rtt: [0; 2],
            counters,
            is_peer_full: false,
            is_full: false,
            awaits_window: false,
            resends: 0,
        }
    }

    fn connection(port: u16, since: u64) -> Connection {
        let [local, peer] = addresses(port);
        let new = Connection::new(Ends { local, peer }, Way::Out, [ThreadKey::of_row(1); 2], true);
        Connection { since, established: since, ..new }
    }

    #[test]
    fn growth_counts_once() {
        let (mut traffic, mut connections) = (Traffic::default(), Connections::default());
        let seen = |traffic: &mut Traffic, all: &[TcpSocket], connections: &Connections| {
            let mut sent = Vec::new();
            traffic.seen(all, connections, |of, growth| sent.push((of.ends.local.port(), growth.sent)));
            sent
        };
        let ended = |traffic: &mut Traffic, all: Vec<TcpSocket>, connections: &Connections| {
            let mut sent = Vec::new();
            let take =
                |of: &Connection, _: &TcpSocket, growth: TcpCounters| sent.push((of.ends.local.port(), growth.sent));
            traffic.ended(all, Instant::now(), connections, take);
            sent
        };
        // One connection is older than the measurement; one began before the first look.
        connections.add_earlier(connection(1, 0));
        connections.insert(0xa0, connection(2, 5));
        assert_eq!(seen(&mut traffic, &[socket(1, 1, 100), socket(2, 2, 30)], &connections), []);
        assert_eq!(seen(&mut traffic, &[socket(1, 1, 150), socket(2, 2, 40)], &connections), [(1, 50), (2, 40)]);
        // A look may be ahead of the events, and so may an end.
        assert_eq!(seen(&mut traffic, &[socket(1, 1, 150), socket(3, 3, 7)], &connections), [(1, 0)]);
        assert_eq!(ended(&mut traffic, vec![socket(2, 2, 45), socket(3, 3, 9)], &connections), [(2, 5)]);
        connections.insert(0xb0, connection(3, 6));
        connections.end(0xb0, connection(3, 6));
        assert_eq!(ended(&mut traffic, Vec::new(), &connections), [(3, 9)]);
        assert_eq!(ended(&mut traffic, Vec::new(), &connections), []);
        // A socket that never belongs to a connection is forgotten.
        let (none, late) = (Connections::default(), Instant::now() + 2 * PATIENCE);
        for (number, is_seen) in [(4, true), (5, false)] {
            let own = socket(number.into(), number, 1);
            let all = if is_seen { vec![own] } else { Vec::new() };
            assert_eq!(seen(&mut traffic, &all, &none), []);
            assert_eq!(ended(&mut traffic, vec![own], &none), []);
            assert_eq!(traffic.waiting.len(), 1);
            // A socket that was dead before the measurement is not missing.
            assert_eq!(traffic.ended(Vec::new(), late, &none, |_, _, _| ()), is_seen);
        }
        assert_eq!(traffic.waiting, []);
        (0..=MAX_ABSENT).for_each(|_| drop(seen(&mut traffic, &[], &none)));
        assert!(traffic.counted.is_empty());
    }

    /// Two namespaces may have connections with the same ends, each of another process.
    #[test]
    fn equals_of_two_namespaces_count_separately() {
        let (mut traffic, mut connections) = (Traffic::default(), Connections::default());
        let of = |namespace: u64| Connection { namespace, process: ThreadKey::of_row(namespace), ..connection(1, 5) };
        let [one, two] = [1, 2].map(of);
        let there = |of: &Connection, sent| TcpSocket { namespace: of.namespace, ..socket(9, 1, sent) };
        traffic.seen(&[], &connections, |_, _| ());
        connections.insert(0xa0, one);
        connections.insert(0xb0, two);
        let mut sent = Vec::new();
        let mut take = |of: &Connection, growth: TcpCounters| sent.push((of.process.tid, growth.sent));
        traffic.seen(&[there(&one, 100), there(&two, 30)], &connections, &mut take);
        traffic.seen(&[there(&two, 35), there(&one, 100)], &connections, &mut take);
        connections.end(0xa0, one);
        let ended = vec![there(&one, 107)];
        traffic.ended(ended, Instant::now(), &connections, |of, _, growth| take(of, growth));
        assert_eq!(sent, [(1, 100), (2, 30), (2, 5), (1, 0), (1, 7)]);
    }

    /// The time between two readings, from the start of the connection at the earliest.
    #[test]
    fn connections_have_the_time_for_which_they_were_open() {
        let (mut traffic, mut connections) = (Traffic::default(), Connections::default());
        let at = |read_at: u64, port: u16| TcpSocket { read_at, ..socket(port.into(), port, 1) };
        connections.add_earlier(connection(1, 0));
        traffic.seen(&[at(1000, 1)], &connections, |_, _| ());
        connections.insert(0xa0, connection(2, 1500));
        let mut open = Vec::new();
        for time in [2000, 2300] {
            let all = [at(time, 1), at(time, 2)];
            traffic.seen(&all, &connections, |of, growth| open.push((of.ends.local.port(), growth.open_ns)));
        }
        assert_eq!(open, [(1, 1000), (2, 500), (1, 300), (2, 300)]);
    }

    /// A reset socket disappears from looks, but its process may close it much later.
    #[test]
    fn an_end_that_is_reported_late_counts_nothing_twice() {
        let (mut traffic, mut connections) = (Traffic::default(), Connections::default());
        traffic.seen(&[], &connections, |_, _| ());
        connections.insert(0xa0, connection(1, 5));
        let mut sent = 0;
        traffic.seen(&[socket(1, 1, 100)], &connections, |_, growth| sent += growth.sent);
        connections.end(0xa0, connection(1, 5));
        for _ in 0..600 {
            traffic.seen(&[], &connections, |_, growth| sent += growth.sent);
        }
        traffic.ended(vec![socket(1, 1, 101)], Instant::now(), &connections, |_, _, growth| sent += growth.sent);
        assert_eq!(sent, 101);
    }

    /// The first look can miss sockets, for example of a network namespace.
    #[test]
    fn a_socket_from_before_that_a_later_look_shows_counts_from_there() {
        let (mut traffic, mut connections) = (Traffic::default(), Connections::default());
        let mut sent = 0;
        for all in [&[][..], &[socket(1, 1, 100)]] {
            traffic.seen(all, &connections, |_, growth| sent += growth.sent);
        }
        connections.insert(0xa0, connection(1, 0));
        traffic.seen(&[socket(1, 1, 130)], &connections, |_, growth| sent += growth.sent);
        assert_eq!(sent, 30);
    }

    #[test]
    fn ends_beyond_the_limit_are_reported() {
        let ended = |n: usize, sent: u64| {
            let all = (0..n as u64).map(|cookie| socket(cookie, 4, sent)).collect();
            Traffic::default().ended(all, Instant::now(), &Connections::default(), |_, _, _| ())
        };
        assert_eq!(
            [(MAX_WAITING, 1), (MAX_WAITING + 1, 1), (MAX_WAITING + 1, 0)].map(|(n, sent)| ended(n, sent)),
            [false, true, false]
        );
    }

    /// The report of an end may be ahead of the events of the connection, also if that carried nothing.
    #[test]
    fn a_connection_without_bytes_has_its_last_counters() {
        let (mut traffic, mut connections) = (Traffic::default(), Connections::default());
        let begun = Instant::now();
        traffic.ended(vec![socket(1, 1, 0)], begun, &connections, |_, _, _| panic!("its events have not come"));
        connections.insert(0xa0, connection(1, 5));
        connections.end(0xa0, connection(1, 5));
        let mut ended = Vec::new();
        let has_lost = traffic.ended(Vec::new(), begun, &connections, |of, _, _| ended.push(of.ends.local.port()));
        assert_eq!((ended, has_lost), (vec![1], false));
        // A failed attempt to connect does not wait for long.
        traffic.ended(vec![socket(2, 2, 0)], begun, &connections, |_, _, _| ());
        assert_eq!(traffic.waiting.len(), 1);
        assert!(!traffic.ended(Vec::new(), begun + PATIENCE_WITHOUT_BYTES, &connections, |_, _, _| ()));
        assert_eq!(traffic.waiting, []);
    }

    #[test]
    fn sockets_of_one_number_count_separately() {
        let (mut traffic, mut connections) = (Traffic::default(), Connections::default());
        traffic.seen(&[], &connections, |_, _| ());
        for port in [1u16, 2] {
            connections.insert(u64::from(port), connection(port, 5));
        }
        let (all, mut sent) = ([socket(9, 1, 100), socket(9, 2, 30)], Vec::new());
        for _ in 0..2 {
            traffic.seen(&all, &connections, |of, growth| sent.push((of.ends.local.port(), growth.sent)));
        }
        assert_eq!(sent, [(1, 100), (2, 30), (1, 0), (2, 0)]);
    }

    #[test]
    fn a_connection_is_found_by_its_ends() {
        let mut connections = Connections::default();
        let place = |port: u16| connection(port, 0).place();
        // The port is chosen later.
        connections.insert(0xa0, connection(0, 5));
        connections.insert(0xa0, connection(7, 5));
        assert_eq!([0, 7].map(|port| connections.at(&place(port)).map(|of| of.since)), [None, Some(5)]);
        connections.end(0xa0, connection(7, 5));
        connections.insert(0xb0, connection(7, 6));
        assert_eq!(connections.at(&place(7)).map(|of| of.since), Some(6));
        connections.has_last_counters(&connection(7, 6));
        connections.end(0xb0, connection(7, 6));
        connections.has_last_counters(&connection(7, 6));
        assert_eq!(connections.at(&place(7)), None);
        // The last counters may precede the event of the end, also for a connection from before.
        connections.insert(0xc0, connection(8, 7));
        connections.add_earlier(connection(9, 0));
        for port in [8, 9] {
            connections.has_last_counters(&connection(port, 0));
        }
        connections.take_earlier(place(9).ends);
        connections.end(0xc0, connection(8, 7));
        connections.end(0xd0, connection(9, 0));
        assert_eq!([8, 9].map(|port| connections.at(&place(port)).copied()), [None; 2]);
        // Only that connection had its counters.
        connections.end(0xc0, connection(8, 8));
        assert_eq!(connections.at(&place(8)).map(|of| of.since), Some(8));
    }
}
