//! The channels of the worker, and their other ends.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::engine::fetch;
use crate::engine::published::Published;
use crate::engine::symbolizer::{FoundLines, ListJob, LookedUp, LookupJob, Symbolizer};
use crate::engine::{Notice, Request, SourceMessage};
use crate::source::{Control, Waker};

/// The number of used buffers that wait for new records. The source needs one at a time; after a backlog, hundreds of up to
/// the size of a ring are free at once.
const SPARES: usize = 4;

/// Returns the channel of used buffers. Those that it does not take are freed.
pub(crate) fn used_buffers() -> (Sender<Vec<u8>>, Receiver<Vec<u8>>) {
    bounded(SPARES)
}

/// The channels of the worker.
pub struct AggregatorLinks {
    /// Batches from the source's thread, in order.
    pub batches: Receiver<SourceMessage>,
    /// Used buffers of batches, for the source.
    pub recycle: Sender<Vec<u8>>,
    /// Requests of the interface.
    pub requests: Receiver<Request>,
    /// Changes for the source's thread to carry out.
    pub controls: Sender<Control>,
    /// Wakes the source's thread, so that it handles them at once.
    pub waker: Waker,
    /// Notifications to the interface, in addition to answers.
    pub notices: Sender<Notice>,
    /// The values that threads publish.
    pub shared: Arc<Published>,
    /// The threads that look up names and lines.
    pub symbolizer: Symbolizer,
    /// The thread that fetches debug files, if servers are configured.
    pub fetcher: Option<(Sender<fetch::WantedFile>, Receiver<fetch::Fetched>)>,
}

/// The other ends of the worker's channels, for a caller that runs it without threads.
#[derive(Debug)]
pub struct AggregatorEnds {
    /// Batches for the worker.
    pub batches: Sender<SourceMessage>,
    /// Used buffers of batches.
    pub recycled: Receiver<Vec<u8>>,
    /// Requests for the worker.
    pub requests: Sender<Request>,
    /// Changes for the source.
    pub controls: Receiver<Control>,
    /// Notifications to the interface.
    pub notices: Receiver<Notice>,
    /// The values that the worker publishes.
    pub shared: Arc<Published>,
    /// Frames that need names.
    pub jobs: Receiver<LookupJob>,
    /// Functions to annotate.
    pub lists: Receiver<ListJob>,
    /// Names for the worker.
    pub names: Sender<LookedUp>,
    /// Frames that need inlined functions and lines.
    pub line_jobs: Receiver<LookupJob>,
    /// Inlined functions and lines for the worker.
    pub lines: Sender<FoundLines>,
}

impl AggregatorLinks {
    /// Returns channels of a worker without other threads. The caller plays all their parts.
    pub fn without_threads() -> (Self, AggregatorEnds) {
        let ((batch_tx, batches), (recycle, recycled)) = (unbounded(), used_buffers());
        let ((request_tx, requests), (controls, control_rx)) = (unbounded(), unbounded());
        let ((notices, notice_rx), (job_tx, jobs)) = (unbounded(), unbounded());
        let ((list_tx, lists), (name_tx, names)) = (unbounded(), unbounded());
        let ((line_job_tx, line_jobs), (line_tx, lines)) = (unbounded(), unbounded());
        let shared = Arc::new(Published::default());
        let links = Self {
            batches,
            recycle,
            requests,
            controls,
            waker: Waker::default(),
            notices,
            shared: shared.clone(),
            symbolizer: Symbolizer { jobs: job_tx, lists: list_tx, names, line_jobs: line_job_tx, lines },
            fetcher: None,
        };
        let ends = AggregatorEnds {
            batches: batch_tx,
            recycled,
            requests: request_tx,
            controls: control_rx,
            notices: notice_rx,
            shared,
            jobs,
            lists,
            names: name_tx,
            line_jobs,
            lines: line_tx,
        };
        (links, ends)
    }
}
