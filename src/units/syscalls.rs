//! `syscalls`: what system calls cost, how they fail, and which are under way right now.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::panel::{Cell, Measure, Panel, unit};
use crate::query::row_order::arrange_by_key;
use crate::record::Record;
use crate::record::open_spans::OpenSpans;

use super::kit::before;
use super::kit::columns::{by_weight, id, share, text};
use super::kit::field::{Num, Threshold};
use super::kit::select;
use super::kit::{
    Before, ByContainer, Context, Event, EventRequest, Grid, Lost, Moment, Sample, Settings, Sheet, Spec, Stats,
    ThreadChoice, TopN, Unit, latency,
};

pub(super) const SPEC: Spec = Spec {
    name: "syscalls",
    about: "what system calls cost: by call, with errors by errno, percentiles, and those that block right now",
    help: "A call counts when it returns, to the thread that made it; what has not returned is under 'Under way', with \
           what /proc tells of calls that began before. \
           Results from -4095 to -1 are errors. Calls that never return (exit, exit_group) end with their thread and \
           are not counted. Calls of 32-bit programs have the numbers of their own table and are named as 64-bit ones.",
    example: "perfprof-tui syscalls -p 1234 --than 10ms",
    output: "\
$ perfprof-tui syscalls --batch --duration 2
Call             Calls    Total      Min     Mean      p50      p95…
futex               44   3.45 s  50.1 ms  82.2 ms  50.1 ms   499 ms…
sched_yield    142,205   503 ms   262 ns  3.54 µs   291 ns   387 ns…
getppid      1,422,050   253 ms   151 ns   178 ns   169 ns   205 ns…",
    options: &["event", "than", "lower", "comm", "pids", "tids", "per-thread", "keep"],
    whole: false,
    across: Some("calls that returned on the chosen ones"),
    interval: None,
    make: |settings| Ok(Box::new(Syscalls::new(settings)?)),
};

const EVENTS: [&str; 2] = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];

#[derive(Debug, Default)]
struct Row {
    stats: Stats,
    /// Calls that had begun before it ran: they have no time.
    before: u64,
    errors: BTreeMap<u32, u64>,
}

/// Whether a call was made on a chosen CPU.
type IsHere = bool;

#[derive(Debug, Default)]
struct Syscalls {
    chosen: ThreadChoice,
    than: Threshold,
    per_thread: bool,
    calls: Calls,
    /// What is wanted of calls and of their returns.
    filters: [Option<String>; 2],
    enter: Option<Num>,
    exit: Option<(Num, Num)>,
    open: OpenSpans<i32, i64, IsHere>,
    rows: FxHashMap<(i32, i64), Row>,
    threads: FxHashMap<i32, Stats>,
    containers: ByContainer,
    slowest: TopN<(i32, i64, u64, i64)>,
    course: Grid<i64>,
    before: Before,
}

impl Syscalls {
    fn new(settings: &Settings) -> Result<Self, String> {
        let mut filters = select::own(settings, &EVENTS)?.into_iter();
        Ok(Self {
            chosen: ThreadChoice::of(settings)?,
            than: Threshold::new(settings.than()?),
            per_thread: settings.has("per-thread"),
            filters: [filters.next().flatten(), filters.next().flatten()],
            slowest: TopN::new(settings.number("keep", 20)? as usize),
            ..Self::default()
        })
    }

    fn exited(&mut self, hit: &Sample<'_>, number: i64, result: i64, cx: &mut Context<'_>) {
        // A signal's handler returns by rt_sigreturn, whose exit has the number -1.
        let entered = match number {
            -1 => self.open.take(&hit.tid),
            number => self.open.end(&hit.tid, &number).map(|(begin, _)| begin),
        };
        if !cx.counts(hit.cpu) {
            return;
        }
        let number = entered.map_or(number, |begin| begin.what);
        let error = (-4095..0).contains(&result).then_some(result.unsigned_abs() as u32);
        let key = (if self.per_thread { hit.tid } else { 0 }, number);
        let row = self.rows.entry(key).or_default();
        if let Some(error) = error {
            *row.errors.entry(error).or_default() += 1;
        }
        let Some(begin) = entered else {
            row.before += 1;
            return;
        };
        let ns = begin.took(hit.time);
        let above = self.than.is_exceeded(hit, cx.names, ns);
        row.stats.add_than(ns, above);
        self.threads.entry(hit.tid).or_default().add(ns);
        self.course.add(&number, hit.time, 1.0);
        cx.point(["sys_enter", "sys_exit"], hit.time, ns);
        if above || !self.than.is_set() {
            let calls = self.calls;
            cx.find(hit.tid, hit.stack, || format!("{} = {result} took {}", calls.name(number), unit::duration(ns)));
        }
        if (above || !self.than.is_set()) && self.slowest.takes(ns) {
            self.slowest.add(ns, (hit.tid, number, hit.time, result));
        }
    }

    fn table(&self, at: &Moment<'_>) -> Panel {
        let calls = self.calls;
        let mut now: FxHashMap<(i32, i64), (u64, u64)> = FxHashMap::default();
        for (tid, begin) in self.open.iter().filter(|(_, begin)| begin.with) {
            let key = (if self.per_thread { *tid } else { 0 }, begin.what);
            let entry = now.entry(key).or_default();
            *entry = (entry.0 + 1, entry.1.max(begin.took(at.now)));
        }
        let nothing = Row::default();
        let keys = self.rows.keys().chain(now.keys().filter(|key| !self.rows.contains_key(key)));
        let list = by_weight(keys.map(|key| (key, self.rows.get(key).unwrap_or(&nothing))), |row| row.stats.sum);
        let most = |row: &Row| {
            let most = row.errors.iter().max_by_key(|(number, n)| (**n, std::cmp::Reverse(**number)));
            most.map_or(Cell::Empty, |(number, _)| text(error_name(*number)))
        };
        let some = |n: u64| if n > 0 { Cell::Count(n) } else { Cell::Empty };
        // Those that had begun before count, and have no time.
        let spread = |row: &Row| {
            let mut cells = latency::cells(&row.stats, self.than.is_set());
            cells[0] = Cell::Count(row.stats.n + row.before);
            cells
        };
        let sheet = Sheet::of(list, |(key, _)| id(key))
            .left("call", "Call", 20, |((_, call), _)| text(calls.name(*call)))
            .when(self.per_thread, |sheet| sheet.task(at, |((tid, _), _)| *tid))
            .columns(latency::columns(self.than.is_set()), |(_, row)| spread(row))
            .right("errors", "Errors", 8, |(_, row)| some(row.errors.values().sum()))
            .left("errno", "Most often", 14, |(_, row)| most(row))
            .right("now", "Now", 5, |(key, _)| some(now.get(key).map_or(0, |(n, _)| *n)))
            .right("oldest_ns", "Oldest", 9, |(key, _)| now.get(key).map_or(Cell::Empty, |(_, ns)| Cell::Time(*ns)));
        let before: u64 = self.rows.values().map(|row| row.before).sum();
        let note = if before > 0 {
            format!("{before} calls had begun before: they count, and have no time")
        } else {
            String::new()
        };
        sheet.panel("Calls").noted(note)
    }

    fn errors(&self, chosen: Option<&Row>) -> Panel {
        let calls = self.calls;
        let mut list: Vec<(i64, u32, u64, u64)> = Vec::new();
        for ((_, number), row) in &self.rows {
            if chosen.is_none_or(|chosen| std::ptr::eq(chosen, row)) {
                let calls = row.stats.n + row.before;
                list.extend(row.errors.iter().map(|(error, n)| (*number, *error, *n, calls)));
            }
        }
        arrange_by_key(&mut list, |(number, error, n, _)| (std::cmp::Reverse(*n), *number, *error));
        Sheet::of(list, |(number, error, ..)| id(&(number, error)))
            .left("call", "Call", 20, |(number, ..)| text(calls.name(number)))
            .left("errno", "Error", 18, |(_, error, ..)| text(error_name(error)))
            .right("errors", "Times", 10, |(_, _, n, _)| Cell::Count(n))
            .right("share_pct", "Of calls", 9, |(_, _, n, calls)| share(n, calls))
            .panel("Errors")
    }

    fn under_way(&self, at: &Moment<'_>) -> Panel {
        let calls = self.calls;
        let began = self
            .open
            .iter()
            .filter(|(_, begin)| begin.with)
            .map(|(tid, begin)| (*tid, begin.what, begin.took(at.now), false));
        let ns = at.now.saturating_sub(at.start);
        let before = self.before.threads().filter_map(|thread| Some((thread.tid, thread.call?.0, ns, true)));
        let mut list: Vec<(i32, i64, u64, bool)> = began.chain(before).collect();
        arrange_by_key(&mut list, |(tid, _, ns, _)| (std::cmp::Reverse(*ns), *tid));
        Sheet::of(list, |(tid, ..)| tid as u64)
            .task(at, |(tid, ..)| tid)
            .left("call", "Call", 20, |(_, call, ..)| text(calls.name(call)))
            .right("so_far_ns", "So far", 9, |(_, _, ns, _)| Cell::Time(ns))
            .left("since", "", 12, |(.., is_before)| before::mark(is_before))
            .panel("Under way")
    }

    fn by_thread(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(by_weight(&self.threads, |stats| stats.sum), |(tid, _)| *tid as u64)
            .task(at, |(tid, _)| *tid)
            .latency(false, |(_, stats)| stats)
            .panel("Threads")
    }

    fn slow(&self, at: &Moment<'_>) -> Panel {
        let calls = self.calls;
        let error = |result: i64| match result {
            -4095..0 => text(error_name(result.unsigned_abs() as u32)),
            _ => Cell::Empty,
        };
        Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., (_, _, time, _))| Cell::Time(at.after(*time)))
            .task(at, |(.., (tid, ..))| *tid)
            .left("call", "Call", 20, |(.., (_, call, ..))| text(calls.name(*call)))
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns))
            .right("result", "Result", 12, |(.., (.., result))| Cell::Id(*result))
            .left("errno", "Error", 14, |(.., (.., result))| error(*result))
            .whole("Slowest")
    }
}

/// The table that has the names of system calls: each architecture has numbers of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Calls {
    /// This machine's.
    #[default]
    Own,
    X86_64,
    Aarch64,
}

impl Calls {
    /// That of a machine whose architecture uname calls so.
    fn of(arch: &str) -> Self {
        match arch {
            "x86_64" => Self::X86_64,
            "aarch64" => Self::Aarch64,
            _ => Self::Own,
        }
    }

    /// The name of a call.
    fn name(self, number: i64) -> String {
        let at = usize::try_from(number).ok();
        let known = at.and_then(|at| match self {
            Self::Own => syscalls::Sysno::new(at).map(|call| call.name()),
            Self::X86_64 => syscalls::x86_64::Sysno::new(at).map(|call| call.name()),
            Self::Aarch64 => syscalls::aarch64::Sysno::new(at).map(|call| call.name()),
        });
        known.map_or_else(|| format!("call {number}"), str::to_owned)
    }
}

/// The name of an error number, as x86, Arm and most others have it; the number itself where it has none.
fn error_name(errno: u32) -> String {
    let known = syscalls::Errno::new(errno as i32).name();
    known.map_or_else(|| errno.to_string(), str::to_owned)
}

/// The name of a call of this machine.
pub(crate) fn name(number: i64) -> String {
    Calls::Own.name(number)
}

impl Unit for Syscalls {
    fn event_requests(&self) -> Vec<EventRequest> {
        EVENTS.iter().zip(&self.filters).map(|(event, filter)| EventRequest::new(*event).only(filter.clone())).collect()
    }

    fn bind(&mut self, event: &Event<'_>) -> Result<(), String> {
        self.calls = Calls::of(event.arch);
        let number = Num::of(event.format, "id")?;
        if event.role == 0 {
            self.enter = Some(number);
            return Ok(());
        }
        self.than.bind(event.format)?;
        self.exit = Some((number, Num::of(event.format, "ret")?));
        Ok(())
    }

    fn record(&mut self, hit: &Sample<'_>, cx: &mut Context<'_>) {
        if !self.chosen.has(hit.tid, cx) {
            return;
        }
        cx.comm(hit.tid);
        self.before.ask(&mut self.chosen, cx);
        self.before.is_told(hit.tid);
        if hit.role == 0 {
            if let Some(number) = &self.enter {
                self.open.begin(hit.tid, number.get(hit.raw), hit.time, cx.counts(hit.cpu));
            }
        } else if let Some((number, result)) = &self.exit {
            let (number, result) = (number.get(hit.raw), result.get(hit.raw));
            self.exited(hit, number, result, cx);
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    /// Who makes no call at all is in one, and that is the question.
    fn settle(&mut self, cx: &mut Context<'_>) {
        self.before.ask(&mut self.chosen, cx);
    }

    fn side(&mut self, record: &Record<'_>, _time: u64, _cx: &mut Context<'_>) {
        match record {
            Record::Exit(task) => {
                self.open.take(&task.tid);
                self.before.is_told(task.tid);
            }
            Record::Fork(task) => self.chosen.follow(task),
            _ => {}
        }
    }

    fn lost(&mut self, _lost: &Lost) {
        self.open.forget();
        self.before.forget();
    }

    fn loss_text(&self) -> &'static str {
        "calls that were under way then are not counted"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let calls = self.calls;
        let chosen =
            at.selected(0).and_then(|row| self.rows.iter().find(|(key, _)| id(key) == row)).map(|(_, row)| row);
        let all = chosen.map_or_else(|| self.rows.values().map(|row| &row.stats).sum(), |row| row.stats.clone());
        let containers = self.containers.panel(at, self.threads.iter().map(|(tid, stats)| (*tid, stats)), false);
        let mut panels = vec![
            self.table(at),
            self.under_way(at),
            self.errors(chosen),
            self.by_thread(at),
            self.slow(at),
            latency::by_powers("Distribution", &all, Measure::Time),
            self.course.series("Calls over time", at, Measure::Count, 24, |number| calls.name(*number)),
        ];
        panels.extend(containers);
        panels
    }

    fn reset(&mut self, _now: u64) {
        self.rows.clear();
        self.threads.clear();
        self.slowest.clear();
        self.course.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_of_the_machine_that_made_the_calls() {
        let names = |number| ["x86_64", "aarch64", ""].map(|arch| Calls::of(arch).name(number));
        assert_eq!(names(0)[..2], ["read", "io_setup"]);
        assert_eq!(names(221)[..2], ["fadvise64", "execve"]);
        assert_eq!(names(221)[2], Calls::of(std::env::consts::ARCH).name(221));
        assert_eq!(names(-1), ["call -1", "call -1", "call -1"].map(str::to_owned));
    }

    #[test]
    fn errors_have_names_those_within_the_kernel_too() {
        for (errno, name) in [
            (1, "EPERM"),
            (11, "EAGAIN"),
            (35, "EDEADLK"),
            (40, "ELOOP"),
            (95, "EOPNOTSUPP"),
            (115, "EINPROGRESS"),
            (133, "EHWPOISON"),
            (512, "ERESTARTSYS"),
            (516, "ERESTART_RESTARTBLOCK"),
            (0, "0"),
            (41, "41"),
            (4095, "4095"),
        ] {
            assert_eq!(error_name(errno), name);
        }
    }
}
