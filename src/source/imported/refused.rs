//! Profiles of known tools in forms that are not read. Their messages name the remedy.

use crate::perfdata::bytes::ByteReader;

use super::document::without_mark;
use super::{CHROME_TRACE, ImportError};

/// The starts of pprof's older text formats, as written by gperftools, Java and Go with `?debug=1`.
const OLDER_TEXTS: [&[u8]; 7] = [
    b"heap profile:",
    b"--- heapz ",
    b"--- growthz ",
    b"--- threadz ",
    b"--- contentionz ",
    b"--- contention:",
    b"--- mutex:",
];

/// Returns why a file with this start is not read; `None` for other formats.
pub fn refused(head: &[u8]) -> Option<ImportError> {
    if is_older_text(head) || is_older_cpu(head) {
        return Some(ImportError::Unsupported(
            "pprof's older format has addresses without functions; convert it with `go tool pprof -proto \
             -output=OUT PROGRAM FILE` (from a Go service, fetch it without debug=1)",
        ));
    }
    is_trace_of_chrome(head).then_some(ImportError::Unsupported(CHROME_TRACE))
}

fn is_older_text(head: &[u8]) -> bool {
    // Go's `goroutine profile: total 7`.
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let total = memchr::memmem::find(line, b" profile: total ").filter(|at| (1..=64).contains(at));
    let is_count = total.is_some_and(|at| line[..at].iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_'));
    is_count || OLDER_TEXTS.iter().any(|start| head.starts_with(start))
}

/// Returns whether it begins with the five words of gperftools' CPU profiles, of either size and byte order: 0, the
/// number of further words, a version, the period, 0.
fn is_older_cpu(head: &[u8]) -> bool {
    let starts = |is_wide: bool, big: bool| {
        let mut words = ByteReader::new(head, big);
        let mut word = || if is_wide { words.u64() } else { words.u32().map(u64::from) };
        let words = [word(), word(), word(), word(), word()];
        matches!(words, [Some(0), Some(3), Some(0 | 1), Some(1..), Some(0)])
    };
    [(false, false), (false, true), (true, false), (true, true)].iter().any(|(is_wide, big)| starts(*is_wide, *big))
}

/// Returns whether it is a list of events; in an object, they follow its member `traceEvents`.
fn is_trace_of_chrome(head: &[u8]) -> bool {
    let list = without_mark(head).trim_ascii_start().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    list.is_some_and(|list| list.starts_with(b"{") && memchr::memmem::find(list, b"\"ph\"").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_formats_of_pprof_are_named() {
        let is_older =
            |head: &[u8]| matches!(refused(head), Some(ImportError::Unsupported(why)) if why.contains("-proto"));
        for text in [
            "heap profile:     85: 178257920 [    85: 178257920] @ growthz\n     1:  2097152 [     1:  2097152] @ 0xb83003\n",
            "heap profile: 13: 1595680 [47130736: 2584596557304] @ heap/1048576\n",
            "goroutine profile: total 7\n2 @ 0x1 0x2\n",
            "--- contention:\ncycles/second=1\n",
            "--- contentionz 1 ---\nformat = java\n",
        ] {
            assert!(is_older(text.as_bytes()), "{text}");
        }
        let words = [0u64, 3, 0, 10_000, 0, 1, 1, 0x40_0000];
        for bytes in [
            words.map(u64::to_le_bytes).concat(),
            words.map(u64::to_be_bytes).concat(),
            words.map(|word| (word as u32).to_le_bytes()).concat(),
            words.map(|word| (word as u32).to_be_bytes()).concat(),
        ] {
            assert!(is_older(&bytes), "{bytes:?}");
        }
        for other in
            ["main;heap profile: 7\n", "my profile: totals 7\n", "a b profile: total 1\n", "", "\0\0\0\0", "--- a 1"]
        {
            assert!(refused(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn a_list_of_events_is_a_trace() {
        for text in ["[{\"pid\":1,\"ph\":\"B\"}]", "\u{feff}\n[\n {\"ph\": \"X\"},"] {
            assert!(matches!(refused(text.as_bytes()), Some(ImportError::Unsupported(CHROME_TRACE))), "{text}");
        }
        for other in ["[{\"a\":1}]", "[unknown];main 7\n", "{\"ph\":1}"] {
            assert!(refused(other.as_bytes()).is_none(), "{other}");
        }
    }
}
