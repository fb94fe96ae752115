//! Handmade hits, and the rows of a listing.

use super::listing::ListingColumns;
use super::*;
use crate::perfdata::{EventUnit, SampleCount};
use crate::profile::Frame;
use crate::query::staged::Staged;
use crate::session::MapId;
use crate::symbols::Symbolized;
use crate::symbols::code::Instruction;

fn sample(staged: &mut Staged, pid: i32, map: MapId, (name, start): (&str, u64), ip: u64, weight: u64) {
    let frame = staged.profile.frames.intern(Frame { map, caller: false, ip });
    let dso = staged.session.dsos.of_map(map).clone();
    let found = Symbolized { start, end: start + 0x50, name: name.into(), is_symbol: true };
    staged.profile.frames.set(frame, &dso, ip, Some(found));
    let stack = staged.profile.trie.child(NodeId::ROOT, frame);
    let site = staged.site_at(pid, stack);
    staged.profile.push(1, site, weight, 0, 0);
}

fn target(function: &str, dso: &str) -> AnnotatedFunction {
    AnnotatedFunction { function: function.into(), dso: dso.into() }
}

fn listing() -> Listing {
    let line = |n| Some(SourceLine { file: "a.c".into(), line: n });
    let one = |at, line, flow| Instruction { at, line, flow, ..Instruction::default() };
    Listing {
        start: 0x10,
        end: 0x18,
        instructions: vec![
            one(0x10, line(1), Flow::On),
            one(0x12, line(2), Flow::On),
            one(0x14, line(2), Flow::Jump(0x12)),
            one(0x16, line(1), Flow::Return),
        ],
        sources: vec![("a.c".into(), vec!["int f()".into(), "  loop".into()])],
        ..Listing::default()
    }
}

#[test]
fn samples_fall_on_instructions_and_sources_stand_between() {
    let acc = |n| Acc { samples: n, period: n };
    let hits = Hits {
        at: vec![(0x12, acc(3)), (0x13, acc(3)), (0x16, acc(4))],
        own: acc(10),
        total: acc(20),
        ..Hits::default()
    };
    let rows = rows(&listing(), &hits, true);
    let shown: Vec<String> = rows
        .iter()
        .map(|row| match row {
            ListingRow::Source { text, .. } => text.clone().unwrap_or_default(),
            ListingRow::Code { index, percent, .. } => format!("{index} {percent}"),
        })
        .collect();
    assert_eq!(shown, ["int f()", "0 0", "  loop", "1 60", "2 0", "int f()", "3 40"]);
    assert_eq!(hot(&rows), [3, 6]);
    assert_eq!((jump(&listing(), 2), jump(&listing(), 1), row_of(&rows, 3)), (Some(1), None, Some(6)));
    assert_eq!(super::rows(&listing(), &Hits::default(), false).len(), 4);
}

#[test]
fn lines_of_a_script_have_its_text_and_their_samples() {
    let line = |n| Some(SourceLine { file: "a.py".into(), line: n });
    let one = |at, line, text: &str| Instruction { at, line, text: text.into(), ..Instruction::default() };
    let instructions = [(0x10, None, "(line not known)"), (0x13, line(4), "def f():"), (0x15, line(5), "    g()")]
        .map(|(at, line, text)| one(at, line, text))
        .into_iter()
        .chain([one(0x17, line(6), "")])
        .collect();
    let whole = Listing {
        start: 0x10,
        end: 0x19,
        is_script: true,
        instructions,
        sources: vec![("a.py".into(), vec!["import g".into()])],
        ..Listing::default()
    };
    let acc = |n| Acc { samples: n, period: n };
    let hits = |at| Hits { at: vec![(at, acc(1)), (0x15, acc(3))], own: acc(4), total: acc(8), ..Hits::default() };
    let text = |listing: &Listing, hits: Hits| {
        let rows = rows(listing, &hits, true);
        let text = listing::text(listing, &hits, &rows, "clock", ListingColumns::default());
        text.lines().skip(2).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    let title = "Percent Samples Line Source";
    assert_eq!(text(&whole, hits(0x13)), [title, "25.00 1 4 def f():", "75.00 3 5 g()", "6"]);
    let expected = [title, "25.00 1 (line not known)", "4 def f():", "75.00 3 5 g()", "6"];
    assert_eq!(text(&whole, hits(0x11)), expected);
    // Without the text, only lines with samples.
    let bare = Listing { sources: vec![("a.py".into(), Vec::new())], ..whole };
    assert_eq!(text(&bare, hits(0x13)), [title, "25.00 1 4 def f():", "75.00 3 5 g()"]);
}

#[test]
fn periods_are_a_column_on_request() {
    let acc = Acc { samples: 3, period: 3_003_003 };
    let hits = Hits { at: vec![(0x12, acc)], own: acc, total: acc, ..Hits::default() };
    let rows = rows(&listing(), &hits, false);
    let text = |periods| listing::text(&listing(), &hits, &rows, "clock", ListingColumns { bytes: false, periods });
    let line = |periods, at: usize| text(periods).lines().nth(at).map(str::to_owned).unwrap_or_default();
    assert_eq!(line(false, 2), "Percent  Samples    Address  Instruction");
    assert_eq!(line(true, 2), "Percent  Samples           Period    Address  Instruction");
    assert_eq!(line(false, 4).trim_end(), " 100.00        3         12");
    assert_eq!(line(true, 4).trim_end(), " 100.00        3        3,003,003         12");
}

/// Listings had the stored sums of other tools' profiles.
#[test]
fn figures_are_those_of_the_event() {
    let acc = Acc { samples: 2, period: 30 };
    let listed = |count, unit| {
        let meaning = PeriodMeaning { count, unit, ..PeriodMeaning::default() };
        let hits = Hits { at: vec![(0x12, acc)], own: acc, total: acc, meaning };
        let columns = ListingColumns { bytes: false, periods: true };
        let text = listing::text(&listing(), &hits, &rows(&listing(), &hits, false), "e", columns);
        let words = |line: &str| line.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        [1, 2, 4].map(|line| words(text.lines().nth(line).unwrap_or_default()))
    };
    let sums = listed(SampleCount::PerPeriod(10), EventUnit::Count);
    assert_eq!(sums, ["e: 3 samples", "Percent Samples Period", "100.00 3 30"]);
    let fractions = listed(SampleCount::Unknown, EventUnit::Decimal(3));
    assert_eq!(fractions, ["e: 2 stacks", "Percent Stacks Period", "100.00 2 0.03"]);
}

#[test]
fn a_function_is_where_most_of_its_samples_are() {
    let mut staged = Staged::default();
    let map = MapId::UNKNOWN;
    for (name, first, second) in [("f", 5, 9), ("h", 9, 5)] {
        let at = if name == "f" { 0x1000 } else { 0x2000 };
        sample(&mut staged, 1, map, (name, at + 0x100), at + 0x105, first);
        sample(&mut staged, 1, map, (name, at + 0x200), at + 0x210, second);
    }
    sample(&mut staged, 1, MapId::KERNEL, ("f", 0x9000), 0x9001, 100);
    let fold = staged.fold();
    let find = |function, dso, fold| locate(staged.data(), &target(function, dso), fold);
    let (unknown, kernel) = (staged.session.dsos.of_map(map), staged.session.dsos.of_map(MapId::KERNEL));
    assert_eq!(find("f", &unknown.short, Some(&fold)), Some((unknown.id, 0x1200)));
    assert_eq!(find("h", &unknown.short, Some(&fold)), Some((unknown.id, 0x2100)));
    assert_eq!(find("f", &unknown.short, None), Some((unknown.id, 0x1100)));
    assert_eq!(find("f", &kernel.short, Some(&fold)), Some((kernel.id, 0x9000)));
    assert_eq!((find("g", "", Some(&fold)), find("f", "app", Some(&fold))), (None, None));
}

#[test]
fn hits_are_samples_of_the_function_itself() {
    let mut staged = Staged::default();
    let f = ("f", 0x100);
    sample(&mut staged, 1, MapId::UNKNOWN, f, 0x120, 3);
    sample(&mut staged, 2, MapId::UNKNOWN, f, 0x120, 4);
    sample(&mut staged, 1, MapId::UNKNOWN, f, 0x104, 6);
    sample(&mut staged, 1, MapId::KERNEL, f, 0x104, 20);
    sample(&mut staged, 1, MapId::UNKNOWN, ("g", 0x200), 0x204, 40);
    staged.sample(1, 1, &[], 80);
    let two = Acc { samples: 2, period: 7 };
    let own = Acc { samples: 3, period: 13 };
    let total = Acc { samples: 6, period: 153 };
    let of = |function: &str, dso: &str| hits(staged.data(), &staged.fold(), &target(function, dso));
    let want = Hits { at: vec![(0x104, Acc::one(6)), (0x120, two)], own, total, ..Hits::default() };
    assert_eq!(of("f", &staged.session.dsos.of_map(MapId::UNKNOWN).short), want);
    let any = Acc { samples: 2, period: 26 };
    assert_eq!(of("f", "").at, [(0x104, any), (0x120, two)]);
    assert_eq!(of("x", ""), Hits { total, ..Hits::default() });
}

#[test]
fn all_functions_come_hottest_first() {
    let mut staged = Staged::default();
    let map = MapId::UNKNOWN;
    sample(&mut staged, 1, map, ("f", 0x100), 0x120, 3);
    sample(&mut staged, 2, map, ("f", 0x100), 0x104, 6);
    sample(&mut staged, 1, map, ("f", 0x300), 0x310, 20);
    sample(&mut staged, 1, map, ("a", 0x200), 0x204, 9);
    staged.sample(1, 1, &[], 80);
    let list = functions(staged.data(), &staged.fold());
    let shown: Vec<_> = list.iter().map(|one| (&*one.function, one.start, one.hits.own.period)).collect();
    assert_eq!(
        shown,
        [("f", 0x300, 20), ("a", 0x200, 9), ("f", 0x100, 9)],
        "two with the same name; equal ones sorted by name"
    );
    assert_eq!(list[2].hits.at, [(0x104, Acc::one(6)), (0x120, Acc::one(3))]);
    assert_eq!((list[0].hits.total.samples, list[0].hits.total.period), (5, 118));
}

#[test]
fn hits_are_of_one_machine() {
    let mut staged = Staged::default();
    staged.session.name_hosts(["one", "two"].map(Into::into));
    staged.profile.frames.merge_by_name(true);
    let first = staged.session.kernel_map(0x100);
    let (second, _) = staged.session.hosts().iter().last().expect("two");
    staged.session.turn_to(second);
    let second = staged.session.kernel_map(0x100);
    sample(&mut staged, 1, second, ("f", 0x100), 0x120, 3);
    sample(&mut staged, 1, first, ("f", 0x300), 0x310, 4);
    let hits = hits(staged.data(), &staged.fold(), &target("f", ""));
    assert_eq!((hits.at, hits.own), (vec![(0x120, Acc::one(3))], Acc::one(3)));
}

#[test]
fn the_last_instruction_has_its_samples_whatever_the_end_is() {
    let hits = Hits {
        at: vec![(0x0f, Acc::one(1)), (0x16, Acc::one(4)), (0x30, Acc::one(8))],
        own: Acc::one(16),
        total: Acc::one(16),
        ..Hits::default()
    };
    for end in [0, 0x16, 0x17, 0x30] {
        let rows = rows(&Listing { end, ..listing() }, &hits, false);
        assert_eq!(rows.iter().map(ListingRow::percent).collect::<Vec<_>>(), [0.0, 0.0, 0.0, 25.0], "{end:#x}");
        assert_eq!((row_of(&rows, 3), row_of(&rows, 4)), (Some(3), None));
    }
}
