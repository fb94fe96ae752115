//! `stat`: counts events over a command, a target or an interval, as perf stat does.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::time::Timespec;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::event::spec::LookupPaths;
use crate::event::{Event, parse};
use crate::kernel::limits::Rights;
use crate::kernel::spawn::{self, Output};
use crate::kernel::sys::RealSys;
use crate::kernel::{children_cpu_ns, cpus, wall_ns};
use crate::panel::unit;
use crate::report::counters::{self, Counter, CounterValue};
use crate::source::live::Target;
use crate::source::live::attr::Exclude;
use crate::source::live::counters::{CountConfig, CountedOn, Counters};

use super::args::{Format, Stat};
use super::output::{complain, print, print_json, print_json_line, timed_csv};
use super::source_config;
use super::usage;

/// The events of perf stat, and those that each -d adds.
const USUAL: &str = "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses";
const DETAILED: [&str; 3] = [
    "L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses",
    "L1-icache-loads,L1-icache-load-misses,dTLB-loads,dTLB-load-misses,iTLB-loads,iTLB-load-misses",
    "L1-dcache-prefetches,L1-dcache-prefetch-misses",
];

/// A run's figures by place.
type CounterRun = BTreeMap<(usize, CountedOn), CounterValue>;

/// `perfprof-tui stat`.
pub(crate) fn run(args: Stat) -> anyhow::Result<u8> {
    let has_target = args.all || args.cpus.is_some() || args.pids.is_some() || args.tids.is_some();
    if args.cmd.is_empty() && !has_target {
        return Err(usage("stat: name a command, or a target: -a, -C, -p or -t"));
    }
    if args.repeat == 0 || args.repeat > 1 && (args.cmd.is_empty() || args.interval.is_some()) {
        return Err(usage("-r: a command can be run 1 or more times, and without -I"));
    }
    if args.per_cpu && (args.pids.is_some() || args.tids.is_some() || !has_target) {
        return Err(usage("--per-cpu goes with -a or -C: a task's counters are its own, whatever CPU it is on"));
    }
    if args.interval.is_some_and(|interval| interval < Duration::from_millis(10)) {
        return Err(usage("-I: 10 milliseconds or more"));
    }
    let events = events(&args)?;
    let stop = Arc::new(AtomicUsize::new(0));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(signal, stop.clone(), signal as usize)?;
    }
    let mut report = Report { args: &args, runs: Vec::new(), seconds: Vec::new(), cpu: children_cpu_ns(), head: true };
    let mut code = 0;
    let mut last = None;
    for _ in 0..args.repeat {
        let (counters, status) = one_run(&args, &events, &stop, &mut report)?;
        code = status;
        last = Some(counters);
        if stop.load(Ordering::Relaxed) != 0 {
            break;
        }
    }
    if let Some(counters) = last.filter(|_| args.interval.is_none()) {
        report.end(&counters)?;
    }
    Ok(code)
}

fn events(args: &Stat) -> anyhow::Result<Vec<Event>> {
    let places = LookupPaths::system();
    let mut text = args.events.join(",");
    if text.is_empty() {
        USUAL.clone_into(&mut text);
        // A CPU's own clock counts whoever runs, idleness too.
        if args.all || args.cpus.is_some() {
            text = text.replace("task-clock", "cpu-clock");
        }
        for more in &DETAILED[..usize::from(args.detailed).min(DETAILED.len())] {
            text = format!("{text},{more}");
        }
    }
    parse(&text, &places).map_err(|fault| usage(fault.to_string()))
}

/// Counts over one run of the command, or until it is time to end.
fn one_run(
    args: &Stat,
    events: &[Event],
    stop: &AtomicUsize,
    report: &mut Report<'_>,
) -> anyhow::Result<(Counters, u8)> {
    let held = match args.cmd.is_empty() {
        true => None,
        false => Some(spawn::hold(&args.cmd, Output::Inherit).context("the command cannot be started")?),
    };
    let chosen = args.cpus.as_deref().map(source_config::cpu_list).transpose()?;
    let target = match (&args.pids, &args.tids, &held) {
        (Some(pids), ..) => Target::processes(&source_config::ids(pids, "-p")?)?,
        (_, Some(tids), _) => Target::threads(&source_config::ids(tids, "-t")?)?,
        (_, _, Some(held)) if !args.all && chosen.is_none() => Target::Threads(vec![held.pid()]),
        _ => Target::System,
    };
    let on_exec = held.as_ref().is_some_and(|held| target == Target::Threads(vec![held.pid()]));
    let config = CountConfig {
        events: events.to_vec(),
        target,
        cpus: match chosen {
            Some(list) => list,
            None => cpus::online()?,
        },
        exclude: Exclude { kernel: args.exclude_kernel, user: args.exclude_user, ..Exclude::default() },
        inherit: !args.no_inherit,
        on_exec,
    };
    let counters = Counters::open(config, Box::new(RealSys), Rights::read())?;
    if let Some(note) = counters.note.as_ref().filter(|_| report.runs.is_empty()) {
        complain(note);
    }
    counters.enable();
    let started = Instant::now();
    let before = read(&counters);
    let mut child = held.map(|held| held.release().context("the command cannot be started")).transpose()?;
    let status = wait(args, &counters, &mut child, stop, started, report)?;
    let seconds = started.elapsed().as_secs_f64();
    report.runs.push(since(read(&counters), &before));
    report.seconds.push(seconds);
    Ok((counters, status))
}

/// Waits for the end, printing each interval meanwhile; the exit code.
fn wait(
    args: &Stat,
    counters: &Counters,
    child: &mut Option<Child>,
    stop: &AtomicUsize,
    started: Instant,
    report: &mut Report<'_>,
) -> anyhow::Result<u8> {
    let interval = args.interval;
    let (mut then, mut at, mut round) = (read(counters), started, 1u32);
    let end =
        child.as_ref().and_then(|child| rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok());
    loop {
        let ended = match child {
            Some(child) => child.try_wait()?,
            None => None,
        };
        let due = interval.is_some_and(|interval| started.elapsed() >= interval * round);
        let signal = stop.load(Ordering::Relaxed) as i32;
        if due || (ended.is_some() || signal != 0) && interval.is_some() {
            let now = read(counters);
            let seconds = at.elapsed().as_secs_f64();
            report.interval(counters, &since(now.clone(), &then), started.elapsed().as_secs_f64(), seconds)?;
            (then, at, round) = (now, Instant::now(), round + 1);
        }
        if let Some(status) = ended {
            return Ok(spawn::describe(status).1 as u8);
        }
        if signal != 0 || args.count.is_some_and(|n| round > n) {
            return child.as_mut().map_or(Ok(0), |child| end_of(child, signal));
        }
        let left = interval.map_or(PATIENCE, |i| (i * round).saturating_sub(started.elapsed()).min(PATIENCE));
        rest(end.as_ref(), left);
    }
}

/// Waits for the command, which was started here and must not outlive this; the exit code. A Ctrl-C of the
/// terminal has reached it by itself, other signals end only us unless they are passed on.
fn end_of(child: &mut Child, signal: i32) -> anyhow::Result<u8> {
    if let Some(signal) = Signal::from_named_raw(signal).filter(|_| signal != 0 && signal != SIGINT) {
        // Gone already: then there is nothing to end.
        let _ = rustix::process::kill_process(Pid::from_child(child), signal);
    }
    Ok(spawn::describe(child.wait()?).1 as u8)
}

/// The longest time until a signal is seen.
const PATIENCE: Duration = Duration::from_millis(50);

/// Waits until the command has ended, a signal has come or the time is over.
fn rest(end: Option<&OwnedFd>, left: Duration) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos() as i64 };
    let mut fds: Vec<PollFd<'_>> = end.map(|fd| PollFd::new(fd, PollFlags::IN)).into_iter().collect();
    // Whatever it ends with, the caller looks again.
    let _ = poll(&mut fds, Some(&timeout));
}

fn read(counters: &Counters) -> CounterRun {
    let value =
        |c: crate::source::Counts| CounterValue { raw: c.value, enabled_ns: c.enabled_ns, running_ns: c.running_ns };
    counters.read().into_iter().map(|(at, counts)| (at, value(counts))).collect()
}

fn since(now: CounterRun, then: &CounterRun) -> CounterRun {
    let rest = |(at, value): ((usize, CountedOn), CounterValue)| {
        (at, value.since(&then.get(&at).copied().unwrap_or_default()))
    };
    now.into_iter().map(rest).collect()
}

/// The figures, as they are printed.
struct Report<'a> {
    args: &'a Stat,
    runs: Vec<CounterRun>,
    seconds: Vec<f64>,
    /// CPU time of children before: user and system.
    cpu: (u64, u64),
    head: bool,
}

impl Report<'_> {
    /// The counters of some runs by the places that are told apart.
    fn places(&self, counters: &Counters, runs: &[CounterRun]) -> Vec<(String, Vec<Counter>)> {
        let name = |place: CountedOn| match place {
            CountedOn::Cpu(cpu) if self.args.per_cpu => format!("CPU {cpu}"),
            CountedOn::Thread(tid) if self.args.per_thread => {
                format!("{}-{tid}", counters.comms.get(&tid).map_or("", String::as_str))
            }
            _ => String::new(),
        };
        let mut places: Vec<(CountedOn, String)> = Vec::new();
        for (_, place) in runs.iter().flat_map(|run| run.keys()) {
            let name = name(*place);
            if !places.iter().any(|(_, known)| *known == name) {
                places.push((*place, name));
            }
        }
        places.sort_by_key(|(place, _)| *place);
        let sum = |run: &CounterRun, event: usize, of: &str| {
            let own = run.iter().filter(|((e, place), _)| *e == event && name(*place) == of);
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
            values: runs.iter().filter_map(|run| sum(run, event, of)).collect(),
            refused: counters.refused[event].clone(),
        };
        let n = counters.events().len();
        let list = |(_, name): (CountedOn, String)| {
            let all = (0..n).map(|event| counter(event, &name)).collect();
            (name, all)
        };
        places.into_iter().map(list).collect()
    }

    fn interval(&mut self, counters: &Counters, run: &CounterRun, time: f64, seconds: f64) -> anyhow::Result<()> {
        let table = counters::table(&self.places(counters, std::slice::from_ref(run)), seconds);
        match self.args.format {
            Format::Text => print(&format!("{time:.3} s\n{}\n", table.to_text()))?,
            Format::Csv => print(&timed_csv(&table, &format!("{time:.6}"), std::mem::take(&mut self.head)))?,
            Format::Json => {
                let line = serde_json::json!({ "time": time, "seconds": seconds, "counters": table.to_json() });
                print_json_line(&line)?;
            }
        }
        Ok(())
    }

    /// Prints the figures of all runs.
    fn end(&self, counters: &Counters) -> anyhow::Result<()> {
        let elapsed = counters::Mean::of(&self.seconds);
        let table = counters::table(&self.places(counters, &self.runs), elapsed.mean);
        let (user, system) = children_cpu_ns();
        let cpu = [user - self.cpu.0, system - self.cpu.1].map(|ns| ns as f64 / 1e9 / self.runs.len().max(1) as f64);
        match self.args.format {
            Format::Text => {
                let mut out = format!("{}\n", table.to_text());
                let error = elapsed.error_percent.map_or(String::new(), |e| format!("  ± {}", unit::percent(e)));
                out.push_str(&format!("{:.6} s elapsed{error}\n", elapsed.mean));
                if !self.args.cmd.is_empty() {
                    out.push_str(&format!("{:.6} s user, {:.6} s system, of the command\n", cpu[0], cpu[1]));
                }
                print(&out)?;
                let mut said: Vec<&String> = counters.refused.iter().flatten().collect();
                said.dedup();
                said.into_iter().for_each(|why| complain(&format!("not supported: {why}")));
            }
            Format::Csv => print(&table.to_csv())?,
            Format::Json => {
                let whole = serde_json::json!({
                    "wall": wall_ns() as f64 / 1e9,
                    "runs": self.runs.len(),
                    "seconds": elapsed.mean,
                    "seconds_error": elapsed.error_percent,
                    "user": cpu[0],
                    "system": cpu[1],
                    "counters": table.to_json(),
                });
                print_json(&whole)?;
            }
        }
        Ok(())
    }
}
