//! `tcp`: connections by peer, listening port and process: failures, latency, retransmits, resets, drops.

mod clients;
mod connections;
mod fields;
mod figures;
mod lifecycle;
mod listeners;
mod looks;
mod monitoring;
mod panels;
mod remarks;
mod softirqs;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::session::{Origin, ServiceNames, SocketListError};
use crate::units::kit::prelude::*;

use clients::Clients;
use connections::{Connection, Connections, Place, Resent, Way};
use fields::{Ends, NOWHERE, SocketFields};
use figures::{AllFigures, Happening, ListenQueue};
use listeners::{FoundListener, Port};
use looks::Looks;
use softirqs::SoftirqWork;
use traffic::Traffic;

pub(crate) const SPEC: Spec = Spec {
    name: "tcp",
    about: "TCP connections by peer, port and process: failures, latency, bytes, retransmits, resets, drops by reason",
    words: "tcp network connection connect accept refused timeout reset retransmit drop peer port socket latency slow \
            listen server client packet",
    help: "A connection belongs to the process that called connect, or to the one that listens on its port (if several \
           listen, to one of them). Peers have their address and port if this machine connected to them ('to'), only \
           their address if they connected to this machine ('from'). Connect is the time from connect to the peer's \
           answer. A connection that ends before the answer has failed; Errors has the error that the socket reported. \
           Resets include those that this machine sends for packets without a socket, which have no process. Overflow \
           counts packets that were dropped because a queue of the socket or its receive window was full. Live, the \
           kernel's socket monitoring is read every second in all network namespaces, and reports each connection that \
           ends. It supplies connections that are older than the measurement, listening sockets, and counters: Sent \
           and Received are bytes of data (and one for the peer's end). Retrans counts segments that were sent again, \
           also SYNs and SYN-ACKs, and Resent their bytes; Win wait is the time for which data waited for the peer's \
           receive window, and Zero win the number of connections whose peer has a window of zero now. Round-trip \
           times (RTT) and their mean deviations (RTT var) are those of open connections now and of others at their \
           end. Waiting are connections that the process has not accepted yet, of Limit; Dropped are packets of new \
           ones that were not taken, also when they are sent again, mostly because this queue was full. If connections \
           of two network namespaces have the same addresses and ports, they share rows, and their bytes may count for \
           the wrong one of their processes. Bytes of a namespace that ends within a second may be missing. Drops are \
           the packets of IPv4 and IPv6 that the kernel freed without using them, by its reason and place; some \
           reasons are harmless (QUEUE_PURGE). Packets without a socket belong to no process: with a target, those \
           count that were seen while its threads ran. 'Softirq CPUs' are those that handled packets and timers of the \
           connections. Addresses are never looked up in DNS; Service is the name of the port in /etc/services. Errors \
           need Linux 5.15, reasons of drops 5.17, those of resets 6.10, overflows 6.11.",
    example: "perfprof-tui tcp -i 1",
    output: "",
    options: &["than", "keep", "comm", "pids", "tids"],
    sees: Sees::Machine,
    across: Some("connections that are opened on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(Tcp::new(settings)?)),
};

const STATE: usize = 0;
const ERROR: usize = 1;
const RETRANSMIT: usize = 2;
const RESET_SENT: usize = 3;
const RESET_RECEIVED: usize = 4;
const DROP: usize = 5;
const RETRANSMIT_SYNACK: usize = 6;
const EVENTS: [&str; 7] = [
    "sock:inet_sock_set_state",
    "sock:inet_sk_error_report",
    "tcp:tcp_retransmit_skb",
    "tcp:tcp_send_reset",
    "tcp:tcp_receive_reset",
    "skb:kfree_skb",
    "tcp:tcp_retransmit_synack",
];
/// The reasons of drops because a queue of a socket or its receive window was full.
const OVERFLOWS: [&str; 6] =
    ["SOCKET_RCVBUFF", "SOCKET_BACKLOG", "PROTO_MEM", "TCP_ZEROWINDOW", "TCP_OFO_DROP", "TCP_OFO_QUEUE_PRUNE"];

const TCP: i64 = 6;
/// `ETH_P_IP` and `ETH_P_IPV6`.
const OF_IP: [i64; 2] = [0x0800, 0x86dd];
/// The limit of handshakes that wait for their end.
const MAX_HANDSHAKES: usize = 1 << 14;
/// The limit of places and reasons of drops and resets.
const MAX_REASONS: usize = 1 << 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum DropKey {
    /// A dropped packet: the reason and the place in the kernel.
    Packet(i64, u64),
    /// A reset that was sent: the reason, and the port without a socket.
    Reset(i64, Option<u16>),
}

#[derive(Clone, Debug)]
struct Dropped {
    reason: Arc<str>,
    times: u64,
    /// The stack of the first one.
    stack: RetainedStack,
}

/// An attempt to connect that ended.
#[derive(Clone, Debug)]
struct Attempt {
    thread: ThreadKey,
    ends: Ends,
    time: u64,
    has_failed: bool,
}

/// A connection that ended, and whether it had reached its peer.
#[derive(Clone, Copy, Debug)]
struct EndedConnection {
    connection: Connection,
    has_failed: bool,
    time: u64,
}

/// An error that waits for the end of its connection.
#[derive(Clone, Copy, Debug)]
struct ReportedError {
    ends: Ends,
    number: u32,
    time: u64,
}

#[derive(Clone, Debug, Default)]
struct Tcp {
    fields: [Option<SocketFields>; EVENTS.len()],
    connections: Connections,
    /// The SYN-ACKs that were sent again: the counter of the connection that follows includes them.
    handshakes: FxHashMap<Ends, u64>,
    clients: Clients,
    looks: Looks,
    services: Arc<ServiceNames>,
    traffic: Traffic,
    /// Whether reports of ends are missing.
    lacks_ends: bool,
    /// The number of ended connections whose last counters had not arrived at the last settling.
    awaited: usize,
    /// The queues of the target's listening sockets.
    queues: Vec<(Port, ListenQueue)>,
    /// Why connections from before the measurement are missing.
    lacks_earlier: Option<SocketListError>,
    figures: AllFigures,
    /// The connection that ended last on each CPU: the report of its error follows.
    ended: FxHashMap<u32, EndedConnection>,
    /// The error that was reported last on each CPU, if the end of its connection did not precede it.
    reported: FxHashMap<u32, ReportedError>,
    /// The numbers of [`OVERFLOWS`].
    overflows: FxHashSet<i64>,
    drops: FxHashMap<DropKey, Dropped>,
    /// The work that softirqs did for connections, by CPU.
    softirqs: BTreeMap<u32, SoftirqWork>,
    slowest: Slowest<Attempt>,
    /// Whether the record is of a selected CPU.
    is_here: bool,
    course: Grid<&'static str>,
    containers: ByContainer,
}

impl Tcp {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self { slowest: Slowest::of(settings)?, ..Self::default() })
    }

    /// Counts what happened to a connection.
    fn count(&mut self, of: &Connection, what: Happening, hit: &UnitSample<'_>) {
        if !of.counts {
            return;
        }
        self.figures.add(of, what);
        if let Some(work) = self.softirq_work(hit) {
            work.add(what);
        }
        let line = match what {
            Happening::Opened => "opened",
            Happening::Accepted => "accepted",
            Happening::Failed => "failed",
            Happening::Retransmitted(_) => "retransmitted",
            Happening::ResetSent | Happening::ResetReceived | Happening::Refused => "resets",
            Happening::Overflowed => "overflowed",
            _ => return,
        };
        self.course.add(&line, hit.time, 1.0);
    }

    fn owned(&self, ends: Ends, way: Way, [process, thread]: [ThreadKey; 2], cx: &mut Context<'_>) -> Connection {
        let tid = thread.tid;
        let is_seen = if tid > 0 { cx.has(tid) && !cx.is_unasked(tid) } else { !cx.is_narrow() };
        let counts = is_seen && self.is_here;
        for task in [process.tid, tid] {
            cx.comm(task);
        }
        Connection::new(ends, way, [process, thread], counts)
    }

    /// Creates an accepted connection, whose client on this machine may be known.
    fn accepted_by(&self, ends: Ends, client: Option<Connection>, cx: &mut Context<'_>) -> Connection {
        let (found, namespace) = match self.connections.listeners.find(ends.local, 0) {
            FoundListener::Several(local) => {
                let found = self.listener_of_client(local, ends, client, cx);
                (found, found.one().map_or(0, |listener| listener.port.namespace))
            }
            found => (found, 0),
        };
        let owner = found.one().map(|listener| [listener.process, listener.thread]).unwrap_or_default();
        let port = match found {
            FoundListener::One(listener) => listener.port,
            FoundListener::Several(local) => Port { local, namespace: 0 },
            FoundListener::None => Port { local: SocketAddr::new(NOWHERE.ip(), ends.local.port()), namespace: 0 },
        };
        Connection { port: Some(port), namespace, ..self.owned(ends, Way::In, owner, cx) }
    }

    /// Of the listening sockets that several namespaces have at an address, returns that of the client's namespace: an
    /// address of its own namespace is closest to it. If the client is unknown, all connections with these ends count.
    fn listener_of_client(
        &self,
        local: SocketAddr,
        ends: Ends,
        client: Option<Connection>,
        cx: &Context<'_>,
    ) -> FoundListener {
        let all = self.connections.between(ends.reversed()).filter(|_| client.is_none());
        let namespaces: BTreeSet<u64> = all.chain(&client).filter_map(|of| namespace(of, cx)).collect();
        let there = |namespace: u64| self.connections.listeners.find(ends.local, namespace).one();
        let mut all = namespaces.into_iter().filter_map(there).filter(|listener| listener.port.namespace > 0);
        match (all.next(), all.next()) {
            (Some(listener), None) => FoundListener::One(listener),
            _ => FoundListener::Several(local),
        }
    }

    /// Adds a connection. If another one has the same ends, both get the namespaces of their processes.
    fn insert(&mut self, socket: u64, connection: Connection, cx: &Context<'_>) {
        let placed = |of: Connection| Connection { namespace: namespace(&of, cx).unwrap_or(0), ..of };
        let twin = self.connections.twin(socket, &connection.place());
        let connection = if twin.is_some() { placed(connection) } else { connection };
        twin.into_iter().for_each(|(other, of)| self.connections.insert(other, placed(of)));
        self.connections.insert(socket, connection);
    }

    /// Returns the connection of a socket, which may be older than the measurement.
    fn connection(&mut self, socket: u64, ends: Ends, cx: &mut Context<'_>) -> Connection {
        if let Some(known) = self.connections.get(socket) {
            return *known;
        }
        if let Some(earlier) = self.connections.take_earlier(ends) {
            self.insert(socket, earlier, cx);
            return earlier;
        }
        let is_accepted = self.connections.listeners.find(ends.local, 0) != FoundListener::None;
        let found = match is_accepted {
            true => self.accepted_by(ends, None, cx),
            false => self.owned(ends, Way::Unknown, Default::default(), cx),
        };
        self.insert(socket, found, cx);
        found
    }

    /// Whether a packet without a socket counts: if there is a target, its thread must have been running.
    fn is_of_target(&self, hit: &UnitSample<'_>, cx: &mut Context<'_>) -> bool {
        self.is_here && (!cx.is_narrow() || cx.has(hit.tid))
    }

    fn note_reason(&mut self, key: DropKey, hit: &UnitSample<'_>) {
        if self.drops.len() >= MAX_REASONS && !self.drops.contains_key(&key) {
            return;
        }
        let reason = match key {
            DropKey::Packet(reason, _) | DropKey::Reset(reason, _) => reason,
        };
        let fields = &self.fields[hit.role];
        let dropped = self.drops.entry(key).or_insert_with(|| Dropped {
            reason: fields.as_ref().map_or_else(|| "".into(), |fields| fields.reason_name(reason)),
            times: 0,
            stack: hit.stack,
        });
        dropped.times += 1;
        if let (DropKey::Packet(..), Some(work)) = (key, self.softirq_work(hit)) {
            work.drops += 1;
        }
    }

    /// Returns the work of the CPU on which a softirq caused an event.
    fn softirq_work(&mut self, hit: &UnitSample<'_>) -> Option<&mut SoftirqWork> {
        if self.fields[hit.role].as_ref()?.is_by_task(hit.raw) {
            return None;
        }
        Some(self.softirqs.entry(hit.cpu).or_default())
    }

    fn reset_sent(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some(fields) = &self.fields[RESET_SENT] else { return };
        let (socket, ends, reason) = (fields.socket(hit.raw), fields.ends(hit.raw), fields.reason(hit.raw));
        let is_connection = fields.is_connection(hit.raw);
        let known = self.connections.get(socket).copied();
        let ended = self.ended.get(&hit.cpu).map(|ended| ended.connection).filter(|ended| Some(ended.ends) == ends);
        // On loopback, the peer's end comes in between, and the thread may have moved to another CPU since the end.
        let before = || self.connections.at(&Place { ends: ends?, namespace: 0 }).copied();
        let found = known.or(ended).or_else(|| before().filter(|_| socket != 0)).or_else(|| {
            let ends = ends.filter(|_| socket != 0 && is_connection)?;
            Some(self.connection(socket, ends, cx))
        });
        match found {
            Some(connection) if !connection.counts => return,
            Some(connection) => self.count(&connection, Happening::ResetSent, hit),
            None if self.is_of_target(hit, cx) => {
                self.figures.total.resets_sent += 1;
                self.course.add(&"resets", hit.time, 1.0);
            }
            None => return,
        }
        let port = ends.filter(|_| found.is_none() && socket == 0).map(|ends| ends.local.port());
        self.note_reason(DropKey::Reset(reason, port), hit);
    }
}

/// Returns a connection's network namespace: the known one, or that of its process.
fn namespace(of: &Connection, cx: &Context<'_>) -> Option<u64> {
    Some(of.namespace).filter(|namespace| *namespace > 0).or_else(|| cx.session.net_namespace(of.process.tid))
}

impl Unit for Tcp {
    fn event_requests(&self) -> Vec<EventRequest> {
        let request = |(role, event): (usize, &&str)| {
            let request = EventRequest::new(*event).with_stack(role == DROP);
            if role == STATE { request } else { request.optional() }
        };
        EVENTS.iter().enumerate().map(request).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        if event.role == STATE {
            Num::of(event.format, "newstate")?;
            self.slowest.bind(event)?;
        }
        let fields = SocketFields::of(event.format);
        if event.role == DROP {
            self.overflows = fields.reasons(&OVERFLOWS).collect();
        }
        self.fields[event.role] = Some(fields);
        Ok(())
    }

    fn begin(&mut self, cx: &mut Context<'_>) {
        self.is_here = cx.cpus.is_none();
        self.services = cx.session.service_names().into();
        self.look(true, cx);
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some(fields) = self.fields.get(hit.role).and_then(Option::as_ref) else { return };
        let (socket, ends) = (fields.socket(hit.raw), fields.ends(hit.raw));
        let protocol = fields.protocol(hit.raw);
        self.is_here = cx.counts(hit.cpu);
        self.look(false, cx);
        let Some(fields) = &self.fields[hit.role] else { return };
        match (hit.role, ends) {
            (STATE, Some(ends)) if protocol.is_none_or(|of| of == TCP) => {
                if let Some(states) = fields.states(hit.raw) {
                    self.moved(states, socket, ends, hit, cx);
                }
            }
            (ERROR, Some(ends)) if protocol.is_none_or(|of| of == TCP) => {
                let number = fields.error(hit.raw);
                self.failed_with(number, ends, hit);
            }
            (RETRANSMIT, Some(ends)) => {
                let connection = self.connection(socket, ends, cx);
                let segments = self.connections.resent_of(socket).map_or(1, Resent::add_event);
                self.count(&connection, Happening::Retransmitted(segments), hit);
            }
            (RESET_RECEIVED, Some(ends)) => {
                let connection = self.connection(socket, ends, cx);
                let is_established = connection.is_established();
                let what = if is_established { Happening::ResetReceived } else { Happening::Refused };
                self.count(&connection, what, hit);
            }
            (RETRANSMIT_SYNACK, Some(ends)) => {
                let connection = self.accepted_by(ends, None, cx);
                if self.handshakes.len() >= MAX_HANDSHAKES {
                    self.handshakes.clear();
                }
                *self.handshakes.entry(ends).or_default() += 1;
                self.count(&connection, Happening::Retransmitted(1), hit);
            }
            (RESET_SENT, _) => self.reset_sent(hit, cx),
            (DROP, _) if protocol.is_none_or(|of| OF_IP.contains(&of)) => {
                let (reason, location) = (fields.reason(hit.raw), fields.location(hit.raw));
                if let Some(of) = self.connections.get(socket).copied().filter(|_| self.overflows.contains(&reason)) {
                    self.count(&of, Happening::Overflowed, hit);
                }
                if self.is_of_target(hit, cx) {
                    self.note_reason(DropKey::Packet(reason, location), hit);
                }
            }
            _ => {}
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    /// Also needed without any record: connections may be idle.
    fn settle(&mut self, cx: &mut Context<'_>) {
        self.is_here = cx.cpus.is_none();
        self.look(true, cx);
        if cx.session.origin() == Origin::Live {
            self.await_ends(cx);
        }
        let queues = self.looks.queues().filter_map(|(port, owner, queue)| {
            let listener = self.connections.listeners.find(port.local, port.namespace).one();
            let pid = listener.map_or(owner, |listener| listener.process.tid);
            let is_seen = if pid > 0 { cx.has(pid) && !cx.is_unasked(pid) } else { !cx.is_narrow() };
            is_seen.then_some((port, queue))
        });
        self.queues = queues.collect();
    }

    fn lost(&mut self, lost: &LostEvents) {
        self.looks.forget();
        self.connections.forget();
        self.handshakes.clear();
        self.clients.clear();
        self.ended.clear();
        self.reported.clear();
        if lost.records == 0 {
            // The figures do not include what connections carried in the meantime.
            self.stop();
        }
    }

    fn stop(&mut self) {
        self.looks.stop();
        self.connections.forget_all();
        self.traffic = Traffic::default();
        self.awaited = 0;
    }

    fn loss_text(&self) -> &'static str {
        "connections open at that time have no life time, and counts are too low"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.all_panels(at)
    }

    fn reset(&mut self, _now: u64) {
        self.figures.clear();
        self.lacks_ends = false;
        self.looks.forget_drops();
        self.drops.clear();
        self.softirqs.clear();
        self.slowest.clear();
        self.course.clear();
    }
}
