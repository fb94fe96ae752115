//! TCP sockets of all network namespaces, from the kernel's socket monitoring (sock_diag(7)).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use rustc_hash::FxHashMap;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::kernel::{self, procfs};

/// `TCP_LISTEN` (include/net/tcp_states.h).
const LISTEN: u8 = 10;

/// The limit of sockets of one look.
const MOST: usize = 1 << 18;
/// The limit of network namespaces.
const MOST_NAMESPACES: usize = 1 << 10;
/// The time limit for finding the owners.
const PATIENCE: Duration = Duration::from_millis(300);

// linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const REQUEST_DUMP: u16 = 0x301;
const MESSAGE_HEADER: usize = 16;
const DIAG_MESSAGE: usize = 72;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
/// Offsets in `struct tcp_info`, and the index of the drops in `SK_MEMINFO`.
const RTT_AT: usize = 68;
const RTT_VARIANCE_AT: usize = 72;
const DROPS_AT: usize = 8 * 4;

/// A TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) state: u8,
    pub(crate) inode: u32,
    /// For a listening socket, the connections that wait to be accepted, and their limit.
    pub(crate) queue: [u32; 2],
    /// For a listening socket, the connections that were dropped since it was made.
    pub(crate) drops: u32,
    /// The smoothed round-trip time and its variance in microseconds; 0 if unknown.
    pub(crate) rtt: [u32; 2],
}

/// Returns the sockets of all network namespaces that this process may enter.
pub(crate) fn tcp_sockets() -> Vec<TcpSocket> {
    // A thread that enters a namespace stays there.
    std::thread::scope(|scope| {
        let apart = kernel::scoped_thread(scope, "sockets", sockets_of_namespaces);
        apart.map(ScopedJoinHandle::join).ok().and_then(Result::ok).unwrap_or_default()
    })
}

fn sockets_of_namespaces() -> Vec<TcpSocket> {
    let mut all = of_this_namespace().unwrap_or_default();
    let own = fs::read_link("/proc/thread-self/ns/net").ok();
    for (name, pid) in namespaces() {
        if Some(&name) == own.as_ref() || all.len() >= MOST {
            continue;
        }
        let entered = fs::File::open(format!("/proc/{pid}/ns/net"))
            .is_ok_and(|file| move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).is_ok());
        if entered {
            all.extend(of_this_namespace().unwrap_or_default());
        }
    }
    all
}

/// Returns a process of each network namespace.
fn namespaces() -> BTreeMap<std::path::PathBuf, i32> {
    let mut found = BTreeMap::new();
    for pid in procfs::processes() {
        if found.len() < MOST_NAMESPACES
            && let Ok(name) = fs::read_link(format!("/proc/{pid}/ns/net"))
        {
            found.entry(name).or_insert(pid);
        }
    }
    found
}

fn of_this_namespace() -> io::Result<Vec<TcpSocket>> {
    let mut all = Vec::new();
    for family in [libc::AF_INET as u8, libc::AF_INET6 as u8] {
        dump(family, &mut all)?;
    }
    Ok(all)
}

fn dump(family: u8, all: &mut Vec<TcpSocket>) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel returned the descriptor, which nothing else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all zeroes are a valid address, that of the kernel.
    let mut kernel: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    kernel.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    // Messages of other processes are refused from here on. SAFETY: the address is ours, with its size.
    let connected = unsafe { libc::connect(fd, (&raw const kernel).cast(), size_of_val(&kernel) as u32) };
    if connected < 0 {
        return Err(io::Error::last_os_error());
    }
    rustix::io::write(&socket, &request(family))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        // SAFETY: the kernel writes at most the length of the buffer.
        let len = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let Ok(len) = usize::try_from(len) else { return Err(io::Error::last_os_error()) };
        if len == 0 || !read_messages(&buffer[..len], all) || all.len() >= MOST {
            return Ok(());
        }
    }
}

/// Requests all sockets of a family with their `tcp_info` and memory figures.
fn request(family: u8) -> Vec<u8> {
    let extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_SKMEMINFO - 1);
    let mut request = vec![family, libc::IPPROTO_TCP as u8, extensions, 0];
    request.extend(u32::MAX.to_ne_bytes());
    request.resize(56, 0);
    let mut message = ((MESSAGE_HEADER + request.len()) as u32).to_ne_bytes().to_vec();
    message.extend([SOCK_DIAG_BY_FAMILY, REQUEST_DUMP].iter().flat_map(|word| word.to_ne_bytes()));
    message.extend([0; 8]);
    message.extend(request);
    message
}

fn word16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Reads the messages of a buffer. Returns `false` after the last message or an error.
fn read_messages(mut bytes: &[u8], all: &mut Vec<TcpSocket>) -> bool {
    while let (Some(len), Some(kind)) = (word(bytes, 0), word16(bytes, 4)) {
        let Some(body) = bytes.get(MESSAGE_HEADER..len as usize) else { return false };
        if matches!(kind, NLMSG_DONE | NLMSG_ERROR) {
            return false;
        }
        all.extend(socket(body));
        bytes = bytes.get((len as usize).next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

/// Reads an `inet_diag_msg` and its attributes.
fn socket(body: &[u8]) -> Option<TcpSocket> {
    let (head, attributes) = body.split_at_checked(DIAG_MESSAGE)?;
    let ports = [4, 6].map(|at| u16::from_be_bytes([head[at], head[at + 1]]));
    let ip = |at: usize| match i32::from(head[0]) {
        libc::AF_INET => Some(IpAddr::from(Ipv4Addr::from(*head.get(at..)?.first_chunk::<4>()?))),
        _ => Some(Ipv6Addr::from(*head.get(at..)?.first_chunk::<16>()?).into()).map(|ip: IpAddr| ip.to_canonical()),
    };
    let state = head[1];
    let mut socket = TcpSocket {
        local: SocketAddr::new(ip(8)?, ports[0]),
        peer: SocketAddr::new(ip(24)?, ports[1]),
        state,
        inode: word(head, 68)?,
        queue: [word(head, 56)?, word(head, 60)?],
        drops: 0,
        rtt: [0; 2],
    };
    let mut rest = attributes;
    while let (Some(len), Some(kind)) = (word16(rest, 0), word16(rest, 2)) {
        let Some(value) = rest.get(4..usize::from(len)) else { break };
        match kind {
            INET_DIAG_INFO if state != LISTEN => {
                socket.rtt = [RTT_AT, RTT_VARIANCE_AT].map(|at| word(value, at).unwrap_or(0));
            }
            INET_DIAG_SKMEMINFO => socket.drops = word(value, DROPS_AT).unwrap_or(0),
            _ => {}
        }
        rest = rest.get(usize::from(len).next_multiple_of(4)..).unwrap_or_default();
    }
    Some(socket)
}

/// Returns a process for each socket by its inode, from the open files of all processes.
pub(crate) fn socket_owners() -> FxHashMap<u32, i32> {
    let mut owners = FxHashMap::default();
    for (pid, _, link) in procfs::open_files(PATIENCE) {
        let inode = link.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')?.parse::<u32>().ok());
        if let Some(inode) = inode {
            owners.entry(inode).or_insert(pid);
        }
    }
    owners
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn own_sockets_are_found_with_their_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let client = TcpStream::connect(at).expect("connects");
        let all = tcp_sockets();
        let listening = all.iter().find(|socket| socket.local == at && socket.state == LISTEN).expect("listens");
        assert_eq!(listening.queue[0], 1, "the connection waits to be accepted");
        assert!(listening.queue[1] > 0);
        let local = client.local_addr().expect("an address");
        let ours = all.iter().find(|socket| socket.local == local && socket.peer == at).expect("connected");
        assert!(ours.state == 1 && ours.rtt[0] > 0, "{ours:?}");
        let owners = socket_owners();
        let pid = std::process::id() as i32;
        assert_eq!([listening, ours].map(|socket| owners.get(&socket.inode).copied()), [Some(pid); 2]);
    }

    #[test]
    fn a_full_queue_drops_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        // SAFETY: no memory is passed; the queue of the socket gets room for one connection.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let connect = || TcpStream::connect_timeout(&at, std::time::Duration::from_millis(200));
        let _clients: Vec<_> = (0..3).map(|_| connect()).collect();
        let found = tcp_sockets().into_iter().find(|socket| socket.local == at && socket.state == LISTEN);
        let found = found.expect("listens");
        assert!(found.drops > 0 && found.queue[0] > found.queue[1], "{found:?}");
    }

    #[test]
    fn damaged_messages_are_left_out() {
        let mut body = vec![libc::AF_INET as u8, 1, 0, 0, 0, 80, 0x9c, 0x40];
        body.resize(DIAG_MESSAGE, 0);
        body[8..12].copy_from_slice(&[10, 0, 0, 1]);
        body[24..28].copy_from_slice(&[10, 0, 3, 7]);
        let mut info = vec![0; 80];
        info[RTT_AT..RTT_AT + 4].copy_from_slice(&900u32.to_ne_bytes());
        let mut attribute = [84u16.to_ne_bytes(), INET_DIAG_INFO.to_ne_bytes()].concat();
        attribute.extend(info);
        body.extend(attribute);
        let mut message = ((MESSAGE_HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message.resize(MESSAGE_HEADER, 0);
        message.extend(body);
        let read = |bytes: &[u8]| {
            let mut all = Vec::new();
            (read_messages(bytes, &mut all), all)
        };
        let (more, all) = read(&message);
        assert!(more);
        let [only] = all[..] else { panic!("{all:?}") };
        assert_eq!((only.local.to_string(), only.peer.to_string()), ("10.0.0.1:80".into(), "10.0.3.7:40000".into()));
        assert_eq!(only.rtt, [900, 0]);
        for len in 0..message.len() {
            assert_eq!(read(&message[..len]).1, [], "{len}");
        }
        for at in 0..message.len() {
            let mut damaged = message.clone();
            damaged[at] ^= 0xff;
            read(&damaged);
        }
    }
}
