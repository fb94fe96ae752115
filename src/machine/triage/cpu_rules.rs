//! Rules about CPUs, waits for them, and locks.

use crate::panel::unit::{duration, short};
use crate::session::machine::quota::ThrottledGroup;

use super::totals::{ProcessTotal, ProgramUse, Totals, named};
use super::{Cause, Confidence, Look, MachineFinding, Severity};

/// The minimum percentage of throttled periods.
pub(crate) const THROTTLED: f64 = 10.0;
/// The share of the CPUs' time that a hypervisor must take.
const STOLEN: f64 = 0.1;
/// The share from which that is worse than a fault of a single program.
const MOSTLY_STOLEN: f64 = 0.25;
/// The share of all CPUs, or the number of CPUs of one program, from which the busiest are named.
const BUSY: f64 = 0.8;
const BUSY_PROGRAM: f64 = 0.7;
/// The minimum of CPUs that a process uses, that it uses or waits for, and the share of one function in its samples in
/// percent, from which it is named before others: no function of a compiler has as many.
const HOT_CPUS: f64 = 0.1;
const HOT_RUNNABLE: f64 = 0.7;
const HOT_FUNCTION: f64 = 40.0;
/// The functions of the kernel in which interrupts are enabled again, with the blank after the name.
const ENABLING: [&str; 3] = ["_raw_spin_unlock_irqrestore ", "_raw_spin_unlock_irq ", "_raw_write_unlock_irq "];
/// The minimum share of a program's samples in such a function, in percent, and the minimum of CPUs that it uses.
const DISABLED: f64 = 60.0;
const DISABLED_CPUS: f64 = 0.1;
/// Interrupts of a CPU's timer per second: clocks that sample and threads that sleep cause a few thousand.
const TIMERS: f64 = 30_000.0;
/// Context switches of a CPU, and started processes, per second.
const SWITCHES: f64 = 30_000.0;
const FORKS: f64 = 50.0;
/// Time slices of one program per second, which are many on any number of CPUs.
const SWITCHES_OF_ONE: f64 = 20_000.0;
/// Time slices of one program per second, and per second of its time on a CPU: a program that switches all the time gets
/// only a part of a CPU on a busy machine.
const SWITCHES_WHILE_QUEUED: f64 = 10_000.0;
const SWITCHES_OF_WORK: f64 = 80_000.0;
/// The bytes of a disk for each time slice, from which a program switches because of its requests: a sector.
const REQUEST: u64 = 512;
/// The minimum of CPUs of a program that is found by what it does with them, and the minimum share of them in the kernel.
const PART_OF_CPU: f64 = 0.08;
const KERNEL: f64 = 0.85;
/// The minimum time for which it runs at a time, in nanoseconds: clients and servers of a network are in the kernel as
/// well, but wait for each other all the time.
const KERNEL_SLICE_NS: u64 = 200_000;
/// The weight of a process that works in the kernel: it is more specific than a process that keeps a CPU busy.
const IN_KERNEL: f64 = 0.546;
/// Processes started per second for each CPU: many CPUs start more.
const FORKS_OF_CPU: f64 = 4.0;
/// The minimum of CPUs that ended children of the selected processes used.
const CHILDREN: f64 = 0.05;
/// Threads that wait for a CPU on average; from the second figure for each CPU it is bad.
const WAITING: f64 = 0.5;
const MANY_WAITING: f64 = 8.0;
/// The largest weight of a shortage of CPUs, which has a cause of its own among the other findings.
const MOST_GENERAL: f64 = 0.54;
/// The weight of a process that keeps a CPU busy: it is more specific than the shortage that it causes.
const HOG: f64 = 0.545;
/// The share of the waiting threads from which those of unnamed programs are mentioned.
const OTHERS: f64 = 0.1;
/// The minimum share of the time for which the threads of a process sleep, and the maximum of CPUs that it uses.
const ASLEEP: f64 = 0.8;
const MOST_CPU: f64 = 0.5;
/// Threads of a process that wait for locks on average, and the minimum number of looks.
const LOCKED: f64 = 0.3;
const LOOKS: u64 = 5;
/// The number of such threads from which a lock stands above a bad shortage of CPUs, and its weight below that number: a
/// holder that waits for a CPU prolongs all waits for its lock.
const ABOVE_SHORTAGE: f64 = 1.0;
const BELOW_SHORTAGE: f64 = 0.53;

pub(super) fn throttled(totals: &Totals<'_>) -> Option<MachineFinding> {
    let mine = |group: &ThrottledGroup| totals.is_selected(&group.name, &group.path, group.of_target);
    let groups = totals.throttled.iter().filter(|group| group.percent >= totals.limit(THROTTLED) && mine(group));
    let worst = groups.max_by(|a, b| a.percent.total_cmp(&b.percent))?;
    let figure = format!("{} throttled {:.0} % of periods", worst.name, worst.percent);
    let look = Look::container(&worst.name);
    let finding = MachineFinding::new(Cause::Throttled, Severity::Bad, worst.percent / 100.0, figure, look);
    let others = totals
        .throttled
        .iter()
        .filter(|group| group.percent >= THROTTLED && mine(group) && group.name != worst.name)
        .count();
    let others = if others > 0 { format!("; {others} more throttled") } else { String::new() };
    let finding = finding.by(totals.members(&worst.name));
    Some(finding.shown_by(format!("{:.0} ms/s, {} is below its demand{others}", worst.ms, worst.file)))
}

pub(super) fn stolen(totals: &Totals<'_>) -> Option<MachineFinding> {
    let share = totals.stolen / totals.cpus.max(1.0);
    let finding = || {
        let figure = format!("{:.0} % of the CPU time stolen", 100.0 * share);
        let severity = if share >= MOSTLY_STOLEN { Severity::Bad } else { Severity::Look };
        MachineFinding::new(Cause::Stolen, severity, 0.3 + share, figure, Look::Cpus(None))
    };
    (share >= totals.limit(STOLEN) && !totals.is_narrowed)
        .then(|| finding().by("the hypervisor".to_owned()).shown_by("it runs other guests on these CPUs".to_owned()))
}

pub(super) fn busy(totals: &Totals<'_>) -> Option<MachineFinding> {
    let mut programs = totals.programs(|one| one.cpu_ns);
    let cpus = |per_second: f64| format!("{:.2}", per_second / 1e9);
    let most = programs.first().map_or(0.0, |first| first.per_second / 1e9);
    let own: f64 = programs.iter().map(|one| one.per_second / 1e9).sum();
    let busy = if totals.is_narrowed { own } else { totals.busy };
    let share = busy / totals.cpus.max(1.0);
    if share < totals.limit(BUSY) && most < totals.limit(BUSY_PROGRAM) {
        return None;
    }
    let hot = hot(totals).and_then(|pid| programs.iter().position(|one| one.pid == Some(pid)));
    if let Some(at) = hot {
        programs[..=at].rotate_right(1);
    }
    let first = programs.first();
    let figure = format!("{busy:.2} of {} CPUs busy", totals.cpus);
    let look = first.map_or(Look::Cpus(None), |first| Look::at(&first.comm, first.pid));
    let is_hog = |first: &ProgramUse| first.pid.is_some() && first.per_second / 1e9 >= BUSY_PROGRAM;
    let weight = if hot.is_some() || first.is_some_and(is_hog) { HOG } else { 0.3 + 0.2 * share };
    let finding = MachineFinding::new(Cause::Busy, Severity::Look, weight, figure, look);
    let function = first.and_then(|first| {
        let (name, share) = totals.function(first)?;
        Some(format!("{}: {share:.0} % in {name}", first.name))
    });
    Some(finding.by(totals.culprits(&programs, cpus)).shown_by(function.unwrap_or_default()))
}

/// Returns the busiest process that always runs or waits for a CPU, and spends much of its time in one function: a loop or
/// a slow command of a server, which gets a part of a CPU on a busy machine.
fn hot(totals: &Totals<'_>) -> Option<i32> {
    let cpus = |ns: u64| totals.per_second(ns) / 1e9;
    let is_hot = |one: &&ProcessTotal| {
        let used = &one.used;
        cpus(used.cpu_ns) >= HOT_CPUS
            && cpus(used.cpu_ns.saturating_add(used.delay_ns)) >= HOT_RUNNABLE
            && totals.function_of(used.pid).is_some_and(|(_, share)| share >= HOT_FUNCTION)
    };
    let list = totals.processes.iter().filter(is_hot);
    list.max_by_key(|one| (one.used.cpu_ns, std::cmp::Reverse(one.used.pid))).map(|one| one.used.pid)
}

/// Finds code that runs with interrupts disabled. The interrupt of a sampling clock waits for their end, so that most
/// samples of such code are in the function that enables them.
pub(super) fn interrupts_off(totals: &Totals<'_>) -> Option<MachineFinding> {
    let programs = totals.programs(|one| one.cpu_ns);
    let is_busy = |one: &&ProgramUse| one.per_second / 1e9 >= totals.limit(DISABLED_CPUS);
    let (first, share, function) = programs.iter().filter(is_busy).find_map(|one| {
        let (function, share) = totals.function(one)?;
        (ENABLING.iter().any(|name| function.starts_with(name)) && share >= totals.limit(DISABLED))
            .then_some((one, share, function))
    })?;
    let figure = format!("{} likely disables interrupts for long", first.name);
    let look = Look::at(&first.comm, first.pid);
    let finding = MachineFinding::new(Cause::InterruptsOff, Severity::Look, 0.6 + share / 1000.0, figure, look);
    let finding = MachineFinding { confidence: Confidence::Likely, ..finding };
    let evidence = format!("{share:.0} % of its samples are in {function}, which enables them");
    let culprit = totals.culprits(std::slice::from_ref(first), |per_second| format!("{:.2} CPUs", per_second / 1e9));
    Some(finding.by(culprit).shown_by(evidence))
}

/// Finds timers that expire all the time. The interrupt of a sampling clock waits for the end of theirs, so that their time
/// has no samples. Those of this program's own clocks do not count.
pub(super) fn timers(totals: &Totals<'_>) -> Option<MachineFinding> {
    let (cpu, rate) = totals.timers.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    let limit = totals.limit(TIMERS) + totals.own_timer_hz;
    let culprits = &totals.behind.timers;
    if *rate < limit || totals.is_narrowed && culprits.is_empty() {
        return None;
    }
    let more = match totals.timers.values().filter(|rate| **rate >= limit).count() - 1 {
        0 => String::new(),
        more => format!(", {more} more"),
    };
    let figure = format!("{} timer interrupts/s, CPU {cpu}{more}", short(*rate));
    let look = Look::Unit("top -e timer:hrtimer_start --key comm".to_owned());
    let finding = MachineFinding::new(Cause::Timers, Severity::Look, 0.65, figure, look);
    let culprits = culprits.iter().map(|one| format!("{} sets {:.0} % of the timers", one.text(), one.percent));
    let evidence = "samples do not show their time: a sampling clock waits until they end".to_owned();
    Some(finding.by(culprits.take(2).collect::<Vec<_>>().join(", ")).shown_by(evidence))
}

pub(super) fn switches(totals: &Totals<'_>) -> Option<MachineFinding> {
    let programs = totals.programs(|one| one.slices);
    let own: f64 = programs.iter().map(|one| one.per_second).sum();
    let rate = if totals.is_narrowed { own } else { totals.switches };
    let limit = SWITCHES * totals.cpus.max(1.0);
    let causes = totals.programs(|one| if one.io / REQUEST < one.slices { one.slices } else { 0 });
    let is_storm = |one: &&ProgramUse| {
        let switches_always = || {
            let cpus = totals.per_second(one.cpu_ns) / 1e9;
            cpus >= totals.limit(PART_OF_CPU) && one.per_cpu_second() >= totals.limit(SWITCHES_OF_WORK)
        };
        one.per_second >= totals.limit(SWITCHES_OF_ONE)
            || one.per_second >= totals.limit(SWITCHES_WHILE_QUEUED) && switches_always()
    };
    let storm = causes.iter().find(is_storm);
    if rate < totals.limit(limit) && storm.is_none() {
        return None;
    }
    let pid = storm.or(programs.first()).and_then(|one| one.pid);
    let figure = format!("{} context switches/s", short(rate));
    let look = Look::unit("wakeups", pid);
    let finding = MachineFinding::new(Cause::Switches, Severity::Look, 0.6 + 0.1 * rate / limit, figure, look);
    let culprits = totals.culprits(&programs, |rate| format!("{}/s", short(rate)));
    let slice = storm.and_then(|one| Some((&one.name, one.cpu_ns.checked_div(one.sum).filter(|ns| *ns > 0)?)));
    let slice = slice.map(|(name, ns)| format!("{name} runs {} at a time", duration(ns)));
    let evidence = slice.unwrap_or_else(|| "a switch costs about a microsecond of a CPU".to_owned());
    Some(finding.by(culprits).shown_by(evidence))
}

/// Finds a process that works in the kernel for nearly all of its time on a CPU, by its system calls or faults.
pub(super) fn kernel(totals: &Totals<'_>) -> Option<MachineFinding> {
    let cpus = |one: &ProcessTotal| totals.per_second(one.used.cpu_ns) / 1e9;
    let share = |one: &ProcessTotal| one.used.kernel_ns as f64 / one.used.cpu_ns.max(1) as f64;
    let runs_on =
        |one: &ProcessTotal| one.used.cpu_ns.checked_div(one.used.slices).is_some_and(|ns| ns >= KERNEL_SLICE_NS);
    // Threads of the kernel have no memory of their own.
    let is_inside = |one: &&ProcessTotal| {
        one.used.resident > 0
            && cpus(one) >= totals.limit(PART_OF_CPU)
            && share(one) >= totals.limit(KERNEL)
            && runs_on(one)
    };
    let list = totals.processes.iter().filter(is_inside);
    let worst = list.max_by_key(|one| (one.used.cpu_ns, std::cmp::Reverse(one.used.pid)))?;
    let (name, pid) = (worst.used.name(), worst.used.pid);
    let figure = format!("{:.0} % of the time of {name} is in the kernel", 100.0 * share(worst).min(1.0));
    let look = Look::at(&worst.used.comm, Some(pid));
    let finding = MachineFinding::new(Cause::Kernel, Severity::Look, IN_KERNEL, figure, look);
    let function = totals.function_of(pid).map(|(function, share)| format!("{share:.0} % in {function}"));
    Some(finding.by(format!("{name} {pid} {:.2} CPUs", cpus(worst))).shown_by(function.unwrap_or_default()))
}

pub(super) fn forks(totals: &Totals<'_>) -> Option<MachineFinding> {
    let parents = totals.programs(|one| one.children_ns);
    let own: f64 = parents.iter().map(|one| one.per_second / 1e9).sum();
    let many = FORKS.max(FORKS_OF_CPU * totals.cpus);
    if totals.forks < totals.limit(many) || totals.is_narrowed && own < totals.limit(CHILDREN) {
        return None;
    }
    // The kernel counts the new tasks of the whole machine. The CPU time of children that ended hints at their parents.
    let rate = format!("{} new processes and threads/s", short(totals.forks));
    let pid = parents.first().and_then(|first| first.pid).filter(|_| totals.is_narrowed);
    let (figure, evidence) = match totals.is_narrowed {
        true => (format!("{own:.2} CPUs by ended children"), format!("{rate} on the whole machine")),
        false => (rate, "likely, by the CPU time of ended children".to_owned()),
    };
    let weight = (0.35 + 0.1 * totals.forks / many).min(0.7);
    let finding = MachineFinding::new(Cause::Forks, Severity::Look, weight, figure, Look::unit("forks", pid));
    let finding = MachineFinding { confidence: Confidence::Likely, ..finding };
    let cpus = |ns: f64| format!("children {:.2} CPUs", ns / 1e9);
    let culprits = match named(&parents) {
        [ProgramUse { name, pid: Some(pid), per_second, .. }] => format!("by {name} {pid}, {}", cpus(*per_second)),
        _ => totals.culprits(&parents, cpus),
    };
    Some(finding.by(culprits).shown_by(evidence))
}

pub(super) fn queue(totals: &Totals<'_>) -> Option<MachineFinding> {
    let programs = totals.programs(|one| one.delay_ns);
    let own: f64 = programs.iter().map(|one| one.per_second / 1e9).sum();
    // Many short-lived processes are seen only by the number of runnable tasks.
    let waiting = if totals.is_narrowed { own } else { own.max(totals.waiting) };
    if own < totals.limit(WAITING) && (totals.is_narrowed || totals.waiting < totals.limit(totals.cpus.max(1.0))) {
        return None;
    }
    let per_cpu = waiting / totals.cpus.max(1.0);
    let severity = if per_cpu >= MANY_WAITING { Severity::Bad } else { Severity::Look };
    let first = programs.first();
    let figure = format!("{waiting:.1} threads wait for a CPU");
    let look = Look::unit("rundelay", first.and_then(|first| first.pid).filter(|_| totals.is_narrowed));
    let finding = MachineFinding::new(Cause::Queue, severity, (0.4 + 0.1 * per_cpu).min(MOST_GENERAL), figure, look);
    let mean = totals.processes.iter().max_by_key(|one| (one.used.delay_ns, std::cmp::Reverse(one.used.pid)));
    let mean = mean
        .filter(|one| one.used.delay_ns > 0 && one.used.slices > 0)
        .map(|one| format!("{} waits {} a time", one.used.name(), duration(one.used.delay_ns / one.used.slices)));
    let (some, _) = totals.pressure_of("cpu");
    let pressure = (some > 0.0).then(|| format!("pressure {some:.0} %"));
    let evidence: Vec<String> = mean.into_iter().chain(pressure).collect();
    let mut culprits = totals.culprits(&programs, |ns| format!("{:.2}", ns / 1e9));
    let others = waiting - named(&programs).iter().map(|one| one.per_second / 1e9).sum::<f64>();
    if !programs.is_empty() && others >= OTHERS * waiting {
        culprits.push_str(&format!(", others {others:.1}"));
    }
    Some(finding.by(culprits).shown_by(evidence.join(", ")))
}

pub(super) fn deadlock(totals: &Totals<'_>) -> Option<MachineFinding> {
    let first = totals.deadlocks.first()?;
    let figure = format!("deadlock: {}", first.text());
    let finding =
        MachineFinding::new(Cause::Deadlock, Severity::Bad, 1.0, figure, Look::unit("locks", Some(first.pid)));
    let finding = MachineFinding { confidence: Confidence::Likely, ..finding };
    let more = match totals.deadlocks.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let evidence = "likely: each waits for a mutex whose owner is the next, as the mutexes say".to_owned();
    Some(finding.by(format!("{} {}{more}", first.comm, first.pid)).shown_by(evidence))
}

pub(super) fn locks(totals: &Totals<'_>) -> Option<MachineFinding> {
    let (looks, processes) = (totals.locks.looks, &totals.locks.processes);
    let worst = processes.values().max_by_key(|one| (one.waiting, std::cmp::Reverse(one.pid)))?;
    let waiting = worst.waiting as f64 / looks.max(1) as f64;
    if waiting < totals.limit(LOCKED) || looks < LOOKS {
        return None;
    }
    // Some of them have ended since.
    let threads = worst.threads.max(waiting.ceil() as u32);
    let (lock, of_python) = if worst.is_python { ("lock", " of Python") } else { ("mutex", "") };
    let figure = format!("{waiting:.1} of {threads} threads wait for a {lock}");
    let is_short_of_cpus = totals.waiting >= MANY_WAITING * totals.cpus.max(1.0);
    let is_explained = is_short_of_cpus && waiting < ABOVE_SHORTAGE;
    let weight = if is_explained { BELOW_SHORTAGE } else { 0.75 + 0.05 * waiting };
    let finding =
        MachineFinding::new(Cause::Locks, Severity::Look, weight, figure, Look::unit("locks", Some(worst.pid)));
    let finding = MachineFinding { confidence: Confidence::Likely, ..finding };
    let evidence = format!("likely a contended lock{of_python}: average of {looks} looks");
    let holders = totals.holders(worst);
    let holders = if holders.is_empty() { holders } else { format!(", held by {holders}") };
    Some(finding.by(format!("{} {}{holders}", worst.name, worst.pid)).shown_by(evidence))
}

pub(super) fn asleep(totals: &Totals<'_>) -> Option<MachineFinding> {
    if !totals.is_narrowed || totals.process_seconds <= 0.0 {
        return None;
    }
    // A process without figures in some intervals may have been busy in them.
    let known = totals.processes.iter().filter(|one| one.used.threads > 0 && one.seen as usize == totals.looks);
    let first = &known.max_by_key(|one| (one.used.cpu_ns, std::cmp::Reverse(one.used.pid)))?.used;
    let threads = f64::from(first.threads);
    let [on_cpu, queued] = [first.cpu_ns, first.delay_ns].map(|ns| totals.per_second(ns) / 1e9);
    let [ran, waited] = [on_cpu, queued].map(|cpus| (cpus / threads).min(1.0));
    let share = (1.0 - ran - waited).max(0.0);
    // Short processes of the selection may do the work.
    let all = totals.per_second(totals.processes.iter().fold(0, |sum, one| sum + one.used.cpu_ns)) / 1e9;
    if (1.0 - share) * totals.ease > 1.0 - ASLEEP || all * totals.ease > MOST_CPU {
        return None;
    }
    let figure = match first.threads {
        1 => format!("waits {:.0} % of the time", 100.0 * share),
        n => format!("{n} threads wait {:.0} % of the time", 100.0 * share),
    };
    let look = Look::unit("waits", Some(first.pid));
    let finding = MachineFinding::new(Cause::Asleep, Severity::Look, 0.1, figure, look);
    let evidence =
        format!("on a CPU {:.0} %, waiting for one {:.0} %: samples show no sleep", 100.0 * ran, 100.0 * waited);
    Some(finding.by(format!("{} {}", first.name(), first.pid)).shown_by(evidence))
}
