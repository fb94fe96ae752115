//! The history of selected time ranges, with their labels and filters.

use crate::panel::unit::clock;

/// Limit of remembered ranges or filters.
const MAX: usize = 100;

/// Appends a value to a history, or moves it to its end.
pub(crate) fn remember<T: PartialEq>(list: &mut Vec<T>, last: T) {
    list.retain(|past| *past != last);
    list.push(last);
    list.drain(..list.len().saturating_sub(MAX));
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    past: Vec<(u64, u64)>,
    /// The index of the current or last range.
    at: usize,
}

pub(crate) fn label((from, until): (u64, u64)) -> String {
    if until == u64::MAX {
        return format!("since {}", clock(from));
    }
    format!("{:.3}–{:.3} s", from as f64 / 1e9, until as f64 / 1e9)
}

pub(crate) fn clause((from, until): (u64, u64)) -> String {
    if until == u64::MAX {
        return format!("time >= {from}ns");
    }
    format!("time >= {from}ns && time < {until}ns")
}

impl Ranges {
    pub(crate) fn remember(&mut self, range: (u64, u64)) {
        remember(&mut self.past, range);
        self.at = self.past.len() - 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.past.is_empty()
    }

    /// Returns the previous (-1) or next (1) range. Without a current range, -1 returns the last one.
    pub(crate) fn walk(&mut self, here: bool, step: isize) -> Option<(u64, u64)> {
        let at = match here {
            false if step < 0 => Some(self.at),
            false => None,
            true => self.at.checked_add_signed(step),
        };
        let at = at.filter(|at| *at < self.past.len())?;
        self.at = at;
        Some(self.past[at])
    }
}
