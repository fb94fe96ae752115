//! The color levels: seven, by rank or by share of the maximum. Zero does not have a level.

/// The number of levels.
pub const N: usize = 7;

/// The scale of levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// By rank among the distinct numbers on the map. Small numbers stay visible next to a huge one.
    #[default]
    Rank,
    /// By share of the maximum.
    Linear,
}

/// The minimum number of each level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    pub(crate) least: [u32; N],
    pub(crate) max: u32,
    pub(crate) scale: Scale,
}

impl Levels {
    pub(crate) fn of(cells: &[u32], scale: Scale) -> Self {
        let mut seen: Vec<u32> = cells.iter().copied().filter(|n| *n > 0).collect();
        seen.sort_unstable();
        seen.dedup();
        let max = seen.last().copied().unwrap_or(0);
        let least = match scale {
            Scale::Rank if !seen.is_empty() => std::array::from_fn(|level| seen[level * seen.len() / N]),
            _ => std::array::from_fn(|level| (u64::from(max) * level as u64 / N as u64) as u32 + 1),
        };
        Self { least, max, scale }
    }

    pub(crate) fn level(&self, n: u32) -> Option<usize> {
        (n > 0).then(|| self.least.iter().rposition(|least| n >= *least).unwrap_or(0))
    }

    /// Returns whether the levels still fit these cells. If so, repainting is not needed.
    pub(crate) fn serve(&self, cells: &[u32], scale: Scale) -> bool {
        let max = cells.iter().copied().max().unwrap_or(0);
        self.scale == scale && max <= self.max + self.max / 4 && max >= self.max / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_rare_outlier_is_seen_by_rank_and_its_height_by_share() {
        let cells = [0, 1, 2, 3, 4, 5, 6, 1000];
        let rank = Levels::of(&cells, Scale::Rank);
        let linear = Levels::of(&cells, Scale::Linear);
        let levels = |of: &Levels| cells.map(|n| of.level(n).map_or(-1, |l| l as i32));
        assert_eq!(levels(&rank), [-1, 0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(levels(&linear), [-1, 0, 0, 0, 0, 0, 0, 6]);
        assert_eq!(Levels::of(&[0, 4], Scale::Rank).level(4), Some(6), "a single value has the highest level");
        assert_eq!(Levels::of(&[], Scale::Rank).level(0), None);
    }

    #[test]
    fn the_least_number_of_each_level() {
        let cells = [0, 4, 1, 9, 16, 9, 100, 25, 36, 49, 64, 81, 0];
        let least = |scale| Levels::of(&cells, scale).least;
        assert_eq!(least(Scale::Rank), [1, 4, 9, 25, 36, 64, 81]);
        assert_eq!(least(Scale::Linear), [1, 15, 29, 43, 58, 72, 86]);
        assert_eq!(Levels::of(&cells, Scale::Rank).max, 100);
        assert_eq!(
            [1, 14, 15, 85, 86].map(|n| Levels::of(&cells, Scale::Linear).level(n).expect("some")),
            [0, 0, 1, 5, 6]
        );
    }

    #[test]
    fn levels_serve_while_the_highest_is_about_as_high() {
        let levels = Levels::of(&[101], Scale::Rank);
        assert_eq!(
            [49, 50, 101, 126, 127].map(|n| levels.serve(&[3, n], Scale::Rank)),
            [false, true, true, true, false]
        );
        assert!(!levels.serve(&[101], Scale::Linear));
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn more_is_never_a_lower_level(cells in proptest::collection::vec(0u32..5000, 0..80), rank: bool) {
            let levels = Levels::of(&cells, if rank { Scale::Rank } else { Scale::Linear });
            let mut sorted = cells.clone();
            sorted.sort_unstable();
            let of: Vec<Option<usize>> = sorted.iter().map(|n| levels.level(*n)).collect();
            prop_assert!(of.windows(2).all(|w| w[0] <= w[1]));
            prop_assert!(sorted.iter().zip(&of).all(|(n, l)| (*n == 0) == l.is_none()));
            if let Some(Some(top)) = of.last() {
                prop_assert_eq!(*top, N - 1);
            }
            prop_assert!(cells.is_empty() || levels.serve(&cells, levels.scale));
        }
    }
}
