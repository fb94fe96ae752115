//! Names of data: objects and functions at an offset of a file, like perf, and static variables at an address of a
//! process. Missing sizes are filled in as in perf.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::demangle::{NameForm, demangle};
use super::loaded::Symbolized;
use super::table::SymbolTable;
use crate::perfdata::unpack::UnpackBudget;
use crate::session::{Dso, DsoId, DsoKind};
use crate::symbols::debug_image::Image;
use crate::symbols::elf::ElfSegments;
use crate::symbols::elf::program::{ElfProgram, Segment};
use crate::symbols::options::SymbolOptions;
use crate::symbols::trust::isolated::run_isolated;

/// The tables of the files that were requested.
#[derive(Debug)]
pub struct Objects {
    options: SymbolOptions,
    /// `None` for files that cannot be read.
    files: FxHashMap<DsoId, Option<SymbolTable>>,
}

impl Objects {
    pub(crate) fn new(options: SymbolOptions) -> Self {
        Self { options, files: FxHashMap::default() }
    }

    /// Returns the object at an offset of a file, and the offset into the object.
    pub(crate) fn find(&mut self, dso: &Dso, offset: u64) -> Option<(Arc<str>, u64)> {
        if dso.kind != DsoKind::File {
            return None;
        }
        let table = self.files.entry(dso.id).or_insert_with(|| {
            let (dso, options) = (dso.clone(), self.options.clone());
            let read = move || {
                let image = Image::open(&dso, &options).ok()?;
                image.objects(&image.segments, &mut UnpackBudget::new(options.budget)).ok()
            };
            run_isolated(read).ok().flatten()
        });
        let found = table.as_ref()?.find(offset)?;
        Some((demangle(found.name, self.options.form).into(), offset - found.start))
    }
}

/// Marks an address in a mapping of code as one of the file's data after it. User addresses do not have this bit.
const DATA: u64 = 1 << 63;

/// Marks the address of a variable, as [`crate::session::Mappings::data`] returns it.
pub(crate) fn data_address(at: u64) -> u64 {
    at | DATA
}

/// Returns an address without its mark; `None` if it is one of code.
pub(crate) fn unmarked(at: u64) -> Option<u64> {
    (at & DATA != 0).then_some(at & !DATA)
}

/// The static variables of a file, with and without initial values.
#[derive(Debug)]
pub(crate) struct Variables {
    /// By linked address.
    table: SymbolTable,
    code: Vec<Segment>,
}

impl Variables {
    /// Reads a file's variables. Returns `None` if it cannot be read; also returns a user who could have written it.
    pub(crate) fn read(dso: &Dso, options: &SymbolOptions, purse: &mut UnpackBudget) -> Option<(Self, u32)> {
        let image = Image::open(dso, options).ok()?;
        let segments = ElfProgram::of(&image.bytes).ok()?.segments;
        let (code, data): (Vec<Segment>, Vec<Segment>) = segments.into_iter().partition(|part| part.is_code);
        let linked = ElfSegments::new(data.iter().map(|part| (part.address, part.memory, part.address)));
        let table = image.objects(&linked, purse).ok()?;
        image.rest();
        Some((Self { table, code }, image.user))
    }

    /// Returns the variable at an unmarked address; its bounds are marked.
    pub(crate) fn find(&self, at: u64, form: NameForm) -> Option<Symbolized> {
        // The address continues the offsets of the last code before it.
        let code = self.code.iter().filter(|part| part.offset <= at).max_by_key(|part| part.offset)?;
        let linked = at.wrapping_sub(code.offset).wrapping_add(code.address);
        let found = self.table.find(linked)?;
        let start = data_address(at.wrapping_sub(linked - found.start));
        let name = demangle(found.name, form).into();
        Some(Symbolized { start, end: start.saturating_add(found.end - found.start), name, is_symbol: true })
    }

    pub(crate) fn memory(&self) -> usize {
        self.table.memory()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::session::{Origin, Session};
    use crate::symbols::Resolver;

    static WITHOUT_VALUE: [AtomicU32; 8] = [const { AtomicU32::new(0) }; 8];
    static WITH_VALUE: AtomicU32 = AtomicU32::new(7);

    #[test]
    fn variables_are_found_from_the_code_before_them() {
        let mut session = Session::new(Origin::Live);
        let pid = std::process::id() as i32;
        session.task(pid, pid);
        let mut resolver = Resolver::new(SymbolOptions::live());
        WITHOUT_VALUE[2].store(WITH_VALUE.load(Ordering::Relaxed), Ordering::Relaxed);
        let heap = Box::new(0u32);
        let mut name = |addr: u64| {
            let (map, ip) = session.places(pid).data(addr)?;
            let at = session.dsos.map_of(map).to_dso(data_address(ip));
            let found = resolver.resolve(session.dsos.of_map(map), at)?;
            Some((found.name.rsplit("::").next()?.to_owned(), at - found.start, found.end - found.start))
        };
        let word = std::ptr::from_ref(&WITHOUT_VALUE[2]) as u64;
        assert_eq!(name(word), Some(("WITHOUT_VALUE".to_owned(), 8, 32)));
        assert_eq!(name(std::ptr::from_ref(&WITH_VALUE) as u64), Some(("WITH_VALUE".to_owned(), 0, 4)));
        assert_eq!(name(std::ptr::from_ref(&*heap) as u64), None);
        assert_eq!(name(std::ptr::from_ref(&word) as u64), None, "the stack");
        assert_eq!(name(0), None);
    }
}
