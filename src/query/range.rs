//! Ranges of time as perf's `--time` has them (perf-report(1)): `FROM,UNTIL` in seconds of the recording's
//! clock, either of which may be left out, `10%-20%`, `10%/2`, several of the latter with commas.

use crate::lang::quantity;

/// The reason why a text is not taken as ranges of time.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RangeError {
    /// A text of another form.
    #[error("expected FROM,UNTIL in seconds, A%-B% or A%/N")]
    NoRange,
    /// An end that lies before its beginning.
    #[error("the range ends before it begins")]
    Reversed,
}

/// Inclusive ranges in nanoseconds of the clock. `first` and `last` are the times of the first and the last
/// sample.
pub fn parse(text: &str, first: u64, last: u64) -> Result<Vec<(u64, u64)>, RangeError> {
    if text.contains('%') {
        return text.split(',').map(|part| share(part, first, last)).collect();
    }
    Ok(vec![seconds(text, first, last)?])
}

fn in_order<T: PartialOrd>(from: T, to: T) -> Result<(T, T), RangeError> {
    if to < from { Err(RangeError::Reversed) } else { Ok((from, to)) }
}

fn seconds(text: &str, first: u64, last: u64) -> Result<(u64, u64), RangeError> {
    let (from, to) = text.split_once(',').ok_or(RangeError::NoRange)?;
    let ns = |t: &str| match t.trim() {
        "" => Ok(None),
        t => quantity::time(t).map(Some).map_err(|_| RangeError::NoRange),
    };
    match (ns(from)?, ns(to)?) {
        (Some(from), Some(to)) => in_order(from, to),
        // An end that is left out is the recording's, which may well lie before the one that was typed.
        (from, to) => Ok((from.unwrap_or(first), to.unwrap_or(last))),
    }
}

fn share(part: &str, first: u64, last: u64) -> Result<(u64, u64), RangeError> {
    let percent = |p: &str| quantity::share(p).ok().filter(|share| p.contains('%') && (0.0..=100.0).contains(share));
    let at = |p: f64| first + (last.saturating_sub(first) as f64 * p / 100.0) as u64;
    let typed = if let Some((share, n)) = part.split_once('/') {
        let n = quantity::count::<u32>(n).ok().filter(|n| *n > 0).map(f64::from);
        percent(share).zip(n).map(|(share, n)| ((share * (n - 1.0)).min(100.0), (share * n).min(100.0)))
    } else {
        part.split_once('-').and_then(|(from, to)| percent(from).zip(percent(to)))
    };
    let (from, to) = typed.ok_or(RangeError::NoRange)?;
    in_order(from, to).map(|(from, to)| (at(from), at(to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_perf_spells_them() {
        let range = |text| parse(text, 2_000, 12_000);
        assert_eq!(range("10%-20%"), Ok(vec![(3_000, 4_000)]));
        assert_eq!(range("10%/2,0%-1%"), Ok(vec![(3_000, 4_000), (2_000, 2_100)]));
        assert_eq!(range("0.000003,"), Ok(vec![(3_000, 12_000)]));
        assert_eq!(range("0.000015,"), Ok(vec![(15_000, 12_000)]), "after the end there is nothing");
        assert_eq!(range("5%-5%"), Ok(vec![(2_500, 2_500)]));
        assert_eq!(range("60%/9"), Ok(vec![(12_000, 12_000)]), "past the end there is nothing");
        for bad in ["x", "5%", "10%/0", "1-2", "-1,2", "nan,1", "1,inf", "1,2,3"] {
            assert_eq!(range(bad), Err(RangeError::NoRange), "{bad}");
        }
        for bad in ["50%-20%", "10%-20%,3%-2%", "2,1"] {
            assert_eq!(range(bad), Err(RangeError::Reversed), "{bad}");
            assert_eq!(parse(bad, 0, 1), Err(RangeError::Reversed), "whatever the recording holds: {bad}");
        }
    }
}
