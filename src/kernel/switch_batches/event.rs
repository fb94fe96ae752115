//! An event as the programs store it (`struct event` in switch_batches.bpf.c).

use super::SchedEventKind;

/// Bytes of an event, and the events of a buffer.
pub(crate) const EVENT: usize = 72;
pub(crate) const EVENTS: u64 = 64;

/// States of tasks in the kernel (include/linux/sched.h): those that the tracepoint reports, and those that it reports
/// as others.
const REPORTED: u32 = 0x7f;
const UNINTERRUPTIBLE: u32 = 2;
const IDLE: u32 = 0x402;
const REPORTED_IDLE: u32 = 0x80;
const LOCKS_OR_FROZEN: u32 = 0x1000 | 0x8000;
const PREEMPTED: u32 = 0x100;

/// A task of an event: its number, priority and name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SwitchTask {
    pub(crate) tid: i32,
    pub(crate) prio: i32,
    pub(crate) comm: [u8; 16],
}

/// A context switch or a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SwitchEvent {
    pub(crate) kind: SchedEventKind,
    /// Nanoseconds of the session's clock.
    pub(crate) time: u64,
    pub(crate) pid: i32,
    pub(crate) cgroup: u64,
    /// The task on the CPU: of a switch, the one that leaves. Only switches have its priority and name.
    pub(crate) current: SwitchTask,
    /// The task that comes or is woken.
    pub(crate) other: SwitchTask,
    /// Of a switch, the state of the task that leaves, as the tracepoint reports it; of a wake-up, the task's CPU.
    pub(crate) state: u32,
}

impl SwitchEvent {
    /// Reads the bytes of an event; `None` if there are too few, or if it has no known kind.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; EVENT] = bytes.first_chunk()?;
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        let half = |at: usize| u32::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        let short = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let prio = |at: usize| i32::from(short(at) as i16);
        let comm = |at: usize| std::array::from_fn(|i| bytes[at + i]);
        let kind = *SchedEventKind::ALL.get(usize::from(bytes[36]))?;
        let (task, state) = (word(8), half(32));
        let state =
            if kind == SchedEventKind::Switch { reported(state, short(38).into(), bytes[37] != 0) } else { state };
        Some(Self {
            kind,
            time: word(0),
            pid: (task >> 32) as i32,
            cgroup: word(16),
            current: SwitchTask { tid: task as u32 as i32, prio: prio(28), comm: comm(40) },
            other: SwitchTask { tid: half(24) as i32, prio: prio(30), comm: comm(56) },
            state,
        })
    }
}

/// Returns a state as the tracepoint reports it (`__trace_sched_switch_state` of Linux since 4.14).
fn reported(state: u32, exit_state: u32, preempted: bool) -> u32 {
    if preempted {
        return PREEMPTED;
    }
    let bits = match state {
        _ if state & LOCKS_OR_FROZEN != 0 => UNINTERRUPTIBLE,
        _ if state & IDLE == IDLE => REPORTED_IDLE,
        _ => (state | exit_state) & REPORTED,
    };
    // The highest one.
    bits.checked_ilog2().map_or(0, |bit| 1 << bit)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the bytes of an event, as the programs store it.
    pub(crate) fn stored(kind: u8, time: u64, (pid, tid): (u32, u32), other: u32, state: u32) -> Vec<u8> {
        let mut out = [time, u64::from(pid) << 32 | u64::from(tid), 55].map(u64::to_ne_bytes).concat();
        out.extend(other.to_ne_bytes());
        out.extend([120i16, -1].map(i16::to_ne_bytes).concat());
        out.extend(state.to_ne_bytes());
        out.extend([kind, 0, 0, 0]);
        out.extend(b"leaves\0\0\0\0\0\0\0\0\0\0comes\0\0\0\0\0\0\0\0\0\0\0");
        out
    }

    #[test]
    fn an_event_has_both_tasks() {
        let bytes = stored(0, 99, (6, 7), 8, 1);
        assert_eq!(bytes.len(), EVENT);
        let comm = |name: &[u8]| std::array::from_fn(|i| name.get(i).copied().unwrap_or(0));
        let expected = SwitchEvent {
            kind: SchedEventKind::Switch,
            time: 99,
            pid: 6,
            cgroup: 55,
            current: SwitchTask { tid: 7, prio: 120, comm: comm(b"leaves") },
            other: SwitchTask { tid: 8, prio: -1, comm: comm(b"comes") },
            state: 1,
        };
        assert_eq!(SwitchEvent::parse(&bytes), Some(expected));
        let woken = SwitchEvent::parse(&stored(1, 99, (6, 7), 8, 3)).expect("whole");
        assert_eq!((woken.kind, woken.state), (SchedEventKind::Wakeup, 3), "it is a CPU, not a state");
        for odd in [&bytes[..EVENT - 1], &[], &stored(4, 99, (6, 7), 8, 1)] {
            assert_eq!(SwitchEvent::parse(odd), None);
        }
    }

    #[test]
    fn states_are_those_that_the_tracepoint_reports() {
        for (state, exit_state, preempted, expected) in [
            (0, 0, false, 0),
            (0, 0, true, 0x100),
            (1, 0, true, 0x100),
            (1, 0, false, 1),
            (0x2002, 0, false, 2),
            (0x402, 0, false, 0x80),
            (0x80, 0x20, false, 0x20),
            (0x80, 0x10, false, 0x10),
            (0x1000, 0, false, 2),
            (0x8000, 0, false, 2),
            (0x40, 0, false, 0x40),
            (u32::MAX, u32::MAX, false, 2),
        ] {
            assert_eq!(reported(state, exit_state, preempted), expected, "{state:#x} {exit_state:#x} {preempted}");
        }
    }
}
