//! Calls that were summed in the kernel, and their place in the unit's figures.

use crate::panel::unit;
use crate::source::{CallSum, OpenCall, SumPolicy, decoded_call};
use crate::units::kit::prelude::*;
use crate::units::kit::{SummedCalls, SummedCount};

use super::names::{Abi, Call, CallTables};
use super::shapes::call_kinds;
use super::targets::UnseenChanges;
use super::{Arguments, Failed, Syscalls};

/// Calls that take longer are recorded singly, in nanoseconds, unless there is a threshold.
const SLOW_NS: u64 = 1_000_000;
/// The end of `raw_syscalls:sys_exit`, and the size of a single call's record (`struct record` in call_sums.bpf.c).
const TRACED: usize = 24;
const RECORD: usize = 92;

impl Call {
    fn of(number: i64, is_32_bit: bool) -> Self {
        Self { number, abi: if is_32_bit { Abi::Compat } else { Abi::Native } }
    }
}

/// A call that was recorded as a whole, when it returned.
#[derive(Clone, Copy, Debug)]
pub(super) struct SingleCall {
    pub(super) call: Call,
    /// `None` if its start was not seen.
    pub(super) ns: Option<u64>,
    pub(super) arguments: Arguments,
    /// Changes of descriptors by calls without a record.
    pub(super) unseen: UnseenChanges,
}

impl SingleCall {
    /// Reads what follows the fields of the tracepoint; `None` for the tracepoint's own records.
    pub(super) fn read(raw: &[u8]) -> Option<Self> {
        let (words, halves) = raw.get(TRACED..RECORD)?.split_at_checked(7 * 8)?;
        let words = words.as_chunks::<8>().0.first_chunk::<7>()?.map(u64::from_ne_bytes);
        let [call, changed, window] = halves.as_chunks::<4>().0.first_chunk::<3>()?.map(u32::from_ne_bytes);
        let (number, is_32_bit) = decoded_call(call);
        let [ns, arguments @ ..] = words;
        Some(Self {
            call: Call::of(number, is_32_bit),
            ns: (ns != u64::MAX).then_some(ns),
            arguments,
            unseen: UnseenChanges { last: changed, go_on: changed == window },
        })
    }

    /// Returns the arguments, if the registers still had them when the call returned.
    pub(super) fn kept_arguments(&self, tables: CallTables, result: i64) -> Option<Arguments> {
        tables.keeps_arguments(self.call, result).then_some(self.arguments)
    }
}

/// Returns how calls may be summed; `None` if each call must be recorded.
pub(super) fn policy(settings: &Settings) -> Option<SumPolicy> {
    if ["event", "lower", "only-than", "paths", "stack"].iter().any(|name| settings.has(name)) {
        return None;
    }
    match settings.time("than") {
        Ok(than) => Some(call_kinds(than.unwrap_or(SLOW_NS))),
        // A condition on other fields.
        Err(_) => None,
    }
}

/// The state that the sums give.
#[derive(Clone, Debug, Default)]
pub(super) struct Summed {
    /// The calls under way at the last reading, by thread, with their starts.
    pub(super) open: Vec<(i32, Call, u64)>,
    pub(super) count: SummedCount,
    /// Summed calls above the limit of time.
    slow: u64,
}

impl Summed {
    fn add(&mut self, calls: &SummedCalls<'_>, n: u64) {
        self.count.add((calls.from, calls.until), n);
        self.slow += calls.sums.iter().map(|sum| sum.slow).sum::<u64>();
        let open = |open: &&OpenCall| (open.tid, Call::of(open.number, open.is_32_bit), open.start);
        self.open = calls.open.iter().map(open).collect();
    }

    pub(super) fn leave(&mut self, tid: i32) {
        self.open.retain(|(open, ..)| *open != tid);
    }

    pub(super) fn reset(&mut self) {
        self.slow = 0;
        self.count.reset();
    }

    /// Describes which calls a list of the slowest may lack; empty if no call was summed.
    pub(super) fn slow_note(&self, limit: u64) -> String {
        if self.count.is_empty() {
            return String::new();
        }
        let below = format!("complete above {}: summed calls are not listed", unit::duration(limit));
        if self.slow == 0 { below } else { note(self.slow, "slow call", "summed in the kernel and not listed") }
    }

    /// Describes which calls are only in sums; empty if none is. `limit` is the time above which calls are single.
    pub(super) fn note(&self, limit: u64, at: &Moment<'_>) -> String {
        let rate = self.count.note("call", at);
        if rate.is_empty() {
            return rate;
        }
        format!("{rate}; single calls: those above {}, the first ones and some others", unit::duration(limit))
    }
}

impl Syscalls {
    /// Returns the time above which calls are recorded singly, in nanoseconds.
    pub(super) fn limit_ns(&self) -> u64 {
        self.sums.as_ref().map_or(SLOW_NS, |policy| policy.slow_ns)
    }

    /// Adds the calls of a reading to the rows of their threads.
    pub(super) fn add_summed(&mut self, calls: &SummedCalls<'_>, cx: &mut Context<'_>) {
        self.initial.ask(cx);
        for sum in &calls.sums {
            self.add_sum(sum, cx.thread(sum.tid), calls.until);
            cx.comm(sum.tid);
        }
        let tids = calls.sums.iter().map(|sum| sum.tid).chain(calls.open.iter().map(|open| open.tid));
        for tid in tids {
            self.initial.is_told(tid);
            self.newborn.remove(&tid);
            // It began before the programs were attached.
            self.open.take(&tid);
        }
        self.summed.add(calls, calls.sums.iter().map(|sum| sum.n + sum.untimed).sum());
    }

    fn add_sum(&mut self, sum: &CallSum, thread: ThreadKey, until: u64) {
        let call = Call::of(sum.number, sum.is_32_bit);
        let key = (if self.per_thread { thread } else { ThreadKey::default() }, call);
        let row = self.rows.entry(key).or_default();
        row.untimed += sum.untimed;
        for (number, times) in &sum.errors {
            let failed = row.errors.entry(*number).or_default();
            // The arguments of the last single one stay.
            let made = std::mem::take(&mut failed.made);
            let last = if failed.times == 0 { (thread, sum.pid) } else { (failed.thread, failed.pid) };
            *failed = Failed { times: failed.times + times, thread: last.0, pid: last.1, made };
        }
        self.targets.lack(call, sum.n + sum.untimed, self.tables);
        let has_threshold = self.slowest.has_threshold();
        self.lines.lack(if has_threshold { sum.listed } else { sum.errors.iter().map(|(_, times)| times).sum() });
        let slow = if has_threshold { sum.slow } else { 0 };
        let stats = Stats::of_sum(sum.n, sum.ns, (sum.min, sum.max), slow, sum.buckets.clone());
        row.stats.merge(&stats);
        self.threads.entry(thread).or_default().merge(&stats);
        if sum.n > 0 {
            self.course.add(&call, until, sum.n as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashSet;

    use super::*;
    use crate::session::{Origin, Session};
    use crate::source::live::Target;
    use crate::units::events::syscalls::SPEC;
    use crate::units::kit::{FilteredUnit, ThreadNames};

    /// Returns the notes on calls without a line, and on the slowest, after some sums.
    fn notes(than: Option<&str>, sums: &[CallSum]) -> (String, String, Syscalls) {
        let mut settings = Settings::default();
        than.into_iter().for_each(|than| settings.set("than", than));
        let mut unit = Syscalls { tables: CallTables::X86_64, ..Syscalls::new(&settings).expect("made") };
        let session = Session::new(Origin::Recorded);
        let (mut names, own) = (ThreadNames::default(), FxHashSet::default());
        let calls = SummedCalls { from: 0, until: 200, sums: sums.iter().collect(), open: Vec::new() };
        unit.add_summed(&calls, &mut Context::new(&session, &mut names, &own));
        (unit.lines.lacking(), unit.summed.slow_note(unit.limit_ns()), unit)
    }

    #[test]
    fn notes_count_the_calls_that_lists_lack() {
        let read = CallSum { tid: 1, n: 10, ns: 100, min: 1, max: 50, errors: vec![(9, 4)], ..CallSum::default() };
        let slow = CallSum { slow: 3, listed: 5, ..read.clone() };
        let (lines, slowest, unit) = notes(None, &[read.clone(), read]);
        assert_eq!(
            (&*lines, &*slowest),
            (
                "8 failed or slow calls without a line, summed in the kernel",
                "complete above 1.00 ms: summed calls are not listed"
            )
        );
        assert_eq!(unit.rows.values().map(|row| (row.stats.n, row.errors[&9].times)).collect::<Vec<_>>(), [(20, 8)]);
        let (lines, slowest, mut unit) = notes(Some("10us"), &[slow]);
        assert!(lines.starts_with("5 failed") && slowest.starts_with("3 slow calls"), "{lines}, {slowest}");
        assert_eq!(unit.rows.values().map(|row| row.stats.than).collect::<Vec<_>>(), [3]);
        unit.reset(0);
        assert_eq!((unit.lines.lacking(), unit.summed.slow_note(1)), (String::new(), String::new()));
        assert_eq!(notes(None, &[]).1, "");
    }

    #[test]
    fn a_single_call_follows_the_fields_of_the_tracepoint() {
        let mut raw = vec![0u8; TRACED];
        assert!(SingleCall::read(&raw).is_none());
        raw.extend([5u64, 1, 2, 3, 4, 5, 6].iter().flat_map(|word| word.to_ne_bytes()));
        assert!(SingleCall::read(&raw).is_none(), "cut");
        raw.extend([1u32 << 31 | 20, 4, 5].iter().flat_map(|half| half.to_ne_bytes()));
        let single = SingleCall::read(&raw).expect("whole");
        assert_eq!((single.call, single.ns), (Call::of(20, true), Some(5)));
        assert_eq!(single.arguments, [1, 2, 3, 4, 5, 6]);
        assert_eq!(single.unseen, UnseenChanges { last: 4, go_on: false });
        raw[RECORD - 4] = 4;
        assert!(SingleCall::read(&raw).is_some_and(|single| single.unseen.go_on));
        raw[TRACED..TRACED + 8].fill(0xff);
        assert_eq!(SingleCall::read(&raw).map(|single| single.ns), Some(None));
    }

    #[test]
    fn sums_of_ended_threads_count_for_their_process() {
        let mut settings = Settings::default();
        settings.target = Target::Processes(vec![5]);
        let mut unit = FilteredUnit::new(&SPEC, settings).expect("made");
        let session = Session::new(Origin::Recorded);
        let (mut names, own) = (ThreadNames::default(), FxHashSet::default());
        let mut cx = Context::new(&session, &mut names, &own);
        assert!(unit.has_thread(5, 6, &mut cx) && !unit.has_thread(7, 8, &mut cx) && !unit.has_thread(0, 9, &mut cx));
    }

    #[test]
    fn conditions_on_single_calls_forbid_sums() {
        let limit = |name: &'static str, value: &str| {
            let mut settings = Settings::default();
            settings.set(name, value);
            policy(&settings).map(|policy| policy.slow_ns)
        };
        assert_eq!(limit("per-thread", ""), Some(SLOW_NS));
        assert_eq!(limit("than", "10us"), Some(10_000));
        for (name, value) in
            [("than", "ret < 0"), ("event", "raw_syscalls:sys_exit/ret<0/"), ("lower", "5us"), ("paths", "")]
        {
            assert_eq!(limit(name, value), None, "{name}");
        }
    }
}
