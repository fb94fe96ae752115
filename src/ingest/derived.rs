//! Series that are derived from samples: events of their own, whose samples say how long something took.

use std::fmt::Debug;

use crate::perfdata::EventDesc;
use crate::profile::SiteId;
use crate::record::Sample;
use crate::session::Origin;

use super::{offcpu, pairs};

/// What something took: the site of its beginning, and nanoseconds.
pub type Took = (SiteId, u64);

/// One series.
pub trait Series: Debug + Send + Sync {
    /// How its event is called.
    fn name(&self) -> &str;
    /// The events that it is made of.
    fn made_of(&self) -> Vec<u16>;
    /// Takes in a sample of one of them; what it ends. A sample that is not kept, as it is our own, has no site.
    fn sample(&mut self, event: u16, sample: &Sample<'_>, site: Option<SiteId>) -> Option<Took>;
    /// A thread has come to a CPU, by a record of its own.
    fn came(&mut self, _tid: i32, _time: u64) -> Option<Took> {
        None
    }
    /// What has begun is not known any more.
    fn forget(&mut self);
    /// The same for another machine.
    fn copy(&self) -> Box<dyn Series>;
}

/// Where series are looked for.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub events: &'a [EventDesc],
    /// What a recording says of its tracepoints.
    pub tracing: &'a [u8],
    pub origin: Origin,
    known: &'a Derived,
}

impl Place<'_> {
    /// Whether a series is there already.
    pub fn has(&self, name: &str) -> bool {
        self.known.list.iter().any(|(_, series)| series.name() == name)
    }
}

/// Series of one kind.
pub type Found = Vec<Box<dyn Series>>;

/// Each kind: those that events have and that are not there yet.
const KINDS: &[fn(&Place<'_>) -> Found] = &[offcpu::among, pairs::among];

/// The series of a session, each with its event.
#[derive(Debug, Default)]
pub struct Derived {
    list: Vec<(u16, Box<dyn Series>)>,
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
        let place = Place { events, tracing, origin, known: self };
        let found: Found = KINDS.iter().flat_map(|kind| kind(&place)).collect();
        let names = found.iter().map(|series| series.name().to_owned()).collect();
        for (at, series) in found.into_iter().enumerate() {
            for event in series.made_of().into_iter().map(usize::from) {
                self.feeds.resize(self.feeds.len().max(event + 1), false);
                self.feeds[event] = true;
            }
            self.list.push(((events.len() + at) as u16, series));
        }
        names
    }

    /// Each with the events that it is made of.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Vec<u16>)> + '_ {
        self.list.iter().map(|(event, series)| (*event, series.made_of()))
    }

    /// Takes a sample in; `each` gets what it ends, with the event that tells it.
    pub fn sample(
        &mut self,
        event: u16,
        sample: &Sample<'_>,
        site: Option<SiteId>,
        epoch: u64,
        mut each: impl FnMut(u16, Took),
    ) {
        if !self.feeds.get(usize::from(event)).is_some_and(|feeds| *feeds) {
            return;
        }
        self.turn_to(epoch);
        for (own, series) in &mut self.list {
            series.sample(event, sample, site).into_iter().for_each(|took| each(*own, took));
        }
    }

    /// A thread has come to a CPU, by a record of its own.
    pub fn came(&mut self, tid: i32, time: u64, epoch: u64, mut each: impl FnMut(u16, Took)) {
        self.turn_to(epoch);
        for (own, series) in &mut self.list {
            series.came(tid, time).into_iter().for_each(|took| each(*own, took));
        }
    }

    fn turn_to(&mut self, epoch: u64) {
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            self.forget();
        }
    }

    /// Records were lost, or sites have other numbers: what had begun has no end.
    pub fn forget(&mut self) {
        self.list.iter_mut().for_each(|(_, series)| series.forget());
    }
}
