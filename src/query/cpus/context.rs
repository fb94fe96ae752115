//! The context of a sample from its call chain's names: a task, a softirq of some vector, an interrupt, or idle.
//!
//! Vectors are those of `enum` in linux/interrupt.h (HI_SOFTIRQ to RCU_SOFTIRQ); their handlers are registered with
//! open_softirq(), by all names that they had over the years.

use crate::profile::{NodeId, Profile};

use crate::query::data::Data;

/// Softirq vectors, in the kernel's order.
pub const VECTORS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// The kind of work on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CpuContext {
    /// A task's own work: user code, system calls, faults.
    Task,
    /// An index into [`VECTORS`]; `None` if the call chain does not contain it.
    Softirq(Option<u8>),
    /// An interrupt handler, outside of softirqs.
    Irq,
    /// The idle task's loop.
    Idle,
}

impl CpuContext {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Softirq(_) => "softirq",
            Self::Irq => "irq",
            Self::Idle => "idle",
        }
    }

    /// Returns the vector's name; empty if unknown or not a softirq.
    pub(crate) fn vector(self) -> &'static str {
        match self {
            Self::Softirq(Some(v)) => VECTORS.get(usize::from(v)).copied().unwrap_or_default(),
            _ => "",
        }
    }
}

/// The functions where softirqs begin.
pub(crate) const SOFTIRQ: &[&str] =
    &["__do_softirq", "handle_softirqs", "do_softirq", "run_ksoftirqd", "do_softirq_own_stack"];
/// The functions where hardware interrupts begin. Includes those of interrupts handled in threads.
pub(crate) const IRQ: &[&str] = &[
    "asm_common_interrupt",
    "common_interrupt",
    "ret_from_intr",
    "do_IRQ",
    "__common_interrupt",
    "handle_irq_event",
    "el1_interrupt",
    "el0_interrupt",
    "gic_handle_irq",
    "irq_thread",
    "irq_thread_fn",
];

/// Functions that an interrupt's entry calls after its end: work for the task on its way back, and preemption.
pub(crate) const AFTER_IRQ: &[&str] = &[
    "irqentry_exit_to_user_mode",
    "exit_to_user_mode_prepare",
    "exit_to_user_mode_loop",
    "prepare_exit_to_usermode",
    "irqentry_exit_cond_resched",
    "raw_irqentry_exit_cond_resched",
    "preempt_schedule_irq",
    "arm64_preempt_schedule_irq",
    "do_notify_resume",
];

/// Functions between a context's entry and a registered handler. Their names do not identify the handler.
pub(crate) const DISPATCH: &str = "\
    expire_timers call_timer_fn __run_timer_base process_backlog netif_receive_skb netif_receive_skb_internal \
    netif_receive_skb_list netif_receive_skb_list_internal __netif_receive_skb __netif_receive_skb_one_core \
    __netif_receive_skb_core __netif_receive_skb_list_core napi_gro_receive gro_receive_skb napi_complete_done \
    rcu_nocb_cb_kthread generic_handle_irq generic_handle_domain_irq handle_edge_irq handle_fasteoi_irq \
    handle_percpu_devid_irq handle_irq_desc __handle_irq_event_percpu handle_irq_event_percpu hrtimer_interrupt \
    __hrtimer_run_queues";

/// Returns whether a list of names, separated by spaces, has a name.
pub(crate) fn lists(names: &str, name: &str) -> bool {
    names.split(' ').any(|listed| listed == name)
}

/// Returns whether a function only dispatches to others.
/// These are entries, vectors' handlers, and functions in between. Compiler suffixes (`.constprop.0`) are ignored.
pub(crate) fn dispatches(name: &str) -> bool {
    let plain = name.split('.').next().unwrap_or(name);
    lists(DISPATCH, plain) || !matches!(effect_of(plain), NameEffect::Nothing | NameEffect::Task)
}

/// Each vector's handlers, and functions that only they call. The latter help if a handler was inlined.
const HANDLERS: &[(u8, &[&str])] = &[
    (0, &["tasklet_hi_action"]),
    (1, &["run_timer_softirq", "__run_timers", "__run_timer_base", "run_timer_base", "expire_timers", "call_timer_fn"]),
    (2, &["net_tx_action"]),
    (3, &["net_rx_action", "__napi_poll", "napi_poll"]),
    (4, &["blk_done_softirq", "blk_complete_reqs"]),
    (5, &["irq_poll_softirq", "blk_iopoll_softirq"]),
    (6, &["tasklet_action", "tasklet_action_common"]),
    (7, &["run_rebalance_domains", "sched_balance_softirq", "sched_balance_domains", "rebalance_domains"]),
    (8, &["hrtimer_run_softirq"]),
    (9, &["rcu_core_si", "rcu_core", "rcu_process_callbacks", "rcu_do_batch"]),
];

/// Returns whether an interrupt of x86's system vectors begins in a function.
pub(crate) fn is_system_vector(name: &str) -> bool {
    name.starts_with("asm_sysvec_") || name.starts_with("sysvec_") || name.starts_with("smp_apic_")
}

/// The effect of a function on the context of its callees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameEffect {
    Nothing,
    /// The interrupt has ended: the interrupted task continues, or leaves its CPU.
    Task,
    Irq,
    Softirq,
    Vector(u8),
}

fn effect_of(name: &str) -> NameEffect {
    if SOFTIRQ.contains(&name) {
        return NameEffect::Softirq;
    }
    if AFTER_IRQ.contains(&name) {
        return NameEffect::Task;
    }
    if IRQ.contains(&name) || is_system_vector(name) {
        return NameEffect::Irq;
    }
    let vector = HANDLERS.iter().find(|(_, names)| names.contains(&name));
    vector.map_or(NameEffect::Nothing, |(v, _)| NameEffect::Vector(*v))
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Contexts {
    nodes: Vec<CpuContext>,
    /// The effect of each symbol, as far as determined.
    effect: Vec<Option<NameEffect>>,
    /// The version of names, and the profile's epoch.
    names: u64,
    epoch: (u64, u32),
}

impl Contexts {
    pub(crate) fn update(&mut self, data: Data<'_>) {
        let profile = data.profile;
        let renamed = profile.renamed_since(self.names).filter(|_| self.epoch == profile.sums_epoch());
        match renamed {
            Some(renamed) if renamed.is_empty() => {}
            Some(renamed) => self.nodes.truncate(renamed.born.node as usize),
            None => {
                self.nodes.clear();
                self.effect.clear();
            }
        }
        (self.names, self.epoch) = (profile.frames.names(), profile.sums_epoch());
        self.effect.resize(profile.frames.n_syms(), None);
        for n in self.nodes.len() as u32..profile.trie.len() as u32 {
            let context = self.next(profile, NodeId(n));
            self.nodes.push(context);
        }
    }

    /// Returns the context of a stack whose callers' context is known.
    fn next(&mut self, profile: &Profile, node: NodeId) -> CpuContext {
        if node == NodeId::ROOT {
            return CpuContext::Task;
        }
        let id = profile.frames.sym_of(profile.trie.frame(node));
        let effect = *self.effect[id.0 as usize].get_or_insert_with(|| {
            let sym = profile.frames.sym(id);
            if sym.kind.is_kernel() { effect_of(&sym.name()) } else { NameEffect::Nothing }
        });
        match (effect, self.nodes[profile.trie.parent(node).0 as usize]) {
            (NameEffect::Softirq, CpuContext::Softirq(v)) => CpuContext::Softirq(v),
            (NameEffect::Softirq, _) => CpuContext::Softirq(None),
            (NameEffect::Irq, _) => CpuContext::Irq,
            (NameEffect::Task, _) => CpuContext::Task,
            (NameEffect::Vector(v), CpuContext::Softirq(None)) => CpuContext::Softirq(Some(v)),
            (_, inherited) => inherited,
        }
    }

    /// Returns the context of a stack of a process; the idle tasks are process 0.
    pub(crate) fn of(&self, stack: NodeId, pid: i32) -> CpuContext {
        match self.nodes.get(stack.0 as usize).copied().unwrap_or(CpuContext::Task) {
            CpuContext::Task if pid == 0 => CpuContext::Idle,
            context => context,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::staged::Staged;

    fn context(stack: &[&str], pid: i32) -> String {
        let (mut staged, mut contexts) = (Staged::default(), Contexts::default());
        let node = staged.stack_in("kernel", stack);
        contexts.update(staged.data());
        let found = contexts.of(node, pid);
        format!("{} {}", found.word(), found.vector()).trim_end().to_owned()
    }

    #[test]
    fn who_only_hands_over() {
        for name in [
            "__do_softirq.constprop.0",
            "do_IRQ",
            "sysvec_reboot",
            "asm_sysvec_thermal",
            "smp_apic_timer_interrupt",
            "rcu_core",
            "process_backlog.isra.0",
        ] {
            assert!(dispatches(name), "{name}");
        }
        for name in ["tcp_v4_rcv", "my.__do_softirq", "apic_timer", "", "sysve"] {
            assert!(!dispatches(name), "{name}");
        }
    }

    #[test]
    fn a_name_that_comes_later_changes_what_was_told() {
        let (mut staged, mut contexts) = (Staged::default(), Contexts::default());
        let (node, kernel) = (staged.stack(&["kernel:a"]), staged.dso("kernel"));
        let frame = staged.profile.trie.frame(node);
        for (name, want) in [("a", CpuContext::Task), ("do_IRQ", CpuContext::Irq), ("b", CpuContext::Task)] {
            staged.profile.frames.set_named(frame, &kernel, name.into());
            contexts.update(staged.data());
            assert_eq!((contexts.of(node, 1), contexts.of(NodeId::ROOT, 1)), (want, CpuContext::Task));
        }
        assert_eq!(contexts.of(NodeId(9), 0), CpuContext::Idle, "an unknown stack has no context");
    }

    #[test]
    fn the_innermost_context_counts() {
        let timer = ["asm_sysvec_apic_timer_interrupt", "irq_exit_rcu", "__do_softirq", "run_timer_softirq", "x"];
        assert_eq!(context(&timer, 0), "softirq TIMER");
        assert_eq!(context(&timer[..2], 7), "irq");
        assert_eq!(context(&[&timer[..], &["asm_common_interrupt", "nvme_irq"]].concat(), 7), "irq");
        assert_eq!(
            context(&["run_ksoftirqd", "handle_softirqs", "net_rx_action", "__napi_poll"], 20),
            "softirq NET_RX"
        );
        assert_eq!(context(&["do_softirq", "__do_softirq", "rcu_core"], 20), "softirq RCU");
        assert_eq!(context(&["do_softirq", "something_new"], 20), "softirq");
        assert_eq!(context(&["kthread", "irq_thread", "irq_thread_fn"], 20), "irq");
        assert_eq!(context(&["do_syscall_64", "call_timer_fn"], 20), "task");
        for after in ["irqentry_exit_to_user_mode", "preempt_schedule_irq"] {
            assert_eq!(context(&[timer[0], after, "schedule", "__schedule"], 7), "task", "the interrupt has ended");
        }
        assert_eq!((context(&["do_idle"], 0), context(&["main"], 3)), ("idle".into(), "task".into()));
    }
}
