//! The files, peers and other ends that descriptors of running processes refer to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::session::{OtherEnds, Session, thread_cpu_ns};

use super::Context;

/// The share of the time that lookups and searches may take each, and the time that lookups may take at once.
const SHARE: u32 = 20;
const AT_ONCE: Duration = Duration::from_millis(10);
/// The shortest time between two searches of the machine's sockets and pipes.
const PERIOD: Duration = Duration::from_millis(500);
/// The limit of sockets whose peer a call named.
const MAX_NAMED: usize = 1 << 16;
/// The limit of searches for one socket.
const MAX_SEARCHES: u8 = 3;
/// The limit of descriptors of an epoll whose kind is looked up.
const MAX_POLLED: usize = 64;

/// The kind of what a descriptor refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum DescriptorKind {
    File,
    Device,
    /// A file of /proc or /sys.
    KernelFile,
    /// Memory that processes share as a file.
    Memory,
    Socket,
    Pipe,
    Epoll,
    EventCounter,
    Timer,
    #[default]
    Other,
}

impl DescriptorKind {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Device => "device",
            Self::KernelFile => "kernel",
            Self::Memory => "memory",
            Self::Socket => "socket",
            Self::Pipe => "pipe",
            Self::Epoll => "epoll",
            Self::EventCounter => "eventfd",
            Self::Timer => "timerfd",
            Self::Other => "other",
        }
    }

    pub(crate) fn of_path(path: &str) -> Self {
        let begins = |with: &str| path.starts_with(with);
        match () {
            () if begins("/dev/shm/") || begins("/memfd:") => Self::Memory,
            () if begins("/dev/") => Self::Device,
            () if begins("/proc/") || begins("/sys/") => Self::KernelFile,
            () => Self::File,
        }
    }

    /// Returns the kind for a link in /proc/PID/fd.
    fn of_link(link: &str) -> Self {
        match link.split_once(':') {
            Some(("socket", _)) => Self::Socket,
            Some(("pipe", _)) => Self::Pipe,
            Some(("anon_inode", "[eventpoll]")) => Self::Epoll,
            Some(("anon_inode", "[eventfd]")) => Self::EventCounter,
            Some(("anon_inode", "[timerfd]")) => Self::Timer,
            _ if link.starts_with('/') => Self::of_path(link),
            _ => Self::Other,
        }
    }
}

/// The meaning of a descriptor: a path, the peer of a socket, the process at the other end of a pipe, what an epoll waits
/// for, or only a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Described {
    pub(crate) kind: DescriptorKind,
    pub(crate) name: Arc<str>,
}

/// The use of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamePurpose {
    /// A chosen or slow call.
    Line,
    /// Sums of all calls, and calls that failed, which may be many: they leave half of the lookups to the others.
    Rows,
}

/// Names descriptors from /proc and the kernel's socket monitoring, within a share of the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct DescriptorNames {
    ends: Arc<OtherEnds>,
    next_search: Option<Instant>,
    /// The peers that calls named, which a search may not have found yet.
    named: FxHashMap<u64, Arc<str>>,
    /// The number of searches for sockets that were not found.
    searches: FxHashMap<u64, u8>,
    begun: Option<Instant>,
    /// CPU time of lookups.
    spent: Duration,
}

impl DescriptorNames {
    /// Returns what a descriptor refers to now; `None` for a closed one, a recording, or if lookups took too long.
    pub(crate) fn describe(
        &mut self,
        pid: i32,
        fd: i32,
        purpose: NamePurpose,
        cx: &mut Context<'_>,
    ) -> Option<Described> {
        let link = self.link(pid, fd, purpose, cx.session)?;
        let kind = DescriptorKind::of_link(&link);
        let epoll = if kind == DescriptorKind::Epoll { self.epoll(pid, fd, purpose, cx) } else { None };
        Some(Described { kind, name: epoll.unwrap_or_else(|| self.name((pid, fd), &link, cx)) })
    }

    /// Names a descriptor by its link in /proc.
    fn name(&mut self, (pid, fd): (i32, i32), link: &str, cx: &mut Context<'_>) -> Arc<str> {
        let kind = DescriptorKind::of_link(link);
        let named = match kind {
            DescriptorKind::Socket => Session::inode_of_link(link, "socket").and_then(|inode| self.socket(inode, cx)),
            DescriptorKind::Pipe => {
                Session::inode_of_link(link, "pipe").and_then(|inode| self.pipe(inode, pid, fd, cx))
            }
            _ => None,
        };
        let plain = || match kind {
            DescriptorKind::File | DescriptorKind::Device | DescriptorKind::KernelFile | DescriptorKind::Memory => link,
            DescriptorKind::Other => link.trim_start_matches("anon_inode:"),
            kind => kind.label(),
        };
        named.unwrap_or_else(|| plain().into())
    }

    /// Names an epoll by what it waits for: the only file or peer, or the kinds of several, whose number changes.
    fn epoll(&mut self, pid: i32, fd: i32, purpose: NamePurpose, cx: &mut Context<'_>) -> Option<Arc<str>> {
        let before = thread_cpu_ns();
        let polled = cx.session.polled(pid, fd);
        self.spent += Duration::from_nanos(thread_cpu_ns().saturating_sub(before));
        let mut link = |fd: i32| Some((fd, self.link(pid, fd, purpose, cx.session)?));
        let links: Vec<(i32, String)> = polled.into_iter().take(MAX_POLLED).filter_map(&mut link).collect();
        if let [(only, link)] = &links[..] {
            return Some(format!("epoll of {}", self.name((pid, *only), link, cx)).into());
        }
        let mut kinds: BTreeMap<DescriptorKind, usize> = BTreeMap::new();
        links.iter().for_each(|(_, link)| *kinds.entry(DescriptorKind::of_link(link)).or_default() += 1);
        let labels = kinds.iter().map(|(kind, n)| format!("{}{}", kind.label(), if *n > 1 { "s" } else { "" }));
        let labels: Vec<String> = labels.collect();
        (!labels.is_empty()).then(|| format!("epoll of {}", labels.join(", ")).into())
    }

    /// Returns why peers of sockets are missing, if the last search failed.
    pub(crate) fn failure(&self) -> Option<String> {
        self.ends.failure.map(|failure| format!("peers of sockets are not known: {failure}"))
    }

    /// Remembers the peer that a call gave to a socket.
    pub(crate) fn learn(&mut self, pid: i32, fd: i32, peer: &Arc<str>, session: &Session) {
        let link = self.link(pid, fd, NamePurpose::Line, session);
        if let Some(inode) = link.and_then(|link| Session::inode_of_link(&link, "socket")) {
            if self.named.len() >= MAX_NAMED {
                self.named.clear();
            }
            self.named.insert(inode, peer.clone());
        }
    }

    /// Reads the link of a descriptor, unless lookups took too long.
    fn link(&mut self, pid: i32, fd: i32, purpose: NamePurpose, session: &Session) -> Option<String> {
        let limit = AT_ONCE + self.begun.get_or_insert_with(Instant::now).elapsed() / SHARE;
        if self.spent > if purpose == NamePurpose::Line { limit } else { limit / 2 } {
            return None;
        }
        let before = thread_cpu_ns();
        let link = session.open_file(pid, fd);
        self.spent += Duration::from_nanos(thread_cpu_ns().saturating_sub(before));
        link
    }

    fn socket(&mut self, inode: u64, cx: &mut Context<'_>) -> Option<Arc<str>> {
        if let Some(named) = self.named.get(&inode) {
            return Some(named.clone());
        }
        self.found_socket(inode, cx).or_else(|| {
            // Sockets of other families do not have names.
            let has_searched = self.searches.get(&inode).is_some_and(|n| *n >= MAX_SEARCHES);
            if has_searched || !self.search(cx.session) {
                return None;
            }
            if self.searches.len() >= MAX_NAMED {
                self.searches.clear();
            }
            *self.searches.entry(inode).or_default() += 1;
            self.found_socket(inode, cx)
        })
    }

    fn found_socket(&self, inode: u64, cx: &mut Context<'_>) -> Option<Arc<str>> {
        if let Some(name) = self.ends.sockets.get(&inode) {
            return Some(name.as_str().into());
        }
        let pid = self.ends.process_of_peer(inode)?;
        Some(format!("unix to {}-{pid}", cx.comm(pid)).into())
    }

    /// Names a pipe by the processes at its other end.
    fn pipe(&mut self, inode: u64, pid: i32, fd: i32, cx: &mut Context<'_>) -> Option<Arc<str>> {
        if !self.ends.pipes.contains_key(&inode) {
            self.search(cx.session);
        }
        let writes = cx.session.writes_only(pid, fd);
        let ends = self.ends.clone();
        let others = ends.pipes.get(&inode)?.iter().filter(|end| end.pid != pid && end.writes != writes);
        let names: Vec<String> = others.map(|end| format!("{}-{}", cx.comm(end.pid), end.pid)).collect();
        let (first, more) = (names.first()?, names.len() - 1);
        let more = if more > 0 { format!(" +{more}") } else { String::new() };
        Some(format!("pipe {} {first}{more}", if writes { "to" } else { "from" }).into())
    }

    /// Searches the machine's sockets and pipes again. Returns `false` if the last search was shortly before.
    fn search(&mut self, session: &Session) -> bool {
        let begun = Instant::now();
        let is_due = self.next_search.is_none_or(|next| next <= begun);
        if is_due {
            self.ends = session.other_ends().into();
            // The kernel's answer is newer.
            self.named.retain(|inode, _| !self.ends.sockets.contains_key(inode));
            self.next_search = Some(begun + PERIOD.max(self.ends.cost * SHARE));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use rustc_hash::FxHashSet;
    use rustix::event::epoll;

    use crate::session::Origin;
    use crate::units::kit::ThreadNames;

    use super::*;

    #[test]
    fn descriptors_have_their_peers() {
        let session = Session::new(Origin::Live);
        let (mut names, own) = (ThreadNames::default(), FxHashSet::default());
        let mut cx = Context::new(&session, &mut names, &own);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let client = std::net::TcpStream::connect(at).expect("connects");
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
        let input = cat.stdin.take().expect("a pipe");
        let pid = std::process::id() as i32;
        let mut found = DescriptorNames::default();
        let mut describe = |fd: i32| {
            let found = found.describe(pid, fd, NamePurpose::Line, &mut cx);
            found.map(|of| (of.kind, of.name.to_string()))
        };
        assert_eq!(describe(client.as_raw_fd()), Some((DescriptorKind::Socket, at.to_string())));
        let (kind, pipe) = describe(input.as_raw_fd()).unwrap_or_default();
        // The process may still have the name of its parent.
        assert!(pipe.starts_with("pipe to ") && pipe.ends_with(&format!("-{}", cat.id())), "{pipe}");
        assert_eq!(kind, DescriptorKind::Pipe);
        let (_, unix) = describe(one.as_raw_fd()).unwrap_or_default();
        assert!(unix.starts_with("unix to ") && unix.ends_with(&format!("-{pid}")), "{unix}");
        // An epoll has the name of what it waits for, or several have their kinds.
        let waits = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll");
        assert_eq!(describe(waits.as_raw_fd()), Some((DescriptorKind::Epoll, "epoll".into())));
        let mut add = |of: &dyn std::os::fd::AsFd| {
            epoll::add(&waits, of.as_fd(), epoll::EventData::new_u64(0), epoll::EventFlags::OUT).expect("added");
            describe(waits.as_raw_fd()).map(|(_, name)| name).unwrap_or_default()
        };
        let found = [add(&client), add(&one), add(&input)];
        assert_eq!(found, [format!("epoll of {at}"), "epoll of sockets".into(), "epoll of sockets, pipe".into()]);
        assert_eq!(describe(-1), None);
        drop(input);
        cat.wait().expect("ends");
    }

    #[test]
    fn links_have_kinds() {
        use DescriptorKind::*;
        for (link, kind) in [
            ("/var/lib/db/wal", File),
            ("/var/log/a (deleted)", File),
            ("/dev/null", Device),
            ("/dev/shm/x", Memory),
            ("/memfd:x (deleted)", Memory),
            ("/proc/1/stat", KernelFile),
            ("socket:[12]", Socket),
            ("pipe:[12]", Pipe),
            ("anon_inode:[eventpoll]", Epoll),
            ("anon_inode:[eventfd]", EventCounter),
            ("anon_inode:bpf-map", Other),
            ("net:[4026531840]", Other),
        ] {
            assert_eq!(DescriptorKind::of_link(link), kind, "{link}");
        }
    }
}
