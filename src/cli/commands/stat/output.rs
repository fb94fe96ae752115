//! Output of `stat`: a table, perf's values with separators or as JSON, and our own JSON and CSV.

use std::collections::BTreeMap;

use crate::kernel::{children_cpu_ns, wall_ns};
use crate::panel::row_order::arrange_by_key;
use crate::panel::{Cell, Table, unit};
use crate::perfdata::EventUnit;
use crate::report::counters::{self, CountedPlace, Counter, CounterValue, Mean};
use crate::session::machine::topology::Topology;
use crate::source::live::counters::{CountedOn, Counters};

use crate::cli::args::{OutputFormat, StatArgs};
use crate::cli::output::{TableOutput, complain, print_csv, print_json, print_json_line, timed_csv};

pub(crate) type CounterRun = BTreeMap<(usize, CountedOn), CounterValue>;

/// Places by which counters are separated, in the words of perf's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    All,
    Cpu,
    Core,
    Die,
    Socket,
    Node,
    Thread,
    Cgroup,
}

impl Split {
    fn of(args: &StatArgs) -> Self {
        let more = &args.more;
        let chosen = [
            (args.per_cpu, Self::Cpu),
            (args.per_thread, Self::Thread),
            (more.per_core, Self::Core),
            (more.per_die, Self::Die),
            (more.per_socket, Self::Socket),
            (more.per_node, Self::Node),
            (more.each_cgroup.is_some(), Self::Cgroup),
        ];
        chosen.into_iter().find(|(on, _)| *on).map_or(Self::All, |(_, split)| split)
    }
}

pub(crate) struct CounterReport<'a> {
    args: &'a StatArgs,
    split: Split,
    topology: Topology,
    out: TableOutput,
    pub(crate) runs: Vec<CounterRun>,
    pub(crate) seconds: Vec<f64>,
    /// User and system CPU time of earlier children.
    cpu: (u64, u64),
    head: bool,
}

impl<'a> CounterReport<'a> {
    pub(crate) fn new(args: &'a StatArgs) -> anyhow::Result<Self> {
        let out = match (&args.output, args.more.log_fd, args.format) {
            (Some(path), ..) => TableOutput::create(path, args.more.append)?,
            (_, Some(fd), _) => TableOutput::descriptor(fd)?,
            (_, _, OutputFormat::Text) => TableOutput::Err,
            _ => TableOutput::Out,
        };
        let topology = Topology::read(std::path::Path::new("/sys"));
        let (runs, seconds, cpu) = (Vec::new(), Vec::new(), children_cpu_ns());
        Ok(Self { args, split: Split::of(args), topology, out, runs, seconds, cpu, head: true })
    }

    /// Clears the runs that were printed.
    pub(crate) fn begin_anew(&mut self) {
        self.runs.clear();
        self.seconds.clear();
        self.cpu = children_cpu_ns();
    }

    fn name(&self, place: CountedOn, counters: &Counters) -> String {
        let known = |number: Option<u32>| number.unwrap_or_default();
        match (self.split, place) {
            (Split::Thread, CountedOn::Thread(tid)) => {
                format!("{}-{tid}", counters.comms.get(&tid).map_or("", String::as_str))
            }
            (Split::Cpu, CountedOn::Cpu(cpu)) => format!("CPU {cpu}"),
            (Split::Cgroup, CountedOn::Cgroup(at)) => counters.cgroup(at).to_owned(),
            (Split::Core | Split::Die | Split::Socket | Split::Node, CountedOn::Cpu(cpu)) => {
                let at = self.topology.place(cpu);
                let (package, die, core) = (known(at.package), known(at.die), known(at.core));
                match self.split {
                    Split::Core => format!("S{package}-D{die}-C{core}"),
                    Split::Die => format!("S{package}-D{die}"),
                    Split::Socket => format!("S{package}"),
                    _ => format!("N{}", known(at.node)),
                }
            }
            _ => String::new(),
        }
    }

    fn places(&self, counters: &Counters, runs: &[CounterRun]) -> Vec<CountedPlace> {
        let mut named: Vec<(CountedOn, String)> = Vec::new();
        for (_, place) in runs.iter().flat_map(|run| run.keys()) {
            if !named.iter().any(|(known, _)| known == place) {
                named.push((*place, self.name(*place, counters)));
            }
        }
        // An event that cannot be counted has a row, too.
        if named.is_empty() {
            named.push((CountedOn::Cpu(0), String::new()));
        }
        arrange_by_key(&mut named, |(place, _)| *place);
        let mut names: Vec<&str> = Vec::new();
        named.iter().for_each(|(_, name)| {
            if !names.contains(&name.as_str()) {
                names.push(name)
            }
        });
        let is_of = |place: &CountedOn, of: &str| named.iter().any(|(known, name)| known == place && name == of);
        let sum = |run: &CounterRun, event: usize, of: &str| {
            let own = run.iter().filter(|((e, place), _)| *e == event && is_of(place, of));
            own.fold(None, |sum: Option<CounterValue>, (_, v)| {
                let sum = sum.unwrap_or_default();
                Some(CounterValue {
                    raw: sum.raw + v.raw,
                    enabled_ns: sum.enabled_ns + v.enabled_ns,
                    running_ns: sum.running_ns + v.running_ns,
                })
            })
        };
        let counter = |event: usize, of: &str| Counter {
            name: counters.events()[event].name.clone(),
            unit: if counters.events()[event].is_clock() { EventUnit::Nanoseconds } else { EventUnit::Count },
            values: runs.iter().filter_map(|run| sum(run, event, of)).collect(),
            refused: counters.refused[event].clone(),
        };
        let place = |name: &str| CountedPlace {
            name: name.to_owned(),
            cpus: named.iter().filter(|(_, own)| own == name).count(),
            counters: (0..counters.events().len()).map(|event| counter(event, name)).collect(),
        };
        names.into_iter().map(place).collect()
    }

    pub(crate) fn interval(
        &mut self,
        counters: &Counters,
        run: &CounterRun,
        time: f64,
        seconds: f64,
    ) -> anyhow::Result<()> {
        let places = self.places(counters, std::slice::from_ref(run));
        if self.args.more.quiet {
            return Ok(());
        }
        if let Some(text) = self.for_scripts(&places, seconds, Some(time)) {
            return self.out.write(&text);
        }
        let table = self.table(&places, seconds);
        match self.args.format {
            OutputFormat::Text => self.out.write(&format!("{time:.3} s\n{}\n", table.to_text())),
            OutputFormat::Csv => print_csv(&timed_csv(&table, &format!("{time:.6}"), std::mem::take(&mut self.head))),
            OutputFormat::Json => {
                let line = serde_json::json!({ "time": time, "seconds": seconds, "counters": table.to_json() });
                print_json_line(&line)
            }
        }
    }

    fn table(&self, places: &[CountedPlace], seconds: f64) -> Table {
        let mut table = counters::table(places, seconds);
        if self.args.more.no_big_num && self.args.format == OutputFormat::Text {
            for cell in table.rows.iter_mut().flatten() {
                if let Cell::Count(n) = cell {
                    *cell = Cell::Text(n.to_string().into());
                }
            }
        }
        table
    }

    pub(crate) fn end(&mut self, counters: &Counters) -> anyhow::Result<()> {
        if self.args.more.quiet {
            return Ok(());
        }
        let elapsed = Mean::of(&self.seconds);
        let places = self.places(counters, &self.runs);
        if let Some(text) = self.for_scripts(&places, elapsed.mean, None) {
            return self.out.write(&text);
        }
        let table = self.table(&places, elapsed.mean);
        let (user, system) = children_cpu_ns();
        let cpu = [user - self.cpu.0, system - self.cpu.1].map(|ns| ns as f64 / 1e9 / self.runs.len().max(1) as f64);
        match self.args.format {
            OutputFormat::Text => {
                let mut out =
                    if counters.events().is_empty() { String::new() } else { format!("{}\n", table.to_text()) };
                let error = elapsed.error_percent.map_or(String::new(), |e| format!("  ± {}", unit::percent(e)));
                out.push_str(&format!("{:.6} s elapsed{error}\n", elapsed.mean));
                if !self.args.cmd.is_empty() {
                    out.push_str(&format!("{:.6} s user, {:.6} s system, of the command\n", cpu[0], cpu[1]));
                }
                self.out.write(&out)?;
                let mut said: Vec<&String> = counters.refused.iter().flatten().collect();
                said.dedup();
                said.into_iter().for_each(|why| complain(&format!("not supported: {why}")));
                Ok(())
            }
            OutputFormat::Csv => print_csv(&table.to_csv()),
            OutputFormat::Json => print_json(&serde_json::json!({
                "wall": wall_ns() as f64 / 1e9,
                "runs": self.runs.len(),
                "seconds": elapsed.mean,
                "seconds_error": elapsed.error_percent,
                "user": cpu[0],
                "system": cpu[1],
                "counters": table.to_json(),
            })),
        }
    }

    /// Returns lines for scripts: values with separators (perf-stat(1), "CSV FORMAT") or JSON ("JSON FORMAT").
    fn for_scripts(&self, places: &[CountedPlace], seconds: f64, time: Option<f64>) -> Option<String> {
        let more = &self.args.more;
        let separator = more.separator.as_deref();
        if separator.is_none() && !more.json {
            return None;
        }
        let mut out = String::new();
        for place in places {
            for at in 0..place.counters.len() {
                let line = ScriptLine::new(place, at, seconds, self.split);
                out.push_str(&match separator {
                    Some(separator) => line.separated(time, separator),
                    None => line.json(time),
                });
                out.push('\n');
            }
        }
        Some(out)
    }
}

struct ScriptLine<'a> {
    place: &'a CountedPlace,
    counter: &'a Counter,
    split: Split,
    value: String,
    unit: &'static str,
    error: Option<f64>,
    running_ns: u64,
    running: f64,
    ratio: (String, String),
}

impl<'a> ScriptLine<'a> {
    fn new(place: &'a CountedPlace, at: usize, seconds: f64, split: Split) -> Self {
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
        let is_rate = |ratio: &counters::Ratio| ratio.kind == counters::RatioKind::PerSecond;
        let ratio = counters::ratio(&place.counters, at, seconds).filter(|ratio| has_clock || !is_rate(ratio));
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

    fn separated(&self, time: Option<f64>, separator: &str) -> String {
        let mut fields = Vec::new();
        fields.extend(time.map(|time| format!("{time:>15.9}")));
        match self.split {
            Split::All | Split::Cgroup => {}
            Split::Cpu | Split::Thread => fields.push(self.place.name.replacen("CPU ", "CPU", 1)),
            _ => fields.extend([self.place.name.clone(), self.place.cpus.to_string()]),
        }
        fields.extend([self.value.clone(), self.unit.to_owned(), self.counter.name.clone()]);
        fields.extend((self.split == Split::Cgroup).then(|| self.place.name.clone()));
        fields.extend(self.error.map(|error| format!("{error:.2}%")));
        fields.extend([self.running_ns.to_string(), format!("{:.2}", self.running)]);
        fields.extend([self.ratio.0.clone(), self.ratio.1.clone()]);
        fields.join(separator)
    }

    fn json(&self, time: Option<f64>) -> String {
        let mut line = serde_json::Map::new();
        let mut put = |name: &str, value: serde_json::Value| drop(line.insert(name.to_owned(), value));
        if let Some(time) = time {
            put("interval", time.into());
        }
        match self.split {
            Split::All => {}
            Split::Cpu => put("cpu", self.place.name.trim_start_matches("CPU ").into()),
            Split::Thread => put("thread", self.place.name.as_str().into()),
            Split::Cgroup => put("cgroup", self.place.name.as_str().into()),
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
