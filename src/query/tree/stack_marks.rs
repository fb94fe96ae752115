//! A report's rules for stacks, evaluated on function names.
//! They determine the function that a stack is attributed to, its parent, and whether it counts.

use std::sync::Arc;

use regex::Regex;

use crate::profile::frames::SymState;
use crate::profile::{NodeId, Profile, SymId};

#[derive(Clone, Default)]
pub(crate) struct StackRules {
    /// Functions whose callees are ignored: a stack ends at the outermost of them.
    pub(crate) ignore_callees: Option<Regex>,
    /// Functions that can be parents; the innermost one in a stack is its parent.
    pub(crate) parent: Option<Regex>,
    pub(crate) only_with_parent: bool,
    /// Whether stacks whose last function is unnamed are excluded.
    pub(crate) only_named: bool,
}

impl StackRules {
    pub(crate) fn need_chains(&self) -> bool {
        self.parent.is_some() || self.ignore_callees.is_some()
    }
}

/// Results for all stacks, by node.
#[derive(Debug, Default)]
pub struct StackMarks {
    /// The stack that replaces each one.
    origins: Option<Vec<u32>>,
    /// The symbol of each one's parent.
    parents: Vec<u32>,
    left_out: Vec<bool>,
}

const NONE: u32 = u32::MAX;

/// The parent of stacks without a matching caller.
const OTHER: &str = "[other]";

impl StackMarks {
    pub(crate) fn new(profile: &Profile, rules: &StackRules) -> Self {
        let origins = rules.ignore_callees.as_ref().map(|regex| origins(profile, &named(profile, regex)));
        let parents = rules.parent.as_ref().map(|regex| innermost(profile, &named(profile, regex))).unwrap_or_default();
        let taken_for = |node: u32| origins.as_ref().map_or(node, |list| list[node as usize]);
        let is_left_out = |node: u32| {
            let unnamed = || match taken_for(node) {
                0 => true,
                node => profile.frames.sym(sym_at(profile, node)).state == SymState::Unknown,
            };
            rules.only_with_parent && parents[node as usize] == NONE || rules.only_named && unnamed()
        };
        let any = rules.only_named || rules.only_with_parent;
        let nodes = if any { profile.trie.len() as u32 } else { 0 };
        Self { left_out: (0..nodes).map(is_left_out).collect(), origins, parents }
    }

    pub(crate) fn origins(&self) -> Option<&[u32]> {
        self.origins.as_deref()
    }

    pub(crate) fn counts(&self, node: NodeId) -> bool {
        !self.left_out.get(node.0 as usize).is_some_and(|out| *out)
    }

    /// Returns the parent of a stack, as a number that equal parents share.
    pub(crate) fn parent(&self, node: NodeId) -> u32 {
        self.parents.get(node.0 as usize).copied().unwrap_or(NONE)
    }

    pub(crate) fn parent_name(&self, profile: &Profile, node: NodeId) -> Arc<str> {
        match self.parent(node) {
            NONE => OTHER.into(),
            sym => profile.frames.sym(SymId(sym)).shared_name(),
        }
    }
}

fn sym_at(profile: &Profile, node: u32) -> SymId {
    profile.frames.sym_of(profile.trie.frame(NodeId(node)))
}

/// Returns which symbols match.
fn named(profile: &Profile, regex: &Regex) -> Vec<bool> {
    let frames = &profile.frames;
    (0..frames.n_syms() as u32).map(|sym| regex.is_match(&frames.sym(SymId(sym)).name())).collect()
}

/// Returns for each stack the one that ends at its outermost matching frame.
fn origins(profile: &Profile, meant: &[bool]) -> Vec<u32> {
    let nodes = profile.trie.len();
    let (mut out, mut found) = (vec![0u32; nodes], vec![false; nodes]);
    for node in 1..nodes {
        let parent = profile.trie.parent(NodeId(node as u32)).0 as usize;
        let above = found[parent];
        out[node] = if above { out[parent] } else { node as u32 };
        found[node] = above || meant[sym_at(profile, node as u32).0 as usize];
    }
    out
}

/// Returns for each stack the symbol of its innermost matching frame.
fn innermost(profile: &Profile, meant: &[bool]) -> Vec<u32> {
    let mut out = vec![NONE; profile.trie.len()];
    for node in 1..out.len() {
        let sym = sym_at(profile, node as u32).0;
        let parent = profile.trie.parent(NodeId(node as u32)).0 as usize;
        out[node] = if meant[sym as usize] { sym } else { out[parent] };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::staged::Staged;
    use crate::query::{ColumnKey, Data, RowLimit, Top, TopSpec};

    /// Rows of a profile under some rules: key, self and with callees.
    fn rows(keys: &[ColumnKey], rules: &StackRules) -> Vec<(String, u64, u64)> {
        let mut staged = Staged::default();
        for (stack, weight) in [
            (&["main", "sys_read", "copy"][..], 1),
            (&["main", "sys_write", "sys_read", "copy"], 2),
            (&["main", "loop"], 4),
            (&[], 8),
        ] {
            staged.sample(1, 1, stack, weight);
        }
        let marks = StackMarks::new(&staged.profile, rules);
        let data = Data { origins: marks.origins(), marks: Some(&marks), ..staged.data() };
        let spec = TopSpec { keys: keys.to_vec(), ..TopSpec::default() };
        let top = Top::build(data, &staged.fold(), None, &spec, RowLimit::First(usize::MAX));
        let name = |row: &crate::query::TopRow| {
            let sym = top.symbol(data, row.label).map(|sym| sym.name().into_owned());
            top.groups[row.group as usize].text(ColumnKey::Parent).map(ToString::to_string).or(sym).unwrap_or_default()
        };
        let mut rows: Vec<_> = top.rows.iter().map(|row| (name(row), row.own.period, row.children.period)).collect();
        rows.push(("total".into(), top.total.period, 0));
        rows.sort();
        rows
    }

    fn list(rows: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
        let mut rows: Vec<_> = rows.iter().map(|(name, own, all)| ((*name).to_owned(), *own, *all)).collect();
        rows.sort();
        rows
    }

    #[test]
    fn callees_of_a_function_are_its_own() {
        let rules = StackRules { ignore_callees: Regex::new("^sys_").ok(), ..StackRules::default() };
        let want =
            [("", 8, 8), ("loop", 4, 4), ("main", 0, 7), ("sys_read", 1, 1), ("sys_write", 2, 2), ("total", 15, 0)];
        assert_eq!(rows(&[ColumnKey::Sym], &rules), list(&want));
    }

    #[test]
    fn rows_are_told_apart_by_the_innermost_caller_that_is_meant() {
        let rules = StackRules { parent: Regex::new("^sys_").ok(), ..StackRules::default() };
        let want = [("[other]", 12, 12), ("sys_read", 3, 3), ("total", 15, 0)];
        assert_eq!(rows(&[ColumnKey::Parent], &rules), list(&want));
        let only = StackRules { only_with_parent: true, ..rules };
        assert_eq!(rows(&[ColumnKey::Parent], &only), list(&[("sys_read", 3, 3), ("total", 3, 0)]));
    }

    #[test]
    fn what_has_no_name_is_left_out() {
        let rules = StackRules { only_named: true, ..StackRules::default() };
        let want =
            [("copy", 3, 3), ("loop", 4, 4), ("main", 0, 7), ("sys_read", 0, 3), ("sys_write", 0, 2), ("total", 7, 0)];
        assert_eq!(rows(&[ColumnKey::Sym], &rules), list(&want));
    }
}
