//! The programs that use more or less CPU time than before, by the test of chance of comparisons.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::panel::row_order::arrange;
use crate::profile::Acc;
use crate::query::diff::{Verdict, verdict};

use super::totals::Totals;
use super::{Cause, Look, MachineFinding, Severity};

/// The minimum difference in CPUs.
const LEAST: f64 = 0.2;
/// The kernel accounts CPU time in ticks of this length, which are the samples of the test.
const TICK_NS: u64 = 10_000_000;

/// Compares with the figures of an earlier time; `words` is its name.
pub(super) fn changed(before: &Totals<'_>, now: &Totals<'_>, words: &str) -> Option<MachineFinding> {
    if before.process_seconds <= 0.0 || now.process_seconds <= 0.0 {
        return None;
    }
    let mut list: BTreeMap<Arc<str>, (u64, u64)> = BTreeMap::new();
    for one in before.programs(|one| one.cpu_ns) {
        list.entry(one.name).or_default().0 = one.sum;
    }
    for one in now.programs(|one| one.cpu_ns) {
        list.entry(one.name).or_default().1 = one.sum;
    }
    let acc = |ns: u64| Acc { samples: ns / TICK_NS, period: ns };
    let whole = |totals: &Totals<'_>| acc((totals.process_seconds * totals.cpus.max(1.0) * 1e9) as u64);
    let (old, new) = (whole(before), whole(now));
    let mut rows: Vec<(f64, String)> = Vec::new();
    for (name, (then, since)) in list {
        let delta = since as f64 / 1e9 / now.process_seconds - then as f64 / 1e9 / before.process_seconds;
        let is_chance = verdict((acc(then), old), (acc(since), new)) == Verdict::Noise;
        if delta.abs() >= now.limit(LEAST) && !is_chance {
            let sign = if delta > 0.0 { '+' } else { '-' };
            rows.push((delta, format!("{sign}{name} {:.2} CPUs", delta.abs())));
        }
    }
    arrange(&mut rows, |a, b| b.0.abs().total_cmp(&a.0.abs()).then_with(|| a.1.cmp(&b.1)));
    let sum: f64 = rows.iter().map(|(delta, _)| delta).sum();
    let programs: Vec<String> = rows.into_iter().take(3).map(|(_, text)| text).collect();
    let figure = format!("{sum:+.2} CPUs");
    let finding = || MachineFinding::new(Cause::Changed, Severity::Look, 0.2, figure, Look::Compare);
    let evidence = format!("against the {:.0} s {words}", before.seconds);
    (!programs.is_empty()).then(|| finding().by(programs.join(", ")).shown_by(evidence))
}
