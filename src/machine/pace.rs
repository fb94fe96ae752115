//! The lengths of the intervals between readings.

/// Returns the length of an interval: up to a fifth more than the chosen one, each time another. Readings in step with a
/// program would always see the same part of what it does periodically, such as a mutex held for 60 ms of each 200.
pub(super) fn varied_ns(nth: u64, interval: u64) -> u64 {
    /// 2^64 divided by the golden ratio: multiples of it are spread evenly (Knuth, TAOCP volume 3, section 6.4).
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    const PARTS: u64 = 1 << 10;
    let part = nth.wrapping_mul(GOLDEN) >> (64 - PARTS.trailing_zeros());
    interval.saturating_add(interval / 5 / PARTS * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten readings see most of what repeats itself in a fifth of a second, a quarter, or a second.
    #[test]
    fn readings_are_not_in_step_with_a_program() {
        const SECOND: u64 = 1_000_000_000;
        for period in [SECOND / 5, SECOND / 4, SECOND] {
            let times = (0..10).scan(0, |at, nth| {
                *at += varied_ns(nth, SECOND);
                Some(*at)
            });
            let tenths: std::collections::BTreeSet<u64> = times.map(|at| at % period * 10 / period).collect();
            assert!(tenths.len() >= 6, "{period}: {tenths:?}");
        }
        let all: Vec<u64> = (0..1000).map(|nth| varied_ns(nth, SECOND)).collect();
        assert!(all.iter().all(|one| (SECOND..SECOND * 6 / 5).contains(one)));
        assert_eq!(varied_ns(3, u64::MAX), u64::MAX);
    }
}
