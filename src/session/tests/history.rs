//! Tests of the history that a session keeps and drops.

use super::*;

#[test]
fn history_is_kept_of_those_who_are_there_or_were_sampled() {
    let mut s = Session::new(Origin::Recorded);
    for pid in 1..=3 {
        s.apply(&map(pid, 0x1000, 0x1000, "/a"), 1);
    }
    s.apply(&map(-1, 0xffff_0000, 0x1000, "[m]"), 1);
    s.apply(&Record::Cgroup { id: 7, path: b"/web" }, 1);
    s.apply(&Record::Fork(task_of(9, 1, 9, 1)), 2);
    s.task(2, 2);
    for pid in [1, 2, 9] {
        s.apply(&Record::Exit(task_of(pid, 0, pid, 0)), 3);
    }
    // They are removed long after their exits.
    let later = 3 + host::LINGER_NS + 1;
    s.apply(&Record::Exit(task_of(50, 0, 50, 0)), later);
    assert_eq!(dso(&s, 1, 0x1000), "[unknown]");
    let left = |s: &Session| {
        let pids = s.log().in_order().map(|(_, side)| side.pid()).collect::<std::collections::BTreeSet<_>>();
        pids.into_iter().collect::<Vec<_>>()
    };
    s.trim_log(later - 1);
    assert_eq!(left(&s), [-1, 0, 2, 3, 50]);
    let mut maps = 0;
    s.log().each_map(|_| maps += 1);
    assert_eq!(maps, 3);
    s.trim_log(later);
    assert_eq!(left(&s), [-1, 0, 3, 50], "no sample is as old as its end");
}

#[test]
fn mappings_that_were_moved_go_with_their_processes() {
    let mut s = Session::new(Origin::Recorded);
    s.dsos.share = true;
    let start = |pid: i32| 0x1000 * u64::from(pid.unsigned_abs());
    let storm = |s: &mut Session, pids: std::ops::Range<i32>| {
        pids.for_each(|pid| s.apply(&map(pid, start(pid), 0x1000, "/a"), 1));
    };
    storm(&mut s, 1..9_990);
    let first = s.user_map(1, start(1));
    assert!(!s.maps_are_ripe());
    storm(&mut s, 9_990..10_001);
    assert!(s.maps_are_ripe());
    let before = s.memory();
    for pid in 1..10_000 {
        s.apply(&Record::Exit(task_of(pid, 0, pid, 0)), 3);
    }
    s.apply(&Record::Exit(task_of(20_000, 0, 20_000, 0)), 4 + host::LINGER_NS);
    s.trim_log(u64::MAX);
    s.forget_moved();
    assert!(s.memory() < before / 4, "{} of {before}", s.memory());
    // The first mapping represents those of the last process and of later ones.
    let last = s.user_map(10_000, start(10_000));
    assert_eq!((s.dsos.placed(last).map, s.dsos.of_map(last).id), (first, s.dsos.of_map(first).id));
    storm(&mut s, 10_001..19_000);
    assert!(!s.maps_are_ripe());
    assert_eq!(s.dsos.placed(s.user_map(18_999, start(18_999))).map, first);
}

#[test]
fn what_nothing_has_is_forgotten() {
    let mut s = Session::new(Origin::Recorded);
    s.apply(&map(1, 0x1000, 0x1000, "/a"), 1);
    s.apply(&map(2, 0x5000, 0x1000, "/b"), 1);
    let (a, b) = (s.user_map(1, 0x1000), s.user_map(2, 0x5000));
    for pid in [1, 2] {
        s.apply(&Record::Exit(task_of(pid, 0, pid, 0)), 3);
    }
    s.apply(&Record::Exit(task_of(50, 0, 50, 0)), 3 + host::LINGER_NS + 1);
    s.trim_log(u64::MAX);
    s.forget_unused([a].into_iter());
    // The next mapping reuses the id of the removed one.
    s.apply(&map(3, 0x9000, 0x1000, "/c"), 9);
    assert_eq!((s.user_map(3, 0x9000), dso(&s, 3, 0x9000)), (b, "c".into()));
    assert_eq!(&*s.dsos.of_map(a).short, "a");
    let old = s.renew_tasks();
    assert!(old.is_empty() && s.tasks().is_empty());
    let id = s.task(3, 3);
    let old = s.renew_tasks();
    assert_eq!((s.keep_task(&old[id.0 as usize]), s.task(3, 3)), (TaskId(0), TaskId(0)));
}

#[test]
fn what_somebody_has_is_not_forgotten() {
    let mut s = Session::new(Origin::Recorded);
    s.apply(&map(1, 0x1000, 0x1000, "/a"), 1);
    s.apply(&comm(1, 1, false, "known"), 1);
    s.apply(&comm(2, 2, false, "gone"), 1);
    s.apply(&map(2, 0x5000, 0x1000, "/b"), 1);
    let (a, b) = (s.user_map(1, 0x1000), s.user_map(2, 0x5000));
    s.apply(&Record::Exit(task_of(2, 0, 2, 0)), 3);
    s.apply(&Record::Exit(task_of(50, 0, 50, 0)), 3 + host::LINGER_NS + 1);
    s.trim_log(u64::MAX);
    s.forget_unused(std::iter::empty());
    let mut names: Vec<_> = s.names.keys().map(|name| name.to_string()).collect();
    names.sort_unstable();
    assert_eq!(names, ["known"]);
    s.apply(&map(3, 0x9000, 0x1000, "/c"), 9);
    assert_eq!((s.user_map(3, 0x9000), s.user_map(1, 0x1000), dso(&s, 1, 0x1000)), (b, a, "a".into()));
}

#[test]
fn a_generation_is_of_one_set_of_mappings() {
    let mut s = Session::new(Origin::Recorded);
    let mut seen = vec![s.space_generation(1)];
    for record in [
        map(1, 0x1000, 0x1000, "/a"),
        map(1, 0x3000, 0x1000, "/b"),
        comm(1, 1, true, "x"),
        comm(1, 1, true, "y"),
        map(1, 0x1000, 0x1000, "/a"),
    ] {
        s.apply(&record, 1);
        seen.push(s.space_generation(1));
    }
    s.seen(1, 2, true, &[]);
    seen.push(s.space_generation(1));
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);
}
