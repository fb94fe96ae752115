//! The cursor of a list, which stays on its row while rows move.

/// A cursor and the scroll position.
#[derive(Clone, Debug)]
pub struct ListCursor<Id> {
    /// The row under the cursor. `None` while the cursor rests on the list's default row.
    pub(crate) id: Option<Id>,
    /// The first visible row.
    pub top: usize,
    /// Whether the scroll position results from rows that moved above, not from the user.
    pub(crate) drifted: bool,
}

impl<Id> Default for ListCursor<Id> {
    fn default() -> Self {
        Self { id: None, top: 0, drifted: false }
    }
}

impl<Id> ListCursor<Id> {
    /// Puts the cursor on a row at a position of the list.
    pub(crate) fn go(&mut self, id: Option<Id>, at: usize, rows: usize, height: usize) {
        (self.id, self.drifted) = (id, false);
        self.show(at, rows, height);
    }

    /// Keeps the cursor's row, which moved to another position, on its line of the screen. A list that rests at its top
    /// stays there unless the cursor would become invisible.
    pub(crate) fn follow(&mut self, (before, now): (usize, usize), rests: bool, rows: usize, height: usize) {
        let row = before.saturating_sub(self.top);
        let top = if rests && self.top == 0 && now < height { 0 } else { now.saturating_sub(row) };
        let top = top.min(rows.saturating_sub(height));
        self.drifted = top > 0 && rests && (self.drifted || top > self.top);
        self.top = top;
    }

    /// Scrolls as little as possible, so that a row is visible.
    pub(crate) fn show(&mut self, at: usize, rows: usize, height: usize) {
        self.top = self.first(at, rows, height);
    }

    /// Returns the first visible row if a row must be visible.
    pub(crate) fn first(&self, at: usize, rows: usize, height: usize) -> usize {
        let height = height.max(1);
        self.top.min(at).max((at + 1).saturating_sub(height)).min(rows.saturating_sub(height))
    }
}
