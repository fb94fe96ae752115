//! A session without a screen, divided into slices: the samples of each interval are named, and then dropped.

use crate::query::Data;
use crate::source::{Batch, Info};
use crate::symbols::Resolver;
use crate::symbols::SymbolOptions;

use super::IntakeOptions;
use super::offline::name_all;
use crate::ingest::Ingest;

#[derive(Debug)]
pub(crate) struct Slices {
    ingest: Ingest,
    resolver: Resolver,
    events: Vec<String>,
}

impl Slices {
    /// Returns the slices of a source; samples of `own_pid` are left out.
    pub(crate) fn new(info: &Info, own_pid: Option<i32>, symbols: SymbolOptions) -> Self {
        let mut ingest = Ingest::new(info, own_pid, IntakeOptions::default());
        ingest.complete_chains(symbols.clone());
        let events = info.events.iter().map(|event| event.name.clone()).collect();
        Self { ingest, resolver: Resolver::new(symbols), events }
    }

    pub(crate) fn feed(&mut self, batch: &mut Batch, recycle: impl FnMut(Vec<u8>)) {
        self.ingest.feed(batch);
        std::iter::from_fn(|| self.ingest.spare()).for_each(recycle);
    }

    /// Returns the samples of the slice so far, and the lost samples since the start.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let profile = &self.ingest.core().profile;
        (profile.len() as u64, profile.ledger.lost())
    }

    /// Returns the data of the slice for queries, with all available names.
    pub(crate) fn data(&mut self) -> Data<'_> {
        // The output shows which names are missing; reasons are of no use to a remote reader.
        name_all(self.ingest.core_mut(), &mut self.resolver, &mut Vec::new());
        self.ingest.core().data(&self.events)
    }

    pub(crate) fn next(&mut self) {
        let core = self.ingest.core_mut();
        core.profile.clear(&mut core.session);
        core.forget_ended();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::record::Record;
    use crate::record::kinds::TaskRecord;
    use crate::session::{Origin, Session};

    /// Starts and ends many processes, one per second, and returns the memory of the session.
    pub(in crate::engine) fn end_processes(session: &mut Session) -> usize {
        for pid in 1 << 23..(1 << 23) + 10_000 {
            // Each one is removed some time after its end.
            let (time, task) = (pid as u64 * 1_000_000_000, TaskRecord { pid, ppid: 0, tid: pid, ptid: 0, time: 0 });
            session.apply(&Record::Fork(task), time);
            session.apply(&Record::Comm { pid, tid: pid, exec: true, name: b"short" }, time);
            session.apply(&Record::Exit(task), time);
        }
        session.memory()
    }

    #[test]
    fn processes_that_ended_in_a_slice_are_forgotten() {
        let mut slices = Slices::new(&Info::new(Origin::Live), None, SymbolOptions::default());
        let session = &mut slices.ingest.core_mut().session;
        let before = session.memory();
        let after = end_processes(session);
        slices.next();
        let end = slices.ingest.core().session.memory();
        assert!(after > before + 300_000 && end < before + (after - before) / 4, "{before} {after} {end}");
    }
}
