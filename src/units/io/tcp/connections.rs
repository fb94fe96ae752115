//! The open connections, with the process that owns each.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::units::kit::ThreadKey;

use super::fields::Ends;
use super::listeners::{Listener, Listeners, Port};

/// The limit of open connections; the state is forgotten when it is full.
const MAX: usize = 1 << 18;

/// The end that opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Way {
    /// This machine connected to a peer.
    Out,
    /// A peer connected to a port of this machine.
    In,
    /// The connection is older than the measurement, and its ports do not show who opened it.
    Unknown,
}

impl Way {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Out => "to",
            Self::In => "from",
            Self::Unknown => "",
        }
    }
}

/// Both ends of a connection and its network namespace: several namespaces may have the same addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) ends: Ends,
    /// The namespace's inode; 0 if unknown, because events do not have it.
    pub(super) namespace: u64,
}

impl Place {
    /// Returns the places with these ends in any namespace.
    pub(super) fn in_any(ends: Ends) -> std::ops::RangeInclusive<Self> {
        Self { ends, namespace: 0 }..=Self { ends, namespace: u64::MAX }
    }
}

/// The segments of a connection that were sent again. An event may report several, and the counter is read later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Resent {
    events: u64,
    counted: u64,
}

impl Resent {
    /// After events of segments that were sent again before the connection was made.
    pub(super) fn after(events: u64) -> Self {
        Self { events, counted: 0 }
    }

    pub(super) fn has_events(&self) -> bool {
        self.events > 0
    }

    /// Adds an event. Returns the segments that are new.
    pub(super) fn add_event(&mut self) -> u64 {
        self.change(|of| of.events += 1)
    }

    /// Adds the growth of the kernel's counter. Returns the segments that are new.
    pub(super) fn add_counted(&mut self, segments: u64) -> u64 {
        self.change(|of| of.counted = of.counted.saturating_add(segments))
    }

    fn change(&mut self, change: impl FnOnce(&mut Self)) -> u64 {
        let before = self.events.max(self.counted);
        change(self);
        self.events.max(self.counted) - before
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) ends: Ends,
    /// See [`Place::namespace`].
    pub(super) namespace: u64,
    pub(super) way: Way,
    /// The process that owns it, and the thread that opened it; 0 if unknown.
    pub(super) process: ThreadKey,
    pub(super) thread: ThreadKey,
    /// The listening socket's address.
    pub(super) port: Option<Port>,
    /// The time of `connect`; 0 if unknown.
    pub(super) since: u64,
    /// When it was established; 0 if unknown.
    pub(super) established: u64,
    pub(super) resent: Resent,
    /// Whether its figures belong to the target.
    pub(super) counts: bool,
}

/// A row of peers: those of accepted connections have no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PeerKey {
    pub(super) way: Way,
    pub(super) peer: SocketAddr,
}

impl PeerKey {
    /// Returns the address as rows show it.
    pub(super) fn label(self) -> String {
        if self.peer.port() == 0 { self.peer.ip().to_string() } else { self.peer.to_string() }
    }
}

impl Connection {
    /// Creates a connection in this machine's own network namespace, without a port and times.
    pub(super) fn new(ends: Ends, way: Way, [process, thread]: [ThreadKey; 2], counts: bool) -> Self {
        let resent = Resent::default();
        Self { ends, namespace: 0, way, process, thread, port: None, since: 0, established: 0, resent, counts }
    }

    pub(super) fn place(&self) -> Place {
        Place { ends: self.ends, namespace: self.namespace }
    }

    pub(super) fn peer(&self) -> PeerKey {
        let Ends { peer, .. } = self.ends;
        let port = if self.way == Way::In { 0 } else { peer.port() };
        PeerKey { way: self.way, peer: SocketAddr::new(peer.ip(), port) }
    }

    /// Whether its start was seen.
    pub(super) fn began_here(&self) -> bool {
        self.since > 0 || self.established > 0
    }

    /// Whether it has reached its peer.
    pub(super) fn is_established(&self) -> bool {
        self.established > 0 || self.since == 0
    }
}

/// Connections by the kernel's address of their socket, and listening sockets.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections {
    open: FxHashMap<u64, Connection>,
    /// The socket of each open connection.
    sockets: BTreeMap<Place, u64>,
    /// Connections that ended, until their last counters arrive.
    ended: FxHashMap<Place, Connection>,
    /// Open connections whose last counters have arrived: the event of their end follows.
    reported: FxHashSet<Place>,
    pub(super) listeners: Listeners,
    /// Sockets from before the measurement: the kernel does not report their address.
    before: BTreeMap<Place, Connection>,
}

impl Connections {
    /// Adds a connection, or replaces what is known about it.
    pub(super) fn insert(&mut self, socket: u64, connection: Connection) {
        if self.open.len() >= MAX && !self.open.contains_key(&socket) {
            self.forget();
        }
        self.remove(socket);
        self.open.insert(socket, connection);
        self.sockets.insert(connection.place(), socket);
    }

    /// Returns the other open socket with the same place, in another namespace unless its end was not seen.
    pub(super) fn twin(&self, socket: u64, place: &Place) -> Option<(u64, Connection)> {
        let other = self.sockets.get(place).copied().filter(|other| *other != socket)?;
        Some((other, *self.open.get(&other)?))
    }

    pub(super) fn get(&self, socket: u64) -> Option<&Connection> {
        self.open.get(&socket)
    }

    fn remove(&mut self, socket: u64) {
        if let Some(of) = self.open.remove(&socket)
            && self.sockets.get(&of.place()) == Some(&socket)
        {
            self.sockets.remove(&of.place());
        }
    }

    /// Ends a connection. Its last counters may arrive later.
    pub(super) fn end(&mut self, socket: u64, connection: Connection) {
        self.remove(socket);
        // A connection that did not reach its peer has no counters: they do not arrive.
        if self.reported.remove(&connection.place()) || !connection.is_established() {
            return;
        }
        if self.ended.len() >= MAX {
            self.ended.clear();
        }
        self.ended.insert(connection.place(), connection);
    }

    /// Returns the connection at a place: an open one, else one that has ended.
    pub(super) fn at(&self, place: &Place) -> Option<&Connection> {
        // The namespace of most connections is not known.
        let unknown = Place { namespace: 0, ..*place };
        let open = |place: &Place| self.sockets.get(place).and_then(|socket| self.open.get(socket));
        let exact = open(place).or_else(|| self.before.get(place));
        let ended = || self.ended.get(place).or_else(|| self.ended.get(&unknown));
        exact.or_else(|| open(&unknown)).or_else(|| self.before.get(&unknown)).or_else(ended)
    }

    /// Returns the resent segments of an open connection by its socket: several that connect have the same place.
    pub(super) fn resent_of(&mut self, socket: u64) -> Option<&mut Resent> {
        self.open.get_mut(&socket).map(|of| &mut of.resent)
    }

    /// Returns the resent segments of the connection that [`Self::at`] returns.
    pub(super) fn resent_at(&mut self, place: &Place) -> Option<&mut Resent> {
        let places = [*place, Place { namespace: 0, ..*place }];
        for place in &places {
            let socket = self.sockets.get(place).filter(|socket| self.open.contains_key(*socket)).copied();
            if let Some(socket) = socket {
                return self.resent_of(socket);
            }
            if self.before.contains_key(place) {
                return self.before.get_mut(place).map(|of| &mut of.resent);
            }
        }
        let place = places.iter().find(|place| self.ended.contains_key(*place))?;
        self.ended.get_mut(place).map(|of| &mut of.resent)
    }

    /// Returns the open connections with these ends in any namespace.
    pub(super) fn between(&self, ends: Ends) -> impl Iterator<Item = &Connection> {
        let open = self.sockets.range(Place::in_any(ends)).filter_map(|(_, socket)| self.open.get(socket));
        open.chain(self.before.range(Place::in_any(ends)).map(|(_, of)| of))
    }

    /// Forgets a connection that ended, or marks an open one: its last counters have arrived.
    pub(super) fn has_last_counters(&mut self, of: &Connection) {
        let place = of.place();
        let is_open = self.sockets.contains_key(&place) || self.before.contains_key(&place);
        if self.ended.remove(&place).is_none() && is_open && self.reported.len() < MAX {
            self.reported.insert(place);
        }
    }

    /// Returns the number of the target's ended connections whose last counters have not arrived.
    pub(super) fn awaited(&self) -> usize {
        self.ended.values().filter(|of| of.counts).count()
    }

    /// Takes the connection from before the measurement with these ends; `None` if several namespaces have one.
    pub(super) fn take_earlier(&mut self, ends: Ends) -> Option<Connection> {
        let mut all = self.before.range(Place::in_any(ends)).map(|(place, _)| *place);
        let place = all.next().filter(|_| all.next().is_none())?;
        self.before.remove(&place)
    }

    /// Adds a connection from before the measurement, or what a look knows about one that an event has shown.
    pub(super) fn add_earlier(&mut self, connection: Connection) {
        let place = connection.place();
        let unknown = Place { namespace: 0, ..place };
        let socket = self.sockets.get(&place).or_else(|| self.sockets.get(&unknown)).copied();
        if let Some((socket, known)) = socket.and_then(|socket| Some((socket, *self.open.get(&socket)?))) {
            if known.process.tid == 0 && !known.began_here() {
                self.insert(socket, connection);
            }
            return;
        }
        if self.before.len() < MAX {
            self.before.insert(place, connection);
        }
    }

    /// Forgets connections from before the measurement that have ended, of those that have an equal in another namespace:
    /// events do not have the namespace.
    pub(super) fn end_equals(&mut self, is_open: impl Fn(&Place) -> bool) {
        let (all, next) = (self.before.keys(), self.before.keys().skip(1));
        let equal: FxHashSet<Ends> = all.zip(next).filter(|(a, b)| a.ends == b.ends).map(|(of, _)| of.ends).collect();
        if !equal.is_empty() {
            self.before.retain(|place, _| !equal.contains(&place.ends) || is_open(place));
        }
    }

    /// Returns accepted connections whose namespace was unknown, with their listening socket in the only namespace that
    /// has a connection with the same ends. `namespaces` returns these.
    pub(super) fn located(&self, namespaces: impl Fn(Ends) -> Vec<u64>) -> Vec<(u64, Connection)> {
        let is_lost = |of: &Connection| of.way == Way::In && of.process.tid == 0 && of.namespace == 0;
        let find = |(socket, of): (&u64, &Connection)| {
            let [namespace] = namespaces(of.ends)[..] else { return None };
            let Listener { port, process, thread } = self.listeners.find(of.ends.local, namespace).one()?;
            Some((*socket, Connection { namespace, process, thread, port: Some(port), ..*of }))
        };
        self.open.iter().filter(|(_, of)| is_lost(of)).filter_map(find).collect()
    }

    /// Iterates over all open connections.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.open.values().chain(self.before.values())
    }

    /// Forgets connections after lost records: they may have ended.
    pub(super) fn forget(&mut self) {
        self.open.clear();
        self.sockets.clear();
        self.before.clear();
        self.reported.clear();
    }

    /// Also forgets connections that have ended: their last counters do not arrive.
    pub(super) fn forget_all(&mut self) {
        self.forget();
        self.ended.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::listeners::FoundListener;
    use super::*;

    const LOCAL: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

    fn listener(namespace: u64) -> Listener {
        let process = ThreadKey::of_row(namespace);
        Listener { port: Port { local: LOCAL.into(), namespace }, process, thread: process }
    }

    /// A connection of a client's port, accepted in a namespace.
    fn accepted(port: u16, namespace: u64) -> Connection {
        let ends = Ends { local: LOCAL.into(), peer: ([10, 0, 0, 1], port).into() };
        let process = ThreadKey::of_row(namespace);
        Connection { namespace, since: 5, ..Connection::new(ends, Way::In, [process; 2], true) }
    }

    fn two_servers() -> Connections {
        let mut connections = Connections::default();
        connections.listeners.replace_earlier(vec![listener(1), listener(2)]);
        connections
    }

    #[test]
    fn an_address_in_two_namespaces_has_two_listeners() {
        let mut connections = two_servers();
        let found = |connections: &Connections| {
            [0, 1, 2, 3]
                .map(|namespace| connections.listeners.find(LOCAL.into(), namespace).one().map(|of| of.process.tid))
        };
        assert_eq!(found(&connections), [None, Some(1), Some(2), None]);
        assert_eq!(connections.listeners.find(LOCAL.into(), 0), FoundListener::Several(LOCAL.into()));
        // The namespace of a process that has ended is unknown.
        connections.listeners.end(0xa0, Port { local: LOCAL.into(), namespace: 0 }, 1);
        assert_eq!(found(&connections), [Some(2), None, Some(2), None]);
        connections.listeners.add(0xb0, listener(1));
        assert_eq!(found(&connections), [None, Some(1), Some(2), None]);
        connections.listeners.end(0xb0, listener(1).port, 1);
        assert_eq!(found(&connections), [Some(2), None, Some(2), None]);
    }

    #[test]
    fn connections_with_equal_ends_keep_their_processes() {
        let mut connections = two_servers();
        let [one, two] = [accepted(4000, 1), accepted(4000, 2)];
        connections.add_earlier(one);
        connections.add_earlier(two);
        let pid = |connections: &Connections, of: &Connection| connections.at(&of.place()).map(|of| of.process.tid);
        assert_eq!([one, two].map(|of| pid(&connections, &of)), [Some(1), Some(2)]);
        // An event does not have the namespace: it may be of either.
        assert_eq!(connections.take_earlier(one.ends), None);
        connections.end_equals(|place| place.namespace == 2);
        assert_eq!([one, two].map(|of| pid(&connections, &of)), [None, Some(2)]);
        assert_eq!(connections.take_earlier(one.ends), Some(two));
        // Without an equal, a connection stays until the event of its end.
        connections.add_earlier(one);
        connections.end_equals(|_| false);
        assert_eq!(pid(&connections, &one), Some(1));
    }

    #[test]
    fn ended_connections_are_awaited_until_their_last_counters_arrive() {
        let mut connections = Connections::default();
        let established = |port: u16, counts: bool| Connection { established: 6, counts, ..accepted(port, 1) };
        // The second is of no target, and the third did not reach its peer.
        let all = [established(4000, true), established(4001, false), accepted(4002, 1), established(4003, true)];
        for (socket, of) in (0xa0..).zip(all) {
            connections.insert(socket, of);
            connections.end(socket, of);
        }
        assert_eq!(connections.awaited(), 2);
        connections.has_last_counters(&all[0]);
        assert_eq!(connections.awaited(), 1);
    }

    /// An event may report several segments, and the counter has those of a handshake that had events before.
    #[test]
    fn resent_segments_count_once() {
        let mut connections = two_servers();
        let of = Connection { established: 6, resent: Resent::after(1), ..accepted(4000, 1) };
        connections.insert(0xa0, of);
        let at = |connections: &mut Connections, segments: u64| {
            connections.resent_at(&of.place()).map(|resent| resent.add_counted(segments))
        };
        let event = |connections: &mut Connections| connections.resent_of(0xa0).map(Resent::add_event);
        assert_eq!(at(&mut connections, 1), Some(0), "the segment of the handshake");
        assert_eq!([event(&mut connections), at(&mut connections, 3)], [Some(1), Some(2)]);
        // The counter was ahead of the event.
        assert_eq!([event(&mut connections), at(&mut connections, 0)], [Some(0); 2]);
        assert_eq!(connections.resent_at(&accepted(4001, 1).place()), None);
        let last = *connections.get(0xa0).expect("it is open");
        connections.end(0xa0, last);
        assert_eq!([event(&mut connections), at(&mut connections, 9)], [None, Some(9)]);
    }

    #[test]
    fn accepted_connections_get_the_listener_of_their_namespace() {
        let mut connections = two_servers();
        let unknown = |port: u16| accepted(port, 0);
        (0..3).for_each(|i| connections.insert(0xa0 + u64::from(i), unknown(4000 + i)));
        let namespaces = |ends: Ends| match ends.peer.port() {
            4000 => vec![2],
            4001 => vec![1, 2],
            _ => Vec::new(),
        };
        let located = connections.located(namespaces);
        let found: Vec<_> =
            located.iter().map(|(socket, of)| (*socket, of.process.tid, of.namespace, of.port)).collect();
        assert_eq!(found, [(0xa0, 2, 2, Some(listener(2).port))]);
        located.into_iter().for_each(|(socket, of)| connections.insert(socket, of));
        assert_eq!(connections.at(&accepted(4000, 2).place()).map(|of| of.process.tid), Some(2));
        assert_eq!(connections.twin(0xb0, &accepted(4000, 2).place()).map(|(socket, _)| socket), Some(0xa0));
    }
}
