//! Records of BPF programs and of their symbols that are longer than what they say: for each event that listens, the
//! kernel makes the same header longer by the size of a sample id (`perf_event_ksymbol_output`,
//! `perf_event_bpf_output`), so that with another session beside ours there is anything behind what was written.

use crate::record::kinds::{HEADER, Header, types};

/// Bytes of a BPF program's record before its sample id: type, flags, id and tag.
const BPF_EVENT: usize = HEADER + 16;
/// Where a symbol's name stands: behind address, length, type and flags.
const NAME_AT: usize = HEADER + 16;

/// Cuts such records of what a ring brought, whole records from a place on, to what was written; `trailer` is the size of
/// our own sample ids.
pub(super) fn cut(bytes: &mut Vec<u8>, from: usize, trailer: usize) {
    let (mut at, mut to) = (from, from);
    while let Some(header) = Header::read(&bytes[at..]) {
        let size = usize::from(header.size).max(HEADER);
        let Some(record) = bytes.get(at..at + size) else { break };
        let own = written(header.kind, record).map_or(size, |own| size.min(own + trailer));
        if to < at {
            bytes.copy_within(at..at + own, to);
        }
        if own < size {
            // Where a header has its size (`struct perf_event_header`).
            bytes[to + 6..to + HEADER].copy_from_slice(&(own as u16).to_le_bytes());
        }
        (at, to) = (at + size, to + own);
    }
    if to < at {
        bytes.copy_within(at.., to);
        bytes.truncate(bytes.len() - (at - to));
    }
}

/// Bytes that a record has before its sample id; `None` of kinds that are as long as they say.
fn written(kind: u32, record: &[u8]) -> Option<usize> {
    match kind {
        types::BPF_EVENT => Some(BPF_EVENT),
        types::KSYMBOL => {
            let name = memchr::memchr(0, record.get(NAME_AT..)?)?;
            Some(NAME_AT + (name + 1).next_multiple_of(8))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAILER: usize = 32;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend([0, 0]);
        out.extend(((HEADER + body.len()) as u16).to_le_bytes());
        out.extend(body);
        out
    }

    fn symbol(name: &[u8], behind: usize) -> Vec<u8> {
        record(types::KSYMBOL, &[&[1; 16][..], name, &[7; TRAILER], &vec![9; behind]].concat())
    }

    fn program(behind: usize) -> Vec<u8> {
        record(types::BPF_EVENT, &[&[2; 16][..], &[7; TRAILER], &vec![9; behind]].concat())
    }

    #[test]
    fn what_nobody_wrote_is_cut_off() {
        let other = record(types::COMM, b"12345678other\0\0\0");
        let list = |behind| [other.clone(), symbol(b"bpf_abc\0", behind), program(behind), other.clone()].concat();
        for behind in [0, 32, 64] {
            let mut bytes = [b"before", &list(behind)[..]].concat();
            cut(&mut bytes, 6, TRAILER);
            assert_eq!(bytes, [b"before", &list(0)[..]].concat(), "{behind}");
        }
    }

    #[test]
    fn damaged_records_do_no_harm() {
        let whole = [symbol(b"bpf_abc\0", 32), program(32)].concat();
        for len in 0..whole.len() {
            cut(&mut whole[..len].to_vec(), 0, TRAILER);
        }
        for at in 0..whole.len() {
            let mut odd = whole.clone();
            odd[at] ^= 0xff;
            cut(&mut odd, 0, TRAILER);
        }
        // Its name does not end.
        let mut endless = record(types::KSYMBOL, &[1; 40]);
        cut(&mut endless, 0, TRAILER);
        assert_eq!(endless, record(types::KSYMBOL, &[1; 40]));
    }
}
