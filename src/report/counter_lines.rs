//! The counters of `stat` by place, and as lines for scripts.

use std::collections::BTreeMap;

use crate::kernel::sys::Counts;
use crate::perfdata::EventUnit;
use crate::report::counters::{CountedPlace, Counter, Ratio, RatioKind, ratio};
use crate::session::machine::topology::Topology;
use crate::source::live::counters::{CountedOn, Counters};

pub(crate) type CounterRun = BTreeMap<(usize, CountedOn), Counts>;

/// Places by which counters are separated, in the words of perf's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountSplit {
    All,
    Cpu,
    Core,
    Die,
    Socket,
    Node,
    Thread,
    Cgroup,
}

fn place_name(split: CountSplit, topology: &Topology, place: CountedOn, counters: &Counters) -> String {
    let known = |number: Option<u32>| number.unwrap_or_default();
    match (split, place) {
        (CountSplit::Thread, CountedOn::Thread(tid)) => {
            format!("{}-{tid}", counters.comms.get(&tid).map_or("", String::as_str))
        }
        (CountSplit::Cpu, CountedOn::Cpu(cpu)) => format!("CPU {cpu}"),
        (CountSplit::Cgroup, CountedOn::Cgroup(at)) => counters.cgroup(at).to_owned(),
        (CountSplit::Core | CountSplit::Die | CountSplit::Socket | CountSplit::Node, CountedOn::Cpu(cpu)) => {
            let at = topology.place(cpu);
            let (package, die, core) = (known(at.package), known(at.die), known(at.core));
            match split {
                CountSplit::Core => format!("S{package}-D{die}-C{core}"),
                CountSplit::Die => format!("S{package}-D{die}"),
                CountSplit::Socket => format!("S{package}"),
                _ => format!("N{}", known(at.node)),
            }
        }
        _ => String::new(),
    }
}

/// Returns the counters of each place, summed over the CPUs and threads in it.
pub(crate) fn counted_places(
    split: CountSplit,
    topology: &Topology,
    counters: &Counters,
    runs: &[CounterRun],
) -> Vec<CountedPlace> {
    let name_of = |(_, place): &(usize, CountedOn)| (*place, place_name(split, topology, *place, counters));
    let mut named: BTreeMap<CountedOn, String> = runs.iter().flat_map(BTreeMap::keys).map(name_of).collect();
    // An event that cannot be counted has a row, too.
    if named.is_empty() {
        named.insert(CountedOn::Cpu(0), String::new());
    }
    let mut names: Vec<&String> = Vec::new();
    for name in named.values() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let sum = |run: &CounterRun, event: usize, of: &String| {
        let own = run.iter().filter(|((e, place), _)| *e == event && named.get(place) == Some(of));
        own.map(|(_, value)| *value).reduce(|mut sum, value| {
            sum.add(&value);
            sum
        })
    };
    let counter = |event: usize, of: &String| Counter {
        name: counters.events()[event].name.clone(),
        unit: if counters.events()[event].is_clock() { EventUnit::Nanoseconds } else { EventUnit::Count },
        values: runs.iter().filter_map(|run| sum(run, event, of)).collect(),
        refused: counters.refused[event].clone(),
    };
    let place = |name: &String| CountedPlace {
        name: name.clone(),
        cpus: named.values().filter(|own| *own == name).count(),
        counters: (0..counters.events().len()).map(|event| counter(event, name)).collect(),
    };
    names.into_iter().map(place).collect()
}

/// A counter as a line for scripts: perf's values with separators or perf's JSON.
pub(crate) struct CounterLine<'a> {
    place: &'a CountedPlace,
    counter: &'a Counter,
    split: CountSplit,
    value: String,
    unit: &'static str,
    error: Option<f64>,
    running_ns: u64,
    running: f64,
    ratio: (String, String),
}

impl<'a> CounterLine<'a> {
    pub(crate) fn new(place: &'a CountedPlace, at: usize, seconds: f64, split: CountSplit) -> Self {
        let counter = &place.counters[at];
        let mean = counter.mean();
        let (value, unit) = match mean {
            Some(mean) if counter.is_clock() => (format!("{:.2}", mean.mean / 1e6), "msec"),
            Some(mean) => (format!("{:.0}", mean.mean), if counter.time().is_some() { "ns" } else { "" }),
            None if counter.refused.is_some() => ("<not supported>".to_owned(), ""),
            None => ("<not counted>".to_owned(), ""),
        };
        let runs = counter.values.len().max(1) as u64;
        let repeated = place.counters.iter().any(|counter| counter.values.len() > 1);
        // perf prints no rates without a clock event.
        let has_clock = place.counters.iter().any(Counter::is_clock);
        let is_rate = |ratio: &Ratio| ratio.kind == RatioKind::PerSecond;
        let ratio = ratio(&place.counters, at, seconds).filter(|ratio| has_clock || !is_rate(ratio));
        Self {
            place,
            counter,
            split,
            value,
            unit,
            error: repeated.then(|| mean.and_then(|mean| mean.error_percent).unwrap_or_default()),
            running_ns: counter.values.iter().map(|value| value.running_ns).sum::<u64>() / runs,
            running: if mean.is_some() { counter.running() } else { 100.0 },
            ratio: ratio.map_or_else(Default::default, |ratio| ratio.fields()),
        }
    }

    pub(crate) fn separated(&self, time: Option<f64>, separator: &str) -> String {
        let mut fields = Vec::new();
        fields.extend(time.map(|time| format!("{time:>15.9}")));
        match self.split {
            CountSplit::All | CountSplit::Cgroup => {}
            CountSplit::Cpu | CountSplit::Thread => fields.push(self.place.name.replacen("CPU ", "CPU", 1)),
            _ => fields.extend([self.place.name.clone(), self.place.cpus.to_string()]),
        }
        fields.extend([self.value.clone(), self.unit.to_owned(), self.counter.name.clone()]);
        fields.extend((self.split == CountSplit::Cgroup).then(|| self.place.name.clone()));
        fields.extend(self.error.map(|error| format!("{error:.2}%")));
        fields.extend([self.running_ns.to_string(), format!("{:.2}", self.running)]);
        fields.extend([self.ratio.0.clone(), self.ratio.1.clone()]);
        fields.join(separator)
    }

    pub(crate) fn json(&self, time: Option<f64>) -> String {
        let mut line = serde_json::Map::new();
        let mut put = |name: &str, value: serde_json::Value| drop(line.insert(name.to_owned(), value));
        if let Some(time) = time {
            put("interval", time.into());
        }
        match self.split {
            CountSplit::All => {}
            CountSplit::Cpu => put("cpu", self.place.name.trim_start_matches("CPU ").into()),
            CountSplit::Thread => put("thread", self.place.name.as_str().into()),
            CountSplit::Cgroup => put("cgroup", self.place.name.as_str().into()),
            split => {
                put(&format!("{split:?}").to_lowercase(), self.place.name.as_str().into());
                put("aggregate-number", self.place.cpus.into());
            }
        }
        put("counter-value", self.value.as_str().into());
        put("unit", self.unit.into());
        put("event", self.counter.name.as_str().into());
        if let Some(error) = self.error {
            put("variance", error.into());
        }
        put("event-runtime", self.running_ns.into());
        put("pcnt-running", self.running.into());
        put("metric-value", self.ratio.0.parse::<f64>().unwrap_or_default().into());
        put("metric-unit", self.ratio.1.as_str().into());
        serde_json::Value::Object(line).to_string()
    }
}
