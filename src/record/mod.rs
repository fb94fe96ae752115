//! `PERF_RECORD_*` bytes as values, and their order in time: the same for a ring and for a file.
//!
//! Pure: no input or output happens here, and no length in the bytes is believed.

pub mod hardware;
pub(crate) mod in_place;
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
