//! Kernel attrs, from the requested settings, without features that an older kernel or fewer rights do not allow.

pub use crate::event::spec::Rate;
use crate::event::{CallGraph, Event};
use crate::kernel::attr::{
    Attr, Flag, REGS_LINK, REGS_USER, SW_BPF_OUTPUT, SW_CPU_CLOCK, SW_DUMMY, SW_TASK_CLOCK, TYPE_BREAKPOINT,
    TYPE_SOFTWARE, TYPE_TRACEPOINT, branch, read_format, sample,
};

mod stack_modes;

use stack_modes::own_way;
pub(crate) use stack_modes::{copies, hook, may_be_walked, traced_at, walks, way};

/// The modes that are not sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Exclude {
    /// Exclude kernel code
    #[arg(id = "exclude_kernel", long = "exclude-kernel", visible_alias = "all-user")]
    pub(crate) kernel: bool,
    /// Exclude user code
    #[arg(id = "exclude_user", long = "exclude-user", visible_alias = "all-kernel", conflicts_with = "exclude_kernel")]
    pub(crate) user: bool,
    /// Exclude guests
    #[arg(id = "exclude_guest", long = "exclude-guest")]
    pub(crate) guest: bool,
    /// Exclude the idle task, with the softirqs and interrupts in it
    #[arg(id = "exclude_idle", long = "exclude-idle")]
    pub(crate) idle: bool,
}

impl Exclude {
    /// Excludes these modes from an event, in addition to its own exclusions. If exactly one of user and kernel code is
    /// excluded for all events (`--all-user`), this replaces an event's own choice, as in perf: otherwise an event of
    /// the other mode would sample nothing.
    pub(crate) fn apply(&self, attr: &mut Attr) {
        if self.kernel != self.user {
            attr.set(Flag::ExcludeKernel, false);
            attr.set(Flag::ExcludeUser, false);
        }
        for (flag, on) in [
            (Flag::ExcludeKernel, self.kernel),
            (Flag::ExcludeHv, self.kernel),
            (Flag::ExcludeUser, self.user),
            (Flag::ExcludeGuest, self.guest),
            (Flag::ExcludeIdle, self.idle),
        ] {
            attr.set(flag, on || attr.has(flag));
        }
    }
}

/// Additional requested data in samples and side-band records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// More fields of each sample: bits of [`sample`].
    pub(crate) fields: u64,
    pub(crate) kernel_chains_only: bool,
    pub(crate) user_chains_only: bool,
    /// User chains in records of their own, by the kernel when a thread returns to user code (6.19): only for recordings,
    /// because a sample waits for its chain.
    pub(crate) deferred: bool,
    /// Whether they are also used if frame pointers were requested by name.
    pub(crate) defers_fp: bool,
    /// Records of each context switch, and of namespaces.
    pub(crate) switches: bool,
    pub(crate) namespaces: bool,
    pub(crate) no_bpf: bool,
    /// The counts of each followed thread at its exit.
    pub(crate) thread_counts: bool,
    /// Branches before each sample of a CPU's PMU, as bits of [`branch`]; 0 for none.
    pub(crate) branches: u64,
    /// Registers at the interrupt of a sample, and of the task in user code; 0 for none.
    pub(crate) intr_regs: u64,
    pub(crate) user_regs: u64,
    /// The same where system calls begin: they tell 32-bit calls of 64-bit programs.
    pub(crate) call_regs: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommonAttrs {
    pub(crate) rate: Rate,
    pub(crate) chains: CallGraph,
    /// Whether a program walks stacks by tables for events that request it.
    pub(crate) tables: bool,
    /// Whether units' tracepoints and probes copy stacks by default if no program walks them: targets limit the copies.
    pub(crate) copies: bool,
    pub(crate) exclude: Exclude,
    pub(crate) inherit: bool,
    /// Whether tasks are followed rather than CPUs.
    pub(crate) tasks: bool,
    /// Half of the ring in bytes, from which on the kernel wakes the reader.
    pub(crate) watermark: u32,
    pub(crate) enable_on_exec: bool,
    pub(crate) cgroups: bool,
    pub(crate) extras: Extras,
}

/// Newer kernel features, dropped one after the other when an open fails with EINVAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelFeatures {
    pub(crate) deferred: bool,
    pub(crate) lost: bool,
    pub(crate) cgroup: bool,
    pub(crate) ksymbol: bool,
}

impl Default for KernelFeatures {
    fn default() -> Self {
        Self { deferred: true, lost: true, cgroup: true, ksymbol: true }
    }
}

impl KernelFeatures {
    /// Drops the newest remaining feature of events with sample ids (6.19, 6.0, 5.7); `None` if there is none left.
    pub(crate) fn less(self) -> Option<Self> {
        if self.deferred {
            Some(Self { deferred: false, ..self })
        } else if self.lost {
            Some(Self { lost: false, ..self })
        } else if self.cgroup {
            Some(Self { cgroup: false, ..self })
        } else {
            None
        }
    }
}

/// Page faults of all kinds: their samples have the missing address (PERF_COUNT_SW_PAGE_FAULTS, _MIN, _MAJ).
const SW_FAULTS: [u64; 3] = [2, 5, 6];

/// The fields of all our samples, so that a single layout decodes them fast.
const FIELDS: u64 = sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::PERIOD;

/// Returns the settings of all events that write into a ring.
fn in_ring(common: &CommonAttrs, have: KernelFeatures) -> Attr {
    let mut attr = Attr {
        read_format: read_format::TOTAL_TIME_ENABLED
            | read_format::TOTAL_TIME_RUNNING
            | read_format::ID
            | if have.lost { read_format::LOST } else { 0 },
        wakeup: common.watermark,
        clockid: libc::CLOCK_MONOTONIC,
        ..Attr::default()
    };
    attr.set(Flag::Watermark, true);
    attr.set(Flag::UseClockid, true);
    attr
}

fn base(common: &CommonAttrs, have: KernelFeatures) -> Attr {
    let mut attr = Attr {
        sample_type: FIELDS | if common.cgroups && have.cgroup { sample::CGROUP } else { 0 },
        ..in_ring(common, have)
    };
    attr.set(Flag::SampleIdAll, true);
    attr
}

pub(crate) fn event(event: &Event, common: &CommonAttrs, have: KernelFeatures) -> Attr {
    let own = &event.attr;
    let mut attr = Attr {
        kind: own.kind,
        config: own.config,
        config1: own.config1,
        config2: own.config2,
        bp_type: own.bp_type,
        ..base(common, have)
    };
    attr.flags |= own.flags;
    let hits_matter = matches!(own.kind, TYPE_TRACEPOINT | TYPE_BREAKPOINT);
    match common.rate {
        _ if event.no_samples || event.is_led => attr.period_or_freq = 0,
        _ if own.period_or_freq != 0 => attr.period_or_freq = own.period_or_freq,
        Rate::Period(period) => attr.period_or_freq = period,
        // perf samples every hit of a tracepoint or breakpoint by default.
        Rate::Frequency(_) if hits_matter => attr.period_or_freq = 1,
        Rate::Frequency(hz) => {
            attr.period_or_freq = hz;
            attr.set(Flag::Freq, true);
        }
    }
    let clock = own.kind == TYPE_SOFTWARE && matches!(own.config, SW_CPU_CLOCK | SW_TASK_CLOCK);
    if !attr.has(Flag::Freq) && attr.period_or_freq > 1 && !clock {
        // For events that the kernel counts one by one, it takes a sample at every hit if samples have their period
        // (perf_swevent_event in kernel/events/core.c). All have the same period anyway.
        attr.sample_type &= !sample::PERIOD;
    }
    add_chains(&mut attr, event, common, have);
    if own.kind == TYPE_TRACEPOINT {
        attr.sample_type |= sample::RAW;
    }
    if event.tracepoint.as_ref().is_some_and(|(system, name)| system == "sched" && name == "sched_switch") {
        // The tracepoint reports the leaving task. For followed tasks, only these records report their return. On CPUs,
        // some kernels omit the tracepoint when an idle CPU gets work; these records report that, too.
        attr.set(Flag::ContextSwitch, !event.no_samples);
    }
    if own.kind == TYPE_BREAKPOINT || own.kind == TYPE_SOFTWARE && SW_FAULTS.contains(&own.config) {
        attr.sample_type |= sample::ADDR;
    }
    // Memory access events (`perf mem`) have the cost and the source of the data.
    attr.sample_type |= own.sample_type | common.extras.fields;
    attr.regs_user |= own.regs_user;
    common.exclude.apply(&mut attr);
    if let Some(filter) = &event.filter {
        attr.set(Flag::ExcludeUser, attr.has(Flag::ExcludeUser) || filter.exclude_user);
        attr.set(Flag::ExcludeKernel, attr.has(Flag::ExcludeKernel) || filter.exclude_kernel);
    }
    attr.read_format |= group_format(event);
    // The kernel does not sum up children's counts in samples (perf_event_alloc in kernel/events/core.c).
    let is_followed = common.tasks && !event.machine_wide;
    attr.set(Flag::Inherit, is_followed && event.inherits(common.inherit) && !event.is_read());
    attr.set(Flag::InheritStat, common.extras.thread_counts && attr.has(Flag::Inherit));
    let branches = match own.branch_sample_type {
        0 if event.is_of_pmu() => common.extras.branches,
        own => own,
    };
    if branches != 0 {
        attr.sample_type |= sample::BRANCH_STACK;
        attr.branch_sample_type = branches;
    }
    add_registers(&mut attr, event, &common.extras);
    attr.set(Flag::Disabled, true);
    attr.set(Flag::EnableOnExec, common.enable_on_exec);
    attr
}

fn add_chains(attr: &mut Attr, event: &Event, common: &CommonAttrs, have: KernelFeatures) {
    let way = own_way(event, common);
    if !way.is_on() {
        return;
    }
    attr.sample_type |= sample::CALLCHAIN;
    attr.max_stack = event.attr.max_stack;
    if event.is_off_cpu_time() {
        // Its stacks are complete.
        return;
    }
    let user = !common.exclude.user && !event.no_chains && !event.no_samples;
    match way {
        CallGraph::Dwarf(size) if user => {
            attr.sample_type |= sample::REGS_USER | sample::STACK_USER;
            attr.regs_user = REGS_USER;
            attr.stack_user = if event.attr.stack_user > 0 { event.attr.stack_user } else { size };
        }
        // In-kernel walks start when the program has the tables; until then, frame pointers are used.
        CallGraph::Fp | CallGraph::Tables if user && REGS_LINK != 0 => {
            attr.sample_type |= sample::REGS_USER;
            attr.regs_user = REGS_LINK;
        }
        CallGraph::Lbr if user => {
            attr.sample_type |= sample::BRANCH_STACK;
            attr.branch_sample_type = branch::USER | branch::CALL_STACK | branch::NO_FLAGS | branch::NO_CYCLES;
        }
        _ => {}
    }
    let copied = matches!(way, CallGraph::Dwarf(_));
    // Without both parts a chain is empty, and the layout of samples stays the same.
    let (kernel_only, user_only) = (common.extras.kernel_chains_only, common.extras.user_chains_only);
    let left_out = common.exclude.user || event.no_chains || copied || walks(event, common);
    attr.set(Flag::ExcludeCallchainUser, left_out || kernel_only && !user_only);
    attr.set(Flag::ExcludeCallchainKernel, common.exclude.kernel || event.no_chains || user_only && !kernel_only);
    let defers = common.extras.deferred && have.deferred && way == CallGraph::Fp;
    attr.set(Flag::DeferCallchain, defers && !attr.has(Flag::ExcludeCallchainUser));
}

fn add_registers(attr: &mut Attr, event: &Event, extras: &Extras) {
    let is_call = |(system, name): &(String, String)| system == "raw_syscalls" && name == "sys_enter";
    let of_call = if event.tracepoint.as_ref().is_some_and(is_call) { extras.call_regs } else { 0 };
    let user_regs = extras.user_regs | of_call;
    if extras.intr_regs != 0 {
        attr.sample_type |= sample::REGS_INTR;
        attr.regs_intr = extras.intr_regs;
    }
    if user_regs != 0 {
        attr.sample_type |= sample::REGS_USER;
        attr.regs_user |= user_regs;
    }
}

pub(crate) fn group_format(event: &Event) -> u64 {
    if event.is_read() && event.group.is_some() { read_format::GROUP } else { 0 }
}

/// Returns the event that holds the walking program of a probe: the kernel runs the program for all events of the probe.
pub(crate) fn holder(config: u64) -> Attr {
    let mut attr = Attr { kind: TYPE_TRACEPOINT, config, ..Attr::default() };
    attr.set(Flag::Disabled, true);
    attr
}

/// Returns the event with which that program writes a stack before each sample.
pub(crate) fn walked(common: &CommonAttrs, have: KernelFeatures) -> Attr {
    Attr {
        kind: TYPE_SOFTWARE,
        config: SW_BPF_OUTPUT,
        period_or_freq: 1,
        sample_type: sample::IDENTIFIER | sample::TID | sample::RAW,
        ..in_ring(common, have)
    }
}

pub(crate) fn rate(event: &Event, common: &CommonAttrs) -> Rate {
    Rate::of(&self::event(event, common, KernelFeatures::default()))
}

/// Returns the dummy that owns a ring and provides the side-band records.
pub(crate) fn owner(common: &CommonAttrs, have: KernelFeatures) -> Attr {
    let mut attr = Attr { kind: TYPE_SOFTWARE, config: SW_DUMMY, period_or_freq: 1, ..base(common, have) };
    for flag in [Flag::Mmap, Flag::Mmap2, Flag::Comm, Flag::CommExec, Flag::Task] {
        attr.set(flag, true);
    }
    // perf looks for unwind tables in mappings without code.
    let addresses = common.extras.fields & sample::ADDR != 0;
    attr.set(Flag::MmapData, addresses || matches!(common.chains, CallGraph::Dwarf(_)));
    attr.set(Flag::DeferOutput, common.extras.deferred && have.deferred);
    attr.set(Flag::ContextSwitch, common.extras.switches);
    attr.set(Flag::Namespaces, common.extras.namespaces);
    attr.set(Flag::Cgroup, common.cgroups && have.cgroup);
    attr.set(Flag::Inherit, common.inherit);
    attr.set(Flag::ExcludeKernel, common.exclude.kernel);
    attr
}

/// Returns the dummy with the records of context switches, where programs replace the tracepoint's event that has them.
pub(crate) fn switch_records(common: &CommonAttrs, have: KernelFeatures) -> Attr {
    let mut attr = Attr { kind: TYPE_SOFTWARE, config: SW_DUMMY, period_or_freq: 1, ..base(common, have) };
    attr.set(Flag::ContextSwitch, true);
    attr
}

/// Returns the dummy that listens to changes of the kernel's code, without sample ids (see [`super::records::listener`]).
pub(crate) fn listener(common: &CommonAttrs, have: KernelFeatures) -> Attr {
    let mut attr = Attr { kind: TYPE_SOFTWARE, config: SW_DUMMY, period_or_freq: 1, ..in_ring(common, have) };
    attr.set(Flag::Ksymbol, true);
    attr.set(Flag::BpfEvent, !common.extras.no_bpf);
    attr.set(Flag::Inherit, common.inherit);
    attr.set(Flag::ExcludeKernel, common.exclude.kernel);
    attr
}

/// Returns the attr to open: listeners to changes of the kernel's code have no sample ids.
pub(crate) fn opened(mut attr: Attr) -> Attr {
    attr.set(Flag::SampleIdAll, attr.has(Flag::SampleIdAll) && !attr.has(Flag::TextPoke));
    attr
}

/// Returns the ring pages if stacks are copied by default: 16 MiB per CPU, 1 to 64 MiB for all (a power of two).
pub fn pages_of_copies(cpus: usize) -> usize {
    const ALL: usize = 64 << 20;
    let bytes = (ALL / cpus.max(1)).clamp(1 << 20, 16 << 20);
    (bytes / rustix::param::page_size() / 2 + 1).next_power_of_two()
}

/// Returns the ring pages for a rate: room for two fifths of a second of samples with call chains of 32 frames. A power
/// of two, at least 512 KiB per CPU and at most 2 MiB, 4 MiB with tables, or 16 MiB if stacks are copied.
pub(crate) fn ring_pages(rate: Rate, events: &[Event], chains: CallGraph) -> usize {
    let page = rustix::param::page_size();
    let every_hit = events.iter().any(|e| matches!(e.attr.kind, TYPE_TRACEPOINT | TYPE_BREAKPOINT));
    let hz = match rate {
        Rate::Frequency(hz) if !every_hit => {
            events.iter().map(|event| event.own_rate().map_or(hz, Rate::hz)).sum::<u64>().max(hz)
        }
        _ => 20_000,
    };
    let room = |way| match way {
        CallGraph::None => (64, 2 << 20),
        CallGraph::Fp | CallGraph::Lbr => (320, 2 << 20),
        // Such chains are deeper, and the walked stack is in the ring in addition to the sample.
        CallGraph::Tables | CallGraph::Auto => (640, 4 << 20),
        CallGraph::Dwarf(size) => (320 + size as usize, 16 << 20),
    };
    let (each, most) = events.iter().filter_map(|event| event.chains).map(room).fold(room(chains), Ord::max);
    let bytes = hz as usize * each * 2 / 5;
    (bytes.clamp(512 << 10, most) / page).next_power_of_two()
}

#[cfg(test)]
pub(super) mod tests;
