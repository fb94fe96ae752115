//! Requested events: type, sampling rate, filter and target of each.

use std::sync::Arc;

use crate::kernel::bpf::FilterProgram;
use crate::kernel::call_sums::SumPolicy;
use crate::kernel::perf_event::attr::{
    Attr, Flag, SW_BPF_OUTPUT, SW_CPU_CLOCK, SW_DUMMY, SW_TASK_CLOCK, TYPE_BREAKPOINT, TYPE_HARDWARE, TYPE_SOFTWARE,
    TYPE_TRACEPOINT, sample,
};

use crate::lang::Diagnostic;
use crate::perfdata::OFF_CPU_TIME;

use crate::event::CallGraph;

/// The name of the event of DNS messages.
pub(crate) const DNS_MESSAGES: &str = "dns-messages";

mod grammar;
mod terms;

pub use grammar::{LookupPaths, parse};

/// The sampling rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Samples per second on each CPU.
    Frequency(u64),
    /// One sample per this many occurrences (nanoseconds for clocks); no samples for 0.
    Period(u64),
}

/// Every occurrence is sampled.
impl Default for Rate {
    fn default() -> Self {
        Self::Period(1)
    }
}

impl Rate {
    pub(crate) fn of(attr: &Attr) -> Self {
        if attr.has(Flag::Freq) { Self::Frequency(attr.period_or_freq) } else { Self::Period(attr.period_or_freq) }
    }

    /// Returns the frequency in Hz; 0 for a fixed period.
    pub(crate) fn hz(self) -> u64 {
        match self {
            Self::Frequency(hz) => hz,
            Self::Period(_) => 0,
        }
    }
}

/// How hits of an event may be summed in the kernel instead of being recorded singly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summing {
    /// System calls by thread and call, at the tracepoints of all calls.
    Calls(Arc<SumPolicy>),
    /// Hits of a software event by thread, while there are many; a part of them, selected by chance, is recorded.
    Hits,
}

/// An event to open, before session-wide rates and targets are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// As typed, without spaces.
    pub name: String,
    /// The name of the requested event, if this one replaces it.
    pub(crate) replaces: Option<String>,
    pub(crate) attr: Attr,
    /// The number of its group in braces; `None` if it is not in a group.
    pub(crate) group: Option<u32>,
    /// Whether samples of its group's leader contain its count (`:S`). It does not have samples of its own.
    pub(crate) is_led: bool,
    /// (system, name) of a tracepoint.
    pub(crate) tracepoint: Option<(String, String)>,
    pub(crate) filter: Option<Capture>,
    /// Its own call chain method; by default that of the session.
    pub(crate) chains: Option<CallGraph>,
    /// Whether its samples do not have call chains even if the session's have.
    pub(crate) no_chains: bool,
    /// Whether children of followed tasks are followed; by default as in the session.
    pub(crate) inherit: Option<bool>,
    /// Whether the counts of SMT siblings are added up.
    pub(crate) per_core: bool,
    /// Whether it is only counted, never sampled.
    pub(crate) no_samples: bool,
    /// The CPUs that it is restricted to; `None` for all sampled CPUs.
    pub(crate) cpus: Option<Vec<u32>>,
    /// Whether it is only for analysis units: its samples are not stored.
    pub(crate) for_units: bool,
    /// Whether it measures the whole machine even if a target was chosen. Some units need a complete view.
    pub(crate) machine_wide: bool,
    /// How its hits may be summed in the kernel instead of being recorded singly.
    pub(crate) summed: Option<Summing>,
    /// Whether a program may record its hits in batches, without the flags of their context.
    pub(crate) is_batched: bool,
    /// Whether a BPF program at its tracepoint walks user stacks. The live source decides this when opening it.
    pub(crate) is_walked: bool,
    /// Whether the number of `p` is required exactly. Otherwise the highest level available is used (`P`).
    pub(crate) exact_precision: bool,
}

impl Event {
    fn new(name: String, attr: Attr, group: Option<u32>) -> Self {
        Self { name, attr, group, ..Self::default() }
    }

    fn fixed(name: &str, kind: u32, config: u64) -> Self {
        Self::new(name.to_owned(), Attr { kind, config, ..Attr::default() }, None)
    }

    /// Returns the fallback for machines without hardware counters.
    pub fn cpu_clock() -> Self {
        Self::fixed("cpu-clock", TYPE_SOFTWARE, SW_CPU_CLOCK)
    }

    /// Returns an event that never fires (PERF_COUNT_SW_DUMMY). It is for sessions whose events are added later.
    pub(crate) fn dummy() -> Self {
        Self { no_samples: true, ..Self::fixed("dummy", TYPE_SOFTWARE, SW_DUMMY) }
    }

    /// Returns the event of the time that threads sleep. The kernel does not open it: a program's sums are its samples.
    pub(crate) fn off_cpu_time() -> Self {
        let mut event = Self::fixed(OFF_CPU_TIME, TYPE_SOFTWARE, SW_BPF_OUTPUT);
        event.attr.period_or_freq = 1;
        event
    }

    pub(crate) fn is_off_cpu_time(&self) -> bool {
        self.attr.kind == TYPE_SOFTWARE && self.attr.config == SW_BPF_OUTPUT && self.name == OFF_CPU_TIME
    }

    /// Returns the event of DNS messages: programs write its samples ([`crate::kernel::dns_messages`]), on all CPUs.
    pub(crate) fn dns_messages() -> Self {
        let mut event = Self::fixed(DNS_MESSAGES, TYPE_SOFTWARE, SW_BPF_OUTPUT);
        event.attr.period_or_freq = 1;
        event.attr.sample_type |= sample::RAW;
        Self { no_chains: true, machine_wide: true, ..event }
    }

    pub(crate) fn is_dns_messages(&self) -> bool {
        self.attr.kind == TYPE_SOFTWARE && self.attr.config == SW_BPF_OUTPUT && self.name == DNS_MESSAGES
    }

    /// Returns the default event, the same as perf's.
    pub(crate) fn cycles() -> Self {
        Self::fixed("cycles", TYPE_HARDWARE, 0)
    }
}

/// A capture filter, split into parts that the kernel evaluates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    pub(crate) text: String,
    /// In the kernel's filter syntax for tracepoints.
    pub trace: Option<String>,
    pub(crate) exclude_user: bool,
    pub(crate) exclude_kernel: bool,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) program: Option<FilterProgram>,
    /// Each clause and where it is evaluated.
    pub(crate) clauses: Vec<(String, &'static str)>,
    pub(crate) note: Option<String>,
}

impl Event {
    pub(crate) fn is_clock(&self) -> bool {
        self.attr.kind == TYPE_SOFTWARE && matches!(self.attr.config, SW_CPU_CLOCK | SW_TASK_CLOCK)
    }

    /// Returns whether it is an event of a PMU: it counts cycles, instructions and the like.
    pub(crate) fn is_of_pmu(&self) -> bool {
        !matches!(self.attr.kind, TYPE_SOFTWARE | TYPE_TRACEPOINT | TYPE_BREAKPOINT)
    }

    /// Returns whether it has this name, or replaces the event with this name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.replaces.as_deref() == Some(name)
    }

    /// Returns whether its samples contain its count, or those of its group.
    pub(crate) fn is_read(&self) -> bool {
        self.attr.sample_type & sample::READ != 0
    }

    pub(crate) fn wants(&self, cpu: u32) -> bool {
        let has = |list: &Option<Vec<u32>>| list.as_ref().is_none_or(|cpus| cpus.contains(&cpu));
        has(&self.cpus) && self.filter.as_ref().is_none_or(|filter| has(&filter.cpus))
    }

    pub(crate) fn set_modifiers(&mut self, letters: &str) -> Result<(), Diagnostic> {
        let mut changed = self.clone();
        for flag in MODIFIED {
            changed.attr.set(flag, false);
        }
        changed.modify(letters).map_err(|at| Diagnostic::new(letters, at, 1, MODIFIER_HELP))?;
        if changed.is_read() != self.is_read() {
            let at = letters.find('S').unwrap_or(0);
            return Err(Diagnostic::new(letters, at, 1, "S applies to a whole group: -e '{a,b}:S'"));
        }
        // A PMU event ends in a slash; its modifiers follow without a colon.
        let (stem, colon) = match self.name.rfind('/') {
            Some(slash) => (&self.name[..=slash], ""),
            None => (crate::event::base_name(&self.name), ":"),
        };
        let name = if letters.is_empty() { stem.to_owned() } else { format!("{stem}{colon}{letters}") };
        *self = Self { name, ..changed };
        Ok(())
    }

    /// Applies perf's modifier letters; the error is the index of the invalid letter.
    fn modify(&mut self, letters: &str) -> Result<(), usize> {
        let attr = &mut self.attr;
        let picks = |c: char| letters.contains(c);
        let spaces = ['u', 'k', 'h'];
        if spaces.iter().any(|c| picks(*c)) {
            attr.set(Flag::ExcludeUser, !picks('u'));
            attr.set(Flag::ExcludeKernel, !picks('k'));
            attr.set(Flag::ExcludeHv, !picks('h'));
        }
        if picks('G') != picks('H') {
            attr.set(Flag::ExcludeHost, picks('G'));
            attr.set(Flag::ExcludeGuest, picks('H'));
        }
        let precise = letters.matches('p').count();
        attr.set_precise(if picks('P') { 3 } else { precise.min(3) as u8 });
        self.exact_precision = precise > 0 && !picks('P');
        attr.set(Flag::ExcludeIdle, picks('I'));
        attr.set(Flag::Pinned, picks('D'));
        attr.set(Flag::Exclusive, picks('e'));
        attr.sample_type = attr.sample_type & !sample::READ | if picks('S') { sample::READ } else { 0 };
        match letters.bytes().position(|b| !MODIFIERS.contains(&b)) {
            Some(at) => Err(at),
            None if precise > 3 => Err(letters.rfind('p').unwrap_or(0)),
            None => Ok(()),
        }
    }

    /// Returns its call chain method, given the session's.
    pub(crate) fn way(&self, session: CallGraph) -> CallGraph {
        if self.no_chains { CallGraph::None } else { self.chains.unwrap_or(session) }
    }

    /// Returns whether children are followed, given the session's default.
    pub(crate) fn inherits(&self, session: bool) -> bool {
        self.inherit.unwrap_or(session)
    }

    pub(crate) fn set_rate(&mut self, rate: Rate) {
        let (value, by_time) = match rate {
            Rate::Frequency(hz) => (hz, true),
            Rate::Period(period) => (period, false),
        };
        self.no_samples = value == 0;
        self.attr.period_or_freq = value;
        self.attr.set(Flag::Freq, by_time);
    }

    pub(crate) fn own_rate(&self) -> Option<Rate> {
        (self.no_samples || self.attr.period_or_freq != 0).then(|| Rate::of(&self.attr))
    }

    /// Returns its name with kernel code excluded. Unchanged for tracepoints and dummies, which are not affected.
    pub(crate) fn user_only(&self) -> String {
        match self.tracepoint.is_none() && !self.attr.is_dummy() {
            true => Self::user_only_name(&self.name),
            false => self.name.clone(),
        }
    }

    fn user_only_name(name: &str) -> String {
        let letters = Self::modifiers(name);
        let base = &name[..name.len() - letters.len()];
        match (letters.contains('u'), letters.contains('k')) {
            (is_user, true) => format!("{base}{}", letters.replace('k', if is_user { "" } else { "u" })),
            (true, false) => name.to_owned(),
            (false, false) if letters.is_empty() && !name.ends_with('/') => format!("{name}:u"),
            (false, false) => format!("{name}u"),
        }
    }

    /// Turns it into the timer that replaces cycles. It samples the same code, without precision.
    pub(crate) fn become_clock(&mut self) {
        let clock = Self::cpu_clock();
        let letters: String = Self::modifiers(&self.name).chars().filter(|c| !matches!(c, 'p' | 'P')).collect();
        self.replaces = Some(std::mem::replace(&mut self.name, clock.name));
        if !letters.is_empty() {
            self.name.extend([":", &letters]);
        }
        if self.attr.has(Flag::ExcludeKernel) && !self.attr.has(Flag::ExcludeUser) {
            self.name = Self::user_only_name(&self.name);
        }
        (self.attr.kind, self.attr.config) = (clock.attr.kind, clock.attr.config);
        self.attr.set_precise(0);
    }

    pub(crate) fn modifiers(name: &str) -> &str {
        match name.rfind('/') {
            Some(slash) => name[slash + 1..].trim_start_matches(':'),
            None => name.strip_prefix(crate::event::base_name(name)).unwrap_or_default().trim_start_matches(':'),
        }
    }
}

const MODIFIED: [Flag; 8] = [
    Flag::ExcludeUser,
    Flag::ExcludeKernel,
    Flag::ExcludeHv,
    Flag::ExcludeHost,
    Flag::ExcludeGuest,
    Flag::ExcludeIdle,
    Flag::Pinned,
    Flag::Exclusive,
];

const MODIFIER_HELP: &str = "modifiers are u k h (user, kernel, hypervisor), G H (guest, host), I (no idle), p P (precise), D (pinned), e (exclusive), S (the first of a group samples for all)";

pub(crate) const MODIFIERS: &[u8] = b"ukhGHpPIDeS";

#[cfg(test)]
mod tests;
