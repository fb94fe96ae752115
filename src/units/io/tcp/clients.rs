//! The clients of this machine whose connections were established last on each CPU: their servers' follow there.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::connections::Connection;
use super::fields::Ends;

/// The limit of clients of a CPU that wait: those of other machines' servers never find one.
const MAX_WAITING: usize = 8;

/// Clients on loopback. The kernel handles the last packet of a handshake on the CPU on which the client sent it, in
/// order. So a new connection of a server belongs to the first client there with the same ends, in whose network
/// namespace it is: addresses alone do not show that, because several namespaces may use the same ones at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    waiting: FxHashMap<u32, VecDeque<Connection>>,
}

impl Clients {
    /// Adds a client that was established on a CPU.
    pub(super) fn add(&mut self, cpu: u32, client: Connection) {
        let waiting = self.waiting.entry(cpu).or_default();
        if waiting.len() == MAX_WAITING {
            waiting.pop_front();
        }
        waiting.push_back(client);
    }

    /// Takes the client of a server's new connection with these ends, as the server has them.
    pub(super) fn take(&mut self, cpu: u32, ends: Ends) -> Option<Connection> {
        let waiting = self.waiting.get_mut(&cpu)?;
        let at = waiting.iter().position(|of| of.ends == ends.reversed())?;
        waiting.remove(at)
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::connections::Way;
    use super::*;
    use crate::units::kit::ThreadKey;

    fn client(port: u16, pid: u64) -> Connection {
        let ends = Ends { local: ([127, 0, 0, 1], port).into(), peer: ([127, 0, 0, 1], 80).into() };
        Connection::new(ends, Way::Out, [ThreadKey::of_row(pid); 2], true)
    }

    #[test]
    fn servers_get_the_clients_of_their_cpu_in_order() {
        let mut clients = Clients::default();
        for (cpu, port, pid) in [(0, 4000, 1), (1, 4000, 2), (0, 4001, 3), (0, 4000, 4)] {
            clients.add(cpu, client(port, pid));
        }
        let mut take =
            |cpu: u32, port: u16| clients.take(cpu, client(port, 0).ends.reversed()).map(|of| of.process.tid);
        assert_eq!([take(0, 4001), take(0, 4000), take(0, 4000), take(0, 4000)], [Some(3), Some(1), Some(4), None]);
        assert_eq!([take(1, 4001), take(1, 4000), take(2, 4000)], [None, Some(2), None]);
    }

    #[test]
    fn clients_without_a_server_here_make_room() {
        let mut clients = Clients::default();
        (0..=MAX_WAITING as u16).for_each(|i| clients.add(0, client(4000 + i, 1)));
        assert_eq!(clients.take(0, client(4000, 0).ends.reversed()), None);
        assert!(clients.take(0, client(4001, 0).ends.reversed()).is_some());
    }
}
