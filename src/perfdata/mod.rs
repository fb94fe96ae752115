//! The perf.data container: header, attrs, features. Layout: tools/perf/Documentation/perf.data-file-format.txt.

pub(crate) mod attr_words;
pub mod build_ids;
pub(crate) mod bytes;
mod compress;
pub mod features;
pub(crate) mod info;
mod meaning;
pub mod read;
pub mod stream;
pub(crate) mod swap;
pub(crate) mod topology;
pub mod unpack;
pub mod write;

use rustc_hash::FxHashSet;

use crate::kernel::attr::{
    Attr, HW_CPU_CYCLES, SW_BPF_OUTPUT, SW_CPU_CLOCK, SW_TASK_CLOCK, TYPE_BREAKPOINT, TYPE_HARDWARE, TYPE_SOFTWARE,
    TYPE_TRACEPOINT, sample,
};
use crate::record::Layout;

pub use meaning::{EventUnit, PeriodMeaning, SampleCount};

/// The name of the event whose samples weigh the time that a process takes, not its CPU time.
pub const LATENCY: &str = "latency";

/// The maximum number of events of a session or recording; 16-bit numbers identify them.
pub(crate) const MAX_EVENTS: usize = 4096;

pub(crate) const MAGIC: &[u8; 8] = b"PERFILE2";
pub(crate) const HEADER_SIZE: u64 = 104;

/// Returns a unique name for an event: with a number if an earlier one has the same name, `cycles#2`.
pub(crate) fn apart(before: &[String], name: &str) -> String {
    if !before.iter().any(|known| known == name) {
        return name.to_owned();
    }
    let number = |known: &String| known.strip_prefix(name)?.strip_prefix('#')?.parse::<u32>().ok();
    let taken: FxHashSet<u32> = before.iter().filter_map(number).collect();
    let free = (2..).find(|number| !taken.contains(number)).unwrap_or_default();
    format!("{name}#{free}")
}

/// An event of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDesc {
    /// The name from the command line or the recording, with modifiers: `cycles:u`.
    pub name: String,
    /// The configuration that it was opened with. A derived event has only a type, which no kernel uses.
    pub attr: Attr,
    /// The ids in its records.
    pub ids: Vec<u64>,
}

/// The type of derived events, which no kernel uses.
const DERIVED: u32 = u32::MAX;
/// The configs of a derived event whose periods are parts of another event's, by their unit.
const LATENCY_NS: u64 = 1;
const LATENCY_COUNT: u64 = 2;
/// The type of the event of folded stacks; its config is the number of decimals of their counts.
const DECIMAL: u32 = u32::MAX - 1;
/// The type of events of other tools' profiles; the config is a unit: 0 counts, 1 nanoseconds, 2 bytes.
const IMPORTED: u32 = u32::MAX - 2;
/// The bits of both configs above their unit: 0 if each sample is stored, else the period of one sample in stored sums.
const SUMS: u32 = 8;
const UNKNOWN_PERIOD: u64 = u64::MAX >> SUMS;

/// The event of the time that threads sleep in a live session. perf expects raw data in samples of its own event
/// (`offcpu-time`), so that this one has another name.
pub(crate) const OFF_CPU_TIME: &str = "off-cpu-time";

impl EventDesc {
    /// Returns an event that is derived from the samples of others.
    pub fn derived(name: &str) -> Self {
        Self { name: name.to_owned(), attr: Attr { kind: DERIVED, ..Attr::default() }, ids: Vec::new() }
    }

    /// Returns the event of folded stacks whose counts have this many decimals.
    pub(crate) fn folded(name: &str, decimals: u8) -> Self {
        let attr = Attr { kind: DECIMAL, config: decimals.into(), ..Attr::default() };
        Self { name: name.to_owned(), attr, ids: Vec::new() }
    }

    /// Returns an event of another tool's profile.
    pub(crate) fn imported(name: &str, unit: EventUnit) -> Self {
        let config = match unit {
            EventUnit::Decimal(decimals) => return Self::folded(name, decimals),
            EventUnit::Count => 0,
            EventUnit::Nanoseconds => 1,
            EventUnit::Bytes => 2,
        };
        let attr = Attr { kind: IMPORTED, config, ..Attr::default() };
        Self { name: name.to_owned(), attr, ids: Vec::new() }
    }

    /// Marks the event of a file that stores the sum of each stack's samples, with the period of a sample; 0 if unknown.
    pub(crate) fn of_sums(mut self, period: u64) -> Self {
        let period = if (1..UNKNOWN_PERIOD).contains(&period) { period } else { UNKNOWN_PERIOD };
        self.attr.config |= period << SUMS;
        self
    }

    fn is_of_other_tool(&self) -> bool {
        [DECIMAL, IMPORTED].contains(&self.attr.kind)
    }

    /// Returns the number of samples that a stored one stands for.
    pub(crate) fn sample_count(&self) -> SampleCount {
        match self.attr.config >> SUMS {
            _ if !self.is_of_other_tool() => SampleCount::One,
            0 => SampleCount::One,
            UNKNOWN_PERIOD => SampleCount::Unknown,
            period => SampleCount::PerPeriod(period),
        }
    }

    /// Returns how its periods are read.
    pub(crate) fn meaning(&self) -> PeriodMeaning {
        PeriodMeaning {
            unit: self.unit(),
            durations: self.has_durations(),
            count: self.sample_count(),
            is_value: self.is_of_other_tool(),
        }
    }

    /// Returns the event of the time that processes take, derived from an event's samples.
    pub(crate) fn latency(of: &Self) -> Self {
        let config = if of.unit().is_time() { LATENCY_NS } else { LATENCY_COUNT };
        Self { attr: Attr { kind: DERIVED, config, ..Attr::default() }, ..Self::derived(LATENCY) }
    }

    pub(crate) fn is_derived(&self) -> bool {
        self.attr.kind == DERIVED
    }

    pub(crate) fn is_latency(&self) -> bool {
        self.is_derived() && [LATENCY_NS, LATENCY_COUNT].contains(&self.attr.config)
    }

    /// Returns a latency profile as a file has it, without the switches that it was derived from: an event of the same
    /// name and unit.
    pub(crate) fn saved_latency(&self) -> Self {
        let (kind, config) = match self.attr.config {
            LATENCY_NS => (TYPE_SOFTWARE, SW_CPU_CLOCK),
            _ => (TYPE_HARDWARE, HW_CPU_CYCLES),
        };
        Self { attr: Attr { kind, config, ..self.attr.clone() }, ..self.clone() }
    }

    /// Returns whether it is a latency profile that a snapshot contains.
    pub(crate) fn is_saved_latency(&self) -> bool {
        self.name == LATENCY && self.is_clock() && !self.is_derived()
    }

    /// Returns whether it is an event of off-CPU times, which a BPF program writes: that of perf (`perf record
    /// --off-cpu`), or our own.
    pub(crate) fn is_off_cpu(&self) -> bool {
        let is_written = self.attr.kind == TYPE_SOFTWARE && self.attr.config == SW_BPF_OUTPUT;
        is_written && ["offcpu-time", OFF_CPU_TIME].contains(&&*self.name)
    }

    /// Returns whether its samples carry the values of an off-CPU time as raw data, as since perf 6.16.
    pub(crate) fn has_raw_off_cpu(&self) -> bool {
        self.is_off_cpu() && self.name != OFF_CPU_TIME && self.attr.sample_type & sample::RAW != 0
    }

    pub(crate) fn has_durations(&self) -> bool {
        // The scheduler's statistics use the delay as the period (`__perf_count` in include/trace/events/sched.h).
        let is_statistic = self.attr.kind == TYPE_TRACEPOINT && self.name.starts_with("sched:sched_stat_");
        let is_duration = self.is_derived() && self.attr.config == 0;
        is_duration || self.is_off_cpu() || is_statistic
    }

    /// Returns the unit of its periods.
    pub fn unit(&self) -> EventUnit {
        let config = if self.is_of_other_tool() { self.attr.config & 0xff } else { self.attr.config };
        match (self.attr.kind, config) {
            (TYPE_SOFTWARE, SW_CPU_CLOCK | SW_TASK_CLOCK) => EventUnit::Nanoseconds,
            (DECIMAL, decimals) => EventUnit::Decimal(decimals.min(19) as u8),
            (DERIVED, LATENCY_NS) => EventUnit::Nanoseconds,
            (DERIVED, LATENCY_COUNT) => EventUnit::Count,
            (IMPORTED, 1) => EventUnit::Nanoseconds,
            (IMPORTED, 2) => EventUnit::Bytes,
            _ if self.has_durations() => EventUnit::Nanoseconds,
            _ => EventUnit::Count,
        }
    }

    /// Returns whether it never samples and only carries other records.
    pub fn is_dummy(&self) -> bool {
        self.attr.is_dummy()
    }

    /// Returns whether its samples represent time: those of a clock or of a counter of the CPU's work, but not those of
    /// tracepoints, faults or switches.
    pub(crate) fn is_clock(&self) -> bool {
        match self.attr.kind {
            DERIVED | TYPE_TRACEPOINT | TYPE_BREAKPOINT => false,
            TYPE_SOFTWARE => matches!(self.attr.config, SW_CPU_CLOCK | SW_TASK_CLOCK),
            _ => true,
        }
    }

    /// Returns the fields of its samples and of the trailer of its other records.
    pub fn layout(&self) -> Layout {
        layout(&self.attr)
    }
}

pub(crate) fn layout(attr: &Attr) -> Layout {
    Layout {
        sample_type: attr.sample_type,
        read_format: attr.read_format,
        id_all: attr.has(crate::kernel::attr::Flag::SampleIdAll),
        regs_user: attr.regs_user,
        branches: attr.branch_sample_type,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::attr::{Flag, SW_DUMMY, TYPE_HARDWARE};

    #[test]
    fn events_of_one_name_are_told_apart() {
        let mut names = Vec::new();
        ["a", "b", "a", "a#2", "a"].iter().for_each(|name| names.push(apart(&names, name)));
        assert_eq!(names, ["a", "b", "a#2", "a#2#2", "a#3"]);
        // Names were compared with all others for each number: 100 s for the 4,096 events of a recording.
        let mut many = Vec::new();
        (0..2000).for_each(|_| many.push(apart(&many, "cycles")));
        assert_eq!(many.last().map(String::as_str), Some("cycles#2000"));
    }

    #[test]
    fn which_events_samples_stand_for_time() {
        let event = |kind, config| EventDesc {
            name: "x".into(),
            attr: Attr { kind, config, ..Attr::default() },
            ids: Vec::new(),
        };
        for (kind, config, is_clock) in [
            (TYPE_SOFTWARE, SW_CPU_CLOCK, true),
            (TYPE_SOFTWARE, SW_TASK_CLOCK, true),
            (TYPE_SOFTWARE, 2, false),
            (TYPE_TRACEPOINT, SW_CPU_CLOCK, false),
            (TYPE_BREAKPOINT, SW_CPU_CLOCK, false),
            (TYPE_HARDWARE, 2, true),
            (77, 2, true),
        ] {
            let event = event(kind, config);
            assert_eq!((event.is_clock(), event.is_derived()), (is_clock, false), "{kind} {config}");
        }
        let dummies = [(TYPE_SOFTWARE, SW_DUMMY), (TYPE_SOFTWARE, 1), (TYPE_HARDWARE, SW_DUMMY)];
        assert_eq!(dummies.map(|(kind, config)| event(kind, config).is_dummy()), [true, false, false]);
        let made = EventDesc::derived("blocked");
        assert_eq!((&*made.name, made.is_clock(), made.is_derived()), ("blocked", false, true));
    }

    #[test]
    fn the_unit_is_the_events_and_not_a_word_in_its_name() {
        let event = |name: &str, kind, config| EventDesc {
            name: name.into(),
            attr: Attr { kind, config, ..Attr::default() },
            ids: Vec::new(),
        };
        for (event, unit) in [
            (event("cpu-clock", TYPE_SOFTWARE, SW_CPU_CLOCK), EventUnit::Nanoseconds),
            (event("mine", TYPE_SOFTWARE, SW_TASK_CLOCK), EventUnit::Nanoseconds),
            (event("offcpu-time", TYPE_SOFTWARE, SW_BPF_OUTPUT), EventUnit::Nanoseconds),
            (event(OFF_CPU_TIME, TYPE_SOFTWARE, SW_BPF_OUTPUT), EventUnit::Nanoseconds),
            (event("bpf-output", TYPE_SOFTWARE, SW_BPF_OUTPUT), EventUnit::Count),
            (event("syscalls:sys_enter_clock_nanosleep", TYPE_TRACEPOINT, 0), EventUnit::Count),
            (event("power:clock_enable", TYPE_TRACEPOINT, 1), EventUnit::Count),
            (event("sched:sched_stat_sleep", TYPE_TRACEPOINT, 1), EventUnit::Nanoseconds),
            (event("uncore_imc_0/clockticks/", 23, 0), EventUnit::Count),
            (event("cycles", TYPE_HARDWARE, 0), EventUnit::Count),
            (EventDesc::derived("off-cpu"), EventUnit::Nanoseconds),
            (EventDesc::folded("samples", 3), EventUnit::Decimal(3)),
            (EventDesc::imported("inuse_space", EventUnit::Bytes), EventUnit::Bytes),
            (EventDesc::imported("cpu", EventUnit::Nanoseconds), EventUnit::Nanoseconds),
            (EventDesc::imported("objects", EventUnit::Count), EventUnit::Count),
        ] {
            assert_eq!(event.unit(), unit, "{}", event.name);
        }
        let written = |decimals, period| EventUnit::Decimal(decimals).written(period);
        assert_eq!((written(0, 12), EventUnit::Decimal(0).name()), ("12".into(), "count".into()));
        assert_eq!((written(3, 4), written(1, 25), written(2, 300)), ("0.004".into(), "2.5".into(), "3".into()));
        assert_eq!((EventUnit::Count.written(7), written(19, u64::MAX)), ("7".into(), "1.8446744073709551615".into()));
    }

    #[test]
    fn records_are_laid_out_as_the_attr_says() {
        let mut attr =
            Attr { sample_type: 7, read_format: 12, regs_user: 0xff, branch_sample_type: 9, ..Attr::default() };
        for id_all in [true, false] {
            attr.set(Flag::SampleIdAll, id_all);
            let event = EventDesc { name: String::new(), attr: attr.clone(), ids: vec![1] };
            let want = Layout { sample_type: 7, read_format: 12, id_all, regs_user: 0xff, branches: 9 };
            assert_eq!(event.layout(), want);
        }
    }
}
