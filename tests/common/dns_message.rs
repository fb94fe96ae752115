//! DNS messages as BPF programs write them (`struct message` of src/kernel/dns_messages/dns_messages.bpf.c).

use std::net::{IpAddr, SocketAddr};

/// Writes a query for a name of these labels, or an answer with these flags.
pub fn payload(flags: u16, labels: &[&[u8]]) -> Vec<u8> {
    const ID: u16 = 0;
    const TYPE_A: u16 = 1;
    const CLASS_IN: u16 = 1;
    let mut out: Vec<u8> = [ID, flags, 1, 0, 0, 0].into_iter().flat_map(u16::to_be_bytes).collect();
    for label in labels {
        out.push(label.len() as u8);
        out.extend_from_slice(label);
    }
    out.push(0);
    out.extend([TYPE_A, CLASS_IN].into_iter().flat_map(u16::to_be_bytes));
    out
}

/// Writes the raw data of a sample with a message at a server.
pub fn raw(packet: u64, is_answer: bool, port: u16, server: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut raw = packet.to_le_bytes().to_vec();
    raw.extend([u8::from(is_answer), u8::from(server.is_ipv6())]);
    for half in [port, server.port(), payload.len() as u16] {
        raw.extend(half.to_le_bytes());
    }
    match server.ip() {
        IpAddr::V4(ip) => raw.extend(ip.octets().into_iter().chain([0; 12])),
        IpAddr::V6(ip) => raw.extend(ip.octets()),
    }
    raw.extend_from_slice(payload);
    raw
}
