//! The open files and the TCP peers of the followed processes: what moves through each between two readings.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::kernel::sockets::{TcpCounters, TcpMonitor, TcpSocket};
use crate::kernel::{monotonic_ns, procfs, thread_cpu_ns};
use crate::panel::row_order::arrange_by_key;

use super::DUTY;

/// The limits of processes and of descriptors in one reading.
const MAX_PROCESSES: usize = 64;
const MAX_DESCRIPTORS: usize = 2048;
/// The number of files, and of peers, that are kept of a reading.
const KEPT: usize = 8;
/// The flag of a file whose writes go to its end, as /proc/PID/fdinfo shows it.
const APPEND: u32 = 0o2000;

/// A file that processes read or write from beginning to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileUse {
    /// A process that has it open.
    pub(crate) pid: i32,
    pub(crate) path: Arc<str>,
    /// Bytes by which its position moved. Calls with an own offset, as pread, do not move it.
    pub(crate) bytes: u64,
}

/// The connections of a process to an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerUse {
    pub(crate) pid: i32,
    /// The peer's address; for connections that the process has accepted, without the port.
    pub(crate) address: Arc<str>,
    pub(crate) connections: u32,
    /// Bytes in both directions, and segments that were sent again.
    pub(crate) bytes: u64,
    pub(crate) resent: u64,
}

/// Bytes that moved between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessTraffic {
    /// The time between the readings, in nanoseconds.
    pub(crate) length: u64,
    pub(crate) files: Vec<FileUse>,
    pub(crate) peers: Vec<PeerUse>,
}

/// The descriptors and sockets at the last reading.
#[derive(Debug, Default)]
pub(crate) struct TrafficWatch {
    followed: Vec<i32>,
    /// When it was read, and the earliest time to read it again.
    read_at: u64,
    due: u64,
    /// The processes at the last reading.
    known: Vec<i32>,
    positions: HashMap<(i32, i32), OpenPosition>,
    counters: HashMap<u64, TcpCounters>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenPosition {
    path: Arc<str>,
    at: u64,
    appends: bool,
}

/// The descriptors of the followed processes.
#[derive(Debug, Default)]
struct FollowedDescriptors {
    positions: HashMap<(i32, i32), OpenPosition>,
    /// A process of each socket.
    owners: HashMap<u32, i32>,
}

impl TrafficWatch {
    /// Reads the files and sockets of these processes.
    pub(crate) fn follow(&mut self, processes: Vec<i32>) {
        self.followed = processes;
    }

    /// Returns what moved since the last reading; nothing if reading is not due, or for the first reading.
    pub(crate) fn read(&mut self) -> ProcessTraffic {
        let now = monotonic_ns();
        if self.followed.is_empty() || now < self.due {
            return ProcessTraffic::default();
        }
        let begun = thread_cpu_ns();
        let descriptors = FollowedDescriptors::read(&self.followed);
        let mut monitor = TcpMonitor::default();
        let sockets = if descriptors.owners.is_empty() { Vec::new() } else { monitor.sockets() };
        let length = now.saturating_sub(std::mem::replace(&mut self.read_at, now));
        let is_first = length == now;
        let traffic = self.advance(descriptors, &sockets, length);
        let cost = thread_cpu_ns().saturating_sub(begun).saturating_add(monitor.cost().as_nanos() as u64);
        self.due = now.saturating_add(cost.saturating_mul(DUTY));
        if is_first { ProcessTraffic::default() } else { traffic }
    }

    /// Compares the descriptors and sockets with those of the last reading, which they replace.
    fn advance(&mut self, now: FollowedDescriptors, sockets: &[TcpSocket], length: u64) -> ProcessTraffic {
        let files = files(&self.positions, &now.positions);
        let (peers, counters) = peers((&self.counters, &self.known), sockets, &now.owners);
        (self.positions, self.counters) = (now.positions, counters);
        self.known.clone_from(&self.followed);
        ProcessTraffic { length, files, peers }
    }
}

impl FollowedDescriptors {
    fn read(processes: &[i32]) -> Self {
        let mut found = Self::default();
        let mut left = MAX_DESCRIPTORS;
        for pid in processes.iter().take(MAX_PROCESSES) {
            for fd in procfs::descriptors(*pid).take(left) {
                left -= 1;
                let Some(link) = procfs::link(&format!("/proc/{pid}/fd/{fd}")) else { continue };
                if let Some(inode) = crate::kernel::peers::inode_of(&link, "socket") {
                    found.owners.extend(u32::try_from(inode).map(|inode| (inode, *pid)));
                } else if is_stored(&link)
                    && let Ok(info) = procfs::read_short(&format!("/proc/{pid}/fdinfo/{fd}"))
                    && let Some((at, appends)) = position(&info)
                {
                    found.positions.insert((*pid, fd), OpenPosition { path: link.into(), at, appends });
                }
            }
        }
        found
    }
}

/// Returns whether the link of a descriptor is the path of a stored file, not of a device or of the kernel's own file
/// systems.
fn is_stored(link: &str) -> bool {
    link.starts_with('/') && !["/dev/", "/proc/", "/sys/", "/memfd:"].iter().any(|dir| link.starts_with(dir))
}

/// Parses the position of a file, and whether it is open for appending, from /proc/PID/fdinfo/FD.
fn position(info: &[u8]) -> Option<(u64, bool)> {
    let text = std::str::from_utf8(info).ok()?;
    let value = |key: &str| text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim()));
    let flags = u32::from_str_radix(value("flags:")?, 8).ok()?;
    Some((value("pos:")?.parse().ok()?, flags & APPEND != 0))
}

/// Returns the files whose positions moved forwards, those with the most bytes first. Descriptors of one open file, as
/// after a fork, move together and count once.
fn files(before: &HashMap<(i32, i32), OpenPosition>, now: &HashMap<(i32, i32), OpenPosition>) -> Vec<FileUse> {
    let mut moves: BTreeMap<(&Arc<str>, u64, u64), i32> = BTreeMap::new();
    for ((pid, fd), position) in now {
        let Some(then) = before.get(&(*pid, *fd)).filter(|then| then.path == position.path) else { continue };
        // The first write to a file that is open for appending moves its position from 0 to its end.
        if position.at > then.at && !(position.appends && then.at == 0) {
            let least = moves.entry((&position.path, then.at, position.at)).or_insert(*pid);
            *least = (*least).min(*pid);
        }
    }
    let mut sums: BTreeMap<&Arc<str>, FileUse> = BTreeMap::new();
    for ((path, from, to), pid) in moves {
        let sum = sums.entry(path).or_insert_with(|| FileUse { pid, path: path.clone(), bytes: 0 });
        sum.bytes = sum.bytes.saturating_add(to - from);
    }
    let mut list: Vec<FileUse> = sums.into_values().collect();
    arrange_by_key(&mut list, |one| (std::cmp::Reverse(one.bytes), one.path.clone()));
    list.truncate(KEPT);
    list
}

/// Returns the peers of the owners' connections, those with the most bytes first, and the counters of these sockets.
/// `before` has the counters of the last reading and its processes.
fn peers(
    (before, known): (&HashMap<u64, TcpCounters>, &[i32]),
    sockets: &[TcpSocket],
    owners: &HashMap<u32, i32>,
) -> (Vec<PeerUse>, HashMap<u64, TcpCounters>) {
    let listening: Vec<(u64, u16)> =
        sockets.iter().filter(|one| one.is_listening()).map(|one| (one.namespace, one.local.port())).collect();
    let mut counters = HashMap::new();
    let mut sums: BTreeMap<(i32, String), PeerUse> = BTreeMap::new();
    for socket in sockets {
        let (Some(pid), Some(now)) = (owners.get(&socket.inode), socket.counters) else { continue };
        counters.insert(socket.cookie, now);
        let is_accepted = listening.contains(&(socket.namespace, socket.local.port()));
        let address = if is_accepted { socket.peer.ip().to_string() } else { socket.peer.to_string() };
        let fresh = || PeerUse { pid: *pid, address: address.as_str().into(), ..PeerUse::default() };
        let sum = sums.entry((*pid, address.clone())).or_insert_with(fresh);
        // A connection that a process opened since the last reading moved all of its bytes since then.
        let then = if known.contains(pid) { TcpCounters::default() } else { now };
        let moved = now.since(before.get(&socket.cookie).unwrap_or(&then));
        sum.connections += 1;
        sum.bytes = sum.bytes.saturating_add(moved.sent).saturating_add(moved.received);
        sum.resent = sum.resent.saturating_add(moved.resent_segments);
    }
    let mut list: Vec<PeerUse> = sums.into_values().collect();
    arrange_by_key(&mut list, |one| (std::cmp::Reverse((one.bytes, one.connections)), one.address.clone(), one.pid));
    list.truncate(KEPT);
    (list, counters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str, at: u64) -> OpenPosition {
        OpenPosition { path: path.into(), at, appends: false }
    }

    #[test]
    fn a_file_counts_by_the_moves_of_its_position() {
        let info = b"pos:\t4096\nflags:\t0102001\nmnt_id:\t29\nino:\t7\n";
        assert_eq!((position(info), position(b"pos:\t7\nflags:\t0100000\n")), (Some((4096, true)), Some((7, false))));
        assert_eq!((position(b"pos:\t7\n"), position(b""), position(b"\xff")), (None, None, None));
        let appended = |position| OpenPosition { appends: true, ..at("/log", position) };
        let before = HashMap::from([
            ((1, 3), at("/db", 100)),
            ((2, 3), at("/db", 100)),
            ((1, 4), at("/old", 5)),
            ((1, 5), appended(0)),
            ((1, 6), at("/read", 900)),
            ((1, 7), at("/small", 0)),
        ]);
        let now = HashMap::from([
            ((1, 3), at("/db", 350)),
            ((2, 3), at("/db", 350)),
            ((1, 4), at("/new", 500)),
            ((1, 5), appended(70_000)),
            ((1, 6), at("/read", 100)),
            ((1, 7), at("/small", 9)),
            ((1, 8), at("/opened", 9)),
        ]);
        let file = |path: &str, bytes| FileUse { pid: 1, path: path.into(), bytes };
        assert_eq!(files(&before, &now), [file("/db", 250), file("/small", 9)], "forked descriptors move together");
        assert!(
            is_stored("/var/lib/db") && !is_stored("/dev/null") && !is_stored("pipe:[7]") && !is_stored("/memfd:x")
        );
    }

    #[test]
    fn a_peer_is_an_address_of_a_server_or_a_host_of_clients() {
        const LISTEN: u8 = 10;
        let socket = |inode: u32, local: u16, peer: ([u8; 4], u16), sent: u64, resent_segments: u64| TcpSocket {
            local: ([10, 0, 0, 1], local).into(),
            peer: peer.into(),
            state: 1,
            inode,
            namespace: 0,
            read_at: 0,
            cookie: inode.into(),
            queue: [0; 2],
            drops: 0,
            rtt: [0; 2],
            counters: Some(TcpCounters { sent, resent_segments, ..TcpCounters::default() }),
            is_peer_full: false,
            is_full: false,
            awaits_window: false,
            resends: 0,
        };
        let listening = TcpSocket { state: LISTEN, counters: None, ..socket(1, 80, ([0; 4], 0), 0, 0) };
        let database = ([10, 0, 3, 7], 5432);
        let list = |scale: u64| {
            [
                listening,
                socket(2, 80, ([10, 0, 9, 9], 40_001), 10 * scale, 0),
                socket(3, 80, ([10, 0, 9, 9], 40_002), 10 * scale, 0),
                socket(4, 50_000, database, 500 * scale, scale),
                socket(5, 50_001, database, 500 * scale, scale),
                socket(6, 50_002, ([10, 0, 3, 8], 6379), 9000, 0),
            ]
        };
        // The last one is of a process that is not followed.
        let owners = HashMap::from([(2, 7), (3, 7), (4, 7), (5, 7)]);
        let (first, mut counters) = peers((&HashMap::new(), &[]), &list(1), &owners);
        assert!(first.iter().all(|peer| peer.bytes == 0), "their bytes are of an unknown time: {first:?}");
        let (found, _) = peers((&counters, &[7]), &list(3), &owners);
        let peer =
            |address: &str, bytes, resent| PeerUse { pid: 7, address: address.into(), connections: 2, bytes, resent };
        assert_eq!(found, [peer("10.0.3.7:5432", 2000, 4), peer("10.0.9.9", 40, 0)]);
        counters.remove(&5);
        let (found, _) = peers((&counters, &[7]), &list(3), &owners);
        assert_eq!(found[0], peer("10.0.3.7:5432", 2500, 5), "one of them is new");
    }

    #[test]
    fn the_files_of_this_process_are_read() {
        use std::io::Write;
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let pid = std::process::id() as i32;
        let mut watch = TrafficWatch::default();
        watch.follow(vec![pid]);
        assert_eq!(watch.read(), ProcessTraffic::default(), "the first reading has no interval");
        file.write_all(&[7; 5000]).expect("written");
        watch.due = 0;
        let path = file.path().to_string_lossy().into_owned();
        let found = watch.read();
        assert!(found.length > 0, "{found:?}");
        let bytes: Vec<u64> = found.files.iter().filter(|one| *one.path == *path).map(|one| one.bytes).collect();
        assert_eq!(bytes, [5000]);
    }
}
