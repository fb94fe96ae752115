//! Merges stacks with equal functions into one row, regardless of their addresses unless these are requested.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::stacks::FrameName;
use crate::panel::text::BELOW;
use crate::profile::RetainedStack;

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
    lines: ByStack<Arc<str>>,
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
        let spelling = self.spelling;
        self.lines.get(at, stack, || spelling.written(at, stack))
    }

    /// Sums figures of stacks with equal keys and lines.
    pub(crate) fn rows<K: Ord, V, S: Default>(
        &mut self,
        at: &Moment<'_>,
        figures: impl IntoIterator<Item = (K, RetainedStack, V)>,
        mut add: impl FnMut(&mut S, V),
    ) -> BTreeMap<(K, Arc<str>), S> {
        let mut rows: BTreeMap<(K, Arc<str>), S> = BTreeMap::new();
        for (key, stack, value) in figures {
            add(rows.entry((key, self.line(at, stack))).or_default(), value);
        }
        rows
    }
}

impl Spelling {
    fn written(self, at: &Moment<'_>, stack: RetainedStack) -> Arc<str> {
        let frames = if self.by_address { at.addressed_frames(stack) } else { at.frames(stack) };
        if self.is_of_sleep {
            return line(&sleep::seen_by_user(&frames)).into();
        }
        let frames = if self.is_of_allocations { alloc::without_wrappers(&frames) } else { &frames[..] };
        line(frames).into()
    }
}

/// Joins frames, the outermost first, to a line that begins with the innermost.
pub(crate) fn line(frames: &[FrameName]) -> String {
    match frames {
        [] => "–".to_owned(),
        frames => frames.iter().rev().map(|name| &*name.text).collect::<Vec<_>>().join(BELOW),
    }
}
