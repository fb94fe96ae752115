//! The listening socket that drops connections because its queue is full, and its process.

use std::sync::Arc;

use crate::kernel::sockets::{TcpMonitor, TcpSocket, socket_owners};
use crate::kernel::{monotonic_ns, procfs};

/// The inverse of the share of the time for listing sockets, which takes long on a machine with many.
const DUTY: u64 = 80;

/// A listening socket whose queue is full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FullQueue {
    pub(crate) port: u16,
    /// A process that listens; `None` if it is not visible.
    pub(crate) process: Option<(i32, Arc<str>)>,
    /// The connections that wait to be accepted, and the limit that was chosen for them.
    pub(crate) waiting: u32,
    pub(crate) limit: u32,
}

impl FullQueue {
    /// Returns it in words.
    pub(crate) fn text(&self) -> String {
        match &self.process {
            Some((pid, comm)) => format!("port {} of {comm} {pid}", self.port),
            None => format!("port {}", self.port),
        }
    }
}

/// The newest full queue.
#[derive(Debug, Default)]
pub(crate) struct ListenWatch {
    /// The earliest time to list sockets again.
    due: u64,
    newest: Option<FullQueue>,
}

impl ListenWatch {
    /// Returns the full queue behind dropped connections. Sockets are listed only if some were dropped.
    pub(crate) fn read(&mut self, are_dropped: bool) -> Option<FullQueue> {
        if !are_dropped {
            return None;
        }
        let before = monotonic_ns();
        if before >= self.due {
            self.newest = fullest(&TcpMonitor::default().sockets()).map(|socket| {
                let pid = socket_owners().get(&socket.inode).copied();
                let named = |pid| Some((pid, String::from_utf8_lossy(&procfs::comm(pid, pid)?).into()));
                let [waiting, limit] = socket.queue;
                FullQueue { port: socket.local.port(), process: pid.and_then(named), waiting, limit }
            });
            let after = monotonic_ns();
            self.due = after.saturating_add(after.saturating_sub(before).saturating_mul(DUTY));
        }
        self.newest.clone()
    }
}

/// Returns the listening socket with a full queue that dropped the most connections. The kernel lets one more wait than
/// the limit.
fn fullest(sockets: &[TcpSocket]) -> Option<&TcpSocket> {
    let full = sockets.iter().filter(|socket| socket.is_listening() && socket.queue[0] > socket.queue[1]);
    full.max_by_key(|socket| (socket.drops, std::cmp::Reverse(socket.local)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_queue_with_the_most_drops_is_named() {
        let of = |port: u16, state, queue, drops| TcpSocket {
            local: ([127, 0, 0, 1], port).into(),
            peer: ([0, 0, 0, 0], 0).into(),
            state,
            inode: 0,
            namespace: 0,
            read_at: 0,
            cookie: 0,
            queue,
            drops,
            rtt: [0; 2],
            counters: None,
            is_peer_full: false,
        };
        const LISTEN: u8 = 10;
        let all = [
            of(80, LISTEN, [4, 4], 900),
            of(8098, LISTEN, [5, 4], 217),
            of(81, LISTEN, [1, 0], 3),
            of(90, 1, [9, 0], 999),
        ];
        assert_eq!(fullest(&all).map(|socket| socket.local.port()), Some(8098), "80 was full once, 90 is connected");
        assert_eq!(fullest(&all[..1]), None);
        let queue = FullQueue { port: 8098, process: Some((7, "redis-server".into())), waiting: 5, limit: 4 };
        assert_eq!(queue.text(), "port 8098 of redis-server 7");
        assert_eq!(FullQueue { process: None, ..queue }.text(), "port 8098");
        assert_eq!(ListenWatch::default().read(false), None);
    }
}
