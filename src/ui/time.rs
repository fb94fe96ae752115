//! The time screen's own state: the page that is looked at, the cursor, the selection.

use crate::query::heat::{Heat, SECOND};

/// The time screen.
#[derive(Clone, Debug, Default)]
pub struct TimeScreen {
    /// The first second of the page; the newest page while `None`.
    pub page: Option<u64>,
    /// The cell under the cursor, as nanoseconds from the session's start: it stays where it is when the
    /// map is drawn in another size.
    pub cursor: Option<u64>,
    /// Where the selection began.
    pub anchor: Option<u64>,
}

impl TimeScreen {
    /// The cell under the cursor: that of the newest sample while it was not moved.
    pub fn cell(&self, heat: &Heat) -> usize {
        cell_at(heat, self.cursor.unwrap_or(heat.until))
    }

    /// The cells that are selected, in order of time; the cursor's alone when none are.
    pub fn selected(&self, heat: &Heat) -> std::ops::Range<usize> {
        let here = self.cell(heat);
        let other = self.anchor.map_or(here, |at| cell_at(heat, at));
        here.min(other)..here.max(other) + 1
    }
}

/// The cell that a time is in; of times on other pages the nearest.
pub fn cell_at(heat: &Heat, ns: u64) -> usize {
    let last = (heat.columns * heat.rows).saturating_sub(1);
    let Some(after) = ns.checked_sub(heat.first.saturating_mul(SECOND)) else { return 0 };
    let cell = (after / SECOND) as usize * heat.rows + (after % SECOND * heat.rows as u64 / SECOND) as usize;
    cell.min(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selection_is_in_order_of_time() {
        let heat = Heat { first: 10, columns: 5, rows: 4, until: 12 * SECOND, ..Heat::default() };
        let mut screen = TimeScreen::default();
        assert_eq!(screen.selected(&heat), 8..9);
        screen.anchor = Some(13 * SECOND);
        screen.cursor = Some(11 * SECOND + SECOND / 2);
        assert_eq!(screen.selected(&heat), 6..13);
        assert_eq!((cell_at(&heat, 0), cell_at(&heat, u64::MAX)), (0, 19));
    }
}
