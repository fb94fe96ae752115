//! Clauses beside samples that each of them holds for.

use super::*;
use crate::profile::{Frame, Profile, Site};
use crate::session::{MapId, Origin, Session};

/// A small profile: two tasks on three stacks, four samples, two events.
fn count(text: &str) -> u64 {
    let (mut session, mut profile) = (Session::new(Origin::Recorded), Profile::default());
    let name = |pid, name| crate::record::Record::Comm { pid, tid: pid, exec: false, name };
    session.apply(&name(1, b"one"), 0);
    session.apply(&name(2, b"two"), 0);
    let dso = session.dsos.of_map(MapId::KERNEL).clone();
    let mut node = NodeId::ROOT;
    let mut stacks = Vec::new();
    for (ip, function) in (1..).zip(["start", "tcp_send", "native_safe_halt"]) {
        let frame = profile.frames.intern(Frame { map: MapId::KERNEL, caller: false, ip });
        profile.frames.set_named(frame, &dso, function.into());
        node = profile.trie.child(node, frame);
        stacks.push(node);
    }
    for (i, (pid, stack, cpu, event)) in [(1, 0, 0, 0), (1, 1, 1, 0), (2, 1, 2, 0), (2, 2, 3, 1)].iter().enumerate() {
        let task = session.task(*pid, *pid);
        let site = profile.sites.intern(Site { task, stack: stacks[*stack], trace: Default::default() });
        profile.push(i as u64 * 1_000_000_000, site, 1, *cpu, *event);
    }
    let events = ["cycles".to_owned(), "faults".to_owned()];
    let data = Data { events: &events, ..Data::new(&session, &profile) };
    let filter = Arc::new(Filter::parse(text).expect("filter"));
    let folds = [0, 1].map(|event| {
        let mut fold = super::super::Aggregate::new(event, Some(filter.clone()));
        fold.update(data, 0..2);
        fold.update(data, 0..u64::MAX);
        fold.total().samples
    });
    folds.iter().sum()
}

#[test]
fn every_field_decides() {
    for (text, want) in [
        ("comm == one", 2),
        ("pid == 2", 2),
        ("tid != 2", 2),
        ("cpu in 1-2", 2),
        ("sym == tcp_send", 2),
        ("stack ~ \"tcp_*\"", 3),
        ("!(stack ~ tcp_*)", 1),
        ("dso == \"[kernel.kallsyms]\"", 4),
        ("kernel && !user", 4),
        ("event == faults", 1),
        ("time >= 1 && time < 2500ms", 2),
        ("comm == one && cpu == 1 || event == faults", 2),
        ("idle", 0),
        (&["cpu == 0"; 12].join(" || "), 1),
    ] {
        assert_eq!(count(text), want, "{text}");
    }
}

/// Samples of a machine with softirqs, an idle loop and a user program, each with a weight of its own power of two.
fn weights(text: &str) -> u64 {
    use crate::query::staged::Staged;
    let mut staged = Staged::default();
    staged.session.name_hosts(["here".into()]);
    staged.session.apply(&crate::record::Record::Cgroup { id: 7, path: b"/web" }, 0);
    let kernel = staged.session.dsos.of_map(MapId::KERNEL).clone();
    let stack = |profile: &mut Profile, names: &[&str]| {
        names.iter().fold(NodeId::ROOT, |node, name| {
            let ip = name.bytes().fold(3u64, |n, b| n.wrapping_mul(131).wrapping_add(u64::from(b)));
            let frame = profile.frames.intern(Frame { map: MapId::KERNEL, caller: false, ip });
            profile.frames.set_named(frame, &kernel, (*name).into());
            profile.trie.child(node, frame)
        })
    };
    let user = staged.stack(&["main", "lib:work"]);
    let stacks = [
        user,
        stack(&mut staged.profile, &["do_idle", "default_idle"]),
        stack(&mut staged.profile, &["do_idle", "__do_softirq", "net_rx_action", "poll"]),
        stack(&mut staged.profile, &["entry", "tcp_send"]),
        NodeId::ROOT,
    ];
    for (i, (pid, stack, cgroup)) in [(5, 0, 7), (0, 1, 0), (0, 2, 0), (6, 3, 0), (6, 4, 9)].into_iter().enumerate() {
        let task = staged.session.task_in(pid, pid + 100 * i32::from(pid > 0), cgroup);
        let site = staged.profile.sites.intern(Site { task, stack: stacks[stack], trace: Default::default() });
        staged.profile.push(1000 + i as u64 * 1_000_000_000, site, 1 << i, i as u16, (i == 3) as u16);
    }
    let filter = Arc::new(Filter::parse(text).unwrap_or_else(|fault| panic!("{fault}")));
    let data = Data { start: 1000, ..staged.data() };
    [0, 1]
        .into_iter()
        .map(|event| {
            let mut fold = super::super::Aggregate::new(event, Some(filter.clone()));
            fold.update(data, 0..u64::MAX);
            fold.total().period
        })
        .sum()
}

#[test]
fn each_clause_on_a_machine_at_work() {
    for (text, want) in [
        ("pid == 5", 1),
        ("tid == 105", 1),
        ("tid == 5", 0),
        ("cgroup == \"/web\"", 1),
        ("cgroup != \"/web\"", 30),
        ("host == here", 31),
        ("host == there", 0),
        ("user", 1),
        ("kernel", 14),
        ("!kernel", 17),
        ("idle", 2),
        ("!idle", 29),
        ("context == task", 1 + 8 + 16),
        ("context == idle", 2),
        ("context == softirq", 4),
        ("softirq == NET_RX", 4),
        ("softirq ~ \"*\"", 4),
        ("softirq == TIMER", 0),
        ("dso == lib", 1),
        ("sym == work", 1),
        ("sym == main", 0),
        ("stack == main", 1),
        ("stack ~ \"do_*\"", 6),
        ("event == faults", 8),
        ("event == cycles", 23),
        ("time < 2s", 3),
        ("time >= 2s", 28),
        ("period >= 4", 28),
        ("period == 4 || cpu == 0", 5),
        ("user && cpu == 0 || idle && cpu == 0", 1),
        ("stack == main || context == idle || cpu in 4-9", 19),
    ] {
        assert_eq!(weights(text), want, "{text}");
    }
}

#[test]
fn a_verdict_follows_the_names() {
    let mut staged = crate::query::staged::Staged::default();
    staged.sample(1, 1, &["old", "leaf"], 5);
    let judge = |text: &str| FilterEvaluator::new(Arc::new(Filter::parse(text).expect("parses")));
    for (text, before, after, changed) in [
        ("sym == new", Verdict::No, Verdict::Yes, true),
        ("stack == old", Verdict::Yes, Verdict::Yes, false),
        ("pid == 1", Verdict::Yes, Verdict::Yes, false),
        ("cpu == 1 && sym == new", Verdict::No, Verdict::Open, true),
        ("cpu == 1", Verdict::Open, Verdict::Open, false),
        ("cpu == 1 && sym == leaf || cpu == 2 && sym == new", Verdict::Open, Verdict::Open, true),
    ] {
        let mut judge = judge(text);
        assert_eq!(judge.update(staged.data()), [0u32; 0], "{text}: what is new has not changed");
        assert_eq!(judge.verdicts, [before], "{text}");
        assert_eq!(judge.update(staged.data()), [0u32; 0]);
        let dso = staged.session.dsos.all().iter().find(|dso| &*dso.short == "app").expect("app").clone();
        staged.profile.frames.set_named(crate::profile::FrameId(1), &dso, "new".into());
        let changed = if changed { vec![0] } else { Vec::new() };
        assert_eq!((judge.update(staged.data()), &judge.verdicts[..]), (changed, &[after][..]), "{text}");
        staged.profile.frames.set_named(crate::profile::FrameId(1), &dso, "leaf".into());
    }
    let mut followed = judge("pid == 1");
    followed.follow(staged.data());
    assert_eq!(followed.verdicts, [Verdict::Yes]);
    staged.profile.compact(&mut staged.session);
    staged.sample(2, 2, &["old"], 5);
    followed.follow(staged.data());
    assert_eq!(followed.verdicts, [Verdict::Yes, Verdict::No]);
}

#[test]
fn fields_of_tracepoints_where_they_lie() {
    let mut staged = crate::query::staged::Staged::default();
    let format = "name: x\nID: 1\nformat:\n\tfield:int n;\toffset:0;\tsize:4;\tsigned:1;\n\tfield:char t[4];\toffset:4;\tsize:4;\tsigned:0;\n\tfield:unsigned short a[2];\toffset:4;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n";
    staged.profile.set_format(1, Arc::new(Format::parse("s", format, false).expect("parses")));
    let site = staged.site(1, &["main"]);
    for (event, n, text) in [(1u16, -5i32, b"ab\0x"), (1, 7, b"abcd"), (0, 7, b"abcd")] {
        staged.profile.push_raw(1, site, 1, 0, event, &[&n.to_le_bytes()[..], text].concat());
    }
    staged.profile.push(1, site, 1, 0, 1);
    let count = |text: &str| -> u64 {
        let filter = Arc::new(Filter::parse_with(text, crate::filter::KnownFields::Any).expect("parses"));
        let mut fold = super::super::Aggregate::new(1, Some(filter));
        fold.update(staged.data(), 0..u64::MAX);
        fold.total().samples
    };
    for (text, want) in [
        ("n == -5", 1),
        ("n > -9", 2),
        ("n & 2", 2),
        ("n & 4", 1),
        ("t == ab", 1),
        ("t ~ \"ab*\"", 2),
        ("t != ab", 2),
        ("nothing == 1", 0),
        ("pid == 1 && n == 7 && t == abcd", 1),
        ("pid == 2 || n == 7 && t == ab", 0),
        ("t ~ \"*\"", 2),
        ("a == \"{0x6261, 0x6463}\"", 1),
    ] {
        assert_eq!(count(text), want, "{text}");
    }
}

#[test]
fn a_function_called_like_an_event_is_none() {
    let mut staged = crate::query::staged::Staged::default();
    staged.sample(1, 1, &["faults"], 5);
    for (text, want) in [("event == faults", 0), ("event == cycles", 1), ("sym == faults", 1)] {
        let mut fold = super::super::Aggregate::new(0, Some(Arc::new(Filter::parse(text).expect("parses"))));
        fold.update(staged.data(), 0..u64::MAX);
        assert_eq!(fold.total().samples, want, "{text}");
    }
}

#[test]
fn a_verdict_follows_ids() {
    let mut staged = crate::query::staged::Staged::default();
    staged.site(2, &["gone"]);
    staged.sample(1, 1, &["here"], 5);
    let mut judge = FilterEvaluator::new(Arc::new(Filter::parse("pid == 1").expect("parses")));
    judge.follow(staged.data());
    assert_eq!(judge.verdicts, [Verdict::No, Verdict::Yes]);
    staged.profile.compact(&mut staged.session);
    judge.follow(staged.data());
    assert_eq!(judge.verdicts, [Verdict::Yes]);
}
