//! Waits with made-up ends.

use super::*;
use crate::profile::Profile;
use crate::session::{Origin, Session};
use crate::units::kit::{ThreadNames, ViewState};

fn sleeper() -> BlockedThread {
    BlockedThread {
        pid: 1,
        tid: 1,
        comm: Vec::new(),
        state: 'S',
        is_of_kernel: false,
        cpu: 0,
        place: "futex_do_wait".to_owned(),
        call: Some((libc::SYS_futex, [0, 0])),
        is_32_bit: false,
    }
}

/// A wait that began before the first record.
fn older(spot: Spot) -> Away {
    let sleep = Sleep::Interruptible;
    Away { spot, sleep, pid: 1, program: None, is_of_kernel: false, is_before: true }
}

/// Runs a test at the time 500 of a session that began at 10, in an interval from `since` on.
fn at_500(since: u64, test: impl FnOnce(&Moment<'_>, &mut BlockedTime)) {
    let (session, profile, look) = (Session::new(Origin::Recorded), Profile::default(), ViewState::default());
    let names = ThreadNames::default();
    let at = Moment { session: &session, profile: &profile, names: &names, start: 10, since, now: 500, look: &look };
    test(&at, &mut BlockedTime::default());
}

#[test]
fn a_wait_for_the_end_of_a_thread_names_its_function() {
    let mut places = Places::default();
    let lines = [false, true].map(|joins| {
        let spot = places.told(&sleeper(), joins);
        places.line(spot).to_string()
    });
    assert_eq!(lines, ["futex_do_wait < futex", "futex_do_wait < futex < pthread_join"]);
}

#[test]
fn an_older_wait_counts_from_the_first_record() {
    at_500(90, |at, blocked| {
        let spot = blocked.places.told(&sleeper(), false);
        let away = older(spot);
        let under_way = blocked.open(at, ThreadKey::of_row(1), 100, away).under_way.expect("a wait");
        assert_eq!((under_way.ns, under_way.is_before), (400, true));
    });
}

/// A join that began before the measurement: /proc shows only its system call.
#[test]
fn an_older_wait_that_an_end_ends_has_its_class() {
    at_500(10, |at, blocked| {
        let spot = blocked.places.told(&sleeper(), false);
        let away = older(spot);
        let mut raw = |end| Raw { end, ..blocked.raw(at, ThreadKey::of_row(1), away.into()) };
        let ended = [WaitEnd::Ending(Ending::Thread), WaitEnd::OwnProgram].map(&mut raw);
        let own = OwnWakes::of(&ended);
        assert_eq!(ended.each_ref().map(|wait| wait.class(&own)), [WaitClass::ThreadEnd, WaitClass::EachOther]);
        assert!(own.endings.is_empty(), "the thread may have been elsewhere before");
    });
}

/// A broken stack does not make a wait doubtful that nothing has ended, as for other waits from /proc.
#[test]
fn an_older_wait_with_a_broken_stack_is_doubted_only_at_its_end() {
    at_500(10, |at, blocked| {
        let spot = blocked.places.told(&sleeper(), false);
        blocked.places.set_stack(1, RetainedStack::NONE);
        assert_eq!(blocked.places.stack(spot), Some(RetainedStack::NONE));
        let away = older(spot);
        let mut raw = |end| {
            let raw = blocked.raw(at, ThreadKey::of_row(1), away.into());
            Raw { end, facts: SpotFacts { is_broken: true, ..raw.facts.clone() }, ..raw }
        };
        let waits = [WaitEnd::Open, WaitEnd::OwnProgram].map(&mut raw);
        let classes = waits.each_ref().map(|wait| wait.class(&OwnWakes::default()));
        assert_eq!(classes, [WaitClass::Work, WaitClass::Broken]);
    });
}

/// /proc shows where a thread is when it is read, not where it was when an earlier record woke it.
#[test]
fn a_place_that_was_read_after_the_wakeup_is_not_that_of_the_wait() {
    at_500(10, |at, blocked| {
        let away = older(Spot::UNKNOWN);
        let raw = blocked.raw(at, ThreadKey::of_row(1), away.into());
        let wait = Raw { end: WaitEnd::OwnProgram, ..raw };
        assert_eq!((&*wait.line, wait.class(&OwnWakes::default())), ("–", WaitClass::Broken));
    });
}

/// The message of its request came before the first record, and the next one has not come yet.
#[test]
fn a_thread_that_waits_for_a_message_after_a_lock_served_a_request() {
    at_500(10, |at, blocked| {
        let mut wait = |tid: i32, call: &str, end: WaitEnd| {
            let is_before = call == "futex";
            let away = Away { program: Some(1), is_before, ..older(Spot::UNKNOWN) };
            let raw = blocked.raw(at, ThreadKey::of_row(tid as u64), away.into());
            let mut stats = Stats::default();
            stats.add(100);
            let facts = SpotFacts { call: call.into(), ..SpotFacts::default() };
            let under_way = (end == WaitEnd::Open).then_some(UnderWay { ns: 1, is_before });
            Raw { end, facts, stats, under_way, ..raw }
        };
        let raw = [
            wait(1, "futex", WaitEnd::OwnProgram),
            wait(1, "recvfrom", WaitEnd::Open),
            // A thread of a pool, and one that wakes itself from its loop.
            wait(2, "futex", WaitEnd::OwnProgram),
            wait(3, "epoll_wait", WaitEnd::OwnProgram),
            wait(3, "epoll_wait", WaitEnd::Open),
        ];
        let (own, receivers, brief) = (OwnWakes::of(&raw), Receivers::default(), FxHashSet::default());
        let classes = raw.each_ref().map(|wait| wait.class(&own));
        let requests = Requests::of(&raw, &classes, &own, &receivers, &brief);
        let class = |i: usize| requests.class(&raw[i], classes[i], &own);
        assert_eq!([0, 2, 3].map(class), [WaitClass::EachOther, WaitClass::Outside, WaitClass::Outside]);
    });
}
