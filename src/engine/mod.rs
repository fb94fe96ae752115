//! The threads between a source and a screen.
//!
//! ```text
//!   source thread ──Batch──▶ worker (owns session and profile) ──Arc<Answer>──▶ interface
//!        ▲                     │ ▲                                                 │
//!        └──Control────────────┘ └──names── symbolizer         Request ◀───────────┘
//! ```
//!
//! In a live session, [`HostThread`] also watches the machine's CPUs, and [`Tracer`] measures the time in softirqs.
//!
//! No thread blocks on another: batches stay in the kernel's rings while the queue is full, the interface reads the
//! newest answer with an atomic load, and names arrive later than samples.

pub mod aggregator;
pub mod curl;
pub mod events;
mod feeder;
pub mod fetch;
pub mod headless;
pub mod intervals;
mod missing_files;
pub mod offline;
pub mod published;
pub(crate) mod read_ahead;
pub mod shares;
pub mod symbolizer;
pub(crate) mod trigger_watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::event::catalogue::{self, CatalogueEvent};
use crate::event::spec::LookupPaths;
use crate::ingest::derived::softirq_times::HandlerTimes;
use crate::kernel::sys::RealSys;
use crate::kernel::{mapped, monotonic_ns, own_memory};
use crate::machine::host::HostThread;
use crate::machine::sampler::HostView;
use crate::machine::softirqs::Tracer;
use crate::query::annotate::AnnotatedFunction;
use crate::query::{Answer, Question};
use crate::session::{DsoKind, Origin, TimeMark};
use crate::source::{Control, Info, Source, ViewFilter, Waker};
use crate::symbols::code::Listing;
use crate::symbols::{NameForm, SymbolOptions};
use crate::units::kit::{Settings, Spec, ViewState};

pub use crate::ingest::IntakeOptions;
pub use crate::ingest::snapshot::{HostSnapshot, Snapshot};
pub use crate::ingest::unit_feed::UnitAnswer;
pub use crate::kernel::ThreadPriority;
pub(crate) use crate::kernel::thread_wanted_cpu_ns;
pub use feeder::SourceMessage;
pub use offline::Offline;
pub(crate) use trigger_watch::TriggerConfig;

use feeder::{Feeder, SentBatches};
use published::Published;
use shares::MemoryLimit;

/// The maximum number of batches between source and worker; in a live session, each covers up to a second.
const QUEUE: usize = 256;

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where and how names are looked up.
    pub symbols: SymbolOptions,
    /// The memory limit of the program in bytes; the oldest samples are dropped first.
    pub memory: usize,
    /// How long samples are kept in nanoseconds, if limited.
    pub keep: Option<u64>,
    /// Triggers that save the samples around them.
    pub watched: Option<TriggerConfig>,
    /// The process whose samples are dropped: ours, unless the user keeps them.
    pub own_pid: Option<i32>,
    /// The parts of a recording to keep.
    pub wants: IntakeOptions,
    /// The refresh interval of a live view.
    pub refresh: Duration,
    /// The cost of a sample, for the header.
    pub per_sample: Option<Duration>,
    /// Whether inlined functions are not looked up.
    pub no_inline: bool,
    /// The real-time priority of threads that a live view depends on.
    pub realtime: Option<i32>,
}

/// A request of the interface to the engine.
#[derive(Debug)]
pub enum Request {
    /// Sets the question to answer from now on.
    Ask(Arc<Question>),
    /// Changes the source; the reply is a [`Notice::Reply`].
    Control(Control),
    /// Freezes answers, or resumes updating them.
    Freeze(bool),
    /// Drops all samples.
    Clear,
    /// Sets the refresh interval of a live view.
    Refresh(Duration),
    /// Sets the other profile that views may be compared with.
    Baseline(Option<Box<Offline>>),
    /// Marks a moment, with a time relative to the session's start; an existing mark of that name moves.
    Mark(TimeMark),
    /// Removes the mark at an index of the list.
    Unmark(usize),
    /// Annotates a function: one with samples, or at an address of the DSO annotated last. Result: [`Notice::Listing`].
    List(AnnotatedFunction, Option<u64>),
    /// Looks for the way to name a DSO's code, by its kind and path. The reply is a [`Notice::Reply`], if more is known
    /// than these tell.
    Remedy(DsoKind, Arc<str>),
    /// Has a Java process write a map of its code's names. The reply is a [`Notice::Reply`].
    PerfMap(i32),
    /// Sets the form of all names.
    Names(NameForm),
    /// Shows inlined functions as separate frames, or hides them.
    Inlined(bool),
    /// A request about analysis units.
    Unit(UnitRequest),
    /// Adds a unit with the recording that was read for it.
    UnitOf(Box<Offline>),
    /// Requests a complete copy of the current state, for saving.
    Save(Sender<Box<Snapshot>>),
    /// Requests the figures of all units with all panels, for saving.
    UnitFigures(Sender<Vec<UnitAnswer>>),
    /// Ends the session.
    Stop,
}

/// A request about analysis units.
#[derive(Clone, Debug)]
pub enum UnitRequest {
    /// Starts a unit in addition to those that run.
    Start(&'static Spec, Settings),
    /// Ends a unit; its figures are kept for a while.
    Stop(u64),
    /// Restarts an ended unit with its figures.
    Resume(u64),
    /// Selects the unit on the screen, and its view; `None` while another screen is shown.
    Look(Option<(u64, ViewState)>),
    /// Sets the present figures as its baseline, or drops the baseline.
    Baseline(u64, bool),
    /// Resets the figures of all units; the old ones are kept until the next reset.
    Reset,
    /// Restores the figures before the last reset.
    UndoReset,
}

/// A notification from the engine to the interface, in addition to answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A new answer is available.
    Answer,
    /// New figures of the machine's CPUs or softirqs are available.
    Host,
    /// The events that this machine can measure.
    Catalogue(Arc<Vec<CatalogueEvent>>),
    /// Measuring the time in softirqs failed, with the reason.
    SoftirqsFailed(String),
    /// The result of a control.
    Reply(Result<String, String>),
    /// The filter that the view should have.
    View(ViewFilter),
    /// An annotated function, or why it cannot be annotated.
    Listing(AnnotatedFunction, Result<Arc<Listing>, String>),
}

/// A running session.
pub struct Engine {
    requests: Sender<Request>,
    notices: Receiver<Notice>,
    notice_tx: Sender<Notice>,
    shared: Arc<Published>,
    live: bool,
    info: Info,
    /// The thread that watches the machine's CPUs; `None` for recordings.
    host: Option<HostThread>,
    tracer: parking_lot::Mutex<Option<Tracer>>,
    threads: Vec<JoinHandle<()>>,
    waker: Waker,
    realtime: Option<i32>,
}

/// The session's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub now: u64,
    /// The time up to which the newest answer is complete.
    pub seen: u64,
}

impl Engine {
    /// Starts the threads.
    pub fn spawn(source: Box<dyn Source>, mut options: Options) -> std::io::Result<Self> {
        let whole = MemoryLimit(options.memory);
        if whole.is_bounded() {
            own_memory::stay_small();
            mapped::set_room(whole.copies());
            options.symbols.budget = whole.tables();
        }
        let (info, waker) = (source.info().clone(), source.waker());
        let (requests, request_rx) = unbounded();
        let (notice_tx, notices) = unbounded();
        let (batch_tx, batch_rx) = bounded(QUEUE);
        let (recycle_tx, recycle_rx) = aggregator::used_buffers();
        let (control_tx, control_rx) = unbounded();
        let shared = Arc::new(Published { seen: AtomicU64::new(monotonic_ns()), ..Published::default() });
        let (live, realtime) = (info.origin == Origin::Live, options.realtime);
        let symbolizer = symbolizer::spawn(options.symbols.clone(), shared.held.clone())?;
        let fetcher = match options.symbols.debuginfod.first() {
            Some(cache) if !options.symbols.servers.is_empty() => {
                Some(fetch::spawn(options.symbols.servers.clone(), cache.clone())?)
            }
            _ => None,
        };
        let host = match info.origin {
            Origin::Live => {
                let notices = notice_tx.clone();
                let target = info.whom.process_ids();
                Some(HostThread::spawn(options.refresh, target, move || notices.send(Notice::Host).is_ok())?)
            }
            Origin::Recorded => None,
        };
        let watched = options.watched.clone();
        let worker = aggregator::Aggregator::new(
            &info,
            options,
            aggregator::AggregatorLinks {
                batches: batch_rx,
                recycle: recycle_tx,
                requests: request_rx,
                controls: control_tx,
                waker: waker.clone(),
                notices: notice_tx.clone(),
                shared: shared.clone(),
                symbolizer,
                fetcher,
            },
        );
        let feeder = Feeder {
            source,
            batches: batch_tx,
            recycle: recycle_rx,
            controls: control_rx,
            shared: shared.clone(),
            live,
            realtime,
            is_bounded: whole.is_bounded(),
            looked: None,
            most_waiting: whole.waiting(),
            sent: SentBatches::default(),
        };
        let profile = crate::kernel::thread("profile", move || worker.run())?;
        // If its thread cannot be started, the source is dropped here, with its probes and its command.
        let mut threads = vec![crate::kernel::thread("source", move || feeder.run())?, profile];
        if let (Some(watched), Some(host)) = (watched, &host) {
            let links = trigger_watch::TriggerLinks {
                host: host.shared(),
                shared: shared.clone(),
                requests: requests.clone(),
                notices: notice_tx.clone(),
            };
            // Before the profile's thread, which it may still need when the session ends.
            threads.insert(0, trigger_watch::spawn(watched, links)?);
        }
        Ok(Self {
            requests,
            notices,
            notice_tx,
            shared,
            live,
            info,
            host,
            tracer: parking_lot::Mutex::default(),
            threads,
            waker,
            realtime,
        })
    }

    /// Returns the session's time and that of the newest answer; `None` for a recording.
    pub(crate) fn clock(&self) -> Option<Clock> {
        self.live.then(|| Clock { now: monotonic_ns(), seen: self.shared.seen.load(Ordering::Relaxed) })
    }

    pub(crate) fn thread_priority(&self) -> ThreadPriority {
        if self.live { ThreadPriority::of_live(self.realtime) } else { ThreadPriority::usual() }
    }

    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    /// Sends a request; it is ignored after the end of the session.
    pub fn send(&self, request: Request) {
        let _ = self.requests.send(request);
    }

    pub(crate) fn requests(&self) -> Sender<Request> {
        self.requests.clone()
    }

    /// Returns the newest answer.
    pub fn answer(&self) -> Arc<Answer> {
        self.shared.answer.load_full()
    }

    pub(crate) fn host(&self) -> Option<Arc<HostView>> {
        self.host.as_ref().map(HostThread::view).filter(|view| view.interval > 0)
    }

    /// Returns the time in softirqs, while it is measured or if the session's own events provide it.
    pub(crate) fn softirq_times(&self) -> Option<Arc<HandlerTimes>> {
        match self.tracer().as_ref() {
            Some(tracer) => tracer.times(),
            None => self.shared.times.load_full(),
        }
    }

    pub(crate) fn units(&self) -> Arc<Vec<UnitAnswer>> {
        self.shared.units.load_full()
    }

    pub(crate) fn trace_softirqs(&self, on: bool) {
        let mut tracer = self.tracer();
        if let Some(old) = tracer.take() {
            old.abandon();
        }
        if on {
            let notices = self.notice_tx.clone();
            let notify = move |result: Result<(), String>| {
                let _ = notices.send(result.map_or_else(Notice::SoftirqsFailed, |()| Notice::Host));
            };
            match Tracer::spawn(notify) {
                Ok(new) => *tracer = Some(new),
                Err(why) => drop(self.notice_tx.send(Notice::SoftirqsFailed(why))),
            }
        }
    }

    fn tracer(&self) -> parking_lot::MutexGuard<'_, Option<Tracer>> {
        self.tracer.lock()
    }

    /// Determines which events this machine can measure; sends the result as a notice.
    pub(crate) fn list_events(&self) {
        let notices = self.notice_tx.clone();
        let work =
            move || drop(notices.send(Notice::Catalogue(Arc::new(catalogue::all(&LookupPaths::system(), &RealSys)))));
        // Without the thread, the screen shows only the events that are measured.
        let _ = crate::kernel::thread("events", work);
    }

    pub(crate) fn set_host_interval(&self, interval: Duration) {
        if let Some(host) = &self.host {
            host.set_interval(interval);
        }
    }

    /// Follows the processes of the view in the figures of /proc.
    pub(crate) fn follow(&self, processes: Vec<i32>) {
        if let Some(host) = &self.host {
            host.follow(processes);
        }
    }

    pub(crate) fn count_work(&self, on: bool) {
        if let Some(host) = &self.host {
            host.count_work(on);
        }
    }

    /// Returns the channel of notices.
    pub fn notices(&self) -> &Receiver<Notice> {
        &self.notices
    }

    /// Ends the session and waits for its threads, like dropping it.
    pub fn stop(self) {}
}

/// Resources of the source, such as a command that it started, are released on every way out of the session.
impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        let profile = self.threads.pop();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            let _ = thread.join();
        }
        self.send(Request::Stop);
        if let Some(profile) = profile {
            let _ = profile.join();
        }
        if let Some(host) = self.host.take() {
            host.stop();
        }
    }
}
