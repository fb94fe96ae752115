//! Compares flame graphs with groups of stacks as strings.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::*;
use crate::panel::Measure;
use crate::profile::frames::INLINED;
use crate::query::staged::Staged;
use crate::record::interpreted::Language;
use crate::session::DsoKind;
use proptest::prelude::*;

fn one_stack(frames: &[FrameName]) -> FlameTree {
    let stack = Stack { frames: frames.to_vec(), weight: 1, count: 1 };
    FlameTree::of_stacks(&Stacks::new(Measure::Count, vec![stack]))
}

fn name(text: &str, kind: DsoKind, dso: &str) -> FrameName {
    FrameName { text: text.into(), kind, dso: dso.into() }
}

#[test]
fn edits_as_commands() {
    let edits = [
        Edit::Focus("f".into()),
        Edit::MergeFunction("g".into()),
        Edit::MergeDso("lib".into()),
        Edit::CollapseRecursion,
        Edit::CollapseChains,
        Edit::ByDso,
    ];
    let words = ["focus f", "merge g", "merge-dso lib", "recursion", "chains", "by-dso"];
    assert_eq!(edits.map(|edit| edit.as_command()), words);
}

#[test]
fn frames_are_of_their_file_and_of_what_they_run_inside() {
    use DsoKind::{Anon, Bpf, File, Guest, Interpreted, Kernel, Module, Unknown, Vdso};
    let thread = name("softirq", Unknown, "");
    let frames = [
        ("main", File, "app"),
        ("printf", File, "libc.so.6"),
        ("clock", Vdso, "[vdso]"),
        ("jitted", Anon, "//anon"),
        ("small (inlined)", File, "libc.so.6"),
        ("vmexit", Guest, "[guest]"),
        ("[unknown]", Unknown, "[unknown]"),
        ("entry", Kernel, "[kernel]"),
        ("tiny (inlined)", Module, "[ext4]"),
        ("probe", Bpf, "bpf"),
        ("handle_irq_event", Kernel, "[kernel]"),
        ("sysvec_reschedule", Kernel, "[kernel]"),
        ("__do_softirq", Kernel, "[kernel]"),
        ("up › run_ksoftirqd › down", Kernel, "[kernel]"),
        ("__do_softirq", File, "app"),
        ("handle_irq_event", File, "app"),
        ("handle_irq_event", Interpreted(Language::Python), "[python]"),
    ];
    let frames = frames.map(|(text, kind, dso)| name(text, kind, dso));
    let letters = |stack: &[usize]| -> String {
        let stack: Vec<FrameName> =
            std::iter::once(&thread).chain(stack.iter().map(|i| &frames[*i])).cloned().collect();
        let tree = one_stack(&stack[..]);
        (1..tree.len() as u32).map(|node| tree.class(node).letter()).collect()
    };
    let alone: String = (0..frames.len()).map(|i| letters(&[i]).split_off(1)).collect();
    assert_eq!(alone, "ullji??kkkhhssuup");
    assert_eq!(letters(&[0, 7, 10, 7, 12, 7, 10, 7]), "#ukhhssss", "an interrupt does not end a softirq");
    assert_eq!(letters(&[12, 0, 7, 11, 1, 8]), "#sukhlk", "user code does not belong to a softirq");
    assert_eq!(letters(&[12, 12, 13]), "#sss");
    let comm = name("__do_softirq", Kernel, "[kernel]");
    let tree = one_stack(&[comm.clone(), frames[7].clone()][..]);
    assert_eq!([1, 2].map(|node| tree.class(node)), [Class::Thread, Class::Kernel]);
}

#[test]
fn sides_in_whole_factors() {
    let side = |period, seconds| DiffSide { total: Acc { samples: 1, period }, seconds, ..DiffSide::default() };
    let (new, old) = (side(7, 2.5), side(9, 4.0));
    assert_eq!(scale(&new, &old, NormalizeBy::Total), (9, 7));
    assert_eq!(scale(&new, &old, NormalizeBy::Second), (4000, 2500));
    assert_eq!(scale(&new, &old, NormalizeBy::Nothing), (1, 1));
    assert_eq!(scale(&side(0, 0.0), &side(0, 0.0), NormalizeBy::Total), (1, 1));
    assert_eq!(scale(&side(3, 0.0), &side(5 << 40, 0.0), NormalizeBy::Total), (5 << 29, 1));
    assert_eq!(scale(&side(5 << 40, 0.0), &side(3 << 20, 0.0), NormalizeBy::Total), (3 << 9, 5 << 29));
    assert_eq!(scale(&side(u32::MAX.into(), 0.0), &side(5, 0.0), NormalizeBy::Total), (5, u32::MAX.into()));
}

#[test]
fn weights_of_both_sides() {
    let both = |new: (u64, u64), old: (u64, u64)| WeightPair {
        new: Acc { samples: new.0, period: new.1 },
        old: Acc { samples: old.0, period: old.1 },
        partner: Acc::default(),
    };
    let [none, new, old] = [both((0, 0), (0, 0)), both((1, 5), (0, 0)), both((0, 0), (2, 7))];
    assert_eq!([none, new, old].map(|both| both.is_zero()), [true, false, false]);
    assert_eq!([new, old, old].into_iter().sum::<WeightPair>(), both((1, 5), (4, 14)));
    assert_eq!(new.percent_of(&both((9, 20), (1, 1))), 25.0);
}

#[test]
fn a_tree_says_what_it_is_compared_with() {
    let staged = Staged::default();
    let fold = Aggregate::new(0, None);
    let empty = FlameTree::build(staged.data(), &fold, None, &[]);
    assert_eq!((empty.is_empty(), empty.len(), empty.comparison()), (true, 1, None));
    let side = |period, seconds| DiffSide { total: Acc { samples: 1, period }, seconds, ..DiffSide::default() };
    let stacks = |side| FlameStacks { data: staged.data(), aggregate: &fold, side };
    let both = FlameTree::compare(stacks(side(7, 2.0)), stacks(side(9, 3.0)), NormalizeBy::Total, &[]);
    let comparison =
        Comparison { per: NormalizeBy::Total, scale: (9, 7), seconds: (3.0, 2.0), stand_for: Default::default() };
    assert_eq!(both.comparison(), Some(comparison));
    let stack = [name("t", DsoKind::Unknown, "")];
    assert!(!one_stack(&stack[..]).is_empty());
}

/// Go leaves `runtime.goexit` out of its profiles: no frame of a recording had a partner in them.
#[test]
fn recordings_and_profiles_of_go_begin_alike() {
    let stacks = |functions: &[&str]| {
        let mut staged = Staged::default();
        staged.comm(1, 1, true, "app");
        staged.sample(1, 1, functions, 5);
        staged
    };
    let exited = stacks(&["runtime.goexit", "runtime.main", "main.main"]);
    let own = stacks(&["runtime.main", "main.main"]);
    let other = stacks(&["main", "work"]);
    let compare = |new: &Staged, old: &Staged| {
        let (now, then) = (new.fold(), old.fold());
        let side = DiffSide { total: Acc { samples: 1, period: 5 }, seconds: 1.0, ..DiffSide::default() };
        let new = FlameStacks { data: new.data(), aggregate: &now, side };
        let old = FlameStacks { data: old.data(), aggregate: &then, side };
        let tree = FlameTree::compare(new, old, NormalizeBy::Total, &[]);
        (1..tree.len() as u32).map(|node| of_node(&tree, node).0).collect::<Vec<_>>()
    };
    for (new, old) in [(&exited, &own), (&own, &exited)] {
        assert_eq!(compare(new, old), ["app", "runtime.main", "main.main"]);
    }
    assert_eq!(compare(&exited, &exited), ["app", "runtime.goexit", "runtime.main", "main.main"]);
    assert_eq!(compare(&exited, &other), ["app", "runtime.goexit", "runtime.main", "main.main", "main", "work"]);
}

/// A stack of a process, by indexes into [`STACKS`] and [`COMMS`], and its weight.
type One = (usize, usize, u64);
/// Text and DSO of each frame, root first.
type Path = Vec<(String, String)>;

const COMMS: [&str; 3] = ["sh", "app", "sh"];
const STACKS: [&[&str]; 10] = [
    &[],
    &["a"],
    &["a", "b", "lib:c"],
    &["a", "a", "a", "b"],
    &["b", "lib:a", "lib:a"],
    &["lib:c", "lib:c", "a"],
    &["b", "a", "lib:c", "b"],
    &["a", "b", "lib:c", "b", "a", "b"],
    &["lib:d", "lib:c"],
    &["a", "lib:a", "a", "lib:d"],
];

/// Samples of stacks; a function is inlined in all calls of `d`.
fn staged(samples: &[One]) -> Staged {
    let mut staged = Staged::default();
    for (comm, stack, weight) in samples {
        let pid = *comm as i32 + 1;
        staged.comm(pid, pid, false, COMMS[*comm]);
        staged.sample(1, pid, STACKS[*stack], *weight);
    }
    staged.inline("lib:d", &["e"]);
    staged
}

/// The path of a sample after edits, computed frame by frame.
fn path(one: &One, edits: &[Edit]) -> Option<Path> {
    let by_dso = edits.contains(&Edit::ByDso);
    let mut frames: Path = Vec::new();
    for function in STACKS[one.1] {
        let (dso, text) = function.split_once(':').unwrap_or(("app", function));
        frames.push((text.into(), dso.into()));
        if text == "d" {
            frames.push((format!("e{INLINED}"), dso.into()));
        }
    }
    if by_dso {
        frames.iter_mut().for_each(|(text, dso)| *text = dso.clone());
    }
    let focus = edits.iter().rev().find_map(|edit| if let Edit::Focus(name) = edit { Some(name) } else { None });
    if let Some(focus) = focus {
        let at = frames.iter().position(|(text, _)| **text == **focus)?;
        frames.drain(..at);
    }
    frames.retain(|(text, dso)| {
        !edits.contains(&Edit::MergeFunction((**text).into())) && !edits.contains(&Edit::MergeDso((**dso).into()))
    });
    if by_dso || edits.contains(&Edit::CollapseRecursion) {
        frames.dedup();
    }
    frames.insert(0, (COMMS[one.0].into(), String::new()));
    Some(frames)
}

/// The weight through each path, and the weight that ends there.
fn plain(new: &[One], old: &[One], edits: &[Edit]) -> BTreeMap<Path, (WeightPair, WeightPair)> {
    let mut sums: BTreeMap<Path, (WeightPair, WeightPair)> = BTreeMap::new();
    let sides = new.iter().map(|one| (one, true)).chain(old.iter().map(|one| (one, false)));
    for (one, is_new) in sides {
        let Some(path) = path(one, edits) else { continue };
        let acc = Acc::one(one.2);
        let both = if is_new {
            WeightPair { new: acc, ..WeightPair::default() }
        } else {
            WeightPair { old: acc, ..WeightPair::default() }
        };
        (1..=path.len()).for_each(|n| sums.entry(path[..n].to_vec()).or_default().0 += both);
        sums.entry(path).or_default().1 += both;
    }
    sums
}

fn of_node(tree: &FlameTree, node: u32) -> (String, String) {
    let name = &tree.names()[tree.name(node) as usize];
    (name.text.to_string(), name.dso.to_string())
}

fn path_of(tree: &FlameTree, mut node: u32) -> Path {
    let mut path = Vec::new();
    while node != 0 {
        path.insert(0, of_node(tree, node));
        node = tree.parent(node);
    }
    path
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        "([abc]|e \\(inlined\\))".prop_map(|name| Edit::Focus(name.into())),
        "[abcd]".prop_map(|name| Edit::MergeFunction(name.into())),
        Just(Edit::MergeDso("lib".into())),
        Just(Edit::CollapseRecursion),
        Just(Edit::ByDso),
    ]
}

fn samples() -> impl Strategy<Value = Vec<One>> {
    proptest::collection::vec((0..COMMS.len(), 0..STACKS.len(), 1u64..9), 0..30)
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn a_tree_is_a_plain_sum(new in samples(), old in samples(), edits in proptest::collection::vec(edit(), 0..3)) {
        let (now, then) = (staged(&new), staged(&old));
        let (new_fold, old_fold) = (now.fold(), then.fold());
        let side = |fold: &Aggregate, seconds| DiffSide { total: fold.total(), seconds, ..DiffSide::default() };
        let stacks = FlameStacks { data: now.data(), aggregate: &new_fold, side: side(&new_fold, 2.0) };
        let before = FlameStacks { data: then.data(), aggregate: &old_fold, side: side(&old_fold, 3.0) };
        for (tree, old) in [
            (FlameTree::build(now.data(), &new_fold, None, &edits), &[][..]),
            (FlameTree::compare(stacks, before, NormalizeBy::Second, &edits), &old[..]),
        ] {
            let nodes = 1..tree.len() as u32;
            let sums = plain(&new, old, &edits);
            let all: Vec<Path> = nodes.clone().map(|n| path_of(&tree, n)).collect();
            let weights = nodes.clone().map(|n| (tree.total(n), tree.own(n)));
            // A thread without focused functions stays, without weight.
            let got: BTreeMap<Path, _> = all.iter().cloned().zip(weights).filter(|(_, (total, _))| !total.is_zero()).collect();
            prop_assert_eq!(&got, &sums);
            let paths: std::collections::BTreeSet<&Path> = all.iter().collect();
            prop_assert_eq!(paths.len(), all.len());

            let width = |both: WeightPair| match tree.comparison().map(|comparison| comparison.per) {
                None => u128::from(both.new.period),
                Some(_) => u128::from(both.new.period) * 3000 + u128::from(both.old.period) * 2000,
            };
            for node in 0..tree.len() as u32 {
                let mut children: Vec<u32> = nodes.clone().filter(|n| tree.parent(*n) == node).collect();
                children.retain(|n| !tree.total(*n).is_zero());
                let mut listed: Vec<u32> = tree.children(node).collect();
                listed.sort_unstable();
                prop_assert_eq!(listed, children);
            }

            let mut names: Vec<u32> = (0..tree.names().len() as u32).collect();
            names.sort_by(|a, b| tree.by_name(*a, *b));
            let text = |n: &u32| (tree.names()[*n as usize].text.clone(), tree.names()[*n as usize].dso.clone());
            prop_assert!(names.is_sorted_by_key(text));

            let mut ends: BTreeMap<(String, String), WeightPair> = BTreeMap::new();
            for (path, (_, own)) in sums.iter().filter(|(_, (_, own))| !own.is_zero()) {
                *ends.entry(path[path.len() - 1].clone()).or_default() += *own;
            }
            let leaves = tree.leaves();
            prop_assert_eq!(leaves.total, ends.values().copied().sum());
            let mut order: Vec<_> = ends.into_iter().collect();
            let text = |group: u32| { let n = &tree.names()[leaves.groups[group as usize].name as usize]; (n.text.to_string(), n.dso.to_string()) };
            prop_assert!(leaves.by_name.iter().map(|i| text(*i)).eq(order.iter().map(|(name, _)| name.clone())));
            order.sort_by_key(|(name, both)| (Reverse(width(*both)), name.clone()));
            prop_assert_eq!(leaves.groups.len(), order.len());
            for (at, (name, both)) in order.iter().enumerate() {
                let group = &leaves.groups[at];
                let own: Vec<u32> = nodes.clone().filter(|n| of_node(&tree, *n) == *name && !tree.own(*n).is_zero()).collect();
                prop_assert_eq!((text(at as u32), group.total, &group.nodes[..]), (name.clone(), *both, &own[..]));
                prop_assert_eq!(Some(group.class), own.iter().map(|node| tree.class(*node)).min());
            }

            for letter in ["a", "lib", "sh"] {
                let matches: Vec<bool> = tree.names().iter().map(|name| name.text.contains(letter)).collect();
                let is = |frame: &(String, String)| frame.0.contains(letter);
                let through = sums.iter().filter(|(path, _)| path.iter().any(is)).map(|(_, (_, own))| *own).sum::<WeightPair>();
                let frames = sums.keys().filter(|path| path.last().is_some_and(is)).count();
                prop_assert_eq!(tree.share(&matches), (through, frames));
            }
        }
    }
}

/// Threads have a small number, which wraps around.
#[test]
fn six_hundred_threads_have_stacks_of_their_own() {
    let mut staged = Staged::default();
    for pid in 1..=600 {
        staged.comm(pid, pid, false, &format!("{pid:03}"));
        // Some functions occur in few threads only, so their cached state is old.
        let seldom: &[&str] = if pid % 256 == 1 { &["a", "b", "c"] } else { &["a"] };
        staged.sample(1, pid, seldom, 1);
    }
    let tree = FlameTree::build(staged.data(), &staged.fold(), None, &[]);
    assert_eq!(tree.len(), 1 + 600 * 2 + 3 * 2);
    for thread in tree.children(0) {
        assert_eq!(tree.total(thread).new.samples, 1);
        assert_eq!(tree.children(thread).count(), 1);
    }
}
