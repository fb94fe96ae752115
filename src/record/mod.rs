//! `PERF_RECORD_*` bytes as values, and their order in time: the same for a ring and for a file. This module does no
//! input or output, and does not trust lengths in the bytes.

pub(crate) mod dns_message;
pub mod hardware;
pub(crate) mod in_place;
pub(crate) mod interpreted;
pub mod kinds;
pub(crate) mod off_cpu;
pub(crate) mod open_spans;
pub(crate) mod order;
pub(crate) mod rare;
pub(crate) mod registers;
pub mod sample;
pub(crate) mod thread_count;
pub mod types;

pub use kinds::{Header, Record, RecordError};
pub use open_spans::ThreadChange;
pub use sample::{Layout, Sample, SampleId};
