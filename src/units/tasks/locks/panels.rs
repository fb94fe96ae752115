//! The panels of locks: rows, waiters, holders, flame graph.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::row_order::arrange;
use crate::panel::stacks::FrameName;
use crate::panel::{Rows, unit};
use crate::session::DsoKind;
use crate::units::kit::prelude::*;
use crate::units::kit::tables::stack_labels;

use super::Locks;
use super::addresses::LockKey;
use super::lock_names::LockName;
use super::lock_rows::{LockRow, LockSites, LockTotals, whole_lock};
use super::lock_table::{Deed, Lock, LockTable, OTHERS, ThreadStack};

/// The futexes and kernel locks that make a lock.
type LockWords = Vec<(bool, LockKey)>;

/// The locks that rows do not show: their number, and the time of the queues among them.
#[derive(Clone, Copy, Debug, Default)]
struct OmittedLocks {
    n: usize,
    queues: u64,
}

/// Returns the waits of a lock, including those that have not ended, the longest first.
fn wait_sites(table: &LockTable, of: &Lock, now: u64) -> LockSites {
    let mut sites = of.sites.clone();
    for (thread, wait, ns) in table.open(of, now) {
        let site = sites.entry((thread, wait.stack)).or_default();
        *site = (site.0 + ns, site.1 + 1);
    }
    by_weight(sites, |site| site.0)
}

/// An activity of a holder, its time, and the lock if it waited for one.
pub(super) type DeedRow = (Arc<str>, u64, Option<LockKey>);

/// Locks that the table shows, those with the longest waits.
pub(super) const MOST_ROWS: usize = 200;
/// Holders and their deeds that a chain shows at each step.
pub(super) const NAMED: usize = 3;

/// The text of a holder's waits for a CPU.
const RUNNABLE: &str = "runnable, waited for a CPU";

fn row_id(is_kernel: bool, key: LockKey) -> u64 {
    id(&(is_kernel, key))
}

/// Returns a share of a time in words.
pub(super) fn percent(part: u64, whole: u64) -> String {
    unit::percent(100.0 * part as f64 / whole.max(1) as f64)
}

/// Sums up times by a part of their key, the longest first.
pub(super) fn sums<K: Ord + Copy>(all: impl Iterator<Item = (K, u64)>) -> Vec<(K, u64)> {
    let mut sums: BTreeMap<K, u64> = BTreeMap::new();
    all.for_each(|(key, ns)| *sums.entry(key).or_default() += ns);
    by_weight(sums, |ns| *ns)
}

impl Locks {
    pub(super) fn table(&self, is_kernel: bool) -> &LockTable {
        if is_kernel { &self.kernel } else { &self.user }
    }

    pub(super) fn all_panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let mut keys: Vec<(u64, (bool, LockKey))> = Vec::new();
        for is_kernel in [false, true] {
            let table = self.table(is_kernel);
            let all = table.locks.iter().map(|(key, of)| (table.waited(of, at.now), (is_kernel, *key)));
            keys.extend(all.filter(|(ns, _)| *ns > 0));
        }
        arrange(&mut keys, |a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let total: u64 = keys.iter().map(|(ns, _)| ns).sum();
        let (keys, omitted) = self.longest(at, keys);
        let rows = keys.into_iter().filter_map(|(is_kernel, key)| self.row(at, is_kernel, key));
        let mut rows = LockRow::by_lock(rows);
        for row in &mut rows {
            (row.holder, row.holder_in) = self.holder(at, row);
        }
        arrange(&mut rows, |a, b| {
            let place = |row: &LockRow| (row.rank(), std::cmp::Reverse(row.ns), row.is_kernel, row.key);
            place(a).cmp(&place(b))
        });
        let queues =
            rows.iter().filter(|row| row.rank() > 0).fold(omitted.queues, |sum, row| sum.saturating_add(row.ns));
        let totals = LockTotals { locks: total.saturating_sub(queues), queues };
        let selected = at.selected(0).and_then(|id| rows.iter().find(|row| row_id(row.is_kernel, row.key) == id));
        let chosen = selected.or(rows.first());
        let chain = self.chain(at, &rows, selected);
        vec![
            Self::lock_panel(at, &rows, totals, omitted.n).noted(self.note(at)),
            chain,
            self.waiters(at, chosen),
            self.holders(at, chosen),
            self.graph(at, &rows),
        ]
    }

    /// Returns the futexes and kernel locks of the locks with the longest waits, and the other locks. `keys` have their
    /// waits, the longest first.
    fn longest(&mut self, at: &Moment<'_>, keys: Vec<(u64, (bool, LockKey))>) -> (Vec<(bool, LockKey)>, OmittedLocks) {
        if keys.len() <= MOST_ROWS {
            return (keys.into_iter().map(|(_, key)| key).collect(), OmittedLocks::default());
        }
        let mut locks: Vec<(u64, bool, LockWords)> = Vec::new();
        let mut places: FxHashMap<(bool, LockKey), usize> = FxHashMap::default();
        for (ns, (is_kernel, key)) in keys {
            // Locks of the kernel have one address.
            let (lock, is_queue) = if is_kernel { ((is_kernel, key), false) } else { self.whole_lock_of(at, key) };
            let place = *places.entry(lock).or_insert(locks.len());
            match locks.get_mut(place) {
                Some((sum, _, words)) => {
                    *sum = sum.saturating_add(ns);
                    words.push((is_kernel, key));
                }
                None => locks.push((ns, is_queue, vec![(is_kernel, key)])),
            }
        }
        arrange(&mut locks, |a, b| b.0.cmp(&a.0));
        let others = locks.split_off(locks.len().min(MOST_ROWS));
        let queues = others.iter().filter(|(_, is_queue, _)| *is_queue).fold(0_u64, |sum, of| sum.saturating_add(of.0));
        let omitted = OmittedLocks { n: others.len(), queues };
        (locks.into_iter().flat_map(|(.., words)| words).collect(), omitted)
    }

    /// Returns the lock of a futex, and whether it is a queue.
    fn whole_lock_of(&mut self, at: &Moment<'_>, key: LockKey) -> ((bool, LockKey), bool) {
        let sites = self.user.locks.get(&key).map(|of| wait_sites(&self.user, of, at.now)).unwrap_or_default();
        let name = self.name_by_sites(at, false, key, &sites);
        (whole_lock(false, key, &name), name.is_queue)
    }

    /// Reports deadlocks and dropped locks.
    fn note(&self, at: &Moment<'_>) -> String {
        let mut notes: Vec<String> = Vec::new();
        for circle in self.user.circles(at.now) {
            let names: Vec<Arc<str>> = circle.iter().map(|thread| at.task(*thread)).collect();
            notes.push(match &names[..] {
                [one] => format!("deadlock: {one} waits for a lock that it holds itself, as the lock says"),
                names => format!("deadlock: {} wait for each other, as their locks say", names.join(" ⇄ ")),
            });
        }
        let dropped = self.user.dropped + self.kernel.dropped;
        notes.extend((dropped > 0).then(|| note(dropped, "lock", "with short waits left out")));
        notes.join("; ")
    }

    fn row(&mut self, at: &Moment<'_>, is_kernel: bool, key: LockKey) -> Option<LockRow> {
        let table = self.table(is_kernel);
        let of = table.locks.get(&key)?;
        let mut waits = of.waits.clone();
        table.open(of, at.now).for_each(|(.., ns)| waits.add(ns));
        if waits.n == 0 {
            return None;
        }
        let (waiting, ready) = (of.waiters.len() as u64, of.ready);
        let may_be_lock = of.is_recorded || of.owner.is_some() || of.confirmed > 0;
        let sites = wait_sites(table, of, at.now);
        let holders = by_weight(of.holders.iter().map(|(key, ns)| (*key, *ns)), |ns| *ns);
        let name = self.name_by_sites(at, is_kernel, key, &sites);
        let ns = waits.sum;
        let keys = vec![key];
        Some(LockRow {
            is_kernel,
            key,
            keys,
            name,
            waits,
            ns,
            ready,
            waiting,
            may_be_lock,
            holder: "".into(),
            holder_in: "".into(),
            sites,
            holders,
        })
    }

    /// Returns the name of a lock from its waits, the longest first.
    fn name_by_sites(
        &mut self,
        at: &Moment<'_>,
        is_kernel: bool,
        key: LockKey,
        sites: &[(ThreadStack, (u64, u64))],
    ) -> LockName {
        let Some(of) = self.table(is_kernel).locks.get(&key) else { return LockName::default() };
        let (flags, is_end, variable) = (of.flags, of.is_end, of.variable);
        // A stack that reaches the taker names the lock: at first the heaviest, then always this one.
        let stacks = self.table(is_kernel).namer(key).into_iter().chain(sites.iter().map(|((_, stack), _)| *stack));
        let stacks: Vec<RetainedStack> = stacks.take(8).collect();
        let mut names: Vec<LockName> = stacks.iter().map(|stack| self.name(at, *stack, is_kernel, flags)).collect();
        let best = names.iter().position(|name| !name.taken_in.is_empty());
        if let Some(best) = best {
            let table = if is_kernel { &mut self.kernel } else { &mut self.user };
            table.keep_namer(key, stacks[best]);
        }
        let name = if names.is_empty() { LockName::default() } else { names.swap_remove(best.unwrap_or(0)) };
        let name = if is_end { LockName::of_end(name) } else { name };
        in_variable(at, name, variable)
    }

    fn name(&mut self, at: &Moment<'_>, stack: RetainedStack, is_kernel: bool, flags: u32) -> LockName {
        if is_kernel {
            return LockName::of_kernel(&at.frames(stack), flags);
        }
        self.names.get(at, stack, || LockName::of_futex(&at.frames(stack)))
    }

    /// Returns the main holder of a lock, and where it was: what it did longest, or else its release.
    fn holder(&mut self, at: &Moment<'_>, row: &LockRow) -> (Arc<str>, Arc<str>) {
        let futexes = || row.keys.iter().filter_map(|key| self.table(row.is_kernel).locks.get(key));
        let (owner, is_end) = (futexes().find_map(|of| of.owner), futexes().any(|of| of.is_end));
        let mut by_thread = sums(row.holders.iter().map(|((thread, _), ns)| (*thread, *ns)));
        let all: u64 = by_thread.iter().map(|(_, ns)| ns).sum();
        by_thread.retain(|(thread, _)| *thread != OTHERS);
        let (name, thread): (String, ThreadKey) = match (by_thread.first(), owner) {
            (Some((thread, _)), None) if is_end => (until_its_end(at, *thread), *thread),
            (_, Some(thread)) if is_end => (until_its_end(at, thread), thread),
            (Some((thread, ns)), _) if *ns > 0 => (format!("{} {}", at.task(*thread), percent(*ns, all)), *thread),
            (_, Some(owner)) => (format!("{} (as the lock says)", at.task(owner)), owner),
            _ => return ("".into(), "".into()),
        };
        let release =
            sums(row.holders.iter().filter(|((by, _), _)| *by == thread).map(|((_, stack), ns)| (*stack, *ns)));
        // The chain shows waits for a CPU, which are not work.
        let work = self.deeds(at, row.is_kernel, &row.keys, thread).into_iter().find(|(text, ..)| &**text != RUNNABLE);
        let place = match (work, release.first()) {
            (Some((deed, ..)), _) => deed,
            (None, Some((stack, _))) => self.worked_in(at, *stack),
            (None, None) => "".into(),
        };
        (name.into(), place)
    }

    /// Returns what a holder did while others waited for a lock, up to now, as texts: the longest first.
    pub(super) fn deeds(
        &mut self,
        at: &Moment<'_>,
        is_kernel: bool,
        keys: &[LockKey],
        thread: ThreadKey,
    ) -> Vec<DeedRow> {
        let mut all: Vec<(Deed, u64)> = Vec::new();
        for of in keys.iter().filter_map(|key| self.table(is_kernel).locks.get(key)) {
            all.extend(of.deeds.iter().filter(|((by, _), _)| *by == thread).map(|((_, deed), ns)| (*deed, *ns)));
            all.extend(self.present_deed(at, of, thread).filter(|_| !is_kernel));
        }
        let mut by_text: BTreeMap<Arc<str>, (u64, Option<LockKey>)> = BTreeMap::new();
        for (deed, ns) in all {
            let (text, next) = self.deed_text(at, deed);
            let sum = by_text.entry(text).or_default();
            *sum = (sum.0 + ns, next);
        }
        let mut list: Vec<DeedRow> = by_text.into_iter().map(|(text, (ns, next))| (text, ns, next)).collect();
        arrange(&mut list, |a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        list
    }

    /// Returns what the owner of a lock does now: waits for another lock, sleeps, or waits for a CPU.
    fn present_deed(&self, at: &Moment<'_>, of: &Lock, thread: ThreadKey) -> Option<(Deed, u64)> {
        let tid = at.names.current(thread)?;
        let longest = self.user.open(of, at.now).map(|(_, _, ns)| ns).max().filter(|_| of.owner == Some(thread))?;
        let wait = self.user.waiting.get(&thread).map(|wait| (Deed::WaitedFor(wait.lock), wait.since));
        let sleep = || self.asleep.get(&tid).map(|span| (Deed::Slept(span.with), span.since));
        let runnable = || self.runnable.get(&tid).map(|since| (Deed::Runnable, *since));
        let (deed, since) = wait.or_else(sleep).or_else(runnable)?;
        Some((deed, at.now.saturating_sub(since).min(longest)))
    }

    /// Returns the functions of user code in which a thread ran or released a lock; those of the kernel without any.
    fn worked_in(&mut self, at: &Moment<'_>, stack: RetainedStack) -> Arc<str> {
        let has_addresses = self.has_addresses;
        self.worked.get(at, stack, || {
            let frames = if has_addresses { at.addressed_frames(stack) } else { at.frames(stack) };
            let user = frames.iter().rposition(|frame| !frame.kind.is_kernel()).map_or(frames.len(), |last| last + 1);
            stack_labels::line(&frames[..user]).into()
        })
    }

    fn deed_text(&mut self, at: &Moment<'_>, deed: Deed) -> (Arc<str>, Option<LockKey>) {
        match deed {
            Deed::Ran(stack) => (format!("ran in {}", self.worked_in(at, stack)).into(), None),
            Deed::Slept(stack) => (format!("blocked in {}", self.slept_in.line(at, stack)).into(), None),
            Deed::Runnable => (RUNNABLE.into(), None),
            Deed::WaitedFor(lock) => (format!("waited for {}", self.lock_text(at, lock)).into(), Some(lock)),
        }
    }

    fn lock_text(&mut self, at: &Moment<'_>, key: LockKey) -> String {
        let row = self.row_name(at, key);
        row.map_or_else(|| format!("{:#x}", key.address), |name| format!("{} {}", name.kind, name.text(key)))
    }

    fn row_name(&mut self, at: &Moment<'_>, key: LockKey) -> Option<LockName> {
        let of = self.user.locks.get(&key)?;
        let ended = of.sites.iter().map(|((_, stack), (ns, _))| (*stack, *ns));
        let all = ended.chain(self.user.open(of, at.now).map(|(_, wait, ns)| (wait.stack, ns)));
        let mut stacks = sums(all);
        // Without a stack, only the address is known.
        let namer = self.user.namer(key);
        stacks.sort_by_key(|(stack, _)| (Some(*stack) != namer, *stack == RetainedStack::NONE));
        let ((stack, _), variable) = (*stacks.first()?, of.variable);
        Some(in_variable(at, self.name(at, stack, false, 0), variable))
    }

    fn lock_panel(at: &Moment<'_>, rows: &[LockRow], totals: LockTotals, more: usize) -> Panel {
        let space = |row: &LockRow| if row.is_kernel { "kernel".into() } else { at.program(row.key.space) };
        let table = Sheet::of(rows, |row| row_id(row.is_kernel, row.key))
            .right("waited_ns", "Waited", 9, |row| time(row.ns))
            .ordered()
            .share_of(move |row| (row.ns, totals.of(row)))
            .right("waits", "Waits", 7, |row| Cell::Count(row.waits.n))
            .ranked(3)
            .right("p99_ns", "p99", 8, |row| time(row.waits.quantile(0.99)))
            .ranked(5)
            .right("max_ns", "Max", 8, |row| time(row.waits.max))
            .ranked(4)
            .right("waiting", "Waiting", 7, |row| Cell::Count(row.waiting))
            .ranked(2)
            .left("lock", "Lock", 24, |row| text(row.name.text(row.key)))
            .left("holder", "Holder", 24, |row| text(row.holder.clone()))
            .ranked(1)
            .left("kind", "Kind", 18, |row| text(row.name.kind.clone()))
            .ranked(6)
            .left("program", "Program", 16, move |row| text(space(row)))
            .ranked(7)
            .right("ready_ns", "Until running", 13, |row| time(row.ready))
            .ranked(8)
            .left("holder_in", "Holder's work", 0, |row| text(row.holder_in.clone()))
            .rows();
        Panel::new("Locks", Body::Table(Rows { more, ..table }))
    }

    fn waiters(&mut self, at: &Moment<'_>, row: Option<&LockRow>) -> Panel {
        let mut by_line: BTreeMap<(ThreadKey, Arc<str>), (u64, u64)> = BTreeMap::new();
        let sites = row.iter().flat_map(|row| &row.sites).copied();
        let (others, sites): (Vec<_>, Vec<_>) = sites.partition(|((thread, _), _)| *thread == OTHERS);
        for ((thread, stack), (ns, n)) in sites {
            let sum = by_line.entry((thread, self.slept_in.line(at, stack))).or_default();
            *sum = (sum.0 + ns, sum.1 + n);
        }
        let list = by_weight(by_line.iter(), |(ns, _)| *ns);
        Sheet::of(&list, |(key, _)| id(key))
            .right("waited_ns", "Waited", 9, |(_, (ns, _))| time(*ns))
            .right("waits", "Waits", 8, |(_, (_, n))| Cell::Count(*n))
            .task(at, |((thread, _), _)| *thread)
            .left("stack", "Waits in", 0, |((_, line), _)| text(line.clone()))
            .panel(titled("Waiters", row))
            .noted(of_others(others.iter().map(|(_, (ns, _))| ns).sum()).unwrap_or_default())
    }

    fn holders(&mut self, at: &Moment<'_>, row: Option<&LockRow>) -> Panel {
        let mut by_line: BTreeMap<(ThreadKey, Arc<str>), u64> = BTreeMap::new();
        let holders = row.iter().flat_map(|row| &row.holders).copied().filter(|(_, ns)| *ns > 0);
        let (others, holders): (Vec<_>, Vec<_>) = holders.partition(|((thread, _), _)| *thread == OTHERS);
        let others: u64 = others.iter().map(|(_, ns)| ns).sum();
        for ((thread, stack), ns) in holders {
            *by_line.entry((thread, self.worked_in(at, stack))).or_default() += ns;
        }
        let total: u64 = by_line.values().sum::<u64>() + others;
        let list = by_weight(by_line.iter(), |ns| **ns);
        let of = row.and_then(|row| self.table(row.is_kernel).locks.get(&row.key));
        let owner = of.and_then(|of| of.owner).map(|thread| format!("now {}, as the lock says", at.task(thread)));
        let checked = of.filter(|of| of.confirmed + of.contradicted > 0).map(|of| {
            format!("the owner in the lock was right in {}", percent(of.confirmed, of.confirmed + of.contradicted))
        });
        let notes: Vec<String> = owner.into_iter().chain(checked).chain(of_others(others)).collect();
        Sheet::of(&list, |(key, _)| id(key))
            .right("held_ns", "Held", 9, |(_, ns)| time(**ns))
            .share(|(_, ns)| **ns, total)
            .task(at, |((thread, _), _)| *thread)
            .left("stack", "Released in", 0, |((_, line), _)| text(line.clone()))
            .panel(titled("Holders", row))
            .noted(notes.join("; "))
    }

    fn graph(&self, at: &Moment<'_>, rows: &[LockRow]) -> Panel {
        let mut stacks = Vec::new();
        for row in rows.iter().filter(|row| row.rank() == 0) {
            let name: Arc<str> = format!("{} {}", row.name.kind, row.name.text(row.key)).into();
            for ((thread, stack), (ns, n)) in row.sites.iter().filter(|((thread, _), _)| *thread != OTHERS) {
                let mut one = at.stack(at.program(*thread), *stack, *ns, *n);
                one.frames.push(FrameName { text: name.clone(), kind: DsoKind::Unknown, dso: "".into() });
                stacks.push(one);
            }
        }
        Panel::flame("Waits for locks, a flame graph", Measure::Time, stacks)
    }
}

/// Describes the time of the threads that are not listed.
fn of_others(ns: u64) -> Option<String> {
    (ns > 0).then(|| format!("{} of more threads than are listed", unit::duration(ns)))
}

/// Adds the variable at a lock's address, if its name is known.
fn in_variable(at: &Moment<'_>, name: LockName, variable: Option<RetainedStack>) -> LockName {
    match variable.and_then(|pin| at.variable(pin)) {
        Some(variable) => name.in_variable(&variable),
        None => name,
    }
}

/// Describes the thread for whose end others wait.
pub(super) fn until_its_end(at: &Moment<'_>, thread: ThreadKey) -> String {
    format!("thread {} until it ends", at.task(thread))
}

pub(super) fn titled(title: &str, row: Option<&LockRow>) -> String {
    row.map_or_else(|| title.to_owned(), |row| format!("{title} of {}", row.name.text(row.key)))
}
