//! Compares call trees with a manual walk of each stack.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::query::staged::Staged;
use crate::query::tree::heaviest_chain::{ApartBy, ChainThreshold, HeavyTrees, StackWeights};
use crate::query::{ColumnKey, Top, TopRow, TopSpec};

/// Names from the row on, and the weight of that path.
type Weights = BTreeMap<Vec<String>, Acc>;

/// The tree of a row, built stack by stack.
pub(crate) fn built(data: Data<'_>, top: &Top, row: &TopRow, kind: TreeKind) -> CallTree {
    let (mut tree, mut edges, mut path) = (CallTree::default(), Edges::default(), Vec::new());
    let profile = data.profile;
    let sym = |n: NodeId| profile.frames.sym_of(profile.trie.frame(n)).0;
    let inlined = |n: NodeId| profile.frames.inlined(profile.trie.frame(n).0);
    let paths = Paths { data, mode: top.labels.mode, label: row.label, kind, sym, inlined };
    for (stack, acc) in &top.sites[top.ranges[row.group as usize].clone()] {
        if paths.follow(NodeId(*stack), &mut path) {
            tree.count(&mut edges, &path, |sum| *sum += *acc);
        }
    }
    tree.sort(data);
    tree
}

/// Each path of a tree once; siblings in order.
fn paths(staged: &Staged, tree: &CallTree) -> Weights {
    let sym = |node: u32| staged.profile.frames.sym(crate::profile::SymId(tree.nodes[node as usize].sym));
    let (mut out, mut left) = (Weights::from([(Vec::new(), tree.nodes[0].acc)]), vec![(0u32, Vec::new())]);
    while let Some((at, path)) = left.pop() {
        let children = &tree.nodes[at as usize].children;
        for pair in children.windows(2) {
            let order = |at: usize| {
                (
                    std::cmp::Reverse(tree.nodes[pair[at] as usize].acc.period),
                    &sym(pair[at]).dso_name,
                    sym(pair[at]).name(),
                )
            };
            assert!(order(0) < order(1));
        }
        for child in children {
            let path: Vec<String> = path.iter().cloned().chain([sym(*child).name().into_owned()]).collect();
            assert_eq!(out.insert(path.clone(), tree.nodes[*child as usize].acc), None);
            left.push((*child, path));
        }
    }
    out
}

fn ended(staged: &Staged, heavy: &CallTree) -> Weights {
    let (mut out, mut left) = (Weights::new(), vec![(0u32, Vec::new())]);
    while let Some((at, path)) = left.pop() {
        for child in &heavy.nodes[at as usize].children {
            let sym = crate::profile::SymId(heavy.nodes[*child as usize].sym);
            let name = staged.profile.frames.sym(sym).name().into_owned();
            left.push((*child, path.iter().cloned().chain([name]).collect()));
        }
        let acc = heavy.nodes[at as usize].ended;
        if !acc.is_zero() {
            out.insert(path, acc);
        }
    }
    out
}

/// The grouping value of a row; `None` for samples without frames.
fn label(top: &Top, staged: &Staged, row: &TopRow) -> Option<String> {
    let sym = top.symbol(staged.data(), row.label);
    match top.labels.mode {
        LabelMode::Sym => sym.map(|sym| sym.name().into_owned()),
        LabelMode::Dso => sym.map(|sym| sym.dso_name.to_string()),
        LabelMode::None => (row.label == 0).then(String::new),
    }
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn chains_are_what_following_each_stack_gives(
        samples in proptest::collection::vec((1i32..3, proptest::collection::vec(0usize..4, 0..6), 1u64..50), 1..25),
        key in 0usize..3,
        (children, inclusive, callers) in any::<(bool, bool, bool)>(),
        least in 0u32..40,
    ) {
        const NAMES: [&str; 4] = ["a", "b", "lib:c", "lib:d"];
        const SHORT: [&str; 4] = ["a", "b", "c", "d"];
        const INLINED: &[&str] = &["b", "x (inlined)", "y (inlined)"];
        let mut staged = Staged::default();
        samples.iter().for_each(|(pid, stack, weight)| {
            staged.sample(1, *pid, &stack.iter().map(|i| NAMES[*i]).collect::<Vec<_>>(), *weight);
        });
        staged.inline("b", &["x", "y"]);
        let keys = vec![ColumnKey::Pid, [ColumnKey::Sym, ColumnKey::Dso, ColumnKey::Tid][key]];
        let top = staged.top(&TopSpec { keys, children, ..TopSpec::default() });
        let direction = if callers { Direction::Callers } else { Direction::Callees };
        let mut weights = StackWeights::new(staged.profile.trie.len());
        for row in &top.rows {
            let (of, pid) = (label(&top, &staged, row), top.groups[row.group as usize].id(ColumnKey::Pid));
            let mut want = Weights::from([(Vec::new(), Acc::default())]);
            let (mut want_printed, mut want_ended) = (want.clone(), Weights::new());
            let mut want_callees = want.clone();
            for (_, stack, weight) in samples.iter().filter(|sample| Some(sample.0) == pid) {
                let is = |i: &usize| {
                    let (file, name) = NAMES[stack[*i]].split_once(':').unwrap_or(("app", NAMES[stack[*i]]));
                    of.as_deref() == Some([name, file, ""][key])
                };
                let is_own = stack.len().checked_sub(1).is_some_and(|leaf| is(&leaf));
                let mut places = 0..stack.len();
                // A task contains its whole stacks: callers begin at their ends.
                let inclusive = inclusive && !(key == 2 && callers);
                let Some(at) = (if inclusive { places.find(is) } else { places.last().filter(is) }) else { continue };
                let with_inlined = |i: &usize| if *i == 1 { INLINED } else { &SHORT[*i..=*i] };
                let names = |part: &[usize]| part.iter().flat_map(with_inlined).map(|n| (*n).to_owned()).collect::<Vec<_>>();
                // A row that is not a function is followed by one.
                let of_function = usize::from(key == 0);
                let path: Vec<String> = if callers {
                    names(&stack[..at + 1 - of_function]).into_iter().rev().collect()
                } else {
                    names(&stack[at..])[of_function..].to_vec()
                };
                // In printed trees, a row that excludes its callees begins at the root of the stack.
                let printed = if callers || inclusive { path.clone() } else { names(stack) };
                let count = |to: &mut Weights, path: &[String]| {
                    (0..=path.len()).for_each(|n| *to.entry(path[..n].to_vec()).or_default() += Acc::one(*weight));
                };
                count(&mut want, &path);
                count(&mut want_printed, &printed);
                if !is_own {
                    count(&mut want_callees, &printed);
                }
                *want_ended.entry(printed).or_default() += Acc::one(*weight);
            }
            let tree = built(staged.data(), &top, row, TreeKind { direction, inclusive });
            prop_assert_eq!(paths(&staged, &tree), want);
            let least = f64::from(least);
            let threshold = ChainThreshold { least, whole: top.total, of_parent: false, most: usize::MAX, apart: ApartBy::Nothing };
            let kind = TreeKind { direction, inclusive };
            let heavy = HeavyTrees::new(staged.data(), &top, kind, threshold);
            // The scratch space is reusable for the next group.
            prop_assert_eq!(paths(&staged, &heavy.trees(&mut weights, &[row])[0]), {
                want_printed.retain(|path, acc| path.is_empty() || acc.percent_of(&top.total) >= least);
                want_printed
            });
            let all = HeavyTrees::new(staged.data(), &top, kind, ChainThreshold { least: 0.0, ..threshold });
            prop_assert_eq!(ended(&staged, &all.trees(&mut weights, &[row])[0]), want_ended);
            if inclusive && !callers {
                let callees = all.without_own_samples(true);
                // The samples that one row leaves out count for the next one.
                let group: Vec<&TopRow> = top.rows.iter().filter(|other| other.group == row.group).collect();
                let trees = callees.trees(&mut weights, &group);
                let at = group.iter().position(|other| other.label == row.label).expect("row");
                prop_assert_eq!(paths(&staged, &trees[at]), want_callees);
            }
        }
    }
}
