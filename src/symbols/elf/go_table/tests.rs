//! Handmade tables of three layouts: a real program's has a megabyte.

use super::*;
use crate::symbols::elf;
use crate::symbols::elf::program::ElfProgram;
use crate::symbols::trust::find_file::tests::{SPIN, map};

const TEXT: u64 = 0x40_1000;

/// Functions relative to the text: `main.main` at 0, `main.hot` from 0x40 to 0x90. The second has lines.
fn table(layout: Layout, text: u64) -> Vec<u8> {
    let names = b"main.main\0main.hot\0";
    let files = b"/src/hot.go\0";
    let magic: u32 = match layout {
        Layout::Go12 => 0xffff_fffb,
        Layout::Go116 => 0xffff_fffa,
        Layout::Go118 => 0xffff_fff0,
    };
    // Values begin at -1: file 0 for 0x50 bytes; line 7 for 0x10, then 9 for 0x40.
    let values: &[u8] = &[2, 0x50, 0, 16, 0x10, 4, 0x40, 0];
    let mut head = magic.to_le_bytes().to_vec();
    head.extend([0, 0, 1, 8]);
    let word = |out: &mut Vec<u8>, n: u64| out.extend(n.to_le_bytes());
    let half = |out: &mut Vec<u8>, n: u64| out.extend((n as u32).to_le_bytes());
    let listed: fn(&mut Vec<u8>, u64) = if layout == Layout::Go118 {
        |out, n| out.extend((n as u32).to_le_bytes())
    } else {
        |out, n| out.extend(n.to_le_bytes())
    };
    let fields = match layout {
        Layout::Go12 => 1,
        Layout::Go116 => 7,
        Layout::Go118 => 8,
    };
    let mut at = 8 + 8 * fields as u64;
    let mut places = Vec::new();
    for len in [names.len(), 4, files.len(), values.len()] {
        places.push(at);
        at += len.next_multiple_of(8) as u64;
    }
    let list = if layout == Layout::Go12 { 16 } else { at };
    word(&mut head, 2);
    match layout {
        Layout::Go12 => {}
        _ => {
            word(&mut head, 1);
            if layout == Layout::Go118 {
                word(&mut head, text);
            }
            [places[0], places[1], places[2], places[3], list].iter().for_each(|place| word(&mut head, *place));
        }
    }
    let base = if layout == Layout::Go118 { 0 } else { TEXT };
    let size = if layout == Layout::Go118 { 4 } else { 8 };
    let described = |i: u64| 5 * size + i * 64 + if layout == Layout::Go12 { 16 } else { 0 };
    let mut functions = Vec::new();
    for (i, start) in [0, 0x40].into_iter().enumerate() {
        listed(&mut functions, base + start);
        listed(&mut functions, described(i as u64));
    }
    listed(&mut functions, base + 0x90);
    let name_base = if layout == Layout::Go12 { 16 + 5 * 8 + 128 } else { 0 };
    for (start, name) in [(0, 0), (0x40, 10)] {
        let before = functions.len();
        listed(&mut functions, base + start);
        half(&mut functions, name_base + name);
        // Arguments, deferreturn, pcsp; pcfile, pcln; no tables; the unit.
        [0, 0, 0, 0, 3, 0, 0].iter().for_each(|n| half(&mut functions, *n));
        functions.resize(before + 64, 0);
    }
    if layout == Layout::Go12 {
        return [head, functions, names.to_vec(), vec![0; 64]].concat();
    }
    let mut out = head;
    for part in [&names[..], &[0; 4], files, values] {
        out.extend(part);
        out.resize(out.len().next_multiple_of(8), 0);
    }
    [out, functions, vec![0; 64]].concat()
}

fn read(layout: Layout, text: u64, damage: impl FnOnce(&mut Vec<u8>)) -> (Bytes, Option<GoTable>) {
    let mut file = map(SPIN).to_vec();
    let at = file.len().next_multiple_of(ALIGN);
    file.resize(at, 0);
    let mut table = table(layout, text);
    damage(&mut table);
    file.extend(table);
    let bytes = Bytes::from(file);
    let parsed = elf::parse(&bytes).expect("a program");
    let found = GoTable::at(&parsed, &bytes, at, Some(TEXT));
    (bytes.clone(), found)
}

#[test]
fn functions_and_lines_of_each_layout() {
    for (layout, text) in [(Layout::Go12, 0), (Layout::Go116, 0), (Layout::Go118, TEXT), (Layout::Go118, 0)] {
        let (bytes, table) = read(layout, text, |_| {});
        let table = table.expect("a table");
        let segments = ElfProgram::of(&bytes).expect("a program").places();
        let symbols = table.symbols(&segments, &mut UnpackBudget::new(1 << 20)).expect("room");
        let offset = segments.to_offset(TEXT).expect("code");
        let of = |at: u64| symbols.find(offset + at).map(|s| (s.start - offset, s.end - offset, s.name));
        let (main, hot) = (Some((0, 0x40, &b"main.main"[..])), Some((0x40, 0x90, &b"main.hot"[..])));
        assert_eq!([0, 0x3f, 0x40, 0x8f, 0x90].map(of), [main, main, hot, hot, None], "{layout:?}");
        let place = |at: u64| table.place(TEXT + at);
        let name = |at: u64| place(at).map(|place| place.function);
        assert_eq!([0, 0x41, 0x90].map(name), [Some(&b"main.main"[..]), Some(b"main.hot"), None], "{layout:?}");
        let line = |at: u64| place(at).and_then(|place| place.line);
        let told = layout != Layout::Go12;
        let want = |line: u32| told.then_some((&b"/src/hot.go"[..], line));
        assert_eq!([0x40, 0x4f, 0x50, 0x8f].map(line), [7, 7, 9, 9].map(want), "{layout:?}");
    }
}

#[test]
fn damaged_tables_harm_nobody() {
    for layout in [Layout::Go12, Layout::Go116, Layout::Go118] {
        let len = table(layout, TEXT).len();
        for at in 0..len {
            for value in [0, 1, 0x7f, 0xff] {
                let (bytes, Some(table)) = read(layout, TEXT, |bytes| bytes[at] = value) else { continue };
                let segments = ElfProgram::of(&bytes).expect("a program").places();
                let _ = table.symbols(&segments, &mut UnpackBudget::new(1 << 20)).map(|symbols| symbols.len());
                let _ = [0, 0x40, 0x8f, 0x90, u64::MAX / 2].map(|at| table.place(TEXT.wrapping_add(at)).is_some());
            }
        }
        let (_, cut) = read(layout, TEXT, |bytes| bytes.truncate(40));
        assert!(cut.is_none(), "{layout:?}");
    }
}

#[test]
fn a_program_of_another_language_has_none() {
    let bytes = map(SPIN);
    assert!(GoTable::of(&elf::parse(&bytes).expect("a program"), &bytes).is_none());
}
