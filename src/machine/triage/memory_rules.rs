//! Rules about memory.

use crate::machine::memory_limits::MemoryGroup;
use crate::panel::unit::{bytes, short};

use super::totals::{ProcessTotal, ProgramUse, Totals};
use super::{Cause, Confidence, Look, MachineFinding, SPECIFIC, Severity};

/// Minor faults of a program per second of its time on a CPU, where they are a large part of it, and per second: on a
/// busy machine it gets only a part of a CPU.
const FAULTS_OF_WORK: f64 = 100_000.0;
const FAULTS_WHILE_QUEUED: f64 = 20_000.0;
/// Minor faults of a program, and major faults of the machine, per second.
const FAULTS: f64 = 50_000.0;
const MAJOR_FAULTS: f64 = 100.0;
/// Pages per second that processes reclaim themselves, and the available share of memory that is little.
const RECLAIMED: f64 = 1000.0;
const LITTLE: f64 = 0.05;
/// The share of a limit that is near.
const NEAR: f64 = 90.0;
/// Bytes per second, and readings of steady growth, from which a process may leak. Readings count, not seconds: on a
/// machine with many processes a reading of all takes seconds.
const GROWTH: f64 = 200e3;
const GROWTH_READINGS: f64 = 6.0;
/// The minimum time of steady growth in seconds: a program that starts grows, too.
const GROWTH_SECONDS: f64 = 6.0;
/// The maximum of CPUs that it uses, and that it uses or waits for. A program that computes also grows, but uses a CPU
/// meanwhile, or waits for one the whole time. On a busy machine a process that leaks waits for a CPU as well.
const GROWTH_CPU: f64 = 0.3;
const GROWTH_RUNNABLE: f64 = 0.8;

pub(super) fn killed(totals: &Totals<'_>) -> Option<MachineFinding> {
    let is_selected = |group: &MemoryGroup| totals.is_selected(&group.name, &group.path, group.of_target);
    let groups = || totals.groups.values().filter(|group| group.killed > 0 && is_selected(group));
    let killed = if totals.is_narrowed { groups().map(|group| group.killed).sum() } else { totals.memory.killed };
    if killed == 0 {
        return None;
    }
    let group = groups().next();
    let figure = format!("{} killed for lack of memory", crate::lang::counted(killed, "process"));
    let finding = MachineFinding::new(Cause::Killed, Severity::Bad, 1.0, figure, Look::unit("kmemleak", None));
    let culprit =
        group.map_or_else(String::new, |group| format!("{} reached its limit of {}", group.name, bytes(group.limit)));
    Some(finding.by(culprit).shown_by("the kernel's log names them (dmesg)".to_owned()))
}

pub(super) fn limit(totals: &Totals<'_>) -> Option<MachineFinding> {
    let near = 100.0 - (100.0 - NEAR) / totals.ease;
    let is_selected = |group: &MemoryGroup| totals.is_selected(&group.name, &group.path, group.of_target);
    let near = totals.groups.values().filter(|group| group.percent >= near && is_selected(group));
    let worst = near.max_by(|a, b| a.percent.total_cmp(&b.percent))?;
    let severity = if worst.hits > 0 { Severity::Bad } else { Severity::Look };
    let figure = format!("{} at {:.0} % of its limit", worst.name, worst.percent);
    let look = Look::container(&worst.name);
    let finding = MachineFinding::new(Cause::Limit, severity, worst.percent / 100.0, figure, look);
    let hits = if worst.hits > 0 { format!(", reached {} times", worst.hits) } else { String::new() };
    let finding = finding.by(totals.members(&worst.name));
    Some(finding.shown_by(format!("limit {}{hits}", bytes(worst.limit))))
}

pub(super) fn reclaim(totals: &Totals<'_>) -> Option<MachineFinding> {
    let memory = &totals.memory;
    let per_second = |count: u64| count as f64 / totals.seconds.max(1e-3);
    let (reclaimed, major) = (per_second(memory.reclaimed), per_second(memory.major_faults));
    let available = memory.available_kb as f64 / memory.total_kb.max(1) as f64;
    let is_little = memory.total_kb > 0 && available * totals.ease < LITTLE;
    let is_reclaiming =
        reclaimed >= totals.limit(RECLAIMED) || per_second(memory.swapped_in) >= totals.limit(MAJOR_FAULTS);
    if totals.is_narrowed || !(is_little || is_reclaiming || major >= totals.limit(MAJOR_FAULTS)) {
        return None;
    }
    let (_, full) = totals.pressure_of("memory");
    let severity = if is_little || full >= 5.0 { Severity::Bad } else { Severity::Look };
    let figure = match (is_little, is_reclaiming) {
        (true, _) => format!("{:.0} % of memory available", 100.0 * available),
        (_, true) => format!("{} pages reclaimed/s", short(reclaimed)),
        _ => format!("{} major faults/s", short(major)),
    };
    let programs = totals.programs(|one| one.major_faults);
    let finding =
        MachineFinding::new(Cause::Reclaim, severity, 0.6 + full / 100.0, figure, Look::unit("page-faults", None));
    let evidence =
        format!("{} major faults/s, {} available", short(major), bytes(memory.available_kb.saturating_mul(1024)));
    Some(finding.by(totals.culprits(&programs, |rate| format!("{}/s", short(rate)))).shown_by(evidence))
}

pub(super) fn faults(totals: &Totals<'_>) -> Option<MachineFinding> {
    let programs = totals.programs(|one| one.minor_faults);
    let is_storm = |one: &ProgramUse| {
        let faults_always = || one.per_cpu_second() >= totals.limit(FAULTS_OF_WORK);
        one.per_second >= totals.limit(FAULTS) || one.per_second >= totals.limit(FAULTS_WHILE_QUEUED) && faults_always()
    };
    let programs = &programs[programs.iter().position(is_storm)?..];
    let first = programs.first()?;
    let figure = format!("{} page faults/s", short(first.per_second));
    let look = Look::unit("page-faults", first.pid);
    let finding = MachineFinding::new(Cause::Faults, Severity::Look, 0.7, figure, look);
    let culprits = totals.culprits(programs, |rate| format!("{}/s", short(rate)));
    Some(finding.by(culprits).shown_by("each maps a page that is touched for the first time".to_owned()))
}

pub(super) fn growth(totals: &Totals<'_>) -> Option<MachineFinding> {
    let reading_seconds = totals.process_seconds / totals.looks.max(1) as f64;
    let per_second = |one: &ProcessTotal| totals.per_second(one.used.grown.max(0) as u64);
    let is_steady = |one: &&ProcessTotal| {
        // A compiler runs for a part of the time only. Readings of a busy machine have different lengths.
        let alive = one.seen_ns as f64 / 1e9 / totals.process_seconds.max(1e-3);
        let cpus = totals.per_second(one.used.cpu_ns) / 1e9 / alive;
        // The kernel counts a wait for a CPU at its end, and waits of too many threads are not read: figures of a starved
        // program lack them.
        let seen = f64::from(one.seen_runnable) / f64::from(one.seen.max(1));
        let runnable = (cpus + totals.per_second(one.used.delay_ns) / 1e9 / alive).max(seen);
        f64::from(one.used.growing) >= totals.limit(GROWTH_READINGS)
            && f64::from(one.used.growing) * reading_seconds >= totals.limit(GROWTH_SECONDS)
            && per_second(one) >= totals.limit(GROWTH)
            && cpus * totals.ease < GROWTH_CPU
            && runnable * totals.ease < GROWTH_RUNNABLE
    };
    let worst = totals
        .processes
        .iter()
        .filter(is_steady)
        .max_by_key(|one| (one.used.grown, std::cmp::Reverse(one.used.pid)))?;
    let figure = format!("+{}/s", bytes(per_second(worst) as u64));
    let look = Look::unit("kmemleak", Some(worst.used.pid));
    let finding = MachineFinding::new(Cause::Growth, Severity::Look, SPECIFIC, figure, look);
    let evidence = format!("likely a leak: {} resident, and growing steadily", bytes(worst.used.resident));
    let finding = finding.by(format!("{} {}", worst.used.name(), worst.used.pid)).shown_by(evidence);
    Some(MachineFinding { confidence: Confidence::Likely, ..finding })
}
