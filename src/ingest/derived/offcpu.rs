//! Off-CPU time from sched:sched_switch: how long each task was off the CPU, with its stack at the switch.

use crate::profile::SiteId;
use crate::record::Sample;
use crate::record::open_spans::{OpenSpans, ThreadChange};

use super::{Finder, Series, SeriesInput, SeriesList, SiteDuration};
use crate::ingest::switches::Switches;

/// The name of the event; its periods are nanoseconds.
pub const NAME: &str = "off-cpu";

#[derive(Clone, Debug)]
struct OffCpu {
    switches: Switches,
    /// The time and the site at which each thread left its CPU.
    away: OpenSpans<i32, (), SiteId>,
}

pub(super) const FIND: Finder = among;

/// Returns the series; empty if switches are not recorded or their fields are unknown.
fn among(place: &SeriesInput<'_>) -> SeriesList {
    let found = if place.has(NAME) { None } else { Switches::among(place.events, place.tracing, place.origin) };
    found.map(|switches| Box::new(OffCpu { switches, away: OpenSpans::one_by_one() }) as _).into_iter().collect()
}

impl Series for OffCpu {
    fn name(&self) -> &str {
        NAME
    }

    fn made_of(&self) -> Vec<u16> {
        vec![self.switches.event]
    }

    fn sample(&mut self, event: u16, sample: &Sample<'_>, site: Option<SiteId>) -> Option<SiteDuration> {
        let switch = self.switches.read(event, sample.raw)?;
        let back = self.switched_in(switch.next, sample.time);
        // The idle tasks, which all have the thread number 0, are not counted.
        if let Some(site) = site.filter(|_| switch.prev != 0) {
            self.away.begin(switch.prev, (), sample.time, site);
        }
        back
    }

    fn switched_in(&mut self, tid: i32, time: u64) -> Option<SiteDuration> {
        self.away.take(&tid).map(|away| (away.with, away.took(time)))
    }

    fn thread_changed(&mut self, change: &ThreadChange) {
        self.away.follow(change, |tid| tid);
    }

    fn forget(&mut self, _lost: u64) {
        self.away.forget();
    }

    fn copy(&self) -> Box<dyn Series> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::*;
    use crate::ingest::replay;
    use crate::ingest::replay::whole;
    use crate::record::kinds::{misc, types};

    #[test]
    fn absences_are_what_the_switches_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/switches.data");
        let mut source = crate::source::recording::open(&[path.into()]).expect("opens");
        let (mut switches, mut by_hand) = (FxHashMap::default(), (0u64, 0u64));
        let info = source.info();
        let off = Switches::among(&info.events, &info.tracing, info.origin).expect("switches are recorded");
        let made = info.events.len() as u16;
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
            let Some(switch) = off.read(event, sample.raw) else { return };
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
            for i in range.filter(|i| chunk.event[*i] == made) {
                sum = (sum.0 + 1, sum.1 + chunk.weight[i]);
            }
        }
        assert!(by_hand.0 > 20, "{by_hand:?}");
        assert_eq!(sum, by_hand);
    }
}
