//! `locks`: waits for locks, their holders, and the holders' activities.

mod addresses;
mod chain;
pub(crate) mod lock_names;
mod lock_rows;
mod lock_table;
mod panels;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::format::Format;
use crate::session::BlockedThread;
use crate::units::kit::prelude::*;
use crate::units::kit::tables::stack_labels::ByStack;
use crate::units::kit::waits::classes::Sleep;
use crate::units::kit::waits::sched::{self, SchedEvent, SchedReader, WakeContext, state};
use crate::units::kit::{Programs, WakerReader};

use addresses::{KERNEL_SPACE, LockKey};
use lock_names::LockName;
use lock_table::{Deed, LockTable, Waiting};

pub(crate) const SPEC: Spec = Spec {
    name: "locks",
    about: "how long threads wait for each lock, who holds it and does what meanwhile; chains and deadlocks",
    words: "lock mutex contention holder owner futex deadlock gil rwlock monitor spinlock semaphore blocked wait hang \
            stuck slow",
    help: "Each row is a lock at one address: a futex of a process, or a lock of the kernel. It has the name of the \
           static variable that contains it, with the offset of a member (queue+0x28), or else of the function that \
           takes it, with its address; names of variables need the symbol table of the file. Monitors and locks of \
           Java have a row for each function that takes them. The kind of a lock follows from the functions in which \
           threads wait. Waited is the time from a futex call to its return, also of calls that have not returned; \
           'until running' is the part of it after the release. The holder of a wait is the thread that released the \
           lock, with its stack at that time. If a lock is released several times during a wait, the wait has several \
           holders: each part of it belongs to the release at its end. Before the first release, the holder is the \
           owner that the lock names; glibc's mutexes and futexes with priority inheritance name one. Such a name has \
           the mark 'as the lock says', because the program may write anything there, and is used only if it is a \
           thread of the process. Chain shows what the holders of the selected lock did while others waited: the \
           functions that they ran (samples of a clock, -F, 99 Hz), the places where they slept, their waits for a \
           CPU, and the locks that they waited for, with the holders of these. As text, it has the first three locks \
           with holders. Its times are wall time: a moment in which several threads wait counts once. Below a lock \
           that a holder waited for, times are shares of this wait, divided like all waits for that lock. A remainder \
           of 5 % or more is 'not known': the lock did not name its owner, or records are missing. Threads that wait \
           for each other in a circle for 100 ms are a deadlock. After the locks come condition variables, semaphores \
           and joins, whose 'holder' is the thread that signaled, or for whose end a join waits; and futexes of \
           unknown kind, for which threads have waited since before the measurement. Their shares are of the time in \
           such waits, those of locks of the time in waits for locks. Waits that began before the measurement, or went \
           on while records were lost, count from the moment when /proc shows them. Kernel locks need the events \
           lock:contention_begin and _end (Linux 5.19); spinlocks have no holder, because no thread is woken. \
           Recordings need the events syscalls:sys_enter_futex, syscalls:sys_exit_futex, sched:sched_switch and \
           sched:sched_waking with stacks (record -g).",
    example: "perfprof-tui locks -p 1234",
    output: "\
$ perfprof-tui locks -p 4733 --batch --duration 3 --panel Locks
Waited   Share  Waits      p99      Max  Waiting  Lock              …
2.58 s  50.3 %    110  49.8 ms  76.7 ms        0  middle_round 0x561…
2.55 s  49.7 %     98   102 ms   102 ms        0  front_round 0x5617…",
    options: &["comm", "pids", "tids", "frequency", "addresses"],
    sees: Sees::Machine,
    across: Some("waits that begin on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(Locks::new(settings)?)),
};

const CLOCK: usize = 3;
const ENTER: usize = 4;
const EXIT: usize = 5;
const BEGIN: usize = 6;
const END: usize = 7;

/// Operations of futex(2) that wait, without their flags, and those whose word contains the owner.
const WAITS: &[i64] = &[0, 6, 9, 11, 13];
const OWNED: &[i64] = &[6, 13];
const OPERATION: i64 = 0x7f;
const PRIVATE: i64 = 0x80;
const OWNER_BITS: i64 = 0x3fff_ffff;
/// The highest number of a thread (`PID_MAX_LIMIT`).
const MOST_TID: i64 = 1 << 22;
/// glibc's mutexes have their owner so many bytes after the futex.
const OWNER_AT: u64 = 8;
/// The result of a wait that did not take place, because the word had changed.
const CHANGED: i64 = -11;
/// `FUTEX_WAIT` and `FUTEX_WAIT_BITSET`, by which glibc waits for the end of a thread.
const PLAIN_WAITS: &[i64] = &[0, 9];
/// Limit of threads that wait for a CPU.
const MOST_RUNNABLE: usize = 1 << 20;

#[derive(Clone, Debug)]
struct FutexFields {
    address: Num,
    operation: Num,
    value: Option<Num>,
    word: Option<Num>,
    owner: Option<Num>,
}

impl FutexFields {
    fn of(format: Option<&Arc<Format>>) -> Result<Self, String> {
        let optional = |name: &str| Num::of(format, name).ok();
        Ok(Self {
            address: Num::of(format, "uaddr")?,
            operation: Num::of(format, "op")?,
            value: optional("val"),
            word: optional("uaddr_val"),
            owner: optional("uaddr_owner"),
        })
    }

    /// Returns the owner that the lock names, if any.
    fn owner(&self, operation: i64, raw: &[u8]) -> i64 {
        let get = |field: &Option<Num>| field.as_ref().map_or(0, |field| field.get(raw));
        if OWNED.contains(&(operation & OPERATION)) { get(&self.word) & OWNER_BITS } else { get(&self.owner) }
    }
}

#[derive(Clone, Debug)]
struct ContentionFields {
    address: Num,
    flags: Option<Num>,
}

#[derive(Clone, Debug, Default)]
struct Locks {
    reader: SchedReader,
    wakers: WakerReader,
    programs: Programs,
    hz: u64,
    futex: Option<FutexFields>,
    result: Option<Num>,
    contention: Option<ContentionFields>,
    /// Futexes, and the locks of the kernel.
    user: LockTable,
    kernel: LockTable,
    asleep: OpenSpans<i32, (), RetainedStack>,
    /// The threads that wait for a CPU, and since when.
    runnable: FxHashMap<i32, u64>,
    before: InitiallyBlocked,
    slept_in: StackLabels,
    has_addresses: bool,
    worked: ByStack<Arc<str>>,
    names: ByStack<LockName>,
}

impl Locks {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self {
            slept_in: StackLabels::of_sleep(settings),
            has_addresses: settings.has("addresses"),
            hz: settings.hertz("frequency", 99)?.clamp(1, 10_000),
            ..Self::default()
        })
    }

    /// Returns the lock of a futex: a shared one belongs to all processes of the program.
    fn key(&mut self, pid: i32, address: u64, operation: i64, cx: &Context<'_>) -> LockKey {
        let shared = (operation & PRIVATE == 0).then(|| self.programs.root(pid, cx.session)).flatten();
        LockKey { space: cx.thread(shared.unwrap_or(pid)), address }
    }

    /// Returns an owner that may be right: a thread of the process, or of any process if the futex is shared.
    fn owner(owner: i64, pid: i32, operation: i64, cx: &Context<'_>) -> Option<i32> {
        let tid = i32::try_from(owner).ok().filter(|_| (1..MOST_TID).contains(&owner))?;
        let process = cx.process_of(tid)?;
        (process == pid || operation & PRIVATE == 0).then_some(tid)
    }

    /// Returns the thread for whose end another one waits. Its number is in a futex of all processes, which the kernel
    /// clears at its end (CLONE_CHILD_CLEARTID). A lock with its owner there has the bit of waiters as well.
    fn joined(word: i64, pid: i32, tid: i32, operation: i64, cx: &Context<'_>) -> Option<i32> {
        let may_join = operation & PRIVATE == 0 && PLAIN_WAITS.contains(&(operation & OPERATION));
        Self::owner(word, pid, PRIVATE, cx).filter(|joined| may_join && *joined != tid)
    }

    /// Adds the threads that waited before the first record, or before the last loss.
    fn take_up(&mut self, time: u64, cx: &mut Context<'_>) {
        self.before.ask(cx);
        for thread in self.before.take() {
            let Some((address, operation)) = futex_of(&thread) else { continue };
            if !WAITS.contains(&(operation & OPERATION)) || cx.is_unasked(thread.pid) {
                continue;
            }
            let is_owned = OWNED.contains(&(operation & OPERATION));
            let word_at = |address: u64| cx.session.peek(thread.pid, address, 4).unwrap_or(0) as i64;
            let joined = joined_by(&thread, cx);
            let owner_at = address.saturating_add(if is_owned { 0 } else { OWNER_AT });
            let named = || Self::owner(word_at(owner_at) & OWNER_BITS, thread.pid, operation, cx);
            let owner = joined.or_else(named);
            owner.into_iter().for_each(|tid| drop(cx.comm(tid)));
            let lock = self.key(thread.pid, address, operation, cx);
            let owner = owner.map(|tid| cx.thread(tid));
            self.user.wait(cx.thread(thread.tid), lock, time, RetainedStack::NONE, owner);
            self.user.set_end(lock, joined.is_some());
        }
    }

    fn entered(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some(fields) = &self.futex else { return };
        let (address, operation) = (fields.address.get(hit.raw) as u64, fields.operation.get(hit.raw));
        if !WAITS.contains(&(operation & OPERATION)) || !cx.counts(hit.cpu) || !cx.follows(hit.tid) {
            return;
        }
        let value = fields.value.as_ref().map_or(0, |value| value.get(hit.raw));
        let joined = Self::joined(value, hit.pid, hit.tid, operation, cx);
        let owner = joined.or_else(|| Self::owner(fields.owner(operation, hit.raw), hit.pid, operation, cx));
        cx.comm(hit.tid);
        let lock = self.key(hit.pid, address, operation, cx);
        let owner = owner.map(|tid| cx.thread(tid));
        self.user.wait(cx.thread(hit.tid), lock, hit.time, hit.stack, owner);
        self.user.set_recorded(lock);
        self.user.set_end(lock, joined.is_some());
    }

    fn returned(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let thread = cx.thread(hit.tid);
        if self.result.as_ref().is_some_and(|result| result.get(hit.raw) == CHANGED) {
            return self.user.cancel(thread, hit.time);
        }
        let Some((Waiting { lock, since, stack, .. }, ns)) = self.user.end(thread, hit.time) else { return };
        self.user.did(thread, Deed::WaitedFor(lock), since, hit.time);
        cx.point(["sys_enter_futex", "sys_exit_futex"], hit.time, ns);
        cx.find(hit.tid, stack, || format!("waited {} for a lock", crate::panel::unit::duration(ns)));
    }

    /// A thread waits for a lock of the kernel. A mutex reports that again when it no longer spins.
    fn contended(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some(fields) = self.contention.as_ref().filter(|_| cx.counts(hit.cpu) && cx.follows(hit.tid)) else {
            return;
        };
        let lock = LockKey { space: KERNEL_SPACE, address: fields.address.get(hit.raw) as u64 };
        let flags = fields.flags.as_ref().map_or(0, |flags| flags.get(hit.raw) as u32);
        let thread = cx.thread(hit.tid);
        if self.kernel.waits_for(thread).is_some_and(|(known, _)| known == lock) {
            return;
        }
        cx.comm(hit.tid);
        self.kernel.wait(thread, lock, hit.time, hit.stack, None);
        self.kernel.locks.get_mut(&lock).into_iter().for_each(|of| of.flags = flags);
    }

    fn awake(&mut self, thread: ThreadKey, time: u64) {
        let Some(span) = self.asleep.take(&thread.tid) else { return };
        if !self.user.waiting.contains_key(&thread) {
            self.user.did(thread, Deed::Slept(span.with), span.since, time);
        }
        self.becomes_runnable(thread.tid, time);
    }

    fn becomes_runnable(&mut self, tid: i32, time: u64) {
        if self.runnable.len() >= MOST_RUNNABLE {
            self.runnable.clear();
        }
        self.runnable.insert(tid, time);
    }

    /// A thread runs. The time until it runs after its wait for a lock is part of that wait.
    fn runs(&mut self, thread: ThreadKey, time: u64) {
        self.awake(thread, time);
        if let Some(since) = self.runnable.remove(&thread.tid)
            && !self.user.waiting.contains_key(&thread)
        {
            self.user.did(thread, Deed::Runnable, since, time);
        }
    }

    fn scheduled(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        match self.reader.read(hit, cx.names) {
            Some(SchedEvent::Switch(switch)) => {
                self.before.is_told(switch.next);
                self.runs(cx.thread(switch.next), hit.time);
                self.runnable.remove(&switch.prev);
                let is_over = switch.prev <= 0 || switch.prev_state & (state::DEAD | state::ZOMBIE) != 0;
                if switch.prev > 0 && Sleep::of(switch.prev_state).is_some() {
                    self.asleep.begin(switch.prev, (), hit.time, hit.stack);
                } else if !is_over {
                    self.becomes_runnable(switch.prev, hit.time);
                }
            }
            Some(SchedEvent::Wakeup(wakeup)) => {
                if wakeup.context == WakeContext::Task && hit.tid > 0 {
                    cx.comm(hit.tid);
                    let (woken, by) = (cx.thread(wakeup.tid), cx.thread(hit.tid));
                    self.user.release(woken, by, hit.stack, hit.time);
                    self.kernel.release(woken, by, hit.stack, hit.time);
                }
                self.before.is_told(wakeup.tid);
                self.awake(cx.thread(wakeup.tid), hit.time);
            }
            None => {}
        }
    }

    /// A sample of a clock in a thread: it runs, also if no record shows since when.
    fn sampled(&mut self, hit: &UnitSample<'_>, cx: &Context<'_>) {
        self.runnable.remove(&hit.tid);
        self.user.did(cx.thread(hit.tid), Deed::Ran(hit.stack), hit.time.saturating_sub(hit.period), hit.time);
    }

    fn forget_thread(&mut self, thread: ThreadKey, time: u64) {
        self.runnable.remove(&thread.tid);
        self.user.forget_thread(thread, time);
        self.kernel.forget_thread(thread, time);
    }
}

/// Returns the address and the operation of the futex for which a thread sleeps.
fn futex_of(thread: &BlockedThread) -> Option<(u64, i64)> {
    let (_, [address, operation]) = thread.call?;
    let is_futex = crate::units::events::syscalls::name_of_blocked(thread).as_deref() == Some("futex");
    is_futex.then_some((address, operation as i64))
}

/// Returns the thread for whose end a blocked thread sleeps.
pub(crate) fn joined_by(thread: &BlockedThread, cx: &Context<'_>) -> Option<i32> {
    let (address, operation) = futex_of(thread).filter(|(_, operation)| WAITS.contains(&(operation & OPERATION)))?;
    let word = cx.session.peek(thread.pid, address, 4).unwrap_or(0) as i64;
    Locks::joined(word, thread.pid, thread.tid, operation, cx)
}

impl Unit for Locks {
    fn event_requests(&self) -> Vec<EventRequest> {
        let mut wants = sched::wants_wakers(true);
        let clock = EventRequest::new("cpu-clock|task-clock").with_stack(true).optional();
        wants.push(EventRequest { rate: Some(Rate::Frequency(self.hz)), ..clock });
        wants.push(EventRequest::new("syscalls:sys_enter_futex").with_stack(true));
        wants.push(EventRequest::new("syscalls:sys_exit_futex"));
        wants.push(EventRequest::new("lock:contention_begin").with_stack(true).optional());
        wants.push(EventRequest::new("lock:contention_end").optional());
        wants
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        match event.role {
            CLOCK | END => {}
            ENTER => self.futex = Some(FutexFields::of(event.format)?),
            EXIT => self.result = Num::of(event.format, "ret").ok(),
            BEGIN => {
                let flags = Num::of(event.format, "flags").ok();
                self.contention = Some(ContentionFields { address: Num::of(event.format, "lock_addr")?, flags });
            }
            role => {
                self.wakers.bind(event, usize::MAX);
                return self.reader.bind(role, event.format);
            }
        }
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        self.take_up(hit.time, cx);
        self.before.is_told(hit.tid);
        match hit.role {
            CLOCK => self.sampled(hit, cx),
            ENTER => self.entered(hit, cx),
            EXIT => self.returned(hit, cx),
            BEGIN => self.contended(hit, cx),
            END => drop(self.kernel.end(cx.thread(hit.tid), hit.time)),
            _ if self.wakers.is_repeated(hit) => {}
            _ => self.scheduled(hit, cx),
        }
    }

    fn has_findings(&self) -> bool {
        true
    }

    fn thread_changed(&mut self, change: &ThreadChange, time: u64, cx: &mut Context<'_>) {
        self.asleep.follow(change, |tid| tid);
        self.before.follow(change);
        self.programs.follow(change);
        match change {
            ThreadChange::Born { tid, .. } => {
                let earlier = cx.names.earlier(*tid);
                [cx.thread(*tid)].into_iter().chain(earlier).for_each(|thread| self.forget_thread(thread, time));
            }
            ThreadChange::Ended { tid, .. } => self.forget_thread(cx.thread(*tid), time),
            ThreadChange::Exec { pid, from, gone } => {
                gone.iter().chain(from).chain([pid]).for_each(|tid| self.forget_thread(cx.thread(*tid), time));
            }
        }
    }

    fn on_switch_in(&mut self, _cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) {
        self.before.is_told(tid);
        self.runs(cx.thread(tid), time);
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.user.forget();
        self.kernel.forget();
        self.asleep.forget();
        self.runnable.clear();
        self.before.renew();
    }

    fn loss_text(&self) -> &'static str {
        InitiallyBlocked::LOSS_TEXT
    }

    fn pin_data(&mut self, now: u64, pin: &mut dyn FnMut(i32, u64) -> RetainedStack) {
        self.user.pin_longest(panels::MOST_ROWS, now, pin);
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.all_panels(at)
    }

    fn reset(&mut self, now: u64) {
        self.user.reset(now);
        self.kernel.reset(now);
    }
}

#[cfg(test)]
mod tests;
