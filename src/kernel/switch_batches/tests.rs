//! Tests of the programs in this machine's kernel: the events of two threads that wake each other.

use std::sync::mpsc::sync_channel;

use super::*;
use crate::kernel::bpf::calls::or_skipped;

/// Returns programs that store these kinds; `None` where loading is not permitted.
fn recorder(kinds: &[SchedEventKind]) -> Option<SwitchRecorder> {
    or_skipped(SwitchRecorder::load().and_then(|mut recorder| {
        kinds.iter().try_for_each(|kind| recorder.attach(*kind))?;
        Ok(recorder)
    }))
}

fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Without rings for records, only the newest events can be read.
#[test]
fn events_are_stored_in_order_with_their_tasks() {
    let Some(recorder) = recorder(&SchedEventKind::ALL) else { return };
    let cpus = 0..recorder.cpus as u32;
    std::thread::sleep(std::time::Duration::from_millis(1));
    assert_eq!(cpus.clone().map(|cpu| recorder.count(cpu)).sum::<u64>(), 0, "no kind is selected");
    recorder.select(SchedEventKind::ALL);
    let (to, from) = sync_channel(0);
    let (back, answers) = sync_channel(0);
    let mut found = Vec::new();
    let own = tid();
    std::thread::scope(|scope| {
        let child = scope.spawn(move || {
            for n in from {
                back.send(n).expect("answered");
            }
            tid()
        });
        // Each round has wake-ups; events of other tasks may leave none of a round in the buffers.
        for n in 0..1_000 {
            to.send(n).expect("sent");
            answers.recv().expect("answered");
            found = cpus.clone().flat_map(|cpu| events(&recorder, cpu)).collect();
            let is_own = |event: &SwitchEvent| event.kind == SchedEventKind::Switch && event.current.tid == own;
            if found.iter().any(is_own) {
                break;
            }
        }
        drop(to);
        child.join().expect("joined")
    });
    recorder.select([]);
    let counts: Vec<u64> = cpus.clone().map(|cpu| recorder.count(cpu)).collect();
    let switch =
        found.iter().find(|event| event.kind == SchedEventKind::Switch && event.current.tid == own).expect("a switch");
    assert_eq!(switch.pid, std::process::id() as i32);
    let name = std::fs::read("/proc/thread-self/comm").expect("read");
    let name = name.trim_ascii_end();
    assert!(switch.current.comm.starts_with(name), "{switch:?}");
    assert_eq!(switch.current.prio, 120 + nice(), "{switch:?}");
    std::thread::sleep(std::time::Duration::from_millis(1));
    assert_eq!(cpus.map(|cpu| recorder.count(cpu)).collect::<Vec<u64>>(), counts, "no kind is selected");
}

fn nice() -> i32 {
    rustix::process::getpriority_process(None).expect("read")
}

/// Returns the events of a CPU's buffer; their times must ascend, and none may be later than now.
fn events(recorder: &SwitchRecorder, cpu: u32) -> Vec<SwitchEvent> {
    let partial = recorder.partial(cpu);
    assert!(partial.first.is_multiple_of(EVENTS));
    let events: Vec<SwitchEvent> =
        partial.events.chunks_exact(EVENT).map(|event| SwitchEvent::parse(event).expect("whole")).collect();
    assert!(events.is_sorted_by_key(|event| event.time) && events.len() < EVENTS as usize, "{events:?}");
    assert!(events.iter().all(|event| event.time <= crate::kernel::monotonic_ns()), "{events:?}");
    events
}

#[test]
fn the_current_buffer_has_the_events_of_no_record() {
    let recorder = SwitchRecorder::staged();
    let count = recorder.buffers.word(COUNT);
    for (before, first, n) in [(0, 0, 0), (5, 0, 5), (64, 64, 0), (200, 192, 8)] {
        count.store(before, Ordering::Release);
        let partial = recorder.partial(0);
        assert_eq!((partial.first, partial.events.len()), (first, n * EVENT));
    }
    assert_eq!(recorder.partial(1), PartialBatch::default(), "there is no such CPU");
}
