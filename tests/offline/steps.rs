//! Steps that change the view are undone and redone by the same keys on every screen.

use crate::common::harness::{Harness, without_message};

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
            assert!(undone.text().contains("undone: "), "{way} {step} {undo} says nothing");
            assert_eq!(without_message(&undone.text(), &before), before, "{way} {step} {undo}");
        }
        let again =
            incident().keys(way).keys(step).keys("u<ctrl-r>").keys(if way.starts_with('2') { "" } else { "<home>" });
        let once = incident().keys(way).keys(step).keys(if way.starts_with('2') { "" } else { "<home>" });
        assert_eq!(without_message(&again.text(), &once.text()), once.text(), "{way} {step} done again");
    }
}

/// Switching screens and pages is not a step: undo reverts the last change, and names it.
#[test]
fn looking_is_no_step() {
    let zoomed = incident().keys("d");
    let narrowed = zoomed.app.selection.zooms.clone();
    assert_eq!(narrowed.len(), 1);
    for look in ["3<tab><tab><tab>", "3%+-V<right>", "3v<esc>", "4<tab>", "5", "2", "6", "T", "3<tab>1"] {
        let looked = incident().keys("d").keys(look);
        let tab = looked.app.frame.tab;
        let undone = looked.keys("u");
        assert!(undone.app.selection.zooms.is_empty(), "{look}: {}", undone.text());
        assert!(undone.text().contains("undone: [kernel.kallsyms]"), "{look}: {}", undone.text());
        assert_eq!(undone.app.frame.tab, tab, "{look} leads elsewhere");
        assert!(undone.keys("u").text().contains("there is nothing to undo"), "{look}");
    }
}

#[test]
fn steps_are_undone_one_by_one_wherever_one_is() {
    let first = incident();
    let start = first.text();
    let h = first.keys("dfburn<bs><bs><bs><bs>kernel<ret>2er1");
    let told = h.keys("uuu");
    assert_eq!(without_message(&told.text(), &start), start);
    let none = told.keys("u");
    assert!(none.text().contains("there is nothing to undo"));
    // A change on another screen is named.
    let h = incident().keys("2er1u");
    assert!(h.text().contains("undone: flame graph"), "{}", h.text());
}

/// Undo after an accidental z restores all samples.
#[test]
fn counting_from_now_on_is_a_step_like_others() {
    let live = incident().metered();
    let before = (live.text(), live.app.context.answer.view.total.samples);
    let reset = live.keys("z");
    assert_eq!(reset.app.context.answer.view.total.samples, 0);
    assert!(reset.text().contains("since 00:"), "{}", reset.text());
    assert!(!reset.saved.iter().any(|effect| effect == "Clear"), "{:?}", reset.saved);
    let back = reset.keys("u");
    let text = without_message(&back.text(), &before.0);
    assert_eq!((text, back.app.context.answer.view.total.samples), before);
    // A recording has no new samples.
    assert!(incident().keys("z").text().contains("there are no new samples"));
}

#[test]
fn esc_closes_then_goes_back_a_step_of_zoom() {
    let zoomed = incident().keys("d");
    let narrowed = zoomed.text();
    let searched = zoomed.keys("/timer<ret><home>");
    assert_ne!(searched.text(), narrowed);
    let closed = searched.keys("<esc>");
    assert_eq!(closed.text(), narrowed, "Esc did not close the search first");
    let out = closed.keys("<esc>");
    assert_eq!(out.app.selection.zooms.len(), 0);
    assert_eq!(out.keys("u").app.selection.zooms.len(), 1, "leaving a zoom is not a step");
    let flame = incident().keys("2<right><down><ret>");
    assert!(!flame.app.views.flame.place.zoom.is_empty());
    let flame = flame.keys("er<esc>");
    assert!(flame.app.views.flame.place.zoom.is_empty() && flame.app.views.flame.place.edits.len() == 1);
    assert!(incident().keys("<esc>").text().contains("no zoom to leave"));
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
    assert_eq!(row.keys("<left>").app.selection.zooms.len(), 0);
}

/// A key that filters by a field first splits rows by it, and then filters by the row's value.
#[test]
fn what_a_row_is_not_of_is_told_apart_first() {
    for (key, words, label) in [("t", "by thread", "tid"), ("p", "by process", "pid"), ("c", "by comm", "comm")] {
        let split = incident().keys(key);
        assert!(split.app.selection.zooms.is_empty(), "{key}");
        assert!(split.text().contains(&format!("a row is a function {words} now")), "{key}: {}", split.text());
        let kept = split.keys(key);
        let zoom = &kept.app.selection.zooms[..];
        assert!(zoom.len() == 1 && format!("{zoom:?}").contains(label), "{key}: {zoom:?}");
        let back = kept.keys("uu");
        assert!(back.app.selection.zooms.is_empty() && back.text().contains("Symbol"), "{key}");
    }
    // A field without values does not become a column.
    assert!(incident().keys("@").text().contains("this row has no known host"));
}

/// Keys that zoom into a row have no effect if no row of the table is visible.
#[test]
fn rows_are_not_zoomed_into_unseen() {
    for way in ["3", "4", "5", "6"] {
        let h = incident().keys(way).keys("c");
        assert_eq!(
            (h.app.selection.zooms.len(), h.text().contains("this works on the table only")),
            (0, true),
            "{way}"
        );
    }
}
