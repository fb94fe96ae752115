//! `perf_event_open`: the attribute, the calls, the ring buffer.

pub mod attr;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod ring;
pub mod sys;
