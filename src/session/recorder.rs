//! The process that wrote a recording, whose threads are nobody's figures, and how it took call chains, which their
//! events do not say.
//!
//! It is a feature of the file's head with a bit of its own, as marks are. Its content is text: a heading, the number of
//! the process, 0 where it is as others are, and a word for each event, as after `--call-graph`.

use crate::event::CallGraph;
use crate::perfdata::features::bit;

const HEAD: &str = "perfprof-tui recorder 1";

/// As a file keeps it.
pub(crate) fn encode(pid: Option<i32>, ways: impl IntoIterator<Item = CallGraph>) -> Vec<u8> {
    let ways: Vec<String> = ways.into_iter().map(CallGraph::spelling).collect();
    format!("{HEAD}\n{}\n{}\n", pid.unwrap_or(0), ways.join(" ")).into_bytes()
}

fn lines(features: &[(u8, Vec<u8>)]) -> Option<impl Iterator<Item = &str>> {
    let (_, bytes) = features.iter().find(|(bit, _)| *bit == bit::RECORDER)?;
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    (lines.next() == Some(HEAD)).then_some(lines)
}

/// The process, from the features of a file's head, as (bit, bytes).
pub(crate) fn decode_from(features: &[(u8, Vec<u8>)]) -> Option<i32> {
    lines(features)?.next()?.parse().ok().filter(|pid| *pid > 0)
}

/// The way in which the call chains of an event were taken, by its number.
pub(crate) fn way(features: &[(u8, Vec<u8>)], event: usize) -> Option<CallGraph> {
    CallGraph::parse(lines(features)?.nth(1)?.split(' ').nth(event)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_damage_is_nobody() {
        assert_eq!(decode_from(&[(3, Vec::new()), (bit::RECORDER, encode(Some(4711), []))]), Some(4711));
        let of = |bytes: &[u8], at| way(&[(bit::RECORDER, bytes.to_vec())], at);
        let told = encode(None, [CallGraph::Tables, CallGraph::Dwarf(512)]);
        assert_eq!(decode_from(&[(bit::RECORDER, told.clone())]), None);
        assert_eq!((of(&told, 0), of(&told, 1)), (Some(CallGraph::Tables), Some(CallGraph::Dwarf(512))));
        for (bytes, at) in [(&told[..], 2), (&b"perfprof-tui recorder 1\n7\n"[..], 0), (b"x\n7\nfp\n", 0)] {
            assert_eq!(of(bytes, at), None);
        }
        for wrong in [&b""[..], b"perfprof-tui recorder 1\n", b"perfprof-tui recorder 1\n-3\n", b"\xff", b"1\n2\n"] {
            assert_eq!(decode_from(&[(bit::RECORDER, wrong.to_vec())]), None);
        }
        assert_eq!(decode_from(&[(bit::RECORDER - 1, encode(Some(1), []))]), None);
    }
}
