//! The tables of connections.

use std::hash::Hash;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::panel::text::BELOW;
use crate::units::events::syscalls::error_name;
use crate::units::kit::prelude::*;
use crate::units::kit::tables::columns::OTHERS;
use crate::units::kit::tables::containers;

use super::connections::{PeerKey, Place};
use super::figures::{Figures, ListenQueue, RowsBy};
use super::listeners::Port;
use super::{DropKey, Dropped, Tcp};

type Row<'a, K> = (Option<K>, &'a Figures);

/// Returns the most frequent error of a row.
fn top_error(row: &Figures) -> Option<(u32, u64)> {
    let most = row.errors.iter().max_by_key(|(number, n)| (**n, std::cmp::Reverse(**number)));
    most.map(|(number, n)| (*number, *n))
}

/// Adds the columns that all tables of connections have.
fn with_figures<'a, K: Copy + 'a>(sheet: Sheet<'a, Row<'a, K>>) -> Sheet<'a, Row<'a, K>> {
    sheet
        .right("opened", "Opened", 8, |(_, row)| count(row.opened))
        .right("accepted", "Accepted", 9, |(_, row)| count(row.accepted))
        .right("failed", "Failed", 7, |(_, row)| count(row.failed))
        .left("errno", "Top error", 13, |(_, row)| {
            top_error(row).map_or(Cell::Empty, |(number, _)| text(error_name(number)))
        })
        .right("open", "Open", 6, |(_, row)| count(row.now.open))
        .ranked(1)
        .right("connect_p50_ns", "Connect", 8, |(_, row)| time(row.connects.quantile(0.5)))
        .right("connect_p99_ns", "p99", 8, |(_, row)| time(row.connects.quantile(0.99)))
        .ranked(2)
        .right("rtt_p50_ns", "RTT", 8, |(_, row)| time(row.now.rtt[0].quantile(0.5)))
        .right("rtt_p99_ns", "RTT p99", 8, |(_, row)| time(row.now.rtt[0].quantile(0.99)))
        .ranked(4)
        .right("rtt_variance_p50_ns", "RTT var", 8, |(_, row)| time(row.now.rtt[1].quantile(0.5)))
        .ranked(5)
        .right("sent_bytes", "Sent", 9, |(_, row)| bytes(row.carried.sent))
        .ranked(2)
        .right("received_bytes", "Received", 9, |(_, row)| bytes(row.carried.received))
        .ranked(2)
        .right("retransmits", "Retrans", 8, |(_, row)| count(row.retransmits))
        .right("resent_bytes", "Resent", 8, |(_, row)| bytes(row.carried.resent))
        .ranked(5)
        .right("window_wait_ns", "Win wait", 8, |(_, row)| time(row.carried.window_wait_ns))
        .ranked(4)
        .right("zero_windows", "Zero win", 8, |(_, row)| count(row.now.zero_windows))
        .ranked(5)
        .right("overflows", "Overflow", 8, |(_, row)| count(row.overflows))
        .ranked(4)
        .right("resets_sent", "RST sent", 8, |(_, row)| count(row.resets_sent))
        .ranked(3)
        .right("resets_received", "RST recv", 8, |(_, row)| count(row.resets_received))
        .ranked(3)
        .right("closed", "Closed", 8, |(_, row)| count(row.closed))
        .ranked(4)
        .right("life_p50_ns", "Life", 8, |(_, row)| time(row.life.quantile(0.5)))
        .ranked(4)
}

fn sheet<K: Copy + Hash + Ord + Eq>(rows: &RowsBy<K>) -> Sheet<'_, Row<'_, K>> {
    Sheet::of(rows.sorted(), |(key, _)| id(&key)).in_hidden_order()
}

impl Tcp {
    pub(super) fn all_panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let socket = |place: &Place| self.looks.connection(place);
        self.figures.count_open(self.connections.iter(), socket, self.queues.iter().copied());
        let mut panels = vec![
            self.peers().noted(self.remark()),
            self.ports(at),
            self.processes(at),
            self.errors(),
            self.drops(at),
            self.slow(at),
            latency::by_powers("Connect", &self.figures.total.connects, Measure::Time),
            self.course.series("Over time", at, Measure::Count, 8, |line| (*line).to_owned()),
        ];
        panels.extend(self.softirq_cpus());
        panels.extend(self.containers(at));
        panels
    }

    fn peers(&self) -> Panel {
        let label = |key: Option<PeerKey>| key.map_or_else(|| OTHERS.to_owned(), PeerKey::label);
        let port = |key: Option<PeerKey>| key.map(|key| key.peer.port());
        let have_services = self.figures.peers.sorted().iter().any(|(key, _)| self.service(port(*key)).is_some());
        let sheet = sheet(&self.figures.peers)
            .left("peer", "Peer", 26, move |(key, _)| text(label(key)))
            .left("way", "Way", 5, |(key, _)| text(key.map_or("", |key| key.way.label())))
            .when(have_services, move |sheet| {
                sheet.left("service", "Service", 12, move |(key, _)| self.service_cell(port(key))).ranked(3)
            });
        with_figures(sheet).panel("Peers")
    }

    /// Returns the name of a port, if it has one.
    fn service(&self, port: Option<u16>) -> Option<&str> {
        self.services.name(port?)
    }

    fn service_cell(&self, port: Option<u16>) -> Cell {
        self.service(port).map_or(Cell::Empty, text)
    }

    fn ports(&self, at: &Moment<'_>) -> Panel {
        let label = |key: Option<Port>| match key.map(|port| port.local) {
            None => OTHERS.to_owned(),
            Some(local) if local.ip().is_unspecified() => format!(":{}", local.port()),
            Some(local) => local.to_string(),
        };
        let owner = |key: Option<Port>| {
            let listener = key.and_then(|port| self.connections.listeners.find(port.local, port.namespace).one());
            let process = listener.map(|listener| listener.process).filter(|process| process.tid > 0);
            process.map_or(Cell::Empty, |process| text(at.task(process)))
        };
        let rows = self.figures.ports.sorted();
        let mut addresses: Vec<SocketAddr> = rows.iter().filter_map(|(key, _)| Some(key.as_ref()?.local)).collect();
        addresses.sort_unstable();
        let have_equals = addresses.windows(2).any(|pair| pair[0] == pair[1]);
        let namespace = |key: Option<Port>| {
            let known = key.map(|port| port.namespace).filter(|namespace| *namespace > 0);
            known.and_then(|namespace| i64::try_from(namespace).ok()).map_or(Cell::Empty, Cell::Id)
        };
        let queued = |row: &Figures, of: fn(&ListenQueue) -> u64| {
            row.now.queue.as_ref().map_or(Cell::Empty, |queue| Cell::Count(of(queue)))
        };
        let number = |key: Option<Port>| key.map(|port| port.local.port());
        let have_services = rows.iter().any(|(key, _)| self.service(number(*key)).is_some());
        let sheet = sheet(&self.figures.ports)
            .left("port", "Port", 22, move |(key, _)| text(label(key)))
            .when(have_services, move |sheet| {
                sheet.left("service", "Service", 12, move |(key, _)| self.service_cell(number(key))).ranked(3)
            })
            .when(have_equals, |sheet| {
                sheet.right("net_namespace", "Net NS", 10, move |(key, _)| namespace(key)).ranked(1)
            })
            .left("listener", "Listener", 22, move |(key, _)| owner(key))
            .right("waiting", "Waiting", 7, move |(_, row)| queued(row, |queue| queue.waiting))
            .right("limit", "Limit", 6, move |(_, row)| queued(row, |queue| queue.limit))
            .ranked(2)
            .right("dropped", "Dropped", 8, |(_, row)| count(row.dropped()));
        with_figures(sheet).panel("Listening ports")
    }

    fn processes(&self, at: &Moment<'_>) -> Panel {
        let sheet = sheet(&self.figures.processes).process(at, |(key, _)| key);
        with_figures(sheet).panel("Processes")
    }

    fn containers(&mut self, at: &Moment<'_>) -> Option<Panel> {
        let rows = self.figures.processes.sorted();
        let processes = rows.into_iter().filter_map(|(key, row)| Some((key.filter(|process| process.tid > 0)?, row)));
        let sums = self.containers.sums(at, processes, Figures::merge, Figures::weight);
        let list: Vec<(Option<usize>, &Figures)> =
            sums.iter().enumerate().map(|(i, (_, row))| (Some(i), row)).collect();
        let name =
            |key: Option<usize>| key.and_then(|i| sums.get(i)).map_or(Cell::Empty, |(name, _)| text(name.as_str()));
        let sheet =
            Sheet::of(list, |(key, _)| id(&key))
                .in_hidden_order()
                .left("container", "Container", 30, |(key, _)| name(key));
        (!sums.is_empty()).then(|| with_figures(sheet).panel(containers::TITLE))
    }

    fn errors(&self) -> Panel {
        let rows = self.figures.peers.sorted();
        let each =
            rows.iter().flat_map(|(key, row)| row.errors.iter().map(|(number, n)| ((*key, *number), (*n, *row))));
        let list = by_weight(each, |(n, _)| *n);
        let label = |key: Option<PeerKey>| key.map_or_else(|| OTHERS.to_owned(), PeerKey::label);
        Sheet::of(list, |(key, _)| id(&key))
            .left("peer", "Peer", 26, |((key, _), _)| text(label(key)))
            .left("way", "Way", 5, |((key, _), _)| text(key.map_or("", |key| key.way.label())))
            .left("errno", "Error", 18, |((_, number), _)| text(error_name(number)))
            .right("errors", "Times", 9, |(_, (n, _))| Cell::Count(n))
            .ordered()
            .right("failed", "Failed", 9, |(_, (_, row))| count(row.failed))
            .panel("Errors")
    }

    fn drops(&self, at: &Moment<'_>) -> Panel {
        let list = by_weight(self.drops.iter().map(|(key, of)| (*key, of)), |of| of.times);
        let what = |key: DropKey| match key {
            DropKey::Packet(..) => text("packet dropped"),
            DropKey::Reset(_, Some(port)) => text(format!("reset, port {port}")),
            DropKey::Reset(..) => text("reset sent"),
        };
        Sheet::of(list, |(key, _)| id(&key))
            .right("times", "Times", 9, |(_, of)| Cell::Count(of.times))
            .ordered()
            .left("what", "What", 17, |(key, _)| what(key))
            .left("reason", "Reason", 24, |(_, of)| text(of.reason.clone()))
            .left("place", "Kernel functions", 0, |(key, of)| text(place(at, key, of)))
            .begins_with_what_matters()
            .panel("Drops and resets")
    }

    fn slow(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., of)| Cell::Time(at.after(of.time)))
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns))
            .task(at, |(.., of)| of.thread)
            .left("peer", "Peer", 26, |(.., of)| text(of.ends.peer.to_string()))
            .left("outcome", "Outcome", 11, |(.., of)| text(if of.has_failed { "failed" } else { "established" }))
            .whole("Slowest connects")
    }
}

/// Returns the functions that dropped a packet, without those that every drop goes through.
fn place(at: &Moment<'_>, key: DropKey, of: &Dropped) -> Arc<str> {
    let DropKey::Packet(_, location) = key else { return "".into() };
    let frames = at.frames(of.stack);
    let own = frames.iter().rev().take_while(|frame| frame.kind.is_kernel());
    let names: Vec<&str> = own
        .map(|frame| &*frame.text)
        .skip_while(|name| name.contains("kfree_skb") || name.contains("skb_reason_drop") || name.contains("trace"))
        .take(6)
        .collect();
    if names.is_empty() { format!("{location:#x}").into() } else { names.join(BELOW).into() }
}

#[cfg(test)]
mod tests {
    use super::super::connections::{Connection, Way};
    use super::super::fields::Ends;
    use super::super::figures::Happening;
    use super::*;

    /// A port has its name in a column of its own, if any port has one.
    #[test]
    fn ports_have_their_services() {
        let columns = |tcp: &Tcp| {
            let panel = tcp.peers();
            let rows = panel.rows().expect("rows");
            rows.table.columns.iter().map(|column| column.name.to_string()).collect::<Vec<_>>()
        };
        let mut tcp = Tcp::default();
        let ends =
            Ends { local: SocketAddr::from(([10, 0, 0, 1], 40_000)), peer: SocketAddr::from(([10, 0, 0, 2], 22)) };
        let of = Connection::new(ends, Way::Out, [ThreadKey::of_row(1); 2], true);
        tcp.figures.add(&of, Happening::Opened);
        assert!(!columns(&tcp).contains(&"service".to_owned()));
        tcp.services = std::sync::Arc::new([(22, "ssh")].into_iter().collect());
        assert!(columns(&tcp).contains(&"service".to_owned()));
        assert_eq!((tcp.service(Some(22)), tcp.service(Some(23)), tcp.service(None)), (Some("ssh"), None, None));
    }
}
