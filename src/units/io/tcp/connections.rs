//! The open connections, with the process that owns each.

use std::net::SocketAddr;

use rustc_hash::{FxHashMap, FxHashSet};

use super::fields::Ends;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    pub(super) ends: Ends,
    pub(super) way: Way,
    /// The process that owns it, and the thread that opened it; 0 if unknown.
    pub(super) pid: i32,
    pub(super) tid: i32,
    /// The listening socket's address.
    pub(super) port: Option<SocketAddr>,
    /// The time of `connect`; 0 if unknown.
    pub(super) since: u64,
    /// When it was established; 0 if unknown.
    pub(super) established: u64,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    pub(super) local: SocketAddr,
    pub(super) pid: i32,
    pub(super) tid: i32,
}

impl Listener {
    /// Whether it accepts connections to an address; a specific address is closer than all of a port.
    fn closeness(&self, local: SocketAddr) -> Option<bool> {
        let is_own = self.local.ip() == local.ip();
        (self.local.port() == local.port() && (is_own || self.local.ip().is_unspecified())).then_some(is_own)
    }
}

/// Connections and listening sockets by the kernel's address of their socket.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections {
    open: FxHashMap<u64, Connection>,
    /// The socket of each open connection.
    sockets: FxHashMap<Ends, u64>,
    /// Connections that ended, until their last counters arrive.
    ended: FxHashMap<Ends, Connection>,
    /// Open connections whose last counters have arrived: the event of their end follows.
    reported: FxHashSet<Ends>,
    listeners: FxHashMap<u64, Listener>,
    /// Sockets from before the measurement: the kernel does not report their address.
    before: FxHashMap<Ends, Connection>,
    listeners_before: Vec<Listener>,
}

impl Connections {
    /// Adds a connection, or replaces what is known about it.
    pub(super) fn insert(&mut self, socket: u64, connection: Connection) {
        if self.open.len() >= MAX && !self.open.contains_key(&socket) {
            self.forget();
        }
        self.remove(socket);
        self.open.insert(socket, connection);
        self.sockets.insert(connection.ends, socket);
    }

    pub(super) fn get(&self, socket: u64) -> Option<&Connection> {
        self.open.get(&socket)
    }

    fn remove(&mut self, socket: u64) {
        if let Some(of) = self.open.remove(&socket)
            && self.sockets.get(&of.ends) == Some(&socket)
        {
            self.sockets.remove(&of.ends);
        }
    }

    /// Ends a connection. Its last counters may arrive later.
    pub(super) fn end(&mut self, socket: u64, connection: Connection) {
        self.remove(socket);
        // A connection that did not reach its peer has no counters: they do not arrive.
        if self.reported.remove(&connection.ends) || !connection.is_established() {
            return;
        }
        if self.ended.len() >= MAX {
            self.ended.clear();
        }
        self.ended.insert(connection.ends, connection);
    }

    /// Returns the connection between two ends: an open one, else one that has ended.
    pub(super) fn between(&self, ends: &Ends) -> Option<&Connection> {
        let open = self.sockets.get(ends).and_then(|socket| self.open.get(socket));
        open.or_else(|| self.before.get(ends)).or_else(|| self.ended.get(ends))
    }

    /// Forgets a connection that ended, or marks an open one: its last counters have arrived.
    pub(super) fn has_last_counters(&mut self, ends: &Ends) {
        let is_open = self.sockets.contains_key(ends) || self.before.contains_key(ends);
        if self.ended.remove(ends).is_none() && is_open && self.reported.len() < MAX {
            self.reported.insert(*ends);
        }
    }

    /// Takes a connection from before the measurement.
    pub(super) fn take_earlier(&mut self, ends: Ends) -> Option<Connection> {
        self.before.remove(&ends)
    }

    /// Adds a connection from before the measurement, or what a look knows about one that an event has shown.
    pub(super) fn add_earlier(&mut self, connection: Connection) {
        if let Some(known) = self.sockets.get(&connection.ends).and_then(|socket| self.open.get_mut(socket)) {
            if known.pid == 0 && !known.began_here() {
                *known = connection;
            }
            return;
        }
        if self.before.len() < MAX {
            self.before.insert(connection.ends, connection);
        }
    }

    /// Replaces the listening sockets from before the measurement.
    pub(super) fn listened_before(&mut self, mut all: Vec<Listener>) {
        all.truncate(MAX);
        self.listeners_before = all;
    }

    pub(super) fn listen(&mut self, socket: u64, listener: Listener) {
        self.listeners_before.retain(|before| before.local != listener.local);
        if self.listeners.len() < MAX {
            self.listeners.insert(socket, listener);
        }
    }

    pub(super) fn end_listening(&mut self, socket: u64, local: SocketAddr) {
        if self.listeners.remove(&socket).is_none() {
            self.listeners_before.retain(|before| before.local != local);
        }
    }

    /// Returns the listening socket that accepts connections to an address; of several, the first one.
    pub(super) fn listener_for(&self, local: SocketAddr) -> Option<Listener> {
        let all = self.listeners.values().chain(&self.listeners_before);
        let close = all.filter_map(|listener| Some((listener.closeness(local)?, listener)));
        close.max_by_key(|(is_own, of)| (*is_own, std::cmp::Reverse((of.pid, of.local)))).map(|(_, of)| *of)
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
