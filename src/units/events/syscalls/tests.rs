//! Tests of calls that go on while records are lost.

use super::*;
use crate::source::OpenCall;
use crate::units::kit::waits::initially_blocked::tests::with_sleeper;

const LOSS: LostEvents = LostEvents { cpu: None, from: 10, until: 20, records: 1 };

fn lists(unit: &Syscalls, tid: i32) -> bool {
    unit.initial.threads().any(|thread| thread.tid == tid)
}

/// A thread that waits for a connection or a lock may make no other call for hours.
#[test]
fn a_call_that_goes_on_is_under_way_again_after_a_loss() {
    with_sleeper(|tid, cx| {
        let mut unit = Syscalls::new(&Settings::default()).expect("made");
        unit.settle(cx);
        assert!(lists(&unit, tid));
        unit.lost(&LOSS);
        assert!(!lists(&unit, tid), "it may have returned");
        unit.initial.set_pause(false);
        unit.settle(cx);
        assert!(lists(&unit, tid));
        assert_eq!(unit.whole_since, 20, "since when it is known to go on");
        let calls: Vec<_> = unit.initial.threads().filter(|thread| thread.tid == tid).map(Call::of_blocked).collect();
        let futex = Call { number: libc::SYS_futex, abi: Abi::Native };
        assert_eq!(calls, [Some(futex)]);
    });
}

#[test]
fn records_and_sums_since_a_loss_show_their_calls() {
    with_sleeper(|tid, cx| {
        let mut unit = Syscalls::new(&Settings::default()).expect("made");
        let ask = |unit: &mut Syscalls, cx: &mut Context<'_>| {
            unit.initial.set_pause(false);
            unit.settle(cx);
        };
        ask(&mut unit, cx);
        unit.lost(&LOSS);
        unit.initial.set_pause(true);
        // The record of an event of its own shows the thread.
        unit.record(&UnitSample { role: EVENTS.len(), tid, ..UnitSample::default() }, cx);
        ask(&mut unit, cx);
        assert!(!lists(&unit, tid), "its record is newer than the loss");
        unit.lost(&LOSS);
        ask(&mut unit, cx);
        assert!(lists(&unit, tid));
        let open = OpenCall { tid, number: 0, is_32_bit: false, start: 15 };
        let sums = SummedCalls { from: 10, until: 30, sums: Vec::new(), open: vec![&open] };
        unit.add_sums(&sums, cx);
        assert!(!lists(&unit, tid));
        unit.lost(&LOSS);
        ask(&mut unit, cx);
        assert!(!lists(&unit, tid), "it is listed by the sums");
    });
}
