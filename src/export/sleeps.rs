//! Merges sleeps into the switches by which tasks went to sleep. Like in perf inject -s, the sample of such a switch is
//! written when its task runs again, with the time in between as its period.

use crate::event::format::Field;
use crate::ingest::switches::{Switch, Switches};
use crate::ingest::tracepoints;
use crate::record::Sample;
use crate::record::kinds::HEADER;
use crate::record::open_spans::{OpenSpans, ThreadChange};
use crate::source::Info;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SleepOutcome {
    Kept,
    /// Drop it; write this record instead, if there is one.
    Taken(Option<Vec<u8>>),
}

/// The reason why sleeps cannot be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SleepError {
    #[error("the recording has no sched:sched_switch: record it with -e sched:sched_switch -g")]
    NoSwitches,
    #[error("samples of sched:sched_switch lack period or time; record them with perfprof-tui record")]
    NoPeriod,
}

/// The switches of a recording, and events with the duration of sleeps.
#[derive(Debug)]
pub(crate) struct Sleeps {
    switches: Switches,
    state: Option<Field>,
    /// Scheduler statistics such as `sched:sched_stat_sleep`, with their PID field; otherwise, switches end sleeps.
    stats: Vec<(u16, Field)>,
    exit: Option<u16>,
    /// Offsets of time and period in the record of a switch.
    time_at: usize,
    period_at: usize,
    /// Unfinished sleeps by task, each with the record of its switch.
    asleep: OpenSpans<i32, (), Vec<u8>>,
    merged: u64,
}

impl Sleeps {
    pub(crate) fn of(info: &Info) -> Result<Self, SleepError> {
        let switches = Switches::among(&info.events, &info.tracing, info.origin).ok_or(SleepError::NoSwitches)?;
        let (_, format) = tracepoints::find(info, "sched:sched_switch").ok_or(SleepError::NoSwitches)?;
        let layout = info.events.get(usize::from(switches.event)).map(|event| event.layout()).unwrap_or_default();
        let places = layout.time_offset().zip(layout.period_offset()).ok_or(SleepError::NoPeriod)?;
        let names = info.events.iter().map(|event| event.name.as_str());
        let stats = names.filter(|name| name.starts_with("sched:sched_stat_")).filter_map(|name| {
            let (event, format) = tracepoints::find(info, name)?;
            Some((event, format.field("pid")?.clone()))
        });
        Ok(Self {
            switches,
            state: format.field("prev_state").cloned(),
            stats: stats.collect(),
            exit: tracepoints::find(info, "sched:sched_process_exit").map(|(event, _)| event),
            time_at: HEADER + places.0,
            period_at: HEADER + places.1,
            asleep: OpenSpans::one_by_one(),
            merged: 0,
        })
    }

    pub(crate) fn merged(&self) -> u64 {
        self.merged
    }

    /// Handles a sample and its record.
    pub(crate) fn meet(&mut self, event: u16, sample: &Sample<'_>, record: &[u8]) -> SleepOutcome {
        if event == self.switches.event {
            let Some(switch) = self.switches.read(event, sample.raw) else { return SleepOutcome::Taken(None) };
            let back = self.stats.is_empty().then(|| self.back_by_switch(switch, sample.time)).flatten();
            self.leave(switch, sample, record);
            return SleepOutcome::Taken(back);
        }
        if Some(event) == self.exit {
            self.asleep.take(&sample.tid);
            return SleepOutcome::Taken(None);
        }
        let Some((_, pid)) = self.stats.iter().find(|(stat, _)| *stat == event) else { return SleepOutcome::Kept };
        let tid = pid.number(sample.raw).and_then(|pid| i32::try_from(pid).ok());
        // A sleep may have several statistics, for example the blocked time and its I/O wait part.
        let slept = tid.and_then(|tid| self.asleep.newest(&tid)).map(|asleep| asleep.with.clone());
        SleepOutcome::Taken(slept.and_then(|record| self.merge(record, sample.period, sample.time)))
    }

    /// Handles a new thread: the previous thread with its TID does not return.
    pub(crate) fn born(&mut self, pid: i32, tid: i32) {
        self.asleep.follow(&ThreadChange::Born { pid, tid }, |tid| tid);
    }

    /// Handles a switch away from a task that sleeps, or is preempted. Only statistics count preemption.
    fn leave(&mut self, switch: Switch, sample: &Sample<'_>, record: &[u8]) {
        // Higher bits describe how a runnable task was preempted.
        let sleeps = self.state.as_ref().and_then(|state| state.number(sample.raw)).is_none_or(|s| s & 0xff != 0);
        // An exited task does not have a TID any longer, and does not return.
        if sample.tid == -1 {
            return;
        }
        if switch.prev != 0 && (sleeps || !self.stats.is_empty()) {
            self.asleep.begin(switch.prev, (), sample.time, record.to_vec());
        }
    }

    /// Returns the record of the sleep that a switch ends.
    fn back_by_switch(&mut self, switch: Switch, now: u64) -> Option<Vec<u8>> {
        let asleep = self.asleep.take(&switch.next)?;
        let took = asleep.took(now);
        self.merge(asleep.with, took, now)
    }

    fn merge(&mut self, mut record: Vec<u8>, took: u64, now: u64) -> Option<Vec<u8>> {
        record.get_mut(self.period_at..self.period_at + 8)?.copy_from_slice(&took.to_le_bytes());
        record.get_mut(self.time_at..self.time_at + 8)?.copy_from_slice(&now.to_le_bytes());
        self.merged += 1;
        Some(record)
    }
}
