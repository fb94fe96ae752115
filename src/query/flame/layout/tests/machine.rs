//! A whole machine's graph: programs, modules, and frames that share a row.

use super::*;

/// A machine with two large programs and 300 small ones. One of the large programs has many processes.
fn busy() -> (Staged, Aggregate) {
    let mut staged = Staged::default();
    let mut pid = 0;
    let mut sample = |comm: &str, stack: &[&str], weight: u64| {
        pid += 1;
        staged.comm(pid, pid, true, comm);
        staged.sample(1, pid, stack, weight);
    };
    for _ in 0..14 {
        sample("rustc", &["main", "check"], 20);
    }
    sample("gzip", &["main", "deflate"], 120);
    for n in 0..300 {
        sample(&format!("small-{n}"), &["start", ["exec", "exit", "fault"][n % 3]], 1);
    }
    let fold = staged.fold();
    (staged, fold)
}

fn seen(staged: &Staged, fold: &Aggregate, spec: &FlameSpec) -> Flame {
    let mut flame = layout(&FlameTree::build(staged.data(), fold, None, &spec.edits), spec);
    flame.count_processes(&crate::query::rows::task_choices::processes(staged.data(), fold));
    flame
}

fn row(flame: &Flame, row: i32) -> Vec<(&str, u64, usize)> {
    flame.blocks.iter().filter(|b| b.row == row).map(|b| (&*b.name, b.total.new.period, b.processes)).collect()
}

#[test]
fn many_small_programs_are_drawn_as_one() {
    let (staged, fold) = busy();
    let spec = FlameSpec { height: 20, by_weight: false, ..spec(FlameDirection::Roots) };
    let all = seen(&staged, &fold, &spec);
    assert!(all.drawn > 99.0, "{}", all.drawn);
    assert_eq!(row(&all, 0), [("rustc", 280, 14), ("gzip", 120, 1), ("small-0 +299", 300, 0)], "the heaviest first");
    let of_small: Vec<_> = row(&all, 2).into_iter().skip(2).collect();
    assert_eq!(of_small, [("exec", 100, 0), ("exit", 100, 0), ("fault", 100, 0)], "their common frames");
    // A zoom into it shows the programs themselves.
    let zoomed = seen(&staged, &fold, &FlameSpec { zoom: vec![SMALL.into()], ..spec.clone() });
    assert_eq!((zoomed.zoom.len(), zoomed.zoomed.new.period), (1, 300));
    assert_eq!(row(&zoomed, 1), [("small-0 +299", 300, 0)], "all have the same weight, so none is wide enough");
    let wide = seen(&staged, &fold, &FlameSpec { zoom: vec![SMALL.into()], width: 900, ..spec.clone() });
    assert_eq!(row(&wide, 1).len(), 300);
    // Separate processes, and all tasks together.
    let apart = seen(&staged, &fold, &FlameSpec { edits: vec![Edit::Processes], width: 160, ..spec.clone() });
    assert_eq!(row(&apart, 0)[..2], [("gzip 15", 120, 0), ("rustc 1", 20, 0)]);
    let together = seen(&staged, &fold, &FlameSpec { edits: vec![Edit::AllTasks], ..spec });
    assert_eq!((row(&together, 0), row(&together, 1).len()), (vec![("all tasks", 700, 0)], 2));
}

#[test]
fn narrow_functions_are_drawn_as_their_module() {
    let mut staged = Staged::default();
    for n in 0..300 {
        staged.sample(1, 1, &["main", &format!("libllvm.so:pass-{n}"), "libllvm.so:walk"], 1);
        staged.sample(1, 1, &["main", &format!("kernel:fault-{n}")], 1);
        staged.sample(1, 1, &["main", &format!("lib-{n}:call")], 1);
    }
    staged.sample(1, 1, &["main", "work"], 900);
    let fold = staged.fold();
    let flame = seen(&staged, &fold, &spec(FlameDirection::Roots));
    let of = |row| flame.blocks.iter().filter(move |b| b.row == row).map(|b| (&*b.name, b.is_module(), b.class));
    let want = [
        ("work", false, Class::User),
        ("kernel: 300 functions", true, Class::Kernel),
        ("libllvm.so: 300 functions", true, Class::Library),
        ("300 others", false, Class::Unknown),
    ];
    assert_eq!(of(2).collect::<Vec<_>>(), want);
    assert_eq!(of(3).collect::<Vec<_>>(), [("walk", false, Class::Library)]);
    // All but the 300 of as many modules; up to the function, the work and the walk.
    assert!((flame.drawn - 100.0 * 1500.0 / 1800.0).abs() < 1e-9, "{}", flame.drawn);
    assert!((flame.named - 100.0 * 1200.0 / 1800.0).abs() < 1e-9, "{}", flame.named);
}

#[test]
fn frames_with_one_way_on_share_a_row() {
    let stacks: Vec<&str> = ["abcdx"; 60].into_iter().chain(["abcdy"; 38]).chain(["abz"; 2]).collect();
    let of = |frames_per_row| {
        layout(&tree(&stacks, &[]), &FlameSpec { frames_per_row, width: 20, ..spec(FlameDirection::Roots) })
    };
    let (folded, whole) = (of(9), of(1));
    let text = |flame: &Flame| {
        let one = |b: &FlameBlock| {
            let chain = b.chain.iter().map(|name| &**name).collect::<String>();
            format!("{}{chain}{} {}", b.row, b.name, b.total.new.samples)
        };
        flame.blocks.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(text(&folded), "0t 100, 1abcd 98, 2x 60, 2y 38");
    assert_eq!(text(&whole), "0t 100, 1a 100, 2b 100, 3c 98, 31 other 2, 4d 98, 5x 60, 5y 38");
    assert_eq!(text(&of(2)), "0t 100, 1ab 100, 2cd 98, 21 other 2, 3x 60, 3y 38");
    assert_eq!((folded.depth, whole.depth, folded.rows, whole.rows), (6, 6, 3, 6));
    for flame in [&folded, &whole] {
        assert!((flame.drawn - 100.0).abs() < 1e-9 && (flame.named - 98.0).abs() < 1e-9, "{flame:?}");
    }
    let id = |flame: &Flame, name: &str| flame.blocks.iter().find(|b| &*b.name == name).map(|b| b.id);
    for name in ["d", "x", "y"] {
        assert_eq!(id(&folded, name), id(&whole, name), "{name}");
    }
    // A search finds frames in shared rows, and at most half a cell is skipped.
    let found = layout(
        &tree(&stacks, &[]),
        &FlameSpec { find: Some("^b$".into()), frames_per_row: 9, width: 20, ..spec(FlameDirection::Roots) },
    );
    assert_eq!(found.blocks.iter().map(|b| b.found).collect::<Vec<_>>(), [false, true, false, false]);
    let wide = layout(&tree(&stacks, &[]), &FlameSpec { frames_per_row: 9, width: 80, ..spec(FlameDirection::Roots) });
    assert_eq!(text(&wide), "0t 100, 1ab 100, 2cd 98, 2z 2, 3x 60, 3y 38");
}

#[test]
fn a_zoom_passes_through_shared_rows() {
    let stacks: Vec<&str> = ["abcdx"; 60].into_iter().chain(["abcdy"; 38]).chain(["abz"; 2]).collect();
    let of = |zoom: &[&str]| {
        let zoom = zoom.iter().map(|name| (*name).into()).collect();
        layout(&tree(&stacks, &[]), &FlameSpec { zoom, frames_per_row: 9, width: 20, ..spec(FlameDirection::Roots) })
    };
    let zoomed = of(&["t", "a", "b", "c", "d"]);
    assert_eq!((zoomed.zoom.len(), zoomed.zoomed.new.samples, zoomed.depth), (5, 98, 6));
    assert_eq!(shape(&zoomed)[5..], named(&[(5, "x", 60), (5, "y", 38)]));
}

#[test]
fn threads_are_their_programs() {
    let mut staged = Staged::default();
    for (tid, name) in [(7, "rustc"), (8, "opt cgu.0"), (9, "lto cgu.1")] {
        staged.comm(7, tid, tid == 7, name);
        let (task, stack) = (staged.session.task(7, tid), staged.stack(&["run"]));
        let site = staged.profile.sites.intern(crate::profile::Site { task, stack, trace: Default::default() });
        staged.profile.push(1, site, 10, 0, 0);
    }
    let fold = staged.fold();
    assert_eq!(row(&seen(&staged, &fold, &spec(FlameDirection::Roots)), 0), [("rustc", 30, 1)]);
}
