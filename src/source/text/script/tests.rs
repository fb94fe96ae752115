//! Tests of `perf script` lines with many and with few fields.

use super::*;

fn header(text: &[u8]) -> Option<ScriptHeader<'_>> {
    match line(text) {
        ScriptLine::Sample(header) if !header.is_bare => Some(header),
        _ => None,
    }
}

#[test]
fn comms_of_any_shape() {
    let h = header(b"a 1 [b] 12/13 [002] 7.000001: 99 cycles: ").expect("header");
    assert_eq!((h.comm, h.pid, h.tid, h.cpu, h.time, h.period), (&b"a 1 [b]"[..], 12, 13, Some(2), 7_000_001_000, 99));
    let h = header(b"spin-nofp 11118  2918.902178462:  1   page-faults/call-graph=fp/: ").expect("header");
    assert_eq!((h.event, h.period), (&b"page-faults/call-graph=fp/"[..], 1));
    assert_eq!(header(b"hello 12 world"), None);
    assert_eq!(header(b""), None);
}

#[test]
fn lines_of_few_fields() {
    // (line, comm, tid, time, period, event, frame)
    type Want = (&'static str, &'static str, i32, u64, u64, &'static str, bool);
    let wants: [Want; 26] = [
        (
            "ls 15242 U     44642.628603:     200000 cpu-clock: ",
            "ls",
            15242,
            44_642_628_603_000,
            200_000,
            "cpu-clock",
            false,
        ),
        ("44642.5: ", "", -1, 44_642_500_000_000, 1, "", false),
        ("ls 44642.5: cpu-clock: ", "ls", -1, 44_642_500_000_000, 1, "cpu-clock", false),
        ("              ls 15242 44642.5: ", "ls", 15242, 44_642_500_000_000, 1, "", false),
        ("ls 15242     200000 cpu-clock: ", "ls", 15242, 0, 200_000, "cpu-clock", false),
        ("a b 15/16 [001] cpu-clock: ", "a b", 16, 0, 1, "cpu-clock", false),
        ("              ls 15141  ffffffff81621723 __alloc_frozen_pages_noprof", "ls", 15141, 0, 1, "", true),
        ("              ls 15141      5560084a2753 [unknown]", "ls", 15141, 0, 1, "", true),
        (" ffffffff81621723 __alloc_frozen_pages_noprof", "", -1, 0, 1, "", true),
        (
            "              sh 15150 sched:sched_stat_runtime: comm=sh pid=15150",
            "sh",
            15150,
            0,
            1,
            "sched:sched_stat_runtime",
            false,
        ),
        (
            "              sh 15150 [001] 4.5: sched:sched_switch: prev_comm=sh (x)",
            "sh",
            15150,
            4_500_000_000,
            1,
            "sched:sched_switch",
            false,
        ),
        ("15242/15242 [000] 4.5: cpu-clock: ", "", 15242, 4_500_000_000, 1, "cpu-clock", false),
        ("ls 15242 [003] ", "ls", 15242, 0, 1, "", false),
        ("              ls           401000 main", "ls", -1, 0, 1, "", true),
        ("              ls 15242           401000 main", "ls", 15242, 0, 1, "", true),
        ("              ls     401000 cycles: ", "ls", -1, 0, 401_000, "cycles", false),
        (
            "ls 15242 4.5:    1001001 cpu-clock:     5560084a2753 f (ls)",
            "ls",
            15242,
            4_500_000_000,
            1_001_001,
            "cpu-clock",
            true,
        ),
        ("ls 15242 4.5:    1001001     5560084a2753 f (ls)", "ls", 15242, 4_500_000_000, 1_001_001, "", true),
        ("ls 15242 4.5:    401000 f (ls)", "ls", 15242, 4_500_000_000, 1, "", true),
        ("              sh 15150 comm=sh pid=15150 [ns]", "sh", 15150, 0, 1, "", false),
        ("              sh comm=sh pid=15150 [ns]", "sh", -1, 0, 1, "", false),
        ("              sh", "sh", -1, 0, 1, "", false),
        ("cpu-clock: ", "", -1, 0, 1, "cpu-clock", false),
        (" raw_syscalls:sys_exit: NR 0 = 0", "", -1, 0, 1, "raw_syscalls:sys_exit", false),
        ("sched:sched_switch: prev_comm=a b", "", -1, 0, 1, "sched:sched_switch", false),
        ("cpu-clock:  ffffffff81621723 __alloc ([kernel.kallsyms])", "", -1, 0, 1, "cpu-clock", true),
    ];
    for (text, comm, tid, time, period, event, frame) in wants {
        let h = header(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        let got = (h.comm, h.tid, h.time, h.period, h.event, h.frame.is_some());
        assert_eq!(got, (comm.as_bytes(), tid, time, period, event.as_bytes(), frame), "{text}");
    }
    for bare in ["ls ", "ls 15242 ", "ls 15242     200000 ", "mine: "] {
        assert!(matches!(line(bare.as_bytes()), ScriptLine::Sample(ScriptHeader { is_bare: true, .. })), "{bare}");
    }
    for record in ["sh  0 [000]  0.000000: PERF_RECORD_COMM: sh:2/2", "0 0 PERF_RECORD_FINISHED_ROUND"] {
        assert_eq!(line(record.as_bytes()), ScriptLine::Record);
    }
    assert_eq!(line(b"  cpu-features.c:251"), ScriptLine::Other);
}

#[test]
fn frames_of_few_fields() {
    let mut batch = Batch::default();
    let mut names = TextNames::default();
    for text in ["\t 153e0 update", "\tffffffff81b9764c f(int)+0xc", "\t 153e0", "\t 1 f(int)", "\t 2 g (inlined)"] {
        frame(text.as_bytes()).expect(text).id(&mut names, &mut batch);
    }
    let got: Vec<(&str, &str)> = batch.named.names.iter().map(|n| (&*n.name, &*n.dso)).collect();
    let want = [
        ("update", "[unknown]"),
        ("f(int)", "[kernel.kallsyms]"),
        ("[unknown]", "[unknown]"),
        ("f(int)", "[unknown]"),
        ("g", "inlined"),
    ];
    assert_eq!(got, want);
}

#[test]
fn a_deleted_file_keeps_its_parentheses() {
    let mut batch = Batch::default();
    let mut names = TextNames::default();
    let known = frame(b"\t 12 f(int)+0x3 (/tmp/a (deleted))").expect("a frame");
    assert_eq!(known.id(&mut names, &mut batch), 0);
    assert_eq!((&*batch.named.names[0].name, &*batch.named.names[0].dso), ("f(int)", "/tmp/a (deleted)"));
    assert_eq!(frame(b"\tnonsense"), None);
}

#[test]
fn events_are_what_their_names_and_first_samples_say() {
    use crate::perfdata::EventUnit;
    let of = |text: &'static str| {
        let header = header(text.as_bytes()).expect("a sample");
        describe_event(std::str::from_utf8(header.event).expect("text"), &header)
    };
    let clock = of("prog 100/101 [003] 3.0: 250000 cpu-clock:u: 401000 f+0x1 (/b)");
    assert_eq!((clock.attr.kind, clock.unit()), (TYPE_SOFTWARE, EventUnit::Nanoseconds));
    assert_eq!(clock.attr.sample_type, field::IP | field::TID | field::TIME | field::CPU);
    let point = of("prog 100 syscalls:sys_enter_clock_nanosleep: which_clock: 0x1");
    assert_eq!((point.attr.kind, point.unit()), (TYPE_TRACEPOINT, EventUnit::Count));
    assert_eq!(point.attr.sample_type, field::IP | field::TID | field::CALLCHAIN);
    assert_eq!(of("a 1 2.5: 7 uncore_imc_0/clockticks/: ").unit(), EventUnit::Count);
    assert_eq!(of("a 1 2.5: 7 offcpu-time: ").unit(), EventUnit::Nanoseconds);
    assert!(!of("a 1 2.5: 7 duration_time: ").is_dummy());
}

#[test]
fn the_words_of_a_tracepoint_are_kept() {
    let trace =
        |text: &'static str| String::from_utf8_lossy(header(text.as_bytes()).expect("a sample").trace).into_owned();
    assert_eq!(
        trace("prog 1 [000] 1.5: 1 sched:sched_switch: prev_comm=a ==> next_comm=my app: x 5"),
        "prev_comm=a ==> next_comm=my app: x 5"
    );
    assert_eq!(trace("prog 1 [000] 1.5: 1 sched:sched_switch: "), "");
    assert_eq!(trace("prog 1 [000] 1.5: 250000 cpu-clock:u: 401000 f+0x1 (/b)"), "");
}
