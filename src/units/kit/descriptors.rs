//! The files, peers and other ends that descriptors of running processes refer to.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::session::{OtherEnds, Session};

use super::Context;

/// The share of the time that lookups and searches may take each, and the time that lookups may take at once.
const SHARE: u32 = 20;
const AT_ONCE: Duration = Duration::from_millis(10);
/// The shortest time between two searches of the machine's sockets and pipes.
const PERIOD: Duration = Duration::from_millis(500);
/// The limit of sockets whose peer a call named.
const MAX_NAMED: usize = 1 << 16;

/// Names descriptors from /proc and the kernel's socket monitoring, within a share of the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct DescriptorNames {
    ends: Arc<OtherEnds>,
    next_search: Option<Instant>,
    /// The peers that calls named, which a search may not have found yet.
    named: rustc_hash::FxHashMap<u64, Arc<str>>,
    begun: Option<Instant>,
    spent: Duration,
}

impl DescriptorNames {
    /// Returns what a descriptor refers to now; `None` for a closed one, a recording, or if lookups took too long.
    pub(crate) fn name(&mut self, pid: i32, fd: i32, cx: &mut Context<'_>) -> Option<Arc<str>> {
        let link = self.link(pid, fd, cx.session)?;
        Some(self.name_of_link(pid, fd, link, cx))
    }

    /// Remembers the peer that a call gave to a socket.
    pub(crate) fn learn(&mut self, pid: i32, fd: i32, peer: &Arc<str>, session: &Session) {
        let link = self.link(pid, fd, session);
        if let Some(inode) = link.and_then(|link| Session::inode_of_link(&link, "socket")) {
            if self.named.len() >= MAX_NAMED {
                self.named.clear();
            }
            self.named.insert(inode, peer.clone());
        }
    }

    /// Reads the link of a descriptor, unless lookups took too long.
    fn link(&mut self, pid: i32, fd: i32, session: &Session) -> Option<String> {
        let now = Instant::now();
        let begun = *self.begun.get_or_insert(now);
        if self.spent > AT_ONCE + (now - begun) / SHARE {
            return None;
        }
        let link = session.open_file(pid, fd);
        self.spent += now.elapsed();
        link
    }

    fn name_of_link(&mut self, pid: i32, fd: i32, link: String, cx: &mut Context<'_>) -> Arc<str> {
        if let Some(inode) = Session::inode_of_link(&link, "socket") {
            return self.socket(inode, cx.session).unwrap_or_else(|| link.into());
        }
        match Session::inode_of_link(&link, "pipe") {
            Some(inode) => self.pipe(inode, pid, fd, cx).unwrap_or_else(|| link.into()),
            None => link.into(),
        }
    }

    fn socket(&mut self, inode: u64, session: &Session) -> Option<Arc<str>> {
        if let Some(named) = self.named.get(&inode) {
            return Some(named.clone());
        }
        if !self.ends.sockets.contains_key(&inode) {
            self.search(session);
        }
        self.ends.sockets.get(&inode).map(|name| name.as_str().into())
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

    fn search(&mut self, session: &Session) {
        let begun = Instant::now();
        if self.next_search.is_none_or(|next| next <= begun) {
            self.ends = session.other_ends().into();
            self.next_search = Some(begun + PERIOD.max(begun.elapsed() * SHARE));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::process::{Command, Stdio};

    use rustc_hash::FxHashSet;

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
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("starts");
        let input = cat.stdin.take().expect("a pipe");
        let pid = std::process::id() as i32;
        let mut found = DescriptorNames::default();
        let mut name = |fd: i32| found.name(pid, fd, &mut cx).map(|name| name.to_string());
        assert_eq!(name(client.as_raw_fd()), Some(at.to_string()));
        let pipe = name(input.as_raw_fd()).unwrap_or_default();
        // The process may still have the name of its parent.
        assert!(pipe.starts_with("pipe to ") && pipe.ends_with(&format!("-{}", cat.id())), "{pipe}");
        assert_eq!(name(-1), None);
        drop(input);
        cat.wait().expect("ends");
    }
}
