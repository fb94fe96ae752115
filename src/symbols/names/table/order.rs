//! The order of symbols by address.

/// The bits of an address that one pass sorts by.
const DIGIT: u32 = 11;
/// Shorter lists are sorted by comparing.
const SHORT: usize = 512;

/// Returns the positions of addresses in ascending order; equal addresses keep their order. Files have up to millions of
/// symbols, so that they are sorted digit by digit: the time is proportional to their number.
pub(super) fn by_address(starts: impl ExactSizeIterator<Item = u64> + Clone) -> Vec<u32> {
    let count = starts.len() as u32;
    let Some(least) = starts.clone().min() else { return Vec::new() };
    let span = starts.clone().max().unwrap_or(least) - least;
    if starts.clone().is_sorted() {
        return (0..count).collect();
    }
    if span >> 32 != 0 {
        let starts: Vec<u64> = starts.collect();
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by_key(|at| starts[*at as usize]);
        return order;
    }
    // The distance from the first address, and the position.
    let mut keys: Vec<u64> = (0..).zip(starts).map(|(at, start)| (start - least) << 32 | at).collect();
    if keys.len() < SHORT {
        keys.sort_unstable();
    } else {
        sort_by_digits(&mut keys, span);
    }
    keys.into_iter().map(|key| key as u32).collect()
}

/// Sorts by the upper half, which is at most `span`.
fn sort_by_digits(keys: &mut Vec<u64>, span: u64) {
    let mut sorted = vec![0; keys.len()];
    for shift in (0..u64::BITS - span.leading_zeros()).step_by(DIGIT as usize) {
        let digit = |key: u64| (key >> (32 + shift)) as usize % (1 << DIGIT);
        let mut places = [0u32; 1 << DIGIT];
        for key in keys.iter() {
            places[digit(*key)] += 1;
        }
        let mut next = 0;
        for place in &mut places {
            next += std::mem::replace(place, next);
        }
        for key in keys.iter() {
            let place = &mut places[digit(*key)];
            sorted[*place as usize] = *key;
            *place += 1;
        }
        std::mem::swap(keys, &mut sorted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(starts: &[u64]) -> Result<(), TestCaseError> {
        let mut plain: Vec<u32> = (0..starts.len() as u32).collect();
        plain.sort_by_key(|at| starts[*at as usize]);
        prop_assert_eq!(by_address(starts.iter().copied()), plain);
        Ok(())
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn equal_addresses_keep_their_order(
            starts in proptest::collection::vec(prop_oneof![0u64..40, 0u64..1 << 20, 0u64..1 << 34], 0..60),
            base in prop_oneof![Just(0u64), Just(u64::MAX - (1 << 34))],
        ) {
            check(&starts.iter().map(|start| base + start).collect::<Vec<_>>())?;
        }
    }

    #[test]
    fn many_addresses_are_sorted_by_digits() {
        for span in [1u64, 100, 1 << 11, 1 << 22, (1 << 32) - 1] {
            let spread = |i: u64| 0xffff_ffff_0000_0000 - span + i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (span + 1);
            let starts: Vec<u64> = (0..2 * SHORT as u64).map(spread).chain([0xffff_ffff_0000_0000 - span]).collect();
            check(&starts).expect("sorted");
        }
    }
}
