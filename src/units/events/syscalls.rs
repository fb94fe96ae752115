//! `syscalls`: time of system calls, their errors, and the calls that block right now.

mod arguments;
mod names;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::panel::row_order::arrange_by_key;
use crate::panel::unit;
use crate::units::kit::prelude::*;
use crate::units::kit::waits::initially_blocked;

use arguments::{Arguments, written};
use names::{Abi, AbiReader, Call, CallTables, REGISTERS};
pub(crate) use names::{error_name, name_of_blocked, native_calls};

pub(crate) const SPEC: Spec = Spec {
    name: "syscalls",
    about: "system calls: time by call, errors by errno, percentiles, and calls that block right now",
    words: "strace slow latency tcp network socket connect recv send accept errno error file why io disk read write",
    help: "A call counts for its thread when it returns. Calls that have not returned are listed under 'Under way'; \
           for calls that began before the measurement, /proc supplies them. Results from -4095 to -1 are errors. exit \
           and exit_group never return and are not counted; the return of a new thread from clone or fork is not a \
           call. If seccomp or a tracer answers a call before it begins, the call counts without a time. Calls by the \
           32-bit ABI (32-bit programs, int 0x80) have the names of its table and a column of their own. A recording \
           needs user registers for that (record --user-regs=cx,ip); without them, mappings identify 32-bit programs, \
           and int 0x80 in 64-bit programs is not recognized. Slow and failed calls have their arguments. For slow \
           calls, what descriptors refer to is looked up in /proc when the call has returned; recordings lack it. \
           --paths records the paths that calls name, which costs a second record for each such call. Contents of \
           buffers are never shown.",
    example: "perfprof-tui syscalls -p 1234 --than 10ms",
    output: "\
$ perfprof-tui syscalls --batch --duration 2
Call             Calls    Total      Min     Mean      p50      p95…
futex               44   3.45 s  50.1 ms  82.2 ms  50.1 ms   499 ms…
sched_yield    142,205   503 ms   262 ns  3.54 µs   291 ns   387 ns…
getppid      1,422,050   253 ms   151 ns   178 ns   169 ns   205 ns…",
    options: &["event", "than", "lower", "comm", "pids", "tids", "per-thread", "keep", "paths"],
    sees: Sees::Target,
    across: Some("calls that return on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(Syscalls::new(settings)?)),
};

const EVENTS: [&str; 2] = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];

/// The calls whose first path is recorded by their own events.
const WITH_PATH: &str = "openat open openat2 execve execveat newfstatat statx newstat newlstat access faccessat \
                         faccessat2 readlink readlinkat unlink unlinkat mkdir mkdirat rename renameat renameat2 chdir \
                         truncate statfs";
/// The fields of these paths.
const PATH_FIELDS: [&str; 4] = ["__filename_val", "__pathname_val", "__path_val", "__oldname_val"];
/// The limit of paths of calls that have not returned.
const MAX_PATHS: usize = 1 << 16;

#[derive(Clone, Debug, Default)]
struct Row {
    stats: Stats,
    /// Number of calls without a time, because their start was not recorded.
    untimed: u64,
    errors: BTreeMap<u32, Failed>,
}

/// The failures of a call with one error.
#[derive(Clone, Debug, Default)]
struct Failed {
    times: u64,
    /// The thread, process and arguments of the last one.
    tid: i32,
    pid: i32,
    made: Made,
}

/// The arguments of a call, if its record has them, and its path.
#[derive(Clone, Debug, Default)]
struct Made {
    arguments: Option<Arguments>,
    path: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    /// Whether the call was made on a selected CPU.
    is_here: bool,
    arguments: Option<Arguments>,
}

/// A listed call.
#[derive(Clone, Debug)]
struct ListedCall {
    tid: i32,
    call: Call,
    line: String,
    time: u64,
    result: i64,
}

#[derive(Clone, Debug, Default)]
struct Syscalls {
    per_thread: bool,
    tables: CallTables,
    abis: AbiReader,
    /// Filters on calls and on returns.
    filters: [Option<String>; 2],
    /// Whether paths are recorded, and their fields.
    has_paths: bool,
    path_fields: FxHashMap<usize, Text>,
    /// The paths of calls that have not returned, by thread.
    paths: FxHashMap<i32, Arc<str>>,
    enter: Option<(Num, Option<Num>)>,
    exit: Option<(Num, Num)>,
    open: OpenSpans<i32, Call, Begun>,
    /// Threads that have started and not returned to user code yet.
    newborn: FxHashSet<i32>,
    rows: FxHashMap<(i32, Call), Row>,
    threads: FxHashMap<i32, Stats>,
    containers: ByContainer,
    slowest: Slowest<ListedCall>,
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
            has_paths: settings.has("paths"),
            ..Self::default()
        })
    }

    /// Takes the call that a thread returns from. A thread is in one call at a time, so that a return ends it
    /// regardless of its number: a signal handler returns through rt_sigreturn with the number -1; execveat, and an
    /// exec between ABIs, return with the number of the new program's execve.
    fn returned(&mut self, hit: &UnitSample<'_>) -> Option<OpenSpan<Call, Begun>> {
        self.open.take(&hit.tid)
    }

    fn exited(&mut self, hit: &UnitSample<'_>, number: i64, result: i64, cx: &mut Context<'_>) {
        let entered = self.returned(hit);
        let path = self.paths.remove(&hit.tid);
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
        let arguments = entered.as_ref().and_then(|begin| begin.with.arguments);
        if let Some(error) = error {
            let failed = row.errors.entry(error).or_default();
            failed.times += 1;
            (failed.tid, failed.pid, failed.made) = (hit.tid, hit.pid, Made { arguments, path: path.clone() });
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
        let (tables, session, made) = (self.tables, cx.session, Made { arguments, path });
        if self.slowest.lists(above) {
            let line = || line(tables, call, &made, |fd| session.open_file(hit.pid, fd));
            cx.find(hit.tid, hit.stack, || format!("{} = {result} took {}", line(), unit::duration(ns)));
        }
        let (tid, time) = (hit.tid, hit.time);
        let listed = || ListedCall {
            tid,
            call,
            line: line(tables, call, &made, |fd| session.open_file(hit.pid, fd)),
            time,
            result,
        };
        self.slowest.add(above, ns, listed);
    }

    /// Stores the path that the thread's call names.
    fn named(&mut self, hit: &UnitSample<'_>) {
        let Some(field) = self.path_fields.get(&hit.role) else { return };
        let path = String::from_utf8_lossy(field.bytes(hit.raw));
        if self.paths.len() >= MAX_PATHS {
            self.paths.clear();
        }
        if path.is_empty() {
            // It was not readable; one of an earlier call may be left.
            self.paths.remove(&hit.tid);
        } else {
            self.paths.insert(hit.tid, path.into());
        }
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
        for (tid, begin) in self.open.iter().filter(|(_, begin)| begin.with.is_here) {
            let key = (if self.per_thread { *tid } else { 0 }, begin.what);
            let entry = now.entry(key).or_default();
            *entry = (entry.0 + 1, entry.1.max(begin.took(at.now)));
        }
        let nothing = Row::default();
        let keys = self.rows.keys().chain(now.keys().filter(|key| !self.rows.contains_key(key)));
        let list = by_weight(keys.map(|key| (key, self.rows.get(key).unwrap_or(&nothing))), |row| row.stats.sum);
        let most = |row: &Row| {
            let most = row.errors.iter().max_by_key(|(number, of)| (of.times, std::cmp::Reverse(**number)));
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
            .right("errors", "Errors", 8, |(_, row)| some(row.errors.values().map(|of| of.times).sum()))
            .left("errno", "Top error", 14, |(_, row)| most(row))
            .right("now", "Now", 5, |(key, _)| some(now.get(key).map_or(0, |(n, _)| *n)))
            .right("oldest_ns", "Oldest", 9, |(key, _)| now.get(key).map_or(Cell::Empty, |(_, ns)| Cell::Time(*ns)));
        let untimed = self.rows.values().map(|row| row.untimed).sum();
        let note = note(untimed, "call", "without a time: begun before, or answered by seccomp or a tracer");
        sheet.panel("Calls").noted(note)
    }

    fn errors(&self, at: &Moment<'_>, chosen: Option<&Row>) -> Panel {
        let tables = self.tables;
        let mut list: Vec<(Call, u32, &Failed, u64)> = Vec::new();
        for ((_, number), row) in &self.rows {
            if chosen.is_none_or(|chosen| std::ptr::eq(chosen, row)) {
                let calls = row.stats.n + row.untimed;
                list.extend(row.errors.iter().map(|(error, failed)| (*number, *error, failed, calls)));
            }
        }
        arrange_by_key(&mut list, |(number, error, failed, _)| {
            (std::cmp::Reverse(failed.times), *number, *error, failed.tid)
        });
        // Now, the descriptors may refer to something else.
        let last = |call: Call, failed: &Failed| line(tables, call, &failed.made, |_| None);
        Sheet::of(list, |(number, error, ..)| id(&(number, error)))
            .left("call", "Call", 20, |(number, ..)| text(tables.name(number)))
            .left("errno", "Error", 18, |(_, error, ..)| text(error_name(error)))
            .right("errors", "Times", 10, |(_, _, failed, _)| Cell::Count(failed.times))
            .right("share_pct", "%calls", 9, |(_, _, failed, calls)| share(failed.times, calls))
            .left("last_by", "Last by", 20, |(_, _, failed, _)| text(at.task(failed.tid)))
            .ranked(1)
            .left("last_call", "Last call", 0, move |(call, _, failed, _)| text(last(call, failed)))
            .ranked(1)
            .panel("Errors")
    }

    fn under_way(&self, at: &Moment<'_>) -> Panel {
        let tables = self.tables;
        let began = self
            .open
            .iter()
            .filter(|(_, begin)| begin.with.is_here)
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
            .right("time_ns", "At", 9, |(.., of)| Cell::Time(at.after(of.time)))
            .task(at, |(.., of)| of.tid)
            .left("call", "Call", 16, |(.., of)| text(tables.name(of.call)))
            .ranked(2)
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns))
            .right("result", "Result", 12, |(.., of)| Cell::Id(of.result))
            .left("errno", "Error", 14, |(.., of)| error(of.result))
            .ranked(1)
            .left("line", "Arguments", 0, |(.., of)| text(of.line.as_str()))
            .whole("Slowest")
    }
}

/// Writes a call with its arguments; `file` returns what a descriptor refers to.
fn line(tables: CallTables, call: Call, made: &Made, file: impl Fn(i32) -> Option<String>) -> String {
    let name = tables.name(call);
    match &made.arguments {
        Some(arguments) => written(&name, arguments, made.path.as_deref(), file),
        None => name,
    }
}

/// Reads the words of `raw_syscalls:sys_enter`.
fn arguments_of(bytes: &[u8]) -> Option<Arguments> {
    let (words, _) = bytes.as_chunks::<8>();
    words.first_chunk::<6>().map(|words| words.map(u64::from_ne_bytes))
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
        let paths = WITH_PATH.split(' ').filter(|_| self.has_paths);
        let paths = paths.map(|call| EventRequest::new(format!("syscalls:sys_enter_{call}")).optional());
        own.map(want).chain(paths).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.tables = CallTables::of(event.arch);
        if event.role >= EVENTS.len() {
            let found = PATH_FIELDS.iter().find_map(|name| Text::of(event.format, name).ok());
            let field = found.ok_or_else(|| "its records have no paths".to_owned())?;
            self.path_fields.insert(event.role, field);
            return Ok(());
        }
        let number = Num::of(event.format, "id")?;
        if event.role == 0 {
            let arguments = Num::of(event.format, "args").ok();
            (self.enter, self.abis) = (Some((number, arguments)), AbiReader::of(self.tables));
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
        if hit.role >= EVENTS.len() {
            self.named(hit);
        } else if hit.role == 0 {
            if let Some((number, arguments)) = &self.enter {
                let number = number.get(hit.raw);
                let arguments = arguments.as_ref().and_then(|field| arguments_of(field.bytes(hit.raw)));
                let call = self.entering(hit, number, cx);
                self.newborn.remove(&hit.tid);
                let begun = Begun { is_here: cx.counts(hit.cpu), arguments };
                self.open.begin(hit.tid, call, hit.time, begun);
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
        self.paths.clear();
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
            self.errors(at, chosen),
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
