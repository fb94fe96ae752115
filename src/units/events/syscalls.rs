//! `syscalls`: time of system calls, their errors, and the calls that block right now.

mod names;

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::panel::row_order::arrange_by_key;
use crate::panel::unit;
use crate::units::kit::prelude::*;
use crate::units::kit::waits::initially_blocked;

pub(crate) use names::name_of_blocked;
use names::{Abi, AbiReader, Call, CallTables, REGISTERS, error_name};

pub(crate) const SPEC: Spec = Spec {
    name: "syscalls",
    about: "system calls: time by call, errors by errno, percentiles, and calls that block right now",
    words: "strace slow latency tcp network socket connect recv send accept errno error file why io disk read write",
    help: "A call counts for its thread when it returns. Calls that have not returned are listed under 'Under way'; \
           for calls that began before the measurement, /proc supplies them. Results from -4095 to -1 are errors. \
           exit and exit_group never return and are not counted; the return of a new thread from clone or fork is not \
           a call. If seccomp or a tracer answers a call before it begins, the call counts without a time. Calls by \
           the 32-bit ABI (32-bit programs, int 0x80) have the names of its table and a column of their own. A \
           recording needs user registers for that (record --user-regs=cx,ip); without them, mappings identify 32-bit \
           programs, and int 0x80 in 64-bit programs is not recognized.",
    example: "perfprof-tui syscalls -p 1234 --than 10ms",
    output: "\
$ perfprof-tui syscalls --batch --duration 2
Call             Calls    Total      Min     Mean      p50      p95…
futex               44   3.45 s  50.1 ms  82.2 ms  50.1 ms   499 ms…
sched_yield    142,205   503 ms   262 ns  3.54 µs   291 ns   387 ns…
getppid      1,422,050   253 ms   151 ns   178 ns   169 ns   205 ns…",
    options: &["event", "than", "lower", "comm", "pids", "tids", "per-thread", "keep"],
    sees: Sees::Target,
    across: Some("calls that return on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(Syscalls::new(settings)?)),
};

const EVENTS: [&str; 2] = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];

#[derive(Clone, Debug, Default)]
struct Row {
    stats: Stats,
    /// Number of calls without a time, because their start was not recorded.
    untimed: u64,
    errors: BTreeMap<u32, u64>,
}

/// Whether a call was made on a selected CPU.
type IsHere = bool;

#[derive(Clone, Debug, Default)]
struct Syscalls {
    per_thread: bool,
    tables: CallTables,
    abis: AbiReader,
    /// Filters on calls and on returns.
    filters: [Option<String>; 2],
    enter: Option<Num>,
    exit: Option<(Num, Num)>,
    open: OpenSpans<i32, Call, IsHere>,
    /// Threads that have started and not returned to user code yet.
    newborn: FxHashSet<i32>,
    rows: FxHashMap<(i32, Call), Row>,
    threads: FxHashMap<i32, Stats>,
    containers: ByContainer,
    slowest: Slowest<(i32, Call, u64, i64)>,
    course: Grid<Call>,
    initial: InitiallyBlocked,
}

impl Syscalls {
    fn new(settings: &Settings) -> Result<Self, String> {
        let mut filters = select::own(settings, &EVENTS)?.into_iter();
        Ok(Self {
            per_thread: settings.has("per-thread"),
            filters: [filters.next().flatten(), filters.next().flatten()],
            slowest: Slowest::of(settings)?,
            ..Self::default()
        })
    }

    /// Takes the call that a thread returns from. A thread is in one call at a time, so that a return ends it
    /// regardless of its number: a signal handler returns through rt_sigreturn with the number -1; execveat, and an
    /// exec between ABIs, return with the number of the new program's execve.
    fn returned(&mut self, hit: &UnitSample<'_>) -> Option<OpenSpan<Call, IsHere>> {
        self.open.take(&hit.tid)
    }

    fn exited(&mut self, hit: &UnitSample<'_>, number: i64, result: i64, cx: &mut Context<'_>) {
        let entered = self.returned(hit);
        let is_birth = self.newborn.remove(&hit.tid);
        if !cx.counts(hit.cpu) {
            return;
        }
        let call = entered.as_ref().map_or_else(|| self.returning(hit, number, cx), |begin| begin.what);
        // A new thread returns 0 from a call that it did not make; its creator never gets 0.
        if entered.is_none() && (is_birth || result == 0 && self.tables.makes_thread(call)) {
            return;
        }
        let error = (-4095..0).contains(&result).then_some(result.unsigned_abs() as u32);
        let key = (if self.per_thread { hit.tid } else { 0 }, call);
        let row = self.rows.entry(key).or_default();
        if let Some(error) = error {
            *row.errors.entry(error).or_default() += 1;
        }
        let Some(begin) = entered else {
            row.untimed += 1;
            return;
        };
        let ns = begin.took(hit.time);
        let above = self.slowest.exceeds(hit, cx.names, ns);
        row.stats.add_than(ns, above);
        self.threads.entry(hit.tid).or_default().add(ns);
        self.course.add(&call, hit.time, 1.0);
        cx.point(["sys_enter", "sys_exit"], hit.time, ns);
        if self.slowest.lists(above) {
            let tables = self.tables;
            cx.find(hit.tid, hit.stack, || format!("{} = {result} took {}", tables.name(call), unit::duration(ns)));
        }
        self.slowest.add(above, ns, || (hit.tid, call, hit.time, result));
    }

    fn entering(&mut self, hit: &UnitSample<'_>, number: i64, cx: &Context<'_>) -> Call {
        let abi = self.abis.read(&hit.registers);
        Call { number, abi: abi.unwrap_or_else(|| abi_of(hit, cx)) }
    }

    /// Returns the call that ends without a recorded start.
    fn returning(&self, hit: &UnitSample<'_>, number: i64, cx: &Context<'_>) -> Call {
        Call { number, abi: abi_of(hit, cx) }
    }

    fn table(&self, at: &Moment<'_>) -> Panel {
        let tables = self.tables;
        let mut now: FxHashMap<(i32, Call), (u64, u64)> = FxHashMap::default();
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
        // Includes calls without a time.
        let spread = |row: &Row| {
            let mut cells = latency::cells(&row.stats, self.slowest.has_threshold());
            cells[0] = Cell::Count(row.stats.n + row.untimed);
            cells
        };
        let is_mixed = list.iter().any(|((_, call), _)| tables.abi(*call) != "64-bit");
        let sheet = Sheet::of(list, |(key, _)| id(key))
            .left("call", "Call", 20, |((_, call), _)| text(tables.name(*call)))
            .when(is_mixed, |sheet| sheet.left("abi", "ABI", 6, |((_, call), _)| text(tables.abi(*call))))
            .when(self.per_thread, |sheet| sheet.task(at, |((tid, _), _)| *tid))
            .columns(latency::columns(self.slowest.has_threshold()), |(_, row)| spread(row))
            .right("errors", "Errors", 8, |(_, row)| some(row.errors.values().sum()))
            .left("errno", "Top error", 14, |(_, row)| most(row))
            .right("now", "Now", 5, |(key, _)| some(now.get(key).map_or(0, |(n, _)| *n)))
            .right("oldest_ns", "Oldest", 9, |(key, _)| now.get(key).map_or(Cell::Empty, |(_, ns)| Cell::Time(*ns)));
        let untimed = self.rows.values().map(|row| row.untimed).sum();
        let note = note(untimed, "call", "without a time: begun before, or answered by seccomp or a tracer");
        sheet.panel("Calls").noted(note)
    }

    fn errors(&self, chosen: Option<&Row>) -> Panel {
        let tables = self.tables;
        let mut list: Vec<(Call, u32, u64, u64)> = Vec::new();
        for ((_, number), row) in &self.rows {
            if chosen.is_none_or(|chosen| std::ptr::eq(chosen, row)) {
                let calls = row.stats.n + row.untimed;
                list.extend(row.errors.iter().map(|(error, n)| (*number, *error, *n, calls)));
            }
        }
        arrange_by_key(&mut list, |(number, error, n, _)| (std::cmp::Reverse(*n), *number, *error));
        Sheet::of(list, |(number, error, ..)| id(&(number, error)))
            .left("call", "Call", 20, |(number, ..)| text(tables.name(number)))
            .left("errno", "Error", 18, |(_, error, ..)| text(error_name(error)))
            .right("errors", "Times", 10, |(_, _, n, _)| Cell::Count(n))
            .right("share_pct", "%calls", 9, |(_, _, n, calls)| share(n, calls))
            .panel("Errors")
    }

    fn under_way(&self, at: &Moment<'_>) -> Panel {
        let tables = self.tables;
        let began = self
            .open
            .iter()
            .filter(|(_, begin)| begin.with)
            .map(|(tid, begin)| (*tid, begin.what, begin.took(at.now), false));
        let ns = at.now.saturating_sub(at.start);
        let before =
            self.initial.threads().filter_map(|thread| Some((thread.tid, Call::of_blocked(thread)?, ns, true)));
        let mut list: Vec<(i32, Call, u64, bool)> = began.chain(before).collect();
        arrange_by_key(&mut list, |(tid, _, ns, _)| (std::cmp::Reverse(*ns), *tid));
        Sheet::of(list, |(tid, ..)| tid as u64)
            .task(at, |(tid, ..)| tid)
            .left("call", "Call", 20, |(_, call, ..)| text(tables.name(call)))
            .right("so_far_ns", "So far", 9, |(_, _, ns, _)| Cell::Time(ns))
            .left("since", "", 12, |(.., is_before)| initially_blocked::mark(is_before))
            .panel("Under way")
    }

    fn by_thread(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(by_weight(&self.threads, |stats| stats.sum), |(tid, _)| *tid as u64)
            .task(at, |(tid, _)| *tid)
            .latency(false, |(_, stats)| stats)
            .panel("Threads")
    }

    fn slow(&self, at: &Moment<'_>) -> Panel {
        let tables = self.tables;
        let error = |result: i64| match result {
            -4095..0 => text(error_name(result.unsigned_abs() as u32)),
            _ => Cell::Empty,
        };
        Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., (_, _, time, _))| Cell::Time(at.after(*time)))
            .task(at, |(.., (tid, ..))| *tid)
            .left("call", "Call", 20, |(.., (_, call, ..))| text(tables.name(*call)))
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns))
            .right("result", "Result", 12, |(.., (.., result))| Cell::Id(*result))
            .left("errno", "Error", 14, |(.., (.., result))| error(*result))
            .whole("Slowest")
    }
}

/// The ABI of a call whose sample has no registers: that of the process's program.
fn abi_of(hit: &UnitSample<'_>, cx: &Context<'_>) -> Abi {
    if cx.session.is_32_bit(hit.pid) { Abi::Compat } else { Abi::Native }
}

impl Unit for Syscalls {
    fn event_requests(&self) -> Vec<EventRequest> {
        let registers = [REGISTERS, 0];
        let own = EVENTS.iter().zip(&self.filters).zip(registers);
        let want = |((event, filter), registers): ((&&str, &Option<String>), u64)| EventRequest {
            registers,
            ..EventRequest::new(*event).only(filter.clone())
        };
        own.map(want).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.tables = CallTables::of(event.arch);
        let number = Num::of(event.format, "id")?;
        if event.role == 0 {
            (self.enter, self.abis) = (Some(number), AbiReader::of(self.tables));
            return Ok(());
        }
        self.slowest.bind(event)?;
        self.exit = Some((number, Num::of(event.format, "ret")?));
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        cx.comm(hit.tid);
        self.initial.ask(cx);
        self.initial.is_told(hit.tid);
        if hit.role == 0 {
            if let Some(number) = self.enter.as_ref().map(|number| number.get(hit.raw)) {
                let call = self.entering(hit, number, cx);
                self.newborn.remove(&hit.tid);
                self.open.begin(hit.tid, call, hit.time, cx.counts(hit.cpu));
            }
        } else if let Some((number, result)) = &self.exit {
            let (number, result) = (number.get(hit.raw), result.get(hit.raw));
            self.exited(hit, number, result, cx);
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    /// Also needed without any record: a task that makes no call may be in one.
    fn settle(&mut self, cx: &mut Context<'_>) {
        self.initial.ask(cx);
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        self.open.follow(change, |tid| tid);
        self.initial.follow(change);
        match change {
            ThreadChange::Born { tid, .. } => drop(self.newborn.insert(*tid)),
            ThreadChange::Ended { tid, .. } => drop(self.newborn.remove(tid)),
            ThreadChange::Exec { from, gone, .. } => gone.iter().chain(from).for_each(|tid| {
                self.newborn.remove(tid);
            }),
        }
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.open.forget();
        self.newborn.clear();
        self.initial.forget();
    }

    fn loss_text(&self) -> &'static str {
        "calls open at that time are not counted"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let tables = self.tables;
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
            self.course.series("Calls over time", at, Measure::Count, 24, |number| tables.name(*number)),
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
