//! `syscalls`: time of system calls, their errors, and the calls that block right now.

mod arguments;
mod choice;
mod flag_names;
mod known_descriptors;
mod lines;
mod lookups;
mod names;
mod panels;
mod shapes;
mod structures;
mod sums;
mod targets;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::panel::unit;
use crate::source::{SumPolicy, Summing};
use crate::units::kit::SummedCalls;
use crate::units::kit::descriptors::{DescriptorNames, NamePurpose};
use crate::units::kit::prelude::*;
use crate::units::kit::socket_address;

use arguments::Arguments;
use choice::{CallChoice, CallSide};
use lines::{CallArguments, CallLines, ListedCall};
use lookups::DescriptorName;
pub(crate) use names::{Abi, AbiReader, REGISTERS, error_name, name_of_blocked, native_calls};
use names::{Call, CallTables};
use structures::CallStructure;
use sums::{SingleCall, Summed};
use targets::{CallTargets, ReturnedCall};

pub(crate) const SPEC: Spec = Spec {
    name: "syscalls",
    about: "system calls: time by call, errors by errno, percentiles, and calls that block right now",
    words: "strace slow latency tcp network socket connect recv send accept errno error file why io disk read write",
    help: "A call counts for its thread when it returns. Calls that have not returned are listed under 'Under way'; \
           /proc supplies those that began before the measurement, or went on while records were lost. Results from \
           -4095 to -1 are errors. exit and exit_group never return and are not counted; the return of a new thread \
           from clone or fork is not a call. If seccomp or a tracer answers a call before it begins, the call counts \
           without a time. \
           Calls by the 32-bit ABI (32-bit programs, int 0x80) have the names of its table and a column of their \
           own. Recordings have the user registers that tell it; recordings of perf need --user-regs=cx,ip, because \
           mappings identify only 32-bit programs, but not int 0x80 in 64-bit programs. Failed calls, and those \
           above --than, are lines in order of time with their arguments. -e openat,connect measures only these calls: each is a \
           line, with its stack. -g records the stacks of all calls, which costs much more. For chosen, slow and failed \
           calls, what descriptors refer to is looked up when the call has returned: paths in /proc, the peers of \
           sockets in the kernel's socket monitoring, the processes at the other end of a pipe, and what an epoll \
           waits for (its only descriptor, else their kinds). 'Files and peers' sums up calls by their first \
           descriptor, path or socket address. What a descriptor refers to is looked up at its first use, and again \
           every second; a descriptor that is closed or reopened by then is not known. Lookups and searches take at \
           most 5 % of the time each, and recordings lack them. --paths records the paths, socket addresses and \
           structures (openat2, clone3) that calls name, which costs a second record for each such call; chosen calls \
           have them, calls by the 32-bit ABI do not. \
           Contents of buffers are never shown. On the running machine, BPF programs at raw tracepoints count calls: \
           the first 200 of each reading on each CPU are recorded singly, and so are five times as many calls with a \
           descriptor (fewer above 4 CPUs) and calls above 1 ms or --than; readings are 200 ms apart, or less with a \
           shorter --interval; the others are summed in the kernel, by \
           thread, with the same percentiles. The note then has their rate. Lines, 'Slowest', 'Files and peers' and \
           arguments are those of single calls, and notes count the calls that they lack. Each call is recorded if \
           the kernel refuses the programs, for a user, cgroup or container as the target, and with -C, -e, -g, \
           --comm, --lower, --paths, --heatmap or a condition in --than.",
    example: "perfprof-tui syscalls -e openat,connect -p 1234",
    output: "\
$ perfprof-tui syscalls --batch --duration 2
Call             Calls    Total      Min     Mean      p50      p95…
futex               44   3.45 s  50.1 ms  82.2 ms  50.1 ms   499 ms…
sched_yield    142,205   503 ms   262 ns  3.54 µs   291 ns   387 ns…
getppid      1,422,050   253 ms   151 ns   178 ns   169 ns   205 ns…",
    options: &["event", "stack", "than", "lower", "comm", "pids", "tids", "per-thread", "keep", "paths"],
    sees: Sees::Target,
    across: Some("calls that return on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(Syscalls::new(settings)?)),
};

const EVENTS: [&str; 2] = ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];

/// The fields with the first path or name of a call.
const PATH_FIELDS: [&str; 6] =
    ["__filename_val", "__pathname_val", "__path_val", "__oldname_val", "__dev_name_val", "__name_val"];
/// The fields with the second path or name of a call.
const SECOND_PATH_FIELDS: [&str; 3] = ["__newname_val", "__dir_name_val", "__name_val"];
/// The fields with the socket address of a call.
const ADDRESS_FIELDS: [&str; 2] = ["uservaddr_val", "umyaddr_val"];
/// The result of `connect` on a socket that does not wait: `EINPROGRESS` (asm-generic/errno.h).
const IN_PROGRESS: i64 = -115;
/// The error of a descriptor that refers to nothing: `EBADF`.
const BAD_DESCRIPTOR: u32 = 9;
/// The limit of own events of calls that have not returned.
const MAX_OWN: usize = 1 << 16;
/// The panel of the slowest calls, and that of lines.
const SLOWEST: usize = 4;
const LINES: usize = 7;

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
    thread: ThreadKey,
    pid: i32,
    made: CallArguments,
}

#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    /// Whether the call was made on a selected CPU.
    is_here: bool,
    arguments: Option<Arguments>,
    stack: RetainedStack,
}

/// The paths or the socket address of a call, its structure and its stack, from the call's own event.
#[derive(Clone, Debug, Default)]
struct OwnEvent {
    text: Option<Arc<str>>,
    second: Option<Arc<str>>,
    structure: Option<Arc<str>>,
    is_address: bool,
    stack: RetainedStack,
}

#[derive(Clone, Debug)]
enum TextField {
    /// The first path, and the second one of calls that have two.
    Path(Text, Option<Text>),
    SocketAddress(Num),
}

#[derive(Clone, Debug, Default)]
struct Syscalls {
    per_thread: bool,
    tables: CallTables,
    abis: AbiReader,
    /// Filters on calls and on returns.
    filters: [Option<String>; 2],
    has_stacks: bool,
    choice: CallChoice,
    /// The text in a call's own event.
    text_fields: FxHashMap<usize, TextField>,
    /// The structure in it.
    structures: FxHashMap<usize, (CallStructure, Num)>,
    /// The own events of calls that have not returned, by thread.
    own_events: FxHashMap<i32, OwnEvent>,
    descriptors: DescriptorNames,
    targets: CallTargets,
    enter: Option<(Num, Option<Num>)>,
    exit: Option<(Num, Num)>,
    open: OpenSpans<i32, Call, Begun>,
    /// Threads that have started and not returned to user code yet.
    newborn: FxHashSet<i32>,
    /// By call, and with `--per-thread` by thread.
    rows: FxHashMap<(ThreadKey, Call), Row>,
    threads: FxHashMap<ThreadKey, Stats>,
    containers: ByContainer,
    slowest: Slowest<ListedCall>,
    lines: CallLines,
    course: Grid<Call>,
    initial: InitiallyBlocked,
    /// The end of the last loss of records: what [`Self::initial`] shows is at least as old.
    whole_since: u64,
    /// How the kernel may sum calls; `None` if each call must be recorded.
    sums: Option<Arc<SumPolicy>>,
    summed: Summed,
}

impl Syscalls {
    fn new(settings: &Settings) -> Result<Self, String> {
        let (choice, filters) = CallChoice::of(settings, &EVENTS)?;
        let sees_closes = choice.sees_closes() && filters.iter().all(Option::is_none);
        let sides = filters.iter().zip([CallSide::Begin, CallSide::Return]);
        let filters: Vec<Option<String>> = sides.map(|(own, side)| choice.filter(own.as_ref(), side)).collect();
        let mut filters = filters.into_iter();
        Ok(Self {
            per_thread: settings.has("per-thread"),
            filters: [filters.next().flatten(), filters.next().flatten()],
            slowest: Slowest::of(settings)?,
            lines: CallLines::of(settings)?,
            has_stacks: settings.has("stack"),
            sums: sums::policy(settings).map(Arc::new),
            targets: CallTargets::new(sees_closes),
            choice,
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
        let own = self.own_events.remove(&hit.tid).unwrap_or_default();
        let is_birth = self.newborn.remove(&hit.tid);
        let single = SingleCall::read(hit.raw);
        let (call, ns, arguments) = match (&single, &entered) {
            (Some(single), _) => (single.call, single.ns, single.kept_arguments(self.tables, result)),
            (None, Some(begin)) => (begin.what, Some(begin.took(hit.time)), begin.with.arguments),
            (None, None) => (self.returning(hit, number, cx), None, None),
        };
        let text = own.text.clone();
        // A new thread returns 0 from a call that it did not make; its creator never gets 0.
        let is_start = ns.is_none() && (is_birth || result == 0 && self.tables.makes_thread(call));
        let counts = cx.counts(hit.cpu) && self.choice.has(call, self.tables) && !is_start;
        let (pid, time) = (hit.pid, hit.time);
        let returned = ReturnedCall { call, pid, time, arguments: arguments.as_ref(), text: text.as_ref(), ns, result };
        single.iter().for_each(|single| self.targets.follow_sums(single.unseen));
        if counts {
            self.targets.count(&returned, self.tables, &mut self.descriptors, cx);
        }
        // The call ends what is known of the descriptor.
        let closed = self.targets.closed(&returned, self.tables);
        self.targets.follow(&returned, self.tables);
        if !counts {
            return;
        }
        let error = (-4095..0).contains(&result).then_some(result.unsigned_abs() as u32);
        let above = ns.is_some_and(|ns| self.slowest.exceeds(hit, cx.names, ns));
        let is_chosen = self.choice.is_narrow() && !self.slowest.has_threshold();
        let is_slow = ns.is_some_and(|ns| self.slowest.takes(above, ns));
        let files = closed.into_iter().collect();
        let (second, structure) = (own.second.clone(), own.structure.clone());
        let mut made = CallArguments { arguments, text, second, structure, files };
        let purpose = match error {
            _ if is_chosen || is_slow || above => Some(NamePurpose::Line),
            None | Some(BAD_DESCRIPTOR) => None,
            Some(_) => Some(NamePurpose::Rows),
        };
        if let Some(purpose) = purpose {
            let found = self.files((call, result), purpose, &made, &own, hit, cx);
            made.files.extend(found);
        }
        let thread = cx.thread(hit.tid);
        let key = (if self.per_thread { thread } else { ThreadKey::default() }, call);
        let row = self.rows.entry(key).or_default();
        if let Some(error) = error {
            let failed = row.errors.entry(error).or_default();
            failed.times += 1;
            (failed.thread, failed.pid, failed.made) = (thread, hit.pid, made.clone());
        }
        match ns {
            Some(ns) => {
                row.stats.add_than(ns, above);
                self.threads.entry(thread).or_default().add(ns);
                self.course.add(&call, hit.time, 1.0);
                cx.point(["sys_enter", "sys_exit"], hit.time, ns);
            }
            None => row.untimed += 1,
        }
        if !(is_chosen || is_slow || above || error.is_some() || cx.found.is_some()) {
            return;
        }
        let begun = entered.map_or(RetainedStack::NONE, |begin| begin.with.stack);
        let stack = if begun == RetainedStack::NONE { own.stack } else { begun };
        let tables = self.tables;
        let listed = ListedCall { thread, call, made, time, ns, result, stack };
        if is_chosen || above || error.is_some() {
            self.lines.add(listed.clone());
        }
        let Some(ns) = ns else { return };
        if self.slowest.lists(above) {
            cx.find(hit.tid, stack, || format!("{} took {}", listed.line(tables), unit::duration(ns)));
        }
        self.slowest.add(above, ns, || listed);
    }

    /// Returns what the descriptors of a call refer to.
    fn files(
        &mut self,
        (call, result): (Call, i64),
        purpose: NamePurpose,
        made: &CallArguments,
        own: &OwnEvent,
        hit: &UnitSample<'_>,
        cx: &mut Context<'_>,
    ) -> Vec<(i32, Arc<DescriptorName>)> {
        let Some(arguments) = &made.arguments else { return Vec::new() };
        let shape = self.targets.shape(call, self.tables);
        if let (Some(address), true) = (&own.text, own.is_address) {
            // The address of bind is not that of a peer, and a refused one is not that of this socket.
            if shape.is_connect && [0, IN_PROGRESS].contains(&result) {
                self.descriptors.learn(hit.pid, arguments[0] as i32, address, cx.session);
            }
            return Vec::new();
        }
        let accepted = i32::try_from(result).ok().filter(|fd| shape.is_accept && *fd >= 0);
        let Self { targets, descriptors, .. } = self;
        let mut name = |fd: i32| targets.name((hit.pid, fd), hit.time, purpose, descriptors, cx);
        shape.descriptors(arguments).chain(accepted).filter_map(|fd| Some((fd, name(fd)?))).collect()
    }

    /// Stores what the event of the thread's call recorded.
    fn named(&mut self, hit: &UnitSample<'_>) {
        let path = |field: &Text| String::from_utf8_lossy(field.bytes(hit.raw)).into_owned();
        let (text, second, is_address) = match self.text_fields.get(&hit.role) {
            Some(TextField::Path(first, second)) => (Some(path(first)), second.as_ref().map(path), false),
            Some(TextField::SocketAddress(field)) => (socket_address::name(field.bytes(hit.raw)), None, true),
            None => (None, None, false),
        };
        if self.own_events.len() >= MAX_OWN {
            self.own_events.clear();
        }
        // A text may not have been readable.
        let [text, second] = [text, second].map(|text| text.filter(|text| !text.is_empty()).map(Arc::from));
        let structure = self.structures.get(&hit.role).and_then(|(of, field)| of.written(field.bytes(hit.raw)));
        let structure = structure.map(Arc::from);
        self.own_events.insert(hit.tid, OwnEvent { text, second, structure, is_address, stack: hit.stack });
    }

    fn entering(&mut self, hit: &UnitSample<'_>, number: i64, cx: &Context<'_>) -> Call {
        let abi = self.abis.read(&hit.registers);
        Call { number, abi: abi.unwrap_or_else(|| abi_of(hit, cx)) }
    }

    /// Returns the call that ends without a recorded start.
    fn returning(&self, hit: &UnitSample<'_>, number: i64, cx: &Context<'_>) -> Call {
        Call { number, abi: abi_of(hit, cx) }
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
        let begins = [true, false];
        let own = EVENTS.iter().zip(&self.filters).zip(begins);
        let want = |((event, filter), begins): ((&&str, &Option<String>), bool)| EventRequest {
            registers: if begins { REGISTERS } else { 0 },
            summed: self.sums.clone().map(Summing::Calls),
            ..EventRequest::new(*event).only(filter.clone()).with_stack(begins && self.has_stacks)
        };
        own.map(want).chain(self.choice.event_requests()).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.tables = CallTables::of(event.arch);
        if event.role >= EVENTS.len() {
            let second = || SECOND_PATH_FIELDS.iter().find_map(|name| Text::of(event.format, name).ok());
            let path = PATH_FIELDS.iter().find_map(|name| Text::of(event.format, name).ok());
            let path = path.map(|path| TextField::Path(path, second()));
            let address = || ADDRESS_FIELDS.iter().find_map(|name| Num::of(event.format, name).ok());
            let field = path.or_else(|| address().map(TextField::SocketAddress));
            self.text_fields.extend(field.map(|field| (event.role, field)));
            let structures = CallStructure::FIELDS.iter();
            let found =
                structures.filter_map(|(name, of)| Some((event.role, (*of, Num::of(event.format, name).ok()?))));
            self.structures.extend(found);
            return Ok(());
        }
        self.choice.require(event.arch, self.tables)?;
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
                let is_chosen = self.choice.has(call, self.tables);
                if !is_chosen && !self.choice.follows(call, self.tables) {
                    return;
                }
                let begun = Begun { is_here: is_chosen && cx.counts(hit.cpu), arguments, stack: hit.stack };
                self.open.begin(hit.tid, call, hit.time, begun);
            }
        } else if let Some((number, result)) = &self.exit {
            let (number, result) = (number.get(hit.raw), result.get(hit.raw));
            self.exited(hit, number, result, cx);
        }
    }

    fn add_sums(&mut self, calls: &SummedCalls<'_>, cx: &mut Context<'_>) {
        self.add_summed(calls, cx);
    }

    fn has_findings(&self) -> bool {
        true
    }

    /// Also needed without any record: a task that makes no call may be in one.
    fn settle(&mut self, cx: &mut Context<'_>) {
        self.initial.ask(cx);
    }

    fn thread_changed(&mut self, change: &ThreadChange, time: u64, _cx: &mut Context<'_>) {
        self.open.follow(change, |tid| tid);
        self.initial.follow(change);
        match change {
            ThreadChange::Born { tid, .. } => drop(self.newborn.insert(*tid)),
            ThreadChange::Ended { pid, tid } => {
                self.newborn.remove(tid);
                self.own_events.remove(tid);
                self.summed.leave(*tid);
                if pid == tid {
                    self.targets.end(*pid);
                }
            }
            ThreadChange::Exec { pid, from, gone } => {
                self.targets.exec(*pid, time);
                gone.iter().chain(from).for_each(|tid| {
                    self.newborn.remove(tid);
                });
            }
        }
    }

    fn lost(&mut self, lost: &LostEvents) {
        self.open.forget();
        self.own_events.clear();
        self.targets.forget();
        self.newborn.clear();
        self.initial.renew();
        // Sums are complete: the last ones show the calls of these threads.
        self.summed.open.iter().for_each(|(tid, ..)| self.initial.is_told(*tid));
        self.whole_since = self.whole_since.max(lost.until);
    }

    fn loss_text(&self) -> &'static str {
        "calls open at that time are not counted"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.all_panels(at)
    }

    fn reset(&mut self, _now: u64) {
        self.rows.clear();
        self.threads.clear();
        self.slowest.clear();
        self.lines.clear();
        self.targets.clear();
        self.course.clear();
        self.summed.reset();
    }
}

#[cfg(test)]
mod tests;
