//! A unit with its settings, which receives only the records that they select.

use rustc_hash::FxHashSet;

use crate::panel::Panel;
use crate::profile::RetainedStack;
use crate::record::Record;
use crate::session::{Session, SleepingStack};

use super::options::scope::{Scope, may_be_sampled};
use super::options::select;
use super::options::target::ThreadChoice;
use super::{
    Context, CountedEvents, EventRequest, LostEvents, Moment, Sees, Settings, Spec, SummedCalls, SummedHits, Unit,
    UnitEvent, UnitSample,
};

/// Reported if only guests are requested and none has a sample.
const NO_GUESTS: &str =
    "no sample was of a guest: this host runs none, or only its PMU samples them (cpu-clock is a timer of the host)";

/// A unit that receives only the records in its scope.
#[derive(Clone, Debug)]
pub struct FilteredUnit {
    /// The unit's description.
    pub spec: &'static Spec,
    unit: Box<dyn Unit>,
    /// Whether it needs the records of the whole machine, and selects tasks itself.
    pub sees_machine: bool,
    /// Whether it relates records of several CPUs, and selects CPUs itself.
    pub merges_cpus: bool,
    scope: Scope,
    choice: ThreadChoice,
    /// Whether it receives only the records of chosen threads.
    by_choice: bool,
    /// Whether only guest samples are requested and none has arrived.
    wants_guests: bool,
    /// Whether its scope selects by target alone, so that sums are sufficient.
    takes_sums: bool,
    /// Numbers of the events that do not sample running code.
    traced: FxHashSet<u16>,
}

impl FilteredUnit {
    /// Creates a unit. Fails if the settings are invalid.
    pub(crate) fn new(spec: &'static Spec, mut settings: Settings) -> Result<Self, String> {
        let mut unit = (spec.make)(&mut settings)?;
        select::check(&settings, unit.attributes())?;
        let inputs = unit.inputs().map(|inputs| (inputs.see_machine(), inputs.merge_cpus()));
        let (inputs_see, inputs_merge) = inputs.unwrap_or_default();
        let sees_machine = spec.sees == Sees::Machine || inputs_see;
        let scope = Scope::of(spec, &settings)?;
        let is_chosen = ["comm", "cgroups", "container", "pod", "exclude_pid"].iter().any(|name| settings.has(name));
        let takes_sums = !is_chosen && scope.left.is_none() && scope.cpus.is_none();
        Ok(Self {
            spec,
            sees_machine,
            merges_cpus: spec.across.is_some() || inputs_merge,
            choice: ThreadChoice::of(&settings)?,
            by_choice: !sees_machine && (spec.sees == Sees::Target || settings.has_choice()),
            wants_guests: scope.host && unit.event_requests().iter().any(may_be_sampled),
            takes_sums,
            traced: FxHashSet::default(),
            unit,
            scope,
        })
    }

    fn is_on(&self, cpu: u32) -> bool {
        self.merges_cpus || self.scope.takes_cpu(cpu)
    }

    fn run(&mut self, cx: &mut Context<'_>, call: impl FnOnce(&mut dyn Unit, &mut Context<'_>)) {
        let Context { session, names, own, task, cpus, points, found, .. } = cx;
        let (points, found) = (points.as_deref_mut(), found.as_deref_mut());
        let (cpus, choice) = (self.scope.cpus.as_deref().or(*cpus), Some(&mut self.choice));
        call(&mut *self.unit, &mut Context { session, names, own, task: *task, choice, cpus, points, found });
    }

    fn takes(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) -> bool {
        if !self.is_on(hit.cpu) {
            return false;
        }
        self.wants_guests &= !hit.guest;
        (self.traced.contains(&hit.event) || self.scope.takes_mode(hit))
            && (self.sees_machine || !self.scope.pids.contains(&hit.pid))
            && (!self.by_choice || self.choice.has(hit.tid, cx))
    }

    /// Returns the required events with the kernel's part of the scope.
    pub fn event_requests(&self) -> Vec<EventRequest> {
        let mut requests = self.unit.event_requests();
        for want in requests.iter_mut().filter(|want| may_be_sampled(want)) {
            want.capture.clone_from(&self.scope.capture);
        }
        for want in requests.iter_mut().filter(|_| !self.takes_sums) {
            want.summed = None;
        }
        requests
    }

    /// Binds an open event, as in [`Unit::bind`].
    pub fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        if event.format.is_some() {
            self.traced.insert(event.number);
        }
        self.unit.bind(event)
    }

    /// Lets the unit query state that is older than the first record.
    pub fn begin(&mut self, cx: &mut Context<'_>) {
        self.run(cx, |unit, cx| unit.begin(cx));
    }

    /// Passes the unit a record in its scope.
    pub fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        if self.is_done() || !self.takes(hit, cx) {
            return;
        }
        self.scope.left = self.scope.left.map(|left| left - 1);
        self.run(cx, |unit, cx| unit.record(hit, cx));
    }

    /// Whether it has seen as many events as requested.
    pub fn is_done(&self) -> bool {
        self.scope.left == Some(0)
    }

    /// Whether it reports findings, as in [`Unit::has_findings`].
    pub fn has_findings(&self) -> bool {
        self.unit.has_findings()
    }

    /// Passes the unit a counter read.
    pub fn count(&mut self, counted: &CountedEvents) {
        if self.is_on(counted.cpu) {
            self.unit.count(counted);
        }
    }

    /// Passes the unit sums of system calls, those of the `measured` threads if not of all. If these are not the unit's,
    /// its threads are chosen here.
    pub(crate) fn add_sums(&mut self, calls: &SummedCalls<'_>, measured: Option<&ThreadChoice>, cx: &mut Context<'_>) {
        let is_all = measured.is_some_and(|measured| self.choice.is_same(measured));
        let mut sums = calls.sums.clone();
        sums.retain(|sum| is_all || self.has_thread(sum.pid, sum.tid, cx));
        let mut open = calls.open.clone();
        open.retain(|open| is_all || self.has_thread(0, open.tid, cx));
        self.run(cx, |unit, cx| unit.add_sums(&SummedCalls { sums, open, ..*calls }, cx));
    }

    /// Passes the unit sums of hits, as [`Self::add_sums`] does with calls.
    pub(crate) fn add_hits(&mut self, hits: SummedHits, measured: Option<&ThreadChoice>, cx: &mut Context<'_>) {
        let is_all = measured.is_some_and(|measured| self.choice.is_same(measured));
        let mut sums = hits.sums;
        sums.retain(|sum| is_all || self.has_thread(sum.pid, sum.tid, cx));
        self.run(cx, |unit, cx| unit.add_hits(&SummedHits { sums, ..hits }, cx));
    }

    /// Whether a thread is the unit's, also one that has ended, if its process is not 0.
    pub(crate) fn has_thread(&mut self, pid: i32, tid: i32, cx: &mut Context<'_>) -> bool {
        cx.task = Some((pid, tid));
        let is_chosen = !self.by_choice || self.choice.has(tid, cx);
        cx.task = None;
        is_chosen
    }

    /// Passes side-band records to the unit, and follows its threads across forks and id changes.
    pub fn on_sideband(&mut self, record: &Record<'_>, time: u64, cx: &mut Context<'_>) {
        self.choice.follow_record(record, cx);
        self.run(cx, |unit, cx| {
            if let Some(inputs) = unit.inputs() {
                inputs.on_sideband(record, time, cx);
            }
            if let Some(change) = cx.session.thread_change(record) {
                unit.thread_changed(&change, time, cx);
            }
            unit.on_sideband(record, time, cx);
        });
    }

    /// Passes the unit a context switch record: a thread starts to run on a CPU.
    pub fn on_switch_in(&mut self, cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) {
        if self.is_on(cpu) {
            self.run(cx, |unit, cx| unit.on_switch_in(cpu, tid, time, cx));
        }
    }

    /// Reports lost records to the unit.
    pub fn lost(&mut self, lost: &LostEvents) {
        if let Some(inputs) = self.unit.inputs() {
            inputs.lost(lost);
        }
        self.unit.lost(lost);
    }

    /// Ends the measurement, as in [`Unit::stop`].
    pub fn stop(&mut self) {
        if let Some(inputs) = self.unit.inputs() {
            inputs.stop();
        }
        self.unit.stop();
    }

    /// Describes the effect of losses on the figures.
    pub fn loss_text(&self) -> &'static str {
        self.unit.loss_text()
    }

    /// Lets the unit read state before a command starts, as in [`Unit::look_around`].
    pub fn look_around(&mut self, session: &Session) {
        self.unit.look_around(session);
    }

    /// Whether reports of several intervals add up to one log, as in [`Unit::is_log`].
    pub fn is_log(&self) -> bool {
        self.unit.is_log()
    }

    /// Returns why nothing was seen, if no requested sample can have arrived.
    pub fn why_empty(&self) -> Option<&'static str> {
        self.wants_guests.then_some(NO_GUESTS)
    }

    /// Lets the unit keep addresses of data, as in [`Unit::pin_data`].
    pub fn pin_data(&mut self, now: u64, pin: &mut dyn FnMut(i32, u64) -> RetainedStack) {
        self.unit.pin_data(now, pin);
    }

    /// Lets the unit keep stacks of sleeping threads, as in [`Unit::pin_sleepers`].
    pub(crate) fn pin_sleepers(&mut self, pin: &mut dyn FnMut(&SleepingStack) -> Option<RetainedStack>) {
        self.unit.pin_sleepers(pin);
    }

    /// Lets the unit query state that no record provided, before panels are made.
    pub fn settle(&mut self, cx: &mut Context<'_>) {
        self.run(cx, |unit, cx| unit.settle(cx));
    }

    /// Returns the current results.
    pub fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.unit.panels(at)
    }

    /// Resets all figures, as in [`Unit::reset`].
    pub fn reset(&mut self, now: u64) {
        if let Some(inputs) = self.unit.inputs() {
            inputs.reset(now);
        }
        self.unit.reset(now);
    }

    /// Resets all figures and stacks, as in [`Unit::restart`].
    pub fn restart(&mut self, now: u64) {
        self.reset(now);
        self.unit.restart(now);
    }

    /// Sets the baseline to the current figures, or removes it.
    pub fn baseline(&mut self, set: bool) -> Result<(), String> {
        self.unit.baseline(set)
    }
}
