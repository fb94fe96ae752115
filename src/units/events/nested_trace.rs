//! `nested-trace`: nested entries and exits as a tree, with inclusive and own times.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::filter::expr::Value;
use crate::panel::Rows;
use crate::panel::row_order::arrange_by_key;
use crate::units::kit::names_thread;
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "nested-trace",
    about: "nested entries and exits as a tree, with inclusive and own time",
    words: "nested calls tree inside interrupt function",
    help: "Each -e names an entry and its exit. An entry is shown below the one of the same key that is open at its \
           time. The key is --key; the default is the CPU for softirqs, interrupts and timers, otherwise the thread. \
           comm= of an entry names its rows. Own time excludes the time of nested entries. An exit closes the newest \
           entry of its kind; entries within it that have not ended count as broken.",
    example: "perfprof-tui nested-trace -e 'irq:softirq_entry//comm=vec/,irq:softirq_exit' -e timer:timer_expire_entry,timer:timer_expire_exit",
    output: "\
$ perfprof-tui nested-trace --batch --duration 1 \\
    -e 'irq:softirq_entry//comm=vec/,irq:softirq_exit'
 Calls   Total     Min     Mean      p50      p95      p99      Max…
16,286  753 ms  222 ns  46.3 µs  45.6 µs  87.0 µs   103 µs   240 µs…
    68  407 µs  657 ns  5.98 µs  5.31 µs  14.2 µs  21.2 µs  21.5 µs…
    84  311 µs  390 ns  3.70 µs  3.36 µs  8.00 µs  19.2 µs  19.3 µs…",
    options: &["event", "key", "than", "keep"],
    sees: Sees::Cpus,
    across: Some("entries that end on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(Nested::new(settings)?)),
};

const MAX_NODES: usize = 100_000;
/// Subsystems whose entries belong to the CPU instead of the thread.
const BY_CPU: &[&str] = &["irq", "timer", "irq_vectors", "napi", "net", "rcu"];

#[derive(Clone, Debug, Default)]
struct Node {
    name: Arc<str>,
    parent: usize,
    depth: u16,
    stats: Stats,
    own: u64,
    children: Vec<usize>,
}

/// An open entry.
#[derive(Clone, Debug)]
struct Frame {
    node: usize,
    /// Time of nested entries.
    inside: u64,
}

#[derive(Clone, Debug)]
struct Bindings {
    key: BoundExpr,
    label: Option<BoundExpr>,
    names: KeyNames,
}

#[derive(Clone, Debug, Default)]
struct Nested {
    pairs: Vec<[SelectedEvent; 2]>,
    key: Option<String>,
    /// Whether the key of an entry names a thread.
    by_thread: bool,
    events: FxHashMap<(usize, u16), Bindings>,
    open: OpenSpans<i128, usize, Frame>,
    nodes: Vec<Node>,
    index: FxHashMap<(usize, Arc<str>), usize>,
    broken: u64,
    slowest: Slowest<(usize, u64, u32, ThreadKey)>,
}

impl Nested {
    fn new(settings: &Settings) -> Result<Self, String> {
        let mut pairs = Vec::new();
        for list in select::lists(settings.all("event"))? {
            let pair: [SelectedEvent; 2] = list.try_into().map_err(|list: Vec<SelectedEvent>| {
                format!("each -e names two events, an entry and its exit: {} has {}", list[0].event, list.len())
            })?;
            pairs.push(pair);
        }
        if pairs.is_empty() {
            return Err("name an entry and its exit with -e, e.g. -e irq:softirq_entry,irq:softirq_exit".to_owned());
        }
        Ok(Self {
            pairs,
            key: settings.get("key").map(str::to_owned),
            open: OpenSpans::nested(),
            nodes: vec![Node::default()],
            slowest: Slowest::of(settings)?,
            ..Self::default()
        })
    }

    fn name(&self, pair: usize) -> String {
        let entry = &self.pairs[pair][0];
        if let Some(alias) = entry.get("alias") {
            return alias.to_owned();
        }
        let name = entry.event.rsplit(':').next().unwrap_or(&entry.event);
        ["_entry", "_enter", "_start", "_begin"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name)
            .to_owned()
    }

    fn node(&mut self, parent: usize, name: Arc<str>) -> usize {
        if let Some(known) = self.index.get(&(parent, name.clone())) {
            return *known;
        }
        if self.nodes.len() >= MAX_NODES {
            return parent;
        }
        let at = self.nodes.len();
        let depth = if parent == 0 { 0 } else { self.nodes[parent].depth + 1 };
        self.nodes.push(Node { name: name.clone(), parent, depth, ..Node::default() });
        self.nodes[parent].children.push(at);
        self.index.insert((parent, name), at);
        at
    }

    fn enter(&mut self, pair: usize, key: i128, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let own = self.events.get(&(2 * pair, hit.event));
        let label = own.and_then(|own| own.label.as_ref().zip(Some(&own.names))).map(|(label, names)| {
            label.with(hit, cx.names, None, |value| match value {
                Value::Int(n) => names.of_number(n).unwrap_or_else(|| n.to_string()),
                Value::Text(text) => text.into_owned(),
                _ => String::new(),
            })
        });
        let name: Arc<str> = match label {
            Some(label) => format!("{} {label}", self.name(pair)).into(),
            None => self.name(pair).into(),
        };
        let parent = self.open.around(&key).map_or(0, |outer| outer.with.node);
        let node = self.node(parent, name);
        self.broken += self.open.begin(key, pair, hit.time, Frame { node, inside: 0 }) as u64;
    }

    fn leave(&mut self, pair: usize, key: i128, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some((begin, missed)) = self.open.end(&key, &pair) else { return };
        self.broken += missed as u64;
        let (frame, ns) = (&begin.with, begin.took(hit.time));
        if let Some(outer) = self.open.newest(&key) {
            outer.with.inside += ns;
        }
        if !cx.counts(hit.cpu) {
            return;
        }
        let above = self.slowest.exceeds(hit, cx.names, ns);
        let node = &mut self.nodes[frame.node];
        node.stats.add_than(ns, above);
        node.own += ns.saturating_sub(frame.inside);
        cx.point([&self.name(pair), ""], hit.time, ns);
        self.slowest.add(above, ns, || (frame.node, hit.time, hit.cpu, cx.thread(hit.tid)));
    }

    fn tree(&self, at: &Moment<'_>) -> Panel {
        let heaviest = |list: &[usize]| {
            let mut list = list.to_vec();
            arrange_by_key(&mut list, |node| (self.nodes[*node].stats.sum, std::cmp::Reverse(*node)));
            list
        };
        let (mut list, mut stack) = (Vec::new(), heaviest(&self.nodes[0].children));
        while let Some(i) = stack.pop() {
            list.push((i, &self.nodes[i]));
            stack.extend(heaviest(&self.nodes[i].children));
        }
        let depth = list.iter().map(|(_, node)| node.depth).collect();
        let span = at.now.saturating_sub(at.since);
        let rows = Sheet::of(list, |(i, _)| i as u64)
            .latency(self.slowest.has_threshold(), |(_, node)| &node.stats)
            .right("own_ns", "Self", 9, |(_, node)| Cell::Time(node.own))
            .right("own_pct", "%self", 7, |(_, node)| share(node.own, node.stats.sum))
            .right("of_time_pct", "%time", 8, |(_, node)| share(node.stats.sum, span))
            .left("name", "What", 0, |(_, node)| text(node.name.clone()))
            .rows();
        Panel::new("Tree", Body::Tree(Rows { depth, ..rows })).noted(note(self.broken, "entry", "without an end"))
    }

    fn path(&self, mut node: usize) -> String {
        let mut names = Vec::new();
        while node != 0 {
            names.push(self.nodes[node].name.clone());
            node = self.nodes[node].parent;
        }
        names.reverse();
        names.join(" → ")
    }
}

impl Unit for Nested {
    fn attributes(&self) -> &'static [&'static str] {
        &["key", "comm"]
    }

    fn event_requests(&self) -> Vec<EventRequest> {
        self.pairs.iter().flatten().map(|selected| selected.want(false)).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        let (pair, end) = (event.role / 2, event.role % 2);
        let selected = &self.pairs[pair][end];
        let system = event.name.split(':').next().unwrap_or_default();
        let usual = if BY_CPU.contains(&system) { "cpu" } else { "tid" };
        let key = selected.get("key").or(self.key.as_deref()).unwrap_or(usual);
        self.by_thread |= names_thread(key);
        let label = selected.get("comm").map(|label| BoundExpr::parse(label, event.format)).transpose()?;
        let bindings = Bindings {
            key: BoundExpr::parse(key, event.format)?,
            names: label.as_ref().map(|label| KeyNames::of(label, event)).unwrap_or_default(),
            label,
        };
        self.events.insert((event.role, event.number), bindings);
        if end == 1 { self.slowest.bind(event) } else { Ok(()) }
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        let Some(bindings) = self.events.get(&(hit.role, hit.event)) else { return };
        let Some(key) = bindings.key.with(hit, cx.names, None, |value| value.int()) else { return };
        match hit.role % 2 {
            0 => self.enter(hit.role / 2, key, hit, cx),
            _ => self.leave(hit.role / 2, key, hit, cx),
        }
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        if self.by_thread {
            self.open.follow_keys(change, i128::from);
        }
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.open.forget();
    }

    fn loss_text(&self) -> &'static str {
        "entries open at that time are left out"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let chosen = at.selected(0).and_then(|node| self.nodes.get(node as usize));
        let outermost = || self.nodes[0].children.iter().map(|node| &self.nodes[*node].stats).sum();
        let all = chosen.map_or_else(outermost, |node| node.stats.clone());
        let slowest = Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., (_, time, ..))| Cell::Time(at.after(*time)))
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns))
            .right("cpu", "CPU", 4, |(.., (_, _, cpu, _))| Cell::Id((*cpu).into()))
            .left("task", "Task", 22, |(.., (.., thread))| text(at.task(*thread)))
            .left("path", "What", 0, |(.., (node, ..))| text(self.path(*node)));
        vec![self.tree(at), slowest.whole("Slowest"), latency::by_powers("Distribution", &all, Measure::Time)]
    }

    fn reset(&mut self, _now: u64) {
        for node in &mut self.nodes {
            (node.stats, node.own) = (Stats::default(), 0);
        }
        self.broken = 0;
        self.slowest.clear();
    }
}
