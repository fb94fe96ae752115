//! The listening socket that drops connections because its queue is full, and its process.

use crate::kernel::sockets::TcpSocket;

use super::{NamedProcess, process_text};

/// A listening socket whose queue is full.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FullQueue {
    pub(crate) port: u16,
    /// A process that listens.
    pub(crate) process: NamedProcess,
    /// The connections that wait to be accepted, and the limit that was chosen for them.
    pub(crate) waiting: u32,
    pub(crate) limit: u32,
}

impl FullQueue {
    pub(super) fn of(socket: &TcpSocket, process: NamedProcess) -> Self {
        let [waiting, limit] = socket.queue;
        Self { port: socket.local.port(), process, waiting, limit }
    }

    /// Returns it in words.
    pub(crate) fn text(&self) -> String {
        match &self.process {
            Some(process) => format!("port {} of {}", self.port, process_text(process)),
            None => format!("port {}", self.port),
        }
    }
}

/// Returns the listening socket with a full queue that dropped the most connections. The kernel lets one more wait than
/// the limit.
pub(super) fn fullest(sockets: &[TcpSocket]) -> Option<&TcpSocket> {
    let full = sockets.iter().filter(|socket| socket.is_listening() && socket.queue[0] > socket.queue[1]);
    full.max_by_key(|socket| (socket.drops, std::cmp::Reverse(socket.local)))
}

#[cfg(test)]
mod tests {
    use super::super::test_socket;
    use super::*;

    #[test]
    fn the_full_queue_with_the_most_drops_is_named() {
        let of = |port, state, queue, drops| TcpSocket { queue, drops, ..test_socket([(1, port), (0, 0)], state) };
        const LISTEN: u8 = 10;
        let all = [
            of(80, LISTEN, [4, 4], 900),
            of(8098, LISTEN, [5, 4], 217),
            of(81, LISTEN, [1, 0], 3),
            of(90, 1, [9, 0], 999),
        ];
        assert_eq!(fullest(&all).map(|socket| socket.local.port()), Some(8098), "80 was full once, 90 is connected");
        assert_eq!(fullest(&all[..1]), None);
        let queue = FullQueue::of(&all[1], Some((7, "redis-server".into())));
        assert_eq!((&*queue.text(), queue.waiting, queue.limit), ("port 8098 of redis-server 7", 5, 4));
        assert_eq!(FullQueue { process: None, ..queue }.text(), "port 8098");
    }
}
