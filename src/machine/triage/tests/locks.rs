//! Tests of findings about locks and deadlocks.

use super::*;
use crate::machine::deadlocks::Deadlock;
use crate::machine::lock_waits::{LockLooks, LockedProcess};

#[test]
fn a_deadlock_is_the_worst() {
    let threads = vec![(43, "poster".into()), (44, "auditor".into())];
    let deadlock = Deadlock { pid: 42, comm: "bank".into(), threads };
    let found = only(Cause::Deadlock, |one| one.deadlocks = vec![deadlock.clone()]);
    assert_eq!((found.severity, &*found.figure), (Severity::Bad, "deadlock: poster-43 ⇄ auditor-44"));
    assert_eq!((&*found.culprit, found.look), ("bank 42", Look::Unit("locks -p 42".to_owned())));
    // It has ended before the last interval.
    let ended = Resources { deadlocks: vec![deadlock], ..calm_second() };
    assert_eq!(found_in(&seconds([ended, calm_second()]), &[], false), []);
}

#[test]
fn threads_that_wait_for_a_mutex_are_likely_a_contended_lock() {
    let of = |name: &str, threads, waiting, holders: &[(&str, i32, u64)]| LockedProcess {
        pid: 5,
        name: name.into(),
        threads,
        waiting,
        holders: holders.iter().map(|(name, tid, waits)| (((*name).into(), *tid), *waits)).collect(),
        is_python: false,
    };
    let looks = |one: LockedProcess| LockLooks { looks: 9, processes: [(5, one)].into() };
    // A mutex that a thread holds for 60 ms of each 200.
    let workers = || of("offcpu", 7, 11, &[("log-flush", 9, 11)]);
    let found = only(Cause::Locks, |one| one.locks = looks(workers()));
    assert_eq!(
        found.text(),
        "locks: 1.2 of 7 threads wait for a mutex; offcpu 5, held by log-flush 9 (100 %); likely a contended lock: \
         average of 90 looks"
    );
    assert_eq!((found.confidence, found.look.key()), (Confidence::Likely, "M locks".to_owned()));
    let holders = [("lk-hog", 6, 9), ("lk-small", 7, 2), ("lk-small", 8, 2), ("once", 9, 1)];
    let found = only(Cause::Locks, |one| one.locks = looks(of("lockers", 5, 14, &holders)));
    assert_eq!(found.culprit, "lockers 5, held by lk-hog 6 (64 %), lk-small ×2 (29 %)");
    let found = only(Cause::Locks, |one| {
        one.locks = looks(LockedProcess { is_python: true, ..of("app.py", 7, 44, &[]) });
    });
    assert_eq!((&*found.figure, &*found.culprit), ("4.9 of 7 threads wait for a lock", "app.py 5"));
    assert_eq!(found.evidence, "likely a contended lock of Python: average of 90 looks");
    assert_eq!(reported(|one| one.locks = looks(of("nginx", 4, 2, &[]))), [], "a short wait now and then");
    // Of a selection, only its processes count.
    let history = seconds(vec![Resources { locks: looks(workers()), ..calm_second() }; 10]);
    let causes = |pid| {
        let sampled = [ProcessSamples { pid, ..ProcessSamples::default() }];
        found_in(&history, &sampled, true).iter().map(|one| one.cause).collect::<Vec<_>>()
    };
    assert_eq!((causes(5), causes(7).contains(&Cause::Locks)), (vec![Cause::Locks], false));
}

/// One look of the first second is not an average.
#[test]
fn a_single_look_is_no_contended_lock() {
    let one = LockedProcess { pid: 5, name: "starts".into(), threads: 9, waiting: 4, ..LockedProcess::default() };
    let second = Resources { locks: LockLooks { looks: 2, processes: [(5, one)].into() }, ..calm_second() };
    assert_eq!(found_in(&seconds([second]), &[], false), []);
}
