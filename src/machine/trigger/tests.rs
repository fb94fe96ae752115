//! Tests of triggers: their language, and the states of the machine that fire them.

use super::*;
use crate::damage;
use crate::machine::deadlocks::Deadlock;
use crate::machine::resources::{NetworkCounts, NetworkUse, Resources};
use crate::session::machine::Pressure;

const SECOND: u64 = 1_000_000_000;

fn host(softirq: &[f32]) -> HostView {
    let row = |(cpu, share): (u32, &f32)| {
        let mut row = CpuRow { cpu, online: true, vectors: vec![*share * 100.0], ..CpuRow::default() };
        (row.shares[Ticks::SOFTIRQ], row.shares[Ticks::IDLE]) = (*share, 100.0 - *share);
        row
    };
    let pressure = vec![("cpu", Pressure { some: 25.0, full: 0.0 })];
    let rows = (0..).zip(softirq).map(row).collect();
    HostView { rows, running: 5, vectors: vec!["TIMER".into()], pressure, ..HostView::default() }
}

fn run(text: &str, seconds: &[&[f32]]) -> Vec<Option<String>> {
    let mut trigger = Trigger::parse(text).expect(text);
    let events = [("sched:sched_switch".to_owned(), 60_000.0)];
    let look = |(at, shares): (u64, &&[f32])| {
        let host = host(shares);
        let lost = if at == 1 { 7 } else { 0 };
        trigger.look(TriggerInput { now: at * SECOND, host: Some(&host), lost, samples: 1998.0, events: &events })
    };
    (0..).zip(seconds).map(look).collect()
}

#[test]
fn a_share_must_last_on_one_and_the_same_cpu() {
    let seconds: &[&[f32]] = &[&[40.0, 0.0], &[0.0, 35.0], &[0.0, 45.0], &[0.0, 50.0], &[0.0, 1.0]];
    let fired = run("softirq% > 30 on any cpu for 2s", seconds);
    assert_eq!(fired, [None, None, None, Some("softirq% 50 on CPU 1 for 2 s".into()), None]);
    let fires = |text: &str| run(text, seconds).iter().filter(|f| f.is_some()).count();
    assert_eq!(
        (fires("softirq% > 30"), fires("softirq% > 30 on cpu 0"), fires("softirq% > 30 on all cpus")),
        (4, 1, 0)
    );
    assert_eq!(fires("idle% >= 50 on all cpus && softirq.TIMER > 4k"), 2);
    let quiet = run("softirq% < 2 on all cpus", &[&[0.0, 1.0]]);
    assert_eq!(quiet, [Some("softirq% 0.5 on all CPUs".into())]);
}

#[test]
fn figures_of_the_machine_and_the_session() {
    let two: &[&[f32]] = &[&[0.0, 0.0], &[0.0, 0.0]];
    let first = |text| run(text, two)[0].clone();
    assert_eq!(first("runqueue > 2*cpus"), Some("runqueue 5".into()));
    assert_eq!((first("runqueue > 3*cpus"), first("runqueue > cpus").is_some()), (None, true));
    assert_eq!(first("psi.cpu > 20"), Some("psi.cpu 25".into()));
    assert_eq!(first("psi.io > 0"), None, "what cannot be read does not hold");
    assert_eq!(first("sched:sched_switch > 50k"), Some("sched:sched_switch 60000".into()));
    assert_eq!(run("lost > 0", two), [None, Some("lost 7".into())]);
    assert_eq!(first("samples < 2k").as_deref(), Some("samples 1998"));
}

/// The present of this host has refused connections, which is bad, and nothing else.
#[test]
fn bad_findings_fire() {
    let counts = NetworkCounts { opened: 100, failed: 90, ..NetworkCounts::default() };
    let networks = vec![NetworkUse { process: None, counts }];
    let second = Resources { at: SECOND, length: SECOND, networks, ..Resources::default() };
    let host = HostView { history: [second].into_iter().collect(), ..HostView::default() };
    let look = |text: &str| {
        let mut trigger = Trigger::parse(text).expect(text);
        trigger.look(TriggerInput { now: SECOND, host: Some(&host), lost: 0, samples: 0.0, events: &[] })
    };
    let fired = Some("findings.network 1 (network: 90 % of connects fail; 90 of 100 a second)".to_owned());
    assert_eq!(look("findings.network > 0"), fired);
    assert_eq!((look("findings > 0").is_some(), look("findings.disk > 0")), (true, None));
    assert_eq!(look("findings.locks > 0"), None);
    let threads = vec![(43, "poster".into()), (44, "auditor".into())];
    let deadlocks = vec![Deadlock { pid: 42, comm: "bank".into(), threads }];
    let second = Resources { at: SECOND, length: SECOND, deadlocks, ..Resources::default() };
    let host = HostView { history: [second].into_iter().collect(), ..HostView::default() };
    let mut trigger = Trigger::parse("findings.locks > 0").expect("an area");
    let input = TriggerInput { now: SECOND, host: Some(&host), lost: 0, samples: 0.0, events: &[] };
    assert!(trigger.look(input).is_some_and(|fired| fired.contains("poster-43 ⇄ auditor-44")));
}

#[test]
fn faults_say_what_is_wrong() {
    for (text, at, why) in [
        ("softirq%", 8, "comparison is missing"),
        ("findings.x > 0", 0, "findings.AREA"),
        ("softirq > 3", 0, "unknown condition softirq; available: busy%"),
        ("softirq > 3", 0, "nearest: softirq%"),
        ("softirq% > x", 11, "x is not a number"),
        ("softirq% >", 10, "expected a value"),
        ("runqueue > 3 on any cpu", 13, "whole machine"),
        ("softirq% > 3 on some cpu", 16, "expected any cpu"),
        ("softirq% > 3 on cpu", 19, "the number of a CPU"),
        ("softirq% > 3 on cpu x", 20, "x is not a CPU number"),
        ("softirq% > 3 for ever", 17, "expected a time"),
        ("softirq% > 3 for 2sec", 17, "sec is not a unit of time"),
        ("softirq% > 3 twice", 13, "unexpected text"),
        ("softirq% > 3 &&", 15, "expected a figure"),
        ("softirq% = 3", 9, "expected one of"),
        ("softirq% > 3 & lost > 0", 13, "joined by &&"),
        ("", 0, "expected a figure"),
    ] {
        let fault = Trigger::parse(text).expect_err(text);
        assert!(fault.at == at && fault.line().contains(why), "{text}: {fault}");
    }
}

#[test]
fn no_text_panics() {
    const TEXTS: &[&str] = &[
        "softirq% > 30 on any cpu for 2s",
        "idle% >= 50 on all cpus && softirq.TIMER > 4k",
        "runqueue > 2*cpus",
        "psi.cpu > 20 && lost > 0",
        "findings.disk > 0 && findings > 1",
        "sched:sched_switch > 50k for 500ms",
        "samples < 2k",
    ];
    damage::reaching(512, 10, damage::texts(TEXTS), |text| {
        let Ok(mut trigger) = Trigger::parse(&text) else { return false };
        let host = host(&[1.0]);
        for now in [0, 1, SECOND, u64::MAX] {
            trigger.look(TriggerInput { now, host: Some(&host), lost: now, samples: 0.0, events: &[] });
        }
        true
    });
}
