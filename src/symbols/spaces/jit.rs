//! Code of JITs that write unwind tables to a jitdump file.

use std::sync::Arc;

use crate::kernel::procfs::{self, ProcMapping};
use crate::kernel::walk::{Mapping, RowRange, Store};
use crate::session::dso::is_jitdump;
use crate::symbols::trust::door;
use crate::symbols::unwind::jit::JitRows;

use super::files::place_rows;

/// The code of a process's JIT, from the file that the process has mapped.
#[derive(Debug)]
pub(super) struct JitCode {
    rows: JitRows,
}

impl JitCode {
    /// Opens the jitdump file that a process has mapped, and reads new records. Returns `true` if they had more code.
    pub(super) fn follow(own: &mut Option<Self>, pid: i32, maps: &[ProcMapping]) -> bool {
        if own.is_none() {
            let dump = maps.iter().find(|map| map.inode != 0 && is_jitdump(&map.name));
            let file = dump.and_then(|map| door::mapped(pid, map.start, map.end).ok());
            *own = file.map(|file| Self { rows: JitRows::new(file) });
        }
        own.as_mut().is_some_and(|own| {
            let has_grown = own.rows.read_on();
            maps.iter().filter(|map| map.inode == 0).fold(has_grown, |grown, map| own.find_copies(pid, map) || grown)
        })
    }

    /// Finds code in memory that the file does not report yet.
    fn find_copies(&mut self, pid: i32, map: &ProcMapping) -> bool {
        /// Larger mappings are not searched.
        const MOST: u64 = 1 << 20;
        if map.end.saturating_sub(map.start) > MOST || self.rows.rows(map.start, map.end).is_empty() {
            return false;
        }
        procfs::memory_of(pid, map).is_ok_and(|memory| self.rows.find_copies(map.start, &memory))
    }

    /// Stores the rows of a mapping and adds its mappings. `None` if it does not have rows.
    pub(super) fn place(
        &self,
        map: &ProcMapping,
        store: &mut impl Store,
        out: &mut Vec<Mapping>,
    ) -> Option<Vec<RowRange>> {
        let rows = self.rows.rows(map.start, map.end);
        let spans = store.add(&rows).ok().filter(|spans| !spans.is_empty())?;
        place_rows(&spans, map.start, map, out);
        Some(spans)
    }
}

/// The places of rows that a process shares with its forked children.
#[derive(Clone, Debug)]
pub(super) struct JitSpans(Arc<[RowRange]>);

impl JitSpans {
    pub(super) fn new(spans: Vec<RowRange>) -> Self {
        Self(spans.into())
    }

    /// Releases the rows if no other process uses them.
    pub(super) fn release(self, store: &mut impl Store) {
        if Arc::strong_count(&self.0) == 1 {
            store.release(&self.0);
        }
    }
}
