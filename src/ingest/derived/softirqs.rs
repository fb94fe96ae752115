//! Time in softirqs and interrupts, from a session's tracepoints.

use std::collections::BTreeMap;

use crate::ingest::derived::softirq_times::{EVENTS, HandlerTimes, Pairs, SoftirqEvent, SoftirqReader};
use crate::perfdata::EventDesc;
use crate::profile::SiteId;
use crate::record::Sample;
use crate::session::Origin;
use crate::source::Info;

use super::{Finder, Series, SeriesInput, SeriesList, SiteDuration};
use crate::ingest::tracepoints;

const NAME: &str = "softirqs";

#[derive(Clone, Debug)]
pub(crate) struct SoftirqTrace {
    readers: BTreeMap<u16, SoftirqReader>,
    pub(crate) pairs: Pairs,
}

impl SoftirqTrace {
    /// Returns `None` if the recording has no pair of the tracepoints.
    pub(crate) fn new(info: &Info) -> Option<Self> {
        Self::among(&info.events, &info.tracing, info.origin)
    }

    pub(crate) fn among(events: &[EventDesc], tracing: &[u8], origin: Origin) -> Option<Self> {
        let readers: BTreeMap<u16, SoftirqReader> = SoftirqEvent::ALL
            .into_iter()
            .zip(EVENTS)
            .filter_map(|(which, name)| {
                let (event, format) = tracepoints::among(events, tracing, origin, name)?;
                Some((event, SoftirqReader::new(which, &format)?))
            })
            .collect();
        let has = |which| readers.values().any(|r| r.which() == which);
        let paired = has(SoftirqEvent::Entry) && has(SoftirqEvent::Exit)
            || has(SoftirqEvent::IrqEntry) && has(SoftirqEvent::IrqExit);
        paired.then(|| Self { readers, pairs: Pairs::default() })
    }

    pub(crate) fn add(&mut self, event: u16, sample: &Sample<'_>) {
        if let Some(seen) = self.readers.get(&event).and_then(|reader| reader.read(sample.raw)) {
            self.pairs.add(sample.cpu, sample.time, seen);
        }
    }
}

pub(super) const FIND: Finder = among;

/// Returns the series; empty for several machines, because it counts by CPU number.
fn among(place: &SeriesInput<'_>) -> SeriesList {
    let found = (!place.has(NAME)).then(|| SoftirqTrace::among(place.events, place.tracing, place.origin)).flatten();
    found.map(|trace| Box::new(trace) as _).into_iter().collect()
}

impl Series for SoftirqTrace {
    fn name(&self) -> &str {
        NAME
    }

    fn is_event(&self) -> bool {
        false
    }

    fn made_of(&self) -> Vec<u16> {
        self.readers.keys().copied().collect()
    }

    fn sample(&mut self, event: u16, sample: &Sample<'_>, _site: Option<SiteId>) -> Option<SiteDuration> {
        self.add(event, sample);
        None
    }

    /// Handles losses; renumbered sites do not matter, because there are none.
    fn forget(&mut self, lost: u64) {
        if lost > 0 {
            self.pairs.lose(lost);
        }
    }

    fn times(&self) -> Option<HandlerTimes> {
        Some(self.pairs.snapshot())
    }

    fn copy(&self) -> Box<dyn Series> {
        Box::new(self.clone())
    }
}
