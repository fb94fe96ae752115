//! Names of descriptors that were looked up after the call: a record of an earlier change may still refute them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustc_hash::FxHashMap;

/// The limit of lookups that are not proven; with more, all are taken for proven.
const MAX_UNPROVEN: usize = 1 << 10;

/// The file or peer of a descriptor.
#[derive(Debug)]
pub(super) struct DescriptorName {
    name: Arc<str>,
    is_refuted: AtomicBool,
}

impl DescriptorName {
    pub(super) fn of(name: Arc<str>) -> Arc<Self> {
        Arc::new(Self { name, is_refuted: AtomicBool::new(false) })
    }

    pub(super) fn is_refuted(&self) -> bool {
        self.is_refuted.load(Ordering::Relaxed)
    }

    /// Returns the name; `None` if the descriptor was reopened between the call and the lookup.
    pub(super) fn get(&self) -> Option<&str> {
        (!self.is_refuted()).then_some(&*self.name)
    }
}

/// A lookup, and the figures of the calls before it.
#[derive(Clone, Debug)]
pub(super) struct DescriptorLookup<F> {
    pub(super) row: usize,
    pub(super) name: Arc<DescriptorName>,
    pub(super) figures: F,
    /// The time of the lookup, on the clock of the records.
    read_at: u64,
}

/// The lookups of descriptors, by process and descriptor, until the records reach their time.
#[derive(Clone, Debug, Default)]
pub(super) struct Lookups<F>(FxHashMap<(i32, i32), DescriptorLookup<F>>);

impl<F: Default> Lookups<F> {
    /// Adds a lookup. Returns those that count as proven from now on.
    pub(super) fn add(&mut self, of: (i32, i32), row: usize, read_at: u64, name: Arc<str>) -> Vec<DescriptorLookup<F>> {
        let mut proven = Vec::new();
        if self.0.len() >= MAX_UNPROVEN {
            proven.extend(self.0.drain().map(|(_, lookup)| lookup));
        }
        let lookup = DescriptorLookup { row, name: DescriptorName::of(name), figures: F::default(), read_at };
        proven.extend(self.0.insert(of, lookup));
        proven
    }

    /// Returns the figures of the calls before a lookup, for a call that returned at a time; `None` if the lookup
    /// came before the call.
    pub(super) fn unproven(&mut self, of: (i32, i32), row: usize, time: u64) -> Option<&mut F> {
        let lookup = self.0.get_mut(&of).filter(|lookup| lookup.row == row && time <= lookup.read_at)?;
        Some(&mut lookup.figures)
    }

    pub(super) fn name(&self, of: (i32, i32), row: usize) -> Option<Arc<DescriptorName>> {
        self.0.get(&of).filter(|lookup| lookup.row == row).map(|lookup| lookup.name.clone())
    }

    pub(super) fn take(&mut self, of: (i32, i32)) -> Option<DescriptorLookup<F>> {
        self.0.remove(&of)
    }

    /// Ends the lookup of a descriptor that changes at a time; an earlier change than the lookup refutes it.
    pub(super) fn change(&mut self, of: (i32, i32), time: u64) -> Option<DescriptorLookup<F>> {
        self.0.remove(&of).inspect(|lookup| {
            if time <= lookup.read_at {
                lookup.name.is_refuted.store(true, Ordering::Relaxed);
            }
        })
    }

    /// Ends the lookups of some descriptors of a process.
    pub(super) fn change_all(&mut self, pid: i32, time: u64, is_one: impl Fn(i32) -> bool) -> Vec<DescriptorLookup<F>> {
        let all: Vec<(i32, i32)> = self.0.keys().filter(|(own, fd)| *own == pid && is_one(*fd)).copied().collect();
        all.into_iter().filter_map(|of| self.change(of, time)).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &DescriptorLookup<F>> {
        self.0.values()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_change_refutes_a_lookup() {
        let mut lookups = Lookups::<u64>::default();
        lookups.add((1, 3), 7, 100, "/later".into());
        // Until the records reach the lookup, calls wait for its proof.
        assert!(lookups.unproven((1, 3), 7, 100).is_some() && lookups.unproven((1, 3), 7, 101).is_none());
        assert!(lookups.unproven((1, 3), 8, 50).is_none() && lookups.unproven((2, 3), 7, 50).is_none());
        let name = lookups.name((1, 3), 7).expect("looked up");
        assert_eq!(name.get(), Some("/later"));
        let refuted = lookups.change((1, 3), 60).expect("a lookup");
        assert!(refuted.name.is_refuted() && name.get().is_none());
        lookups.add((1, 3), 7, 100, "/same".into());
        assert!(lookups.change((1, 3), 101).is_some_and(|lookup| !lookup.name.is_refuted()));
        assert!(lookups.change((1, 3), 101).is_none());
    }

    #[test]
    fn lookups_have_a_limit_and_end_with_their_process() {
        let mut lookups = Lookups::<u64>::default();
        let ended: usize =
            (0..3 * MAX_UNPROVEN as i32).map(|fd| lookups.add((fd % 2, fd), 2, 9, "a".into()).len()).sum();
        assert!(lookups.iter().count() <= MAX_UNPROVEN && ended >= 2 * MAX_UNPROVEN);
        let own = lookups.change_all(1, u64::MAX, |_| true);
        assert!(!own.is_empty() && own.iter().all(|lookup| !lookup.name.is_refuted()));
        assert!(lookups.change_all(0, 5, |_| true).iter().all(|lookup| lookup.name.is_refuted()));
        assert_eq!(lookups.iter().count(), 0);
    }
}
