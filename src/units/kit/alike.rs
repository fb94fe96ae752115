//! Stacks that read alike: those of the same functions are one row, whatever the addresses in them, unless these are
//! asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::text::BELOW;
use crate::profile::RetainedStack;
use crate::query::symbol_stacks::Name;

use super::{Moment, Settings, alloc};

/// Stacks whose lines are remembered; when there are more, all are written anew.
const MAX: usize = 1 << 17;

/// Stacks as lines, the leaf first. Each is written once while its names stay what they are.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    by_address: bool,
    /// Whether functions that only hand out memory are left out.
    is_of_allocations: bool,
    lines: FxHashMap<RetainedStack, Arc<str>>,
    /// The state of all names when they were written.
    names: (u64, u64),
}

impl Alike {
    pub(crate) fn of(settings: &Settings) -> Self {
        Self { by_address: settings.has("addresses"), ..Self::default() }
    }

    /// Of stacks that allocate.
    pub(crate) fn of_allocations(settings: &Settings) -> Self {
        Self { is_of_allocations: true, ..Self::of(settings) }
    }

    /// A stack's line.
    pub(crate) fn line(&mut self, at: &Moment<'_>, stack: RetainedStack) -> Arc<str> {
        let frames = &at.profile.frames;
        let names = (frames.names(), frames.inlines());
        if self.names != names || self.lines.len() >= MAX {
            self.lines.clear();
            self.names = names;
        }
        if let Some(known) = self.lines.get(&stack) {
            return known.clone();
        }
        let line = self.written(at, stack);
        self.lines.insert(stack, line.clone());
        line
    }

    fn written(&self, at: &Moment<'_>, stack: RetainedStack) -> Arc<str> {
        let frames = if self.by_address { at.addressed_frames(stack) } else { at.frames(stack) };
        let frames = if self.is_of_allocations { alloc::without_wrappers(&frames) } else { &frames[..] };
        line(frames).into()
    }

    /// Figures of stacks by what else tells them apart and by their lines, those alike added up.
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

/// Frames, the outermost first, in one line that begins with the innermost.
pub(crate) fn line(frames: &[Name]) -> String {
    match frames {
        [] => "–".to_owned(),
        frames => frames.iter().rev().map(|name| &*name.text).collect::<Vec<_>>().join(BELOW),
    }
}
