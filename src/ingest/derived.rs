//! Series that are derived from samples: mostly events of their own, whose samples say how long something took.

use std::fmt::Debug;

use crate::cpu::softirq::HandlerTimes;
use crate::perfdata::EventDesc;
use crate::profile::SiteId;
use crate::record::Sample;
use crate::record::open_spans::ThreadChange;
use crate::session::Origin;

/// The duration of something: the site of its beginning, and nanoseconds.
pub type SiteDuration = (SiteId, u64);

impl Debug for dyn Series {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Series").field(&self.name()).finish()
    }
}

/// One series.
pub trait Series: Send + Sync {
    /// The event that its samples are shown as; for one that is none, a name of the series.
    fn name(&self) -> &str;
    /// True if what it tells is an event of its own, by its name.
    fn is_event(&self) -> bool {
        true
    }
    /// The events that it is made of.
    fn made_of(&self) -> Vec<u16>;
    /// Takes in a sample of one of them; what it ends. A sample that is not kept, as it is our own, has no site.
    fn sample(&mut self, event: u16, sample: &Sample<'_>, site: Option<SiteId>) -> Option<SiteDuration>;
    /// A thread has come to a CPU, by a record of its own.
    fn came(&mut self, _tid: i32, _time: u64) -> Option<SiteDuration> {
        None
    }
    /// A thread begins, ends or gets another number.
    fn thread_changed(&mut self, _change: &ThreadChange) {}
    /// So many records were lost, or sites have other numbers: what has begun is not known any more.
    fn forget(&mut self, lost: u64);
    /// The times of handlers, of a series that measures them.
    fn times(&self) -> Option<HandlerTimes> {
        None
    }
    /// The series anew, for another machine.
    fn copy(&self) -> Box<dyn Series>;
}

/// The events and fields in which series are looked for.
#[derive(Clone, Copy)]
pub struct SeriesInput<'a> {
    pub(crate) events: &'a [EventDesc],
    /// What a recording says of its tracepoints.
    pub tracing: &'a [u8],
    pub(crate) origin: Origin,
    known: &'a [Entry],
}

impl SeriesInput<'_> {
    /// True if a series is there already.
    pub fn has(&self, name: &str) -> bool {
        self.known.iter().any(|(_, series)| series.name() == name)
    }
}

/// Series of one kind.
pub type SeriesList = Vec<Box<dyn Series>>;

/// Makes the series of a kind that events have and that are not there yet.
type Finder = fn(&SeriesInput<'_>) -> SeriesList;

listed! {
    /// Each kind's; the events of series come in this order.
    const KINDS: Finder = FIND of offcpu, pairs, softirqs;
}

/// A series, and the event that tells it.
type Entry = (Option<u16>, Box<dyn Series>);

/// The series of a session.
#[derive(Debug, Default)]
pub struct Derived {
    list: Vec<Entry>,
    /// By event whether anything is made of it.
    feeds: Vec<bool>,
    /// The profile's epoch that sites are of: those of another one mean nothing any more.
    epoch: u64,
}

impl Clone for Derived {
    fn clone(&self) -> Self {
        let list = self.list.iter().map(|(event, series)| (*event, series.copy())).collect();
        Self { list, feeds: self.feeds.clone(), epoch: self.epoch }
    }
}

impl Derived {
    /// Makes what more can be made of some events; its own come after those, by these names.
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

    /// Each with the events that it is made of.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Vec<u16>)> + '_ {
        self.list.iter().filter_map(|(own, series)| Some(((*own)?, series.made_of())))
    }

    /// Takes a sample in; `each` gets what it ends, with the event that tells it.
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

    /// A thread has come to a CPU, by a record of its own.
    pub fn came(&mut self, tid: i32, time: u64, epoch: u64, mut each: impl FnMut(u16, SiteDuration)) {
        self.turn_to(epoch);
        for (own, series) in &mut self.list {
            series.came(tid, time).zip(*own).into_iter().for_each(|(took, own)| each(own, took));
        }
    }

    /// A thread begins, ends or gets another number.
    pub(crate) fn thread_changed(&mut self, change: &ThreadChange) {
        self.list.iter_mut().for_each(|(_, series)| series.thread_changed(change));
    }

    fn turn_to(&mut self, epoch: u64) {
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            self.forget(0);
        }
    }

    /// So many records were lost, or sites have other numbers: what had begun has no end.
    pub fn forget(&mut self, lost: u64) {
        self.list.iter_mut().for_each(|(_, series)| series.forget(lost));
    }

    /// The time in softirqs, where their tracepoints are there.
    pub fn times(&self) -> Option<HandlerTimes> {
        self.list.iter().find_map(|(_, series)| series.times())
    }
}
