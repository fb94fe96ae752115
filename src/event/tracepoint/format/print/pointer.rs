//! The kernel's extensions of `%p` (Documentation/core-api/printk-formats.rst).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::super::number;
use super::FunctionAt;
use super::expr::PrintValue;

const AF_INET: i64 = 2;
const AF_INET6: i64 = 10;

pub(crate) fn text(
    value: &PrintValue<'_>,
    how: &str,
    count: Option<usize>,
    big: bool,
    function: &FunctionAt<'_>,
) -> String {
    let bytes = match value {
        PrintValue::Bytes(bytes) => *bytes,
        _ => &[],
    };
    let mut letters = how.chars();
    match letters.next() {
        Some('S' | 'F' | 's' | 'f') => symbol(value, how, function),
        Some('I') if how.contains('S') => socket_address(bytes, how, big),
        Some('I' | 'i') => address(bytes, how),
        Some('M') => joined(bytes, if how.contains('F') { "-" } else { ":" }, how.contains('R')),
        Some('m') => joined(bytes, "", how.contains('R')),
        Some('U') => uuid(bytes, how),
        Some('b') => bits(bytes, count.unwrap_or(0), how.contains('l'), big),
        _ => match value.number().map_or(0, |n| n.bits) {
            0 => "(nil)".to_owned(),
            n => format!("{n:#x}"),
        },
    }
}

fn symbol(value: &PrintValue<'_>, how: &str, function: &FunctionAt<'_>) -> String {
    let at = value.number().map_or(0, |n| n.bits as u64);
    match function(at) {
        Some((name, offset)) if how.starts_with(['S', 'F']) => format!("{name}+{offset:#x}"),
        Some((name, _)) => name.to_string(),
        None => format!("{at:#x}"),
    }
}

fn address(bytes: &[u8], how: &str) -> String {
    let packed = how.starts_with('i');
    if how[1..].starts_with('6') {
        let Some(a) = bytes.first_chunk::<16>() else { return String::new() };
        let address = Ipv6Addr::from(*a);
        if how.contains('c') {
            return address.to_string();
        }
        let parts: Vec<String> = address.segments().iter().map(|part| format!("{part:04x}")).collect();
        return parts.join(if packed { "" } else { ":" });
    }
    match bytes.first_chunk::<4>() {
        Some([a, b, c, d]) if packed => format!("{a:03}.{b:03}.{c:03}.{d:03}"),
        Some(a) => Ipv4Addr::from(*a).to_string(),
        None => String::new(),
    }
}

/// Formats a `struct sockaddr`. The family is in machine byte order, the rest in network byte order.
fn socket_address(bytes: &[u8], how: &str, big: bool) -> String {
    let port = bytes.get(2..4).map(|b| number(b, false, true)).filter(|_| how.contains('p'));
    let with_port = |address: String| port.map_or_else(|| address.clone(), |port| format!("{address}:{port}"));
    let family = bytes.get(..2).map_or(0, |b| number(b, false, big));
    match (family, bytes.get(4..8), bytes.get(8..24)) {
        (AF_INET, Some(four), _) => with_port(address(four, "I4")),
        (AF_INET6, _, Some(six)) => {
            let text = address(six, if how.contains('c') { "I6c" } else { "I6" });
            if port.is_some() { with_port(format!("[{text}]")) } else { text }
        }
        _ => "INVALID".to_owned(),
    }
}

fn joined(bytes: &[u8], between: &str, is_reversed: bool) -> String {
    let mut parts: Vec<String> = bytes.iter().take(6).map(|b| format!("{b:02x}")).collect();
    if is_reversed {
        parts.reverse();
    }
    parts.join(between)
}

fn uuid(bytes: &[u8], how: &str) -> String {
    const LITTLE: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let Some(bytes) = bytes.first_chunk::<16>() else { return String::new() };
    let is_little = how.contains(['l', 'L']);
    let mut out = String::new();
    for at in 0..16 {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out += &format!("{:02x}", bytes[if is_little { LITTLE[at] } else { at }]);
    }
    if how.contains(['B', 'L']) { out.to_ascii_uppercase() } else { out }
}

fn bits(bytes: &[u8], count: usize, is_list: bool, big: bool) -> String {
    let count = count.min(8 * bytes.len());
    let is_set = |bit: usize| {
        let word = &bytes[bit / 64 * 8..(bit / 64 * 8 + 8).min(bytes.len())];
        number(word, false, big) as u64 >> (bit % 64) & 1 == 1
    };
    if is_list {
        let mut out: Vec<String> = Vec::new();
        let mut bit = 0;
        while bit < count {
            let from = bit;
            while bit < count && is_set(bit) {
                bit += 1;
            }
            match bit - from {
                0 => bit += 1,
                1 => out.push(from.to_string()),
                _ => out.push(format!("{from}-{}", bit - 1)),
            }
        }
        return out.join(",");
    }
    let word = |at: usize| {
        (0..32).filter(|bit| 32 * at + bit < count && is_set(32 * at + bit)).fold(0u32, |n, bit| n | 1 << bit)
    };
    let words: Vec<String> = (0..count.div_ceil(32))
        .rev()
        .map(|at| format!("{:0width$x}", word(at), width = (count - 32 * at).min(32).div_ceil(4)))
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_extension() {
        let four = [&[2, 0, 0x1f, 0x90][..], &[127, 0, 0, 1], &[0; 8]].concat();
        let mut six = vec![10, 0, 0x1f, 0x90, 0, 0, 0, 0];
        six.extend([0; 15]);
        six.extend([1, 0, 0, 0, 0]);
        let id: Vec<u8> = (0..16).collect();
        for (bytes, how, count, want) in [
            (&four[..], "ISpc", None, "127.0.0.1:8080"),
            (&six, "ISpc", None, "[::1]:8080"),
            (&six, "ISc", None, "::1"),
            (&[0; 28], "ISpc", None, "INVALID"),
            (&four[4..], "I4", None, "127.0.0.1"),
            (&four[4..], "i4", None, "127.000.000.001"),
            (&six[8..], "I6", None, "0000:0000:0000:0000:0000:0000:0000:0001"),
            (&six[8..], "I6c", None, "::1"),
            (&id, "M", None, "00:01:02:03:04:05"),
            (&id, "mR", None, "050403020100"),
            (&id, "U", None, "00010203-0405-0607-0809-0a0b0c0d0e0f"),
            (&id, "UL", None, "03020100-0504-0706-0809-0A0B0C0D0E0F"),
            (&[0xf1, 0, 0, 0, 1, 0, 0, 0], "bl", Some(40), "0,4-7,32"),
            (&[0xf1, 0, 0, 0, 1, 0, 0, 0], "b", Some(40), "01,000000f1"),
            (&[1], "I4", None, ""),
            (&[], "bl", Some(64), ""),
        ] {
            assert_eq!(text(&PrintValue::Bytes(bytes), how, count, false, &|_| None), want, "{how}");
        }
    }
}
