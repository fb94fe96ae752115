//! Tests of the times of threads, from switches, wakeups and losses.

use super::*;

const MS: u64 = 1_000_000;

fn switch(times: &mut ThreadTimes, at: u64, cpu: u32, prev: (i32, i64), next: i32, came: Came) {
    let switch = SchedSwitch { prev: prev.0, prev_state: prev.1, next };
    times.switch((cpu, at * MS, true), switch, [key(prev.0), key(next)], true, Some(came));
}

fn key(tid: i32) -> ThreadKey {
    ThreadKey::of_row(tid as u64)
}

/// Milliseconds of running, waiting and throttled time, and the wall time.
fn of(times: &ThreadTimes, tid: i32, now: u64) -> (u64, u64, u64, u64) {
    let all = times.all(now * MS).find(|(own, ..)| *own == key(tid));
    all.map_or((0, 0, 0, 0), |(_, time, wall)| (time.ran / MS, time.waited / MS, time.throttled / MS, wall / MS))
}

#[test]
fn a_thread_runs_and_waits_behind_others() {
    let mut times = ThreadTimes::default();
    switch(&mut times, 10, 0, (0, 0), 1, Came::Unknown);
    // Thread 2 ran on CPU 1 since the first record, and thread 1 since its switch.
    switch(&mut times, 14, 1, (2, 1), 0, Came::Unknown);
    times.wake(key(2), 20 * MS, false, true);
    switch(&mut times, 25, 0, (1, 0x100), 2, Came::Unknown);
    switch(&mut times, 30, 0, (2, 1), 1, Came::Unknown);
    assert_eq!(of(&times, 1, 40), (15 + 10, 5, 0, 30));
    assert_eq!(of(&times, 2, 40), (4 + 5, 5, 0, 30));
    let mut behind: Vec<_> = times.behind().collect();
    behind.sort_unstable();
    assert_eq!(behind, [(key(1), key(2), 5 * MS), (key(2), key(1), 5 * MS)]);
    times.reset(35 * MS);
    assert_eq!((of(&times, 1, 40), of(&times, 2, 40)), ((5, 0, 0, 5), (0, 0, 0, 5)));
}

#[test]
fn a_wait_for_an_idle_cpu_is_a_throttled_one() {
    let mut times = ThreadTimes::default();
    switch(&mut times, 0, 0, (0, 0), 1, Came::Unknown);
    // It is preempted, and the CPU idles, since its group has no quota left.
    switch(&mut times, 20, 0, (1, 0x100), 0, Came::Unknown);
    switch(&mut times, 100, 0, (0, 0), 1, Came::Unknown);
    assert_eq!(of(&times, 1, 110), (30, 0, 80, 110));
    // A CPU that idled before the wakeup merely wakes up itself.
    switch(&mut times, 110, 0, (1, 1), 0, Came::Unknown);
    times.wake(key(1), 150 * MS, false, true);
    switch(&mut times, 155, 0, (0, 0), 1, Came::Unknown);
    assert_eq!(of(&times, 1, 155), (30, 5, 80, 155));
}

#[test]
fn a_life_ends_at_the_last_switch_and_numbers_are_used_again() {
    let mut times = ThreadTimes::default();
    times.begin(0);
    times.born(key(5), None, 10 * MS);
    times.wake(key(5), 10 * MS, true, true);
    switch(&mut times, 11, 0, (0, 0), 5, Came::Unknown);
    times.ended(key(5), 20 * MS);
    switch(&mut times, 22, 0, (5, 0x10), 0, Came::Unknown);
    assert_eq!(of(&times, 5, 90), (11, 1, 0, 12));
    times.born(key(5), None, 40 * MS);
    times.wake(key(5), 40 * MS, true, true);
    switch(&mut times, 41, 0, (0, 0), 5, Came::Unknown);
    assert_eq!(of(&times, 5, 50), (20, 2, 0, 22));
    // A thread that calls exec takes the number of the first one.
    times.renumber(key(5), key(4));
    assert_eq!((of(&times, 4, 51).0, of(&times, 5, 51)), (21, (0, 0, 0, 0)));
}

/// The end of the first thread may be lost.
#[test]
fn threads_with_one_number_have_their_own_times() {
    let second = ThreadKey::of_row(1 << 32 | 5);
    for has_end in [true, false] {
        let mut times = ThreadTimes::default();
        times.begin(0);
        times.wake(key(5), 10 * MS, true, true);
        switch(&mut times, 11, 0, (0, 0), 5, Came::Unknown);
        if has_end {
            times.ended(key(5), 20 * MS);
            switch(&mut times, 20, 0, (5, 0x10), 0, Came::Unknown);
        }
        times.born(second, Some(key(5)), 20 * MS);
        times.wake(second, 20 * MS, true, true);
        let mut all: Vec<_> = times.all(50 * MS).map(|(key, time, wall)| (key, time.ran, time.waited, wall)).collect();
        all.sort_unstable();
        assert_eq!(all, [(key(5), 9 * MS, MS, 10 * MS), (second, 0, 30 * MS, 30 * MS)], "{has_end}");
        times.reset(50 * MS);
        assert_eq!(times.all(60 * MS).count(), 1);
    }
}

#[test]
fn a_thread_sleeps_since_a_loss_unless_it_has_a_record() {
    let mut times = ThreadTimes::default();
    times.begin(0);
    switch(&mut times, 1, 0, (0, 0), 1, Came::Unknown);
    times.lost(10 * MS, 20 * MS);
    switch(&mut times, 30, 0, (0, 0), 2, Came::Unknown);
    times.sleeps_since_before(key(1));
    times.sleeps_since_before(key(2));
    let doing = |tid: i32| (times.threads[&key(tid)].doing, times.threads[&key(tid)].since);
    assert_eq!(doing(1), (Doing::Asleep, 20 * MS));
    assert_eq!(doing(2), (Doing::Running, 30 * MS));
}

#[test]
fn a_thread_that_proc_shows_may_be_younger() {
    let mut times = ThreadTimes::default();
    times.begin(0);
    times.sleeps_since_before(key(5));
    times.sleeps_since_before(key(6));
    times.born(key(5), None, 40 * MS);
    times.wake(key(5), 40 * MS, true, true);
    assert_eq!((of(&times, 5, 50), of(&times, 6, 50)), ((0, 10, 0, 10), (0, 0, 0, 50)));
}

#[test]
fn a_thread_of_another_name_has_no_more_time() {
    let mut times = ThreadTimes::default();
    switch(&mut times, 0, 0, (0, 0), 1, Came::Unknown);
    times.unfollow(key(1), 10 * MS);
    times.unfollow(key(1), 30 * MS);
    times.unfollow(key(2), 30 * MS);
    assert_eq!((of(&times, 1, 90), of(&times, 2, 90)), ((10, 0, 0, 10), (0, 0, 0, 0)));
}

#[test]
fn the_time_of_a_loss_is_unknown() {
    let mut times = ThreadTimes::default();
    switch(&mut times, 0, 0, (0, 0), 1, Came::Unknown);
    times.lost(10 * MS, 30 * MS);
    // It leaves at the first switch after the loss: it ran since the end of that.
    switch(&mut times, 40, 0, (1, 1), 2, Came::Unknown);
    assert_eq!(of(&times, 1, 50), (20, 0, 0, 50));
    // The other thread may have slept.
    assert_eq!(of(&times, 2, 50), (10, 0, 0, 50));
}

#[test]
fn a_thread_that_leaves_an_idle_cpu_ran_there() {
    let mut times = ThreadTimes::default();
    switch(&mut times, 0, 0, (1, 1), 0, Came::Unknown);
    times.wake(key(1), 20 * MS, false, true);
    switch(&mut times, 30, 0, (1, 1), 0, Came::Unknown);
    assert_eq!(of(&times, 1, 30), (10, 0, 0, 30));
    // A wakeup while it left its CPU.
    switch(&mut times, 35, 0, (0, 0), 1, Came::Early);
    assert_eq!(of(&times, 1, 35), (10, 5, 0, 35));
}
