//! A DNS message as BPF programs write it (`struct message` of src/kernel/dns_messages/dns_messages.bpf.c). Its bytes
//! come from other machines.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a DNS header: id, flags, and four counts (RFC 1035, 4.1.1).
const DNS_HEADER: usize = 12;
/// The maximum length of a name as it is sent, and of a label.
const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: usize = 63;
const SERVER_AT: usize = 16;
const PAYLOAD_AT: usize = 32;

/// A query that left a local socket, or an answer that a thread has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DnsMessage<'a> {
    /// The packet's address in the kernel, which identifies it while it passes several devices.
    pub(crate) packet: u64,
    /// Whether it is an answer.
    pub(crate) is_answer: bool,
    /// The port of the local socket.
    pub(crate) port: u16,
    /// The server's address.
    pub(crate) server: SocketAddr,
    /// The header, and of a query also the question: the recorded bytes of the message.
    pub(crate) payload: &'a [u8],
}

/// The name and the type that a query asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DnsQuestion {
    /// The name in lower case, without the final dot; a single dot for the root. Not cleaned of control characters.
    pub(crate) name: String,
    /// The number of the type, such as 28 for AAAA.
    pub(crate) kind: u16,
}

impl<'a> DnsMessage<'a> {
    /// Reads a sample's raw data; `None` if it is truncated.
    pub(crate) fn parse(raw: &'a [u8]) -> Option<Self> {
        let half = |at: usize| raw.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes);
        let payload = raw.get(PAYLOAD_AT..)?.get(..usize::from(half(14)?))?;
        let server = raw.get(SERVER_AT..PAYLOAD_AT)?;
        let ip = match raw.get(9)? {
            0 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(&server[..4]).ok()?)),
            // An IPv4 address in IPv6 form is the same server.
            _ => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(server).ok()?)).to_canonical(),
        };
        (payload.len() >= DNS_HEADER).then_some(Self {
            packet: u64::from_le_bytes(raw.get(..8)?.try_into().ok()?),
            is_answer: *raw.get(8)? != 0,
            port: half(10)?,
            server: SocketAddr::new(ip, half(12)?),
            payload,
        })
    }

    fn half(&self, at: usize) -> u16 {
        self.payload.get(at..at + 2).map_or(0, |half| u16::from_be_bytes([half[0], half[1]]))
    }

    /// Returns the number that an answer has in common with its query.
    pub(crate) fn id(&self) -> u16 {
        self.half(0)
    }

    /// Returns the code of an answer: 0 for success.
    pub(crate) fn code(&self) -> u8 {
        (self.half(2) & 15) as u8
    }

    /// Returns whether the answer did not fit into the datagram, so that it is requested again over TCP.
    pub(crate) fn is_truncated(&self) -> bool {
        self.half(2) & 0x200 != 0
    }

    /// Returns the question of a query. `None` if it does not have exactly one, is truncated, or if its name is longer
    /// than permitted or refers to other bytes of the message.
    pub(crate) fn question(&self) -> Option<DnsQuestion> {
        if self.half(4) != 1 {
            return None;
        }
        let (mut name, mut at) = (Vec::new(), DNS_HEADER);
        loop {
            let len = usize::from(*self.payload.get(at)?);
            let label = self.payload.get(at + 1..at + 1 + len)?;
            at += 1 + len;
            // Larger numbers are references.
            if len > LONGEST_LABEL || at - DNS_HEADER > LONGEST_NAME {
                return None;
            }
            if len == 0 {
                break;
            }
            if !name.is_empty() {
                name.push(b'.');
            }
            for byte in label {
                // A dot in a label does not separate labels.
                name.extend(matches!(byte, b'.' | b'\\').then_some(b'\\'));
                name.push(byte.to_ascii_lowercase());
            }
        }
        let kind = self.payload.get(at..at + 2)?;
        // Its class follows.
        self.payload.get(at + 2..at + 4)?;
        let name = if name.is_empty() { ".".to_owned() } else { String::from_utf8_lossy(&name).into_owned() };
        Some(DnsQuestion { name, kind: u16::from_be_bytes([kind[0], kind[1]]) })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::damage;
    use proptest::prelude::*;

    /// Writes a query for a name of these labels, or an answer with these flags.
    pub(crate) fn payload(id: u16, flags: u16, labels: &[&[u8]], kind: u16) -> Vec<u8> {
        let mut out: Vec<u8> = [id, flags, 1, 0, 0, 0].into_iter().flat_map(u16::to_be_bytes).collect();
        for label in labels {
            out.push(label.len() as u8);
            out.extend_from_slice(label);
        }
        out.push(0);
        out.extend([kind, 1].into_iter().flat_map(u16::to_be_bytes));
        out
    }

    /// Writes a message as the programs do.
    fn written(of: &DnsMessage<'_>) -> Vec<u8> {
        let mut raw = of.packet.to_le_bytes().to_vec();
        raw.extend([u8::from(of.is_answer), u8::from(of.server.is_ipv6())]);
        for half in [of.port, of.server.port(), of.payload.len() as u16] {
            raw.extend(half.to_le_bytes());
        }
        match of.server.ip() {
            IpAddr::V4(ip) => raw.extend(ip.octets()),
            IpAddr::V6(ip) => raw.extend(ip.octets()),
        }
        raw.resize(PAYLOAD_AT, 0);
        raw.extend_from_slice(of.payload);
        raw
    }

    fn of(server: &str, payload: &'static [u8]) -> DnsMessage<'static> {
        let server = server.parse().expect("an address");
        DnsMessage { packet: u64::MAX - 7, is_answer: false, port: 40_000, server, payload }
    }

    #[test]
    fn messages_are_read_as_they_are_written() {
        for server in ["10.0.0.2:53", "[2001:db8::1]:53"] {
            let of = of(server, &[7; 20]);
            let mut raw = written(&of);
            raw.extend([0; 4]);
            assert_eq!(DnsMessage::parse(&raw), Some(of));
            for end in 0..PAYLOAD_AT + 20 {
                assert_eq!(DnsMessage::parse(&raw[..end]), None, "{end}");
            }
        }
        let raw = written(&of("[::ffff:10.0.0.2]:53", &[0; DNS_HEADER]));
        assert_eq!(DnsMessage::parse(&raw).map(|of| of.server.to_string()).as_deref(), Some("10.0.0.2:53"));
        assert_eq!(DnsMessage::parse(&written(&of("10.0.0.2:53", &[0; DNS_HEADER - 1]))), None);
    }

    fn question(payload: &[u8]) -> Option<(String, u16)> {
        let server = "10.0.0.2:53".parse().expect("an address");
        let of = DnsMessage { packet: 1, is_answer: false, port: 1, server, payload };
        of.question().map(|question| (question.name, question.kind))
    }

    #[test]
    fn questions_have_a_name_and_a_type() {
        let named = |labels: &[&[u8]]| question(&payload(1, 0x100, labels, 28));
        let some = |name: &str| Some((name.to_owned(), 28));
        assert_eq!(named(&[b"wWw", b"Example", b"org"]), some("www.example.org"));
        assert_eq!(named(&[]), some("."));
        assert_eq!(named(&[b"a.b\\c", b"d"]), some("a\\.b\\\\c.d"));
        assert_eq!(named(&[b"\x1b[31m\xff"]), some("\x1b[31m\u{fffd}"), "cleaned where it is shown");
        let most: Vec<&[u8]> = vec![&[b'x'; 63], &[b'x'; 63], &[b'x'; 63], &[b'x'; 61]];
        assert_eq!(named(&most).map(|(name, _)| name.len()), Some(253));
    }

    #[test]
    fn hostile_questions_are_refused() {
        let whole = payload(1, 0x100, &[b"www", b"example"], 1);
        for end in 0..whole.len() {
            assert_eq!(question(&whole[..end]), None, "truncated at {end}");
        }
        for name in [&[0xc0, 12][..], &[1, b'a', 0xc0, 12], &[0xff], &[64], &[0x80, 1], &[63, b'a', 0]] {
            let payload = [&whole[..DNS_HEADER], name, &[0, 0, 1, 0, 1, 0, 1]].concat();
            assert_eq!(question(&payload), None, "{name:?}");
        }
        let of_255 = [&whole[..DNS_HEADER], &[255; 256], &[0, 0, 1, 0, 1]].concat();
        assert_eq!(question(&of_255), None, "a label of 255 bytes");
        let long: Vec<&[u8]> = vec![&[b'x'; 63], &[b'x'; 63], &[b'x'; 63], &[b'x'; 62]];
        assert_eq!(question(&payload(1, 0, &long, 1)), None, "a name of 254 bytes");
        for count in [0u8, 2, 255] {
            let mut payload = whole.clone();
            payload[5] = count;
            assert_eq!(question(&payload), None, "{count} questions");
        }
    }

    #[test]
    fn damage_is_no_panic() {
        let raw = written(&of("10.0.0.2:53", &[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0, 1]));
        damage::reaching(512, 20, damage::bytes(4, Just(raw)), |bytes| {
            DnsMessage::parse(&bytes).and_then(|of| of.question()).is_some()
        });
    }
}
