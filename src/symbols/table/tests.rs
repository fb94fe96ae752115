//! Tables of a few functions.

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
    let mut builder = Builder::default();
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
            let table = SymbolTable::build(list.to_vec());
            assert_eq!((table.len(), table.find(1).map(|s| s.name)), (1, Some(good.name)));
        }
    }
    let same = raw(1, 1, "x", Global);
    assert_eq!(better(&same, &same), Ordering::Equal);
}

#[test]
fn what_a_table_holds() {
    let table = SymbolTable::build((0..100).map(|i| raw(0x1000 + 16 * i, 8, "abc", Binding::Global)).collect());
    assert_eq!((table.len(), table.is_empty(), table.iter().count()), (100, false, 100));
    // Twenty bytes each, and names of four.
    assert!((100 * 24..100 * 50).contains(&table.memory()), "{}", table.memory());
    assert!(SymbolTable::default().is_empty() && SymbolTable::default().memory() == 0);
    let one = table.iter().nth(7).expect("the eighth");
    assert_eq!((one.start, one.end, one.name), (0x1070, 0x1078, &b"abc"[..]));
}

#[test]
fn of_symbols_at_one_address_the_best_or_the_last() {
    use Binding::{Global, Local};
    let list =
        [(0x100, "first", Global), (0x100, "second_longer", Global), (0x100, "x", Local), (0x200, "end", Global)];
    let built = |mut builder: Builder| {
        list.iter().for_each(|(start, name, binding)| builder.push(raw(*start, 0, name, *binding)));
        builder.finish()
    };
    let (best, last) = (built(Builder::default()), built(Builder::last_wins()));
    assert_eq!((name(&best, 0x100), name(&last, 0x100)), (Some("second_longer"), Some("x")));
    assert_eq!((best.len(), last.len()), (2, 2));
    let mut backwards = Builder::default();
    [raw(0x300, 0, "c", Global), raw(0x100, 0, "a", Global)].into_iter().for_each(|s| backwards.push(s));
    let table = backwards.finish();
    assert_eq!((name(&table, 0x150), name(&table, 0x350)), (Some("a"), Some("c")));
}

#[test]
fn copied_names_are_paid_for_to_the_byte() {
    let list = [raw(1, 0, "ab", Binding::Local), raw(2, 0, "cde", Binding::Local)];
    let fits = |bytes| SymbolTable::charge_names(&list, ".symtab", &mut Purse::new(bytes)).is_ok();
    assert_eq!((fits(6), fits(7)), (false, true));
}
