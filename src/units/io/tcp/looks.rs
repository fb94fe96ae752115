//! Looks at the sockets of the running machine: those from before the measurement, round-trip times, listen queues.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::session::{Origin, SocketListError, TcpMonitor, TcpSocket};
use crate::units::kit::Context;

use super::connections::Place;
use super::fields::{Ends, state};
use super::figures::ListenQueue;
use super::listeners::Port;

/// The time between two looks; their CPU time is at most one part in `SHARE` of it. Intervals of a second have one each.
const PERIOD: Duration = Duration::from_millis(900);
const SHARE: u32 = 20;
/// The time between two reads of the connections that ended.
const PERIOD_OF_ENDS: Duration = Duration::from_millis(50);

/// The results of the last look.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    has_looked: bool,
    has_baseline: bool,
    next: Option<Instant>,
    next_ends: Option<Instant>,
    owners: FxHashMap<u32, i32>,
    monitor: TcpMonitor,
    /// By ends, then by namespace.
    connections: BTreeMap<Place, TcpSocket>,
    listeners: Vec<TcpSocket>,
    /// The drops of each listening socket that do not count.
    drops_before: FxHashMap<u32, u32>,
}

/// The sockets of a look.
#[derive(Clone, Debug, Default)]
pub(super) struct SocketLook {
    pub(super) sockets: Vec<TcpSocket>,
    /// Whether the state of all is needed: at the first look, or after a loss.
    pub(super) is_first: bool,
}

impl Looks {
    /// Looks if it is time.
    pub(super) fn look(&mut self, cx: &Context<'_>) -> Option<SocketLook> {
        let is_first = !self.has_looked;
        if self.next.is_some_and(|next| next > Instant::now()) {
            return None;
        }
        self.has_looked = true;
        let begun = Instant::now();
        let sockets = cx.session.tcp_sockets(&mut self.monitor)?;
        if is_first {
            self.owners = cx.session.socket_owners();
        }
        self.next = Some(begun + PERIOD.max(self.monitor.cost() * SHARE));
        self.take(&sockets);
        Some(SocketLook { sockets, is_first })
    }

    /// Returns the sockets that ended, and whether some are missing, if it is time.
    pub(super) fn ended(&mut self, is_needed_now: bool, cx: &Context<'_>) -> Option<(Vec<TcpSocket>, bool)> {
        let now = Instant::now();
        let is_due = is_needed_now || self.next_ends.is_none_or(|next| next <= now);
        if !is_due || cx.session.origin() != Origin::Live {
            return None;
        }
        self.next_ends = Some(now + PERIOD_OF_ENDS);
        Some(self.monitor.ended())
    }

    fn take(&mut self, all: &[TcpSocket]) {
        let (listening, others): (Vec<_>, Vec<_>) =
            all.iter().copied().partition(|socket| i64::from(socket.state) == state::LISTEN);
        if !std::mem::replace(&mut self.has_baseline, true) {
            // After a pause, the drops from before it still count.
            let counted: FxHashMap<u32, u32> = self.listeners.iter().map(|of| (of.inode, self.dropped(of))).collect();
            let before = |of: &TcpSocket| of.drops.wrapping_sub(counted.get(&of.inode).copied().unwrap_or(0));
            self.drops_before = listening.iter().map(|of| (of.inode, before(of))).collect();
        }
        self.listeners = listening;
        self.connections = others.into_iter().map(|socket| (place(&socket), socket)).collect();
    }

    /// Returns the drops of a listening socket that count.
    fn dropped(&self, socket: &TcpSocket) -> u32 {
        socket.drops.wrapping_sub(self.drops_before.get(&socket.inode).copied().unwrap_or(0))
    }

    /// Counts drops from now on.
    pub(super) fn forget_drops(&mut self) {
        self.drops_before = self.listeners.iter().map(|socket| (socket.inode, socket.drops)).collect();
    }

    /// Reads all sockets again: some may have ended unnoticed.
    pub(super) fn forget(&mut self) {
        self.has_looked = false;
    }

    /// Ends the subscriptions. What happens until the next look does not count.
    pub(super) fn stop(&mut self) {
        self.monitor = TcpMonitor::default();
        (self.has_looked, self.has_baseline) = (false, false);
        (self.next, self.next_ends) = (None, None);
    }

    /// Returns the process that owned a socket at the first look; 0 if unknown.
    pub(super) fn owner(&self, socket: &TcpSocket) -> i32 {
        self.owners.get(&socket.inode).copied().unwrap_or(0)
    }

    /// Returns why sockets are missing in the last look.
    pub(super) fn failure(&self) -> Option<SocketListError> {
        self.monitor.failure()
    }

    /// Returns a connection as the last look found it; of an unknown namespace, the only one with its ends.
    pub(super) fn connection(&self, place: &Place) -> Option<&TcpSocket> {
        if place.namespace > 0 {
            return self.connections.get(place);
        }
        let mut all = self.connections.range(Place::in_any(place.ends));
        all.next().filter(|_| all.next().is_none()).map(|(_, socket)| socket)
    }

    /// Returns the namespaces in which the last look found a connection with these ends.
    pub(super) fn namespaces(&self, ends: Ends) -> Vec<u64> {
        self.connections.range(Place::in_any(ends)).map(|(place, _)| place.namespace).collect()
    }

    /// Returns whether the last look found a connection at a place.
    pub(super) fn has(&self, place: &Place) -> bool {
        self.connections.contains_key(place)
    }

    /// Returns the queue of each listening socket, with its owner at the first look.
    pub(super) fn queues(&self) -> impl Iterator<Item = (Port, i32, ListenQueue)> {
        self.listeners.iter().map(|socket| {
            let dropped = u64::from(self.dropped(socket));
            let [waiting, limit] = socket.queue.map(u64::from);
            (port(socket), self.owner(socket), ListenQueue { waiting, limit, dropped })
        })
    }
}

pub(super) fn place(socket: &TcpSocket) -> Place {
    Place { ends: Ends { local: socket.local, peer: socket.peer }, namespace: socket.namespace }
}

pub(super) fn port(socket: &TcpSocket) -> Port {
    Port { local: socket.local, namespace: socket.namespace }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn listening(inode: u32, drops: u32) -> TcpSocket {
        TcpSocket {
            local: SocketAddr::from(([10, 0, 0, 1], 80)),
            peer: SocketAddr::from(([0; 4], 0)),
            state: state::LISTEN as u8,
            inode,
            namespace: 1,
            read_at: 0,
            cookie: u64::from(inode),
            queue: [0; 2],
            drops,
            rtt: [0; 2],
            counters: None,
            is_peer_full: false,
            is_full: false,
            awaits_window: false,
            resends: 0,
        }
    }

    #[test]
    fn drops_of_a_pause_do_not_count() {
        let mut looks = Looks::default();
        let dropped = |looks: &Looks| looks.queues().map(|(_, _, queue)| queue.dropped).collect::<Vec<_>>();
        looks.take(&[listening(1, 5)]);
        looks.take(&[listening(1, 7)]);
        assert_eq!(dropped(&looks), [2]);
        looks.stop();
        looks.take(&[listening(1, 100), listening(2, 9)]);
        assert_eq!(dropped(&looks), [2, 0]);
        looks.take(&[listening(1, 101), listening(2, 10)]);
        assert_eq!(dropped(&looks), [3, 1]);
    }
}
