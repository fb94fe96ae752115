//! The cost of samples of many CPUs: `cargo bench --bench samples -- CPUS SECONDS`.
//!
//! Records in the kernel's format reach the thread that owns the profile, as in a live session: samples of 999 Hz on each
//! CPU with stacks that change like those of running programs, and processes that start and end. It decodes, orders and
//! names them, and answers the first screen's question as often as a live view is replaced. Only its own CPU time counts.

use std::sync::Arc;
use std::time::Duration;

use perfprof_tui::engine::aggregator::{Aggregator, AggregatorEnds, AggregatorLinks};
use perfprof_tui::engine::symbolizer::LookedUp;
use perfprof_tui::engine::{IntakeOptions, Options, Request, SourceMessage};
use perfprof_tui::filter::Filter;
use perfprof_tui::kernel::attr::{Attr, Flag};
use perfprof_tui::perfdata::EventDesc;
use perfprof_tui::query::{Age, Question};
use perfprof_tui::record::kinds::{FileId, Mmap, encode, encode_comm, types};
use perfprof_tui::session::Origin;
use perfprof_tui::source::{Batch, Info};
use perfprof_tui::symbols::{SymbolOptions, Symbolized};
use rustc_hash::FxHashMap;
use rustix::time::{ClockId, clock_gettime};

const HZ: u64 = 999;
const START: u64 = 1_000_000_000_000;
/// Rings are read this often, and a view is replaced after nine rounds.
const ROUND_NS: u64 = 100_000_000;
const ROUNDS_PER_VIEW: u64 = 9;
/// IP, TID, TIME, CALLCHAIN, CPU, PERIOD and IDENTIFIER of `PERF_SAMPLE_*`.
const SAMPLE_TYPE: u64 = 0x1_01a7;
const KERNEL_CONTEXT: u64 = -128i64 as u64;
const USER_CONTEXT: u64 = -512i64 as u64;
const KERNEL: u64 = 0xffff_ffff_8100_0000;
const PROGRAM: u64 = 0x40_0000;
const FUNCTIONS: u64 = 600;
/// Bytes of a function.
const SIZE: u64 = 256;
const DEEPEST: usize = 48;
/// A number above those of this machine's processes.
const FIRST_PID: i32 = 1 << 23;

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let (cpus, seconds): (u64, u64) = (arguments.next().unwrap_or(64), arguments.next().unwrap_or(40));
    let (mut load, mut live) = (Load::new(cpus), Live::start(cpus as usize));
    let (mut records, mut views, mut view_ns, mut taken_ns) = (0, 0, 0, 0);
    for round in 1..=seconds * 1_000_000_000 / ROUND_NS {
        let batch = load.round(round);
        records += batch.index.len();
        taken_ns += live.take(batch);
        if round % ROUNDS_PER_VIEW == 0 {
            view_ns += live.view();
            views += 1;
        }
    }
    let all_ns = (taken_ns + view_ns) as f64;
    let answer = live.ends.shared.answer.load();
    let samples = answer.ledger.received;
    println!("{cpus} CPUs, {seconds} s: {samples} samples, {records} records, {} rows", answer.view.rows);
    println!("records: {:.2} µs per sample", taken_ns as f64 / 1e3 / samples as f64);
    println!("views: {:.2} ms each", view_ns as f64 / 1e6 / f64::from(views));
    println!(
        "in all: {:.2} µs per sample, {:.3} of a CPU",
        all_ns / 1e3 / samples as f64,
        all_ns / 1e9 / seconds as f64
    );
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A thread with its current calls: each is a function, and which of its calls it makes.
struct Thread {
    pid: i32,
    program: u64,
    calls: Vec<(u64, u64)>,
}

struct Load {
    random: Random,
    cpus: u64,
    threads: Vec<Thread>,
    next_pid: i32,
}

impl Load {
    fn new(cpus: u64) -> Self {
        Self { random: Random(42), cpus, threads: Vec::new(), next_pid: FIRST_PID }
    }

    /// Returns the records of a round, ring after ring. One in ten threads is of a program that has just started.
    fn round(&mut self, round: u64) -> Batch {
        let mut batch = Batch { complete_until: Some(START + round * ROUND_NS), ..Batch::default() };
        let begin = START + (round - 1) * ROUND_NS;
        for cpu in 0..self.cpus {
            if round == 1 || self.random.next(10) == 0 {
                self.execute(cpu, begin, &mut batch);
            }
            let first = (round - 1) * HZ / 10;
            for i in first..round * HZ / 10 {
                let time = begin + (i - first) * 1_000_000 + 1 + cpu;
                self.sample(cpu, time, &mut batch);
            }
        }
        batch
    }

    fn execute(&mut self, cpu: u64, time: u64, batch: &mut Batch) {
        let (pid, program) = (self.next_pid, self.random.next(12));
        self.next_pid += 1;
        let trailer = words(&[task(pid), time, cpu, 1]);
        batch.index.push((time, batch.bytes.len()));
        encode_comm(&mut batch.bytes, pid, pid, true, format!("program{program}").as_bytes(), &trailer).expect("fits");
        let (name, file) = (format!("/nonexistent/program{program}"), FileId::None);
        let len = FUNCTIONS * SIZE;
        let map = Mmap { pid, tid: pid, start: PROGRAM, len, pgoff: 0, file, prot: 5, flags: 2, name: name.as_bytes() };
        batch.index.push((time, batch.bytes.len()));
        map.encode(&mut batch.bytes, &trailer).expect("fits");
        let thread = Thread { pid, program, calls: vec![(0, 0)] };
        match self.threads.get_mut(cpu as usize) {
            Some(old) => *old = thread,
            None => self.threads.push(thread),
        }
    }

    fn sample(&mut self, cpu: u64, time: u64, batch: &mut Batch) {
        let random = &mut self.random;
        let thread = &mut self.threads[cpu as usize];
        let kept = thread.calls.len().saturating_sub(random.next(6) as usize).max(1);
        thread.calls.truncate(kept);
        for _ in 0..random.next(7).min((DEEPEST - kept) as u64) {
            let (function, call) = thread.calls[thread.calls.len() - 1];
            let callee = (function * 31 + call * 7 + thread.program * 13 + 1) % FUNCTIONS;
            thread.calls.push((callee, random.next(3)));
        }
        let address = |(function, offset): (u64, u64)| PROGRAM + function * SIZE + offset;
        let (leaf, callers) = thread.calls.split_last().expect("main");
        let user = std::iter::once(address((leaf.0, 4 * random.next(64))));
        let user: Vec<u64> = user.chain(callers.iter().rev().map(|(f, call)| address((*f, 16 * call + 5)))).collect();
        let mut chain = Vec::new();
        if random.next(4) == 0 {
            let call = random.next(20);
            chain.push(KERNEL_CONTEXT);
            chain.extend(
                (0..4 + call % 5).map(|i| KERNEL + (call * 9 + i) * SIZE + if i == 0 { random.next(64) } else { 9 }),
            );
        }
        let is_kernel = !chain.is_empty();
        chain.push(USER_CONTEXT);
        chain.extend(&user);
        let ip = if is_kernel { chain[1] } else { user[0] };
        let head = [1, ip, task(thread.pid), time, cpu, 1_001_001, chain.len() as u64];
        batch.index.push((time, batch.bytes.len()));
        let body = words(&[&head[..], &chain].concat());
        encode(&mut batch.bytes, types::SAMPLE, if is_kernel { 1 } else { 2 }, |out| out.extend(body)).expect("fits");
    }
}

fn task(pid: i32) -> u64 {
    pid as u64 | (pid as u64) << 32
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The thread that owns the profile, called directly.
struct Live {
    worker: Aggregator,
    ends: AggregatorEnds,
    known: FxHashMap<(u32, u64), Arc<str>>,
}

impl Live {
    fn start(n_cpus: usize) -> Self {
        let mut attr = Attr { kind: 1, sample_type: SAMPLE_TYPE, period_or_freq: HZ, ..Attr::default() };
        attr.set(Flag::Freq, true);
        attr.set(Flag::SampleIdAll, true);
        let events = vec![EventDesc { name: "cpu-clock".into(), attr, ids: vec![1] }];
        let info = Info { events, start: START, n_cpus, ..Info::new(Origin::Live) };
        let (links, ends) = AggregatorLinks::without_threads();
        let options = Options {
            symbols: SymbolOptions::live(),
            memory: 1 << 30,
            keep: None,
            watched: None,
            own_pid: None,
            wants: IntakeOptions::default(),
            // Views are requested, so that the number of them does not depend on the machine.
            refresh: Duration::from_secs(3600),
            per_sample: None,
            realtime: None,
            no_inline: true,
        };
        let worker = Aggregator::new(&info, options, links);
        let mut live = Self { worker, ends, known: FxHashMap::default() };
        let question = Question {
            age: Age::Last(30_000_000_000),
            filter: Filter::parse("!idle").ok().map(Arc::new),
            height: 60,
            ..Question::default()
        };
        live.request(Request::Ask(Arc::new(question)));
        live
    }

    /// Returns the CPU time that the worker takes for a batch and the names of its new frames.
    fn take(&mut self, batch: Batch) -> u64 {
        self.ends.shared.held.waiting.fetch_add(batch.bytes.len(), std::sync::atomic::Ordering::Relaxed);
        self.ends.batches.send(SourceMessage::Batch(Box::new(batch))).expect("the worker is here");
        let mut took = self.turn();
        while let Ok(job) = self.ends.jobs.try_recv() {
            let known = &mut self.known;
            let mut name = |dso, at: u64| {
                let start = at / SIZE * SIZE;
                let name = known.entry((dso, start)).or_insert_with(|| format!("function_{start:x}").into()).clone();
                Some(Symbolized { start, end: start + SIZE, name, is_symbol: true })
            };
            let frames =
                job.frames.iter().map(|one| (one.frame, one.dso.id, one.at, name(one.dso.id.0, one.at))).collect();
            self.ends.names.send(LookedUp::of(job.epoch, frames)).expect("the worker is here");
            took += self.turn();
        }
        while self.ends.recycled.try_recv().is_ok() {}
        took
    }

    fn view(&mut self) -> u64 {
        // A mark that does not exist is answered at once.
        self.request(Request::Unmark(usize::MAX))
    }

    fn request(&mut self, request: Request) -> u64 {
        self.ends.requests.send(request).expect("the worker is here");
        self.turn()
    }

    fn turn(&mut self) -> u64 {
        let began = cpu_ns();
        assert!(self.worker.turn());
        cpu_ns() - began
    }
}

fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
