//! Recordings: perf.data files, directories, streams, and several files combined.

mod hosts;
pub(crate) mod input;
mod merge;
pub mod open;
pub(crate) mod reader;

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::names::perf_names;
use crate::kernel::attr::sample;
use crate::perfdata::build_ids::IdentifiedFile;
use crate::perfdata::features::{FeatureSection, Features, bit};
use crate::perfdata::read::{ReadError, Recording};
use crate::perfdata::{EventDesc, info};
use crate::session::hosts::{HostId, PerHost};
use crate::session::marks::{self, TimeMark};
use crate::session::{EndReason, Origin};
use crate::symbols::shipped::ShippedTables;

use super::hosts::Hosts;
use super::{Batch, Info, Progress, Source, SourceError, SourceEvent};
use input::{Input, SideData};
use reader::FillOutcome;

use merge::MergeTurns;

pub use open::{open, open_as};

/// The maximum numbers of recordings that are combined, and of their events. Derived events need further numbers.
const MOST_TOGETHER: usize = 1 << 15;

/// A recording as a source. Its inputs are read in parallel, the one with the earliest time first.
pub(crate) struct RecordingSource {
    name: String,
    inputs: Vec<Input>,
    turns: MergeTurns,
    info: Info,
    /// Build ids of inputs of other machines than the first, until their first records.
    late_ids: HashMap<usize, Vec<IdentifiedFile>>,
    beside: SideData,
    stopped: bool,
}

impl RecordingSource {
    /// Combines inputs of machines with these names, merging equal events. `notes` are about missing inputs. Fails if
    /// there are more inputs or events than 16-bit numbers identify.
    pub(crate) fn new(
        name: String,
        mut inputs: Vec<Input>,
        named: &[String],
        notes: Vec<String>,
    ) -> Result<Self, ReadError> {
        if inputs.len() > MOST_TOGETHER {
            return Err(ReadError::TooMany { what: "recordings", most: MOST_TOGETHER });
        }
        let hosts = hosts::of(&inputs, named);
        let mut beside = SideData { notes, ..SideData::default() };
        let mut events: Vec<EventDesc> = Vec::new();
        let mut places = Vec::new();
        for input in &mut inputs {
            for event in input.rec.events.iter_mut().filter(|e| e.name.is_empty()) {
                let (kind, config) = (event.attr.kind, event.attr.config);
                event.name = perf_names::name_of(kind, config).unwrap_or_else(|| format!("event {kind}:{config:#x}"));
            }
            let mut place: Vec<u16> = Vec::new();
            for e in &input.rec.events {
                // Two equal events of one recording are not merged.
                let same = |(i, known): (usize, &EventDesc)| {
                    let same = known.name == e.name && known.attr == e.attr;
                    let alike = same || hosts.are_many() && hosts::is_alike(known, e);
                    alike && !place.contains(&(i as u16))
                };
                let at = events.iter().enumerate().position(same).unwrap_or(events.len());
                if at == MOST_TOGETHER {
                    return Err(ReadError::TooMany { what: "different events", most: MOST_TOGETHER });
                }
                if at == events.len() {
                    events.push(e.clone());
                }
                place.push(at as u16);
            }
            places.push((place, input.rec.events.clone()));
            beside.notes.append(&mut input.rec.warnings);
        }
        let ids =
            |input: &Input| [input.rec.features.identified_files(input.rec.big), input.build_ids.clone()].concat();
        let is_first = |i: &usize| hosts.of_input(*i) == HostId::default();
        let (first, others): (Vec<usize>, Vec<usize>) = (0..inputs.len()).partition(is_first);
        beside.build_ids.extend(first.iter().flat_map(|i| ids(&inputs[*i])));
        let late_ids = others.iter().map(|i| (*i, ids(&inputs[*i]))).collect();
        beside.notes.extend(hosts::note(&hosts));
        let info = describe(&name, &inputs, hosts, events, places, &mut beside);
        Ok(Self { name, turns: MergeTurns::new(inputs.len()), inputs, info, late_ids, beside, stopped: false })
    }

    fn progress(&self) -> (u64, u64) {
        let one = |(done, all): (u64, u64), input: &Input| {
            let (d, a) = input.progress();
            (done + d, if a == 0 { 0 } else { all + a })
        };
        self.inputs.iter().fold((0, 0), one)
    }
}

fn describe(
    name: &str,
    inputs: &[Input],
    hosts: Hosts,
    events: Vec<EventDesc>,
    inputs_events: Vec<(Vec<u16>, Vec<EventDesc>)>,
    beside: &mut SideData,
) -> Info {
    let rec = &inputs[0].rec;
    Info {
        hosts,
        arch: rec.features.arch(rec.big).unwrap_or_default(),
        chains: events.iter().any(|e| e.attr.sample_type & sample::CALLCHAIN != 0),
        target: name.to_owned(),
        notes: std::mem::take(&mut beside.notes),
        facts: facts(rec),
        head: Some(Arc::new(head(rec))),
        tracing: rec.features.get(bit::TRACING_DATA).map(<[u8]>::to_vec).unwrap_or_default(),
        build_ids: std::mem::take(&mut beside.build_ids),
        inputs: inputs_events,
        flows: inputs.iter().any(Input::flows),
        events,
        ..Info::new(Origin::Recorded)
    }
}

/// Returns a header without large features that are available elsewhere.
fn head(rec: &Recording) -> Recording {
    const LARGE: [u8; 3] = [bit::TRACING_DATA, bit::BPF_PROG_INFO, bit::BPF_BTF];
    let kept = |(bit, bytes): &FeatureSection| (*bit, if LARGE.contains(bit) { Vec::new() } else { bytes.clone() });
    Recording {
        events: rec.events.clone(),
        attr_sizes: rec.attr_sizes.clone(),
        data: rec.data.clone(),
        big: rec.big,
        features: Features { list: rec.features.list.iter().map(kept).collect() },
        warnings: Vec::new(),
    }
}

fn facts(rec: &Recording) -> Vec<(String, String)> {
    let marks = rec.features.get(bit::MARKS).map(marks::decode).unwrap_or_default();
    let one = |mark: TimeMark| {
        let words = format!("{:.6} {} {}", mark.at as f64 / 1e9, mark.name, mark.note);
        ("mark".to_owned(), words.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    info::lines(rec).into_iter().chain(marks.into_iter().map(one)).collect()
}

impl Source for RecordingSource {
    fn info(&self) -> &Info {
        &self.info
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn tell_all(&mut self) {
        self.inputs.iter_mut().for_each(|input| input.tells_all = true);
    }

    fn given(&self) -> PerHost<Arc<ShippedTables>> {
        let first_of =
            |host| (0..self.inputs.len()).find(|input| self.info.hosts.of_input(*input) == host).unwrap_or(0);
        self.info.hosts.map(|host, _| self.inputs[first_of(host)].given.clone())
    }

    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
        if self.stopped {
            return Ok(batch.end(EndReason::Stopped(format!("{} bytes into {}", self.progress().0, self.name))));
        }
        if self.turns.all_done() {
            return Ok(batch.end(EndReason::Complete(self.name.clone())));
        }
        let next = self.turns.next(&self.info, &self.inputs);
        batch.quiet = if self.inputs.len() > 1 { self.turns.quiet(&self.inputs) } else { Vec::new() };
        let Some(i) = next else { return Ok(Progress::More) };
        batch.input = i as u16;
        let outcome = self.inputs[i].next(&mut batch.bytes, &mut self.beside);
        batch.place = self.inputs[i].place;
        match outcome {
            FillOutcome::Some => self.turns.brought(i),
            FillOutcome::NotYet => {}
            FillOutcome::End => {
                self.turns.end(i);
                batch.input_done = true;
            }
        }
        let SideData { notes, build_ids, containers } = std::mem::take(&mut self.beside);
        batch.events.extend(notes.into_iter().map(SourceEvent::Note));
        let late = self.late_ids.remove(&i).into_iter().flatten();
        batch.events.extend(late.chain(build_ids).map(SourceEvent::BuildId));
        batch.events.extend((!containers.is_empty()).then_some(SourceEvent::Containers(containers)));
        let (done, all) = self.progress();
        batch.events.push(SourceEvent::Progress(done, all));
        Ok(Progress::More)
    }
}
