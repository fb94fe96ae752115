//! Compares clauses with the samples that they should match.

use super::*;
use crate::event::format::Format;
use crate::filter::KnownFields;
use crate::profile::Acc;
use crate::query::Aggregate;
use crate::query::staged::Staged;
use crate::record::Record;

/// The samples of an event that pass; some are evaluated before the others.
fn passed(data: Data<'_>, event: usize, text: &str) -> Acc {
    let filter = Filter::parse_with(text, KnownFields::Any).unwrap_or_else(|fault| panic!("{fault}"));
    let mut fold = Aggregate::new(event, Some(Arc::new(filter)));
    fold.update(data, 0..2);
    fold.update(data, 0..u64::MAX);
    fold.total()
}

/// A machine with softirqs, an idle loop and a user program. Each sample's weight is a different power of two.
fn machine() -> Staged {
    let mut staged = Staged::default();
    staged.session.name_hosts(["here".into()]);
    staged.session.apply(&Record::Cgroup { id: 7, path: b"/web" }, 0);
    staged.comm(5, 105, false, "five");
    let stacks = [
        staged.stack(&["main", "lib:work"]),
        staged.stack_in("kernel", &["do_idle", "default_idle"]),
        staged.stack_in("kernel", &["do_idle", "__do_softirq", "net_rx_action", "poll"]),
        // The function of an idle CPU, but in a task.
        staged.stack_in("kernel", &["tcp_send", "native_safe_halt"]),
        NodeId::ROOT,
    ];
    for (i, (pid, stack, cgroup)) in [(5, 0, 7), (0, 1, 0), (0, 2, 0), (6, 3, 0), (6, 4, 9)].into_iter().enumerate() {
        let task = staged.session.task_in(pid, pid + 100 * i32::from(pid > 0), cgroup);
        let site = crate::profile::Site { task, stack: stacks[stack], trace: Default::default() };
        let site = staged.profile.sites.intern(site);
        staged.profile.push(1000 + i as u64 * 1_000_000_000, site, 1 << i, i as u16, (i == 3) as u16);
    }
    staged
}

#[test]
fn each_clause_on_a_machine_at_work() {
    let machine = machine();
    let data = Data { start: 1000, ..machine.data() };
    for (text, want) in [
        ("comm == five", 1),
        ("comm == five && cpu == 0 || event == faults", 9),
        ("pid == 5", 1),
        ("tid == 105", 1),
        ("tid == 5", 0),
        ("tid != 105", 30),
        ("cpu in 1-2", 6),
        ("cgroup == \"/web\"", 1),
        ("cgroup != \"/web\"", 30),
        ("host == here", 31),
        ("host == there", 0),
        ("user", 1),
        ("kernel", 14),
        ("kernel && !user", 14),
        ("dso == \"[kernel.kallsyms]\"", 14),
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
        ("lang == kernel", 14),
        ("lang == native", 1),
        ("lang == python", 0),
        ("sym == work", 1),
        ("sym == main", 0),
        ("sym == native_safe_halt", 8),
        ("stack ~ tcp_*", 8),
        ("stack == main", 1),
        ("stack ~ \"do_*\"", 6),
        ("!(stack ~ do_*)", 25),
        ("event == faults", 8),
        ("event == cycles", 23),
        ("time < 2s", 3),
        ("time >= 2s", 28),
        ("time >= 1 && time < 2500ms", 6),
        ("period >= 4", 28),
        ("period == 4 || cpu == 0", 5),
        ("user && cpu == 0 || idle && cpu == 0", 1),
        ("stack == main || context == idle || cpu in 4-9", 19),
        (&["cpu == 0"; 12].join(" || "), 1),
    ] {
        assert_eq!(passed(data, 0, text).period + passed(data, 1, text).period, want, "{text}");
    }
}

#[test]
fn a_verdict_follows_the_names() {
    let mut staged = Staged::default();
    staged.sample(1, 1, &["old", "leaf"], 5);
    let evaluator = |text: &str| FilterEvaluator::new(Arc::new(Filter::parse(text).expect("parses")));
    for (text, before, after, changed) in [
        ("sym == new", FilterResult::No, FilterResult::Yes, true),
        ("stack == old", FilterResult::Yes, FilterResult::Yes, false),
        ("pid == 1", FilterResult::Yes, FilterResult::Yes, false),
        ("cpu == 1 && sym == new", FilterResult::No, FilterResult::Open, true),
        ("cpu == 1", FilterResult::Open, FilterResult::Open, false),
        ("cpu == 1 && sym == leaf || cpu == 2 && sym == new", FilterResult::Open, FilterResult::Open, true),
    ] {
        let mut evaluator = evaluator(text);
        assert_eq!(evaluator.update(staged.data()), [0u32; 0], "{text}: what is new has not changed");
        assert_eq!(evaluator.results, [before], "{text}");
        assert_eq!(evaluator.update(staged.data()), [0u32; 0]);
        let dso = staged.dso("app");
        staged.profile.frames.set_named(crate::profile::FrameId(1), &dso, "new".into());
        let changed = if changed { vec![0] } else { Vec::new() };
        assert_eq!((evaluator.update(staged.data()), &evaluator.results[..]), (changed, &[after][..]), "{text}");
        staged.profile.frames.set_named(crate::profile::FrameId(1), &dso, "leaf".into());
    }
}

#[test]
fn fields_of_tracepoints_where_they_lie() {
    let mut staged = Staged::default();
    let format = "name: x\nID: 1\nformat:\n\tfield:int n;\toffset:0;\tsize:4;\tsigned:1;\n\tfield:char t[4];\toffset:4;\tsize:4;\tsigned:0;\n\tfield:unsigned short a[2];\toffset:4;\tsize:4;\tsigned:0;\n\nprint fmt: \"\"\n";
    staged.profile.set_format(1, Arc::new(Format::parse("s", format, false).expect("parses")));
    let site = staged.site(1, &["main"]);
    for (event, n, text) in [(1u16, -5i32, b"ab\0x"), (1, 7, b"abcd"), (0, 7, b"abcd")] {
        staged.profile.push_raw(1, site, 1, 0, event, &[&n.to_le_bytes()[..], text].concat());
    }
    staged.profile.push(1, site, 1, 0, 1);
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
        assert_eq!(passed(staged.data(), 1, text).samples, want, "{text}");
    }
}

#[test]
fn a_function_called_like_an_event_is_none() {
    let mut staged = Staged::default();
    staged.sample(1, 1, &["faults"], 5);
    for (text, want) in [("event == faults", 0), ("event == cycles", 1), ("sym == faults", 1)] {
        assert_eq!(passed(staged.data(), 0, text).samples, want, "{text}");
    }
}

#[test]
fn a_verdict_follows_ids() {
    let mut staged = Staged::default();
    staged.site(2, &["gone"]);
    staged.sample(1, 1, &["here"], 5);
    let mut evaluator = FilterEvaluator::new(Arc::new(Filter::parse("pid == 1").expect("parses")));
    evaluator.follow(staged.data());
    assert_eq!(evaluator.results, [FilterResult::No, FilterResult::Yes]);
    staged.profile.compact(&mut staged.session);
    evaluator.follow(staged.data());
    assert_eq!(evaluator.results, [FilterResult::Yes]);
}
