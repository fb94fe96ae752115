//! Live measurement of the time in softirqs and interrupts: a separate thread with its own tracepoints, on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use arc_swap::ArcSwapOption;

use crate::event::spec::LookupPaths;
use crate::event::{CallGraph, Interpreters, parse};
use crate::ingest::derived::softirq_times::{EVENTS, HandlerTimes};
use crate::kernel::limits::Rights;
use crate::kernel::sys::RealSys;
use crate::kernel::{monotonic_ns, thread_cpu_ns};
use crate::source::live::attr::Rate;
use crate::source::live::{LiveConfig, LiveSource};
use crate::source::{Batch, Progress, Source};

use crate::ingest::derived::softirqs::SoftirqTrace;
use crate::ingest::{Ingest, IntakeOptions};

const PUBLISH_NS: u64 = 1_000_000_000;
/// Data pages of each ring: enough for a storm of interrupts during a tick of 100 ms.
const PAGES: usize = 256;

#[derive(Debug)]
pub(crate) struct Tracer {
    times: Arc<ArcSwapOption<HandlerTimes>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Tracer {
    /// Opens the tracepoints on some CPUs, or on all; the error has the reason of a failure.
    pub(crate) fn start(cpus: Option<Vec<u32>>) -> Result<Self, String> {
        let (source, trace) = open(cpus)?;
        Self::run(|_| (), move || Ok((source, trace)))
    }

    /// Starts in the background, because opening takes the kernel a while; `notify` gets new figures and failures.
    pub(crate) fn spawn(notify: impl Fn(Result<(), String>) + Send + 'static) -> Result<Self, String> {
        Self::run(notify, || open(None))
    }

    fn run(
        notify: impl Fn(Result<(), String>) + Send + 'static,
        open: impl FnOnce() -> Result<(LiveSource, SoftirqTrace), String> + Send + 'static,
    ) -> Result<Self, String> {
        let (times, stop) = (Arc::new(ArcSwapOption::empty()), Arc::new(AtomicBool::new(false)));
        let (published, stopped) = (times.clone(), stop.clone());
        let work = move || match open() {
            Ok((source, trace)) => TracerThread { source, trace, times: published, stop: stopped, notify }.run(),
            Err(why) => notify(Err(why)),
        };
        let thread = crate::kernel::thread("softirqs", work).map_err(|error| error.to_string())?;
        Ok(Self { times, stop, thread: Some(thread) })
    }

    pub(crate) fn times(&self) -> Option<Arc<HandlerTimes>> {
        self.times.load_full()
    }

    /// Ends it without waiting for its thread.
    pub(crate) fn abandon(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread = None;
    }
}

fn open(cpus: Option<Vec<u32>>) -> Result<(LiveSource, SoftirqTrace), String> {
    let events = parse(&EVENTS.join(","), &LookupPaths::system()).map_err(|fault| fault.to_string())?;
    let config = LiveConfig {
        events,
        rate: Rate::Period(1),
        chains: CallGraph::None,
        pages: Some(PAGES),
        cpus,
        force: true,
        interpreters: Interpreters::Off,
        ..LiveConfig::default()
    };
    let source = LiveSource::start(config, Box::new(RealSys), Rights::read()).map_err(|error| error.to_string())?;
    let refused = source.info().states.iter().find_map(|state| state.note.clone());
    let trace = SoftirqTrace::new(source.info())
        .ok_or_else(|| refused.unwrap_or_else(|| "the formats of irq:softirq_* cannot be read".to_owned()))?;
    Ok((source, trace))
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct TracerThread<N> {
    source: LiveSource,
    trace: SoftirqTrace,
    times: Arc<ArcSwapOption<HandlerTimes>>,
    stop: Arc<AtomicBool>,
    notify: N,
}

impl<N: Fn(Result<(), String>)> TracerThread<N> {
    fn run(mut self) {
        let mut ingest = Ingest::new(
            self.source.info(),
            None,
            IntakeOptions { chains: false, fields: false, ..IntakeOptions::default() },
        );
        let mut batch = Batch::default();
        self.trace.pairs.begin(monotonic_ns());
        let mut lost_before = 0;
        let mut published = (monotonic_ns(), thread_cpu_ns(), 0u64);
        let mut seen = 0u64;
        while !self.stop.load(Ordering::Relaxed) {
            let step = ingest.read(&mut self.source, &mut batch);
            if let Some(lost) = batch.lost().filter(|n| *n > lost_before) {
                self.trace.pairs.lose(lost - lost_before);
                lost_before = lost;
            }
            let trace = &mut self.trace;
            ingest.feed_to(&mut batch, |core, input, _, record| {
                let Ok(Some((header, body, _))) = crate::record::kinds::split(record) else { return };
                if header.kind == crate::record::types::SAMPLE
                    && let Some((event, sample)) = core.decode(input, header, body)
                {
                    seen += 1;
                    trace.add(event, &sample);
                }
            });
            // The end of a source is marked by the highest value, which is not a time.
            if let Some(until) = batch.complete_until.filter(|until| *until < u64::MAX) {
                self.trace.pairs.until(until);
            }
            let now = monotonic_ns();
            if now - published.0 >= PUBLISH_NS {
                let (then, cpu_then, seen_then) = std::mem::replace(&mut published, (now, thread_cpu_ns(), seen));
                let (ns, cpu) = ((now - then) as f64, (published.1 - cpu_then) as f64);
                let times = &mut self.trace.pairs.times;
                (times.own_cost, times.rate) = (100.0 * cpu / ns, (seen - seen_then) as f64 * 1e9 / ns);
                self.publish();
            }
            if !matches!(step, Ok(Progress::More)) {
                return;
            }
        }
        self.publish();
    }

    fn publish(&self) {
        self.times.store(Some(Arc::new(self.trace.pairs.snapshot())));
        (self.notify)(Ok(()));
    }
}
