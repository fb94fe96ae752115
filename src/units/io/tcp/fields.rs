//! The fields of the events of sockets: addresses, states and reasons.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use crate::event::format::Format;
use crate::units::kit::prelude::*;
use crate::units::kit::socket_address::{self, AF_INET, AF_INET6, ip};
use crate::units::kit::waits::sched::WakeContext;

/// States of a connection (include/net/tcp_states.h).
pub(super) mod state {
    pub(in super::super) const ESTABLISHED: i64 = 1;
    pub(in super::super) const SYN_SENT: i64 = 2;
    pub(in super::super) const SYN_RECV: i64 = 3;
    pub(super) const TIME_WAIT: i64 = 6;
    pub(in super::super) const CLOSE: i64 = 7;
    pub(in super::super) const LISTEN: i64 = 10;
    pub(super) const NEW_SYN_RECV: i64 = 12;
}

/// A number above those of all reasons for which packets of IP are dropped.
const MAX_REASON: i64 = 256;

/// An address that is not known.
pub(super) const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Ends {
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
}

impl Ends {
    /// Returns the ends as the peer has them.
    pub(super) fn reversed(self) -> Self {
        Self { local: self.peer, peer: self.local }
    }
}

#[derive(Clone, Debug)]
enum Addresses {
    /// A family, ports, and a pair of addresses for each family.
    Split { family: Num, ports: [Num; 2], v4: Box<[Num; 2]>, v6: Box<[Num; 2]> },
    /// Two `sockaddr`.
    Whole([Num; 2]),
}

/// The fields of one of the events; an event has some of them.
#[derive(Clone, Debug)]
pub(super) struct SocketFields {
    format: Option<Arc<Format>>,
    socket: Option<Num>,
    protocol: Option<Num>,
    state: Option<Num>,
    states: Option<[Num; 2]>,
    error: Option<Num>,
    reason: Option<Num>,
    location: Option<Num>,
    flags: Option<Num>,
    addresses: Option<Addresses>,
}

impl SocketFields {
    pub(super) fn of(format: Option<&Arc<Format>>) -> Self {
        let one = |name: &str| Num::of(format, name).ok();
        let two = |a: &str, b: &str| Some([one(a)?, one(b)?]);
        let split = || {
            let (family, ports) = (one("family")?, two("sport", "dport")?);
            let (v4, v6) = (two("saddr", "daddr")?.into(), two("saddr_v6", "daddr_v6")?.into());
            Some(Addresses::Split { family, ports, v4, v6 })
        };
        Self {
            socket: Num::any(format, &["skaddr", "rx_sk"]).ok(),
            protocol: one("protocol"),
            state: one("state"),
            states: two("oldstate", "newstate"),
            error: one("error"),
            reason: one("reason"),
            location: one("location"),
            flags: one("common_flags"),
            addresses: split().or_else(|| two("saddr", "daddr").map(Addresses::Whole)),
            format: format.cloned(),
        }
    }

    /// Returns the kernel's address of the socket; 0 if there is none.
    pub(super) fn socket(&self, raw: &[u8]) -> u64 {
        self.socket.as_ref().map_or(0, |field| field.get(raw) as u64)
    }

    pub(super) fn protocol(&self, raw: &[u8]) -> Option<i64> {
        self.protocol.as_ref().map(|field| field.get(raw))
    }

    /// Returns the states before and after.
    pub(super) fn states(&self, raw: &[u8]) -> Option<[i64; 2]> {
        self.states.as_ref().map(|states| states.each_ref().map(|field| field.get(raw)))
    }

    /// Returns whether the socket is a connection that will report its end: no listener, request, waiting or closed one.
    pub(super) fn is_connection(&self, raw: &[u8]) -> bool {
        let silent = [state::TIME_WAIT, state::CLOSE, state::LISTEN, state::NEW_SYN_RECV];
        self.state.as_ref().is_none_or(|field| !silent.contains(&field.get(raw)))
    }

    pub(super) fn error(&self, raw: &[u8]) -> i64 {
        self.error.as_ref().map_or(0, |field| field.get(raw))
    }

    pub(super) fn reason(&self, raw: &[u8]) -> i64 {
        self.reason.as_ref().map_or(0, |field| field.get(raw))
    }

    /// Returns the place in the kernel that freed a packet.
    pub(super) fn location(&self, raw: &[u8]) -> u64 {
        self.location.as_ref().map_or(0, |field| field.get(raw) as u64)
    }

    /// Returns the kernel's name of a reason.
    pub(super) fn reason_name(&self, reason: i64) -> Arc<str> {
        let name = self.format.as_ref().and_then(|format| format.words("reason", reason));
        name.map_or_else(|| "not reported".into(), Arc::from)
    }

    /// Returns the numbers of some reasons on this kernel.
    pub(super) fn reasons(&self, names: &[&str]) -> impl Iterator<Item = i64> {
        let is_named = |number: &i64| {
            let name = self.format.as_ref().and_then(|format| format.words("reason", *number));
            name.is_some_and(|name| names.contains(&name.as_str()))
        };
        (0..MAX_REASON).filter(is_named)
    }

    /// Whether the current thread caused the event, and not a packet or a timer.
    pub(super) fn is_by_task(&self, raw: &[u8]) -> bool {
        self.flags.as_ref().is_none_or(|flags| WakeContext::of(flags.get(raw)) == WakeContext::Task)
    }

    /// Returns both ends; `None` for other families than IP.
    pub(super) fn ends(&self, raw: &[u8]) -> Option<Ends> {
        let [local, peer] = match self.addresses.as_ref()? {
            Addresses::Split { family, ports, v4, v6 } => {
                let ips = match family.get(raw) as u16 {
                    AF_INET => v4.each_ref().map(|field| ip(field.bytes(raw))),
                    AF_INET6 => v6.each_ref().map(|field| ip(field.bytes(raw))),
                    _ => return None,
                };
                let ports = ports.each_ref().map(|field| field.get(raw) as u16);
                [SocketAddr::new(ips[0]?, ports[0]), SocketAddr::new(ips[1]?, ports[1])]
            }
            Addresses::Whole(both) => {
                let [local, peer] = both.each_ref().map(|field| socket_address::inet(field.bytes(raw)));
                [local?, peer?]
            }
        };
        Some(Ends { local, peer })
    }
}
