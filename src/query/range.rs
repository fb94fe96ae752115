//! Ranges of time as perf's `--time` has them (perf-report(1)): `START,STOP` in seconds of the recording's
//! clock, either of which may be left out, `10%-20%`, `10%/2`, several of the latter with commas.

/// Inclusive ranges in nanoseconds of the clock. `first` and `last` are the times of the first and the last
/// sample. `None` when it is no range, or one that ends before it begins.
pub fn parse(text: &str, first: u64, last: u64) -> Option<Vec<(u64, u64)>> {
    if text.contains('%') {
        return text.split(',').map(|part| share(part, first, last)).collect();
    }
    let (from, to) = text.split_once(',')?;
    let ns = |t: &str, other: u64| match t.trim() {
        "" => Some(other),
        t => t.parse::<f64>().ok().filter(|t| (0.0..1e10).contains(t)).map(|t| (t * 1e9).round() as u64),
    };
    let range = (ns(from, first)?, ns(to, last)?);
    let is_typed = !from.trim().is_empty() && !to.trim().is_empty();
    (!is_typed || range.0 <= range.1).then(|| vec![range])
}

fn share(part: &str, first: u64, last: u64) -> Option<(u64, u64)> {
    let percent = |p: &str| p.trim().strip_suffix('%')?.parse::<f64>().ok().filter(|p| (0.0..=100.0).contains(p));
    let at = |p: f64| first + (last.saturating_sub(first) as f64 * p / 100.0) as u64;
    if let Some((share, n)) = part.split_once('/') {
        let (share, n) = (percent(share)?, n.trim().parse::<u32>().ok().filter(|n| *n > 0)?);
        return Some((at((share * f64::from(n - 1)).min(100.0)), at((share * f64::from(n)).min(100.0))));
    }
    let (from, to) = part.split_once('-')?;
    let (from, to) = (percent(from)?, percent(to)?);
    (from <= to).then(|| (at(from), at(to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_perf_spells_them() {
        let range = |text| parse(text, 2_000, 12_000);
        assert_eq!(range("10%-20%"), Some(vec![(3_000, 4_000)]));
        assert_eq!(range("10%/2,0%-1%"), Some(vec![(3_000, 4_000), (2_000, 2_100)]));
        assert_eq!(range("0.000003,"), Some(vec![(3_000, 12_000)]));
        assert_eq!(range("0.000015,"), Some(vec![(15_000, 12_000)]), "after the end there is nothing");
        assert_eq!(range("5%-5%"), Some(vec![(2_500, 2_500)]));
        assert_eq!(range("60%/9"), Some(vec![(12_000, 12_000)]), "past the end there is nothing");
        for bad in ["x", "5%", "10%/0", "1-2", "-1,2", "nan,1", "1,inf", "50%-20%", "10%-20%,3%-2%", "2,1"] {
            assert_eq!(range(bad), None, "{bad}");
        }
    }
}
