//! Tests of waits that go on while records are lost.

use super::*;
use crate::units::kit::waits::initially_blocked::tests::with_sleeper;

const LOSS: LostEvents = LostEvents { cpu: None, from: 20, until: 30, records: 1 };

fn since(unit: &Locks, tid: i32) -> Option<u64> {
    unit.user.waiting.iter().find(|(thread, _)| thread.tid == tid).map(|(_, wait)| wait.since)
}

/// A thread that waits for a lock may have no other record: a deadlock would be forgotten.
#[test]
fn a_wait_that_goes_on_is_found_again_after_a_loss() {
    with_sleeper(|tid, cx| {
        let mut unit = Locks::new(&Settings::default()).expect("made");
        let sample = |time| UnitSample { role: CLOCK, tid: 1, time, ..UnitSample::default() };
        unit.record(&sample(10), cx);
        assert_eq!(since(&unit, tid), Some(10));
        unit.lost(&LOSS);
        assert_eq!(since(&unit, tid), None, "it may have the lock now");
        unit.before.set_pause(true);
        unit.record(&sample(40), cx);
        assert_eq!(since(&unit, tid), None);
        unit.before.set_pause(false);
        unit.record(&sample(50), cx);
        assert_eq!(since(&unit, tid), Some(50));
    });
}

#[test]
fn a_thread_with_a_record_since_the_loss_is_not_looked_up() {
    with_sleeper(|tid, cx| {
        let mut unit = Locks::new(&Settings::default()).expect("made");
        let sample = |tid, time| UnitSample { role: CLOCK, tid, time, ..UnitSample::default() };
        unit.lost(&LOSS);
        unit.before.set_pause(true);
        // It runs, and its next wait has a record.
        unit.record(&sample(tid, 40), cx);
        unit.before.set_pause(false);
        unit.record(&sample(1, 50), cx);
        assert_eq!(since(&unit, tid), None);
    });
}
