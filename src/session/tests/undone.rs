//! Tests that the history alone suffices to undo what a recording's facts did to addresses.

use super::*;
use crate::session::layouts::Layouts;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Fact {
    Map(i32, u64, u64),
    Exec(i32),
    Fork(i32, i32),
    Seen(i32),
}

fn facts() -> impl Strategy<Value = Vec<Fact>> {
    let pid = || 1i32..5;
    let one = prop_oneof![
        3 => (pid(), 0u64..20, 0u64..3).prop_map(|(pid, at, part)| Fact::Map(pid, at, part)),
        1 => pid().prop_map(Fact::Exec),
        1 => (pid(), pid()).prop_map(|(a, b)| Fact::Fork(a, b)),
        1 => pid().prop_map(Fact::Seen),
    ];
    proptest::collection::vec(one, 1..40)
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn addresses_lead_back(facts in facts()) {
        let mut s = Session::new(Origin::Recorded);
        s.dsos.share = true;
        for fact in &facts {
            match fact {
                Fact::Map(pid, at, part) => {
                    let Record::Mmap(code) = map(*pid, 0x1000 * at, 0x1000, "/a") else { unreachable!() };
                    s.apply(&Record::Mmap(Mmap { pgoff: 0x1000 * part, ..code }), 1);
                }
                Fact::Exec(pid) => s.apply(&comm(*pid, *pid, true, "x"), 1),
                Fact::Fork(parent, child) => s.apply(&Record::Fork(task_of(*child, *parent, *child, *parent)), 1),
                Fact::Seen(pid) => s.seen(*pid, 1, true, &[]),
            }
        }
        let mut layouts = Layouts::new(&s.dsos);
        s.log().in_order().for_each(|(at, side)| layouts.follow(at, &side));
        for pid in 1..5 {
            // During an exec, an address may belong to either program.
            let Some(space) = s.here().spaces.get(&pid).filter(|space| !space.is_in_exec()) else { continue };
            let maps: Vec<MapId> = space.maps().collect();
            for at in 0..20u64 {
                let ip = 0x1000 * at + 8;
                let own = s.user_map(pid, ip);
                // A process that maps the same part twice has its own mapping.
                let twice = maps.iter().filter(|map| s.dsos.placed(**map).map == s.dsos.placed(own).map).count() > 1;
                if own == MapId::UNKNOWN || twice {
                    continue;
                }
                let (shared, there) = s.dsos.shared(own, ip);
                prop_assert_eq!(layouts.address(pid, shared, there), ip);
                prop_assert_eq!(s.dsos.map_of(shared).to_dso(there), s.dsos.map_of(own).to_dso(ip));
            }
        }
        prop_assert_eq!(layouts.address(99, MapId::KERNEL, 5), 5);
    }
}
