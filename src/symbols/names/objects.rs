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
    segments: Vec<Segment>,
}

impl Variables {
    /// Reads a file's variables. Returns `None` if it cannot be read; also returns a user who could have written it.
    pub(crate) fn read(dso: &Dso, options: &SymbolOptions, purse: &mut UnpackBudget) -> Option<(Self, u32)> {
        let image = Image::open(dso, options).ok()?;
        let segments = ElfProgram::of(&image.bytes).ok()?.segments;
        let data = segments.iter().filter(|part| part.is_writable);
        let linked = ElfSegments::new(data.map(|part| (part.address, part.memory, part.address)));
        let table = image.objects(&linked, purse).ok()?;
        image.rest();
        Some((Self { table, segments }, image.user))
    }

    /// Returns the variable at an unmarked address; its bounds are marked. Only writable segments contain variables. A
    /// symbol without a size marks a place, such as the end of the data.
    pub(crate) fn find(&self, at: u64, form: NameForm) -> Option<Symbolized> {
        // The address continues the offsets of the last code before it.
        let code = self.segments.iter().filter(|part| part.is_code && part.offset <= at);
        let code = code.max_by_key(|part| part.offset)?;
        let linked = at.wrapping_sub(code.offset).wrapping_add(code.address);
        let is_in = |part: &Segment| part.is_writable && linked.wrapping_sub(part.address) < part.memory;
        let found = self.table.find_sized(linked).filter(|_| self.segments.iter().any(is_in))?;
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
    use crate::symbols::names::table::{Binding, Raw};

    #[test]
    fn variables_have_a_size_and_are_in_writable_segments() {
        let raw = |start: u64, size: u64, name: &'static str| Raw {
            start,
            size,
            name: name.as_bytes(),
            binding: Binding::Global,
        };
        let table = SymbolTable::build([
            raw(0x2010, 8, "constant"),
            raw(0x3010, 0x20, "queue"),
            raw(0x3018, 0, "inside"),
            raw(0x4100, 0, "marker"),
            raw(0x4f00, 0x200, "longer_than_its_segment"),
            raw(0x4f80, 0, "end"),
        ]);
        let part = |address: u64, size: u64, memory: u64, is_code: bool, is_writable: bool| Segment {
            offset: address - 0x1000,
            size,
            memory,
            address,
            is_code,
            is_writable,
        };
        let code = part(0x1000, 0x1000, 0x1000, true, false);
        let constants = part(0x2000, 0x1000, 0x1000, false, false);
        // Most of the data has no initial values.
        let data = part(0x3000, 0x100, 0x2000, false, true);
        let variables = Variables { table, segments: vec![code, constants, data] };
        let name = |linked: u64| Some(variables.find(linked - 0x1000, NameForm::Plain)?.name.to_string());
        assert_eq!([0x3010, 0x3020, 0x302f].map(name), [(); 3].map(|()| Some("queue".to_owned())));
        assert_eq!(name(0x4f90).as_deref(), Some("longer_than_its_segment"));
        for nothing in [0x2010, 0x300f, 0x3030, 0x4100, 0x4200, 0x5000, 0x5080, 0x6000] {
            assert_eq!(name(nothing), None, "{nothing:#x}");
        }
    }

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
