//! The kernel's socket monitoring: connections and listeners from before the measurement, network namespaces, and the
//! data that connections carried.

use std::time::{Duration, Instant};

use super::connections::{Connection, Way};
use super::fields::state;
use super::figures::{Happening, round_trips};
use super::listeners::Listener;
use super::{Tcp, looks};
use crate::session::TcpSocket;
use crate::units::kit::prelude::*;

/// How long settling waits for the last counters of connections that have just ended: the kernel reports them from a
/// work queue.
const PATIENCE_FOR_ENDS: Duration = Duration::from_millis(100);

impl Tcp {
    /// Reads the kernel's state of sockets if it is time.
    pub(super) fn look(&mut self, is_needed_now: bool, cx: &mut Context<'_>) {
        let mut grown = Vec::new();
        if let Some(look) = self.looks.look(cx) {
            if look.is_first {
                // Earlier connections are of no CPU.
                let is_here = std::mem::replace(&mut self.is_here, cx.cpus.is_none());
                self.take_up(&look.sockets, cx);
                self.is_here = is_here;
                self.lacks_earlier = self.looks.failure();
            }
            self.follow_namespaces(cx);
            self.traffic.seen(&look.sockets, &self.connections, |of, growth| grown.push((*of, growth, None)));
        }
        if let Some((ended, has_lost)) = self.looks.ended(is_needed_now, cx) {
            self.lacks_ends |= has_lost;
            let take = |of: &Connection, socket: &TcpSocket, growth| grown.push((*of, growth, Some(*socket)));
            let is_incomplete = self.traffic.ended(ended, Instant::now(), &self.connections, take);
            // Events of other CPUs are not measured.
            self.lacks_ends |= is_incomplete && cx.cpus.is_none();
        }
        for (of, growth, ended) in grown {
            self.figures.add(&of, Happening::Carried(growth));
            let resent = self.connections.resent_at(&of.place());
            let segments = resent.map_or(0, |resent| resent.add_counted(growth.resent_segments));
            self.figures.add(&of, Happening::Retransmitted(segments));
            if let Some(socket) = ended {
                self.connections.has_last_counters(&of);
                round_trips(&socket).into_iter().for_each(|rtt| self.figures.add(&of, Happening::RoundTrips(rtt)));
            }
        }
    }

    /// Waits for the last counters of connections that ended since the last settling, a moment at most.
    pub(super) fn await_ends(&mut self, cx: &mut Context<'_>) {
        let (before, begun) = (self.awaited, Instant::now());
        self.awaited = self.connections.awaited();
        while self.awaited > before && self.looks.failure().is_none() && begun.elapsed() < PATIENCE_FOR_ENDS {
            std::thread::sleep(PATIENCE_FOR_ENDS / 20);
            self.look(true, cx);
            self.awaited = self.connections.awaited();
        }
    }

    /// Assigns connections to their namespace, as the last look found it.
    fn follow_namespaces(&mut self, cx: &mut Context<'_>) {
        if self.looks.failure().is_some() {
            return;
        }
        self.connections.end_equals(|place| self.looks.has(place));
        let is_here = std::mem::replace(&mut self.is_here, true);
        for (socket, of) in self.connections.located(|ends| self.looks.namespaces(ends)) {
            let Connection { counts, .. } = self.owned(of.ends, of.way, [of.process, of.thread], cx);
            self.connections.insert(socket, Connection { counts, ..of });
        }
        self.is_here = is_here;
    }

    /// Takes up the sockets that are older than the measurement.
    fn take_up(&mut self, all: &[TcpSocket], cx: &mut Context<'_>) {
        let (listening, others): (Vec<_>, Vec<_>) =
            all.iter().partition(|socket| i64::from(socket.state) == state::LISTEN);
        let listener = |socket: &&TcpSocket| {
            let process = cx.thread(self.looks.owner(socket));
            Listener { port: looks::port(socket), process, thread: process }
        };
        self.connections.listeners.replace_earlier(listening.iter().map(listener));
        for socket in others.into_iter().filter(|socket| socket.inode != 0) {
            let (ends, namespace) = (looks::place(socket).ends, socket.namespace);
            let process = cx.thread(self.looks.owner(socket));
            if matches!(i64::from(socket.state), state::SYN_SENT | state::SYN_RECV | state::CLOSE) {
                continue;
            }
            let port = self.connections.listeners.find(ends.local, namespace).one().map(|listener| listener.port);
            let way = if port.is_some() { Way::In } else { Way::Out };
            let earlier = Connection { port, namespace, ..self.owned(ends, way, [process; 2], cx) };
            self.connections.add_earlier(earlier);
        }
    }
}
