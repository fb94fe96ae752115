//! Decides a filter for each site once; only what depends on the single sample is left open.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::filter::{Atom, Field, Filter};
use crate::profile::{NodeId, SiteId, SymId};
use crate::session::TaskId;

use super::Data;

/// A site's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    No,
    Yes,
    /// Ask each sample.
    Open,
}

/// Verdicts for all sites, kept up to date as sites and names come.
#[derive(Debug)]
pub struct Judge {
    filter: Arc<Filter>,
    verdicts: Vec<Verdict>,
    bits: Vec<u64>,
    sample_mask: u64,
    names: u64,
    /// For each `stack` atom, whether any frame of a node's path matches.
    nodes: Vec<(u8, Vec<bool>)>,
    by_sym: Vec<FxHashMap<SymId, bool>>,
    by_task: Vec<FxHashMap<TaskId, bool>>,
}

/// Functions that an idle CPU waits in; the leaf decides, since much real work runs on top of the
/// idle task (softirqs, interrupts). As perf top's list of idle symbols, with the newer ones.
pub const IDLE: &[&str] = &[
    "acpi_idle_do_entry",
    "acpi_processor_ffh_cstate_enter",
    "acpi_safe_halt",
    "arch_cpu_idle",
    "cpu_idle",
    "cpu_idle_poll",
    "cpu_startup_entry",
    "cpuidle_enter_state",
    "default_idle",
    "default_idle_call",
    "do_idle",
    "enter_idle",
    "idle_cpu",
    "intel_idle",
    "intel_idle_ibrs",
    "intel_idle_irq",
    "mwait_idle",
    "mwait_idle_with_hints",
    "mwait_idle_with_hints.constprop.0",
    "native_safe_halt",
    "poll_idle",
    "ppc64_runlatch_off",
    "psw_idle",
    "pseries_dedicated_idle_sleep",
    "pv_native_safe_halt",
];

impl Judge {
    pub fn new(filter: Arc<Filter>) -> Self {
        let nodes = filter
            .atoms()
            .iter()
            .enumerate()
            .filter(|(_, a)| a.field == Field::Stack)
            .map(|(i, _)| (i as u8, Vec::new()))
            .collect();
        let n = filter.atoms().len();
        Self {
            sample_mask: filter.per_sample_mask(),
            filter,
            verdicts: Vec::new(),
            bits: Vec::new(),
            names: 0,
            nodes,
            by_sym: vec![FxHashMap::default(); n],
            by_task: vec![FxHashMap::default(); n],
        }
    }

    pub fn filter(&self) -> &Arc<Filter> {
        &self.filter
    }

    /// Judges sites that are new, and all of them again when names have changed. Returns whether
    /// a verdict changed that may have been counted already.
    pub fn update(&mut self, data: Data<'_>) -> bool {
        let profile = data.profile;
        let generation = profile.frames.generation();
        let by_name = self.filter.atoms().iter().any(|a| matches!(a.field, Field::Sym | Field::Stack | Field::Idle));
        let renamed = by_name && generation != self.names;
        self.names = generation;
        if renamed {
            self.nodes.iter_mut().for_each(|(_, nodes)| nodes.clear());
        }
        self.extend_nodes(data);
        let known = self.verdicts.len();
        let mut changed = false;
        for i in if renamed { 0 } else { known }..profile.sites.len() {
            let bits = self.site_bits(data, SiteId(i as u32));
            let verdict = match self.filter.partial(bits, !self.sample_mask) {
                Some(true) => Verdict::Yes,
                Some(false) => Verdict::No,
                None => Verdict::Open,
            };
            if i < known {
                changed |= self.verdicts[i] != verdict || self.bits[i] != bits;
                (self.verdicts[i], self.bits[i]) = (verdict, bits);
            } else {
                self.verdicts.push(verdict);
                self.bits.push(bits);
            }
        }
        changed
    }

    pub fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    /// The verdict on one sample of an open site.
    pub fn sample(&self, data: Data<'_>, site: u32, time: u64, cpu: u16, event: u16) -> bool {
        let mut bits = self.bits[site as usize];
        for (i, atom) in self.filter.atoms().iter().enumerate().filter(|(_, a)| a.field.per_sample()) {
            let holds = match atom.field {
                Field::Cpu => atom.number(u64::from(cpu)),
                Field::Time => atom.number(time.saturating_sub(data.start)),
                _ => data.events.get(usize::from(event)).is_some_and(|name| atom.text(name)),
            };
            bits |= u64::from(holds) << i;
        }
        self.filter.eval(bits)
    }

    fn extend_nodes(&mut self, data: Data<'_>) {
        let profile = data.profile;
        let (parents, frames) = profile.trie.columns();
        for (atom, nodes) in &mut self.nodes {
            let memo = &mut self.by_sym[usize::from(*atom)];
            let atom = &self.filter.atoms()[usize::from(*atom)];
            for n in nodes.len()..parents.len() {
                let inherited = n > 0 && nodes[parents[n] as usize];
                let own = n > 0 && !inherited && {
                    let sym = SymId(profile.frames.syms()[frames[n] as usize]);
                    *memo.entry(sym).or_insert_with(|| atom.text(&profile.frames.sym(sym).name))
                };
                nodes.push(inherited || own);
            }
        }
    }

    fn site_bits(&mut self, data: Data<'_>, id: SiteId) -> u64 {
        let site = data.profile.sites.get(id);
        let mut bits = 0;
        for i in 0..self.filter.atoms().len() {
            let atom = &self.filter.atoms()[i];
            let holds = match atom.field {
                Field::Cpu | Field::Time | Field::Event => false,
                Field::Stack => self
                    .nodes
                    .iter()
                    .find(|(a, _)| usize::from(*a) == i)
                    .is_some_and(|(_, nodes)| nodes[site.stack.0 as usize]),
                Field::Comm | Field::Pid | Field::Tid => {
                    let task = &data.session.tasks()[site.task.0 as usize];
                    *self.by_task[i].entry(site.task).or_insert_with(|| match atom.field {
                        Field::Comm => atom.text(&task.comm),
                        Field::Pid => atom.number(task.pid as u64),
                        _ => atom.number(task.tid as u64),
                    })
                }
                _ => leaf(data, site.stack, atom, &mut self.by_sym[i], data.session.tasks()[site.task.0 as usize].pid),
            };
            bits |= u64::from(holds) << i;
        }
        bits
    }
}

fn leaf(data: Data<'_>, stack: NodeId, atom: &Atom, memo: &mut FxHashMap<SymId, bool>, pid: i32) -> bool {
    if stack == NodeId::ROOT {
        return false;
    }
    let frames = &data.profile.frames;
    let id = frames.sym_of(data.profile.trie.frame(stack));
    let sym = frames.sym(id);
    match atom.field {
        Field::Kernel => sym.kind.is_kernel(),
        Field::User => !sym.kind.is_kernel(),
        Field::Idle => {
            pid == 0 && sym.kind.is_kernel() && *memo.entry(id).or_insert_with(|| IDLE.contains(&&*sym.name))
        }
        Field::Dso => *memo.entry(id).or_insert_with(|| atom.text(&sym.dso_name)),
        _ => *memo.entry(id).or_insert_with(|| atom.text(&sym.name)),
    }
}
