//! Changes of JIT code over time. In a recording, a sample gets the function that was at its address at its time,
//! according to the jitdump files of its process.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustc_hash::FxHashSet;

use crate::session::hosts::HostId;
use crate::session::{Dso, Session};
use crate::symbols::SymbolOptions;
use crate::symbols::jit;
use crate::symbols::jit::reuse::CodeChange;

#[derive(Debug)]
pub(super) struct CodeChanges {
    options: SymbolOptions,
    read: FxHashSet<(HostId, i32)>,
    /// The numbers of jitdump files and DSOs at the last check.
    known: (usize, usize),
    /// In order of time.
    coming: VecDeque<(CodeChange, HostId, i32)>,
}

impl CodeChanges {
    /// Returns `None` if timestamps are not comparable to those of jitdump files. A live session uses the newest code.
    pub(super) fn new(options: &SymbolOptions) -> Option<Self> {
        let may = !options.live && options.times.monotonic;
        may.then(|| Self {
            options: options.clone(),
            read: FxHashSet::default(),
            known: (0, 0),
            coming: VecDeque::new(),
        })
    }

    pub(super) fn follow(&mut self, session: &mut Session, time: u64) {
        let known = (session.dsos.dumps().len(), session.dsos.all().len());
        if known.0 > self.read.len() && known != self.known {
            self.known = known;
            self.read(session);
        }
        while let Some((change, host, pid)) = self.coming.pop_front_if(|(change, ..)| change.time <= time) {
            session.recode(host, pid, (change.start, change.end), change.at);
        }
    }

    /// Reads the files of processes that have mapped one since the last call. Those without JIT code are checked later.
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
        self.coming.make_contiguous().sort_by_key(|(change, ..)| change.time);
    }
}
