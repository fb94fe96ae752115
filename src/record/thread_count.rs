//! The count of an event at a thread's exit: `PERF_RECORD_READ`.

use super::kinds::{RecordCursor, RecordError, types};
use super::sample::Layout;
use crate::perf_abi::read_format as f;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadCount {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) value: u64,
    /// Nanoseconds for which the event was enabled, and was counting.
    pub(crate) enabled: Option<u64>,
    pub(crate) running: Option<u64>,
    pub(crate) id: Option<u64>,
    pub(crate) lost: Option<u64>,
}

impl ThreadCount {
    /// Reads a record's body; returns `None` for a group, whose counts the kernel does not write there.
    pub(crate) fn decode(layout: &Layout, body: &[u8]) -> Result<Option<Self>, RecordError> {
        if layout.read_format & f::GROUP != 0 {
            return Ok(None);
        }
        let mut c = RecordCursor { rest: body, kind: types::READ };
        let (pid, tid, value) = (c.i32("pid")?, c.i32("tid")?, c.u64("count")?);
        let mut part = |bit: u64| (layout.read_format & bit != 0).then(|| c.u64("read values")).transpose();
        let (enabled, running) = (part(f::TOTAL_TIME_ENABLED)?, part(f::TOTAL_TIME_RUNNING)?);
        Ok(Some(Self { pid, tid, value, enabled, running, id: part(f::ID)?, lost: part(f::LOST)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_format() {
        let body = crate::record::kinds::tests::bytes(&[7 | 8 << 32, 100, 50, 40, 3, 2]);
        let of = |read_format| ThreadCount::decode(&Layout { read_format, ..Layout::default() }, &body);
        let count = ThreadCount { pid: 7, tid: 8, value: 100, ..ThreadCount::default() };
        assert_eq!(of(0), Ok(Some(count)));
        assert_eq!(of(f::ID), Ok(Some(ThreadCount { id: Some(50), ..count })));
        let (enabled, running) = (Some(50), Some(40));
        assert_eq!(of(0b1_0111), Ok(Some(ThreadCount { enabled, running, id: Some(3), lost: Some(2), ..count })));
        assert_eq!(of(f::GROUP), Ok(None));
        let cut = ThreadCount::decode(&Layout { read_format: 1, ..Layout::default() }, &body[..20]);
        assert!(cut.is_err());
    }
}
