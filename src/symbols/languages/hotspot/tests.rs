//! A virtual machine in made memory, and ones with any memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::cpython::tests::Pieces;
use super::*;
use crate::symbols::languages::code_names::FunctionPlace;

const BLOB: u64 = 0x7000_0100;
const COMPILATION: u32 = 77;

#[derive(Default)]
struct Made(BTreeMap<u64, Vec<u8>>);

impl Made {
    /// Adds a piece of memory with these numbers of so many bytes at these offsets.
    fn put(&mut self, at: u64, len: usize, numbers: &[(u64, usize, u64)]) {
        let mut bytes = vec![0; len];
        for (offset, size, number) in numbers {
            bytes[*offset as usize..][..*size].copy_from_slice(&number.to_le_bytes()[..*size]);
        }
        self.0.insert(at, bytes);
    }

    fn symbol(&mut self, at: u64, text: &str) {
        let mut bytes = vec![0; 4];
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len() + 8, 0);
        self.0.insert(at, bytes);
    }

    /// Adds a method of a class: at `at` the method, and behind it all that leads to its names.
    fn method(&mut self, at: u64, layout: &JavaLayout, class: &str, name: &str) {
        let (constant, pool, klass) = (at + 0x1000, at + 0x2000, at + 0x3000);
        let l = &layout.constant;
        self.put(at, 88, &[(layout.blob.constant.into(), 8, constant)]);
        let lines = l.lines.expect("known");
        // Ten bytes of code: line 5 from its start on, 7 from index 4 on.
        let table_at = lines.constant_size + 10;
        let table = (table_at, 3, u64::from_le_bytes([5, 4 << 3 | 2, 0, 0, 0, 0, 0, 0]));
        let sizes = [(lines.flags, 2, 1), (lines.code_size, 2, 10)];
        self.put(constant, 256, &[&[(l.constants, 8, pool), (l.name, 2, 3), table], &sizes[..]].concat());
        let name_at = l.pool_size + 8 * 3;
        let names = [(name_at, 8, at + 0x4000), (lines.source, 2, 4), (name_at + 8, 8, at + 0x6000)];
        self.put(pool, 200, &[&[(l.pool_holder, 8, klass), (l.pool_length, 4, 9)], &names[..]].concat());
        self.symbol(at + 0x6000, "Cart.java");
        self.put(klass, 512, &[(l.class_constants, 8, pool), (l.class_name, 8, at + 0x5000)]);
        self.symbol(at + 0x4000, name);
        self.symbol(at + 0x5000, class);
    }
}

const SPIN: u64 = 0x10_0000;
const OUTER: u64 = 0x20_0000;

/// Compiled code of `outer`, into which `spin` is inlined between 0x10 and 0x20.
fn compiled(layout: &JavaLayout) -> Made {
    let mut made = Made::default();
    made.method(SPIN, layout, "shop/Cart$$Lambda+0x00ff", "spin");
    made.method(OUTER, layout, "shop/Cart", "outer");
    // Numbers as versions with and without zeros write them.
    let unused = u8::from(layout.major > 18);
    let scopes: Vec<u8> = [9, 0, 2, 5, 1, 1, 4].iter().map(|digit| digit + unused).collect();
    let positions: Vec<u8> = [(-1, 0), (0x10, 4), (0x20, 1), (0x7fff_ffff, 0)]
        .iter()
        .flat_map(|(at, scope): &(i32, i32)| [*at, *scope, 0, 0].map(i32::to_le_bytes).concat())
        .collect();
    let methods = [SPIN, OUTER].map(u64::to_le_bytes).concat();
    made.0.insert(0x30_0000, [&b"nmethod"[..], &[0; 64]].concat());
    let (code_at, is_offset) = layout.blob.code;
    let code = if is_offset { (code_at.into(), 4, 0x180) } else { (code_at.into(), 8, BLOB + 0x180) };
    let compilation = (layout.blob.compilation.into(), 4, COMPILATION.into());
    let head = [(layout.blob_name, 8, 0x30_0000), code, compilation, (layout.method, 8, OUTER)];
    let inlined = layout.inlined.expect("known");
    // The first byte of the scopes is of none of them.
    match inlined.data {
        layout::DataLayout::Inside { scopes: scopes_at, methods: methods_at } => {
            let (methods_from, scopes_from) = (0x400, 0x410);
            let first = scopes_from + scopes.len() as u64;
            let last = first + positions.len() as u64;
            let more = [
                (methods_at, 4, methods_from),
                (scopes_at, 8, BLOB + scopes_from),
                (inlined.positions.0, 4, first),
                (inlined.positions.1, 4, last),
            ];
            made.put(BLOB, 0x400, &[&head[..], &more].concat());
            let blob = made.0.get_mut(&BLOB).expect("put");
            blob.extend([methods, scopes, positions].concat());
        }
        layout::DataLayout::Apart { immutable, immutable_size, mutable, mutable_size, relocations } => {
            let first = 0x20;
            let last = first + positions.len() as u64;
            let more = [
                (immutable, 8, 0x31_0000),
                (immutable_size, 4, last + scopes.len() as u64),
                (mutable, 8, 0x32_0000),
                (mutable_size, 4, 8 + methods.len() as u64),
                (relocations, 4, 3),
                (inlined.positions.0, 4, first),
                (inlined.positions.1, 4, last),
            ];
            made.put(BLOB, 0x400, &[&head[..], &more].concat());
            made.0.insert(0x31_0000, [vec![0; 0x20], positions, scopes].concat());
            made.0.insert(0x32_0000, [vec![0; 8], methods].concat());
        }
    }
    made
}

fn functions(made: Made, frame: GeneratedFrame, layout: &JavaLayout) -> Option<Vec<Arc<str>>> {
    let names = CodeNames::of_java(frame, layout, &Pieces(made.0))?;
    Some(names.at(frame.at).iter().map(|place| names.labels[place.label as usize].name.clone()).collect())
}

fn at(at: u32) -> GeneratedFrame {
    GeneratedFrame { code: BLOB, cookie: COMPILATION, at: 0x180 + at, kind: GeneratedKind::Blob }
}

#[test]
fn functions_of_a_machine_are_named() {
    for layout in [JavaLayout::of_17(), JavaLayout::of_25()] {
        let names = |frame| functions(compiled(&layout), frame, &layout).map(|names| names.join(";"));
        let both = Some("shop.Cart$$Lambda.spin;shop.Cart.outer".to_owned());
        // A position's own address, and one before it.
        assert_eq!(names(at(0x10)), both, "{layout:?}");
        assert_eq!(names(at(0x08)), both);
        assert_eq!(names(at(0x20)), Some("shop.Cart.outer".to_owned()));
        // Behind all positions only the compiled function is known.
        assert_eq!(names(at(0x30)), Some("shop.Cart.outer".to_owned()));
        assert_eq!(names(GeneratedFrame { cookie: COMPILATION + 1, ..at(0x10) }), None, "other code was placed there");
        let constant = Pieces(compiled(&layout).0);
        let cookie = layout.constant.cookie(SPIN + 0x1000, &constant).expect("there");
        let frame = GeneratedFrame { code: SPIN + 0x1000, cookie, at: 3, kind: GeneratedKind::Method };
        assert_eq!(names(frame), Some("shop.Cart$$Lambda.spin".to_owned()));
        assert_eq!(names(GeneratedFrame { cookie: cookie ^ 1, ..frame }), None, "another method was placed there");
    }
}

#[test]
fn functions_of_a_machine_have_lines() {
    for layout in [JavaLayout::of_17(), JavaLayout::of_25()] {
        let lines = |frame: GeneratedFrame, made: Made| {
            let names = CodeNames::of_java(frame, &layout, &Pieces(made.0)).expect("named");
            let line = |place: &FunctionPlace| {
                let source = names.labels[place.label as usize].source.as_ref();
                format!("{}:{}", source.map_or("", |source| &*source.file), place.line)
            };
            names.at(frame.at).iter().map(line).collect::<Vec<_>>().join(";")
        };
        // `spin` at index 3 is inlined into `outer` at index 4.
        assert_eq!(lines(at(0x10), compiled(&layout)), "Cart.java:5;Cart.java:7");
        assert_eq!(lines(at(0x20), compiled(&layout)), "Cart.java:7");
        let names = CodeNames::of_java(at(0), &layout, &Pieces(compiled(&layout).0)).expect("named");
        let is_end = |offset: u32| names.ends_at(at(offset).at);
        assert_eq!([0x08, 0x10, 0x11, 0x20, 0x30].map(is_end), [false, true, false, true, false]);
        assert_eq!(lines(at(0x30), compiled(&layout)), "Cart.java:0", "behind all positions");
        let constant = SPIN + 0x1000;
        let cookie = layout.constant.cookie(constant, &Pieces(compiled(&layout).0)).expect("there");
        let method = |at: u32| GeneratedFrame { code: constant, cookie, at, kind: GeneratedKind::Method };
        let at = |index: u32| lines(method(index), compiled(&layout));
        assert_eq!([0, 3, 4, 9].map(at), ["Cart.java:5", "Cart.java:5", "Cart.java:7", "Cart.java:7"]);
        // A method that was compiled without lines.
        let mut made = compiled(&layout);
        let flags = layout.constant.lines.expect("known").flags as usize;
        made.0.get_mut(&constant).expect("put")[flags] = 0;
        let cookie = layout.constant.cookie(constant, &Pieces(made.0.clone())).expect("there");
        assert_eq!(lines(GeneratedFrame { cookie, ..method(4) }, made), ":0");
    }
}

/// A class that is dropped may leave its place to one of the same sizes with other names.
#[test]
fn interpreted_methods_in_memory_that_was_used_again_have_no_name() {
    let layout = JavaLayout::of_17();
    let cookie = layout.constant.cookie(SPIN + 0x1000, &Pieces(compiled(&layout).0)).expect("there");
    let frame = GeneratedFrame { code: SPIN + 0x1000, cookie, at: 3, kind: GeneratedKind::Method };
    for (class, name) in [("shop/Cart$$Lambda+0x00ff", "turn"), ("shop/Cart$$Lambda+0x00fe", "spin")] {
        let mut made = compiled(&layout);
        made.method(SPIN, &layout, class, name);
        assert_eq!(functions(made, frame, &layout), None, "{class} {name}");
    }
}

#[test]
fn methods_in_memory_that_was_used_again_have_no_name() {
    let layout = JavaLayout::of_17();
    let mut made = compiled(&layout);
    // The class has other constants.
    made.put(OUTER + 0x3000, 512, &[(layout.constant.class_constants, 8, 0x99), (layout.constant.class_name, 8, 0x99)]);
    assert_eq!(functions(made, at(0x20), &layout), None);
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn any_memory_of_a_virtual_machine_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        read_untrusted(&bytes);
    }

    #[test]
    fn damaged_tables_of_a_virtual_machine_are_read(
        at in 0usize..0x600, byte: u8, is_new: bool, pc in 0u32..0x40,
    ) {
        let layout = if is_new { JavaLayout::of_25() } else { JavaLayout::of_17() };
        let mut made = compiled(&layout);
        for piece in made.0.values_mut() {
            let len = piece.len();
            piece[at % len] = byte;
        }
        drop(functions(made, super::tests::at(pc), &layout));
    }
}
