//! A DSO's file and its separate debug files. They are the sources of functions, unwind tables, lines and code of one
//! mapped file. Each is mapped, never copied, and shared by all users.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use object::{Object, ObjectSection};

use super::bytes::Bytes;
use super::elf::go_table::GoTable;
use super::elf::plt;
use super::elf::program::ElfProgram;
use super::elf::{self, Elf, ElfError, ElfSegments, SymbolSection};
use super::names::table::SymbolTable;
use super::options::SymbolOptions;
use super::problem::Problem;
use super::trust::door::TrustedUids;
use super::trust::find_file::{FileSearch, FoundFile};
use crate::kernel::procfs;
use crate::perfdata::unpack::{self, UnpackBudget};
use crate::record::kinds::BuildId;
use crate::session::{Dso, DsoKind};

/// A file that holds code.
#[derive(Clone, Debug)]
pub struct Image {
    pub(crate) bytes: Bytes,
    pub(crate) build_id: Option<BuildId>,
    /// The loaded segments, which translate file offsets to addresses.
    pub segments: ElfSegments,
    /// A user who could have written it.
    pub(crate) user: u32,
    /// Whether it is proven to be the file that was mapped.
    pub(crate) proven: bool,
    /// The separate debug file, and where it was found.
    pub(crate) debug: Option<(Bytes, PathBuf)>,
    /// The file that several debug files share (dwz).
    pub(crate) shared: Option<Bytes>,
    pub(crate) left_out: Vec<String>,
    /// The users who influenced which files these are, and the file names in them.
    pub(crate) namers: TrustedUids,
}

/// Where a DSO's names come from and what was left out, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameSource {
    /// A description.
    pub text: String,
    /// Whether it is the complete symbol table of the DSO's own file.
    pub is_usual: bool,
}

impl NameSource {
    pub(crate) fn unusual(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_usual: false }
    }
}

/// A file's functions and where they were found.
#[derive(Debug)]
pub struct Functions {
    /// Searched in order.
    pub tables: Vec<SymbolTable>,
    /// Where the names come from.
    pub from: NameSource,
    /// Whether these are all functions, not only the exported ones.
    pub(crate) whole: bool,
}

/// The limit of files read for a checksum. Checksums are needed only for files without a build ID.
const MAX_CHECKED: u64 = 512 << 20;

impl Image {
    /// Opens the file of a DSO and its separate debug files, or returns the reason why the file cannot be used.
    pub fn open(dso: &Dso, options: &SymbolOptions) -> Result<Self, Problem> {
        let opened =
            FileSearch::new(dso, options).map_err(Problem::from).and_then(|places| Self::found(places, dso, options));
        // A running container may have other files at these paths.
        let inside = || Self::found(FileSearch::of_survivor(dso, options)?, dso, options).ok();
        let is_it = |image: &Self| dso.build_id.is_none_or(|id| image.build_id == Some(id));
        opened.or_else(|why| inside().filter(is_it).ok_or(why))
    }

    fn found(mut places: FileSearch<'_>, dso: &Dso, options: &SymbolOptions) -> Result<Self, Problem> {
        let vdso = dso.kind == DsoKind::Vdso;
        // A cached file with this build ID is the right one, whichever file is at its path now.
        let kind = if vdso { "vdso" } else { "elf" };
        let cached = dso.build_id.and_then(|id| places.cached(&id, kind));
        let cached = cached.and_then(|file| Some((Self::of(Bytes::of(&file).ok()?).ok()?, file)));
        if let Some((image, file)) = cached.filter(|(i, _)| i.build_id.is_none() || i.build_id == dso.build_id) {
            places.hear(&file);
            return Ok(image.with_debug(places));
        }
        let (mut user, mut proven) = (0, true);
        let bytes = if vdso {
            if !options.is_own_kernel(dso) {
                return Err("the vDSO of the recorded machine is not available".to_owned().into());
            }
            Bytes::from(procfs::vdso()?)
        } else {
            let FoundFile { file, proven: is_proven } = places.main()?;
            (user, proven) = (owner(&file), is_proven);
            places.hear(&file);
            Bytes::of(&file)?
        };
        let image = Self { user, proven, ..Self::of(bytes).map_err(|e| e.to_string())? };
        match (dso.build_id, image.build_id) {
            (Some(want), have) if have != Some(want) && !vdso => Err(Problem::other_build(have, want)),
            _ => Ok(image.with_debug(places)),
        }
    }

    /// Wraps one file without looking for debug files.
    pub fn of(bytes: Bytes) -> Result<Self, ElfError> {
        let program = ElfProgram::of(&bytes)?;
        let (build_id, segments) = (program.elf.as_ref().and_then(elf::build_id), program.places());
        let (namers, left_out) = (TrustedUids::default(), Vec::new());
        Ok(Self { bytes, build_id, segments, user: 0, proven: true, debug: None, shared: None, left_out, namers })
    }

    /// Finds the separate debug file: by build ID, else by name and checksum.
    fn with_debug(mut self, mut places: FileSearch<'_>) -> Self {
        let by_id = self.build_id.and_then(|id| places.by_build_id(&id));
        let by_id = by_id.and_then(|(file, path)| Some((Bytes::of(&file).ok()?, path, file)));
        let same_id = |bytes: &Bytes| elf::parse(bytes).ok().and_then(|file| elf::build_id(&file)) == self.build_id;
        let found = by_id.filter(|(bytes, ..)| same_id(bytes)).or_else(|| self.linked(&places));
        if let Some((bytes, path, file)) = found {
            self.user = if self.user == 0 { owner(&file) } else { self.user };
            self.debug = Some((bytes, path));
            places.hear(&file);
        }
        if let Some((bytes, file)) = self.find_shared(&places) {
            self.shared = Some(bytes);
            places.hear(&file);
        }
        self.namers = places.door.namers.clone();
        self
    }

    fn linked(&mut self, places: &FileSearch<'_>) -> Option<(Bytes, PathBuf, File)> {
        let bytes = self.bytes.clone();
        let file = elf::parse(&bytes).ok()?;
        let (name, crc) = file.gnu_debuglink().ok()??;
        places.by_link(name).find_map(|(file, path)| {
            let bytes = Bytes::of(&file).ok()?;
            let id = elf::parse(&bytes).ok().and_then(|file| elf::build_id(&file));
            let same = id.is_some() && id == self.build_id
                || match checksum(&file) {
                    Ok(have) => have == crc,
                    Err(why) => {
                        self.left_out.push(format!("{}: {why}", path.display()));
                        false
                    }
                };
            bytes.rest();
            same.then_some((bytes, path, file))
        })
    }

    /// Finds the file that `.gnu_debugaltlink` names, by build ID or by path.
    fn find_shared(&self, places: &FileSearch<'_>) -> Option<(Bytes, File)> {
        let (bytes, path) = match &self.debug {
            Some((bytes, path)) => (bytes, path.clone()),
            None => (&self.bytes, PathBuf::from("/")),
        };
        let file = elf::parse(bytes).ok()?;
        let (name, id) = file.gnu_debugaltlink().ok()??;
        let id = BuildId::new(id)?;
        let found = places
            .by_build_id(&id)
            .map(|(file, _)| file)
            .or_else(|| places.code(&path.parent()?.join(OsStr::from_bytes(name))))?;
        let bytes = Bytes::of(&found).ok()?;
        let same = elf::parse(&bytes).ok().and_then(|file| elf::build_id(&file)) == Some(id);
        same.then_some((bytes, found))
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.files().any(Bytes::is_cut)
    }

    /// Drops the files' pages from memory; the kernel reads them again on demand.
    pub(crate) fn rest(&self) {
        self.files().for_each(Bytes::rest);
    }

    fn files(&self) -> impl Iterator<Item = &Bytes> {
        let others = self.debug.iter().map(|(bytes, _)| bytes).chain(&self.shared);
        others.chain([&self.bytes])
    }

    /// Returns the file with DWARF: the debug file if it has DWARF, else the file.
    pub(crate) fn dwarf(&self) -> &Bytes {
        let has = |bytes: &Bytes| elf::parse(bytes).is_ok_and(|f| f.section_by_name(".debug_info").is_some());
        match &self.debug {
            Some((bytes, _)) if has(bytes) => bytes,
            _ => &self.bytes,
        }
    }

    /// Returns the functions from the best available source. Fails if the file cannot be read or has no functions.
    pub fn functions(&self, purse: &mut UnpackBudget) -> Result<Functions, ElfError> {
        let (mut tables, mut left_out) = (Vec::new(), self.left_out.clone());
        let found = self.gather(&mut tables, &mut left_out, purse)?;
        let why = left_out.join("; ");
        match found {
            Some(whole) if why.is_empty() => Ok(Functions { tables, ..whole }),
            Some(whole) => {
                Ok(Functions { tables, from: NameSource::unusual(format!("{}; {why}", whole.from.text)), ..whole })
            }
            None if why.is_empty() => Err(ElfError::NoSymbols),
            None => Err(ElfError::LeftOut(why)),
        }
    }

    /// Returns functions and data objects in some segments: of the debug file, the symbol table, or the exported
    /// symbols.
    pub(crate) fn objects(&self, segments: &ElfSegments, purse: &mut UnpackBudget) -> Result<SymbolTable, ElfError> {
        let debug = self.debug.iter().map(|(bytes, _)| (bytes, SymbolSection::All));
        let own = [(&self.bytes, SymbolSection::All), (&self.bytes, SymbolSection::Dynamic)];
        let mut last = SymbolTable::default();
        for (bytes, kind) in debug.chain(own) {
            last = match elf::symbols(bytes, kind, segments, true, purse) {
                // Damage, which the functions report.
                Err(ElfError::LeftOut(_)) => continue,
                table => table?,
            };
            if !last.is_empty() {
                break;
            }
        }
        Ok(last)
    }

    /// Fills the tables, and returns where they come from.
    fn gather(
        &self,
        tables: &mut Vec<SymbolTable>,
        left_out: &mut Vec<String>,
        purse: &mut UnpackBudget,
    ) -> Result<Option<Functions>, ElfError> {
        let file = elf::parse(&self.bytes)?;
        let mut add = |tables: &mut Vec<SymbolTable>, made: Result<SymbolTable, ElfError>| match made {
            Ok(table) => {
                let some = !table.is_empty();
                tables.extend(some.then_some(table));
                some
            }
            Err(why @ (ElfError::Refused(_) | ElfError::LeftOut(_))) => {
                left_out.push(why.to_string());
                false
            }
            Err(_) => false,
        };
        let all = |from| Ok(Some(Functions { tables: Vec::new(), from, whole: true }));
        let exported = |from| Ok(Some(Functions { tables: Vec::new(), from, whole: false }));
        let functions = |bytes: &Bytes, kind, purse: &mut UnpackBudget| {
            purse.attempt(|purse| elf::symbols(bytes, kind, &self.segments, false, purse))
        };
        add(
            tables,
            purse.attempt(|purse| plt::table(&file, &self.bytes, &self.segments, purse).map_err(ElfError::from)),
        );
        if let Some((bytes, path)) = &self.debug
            && add(tables, functions(bytes, SymbolSection::All, purse))
        {
            return all(NameSource::unusual(format!("debug file {}", path.display())));
        }
        if add(tables, functions(&self.bytes, SymbolSection::All, purse)) {
            return all(NameSource { text: "symbol table".to_owned(), is_usual: true });
        }
        let mini = self.mini(&file).is_some_and(|packed| {
            let unpacked = |purse: &mut UnpackBudget| {
                let bytes = unpack::xz(MINI, packed, purse)?.into();
                elf::symbols(&bytes, SymbolSection::All, &self.segments, false, purse)
            };
            add(tables, purse.attempt(unpacked))
        });
        if let Some(go) = GoTable::of(&file, &self.bytes)
            && add(tables, purse.attempt(|purse| go.symbols(&self.segments, purse)))
        {
            add(tables, functions(&self.bytes, SymbolSection::Dynamic, purse));
            return all(NameSource::unusual("Go's own table of functions"));
        }
        match (mini, add(tables, functions(&self.bytes, SymbolSection::Dynamic, purse))) {
            (true, _) => all(NameSource::unusual("MiniDebugInfo")),
            (_, true) => exported(NameSource::unusual("exported functions only (it is stripped)")),
            _ if tables.is_empty() => Ok(None),
            _ => exported(NameSource::unusual("stubs only (it is stripped)")),
        }
    }

    /// Returns the compressed ELF file of functions that are not exported (gdb's manual, "MiniDebugInfo").
    fn mini<'d>(&self, file: &Elf<'d>) -> Option<&'d [u8]> {
        file.section_by_name(MINI)?.data().ok()
    }
}

const MINI: &str = ".gnu_debugdata";

/// Returns the build ID of a mapped file in its current state on disk.
pub(crate) fn build_id(dso: &Dso, options: &SymbolOptions) -> Option<BuildId> {
    let bytes = Bytes::of(&FileSearch::new(dso, options).ok()?.main().ok()?.file).ok()?;
    elf::parse(&bytes).ok().and_then(|file| elf::build_id(&file))
}

fn owner(file: &File) -> u32 {
    file.metadata().map_or(0, |meta| meta.uid())
}

/// Computes the checksum of `.gnu_debuglink`. It is the CRC-32 of the whole file, read in pieces.
fn checksum(file: &File) -> io::Result<u32> {
    let len = file.metadata()?.len();
    if len > MAX_CHECKED {
        let words = format!("{} MB are not read to compare checksums", len >> 20);
        return Err(io::Error::other(words));
    }
    let (mut crc, mut piece) = (flate2::Crc::new(), vec![0; 1 << 16]);
    let mut at = 0;
    while at < len {
        let n = file.read_at(&mut piece, at)?;
        if n == 0 {
            break;
        }
        crc.update(&piece[..n]);
        at += n as u64;
    }
    Ok(crc.sum())
}
