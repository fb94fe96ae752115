//! Names of threads, kept after the threads end.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::session::{OUTSIDE, OUTSIDE_NAME, Session};

/// Limit of cached threads; the cache is cleared when it is full.
const MAX: usize = 1 << 18;

/// The last known name of each thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadNames {
    map: FxHashMap<i32, Arc<str>>,
}

impl ThreadNames {
    /// Stores a thread's name from a record.
    pub fn learn(&mut self, tid: i32, comm: &[u8]) {
        match self.map.get_mut(&tid) {
            Some(known) if known.as_bytes() == comm || common(tid).is_some() => {}
            Some(known) => *known = String::from_utf8_lossy(comm).into(),
            None => {
                if self.map.len() >= MAX {
                    self.map.clear();
                }
                let name = common(tid).map_or_else(|| String::from_utf8_lossy(comm).into(), Arc::from);
                self.map.insert(tid, name);
            }
        }
    }

    /// Stores the name of an unknown thread. Renames have their own records: other names need no comparison.
    pub fn meet(&mut self, tid: i32, comm: &[u8]) {
        if !self.map.contains_key(&tid) {
            self.learn(tid, comm);
        }
    }

    /// Returns a stored name without a lookup.
    pub fn get(&self, tid: i32) -> Option<&str> {
        self.map.get(&tid).map(|name| &**name)
    }

    /// Returns the current name of a thread, and stores it.
    pub fn comm(&mut self, session: &Session, tid: i32) -> Arc<str> {
        if let Some(known) = self.map.get(&tid) {
            return known.clone();
        }
        // Do not store an unknown name: a later record may contain it.
        let Some(found) = session.comm_of(tid) else { return unknown(tid) };
        self.learn(tid, found.as_bytes());
        found
    }

    /// Returns the name of a thread, if known.
    pub fn known(&self, session: &Session, tid: i32) -> Arc<str> {
        self.map.get(&tid).cloned().or_else(|| session.comm_of(tid)).unwrap_or_else(|| unknown(tid))
    }
}

fn unknown(tid: i32) -> Arc<str> {
    common(tid).map_or_else(|| format!(":{tid}").into(), Arc::from)
}

/// The common name of tasks that share a number.
fn common(tid: i32) -> Option<&'static str> {
    match tid {
        0 => Some("swapper"),
        OUTSIDE => Some(OUTSIDE_NAME),
        _ => None,
    }
}
