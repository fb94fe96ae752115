//! `perf_event_open`: the attribute, the calls, the ring buffer.

pub mod attr;
pub(crate) mod ring;
pub mod sys;
#[cfg(test)]
pub(crate) mod tests;
