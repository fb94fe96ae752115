//! Handmade programs with tables of each layout: a real program's has a megabyte.

use super::*;
use crate::symbols::elf;
use crate::symbols::elf::program::ElfProgram;
use crate::symbols::trust::find_file::tests::{SPIN, map};

const TEXT: u64 = 0x40_1000;
/// Where the table is: offset in the file, and linked address.
const TABLE: (usize, u64) = (0x2000, 0x60_2000);
/// Offsets from the start of the table.
const TREES: u64 = 0x800;
const MODULE: u64 = 0x900;
const ENTRY: &[u8] = b"_rt0_amd64";
const HOT: &[u8] = b"main.hot";
const TINY: &[u8] = b"main.tiny";

/// Functions relative to the text: the entry at 0, `main.hot` from 0x40 to 0x90. The second has lines, and from 0x10 to
/// 0x30 a call that is inlined.
fn table(layout: Layout, text: u64) -> Vec<u8> {
    let names = [ENTRY, &[0], HOT, &[0], TINY, &[0]].concat();
    let files = b"/src/hot.go\0";
    let magic: u32 = match layout {
        Layout::Go12 => 0xffff_fffb,
        Layout::Go116 => 0xffff_fffa,
        Layout::Go118 => 0xffff_fff0,
        Layout::Go120 => 0xffff_fff1,
    };
    // Values begin at -1: file 0 for 0x50 bytes; line 7 for 0x10, then 9 for 0x40; call 0 from 0x10 to 0x30; 8 bytes on
    // the stack from 4 to 0x44.
    let values: &[u8] = &[2, 0x50, 0, 16, 0x10, 4, 0x40, 0, 0, 0x10, 2, 0x20, 1, 0x20, 0, 2, 4, 16, 0x40, 15, 0x0c, 0];
    let mut head = magic.to_le_bytes().to_vec();
    head.extend([0, 0, 1, 8]);
    let word = |out: &mut Vec<u8>, n: u64| out.extend(n.to_le_bytes());
    let half = |out: &mut Vec<u8>, n: u64| out.extend((n as u32).to_le_bytes());
    let listed: fn(&mut Vec<u8>, u64) = if layout.is_relative() {
        |out, n| out.extend((n as u32).to_le_bytes())
    } else {
        |out, n| out.extend(n.to_le_bytes())
    };
    let fields = match layout {
        Layout::Go12 => 1,
        Layout::Go116 => 7,
        Layout::Go118 | Layout::Go120 => 8,
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
            if layout.is_relative() {
                word(&mut head, text);
            }
            [places[0], places[1], places[2], places[3], list].iter().for_each(|place| word(&mut head, *place));
        }
    }
    let base = if layout.is_relative() { 0 } else { TEXT };
    let size = if layout.is_relative() { 4 } else { 8 };
    let described = |i: u64| 5 * size + i * 128 + if layout == Layout::Go12 { 16 } else { 0 };
    let mut functions = Vec::new();
    for (i, start) in [0, 0x40].into_iter().enumerate() {
        listed(&mut functions, base + start);
        listed(&mut functions, described(i as u64));
    }
    listed(&mut functions, base + 0x90);
    let name_base = if layout == Layout::Go12 { 16 + 5 * 8 + 256 } else { 0 };
    for (start, name, tables) in [(0, 0, 0), (0x40, ENTRY.len() as u64 + 1, 3)] {
        let before = functions.len();
        listed(&mut functions, base + start);
        half(&mut functions, name_base + name);
        // Arguments, deferreturn, pcsp; pcfile, pcln; tables of values; the unit, the first line.
        [0, 0, 5 * tables, 0, 3, tables, 0].iter().for_each(|n| half(&mut functions, *n));
        if layout == Layout::Go120 {
            half(&mut functions, 5);
        }
        functions.extend([0, 0, 0, 4]);
        [0, 0, 8].iter().take(tables as usize).for_each(|n| half(&mut functions, *n));
        // The tree is the last of four data.
        if layout == Layout::Go116 {
            functions.resize(functions.len().next_multiple_of(8), 0);
            [0, 0, 0, TABLE.1 + TREES].iter().for_each(|n| word(&mut functions, *n));
        } else {
            [!0, !0, !0, 0].iter().for_each(|n| half(&mut functions, *n));
        }
        functions.resize(before + 128, 0);
    }
    if layout == Layout::Go12 {
        return [head, functions, names, vec![0; 64]].concat();
    }
    let mut out = head;
    for part in [&names[..], &[0; 4], files, values] {
        out.extend(part);
        out.resize(out.len().next_multiple_of(8), 0);
    }
    [out, functions, vec![0; 64]].concat()
}

/// The runtime's description of a program whose table has its names at this address.
fn module(text: u64, names: u64, trees: usize, has_end: bool) -> Vec<u8> {
    let mut words = [0u64; 48];
    (words[0], words[1], words[22]) = (TABLE.1, names, text);
    words[trees] = TABLE.1 + TREES;
    let mut texts = trees + 1;
    if has_end {
        words[texts] = TABLE.1 + 0x700;
        texts += 1;
    }
    words[texts..texts + 3].copy_from_slice(&[TABLE.1, 1, 1]);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A program without sections: code, and data with a table, trees and perhaps a description.
fn with(layout: Layout, table: &[u8], module: &[u8]) -> Bytes {
    let mut file = vec![0; TABLE.0];
    let head = map(SPIN);
    file[..0x40].copy_from_slice(&head[..0x40]);
    file[0x18..0x20].copy_from_slice(&TEXT.to_le_bytes());
    file[0x20..0x30].fill(0);
    file[0x20] = 0x40;
    file[0x38..0x40].copy_from_slice(&[2, 0, 64, 0, 0, 0, 0, 0]);
    for (i, (flags, offset, address)) in [(5u32, 0x1000u64, TEXT), (6, TABLE.0 as u64, TABLE.1)].into_iter().enumerate()
    {
        let mut header = [1u32.to_le_bytes(), flags.to_le_bytes()].concat();
        [offset, address, address, 0x1000, 0x1000, 0x1000].iter().for_each(|n| header.extend(n.to_le_bytes()));
        file[0x40 + 56 * i..][..56].copy_from_slice(&header);
    }
    let mut data = table.to_vec();
    data.resize(TREES as usize, 0);
    let tiny = (ENTRY.len() + HOT.len() + 2) as u32;
    let call: [u32; 5] = if layout == Layout::Go120 { [0, tiny, 8, 3, 0] } else { [0, 0, 7, tiny, 8] };
    data.extend(call.iter().flat_map(|n| n.to_le_bytes()));
    data.resize(MODULE as usize, 0);
    data.extend(module);
    data.resize(0x1000, 0);
    file.extend(data);
    file.into()
}

/// The address of the names of a table.
fn names(layout: Layout) -> u64 {
    TABLE.1 + if layout == Layout::Go116 { 64 } else { 72 }
}

fn of(bytes: &Bytes) -> Option<GoTable> {
    GoTable::of(&elf::parse(bytes).expect("a program"), bytes)
}

#[test]
fn functions_and_lines_of_each_layout() {
    for (layout, text) in [(Layout::Go12, 0), (Layout::Go116, 0), (Layout::Go118, TEXT), (Layout::Go120, 0)] {
        let bytes = with(layout, &table(layout, text), &[]);
        // Without the runtime's description, the entry of the program tells where the text begins.
        let table = of(&bytes).expect("a table");
        let segments = ElfProgram::of(&bytes).expect("a program").places();
        let symbols = table.symbols(&segments, &mut UnpackBudget::new(1 << 20)).expect("room");
        let offset = segments.to_offset(TEXT).expect("code");
        let of = |at: u64| symbols.find(offset + at).map(|s| (s.start - offset, s.end - offset, s.name));
        let (main, hot) = (Some((0, 0x40, ENTRY)), Some((0x40, 0x90, HOT)));
        assert_eq!([0, 0x3f, 0x40, 0x8f, 0x90].map(of), [main, main, hot, hot, None], "{layout:?}");
        let place = |at: u64| table.place(TEXT + at);
        let name = |at: u64| place(at).map(|place| place.function);
        assert_eq!([0, 0x41, 0x90].map(name), [Some(ENTRY), Some(HOT), None], "{layout:?}");
        let line = |at: u64| place(at).and_then(|place| place.line);
        let told = layout != Layout::Go12;
        let want = |line: u32| told.then_some((&b"/src/hot.go"[..], line));
        assert_eq!([0x40, 0x4f, 0x50, 0x8f].map(line), [7, 7, 9, 9].map(want), "{layout:?}");
    }
}

#[test]
fn inlined_functions_of_each_version() {
    let versions = [
        (Layout::Go116, 0, false),
        (Layout::Go118, 38, false),
        (Layout::Go120, 40, false),
        (Layout::Go120, 40, true),
        (Layout::Go120, 43, true),
    ];
    for (layout, trees, has_end) in versions {
        let module = if trees == 0 { Vec::new() } else { module(TEXT, names(layout), trees, has_end) };
        let bytes = with(layout, &table(layout, 0), &module);
        let table = of(&bytes).expect("a table");
        let places = |at: u64| -> Vec<(&[u8], Option<u32>)> {
            table.places(TEXT + at).iter().map(|place| (place.function, place.line.map(|(_, line)| line))).collect()
        };
        // The line of the caller is that of the call.
        assert_eq!(places(0x50), [(TINY, Some(9)), (HOT, Some(7))], "{layout:?} {trees}");
        assert_eq!(places(0x6f), places(0x50), "{layout:?} {trees}");
        assert_eq!([0x4f, 0x70].map(places), [[(HOT, Some(7))], [(HOT, Some(9))]], "{layout:?} {trees}");
        assert_eq!((places(0).len(), places(0x90).len()), (1, 0));
    }
}

/// A C linker puts its own code before the text of Go, and the table does not say where that begins.
#[test]
fn text_behind_other_code_is_known_from_the_runtime_or_not_at_all() {
    let layout = Layout::Go120;
    let text = TEXT + 0x100;
    let bytes = with(layout, &table(layout, 0), &module(text, names(layout), 40, true));
    let found = of(&bytes).expect("a table");
    let name = |at: u64| found.place(at).map(|place| place.function);
    assert_eq!([TEXT + 0x41, text + 0x41].map(name), [None, Some(HOT)]);
    let mut bytes = with(layout, &table(layout, 0), &[]).to_vec();
    bytes[0x18..0x20].copy_from_slice(&(TEXT + 0x48).to_le_bytes());
    assert!(of(&bytes.into()).is_none());
}

/// The parts of a function, from where on each of them applies.
type Parts = Vec<(u64, GoFrame)>;

#[test]
fn code_without_a_frame_is_known() {
    use GoFrame::{First, OnTop, Pointed};
    for layout in [Layout::Go116, Layout::Go118, Layout::Go120] {
        let of_flags = |flags: u8| {
            let mut table = table(layout, TEXT);
            // The second description is the last but for its end.
            let kinds = table.len() - 64 - 128 + if layout == Layout::Go120 { 40 } else { 36 };
            table[kinds + 1] = flags;
            let found = of(&with(layout, &table, &[])).expect("a table");
            let mut all: Vec<(u64, u64, Parts)> = Vec::new();
            found.each_function(|start, end, parts| {
                all.push((start - TEXT, end - TEXT, parts.iter().map(|(at, frame)| (at - TEXT, *frame)).collect()));
            });
            all
        };
        let is_known = layout.is_relative();
        let want = |parts: &[(u64, GoFrame)]| {
            let all = vec![(0, 0x40, vec![(0, Pointed)]), (0x40, 0x90, parts.to_vec())];
            if is_known { all } else { Vec::new() }
        };
        let parts = [(0x40, OnTop), (0x44, Pointed), (0x84, OnTop), (0x90, Pointed)];
        assert_eq!(of_flags(4), want(&parts), "{layout:?}");
        // The first function of a stack, and one that leaves its stack.
        assert_eq!(of_flags(1), want(&[(0x40, First)]), "{layout:?}");
        assert_eq!(of_flags(2), want(&[(0x40, Pointed)]), "{layout:?}");
    }
}

/// Puts a longer name over those of the second and the inlined function.
fn renamed(layout: Layout, name: &[u8]) -> Bytes {
    let mut table = table(layout, TEXT);
    let at = (names(layout) - TABLE.1) as usize + ENTRY.len() + 1;
    table[at..][..name.len()].copy_from_slice(name);
    table[at + name.len()] = 0;
    with(layout, &table, &[])
}

#[test]
fn signal_handlers_return_to_a_function_with_the_registers() {
    for layout in [Layout::Go118, Layout::Go120] {
        let bytes = renamed(layout, SIGNAL_RETURN);
        let found = of(&bytes).expect("a table");
        let mut all: Vec<(u64, u64, Parts)> = Vec::new();
        found.each_function(|start, end, parts| {
            all.push((start - TEXT, end - TEXT, parts.iter().map(|(at, frame)| (at - TEXT, *frame)).collect()));
        });
        let want = [(0, 0x3f, vec![(0, GoFrame::Pointed)]), (0x3f, 0x90, vec![(0x3f, GoFrame::Signal)])];
        assert_eq!(all, want, "{layout:?}");
        // Its return address is its start, so its caller is looked up one byte before.
        let segments = ElfProgram::of(&bytes).expect("a program").places();
        let symbols = found.symbols(&segments, &mut UnpackBudget::new(1 << 20)).expect("room");
        let offset = segments.to_offset(TEXT).expect("code");
        let name = |at: u64| symbols.find(offset + at).map(|symbol| symbol.name);
        assert_eq!([0x3e, 0x3f, 0x40].map(name), [Some(ENTRY), Some(SIGNAL_RETURN), Some(SIGNAL_RETURN)], "{layout:?}");
        let place = |at: u64| found.place(TEXT + at).map(|place| place.function);
        assert_eq!([0x3e, 0x3f, 0x40].map(place), [Some(ENTRY), Some(SIGNAL_RETURN), Some(SIGNAL_RETURN)]);
    }
}

#[test]
fn damaged_tables_harm_nobody() {
    for layout in [Layout::Go12, Layout::Go116, Layout::Go118, Layout::Go120] {
        let module = module(TEXT, names(layout), if layout == Layout::Go118 { 38 } else { 40 }, false);
        let len = table(layout, TEXT).len();
        for at in 0..len {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = table(layout, TEXT);
                damaged[at] = value;
                let bytes = with(layout, &damaged, &module);
                let Some(table) = of(&bytes) else { continue };
                let segments = ElfProgram::of(&bytes).expect("a program").places();
                let _ = table.symbols(&segments, &mut UnpackBudget::new(1 << 20)).map(|symbols| symbols.len());
                let _ = [0, 0x40, 0x50, 0x8f, 0x90, u64::MAX / 2].map(|at| table.places(TEXT.wrapping_add(at)).len());
                table.each_function(|_, _, parts| assert!(!parts.is_empty()));
                let _ = table.functions_range();
            }
        }
        assert!(of(&with(layout, &table(layout, TEXT)[..40], &module)).is_none(), "{layout:?}");
    }
}

#[test]
fn calls_that_are_inlined_into_themselves_end() {
    let layout = Layout::Go120;
    let mut bytes = with(layout, &table(layout, 0), &module(TEXT, names(layout), 40, false)).to_vec();
    let call = TABLE.0 + TREES as usize + 8;
    bytes[call..call + 4].copy_from_slice(&0x10u32.to_le_bytes());
    let table = of(&bytes.into()).expect("a table");
    assert_eq!(table.places(TEXT + 0x50).len(), MAX_DEPTH + 1);
}

#[test]
fn a_program_of_another_language_has_none() {
    let bytes = map(SPIN);
    assert!(GoTable::of(&elf::parse(&bytes).expect("a program"), &bytes).is_none());
}
