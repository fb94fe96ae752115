//! The JITs of all processes: which files to read next, and for how long.
//!
//! Live, a visit is a slice of work, and the user's next visit follows after a pause, so that one user's files do not
//! delay the names of others. Files of a recording are read to their end at once.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::Jit;
use super::reuse::CodeChange;
use super::slice::VisitBudget;
use crate::session::{Dso, DsoId};
use crate::symbols::names::table::Symbol;
use crate::symbols::options::SymbolOptions;

/// A user's pause between visits, as a multiple of the last visit's duration.
const PAUSE: u32 = 4;
/// How long a JIT that was evicted for others' names is not read again.
const REST: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct One {
    jit: Jit,
    dso: Dso,
    /// The round of the last visit.
    visited: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Jits {
    list: FxHashMap<DsoId, One>,
    /// When a user's files may be visited next.
    pauses: FxHashMap<u32, Instant>,
    /// Until when evicted JITs are left alone; forever in a recording.
    resting: FxHashMap<DsoId, Option<Instant>>,
    round: u64,
    /// Code changes at reused addresses that are not yet collected. Only running processes report them.
    changes: Vec<(DsoId, CodeChange)>,
}

#[derive(Debug)]
pub(crate) struct JitVisit {
    pub(crate) dso: DsoId,
    pub(crate) user: u32,
    pub(crate) memory: usize,
    pub(crate) result: Result<(), String>,
    pub(crate) left_out: Option<String>,
}

impl Jits {
    pub(crate) fn find(&self, dso: DsoId, addr: u64) -> Option<Symbol<'_>> {
        self.list.get(&dso)?.jit.find(addr)
    }

    /// Adds a process whose functions are requested, with its limit in bytes.
    pub(crate) fn follow(&mut self, dso: &Dso, options: &SymbolOptions, most: usize) {
        if let Some(until) = self.resting.get(&dso.id) {
            if until.is_none_or(|until| Instant::now() < until) {
                return;
            }
            self.resting.remove(&dso.id);
        }
        let fresh = || One { jit: Jit::new(dso, options, most), dso: dso.clone(), visited: 0 };
        let one = self.list.entry(dso.id).or_insert_with(fresh);
        if (one.dso.via, &one.dso.dump) != (dso.via, &dso.dump) {
            one.dso = dso.clone();
        }
        one.jit.follow(dso);
    }

    pub(crate) fn is_behind(&self, dso: DsoId) -> bool {
        self.list.get(&dso).is_some_and(|one| one.jit.is_behind())
    }

    pub(crate) fn are_behind(&self) -> bool {
        self.list.values().any(|one| one.jit.is_behind())
    }

    /// Visits one process's files, if they are due and their user does not pause.
    pub(crate) fn visit(&mut self, dso: DsoId, options: &SymbolOptions) -> Option<JitVisit> {
        let one = self.list.get_mut(&dso).filter(|one| one.jit.is_due())?;
        let from = Instant::now();
        if self.pauses.get(&one.jit.user()).is_some_and(|until| from < *until) {
            return None;
        }
        self.round += 1;
        one.visited = self.round;
        let mut result = one.jit.read_on(&one.dso, options, &mut VisitBudget::default());
        while !options.live && one.jit.is_behind() && result.is_ok() {
            result = one.jit.read_on(&one.dso, options, &mut VisitBudget::default());
        }
        self.changes.extend(one.jit.told.take_changes().into_iter().map(|change| (dso, change)));
        let user = one.jit.user();
        let now = Instant::now();
        if options.live {
            self.pauses.retain(|_, until| *until > now);
            self.pauses.insert(user, now + PAUSE * (now - from));
        }
        let left_out = one.jit.take_left_out();
        Some(JitVisit { dso, user, memory: one.jit.memory(), result, left_out })
    }

    /// Returns whether [`Self::read_on`] may get work soon.
    /// Running processes with a jitdump file report code at reused addresses.
    pub(crate) fn follow_code(&self) -> bool {
        self.list.values().any(|one| one.jit.follows_code())
    }

    pub(crate) fn take_changes(&mut self) -> Vec<(DsoId, CodeChange)> {
        std::mem::take(&mut self.changes)
    }

    /// Visits the JIT that waits longest. Candidates are unfinished or report code at reused addresses.
    pub(crate) fn read_on(&mut self, options: &SymbolOptions) -> Option<JitVisit> {
        let now = Instant::now();
        let paused = |user: u32| self.pauses.get(&user).is_some_and(|until| now < *until);
        let next = self.list.values().filter(|one| {
            let is_wanted = one.jit.is_behind() || one.jit.follows_code() && one.jit.is_due();
            is_wanted && !paused(one.jit.user())
        });
        let dso = next.min_by_key(|one| (one.visited, one.dso.id)).map(|one| one.dso.id)?;
        self.visit(dso, options)
    }

    /// Drops a JIT's functions to make room for other names.
    pub(crate) fn rest(&mut self, dso: DsoId, live: bool) {
        self.list.remove(&dso);
        let now = Instant::now();
        self.resting.retain(|_, until| until.is_none_or(|until| now < until));
        self.resting.insert(dso, live.then(|| now + REST));
    }
}
