//! Recordings made byte by byte, a real one, and damaged ones.

use std::io::Read;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::source::imported::{ImportFormat, ImportedSource};

/// Appends a number in the file's encoding.
fn int(out: &mut Vec<u8>, mut value: u64) {
    for _ in 0..8 {
        if value < 0x80 {
            break;
        }
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn ints(out: &mut Vec<u8>, values: &[u64]) {
    values.iter().for_each(|value| int(out, *value));
}

/// Appends an event with its size, which includes the size's own bytes.
fn event(out: &mut Vec<u8>, kind: u64, body: &[u8]) {
    let mut rest = Vec::new();
    int(&mut rest, kind);
    rest.extend(body);
    let mut size = Vec::new();
    int(&mut size, rest.len() as u64 + 1);
    int(out, (rest.len() + size.len()) as u64);
    out.extend(rest);
}

/// A type: its id, its name, and the fields' names, types and kinds (`k` for keys, `l` for lists).
type Described = (u64, &'static str, &'static [(&'static str, u64, &'static str)]);

const TYPES: &[Described] = &[
    (1, "long", &[]),
    (2, "boolean", &[]),
    (3, "java.lang.String", &[]),
    (4, "int", &[]),
    (10, "jdk.types.Symbol", &[("string", 3, "")]),
    (11, "java.lang.Class", &[("classLoader", 11, "k"), ("name", 10, "k"), ("modifiers", 4, "")]),
    (12, "jdk.types.Method", &[("type", 11, "k"), ("name", 10, "k"), ("hidden", 2, "")]),
    (13, "jdk.types.StackFrame", &[("method", 12, "k"), ("lineNumber", 4, "")]),
    (14, "jdk.types.StackTrace", &[("truncated", 2, ""), ("frames", 13, "l")]),
    (15, "java.lang.Thread", &[("osName", 3, ""), ("osThreadId", 1, ""), ("javaName", 3, "")]),
    (20, "jdk.ExecutionSample", &[("startTime", 1, ""), ("sampledThread", 15, "k"), ("stackTrace", 14, "k")]),
    (21, "jdk.NativeMethodSample", &[("startTime", 1, ""), ("sampledThread", 15, "k"), ("stackTrace", 14, "k")]),
    (22, "jdk.Other", &[("startTime", 1, "")]),
    (
        23,
        "jdk.CPUTimeSample",
        &[
            ("startTime", 1, ""),
            ("eventThread", 15, "k"),
            ("stackTrace", 14, "k"),
            ("failed", 2, ""),
            ("samplingPeriod", 1, ""),
            ("biased", 2, ""),
        ],
    ),
];

fn text(out: &mut Vec<u8>, encoding: u8, text: &str) {
    out.push(encoding);
    int(out, text.chars().count() as u64);
    match encoding {
        4 => text.encode_utf16().for_each(|unit| int(out, unit.into())),
        5 => out.extend(text.chars().map(|c| c as u8)),
        _ => out.extend(text.as_bytes()),
    }
}

/// Metadata: strings, and the elements `root`, `metadata`, `class`, `field`.
fn metadata(types: &[Described]) -> Vec<u8> {
    let mut strings: Vec<String> = Vec::new();
    let mut tree = Vec::new();
    let mut element = |name: &str, attributes: &[(&str, String)], children: u64| {
        let mut at = |text: &str| {
            let known = strings.iter().position(|known| known == text);
            known.unwrap_or_else(|| {
                strings.push(text.to_owned());
                strings.len() - 1
            }) as u64
        };
        let name = at(name);
        ints(&mut tree, &[name, attributes.len() as u64]);
        for (key, value) in attributes {
            let pair = [at(key), at(value)];
            ints(&mut tree, &pair);
        }
        int(&mut tree, children);
    };
    element("root", &[], 1);
    element("metadata", &[], types.len() as u64);
    for (id, name, fields) in types {
        element("class", &[("id", id.to_string()), ("name", (*name).to_owned())], fields.len() as u64);
        for (name, class, kind) in *fields {
            let mut attributes = vec![("name", (*name).to_owned()), ("class", class.to_string())];
            if kind.contains('k') {
                attributes.push(("constantPool", "true".to_owned()));
            }
            if kind.contains('l') {
                attributes.push(("dimension", "1".to_owned()));
            }
            element("field", &attributes, 0);
        }
    }
    let mut body = Vec::new();
    ints(&mut body, &[5, 0, 1, strings.len() as u64]);
    strings.iter().for_each(|string| text(&mut body, 3, string));
    body.extend(tree);
    body
}

/// The values of a chunk: methods 1 (`app.Main.main`), 2 (`app.Main.größe`), 3 (hidden), stacks 1 and 2, threads 1 and 2.
fn checkpoint() -> Vec<u8> {
    let mut out = Vec::new();
    ints(&mut out, &[5, 0, 0]);
    out.push(0);
    int(&mut out, 6);
    ints(&mut out, &[10, 3, 1]);
    text(&mut out, 3, "app/Main");
    int(&mut out, 2);
    text(&mut out, 5, "größe");
    int(&mut out, 3);
    text(&mut out, 4, "main");
    ints(&mut out, &[11, 1, 1, 0, 1, 1]);
    ints(&mut out, &[12, 3, 1, 1, 3, 0, 2, 1, 2, 0, 3, 1, 2, 1]);
    ints(&mut out, &[14, 2, 1, 0, 3, 2, 10, 3, 0, 1, 300, 2, 1, 1, 1, 301]);
    ints(&mut out, &[3, 1, 9]);
    text(&mut out, 3, "worker");
    ints(&mut out, &[15, 2, 1]);
    text(&mut out, 3, "os");
    int(&mut out, 4711);
    // The text 9 of the pool; the other thread has no name in Java.
    out.extend([2, 9]);
    int(&mut out, 2);
    text(&mut out, 3, "os");
    int(&mut out, 4712);
    out.push(0);
    out
}

/// A chunk whose clock has 1000 ticks per second, with samples of (event, ticks, thread, stack).
fn chunk(types: &[Described], samples: &[[u64; 4]]) -> Vec<u8> {
    let mut events = Vec::new();
    event(&mut events, 1, &checkpoint());
    for [kind, ticks, thread, stack] in samples {
        let mut body = Vec::new();
        ints(&mut body, &[*ticks, *thread, *stack]);
        if *kind == 23 {
            ints(&mut body, &[0, 10, 0]);
        }
        event(&mut events, *kind, &body);
    }
    event(&mut events, 22, &[7]);
    event(&mut events, 0, &metadata(types));
    let mut out = [MAGIC, &[0, 2, 0, 1]].concat();
    let size = (HEADER + events.len()) as u64;
    for word in [size, 0, 0, 1_000_000_000, 0, 500, 1000] {
        out.extend(word.to_be_bytes());
    }
    out.extend([0, 0, 0, 1]);
    out.extend(events);
    out
}

/// The samples of a recording as text: thread, its number, event, stack, time in ms.
fn lines(file: &[u8]) -> Result<Vec<String>, ImportError> {
    let mut profile = read(file)?;
    profile.finish();
    let names: Vec<_> = profile.events.iter().map(|event| event.name.clone()).collect();
    let frames = profile.take_frames();
    let mut named = crate::source::NamedSamples::default();
    assert_eq!(profile.fill(0, usize::MAX, &mut named), profile.len());
    let line = |sample: &crate::source::NamedSample| {
        let range = sample.frames.start as usize..sample.frames.end as usize;
        let stack: Vec<&str> = named.frames[range].iter().rev().map(|id| &*frames[*id as usize].name).collect();
        let event = &names[usize::from(sample.event)];
        format!("{} {} {event} {} {}", sample.comm, sample.tid, stack.join(";"), sample.time / 1_000_000)
    };
    Ok(named.samples.iter().map(line).collect())
}

#[test]
fn samples_of_all_chunks() {
    let one = chunk(TYPES, &[[20, 1500, 1, 1], [20, 700, 2, 2]]);
    assert_eq!(
        lines(&one).expect("a recording"),
        [
            "os 4712 jdk.ExecutionSample app.Main.main 1200",
            "worker 4711 jdk.ExecutionSample app.Main.main;app.Main.größe 2000",
        ]
    );
    let two = [one, chunk(TYPES, &[[21, 500, 1, 2], [20, 400, 3, 7]])].concat();
    let profile = read(&two).expect("a recording");
    assert_eq!((profile.len(), profile.events.len()), (4, 2));
    // One stack says that it is cut, and one is missing.
    assert_eq!(profile.notes.len(), 2, "{:?}", profile.notes);
    let all = lines(&two).expect("a recording");
    assert_eq!(all[0], "[unknown] -1 jdk.ExecutionSample  900");
    assert_eq!(all[1], "worker 4711 jdk.NativeMethodSample app.Main.main 1000");
    // Samples by CPU time since JDK 25.
    let by_cpu_time = lines(&chunk(TYPES, &[[23, 600, 1, 2]])).expect("a recording");
    assert_eq!(by_cpu_time, ["worker 4711 jdk.CPUTimeSample app.Main.main 1100"]);
    assert!(matches!(lines(&chunk(TYPES, &[])), Err(ImportError::Lacks(_))));
}

#[test]
fn damaged_recordings_are_errors() {
    let whole = chunk(TYPES, &[[20, 1500, 1, 1]]);
    for end in 0..whole.len() {
        assert!(lines(&whole[..end]).is_err(), "{end}");
    }
    let with = |at: usize, bytes: &[u8]| {
        let mut file = whole.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        lines(&file)
    };
    assert!(matches!(with(4, &[0, 1]), Err(ImportError::Unsupported(_))));
    assert!(matches!(with(HEADER - 1, &[0]), Err(ImportError::Unsupported(_))));
    assert!(matches!(with(HEADER, &[0]), Err(ImportError::Damaged { what: "an event without a size", .. })));
    assert!(matches!(with(HEADER - 12, &[0; 8]), Err(ImportError::Damaged { .. })), "no frequency");
    // Types that contain themselves, and lists of values without bytes.
    let own: &[Described] = &[(10, "jdk.types.Symbol", &[("string", 10, ""), ("string", 10, "")])];
    assert!(matches!(lines(&chunk(own, &[])), Err(ImportError::TooComplex)));
    let empty: &[Described] = &[(10, "jdk.types.Symbol", &[("string", 9, "l")]), (9, "Nothing", &[])];
    assert!(lines(&chunk(empty, &[])).is_err());
}

fn real() -> Vec<u8> {
    let packed = include_bytes!("../../../../tests/data/imported/load.jfr.gz");
    let mut file = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut file).expect("unpacked");
    file
}

#[test]
fn chunks_of_a_real_recording() {
    let file = real();
    let (one, two) = (lines(&file).expect("a recording"), lines(&[&file[..], &file].concat()).expect("a recording"));
    assert_eq!((one.len(), two.len()), (63, 126));
    assert!(one.iter().any(|line| line.starts_with("worker-1 ") && line.contains(";Load.math ")), "{one:?}");
    let source = ImportedSource::read("x".to_owned(), ImportFormat::Jfr, &file[..]).expect("a profile");
    assert_eq!(source.info.events[0].name, "jdk.ExecutionSample");
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn any_bytes_are_read_or_refused(edits in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..8)) {
        let mut file = [chunk(TYPES, &[[20, 1500, 1, 1]]), chunk(TYPES, &[[21, 1500, 2, 2]])].concat();
        for (at, byte) in edits {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let _ = lines(&file);
    }
}
