//! Tables of a few functions.

use proptest::prelude::*;

use super::*;

fn raw(start: u64, size: u64, name: &str, binding: Binding) -> Raw<'_> {
    Raw { start, size, name: name.as_bytes(), binding }
}

fn name(table: &SymbolTable, addr: u64) -> Option<&str> {
    table.find(addr).map(|s| std::str::from_utf8(s.name).expect("utf8"))
}

#[test]
fn order_of_arrival_does_not_matter() {
    let list =
        [raw(0x300, 0, "c", Binding::Global), raw(0x100, 0, "a", Binding::Global), raw(0x200, 0, "b", Binding::Global)];
    let mut builder = SymbolTableBuilder::default();
    list.into_iter().for_each(|s| builder.push(s));
    let table = builder.finish();
    assert_eq!((name(&table, 0x1ff), name(&table, 0x2ff), name(&table, 0x300)), (Some("a"), Some("b"), Some("c")));
}

#[test]
fn aliases_sizes_and_nesting() {
    use Binding::{Global, Local, Weak};
    let table = SymbolTable::build(vec![
        raw(0x100, 0x10, "__malloc", Global),
        raw(0x100, 0x10, "malloc", Global),
        raw(0x100, 0, "zero_sized_but_longer", Global),
        raw(0x200, 0x100, "outer", Local),
        raw(0x220, 0x10, "inner", Local),
        raw(0x400, 0, "asm_label", Local),
        raw(0x440, 0, "last", Weak),
        raw(0x440, 0, "local", Local),
    ]);
    assert_eq!(name(&table, 0x10f), Some("malloc"));
    assert_eq!(name(&table, 0x110), None);
    assert_eq!(name(&table, 0x225), Some("inner"));
    assert_eq!(name(&table, 0x250), Some("outer"));
    assert_eq!(name(&table, 0x43f), Some("asm_label"));
    assert_eq!(name(&table, 0x440), Some("local"));
    assert_eq!(name(&table, 0x1fff), Some("local"));
    assert_eq!(name(&table, 0x2000), None);
    assert_eq!(name(&table, 0), None);
    assert_eq!(SymbolTable::default().find(0), None);
}

/// Assembly code has labels within functions, which only have the size 0.
#[test]
fn a_function_includes_its_labels() {
    let labels = || (0..100).map(|i| raw(0x110 + 4 * i, 0, "label", Binding::Local));
    let table = SymbolTable::build(labels().chain([raw(0x100, 0x200, "function", Binding::Global)]));
    assert_eq!([0x10f, 0x110, 0x29c, 0x2ff].map(|at| name(&table, at)), [Some("function"); 4]);
    assert_eq!(table.find_label(0x29c).map(|label| label.name), Some(&b"label"[..]), "in the kernel");
    // Behind its end, and without a function, the label is the best name.
    assert_eq!(name(&table, 0x300), Some("label"));
    assert_eq!(name(&SymbolTable::build(labels()), 0x29d), Some("label"));
}

/// Pairs of symbols at one address: the first is the better one.
#[test]
fn which_of_two_names_it() {
    use Binding::{Global, Local, Weak};
    for (good, bad) in [
        (raw(1, 1, "x", Weak), raw(1, 0, "xxxx", Global)),
        (raw(1, 1, "__x", Local), raw(1, 1, "x", Weak)),
        (raw(1, 1, "__x", Global), raw(1, 1, "x", Local)),
        (raw(1, 1, "x", Global), raw(1, 1, "_xxx", Global)),
        (raw(1, 1, "_x", Global), raw(1, 1, "__x", Global)),
        (raw(1, 1, "xxx", Global), raw(1, 1, "xx", Global)),
        (raw(1, 1, "sys_x", Global), raw(1, 1, "SyS_x", Global)),
        (raw(1, 1, "compat_sys_x", Global), raw(1, 1, "compat_SyS_x", Global)),
    ] {
        assert_eq!((better(&good, &bad), better(&bad, &good)), (Ordering::Less, Ordering::Greater), "{good:?} {bad:?}");
        for list in [[good, bad], [bad, good]] {
            let table = SymbolTable::build(list);
            assert_eq!((table.len(), table.find(1).map(|s| s.name)), (1, Some(good.name)));
        }
    }
    let same = raw(1, 1, "x", Global);
    assert_eq!(better(&same, &same), Ordering::Equal);
}

#[test]
fn what_a_table_holds() {
    let table = SymbolTable::build((0..100).map(|i| raw(0x1000 + 16 * i, 8, "abc", Binding::Global)));
    assert_eq!((table.len(), table.is_empty(), table.iter().count()), (100, false, 100));
    // Twelve bytes each, and names of four.
    assert!((100 * 16..100 * 18).contains(&table.memory()), "{}", table.memory());
    assert!(SymbolTable::default().is_empty() && SymbolTable::default().memory() == 0);
    let one = table.iter().nth(7).expect("the eighth");
    assert_eq!((one.start, one.end, one.name), (0x1070, 0x1078, &b"abc"[..]));
}

#[test]
fn of_symbols_at_one_address_the_best_or_the_last() {
    use Binding::{Global, Local};
    let list =
        [(0x100, "first", Global), (0x100, "second_longer", Global), (0x100, "x", Local), (0x200, "end", Global)];
    let built = |mut builder: SymbolTableBuilder| {
        list.iter().for_each(|(start, name, binding)| builder.push(raw(*start, 0, name, *binding)));
        builder.finish()
    };
    let (best, last) = (built(SymbolTableBuilder::default()), built(SymbolTableBuilder::last_wins()));
    assert_eq!((name(&best, 0x100), name(&last, 0x100)), (Some("second_longer"), Some("x")));
    assert_eq!((best.len(), last.len()), (2, 2));
    let mut backwards = SymbolTableBuilder::default();
    [raw(0x300, 0, "c", Global), raw(0x100, 0, "a", Global)].into_iter().for_each(|s| backwards.push(s));
    let table = backwards.finish();
    assert_eq!((name(&table, 0x150), name(&table, 0x350)), (Some("a"), Some("c")));
}

#[test]
fn copied_names_are_paid_for_to_the_byte() {
    let list = [raw(1, 0, "ab", Binding::Local), raw(2, 0, "cde", Binding::Local)];
    let fits = |bytes| SymbolTable::charge_names(list.into_iter(), ".symtab", &mut UnpackBudget::new(bytes)).is_ok();
    assert_eq!((fits(6), fits(7)), (false, true));
}

/// A plain implementation: all symbols in a list, the chosen one at each address.
fn plain(list: &[(u64, u64, String)], last_wins: bool) -> Vec<(u64, u64, String)> {
    let mut sorted = list.to_vec();
    sorted.sort_by_key(|(start, ..)| *start);
    let chosen: Vec<(u64, u64, String)> = sorted
        .chunk_by(|a, b| a.0 == b.0)
        .filter_map(|same| {
            let raws = || same.iter().map(|(start, size, name)| raw(*start, *size, name, Binding::Global));
            let one = if last_wins { raws().next_back() } else { raws().min_by(better) };
            one.map(|raw| (raw.start, raw.size, String::from_utf8_lossy(raw.name).into_owned()))
        })
        .collect();
    let next = |i: usize| chosen.get(i + 1).map(|next: &(u64, u64, String)| next.0);
    let end = |i: usize, start: u64, size: u64| match (size, next(i)) {
        (0, Some(next)) => next,
        (0, None) => (start | 0xfff).saturating_add(0x1001),
        (size, _) => start.saturating_add(size.min(u32::MAX.into())),
    };
    chosen.iter().enumerate().map(|(i, (start, size, name))| (*start, end(i, *start, *size), name.clone())).collect()
}

fn all(table: &SymbolTable) -> Vec<(u64, u64, String)> {
    table.iter().map(|s| (s.start, s.end, String::from_utf8_lossy(s.name).into_owned())).collect()
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn however_they_come_the_table_is_that_of_a_plain_list(
        list in proptest::collection::vec(
            (
                prop_oneof![0..40u64, (1 << 33)..(1u64 << 33) + 9, u64::MAX - 5..=u64::MAX],
                prop_oneof![Just(0), 0..20u64, Just(1 << 40)],
                "[a-c_]{1,3}",
            ),
            0..60,
        ),
        without_sizes in any::<bool>(),
    ) {
        let size = |size: u64| if without_sizes { 0 } else { size };
        let list: Vec<(u64, u64, String)> = list.into_iter().map(|(start, s, name)| (start, size(s), name)).collect();
        let raws = || list.iter().map(|(start, size, name)| raw(*start, *size, name, Binding::Global));
        let built = |mut builder: SymbolTableBuilder| {
            raws().for_each(|raw| builder.push(raw));
            builder.finish()
        };
        prop_assert_eq!(all(&built(SymbolTableBuilder::last_wins())), plain(&list, true));
        prop_assert_eq!(all(&built(SymbolTableBuilder::default())), plain(&list, false));
        let table = SymbolTable::build(raws());
        prop_assert_eq!(all(&table), plain(&list, false));
        let known = plain(&list, false);
        let is_sized = |start: u64| list.iter().any(|(at, size, _)| *at == start && *size > 0);
        for one in known.iter().filter(|(start, end, _)| start < end) {
            let start = one.0;
            let inside = table.find(start).map(|s| (s.start, s.end, String::from_utf8_lossy(s.name).into_owned()));
            // Itself, if it has a size.
            let mut sized = known.iter().rev().filter(|(at, ..)| *at <= start && is_sized(*at)).take(NESTING);
            prop_assert_eq!(inside.as_ref(), Some(sized.find(|(_, end, _)| start < *end).unwrap_or(one)));
        }
    }
}

/// A name may begin where other names end, as in a damaged file.
#[test]
fn what_has_no_name_names_nothing() {
    let table = SymbolTable::build(vec![
        raw(0x100, 0x40, "outer", Binding::Local),
        raw(0x110, 0x10, "", Binding::Global),
        raw(0x200, 0x10, "", Binding::Global),
        raw(0x200, 0, "named", Binding::Local),
    ]);
    assert_eq!((name(&table, 0x118), name(&table, 0x200)), (Some("outer"), Some("named")));
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn addresses_of_one_function_are_found_alike(
        symbols in proptest::collection::vec((0u64..60, 0u64..30, 0usize..3), 0..12), addr in 0u64..100,
    ) {
        let names = ["a", "b", ""];
        let table = SymbolTable::build(symbols.iter().map(|(at, size, name)| raw(*at, *size, names[*name], Binding::Local)));
        if let Some(range) = table.same(addr) {
            let (first, all) = (table.find(addr), range.clone().map(|at| table.find(at)));
            prop_assert!(range.contains(&addr) && first.is_some());
            prop_assert!(all.into_iter().all(|found| found == first), "{range:?}");
        }
        if let Some(range) = table.gap(addr) {
            let mut all = (range.start..range.end.min(200)).map(|at| table.find(at));
            prop_assert!(range.contains(&addr) && all.all(|found| found.is_none()), "{range:?}");
        }
    }
}
