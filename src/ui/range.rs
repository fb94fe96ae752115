//! Ranges of time that were looked at, and how a range is called and asked for.

use crate::panel::unit::clock;

/// Ranges, or filters, that are remembered.
const MAX: usize = 100;

/// Makes something the last of what was looked at.
pub(crate) fn remember<T: PartialEq>(list: &mut Vec<T>, last: T) {
    list.retain(|past| *past != last);
    list.push(last);
    list.drain(..list.len().saturating_sub(MAX));
}

/// The ranges that were looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    past: Vec<(u64, u64)>,
    /// The one that is looked at, or was last.
    at: usize,
}

/// Seconds from the session's start, as ranges are called.
pub(crate) fn label((from, until): (u64, u64)) -> String {
    if until == u64::MAX {
        return format!("since {}", clock(from));
    }
    format!("{:.3}–{:.3} s", from as f64 / 1e9, until as f64 / 1e9)
}

/// The clause that only a range's samples pass.
pub(crate) fn clause((from, until): (u64, u64)) -> String {
    if until == u64::MAX {
        return format!("time >= {from}ns");
    }
    format!("time >= {from}ns && time < {until}ns")
}

impl Ranges {
    /// This one is looked at.
    pub(crate) fn remember(&mut self, range: (u64, u64)) {
        remember(&mut self.past, range);
        self.at = self.past.len() - 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.past.is_empty()
    }

    /// The range before (-1) or after (1) the one that is looked at; the last one comes back first when none is.
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
