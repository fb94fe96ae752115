//! The properties of calls that files and peers depend on: their descriptor, bytes, and effects on descriptors.

use crate::source::SumPolicy;

use super::arguments::{Arguments, descriptor_at, open_descriptors};
use super::names::{Abi, CallTables};

/// The calls whose result is a socket with a peer.
pub(super) const ACCEPTING: [&str; 2] = ["accept", "accept4"];

/// The change of descriptors by a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FdEffect {
    #[default]
    None,
    Close,
    CloseRange,
    /// The result is a new descriptor, of the path if that is known.
    Open,
    /// The result is a copy of the first descriptor.
    Duplicate,
    /// Some commands duplicate.
    Control,
    /// The socket of the first descriptor gets a peer or an address.
    Name,
}

/// The properties of a call that rows depend on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallShape {
    /// The place of the first descriptor in the arguments.
    pub(super) descriptor: Option<usize>,
    /// The places of all descriptors that are still open when the call has returned, as bits.
    descriptors: u8,
    /// Whether the result is the number of bytes that were read, or written.
    pub(super) bytes: Option<Transfer>,
    pub(super) effect: FdEffect,
    pub(super) is_connect: bool,
    /// Whether the result is a socket with a peer.
    pub(super) is_accept: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    Read,
    Written,
}

impl CallShape {
    pub(super) fn of(name: &str) -> Self {
        let effect = match name {
            "close" => FdEffect::Close,
            "close_range" => FdEffect::CloseRange,
            "open" | "openat" | "openat2" | "creat" | "socket" | "accept" | "accept4" => FdEffect::Open,
            "dup" | "dup2" | "dup3" => FdEffect::Duplicate,
            "fcntl" => FdEffect::Control,
            "connect" | "bind" | "listen" => FdEffect::Name,
            _ => FdEffect::None,
        };
        let bytes = match name {
            "read" | "pread64" | "readv" | "preadv" | "preadv2" | "recvfrom" | "recvmsg" | "copy_file_range"
            | "getdents" | "getdents64" => Some(Transfer::Read),
            "write" | "pwrite64" | "writev" | "pwritev" | "pwritev2" | "sendto" | "sendmsg" | "sendfile" => {
                Some(Transfer::Written)
            }
            _ => None,
        };
        let descriptors = open_descriptors(name);
        let is_accept = ACCEPTING.contains(&name);
        Self { descriptor: descriptor_at(name), descriptors, bytes, effect, is_connect: name == "connect", is_accept }
    }

    /// Iterates over the descriptors of a call that are still open when it has returned.
    pub(super) fn descriptors(self, arguments: &Arguments) -> impl Iterator<Item = i32> {
        let all = arguments.iter().enumerate().filter(move |(at, _)| self.descriptors & (1 << *at) != 0);
        all.map(|(_, word)| *word as i32).filter(|fd| *fd >= 0)
    }
}

/// Returns how calls are to be summed: which ones have descriptors, and which ones change those.
pub(super) fn call_kinds(slow_ns: u64) -> SumPolicy {
    let mut policy = SumPolicy { slow_ns, ..SumPolicy::default() };
    for (call, name) in CallTables::of("").all() {
        let shape = CallShape::of(name);
        if shape.descriptor.is_some() {
            policy.on_descriptor.insert((call.number, call.abi == Abi::Compat));
        }
        if shape.effect != FdEffect::None {
            policy.changing.insert((call.number, call.abi == Abi::Compat));
        }
    }
    policy
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn calls_with_descriptors_have_larger_budgets() {
        let policy = call_kinds(5);
        let (read, openat, getppid) = (libc::SYS_read, libc::SYS_openat, libc::SYS_getppid);
        let is = |set: &BTreeSet<(i64, bool)>| [read, openat, getppid].map(|call| set.contains(&(call, false)));
        assert_eq!((policy.slow_ns, is(&policy.on_descriptor)), (5, [true, false, false]));
        assert_eq!(is(&policy.changing), [false, true, false]);
    }

    #[test]
    fn calls_have_their_open_descriptors() {
        let here = -100i64 as u64;
        let of = |name: &str, first: u64| CallShape::of(name).descriptors(&[first, 0, 5, 0, 0, 0]).collect::<Vec<_>>();
        let found = [of("read", 7), of("openat", here), of("renameat2", 4), of("close", 7), of("sendfile", here)];
        assert_eq!(found, [vec![7], vec![], vec![4, 5], vec![], vec![0]]);
    }
}
