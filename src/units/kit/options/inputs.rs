//! Units as event sources of other units: their findings appear among the other unit's events, in order of time.

use crate::profile::RetainedStack;
use crate::record::Record;

use crate::units::kit::options::{scope, settings};
use crate::units::kit::{Context, Event, EventRequest, Lost, Sample, Sees, Settings, Spec, Unit};

/// A unit's finding, an event for another unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub(crate) tid: i32,
    pub(crate) stack: RetainedStack,
    /// Description; empty if the stack suffices.
    pub(crate) text: String,
}

/// The source unit of an event, and the event's role in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceRole {
    pub(crate) source: usize,
    pub(crate) role: usize,
}

#[derive(Clone, Debug)]
struct Source {
    name: &'static str,
    unit: Box<dyn Unit>,
    whole: bool,
    across: bool,
}

impl Source {
    /// Runs the unit and returns its findings.
    fn finds(&mut self, cx: &mut Context<'_>, tell: impl FnOnce(&mut dyn Unit, &mut Context<'_>)) -> Vec<Finding> {
        let mut found = Vec::new();
        let Context { session, names, own, task, .. } = cx;
        tell(
            &mut *self.unit,
            &mut Context { found: Some(&mut found), task: *task, ..Context::new(session, names, own) },
        );
        found
    }
}

/// The units among a list of events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources(Vec<Source>);

impl Sources {
    /// Adds a unit with its own options and those of the unit that it serves. Returns its events.
    pub(crate) fn add(
        &mut self,
        spec: &'static Spec,
        typed: &str,
        of: &Settings,
    ) -> Result<Vec<(SourceRole, EventRequest)>, String> {
        let name = spec.name;
        let words = shlex::split(typed).ok_or_else(|| format!("{name}/{typed}/: a quote is not closed"))?;
        let mut settings = Settings::parse(&words, spec.options).map_err(|why| format!("{name}: {why}"))?;
        let takes = |option: &&&str| [spec.options, settings::SHARED].iter().any(|list| list.contains(*option));
        (settings.target, settings.alone) = (of.target.clone(), of.alone);
        for shared in ["frequency", "stack", "comm", "cpu"].iter().filter(|option| takes(option)) {
            if let Some(value) = of.get(shared).filter(|_| !settings.has(shared)) {
                settings.set(shared, value)?;
            }
        }
        let unit = (spec.make)(&settings).and_then(|unit| scope::applied(spec, &settings, unit));
        let unit = unit.map_err(|why| format!("{name}: {why}"))?;
        let requests = unit.event_requests();
        if requests.is_empty() || requests.iter().any(|want| want.counted) {
            return Err(format!("{name}: it counts, and has no single events for others"));
        }
        let source = self.0.len();
        self.0.push(Source { name, unit, whole: spec.sees == Sees::Machine, across: spec.across.is_some() });
        Ok(requests.into_iter().enumerate().map(|(role, want)| (SourceRole { source, role }, want)).collect())
    }

    /// Returns the source names by the event number of their findings.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u16, &'static str)> {
        self.0.iter().enumerate().map(|(at, source)| (Self::number(at), source.name))
    }

    /// Returns the event number for a source's findings, beyond the numbers of a session's events.
    pub(crate) fn number(source: usize) -> u16 {
        u16::MAX - 1 - source as u16
    }

    pub(crate) fn must_see_all(&self) -> bool {
        self.0.iter().any(|source| source.whole)
    }

    /// Whether a source relates records of several CPUs.
    pub(crate) fn are_across(&self) -> bool {
        self.0.iter().any(|source| source.across)
    }

    pub(crate) fn bind(&mut self, at: SourceRole, event: &Event<'_>) -> Result<(), String> {
        match self.0.get_mut(at.source) {
            Some(source) => source.unit.bind(&Event { role: at.role, ..*event }),
            None => Ok(()),
        }
    }

    /// Passes a hit to its source and returns the findings.
    /// `None` if the event itself is the finding. For a sample without fields, the finding is its stack.
    pub(crate) fn take(&mut self, at: SourceRole, hit: &Sample<'_>, cx: &mut Context<'_>) -> Option<Vec<Finding>> {
        let source = self.0.get_mut(at.source)?;
        let found = source.finds(cx, |unit, within| unit.record(&Sample { role: at.role, ..*hit }, within));
        let itself = || Finding { tid: hit.tid, stack: hit.stack, text: String::new() };
        match source.unit.has_findings() {
            true => Some(found),
            false => hit.raw.is_empty().then(|| vec![itself()]),
        }
    }

    /// Passes a context switch record to the sources. Returns findings with the event number of the source.
    pub(crate) fn came(&mut self, cpu: u32, tid: i32, time: u64, cx: &mut Context<'_>) -> Vec<(u16, Finding)> {
        let mut all = Vec::new();
        for (at, source) in self.0.iter_mut().enumerate() {
            let found = source.finds(cx, |unit, within| unit.came(cpu, tid, time, within));
            all.extend(found.into_iter().map(|finding| (Self::number(at), finding)));
        }
        all
    }

    pub(crate) fn side(&mut self, record: &Record<'_>, time: u64, cx: &mut Context<'_>) {
        self.0.iter_mut().for_each(|source| source.unit.side(record, time, cx));
    }

    pub(crate) fn lost(&mut self, lost: &Lost) {
        self.0.iter_mut().for_each(|source| source.unit.lost(lost));
    }

    pub(crate) fn reset(&mut self, now: u64) {
        self.0.iter_mut().for_each(|source| source.unit.reset(now));
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
