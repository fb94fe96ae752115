//! Context switches from sched:sched_switch: the threads that leave and enter a CPU, and their names.

use crate::event::format::Field;
use crate::perfdata::EventDesc;
use crate::session::Origin;

use super::tracepoints;

/// The decoder of a session's switches.
#[derive(Clone, Debug)]
pub struct Switches {
    pub(crate) event: u16,
    prev: Field,
    next: Field,
    comms: [Option<Field>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switch {
    pub(crate) prev: i32,
    pub(crate) next: i32,
}

impl Switches {
    /// Returns `None` if switches are not recorded or their fields are unknown.
    pub(crate) fn among(events: &[EventDesc], tracing: &[u8], origin: Origin) -> Option<Self> {
        let (event, format) = tracepoints::among(events, tracing, origin, "sched:sched_switch")?;
        Some(Self {
            event,
            prev: format.field("prev_pid")?.clone(),
            next: format.field("next_pid")?.clone(),
            comms: ["prev_comm", "next_comm"].map(|name| format.field(name).cloned()),
        })
    }

    pub(crate) fn read(&self, event: u16, raw: &[u8]) -> Option<Switch> {
        if event != self.event {
            return None;
        }
        let number = |field: &Field| i32::try_from(field.number(raw)?).ok();
        Some(Switch { prev: number(&self.prev)?, next: number(&self.next)? })
    }

    /// Returns the names of the two threads of a switch, if the record has them.
    pub(crate) fn names<'a>(&self, event: u16, raw: &'a [u8]) -> [Option<(i32, &'a [u8])>; 2] {
        let Some(switch) = self.read(event, raw) else { return [None; 2] };
        let [prev, next] = &self.comms;
        [(switch.prev, prev), (switch.next, next)].map(|(tid, field)| {
            let name = field.as_ref()?.bytes(raw)?;
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            (tid > 0 && end > 0).then(|| (tid, &name[..end]))
        })
    }
}
