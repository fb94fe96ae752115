//! Names of functions in the memory of processes.
//!
//! A separate thread reads them: a process can delay its reader forever (userfaultfd(2)).

use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::code_names::CodeNames;
use super::cpython::CpythonLines;
use super::hotspot::JavaLayout;
use super::line_table::FunctionLines;
use super::php::PhpLines;
use super::v8::{V8Layout, V8Names, V8Process};
use crate::kernel::ThreadPriority;
use crate::kernel::machine::identity::Identity;
use crate::kernel::procfs;
use crate::kernel::walk::runtime::GeneratedFrame;
use crate::symbols::languages::ProcessMemory;

/// How long the reader of rings waits for names in each span of time.
const WAIT: Duration = Duration::from_millis(50);
const SPAN: Duration = Duration::from_millis(100);
/// The time after which a process no longer delays the others, and how many threads may wait for longer ones. A busy
/// machine can let a reader wait as long as a process that blocks it; its answer counts when it comes.
const PATIENCE: Duration = Duration::from_secs(1);
const MOST_LOST: usize = 4;
/// Runtimes that are known at a time, and processes whose memory is open.
const MACHINES: usize = 1024;
const OPEN: usize = 64;

/// How the types of a runtime lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuntimeTypes {
    Java(JavaLayout),
    JavaScript(V8Layout),
    Python(CpythonLines),
    Php(PhpLines),
}

/// The runtimes of processes by the numbers in walks.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownRuntimes(Arc<Mutex<FxHashMap<u32, (i32, RuntimeTypes)>>>);

impl KnownRuntimes {
    pub(crate) fn add(&self, id: u32, pid: i32, layout: RuntimeTypes) {
        let mut known = self.0.lock();
        if known.len() >= MACHINES
            && let Some(oldest) = known.keys().min().copied()
        {
            known.remove(&oldest);
        }
        known.insert(id, (pid, layout));
    }

    fn get(&self, id: u32) -> Option<(i32, RuntimeTypes)> {
        self.0.lock().get(&id).copied()
    }
}

/// The names of a frame's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FrameNames {
    Known(CodeNames),
    /// Its names are in walks; these are its lines.
    Lines(FunctionLines),
    /// The frame is one of the runtime itself.
    Native,
    /// Its code is gone, or is not understood.
    Unknown,
    /// The process may not be read.
    Unreadable,
}

#[derive(Debug)]
struct Question {
    number: u64,
    id: u32,
    pid: i32,
    /// The process of the frames. It is another one, if it was forked and has the runtime of its parent.
    of: i32,
    types: RuntimeTypes,
    frames: Vec<GeneratedFrame>,
}

type Answer = (u64, u32, Vec<(GeneratedFrame, FrameNames)>);

/// A client of the thread that reads names. It waits for a limited time.
#[derive(Debug)]
pub(crate) struct NameReader {
    machines: KnownRuntimes,
    start: fn(Sender<Answer>) -> Option<Sender<Question>>,
    worker: Option<Sender<Question>>,
    done: Sender<Answer>,
    answers: Receiver<Answer>,
    /// The number and the runtime of the question without an answer, and since when.
    open: Option<(u64, u32, Instant)>,
    next: u64,
    lost: usize,
    /// Runtimes that take too long; they are asked nothing else until they answer.
    delayed: FxHashSet<u32>,
    /// Since when the current span is, and how long of it was spent waiting.
    span: (Instant, Duration),
}

impl NameReader {
    pub(crate) fn new(machines: KnownRuntimes) -> Self {
        Self::with(machines, start)
    }

    fn with(machines: KnownRuntimes, start: fn(Sender<Answer>) -> Option<Sender<Question>>) -> Self {
        let (done, answers) = unbounded();
        Self {
            machines,
            start,
            worker: None,
            done,
            answers,
            open: None,
            next: 0,
            lost: 0,
            delayed: FxHashSet::default(),
            span: (Instant::now(), Duration::ZERO),
        }
    }

    /// Reads the names of frames of a runtime in a process. The caller may repeat questions without an answer in time; answers
    /// to earlier questions come with a later one.
    pub(crate) fn read(
        &mut self,
        (id, of): (u32, i32),
        mut frames: Vec<GeneratedFrame>,
        mut learn: impl FnMut(u32, GeneratedFrame, FrameNames),
    ) {
        let now = Instant::now();
        let learned = RefCell::new(Vec::new());
        let mut learn = |runtime: u32, frame: GeneratedFrame, names: FrameNames| {
            if runtime == id {
                learned.borrow_mut().push(frame);
            }
            learn(runtime, frame, names);
        };
        if now.duration_since(self.span.0) >= SPAN {
            self.span = (now, Duration::ZERO);
        }
        while let Ok(answer) = self.answers.try_recv() {
            self.accept(answer, &mut learn);
        }
        let Some((pid, types)) = self.machines.get(id) else {
            return frames.into_iter().for_each(|frame| learn(id, frame, FrameNames::Unreadable));
        };
        if self.delayed.contains(&id) || self.lost >= MOST_LOST {
            return;
        }
        let until = now + WAIT.saturating_sub(self.span.1);
        self.take(until, &mut learn);
        // They may be those of an earlier question.
        frames.retain(|frame| !learned.borrow().contains(frame));
        match self.open {
            Some(_) => self.give_up(Instant::now()),
            None if frames.is_empty() => {}
            None => self.ask(Question { number: self.next, id, pid, of, types, frames }, now),
        }
        self.take(until, &mut learn);
        self.span.1 += now.elapsed();
    }

    fn ask(&mut self, question: Question, now: Instant) {
        let (number, id) = (question.number, question.id);
        self.next += 1;
        if self.worker.is_none() {
            self.worker = (self.start)(self.done.clone());
        }
        if self.worker.as_ref().is_some_and(|worker| worker.send(question).is_ok()) {
            self.open = Some((number, id, now));
        }
    }

    fn take(&mut self, until: Instant, learn: &mut impl FnMut(u32, GeneratedFrame, FrameNames)) {
        while self.open.is_some() {
            let Ok(answer) = self.answers.recv_deadline(until) else { return };
            self.accept(answer, learn);
        }
    }

    fn accept(&mut self, (number, id, names): Answer, learn: &mut impl FnMut(u32, GeneratedFrame, FrameNames)) {
        if self.open.take_if(|(own, ..)| *own == number).is_none() {
            // The thread of a late answer ends.
            self.lost -= 1;
            self.delayed.remove(&id);
        }
        names.into_iter().for_each(|(frame, names)| learn(id, frame, names));
    }

    /// Leaves a thread that takes too long to its process.
    fn give_up(&mut self, now: Instant) {
        let Some((_, id, _)) = self.open.take_if(|(.., since)| now.duration_since(*since) >= PATIENCE) else { return };
        self.worker = None;
        self.lost += 1;
        self.delayed.insert(id);
    }
}

/// Starts a thread that answers one question after the other, until its sender is dropped.
fn start(done: Sender<Answer>) -> Option<Sender<Question>> {
    let (questions, asked) = unbounded::<Question>();
    let work = move || {
        // The reader of rings waits for the answer for a limited time: frames have no names if it comes later.
        let mut priority = ThreadPriority::ahead();
        let mut processes: FxHashMap<u32, (Option<ProcessFile>, V8Process)> = FxHashMap::default();
        for Question { number, id, pid, of, types, frames } in asked {
            priority.keep();
            if let RuntimeTypes::Python(_) | RuntimeTypes::Php(_) = types {
                let names = lines_of(frames, &types, [of, pid]);
                if done.send((number, id, names)).is_err() {
                    return;
                }
                continue;
            }
            if processes.len() >= OPEN && !processes.contains_key(&id) {
                processes.clear();
            }
            let opened = || {
                let uid = Identity::of_process(pid).map_or(Identity::nobody().uid, |identity| identity.uid);
                (ProcessFile::of(pid), V8Process::new(pid, uid))
            };
            let (file, process) = &*processes.entry(id).or_insert_with(opened);
            let names = |frame| match (file, &types) {
                (None, _) | (_, RuntimeTypes::Python(_) | RuntimeTypes::Php(_)) => FrameNames::Unreadable,
                (Some(file), RuntimeTypes::Java(layout)) => {
                    CodeNames::of_java(frame, layout, file).map_or(FrameNames::Unknown, FrameNames::Known)
                }
                (Some(file), RuntimeTypes::JavaScript(layout)) => {
                    match CodeNames::of_script(frame, layout, process, file) {
                        Some(V8Names::Functions(names)) => FrameNames::Known(names),
                        Some(V8Names::Builtin) => FrameNames::Native,
                        None => FrameNames::Unknown,
                    }
                }
            };
            let names = frames.into_iter().map(|frame| (frame, names(frame))).collect();
            if done.send((number, id, names)).is_err() {
                return;
            }
        }
    };
    crate::kernel::thread("function names", work).ok()?;
    Some(questions)
}

/// Returns the lines of functions in one of these processes: a child that was forked may have ended, and functions that it
/// made are not in its parent.
fn lines_of(frames: Vec<GeneratedFrame>, types: &RuntimeTypes, pids: [i32; 2]) -> Vec<(GeneratedFrame, FrameNames)> {
    let process = |pid| Some((pid, ProcessFile::of(pid)?, Identity::of_process(pid).ok()?.uid));
    let mut processes: Vec<(i32, ProcessFile, u32)> = pids.into_iter().filter_map(process).collect();
    processes.dedup_by_key(|(pid, ..)| *pid);
    let of = |frame: GeneratedFrame| {
        let found = |(pid, file, uid): &(i32, ProcessFile, u32)| {
            let (code, process) = ((frame.code, frame.cookie), (*pid, *uid));
            let mut found = match types {
                RuntimeTypes::Python(lines) => lines.of(code, process, file)?,
                RuntimeTypes::Php(lines) => lines.of(code, process, file)?,
                RuntimeTypes::Java(_) | RuntimeTypes::JavaScript(_) => return None,
            };
            found.source.file = absolute(*pid, &found.source.file).unwrap_or(found.source.file);
            Some(FrameNames::Lines(found))
        };
        (frame, processes.iter().find_map(found).unwrap_or(FrameNames::Unknown))
    };
    frames.into_iter().map(of).collect()
}

/// Returns the whole path of a script that a process names relative to its directory, if that still has it.
fn absolute(pid: i32, file: &str) -> Option<Arc<str>> {
    if file.is_empty() || file.starts_with(['/', '<']) {
        return None;
    }
    std::fs::symlink_metadata(format!("/proc/{pid}/cwd/{file}")).ok()?;
    let path = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?.join(file);
    path.to_str().map(Arc::from)
}

/// The memory of a process: of the program that it executed when this was opened.
struct ProcessFile(File);

impl ProcessFile {
    fn of(pid: i32) -> Option<Self> {
        procfs::open_memory(pid).ok().map(Self)
    }
}

impl ProcessMemory for ProcessFile {
    fn read(&self, at: u64, to: &mut [u8]) -> Option<()> {
        self.0.read_exact_at(to, at).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::walk::runtime::GeneratedKind;

    /// Names of these runtimes take as long as the lock is held.
    const SLOW: [u32; 2] = [7, 8];
    static BLOCKED: Mutex<()> = Mutex::new(());

    fn slow(done: Sender<Answer>) -> Option<Sender<Question>> {
        let (questions, asked) = unbounded::<Question>();
        std::thread::spawn(move || {
            for Question { number, id, frames, .. } in asked {
                let _held = SLOW.contains(&id).then(|| BLOCKED.lock());
                let names = frames.into_iter().map(|frame| (frame, FrameNames::Native)).collect();
                let _ = done.send((number, id, names));
            }
        });
        Some(questions)
    }

    fn frame(code: u64) -> GeneratedFrame {
        GeneratedFrame { code, cookie: 0, kind: GeneratedKind::Blob, at: 0 }
    }

    /// Asks until an answer comes.
    fn read(reader: &mut NameReader, id: u32, code: u64) -> Vec<(u32, u64)> {
        let mut all = Vec::new();
        while !all.contains(&(id, code)) {
            reader.read((id, 1), vec![frame(code)], |id, frame, _| all.push((id, frame.code)));
        }
        all
    }

    /// A busy machine delays a reader like a process that blocks it.
    #[test]
    fn late_names_count_and_delay_no_other_process() {
        let machines = KnownRuntimes::default();
        for id in [1, 7, 8] {
            machines.add(id, 1, RuntimeTypes::Java(JavaLayout::of_17()));
        }
        let mut reader = NameReader::with(machines, slow);
        let blocked = BLOCKED.lock();
        for id in SLOW {
            reader.read((id, 1), vec![frame(1)], |_, _, _| panic!("no answer can come"));
            reader.give_up(Instant::now() + PATIENCE);
            reader.read((id, 1), vec![frame(2)], |_, _, _| panic!("it is not asked again"));
            assert_eq!(read(&mut reader, 1, u64::from(id)), [(1, u64::from(id))]);
        }
        assert_eq!((reader.lost, reader.delayed.len()), (2, 2));
        drop(blocked);
        for id in SLOW {
            read(&mut reader, id, 2);
        }
        assert_eq!((reader.lost, reader.delayed.len()), (0, 0));
    }
}
