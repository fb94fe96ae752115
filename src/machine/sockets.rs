//! The sockets behind counters of networks: full listen queues, connects without an answer, and data that is not
//! read. Sockets are listed only while such a counter grows, and until a list shows no fault.

pub mod listeners;
pub mod stalled;
pub mod unanswered;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::kernel::sockets::{TcpMonitor, TcpSocket, socket_owners};
use crate::kernel::{monotonic_ns, procfs, with_cpu_time};

use listeners::FullQueue;
use stalled::{StalledReader, Stalls};
use unanswered::UnansweredPeer;

/// The inverse of the share of a CPU for listing sockets, which takes long on a machine with many.
const DUTY: u64 = 80;

/// The counters that grew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GrownCounters {
    /// Connections that a full listen queue dropped.
    pub(crate) unaccepted: bool,
    /// SYNs that were sent again.
    pub(crate) syns_resent: bool,
    /// Probes of zero windows, and own windows that became zero.
    pub(crate) zero_windows: bool,
}

/// The faults that the newest list of sockets shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketFaults {
    /// The full listen queue behind dropped connections.
    pub(crate) full_queue: Option<FullQueue>,
    /// Peers that do not answer, those with the most connects first.
    pub(crate) unanswered: Vec<UnansweredPeer>,
    /// Processes and peers that do not read, those with the most connections first.
    pub(crate) stalled: Vec<StalledReader>,
}

/// The state of looking at sockets.
#[derive(Debug, Default)]
pub(crate) struct SocketWatch {
    /// The earliest time to list sockets again.
    due: u64,
    newest: SocketFaults,
    stalls: Stalls,
}

impl SocketWatch {
    /// Returns the faults of sockets. An unanswered SYN, or a probe, is sent again ever more rarely: what is known stays
    /// until a list does not show it.
    pub(crate) fn read(&mut self, grown: GrownCounters) -> SocketFaults {
        self.read_by(grown, || {
            let mut monitor = TcpMonitor::default();
            let sockets = monitor.sockets();
            (sockets, monitor.cost().as_nanos() as u64)
        })
    }

    /// Does the same with a function that lists sockets; it returns the CPU time of other threads for it.
    fn read_by(&mut self, grown: GrownCounters, list: impl FnOnce() -> (Vec<TcpSocket>, u64)) -> SocketFaults {
        let has_waits = !self.newest.unanswered.is_empty() || !self.stalls.is_empty();
        if grown == GrownCounters::default() && !has_waits {
            return SocketFaults::default();
        }
        if monotonic_ns() >= self.due {
            let (others, own) = with_cpu_time(|| {
                let (sockets, cost) = list();
                self.newest = self.faults(&sockets);
                cost
            });
            // CPU time counts: on a busy machine a list takes seconds, and an ended fault would stay for minutes.
            self.due = monotonic_ns().saturating_add(own.saturating_add(others).saturating_mul(DUTY));
        }
        // A queue may have been full for long without a drop.
        let full_queue = self.newest.full_queue.clone().filter(|_| grown.unaccepted);
        SocketFaults { full_queue, ..self.newest.clone() }
    }

    fn faults(&mut self, sockets: &[TcpSocket]) -> SocketFaults {
        let (full, connecting) = (listeners::fullest(sockets), unanswered::resending(sockets));
        let stalled = self.stalls.find(sockets);
        if full.is_none() && connecting.is_empty() && stalled.is_empty() {
            return SocketFaults::default();
        }
        let owners = socket_owners();
        let owner = |inode: u32| owners.get(&inode).copied();
        let mut names = FxHashMap::default();
        let mut process = |inode: u32| {
            let pid = owner(inode)?;
            let name = names.entry(pid).or_insert_with(|| procfs::comm(pid, pid).map(|comm| comm_text(&comm)));
            Some((pid, name.clone()?))
        };
        SocketFaults {
            full_queue: full.map(|socket| FullQueue::of(socket, process(socket.inode))),
            unanswered: unanswered::peers(sockets, &connecting, &mut process),
            stalled: stalled::readers(sockets, &stalled, &mut process),
        }
    }
}

fn comm_text(comm: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(comm).into()
}

/// A process with its name, if it is visible.
pub(crate) type NamedProcess = Option<(i32, Arc<str>)>;

/// Returns a process in words.
fn process_text((pid, comm): &(i32, Arc<str>)) -> String {
    format!("{comm} {pid}")
}

/// Creates a socket for tests.
#[cfg(test)]
fn test_socket(ends: [(u8, u16); 2], state: u8) -> TcpSocket {
    let [local, peer] = ends.map(|(last, port)| std::net::SocketAddr::from(([10, 0, 0, last], port)));
    TcpSocket {
        local,
        peer,
        state,
        inode: 0,
        namespace: 0,
        read_at: 0,
        cookie: 0,
        queue: [0; 2],
        drops: 0,
        rtt: [0; 2],
        counters: None,
        is_peer_full: false,
        is_full: false,
        awaits_window: false,
        resends: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_listed_only_while_a_counter_grows() {
        let mut watch = SocketWatch::default();
        assert_eq!((watch.read(GrownCounters::default()), watch.due), (SocketFaults::default(), 0));
        watch.read(GrownCounters { syns_resent: true, ..GrownCounters::default() });
        assert!(watch.due > 0);
    }

    /// The thread waits for a CPU most of the time.
    #[test]
    fn a_list_that_waits_for_a_cpu_is_repeated_soon() {
        const WAITED: std::time::Duration = std::time::Duration::from_millis(200);
        let mut watch = SocketWatch::default();
        watch.read_by(GrownCounters { syns_resent: true, ..GrownCounters::default() }, || {
            std::thread::sleep(WAITED);
            (Vec::new(), 1_000_000)
        });
        let pause = watch.due.saturating_sub(monotonic_ns());
        assert!(pause < WAITED.as_nanos() as u64 * DUTY / 2, "{pause}");
    }

    /// A SYN is sent again ever more rarely, so that its counter does not grow all the time.
    #[test]
    fn a_fault_stays_until_a_list_does_not_show_it() {
        let peer = ([192, 0, 2, 1], 9).into();
        let silent = UnansweredPeer { peer, process: None, connects: 1, resends: 3, open: 0, looks: 1 };
        let full = FullQueue { port: 80, ..FullQueue::default() };
        let known = SocketFaults { full_queue: Some(full), unanswered: vec![silent], ..SocketFaults::default() };
        let mut watch = SocketWatch { due: u64::MAX, newest: known.clone(), stalls: Stalls::default() };
        let shown = watch.read(GrownCounters::default());
        assert_eq!(shown, SocketFaults { full_queue: None, ..known.clone() }, "the queue was full without a drop");
        assert_eq!(watch.read(GrownCounters { unaccepted: true, ..GrownCounters::default() }), known);
        watch.due = 0;
        let next = watch.read(GrownCounters::default());
        assert!(next.unanswered.iter().all(|of| of.peer != peer), "no connection to it is attempted");
    }
}
