//! Connections on which data stands still, because the receiver does not read and its receive window is zero.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use rustc_hash::FxHashMap;

use crate::kernel::sockets::TcpSocket;
use crate::panel::row_order::arrange_by_key;
use crate::panel::unit::bytes;

use super::{NamedProcess, process_text};

/// The number of readers that are kept of a list.
const MAX_READERS: usize = 4;

/// A process or peer that does not read its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalledReader {
    /// The reading end of a connection: for a process of this machine, one of them.
    pub(crate) at: SocketAddr,
    /// The process that does not read, if it is on this machine.
    pub(crate) process: NamedProcess,
    /// A process of this machine whose data waits.
    pub(crate) writer: NamedProcess,
    pub(crate) connections: u32,
    /// The bytes that wait in sockets of the process.
    pub(crate) unread: u64,
    /// The number of lists that show it.
    pub(crate) looks: u32,
}

impl StalledReader {
    /// Returns whether two findings are about one reader.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let pid = |of: &Self| of.process.as_ref().map(|(pid, _)| *pid);
        pid(self) == pid(other) && (pid(self).is_some() || self.at == other.at)
    }

    /// Adds what a later list shows of it.
    pub(crate) fn merge(&mut self, later: &Self) {
        let connections = self.connections.max(later.connections);
        *self = Self { connections, looks: self.looks + later.looks, ..later.clone() };
    }

    /// Returns who does not read.
    pub(crate) fn text(&self) -> String {
        let reader = self.process.as_ref().map_or_else(|| self.at.to_string(), process_text);
        let of = self.writer.as_ref().map(|writer| format!(" the data of {}", process_text(writer)));
        format!("{reader} does not read{}", of.unwrap_or_default())
    }

    /// Returns what shows it.
    pub(crate) fn evidence(&self) -> String {
        match self.unread {
            0 => "the peer's receive window is zero".to_owned(),
            unread => format!("the receive window is zero, {} wait in its sockets", bytes(unread)),
        }
    }
}

/// A connection in two lists: the number of its socket, its bytes, and whether it sends or receives.
type Still = (u64, u64, bool);

/// The connections on which data waited in the last list.
#[derive(Debug, Default)]
pub(super) struct Stalls(BTreeSet<Still>);

impl Stalls {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the sockets whose data waits since the last list, and moved by no byte since.
    pub(super) fn find<'a>(&mut self, sockets: &'a [TcpSocket]) -> Vec<&'a TcpSocket> {
        let before = std::mem::take(&mut self.0);
        let waiting = sockets.iter().filter_map(|socket| Some((socket, still(socket)?)));
        let mut found = Vec::new();
        for (socket, still) in waiting {
            if before.contains(&still) {
                found.push(socket);
            }
            self.0.insert(still);
        }
        found
    }
}

/// Returns the state of a socket if data waits for a receive window that is zero, its own or that of its peer.
fn still(socket: &TcpSocket) -> Option<Still> {
    let counters = socket.counters?;
    let (sends, receives) = (socket.is_peer_full && socket.awaits_window, socket.is_full && socket.queue[0] > 0);
    match (sends, receives && !socket.is_connecting()) {
        (true, _) => Some((socket.cookie, counters.sent, true)),
        (false, true) => Some((socket.cookie, counters.received, false)),
        (false, false) => None,
    }
}

/// Returns the readers of stalled connections, those with the most connections first.
pub(super) fn readers(
    sockets: &[TcpSocket],
    stalled: &[&TcpSocket],
    process: &mut dyn FnMut(u32) -> NamedProcess,
) -> Vec<StalledReader> {
    if stalled.is_empty() {
        return Vec::new();
    }
    // Over loopback, and between containers, both ends are on this machine.
    let keys = |of: &TcpSocket| [Some(of.namespace), None].map(|namespace| ([of.local, of.peer], namespace));
    let by_ends: FxHashMap<([SocketAddr; 2], Option<u64>), &TcpSocket> =
        sockets.iter().flat_map(|of| keys(of).map(|key| (key, of))).collect();
    let mut all: BTreeMap<(Option<i32>, Option<SocketAddr>), StalledReader> = BTreeMap::new();
    let mut counted: BTreeSet<[SocketAddr; 2]> = BTreeSet::new();
    for socket in stalled {
        let at = |namespace| by_ends.get(&([socket.peer, socket.local], namespace)).copied();
        let other = at(Some(socket.namespace)).or_else(|| at(None));
        let is_sender = still(socket).is_some_and(|(_, _, sends)| sends);
        let (reader, writer) = if is_sender { (other, Some(*socket)) } else { (Some(*socket), other) };
        let at = if is_sender { socket.peer } else { socket.local };
        let ends = if is_sender { [socket.peer, socket.local] } else { [socket.local, socket.peer] };
        if !counted.insert(ends) {
            continue;
        }
        let owner = reader.and_then(|socket| process(socket.inode));
        let key = (owner.as_ref().map(|(pid, _)| *pid), owner.is_none().then_some(at));
        let none = StalledReader { at, process: owner, writer: None, connections: 0, unread: 0, looks: 1 };
        let of = all.entry(key).or_insert(none);
        of.connections += 1;
        of.unread += reader.map_or(0, |socket| u64::from(socket.queue[0]));
        if of.writer.is_none() {
            of.writer = writer.and_then(|socket| process(socket.inode));
        }
    }
    let mut all: Vec<StalledReader> = all.into_values().collect();
    arrange_by_key(&mut all, |of| (std::cmp::Reverse((of.connections, of.unread)), of.at));
    all.truncate(MAX_READERS);
    all
}

#[cfg(test)]
mod tests {
    use crate::kernel::sockets::TcpCounters;

    use super::super::test_socket;
    use super::*;

    const ESTABLISHED: u8 = 1;

    /// Returns a socket whose data waits for the peer's window, with bytes sent.
    fn sender(cookie: u64, peer: (u8, u16), sent: u64) -> TcpSocket {
        TcpSocket {
            cookie,
            inode: 1,
            is_peer_full: true,
            awaits_window: true,
            counters: Some(TcpCounters { sent, ..TcpCounters::default() }),
            ..test_socket([(1, cookie as u16), peer], ESTABLISHED)
        }
    }

    fn receiver(cookie: u64, local: (u8, u16), peer: (u8, u16), unread: u32) -> TcpSocket {
        TcpSocket {
            cookie,
            inode: 2,
            is_full: true,
            queue: [unread, 0],
            counters: Some(TcpCounters { received: u64::from(unread), ..TcpCounters::default() }),
            ..test_socket([local, peer], ESTABLISHED)
        }
    }

    fn process(inode: u32) -> NamedProcess {
        match inode {
            1 => Some((11, "writer".into())),
            2 => Some((12, "reader".into())),
            _ => None,
        }
    }

    fn found(first: &[TcpSocket], second: &[TcpSocket]) -> Vec<(String, u32, String)> {
        let mut stalls = Stalls::default();
        assert_eq!(stalls.find(first), Vec::<&TcpSocket>::new(), "one list does not show a stall");
        let stalled = stalls.find(second);
        let all = readers(second, &stalled, &mut process);
        all.iter().map(|of| (of.text(), of.connections, of.evidence())).collect()
    }

    #[test]
    fn a_peer_that_does_not_read_is_named() {
        let all = [sender(1, (3, 80), 500), sender(2, (3, 80), 700), sender(3, (4, 80), 9)];
        let peer = |last| format!("10.0.0.{last}:80 does not read the data of writer 11");
        let zero = || "the peer's receive window is zero".to_owned();
        assert_eq!(found(&all, &all), [(peer(3), 2, zero()), (peer(4), 1, zero())]);
        let moved = [sender(1, (3, 80), 501), sender(2, (3, 80), 700), sender(4, (4, 80), 9)];
        assert_eq!(found(&all, &moved), [(peer(3), 1, zero())], "of three, only the second stands still");
        let idle = all.map(|socket| TcpSocket { awaits_window: false, ..socket });
        assert_eq!(found(&idle, &idle), [], "no data waits");
    }

    /// The sender may be elsewhere, or on this machine, too.
    #[test]
    fn a_process_that_does_not_read_is_named() {
        let remote = [receiver(5, (1, 80), (9, 40_000), 64_000)];
        let waits = "the receive window is zero, 64.0 kB wait in its sockets".to_owned();
        assert_eq!(found(&remote, &remote), [("reader 12 does not read".to_owned(), 1, waits.clone())]);
        let both = [sender(1, (3, 80), 500), receiver(6, (3, 80), (1, 1), 64_000)];
        let text = "reader 12 does not read the data of writer 11".to_owned();
        assert_eq!(found(&both, &both), [(text, 1, waits)], "one connection");
    }

    #[test]
    fn lists_add_up() {
        let of = |at: u8, pid: Option<i32>, connections| StalledReader {
            at: ([10, 0, 0, at], 80).into(),
            process: pid.map(|pid| (pid, "reader".into())),
            writer: None,
            connections,
            unread: 0,
            looks: 1,
        };
        assert!(of(1, Some(7), 1).is_same(&of(2, Some(7), 1)) && of(1, None, 1).is_same(&of(1, None, 2)));
        assert!(!of(1, None, 1).is_same(&of(2, None, 1)) && !of(1, Some(7), 1).is_same(&of(1, None, 1)));
        let mut sum = of(1, None, 5);
        sum.merge(&of(1, None, 3));
        assert_eq!(sum, StalledReader { looks: 2, ..of(1, None, 5) });
    }
}
