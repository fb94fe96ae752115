//! Compares flame graphs with groups of stacks as strings.

use std::collections::BTreeMap;

use super::*;
use crate::lang::counted;
use crate::query::aggregate::Aggregate;
use crate::query::diff::DiffSide;
use crate::query::flame::{FlameStacks, FlameTree};
use crate::query::staged::Staged;
use proptest::prelude::*;

/// Stacks, root first. Each letter is a function without a file, and each stack a sample.
fn recorded(stacks: &[&str]) -> Staged {
    let mut staged = Staged::default();
    staged.comm(1, 1, false, "t");
    for stack in stacks {
        let names: Vec<String> = stack.chars().map(String::from).collect();
        let stack = staged.stack_in("[unknown]", &names.iter().map(String::as_str).collect::<Vec<_>>());
        let site = staged.site_at(1, stack);
        staged.profile.push(1, site, 10, 0, 0);
    }
    staged
}

fn compared(old: &[&str], new: &[&str], per: NormalizeBy) -> FlameTree {
    compared_over(old, new, per, (1.0, 1.0))
}

/// The tree of a profile and its baseline, with durations in seconds.
fn compared_over(old: &[&str], new: &[&str], per: NormalizeBy, seconds: (f64, f64)) -> FlameTree {
    let (old, new) = (recorded(old), recorded(new));
    let (then, now) = (old.fold(), new.fold());
    let side = |fold: &Aggregate, seconds| DiffSide { total: fold.total(), seconds, ..DiffSide::default() };
    let before = FlameStacks { data: old.data(), aggregate: &then, side: side(&then, seconds.0) };
    let after = FlameStacks { data: new.data(), aggregate: &now, side: side(&now, seconds.1) };
    FlameTree::compare(after, before, per, &[])
}

fn tree(stacks: &[&str], edits: &[Edit]) -> FlameTree {
    let staged = recorded(stacks);
    FlameTree::build(staged.data(), &staged.fold(), None, edits)
}

fn spec(way: FlameDirection) -> FlameSpec {
    FlameSpec {
        way,
        zoom: Vec::new(),
        edits: Vec::new(),
        width: 80,
        height: 40,
        by_weight: true,
        find: None,
        frames_per_row: 1,
    }
}

fn shape(flame: &Flame) -> Vec<(i32, String, u64)> {
    flame.blocks.iter().map(|b| (b.row, b.name.to_string(), b.total.new.samples)).collect()
}

fn named(list: &[(i32, &str, u64)]) -> Vec<(i32, String, u64)> {
    list.iter().map(|(row, name, n)| (*row, (*name).to_owned(), *n)).collect()
}

#[test]
fn from_the_root_from_the_leaves_and_around() {
    let stacks = ["ab", "ab", "ac", "abc"];
    let tree = tree(&stacks, &[]);
    let roots = layout(&tree, &spec(FlameDirection::Roots));
    assert_eq!(shape(&roots), named(&[(0, "t", 4), (1, "a", 4), (2, "b", 3), (2, "c", 1), (3, "c", 1)]));
    assert_eq!(roots.drawn, 100.0);
    let leaves = layout(&tree, &spec(FlameDirection::Leaves));
    let rows: Vec<_> = shape(&leaves).into_iter().filter(|(row, ..)| *row < 2).collect();
    assert_eq!(rows, named(&[(0, "b", 2), (0, "c", 2), (1, "a", 2), (1, "a", 1), (1, "b", 1)]));
    let around = layout(&tree, &spec(FlameDirection::Around("^b$".into())));
    assert_eq!(shape(&around), named(&[(0, "b", 3), (1, "c", 1), (-1, "a", 3), (-2, "t", 3)]));
}

#[test]
fn chains_of_single_children_are_one_frame() {
    let flame = layout(&tree(&["abcd", "abce", "ab"], &[Edit::CollapseChains]), &spec(FlameDirection::Roots));
    let want = [(0, "t", 3), (1, "a › b", 3), (2, "c", 2), (3, "d", 1), (3, "e", 1)];
    assert_eq!(shape(&flame), named(&want));
}

#[test]
fn a_comparison_draws_both_sides_and_says_what_is_new_or_gone() {
    let old: Vec<&str> = ["ab"; 60].into_iter().chain(["ac"; 60]).collect();
    let new: Vec<&str> = ["ab"; 30].into_iter().chain(["ad"; 30]).collect();
    let flame = layout(&compared(&old, &new, NormalizeBy::Total), &spec(FlameDirection::Roots));
    let of = |name: &str| flame.blocks.iter().find(|b| &*b.name == name).expect("block");
    assert_eq!(["b", "c", "d"].map(|n| of(n).verdict.map(Verdict::sign)), [Some("~"), Some("-"), Some("+")]);
    assert_eq!(["b", "c", "d"].map(|n| flame.changed(of(n).total)), [0.0, -1.0, 1.0]);
    // Half of everything is the same, a quarter of the width is gone and a quarter is new.
    let cells = ["b", "c", "d"].map(|n| of(n).x1 - of(n).x0);
    assert_eq!(cells, [of("a").x1 / 2, of("a").x1 / 4, of("a").x1 / 4]);
    let flame = layout(&compared(&old, &new, NormalizeBy::Nothing), &spec(FlameDirection::Roots));
    assert!((flame.changed(flame.blocks[0].total) + 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn a_zoom_shows_what_stands_on_it_however_deep_it_is() {
    let deep: String = ('A'..='Z').chain('a'..='z').collect();
    let tree = tree(&[&deep], &[]);
    let zoom = std::iter::once("t".into()).chain(deep.chars().take(45).map(|c| c.to_string().into())).collect();
    let flame = layout(&tree, &FlameSpec { zoom, height: 20, ..spec(FlameDirection::Roots) });
    assert_eq!((flame.zoom.len(), flame.blocks.last().map(|b| b.name.to_string())), (46, Some("z".into())));
}

#[test]
fn a_search_counts_nested_matches_once() {
    let tree = tree(&["aba", "ab", "c"], &[]);
    let flame = layout(&tree, &FlameSpec { find: Some("a".into()), ..spec(FlameDirection::Roots) });
    let (acc, frames) = flame.found.expect("found");
    assert_eq!((acc.new.samples, frames), (2, 2));
}

#[test]
fn what_is_too_narrow_is_pooled_and_still_covers_its_place() {
    let stacks: Vec<String> = (0..500u32).map(|i| char::from_u32(0x4e00 + i).expect("char").to_string()).collect();
    let tree = tree(&stacks.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let flame = layout(&tree, &spec(FlameDirection::Roots));
    let last = flame.blocks.last().expect("pool");
    assert_eq!((last.pooled, last.x0, last.x1, flame.drawn, flame.named), (500, 0, 640, 0.0, 0.0));
    assert_eq!(flame.blocks.len(), 2);
}

/// A frame from grouped strings. Samples through it, and samples that end in it.
#[derive(Clone, Debug, PartialEq)]
struct Plain {
    row: i32,
    name: String,
    edges: (u32, u32),
    total: u64,
    own: u64,
    parent: u64,
    pooled: usize,
    below: Option<usize>,
}

impl Plain {
    fn of(block: &FlameBlock) -> Self {
        Self {
            row: block.row,
            name: block.name.to_string(),
            edges: (block.x0, block.x1),
            total: block.total.new.samples,
            own: block.own.new.samples,
            parent: block.parent.new.samples,
            pooled: block.pooled,
            below: block.below,
        }
    }
}

/// A frame's letter, and the rest of its paths.
type Lettered = (char, Vec<String>);

/// A drawn part of a row: start, end, number of pooled frames, the frame if not pooled, the rest of the paths.
type Part = (usize, usize, usize, Option<char>, Vec<String>);

/// Lays out paths of letters at a position, in rows of one direction.
/// Paths are grouped letter by letter. Paths of callers do not end in a frame. Returns the weight narrower than a cell.
fn plain(
    paths: &[String],
    below: Option<usize>,
    cells: u32,
    rows: &[i32],
    by_weight: bool,
    out: &mut Vec<Plain>,
) -> u64 {
    let mut lost = 0;
    let callers = rows.first().is_some_and(|row| *row < 0);
    let mut level = vec![(paths.to_vec(), below, (0, cells * 8))];
    for row in rows {
        for (paths, below, (x0, x1)) in std::mem::take(&mut level) {
            let mut children: BTreeMap<char, Vec<String>> = BTreeMap::new();
            for path in &paths {
                let mut rest = path.chars();
                rest.next().into_iter().for_each(|c| children.entry(c).or_default().push(rest.as_str().to_owned()));
            }
            let mut children: Vec<Lettered> = children.into_iter().collect();
            if by_weight {
                children.sort_by_key(|(_, paths)| std::cmp::Reverse(paths.len()));
            }
            let (width, whole) = ((x1 - x0) as usize, paths.len());
            let edge = |sum: usize| x0 + (width as f64 * sum as f64 / whole as f64 + 0.5 + 1e-9) as u32;
            let mut parts: Vec<Part> = Vec::new();
            let mut sum = 0;
            let (wide, narrow): (Vec<_>, Vec<_>) =
                children.into_iter().partition(|(_, paths)| width * paths.len() >= 8 * whole);
            for (c, paths) in wide {
                let from = sum;
                sum += paths.len();
                parts.push((from, sum, 0, Some(c), paths));
            }
            if !narrow.is_empty() {
                let (from, n) = (sum, narrow.len());
                let paths: Vec<String> = narrow.into_iter().flat_map(|(_, paths)| paths).collect();
                parts.push((from, from + paths.len(), n, None, paths));
            }
            for (from, to, pooled, frame, paths) in parts {
                let (edges, total, parent) = ((edge(from), edge(to)), (to - from) as u64, whole as u64);
                if frame.is_none() && edges.1 - edges.0 < 8 {
                    lost += total;
                }
                if edges.0 == edges.1 {
                    continue;
                }
                let name = frame.map_or_else(|| counted(pooled as u64, "other"), |c| c.to_string());
                let ends = paths.iter().filter(|path| path.is_empty() && !callers);
                out.push(Plain { row: *row, name, edges, total, own: ends.count() as u64, parent, pooled, below });
                if frame.is_some() || edges.1 - edges.0 >= 8 {
                    level.push((paths, Some(out.len() - 1), edges));
                }
            }
        }
    }
    lost
}

fn reversed(path: &str) -> String {
    path.chars().rev().chain(['t']).collect()
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn blocks_are_what_grouping_strings_gives(
        stacks in proptest::collection::vec("[a-e]{1,6}", 1..60),
        width in 4u16..40,
        height in 1u16..9,
        by_weight: bool,
        way in 0usize..4,
    ) {
        let list: Vec<&str> = stacks.iter().map(String::as_str).collect();
        let tree = tree(&list, &[]);
        let (mut want, rows, cells) = (Vec::new(), i32::from(height), u32::from(width));
        let around = ["^a$", "[bc]"][way % 2];
        let spec = FlameSpec { width, height, by_weight, ..spec([FlameDirection::Roots, FlameDirection::Leaves, FlameDirection::Around(around.into())][way.min(2)].clone()) };
        let flame = layout(&tree, &spec);
        let rows: Vec<i32> = (0..rows).collect();
        let (ends, mut narrow): (u64, u64);
        let mut zoomed = stacks.len() as u64;
        match &spec.way {
            FlameDirection::Roots => {
                let paths: Vec<String> = stacks.iter().map(|s| format!("t{s}")).collect();
                narrow = plain(&paths, None, cells, &rows, by_weight, &mut want);
                ends = want.iter().filter(|p| p.pooled == 0).map(|p| p.own).sum();
            }
            FlameDirection::Leaves => {
                let paths: Vec<String> = stacks.iter().map(|s| reversed(s)).collect();
                narrow = plain(&paths, None, cells, &rows, by_weight, &mut want);
                // All paths that begin at a leaf end there; only callers follow.
                want.iter_mut().for_each(|p| p.own = if p.row == 0 { p.total } else { 0 });
                ends = want.iter().filter(|p| p.name == "t").map(|p| p.total).sum();
            }
            FlameDirection::Around(_) => {
                let is = |c: char| if way == 2 { c == 'a' } else { c == 'b' || c == 'c' };
                let found: Vec<(&str, &str)> = stacks.iter().filter_map(|s| s.find(is).map(|at| s.split_at(at))).collect();
                let below: Vec<String> = found.iter().map(|(_, rest)| rest[1..].to_owned()).collect();
                let above: Vec<String> = found.iter().map(|(rest, _)| reversed(rest)).collect();
                zoomed = found.len() as u64;
                let names: std::collections::BTreeSet<&str> = found.iter().map(|(_, rest)| &rest[..1]).collect();
                let own = below.iter().filter(|path| path.is_empty()).count() as u64;
                narrow = 0;
                if let Some(first) = names.first() {
                    let name = if names.len() > 1 { around } else { first }.to_owned();
                    let parent = stacks.len() as u64;
                    want.push(Plain { row: 0, name, edges: (0, cells * 8), total: zoomed, own, parent, pooled: 0, below: None });
                    let half = (i32::from(height) / 2).max(2);
                    let (down, up): (Vec<i32>, Vec<i32>) = (1..half).map(|row| (row, -row)).unzip();
                    narrow = plain(&below, Some(0), cells, &down, by_weight, &mut want);
                    plain(&above, Some(0), cells, &up, by_weight, &mut want);
                }
                ends = want.iter().filter(|p| p.row >= 0 && p.pooled == 0).map(|p| p.own).sum();
            }
        }
        prop_assert_eq!(flame.blocks.iter().map(Plain::of).collect::<Vec<_>>(), want);
        let share = |n: u64| if zoomed == 0 { 0.0 } else { 100.0 * n as f64 / zoomed as f64 };
        prop_assert!((flame.named - share(ends)).abs() < 1e-9, "{} {}", flame.named, share(ends));
        prop_assert!((flame.drawn - share(ends + narrow)).abs() < 1e-9, "{} {}", flame.drawn, share(ends + narrow));
        let ids: std::collections::BTreeSet<u64> = flame.blocks.iter().map(|b| b.id).collect();
        prop_assert_eq!(ids.len(), flame.blocks.len());
    }
}

#[test]
fn edges_are_rounded_and_one_cell_is_wide_enough() {
    let edges = |stacks: &[&str], width, by_weight| {
        let flame = layout(&tree(stacks, &[]), &FlameSpec { width, by_weight, ..spec(FlameDirection::Roots) });
        let shown = flame.blocks.iter().filter(|b| b.row == 1).map(|b| format!("{} {}-{}", b.name, b.x0, b.x1));
        shown.collect::<Vec<_>>().join(", ")
    };
    // Sevenths of 80: 11.4, 34.3 and 80; from the heaviest on 45.7 and 68.6.
    let sevenths = ["a", "b", "b", "c", "c", "c", "c"];
    assert_eq!(edges(&sevenths, 10, false), "a 0-11, b 11-34, c 34-80");
    assert_eq!(edges(&sevenths, 10, true), "c 0-46, b 46-69, a 69-80");
    assert_eq!(edges(&sevenths, 7, false), "a 0-8, b 8-24, c 24-56");
    assert_eq!(edges(&sevenths, 6, false), "b 0-14, c 14-41, 1 other 41-48");
}

#[test]
fn a_frame_is_the_same_whatever_its_weight() {
    let ids = |stacks: &[&str], way| -> BTreeMap<(i32, String), u64> {
        let blocks = layout(&tree(stacks, &[]), &spec(way)).blocks;
        let path = |b: &FlameBlock| {
            std::iter::successors(Some(b), |b| b.below.map(|at| &blocks[at])).map(|b| &*b.name).collect::<String>()
        };
        blocks.iter().map(|b| ((b.row, path(b)), b.id)).collect()
    };
    for way in [FlameDirection::Roots, FlameDirection::Leaves, FlameDirection::Around("^b$".into())] {
        let (few, many) = (ids(&["cbab"], way.clone()), ids(&["cbab", "cbab", "cbad", "dbae"], way));
        assert!(few.iter().all(|(at, id)| many.get(at) == Some(id)), "{few:?} {many:?}");
    }
    // A caller and a callee with the same name are different.
    let around = ids(&["aba"], FlameDirection::Around("^b$".into()));
    assert_ne!(around[&(1, "ab".to_owned())], around[&(-1, "ab".to_owned())]);
}

#[test]
fn a_zoom_goes_as_far_as_it_is_there() {
    let stacks = ["abc", "abd", "ab", "e"];
    let zoomed = |zoom: &[&str], height| {
        let zoom = zoom.iter().map(|name| (*name).into()).collect();
        let flame = layout(&tree(&stacks, &[]), &FlameSpec { zoom, height, ..spec(FlameDirection::Roots) });
        let zoom = flame.zoom.iter().map(|name| &**name).collect::<Vec<_>>().join("");
        (
            zoom,
            shape(&flame).into_iter().map(|(r, n, s)| format!("{r}{n}{s}")).collect::<Vec<_>>().join(" "),
            flame.drawn,
        )
    };
    let whole = "0t4 1a3 2b3 3c1 3d1";
    assert_eq!(zoomed(&["t", "a", "b"], 9), ("tab".into(), whole.into(), 100.0));
    assert_eq!(zoomed(&["t", "a", "x"], 9), ("ta".into(), whole.into(), 100.0));
    // One row above the zoom: weight that ends in b is a third of the zoomed weight.
    let (zoom, frames, drawn) = zoomed(&["t", "a"], 1);
    assert_eq!((&*zoom, &*frames), ("ta", "0t4 1a3 2b3"));
    assert!((drawn - 100.0 / 3.0).abs() < 1e-9, "{drawn}");
    let flame =
        layout(&tree(&stacks, &[]), &FlameSpec { zoom: vec!["t".into(), "a".into()], ..spec(FlameDirection::Roots) });
    assert_eq!((flame.zoomed.new.samples, flame.total.new.samples), (3, 4));
    assert!(flame.blocks.iter().take(3).all(|b| (b.x0, b.x1) == (0, 640)));
}

#[test]
fn around_a_function_that_is_called_like_its_thread() {
    let flame = layout(&tree(&["atb", "c"], &[]), &spec(FlameDirection::Around("^t$".into())));
    assert_eq!(shape(&flame), named(&[(0, "t", 1), (1, "b", 1), (-1, "a", 1), (-2, "t", 1)]));
    let one = layout(&tree(&["ab", "cb"], &[]), &spec(FlameDirection::Around(crate::query::search::exactly("b"))));
    assert_eq!(one.blocks[0].name.to_string(), "b");
    let several = layout(&tree(&["ab", "cb"], &[]), &spec(FlameDirection::Around("(?-i)^[ac]$".into())));
    assert_eq!(several.blocks[0].name.to_string(), "^[ac]$");
}

#[test]
fn values_and_changes_in_each_unit() {
    let old: Vec<&str> = ["a"; 6].into_iter().chain(["b"; 2]).collect();
    let new: Vec<&str> = ["a"; 10].into_iter().chain(["b"; 30]).collect();
    let flame = |per, seconds| layout(&compared_over(&old, &new, per, seconds), &spec(FlameDirection::Roots));
    let of = |flame: &Flame| {
        let a = flame.blocks.iter().find(|b| &*b.name == "a").expect("block").total;
        let (old, new) = flame.values(a);
        (old, new, (flame.changed(a) * 1e6).round() / 1e6)
    };
    // Periods of 60 in the baseline and 100 now, of totals of 80 and 400.
    assert_eq!(of(&flame(NormalizeBy::Total, (2.0, 4.0))), (75.0, 25.0, -0.5));
    assert_eq!(of(&flame(NormalizeBy::Second, (2.0, 5.0))), (30.0, 20.0, -0.2));
    assert_eq!(of(&flame(NormalizeBy::Second, (0.5, 0.0))).0, 120.0);
    assert_eq!(of(&flame(NormalizeBy::Second, (0.0, 2.0))).0, 0.0);
    assert_eq!(of(&flame(NormalizeBy::Nothing, (2.0, 4.0))), (60.0, 100.0, 0.25));
    let flame = layout(&tree(&["a", "b"], &[]), &spec(FlameDirection::Roots));
    assert_eq!(of(&flame), (0.0, 10.0, 1.0));
    assert_eq!((flame.changed(WeightPair::default()), flame.blocks[0].verdict), (0.0, None));
}

#[test]
fn a_hundred_thousand_children_and_a_very_deep_stack() {
    let deep: String = "ab".repeat(50_000);
    let tree = tree(&[&deep], &[]);
    assert_eq!(layout(&tree, &spec(FlameDirection::Roots)).frames, 100_001);
    assert!(!layout(&tree, &spec(FlameDirection::Leaves)).blocks.is_empty());
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn a_profile_against_itself_shows_no_difference(stacks in proptest::collection::vec("[a-e]{1,8}", 1..30)) {
        let list: Vec<&str> = stacks.iter().map(String::as_str).collect();
        for per in [NormalizeBy::Total, NormalizeBy::Second, NormalizeBy::Nothing] {
            let flame = layout(&compared(&list, &list, per), &spec(FlameDirection::Roots));
            prop_assert!(flame.blocks.iter().all(|b| flame.changed(b.total) == 0.0 && b.verdict == Some(Verdict::Noise)));
        }
    }
}

mod machine;
