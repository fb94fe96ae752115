//! Tests of the lives that a history keeps, and for how long.

use super::*;
use proptest::prelude::*;

fn task(pid: i32, ppid: i32, tid: i32, time: u64) -> TaskRecord {
    TaskRecord { pid, ppid, tid, ptid: ppid, time }
}

fn placed(map: MapId) -> Placed {
    Placed { map, start: u64::from(map.0) << 12 }
}

fn space(maps: &[(u32, u64)], generation: u32) -> AddressSpace {
    let mut space = AddressSpace::empty(generation);
    for (map, pages) in maps {
        let start = u64::from(*map) << 12;
        space.insert(start, start + (pages << 12), MapId(*map), generation);
    }
    space
}

fn told(space: &AddressSpace) -> AddressSpace<Placed> {
    let entry = |e: &super::super::space::SpaceEntry<MapId>| super::super::space::SpaceEntry {
        start: e.start,
        end: e.end,
        map: placed(e.map),
    };
    let (entries, before) = space.parts();
    AddressSpace::of_parts(entries.iter().map(entry).collect(), before.map(|before| before.iter().map(entry).collect()))
}

fn fact() -> impl Strategy<Value = SideBandEvent> {
    let id = || prop_oneof![1i32..4, any::<i32>()];
    let number = || prop_oneof![0u64..200, any::<u64>()];
    let text = || "\\PC{0,20}".prop_map(Arc::from);
    let maps = (id(), id(), any::<u32>(), number(), any::<u32>(), any::<u32>());
    let tasks = || (id(), id(), id(), id(), number());
    let task = |(pid, ppid, tid, ptid, time)| TaskRecord { pid, ppid, tid, ptid, time };
    prop_oneof![
        maps.prop_map(|(pid, tid, map, start, prot, flags)| {
            SideBandEvent::Map { pid, tid, at: Placed { map: MapId(map), start }, prot, flags }
        }),
        (id(), id(), any::<bool>(), text()).prop_map(|(pid, tid, exec, comm)| SideBandEvent::Comm {
            pid,
            tid,
            exec,
            comm
        }),
        tasks().prop_map(move |told| SideBandEvent::thread(task(told))),
        tasks().prop_map(move |told| SideBandEvent::Exit(task(told))),
        (number(), text()).prop_map(|(id, path)| SideBandEvent::Cgroup { id, path }),
        id().prop_map(|pid| SideBandEvent::Ran { pid }),
    ]
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn what_was_told_is_read_in_order_of_time(facts in proptest::collection::vec((0u64..9, fact()), 0..40)) {
        let mut log = SideLog::default();
        for (time, side) in &facts {
            log.push(*time, side.clone());
        }
        // Facts of a process with equal times stay together, in the order of lives.
        let mut met = Vec::new();
        let mut life = |pid: i32| {
            met.iter().position(|known| *known == pid).unwrap_or_else(|| {
                met.push(pid);
                met.len() - 1
            })
        };
        let mut want: Vec<_> = facts.into_iter().map(|(time, side)| (time, life(side.pid()), side)).collect();
        want.sort_by_key(|(time, life, _)| (*time, *life));
        prop_assert!(log.in_order().eq(want.into_iter().map(|(time, _, side)| (time, side))));
    }

    #[test]
    fn a_child_takes_over_what_its_parent_had(
        maps in proptest::collection::vec((1u32..50, 1u64..9), 0..12),
        before in proptest::option::of(proptest::collection::vec((1u32..50, 1u64..9), 0..12)),
    ) {
        let mut parent = match &before {
            Some(before) => AddressSpace::after_exec(Some(&space(before, 1)), 2),
            None => AddressSpace::empty(2),
        };
        for (map, pages) in &maps {
            let start = u64::from(*map) << 12;
            parent.insert(start, start + (pages << 12), MapId(*map), 3);
        }
        let mut log = SideLog::default();
        log.fork(7, &task(9, 1, 9, 6), &parent, placed);
        let found: Vec<SideBandEvent> = log.in_order().map(|(_, side)| side).collect();
        let inherited = if parent.is_empty() { AddressSpace::default() } else { told(&parent) };
        prop_assert_eq!(found, [SideBandEvent::Fork(Box::new(Fork { task: task(9, 1, 9, 6), inherited }))]);
        let mut met = Vec::new();
        log.each_map(|map| met.push(map));
        prop_assert!(parent.maps().chain(parent.before()).eq(met));
    }
}

fn live_through(log: &mut SideLog, pid: i32, parent: &AddressSpace, time: u64) {
    log.fork(time, &task(pid, 1, pid, time), parent, placed);
    log.push(time + 1, SideBandEvent::Comm { pid, tid: pid, exec: true, comm: "short".into() });
    for map in 0..4 {
        let at = Placed { map: MapId(300 + map), start: 0x7f12_3456_7000 + (u64::from(map) << 20) };
        log.push(time + 2, SideBandEvent::Map { pid, tid: pid, at, prot: 5, flags: 0x802 });
    }
    log.push(time + 1_000_000, SideBandEvent::Exit(task(pid, 1, pid, time + 1_000_000)));
}

#[test]
fn who_was_never_sampled_is_forgotten_with_his_end_and_the_others_when_their_samples_are() {
    let mut log = SideLog::default();
    let parent = space(&[(1, 5), (7, 2)], 4);
    log.push(0, SideBandEvent::Comm { pid: 1, tid: 1, exec: false, comm: "parent".into() });
    log.push(0, SideBandEvent::Cgroup { id: 7, path: "/web".into() });
    let empty = log.memory();
    let at = |i: i32| u64::from(i.unsigned_abs()) * 10_000_000;
    // A number is reused many times: only sampled processes are kept.
    let pid = |i: i32| 100 + i % 7;
    for i in 1..=10_000 {
        live_through(&mut log, pid(i), &parent, at(i));
        if i % 10 == 0 {
            log.want(pid(i));
        }
        log.end(pid(i));
        log.trim(0);
    }
    let forks = |log: &SideLog| {
        let times = log.in_order().filter(|(_, side)| matches!(side, SideBandEvent::Fork(_))).map(|(time, _)| time);
        times.collect::<Vec<_>>()
    };
    assert_eq!(forks(&log), (1..=1000).map(|i| at(10 * i)).collect::<Vec<_>>());
    let each = (log.memory() - empty) / 1000;
    assert!(each < 300, "{each} bytes for a process that has ended");
    // All share a copy of their inherited mappings.
    let heirs: Vec<_> = log.ended.iter().filter_map(|(life, _)| life.inherited.as_ref()).collect();
    assert!(heirs.len() == 1000 && heirs.iter().all(|one| Arc::ptr_eq(one, heirs[0])));
    log.trim(at(9000));
    assert_eq!(forks(&log), (900..=1000).map(|i| at(10 * i)).collect::<Vec<_>>());
    log.trim(u64::MAX);
    assert_eq!((forks(&log).len(), log.in_order().count()), (0, 2), "running processes and other facts stay");
    assert!(log.memory() < empty + 3000 * size_of::<(Lifetime, Arc<[u8]>)>(), "{} {empty}", log.memory());
}

#[test]
fn another_process_of_a_number_is_another_life() {
    let mut log = SideLog::default();
    let (none, parent) = (AddressSpace::default(), space(&[(3, 1)], 2));
    log.want(5);
    log.push(1, SideBandEvent::Ran { pid: 5 });
    log.fork(2, &task(5, 1, 5, 2), &parent, placed);
    log.trim(0);
    assert_eq!(log.in_order().count(), 2, "the first was sampled");
    log.fork(3, &task(5, 1, 5, 3), &none, placed);
    log.trim(0);
    assert_eq!(log.in_order().map(|(time, _)| time).collect::<Vec<_>>(), [1, 3], "the second was not");
    log.end(5);
    log.end(6);
    log.trim(2);
    assert_eq!(log.in_order().count(), 0);
    // A changed space is another heritage.
    log.push(4, SideBandEvent::Ran { pid: 1 });
    for (pid, maps) in [(7, 1), (8, 1), (9, 2)] {
        log.fork(5, &task(pid, 1, pid, 5), &space(&[(3, 1), (4, 1)][..maps], maps as u32), placed);
    }
    let heritage = |pid: i32| log.live[&pid].life.inherited.clone().expect("inherited");
    assert!(Arc::ptr_eq(&heritage(7), &heritage(8)) && !Arc::ptr_eq(&heritage(7), &heritage(9)));
}
