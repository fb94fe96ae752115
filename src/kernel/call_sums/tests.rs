//! Tests of the programs in this machine's kernel: their sums against what a thread counted itself.

use super::*;
use crate::kernel::bpf::calls::or_skipped;

/// Returns programs that measure this thread; `None` where loading is not permitted.
fn counter(slow_ns: u64) -> Option<CallCounter> {
    let counter = loaded(SumPolicy { slow_ns, ..SumPolicy::default() })?;
    counter.add_thread(tid(), std::process::id() as i32).expect("room");
    Some(counter)
}

/// Returns programs that measure no thread yet.
fn loaded(policy: SumPolicy) -> Option<CallCounter> {
    let settings = CallSettings { narrow: true, inherit: true, tracepoint: 7, policy: Arc::new(policy) };
    or_skipped(CallCounter::load(settings, 0))
}

fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

fn getppid(times: usize) {
    for _ in 0..times {
        let _ = rustix::process::getppid();
    }
}

fn of(sums: &CallSums, tid: i32, number: i64) -> CallSum {
    sums.sums.iter().find(|sum| (sum.tid, sum.number) == (tid, number)).cloned().unwrap_or_default()
}

/// Without rings for records, all calls are summed.
#[test]
fn sums_are_what_threads_counted_themselves() {
    let Some(counter) = counter(1_000_000) else { return };
    getppid(10);
    counter.begin(false);
    getppid(12_345);
    for _ in 0..3 {
        assert!(std::fs::symlink_metadata("/nonexistent/file").is_err());
    }
    let child = std::thread::spawn(|| {
        getppid(777);
        tid()
    });
    let child = child.join().expect("joined");
    let first = counter.read().expect("read");
    getppid(55);
    counter.stop().expect("stopped");
    getppid(10);
    let second = counter.read().expect("read");
    let (getppid, statx) = (libc::SYS_getppid, libc::SYS_statx);
    let own = of(&first, tid(), getppid);
    assert_eq!((own.n, own.untimed, own.pid, own.is_32_bit), (12_345, 0, std::process::id() as i32, false));
    assert_eq!(own.buckets.iter().map(|(_, n)| n).sum::<u64>(), own.n);
    assert!(own.min > 0 && own.min <= own.ns / own.n && own.ns / own.n <= own.max && own.max < own.ns, "{own:?}");
    assert!(of(&first, tid(), statx).errors.contains(&(libc::ENOENT as u32, 3)), "{first:?}");
    assert!(of(&first, tid(), statx).listed >= 3 && own.listed < 100, "failed calls have lines: {first:?}");
    assert_eq!(of(&first, child, getppid).n, 777, "a new thread is measured, too");
    assert_eq!(of(&second, tid(), getppid).n, 55);
    assert_eq!((first.lost, second.lost), (0, 0));
    assert!(counter.read().expect("read").sums.is_empty());
}

#[test]
fn a_call_under_way_has_its_start() {
    let Some(counter) = counter(1_000_000) else { return };
    counter.begin(false);
    let before = crate::kernel::monotonic_ns();
    let sums = counter.read().expect("read");
    // The reading itself is a call of this thread.
    let own = sums.open.iter().find(|open| open.tid == tid()).expect("under way");
    assert_eq!(own.number, libc::SYS_bpf);
    assert!(own.start >= before && own.start <= crate::kernel::monotonic_ns(), "{own:?} since {before}");
}

/// Records tell whether calls that change descriptors were only summed.
#[test]
fn summed_changes_of_descriptors_are_marked() {
    let close = (libc::SYS_close, false);
    let policy = SumPolicy { slow_ns: u64::MAX, on_descriptor: [close].into(), changing: [close].into() };
    let Some(counter) = loaded(policy) else { return };
    counter.add_thread(tid(), std::process::id() as i32).expect("room");
    counter.begin(false);
    getppid(100);
    assert_eq!(counter.get(Setting::Changed), 0);
    drop(std::fs::File::open("/proc/self/stat").expect("opened"));
    assert_eq!(counter.get(Setting::Changed), counter.get(Setting::Window) + 1);
    counter.stop().expect("stopped");
    counter.read().expect("read");
    assert_eq!(counter.get(Setting::Changed), counter.get(Setting::Window), "the window before");
}

#[test]
fn calls_have_their_kinds_by_abi() {
    let (on_descriptor, changing) =
        ([(3, false), (6, true)].into(), [(3, false), (5, true), (-1, false), (5000, true)]);
    let policy = SumPolicy { slow_ns: 0, on_descriptor, changing: changing.into() };
    let kinds: Vec<(u32, u32)> = policy.kinds().collect();
    assert_eq!(kinds, [(3, 3), (KINDS + 5, CHANGES), (KINDS + 6, ON_DESCRIPTOR)]);
    assert_eq!([1, 4, 16, 1024].map(descriptor_budget), [1000, 1000, 250, 200]);
}

/// A call that has no place, because a thread made too many different ones, is counted as lost.
#[test]
fn calls_without_a_place_are_counted() {
    const FIRST: i64 = 100_000;
    const CALLS: i64 = 10_000;
    let Some(counter) = counter(u64::MAX) else { return };
    counter.begin(false);
    for number in FIRST..FIRST + CALLS {
        // SAFETY: no kernel has a call of this number, so that it fails without any effect.
        assert_eq!(unsafe { libc::syscall(number) }, -1);
    }
    counter.stop().expect("stopped");
    let sums = counter.read().expect("read");
    let own = sums.sums.iter().filter(|sum| sum.number >= FIRST);
    let summed: u64 = own.map(|sum| sum.n + sum.untimed).sum();
    assert!(summed > 0 && sums.lost > 0 && summed + sums.lost >= CALLS as u64, "{summed} and {}", sums.lost);
    // Only the calls of this thread between begin and stop.
    assert!(sums.lost <= CALLS as u64, "{}", sums.lost);
}

/// A thread may end while it is added; the next thread with its number is another one.
#[test]
fn a_number_used_again_is_not_measured() {
    let Some(counter) = loaded(SumPolicy::default()) else { return };
    let last = std::fs::read_to_string("/proc/sys/kernel/ns_last_pid").expect("read");
    let last: i32 = last.trim().parse().expect("a number");
    for tid in last + 1..last + 100 {
        counter.add_thread(tid, tid).expect("room");
    }
    counter.begin(false);
    let child = std::thread::spawn(|| {
        getppid(777);
        tid()
    });
    let child = child.join().expect("joined");
    let sums = counter.read().expect("read");
    assert_eq!(of(&sums, child, libc::SYS_getppid).n, 0, "{child} after {last}");
}

#[test]
fn numbers_of_calls_have_their_abi() {
    assert_eq!(read::call(39), (39, false));
    assert_eq!(read::call(1 << 31 | 20), (20, true));
    assert_eq!(read::call(u32::MAX >> 1), (-1, false));
}
