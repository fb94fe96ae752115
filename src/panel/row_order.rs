//! Sorting of rows with one shared sort function.
//! A separate generic sort per row type took five kilobytes of code each, a hundred times.

use std::cmp::Ordering;

/// Sorts rows; equal ones keep their order.
pub fn arrange<T>(rows: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let places = places(rows.len(), &|a, b| compare(&rows[a], &rows[b]));
    let mut before: Vec<Option<T>> = std::mem::take(rows).into_iter().map(Some).collect();
    rows.extend(places.into_iter().filter_map(|at| before[at].take()));
}

/// Sorts rows by a key; equal ones keep their order.
pub fn arrange_by_key<T, K: Ord>(rows: &mut Vec<T>, key: impl Fn(&T) -> K) {
    arrange(rows, |a, b| key(a).cmp(&key(b)));
}

fn places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|a, b| compare(*a, *b));
    places
}

#[cfg(test)]
mod tests {
    use crate::panel::row_order::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn rows_stand_as_a_stable_sort_has_them(rows in prop::collection::vec((0u8..8, any::<String>()), 0..200)) {
            let mut sorted = rows.clone();
            sorted.sort_by_key(|row| std::cmp::Reverse(row.0));
            let mut arranged = rows.clone();
            arrange(&mut arranged, |a, b| b.0.cmp(&a.0));
            prop_assert_eq!(&arranged, &sorted);
            let mut by_key = rows;
            arrange_by_key(&mut by_key, |row| std::cmp::Reverse(row.0));
            prop_assert_eq!(by_key, sorted);
        }
    }
}
