//! The code that determines the rows of code without tables.

use super::{CALLERS_PER_BYTE, MAX_BYTES, Tracer, UncoveredCode};

/// Bytes after uncovered code that its last instruction may have.
const LONGEST_INSTRUCTION: u64 = 15;

/// Returns all code that the tracer may read: that outside of the covered functions, and functions that may call it.
/// `None` if there is no code without tables.
pub(in super::super) fn examined<'a>(code: &UncoveredCode<'a>, covered: Vec<(u64, u64)>) -> Option<Vec<&'a [u8]>> {
    let tracer = Tracer::new(code, covered);
    if !(1..=MAX_BYTES).contains(&tracer.bare) {
        return None;
    }
    let mut all = Vec::new();
    let mut add = |start: u64, end: u64| {
        let len = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        all.extend(tracer.code_at(start).map(|code| &code[..code.len().min(len)]));
    };
    for (start, code) in &tracer.parts {
        let end = start.saturating_add(code.len() as u64);
        let first = tracer.covered.partition_point(|(function, _)| function < start);
        let mut free = first.checked_sub(1).map_or(*start, |before| tracer.covered[before].1.max(*start));
        for (from, to) in tracer.covered[first..].iter().take_while(|(from, _)| *from < end) {
            if free < *from {
                add(free, from.saturating_add(LONGEST_INSTRUCTION));
            }
            free = *to;
        }
        add(free, end);
    }
    tracer.callers().for_each(|(start, end)| add(start, end));
    Some(all)
}

impl Tracer<'_> {
    /// Returns the functions that are searched for calls: a large program with little uncovered code is not searched
    /// completely.
    pub(super) fn callers(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut left = self.bare.saturating_mul(CALLERS_PER_BYTE);
        self.covered.iter().copied().map_while(move |(start, end)| {
            left = left.checked_sub(end.saturating_sub(start))?;
            Some((start, end))
        })
    }
}
