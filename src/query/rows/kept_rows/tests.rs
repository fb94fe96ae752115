//! Compares incrementally updated rows, call trees and flame graphs with newly built ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::filter::Filter;
use crate::profile::{Acc, CHUNK, FrameId};
use crate::query::aggregate::changes::AggregateRole;
use crate::query::flame::layout::{FlameDirection, FlameSpec, layout};
use crate::query::flame::{Edit, FlameTree};
use crate::query::rows::live_rows::LiveRows;
use crate::query::rows::task_choices::TaskSums;
use crate::query::staged::Staged;
use crate::query::tree::chains::tests::built;
use crate::query::tree::chains::{CallTree, TreeKind};
use crate::symbols::lines::InlinedFrame;

use super::KeptRows;
use crate::query::rows::partner::PairKind;
use crate::query::{Aggregate, ColumnKey, Direction, Order, Partner, RowLimit, Top, TopRow, TopSpec};

fn with(fold: &Aggregate) -> Option<(Partner, &Aggregate)> {
    Partner::of(PairKind::Ipc, ["cycles", "instructions"].into_iter(), 0).map(|partner| (partner, fold))
}

/// An event between two answers.
#[derive(Clone, Debug)]
enum Op {
    Sample {
        pid: i32,
        stack: Vec<u8>,
        cpu: u16,
    },
    Rename {
        frame: usize,
        name: u8,
    },
    /// A function becomes inlined there, or not any longer.
    Inline {
        frame: usize,
        name: u8,
    },
    /// Only later samples count from now on.
    Begin(u64),
    Compact,
    /// The screen requests an answer.
    Look,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let stack = proptest::collection::vec(0u8..5, 0..6);
    let op = prop_oneof![
        8 => (1i32..4, stack, 0u16..3).prop_map(|(pid, stack, cpu)| Op::Sample { pid, stack, cpu }),
        2 => (0usize..5, 0u8..5).prop_map(|(frame, name)| Op::Rename { frame, name }),
        1 => (0usize..5, 0u8..3).prop_map(|(frame, name)| Op::Inline { frame, name }),
        1 => (0u64..40).prop_map(Op::Begin),
        1 => Just(Op::Compact),
        4 => Just(Op::Look),
    ];
    proptest::collection::vec(op, 1..60)
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        "[abd]".prop_map(|name| Edit::Focus(name.into())),
        "[abcd]".prop_map(|name| Edit::MergeFunction(name.into())),
        Just(Edit::MergeDso("lib".into())),
        Just(Edit::CollapseRecursion),
        Just(Edit::ByDso),
    ]
}

fn letter(n: u8) -> String {
    // Two of them are in another file, and one is the function of an idle CPU.
    ["a", "lib:b", "lib:c", "d", "kernel:native_safe_halt"][usize::from(n)].to_owned()
}

/// (pid and CPU, function) to (ID, own, children), and those of the partner event.
type Sums = BTreeMap<(Option<i32>, Option<i32>, String), (u64, [Acc; 4])>;

fn sums(staged: &Staged, top: &Top) -> Sums {
    let one = |row: &TopRow| {
        let (group, name) = (&top.groups[row.group as usize], top.symbol(staged.data(), row.label));
        let name = name.map_or(String::new(), |sym| sym.name().into_owned());
        (
            (group.id(ColumnKey::Pid), group.id(ColumnKey::Cpu), name),
            (row.id, [row.own, row.children, row.partner_own, row.partner_children]),
        )
    };
    top.rows.iter().map(one).collect()
}

/// The paths of a tree with weight, heaviest siblings first.
fn paths(staged: &Staged, tree: &CallTree) -> Vec<(usize, u32, Acc)> {
    let (mut out, mut left) = (Vec::new(), vec![(0u32, 0usize)]);
    while let Some((at, depth)) = left.pop() {
        let node = &tree.nodes[at as usize];
        out.push((depth, node.sym, node.acc));
        let children = tree.children(staged.data(), at, |acc| !acc.is_zero());
        left.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
    }
    out
}

struct Screen {
    fold: Aggregate,
    /// The aggregate of the second event, the partner for instructions per cycle.
    partner: Aggregate,
    rows: KeptRows,
    tasks: TaskSums,
    flame: FlameTree,
    edits: Vec<Edit>,
    spec: TopSpec,
    from: u64,
    filter: Option<Arc<Filter>>,
}

impl Screen {
    fn new(filter: Option<&str>, keys: &[ColumnKey], children: bool) -> Self {
        let filter = filter.map(|text| Arc::new(Filter::parse(text).expect("filter")));
        let fold = Aggregate::new(0, filter.clone()).group_by(keys);
        Self {
            partner: Aggregate::of_event(1, &fold),
            fold,
            rows: KeptRows::default(),
            tasks: TaskSums::default(),
            flame: FlameTree::default(),
            edits: Vec::new(),
            spec: TopSpec { keys: keys.to_vec(), children, ..TopSpec::default() },
            from: 0,
            filter,
        }
    }

    fn look(&mut self, staged: &Staged) -> Top {
        self.fold.update(staged.data(), self.from..u64::MAX);
        let changes = self.fold.take_changes();
        self.partner.update(staged.data(), self.from..u64::MAX);
        let partner_changes = self.partner.take_changes();
        self.tasks.update(staged.data(), &self.fold, &changes);
        self.rows.apply(staged.data(), &changes, AggregateRole::Shown);
        self.rows.apply(staged.data(), &partner_changes, AggregateRole::Partner);
        match changes.full_rebuild || partner_changes.full_rebuild {
            true => self.flame = FlameTree::build(staged.data(), &self.fold, with(&self.partner), &self.edits),
            false => {
                self.flame.apply(staged.data(), &changes, AggregateRole::Shown);
                self.flame.apply(staged.data(), &partner_changes, AggregateRole::Partner);
            }
        }
        self.rows_of(staged, RowLimit::All { sorted: usize::MAX })
    }

    fn rows_of(&mut self, staged: &Staged, keep: RowLimit) -> Top {
        self.rows.top(staged.data(), &self.fold, with(&self.partner), &self.spec, keep)
    }

    fn check(&mut self, staged: &Staged) {
        let top = self.look(staged);
        let mut fold = Aggregate::new(0, self.filter.clone()).group_by(&self.spec.keys);
        fold.update(staged.data(), self.from..u64::MAX);
        let mut partner = Aggregate::of_event(1, &fold);
        partner.update(staged.data(), self.from..u64::MAX);
        let all = RowLimit::All { sorted: usize::MAX };
        let want = Top::build(staged.data(), &fold, with(&partner), &self.spec, all);
        assert_eq!((top.total, top.n_rows), (want.total, want.n_rows));
        assert_eq!(sums(staged, &top), sums(staged, &want));
        let ids = |top: &Top| top.rows.iter().map(|row| row.id).collect::<Vec<_>>();
        assert_eq!(ids(&top), ids(&want), "the order");
        let tasks = |sums: &mut TaskSums| {
            let all = sums.heaviest(staged.data(), want.total);
            all.iter().map(|task| (task.group.id(ColumnKey::Pid), task.own)).collect::<Vec<_>>()
        };
        assert_eq!(tasks(&mut self.tasks), tasks(&mut TaskSums::of(staged.data(), &fold)));
        let mut walked = LiveRows::walked(staged.data(), &fold, with(&partner), &self.spec);
        let walked = walked.top(staged.data(), &fold, &self.spec, RowLimit::All { sorted: usize::MAX });
        assert_eq!((sums(staged, &walked), ids(&walked)), (sums(staged, &want), ids(&want)), "site by site");
        for (row, anew) in top.rows.iter().zip(&want.rows) {
            for direction in [Direction::Callers, Direction::Callees] {
                let kind = TreeKind { direction, inclusive: self.spec.children };
                let want = paths(staged, &built(staged.data(), &want, anew, kind));
                let tree = self.rows.tree(staged.data(), &self.fold, (&top, row), kind);
                assert_eq!(paths(staged, &tree), want);
            }
        }
        self.check_flame(&FlameTree::build(staged.data(), &fold, with(&partner), &self.edits));
    }
}

impl Screen {
    fn check_flame(&self, anew: &FlameTree) {
        for way in [FlameDirection::Roots, FlameDirection::Leaves, FlameDirection::Around("a|c".into())] {
            for by_weight in [true, false] {
                let (edits, find) = (self.edits.clone(), Some("b".to_owned()));
                let spec = FlameSpec {
                    way: way.clone(),
                    zoom: Vec::new(),
                    edits,
                    width: 80,
                    height: 9,
                    by_weight,
                    find,
                    frames_per_row: if by_weight { 3 } else { 1 },
                };
                assert_eq!(layout(&self.flame, &spec), layout(anew, &spec));
            }
        }
    }
}

fn play(ops: &[Op], screen: &mut Screen) {
    let (mut staged, mut time) = (Staged::default(), 0);
    for op in ops {
        match op {
            Op::Sample { pid, stack, cpu } => {
                time += 1;
                let names: Vec<String> = stack.iter().map(|n| letter(*n)).collect();
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let frames = staged.profile.frames.len();
                // A renamed function keeps its new name.
                let kept: Vec<(usize, u32)> = staged.profile.frames.syms().iter().copied().enumerate().collect();
                let site = staged.site(*pid, &names);
                for (frame, sym) in kept.into_iter().take(frames) {
                    let sym = staged.profile.frames.sym(crate::profile::SymId(sym)).clone();
                    let dso = staged.session.dsos.get(sym.dso).clone();
                    staged.profile.frames.set_named(FrameId(frame as u32), &dso, sym.name().into_owned().into());
                }
                staged.profile.push(time, site, 1 + time % 7, *cpu, u16::from(time % 3 == 0));
            }
            Op::Rename { frame, name } if *frame < staged.profile.frames.len() => {
                let name = letter(*name);
                let (file, name) = name.split_once(':').unwrap_or(("app", &name));
                let dso = staged.dso(file);
                staged.profile.frames.set_named(FrameId(*frame as u32), &dso, name.into());
            }
            Op::Inline { frame, name } if *frame < staged.profile.frames.len() => {
                let name = ["inner", "other"].get(usize::from(*name)).into_iter().chain([&"outer"]);
                let places: Vec<InlinedFrame> =
                    name.map(|name| InlinedFrame { function: Some((*name).into()), line: None }).collect();
                let dso = staged.dso("app");
                staged.profile.frames.set_places(FrameId(*frame as u32), &dso, &places);
            }
            Op::Rename { .. } | Op::Inline { .. } => {}
            Op::Begin(from) => screen.from = (*from).max(screen.from),
            Op::Compact => staged.profile.compact(&mut staged.session),
            Op::Look => screen.check(&staged),
        }
    }
    screen.check(&staged);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..crate::damage::kept() })]
    #[test]
    fn what_followed_is_what_is_there(ops in ops(), children: bool, edits in proptest::collection::vec(edit(), 0..3)) {
        let by_task = [ColumnKey::Pid, ColumnKey::Sym];
        let by_cpu = [ColumnKey::Cpu, ColumnKey::Dso];
        for keys in [&by_task[..], &by_cpu[..], &[ColumnKey::Comm]] {
            for filter in [None, Some("!idle"), Some("sym == a || stack ~ c && cpu == 1"), Some("context == idle")] {
                let mut screen = Screen::new(filter, keys, children);
                screen.edits = edits.clone();
                play(&ops, &mut screen);
            }
        }
    }
}

/// An evicted chunk removes its samples under the names they were counted under.
#[test]
fn what_is_forgotten_is_taken_out() {
    let mut staged = Staged::default();
    let mut screen = Screen::new(None, &[ColumnKey::Sym], true);
    for i in 0..2 * CHUNK as u64 {
        staged.sample(i, 1, &["main", ["f", "g", "h"][i as usize % 3]], 1);
    }
    screen.check(&staged);
    let app = staged.dso("app");
    staged.profile.frames.set_named(FrameId(1), &app, "other".into());
    let chunk = staged.profile.evict().expect("a chunk");
    screen.fold.forget(staged.data(), &chunk);
    screen.partner.forget(staged.data(), &chunk);
    screen.check(&staged);
    let main = screen.look(&staged).rows.iter().map(|row| row.children.samples).max();
    assert_eq!(main, Some(CHUNK as u64));
}

/// A stack of more functions than the filter of labels can tell apart, and more nodes than are added up at a time.
#[test]
fn deep_stacks_and_many_nodes() {
    let mut staged = Staged::default();
    let names: Vec<String> = (0..150).map(|n| format!("f{n}")).collect();
    let mut deep: Vec<&str> = names.iter().map(String::as_str).collect();
    deep.extend(["f3", "f149", "f3"]);
    for n in 0..120 {
        deep.rotate_left(1);
        staged.sample(n, 1, &deep, 1 + n);
    }
    Screen::new(None, &[ColumnKey::Sym], true).check(&staged);
}

#[test]
fn the_first_of_very_many_rows() {
    let mut staged = Staged::default();
    (0..500u64).for_each(|i| staged.sample(i, 1, &[&format!("m{}", i % 20), &format!("f{i}")], 1 + i * 7 % 50));
    // Both events have samples of every third function.
    for i in (0..500u64).step_by(3) {
        let site = staged.site(1, &[&format!("m{}", i % 20), &format!("f{i}")]);
        (0..20).for_each(|n| staged.profile.push(500 + i, site, 1 + i * 13 % 50, 0, n % 2));
    }
    for order in [Order::SelfTime, Order::Children, Order::Samples, Order::Ipc, Order::By(ColumnKey::Sym)] {
        for (reversed, n) in [(false, 7), (true, 7), (false, 0), (false, 499), (false, 5000)] {
            let mut screen = Screen::new(None, &[ColumnKey::Sym], true);
            screen.spec = TopSpec { order, reversed, ..screen.spec };
            let whole = screen.look(&staged);
            let first = screen.rows_of(&staged, RowLimit::First(n));
            assert_eq!(first.n_rows, 520);
            let names = |top: &Top, n: usize| top.rows.iter().take(n).map(|row| row.id).collect::<Vec<_>>();
            assert_eq!(names(&first, usize::MAX), names(&whole, n), "{order:?} {reversed} {n}");
        }
    }
}
