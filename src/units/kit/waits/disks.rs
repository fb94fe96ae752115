//! Names of disks by device number.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::session::machine::block_device_of;
use crate::session::{Origin, Session};

/// The minor bits of a device number (MKDEV in include/linux/kdev_t.h).
const MINOR: i64 = 0xf_ffff;

/// Major and minor number of a device.
pub(crate) fn numbers(dev: i64) -> (u32, u32) {
    ((dev >> 20) as u32, (dev & MINOR) as u32)
}

#[derive(Clone, Debug, Default)]
pub(crate) struct DiskNames(FxHashMap<i64, Arc<str>>);

impl DiskNames {
    /// Looks the name of a disk up on a live machine.
    pub(crate) fn meet(&mut self, dev: i64, session: &Session) {
        if session.origin() == Origin::Live && !self.0.contains_key(&dev) {
            let (major, minor) = numbers(dev);
            self.0.insert(dev, block_device_of(major, minor).map_or_else(|| in_words(dev), Arc::from));
        }
    }

    /// Returns the name of a disk, or `MAJOR:MINOR`.
    pub(crate) fn name(&self, dev: i64) -> Arc<str> {
        self.0.get(&dev).cloned().unwrap_or_else(|| in_words(dev))
    }
}

fn in_words(dev: i64) -> Arc<str> {
    let (major, minor) = numbers(dev);
    format!("{major}:{minor}").into()
}
