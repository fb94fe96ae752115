//! Findings: anomalous CPUs with reasons.
//!
//! A CPU is anomalous when its share of softirqs and interrupts is far above that of its peers or of its own past: when
//! the modified z-score 0.6745·(x − median)/MAD of Iglewicz and Hoaglin ("How to Detect and Handle Outliers", 1993) is
//! at least their limit of 3.5, and the difference at least some points. Unlike means, medians are hardly affected by
//! the anomalous CPU itself. Missing samples are always anomalous, because there should be none. Missing ticks are
//! anomalous if samples or tracepoints show that more ran than was counted: an idle CPU loses ticks as well. A CPU
//! without peers and without a past, as in a recording of one CPU, is anomalous from twice those points on. So is one of
//! two CPUs that is as far above the other one: a single CPU has no distribution.

use std::collections::BTreeSet;

use crate::panel::row_order::arrange;
use crate::query::cpus::context::VECTORS;
use crate::query::cpus::{self, CpuAnswer, CpuSamples};
use crate::session::machine::Ticks;
use crate::session::machine::quota::ThrottledGroup;

use super::sampler::{CpuInterval, CpuRow, HostView, WINDOW};
use crate::ingest::derived::softirq_times::HandlerTimes;

/// The minimum z-score of an outlier.
const Z: f64 = 3.5;
/// The minimum spread in points, because shares of one second are not more precise.
const LEAST_MAD: f64 = 1.0;
/// An anomaly ends when it falls below this fraction of the points.
const STAYS: f64 = 0.6;
/// The minimum number of expected samples for a finding of missing samples.
const MIN_EXPECTED: f64 = 100.0;
/// The age of the newest sample from which samples are not compared with the present use of CPUs: on a busy machine this
/// program may be late.
const LATE_NS: u64 = 3_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FindingKind {
    Soft,
    MissingTicks,
    MissingSamples,
    /// A container or unit that has used up its quota of CPU time; not about a CPU.
    Quota,
}

impl FindingKind {
    /// Returns its meaning and the keys for it on the screen; further measurement only if `live`.
    pub(crate) fn keys(self, live: bool) -> &'static str {
        match self {
            Self::Soft if live => "Enter on its vector shows the functions; t measures the time in each",
            Self::Soft => "Enter on its vector shows the functions",
            Self::MissingTicks if !live => STOPPED,
            Self::MissingTicks => {
                "a softirq on an idle CPU stops them, or the host runs something else: t measures softirqs"
            }
            Self::MissingSamples => MISSING_SAMPLES,
            Self::Quota => QUOTA,
        }
    }
}

const QUOTA: &str = "its limit of CPU time is below its demand: raise it, or check its load";

const STOPPED: &str = "a softirq on an idle CPU stops them, or the host runs something else";
const MISSING_SAMPLES: &str =
    "interrupts are disabled for long, the rate is throttled, or the host runs something else";

/// An anomalous CPU, or a group that is throttled on all CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuFinding {
    /// `None` for a group.
    pub(crate) cpu: Option<u32>,
    pub(crate) kind: FindingKind,
    /// The magnitude, in percent of the CPU.
    pub(crate) share: f64,
    /// The softirq vector that it is about, if known.
    pub vector: Option<usize>,
    pub(crate) function: Option<String>,
    /// For the header: `CPU 32 softirq 43 %, peers 0 %; TIMER (estimation_timer)`.
    pub(crate) text: String,
}

impl CpuFinding {
    /// A finding without a vector.
    fn new(cpu: Option<u32>, kind: FindingKind, share: f64, text: String) -> Self {
        Self { cpu, kind, share, vector: None, function: None, text }
    }

    /// Creates an anomaly of softirqs.
    #[cfg(test)]
    pub(crate) fn staged(cpu: u32, text: &str) -> Self {
        Self::new(Some(cpu), FindingKind::Soft, 43.0, text.to_owned())
    }

    /// Returns its meaning and remedy for output without keys; `timed` if the time in softirqs is measured already.
    pub(crate) fn advice(&self, timed: bool) -> String {
        let cpu = self.cpu.map(|cpu| cpu.to_string()).unwrap_or_default();
        match (self.kind, timed) {
            (FindingKind::Soft, true) => format!("perfprof-tui -C {cpu} shows its functions"),
            (FindingKind::Soft, false) => {
                format!("perfprof-tui -C {cpu} shows its functions, --softirq-time the time in each vector")
            }
            (FindingKind::MissingTicks, true) => STOPPED.to_owned(),
            (FindingKind::MissingTicks, false) => format!("{STOPPED}: --softirq-time measures softirqs"),
            (FindingKind::Quota, _) => QUOTA.to_owned(),
            (FindingKind::MissingSamples, _) => MISSING_SAMPLES.to_owned(),
        }
    }
}

/// The figures in which anomalies are searched.
#[derive(Clone, Copy, Debug)]
pub struct FindingInput<'a> {
    pub(crate) host: Option<&'a HostView>,
    pub(crate) samples: Option<&'a CpuAnswer>,
    pub(crate) times: Option<&'a HandlerTimes>,
    /// The profiler's own CPU time, whose samples are left out, in percent of one CPU.
    pub(crate) own: f64,
    /// The minimum difference of a share to the others, in points.
    pub(crate) points: f64,
    /// The previous findings: they end only well below the limit, so that they do not flicker.
    pub(crate) before: &'a [CpuFinding],
}

impl FindingInput<'_> {
    /// Returns the vector with the most time on a CPU, and the CPU's time in softirqs and in interrupts, in percent.
    fn timed(&self, cpu: u32) -> Option<(usize, f64, f64)> {
        let (vector, _) = self.times?.vector(cpu)?;
        let sum = |irqs| self.times.map_or(0.0, |times| times.recent_sum(cpu, irqs));
        Some((vector as usize, sum(false), sum(true))).filter(|(vector, ..)| *vector < VECTORS.len())
    }

    /// Returns the limit in points for a CPU, which is lower for an existing anomaly.
    fn limit(&self, cpu: u32, kind: FindingKind) -> f64 {
        let known = self.before.iter().any(|f| f.cpu == Some(cpu) && f.kind == kind);
        if known { STAYS * self.points } else { self.points }
    }
}

struct Seen<'a> {
    cpu: u32,
    soft: f64,
    row: Option<&'a CpuRow>,
    samples: Option<&'a CpuSamples>,
}

/// Returns the anomalies, the worst first.
pub fn findings(facts: FindingInput<'_>) -> Vec<CpuFinding> {
    let seen = seen(facts);
    let mut out = Vec::new();
    for one in &seen {
        out.extend(soft(facts, &seen, one));
        out.extend(missing_ticks(facts, one));
        out.extend(missing_samples(facts, one));
    }
    let groups = facts.host.iter().flat_map(|host| &host.quotas).filter(|group| group.of_target != Some(false));
    out.extend(groups.filter_map(|group| quota(facts, group)));
    arrange(&mut out, |a, b| b.share.total_cmp(&a.share).then((a.kind, a.cpu).cmp(&(b.kind, b.cpu))));
    out
}

fn seen<'a>(facts: FindingInput<'a>) -> Vec<Seen<'a>> {
    let rows = facts.host.iter().flat_map(|h| &h.rows).filter(|r| r.online).map(|r| r.cpu);
    let samples = facts.samples.iter().flat_map(|s| &s.rows).map(|s| u32::from(s.cpu));
    let cpus: BTreeSet<u32> = rows.chain(samples).collect();
    let one = |cpu| {
        let row = facts.host.and_then(|h| h.row(cpu)).filter(|r| r.online);
        let samples = facts.samples.and_then(|s| s.row(cpu));
        let counted = row.map_or(0.0, |r| r.soft_window);
        let sampled = samples.filter(|s| enough(s, facts)).map_or(0.0, CpuSamples::soft);
        let timed = facts.timed(cpu).map_or(0.0, |(_, softirqs, irqs)| (softirqs + irqs).min(100.0));
        Seen { cpu, soft: f64::from(counted.max(sampled)).max(timed), row, samples }
    };
    cpus.into_iter().map(one).collect()
}

/// Returns whether a CPU has enough samples for shares: a few samples at wake-ups of an idle CPU are meaningless.
fn enough(samples: &CpuSamples, facts: FindingInput<'_>) -> bool {
    let expected = expected(facts);
    samples.total() as f64 >= if expected > 0.0 { (expected / 10.0).min(MIN_EXPECTED) } else { 50.0 }
}

/// Returns the samples of a fully busy CPU in the window.
fn expected(facts: FindingInput<'_>) -> f64 {
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

/// Returns the median of the others if a value is far above them.
fn above(value: f64, others: &[f64], points: f64) -> Option<f64> {
    let mid = median(&mut others.to_vec())?;
    let mut distances: Vec<f64> = others.iter().map(|x| (x - mid).abs()).collect();
    let mad = median(&mut distances)?.max(LEAST_MAD);
    (value - mid >= points && 0.6745 * (value - mid) / mad >= Z).then_some(mid)
}

fn soft(facts: FindingInput<'_>, all: &[Seen<'_>], one: &Seen<'_>) -> Option<CpuFinding> {
    let peers: Vec<f64> = all.iter().filter(|p| p.cpu != one.cpu).map(|p| p.soft).collect();
    let points = facts.limit(one.cpu, FindingKind::Soft);
    let by_peers = match peers[..] {
        // A single other CPU is too few peers: one load may be spread unevenly over both.
        [other] => (one.soft - other >= 2.0 * points).then_some(("the other CPU", other)),
        _ => above(one.soft, &peers, points).map(|mid| ("peers", mid)),
    };
    let past = || {
        let history = &one.row?.history;
        let before = history.len().checked_sub(2 * WINDOW)?;
        let shares: Vec<f64> = history[..before + WINDOW].iter().map(|p| f64::from(p.soft)).collect();
        above(one.soft, &shares, points).map(|mid| ("before", mid))
    };
    let alone = || (peers.is_empty() && one.soft >= 2.0 * points).then_some(("", -1.0));
    let (whose, mid) = by_peers.or_else(past).or_else(alone)?;
    // Measured time is more precise than the number of samples.
    let timed = facts.timed(one.cpu).filter(|(_, softirqs, irqs)| softirqs + irqs >= one.soft / 2.0);
    let irqs = match (timed, one.samples, one.row) {
        (Some((_, softirqs, irqs)), ..) => irqs > softirqs,
        (_, Some(s), _) if s.soft() as f64 >= one.soft - 0.5 => s.counts[cpus::IRQ] > s.softirqs(),
        (_, _, Some(row)) => row.shares[Ticks::IRQ] > row.shares[Ticks::SOFTIRQ],
        _ => false,
    };
    let what = if irqs { "interrupts" } else { "softirq" };
    let by_time = timed.map(|(vector, ..)| vector);
    let vector = by_time.or_else(|| one.samples.and_then(CpuSamples::vector)).filter(|_| !irqs);
    let comparison = if mid < 0.0 { String::new() } else { format!(", {whose} {mid:.0} %") };
    let mut text = format!("CPU {} {what} {:.0} %{comparison}", one.cpu, one.soft);
    let behind = |vector| facts.samples.and_then(|s| s.behind(one.cpu, cpus::of_vector(vector)));
    let function = vector.and_then(behind).map(|behind| behind.name.clone());
    if let Some(vector) = vector {
        text.push_str(&format!("; {}", VECTORS[vector]));
    }
    if let Some(function) = &function {
        text.push_str(&format!(" ({function})"));
    }
    Some(CpuFinding { vector, function, ..CpuFinding::new(Some(one.cpu), FindingKind::Soft, one.soft, text) })
}

fn lately(row: &CpuRow, of: impl Fn(&CpuInterval) -> f32) -> f64 {
    let window = row.history.iter().rev().take(WINDOW);
    window.clone().map(|past| f64::from(of(past))).sum::<f64>() / window.count().max(1) as f64
}

/// Returns the larger percentage of time that samples or tracepoints show code running on a CPU; 0 without either.
fn ran(facts: FindingInput<'_>, one: &Seen<'_>) -> f64 {
    let expected = if facts.samples.is_some_and(|samples| samples.whole) { expected(facts) } else { 0.0 };
    let at_work = one.samples.map_or(0, |s| s.total() - s.counts[cpus::IDLE]) as f64;
    let sampled = if expected >= 1.0 { 100.0 * at_work / expected } else { 0.0 };
    facts.timed(one.cpu).map_or(0.0, |(_, softirqs, irqs)| softirqs + irqs).max(sampled).min(100.0)
}

fn missing_ticks(facts: FindingInput<'_>, one: &Seen<'_>) -> Option<CpuFinding> {
    let row = one.row?;
    let share = f64::from(row.missing_window);
    let limit = facts.limit(row.cpu, FindingKind::MissingTicks);
    // One or two seconds are not enough, because a reading may be late.
    if row.history.len() < 3 || share < limit {
        return None;
    }
    let counted = lately(row, |past| past.busy * (1.0 - past.missing / 100.0));
    if ran(facts, one) < counted + limit {
        return None;
    }
    let text = format!("CPU {}: {share:.0} % of its ticks are missing", row.cpu);
    Some(CpuFinding::new(Some(row.cpu), FindingKind::MissingTicks, share, text))
}

fn quota(facts: FindingInput<'_>, group: &ThrottledGroup) -> Option<CpuFinding> {
    let text = format!("{} throttled", group.name);
    let known = facts.before.iter().any(|f| f.kind == FindingKind::Quota && f.text.starts_with(&text));
    let limit = if known { STAYS * facts.points } else { facts.points };
    let share = group.percent;
    let text = format!("{text} {share:.0} % of periods, {:.0} ms/s", group.ms);
    (share >= limit).then(|| CpuFinding::new(None, FindingKind::Quota, share, text))
}

fn missing_samples(facts: FindingInput<'_>, one: &Seen<'_>) -> Option<CpuFinding> {
    let (row, samples) = (one.row?, one.samples?);
    // Our own samples are left out, on any CPU.
    let busy = (lately(row, |past| past.busy) - facts.own).max(0.0);
    let expected = expected(facts) * busy / 100.0;
    let got = (samples.total() - samples.counts[cpus::IDLE]) as f64;
    // The kernel took the samples that a full ring lost; the header shows their number. All rings are full when this
    // program does not get a CPU, and the loss of one of them is reported with its next record.
    let lost = facts.samples.iter().flat_map(|all| &all.rows).map(|one| one.lost).max().unwrap_or(0);
    let taken = got + lost as f64;
    let (now, newest) = (facts.host?.at, facts.samples?.until);
    let is_late = now.saturating_sub(newest) >= LATE_NS;
    if row.history.len() < WINDOW || expected < MIN_EXPECTED || taken > expected / 2.0 || is_late {
        return None;
    }
    let text = format!("CPU {}: {got:.0} of {expected:.0} samples came", one.cpu);
    let share = busy * (1.0 - got / expected);
    Some(CpuFinding::new(Some(one.cpu), FindingKind::MissingSamples, share, text))
}

#[cfg(test)]
mod tests;
