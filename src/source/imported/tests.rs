//! Small profiles of each format, and damaged ones.

use std::collections::BTreeMap;

use prost::Message;

use super::messages::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use super::*;
use crate::perfdata::{EventUnit, SampleCount};
use crate::source::NamedFrame;

/// A sample as text: thread, event, stack from the root on, and period.
fn lines(source: &mut ImportedSource) -> Vec<String> {
    let mut frames: Vec<NamedFrame> = Vec::new();
    let mut found = Vec::new();
    loop {
        let mut batch = Batch::default();
        let step = source.next(&mut batch).expect("no fault");
        frames.extend(std::mem::take(&mut batch.named.names));
        for sample in &batch.named.samples {
            let range = sample.frames.start as usize..sample.frames.end as usize;
            let stack: Vec<&str> =
                batch.named.frames[range].iter().rev().map(|id| &*frames[*id as usize].name).collect();
            let event = &source.info.events[usize::from(sample.event)].name;
            let at = if sample.time > 0 { format!(" at {}", sample.time) } else { String::new() };
            found.push(format!("{} {event} {} {}{at}", sample.comm, stack.join(";"), sample.period));
        }
        if step != Progress::More {
            return found;
        }
    }
}

fn open(bytes: &[u8]) -> Result<ImportedSource, ImportError> {
    let format = sniff(bytes).expect("a known start");
    ImportedSource::read("x".to_owned(), format, bytes)
}

fn read(bytes: &[u8]) -> Vec<String> {
    lines(&mut open(bytes).expect("a profile"))
}

/// A heap profile like Go's: two sample types, an inlined function, labels.
fn go_heap() -> Profile {
    let strings = [
        "",
        "alloc_space",
        "bytes",
        "inuse_space",
        "main.main",
        "main.inner",
        "main.outer",
        "/bin/app",
        "path",
        "/x",
        "size",
        "tid",
        "comm",
        "worker",
    ];
    let line = |function| Line { function, line: 1 };
    Profile {
        sample_type: vec![ValueType { kind: 1, unit: 2 }, ValueType { kind: 3, unit: 2 }],
        sample: vec![
            Sample {
                location: vec![2, 1],
                value: vec![64, 32],
                label: vec![Label { key: 8, text: 9, number: 0 }, Label { key: 10, text: 0, number: 16 }],
            },
            Sample {
                location: vec![3, 1],
                value: vec![100, 0],
                label: vec![Label { key: 11, text: 0, number: 7 }, Label { key: 12, text: 13, number: 0 }],
            },
            Sample { location: vec![9], value: vec![-5, 1], label: Vec::new() },
        ],
        mapping: vec![Mapping { id: 1, filename: 7, ..Mapping::default() }],
        location: vec![
            Location { id: 1, mapping: 1, address: 1, line: vec![line(1)] },
            Location { id: 2, mapping: 1, address: 2, line: vec![line(2), line(3)] },
            Location { id: 3, mapping: 1, address: 0x1234, line: Vec::new() },
        ],
        function: (1..).zip(4..=6).map(|(id, name)| Function { id, name, ..Function::default() }).collect(),
        strings: strings.map(str::to_owned).to_vec(),
        ..Profile::default()
    }
}

#[test]
fn values_of_pprof_are_events_and_labels_are_fields() {
    let mut source = open(&go_heap().encode_to_vec()).expect("a profile");
    let units: Vec<_> = source.info.events.iter().map(|event| (event.name.clone(), event.unit().name())).collect();
    assert_eq!(units, [("inuse_space".to_owned(), "bytes".into()), ("alloc_space".to_owned(), "bytes".into())]);
    assert_eq!(source.info.notes.len(), 2, "{:?}", source.info.notes);
    let mut first = Batch::default();
    source.next(&mut first).expect("no fault");
    let fields: BTreeMap<u16, Arc<Format>> = first
        .events
        .iter()
        .filter_map(|event| match event {
            SourceEvent::Fields(event, format) => Some((*event, format.clone())),
            _ => None,
        })
        .collect();
    let raw = first.named.samples[0].raw.clone().expect("labels");
    let value = |name: &str| fields[&0].said(name).map(|field| field.text(&raw));
    assert_eq!((value("path").as_deref(), fields[&1].name.as_str()), (Some("/x"), "alloc_space"));
    assert_eq!(fields[&0].said("size").and_then(|field| field.number(&raw)), Some(16));
    let tids: Vec<i32> = first.named.samples.iter().map(|sample| sample.tid).collect();
    assert_eq!(tids, [-1, -1, 7, -1]);
    assert_eq!(
        read(&go_heap().encode_to_vec()),
        [
            "app alloc_space main.main;main.outer;main.inner 64",
            "app inuse_space main.main;main.outer;main.inner 32",
            "worker alloc_space main.main;0x1234 100",
            "app inuse_space  1",
        ]
    );
    let with_default = Profile { default_sample_type: 1, ..go_heap() };
    assert_eq!(open(&with_default.encode_to_vec()).expect("a profile").info.events[0].name, "alloc_space");
}

/// As `go tool pprof` shows them.
#[test]
fn frames_that_a_profile_leaves_out_are_not_shown() {
    // Field 7 is the pattern: the name of an inlined function.
    let dropped = [go_heap().encode_to_vec(), vec![7 << 3, 5]].concat();
    assert_eq!(read(&dropped)[0], "app alloc_space main.main;main.outer 64");
    let outer = [go_heap().encode_to_vec(), vec![7 << 3, 6]].concat();
    assert_eq!(read(&outer)[0], "app alloc_space main.main 64");
    let all = [go_heap().encode_to_vec(), vec![7 << 3, 4]].concat();
    assert_eq!(read(&all), read(&go_heap().encode_to_vec()), "the outermost function stays");
}

#[test]
fn profiles_of_a_series_are_one_with_their_times() {
    let part = |time| ProfilePart { bytes: go_heap().encode_to_vec(), time };
    let of = |parts: &[ProfilePart]| ImportedSource::of_series("x".to_owned(), parts, true);
    let whole = of(&[part(None)]).expect("a profile");
    let nothing = |time| ProfilePart { bytes: Vec::new(), time };
    let mut both = of(&[nothing(Some(3)), part(Some(9)), part(Some(5))]).expect("profiles");
    assert_eq!((both.info.events.len(), both.weight()), (2, 2 * whole.weight()));
    assert_eq!((both.info.hosts.first().clock(), whole.info.hosts.first().clock()), (Some((3, 3)), None));
    let found = lines(&mut both);
    assert_eq!(found.len(), 8);
    assert_eq!(found[0], "app alloc_space main.main;main.outer;main.inner 64 at 5");
    assert_eq!(found[5], "app inuse_space main.main;main.outer;main.inner 32 at 9");
    assert!(matches!(of(&[nothing(Some(1))]), Err(ImportError::Lacks(_))));
}

/// Pyroscope merges profiles of all periods and writes one second.
#[test]
fn samples_are_not_counted_by_a_period_that_a_store_assumes() {
    let period_type = Some(ValueType { kind: 1, unit: 2 });
    let profile = Profile { period_type, period: 1_000_000_000, ..go_heap() };
    let count = |has_period: bool| {
        let parts = [ProfilePart { bytes: profile.encode_to_vec(), time: Some(1) }];
        let source = ImportedSource::of_series("x".to_owned(), &parts, has_period).expect("a profile");
        let event = source.info.events.iter().find(|event| event.name == "alloc_space").expect("the type");
        event.meaning().count
    };
    assert_eq!((count(true), count(false)), (SampleCount::PerPeriod(1_000_000_000), SampleCount::Unknown));
}

#[test]
fn damaged_pprof_is_an_error_with_its_place() {
    let whole = go_heap().encode_to_vec();
    for end in 1..whole.len() {
        let Some(format) = sniff(&whole[..end]) else { continue };
        let _ = ImportedSource::read(String::new(), format, &whole[..end]);
    }
    let cut = &whole[..whole.len() - 3];
    assert!(matches!(open(cut), Err(ImportError::Damaged { what: "a field is longer than the file", .. })));
    assert!(!pprof::is_pprof(b"\nmain;a 1\nmain;b 2\n") && !pprof::is_pprof(b"") && !pprof::is_pprof(b"PERFILE2"));
}

const NODES: &str = r#"{"nodes":[
    {"id":1,"callFrame":{"functionName":"(root)","url":""},"hitCount":0,"children":[2,3]},
    {"id":2,"callFrame":{"functionName":"main","url":"file:///a.js","lineNumber":3},"hitCount":1,"children":[4]},
    {"id":3,"callFrame":{"functionName":"(idle)","url":""},"hitCount":2},
    {"id":4,"callFrame":{"functionName":"","url":"file:///a.js"},"hitCount":4,"children":[4,2]}]"#;

#[test]
fn cpu_profiles_of_v8() {
    let timed =
        format!("{NODES},\"startTime\":1000,\"endTime\":1400,\"samples\":[2,4,3,99],\"timeDeltas\":[0,100,50.5,150]}}");
    assert_eq!(
        read(timed.as_bytes()),
        [
            "javascript cpu main 100000 at 1000000",
            "javascript cpu main;(anonymous) 50500 at 1100000",
            "javascript cpu (idle) 150000 at 1150500",
        ]
    );
    assert_eq!(open(timed.as_bytes()).expect("a profile").info.notes.len(), 1);
    let hits = format!("{NODES}}}");
    assert_eq!(
        read(hits.as_bytes()),
        ["javascript hits main 1", "javascript hits (idle) 2", "javascript hits main;(anonymous) 4"]
    );
}

/// V8 writes some samples later than newer ones.
#[test]
fn periods_of_v8_are_times_on_the_clock() {
    let timed =
        format!("{NODES},\"startTime\":1000,\"endTime\":1400,\"samples\":[2,4,3,2],\"timeDeltas\":[0,200,-100,250]}}");
    assert_eq!(
        read(timed.as_bytes()),
        [
            "javascript cpu main 100000 at 1000000",
            "javascript cpu (idle) 100000 at 1100000",
            "javascript cpu main;(anonymous) 150000 at 1200000",
            "javascript cpu main 50000 at 1350000",
        ]
    );
}

/// Functions without names differ by their lines: most functions of a program may be arrow functions.
#[test]
fn functions_of_v8_without_names_have_their_lines() {
    let call = |line: &str| format!(r#"{{"functionName":"","url":"file:///app/a.js"{line}}}"#);
    let lines = [",\"lineNumber\":6", ",\"lineNumber\":8,\"columnNumber\":1", "", ",\"lineNumber\":-1"];
    let nodes = (2..).zip(&lines).map(|(id, line)| format!(r#"{{"id":{id},"callFrame":{},"hitCount":1}}"#, call(line)));
    let root = r#"{"id":1,"callFrame":{"functionName":"(root)","url":""},"children":[2,3,4,5]}"#.to_owned();
    let cpu = format!(r#"{{"nodes":[{}]}}"#, std::iter::once(root).chain(nodes).collect::<Vec<_>>().join(","));
    let names = ["(anonymous a.js:7)", "(anonymous a.js:9)", "(anonymous)", "(anonymous)"];
    assert_eq!(read(cpu.as_bytes()), names.map(|name| format!("javascript hits {name} 1")));
    let nodes = lines.map(|line| format!(r#"{{"callFrame":{},"selfSize":1,"children":[]}}"#, call(line))).join(",");
    let heap = format!(r#"{{"head":{{"callFrame":{{"functionName":"(root)"}},"selfSize":0,"children":[{nodes}]}}}}"#);
    assert_eq!(read(heap.as_bytes()), names.map(|name| format!("javascript size {name} 1")));
}

#[test]
fn heap_profiles_of_v8_as_deep_as_they_are() {
    let call = |name: &str| format!(r#""callFrame":{{"functionName":"{name}","url":"u","extra":{{}}}}"#);
    let small = format!(
        r#"{{"head":{{{},"selfSize":0,"id":1,"children":[{{{},"children":[{{{},"selfSize":7,"children":[]}}],"selfSize":5}},{{"selfSize":3,{}}}]}},"samples":[{{"size":9}}]}}"#,
        call("(root)"),
        call("a"),
        call("b \\\"{"),
        call("c")
    );
    assert_eq!(read(small.as_bytes()), ["javascript size a;b \"{ 7", "javascript size a 5", "javascript size c 3"]);
    let deep: String = (0..3000).map(|_| format!(r#"{{{},"selfSize":1,"children":["#, call("f"))).collect();
    let deep = format!("{{\"head\":{deep}{}}}", "]}".repeat(3000));
    assert_eq!(read(deep.as_bytes()).len(), 3000);
    assert!(matches!(open(&deep.as_bytes()[..deep.len() / 2]), Err(ImportError::Json(_))));
}

/// CPU profiles of the package v8-profiler.
#[test]
fn cpu_profiles_of_nested_nodes() {
    let node = |name: &str, id: u64, hits: u64, children: &str| {
        format!(
            r#"{{"functionName":"{name}","url":"u","lineNumber":0,"id":{id},"scriptId":0,"hitCount":{hits},"children":[{children}]}}"#
        )
    };
    let tree = node("(root)", 1, 0, &node("a", 2, 1, &[node("b", 3, 2, ""), node("", 4, 0, "")].join(",")));
    let timed = format!(r#"{{"head":{tree},"startTime":1,"samples":[2,3,3,9],"timestamps":[10,20,50.5,60,70]}}"#);
    let expected =
        ["javascript cpu a 10000 at 10000", "javascript cpu a;b 30500 at 20000", "javascript cpu a;b 9500 at 50500"];
    assert_eq!(read(timed.as_bytes()), expected);
    assert_eq!(open(timed.as_bytes()).expect("a profile").info.notes.len(), 1);
    let hits = format!(r#"{{"head":{tree},"timestamps":[]}}"#);
    assert_eq!(read(hits.as_bytes()), ["javascript hits a;b 2", "javascript hits a 1"]);
    let deep = (0..3000).fold(String::new(), |inner, id| node("f", id + 2, 0, &inner));
    let deep = format!(r#"{{"head":{deep},"samples":[2],"timestamps":[0,1]}}"#);
    assert_eq!(read(deep.as_bytes())[0].matches('f').count(), 3000);
    assert!(matches!(open(&deep.as_bytes()[..deep.len() - 1]), Err(ImportError::Json(_))));
}

#[test]
fn speedscopes_samples_and_events() {
    let text = r#"{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[{"name":"a"},{"name":"b","file":"/lib/b"}]},"profiles":[
        {"type":"sampled","name":"t1","unit":"milliseconds","startValue":5,"endValue":8,"samples":[[0,1],[0]],"weights":[1,2]},
        {"type":"evented","name":"t2","unit":"seconds","startValue":0,"endValue":9,"events":[
            {"type":"O","frame":0,"at":1},{"type":"O","frame":1,"at":2},{"type":"C","frame":1,"at":4},{"type":"C","frame":0,"at":4.5},{"type":"C","frame":0,"at":5}]},
        {"type":"sampled","name":"t3","unit":"none","samples":[[1]],"weights":[0.25]}]}"#;
    let mut source = open(text.as_bytes()).expect("a profile");
    let units: Vec<_> = source.info.events.iter().map(|event| event.unit().name()).collect();
    assert_eq!(units, ["nanoseconds", "count/1000000"]);
    assert_eq!(source.info.notes.len(), 1);
    assert_eq!(
        lines(&mut source),
        [
            "t3 samples b 250000",
            "t1 time a;b 1000000 at 5000000",
            "t1 time a 2000000 at 6000000",
            "t2 time a 1000000000 at 1000000000",
            "t2 time a;b 2000000000 at 2000000000",
            "t2 time a 500000000 at 4000000000",
        ]
    );
}

#[test]
fn speedscopes_missing_functions_and_weights_are_reported() {
    let text = |weights: &str| {
        format!(
            r#"{{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{{"frames":[{{"name":"a"}}]}},"profiles":[
            {{"type":"sampled","name":"t","unit":"seconds","startValue":0,"endValue":1,"samples":[[0,7],[0]]{weights}}}]}}"#
        )
    };
    let mut source = open(text(r#","weights":[0.5]"#).as_bytes()).expect("a profile");
    assert_eq!(
        source.info.notes,
        [
            "left out 1 frame of samples: the file does not have their functions",
            "left out 1 sample: the file does not have their weights",
        ]
    );
    assert_eq!(lines(&mut source), ["t time a 500000000"]);
    assert_eq!(read(text("").as_bytes()), ["t time a 1000000000", "t time a 1000000000 at 1000000000"]);
}

#[test]
fn negative_weights_are_reported() {
    let of = |weights: &str| {
        format!(
            r#"{{"shared":{{"frames":[{{"name":"a"}}]}},"profiles":[
            {{"type":"sampled","name":"t","unit":"none","samples":[[0],[0]],"weights":{weights}}}]}}"#
        )
    };
    let mut speedscope = open(of("[-1,2]").as_bytes()).expect("a profile");
    assert_eq!(speedscope.info.notes, ["left out 1 sample with negative weights"]);
    assert_eq!(lines(&mut speedscope), ["t samples a 2"]);
    let firefox = open(FIREFOX.replace(r#""weight":[1,2,1,0]"#, r#""weight":[1,-2,1,-1]"#).as_bytes());
    assert!(firefox.expect("a profile").info.notes.contains(&"left out 2 samples with negative weights".to_owned()));
}

/// A profile of an unknown type was read by those members that other types have, too.
#[test]
fn speedscopes_unknown_types_are_named() {
    let file = |profiles: &str| {
        format!(r#"{{"shared":{{"frames":[{{"name":"a"}},{{"name":"b"}}]}},"profiles":[{profiles}]}}"#)
    };
    let of = |kind: &str| {
        format!(
            r#"{{"type":"{kind}","name":"t","unit":"none","samples":[[0]],"weights":[2],
                "events":[{{"type":"O","frame":1,"at":0}},{{"type":"C","frame":1,"at":3}}]}}"#
        )
    };
    assert_eq!(read(file(&of("sampled")).as_bytes()), ["t samples a 2"]);
    assert_eq!(read(file(&of("evented")).as_bytes()), ["t samples b 3"]);
    let mut some = open(file(&[of("graph"), of("sampled"), of("graph")].join(",")).as_bytes()).expect("a profile");
    let left_out = "left out 2 profiles of unknown types: graph; the types sampled and evented are read";
    assert_eq!(some.info.notes, [left_out]);
    assert_eq!(lines(&mut some), ["t samples a 2"]);
    let none = file(&[of("graph"), of(&"x".repeat(50))].join(","));
    let names = format!("graph, {}", "x".repeat(40));
    assert!(matches!(open(none.as_bytes()), Err(ImportError::UnknownTypes(found)) if found == names));
    // Members of the same names may be something else.
    let other = |kind: &str| open(file(&format!(r#"{{"type":"{kind}","samples":{{}}}}"#)).as_bytes());
    assert!(matches!(other("graph"), Err(ImportError::UnknownTypes(found)) if found == "graph"));
    assert!(matches!(other("sampled"), Err(ImportError::Json(_))));
}

#[test]
fn decimals_of_counts_are_read_from_the_unit() {
    let unit = |name: &str| super::profile::unit_of(name).0;
    assert_eq!(unit("count/1000"), EventUnit::Decimal(3));
    let zeros = |n| format!("count/1{}", "0".repeat(n));
    assert_eq!([12, 13, 300].map(|n| unit(&zeros(n))), [EventUnit::Decimal(12), EventUnit::Count, EventUnit::Count]);
    assert_eq!(["count/2000", "count/1k", "count"].map(unit), [EventUnit::Count; 3]);
}

const FIREFOX: &str = r#"{"meta":{"preprocessedProfileVersion":49,"interval":1,"product":"app"},"libs":[{"path":"/lib/x.so","name":"x.so"}],"threads":[
    {"name":"main","pid":"77.1","tid":78,"samples":{"stack":[1,0,null,9],"time":[1.5,2.5,3,4],"weight":[1,2,1,0],"weightType":"samples"},
     "stackTable":{"prefix":[null,0,7],"frame":[0,1,1]},"frameTable":{"func":[0,1]},
     "funcTable":{"name":[0,1],"resource":[0,-1],"fileName":[null,2],"isJS":[false,true]},
     "resourceTable":{"lib":[0]},"stringArray":["native","script","a.js"]}]}"#;

#[test]
fn firefox_and_samply() {
    assert_eq!(
        read(FIREFOX.as_bytes()),
        ["main samples native;script 1 at 1500000", "main samples native 2 at 2500000", "main samples  1 at 3000000",]
    );
    // Newer versions have one set of tables for all threads.
    let (threads, tables) = FIREFOX.split_once("\"stackTable\"").expect("tables");
    let shared = format!(
        "{}}}],\"shared\":{{\"stackTable\"{}}}}}",
        threads.trim_end().trim_end_matches(','),
        tables.trim_end_matches("}]}")
    );
    assert_eq!(read(shared.as_bytes()), read(FIREFOX.as_bytes()));
    // Version 66 has distances between stacks, and version 70 libraries of frames.
    let newest = shared
        .replace(r#""prefix":[null,0,7]"#, r#""prefixOffset":[0,1,9]"#)
        .replace(r#""frameTable":{"func":[0,1]}"#, r#""frameTable":{"func":[0,1],"lib":[0,-1]}"#)
        .replace(r#""resourceTable":{"lib":[0]},"#, "");
    assert_eq!(read(newest.as_bytes()), read(FIREFOX.as_bytes()));
    let dsos = |text: &str| {
        let mut batch = Batch::default();
        open(text.as_bytes()).expect("a profile").next(&mut batch).expect("no fault");
        batch.named.names.iter().map(|frame| frame.dso.to_string()).collect::<Vec<_>>()
    };
    assert_eq!([dsos(&newest), dsos(FIREFOX)], [["/lib/x.so", "a.js"]; 2]);
    let raw = FIREFOX.replace("preprocessedProfileVersion", "version");
    // Its tables have another form.
    for raw in [raw.clone(), raw.replace(r#""libs":[{"path":"/lib/x.so","name":"x.so"}]"#, r#""libs":"[]""#)] {
        assert!(matches!(open(raw.as_bytes()), Err(ImportError::Unsupported(_))), "{raw}");
    }
}

#[test]
fn other_json_is_refused() {
    assert!(matches!(open(br#"{"a":1,"b":[]}"#), Err(ImportError::OtherJson(names)) if names == "a, b"));
    assert!(matches!(open(br#"{"traceEvents":[]}"#), Err(ImportError::Unsupported(_))));
    assert!(matches!(open(br#"{"nodes":[{"id":"x"}]}"#), Err(ImportError::Json(_))));
    assert!(matches!(open(br#"{"nodes":[]}"#), Err(ImportError::Lacks(_))));
}

#[test]
fn long_stacks_lose_their_outer_callers() {
    let frames: Vec<String> = (0..5000).map(|at| format!("{{\"name\":\"f{at}\"}}")).collect();
    let stack: Vec<String> = (0..5000).map(|at| at.to_string()).collect();
    let text = format!(
        r#"{{"shared":{{"frames":[{}]}},"profiles":[{{"unit":"none","samples":[[{}]],"weights":[1]}}]}}"#,
        frames.join(","),
        stack.join(",")
    );
    let mut source = open(text.as_bytes()).expect("a profile");
    let all = lines(&mut source);
    assert!(all[0].starts_with("[unknown] samples f904;") && all[0].ends_with("f4999 1") && source.profile.cut == 1);
}

#[test]
fn small_files_do_not_become_large() {
    // A text that many samples refer to, and many frames of one location.
    let mut strings = vec![String::new(), "samples".into(), "count".into(), "x".repeat(1 << 20)];
    strings.extend((0..5).map(|at| at.to_string()));
    let label = Label { key: 3, text: 3, ..Label::default() };
    let profile = Profile {
        sample_type: vec![ValueType { kind: 1, unit: 2 }],
        sample: (0..20)
            .map(|at| Sample { location: vec![1; 9000], value: vec![1], label: vec![label.clone(); 100 + at] })
            .collect(),
        location: vec![Location {
            id: 1,
            line: vec![Line { function: 1, ..Line::default() }; 9000],
            ..Location::default()
        }],
        function: vec![Function { id: 1, name: 3, ..Function::default() }],
        strings: strings.into_iter().collect(),
        ..Profile::default()
    };
    let mut source = open(&profile.encode_to_vec()).expect("a profile");
    let all = lines(&mut source);
    assert!(all.len() == 20 && all[0].len() < 4097 * 4098 && source.profile.labels.left_out > 0);
    // Numbers of functions that are far apart.
    let funcs = (0..100_u64).map(|at| (at * 40_000_000).to_string()).collect::<Vec<_>>().join(",");
    let far = FIREFOX.replace("\"func\":[0,1]", &format!("\"func\":[{funcs}]"));
    let frames = (0..100).map(|at| at.to_string()).collect::<Vec<_>>().join(",");
    let far = far.replace("\"frame\":[0,1,1]", &format!("\"frame\":[{frames}]"));
    assert_eq!(read(far.as_bytes()).len(), 3);
    let many = format!(r#"{{"meta":{{"preprocessedProfileVersion":49}},"threads":[{}{{}}]}}"#, "{},".repeat(1 << 16));
    let error = open(many.as_bytes()).expect_err("too many").to_string();
    assert!(error.contains("65536 threads"), "{error}"); // words: ok
}
