//! Connects to which the peer does not answer: their SYN is sent again and again, until the kernel or the program gives
//! up.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::kernel::sockets::TcpSocket;
use crate::lang::counted;
use crate::panel::row_order::arrange_by_key;

use super::{NamedProcess, process_text};

/// The number of peers that are kept of a list.
const MAX_PEERS: usize = 4;

/// A peer that does not answer connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnansweredPeer {
    pub(crate) peer: SocketAddr,
    /// A process that connects to it.
    pub(crate) process: NamedProcess,
    /// The connects that have sent their SYN again, and the most times that one of them did.
    pub(crate) connects: u32,
    pub(crate) resends: u8,
    /// The connections to it that are open.
    pub(crate) open: u32,
    /// The number of lists that show it.
    pub(crate) looks: u32,
}

impl UnansweredPeer {
    /// Adds what a later list shows of it.
    pub(crate) fn merge(&mut self, later: &Self) {
        let (connects, resends) = (self.connects.max(later.connects), self.resends.max(later.resends));
        *self = Self { connects, resends, looks: self.looks + later.looks, ..later.clone() };
    }

    /// Returns the share of the connects that have no answer.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.connects) / f64::from(self.connects.saturating_add(self.open).max(1))
    }

    /// Returns who connects to whom.
    pub(crate) fn text(&self) -> String {
        let process = self.process.as_ref().map(|process| format!("{} ", process_text(process)));
        format!("{}to {}", process.unwrap_or_default(), self.peer)
    }

    /// Returns what shows it.
    pub(crate) fn evidence(&self) -> String {
        let times = counted(u64::from(self.resends), "time");
        let open = match self.open {
            0 => "no connection to it is open".to_owned(),
            n => format!("{} to it open", counted(u64::from(n), "connection")),
        };
        format!("the SYN was sent again up to {times}, {open}")
    }
}

/// Returns the sockets that have sent their SYN again.
pub(super) fn resending(sockets: &[TcpSocket]) -> Vec<&TcpSocket> {
    sockets.iter().filter(|socket| socket.is_connecting() && socket.resends > 0).collect()
}

/// Returns the peers of such sockets, those with the most connects first.
pub(super) fn peers(
    sockets: &[TcpSocket],
    resending: &[&TcpSocket],
    process: &mut dyn FnMut(u32) -> NamedProcess,
) -> Vec<UnansweredPeer> {
    let mut all: BTreeMap<SocketAddr, UnansweredPeer> = BTreeMap::new();
    for socket in resending {
        let none = UnansweredPeer { peer: socket.peer, process: None, connects: 0, resends: 0, open: 0, looks: 1 };
        let of = all.entry(socket.peer).or_insert(none);
        of.connects += 1;
        of.resends = of.resends.max(socket.resends);
        if of.process.is_none() {
            of.process = process(socket.inode);
        }
    }
    let is_open = |socket: &&TcpSocket| !socket.is_connecting() && !socket.is_listening();
    for socket in sockets.iter().filter(is_open) {
        if let Some(of) = all.get_mut(&socket.peer) {
            of.open += 1;
        }
    }
    let mut all: Vec<UnansweredPeer> = all.into_values().collect();
    arrange_by_key(&mut all, |of| (std::cmp::Reverse((of.connects, of.resends)), of.peer));
    all.truncate(MAX_PEERS);
    all
}

#[cfg(test)]
mod tests {
    use super::super::test_socket;
    use super::*;

    const ESTABLISHED: u8 = 1;
    const SYN_SENT: u8 = 2;

    #[test]
    fn the_peer_with_the_most_connects_without_an_answer_is_first() {
        let to = |peer, state, resends| {
            let inode = u32::from(resends);
            TcpSocket { resends, inode, ..test_socket([(1, 40_000), (peer, 80)], state) }
        };
        let all = [
            to(2, SYN_SENT, 1),
            to(3, SYN_SENT, 4),
            to(3, SYN_SENT, 2),
            to(4, SYN_SENT, 0),
            to(2, ESTABLISHED, 0),
            to(5, ESTABLISHED, 3),
        ];
        let mut process = |inode: u32| -> NamedProcess { (inode == 4).then(|| (77, "curl".into())) };
        let found = peers(&all, &resending(&all), &mut process);
        let of = |found: &UnansweredPeer| (found.text(), found.connects, found.resends, found.open);
        let expected = [("curl 77 to 10.0.0.3:80".to_owned(), 2, 4, 0), ("to 10.0.0.2:80".to_owned(), 1, 1, 1)];
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!(found[0].evidence(), "the SYN was sent again up to 4 times, no connection to it is open");
        assert_eq!(found[1].evidence(), "the SYN was sent again up to 1 time, 1 connection to it open");
        assert_eq!([found[0].share(), found[1].share()], [1.0, 0.5]);
    }

    #[test]
    fn lists_add_up() {
        let of = |connects, resends| UnansweredPeer {
            peer: ([10, 0, 0, 2], 80).into(),
            process: None,
            connects,
            resends,
            open: connects,
            looks: 1,
        };
        let mut sum = of(5, 1);
        sum.merge(&of(3, 2));
        assert_eq!(sum, UnansweredPeer { looks: 2, open: 3, ..of(5, 2) });
    }
}
