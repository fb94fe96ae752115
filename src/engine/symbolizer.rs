//! The thread that looks names up, so that neither samples nor frames wait for a file.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::profile::FrameId;
use crate::session::{Dso, DsoId};
use crate::symbols::resolver::Options;
use crate::symbols::{Found, Resolver};

/// One frame to name.
#[derive(Debug)]
pub struct Wanted {
    pub frame: FrameId,
    pub dso: Arc<Dso>,
    pub at: u64,
}

/// Frames to name; `epoch` is that of the profile whose ids they carry.
#[derive(Debug)]
pub struct Job {
    pub epoch: u64,
    pub frames: Vec<Wanted>,
}

/// Names that were found.
#[derive(Debug)]
pub struct Named {
    pub epoch: u64,
    pub frames: Vec<(FrameId, DsoId, u64, Option<Found>)>,
    pub problems: Vec<(DsoId, String)>,
}

/// Both ends of the thread's channels. It ends when the job sender is dropped.
#[derive(Debug)]
pub struct Symbolizer {
    pub jobs: Sender<Job>,
    pub names: Receiver<Named>,
}

/// Results come in portions, so that the first names do not wait for the last.
const PORTION: usize = 512;

pub fn spawn(options: Options) -> std::io::Result<Symbolizer> {
    let (jobs, job_rx) = unbounded::<Job>();
    let (name_tx, names) = unbounded();
    let work = move || {
        let mut resolver = Resolver::new(options);
        for job in job_rx {
            for portion in job.frames.chunks(PORTION) {
                let frames =
                    portion.iter().map(|w| (w.frame, w.dso.id, w.at, resolver.resolve(&w.dso, w.at))).collect();
                let named = Named { epoch: job.epoch, frames, problems: resolver.take_problems() };
                if name_tx.send(named).is_err() {
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name("symbols".to_owned()).spawn(work)?;
    Ok(Symbolizer { jobs, names })
}
