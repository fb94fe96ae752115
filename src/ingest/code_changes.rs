//! Code that JITs put where other code was: in a recording a sample has the function that was at its address at its
//! time, as the jitdump files of its processes tell it.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustc_hash::FxHashSet;

use crate::session::hosts::HostId;
use crate::session::{Dso, Session};
use crate::symbols::SymbolOptions;
use crate::symbols::jit;
use crate::symbols::jit_reuse::{CodeChange, tagged};

/// The changes that are still to come.
#[derive(Debug)]
pub(super) struct CodeChanges {
    options: SymbolOptions,
    /// The processes whose files were read.
    read: FxHashSet<(HostId, i32)>,
    /// So many jitdump files and DSOs were known when they were last looked through.
    known: (usize, usize),
    /// In order of time.
    coming: VecDeque<(CodeChange, HostId, i32)>,
}

impl CodeChanges {
    /// `None` where times cannot be compared with those of jitdump files. What is measured now is named by the newest
    /// code.
    pub(super) fn new(options: &SymbolOptions) -> Option<Self> {
        let may = !options.live && options.times.monotonic;
        may.then(|| Self {
            options: options.clone(),
            read: FxHashSet::default(),
            known: (0, 0),
            coming: VecDeque::new(),
        })
    }

    /// Follows what changed until a time.
    pub(super) fn follow(&mut self, session: &mut Session, time: u64) {
        let known = (session.dsos.dumps().len(), session.dsos.all().len());
        if known.0 > self.read.len() && known != self.known {
            self.known = known;
            self.read(session);
        }
        while let Some((change, host, pid)) = self.coming.pop_front_if(|(change, ..)| change.time <= time) {
            session.recode(host, pid, (change.start, change.end), tagged(change.start, change.generation));
        }
    }

    /// Reads the files of processes that have mapped one since. One without code in memory is looked at later.
    fn read(&mut self, session: &Session) {
        let fresh: Vec<(HostId, i32, Dso)> = session
            .dsos
            .dumps()
            .filter(|(of, _)| !self.read.contains(*of))
            .filter_map(|((host, pid), _)| Some((*host, *pid, session.dsos.anonymous_of(*host, *pid)?.clone())))
            .collect();
        for (host, pid, dso) in fresh {
            self.read.insert((host, pid));
            let Some(path) = &dso.dump else { continue };
            let changes = jit::changes(&dso, Path::new(OsStr::from_bytes(path)), &self.options);
            self.coming.extend(changes.into_iter().map(|change| (change, host, pid)));
        }
        self.coming.make_contiguous().sort_by_key(|(change, ..)| *change);
    }
}
