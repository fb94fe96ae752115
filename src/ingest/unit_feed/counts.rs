//! Figures of units that the kernel counts or sums: readings of counters, and sums of system calls and of an
//! event's hits.

use crate::kernel::call_sums::CallSums;
use crate::session::Session;
use crate::source::{CallReading, CpuCount, HitReading};
use crate::units::kit::{Context, CountedEvents, SummedCalls, SummedHits};

use super::Units;

impl Units {
    /// Applies the counts of counted events from any number of readings; `events` maps them to the session's events.
    pub(crate) fn count(&mut self, counts: &[CpuCount], events: &[u16]) {
        for reading in counts.chunk_by(|one, next| one.time == next.time) {
            self.count_reading(reading, events);
        }
    }

    fn count_reading(&mut self, reading: &[CpuCount], events: &[u16]) {
        let mut read = Vec::new();
        for count in reading {
            let Some(event) = events.get(usize::from(count.event)) else { continue };
            let Some(routes) = self.routes.get(usize::from(*event)) else { continue };
            for (unit, role) in routes {
                let running = &mut self.list[*unit];
                let before = running.readings.insert((*role, count.cpu), count.value);
                // Counting starts with the first reading. A counter that is added later starts at 0.
                if let Some(from) = running.read_at {
                    let n = count.value.saturating_sub(before.unwrap_or(0));
                    running.unit.count(&CountedEvents {
                        role: *role,
                        cpu: count.cpu,
                        from,
                        until: count.time,
                        n,
                        running_percent: count.running_percent,
                    });
                }
                read.push((*unit, count.time));
            }
            self.now = self.now.max(count.time);
        }
        for (unit, time) in read {
            let running = &mut self.list[unit];
            if running.read_at.is_none() {
                running.since = time;
            }
            running.read_at = running.read_at.max(Some(time));
        }
    }

    /// Applies sums of system calls; `events` maps the source's events to the session's.
    pub(crate) fn add_call_sums(&mut self, reading: &CallReading, events: &[u16], session: &Session) {
        let Self { list, routes, names, own, target, .. } = self;
        let event = events.get(usize::from(reading.event)).copied();
        let Some(routes) = event.and_then(|event| routes.get(usize::from(event))) else { return };
        let CallSums { until, sums, open, .. } = &reading.sums;
        for (unit, _) in routes {
            let running = &mut list[*unit];
            if *until <= running.measured {
                continue;
            }
            running.lost = running.lost.saturating_add(reading.lost);
            let calls = SummedCalls {
                from: reading.from,
                until: *until,
                sums: sums.iter().collect(),
                open: open.iter().collect(),
            };
            let measured = reading.is_narrow.then_some(&*target);
            running.unit.add_sums(&calls, measured, &mut Context::new(session, names, own));
        }
        self.now = self.now.max(*until);
    }

    /// Applies sums of an event's hits; `events` maps the source's events to the session's.
    pub(crate) fn add_hit_sums(&mut self, reading: &HitReading, events: &[u16], session: &Session) {
        let Self { list, routes, names, own, target, .. } = self;
        let event = events.get(usize::from(reading.event)).copied();
        let Some(routes) = event.and_then(|event| routes.get(usize::from(event))) else { return };
        let HitReading { from, until, .. } = *reading;
        for (unit, role) in routes {
            let running = &mut list[*unit];
            if until > running.measured {
                let hits = SummedHits { role: *role, from, until, sums: reading.sums.clone() };
                let measured = reading.is_narrow.then_some(&*target);
                running.unit.add_hits(hits, measured, &mut Context::new(session, names, own));
            }
        }
        self.now = self.now.max(until);
    }

    /// Returns whether the first unit's figures come from counters, so that they end with a reading.
    pub(crate) fn is_read(&self) -> bool {
        self.list.first().is_some_and(|running| running.read_at.is_some())
    }
}
