//! The processing of batches, live or recorded, into session and profile: decode, order, apply.

mod chain_limit;
mod chains;
mod code_changes;
mod core;
mod decode;
mod deferred;
pub mod derived;
pub(crate) mod hardware;
mod intake;
pub(crate) mod parallelism;
mod replay;
pub mod snapshot;
mod summary;
pub(crate) mod switches;
mod text;
pub mod tracepoints;
mod tracing;
pub(crate) mod unit_events;
pub(crate) mod unit_feed;

use crate::record::kinds::{split, types};
use crate::record::off_cpu::NO_TIME;
use crate::record::order::Orderer;
use crate::session::Origin;
use crate::source::{Batch, Info, Progress, Source, SourceError, SourceEvent};

use chains::Chains;
use code_changes::CodeChanges;
use deferred::Deferred;

pub use self::core::IngestState;
pub use decode::GroupShare;
pub use intake::IntakeOptions;
pub(crate) use replay::{PlacedRecord, RecordOrder, replay, replay_all};

/// Decodes the batches of a source.
#[derive(Debug)]
pub struct Ingest {
    orderer: Orderer,
    core: IngestState,
    index: Vec<(u64, usize)>,
    spare: Vec<Vec<u8>>,
    rounds: Vec<Round>,
    recorded: bool,
    wants: IntakeOptions,
    deferred: Deferred,
}

/// The time up to which an input of a recording is complete. A FINISHED_ROUND sets it to the highest timestamp before
/// the previous FINISHED_ROUND.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    newest: u64,
    complete: u64,
    at_last_round: u64,
}

impl Round {
    fn meet(&mut self, time: u64) {
        if time < NO_TIME {
            self.newest = self.newest.max(time);
        }
    }
}

impl Ingest {
    pub(crate) fn new(info: &Info, own_pid: Option<i32>, wants: IntakeOptions) -> Self {
        let core = IngestState::new(info, own_pid, wants);
        let mut deferred = Deferred::default();
        deferred.learn_events(&info.events);
        Self {
            orderer: Orderer::default(),
            index: Vec::new(),
            spare: Vec::new(),
            rounds: vec![Round::default(); core.inputs.len()],
            core,
            recorded: info.origin == Origin::Recorded,
            wants,
            deferred,
        }
    }

    /// Completes call chains from copies of stacks and from branches, and names the kernel's functions in the texts of
    /// tracepoints. `symbols` says where the files are.
    pub(crate) fn complete_chains(&mut self, symbols: crate::symbols::SymbolOptions) {
        self.core.texts.show(symbols.form, self.wants.addresses, self.wants.traces);
        self.core.tracing.name_functions(symbols.clone());
        self.core.code = CodeChanges::new(&symbols);
        let mut chains = Chains::new(symbols);
        chains.marks_ends = !(self.wants.addresses || self.wants.history);
        self.core.chains = Some(Box::new(chains));
    }

    /// Returns the state after the records so far.
    pub fn core(&self) -> &IngestState {
        &self.core
    }

    /// Returns the state for changes between two batches.
    pub fn core_mut(&mut self) -> &mut IngestState {
        &mut self.core
    }

    pub(crate) fn spare(&mut self) -> Option<Vec<u8>> {
        self.spare.pop()
    }

    /// Reads the next batch of a source into a used buffer. At the source's end, all waiting records become due.
    pub(crate) fn read(&mut self, source: &mut dyn Source, batch: &mut Batch) -> Result<Progress, SourceError> {
        batch.clear();
        batch.bytes = self.spare().unwrap_or_default();
        source.next(batch)
    }

    pub(crate) fn feed(&mut self, batch: &mut Batch) {
        let is_end = batch.complete_until == Some(u64::MAX);
        let mut deferred = std::mem::take(&mut self.deferred);
        for event in &batch.events {
            if let SourceEvent::Event(event) = event {
                deferred.learn_events(std::slice::from_ref(event));
            }
        }
        self.feed_to(batch, |core, input, time, record| deferred.take(core, input, time, record));
        if is_end {
            deferred.finish(&mut self.core);
        }
        self.deferred = deferred;
    }

    /// Processes a batch's records and passes those that are due, in order of time, to `apply`.
    pub(crate) fn feed_to(&mut self, batch: &mut Batch, mut apply: impl FnMut(&mut IngestState, usize, u64, &[u8])) {
        self.core.learn(batch);
        let input = usize::from(batch.input).min(self.rounds.len() - 1);
        let bytes = std::mem::take(&mut batch.bytes);
        if batch.index.is_empty() {
            self.index(input, &bytes);
        } else {
            std::mem::swap(&mut self.index, &mut batch.index);
        }
        self.orderer.push(input as u16, bytes, self.index.drain(..));
        if batch.input_done {
            self.rounds[input].complete = u64::MAX;
        }
        let rounds = if self.recorded { self.complete(&batch.quiet) } else { None };
        if let Some(until) = batch.complete_until {
            self.core.units.until(until);
            self.core.times.reach(until);
        }
        if let Some(until) = batch.complete_until.max(rounds.filter(|u| *u > 0)) {
            let Self { orderer, core, spare, .. } = self;
            orderer.release(
                until,
                |input, time, record| apply(core, usize::from(input), time, record),
                |mut buffer| {
                    buffer.clear();
                    if spare.len() < 8 {
                        spare.push(buffer);
                    }
                },
            );
        }
        let is_end = batch.complete_until == Some(u64::MAX);
        if is_end && self.recorded {
            self.core.lose_unreported();
        }
        if is_end || self.core.units.is_pin_due() {
            self.core.pin_data();
        }
    }

    /// Returns the time up to which all inputs that are not quiet are complete; if all are quiet, the latest of any.
    fn complete(&self, quiet: &[u16]) -> Option<u64> {
        let waited = (0..self.rounds.len()).filter(|i| !quiet.contains(&(*i as u16)));
        waited.map(|i| self.rounds[i].complete).min().or(self.rounds.iter().map(|round| round.complete).max())
    }

    fn index(&mut self, input: usize, bytes: &[u8]) {
        self.index.clear();
        let (decoder, round) = (self.core.inputs.decoder(input), &mut self.rounds[input]);
        let mut at = 0;
        loop {
            let (header, body) = match split(&bytes[at..]) {
                Ok(Some((header, body, _))) => (header, body),
                Ok(None) => break,
                Err(_) => {
                    self.core.profile.ledger.malformed += 1;
                    break;
                }
            };
            if header.kind < types::USER_START {
                let time = self.core.summary.hosts.common_time(input, decoder.time(header, body));
                round.meet(time);
                self.index.push((time, at));
            } else {
                self.core.summary.count(header.kind);
                if header.kind == types::FINISHED_ROUND {
                    round.complete = round.complete.max(round.at_last_round);
                    round.at_last_round = round.newest;
                }
            }
            at += usize::from(header.size);
        }
    }
}
