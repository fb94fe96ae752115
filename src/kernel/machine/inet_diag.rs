//! The kernel's socket monitoring (sock_diag(7)): requests, dumps, subscriptions, and its messages about TCP sockets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::kernel::monotonic_ns;

/// `TCP_LISTEN` (include/net/tcp_states.h).
pub(super) const LISTEN: u8 = 10;
/// `TCP_SYN_SENT`.
const SYN_SENT: u8 = 2;
/// Values of `idiag_timer`: the oldest segment is sent again, or the peer's zero window is probed, when it expires.
const RETRANSMIT_TIMER: u8 = 1;
const PROBE_TIMER: u8 = 4;

// linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const MESSAGE_HEADER: usize = 16;
const DIAG_MESSAGE: usize = 72;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
/// The groups of `SKNLGRP_INET_TCP_DESTROY` and `SKNLGRP_INET6_TCP_DESTROY`.
const ENDS_OF_TCP: u32 = 1 | 1 << 2;
/// Bytes of messages about ended sockets that may wait.
const WAITING: libc::c_int = 4 << 20;
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

/// The reason why the kernel's list of sockets is missing or incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketListError {
    /// A system call failed.
    #[error("netlink: {}", system(.0))]
    Netlink(i32),
    /// The kernel answered with an error number.
    #[error("the kernel refuses to list sockets: {}{}", system(.0), remedy(.0))]
    Refused(i32),
    /// The answer has no end.
    #[error("the kernel's list of sockets ends early")]
    Truncated,
    /// The list has more sockets than are read.
    #[error("more than {0} sockets")]
    TooMany(usize),
    /// No thread could be started, which enters network namespaces.
    #[error("no thread can be started to list sockets")]
    Thread,
}

fn system(errno: &i32) -> io::Error {
    io::Error::from_raw_os_error(*errno)
}

fn remedy(errno: &i32) -> &'static str {
    if *errno == libc::ENOENT { " (load the modules tcp_diag, udp_diag and unix_diag)" } else { "" }
}

impl From<io::Error> for SocketListError {
    fn from(error: io::Error) -> Self {
        Self::Netlink(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

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

fn open(flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_DGRAM | flags, libc::NETLINK_SOCK_DIAG) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel returned the descriptor, which nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The kernel's address, or ours with groups of messages.
fn address(groups: u32) -> libc::sockaddr_nl {
    // SAFETY: all zeroes are a valid address, that of the kernel.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    address.nl_groups = groups;
    address
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends a request and passes the body of each answer to `take` until it returns `false`.
pub(super) fn dump(request: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), SocketListError> {
    let socket = open(libc::SOCK_CLOEXEC)?;
    let kernel = address(0);
    // Messages of other processes are refused from here on. SAFETY: the address is ours, with its size.
    let connected =
        unsafe { libc::connect(socket.as_raw_fd(), (&raw const kernel).cast(), size_of_val(&kernel) as u32) };
    succeeded(connected)?;
    rustix::io::write(&socket, request).map_err(io::Error::from)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        // SAFETY: the kernel writes at most the length of the buffer.
        let len = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let Ok(len) = usize::try_from(len) else { return Err(io::Error::last_os_error().into()) };
        if len == 0 {
            return Err(SocketListError::Truncated);
        }
        if !read_messages(&buffer[..len], take)? {
            return Ok(());
        }
    }
}

/// Subscribes to the ends of TCP sockets in the thread's network namespace.
pub(super) fn subscribe() -> io::Result<OwnedFd> {
    let socket = open(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)?;
    let fd = socket.as_raw_fd();
    for option in [libc::SO_RCVBUFFORCE, libc::SO_RCVBUF] {
        let size = WAITING;
        // SAFETY: the value is an integer of this size.
        let set = unsafe {
            libc::setsockopt(fd, libc::SOL_SOCKET, option, (&raw const size).cast(), size_of_val(&size) as u32)
        };
        if set == 0 {
            break;
        }
    }
    let groups = address(ENDS_OF_TCP);
    // SAFETY: the address is ours, with its size.
    succeeded(unsafe { libc::bind(fd, (&raw const groups).cast(), size_of_val(&groups) as u32) })?;
    Ok(socket)
}

/// Reads the sockets that ended from a subscription. Returns whether the kernel dropped some.
pub(super) fn read_ended(subscription: &OwnedFd, namespace: u64, most: usize, all: &mut Vec<TcpSocket>) -> bool {
    let (mut buffer, mut has_lost) = (vec![0u8; 1 << 13], false);
    for _ in 0..MAX_MESSAGES {
        if all.len() >= most {
            break;
        }
        let mut from = address(0);
        let mut size = size_of_val(&from) as u32;
        // SAFETY: the kernel writes at most the length of the buffer, and at most `size` bytes of the address.
        let len = unsafe {
            let (data, from) = (buffer.as_mut_ptr().cast(), (&raw mut from).cast());
            libc::recvfrom(subscription.as_raw_fd(), data, buffer.len(), 0, from, &raw mut size)
        };
        match usize::try_from(len) {
            // Other processes may send messages, too.
            Ok(len) if from.nl_pid == 0 => {
                let read = read_messages(&buffer[..len], &mut |body| {
                    all.extend(tcp_socket(body, namespace));
                    true
                });
                has_lost |= read.is_err();
            }
            Ok(_) => {}
            Err(_) => match io::Error::last_os_error().raw_os_error() {
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

/// Makes a request for the sockets of a family and protocol that a process may have, with extensions such as [`FIGURES`].
pub(super) fn inet_request(family: i32, protocol: i32, extensions: u8) -> Vec<u8> {
    let mut request = vec![family as u8, protocol as u8, extensions, 0];
    request.extend((!HALF).to_ne_bytes());
    request.resize(56, 0);
    message(&request)
}

/// Makes a message that requests a dump.
pub(super) fn message(request: &[u8]) -> Vec<u8> {
    let mut message = ((MESSAGE_HEADER + request.len()) as u32).to_ne_bytes().to_vec();
    message.extend([SOCK_DIAG_BY_FAMILY, REQUEST_DUMP].iter().flat_map(|word| word.to_ne_bytes()));
    message.extend([0; 8]);
    message.extend(request);
    message
}

fn word16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads the messages of a buffer. Returns `false` after the last message, or if `take` returned `false`.
fn read_messages(mut bytes: &[u8], take: &mut dyn FnMut(&[u8]) -> bool) -> Result<bool, SocketListError> {
    while !bytes.is_empty() {
        let (Some(len), Some(kind)) = (word(bytes, 0), word16(bytes, 4)) else {
            return Err(SocketListError::Truncated);
        };
        let body = bytes.get(MESSAGE_HEADER..len as usize).ok_or(SocketListError::Truncated)?;
        if matches!(kind, NLMSG_DONE | NLMSG_ERROR) {
            // Both begin with the negative error number of the request, or 0.
            let errno = word(body, 0).unwrap_or(0).cast_signed().unsigned_abs().cast_signed();
            return if errno == 0 { Ok(false) } else { Err(SocketListError::Refused(errno)) };
        }
        if !take(body) {
            return Ok(false);
        }
        bytes = bytes.get((len as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

/// Iterates over attributes: their types and values.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind) = (usize::from(word16(rest, 0)?), word16(rest, 2)?);
        let value = rest.get(4..len)?;
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
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

    /// Makes a message about a socket, as the kernel does.
    fn message_about(body: &[u8]) -> Vec<u8> {
        let mut message = ((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message.resize(MESSAGE_HEADER, 0);
        message.extend(body);
        message
    }

    #[test]
    fn messages_of_other_processes_are_ignored() {
        const COOKIE: u64 = 0x5eed_5eed_5eed;
        let subscription = subscribe().expect("a subscription");
        let (mut own, mut size) = (address(0), size_of::<libc::sockaddr_nl>() as u32);
        // SAFETY: the kernel writes at most `size` bytes of the address.
        let named = unsafe { libc::getsockname(subscription.as_raw_fd(), (&raw mut own).cast(), &raw mut size) };
        succeeded(named).expect("an address");
        let mut body = vec![libc::AF_INET as u8, 7, 0, 0];
        body.resize(DIAG_MESSAGE, 0);
        body[44..52].copy_from_slice(&COOKIE.to_ne_bytes());
        assert_eq!(tcp_socket(&body, 7).map(|socket| socket.cookie), Some(COOKIE));
        let (message, other) = (message_about(&body), open(libc::SOCK_CLOEXEC).expect("a socket"));
        own.nl_groups = 0;
        // SAFETY: the message and the address are ours, with their sizes.
        let sent = unsafe {
            let (data, to) = (message.as_ptr().cast(), (&raw const own).cast());
            libc::sendto(other.as_raw_fd(), data, message.len(), 0, to, size)
        };
        assert_eq!(usize::try_from(sent), Ok(message.len()));
        let mut all = Vec::new();
        read_ended(&subscription, 7, usize::MAX, &mut all);
        assert!(all.iter().all(|socket: &TcpSocket| socket.cookie != COOKIE));
    }

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
        let message = message_about(&body);
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

    /// The kernel answers a request that it refuses, and a dump that fails, with an error number.
    #[test]
    fn a_refused_request_is_an_error() {
        let answer = |kind: u16, errno: Option<i32>| {
            let body: Vec<u8> = errno.into_iter().flat_map(i32::to_ne_bytes).collect();
            let mut message = ((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
            message.extend(kind.to_ne_bytes());
            message.resize(MESSAGE_HEADER, 0);
            message.extend(body);
            read_messages(&message, &mut |_| true)
        };
        for kind in [NLMSG_ERROR, NLMSG_DONE] {
            assert_eq!(answer(kind, Some(-libc::EPERM)), Err(SocketListError::Refused(libc::EPERM)));
            assert_eq!([Some(0), None].map(|errno| answer(kind, errno)), [Ok(false); 2]);
            assert!(answer(kind, Some(i32::MIN)).is_err());
        }
        // No protocol has this number.
        let refused = dump(&inet_request(libc::AF_INET, 250, 0), &mut |_| true);
        assert!(matches!(refused, Err(SocketListError::Refused(_))), "{refused:?}");
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
