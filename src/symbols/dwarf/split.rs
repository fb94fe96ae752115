//! Split DWARF (DWARF 5, section 7.3.2).
//! The description of a program's functions is in one file per unit, or in one package file; the program itself has
//! little more than the file names. Each file is read when one of its addresses is looked up.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{Dwarf, DwarfPackageSections, DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use object::Object;
use rustc_hash::FxHashMap;

use super::cost::{self, UNREAD};
use crate::perfdata::unpack::UnpackBudget;
use crate::session::Dso;
use crate::symbols::bytes::{Bytes, Part};
use crate::symbols::elf;
use crate::symbols::elf::section::Shape;
use crate::symbols::options::SymbolOptions;
use crate::symbols::trust::door::TrustedUids;
use crate::symbols::trust::find_file::FileSearch;

/// The limit of files open per program.
const MAX_FILES: usize = 2048;

type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
/// Why a section cannot be read, or does not fit the budget.
type SectionError = Box<dyn std::error::Error>;

pub(super) struct SplitFiles {
    dso: Dso,
    options: SymbolOptions,
    namers: TrustedUids,
    /// Units by their DWO ID.
    units: FxHashMap<u64, OnceCell<Option<Loaded<DwarfSections<Part>>>>>,
    package: OnceCell<Option<Loaded<DwarfPackageSections<Part>>>>,
    /// The remaining budget of decompressed bytes, and of open files.
    left: Cell<usize>,
    open: Cell<usize>,
    /// The first file that is missing or of another build.
    missing: RefCell<Option<PathBuf>>,
}

/// The sections of a file, and the byte order of its numbers.
type Loaded<S> = (S, RunTimeEndian);

impl SplitFiles {
    /// Lists the split units of a program; does not look for files yet.
    pub(super) fn of(dso: &Dso, options: &SymbolOptions, namers: &TrustedUids, dwarf: &Dwarf<Slice<'_>>) -> Self {
        let mut units = FxHashMap::default();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next().ok().flatten() {
            let unit = dwarf.unit(header).ok();
            units.extend(unit.and_then(|unit| unit.dwo_id).map(|id| (id.0, OnceCell::new())));
        }
        Self {
            dso: dso.clone(),
            options: options.clone(),
            namers: namers.clone(),
            units,
            package: OnceCell::new(),
            left: Cell::new(options.budget / 4),
            open: Cell::new(0),
            missing: RefCell::new(None),
        }
    }

    /// Completes a lookup by loading the units that it requests.
    pub(super) fn complete<'a, L: LookupContinuation<Buf = Slice<'a>>>(
        &'a self,
        mut lookup: LookupResult<L>,
    ) -> L::Output {
        loop {
            match lookup {
                LookupResult::Output(found) => return found,
                LookupResult::Load { load, continuation } => lookup = continuation.resume(self.load(&load)),
            }
        }
    }

    pub(super) fn take_missing(&self) -> Option<PathBuf> {
        self.missing.take()
    }

    fn load<'a>(&'a self, load: &SplitDwarfLoad<Slice<'a>>) -> Option<Arc<Dwarf<Slice<'a>>>> {
        let found = self.in_package(load).or_else(|| self.in_file(load));
        if found.is_none() && self.missing.borrow().is_none() {
            self.missing.replace(load.path.map(|path| PathBuf::from(OsStr::from_bytes(path.slice()))));
        }
        found.map(Arc::new)
    }

    fn in_package<'a>(&'a self, load: &SplitDwarfLoad<Slice<'a>>) -> Option<Dwarf<Slice<'a>>> {
        let (sections, endian) = self.package.get_or_init(|| self.open_package()).as_ref()?;
        let slice = |part: &'a Part| EndianSlice::new(part, *endian);
        let package = sections.borrow(slice, EndianSlice::new(&[], *endian)).ok()?;
        let mut dwarf = package.find_cu(load.dwo_id, &load.parent).ok()??;
        self.afford(&mut dwarf)?;
        Some(dwarf)
    }

    fn in_file<'a>(&'a self, load: &SplitDwarfLoad<Slice<'a>>) -> Option<Dwarf<Slice<'a>>> {
        let (sections, endian) = self.units.get(&load.dwo_id.0)?.get_or_init(|| self.open_unit(load)).as_ref()?;
        let mut dwarf = sections.borrow(|part| EndianSlice::new(part, *endian));
        dwarf.make_dwo(&load.parent);
        Some(dwarf)
    }

    fn search(&self) -> Option<FileSearch<'_>> {
        let mut places = FileSearch::new(&self.dso, &self.options).ok()?;
        places.door.namers.extend(&self.namers);
        Some(places)
    }

    /// Opens the package file next to the program.
    fn open_package(&self) -> Option<Loaded<DwarfPackageSections<Part>>> {
        let places = self.search()?;
        let mut path = places.path().as_os_str().to_owned();
        path.push(".dwp");
        let bytes = self.take(&places, Path::new(&path))?;
        let file = elf::parse(&bytes).ok()?;
        // The index has the part of each section that belongs to a unit, also of those that are not read.
        let sections = self.sections(&file, &bytes, &[], |one| DwarfPackageSections::load(one))?;
        Some((sections, Shape::of(&file).endian))
    }

    /// Opens a unit's file, which is where it was compiled, or next to the program. In another build it has another ID.
    fn open_unit(&self, load: &SplitDwarfLoad<Slice<'_>>) -> Option<Loaded<DwarfSections<Part>>> {
        let places = self.search()?;
        let text = |text: &Slice<'_>| PathBuf::from(OsStr::from_bytes(text.slice()));
        let path = text(load.path.as_ref()?);
        let compiled = load.comp_dir.as_ref().map_or_else(|| path.clone(), |dir| text(dir).join(&path));
        let beside = places.path().parent().zip(path.file_name()).map(|(dir, name)| dir.join(name));
        std::iter::once(compiled).chain(beside).find_map(|path| {
            let bytes = self.take(&places, &path)?;
            let file = elf::parse(&bytes).ok()?;
            let sections = self.sections(&file, &bytes, &UNREAD, |one| DwarfSections::load(one))?;
            let endian = Shape::of(&file).endian;
            let mut dwarf = sections.borrow(|part| EndianSlice::new(part, endian));
            dwarf.make_dwo(&load.parent);
            let header = dwarf.units().next().ok()??;
            let is_it = dwarf.unit(header).is_ok_and(|unit| unit.dwo_id == Some(load.dwo_id));
            self.afford(&mut dwarf).filter(|()| is_it)?;
            Some((sections, endian))
        })
    }

    fn take(&self, places: &FileSearch<'_>, path: &Path) -> Option<Bytes> {
        if self.open.get() >= MAX_FILES {
            return None;
        }
        let file: File = places.code(path)?;
        self.open.set(self.open.get() + 1);
        Bytes::of(&file).ok()
    }

    fn sections<S>(
        &self,
        file: &elf::Elf<'_>,
        bytes: &Bytes,
        unread: &[SectionId],
        load: impl FnOnce(&mut dyn FnMut(SectionId) -> Result<Part, SectionError>) -> Result<S, SectionError>,
    ) -> Option<S> {
        let mut purse = UnpackBudget::new(self.left.get());
        let mut one = |id: SectionId| {
            let name = id.dwo_name().filter(|_| !unread.contains(&id));
            let section = name.and_then(|name| file.section_by_name(name));
            let part = section.map(|section| Part::of(bytes, &section, &mut purse)).transpose()?;
            Ok(part.flatten().unwrap_or_default())
        };
        let sections = load(&mut one).ok();
        self.left.set(purse.left());
        sections
    }

    /// Charges the cost of reading a unit; `None` if it exceeds the budget.
    fn afford(&self, dwarf: &mut Dwarf<Slice<'_>>) -> Option<()> {
        let mut purse = UnpackBudget::new(self.left.get());
        cost::charge(dwarf, &mut purse).ok()?;
        self.left.set(purse.left());
        Some(())
    }
}
