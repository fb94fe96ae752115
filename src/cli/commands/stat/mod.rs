//! `stat`: counts events over a command, a target or an interval, like perf stat.

mod output;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::Signal;
use rustix::time::Timespec;

use crate::event::spec::LookupPaths;
use crate::event::{Event, parse};
use crate::filter::capture;
use crate::kernel::attr::TYPE_TRACEPOINT;
use crate::kernel::children_cpu_ns;
use crate::kernel::cpus;
use crate::kernel::limits::Rights;
use crate::kernel::spawn::{self, HeldCommand, Output, RunningCommand};
use crate::kernel::sys::{Counts, RealSys};
use crate::report::counter_lines::CounterRun;
use crate::report::counters::RunTime;
use crate::source::live::Target;
use crate::source::live::attr::Exclude;
use crate::source::live::counters::{CountConfig, CountedOn, Counters};

use crate::cli::args::StatArgs;
use crate::cli::output::complain;
use crate::cli::sampling::source_config;
use crate::cli::{signals, usage};
use output::CounterReport;

/// Default events of perf stat, and the events that each -d adds.
const USUAL: &str = "task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses";
const DETAILED: [&str; 3] = [
    "L1-dcache-loads,L1-dcache-load-misses,LLC-loads,LLC-load-misses",
    "L1-icache-loads,L1-icache-load-misses,dTLB-loads,dTLB-load-misses,iTLB-loads,iTLB-load-misses",
    "L1-dcache-prefetches,L1-dcache-prefetch-misses",
];

pub(crate) fn run(mut args: StatArgs) -> anyhow::Result<u8> {
    let has_target = args.all || args.cpus.is_some() || args.pids.is_some() || args.tids.is_some();
    // Like perf, counts the whole machine until Ctrl-C without a target and a command.
    let has_groups = args.more.cgroup.is_some() || args.more.each_cgroup.is_some();
    args.all |= args.cmd.is_empty() && !has_target || has_groups;
    let by_cpu = [args.per_cpu, args.more.per_core, args.more.per_die, args.more.per_socket, args.more.per_node];
    let is_of_tasks = args.pids.is_some() || args.tids.is_some() || !(args.all || args.cpus.is_some());
    if let Some(word @ ("record" | "report")) = args.cmd.first().and_then(|word| word.to_str()) {
        anyhow::bail!(
            "stat {word}: counts cannot be saved in a recording\nsave the table with stat -o FILE, the values with \
             stat -x, -o FILE, or samples of the events with perfprof-tui record"
        );
    }
    // perf-prof's -i is an interval, perf's has no value.
    if let Some(word) = args.cmd.first().and_then(|word| word.to_str()).filter(|_| args.no_inherit)
        && word.bytes().all(|c| c.is_ascii_digit())
    {
        return Err(usage(format!(
            "stat -i {word}: -i is --no-inherit, like in perf, so {word} would be the command; use -I {word} to \
             print every {word} ms, or `perfprof-tui unit stat` for perf-prof's stat"
        )));
    }
    if args.repeat != 1 && (args.cmd.is_empty() || args.interval.is_some()) {
        return Err(usage("-r needs a command, and cannot be combined with -I"));
    }
    if by_cpu.contains(&true) && is_of_tasks {
        return Err(usage(
            "--per-cpu, --per-core and similar options need -a or -C, because counters of a task are not separated \
             by CPU",
        ));
    }
    if args.interval.is_some_and(|interval| interval < Duration::from_millis(10)) {
        return Err(usage("-I: expected at least 10 milliseconds"));
    }
    let events = events(&args)?;
    let stop = signals::stop_signal()?;
    let mut report = CounterReport::new(&args)?;
    let mut code = 0;
    let mut last = None;
    let mut done = 0;
    while args.repeat == 0 || done < args.repeat {
        if args.more.sync {
            rustix::fs::sync();
        }
        shell("--pre", args.more.pre.as_deref())?;
        let (counters, status) = one_run(&args, &events, &stop, &mut report)?;
        shell("--post", args.more.post.as_deref())?;
        (code, done) = (status, done + 1);
        let is_over = stop.load(Ordering::Relaxed) != 0;
        if args.repeat == 0 {
            report.end(&counters)?;
            report.restart();
        } else {
            last = Some(counters);
        }
        if is_over {
            break;
        }
    }
    if let Some(counters) = last.filter(|_| args.interval.is_none() || args.more.summary) {
        report.end(&counters)?;
    }
    Ok(code)
}

fn shell(option: &str, line: Option<&str>) -> anyhow::Result<()> {
    let Some(line) = line else { return Ok(()) };
    let status = Command::new("sh").args(["-c", line]).status().context("cannot start sh")?;
    anyhow::ensure!(status.success(), "{option} {line}: the command {}", spawn::describe(status).0);
    Ok(())
}

fn events(args: &StatArgs) -> anyhow::Result<Vec<Event>> {
    if args.more.null {
        return Ok(Vec::new());
    }
    let places = LookupPaths::system();
    let mut text = args.events.join(",");
    if text.is_empty() {
        USUAL.clone_into(&mut text);
        // A CPU's clock counts all tasks, including the idle task.
        if args.all || args.cpus.is_some() {
            text = text.replace("task-clock", "cpu-clock");
        }
        for more in &DETAILED[..usize::from(args.detailed).min(DETAILED.len())] {
            text = format!("{text},{more}");
        }
    }
    let mut events = parse(&text, &places).map_err(|fault| usage(fault.to_string()))?;
    if args.per_cpu && events.iter().any(|event| event.per_core) {
        return Err(usage(
            "percore sums up the threads of a core, which -A separates; use --per-core for counts per core",
        ));
    }
    if args.more.group {
        events.iter_mut().for_each(|event| event.group = Some(1));
    }
    if let Some(filter) = &args.more.filter {
        let traced = |event: &&mut Event| event.attr.kind == TYPE_TRACEPOINT;
        if !events.iter_mut().any(|event| traced(&event)) {
            return Err(usage("--filter needs a tracepoint given with -e"));
        }
        for event in events.iter_mut().filter(traced) {
            capture::set(event, Some(filter), &places).map_err(|fault| usage(fault.to_string()))?;
        }
    }
    Ok(events)
}

/// Counts over one run of the command, or until the end.
fn one_run(
    args: &StatArgs,
    events: &[Event],
    stop: &AtomicUsize,
    report: &mut CounterReport<'_>,
) -> anyhow::Result<(Counters, u8)> {
    let held = (!args.cmd.is_empty()).then(|| spawn::hold(&args.cmd, Output::Inherit)).transpose();
    let mut held = held.context("cannot start the command")?;
    let chosen = args.cpus.as_deref().map(source_config::cpu_list).transpose()?;
    let named = match (&args.pids, &args.tids, &args.more.cgroup, &args.more.each_cgroup) {
        (Some(pids), ..) => Some(Target::processes(&source_config::ids(pids, "-p")?)?),
        (_, Some(tids), ..) => Some(Target::threads(&source_config::ids(tids, "-t")?)?),
        (_, _, Some(group), _) => Some(Target::cgroups(group)?),
        (.., Some(groups)) => Some(each_cgroup(groups)?),
        _ => args.all.then_some(Target::System),
    };
    let target = Target::or_command(named, chosen.is_some(), held.as_ref());
    let on_exec = target.begins_with_exec(held.as_ref(), args.more.delay.unwrap_or_default());
    let config = CountConfig {
        events: events.to_vec(),
        target,
        cpus: chosen.map_or_else(cpus::online, Ok)?,
        exclude: Exclude { kernel: args.exclude_kernel, user: args.exclude_user, ..Exclude::default() },
        inherit: !args.no_inherit,
        on_exec,
        by_cgroup: args.more.each_cgroup.is_some(),
    };
    let counters = Counters::open(config, Box::new(RealSys), Rights::read())?;
    if let Some(note) = counters.note.as_ref().filter(|_| report.runs.is_empty()) {
        complain(note);
    }
    let release = |held: Option<HeldCommand>| held.map(HeldCommand::release).transpose();
    let mut child = None;
    if let Some(delay) = args.more.delay.filter(|delay| !delay.is_zero()) {
        child = release(held.take()).context("cannot start the command")?;
        std::thread::sleep(delay);
    }
    counters.enable();
    let cpu_before = children_cpu_ns();
    let started = Instant::now();
    let before = read(&counters);
    if held.is_some() {
        child = release(held).context("cannot start the command")?;
    }
    let status = wait(args, &counters, &mut child, stop, started, report)?;
    let span = started.elapsed();
    let mut run = since(read(&counters), &before);
    let cpu = (!args.cmd.is_empty()).then(|| {
        let now = children_cpu_ns();
        (now.0 - cpu_before.0, now.1 - cpu_before.1)
    });
    put_times(&mut run, events, span, cpu);
    for (cpu, percent) in absent(&run) {
        complain(&format!("CPU {cpu} was counted for {percent:.0} % of the time, then it went offline"));
    }
    report.runs.push(run);
    report.seconds.push(span.as_secs_f64());
    Ok((counters, status))
}

fn each_cgroup(names: &str) -> anyhow::Result<Target> {
    let mut groups = Vec::new();
    for name in names.split(',') {
        if let Target::Cgroups(found) = Target::cgroups(name)? {
            groups.extend(found);
        }
    }
    Ok(Target::Cgroups(groups))
}

/// Fills in the time events: the duration, and the user and system CPU time of an ended command. They belong to the
/// run, so only the first of several places has them.
fn put_times(run: &mut CounterRun, events: &[Event], span: Duration, cpu: Option<(u64, u64)>) {
    let mut done = vec![false; events.len()];
    for ((event, _), value) in run {
        let Some(time) = RunTime::of(&events[*event].name) else { continue };
        let ns = match time {
            RunTime::Duration => Some(span.as_nanos() as u64),
            RunTime::User => cpu.map(|(user, _)| user),
            RunTime::System => cpu.map(|(_, system)| system),
        };
        let ns = ns.filter(|_| !std::mem::replace(&mut done[*event], true));
        let running_ns = ns.map_or(0, |ns| ns.max(1));
        *value = Counts { value: ns.unwrap_or_default(), enabled_ns: running_ns, running_ns, ..*value };
    }
}

fn wait(
    args: &StatArgs,
    counters: &Counters,
    child: &mut Option<RunningCommand>,
    stop: &AtomicUsize,
    started: Instant,
    report: &mut CounterReport<'_>,
) -> anyhow::Result<u8> {
    let interval = args.interval;
    let (mut then, mut at, mut round) = (read(counters), started, 1u32);
    let end = child.as_ref().and_then(RunningCommand::end_fd);
    let fate = child.as_ref().map(RunningCommand::fate).unwrap_or_default();
    loop {
        let ended = match child {
            Some(child) => child.ended()?.is_some(),
            None => counters.is_over(),
        };
        let due = interval.is_some_and(|interval| started.elapsed() >= interval * round);
        let signal = stop.load(Ordering::Relaxed) as i32;
        if due || (ended || signal != 0) && interval.is_some() {
            // The next interval includes the time in which the table is written.
            let (read_at, now) = (Instant::now(), read(counters));
            let span = read_at.duration_since(at);
            let mut run = since(now.clone(), &then);
            put_times(&mut run, counters.events(), span, None);
            report.interval(counters, &run, started.elapsed().as_secs_f64(), span.as_secs_f64())?;
            (then, at, round) = (now, read_at, round + 1);
        }
        if ended {
            return Ok(fate.code(false));
        }
        if args.more.timeout.is_some_and(|most| started.elapsed() >= most) {
            child.iter_mut().for_each(RunningCommand::end);
            return Ok(fate.code(false));
        }
        if signal != 0 || args.count.is_some_and(|n| round > n) {
            if let Some(child) = child {
                end_of(child, end.as_ref(), signal, stop)?;
            }
            // Like in perf, the exit code is the signal's if the command outlives the program.
            let last = stop.load(Ordering::Relaxed) as u8;
            return Ok(fate.running().map_or_else(|| fate.code(true), |_| 128 + last));
        }
        let left = interval.map_or(PATIENCE, |i| (i * round).saturating_sub(started.elapsed()).min(PATIENCE));
        rest(end.as_ref(), left);
    }
}

/// Waits for the command to end. Ctrl-C has reached it through the terminal; other signals are forwarded. Ends a
/// stopped command, and one that still runs at a second signal or, except after Ctrl-C, when the time is over.
fn end_of(child: &mut RunningCommand, end: Option<&OwnedFd>, signal: i32, stop: &AtomicUsize) -> std::io::Result<()> {
    let passed_on = Signal::from_named_raw(signal).filter(|signal| *signal != Signal::INT);
    if let Some(signal) = passed_on {
        child.signal(signal);
    }
    let begun = Instant::now();
    let mut until = passed_on.map(|_| begun + spawn::FAREWELL);
    stop.store(0, Ordering::Relaxed);
    while child.ended()?.is_none() {
        if until.is_some_and(|until| Instant::now() >= until) || stop.load(Ordering::Relaxed) != 0 {
            child.end();
            break;
        }
        if child.is_stopped() {
            // It receives the signal as soon as it is continued.
            child.signal(Signal::from_named_raw(signal).unwrap_or(Signal::TERM));
            child.signal(Signal::CONT);
            until = Some(until.unwrap_or(begun + HEED));
        }
        rest(end, PATIENCE);
    }
    if signal != 0 {
        stop.store(signal as usize, Ordering::Relaxed);
    }
    Ok(())
}

/// Time for a stopped command to handle a signal.
const HEED: Duration = Duration::from_secs(1);

/// Longest delay until a signal is handled.
const PATIENCE: Duration = Duration::from_millis(50);

fn rest(end: Option<&OwnedFd>, left: Duration) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: left.as_nanos() as i64 };
    let mut fds: Vec<PollFd<'_>> = end.map(|fd| PollFd::new(fd, PollFlags::IN)).into_iter().collect();
    // The caller checks again in any case.
    let _ = poll(&mut fds, Some(&timeout));
}

fn read(counters: &Counters) -> CounterRun {
    counters.read().into_iter().collect()
}

/// Returns the CPUs that were counted for less time than others, with the percentage: counting on a CPU ends when it
/// goes offline, even if it returns.
fn absent(run: &CounterRun) -> Vec<(u32, f64)> {
    let mut enabled: BTreeMap<u32, u64> = BTreeMap::new();
    for ((_, place), value) in run {
        if let CountedOn::Cpu(cpu) = place {
            let most = enabled.entry(*cpu).or_default();
            *most = (*most).max(value.enabled_ns);
        }
    }
    let whole = enabled.values().copied().max().unwrap_or(0);
    let lacks = |ns: u64| whole - ns > APART_NS;
    let percent = |ns: u64| 100.0 * ns as f64 / whole as f64;
    enabled.into_iter().filter(|(_, ns)| lacks(*ns)).map(|(cpu, ns)| (cpu, percent(ns))).collect()
}

/// Tolerance between counters that begin or end together.
const APART_NS: u64 = 100_000_000;

fn since(now: CounterRun, then: &CounterRun) -> CounterRun {
    let rest =
        |(at, value): ((usize, CountedOn), Counts)| (at, value.since(&then.get(&at).copied().unwrap_or_default()));
    now.into_iter().map(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_went_away_is_told_from_one_that_stayed() {
        let value = |enabled_ns| Counts { value: 7, enabled_ns, running_ns: enabled_ns, ..Counts::default() };
        let run = |list: &[(usize, CountedOn, u64)]| -> CounterRun {
            list.iter().map(|(event, place, ns)| ((*event, *place), value(*ns))).collect()
        };
        let second = 1_000_000_000;
        let (one, two) = (CountedOn::Cpu(1), CountedOn::Cpu(2));
        let gone = run(&[(0, one, second), (1, one, second), (0, two, 4 * second), (1, two, 4 * second + APART_NS)]);
        assert_eq!(absent(&gone).iter().map(|(cpu, percent)| (*cpu, percent.round())).collect::<Vec<_>>(), [(1, 24.0)]);
        assert!(absent(&run(&[(0, one, second), (0, two, second + APART_NS)])).is_empty(), "they only began later");
        assert!(absent(&run(&[(0, CountedOn::Thread(1), 5), (0, CountedOn::Thread(2), 9 * second)])).is_empty());
        assert!(absent(&CounterRun::new()).is_empty());
    }
}
