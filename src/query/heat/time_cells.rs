//! Cells of thread time. The time of a sleep is spread evenly over the cells that it overlaps, in constant time: its ends
//! have their own parts, and the cells between them a common slope.

/// Nanoseconds in the cells of a map, at `column * rows + row`.
#[derive(Debug)]
pub(super) struct TimeCells {
    rows: usize,
    /// Nanoseconds of a cell, and how far the next cell in time is.
    length: u64,
    step: usize,
    /// Time in single cells, and what each cell has more than the one before it in time.
    own: Vec<u64>,
    slopes: Vec<i64>,
}

impl TimeCells {
    /// Creates cells for columns of `length` nanoseconds; rows divide a column if they are offsets.
    pub(super) fn new(rows: usize, columns: usize, length: u64, is_offset: bool) -> Self {
        let (step, length) = if is_offset { (1, length / rows.max(1) as u64) } else { (rows, length) };
        let n = rows * columns;
        Self { rows, length: length.max(1), step, own: vec![0; n], slopes: vec![0; n] }
    }

    /// Adds a weight that arose evenly in the `took` nanoseconds before `until`, counted from the map's begin.
    pub(super) fn add(&mut self, row: usize, until: u64, took: u64, weight: u64) {
        let lane = if self.step == 1 { 0 } else { row };
        let last = (until / self.length) as usize;
        if took == 0 {
            let at = if self.step == 1 {
                until / (self.length * self.rows as u64) * self.rows as u64 + row as u64
            } else {
                (last * self.rows + row) as u64
            };
            if let Some(own) = self.own.get_mut(at as usize) {
                *own = own.saturating_add(weight);
            }
            return;
        }
        let from = until.saturating_sub(took);
        let first = (from / self.length) as usize;
        let part = |ns: u64| (u128::from(weight) * u128::from(ns) / u128::from(took)) as u64;
        let end_of_first = (first as u64 + 1) * self.length;
        self.put(first, lane, part(end_of_first.min(until) - from));
        if last > first {
            self.put(last, lane, part(until - last as u64 * self.length));
        }
        if last > first + 1 {
            let each = part(self.length) as i64;
            self.slope(first + 1, lane, each);
            self.slope(last, lane, -each);
        }
    }

    fn put(&mut self, at: usize, lane: usize, ns: u64) {
        if let Some(own) = self.own.get_mut(at.saturating_mul(self.step).saturating_add(lane)) {
            *own = own.saturating_add(ns);
        }
    }

    fn slope(&mut self, at: usize, lane: usize, by: i64) {
        if let Some(slope) = self.slopes.get_mut(at.saturating_mul(self.step).saturating_add(lane)) {
            *slope = slope.saturating_add(by);
        }
    }

    /// Returns milliseconds, rounded; a cell with time is not empty.
    pub(super) fn milliseconds(mut self) -> Vec<u32> {
        for at in self.step..self.slopes.len() {
            self.slopes[at] = self.slopes[at].saturating_add(self.slopes[at - self.step]);
        }
        let all = self.own.iter().zip(&self.slopes).map(|(own, slope)| own.saturating_add((*slope).max(0) as u64));
        all.map(|ns| ((ns + 500_000) / 1_000_000).max(u64::from(ns > 0)).min(u32::MAX.into()) as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn sleep_is_spread_over_the_time_before_its_sample() {
        // Two rows, columns of a second.
        let mut cells = TimeCells::new(2, 4, 1000 * MS, false);
        cells.add(1, 3400 * MS, 3000 * MS, 3000 * MS);
        cells.add(0, 1500 * MS, 1000 * MS, 100 * MS);
        cells.add(0, 3999 * MS, 0, 7 * MS);
        assert_eq!(cells.milliseconds(), [50, 600, 50, 1000, 0, 1000, 7, 400]);
        // Offsets in a column: the next row is the next in time, across columns.
        let mut cells = TimeCells::new(4, 2, 1000 * MS, true);
        cells.add(3, 1300 * MS, 600 * MS, 300 * MS);
        cells.add(2, 600 * MS, 0, 9 * MS);
        assert_eq!(cells.milliseconds(), [0, 0, 34, 125, 125, 25, 0, 0]);
    }

    #[test]
    fn what_is_outside_of_the_map_is_left_out() {
        let mut cells = TimeCells::new(1, 2, 1000 * MS, false);
        cells.add(0, 500 * MS, 1000 * MS, 1000 * MS);
        cells.add(0, 9500 * MS, 9000 * MS, 900 * MS);
        cells.add(0, u64::MAX, 0, 1);
        cells.add(0, u64::MAX, u64::MAX, u64::MAX);
        let told = cells.milliseconds();
        assert_eq!(told.len(), 2);
        let mut cells = TimeCells::new(0, 0, 0, true);
        cells.add(3, 5, 5, 5);
        assert!(cells.milliseconds().is_empty());
    }
}
