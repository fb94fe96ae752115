//! Names of threads, kept after they have ended.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::session::{OUTSIDE, OUTSIDE_NAME, Session};

/// Threads that are remembered; when there are more, all are learned anew.
const MAX: usize = 1 << 18;

/// The last known name of each thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadNames {
    map: FxHashMap<i32, Arc<str>>,
}

impl ThreadNames {
    /// A record says how a thread is called.
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

    /// Takes the name of a thread that is not known yet: renames are told by records of their own, so that what storms
    /// of events say need not be compared each time.
    pub fn meet(&mut self, tid: i32, comm: &[u8]) {
        if !self.map.contains_key(&tid) {
            self.learn(tid, comm);
        }
    }

    /// The name that is known without asking anybody.
    pub fn get(&self, tid: i32) -> Option<&str> {
        self.map.get(&tid).map(|name| &**name)
    }

    /// The name of a thread now, remembered.
    pub fn comm(&mut self, session: &Session, tid: i32) -> Arc<str> {
        if let Some(known) = self.map.get(&tid) {
            return known.clone();
        }
        // What nobody knows now a record may tell yet.
        let Some(found) = session.comm_of(tid) else { return unknown(tid) };
        self.learn(tid, found.as_bytes());
        found
    }

    /// The name of a thread as far as it is known.
    pub fn known(&self, session: &Session, tid: i32) -> Arc<str> {
        self.map.get(&tid).cloned().or_else(|| session.comm_of(tid)).unwrap_or_else(|| unknown(tid))
    }
}

fn unknown(tid: i32) -> Arc<str> {
    common(tid).map_or_else(|| format!(":{tid}").into(), Arc::from)
}

/// What several tasks of one number are called together.
fn common(tid: i32) -> Option<&'static str> {
    match tid {
        0 => Some("swapper"),
        OUTSIDE => Some(OUTSIDE_NAME),
        _ => None,
    }
}
