//! What a session keeps of its history, and what it forgets.

use super::*;

#[test]
fn history_is_kept_of_those_who_are_there_or_wanted() {
    let mut s = Session::new(Origin::Recorded);
    for pid in 1..=3 {
        s.apply(&map(pid, 0x1000, 0x1000, "/a"), 1);
    }
    s.apply(&map(-1, 0xffff_0000, 0x1000, "[m]"), 1);
    s.apply(&Record::Cgroup { id: 7, path: b"/web" }, 1);
    let before = s.log_memory();
    s.apply(&Record::Fork(task_of(9, 1, 9, 1)), 2);
    assert!(s.log_memory() >= before + size_of::<Fork>());
    for pid in [1, 2, 3, 9] {
        s.apply(&Record::Exit(task_of(pid, 0, pid, 0)), 3);
    }
    // Long after their ends, the first three are gone.
    s.apply(&Record::Exit(task_of(50, 0, 50, 0)), 3 + host::LINGER_NS + 1);
    assert_eq!((dso(&s, 1, 0x1000), s.log_is_ripe()), ("[unknown]".into(), false));
    let kept = s.task(2, 2);
    s.trim_log([kept].into_iter());
    let left: std::collections::BTreeSet<i32> = s.log().entries().iter().map(|(_, side)| side.pid()).collect();
    assert_eq!(left.into_iter().collect::<Vec<_>>(), [-1, 0, 2]);
    let mut maps = 0;
    s.log().each_map(|_| maps += 1);
    assert_eq!(maps, 2);
}

#[test]
fn a_history_is_ripe_when_it_has_doubled() {
    let mut s = Session::new(Origin::Recorded);
    let fill = |s: &mut Session, n: i32| (0..n).for_each(|pid| s.apply(&comm(pid + 10, pid + 10, false, "x"), 1));
    fill(&mut s, 20_000);
    assert!(!s.log_is_ripe());
    fill(&mut s, 1);
    assert!(s.log_is_ripe());
    let kept: Vec<TaskId> = (10..20_011).map(|pid| s.task(pid, pid)).collect();
    s.trim_log(kept.into_iter());
    assert!(!s.log_is_ripe());
    fill(&mut s, 20_001);
    assert!(!s.log_is_ripe());
    fill(&mut s, 1);
    assert!(s.log_is_ripe());
    s.trim_log(std::iter::empty());
    assert_eq!(s.log().entries().len(), 0);
    assert!(s.log_memory() < 100 * size_of::<(u64, Side)>());
    let entry = |pid: i32| Side::Ran { pid };
    assert_eq!((entry(7).pid(), Side::Cgroup { id: 7, path: "".into() }.pid()), (7, 0));
    assert_eq!(Side::Exit(task_of(5, 4, 6, 4)).pid(), 5);
    assert_eq!(Side::Fork(Box::new(Fork { task: task_of(5, 4, 6, 4), inherited: Space::default() })).pid(), 5);
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
    s.trim_log(std::iter::empty());
    s.forget_unused([a].into_iter());
    // The place of the other one is taken by the next that comes.
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
    s.trim_log(std::iter::empty());
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
