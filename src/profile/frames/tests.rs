//! Tests of names that arrive, change and are removed.

use super::sym::UNNAMED_CODE;
use super::*;
use crate::profile::marks::Marks;
use crate::record::interpreted::Language;
use crate::session::{Origin, Session};

fn frame(ip: u64) -> Frame {
    Frame { map: MapId::UNKNOWN, caller: false, ip }
}

fn found(start: u64, name: &str) -> Option<Symbolized> {
    Some(Symbolized { start, end: start + 16, name: name.into(), is_symbol: true })
}

fn ids(list: impl IntoIterator<Item = FrameId>) -> Vec<u32> {
    list.into_iter().map(|frame| frame.0).collect()
}

struct Stage {
    session: Session,
    frames: Frames,
    app: Dso,
    lib: Dso,
}

fn stage() -> Stage {
    let mut session = Session::new(Origin::Recorded);
    let mut frames = Frames::default();
    let app = session.dsos.named("/bin/app", DsoKind::File);
    let lib = session.dsos.named("/lib/lib.so", DsoKind::File);
    for ip in [0x10, 0x20, 0x30] {
        frames.intern(frame(ip));
    }
    Stage { session, frames, app, lib }
}

impl Stage {
    fn names(&self) -> Vec<String> {
        self.frames.syms().iter().map(|sym| self.frames.sym(SymId(*sym)).name().into_owned()).collect()
    }
}

#[test]
fn code_of_a_jit_without_names_is_one_row() {
    let mut s = stage();
    let jit = s.session.dsos.named("/tmp/perf-7.map", DsoKind::Anon);
    s.frames.wanted(&s.session.dsos);
    for (frame, ip) in [(0, 0x10), (1, 0x20)] {
        s.frames.set(FrameId(frame), &jit, ip, None);
    }
    let data = crate::symbols::objects::data_address(0x30);
    s.frames.set(FrameId(2), &jit, data, None);
    assert_eq!(s.names()[..2], [UNNAMED_CODE; 2]);
    assert_eq!(s.frames.sym_of(FrameId(0)), s.frames.sym_of(FrameId(1)));
    assert!(s.names()[2].starts_with("0x") && s.names()[2] != UNNAMED_CODE, "variables keep their addresses");
    // Its map came later.
    s.frames.set(FrameId(1), &jit, 0x20, found(0x20, "loop"));
    assert_eq!(s.names()[..2], [UNNAMED_CODE, "loop"]);
}

/// A hot function has many addresses; that of a stripped file has bounds only.
#[test]
fn addresses_of_a_known_function_need_no_lookup() {
    for is_symbol in [true, false] {
        know_addresses_of(found(0x8, "main").map(|function| Symbolized { is_symbol, ..function }));
    }
}

fn know_addresses_of(function: Option<Symbolized>) {
    let mut s = stage();
    s.frames.wanted(&s.session.dsos);
    s.frames.set(FrameId(0), &s.app, 0x10, function);
    s.frames.know_same(&s.session.dsos, FrameId(0), 0x8..0x18);
    for ip in [0x12, 0x17, 0x18, 0x7] {
        s.frames.intern(frame(ip));
    }
    assert_eq!(ids(s.frames.wanted(&s.session.dsos)), [5, 6]);
    assert_eq!(s.names()[3..5], ["main", "main"]);
    // With names of another form, or from another file, results differ.
    s.frames.rename();
    s.frames.intern(frame(0x13));
    assert!(ids(s.frames.wanted(&s.session.dsos)).contains(&7));
    s.frames.of_dso(|_| true);
    s.frames.know_same(&s.session.dsos, FrameId(0), 0x8..0x18);
    s.frames.intern(frame(0x14));
    assert_eq!(ids(s.frames.wanted(&s.session.dsos)), [8]);
}

#[test]
fn a_name_is_sought_once_and_then_known_or_not() {
    let mut s = stage();
    assert_eq!(ids(s.frames.wanted(&s.session.dsos)), [0, 1, 2]);
    assert_eq!(ids(s.frames.wanted(&s.session.dsos)), [0u32; 0]);
    assert_eq!(s.names(), ["[unknown] …"; 3]);
    assert_eq!(s.frames.n_syms(), 1, "what is sought in a file is one row");
    let before = s.frames.names();
    s.frames.set(FrameId(0), &s.app, 0x10, found(0x8, "main"));
    s.frames.set(FrameId(1), &s.app, 0x20, None);
    assert_eq!(s.names(), ["main", "0x0000000000000020", "[unknown] …"]);
    assert_eq!(s.frames.names(), before + 2);
    s.frames.set(FrameId(0), &s.app, 0x10, found(0x8, "main"));
    assert_eq!(s.frames.names(), before + 2, "an unchanged name is not a change");
    s.frames.intern(frame(0x40));
    assert_eq!(ids(s.frames.wanted(&s.session.dsos)), [3]);
    let sym = s.frames.sym(s.frames.sym_of(FrameId(0)));
    assert_eq!((sym.start, &*sym.dso_name, sym.state, &*sym.shared_name()), (0x8, "app", SymState::Known, "main"));
    assert_eq!((s.frames.len(), Frames::default().len()), (4, 0));
    assert_eq!(s.frames.maps().count(), 4);
}

#[test]
fn functions_of_one_name_are_two_where_they_begin_elsewhere() {
    let mut s = stage();
    s.frames.set(FrameId(0), &s.app, 0x10, found(0x8, "f"));
    s.frames.set(FrameId(1), &s.app, 0x20, found(0x18, "f"));
    s.frames.set(FrameId(2), &s.lib, 0x30, found(0x8, "f"));
    assert_eq!((s.frames.n_syms(), s.frames.n_dso_labels()), (3, 2));
    let mut s = stage();
    s.frames.merge_by_name(true);
    s.frames.set(FrameId(0), &s.app, 0x10, found(0x8, "f"));
    s.frames.set(FrameId(1), &s.app, 0x20, found(0x18, "f"));
    s.frames.set(FrameId(2), &s.lib, 0x30, found(0x8, "f"));
    assert_eq!(s.frames.n_syms(), 2);
    assert_eq!(s.frames.sym_of(FrameId(0)), s.frames.sym_of(FrameId(1)));
}

#[test]
fn symbols_are_ordered_by_file_name_and_start() {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let mut s = stage();
    let mut sym = |dso: &Dso, at: u64, name: Option<&str>| {
        let frame = s.frames.intern(frame(0x1000 + at));
        if s.frames.syms()[frame.0 as usize] == u32::MAX {
            s.frames.set_unknown(frame, dso, at);
        }
        match name {
            Some(name) => s.frames.set(frame, dso, at, found(at, name)),
            None => s.frames.set(frame, dso, at, None),
        }
        s.frames.sym(s.frames.sym_of(frame)).clone()
    };
    let (app, lib) = (s.app.clone(), s.lib.clone());
    let (a, b) = (sym(&app, 0x100, Some("alpha")), sym(&app, 0x80, Some("beta")));
    let (other, again) = (sym(&lib, 0x10, Some("alpha")), sym(&app, 0x200, Some("alpha")));
    let (low, high) = (sym(&app, 0x5, None), sym(&app, 0x6, None));
    assert_eq!((a.compare(&b), b.compare(&a), a.compare(&a)), (Less, Greater, Equal));
    assert_eq!((a.compare(&other), b.compare(&other)), (Less, Less), "the file goes first");
    assert_eq!((a.compare(&again), again.compare(&a)), (Less, Greater));
    assert_eq!((low.compare(&high), high.compare(&low), low.compare(&a)), (Less, Greater, Less));
    // A pending symbol is named after its file.
    let sought = Sym { state: SymState::Sought, ..high.clone() };
    assert_eq!((&*sought.name(), sought.compare(&low), sought.compare(&a)), ("app …", Greater, Greater));
}

#[test]
fn names_of_texts_are_not_sought() {
    let mut s = stage();
    s.frames.set_named(FrameId(0), &s.app, "one".into());
    assert_eq!(ids(s.frames.unnamed()), [1, 2]);
    assert_eq!(ids(s.frames.unnamed()), [0u32; 0]);
    let mut s = stage();
    s.frames.set_unknown(FrameId(2), &s.app, 0x77);
    assert_eq!(ids(s.frames.wanted(&s.session.dsos)), [0u32; 0], "those before it are given by others");
    assert_eq!(s.frames.sym(s.frames.sym_of(FrameId(2))).name(), "0x0000000000000077");
    let number = s.frames.intern_named(5);
    assert_eq!((s.frames.get(number).ip, s.frames.get(number).map), (5, MapId::UNKNOWN));
}

#[test]
fn lines_are_asked_for_once() {
    let mut s = stage();
    s.frames.set_named(FrameId(0), &s.app, "one".into());
    s.frames.set_named(FrameId(2), &s.app, "two".into());
    let two = s.frames.sym_of(FrameId(2));
    assert_eq!(ids(s.frames.lineless(0..2, |sym| sym == two)), [0u32; 0]);
    assert_eq!(ids(s.frames.lineless(all(&s), |sym| sym == two)), [2]);
    assert_eq!(ids(s.frames.lineless(all(&s), |_| true)), [0], "one has no name yet");
    assert_eq!(ids(s.frames.lineless(all(&s), |_| true)), [0u32; 0]);
    assert_eq!(ids(s.frames.of_dso(|map| map == MapId::UNKNOWN)), [0, 1, 2]);
    assert_eq!(ids(s.frames.lineless(all(&s), |_| true)), [0, 2]);
    s.frames.forget_asked_lines();
    assert_eq!(ids(s.frames.lineless(all(&s), |_| true)), [0, 2]);
    assert_eq!(ids(s.frames.of_dso(|map| map != MapId::UNKNOWN)), [0u32; 0]);
    s.frames.rename();
    assert_eq!(ids(s.frames.lineless(all(&s), |_| true)), [0, 2]);
}

fn all(s: &Stage) -> std::ops::Range<u32> {
    0..s.frames.len() as u32
}

fn told(s: &Stage) -> u64 {
    s.frames.inlines() + s.frames.names()
}

fn place(function: &str, number: u32) -> InlinedFrame {
    InlinedFrame { function: Some(function.into()), line: Some(SourceLine { file: "a.c".into(), line: number }) }
}

#[test]
fn inlined_functions_stand_outermost_first() {
    let mut s = stage();
    s.frames.set_named(FrameId(1), &s.app, "outer".into());
    assert!(s.frames.inlined(1).is_empty() && s.frames.line(FrameId(1)).is_none());
    let before = told(&s);
    let places = [place("inner", 3), place("middle", 2), place("outer", 1)];
    s.frames.set_places(FrameId(1), &s.app, &places);
    let names = |s: &Stage| -> Vec<String> {
        s.frames.inlined(1).iter().map(|sym| s.frames.sym(SymId(*sym)).name().into_owned()).collect()
    };
    assert_eq!(names(&s), ["middle (inlined)", "inner (inlined)"]);
    assert_eq!(s.frames.line(FrameId(1)).map(|line| line.line), Some(3));
    assert_eq!(told(&s), before + 1);
    s.frames.set_places(FrameId(1), &s.app, &places);
    s.frames.set_places(FrameId(0), &s.app, &[place("alone", 9)]);
    s.frames.set_places(FrameId(2), &s.app, &[]);
    assert_eq!((told(&s), s.frames.line(FrameId(0)).map(|line| line.line)), (before + 1, Some(9)));
    assert!(s.frames.inlined(0).is_empty());
    s.frames.show_inlined(true);
    assert_eq!(told(&s), before + 1, "they are shown already");
    s.frames.show_inlined(false);
    assert_eq!((names(&s).len(), told(&s)), (0, before + 2));
    s.frames.show_inlined(false);
    assert_eq!(told(&s), before + 2);
    s.frames.show_inlined(true);
    assert_eq!((names(&s).len(), told(&s)), (2, before + 3));
}

#[test]
fn what_is_kept_keeps_its_names() {
    let mut s = stage();
    s.frames.set(FrameId(0), &s.app, 0x10, found(0x8, "gone"));
    s.frames.set(FrameId(1), &s.app, 0x20, found(0x18, "kept"));
    s.frames.set_places(FrameId(1), &s.app, &[place("inner", 3), place("kept", 1)]);
    s.frames.lineless(all(&s), |_| true);
    s.frames.show_inlined(false);
    let before = s.frames.names();
    let mut marks = Marks::none(s.frames.len());
    [1, 2].into_iter().for_each(|frame| marks.mark(frame));
    s.frames.keep(&marks.count());
    let (kept, unnamed) = (FrameId(0), FrameId(1));
    assert_eq!((s.frames.len(), s.frames.n_syms(), s.frames.names()), (2, 2, before + 1));
    assert_eq!(s.frames.sym(s.frames.sym_of(kept)).name(), "kept");
    assert_eq!(s.frames.line(kept).map(|line| line.line), Some(3));
    assert!(s.frames.inlined(kept.0).is_empty(), "they stay hidden");
    s.frames.show_inlined(true);
    let inner = s.frames.inlined(kept.0)[0];
    assert_eq!(s.frames.sym(SymId(inner)).name(), "inner (inlined)");
    assert_eq!(ids(s.frames.lineless(all(&s), |_| true)), [0u32; 0], "its line was requested before");
    assert_eq!(ids(s.frames.wanted(&s.session.dsos)), [unnamed.0]);
    // The same function has the same symbol as before, and labels stay.
    s.frames.set(unnamed, &s.app, 0x20, found(0x18, "kept"));
    assert_eq!(s.frames.sym_of(unnamed), s.frames.sym_of(kept));
}

#[test]
fn all_names_are_sought_again_when_they_are_to_be_shown_otherwise() {
    let mut s = stage();
    let map = s.session.dsos.of_map(MapId::KERNEL).clone();
    let own = s.frames.intern(Frame { map: MapId::KERNEL, caller: true, ip: 0x50 });
    s.frames.wanted(&s.session.dsos);
    s.frames.set(own, &map, 0x4f, found(0x40, "k"));
    s.frames.set(FrameId(0), &s.app, 0x10, found(0x8, "a"));
    let before = told(&s);
    s.frames.rename();
    assert_eq!(told(&s), before + 1);
    // Frames without a known file keep theirs; pending ones stay pending.
    assert_eq!(ids(s.frames.wanted(&s.session.dsos)), [1, 2, own.0]);
    assert_eq!(s.frames.sym(s.frames.sym_of(own)).name(), "k");
    assert_eq!(ids(s.frames.wanted(&s.session.dsos)), [0u32; 0]);
    assert_eq!(s.frames.get(own).place(&s.session.dsos).1, 0x4f, "a caller is named by its call");
}

#[test]
fn unknown_return_addresses_are_those_of_calls_or_the_sampled_ones() {
    let mut s = stage();
    let kernel = s.session.dsos.of_map(MapId::KERNEL).clone();
    let leaf = s.frames.intern(Frame { map: MapId::KERNEL, caller: false, ip: 0x50 });
    let caller = s.frames.intern(Frame { map: MapId::KERNEL, caller: true, ip: 0x60 });
    let shown = |s: &mut Stage| {
        s.frames.wanted(&s.session.dsos);
        s.frames.set(leaf, &kernel, 0x50, None);
        s.frames.set(caller, &kernel, 0x5f, None);
        [leaf, caller].map(|frame| s.frames.sym(s.frames.sym_of(frame)).name().into_owned())
    };
    assert_eq!(shown(&mut s), ["0x0000000000000050", "0x000000000000005f"]);
    s.frames.show_unknown_as_sampled(true);
    assert_eq!(shown(&mut s), ["0x0000000000000050", "0x0000000000000060"]);
}

#[test]
fn nameless_symbols_are_in_the_order_of_what_is_shown() {
    let mut s = stage();
    s.frames.wanted(&s.session.dsos);
    s.frames.set(FrameId(1), &s.session.dsos.of_map(MapId::UNKNOWN).clone(), 0x90, None);
    let sym = |frame| s.frames.sym(s.frames.sym_of(FrameId(frame)));
    let (sought, unknown) = (sym(0), sym(1));
    assert_eq!((sought.name(), unknown.name()), ("[unknown] …".into(), "0x0000000000000090".into()));
    assert!(sought.compare(unknown).is_gt() && sought.compare(sym(2)).is_eq());
}

#[test]
fn an_interpreted_function_has_a_file() {
    let file = |name: &str, kind| {
        let sym = Sym {
            dso: DsoId(0),
            kind,
            dso_name: "[x]".into(),
            function: Some(name.into()),
            start: 0,
            size: 0,
            state: SymState::Known,
            dso_label: 0,
        };
        sym.file_of_interpreted().map(str::to_owned)
    };
    let python = DsoKind::Interpreted(Language::Python);
    assert_eq!(file("hot_compute (svc.py)", python).as_deref(), Some("svc.py"));
    assert_eq!(file("<anonymous> (shop.js:12)", python).as_deref(), Some("shop.js:12"));
    assert_eq!(file("main::__ANON__ ((eval))", python).as_deref(), Some("(eval)"));
    assert_eq!(
        [file("usort", python), file("(name not read)", python), file("f (int)", DsoKind::File)],
        [None, None, None]
    );
}
