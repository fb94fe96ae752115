//! Names of disks by their numbers, as tracepoints have them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::session::machine::block_device_of;
use crate::session::{Origin, Session};

/// The bits of a device number that are its minor (MKDEV in include/linux/kdev_t.h).
const MINOR: i64 = 0xf_ffff;

/// Major and minor number of a device.
pub(crate) fn numbers(dev: i64) -> (u32, u32) {
    ((dev >> 20) as u32, (dev & MINOR) as u32)
}

/// The disks that records named.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskNames(FxHashMap<i64, Arc<str>>);

impl DiskNames {
    /// A record names a disk: on a running machine its name is looked up.
    pub(crate) fn meet(&mut self, dev: i64, session: &Session) {
        if session.origin() == Origin::Live && !self.0.contains_key(&dev) {
            let (major, minor) = numbers(dev);
            self.0.insert(dev, block_device_of(major, minor).map_or_else(|| in_words(dev), Arc::from));
        }
    }

    /// The name of a disk on the machine that runs, else `MAJOR:MINOR`.
    pub(crate) fn name(&self, dev: i64) -> Arc<str> {
        self.0.get(&dev).cloned().unwrap_or_else(|| in_words(dev))
    }
}

fn in_words(dev: i64) -> Arc<str> {
    let (major, minor) = numbers(dev);
    format!("{major}:{minor}").into()
}
