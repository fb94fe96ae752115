//! The scheduler's tracepoints from which the trace processor derives the states of threads.

use crate::event::format::Format;
use crate::panel::text::clean;
use crate::query::Data;

use super::messages::{FtraceEvent, SchedSwitch, SchedWaking};

const SWITCH: &str = "sched_switch";
const WAKING: &str = "sched_waking";

/// The scheduler's events of a profile, with their fields.
pub(super) struct SchedEvents<'a>(Vec<(u16, &'a Format)>);

impl<'a> SchedEvents<'a> {
    pub(super) fn of(data: Data<'a>) -> Self {
        let is_wanted = |format: &Format| format.system == "sched" && [SWITCH, WAKING].contains(&&*format.name);
        let formats = (0..data.events.len() as u16).filter_map(|event| Some((event, &**data.profile.format(event)?)));
        Self(formats.filter(|(_, format)| is_wanted(format)).collect())
    }

    /// Returns whether states of threads cannot be derived: wake-ups alone tell none.
    pub(super) fn is_empty(&self) -> bool {
        !self.0.iter().any(|(_, format)| format.name == SWITCH)
    }

    /// Returns the event of a sample; `None` for other events, and without the data.
    pub(super) fn read(&self, event: u16, raw: &[u8]) -> Option<FtraceEvent> {
        let (_, format) = self.0.iter().find(|(of, _)| *of == event)?;
        let number = |name: &str| format.field(name)?.number(raw);
        let small = |name: &str| i32::try_from(number(name)?).ok();
        let text = |name: &str| {
            let bytes = format.field(name)?.bytes(raw)?;
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            Some(clean(&String::from_utf8_lossy(&bytes[..end])).into_owned())
        };
        if format.name == WAKING {
            let waking = SchedWaking {
                comm: text("comm"),
                pid: Some(small("pid")?),
                prio: small("prio"),
                success: Some(1),
                target_cpu: small("target_cpu"),
            };
            return Some(FtraceEvent { sched_waking: Some(waking), ..FtraceEvent::default() });
        }
        let switch = SchedSwitch {
            prev_comm: text("prev_comm"),
            prev_pid: Some(small("prev_pid")?),
            prev_prio: small("prev_prio"),
            prev_state: number("prev_state"),
            next_comm: text("next_comm"),
            next_pid: Some(small("next_pid")?),
            next_prio: small("next_prio"),
        };
        let pid = switch.prev_pid.map(i32::cast_unsigned);
        Some(FtraceEvent { pid, sched_switch: Some(switch), ..FtraceEvent::default() })
    }
}
