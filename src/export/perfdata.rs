//! Saves a snapshot as a perf.data file for `perf report`, with the same samples, stacks and names.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;

use crate::engine::{HostSnapshot, Snapshot};
use crate::event::{CallGraph, tracepoint};
use crate::kernel::attr::{Flag, TYPE_TRACEPOINT, sample};
use crate::kernel::files::NewFile;
use crate::perfdata::EventDesc;
use crate::perfdata::build_ids::{self, IdentifiedFile};
use crate::perfdata::features::{self, FeatureSection, bit};
use crate::perfdata::topology::CpuTopology;
use crate::perfdata::write::Writer;
use crate::profile::{Chunk, Loss, NodeId, SiteId};
use crate::record::SampleId;
use crate::record::kinds::{encode, misc, types};
use crate::record::sample::{CONTEXT_GUEST, CONTEXT_KERNEL, CONTEXT_USER, NOT_WALKED};
use crate::session::hosts::HostId;
use crate::session::layouts::Layouts;
use crate::session::{DsoId, DsoKind, MapId, containers, marks, recorder};
use crate::symbols::SymbolOptions;

use super::functions;
use super::ids::identified;
use super::side::SideWriter;

/// The size of a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenSize {
    /// The number of samples in the file.
    pub samples: usize,
    pub(crate) bytes: u64,
}

const FLUSH: usize = 1 << 18;

/// Saves the samples of one machine, optionally in a time range.
/// The range is in the session's clock. The file appears under its name once it is complete.
pub fn save(
    moment: &Snapshot,
    host: HostId,
    path: &Path,
    cmdline: &[String],
    range: Option<(u64, u64)>,
) -> io::Result<WrittenSize> {
    let own = &moment.hosts[host];
    let range = range.map_or(0..u64::MAX, |(from, until)| from..until);
    let events = descriptions(moment);
    // Derived samples are not saved, because readers derive them again; but a profile keeps no switches.
    let mut places = Vec::with_capacity(moment.events.len());
    let mut next = 0..;
    for event in &moment.events {
        places.push(if is_saved(event) { next.next() } else { None });
    }
    let mut writer = Writer::start(NewFile::create(path)?, &events)?;
    let mut side = SideWriter::new(&moment.dsos, &own.log, events.first().map(EventDesc::layout).unwrap_or_default());
    let mut out = Vec::with_capacity(2 * FLUSH);
    let mut stacks = Stacks { moment, chains: HashMap::new(), held: 0, words: Vec::new() };
    let mut losses = moment.losses.all().filter(|loss| loss.host == host && range.contains(&loss.time)).peekable();
    let (mut first, mut last, mut samples) = (u64::MAX, 0, 0);
    for chunk in &moment.chunks {
        for i in 0..chunk.len() {
            let time = chunk.time[i];
            if !range.contains(&time) || moment.host_of(chunk, i) != host {
                continue;
            }
            while let Some(loss) = losses.next_if(|loss| loss.time <= time) {
                lost(loss, &events, &mut out);
            }
            side.until(time, &mut out);
            (first, last) = (first.min(time), last.max(time));
            let event = usize::from(chunk.event[i]);
            let Some(desc) = places.get(event).and_then(|place| events.get((*place)?)) else { continue };
            samples += 1;
            stacks.sample(desc, chunk, i, &mut side.layouts, &mut out);
            if out.len() >= FLUSH {
                writer.records(&out)?;
                out.clear();
            }
        }
    }
    losses.for_each(|loss| lost(loss, &events, &mut out));
    side.until(u64::MAX, &mut out);
    writer.records(&out)?;
    let sections = sections(moment, own, &events, cmdline, (first.min(last), last));
    let bytes = writer.finish(sections, &events)?;
    Ok(WrittenSize { samples, bytes })
}

fn is_saved(event: &EventDesc) -> bool {
    !event.is_derived() || event.is_latency()
}

/// Writes a LOST record in the kernel's format, for the first event, because all events share a ring buffer.
fn lost(loss: &Loss, events: &[EventDesc], out: &mut Vec<u8>) {
    let Some(event) = events.first() else { return };
    let id = SampleId { time: loss.time, id: event.ids[0], cpu: loss.cpu.map_or(0, u32::from), ..SampleId::default() };
    encode(out, types::LOST, 0, |out| {
        out.extend(event.ids[0].to_le_bytes());
        out.extend(loss.samples.to_le_bytes());
        out.extend(event.layout().encode_trailer(&id));
    });
}

/// Returns the events with one ID each, and only the fields that a profile keeps.
fn descriptions(moment: &Snapshot) -> Vec<EventDesc> {
    let chains = moment.events.iter().any(|e| e.attr.sample_type & sample::CALLCHAIN != 0);
    let cgroups = moment.tasks.iter().any(|task| task.cgroup != 0);
    let fields = sample::IDENTIFIER
        | sample::IP
        | sample::TID
        | sample::TIME
        | sample::CPU
        | sample::PERIOD
        | if chains { sample::CALLCHAIN } else { 0 }
        | if cgroups { sample::CGROUP } else { 0 };
    let one = |(i, (at, event)): (usize, (usize, &EventDesc))| {
        let mut desc = if event.is_latency() { event.saved_latency() } else { event.clone() };
        if desc.attr.kind != TYPE_TRACEPOINT {
            desc.attr.set(Flag::ContextSwitch, false);
        }
        let has_raw = moment.has_raw.get(at).copied().unwrap_or(false);
        desc.attr.sample_type = fields | if has_raw { sample::RAW } else { 0 };
        // Call chains are already complete.
        (desc.attr.regs_user, desc.attr.stack_user, desc.attr.branch_sample_type) = (0, 0, 0);
        desc.attr.read_format = crate::kernel::attr::read_format::ID;
        desc.attr.set(Flag::SampleIdAll, true);
        desc.ids = vec![i as u64 + 1];
        desc
    };
    let real = moment.events.iter().enumerate().filter(|(_, e)| is_saved(e));
    real.enumerate().map(one).collect()
}

/// A call chain as raw words, including markers.
#[derive(Default)]
struct Chain {
    mode: u16,
    /// The leaf's address, and its mapping if it is shared between processes.
    ip: u64,
    leaf: Option<MapId>,
    words: Vec<u8>,
    /// Words whose mappings are shared between processes.
    shared: Vec<(u32, MapId)>,
}

/// The limit of cached call chains in bytes. All chains are several times the size of the profile.
const HELD: usize = 4 << 20;

struct Stacks<'a> {
    moment: &'a Snapshot,
    chains: HashMap<NodeId, Chain>,
    held: usize,
    words: Vec<u8>,
}

impl Stacks<'_> {
    fn sample(&mut self, desc: &EventDesc, chunk: &Chunk, row: usize, layouts: &mut Layouts<'_>, out: &mut Vec<u8>) {
        let (time, cpu, weight) = (chunk.time[row], chunk.cpu[row], chunk.weight[row]);
        let site = self.moment.stacks.site(SiteId(chunk.site[row]));
        let task = &self.moment.tasks[site.task.0 as usize];
        if self.held > HELD {
            (self.chains, self.held) = (HashMap::new(), 0);
        }
        let (moment, held, words) = (self.moment, &mut self.held, &mut self.words);
        let chain = self.chains.entry(site.stack).or_insert_with(|| {
            let chain = chain(moment, site.stack);
            *held += chain.memory();
            chain
        });
        let ip = chain.leaf.map_or(chain.ip, |map| layouts.address(task.pid, map, chain.ip));
        let with_chain = desc.attr.sample_type & sample::CALLCHAIN != 0;
        let words = if with_chain { chain.words_of(task.pid, layouts, words) } else { &[] };
        encode(out, types::SAMPLE, chain.mode, |out| {
            out.extend(desc.ids[0].to_le_bytes());
            out.extend(ip.to_le_bytes());
            out.extend(task.pid.to_le_bytes());
            out.extend(task.tid.to_le_bytes());
            out.extend(time.to_le_bytes());
            out.extend(u64::from(cpu).to_le_bytes());
            out.extend(weight.to_le_bytes());
            if with_chain {
                out.extend((words.len() as u64 / 8).to_le_bytes());
                out.extend_from_slice(words);
            }
            if desc.attr.sample_type & sample::RAW != 0 {
                // As in the kernel, size and bytes together are padded to 8 bytes.
                let raw = chunk.raw(row);
                let size = (raw.len() + 4).next_multiple_of(8) - 4;
                out.extend((size as u32).to_le_bytes());
                out.extend_from_slice(raw);
                out.resize(out.len() + size - raw.len(), 0);
            }
            if desc.attr.sample_type & sample::CGROUP != 0 {
                out.extend(task.cgroup.to_le_bytes());
            }
        });
    }
}

impl Chain {
    /// Returns the bytes in use, including the map entry.
    fn memory(&self) -> usize {
        2 * size_of::<(NodeId, Self)>() + self.words.capacity() + self.shared.capacity() * size_of::<(u32, MapId)>()
    }

    /// Returns the words with the addresses in a process.
    fn words_of<'w>(&'w self, pid: i32, layouts: &mut Layouts<'_>, own: &'w mut Vec<u8>) -> &'w [u8] {
        if self.shared.is_empty() {
            return &self.words;
        }
        own.clear();
        own.extend_from_slice(&self.words);
        for (at, map) in &self.shared {
            let word = &mut own[*at as usize * 8..][..8];
            let ip = word.try_into().map_or(0, u64::from_le_bytes);
            word.copy_from_slice(&layouts.address(pid, *map, ip).to_le_bytes());
        }
        own
    }
}

fn chain(moment: &Snapshot, stack: NodeId) -> Chain {
    let mut chain = Chain { mode: misc::KERNEL, ..Chain::default() };
    let mut context = 0;
    for (depth, frame) in moment.stacks.walk(stack).enumerate() {
        if frame.map == MapId::NOT_WALKED {
            chain.ip = NOT_WALKED;
            continue;
        }
        if frame.map == MapId::CUT {
            // perf drops chains with unknown markers. (A broken chain ends in a 0, which all readers skip.)
            continue;
        }
        let (marker, cpumode) = match moment.dsos.of_map(frame.map).kind {
            DsoKind::Guest => (CONTEXT_GUEST, misc::GUEST_KERNEL),
            kind if kind.is_kernel() => (CONTEXT_KERNEL, misc::KERNEL),
            _ => (CONTEXT_USER, misc::USER),
        };
        let is_shared = moment.dsos.is_shared(frame.map);
        if depth == 0 {
            (chain.mode, chain.ip, chain.leaf) = (cpumode, frame.ip, is_shared.then_some(frame.map));
        }
        if marker != context {
            chain.words.extend(marker.to_le_bytes());
            context = marker;
        }
        if is_shared {
            chain.shared.push((chain.words.len() as u32 / 8, frame.map));
        }
        chain.words.extend(frame.ip.to_le_bytes());
    }
    chain
}

fn sections(
    moment: &Snapshot,
    own: &HostSnapshot,
    events: &[EventDesc],
    cmdline: &[String],
    span: (u64, u64),
) -> Vec<FeatureSection> {
    let mut sections = if moment.live { features::machine(cmdline) } else { own.machine.clone() };
    sections.push(features::event_desc(events));
    sections.push(features::sample_time(span.0, span.1));
    sections.retain(|(b, _)| ![bit::MARKS, bit::CONTAINERS].contains(b));
    if !own.containers.is_empty() {
        sections.push((bit::CONTAINERS, containers::encode(own.containers.iter())));
    }
    if !moment.marks.is_empty() {
        sections.push((bit::MARKS, marks::encode(&moment.marks)));
    }
    if moment.live {
        sections.push(CpuTopology::here());
        sections.push((bit::RECORDER, recorder::encode(moment.own_pid, ways(moment))));
        sections.extend(features::clock());
        sections.extend(build_ids::sections(&identified_files(moment)));
        sections.extend(tracing(events).and_then(Result::ok));
    }
    sections
}

/// Returns the call chain method of each event in the file, whose samples have complete chains.
fn ways(moment: &Snapshot) -> impl Iterator<Item = CallGraph> {
    let ways = moment.call_graph_modes.iter().copied().chain(std::iter::repeat(CallGraph::None));
    moment.events.iter().zip(ways).filter(|(event, _)| is_saved(event)).map(|(_, way)| way)
}

/// Returns the tracing data of the tracepoints among events, if there are any.
pub(crate) fn tracing(events: &[EventDesc]) -> Option<io::Result<FeatureSection>> {
    let name = |event: &EventDesc| {
        let (system, name) = event.name.split_once(':')?;
        Some((system.to_owned(), name.split(':').next().unwrap_or(name).to_owned()))
    };
    let list: Vec<_> = events.iter().filter(|e| e.attr.kind == TYPE_TRACEPOINT).filter_map(name).collect();
    let data = || tracepoint::root().and_then(|root| tracepoint::tracing_data(&root, &list));
    (!list.is_empty()).then(|| Ok((bit::TRACING_DATA, data()?)))
}

/// Returns the kernel and the files with samples, with their build IDs.
fn identified_files(moment: &Snapshot) -> Vec<IdentifiedFile> {
    let used: BTreeSet<DsoId> = moment.stacks.frames().iter().map(|frame| moment.dsos.map_of(frame.map).dso).collect();
    let options = SymbolOptions::live();
    let id_of = |dso: &DsoId| {
        let dso = moment.dsos.get(*dso);
        if let DsoKind::Interpreted(language) = dso.kind {
            // Without it, perf does not name these functions.
            let functions = dso.functions.all();
            let names: Vec<_> = functions.into_iter().map(|(at, function)| (at, function.name)).collect();
            return functions::put_in_cache(language, &names).and_then(Result::ok);
        }
        identified(dso, &options)
    };
    used.iter().filter_map(id_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{EventState, Rate, RunState};
    use crate::ingest::{Ingest, IntakeOptions};
    use crate::kernel::attr::Attr;
    use crate::session::Origin;
    use crate::session::hosts::PerHost;
    use crate::source::hosts::{Hosts, SourceHost};
    use crate::source::{Batch, Info, SamplingState, SourceEvent};

    /// Returns the recorder's PID in the header of a snapshot. `own` is the PID of the process that takes it.
    fn told(info: &Info, own: Option<i32>) -> Option<i32> {
        let ingest = Ingest::new(info, own, IntakeOptions::default());
        let moment = ingest.core().moment();
        recorder::decode_from(&sections(&moment, &moment.hosts[HostId::default()], &[], &[], (0, 0)))
    }

    #[test]
    fn who_took_a_snapshot_is_kept_in_it() {
        let live = Info::new(Origin::Live);
        assert_eq!((told(&live, Some(4711)), told(&live, None)), (Some(4711), None));
        let mut recorded = Info::new(Origin::Recorded);
        let machine = vec![(bit::RECORDER, recorder::encode(Some(8), []))];
        recorded.hosts = Hosts::new(PerHost::one(SourceHost { machine, ..SourceHost::named("") }), Vec::new());
        assert_eq!(told(&recorded, Some(4711)), Some(8), "the recorder's PID, not the copier's");
    }

    #[test]
    fn how_stacks_were_taken_is_kept_in_a_snapshot() {
        let event = |name: &str| EventDesc { name: name.into(), attr: Attr::default(), ids: Vec::new() };
        let state = |chains| EventState {
            name: String::new(),
            replaces: None,
            run: RunState::Running,
            note: None,
            filter: None,
            rate: Rate::Period(1),
            chains,
            cpus: String::new(),
            for_units: false,
        };
        let mut live = Info::new(Origin::Live);
        live.events = vec![event("one"), EventDesc::derived("blocked"), event("two")];
        live.states = [CallGraph::Tables, CallGraph::Fp, CallGraph::Dwarf(512)].map(state).to_vec();
        let mut ingest = Ingest::new(&live, None, IntakeOptions::default());
        let told = |ingest: &Ingest| {
            let moment = ingest.core().moment();
            let sections = sections(&moment, &moment.hosts[HostId::default()], &[], &[], (0, 0));
            [0, 1, 2].map(|event| recorder::way(&sections, event))
        };
        assert_eq!(told(&ingest), [Some(CallGraph::Tables), Some(CallGraph::Dwarf(512)), None]);
        let states = [CallGraph::Fp, CallGraph::Fp, CallGraph::None].map(state).to_vec();
        let changed = SourceEvent::Changed(SamplingState { events: states, ..SamplingState::default() });
        ingest.feed(&mut Batch { events: vec![changed], ..Batch::default() });
        assert_eq!(told(&ingest), [Some(CallGraph::Fp), Some(CallGraph::None), None]);
    }
}
