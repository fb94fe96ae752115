//! Figures of units that were ended or reset, so that both can be undone.

use crate::ingest::unit_events::shared;
use crate::source::SharedEvents;
use crate::units::kit::{FilteredUnit, LostEvents};

use super::{MAX_UNITS, Running, Units};

const MAX_ENDED: usize = 4;

#[derive(Debug)]
struct Ended {
    running: Running,
    events: Vec<(usize, usize)>,
    at: u64,
}

/// Figures that can be restored: those of the last ended units, and those before the last reset.
#[derive(Debug, Default)]
pub(super) struct KeptFigures {
    ended: Vec<Ended>,
    reset: Vec<Running>,
    reset_at: u64,
}

impl KeptFigures {
    pub(super) fn end(&mut self, mut running: Running, events: Vec<(usize, usize)>, at: u64) {
        running.unit.stop();
        self.ended.push(Ended { running, events, at });
        self.ended.drain(..self.ended.len().saturating_sub(MAX_ENDED));
    }
}

/// Reports a gap without records to a unit, so that it pairs no events across the gap.
fn span_gap(unit: &mut FilteredUnit, from: u64, until: u64) {
    unit.lost(&LostEvents { cpu: None, from: from.min(until), until, records: 0 });
}

impl Units {
    /// Restarts an ended unit with its figures. Returns the events that it needs, or why it cannot be restarted.
    pub(crate) fn resume(&mut self, id: u64, now: u64) -> Result<SharedEvents, String> {
        let Some(place) = self.kept.ended.iter().position(|ended| ended.running.id == id) else {
            return Err(format!(
                "the figures of that unit are no longer kept, only those of the last {MAX_ENDED} units"
            ));
        };
        if self.list.len() >= MAX_UNITS {
            return Err(format!("{MAX_UNITS} units run already; press x on their screen to end one"));
        }
        let running = &self.kept.ended[place].running;
        let wanted = shared(&running.unit.event_requests(), running.unit.sees_machine)?;
        let Ended { mut running, events, at } = self.kept.ended.remove(place);
        let now = now.max(at);
        span_gap(&mut running.unit, at, now);
        running.since = running.since.saturating_add(now - at);
        running.measured = now;
        // A counter that is opened again starts at 0.
        running.readings.clear();
        running.gap = Some(now - at);
        for (event, role) in events {
            if let Some(routes) = self.routes.get_mut(event) {
                routes.push((self.list.len(), role));
            }
        }
        self.list.push(running);
        self.now = self.now.max(now);
        Ok(wanted)
    }

    /// Resets the figures of all units, and keeps the old ones until the next reset.
    pub(crate) fn reset_kept(&mut self, now: u64) {
        (self.kept.reset, self.kept.reset_at) = (self.list.clone(), now);
        self.reset(now);
    }

    /// Restores the figures before the last reset. The error is the reason why they cannot be restored.
    pub(crate) fn undo_reset(&mut self, now: u64) -> Result<(), String> {
        let kept = std::mem::take(&mut self.kept.reset);
        let mut back = 0;
        let at = self.kept.reset_at;
        let now = now.max(at);
        for Running { id, mut unit, since, lost, .. } in kept {
            let Some(running) = self.list.iter_mut().find(|running| running.id == id) else { continue };
            span_gap(&mut unit, at, now);
            (running.unit, running.since, running.lost) = (unit, since.saturating_add(now - at), lost);
            back += 1;
        }
        if back == 0 { Err("the figures before the reset are no longer kept".to_owned()) } else { Ok(()) }
    }
}

/// Returns the note on the time for which a unit was stopped.
pub(super) fn gap_note(ns: u64) -> String {
    format!("nothing was measured for {} while it was stopped", crate::panel::unit::duration(ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::session::{Origin, Session};
    use crate::source::CpuCount;
    use crate::units;
    use crate::units::kit::Settings;

    fn counted() -> (Units, u64) {
        let spec = units::find("stat").expect("a unit");
        let mut settings = Settings::default();
        settings.set("event", "page-faults");
        let unit = units::make(spec, &settings).expect("made");
        let mut units = Units::default();
        let id = units.start(unit, 0).expect("starts");
        units.set_quiet(0, true);
        units.routes[0].push((0, 0));
        units.count(&[one(100, 5), one(200, 12)], &[0]);
        (units, id)
    }

    fn one(time: u64, value: u64) -> CpuCount {
        CpuCount { event: 0, cpu: 0, time, value, running_percent: 100.0 }
    }

    fn hits(units: &mut Units, id: u64) -> Option<crate::panel::Cell> {
        let answers = units.answers(&Session::new(Origin::Live), &Profile::default(), 0, Some(id));
        let answer = answers.iter().find(|answer| answer.id == id)?;
        answer.panels[0].rows().and_then(|rows| rows.table.rows.first()).map(|row| row[1].clone())
    }

    #[test]
    fn an_ended_unit_goes_on_with_its_figures() {
        let (mut units, id) = counted();
        assert_eq!(hits(&mut units, id), Some(crate::panel::Cell::Count(7)));
        assert_eq!(units.stop(id), [0]);
        assert_eq!(hits(&mut units, id), None);
        assert_eq!(units.resume(id, 1000).expect("it is kept").events.len(), 1);
        assert_eq!(hits(&mut units, id), Some(crate::panel::Cell::Count(7)));
        // Its counter starts at 0 again.
        units.count(&[one(1100, 3)], &[0]);
        assert_eq!(hits(&mut units, id), Some(crate::panel::Cell::Count(10)));
        assert!(units.resume(id, 1200).is_err(), "it runs");
        // Older ones are dropped.
        for _ in 0..=MAX_ENDED {
            let unit = units::make(units::find("forks").expect("a unit"), &Settings::default()).expect("made");
            let id = units.start(unit, 0).expect("starts");
            units.stop(id);
        }
        units.stop(id);
        assert!(units.resume(id, 1300).is_ok());
        assert!(units.resume(id + 1, 1300).is_err(), "overwritten by later ones");
    }

    #[test]
    fn a_reset_is_undone_until_the_next_one() {
        let (mut units, id) = counted();
        units.reset_kept(300);
        assert_ne!(hits(&mut units, id), Some(crate::panel::Cell::Count(7)));
        units.undo_reset(400).expect("kept");
        assert_eq!(hits(&mut units, id), Some(crate::panel::Cell::Count(7)));
        assert!(units.undo_reset(400).is_err(), "once");
        units.reset_kept(500);
        units.reset_kept(600);
        units.undo_reset(700).expect("kept");
        assert_ne!(hits(&mut units, id), Some(crate::panel::Cell::Count(7)), "the second reset overwrote them");
    }

    #[test]
    fn figures_start_again_when_their_stacks_are_unwound_in_another_way() {
        let (mut units, id) = counted();
        units.list[0].roles[0].bound = true;
        units.begin_stacks_again(300);
        assert_eq!(hits(&mut units, id), Some(crate::panel::Cell::Count(7)), "it has no stacks");
        units.list[0].roles[0].want.stack = true;
        units.begin_stacks_again(400);
        assert_ne!(hits(&mut units, id), Some(crate::panel::Cell::Count(7)));
    }
}
