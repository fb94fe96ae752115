//! The threads that look names and lines up, so that neither samples nor frames wait for a file.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::Notice;
use crate::profile::FrameId;
use crate::query::annotate::Target;
use crate::record::kinds::BuildId;
use crate::session::{Dso, DsoId};
use crate::symbols::lines::{Lines, Place};
use crate::symbols::resolver::Options;
use crate::symbols::{Form, Found, Resolver, code};

/// One frame to look up.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub frame: FrameId,
    pub dso: Arc<Dso>,
    pub at: u64,
}

/// Frames to name; `epoch` is that of the profile whose ids they carry.
#[derive(Debug)]
pub struct Job {
    pub epoch: u64,
    /// How names are made readable from now on.
    pub form: Option<Form>,
    /// A file for which more has come: it is looked for again.
    pub anew: Option<Arc<Dso>>,
    pub frames: Vec<Wanted>,
}

/// A function to take apart.
#[derive(Debug)]
pub struct ListJob {
    pub target: Target,
    pub dso: Arc<Dso>,
    pub at: u64,
    pub reply: Sender<Notice>,
}

/// Names that were found.
#[derive(Debug)]
pub struct Named {
    pub epoch: u64,
    pub frames: Vec<(FrameId, DsoId, u64, Option<Found>)>,
    pub problems: Vec<(DsoId, String)>,
    /// Where names of DSOs come from.
    pub sources: Vec<(DsoId, String)>,
    /// Files for which a debug file could be fetched.
    pub stripped: Vec<(DsoId, BuildId)>,
    /// Build ids of files that nothing had told.
    pub identified: Vec<(DsoId, BuildId)>,
    /// Those of which more is there that was not read yet.
    pub behind: Vec<DsoId>,
}

/// Frames whose lines are wanted.
pub type LineJob = Job;

/// Functions and lines that were found, innermost first.
#[derive(Debug)]
pub struct Lined {
    pub epoch: u64,
    pub frames: Vec<(FrameId, DsoId, Vec<Place>)>,
    pub problems: Vec<(DsoId, String)>,
}

/// Both ends of the threads' channels. They end when the job senders are dropped.
#[derive(Debug)]
pub struct Symbolizer {
    pub jobs: Sender<Job>,
    pub lists: Sender<ListJob>,
    pub names: Receiver<Named>,
    pub line_jobs: Sender<LineJob>,
    pub lines: Receiver<Lined>,
}

/// Results come in portions, so that the first names do not wait for the last.
const PORTION: usize = 512;
/// How often files are read on that are behind.
const PATIENCE: Duration = Duration::from_millis(5);
const IDLE: Duration = Duration::from_secs(3600);

pub fn spawn(options: Options) -> std::io::Result<Symbolizer> {
    let (jobs, job_rx) = unbounded::<Job>();
    let (name_tx, names) = unbounded();
    let of_lines = options.clone();
    let (lists, list_rx) = unbounded::<ListJob>();
    let work = move || {
        let mut resolver = Resolver::new(options.clone());
        let mut lines = Lines::new(options.clone());
        loop {
            // What is behind is read on while nobody asks, and between portions.
            let patience = if resolver.are_behind() { PATIENCE } else { IDLE };
            let job = crossbeam_channel::select! {
                default(patience) => {
                    resolver.read_on();
                    continue;
                }
                recv(job_rx) -> job => match job {
                    Ok(job) => job,
                    Err(_) => return,
                },
                recv(list_rx) -> job => match job {
                    Ok(ListJob { target, dso, at, reply }) => {
                        let listing = code::list(&dso, at, &mut resolver, &mut lines, &options).map(Arc::new);
                        let _ = reply.send(Notice::Listing(target, listing));
                        continue;
                    }
                    Err(_) => return,
                },
            };
            if let Some(form) = job.form {
                resolver.set_form(form);
            }
            if let Some(dso) = &job.anew {
                resolver.forget(dso);
                lines.forget(dso.id);
            }
            for portion in job.frames.chunks(PORTION) {
                let frames =
                    portion.iter().map(|w| (w.frame, w.dso.id, w.at, resolver.resolve(&w.dso, w.at))).collect();
                let (problems, sources) = (resolver.take_problems(), resolver.take_sources());
                let (stripped, identified) = (resolver.take_stripped(), resolver.take_identified());
                let mut behind: Vec<DsoId> =
                    portion.iter().filter(|w| resolver.is_behind(&w.dso)).map(|w| w.dso.id).collect();
                behind.dedup();
                let named = Named { epoch: job.epoch, frames, problems, sources, stripped, identified, behind };
                if name_tx.send(named).is_err() {
                    return;
                }
                resolver.read_on();
            }
        }
    };
    std::thread::Builder::new().name("symbols".to_owned()).spawn(work)?;
    let (line_jobs, line_rx) = unbounded::<LineJob>();
    let (line_tx, lines) = unbounded();
    let work = move || {
        // It takes what others leave: names and samples go before.
        let _ = rustix::process::setpriority_process(None, 19);
        let mut lines = Lines::new(of_lines);
        for job in line_rx {
            if let Some(form) = job.form {
                lines.set_form(form);
                continue;
            }
            if let Some(dso) = &job.anew {
                lines.forget(dso.id);
                continue;
            }
            let frames = job.frames.iter().map(|w| (w.frame, w.dso.id, lines.places(&w.dso, w.at))).collect();
            let problems = lines.take_problems();
            if line_tx.send(Lined { epoch: job.epoch, frames, problems }).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("lines".to_owned()).spawn(work)?;
    Ok(Symbolizer { jobs, lists, names, line_jobs, lines })
}
