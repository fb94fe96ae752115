//! Steps that change the view are undone and redone by the same keys on every screen.

use crate::common::harness::{Harness, messages};
use perfprof_tui::query::ColumnKey;
use perfprof_tui::ui::Level;

fn incident() -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", 120, 30)
}

/// One key undoes any step on any screen.
#[test]
fn every_step_is_undone_and_redone() {
    let steps = [
        ("", "d"),
        ("", "x"),
        ("", "fcomm == burn<ret>"),
        ("", "C<down>n<up> <esc>"),
        ("", "X"),
        ("", ">"),
        ("", "R"),
        ("", "i"),
        ("", "a"),
        ("", "b"),
        ("", "<tab>"),
        ("", "~"),
        ("", "%"),
        ("", ":range 1,2<ret>"),
        ("", ":sort comm<ret>"),
        ("2<right><down>", "<ret>"),
        ("2", "R"),
        ("2", "er"),
        ("2", "eu"),
        ("2", "x"),
        ("3", "b"),
        ("3<right>V<right>", "<ret>"),
        ("4<right>", "s"),
    ];
    for (way, step) in steps {
        for undo in ["u", "<bs>"] {
            let at = incident().keys(way);
            let before = at.text();
            let done = at.keys(step);
            let after = done.text();
            assert_ne!(before, after, "{way} {step} has no effect");
            let undone = done.keys(undo);
            assert_eq!(undone.level(), Some(Level::Info), "{way} {step} {undo} says nothing");
            assert_eq!(undone.quiet().text(), before, "{way} {step} {undo}");
        }
        let again =
            incident().keys(way).keys(step).keys("u<ctrl-r>").keys(if way.starts_with('2') { "" } else { "<home>" });
        let once = incident().keys(way).keys(step).keys(if way.starts_with('2') { "" } else { "<home>" });
        assert_eq!(again.quiet().text(), once.quiet().text(), "{way} {step} done again");
    }
}

/// Undo names the step, and keys that cannot act say why.
#[test]
fn messages_name_the_step() {
    let typed =
        ["du", "d3u", "du<ctrl-r>", "2er1u", "du2eru", "duu", "fuser<ret>u", "t", "p", "c", "z", "<esc>", "@", "4c"];
    insta::assert_snapshot!("messages", messages(incident, &typed));
}

/// Switching screens and pages is not a step: undo reverts the last change, and names it.
#[test]
fn looking_is_no_step() {
    let zoomed = incident().keys("d");
    let narrowed = zoomed.app.model.selection.zooms.clone();
    assert_eq!(narrowed.len(), 1);
    for look in ["3<tab><tab><tab>", "3%+-V<right>", "3v<esc>", "4<tab>", "5", "2", "6", "T", "3<tab>1"] {
        let looked = incident().keys("d").keys(look);
        let tab = looked.app.model.frame.tab;
        let undone = looked.keys("u");
        assert!(undone.app.model.selection.zooms.is_empty(), "{look}: {}", undone.text());
        assert_eq!(undone.level(), Some(Level::Info), "{look}: {}", undone.text());
        assert_eq!(undone.app.model.frame.tab, tab, "{look} leads elsewhere");
        let undone = undone.quiet();
        let start = undone.text();
        assert_eq!(undone.keys("u").quiet().text(), start, "{look} was a step");
    }
}

#[test]
fn steps_are_undone_one_by_one_wherever_one_is() {
    let first = incident();
    let start = first.text();
    let h = first.keys("dfburn<bs><bs><bs><bs>kernel<ret>2er1");
    let told = h.keys("uuu");
    let told = told.quiet();
    assert_eq!(told.text(), start);
    assert_eq!(told.keys("u").quiet().text(), start, "there was one more step");
}

/// Undo after an accidental z restores all samples.
#[test]
fn counting_from_now_on_is_a_step_like_others() {
    let live = incident().metered();
    let before = (live.text(), live.app.model.context.answer.view.total.samples);
    let reset = live.keys("z");
    assert_eq!(reset.app.model.context.answer.view.total.samples, 0);
    insta::assert_snapshot!("counted-from-now-on", reset.text().lines().take(3).collect::<Vec<_>>().join("\n"));
    assert!(!reset.saved.iter().any(|effect| effect == "Clear"), "{:?}", reset.saved);
    let back = reset.keys("u");
    let back = back.quiet();
    assert_eq!((back.text(), back.app.model.context.answer.view.total.samples), before);
    // A recording has no new samples.
    assert_eq!(incident().keys("z").level(), Some(Level::Info));
}

#[test]
fn esc_closes_then_goes_back_a_step_of_zoom() {
    let zoomed = incident().keys("d");
    let narrowed = zoomed.text();
    let searched = zoomed.keys("/timer<ret>");
    assert_ne!(searched.text(), narrowed);
    let closed = searched.keys("<esc><home>");
    assert_eq!(closed.text(), narrowed, "Esc did not close the search first");
    let out = closed.keys("<esc>");
    assert_eq!(out.app.model.selection.zooms.len(), 0);
    assert_eq!(out.keys("u").app.model.selection.zooms.len(), 1, "leaving a zoom is not a step");
    let flame = incident().keys("2<right><down><ret>");
    assert!(!flame.app.views.flame.place.zoom.is_empty());
    let flame = flame.keys("er<esc>");
    assert!(flame.app.views.flame.place.zoom.is_empty() && flame.app.views.flame.place.edits.len() == 1);
    assert_eq!(incident().keys("<esc>").quiet().text(), incident().text());
}

#[test]
fn left_folds_before_it_leaves() {
    let zoomed = incident().keys("d");
    let folded = zoomed.text();
    let open = zoomed.keys("<ret>");
    assert_ne!(open.text(), folded);
    // Left folds an entry of the chain, then goes to its row and folds it, and only then leaves the zoom.
    let inside = open.keys("<down>");
    let row = inside.keys("<left><left><left>");
    assert_eq!(row.text(), folded);
    assert_eq!(row.keys("<left>").app.model.selection.zooms.len(), 0);
}

/// A key that filters by a field first splits rows by it, and then filters by the row's value.
#[test]
fn what_a_row_is_not_of_is_told_apart_first() {
    for (key, column, label) in
        [("t", ColumnKey::Tid, "tid"), ("p", ColumnKey::Pid, "pid"), ("c", ColumnKey::Comm, "comm")]
    {
        let split = incident().keys(key);
        assert!(split.app.model.selection.zooms.is_empty(), "{key}");
        let columns = |h: &Harness| h.app.model.context.answer.question.top.keys.clone();
        assert!(columns(&split).contains(&column) && !columns(&incident()).contains(&column), "{key}");
        let kept = split.keys(key);
        let zoom = &kept.app.model.selection.zooms[..];
        assert!(zoom.len() == 1 && format!("{zoom:?}").contains(label), "{key}: {zoom:?}");
        assert_eq!(kept.keys("uu").quiet().text(), incident().text(), "{key}");
    }
    // A field without values does not become a column.
    let none = incident().keys("@");
    assert_eq!((none.level(), none.quiet().text()), (Some(Level::Info), incident().text()));
}

/// Keys that zoom into a row have no effect if no row of the table is visible.
#[test]
fn rows_are_not_zoomed_into_unseen() {
    for way in ["3", "4", "5", "6"] {
        let h = incident().keys(way).keys("c");
        assert_eq!((h.app.model.selection.zooms.len(), h.level()), (0, Some(Level::Info)), "{way}");
    }
}
