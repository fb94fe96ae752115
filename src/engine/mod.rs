//! The threads between a source and a screen.
//!
//! ```text
//!   source thread ──Batch──▶ worker (owns session and profile) ──Arc<Answer>──▶ interface
//!        ▲                     │ ▲                                                 │
//!        └──Control────────────┘ └──names── symbolizer         Request ◀───────────┘
//! ```
//!
//! Beside them, live: [`host`] watches the machine's CPUs, [`softirqs`] measures the time in softirqs.
//!
//! Nothing waits for anything: batches stay in the kernel's rings while the queue is full, the
//! interface reads the newest answer by an atomic load, and names come when they are known.

pub mod aggregator;
pub mod curl;
pub mod events;
mod feeder;
pub mod fetch;
pub(crate) mod grpc;
pub mod headless;
pub mod host;
pub mod intervals;
mod missing_files;
pub mod offline;
mod quotas;
pub(crate) mod read_ahead;
pub mod shares;
pub mod softirqs;
pub mod symbolizer;
pub(crate) mod trigger_watch;
pub mod urgency;
pub mod view;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::cpu::sampler::HostView;
use crate::cpu::softirq::HandlerTimes;
use crate::event::catalogue::{self, CatalogueEvent};
use crate::event::spec::LookupPaths;
use crate::kernel::sys::RealSys;
use crate::kernel::{mapped, monotonic_ns, own_memory};
use crate::query::annotate::AnnotatedFunction;
use crate::query::{Answer, Question};
use crate::session::{Origin, TimeMark};
use crate::source::{Control, Info, Source, ViewFilter, Waker};
use crate::symbols::code::Listing;
use crate::symbols::{NameForm, SymbolOptions};
use crate::units::kit::{Settings, Spec, ViewState};

pub use crate::ingest::IntakeOptions;
pub use crate::ingest::snapshot::{HostSnapshot, Snapshot};
pub use crate::ingest::unit_feed::UnitAnswer;
pub use feeder::Feed;
pub use offline::Offline;
pub(crate) use trigger_watch::TriggerConfig;
pub use urgency::Urgency;

use feeder::Feeder;
use shares::{MemoryLimit, ThreadMemory};

/// Batches in flight between source and worker; one is a tenth of a second.
const QUEUE: usize = 256;

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where and how names are looked up.
    pub symbols: SymbolOptions,
    /// Bytes that the program may use; the oldest samples go first.
    pub memory: usize,
    /// How long samples are kept in nanoseconds, when not for ever.
    pub keep: Option<u64>,
    /// What is waited for, to save the samples around it.
    pub watched: Option<TriggerConfig>,
    /// Whose samples are dropped: ours, unless asked to keep them.
    pub own_pid: Option<i32>,
    /// What of a recording is kept.
    pub wants: IntakeOptions,
    /// How often a live view is brought up to date.
    pub refresh: Duration,
    /// What one sample costs the machine, for the header.
    pub per_sample: Option<Duration>,
    /// Inlined functions are not looked up.
    pub no_inline: bool,
    /// The priority with which threads that a live view is late without are served before all ordinary ones.
    pub realtime: Option<i32>,
}

/// A request of the interface to the engine.
#[derive(Debug)]
pub enum Request {
    /// The question to be answered from now on.
    Ask(Arc<Question>),
    /// A change to the source; the reply comes as [`Notice::Reply`].
    Control(Control),
    /// Stop bringing answers up to date, or go on.
    Freeze(bool),
    /// Forget all samples.
    Clear,
    /// Brings a live view up to date at this interval from now on.
    Refresh(Duration),
    /// The other profile that views may be compared with.
    Baseline(Option<Box<Offline>>),
    /// Marks a moment, its time counted from the session's start; one of the same name moves.
    Mark(TimeMark),
    /// Forgets the mark at a place in the list.
    Unmark(usize),
    /// Takes a function apart: one with samples, or that at an address of the DSO that was asked for last.
    /// It comes as [`Notice::Listing`].
    List(AnnotatedFunction, Option<u64>),
    /// Makes all names readable in another way.
    Names(NameForm),
    /// Shows functions that were inlined as frames of their own, or not.
    Inlined(bool),
    /// What is wanted of analysis units.
    Unit(UnitRequest),
    /// Figures of a unit over a recording that was read for it.
    UnitOf(Box<Offline>),
    /// A complete copy of the present state, for saving.
    Save(Sender<Box<Snapshot>>),
    /// The figures of all units, each with all its panels, for saving.
    UnitFigures(Sender<Vec<UnitAnswer>>),
    /// The end of the session.
    Stop,
}

/// A request about analysis units.
#[derive(Clone, Debug)]
pub enum UnitRequest {
    /// Starts one beside what runs.
    Start(&'static Spec, Settings),
    /// Ends one; its figures are kept for a while.
    Stop(u64),
    /// Lets one that was ended go on, with its figures.
    Resume(u64),
    /// Which unit is looked at, and what of it; none while another screen is shown.
    Look(Option<(u64, ViewState)>),
    /// Makes the present its baseline, or forgets that.
    Baseline(u64, bool),
    /// Resets the figures of all units; those before are kept until the next reset.
    Reset,
    /// Brings the figures before the last reset back.
    UndoReset,
}

/// News from the engine to the interface beside answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A new answer is there.
    Answer,
    /// New figures of the machine's CPUs or softirqs are there.
    Host,
    /// What this machine can measure.
    Catalogue(Arc<Vec<CatalogueEvent>>),
    /// Why the time in softirqs cannot be measured.
    SoftirqsFailed(String),
    /// A control was carried out, or why it was not.
    Reply(Result<String, String>),
    /// What the view is to be filtered by.
    View(ViewFilter),
    /// An annotated function, or why it is none.
    Listing(AnnotatedFunction, Result<Arc<Listing>, String>),
}

/// A running session.
pub struct Engine {
    requests: Sender<Request>,
    notices: Receiver<Notice>,
    notice_tx: Sender<Notice>,
    answer: Arc<ArcSwap<Answer>>,
    info: Info,
    /// What watches the machine's CPUs; none for recordings.
    host: Option<host::Host>,
    tracer: parking_lot::Mutex<Option<softirqs::Tracer>>,
    times: Arc<ArcSwapOption<HandlerTimes>>,
    units: Arc<ArcSwap<Vec<UnitAnswer>>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    /// Up to when the answer that there is tells all; none of a recording.
    seen: Option<Arc<AtomicU64>>,
    realtime: Option<i32>,
}

/// The session's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub now: u64,
    /// Up to when the newest answer tells all.
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
        let (recycle_tx, recycle_rx) = bounded(QUEUE);
        let (control_tx, control_rx) = unbounded();
        let answer = Arc::new(ArcSwap::from_pointee(Answer::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let queue_full = Arc::new(AtomicU64::new(0));
        let (wanted, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(monotonic_ns())));
        let (live, realtime) = (info.origin == Origin::Live, options.realtime);
        let held = Arc::new(ThreadMemory::default());
        let symbolizer = symbolizer::spawn(options.symbols.clone(), held.clone())?;
        let fetcher = match options.symbols.debuginfod.first() {
            Some(cache) if !options.symbols.servers.is_empty() => {
                Some(fetch::spawn(options.symbols.servers.clone(), cache.clone())?)
            }
            _ => None,
        };
        let times = Arc::new(ArcSwapOption::empty());
        let units: Arc<ArcSwap<Vec<UnitAnswer>>> = Arc::default();
        let host = match info.origin {
            Origin::Live => Some(host::Host::spawn(options.refresh, notice_tx.clone())?),
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
                answer: answer.clone(),
                times: times.clone(),
                units: units.clone(),
                symbolizer,
                fetcher,
                queue_full: queue_full.clone(),
                wanted: wanted.clone(),
                seen: seen.clone(),
                held: held.clone(),
            },
        );
        let feeder = Feeder {
            source,
            batches: batch_tx,
            recycle: recycle_rx,
            controls: control_rx,
            stop: stop.clone(),
            queue_full,
            wanted,
            live,
            realtime,
            held,
            is_bounded: whole.is_bounded(),
            most_waiting: whole.waiting(),
        };
        let profile = crate::kernel::thread("profile", move || worker.run())?;
        // A source whose thread cannot be started is dropped here, with its probes and its command.
        let mut threads = vec![crate::kernel::thread("source", move || feeder.run())?, profile];
        if let (Some(watched), Some(host)) = (watched, &host) {
            let links = trigger_watch::TriggerLinks {
                host: host.shared(),
                answer: answer.clone(),
                requests: requests.clone(),
                notices: notice_tx.clone(),
                stop: stop.clone(),
            };
            // Before the profile's thread, which it may still want something of when all ends.
            threads.insert(0, trigger_watch::spawn(watched, links)?);
        }
        Ok(Self {
            requests,
            notices,
            notice_tx,
            answer,
            info,
            host,
            tracer: parking_lot::Mutex::default(),
            times,
            units,
            threads,
            stop,
            waker,
            seen: live.then_some(seen),
            realtime,
        })
    }

    /// The session's time and the newest answer's age; none of a recording.
    pub(crate) fn clock(&self) -> Option<Clock> {
        let seen = self.seen.as_ref()?.load(Ordering::Relaxed);
        Some(Clock { now: monotonic_ns(), seen })
    }

    /// The urgency of the thread that shows a live session.
    pub(crate) fn urgency(&self) -> Urgency {
        if self.seen.is_some() { Urgency::of_live(self.realtime) } else { Urgency::usual() }
    }

    /// Facts about the source.
    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    /// Sends a request; after the end of the session it goes nowhere.
    pub fn send(&self, request: Request) {
        let _ = self.requests.send(request);
    }

    /// Another handle for requests, for threads of the caller.
    pub(crate) fn requests(&self) -> Sender<Request> {
        self.requests.clone()
    }

    /// The newest answer.
    pub fn answer(&self) -> Arc<Answer> {
        self.answer.load_full()
    }

    /// The newest figures of the machine's CPUs; none for recordings.
    pub(crate) fn host(&self) -> Option<Arc<HostView>> {
        self.host.as_ref().map(host::Host::view).filter(|view| view.interval > 0)
    }

    /// The time in softirqs, while it is measured or when the session's own events tell it.
    pub(crate) fn softirq_times(&self) -> Option<Arc<HandlerTimes>> {
        match self.tracer().as_ref() {
            Some(tracer) => tracer.times(),
            None => self.times.load_full(),
        }
    }

    /// The units' answers.
    pub(crate) fn units(&self) -> Arc<Vec<UnitAnswer>> {
        self.units.load_full()
    }

    /// Begins to measure the time in softirqs, or ends it. What goes wrong comes as a notice.
    pub(crate) fn trace_softirqs(&self, on: bool) {
        let mut tracer = self.tracer();
        if let Some(old) = tracer.take() {
            old.abandon();
        }
        if on {
            match softirqs::Tracer::spawn(self.notice_tx.clone()) {
                Ok(new) => *tracer = Some(new),
                Err(why) => drop(self.notice_tx.send(Notice::SoftirqsFailed(why))),
            }
        }
    }

    fn tracer(&self) -> parking_lot::MutexGuard<'_, Option<softirqs::Tracer>> {
        self.tracer.lock()
    }

    /// Finds out what this machine can measure; the answer comes as a notice.
    pub(crate) fn list_events(&self) {
        let notices = self.notice_tx.clone();
        let work =
            move || drop(notices.send(Notice::Catalogue(Arc::new(catalogue::all(&LookupPaths::system(), &RealSys)))));
        // Without a thread the screen shows what is measured and no more.
        let _ = crate::kernel::thread("events", work);
    }

    /// Sets the interval at which figures of the machine's CPUs are taken.
    pub(crate) fn set_host_interval(&self, interval: Duration) {
        if let Some(host) = &self.host {
            host.set_interval(interval);
        }
    }

    /// Has the PMUs of CPUs count what those do, or not any more.
    pub(crate) fn count_work(&self, on: bool) {
        if let Some(host) = &self.host {
            host.count_work(on);
        }
    }

    /// The channel of news.
    pub fn notices(&self) -> &Receiver<Notice> {
        &self.notices
    }

    /// Ends the session and waits for its threads, as it does when it is dropped.
    pub fn stop(self) {}
}

/// What the source holds of the machine, as a command that it started, goes with the session on every way out of it.
impl Drop for Engine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
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
