//! `cpus`: prints the figures of the CPUs screen, one table per interval. Samples name the function behind an anomaly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{Engine, Options, Request};
use crate::ingest::derived::softirq_times::HandlerTimes;
use crate::kernel::cpus::format_list;
use crate::kernel::host::Roots;
use crate::kernel::spawn::Output;
use crate::kernel::wall_ns;
use crate::machine::findings;
use crate::machine::findings::{CpuFinding, FindingInput, FindingKind};
use crate::machine::host::HostWatch;
use crate::machine::sampler::HostView;
use crate::machine::softirqs::Tracer;
use crate::machine::table::{CpuColumn, CpuFacts, SHOWN};
use crate::query::cpus::context::VECTORS;
use crate::query::{Answer, Question, cpus};
use crate::session::machine::Ticks;
use crate::symbols::SymbolOptions;

use crate::cli::args::{CpusArgs, OutputFormat};
use crate::cli::output::{complain, print, print_csv, print_json_line, timed_csv};
use crate::cli::sampling::source_config::{self, cpu_list, points};
use crate::cli::{config, signals, usage};

pub(crate) fn run(args: CpusArgs) -> anyhow::Result<u8> {
    let interval = args.interval;
    if !(Duration::from_millis(100)..Duration::from_secs(86_400)).contains(&interval) {
        return Err(usage(format!("-i {interval:?}: expected seconds, 0.1 or more")));
    }
    points(args.threshold)?;
    let chosen = args.cpus.as_deref().map(cpu_list).transpose()?;
    let stop = signals::stop_flag()?;
    let mut reader = HostWatch::new(Roots::default());
    reader.count_work(true);
    let first = reader.cut();
    if first.rows.is_empty() {
        anyhow::bail!("{}", first.notes.first().map_or("no CPUs were found", String::as_str));
    }
    if let Some(missing) = chosen.iter().flatten().find(|cpu| first.row(**cpu).is_none()) {
        return Err(usage(format!("-C {missing}: no such CPU")));
    }
    let tracer = args.softirq_time.then(|| Tracer::start(chosen.clone())).transpose();
    let tracer = tracer.map_err(|why| anyhow::anyhow!("the time in softirqs cannot be measured: {why}"))?;
    let mut sampler = Sampler::start();
    let mut found = Vec::new();
    let mut said = Vec::new();
    let mut offline = Offline::default();
    offline.changes(&first, chosen.as_deref()).iter().for_each(|change| complain(change));
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) {
        if !wait(&mut reader, interval, &stop) {
            break;
        }
        let view = reader.cut();
        for note in &view.notes {
            if !said.contains(note) {
                complain(note);
                said.push(note.clone());
            }
        }
        offline.changes(&view, chosen.as_deref()).iter().for_each(|change| complain(change));
        let times = tracer.as_ref().and_then(Tracer::times);
        let facts = FindingInput {
            host: Some(&view),
            samples: None,
            times: times.as_deref(),
            own: 0.0,
            points: args.threshold,
            before: &found,
        };
        found = match &mut sampler {
            Ok(sampler) => sampler.findings(facts),
            Err(_) => findings::findings(facts),
        };
        if let Err(why) = &sampler
            && let note = format!("functions cannot be named: {why}")
            && !(found.is_empty() || said.contains(&note))
        {
            complain(&note);
            said.push(note);
        }
        show(&args, &view, times.as_deref(), chosen.as_deref(), &found, printed == 0)?;
        printed += 1;
    }
    Ok(0)
}

#[derive(Debug, Default)]
struct Offline(Vec<u32>);

impl Offline {
    /// Returns sentences about chosen CPUs that went offline or came back since the last view.
    fn changes(&mut self, view: &HostView, chosen: Option<&[u32]>) -> Vec<String> {
        let rows = view.rows.iter().filter(|row| !row.online).map(|row| row.cpu);
        let now: Vec<u32> = rows.filter(|cpu| chosen.is_none_or(|list| list.contains(cpu))).collect();
        let before = std::mem::replace(&mut self.0, now.clone());
        let only =
            |list: &[u32], not: &[u32]| -> Vec<u32> { list.iter().filter(|cpu| !not.contains(cpu)).copied().collect() };
        let sentence = |cpus: Vec<u32>, one: &str, many: &str| match cpus.as_slice() {
            [] => None,
            [cpu] => Some(format!("CPU {cpu} {one}")),
            _ => Some(format!("CPUs {} {many}", format_list(&cpus))),
        };
        let went = sentence(only(&now, &before), "is offline", "are offline");
        let came = sentence(only(&before, &now), "is online again", "are online again");
        went.into_iter().chain(came).collect()
    }
}

/// Sampling rate of each CPU in Hz.
const RATE: &str = "99";
/// Memory limit of the profile in bytes; samples of one [`cpus::WINDOW_NS`] take a small part of it.
const MEMORY: usize = 64 << 20;
/// Maximum number of CPUs whose functions are looked up per interval.
const MOST_NAMED: usize = 4;
/// Time limit for looking up names.
const PATIENCE: Duration = Duration::from_millis(500);

/// Samples that complement the figures of /proc.
struct Sampler {
    engine: Engine,
    asked: u64,
}

impl Sampler {
    fn start() -> anyhow::Result<Self> {
        let mut sampling = config::live_args().sampling;
        (sampling.events, sampling.freq) = (vec!["cpu-clock".to_owned()], RATE.to_owned());
        // Softirqs run kernel functions only, so user stacks and their tables are not needed.
        "fp".clone_into(&mut sampling.call_graph);
        let started = source_config::start(&sampling, &[], Output::Inherit)?;
        let options = Options {
            keep: Some(2 * cpus::WINDOW_NS),
            own_pid: Some(std::process::id() as i32),
            per_sample: started.per_sample,
            no_inline: true,
            ..source_config::engine_options(SymbolOptions::live(), MEMORY)
        };
        Ok(Self { engine: Engine::spawn(Box::new(started.source), options)?, asked: 0 })
    }

    fn findings(&mut self, facts: FindingInput<'_>) -> Vec<CpuFinding> {
        let now = self.answer(None);
        let mut found = of_samples(facts, &now);
        let mut named = 0;
        for one in &mut found {
            let wanted = one.kind == FindingKind::Soft && named < MOST_NAMED;
            let asked = one.cpu.filter(|_| wanted).and_then(|cpu| u16::try_from(cpu).ok());
            let Some(asked) = asked else { continue };
            named += 1;
            let answer = self.answer(Some(asked));
            let again = of_samples(facts, &answer);
            if let Some(again) = again.into_iter().find(|again| (again.cpu, again.kind) == (one.cpu, one.kind)) {
                *one = again;
            }
        }
        found
    }

    /// Returns the answer for all samples so far, with the functions in the softirqs of a CPU.
    fn answer(&mut self, cpu: Option<u16>) -> Arc<Answer> {
        self.asked += 1;
        self.engine.send(Request::Ask(Arc::new(Question { generation: self.asked, cpu, ..Question::default() })));
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.engine.answer();
            if answer.question.generation == self.asked && answer.names_pending == 0 {
                return answer;
            }
            if self.engine.notices().recv_deadline(until).is_err() {
                return answer;
            }
        }
    }
}

fn of_samples(facts: FindingInput<'_>, answer: &Answer) -> Vec<CpuFinding> {
    let samples = Some(&*answer.by_cpu).filter(|samples| samples.whole);
    findings::findings(FindingInput { samples, own: answer.cost.own_percent, ..facts })
}

/// Reads ticks until an interval is over; returns `false` if the program should end.
fn wait(reader: &mut HostWatch, interval: Duration, stop: &AtomicBool) -> bool {
    let end = Instant::now() + interval;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(reader.pause()));
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        if left > reader.pause() {
            reader.tick();
        }
    }
}

fn columns(view: &HostView, timed: bool) -> Vec<CpuColumn> {
    use CpuColumn::{Cpu, Cycles, Ghz, Ipc, IrqTimed, Ksoftirqd, Missing, Peak, Rate, Share, Timed};
    let mut out = vec![Cpu];
    out.extend((0..Ticks::N).filter(|kind| *kind != Ticks::IDLE).chain([Ticks::IDLE]).map(Share));
    out.extend([Missing, Peak, Ksoftirqd]);
    if view.counts_work() {
        out.extend([Cycles, Ipc, Ghz]);
    }
    if timed {
        out.push(IrqTimed);
        out.extend(SHOWN.map(Timed));
    } else {
        out.extend(SHOWN.into_iter().filter(|v| *v < view.vectors.len()).map(Rate));
    }
    out
}

fn show(
    args: &CpusArgs,
    view: &HostView,
    times: Option<&HandlerTimes>,
    chosen: Option<&[u32]>,
    found: &[CpuFinding],
    first: bool,
) -> anyhow::Result<()> {
    let facts = CpuFacts { host: Some(view), times, ..CpuFacts::default() };
    let wanted = |cpu: &u32| chosen.is_none_or(|list| list.contains(cpu));
    let cpus: Vec<u32> = view.rows.iter().filter(|r| r.online).map(|r| r.cpu).filter(wanted).collect();
    let table = facts.table(&columns(view, args.softirq_time), &cpus);
    let seconds = wall_ns() as f64 / 1e9;
    match args.format {
        OutputFormat::Text => {
            let mut out = format!("{seconds:.3}  {:.2} s\n{}", view.interval as f64 / 1e9, table.to_text());
            found.iter().for_each(|f| out.push_str(&format!("! {}: {}\n", f.text, f.advice(args.softirq_time))));
            out.push('\n');
            print(&out)?;
        }
        OutputFormat::Csv => print_csv(&timed_csv(&table, &format!("{seconds:.3}"), first))?,
        OutputFormat::Json => {
            let found: Vec<_> = found
                .iter()
                .map(|f| {
                    serde_json::json!({
                        "cpu": f.cpu,
                        "percent": f.share,
                        "vector": f.vector.map(|vector| VECTORS[vector]),
                        "function": f.function,
                        "text": f.text,
                        "advice": f.advice(args.softirq_time),
                    })
                })
                .collect();
            let line = serde_json::json!({
                "time": seconds,
                "interval": view.interval as f64 / 1e9,
                "cpus": table.to_json(),
                "findings": found,
            });
            print_json_line(&line)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::sampler::CpuRow;

    #[test]
    fn cpus_that_go_and_come_are_reported_once() {
        let view = |offline: &[u32]| {
            let row = |cpu| CpuRow { cpu, online: !offline.contains(&cpu), ..CpuRow::default() };
            HostView { rows: (0..5).map(row).collect(), ..HostView::default() }
        };
        let mut offline = Offline::default();
        let mut changes = |list: &[u32]| offline.changes(&view(list), Some(&[0, 1, 2, 3]));
        assert_eq!(changes(&[4]), [""; 0], "CPU 4 was not chosen");
        assert_eq!(changes(&[1, 4]), ["CPU 1 is offline"]);
        assert_eq!(changes(&[1]), [""; 0]);
        assert_eq!(changes(&[0, 2, 3]), ["CPUs 0,2-3 are offline", "CPU 1 is online again"]);
    }
}
