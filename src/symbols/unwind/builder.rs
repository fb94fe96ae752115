//! Threads that build the tables of copied stacks for a live session, so that samples do not wait for large files.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use framehop::{Module, Unwinder};
use rustc_hash::FxHashSet;

use super::rows;
use super::{Built, tables_of};
use crate::session::{Dso, DsoId};
use crate::symbols::bytes::Part;
use crate::symbols::debug_image::Image;
use crate::symbols::options::SymbolOptions;
use crate::symbols::trust::isolated;

/// How long a stack waits for the tables of one file. Most are there by then.
const PATIENCE: Duration = Duration::from_millis(20);
/// Time for which the first stacks of a session wait in all, so that those of a command's start are complete.
const PATIENCE_AT_START: Duration = Duration::from_millis(500);

/// A file whose tables are to be built, and the limit of their decompressed sections.
pub(super) struct UnwindJob {
    pub(super) dso: Dso,
    pub(super) options: Arc<SymbolOptions>,
    most: usize,
}

type Finished<U> = (DsoId, Built<U>);

/// The threads, and the files that they have not finished.
pub(super) struct ModuleBuilder<U> {
    jobs: Sender<UnwindJob>,
    built: Receiver<Finished<U>>,
    coming: FxHashSet<DsoId>,
    /// Rest of [`PATIENCE_AT_START`].
    spare: Duration,
}

impl<U: Unwinder<Module = Module<Part>> + Default + Send + 'static> ModuleBuilder<U> {
    /// Creates the queues: that of the files to build tables of, and that of the results.
    pub(super) fn new() -> (Self, Receiver<UnwindJob>, Sender<Finished<U>>) {
        let ((jobs, wanted), (done, built)) = (unbounded(), unbounded());
        (Self { jobs, built, coming: FxHashSet::default(), spare: PATIENCE_AT_START }, wanted, done)
    }

    /// Starts a thread for small files and one for large files. Fails if a thread cannot be started.
    pub(super) fn start() -> std::io::Result<Self> {
        let (builder, wanted, done) = Self::new();
        let (large, large_wanted) = unbounded::<(UnwindJob, Image)>();
        let done_large = done.clone();
        crate::kernel::thread("stack tables", move || {
            for job in wanted {
                let id = job.dso.id;
                let image = Image::open(&job.dso, &job.options).ok();
                let built = match image {
                    Some(image) if rows::is_slow(&image.bytes) => {
                        // The receiver is dropped only at the end.
                        let _ = large.send((job, image));
                        continue;
                    }
                    Some(image) => build(job, image),
                    None => None,
                };
                if done.send((id, built)).is_err() {
                    return;
                }
            }
        })?;
        crate::kernel::thread("large stack tables", move || {
            for (job, image) in large_wanted {
                let id = job.dso.id;
                if done_large.send((id, build(job, image))).is_err() {
                    return;
                }
            }
        })?;
        Ok(builder)
    }

    /// Requests the tables of a file, and waits for them for a short time if `waits`.
    pub(super) fn order(
        &mut self,
        dso: &Dso,
        options: &Arc<SymbolOptions>,
        most: usize,
        waits: bool,
    ) -> Vec<(DsoId, Built<U>)> {
        self.coming.insert(dso.id);
        let _ = self.jobs.send(UnwindJob { dso: dso.clone(), options: options.clone(), most });
        if !waits {
            return Vec::new();
        }
        let start = Instant::now();
        let until = start + PATIENCE.max(self.spare);
        let mut built = Vec::new();
        while self.is_coming(dso.id)
            && let Ok(one) = self.built.recv_deadline(until)
        {
            self.coming.remove(&one.0);
            built.push(one);
        }
        self.spare = self.spare.saturating_sub(start.elapsed());
        built
    }

    /// Returns the tables that were finished since the last call.
    pub(super) fn take(&mut self) -> Vec<(DsoId, Built<U>)> {
        if self.coming.is_empty() {
            return Vec::new();
        }
        let built: Vec<_> = self.built.try_iter().collect();
        built.iter().for_each(|(id, _)| _ = self.coming.remove(id));
        built
    }

    /// Returns whether the tables of a file are being built.
    pub(super) fn is_coming(&self, dso: DsoId) -> bool {
        self.coming.contains(&dso)
    }
}

/// Builds tables; `None` if the file does not have any, or is damaged.
fn build<U: Unwinder<Module = Module<Part>> + Default + Send + 'static>(job: UnwindJob, image: Image) -> Built<U> {
    let tables = move || tables_of::<U>(&image, job.most);
    isolated::run_isolated(tables).ok().flatten()
}
