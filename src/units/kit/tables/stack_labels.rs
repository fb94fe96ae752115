//! Merges stacks with equal functions into one row, regardless of their addresses unless these are requested.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::stacks::FrameName;
use crate::panel::text::BELOW;
use crate::profile::RetainedStack;
use crate::session::DsoKind;

use crate::units::kit::waits::sleep;
use crate::units::kit::{Moment, Settings, alloc};

/// Limit of cached stacks; the cache is cleared when it is full.
const MAX: usize = 1 << 17;

/// A cache of values derived from the symbols of a stack, valid until symbols change.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByStack<T> {
    made: FxHashMap<RetainedStack, T>,
    /// The state of all symbols when the cache was filled.
    names: (u64, u64),
}

impl<T: Clone> ByStack<T> {
    pub(crate) fn get(&mut self, at: &Moment<'_>, stack: RetainedStack, make: impl FnOnce() -> T) -> T {
        let frames = &at.profile.frames;
        let names = (frames.names(), frames.inlines());
        if self.names != names || self.made.len() >= MAX {
            self.made.clear();
            self.names = names;
        }
        self.made.entry(stack).or_insert_with(make).clone()
    }
}

/// Stacks as text lines, the leaf first.
#[derive(Clone, Debug, Default)]
pub(crate) struct StackLabels {
    spelling: Spelling,
    lines: ByStack<StackLine>,
}

/// A stack as a line.
#[derive(Clone, Debug, Default)]
struct StackLine {
    text: Arc<str>,
    /// Whether callers are missing, and its last part says so: `leaf < [broken]`.
    is_cut: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Spelling {
    by_address: bool,
    /// Whether allocation wrappers are omitted.
    is_of_allocations: bool,
    /// Whether the kernel part is reduced to the system call and the wait function.
    is_of_sleep: bool,
}

impl StackLabels {
    pub(crate) fn of(settings: &Settings) -> Self {
        let spelling = Spelling { by_address: settings.has("addresses"), ..Spelling::default() };
        Self { spelling, lines: ByStack::default() }
    }

    pub(crate) fn of_allocations(settings: &Settings) -> Self {
        let mut own = Self::of(settings);
        own.spelling.is_of_allocations = true;
        own
    }

    pub(crate) fn of_sleep(settings: &Settings) -> Self {
        let mut own = Self::of(settings);
        own.spelling.is_of_sleep = !own.spelling.by_address;
        own
    }

    pub(crate) fn line(&mut self, at: &Moment<'_>, stack: RetainedStack) -> Arc<str> {
        self.stack_line(at, stack).text
    }

    fn stack_line(&mut self, at: &Moment<'_>, stack: RetainedStack) -> StackLine {
        let spelling = self.spelling;
        self.lines.get(at, stack, || spelling.written(at, stack))
    }

    /// Sums figures of stacks with equal keys and lines. A stack without its callers counts in the only row that it can
    /// belong to: a new process has no unwind table yet, and one place would have two rows.
    pub(crate) fn rows<K: Ord, V, S: Default>(
        &mut self,
        at: &Moment<'_>,
        figures: impl IntoIterator<Item = (K, RetainedStack, V)>,
        mut add: impl FnMut(&mut S, V),
    ) -> BTreeMap<(K, Arc<str>), S> {
        let mut rows: BTreeMap<(K, Arc<str>), PlaceFigures<V>> = BTreeMap::new();
        for (key, stack, value) in figures {
            let StackLine { text, is_cut } = self.stack_line(at, stack);
            let place = rows.entry((key, text)).or_default();
            place.is_cut = is_cut;
            place.values.push(value);
        }
        let mut sum = |values: Vec<V>| {
            let mut sum = S::default();
            values.into_iter().for_each(|value| add(&mut sum, value));
            sum
        };
        with_cut_ones_merged(rows).into_iter().map(|(key, values)| (key, sum(values))).collect()
    }
}

impl Spelling {
    fn written(self, at: &Moment<'_>, stack: RetainedStack) -> StackLine {
        let frames = if self.by_address { at.addressed_frames(stack) } else { at.frames(stack) };
        let text = match self {
            Self { is_of_sleep: true, .. } => line(&sleep::seen_by_user(&frames)),
            Self { is_of_allocations: true, .. } => line(alloc::without_wrappers(&frames)),
            _ => line(&frames),
        };
        let end = frames.first().filter(|outermost| outermost.kind == DsoKind::Cut);
        StackLine { is_cut: end.is_some_and(|end| text.ends_with(&*end.text)), text: text.into() }
    }
}

/// The figures of stacks with one line.
struct PlaceFigures<V> {
    is_cut: bool,
    values: Vec<V>,
}

impl<V> Default for PlaceFigures<V> {
    fn default() -> Self {
        Self { is_cut: false, values: Vec::new() }
    }
}

type Place<K> = (K, Arc<str>);

/// Adds the figures of stacks without their callers to the only whole stack with the same key that begins like them.
fn with_cut_ones_merged<K: Ord, V>(rows: BTreeMap<Place<K>, PlaceFigures<V>>) -> Vec<(Place<K>, Vec<V>)> {
    let mut rows: Vec<(Place<K>, PlaceFigures<V>)> = rows.into_iter().collect();
    for at in 0..rows.len() {
        if let Some(whole) = only_whole_one(&rows, at).filter(|_| rows[at].1.is_cut) {
            let values = std::mem::take(&mut rows[at].1.values);
            rows[whole].1.values.extend(values);
        }
    }
    rows.retain(|(_, place)| !place.values.is_empty());
    rows.into_iter().map(|(key, place)| (key, place.values)).collect()
}

/// Returns the only whole stack that continues the one at an index. Lines that begin alike are next to each other.
fn only_whole_one<K: Ord, V>(rows: &[(Place<K>, PlaceFigures<V>)], at: usize) -> Option<usize> {
    let ((key, line), _) = &rows[at];
    let known = &line[..line.rfind(BELOW)? + BELOW.len()];
    let begins_so = |i: &usize| rows[*i].0.0 == *key && rows[*i].0.1.starts_with(known);
    let around = (0..at).rev().take_while(begins_so).chain((at + 1..rows.len()).take_while(begins_so));
    let mut whole = around.filter(|i| !rows[*i].1.is_cut);
    let only = whole.next()?;
    whole.next().is_none().then_some(only)
}

/// Joins frames, the outermost first, to a line that begins with the innermost.
pub(crate) fn line(frames: &[FrameName]) -> String {
    match frames {
        [] => "–".to_owned(),
        frames => frames.iter().rev().map(|name| &*name.text).collect::<Vec<_>>().join(BELOW),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(lines: &[(u8, &str)]) -> Vec<(u8, String, usize)> {
        let mut rows: BTreeMap<Place<u8>, PlaceFigures<()>> = BTreeMap::new();
        for (key, line) in lines {
            let place = rows.entry((*key, Arc::from(*line))).or_default();
            place.is_cut = line.ends_with("[broken]");
            place.values.push(());
        }
        let merged = with_cut_ones_merged(rows).into_iter();
        merged.map(|((key, line), values)| (key, line.to_string(), values.len())).collect()
    }

    #[test]
    fn stacks_without_callers_count_in_the_only_row_they_fit() {
        let row = |key: u8, line: &str, n: usize| (key, line.to_owned(), n);
        let one = [
            (1, "leaf < main < _start"),
            (1, "leaf < [broken]"),
            (1, "leaf < main < [broken]"),
            (2, "leaf < [broken]"),
            (1, "leaf2 < main < _start"),
            (1, "[broken]"),
        ];
        let expected = [
            row(1, "[broken]", 1),
            row(1, "leaf < main < _start", 3),
            row(1, "leaf2 < main < _start", 1),
            row(2, "leaf < [broken]", 1),
        ];
        assert_eq!(merged(&one), expected);
        let two = [(1, "leaf < a < main"), (1, "leaf < b < main"), (1, "leaf < [broken]"), (1, "leaf < a < [broken]")];
        let expected = [row(1, "leaf < [broken]", 1), row(1, "leaf < a < main", 2), row(1, "leaf < b < main", 1)];
        assert_eq!(merged(&two), expected, "its caller is a or b");
    }
}
