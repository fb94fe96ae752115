//! Performance of the hot paths, as ratios where possible: `cargo bench`.
//!
//! A generated profile of 10,000,000 samples over a trie of 1,000,000 nodes is filtered and drawn; records are
//! ingested; each is compared with a plain loop of the same size in the same run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use perfprof_tui::filter::Filter;
use perfprof_tui::perfdata::EventDesc;
use perfprof_tui::profile::{Frame, NodeId, Profile, Site};
use perfprof_tui::query::AnswerCache;
use perfprof_tui::query::answer::{self, ViewAnswer};
use perfprof_tui::query::heat::{HeatBy, HeatSpec};
use perfprof_tui::query::rows::kept_rows::KeptRows;
use perfprof_tui::query::rows::lines;
use perfprof_tui::query::rows::top_table::TopField;
use perfprof_tui::query::{Aggregate, Answer, ColumnKey, Data, Question, RowLimit, TopSpec};
use perfprof_tui::record::Sample;
use perfprof_tui::session::{Dso, DsoId, MapId, Origin, Session};
use perfprof_tui::source::Info;
use perfprof_tui::source::hosts::SourceHost;
use perfprof_tui::ui::screens::flame::state::FlameState;
use perfprof_tui::ui::terminal::run::{render, show};
use perfprof_tui::ui::theme::{Depth, Theme};
use perfprof_tui::ui::{App, Start};

const SAMPLES: usize = 10_000_000;
const NODES: usize = 1_000_000;
const FUNCTIONS: u64 = 20_000;

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

fn main() {
    let (session, profile) = generate(NODES);
    println!("profile: {} samples, {} nodes, {} sites", profile.len(), profile.trie.len(), profile.sites.len());
    println!("memory: {} MB", profile.memory() >> 20);
    let data = Data { events: &["cycles".to_owned()], ..Data::new(&session, &profile) };
    let bare = time(5, || {
        let mut sum = 0u64;
        for (chunk, range) in profile.between(0, u64::MAX) {
            sum = sum.wrapping_add(chunk.weight[range].iter().sum::<u64>());
        }
        std::hint::black_box(sum);
    });
    println!("bare sum over the weights: {bare:.1?}");
    for text in ["comm == nginx", "stack ~ \"*fn_77*\"", "cpu in 0-3 && time < 500s", "!idle"] {
        refilter(data, text, bare);
    }
    heats(data, bare);
    ranges(data, bare);
    frames(data);
    ingest();
    // Typical for a server: as many samples, a tenth of the stacks.
    let (session, profile) = generate(NODES / 10);
    println!("\nprofile: {} samples, {} nodes, {} sites", profile.len(), profile.trie.len(), profile.sites.len());
    let data = Data { events: &["cycles".to_owned()], ..Data::new(&session, &profile) };
    heats(data, bare);
    ranges(data, bare);
}

/// Heat maps with each kind of rows, in a terminal of 200×60, without idle samples.
fn heats(data: Data<'_>, bare: Duration) {
    let filter = Arc::new(Filter::parse("!idle").expect("filter"));
    for (by, word) in HeatBy::ALL {
        let spec = HeatSpec { by: *by, length: 10_000_000_000, page: Some(0), columns: 190, rows: 100, lit: None };
        let question = Question { filter: Some(filter.clone()), heat: Some(spec.clone()), ..Question::default() };
        let refiltered =
            time(3, || drop(std::hint::black_box(AnswerCache::default().answer(data, None, &question, u64::MAX))));
        let mut view = AnswerCache::default();
        view.answer(data, None, &question, u64::MAX);
        let mut cells = 0;
        let took =
            time(5, || cells = view.answer(data, None, &question, u64::MAX).heat.map_or(0, |heat| heat.cells.len()));
        println!(
            "map by {word:8} {took:8.1?} (with a new filter {refiltered:.1?})  {:5.1} × the bare sum, {cells} cells",
            took.as_secs_f64() / bare.as_secs_f64()
        );
    }
}

/// Selects a time range: its table and its flame graph.
fn ranges(data: Data<'_>, bare: Duration) {
    let filter = Arc::new(Filter::parse("!idle").expect("filter"));
    let flame = FlameState::default().spec(200, 100, true);
    for (name, flame) in [("table", None), ("flame graph", Some(flame))] {
        let whole = Question { filter: Some(filter.clone()), flame, height: 60, ..Question::default() };
        let mut view = AnswerCache::default();
        view.answer(data, None, &whole, u64::MAX);
        let mut from = 0;
        let took = time(5, || {
            // A different half of the time in each round.
            from += 50_000_000_000;
            let question = Question { range: Some((from, from + 500_000_000_000)), ..whole.clone() };
            view.outdated();
            drop(std::hint::black_box(view.answer(data, None, &question, u64::MAX)));
        });
        println!("range: {name:12} {took:8.1?}  {:5.1} × the bare sum", took.as_secs_f64() / bare.as_secs_f64());
    }
}

fn time(times: u32, mut work: impl FnMut()) -> Duration {
    (0..times)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

/// Measures from a changed filter to the lines of a screen.
fn refilter(data: Data<'_>, text: &str, bare: Duration) {
    let filter = Arc::new(Filter::parse(text).expect("filter"));
    let question =
        Question { filter: Some(filter.clone()), top: TopSpec::default(), height: 60, ..Question::default() };
    let mut lines_out = 0;
    let first_pass = time(3, || {
        let mut fold = Aggregate::new(0, Some(filter.clone()));
        fold.update(data, 0..u64::MAX);
    });
    let took = time(3, || {
        let mut fold = Aggregate::new(0, Some(filter.clone()));
        fold.update(data, 0..u64::MAX);
        let mut rows = KeptRows::default();
        let top = rows.top(data, &fold, None, &question.top, RowLimit::First(answer::MAX_ROWS));
        lines_out = lines::lines(data, &top, &question, (&mut rows, &fold)).lines.len();
    });
    println!(
        "re-filter {text:28} {took:8.1?} (first pass {first_pass:.1?})  {:5.1} × the bare sum, {lines_out} lines",
        took.as_secs_f64() / bare.as_secs_f64()
    );
}

/// Measures drawing and receiving a large answer.
fn frames(data: Data<'_>) {
    let question = Arc::new(Question::default());
    let mut fold = Aggregate::new(0, None);
    fold.update(data, 0..u64::MAX);
    let mut rows = KeptRows::default();
    let top = rows.top(data, &fold, None, &question.top, RowLimit::First(answer::MAX_ROWS));
    let lines = lines::lines(data, &top, &question, (&mut rows, &fold)).lines;
    let view = ViewAnswer { total: fold.total(), rows: top.n_rows, lines, ..ViewAnswer::default() };
    let answer = Answer { view, unfiltered: fold.total(), question, ..Answer::default() };
    let columns = [
        TopField::Children,
        TopField::SelfTime,
        TopField::Samples,
        TopField::Key(ColumnKey::Comm),
        TopField::Key(ColumnKey::Dso),
        TopField::Key(ColumnKey::Sym),
    ];
    let start = Start { columns: columns.to_vec(), ..Start::default() };
    let hosts = SourceHost::named("bench").into();
    let info = Info { hosts, n_cpus: 1, ..Info::new(Origin::Recorded) };
    let mut app = App::new(info, start);
    let theme = Theme::new(Depth::TrueColor);
    let mut took: Vec<Duration> = (0..200)
        .map(|i| {
            let answer = answer.clone();
            let start = Instant::now();
            show(&mut app, answer, 200, 60);
            app.model.top.list.top = i * 40 % 9000;
            std::hint::black_box(render(&app, &theme, 200, 60));
            start.elapsed()
        })
        .collect();
    took.sort();
    println!("frame at 200×60 of {} lines: p50 {:.2?}, p99 {:.2?}", answer.view.lines.len(), took[100], took[198]);
}

/// Measures adding samples with known stacks to the profile.
fn ingest() {
    let mut random = Random(7);
    let chains: Vec<Vec<u8>> =
        (0..2_000).map(|_| (0..25).flat_map(|_| (0x40_0000 + random.next(100_000)).to_le_bytes()).collect()).collect();
    let (mut profile, mut session) = (Profile::default(), Session::new(Origin::Recorded));
    let mut add = |n: usize| {
        for i in 0..n {
            let sample = Sample {
                pid: 9,
                tid: 9,
                time: i as u64,
                period: 1,
                chain: &chains[i % chains.len()],
                ..Sample::default()
            };
            profile.add(&mut session, &sample, 2, 0, Default::default());
        }
    };
    add(chains.len());
    let n = 1_000_000;
    let took = time(3, || add(n));
    println!("adding a sample with 25 frames, stack known: {:.0} ns", took.as_secs_f64() * 1e9 / n as f64);
}

fn generate(nodes: usize) -> (Session, Profile) {
    let mut random = Random(42);
    let (mut session, mut profile) = (Session::new(Origin::Recorded), Profile::default());
    // For heat maps by duration.
    profile.learn_event(0, &EventDesc::derived("off-cpu"));
    let comms =
        ["nginx", "java", "postgres", "node", "python3", "kworker", "swapper", "redis-server", "envoy", "mysqld"];
    for (pid, comm) in (1000..).zip(comms) {
        session.apply(&perfprof_tui::record::Record::Comm { pid, tid: pid, exec: false, name: comm.as_bytes() }, 0);
    }
    let dso: Dso = session.dsos.get(DsoId(0)).clone();
    let frames: Vec<_> = (0..FUNCTIONS)
        .map(|i| {
            let frame = profile.frames.intern(Frame { map: MapId::UNKNOWN, caller: false, ip: i });
            profile.frames.set_named(frame, &dso, format!("fn_{i}_some_function_name").into());
            frame
        })
        .collect();
    let mut stacks = Vec::new();
    while profile.trie.len() < nodes {
        let mut node = NodeId::ROOT;
        let mut f = random.next(60);
        for depth in 0..12 + random.next(20) {
            node = profile.trie.child(node, frames[(f % FUNCTIONS) as usize]);
            f = f.wrapping_mul(31).wrapping_add(1 + random.next(if depth < 8 { 2 } else { 6 }));
        }
        stacks.push(node);
    }
    for i in 0..SAMPLES as u64 {
        let pid = 1000 + (random.next(10) * random.next(10) / 10) as i32;
        let task = session.task(pid, pid);
        let stack = stacks[(random.next(stacks.len() as u64) * random.next(1000) / 1000) as usize];
        let site = profile.sites.intern(Site { task, stack, trace: Default::default() });
        profile.push(i * 100_000, site, 1_000_000, random.next(32) as u16, 0);
    }
    (session, profile)
}
