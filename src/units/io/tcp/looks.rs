//! Looks at the sockets of the running machine: those from before the measurement, round-trip times, listen queues.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::session::{Origin, TcpMonitor, TcpSocket};
use crate::units::kit::Context;

use super::fields::{Ends, state};
use super::figures::ListenQueue;

/// The time between two looks; they take at most one part in `SHARE` of it.
const PERIOD: Duration = Duration::from_secs(1);
const SHARE: u32 = 20;
/// The time between two reads of the connections that ended.
const PERIOD_OF_ENDS: Duration = Duration::from_millis(50);

/// The results of the last look.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    has_looked: bool,
    next: Option<Instant>,
    next_ends: Option<Instant>,
    owners: FxHashMap<u32, i32>,
    monitor: TcpMonitor,
    connections: FxHashMap<Ends, TcpSocket>,
    listeners: Vec<TcpSocket>,
    /// The drops of each listening socket before the measurement.
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
        self.next = Some(begun + PERIOD.max(begun.elapsed() * SHARE));
        self.take(&sockets, is_first && self.drops_before.is_empty());
        Some(SocketLook { sockets, is_first })
    }

    /// Returns the sockets that ended, and whether the kernel dropped some, if it is time.
    pub(super) fn ended(&mut self, is_needed_now: bool, cx: &Context<'_>) -> Option<(Vec<TcpSocket>, bool)> {
        let now = Instant::now();
        let is_due = is_needed_now || self.next_ends.is_none_or(|next| next <= now);
        if !is_due || cx.session.origin() != Origin::Live {
            return None;
        }
        self.next_ends = Some(now + PERIOD_OF_ENDS);
        Some(self.monitor.ended())
    }

    fn take(&mut self, all: &[TcpSocket], is_before: bool) {
        let (listening, others): (Vec<_>, Vec<_>) =
            all.iter().copied().partition(|socket| i64::from(socket.state) == state::LISTEN);
        self.listeners = listening;
        self.connections = others.into_iter().map(|socket| (ends(&socket), socket)).collect();
        if is_before {
            self.forget_drops();
        }
    }

    /// Counts drops from now on.
    pub(super) fn forget_drops(&mut self) {
        self.drops_before = self.listeners.iter().map(|socket| (socket.inode, socket.drops)).collect();
    }

    /// Reads all sockets again: some may have ended unnoticed.
    pub(super) fn forget(&mut self) {
        self.has_looked = false;
    }

    /// Returns the process that owned a socket at the first look; 0 if unknown.
    pub(super) fn owner(&self, socket: &TcpSocket) -> i32 {
        self.owners.get(&socket.inode).copied().unwrap_or(0)
    }

    /// Returns a connection as the last look found it.
    pub(super) fn connection(&self, ends: &Ends) -> Option<&TcpSocket> {
        self.connections.get(ends)
    }

    /// Returns the queue of each listening socket, with its owner at the first look.
    pub(super) fn queues(&self) -> impl Iterator<Item = (SocketAddr, i32, ListenQueue)> {
        self.listeners.iter().map(|socket| {
            let before = self.drops_before.get(&socket.inode).copied().unwrap_or(0);
            let dropped = u64::from(socket.drops.wrapping_sub(before));
            let [waiting, limit] = socket.queue.map(u64::from);
            (socket.local, self.owner(socket), ListenQueue { waiting, limit, dropped })
        })
    }
}

pub(super) fn ends(socket: &TcpSocket) -> Ends {
    Ends { local: socket.local, peer: socket.peer }
}
