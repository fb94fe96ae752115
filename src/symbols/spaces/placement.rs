//! The files and mappings of a process, in the form in which the kernel has them.

use std::sync::Arc;

use crate::kernel::procfs;
use crate::kernel::walk::{Mapping, Store};
use crate::session::dso::is_anonymous;
use crate::symbols::languages::runtime_file::RuntimeFile;

use super::AddressSpaceTracker;
use super::built_table::Id;
use super::files::Files;
use super::jit::{JitCode, JitSpans};
use super::moved_code::MovedCode;

/// Addresses from here on are the kernel's.
const KERNEL: u64 = 1 << 63;
/// Usual names of libraries that contain an interpreter.
const LIBRARIES: [&[u8]; 5] = [b"/libpython", b"/libphp", b"/libjvm", b"/libruby", b"/libperl"];

/// The file of an interpreter, and the difference of its addresses from the linked ones.
type FoundInterpreter = (Arc<RuntimeFile>, u64);

impl<S: Store> AddressSpaceTracker<S> {
    pub(super) fn place(&mut self, pid: i32, maps: &[procfs::ProcMapping], jit: Option<&JitCode>) -> PlacedProcess {
        let (mut mappings, mut of_files, mut files, mut spans) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut interpreter = self.likely_interpreter(pid, maps);
        let mut all = None;
        for map in maps.iter().filter(|map| map.start < map.end && map.end < KERNEL) {
            let Some(id) = self.files.of(pid, map, &mut self.store) else {
                if let Some(own) = jit.and_then(|jit| jit.place(map, &mut self.store, &mut mappings)) {
                    spans.extend(own);
                } else if let Some((id, moved)) = self.moved_code(pid, map, &mut all) {
                    hold(&mut self.files, id, &mut files);
                    let first = mappings.len();
                    interpreter = interpreter.or_else(|| self.files.interpreter(id, &moved.map));
                    self.files.place(id, &moved.map, &mut mappings);
                    let placed = mappings[first..].iter_mut().filter(|mapping| mapping.span.is_some());
                    placed.for_each(|mapping| mapping.mark = Some(moved.mark));
                } else {
                    mappings.push(Mapping::without_rows(map.start, map.end));
                }
                continue;
            };
            hold(&mut self.files, id, &mut files);
            let first = mappings.len();
            interpreter = interpreter.or_else(|| self.files.interpreter(id, map));
            self.files.is_urgent |= interpreter.is_some() && self.prober.is_some();
            self.files.place(id, map, &mut mappings);
            of_files.extend(mappings[first..].iter().map(|mapping| (id, *mapping)));
        }
        self.files.is_urgent = false;
        PlacedProcess { mappings, of_files, files, jit_spans: JitSpans::new(spans), interpreter }
    }

    /// Returns the text of a file that memory without a file probably has, and the file's table. `all` are the mappings
    /// of the process, once they were read.
    fn moved_code(
        &mut self,
        pid: i32,
        memory: &procfs::ProcMapping,
        all: &mut Option<Vec<procfs::ProcMapping>>,
    ) -> Option<(Id, MovedCode)> {
        is_anonymous(&memory.name).then_some(())?;
        let moved = MovedCode::of(pid, memory, all.get_or_insert_with(|| procfs::maps(pid)))?;
        Some((self.files.of(pid, &moved.neighbour, &mut self.store)?, moved))
    }

    /// Returns the interpreter of a library with a usual name. Its frames do not wait for the rows of other files, so it
    /// is looked at before these; one of another name is found in the order of addresses.
    fn likely_interpreter(&mut self, pid: i32, maps: &[procfs::ProcMapping]) -> Option<FoundInterpreter> {
        self.prober.as_ref()?;
        // A program may embed several. The one of most programs comes first.
        let named = |name: &'static [u8]| maps.iter().filter(|map| memchr::memmem::find(&map.name, name).is_some());
        let found = LIBRARIES.into_iter().flat_map(named).find_map(|map| {
            let id = self.files.of(pid, map, &mut self.store)?;
            self.files.interpreter(id, map)
        });
        self.files.is_urgent = found.is_some();
        found
    }
}

/// The current mappings of a process.
pub(super) struct PlacedProcess {
    pub(super) mappings: Vec<Mapping>,
    pub(super) of_files: Vec<(Id, Mapping)>,
    /// Files, each held once.
    pub(super) files: Vec<Id>,
    pub(super) jit_spans: JitSpans,
    pub(super) interpreter: Option<FoundInterpreter>,
}

pub(super) fn hold(files: &mut Files, file: Id, held: &mut Vec<Id>) {
    if !held.contains(&file) {
        files.take(&[file]);
        held.push(file);
    }
}
