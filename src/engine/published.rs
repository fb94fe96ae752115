//! The values that the threads of a session publish to each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use arc_swap::{ArcSwap, ArcSwapOption};

use crate::ingest::derived::softirq_times::HandlerTimes;
use crate::ingest::unit_feed::UnitAnswer;
use crate::query::Answer;

use super::shares::ThreadMemory;

/// The newest values, which any thread may read.
#[derive(Debug, Default)]
pub struct Published {
    /// The newest answer.
    pub answer: ArcSwap<Answer>,
    /// The time in softirqs, if the session's own events measure it.
    pub times: ArcSwapOption<HandlerTimes>,
    /// The figures of analysis units.
    pub units: ArcSwap<Vec<UnitAnswer>>,
    /// How often the source's thread found the queue of batches full.
    pub queue_full: AtomicU64,
    /// Requests pending records from the source.
    pub wanted: AtomicBool,
    /// The time up to which the published answer is complete.
    pub seen: AtomicU64,
    /// Ends the threads of the session.
    pub stop: AtomicBool,
    /// The memory that other threads than the worker use.
    pub held: Arc<ThreadMemory>,
}
