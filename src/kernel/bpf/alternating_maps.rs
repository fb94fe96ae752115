//! Two maps of sums that take turns: one is read and emptied while programs fill the other.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;

use super::calls::{self, LoadError, MappedValue};
use super::object::LoadedObject;

/// The maps `sums0` and `sums1` of an object, and its map `barrier`.
#[derive(Debug)]
pub(crate) struct AlternatingMaps {
    /// The element that is stored in the barrier.
    inner: MappedValue,
}

impl AlternatingMaps {
    pub(crate) fn new() -> Result<Self, LoadError> {
        Ok(Self { inner: MappedValue::new(8)? })
    }

    #[cfg(test)]
    pub(crate) fn staged() -> Self {
        Self { inner: MappedValue::staged(8) }
    }

    /// Lets programs fill the other map, and returns the full one. `active` is the word of the settings that selects
    /// the map.
    pub(crate) fn turn<'a>(
        &self,
        object: &'a LoadedObject,
        settings: &MappedValue,
        active: usize,
    ) -> Result<BorrowedFd<'a>, LoadError> {
        let full = settings.word(active).fetch_xor(1, Ordering::AcqRel) & 1;
        self.wait(object)?;
        object.map(["sums0", "sums1"][full as usize])
    }

    /// Waits until the running programs have ended: an update of a map of maps does (kernel/bpf/syscall.c).
    pub(crate) fn wait(&self, object: &LoadedObject) -> Result<(), LoadError> {
        Ok(calls::put(object.map("barrier")?, 0, [self.inner.fd().as_raw_fd() as u32, 0, 0, 0])?)
    }
}
