//! Event specifications of each type, groups, and errors with their positions.

use std::path::Path;

use super::*;
use crate::damage;

fn places(dir: &Path) -> LookupPaths {
    for (path, text) in [
        ("pmu/cpu/type", "4"),
        ("pmu/cpu/format/event", "config:0-7"),
        ("pmu/cpu/events/loads", "event=0xcd,period=1000"),
        ("t/events/sched/sched_switch/id", "316"),
        ("t/events/sched/sched_waking/id", "317"),
        ("t/events/irq/softirq_entry/id", "42"),
    ] {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        std::fs::write(path, text).expect("write");
    }
    LookupPaths { pmus: dir.join("pmu"), tracefs: Ok(dir.join("t")) }
}

fn check(text: &str) -> Result<Vec<Event>, Diagnostic> {
    let dir = tempfile::tempdir().expect("dir");
    parse(text, &places(dir.path()))
}

#[test]
fn each_kind_of_event() {
    let events =
        check("cycles:pp, r1a8:u ,cpu/event=0x3c/k,mem:0x1000/8:w:u,sched:sched_switch,LLC-loads").expect("events");
    let names: Vec<&str> = events.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(
        names,
        ["cycles:pp", "r1a8:u", "cpu/event=0x3c/k", "mem:0x1000/8:w:u", "sched:sched_switch", "LLC-loads"]
    );
    let kinds: Vec<(u32, u64)> = events.iter().map(|e| (e.attr.kind, e.attr.config)).collect();
    assert_eq!(kinds, [(0, 0), (4, 0x1a8), (4, 0x3c), (5, 0), (2, 316), (3, 2)]);
    assert_eq!(events[0].attr.precise(), 2);
    assert!(events[1].attr.has(Flag::ExcludeKernel) && !events[1].attr.has(Flag::ExcludeUser));
    assert!(events[2].attr.has(Flag::ExcludeUser));
    assert_eq!((events[3].attr.config1, events[3].attr.config2, events[3].attr.bp_type), (0x1000, 8, 2));
    assert!(events[3].attr.has(Flag::ExcludeKernel));
}

#[test]
fn what_no_event_can_be_asked_for_is_refused_with_the_reason() {
    let said = |text: &str| check(text).expect_err(text).to_string();
    assert!(said("bpf-output/no-inherit=1,name=x/").contains("BPF programs that perf itself loads"));
    assert!(said("gpu/freq=99/").contains("no PMU gpu"));
    assert!(said("cpu_core/event=1/").contains("no PMU cpu_core: the counters of an x86 CPU"));
    assert!(
        said("cs/overwrite/")
            .contains("overwrite: a CPU's ring buffer is shared by all events; use record --overwrite")
    );
    assert!(said("cs/aux-output/").contains("AUX area"));
    assert!(said("sched:sched_switch/name=x/").contains("keeps its name"));
    assert!(said("cs/call-graph=tables,max-stack=4/").contains("call-graph=fp,max-stack=N"));
    assert!(said("cs/call-graph=lbr,branch_type=any/").contains("branch records"));
    assert!(said("cs/call-graph=orc/").contains("call-graph: call-graph=orc: expected fp"));
    assert!(said("cs/stack-size=70000/").contains("8 to 65528 bytes"));
    assert!(said("cs/time=2/").contains("expected 0 or 1"));
    assert!(said("cs/name/").contains("expected name=NAME"));
}

/// Each term's setting, as shown by `perf evlist -v` for equal recordings.
#[test]
fn any_event_takes_the_terms_that_all_have() {
    let one = |text: &str| check(text).expect(text).remove(0);
    let clock = one("cpu-clock/freq=99/u");
    assert_eq!((clock.name.as_str(), clock.own_rate()), ("cpu-clock/freq=99/u", Some(Rate::Frequency(99))));
    assert!(clock.attr.has(Flag::ExcludeKernel) && clock.is_clock());
    assert_eq!(one("cs/freq=99,period=0x100/").own_rate(), Some(Rate::Period(256)), "the last term wins");
    assert_eq!(one("cs/freq/").own_rate(), Some(Rate::Frequency(1)));
    assert!(one("cs/period=0/").no_samples && one("cs//").own_rate().is_none());
    for text in [
        "cs/period=1,name=x/",
        "cs/name='x',period=1/u",
        "r1a8/name=\"x\"/",
        "cpu/event=0x3c,name=x/",
        "mem:0x1000/8:w/name=x/",
        "mem:0x1000:w/name=x/u",
        "mem:0x1000/name=x/",
    ] {
        assert_eq!(one(text).name, "x", "{text}");
    }
    assert_eq!(one("cs/name='a b, c/d'/").name, "a b, c/d");
    assert_eq!(one("mem:0x1000/8:w/period=2/").attr.config2, 8);
    let switch = one("sched:sched_switch/call-graph=fp,max-stack=8/u");
    assert_eq!(
        (switch.name.as_str(), switch.chains, switch.attr.max_stack),
        ("sched:sched_switch", Some(CallGraph::Fp), 8)
    );
    assert!(switch.attr.has(Flag::ExcludeKernel));
    assert_eq!(
        check("sched:*/max-stack=3/").expect("both").iter().filter(|e| e.chains == Some(CallGraph::Fp)).count(),
        2
    );
    assert_eq!(one("cs/call-graph=no/").chains, Some(CallGraph::None));
    assert_eq!(one("cs/call-graph=dwarf,stack-size=4090/").chains, Some(CallGraph::Dwarf(4096)));
    assert_eq!((one("cs/stack-size=16/").chains, one("cs/max-stack=0/").chains), (None, None));
    assert_eq!(
        [
            "cs/inherit=0/",
            "cs/no-inherit/",
            "cs/inherit/",
            "cs/no-inherit=0/",
            "cs/time=0,nr=3,no-overwrite,metric-id=m/"
        ]
        .map(|text| one(text).inherit),
        [Some(false), Some(false), Some(true), Some(true), None]
    );
    assert!(one("cpu/event=0x3c,percore/").per_core);
    assert_eq!(one("cpu/branch_type=any/").attr.branch_sample_type, 1 << 3);
    assert_eq!(one("cpu-clock/config=1/").attr.config, 1);
    // An alias may contain terms that all events accept.
    let event = one("cpu/loads,name=l/");
    assert_eq!((event.attr.config, event.own_rate(), event.name.as_str()), (0xcd, Some(Rate::Period(1000)), "l"));
}

#[test]
fn a_number_of_p_is_meant_exactly() {
    let exact = |text: &str| check(text).expect(text).iter().map(|e| e.exact_precision).collect::<Vec<bool>>();
    assert_eq!(exact("cycles:pp,cycles:P,cycles,cpu/event=1,name=x/pp,{cycles}:p"), [true, false, false, true, true]);
}

#[test]
fn the_first_of_a_group_samples_for_all() {
    let led = |text: &str| -> Vec<(bool, bool)> {
        let events = parse(text, &LookupPaths::system()).expect("parses");
        events.iter().map(|event| (event.is_read(), event.is_led)).collect()
    };
    assert_eq!(led("{cpu-clock,page-faults}:S"), [(true, false), (true, true)]);
    assert_eq!(led("{cpu-clock:S,page-faults},minor-faults"), [(true, false), (true, true), (false, false)]);
    assert_eq!(led("{cpu-clock,page-faults}:u"), [(false, false), (false, false)]);
    assert_eq!(led("cpu-clock:Su"), [(true, false)]);
    let mut event = Event::cpu_clock();
    assert!(event.set_modifiers("uS").is_err_and(|fault| fault.to_string().contains("S applies to a whole group")));
    assert!(event.set_modifiers("u").is_ok());
}

#[test]
fn groups_and_globs() {
    let events = check("{cs,faults}:u,sched:*").expect("events");
    assert_eq!(events.iter().map(|e| e.group).collect::<Vec<_>>(), [Some(1), Some(1), None, None]);
    assert!(events[0].attr.has(Flag::ExcludeKernel));
    assert_eq!(events[3].name, "sched:sched_waking");
}

#[test]
fn faults_point_at_the_place() {
    for (text, at, words) in [
        ("cycles,cpu-clok", 7, "nearest: cpu-clock"),
        ("cycles:z", 7, "modifiers are"),
        ("cpu/evnt=1/", 4, "nearest: event"),
        ("gpu/event=1/", 0, "nearest: cpu"),
        ("cpu/event=1", 3, "second /"),
        ("cpu-clock/freq=9,inherrit=1/", 17, "nearest: inherit"),
        ("cpu/event=1, perid=3/", 13, "nearest: period"),
        ("cpu-clock/freq=x/", 10, "freq: x is not a number"),
        ("cs/freq=99/z", 11, "modifiers are"),
        ("mem:zz", 4, "expected an address"),
        ("mem:0x1000/3", 11, "1, 2, 4 or 8"),
        ("mem:0x1000/x/", 11, "unknown term"),
        ("sched:sched_swich", 0, "nearest: sched:sched_switch"),
        ("cs,openat", 3, "`perfprof-tui syscalls -e openat`, or syscalls:sys_enter_openat"),
        ("{cycles", 0, "not closed"),
        ("cycles,", 7, "missing"),
        ("", 0, "missing"),
    ] {
        let fault = check(text).expect_err(text);
        assert_eq!(fault.at, at, "{text}: {fault}");
        assert!(fault.to_string().contains(words), "{text}: {fault}");
    }
}

#[test]
fn no_text_panics() {
    const TEXTS: &[&str] = &[
        "cycles:pp",
        "r1a8:u ,cpu/event=0x3c/k",
        "mem:0x1000/8:w:u",
        "sched:sched_switch,LLC-loads",
        "{cs,faults}:u,sched:*",
        "cpu-clock/freq=99,call-graph=fp,name='a,/b'/pp",
        "mem:0x1000/8:w/stack-size=64,branch_type=any/",
    ];
    damage::reaching(512, 10, damage::texts(TEXTS), |text| check(&text).map_err(|f| f.to_string()).is_ok());
}

#[test]
fn what_is_of_user_code_alone_is_called_so() {
    let names = ["cycles", "cycles:u", "cycles:k", "cycles:ku", "cycles:kp", "cycles:p", "cpu/cycles/", "cpu/cycles/k"];
    let called = names.map(Event::user_only_name);
    let expected =
        ["cycles:u", "cycles:u", "cycles:u", "cycles:u", "cycles:up", "cycles:pu", "cpu/cycles/u", "cpu/cycles/u"];
    assert_eq!(called, expected);
}
