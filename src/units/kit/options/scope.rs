//! Options that all units share: the samples that a unit receives, and the grouping of its rows.

use rustc_hash::FxHashSet;

use crate::filter::expr;
use crate::panel::Panel;
use crate::record::Record;

use crate::units::kit::options::settings::{DECIDED_LIVE, OF_TASKS, is_number_list, samples_tasks};
use crate::units::kit::options::target::{ThreadChoice, excluded};
use crate::units::kit::{
    Context, CountedEvents, Event, EventRequest, Lost, Moment, Sample, Sees, Settings, Spec, Unit,
};

/// Replaces option aliases by the options that they stand for.
pub(crate) fn spelled_out(spec: &Spec, settings: &Settings) -> Settings {
    let mut out = settings.clone();
    if settings.has("perins") {
        let has = |name: &str| spec.options.contains(&name);
        let by_thread = has("per-thread") && (!has("per-cpu") || settings.target.is_tasks());
        let name = ["per-thread", "per-cpu"].into_iter().find(|name| has(name) && (*name == "per-thread") == by_thread);
        name.into_iter().for_each(|name| drop(out.set(name, "")));
    }
    out
}

pub(crate) fn applied(spec: &Spec, settings: &Settings, unit: Box<dyn Unit>) -> Result<Box<dyn Unit>, String> {
    let whole = spec.sees == Sees::Machine || unit.must_see_all();
    let scope = Scope::of(spec, settings, whole)?;
    if !scope.narrows() {
        return Ok(unit);
    }
    let across = spec.across.is_some() || unit.is_across();
    let wants_guests = scope.host && unit.event_requests().iter().any(may_be_sampled);
    Ok(Box::new(Scoped { unit, scope, whole, across, wants_guests, traced: FxHashSet::default() }))
}

/// Returns the shared options that have no effect on this unit, with the reason.
pub fn idle(spec: &Spec, settings: &Settings, requests: &[EventRequest]) -> Vec<String> {
    let name = spec.name;
    let mut out = Vec::new();
    let given = |list: &[&str]| -> Vec<String> {
        list.iter().filter(|name| settings.has(name)).map(|name| format!("--{name}")).collect()
    };
    let of_samples = given(&[DECIDED_LIVE, MODES].concat());
    if !of_samples.is_empty() && !requests.iter().any(may_be_sampled) {
        let list = of_samples.join(", ");
        out.push(format!(
            "{name}: {list}: no effect here. It chooses among samples of what runs; this unit is told of events, \
             which -e EVENT/FILTER/ and --comm choose from"
        ));
    }
    if spec.name == "misc" && settings.has_choice() {
        out.push(format!("{name}: the target has no effect here. What changes in the kernel belongs to no thread"));
    }
    if settings.has("perins") && !["per-thread", "per-cpu"].iter().any(|name| spec.options.contains(name)) {
        out.push(format!("{name}: --perins: no effect here. Its rows can only be split in one way"));
    }
    out
}

const MODES: &[&str] = &["exclude-user", "exclude-kernel", "exclude-guest", "exclude-host"];

/// Returns an event with stacks that cannot be unwound by tables: a BPF program on a probe would take its hits away from
/// all other users.
pub fn walked_by_nobody(requests: &[EventRequest]) -> Option<&EventRequest> {
    requests.iter().find(|want| want.stack && !may_be_walked(want))
}

/// Returns whether optional events, which are opened after all others, have stacks that a BPF program can walk.
pub fn samples_later(requests: &[EventRequest]) -> bool {
    requests.iter().any(|want| want.stack && want.optional && may_be_walked(want))
}

/// Whether an event samples running code or hits of a tracepoint, in contrast to a probe.
fn may_be_walked(want: &EventRequest) -> bool {
    want.probe.is_none() && !want.counted
}

/// Whether an event samples running code, in contrast to hits of a tracepoint or probe.
fn may_be_sampled(want: &EventRequest) -> bool {
    let named = want.event.split('|').next().unwrap_or_default();
    want.probe.is_none() && !want.counted && (!named.contains(':') || named.starts_with("mem:"))
}

/// The samples to omit.
#[derive(Clone, Debug, Default)]
struct Scope {
    user: bool,
    kernel: bool,
    guest: bool,
    host: bool,
    pids: Vec<i32>,
    /// The threads whose records the unit receives, unless it needs those of all threads.
    choice: Option<ThreadChoice>,
    cpus: Option<Vec<u32>>,
    /// Number of events until the end.
    left: Option<u64>,
    /// A filter for the kernel, in the filter language.
    capture: Option<String>,
}

impl Scope {
    fn of(spec: &Spec, settings: &Settings, whole: bool) -> Result<Self, String> {
        let pids = excluded(settings)?;
        let mut clauses = Vec::new();
        for (name, word) in [("irqs_disabled", "irqs_off"), ("tif_need_resched", "need_resched")] {
            match settings.get(name) {
                None => {}
                Some("1") => clauses.push(word.to_owned()),
                Some("0") => clauses.push(format!("!{word}")),
                Some(other) => return Err(format!("--{name}={other}: expected 0 or 1")),
            }
        }
        for (name, sign) in [("nr_running_min", ">="), ("nr_running_max", "<=")] {
            if settings.has(name) {
                clauses.push(format!("nr_running {sign} {}", settings.number(name, 0)?));
            }
        }
        for (name, word) in OF_TASKS.iter().filter(|(name, _)| samples_tasks(spec) && settings.has(name)) {
            let list = settings.get(name).unwrap_or_default();
            let clause = format!("{word} in {list}");
            if !is_number_list(list) || expr::parse(&clause).is_err() {
                return Err(format!("--{name} {list}: expected numbers, such as 0-99,120"));
            }
            clauses.push(clause);
        }
        let [user, kernel, guest, host] =
            ["exclude-user", "exclude-kernel", "exclude-guest", "exclude-host"].map(|name| settings.has(name));
        if user && kernel || guest && host {
            return Err("nothing would be left: all samples are of user or kernel code".to_owned());
        }
        clauses.extend(user.then(|| "!user".to_owned()));
        clauses.extend(kernel.then(|| "!kernel".to_owned()));
        clauses.extend(pids.iter().map(|pid| format!("pid != {pid}")));
        let capture = (!clauses.is_empty()).then(|| clauses.join(" && "));
        let left = settings.has("exit-N").then(|| settings.number("exit-N", 0)).transpose()?;
        if left == Some(0) {
            return Err("-N 0: expected a number of events".to_owned());
        }
        Ok(Self {
            user,
            kernel,
            guest,
            host,
            pids,
            choice: (settings.has_choice() && !whole).then(|| ThreadChoice::of(settings)).transpose()?,
            cpus: settings.cpus()?,
            left,
            capture,
        })
    }

    fn narrows(&self) -> bool {
        self.guest
            || self.host
            || self.choice.is_some()
            || self.cpus.is_some()
            || self.left.is_some()
            || self.capture.is_some()
    }
}

/// Reported if only guests are requested and none has a sample.
const NO_GUESTS: &str =
    "no sample was of a guest: this host runs none, or only its PMU samples them (cpu-clock is a timer of the host)";

/// A unit that receives only the records in its scope.
#[derive(Clone, Debug)]
struct Scoped {
    unit: Box<dyn Unit>,
    scope: Scope,
    /// Whether the unit itself selects tasks, because it needs records of all.
    whole: bool,
    /// Whether the unit itself selects CPUs, because it relates records of several.
    across: bool,
    /// Whether only guest samples are requested and none has arrived.
    wants_guests: bool,
    /// Numbers of the events that do not sample running code.
    traced: FxHashSet<u16>,
}

impl Scoped {
    fn is_on(&self, cpu: u32) -> bool {
        self.across || self.scope.cpus.as_ref().is_none_or(|cpus| cpus.binary_search(&cpu).is_ok())
    }

    /// Calls the unit with the selected CPUs in the context.
    fn tell(&mut self, cx: &mut Context<'_>, told: impl FnOnce(&mut dyn Unit, &mut Context<'_>)) {
        let Context { session, names, own, task, cpus, points, found } = cx;
        let (cpus, points, found) = (self.scope.cpus.as_deref().or(*cpus), points.as_deref_mut(), found.as_deref_mut());
        told(&mut *self.unit, &mut Context { session, names, own, task: *task, cpus, points, found });
    }

    fn takes(&mut self, hit: &Sample<'_>, cx: &mut Context<'_>) -> bool {
        if !self.is_on(hit.cpu) {
            return false;
        }
        self.wants_guests &= !hit.guest;
        let scope = &mut self.scope;
        let by_mode = self.traced.contains(&hit.event)
            || !(if hit.user { scope.user } else { scope.kernel } || if hit.guest { scope.guest } else { scope.host });
        by_mode
            && (self.whole
                || !scope.pids.contains(&hit.pid) && scope.choice.as_mut().is_none_or(|choice| choice.has(hit.tid, cx)))
    }
}

impl Unit for Scoped {
    fn event_requests(&self) -> Vec<EventRequest> {
        let mut requests = self.unit.event_requests();
        for want in requests.iter_mut().filter(|want| may_be_sampled(want)) {
            want.capture.clone_from(&self.scope.capture);
        }
        requests
    }

    fn bind(&mut self, event: &Event<'_>) -> Result<(), String> {
        if event.format.is_some() {
            self.traced.insert(event.number);
        }
        self.unit.bind(event)
    }

    fn record(&mut self, hit: &Sample<'_>, cx: &mut Context<'_>) {
        if self.is_done() || !self.takes(hit, cx) {
            return;
        }
        self.scope.left = self.scope.left.map(|left| left - 1);
        self.tell(cx, |unit, cx| unit.record(hit, cx));
    }

    fn is_done(&self) -> bool {
        self.scope.left == Some(0)
    }

    fn has_findings(&self) -> bool {
        self.unit.has_findings()
    }

    fn must_see_all(&self) -> bool {
        self.unit.must_see_all()
    }

    fn is_across(&self) -> bool {
        self.unit.is_across()
    }

    fn count(&mut self, counted: &CountedEvents) {
        if self.is_on(counted.cpu) {
            self.unit.count(counted);
        }
    }

    fn side(&mut self, record: &Record<'_>, time: u64, cx: &mut Context<'_>) {
        if let Some(choice) = &mut self.scope.choice {
            choice.side(record, cx);
        }
        self.tell(cx, |unit, cx| unit.side(record, time, cx));
    }

    fn came(&mut self, cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) {
        if self.is_on(cpu) {
            self.tell(cx, |unit, cx| unit.came(cpu, tid, time, cx));
        }
    }

    fn lost(&mut self, lost: &Lost) {
        self.unit.lost(lost);
    }

    fn loss_text(&self) -> &'static str {
        self.unit.loss_text()
    }

    fn silence(&self) -> Option<&'static str> {
        let none = self.wants_guests.then_some(NO_GUESTS);
        none.or_else(|| self.unit.silence())
    }

    fn settle(&mut self, cx: &mut Context<'_>) {
        self.tell(cx, |unit, cx| unit.settle(cx));
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.unit.panels(at)
    }

    fn reset(&mut self, now: u64) {
        self.unit.reset(now);
    }

    fn restart(&mut self, now: u64) {
        self.unit.restart(now);
    }

    fn baseline(&mut self, set: bool) -> Result<(), String> {
        self.unit.baseline(set)
    }
}
