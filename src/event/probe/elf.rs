//! Functions and static probes of a program, by their offsets in the file. The kernel places probes at file offsets.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::kernel::files::mapped::Mapped;
use crate::lang::nearest_hint;
use crate::perfdata::unpack::{self, UnpackBudget};

use super::ProbeError;
use super::usdt::{self, Usdt};

#[derive(Debug)]
pub(crate) struct ProbedFile {
    path: PathBuf,
    /// (name, offset in the file, size in bytes), sorted by name.
    functions: Vec<(String, u64, u64)>,
    segments: ElfSegments,
    pub(crate) probes: Vec<Usdt>,
}

const MAX_SYMBOLS: usize = 4_000_000;
/// The limit of decompressed bytes of static probe notes.
const MAX_NOTES: usize = 16 << 20;

/// The loaded segments: (address, size in the file, offset in the file).
type ElfSegments = Vec<(u64, u64, u64)>;

fn bytes(path: &Path) -> Result<Mapped, ProbeError> {
    let meta = std::fs::metadata(path).map_err(|error| ProbeError::in_file(path, error))?;
    if !meta.is_file() {
        return Err(ProbeError::in_file(path, "is not a program or library"));
    }
    File::open(path).and_then(|file| Mapped::new(&file)).map_err(|error| ProbeError::in_file(path, error))
}

fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Result<object::File<'a>, ProbeError> {
    let fault = |error| ProbeError::in_file(path, format_args!("cannot be read as an ELF file: {error}"));
    object::File::parse(bytes).map_err(fault)
}

fn segments(file: &object::File<'_>) -> ElfSegments {
    file.segments().map(|s| (s.address(), s.file_range().1, s.file_range().0)).collect()
}

/// Returns the file offset of an address. Addresses without file content cannot hold code.
fn offset(segments: &ElfSegments, address: u64) -> Option<u64> {
    let of = segments.iter().find(|(start, size, _)| address.wrapping_sub(*start) < *size);
    of.map(|(start, _, offset)| address - start + offset)
}

fn probes(file: &object::File<'_>, segments: &ElfSegments) -> Vec<Usdt> {
    let notes =
        file.section_by_name(".note.stapsdt").and_then(|s| unpack::section(&s, &mut UnpackBudget::new(MAX_NOTES)).ok());
    let base = file.section_by_name(".stapsdt.base").map(|s| s.address());
    let probes = notes.map(|notes| usdt::parse(&notes, base, file.is_64(), &|address| offset(segments, address)));
    probes.unwrap_or_default()
}

pub(crate) fn static_probes(path: &Path) -> Result<Vec<Usdt>, ProbeError> {
    let bytes = bytes(path)?;
    let file = parse(path, &bytes)?;
    Ok(probes(&file, &segments(&file)))
}

impl ProbedFile {
    pub(crate) fn open(path: &Path) -> Result<Self, ProbeError> {
        let bytes = bytes(path)?;
        let file = parse(path, &bytes)?;
        let segments = segments(&file);
        let mut functions: Vec<(String, u64, u64)> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|s| s.kind() == SymbolKind::Text && s.is_definition())
            .take(MAX_SYMBOLS)
            .filter_map(|s| Some((s.name().ok()?.to_owned(), offset(&segments, s.address())?, s.size())))
            .collect();
        functions.sort();
        functions.dedup();
        let probes = probes(&file, &segments);
        Ok(Self { path: path.to_owned(), functions, segments, probes })
    }

    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        offset(&self.segments, address)
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = (&str, u64)> {
        self.functions.iter().map(|(name, _, size)| (name.as_str(), *size))
    }

    /// Returns a function's offset in the file, and its length if known. Only function starts are accepted: a probe
    /// inside an instruction would break the program.
    pub(crate) fn function(&self, name: &str) -> Result<(u64, Option<u64>), ProbeError> {
        let fault = |why: String| Err(ProbeError::in_file(&self.path, why));
        let from = self.functions.partition_point(|(known, ..)| known.as_str() < name);
        let same: Vec<_> = self.functions[from..].iter().take_while(|(known, ..)| known == name).collect();
        match same.as_slice() {
            [] if self.functions.is_empty() => fault("has no symbols (it is stripped)".to_owned()),
            [] => {
                let hint = nearest_hint(name, self.functions.iter().map(|(known, ..)| known.as_str()));
                fault(format!("has no function {name}{hint}"))
            }
            [first, rest @ ..] if rest.iter().all(|other| other.1 == first.1) => {
                Ok((first.1, Some(first.2).filter(|size| *size > 0)))
            }
            several => fault(format!("has {} functions called {name}", several.len())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_this_program() {
        let own = ProbedFile::open(&std::env::current_exe().expect("path")).expect("reads");
        let (offset, size) = own.function("main").expect("main");
        assert!(offset > 0 && size.is_some());
        let error = own.function("mian").expect_err("a typo").to_string();
        assert!(error.contains("has no function mian"), "{error}");
        assert!(ProbedFile::open(Path::new("/proc/self/status")).is_err());
        assert!(ProbedFile::open(Path::new("/")).expect_err("a directory").to_string().contains("not a program"));
        assert!(ProbedFile::open(Path::new("/no/such/file")).is_err());
        assert_eq!(static_probes(&std::env::current_exe().expect("path")).expect("reads").len(), own.probes.len());
        assert!(static_probes(Path::new("/")).expect_err("a directory").to_string().contains("not a program"));
    }
}
