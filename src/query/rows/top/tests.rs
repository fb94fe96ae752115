//! Compares rows with sums computed by hand.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::perfdata::{EventDesc, EventUnit};
use crate::query::question::Order;
use crate::query::staged::Staged;

/// (group, function) to (own, children), as periods.
type Sums = BTreeMap<(Option<i32>, String), (u64, u64)>;

fn built(staged: &Staged, keys: &[ColumnKey], children: bool) -> Top {
    staged.top(&TopSpec { keys: keys.to_vec(), children, ..TopSpec::default() })
}

fn sums(staged: &Staged, keys: &[ColumnKey], children: bool) -> Sums {
    let top = built(staged, keys, children);
    let name = |row: &TopRow| top.symbol(staged.data(), row.label).map_or(String::new(), |sym| sym.name().into_owned());
    let one = |row: &TopRow| {
        ((top.groups[row.group as usize].id(ColumnKey::Pid), name(row)), (row.own.period, row.children.period))
    };
    assert_eq!(top.n_rows, top.rows.len());
    top.rows.iter().map(one).collect()
}

#[test]
fn recursion_counts_once() {
    let mut staged = Staged::default();
    staged.sample(1, 1, &["main", "f", "f", "g", "f"], 10);
    staged.sample(2, 1, &["main", "f"], 5);
    staged.sample(3, 1, &["f", "main", "main"], 1);
    let row = |name: &str, own, children| ((None, name.to_owned()), (own, children));
    let all = Sums::from([row("main", 1, 16), row("f", 15, 16), row("g", 0, 10)]);
    assert_eq!(sums(&staged, &[ColumnKey::Sym], true), all);
    let own = Sums::from([row("main", 1, 1), row("f", 15, 15)]);
    assert_eq!(sums(&staged, &[ColumnKey::Sym], false), own);
}

#[test]
fn labels_are_spread_over_the_bits_of_a_path() {
    let bits = (0..64).map(path_bit).inspect(|bit| assert!(bit.is_power_of_two()));
    assert!(bits.collect::<BTreeSet<_>>().len() > 40);
}

/// More functions than the Bloom filter of a path can separate.
#[test]
fn a_deep_stack_has_each_function_once() {
    let mut staged = Staged::default();
    let names: Vec<String> = (0..200).map(|i| format!("f{i:03}")).collect();
    let stack: Vec<&str> = names.iter().chain(&names[50..60]).map(String::as_str).collect();
    staged.sample(1, 1, &stack, 10);
    let want = names.iter().map(|name| ((None, name.clone()), (if name == "f059" { 10 } else { 0 }, 10)));
    assert_eq!(sums(&staged, &[ColumnKey::Sym], true), want.collect());
}

/// Stored sums are not the samples by which rows are sorted.
#[test]
fn rows_are_sorted_by_the_samples_that_sums_stand_for() {
    let mut staged = Staged::default();
    staged.sample(1, 1, &["one"], 300);
    [2, 3].iter().for_each(|time| staged.sample(*time, 1, &["two"], 100));
    let first = |staged: &Staged| {
        let top = staged.top(&TopSpec { order: Order::Samples, ..TopSpec::default() });
        top.symbol(staged.data(), top.rows[0].label).map(|sym| sym.name().into_owned())
    };
    assert_eq!(first(&staged).as_deref(), Some("two"));
    staged.profile.learn_event(0, &EventDesc::imported("cpu", EventUnit::Count).of_sums(100));
    assert_eq!(first(&staged).as_deref(), Some("one"));
}

#[test]
fn rows_come_in_the_order_that_is_asked_for() {
    let mut staged = Staged::default();
    for (pid, stack, weight) in [
        (3, &["a", "lib:y"][..], 50),
        (1, &["lib:y", "b"], 20),
        (2, &["a", "c"], 20),
        (2, &["a", "c"], 10),
        (4, &["d"], 20),
    ] {
        staged.sample(1, pid, stack, weight);
    }
    let fold = staged.fold();
    let order = |keys: &[ColumnKey], order, reversed, keep| {
        let spec = TopSpec { keys: keys.to_vec(), children: true, order, reversed, origins: false };
        let top = Top::build(staged.data(), &fold, None, &spec, keep);
        let name = |row: &TopRow| top.symbol(staged.data(), row.label).map(|sym| sym.name().into_owned());
        let rows: Vec<String> = top.rows.iter().filter_map(name).collect();
        (rows.join(" "), top.n_rows)
    };
    let all = RowLimit::All { sorted: usize::MAX };
    let sym = [ColumnKey::Sym];
    assert_eq!(order(&sym, Order::SelfTime, false, all).0, "y c b d a");
    assert_eq!(order(&sym, Order::Children, false, all).0, "a y c b d");
    assert_eq!(order(&sym, Order::Samples, false, all).0, "c y b d a");
    assert_eq!(order(&sym, Order::SelfTime, true, all).0, "a b d c y");
    assert_eq!(order(&sym, Order::By(ColumnKey::Sym), false, all).0, "a b c d y");
    assert_eq!(order(&sym, Order::By(ColumnKey::Dso), false, all).0, "c b d a y");
    assert_eq!(order(&sym, Order::SelfTime, false, RowLimit::First(2)), ("y c".to_owned(), 5));
    assert_eq!(order(&sym, Order::SelfTime, false, RowLimit::First(9)), ("y c b d a".to_owned(), 5));
    let some = order(&sym, Order::SelfTime, false, RowLimit::All { sorted: 2 }).0;
    assert!(some.starts_with("y c ") && some.len() == "y c b d a".len(), "{some}");
    let tasks = [ColumnKey::Pid, ColumnKey::Sym];
    assert_eq!(order(&tasks, Order::By(ColumnKey::Pid), false, all).0, "b y c a y a d");
    assert_eq!(order(&tasks, Order::SelfTime, false, all).0, "y c b d a a y");
}

#[test]
fn rows_keep_their_identity_from_answer_to_answer() {
    let mut staged = Staged::default();
    staged.sample(1, 1, &["a"], 5);
    staged.sample(1, 2, &["a"], 3);
    staged.sample(1, 1, &["lib:a"], 1);
    let ids = |staged: &Staged| -> Vec<u64> {
        built(staged, &[ColumnKey::Pid, ColumnKey::Dso, ColumnKey::Sym], true).rows.iter().map(|row| row.id).collect()
    };
    let before = ids(&staged);
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 3);
    staged.sample(2, 3, &["b"], 100);
    assert!(ids(&staged).ends_with(&before), "weights and order are unchanged");
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn rows_are_what_adding_up_gives(
        samples in proptest::collection::vec((0i32..40, proptest::collection::vec(0usize..4, 0..7), 1u64..100), 1..80),
        by_task in any::<bool>(),
        by_file in any::<bool>(),
    ) {
        const NAMES: [&str; 4] = ["a", "b", "lib:c", "lib:d"];
        let mut staged = Staged::default();
        let mut want: BTreeMap<(Option<i32>, String), (u64, u64)> = BTreeMap::new();
        for (pid, stack, weight) in &samples {
            let names: Vec<&str> = stack.iter().map(|i| NAMES[*i]).collect();
            staged.sample(1, *pid, &names, *weight);
            let label = |name: &&str| {
                let (file, name) = name.split_once(':').unwrap_or(("app", name));
                if by_file { file.to_owned() } else { name.to_owned() }
            };
            let group = by_task.then_some(*pid);
            let leaf = names.last().map(label).unwrap_or_default();
            want.entry((group, leaf.clone())).or_default().0 += weight;
            let on_path: BTreeSet<String> = names.iter().map(label).chain([leaf]).collect();
            on_path.into_iter().for_each(|name| want.entry((group, name)).or_default().1 += weight);
        }
        let mut keys = vec![if by_file { ColumnKey::Dso } else { ColumnKey::Sym }];
        keys.extend(by_task.then_some(ColumnKey::Pid));
        let top = built(&staged, &keys, true);
        let name = |row: &TopRow| top.symbol(staged.data(), row.label).map_or(String::new(), |sym| {
            if by_file { sym.dso_name.to_string() } else { sym.name().into_owned() }
        });
        let got = top.rows.iter().map(|row| {
            ((top.groups[row.group as usize].id(ColumnKey::Pid), name(row)), (row.own.period, row.children.period))
        });
        prop_assert_eq!(got.collect::<BTreeMap<_, _>>(), want);
        prop_assert_eq!(top.total.period, samples.iter().map(|(_, _, weight)| weight).sum::<u64>());
    }
}
