//! An engine in made memory, and ones with any memory.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::cpython::tests::Pieces;
use super::layout::V8Layout;
use super::positions::SourcePosition;
use super::*;
use crate::symbols::bytes::Bytes;
use crate::symbols::languages::code_names::FunctionPlace;

/// Where code is, and how long.
const CODE: u64 = 0x7f00_0000_00c0;
const CODE_LEN: u32 = 0x100;

struct Heap {
    layout: V8Layout,
    pieces: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

impl Heap {
    fn new(layout: V8Layout) -> Self {
        let mut heap = Self { layout, pieces: BTreeMap::new(), next: 0x10_0000 };
        for kind in 0..300u64 {
            heap.words(map_of(kind as u16) - 1, &[0, kind << 32, 0]);
        }
        heap
    }

    fn words(&mut self, at: u64, words: &[u64]) {
        self.pieces.insert(at, words.iter().flat_map(|word| word.to_le_bytes()).collect());
    }

    /// Adds an object, and returns the pointer to it.
    fn object(&mut self, kind: u16, words: &[u64]) -> u64 {
        self.next += 0x1000;
        self.words(self.next, &[&[map_of(kind)], words, &[0; 2]].concat());
        self.next + 1
    }

    fn bytes(&mut self, bytes: &[u8]) -> u64 {
        let array = self.object(190, &[smi(bytes.len() as u64)]);
        let piece = self.pieces.get_mut(&(array - 1)).expect("added");
        piece.truncate(16);
        piece.extend(bytes);
        array
    }

    fn string(&mut self, text: &str) -> u64 {
        let string = self.object(40, &[(text.len() as u64) << 32]);
        let piece = self.pieces.get_mut(&(string - 1)).expect("added");
        piece.truncate(16);
        piece.extend(text.as_bytes());
        string
    }

    /// Adds a script of four lines of ten characters.
    fn script(&mut self, has_lines: bool) -> u64 {
        let name = self.string("file:///srv/shop.js");
        let text = self.string(&"123456789\n".repeat(4));
        let ends = [9, 19, 29, 39].map(smi);
        let lines =
            if has_lines { self.object(self.layout.types.array, &[&[smi(4)], &ends[..]].concat()) } else { smi(0) };
        let script = self.layout.types.script;
        self.object(script, &[text, name, 0, 0, 0, 0, lines, smi(7), 0, 0, 0])
    }

    /// Adds the shared part of a function that begins at a position, with so many variables.
    fn function(&mut self, script: u64, name: &str, inferred: &str, start: u64, variables: usize) -> u64 {
        let [name, inferred] = [name, inferred].map(|text| self.string(text));
        let named = variables < self.layout.named_variables as usize;
        let locals = vec![name; if named { variables } else { 1 }];
        let infos = vec![smi(1); variables];
        let position = [smi(start), smi(start + 5)];
        // A function with its own name and an inferred one.
        let (flags, counts) = (0x41_71e2, [smi(1), smi(variables as u64)]);
        let own = [name, smi(u64::from(u32::MAX)), inferred];
        let words = match self.layout.scope_head {
            3 => [&[smi(flags)], &counts[..], &locals, &infos, &own, &position].concat(),
            _ => [&[flags + 2], &counts[..], &position, &locals, &infos, &own].concat(),
        };
        let scope = self.object(self.layout.types.scope, &words);
        self.shared(script, scope)
    }

    fn shared(&mut self, script: u64, scope: u64) -> u64 {
        let mut words = vec![0; 11];
        let engine = self.layout.engine;
        for (at, word) in [(engine.name, scope), (engine.script, script), (engine.literal - 4, 9 << 32)] {
            words[usize::from(at) / 8 - 1] = word;
        }
        self.object(self.layout.types.shared, &words)
    }

    /// Adds compiled code of a function at [`CODE`], whose data for deoptimization is this.
    fn code(&mut self, kind: u64, positions: &[u8], mut data: Vec<u64>, owner: u64) {
        let c = self.layout.code;
        let owner = if c.is_wrapped { self.object(195, &[owner]) } else { owner };
        data[usize::from(c.owner)] = owner;
        let data = self.object(175, &[&[smi(data.len() as u64)], &data[..]].concat());
        let positions = self.bytes(positions);
        let mut bytes = vec![0; 96];
        let start = (!c.has_instructions).then_some((c.start, CODE));
        let words = [(c.deoptimization, data), (c.positions, positions), (c.flags, kind)];
        for (at, word) in words.into_iter().chain(start) {
            bytes[usize::from(at)..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[usize::from(c.size)..][..4].copy_from_slice(&CODE_LEN.to_le_bytes());
        bytes[..8].copy_from_slice(&map_of(self.layout.types.code).to_le_bytes());
        self.next += 0x1000;
        let mut page = vec![0x90; 4096];
        if c.has_instructions {
            let own = (CODE - u64::from(c.start)) as usize % 4096;
            page[own..][..usize::from(c.start)].fill(0);
            page[own..][..bytes.len()].copy_from_slice(&bytes);
            self.pieces.insert(CODE / 4096 * 4096, page);
            return;
        }
        self.pieces.insert(self.next, bytes);
        let stream = (CODE - 0x20) as usize % 4096;
        page[stream..][..8].copy_from_slice(&map_of(self.layout.types.stream).to_le_bytes());
        page[stream + 8..][..8].copy_from_slice(&(self.next + 1).to_le_bytes());
        self.pieces.insert(CODE / 4096 * 4096, page);
    }

    fn names(self, shared: u64, at: Option<u64>, is_sampled: bool) -> Option<Vec<String>> {
        let (layout, memory) = (self.layout, Pieces(self.pieces));
        let place = at.map(|at| {
            let address = CODE + at;
            let bytes = [0, 8].map(|from| memory.word(address + from).expect("code"));
            CodePlace { address, is_sampled, hash: code_hash(address, bytes) }
        });
        let cookie = layout.cookie(shared, &memory)?;
        let frame = GeneratedFrame { code: shared, cookie, at: 0, kind: GeneratedKind::Script(place) };
        let other = GeneratedFrame { cookie: cookie ^ 1, ..frame };
        let process = V8Process::new(7, 1000);
        assert_eq!(CodeNames::of_script(other, &layout, &process, &memory), None);
        match CodeNames::of_script(frame, &layout, &process, &memory)? {
            V8Names::Builtin => Some(Vec::new()),
            V8Names::Functions(names) => {
                let text = |place: &FunctionPlace| {
                    let label = &names.labels[place.label as usize];
                    let range = label.source.as_ref().map_or((0, 0), |source| {
                        assert_eq!((&source.file, source.pid, source.uid), (&label.file, 7, 1000));
                        (source.first, source.last)
                    });
                    assert!(range.0 == label.line && range.0 <= range.1);
                    let line = if place.line > 0 { format!(" {}", place.line) } else { String::new() };
                    format!("{} {}:{}{line}", label.name, label.file, label.line)
                };
                Some(names.at(0).iter().map(text).collect())
            }
        }
    }
}

fn map_of(kind: u16) -> u64 {
    0x1001 + 0x40 * u64::from(kind)
}

fn smi(number: u64) -> u64 {
    number << 32
}

fn all() -> [V8Layout; 4] {
    [V8Layout::of_9(), V8Layout::of_10(), V8Layout::of_11(), V8Layout::of_13()]
}

#[test]
fn functions_have_names_files_and_lines() {
    for layout in all() {
        for (name, inferred, variables, has_lines, expected) in [
            ("spin", "", 0, true, "spin /srv/shop.js:3"),
            ("spin", "other", 29, false, "spin /srv/shop.js:3"),
            ("", "Shop.add", 74, true, "Shop.add /srv/shop.js:3"),
            ("", "closures", 1, true, "<anonymous> /srv/shop.js:3"),
            ("", "", 75, false, "<anonymous> /srv/shop.js:3"),
        ] {
            let mut heap = Heap::new(layout);
            let script = heap.script(has_lines);
            let shared = heap.function(script, name, inferred, 25, variables);
            assert_eq!(heap.names(shared, None, false), Some(vec![expected.to_owned()]));
        }
        // A function without a script is the engine's own, and one that was not compiled has its name only.
        let mut heap = Heap::new(layout);
        let (none, name) = (heap.object(131, &[0; 8]), heap.string("lazy"));
        let shared = heap.shared(none, name);
        assert_eq!(heap.names(shared, None, false), Some(Vec::new()));
        let mut heap = Heap::new(layout);
        let (script, name) = (heap.script(true), heap.string("lazy"));
        let shared = heap.shared(script, name);
        assert_eq!(heap.names(shared, None, false), Some(vec!["lazy /srv/shop.js:0".to_owned()]));
    }
}

#[test]
fn modules_have_names_and_lines() {
    for layout in all() {
        let mut heap = Heap::new(layout);
        let script = heap.script(true);
        let [name, variable] = ["", "variable"].map(|text| heap.string(text));
        let kind = if layout.scope_head == 3 { 3 } else { 5 };
        let (flags, range, own) = (0x50_231e0 + kind, [smi(0), smi(25)], [name, smi(u64::from(u32::MAX))]);
        let variables = [variable, variable, smi(1), smi(1)];
        let words = match layout.scope_head {
            3 => [&[smi(flags), smi(0), smi(2)], &variables[..], &own, &range].concat(),
            _ => [&[flags, smi(0), smi(2)], &range[..], &[smi(2)], &variables, &own].concat(),
        };
        let scope = heap.object(layout.types.scope, &words);
        let shared = heap.shared(script, scope);
        assert_eq!(heap.names(shared, None, false), Some(vec!["<anonymous> /srv/shop.js:1".to_owned()]));
    }
}

#[test]
fn damaged_scopes_give_no_names() {
    for layout in all() {
        let mut heap = Heap::new(layout);
        let script = heap.script(true);
        // The name is not a string, the variables are too many, and the scope is of another type.
        for (kind, flags, variables) in [(0, 0x41_71e2, 0), (0, 0x41_71e2, 1 << 20), (1, 0x41_71e2, 0)] {
            let words = [smi(flags), smi(0), smi(variables), map_of(3), map_of(3), map_of(3), 0, 0];
            let scope = heap.object(layout.types.scope + kind, &words);
            let shared = heap.shared(script, scope);
            let own = Heap { layout, pieces: heap.pieces.clone(), next: heap.next };
            assert_eq!(own.names(shared, None, false), None);
        }
    }
}

#[test]
fn strings_of_several_parts_are_read() {
    let layout = V8Layout::of_11();
    let mut heap = Heap::new(layout);
    let [a, b, empty] = ["ab", "cd", ""].map(|text| heap.string(text));
    let cons = heap.object(41, &[4 << 32, a, b]);
    let nested = heap.object(33, &[8 << 32, cons, cons]);
    let flat = heap.object(41, &[2 << 32, b, empty]);
    let thin = heap.object(45, &[2 << 32, flat]);
    let sliced = heap.object(43, &[1 << 32, a, smi(1)]);
    let endless = heap.object(41, &[2 << 32, heap.next + 0x1001, a]);
    let slice_of_itself = heap.object(43, &[1 << 32, heap.next + 0x2001, smi(0)]);
    heap.object(45, &[1 << 32, slice_of_itself]);
    let memory = Pieces(heap.pieces);
    let read = |string: u64| layout.string(string, &memory);
    assert_eq!([nested, thin, sliced].map(read), ["abcdabcd", "cd", "b"].map(|text| Some(text.to_owned())));
    assert_eq!([endless, slice_of_itself, smi(3), map_of(2), 0].map(read), [const { None }; 5]);
}

/// Positions: in the function itself at the third character, in the first inlined call without a character, in the
/// second one at the 24th character, and there in a file that is not a script.
const POSITIONS: [u8; 16] =
    [0x22, 0x0c, 0x40, 0xf4, 0xff, 0xff, 0xff, 0x0f, 0x40, 0xe0, 0x80, 0x80, 0x80, 0x10, 0x20, 0x02];

#[test]
fn positions_lead_to_the_last_inlined_call() {
    let at = |offset| positions::at(&POSITIONS, offset).map(|found| (found.call, found.character));
    let (own, first, second) = (Some((0, Some(2))), Some((1, None)), Some((2, Some(23))));
    assert_eq!([0x0f, 0x10, 0x2f, 0x30, 0x4f, 0x50].map(at), [None, own, own, first, first, second]);
    assert_eq!(at(0x100), Some((2, None)));
    assert_eq!(positions::at(&[0xff; 40], 5), None);
    assert_eq!(positions::at(&[], 5), None);
    let far = [0xfe, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    let found = positions::at(&[&[2, 0], &far[..], &[0]].concat(), 5);
    assert_eq!(found, Some(SourcePosition::default()), "an offset beyond all numbers");
}

#[test]
fn inlined_functions_are_frames() {
    for layout in all() {
        let made = |owner_is_other: bool, kind: u64| {
            let mut heap = Heap::new(layout);
            let script = heap.script(true);
            let [outer, middle, inner] = ["outer", "middle", "inner"].map(|name| heap.function(script, name, "", 5, 0));
            let literals = heap.object(240, &[smi(2), middle | 2, inner | 2]);
            // The second call is in the first.
            let calls: Vec<u8> = [[14 << 1, 0], [1 << 31 | 31 << 1, 1]]
                .iter()
                .flatten()
                .flat_map(|word: &u64| word.to_le_bytes())
                .collect();
            let calls = heap.bytes(&calls);
            let mut data = vec![0; 12];
            data[usize::from(layout.code.literals)] = literals;
            data[usize::from(layout.code.inlined)] = calls;
            heap.code(kind, &POSITIONS, data, if owner_is_other { inner } else { outer });
            (heap, outer)
        };
        let optimized = u64::from(layout.code.baseline) + 2;
        let names = |at: u64, is_other: bool, kind: u64| {
            let (heap, outer) = made(is_other, kind);
            let names = heap.names(outer, Some(at), false).expect("read");
            names.iter().map(|name| name.replace(" /srv/shop.js:1", "")).collect::<Vec<_>>()
        };
        assert_eq!(names(0x10, false, optimized), ["outer 1"]);
        assert_eq!(names(0x3f, false, optimized), ["middle", "outer 2"]);
        assert_eq!(names(0x50, false, optimized), ["inner 3", "middle 4", "outer 2"]);
        // Code of another function, of no compiler that inlines, and behind the end.
        assert_eq!(names(0x50, true, optimized), ["outer"]);
        assert_eq!(names(0x50, false, layout.code.baseline.into()), ["outer"]);
        assert_eq!(names(u64::from(CODE_LEN), false, optimized), ["outer"]);
        // Code that was replaced keeps its function's name.
        let (heap, outer) = made(false, optimized);
        let memory = Pieces(heap.pieces);
        let place = CodePlace { address: CODE + 0x50, is_sampled: false, hash: 1 };
        let cookie = layout.cookie(outer, &memory).expect("a function");
        let frame = GeneratedFrame { code: outer, cookie, at: 0, kind: GeneratedKind::Script(Some(place)) };
        let names = CodeNames::of_script(frame, &layout, &V8Process::default(), &memory);
        assert!(matches!(names, Some(V8Names::Functions(names)) if names.labels.len() == 1));
    }
}

/// Translations and safepoints of Node 24: `closure`, into which a function is inlined that another is inlined into.
const TRANSLATIONS: [u8; 96] = [
    0x0e, 0x00, 0x04, 0x04, 0x01, 0x0a, 0x04, 0x00, 0x01, 0x26, 0x06, 0x28, 0x03, 0x26, 0x08, 0x25, 0x25, 0x01, 0x0c,
    0x00, 0x02, 0x02, 0x27, 0x00, 0x26, 0x0a, 0x26, 0x08, 0x25, 0x27, 0x01, 0x26, 0x0c, 0x0e, 0x21, 0x04, 0x04, 0x3a,
    0x0e, 0x26, 0x04, 0x04, 0x3a, 0x0e, 0x2b, 0x02, 0x02, 0x01, 0x03, 0x04, 0x00, 0x01, 0x32, 0x0e, 0x35, 0x02, 0x02,
    0x00, 0x00, 0x04, 0x00, 0x01, 0x00, 0x02, 0x32, 0x0e, 0x41, 0x06, 0x06, 0x33, 0x01, 0x14, 0x00, 0x02, 0x02, 0x28,
    0x0a, 0x30, 0x25, 0x25, 0x00, 0x10, 0x02, 0x04, 0x02, 0x00, 0x02, 0x26, 0x0e, 0x26, 0x10, 0x26, 0x08, 0x25, 0x25,
    0x25,
];
const SAFEPOINTS: [u8; 40] = [
    6, 0, 0, 0, 4, 0, 0, 0, 0xa1, 0, 0, 0, 1, 0, 0, 0, 0x1f, 0, 4, 0x3e, 1, 0, 0x42, 0, 5, 0x42, 1, 0, 0xd7, 0, 6,
    0x46, 1, 0, 0x2e, 1, 0, 0, 0, 0,
];

#[test]
fn translations_lead_to_inlined_functions() {
    let functions = |start| translations::functions(&TRANSLATIONS, start);
    let expected = [vec![2, 0], vec![2, 0], vec![2, 0], vec![2], vec![2], vec![2, 0, 1]].map(Some);
    assert_eq!([0, 33, 38, 43, 53, 65].map(functions), expected);
    for other in [1, 4, 95, 96, 1000] {
        assert_eq!(functions(other), None);
    }
    for end in 0..TRANSLATIONS.len() {
        let _ = translations::functions(&TRANSLATIONS[..end], 65);
    }
    let exit = |offset, is_sampled| translations::exit(&SAFEPOINTS, offset, is_sampled);
    assert_eq!([0x1e, 0x41, 0xd6, 0x12d, 0xd7].map(|at| exit(at, false)), [Some(3), Some(4), Some(5), None, None]);
    assert_eq!([0, 0x20, 0xd7, 0xd8].map(|at| exit(at, true)), [Some(3), Some(4), Some(5), Some(5)]);
    assert_eq!(translations::exit(&SAFEPOINTS[..12], 0x1e, false), None);
}

#[test]
fn versions_are_those_of_node() {
    assert_eq!(version(b"a -node. 11.3.244.8-node.33\0"), Some((11, 3)));
    assert_eq!(version(b"13.6.233.10-node.28"), Some((13, 6)));
    for other in [&b""[..], b"-node.", b"1.2.3-node.1", b"1.2.3.4.5-node.1", b"300.2.3.4-node.1", b"..-node.2"] {
        assert_eq!(version(other), None);
    }
}

/// The Node of this machine, if it has one that is supported.
#[test]
fn the_program_of_this_machine_is_recognized() {
    let Ok(bytes) = std::fs::read("/usr/bin/node").map(Bytes::from) else { return };
    let program = ElfProgram::of(&bytes).expect("a program");
    let Some((version, file)) = V8File::of(&program, &bytes) else { return };
    let known = match version {
        (9, 4) => Some(V8Layout::of_9()),
        (10, 2) => Some(V8Layout::of_10()),
        (11, _) => Some(V8Layout::of_11()),
        _ => None,
    };
    if let Some(known) = known {
        let layout = file.expect("supported").layout;
        assert_eq!((layout.engine, layout.code), (known.engine, known.code));
    }
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn any_memory_of_an_engine_is_read(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        read_untrusted(&bytes);
        let _ = translations::functions(&bytes, 0);
        let _ = translations::exit(&bytes, 5, true);
    }
}
