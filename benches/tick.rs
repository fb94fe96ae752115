//! The cost of a live screen update, depending on the stored data: `cargo bench --bench tick`.
//!
//! Each tick adds the same number of samples, some of them with new stacks whose names arrive a tick later. The cost is
//! printed for profiles of 100,000 to 10,000,000 samples and of 10,000 or 1,000,000 nodes, and must not depend on
//! either.

use std::time::{Duration, Instant};

use perfprof_tui::filter::Filter;
use perfprof_tui::profile::{Frame, FrameId, NodeId, Profile, Site};
use perfprof_tui::query::AnswerCache;
use perfprof_tui::query::cpus::CpuCounts;
use perfprof_tui::query::flame::layout::{FlameDirection, FlameSpec};
use perfprof_tui::query::{Data, Question};
use perfprof_tui::session::{Dso, DsoId, MapId, Origin, Session};
use perfprof_tui::symbols::Symbolized;

const TICK: u64 = 1_000;
const FUNCTIONS: u64 = 5_000;

fn main() {
    println!("{:>10} {:>10}  {:>9} {:>9} {:>9} {:>9}", "samples", "nodes", "table", "unfolded", "flame", "CPUs");
    for nodes in [10_000, 1_000_000] {
        for samples in [100_000, 1_000_000, 10_000_000] {
            let mut live = Live::new(nodes, samples);
            let all = [live.table(false), live.table(true), live.flame(), live.cpus()];
            let [table, unfolded, flame, cpus] = all.map(|took| format!("{:.2} ms", took.as_secs_f64() * 1e3));
            println!("{samples:>10} {:>10}  {table:>9} {unfolded:>9} {flame:>9} {cpus:>9}", live.profile.trie.len());
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

struct Live {
    random: Random,
    session: Session,
    profile: Profile,
    dso: Dso,
    stacks: Vec<NodeId>,
    addresses: u64,
    time: u64,
    unnamed: Vec<FrameId>,
}

impl Live {
    fn new(nodes: usize, samples: u64) -> Self {
        let session = Session::new(Origin::Recorded);
        let dso: Dso = session.dsos.get(DsoId(0)).clone();
        let (random, profile) = (Random(42), Profile::default());
        let (stacks, unnamed) = (Vec::new(), Vec::new());
        let mut live = Self { random, session, profile, dso, stacks, addresses: 0, time: 0, unnamed };
        while live.profile.trie.len() < nodes {
            live.stack();
        }
        live.name();
        (0..samples).for_each(|_| live.sample());
        live
    }

    /// Adds a new stack: known functions, called from new addresses.
    fn stack(&mut self) {
        let mut node = match self.stacks.len() as u64 {
            0 => NodeId::ROOT,
            n => self.profile.trie.parent(self.stacks[self.random.next(n) as usize]),
        };
        for _ in 0..1 + self.random.next(8) {
            self.addresses += 1;
            let frame = Frame { map: MapId::UNKNOWN, caller: false, ip: self.addresses };
            let frame = self.profile.frames.intern(frame);
            self.unnamed.push(frame);
            node = self.profile.trie.child(node, frame);
        }
        self.stacks.push(node);
    }

    fn name(&mut self) {
        self.profile.wanted(&self.session.dsos);
        for frame in std::mem::take(&mut self.unnamed) {
            let function = self.random.next(FUNCTIONS) * self.random.next(FUNCTIONS) / FUNCTIONS;
            let found = Symbolized {
                start: function,
                end: function + 1,
                name: format!("fn_{function}").into(),
                is_symbol: true,
            };
            self.profile.frames.set(frame, &self.dso, function, Some(found));
        }
    }

    fn sample(&mut self) {
        self.time += 100_000;
        let pid = 1000 + (self.random.next(10) * self.random.next(10) / 10) as i32;
        let task = self.session.task(pid, pid);
        let stack = self.stacks[self.random.next(self.stacks.len() as u64) as usize];
        let site = self.profile.sites.intern(Site { task, stack, trace: Default::default() });
        let cpu = self.random.next(32) as u16;
        self.profile.push(self.time, site, 1_000_000, cpu, 0);
    }

    /// Adds the data between two answers: names of the last stacks, new stacks, samples.
    fn tick(&mut self) {
        self.name();
        (0..TICK / 10).for_each(|_| self.stack());
        self.profile.wanted(&self.session.dsos);
        (0..TICK).for_each(|_| self.sample());
    }

    /// Returns the minimum duration of several updates.
    fn measure(&mut self, mut update: impl FnMut(Data<'_>)) -> Duration {
        let mut least = Duration::MAX;
        for tick in 0..12 {
            self.tick();
            let events = ["cycles".to_owned()];
            let data = Data { events: &events, ..Data::new(&self.session, &self.profile) };
            let start = Instant::now();
            update(data);
            // The first update does all work.
            if tick > 1 {
                least = least.min(start.elapsed());
            }
        }
        least
    }

    fn table(&mut self, unfolded: bool) -> Duration {
        let filter = Filter::parse("!idle").ok().map(std::sync::Arc::new);
        let mut question = Question { filter, height: 60, ..Question::default() };
        let mut view = AnswerCache::default();
        let mut open = None;
        self.measure(|data| {
            question.toggled.extend(open.take().filter(|_| unfolded));
            let parts = view.answer(data, None, &question, u64::MAX);
            open = parts
                .lines
                .first()
                .map(|line| line.id)
                .filter(|id| !question.toggled.contains(id) && question.toggled.is_empty());
        })
    }

    fn flame(&mut self) -> Duration {
        let spec = FlameSpec {
            way: FlameDirection::Roots,
            zoom: Vec::new(),
            edits: Vec::new(),
            width: 190,
            height: 50,
            by_weight: false,
            find: None,
            frames_per_row: 1,
        };
        let question = Question { flame: Some(spec), ..Question::default() };
        let mut view = AnswerCache::default();
        self.measure(|data| {
            drop(view.answer(data, None, &question, u64::MAX));
        })
    }

    fn cpus(&mut self) -> Duration {
        let mut counts = CpuCounts::new(0, true);
        self.measure(|data| {
            counts.update(data, u64::MAX);
            drop(counts.answer(data, None));
        })
    }
}
