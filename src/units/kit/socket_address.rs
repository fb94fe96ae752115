//! Socket addresses in the kernel's forms.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::session::unix_name;

const AF_UNIX: u16 = 1;
pub(crate) const AF_INET: u16 = 2;
pub(crate) const AF_INET6: u16 = 10;

/// Reads an address of 4 or 16 bytes. An IPv4 address in IPv6 form is the same peer.
pub(crate) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).into());
    }
    Some(IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical())
}

fn family(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|family| u16::from_ne_bytes(*family))
}

/// Reads a `sockaddr_in` or `sockaddr_in6`.
pub(crate) fn inet(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    let address = match family(bytes)? {
        AF_INET => bytes.get(4..8),
        AF_INET6 => bytes.get(8..24),
        _ => None,
    };
    Some(SocketAddr::new(ip(address?)?, port))
}

/// Names a `sockaddr` that zeroes may follow: `10.0.3.7:5432`, `unix:/run/x.sock`, `unix:@abstract`.
pub(crate) fn name(bytes: &[u8]) -> Option<String> {
    if family(bytes)? != AF_UNIX {
        return inet(bytes).map(|address| address.to_string());
    }
    let path = bytes.get(2..)?;
    let end = path.iter().rposition(|byte| *byte != 0)? + 1;
    unix_name(&path[..end]).map(|name| format!("unix:{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_all_families() {
        let named = |bytes: &[u8]| name(bytes).unwrap_or_default();
        assert_eq!(named(&[2, 0, 0x15, 0x38, 10, 0, 3, 7, 0, 0]), "10.0.3.7:5432");
        let mut v6 = vec![10, 0, 0, 80, 0, 0, 0, 0];
        v6.extend(Ipv6Addr::LOCALHOST.octets());
        assert_eq!(named(&v6), "[::1]:80");
        v6[8..].copy_from_slice(&Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        assert_eq!(named(&v6), "127.0.0.1:80");
        assert_eq!(named(b"\x01\0/run/x\0\0\0"), "unix:/run/x");
        assert_eq!(named(b"\x01\0\0bus\0\0"), "unix:@bus");
        for damaged in [&[][..], &[2], &[2, 0, 1, 1, 10], &[1, 0, 0, 0, 0, 0], &[1, 0], &[0; 112], &v6[..20]] {
            assert_eq!(name(damaged), None, "{damaged:?}");
        }
    }
}
