//! The result of a filter for each site, evaluated once. Only what depends on the individual sample remains open.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::event::format;
use crate::filter::{Atom, Field, Filter};
use crate::profile::{Chunk, NodeId, Profile, SiteId, SymId};
use crate::session::TaskId;

use crate::query::column;
use crate::query::column::{ColumnInput, ColumnValue};
use crate::query::cpus::context::{Contexts, lists};
use crate::query::data::Data;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterResult {
    No,
    Yes,
    /// Depends on the sample.
    Open,
}

/// Results for all sites, updated as sites and names arrive.
#[derive(Clone, Debug)]
pub struct FilterEvaluator {
    filter: Arc<Filter>,
    results: Vec<FilterResult>,
    bits: Vec<u64>,
    sample_mask: u64,
    names: u64,
    /// The profile's epoch at the last [`Self::follow`].
    epoch: u64,
    /// For each `stack` atom, whether any frame of a node's path matches.
    nodes: Vec<(u8, Vec<bool>)>,
    /// Bits of the clauses about the CPU, by CPU, and about the event, by event.
    by_cpu: Vec<u64>,
    by_event: Vec<u64>,
    number_atoms: Vec<u8>,
    /// For each clause about a tracepoint field, its location in samples of each event.
    traced: Vec<(u8, Vec<Option<format::Field>>)>,
    /// The result for every combination of atoms, if there are few.
    table: Vec<bool>,
    /// For clauses about contexts.
    contexts: Option<Contexts>,
    by_sym: Vec<FxHashMap<SymId, bool>>,
    by_task: Vec<FxHashMap<TaskId, bool>>,
}

/// Functions that an idle CPU waits in. Only the leaf counts, because interrupts and softirqs do real work on top of
/// the idle task. The same as perf top's list of idle symbols, with newer ones.
pub(crate) const IDLE: &str = "\
    acpi_idle_do_entry acpi_processor_ffh_cstate_enter acpi_safe_halt arch_cpu_idle cpu_idle cpu_idle_poll \
    cpu_startup_entry cpuidle_enter_state default_idle default_idle_call do_idle enter_idle idle_cpu intel_idle \
    intel_idle_ibrs intel_idle_irq mwait_idle mwait_idle_with_hints mwait_idle_with_hints.constprop.0 \
    native_safe_halt poll_idle ppc64_runlatch_off psw_idle pseries_dedicated_idle_sleep pv_native_safe_halt";

/// Filters with up to this many clauses are evaluated by table lookup.
const TABLE_ATOMS: usize = 10;

impl FilterEvaluator {
    pub(crate) fn new(filter: Arc<Filter>) -> Self {
        let n = filter.atoms().len();
        // The indexes of clauses about some fields.
        let of = |is: fn(Field) -> bool| {
            (0u8..).zip(filter.atoms()).filter(move |(_, atom)| is(atom.field)).map(|(at, _)| at)
        };
        Self {
            table: (0..if n > TABLE_ATOMS { 0 } else { 1u64 << n }).map(|bits| filter.eval(bits)).collect(),
            contexts: of(is_of_context).next().map(|_| Contexts::default()),
            by_cpu: Vec::new(),
            by_event: Vec::new(),
            traced: of(|field| field.is_traced()).map(|at| (at, Vec::new())).collect(),
            number_atoms: of(|field| matches!(field, Field::Time | Field::Period)).collect(),
            sample_mask: filter.per_sample_mask(),
            nodes: of(|field| field == Field::Stack).map(|at| (at, Vec::new())).collect(),
            filter,
            results: Vec::new(),
            bits: Vec::new(),
            names: 0,
            epoch: 0,
            by_sym: vec![FxHashMap::default(); n],
            by_task: vec![FxHashMap::default(); n],
        }
    }

    pub(crate) fn filter(&self) -> &Arc<Filter> {
        &self.filter
    }

    /// Updates all results, also if IDs were renumbered.
    pub(crate) fn follow(&mut self, data: Data<'_>) {
        if self.epoch != data.profile.epoch() {
            *self = Self::new(self.filter.clone());
            self.epoch = data.profile.epoch();
        }
        self.update(data);
    }

    /// Evaluates new sites, and again those with renamed frames.
    /// Returns the sites whose result changed and that may have been counted already.
    pub(crate) fn update(&mut self, data: Data<'_>) -> Vec<u32> {
        let profile = data.profile;
        let known = self.results.len();
        let again = if self.is_by_name() { self.renamed(profile, known) } else { Vec::new() };
        self.names = profile.frames.names();
        self.extend_nodes(data);
        self.contexts.iter_mut().for_each(|contexts| contexts.update(data));
        if self.sample_mask != 0 {
            self.tabulate(data);
        }
        let mut changed = Vec::new();
        for site in again {
            let (now, at) = (self.evaluate(data, site), site as usize);
            if now != (self.results[at], self.bits[at]) {
                (self.results[at], self.bits[at]) = now;
                changed.push(site);
            }
        }
        for site in known..profile.sites.len() {
            let (result, bits) = self.evaluate(data, site as u32);
            self.results.push(result);
            self.bits.push(bits);
        }
        changed
    }

    fn is_by_name(&self) -> bool {
        let named = |field: Field| matches!(field, Field::Sym | Field::Stack | Field::Idle) || is_of_context(field);
        self.filter.atoms().iter().any(|atom| named(atom.field))
    }

    /// Returns the sites with renamed frames, and drops cached results of their stacks.
    fn renamed(&mut self, profile: &Profile, known: usize) -> Vec<u32> {
        let renamed = profile.renamed_since(self.names);
        let from = match &renamed {
            Some(renamed) if renamed.is_empty() => return Vec::new(),
            Some(renamed) => renamed.born.node as usize,
            None => 0,
        };
        self.nodes.iter_mut().for_each(|(_, nodes)| nodes.truncate(from));
        renamed.map_or_else(|| (0..known as u32).collect(), |renamed| renamed.sites(profile, known))
    }

    fn evaluate(&mut self, data: Data<'_>, site: u32) -> (FilterResult, u64) {
        let bits = self.site_bits(data, SiteId(site));
        let result = match self.filter.partial(bits, !self.sample_mask) {
            Some(true) => FilterResult::Yes,
            Some(false) => FilterResult::No,
            None => FilterResult::Open,
        };
        (result, bits)
    }

    /// Evaluates the clauses about CPU and event for every value at once. [`Self::sample`] uses the results.
    fn tabulate(&mut self, data: Data<'_>) {
        let bits = |holds: &dyn Fn(&Atom) -> bool, field: Field| {
            let atoms = self.filter.atoms().iter().enumerate().filter(|(_, a)| a.field == field);
            atoms.map(|(i, a)| u64::from(holds(a)) << i).sum::<u64>()
        };
        if self.by_cpu.is_empty() {
            self.by_cpu = (0..=u16::MAX).map(|cpu| bits(&|a| a.number(cpu), Field::Cpu)).collect();
        }
        for (atom, places) in &mut self.traced {
            let name = &self.filter.atoms()[usize::from(*atom)].name;
            let place = |event| data.profile.format(event as u16).and_then(|format| format.said(name)).cloned();
            *places = (0..data.events.len()).map(place).collect();
        }
        self.by_event = data.events.iter().map(|name| bits(&|a| a.text(name), Field::Event)).collect();
    }

    pub(crate) fn passes(&self, data: Data<'_>, chunk: &Chunk, row: usize) -> bool {
        match self.results[chunk.site[row] as usize] {
            FilterResult::Yes => true,
            FilterResult::No => false,
            FilterResult::Open => self.sample(data, chunk, row),
        }
    }

    /// Returns the result for a sample of an open site.
    pub(crate) fn sample(&self, data: Data<'_>, chunk: &Chunk, row: usize) -> bool {
        let (time, event) = (chunk.time[row], chunk.event[row]);
        let mut bits = self.bits[chunk.site[row] as usize];
        bits |= self.by_cpu[usize::from(chunk.cpu[row])];
        for (i, places) in &self.traced {
            let place = places.get(usize::from(event)).and_then(Option::as_ref);
            let holds =
                place.is_some_and(|field| field_holds(field, &self.filter.atoms()[usize::from(*i)], chunk.raw(row)));
            bits |= u64::from(holds) << i;
        }
        bits |= self.by_event.get(usize::from(event)).copied().unwrap_or(0);
        for i in &self.number_atoms {
            let atom = &self.filter.atoms()[usize::from(*i)];
            let value = if atom.field == Field::Time { time.saturating_sub(data.start) } else { chunk.weight[row] };
            let holds = atom.number(value);
            bits |= u64::from(holds) << i;
        }
        self.table.get(bits as usize).copied().unwrap_or_else(|| self.filter.eval(bits))
    }

    fn extend_nodes(&mut self, data: Data<'_>) {
        let profile = data.profile;
        for (atom, nodes) in &mut self.nodes {
            let memo = &mut self.by_sym[usize::from(*atom)];
            let atom = &self.filter.atoms()[usize::from(*atom)];
            for n in (nodes.len() as u32..profile.trie.len() as u32).map(NodeId) {
                let inherited = n != NodeId::ROOT && nodes[profile.trie.parent(n).0 as usize];
                let own = n != NodeId::ROOT && !inherited && {
                    let sym = profile.frames.sym_of(profile.trie.frame(n));
                    *memo.entry(sym).or_insert_with(|| atom.text(&profile.frames.sym(sym).name()))
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
                field if field.per_sample() => false,
                Field::Stack => self
                    .nodes
                    .iter()
                    .find(|(a, _)| usize::from(*a) == i)
                    .is_some_and(|(_, nodes)| nodes[site.stack.0 as usize]),
                Field::Context | Field::Softirq => self.contexts.as_ref().is_some_and(|contexts| {
                    let pid = data.session.tasks()[site.task.0 as usize].pid;
                    let context = contexts.of(site.stack, pid);
                    match atom.field {
                        Field::Context => atom.text(context.word()),
                        // An empty name is not a vector, even if a pattern matches it.
                        _ => !context.vector().is_empty() && atom.text(context.vector()),
                    }
                }),
                field if field.is_of_task() => {
                    *self.by_task[i].entry(site.task).or_insert_with(|| is_of_task(data, site.task, atom))
                }
                _ => leaf(data, site.stack, atom, &mut self.by_sym[i], data.session.tasks()[site.task.0 as usize].pid),
            };
            bits |= u64::from(holds) << i;
        }
        bits
    }
}

fn is_of_context(field: Field) -> bool {
    matches!(field, Field::Context | Field::Softirq)
}

/// Returns whether a clause about a tracepoint's field matches.
fn field_holds(field: &format::Field, atom: &Atom, raw: &[u8]) -> bool {
    match atom.field {
        Field::TraceNumber => field.number(raw).is_some_and(|n| atom.number(n)),
        _ if field.is_text() => {
            field.bytes(raw).is_some_and(|bytes| atom.text(&String::from_utf8_lossy(format::until_nul(bytes))))
        }
        _ => atom.text(&field.text(raw)),
    }
}

/// Returns whether a clause about a task matches: a column has the value.
fn is_of_task(data: Data<'_>, task: TaskId, atom: &Atom) -> bool {
    let task = &data.session.tasks()[task.0 as usize];
    let input = ColumnInput { data, task, cpu: 0, trace: 0, values: None, stack: NodeId::ROOT };
    let column = column::of_field(atom.field);
    match column.and_then(|column| Some((column.value?)(&input, column.key))) {
        Some(ColumnValue::Text(text)) => atom.text(&text),
        Some(ColumnValue::Id(id)) => atom.number(id as u64),
        Some(ColumnValue::Number(n)) => atom.number(n),
        None => false,
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
        Field::Idle => pid == 0 && sym.kind.is_kernel() && *memo.entry(id).or_insert_with(|| lists(IDLE, &sym.name())),
        Field::Lang => atom.text(sym.kind.language()),
        Field::Dso => *memo.entry(id).or_insert_with(|| atom.text(&sym.dso_name)),
        _ => *memo.entry(id).or_insert_with(|| atom.text(&sym.name())),
    }
}

#[cfg(test)]
mod tests;
