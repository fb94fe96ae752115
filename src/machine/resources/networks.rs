//! The counters of network namespaces in each interval.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::kernel::host::{ProcFile, Roots};
use crate::machine::processes::ProcessUse;
use crate::session::machine::resources::net_counters;

/// The limit of network namespaces that are read in an interval, in addition to our own.
const MAX_NAMESPACES: usize = 16;
/// The number of intervals between two searches for the network namespaces of idle processes, and the limit of processes.
const SEARCHED_EVERY: u32 = 10;
const MAX_SEARCHED: usize = 8000;

/// The connections of a network namespace in an interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkUse {
    /// A process in it; `None` for the namespace of this program.
    pub(crate) process: Option<(i32, Arc<str>)>,
    pub(crate) counts: NetworkCounts,
}

/// Counters of TCP and UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounts {
    pub(crate) opened: u64,
    pub(crate) accepted: u64,
    pub(crate) failed: u64,
    /// Established connections that ended by a reset.
    pub(crate) reset: u64,
    pub(crate) segments: u64,
    pub(crate) retransmitted: u64,
    /// Connections that a full listen queue dropped.
    pub(crate) unaccepted: u64,
    /// Other connections that were dropped before they were open, mostly because the SYN queue was full.
    pub(crate) half_open_dropped: u64,
    /// Datagrams that a full socket buffer dropped.
    pub(crate) datagrams_dropped: u64,
    /// SYNs, also those with an ACK, that were sent again.
    pub(crate) syns_resent: u64,
    /// Probes of peers whose receive window is zero, and own receive windows that became zero.
    pub(crate) window_probes: u64,
    pub(crate) windows_closed: u64,
}

/// The state of reading network namespaces.
pub(super) struct NetworkWatch {
    files: [ProcFile; 2],
    proc: PathBuf,
    /// A process of each network namespace that the last search found, and the intervals until the next one.
    namespaces: Vec<i32>,
    until_search: u32,
    before: HashMap<PathBuf, NetworkCounts>,
}

impl NetworkWatch {
    pub(super) fn new(roots: &Roots) -> Self {
        Self {
            files: ["net/snmp", "net/netstat"].map(|name| ProcFile::new(roots.proc.join(name), 1 << 12)),
            proc: roots.proc.clone(),
            namespaces: Vec::new(),
            until_search: 0,
            before: HashMap::new(),
        }
    }

    /// Finds a process of each network namespace: one that waits for its peers uses little CPU time.
    fn search_namespaces(&mut self) {
        let left = self.until_search.checked_sub(1);
        self.until_search = left.unwrap_or(SEARCHED_EVERY - 1);
        if left.is_some() {
            return;
        }
        let entries = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).take(MAX_SEARCHED);
        let mut found: BTreeMap<PathBuf, i32> = BTreeMap::new();
        for pid in numbers {
            if let Ok(namespace) = fs::read_link(self.proc.join(pid.to_string()).join("ns/net")) {
                let first = found.entry(namespace).or_insert(pid);
                *first = pid.min(*first);
            }
        }
        self.namespaces = found.into_values().collect();
    }

    /// Reads our own network namespace, then those of the processes with the largest figures, then others.
    pub(super) fn read(&mut self, processes: &[ProcessUse]) -> Vec<NetworkUse> {
        self.search_namespaces();
        let texts = self.files.each_mut().map(|file| file.read().map(<[u8]>::to_vec).unwrap_or_default());
        let mut found = vec![(PathBuf::new(), None, NetworkCounts::parse(&texts))];
        let own = fs::read_link(self.proc.join("self/ns/net")).ok();
        let largest = processes.iter().map(|one| (one.pid, Some(one.comm.clone())));
        for (pid, comm) in largest.chain(self.namespaces.iter().map(|pid| (*pid, None))) {
            let dir = self.proc.join(pid.to_string());
            let Ok(namespace) = fs::read_link(dir.join("ns/net")) else { continue };
            let is_known = Some(&namespace) == own.as_ref() || found.iter().any(|(known, ..)| *known == namespace);
            if !is_known && found.len() <= MAX_NAMESPACES {
                let read = |file| fs::read(dir.join(file));
                let (Ok(snmp), Ok(netstat)) = (read("net/snmp"), read("net/netstat")) else { continue };
                let texts = [snmp, netstat];
                let name = || String::from_utf8_lossy(&read("comm").unwrap_or_default()).trim_end().into();
                found.push((namespace, Some((pid, comm.unwrap_or_else(name))), NetworkCounts::parse(&texts)));
            }
        }
        let mut out = Vec::new();
        for (namespace, process, now) in &found {
            let then = self.before.get(namespace).copied().unwrap_or(*now);
            out.push(NetworkUse { process: process.clone(), counts: now.since(&then) });
        }
        self.before = found.into_iter().map(|(namespace, _, now)| (namespace, now)).collect();
        out
    }
}

impl NetworkCounts {
    /// Parses the texts of /proc/net/snmp and /proc/net/netstat.
    fn parse([snmp, netstat]: &[Vec<u8>; 2]) -> Self {
        let [opened, accepted, failed, reset, segments, retransmitted, datagrams_dropped] = net_counters(
            snmp,
            [
                ("Tcp", "ActiveOpens"),
                ("Tcp", "PassiveOpens"),
                ("Tcp", "AttemptFails"),
                ("Tcp", "EstabResets"),
                ("Tcp", "OutSegs"),
                ("Tcp", "RetransSegs"),
                ("Udp", "RcvbufErrors"),
            ],
        );
        let [unaccepted, dropped, syns_resent, window_probes, windows_closed] = net_counters(
            netstat,
            [
                ("TcpExt", "ListenOverflows"),
                ("TcpExt", "ListenDrops"),
                ("TcpExt", "TCPSynRetrans"),
                ("TcpExt", "TCPWinProbe"),
                ("TcpExt", "TCPToZeroWindowAdv"),
            ],
        );
        // The second includes the first.
        let half_open_dropped = dropped.saturating_sub(unaccepted);
        Self {
            opened,
            accepted,
            failed,
            reset,
            segments,
            retransmitted,
            unaccepted,
            half_open_dropped,
            datagrams_dropped,
            syns_resent,
            window_probes,
            windows_closed,
        }
    }

    fn map(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            opened: of(self.opened, other.opened),
            accepted: of(self.accepted, other.accepted),
            failed: of(self.failed, other.failed),
            reset: of(self.reset, other.reset),
            segments: of(self.segments, other.segments),
            retransmitted: of(self.retransmitted, other.retransmitted),
            unaccepted: of(self.unaccepted, other.unaccepted),
            half_open_dropped: of(self.half_open_dropped, other.half_open_dropped),
            datagrams_dropped: of(self.datagrams_dropped, other.datagrams_dropped),
            syns_resent: of(self.syns_resent, other.syns_resent),
            window_probes: of(self.window_probes, other.window_probes),
            windows_closed: of(self.windows_closed, other.windows_closed),
        }
    }

    fn since(&self, before: &Self) -> Self {
        self.map(before, u64::saturating_sub)
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        self.map(other, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that waits for its peers is not among the processes with the largest figures.
    #[test]
    fn namespaces_of_idle_processes_are_read() {
        let dir = tempfile::tempdir().expect("dir");
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        // Linux does not give out this number.
        let pid = i32::MAX;
        let all = |n: u64| {
            put(&format!("{pid}/net/snmp"), &format!("Tcp: ActiveOpens PassiveOpens EstabResets\nTcp: {n} {n} {n}\n"));
            put(&format!("{pid}/net/netstat"), "");
        };
        put(&format!("{pid}/comm"), "client\n");
        fs::create_dir_all(dir.path().join(format!("{pid}/ns"))).expect("made");
        std::os::unix::fs::symlink("net:[7]", dir.path().join(format!("{pid}/ns/net"))).expect("a link");
        let mut watch = NetworkWatch::new(&Roots { proc: dir.path().into(), sys: dir.path().into() });
        for n in [10, 25] {
            all(n);
            let read = watch.read(&[]);
            let [_, of_client] = &read[..] else { panic!("{read:?}") };
            assert_eq!(of_client.process, Some((pid, "client".into())));
            // The first reading has nothing before it.
            let new = if n == 10 { 0 } else { 15 };
            let counts = of_client.counts;
            assert_eq!((counts.opened, counts.accepted, counts.reset), (new, new, new));
        }
    }
}
