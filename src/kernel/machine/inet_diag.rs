//! TCP sockets, and others with addresses, in messages of the kernel's socket monitoring.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use super::sock_diag::{attributes, message, read_messages, receive, word};
use crate::kernel::monotonic_ns;

/// `TCP_LISTEN` (include/net/tcp_states.h).
pub(super) const LISTEN: u8 = 10;
/// `TCP_SYN_SENT`.
const SYN_SENT: u8 = 2;
/// Values of `idiag_timer`: the oldest segment is sent again, or the peer's zero window is probed, when it expires.
const RETRANSMIT_TIMER: u8 = 1;
const PROBE_TIMER: u8 = 4;

// linux/inet_diag.h.
const DIAG_MESSAGE: usize = 72;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
/// The limit of messages that one call reads: more than may wait. Other processes may send without end.
const MAX_MESSAGES: usize = 1 << 14;

/// Offsets in `struct tcp_info` (linux/tcp.h); older kernels have a shorter one.
mod info {
    pub(super) const RTT: usize = 68;
    pub(super) const RTT_VARIANCE: usize = 72;
    pub(super) const SEGMENTS_RESENT: usize = 100;
    pub(super) const BYTES_ACKED: usize = 120;
    pub(super) const BYTES_RECEIVED: usize = 128;
    pub(super) const WINDOW_LIMITED: usize = 176;
    pub(super) const BYTES_SENT: usize = 200;
    pub(super) const BYTES_RESENT: usize = 208;
    pub(super) const SEND_WINDOW: usize = 228;
    pub(super) const RECEIVE_WINDOW: usize = 232;
}
/// The offset of the drops in `SK_MEMINFO`.
const DROPS_AT: usize = 8 * 4;

/// A TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) state: u8,
    pub(crate) inode: u32,
    /// The inode of its network namespace.
    pub(crate) namespace: u64,
    /// When it was read, in nanoseconds of the monotonic clock.
    pub(crate) read_at: u64,
    /// A number that the socket has until its end.
    ///
    /// On older kernels, sockets of other network namespaces may have it, too.
    pub(crate) cookie: u64,
    /// For a listening socket, the connections that wait to be accepted, and their limit.
    pub(crate) queue: [u32; 2],
    /// For a listening socket, the connections that were dropped since it was made.
    pub(crate) drops: u32,
    /// The smoothed round-trip time and its mean deviation in microseconds; 0 if unknown.
    pub(crate) rtt: [u32; 2],
    /// `None` for a listening socket, and after the connection's end.
    pub(crate) counters: Option<TcpCounters>,
    /// Whether the peer's receive window is zero.
    pub(crate) is_peer_full: bool,
    /// Whether its own receive window is zero; before Linux 6.2, this is not known.
    pub(crate) is_full: bool,
    /// Whether data waits for the peer's receive window.
    pub(crate) awaits_window: bool,
    /// How often the oldest segment without an answer was sent again: of a connect, its SYN.
    pub(crate) resends: u8,
}

/// The counters of a connection since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TcpCounters {
    /// Bytes of data that were sent, each counted once.
    pub(crate) sent: u64,
    /// Bytes of data that were received, each counted once, and one for the peer's end of the connection.
    pub(crate) received: u64,
    /// Bytes of data that were sent again.
    pub(crate) resent: u64,
    /// Segments that were sent again, also those of the handshake.
    pub(crate) resent_segments: u64,
    /// Nanoseconds for which data waited for the peer's receive window.
    pub(crate) window_wait_ns: u64,
    /// Nanoseconds for which the connection was open between two readings; 0 in a reading, the kernel has no such counter.
    pub(crate) open_ns: u64,
}

impl TcpSocket {
    pub(crate) fn is_listening(&self) -> bool {
        self.state == LISTEN
    }

    /// Returns whether it connects, and has no answer yet.
    pub(crate) fn is_connecting(&self) -> bool {
        self.state == SYN_SENT
    }
}

impl TcpCounters {
    /// Returns the growth since earlier values.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
            resent: self.resent.saturating_sub(before.resent),
            resent_segments: self.resent_segments.saturating_sub(before.resent_segments),
            window_wait_ns: self.window_wait_ns.saturating_sub(before.window_wait_ns),
            open_ns: self.open_ns.saturating_sub(before.open_ns),
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.received = self.received.saturating_add(other.received);
        self.resent = self.resent.saturating_add(other.resent);
        self.resent_segments = self.resent_segments.saturating_add(other.resent_segments);
        self.window_wait_ns = self.window_wait_ns.saturating_add(other.window_wait_ns);
        self.open_ns = self.open_ns.saturating_add(other.open_ns);
    }

    /// Reads a `tcp_info`.
    fn of(bytes: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let resent = number(info::BYTES_RESENT).unwrap_or(0);
        let sent = number(info::BYTES_SENT).map(|sent| sent.saturating_sub(resent));
        Some(Self {
            sent: sent.or_else(|| number(info::BYTES_ACKED))?,
            received: number(info::BYTES_RECEIVED)?,
            resent,
            resent_segments: word(bytes, info::SEGMENTS_RESENT).map_or(0, u64::from),
            window_wait_ns: number(info::WINDOW_LIMITED).unwrap_or(0).saturating_mul(1000),
            open_ns: 0,
        })
    }
}

/// Reads the sockets that ended from a subscription. Returns whether the kernel dropped some.
pub(super) fn read_ended(subscription: &OwnedFd, namespace: u64, most: usize, all: &mut Vec<TcpSocket>) -> bool {
    let (mut buffer, mut has_lost) = (vec![0u8; 1 << 13], false);
    for _ in 0..MAX_MESSAGES {
        if all.len() >= most {
            break;
        }
        match receive(subscription, &mut buffer) {
            Ok(Some(len)) => {
                let read = read_messages(&buffer[..len], &mut |body| {
                    all.extend(tcp_socket(body, namespace));
                    true
                });
                has_lost |= read.is_err();
            }
            Ok(None) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOBUFS) => has_lost = true,
                Some(libc::EINTR) => {}
                errno => return has_lost || errno != Some(libc::EAGAIN),
            },
        }
    }
    has_lost
}

/// The `tcp_info` and the memory figures of each socket.
pub(super) const FIGURES: u8 = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_SKMEMINFO - 1);
/// `TCP_SYN_RECV`, `TCP_TIME_WAIT` and `TCP_NEW_SYN_RECV`: no process has these sockets, and there may be very many.
const HALF: u32 = 1 << 3 | 1 << 6 | 1 << 12;

/// The states of sockets that a process may have.
pub(super) const OF_PROCESSES: u32 = !HALF;

/// Makes a request for the sockets of a family and protocol in a set of states, with extensions such as [`FIGURES`].
pub(super) fn inet_request(family: i32, protocol: i32, states: u32, extensions: u8) -> Vec<u8> {
    let mut request = vec![family as u8, protocol as u8, extensions, 0];
    request.extend(states.to_ne_bytes());
    request.resize(56, 0);
    message(&request)
}

/// The ends and the inode of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InetSocket {
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) inode: u32,
}

/// Reads the head of an `inet_diag_msg`.
pub(super) fn inet_socket(body: &[u8]) -> Option<InetSocket> {
    let head = body.get(..DIAG_MESSAGE)?;
    let ports = [4, 6].map(|at| u16::from_be_bytes([head[at], head[at + 1]]));
    let ip = |at: usize| match i32::from(head[0]) {
        libc::AF_INET => Some(IpAddr::from(Ipv4Addr::from(*head.get(at..)?.first_chunk::<4>()?))),
        _ => Some(Ipv6Addr::from(*head.get(at..)?.first_chunk::<16>()?).into()).map(|ip: IpAddr| ip.to_canonical()),
    };
    let (local, peer) = (SocketAddr::new(ip(8)?, ports[0]), SocketAddr::new(ip(24)?, ports[1]));
    Some(InetSocket { local, peer, inode: word(head, 68)? })
}

/// Reads an `inet_diag_msg` and its attributes.
pub(super) fn tcp_socket(body: &[u8], namespace: u64) -> Option<TcpSocket> {
    let InetSocket { local, peer, inode } = inet_socket(body)?;
    let (head, rest) = body.split_at_checked(DIAG_MESSAGE)?;
    let mut socket = TcpSocket {
        local,
        peer,
        state: head[1],
        inode,
        namespace,
        read_at: monotonic_ns(),
        cookie: u64::from(word(head, 44)?) | u64::from(word(head, 48)?) << 32,
        queue: [word(head, 56)?, word(head, 60)?],
        drops: 0,
        rtt: [0; 2],
        counters: None,
        is_peer_full: false,
        is_full: false,
        awaits_window: head[2] == PROBE_TIMER,
        resends: if head[2] == RETRANSMIT_TIMER { head[3] } else { 0 },
    };
    for (kind, value) in attributes(rest) {
        match kind {
            INET_DIAG_INFO if socket.state != LISTEN => {
                socket.rtt = [info::RTT, info::RTT_VARIANCE].map(|at| word(value, at).unwrap_or(0));
                socket.counters = TcpCounters::of(value);
                socket.is_peer_full = word(value, info::SEND_WINDOW) == Some(0);
                socket.is_full = word(value, info::RECEIVE_WINDOW) == Some(0);
            }
            INET_DIAG_SKMEMINFO => socket.drops = word(value, DROPS_AT).unwrap_or(0),
            _ => {}
        }
    }
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::machine::sock_diag::SocketListError;

    #[test]
    fn damaged_messages_are_left_out() {
        let mut body = vec![libc::AF_INET as u8, 1, PROBE_TIMER, 2, 0, 80, 0x9c, 0x40];
        body.resize(DIAG_MESSAGE, 0);
        body[8..12].copy_from_slice(&[10, 0, 0, 1]);
        body[24..28].copy_from_slice(&[10, 0, 3, 7]);
        body[44..52].copy_from_slice(&0x1_0000_0002u64.to_ne_bytes());
        let mut info = vec![0; 232];
        info[info::RTT..][..4].copy_from_slice(&900u32.to_ne_bytes());
        info[info::SEGMENTS_RESENT..][..4].copy_from_slice(&3u32.to_ne_bytes());
        for (at, value) in [
            (info::BYTES_RECEIVED, 70),
            (info::WINDOW_LIMITED, 5),
            (info::BYTES_SENT, 1100),
            (info::BYTES_RESENT, 100u64),
        ] {
            info[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let mut attribute = [236u16.to_ne_bytes(), INET_DIAG_INFO.to_ne_bytes()].concat();
        attribute.extend(info);
        body.extend(attribute);
        let message = message(&body);
        let read = |bytes: &[u8]| {
            let mut all = Vec::new();
            let more = read_messages(bytes, &mut |body| {
                all.extend(tcp_socket(body, 7));
                true
            });
            (more, all)
        };
        let (more, all) = read(&message);
        assert_eq!((more, read(&[]).0), (Ok(true), Ok(true)));
        let [only] = all[..] else { panic!("{all:?}") };
        assert_eq!((only.local.to_string(), only.peer.to_string()), ("10.0.0.1:80".into(), "10.0.3.7:40000".into()));
        assert_eq!((only.rtt, only.cookie, only.is_peer_full), ([900, 0], 0x1_0000_0002, true));
        assert_eq!((only.is_full, only.awaits_window, only.resends), (false, true, 0));
        let connecting = [&[libc::AF_INET as u8, SYN_SENT, RETRANSMIT_TIMER, 3][..], &body[4..]].concat();
        let connecting = tcp_socket(&connecting, 7).expect("a socket");
        assert!(connecting.is_connecting() && !connecting.awaits_window, "{connecting:?}");
        assert_eq!(connecting.resends, 3);
        let (sent, received, resent, resent_segments) = (1000, 70, 100, 3);
        let counters = TcpCounters { sent, received, resent, resent_segments, window_wait_ns: 5000, open_ns: 0 };
        assert_eq!(only.counters, Some(counters));
        assert_eq!(only.namespace, 7);
        for len in 1..message.len() {
            assert_eq!(read(&message[..len]), (Err(SocketListError::Truncated), Vec::new()), "{len}");
        }
        for at in 0..message.len() {
            let mut damaged = message.clone();
            damaged[at] ^= 0xff;
            // It may have any result, but returns.
            let _ = read(&damaged);
        }
    }

    /// Kernels before 4.19 do not count what is sent again.
    #[test]
    fn older_kernels_have_fewer_counters() {
        let mut info = vec![0; 192];
        info[info::BYTES_ACKED..][..8].copy_from_slice(&50u64.to_ne_bytes());
        assert_eq!(TcpCounters::of(&info), Some(TcpCounters { sent: 50, ..TcpCounters::default() }));
        assert_eq!(TcpCounters::of(&info[..104]), None);
    }
}
