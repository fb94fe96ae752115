//! The other ends of the machine's sockets and pipes, by inode.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::{procfs, thread_cpu_ns};

use super::inet_diag::{self, InetSocket};
use super::sock_diag::{self, SocketListError};
use super::sockets::{in_all_namespaces, in_namespace_of};

/// The limit of sockets, and that of pipes.
const MOST: usize = 1 << 18;
/// The limit of processes at the ends of a pipe.
const MOST_ENDS: usize = 64;

/// The limit of descriptors of a process whose epolls are read: the kernel locks an epoll while it lists them.
const MOST_SLOTS: u64 = 1 << 12;

// linux/unix_diag.h.
const UNIX_MESSAGE: usize = 16;
const SHOW_NAME_AND_PEER: u32 = 1 | 1 << 2;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_PEER: u16 = 2;

/// The other ends of sockets, and the processes at the ends of pipes.
#[derive(Clone, Debug, Default)]
pub struct OtherEnds {
    pub(crate) sockets: FxHashMap<u64, String>,
    /// The other socket of each unix socket without a name.
    peers: FxHashMap<u64, u64>,
    /// A process of each socket.
    owners: FxHashMap<u64, i32>,
    /// The readers and writers of each pipe.
    pub(crate) pipes: FxHashMap<u64, Vec<PipeEnd>>,
    /// Why sockets are missing, if any are.
    pub(crate) failure: Option<SocketListError>,
    /// CPU time of the search: on a busy machine, it takes much longer.
    pub(crate) cost: Duration,
}

impl OtherEnds {
    /// Adds a process that has a socket open, up to a limit of sockets.
    fn add_owner(&mut self, inode: u64, pid: i32) {
        if self.owners.len() < MOST {
            self.owners.entry(inode).or_insert(pid);
        }
    }

    /// Adds a process at an end of a pipe, up to a limit of pipes and of their ends.
    fn add_end(&mut self, inode: u64, end: PipeEnd) {
        if self.pipes.len() >= MOST && !self.pipes.contains_key(&inode) {
            return;
        }
        let ends = self.pipes.entry(inode).or_default();
        if ends.len() < MOST_ENDS && !ends.contains(&end) {
            ends.push(end);
        }
    }

    /// Returns a process that has the other end of a unix socket without a name.
    pub(crate) fn process_of_peer(&self, inode: u64) -> Option<i32> {
        self.owners.get(self.peers.get(&inode)?).copied()
    }
}

/// A process at an end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PipeEnd {
    pub(crate) pid: i32,
    pub(crate) writes: bool,
}

/// Returns the other ends of all sockets and pipes, searching the open files of processes for a limited CPU time.
pub(crate) fn other_ends(patience: Duration) -> OtherEnds {
    let begun = thread_cpu_ns();
    let SocketNames { names, peers, failure, cost } = sockets();
    let mut found = OtherEnds { sockets: names, peers, failure, ..OtherEnds::default() };
    for (pid, fd, link) in procfs::open_files(patience) {
        if let Some(inode) = inode_of(&link, "socket") {
            found.add_owner(inode, pid);
        }
        if let Some(inode) = inode_of(&link, "pipe") {
            found.add_end(inode, PipeEnd { pid, writes: writes(pid, fd) });
        }
    }
    found.cost = cost + Duration::from_nanos(thread_cpu_ns().saturating_sub(begun));
    found
}

/// Returns the inode of a link in /proc/PID/fd to a `socket` or `pipe`.
pub(crate) fn inode_of(link: &str, kind: &str) -> Option<u64> {
    link.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
}

/// Returns whether a descriptor is open for writing only, from the mode of its link.
pub(crate) fn writes(pid: i32, fd: i32) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let link = fs::symlink_metadata(Path::new("/proc").join(pid.to_string()).join("fd").join(fd.to_string()));
    link.is_ok_and(|link| link.permissions().mode() & 0o600 == 0o200)
}

/// Returns the descriptors that an epoll waits for; none for a process that may have very many.
pub(crate) fn polled(pid: i32, fd: i32) -> Vec<i32> {
    if procfs::descriptor_slots(pid).is_none_or(|slots| slots > MOST_SLOTS) {
        return Vec::new();
    }
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let polled = |line: &str| line.strip_prefix("tfd:")?.split_whitespace().next()?.parse().ok();
    text.lines().filter_map(polled).collect()
}

/// Names of sockets, and the other sockets of unix sockets without one.
#[derive(Debug, Default)]
struct SocketNames {
    names: FxHashMap<u64, String>,
    peers: FxHashMap<u64, u64>,
    failure: Option<SocketListError>,
    /// CPU time of the thread that enters network namespaces.
    cost: Duration,
}

fn sockets() -> SocketNames {
    in_all_namespaces(|SocketNames { names: all, peers, failure, cost }: &mut SocketNames| {
        let begun = thread_cpu_ns();
        for (family, protocol) in [
            (libc::AF_INET, libc::IPPROTO_TCP),
            (libc::AF_INET6, libc::IPPROTO_TCP),
            (libc::AF_INET, libc::IPPROTO_UDP),
            (libc::AF_INET6, libc::IPPROTO_UDP),
        ] {
            let request = inet_diag::inet_request(family, protocol, inet_diag::OF_PROCESSES, 0);
            let listed = sock_diag::dump(&request, &mut |body| {
                let named = inet_diag::inet_socket(body).and_then(|of| Some((u64::from(of.inode), inet_name(&of)?)));
                all.extend(named);
                all.len() < MOST
            });
            *failure = failure.or(listed.err());
        }
        let mut unix = Vec::new();
        let listed = sock_diag::dump(&unix_request(u32::MAX), &mut |body| {
            unix.extend(unix_socket(body));
            unix.len() < MOST
        });
        *failure = failure.or(listed.err());
        all.extend(unix_names(&unix).take(MOST.saturating_sub(all.len())));
        let unnamed = unix.iter().filter(|socket| !all.contains_key(&u64::from(socket.inode)));
        let of_unnamed = unnamed.filter_map(|socket| Some((u64::from(socket.inode), u64::from(socket.peer?))));
        let room = MOST.saturating_sub(peers.len());
        peers.extend(of_unnamed.take(room));
        if [all.len(), peers.len(), unix.len()].iter().any(|n| *n >= MOST) {
            failure.get_or_insert(SocketListError::TooMany(MOST));
        }
        *cost += Duration::from_nanos(thread_cpu_ns().saturating_sub(begun));
    })
    .unwrap_or_else(|failure| SocketNames { failure: Some(failure), ..SocketNames::default() })
}

/// Names a socket by its peer, or by its own address if it does not have one.
fn inet_name(of: &InetSocket) -> Option<String> {
    let is_set = |address: &SocketAddr| address.port() != 0;
    let own = || format!("port {}", of.local);
    if is_set(&of.peer) { Some(of.peer.to_string()) } else { is_set(&of.local).then(own) }
}

/// Returns whether a process listens for connections, on TCP or on unix sockets.
pub(crate) fn listens(pid: i32) -> bool {
    let links = procfs::descriptor_links(pid).take(MOST_SLOTS as usize);
    let own: FxHashSet<u64> = links.filter_map(|(_, link)| inode_of(&link, "socket")).collect();
    if own.is_empty() {
        return false;
    }
    let found = in_namespace_of(pid, |is_found: &mut bool| {
        let listening = 1 << inet_diag::LISTEN;
        let inet = [libc::AF_INET, libc::AF_INET6]
            .map(|family| inet_diag::inet_request(family, libc::IPPROTO_TCP, listening, 0));
        let of_inet: fn(&[u8]) -> Option<u32> = |body| inet_diag::inet_socket(body).map(|of| of.inode);
        let of_unix: fn(&[u8]) -> Option<u32> = |body| sock_diag::word(body, 4);
        // Without the kernel's modules for that, nothing is known to listen.
        let unix = unix_request(listening);
        for (request, inode_of) in inet.iter().map(|one| (one, of_inet)).chain([(&unix, of_unix)]) {
            let mut look = |body: &[u8]| {
                *is_found |= inode_of(body).is_some_and(|inode| own.contains(&inode.into()));
                !*is_found
            };
            _ = sock_diag::dump(request, &mut look);
        }
    });
    found.unwrap_or_default()
}

/// Makes a request for the unix sockets in a set of states.
fn unix_request(states: u32) -> Vec<u8> {
    let mut request = vec![libc::AF_UNIX as u8, 0, 0, 0];
    for word in [states, 0, SHOW_NAME_AND_PEER, u32::MAX, u32::MAX] {
        request.extend(word.to_ne_bytes());
    }
    sock_diag::message(&request)
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct UnixSocket {
    inode: u32,
    name: Option<String>,
    peer: Option<u32>,
}

/// Reads a `unix_diag_msg` and its attributes.
fn unix_socket(body: &[u8]) -> Option<UnixSocket> {
    let (head, rest) = body.split_at_checked(UNIX_MESSAGE)?;
    let mut socket = UnixSocket { inode: sock_diag::word(head, 4)?, ..UnixSocket::default() };
    for (kind, value) in sock_diag::attributes(rest) {
        match kind {
            UNIX_DIAG_NAME => socket.name = unix_name(value),
            UNIX_DIAG_PEER => socket.peer = sock_diag::word(value, 0),
            _ => {}
        }
    }
    Some(socket)
}

/// Returns the name of a socket: its path, or for one without a file, its name after `@`. `None` if it is empty.
pub(crate) fn unix_name(bytes: &[u8]) -> Option<String> {
    let (mark, name) = match bytes {
        [] => return None,
        [0, name @ ..] => ("@", name),
        name => ("", name.split(|byte| *byte == 0).next().unwrap_or_default()),
    };
    (!name.is_empty()).then(|| format!("{mark}{}", String::from_utf8_lossy(name)))
}

/// Names each socket by its peer's name or by its own: of a connection, only the listening end has one.
fn unix_names(all: &[UnixSocket]) -> impl Iterator<Item = (u64, String)> + '_ {
    let names: FxHashMap<u32, &str> =
        all.iter().filter_map(|socket| Some((socket.inode, socket.name.as_deref()?))).collect();
    all.iter().filter_map(move |socket| {
        let peers = socket.peer.and_then(|peer| names.get(&peer).copied());
        Some((u64::from(socket.inode), format!("unix:{}", peers.or(socket.name.as_deref())?)))
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn inode(of: &impl AsRawFd) -> u64 {
        fs::metadata(format!("/proc/self/fd/{}", of.as_raw_fd())).expect("open").ino()
    }

    #[test]
    fn sockets_and_pipes_have_their_other_ends() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let client = std::net::TcpStream::connect(at).expect("connects");
        let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
        udp.connect("127.0.0.1:9").expect("connects");
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("named");
        let unix = UnixListener::bind(&path).expect("bound");
        let connected = UnixStream::connect(&path).expect("connects");
        let _accepted = unix.accept().expect("accepts");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        assert!(listens(std::process::id() as i32));
        let found = other_ends(Duration::from_secs(60));
        let name = |inode: u64| found.sockets.get(&inode).cloned().unwrap_or_default();
        assert!(found.cost > Duration::ZERO);
        let of_path = format!("unix:{}", path.display());
        assert_eq!([name(inode(&client)), name(inode(&listener))], [at.to_string(), format!("port {at}")]);
        assert_eq!(name(inode(&udp)), "127.0.0.1:9");
        assert_eq!([name(inode(&unix)), name(inode(&connected))], [of_path.clone(), of_path]);
        let pid = std::process::id() as i32;
        let ends = &found.pipes[&inode(&reader)];
        assert!([true, false].iter().all(|writes| ends.contains(&PipeEnd { pid, writes: *writes })), "{ends:?}");
        assert_eq!([&reader as &dyn AsRawFd, &writer].map(|end| writes(pid, end.as_raw_fd())), [false, true]);
    }

    /// Processes may open any number of pipes and sockets, and share them with any number of others.
    #[test]
    fn pipes_and_owners_have_a_limit() {
        let mut found = OtherEnds::default();
        for number in 0..MOST as u64 + 9 {
            found.add_end(number, PipeEnd { pid: 1, writes: false });
            found.add_owner(number, 1);
        }
        for pid in 0..2 * MOST_ENDS as i32 {
            found.add_end(7, PipeEnd { pid, writes: true });
        }
        assert_eq!([found.pipes.len(), found.owners.len(), found.pipes[&7].len()], [MOST, MOST, MOST_ENDS]);
    }

    #[test]
    fn names_of_unix_sockets() {
        let names = [&b"/run/x.sock\0\0"[..], b"\0abstract", b"", b"\0", b"\0\0"].map(unix_name);
        assert_eq!(names, [Some("/run/x.sock".into()), Some("@abstract".into()), None, None, Some("@\0".into())]);
        let mut body = vec![libc::AF_UNIX as u8, 1, 1, 0];
        body.extend(7u32.to_ne_bytes());
        body.resize(UNIX_MESSAGE, 0);
        body.extend([8u16.to_ne_bytes(), UNIX_DIAG_PEER.to_ne_bytes()].concat());
        body.extend(9u32.to_ne_bytes());
        assert_eq!(unix_socket(&body), Some(UnixSocket { inode: 7, name: None, peer: Some(9) }));
        for len in 0..body.len() {
            let read = unix_socket(&body[..len]);
            assert!(read.is_none_or(|socket| socket.peer.is_none()), "{len}");
        }
        assert_eq!(
            [inode_of("pipe:[12]", "pipe"), inode_of("pipe:[x]", "pipe"), inode_of("/pipe:[1]", "pipe")],
            [Some(12), None, None]
        );
    }
}
