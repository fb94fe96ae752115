//! From batches to session and profile: decode, order, apply. The one path for live sessions and
//! recordings.

mod chains;
mod decode;
pub mod derived;
mod functions;
mod hosts;
mod learn;
pub mod moment;
mod named;
pub mod offcpu;
mod pairs;
mod replay;
pub mod softirqs;
mod switches;
mod told;
pub mod tracepoints;
pub mod units;
mod wants;

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::format::Formats;
use crate::event::plain;
use crate::kernel::attr::{TYPE_TRACEPOINT, sample};
use crate::perfdata::EventDesc;
use crate::profile::{Loss, Profile, SiteId, Timeline, TraceId};
use crate::record::kinds::{misc, split, types};
use crate::record::order::Orderer;
use crate::record::{Header, Layout, Record, Sample};
use crate::session::{Origin, Session, TimeMark, marks};
use crate::source::{Batch, Info};

use chains::Chains;
pub use decode::Share;
use decode::{Decoder, Form};
use derived::Derived;
use functions::Functions;
use hosts::{Clocks, Hosts};
use named::Texts;
pub use replay::replay;
use softirqs::SoftirqTrace;
use switches::Switches;
pub use wants::Wants;

use units::{UnitAnswer, Units};

/// Decodes what a source delivers.
#[derive(Debug)]
pub struct Ingest {
    orderer: Orderer,
    core: Core,
    index: Vec<(u64, usize)>,
    spare: Vec<Vec<u8>>,
    rounds: Vec<Round>,
    recorded: bool,
    clocks: Clocks,
}

/// How far an input of a recording can be trusted to be complete: at a FINISHED_ROUND, up to the
/// largest time that had come at the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    newest: u64,
    complete: u64,
    at_last_round: u64,
}

/// What records are applied to.
#[derive(Debug)]
pub struct Core {
    pub session: Session,
    pub profile: Profile,
    pub events: Vec<EventDesc>,
    /// Samples and losses over the whole session, for the strip of time.
    pub timeline: Timeline,
    /// Moments that were marked, in order of time.
    pub marks: Vec<TimeMark>,
    /// The first of them whose samples stand for time.
    pub(super) clock: Option<u16>,
    /// While one event takes over from another: the times between which samples of an id count.
    cuts: FxHashMap<u64, Range<u64>>,
    /// When that is long over.
    cuts_until: u64,
    pub(super) decoders: Vec<Decoder>,
    pub(super) hosts: Hosts,
    own_pid: Option<i32>,
    pub(super) wants: Wants,
    pub(super) formats: Formats,
    /// The kernel's functions, where texts of tracepoints may name them.
    functions: Option<Functions>,
    /// Events that are made of others.
    derived: Derived,
    /// Switches that name the threads of a running machine.
    switches: Option<Switches>,
    /// Time in softirqs, where their tracepoints are recorded.
    pub softirqs: Option<SoftirqTrace>,
    /// What is known of a text's names.
    pub(super) texts: Texts,
    /// Analysis units.
    pub units: Units,
    /// Completes call chains, where that is wanted.
    pub chains: Option<Box<Chains>>,
    /// Samples in each second since the start.
    pub rates: Vec<u32>,
    /// Samples lost in each second; shorter when the newest seconds lost none.
    pub lost_rates: Vec<u32>,
    pub start: u64,
    /// Header features that describe the recorded machine; none when live.
    pub machine: Vec<(u8, Vec<u8>)>,
    /// How many records of each type came.
    pub kinds: FxHashMap<u32, u64>,
    /// The task that ended last on each CPU.
    exited: FxHashMap<u32, (i32, i32)>,
}

/// For how long after a handover samples of the old event may still come out of order.
const HANDOVER_NS: u64 = 10_000_000_000;
/// Seconds that [`Core::rates`] holds at most.
const MAX_SECONDS: usize = 7 * 24 * 3600;

impl Ingest {
    pub fn new(info: &Info, own_pid: Option<i32>, wants: Wants) -> Self {
        let decoders: Vec<Decoder> = if info.inputs.is_empty() {
            vec![Decoder::new((0..info.events.len() as u16).collect(), &info.events)]
        } else {
            info.inputs.iter().map(|(events, descs)| Decoder::new(events.clone(), descs)).collect()
        };
        let mut core = Core {
            session: Session::new(info.origin),
            profile: Profile::default(),
            events: info.events.clone(),
            timeline: Timeline::default(),
            marks: marks::decode_from(&info.machine),
            clock: info.clock().map(|at| at as u16),
            cuts: FxHashMap::default(),
            cuts_until: 0,
            own_pid,
            wants,
            formats: if wants.traces || wants.fields || wants.units_only {
                Formats::parse(&info.tracing)
            } else {
                Formats::default()
            },
            functions: None,
            derived: Derived::default(),
            switches: None,
            softirqs: if wants.units_only { None } else { SoftirqTrace::new(info) },
            texts: Texts::default(),
            units: Units::default(),
            chains: None,
            rates: Vec::new(),
            lost_rates: Vec::new(),
            start: info.start,
            machine: info.machine.clone(),
            kinds: FxHashMap::default(),
            exited: FxHashMap::default(),
            decoders,
            hosts: Hosts::default(),
        };
        if wants.units_only {
            let own = |event: &usize| info.states.get(*event).is_none_or(|state| state.for_units);
            (0..core.events.len()).filter(own).for_each(|event| core.units.set_quiet(event as u16, true));
        } else {
            (0..core.events.len()).for_each(|event| core.learn_format(event));
            core.derive(&info.tracing);
        }
        if info.origin == Origin::Live {
            core.session.learn_running();
        }
        core.session.dsos.share = !wants.addresses;
        core.profile.keep_words(wants.addresses);
        core.session.name_hosts(&info.host_names());
        core.profile.frames.merge_by_name(info.is_of_many());
        core.divide(info);
        for (kernel, id, path) in &info.build_ids {
            core.session.dsos.learn_build_id(*kernel, path, *id);
        }
        Self {
            orderer: Orderer::default(),
            index: Vec::new(),
            spare: Vec::new(),
            rounds: vec![Round::default(); core.decoders.len()],
            core,
            clocks: Clocks::new(info),
            recorded: info.origin == Origin::Recorded,
        }
    }

    /// Has call chains completed from copies of stacks and from branches, and the kernel's functions named in the
    /// texts of tracepoints, by tables of files that are found as `symbols` says.
    pub fn complete_chains(&mut self, symbols: crate::symbols::resolver::Options) {
        self.core.functions = self.core.wants.traces.then(|| Functions::new(symbols.clone()));
        self.core.chains = Some(Box::new(Chains::new(symbols)));
    }

    pub fn core(&self) -> &Core {
        &self.core
    }

    pub fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    /// A used-up buffer to be filled again.
    pub fn spare(&mut self) -> Option<Vec<u8>> {
        self.spare.pop()
    }

    /// Takes in a batch's records and applies those that are due.
    pub fn feed(&mut self, batch: &mut Batch) {
        self.feed_to(batch, Core::apply);
    }

    /// Takes in a batch's records and hands those that are due, in order of time, to `apply` with
    /// their input and time.
    pub fn feed_to(&mut self, batch: &mut Batch, mut apply: impl FnMut(&mut Core, usize, u64, &[u8])) {
        self.core.learn(batch);
        let input = usize::from(batch.input).min(self.rounds.len() - 1);
        let bytes = std::mem::take(&mut batch.bytes);
        self.index(input, &bytes);
        self.orderer.push(input as u16, bytes, self.index.drain(..));
        if batch.input_done {
            self.rounds[input].complete = u64::MAX;
        }
        let rounds = if self.recorded { self.complete(&batch.quiet) } else { None };
        if let Some(until) = batch.complete_until {
            self.core.units.until(until);
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
    }

    /// Up to which time all has come from all inputs but the quiet ones; of nothing but those, what any has said.
    fn complete(&self, quiet: &[u16]) -> Option<u64> {
        let waited = (0..self.rounds.len()).filter(|i| !quiet.contains(&(*i as u16)));
        waited.map(|i| self.rounds[i].complete).min().or(self.rounds.iter().map(|round| round.complete).max())
    }

    /// Finds the records in a buffer and their times.
    fn index(&mut self, input: usize, bytes: &[u8]) {
        self.index.clear();
        let (decoder, round) = (&self.core.decoders[input], &mut self.rounds[input]);
        let clocks = &mut self.clocks;
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
                let time = clocks.common(input, decoder.time(header, body));
                round.newest = round.newest.max(time);
                self.index.push((time, at));
            } else {
                *self.core.kinds.entry(header.kind).or_default() += 1;
                if header.kind == types::FINISHED_ROUND {
                    round.complete = round.complete.max(round.at_last_round);
                    round.at_last_round = round.newest;
                }
            }
            at += usize::from(header.size);
        }
    }
}

impl Core {
    /// What a batch brings beside records.
    fn learn(&mut self, batch: &mut Batch) {
        let states = batch.changed.as_ref().map_or(&[][..], |changed| &changed.events);
        batch.events.drain(..).for_each(|event| self.add_event(event, states));
        self.follow_states(states);
        if let Some(first) = self.decoders.first_mut() {
            batch.ids.drain(..).for_each(|id| first.learn(id));
        }
        for handover in batch.handovers.drain(..) {
            self.cuts.extend(handover.old.iter().map(|id| (*id, 0..handover.at)));
            self.cuts.extend(handover.new.iter().map(|id| (*id, handover.at..u64::MAX)));
            self.cuts_until = handover.at.saturating_add(HANDOVER_NS);
        }
        self.turn_to(usize::from(batch.input));
        for (kernel, id, path) in batch.build_ids.drain(..) {
            self.session.dsos.learn_build_id(kernel, &path, id);
        }
        for name in batch.names.drain(..) {
            self.name(&name);
        }
        for sample in batch.stacks.drain(..) {
            let range = sample.frames.start as usize..sample.frames.end as usize;
            self.named_sample(&sample, batch.stack_frames.get(range).unwrap_or_default());
        }
        batch.stack_frames.clear();
        if let Some(since) = batch.measured_since {
            self.units.measured_since(since);
        }
        let events = self.decoders.first().map_or(&[][..], |first| &first.events);
        self.units.count(&batch.cpu_counts, events);
        batch.cpu_counts.clear();
    }

    /// Gives an event to the units that want it.
    pub fn bind_units(&mut self, event: u16) {
        let Some(desc) = self.events.get(usize::from(event)).filter(|_| !self.units.is_empty()) else { return };
        let recorded = self.formats.by_id.get(&desc.attr.config).filter(|_| desc.attr.kind == TYPE_TRACEPOINT);
        let format = match (recorded, self.session.origin()) {
            (Some(format), _) => Some(Arc::new(format.clone())),
            (None, Origin::Live) => tracepoints::of_this_machine(plain(&desc.name)).map(Arc::new),
            (None, Origin::Recorded) => None,
        };
        self.units.bind(event, &desc.name.clone(), format.as_ref());
    }

    /// What the units have found; where one is chosen, only that one's panels are made.
    pub fn unit_answers(&mut self, chosen: Option<u64>) -> Vec<UnitAnswer> {
        let mut answers = self.units.answers(&self.session, &self.profile, self.start, chosen);
        if let Some(note) = self.short_stacks() {
            let with = answers.iter_mut().filter(|answer| self.units.has_stacks(answer.id));
            with.for_each(|answer| answer.notes.push(note.clone()));
        }
        answers
    }

    /// What is wrong with the stacks that units are given.
    fn short_stacks(&self) -> Option<String> {
        /// Stacks longer than the copy, in percent, that are worth a word.
        const CUT: f64 = 25.0;
        let chains = self.chains.as_ref()?;
        let cut = 100.0 * chains.cut as f64 / chains.unwound.max(1) as f64;
        match chains.broken() {
            Some((dso, percent)) => Some(format!(
                "{} has no frame pointers: {percent:.0} % of its stacks are broken; --call-graph dwarf takes them whole",
                self.session.dsos.get(dso).short
            )),
            None => (cut > CUT).then(|| {
                format!("{cut:.0} % of stacks are longer than their copy: --call-graph dwarf,SIZE takes more of them")
            }),
        }
    }

    /// The same of all events that are there.
    pub fn bind_all_units(&mut self) {
        (0..self.events.len() as u16).for_each(|event| self.bind_units(event));
    }

    /// The event whose samples tell what each CPU does; `None` when there is none of that kind.
    pub fn clock(&self) -> Option<usize> {
        self.clock.map(usize::from)
    }

    /// Which of the session's events each of the source's is.
    pub fn slots(&self) -> &[u16] {
        self.decoders.first().map_or(&[], |d| &d.events)
    }

    /// Counts a sample for the ledger and the rate.
    pub(super) fn count(&mut self, time: u64, event: u16) {
        if self.start == 0 {
            self.start = time;
        }
        self.timeline.count(time.saturating_sub(self.start));
        add_in_second(&mut self.rates, time.saturating_sub(self.start), 1);
        self.profile.ledger.received += 1;
        self.profile.ledger.timed += u64::from(self.clock == Some(event));
    }

    /// Applies one record.
    pub fn apply(&mut self, input: usize, time: u64, record: &[u8]) {
        let Ok(Some((header, body, _))) = split(record) else { return };
        self.turn_to(input);
        if header.kind == types::SAMPLE {
            return self.sample(input, time, header, body);
        }
        *self.kinds.entry(header.kind).or_default() += 1;
        if matches!(header.kind, types::SWITCH | types::SWITCH_CPU_WIDE) && header.misc & misc::SWITCH_OUT == 0 {
            let id = self.decoders[input].form_of(header, body).layout.trailer(body).unwrap_or_default();
            if header.kind == types::SWITCH_CPU_WIDE && !self.units.is_empty() {
                self.units.came(id.cpu, id.tid, time, &self.session);
            }
            return self.back(id.tid, time, id.cpu);
        }
        match Record::decode(header, body, self.decoders[input].build_ids) {
            Ok(Record::Lost { lost, .. } | Record::LostSamples { lost }) => {
                self.lose(input, header, body, time, lost);
            }
            Ok(Record::Throttle { .. }) => self.profile.ledger.throttled += 1,
            Ok(side) => {
                if let Record::Exit(task) = &side {
                    let id = self.decoders[input].form_of(header, body).layout.trailer(body).unwrap_or_default();
                    self.exited.insert(id.cpu, (task.pid, task.tid));
                }
                if !self.units.is_empty() {
                    self.units.side(&side, time, &self.session);
                }
                self.session.apply(&side, time);
            }
            Err(_) => self.profile.ledger.malformed += 1,
        }
    }

    /// Takes in what a record says of losses. perf writes LOST_SAMPLES at its end, without a time, for what each event
    /// counted of them; the kernel writes them, with one, for what the hardware's buffer could not hold.
    fn lose(&mut self, input: usize, header: Header, body: &[u8], time: u64, lost: u64) {
        let form = self.decoders[input].form_of(header, body);
        let id = form.layout.trailer(body).unwrap_or_default();
        let is_dummy = self.events.get(usize::from(form.event)).is_some_and(EventDesc::is_dummy);
        let losses = self.profile.ledger.losses_of(form.event);
        let sum = match (header.kind == types::LOST, id.time) {
            (true, _) => &mut losses.recorded,
            (false, 0) if is_dummy => return,
            (false, 0) => &mut losses.counted,
            (false, _) => &mut losses.hardware,
        };
        *sum = sum.saturating_add(lost);
        if header.kind != types::LOST && id.time == 0 {
            return;
        }
        self.timeline.lose(time.saturating_sub(self.start), lost);
        add_in_second(&mut self.lost_rates, time.saturating_sub(self.start), lost);
        let cpu = (form.layout.sample_type & sample::CPU != 0).then_some(id.cpu as u16);
        self.profile.losses.push(Loss { time, samples: lost, cpu, host: self.hosts.at() });
        self.units.lose(cpu.map(u32::from), time, lost);
        self.derived.forget();
        self.softirqs.iter_mut().for_each(|trace| trace.pairs.lose(lost));
    }

    /// The form of an input's record, and its sample.
    fn formed<'a>(&self, input: usize, header: Header, body: &'a [u8]) -> Option<(Form, Sample<'a>)> {
        let form = self.decoders[input].form_of(header, body);
        let mut sample = form.layout.sample(header, body).ok()?;
        if sample.period == 0 {
            sample.period = form.period;
        }
        Some((form, sample))
    }

    /// Which event a record of an input belongs to, and its sample.
    pub fn decode<'a>(&self, input: usize, header: Header, body: &'a [u8]) -> Option<(u16, Sample<'a>)> {
        self.formed(input, header, body).map(|(form, sample)| (form.event, sample))
    }

    /// What the events of a record's group counted, record by record in order of time; `None` of a record that
    /// stands for itself.
    pub fn shares(&mut self, input: usize, header: Header, body: &[u8]) -> Option<Vec<Share>> {
        let (form, sample) = self.formed(input, header, body)?;
        form.layout.is_read().then(|| self.decoders[input].shares(&form, &sample))
    }

    fn sample(&mut self, input: usize, time: u64, header: Header, body: &[u8]) {
        if !self.cuts.is_empty() && self.is_cut(time, header, body) {
            return;
        }
        let Some((form, mut sample)) = self.formed(input, header, body) else {
            self.profile.ledger.malformed += 1;
            return;
        };
        sample.time = time;
        if !form.layout.is_read() {
            return self.take(form.event, sample, header);
        }
        for share in self.decoders[input].shares(&form, &sample).iter().filter(|share| share.period > 0) {
            let (id, period) = (share.counter.0, share.period);
            match share.event {
                Some(event) => self.take(event, Sample { id, period, ..sample }, header),
                None => self.profile.ledger.malformed += 1,
            }
        }
    }

    fn take(&mut self, event: u16, sample: Sample<'_>, header: Header) {
        let mut chains = self.chains.take();
        self.take_by(event, sample, header, chains.as_deref_mut());
        self.chains = chains;
    }

    /// Takes a sample whose chain the other completes.
    fn take_by<'a>(&mut self, event: u16, sample: Sample<'a>, header: Header, mut chains: Option<&'a mut Chains>) {
        let mut sample = sample;
        let time = sample.time;
        let live = self.session.origin() == Origin::Live;
        // A task that has ended has no number any more, and goes on to its last switch.
        if live
            && sample.tid == -1
            && let Some((pid, tid)) = self.exited.get(&sample.cpu)
        {
            (sample.pid, sample.tid) = (*pid, *tid);
        }
        if self.units.takes(event) {
            if self.start == 0 {
                self.start = time;
            }
            let (mode, own) = (header.misc & misc::CPUMODE_MASK, self.own_pid == Some(sample.pid));
            if self.units.wants_stack(event)
                && let Some(chains) = chains.take()
            {
                self.session.seen(sample.pid, time, mode == misc::USER, sample.chain);
                let branches = self.events[usize::from(event)].attr.branch_sample_type;
                sample = chains.follow(&self.session, sample, branches, self.units.caller(event, &sample));
            }
            self.units.sample(event, &sample, mode, own, &mut self.session, &mut self.profile);
        }
        if self.units.is_quiet(event) {
            return;
        }
        if let Some(switches) = &self.switches {
            let names = switches.names(event, sample.raw);
            names.into_iter().flatten().for_each(|(tid, name)| self.session.told(tid, name));
        }
        if let Some(trace) = &mut self.softirqs {
            trace.sample(event, &sample);
        }
        if self.own_pid == Some(sample.pid) {
            self.profile.ledger.own += 1;
            return self.derive_from(event, &sample, None);
        }
        let user_mode = header.misc & misc::CPUMODE_MASK == misc::USER;
        self.session.seen(sample.pid, sample.time, user_mode, sample.chain);
        let trace = self.trace(event, &sample);
        self.count(time, event);
        if !self.wants.chains {
            sample.chain = &[];
        } else if let Some(chains) = chains {
            let branches = self.events[usize::from(event)].attr.branch_sample_type;
            sample = chains.follow(&self.session, sample, branches, None);
        }
        let mode = header.misc & misc::CPUMODE_MASK;
        let site = self.profile.add_traced(&mut self.session, &sample, mode, event, trace);
        self.derive_from(event, &sample, Some(site));
    }

    /// Counts what a sample ends.
    fn derive_from(&mut self, event: u16, sample: &Sample<'_>, site: Option<SiteId>) {
        let Self { derived, profile, .. } = self;
        derived.sample(event, sample, site, profile.epoch(), |own, (began, ns)| {
            profile.push(sample.time, began, ns.max(1), sample.cpu as u16, own);
        });
    }

    /// Whether another event counts this sample, the one that took over or the one before.
    fn is_cut(&mut self, time: u64, header: Header, body: &[u8]) -> bool {
        if time > self.cuts_until {
            self.cuts.clear();
            return false;
        }
        let id = Layout::identifier(header.kind, body);
        id.and_then(|id| self.cuts.get(&id)).is_some_and(|counts| !counts.contains(&time))
    }

    /// Counts the absence of a thread that is back.
    fn back(&mut self, tid: i32, time: u64, cpu: u32) {
        let Self { derived, profile, .. } = self;
        derived.came(tid, time, profile.epoch(), |own, (left, ns)| {
            profile.push(time, left, ns.max(1), cpu as u16, own);
        });
    }

    fn trace(&mut self, event: u16, sample: &Sample<'_>) -> TraceId {
        let attr = &self.events[usize::from(event)].attr;
        if !self.wants.traces || attr.kind != TYPE_TRACEPOINT && sample.raw.is_empty() {
            return TraceId::default();
        }
        let Some(format) = self.formats.by_id.get(&attr.config) else { return TraceId::default() };
        let text = match &self.functions {
            Some(functions) => format.text_with(sample.raw, &|at| functions.of(&self.session, at)),
            None => format.text(sample.raw),
        };
        self.profile.sites.trace(&text)
    }
}

/// Counts for the second that is so many nanoseconds after the start.
fn add_in_second(list: &mut Vec<u32>, after: u64, n: u64) {
    let second = (after / 1_000_000_000) as usize;
    if second < MAX_SECONDS {
        if list.len() <= second {
            list.resize(second + 1, 0);
        }
        list[second] = list[second].saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
    }
}
