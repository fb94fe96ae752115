//! Compares two profiles: what grew, shrank, appeared or disappeared. Differences that may be chance are marked.
//!
//! The pooled two-proportion z test decides whether a difference of shares is significant (NIST/SEMATECH e-Handbook of
//! Statistical Methods, §7.3.3, "How can we determine whether two processes produce the same proportion of
//! defectives?"), with the numbers of samples, two-sided at 95 %. Files of sums do not always tell them: their differences
//! are not called chance.

pub mod compare;
pub(crate) mod go_exit;

use hashbrown::HashMap;

use crate::panel::row_order::arrange;
use crate::perfdata::{EventUnit, SampleCount};
use crate::profile::Acc;

/// The normalization of weights in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum NormalizeBy {
    /// The total of each recording: shares
    Total,
    /// The duration of each in seconds
    Second,
    /// Nothing
    Nothing,
}

impl NormalizeBy {
    /// Returns its name in commands.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Second => "second",
            Self::Nothing => "nothing",
        }
    }

    pub(crate) fn unit_label(self) -> &'static str {
        match self {
            Self::Total => "percent of each side",
            Self::Second => "period per second",
            Self::Nothing => "period",
        }
    }
}

/// One side of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiffSide {
    /// All samples of the side that pass its filter.
    pub total: Acc,
    /// Its duration.
    pub seconds: f64,
    /// The number of samples that each stored one stands for.
    pub stands_for: SampleCount,
    /// The unit of its periods.
    pub unit: EventUnit,
}

impl DiffSide {
    /// Returns the number of a weight's samples, or of its stacks if that of the samples is unknown.
    pub(crate) fn samples(&self, acc: Acc) -> u64 {
        acc.counted(self.stands_for).0
    }

    /// Returns a weight in the unit of `per`. That is percent of the total, period per second, or period.
    pub(crate) fn value(&self, acc: Acc, per: NormalizeBy) -> f64 {
        let period = acc.period as f64 / self.unit.scale();
        match per {
            NormalizeBy::Total => acc.percent_of(&self.total),
            NormalizeBy::Second if self.seconds > 0.0 => period / self.seconds,
            NormalizeBy::Second => 0.0,
            NormalizeBy::Nothing => period,
        }
    }
}

/// The significance of a row's difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Significantly more than before.
    Grew,
    /// Significantly less than before.
    Shrank,
    /// Significant, and not in the baseline.
    New,
    /// Only in the baseline, significantly.
    Gone,
    /// The difference may be chance.
    Noise,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Grew => "grew",
            Self::Shrank => "shrank",
            Self::New => "new",
            Self::Gone => "gone",
            Self::Noise => "noise",
        }
    }

    /// Returns its name in a sentence.
    pub(crate) fn meaning(self) -> &'static str {
        if self == Self::Noise { "within chance" } else { self.word() }
    }

    /// Returns the sign that represents it without color.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::Grew => "▲",
            Self::Shrank => "▼",
            Self::New => "+",
            Self::Gone => "-",
            Self::Noise => "~",
        }
    }
}

/// A row's values on both sides, in the unit of the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowDiff {
    pub(crate) old: f64,
    pub(crate) new: f64,
    pub(crate) verdict: Verdict,
    pub(crate) per: NormalizeBy,
}

impl RowDiff {
    pub(crate) fn delta(&self) -> f64 {
        self.new - self.old
    }
}

/// A row of both profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct DiffRow<K> {
    pub(crate) key: K,
    pub(crate) old: Acc,
    pub(crate) new: Acc,
    /// In the unit of the comparison.
    pub(crate) old_value: f64,
    pub(crate) new_value: f64,
    pub(crate) z: f64,
    pub(crate) verdict: Verdict,
}

impl<K> DiffRow<K> {
    pub(crate) fn delta(&self) -> f64 {
        self.new_value - self.old_value
    }
}

/// The two-sided 95 % quantile of the normal distribution.
const Z95: f64 = 1.959_964;

/// Returns the pooled two-proportion z statistic of `a` of `n` against `b` of `m`.
pub fn z(a: u64, n: u64, b: u64, m: u64) -> f64 {
    if n == 0 || m == 0 {
        return 0.0;
    }
    let (a, n, b, m) = (a as f64, n as f64, b as f64, m as f64);
    let pooled = (a + b) / (n + m);
    let deviation = (pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m)).sqrt();
    if deviation == 0.0 { 0.0 } else { (b / m - a / n) / deviation }
}

fn n_samples(acc: Acc, stands_for: SampleCount) -> Option<u64> {
    (stands_for != SampleCount::Unknown).then(|| acc.counted(stands_for).0)
}

/// Returns the z statistic of a share: (weight, total) before and now. Without the numbers of samples, it is infinite for
/// every difference.
fn z_of(old: (Acc, Acc), new: (Acc, Acc), stand_for: (SampleCount, SampleCount)) -> f64 {
    let samples = |(a, n): (Acc, Acc), stands_for| Some((n_samples(a, stands_for)?, n_samples(n, stands_for)?));
    match (samples(old, stand_for.0), samples(new, stand_for.1)) {
        (Some((a, n)), Some((b, m))) => z(a, n, b, m),
        _ if old.0.percent_of(&old.1) == new.0.percent_of(&new.1) => 0.0,
        _ => f64::INFINITY,
    }
}

fn verdict_of(a: Acc, b: Acc, z: f64, delta: f64) -> Verdict {
    match (a.is_zero(), b.is_zero()) {
        _ if z.abs() < Z95 => Verdict::Noise,
        (true, _) => Verdict::New,
        (_, true) => Verdict::Gone,
        _ if delta >= 0.0 => Verdict::Grew,
        _ => Verdict::Shrank,
    }
}

/// Returns the verdict on a share: (weight, total) before and now.
pub fn verdict(old: (Acc, Acc), new: (Acc, Acc)) -> Verdict {
    verdict_among(old, new, Default::default())
}

/// Does the same for the samples that stored ones before and now stand for.
pub(crate) fn verdict_among(old: (Acc, Acc), new: (Acc, Acc), stand_for: (SampleCount, SampleCount)) -> Verdict {
    let z = z_of(old, new, stand_for);
    verdict_of(old.0, new.0, z, new.0.percent_of(&new.1) - old.0.percent_of(&old.1))
}

/// Compares rows by their keys: the largest differences first, ties by key. Equal rows are left out.
pub fn diff<K: Clone + Ord + std::hash::Hash>(
    old: (&DiffSide, &[(K, Acc)]),
    new: (&DiffSide, &[(K, Acc)]),
    per: NormalizeBy,
) -> Vec<DiffRow<K>> {
    let mut pairs: HashMap<K, (Acc, Acc)> = HashMap::new();
    old.1.iter().for_each(|(key, acc)| pairs.entry(key.clone()).or_default().0 += *acc);
    new.1.iter().for_each(|(key, acc)| pairs.entry(key.clone()).or_default().1 += *acc);
    let row = |(key, (a, b)): (K, (Acc, Acc))| {
        let (old_value, new_value) = (old.0.value(a, per), new.0.value(b, per));
        let stand_for = (old.0.stands_for, new.0.stands_for);
        let z = z_of((a, old.0.total), (b, new.0.total), stand_for);
        let verdict = verdict_of(a, b, z, new_value - old_value);
        DiffRow { key, old: a, new: b, old_value, new_value, z, verdict }
    };
    let mut rows: Vec<_> = pairs.into_iter().map(row).filter(|r| r.delta() != 0.0).collect();
    arrange(&mut rows, |a, b| b.delta().abs().total_cmp(&a.delta().abs()).then_with(|| a.key.cmp(&b.key)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn acc(samples: u64) -> Acc {
        Acc { samples, period: samples * 10 }
    }

    fn side(total: u64) -> DiffSide {
        DiffSide { total: acc(total), seconds: 2.0, ..DiffSide::default() }
    }

    #[test]
    fn growth_noise_new_and_gone() {
        let old = [("a", acc(500)), ("b", acc(490)), ("gone", acc(10))];
        let new = [("a", acc(700)), ("b", acc(280)), ("fresh", acc(20))];
        let rows = diff((&side(1000), &old), (&side(1000), &new), NormalizeBy::Total);
        let shown: Vec<_> = rows.iter().map(|r| (r.key, r.verdict, r.delta().round())).collect();
        assert_eq!(
            shown,
            [
                ("b", Verdict::Shrank, -21.0),
                ("a", Verdict::Grew, 20.0),
                ("fresh", Verdict::New, 2.0),
                ("gone", Verdict::Gone, -1.0)
            ]
        );
        let rows = diff((&side(100), &[("a", acc(50))]), (&side(100), &[("a", acc(55))]), NormalizeBy::Total);
        assert_eq!(rows[0].verdict, Verdict::Noise);
        assert!((rows[0].delta() - 5.0).abs() < 1e-9);
        let rows = diff((&side(100), &[("a", acc(50))]), (&side(200), &[("a", acc(100))]), NormalizeBy::Second);
        assert!((rows[0].delta() - 250.0).abs() < 1e-9);
    }

    /// Computed by hand: 0.14 over the root of 0.17 × 0.83 × 2/50.
    #[test]
    fn the_statistic_by_hand() {
        assert!((z(5, 50, 12, 50) - 1.8635).abs() < 1e-3, "{}", z(5, 50, 12, 50));
        assert_eq!((z(0, 0, 1, 2), z(1, 2, 0, 0), z(3, 3, 5, 5)), (0.0, 0.0, 0.0));
        // 0.2 over the root of 29/130 × 101/130 × (1/50 + 1/80).
        assert!((z(5, 50, 24, 80) - 2.664_845).abs() < 1e-6, "{}", z(5, 50, 24, 80));
    }

    /// Half of a profile becomes six tenths: significant of 5000 samples, not of 50.
    #[test]
    fn sums_stand_for_many_samples() {
        let sum = |period| Acc { samples: 1, period };
        let (before, now) = ((sum(50_000), sum(100_000)), (sum(60_000), sum(100_000)));
        let with = |a, b| verdict_among(before, now, (a, b));
        let (few, many) = (SampleCount::PerPeriod(2000), SampleCount::PerPeriod(20));
        assert_eq!([with(few, few), with(many, many)], [Verdict::Noise, Verdict::Grew]);
        assert_eq!([with(few, many), with(many, few)], [Verdict::Noise; 2]);
        // Unknown numbers make no difference chance.
        let unknown = SampleCount::Unknown;
        assert_eq!([with(unknown, few), with(few, unknown), with(unknown, unknown)], [Verdict::Grew; 3]);
        assert_eq!(verdict_among(now, before, (unknown, few)), Verdict::Shrank);
        assert_eq!(verdict_among(now, now, (unknown, unknown)), Verdict::Noise);
        assert_eq!(verdict_among((Acc::default(), sum(9)), (sum(1), sum(9)), (unknown, few)), Verdict::New);
    }

    #[test]
    fn what_a_difference_is_called() {
        let none = Acc::default();
        assert_eq!(verdict_of(acc(3), acc(4), Z95, 0.0), Verdict::Grew);
        assert_eq!(verdict_of(acc(3), acc(4), -Z95, -0.1), Verdict::Shrank);
        assert_eq!(verdict_of(acc(3), acc(4), Z95 - 1e-9, 5.0), Verdict::Noise);
        assert_eq!(
            (verdict_of(none, acc(4), 9.0, 5.0), verdict_of(acc(4), none, -9.0, -5.0)),
            (Verdict::New, Verdict::Gone)
        );
        // A fifth becomes a half; a half becomes a fifth although the weight grows.
        assert_eq!(verdict((acc(20), acc(100)), (acc(100), acc(200))), Verdict::Grew);
        assert_eq!(verdict((acc(50), acc(100)), (acc(60), acc(300))), Verdict::Shrank);
        let all = [Verdict::Grew, Verdict::Shrank, Verdict::New, Verdict::Gone, Verdict::Noise];
        assert_eq!(all.map(Verdict::word), ["grew", "shrank", "new", "gone", "noise"]);
        assert_eq!(all.map(Verdict::meaning), ["grew", "shrank", "new", "gone", "within chance"]);
        assert_eq!(all.map(Verdict::sign), ["▲", "▼", "+", "-", "~"]);
    }

    #[test]
    fn values_in_each_unit() {
        let side = DiffSide { total: acc(40), seconds: 4.0, ..DiffSide::default() };
        let pers = [NormalizeBy::Total, NormalizeBy::Second, NormalizeBy::Nothing];
        assert_eq!(pers.map(|per| side.value(acc(6), per)), [15.0, 15.0, 60.0]);
        assert_eq!(DiffSide { seconds: 8.0, ..side }.value(acc(6), NormalizeBy::Second), 7.5);
        assert_eq!(DiffSide { seconds: 0.5, ..side }.value(acc(6), NormalizeBy::Second), 120.0);
        assert_eq!(DiffSide { seconds: 0.0, ..side }.value(acc(6), NormalizeBy::Second), 0.0);
        // Counts of two files with other numbers of decimals.
        let decimals = DiffSide { unit: EventUnit::Decimal(2), ..side };
        assert_eq!([NormalizeBy::Nothing, NormalizeBy::Second].map(|per| decimals.value(acc(6), per)), [0.6, 0.15]);
        assert_eq!(pers.map(NormalizeBy::word), ["total", "second", "nothing"]);
        assert_eq!(pers.map(NormalizeBy::unit_label), ["percent of each side", "period per second", "period"]);
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn a_profile_against_itself_is_empty(rows in proptest::collection::vec(("[a-f]", 1u64..1000), 0..20)) {
            let rows: Vec<(String, Acc)> = rows.into_iter().map(|(k, n)| (k, acc(n))).collect();
            let side = side(rows.iter().map(|(_, a)| a.samples).sum());
            for per in [NormalizeBy::Total, NormalizeBy::Second, NormalizeBy::Nothing] {
                prop_assert!(diff((&side, &rows), (&side, &rows), per).is_empty());
            }
        }

        #[test]
        fn turned_around_it_changes_sign(a in 1u64..500, b in 1u64..500) {
            let (old, new) = ([("k", acc(a))], [("k", acc(b))]);
            let one = diff((&side(500), &old), (&side(500), &new), NormalizeBy::Total);
            let two = diff((&side(500), &new), (&side(500), &old), NormalizeBy::Total);
            prop_assert_eq!(one.first().map(DiffRow::delta), two.first().map(|r| -r.delta()));
        }
    }
}
