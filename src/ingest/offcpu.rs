//! Off-CPU time from sched:sched_switch: how long each task was away, with the stack that it left by,
//! as one more event beside those that were measured.

use crate::event::format::Field;
use crate::perfdata::EventDesc;
use crate::profile::SiteId;
use crate::session::Origin;
use crate::source::Info;

use super::begun::Begun;

/// The name of the event; its periods are nanoseconds.
pub const NAME: &str = "off-cpu";
const SWITCH: &str = "sched:sched_switch";

/// Who is off the CPUs.
#[derive(Clone, Debug)]
pub struct OffCpu {
    /// The event of the switches, and the one that is made of them.
    switch: u16,
    pub event: u16,
    prev: Field,
    next: Field,
    /// How both are called.
    comms: [Option<Field>; 2],
    big: bool,
    /// When each thread left, and from where.
    away: Begun<i32>,
}

/// One switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    pub prev: i32,
    pub next: i32,
}

impl OffCpu {
    /// `None` when no switches are recorded, or their fields are not known.
    pub fn new(info: &Info) -> Option<Self> {
        Self::among(&info.events, &info.tracing, info.origin)
    }

    /// The same among some events; the one that is made of them comes after those.
    pub fn among(events: &[EventDesc], tracing: &[u8], origin: Origin) -> Option<Self> {
        let (switch, format) = super::tracepoints::among(events, tracing, origin, SWITCH)?;
        Some(Self {
            switch,
            event: events.len() as u16,
            prev: format.field("prev_pid")?.clone(),
            next: format.field("next_pid")?.clone(),
            comms: ["prev_comm", "next_comm"].map(|name| format.field(name).cloned()),
            big: format.big,
            away: Begun::default(),
        })
    }

    /// The events that it is made of.
    pub fn made_of(&self) -> [u16; 1] {
        [self.switch]
    }

    /// Reads a sample's switch.
    pub fn switch(&self, event: u16, raw: &[u8]) -> Option<Switch> {
        if event != self.switch {
            return None;
        }
        let number = |field: &Field| i32::try_from(field.number(raw, self.big)?).ok();
        Some(Switch { prev: number(&self.prev)?, next: number(&self.next)? })
    }

    /// How the two of a switch are called, as far as its record says.
    pub fn names<'a>(&self, switch: Switch, raw: &'a [u8]) -> [Option<(i32, &'a [u8])>; 2] {
        let [prev, next] = &self.comms;
        [(switch.prev, prev), (switch.next, next)].map(|(tid, field)| {
            let name = field.as_ref()?.bytes(raw, self.big)?;
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            (tid > 0 && end > 0).then(|| (tid, &name[..end]))
        })
    }

    /// Somebody is back: where they left from and how many nanoseconds ago.
    pub fn back(&mut self, tid: i32, time: u64, epoch: u64) -> Option<(SiteId, u64)> {
        self.away.end(&tid, time, epoch)
    }

    /// Somebody leaves. The idle tasks, which are all thread 0, are never away.
    pub fn leave(&mut self, switch: Switch, time: u64, site: SiteId, epoch: u64) {
        if switch.prev != 0 {
            self.away.begin(switch.prev, time, site, epoch);
        }
    }

    /// Records were lost: who has come back meanwhile is not known.
    pub fn forget(&mut self) {
        self.away.forget();
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::*;
    use crate::ingest::replay;
    use crate::ingest::replay::whole;
    use crate::record::kinds::{misc, types};

    /// Two threads that hand over to each other: every absence lies between two switches.
    #[test]
    fn absences_are_what_the_switches_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/switches.data");
        let mut source = crate::source::recording::open(&[path.into()]).expect("opens");
        let (mut switches, mut by_hand) = (FxHashMap::default(), (0u64, 0u64));
        let off = OffCpu::new(source.info()).expect("switches are recorded");
        let ingest = whole(&mut *source);
        let mut source = crate::source::recording::open(&[path.into()]).expect("opens");
        replay(&mut *source, |core, input, record| {
            let Ok(Some((header, body, _))) = crate::record::kinds::split(record) else { return };
            if header.kind == types::SWITCH && header.misc & misc::SWITCH_OUT == 0 {
                let id = core.events[1].layout().trailer(body).expect("a trailer");
                if let Some(left) = switches.remove(&id.tid) {
                    by_hand = (by_hand.0 + 1, by_hand.1 + (id.time - left));
                }
            }
            let sample = (header.kind == types::SAMPLE).then(|| core.decode(input, header, body)).flatten();
            let Some((event, sample)) = sample else { return };
            let Some(switch) = off.switch(event, sample.raw) else { return };
            if let Some(left) = switches.remove(&switch.next) {
                by_hand = (by_hand.0 + 1, by_hand.1 + (sample.time - left));
            }
            if switch.prev != 0 {
                switches.insert(switch.prev, sample.time);
            }
        })
        .expect("replays");
        let profile = &ingest.core().profile;
        let mut sum = (0, 0);
        for (chunk, range) in profile.between(0, u64::MAX) {
            for i in range.filter(|i| chunk.event[*i] == off.event) {
                sum = (sum.0 + 1, sum.1 + chunk.weight[i]);
            }
        }
        assert!(by_hand.0 > 20, "{by_hand:?}");
        assert_eq!(sum, by_hand);
    }
}
