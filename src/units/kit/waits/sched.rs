//! The scheduler's tracepoints, read by the names of their fields (include/trace/events/sched.h).

use std::sync::Arc;

use crate::event::format::Format;
use crate::panel::unit;

use crate::units::kit::field::{Num, Text};
use crate::units::kit::tables::columns::note;
use crate::units::kit::{EventRequest, ThreadNames, UnitSample};

pub(crate) const SWITCH: &str = "sched:sched_switch";
/// `perf sched record` records sched_waking instead of sched_wakeup.
pub(crate) const WAKEUP: &str = "sched:sched_wakeup|sched:sched_waking";
/// The waker's own record, if it is recorded: see [`wants_wakers`].
pub(crate) const WAKING: &str = "sched:sched_waking";
pub(crate) const WAKEUP_NEW: &str = "sched:sched_wakeup_new";

/// Requests switches and wakeups, in this order.
pub(crate) fn wants(stack: bool) -> Vec<EventRequest> {
    vec![
        EventRequest::new(SWITCH).with_stack(stack).batched(),
        EventRequest::new(WAKEUP).with_stack(stack).batched(),
        EventRequest::new(WAKEUP_NEW).with_stack(stack).optional().batched(),
    ]
}

/// Requests switches and wakeups for units that name wakers. The CPU that gets a task finishes its wakeup: sched_wakeup
/// is recorded there, in the context of any task. sched_waking is recorded on the waker's CPU.
pub(crate) fn wants_wakers(stack: bool) -> Vec<EventRequest> {
    let mut wants = wants(stack);
    wants[1].event = format!("{WAKING}|sched:sched_wakeup");
    // The context of the waker is in the flags.
    wants[1..].iter_mut().for_each(|want| want.is_batched = false);
    wants
}

/// Bits of `prev_state` as the tracepoint reports them on kernels since 4.14 (`__trace_sched_switch_state`).
pub(crate) mod state {
    pub(crate) const PREEMPTED: i64 = 0x100;
    pub(crate) const INTERRUPTIBLE: i64 = 1;
    pub(crate) const UNINTERRUPTIBLE: i64 = 2;
    pub(crate) const STOPPED: i64 = 4;
    pub(crate) const TRACED: i64 = 8;
    pub(crate) const DEAD: i64 = 0x10;
    pub(crate) const ZOMBIE: i64 = 0x20;
    pub(crate) const PARKED: i64 = 0x40;
    pub(crate) const IDLE: i64 = 0x80;
    /// A switch without a tracepoint record.
    pub(crate) const UNTOLD: i64 = 1 << 62;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SchedSwitch {
    pub(crate) prev: i32,
    pub(crate) prev_state: i64,
    pub(crate) next: i32,
}

impl SchedSwitch {
    /// The switch that the tracepoint missed before a thread started to run: some kernels omit it when an idle CPU
    /// gets work. `current` is the last known thread on the CPU; `None` means that no switch is known to be missing.
    pub(crate) fn untold(current: Option<i32>, came: i32) -> Option<Self> {
        let prev = current.filter(|tid| *tid != came)?;
        Some(Self { prev, prev_state: state::UNTOLD, next: came })
    }
}

/// Describes wake-ups that the tracepoints missed, as some kernels omit those on idle CPUs: their number, their share of
/// all, and the effect. Empty if there are none.
pub(crate) fn note_unwoken(unwoken: u64, woken: u64, effect: &str) -> String {
    let share = unit::percent(100.0 * unwoken as f64 / unwoken.saturating_add(woken).max(1) as f64);
    note(unwoken, "wake-up", &format!("({share}) not recorded: {effect}"))
}

/// Bits of `common_flags` (TRACE_FLAG_* in include/linux/trace_events.h).
const HARDIRQ: i64 = 0x08;
const SOFTIRQ: i64 = 0x10;
const NMI: i64 = 0x40;

/// The context in which a record was made, from its `common_flags`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum WakeContext {
    #[default]
    Task,
    Softirq,
    Irq,
}

impl WakeContext {
    pub(crate) fn of(flags: i64) -> Self {
        match flags {
            flags if flags & (HARDIRQ | NMI) != 0 => Self::Irq,
            flags if flags & SOFTIRQ != 0 => Self::Softirq,
            _ => Self::Task,
        }
    }

    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Softirq => "softirq",
            Self::Irq => "interrupt",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wakeup {
    pub(crate) tid: i32,
    pub(crate) cpu: u32,
    pub(crate) context: WakeContext,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedEvent {
    Switch(SchedSwitch),
    Wakeup(Wakeup),
}

#[derive(Clone, Debug)]
struct SwitchFields {
    prev: Num,
    prev_state: Num,
    next: Num,
    prev_comm: Option<Text>,
    next_comm: Option<Text>,
}

#[derive(Clone, Debug)]
struct WakeupFields {
    pid: Num,
    cpu: Option<Num>,
    flags: Option<Num>,
    comm: Option<Text>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SchedReader {
    switch: Option<SwitchFields>,
    /// For sched_wakeup and sched_wakeup_new.
    wakeups: [Option<WakeupFields>; 2],
}

impl SchedReader {
    /// Binds one of the events of [`wants`].
    pub(crate) fn bind(&mut self, role: usize, format: Option<&Arc<Format>>) -> Result<(), String> {
        if role == 0 {
            self.switch = Some(SwitchFields {
                prev: Num::of(format, "prev_pid")?,
                prev_state: Num::of(format, "prev_state")?,
                next: Num::of(format, "next_pid")?,
                prev_comm: Text::of(format, "prev_comm").ok(),
                next_comm: Text::of(format, "next_comm").ok(),
            });
        } else if let Some(slot) = self.wakeups.get_mut(role - 1) {
            *slot = Some(WakeupFields {
                pid: Num::of(format, "pid")?,
                cpu: Num::of(format, "target_cpu").ok(),
                flags: Num::of(format, "common_flags").ok(),
                comm: Text::of(format, "comm").ok(),
            });
        }
        Ok(())
    }

    /// Returns whether an event of wakeups is bound.
    pub(crate) fn has_wakeups(&self) -> bool {
        self.wakeups.iter().any(Option::is_some)
    }

    /// Decodes a hit, and stores the names in it.
    pub(crate) fn read(&self, hit: &UnitSample<'_>, names: &mut ThreadNames) -> Option<SchedEvent> {
        if hit.role == 0 {
            let fields = self.switch.as_ref()?;
            let switch = SchedSwitch {
                prev: fields.prev.tid(hit.raw),
                prev_state: fields.prev_state.get(hit.raw),
                next: fields.next.tid(hit.raw),
            };
            if let Some(comm) = fields.next_comm.as_ref().filter(|_| switch.next != 0) {
                names.meet(switch.next, comm.bytes(hit.raw));
            }
            // The name of the previous task is usually known from the switch to it.
            if let Some(comm) = fields.prev_comm.as_ref().filter(|_| switch.prev != 0) {
                names.meet(switch.prev, comm.bytes(hit.raw));
            }
            return Some(SchedEvent::Switch(switch));
        }
        let fields = self.wakeups.get(hit.role - 1)?.as_ref()?;
        let tid = fields.pid.tid(hit.raw);
        if let Some(comm) = &fields.comm {
            names.meet(tid, comm.bytes(hit.raw));
        }
        let cpu = fields.cpu.as_ref().map_or(hit.cpu, |cpu| cpu.get(hit.raw) as u32);
        let context = fields.flags.as_ref().map_or(WakeContext::Task, |flags| WakeContext::of(flags.get(hit.raw)));
        Some(SchedEvent::Wakeup(Wakeup { tid, cpu, context }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_wakeups_are_a_share() {
        assert_eq!(note_unwoken(0, 0, "left out"), "");
        assert_eq!(note_unwoken(1, 3, "left out"), "1 wake-up (25.0 %) not recorded: left out");
        assert_eq!(note_unwoken(4, 0, "left out"), "4 wake-ups (100.0 %) not recorded: left out");
    }

    #[test]
    fn flags_tell_the_context() {
        for (flags, expected) in [
            (0, WakeContext::Task),
            (0x01, WakeContext::Task),
            (0x10, WakeContext::Softirq),
            (0x08, WakeContext::Irq),
            (0x18, WakeContext::Irq),
            (0x40, WakeContext::Irq),
        ] {
            assert_eq!(WakeContext::of(flags), expected, "{flags:#x}");
        }
    }
}
