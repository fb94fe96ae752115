//! Looks at the sockets of the running machine: those from before the measurement, round-trip times, listen queues.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::session::TcpSocket;
use crate::units::kit::Context;

use super::fields::{Ends, state};
use super::figures::ListenQueue;

/// The time between two looks; they take at most one part in `SHARE` of it.
const PERIOD: Duration = Duration::from_secs(1);
const SHARE: u32 = 20;

/// The results of the last look.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    has_looked: bool,
    next: Option<Instant>,
    owners: FxHashMap<u32, i32>,
    rtts: FxHashMap<Ends, u64>,
    listeners: Vec<TcpSocket>,
    /// The drops of each listening socket before the measurement.
    drops_before: FxHashMap<u32, u32>,
}

impl Looks {
    /// Looks if it is time. Returns the sockets if the state of all is needed: at the first look, or after a loss.
    pub(super) fn look(&mut self, is_needed_now: bool, cx: &Context<'_>) -> Option<Vec<TcpSocket>> {
        let is_first = !self.has_looked;
        let is_due = self.next.is_none_or(|next| next <= Instant::now());
        if !is_due || (is_needed_now && !is_first) {
            return None;
        }
        self.has_looked = true;
        let begun = Instant::now();
        let all = cx.session.tcp_sockets()?;
        if is_first {
            self.owners = cx.session.socket_owners();
        }
        self.next = Some(begun + PERIOD.max(begun.elapsed() * SHARE));
        self.take(&all, is_first && self.drops_before.is_empty());
        is_first.then_some(all)
    }

    fn take(&mut self, all: &[TcpSocket], is_before: bool) {
        let rtts = all.iter().filter(|socket| socket.rtt[0] > 0);
        self.rtts = rtts.map(|socket| (ends(socket), u64::from(socket.rtt[0]) * 1000)).collect();
        self.listeners = all.iter().filter(|socket| i64::from(socket.state) == state::LISTEN).copied().collect();
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

    /// Returns the smoothed round-trip time of a connection in nanoseconds.
    pub(super) fn rtt(&self, ends: &Ends) -> Option<u64> {
        self.rtts.get(ends).copied()
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
