//! The target of a unit: threads by id and by name.

use globset::{Glob, GlobSet, GlobSetBuilder};
use rustc_hash::FxHashSet;

use super::{Context, Settings};

/// A choice of threads; all of them where nothing was chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThreadChoice {
    tids: FxHashSet<i32>,
    comms: Option<GlobSet>,
}

impl ThreadChoice {
    pub(crate) fn of(settings: &Settings) -> Result<Self, String> {
        let comms = settings.get("comm").map(|list| {
            let mut set = GlobSetBuilder::new();
            for name in list.split(',') {
                set.add(Glob::new(name.trim()).map_err(|error| format!("--comm {name}: {}", error.kind()))?);
            }
            set.build().map_err(|error| format!("--comm {list}: {error}"))
        });
        Ok(Self { tids: settings.tasks.iter().copied().collect(), comms: comms.transpose()? })
    }

    /// Whether a thread is among them, and is one: idle tasks have one number, and so have those outside our PID namespace,
    /// of which no two records are known to be of the same.
    pub(crate) fn follows(&self, tid: i32, cx: &mut Context<'_>) -> bool {
        tid > 0 && self.has(tid, cx)
    }

    /// Whether a thread is among them.
    pub(crate) fn has(&self, tid: i32, cx: &mut Context<'_>) -> bool {
        (self.tids.is_empty() || self.tids.contains(&tid))
            && self.comms.as_ref().is_none_or(|comms| comms.is_match(&*cx.comm(tid)))
    }

    /// A child of one of them is one of them.
    pub(crate) fn follow(&mut self, parent: i32, child: i32) {
        if self.tids.contains(&parent) {
            self.tids.insert(child);
        }
    }
}
