//! The open descriptors of processes whose names are known.

use rustc_hash::FxHashMap;

/// The limit of descriptors whose name is kept.
const MAX_KNOWN: usize = 1 << 16;

/// The row of a descriptor, and when its name was looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownDescriptor {
    pub(super) row: usize,
    pub(super) looked_at: u64,
}

/// The descriptors of processes whose names are known.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownDescriptors {
    processes: FxHashMap<i32, FxHashMap<i32, KnownDescriptor>>,
    number: usize,
}

impl KnownDescriptors {
    pub(super) fn get(&self, pid: i32, fd: i32) -> Option<KnownDescriptor> {
        self.processes.get(&pid)?.get(&fd).copied()
    }

    pub(super) fn insert(&mut self, pid: i32, fd: i32, of: KnownDescriptor) {
        if self.number >= MAX_KNOWN {
            self.clear();
        }
        let before = self.processes.entry(pid).or_default().insert(fd, of);
        self.number += usize::from(before.is_none());
    }

    pub(super) fn remove(&mut self, pid: i32, fd: i32) {
        let removed = self.processes.get_mut(&pid).and_then(|own| own.remove(&fd));
        self.number -= usize::from(removed.is_some());
    }

    pub(super) fn close_range(&mut self, pid: i32, first: u32, last: u32) {
        if let Some(own) = self.processes.get_mut(&pid) {
            let before = own.len();
            own.retain(|fd, _| !(first..=last).contains(&fd.cast_unsigned()));
            self.number -= before - own.len();
        }
    }

    pub(super) fn end(&mut self, pid: i32) {
        self.number -= self.processes.remove(&pid).map_or(0, |own| own.len());
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_have_a_limit_and_end() {
        let mut known = KnownDescriptors::default();
        let counted = |known: &KnownDescriptors| known.processes.values().map(FxHashMap::len).sum::<usize>();
        for fd in 0..2 * MAX_KNOWN as i32 {
            known.insert(1 + fd % 7, fd, KnownDescriptor { row: 2, looked_at: 0 });
        }
        assert!(known.number <= MAX_KNOWN && known.number == counted(&known));
        known.close_range(1, 0, u32::MAX);
        known.end(2);
        assert!(known.number > 0 && known.number == counted(&known));
        known.insert(1, 3, KnownDescriptor { row: 2, looked_at: 0 });
        known.remove(1, 3);
        assert!(known.get(1, 3).is_none() && known.number == counted(&known));
        known.clear();
        assert_eq!((known.number, counted(&known)), (0, 0));
    }
}
