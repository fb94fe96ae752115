//! Series derived from samples: mostly separate events, whose samples are durations.

use std::fmt::Debug;

use crate::ingest::derived::softirq_times::HandlerTimes;
use crate::perfdata::EventDesc;
use crate::profile::SiteId;
use crate::record::Sample;
use crate::record::open_spans::ThreadChange;
use crate::session::Origin;

pub mod softirq_times;

/// A duration: the site of its start, and nanoseconds.
pub type SiteDuration = (SiteId, u64);

impl Debug for dyn Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Series").field(&self.name()).finish()
    }
}

/// A series.
pub trait Series: Send + Sync {
    /// Returns the name of the event of its samples, or of the series if it is not an event.
    fn name(&self) -> &str;
    /// Returns whether its samples are an event with its name.
    fn is_event(&self) -> bool {
        true
    }
    /// Returns its source events.
    fn made_of(&self) -> Vec<u16>;
    /// Applies a source event's sample; returns the duration that it ends. Our own samples have no site: none is kept.
    fn sample(&mut self, event: u16, sample: &Sample<'_>, site: Option<SiteId>) -> Option<SiteDuration>;
    /// Handles a thread that starts running on a CPU, as reported by a separate record.
    fn switched_in(&mut self, _tid: i32, _time: u64) -> Option<SiteDuration> {
        None
    }
    /// Handles a thread that starts, exits or changes its number.
    fn thread_changed(&mut self, _change: &ThreadChange) {}
    /// Drops open durations, because records were lost or sites were renumbered.
    fn forget(&mut self, lost: u64);
    /// Returns the times of handlers, if the series measures them.
    fn times(&self) -> Option<HandlerTimes> {
        None
    }
    /// Returns an empty copy of the series for another machine.
    fn copy(&self) -> Box<dyn Series>;
}

/// The events and fields from which series are derived.
#[derive(Clone, Copy)]
pub struct SeriesInput<'a> {
    pub(crate) events: &'a [EventDesc],
    /// The tracing data of a recording.
    pub tracing: &'a [u8],
    pub(crate) origin: Origin,
    known: &'a [Entry],
}

impl SeriesInput<'_> {
    /// Returns whether a series exists already.
    pub fn has(&self, name: &str) -> bool {
        self.known.iter().any(|(_, series)| series.name() == name)
    }
}

/// Series of one kind.
pub type SeriesList = Vec<Box<dyn Series>>;

/// Creates the possible series of a kind that do not exist yet.
type Finder = fn(&SeriesInput<'_>) -> SeriesList;

listed! {
    /// All kinds; the events of series have this order.
    const KINDS: Finder = FIND of offcpu, pairs, softirqs;
}

type Entry = (Option<u16>, Box<dyn Series>);

/// The series of a session.
#[derive(Debug, Default)]
pub struct Derived {
    list: Vec<Entry>,
    feeds: Vec<bool>,
    /// The profile's epoch of the sites; those of an older epoch are invalid.
    epoch: u64,
}

impl Clone for Derived {
    fn clone(&self) -> Self {
        let list = self.list.iter().map(|(event, series)| (*event, series.copy())).collect();
        Self { list, feeds: self.feeds.clone(), epoch: self.epoch }
    }
}

impl Derived {
    /// Creates the series that these events allow. Returns their events' names, which follow the existing ones.
    pub fn find(&mut self, events: &[EventDesc], tracing: &[u8], origin: Origin) -> Vec<String> {
        let place = SeriesInput { events, tracing, origin, known: &self.list };
        let found: SeriesList = KINDS.iter().flat_map(|kind| kind(&place)).collect();
        let mut names = Vec::new();
        for series in found {
            for event in series.made_of().into_iter().map(usize::from) {
                self.feeds.resize(self.feeds.len().max(event + 1), false);
                self.feeds[event] = true;
            }
            let own = series.is_event().then(|| (events.len() + names.len()) as u16);
            names.extend(own.map(|_| series.name().to_owned()));
            self.list.push((own, series));
        }
        names
    }

    /// Returns each series' event with its source events.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Vec<u16>)> + '_ {
        self.list.iter().filter_map(|(own, series)| Some(((*own)?, series.made_of())))
    }

    /// Applies a sample; passes each duration that it ends to `each`, with the series' event.
    pub fn sample(
        &mut self,
        event: u16,
        sample: &Sample<'_>,
        site: Option<SiteId>,
        epoch: u64,
        mut each: impl FnMut(u16, SiteDuration),
    ) {
        if !self.feeds.get(usize::from(event)).is_some_and(|feeds| *feeds) {
            return;
        }
        self.turn_to(epoch);
        for (own, series) in &mut self.list {
            series.sample(event, sample, site).zip(*own).into_iter().for_each(|(took, own)| each(own, took));
        }
    }

    /// Handles a thread that starts running on a CPU, as reported by a separate record.
    pub fn switched_in(&mut self, tid: i32, time: u64, epoch: u64, mut each: impl FnMut(u16, SiteDuration)) {
        self.turn_to(epoch);
        for (own, series) in &mut self.list {
            series.switched_in(tid, time).zip(*own).into_iter().for_each(|(took, own)| each(own, took));
        }
    }

    pub(crate) fn thread_changed(&mut self, change: &ThreadChange) {
        self.list.iter_mut().for_each(|(_, series)| series.thread_changed(change));
    }

    fn turn_to(&mut self, epoch: u64) {
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            self.forget(0);
        }
    }

    /// Drops open durations, because records were lost or sites were renumbered.
    pub fn forget(&mut self, lost: u64) {
        self.list.iter_mut().for_each(|(_, series)| series.forget(lost));
    }

    /// Returns the time in softirqs, if their tracepoints are recorded.
    pub fn times(&self) -> Option<HandlerTimes> {
        self.list.iter().find_map(|(_, series)| series.times())
    }
}
