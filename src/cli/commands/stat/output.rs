//! Output of `stat`: a table, perf's values with separators or as JSON, and our own JSON and CSV.

use crate::kernel::{children_cpu_ns, wall_ns};
use crate::panel::{Cell, Table, unit};
use crate::report::counter_lines::{CountSplit, CounterLine, CounterRun, counted_places};
use crate::report::counters::{self, CountedPlace, Mean};
use crate::session::machine::topology::Topology;
use crate::source::live::counters::Counters;

use crate::cli::args::{OutputFormat, StatArgs};
use crate::cli::output::{TableOutput, complain, print_csv, print_json, print_json_line, timed_csv};

/// Returns the places that the options select.
fn split_of(args: &StatArgs) -> CountSplit {
    let more = &args.more;
    let chosen = [
        (args.per_cpu, CountSplit::Cpu),
        (args.per_thread, CountSplit::Thread),
        (more.per_core, CountSplit::Core),
        (more.per_die, CountSplit::Die),
        (more.per_socket, CountSplit::Socket),
        (more.per_node, CountSplit::Node),
        (more.each_cgroup.is_some(), CountSplit::Cgroup),
    ];
    chosen.into_iter().find(|(on, _)| *on).map_or(CountSplit::All, |(_, split)| split)
}

pub(crate) struct CounterReport<'a> {
    args: &'a StatArgs,
    split: CountSplit,
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
        Ok(Self { args, split: split_of(args), topology, out, runs, seconds, cpu, head: true })
    }

    /// Clears the runs that were printed.
    pub(crate) fn restart(&mut self) {
        self.runs.clear();
        self.seconds.clear();
        self.cpu = children_cpu_ns();
    }

    pub(crate) fn interval(
        &mut self,
        counters: &Counters,
        run: &CounterRun,
        time: f64,
        seconds: f64,
    ) -> anyhow::Result<()> {
        let places = counted_places(self.split, &self.topology, counters, std::slice::from_ref(run));
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
        let places = counted_places(self.split, &self.topology, counters, &self.runs);
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
                let line = CounterLine::new(place, at, seconds, self.split);
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
