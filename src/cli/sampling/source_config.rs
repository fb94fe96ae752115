//! Converts arguments to the configuration of a source, and checks them.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::engine::{IntakeOptions, Options};
use crate::event::spec::LookupPaths;
use crate::event::{CallGraph, Event, Interpreters, base_name, parse};
use crate::filter::capture;
use crate::kernel::attr::{SW_TASK_CLOCK, TYPE_SOFTWARE};
use crate::kernel::cpus;
use crate::kernel::limits::Rights;
use crate::kernel::spawn::{self, Output};
use crate::kernel::sys::RealSys;
use crate::kernel::thread_priority;
use crate::lang::quantity;
use crate::source::live::attr::{Extras, Rate};
use crate::source::live::containers::Scanner;
use crate::source::live::error::refusal;
use crate::source::live::target::TargetSelection;
use crate::source::live::{LiveConfig, LiveSource, Target, overhead, tables_of};

use crate::symbols::SymbolOptions;

use crate::cli::args::{RecordArgs, Sampling};
use crate::cli::output::complain;
use crate::cli::{signals, usage};

pub(crate) struct StartedSource {
    pub(crate) source: LiveSource,
    pub(crate) per_sample: Option<Duration>,
    pub(crate) warning: Option<String>,
}

/// Returns engine options with these names and memory, and defaults otherwise.
pub(crate) fn engine_options(symbols: SymbolOptions, memory: usize) -> Options {
    Options {
        symbols,
        memory,
        keep: None,
        watched: None,
        own_pid: None,
        wants: IntakeOptions::default(),
        refresh: Duration::from_secs(1),
        per_sample: None,
        no_inline: false,
        realtime: None,
    }
}

pub(crate) fn start(sampling: &Sampling, cmd: &[OsString], output: Output) -> anyhow::Result<StartedSource> {
    let rights = Rights::read();
    let mut config = config(sampling, &rights)?;
    let (mut per_sample, mut warning) = (None, None);
    if let Some(hz) = samples_a_second(&config) {
        let cost = overhead::per_sample(&RealSys);
        let highest = overhead::highest_rate(cost);
        if sampling.freq == "max" && sampling.period.is_none() && hz > highest && !sampling.force {
            config.rate = Rate::Frequency(highest);
        }
        warning = afford(samples_a_second(&config).unwrap_or(hz), cost, sampling)?;
        per_sample = Some(cost);
    }
    if !cmd.is_empty() {
        config.command = Some(spawn::hold(cmd, output).context("cannot start the command")?);
    }
    let chosen = Some(config.target).filter(|target| sampling.all || *target != Target::System);
    config.target = Target::or_command(chosen, config.cpus.is_some(), config.command.as_ref());
    if config.target == Target::System && !rights.system_wide() {
        bail!(what_works(&rights));
    }
    let source = LiveSource::start(config, Box::new(RealSys), rights)?;
    Ok(StartedSource { source, per_sample, warning })
}

/// The same for commands without a screen, with signals: Ctrl-C ends the session even while events are opened.
pub(crate) fn begin(args: &RecordArgs, output: Output) -> anyhow::Result<(StartedSource, Arc<AtomicBool>)> {
    let stop = signals::stop_flag()?;
    let started = start(&args.sampling, &args.cmd, output)?;
    started.warning.iter().for_each(|text| complain(text));
    Ok((started, stop))
}

/// Returns the samples per second of the most frequent event on a busy CPU, if known by its rate or a clock's period.
fn samples_a_second(config: &LiveConfig) -> Option<u64> {
    let is_clock = |event: &Event| event.attr.kind == TYPE_SOFTWARE && event.attr.config <= SW_TASK_CLOCK;
    let of = |event: &Event| match event.own_rate().unwrap_or(config.rate) {
        Rate::Frequency(hz) => Some(hz),
        Rate::Period(0) => None,
        // The kernel limits its timers to ten microseconds.
        Rate::Period(ns) => is_clock(event).then(|| 1_000_000_000 / ns.max(10_000)),
    };
    config.events.iter().filter_map(of).max()
}

/// Returns what a user without rights can do, and how to get more rights.
fn what_works(rights: &Rights) -> String {
    let (reason, remedy) = refusal(rights);
    let own: &[(&str, &str)] = match rights.blocked.is_some() || rights.shut_out {
        true => &[],
        false => &[("perfprof-tui -- CMD", "a command"), ("perfprof-tui -p PID", "one of your processes")],
    };
    let always = [("perfprof-tui FILE", "a recording"), ("perfprof-tui demo", "a real incident, with a tour")];
    let mut text = String::from("this user cannot sample the whole machine. These work:\n");
    for (line, what) in own.iter().chain(&always) {
        text.push_str(&format!("  {line:22}{what}\n"));
    }
    text.push_str(&format!("For more: {reason}.\n  {remedy}"));
    text
}

/// Returns the real-time priority, if requested and permitted.
pub(crate) fn realtime(sampling: &Sampling) -> anyhow::Result<Option<i32>> {
    if let Some(priority) = sampling.realtime {
        thread_priority::may_be_realtime(priority).with_context(|| {
            format!(
                "-r {priority}: this user may not use real-time priorities\nrun as root, with CAP_SYS_NICE, or raise \
                 ulimit -r; check cpu.rt_runtime_us of the cgroup"
            )
        })?;
    }
    Ok(sampling.realtime)
}

/// Returns a warning about a rate at this cost per sample; refuses a rate that would take half of a CPU.
fn afford(hz: u64, cost: Duration, sampling: &Sampling) -> anyhow::Result<Option<String>> {
    let percent = overhead::percent(cost, hz);
    let words = format!("{hz} Hz costs {percent:.0} % of each CPU here ({:.1} µs a sample)", cost.as_secs_f64() * 1e6);
    if percent > overhead::REFUSE_PERCENT && !sampling.force {
        let highest = overhead::highest_rate(cost);
        let period = 1_000_000_000u64.div_ceil(highest);
        let lower = match sampling.period {
            Some(_) => format!("-c {period} or more"),
            None => format!("-F {highest} or lower"),
        };
        bail!("{words}: refused above {:.0} %; use {lower}, or --force", overhead::REFUSE_PERCENT);
    }
    Ok((percent > overhead::WARN_PERCENT).then(|| format!("{words}: this slows down what you measure")))
}

/// Checks the request without opening events.
pub(crate) fn check(sampling: &Sampling) -> anyhow::Result<()> {
    config(sampling, &Rights::read()).map(drop)
}

pub(crate) fn config(s: &Sampling, rights: &Rights) -> anyhow::Result<LiveConfig> {
    let rate = match (s.period, s.freq.as_str()) {
        (Some(0), _) => return Err(usage("-c 0: a period must be at least 1")),
        (Some(period), _) => Rate::Period(period),
        (None, "max") => Rate::Frequency(rights.max_sample_rate.max(1) as u64),
        (None, text) => Rate::Frequency(
            quantity::hertz(text)
                .ok()
                .filter(|hz| *hz > 0)
                .ok_or_else(|| usage(format!("-F {text}: expected samples per second, or max")))?,
        ),
    };
    if let Rate::Frequency(hz) = rate
        && hz as i64 > rights.max_sample_rate
    {
        bail!(
            "-F {hz} is above kernel.perf_event_max_sample_rate = {max}\nuse -F max, or sysctl \
             kernel.perf_event_max_sample_rate={hz}",
            max = rights.max_sample_rate
        );
    }
    let chains = CallGraph::parse(&s.call_graph).map_err(usage)?;
    let events = events(s)?;
    if s.latency && !events.iter().any(|event| event.is_clock() || event.is_of_pmu()) {
        return Err(usage("--latency weighs samples of time, and no event samples time: add -e cpu-clock"));
    }
    if s.extras.branches != 0 {
        if chains == CallGraph::Lbr {
            return Err(usage("-b and -j cannot be combined with --call-graph lbr: both use the CPU's branch records"));
        }
        if !events.iter().any(Event::is_of_pmu) {
            return Err(usage("-b and -j need an event of the CPU's PMU, e.g. -e cycles"));
        }
    }
    Ok(LiveConfig {
        events,
        rate,
        chains,
        cgroups: s.all_cgroups || s.container.is_some() || s.pod.is_some(),
        extras: Extras { switches: s.extras.switches || s.latency, ..s.extras },
        exclude: s.exclude,
        inherit: !s.no_inherit,
        pages: s.pages.as_deref().map(pages).transpose()?,
        delay: s.delay,
        target: target(s)?,
        cpus: s.cpus.as_deref().map(cpu_list).transpose()?,
        force: s.force,
        tables: tables_of(s.memory.unwrap_or(usize::MAX)),
        interpreters: Interpreters::parse(&s.interp).map_err(|why| usage(format!("--interp {why}")))?,
        off_cpu_time: s.off_cpu_time && s.events.is_empty(),
        ..LiveConfig::default()
    })
}

fn events(s: &Sampling) -> anyhow::Result<Vec<Event>> {
    let mut events = sampled(s)?;
    if s.grouped {
        events.iter_mut().for_each(|event| event.group = Some(1));
    }
    if s.no_samples {
        events.iter_mut().for_each(|event| event.set_rate(Rate::Period(0)));
    }
    for name in &s.counted {
        if !events.iter().any(|event| base_name(&event.name) == name) {
            let counted = parse(name, &LookupPaths::system()).map_err(|fault| usage(format!("--trigger: {fault}")))?;
            events.extend(counted.into_iter().map(|mut event| {
                event.set_rate(Rate::Period(0));
                event
            }));
        }
    }
    Ok(events)
}

fn sampled(s: &Sampling) -> anyhow::Result<Vec<Event>> {
    if s.filter_after.contains(&0) {
        return Err(usage("--filter must follow the -e of its tracepoint; to filter the view use --where"));
    }
    let places = LookupPaths::system();
    let aliases = s.aliases();
    if s.events.is_empty() {
        let mut event = Event::cycles();
        capture::set(&mut event, aliases.as_deref(), &places).map_err(|fault| usage(fault.to_string()))?;
        return Ok(vec![event]);
    }
    let mut events: Vec<Event> = Vec::new();
    for (i, text) in s.events.iter().enumerate() {
        let groups = events.iter().filter_map(|e| e.group).max().unwrap_or(0);
        let parsed = parse(text, &places).map_err(|fault| usage(fault.to_string()))?;
        let first = events.len();
        events.extend(parsed.into_iter().map(|e| Event { group: e.group.map(|g| g + groups), ..e }));
        let own = s.filter_after.iter().zip(&s.filters).rfind(|(after, _)| **after == i + 1);
        let filter = match (own.map(|(_, filter)| filter), &aliases) {
            (Some(own), Some(also)) => Some(format!("({own}) && {also}")),
            (own, also) => own.or(also.as_ref()).cloned(),
        };
        for event in &mut events[first..] {
            capture::set(event, filter.as_deref(), &places).map_err(|fault| usage(fault.to_string()))?;
        }
    }
    Ok(events)
}

pub(crate) fn ids(text: &str, option: &str) -> anyhow::Result<Vec<i32>> {
    Target::ids(text).map_err(|why| usage(format!("{option} {text}: {why}")))
}

fn target(s: &Sampling) -> anyhow::Result<Target> {
    if s.all && (s.pids.is_some() || s.tids.is_some()) {
        complain("-a has no effect: -p or -t selects the target");
    }
    Ok(if let Some(pids) = &s.pids {
        Target::processes(&ids(pids, "-p")?)?
    } else if let Some(tids) = &s.tids {
        Target::threads(&ids(tids, "-t")?)?
    } else if let Some(user) = &s.user {
        Target::user(user)?
    } else if let Some(group) = &s.cgroup {
        Target::cgroups(group)?
    } else if let Some(wanted) = wanted(s)? {
        Target::containers(wanted)?
    } else {
        Target::System
    })
}

/// Returns the requested containers.
pub fn wanted(s: &Sampling) -> anyhow::Result<Option<TargetSelection>> {
    let container = s.container.as_deref().map(TargetSelection::container);
    Ok(container.or_else(|| s.pod.as_deref().map(TargetSelection::pod)).transpose()?)
}

/// For containers whose cgroups events cannot be bound to: samples the machine, filters the view, returns a note.
pub fn view_containers(s: &mut Sampling, filter: &mut Option<String>) -> anyhow::Result<Option<String>> {
    let Some(wanted) = wanted(s)? else { return Ok(None) };
    let Some(only) = wanted.view(&mut Scanner::here())? else { return Ok(None) };
    (s.container, s.pod) = (None, None);
    *filter = Some(filter.as_ref().map_or(only.clone(), |filter| format!("({only}) && ({filter})")));
    Ok(Some(wanted.viewed()))
}

pub(crate) fn cpu_list(text: &str) -> anyhow::Result<Vec<u32>> {
    let list =
        cpus::parse_list(text).map_err(|piece| usage(format!("-C {text}: {piece} is not a CPU or a range of CPUs")))?;
    if list.is_empty() { Err(usage("-C: expected at least one CPU")) } else { Ok(list) }
}

/// Checks `--threshold`, with the same limits as `:threshold`.
pub(crate) fn points(points: f64) -> anyhow::Result<f64> {
    let fits = (0.5..100.0).contains(&points);
    if fits { Ok(points) } else { Err(usage(format!("--threshold {points}: expected 0.5 to 100 points"))) }
}

/// Parses pages, or bytes with a unit.
pub(crate) fn pages(text: &str) -> anyhow::Result<usize> {
    let page = rustix::param::page_size();
    let plain = !text.contains(|c: char| c.is_ascii_alphabetic());
    let pages =
        if plain { quantity::count(text) } else { quantity::size(text).map(|bytes: usize| bytes.div_ceil(page)) };
    let pages = pages
        .ok()
        .filter(|n| (1..=1 << 18).contains(n))
        .ok_or_else(|| usage(format!("-m {text}: expected pages, or a size such as 512K")))?;
    Ok(pages.next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        sampling: Sampling,
    }

    #[test]
    fn a_rate_that_takes_half_a_cpu_is_refused() {
        let of = |hz, line: &str| {
            let words = std::iter::once("x").chain(line.split_whitespace());
            let Line { sampling } = <Line as clap::Parser>::try_parse_from(words).expect("parses");
            afford(hz, Duration::from_micros(8), &sampling).map_err(|error| error.to_string())
        };
        assert_eq!(of(1000, ""), Ok(None));
        assert!(of(20_000, "").is_ok_and(|warning| warning.is_some_and(|text| text.contains("costs 16 %"))));
        assert!(of(62_400, "").is_ok() && of(63_000, "--force").is_ok_and(|warning| warning.is_some()));
        for (line, remedy) in [("-F 63000", "use -F 62000 or lower, or --force"), ("-c 1", "use -c 16130 or more, or")]
        {
            let why = of(63_000, line).expect_err("refused");
            assert!(why.contains("refused above 50 %") && why.contains(remedy), "{why}");
        }
    }

    #[test]
    fn rings_have_pages_or_bytes() {
        assert_eq!(pages("100").ok(), Some(128));
        assert_eq!(pages("512K").ok(), Some((512 << 10) / rustix::param::page_size()));
        assert!(pages("0").is_err() && pages("x").is_err() && pages("1.5").is_err());
    }

    #[test]
    fn latency_needs_an_event_of_time() {
        let of = |events: &[&str]| {
            let events = events.iter().map(|event| (*event).to_owned()).collect();
            check(&Sampling { events, latency: true, ..crate::cli::config::live_args().sampling })
        };
        assert!(of(&[]).is_ok() && of(&["sched:sched_switch,cpu-clock"]).is_ok());
        assert!(of(&["sched:sched_switch"]).is_err_and(|why| why.to_string().contains("add -e cpu-clock")));
    }

    /// perf users type -a before the options that restrict it.
    #[test]
    fn the_whole_machine_is_narrowed() {
        for narrowed in [["-G", "web"], ["--container", "web"], ["--pod", "shop/web"], ["-u", "root"]] {
            let words = [&["x", "-a"], &narrowed[..]].concat();
            let line = <Line as clap::Parser>::try_parse_from(&words);
            assert!(line.is_ok_and(|line| line.sampling.all), "{narrowed:?}");
        }
        let root = Sampling { user: Some("root".to_owned()), all: true, ..crate::cli::config::live_args().sampling };
        assert!(matches!(target(&root), Ok(Target::User { uid: 0, .. })));
    }
}
