//! Tests of the detection and the reading of text formats.

use super::*;

/// Returns all samples as (comm, event, period, time, frames root first).
pub(crate) fn read(text: &str) -> Vec<(String, u16, u64, u64, Vec<String>)> {
    let format = sniff(text.as_bytes()).expect("a profile");
    let reader = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
    let mut source = TextSource::new("t".into(), format, reader, 0);
    let (mut names, mut out) = (Vec::new(), Vec::new());
    loop {
        let mut batch = Batch::default();
        let step = source.next(&mut batch).expect("reads");
        names.extend(batch.named.names.iter().map(|n| format!("{}@{}", n.name, n.dso)));
        for s in &batch.named.samples {
            let ids = &batch.named.frames[s.frames.start as usize..s.frames.end as usize];
            let frames = ids.iter().rev().map(|f| names[*f as usize].clone()).collect();
            out.push((s.comm.to_string(), s.event, s.period, s.time, frames));
        }
        if matches!(step, Progress::End(_)) {
            return out;
        }
    }
}

#[test]
fn folded_stacks_with_marks_and_times() {
    let text = "# a comment\nnginx;main;tcp_send_[k] 12\n2026-11-21;03:04:05;a b;f;g_[j] 3\nx;inl_[i] 1\n";
    let got = read(text);
    assert_eq!(got[0], ("nginx".into(), 0, 12, 0, vec!["main@[unknown]".into(), "tcp_send@[kernel.kallsyms]".into()]));
    assert_eq!((&*got[1].0, got[1].4[1].as_str()), ("a b", "g@[jit]"));
    assert_eq!(got[1].3 % (86_400 * 1_000_000_000), (3 * 3600 + 4 * 60 + 5) * 1_000_000_000);
    assert_eq!(got[2].4, ["inl@[inlined]"]);
}

/// Names of Rust and Java with semicolons, also where the line before begins alike but does not close its bracket.
#[test]
fn semicolons_in_brackets_do_not_separate_frames() {
    let got = read("app;main;<[T; 4]>::f;g 1\na;b(c;d 2\na;b(c;d);e 3\na;b(c;d);e;f 4\nmain(x;y);a 5\n");
    let frames: Vec<String> =
        got.iter().map(|one| format!("{} {}", one.0, one.4.join("|").replace("@[unknown]", ""))).collect();
    assert_eq!(frames, ["app main|<[T; 4]>::f|g", "a b(c|d", "a b(c;d)|e", "a b(c;d)|e|f", "main(x;y) a"]);
}

/// async-profiler's output has threads only if they are requested.
#[test]
fn stacks_of_java_begin_with_a_thread_or_a_method() {
    let text = "java/lang/Thread.run;app/Main$1.work_[j];app/Main.spin_[0] 3\n\
                [http-nio 1 tid=4711];java/lang/Thread.run;read_[k] 2\njava-?/77;a/b.c 1\nstart_thread_[k];a 4\n";
    let got = read(text);
    let of = |at: usize| (&*got[at].0, got[at].4.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        of(0),
        ("java", vec!["java/lang/Thread.run@[unknown]", "app/Main$1.work@[jit]", "app/Main.spin@[interpreted]"])
    );
    assert_eq!(of(1), ("http-nio 1", vec!["java/lang/Thread.run@[unknown]", "read@[kernel.kallsyms]"]));
    assert_eq!(of(2), ("java-?/77", vec!["a/b.c@[unknown]"]));
    assert_eq!(of(3), ("java", vec!["start_thread@[kernel.kallsyms]", "a@[unknown]"]));
}

#[test]
fn frames_of_old_perfs_stand_behind_nothing() {
    let text = "java 19983 cycles:\nffffffff8103d0ca native_write ([kernel.kallsyms])\n7f7243090b7d f (/lib/x.so)\n\n\
                java 19983 cycles:\n400b3c g (/a (deleted))\n\n";
    let got = read(text);
    assert_eq!(got.len(), 2);
    assert_eq!((&*got[0].0, got[0].2), ("java", 1));
    assert_eq!(got[0].4, ["f@/lib/x.so", "native_write@[kernel.kallsyms]"]);
    assert_eq!(got[1].4, ["g@/a (deleted)"]);
}

#[test]
fn perf_script_as_perf_prints_it() {
    let text = "\
spin x 17520/17521 [001]  2024.627136880:    1001001 cpu-clock:ppp: 
\t            1224 burn_alpha+0x24 (/tmp/w/spin)
\tffffffff8175328f elf_load(int, char const*)+0x1af ([kernel.kallsyms])
\t           2724a [unknown] (/usr/lib/libc.so.6)

:12 12  1.5: page-faults:  ffffffff8175336a elf_load+0x28a ([kernel.kallsyms])
a 7 [000] 3.000000: sched:sched_switch: prev_comm=a (x)

";
    let got = read(text);
    assert_eq!(got.len(), 3);
    assert_eq!((&*got[0].0, got[0].2, got[0].3), ("spin x", 1_001_001, 2_024_627_136_880));
    assert_eq!(got[0].4[0], "[unknown]@/usr/lib/libc.so.6");
    assert_eq!(got[0].4[1..], ["elf_load(int, char const*)@[kernel.kallsyms]", "burn_alpha@/tmp/w/spin"]);
    assert_eq!((&*got[1].0, got[1].1, got[1].3, got[1].4.len()), (":12", 1, 1_500_000_000, 1));
    assert_eq!((got[2].1, got[2].4.len()), (2, 0));
}

#[test]
fn callers_where_no_code_is_stay_in_the_stack() {
    let text = "\
a 1  1.5: cycles:
\tffffffff8175328f f ([kernel.kallsyms])
\t            7fff [unknown] ([unknown])
\t            1224 g (/a)
\t            7ffe [unknown] ([unknown])
\t            1225 h (/a)
\t               0 [unknown] ([unknown])

a 1  1.6: cycles:
\t            1224 g (/a)
\t            1225 [unknown] (/a)
\t            7fff [unknown]
\t            7ffe [unknown] ([unknown])

";
    let got = read(text);
    let lost = "[unknown]@[unknown]";
    assert_eq!(got[0].4, [lost, "h@/a", lost, "g@/a", lost, "f@[kernel.kallsyms]"]);
    // A frame without a DSO in parentheses may be anywhere.
    assert_eq!(got[1].4, [lost, lost, "[unknown]@/a", "g@/a"]);
}

#[test]
fn fractions_are_summed_exactly_and_two_counts_are_two_events() {
    let periods = |text: &str| read(text).iter().map(|s| (s.1, s.2)).collect::<Vec<_>>();
    assert_eq!(periods(&"a;b 0.004\n".repeat(1000)).iter().map(|(_, period)| period).sum::<u64>(), 4000);
    assert_eq!(periods("a;b 0.4\na;c 0.6\na;d 1.4\na;e 2.5\n"), [(0, 4), (0, 6), (0, 14), (0, 25)]);
    assert_eq!(periods("a;b 10 12\na;c 0 3\na;d 7 0\n"), [(0, 10), (1, 12), (1, 3), (0, 7)]);
    assert_eq!(read("a;b 10 12\n")[0].4, ["b@[unknown]"]);
    let odd = "\u{feff}# a comment\r\na;b\t1e3  \r\nmain;worker 1 2.5e-1\r\n   \r\nm;x y +4.5\r\n";
    let got = read(odd);
    assert_eq!(got.iter().map(|s| s.2).collect::<Vec<_>>(), [100_000, 25, 450]);
    assert_eq!(
        got.iter().map(|s| &*s.4[0]).collect::<Vec<_>>(),
        ["b@[unknown]", "worker 1@[unknown]", "x y@[unknown]"]
    );
    assert_eq!(periods("a;b 99999999999999999999\na;c 1\n"), [(0, u64::MAX), (0, 1)]);
}

#[test]
fn a_bad_line_does_not_refuse_a_file() {
    for bad in ["not a stack\n", "WARNING: something\nwas -1 here\n", "a;b\n"] {
        for good in ["a;b 1\n", "a;b 1\na;c 2\n", "a;b 1\na;c 2\na;d 3\n"] {
            let lines = bad.lines().count();
            let text = format!("{bad}{}", good.repeat(1 + lines));
            assert_eq!(read(&text).len(), good.lines().count() * (1 + lines), "{text}");
        }
    }
    let reader = Box::new(std::io::Cursor::new(b"oops\na;b 1\na;c 1\n".to_vec()));
    let mut source = TextSource::new("t".into(), TextFormat::Folded, reader, 0);
    let mut batch = Batch::default();
    source.next(&mut batch).expect("reads");
    assert_eq!((batch.unread(), batch.named.samples.len()), (1, 2));
    assert!(batch.notes().next().is_some_and(|note| note.contains("the first is line 1")), "{:?}", batch.events);
}

#[test]
fn one_bad_line_of_two_is_left_out() {
    for (text, line) in [("a;b 1,5\na;c 2\n", 1), ("a;c 2\na;b 1,5\n", 2)] {
        assert_eq!(sniff(text.as_bytes()), Some(TextFormat::Folded), "{text:?}");
        let reader = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
        let mut source = TextSource::new("t".into(), TextFormat::Folded, reader, 0);
        let mut batch = Batch::default();
        source.next(&mut batch).expect("reads");
        assert_eq!((batch.unread(), batch.named.samples.len(), source.first_bad), (1, 1, Some(line)), "{text:?}");
    }
    assert_eq!(sniff(b"a;b 1,5\na;c 2,5\na;d 3\n"), None);
}

#[test]
fn what_is_no_profile_is_refused() {
    for text in ["hello world\n", "#!/bin/sh\nexit 1\n", "", "42\n", "{\"a\": 1}\n"] {
        assert_eq!(sniff(text.as_bytes()), None, "{text:?}");
    }
}

/// `-F` with `+addr`, `+data_src`, `+weight`, `+uregs`, `+brstack`, `+brstacksym`.
#[test]
fn fields_around_frames_are_no_frames() {
    let source = "|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A";
    let head = "prog   100 [000]     1.000000:    1000000 cpu-clock:";
    let before = [
        "         7ffe1000".to_owned(),
        "                7".to_owned(),
        format!("         68100142 {source}"),
        format!("         7ffe1000        68100142 {source}               7"),
        "         7ffe1000 [unknown] ([stack])".to_owned(),
    ];
    let behind = [
        " ABI:2    AX:0x11    BX:0x22 ",
        " 0x401010(/b/prog)/0x401020(/b/prog)/P/-/-/0/  0x401030(/b/prog)/0x401040(/b/prog)/M/-/-/0/ ",
        "[unknown](/b/prog)/g(int)::h()(/b/prog)/P/-/-/0/ f+0x1(/b/prog)/[unknown](/b/prog)/M/-/-/0/ ",
        " 0x401010/0x401020/P/-/-/0 ",
    ];
    let fields = before.iter().map(|text| (&**text, "")).chain(behind.iter().map(|text| ("", *text)));
    for (before, behind) in fields {
        let one = format!("            {head}{before}           401000 f+0x1 (/b/prog){behind}\n").repeat(2);
        let chain = format!("{head}{before}\n\t          401000 f+0x1 (/b/prog)\n\t          402000 g (/b/prog)\n");
        let chain = format!("{chain}{behind}\n\n").repeat(2);
        for (text, frames) in [(one, vec!["f@/b/prog"]), (chain, vec!["g@/b/prog", "f@/b/prog"])] {
            let got = read(&text);
            let frames: Vec<String> = frames.into_iter().map(str::to_owned).collect();
            let want = ("prog".to_owned(), 0, 1_000_000, 1_000_000_000, frames);
            assert_eq!(got, [want.clone(), want], "{text}");
        }
    }
}

#[test]
fn periods_have_all_64_bits() {
    let sample = |period: &str| format!("a 1/1 [000] 1.5: {period} cycles:u: \n\t  401000 f (/b)\n\n");
    let got = read(&["18446744073709551615", "18446744073709551616", "-1", "7"].map(sample).concat());
    assert_eq!(
        got.iter().map(|one| (one.1, one.2)).collect::<Vec<_>>(),
        [(0, u64::MAX), (0, u64::MAX), (0, 1), (0, 7)]
    );
}

/// Numbers of events have 16 bits: samples of the event 65,536 were those of event 0.
#[test]
fn events_above_the_limit_are_one_event() {
    let line = |event: usize| format!("a 1/1 [000] 1.5: 7 ev{event}: \n\t  401000 f{event} (/b)\n\n");
    let text: String = (0..70_000).chain([3]).map(line).collect();
    let reader = Box::new(std::io::Cursor::new(text.into_bytes()));
    let mut source = TextSource::new("t".into(), TextFormat::Script, reader, 0);
    let (mut events, mut of, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let mut batch = Batch::default();
        let step = source.next(&mut batch).expect("reads");
        events.extend(batch.events.iter().filter_map(|event| match event {
            SourceEvent::Event(event) => Some(event.name.clone()),
            _ => None,
        }));
        of.extend(batch.named.samples.iter().map(|sample| usize::from(sample.event)));
        notes.extend(batch.notes().map(str::to_owned));
        if matches!(step, Progress::End(_)) {
            break;
        }
    }
    let own = MAX_EVENTS - 1;
    assert_eq!(
        (events.len(), &*events[own - 1], &*events[own]),
        (MAX_EVENTS, &*format!("ev{}", own - 1), OTHER_EVENTS)
    );
    assert!(of[..70_000].iter().enumerate().all(|(at, event)| *event == at.min(own)) && of[70_000] == 3);
    let other = "65,905 samples belong to the event 'other events': only the first 4,095 events of a text are separate";
    assert_eq!(notes, [other]);
}
