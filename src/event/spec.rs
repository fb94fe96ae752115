//! Events as they are asked for: what the kernel is to count or sample, how often, and what of it is kept.

use crate::kernel::attr::{Attr, Flag, SW_CPU_CLOCK, SW_DUMMY, SW_TASK_CLOCK, TYPE_HARDWARE, TYPE_SOFTWARE, sample};
use crate::kernel::bpf::Program;

use crate::lang::Diagnostic;

use super::CallGraph;

mod grammar;
mod terms;

pub use grammar::{LookupPaths, parse};

/// The rate of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Samples a second on each CPU.
    Frequency(u64),
    /// One sample each so many occurrences (nanoseconds for clocks); none at all for 0.
    Period(u64),
}

impl Rate {
    /// As an attr has it.
    pub(crate) fn of(attr: &Attr) -> Self {
        if attr.has(Flag::Freq) { Self::Frequency(attr.period_or_freq) } else { Self::Period(attr.period_or_freq) }
    }

    /// In Hz; 0 for a fixed period.
    pub(crate) fn hz(self) -> u64 {
        match self {
            Self::Frequency(hz) => hz,
            Self::Period(_) => 0,
        }
    }
}

/// One event to open, before rates and targets are applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// As typed, without spaces.
    pub name: String,
    pub(crate) attr: Attr,
    /// Events of one number were braced together; `None` for those alone.
    pub(crate) group: Option<u32>,
    /// Whether it takes no samples of its own: those of the first of its group tell what it counted (`:S`).
    pub(crate) is_led: bool,
    /// (system, name) of a tracepoint.
    pub(crate) tracepoint: Option<(String, String)>,
    /// What of it is kept.
    pub(crate) filter: Option<Capture>,
    /// How its call chains are taken, where it says that itself; else as the session's are.
    pub(crate) chains: Option<CallGraph>,
    /// Whether its samples have no call chain though the session's have.
    pub(crate) no_chains: bool,
    /// Whether what a followed task starts is followed, where it says that itself.
    pub(crate) inherit: Option<bool>,
    /// Whether the counts of CPUs that are threads of one core belong together.
    pub(crate) per_core: bool,
    /// Whether it is only counted, never sampled.
    pub(crate) no_samples: bool,
    /// The CPUs that it is restricted to; `None` for all that are sampled.
    pub(crate) cpus: Option<Vec<u32>>,
    /// Whether analysis units alone want it: its samples are not kept.
    pub(crate) for_units: bool,
    /// Whether it is measured on the whole machine also where a target was chosen: units need it so that see all.
    pub(crate) machine_wide: bool,
    /// Whether it is sampled as precisely as a number of `p` says, or not at all; `P` is the most that there is.
    pub(crate) exact_precision: bool,
}

impl Event {
    fn new(name: String, attr: Attr, group: Option<u32>) -> Self {
        Self { name, attr, group, ..Self::default() }
    }

    /// One of the kernel's own names.
    fn fixed(name: &str, kind: u32, config: u64) -> Self {
        Self::new(name.to_owned(), Attr { kind, config, ..Attr::default() }, None)
    }

    /// The fallback when a machine has no hardware counters.
    pub fn cpu_clock() -> Self {
        Self::fixed("cpu-clock", TYPE_SOFTWARE, SW_CPU_CLOCK)
    }

    /// An event that never happens, for sessions whose events come later (PERF_COUNT_SW_DUMMY).
    pub(crate) fn dummy() -> Self {
        Self { no_samples: true, ..Self::fixed("dummy", TYPE_SOFTWARE, SW_DUMMY) }
    }

    /// The default event of perf and of us.
    pub(crate) fn cycles() -> Self {
        Self::fixed("cycles", TYPE_HARDWARE, 0)
    }
}

/// A filter that cuts at the source, each part of it where the kernel can decide it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// As it is shown.
    pub(crate) text: String,
    /// In the kernel's language for tracepoints.
    pub trace: Option<String>,
    pub(crate) exclude_user: bool,
    pub(crate) exclude_kernel: bool,
    /// The event is opened on these CPUs only.
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) program: Option<Program>,
    /// Each clause and where it runs.
    pub(crate) clauses: Vec<(String, &'static str)>,
    /// What to know of it.
    pub(crate) note: Option<String>,
}

impl Event {
    /// True if it is a timer.
    pub(crate) fn is_clock(&self) -> bool {
        self.attr.kind == TYPE_SOFTWARE && matches!(self.attr.config, SW_CPU_CLOCK | SW_TASK_CLOCK)
    }

    /// True if its samples have what it, or all of its group, counted so far.
    pub(crate) fn is_read(&self) -> bool {
        self.attr.sample_type & sample::READ != 0
    }

    /// True if it is wanted on a CPU.
    pub(crate) fn wants(&self, cpu: u32) -> bool {
        let has = |list: &Option<Vec<u32>>| list.as_ref().is_none_or(|cpus| cpus.contains(&cpu));
        has(&self.cpus) && self.filter.as_ref().is_none_or(|filter| has(&filter.cpus))
    }

    /// Sets perf's modifier letters in place of those that it has.
    pub(crate) fn set_modifiers(&mut self, letters: &str) -> Result<(), Diagnostic> {
        let mut changed = self.clone();
        for flag in MODIFIED {
            changed.attr.set(flag, false);
        }
        changed.modify(letters).map_err(|at| Diagnostic::new(letters, at, 1, MODIFIER_HELP))?;
        if changed.is_read() != self.is_read() {
            let at = letters.find('S').unwrap_or(0);
            return Err(Diagnostic::new(letters, at, 1, "S is of a group from its beginning: -e '{a,b}:S'"));
        }
        // A PMU's event ends in a slash: its letters follow without a colon.
        let (stem, colon) = match self.name.rfind('/') {
            Some(slash) => (&self.name[..=slash], ""),
            None => (super::plain(&self.name), ":"),
        };
        let name = if letters.is_empty() { stem.to_owned() } else { format!("{stem}{colon}{letters}") };
        *self = Self { name, ..changed };
        Ok(())
    }

    /// Applies perf's modifier letters; the error is the index of the letter at fault.
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

    /// The way in which its call chains are taken in a session that takes them so.
    pub(crate) fn way(&self, session: CallGraph) -> CallGraph {
        if self.no_chains { CallGraph::None } else { self.chains.unwrap_or(session) }
    }

    /// Whether what a followed task starts is followed, in a session that does so or not.
    pub(crate) fn inherits(&self, session: bool) -> bool {
        self.inherit.unwrap_or(session)
    }

    /// Samples it at a rate of its own.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        let (value, by_time) = match rate {
            Rate::Frequency(hz) => (hz, true),
            Rate::Period(period) => (period, false),
        };
        self.no_samples = value == 0;
        self.attr.period_or_freq = value;
        self.attr.set(Flag::Freq, by_time);
    }

    /// How often it is sampled, where it says that itself.
    pub(crate) fn own_rate(&self) -> Option<Rate> {
        (self.no_samples || self.attr.period_or_freq != 0).then(|| Rate::of(&self.attr))
    }

    /// Its name where the kernel's code is left out; of tracepoints and dummies that leaves nothing out.
    pub(crate) fn user_only(&self) -> String {
        match self.tracepoint.is_none() && !self.attr.is_dummy() {
            true => Self::user_only_name(&self.name),
            false => self.name.clone(),
        }
    }

    /// A name that says, as perf's do, that only user code is measured.
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

    /// Makes it the timer that stands in for cycles, in the same code and without their precision.
    pub(crate) fn become_clock(&mut self) {
        let clock = Self::cpu_clock();
        let letters: String = Self::modifiers(&self.name).chars().filter(|c| !matches!(c, 'p' | 'P')).collect();
        self.name = clock.name;
        if !letters.is_empty() {
            self.name.extend([":", &letters]);
        }
        if self.attr.has(Flag::ExcludeKernel) && !self.attr.has(Flag::ExcludeUser) {
            self.name = Self::user_only_name(&self.name);
        }
        (self.attr.kind, self.attr.config) = (clock.attr.kind, clock.attr.config);
        self.attr.set_precise(0);
    }

    /// The modifier letters that it has.
    pub(crate) fn modifiers(name: &str) -> &str {
        match name.rfind('/') {
            Some(slash) => name[slash + 1..].trim_start_matches(':'),
            None => name.strip_prefix(super::plain(name)).unwrap_or_default().trim_start_matches(':'),
        }
    }
}

/// The flags that modifier letters decide.
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

/// perf's modifier letters.
pub(crate) const MODIFIERS: &[u8] = b"ukhGHpPIDeS";

#[cfg(test)]
mod tests;
