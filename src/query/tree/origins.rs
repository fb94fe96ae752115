//! Tracepoint stacks in tables begin at the first caller outside of the kernel's scheduling, entry and tracing code.

use crate::profile::{NodeId, SymId};

use crate::query::cpus::context::lists;
use crate::query::data::Data;

/// Kernel functions between an event and its cause: the scheduler, system call entry, and the tracepoint code.
const BETWEEN: &str = "\
    schedule __schedule __cond_resched _cond_resched cond_resched io_schedule yield do_sched_yield do_task_dead \
    try_to_wake_up default_wake_function autoremove_wake_function activate_task deactivate_task finish_task_switch \
    prepare_task_switch wakeup_preempt sched_clock_tick pick_next_task put_prev_entity put_prev_task_fair \
    set_next_entity set_next_task_fair dequeue_entity enqueue_entity update_curr syscall_trace_enter \
    syscall_enter_from_user_mode syscall_exit_work syscall_exit_to_user_mode syscall_exit_to_user_mode_prepare \
    do_syscall_64 x64_sys_call do_el0_svc el0_svc el0_svc_common invoke_syscall el0t_64_sync el0t_64_sync_handler \
    ret_from_fork ret_from_fork_asm";

/// Prefixes of such functions.
const FAMILIES: &[&str] = &[
    "schedule_",
    "io_schedule_",
    "preempt_schedule",
    "__wake_up",
    "wake_up_",
    "ttwu_",
    "select_task_rq",
    "dequeue_task",
    "enqueue_task",
    "update_curr_",
    "pick_next_task_",
    "entry_SYSCALL_",
];

/// Prefixes of the functions that call the probes of a tracepoint. The kernel calls a single probe directly, and
/// several through one of these.
const TRACING: &[&str] = &[
    "perf_trace_",
    "perf_tp_",
    "perf_event_",
    "trace_event_",
    "trace_sys_",
    "__traceiter_",
    "__bpf_trace_",
    "bpf_trace_run",
];

/// Returns whether a kernel function belongs to the tracing of an event, not to its cause.
pub(crate) fn is_tracing(name: &str) -> bool {
    TRACING.iter().any(|start| name.starts_with(start))
}

pub(crate) fn is_between(name: &str) -> bool {
    let plain = name.split('.').next().unwrap_or(name);
    lists(BETWEEN, plain) || FAMILIES.iter().any(|family| plain.starts_with(family)) || is_tracing(plain)
}

/// For every stack the one that tables use, updated as stacks and names arrive.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    nodes: Vec<u32>,
    /// Whether each node is such a function, and so are all below it.
    between: Vec<bool>,
    /// The cached result of each symbol.
    said: Vec<Option<bool>>,
    names: u64,
    epoch: (u64, u32),
}

impl Origins {
    /// Adds new stacks; returns true if the origin of a known one changed.
    pub(crate) fn update(&mut self, data: Data<'_>) -> bool {
        let profile = data.profile;
        let renamed = profile.renamed_since(self.names).filter(|_| self.epoch == profile.sums_epoch());
        let kept = match &renamed {
            Some(renamed) if renamed.is_empty() => self.nodes.len(),
            Some(renamed) => self.nodes.len().min(renamed.born.node as usize),
            None => 0,
        };
        if renamed.is_none_or(|renamed| !renamed.is_empty()) {
            self.said.clear();
        }
        let before = self.nodes.split_off(kept);
        self.between.truncate(kept);
        (self.names, self.epoch) = (profile.frames.names(), profile.sums_epoch());
        self.said.resize(profile.frames.n_syms(), None);
        for n in kept as u32..profile.trie.len() as u32 {
            self.meet(data, NodeId(n));
        }
        self.nodes[kept..].iter().zip(&before).any(|(now, then)| now != then)
    }

    pub(crate) fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    fn meet(&mut self, data: Data<'_>, node: NodeId) {
        let profile = data.profile;
        if node == NodeId::ROOT {
            self.nodes.push(node.0);
            return self.between.push(false);
        }
        let id = profile.frames.sym_of(profile.trie.frame(node));
        let between = *self.said[id.0 as usize].get_or_insert_with(|| {
            let sym = profile.frames.sym(SymId(id.0));
            sym.kind.is_kernel() && is_between(&sym.name())
        });
        let parent = profile.trie.parent(node);
        // A stack without any other caller keeps the event's own frame.
        let origin = self.nodes[parent.0 as usize];
        let passes = between && parent != NodeId::ROOT && !self.between[origin as usize];
        self.nodes.push(if passes { origin } else { node.0 });
        self.between.push(between);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::staged::Staged;
    use crate::query::{ColumnKey, RowLimit, Top, TopSpec};

    fn rows(stacks: &[&[&str]], origins: bool) -> Vec<(String, u64)> {
        let mut staged = Staged::default();
        for stack in stacks {
            staged.sample(1, 1, stack, 1);
        }
        let mut found = Origins::default();
        assert!(!found.update(staged.data()), "no stack was known before");
        let data = Data { origins: origins.then(|| found.nodes()), ..staged.data() };
        let spec = TopSpec { keys: vec![ColumnKey::Sym], children: false, ..TopSpec::default() };
        let top = Top::build(data, &staged.fold(), None, &spec, RowLimit::First(usize::MAX));
        let mut rows: Vec<(String, u64)> = top
            .rows
            .iter()
            .map(|row| {
                (top.symbol(data, row.label).map_or_else(String::new, |s| s.name().into_owned()), row.own.samples)
            })
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn a_table_of_switches_is_of_those_who_waited() {
        let stacks: &[&[&str]] = &[
            &["kernel:do_futex", "kernel:futex_wait_queue", "kernel:schedule", "kernel:__schedule"],
            &["kernel:ep_poll", "kernel:schedule_hrtimeout_range", "kernel:schedule", "kernel:__schedule"],
            &["main", "kernel:entry_SYSCALL_64_after_hwframe", "kernel:do_syscall_64", "kernel:syscall_trace_enter"],
            &["kernel:schedule_idle", "kernel:__schedule"],
            &["main", "schedule"],
        ];
        let own = |list: &[(&str, u64)]| list.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<Vec<_>>();
        let want = own(&[("__schedule", 1), ("ep_poll", 1), ("futex_wait_queue", 1), ("main", 1), ("schedule", 1)]);
        assert_eq!(rows(stacks, true), want);
        assert_eq!(rows(stacks, false), own(&[("__schedule", 3), ("schedule", 1), ("syscall_trace_enter", 1)]));
    }
}
