//! Units as event sources of other units: their findings appear among the other unit's events, in order of time.

use crate::profile::RetainedStack;
use crate::record::Record;
use crate::units::kit::filtered::FilteredUnit;
use crate::units::kit::options::select::{self, SelectedEvent, SourceRole};
use crate::units::kit::options::settings::{Settings, takes};
use crate::units::kit::{Context, EventRequest, LostEvents, Spec, UnitEvent, UnitSample};

/// A unit's finding, an event for another unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub(crate) tid: i32,
    pub(crate) stack: RetainedStack,
    /// Description; empty if the stack suffices.
    pub(crate) text: String,
}

/// The units among a list of events.
#[derive(Clone, Debug, Default)]
pub struct UnitInputs(Vec<FilteredUnit>);

fn findings(
    unit: &mut FilteredUnit,
    cx: &mut Context<'_>,
    run: impl FnOnce(&mut FilteredUnit, &mut Context<'_>),
) -> Vec<Finding> {
    let mut found = Vec::new();
    let Context { session, names, own, task, .. } = cx;
    run(unit, &mut Context { found: Some(&mut found), task: *task, ..Context::new(session, names, own) });
    found
}

/// Parses the lists of `-e`. Units' events replace them and come first: a finding precedes the event that caused it.
pub(crate) fn joint(settings: &Settings) -> Result<(Vec<Vec<SelectedEvent>>, UnitInputs), String> {
    let mut inputs = UnitInputs::default();
    let unit = |name: &str| settings.units.iter().find(|spec| spec.name == name);
    let hz = settings.get("frequency").map(|_| settings.hertz("frequency", 0)).transpose()?;
    let mut lists = Vec::new();
    for text in settings.all("event") {
        let parsed = select::parse_with(text, &|name| unit(name).is_some()).map_err(|fault| format!("-e: {fault}"))?;
        let (mut list, mut plain) = (Vec::new(), Vec::new());
        for one in parsed {
            match unit(&one.event) {
                None => plain.push(SelectedEvent { hz, ..one }),
                Some(spec) => {
                    let events = inputs.add(spec, one.filter.as_deref().unwrap_or_default(), settings)?;
                    list.extend(events.into_iter().map(|of| SelectedEvent { source: Some(of), ..one.clone() }));
                }
            }
        }
        list.append(&mut plain);
        lists.push(list);
    }
    Ok((lists, inputs))
}

impl UnitInputs {
    /// Adds a unit with its own options and those of the unit that it serves. Returns its events.
    pub(crate) fn add(
        &mut self,
        spec: &'static Spec,
        typed: &str,
        of: &Settings,
    ) -> Result<Vec<(SourceRole, EventRequest)>, String> {
        let name = spec.name;
        let words = shlex::split(typed).ok_or_else(|| format!("{name}/{typed}/: a quote is not closed"))?;
        let mut settings = Settings::parse(&words, spec).map_err(|why| format!("{name}: {why}"))?;
        (settings.target, settings.alone) = (of.target.clone(), of.alone);
        for shared in ["frequency", "stack", "comm", "cpu"].into_iter().filter(|option| takes(spec, option)) {
            if let Some(value) = of.get(shared).filter(|_| !settings.has(shared)) {
                settings.set(shared, value);
            }
        }
        let unit = FilteredUnit::new(spec, settings).map_err(|why| format!("{name}: {why}"))?;
        let requests = unit.event_requests();
        if requests.is_empty() || requests.iter().any(|want| want.counted) {
            return Err(format!("{name}: it counts, and has no single events for others"));
        }
        let source = self.0.len();
        self.0.push(unit);
        Ok(requests
            .into_iter()
            .enumerate()
            .map(|(role, want)| (SourceRole { source, role }, EventRequest { summed: None, ..want }))
            .collect())
    }

    /// Returns the source names by the event number of their findings.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u16, &'static str)> {
        self.0.iter().enumerate().map(|(at, unit)| (Self::number(at), unit.spec.name))
    }

    /// Returns the event number for a source's findings, beyond the numbers of a session's events.
    pub(crate) fn number(source: usize) -> u16 {
        u16::MAX - 1 - source as u16
    }

    /// Whether one of them needs the records of the whole machine.
    pub(crate) fn see_machine(&self) -> bool {
        self.0.iter().any(|unit| unit.sees_machine)
    }

    /// Whether one of them relates records of several CPUs.
    pub(crate) fn merge_cpus(&self) -> bool {
        self.0.iter().any(|unit| unit.merges_cpus)
    }

    pub(crate) fn bind(&mut self, at: SourceRole, event: &UnitEvent<'_>) -> Result<(), String> {
        self.0.get_mut(at.source).map_or(Ok(()), |unit| unit.bind(&UnitEvent { role: at.role, ..*event }))
    }

    /// Passes a hit to its source and returns the findings.
    /// `None` if the event itself is the finding. For a sample without fields, the finding is its stack.
    pub(crate) fn take(&mut self, at: SourceRole, hit: &UnitSample<'_>, cx: &mut Context<'_>) -> Option<Vec<Finding>> {
        let unit = self.0.get_mut(at.source)?;
        let found = findings(unit, cx, |unit, within| unit.record(&UnitSample { role: at.role, ..*hit }, within));
        let itself = || Finding { tid: hit.tid, stack: hit.stack, text: String::new() };
        match unit.has_findings() {
            true => Some(found),
            false => hit.raw.is_empty().then(|| vec![itself()]),
        }
    }

    /// Passes a context switch record to the sources. Returns findings with the event number of the source.
    pub(crate) fn on_switch_in(&mut self, cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) -> Vec<(u16, Finding)> {
        let mut all = Vec::new();
        for (at, unit) in self.0.iter_mut().enumerate() {
            let found = findings(unit, cx, |unit, within| unit.on_switch_in(cpu, tid, time, within));
            all.extend(found.into_iter().map(|finding| (Self::number(at), finding)));
        }
        all
    }

    pub(crate) fn on_sideband(&mut self, record: &Record<'_>, time: u64, cx: &mut Context<'_>) {
        self.0.iter_mut().for_each(|unit| unit.on_sideband(record, time, cx));
    }

    pub(crate) fn lost(&mut self, lost: &LostEvents) {
        self.0.iter_mut().for_each(|unit| unit.lost(lost));
    }

    pub(crate) fn stop(&mut self) {
        self.0.iter_mut().for_each(FilteredUnit::stop);
    }

    pub(crate) fn reset(&mut self, now: u64) {
        self.0.iter_mut().for_each(|unit| unit.reset(now));
    }
}

/// The text of a finding or of a sample without text, with its stack.
pub(crate) fn words(text: &str, stack: RetainedStack, line: impl FnOnce(RetainedStack) -> String) -> String {
    match (text.is_empty(), stack == RetainedStack::NONE) {
        (true, true) => String::new(),
        (false, true) => text.to_owned(),
        (true, false) => line(stack),
        (false, false) => format!("{text} in {}", line(stack)),
    }
}
