//! Facts about the recorder: its own process, whose threads analysis units ignore, and the call graph mode of each
//! event, which its attr does not contain.
//!
//! They are a header feature with our own bit, like marks. Its content is text: a heading, the process (0 if it is not
//! excluded), and a word per event, as after `--call-graph`.

use crate::event::CallGraph;
use crate::perfdata::features::bit;

const HEAD: &str = "perfprof-tui recorder 1";

pub(crate) fn encode(pid: Option<i32>, ways: impl IntoIterator<Item = CallGraph>) -> Vec<u8> {
    let ways: Vec<String> = ways.into_iter().map(CallGraph::spelling).collect();
    format!("{HEAD}\n{}\n{}\n", pid.unwrap_or(0), ways.join(" ")).into_bytes()
}

fn lines(features: &[(u8, Vec<u8>)]) -> Option<impl Iterator<Item = &str>> {
    let (_, bytes) = features.iter().find(|(bit, _)| *bit == bit::RECORDER)?;
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    (lines.next() == Some(HEAD)).then_some(lines)
}

/// Returns the process in a file's header features, given as (bit, bytes).
pub(crate) fn decode_from(features: &[(u8, Vec<u8>)]) -> Option<i32> {
    lines(features)?.next()?.parse().ok().filter(|pid| *pid > 0)
}

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
