//! TCP sockets of all network namespaces, their counters, also at their end, and their owners.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use rustc_hash::FxHashMap;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::kernel::{self, procfs, thread_cpu_ns};

pub use super::inet_diag::{TcpCounters, TcpSocket};
pub use super::sock_diag::SocketListError;
use super::{inet_diag, sock_diag};

/// The limit of sockets of one look.
const MOST: usize = 1 << 18;
/// The limit of network namespaces.
const MOST_NAMESPACES: usize = 1 << 10;
/// The time limit for finding the owners.
const PATIENCE: Duration = Duration::from_millis(300);

/// Follows the TCP sockets of all network namespaces. It receives the counters that connections have at their end.
#[derive(Debug, Default)]
pub struct TcpMonitor {
    /// Subscriptions to the ends of sockets, by the link of a network namespace in /proc.
    subscriptions: BTreeMap<PathBuf, OwnedFd>,
    ended: Vec<TcpSocket>,
    /// Whether the kernel dropped messages about ends, or refused a subscription.
    has_lost: bool,
    /// Why sockets are missing in the last list.
    failure: Option<SocketListError>,
    /// CPU time of the last list.
    cost: Duration,
}

/// A copy makes its own subscriptions: nothing reads those of a unit that is kept for an undo.
impl Clone for TcpMonitor {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl TcpMonitor {
    /// Returns the sockets of all network namespaces that this process may enter.
    pub(crate) fn sockets(&mut self) -> Vec<TcpSocket> {
        self.failure = Some(SocketListError::Thread);
        // A thread that enters a namespace stays there.
        std::thread::scope(|scope| {
            let apart = kernel::scoped_thread(scope, "sockets", || self.sockets_of_namespaces());
            apart.map(ScopedJoinHandle::join).ok().and_then(Result::ok).unwrap_or_default()
        })
    }

    /// Returns why sockets are missing in the last list, if any are.
    pub(crate) fn failure(&self) -> Option<SocketListError> {
        self.failure
    }

    /// Returns the CPU time of the last list: on a busy machine, it takes much longer.
    pub(crate) fn cost(&self) -> Duration {
        self.cost
    }

    /// Returns the sockets that ended since the last call, and whether some are missing.
    pub(crate) fn ended(&mut self) -> (Vec<TcpSocket>, bool) {
        self.read_ended();
        (std::mem::take(&mut self.ended), std::mem::take(&mut self.has_lost))
    }

    fn read_ended(&mut self) {
        for (name, subscription) in &self.subscriptions {
            self.has_lost |= inet_diag::read_ended(subscription, number(name), MOST, &mut self.ended);
        }
    }

    fn sockets_of_namespaces(&mut self) -> Vec<TcpSocket> {
        let begun = thread_cpu_ns();
        let namespaces = namespaces();
        // A subscription keeps its namespace alive.
        self.read_ended();
        self.subscriptions.retain(|name, _| namespaces.contains_key(name));
        self.failure = None;
        let mut all = Vec::new();
        in_namespaces(&namespaces, |name| {
            // A socket that ends during the dump is in at least one of both.
            if !self.subscriptions.contains_key(name) {
                match sock_diag::subscribe() {
                    Ok(fd) => drop(self.subscriptions.insert(name.clone(), fd)),
                    Err(_) => self.has_lost = true,
                }
            }
            for family in [libc::AF_INET, libc::AF_INET6] {
                let request =
                    inet_diag::inet_request(family, libc::IPPROTO_TCP, inet_diag::OF_PROCESSES, inet_diag::FIGURES);
                let listed = sock_diag::dump(&request, &mut |body| {
                    all.extend(inet_diag::tcp_socket(body, number(name)));
                    all.len() < MOST
                });
                self.failure = self.failure.or(listed.err());
            }
        });
        if all.len() >= MOST {
            self.failure.get_or_insert(SocketListError::TooMany(MOST));
        }
        self.cost = Duration::from_nanos(thread_cpu_ns().saturating_sub(begun));
        all
    }
}

/// Returns the inode of a network namespace from its link in /proc; 0 if that has another form.
fn number(name: &Path) -> u64 {
    let inode = name.to_str().and_then(|name| name.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok());
    inode.unwrap_or(0)
}

/// Returns the inode of a process's network namespace.
pub(crate) fn namespace_of(pid: i32) -> Option<u64> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok().map(|name| number(&name)).filter(|number| *number > 0)
}

/// Collects from all network namespaces that this process may enter.
pub(super) fn in_all_namespaces<T: Default + Send>(collect: impl Fn(&mut T) + Send) -> Result<T, SocketListError> {
    collected(namespaces, collect)
}

/// Collects from the network namespace of a process.
pub(super) fn in_namespace_of<T: Default + Send>(
    pid: i32,
    collect: impl Fn(&mut T) + Send,
) -> Result<T, SocketListError> {
    let namespace = || fs::read_link(format!("/proc/{pid}/ns/net")).into_iter().map(|name| (name, pid)).collect();
    collected(namespace, collect)
}

/// Collects from network namespaces in a thread of its own, as a thread that has entered one stays there.
fn collected<T: Default + Send>(
    namespaces: impl FnOnce() -> BTreeMap<PathBuf, i32> + Send,
    collect: impl Fn(&mut T) + Send,
) -> Result<T, SocketListError> {
    std::thread::scope(|scope| {
        let apart = kernel::scoped_thread(scope, "sockets", move || {
            let mut all = T::default();
            in_namespaces(&namespaces(), |_| collect(&mut all));
            all
        });
        apart.map(ScopedJoinHandle::join).ok().and_then(Result::ok).ok_or(SocketListError::Thread)
    })
}

/// Calls a function in each namespace that the thread may enter. The thread stays in the last one.
fn in_namespaces(namespaces: &BTreeMap<PathBuf, i32>, mut each: impl FnMut(&PathBuf)) {
    let mut now = fs::read_link("/proc/thread-self/ns/net").ok();
    let own = now.as_ref().and_then(|own| namespaces.get_key_value(own));
    let others = namespaces.iter().filter(|(name, _)| own.is_none_or(|(own, _)| own != *name));
    for (name, pid) in own.into_iter().chain(others) {
        let enters = || {
            let file = fs::File::open(format!("/proc/{pid}/ns/net"));
            file.is_ok_and(|file| move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).is_ok())
                // The process may have moved, or another one may have its number.
                && fs::read_link("/proc/thread-self/ns/net").is_ok_and(|now| now == *name)
        };
        if now.as_ref() == Some(name) || enters() {
            now = Some(name.clone());
            each(name);
        }
    }
}

/// Returns a process of each network namespace.
fn namespaces() -> BTreeMap<PathBuf, i32> {
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
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    use super::inet_diag::LISTEN;

    use super::*;

    #[test]
    fn own_sockets_are_found_with_their_owner() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let client = TcpStream::connect(at).expect("connects");
        let all = TcpMonitor::default().sockets();
        let listening = all.iter().find(|socket| socket.local == at && socket.state == LISTEN).expect("listens");
        assert_eq!(listening.queue[0], 1, "the connection waits to be accepted");
        assert!(listening.queue[1] > 0);
        let local = client.local_addr().expect("an address");
        let ours = all.iter().find(|socket| socket.local == local && socket.peer == at).expect("connected");
        assert!(ours.state == 1 && ours.rtt[0] > 0, "{ours:?}");
        let owners = socket_owners();
        let pid = std::process::id() as i32;
        assert_eq!(namespace_of(pid), Some(ours.namespace));
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
        let found =
            TcpMonitor::default().sockets().into_iter().find(|socket| socket.local == at && socket.state == LISTEN);
        let found = found.expect("listens");
        assert!(found.drops > 0 && found.queue[0] > found.queue[1], "{found:?}");
    }

    /// The kernel reports ends shortly after they happened.
    #[test]
    fn connections_have_their_counters_at_their_end() {
        let mut monitor = TcpMonitor::default();
        monitor.sockets();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(at).expect("connects");
        let (mut accepted, _) = listener.accept().expect("accepts");
        let local = client.local_addr().expect("an address");
        client.write_all(&[7; 5000]).expect("written");
        accepted.read_exact(&mut [0; 5000]).expect("read");
        assert!(monitor.cost() > Duration::ZERO);
        let open = monitor.sockets().into_iter().find(|socket| socket.local == local && socket.peer == at);
        // The kernel does not count an end that arrives after the socket was closed.
        let both = [&client, &accepted];
        both.iter().for_each(|end| end.shutdown(Shutdown::Write).expect("shut down"));
        for mut end in both {
            assert_eq!(end.read(&mut [0]).expect("the end"), 0);
        }
        drop((client, accepted));
        let mut found = [None; 2];
        let begun = std::time::Instant::now();
        while found.contains(&None) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{found:?}");
            let (ended, _) = monitor.ended();
            for socket in ended.into_iter().filter(|socket| [socket.local, socket.peer].contains(&local)) {
                found[usize::from(socket.peer == local)] = socket.counters.map(|counters| (socket.cookie, counters));
            }
        }
        let counted = found.map(|found| found.map(|(_, counters)| (counters.sent, counters.received)));
        // The kernel counts the peer's end as a byte.
        assert_eq!(counted, [Some((5000, 1)), Some((0, 5001))]);
        assert_eq!(open.map(|socket| socket.cookie), found[0].map(|(cookie, _)| cookie));
    }
}
