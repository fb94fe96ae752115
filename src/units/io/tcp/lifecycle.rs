//! The life of a connection, by its changes of state: opened, established, failed or closed, and its error.

use super::connections::{Connection, Resent, Way};
use super::fields::{Ends, state};
use super::figures::Happening;
use super::listeners::{Listener, Port};
use super::{Attempt, EndedConnection, ReportedError, STATE, Tcp};
use crate::panel::unit;
use crate::units::kit::prelude::*;

/// The time within which the kernel reports an error and the end of its connection, in nanoseconds: it does both at once.
const ERROR_AND_END: u64 = 10_000_000;

impl Tcp {
    pub(super) fn moved(
        &mut self,
        [old, new]: [i64; 2],
        socket: u64,
        ends: Ends,
        hit: &UnitSample<'_>,
        cx: &mut Context<'_>,
    ) {
        match (old, new) {
            (_, state::LISTEN) => {
                cx.comm(hit.pid);
                let [process, thread] = owner_of(hit, cx);
                let listener = Listener { port: port_of(ends, hit, cx), process, thread };
                self.connections.listeners.add(socket, listener);
            }
            (state::LISTEN, state::CLOSE) => {
                self.connections.listeners.end(socket, port_of(ends, hit, cx), hit.pid);
            }
            (state::LISTEN, state::SYN_RECV) => {
                let resent = Resent::after(self.handshakes.remove(&ends).unwrap_or(0));
                let client = self.clients.take(hit.cpu, ends);
                let connection = Connection { since: hit.time, resent, ..self.accepted_by(ends, client, cx) };
                self.insert(socket, connection, cx);
            }
            (state::CLOSE, state::SYN_SENT) => {
                let is_by_task = self.fields[STATE].as_ref().is_some_and(|fields| fields.is_by_task(hit.raw));
                let owner = if is_by_task { owner_of(hit, cx) } else { Default::default() };
                let connection = Connection { since: hit.time, ..self.owned(ends, Way::Out, owner, cx) };
                self.insert(socket, connection, cx);
                self.count(&connection, Happening::Opened, hit);
            }
            (_, state::ESTABLISHED) => self.established(socket, ends, hit, cx),
            (_, state::CLOSE) => self.closed(old == state::SYN_SENT, socket, ends, hit, cx),
            _ => drop(self.connection(socket, ends, cx)),
        }
    }

    fn established(&mut self, socket: u64, ends: Ends, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let mut connection = self.connection(socket, ends, cx);
        let since = connection.since;
        // The port is chosen after the start.
        (connection.ends, connection.established) = (ends, hit.time);
        // A look at the sockets may be ahead of the events.
        self.connections.take_earlier(ends);
        if connection.way == Way::In {
            self.count(&connection, Happening::Accepted, hit);
        } else if since > 0 {
            self.clients.add(hit.cpu, connection);
            let ns = hit.time.saturating_sub(since);
            self.count(&connection, Happening::Connected(ns), hit);
            self.attempted(&connection, ns, false, hit, cx);
        }
        self.insert(socket, connection, cx);
    }

    fn closed(&mut self, was_connecting: bool, socket: u64, ends: Ends, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let mut connection = self.connection(socket, ends, cx);
        // A look after a loss may have added it again.
        self.connections.take_earlier(ends);
        connection.ends.local = ends.local;
        self.connections.end(socket, connection);
        if was_connecting {
            connection.way = Way::Out;
        }
        let has_failed = was_connecting || !connection.is_established();
        if !has_failed {
            let from = if connection.established > 0 { connection.established } else { hit.time };
            self.count(&connection, Happening::Closed(hit.time.saturating_sub(from)), hit);
        } else {
            self.count(&connection, Happening::Failed, hit);
            if connection.way == Way::Out && connection.since > 0 {
                self.attempted(&connection, hit.time.saturating_sub(connection.since), true, hit, cx);
            }
        }
        // Up to Linux 6.10, the error of a timeout precedes the end.
        let reported = self.reported.remove(&hit.cpu).filter(|error| is_at_once(error.time, hit));
        match reported.filter(|error| is_of(&connection, error.ends)) {
            Some(error) => self.count(&connection, Happening::error(error.number, has_failed), hit),
            None => drop(self.ended.insert(hit.cpu, EndedConnection { connection, has_failed, time: hit.time })),
        }
    }

    /// Lists an attempt to connect if it took long.
    fn attempted(&mut self, of: &Connection, ns: u64, has_failed: bool, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if !of.counts {
            return;
        }
        let above = self.slowest.exceeds(hit, cx.names, ns);
        if !has_failed {
            cx.point(["connect", "established"], hit.time, ns);
        }
        let (thread, ends) = (of.thread, of.ends);
        if self.slowest.lists(above) {
            let end = if has_failed { "failed after" } else { "took" };
            cx.find(thread.tid, hit.stack, || format!("connect to {} {end} {}", ends.peer, unit::duration(ns)));
        }
        self.slowest.add(above, ns, || Attempt { thread, ends, time: hit.time, has_failed });
    }

    /// Assigns an error to the connection that ended before on this CPU, or to the one that ends next.
    pub(super) fn failed_with(&mut self, number: i64, ends: Ends, hit: &UnitSample<'_>) {
        let Some(number) = u32::try_from(number).ok().filter(|number| *number > 0) else { return };
        let ended = self.ended.get(&hit.cpu).copied().filter(|ended| is_at_once(ended.time, hit));
        match ended.filter(|ended| is_of(&ended.connection, ends)) {
            Some(EndedConnection { connection, has_failed, .. }) => {
                self.ended.remove(&hit.cpu);
                self.count(&connection, Happening::error(number, has_failed), hit);
            }
            None => drop(self.reported.insert(hit.cpu, ReportedError { ends, number, time: hit.time })),
        }
    }
}

/// Whether an event follows another one of the same connection, on the same CPU, so soon that the kernel caused both at
/// once.
fn is_at_once(before: u64, hit: &UnitSample<'_>) -> bool {
    hit.time.saturating_sub(before) <= ERROR_AND_END
}

/// Returns the current process and thread.
fn owner_of(hit: &UnitSample<'_>, cx: &Context<'_>) -> [ThreadKey; 2] {
    [hit.pid, hit.tid].map(|tid| cx.thread(tid))
}

/// Returns the address at which the current process listens, with its namespace.
fn port_of(ends: Ends, hit: &UnitSample<'_>, cx: &Context<'_>) -> Port {
    Port { local: ends.local, namespace: cx.session.net_namespace(hit.pid).unwrap_or(0) }
}

/// Whether an error is of a connection. The kernel clears the port of the peer when it disconnects the socket.
fn is_of(connection: &Connection, ends: Ends) -> bool {
    connection.ends.local.port() == ends.local.port() && connection.ends.peer.ip() == ends.peer.ip()
}
