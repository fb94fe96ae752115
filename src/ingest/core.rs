//! The core that records are applied to: a session and its profile, and the state for decoding them.

mod events;
mod running_tasks;
mod samples;
mod times;

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::event::EventState;
use crate::kernel::attr::{TYPE_TRACEPOINT, sample};
use crate::perfdata::EventDesc;
use crate::perfdata::topology::CpuTopology;
use crate::profile::{Loss, Profile, StackColumns};
use crate::query::Data;
use crate::record::kinds::{misc, split, types};
use crate::record::{Header, Layout, Record, Sample};
use crate::session::hosts::{HostId, PerHost};
use crate::session::{Host, Origin, Session, TimeMark, containers, marks, recorder, threads_of};
use crate::source::live::Target;
use crate::source::{Batch, Info, NamedSamples, SourceEvent};
use crate::symbols::NameForm;
use crate::units::kit::FilteredUnit;

use super::IntakeOptions;
use super::chains::Chains;
use super::code_changes::CodeChanges;
use super::decode::{GroupShare, Inputs};
use super::derived::Derived;
use super::hardware::{HardwareLog, HardwareWords};
use super::parallelism::Parallelism;
use super::snapshot::{HostSnapshot, Snapshot};
use super::summary::SessionSummary;
use super::text::Texts;
use super::tracing::Tracing;
use super::unit_feed::{SEVERAL_HOSTS, UnitAnswer, Units};
use events::EventModes;
use running_tasks::RunningTasks;
use times::SessionTimes;

/// The state that records are applied to.
#[derive(Debug)]
pub struct IngestState {
    /// The threads, processes and mappings from records.
    pub session: Session,
    /// The kept samples.
    pub profile: Profile,
    pub(crate) events: Vec<EventDesc>,
    modes: EventModes,
    /// Marked moments, in order of time.
    pub marks: Vec<TimeMark>,
    pub(super) inputs: Inputs,
    pub(crate) running: RunningTasks,
    wants: IntakeOptions,
    pub(super) tracing: Tracing,
    /// Derived events. Each machine has its own state, because thread and CPU numbers repeat.
    derived: PerHost<Derived>,
    /// The running threads of each process, if switches are recorded.
    parallelism: Option<Box<Parallelism>>,
    pub(super) texts: Texts,
    pub(crate) units: Units,
    pub(crate) hardware: Option<HardwareLog>,
    /// Changes of JIT code, in recordings.
    pub(super) code: Option<CodeChanges>,
    pub(crate) chains: Option<Box<Chains>>,
    /// Its start, and its samples over time.
    pub times: SessionTimes,
    /// Facts that the source reports.
    pub summary: SessionSummary,
}

impl IngestState {
    pub(crate) fn new(info: &Info, own_pid: Option<i32>, wants: IntakeOptions) -> Self {
        let mut core = Self {
            session: Session::new(info.origin),
            profile: Profile::default(),
            events: info.events.clone(),
            modes: EventModes { clock: info.clock().map(|at| at as u16), ..EventModes::default() },
            marks: marks::decode_from(&info.hosts.first().machine),
            running: RunningTasks { own_pid, ..RunningTasks::default() },
            wants,
            tracing: Tracing::new(info, wants),
            inputs: Inputs::new(info),
            derived: PerHost::default(),
            parallelism: None,
            texts: Texts::default(),
            units: Units::of(info.arch.clone()),
            hardware: wants.hardware.map(HardwareLog::new),
            code: None,
            chains: None,
            summary: SessionSummary::new(info),
            times: SessionTimes { start: info.start, measured: info.measured, ..SessionTimes::default() },
        };
        core.modes.learn(core.inputs.slots(), &info.states);
        if wants.units_only {
            let own = |event: &usize| info.states.get(*event).is_none_or(|state| state.for_units);
            (0..core.events.len()).filter(own).for_each(|event| core.units.set_quiet(event as u16, true));
        } else {
            (0..core.events.len()).for_each(|event| core.tracing.learn(event, &core.events[event], &mut core.profile));
            core.derive(&info.tracing);
        }
        if let Some(pid) = own_pid {
            core.units.ignore_process(pid, threads_of(pid));
        } else if let Some(pid) = recorder::decode_from(&info.hosts.first().machine) {
            core.units.ignore_process(pid, []);
        }
        if info.origin == Origin::Live {
            core.session.learn_running();
            core.follow_target(&info.whom, info.alone);
            core.session.finds_groups = true;
        }
        let topology = info.head.as_deref().filter(|_| !info.hosts.are_many()).and_then(CpuTopology::of);
        core.session.sockets = topology.map_or_else(Vec::new, |told| told.places.iter().map(|place| place.1).collect());
        core.session.data = (wants.hardware == Some(HardwareWords::Accesses)).then(FxHashMap::default);
        core.session.dsos.share = !wants.addresses;
        core.profile.keep_unmapped_words(wants.addresses || wants.history);
        core.profile.cut_stacks(wants.max_stack);
        core.session.name_hosts(info.hosts.iter().map(|(_, host)| host.name.clone()));
        core.profile.frames.merge_by_name(info.hosts.are_many());
        core.derived = info.hosts.map(|_, _| core.derived.first().clone());
        for (id, host) in info.hosts.iter() {
            core.session.turn_to(id);
            core.session.name_containers(containers::decode_from(&host.machine));
        }
        core.turn_to(0);
        info.build_ids.iter().for_each(|file| core.session.dsos.learn_build_id(file));
        core
    }

    fn turn_to(&mut self, input: usize) {
        self.session.turn_to(self.summary.hosts.of_input(input));
    }

    /// Reads the mappings of the target's processes before their first records, and then those of all processes.
    fn follow_target(&mut self, target: &Target, alone: bool) {
        if self.session.origin() == Origin::Live && self.running.target.as_ref() != Some(target) {
            self.session.learn_target(&target.tasks_now(!alone));
            self.session.begin_earlier();
            self.units.set_target(target.clone(), alone);
            self.running.target = Some(target.clone());
        }
    }

    pub(super) fn learn(&mut self, batch: &mut Batch) {
        /// The time per batch for reading the mappings of processes without records.
        const EARLIER: Duration = Duration::from_millis(5);
        self.session.learn_earlier(EARLIER);
        self.turn_to(usize::from(batch.input));
        let mut states: &[EventState] = &[];
        for event in &batch.events {
            match event {
                SourceEvent::Changed(changed) => {
                    self.follow_target(&changed.whom, changed.alone);
                    states = &changed.events;
                }
                SourceEvent::Event(event) => self.add_event(event.clone(), states),
                SourceEvent::Fields(event, format) => self.profile.set_format(*event, format.clone()),
                SourceEvent::Id(id) => self.inputs.learn(*id),
                SourceEvent::Handover(handover) => self.inputs.hand_over(handover),
                SourceEvent::BuildId(file) => self.session.dsos.learn_build_id(file),
                SourceEvent::Containers(list) => {
                    self.running.renamed_containers |= self.session.name_containers(list.clone());
                }
                SourceEvent::MeasuredSince(since) => {
                    self.times.measure(*since);
                    self.units.measured_since(*since, &self.session);
                }
                SourceEvent::MeasuredUntil(until) => self.units.until(*until),
                SourceEvent::CpuCounts(counts) => self.units.count(counts, self.inputs.slots()),
                SourceEvent::Counts(reading) => {
                    for (event, counts) in self.inputs.slots().iter().zip(&reading.of) {
                        self.profile.ledger.losses_of(*event).counted = counts.lost;
                    }
                    self.times.reach(reading.at);
                }
                SourceEvent::UnknownLosses => {
                    self.profile.ledger.has_unknown_losses = true;
                    self.units.lose_unknown();
                }
                SourceEvent::CallSums(calls) => {
                    self.units.add_call_sums(calls, self.inputs.slots(), &self.session);
                }
                SourceEvent::HitSums(hits) => self.units.add_hit_sums(hits, self.inputs.slots(), &self.session),
                SourceEvent::Walks(_)
                | SourceEvent::ViewFilter(_)
                | SourceEvent::Note(_)
                | SourceEvent::Reply(_)
                | SourceEvent::Unread(_)
                | SourceEvent::Progress(..) => {}
            }
        }
        self.follow_states(states);
        let NamedSamples { samples, frames, names } = std::mem::take(&mut batch.named);
        names.into_iter().for_each(|name| self.texts.name(name));
        for sample in samples {
            let range = sample.frames.start as usize..sample.frames.end as usize;
            let stack = frames.get(range).unwrap_or_default();
            let site = self.texts.site(&sample, stack, &mut self.session, &mut self.profile);
            self.count(sample.time, sample.event, self.profile.meaning(sample.event).height(sample.period));
            let (time, period, cpu, event) = (sample.time, sample.period, sample.cpu as u16, sample.event);
            match &sample.raw {
                Some(raw) => self.profile.push_raw(time, site, period, cpu, event, raw),
                None => self.profile.push(time, site, period, cpu, event),
            }
        }
    }

    pub(crate) fn bind_units(&mut self, event: u16) {
        let Some(desc) = self.events.get(usize::from(event)).filter(|_| !self.units.is_empty()) else { return };
        let format = self.tracing.format(desc, |desc| desc.attr.kind == TYPE_TRACEPOINT);
        let replaced = self.modes.replaced.get(&event).map(String::as_str);
        self.units.bind(event, (&desc.name, replaced), format.as_ref());
    }

    /// Keeps the addresses of data whose variables units name, and stacks of threads that they know to be asleep, before
    /// names are looked up.
    pub(crate) fn pin_data(&mut self) {
        self.units.pin_data(&mut self.session, &mut self.profile);
        if let Some(chains) = &mut self.chains {
            self.units.pin_sleepers(&mut self.session, &mut self.profile, chains);
        }
    }

    /// Returns the units' answers; if one is chosen, only its panels are computed.
    pub fn unit_answers(&mut self, chosen: Option<u64>) -> Vec<UnitAnswer> {
        let mut answers = self.units.answers(&self.session, &self.profile, self.times.start, chosen);
        if let Some(note) = self.short_stacks() {
            // Without panels, no stacks are shown.
            let shows = |answer: &&mut UnitAnswer| !answer.panels.is_empty() && self.units.has_stacks(answer.id);
            let with = answers.iter_mut().filter(shows);
            with.for_each(|answer| answer.notes.push(note.clone()));
        }
        answers
    }

    fn short_stacks(&self) -> Option<String> {
        /// The percentage of stacks longer than the copy that is worth a warning.
        const CUT: f64 = 25.0;
        let chains = self.chains.as_ref()?;
        let cut = 100.0 * chains.cut as f64 / chains.unwound.max(1) as f64;
        match chains.broken() {
            Some((dso, percent)) => Some(format!(
                "{percent:.0} % of the stacks through {} end early, as it has no frame pointers: --call-graph dwarf \
                 (key U) records complete ones",
                self.session.dsos.get(dso).short
            )),
            None => (cut > CUT).then(|| {
                format!("{cut:.0} % of stacks are longer than their copy; raise SIZE of --call-graph dwarf,SIZE")
            }),
        }
    }

    pub(crate) fn bind_all_units(&mut self) {
        (0..self.events.len() as u16).for_each(|event| self.bind_units(event));
    }

    /// Returns the event whose samples show what each CPU does; `None` if there is none of that kind.
    pub fn clock(&self) -> Option<usize> {
        self.modes.clock.map(usize::from)
    }

    pub(crate) fn slots(&self) -> &[u16] {
        self.inputs.slots()
    }

    /// Counts a sample that stands for some number of samples on the timeline.
    fn count(&mut self, time: u64, event: u16, samples: u32) {
        self.times.count(time, samples);
        self.profile.ledger.received += 1;
        self.profile.ledger.timed += u64::from(self.modes.clock == Some(event));
    }

    /// Forgets exited processes without samples. The cost is proportional to the exits since the last call.
    pub(crate) fn forget_ended(&mut self) {
        let oldest = self.profile.span().map_or(u64::MAX, |(oldest, _)| oldest);
        self.session.trim_log(oldest);
        if self.session.maps_are_ripe() {
            self.session.forget_moved();
        }
    }

    pub(crate) fn apply(&mut self, input: usize, time: u64, record: &[u8]) {
        let Ok(Some((header, body, _))) = split(record) else { return };
        self.turn_to(input);
        if header.kind == types::SAMPLE {
            return self.sample(input, time, header, body);
        }
        self.summary.count(header.kind);
        let is_switch = matches!(header.kind, types::SWITCH | types::SWITCH_CPU_WIDE);
        let is_out = header.misc & misc::SWITCH_OUT != 0;
        if is_switch && let Some(parallelism) = &mut self.parallelism {
            let layout = self.inputs.decoder(input).form_of(header, body).layout;
            parallelism.switched(&layout.trailer(body).unwrap_or_default(), layout.sample_type, is_out);
        }
        if is_switch && !is_out {
            let id = self.inputs.decoder(input).form_of(header, body).layout.trailer(body).unwrap_or_default();
            if header.kind == types::SWITCH_CPU_WIDE && !self.units.is_empty() {
                self.units.switched_in(id.cpu, id.tid, time, &self.session);
            }
            return self.back(id.tid, time, id.cpu);
        }
        match Record::decode(header, body, self.inputs.decoder(input).build_ids) {
            Ok(Record::LostSamples { .. }) if header.misc & misc::FILTERED_SAMPLES != 0 => {}
            Ok(Record::Lost { lost, .. } | Record::LostSamples { lost }) => {
                self.lose(input, header, body, time, lost);
            }
            Ok(Record::Throttle { .. }) => self.profile.ledger.throttled += 1,
            Ok(side) => {
                if let Record::Exit(task) = &side {
                    let id = self.inputs.decoder(input).form_of(header, body).layout.trailer(body).unwrap_or_default();
                    self.running.exited.insert(id.cpu, (task.pid, task.tid));
                }
                if !self.units.is_empty() {
                    self.units.side(&side, time, &self.session);
                }
                if let Some(change) = self.session.thread_change(&side) {
                    self.derived[self.session.at()].thread_changed(&change);
                    self.parallelism.iter_mut().for_each(|parallelism| parallelism.follow(&change));
                }
                self.session.apply(&side, time);
            }
            Err(_) => self.profile.ledger.malformed += 1,
        }
    }

    /// Applies a record of losses. perf writes LOST_SAMPLES at the end without a timestamp, for the losses that each
    /// event counted. The kernel writes them with a timestamp, for losses of the hardware's buffer.
    fn lose(&mut self, input: usize, header: Header, body: &[u8], time: u64, lost: u64) {
        let form = self.inputs.decoder(input).form_of(header, body);
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
        // Records of the kernel may be left over whose losses were reported before.
        if header.kind != types::LOST && id.time == 0 || lost == 0 {
            return;
        }
        self.times.lose(time, lost);
        let cpu = (form.layout.sample_type & sample::CPU != 0).then_some(id.cpu as u16);
        self.profile.losses.push(Loss { time, samples: lost, cpu, host: self.session.at() });
        self.units.lose(cpu.map(u32::from), time, lost);
        self.derived[self.session.at()].forget(lost);
        if let Some(parallelism) = &mut self.parallelism {
            parallelism.forget();
            self.profile.ledger.parallelism_gaps += 1;
        }
    }

    /// Reports the losses to units that the events of a recording counted, but no record reported: at the end of a
    /// recording by perf, no later record did.
    pub(super) fn lose_unreported(&mut self) {
        let lost = self.profile.ledger.unreported();
        if lost > 0 {
            self.units.lose_last(lost);
        }
    }

    pub(crate) fn decode<'a>(&self, input: usize, header: Header, body: &'a [u8]) -> Option<(u16, Sample<'a>)> {
        self.inputs.decoder(input).formed(header, body).map(|(form, sample)| (form.event, sample))
    }

    /// Returns the layout of a record of an input, and whether its mappings may carry build ids.
    pub(crate) fn form(&self, input: usize, header: Header, body: &[u8]) -> (Layout, bool) {
        let decoder = self.inputs.decoder(input);
        (decoder.form_of(header, body).layout, decoder.build_ids)
    }

    pub(crate) fn event_of(&self, input: usize, header: Header, body: &[u8]) -> u16 {
        self.inputs.decoder(input).form_of(header, body).event
    }

    /// Returns the counts of a record's group; `None` without group counts. Records must come in order of time.
    pub(crate) fn shares(&mut self, input: usize, header: Header, body: &[u8]) -> Option<Vec<GroupShare>> {
        let (form, sample) = self.inputs.decoder(input).formed(header, body)?;
        form.layout.is_read().then(|| self.inputs.decoder_mut(input).shares(&form, &sample))
    }

    pub(crate) fn start_unit(&mut self, mut unit: FilteredUnit, now: u64) -> Result<u64, String> {
        if self.derived.are_many() {
            return Err(SEVERAL_HOSTS.to_owned());
        }
        unit.look_around(&self.session);
        self.units.start(unit, now)
    }

    pub(crate) fn rename_texts(&mut self, form: NameForm) {
        self.texts.rename(form, &mut self.session, &mut self.profile);
    }

    /// Returns the data that queries read, with names of the events.
    pub fn data<'a>(&'a self, events: &'a [String]) -> Data<'a> {
        let SessionTimes { start, measured, .. } = self.times;
        Data { events, start, measured, ..Data::new(&self.session, &self.profile) }
    }

    /// Returns a complete copy of the current state.
    pub fn moment(&self) -> Snapshot {
        Snapshot {
            chunks: self.profile.share_chunks(),
            stacks: StackColumns::of(&self.profile),
            tasks: self.session.tasks().to_vec(),
            dsos: self.session.dsos.clone(),
            hosts: self.session.hosts().map(|id, host| self.machine(id, host)),
            has_raw: (0..).zip(&self.events).map(|(event, desc)| self.saves_raw(event, desc)).collect(),
            events: self.events.clone(),
            call_graph_modes: self.modes.call_graphs.clone(),
            own_pid: self.running.own_pid,
            marks: self.marks.clone(),
            losses: self.profile.losses.clone(),
            live: self.session.origin() == Origin::Live,
            held: Arc::default(),
        }
    }

    fn machine(&self, id: HostId, host: &Host) -> HostSnapshot {
        HostSnapshot {
            name: host.name.clone(),
            log: host.log.clone(),
            machine: self.summary.hosts[id].machine.clone(),
            containers: host.named_containers().cloned().collect(),
        }
    }
}
