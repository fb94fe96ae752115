//! Tables and unfolded chains, line by line.

use super::*;
use crate::query::diff::DiffSide;
use crate::query::diff::compare::compare;
use crate::query::rows::kept_rows::KeptRows;
use crate::query::staged::Staged;
use crate::query::{ColumnKey, Direction, RowLimit, TopSpec};

const ALL: RowLimit = RowLimit::All { sorted: usize::MAX };

fn question(order: Order, direction: Direction) -> Question {
    let top = TopSpec { keys: vec![ColumnKey::Sym], children: true, order, reversed: false, origins: false };
    Question { top, direction, height: 100, ..Question::default() }
}

fn listed(staged: &Staged, question: &Question) -> ScreenLines {
    let (fold, mut rows) = (staged.fold(), KeptRows::default());
    let top = rows.top(staged.data(), &fold, None, &question.top, ALL);
    lines(staged.data(), &top, question, (&mut rows, &fold))
}

fn table(staged: &Staged, question: &Question) -> Vec<TopLine> {
    listed(staged, question).lines
}

/// A line as (fold mark at its depth, name, own and children percent).
fn text(lines: &[TopLine]) -> Vec<String> {
    let mark = |mark| match mark {
        FoldMark::Leaf => '.',
        FoldMark::Closed => '>',
        FoldMark::Open => 'v',
    };
    let one = |l: &TopLine| {
        let indent = "  ".repeat(usize::from(l.depth));
        format!("{indent}{} {} {:.0} {:.0}", mark(l.mark), l.sym, l.own_percent, l.children_percent)
    };
    lines.iter().map(one).collect()
}

fn toggle(question: &mut Question, lines: &[TopLine], depth: u16, sym: &str) {
    let line = lines.iter().find(|l| l.depth == depth && *l.sym == *sym).expect("line");
    question.toggled.insert(line.id);
}

fn branching() -> Staged {
    let mut staged = Staged::default();
    staged.sample(1, 1, &["main", "f", "g"], 60);
    staged.sample(1, 1, &["main", "f", "lib:h", "i"], 30);
    staged.sample(1, 1, &["main", "k"], 10);
    staged
}

#[test]
fn lines_unfold_one_by_one() {
    let staged = branching();
    let mut q = question(Order::Children, Direction::Callees);
    let closed = table(&staged, &q);
    let rows = ["> main 0 100", "> f 0 90", "> g 60 60", "> i 30 30", "> h 0 30", "> k 10 10"];
    assert_eq!(text(&closed), rows);
    toggle(&mut q, &closed, 0, "main");
    let open = table(&staged, &q);
    // The heaviest path unfolds by default.
    let want = ["v main 0 100", "  v f 0 90", "    . g 0 60", "    > h 0 30", "  . k 0 10", "> f 0 90"];
    assert_eq!(text(&open)[..6], want);
    toggle(&mut q, &open, 2, "h");
    let open = table(&staged, &q);
    assert_eq!(text(&open)[3..6], ["    v h 0 30", "      . i 0 30", "  . k 0 10"]);
    let forks: Vec<&str> = open[..6].iter().map(|line| &*line.forks).collect();
    assert_eq!(forks, ["", "├", "│├", "│└", "│ ", "└"]);
    toggle(&mut q, &open, 1, "f");
    assert_eq!(text(&table(&staged, &q))[..4], ["v main 0 100", "  > f 0 90", "  . k 0 10", "> f 0 90"]);
    toggle(&mut q, &closed, 0, "k");
    assert_eq!(text(&table(&staged, &q)).last().map(String::as_str), Some(". k 10 10"), "nothing to unfold");
    q.toggled.remove(&closed[0].id);
    let listed = listed(&staged, &Question { callers_of: Some(closed[0].id), ..q });
    let callers: Vec<String> = text(&listed.callers);
    assert_eq!(callers, ["  > f 0 90", "  . k 0 10"], "also of a folded row");
    let line = listed.lines.iter().find(|line| &*line.sym == "h").expect("a row");
    assert_eq!((&*line.dso, &*line.dso_path, line.kind), ("lib", "/usr/lib/lib", DsoKind::File));
    assert_eq!((line.own, line.children, line.group.id(ColumnKey::Pid)), (Acc::default(), Acc::one(30), None));
}

#[test]
fn what_has_no_branch_unfolds_as_a_whole_until_it_is_folded() {
    let mut staged = Staged::default();
    staged.sample(1, 1, &["a", "b", "c", "d"], 5);
    let mut q = question(Order::SelfTime, Direction::Callers);
    let closed = table(&staged, &q);
    toggle(&mut q, &closed, 0, "d");
    let open = table(&staged, &q);
    assert_eq!(text(&open)[..4], ["v d 100 100", "  v c 0 100", "    v b 0 100", "      . a 0 100"]);
    toggle(&mut q, &open, 2, "b");
    assert_eq!(text(&table(&staged, &q))[..4], ["v d 100 100", "  v c 0 100", "    > b 0 100", "> a 0 100"]);
}

#[test]
fn everything_unfolds_and_lines_of_one_name_are_told_apart() {
    let mut q = question(Order::Children, Direction::Callees);
    q.expand_all = true;
    let all = table(&branching(), &q);
    let want = [
        "v main 0 100",
        "  v f 0 90",
        "    . g 0 60",
        "    v h 0 30",
        "      . i 0 30",
        "  . k 0 10",
        "v f 0 90",
        "  . g 0 60",
        "  v h 0 30",
        "    . i 0 30",
        ". g 60 60",
        ". i 30 30",
        "v h 0 30",
        "  . i 0 30",
        ". k 10 10",
    ];
    assert_eq!(text(&all), want);
    let ids: std::collections::BTreeSet<u64> = all.iter().map(|l| l.id).collect();
    assert_eq!(ids.len(), all.len());
    // Shares of the parent line instead of the total.
    q.chain_mode = ChainMode::Fractal;
    let part = ["v main 0 100", "  v f 0 90", "    . g 0 67", "    v h 0 33", "      . i 0 100", "  . k 0 10"];
    assert_eq!(text(&table(&branching(), &q))[..6], part);
    // A toggled line is the exception.
    toggle(&mut q, &all, 0, "f");
    toggle(&mut q, &all, 1, "f");
    let some = text(&table(&branching(), &q));
    assert_eq!(some[..4], ["v main 0 100", "  > f 0 90", "  . k 0 10", "> f 0 90"]);
    assert_eq!(some[4], ". g 60 60");
}

#[test]
fn chains_are_of_what_a_row_counts() {
    let mut staged = Staged::default();
    staged.sample(1, 1, &["main", "f"], 20);
    staged.sample(1, 1, &["main", "f", "g", "f"], 30);
    staged.sample(1, 1, &["main", "f", "g"], 50);
    let chain = |order, children| {
        let mut q = question(order, Direction::Callers);
        (q.top.children, q.expand_all) = (children, true);
        let lines = table(&staged, &q);
        let at = lines.iter().position(|l| l.depth == 0 && &*l.sym == "f").expect("row");
        let chain = lines[at + 1..].iter().take_while(|l| l.depth > 0).cloned();
        text(&chain.collect::<Vec<_>>()).join(" ")
    };
    assert_eq!(chain(Order::Children, true), "  . main 0 100");
    let own = "  v g 0 30     v f 0 30       . main 0 30   . main 0 20";
    assert_eq!(chain(Order::SelfTime, true), own);
    assert_eq!(chain(Order::Children, false), own);
    assert_eq!(chain(Order::SelfTime, false), own);
}

#[test]
fn what_is_below_the_limit_is_left_out() {
    let rows = |order, limit_percent| {
        let q = Question { limit_percent, expand_all: true, ..question(order, Direction::Callees) };
        text(&table(&branching(), &q)).join("|")
    };
    assert_eq!(rows(Order::Children, 60.0), "v main 0 100|  v f 0 90|    . g 0 60|v f 0 90|  . g 0 60|. g 60 60");
    assert_eq!(rows(Order::SelfTime, 30.0), ". g 60 60|. i 30 30");
    let mut staged = Staged::default();
    staged.sample(1, 1, &["m", "a"], 990);
    staged.sample(1, 1, &["m", "b"], 6);
    staged.sample(1, 1, &["m", "c"], 4);
    let mut q = question(Order::Children, Direction::Callees);
    q.expand_all = true;
    // Entries of chains have at least half a percent of the total.
    assert_eq!(text(&table(&staged, &q)), ["v m 0 100", "  . a 0 99", "  . b 0 1", ". a 99 99", ". b 1 1", ". c 0 0"]);
}

#[test]
fn chains_unfold_down_to_what_is_in_sight() {
    let open = |first_line, height| {
        let q = Question { first_line, height, expand_all: true, ..question(Order::SelfTime, Direction::Callers) };
        let lines = table(&branching(), &q);
        lines.iter().filter(|l| l.depth == 1).count()
    };
    // Three rows have callers of their own weight: those that begin on lines 0, 3 and 7.
    assert_eq!([open(0, 0), open(0, 1), open(0, 2), open(1, 1), open(2, 1), open(0, 50)], [1, 1, 2, 1, 2, 3]);
    assert_eq!([open(6, 1), open(5, 1), open(1, 3)], [3, 2, 2]);
}

/// With a separate stack: frames of test builds are large.
#[test]
fn long_chains_end() {
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(chains_end);
    assert!(thread.expect("thread").join().is_ok());
}

fn chains_end() {
    let deep: Vec<String> = (0..510).map(|i| format!("f{i}")).collect();
    let mut staged = Staged::default();
    staged.sample(1, 1, &deep.iter().map(String::as_str).collect::<Vec<_>>(), 5);
    let mut q = question(Order::Children, Direction::Callees);
    (q.expand_all, q.height) = (true, 1);
    // All rows have the same weight, and are sorted by name.
    let chain = table(&staged, &q);
    assert_eq!(chain.iter().map(|l| l.depth).max(), Some(500));
    let mut staged = Staged::default();
    for branch in 0..5 {
        let names: Vec<String> = (0..450).map(|i| format!("b{branch}_{i}")).collect();
        let stack: Vec<&str> = std::iter::once("a").chain(names.iter().map(String::as_str)).collect();
        staged.sample(1, 1, &stack, 20);
    }
    let chain = table(&staged, &q);
    assert_eq!((&*chain[0].sym, chain.iter().filter(|l| l.depth > 0).count()), ("a", MAX_CHAIN));
}

#[test]
fn a_name_that_is_sought_says_so() {
    let mut staged = Staged::default();
    let a = staged.stack(&["a"]);
    let frame = staged.profile.frames.intern_named(0x77);
    assert_eq!(staged.profile.frames.wanted(&staged.session.dsos), [frame]);
    let b = staged.profile.trie.child(a, frame);
    let site = staged.site_at(1, b);
    staged.profile.push(1, site, 5, 0, 0);
    staged.sample(1, 1, &[], 5);
    let mut q = question(Order::Children, Direction::Callees);
    q.expand_all = true;
    let lines = table(&staged, &q);
    let shown: Vec<_> = lines.iter().map(|l| (l.depth, &*l.sym, &*l.dso, l.state == SymState::Sought)).collect();
    let known = (0, "a", "app", false);
    let name = "[unknown] …";
    assert!(shown.contains(&known) && shown.contains(&(0, name, "[unknown]", true)), "{shown:?}");
    assert!(shown.contains(&(1, name, "[unknown]", true)) && shown.contains(&(0, "", "", false)), "{shown:?}");
    q.direction = Direction::Callers;
    assert!(table(&staged, &q).iter().any(|l| (l.depth, &*l.sym, l.state == SymState::Sought) == (1, "a", false)));
}

#[test]
fn what_is_gone_has_a_line_without_weight() {
    let (mut then, mut now) = (Staged::default(), Staged::default());
    then.sample(1, 1, &["m", "a"], 50);
    then.sample(1, 1, &["m", "b"], 40);
    then.sample(1, 1, &["m", "c"], 10);
    now.sample(1, 1, &["m", "a"], 16);
    now.sample(1, 1, &["m", "c"], 174);
    now.sample(1, 1, &["m", "d"], 10);
    let shown = |per, limit_percent| {
        let mut q = question(Order::SelfTime, Direction::Callers);
        (q.limit_percent, q.expand_all) = (limit_percent, true);
        let (fold, mut now_rows) = (now.fold(), KeptRows::default());
        let (old, new) = (then.top(&q.top), now_rows.top(now.data(), &fold, None, &q.top, ALL));
        let side = |top: &Top| DiffSide { total: top.total, seconds: 2.0, ..DiffSide::default() };
        let old = TableSide { data: then.data(), top: &old, side: side(&old) };
        let table = TableSide { data: now.data(), top: &new, side: side(&new) };
        let rows = compare(table, old, &q.top, per);
        let lines = compared(now.data(), &new, old, &rows, &q, (&mut now_rows, &fold)).lines;
        let diff = |l: &TopLine| l.diff.map_or(String::new(), |v| format!(" {:.0} {:.0}", v.old, v.new));
        let text = text(&lines).into_iter().zip(&lines).map(|(text, l)| text + &diff(l));
        text.collect::<Vec<_>>()
    };
    let all = [
        "v c 87 87 10 87",
        "  . m 0 87",
        "v a 8 8 50 8",
        "  . m 0 8",
        "v d 5 5 0 5",
        "  . m 0 5",
        ". m 0 100 0 0",
        ". b 0 0 40 0",
    ];
    assert_eq!(shown(NormalizeBy::Total, 0.0), all);
    // At least the limit now or in the baseline; the row of m includes its callees.
    let some = ["v c 87 87 10 87", "  . m 0 87", ". a 8 8 50 8", ". m 0 100 0 0", ". b 0 0 40 0"];
    assert_eq!(shown(NormalizeBy::Total, 50.0), some);
    let plain = ["v c 87 87 10 174", "  . m 0 87", ". m 0 100 0 0", ". b 0 0 40 0"];
    assert_eq!(shown(NormalizeBy::Nothing, 10.0), plain);
}
