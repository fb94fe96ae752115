//! Opens the running machine for a unit: its events, its target, and the command that it follows.

use std::time::Duration;

use anyhow::Context;

use crate::event::{CallGraph, Event, Rate};
use crate::ingest::unit_events::shared;
use crate::kernel::limits::Rights;
use crate::kernel::spawn::{self, Output};
use crate::kernel::sys::RealSys;
use crate::source::live::attr;
use crate::source::live::containers::Scanner;
use crate::source::live::{LiveConfig, LiveSource, Target, can_be_sampled, tables_of};
use crate::source::{Control, Source};
use crate::units;
use crate::units::kit::options::{scope, target};
use crate::units::kit::{FilteredUnit, Settings, Spec};

use crate::cli::Usage;
use crate::cli::args::unit_args::UnitArgs;
use crate::cli::sampling::source_config;

/// Default data pages of a ring buffer in a unit's session; large, because tracepoints come in storms.
const PAGES: usize = 1024;
/// Fewer on machines with many CPUs, because all ring buffers together are locked memory.
const PAGES_OF_MANY: usize = 256;
const MANY_CPUS: usize = 32;

/// Sampling rate of events that are added on the screen of a unit, in Hz.
const BESIDE_HZ: u64 = 999;

/// Returns the interval of printing.
pub(crate) fn interval(unit: &FilteredUnit, args: &UnitArgs) -> Option<Duration> {
    if args.interval.is_some() || args.duration.is_some() {
        return args.interval;
    }
    let own = unit.spec.interval.filter(|_| args.cmd.is_empty() || unit.is_log());
    // Several reports need an interval.
    own.or(args.count.map(|_| 1.0)).map(Duration::from_secs_f64)
}

pub(crate) fn narrow(args: &mut UnitArgs) -> anyhow::Result<Option<Target>> {
    if let Some(pids) = &args.pids {
        let pids = source_config::ids(pids, "-p")?;
        args.settings.target = Target::Processes(pids.clone());
        return Ok(args.files.is_empty().then(|| Target::processes(&pids)).transpose()?);
    }
    if let Some(tids) = &args.tids {
        let tids = source_config::ids(tids, "-t")?;
        args.settings.target = Target::Threads(tids.clone());
        return Ok(args.files.is_empty().then(|| Target::threads(&tids)).transpose()?);
    }
    Ok(None)
}

/// Opens the events of a unit on the running machine; with `probes`, also creates its probes.
pub(crate) fn start(
    spec: &'static Spec,
    args: &mut UnitArgs,
    probes: bool,
) -> anyhow::Result<(LiveSource, FilteredUnit)> {
    let mut target = narrow(args)?;
    if let Some(list) = args.settings.get("cgroups") {
        let groups = Target::cgroups(&if list.contains(',') { format!("{{{list}}}") } else { list.to_owned() })?;
        target = target.or(Some(groups));
    }
    if target.is_none() {
        target = of_container(&args.settings)?;
    }
    let target = target.or(args.all.then_some(Target::System));
    // The screen would be overwritten by the command's output.
    let output = if probes { Output::Inherit } else { Output::Discard };
    let command = (!args.cmd.is_empty()).then(|| spawn::hold(&args.cmd, output)).transpose();
    let command = command.context("cannot start the command")?;
    let cpus = args.settings.cpus().map_err(Usage)?;
    let target = Target::or_command(target, cpus.is_some(), command.as_ref());
    if target.begins_with_exec(command.as_ref(), Duration::ZERO) {
        args.settings.target = target.clone();
    }
    let unit = made(spec, args)?;
    let wants = unit.event_requests();
    let mut wanted = shared(&wants, unit.sees_machine).map_err(|why| anyhow::anyhow!("{}: {why}", spec.name))?;
    let mut events = std::mem::take(&mut wanted.events);
    if args.points.is_some() {
        // Each call is a point.
        events.iter_mut().for_each(|event| event.summed = None);
    }
    if events.is_empty() {
        events.push(Event { machine_wide: unit.sees_machine, ..Event::dummy() });
    }
    if let Some(cpus) = cpus.as_ref().filter(|_| unit.merges_cpus) {
        can_be_sampled(cpus)?;
    }
    let pages = match &args.pages {
        Some(text) => source_config::pages(text)?,
        None if args.chains == CallGraph::Auto && target != Target::System && wants.iter().any(|want| want.stack) => {
            attr::pages_of_copies(crate::kernel::cpus::online()?.len())
        }
        None if crate::kernel::cpus::online()?.len() > MANY_CPUS => PAGES_OF_MANY,
        None => PAGES,
    };
    let config = LiveConfig {
        events,
        // For events added next to the unit; its own events have their call graphs.
        rate: Rate::Frequency(BESIDE_HZ),
        // A unit that needs them may be added on the screen.
        chains: if !probes || wants.iter().any(|want| want.stack) { args.chains } else { CallGraph::None },
        walks_later: scope::samples_later(&wants),
        // Containers have names if samples contain cgroups.
        cgroups: true,
        inherit: true,
        pages: Some(pages),
        target,
        cpus: cpus.filter(|_| !unit.merges_cpus),
        command,
        force: true,
        tables: tables_of(usize::MAX),
        ..LiveConfig::default()
    };
    let mut source = LiveSource::start(config, Box::new(RealSys), Rights::read())?;
    if let Some(every) = interval(&unit, args).or(args.duration) {
        source.count_for(every);
    }
    if probes && (!wanted.probes.is_empty() || !wanted.optional.is_empty()) {
        source.control(&Control::Share(wanted)).map_err(|why| anyhow::anyhow!("{}: {why}", spec.name))?;
    }
    Ok((source, unit))
}

/// Returns the target of `--container` and `--pod`: the whole machine, filtered by the unit, if cgroups cannot be used.
fn of_container(settings: &Settings) -> anyhow::Result<Option<Target>> {
    let Some(wanted) = target::wanted(settings).map_err(Usage)?.into_iter().next() else { return Ok(None) };
    let is_bound = wanted.view(&mut Scanner::here())?.is_none();
    Ok(Some(if is_bound { Target::containers(wanted)? } else { Target::System }))
}

pub(crate) fn made(spec: &'static Spec, args: &UnitArgs) -> Result<FilteredUnit, Usage> {
    units::make(spec, &args.settings).map_err(|why| Usage(format!("{}: {why}", spec.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::unit_args;

    /// Commands and durations have one report, at their end; logs are printed while they grow.
    #[test]
    fn figures_of_a_command_are_printed_once() {
        let interval = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            let spec = units::find(words[0]).expect("a unit");
            let matches = unit_args::of(spec).try_get_matches_from(&words).expect("parses");
            let args = UnitArgs::of(spec, &matches).expect("arguments");
            super::interval(&made(spec, &args).expect("made"), &args).map(|interval| interval.as_millis())
        };
        for (words, milliseconds) in [
            ("oncpu", Some(1000)),
            ("oncpu -- true", None),
            ("oncpu -i 2 -- true", Some(2000)),
            ("oncpu -n 2 -- true", Some(1000)),
            ("oncpu --duration 3", None),
            ("top -e sched:sched_switch -- true", None),
            ("trace -e sched:sched_switch -- true", Some(1000)),
            ("rundelay", None),
        ] {
            assert_eq!(interval(words), milliseconds, "{words}");
        }
    }
}
