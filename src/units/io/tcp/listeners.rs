//! The listening sockets, by their port.

use std::cmp::Reverse;
use std::net::SocketAddr;

use rustc_hash::FxHashMap;

use crate::units::kit::ThreadKey;

/// The limit of listening sockets.
const MAX: usize = 1 << 18;

/// A listening address, in a network namespace; 0 if that is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) local: SocketAddr,
    pub(super) namespace: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    pub(super) port: Port,
    pub(super) process: ThreadKey,
    pub(super) thread: ThreadKey,
}

impl Listener {
    /// Whether it accepts connections to an address; a specific address is closer than all of a port.
    fn closeness(&self, local: SocketAddr) -> Option<bool> {
        let own = self.port.local;
        let is_own = own.ip() == local.ip();
        (own.port() == local.port() && (is_own || own.ip().is_unspecified())).then_some(is_own)
    }
}

/// The listening socket that accepts connections to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundListener {
    None,
    /// The only one, or the first one of several in a namespace.
    One(Listener),
    /// Several namespaces have one. The address of one of them.
    Several(SocketAddr),
}

impl FoundListener {
    /// Returns the listener if it is known which one it is.
    pub(super) fn one(self) -> Option<Listener> {
        if let Self::One(listener) = self { Some(listener) } else { None }
    }
}

/// A listening socket and its address in the kernel; `None` for those from before the measurement, whose address the
/// kernel does not report.
type Known = (Option<u64>, Listener);

/// The listening sockets.
#[derive(Clone, Debug, Default)]
pub(super) struct Listeners {
    by_port: FxHashMap<u16, Vec<Known>>,
    /// The port of each socket with a known address.
    ports: FxHashMap<u64, u16>,
}

impl Listeners {
    /// Replaces the listening sockets from before the measurement.
    pub(super) fn replace_earlier(&mut self, all: impl IntoIterator<Item = Listener>) {
        self.by_port.retain(|_, known| {
            known.retain(|(socket, _)| socket.is_some());
            !known.is_empty()
        });
        for listener in all.into_iter().take(MAX) {
            self.by_port.entry(listener.port.local.port()).or_default().push((None, listener));
        }
    }

    /// Adds a socket that begins to listen.
    pub(super) fn add(&mut self, socket: u64, listener: Listener) {
        self.end_earlier(listener.port, listener.process.tid);
        self.remove(socket);
        if self.ports.len() < MAX {
            let port = listener.port.local.port();
            self.ports.insert(socket, port);
            self.by_port.entry(port).or_default().push((Some(socket), listener));
        }
    }

    /// Ends a listening socket of a process.
    pub(super) fn end(&mut self, socket: u64, port: Port, pid: i32) {
        if !self.remove(socket) {
            self.end_earlier(port, pid);
        }
    }

    fn remove(&mut self, socket: u64) -> bool {
        let Some(port) = self.ports.remove(&socket) else { return false };
        self.retain(port, |(known, _)| *known != Some(socket));
        true
    }

    fn end_earlier(&mut self, port: Port, pid: i32) {
        let is_same = |(socket, of): &Known| {
            let is_there = of.port.namespace == port.namespace || port.namespace == 0;
            socket.is_none() && of.port.local == port.local && is_there
        };
        // If the namespace is unknown, the process distinguishes them.
        let number = port.local.port();
        let same = self.on(number).iter().filter(|known| is_same(known)).count();
        let is_unclear = port.namespace == 0 && same > 1;
        self.retain(number, |known| !is_same(known) || is_unclear && known.1.process.tid != pid);
    }

    fn retain(&mut self, port: u16, is_kept: impl FnMut(&Known) -> bool) {
        let Some(known) = self.by_port.get_mut(&port) else { return };
        known.retain(is_kept);
        if known.is_empty() {
            self.by_port.remove(&port);
        }
    }

    fn on(&self, port: u16) -> &[Known] {
        self.by_port.get(&port).map_or(&[], Vec::as_slice)
    }

    /// Returns the listening socket that accepts connections to an address in a namespace, or in any if that is 0. Of
    /// several in a namespace, it is the first one.
    pub(super) fn find(&self, local: SocketAddr, namespace: u64) -> FoundListener {
        let all = self.on(local.port()).iter().map(|(_, listener)| listener);
        let is_there = |of: &&Listener| namespace == 0 || [0, namespace].contains(&of.port.namespace);
        let close = all.filter(is_there).filter_map(|listener| Some((listener.closeness(local)?, listener)));
        let rank = |(is_own, of): &(bool, &Listener)| (*is_own, Reverse((of.process, of.port)));
        let close: Vec<(bool, &Listener)> = close.collect();
        let is_elsewhere = |of: &Listener, first: &Listener| of.port.namespace != first.port.namespace;
        match close.iter().max_by_key(|found| rank(found)) {
            None => FoundListener::None,
            Some((_, first)) if namespace == 0 && close.iter().any(|(_, of)| is_elsewhere(of, first)) => {
                FoundListener::Several(first.port.local)
            }
            Some((_, first)) => FoundListener::One(**first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(ip: [u8; 4], port: u16, pid: i32) -> Listener {
        let process = ThreadKey::of_row(pid as u64);
        Listener { port: Port { local: (ip, port).into(), namespace: 0 }, process, thread: process }
    }

    fn pid(listeners: &Listeners, ip: [u8; 4], port: u16) -> Option<i32> {
        listeners.find((ip, port).into(), 0).one().map(|of| of.process.tid)
    }

    const ANY: [u8; 4] = [0; 4];
    const OWN: [u8; 4] = [10, 0, 0, 1];
    const OTHER: [u8; 4] = [10, 0, 0, 2];

    #[test]
    fn the_closest_listener_of_the_port_accepts() {
        let mut listeners = Listeners::default();
        listeners.replace_earlier([listener(ANY, 80, 1), listener(OWN, 81, 2)]);
        listeners.add(0xa0, listener(OWN, 80, 3));
        listeners.add(0xb0, listener(ANY, 82, 4));
        assert_eq!([80, 81, 82, 83].map(|port| pid(&listeners, OWN, port)), [Some(3), Some(2), Some(4), None]);
        assert_eq!([80, 81, 82].map(|port| pid(&listeners, OTHER, port)), [Some(1), None, Some(4)]);
        listeners.end(0xa0, listener(OWN, 80, 3).port, 3);
        assert_eq!(pid(&listeners, OWN, 80), Some(1));
        listeners.end(0xc0, listener(ANY, 80, 1).port, 1);
        assert_eq!(pid(&listeners, OWN, 80), None);
    }

    /// The kernel uses the address of a socket again.
    #[test]
    fn a_socket_listens_on_one_port() {
        let mut listeners = Listeners::default();
        listeners.add(0xa0, listener(OWN, 80, 1));
        listeners.add(0xa0, listener(OWN, 81, 2));
        assert_eq!([80, 81].map(|port| pid(&listeners, OWN, port)), [None, Some(2)]);
        listeners.replace_earlier([listener(OWN, 82, 3)]);
        listeners.replace_earlier([]);
        assert_eq!([81, 82].map(|port| pid(&listeners, OWN, port)), [Some(2), None]);
        assert_eq!((listeners.by_port.len(), listeners.ports.len()), (1, 1));
    }
}
