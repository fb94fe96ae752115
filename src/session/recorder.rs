//! The process that wrote a recording, whose threads are nobody's figures.
//!
//! It is a feature of the file's head with a bit of its own, as marks are. Its content is text: a heading, and the
//! number of the process.

use crate::perfdata::features::bit;

const HEAD: &str = "perfprof-tui recorder 1";

/// As a file keeps it.
pub(crate) fn encode(pid: i32) -> Vec<u8> {
    format!("{HEAD}\n{pid}\n").into_bytes()
}

/// From the features of a file's head, as (bit, bytes).
pub(crate) fn decode_from(features: &[(u8, Vec<u8>)]) -> Option<i32> {
    let (_, bytes) = features.iter().find(|(bit, _)| *bit == bit::RECORDER)?;
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    (lines.next() == Some(HEAD)).then(|| lines.next()?.parse().ok().filter(|pid| *pid > 0))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_damage_is_nobody() {
        assert_eq!(decode_from(&[(3, Vec::new()), (bit::RECORDER, encode(4711))]), Some(4711));
        for wrong in [&b""[..], b"perfprof-tui recorder 1\n", b"perfprof-tui recorder 1\n-3\n", b"\xff", b"1\n2\n"] {
            assert_eq!(decode_from(&[(bit::RECORDER, wrong.to_vec())]), None);
        }
        assert_eq!(decode_from(&[(bit::RECORDER - 1, encode(1))]), None);
    }
}
