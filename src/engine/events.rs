//! The events of a session with their figures: samples, counts, rates, losses, states.

use crate::event::base_name;
use crate::kernel::attr::{TYPE_BREAKPOINT, TYPE_TRACEPOINT};
use crate::perfdata::{EventDesc, apart};
use crate::profile::{Acc, Ledger};
use crate::query::answer::{EventInfo, Meter};
use crate::source::live::throttle;
use crate::source::{CountReading, Counts, EventState, Rate, RunState};

const HISTORY: usize = 120;

#[derive(Debug, Default)]
struct Row {
    total: Acc,
    /// The part that arrived since the view was frozen.
    newer: Acc,
    /// Samples and counts at the last computation of rates.
    then: (u64, Counts),
    meter: Option<Meter>,
}

/// All events of a session; their number only grows.
#[derive(Debug, Default)]
pub struct Events {
    names: Vec<String>,
    rows: Vec<Row>,
    taken_at: u64,
    frozen: bool,
}

impl Events {
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn know(&mut self, events: &[EventDesc]) {
        for event in events.iter().skip(self.names.len()) {
            self.names.push(apart(&self.names, &event.name));
            self.rows.push(Row::default());
        }
    }

    pub(crate) fn add(&mut self, event: u16, weight: u64) {
        if let Some(row) = self.rows.get_mut(usize::from(event)) {
            row.total += Acc::one(weight);
            if self.frozen {
                row.newer += Acc::one(weight);
            }
        }
    }

    /// Sets whether samples from now on are newer than the view.
    pub(crate) fn freeze(&mut self, on: bool) {
        self.frozen = on;
        self.rows.iter_mut().for_each(|row| row.newer = Acc::default());
    }

    pub(crate) fn take(&mut self, event: u16, weight: u64) {
        if let Some(row) = self.rows.get_mut(usize::from(event)) {
            row.total -= Acc::one(weight);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.rows.iter_mut().for_each(|row| (row.total, row.newer, row.then.0) = (Acc::default(), Acc::default(), 0));
    }

    pub(crate) fn total(&self, event: usize) -> Acc {
        self.rows.get(event).map(|row| row.total).unwrap_or_default()
    }

    /// Returns the samples of an event since the view was frozen.
    pub(crate) fn newer(&self, event: usize) -> Acc {
        self.rows.get(event).map(|row| row.newer).unwrap_or_default()
    }

    pub(crate) fn seen(&self, event: usize) -> Acc {
        let mut seen = self.total(event);
        seen -= self.newer(event);
        seen
    }

    /// Applies new counts and computes rates; `slots` maps the source's events to the session's.
    pub(crate) fn count(&mut self, read: &CountReading, slots: &[u16]) {
        let seconds = (read.at.saturating_sub(std::mem::replace(&mut self.taken_at, read.at))) as f64 / 1e9;
        for (slot, counts) in slots.iter().zip(&read.of) {
            let Some(row) = self.rows.get_mut(usize::from(*slot)) else { continue };
            let (samples, then) = std::mem::replace(&mut row.then, (row.total.samples, *counts));
            let Some(meter) = &mut row.meter else { continue };
            meter.count = counts.value;
            if !(0.05..60.0).contains(&seconds) {
                continue;
            }
            meter.rate = counts.value.saturating_sub(then.value) as f64 / seconds;
            meter.sampled = row.total.samples.saturating_sub(samples) as f64 / seconds;
            let enabled = counts.enabled_ns.saturating_sub(then.enabled_ns);
            let running = counts.running_ns.saturating_sub(then.running_ns);
            meter.running_percent = if enabled == 0 { 0.0 } else { 100.0 * running as f64 / enabled as f64 };
            if meter.history.len() == HISTORY {
                meter.history.pop_front();
            }
            meter.history.push_back(meter.rate as f32);
        }
    }

    /// Applies the current settings of the source's events.
    pub(crate) fn set_states(&mut self, states: &[EventState], slots: &[u16]) {
        for (slot, state) in slots.iter().zip(states) {
            let Some(row) = self.rows.get_mut(usize::from(*slot)) else { continue };
            if let Some(name) = self.names.get_mut(usize::from(*slot)) {
                name.clone_from(&state.name);
            }
            match &mut row.meter {
                Some(meter) => meter.state = state.clone(),
                None => row.meter = Some(Meter::new(state.clone())),
            }
        }
    }

    /// Returns the events for an answer. `per_sample` is the cost of a timer's sample in seconds.
    pub(crate) fn infos(&self, descs: &[EventDesc], ledger: &Ledger, per_sample: f64, n_cpus: usize) -> Vec<EventInfo> {
        let info = |(i, row): (usize, &Row)| {
            let mut meter = row.meter.clone();
            if let (Some(meter), Some(desc)) = (&mut meter, descs.get(i)) {
                meter.cost_percent = cost(desc, meter, per_sample, n_cpus);
            }
            EventInfo {
                name: self.names[i].clone(),
                meaning: descs.get(i).map(EventDesc::meaning).unwrap_or_default(),
                total: row.total,
                lost: ledger.lost_of(i),
                note: meter.as_ref().and_then(|m| match &m.state.run {
                    RunState::Refused(why) => Some(why.clone()),
                    _ => m.state.note.clone(),
                }),
                filter: meter.as_ref().and_then(|m| m.state.filter.clone()),
                is_dummy: descs.get(i).is_some_and(EventDesc::is_dummy),
                texts: Vec::new(),
                meter,
            }
        };
        self.rows.iter().enumerate().map(info).collect()
    }
}

/// Notes on derived events which part of their source events is not sampled.
pub(crate) fn tell_partial(infos: &mut [EventInfo], derived: impl Iterator<Item = (u16, Vec<u16>)>) {
    for (event, made_of) in derived {
        let part = |one: &u16| infos.get(usize::from(*one)).and_then(partial);
        let parts: Vec<String> = made_of.iter().filter_map(part).collect();
        let Some(info) = infos.get_mut(usize::from(event)).filter(|_| !parts.is_empty()) else { continue };
        let by = parts.join(", ");
        info.note = Some(format!("{by}: durations with a missing start or end are missing or too long"));
        info.filter = Some(by);
    }
}

/// Returns which part of an event's hits is sampled, if not all.
fn partial(info: &EventInfo) -> Option<String> {
    let name = base_name(&info.name);
    let state = &info.meter.as_ref()?.state;
    match (&info.filter, state.rate) {
        (Some(filter), _) => Some(format!("{name} keeps only {filter}")),
        (_, Rate::Period(0)) => Some(format!("{name} is only counted")),
        (_, Rate::Period(n)) if n > 1 => Some(format!("{name} keeps one in {n}")),
        (_, Rate::Frequency(hz)) => Some(format!("{name} keeps {hz} per second")),
        _ if !state.cpus.is_empty() => Some(format!("{name} is measured on CPU {} only", state.cpus)),
        _ => None,
    }
}

/// Returns the estimated cost of an event's samples, in percent of each CPU, from their rate.
fn cost(desc: &EventDesc, meter: &Meter, per_sample: f64, n_cpus: usize) -> f64 {
    if meter.state.run != RunState::Running {
        return 0.0;
    }
    match (meter.state.rate, desc.attr.kind) {
        (_, TYPE_TRACEPOINT | TYPE_BREAKPOINT) => {
            // The profile keeps no samples for units: what the kernel counts is recorded.
            let recorded = match meter.state.rate {
                Rate::Period(period) if meter.state.for_units && period > 0 => meter.rate / period as f64,
                _ => meter.sampled,
            };
            throttle::percent(recorded, meter.state.chains.is_on()) / n_cpus.max(1) as f64
        }
        // A timer fires whether or not its sample is kept.
        (Rate::Frequency(hz), _) => per_sample * hz as f64 * 100.0,
        (Rate::Period(_), _) => per_sample * meter.sampled * 100.0 / n_cpus.max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(name: &str) -> EventState {
        EventState {
            name: name.to_owned(),
            replaces: None,
            run: RunState::Running,
            note: None,
            filter: None,
            rate: Rate::Period(1),
            chains: crate::event::CallGraph::None,
            cpus: String::new(),
            for_units: false,
        }
    }

    #[test]
    fn what_is_made_of_a_part_of_others_says_so() {
        use crate::perfdata::PeriodMeaning;

        let info = |name: &str, meter| EventInfo {
            name: name.to_owned(),
            meaning: PeriodMeaning::default(),
            total: Acc::default(),
            lost: 0,
            note: None,
            filter: None,
            is_dummy: false,
            texts: Vec::new(),
            meter,
        };
        let said = |change: &dyn Fn(&mut EventState)| {
            let mut state = running("sched:sched_switch");
            change(&mut state);
            let filter = state.filter.clone();
            let made_of = EventInfo { filter, ..info("sched:sched_switch", Some(Meter::new(state))) };
            let mut infos = vec![made_of, info("off-cpu", None)];
            tell_partial(&mut infos, [(1, vec![0]), (7, vec![9])].into_iter());
            assert_eq!(infos[1].note.is_some(), infos[1].filter.is_some());
            infos[1].filter.take().unwrap_or_default().replace("sched:sched_switch ", "")
        };
        assert_eq!(said(&|_| {}), "");
        assert_eq!(said(&|state| state.filter = Some("prev_pid > 7".to_owned())), "keeps only prev_pid > 7");
        assert_eq!(said(&|state| state.rate = Rate::Period(10)), "keeps one in 10");
        assert_eq!(said(&|state| state.rate = Rate::Period(0)), "is only counted");
        assert_eq!(said(&|state| state.rate = Rate::Frequency(99)), "keeps 99 per second");
        assert_eq!(said(&|state| state.cpus = "1".to_owned()), "is measured on CPU 1 only");
    }

    #[test]
    fn rates_are_of_the_time_between_two_counts() {
        let mut events = Events::default();
        let desc = EventDesc { name: "a".into(), attr: Default::default(), ids: vec![] };
        events.know(&[EventDesc::derived("off-cpu"), desc]);
        events.set_states(&[running("b")], &[1]);
        let counts = |value, running_ns| Counts { value, enabled_ns: value * 10, running_ns, lost: 3 };
        events.count(&CountReading { at: 1_000_000_000, of: vec![counts(100, 1000)] }, &[1]);
        events.add(1, 5);
        events.count(&CountReading { at: 3_000_000_000, of: vec![counts(300, 2000)] }, &[1]);
        let mut ledger = Ledger::default();
        ledger.losses_of(1).counted = 3;
        let infos = events.infos(&[EventDesc::derived("off-cpu"), EventDesc::derived("b")], &ledger, 0.0, 2);
        let meter = infos[1].meter.as_ref().expect("live");
        assert_eq!((infos[1].name.as_str(), infos[1].lost, infos[1].total.samples), ("b", 3, 1));
        assert_eq!((meter.rate, meter.sampled, meter.running_percent, meter.count), (100.0, 0.5, 50.0, 300));
        assert!(infos[0].meter.is_none());
    }

    /// Records for units cost what the kernel counts, those for the profile what is sampled.
    #[test]
    fn records_for_units_have_a_cost() {
        let attr = crate::kernel::attr::Attr { kind: TYPE_TRACEPOINT, ..Default::default() };
        let desc = EventDesc { name: "sched:sched_switch".into(), attr, ids: vec![] };
        let cost_of = |for_units, rate| {
            let state = EventState { for_units, rate, ..running("sched:sched_switch") };
            let meter = Meter { rate: 100_000.0, sampled: 0.0, ..Meter::new(state) };
            cost(&desc, &meter, 0.0, 2)
        };
        // 0.5 µs for each hit, on two CPUs.
        assert_eq!((cost_of(true, Rate::Period(1)) * 10.0).round(), 25.0);
        assert_eq!((cost_of(true, Rate::Period(10)) * 100.0).round(), 25.0);
        assert_eq!([cost_of(false, Rate::Period(1)), cost_of(true, Rate::Period(0))], [0.0, 0.0]);
    }

    #[test]
    fn what_came_since_the_freeze_is_told_from_what_is_seen() {
        let mut events = Events::default();
        events.know(&[EventDesc::derived("a"), EventDesc::derived("b")]);
        events.add(0, 10);
        events.freeze(true);
        [(0, 20), (1, 5), (0, 30)].iter().for_each(|(event, weight)| events.add(*event, *weight));
        let acc = |samples, period| Acc { samples, period };
        assert_eq!((events.seen(0), events.newer(0)), (acc(1, 10), acc(2, 50)));
        assert_eq!((events.seen(1), events.newer(1)), (acc(0, 0), acc(1, 5)));
        events.freeze(false);
        events.add(0, 40);
        assert_eq!((events.seen(0), events.newer(0)), (acc(4, 100), acc(0, 0)));
    }
}
