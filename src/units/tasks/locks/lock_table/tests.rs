//! Tests of waits and holders, with given times.

use super::*;
use crate::units::tasks::locks::addresses::MOST_VARIABLES;

const MS: u64 = 1_000_000;
const SPACE: ThreadKey = ThreadKey::of_row(1);
const LOCK: LockKey = LockKey { space: SPACE, address: 0x1000 };
const OTHER: LockKey = LockKey { space: SPACE, address: 0x2000 };

fn key(tid: i32) -> ThreadKey {
    ThreadKey::of_row(tid as u64)
}

fn stack(n: u32) -> RetainedStack {
    RetainedStack(n)
}

#[test]
fn each_part_of_a_wait_belongs_to_the_thread_that_ends_it() {
    let mut table = LockTable::default();
    table.wait(key(2), LOCK, 0, stack(1), Some(key(10)));
    table.wait(key(3), LOCK, 10 * MS, stack(1), Some(key(10)));
    // Thread 10 releases the lock to 2, which holds it for a moment.
    table.release(key(2), key(10), stack(5), 30 * MS);
    table.end(key(2), 31 * MS);
    table.release(key(3), key(2), stack(6), 32 * MS);
    table.end(key(3), 33 * MS);
    let of = &table.locks[&LOCK];
    assert_eq!(of.holders[&(key(10), stack(5))], 30 * MS + 20 * MS);
    assert_eq!(of.holders[&(key(2), stack(6))], 2 * MS);
    assert_eq!((of.waits.sum, of.waits.n, of.ready), (31 * MS + 23 * MS, 2, 2 * MS));
    assert_eq!((of.confirmed, of.contradicted), (1, 0));
    assert!(of.waiters.is_empty() && table.waiting.is_empty());
}

#[test]
fn a_moment_in_which_several_threads_wait_counts_once() {
    let mut table = LockTable::default();
    table.wait(key(2), LOCK, 0, stack(1), None);
    table.wait(key(3), LOCK, 10 * MS, stack(1), None);
    table.wait(key(4), LOCK, 10 * MS, stack(1), None);
    table.release(key(2), key(10), stack(5), 30 * MS);
    table.end(key(2), 31 * MS);
    let times = table.locks[&LOCK].wall_times(35 * MS);
    assert_eq!((times.contended, times.unreleased), (35 * MS, 5 * MS));
    assert_eq!(times.held[&key(10)], 30 * MS);
    table.release(key(3), key(2), stack(6), 40 * MS);
    table.release(key(4), key(2), stack(6), 40 * MS);
    table.end(key(3), 42 * MS);
    table.end(key(4), 42 * MS);
    let times = table.locks[&LOCK].wall_times(50 * MS);
    assert_eq!((times.contended, times.unreleased, times.held[&key(2)]), (42 * MS, 0, 10 * MS));
    // The time of a wait whose end was lost belongs to no holder.
    table.wait(key(2), LOCK, 60 * MS, stack(1), Some(key(10)));
    assert_eq!(table.locks[&LOCK].wall_times(65 * MS).held[&key(10)], 35 * MS, "the owner that the lock names");
    table.forget();
    table.wait(key(2), LOCK, 70 * MS, stack(1), None);
    table.release(key(2), key(3), stack(5), 71 * MS);
    table.end(key(2), 71 * MS);
    let times = table.locks[&LOCK].wall_times(80 * MS);
    assert_eq!([times.held[&key(10)], times.held[&key(3)]], [30 * MS, MS]);
    assert!(times.contended >= times.held.values().sum::<u64>());
}

/// CPython's lock: each wait ends by a timer after 5 ms, and is repeated.
#[test]
fn waits_that_a_timer_ends_belong_to_the_next_releaser() {
    let mut table = LockTable::default();
    for round in 0..3 {
        table.wait(key(2), LOCK, round * 5 * MS, stack(1), None);
        table.end(key(2), (round + 1) * 5 * MS);
    }
    table.wait(key(2), LOCK, 15 * MS, stack(1), None);
    table.release(key(2), key(9), stack(7), 17 * MS);
    table.end(key(2), 17 * MS);
    assert_eq!(table.locks[&LOCK].holders[&(key(9), stack(7))], 17 * MS);
}

#[test]
fn what_a_holder_does_counts_while_others_wait() {
    let mut table = LockTable::default();
    table.wait(key(2), LOCK, 10 * MS, stack(1), Some(key(10)));
    table.wait(key(10), OTHER, 5 * MS, stack(2), Some(key(11)));
    table.did(key(10), Deed::WaitedFor(OTHER), 5 * MS, 30 * MS);
    table.did(key(11), Deed::Slept(stack(3)), 0, 30 * MS);
    table.did(key(12), Deed::Slept(stack(3)), 0, 30 * MS);
    assert_eq!(table.locks[&LOCK].deeds[&(key(10), Deed::WaitedFor(OTHER))], 20 * MS);
    assert_eq!(table.locks[&OTHER].deeds[&(key(11), Deed::Slept(stack(3)))], 25 * MS);
    // After the release, it holds nothing.
    table.release(key(2), key(10), stack(5), 30 * MS);
    table.did(key(10), Deed::Ran(stack(4)), 30 * MS, 40 * MS);
    assert_eq!(table.locks[&LOCK].deeds.len(), 1);
}

#[test]
fn circles_are_found_once_and_only_of_long_waits() {
    let mut table = LockTable::default();
    table.wait(key(7), LOCK, 0, stack(1), Some(key(5)));
    table.wait(key(5), OTHER, MS, stack(2), Some(key(7)));
    table.wait(key(3), LOCK, MS, stack(1), Some(key(5)));
    assert_eq!(table.circles(50 * MS), Vec::<Vec<ThreadKey>>::new());
    assert_eq!(table.circles(SURE_NS + MS), [vec![key(5), key(7)]]);
    table.release(key(5), key(7), stack(3), SURE_NS + MS);
    assert!(table.circles(2 * SURE_NS).is_empty());
    // A lock that names its waiter.
    table.wait(key(4), LOCK, 0, stack(1), Some(key(4)));
    assert_eq!(table.circles(2 * SURE_NS), [vec![key(4)]]);
}

#[test]
fn a_reset_and_lost_records_leave_no_time_behind() {
    let mut table = LockTable::default();
    table.wait(key(2), LOCK, 0, stack(1), Some(key(10)));
    table.reset(10 * MS);
    let open: u64 = table.open(&table.locks[&LOCK], 15 * MS).map(|(.., ns)| ns).sum();
    assert_eq!(open, 5 * MS);
    table.release(key(2), key(10), stack(5), 20 * MS);
    table.end(key(2), 20 * MS);
    let of = &table.locks[&LOCK];
    assert_eq!((of.waits.sum, of.holders[&(key(10), stack(5))]), (10 * MS, 10 * MS));
    table.wait(key(2), LOCK, 30 * MS, stack(1), Some(key(10)));
    table.forget();
    assert!(table.end(key(2), 40 * MS).is_none() && table.waiting.is_empty());
    table.wait(key(2), LOCK, 50 * MS, stack(1), Some(key(10)));
    table.forget_thread(key(10), 60 * MS);
    assert_eq!(table.waits_for(key(2)), Some((LOCK, None)));
    table.forget_thread(key(2), 60 * MS);
    assert!(table.locks[&LOCK].waiters.is_empty());
}

#[test]
fn kept_addresses_are_bounded_and_outlast_their_locks() {
    let mut table = LockTable::default();
    let calls = std::cell::Cell::new(0);
    let mut pin = |_: i32, address: u64| {
        calls.set(calls.get() + 1);
        stack(address as u32)
    };
    for address in 1..=MOST_VARIABLES as u64 + 10 {
        table.wait(key(2), LockKey { space: SPACE, address }, 0, stack(1), None);
        table.end(key(2), MS);
    }
    table.pin_longest(usize::MAX, MS, &mut pin);
    let pinned: Vec<LockKey> =
        table.locks.iter().filter(|(_, of)| of.variable.is_some()).map(|(key, _)| *key).collect();
    assert_eq!((pinned.len(), calls.get()), (MOST_VARIABLES, MOST_VARIABLES));
    let mut again = |table: &mut LockTable| {
        table.reset(2 * MS);
        table.wait(key(2), pinned[0], 2 * MS, stack(1), None);
        table.pin_longest(usize::MAX, 3 * MS, &mut pin);
        table.end(key(2), 4 * MS);
        table.locks[&pinned[0]].variable
    };
    assert_eq!(again(&mut table), Some(stack(pinned[0].address as u32)));
    // Another program may have the number of an ended process.
    table.forget_thread(key(1), 5 * MS);
    assert_eq!(again(&mut table), None);
    assert_eq!(calls.get(), MOST_VARIABLES);
}

/// The mappings of a new process may arrive after its first waits.
#[test]
fn an_address_without_a_file_is_looked_up_again() {
    let mut table = LockTable::default();
    let lock = LockKey { space: SPACE, address: 7 };
    table.wait(key(2), lock, 0, stack(1), None);
    table.pin_longest(usize::MAX, MS, &mut |_, _| RetainedStack::NONE);
    assert_eq!(table.locks[&lock].variable, None);
    table.pin_longest(usize::MAX, 2 * MS, &mut |_, _| stack(5));
    assert_eq!(table.locks[&lock].variable, Some(stack(5)));
}

#[test]
fn a_lock_keeps_the_stack_that_names_it_until_its_process_ends() {
    let mut table = LockTable::default();
    let lock = LockKey { space: SPACE, address: 7 };
    [stack(3), stack(4)].into_iter().for_each(|of| table.keep_namer(lock, of));
    table.reset(MS);
    assert_eq!(table.namer(lock), Some(stack(3)));
    table.forget_thread(key(1), 2 * MS);
    assert_eq!(table.namer(lock), None, "another process may get the number");
}

#[test]
fn many_threads_keep_their_numbers_up_to_a_limit() {
    let mut table = LockTable::default();
    for tid in 1..=2 * MOST_THREADS as i32 {
        table.wait(key(tid), LOCK, 0, stack(1), None);
        table.end(key(tid), 1);
    }
    let sites = &table.locks[&LOCK].sites;
    assert_eq!((sites.len(), sites[&(OTHERS, RetainedStack::NONE)].1), (MOST_THREADS + 1, MOST_THREADS as u64));
    assert_eq!(sites[&(key(MOST_THREADS as i32), RetainedStack::NONE)].1, 1);
}

#[test]
fn a_million_locks_stay_bounded_and_the_longest_are_kept() {
    let mut table = LockTable::default();
    for address in 0..3 * MOST_LOCKS as u64 {
        let ns = if address % 1000 == 0 { 1000 * MS } else { 1 + address % 7 };
        table.wait(key(2), LockKey { space: SPACE, address }, 0, stack(1), None);
        table.end(key(2), ns);
    }
    assert!(table.locks.len() <= MOST_LOCKS && table.dropped > 0);
    let kept = (0..3 * MOST_LOCKS as u64)
        .step_by(1000)
        .all(|address| table.locks.contains_key(&LockKey { space: SPACE, address }));
    assert!(kept);
    assert_eq!(table.dropped as usize + table.locks.len(), 3 * MOST_LOCKS);
    // A thread with many stacks.
    for n in 0..2 * MOST_STACKS as u32 {
        table.wait(key(2), LOCK, 0, stack(n), None);
        table.end(key(2), 1);
    }
    assert!(table.locks[&LOCK].sites.len() <= MOST_STACKS + 1);
    assert_eq!(table.locks[&LOCK].sites[&(key(2), RetainedStack::NONE)].1, MOST_STACKS as u64 + 1);
}
