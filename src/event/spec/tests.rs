//! Event specifications of each kind, groups, and faults with their place.

use super::*;
use crate::damage;

fn places(dir: &Path) -> LookupPaths {
    for (path, text) in [
        ("pmu/cpu/type", "4"),
        ("pmu/cpu/format/event", "config:0-7"),
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
fn what_is_no_pmu_has_no_terms() {
    let said = |text: &str| check(text).expect_err(text).to_string();
    assert!(said("bpf-output/no-inherit=1,name=x/").contains("BPF programs that perf itself loads"));
    assert!(said("cpu-clock/freq=99/").contains("takes no terms: -F and -c"));
    assert!(said("gpu/freq=99/").contains("no PMU called gpu"));
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
    assert!(event.set_modifiers("uS").is_err_and(|fault| fault.to_string().contains("S is of a group")));
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
        ("mem:zz", 4, "expected an address"),
        ("mem:0x1000/3", 11, "1, 2, 4 or 8"),
        ("sched:sched_swich", 0, "nearest: sched:sched_switch"),
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
        "cpu-clock/freq=99,call-graph=fp/",
    ];
    damage::reaching(512, 10, damage::texts(TEXTS), |text| check(&text).map_err(|f| f.to_string()).is_ok());
}
