//! Stacks by function name: the basis of folded stacks, flame graphs and most formats of other tools.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::filter::Filter;
use crate::panel::stacks::FrameName;
use crate::profile::{Acc, Chunk, FrameId, NodeId, Profile, SymId, Trie};
use crate::session::DsoKind;

use crate::query::aggregate::Aggregate;
use crate::query::aggregate::filter_eval::FilterEvaluator;
use crate::query::data::Data;

#[derive(Debug, Default)]
pub(crate) struct SymbolStacks {
    /// Frames are indexes into `names`.
    pub(crate) trie: Trie,
    pub(crate) names: Vec<FrameName>,
    /// For each node of the profile's trie, the node here.
    pub(crate) node_of: Vec<NodeId>,
}

impl SymbolStacks {
    pub(crate) fn build(data: Data<'_>) -> Self {
        let frames = &data.profile.frames;
        let mut out = Self::default();
        let mut ids: FxHashMap<FrameName, u32> = FxHashMap::default();
        let mut of_sym: Vec<u32> = vec![u32::MAX; frames.n_syms()];
        let (parents, node_frames) = data.profile.trie.columns();
        out.node_of = Vec::with_capacity(parents.len());
        out.node_of.push(NodeId::ROOT);
        for n in 1..parents.len() {
            let own = frames.syms()[node_frames[n] as usize];
            // A parent's ID is less than its children's, so it is known here.
            let mut at = out.node_of[parents[n] as usize];
            for sym in std::iter::once(own).chain(frames.inlined(node_frames[n]).iter().copied()) {
                let slot = &mut of_sym[sym as usize];
                if *slot == u32::MAX {
                    let name = name_in(data.profile, SymId(sym));
                    let next = out.names.len() as u32;
                    *slot = *ids.entry(name).or_insert_with_key(|name| {
                        out.names.push(name.clone());
                        next
                    });
                }
                at = out.trie.child(at, FrameId(*slot));
            }
            out.node_of.push(at);
        }
        out
    }

    /// Returns the names of a stack, outermost first.
    pub(crate) fn path(&self, node: NodeId) -> Vec<u32> {
        let mut path: Vec<u32> = self.trie.walk(node).map(|frame| frame.0).collect();
        path.reverse();
        path
    }
}

/// Returns the name of a symbol. perf prints `[unknown]` and the DSO; stackcollapse-perf.pl puts the DSO in brackets
/// instead, even if it already has brackets.
pub(crate) fn name_in(profile: &Profile, sym: SymId) -> FrameName {
    let sym = profile.frames.sym(sym);
    let text = match &sym.function {
        Some(function) => function.clone(),
        None if &*sym.dso_name == "[unknown]" => sym.dso_name.clone(),
        // JIT code without a symbol is named after its perf map file.
        None => match sym.dso_name.strip_prefix("[JIT] tid ").filter(|_| sym.kind == DsoKind::Anon) {
            Some(pid) => format!("[perf-{pid}.map]").into(),
            None => format!("[{}]", sym.dso_name).into(),
        },
    };
    FrameName { text, kind: sym.kind, dso: sym.dso_name.clone() }
}

/// Returns weights by comm and stack, sorted by both.
pub fn stacks(data: Data<'_>, named: &SymbolStacks, fold: &Aggregate) -> Vec<(Arc<str>, NodeId, Acc)> {
    let mut comms: Vec<Arc<str>> = data.session.tasks().iter().map(|t| t.comm.clone()).collect();
    comms.sort_unstable();
    comms.dedup();
    let number = |comm: &Arc<str>| comms.binary_search(comm).unwrap_or(0) as u32;
    let of_task: Vec<u32> = data.session.tasks().iter().map(|t| number(&t.comm)).collect();
    let mut sums: FxHashMap<(u32, NodeId), Acc> = FxHashMap::default();
    for (_, site, acc) in fold.sites() {
        let site = data.profile.sites.all()[site as usize];
        let key = (of_task[site.task.0 as usize], named.node_of[site.stack.0 as usize]);
        *sums.entry(key).or_default() += acc;
    }
    let mut list: Vec<_> = sums.into_iter().collect();
    list.sort_unstable_by_key(|(key, _)| *key);
    list.into_iter().map(|((comm, node), acc)| (comms[comm as usize].clone(), node, acc)).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StackSample {
    /// The position among all samples.
    pub(crate) at: u64,
    pub(crate) time: u64,
    pub(crate) site: u32,
    pub(crate) period: u64,
    pub(crate) cpu: u16,
    pub(crate) event: u16,
}

/// Calls `each` for every sample that passes, in order.
pub fn samples(data: Data<'_>, filter: Option<Arc<Filter>>, mut each: impl FnMut(StackSample)) {
    let mut evaluator = filter.map(FilterEvaluator::new);
    if let Some(evaluator) = &mut evaluator {
        evaluator.update(data);
    }
    let row = |chunk: &Chunk, i: usize, at: u64| StackSample {
        at,
        time: chunk.time[i],
        site: chunk.site[i],
        period: chunk.weight[i],
        cpu: chunk.cpu[i],
        event: chunk.event[i],
    };
    let mut at = data.profile.first();
    for (chunk, range) in data.profile.between(at, u64::MAX) {
        for at_row in range {
            let one = row(chunk, at_row, at);
            at += 1;
            if evaluator.as_ref().is_none_or(|evaluator| evaluator.passes(data, chunk, at_row)) {
                each(one);
            }
        }
    }
}

#[cfg(test)]
mod tests;
