//! `files`: opens, reads, writes and syncs by file and process, their time, and the files that are missing.

mod calls;
mod descriptors;
mod panels;

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::calls::CallTables;
use crate::panel::unit;
use crate::record::Record;
use crate::session::Session;
use crate::units::events::syscalls::{Abi, AbiReader, REGISTERS, error_name};
use crate::units::kit::prelude::*;

use calls::{FileCall, FileCalls, Made};
use descriptors::{Descriptors, OTHERS, PathId, Paths};

pub(crate) const SPEC: Spec = Spec {
    name: "files",
    about: "opens, reads, writes, syncs, bytes and time by file and process; slowest calls, missing files",
    words: "file io path missing enoent open read write fsync disk latency slow strace filetop fileslower opensnoop \
            descriptor why",
    help: "A call counts for its file when it returns. Paths are those of the call, in the view of the process: \
           relative ones follow its working directory or the directory of the call, links are not resolved. File \
           descriptors are followed through open, dup, fcntl, close, fork and exec; those from before the measurement \
           are looked up in /proc, in recordings they are not known. A path in memory that the process has not touched \
           before cannot be read; /proc then has it if the file opens. Sockets, pipes and other kinds share a row \
           each. Time is that of the calls, and includes waits for the disk. Bytes are results, so that sparse files \
           and the page cache count. Mapped memory, io_uring and calls by the 32-bit ABI are not included.",
    example: "perfprof-tui files -p 1234 --than 10ms",
    output: "",
    options: &["than", "lower", "comm", "pids", "tids", "keep"],
    sees: Sees::Target,
    across: Some("calls that return on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(Files::new(settings)?)),
};

/// The events that open files, whose records have the path, then those of all other calls.
const OPENS: [&str; 4] =
    ["syscalls:sys_enter_openat", "syscalls:sys_enter_open", "syscalls:sys_enter_openat2", "syscalls:sys_enter_creat"];
const ENTER: usize = OPENS.len();
const EXIT: usize = ENTER + 1;

/// The limit of rows by process and file.
const MAX_PAIRS: usize = 1 << 17;
const AT_CWD: i32 = -100;
const BAD_DESCRIPTOR: i64 = -9;
const CLOSE_ON_EXEC: i64 = 0o2_000_000;

/// The figures of a file or a process.
#[derive(Clone, Debug, Default)]
struct Figures {
    opens: u64,
    reads: u64,
    writes: u64,
    syncs: u64,
    read_bytes: u64,
    written_bytes: u64,
    errors: u64,
    stats: Stats,
}

impl Figures {
    /// Adds a call. The time of a copy counts for its source only.
    fn add(&mut self, call: FileCall, ns: Option<u64>, above: bool, result: i64) {
        *match call {
            FileCall::Open => &mut self.opens,
            FileCall::Write => &mut self.writes,
            FileCall::Sync => &mut self.syncs,
            _ => &mut self.reads,
        } += 1;
        let bytes = u64::try_from(result).unwrap_or(0);
        match call {
            FileCall::Read => self.read_bytes = self.read_bytes.saturating_add(bytes),
            FileCall::Write => self.written_bytes = self.written_bytes.saturating_add(bytes),
            _ => {}
        }
        self.errors += u64::from(result < 0);
        ns.into_iter().for_each(|ns| self.stats.add_than(ns, above));
    }

    fn merge(&mut self, other: &Self) {
        self.opens += other.opens;
        self.reads += other.reads;
        self.writes += other.writes;
        self.syncs += other.syncs;
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.errors += other.errors;
        self.stats.merge(&other.stats);
    }
}

/// A call that was slow.
#[derive(Clone, Copy, Debug)]
struct SlowCall {
    thread: ThreadKey,
    call: FileCall,
    file: PathId,
    time: u64,
    result: i64,
}

/// A path or directory as a call of open has it.
#[derive(Clone, Debug)]
struct OpenFields {
    path: Text,
    directory: Option<Num>,
    flags: Option<Num>,
}

#[derive(Clone, Debug, Default)]
struct Files {
    calls: FileCalls,
    opens: [Option<OpenFields>; OPENS.len()],
    enter: Option<(Num, Num)>,
    exit: Option<(Num, Num)>,
    abis: AbiReader,
    paths: Paths,
    descriptors: Descriptors,
    /// The calls that have not returned, with the path that they open.
    open: OpenSpans<i32, Made, Option<Arc<str>>>,
    /// By file and process.
    rows: FxHashMap<(PathId, ThreadKey), Figures>,
    failures: FxHashMap<(PathId, ThreadKey, FileCall, u32), u64>,
    slowest: Slowest<SlowCall>,
    course: Grid<&'static str>,
    containers: ByContainer,
}

impl Files {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self { calls: FileCalls::of(""), slowest: Slowest::of(settings)?, ..Self::default() })
    }

    fn opening(&mut self, hit: &UnitSample<'_>, cx: &Context<'_>) {
        let Some(fields) = &self.opens[hit.role] else { return };
        let path = String::from_utf8_lossy(fields.path.bytes(hit.raw)).into_owned();
        let directory = fields.directory.as_ref().map_or(AT_CWD, |field| field.tid(hit.raw));
        let is_closed_on_exec = fields.flags.as_ref().is_some_and(|flags| flags.get(hit.raw) & CLOSE_ON_EXEC != 0);
        let path = self.descriptors.absolute(path, hit.pid, directory, &self.paths, cx.session);
        let made = Made { call: FileCall::Open, args: [u64::from(is_closed_on_exec), 0, 0] };
        self.open.begin(hit.tid, made, hit.time, Some(path));
    }

    fn returned(&mut self, hit: &UnitSample<'_>, number: i64, result: i64, cx: &mut Context<'_>) {
        let Some(span) = self.open.take(&hit.tid) else { return };
        let (Made { call, args }, ns) = (span.what, span.took(hit.time));
        if self.calls.of_number(number) != Some(call) {
            return;
        }
        let [first, second, third] = args;
        match call {
            FileCall::Open => {
                let descriptor = i32::try_from(result).ok().filter(|fd| *fd >= 0);
                let path = span.with.filter(|path| !path.is_empty() && !path.ends_with("...")).or_else(|| {
                    // The path was not readable or too long: the link has it.
                    cx.session.open_file(hit.pid, descriptor?).map(Arc::from)
                });
                let file = self.paths.id(path.as_deref().unwrap_or_default());
                if let Some(descriptor) = descriptor {
                    self.descriptors.open(hit.pid, descriptor, file, first != 0);
                }
                self.count(call, file, Some(ns), result, hit, cx);
            }
            FileCall::Read | FileCall::Write | FileCall::Sync => self.used(call, first, Some(ns), result, hit, cx),
            FileCall::SendFile => self.copied([second, first], ns, result, hit, cx),
            FileCall::CopyRange => self.copied([first, third], ns, result, hit, cx),
            FileCall::Close if result != BAD_DESCRIPTOR => self.descriptors.close(hit.pid, first as i32),
            FileCall::CloseRange if result == 0 => self.descriptors.close_range(hit.pid, args),
            FileCall::Duplicate | FileCall::Control => {
                self.descriptors.duplicated(call, hit.pid, args, result);
            }
            FileCall::ChangeDirectory if result == 0 => self.descriptors.moved(hit.pid),
            _ => {}
        }
    }

    fn used(
        &mut self,
        call: FileCall,
        fd: u64,
        ns: Option<u64>,
        result: i64,
        hit: &UnitSample<'_>,
        cx: &mut Context<'_>,
    ) {
        let file = self.descriptors.file(hit.pid, fd as i32, &mut self.paths, cx.session);
        self.count(call, file, ns, result, hit, cx);
    }

    /// Counts a copy as a read and a write. Its time and its failure count once, for the source.
    fn copied(&mut self, [from, to]: [u64; 2], ns: u64, result: i64, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        self.used(FileCall::Read, from, Some(ns), result, hit, cx);
        if result >= 0 {
            self.used(FileCall::Write, to, None, result, hit, cx);
        }
    }

    fn count(
        &mut self,
        call: FileCall,
        file: PathId,
        ns: Option<u64>,
        result: i64,
        hit: &UnitSample<'_>,
        cx: &mut Context<'_>,
    ) {
        if !cx.counts(hit.cpu) {
            return;
        }
        cx.comm(hit.pid);
        let process = cx.thread(hit.pid);
        let pair = (file, process);
        let is_listed = self.rows.len() < MAX_PAIRS || self.rows.contains_key(&pair);
        let key = if is_listed { pair } else { (OTHERS, ThreadKey::default()) };
        let above = ns.is_some_and(|ns| self.slowest.exceeds(hit, cx.names, ns));
        self.rows.entry(key).or_default().add(call, ns, above, result);
        if (-4095..0).contains(&result) && self.failures.len() < MAX_PAIRS {
            let error = result.unsigned_abs() as u32;
            *self.failures.entry((file, process, call, error)).or_default() += 1;
        }
        if let (Some(line), Ok(bytes)) = (call.bytes_line(), u64::try_from(result)) {
            self.course.add(&line, hit.time, bytes as f64);
        }
        let Some(ns) = ns else { return };
        cx.point(["enter", "return"], hit.time, ns);
        if self.slowest.lists(above) {
            let path = self.paths.name(file);
            let outcome = || match result {
                -4095..0 => format!("-{}", error_name(result.unsigned_abs() as u32)),
                _ => result.to_string(),
            };
            let text = || format!("{}({path}) = {} took {}", call.label(), outcome(), unit::duration(ns));
            cx.find(hit.tid, hit.stack, text);
        }
        let slow = SlowCall { thread: cx.thread(hit.tid), call, file, time: hit.time, result };
        self.slowest.add(above, ns, || slow);
    }

    /// Sums the rows of files or processes.
    fn sums<K: Copy + Eq + Hash + Ord>(&self, key: impl Fn(&(PathId, ThreadKey)) -> K) -> FxHashMap<K, Figures> {
        let mut sums: FxHashMap<K, Figures> = FxHashMap::default();
        self.rows.iter().for_each(|(row, figures)| sums.entry(key(row)).or_default().merge(figures));
        sums
    }
}

impl Unit for Files {
    fn event_requests(&self) -> Vec<EventRequest> {
        let opens = OPENS.iter().enumerate().map(|(role, event)| {
            let request = EventRequest::new(*event);
            if role == 0 { request } else { request.optional() }
        });
        let others = [("raw_syscalls:sys_enter", false), ("raw_syscalls:sys_exit", true)];
        let others = others.map(|(event, ends)| EventRequest {
            registers: if ends { 0 } else { REGISTERS },
            ..EventRequest::new(event).only(Some(self.calls.filter(ends)))
        });
        opens.chain(others).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        match event.role {
            ENTER => {
                self.enter = Some((Num::of(event.format, "id")?, Num::of(event.format, "args")?));
                self.abis = AbiReader::of(CallTables::of(event.arch));
            }
            EXIT => {
                self.slowest.bind(event)?;
                self.exit = Some((Num::of(event.format, "id")?, Num::of(event.format, "ret")?));
            }
            role => {
                let name = if event.name.ends_with("creat") { "pathname" } else { "filename" };
                let text = format!("__{name}_val");
                let path = Text::of(event.format, &text).map_err(|_| "its records have no paths".to_owned())?;
                let optional = |name: &str| Num::of(event.format, name).ok();
                self.opens[role] = Some(OpenFields { path, directory: optional("dfd"), flags: optional("flags") });
            }
        }
        self.calls.require(event.arch)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if cx.session.is_32_bit(hit.pid) {
            return;
        }
        self.descriptors.look_once(&mut self.paths, cx.session);
        match hit.role {
            ENTER => {
                let Some((number, args)) = &self.enter else { return };
                // By int 0x80, numbers are those of other calls.
                if self.abis.read(&hit.registers) == Some(Abi::Compat) {
                    return;
                }
                if let Some(call) = self.calls.of_number(number.get(hit.raw)) {
                    let made = Made::of(call, args.bytes(hit.raw));
                    self.open.begin(hit.tid, made, hit.time, None);
                }
            }
            EXIT => {
                let Some((number, result)) = &self.exit else { return };
                let (number, result) = (number.get(hit.raw), result.get(hit.raw));
                self.returned(hit, number, result, cx);
            }
            _ => self.opening(hit, cx),
        }
    }

    fn look_around(&mut self, session: &Session) {
        self.descriptors.look(&mut self.paths, session);
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn on_sideband(&mut self, record: &Record<'_>, _time: u64, _cx: &mut Context<'_>) {
        if let Record::Fork(task) = record
            && task.pid == task.tid
        {
            self.descriptors.fork(task.ppid, task.pid);
        }
    }

    fn thread_changed(&mut self, change: &ThreadChange, _time: u64, _cx: &mut Context<'_>) {
        self.open.follow(change, |tid| tid);
        match change {
            ThreadChange::Exec { pid, .. } => self.descriptors.exec(*pid),
            ThreadChange::Ended { pid, tid } if pid == tid => self.descriptors.end(*pid),
            _ => {}
        }
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.open.forget();
        self.descriptors.forget();
    }

    fn loss_text(&self) -> &'static str {
        "calls open at that time are not counted, and file descriptors are looked up again"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.all_panels(at)
    }

    fn reset(&mut self, _now: u64) {
        self.rows.clear();
        self.failures.clear();
        self.slowest.clear();
        self.course.clear();
    }
}
