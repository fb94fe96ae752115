//! Which CPUs stand out, and why, in words.
//!
//! A CPU stands out when its share of softirqs and interrupts is far above its peers' or its own
//! past's: by the modified z-score 0.6745·(x − median)/MAD of Iglewicz and Hoaglin ("How to Detect
//! and Handle Outliers", 1993), from their limit of 3.5 on, and by no less than some points. Medians,
//! unlike means, are not moved by the CPU that is looked for. Missing ticks and samples stand out by
//! themselves: there should be none. A CPU without peers and without a past, as in a recording of one
//! CPU, stands out from twice those points on.

use crate::query::context::VECTORS;
use crate::query::cpus::{self, CpuAnswer, CpuSamples};
use crate::session::machine::Ticks;

use super::cpus::{CpuRow, HostView, WINDOW};

/// From which z-score on a share is an outlier.
const Z: f64 = 3.5;
/// A spread of less than this is taken for this, in points: shares of one second are that coarse.
const LEAST_MAD: f64 = 1.0;
/// What stands out does so until it is below this part of the points.
const STAYS: f64 = 0.6;
/// Of how many expected samples on fewer of them are a finding.
const MIN_EXPECTED: f64 = 100.0;

/// Why a CPU stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Soft,
    MissingTicks,
    MissingSamples,
}

/// One CPU that stands out.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub cpu: u32,
    pub kind: Kind,
    /// How much, in percent of the CPU.
    pub share: f64,
    /// The softirq vector that it is about, where one is known.
    pub vector: Option<usize>,
    /// For the header: `CPU 32 softirq 43 %, peers 0 %; TIMER (estimation_timer)`.
    pub text: String,
    /// What it may mean and what to do.
    pub advice: &'static str,
}

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub host: Option<&'a HostView>,
    pub samples: Option<&'a CpuAnswer>,
    /// The profiler's own CPU time, whose samples are left out, in percent of one CPU.
    pub own: f64,
    /// How many points a share must stand above the others.
    pub points: f64,
    /// What was found the last time: that must go well below the limit to be forgotten, so that nothing
    /// flickers.
    pub before: &'a [Finding],
}

impl Facts<'_> {
    /// The points for a CPU, lower when it stood out already.
    fn limit(&self, cpu: u32, kind: Kind) -> f64 {
        let known = self.before.iter().any(|f| f.cpu == cpu && f.kind == kind);
        if known { STAYS * self.points } else { self.points }
    }
}

/// A CPU's share of softirqs and interrupts by everything that is known of it.
struct Seen<'a> {
    cpu: u32,
    soft: f64,
    row: Option<&'a CpuRow>,
    samples: Option<&'a CpuSamples>,
}

/// What stands out, the worst first.
pub fn findings(facts: Facts<'_>) -> Vec<Finding> {
    let seen = seen(facts);
    let mut out = Vec::new();
    for one in &seen {
        out.extend(soft(facts, &seen, one));
        out.extend(one.row.and_then(|row| missing_ticks(facts, row)));
        out.extend(missing_samples(facts, one));
    }
    out.sort_by(|a, b| b.share.total_cmp(&a.share).then((a.kind, a.cpu).cmp(&(b.kind, b.cpu))));
    out
}

fn seen<'a>(facts: Facts<'a>) -> Vec<Seen<'a>> {
    let rows = facts.host.map_or(&[][..], |h| &h.rows);
    let samples = facts.samples.map_or(&[][..], |s| &s.rows);
    let mut cpus: Vec<u32> = rows.iter().filter(|r| r.online).map(|r| r.cpu).collect();
    cpus.extend(samples.iter().map(|s| u32::from(s.cpu)));
    cpus.sort_unstable();
    cpus.dedup();
    let one = |cpu| {
        let row = facts.host.and_then(|h| h.row(cpu)).filter(|r| r.online);
        let samples = facts.samples.and_then(|s| s.row(cpu));
        let counted = row.map_or(0.0, |r| r.soft_window);
        let sampled = samples.filter(|s| enough(s, facts)).map_or(0.0, CpuSamples::soft);
        Seen { cpu, soft: f64::from(counted.max(sampled)), row, samples }
    };
    cpus.into_iter().map(one).collect()
}

/// Whether a CPU gave samples enough to speak of shares: a few that woke an idle CPU say nothing.
fn enough(samples: &CpuSamples, facts: Facts<'_>) -> bool {
    let expected = expected(facts);
    samples.total() as f64 >= if expected > 0.0 { (expected / 10.0).min(MIN_EXPECTED) } else { 50.0 }
}

/// Samples that a busy CPU gives in the window.
fn expected(facts: Facts<'_>) -> f64 {
    facts.samples.map_or(0.0, |samples| samples.expected())
}

fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => None,
        _ => Some((values[(n - 1) / 2] + values[n / 2]) / 2.0),
    }
}

/// Whether a value is far above others; their median when it is.
fn above(value: f64, others: &[f64], points: f64) -> Option<f64> {
    let mid = median(&mut others.to_vec())?;
    let mut distances: Vec<f64> = others.iter().map(|x| (x - mid).abs()).collect();
    let mad = median(&mut distances)?.max(LEAST_MAD);
    (value - mid >= points && 0.6745 * (value - mid) / mad >= Z).then_some(mid)
}

fn soft(facts: Facts<'_>, all: &[Seen<'_>], one: &Seen<'_>) -> Option<Finding> {
    let peers: Vec<f64> = all.iter().filter(|p| p.cpu != one.cpu).map(|p| p.soft).collect();
    let points = facts.limit(one.cpu, Kind::Soft);
    let by_peers = above(one.soft, &peers, points).map(|mid| ("peers", mid));
    let past = || {
        let history = &one.row?.history;
        let before = history.len().checked_sub(2 * WINDOW)?;
        let shares: Vec<f64> = history[..before + WINDOW].iter().map(|p| f64::from(p.soft)).collect();
        above(one.soft, &shares, points).map(|mid| ("before", mid))
    };
    let alone = || (peers.is_empty() && one.soft >= 2.0 * points).then_some(("", -1.0));
    let (whose, mid) = by_peers.or_else(past).or_else(alone)?;
    let irqs = match (one.samples, one.row) {
        (Some(s), _) if s.soft() as f64 >= one.soft - 0.5 => s.counts[cpus::IRQ] > s.softirqs(),
        (_, Some(row)) => row.shares[Ticks::IRQ] > row.shares[Ticks::SOFTIRQ],
        _ => false,
    };
    let what = if irqs { "interrupts" } else { "softirq" };
    let vector = one.samples.and_then(CpuSamples::vector).filter(|_| !irqs);
    let beside = if mid < 0.0 { String::new() } else { format!(", {whose} {mid:.0} %") };
    let mut text = format!("CPU {} {what} {:.0} %{beside}", one.cpu, one.soft);
    if let Some(vector) = vector {
        text.push_str(&format!("; {}", VECTORS[vector]));
        if let Some(behind) = facts.samples.and_then(|s| s.behind(one.cpu, cpus::of_vector(vector))) {
            text.push_str(&format!(" ({})", behind.name));
        }
    }
    let advice = "Enter on its vector shows the functions; t measures the time in each";
    Some(Finding { cpu: one.cpu, kind: Kind::Soft, share: one.soft, vector, text, advice })
}

fn missing_ticks(facts: Facts<'_>, row: &CpuRow) -> Option<Finding> {
    let share = f64::from(row.missing_window);
    // A second or two say nothing: a reading may be late.
    if row.history.len() < 3 || share < facts.limit(row.cpu, Kind::MissingTicks) {
        return None;
    }
    let text = format!("CPU {}: {share:.0} % of its ticks are missing", row.cpu);
    let advice = "a softirq on an idle CPU stops them, or the host runs something else: t measures softirqs";
    Some(Finding { cpu: row.cpu, kind: Kind::MissingTicks, share, vector: None, text, advice })
}

fn missing_samples(facts: Facts<'_>, one: &Seen<'_>) -> Option<Finding> {
    let (row, samples) = (one.row?, one.samples?);
    let history = &row.history;
    let window = history.iter().rev().take(WINDOW);
    let busy = window.clone().map(|p| f64::from(p.busy)).sum::<f64>() / window.count().max(1) as f64;
    // Our own samples are left out, on whatever CPU they came.
    let busy = (busy - facts.own).max(0.0);
    let expected = expected(facts) * busy / 100.0;
    let got = (samples.total() - samples.counts[cpus::IDLE]) as f64;
    if history.len() < WINDOW || expected < MIN_EXPECTED || got > expected / 2.0 {
        return None;
    }
    let text = format!("CPU {}: {got:.0} of {expected:.0} samples came", one.cpu);
    let advice = "interrupts are off for long, the rate is throttled, or the host runs something else";
    let share = busy * (1.0 - got / expected);
    Some(Finding { cpu: one.cpu, kind: Kind::MissingSamples, share, vector: None, text, advice })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::cpus::Past;

    fn host(soft: &[f32]) -> HostView {
        let row = |(cpu, soft): (u32, &f32)| CpuRow { cpu, online: true, soft_window: *soft, ..CpuRow::default() };
        HostView { rows: (0..).zip(soft).map(row).collect(), ..HostView::default() }
    }

    fn facts<'a>(host: &'a HostView, samples: Option<&'a CpuAnswer>) -> Facts<'a> {
        Facts { host: Some(host), samples, own: 0.0, points: 10.0, before: &[] }
    }

    /// Peers at 10, 12, 14, 16 and 98: their median is 14, their MAD 2, their mean 30. 3.5·2/0.6745 is 10.38.
    #[test]
    fn an_outlier_is_so_many_deviations_from_the_median() {
        let others = [16.0, 10.0, 98.0, 12.0, 14.0];
        assert_eq!([24.37, 24.38].map(|value| above(value, &others, 5.0)), [None, Some(14.0)]);
        assert_eq!([28.9, 29.0].map(|value| above(value, &others, 15.0)), [None, Some(14.0)]);
        // Of an even number the middle is between two: 2.5, with deviations of 0.5, 0.5, 1.5 and 7.5: a MAD of 1.
        let even = [10.0, 1.0, 3.0, 2.0];
        assert_eq!([7.68, 7.69].map(|value| above(value, &even, 1.0)), [None, Some(2.5)]);
        // Where all are alike a point is taken for their spread: 3.5/0.6745 is 5.19.
        assert_eq!([10.18, 10.19].map(|value| above(value, &[5.0; 3], 1.0)), [None, Some(5.0)]);
        assert_eq!((above(99.0, &[], 1.0), above(-99.0, &[5.0; 3], 1.0)), (None, None));
    }

    #[test]
    fn far_above_its_peers() {
        let texts =
            |soft: &[f32]| -> Vec<String> { findings(facts(&host(soft), None)).into_iter().map(|f| f.text).collect() };
        assert_eq!(texts(&[1.0, 2.0, 40.0, 0.0]), ["CPU 2 softirq 40 %, peers 1 %"]);
        assert_eq!(texts(&[0.0, 25.0]), ["CPU 1 softirq 25 %, peers 0 %"]);
        assert!(texts(&[40.0, 42.0, 38.0, 45.0]).is_empty(), "all alike");
        assert!(texts(&[0.0, 5.0, 0.0]).is_empty(), "too little to speak of");
        assert_eq!(texts(&[50.0]), ["CPU 0 softirq 50 %"]);
        assert!(texts(&[15.0]).is_empty(), "no peers and no past");
        let nine = host(&[0.0, 9.0, 1.0]);
        let known = findings(facts(&host(&[0.0, 25.0]), None));
        assert!(findings(facts(&nine, None)).is_empty());
        assert_eq!(findings(Facts { before: &known, ..facts(&nine, None) }).len(), 1, "it stays a while");
        assert!(findings(Facts { host: None, ..facts(&host(&[]), None) }).is_empty());
    }

    #[test]
    fn what_the_samples_say_where_the_ticks_do_not() {
        let quiet = host(&[0.0; 34]);
        let mut counts = [0; cpus::SLOTS];
        (counts[cpus::of_vector(1)], counts[cpus::IDLE]) = (400, 600);
        let idle = |cpu| {
            let mut counts = [0; cpus::SLOTS];
            counts[cpus::IDLE] = 900;
            CpuSamples { cpu, counts, ..CpuSamples::default() }
        };
        let mut rows: Vec<CpuSamples> = (0..32).map(idle).collect();
        rows.push(CpuSamples { cpu: 32, counts, ..CpuSamples::default() });
        let behind = cpus::Behind { slot: cpus::of_vector(1), samples: 400, name: "estimation_timer".into() };
        let answer = CpuAnswer {
            rows,
            window: 1_000_000_000,
            frequency: 1000,
            whole: true,
            busy: None,
            cpu: Some(32),
            behind: vec![behind],
        };
        let found = findings(facts(&quiet, Some(&answer)));
        assert_eq!(found[0].text, "CPU 32 softirq 40 %, peers 0 %; TIMER (estimation_timer)");
        assert_eq!((found.len(), found[0].vector), (1, Some(1)));
    }

    #[test]
    fn missing_ticks_and_samples_and_its_own_past() {
        let mut view = host(&[0.0]);
        let past = |soft, busy| Past { soft, busy, ..Past::default() };
        view.rows[0].history = vec![past(1.0, 50.0); 50];
        view.rows[0].missing_window = 38.0;
        let row = |n| CpuSamples {
            cpu: 0,
            counts: std::array::from_fn(|i| if i == 0 { n } else { 0 }),
            ..Default::default()
        };
        let answer = |n| CpuAnswer {
            rows: vec![row(n)],
            window: 10_000_000_000,
            frequency: 1000,
            whole: true,
            busy: None,
            ..CpuAnswer::default()
        };
        let kinds = |view: &HostView, n| -> Vec<Kind> {
            findings(facts(view, Some(&answer(n)))).into_iter().map(|f| f.kind).collect()
        };
        assert_eq!(kinds(&view, 5000), [Kind::MissingTicks]);
        assert_eq!(kinds(&view, 1000), [Kind::MissingSamples, Kind::MissingTicks]);
        let few = answer(1000);
        let but_for_us = Facts { own: 45.0, ..facts(&view, Some(&few)) };
        assert_eq!(findings(but_for_us).len(), 1, "1000 samples are more than half of 5 % of the time");
        view.rows[0].missing_window = 0.0;
        view.rows[0].soft_window = 30.0;
        let found = findings(facts(&view, None));
        assert_eq!(found[0].text, "CPU 0 softirq 30 %, before 1 %");
    }
}
